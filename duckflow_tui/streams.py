"""Standard streams that write any character, and outlive a lost reader or a full disk.

Imported at every start, so it imports only modules that Python has already loaded.
"""

from __future__ import annotations

import io
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

_output_error: OSError | None = None


def guard_streams() -> None:
    """Replace standard input, output and error by guarded streams.

    A character that the encoding lacks is written as an escape. Standard output raises OSError
    once when it cannot be written, and is dropped from then on; standard error is dropped without
    an error. A reader that pauses, such as a pager, is waited for. A stream that was closed from
    the start is opened on the null device, so that no other file gets its number; writing to it
    fails.
    """
    global _output_error
    _output_error = None
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by the caller
        sys.stdin = os.fdopen(_open_null_at(0), encoding="utf-8", closefd=False)
    sys.stdout = _guard_stream(sys.stdout, 1)
    sys.stderr = _guard_stream(sys.stderr, 2)


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
    """Return the stream to use for a descriptor: one that survives a missing or lost reader; a
    terminal, or a stream that is not the standard one, is returned itself.
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
    """Standard output or error as bytes."""

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
        """Write what fits and return its number of bytes; waits for a reader that pauses. After an
        error all data is dropped; on standard output the error is first raised, once.
        """
        global _output_error
        while not self._is_lost:
            try:
                return os.write(self._number, data)
            except BlockingIOError:  # whoever opened the descriptor made it non-blocking
                select.select((), (self._number,), ())
            except OSError as error:
                self._is_lost = True
                if self._number == 1:
                    _output_error = error
                    raise
        return memoryview(data).nbytes
