"""Which processes of this machine a started command has, wherever they went, and their end.

Of the standard library only: the watchdog's own program stands on it too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MARK: Final = "DUCKFLOW_CALL"  # by it a child is found that left its group
GRACE: Final = 0.8  # seconds between asking and killing
LOOK: Final = 0.03  # seconds between two looks at who is left
_SWEEPS: Final = 6  # times the dead are looked for after they were killed
PROC: Final = "/proc"


class Process(NamedTuple):
    """A line of the process table."""

    pid: int
    parent: int
    group: int
    session: int
    began: int  # clock ticks since the system started


class Offspring:
    """A program that was started in a session of its own, with everything it started.

    Found by the mark in their environment, by session and by descent where the system has a
    ``/proc``. Elsewhere, and for one that left its session, cleared its environment and outlived
    its parents unseen, only the process group is known.
    """

    def __init__(self, mark: str, leader: int = 0, began: int = 0) -> None:
        """``leader``: the program itself, which ``began`` then; 0 while it is not known."""
        self._mark = f"{MARK}={mark}".encode()
        self._leader = leader
        self._began = began
        self._known: dict[int, int] = {}  # processes found so far, and when each began

    def find_running(self, group_holds: Callable[[int], bool]) -> frozenset[int]:
        """Those that run. ``group_holds`` says whether the leader's number still is its own."""
        table = list_processes()
        if not table:
            return frozenset({self._leader} if self._leader and group_holds(self._leader) else ())
        led = self._leader_is_no_other(table)
        found = {
            process.pid
            for process in table.values()
            if self._known.get(process.pid) == process.began
            or (
                process.began >= self._began
                and (
                    (led and self._leader in (process.pid, process.session, process.group))
                    or self._is_marked(process)
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

    def _leader_is_no_other(self, table: dict[int, Process]) -> bool:
        """Whether its number was not given to another process after its end."""
        now = table.get(self._leader)
        return self._leader > 0 and (now is None or now.began == self._began)

    def _is_marked(self, process: Process) -> bool:
        try:
            environ = _read_file(process.pid, "environ")
        except OSError:
            return False
        return self._mark in environ.split(b"\0")


def send_signal(members: Iterable[int], number: signal.Signals) -> None:
    """Signal them; one that ended meanwhile is no fault."""
    for pid in members:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_all(
    members: Callable[[], frozenset[int]],
    signal_them: Callable[[frozenset[int], signal.Signals], None],
) -> None:
    """Halt all, until none starts another, and kill; returns when none is found, or soon."""
    halted: frozenset[int] = frozenset()
    for _ in range(_SWEEPS):
        new = members() - halted
        if not new:
            break
        signal_them(new, signal.SIGSTOP)
        halted |= new
    for _ in range(_SWEEPS):
        left = members()
        signal_them(left, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.002)


def list_processes() -> dict[int, Process]:
    """The processes of the system that are not dead already; empty where it cannot be told."""
    found: dict[int, Process] = {}
    try:
        names = os.listdir(PROC)
    except OSError:
        return found
    for name in names:
        if name.isdigit() and (process := looked_up(int(name))) is not None:
            found[process.pid] = process
    return found


def looked_up(pid: int, *, also_dead: bool = False) -> Process | None:
    """A process; ``also_dead``: one that ended and was not waited for yet counts too."""
    try:
        line = _read_file(pid, "stat")
    except OSError:
        return None
    # The name of the program stands in parentheses and may hold anything.
    fields = line[line.rfind(b")") + 2 :].split()
    if len(fields) < 20 or (fields[0] in (b"Z", b"X") and not also_dead):
        return None
    parent, group, session = (int(field) for field in fields[1:4])
    return Process(pid, parent, group, session, int(fields[19]))


def _read_file(pid: int, name: str) -> bytes:
    with open(f"{PROC}/{pid}/{name}", "rb") as file:
        return file.read()
