"""The program in a terminal with a home of its own, what it records, and its sudden end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.pty import DEADLINE, NotSeen, Terminal, process_state

from duckflow_tui.session.resume import open_to_read
from duckflow_tui.state.agent import AgentState

#: Runs what is behind it with a file system of its own at the first argument.
_MOUNTED = 'mount -t tmpfs -o "$1" none "$0" && shift && exec "$@"'


def start(tmp_path: Path, base_url: str, *flags: str, disk: str = "", **environ: str) -> Terminal:
    """The program in ``tmp_path/work``, its own files in ``tmp_path/home``; ``disk``: options of a
    file system that only the program sees there. Where that cannot be, the test is skipped.
    """
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "duckflow_tui", "--base-url", base_url, "--model", "m", *flags]
    if disk:
        command = [*mounting(home, disk), *command]
    environ = {"DUCKFLOW_HOME": str(home), **environ}
    return Terminal(command, cwd=work, environ=environ, width=120, height=40)


def mounting(folder: Path, options: str) -> Sequence[str]:
    """What runs a command with another disk at ``folder``."""
    for own in ("-m", "-Urm"):
        before = ["unshare", own, "sh", "-c", _MOUNTED, str(folder), options]
        try:
            tried = subprocess.run([*before, "true"], capture_output=True, check=False, timeout=10)
        except FileNotFoundError:
            break
        if tried.returncode == 0:
            return before
    pytest.skip("this machine lets nobody mount a disk")


def killed(terminal: Terminal) -> None:
    """End it as nothing can be prepared for."""
    terminal.signal(signal.SIGKILL)
    assert terminal.wait() == -signal.SIGKILL


def sessions(tmp_path: Path) -> list[str]:
    """The ids of all sessions there are."""
    return sorted(path.name for path in (tmp_path / "home").glob("state/sessions/*/session_*"))


def kept(tmp_path: Path, session_id: str = "") -> AgentState:
    """What the only session, or this one, holds on the disk now."""
    found = (tmp_path / "home").glob(f"state/sessions/*/{session_id or 'session_*'}")
    [path] = list(found)
    return open_to_read(path).state


def halt_until(terminal: Terminal, holds: Callable[[], bool], is_over: Callable[[], bool]) -> bool:
    """Halt the program again and again until ``holds``; it then stands still. False where it was
    over before that.
    """
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        terminal.read(0.0005)
        terminal.signal(signal.SIGSTOP)
        while process_state(terminal.pid) != "T":
            os.sched_yield()
        if holds():
            return True
        over = is_over()
        terminal.signal(signal.SIGCONT)
        if over:
            return False
    raise NotSeen("it never stood so")
