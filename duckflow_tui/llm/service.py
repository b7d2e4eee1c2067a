"""LLMService: asks models for decisions and typed replies, through retries and a ladder of
protocols.

The client library is imported at the first request, or earlier in a thread by ``import_client``.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from duckflow_tui.llm import codec_json, codec_tools
from duckflow_tui.llm.codec import (
    CUT_BY_CONNECTION,
    NOT_READ,
    Decoded,
    WireRequest,
)
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.endpoints import (
    KEPT_KEY,
    Endpoint,
    ModelsInUse,
    Roles,
    Target,
    Temperatures,
    find_need,
    resolve_key,
    setting_of,
)
from duckflow_tui.llm.errors import FailureTeller, LlmError, TokenLimits, names_model_or_address
from duckflow_tui.llm.exchange import Exchange, Patience, ReplyObserver
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.llm.learned_models import LearnedModels, ModelQuirks, Rung
from duckflow_tui.llm.outline import read_elements, read_fields, read_lines
from duckflow_tui.llm.quirks import is_miswritten, is_refusal
from duckflow_tui.llm.quotations import flatten_text, is_repeated
from duckflow_tui.llm.reply_json import MOST_READ, NotStrict, find_values
from duckflow_tui.llm.wire import wire_text
from duckflow_tui.state.base import Clock, IdSource, JsonObject, ModelText, schema_of
from duckflow_tui.state.conversation import RefusedCall, Thought
from duckflow_tui.state.prompt import ChatMessage, Prompt
from duckflow_tui.state.usage import CallOutcome, LlmCall, Purpose, Role, Waiting

if TYPE_CHECKING:
    from duckflow_tui.llm.client import ChatClient
    from duckflow_tui.llm.contacts import Report

_CLIENT_MODULE: Final = "duckflow_tui.llm.client"  # imports the client library: a second
ONLY_THOUGHTS: Final = ModelText("reply.only_thoughts", {})
CALL_LOST: Final = ModelText("reply.call_lost", {})
_ASK_CUT: Final = ModelText("reply.answer_cut", {})
CALLS_RETRIED: Final = 2  # times after a plain failure, before JSON is tried
BROKEN_RETRIED: Final = 2  # times after a reply that broke off, at once and after a wait
TEXT_CALLS: Final = 2  # replies in a row with calls as text, after which JSON is asked for
EXPLAIN_S: Final = 5.0  # seconds to find out the cause of a refusal
#: Ends of a reply that are a fault of the server: it could not go on, or dropped the model's call.
_BROKEN: Final = re.compile(
    r"error\b|insufficient_system_resource|abort|network_error|function_call_filter"
    r"|malformed_function_call", re.I
)  # fmt: skip
#: Ends of a reply that say nothing against it.
_FINISHES: Final = ("", "stop", "length", "tool_calls", "function_call")
KEPT_SENT: Final = 20  # newest requests that are remembered
#: Pictures in a request: of more than 20, Claude's API takes none over 2,000 pixels.
MOST_IMAGES: Final = 20
MOST_IMAGE_BYTES: Final = 12 * 1024 * 1024  # in all; 16 MB in base64, of Gemini's 20 MB a request
_MAX_PROBLEMS: Final = 10  # of one reply that are named to the model, or logged

log = logging.getLogger("duckflow.llm")

ReplyShape = TypeVar("ReplyShape", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class DecisionReply(Decoded):
    """The reply to a request for a decision. ``complete`` is False if the connection broke during
    its calls.
    """

    reasoning: str
    reasoning_s: float
    protocol: Literal["json", "tools"]
    complete: bool
    call: LlmCall
    calls: tuple[RefusedCall, ...]  # native ones, as they came
    thought: Thought | None


@dataclass(frozen=True, slots=True)
class AskReply(Generic[ReplyShape]):
    """The reply to a question other than for a decision: ``value``, or else ``problems`` to send to
    the model. ``text`` is the original answer.
    """

    value: ReplyShape | None
    problems: tuple[ModelText, ...]
    call: LlmCall
    text: str = ""


class LLMService:
    """Asks the models of the roles. Holds the clients, and the learned quirks of each model."""

    def __init__(
        self,
        endpoints: dict[str, Endpoint],
        roles: Roles,
        ids: IdSource,
        clock: Clock,
        environ: Mapping[str, str] = os.environ,
        *,
        patience: Patience | None = None,
        temperatures: Temperatures | None = None,
        learned: LearnedModels | None = None,
    ) -> None:
        self.report: Report | None = None  # called with the amounts sent and received
        self.load_blob: Callable[[str], Awaitable[bytes]] = _no_blob
        self._temperatures = temperatures or Temperatures()
        self.endpoints = endpoints
        self.roles = roles
        self._ids = ids
        self._clock = clock
        self._environ = environ
        self._patience = patience or Patience()
        self._clients: dict[tuple[str, str], ChatClient] = {}  # by name and address
        self._left: list[ChatClient] = []  # of endpoints before, which may still be answering
        self._opening = asyncio.Lock()
        self.learned = learned or LearnedModels(clock=clock)
        self._asked_again: set[str] = set()  # models whose last reply lacked a part
        self._text_calls: Counter[str] = Counter()  # replies in a row, by model
        self.known = KnownModels()
        self._cancelled: dict[str, LlmCall] = {}
        self._sent: dict[str, WireRequest] = {}  # newest last

    async def import_client(self) -> None:
        """Import the client library in a thread, so that the first request does not wait."""
        await asyncio.to_thread(importlib.import_module, _CLIENT_MODULE)

    async def aclose(self) -> None:
        """Close every connection; the service can still be used and opens new ones."""
        clients = [*self._clients.values(), *self._left]
        self._clients, self._left = {}, []
        for client in clients:
            await client.aclose()

    @property
    def models_in_use(self) -> ModelsInUse:
        """The endpoints, roles, keys and model facts in use."""
        return ModelsInUse(self.endpoints, self.roles, self._environ, self.known)

    def change_models(self, models: ModelsInUse) -> None:
        """Use these models from the next request on, with keys looked up anew. Requests under way
        are still answered.
        """
        self.endpoints, self.roles, self._environ, self.known = models
        self._left += self._clients.values()
        self._clients = {}

    def target_of(self, role: Role) -> Target:
        """Return endpoint and model of a role; raises LlmError ``no_model``."""
        ref = self.roles.model_of(role)
        if ref is None:
            raise LlmError("no_model", setting=f"roles.{role}")
        endpoint = self.endpoints.get(ref.endpoint)
        if endpoint is None:
            raise LlmError(
                "no_model", endpoint=ref.endpoint, model=ref.model, setting=f"roles.{role}"
            )
        temperature: float | None = getattr(self._temperatures, role)
        if temperature is not None:
            endpoint = endpoint.model_copy(update={"temperature": temperature})
        return Target(endpoint, ref.model)

    def cancelled_call(self, llm_id: str) -> LlmCall | None:
        """Return the account of a cancelled call, once; None afterwards or for any other call."""
        return self._cancelled.pop(llm_id, None)

    def sent_request(self, llm_id: str) -> WireRequest | None:
        """Return the latest form in which a call was sent; None if it was not sent or is not among
        the last ``KEPT_SENT``.
        """
        return self._sent.get(llm_id)

    def window_of(self, role: Role) -> int:
        """Return the context window of a role's model in tokens: the smallest of the known ones; 0
        if unknown.
        """
        try:
            target = self.target_of(role)
        except LlmError:
            return 0
        sizes = self.known.facts_at(*target).context, self.learned.quirks_of(target).window
        return min(filter(None, sizes), default=0)

    def learn_window(self, role: Role, tokens: int) -> None:
        """Use this many tokens as the window of a role's model for the session."""
        target = self.target_of(role)
        lesson = self.learned.quirks_of(target).learn_limits(TokenLimits(window=tokens))
        if lesson:
            self.learned.keep_lesson(lesson, target)

    async def decide(
        self,
        prompt: Prompt,
        *,
        llm_id: str,
        purpose: Purpose = "main",
        role: Role = "main",
        observer: ReplyObserver,
    ) -> DecisionReply:
        """Ask for one decision. Raises LlmError, with the account of the call if a request was
        sent.

        A reply that breaks off raises LlmError too, unless it had reached its calls: then it is
        returned with problems, so that the model sends the calls again.
        """

        def encode(rung: Rung) -> WireRequest:
            """Encode the prompt for a rung."""
            if rung == "tools":
                receiver = target.endpoint.origin, target.model, exchange.api
                takes_none = quirks.has_any("no_thoughts", "stale_thoughts")
                return codec_tools.encode_request(prompt, None if takes_none else receiver)
            return codec_json.encode_request(prompt, rung)

        target = self.target_of(role)
        quirks = self.learned.quirks_of(target)
        exchange = Exchange(llm_id, role, purpose, target, self._clock, observer, encode)
        exchange.thread = prompt.thread
        exchange.facts = self.known.facts_at(*target)
        broken: LlmError | None = None
        try:
            completion = await self._complete_exchange(exchange)
        except LlmError as error:
            if exchange.completion is None or not exchange.in_calls:
                raise
            broken = error
            completion = exchange.completion
        assert exchange.decoder is not None  # made together with the completion
        missing = self._find_missing(target, completion) if broken is None else None
        if missing is None and not completion.has_reply:
            completion.take_thought()
        # In a thread: a reply of some megabytes would keep keys waiting for seconds.
        decoded = await asyncio.to_thread(
            exchange.decoder.decode, completion, prompt, self._ids, llm_id
        )
        if broken is not None:
            decoded = Decoded(None, decoded.text, decoded.raw, (_cut_by(broken),))
        elif missing is not None and not decoded.from_text:
            decoded = Decoded(None, "", decoded.raw, (missing,))
        elif completion.failed and not decoded.from_text and not decoded.problems:
            decoded = Decoded(None, "", decoded.raw, (NOT_READ,))
        if decoded.warnings:
            log.info("a reply of %s: %r", target.model, decoded.warnings[:_MAX_PROBLEMS])
        if decoded.from_text:
            self._count_text_calls(target, quirks)
        elif completion.calls:
            self._text_calls.pop(target.model, None)
        outcome: CallOutcome = "malformed" if decoded.problems else "ok"
        if broken is not None or completion.finish == "length":
            outcome = "incomplete"
        return DecisionReply(
            **vars(decoded),
            reasoning=completion.reasoning,
            reasoning_s=completion.reasoning_s,
            protocol="tools" if exchange.rung == "tools" else "json",
            complete=broken is None,
            call=exchange.close_record(outcome, broken.code if broken else ""),
            thought=completion.make_thought(target.endpoint.origin, target.model)
            if exchange.rung == "tools"
            else None,
            calls=tuple(
                RefusedCall(
                    wire_id=c.wire_id, name=c.name, arguments=wire_text(c.argument_text[:MOST_READ])
                )
                for c in completion.calls
            ),
        )

    def _find_missing(self, target: Target, completion: Completion) -> ModelText | None:
        """Return what a complete reply lacks, as a problem for the model: an answer besides its
        reasoning, or the call that the server announced. Only the first such reply in a row is
        reported.
        """
        missing = None
        if not completion.has_reply:
            missing = ONLY_THOUGHTS
        elif completion.finish == "tool_calls" and not completion.calls:
            missing = CALL_LOST
        if missing is None or completion.finish == "length":
            if completion.finish == "stop":
                self._asked_again.discard(target.model)
            return None
        if target.model in self._asked_again:
            return None
        self._asked_again.add(target.model)
        return missing

    def _count_text_calls(self, target: Target, quirks: ModelQuirks) -> None:
        """Count a reply with calls written as text; after two in a row, ask the model for JSON from
        then on.
        """
        self._text_calls[target.model] += 1
        if self._text_calls[target.model] == TEXT_CALLS:
            self._ask_for_json(target, quirks)

    def step_down(self, role: Role) -> bool:
        """Ask the role's model for JSON from now on, because its native calls are unusable. False
        if it already is, or the settings fix the protocol.
        """
        target = self.target_of(role)
        return self._ask_for_json(target, self.learned.quirks_of(target))

    def gave_up_calls(self, role: Role) -> bool:
        """Whether the role's model is asked for JSON only because its native calls failed."""
        target = self.target_of(role)
        rung = self.learned.quirks_of(target).rung("auto", calls=True)
        return target.endpoint.may_step_down and rung != "tools"

    def _ask_for_json(self, target: Target, quirks: ModelQuirks) -> bool:
        """Ask the model for JSON for the rest of the session; False if it already is, or the
        settings fix the protocol.
        """
        is_asked = quirks.rung(target.endpoint.protocol, calls=True) != "tools"
        if not target.endpoint.may_step_down or is_asked:
            return False
        quirks.flags.add("writes_calls")
        self.learned.keep_lesson("replies", target)
        return True

    async def ask(
        self,
        purpose: Purpose,
        role: Role,
        messages: Sequence[ChatMessage],
        shape: type[ReplyShape],
        *,
        llm_id: str,
    ) -> AskReply[ReplyShape]:
        """Ask a question whose answer is one JSON object of this shape. Raises LlmError. Faults of
        the answer are returned as ``problems``.
        """
        schema = schema_of(shape)
        wire: list[JsonObject] = [
            {"role": message.role, "content": wire_text(message.content)} for message in messages
        ]

        def encode(rung: Rung) -> WireRequest:
            """Encode the question for a rung."""
            assert rung != "tools"
            form = codec_json.response_format(rung, purpose, schema)
            return WireRequest(wire, response_format=form)

        target, unseen = self.target_of(role), ReplyObserver()
        exchange = Exchange(llm_id, role, purpose, target, self._clock, unseen, encode, calls=False)
        exchange.facts = self.known.facts_at(*target)
        completion = await self._complete_exchange(exchange)
        truncated = completion.finish == "length"
        if not completion.has_reply:  # some write it all as reasoning
            completion.take_thought()
        question = "\n".join(m.content for m in messages if m.role != "assistant")
        value, problems = _parse_shape(completion.text, shape, flatten_text(question))
        if truncated:
            value, problems = None, (_ASK_CUT,)
        outcome: CallOutcome = "malformed" if problems else "ok"
        call = exchange.close_record("incomplete" if truncated else outcome)
        return AskReply(value, problems, call, completion.text)

    def forget_lessons(self) -> None:
        """Forget all learned quirks, so that models are asked in the usual form again."""
        self.learned.forget_model()

    async def fetch_model_names(self, role: Role, seconds: float) -> tuple[str, ...]:
        """Fetch the names of the models at a role's endpoint within ``seconds``; raises
        LlmError.
        """
        client = await self._open_client(self.target_of(role).endpoint)
        return await client.fetch_model_names(seconds)

    async def _complete_exchange(self, exchange: Exchange) -> Completion:
        """Return the completion of an exchange, after retries and steps down the ladder of
        protocols. Raises LlmError, with the account of the call if a request was sent.
        """
        endpoint, model = exchange.target
        quirks = self.learned.quirks_of(exchange.target)
        try:
            while True:
                calls = exchange.calls and not exchange.plain
                exchange.rung = quirks.rung(endpoint.protocol, calls=calls)
                exchange.api = quirks.choose_api(endpoint.protocol, exchange.facts.api)
                exchange.request = exchange.encode(exchange.rung)
                self._sent[exchange.llm_id] = exchange.request
                while len(self._sent) > KEPT_SENT:
                    del self._sent[next(iter(self._sent))]
                images = await self._load_images(exchange, quirks)
                body = exchange.make_body(quirks, images)
                try:
                    completion = await self._send_until_answered(exchange, body, quirks)
                    if body["stream"] and not completion.streamed:
                        quirks.flags.add("sends_whole")
                    if exchange.rung == "tools":
                        quirks.flags.add("takes_tools")
                    elif exchange.plain and "takes_tools" not in quirks.flags:
                        quirks.flags.add("fails_at_tools")
                        self.learned.keep_lesson("failing", exchange.target)
                    return completion
                except LlmError as error:
                    if not exchange.may_retry:
                        raise
                    lesson = quirks.learn_from(error, body, exchange.api, endpoint)
                    if lesson:
                        self.learned.keep_lesson(lesson, exchange.target)
                        if lesson == "window":  # the caller has to write a shorter request
                            raise
                    elif _fails_at_calls(error, exchange, quirks):
                        exchange.plain = True
                    else:
                        raise
        except LlmError as error:
            if error.code == "not_found" and exchange.may_retry and not _has_path(endpoint):
                try:
                    return await self._with_version(exchange)
                except LlmError as other:
                    if other.code != "not_found":
                        raise
                    exchange.target = Target(endpoint, model)
            if error.code == "not_found" and exchange.api == "responses":
                error.setting = setting_of(endpoint.name, "protocol")
            if names_model_or_address(error):
                await (await self._open_client(endpoint)).explain_error(error, EXPLAIN_S)
            if exchange.attempts:
                outcome = "incomplete" if exchange.shown else "error"
                error.call = exchange.close_record(outcome, error.code)
            raise
        except asyncio.CancelledError:
            self._cancelled[exchange.llm_id] = exchange.close_record("cancelled")
            raise

    async def _load_images(self, exchange: Exchange, quirks: ModelQuirks) -> dict[str, str]:
        """Load the newest pictures of the request that fit, as data URLs by SHA-256. Empty if the
        model does not accept pictures, which is reported to the user once.
        """
        images: dict[str, str] = {}
        named = exchange.find_images()
        if named and exchange.facts.sees is False and "no_images" not in quirks.flags:
            quirks.flags.add("no_images")
            self.learned.keep_lesson("images", exchange.target)
        if "no_images" in quirks.flags:
            named = {}
        size = 0
        for sha, mime in list(named.items())[:MOST_IMAGES]:
            try:
                data = await self.load_blob(sha)
            except (KeyError, OSError):
                continue  # the disk has lost it
            size += len(data)
            if size > MOST_IMAGE_BYTES:
                break
            encoded = await asyncio.to_thread(b64encode, data)
            images[sha] = f"data:{mime};base64,{encoded.decode()}"
        exchange.shown_images = len(images)
        return images

    async def _with_version(self, exchange: Exchange) -> Completion:
        """Complete the exchange at the same address with ``/v1`` appended, and use that address
        from then on. Raises LlmError.
        """
        endpoint, model = exchange.target
        update = {"base_url": f"{endpoint.base_url}/v1"}
        exchange.target = Target(endpoint.model_copy(update=update), model)
        completion = await self._complete_exchange(exchange)
        if (kept := self.endpoints.get(endpoint.name)) is not None:
            # In place: a model that is chosen later at this server is asked there too.
            self.endpoints[endpoint.name] = kept.model_copy(update=update)
        self.learned.keep_lesson("version", exchange.target)
        return completion

    async def _send_until_answered(
        self, exchange: Exchange, body: JsonObject, quirks: ModelQuirks
    ) -> Completion:
        """Send one body until it is answered. After an empty answer it is sent once more, without
        streaming if nothing at all came.

        Retry-After is followed exactly; otherwise waits are random up to an exponential maximum
        (full jitter). A wait that exceeds ``total_s`` raises the error, with the wait in
        ``seconds``.
        """
        client = await self._open_client(exchange.target.endpoint)
        patience, clock = self._patience, self._clock
        begun, tries, was_empty = clock.monotonic(), 0, False
        while True:
            try:
                return await self._attempt_once(client, exchange, body)
            except LlmError as error:
                if error.code == "empty" and not was_empty:
                    begun, tries, was_empty = clock.monotonic(), 0, True
                    if exchange.completion is not None and not exchange.completion.saw_choice:
                        # Some servers end a stream so where they would name the fault in a body.
                        body = {**body, "stream": False}
                        body.pop("stream_options", None)
                    continue
                tries += 1
                most_tries, total_s = patience.retries, patience.total_s
                if _fails_at_calls(error, exchange, quirks):
                    most_tries = CALLS_RETRIED
                elif error.code == "loading":  # which takes as long as the first token may
                    most_tries, total_s = tries, exchange.target.endpoint.first_token_s
                if exchange.shown:  # it accepted requests, and the text so far is billed
                    most_tries = min(most_tries, BROKEN_RETRIED)
                if not error.retryable or tries > most_tries or not exchange.may_retry:
                    raise
                delay = error.retry_after or 0.0
                if not delay and exchange.shown and tries == 1:
                    continue  # at once: it was answering a moment ago
                if not delay:
                    most = min(patience.cap_s, patience.base_s * 2 ** min(tries - 1, 10))
                    delay = patience.draw() * most
                if clock.monotonic() - begun + delay > total_s:
                    error.seconds = delay
                    if error.code == "rate_limited" and error.retry_after:
                        error.code, error.until = "wait_asked", clock.now() + delay
                    raise
                reason = error.code
            now = clock.now()
            exchange.observer.set_waiting(Waiting(reason=reason, until=now + delay, since=now))
            try:
                await patience.sleep(delay)
            finally:
                exchange.observer.set_waiting(None)

    async def _attempt_once(
        self, client: ChatClient, exchange: Exchange, body: JsonObject
    ) -> Completion:
        """Send a body once and return the completion. Raises LlmError, also for an empty, filtered
        or aborted answer.
        """
        completion = exchange.begin_completion()
        try:
            await client.stream_completion(
                body, exchange.api, exchange.purpose, completion, exchange.observer, exchange.thread
            )
        except LlmError as error:
            if is_refusal(error, body):
                error.retryable = False
            elif is_miswritten(error) and error.generation and not completion.text:
                completion.take_failed(error.generation)
                return completion
            elif is_miswritten(error):
                error.retryable = True
            raise
        said = completion.has_reply
        if completion.finish == "content_filter":
            raise exchange.make_error("filtered", completion.finish_words)
        is_broken = _BROKEN.match(completion.finish) is not None
        if is_broken or (not said and completion.finish not in _FINISHES):
            error = exchange.make_error("server_error", completion.finish_words)
            # After some text, native calls are not the cause.
            error.status = 500 if is_broken and not completion.text else None
            error.retryable = True
            raise error
        if not said and completion.finish != "length" and not completion.reasoning.strip():
            raise exchange.make_error("empty")
        return completion

    async def _open_client(self, endpoint: Endpoint) -> ChatClient:
        """Return the client of an endpoint, opened if needed. Raises LlmError if a key is missing
        or the address is not allowed.
        """
        async with self._opening:
            place = endpoint.name, endpoint.base_url
            if place in self._clients:
                return self._clients[place]
            need, teller = find_need(endpoint, self._environ), FailureTeller(endpoint, "", ())
            if need == "refused":
                raise teller.make_error("refused_url", endpoint.base_url, setting="base_url")
            if need == "key" and endpoint.api_key_env.startswith(KEPT_KEY):
                raise teller.make_error("no_kept_key", endpoint.api_key_env)
            if need == "key":
                raise teller.make_error("no_key", endpoint.api_key_env, setting="api_key_env")
            await self.import_client()
            from duckflow_tui.llm.client import ChatClient

            key = resolve_key(endpoint, self._environ)
            client = await ChatClient.open(
                endpoint, key, self._environ, self._clock, self._patience, self.report
            )
            self._clients[place] = client
            return client


async def _no_blob(sha: str) -> bytes:
    """Load no blob, where there is no session; raises KeyError."""
    raise KeyError(sha)


def _has_path(endpoint: Endpoint) -> bool:
    """Whether an endpoint's address has a path."""
    return bool(urlsplit(endpoint.base_url).path.strip("/"))


def _fails_at_calls(error: LlmError, exchange: Exchange, quirks: ModelQuirks) -> bool:
    """Whether native calls may be the cause of an unexplained server error: the server has not
    accepted any yet.
    """
    if not exchange.target.endpoint.may_step_down or "takes_tools" in quirks.flags:
        return False
    return error.code == "server_error" and error.status == 500 and exchange.rung == "tools"


def _cut_by(error: LlmError) -> ModelText:
    """Return the text that tells the model why its reply broke off."""
    if error.code in ("cut", "stalled", "connect"):
        return CUT_BY_CONNECTION
    return ModelText("reply.cut_by_server", {"what": error.detail or error.code})


def _parse_shape(
    text: str, shape: type[ReplyShape], question: str
) -> tuple[ReplyShape | None, tuple[ModelText, ...]]:
    """Parse an answer to the shape: from JSON; without JSON from XML elements, the whole text, or
    its lines. Returns None and the problems if nothing fits. JSON that occurs in
    ``question``, a flattened text, is a quotation and left out. The shape gets the fields in the
    words around the JSON as ``around`` of its context.
    """
    try:
        found = find_values(text)
    except NotStrict as error:
        if error.told.name != "json.none":
            return None, (error.told,)
        for given in (read_elements(text), text.strip("` \n"), read_lines(text)):
            with suppress(ValidationError):
                if given:
                    return shape.model_validate(given), ()
        return None, (error.told,)
    values = [
        value
        for value, written in zip(found.values, found.written, strict=True)
        if not is_repeated(value, written, question)
    ]
    if not values:
        return None, (ModelText("json.quoted", {}),)
    context = {"around": read_fields(found.around)}
    try:
        return shape.model_validate(values[0] if len(values) == 1 else values, context=context), ()
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
        return None, tuple(
            ModelText(f"json.{entry['type']}", {})
            if entry["type"] in ("several", "contradicted")
            else ModelText(
                "reply.field_wrong",
                {"where": ".".join(map(str, entry["loc"])), "problem": entry["msg"]},
            )
            for entry in wrong
        )
