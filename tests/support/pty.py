"""A program in a terminal of its own: what is typed, what comes back, how it ends."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import pyte
from support.prepared import UNTOUCHED, PreparedProcess, is_prepared
from wcwidth import wcwidth

DEADLINE: Final = 40.0  # seconds until a wait has failed
TERM: Final = "xterm-256color"

#: Sequences with a private mark that the parser would take for others, or print in part.
_PRIVATE: Final = re.compile(rb"\x1b\[[<>=][0-9;]*[A-Za-z]")
#: No character before it is two cells wide.
_FIRST_WIDE: Final = "\u1100"
_UNFINISHED: Final = re.compile(rb"\x1b(\[[<>=]?[0-9;]*)?\Z")


class NotSeen(AssertionError):
    """What was waited for did not come; the text holds the screen as it stood."""


class Terminal:
    """Runs ``command`` on the far side of a pseudo-terminal until the block is left.

    ``width`` and ``height`` in cells. The environment is the caller's with ``environ`` laid over
    it; an empty value removes a variable. ``parse`` off keeps only the bytes, for measurements
    that a terminal parser would disturb. ``echo`` off sets the terminal raw from the start, so that
    what comes back was written by the program and not by the line discipline. ``prepared`` off
    starts an interpreter, for tests of the start itself.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str] | None = None,
        width: int = 120,
        height: int = 40,
        parse: bool = True,
        echo: bool = True,
        pass_fds: Sequence[int] = (),
        prepared: bool = True,
    ) -> None:
        self.width, self.height = width, height
        self.output = bytearray()  # everything the program wrote
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self.screen) if parse else None
        self._unparsed = b""
        self._rows: list[str] = []  # as ``lines`` told them last
        self._cwd = cwd
        self._command = list(command)
        self._environ = _environment(environ or {})
        self._echo = echo
        self._pass_fds = tuple(pass_fds)
        self._prepared = prepared and not pass_fds and is_prepared(command)
        self._master = -1
        self._slave = -1
        self._process: subprocess.Popen[bytes] | PreparedProcess | None = None
        self.modes_before: list[object] = []
        self.started_at = 0.0  # time.monotonic() just before exec

    def __enter__(self) -> Terminal:
        self._master, self._slave = os.openpty()
        self.resize(self.width, self.height)
        if not self._echo:
            modes = termios.tcgetattr(self._slave)
            modes[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._slave, termios.TCSANOW, modes)
        self.modes_before = list(termios.tcgetattr(self._slave))
        os.set_blocking(self._master, False)
        self.started_at = time.monotonic()
        self._process = self._started(self._slave)
        return self

    def _started(self, slave: int) -> subprocess.Popen[bytes] | PreparedProcess:
        if self._prepared:
            return PreparedProcess(
                self._command,
                streams=(slave, slave, slave),
                cwd=self._cwd,
                environ=self._environ,
                terminal=True,
            )
        return subprocess.Popen(
            self._command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self._cwd,
            env=self._environ,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            pass_fds=self._pass_fds,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(self._slave)
        os.close(self._master)

    @property
    def pid(self) -> int:
        """The program's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def modes(self) -> list[object]:
        """The line discipline as it is now; ``modes_before`` is what the program found."""
        return list(termios.tcgetattr(self._slave))

    @property
    def lines(self) -> list[str]:
        """The rows of the screen without what pads them."""
        self.drain()
        dirty, old = self.screen.dirty, self._rows
        self._rows = [
            self._row(row) if row in dirty or row >= len(old) else old[row]
            for row in range(self.screen.lines)
        ]
        dirty.clear()
        return list(self._rows)

    def _row(self, number: int) -> str:
        """A row of the screen, without what lies behind a character that is two cells wide."""
        cells, row, wide = self.screen.buffer[number], "", False
        for column in range(self.screen.columns):
            text = "" if wide else cells[column].data
            wide = text >= _FIRST_WIDE and wcwidth(text[0]) == 2
            row += text
        return row.rstrip()

    @property
    def text(self) -> str:
        """The rows of the screen, one a line."""
        return "\n".join(self.lines)

    def resize(self, width: int, height: int) -> None:
        """Another size; the program gets SIGWINCH."""
        self.width, self.height = width, height
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.screen.resize(height, width)

    def type(self, keys: str | bytes) -> None:
        """Send keys as a keyboard does: text, or the bytes of a sequence."""
        data = keys.encode() if isinstance(keys, str) else keys
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                select.select([self._master], [self._master], [], 0.1)
                self.read(0)

    def read(self, timeout: float = 0.0) -> bytes:
        """What comes within ``timeout`` seconds, at the latest when something has come."""
        if not select.select([self._master], [], [], timeout)[0]:
            return b""
        try:
            data = os.read(self._master, 1 << 16)
        except OSError as error:
            if error.errno in (errno.EIO, errno.EAGAIN):
                return b""
            raise
        self.output += data
        if self._stream is not None:
            self._parse(self._stream, self._unparsed + data)
        return data

    def _parse(self, stream: pyte.ByteStream, data: bytes) -> None:
        cut = _UNFINISHED.search(data)
        self._unparsed = data[cut.start() :] if cut else b""
        stream.feed(_PRIVATE.sub(b"", data[: cut.start()] if cut else data))

    def drain(self) -> None:
        """Take in everything that has come."""
        while self.read():
            pass

    def listen(self, seconds: float) -> None:
        """Take in what comes for so long: for what must not happen, or is told by time alone."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)

    def until(
        self, holds: Callable[[], bool], what: str = "", *, deadline: float = DEADLINE
    ) -> None:
        """Take in output until it holds; raises NotSeen with the screen after the deadline."""
        end = time.monotonic() + deadline
        while not holds():
            left = end - time.monotonic()
            if left <= 0 or (not self.read(min(left, 0.25)) and self.ended and not holds()):
                raise NotSeen(f"{what or 'it'} did not come\n{self._picture()}")

    def sees(self, *texts: str, deadline: float = DEADLINE) -> None:
        """Wait until all of these stand on the screen."""

        def all_there() -> bool:
            screen = self.text
            return all(text in screen for text in texts)

        self.until(all_there, repr(texts), deadline=deadline)

    def writes(self, data: bytes, *, start: int = 0, deadline: float = DEADLINE) -> None:
        """Wait until these bytes were written from position ``start`` on."""
        self.until(lambda: self.output.find(data, start) >= 0, repr(data), deadline=deadline)

    @property
    def ended(self) -> bool:
        """Whether the program has ended."""
        assert self._process is not None
        return self._process.poll() is not None

    def wait(self, deadline: float = DEADLINE) -> int:
        """The exit status, negative for a signal; what was written last has been taken in."""
        assert self._process is not None
        end = time.monotonic() + deadline
        while (status := self._process.poll()) is None:
            self.read(0.01)
            if time.monotonic() > end:
                raise NotSeen(f"the end did not come\n{self._picture()}")
        self.drain()
        return status

    def signal(self, number: int) -> None:
        """Send a signal to the program alone."""
        os.kill(self.pid, number)

    def _picture(self) -> str:
        if self._stream is None:
            return repr(bytes(self.output[-400:]))
        return "\n".join(f"│{line}" for line in self.lines)


def process_state(pid: int) -> str:
    """What the system says of a process: ``T`` for stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _environment(changes: Mapping[str, str]) -> dict[str, str]:
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DUCKFLOW_", "OPENAI_", "TEXTUAL", "LC_"))
        and name not in ("NO_COLOR", "TMUX", "VTE_VERSION", "COLUMNS", "LINES", "LANGUAGE")
    }
    environ |= {"TERM": TERM, "COLORTERM": "truecolor", "LANG": "C.UTF-8"} | UNTOUCHED | {**changes}
    return {name: value for name, value in environ.items() if value}
