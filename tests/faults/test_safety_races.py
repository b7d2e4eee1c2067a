"""Somebody else changes the tree between the look and the touch."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.bench import descriptors

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.safety.paths import (
    ContentChanged,
    FileFailed,
    Opener,
    PathRefused,
    choose_opener,
    open_by_component,
)
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.operations import Zone

SHA = hash_data(b"mine")


@pytest.fixture(params=["best", "component"])
def opener(request: pytest.FixtureRequest) -> Opener:
    return choose_opener() if request.param == "best" else open_by_component


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "dir" / "sub").mkdir(parents=True)
    (path / "dir" / "sub" / "a.txt").write_bytes(b"mine")
    (tmp_path / "outside" / "sub").mkdir(parents=True)
    (tmp_path / "outside" / "sub" / "a.txt").write_bytes(b"mine")
    return path


@pytest.mark.parametrize("swapped", ["dir", "dir/sub"])
async def test_a_directory_swapped_for_a_link(
    root: Path, tmp_path: Path, opener: Opener, swapped: str
) -> None:
    """R01: the same bytes lie outside, so only the descriptor can tell."""
    workspace = Workspace(root, opener=opener)
    place, new = workspace.locate_path("dir/sub/a.txt"), workspace.locate_path("dir/sub/new.txt")
    deep, target = workspace.locate_path("dir/sub/x/new.txt"), workspace.locate_path("moved.txt")
    (root / swapped).rename(root / "away")
    outside = tmp_path / "outside" / ("sub" if swapped.endswith("sub") else "")
    (root / swapped).symlink_to(outside)
    for attempt in (
        workspace.read_bytes(place),
        workspace.hash_file(place),
        workspace.replace_file(place, b"x", SHA),
        workspace.replace_file(new, b"x", ""),
        workspace.replace_file(deep, b"x", ""),
        workspace.remove_file(place, SHA),
        workspace.move_file(place, target, SHA),
    ):
        with pytest.raises(PathRefused) as refused:
            await attempt
        assert refused.value.code == "moved"
    there = sorted(p.name for p in (tmp_path / "outside").rglob("*"))
    assert there == ["a.txt", "sub"]
    assert (tmp_path / "outside" / "sub" / "a.txt").read_bytes() == b"mine"


@pytest.mark.parametrize("to", ["link", "directory"])
async def test_a_directory_swapped_while_it_is_judged(root: Path, tmp_path: Path, to: str) -> None:
    """R01: the names said inside; the descriptor, opened a moment later, decides."""
    real = choose_opener()

    def late(directory: int, path: str, flags: int, mode: int) -> int:
        if not (root / "away").exists():
            (root / "dir").rename(root / "away")
            if to == "link":
                (root / "dir").symlink_to(tmp_path / "outside")
            else:
                (tmp_path / "outside").rename(root / "dir")
        return real(directory, path, flags, mode)

    workspace = Workspace(root, opener=late)
    with pytest.raises(PathRefused) as refused:
        workspace.locate_path("dir/sub/a.txt")
    assert refused.value.code == "moved"


async def test_a_file_that_goes_while_it_is_judged(root: Path) -> None:
    """R01, R02: what cannot be looked at by descriptor is not judged."""
    real = choose_opener()

    def late(directory: int, path: str, flags: int, mode: int) -> int:
        (root / "dir/sub/a.txt").unlink(missing_ok=True)
        return real(directory, path, flags, mode)

    with pytest.raises(PathRefused) as refused:
        Workspace(root, opener=late).locate_path("dir/sub/a.txt")
    assert refused.value.code == "moved"


@pytest.mark.parametrize("what", ["link", "fifo", "dir"])
async def test_a_file_swapped_for_something_else(
    root: Path, tmp_path: Path, opener: Opener, what: str
) -> None:
    """R01; and a FIFO in the place of a file must not make anybody wait."""
    workspace = Workspace(root, opener=opener)
    place = workspace.locate_path("dir/sub/a.txt")
    path = root / "dir" / "sub" / "a.txt"
    path.unlink()
    if what == "link":
        path.symlink_to(tmp_path / "outside" / "sub" / "a.txt")
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    codes = {"link": "moved", "fifo": "special_file", "dir": "is_directory"}
    for attempt in (
        workspace.read_bytes(place),
        workspace.replace_file(place, b"x", SHA),
        workspace.remove_file(place, SHA),
    ):
        with pytest.raises(PathRefused) as refused:
            await asyncio.wait_for(attempt, 10)
        assert refused.value.code == codes[what]
    assert (tmp_path / "outside" / "sub" / "a.txt").read_bytes() == b"mine"


async def test_a_file_swapped_for_a_fifo_while_it_is_opened(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R01: what was looked at a moment before is not what was opened."""
    workspace = Workspace(root)
    place, path = workspace.locate_path("dir/sub/a.txt"), root / "dir/sub/a.txt"
    look = os.lstat

    def late(name: str, *, dir_fd: int | None = None) -> os.stat_result:
        found = look(name, dir_fd=dir_fd)
        if name == "a.txt":
            path.unlink()
            os.mkfifo(path)
        return found

    before = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", late)
        with pytest.raises(PathRefused) as refused:
            await workspace.hash_file(place)
    assert refused.value.code == "moved"
    assert descriptors() == before


async def test_a_file_that_goes_at_the_last_moment_is_not_deleted_twice(root: Path) -> None:
    """R15: it is gone, and that is said."""

    class Gone(Disk):
        def rename_new(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
            os.unlink(source, dir_fd=source_dir)
            super().rename_new(source_dir, source, target_dir, target)

    workspace = Workspace(root, disk=Gone())
    with pytest.raises(ContentChanged) as changed:
        await workspace.remove_file(workspace.locate_path("dir/sub/a.txt"), SHA)
    assert changed.value.now_sha == ""


@pytest.mark.parametrize("change", ["create", "replace"])
async def test_after_a_fault_what_somebody_else_put_there_meanwhile_stays(
    root: Path, change: str
) -> None:
    """R15: the new file has no name any more, so there is nothing to take away."""

    class Meddled(Disk):
        def sync_directory(self, directory: int) -> None:
            (name,) = {*os.listdir(directory)} - {"a.txt"}
            os.unlink(name, dir_fd=directory)
            (root / "dir/sub" / name).write_bytes(b"theirs")
            if change == "create":
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    workspace = Workspace(root, disk=Meddled())
    if change == "create":
        with pytest.raises(FileFailed):
            await workspace.replace_file(workspace.locate_path("dir/sub/new.txt"), b"ours", "")
    else:
        await workspace.replace_file(workspace.locate_path("dir/sub/a.txt"), b"ours", SHA)
    kept = {path.name: path.read_bytes() for path in (root / "dir/sub").iterdir()}
    assert b"theirs" in kept.values()
    assert kept.get("a.txt") == (b"mine" if change == "create" else b"ours")


def files(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


class BusyDisk(Disk):
    """Somebody saves the file at a named step of the change."""

    def __init__(
        self, meddle: Path, data: bytes, step: str, *, in_place: bool, plain: bool = False
    ) -> None:
        self.meddle, self.data, self.step, self.in_place = meddle, data, step, in_place
        self.plain = plain  # a file system that cannot exchange two names

    def _save(self, step: str) -> None:
        if step != self.step or not self.data:
            return
        if not self.in_place:
            other = self.meddle.with_suffix(".new")
            other.write_bytes(self.data)
            other.rename(self.meddle)
        else:
            self.meddle.write_bytes(self.data)
        self.data = b""

    def sync(self, file: int) -> None:
        self._save("sync")
        super().sync(file)

    def exchange(self, directory: int, one: str, other: str) -> bool:
        if self.plain:
            return False
        self._save("exchange")
        return super().exchange(directory, one, other)

    def rename_new(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
        self._save("rename_new")
        super().rename_new(source_dir, source, target_dir, target)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize(
    ("change", "step", "plain"),
    [
        ("replace", "sync", False),
        ("replace", "exchange", False),
        ("replace", "sync", True),
        ("remove", "rename_new", False),
        ("move", "rename_new", False),
        ("create", "sync", False),
        ("create", "rename_new", False),
    ],
)
async def test_a_save_at_the_last_moment_is_not_lost(
    root: Path, change: str, step: str, plain: bool, in_place: bool
) -> None:
    """R15: what somebody wrote after the check is still there, under its name."""
    name = "dir/sub/new.txt" if change == "create" else "dir/sub/a.txt"
    disk = BusyDisk(root / name, b"them", step, in_place=in_place, plain=plain)
    workspace = Workspace(root, disk=disk)
    place = workspace.locate_path(name)
    changes: dict[str, Callable[[], Awaitable[object]]] = {
        "replace": lambda: workspace.replace_file(place, b"ours", SHA),
        "create": lambda: workspace.replace_file(place, b"ours", ""),
        "remove": lambda: workspace.remove_file(place, SHA),
        "move": lambda: workspace.move_file(place, workspace.locate_path("b.txt"), SHA),
    }
    with pytest.raises(ContentChanged) as changed:
        await changes[change]()
    assert changed.value.now_sha == hash_data(b"them")
    assert (root / name).read_bytes() == b"them"
    assert files(root) <= {"a.txt", "new.txt"}


async def test_a_link_that_comes_and_goes(root: Path, tmp_path: Path, opener: Opener) -> None:
    """R01, R02: a thread swaps a directory and a link to the outside all the time; whatever
    the moment, no byte lands outside.
    """
    link = root / "flip"
    link.symlink_to(tmp_path / "outside")
    stop = threading.Event()
    disk = Disk()

    def flip() -> None:
        here = os.open(root, os.O_RDONLY)
        while not stop.is_set():
            disk.exchange(here, "dir", "flip")
        os.close(here)

    workspace = Workspace(root, opener=opener)
    flipper = threading.Thread(target=flip)
    flipper.start()
    tried = 0
    try:
        for turn in range(400):
            try:
                place = workspace.locate_path(f"dir/sub/n{turn}/x.txt")
                if place.zone is Zone.INSIDE:
                    tried += 1
                    await workspace.replace_file(place, b"x", "")
            except (PathRefused, FileFailed, ContentChanged):
                pass
            if tried == 40:
                break
    finally:
        stop.set()
        flipper.join()
    there = sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "outside").rglob("*"))
    assert there == ["outside/sub", "outside/sub/a.txt"]
    assert tried > 0


async def test_two_creators_one_winner(root: Path) -> None:
    """R15: of many that create the same file at once, exactly one does."""
    workspace = Workspace(root)
    place = workspace.locate_path("shared/new.txt")
    results = await asyncio.gather(
        *(workspace.replace_file(place, f"{n}".encode(), "") for n in range(8)),
        return_exceptions=True,
    )
    losers = [result for result in results if isinstance(result, BaseException)]
    winners = [n for n, result in enumerate(results) if result not in losers]
    assert len(winners) == 1
    assert all(isinstance(loser, ContentChanged) for loser in losers), losers
    assert (root / "shared" / "new.txt").read_text() == str(winners[0])
    assert [p.name for p in (root / "shared").iterdir()] == ["new.txt"]
