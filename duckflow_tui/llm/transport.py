"""The HTTP transport to one endpoint: sends to no other origin and reads only bounded answers (R11,
R18).

Import it only after the first paint: it imports the HTTP library.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from typing import Final, Literal, NamedTuple

import httpx2

from duckflow_tui.llm.contacts import Report, outside
from duckflow_tui.llm.endpoints import (
    CREDENTIAL_HEADERS,
    HERE,
    PROBE,
    Endpoint,
    is_loopback,
    is_private_address,
    may_carry_key,
    origin_of,
    setting_of,
)
from duckflow_tui.llm.errors import ErrorCode
from duckflow_tui.llm.exchange import ReplyObserver
from duckflow_tui.state.base import Clock
from duckflow_tui.state.usage import HostContacted, HostUse, Waiting

MAX_BODY: Final = 32 * 1024 * 1024  # decoded bytes of one answer (R18)
MAX_ERROR_BODY: Final = 64 * 1024  # of an answer that is an error; the rest is not read
PURPOSE_HEADER: Final = "X-Duckflow-Purpose"
THREAD_HEADER: Final = "X-Duckflow-Thread"  # only to a server on this machine

ANTHROPIC: Final = "https://api.anthropic.com:443"

#: What of a request's headers the client library writes; all others would be its own affair.
_PASSED: Final = frozenset(
    {"host", "accept", "connection", "content-type", "content-length", "transfer-encoding"}
) | {PURPOSE_HEADER.lower(), THREAD_HEADER.lower()}


#: Where the library looks for certificates before it takes the system's, in this order.
CERTIFICATE_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class WayClosed(Exception):
    """Raised when the environment's proxy or certificates cannot be used. ``code`` is that of the
    resulting error, ``variable`` the environment variable to check; the cause has details.
    """

    def __init__(self, code: Literal["proxy", "socks", "certificates"], variable: str) -> None:
        super().__init__(variable)
        self.code: ErrorCode = code
        self.variable = variable


class BodyTooLarge(httpx2.StreamError):
    """Raised for an answer over the limit of its response."""


class ForeignOrigin(Exception):
    """Raised for a request to another origin than the endpoint's, before it is sent."""


class BadStatus(Exception):
    """Raised for an answer with status 300 or more. ``body`` is cut to ``MAX_ERROR_BODY`` bytes."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        self.body = body


class BoundedResponse(httpx2.Response):
    """The response of a transport, with a decompressed body of at most ``most`` bytes, or of any
    size for who iterates over it if ``is_endless``. ``hear`` is called with each piece.
    """

    most: int = MAX_BODY
    is_endless = False
    hear: Callable[[bytes], None] | None = None

    def __init__(self, answer: httpx2.Response, on_end: Callable[[int], None]) -> None:
        """``on_end`` is called with the bytes of the body received when it ends."""
        super().__init__(
            answer.status_code,
            headers=answer.headers,
            stream=answer.stream,
            extensions=answer.extensions,
        )
        self._on_end = on_end

    async def aread(self) -> bytes:
        """Return the decompressed body; raises BodyTooLarge beyond ``most`` bytes."""
        self.is_endless = False
        return await super().aread()

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the decompressed body in pieces; raises BodyTooLarge beyond ``most`` bytes, unless
        the response is endless.
        """
        total = 0
        try:
            async with aclosing(super().aiter_bytes(chunk_size)) as pieces:
                async for piece in pieces:
                    total += len(piece)
                    if total > self.most and not self.is_endless:  # R18b
                        raise BodyTooLarge(f"the answer is over {self.most >> 20} MB")
                    if self.hear is not None:
                        self.hear(piece)
                    yield piece
        finally:
            self._on_end(self.num_bytes_downloaded)


def head_size(message: httpx2.Request | httpx2.Response) -> int:
    """Return the bytes of a message's headers, for a request also those of its body."""
    size = sum(map(len, chain.from_iterable(message.headers.raw)))
    is_request = isinstance(message, httpx2.Request)
    return size + (int(message.headers.get("content-length", 0)) if is_request else 0)


def _report_to_nobody(contact: HostContacted) -> None:
    """Ignore a report, where nobody asked for them."""


async def send_counted(
    inner: httpx2.AsyncBaseTransport,
    request: httpx2.Request,
    contact: HostContacted,
    report: Report,
    now: Callable[[], float],
) -> BoundedResponse:
    """Send a request, and report ``contact`` with the bytes sent when the answer begins or none
    comes, none if there was no connection; then the bytes received when the answer ends.
    """
    begun = contact.replace(sent=head_size(request))
    try:
        answer = await inner.handle_async_request(request)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError):
        begun = contact
        raise
    finally:
        report(begun)

    def report_end(size: int) -> None:
        """Report the answer; ``size``: bytes of its body."""
        received = head_size(answer) + size
        report(contact.replace(at=now(), requests=0, received=received))

    return BoundedResponse(answer, report_end)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to one origin only, with the endpoint's headers and few others."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        endpoint: Endpoint,
        key: str | None,
        report: Report | None = None,
        via: str = "",
    ) -> None:
        """``report`` is called with the bytes sent and received; ``via`` names the proxy for these
        reports.
        """
        self._inner = inner
        self._report: Report = report or outside.get(None) or _report_to_nobody
        use: HostUse = "model" if report is not None else _USES.get(endpoint.name, "list")
        setting = "discovery.ports" if use == "discovery" else ""
        if use == "model":
            setting = setting_of(endpoint.name, "base_url")
        self._contact = HostContacted(
            host=endpoint.origin.partition("://")[2],
            use=use,
            name=endpoint.name if use == "model" else "",
            setting=setting,
            via=via,
            at=0.0,
        )
        self._is_known = False  # the host was already reported
        self._origin = endpoint.origin
        self._own = self._listing = own_headers(endpoint, key)
        if self._origin == ANTHROPIC and key is not None:  # required by its list of models
            self._listing = {**self._own, "x-api-key": key, "anthropic-version": "2023-06-01"}
            self._listing.pop("authorization", None)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises ForeignOrigin, BadStatus for a status of 300 or more, and
        exceptions of the library.
        """
        if origin_of(str(request.url)) != self._origin:
            raise ForeignOrigin(request.url.host)
        own = self._listing if request.method == "GET" else self._own
        passed = {name: value for name, value in request.headers.items() if name in _PASSED}
        sent = httpx2.Request(
            request.method,
            request.url,
            headers={**passed, **own},
            stream=request.stream,
            extensions=request.extensions,
        )
        contact = self._contact.replace(at=time.time())
        if not self._is_known:
            self._is_known = True
            self._report(contact)
        contact = contact.replace(requests=1)
        response = await send_counted(self._inner, sent, contact, self._report, time.time)
        if response.status_code < 300:  # R11c
            return response
        try:
            body = await _read_beginning(response)
        finally:
            await response.aclose()
        raise BadStatus(response.status_code, dict(response.headers), body)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


async def _read_beginning(response: httpx2.Response) -> bytes:
    """Read at most ``MAX_ERROR_BODY`` bytes of a body; errors while reading end it."""
    body = bytearray()
    try:
        async with aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                body += piece[: MAX_ERROR_BODY - len(body)]
                if len(body) >= MAX_ERROR_BODY:
                    break
    except httpx2.HTTPError:
        pass  # only the status matters; a broken body shortens the message
    return bytes(body)


def own_headers(endpoint: Endpoint, key: str | None) -> dict[str, str]:
    """Return the headers for an endpoint, including its key; credentials in its settings only if
    they may be sent there.
    """
    headers = {"accept-encoding": "identity", "user-agent": "duckflow-tui"}
    if key is not None and "?" in endpoint.base_url:  # it is Azure's
        headers["api-key"] = key
    elif key is not None:
        headers["authorization"] = f"Bearer {key}"
    for name, value in endpoint.headers.items():
        if name.lower() not in CREDENTIAL_HEADERS or may_carry_key(endpoint):
            headers[name.lower()] = value
    return headers


class Proxy(NamedTuple):
    """A proxy, and the environment variable that names it."""

    url: str
    variable: str

    @property
    def secrets(self) -> tuple[str, ...]:
        """Its user with password, and its password; empty without."""
        user = self.url.partition("://")[2].rpartition("@")[0]
        return tuple(filter(None, (user, user.partition(":")[2])))

    @property
    def address(self) -> str:
        """Its host and port; raises ValueError if its port is invalid."""
        return origin_of(self.url).partition("://")[2]


def find_proxy(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the environment's proxy for a URL; None without one. Only for https, because plain
    http stays in the private network.
    """
    scheme, _, site = origin_of(url).partition("://")
    host, _, port = site.rpartition(":")
    if scheme != "https" or is_loopback(host):
        return None

    def setting(name: str) -> Proxy:
        """Return a proxy variable's value and name, in lower case or else upper case."""
        name = name if environ.get(name) else name.upper()
        return Proxy(environ.get(name, "").strip(), name)

    for entry in setting("no_proxy").url.lower().split(","):
        name, _, only = entry.strip().partition(":")
        name = name.lstrip("*").lstrip(".")
        is_named = entry.strip() == "*" or (name and f".{host}".endswith(f".{name}"))
        if is_named and only in ("", port):
            return None
    proxy = setting("https_proxy")
    if not proxy.url:
        proxy = setting("all_proxy")
    if not proxy.url:
        return None
    return proxy if "://" in proxy.url else proxy._replace(url=f"http://{proxy.url}")


async def resolves_privately(hostname: str) -> bool:
    """Whether all addresses of a host name are private; raises OSError if it has none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(hostname, None, type=socket.SOCK_STREAM)
    addresses = {str(entry[4][0]).partition("%")[0] for entry in found}
    return all(is_private_address(ipaddress.ip_address(address)) for address in addresses)


#: What the names of endpoints that no setting has are used for.
_USES: Final[dict[str, HostUse]] = {HERE: "discovery", PROBE: "probe"}


async def open_http(
    endpoint: Endpoint,
    key: str | None,
    environ: Mapping[str, str],
    connect_s: float,
    report: Report | None = None,
) -> httpx2.AsyncClient:
    """Open an HTTP client for one endpoint; certificates are loaded in a thread. ``report``
    receives amounts sent for the session; without it they go to the reports outside a session.

    Reading has no timeout, because models may think for minutes; the caller sets one.
    """
    proxy = find_proxy(endpoint.base_url, environ)
    inner = await asyncio.to_thread(open_transport, endpoint.base_url, proxy)
    via = proxy.address if proxy else ""
    return httpx2.AsyncClient(
        transport=GuardedTransport(inner, endpoint, key, report, via),
        follow_redirects=False,  # R11b
        trust_env=False,
        timeout=httpx2.Timeout(None, connect=connect_s, write=60.0),
    )


def open_transport(url: str, proxy: Proxy | None) -> httpx2.AsyncHTTPTransport:
    """Open a transport with the proxy and the certificates that the environment names. Blocks on
    the disk. Raises WayClosed.
    """
    try:
        verify = httpx2.create_ssl_context() if url.startswith("https://") else False
    except (OSError, ValueError) as error:
        named = (name for name in CERTIFICATE_VARIABLES if os.environ.get(name))
        raise WayClosed("certificates", next(named, CERTIFICATE_VARIABLES[0])) from error
    try:
        return httpx2.AsyncHTTPTransport(
            verify=verify,
            proxy=httpx2.Proxy(proxy.url) if proxy and proxy.address else None,
            limits=httpx2.Limits(keepalive_expiry=60.0),
        )
    except (ImportError, ValueError, OverflowError, httpx2.InvalidURL) as error:
        if proxy is None:
            raise
        code = "socks" if isinstance(error, ImportError) else "proxy"
        raise WayClosed(code, proxy.variable) from error


SILENT: Final = "silent"
_MOST_SPANS: Final = 3  # times the limit that comments and keep-alives can keep a call alive


class SilenceLimit:
    """A time limit for reading a stream that each received byte extends, including comments and
    keep-alives.

    The limit of silence is the endpoint's ``first_token_s`` until the first token, then its
    ``idle_s``. Bytes without a part of the answer extend it to at most three times that. After
    ``silent_s`` seconds of silence the observer is told, and again when bytes arrive.
    """

    def __init__(
        self, observer: ReplyObserver, clock: Clock, endpoint: Endpoint, silent_s: float
    ) -> None:
        self._observer = observer
        self._clock = clock
        self._span = endpoint.first_token_s
        self._idle_s = endpoint.idle_s
        self._silent_s = silent_s
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(self._span)
        self._last = self._since = self._loop.time()  # of a byte, of a part of the answer
        self._shown = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def silent_seconds(self) -> float | None:
        """The seconds of silence that ended the stream; None if they did not."""
        if not self._limit.expired():
            return None
        is_silent = self._last + self._span < self._since + _MOST_SPANS * self._span
        return self._span if is_silent else _MOST_SPANS * self._span

    @asynccontextmanager
    async def limit_block(self) -> AsyncGenerator[None]:
        """Apply the limit to this block; raises TimeoutError when it is exceeded."""
        async with self._limit:
            self._last = self._since = self._loop.time()
            self._timer = self._loop.call_later(self._silent_s, self._check_silence)
            try:
                yield
            finally:
                self._timer.cancel()
                if self._shown:
                    self._observer.set_waiting(None)

    def note_byte(self) -> None:
        """Note that bytes arrived."""
        self._last = self._loop.time()
        most = self._since + _MOST_SPANS * self._span
        self._limit.reschedule(min(self._last + self._span, most))
        if self._shown:
            self._shown = False
            self._observer.set_waiting(None)
            self._timer = self._loop.call_later(self._silent_s, self._check_silence)

    def note_token(self) -> None:
        """Note that a part of the answer arrived; from now on the limit is ``idle_s``."""
        self._since = self._last
        self._span = self._idle_s
        self._limit.reschedule(self._last + self._span)

    def _check_silence(self) -> None:
        """Tell the observer after ``silent_s`` seconds without bytes."""
        quiet = self._loop.time() - self._last
        if quiet < self._silent_s:
            self._timer = self._loop.call_later(self._silent_s - quiet, self._check_silence)
            return
        self._shown = True
        since = self._clock.now() - quiet
        self._observer.set_waiting(Waiting(reason=SILENT, since=since))
