"""The watcher: hears of files that were read or are shown, and of nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import watchfiles
from support.bench import DEADLINE, Bench, SlowDisk, done

from duckflow_tui.state.base import hash_data
from duckflow_tui.state.calls import FileChangedOutside
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.tools.watch import FileWatcher

READ = "file_ops.read_file"
WRITE = "file_ops.write_file"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "src").mkdir(parents=True)
    (path / "a.txt").write_text("one\n")
    (path / "b.txt").write_text("one\n")
    (path / "src" / "c.txt").write_text("one\n")
    return path


@pytest.fixture
def bench(root: Path) -> Bench:
    return Bench(root, mode=ApprovalMode.TRUSTED)


@asynccontextmanager
async def watching(bench: Bench) -> AsyncGenerator[FileWatcher, None]:
    watcher = FileWatcher(bench.store, bench.workspace, bench.router.own_writes)
    running = asyncio.create_task(watcher.run())
    try:
        yield watcher
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def heard(bench: Bench) -> list[tuple[str, str]]:
    events = [record.event for record in bench.recorder.records]
    return [(e.path, e.sha) for e in events if isinstance(e, FileChangedOutside)]


async def told(bench: Bench, path: str) -> None:
    await bench.until(lambda state: path in state.changed_outside)


async def test_a_change_of_a_file_that_was_read_is_heard(bench: Bench, root: Path) -> None:
    async with watching(bench):
        await bench.call(READ, path="a.txt")
        (root / "a.txt").write_text("two\n")
        await told(bench, "a.txt")
    assert heard(bench) == [("a.txt", hash_data(b"two\n"))]
    assert bench.store.state.files_read["a.txt"] == hash_data(b"two\n")


async def test_a_file_that_grows_and_grows_is_heard_of_once_until_it_is_read_again(
    bench: Bench, root: Path
) -> None:
    """What the model knows of it is void from the first change on; more of them are no news."""

    async def grows() -> None:
        """It grows, and what changed after it was heard of: it was looked at before."""
        with (root / "a.txt").open("a") as log:
            log.write("more\n")
        before = len(heard(bench))
        (root / "b.txt").write_text(f"{before}\n")
        await bench.until(lambda _: ("b.txt", hash_data(f"{before}\n".encode())) in heard(bench))

    async with watching(bench):
        await bench.call(READ, path="a.txt")
        for _ in range(4):
            await bench.call(READ, path="b.txt")
            await grows()
        assert [path for path, _ in heard(bench)].count("a.txt") == 1
        edit = bench.begin("file_ops.edit_file", path="a.txt", edits=[{"old": "one", "new": "1"}])
        assert "had changed" in (await done(edit)).result.text
        await bench.call(READ, path="b.txt")
        await grows()
        assert [path for path, _ in heard(bench)].count("a.txt") == 2
        await bench.call(READ, path="a.txt")
        await bench.call(READ, path="b.txt")
        await grows()
        assert [path for path, _ in heard(bench)].count("a.txt") == 3


async def test_other_files_are_not_heard_of(bench: Bench, root: Path) -> None:
    async with watching(bench):
        await bench.call(READ, path="a.txt")
        (root / "b.txt").write_text("two\n")
        (root / "src" / "c.txt").write_text("two\n")
        (root / "a.txt").write_text("two\n")
        await told(bench, "a.txt")
    assert [path for path, _ in heard(bench)] == ["a.txt"]


async def test_our_own_writes_and_undos_are_no_news(bench: Bench, root: Path) -> None:
    async with watching(bench):
        await bench.call(READ, path="a.txt")
        await bench.call(READ, path="b.txt")
        for content in ("two\n", "three\n", "four\n"):
            await bench.call(WRITE, path="a.txt", content=content)
        await bench.router.undoing.undo_last()
        (root / "b.txt").write_text("two\n")  # what comes after it would have come before
        await told(bench, "b.txt")
    assert [path for path, _ in heard(bench)] == ["b.txt"]


async def test_a_touch_without_a_change_is_no_news(bench: Bench, root: Path) -> None:
    async with watching(bench):
        await bench.call(READ, path="a.txt")
        await bench.call(READ, path="b.txt")
        (root / "a.txt").write_text("one\n")
        (root / "b.txt").write_text("two\n")
        await told(bench, "b.txt")
    assert [path for path, _ in heard(bench)] == ["b.txt"]


async def test_a_file_that_goes_and_comes_back_elsewhere_is_followed(
    bench: Bench, root: Path
) -> None:
    async with watching(bench):
        await bench.call(READ, path="src/c.txt")
        (root / "src" / "c.txt").unlink()
        (root / "src").rmdir()
        await told(bench, "src/c.txt")
        await bench.until(lambda state: state.files_read["src/c.txt"] == "")
        (root / "src").mkdir()
        (root / "src" / "c.txt").write_text("back\n")
        await bench.until(lambda state: state.files_read["src/c.txt"] == hash_data(b"back\n"))


async def test_a_file_that_is_swapped_in_by_a_rename_is_heard(bench: Bench, root: Path) -> None:
    async with watching(bench):
        await bench.call(READ, path="a.txt")
        (root / "a.txt.new").write_text("saved by an editor\n")
        (root / "a.txt.new").rename(root / "a.txt")
        await told(bench, "a.txt")


async def test_what_changed_before_the_watch_began_is_heard(bench: Bench, root: Path) -> None:
    await bench.call(READ, path="a.txt")
    (root / "a.txt").write_text("two\n")
    async with watching(bench):
        await told(bench, "a.txt")


async def test_an_open_gate_is_renewed_when_its_file_changes(root: Path) -> None:
    bench = Bench(root)
    async with watching(bench):
        task = bench.begin("file_ops.edit_file", path="a.txt", edits=[{"old": "one", "new": "1"}])
        first = await bench.gate()
        (root / "a.txt").write_text("zero\none\n")
        second = await bench.gate(after=first)
        assert second.renewed
        await bench.answer(second, GateChoice.ONCE)
        assert (await done(task)).result.outcome is Outcome.OK
    assert (root / "a.txt").read_text() == "zero\n1\n"


async def test_watching_costs_next_to_nothing_and_ends_at_once(bench: Bench) -> None:
    async with watching(bench):
        await bench.call(READ, path="a.txt")
        gc.disable()  # one collection, of what other tests left, takes 0.1 s
        before = time.process_time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await told(bench, "a.txt")  # nothing changes: it only watches
        used = time.process_time() - before
        gc.enable()
        start = time.monotonic()
    assert used < 0.2  # a tenth of the time; the figure itself is a benchmark's
    assert time.monotonic() - start < 1.5
    assert heard(bench) == []


async def test_a_write_of_ours_is_no_news_even_before_it_is_recorded(root: Path) -> None:
    disk = SlowDisk("sync_directory")  # after the new bytes are in place
    bench = Bench(root, mode=ApprovalMode.TRUSTED, disk=disk)
    async with watching(bench):
        await bench.call(READ, path="a.txt")
        await bench.call(READ, path="b.txt")
        task = bench.begin(WRITE, path="a.txt", content="two\n")
        await asyncio.to_thread(disk.there.wait, DEADLINE)
        assert (root / "a.txt").read_text() == "two\n"
        (root / "b.txt").write_text("two\n")
        await told(bench, "b.txt")
        disk.go.set()
        await done(task)
    assert [path for path, _ in heard(bench)] == ["b.txt"]


async def test_without_watches_folders_are_looked_through_now_and_then(
    bench: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = getattr(watchfiles, "awatch")  # noqa: B009 -- half typed: trio is not there

    def exhausted(*paths: Path, **options: Any) -> AsyncGenerator[set[tuple[Any, str]], None]:
        if not options["force_polling"]:
            raise OSError("OS file watch limit reached.")
        options["poll_delay_ms"] = 50
        return native(*paths, **options)

    monkeypatch.setattr(watchfiles, "awatch", exhausted)
    async with watching(bench) as watcher:
        await bench.call(READ, path="a.txt")
        (root / "a.txt").write_text("two\n")
        await told(bench, "a.txt")
        assert watcher.polling
