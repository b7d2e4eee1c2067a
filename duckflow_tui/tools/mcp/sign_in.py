"""Sign in at an MCP server with OAuth, in the browser, when the server asks for it; the SDK does
the protocol.

Tokens belong to the server's origin. They are stored in the system's keyring, or else in the
private file of the program's keys.
"""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

import httpx2
from pydantic import ValidationError

from duckflow_tui.llm.connections import KeyStore
from duckflow_tui.llm.endpoints import origin_of
from duckflow_tui.safety.pending_questions import Unanswered
from duckflow_tui.state.base import ToldError
from duckflow_tui.tools.mcp.config import McpServerConfig, printable_line

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import (
        AuthorizationCodeResult,
        OAuthClientInformationFull,
        OAuthToken,
    )

REDIRECT_S: Final = 600.0  # seconds that the user has for signing in
_UNAUTHORIZED: Final = 401
#: First port and number of ports for redirects: above those that Linux gives to connections.
_PORTS: Final = (61_000, 4_500)
_SECRETS: Final = ("access_token", "refresh_token", "client_secret")  # members that are secret


class SignInFailed(ToldError):
    """Signing in failed."""


class KeptTokens:
    """The stored tokens of one server, and the program's registration at it; kept over sessions.

    ``withhold`` receives each secret before it is used, so that no result and no record holds it.
    """

    def __init__(
        self,
        config: McpServerConfig,
        keys: KeyStore,
        withhold: Callable[[Iterable[str]], None],
    ) -> None:
        self._withhold = withhold
        parts = urlsplit(config.url)
        self._user = f"mcp {parts.scheme}://{parts.netloc} {config.name}"
        self._keys = keys
        self._kept: dict[str, Any] | None = None  # all stored parts, once they were read
        #: Origins that the user allowed for signing in; stored with the tokens.
        self.sites: set[str] = {origin_of(config.url)}

    def drop(self) -> None:
        """Delete the tokens; blocks on the keyring. Raises OSError."""
        self._keys.drop_secret(self._user)
        self._kept = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens; None for none."""
        from mcp.shared.auth import OAuthToken

        return await self._get("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens, their expiry, and the sites that the user let be contacted."""
        until = time.time() + tokens.expires_in if tokens.expires_in else None
        # The tokens first: they are used while the rest is written.
        await self._set("tokens", tokens.model_dump(mode="json", exclude_none=True))
        await self._set("until", until)
        await self._set("sites", sorted(self.sites))

    async def get_expiry(self) -> float | None:
        """Return when the access token expires, in seconds since the epoch; None if unknown."""
        until: object = (await self._load()).get("until")
        return float(until) if isinstance(until, int | float) else None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the program's registration at the server; None before it registered."""
        from mcp.shared.auth import OAuthClientInformationFull

        return await self._get("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the program's registration at the server."""
        await self._set("client", client_info.model_dump(mode="json", exclude_none=True))

    async def _get(self, part: str, kind: Any) -> Any:
        """Return a stored part as this type; None where it is missing or invalid."""
        kept = await self._load()
        try:
            return kind.model_validate(kept[part]) if part in kept else None
        except ValidationError:
            return None

    async def _set(self, part: str, value: object) -> None:
        """Withhold the secrets of a part, and store it."""
        self._withhold(_list_secrets(value))
        kept = await self._load()
        kept[part] = value
        await asyncio.to_thread(self._keys.put_secret, self._user, json.dumps(kept))

    async def _load(self) -> dict[str, Any]:
        """Return all stored parts, read at the first call; their secrets are withheld."""
        if self._kept is None:
            found = await asyncio.to_thread(self._read)
            for value in found.values():
                self._withhold(_list_secrets(value))
            self._kept = found
            sites: object = found.get("sites")
            self.sites.update(
                map(str, cast("list[object]", sites) if isinstance(sites, list) else ())
            )
        return self._kept

    def _read(self) -> dict[str, Any]:
        """Read all parts from the keyring or the private file; empty for none. Blocking."""
        secret = self._keys.get_secret(self._user)
        try:
            found: object = json.loads(secret or "{}")
        except ValueError:
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _list_secrets(part: object) -> list[str]:
    """Return the secrets in a stored part."""
    fields = cast("dict[str, object]", part) if isinstance(part, dict) else {}
    found = (fields.get(name) for name in _SECRETS)
    return [secret for secret in found if isinstance(secret, str) and secret]


class SignIn(httpx2.Auth):
    """Authentication of the requests to one server: once it answers 401, with the stored tokens or
    by signing in. A server that never asks for it gets no token.
    """

    def __init__(
        self,
        config: McpServerConfig,
        tokens: KeptTokens,
        ask_to_open: Callable[[str], Awaitable[bool]],
        ask_to_contact: Callable[[str], Awaitable[bool]],
        wait_for_user: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """``ask_to_open`` asks the user to open a page, ``ask_to_contact`` whether requests may go
        to another site; ``wait_for_user`` suspends the server's time limits meanwhile.
        """
        self._ask_to_open = ask_to_open
        self._ask_to_contact = ask_to_contact
        self._wait_for_user = wait_for_user
        self._port = redirect_port(config)
        self._tokens = tokens
        self._provider = self._make_provider(config, tokens)
        self._is_used = False
        self._redirect: asyncio.Future[dict[str, str]] | None = None
        self._listener: asyncio.Server | None = None

    def _make_provider(self, config: McpServerConfig, tokens: KeptTokens) -> OAuthClientProvider:
        """Return the SDK's OAuth provider for the server."""
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientMetadata
        from pydantic import AnyUrl

        metadata = OAuthClientMetadata(
            client_name="duckflow-tui",
            redirect_uris=[AnyUrl(f"http://127.0.0.1:{self._port}/callback")],
            token_endpoint_auth_method="none",
        )
        return OAuthClientProvider(
            config.url, metadata, tokens, self._open_page, self._wait_for_redirect
        )

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the requests to send, beginning with this one; sign in where the server answers
        401. Raises SignInFailed.
        """
        answer: httpx2.Response | None = None
        if not self._is_used:
            answer = yield request
            if answer.status_code != _UNAUTHORIZED:
                return
            self._is_used = True
        context = self._provider.context
        if context.token_expiry_time is None:  # the SDK does not keep the expiry over a restart
            context.token_expiry_time = await self._tokens.get_expiry()
        flow = self._provider.async_auth_flow(request)
        try:
            sent = await flow.__anext__()
            if sent is not request or context.is_token_valid():
                answer = None  # the tokens are renewed, or sent with the request again
            while True:
                if answer is None:
                    await self._check_site(sent)
                    answer = yield sent
                sent, answer = await flow.asend(answer), None
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _check_site(self, request: httpx2.Request) -> None:
        """Ask the user, once for each site, before a request goes to a site that the server named.
        Raises SignInFailed for a no. Requests without https are not asked about, since the
        transport refuses them.
        """
        site = origin_of(str(request.url))
        if site in self._tokens.sites or request.url.scheme != "https":
            return
        with self._wait_for_user(), self._fail_unanswered():
            if not await self._ask_to_contact(site.partition("://")[2]):
                raise SignInFailed("server.why.declined")
        self._tokens.sites.add(site)

    @contextmanager
    def _fail_unanswered(self) -> Generator[None]:
        """Turn an Unanswered in the block into SignInFailed."""
        try:
            yield
        except Unanswered as unanswered:
            raise SignInFailed("server.why.nobody") from unanswered

    async def _open_page(self, url: str) -> None:
        """Listen for the browser's redirect, then ask the user to open the page. Raises
        SignInFailed.
        """
        state = dict(parse_qsl(urlsplit(url).query)).get("state", "")
        self._redirect = asyncio.get_running_loop().create_future()
        try:
            self._listener = await asyncio.start_server(
                lambda reader, writer: self._answer_browser(reader, writer, state),
                "127.0.0.1",
                self._port,
                limit=16 * 1024,
            )
        except OSError as error:
            values = {"port": str(self._port), "reason": error.strerror or ""}
            raise SignInFailed("server.why.port", **values) from error
        opened = False
        try:
            with self._wait_for_user(), self._fail_unanswered():
                opened = await self._ask_to_open(url)
            if not opened:
                raise SignInFailed("server.why.declined")
        finally:
            if not opened:
                self._listener.close()

    async def _wait_for_redirect(self) -> AuthorizationCodeResult:
        """Return the authorization code that the browser's redirect brings. Raises SignInFailed
        after REDIRECT_S seconds or for a refusal.
        """
        from mcp.shared.auth import AuthorizationCodeResult

        assert self._redirect is not None
        assert self._listener is not None
        try:
            with self._wait_for_user():
                async with asyncio.timeout(REDIRECT_S):
                    query = await self._redirect
        except TimeoutError as error:
            raise SignInFailed("server.why.no_return") from error
        finally:
            self._listener.close()
        if "code" not in query:
            reason = printable_line(query.get("error_description") or query.get("error", ""))
            raise SignInFailed("server.why.refused", reason=reason)
        return AuthorizationCodeResult(
            code=query["code"], state=query.get("state"), iss=query.get("iss")
        )

    async def _answer_browser(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, state: str
    ) -> None:
        """Answer a request of the browser, and take it as the redirect if it carries this sign-in's
        ``state``.
        """
        try:
            line = (await reader.readline()).decode("ascii", "replace").split(" ")
            target = urlsplit(line[1] if len(line) > 1 else "")
            query = dict(parse_qsl(target.query))
            ours = target.path == "/callback" and query.get("state") == state
            status = "200 OK" if ours else "404 Not Found"
            body = "<!doctype html><title>duckflow-tui</title><h1>✓</h1>" if ours else ""
            text = body.encode()
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n"
                f"content-length: {len(text)}\r\nconnection: close\r\n\r\n".encode()
                + text
            )
            await writer.drain()
            if ours and self._redirect is not None and not self._redirect.done():
                self._redirect.set_result(query)
        except (ConnectionError, ValueError):
            pass  # the browser hung up, or sent no valid request
        finally:
            writer.close()


def redirect_port(config: McpServerConfig) -> int:
    """Return the local port of the redirect. It is the same in every session, since a server may
    have registered the program with the whole address.
    """
    first, count = _PORTS
    return first + zlib.crc32(f"{config.name} {config.url}".encode()) % count
