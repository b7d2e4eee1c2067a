"""A folder in a folder, thousands of times: what looks through the workspace stays small and says
what it did not look at.
"""

from __future__ import annotations

import os
import resource
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.bench import Bench

from duckflow_tui.safety.file_changes import remove_tree
from duckflow_tui.safety.guarded import find_guarded_places
from duckflow_tui.safety.risk import ZoneMap
from duckflow_tui.session.blobs import MemoryBlobs
from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools.listing import iter_files
from duckflow_tui.tools.snapshot import FileCopies

SHORT = 1_100  # levels with names of one character: as paths they are within the system's limits
LEVELS = 1_600  # in all; the others have long names
DESCRIPTORS = 160  # more than are open; a process on macOS has 256 in all


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Path]:
    """A workspace with a plain file; all of it is removed."""
    root = tmp_path / "deep"
    (root / "tree").mkdir(parents=True)
    (root / "near.txt").write_text("word\n")
    yield root
    remove_tree(root)


def make_chain(root: Path, *names: str) -> None:
    """Folders, each in the one before, and a file at their end that only descriptors reach."""
    here = os.open(root / "tree", os.O_RDONLY)
    for name in names:
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("far.txt", os.O_CREAT, dir_fd=here))
    os.symlink("/etc", "link", dir_fd=here)
    os.close(here)


@pytest.fixture
def deep(made: Path) -> Path:
    make_chain(made, *["d"] * SHORT, *["d" * 100] * (LEVELS - SHORT))
    return made


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """A workspace with as many folders, side by side."""
    root = tmp_path / "flat"
    for number in range(LEVELS):
        (root / "tree" / f"{number:04}").mkdir(parents=True)
    (root / "near.txt").write_text("word\n")
    return root


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + DESCRIPTORS, limits[1])
    )
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def _look_through(root: Path, tmp_path: Path) -> tuple[list[str], list[bool]]:
    """What calls of the model say, and whether all was looked at."""
    bench = Bench(root)
    texts: list[str] = []
    found = await bench.call("file_ops.find_files", glob="*.txt")
    texts.append(found.result.text)
    message = await bench.call("file_ops.search_text", pattern="word")
    assert message.result.outcome is Outcome.OK
    texts.append(message.result.text)
    for path in (os.environ["PATH"], "/nowhere"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", path)
            picked = [name async for batch in iter_files(bench.workspace) for name in batch]
            assert "near.txt" in picked
    copies = FileCopies(bench.workspace, MemoryBlobs(), tmp_path / "copies")
    before = await copies.take_snapshot()
    copies.close()
    assert before is not None
    assert "near.txt" in before.copies
    return texts, [before.look.is_complete, find_guarded_places(bench.workspace).whole]


@pytest.mark.usefixtures("few_descriptors")
async def test_a_deep_tree_costs_about_what_a_flat_one_does_and_is_said(
    deep: Path, flat: Path, tmp_path: Path
) -> None:
    peaks: list[int] = []
    for root in (flat, deep):
        await _look_through(flat, tmp_path)  # what is loaded and kept by the first is no cost
        tracemalloc.start()
        texts, whole = await _look_through(root, tmp_path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert all("near.txt" in text for text in texts)
        assert whole == [root is flat] * 2
        said = ["deeper than 100 levels" in texts[0], "too deep" in texts[1]]
        assert said == [root is deep] * 2
    # A path kept for each level down would cost some 100 times as much.
    assert peaks[1] < 2 * peaks[0]


async def test_paths_that_are_too_long_are_said_too(made: Path, tmp_path: Path) -> None:
    make_chain(made, *["d" * 100] * 60)
    texts, whole = await _look_through(made, tmp_path)
    assert whole == [False, False]
    assert "not looked at" in texts[0]
    assert all("too deep" in text for text in texts[1:])


def test_of_many_folders_below_a_long_path_it_is_kept_once(made: Path) -> None:
    names = ["d" * 100] * 30
    make_chain(made, *names)
    below = os.open(made / "tree" / "/".join(names), os.O_RDONLY)
    for number in range(2_000):
        os.mkdir(f"{number}", dir_fd=below)
        os.close(os.open(f"{number}.env", os.O_CREAT, dir_fd=below))
    os.close(below)
    workspace = Bench(made).workspace
    tracemalloc.start()
    find_guarded_places(workspace)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000 * 3_000 / 2


def test_what_is_judged_and_removed_may_be_deep(deep: Path) -> None:
    """No limit of how deep calls may lie in each other is met."""
    info = deep.stat()
    zones = ZoneMap(deep, (info.st_dev, info.st_ino), [deep / "tree"])
    assert not zones.shares_protected_inode((0, 0))
    remove_tree(deep)
    assert not deep.exists()
