"""Reads keys typed before the app runs, echoes them in the first frame, and keeps them for
the app.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

_READ: Final = 4096  # bytes at once
_ERASES: Final = "\x7f\b"


class EarlyKeys:
    """Reads a raw terminal in a thread until the app does, without losing input.

    Plain characters and Backspace are echoed. From the first other key on, input is only kept,
    because the app decides what that key does.
    """

    def __init__(self, fd: int, show: Callable[[str], bool]) -> None:
        """``show`` draws the text so far; False where it has no room for it."""
        self._fd = fd
        self._show = show
        self._showing = True
        self._text = ""
        self._came = bytearray()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._read_keys, name="early keys", daemon=True)
        self._thread.start()

    def take_keys(self) -> bytes:
        """Stop reading and return all bytes read so far; a second call returns none."""
        if self._wake_write >= 0:
            os.write(self._wake_write, b".")
            self._thread.join()
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_read = self._wake_write = -1
        came = bytes(self._came)
        self._came.clear()
        return came

    def _read_keys(self) -> None:
        """Collect bytes typed before the app reads them; the body of a thread."""
        while True:
            ready, _, _ = select.select([self._fd, self._wake_read], [], [])
            if self._wake_read in ready:
                return
            data = b""
            with contextlib.suppress(OSError):
                data = os.read(self._fd, _READ)
            if not data:  # the terminal hung up; the app will see it too
                return
            self._came += data
            if self._showing:
                self._echo_text(self._decode(data))

    def _echo_text(self, typed: str) -> None:
        """Show typed text in the first frame, until a key comes that is no text."""
        for char in typed:
            if char in _ERASES:
                self._text = self._text[:-1]
            elif char.isprintable():
                self._text += char
            else:
                self._showing = False
                break
        self._showing = self._show(self._text) and self._showing
