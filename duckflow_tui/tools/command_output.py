"""The output of a command: streamed to the screen, its beginning and end kept for the model, all of
it spooled to a file.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from duckflow_tui.safety.safe_text import ESCAPE
from duckflow_tui.state.calls import TAIL, apply_carriage_returns
from duckflow_tui.tools.process_group import Program
from duckflow_tui.tools.results import MAX_RESULT

#: Bytes of head and of tail, less room for a few lines between.
HALF: Final = (MAX_RESULT - 4_096) // 2
_IN_MEMORY: Final = MAX_RESULT  # bytes of output up to which no file is made
_WINDOW: Final = 1_000_000  # bytes redacted at once, extended to the end of a line
_OVERLAP: Final = 32_768  # characters redacted again with the next window; a private key is shorter
_LONG_LINE: Final = 64 * 1024  # characters of a line from which on it is kept as finished

#: The beginning of an escape sequence, of bounded length, at the end of a piece.
_UNFINISHED: Final = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,64}|\][^\x07\x1b\n]{0,4096}\x1b?|[PX^_][^\x1b\n]{0,4096}\x1b?"
    r"|[ -/]{0,64})\Z"
)
#: A switch to the terminal's alternate screen, or a cursor position, as full-screen programs send.
_DRAWS: Final = re.compile(r"\x1b\[(?:\?(?:1049|1047|47)h|\d+;\d+[Hf])")


class KeptOutput(NamedTuple):
    """Output for a model: all of it in ``head``, or beginning and end with ``cut`` characters left
    out between.
    """

    head: str
    tail: str = ""
    cut: int = 0
    total: int = 0  # bytes that were printed


class Capture:
    """Collects output in bounded memory. Written to from one thread and read from another.

    The first ``limit`` bytes are kept raw, in memory or, if they are many, in a file without a
    name, so that a crash leaves none behind.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        """``folder``, which is created, holds the file; ``limit`` is in bytes."""
        self._folder = folder
        self.limit = limit
        self._lock = threading.Lock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with contextlib.suppress(OSError):  # then the first byte for the disk is refused
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._spool = tempfile.SpooledTemporaryFile[bytes](_IN_MEMORY, dir=str(folder))
        self._total = 0
        self._line = ""  # the unfinished last line, which may be overprinted
        self._begun = ""  # an incomplete escape sequence
        self.draws = False  # whether something was drawn on the screen of a terminal
        self._head = bytearray()
        self._tail = bytearray()
        self._characters = 0  # of all finished lines
        self._bytes = 0
        self.lost = ""  # why the whole output could not be stored

    def take_piece(self, data: bytes) -> str:
        """Add a piece of output; return it as text without escape sequences, with its carriage
        returns. An unfinished character or sequence is held back until the next piece.
        """
        with self._lock:
            self._total += len(data)
            self._spool_data(data)
            text = self._begun + self._decoder.decode(data)
            begun = _UNFINISHED.search(text)
            text, self._begun = (text[: begun.start()], begun.group()) if begun else (text, "")
            self.draws = self.draws or _DRAWS.search(text) is not None
            text = ESCAPE.sub("", text)
            self._fold_text(text)
            return text

    def end_input(self) -> str:
        """Finish the output; return the text of a character that was cut off at its end."""
        with self._lock:
            text = self._decoder.decode(b"", final=True)
            self._fold_text(text)
            return text

    def read_output(self) -> KeptOutput:
        """Return the output so far, cut to its beginning and end where it is long."""
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
        """Return the last ``count`` lines, including an unfinished one."""
        with self._lock:
            newest = bytes(self._head + self._tail)[-HALF:]
            lines = (newest.decode("utf-8", "ignore") + self._line.rstrip("\r")).split("\n")
        if lines and not lines[-1]:
            lines.pop()
        return "\n".join(lines[-count:])

    @property
    def is_complete(self) -> bool:
        """Whether the spooled bytes are everything that was printed."""
        return not self.lost and self._total <= self.limit

    def copy_redacted(self, redact: Callable[[str], str]) -> BinaryIO | None:
        """Return a nameless copy of the first ``limit`` bytes, positioned at its beginning, without
        escape sequences and with each text passed through ``redact``; None where they could not be
        written or the capture is closed. Call it after the end of the output, and close the copy.
        Blocking. Raises OSError.
        """
        if self._spool.closed:
            return None
        copy = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - the caller closes it
        self._spool.seek(0)  # without the lock: nothing is written any more, and it takes long
        text, more = "", True
        while more:
            more = self._spool.read(_WINDOW) + self._spool.readline()
            text = redact(text + ESCAPE.sub("", more.decode("utf-8", "surrogateescape")))
            # A key may go on behind the window, or stand behind its name on the next line.
            end = text.rfind("\n", 0, max(len(text) - _OVERLAP, 0)) + 1 if more else len(text)
            copy.write(text[:end].encode("utf-8", "surrogateescape"))
            text = text[end:]
        copy.seek(0)
        return copy

    def close(self) -> None:
        """Close the file and drop the raw output; beginning and end stay readable. Where a full
        disk refuses its last bytes, the output counts as lost.
        """
        with self._lock:
            try:
                self._spool.close()
            except OSError as error:
                self.lost = error.strerror or str(error)
            del self._tail[:-HALF]

    # --- under the lock ----------------------------------------------------------------------

    def _spool_data(self, data: bytes) -> None:
        """Keep raw output up to the limit; on an OSError all of it is given up."""
        if self._spool.closed:
            return
        try:
            self._spool.write(data[: max(self.limit - self._spool.tell(), 0)])
        except OSError as error:
            self.lost = error.strerror or str(error)
            with contextlib.suppress(OSError):
                self._spool.close()

    def _fold_text(self, text: str) -> None:
        """Add text to the kept beginning and end, with carriage returns applied as a
        terminal does.
        """
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


_EVERY: Final = 0.05  # seconds between two calls of ``tell``
_REST: Final = 16  # pieces read after ``stop``


class OutputPump:
    """Reads the output of a program into a capture, until the pipe is closed or shortly after
    ``stop``.

    ``tell`` gets new text at most 20 times a second; where that is more than a screen shows, only
    its end. ``drawn`` is set once the program draws on the screen of a terminal. ``done`` is the
    reading task, which starts at once.
    """

    def __init__(self, program: Program, capture: Capture, tell: Callable[[str], None]) -> None:
        self._capture = capture
        self._tell = tell
        self._untold = ""
        self._telling: asyncio.TimerHandle | None = None
        self._left: int | None = None  # pieces still to read; None: all
        self.drawn = asyncio.Event()
        self.done = asyncio.create_task(self._read_all(program), name="command output")

    def stop(self) -> None:
        """Read at most 16 more pieces: another process may write into the pipe for ever."""
        self._left = _REST if self._left is None else self._left

    async def _read_all(self, program: Program) -> None:
        """Read the program's output into the capture and pass its text to ``tell``: to its end, or
        as many pieces as ``stop`` leaves.
        """
        try:
            while self._left != 0 and (data := await program.read(program.stdout)):
                self._left = None if self._left is None else self._left - 1
                # In a thread: the output is written to a disk, which may be slow.
                self._add_text(await asyncio.to_thread(self._capture.take_piece, data))
                if self._capture.draws:
                    self.drawn.set()
        finally:
            self._add_text(self._capture.end_input())
            self._flush_text()

    def _add_text(self, text: str) -> None:
        """Collect text and schedule passing it to ``tell``."""
        self._untold += text
        if len(self._untold) > 2 * TAIL:
            self._untold = _drop_overprinted(self._untold)
        if self._untold and self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_EVERY, self._flush_text)

    def _flush_text(self) -> None:
        """Pass the collected text to ``tell`` now."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        text, self._untold = self._untold, ""
        if text:
            self._tell(_drop_overprinted(text))


def _drop_overprinted(text: str) -> str:
    """Return the last part of a text as a terminal shows it. A leading carriage return is kept
    where its first line overprints the line before.
    """
    wipes = "\r" in text.partition("\n")[0].rstrip("\r")
    return ("\r" if wipes else "") + apply_carriage_returns(text)[-TAIL:]
