"""Scripts of the endpoint: replies by purpose, when each is due, and what goes wrong."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field

from duckflow_tui.llm.codec import DECIDE, OTHER, wire_name
from duckflow_tui.state.base import JsonObject

_RAN: Final = r"\[(?:ok|exit -?\d+)\]"

#: What the model is told of a gate's answer, in either protocol.
_OUTCOMES: Final = {
    "approved": _RAN,
    "once": _RAN,
    "session": _RAN,
    "rejected": r"\[rejected\]|rejected by the user",
    "declined": r"\[declined\]|the user chose the alternative",
    "denied": r"\[denied\]",
    "stopped": r"\[stopped\]",
    "skipped": r"\[skipped\]",
    "error": r"\[(?:error|invalid)\]",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class When(_Part):
    """The conditions on a request for a reply; all that is given must match."""

    gate: str = ""
    """``approved``, ``rejected``, ``declined``, ``denied``, ``error``, ``alternative:2`` …"""
    pattern: str = ""
    """Regular expression, searched in what is new since the last reply (ignores case)."""
    anywhere: str = ""
    """Regular expression, searched in all messages (ignores case)."""

    def matches(self, body: JsonObject) -> bool:
        """Whether a request fulfils all the conditions that are given."""
        fresh = new_text(body)
        if self.gate and not self._matches_gate(fresh, body):
            return False
        if self.pattern and not re.search(self.pattern, fresh, re.I | re.S):
            return False
        return not self.anywhere or bool(re.search(self.anywhere, all_text(body), re.I | re.S))

    def _matches_gate(self, fresh: str, body: JsonObject) -> bool:
        """Whether the new text tells of this outcome of a call; for ``alternative:N`` also whether
        it holds the label of the N-th alternative that the last reply offered.
        """
        kind, _, number = self.gate.partition(":")
        if kind != "alternative":
            return bool(re.search(_OUTCOMES.get(kind, re.escape(kind)), fresh))
        labels = _last_alternatives(body)
        place = int(number or "1") - 1
        if not 0 <= place < len(labels):
            return False
        return bool(re.search(_OUTCOMES["declined"], fresh)) and labels[place] in fresh


class Fault(_Part):
    """A fault instead of, or in the middle of, a reply. Characters are counted over
    content and arguments; reasoning does not count.
    """

    status: int = 200
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    body: str | None = None
    """Sent as it is instead of a reply; with a status over 299 an error object by default."""
    message: str = ""
    """The message of that error object."""
    html: bool = False
    close: bool = False
    """The connection is closed before an answer."""
    cut_after: int | None = None
    """Characters after which the connection is closed."""
    stall_after: int | None = None
    """Characters after which nothing comes for ``stall_s`` seconds."""
    stall_s: float = 0.0
    keepalive_s: float = 0.0
    """Seconds between comments during a stall; 0 for real silence."""
    gzip_bytes: int = 0
    """A compressed body that grows to this many bytes."""


class ScriptedCall(_Part):
    """A native call as it goes over the wire; arguments may be any text."""

    name: str
    arguments: str | JsonObject = ""
    id: str | None = None
    index: int | None = None


class Usage(_Part):
    """Token counts to be stated."""

    prompt: int
    reply: int
    cached: int = 0
    reasoning: int = 0


class Reply(_Part):
    """One reply. A ``decision`` goes out in the protocol that the request asks for."""

    decision: JsonObject | None = None
    data: JsonObject | None = None
    """The object of another purpose."""
    text: str = ""
    """Content as it is."""
    tool_calls: tuple[ScriptedCall, ...] = ()
    raw: tuple[str, ...] = ()
    """Pieces of the body as they are, event framing included, also none or an empty one."""
    reasoning: str = ""
    finish: str = ""
    """The finish_reason; empty for the fitting one."""
    usage: Usage | None = None
    """None: counted roughly from the text."""
    send_usage: bool = True
    chunk_size: int = Field(default=24, ge=1)  # characters
    delay_s: float = Field(default=0.0, ge=0.0)  # before each piece
    first_delay_s: float = Field(default=0.0, ge=0.0)
    when: When | None = None
    repeat: bool = False
    """Whether it stays in the queue after it was sent."""
    hold: str = ""
    """Name of a hold: the rest waits until it is released."""
    hold_after: int = Field(default=0, ge=0)  # characters sent before
    fault: Fault | None = None

    def content_for(self, body: JsonObject) -> tuple[str, tuple[ScriptedCall, ...]]:
        """Return the content and the native calls of this reply for a request: a decision as native
        calls where the request offers functions, else as JSON.
        """
        if self.decision is not None:
            if offered := offered_functions(body):
                return _make_native_calls(self.decision, offered)
            return _object_text(self.decision), ()
        if self.data is not None:
            return json.dumps(self.data, ensure_ascii=False), ()
        return self.text, self.tool_calls


class RefusedPart(_Part):
    """A part of every request's body that this server does not take."""

    name: str  # tools, response_format, json_schema, temperature, stream_options …
    status: int = 400
    message: str = ""

    def refuses(self, body: JsonObject) -> bool:
        """Whether the body holds what is refused."""
        if self.name == "json_schema":
            form = body.get("response_format") or body.get("text", {}).get("format")
            return isinstance(form, dict) and cast("JsonObject", form).get("type") == self.name
        return self.name in body

    @property
    def words(self) -> str:
        """The message of the refusal."""
        return self.message or f"{self.name} is not supported by this model"


class Script(_Part):
    """Replies by purpose, in order; the first one that fits is taken."""

    replies: dict[str, tuple[Reply, ...]] = Field(default_factory=dict[str, tuple[Reply, ...]])
    fallback: dict[str, Reply] = Field(default_factory=dict[str, Reply])
    """For a purpose whose replies are used up or do not fit; ``*`` for any."""
    refuses: tuple[RefusedPart, ...] = ()
    models: tuple[str, ...] = ("scripted",)
    key: str = ""
    """The key that a request must bring; empty for none."""


def new_text(body: JsonObject) -> str:
    """The text of the messages behind the last one of the assistant."""
    messages = list_messages(body)
    start = 0
    for at, message in enumerate(messages):
        if message.get("role") == "assistant":
            start = at + 1
    return "\n".join(_content_text(message) for message in messages[start:])


def all_text(body: JsonObject) -> str:
    """The text of all messages."""
    return "\n".join(_content_text(message) for message in list_messages(body))


def list_messages(body: JsonObject) -> list[JsonObject]:
    """The messages of a request by either API, those of a response as chat completions has them."""
    value: Any = body.get("messages", body.get("input"))
    items = cast("list[object]", value) if isinstance(value, list) else []
    found = [cast("JsonObject", item) for item in items if isinstance(item, dict)]
    if "input" not in body:
        return found
    made: list[JsonObject] = [{"role": "system", "content": body.get("instructions", "")}]
    for message in map(_as_message, found):
        before = made[-1]
        if message["role"] == before["role"] == "assistant":  # items of one reply
            before["content"] += message["content"]
            before.setdefault("tool_calls", []).extend(message.get("tool_calls", []))
        else:
            made.append(message)
    return made


def _as_message(item: JsonObject) -> JsonObject:
    """Return an item of the Responses API as a message of chat completions."""
    match item.get("type"):
        case "function_call":
            function = {name: item.get(name) for name in ("name", "arguments")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        case "function_call_output":
            call_id, output = item.get("call_id"), item.get("output")
            return {"role": "tool", "tool_call_id": call_id, "content": output}
        case "reasoning":
            return {"role": "assistant", "content": ""}
        case _:
            content: Any = item.get("content")
            if isinstance(content, list):
                parts = cast("list[JsonObject]", content)
                content = "".join(str(part.get("text", "")) for part in parts)
            return {"role": item.get("role"), "content": content}


def unpaired_call(body: JsonObject) -> str:
    """The id of a call in the items of a request that has no result, or of a result without its
    call; empty where each has the other one.
    """
    given: Any = body.get("input")
    items = cast("list[JsonObject]", given) if isinstance(given, list) else []
    ids: dict[str, list[str]] = {"function_call": [], "function_call_output": []}
    for item in items:
        if item.get("type") in ids:
            ids[item["type"]].append(str(item["call_id"]))
    made, answered = ids.values()
    alone = (one for one in (*made, *answered) if made.count(one) != 1 or answered.count(one) != 1)
    return next(alone, "")


def offered_functions(body: JsonObject) -> set[str]:
    """The names of the functions that a request by either API offers."""
    tools = cast("list[JsonObject]", body.get("tools") or [])
    return {str(tool.get("function", tool)["name"]) for tool in tools}


def _content_text(message: JsonObject) -> str:
    """Return the text of a message; empty where its content is none."""
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _last_alternatives(body: JsonObject) -> list[str]:
    """The labels that the last reply offered, over all its actions."""
    last = next((m for m in reversed(list_messages(body)) if m.get("role") == "assistant"), None)
    labels: list[str] = []
    if last is None:
        return labels
    for source in (_content_text(last), *_argument_texts(last)):
        try:
            value: object = json.loads(source)
        except ValueError:
            continue
        if isinstance(value, dict):
            labels.extend(_list_labels(cast("JsonObject", value)))
    return labels


def _argument_texts(message: JsonObject) -> list[str]:
    """Return the arguments of a message's native calls as they were sent."""
    found: list[str] = []
    for call in cast("list[JsonObject]", message.get("tool_calls") or []):
        function = cast("JsonObject", call.get("function") or {})
        found.append(str(function.get("arguments", "")))
    return found


def _list_labels(fields: JsonObject) -> list[str]:
    """Alternatives as JSON has them, objects with a label, or as native calls do, texts."""
    made = (cast("list[JsonObject]", fields.get(name) or []) for name in ("actions", "calls"))
    return [
        entry if isinstance(entry, str) else str(entry.get("label", ""))
        for source in (fields, *itertools.chain(*made))
        for entry in cast("list[JsonObject | str]", source.get("alternatives") or [])
    ]


def _object_text(decision: JsonObject) -> str:
    """Return a decision as JSON with rationale and reply in front, as a model writes it."""
    first = {name: decision[name] for name in ("rationale", "reply") if name in decision}
    return json.dumps({**first, **decision}, ensure_ascii=False)


def _make_native_calls(
    decision: JsonObject, offered: set[str]
) -> tuple[str, tuple[ScriptedCall, ...]]:
    """Return the reply's text and its native calls: the judgement first, then each action; one
    whose function is not offered goes by the function for all other calls.
    """
    judgement = {k: v for k, v in decision.items() if k not in ("reply", "actions")}
    calls = [ScriptedCall(name=DECIDE, arguments=judgement)] if judgement else []
    for action in cast("list[JsonObject]", decision.get("actions") or []):
        extras = {k: v for k, v in action.items() if k not in ("operation", "args")}
        arguments = {**cast("JsonObject", action.get("args") or {}), **extras}
        operation = str(action.get("operation", ""))
        name = wire_name(operation)
        if name not in offered and OTHER in offered and "." in operation:
            args = json.dumps(arguments, ensure_ascii=False)
            name, arguments = OTHER, {"name": operation, "args": args}
        calls.append(ScriptedCall(name=name, arguments=arguments))
    return str(decision.get("reply", "")), tuple(calls)
