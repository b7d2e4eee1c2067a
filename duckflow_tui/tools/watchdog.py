"""The watchdog: a process that ends the programs started by the app if the app is killed.

One process for each session, started with the first command. It reads from a pipe whose other end
only the app holds, so the pipe is closed when the app dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Final

from duckflow_tui.tools.process_table import read_process

log = logging.getLogger("duckflow.commands")

_END: Final = 1.0  # seconds it may take to end
_PACKAGES: Final = str(Path(__file__).parents[2])
#: Isolated from the user's site and environment; the app's own package comes last.
_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from duckflow_tui.tools.watchdog_worker import main; main()"
)


class Watchdog:
    """The app's side of the watchdog. Use it from the event loop only.

    ``expect_program`` is called before a start and ``register_program`` after it, so that no moment
    is left in which a killed app leaves a program behind.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: dict[str, str] = {}  # mark → newest line about its program

    @property
    def pid(self) -> int | None:
        """The id of the watchdog's process; None before the first command."""
        return self._process.pid if self._process is not None else None

    def expect_program(self) -> str:
        """Return a new mark for a program that is about to start, to put into its environment as
        ``process_table.MARK``. Raises OSError if the watchdog cannot be started.
        """
        mark = secrets.token_hex(8)
        self._tell_worker(mark, f"expect {mark}\n")
        return mark

    def register_program(self, mark: str, pid: int) -> int:
        """Tell the watchdog the process id of a started program; return the program's start in
        clock ticks, 0 if unknown.
        """
        leader = read_process(pid, also_dead=True)
        began = leader.began if leader is not None else 0
        with contextlib.suppress(OSError):  # the mark is known; the running program must not fail
            self._tell_worker(mark, f"leads {mark} {pid} {began}\n")
        return began

    def forget_program(self, mark: str) -> None:
        """Stop watching a program that has ended or may outlive the app."""
        if self._watched.pop(mark, None) is not None and self._process is not None:
            # A watchdog that is gone is started anew with the next command.
            self._write_line(self._process, f"forget {mark}\n")

    async def close(self) -> None:
        """Close the pipe and wait up to a second for the watchdog to end. It first ends the
        programs that it still watches.
        """
        process, self._process = self._process, None
        self._watched.clear()
        if process is None:
            return
        self._hang_up(process)
        try:
            await asyncio.to_thread(process.wait, _END)
        except subprocess.TimeoutExpired:
            log.warning("the watchdog still ends what was left running")

    def _tell_worker(self, mark: str, line: str) -> None:
        """Send a line about a program; start the watchdog, or start it anew if it is gone. Raises
        OSError.
        """
        self._watched[mark] = line
        if self._process is not None:
            if self._write_line(self._process, line):
                return
            log.warning("the watchdog was gone and is started anew")
            self._process.kill()  # before it sees its pipe closed and ends the programs
            self._process.wait()
            self._hang_up(self._process)
        try:
            self._process = self._start_worker()
        except OSError:
            self._process = None
            raise

    def _start_worker(self) -> subprocess.Popen[bytes]:
        """Start the watchdog's process and send it all current lines. Raises OSError."""
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, _PACKAGES],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,  # no terminal, and no signals to the app's or a command's group
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)  # a stopped watchdog must not block the app
        self._write_line(process, "".join(self._watched.values()))
        return process

    def _write_line(self, process: subprocess.Popen[bytes], text: str) -> bool:
        """Write a text to the watchdog's pipe, whole; return False where that failed."""
        assert process.stdin is not None
        data = text.encode("ascii")
        try:
            return process.stdin.write(data) == len(data)
        except OSError:
            return False

    def _hang_up(self, process: subprocess.Popen[bytes]) -> None:
        """Close the pipe to the watchdog."""
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
