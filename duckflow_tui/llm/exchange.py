"""A question on its way to an answer: down the ladder of protocols, through retries.

The client library is imported at the first request, or by ``warm`` in a thread before it.
"""

from __future__ import annotations

import asyncio
import importlib
import random
import re
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from duckflow_tui.llm.account import Account
from duckflow_tui.llm.codec import Decoder, WireRequest
from duckflow_tui.llm.codec_json import JsonRung
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.endpoints import Endpoint, Protocol, needs, resolve_key, setting_of
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.state.base import Clock, JsonObject
from duckflow_tui.state.usage import CallOutcome, Waiting

if TYPE_CHECKING:
    from duckflow_tui.llm.client import ChatClient


STEP_TEMPERATURE: Final = 0.1  # S3-11: the next action should follow from the results

_CLIENT_MODULE: Final = "duckflow_tui.llm.client"


class ReplyObserver(typing.Protocol):
    """Hears a reply arrive; plain calls on the loop, each text a new piece."""

    def reply(self, text: str) -> None:
        """A piece of what the user reads."""
        ...

    def reasoning(self, text: str) -> None:
        """A piece of the model's reasoning."""
        ...

    def waiting(self, waiting: Waiting | None) -> None:
        """The call does not move, or (None) moves again."""
        ...


class SilentObserver:
    """Hears nothing: for calls whose progress is not shown."""

    def reply(self, text: str) -> None:
        """Not shown."""

    def reasoning(self, text: str) -> None:
        """Not shown."""

    def waiting(self, waiting: Waiting | None) -> None:
        """Not shown."""


@dataclass(slots=True)
class _Ears:
    """Hears one HTTP request's answer, and notices whether anything of it was shown."""

    observer: ReplyObserver
    decoder: Decoder | None = None
    shown: bool = False

    def show(self, text: str) -> None:
        self.shown = True
        self.observer.reply(text)

    def content(self, text: str) -> None:
        if self.decoder is not None:
            self.decoder.content(text)

    def reasoning(self, text: str) -> None:
        self.shown = True
        self.observer.reasoning(text)


@dataclass(slots=True)
class Exchange:
    """One question: how it is written for each rung, and what has come of it so far."""

    account: Account
    observer: ReplyObserver
    encode: Callable[[Rung], WireRequest]
    decoder_for: Callable[[Rung, Callable[[str], None]], Decoder | None]
    calls: bool  # whether native calls may be used
    rung: Rung = "tools"
    completion: Completion | None = None
    _ears: _Ears | None = None

    @property
    def decoder(self) -> Decoder | None:
        """Of the last request; None before the first and for questions without one."""
        return self._ears.decoder if self._ears is not None else None

    @property
    def shown(self) -> bool:
        """Whether the user has seen a part of the answer."""
        return self._ears is not None and self._ears.shown

    @property
    def in_calls(self) -> bool:
        """Whether the answer has come to its calls."""
        has_calls = self.completion is not None and bool(self.completion.calls)
        return has_calls or (self.decoder is not None and self.decoder.in_calls)

    @property
    def may_retry(self) -> bool:
        """Whether nothing of the answer was shown and no call of it has begun."""
        return not self.shown and not self.in_calls

    def begin(self, clock: Clock) -> Completion:
        """A fresh completion for the next HTTP request."""
        self.account.attempts += 1
        ears = _Ears(self.observer)
        ears.decoder = self.decoder_for(self.rung, ears.show)
        self._ears = ears
        self.completion = Completion(ears, clock)
        return self.completion


class Exchanger:
    """Carries out exchanges; keeps the clients, and what each origin and model refused."""

    def __init__(self, environ: Mapping[str, str], clock: Clock, patience: Patience) -> None:
        self._environ = environ
        self._clock = clock
        self._patience = patience
        self._clients: dict[str, ChatClient] = {}
        self._opening = asyncio.Lock()
        self._learned: dict[tuple[str, str], Learned] = {}

    async def warm(self) -> None:
        """Import the client library in a thread."""
        await asyncio.to_thread(importlib.import_module, _CLIENT_MODULE)

    async def aclose(self) -> None:
        """Close every connection."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    def learned(self, endpoint: Endpoint, model: str) -> Learned:
        """What this origin and model accept, as far as it is known."""
        return self._learned.setdefault((endpoint.origin, model), Learned())

    async def models(self, endpoint: Endpoint) -> list[str]:
        """The ids that an endpoint lists; raises LlmError."""
        client = await self._client(endpoint)
        return await client.models(SilentObserver())

    async def complete(self, exchange: Exchange) -> Completion:
        """The completion, after retries and steps down the ladder.

        Raises LlmError, which carries the account of the call when a request was made.
        """
        account = exchange.account
        protocol = account.endpoint.protocol
        learned = self.learned(account.endpoint, account.model)
        try:
            while True:
                exchange.rung = learned.rung(protocol, calls=exchange.calls)
                account.request = exchange.encode(exchange.rung)
                body = _body(account, learned)
                try:
                    return await self._answered(exchange, body)
                except LlmError as error:
                    if not exchange.may_retry:
                        raise
                    if not learned.learn(error, body, exchange.rung, protocol):
                        raise
        except LlmError as error:
            outcome: CallOutcome = "incomplete" if exchange.shown else "error"
            if account.attempts:
                error.call = account.close(outcome, exchange.completion, error.code)
            raise

    async def _answered(self, exchange: Exchange, body: JsonObject) -> Completion:
        """One body, sent until it is answered; after an empty answer it is sent once more."""
        account = exchange.account
        client = await self._client(account.endpoint)

        async def attempt() -> Completion:
            completion = exchange.begin(self._clock)
            try:
                await client.stream(body, account.purpose, completion, exchange.observer)
            except LlmError as error:
                if exchange.rung == "tools" and refuses_tools(error):
                    error.retryable = False
                raise
            if completion.is_empty and completion.finish == "content_filter":
                raise _error(account, "filtered")
            if completion.is_empty and completion.finish != "length":
                raise _error(account, "empty")
            return completion

        for may_repeat in (True, False):
            try:
                return await persist(
                    attempt,
                    may_retry=lambda: exchange.may_retry,
                    observer=exchange.observer,
                    clock=self._clock,
                    patience=self._patience,
                )
            except LlmError as error:
                if error.code != "empty" or not may_repeat:
                    raise
        raise AssertionError("the second round returns or raises")

    async def _client(self, endpoint: Endpoint) -> ChatClient:
        async with self._opening:
            client = self._clients.get(endpoint.name)
            if client is None:
                _check(endpoint, self._environ)
                await self.warm()
                from duckflow_tui.llm.client import ChatClient

                key = resolve_key(endpoint, self._environ)
                client = await ChatClient.open(
                    endpoint, key, self._environ, self._clock, self._patience
                )
                self._clients[endpoint.name] = client
            return client


def _body(account: Account, learned: Learned) -> JsonObject:
    """The body of a request, without what the model refused before.

    A step's next action is asked for at a low temperature, unless the settings name one (S3-11).
    """
    endpoint, request = account.endpoint, account.request
    assert request is not None  # written just before
    temperature = endpoint.temperature
    if temperature is None and account.purpose == "task":
        temperature = STEP_TEMPERATURE
    wanted: JsonObject = {
        **endpoint.extra_body,
        "stream_options": {"include_usage": True},
        "temperature": temperature,
        "reasoning_effort": endpoint.reasoning_effort,
        learned.limit_name: endpoint.max_output,
    }
    body = {
        name: value
        for name, value in wanted.items()
        if value is not None and name not in learned.dropped
    }
    body |= {"model": account.model, "messages": request.messages, "stream": True}
    if request.tools:
        body["tools"] = request.tools
    if request.response_format is not None:
        body["response_format"] = request.response_format
    return body


def _check(endpoint: Endpoint, environ: Mapping[str, str]) -> None:
    need = needs(endpoint, environ)
    if need == "refused":
        raise LlmError(
            "refused_url",
            endpoint=endpoint.name,
            host=endpoint.host,
            detail=endpoint.base_url,
            setting=setting_of(endpoint.name, "base_url"),
        )
    if need == "key":
        raise LlmError(
            "no_key",
            endpoint=endpoint.name,
            host=endpoint.host,
            detail=endpoint.api_key_env,
            setting=setting_of(endpoint.name, "api_key_env"),
        )


def _error(account: Account, code: Literal["filtered", "empty"]) -> LlmError:
    endpoint = account.endpoint
    return LlmError(code, endpoint=endpoint.name, model=account.model, host=endpoint.host)


Rung = Literal["tools", "json_schema", "json_object", "text"]


_NAMED: Final = (400, 422)  # statuses whose message names what was refused

_LATE: Final = (404, 500, 501)  # some servers answer so for native calls, in these very words

_TOOLS: Final = re.compile(r"\btools?\b|tool[_ ]?(?:choice|use|call)|function[_ ]?call", re.I)

_NO_TOOLS: Final = re.compile(
    r"support(?:s|ed|ing)? (?:\w+ )?(?:tool|function)|tools? (?:param\w*|use|calling|are|is)\b"
    r".{0,40}(?:support|requires|enabled|--jinja)",
    re.I,
)

_FORMAT: Final = re.compile(
    r"response[_ ]?format|json[_ ]?(?:schema|object|mode)|structured output|grammar|guided", re.I
)

_DROPPABLE: Final = (
    "stream_options",
    "temperature",
    "reasoning_effort",
    "max_completion_tokens",
    "max_tokens",
)

_SWAP: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

_STEPS: Final[dict[Rung, JsonRung]] = {
    "tools": "json_schema",
    "json_schema": "json_object",
    "json_object": "text",
}


@dataclass(slots=True)
class Learned:
    """Starts with all it could be; only ever gets smaller."""

    tools: bool = True
    json: JsonRung = "json_schema"
    dropped: set[str] = field(default_factory=set[str])
    limit_name: str = "max_tokens"

    def rung(self, protocol: Protocol, *, calls: bool) -> Rung:
        """Where the next request starts; ``calls`` is false for what is JSON anyway."""
        if not calls or protocol == "json" or (protocol == "auto" and not self.tools):
            return self.json
        return "tools"

    def learn(self, error: LlmError, body: JsonObject, rung: Rung, protocol: Protocol) -> bool:
        """Whether the refusal taught something, so that asking again makes sense."""
        if error.code not in ("bad_request", "not_found", "server_error"):
            return False
        if error.status in _NAMED and (name := self._parameter(error, body)):
            self._drop(name)
            return True
        return self._step_down(error, rung, protocol)

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

    def _drop(self, name: str) -> None:
        self.dropped.add(name)
        swapped = _SWAP.get(name)
        if swapped is not None and swapped not in self.dropped:
            self.limit_name = swapped

    def _step_down(self, error: LlmError, rung: Rung, protocol: Protocol) -> bool:
        words = f"{error.param} {error.message}"
        if rung == "tools":
            pattern = _TOOLS if error.status in _NAMED else _NO_TOOLS
            if protocol == "tools" or error.status not in (*_NAMED, *_LATE):
                return False
            if not pattern.search(words):
                return False
            self.tools = False
            return True
        if rung == "text" or error.status not in _NAMED or not _FORMAT.search(words):
            return False
        self.json = _STEPS[rung]
        return True


def refuses_tools(error: LlmError) -> bool:
    """Whether a server error says that native calls are not to be had; retrying is no use."""
    return error.status in _LATE and _NO_TOOLS.search(error.message) is not None


_FIXED: Final = frozenset({"model", "messages", "stream", "tools", "response_format"})


_T = TypeVar("_T")


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


class WaitObserver(typing.Protocol):
    """Who shows that a call does not move."""

    def waiting(self, waiting: Waiting | None) -> None:
        """It waits, or (None) it moves again."""
        ...


async def persist(
    attempt: Callable[[], Awaitable[_T]],
    *,
    may_retry: Callable[[], bool],
    observer: WaitObserver,
    clock: Clock,
    patience: Patience,
) -> _T:
    """Call ``attempt`` until it succeeds, or raises an LlmError that is not to be retried.

    A Retry-After is obeyed to the second; without one the wait is drawn from the whole range
    (full jitter). What does not fit into ``total_s`` is raised, with the time in ``seconds``.
    """
    begun = clock.monotonic()
    tries = 0
    while True:
        try:
            return await attempt()
        except LlmError as error:
            tries += 1
            if not error.retryable or tries > patience.retries or not may_retry():
                raise
            delay = error.retry_after or 0.0
            if not delay:
                delay = patience.draw() * min(patience.cap_s, patience.base_s * 2 ** (tries - 1))
            if clock.monotonic() - begun + delay > patience.total_s:
                error.seconds = delay
                raise
            reason = error.code
        now = clock.now()
        observer.waiting(Waiting(reason=reason, until=now + delay, since=now))
        try:
            await patience.sleep(delay)
        finally:
            observer.waiting(None)
