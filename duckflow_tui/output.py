"""Standard streams that never raise for a character, and never wait for ever for a reader.

Imported before the first frame, so that it needs nothing that Python has not loaded by itself.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, TextIO

PATIENCE_S: Final = 2.5  # seconds without a byte read, after which a reader is given up
_SLICE_S: Final = 0.1  # seconds of waiting between two looks at the patience
_PIECE: Final = 4096  # bytes that fit whole into a pipe that takes any at all (PIPE_BUF)

_patience: float | None = PATIENCE_S
_lost: OSError | None = None


def guard_streams() -> None:
    """Put guarded streams in the place of standard input, output and error.

    A character that the encoding lacks is written as an escape. Standard output raises OSError
    once when it cannot be written, or nobody reads it for ``PATIENCE_S``, and is dropped from then
    on; standard error is dropped without an error. A stream that was closed from the start is
    opened, so that no file of the program gets its number; writing to it fails. A terminal is
    written as it is: whoever stopped it goes on.
    """
    global _lost
    _lost = None
    set_patience(PATIENCE_S)
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by the caller
        sys.stdin = os.fdopen(_reserve(0), encoding="utf-8", closefd=False)
    sys.stdout = _guarded(sys.stdout, 1)
    sys.stderr = _guarded(sys.stderr, 2)


def set_patience(seconds: float | None) -> None:
    """Set how long a reader may read nothing before it is given up; None waits for ever."""
    global _patience
    _patience = seconds


def output_error() -> OSError | None:
    """The error that standard output was lost by; None while it can be written."""
    return _lost


def _reserve(number: int) -> int:
    """Open a descriptor that was closed, so that it can be read (as empty) and not written."""
    opened = os.open(os.devnull, os.O_RDONLY)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return number


def _guarded(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:
        _reserve(number)
        return _text_stream(number, "utf-8", by_lines=True)
    wrapper: Any = stream
    try:
        is_ours = isinstance(wrapper, io.TextIOWrapper) and stream.fileno() == number
    except OSError:
        is_ours = False
    if not is_ours:  # somebody who calls the program put their own there
        return stream
    if stream.isatty():
        wrapper.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    by_lines = wrapper.line_buffering or wrapper.write_through
    return _text_stream(number, stream.encoding, by_lines=by_lines)


def _text_stream(number: int, encoding: str, *, by_lines: bool) -> TextIO:
    binary = io.BufferedWriter(_Descriptor(number))
    return io.TextIOWrapper(binary, encoding, "backslashreplace", line_buffering=by_lines)


class _Descriptor(io.RawIOBase):
    """Standard output or error as bytes; waits for its reader as long as the patience lasts."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._is_lost = False

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        global _lost
        view = memoryview(data)
        if self._is_lost:
            return view.nbytes
        try:
            return self._write_piece(view[:_PIECE])
        except OSError as error:
            self._is_lost = True
            if self._number != 1:
                return view.nbytes
            _lost = error
            raise

    def _write_piece(self, piece: memoryview) -> int:
        poll = select.poll()
        poll.register(self._number, select.POLLOUT)
        waited_s = 0.0
        while True:
            if poll.poll(_SLICE_S * 1000):
                try:
                    return os.write(self._number, piece)
                except BlockingIOError:  # the caller set it so, and a part of the piece has room
                    time.sleep(_SLICE_S)
            waited_s = 0.0 if _patience is None else waited_s + _SLICE_S
            if _patience is not None and waited_s >= _patience:
                raise TimeoutError(errno.ETIMEDOUT, "nobody reads it")
