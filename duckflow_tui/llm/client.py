"""Sends one request to one endpoint through AsyncOpenAI; the result is a Completion or an LlmError.

Import it only after the first paint: it imports the client library. The library builds requests and
keeps connections; streams are read here, with size limits and time limits.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import ssl
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import parse_qsl, urlsplit

import httpx2
import openai
from openai import AsyncOpenAI, AsyncStream
from openai.types.responses import ResponseInputParam, ResponseStreamEvent
from pydantic import ValidationError

from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.contacts import Report
from duckflow_tui.llm.endpoints import (
    CREDENTIAL_HEADERS,
    Endpoint,
    is_loopback,
    key_name,
    may_carry_key,
)
from duckflow_tui.llm.errors import ErrorCode, FailureTeller, LlmError, escape_text, words_of
from duckflow_tui.llm.exchange import Patience, ReplyObserver
from duckflow_tui.llm.responses import ResponseReader, read_response, write_request
from duckflow_tui.llm.transport import (
    CERTIFICATE_VARIABLES,
    MAX_BODY,
    PURPOSE_HEADER,
    THREAD_HEADER,
    BadStatus,
    BodyTooLarge,
    BoundedResponse,
    ForeignOrigin,
    Proxy,
    SilenceLimit,
    WayClosed,
    find_proxy,
    open_http,
    resolves_privately,
)
from duckflow_tui.llm.wire import (
    MAX_LINE,
    EventReader,
    LineLimit,
    LineTooLong,
    read_chunk,
    read_entries,
)
from duckflow_tui.state.base import Clock, JsonObject, describe_error
from duckflow_tui.state.usage import Api

_DONE: Final = b"[DONE]"
_EVENT_STARTS: Final = (b"data:", b":", b"event:", b"id:", b"retry:", b"\xef\xbb\xbf")
_ENOUGH: Final = 6  # bytes that tell an event stream from JSON and from a web page
_SHOWN: Final = 4096  # bytes of an answer used in an error
_SHOWN_MODELS: Final = 8  # model names listed in an error
_MB: Final = 1024 * 1024
_END_S: Final = 0.1  # seconds to wait for the end of a body after its last event

log = logging.getLogger("duckflow.llm")

for _name in ("openai", "httpx2", "httpcore2"):
    # Their lines would hold request bodies, and a handler of theirs would draw over the screen.
    logging.getLogger(_name).setLevel(logging.WARNING)


class ChatClient:
    """Sends requests to one endpoint and reads its answers."""

    def __init__(
        self,
        endpoint: Endpoint,
        http: httpx2.AsyncClient,
        secrets: tuple[str, ...],
        clock: Clock,
        patience: Patience,
        name: str = "",
        proxy: Proxy | None = None,
    ) -> None:
        """``name`` is the environment variable that the key came from, empty without a key;
        ``secrets`` are masked in errors.
        """
        self._endpoint = endpoint
        self._key = (name, bool(name) and not may_carry_key(endpoint))
        self._http = http
        self._proxy = proxy
        self._secrets = secrets
        self._clock = clock
        self._patience = patience
        self._sdk = AsyncOpenAI(
            base_url=endpoint.base_url.partition("?")[0],
            default_query=dict(parse_qsl(urlsplit(endpoint.base_url).query)),
            api_key="in the transport",  # which alone knows the key and the origin it belongs to
            max_retries=0,
            http_client=http,
            timeout=http.timeout,
        )

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        key: str | None,
        environ: Mapping[str, str],
        clock: Clock,
        patience: Patience,
        report: Report | None = None,
    ) -> ChatClient:
        """Check the address and open a client; raises LlmError. ``report`` is called with the
        amounts sent and received, for display in the session.
        """
        headers = _secret_headers(endpoint)
        secrets = (*((key,) if key else ()), *headers)
        proxy = find_proxy(endpoint.base_url, environ)
        name = key_name(endpoint, environ) or ("headers" if headers else "")
        teller = FailureTeller(endpoint, "", secrets)
        if any(not value.isascii() or not value.isprintable() for value in secrets):
            raise teller.make_error("bad_key", setting="api_key_env")
        secrets += proxy.secrets if proxy else ()
        teller = FailureTeller(endpoint, "", secrets)
        with _raising_llm_error(teller, clock, proxy):
            if not endpoint.is_https and not is_loopback(endpoint.hostname):
                try:
                    private = await resolves_privately(endpoint.hostname)
                except (OSError, UnicodeError) as error:  # the latter for a name that no host has
                    raise teller.make_error(
                        "not_found_host", _describe_cause(error), setting="base_url"
                    ) from error
                if not private:
                    raise teller.make_error("refused_url", endpoint.base_url, setting="base_url")
            http = await open_http(endpoint, key, environ, patience.connect_s, report)
            return cls(endpoint, http, secrets, clock, patience, name, proxy)

    async def aclose(self) -> None:
        """Close the connections. Errors are logged, not raised."""
        try:
            await self._http.aclose()
        except Exception:
            log.warning("connections to %s were not closed", self._endpoint.host, exc_info=True)

    async def stream_completion(
        self,
        body: JsonObject,
        api: Api,
        purpose: str,
        completion: Completion,
        observer: ReplyObserver,
        thread: str = "",
    ) -> None:
        """Send a request through the given API and fill ``completion`` as the answer arrives;
        raises LlmError. ``body`` is written as a chat completion for either API. ``thread`` is
        sent as a header to local servers only.
        """
        headers = {PURPOSE_HEADER: purpose}
        if thread and is_loopback(self._endpoint.hostname):
            headers[THREAD_HEADER] = thread
        model = str(body.get("model", ""))
        teller = FailureTeller(self._endpoint, model, self._secrets, *self._key)
        silence = SilenceLimit(observer, self._clock, self._endpoint, self._patience.silent_s)
        with _raising_llm_error(teller, self._clock, self._proxy):
            try:
                async with silence.limit_block():
                    if api == "responses":
                        await self._read_response(body, headers, completion, silence, teller)
                    else:
                        await self._read_chat(body, headers, completion, silence, teller)
            except TimeoutError as error:
                if silence.silent_seconds is None:
                    raise
                setting = "first_token_s" if completion.first_token_at is None else "idle_s"
                stalled = teller.make_error("stalled", setting=setting)
                stalled.seconds = silence.silent_seconds
                raise stalled from error
            finally:
                completion.close()
            if not (completion.ended or completion.finish):
                raise teller.make_error(
                    "cut", "the stream stopped before its end marker", retryable=True
                )

    async def _read_chat(
        self,
        body: JsonObject,
        headers: dict[str, str],
        completion: Completion,
        silence: SilenceLimit,
        teller: FailureTeller,
    ) -> None:
        """Send a chat completion and read its answer; raises LlmError and exceptions of the
        library.
        """
        answer = await self._sdk.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            options={"headers": headers},
            stream=True,
            stream_cls=AsyncStream[object],
        )
        async with aclosing(answer.response.aiter_bytes()) as pieces:
            await _Answer(completion, silence, teller).read_answer(answer.response, pieces)
            await _pass_the_end(pieces)

    async def _read_response(
        self,
        body: JsonObject,
        headers: dict[str, str],
        completion: Completion,
        silence: SilenceLimit,
        teller: FailureTeller,
    ) -> None:
        """Send the request through the Responses API and read its answer; raises LlmError and
        exceptions of the library.
        """
        request = write_request(body)
        model: str = request.pop("model")
        items: ResponseInputParam = request.pop("input")
        streams: bool = request.pop("stream")
        reader = ResponseReader(completion, teller)
        try:
            answer = await self._sdk.responses.create(
                model=model,
                input=items,
                stream=streams,
                extra_body=request,
                extra_headers=headers,
            )
            if not isinstance(answer, AsyncStream):
                reader.take_response(answer)
                return
            async with answer:
                await _read_events(answer, completion, reader, silence, teller)
        except openai.APIError as error:  # an event of the stream that is one
            if error.__cause__ is not None or error.body is None:
                raise
            raise teller.stream_error(error.body) from error
        except (ValueError, RecursionError) as error:  # declared as JSON, but invalid
            raise teller.make_error("not_json", str(error), setting="base_url") from error

    async def fetch_entries(self, seconds: float) -> list[JsonObject]:
        """Fetch the server's list of models within ``seconds``. Raises LlmError, with code ``html``
        or ``not_json`` if the answer is not a list of models.
        """
        teller = FailureTeller(self._endpoint, "", self._secrets, *self._key)
        with _raising_llm_error(teller, self._clock, self._proxy):
            try:
                async with asyncio.timeout(seconds):
                    answer = await self._sdk.get("/models", cast_to=object)
            except TimeoutError as error:
                late = teller.make_error("no_list", setting="base_url")
                late.seconds = seconds
                raise late from error
            except (ValueError, RecursionError) as error:  # declared as JSON, but invalid
                raise teller.make_error("not_json", str(error), setting="base_url") from error
        try:
            # Without a type of JSON the library gives the text.
            return read_entries(json.loads(answer) if isinstance(answer, str) else answer)
        except (ValueError, RecursionError):
            text = str(answer)[:_SHOWN]
            code = "html" if text.lstrip().startswith("<") else "not_json"
            raise teller.make_error(code, text, setting="base_url") from None

    async def fetch_model_names(self, seconds: float) -> tuple[str, ...]:
        """Fetch the names of the models that the server lists, without empty ones and the prefix
        ``models/``; raises LlmError.
        """
        names = (str(entry.get("id", "")) for entry in await self.fetch_entries(seconds))
        return tuple(name.removeprefix("models/") for name in names if name)  # Gemini's has it

    async def explain_error(self, error: LlmError, seconds: float) -> None:
        """Ask the server for its models, for at most ``seconds``. If it lists some, and not the
        model of ``error``, change the error in place to ``unknown_model`` with up to eight names as
        detail, the most similar first.
        """
        try:
            names = await self.fetch_model_names(seconds)
        except LlmError:
            return
        if names and error.model.removeprefix("models/") not in names:
            from duckflow_tui.llm.discovery import find_nearest

            error.code = "unknown_model"
            near = find_nearest(error.model, names, _SHOWN_MODELS)
            shown = list(dict.fromkeys((*near, *names)))[:_SHOWN_MODELS]
            error.detail = escape_text(", ".join(shown), self._secrets)


@contextmanager
def _raising_llm_error(teller: FailureTeller, clock: Clock, proxy: Proxy | None) -> Generator[None]:
    """Convert every exception of this block to an LlmError, chained to its cause. Cancellations
    pass unchanged.
    """
    try:
        yield
    except LlmError:
        raise
    except Exception as error:
        raise _llm_error_of(error, teller, clock, proxy) from error


def _llm_error_of(
    error: Exception, teller: FailureTeller, clock: Clock, proxy: Proxy | None
) -> LlmError:
    """Translate an error of the client library or the transport into an LlmError."""
    cause: BaseException = error
    if isinstance(error, openai.APIError) and error.__cause__ is not None:
        cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):  # as a connection raises it
        cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
    words = _describe_cause(cause)
    has_no_answer = isinstance(error, openai.APIConnectionError)
    if isinstance(cause, httpx2.TimeoutException):
        words = os.strerror(errno.ETIMEDOUT)
    match cause:
        case BadStatus():
            return teller.make_status_error(cause.status, cause.headers, cause.body, clock.now())
        case BodyTooLarge():
            return teller.make_error("too_large", f"{MAX_BODY // _MB} MB")
        case LineTooLong():
            return teller.make_error("too_large", f"{MAX_LINE // _MB} MB")
        case ForeignOrigin():
            return teller.make_error("redirect", str(cause), setting="base_url")
        case WayClosed():
            made = teller.make_error(cause.code, _describe_cause(cause.__cause__ or cause))
            made.setting = cause.variable
            return made
        case httpx2.DecodingError():
            return teller.make_error("not_json", words)
        case _ if tls := [one for one in _causes(cause) if _is_tls_fault(one)]:
            made = teller.make_error(_name_tls_fault(tls[0]), words, setting="base_url")
            if made.code == "untrusted":
                made.setting = CERTIFICATE_VARIABLES[0]
            return made
        case httpx2.ProxyError() if proxy is not None:
            code = _name_proxy_fault(words)
            made = teller.make_error(code, words, retryable=code == "proxy_failed")
            made.setting = proxy.variable
            return made
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            made = teller.make_error("connect", words, setting="base_url", retryable=True)
            if proxy is not None:
                made.code, made.setting = "proxy", proxy.variable
            return made
        case httpx2.RemoteProtocolError() if has_no_answer and "disconnected" not in words:
            return teller.make_error("not_json", words)
        case httpx2.TransportError() | OSError() if has_no_answer:
            made = teller.make_error("closed", words, setting="base_url", retryable=True)
            if proxy is not None:
                made.code, made.setting = "proxy_closed", proxy.variable
            return made
        case httpx2.TransportError() | OSError():
            return teller.make_error("cut", words, retryable=True)
        case openai.OpenAIError() | httpx2.HTTPError() | httpx2.InvalidURL():
            return teller.make_error("connect", words, setting="base_url")
        case _:
            log.error("a request to %s failed in the program", teller.host, exc_info=error)
            return teller.make_error("internal", describe_error(cause))


def _is_tls_fault(error: BaseException) -> bool:
    """Whether an error is a failure of TLS, not a handshake that is still waiting for data."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLWantReadError)


def _name_tls_fault(error: BaseException) -> ErrorCode:
    """Return the code of a failed handshake: ``untrusted``, ``wants_http`` or ``tls``."""
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _UNKNOWN_AUTHORITY:
        return "untrusted"
    return "wants_http" if getattr(error, "reason", "") in _NO_TLS else "tls"


#: OpenSSL's codes of a chain that ends at no certificate known here.
_UNKNOWN_AUTHORITY: Final = (18, 19, 20, 21)
#: Its reasons where the other side does not answer in TLS.
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


def _name_proxy_fault(words: str) -> ErrorCode:
    """Return the code of a proxy's error; ``words`` begin with the HTTP status if it sent one."""
    if words.startswith("407"):
        return "proxy_login"
    return "proxy_refused" if words.startswith("4") else "proxy_failed"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its chained causes, outermost first."""
    behind: BaseException | None = error
    while behind is not None:
        yield behind
        if isinstance(behind, BaseExceptionGroup):  # one for each address that was tried
            behind = cast("BaseExceptionGroup[BaseException]", behind).exceptions[0]
        else:
            behind = behind.__cause__ or behind.__context__


def _describe_cause(error: BaseException) -> str:
    """Return the message of the system error behind an error, else the error's own message."""
    for behind in _causes(error):
        if isinstance(behind, OSError) and behind.errno:
            of_system = behind.errno > 0 and not isinstance(behind, ssl.SSLError)
            return os.strerror(behind.errno) if of_system else str(behind.strerror or behind)
    return str(error) or type(error).__name__


@dataclass(frozen=True, slots=True)
class _Answer:
    """Reads the body of an answer: an event stream, or a plain completion from servers that do not
    stream.
    """

    _completion: Completion
    _silence: SilenceLimit
    _teller: FailureTeller

    async def read_answer(self, response: httpx2.Response, pieces: AsyncIterator[bytes]) -> None:
        """Detect the form of the body and read it into the completion. Raises LlmError for anything
        else.
        """
        first = b""
        while len(first.lstrip()) < _ENOUGH:
            piece = await anext(pieces, None)
            if piece is None:
                break
            self._silence.note_byte()
            first += piece
        kind = response.headers.get("content-type", "").lower()
        start = first.lstrip(b"\xef\xbb\xbf \t\r\n")
        if "text/event-stream" in kind or start.startswith(_EVENT_STARTS):
            await self._read_events(first, pieces)
        elif start.startswith((b"{", b"[")):
            await self._read_plain(first, pieces)
        elif start:
            raise self._make_unreadable_error(first)
        else:
            raise self._teller.make_error("empty")

    def _make_unreadable_error(self, beginning: bytes) -> LlmError:
        """Make the error of a body that is a web page, or not JSON."""
        code = "html" if beginning.lstrip().startswith(b"<") else "not_json"
        return self._teller.make_error(code, beginning[:_SHOWN], setting="base_url")

    async def _read_events(self, first: bytes, pieces: AsyncIterator[bytes]) -> None:
        """Read an event stream. Raises LlmError if it contains no answer."""
        self._completion.streamed = True
        reader = EventReader()
        if self._take_all(reader.feed(first)):
            return
        async for piece in pieces:
            self._silence.note_byte()
            if self._take_all(reader.feed(piece)):
                return
        self._take_all(reader.finish())
        completion = self._completion
        if completion.saw_choice or completion.ended or completion.finish:
            return
        if first.strip() and not first.lstrip().startswith(_EVENT_STARTS):
            raise self._make_unreadable_error(first)
        raise self._teller.make_error("empty")

    async def _read_plain(self, first: bytes, pieces: AsyncIterator[bytes]) -> None:
        """Read a completion that is one JSON object."""
        body = bytearray(first)
        async for piece in pieces:
            self._silence.note_byte()
            body += piece
        self._take_event(bytes(body))
        self._completion.ended = True

    def _take_all(self, events: list[bytes]) -> bool:
        """Add events to the completion; return True after the final ``[DONE]``, behind which none
        counts. Extends the time limit if they brought a part of the answer.
        """
        before = self._completion.pieces
        for event in events:
            if event.startswith(_DONE):
                self._completion.ended = True
                return True
            if event.strip():
                self._take_event(event)
        if self._completion.pieces > before:
            self._silence.note_token()
        return False

    def _take_event(self, event: bytes) -> None:
        """Add one event to the completion. Raises LlmError for an error, also without that name,
        and for what is no chunk.
        """
        try:
            chunk = read_chunk(event)
        except ValidationError:
            raise self._make_unreadable_error(event) from None
        if chunk.error:
            raise self._teller.stream_error(chunk.error)
        if chunk.choices is None and chunk.usage is None and words_of(chunk.model_extra).message:
            raise self._teller.stream_error(chunk.model_extra)  # an error that is not named so
        self._completion.add_chunk(chunk)


async def _read_events(
    answer: AsyncStream[ResponseStreamEvent],
    completion: Completion,
    reader: ResponseReader,
    silence: SilenceLimit,
    teller: FailureTeller,
) -> None:
    """Read the answer of the Responses API: an event stream, or one JSON object from servers that
    do not stream.
    """
    response, lines = answer.response, LineLimit()
    assert isinstance(response, BoundedResponse)  # the transport makes no others
    kind = response.headers.get("content-type", "").lower()
    is_stream = "json" not in kind and "html" not in kind

    def hear(piece: bytes) -> None:
        """Note the bytes, and check the length of lines in a stream."""
        silence.note_byte()
        if is_stream:
            lines.check_piece(piece)

    response.hear = hear
    if not is_stream:
        body = await response.aread()
        if "html" in kind:
            raise teller.make_error("html", body[:_SHOWN], setting="base_url")
        reader.take_response(read_response(json.loads(body)))
        return
    completion.streamed = True
    async for event in answer:
        before = completion.pieces
        if reader.take_event(event):
            await _pass_the_end(answer)
            return
        if completion.pieces > before:
            silence.note_token()
    if not completion.pieces:
        raise teller.make_error("empty")


async def _pass_the_end(pieces: AsyncIterator[object]) -> None:
    """Read the end of a body after its last event, so that the connection can be reused. Waits at
    most ``_END_S`` seconds.
    """
    with suppress(Exception):
        async with asyncio.timeout(_END_S):
            await anext(pieces, None)


def _secret_headers(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the secret values in the endpoint's headers."""
    found: list[str] = []
    for name, value in endpoint.headers.items():
        if name.lower() in CREDENTIAL_HEADERS:
            found += [value, value.removeprefix("Bearer ")]
    return tuple(found)
