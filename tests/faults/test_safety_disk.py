"""A disk that fails: old bytes intact, no temp file left, the message names the path."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.bench import Bench, descriptors
from support.model_words import WORDS

from duckflow_tui.safety import file_changes
from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.safety.paths import FileFailed
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.words.catalogue import Catalogue

OLD = b"old\r\n"


class FailingDisk(Disk):
    """Fails at its n-th change, once; counts what it was asked for."""

    def __init__(self, at: int, number: int = errno.EIO, *, plain: bool = False) -> None:
        self.at = at
        self.number = number
        self.plain = plain  # a file system that can only rename
        self.calls: list[str] = []

    def _step(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self.at:
            raise OSError(self.number, os.strerror(self.number))

    def create(self, directory: int, name: str, mode: int) -> int:
        self._step("create")
        return super().create(directory, name, mode)

    def write(self, file: int, data: memoryview) -> int:
        self._step("write")
        return super().write(file, data[:4])

    def sync(self, file: int) -> None:
        self._step("sync")
        super().sync(file)

    def sync_directory(self, directory: int) -> None:
        self._step("sync_directory")
        super().sync_directory(directory)

    def rename(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
        self._step("rename")
        super().rename(source_dir, source, target_dir, target)

    def rename_new(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
        self._step("rename_new")
        super().rename_new(source_dir, source, target_dir, target)

    def exchange(self, directory: int, one: str, other: str) -> bool:
        if self.plain:
            return False
        self._step("exchange")
        return super().exchange(directory, one, other)


Change = Callable[[Workspace], Awaitable[object]]


def replace(workspace: Workspace) -> Awaitable[object]:
    return workspace.replace_file(workspace.locate_path("a.txt"), b"something new", hash_data(OLD))


def create(workspace: Workspace) -> Awaitable[object]:
    return workspace.replace_file(workspace.locate_path("x/y/b.txt"), b"something new", "")


def remove(workspace: Workspace) -> Awaitable[object]:
    return workspace.remove_file(workspace.locate_path("a.txt"), hash_data(OLD))


def move(workspace: Workspace) -> Awaitable[object]:
    return workspace.move_file(
        workspace.locate_path("a.txt"), workspace.locate_path("x/b.txt"), hash_data(OLD)
    )


#: What each of them leaves, of files.
DONE: dict[Change, dict[str, bytes]] = {
    replace: {"a.txt": b"something new", "c.txt": b"c"},
    create: {"a.txt": OLD, "c.txt": b"c", "x/y/b.txt": b"something new"},
    remove: {"c.txt": b"c"},
    move: {"c.txt": b"c", "x/b.txt": OLD},
}


async def outcome(change: Awaitable[object]) -> FileFailed | None:
    try:
        await change
    except FileFailed as error:
        return error
    return None


def picture(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"<dir>"
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize("plain", [False, True], ids=["exchange", "rename"])
@pytest.mark.parametrize("change", [replace, create, remove, move])
async def test_a_fault_at_any_step_is_all_or_nothing(
    tmp_path: Path, change: Change, plain: bool
) -> None:
    """safety.md, promise 5 and faults: at every step that can fail, for every kind of change.

    Either FileFailed and everything as before, or done and everything as approved.
    """
    at, failed = 0, 0
    while True:
        at += 1
        root = tmp_path / str(at)
        root.mkdir()
        (root / "a.txt").write_bytes(OLD)
        (root / "c.txt").write_bytes(b"c")
        before = picture(root)
        disk = FailingDisk(at, plain=plain)
        workspace = Workspace(root, disk=disk)
        error = await outcome(change(workspace))
        workspace.close()
        after = picture(root)
        if error is not None:
            failed += 1
            assert error.code == "io_error"
            assert error.shown in ("a.txt", "x/y/b.txt")
            assert error.shown in str(error)
            assert after == before, disk.calls
            continue
        assert {name: data for name, data in after.items() if data != b"<dir>"} == DONE[change]
        if len(disk.calls) < at:
            break
    assert failed >= 2


@pytest.mark.parametrize(
    ("change", "naming"),
    [(replace, "exchange"), (replace, "rename"), (create, "rename_new")],
    ids=["replace", "rename", "create"],
)
async def test_bytes_are_on_disk_before_their_name_is(
    tmp_path: Path, change: Change, naming: str
) -> None:
    """R15, promise 5: after a power loss the name leads to the old bytes or to the new ones."""
    (tmp_path / "a.txt").write_bytes(OLD)
    disk = FailingDisk(0, plain=naming == "rename")
    await change(Workspace(tmp_path, disk=disk))
    named = disk.calls.index(naming)
    assert disk.calls[named - 1] == "sync"
    assert "write" not in disk.calls[named:]
    assert "sync_directory" in disk.calls[named:]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "no_space"),
        (errno.EDQUOT, "no_space"),
        (errno.EROFS, "read_only"),
        (errno.EACCES, "no_permission"),
        (errno.EIO, "io_error"),
    ],
)
async def test_the_fault_is_named(tmp_path: Path, number: int, code: str) -> None:
    workspace = Workspace(tmp_path, disk=FailingDisk(1, number))
    with pytest.raises(FileFailed) as failed:
        await workspace.replace_file(workspace.locate_path("new.txt"), b"x", "")
    assert failed.value.code == code
    assert "new.txt" in str(failed.value)
    assert os.strerror(number) in str(failed.value)


async def test_a_real_limit_in_the_middle_of_a_write(tmp_path: Path) -> None:
    """safety.md, faults: the system itself stops the write half-way."""
    (tmp_path / "a.txt").write_bytes(OLD)
    workspace = Workspace(tmp_path)
    place, new = workspace.locate_path("a.txt"), workspace.locate_path("d/new.txt")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(FileFailed) as failed:
            await workspace.replace_file(place, b"x" * 300_000, hash_data(OLD))
        with pytest.raises(FileFailed):
            await workspace.replace_file(new, b"x" * 300_000, "")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failed.value.code == "no_space"
    assert picture(tmp_path) == {"a.txt": OLD}


def not_supported(*args: object) -> int:
    ctypes.set_errno(errno.EINVAL)
    return -1


@pytest.mark.parametrize("call", [None, not_supported], ids=["system", "file system"])
async def test_where_there_is_no_call_for_it_nothing_is_overwritten_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., int] | None
) -> None:
    """It links the new name and takes the old one away."""

    def renamer() -> Callable[..., int] | None:
        return call

    monkeypatch.setattr(file_changes, "_find_rename_call", renamer)
    workspace = Workspace(tmp_path)
    await workspace.replace_file(workspace.locate_path("a.txt"), OLD, "")
    await workspace.replace_file(workspace.locate_path("a.txt"), b"new", hash_data(OLD))
    await workspace.move_file(
        workspace.locate_path("a.txt"), workspace.locate_path("b.txt"), hash_data(b"new")
    )
    assert picture(tmp_path) == {"b.txt": b"new"}
    (tmp_path / "a.txt").write_bytes(OLD)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(FileExistsError):
            Disk().rename_new(directory, "a.txt", directory, "b.txt")
        unlink = os.unlink

        def refuse(path: str, *, dir_fd: int) -> None:
            if path == "a.txt":
                raise PermissionError(errno.EPERM, "", path)
            unlink(path, dir_fd=dir_fd)

        monkeypatch.setattr(os, "unlink", refuse)
        with pytest.raises(PermissionError):
            Disk().rename_new(directory, "a.txt", directory, "c.txt")
        (tmp_path / "link").symlink_to("a.txt")
        Disk().rename_new(directory, "link", directory, "other")
        assert (tmp_path / "other").is_symlink()
    finally:
        os.close(directory)
    assert picture(tmp_path) == {"a.txt": OLD, "b.txt": b"new", "other": OLD}
    workspace.close()


def test_a_system_that_cannot_sync_names_need_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """But a disk that fails is no such system."""
    reading, writing = os.pipe()
    Disk().sync_directory(reading)
    os.close(reading)
    os.close(writing)

    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    for sync in (Disk().sync, Disk().sync_directory):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            sync(0)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="only Linux has such a file")
async def test_what_the_system_says_of_a_file_that_cannot_be_read_is_told() -> None:
    """A file of the kernel: it is there, and no byte of it can be read."""
    workspace = Workspace("/proc/self")
    place = workspace.locate_path("mem")
    for attempt in (workspace.read_bytes(place), workspace.hash_file(place)):
        with pytest.raises(FileFailed) as failed:
            await attempt
        assert (failed.value.code, failed.value.shown) == ("io_error", "mem")
    workspace.close()


def test_a_tree_is_removed_with_all_that_is_in_it_and_no_more(tmp_path: Path) -> None:
    for folder in ("tree/a/b/c", "tree/a/d", "tree/e", "beside"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text("x")
    (tmp_path / "tree/a/link").symlink_to(tmp_path / "beside")
    before = descriptors()
    file_changes.remove_tree(tmp_path / "tree")
    file_changes.remove_tree(tmp_path / "gone")
    assert picture(tmp_path) == {"beside": b"<dir>", "beside/file": b"x"}
    assert descriptors() == before


@pytest.mark.parametrize(("system", "flags"), [("linux", [1, 2]), ("darwin", [4, 2])])
def test_each_system_is_called_by_its_own_numbers(
    monkeypatch: pytest.MonkeyPatch, system: str, flags: list[int]
) -> None:
    """Those of its headers; by another one it would do another thing, or overwrite a file. What it
    refuses, it is not asked for in another way.
    """
    asked: list[int] = []

    def answer(*numbers: object) -> int:
        asked.extend(n.value for n in numbers if isinstance(n, ctypes.c_uint))
        ctypes.set_errno(errno.EIO)
        return -1

    system_calls = SimpleNamespace(renameat2=answer, renameatx_np=answer)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(file_changes, "load_libc", lambda: system_calls)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        Disk().rename_new(0, "a", 0, "b")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        Disk().exchange(0, "a", "b")
    assert asked == flags


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="no call for it elsewhere")
def test_the_system_gives_two_files_each_others_name_in_one_step(tmp_path: Path) -> None:
    """Promise 5: with it no moment is seen in which a file is missing."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        assert Disk().exchange(directory, "a", "b")
    finally:
        os.close(directory)
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["b", "a"]


# --- undo and redo ------------------------------------------------------------------------------

CALLS: dict[str, dict[str, object]] = {
    "file_ops.write_file": {"path": "new/deep/d.txt", "content": "new\n"},
    "file_ops.edit_file": {"path": "a.txt", "edits": [{"old": "old", "new": "other"}]},
    "file_ops.move_file": {"source": "a.txt", "target": "x/b.txt"},
    "file_ops.delete_file": {"path": "a.txt"},
}


def files(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in picture(root).items() if data != b"<dir>"}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("operation", CALLS)
async def test_a_fault_at_any_step_of_an_undo_or_a_redo_is_all_or_nothing(
    tmp_path: Path, operation: str, number: int
) -> None:
    """Either it says what failed, by name, and nothing is changed, or it is done; then once more
    does the rest.
    """
    words = Catalogue("en")
    failed = {"undo": 0, "redo": 0}
    at, calls = 0, {"undo": 1, "redo": 1}
    while at < max(calls.values()):
        at += 1
        root = tmp_path / str(at)
        root.mkdir()
        (root / "a.txt").write_bytes(OLD)
        disk = FailingDisk(0, number)
        bench = Bench(root, mode=ApprovalMode.TRUSTED, disk=disk)
        before = files(root)
        if operation == "file_ops.delete_file":
            await bench.approved(operation, **CALLS[operation])
        else:
            await bench.call(operation, **CALLS[operation])
        after = files(root)
        assert after != before
        for way, now, then in (("undo", after, before), ("redo", before, after)):
            turn = (
                bench.router.undoing.undo_last if way == "undo" else bench.router.undoing.redo_last
            )
            disk.calls, disk.at = [], at
            report = await turn()
            calls[way] = max(calls[way], len(disk.calls))
            disk.at = 0
            if not report.undone:
                failed[way] += 1
                assert files(root) == now
                why = {"why": WORDS(report.why)} if report.why is not None else {}
                path = words(report.key, **report.params, **why)
                assert any(name in path for name in ("a.txt", "d.txt", "x/b.txt"))
                report = await turn()
            assert report.key == f"operations.{way}.done"
            assert files(root) == then
    assert min(failed.values()) >= 1
