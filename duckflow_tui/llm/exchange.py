"""A question on its way to an answer: down the ladder of protocols, through retries.

The client library is imported at the first request, or by ``warm`` in a thread before it.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from duckflow_tui.llm.account import Account
from duckflow_tui.llm.codec import Decoder, WireRequest
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.endpoints import Endpoint, needs, resolve_key, setting_of
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.ladder import Learned, Rung, refuses_tools
from duckflow_tui.llm.retry import Patience, persist
from duckflow_tui.state.agent import Waiting
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.clock import Clock
from duckflow_tui.state.usage import CallOutcome

if TYPE_CHECKING:
    from duckflow_tui.llm.client import ChatClient

STEP_TEMPERATURE: Final = 0.1  # S3-11: the next action should follow from the results
_CLIENT_MODULE: Final = "duckflow_tui.llm.client"


class ReplyObserver(Protocol):
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
