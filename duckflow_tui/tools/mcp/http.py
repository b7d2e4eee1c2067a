"""The HTTP client for MCP servers: reached through the same proxies as models, with bounded answers
and counted traffic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import httpx2

from duckflow_tui.llm.endpoints import origin_of
from duckflow_tui.llm.transport import WayClosed, find_proxy, open_transport, send_counted
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import HostContacted

MAX_BODY: Final = 4 * 1024 * 1024  # decoded bytes of an answer, or of one event of a stream (R18)


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests, with bounded answers; reports the traffic to the store, and calls
    ``on_session_lost`` when the server no longer knows the session. Each origin is reached with
    the proxy and the certificates of the environment.
    """

    def __init__(
        self,
        name: str,
        url: str,
        store: Store,
        environ: Mapping[str, str],
        on_session_lost: Callable[[], None],
    ) -> None:
        self._ways: dict[str, httpx2.AsyncHTTPTransport] = {}  # by origin
        self._environ = environ
        self._on_session_lost = on_session_lost
        self._name = name
        self._origin = origin_of(url)
        self._store = store

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response. Origins other than the server's, to which signing
        in may lead, are reached by https only, so that a server cannot make the app ask services
        of the local network.
        """
        url = str(request.url)
        if request.url.scheme != "https" and origin_of(url) != self._origin:
            site = request.url.netloc.decode("ascii", "replace")
            raise httpx2.UnsupportedProtocol(f"{site} is not reached without https")
        proxy = find_proxy(url, self._environ)
        contact = HostContacted(
            host=origin_of(url).partition("://")[2],
            use="mcp",
            name=self._name,
            via=proxy.address if proxy else "",
            setting=f"mcp.servers.{self._name}.url",
            at=self._store.clock.now(),
        )
        way = self._ways.get(origin_of(url))
        try:
            if way is None:
                way = await asyncio.to_thread(open_transport, url, proxy)
                way = self._ways.setdefault(origin_of(url), way)
            self._store.dispatch(contact.replace(requests=1))
            clock, report = self._store.clock, self._store.dispatch
            response = await send_counted(way, request, contact, report, clock.now)
        except WayClosed as closed:
            raise httpx2.ConnectError(f"{closed.variable}: {closed.__cause__}") from closed
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            if proxy is None:
                raise
            raise httpx2.ConnectError(f"{proxy.variable}: {error}") from error
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            self._on_session_lost()
        response.most, response.is_endless = MAX_BODY, True  # the SDK limits what it iterates over
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for way in self._ways.values():
            await way.aclose()


def http_client(
    url: str,
    name: str,
    store: Store,
    environ: Mapping[str, str],
    on_session_lost: Callable[[], None],
    auth: httpx2.Auth,
) -> httpx2.AsyncClient:
    """Return the HTTP client for a server: ``auth`` signs in, redirects are not followed,
    credentials of the environment are not used, and the traffic is reported to ``store``.
    Connecting may take 20 s and writing 60 s; reading has no limit here. ``on_session_lost`` is
    called when the server no longer knows the session.
    """
    return httpx2.AsyncClient(
        auth=auth,
        transport=_BoundedTransport(name, url, store, environ, on_session_lost),
        follow_redirects=False,
        trust_env=False,
        timeout=httpx2.Timeout(None, connect=20.0, write=60.0),
        headers={"user-agent": "duckflow-tui"},
    )
