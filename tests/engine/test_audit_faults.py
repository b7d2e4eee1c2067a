"""Effects that no disk would know of wait for the user, once; what is printed is on disk."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import signal
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from support.bench import Bench, done
from support.journal_disks import FaultyDisk
from support.pinned import CountingIds
from support.prepared import run_program
from support.quiet_engine import QuietEngine
from support.serving import served
from support.session import action, decision, script
from support.session import done as said

from duckflow_tui.engine import Engine
from duckflow_tui.headless import HeadlessOptions, TaskSpawn, run_turn
from duckflow_tui.session.recording import Recording, start_journal
from duckflow_tui.state.gates import UNRECORDED, GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.state.session import DraftSaved
from duckflow_tui.state.store import MemoryRecorder, Record
from duckflow_tui.tools.notices import Notices
from duckflow_tui.words.catalogue import Catalogue

WRITE = "file_ops.write_file"


class Kept(MemoryRecorder):
    """Records go to a real journal, on a disk that can become full."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        super().__init__()
        self.disk = FaultyDisk(number=errno.ENOSPC, lasting=True)
        self.recording = Recording("session_1", MemoryRecorder())
        self.journal = start_journal(
            folder,
            "session_1",
            workspace,
            1.0,
            disk=self.disk,
            on_health=self.recording.report_health,
        )
        self.recording.recorder = self.journal

    def append(self, record: Record) -> None:
        super().append(record)
        self.recording.append(record)

    async def wait_until_flushed(self, seq: int) -> None:
        await self.recording.wait_until_flushed(seq)

    def fill(self) -> None:
        """From now on nothing more fits on the disk."""
        self.disk.at = len(self.disk.calls) + 1


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    (tmp_path / "work").mkdir()
    made = Kept(tmp_path / "state", tmp_path / "work")
    yield made
    await made.recording.close()


def bench_on(kept: Kept, root: Path, *, headless: bool = False) -> Bench:
    bench = Bench(root, mode=ApprovalMode.TRUSTED, recorder=kept, headless=headless)
    kept.recording.follow_store(bench.store, Notices(bench.store, CountingIds()))
    return bench


async def test_with_a_full_disk_an_effect_waits_and_asks_once(kept: Kept, tmp_path: Path) -> None:
    """Trusted mode writes unasked because the journal knows of it; where it cannot, it asks."""
    root = tmp_path / "work"
    bench = bench_on(kept, root)
    assert (await bench.call(WRITE, path="a.txt", content="a\n")).gate is None
    kept.fill()
    task = bench.begin(WRITE, path="b.txt", content="b\n")
    gate = await bench.gate()
    assert UNRECORDED in gate.impact.reasons
    assert not (root / "b.txt").exists()
    await bench.answer(gate, GateChoice.ONCE)
    assert (await done(task)).result.outcome is Outcome.OK
    assert (await bench.call(WRITE, path="c.txt", content="c\n")).gate is None
    assert (await bench.call("file_ops.read_file", path="a.txt")).gate is None


async def test_a_refusal_keeps_asking(kept: Kept, tmp_path: Path) -> None:
    bench = bench_on(kept, tmp_path / "work")
    kept.fill()
    for _ in range(2):
        message = await bench.answered(
            GateChoice.REJECT, WRITE, {"path": "b.txt", "content": "b\n"}
        )
        assert message.result.outcome is Outcome.REJECTED
    assert not (tmp_path / "work" / "b.txt").exists()


async def test_a_disk_that_fills_while_the_gate_is_open_asks_again(
    kept: Kept, tmp_path: Path
) -> None:
    """The first key is not on disk either: it is asked with the reason."""
    bench = bench_on(kept, tmp_path / "work")
    (tmp_path / "work" / ".env").write_text("A=1\n")
    task = bench.begin(WRITE, path=".env", content="A=2\n")
    first = await bench.gate()
    assert UNRECORDED not in first.impact.reasons
    kept.fill()
    await bench.answer(first, GateChoice.ONCE)
    second = await bench.gate(after=first)
    assert UNRECORDED in second.impact.reasons
    assert (tmp_path / "work" / ".env").read_text() == "A=1\n"
    await bench.answer(second, GateChoice.ONCE)
    await done(task)
    assert (tmp_path / "work" / ".env").read_text() == "A=2\n"


async def test_without_a_screen_nothing_happens_that_cannot_be_recorded(
    kept: Kept, tmp_path: Path
) -> None:
    """R19: what would need a gate is denied."""
    bench = bench_on(kept, tmp_path / "work", headless=True)
    kept.fill()
    message = await bench.call(WRITE, path="b.txt", content="b\n")
    assert message.result.outcome is Outcome.DENIED
    assert not (tmp_path / "work" / "b.txt").exists()


async def test_a_session_that_nobody_wanted_kept_asks_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, mode=ApprovalMode.TRUSTED)
    recording = Recording("session_1", MemoryRecorder())
    recording.follow_store(bench.store, Notices(bench.store, CountingIds()))
    assert bench.store.state.unkept
    assert (await bench.call(WRITE, path="b.txt", content="b\n")).gate is None


# --- what is printed -------------------------------------------------------------------------


class SlowDisk(MemoryRecorder):
    """Knows how far its records are safe; takes a while for it."""

    safe = 0

    async def wait_until_flushed(self, seq: int) -> None:
        await asyncio.sleep(0.02)
        self.safe = max(self.safe, seq)


class Writing(io.StringIO):
    """What reads the lines; remembers how far the disk was at each."""

    def __init__(self, disk: SlowDisk) -> None:
        super().__init__()
        self._disk = disk
        self.early: list[str] = []

    def write(self, text: str, /) -> int:
        if json.loads(text)["seq"] > self._disk.safe:
            self.early.append(text)
        return super().write(text)


class TalkingEngine(QuietEngine):
    """Says three things and is ended by a signal."""

    async def send(self, text: str, *, quoted: bool = False) -> None:
        for number in range(3):
            self.store.dispatch(DraftSaved(text=f"{text} {number}"))
        os.kill(os.getpid(), signal.SIGINT)

    def stop(self) -> None:
        self.store.dispatch(DraftSaved(text="stopped"))


async def test_what_json_prints_is_on_disk(tmp_path: Path) -> None:
    """Who reads the line may rely on it: no crash takes it back. None is lost at the end."""
    disk = SlowDisk()

    @asynccontextmanager
    async def opened(spawn: TaskSpawn) -> AsyncGenerator[Engine]:
        engine = TalkingEngine(disk)
        yield cast("Engine", engine)
        engine.store.dispatch(DraftSaved(text="closed"))
        disk.safe = 5

    out = Writing(disk)
    options = HeadlessOptions(text="go", as_json=True)
    async with asyncio.timeout(30):
        assert await run_turn(opened, options, Catalogue("en"), out, io.StringIO()) == 130
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["text"] for line in lines[:4]] == ["go 0", "go 1", "go 2", "stopped"]
    assert [line for line in out.early if "closed" not in line] == []


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_the_folders_of_data_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    """Whatever the umask, and also where they were there before."""
    (tmp_path / "work").mkdir()
    (tmp_path / "home" / "data").mkdir(parents=True, mode=0o755)
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}
    write = action(WRITE, path="a.txt", content="x")
    before = os.umask(umask)
    try:
        with served(script(decision("I write.", write), said())) as server:
            url = server.endpoint.base_url
            arguments = ("--base-url", url, "--model", "m", "--mode", "trusted", "-p", "go")
            ended = run_program(arguments, cwd=tmp_path / "work", environ=environ)
    finally:
        os.umask(before)
    assert ended.returncode == 0, ended.stderr
    for folder in ("data", "state"):
        for path in (tmp_path / "home" / folder, *(tmp_path / "home" / folder).rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
