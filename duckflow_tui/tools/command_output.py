"""The output of a command: shown as it comes, its ends kept for the model, the whole on disk."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from duckflow_tui.state.calls import TAIL, apply_carriage_returns
from duckflow_tui.state.lines import split_lines
from duckflow_tui.tools.process_group import Program
from duckflow_tui.tools.results import MAX_RESULT

HALF: Final = (MAX_RESULT - 4_096) // 2  # bytes of head and of tail; room for a few lines between
_IN_MEMORY: Final = MAX_RESULT  # bytes of output up to which no file is made
_WINDOW: Final = 1_000_000  # bytes of output searched at once for secrets, and a line's rest
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

    def copy_redacted(self, file: BinaryIO, redact: Callable[[str], str]) -> BinaryIO:
        """A copy of an output file, at its beginning, without the secrets that ``redact`` takes out
        of a text; it has no name. Blocking. Raises OSError.
        """
        copy = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - the caller closes it
        with open(file.fileno(), "rb", closefd=False) as whole:
            while data := whole.read(_WINDOW) + whole.readline():
                text = redact(data.decode("utf-8", "surrogateescape"))
                copy.write(text.encode("utf-8", "surrogateescape"))
        copy.seek(0)
        return copy

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
        """Keep raw output up to the limit: in memory first, then in a file."""
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
        """Move what is in memory to a temporary file."""
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
        """Give up the raw output and note why."""
        self.lost = error.strerror or str(error)
        self._raw = bytearray()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _fold_text(self, text: str) -> None:
        """Add text to the first and last part that are shown, as a terminal would draw it."""
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
_REST: Final = 16  # pieces that are taken out of a pipe nobody waits for any more


class OutputPump:
    """Reads the output of a program into a capture until it is closed, or soon after the program's
    end.

    ``tell`` is called with the newest text; when there is more than a screen shows, what is older
    is left out of it. ``drawn`` is set once something is drawn on the screen of a terminal.
    """

    def __init__(self, program: Program, capture: Capture, tell: Callable[[str], None]) -> None:
        self._capture = capture
        self._tell = tell
        self._untold = ""
        self._telling: asyncio.TimerHandle | None = None
        self._left: int | None = None  # pieces that are still taken; None: all
        self.drawn = asyncio.Event()
        self.done = asyncio.create_task(self._read_all(program), name="command output")

    def stop(self) -> None:
        """Take little more than is there now; somebody else may write into the pipe for ever."""
        self._left = _REST if self._left is None else self._left

    async def _read_all(self, program: Program) -> None:
        """Read a program's output to its end, or for the number of pieces that is left."""
        try:
            while self._left != 0 and (data := await program.read(program.stdout)):
                self._left = None if self._left is None else self._left - 1
                # In a thread: the whole is written to a disk, which may be slow.
                self._add_text(await asyncio.to_thread(self._capture.take_piece, data))
                if self._capture.draws:
                    self.drawn.set()
        finally:
            self._add_text(self._capture.end_input())
            self._flush_text()

    def _add_text(self, text: str) -> None:
        """Collect text to be told a moment later."""
        self._untold += text
        if len(self._untold) > 2 * TAIL:
            self._untold = _drop_overprinted(self._untold)
        if self._untold and self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_EVERY, self._flush_text)

    def _flush_text(self) -> None:
        """Tell the collected text now."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        text, self._untold = self._untold, ""
        if text:
            self._tell(_drop_overprinted(text))


def _drop_overprinted(text: str) -> str:
    """The rest of a piece that is still to be shown; where its first line was printed over, with
    what wipes.
    """
    wipes = "\r" in text.partition("\n")[0].rstrip("\r")
    return ("\r" if wipes else "") + apply_carriage_returns(text)[-TAIL:]
