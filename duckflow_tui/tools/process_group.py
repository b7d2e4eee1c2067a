"""A started command with everything it started: ended as a whole, wherever its children went."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from duckflow_tui.tools.command_env import MARK

GRACE: Final = 0.8  # seconds between asking and killing
_LOOK: Final = 0.03  # seconds between two looks at who is left
_SWEEPS: Final = 6  # times the dead are looked for after they were killed
_PROC: Final = Path("/proc")


class _Process(NamedTuple):
    """A line of the process table."""

    pid: int
    parent: int
    group: int
    session: int
    began: int  # clock ticks since the system started


class ProcessGroup:
    """A program in its own session, without a terminal, with no input, its output in one pipe.

    ``mark`` is in its environment; by it, by the session and by descent its processes are found
    where the system has a ``/proc``. Elsewhere, and for one that left its session, cleared its
    environment and outlived its parents, only the process group is known.
    """

    def __init__(self, process: asyncio.subprocess.Process, mark: str) -> None:
        self._process = process
        self._mark = f"{MARK}={mark}".encode()
        self._ended = asyncio.Lock()
        self._known: dict[int, int] = {}  # processes found so far, and when each began
        self.pid = process.pid
        leader = _looked_up(str(process.pid))
        self._began = leader.began if leader else 0

    @classmethod
    async def start(
        cls, argv: Sequence[str], cwd: str, environ: Mapping[str, str], mark: str
    ) -> tuple[ProcessGroup, int]:
        """Start it; returns the group and the reading end of its output, stdout and stderr in the
        order in which they were written. Raises OSError.
        """
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=cwd,
                env={**environ, MARK: mark},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return cls(process, mark), reading

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.returncode

    async def wait(self) -> int:
        """The exit code of the program itself; what it started may still run."""
        return await self._process.wait()

    def left(self) -> int:
        """How many of its processes run. Looks through the process table: not for the loop."""
        return len(self._members())

    async def end(self, grace: float = GRACE) -> None:
        """Ask everything to end, and kill what is left after ``grace`` seconds.

        Cancelled: what is left is killed at once.
        """
        async with self._ended:
            try:
                self._signal(await asyncio.to_thread(self._members), signal.SIGTERM)
                until = time.monotonic() + grace
                # Nothing tells of the end of processes that are not our own children.
                while time.monotonic() < until and await asyncio.to_thread(self._members):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK)
            finally:
                self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """Kill everything now; returns when nothing is found any more, or after a moment.

        First all are halted, until no new one is found: what is halted starts nothing.
        """
        halted: frozenset[int] = frozenset()
        for _ in range(_SWEEPS):
            new = self._members() - halted
            if not new:
                break
            self._signal(new, signal.SIGSTOP)
            halted |= new
        for _ in range(_SWEEPS):
            members = self._members()
            self._signal(members, signal.SIGKILL)
            if not members:
                return
            time.sleep(0.002)

    def _signal(self, members: frozenset[int], number: signal.Signals) -> None:
        if self._process.returncode is None:
            # Nobody else has the number while the leader was not waited for.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _members(self) -> frozenset[int]:
        """Processes of this command that run, by session, descent or mark."""
        table = _table()
        if not table:
            alive = self._process.returncode is None
            return frozenset({self.pid} if alive else ())
        found = {
            process.pid
            for process in table.values()
            if self._known.get(process.pid) == process.began
            or (
                process.began >= self._began
                and (
                    self.pid in (process.pid, process.session, process.group)
                    or self._marked(process)
                )
            )
        }
        grown = True
        while grown:
            more = {p.pid for p in table.values() if p.parent in found and p.pid not in found}
            found |= more
            grown = bool(more)
        found.discard(os.getpid())
        self._known |= {pid: table[pid].began for pid in found}
        return frozenset(found)

    def _marked(self, process: _Process) -> bool:
        try:
            environ = (_PROC / str(process.pid) / "environ").read_bytes()
        except OSError:
            return False
        return self._mark in environ.split(b"\0")


def _table() -> dict[int, _Process]:
    """The processes of the system that are not dead already; empty where it cannot be told."""
    found: dict[int, _Process] = {}
    try:
        names = os.listdir(_PROC)
    except OSError:
        return found
    for name in names:
        if name.isdigit() and (process := _looked_up(name)) is not None:
            found[process.pid] = process
    return found


def _looked_up(pid: str) -> _Process | None:
    try:
        line = (_PROC / pid / "stat").read_bytes()
    except OSError:
        return None
    # The name of the program stands in parentheses and may hold anything.
    fields = line[line.rfind(b")") + 2 :].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    parent, group, session = (int(field) for field in fields[1:4])
    return _Process(int(pid), parent, group, session, int(fields[19]))
