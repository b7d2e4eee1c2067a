"""One question on its way to an answer: its books, and what a model has refused before."""

from __future__ import annotations

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from duckflow_tui.llm.codec import Decoder, WireRequest
from duckflow_tui.llm.codec_json import JsonRung
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.connections import changing, write_private
from duckflow_tui.llm.endpoints import OPENAI_ORIGIN, Endpoint, Protocol
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.known_models import ModelFacts
from duckflow_tui.state.base import Clock, JsonObject, canonical_json, hash_data
from duckflow_tui.state.usage import CallOutcome, LlmCall, Purpose, Role, Waiting

Rung = Literal["tools", "json_schema", "json_object", "text"]

ACTION_TEMPERATURE: Final = 0.1  # S3-11: what is done should follow from what is there
_MILLION: Final = 1_000_000
# Scripts that tokenizers cut into about one token a character; others give about four to one.
_DENSE: Final = re.compile(
    "[\u0e00-\u0eff\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]"
)
_CHARS_A_TOKEN: Final = 4
#: Where requests say what is to be cached, and how; Anthropic's models only by marks.
_CACHES: Final[dict[str, Literal["marks", "key"]]] = {
    OPENAI_ORIGIN: "key",
    "https://openrouter.ai:443": "marks",
    "https://api.anthropic.com:443": "marks",
}
_EPHEMERAL: Final = {"type": "ephemeral"}
#: Characters of thought and text of one answer. Models write at most 128,000 tokens, half as much.
MAX_TEXT: Final = 1_000_000
_MOST_CHARS_A_TOKEN: Final = 40  # no text takes as little; a server that reports less counts wrong
_MESSAGE_OVERHEAD: Final = 4  # tokens around each message: its role and separators


class ReplyObserver:
    """Hears a reply arrive, in plain calls on the loop. This one shows nothing of it."""

    def reply(self, text: str) -> None:
        """A new piece of what the user reads."""

    def reasoning(self, text: str) -> None:
        """A new piece of the model's reasoning."""

    def waiting(self, waiting: Waiting | None) -> None:
        """The call does not move, or (None) moves again."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The figures of safety: times in seconds. Sleep and randomness can be handed in."""

    retries: int = 5
    total_s: float = 60.0  # of one call's retries in all, and the longest Retry-After
    base_s: float = 1.0  # doubled at each retry; the wait is a random part of it
    cap_s: float = 20.0
    silent_s: float = 10.0  # of silence until it is shown
    connect_s: float = 15.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random  # 0.0 to 1.0


class Target(NamedTuple):
    """A model on its endpoint."""

    endpoint: Endpoint
    model: str


_UNKNOWN: Final = ModelFacts()


@dataclass(slots=True)
class Exchange:
    """One question: how it is written for each rung, what came of it so far, what it took."""

    llm_id: str
    role: Role
    purpose: Purpose
    target: Target
    clock: Clock
    observer: ReplyObserver
    encode: Callable[[Rung], WireRequest]
    calls: bool = True  # whether it is a decision: native calls may be used
    thread: str = field(default="", init=False)  # id of the work that asks
    rung: Rung = field(default="tools", init=False)
    plain: bool = field(default=False, init=False)  # JSON, because calls made the server fail
    attempts: int = field(default=0, init=False)  # HTTP requests
    request: WireRequest | None = field(default=None, init=False)  # its newest form
    completion: Completion | None = field(default=None, init=False)  # of the last HTTP request
    decoder: Decoder | None = field(default=None, init=False)  # of the same; a question has none
    shown: bool = field(default=False, init=False)  # whether the user has seen a part of it
    room: int = field(default=0, init=False)  # characters of thought and text that may still come
    facts: ModelFacts = field(default=_UNKNOWN, init=False)  # that count of the model
    started: float = field(init=False)  # monotonic

    def __post_init__(self) -> None:
        self.started = self.clock.monotonic()

    @property
    def in_calls(self) -> bool:
        """Whether the answer has come to its calls."""
        if self.completion is not None and self.completion.calls:
            return True
        return self.decoder is not None and self.decoder.in_calls

    @property
    def may_retry(self) -> bool:
        """Whether nothing of the answer was shown and no call of it has begun."""
        return not self.shown and not self.in_calls

    def begin(self) -> Completion:
        """A fresh completion for the next HTTP request."""

        def reply(text: str) -> None:
            self.shown = True
            room, self.room = self.room, self.room - len(text)
            if room >= 0:  # what comes behind the end is not shown
                self.observer.reply(text[:room])
                if self.room < 0:
                    raise self.error("too_large", f"over {MAX_TEXT:,} characters")

        def reasoning(text: str) -> None:
            self.shown = True
            room, self.room = self.room, self.room - len(text)
            if room >= 0:
                self.observer.reasoning(text[:room])
                if self.room < 0:
                    raise self.error("too_large", f"over {MAX_TEXT:,} characters")

        request = self.request
        assert request is not None  # written before it is sent
        self.attempts += 1
        self.shown, self.room = False, MAX_TEXT
        self.decoder = request.decoder(reply) if request.decoder is not None else None
        # A question's JSON is read when it is whole, and shown to nobody.
        content = self.decoder.content if self.decoder is not None else self.observer.reply
        self.completion = Completion(content, reasoning, self.clock)
        return self.completion

    def body(self, learned: Learned) -> JsonObject:
        """The body of the request, without what the model refused before. Decisions are asked for
        at a low temperature, unless the settings name one (S3-11).
        """
        endpoint, request = self.target.endpoint, self.request
        assert request is not None  # written before it is sent
        temperature = endpoint.temperature
        if temperature is None and self.calls:
            temperature = ACTION_TEMPERATURE
        body: JsonObject = {
            **endpoint.extra_body,
            "stream_options": {"include_usage": True},
            "temperature": temperature,
            "reasoning_effort": endpoint.reasoning_effort,
            learned.limit_name: endpoint.max_output,
        }
        cache = endpoint.cache
        if cache == "auto":
            cache = _CACHES.get(endpoint.origin, "off")
            if cache == "marks" and "claude" not in self.target.model:
                cache = "off"
        if cache == "key":
            body["prompt_cache_key"] = hash_data(str(request.messages[0]["content"]))[:32]
        if self.rung == "tools" and "no_effort" in learned.rules:
            body["reasoning_effort"] = "none"
        for name in [*body]:
            if body[name] is None or name in learned.dropped:
                del body[name]
        is_plain = learned.roles == "any" and not learned.rules
        messages = request.messages if is_plain else learned.arranged(request.messages)
        if cache == "marks" and "no_marks" not in learned.rules:
            messages = _marked(messages, with_tail=self.calls)
        body |= {
            "model": self.target.model,
            "messages": messages,
            "stream": "no_stream" not in learned.rules,
        }
        if request.tools:
            body["tools"] = request.tools
        if request.response_format is not None:
            body["response_format"] = request.response_format
        return body

    def error(
        self, code: Literal["filtered", "empty", "server_error", "too_large"], detail: str = ""
    ) -> LlmError:
        """Of an answer that says nothing, does not end, or broke off by its own word."""
        endpoint, model = self.target
        return LlmError(
            code, endpoint=endpoint.name, model=model, host=endpoint.host, detail=detail
        )

    def close(self, outcome: CallOutcome, error: str = "") -> LlmCall:
        """The finished record of the call, with what arrived of an answer."""
        endpoint, model = self.target
        tokens_in, tokens_out, cached, reasoning, estimated = self._tokens()
        cost = self.price(tokens_in, cached, tokens_out)
        first = self.completion.first_token_at if self.completion is not None else None
        return LlmCall(
            llm_id=self.llm_id,
            role=self.role,
            purpose=self.purpose,
            endpoint=endpoint.name,
            model=model,
            tokens_in=tokens_in,
            tokens_cached=cached,
            tokens_out=tokens_out,
            tokens_reasoning=reasoning,
            estimated=estimated,
            cost=cost,
            duration_s=max(self.clock.monotonic() - self.started, 0.0),
            first_token_s=None if first is None else max(first - self.started, 0.0),
            outcome=outcome,
            error=error,
            attempts=max(self.attempts, 1),
        )

    def price(self, tokens_in: int, cached: int, tokens_out: int) -> float | None:
        """US dollars for so many tokens; ``cached`` are those of the prompt that came from a cache.
        None where neither price is known.
        """
        facts = self.facts
        if facts.price_in is None and facts.price_out is None:
            return None
        price_in, price_out = facts.price_in or 0.0, facts.price_out or 0.0
        spared = 0.0 if facts.price_cached is None else cached * (price_in - facts.price_cached)
        return (tokens_in * price_in - spared + tokens_out * price_out) / _MILLION

    def _tokens(self) -> tuple[int, int, int, int, bool]:
        """In, out, cached, reasoning; and whether they are our own estimate."""
        completion, request = self.completion, self.request
        if completion is None or (completion.first_token_at is None and not completion.usage):
            return 0, 0, 0, 0, False
        usage = completion.usage
        written = sum(map(len, map(str, request.messages))) if request is not None else 0
        if usage is not None and usage.prompt_tokens > written // _MOST_CHARS_A_TOKEN:
            tokens = usage.prompt_tokens, usage.completion_tokens
            return *tokens, usage.cached, usage.reasoning, False
        reasoning = estimated_tokens(completion.reasoning)
        said = reasoning + estimated_tokens(completion.text)
        for call in completion.calls:
            said += estimated_tokens(call.name + call.argument_text)
        asked = 0
        if request is not None:
            for message in request.messages:
                asked += estimated_tokens(str(message.get("content") or "")) + _MESSAGE_OVERHEAD
                if "tool_calls" in message:
                    asked += estimated_tokens(canonical_json(message["tool_calls"]))
            if request.tools:
                asked += estimated_tokens(canonical_json(request.tools))
        return asked, said, 0, reasoning, True


def _marked(messages: Sequence[JsonObject], *, with_tail: bool) -> list[JsonObject]:
    """The messages with marks where a prefix ends that the next request begins with too: behind the
    system message, and behind the last before the tail. Two of the four marks that there may be.
    """
    made = [*messages]
    last = len(made) - 2 if with_tail else 0
    while last > 0 and not made[last]["content"]:  # nothing empty may be marked
        last -= 1
    for place in {0, max(last, 0)}:
        part = {"type": "text", "text": made[place]["content"], "cache_control": _EPHEMERAL}
        made[place] = {**made[place], "content": [part]}
    return made


def estimated_tokens(text: str) -> int:
    """Tokens of a text, judged by its script: Japanese one a character, English one in four."""
    if text.isascii():
        return -(-len(text) // _CHARS_A_TOKEN)
    dense = len(_DENSE.findall(text))
    return dense + -(-(len(text) - dense) // _CHARS_A_TOKEN)


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


class LearnedModels:
    """The refusals of each model at its origin, kept in a file for a week: servers are renewed.
    ``models`` are by origin and model. ``on_lesson`` hears of a lesson, and of whom it is.
    """

    def __init__(
        self,
        path: Path | None = None,
        now: float = 0.0,
        on_lesson: Callable[[Lesson, Target], None] = lambda lesson, target: None,
    ) -> None:
        """Reads the file; without a ``path`` nothing is kept. ``now``: seconds since the epoch."""
        self._path = path
        self._on_lesson = on_lesson
        self.models: defaultdict[str, Learned] = defaultdict(Learned)
        self.models.update(self._kept(now))

    def keep(self, lesson: Lesson, target: Target, now: float) -> None:
        """Write down what was learned just now, unless it only looks so: failures without a reason
        count in this session. A disk that fails costs the memory of it.
        """
        self._on_lesson(lesson, target)
        if lesson == "failing":
            return
        name = self.name_of(target)
        known = self.models[name]
        known.at = known.at or now
        self._write(lambda kept: kept.update({name: known}), now)

    def _kept(self, now: float) -> dict[str, Learned]:
        """Read the file, leaving out entries older than a week."""
        known: dict[str, Learned] = {}
        if self._path is not None:
            with suppress(OSError, ValidationError):
                data = self._path.read_bytes()
                known = _LEARNED.validate_json(data) if len(data) <= _MOST_LEARNED else {}
        return {name: entry for name, entry in known.items() if now - entry.at < LEARNED_FOR}

    def _write(self, change: Callable[[dict[str, Learned]], object], now: float) -> None:
        """Change the file, and nothing in it of what another program of ours has learned."""
        if self._path is None:
            return
        with suppress(OSError), changing(self._path.parent, LEARNED_LOCK_S):
            change(kept := self._kept(now))
            if kept:
                write_private(self._path, _LEARNED.dump_json(kept, indent=1, exclude=_OF_NOW))
            else:
                self._path.unlink(missing_ok=True)

    @staticmethod
    def name_of(target: Target) -> str:
        """The key of a model in ``models``."""
        return f"{target.endpoint.origin} {target.model}"

    def forget(self, target: Target | None = None) -> None:
        """Nothing is known of this model, or of any; the file says so too."""
        if target is None:
            self.models.clear()
            self._write(lambda kept: kept.clear(), 0.0)
        else:
            name = self.name_of(target)
            self.models.pop(name, None)
            self._write(lambda kept: kept.pop(name, None), 0.0)


_LEARNED: Final = TypeAdapter(dict[str, Learned])
_OF_NOW: Final = {"__all__": {"whole", "native"}}  # what is not kept for the next session
_MOST_LEARNED: Final = 1024 * 1024  # bytes
LEARNED_LOCK_S: Final = 0.5  # seconds that the work stands while another program writes
LEARNED_FOR: Final = 7 * 24 * 3600.0  # seconds


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
