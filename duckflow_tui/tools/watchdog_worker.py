"""The watchdog's own program: end the programs that the app had started when the app is gone.

Reads lines from standard input: ``expect MARK`` before a start, ``leads MARK PID BEGAN`` after it,
``forget MARK`` at its end. The end of the input means that the app has ended. Standard library
only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable

from duckflow_tui.tools.process_table import GRACE, LOOK, PROC, Offspring, kill_all, send_signal

_SETTLE = 0.2  # seconds to wait for a program that was just being started


def main() -> None:
    """Read lines until the app is gone, then end the programs that are still watched."""
    # Signals that end the app must not end the watchdog before its work is done.
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    watched: dict[str, Offspring] = {}
    for line in sys.stdin.buffer:
        _take_line(line.decode("ascii").split(), watched)
    if watched:
        _end_programs(tuple(watched.values()))


def _take_line(words: list[str], watched: dict[str, Offspring]) -> None:
    """Apply a line of the app to the watched programs; an unknown one is ignored."""
    match words:
        case ["expect", mark]:
            watched[mark] = Offspring(mark)
        case ["leads", mark, pid, began]:
            watched[mark] = Offspring(mark, int(pid), int(began))
        case ["forget", mark]:
            watched.pop(mark, None)
        case _:
            pass  # an incomplete last line


def _end_programs(all_of_them: Iterable[Offspring]) -> None:
    """Send SIGTERM to all processes of these programs, and kill those that run after GRACE
    seconds.
    """

    def left() -> frozenset[int]:
        """Return the ids of the processes that still run."""
        return frozenset[int]().union(*(each.find_running(_has_group) for each in all_of_them))

    began = time.monotonic()
    asked: frozenset[int] = frozenset()
    while (passed := time.monotonic() - began) < GRACE:
        members = left()
        if not members and passed > _SETTLE:
            return
        _signal_members(members - asked, signal.SIGTERM)
        asked |= members
        time.sleep(LOOK)
    kill_all(left, _signal_members)


def _signal_members(members: frozenset[int], number: signal.Signals) -> None:
    """Send a signal to these processes; without a process table, to their process groups too."""
    send_signal(members, number)
    if not os.path.isdir(PROC):  # then the members are the leaders of their groups
        for leader in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, number)


def _has_group(leader: int) -> bool:
    """Whether the leader's process group still exists and is the same one; for systems without a
    process table.
    """
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # some members belong to another user
    try:
        return os.getsid(leader) == leader
    except OSError:
        return True  # the leader has ended, but not all of its group
