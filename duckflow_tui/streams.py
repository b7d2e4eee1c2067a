"""Standard streams that write any character and give up on a reader that stopped reading.

Imported at every start, so it imports only modules that Python has already loaded.
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

PATIENCE_S: Final = 2.5  # seconds without progress after which a reader is given up
_POLL_S: Final = 0.1  # seconds of one wait
_CHUNK: Final = 4096  # bytes (PIPE_BUF): a pipe that is ready takes that many without blocking

_patience: float | None = PATIENCE_S
_output_error: OSError | None = None


def guard_streams() -> None:
    """Replace standard input, output and error by guarded streams.

    A character that the encoding lacks is written as an escape. Standard output raises OSError
    once when it cannot be written, or nobody reads it for ``PATIENCE_S``, and is dropped from then
    on; standard error is dropped without an error. A stream that was closed from the start is
    opened on the null device, so that no other file gets its number; writing to it fails. A
    terminal is never given up, because its user may have stopped it and will let it go on.
    """
    global _output_error
    _output_error = None
    set_patience(PATIENCE_S)
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by the caller
        sys.stdin = os.fdopen(_open_null_at(0), encoding="utf-8", closefd=False)
    sys.stdout = _guard_stream(sys.stdout, 1)
    sys.stderr = _guard_stream(sys.stderr, 2)


def set_patience(seconds: float | None) -> None:
    """Set the seconds after which a stalled reader is given up; None waits for ever."""
    global _patience
    _patience = seconds


def output_error() -> OSError | None:
    """The error that made standard output unusable; None while it can be written."""
    return _output_error


def _open_null_at(number: int) -> int:
    """Open the null device, for reading only, under the number of a closed descriptor."""
    opened = os.open(os.devnull, os.O_RDONLY)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return number


def _guard_stream(stream: TextIO | None, number: int) -> TextIO:
    """Return the stream to use for a descriptor: one that survives a missing, slow or lost reader;
    a terminal, or a stream that is not the standard one, is returned itself.
    """
    if stream is None:
        _open_null_at(number)
        return _text_stream(number, "utf-8", by_lines=True)
    wrapper: Any = stream
    try:
        is_ours = isinstance(wrapper, io.TextIOWrapper) and stream.fileno() == number
    except OSError:
        is_ours = False
    if not is_ours:  # a stream that the calling code installed
        return stream
    if stream.isatty():
        wrapper.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    by_lines = wrapper.line_buffering or wrapper.write_through
    return _text_stream(number, stream.encoding, by_lines=by_lines)


def _text_stream(number: int, encoding: str, *, by_lines: bool) -> TextIO:
    """Return a text stream that writes to a descriptor."""
    binary = io.BufferedWriter(_Descriptor(number))
    return io.TextIOWrapper(binary, encoding, "backslashreplace", line_buffering=by_lines)


class _Descriptor(io.RawIOBase):
    """Standard output or error as bytes; a write fails when its reader stalls for too long."""

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
        """Write at most 4 KB and return the count. After an error all data is dropped; on standard
        output the error is first raised, once.
        """
        global _output_error
        view = memoryview(data)
        if self._is_lost:
            return view.nbytes
        try:
            return self._write_chunk(view[:_CHUNK])
        except OSError as error:
            self._is_lost = True
            if self._number != 1:
                return view.nbytes
            _output_error = error
            raise

    def _write_chunk(self, chunk: memoryview) -> int:
        """Write as much as fits, waiting for a slow reader. Raises TimeoutError after ``_patience``
        seconds.
        """
        poll = select.poll()
        poll.register(self._number, select.POLLOUT)
        waited_s = 0.0
        while True:
            if poll.poll(_POLL_S * 1000):
                try:
                    return os.write(self._number, chunk)
                except (
                    BlockingIOError
                ):  # the descriptor is non-blocking, and the chunk does not fit
                    time.sleep(_POLL_S)
            waited_s = 0.0 if _patience is None else waited_s + _POLL_S
            if _patience is not None and waited_s >= _patience:
                raise TimeoutError(errno.ETIMEDOUT, "nobody reads it")
