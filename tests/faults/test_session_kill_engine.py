"""kill -9 the engine at any instant: what was acknowledged is there, nothing approves itself."""

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
from support.engine_child import begun
from support.journal_disks import gates, read
from support.journal_events import answered
from support.whole import rounds

from duckflow_tui.session.records import as_bytes, encode
from duckflow_tui.session.resume import Restored
from duckflow_tui.session.snapshots import capture_image, iter_pieces
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome

SHARES = rounds(4, 1)  # of the kills, so that they spread over the processes of a run
FOLDERS = rounds(5, 1)  # each is taken up again after each of its kills
KILLS = 10 * FOLDERS  # of a share
SEED = 20_251_122
LONGEST = 0.6  # seconds that a worker works before it is killed; others run beside it
DEADLINE = 30.0  # seconds that a worker may be silent
TESTS = Path(__file__).parents[1]


@dataclass
class Told:
    """What the workers of one session have said so far."""

    session: str = ""
    acknowledged: dict[int, str] = field(default_factory=dict[int, str])  # seq → kind
    sent: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    allowed: set[str] = field(default_factory=set[str])  # files that an answer let be written
    begun: int = 0
    up: int = 0
    kills: int = 0
    torn: int = 0  # lines that were left unfinished besides

    def hear(self, line: str) -> str:
        """Take a line in; returns its first word."""
        match line.split():
            case ["ack", seq, kind]:
                self.acknowledged[int(seq)] = kind
            case ["sent", gate, choice, path]:
                self.sent.add((gate, choice))
                if choice == GateChoice.ONCE.value:
                    self.allowed.add(path)
            case ["session", name]:
                # Of a session with nothing on disk yet a kill may leave nothing.
                same = self.session == name or not self.acknowledged
                assert same, "another session than the one before"
                self.session = name
            case ["up"]:
                self.up += 1
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

    def kill(self, folder: Path, told: Told, chance: random.Random) -> None:
        """Let a worker come up, run for a random moment more, and kill it; some before that."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{folder} {chance.randrange(10**9)}\n".encode())
        self._process.stdin.flush()
        first = self.line()
        assert first is not None
        assert first.startswith("pid ")
        pid = int(first.split()[1])
        early = told.session and chance.random() < 0.1
        word = ""
        while word != "up" and not early:
            line = self.line()
            assert line is not None, "the session does not come up"
            word = told.hear(line)
            assert word != "ended", "the session did not come up"
        moment = time.monotonic() + chance.random() ** 2 * LONGEST
        while (left := moment - time.monotonic()) > 0:
            if (line := self.line(left)) is not None:
                assert told.hear(line) != "ended", "the worker ended by itself"
        os.kill(pid, signal.SIGKILL)
        while (line := self.line()) is not None and told.hear(line) != "ended":
            pass
        assert line is not None
        told.kills += 1


@contextmanager
def workers() -> Generator[Workers]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    with subprocess.Popen(
        [sys.executable, "-m", "support.engine_child"],
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
    segments = sorted(path.glob("journal-*"), key=lambda p: int(p.stem.split("-")[1]))
    state = read(path).state
    call = state.gates[0].call_id if state.gates else "call_none"
    event = {"at": 1.0, "event": answered(call, GateChoice.SESSION).model_dump()}
    line = encode(max(told.acknowledged, default=0) + 1, as_bytes(event))
    with segments[-1].open("ab") as file:
        file.write(line[: chance.randrange(1, len(line) - 1)])
    told.torn += 1


def check(folder: Path, told: Told) -> Restored | None:
    """The invariants, on the journal and on the files, and that the fast way to the state leads
    where the long one does.
    """
    found = begun(folder / "home")
    if not found:
        assert not told.acknowledged
        return None
    [place] = found
    whole = read(place.path, snapshots=False)
    kinds = {entry.seq: entry.fields["kind"] for entry in whole.read.entries}
    lost = {seq for seq, kind in told.acknowledged.items() if kinds.get(seq) != kind}
    assert not lost, f"acknowledged and not read: {sorted(lost)}"
    assert whole.missing_count == 0
    assert whole.read.unreadable_count == 0
    assert whole.read.damaged_count <= told.kills + told.torn
    assert gates(whole) <= told.sent, "a gate was answered that nobody answered"
    names = {path.name for path in (folder / "work").iterdir()}
    unfinished = {name for name in names if name.startswith(".duckflow-")}
    assert len(unfinished) <= 1, "the session that goes on takes them away"
    written = names - unfinished
    assert written <= told.allowed, "a file was written that nobody allowed"
    done = {
        str(message.args["path"])
        for message in whole.state.messages
        if isinstance(message, OperationMessage)
        and (message.result.outcome is Outcome.OK or message.result.changes)
    }
    assert done <= written, "said to be done, and not done"
    calls = [m.call_id for m in whole.state.messages if isinstance(m, OperationMessage)]
    assert len(calls) == len(set(calls)), "a call has two results"
    fast = read(place.path)
    assert list(iter_pieces(capture_image(fast.state))) == list(
        iter_pieces(capture_image(whole.state))
    )
    return fast


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_no_kill_of_the_engine_loses_or_approves_anything(tmp_path: Path, share: int) -> None:
    """Promise 4: 200 kills of engine, journal and files at random moments, resumed each time.

    10 kills unless ``DUCKFLOW_TEST_WHOLE=1``.
    """
    chance = random.Random(SEED + share)
    folders = [tmp_path / f"s{number}" for number in range(FOLDERS)]
    told = {folder: Told() for folder in folders}
    last: dict[Path, Restored] = {}
    with workers() as pool:
        for _ in range(KILLS // FOLDERS):
            for folder in folders:
                folder.mkdir(exist_ok=True)
                pool.kill(folder, told[folder], chance)
                if told[folder].acknowledged and chance.random() < 0.3:
                    tear(begun(folder / "home")[0].path, told[folder], chance)
                if (state := check(folder, told[folder])) is not None:
                    last[folder] = state
    assert sum(each.kills for each in told.values()) == KILLS
    assert sum(len(each.acknowledged) for each in told.values()) > 5 * KILLS
    ended = [
        message.result
        for restored in last.values()
        for message in restored.state.messages
        if isinstance(message, OperationMessage)
    ]
    assert any(result.outcome is Outcome.OK for result in ended)
    assert any(restored.snapshot for restored in last.values())
