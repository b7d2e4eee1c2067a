"""Disks that fail and stops in the middle of a change: what is said is what happened."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path

import pytest
from support.bench import Bench, SlowDisk, done

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.safety.paths import Place
from duckflow_tui.session.blobs import MemoryBlobs
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.operations import ApprovalMode, Effect, Outcome
from duckflow_tui.tools.operation import Arguments, Operation, Output, Registry, ToolContext, Work

WRITE = "file_ops.write_file"
OLD = b"old\n"


class FullDisk(Disk):
    """Takes no bytes."""

    def write(self, file: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullBlobs(MemoryBlobs):
    """Keeps nothing."""

    async def put(self, data: bytes) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    (path / "a.txt").write_bytes(OLD)
    return path


def trusted(root: Path, disk: Disk | None = None) -> Bench:
    return Bench(root, mode=ApprovalMode.TRUSTED, disk=disk)


def last(bench: Bench) -> OperationMessage:
    message = bench.store.state.messages[-1]
    assert isinstance(message, OperationMessage)
    return message


async def test_a_full_disk_leaves_the_old_bytes_and_names_the_path(root: Path) -> None:
    bench = trusted(root, FullDisk())
    message = await bench.call(WRITE, path="a.txt", content="new\n")
    assert message.result.outcome is Outcome.ERROR
    assert "a.txt" in message.result.text
    assert "No space left" in message.result.text
    assert message.result.changes == ()
    assert bench.store.state.files_read == {}
    assert os.listdir(root) == ["a.txt"]
    assert (root / "a.txt").read_bytes() == OLD


async def test_bytes_that_cannot_be_kept_are_not_overwritten(root: Path) -> None:
    bench = Bench(root, mode=ApprovalMode.TRUSTED, blobs=FullBlobs())
    message = await bench.call(WRITE, path="a.txt", content="new\n")
    assert message.result.outcome is Outcome.ERROR
    assert (root / "a.txt").read_bytes() == OLD


async def test_a_stop_before_the_swap_changes_nothing(root: Path) -> None:
    disk = SlowDisk("create")
    bench = trusted(root, disk)
    task = bench.begin(WRITE, path="a.txt", content="new\n")
    await asyncio.to_thread(disk.there.wait, 10)
    task.cancel()
    await asyncio.sleep(0)  # the stop arrives while the disk is still at work
    disk.go.set()
    with pytest.raises(asyncio.CancelledError):
        await done(task)
    result = last(bench).result
    assert result.outcome is Outcome.STOPPED
    assert result.changes == ()
    assert (root / "a.txt").read_bytes() == OLD
    assert os.listdir(root) == ["a.txt"]


async def test_a_stop_after_the_swap_is_recorded_with_the_change_and_can_be_undone(
    root: Path,
) -> None:
    disk = SlowDisk("sync_directory")
    bench = trusted(root, disk)
    task = bench.begin(WRITE, path="a.txt", content="new\n")
    await asyncio.to_thread(disk.there.wait, 10)
    task.cancel()
    await asyncio.sleep(0)  # the stop arrives while the disk is still at work
    disk.go.set()
    with pytest.raises(asyncio.CancelledError):
        await done(task)
    assert (root / "a.txt").read_bytes() == b"new\n"
    assert [change.path for change in last(bench).result.changes] == ["a.txt"]
    assert bench.store.state.running == ()
    await bench.router.undoing.undo_last()
    assert (root / "a.txt").read_bytes() == OLD


async def test_a_workspace_that_is_gone_is_said(root: Path) -> None:
    bench = trusted(root)
    shutil.rmtree(root)
    for operation, more in [(WRITE, {"content": "x"}), ("file_ops.read_file", {})]:
        message = await bench.call(operation, path="a.txt", **more)
        assert message.result.outcome is Outcome.ERROR
        assert "deleted, renamed or replaced" in message.result.text


async def test_a_fault_of_the_app_itself_is_recorded_and_not_hidden(root: Path) -> None:
    async def prepare(args: Arguments, places: tuple[Place, ...], context: ToolContext) -> Work:
        async def run() -> Output:
            raise ZeroDivisionError

        return Work(run)

    broken = Operation(
        name="memory.recall",
        summary="Fails.",
        effect=Effect.READ,
        arguments=Arguments,
        paths=lambda args: (),
        prepare=prepare,
    )
    bench = Bench(root, registry=Registry([broken]))
    with pytest.raises(ZeroDivisionError):
        await bench.call("memory.recall")
    assert last(bench).result.outcome is Outcome.ERROR
    assert bench.store.state.running == ()


async def test_a_long_result_is_cut_even_when_it_cannot_be_kept(root: Path) -> None:
    async def prepare(args: Arguments, places: tuple[Place, ...], context: ToolContext) -> Work:
        async def run() -> Output:
            return Output("x" * 1_000_000)

        return Work(run)

    huge = Operation(
        name="memory.recall",
        summary="Says much.",
        effect=Effect.READ,
        arguments=Arguments,
        paths=lambda args: (),
        prepare=prepare,
    )
    bench = Bench(root, registry=Registry([huge]), blobs=FullBlobs())
    result = (await bench.call("memory.recall")).result
    assert result.outcome is Outcome.OK
    assert result.blob == ""
    assert "could not be kept" in result.text
    assert len(result.text) < 256 * 1024


async def test_a_file_that_keeps_changing_is_given_up_with_the_reason(root: Path) -> None:
    count = 0

    class RacingDisk(Disk):
        """Someone writes to the file whenever we are about to."""

        def create(self, directory: int, name: str, mode: int) -> int:
            nonlocal count
            count += 1
            (root / "a.txt").write_bytes(f"theirs {count}\n".encode())
            return super().create(directory, name, mode)

    bench = trusted(root, RacingDisk())
    message = await bench.call(WRITE, path="a.txt", content="ours\n")
    assert message.result.outcome is Outcome.ERROR
    assert "changed" in message.result.text
    assert (root / "a.txt").read_bytes() == f"theirs {count}\n".encode()
    assert count < 10
