"""LLMService: what the loops ask. A decision or a typed reply comes back, or one LlmError."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from duckflow_tui.llm import codec_json, codec_tools
from duckflow_tui.llm.account import Account
from duckflow_tui.llm.codec import (
    CUT_BY_CONNECTION,
    CUT_BY_SERVER,
    Decoded,
    Decoder,
    WireRequest,
)
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.endpoints import Endpoint, Roles
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.exchange import (
    Exchange,
    Exchanger,
    Patience,
    ReplyObserver,
    Rung,
    SilentObserver,
)
from duckflow_tui.llm.strict_json import NotStrict, find_object
from duckflow_tui.llm.wire import wire_text
from duckflow_tui.state.base import Clock, IdSource, JsonObject
from duckflow_tui.state.decision import TurnDecision
from duckflow_tui.state.prompt import ChatMessage, Prompt
from duckflow_tui.state.usage import CallOutcome, LlmCall, Purpose, Role

__all__ = [
    "AskReply",
    "ChatMessage",
    "DecisionReply",
    "LLMService",
    "Patience",
    "ReplyObserver",
    "SilentObserver",
]

_ASK_CUT: Final = "the reply was cut at the output limit; reply in fewer words"
KEPT_SENT: Final = 20  # newest requests that are remembered
_MAX_PROBLEMS: Final = 10  # of one reply that are named to the model

ReplyShape = TypeVar("ReplyShape", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """What came of asking for a decision.

    ``problems`` are words for the model: while there are any, nothing with side effects of the
    reply may run, and ``decision`` holds only what could be read. ``complete`` is false when the
    connection broke in the middle of the calls, ``truncated`` when the output limit cut it.
    """

    decision: TurnDecision | None
    text: str
    reasoning: str
    reasoning_s: float
    protocol: Literal["json", "tools"]
    raw: str
    complete: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    call: LlmCall
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class AskReply(Generic[ReplyShape]):
    """What came of another question: ``value``, or ``problems`` in words for the model."""

    value: ReplyShape | None
    problems: tuple[str, ...]
    raw: str
    call: LlmCall
    truncated: bool = False


class LLMService:
    """Asks the models of the roles, and remembers what each origin and model accepts."""

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        roles: Roles,
        ids: IdSource,
        clock: Clock,
        environ: Mapping[str, str] = os.environ,
        *,
        patience: Patience | None = None,
    ) -> None:
        self._endpoints = dict(endpoints)
        self._roles = roles
        self._ids = ids
        self._clock = clock
        self._exchanger = Exchanger(environ, clock, patience or Patience())
        self._cancelled: dict[str, LlmCall] = {}
        self._sent: dict[str, Account] = {}  # newest last

    async def warm(self) -> None:
        """Import the client library in a thread, so that the first request does not wait."""
        await self._exchanger.warm()

    async def aclose(self) -> None:
        """Close every connection; the service can still be used and opens new ones."""
        await self._exchanger.aclose()

    def endpoint_of(self, role: Role) -> tuple[Endpoint, str]:
        """Endpoint and model of a role; raises LlmError ``no_model``."""
        ref = self._roles.of(role)
        if ref is None:
            raise LlmError("no_model", setting=f"roles.{role}")
        endpoint = self._endpoints.get(ref.endpoint)
        if endpoint is None:
            raise LlmError(
                "no_model", endpoint=ref.endpoint, model=ref.model, setting=f"roles.{role}"
            )
        return endpoint, ref.model

    def protocol_for(self, role: Role) -> Literal["json", "tools"]:
        """The codec of the next decision, as far as ``auto`` has learned by now."""
        try:
            endpoint, model = self.endpoint_of(role)
        except LlmError:
            return "tools"
        learned = self._exchanger.learned(endpoint, model)
        return "tools" if learned.rung(endpoint.protocol, calls=True) == "tools" else "json"

    def cancelled_call(self, llm_id: str) -> LlmCall | None:
        """The account of a call that was cancelled; it can be taken once."""
        return self._cancelled.pop(llm_id, None)

    def sent(self, llm_id: str) -> WireRequest | None:
        """The newest form in which a call was sent; None for one that was not, or is long past."""
        account = self._sent.get(llm_id)
        return account.request if account is not None else None

    def window(self, role: Role) -> int:
        """Tokens of the window of a role's model; 0 when unknown."""
        try:
            return self.endpoint_of(role)[0].context
        except LlmError:
            return 0

    async def probe(self, endpoint: Endpoint) -> list[str]:
        """The model ids that an endpoint lists, in its order; one request, raises LlmError."""
        return await self._exchanger.models(endpoint)

    async def decide(
        self,
        prompt: Prompt,
        *,
        llm_id: str,
        purpose: Purpose = "main",
        role: Role = "main",
        observer: ReplyObserver,
    ) -> DecisionReply:
        """One decision. Raises LlmError, with the call's account when a request was made.

        An answer that breaks off is an LlmError too, unless it had come to its calls: then the
        reply has problems, for the model to send them again.
        """

        def encode(rung: Rung) -> WireRequest:
            if rung == "tools":
                return codec_tools.encode(prompt)
            return codec_json.encode(prompt, rung)

        def decoder_for(rung: Rung, show: Callable[[str], None]) -> Decoder:
            if rung == "tools":
                return codec_tools.ToolsDecoder(show)
            return codec_json.JsonDecoder(show)

        account = self._account(llm_id, role, purpose)
        exchange = Exchange(account, observer, encode, decoder_for, calls=True)
        broken: LlmError | None = None
        try:
            completion = await self._complete(exchange)
        except LlmError as error:
            if exchange.completion is None or not exchange.in_calls:
                raise
            broken = error
            completion = exchange.completion
        decoded = self._decoded(exchange, completion, prompt, llm_id)
        if broken is not None:
            decoded = Decoded(None, decoded.text, decoded.raw, (_cut_by(broken),))
        truncated = completion.finish == "length"
        outcome: CallOutcome = "malformed" if decoded.problems else "ok"
        if broken is not None or truncated:
            outcome = "incomplete"
        return DecisionReply(
            decision=decoded.decision,
            text=decoded.text,
            reasoning=completion.reasoning,
            reasoning_s=completion.reasoning_s,
            protocol="tools" if exchange.rung == "tools" else "json",
            raw=decoded.raw,
            complete=broken is None,
            problems=decoded.problems,
            warnings=decoded.warnings,
            call=account.close(outcome, completion, broken.code if broken else ""),
            truncated=truncated,
        )

    async def ask(
        self,
        purpose: Purpose,
        role: Role,
        messages: Sequence[ChatMessage],
        shape: type[ReplyShape],
        *,
        llm_id: str,
        observer: ReplyObserver | None = None,
    ) -> AskReply[ReplyShape]:
        """A question whose answer is one JSON object of this shape. Raises LlmError.

        ``purposes`` holds the shapes; what is missing or wrong comes back as ``problems``.
        """
        schema = shape.model_json_schema()
        wire: list[JsonObject] = [
            {"role": message.role, "content": wire_text(message.content)} for message in messages
        ]

        def encode(rung: Rung) -> WireRequest:
            assert rung != "tools"
            form = codec_json.response_format(rung, purpose, schema)
            return WireRequest(wire, response_format=form)

        account = self._account(llm_id, role, purpose)
        ears = observer or SilentObserver()
        exchange = Exchange(account, ears, encode, lambda rung, show: None, calls=False)
        completion = await self._complete(exchange)
        truncated = completion.finish == "length"
        value, problems = _shaped(completion.text, shape)
        if truncated:
            value, problems = None, (_ASK_CUT,)
        outcome: CallOutcome = "malformed" if problems else "ok"
        call = account.close("incomplete" if truncated else outcome, completion)
        return AskReply(value, problems, wire_text(completion.text), call, truncated)

    def _account(self, llm_id: str, role: Role, purpose: Purpose) -> Account:
        endpoint, model = self.endpoint_of(role)
        started = self._clock.monotonic()
        account = Account(llm_id, role, purpose, endpoint, model, self._clock, started)
        self._sent[llm_id] = account
        while len(self._sent) > KEPT_SENT:
            del self._sent[next(iter(self._sent))]
        return account

    async def _complete(self, exchange: Exchange) -> Completion:
        try:
            return await self._exchanger.complete(exchange)
        except asyncio.CancelledError:
            account = exchange.account
            self._cancelled[account.llm_id] = account.close("cancelled", exchange.completion)
            raise

    def _decoded(
        self, exchange: Exchange, completion: Completion, prompt: Prompt, llm_id: str
    ) -> Decoded:
        decoder = exchange.decoder
        assert decoder is not None  # made together with the completion
        return decoder.decode(completion, prompt, self._ids, llm_id)


def _cut_by(error: LlmError) -> str:
    """What the model is told of a reply that broke off in its calls."""
    if error.code in ("cut", "stalled", "connect"):
        return CUT_BY_CONNECTION
    return CUT_BY_SERVER.format(what=error.detail or error.code)


def _shaped(text: str, shape: type[ReplyShape]) -> tuple[ReplyShape | None, tuple[str, ...]]:
    try:
        return shape.model_validate(find_object(text).data), ()
    except NotStrict as error:
        return None, (str(error),)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
        return None, tuple(
            f"{'.'.join(str(part) for part in entry['loc'])}: {entry['msg']}" for entry in found
        )
