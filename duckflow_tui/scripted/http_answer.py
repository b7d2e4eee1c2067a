"""How the scripted endpoint writes HTTP/1.1, and what it writes when a fault is scripted."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Coroutine
from typing import Any, Final

from duckflow_tui.scripted.replies import Fault
from duckflow_tui.state.base import JsonObject

_PIECE: Final = 64 * 1024  # bytes written at once where a fault wants many
_REASONS: Final = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 404: "Not Found"}


class ConnectionCut(Exception):
    """The script wants the connection to be closed here."""


class Answer:
    """Writes one HTTP/1.1 answer."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self._writer = writer
        self._reader = reader
        self._added = bytearray()  # events that go out together

    async def is_waited_for(self, until: Coroutine[Any, Any, object]) -> bool:
        """Wait for ``until``. Returns True once it has ended, False where the client hung up
        before.
        """
        ends = asyncio.ensure_future(until)
        gone = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait((ends, gone), return_when=asyncio.FIRST_COMPLETED)
            return ends.done()
        finally:
            ends.cancel()
            gone.cancel()
            await asyncio.wait((ends, gone))  # until then nobody else may read

    async def send_whole(
        self,
        status: int,
        body: str | bytes,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send an answer of known length."""
        raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
        self._write_head(
            status, {"content-type": kind, "content-length": str(len(raw)), **(headers or {})}
        )
        for start in range(0, len(raw), _PIECE):
            self._writer.write(raw[start : start + _PIECE])
            await self._writer.drain()
        await self._writer.drain()

    async def error(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        """Send an error object in OpenAI's form."""
        error = {"message": message, "type": "scripted", "param": None, "code": None}
        await self.send_whole(status, json.dumps({"error": error}), headers=headers)

    async def begin(self, headers: dict[str, str] | None = None) -> None:
        """Send the head of an event stream."""
        self._write_head(
            200,
            {
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-store",
                "transfer-encoding": "chunked",
                **(headers or {}),
            },
        )
        await self._writer.drain()

    def add(self, event: JsonObject | str) -> None:
        """Add an event to those that go out with the next ``flush``."""
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        name = "" if isinstance(event, str) else event.get("type", "")
        kind = f"event: {name}\n" if name else ""
        self._added += f"{kind}data: {data}\n\n".encode("utf-8", "surrogatepass")

    async def flush(self) -> None:
        """Send the events that were added, as one piece of the body."""
        added, self._added = bytes(self._added), bytearray()
        await self.piece(added)

    async def piece(self, raw: bytes) -> None:
        """Send bytes of a stream's body at once; nothing for none."""
        if raw:
            self._writer.write(b"%x\r\n%b\r\n" % (len(raw), raw))
            await self._writer.drain()

    async def end(self) -> None:
        """Send the added events and the end of the stream."""
        await self.flush()
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _write_head(self, status: int, headers: dict[str, str]) -> None:
        """Write the status line and the headers."""
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


async def cut_connection() -> None:
    """Raises ConnectionCut."""
    raise ConnectionCut


async def stall_reply(fault: Fault, answer: Answer) -> None:
    """Send nothing but comments for as long as the fault says."""
    left = fault.stall_s
    while left > 0:
        step = min(fault.keepalive_s or left, left)
        await asyncio.sleep(step)
        left -= step
        if fault.keepalive_s:
            await answer.piece(b": still here\n\n")


async def send_whole_fault(fault: Fault, answer: Answer) -> bool:
    """Send the fault that comes instead of a stream; False where there is none. Raises
    ConnectionCut.
    """
    if fault.close:
        raise ConnectionCut
    if fault.html:
        page = fault.body or "<!doctype html><html><body><h1>Sign in</h1></body></html>"
        await answer.send_whole(fault.status, page, "text/html; charset=utf-8", fault.headers)
    elif fault.gzip_bytes:
        body = gzip.compress(bytes(fault.gzip_bytes))
        headers = {"content-encoding": "gzip", **fault.headers}
        await answer.send_whole(fault.status, body, "text/event-stream", headers)
    elif fault.body is not None:
        await answer.send_whole(fault.status, fault.body, "application/json", fault.headers)
    elif fault.status != 200:
        message = fault.message or f"scripted status {fault.status}"
        await answer.error(fault.status, message, fault.headers)
    else:
        return False
    return True
