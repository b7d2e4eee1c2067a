"""Servers that keep the rules of real providers, for the scripted endpoint to play.

A server answers a request that breaks one of its rules with its provider's own error; else it says
what the model has to say, in its provider's own stream. What the shapes rest on stands at each.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Fault, Reply
from duckflow_tui.state.base import JsonObject, canonical_json

KEY = "zoo-key-0123456789abcdef"
SAID = 34  # tokens that each reply is said to have


class Spoken(NamedTuple):
    """What the model has to say in one reply: text, calls as function and arguments."""

    text: str = ""
    calls: tuple[tuple[str, JsonObject], ...] = ()
    thought: str = ""


def refusal(status: int, body: object, **headers: str) -> Reply:
    """An answer that is an error."""
    text = body if isinstance(body, str) else json.dumps(body)
    return Reply(fault=Fault(status=status, body=text, headers=headers))


def events(made: Iterable[JsonObject | str], *, done: bool = True) -> Reply:
    """A stream of these events; a text goes out as it is, a comment for one."""
    pieces = [
        one if isinstance(one, str) else f"data: {json.dumps(one, ensure_ascii=False)}\n\n"
        for one in made
    ]
    return Reply(raw=(*pieces, "data: [DONE]\n\n") if done else tuple(pieces))


def messages_of(body: JsonObject) -> list[JsonObject]:
    """The messages of a request."""
    found: list[JsonObject] = body["messages"]
    return found


def calls_of(message: JsonObject) -> list[JsonObject]:
    """The native calls of a message."""
    found: list[JsonObject] = message.get("tool_calls") or []
    return found


def asked_for(fields: JsonObject, name: str) -> JsonObject:
    """The object of that name; an empty one without."""
    found: JsonObject | None = fields.get(name)
    return found or {}


def as_decision(spoken: Spoken) -> Spoken:
    """The same reply as the other protocol has it: one JSON object."""
    said: JsonObject = {"rationale": "as asked", "reply": spoken.text, "next_step": "continue"}
    for name, given in spoken.calls:
        if name == "decide":
            said |= given
    said["actions"] = [
        {"operation": name, "args": given} for name, given in spoken.calls if name != "decide"
    ]
    if not said["actions"]:
        said["next_step"] = "done"
    return Spoken(json.dumps(said), thought=spoken.thought)


class Provider:
    """Chat completions as OpenAI defines them: what all providers share.

    Rests on OpenAI's reference of chat completions: tool messages right behind the calls they
    answer, names of functions, arguments that are JSON; a chunk of usage behind the last choice
    where ``include_usage`` asks for it.
    """

    model = "duck-1"
    others: Sequence[str] = ()  # models that it has too
    base = "/v1"  # of the address
    query = ""  # behind the address
    key = KEY  # that it wants; empty for none

    def __init__(self, *spoken: Spoken) -> None:
        self.spoken = deque(spoken)
        self.failing = deque[Reply]()  # what it answers first, whatever it is asked
        self.broken: list[str] = []  # the rules that a request broke, in order
        self.sent: list[JsonObject] = []  # bodies of the main model that it took
        self.said: int = 0  # replies
        self.counts: list[tuple[int, int, int]] = []
        """Of each reply: tokens of the prompt, of the reply, and of the prompt from a cache."""

    def answer(self, request: Request) -> Reply | None:
        """What comes of a request; None leaves it to the script of the endpoint."""
        path = request.path.partition("?")[0]
        if (wrong := self.locked(request)) is not None:
            return wrong
        if request.method == "GET" and path == f"{self.base}/models":
            rows = [{"id": name, "object": "model"} for name in (self.model, *self.others)]
            return refusal(200, {"object": "list", "data": rows})
        if request.method != "POST" or path != f"{self.base}/chat/completions":
            return self.nowhere(request)
        if self.failing:
            return self.failing.popleft()
        if request.json.get("model") != self.model:
            return self.unknown(str(request.json.get("model")))
        if (wrong := self.ordered(request.json) or self.checked(request.json)) is not None:
            self.broken.append((wrong.fault and wrong.fault.body) or "")  # a stream cut at once
            return wrong
        if request.purpose != "main":
            return None
        self.sent.append(request.json)
        self.said += 1
        asked = len(request.raw) // 4
        self.counts.append((asked, SAID, asked // 2))
        spoken = self.spoken.popleft()
        if "tools" not in request.json:
            spoken = as_decision(spoken)
        if request.json.get("stream"):
            return self.stream(spoken, request.json)
        return self.whole(spoken)

    # --- rules -------------------------------------------------------------------------------

    def locked(self, request: Request) -> Reply | None:
        """A request without the key."""
        if not self.key or request.headers.get("authorization") == f"Bearer {self.key}":
            return None
        return self.wrong_key()

    def wrong_key(self) -> Reply:
        words = "Incorrect API key provided: wrong***. You can find your API key at https://x."
        return self.error(401, words, code="invalid_api_key")

    def nowhere(self, request: Request) -> Reply:
        return refusal(404, {"detail": "Not Found"})

    def unknown(self, model: str) -> Reply:
        words = f"The model `{model}` does not exist or you do not have access to it."
        return self.error(404, words, code="model_not_found")

    def ordered(self, body: JsonObject) -> Reply | None:
        """Calls and their results belong together."""
        open_ids: list[str] = []
        for at, message in enumerate(messages_of(body)):
            if message["role"] == "tool":
                if message["tool_call_id"] not in open_ids:
                    return self.error(400, "messages with role 'tool' must be a response to a "
                                      "preceeding message with 'tool_calls'.",
                                      param=f"messages.[{at}].role")  # fmt: skip
                open_ids.remove(message["tool_call_id"])
                continue
            if open_ids:
                break
            if message["role"] == "assistant" and not (message["content"] or calls_of(message)):
                return self.error(400, f"Invalid value for 'content' of messages.[{at}]")
            for call in calls_of(message):
                open_ids.append(call["id"])
                function = call["function"]
                json.loads(function["arguments"])
                assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", function["name"])
                assert len(call["id"]) in range(1, 41)
            assert len(open_ids) == len(set(open_ids))
        if open_ids:
            words = "An assistant message with 'tool_calls' must be followed by tool messages"
            return self.error(400, f"{words} responding to each 'tool_call_id'.")
        return None

    def checked(self, body: JsonObject) -> Reply | None:
        """What this provider alone refuses."""
        return None

    def error(self, status: int, message: str, **fields: Any) -> Reply:
        """An error in its form."""
        kind = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        return refusal(status, {"error": {**kind, **fields}})

    # --- replies -----------------------------------------------------------------------------

    def chunk(self, delta: JsonObject, finish: str | None = None, **fields: Any) -> JsonObject:
        """One event with a choice."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self.about(), "choices": [choice], **fields}

    def about(self) -> JsonObject:
        return {"id": f"gen-{self.said}", "object": "chat.completion.chunk", "created": 1,
                "model": self.model}  # fmt: skip

    def call_id(self, place: int, name: str) -> str:
        return f"call_{self.said:03}{place}aBcDeFgHiJ"

    def usage(self) -> JsonObject:
        asked, said, cached = self.counts[-1]
        return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said,
                "prompt_tokens_details": {"cached_tokens": cached}}  # fmt: skip

    def stream(self, spoken: Spoken, body: JsonObject) -> Reply:
        made = [self.chunk({"role": "assistant", "content": ""})]
        made += self.thinking(spoken)
        made += [self.chunk({"content": word}) for word in re.findall(r"\s*\S+", spoken.text)]
        for place, (name, given) in enumerate(spoken.calls):
            made += self.call(place, name, given)
        made += self.ending("tool_calls" if spoken.calls else "stop", body)
        return events(made)

    def thinking(self, spoken: Spoken) -> list[JsonObject]:
        return []

    def call(self, place: int, name: str, given: JsonObject) -> list[JsonObject]:
        """The name first, then the arguments in two pieces."""
        text = json.dumps(given, ensure_ascii=False)
        half = len(text) // 2
        first = {"index": place, "id": self.call_id(place, name), "type": "function",
                 "function": {"name": name, "arguments": ""}}  # fmt: skip
        pieces = [
            {"index": place, "function": {"arguments": p}} for p in (text[:half], text[half:])
        ]
        return [self.chunk({"tool_calls": [one]}) for one in (first, *pieces)]

    def ending(self, finish: str, body: JsonObject) -> list[JsonObject]:
        made = [self.chunk({}, finish)]
        if asked_for(body, "stream_options").get("include_usage"):
            made.append({**self.about(), "choices": [], "usage": self.usage()})
        return made

    def whole(self, spoken: Spoken) -> Reply:
        """A reply in one piece."""
        message: JsonObject = {"role": "assistant", "content": spoken.text or None}
        if spoken.calls:
            message["tool_calls"] = [
                {"id": self.call_id(place, name), "type": "function",
                 "function": {"name": name, "arguments": canonical_json(given)}}
                for place, (name, given) in enumerate(spoken.calls)
            ]  # fmt: skip
        finish = "tool_calls" if spoken.calls else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        kind = {**self.about(), "object": "chat.completion"}
        return refusal(200, {**kind, "choices": [choice], "usage": self.usage()})
