"""Taking changes back: byte for byte, newest first, and never over someone else's work."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from support.bench import Bench

from duckflow_tui.session.blobs import FileBlobs
from duckflow_tui.state.base import digest
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.words.catalogue import Catalogue

WRITE = "file_ops.write_file"
EDIT = "file_ops.edit_file"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def bench(root: Path) -> Bench:
    return Bench(root, mode=ApprovalMode.TRUSTED)


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


async def test_every_change_goes_back_one_by_one(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    (root / "a.txt").chmod(0o640)
    (root / "b.bin").write_bytes(b"\0\1")
    (root / "b.bin").chmod(0o700)
    states = [tree(root)]
    for operation, args in [
        (EDIT, {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]}),
        (WRITE, {"path": "b.bin", "content": "text\n"}),
        (WRITE, {"path": "new/c.txt", "content": "c\n"}),
        ("file_ops.move_file", {"source": "new/c.txt", "target": "d.txt"}),
    ]:
        assert (await bench.call(operation, **args)).result.outcome is Outcome.OK
        states.append(tree(root))
    await bench.approved("file_ops.delete_file", path="a.txt")
    for state in reversed(states):
        report = await bench.router.undo_last()
        assert report.key == "operations.undo.done"
        assert tree(root) == state
    assert (await bench.router.undo_last()).key == "operations.undo.nothing"


async def test_the_user_sees_the_path_and_the_model_is_told(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    report = await bench.router.undo_last()
    assert Catalogue("en")(report.key, **report.params) == "Undone: a.txt"
    assert "a.txt" in report.for_model
    assert bench.kinds[-1] == "changes_undone"
    assert "a.txt" not in bench.store.state.files_read


async def test_a_file_that_changed_since_is_left_alone(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    (root / "a.txt").write_bytes(b"two and mine\n")
    report = await bench.router.undo_last()
    assert report.key == "operations.undo.changed"
    assert report.params["path"] == "a.txt"
    assert report.undone == ()
    assert report.for_model == ""
    assert (root / "a.txt").read_bytes() == b"two and mine\n"
    (root / "a.txt").write_bytes(b"two\n")
    assert (await bench.router.undo_last()).key == "operations.undo.done"


async def test_a_name_that_was_taken_since_is_left_alone(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call("file_ops.move_file", source="a.txt", target="b.txt")
    (root / "a.txt").write_bytes(b"another\n")
    assert (await bench.router.undo_last()).key == "operations.undo.taken"
    assert (root / "a.txt").read_bytes() == b"another\n"
    assert (root / "b.txt").read_bytes() == b"one\n"


async def test_a_deleted_file_that_is_there_again_is_left_alone(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.approved("file_ops.delete_file", path="a.txt")
    (root / "a.txt").write_bytes(b"another\n")
    assert (await bench.router.undo_last()).key == "operations.undo.changed"
    assert (root / "a.txt").read_bytes() == b"another\n"


async def test_lost_bytes_are_said(root: Path, tmp_path: Path) -> None:
    bench = Bench(root, mode=ApprovalMode.TRUSTED, blobs=FileBlobs(tmp_path / "blobs"))
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    sha = digest(b"one\n")
    (tmp_path / "blobs" / sha[:2] / sha).unlink()
    assert (await bench.router.undo_last()).key == "operations.undo.lost"
    assert (root / "a.txt").read_bytes() == b"two\n"


async def test_what_an_undo_overwrites_is_kept_too(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    await bench.router.undo_last()
    assert await bench.blobs.get(digest(b"two\n")) == b"two\n"


async def test_an_undo_that_was_done_but_not_recorded_is_recorded_the_second_time(
    bench: Bench, root: Path
) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    (root / "a.txt").write_bytes(b"one\n")  # as after a crash between the write and its record
    assert (await bench.router.undo_last()).key == "operations.undo.done"
    assert (root / "a.txt").read_bytes() == b"one\n"


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_outcome_has_words(language: str) -> None:
    for word in ("nothing", "done", "partly", "changed", "taken", "lost", "failed"):
        key = f"operations.undo.{word}"
        assert Catalogue(language)(key, path="a.txt", why="x") != key
