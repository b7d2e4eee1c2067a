"""Find the processes that a command started, even where they left its process group, and signal or
kill them.

Standard library only, because the watchdog's own program imports it too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MARK: Final = "DUCKFLOW_CALL"  # variable that identifies children that left the group
GRACE: Final = 0.8  # seconds between SIGTERM and SIGKILL
LOOK: Final = 0.03  # seconds between two checks for running processes
_SWEEPS: Final = 6  # rounds of stopping, and of killing
PROC: Final = "/proc"


class Process(NamedTuple):
    """One running process, as the process table lists it."""

    pid: int
    parent: int
    group: int
    session: int
    began: int  # clock ticks since the system started


class Offspring:
    """A program that was started in a session of its own, with every process that it started.

    With a ``/proc``, they are found by the mark in their environment, by session and group, and by
    descent. A process is missed if it left the session, cleared its environment, and lost its
    parent before it was seen. Without a ``/proc``, only the program's process group is known.
    """

    def __init__(self, mark: str, leader: int = 0, began: int = 0) -> None:
        """``mark`` is the value of the variable ``MARK`` in their environment. ``leader`` is the id
        of the program itself and ``began`` its start in clock ticks, both 0 while they are not
        known.
        """
        self._mark = f"{MARK}={mark}".encode()
        self._leader = leader
        self._began = began
        self._known: dict[int, int] = {}  # processes found so far, and when each began

    def find_running(self, group_holds: Callable[[int], bool]) -> frozenset[int]:
        """Return the ids of the processes that run, without the caller's own. ``group_holds`` is
        asked only without a ``/proc``: whether the leader's process group still exists; then the
        leader's id alone is returned.
        """
        table = list_processes()
        if not table:
            return frozenset({self._leader} if self._leader and group_holds(self._leader) else ())
        led = self._has_same_leader(table)
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

    def _has_same_leader(self, table: dict[int, Process]) -> bool:
        """Whether the leader's id is known and has not been given to another process since."""
        now = table.get(self._leader)
        return self._leader > 0 and (now is None or now.began == self._began)

    def _is_marked(self, process: Process) -> bool:
        """Whether the process has the mark in its environment; False where that cannot be read."""
        try:
            environ = _read_file(process.pid, "environ")
        except OSError:
            return False
        return self._mark in environ.split(b"\0")


def send_signal(members: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each process; those that have ended or belong to another user are
    skipped.
    """
    for pid in members:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_all(
    members: Callable[[], frozenset[int]],
    signal_them: Callable[[frozenset[int], signal.Signals], None],
) -> None:
    """Stop all processes with SIGSTOP until no new one appears, then kill them. ``members`` finds
    the running ones. Blocking; returns when none is left, or after ``_SWEEPS`` attempts.
    """
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
    """Return all processes of the system by id, without zombies; empty where there is no
    ``/proc``.
    """
    found: dict[int, Process] = {}
    try:
        names = os.listdir(PROC)
    except OSError:
        return found
    for name in names:
        if name.isdigit() and (process := read_process(int(name))) is not None:
            found[process.pid] = process
    return found


def read_process(pid: int, *, also_dead: bool = False) -> Process | None:
    """Return a process by its id; None where it does not run or there is no ``/proc``. With
    ``also_dead``, a zombie counts as running.
    """
    try:
        line = _read_file(pid, "stat")
    except OSError:
        return None
    # The program's name is in parentheses and may contain anything.
    fields = line[line.rfind(b")") + 2 :].split()
    if len(fields) < 20 or (fields[0] in (b"Z", b"X") and not also_dead):
        return None
    parent, group, session = (int(field) for field in fields[1:4])
    return Process(pid, parent, group, session, int(fields[19]))


def _read_file(pid: int, name: str) -> bytes:
    """Return the content of a file of a process below ``/proc``. Raises OSError."""
    with open(f"{PROC}/{pid}/{name}", "rb") as file:
        return file.read()
