"""Ends what the app has started when the app can no more: when it was killed.

One small process for each session, started with the first command. It reads what runs from a pipe
that nobody else holds, so the pipe ends with the app, and with any child that was being started.
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

_END: Final = 1.0  # seconds it may take to end with nothing left to do
_PACKAGES: Final = str(Path(__file__).parents[2])
#: Isolated from the user's site and environment; the app's own package comes last.
_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from duckflow_tui.tools.watchdog_worker import main; main()"
)


class Watchdog:
    """Ends the programs it is told of when the app dies. Used from the loop alone.

    ``expect`` comes before a start and ``leads`` after it, so that no moment is left in which a
    killed app leaves something behind.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: dict[str, str] = {}  # mark → the newest line about it

    @property
    def pid(self) -> int | None:
        """Its process; None while nothing was to be watched."""
        return self._process.pid if self._process is not None else None

    def expect_program(self) -> str:
        """A ``process_table.MARK`` for what will start; raises OSError with nobody to watch."""
        mark = secrets.token_hex(8)
        self._tell_worker(mark, f"expect {mark}\n")
        return mark

    def register_program(self, mark: str, pid: int) -> int:
        """The program under that mark was started; returns when it began, in ticks, 0: unknown."""
        leader = read_process(pid, also_dead=True)
        began = leader.began if leader is not None else 0
        with contextlib.suppress(OSError):  # the mark was told, and what runs must not fail
            self._tell_worker(mark, f"leads {mark} {pid} {began}\n")
        return began

    def forget_program(self, mark: str) -> None:
        """It has ended, or goes on without the app."""
        if self._watched.pop(mark, None) is not None and self._process is not None:
            # One that is gone is started anew with the next command.
            self._write_line(self._process, f"forget {mark}\n")

    async def close(self) -> None:
        """Let it go; what it still watches over is ended."""
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
        self._watched[mark] = line
        if self._process is not None:
            if self._write_line(self._process, line):
                return
            log.warning("the watchdog was gone and is started anew")
            self._process.kill()  # before the end of its pipe tells it that the app is gone
            self._process.wait()
            self._hang_up(self._process)
        try:
            self._process = self._start_worker()
        except OSError:
            self._process = None
            raise

    def _start_worker(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, _PACKAGES],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,  # no terminal, and no signal of ours or of a command's group
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)  # one that was halted must not halt us
        self._write_line(process, "".join(self._watched.values()))
        return process

    def _write_line(self, process: subprocess.Popen[bytes], text: str) -> bool:
        """Whether it was taken; a line is written whole or not at all."""
        assert process.stdin is not None
        data = text.encode("ascii")
        try:
            return process.stdin.write(data) == len(data)
        except OSError:
            return False

    def _hang_up(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
