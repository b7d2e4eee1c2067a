"""Programs under measurement: how they are started, and what the system counts of them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from support.pty import NotSeen, Terminal

PROGRAMS: Final = Path(__file__).with_name("programs")
PYTHON: Final = sys.executable
BARE: Final = (PYTHON, str(PROGRAMS / "bare_app.py"))
NOWHERE: Final = "http://127.0.0.1:9/v1"  # nothing is asked of it
APP: Final = (PYTHON, "-m", "duckflow_tui", "--base-url", NOWHERE, "--model", "none")
DEMO: Final = (PYTHON, "-m", "duckflow_tui", "--demo")
HINT: Final = b"Message"  # in the empty composer
TICKS: Final = os.sysconf("SC_CLK_TCK")


@cache
def scratch() -> Path:
    """An own folder for everything that is measured; removed at the end."""
    kept = tempfile.TemporaryDirectory(prefix="duckflow-benchmark-")
    _KEPT.append(kept)
    return Path(kept.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def fresh(name: str) -> Path:
    """A new folder."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=scratch()))


def environ(home: Path | None = None) -> dict[str, str]:
    """An own home, where none is given, and compiled modules as an installed program has them."""
    return {
        "DUCKFLOW_HOME": str(home or fresh("home")),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(scratch() / "compiled"),
    }


@contextmanager
def terminal(
    command: Sequence[str], *, cwd: Path | None = None, home: Path | None = None
) -> Generator[Terminal]:
    """The program in a terminal of 120 × 40 that keeps bytes and parses nothing; it begins with an
    interpreter, as a user's does.
    """
    where = cwd or fresh("work")
    with Terminal(
        command, cwd=where, environ=environ(home), parse=False, echo=False, prepared=False
    ) as opened:
        yield opened


def settle(of: Terminal, quiet_s: float = 0.5, deadline: float = 20.0) -> None:
    """Wait until nothing is written and next to nothing is computed for ``quiet_s`` seconds."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        cpu, length, until = cpu_s(of.pid), len(of.output), time.monotonic() + quiet_s
        while time.monotonic() < until:
            of.read(until - time.monotonic())
        if len(of.output) == length and cpu_s(of.pid) - cpu <= 2 / TICKS:
            return
    raise NotSeen("the program did not come to rest")


def to_rest(of: Terminal) -> None:
    """Wait until the composer stands and the program has nothing left to do."""
    of.until(lambda: HINT in of.output, "the composer")
    settle(of)


def cpu_s(pid: int) -> float:
    """Seconds of CPU that the process has used, all threads, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def threads_cpu_s(pid: int) -> float:
    """The same of the threads that still run, exact to the microsecond."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def wake_ups(pid: int) -> int:
    """How often the threads have gone to sleep by themselves: every timer is one."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def memory_mb(pid: int) -> float:
    """Resident megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


class Reporter:
    """Reads JSON lines from a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._lines: list[dict[str, Any]] = []

    def next(self, name: str, *, terminal: Terminal | None = None, deadline: float = 120.0) -> Any:
        """The value of the next report that has this name, reading the terminal meanwhile."""
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            for at, line in enumerate(self._lines):
                if name in line:
                    del self._lines[: at + 1]
                    return line[name]
            if select.select([self._descriptor], [], [], 0.0 if terminal else 0.2)[0]:
                *lines, self._rest = (self._rest + os.read(self._descriptor, 65536)).split(b"\n")
                self._lines += [json.loads(line) for line in lines]
            elif terminal is not None:
                terminal.read(0.02)
        raise NotSeen(f"no report of {name}")


@dataclass
class ModelServer:
    """The scripted endpoint in a process of its own."""

    base_url: str
    reports: Reporter
    size: int  # characters of a reply, without the words at its end


@contextmanager
def model_server(characters: int, piece: int = 24, delay_s: float = 0.0) -> Generator[ModelServer]:
    """Serve markdown of this length in pieces of ``piece`` characters, ``delay_s`` apart."""
    command = [PYTHON, str(PROGRAMS / "model_server.py"), str(characters), str(piece), str(delay_s)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, **environ()}, cwd=fresh("server")
    )
    assert process.stdout is not None
    try:
        reports = Reporter(process.stdout.fileno())
        yield ModelServer(reports.next("base_url"), reports, characters)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@dataclass
class Filled:
    """The program with a conversation in it."""

    terminal: Terminal
    reports: Reporter
    _commands: int

    def command(self, **command: Any) -> float:
        """Send a command; the moment it was sent."""
        now = time.monotonic()
        os.write(self._commands, json.dumps(command).encode() + b"\n")
        return now


@contextmanager
def filled_app(
    messages: int,
    base_url: str = NOWHERE,
    *,
    options: Sequence[str] = (),
    cwd: Path | None = None,
    home: Path | None = None,
) -> Generator[Filled]:
    """The program in a terminal, with a conversation of so many messages; ``options`` are its."""
    to_app, commands = os.pipe()
    reports, from_app = os.pipe()
    command = [PYTHON, str(PROGRAMS / "filled_app.py"), base_url, str(messages)]
    try:
        with Terminal(
            [*command, str(to_app), str(from_app), *options],
            cwd=cwd or fresh("work"),
            environ=environ(home),
            parse=False,
            echo=False,
            pass_fds=(to_app, from_app),
        ) as opened:
            yield Filled(opened, Reporter(reports), commands)
    finally:
        for descriptor in (to_app, commands, reports, from_app):
            os.close(descriptor)
