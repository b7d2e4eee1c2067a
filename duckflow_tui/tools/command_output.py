"""The output of a command: shown as it comes, its ends kept for the model, the whole on disk."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import contextvars
import os
import re
import select
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from duckflow_tui.state.calls import TAIL, apply_carriage_returns
from duckflow_tui.state.lines import split_lines
from duckflow_tui.tools.results import MAX_RESULT

HALF: Final = (MAX_RESULT - 4_096) // 2  # bytes of head and of tail; room for a few lines between
_IN_MEMORY: Final = MAX_RESULT  # bytes of output up to which no file is made
_LONG_LINE: Final = 64 * 1024  # characters from which on a line is no longer printed over

#: What colours a terminal, moves its cursor or names its window (ECMA-48, and OSC of xterm).
_ESCAPE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\n]*(?:\x1b\\)?"
    r"|[ -/]*[0-~])"
)

#: The beginning of one, at the end of what came so far.
_UNFINISHED: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]{0,4096}\x1b?|[PX^_][^\x1b\n]{0,4096}\x1b?|[ -/]*)\Z"
)
#: To the terminal's other screen, or to a place on it: who writes so draws on all of it.
_DRAWS: Final = re.compile(r"\x1b\[(?:\?(?:1049|1047|47)h|\d+;\d+[Hf])")

#: Lines that only say how far something is: dots of passed tests, marks of skipped ones. Fewer
#: than three are shorter than the sentences that would stand for them.
_PROGRESS: Final = re.compile(
    r"(?:^[.sxX]{8,}(?:[ \t]*\[[ \t]*\d{1,3}%\])?[ \t]*\n?){3,}", re.MULTILINE
)


def clean_output(text: str) -> tuple[str, bool]:
    """The text without escapes and each run of lines of progress as one; whether there was one."""

    def told(match: re.Match[str]) -> str:
        lines = len(split_lines(match.group()))
        return f"[… {lines} lines of progress left out …]\n"

    plain, runs = _PROGRESS.subn(told, _ESCAPE.sub("", text))
    return plain, runs > 0


class KeptOutput(NamedTuple):
    """Output as a model reads it: all of it, or head and tail with ``cut`` characters between."""

    head: str
    tail: str = ""
    cut: int = 0
    total: int = 0  # bytes that were printed


class Capture:
    """Takes output in from one thread and is asked from another. Memory is bounded.

    The first ``limit`` bytes are kept on disk once they are too many for memory; the file has no
    name, so that a crash leaves none behind.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self.limit = limit
        self._lock = threading.Lock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._raw = bytearray()  # while it is short
        self._file: BinaryIO | None = None
        self._written = 0
        self._total = 0
        self._line = ""  # the last line, which may still be printed over
        self._begun = ""  # an escape that is not whole yet
        self.draws = False  # whether something was drawn on the screen of a terminal
        self._head = bytearray()
        self._tail = bytearray()
        self._characters = 0  # of all whole lines
        self._bytes = 0
        self.lost = ""  # why the whole is not on disk
        self._closed = False

    def take_piece(self, data: bytes) -> str:
        """The next piece; returns it as text without escapes, carriage returns and all."""
        with self._lock:
            self._total += len(data)
            self._spool_data(data)
            text = self._begun + self._decoder.decode(data)
            begun = _UNFINISHED.search(text)
            text, self._begun = (text[: begun.start()], begun.group()) if begun else (text, "")
            self.draws = self.draws or _DRAWS.search(text) is not None
            text = _ESCAPE.sub("", text)
            self._fold_text(text)
            return text

    def end_input(self) -> str:
        """No more will come; returns what was held back of a character cut in two."""
        with self._lock:
            text = self._decoder.decode(b"", final=True)
            self._fold_text(text)
            return text

    def read_output(self) -> KeptOutput:
        """The output so far."""
        with self._lock:
            line = self._line.rstrip("\r").encode("utf-8", "replace")
            size = self._bytes + len(line)
            tail = bytes(self._tail) + line
            if size <= 2 * HALF:
                return KeptOutput(
                    (bytes(self._head) + tail).decode("utf-8", "replace"), "", 0, self._total
                )
            head = bytes(self._head).decode("utf-8", "ignore")
            end = tail[-HALF:].decode("utf-8", "ignore")
            characters = self._characters + len(self._line)
            return KeptOutput(head, end, max(characters - len(head) - len(end), 0), self._total)

    def last_lines(self, count: int) -> str:
        """The newest whole lines and the one that is being printed."""
        with self._lock:
            newest = bytes(self._head + self._tail)[-HALF:]
            lines = (newest.decode("utf-8", "ignore") + self._line.rstrip("\r")).split("\n")
        if lines and not lines[-1]:
            lines.pop()
        return "\n".join(lines[-count:])

    @property
    def is_complete(self) -> bool:
        """Whether the file holds everything that was printed."""
        return not self.lost and self._total <= self.limit

    def open_file(self) -> BinaryIO | None:
        """The file with the first ``limit`` bytes, at its beginning; None where there is none."""
        with self._lock:
            if self._file is None and not (self.lost or self._closed):
                self._open_spool()
            if self._file is not None:
                self._file.seek(0)
            return self._file

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
            self._closed = True
            self._raw = bytearray()
            del self._tail[:-HALF]

    # --- under the lock ----------------------------------------------------------------------

    def _spool_data(self, data: bytes) -> None:
        room = self.limit - self._written - len(self._raw)
        data = data[: max(room, 0)]
        if not data or self.lost or self._closed:
            return
        if self._file is None:
            self._raw += data
            if len(self._raw) > _IN_MEMORY:
                self._open_spool()
        else:
            self._write_spool(data)

    def _open_spool(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # It has to outlive this call.
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            self._lose_spool(error)
            return
        raw, self._raw = bytes(self._raw), bytearray()
        self._write_spool(raw)

    def _write_spool(self, data: bytes) -> None:
        assert self._file is not None
        view = memoryview(data)
        try:
            while view:
                done = os.write(self._file.fileno(), view)
                self._written += done
                view = view[done:]
        except OSError as error:
            self._lose_spool(error)

    def _lose_spool(self, error: OSError) -> None:
        self.lost = error.strerror or str(error)
        self._raw = bytearray()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _fold_text(self, text: str) -> None:
        text = apply_carriage_returns(self._line + text)
        whole = text.rfind("\n") + 1
        if len(text) - whole > _LONG_LINE:
            whole = len(text)
        self._line = text[whole:]
        done = text[:whole]
        self._characters += len(done)
        raw = done.encode("utf-8", "replace")
        self._bytes += len(raw)
        room = max(HALF - len(self._head), 0)
        self._head += raw[:room]
        self._tail += raw[room:]
        if len(self._tail) > 4 * HALF:
            del self._tail[:-HALF]


_EVERY: Final = 0.05  # seconds between two tellings
_PIECE: Final = 64 * 1024  # bytes of one read
_REST: Final = 16  # pieces that are taken out of a pipe nobody waits for any more


class OutputPump:
    """Empties a pipe into a capture until it is closed or the pump is told to stop.

    ``tell`` is called in the loop's thread with the newest text; when there is more than a screen
    shows, what is older is left out of it. ``drawn`` is set there once something is drawn.
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
        self.drawn = asyncio.Event()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="command output", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take what is in the pipe now, then end; somebody else may hold it open for ever."""
        if not self.done.done():
            with contextlib.suppress(OSError):
                os.write(self._waker, b"x")

    def _run(self) -> None:
        try:
            self._read_pipe()
            self._add_text(self._capture.end_input())
            self._flush_text()
        finally:
            os.close(self._pipe)
            self._in_loop(self._on_finished)

    def _on_finished(self) -> None:
        # Here and not in the thread, or stop() could write into somebody else's descriptor.
        os.close(self._wake)
        os.close(self._waker)
        self.done.set_result(None)

    def _read_pipe(self) -> None:
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        told = False
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
                self._add_text(self._capture.take_piece(data))
                if self._capture.draws and not told:
                    told = True
                    self._in_loop(self.drawn.set)
            if self._parts and time.monotonic() >= self._last + _EVERY:
                self._flush_text()

    def _take_rest(self) -> None:
        os.set_blocking(self._pipe, False)
        for _ in range(_REST):
            try:
                data = os.read(self._pipe, _PIECE)
            except BlockingIOError:
                return
            if not data:
                return
            self._add_text(self._capture.take_piece(data))

    def _add_text(self, text: str) -> None:
        if not text:
            return
        self._parts.append(text)
        self._size += len(text)
        if self._size > 2 * TAIL:
            newest = _drop_overprinted("".join(self._parts))
            self._parts, self._size = [newest], len(newest)

    def _flush_text(self) -> None:
        if not self._parts:
            return
        text = _drop_overprinted("".join(self._parts))
        self._parts, self._size = [], 0
        self._last = time.monotonic()
        self._in_loop(lambda: self._tell(text))

    def _in_loop(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(call, context=self._context)


def _drop_overprinted(text: str) -> str:
    """The rest of a piece that is still to be shown; where its first line was printed over, with
    what wipes.
    """
    wipes = "\r" in text.partition("\n")[0].rstrip("\r")
    return ("\r" if wipes else "") + apply_carriage_returns(text)[-TAIL:]
