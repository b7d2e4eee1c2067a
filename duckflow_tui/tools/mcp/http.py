"""The HTTP client for a server that is reached by address. Imports httpx2: only when needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import httpx2

MAX_BODY: Final = 32 * 1024 * 1024  # decoded bytes of an answer that is no stream of events (R18)
MAX_EVENT: Final = 4 * 1024 * 1024  # bytes of one event


class _BoundedResponse(httpx2.Response):
    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        streams = self.headers.get("content-type", "").startswith("text/event-stream")
        total = 0
        async with aclosing(super().aiter_bytes(chunk_size)) as pieces:
            async for piece in pieces:
                total += len(piece)
                if total > MAX_BODY and not streams:
                    raise httpx2.ReadError(f"the answer is over {MAX_BODY // 1024 // 1024} MB")
                yield piece


class _BoundedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        return _BoundedResponse(
            answer.status_code,
            headers=answer.headers,
            stream=answer.stream,
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


def http_client(url: str) -> httpx2.AsyncClient:
    """A client without our environment's proxies and credentials; reads certificates, so in a
    thread. An answer may take as long as the request's own time-out allows.
    """
    inner = httpx2.AsyncHTTPTransport(verify=url.startswith("https:"))
    return httpx2.AsyncClient(
        transport=_BoundedTransport(inner),
        follow_redirects=False,
        trust_env=False,
        timeout=httpx2.Timeout(None, connect=20.0, write=60.0),
        headers={"user-agent": "duckflow-tui"},
    )
