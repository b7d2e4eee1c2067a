"""Quirks of a model at its origin: how a refusal shows one, and how requests then change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from duckflow_tui.llm.codec_json import JsonRung
from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.state.base import JsonObject, hash_data

Rung = Literal["tools", "json_schema", "json_object", "text"]

_NAMED: Final = (400, 422)  # statuses whose message names what was refused
_LATE: Final = (404, 500, 501)  # some servers answer so for native calls, in these very words
_CALLS: Final = (
    r"(?:tools?|tool[_ -]?(?:choice|use|calls?|calling)|functions?|function[_ -]?call\w*)"
)
_NOT: Final = (
    r"(?:not (?:currently )?(?:support|available|enabled|allow|permit|implement|accept)\w*"
    r"|unsupported|unknown|unrecognized|unexpected|disabled|requires|extra inputs)"
)
#: Native calls are not to be had, in the words of servers: that calls are spoken of is not enough.
_NO_TOOLS: Final = re.compile(
    rf"\b{_CALLS}\b.{{0,80}}?\b{_NOT}"
    rf"|\b(?:not?|cannot|n't|that)\b.{{0,20}}?\b(?:support|accept|allow|implement)\w*\b.{{0,40}}?\b{_CALLS}\b"
    rf"|\b(?:unsupported|unknown|unrecognized|unexpected)\b.{{0,40}}?\b{_CALLS}\b"
    r"|invalid schema for function|--jinja|--enable-auto-tool-choice",
    re.I | re.S,
)
#: The chat template of the model takes only user and assistant, in turn.
_ROLES: Final = re.compile(
    r"roles? must alternate|alternat\w* .{0,40}\broles?\b|only user.{0,20}assistant.{0,20}roles?"
    r"|system message must be (?:at the beginning|first)|unexpected role '?user'? after role",
    re.I,
)
_NO_SYSTEM: Final = re.compile(
    r"system (?:role|message|prompt)s? .{0,20}?not support|not support\w* .{0,20}?\bsystem"
    r"|only user.{0,20}assistant.{0,20}roles?",
    re.I,
)
_NO_STREAM: Final = re.compile(
    r"verified to stream|stream(?:ing)?\b.{0,20}not support|not support\w* stream(?:ing)?\b(?!_)",
    re.I,
)
#: The server could not read what the model wrote as a call; asked again, it may write it well.
_MISWRITTEN: Final = re.compile(
    r"tool_use_failed|failed to call a function|json_validate_failed|failed to (?:validate|generate"
    r") json", re.I
)  # fmt: skip
#: Native calls are taken only without thinking (OpenAI from gpt-5.4 on).
_NO_EFFORT: Final = re.compile(r"function tools with reasoning_effort are not supported", re.I)
_SHORT_IDS: Final = re.compile(r"tool call id .{0,200}length of 9", re.I | re.S)
_SHORT_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
#: In the words of servers. The last two: a message with calls wants the thoughts that led to
#: them, and these are of another model, or gone.
_RULES: Final[dict[Rule, re.Pattern[str]]] = {
    "no_effort": _NO_EFFORT,
    "short_ids": _SHORT_IDS,
    "reasoning_content": re.compile(
        r"reasoning_content.{0,80}?(?:must be passed back|is missing)", re.I | re.S
    ),
    "thought_signature": re.compile(r"missing a `?thought_signature", re.I),
    "no_marks": re.compile(r"cache_control|content.{0,80}?(?:must|should|valid).{0,20}?str", re.I),
}
_SEEN: Final = "(results seen)"  # between results and what the user said after them
_NOT_KEPT: Final = "(not kept)"  # some refuse an empty text
_UNSIGNED: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_FORMAT: Final = re.compile(
    r"response[_ ]?format|json[_ ]?(?:schema|object|mode)|structured output|grammar|guided", re.I
)
_DROPPABLE: Final = (
    "stream_options", "temperature", "reasoning_effort", "max_completion_tokens", "max_tokens"
)  # fmt: skip
_FIXED: Final = frozenset({"model", "messages", "stream", "tools", "response_format"})
_SWAP: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_THOUGHTS: Final = frozenset(
    {"reasoning_content", "reasoning", "reasoning_details", "extra_content"}
)
#: A field of reasoning is named as one that is too much, not as one that is missing.
_UNWANTED: Final = re.compile(
    r"(?:reasoning(?:_content|_details)?|extra_content)\b.{0,200}?\b(?:remove|not (?:permitted"
    r"|allowed|supported|expected)|unsupported|unknown|unrecognized|unexpected|forbidden)"
    r"|(?:unknown|unrecognized|unexpected|unsupported|extra)\b.{0,60}?"
    r"\b(?:reasoning(?:_content|_details)?|extra_content)\b",
    re.I | re.S,
)
_STEPS: Final[dict[Rung, JsonRung]] = {
    "tools": "json_schema",
    "json_schema": "json_object",
    "json_object": "text",
}


Rule = Literal[
    "no_stream", "no_effort", "short_ids", "reasoning_content", "thought_signature", "no_marks"
]
Lesson = Literal[
    "tools", "failing", "effort", "format", "roles", "parameter", "thoughts", "version", ""
]  # fmt: skip


@dataclass(slots=True)
class Learned:
    """The features that a model at its origin has not refused. Starts with all it could be; only
    ever gets smaller.
    """

    tools: bool = True
    json: JsonRung = "json_schema"
    dropped: set[str] = field(default_factory=set[str])
    limit_name: str = "max_tokens"
    thoughts: bool = True  # its own reasoning is sent back with its messages
    roles: Literal["any", "in_turn", "no_system"] = "any"  # that its chat template takes
    whole: bool = field(
        default=False, init=False
    )  # its last answer came in one piece, though a stream was asked for
    native: Literal["", "taken", "failing"] = field(
        default="", init=False
    )  # a request with native calls was answered; or all failed, and one without was answered
    rules: set[Rule] = field(default_factory=set["Rule"])  # that are of one maker alone
    at: float = 0.0  # seconds since the epoch, of the first refusal

    def rung(self, protocol: Protocol, *, calls: bool) -> Rung:
        """Where the next request starts; ``calls`` is false for what is JSON anyway."""
        if (
            not calls
            or protocol == "json"
            or (protocol == "auto" and (not self.tools or self.native == "failing"))
        ):
            return self.json
        return "tools"

    def learn(self, error: LlmError, body: JsonObject, rung: Rung, protocol: Protocol) -> Lesson:
        """Learn from a refusal, so that asking again makes sense; empty for no lesson."""
        if error.code not in ("bad_request", "not_found", "server_error"):
            return ""
        if error.status in _NAMED:
            wanted: set[Rule] = {
                rule for rule, words in _RULES.items() if words.search(error.message)
            }
            if isinstance(body["messages"][0]["content"], str):
                wanted.discard("no_marks")  # there were none
            if not wanted <= self.rules:
                self.rules |= wanted
                return "effort" if "no_effort" in wanted else "parameter"
        if error.status in (*_NAMED, 500) and self.roles != "no_system":
            in_turn, no_system = (p.search(error.message) for p in (_ROLES, _NO_SYSTEM))
            if in_turn or no_system:
                self.roles = "no_system" if no_system or self.roles == "in_turn" else "in_turn"
                return "roles"
        if error.status in _NAMED and body["stream"] and _NO_STREAM.search(error.message):
            self.rules.add("no_stream")
            self.dropped.add("stream_options")
            return "parameter"
        if error.status in _NAMED and (name := self._parameter(error, body)):
            self.dropped.add(name)
            if name in _SWAP and _SWAP[name] not in self.dropped:
                self.limit_name = _SWAP[name]
            return "parameter"
        if error.status in _NAMED and self.thoughts and _UNWANTED.search(error.message):
            self.thoughts = not any(_THOUGHTS & message.keys() for message in body["messages"])
            if not self.thoughts:
                return "thoughts"
        return self._step_down(error, rung, protocol)

    def arranged(self, messages: Sequence[JsonObject]) -> list[JsonObject]:
        """The messages as this model takes them: neighbours of the user as one, nothing of the user
        right behind results, the system message as the user's first words where there may be none;
        ids and thoughts of calls as they are wanted.
        """
        made: list[JsonObject] = []
        for message in messages:
            role = message["role"]
            if self.roles == "no_system" and role == "system":
                role, message = "user", {**message, "role": "user"}
            before = made[-1] if made else {"role": ""}
            if role == "user" and self.roles != "any" and before["role"] in ("user", "tool"):
                # The last message tells how the work stands, and may stand in the last result.
                if before["role"] == "user" or message is messages[-1]:
                    text = f"{before['content']}\n\n{message['content']}"
                    made[-1] = {**before, "content": text}
                    continue
                made.append({"role": "assistant", "content": _SEEN})
            made.append(self._with_calls(message))
        return made

    def _with_calls(self, message: JsonObject) -> JsonObject:
        """The message with the ids that are wanted, and what stands in for its thoughts."""
        calls: list[JsonObject] = message.get("tool_calls") or []
        if "short_ids" in self.rules and "tool_call_id" in message:
            message = {**message, "tool_call_id": _short_id(message["tool_call_id"])}
        if "short_ids" in self.rules and calls:
            calls = [{**call, "id": _short_id(call["id"])} for call in calls]
        if "thought_signature" in self.rules and calls and "extra_content" not in calls[0]:
            calls = [{**calls[0], "extra_content": _UNSIGNED}, *calls[1:]]
        if calls:
            message = {**message, "tool_calls": calls}
        if "reasoning_content" in self.rules and calls and not message.get("reasoning_content"):
            message = {**message, "reasoning_content": _NOT_KEPT}
        return message

    def _parameter(self, error: LlmError, body: JsonObject) -> str:
        """The parameter of this request that the message names."""
        sent = [name for name in body if name in _DROPPABLE]
        extra = [name for name in body if name not in _DROPPABLE and name not in _FIXED]
        candidates = sent + extra
        if (root := error.param.split(".")[0]) in candidates:
            return root
        for name in sorted(candidates, key=len, reverse=True):
            if re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", error.message):
                return name
        return ""

    def _step_down(self, error: LlmError, rung: Rung, protocol: Protocol) -> Lesson:
        words = f"{error.param} {error.message}"
        if rung == "tools":
            if protocol == "tools" or error.status not in (*_NAMED, *_LATE):
                return ""
            if not _NO_TOOLS.search(words):
                return ""
            self.tools = False
            return "tools"
        if rung == "text" or error.status not in _NAMED or not _FORMAT.search(words):
            return ""
        self.json = _STEPS[rung]
        return "format"


def _short_id(given: str) -> str:
    return given if _SHORT_ID.fullmatch(given) else hash_data(given)[:9]


def is_lasting(error: LlmError, rung: Rung) -> bool:
    """Whether a server error is a refusal in truth, so that to send the same again is no use."""
    if error.status not in _LATE:
        return False
    words = error.message
    no_tools = rung == "tools" and _NO_TOOLS.search(words)
    return bool(no_tools or _ROLES.search(words) or _NO_SYSTEM.search(words))


def is_miswritten(error: LlmError) -> bool:
    """Whether the server refused its own model's call; the next answer may be another one."""
    words = f"{error.reason} {error.message}"
    return error.status in _NAMED and _MISWRITTEN.search(words) is not None
