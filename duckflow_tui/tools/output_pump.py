"""Reads what a command prints in a thread of its own, and tells of it at most 20 times a second."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Final

from duckflow_tui.state.processes import TAIL, overprinted
from duckflow_tui.tools.command_output import Capture

_EVERY: Final = 0.05  # seconds between two tellings
_PIECE: Final = 64 * 1024  # bytes of one read
_REST: Final = 16  # pieces that are taken out of a pipe nobody waits for any more


class OutputPump:
    """Empties a pipe into a capture until it is closed or the pump is told to stop.

    ``tell`` is called in the loop's thread with the newest text; when there is more than a screen
    shows, what is older is left out of it.
    """

    def __init__(self, pipe: int, capture: Capture, tell: Callable[[str], None]) -> None:
        self._pipe = pipe
        self._capture = capture
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        # What is told reaches a screen, whose timers need to know which one it is.
        self._context = contextvars.copy_context()
        self._wake, self._waker = os.pipe()
        self._parts: list[str] = []
        self._size = 0
        self._last = 0.0
        self.done = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="command output", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take what is in the pipe now, then end; somebody else may hold it open for ever."""
        if not self.done.is_set():
            with contextlib.suppress(OSError):
                os.write(self._waker, b"x")

    def _run(self) -> None:
        try:
            self._read()
            self._add(self._capture.end())
            self._flush()
        finally:
            os.close(self._pipe)
            self._in_loop(self._finished)

    def _finished(self) -> None:
        # Here and not in the thread, or stop() could write into somebody else's descriptor.
        os.close(self._wake)
        os.close(self._waker)
        self.done.set()

    def _read(self) -> None:
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            wait = max(self._last + _EVERY - time.monotonic(), 0) * 1_000 if self._parts else None
            ready = {descriptor for descriptor, _ in poll.poll(wait)}
            if self._wake in ready:
                self._take_rest()
                return
            if self._pipe in ready:
                data = os.read(self._pipe, _PIECE)
                if not data:
                    return
                self._add(self._capture.take(data))
            if self._parts and time.monotonic() >= self._last + _EVERY:
                self._flush()

    def _take_rest(self) -> None:
        os.set_blocking(self._pipe, False)
        for _ in range(_REST):
            try:
                data = os.read(self._pipe, _PIECE)
            except BlockingIOError:
                return
            if not data:
                return
            self._add(self._capture.take(data))

    def _add(self, text: str) -> None:
        if not text:
            return
        self._parts.append(text)
        self._size += len(text)
        if self._size > 2 * TAIL:
            newest = _newest("".join(self._parts))
            self._parts, self._size = [newest], len(newest)

    def _flush(self) -> None:
        if not self._parts:
            return
        text = _newest("".join(self._parts))
        self._parts, self._size = [], 0
        self._last = time.monotonic()
        self._in_loop(lambda: self._tell(text))

    def _in_loop(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(call, context=self._context)


def _newest(text: str) -> str:
    """What is left to show of a piece; where its first line was printed over, with what wipes."""
    wipes = "\r" in text.partition("\n")[0].rstrip("\r")
    return ("\r" if wipes else "") + overprinted(text)[-TAIL:]
