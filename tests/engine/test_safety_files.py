"""Reading, replacing, moving, deleting and listing files of a workspace."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from support.bench import descriptors

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.safety.paths import (
    ContentChanged,
    DirectoryEntry,
    FileFailed,
    FileKind,
    PathRefused,
    WorkspaceGone,
    choose_opener,
)
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.operations import Zone

A = hash_data(b"a = 1\r\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "src").mkdir(parents=True)
    (path / "src" / "a.py").write_bytes(b"a = 1\r\n")
    return path


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    opened = Workspace(root)
    yield opened
    opened.close()


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def replace_root(root: Path, away: Path) -> None:
    """Another directory with the same content takes the name."""
    root.rename(away)
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_bytes(b"a = 1\r\n")


# --- reading ---------------------------------------------------------------------------------


async def test_reading_whole_and_in_ranges(workspace: Workspace) -> None:
    place = workspace.locate_path("src/a.py")
    assert await workspace.read_bytes(place) == b"a = 1\r\n"
    assert await workspace.read_bytes(place, 4) == b"1\r\n"
    assert await workspace.read_bytes(place, 2, 3) == b"= 1"
    assert await workspace.read_bytes(place, 100) == b""
    assert await workspace.hash_file(place) == hash_data(b"a = 1\r\n")


async def test_reading_what_is_not_there(workspace: Workspace) -> None:
    place = workspace.locate_path("src/none.py")
    with pytest.raises(FileFailed) as failed:
        await workspace.read_bytes(place)
    assert failed.value.code == "not_found"
    assert "src/none.py" in str(failed.value)
    assert await workspace.hash_file(place) == ""


async def test_a_file_that_may_not_be_read_is_not_taken_for_none(root: Path) -> None:
    """R15: whoever has seen no content approves none."""

    def refuse(directory: int, path: str, flags: int, mode: int) -> int:
        if threading.current_thread() is not threading.main_thread():
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return choose_opener()(directory, path, flags, mode)

    workspace = Workspace(root, opener=refuse)
    with pytest.raises(FileFailed) as failed:
        await workspace.hash_file(workspace.locate_path("src/a.py"))
    assert failed.value.code == "no_permission"


async def test_a_huge_file_is_not_read_whole(workspace: Workspace, root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(10**12)
    place = workspace.locate_path("huge")
    with pytest.raises(PathRefused) as refused:
        await workspace.read_bytes(place)
    assert refused.value.code == "too_large"
    assert await workspace.read_bytes(place, 10**11, 4) == b"\0\0\0\0"
    os.truncate(root / "huge", 32 * 1024 * 1024)  # R18: as large as it may be
    assert len(await workspace.read_bytes(place)) == 32 * 1024 * 1024


async def test_protected_files_are_not_even_read(workspace: Workspace, root: Path) -> None:
    """safety.md, zones: protected paths are refused always; the file layer says so by itself."""
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]")
    place = workspace.locate_path(".git/config")
    with pytest.raises(PathRefused, match="protected"):
        await workspace.read_bytes(place)
    with pytest.raises(PathRefused, match="protected"):
        await workspace.replace_file(place, b"x", hash_data("[core]"))
    with pytest.raises(PathRefused, match="protected"):
        await workspace.remove_file(place, hash_data("[core]"))
    with pytest.raises(PathRefused, match="protected"):
        await workspace.move_file(workspace.locate_path("src/a.py"), place, hash_data("a = 1\r\n"))
    assert (root / ".git" / "config").read_text() == "[core]"


async def test_no_descriptor_stays_open(workspace: Workspace, root: Path) -> None:
    """After what went well and after what was refused alike."""
    (root / "link").symlink_to("../outside")
    os.mkfifo(root / "pipe")

    async def everything(number: int) -> None:
        made, moved = f"new{number}/deep/b.py", f"new{number}/c.py"
        await workspace.replace_file(workspace.locate_path(made), b"b", "")
        await workspace.replace_file(workspace.locate_path(made), b"c", hash_data(b"b"))
        await workspace.move_file(
            workspace.locate_path(made), workspace.locate_path(moved), hash_data(b"c")
        )
        await workspace.read_bytes(workspace.locate_path(moved))
        await workspace.hash_file(workspace.locate_path(moved))
        await workspace.remove_file(workspace.locate_path(moved), hash_data(b"c"))
        await workspace.remove_directory(workspace.locate_path(f"new{number}/deep"))
        refused = (
            workspace.replace_file(workspace.locate_path("src/a.py"), b"x", hash_data(b"other")),
            workspace.replace_file(workspace.locate_path("src/a.py"), b"x", ""),
            workspace.replace_file(workspace.locate_path("src/none.py"), b"x", hash_data(b"other")),
            workspace.replace_file(workspace.locate_path("src"), b"x", ""),
            workspace.remove_file(workspace.locate_path("src/a.py"), hash_data(b"other")),
            workspace.move_file(
                workspace.locate_path("src/a.py"), workspace.locate_path("src"), hash_data(b"")
            ),
            workspace.read_bytes(workspace.locate_path("src")),
            workspace.read_bytes(workspace.locate_path("link")),
        )
        with workspace.open_folder_path(workspace.locate_path("src")) as folder:
            assert os.listdir(folder) == ["a.py"]
        with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
            workspace.open_below("pipe")
        with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR)):
            workspace.open_below("src/a.py", folder=True)
        for attempt in refused:
            with pytest.raises((ContentChanged, FileFailed, PathRefused)):
                await attempt

    await everything(0)
    before = descriptors()
    await everything(1)
    assert descriptors() == before


# --- replacing -------------------------------------------------------------------------------


async def test_replacing_keeps_mode_and_leaves_no_trace(workspace: Workspace, root: Path) -> None:
    path = root / "src" / "a.py"
    path.chmod(0o754)
    place = workspace.locate_path("src/a.py")
    made = await workspace.replace_file(place, b"a = 2\n", hash_data(b"a = 1\r\n"))
    assert path.read_bytes() == b"a = 2\n"
    assert made == ()
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert names(root) == ["src", "src/a.py"]


async def test_replacing_with_a_mode(workspace: Workspace, root: Path) -> None:
    place = workspace.locate_path("src/a.py")
    await workspace.replace_file(place, b"", hash_data(b"a = 1\r\n"), mode=0o700)
    assert stat.S_IMODE((root / "src" / "a.py").stat().st_mode) == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
async def test_attributes_stay_but_for_what_lets_a_program_do_more(
    workspace: Workspace, root: Path
) -> None:
    path = root / "src" / "a.py"
    capability = struct.pack("<5I", 0x02000000, 1, 0, 0, 0)
    try:
        os.setxattr(path, "user.note", b"kept")
        os.setxattr(path, "security.capability", capability)
    except OSError:
        pytest.skip("no such attributes here")
    await workspace.replace_file(workspace.locate_path("src/a.py"), b"x", A)
    assert os.listxattr(path) == ["user.note"]
    assert os.getxattr(path, "user.note") == b"kept"


async def test_the_owner_stays(workspace: Workspace, root: Path) -> None:
    os.chown(root / "src" / "a.py", 1234, 4321)
    await workspace.replace_file(workspace.locate_path("src/a.py"), b"x", hash_data(b"a = 1\r\n"))
    info = (root / "src" / "a.py").stat()
    assert (info.st_uid, info.st_gid) == (1234, 4321)


async def test_a_changed_file_is_not_replaced(workspace: Workspace, root: Path) -> None:
    """R15: what is there is not what was shown, so nothing changes."""
    place = workspace.locate_path("src/a.py")
    (root / "src" / "a.py").write_text("mine")
    with pytest.raises(ContentChanged) as changed:
        await workspace.replace_file(place, b"x", hash_data(b"a = 1\r\n"))
    assert changed.value.now_sha == hash_data("mine")
    assert (root / "src" / "a.py").read_text() == "mine"
    assert names(root) == ["src", "src/a.py"]


class IdleDisk(Disk):
    """Fails at the first change."""

    def write(self, file: int, data: memoryview) -> int:
        raise AssertionError("something was written")

    def exchange(self, directory: int, one: str, other: str) -> bool:
        raise AssertionError("something was exchanged")

    def rename_new(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
        raise AssertionError("something was renamed")


@pytest.mark.parametrize("change", ["replace", "remove", "move"])
async def test_a_changed_file_is_not_touched_for_a_moment(root: Path, change: str) -> None:
    """R15: who watches the folder sees nothing happen."""
    workspace = Workspace(root, disk=IdleDisk())
    (root / "src" / "a.py").write_text("mine")
    with pytest.raises(ContentChanged):
        await CHANGES[change](workspace)
    workspace.close()
    assert names(root) == ["src", "src/a.py"]


@pytest.mark.parametrize("gone", ["src/a.py", "src"])
async def test_a_file_that_is_gone_is_not_replaced(
    workspace: Workspace, root: Path, gone: str
) -> None:
    """R15."""
    place = workspace.locate_path("src/a.py")
    (root / gone).rename(root / "elsewhere")
    with pytest.raises(ContentChanged) as changed:
        await workspace.replace_file(place, b"x", hash_data(b"a = 1\r\n"))
    assert changed.value.now_sha == ""


async def test_creating_with_directories(workspace: Workspace, root: Path) -> None:
    place = workspace.locate_path("new/deep/b.py")
    await workspace.replace_file(place, b"b", "")
    assert (root / "new" / "deep" / "b.py").read_bytes() == b"b"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((root / "new/deep/b.py").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("bits", [0o4755, 0o2755, 0o6755, 0o1644])
async def test_new_content_never_runs_as_somebody_else(
    workspace: Workspace, root: Path, bits: int
) -> None:
    """Set-id bits and the sticky bit are not taken over, as where the system writes to a file."""
    (root / "src" / "a.py").chmod(bits)
    place = workspace.locate_path("src/a.py")
    await workspace.replace_file(place, b"new", hash_data(b"a = 1\r\n"))
    assert stat.S_IMODE((root / "src" / "a.py").stat().st_mode) == bits & 0o777
    await workspace.replace_file(
        workspace.locate_path("src/a.py"), b"old", hash_data(b"new"), mode=bits
    )
    assert stat.S_IMODE((root / "src" / "a.py").stat().st_mode) == bits & 0o777
    await workspace.replace_file(workspace.locate_path("b.py"), b"b", "", mode=bits)
    assert stat.S_IMODE((root / "b.py").stat().st_mode) == bits & 0o777


async def test_creating_never_overwrites(workspace: Workspace, root: Path) -> None:
    """R15: a file that came meanwhile stays, and directories made for ours go again."""
    place = workspace.locate_path("b.py")
    (root / "b.py").write_text("theirs")
    with pytest.raises(ContentChanged) as changed:
        await workspace.replace_file(place, b"ours", "")
    assert changed.value.now_sha == hash_data("theirs")
    assert (root / "b.py").read_text() == "theirs"
    assert names(root) == ["b.py", "src", "src/a.py"]


async def test_writing_through_a_link_keeps_the_link(workspace: Workspace, root: Path) -> None:
    (root / "link").symlink_to("src/a.py")
    place = workspace.locate_path("link")
    await workspace.replace_file(place, b"new", hash_data(b"a = 1\r\n"))
    assert (root / "link").is_symlink()
    assert (root / "src" / "a.py").read_bytes() == b"new"


async def test_a_link_that_leads_out_is_not_written_through(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    """Promise 1: the place must be named; under a name inside nobody approves the outside."""
    (tmp_path / "outside.txt").write_bytes(b"a = 1\r\n")
    (root / "link").symlink_to(tmp_path / "outside.txt")
    (root / "dangling").symlink_to(tmp_path / "new.txt")
    for name, expect in (("link", hash_data(b"a = 1\r\n")), ("dangling", "")):
        with pytest.raises(PathRefused) as refused:
            await workspace.replace_file(workspace.locate_path(name), b"x", expect)
        assert refused.value.code == "link_out"
    assert (tmp_path / "outside.txt").read_bytes() == b"a = 1\r\n"
    assert not (tmp_path / "new.txt").exists()


async def test_a_read_only_file_is_left_alone(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless its permissions are to be others."""

    def may(path: str, mode: int, *, dir_fd: int) -> bool:
        return bool(os.stat(path, dir_fd=dir_fd).st_mode & 0o200)

    if os.getuid() == 0:
        monkeypatch.setattr(os, "access", may)  # root may write everything
    (root / "src" / "a.py").chmod(0o444)
    place = workspace.locate_path("src/a.py")
    with pytest.raises(FileFailed) as failed:
        await workspace.replace_file(place, b"x", A)
    assert failed.value.code == "no_permission"
    assert (root / "src" / "a.py").read_bytes() == b"a = 1\r\n"
    await workspace.replace_file(place, b"x", A, mode=0o644)
    assert (root / "src" / "a.py").read_bytes() == b"x"


async def test_a_directory_is_not_a_file(workspace: Workspace) -> None:
    place = workspace.locate_path("src")
    for attempt in (
        workspace.replace_file(place, b"x", ""),
        workspace.remove_file(place, ""),
        workspace.read_bytes(place),
    ):
        with pytest.raises(PathRefused) as refused:
            await attempt
        assert refused.value.code == "is_directory"


# --- deleting and moving ---------------------------------------------------------------------


async def test_deleting(workspace: Workspace, root: Path) -> None:
    place = workspace.locate_path("src/a.py")
    with pytest.raises(ContentChanged):
        await workspace.remove_file(place, hash_data(b"other"))
    assert (root / "src" / "a.py").exists()
    await workspace.remove_file(place, hash_data(b"a = 1\r\n"))
    assert names(root) == ["src"]


async def test_moving(workspace: Workspace, root: Path) -> None:
    sha = hash_data(b"a = 1\r\n")
    made = await workspace.move_file(
        workspace.locate_path("src/a.py"), workspace.locate_path("lib/c.py"), sha
    )
    assert made == ("lib",)
    assert names(root) == ["lib", "lib/c.py", "src"]
    assert (root / "lib" / "c.py").read_bytes() == b"a = 1\r\n"


async def test_moving_never_overwrites(workspace: Workspace, root: Path) -> None:
    """R15: whatever has the target's name stays."""
    sha = hash_data(b"a = 1\r\n")
    source, target = workspace.locate_path("src/a.py"), workspace.locate_path("b.py")
    (root / "b.py").write_text("theirs")
    with pytest.raises(ContentChanged) as changed:
        await workspace.move_file(source, target, sha)
    assert changed.value.place is target
    assert (root / "b.py").read_text() == "theirs"
    assert names(root) == ["b.py", "src", "src/a.py"]


async def test_a_changed_file_is_not_moved(workspace: Workspace, root: Path) -> None:
    """R15: neither moved, nor a directory left that was made for it."""
    source = workspace.locate_path("src/a.py")
    (root / "src" / "a.py").write_text("mine")
    with pytest.raises(ContentChanged):
        await workspace.move_file(
            source, workspace.locate_path("x/y/z.py"), hash_data(b"a = 1\r\n")
        )
    assert names(root) == ["src", "src/a.py"]


async def test_only_an_empty_folder_of_the_users_own_is_deleted(
    workspace: Workspace, root: Path
) -> None:
    (root / ".git").mkdir()
    (root / "empty").mkdir()
    (root / "link").symlink_to("empty")
    codes = {
        ".git": "protected", "link": "is_link", "src/a.py": "not_directory", ".": "not_directory"
    }  # fmt: skip
    for given, code in codes.items():
        with pytest.raises(PathRefused) as refused:
            await workspace.remove_directory(workspace.locate_path(given))
        assert refused.value.code == code
    with pytest.raises(FileFailed):
        await workspace.remove_directory(workspace.locate_path("src"))
    await workspace.remove_directory(workspace.locate_path("empty"))
    assert names(root) == [".git", "link", "src", "src/a.py"]


async def test_a_file_is_not_moved_to_where_it_is(workspace: Workspace) -> None:
    place = workspace.locate_path("src/a.py")
    with pytest.raises(PathRefused) as refused:
        await workspace.move_file(place, workspace.locate_path("src/../src/a.py"), A)
    assert refused.value.code == "same_file"


async def test_links_are_neither_moved_nor_deleted(workspace: Workspace, root: Path) -> None:
    (root / "link").symlink_to("src/a.py")
    link, sha = workspace.locate_path("link"), hash_data(b"a = 1\r\n")
    for attempt in (
        workspace.remove_file(link, sha),
        workspace.move_file(link, workspace.locate_path("b"), sha),
        workspace.move_file(workspace.locate_path("src/a.py"), link, sha),
    ):
        with pytest.raises(PathRefused):
            await attempt
    assert names(root) == ["link", "src", "src/a.py"]


async def test_nothing_is_written_once_the_workspace_is_gone(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    """R03, safety.md faults: workspace deleted or replaced, writes stop."""
    place, new = workspace.locate_path("src/a.py"), workspace.locate_path("new.py")
    folder = workspace.locate_path("src")
    replace_root(root, tmp_path / "old")
    with pytest.raises(WorkspaceGone):
        workspace.scan_directory(folder)
    sha = hash_data(b"a = 1\r\n")
    for attempt in (
        workspace.replace_file(place, b"x", sha),
        workspace.replace_file(new, b"x", ""),
        workspace.remove_file(place, sha),
        workspace.move_file(place, new, sha),
        workspace.remove_directory(folder),
        workspace.read_bytes(place),
    ):
        with pytest.raises(WorkspaceGone):
            await attempt
    assert names(root) == names(tmp_path / "old") == ["src", "src/a.py"]


# --- cancellation ----------------------------------------------------------------------------


class SlowDisk(Disk):
    """Waits at a named step until the test lets it go on."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def _wait(self, step: str) -> None:
        if step == self.step:
            self.reached.set()
            assert self.go_on.wait(10)

    def write(self, file: int, data: memoryview) -> int:
        self._wait("write")
        return super().write(file, data)

    def sync_directory(self, directory: int) -> None:
        self._wait("sync_directory")
        super().sync_directory(directory)


async def test_cancelled_before_the_swap_changes_nothing(root: Path) -> None:
    disk = SlowDisk("write")
    workspace = Workspace(root, disk=disk)
    place = workspace.locate_path("src/a.py")
    task = asyncio.create_task(workspace.replace_file(place, b"x", hash_data(b"a = 1\r\n")))
    await asyncio.to_thread(disk.reached.wait, 10)
    (draft,) = set(os.listdir(root / "src")) - {"a.py"}
    assert stat.S_IMODE((root / "src" / draft).stat().st_mode) == 0o600
    task.cancel()
    await asyncio.sleep(0)
    disk.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (root / "src" / "a.py").read_bytes() == b"a = 1\r\n"
    assert names(root) == ["src", "src/a.py"]


@pytest.mark.parametrize("by", ["user", "time"])
async def test_cancelled_after_the_swap_reports_the_change(root: Path, by: str) -> None:
    """Promise 8 the other way round: what was done is not reported as stopped; where its time was
    over, that is said, as by any other call.
    """
    disk = SlowDisk("sync_directory")
    workspace = Workspace(root, disk=disk)
    place = workspace.locate_path("src/a.py")
    told: list[str] = []

    limit = asyncio.timeout(None)

    async def caller() -> None:
        async with limit:
            await workspace.replace_file(place, b"x", hash_data(b"a = 1\r\n"))
            told.append("done")
            await asyncio.sleep(0)
            told.append("went on")

    task = asyncio.create_task(caller())
    await asyncio.to_thread(disk.reached.wait, 10)
    if by == "user":
        task.cancel()
    else:
        limit.reschedule(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    disk.go_on.set()
    with pytest.raises(asyncio.CancelledError if by == "user" else TimeoutError):
        await task
    assert told == ["done"]
    assert (root / "src" / "a.py").read_bytes() == b"x"


CHANGES: dict[str, Callable[[Workspace], Awaitable[object]]] = {
    "replace": lambda w: w.replace_file(w.locate_path("src/a.py"), b"x", A),
    "create": lambda w: w.replace_file(w.locate_path("new/deep/b.py"), b"x", ""),
    "remove": lambda w: w.remove_file(w.locate_path("src/a.py"), A),
    "move": lambda w: w.move_file(w.locate_path("src/a.py"), w.locate_path("new/b.py"), A),
    "remove_directory": lambda w: w.remove_directory(w.locate_path("empty")),
}


class SlowWalk:
    """Opens files as always, but in a thread only when the test lets it go on."""

    def __init__(self) -> None:
        self.open = choose_opener()
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, anchor: int, path: str, flags: int, mode: int) -> int:
        if threading.current_thread() is not threading.main_thread():
            self.reached.set()
            assert self.go_on.wait(10)
        return self.open(anchor, path, flags, mode)


@pytest.mark.parametrize("change", CHANGES)
async def test_what_was_cancelled_before_it_began_never_happens(root: Path, change: str) -> None:
    (root / "empty").mkdir()
    before = names(root)
    walk = SlowWalk()
    workspace = Workspace(root, opener=walk)

    async def work() -> object:
        return await CHANGES[change](workspace)

    task = asyncio.create_task(work())
    await asyncio.to_thread(walk.reached.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    walk.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    workspace.close()
    assert names(root) == before
    assert (root / "src" / "a.py").read_bytes() == b"a = 1\r\n"


class WatchedDisk(Disk):
    """Tells which folders were synced, by their place below the root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.synced: list[str] = []

    def sync_directory(self, directory: int) -> None:
        inode = os.fstat(directory).st_ino
        folders = (self.root, *(path for path in self.root.rglob("*") if path.is_dir()))
        (found,) = [path for path in folders if path.stat().st_ino == inode]
        self.synced.append(str(found.relative_to(self.root)))
        super().sync_directory(directory)


@pytest.mark.parametrize(
    ("change", "synced", "left"),
    [
        ("replace", ["src"], ["empty", "src", "src/a.py"]),
        (
            "create",
            [".", "new", "new/deep"],
            ["empty", "new", "new/deep", "new/deep/b.py", "src", "src/a.py"],
        ),
        ("remove", ["src", "src"], ["empty", "src"]),
        ("move", [".", "new", "src"], ["empty", "new", "new/b.py", "src"]),
        ("remove_directory", ["."], ["src", "src/a.py"]),
    ],
)
async def test_what_is_done_survives_a_power_loss(
    root: Path, change: str, synced: list[str], left: list[str]
) -> None:
    (root / "empty").mkdir()
    disk = WatchedDisk(root)
    workspace = Workspace(root, disk=disk)
    open_before = descriptors()
    await CHANGES[change](workspace)
    assert descriptors() == open_before
    workspace.close()
    assert disk.synced == synced
    assert names(root) == left


# --- listing ---------------------------------------------------------------------------------


def listed(
    workspace: Workspace, given: str = ".", depth: int | None = None
) -> dict[str, DirectoryEntry]:
    return {e.path: e for e in workspace.scan_directory(workspace.locate_path(given), depth=depth)}


def test_listing(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("x")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("")
    (root / ".env").write_text("K=1")
    (root / ".aws").mkdir()
    (root / ".aws" / "any").write_text("")
    os.mkfifo(root / "pipe")
    (root / ".duckflow-0123.tmp").write_text("not finished")
    found = listed(workspace)
    assert {path: (e.kind, e.zone) for path, e in found.items()} == {
        ".aws": (FileKind.DIR, Zone.SECRET),
        ".aws/any": (FileKind.FILE, Zone.SECRET),
        ".env": (FileKind.FILE, Zone.SECRET),
        ".git": (FileKind.DIR, Zone.PROTECTED),
        "out": (FileKind.LINK, Zone.INSIDE),
        "pipe": (FileKind.SPECIAL, Zone.INSIDE),
        "src": (FileKind.DIR, Zone.INSIDE),
        "src/a.py": (FileKind.FILE, Zone.INSIDE),
    }
    assert list(found) == sorted(found)
    assert (found["src/a.py"].size, found["src"].size, found["pipe"].size) == (7, 0, 0)
    link = workspace.stat_path("out")
    assert link is not None
    assert stat.S_ISLNK(link.st_mode)
    assert workspace.stat_path("gone") is None


@pytest.mark.parametrize("what", ["gone", "fifo"])
def test_a_file_that_goes_while_its_folder_is_listed(
    workspace: Workspace, root: Path, what: str
) -> None:
    (root / "src/b.py").write_text("b")
    (root / "src/c.py").write_text("c")
    scan = workspace.scan_directory(workspace.locate_path("src"))
    assert next(scan).name == "a.py"
    (root / "src/b.py").unlink()
    if what == "fifo":
        os.mkfifo(root / "src/b.py")
    assert [entry.name for entry in scan] == ["c.py"]


def test_listing_in_part(workspace: Workspace, root: Path) -> None:
    (root / "src" / "deep").mkdir()
    (root / "src" / "deep" / "x").write_text("")
    assert list(listed(workspace, depth=1)) == ["src"]
    assert list(listed(workspace, depth=2)) == ["src", "src/a.py", "src/deep"]
    assert list(listed(workspace, "src", depth=1)) == ["src/a.py", "src/deep"]
    kept = workspace.scan_directory(
        workspace.locate_path("."), depth=None, enter=lambda e: e.name != "deep"
    )
    assert [e.path for e in kept] == ["src", "src/a.py", "src/deep"]


def test_listing_outside(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("")
    found = listed(workspace, "../other")
    assert [(e.path, e.zone) for e in found.values()] == [
        (str(tmp_path / "other" / "x"), Zone.OUTSIDE)
    ]


def test_the_apps_own_directories_are_closed(root: Path) -> None:
    """Promise 1: config, data and state of the app, also where they lie in the workspace."""
    (root / "state" / "journal").mkdir(parents=True)
    workspace = Workspace(root, own_dirs=[root / "state"])
    found = {
        e.path: e.zone for e in workspace.scan_directory(workspace.locate_path("."), depth=None)
    }
    assert found == {"src": Zone.INSIDE, "src/a.py": Zone.INSIDE, "state": Zone.PROTECTED}
    assert workspace.locate_path("State/journal/new").zone is Zone.PROTECTED
    with pytest.raises(PathRefused):
        workspace.scan_directory(workspace.locate_path("state"))


def test_listing_a_file_is_refused(workspace: Workspace) -> None:
    with pytest.raises(PathRefused) as refused:
        workspace.scan_directory(workspace.locate_path("src/a.py"))
    assert refused.value.code == "not_directory"


def test_a_folder_that_is_gone_is_not_listed(workspace: Workspace, root: Path) -> None:
    (root / "empty").mkdir()
    place = workspace.locate_path("empty")
    (root / "empty").rmdir()
    with pytest.raises(FileFailed) as failed:
        list(workspace.scan_directory(place))
    assert failed.value.code == "not_found"


def test_a_listing_given_up_closes_its_descriptors(workspace: Workspace, root: Path) -> None:
    (root / "a" / "b" / "c").mkdir(parents=True)
    before = descriptors()
    for _ in range(20):
        scan = workspace.scan_directory(workspace.locate_path("."), depth=None)
        for entry in scan:
            if entry.depth == 3:
                break
        scan.close()
    assert descriptors() == before


def test_listing_and_locating_agree(workspace: Workspace, root: Path) -> None:
    """R17: what a listing hides is what a read asks for; neither knows more than the other."""
    for path in (".docker/config.json", ".config/gcloud/x", ".env/lib.py", "a/.ssh/b/c", "k.pem/x"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    listing = {path: entry.zone for path, entry in listed(workspace).items()}
    assert listing == {path: workspace.locate_path(path).zone for path in listing}
    assert sorted(path for path, zone in listing.items() if zone is Zone.SECRET) == [
        ".config/gcloud",
        ".config/gcloud/x",
        ".docker/config.json",
        ".env",
        "a/.ssh",
        "a/.ssh/b",
        "a/.ssh/b/c",
        "k.pem",
    ]
    for directory in (".docker", ".env", "a/.ssh/b"):
        for entry in workspace.scan_directory(workspace.locate_path(directory)):
            assert entry.zone is listing[entry.path]
