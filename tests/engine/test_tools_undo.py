"""Taking changes back: byte for byte, newest first, and never over someone else's work."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bench import Bench
from support.shell import ShellBench
from support.whole import rounds

from duckflow_tui.session.blobs import FileBlobs
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.state.session import SessionResumed
from duckflow_tui.words.catalogue import Catalogue

WRITE = "file_ops.write_file"
EDIT = "file_ops.edit_file"


@pytest.fixture
def bench(root: Path) -> Bench:
    return Bench(root, mode=ApprovalMode.TRUSTED)


NAMES = ("a.txt", "b.txt", "deep/c.txt", "deep/er/d.txt", "other/e.txt")
MODES = ("400", "444", "600", "755", "640")
FIRST = {"a.txt": b"\xef\xbb\xbfone\r\ntwo", "b.txt": b"", "deep/c.txt": b"c\n"}
EDITS = st.tuples(
    st.sampled_from(("write", "edit", "move", "delete", "chmod", "command")),
    st.integers(0, 99),
    st.integers(0, len(NAMES) - 1),
    st.text(st.sampled_from("ab\n\r é"), max_size=6),
)


async def made(bench: Bench, operation: str, /, **args: Any) -> bool:
    """Whether the call changed a file; every gate of it is approved."""
    task = bench.begin(operation, **args)
    while not task.done():
        await bench.until(lambda state: bool(state.gates) or not state.running)
        for gate in bench.store.state.gates:
            await bench.answer(gate, GateChoice.ONCE)
        await asyncio.sleep(0)
    return bool((await task).result.undoable_changes)


def results(bench: Bench) -> list[OperationMessage]:
    messages = reversed(bench.store.state.messages)
    return [message for message in messages if isinstance(message, OperationMessage)]


def whole(root: Path) -> tuple[dict[str, tuple[bytes, int]], list[str]]:
    """The files, and the folders."""
    return tree(root), sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_dir())


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
        assert await made(bench, operation, **args)
        states.append(tree(root))
    await bench.approved("file_ops.delete_file", path="a.txt")
    for state in reversed(states):
        report = await bench.router.undoing.undo_last()
        assert report.key == "operations.undo.done"
        assert tree(root) == state
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.nothing"


@given(st.lists(EDITS, min_size=50, max_size=50), st.integers(0, 0o77))
@settings(max_examples=rounds(6, 3))
def test_fifty_edits_go_back_and_are_made_again_byte_for_byte(
    edits: list[tuple[str, int, int, str]], mask: int
) -> None:
    """Covers S4-88."""

    async def scenario(root: Path) -> None:
        for name, data in FIRST.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(data)
            (root / name).chmod(0o600 | mask)
        bench = ShellBench(root, mode=ApprovalMode.TRUSTED)
        states = [whole(root)]
        for kind, one, other, text in edits:
            paths, target = sorted(tree(root)), NAMES[other]
            path = paths[one % len(paths)] if paths else ""
            match kind if path else "write":
                case "write":
                    done = await made(bench, WRITE, path=target, content=text)
                case "edit":
                    found = (root / path).read_bytes()[:1].decode("latin-1")
                    edit = {"old": found, "new": text, "all": True}
                    done = await made(bench, EDIT, path=path, edits=[edit])
                case "move":
                    done = await made(bench, "file_ops.move_file", source=path, target=target)
                case "delete":
                    done = await made(bench, "file_ops.delete_file", path=path)
                case "chmod":
                    line = f"chmod {MODES[other]} {path}"
                    done = await made(bench, "shell.run", command=line)
                case _:
                    line = f"mkdir -p made/new && cat {path} > {target}; mv {path} made/new/f"
                    done = await made(bench, "shell.run", command=line)
            if done:
                states.append(whole(root))
        for state in reversed(states[:-1]):
            assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"
            assert tree(root) == state[0]
        assert whole(root) == states[0]  # folders too
        for state in states[1:]:
            assert (await bench.router.undoing.redo_last()).key == "operations.redo.done"
            assert tree(root) == state[0]
        assert (await bench.router.undoing.redo_last()).key == "operations.redo.nothing"
        await bench.end_commands()

    with TemporaryDirectory() as folder:
        (Path(folder) / "work").mkdir()
        asyncio.run(scenario(Path(folder) / "work"))


async def test_a_mode_that_the_user_set_since_stays_through_undo_and_redo(
    bench: Bench, root: Path
) -> None:
    (root / "a.sh").write_bytes(b"one\n")
    (root / "a.sh").chmod(0o644)
    await bench.call(EDIT, path="a.sh", edits=[{"old": "one", "new": "two"}])
    (root / "a.sh").chmod(0o755)
    await bench.router.undoing.undo_last()
    assert tree(root) == {"a.sh": (b"one\n", 0o755)}
    await bench.router.undoing.redo_last()
    assert tree(root) == {"a.sh": (b"two\n", 0o755)}
    await bench.call(WRITE, path="new.sh", content="new\n")
    (root / "new.sh").chmod(0o700)
    await bench.router.undoing.undo_last()
    await bench.router.undoing.redo_last()
    assert tree(root)["new.sh"] == (b"new\n", 0o700)


async def test_what_the_user_wrote_since_goes_only_by_a_second_word_and_comes_back(
    bench: Bench, root: Path
) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    (root / "a.txt").write_bytes(b"two\nmine\nmine\n")
    report = await bench.router.undoing.undo_last()
    said = Catalogue("en")(report.key, **report.params)
    assert "/undo anyway" in said
    assert "(+1 −3 lines)" in said  # what it would do
    assert (root / "a.txt").read_bytes() == b"two\nmine\nmine\n"
    assert (await bench.router.undoing.undo_last(anyway=True)).key == "operations.undo.done"
    assert (root / "a.txt").read_bytes() == b"one\n"
    (root / "a.txt").write_bytes(b"other\n")
    report = await bench.router.undoing.redo_last()
    assert report.key == "operations.redo.changed"
    assert report.params == {"path": "a.txt", "added": "3", "removed": "1"}
    assert (await bench.router.undoing.redo_last(anyway=True)).key == "operations.redo.done"
    assert (root / "a.txt").read_bytes() == b"two\nmine\nmine\n"
    (root / "a.txt").unlink()
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.changed"
    assert (await bench.router.undoing.undo_last(anyway=True)).key == "operations.undo.done"
    assert (root / "a.txt").read_bytes() == b"one\n"


@pytest.mark.parametrize("anyway", [False, True])
@pytest.mark.parametrize(
    ("operation", "args", "there"),
    [
        (WRITE, {"path": "d/new/x", "content": "made"}, {"new/x": ("made", None)}),
        (WRITE, {"path": "d/new/x", "content": "made"}, {}),  # and the folder is empty
        (EDIT, {"path": "d/b", "edits": [{"old": "1", "new": "2"}]}, {"b": ("2", "1")}),
        ("file_ops.move_file", {"source": "n", "target": "d/n"}, {"n": ("n", None)}),
        ("file_ops.move_file", {"source": "d/m", "target": "m"}, {"m": (None, "m")}),
    ],
)
async def test_a_link_that_was_put_in_the_place_of_a_folder_is_not_followed(
    root: Path,
    tmp_path: Path,
    bench: Bench,
    operation: str,
    args: dict[str, Any],
    there: dict[str, tuple[str | None, str | None]],
    anyway: bool,
) -> None:
    """R01, S4-88: undo and redo change nothing behind it, though all looks as it was left."""
    outside, folder, old = tmp_path / "outside", root / "d", root / "old"
    (outside / "new").mkdir(parents=True)
    folder.mkdir()
    for name, text in (("d/b", "1"), ("n", "n"), ("d/m", "m")):
        (root / name).write_text(text)

    async def behind_a_link(turn: int) -> str:
        for name, texts in there.items():
            (outside / name).unlink(missing_ok=True)
            if (text := texts[turn]) is not None:
                (outside / name).write_text(text)
        before = whole(outside)
        folder.rename(old)
        folder.symlink_to(outside)
        undoing = bench.router.undoing
        assert turn or await undoing.in_the_way(results(bench))
        again = undoing.redo_last if turn else undoing.undo_last
        report = await again(anyway=anyway)
        assert whole(outside) == before
        folder.unlink()
        old.rename(folder)
        return report.key

    assert (await bench.call(operation, **args)).result.outcome is Outcome.OK
    assert await behind_a_link(0) == "operations.undo.taken"
    assert (await bench.router.undoing.undo_last()).complete
    assert await behind_a_link(1) == "operations.redo.taken"
    assert (await bench.router.undoing.redo_last()).complete


async def test_a_folder_that_is_named_like_the_home_folder_is_not_taken_for_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "x").write_text("mine\n")
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED)
    assert await made(bench, "shell.run", command="mkdir ./~; echo mine > ./~/x")
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"
    assert (tmp_path / "home" / "x").read_text() == "mine\n"
    assert not (root / "~").exists()


async def test_a_link_that_was_put_in_the_place_of_a_file_is_not_followed(
    bench: Bench, root: Path, tmp_path: Path
) -> None:
    other, inside = tmp_path / "other", root / "b.txt"
    await bench.call(WRITE, path="a.txt", content="two\n")
    for target in (other, inside):
        target.write_bytes(b"mine\n")
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to(target)
        for anyway in (False, True):
            report = await bench.router.undoing.undo_last(anyway=anyway)
            assert report.undone == ()
            assert report.key == "operations.undo.taken"
            assert target.read_bytes() == b"mine\n"
            assert (root / "a.txt").is_symlink()
    assert await bench.router.undoing.in_the_way(tuple(results(bench))) == ("a.txt",)


async def test_a_link_to_the_same_bytes_is_not_written_through(bench: Bench, root: Path) -> None:
    await bench.call(WRITE, path="a.txt", content="two\n")
    (root / "b.txt").write_bytes(b"two\n")
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to("b.txt")
    for anyway in (False, True):
        report = await bench.router.undoing.undo_last(anyway=anyway)
        assert (report.key, report.undone) == ("operations.undo.taken", ())
    assert (root / "b.txt").read_bytes() == b"two\n"


async def test_an_edit_through_a_link_is_a_change_of_the_file_behind_it(
    bench: Bench, root: Path
) -> None:
    (root / "deep").mkdir()
    (root / "deep" / "b.txt").write_bytes(b"one\n")
    (root / "a.txt").symlink_to("deep/b.txt")
    await bench.call("file_ops.read_file", path="a.txt")
    assert await made(bench, WRITE, path="a.txt", content="two\n")
    known = {bench.store.state.files_read[path] for path in ("a.txt", "deep/b.txt")}
    assert known == {hash_data(b"two\n")}
    report = await bench.router.undoing.undo_last()
    assert [change.path for change in report.undone] == ["deep/b.txt"]
    assert (root / "deep" / "b.txt").read_bytes() == b"one\n"
    assert (root / "a.txt").is_symlink()


async def test_a_change_outside_of_the_folder_is_not_taken_back_and_the_gate_says_so(
    bench: Bench, root: Path, tmp_path: Path
) -> None:
    await bench.call(WRITE, path="a.txt", content="inside\n")
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"one\n")
    task = bench.begin(WRITE, path=str(outside), content="two\n")
    gate = await bench.gate()
    assert not gate.impact.reversible
    await bench.answer(gate, GateChoice.ONCE)
    message = await task
    assert message.result.changes[0].path == str(outside)
    report = await bench.router.undoing.turn_back(message)
    assert (report.key, report.undone) == ("operations.undo.outside", ())
    assert (await bench.router.undoing.undo_last()).undone[0].path == "a.txt"
    assert outside.read_bytes() == b"two\n"
    assert not (root / "a.txt").exists()


@pytest.mark.parametrize("path", ["{outside}", "../outside.txt", "down/../../outside.txt"])
async def test_a_record_that_leads_out_of_the_folder_acts_on_nothing(
    bench: Bench, tmp_path: Path, path: str
) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"mine\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    message = results(bench)[0]
    change = message.result.changes[0].replace(
        path=path.format(outside=outside), after=hash_data(b"mine\n")
    )
    forged = message.replace(result=message.result.replace(changes=(change,)))
    for anyway in (False, True):
        bench.store.state.messages[-1] = forged
        assert (await bench.router.undoing.undo_last(anyway=anyway)).undone == ()
    assert (await bench.router.undoing.turn_back(forged)).undone == ()
    assert outside.read_bytes() == b"mine\n"


async def test_what_was_done_in_another_folder_is_not_taken_back_in_this_one(
    bench: Bench, root: Path
) -> None:
    await bench.call(WRITE, path="a.txt", content="two\n")
    message, state = results(bench)[0], bench.store.state
    resumed = SessionResumed(
        session=state.session,
        mode=state.mode,
        another_folder=True,
        interrupted_at=bench.store.clock.now(),
        at=bench.store.clock.now() + 1,
    )
    await bench.store.commit(resumed)
    for anyway in (False, True):
        report = await bench.router.undoing.undo_last(anyway=anyway)
        assert report.key == "operations.undo.nothing"
    assert (await bench.router.undoing.turn_back(message)).key == "operations.undo.outside"
    assert (root / "a.txt").read_bytes() == b"two\n"


async def test_what_is_made_again_is_told_to_the_model_and_has_to_be_read(
    bench: Bench, root: Path
) -> None:
    assert (await bench.router.undoing.redo_last()).key == "operations.redo.nothing"
    await bench.call(WRITE, path="a.txt", content="two\n")
    await bench.router.undoing.undo_last()
    report = await bench.router.undoing.redo_last()
    assert Catalogue("en")(report.key, **report.params) == "Redone: a.txt"
    assert report.for_model[0][1]["paths"] == "a.txt"
    assert bench.kinds[-1] == "changes_redone"
    assert "a.txt" not in bench.store.state.files_read
    assert bench.store.state.undone_calls == ()
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"


async def test_a_later_change_of_the_same_file_is_in_the_way_of_making_one_again(
    bench: Bench, root: Path
) -> None:
    await bench.call(WRITE, path="a.txt", content="one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    await bench.router.undoing.undo_last()
    await bench.call(WRITE, path="a.txt", content="three\n")
    assert (await bench.router.undoing.redo_last()).key == "operations.redo.changed"
    assert (root / "a.txt").read_bytes() == b"three\n"


async def test_the_user_sees_the_path_and_the_model_is_told(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\nmore\n")
    report = await bench.router.undoing.undo_last()
    assert Catalogue("en")(report.key, **report.params) == (
        "Undone: a.txt (+2 −1). /redo redoes it."
    )
    assert report.for_model[0][1]["paths"] == "a.txt"
    assert bench.kinds[-1] == "changes_undone"
    assert "a.txt" not in bench.store.state.files_read


async def test_a_file_that_changed_since_is_left_alone(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    (root / "a.txt").write_bytes(b"two and mine\n")
    report = await bench.router.undoing.undo_last()
    assert report.key == "operations.undo.changed"
    assert report.params["path"] == "a.txt"
    assert report.undone == ()
    assert report.for_model == ()
    assert (root / "a.txt").read_bytes() == b"two and mine\n"
    (root / "a.txt").write_bytes(b"two\n")
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"


async def test_a_name_that_was_taken_since_is_left_alone(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call("file_ops.move_file", source="a.txt", target="b.txt")
    (root / "a.txt").write_bytes(b"another\n")
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.taken"
    assert (root / "a.txt").read_bytes() == b"another\n"
    assert (root / "b.txt").read_bytes() == b"one\n"


async def test_a_deleted_file_that_is_there_again_is_left_alone(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.approved("file_ops.delete_file", path="a.txt")
    (root / "a.txt").write_bytes(b"another\n")
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.changed"
    assert (root / "a.txt").read_bytes() == b"another\n"


async def test_lost_bytes_are_said(root: Path, tmp_path: Path) -> None:
    bench = Bench(root, mode=ApprovalMode.TRUSTED, blobs=FileBlobs(tmp_path / "blobs"))
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    sha = hash_data(b"one\n")
    (tmp_path / "blobs" / sha[:2] / sha).unlink()
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.lost"
    assert (root / "a.txt").read_bytes() == b"two\n"


async def test_what_an_undo_overwrites_is_kept_too(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    await bench.router.undoing.undo_last()
    assert await bench.blobs.get(hash_data(b"two\n")) == b"two\n"


async def test_an_undo_that_was_done_but_not_recorded_is_recorded_the_second_time(
    bench: Bench, root: Path
) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    await bench.call(WRITE, path="a.txt", content="two\n")
    (root / "a.txt").write_bytes(b"one\n")  # as after a crash between the write and its record
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"
    assert (root / "a.txt").read_bytes() == b"one\n"


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_outcome_has_words(language: str) -> None:
    words = ("nothing", "done", "partly", "changed", "changed_now", "taken", "lost", "failed")
    assert Catalogue(language)("operations.undo.outside", path="a.txt")
    for key in (f"operations.{way}.{word}" for way in ("undo", "redo") for word in words):
        assert Catalogue(language)(key, path="a.txt", why="x", added="1", removed="2") != key
