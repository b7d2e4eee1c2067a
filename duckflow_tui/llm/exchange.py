"""One question to a model from request to answer: its body, tokens, cost and waiting times."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Final, Literal

from duckflow_tui.llm.codec import DECIDE, NOT_SHOWN, Decoder, WireRequest
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.endpoints import OPENAI_ORIGIN, Endpoint, Target
from duckflow_tui.llm.errors import FailureTeller, LlmError
from duckflow_tui.llm.known_models import ModelFacts
from duckflow_tui.llm.learned_models import ModelQuirks, Rung
from duckflow_tui.llm.tokens import estimate_tokens
from duckflow_tui.llm.wire import content_text
from duckflow_tui.state.base import Clock, JsonObject, canonical_json, hash_data
from duckflow_tui.state.operations import IMAGE_TOKENS
from duckflow_tui.state.usage import Api, CallOutcome, LlmCall, Purpose, Role, Waiting

ACTION_TEMPERATURE: Final = 0.1  # S3-11: actions should be reproducible
_EPHEMERAL: Final = {"type": "ephemeral"}
_NO_IMAGES: Final = MappingProxyType[str, str]({})
#: Characters of thought and text of one answer. Models write at most 128,000 tokens, half as much.
MAX_TEXT: Final = 1_000_000
_MOST_CHARS_A_TOKEN: Final = 40  # no text takes as little; a server that reports less counts wrong
_MESSAGE_OVERHEAD: Final = 4  # tokens around each message: its role and separators


class ReplyObserver:
    """Callbacks for a reply as it arrives. This base class ignores everything."""

    def take_reply(self, text: str) -> None:
        """Receive a piece of the reply text."""

    def take_reasoning(self, text: str) -> None:
        """Receive a piece of the reasoning."""

    def set_waiting(self, waiting: Waiting | None) -> None:
        """Receive the reason why the call waits; None when it goes on."""

    def restart_reply(self) -> None:
        """Discard all pieces so far: the reply broke off and is requested again."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long a request is retried; times in seconds."""

    retries: int = 5
    total_s: float = 60.0  # of one call's retries in all, and the longest Retry-After
    base_s: float = 1.0  # doubled at each retry; the wait is a random part of it
    cap_s: float = 20.0
    silent_s: float = 10.0  # of silence until it is shown
    connect_s: float = 15.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random  # 0.0 to 1.0


_UNKNOWN: Final = ModelFacts()


@dataclass(slots=True)
class Exchange:
    """One question with its state: how to encode it for each rung, its requests and completions so
    far.
    """

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
    api: Api = field(default="chat", init=False)
    plain: bool = field(default=False, init=False)  # JSON, because calls made the server fail
    attempts: int = field(default=0, init=False)  # HTTP requests
    request: WireRequest | None = field(default=None, init=False)  # its newest form
    completion: Completion | None = field(default=None, init=False)  # of the last HTTP request
    decoder: Decoder | None = field(default=None, init=False)  # of ``completion``, for decisions
    shown: bool = field(default=False, init=False)  # whether the user has seen a part of it
    shown_images: int = field(default=0, init=False)  # pictures in the newest request
    room: int = field(default=0, init=False)  # characters of thought and text that may still come
    facts: ModelFacts = field(default=_UNKNOWN, init=False)  # that count of the model
    started: float = field(init=False)  # monotonic

    def __post_init__(self) -> None:
        self.started = self.clock.monotonic()

    @property
    def in_calls(self) -> bool:
        """Whether the answer has reached its calls."""
        if self.completion is not None and self.completion.calls:
            return True
        return self.decoder is not None and self.decoder.in_calls

    @property
    def may_retry(self) -> bool:
        """Whether the request may be sent again: no call of the answer is complete, or in JSON,
        none has begun.
        """
        if self.decoder is not None and self.decoder.in_calls:
            return False
        calls = self.completion.calls if self.completion is not None else []
        return not any(call.name != DECIDE and call.is_object for call in calls)

    def begin_completion(self) -> Completion:
        """Start an empty completion for the next HTTP request, and discard what was shown of the
        last one.
        """

        def limit(hear: Callable[[str], None]) -> Callable[[str], None]:
            """Wrap a callback so that text beyond the limit of the answer raises LlmError
            ``too_large``.
            """

            def hear_limited(text: str) -> None:
                self.shown = True
                room, self.room = self.room, self.room - len(text)
                if room >= 0:  # text beyond the limit is not shown
                    hear(text[:room])
                    if self.room < 0:
                        raise self.make_error("too_large", f"over {MAX_TEXT:,} characters")

            return hear_limited

        request = self.request
        assert request is not None  # written before it is sent
        self.attempts += 1
        if self.shown:
            self.observer.restart_reply()
        self.shown, self.room = False, MAX_TEXT
        show = limit(self.observer.take_reply)

        def begin_decoder() -> None:
            """Start a new decoder for the content."""
            self.decoder = request.decoder(show) if request.decoder is not None else None

        def take_content(text: str) -> None:
            """Pass a piece of content to the decoder, or to the observer without one."""
            # A question's JSON is read when it is whole, and shown to nobody.
            (self.decoder.content if self.decoder else self.observer.take_reply)(text)

        def restart() -> None:
            """Discard the text shown so far and decode anew."""
            self.observer.restart_reply()
            begin_decoder()

        begin_decoder()
        reasoning = limit(self.observer.take_reasoning)
        self.completion = Completion(take_content, reasoning, self.clock, restart)
        return self.completion

    def find_images(self) -> dict[str, str]:
        """Return the pictures in the request as SHA-256 and MIME type, newest first."""
        messages = self.request.messages if self.request is not None else ()
        parts = chain.from_iterable(map(_image_parts, reversed(messages)))
        return {part["sha"]: part["mime"] for part in parts}

    def make_body(self, quirks: ModelQuirks, images: Mapping[str, str] = _NO_IMAGES) -> JsonObject:
        """Return the body of the request as a chat completion, adapted to the model's quirks.
        ``images``: data URLs by SHA-256. Decisions use a low temperature unless the settings
        name one (S3-11).
        """
        endpoint, request = self.target.endpoint, self.request
        assert request is not None  # written before it is sent
        temperature = endpoint.temperature
        if temperature is None and self.calls:
            temperature = ACTION_TEMPERATURE
        most = min(filter(None, (endpoint.max_output, quirks.output)), default=None)
        is_chat, cache = self.api == "chat", _choose_cache(*self.target)
        optional: JsonObject = {
            "stream_options": {"include_usage": True} if is_chat else None,
            "temperature": temperature,
            "reasoning_effort": endpoint.reasoning_effort,
            "reasoning_summary": None if is_chat else "auto",
            "include": None if is_chat else ["reasoning.encrypted_content"],
            quirks.limit_name if is_chat else "max_output_tokens": most,
            "tools": request.tools or None,
            "response_format": request.response_format,
        }
        if cache == "key":
            first = str(request.messages[0]["content"])
            optional["prompt_cache_key"] = hash_data(first)[:32]
        body: JsonObject = {
            **endpoint.extra_body,
            **{name: value for name, value in optional.items() if value is not None},
            "model": self.target.model,
            "messages": [_show_images(message, images) for message in request.messages],
            "stream": True,
        }
        quirks.change_body(body)
        if is_chat and cache == "marks" and "no_marks" not in quirks.flags:
            body["messages"] = _mark_cache_points(body["messages"], request.shared)
        return body

    def make_error(
        self, code: Literal["filtered", "empty", "server_error", "too_large"], detail: str = ""
    ) -> LlmError:
        """Make the error of an answer that is empty, filtered, too long or failed."""
        return FailureTeller(*self.target, ()).make_error(code, detail)

    def close_record(self, outcome: CallOutcome, error: str = "") -> LlmCall:
        """Return the final account of the call: tokens, cost, times and outcome."""
        endpoint, model = self.target
        tokens_in, tokens_out, cached, reasoning, estimated = self._count_tokens()
        usage = self.completion.usage if self.completion is not None else None
        cost = usage.cost if usage is not None else None
        if cost is None:
            written = usage.cache_writes if usage is not None and not estimated else 0
            cost = self.facts.prices.cost_of(tokens_in, cached, written, tokens_out)
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

    def _count_tokens(self) -> tuple[int, int, int, int, bool]:
        """Return tokens in, out, cached and of reasoning, and whether they are estimates."""
        completion, request = self.completion, self.request
        if completion is None or (completion.first_token_at is None and not completion.usage):
            return 0, 0, 0, 0, False
        usage = completion.usage
        messages = request.messages if request is not None else ()
        written = sum(len(content_text(message)) for message in messages)
        if usage is not None and usage.prompt_tokens > written // _MOST_CHARS_A_TOKEN:
            tokens = usage.prompt_tokens, usage.reply_tokens
            return *tokens, usage.cached, usage.reasoning, False
        reasoning = estimate_tokens(completion.reasoning)
        said = reasoning + estimate_tokens(completion.text)
        for call in completion.calls:
            said += estimate_tokens(call.name + call.argument_text)
        asked = self.shown_images * IMAGE_TOKENS
        if request is not None:
            for message in request.messages:
                asked += estimate_tokens(content_text(message)) + _MESSAGE_OVERHEAD
                if "tool_calls" in message:
                    asked += estimate_tokens(canonical_json(message["tool_calls"]))
            if request.tools:
                asked += estimate_tokens(canonical_json(request.tools))
        return asked, said, 0, reasoning, True


#: How requests mark what to cache, by origin; Anthropic's models only support marks.
_CACHES: Final[dict[str, Literal["marks", "key"]]] = {
    OPENAI_ORIGIN: "key",
    "https://openrouter.ai:443": "marks",
    "https://api.anthropic.com:443": "marks",
}


def _choose_cache(endpoint: Endpoint, model: str) -> Literal["marks", "key", "off"]:
    """Choose how a request marks what to cache: by the setting, else by the origin."""
    if endpoint.cache != "auto":
        return endpoint.cache
    cache = _CACHES.get(endpoint.origin)
    return "off" if cache is None or (cache == "marks" and "claude" not in model) else cache


def _mark_cache_points(messages: Sequence[JsonObject], shared: int) -> list[JsonObject]:
    """Add cache marks to the first message and to the last of the ``shared`` messages, with which
    the next request begins too. (Servers allow four marks.)
    """
    made = [*messages]
    last = min(shared, len(made)) - 1  # a quirk may have joined messages
    while last > 0 and not made[last]["content"]:  # nothing empty may be marked
        last -= 1
    for place in {0, max(last, 0)}:
        content: str | list[JsonObject] = made[place]["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        last_part = {**parts[-1], "cache_control": _EPHEMERAL}
        made[place] = {**made[place], "content": [*parts[:-1], last_part]}
    return made


def _image_parts(message: JsonObject) -> list[JsonObject]:
    """Return the parts of a message that refer to pictures."""
    content: str | list[JsonObject] | None = message.get("content")
    if not isinstance(content, list):
        return []
    return [part for part in content if part["type"] == "image"]


def _show_images(message: JsonObject, images: Mapping[str, str]) -> JsonObject:
    """Return the message with its pictures as data URLs from ``images``; if it has none of them,
    with a text that they are not shown.
    """
    named = _image_parts(message)
    if not named:
        return message
    urls = [images[part["sha"]] for part in named if part["sha"] in images]
    text = content_text(message)
    if not urls:
        return {**message, "content": f"{text} {NOT_SHOWN}"}
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {**message, "content": [{"type": "text", "text": text}, *shown]}
