"""kill -9 at any instant: what was acknowledged is there, nothing was approved by itself."""

from __future__ import annotations

import os
import random
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest
from support.journal_disks import gates, read
from support.journal_events import answered
from support.whole import rounds

from duckflow_tui.session.folders import SessionFolder, segment_name, session_path
from duckflow_tui.session.records import as_bytes, encode
from duckflow_tui.session.snapshots import capture_image, iter_pieces
from duckflow_tui.state.gates import GateChoice

SESSIONS = rounds(13, 2)  # each is taken up again after each of its kills
KILLS = 16 * SESSIONS
SEED = 20_250_615
DEADLINE = 30.0  # seconds that a worker may be silent
TESTS = Path(__file__).parents[1]


@dataclass
class Told:
    """What the workers of one session have said so far."""

    acknowledged: dict[int, str] = field(default_factory=dict[int, str])  # seq → kind
    sent: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    done: set[str] = field(default_factory=set[str])  # calls whose effect happened
    kills: int = 0
    torn: int = 0  # lines that may be damaged by now

    def hear(self, line: str) -> str:
        """Take a line in; returns its first word."""
        match line.split():
            case ["ack", seq, kind]:
                self.acknowledged[int(seq)] = kind
            case ["sent", gate, choice]:
                self.sent.add((gate, choice))
            case ["did", call]:
                self.done.add(call)
            case _:
                pass
        return line.split(" ", 1)[0]


class Workers:
    """The process that forks workers, and its lines."""

    def __init__(self, process: subprocess.Popen[bytes], out: IO[bytes]) -> None:
        self._process = process
        self._out = out
        self._selector = selectors.DefaultSelector()
        self._selector.register(out, selectors.EVENT_READ)
        self._rest = b""

    def line(self, within: float = DEADLINE) -> str | None:
        """The next line; None when there was none in time."""
        until = time.monotonic() + within
        while b"\n" not in self._rest:
            if not self._selector.select(max(until - time.monotonic(), 0.0)):
                return None
            piece = os.read(self._out.fileno(), 65536)
            assert piece, "the workers' process has ended"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def start(self, path: Path, seed: int) -> int:
        """A worker on this session; returns its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path} {seed}\n".encode())
        self._process.stdin.flush()
        while True:
            line = self.line()
            assert line is not None
            if line.startswith("pid "):
                return int(line.split()[1])

    def kill(self, path: Path, told: Told, chance: random.Random) -> None:
        """Let a worker run for a random number of lines and a random moment more, and kill it."""
        pid = self.start(path, chance.randrange(10**9))
        for _ in range(chance.randrange(30)):
            line = self.line()
            assert line is not None, "the worker is silent"
            told.hear(line)
        moment = time.monotonic() + chance.random() * 0.01
        while (left := moment - time.monotonic()) > 0 and (line := self.line(left)) is not None:
            assert told.hear(line) != "ended"
        os.kill(pid, signal.SIGKILL)
        while (line := self.line()) is not None and told.hear(line) != "ended":
            pass
        assert line is not None
        told.kills += 1
        told.torn += 1


@contextmanager
def workers() -> Generator[Workers]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    with subprocess.Popen(
        [sys.executable, "-m", "support.journal_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
    ) as process:
        assert process.stdout is not None
        yield Workers(process, process.stdout)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE) == 0


def tear(path: Path, told: Told, chance: random.Random) -> None:
    """What a power loss may leave besides: the beginning of a record, here of an approval."""
    folder = SessionFolder.open(path)
    newest = path / segment_name(folder.list_segments()[-1])
    folder.close()
    state = read(path).state
    call = state.gates[0].call_id if state.gates else "call_none"
    event = {"at": 1.0, "event": answered(call, GateChoice.SESSION).model_dump()}
    line = encode(max(told.acknowledged, default=0) + 1, as_bytes(event))
    with newest.open("ab") as file:
        file.write(line[: chance.randrange(1, len(line) - 1)])
    told.torn += 1


def check(path: Path, told: Told) -> None:
    """The invariants, and that the fast way to the state leads where the long one does."""
    whole = read(path, snapshots=False)
    kinds = {entry.seq: entry.fields["kind"] for entry in whole.read.entries}
    lost = {seq for seq, kind in told.acknowledged.items() if kinds.get(seq) != kind}
    assert not lost, f"acknowledged and not read: {sorted(lost)}"
    assert whole.missing_count == 0
    assert whole.read.unreadable_count == 0
    assert whole.read.damaged_count <= told.torn
    assert gates(whole) <= told.sent, "a gate was answered that nobody answered"
    approved = {gate.removeprefix("gate_") for gate, choice in gates(whole) if choice == "once"}
    begun = {
        entry.fields["call_id"]
        for entry in whole.read.entries
        if entry.fields["kind"] == "operation_started"
    }
    assert told.done <= begun <= approved
    fast = read(path)
    assert list(iter_pieces(capture_image(fast.state))) == list(
        iter_pieces(capture_image(whole.state))
    )
    assert fast.last_seq == whole.last_seq


@pytest.mark.long
def test_no_kill_loses_what_was_acknowledged_or_approves_a_gate(tmp_path: Path) -> None:
    """Promise 4 and the journal's kill loop: 208 kills at random moments, resumed each time.

    32 kills unless ``DUCKFLOW_TEST_WHOLE=1``.
    """
    chance = random.Random(SEED)
    sessions = [session_path(tmp_path, "/w", f"session_{n:08x}") for n in range(SESSIONS)]
    told = {path: Told() for path in sessions}
    with workers() as pool:
        for _ in range(KILLS // SESSIONS):
            for path in sessions:
                pool.kill(path, told[path], chance)
                if told[path].acknowledged:
                    if chance.random() < 0.3:
                        tear(path, told[path], chance)
                    check(path, told[path])
    assert sum(each.kills for each in told.values()) == KILLS
    acknowledged = sum(len(each.acknowledged) for each in told.values())
    assert acknowledged > 5 * KILLS
    assert any(read(path).snapshot for path in sessions)
