"""What is secret or outside is neither read, compared nor told before the user agrees."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.bench import Bench, done

from duckflow_tui.session.records import body_of
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.gates import Gate, GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools.results import load_originals, net_change

READ = "file_ops.read_file"
WRITE = "file_ops.write_file"
EDIT = "file_ops.edit_file"
MOVE = "file_ops.move_file"
DELETE = "file_ops.delete_file"

OLD = "PASSPHRASE=hunter-of-old-lines\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    (path / ".env").write_text(OLD)
    (path / "a.py").write_text("a = 1\n")
    (tmp_path / "there.txt").write_text(OLD)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    return path


def recorded(bench: Bench) -> str:
    """Everything that the journal, ``--json``, snapshots and exports are made of."""
    return "\n".join(body_of(record, None).decode() for record in bench.recorder.records)


def told(gate: Gate, path: str) -> str:
    """What a gate says, without what names it and the path."""
    said = gate.model_dump_json(exclude={"gate_id", "call_id", "opened_at", "args_hash"})
    return said.replace(str(path), "PATH")


CHANGES: list[tuple[str, dict[str, Any]]] = [
    (WRITE, {"path": ".env", "content": "A=1\n"}),
    (WRITE, {"path": "../there.txt", "content": "A=1\n"}),
    (DELETE, {"path": ".env"}),
    (DELETE, {"path": "../there.txt"}),
    (MOVE, {"source": ".env", "target": "env.txt"}),
    (MOVE, {"source": "../there.txt", "target": "env.txt"}),
    (MOVE, {"source": "a.py", "target": "../there.txt"}),
]


@pytest.mark.parametrize(("operation", "args"), CHANGES)
async def test_a_refused_change_leaves_nothing_of_the_file(
    bench: Bench, root: Path, operation: str, args: dict[str, Any]
) -> None:
    """Neither its lines nor a hash against which they could be guessed."""
    message = await bench.answered(GateChoice.REJECT, operation, args)
    assert message.result.outcome is Outcome.REJECTED
    assert message.gate is not None
    assert "not_shown_before" in message.gate.impact.reasons
    left = recorded(bench)
    assert "hunter" not in left
    assert hash_data(OLD.encode()) not in left
    assert (root / ".env").read_text() == (root.parent / "there.txt").read_text() == OLD


async def test_what_is_there_already_answers_no_guess(bench: Bench, root: Path) -> None:
    """The same content and another one are told alike, to the user and to the model."""
    said: list[str] = []
    for number, content in enumerate((OLD, OLD.replace("old", "new"))):
        for path in (".env", "../there.txt"):
            args = {"path": path, "content": content}
            message = await bench.answered(GateChoice.REJECT, WRITE, args)
            said.append(message.result.text)
            assert message.gate is not None
            assert message.gate.impact.removed == 0, number
    assert len(set(said)) == 1


@pytest.mark.parametrize(
    ("operation", "name", "more"),
    [
        (WRITE, "path", {"content": "x\n"}),
        (DELETE, "path", {}),
        (MOVE, "source", {"target": "new.py"}),
        (MOVE, "target", {"source": "a.py"}),
        (READ, "path", {}),
        ("file_ops.list_dir", "path", {}),
        ("file_ops.find_files", "path", {"glob": "*"}),
        ("file_ops.search_text", "path", {"pattern": "hunter"}),
    ],
)
async def test_a_gate_says_the_same_whatever_is_there(
    bench: Bench, root: Path, operation: str, name: str, more: dict[str, Any]
) -> None:
    """A file, nothing, a folder, a pipe: outside, none of it is told before consent."""
    gates: set[str] = set()
    results: set[str] = set()
    for there in ("there.txt", "nothing.txt", "folder", "pipe"):
        path = str(root.parent / there)
        message = await bench.answered(GateChoice.REJECT, operation, {name: path, **more})
        assert message.gate is not None
        gates.add(told(message.gate, path))
        results.add(message.result.text)
    assert len(gates) == 1
    assert len(results) == 1


async def test_an_edit_outside_says_the_same_whatever_is_there(bench: Bench, root: Path) -> None:
    said: set[str] = set()
    for there in ("there.txt", "nothing.txt", "folder", "pipe"):
        path = str(root.parent / there)
        message = await bench.call(EDIT, path=path, edits=[{"old": "hunter", "new": "x"}])
        assert message.result.outcome is Outcome.ERROR
        said.add(message.result.text.replace(path, "PATH"))
    assert len(said) == 1


@pytest.mark.parametrize("path", [".env", "../there.txt"])
async def test_an_agreed_write_replaces_what_is_there_and_can_be_undone(
    bench: Bench, root: Path, path: str
) -> None:
    """Nothing of the old lines reaches a model or the journal; undo has them all the same."""
    message = await bench.approved(WRITE, path=path, content="A=1\n")
    assert (root / path).read_text() == "A=1\n"
    assert "hunter" not in recorded(bench)
    assert "hunter" not in await net_change(
        await load_originals(bench.store.state, bench.blobs), bench.workspace
    )
    assert message.result.changes[0].before == hash_data(OLD.encode())
    if path == ".env":
        await bench.router.undoing.undo_last()
        assert (root / path).read_text() == OLD


async def test_an_agreed_deletion_and_an_agreed_move_are_made(bench: Bench, root: Path) -> None:
    await bench.approved(MOVE, source=".env", target="../kept.txt")
    assert (root.parent / "kept.txt").read_text() == OLD
    await bench.approved(DELETE, path="../kept.txt")
    assert not (root.parent / "kept.txt").exists()
    assert "hunter" not in recorded(bench)


@pytest.mark.parametrize(
    ("operation", "args", "words"),
    [
        (DELETE, {"path": "../nothing.txt"}, "does not exist"),
        (DELETE, {"path": "../folder"}, "is a directory"),
        (WRITE, {"path": "../folder", "content": "x"}, "is a directory"),
        (WRITE, {"path": "../new/", "content": "x"}, "ends like the path of a directory"),
        (WRITE, {"path": "../pipe", "content": "x"}, "is not a regular file"),
        (MOVE, {"source": "a.py", "target": "../there.txt"}, "exists already"),
        (MOVE, {"source": "../nothing.txt", "target": "b.py"}, "does not exist"),
        (READ, {"path": "../pipe"}, "is not a regular file"),
        ("file_ops.search_text", {"path": "../pipe", "pattern": "x"}, "is not a regular file"),
    ],
)
async def test_after_consent_it_is_said_why_not(
    bench: Bench, root: Path, operation: str, args: dict[str, Any], words: str
) -> None:
    message = await bench.approved(operation, **args)
    assert message.result.outcome is Outcome.ERROR
    assert words in message.result.text
    assert (root.parent / "there.txt").read_text() == OLD


async def test_another_file_at_the_place_asks_again(bench: Bench, root: Path) -> None:
    """R15: what the user agreed to was about the place as it was."""
    task = bench.begin(WRITE, path="../there.txt", content="A=1\n")
    first = await bench.gate()
    (root.parent / "there.txt").unlink()
    await bench.answer(first, GateChoice.ONCE)
    second = await bench.gate(after=first)
    assert second.renewed
    assert not (root.parent / "there.txt").exists()
    await bench.answer(second, GateChoice.REJECT)
    assert (await done(task)).result.outcome is Outcome.REJECTED


async def test_what_the_user_writes_into_a_secret_file_stays_theirs(
    bench: Bench, root: Path
) -> None:
    task = bench.begin(WRITE, path=".env", content="A=1\n")
    first = await bench.gate()
    await bench.answer(first, GateChoice.EDIT, edited="A=the-users-own\n")
    second = await bench.gate(after=first)
    assert second.previews[0].unseen
    await bench.answer(second, GateChoice.ONCE)
    message = await done(task)
    assert (root / ".env").read_text() == "A=the-users-own\n"
    assert "edited your proposal" in message.result.text
    assert "users-own" not in message.result.text
    again = await bench.call(EDIT, path=".env", edits=[{"old": "A=1", "new": "A=2"}])
    assert "read it first" in again.result.text


async def test_a_part_that_was_read_opens_no_other_part(bench: Bench, root: Path) -> None:
    """Consent to two lines of a secret file lets nothing guess at the rest of it."""
    (root / ".env").write_text(f"FIRST=1\n{OLD}")
    read = {"path": ".env", "start_line": 1, "end_line": 1}
    await bench.answered(GateChoice.ONCE, READ, read)
    for old in ("PASSPHRASE", "nobody"):
        message = await bench.call(EDIT, path=".env", edits=[{"old": old, "new": "x"}])
        assert "read it first" in message.result.text
    await bench.answered(GateChoice.REJECT, WRITE, {"path": ".env", "content": "FIRST=2\n"})
    assert "hunter" not in recorded(bench)


async def test_a_left_out_part_of_a_secret_file_is_not_sent(bench: Bench, root: Path) -> None:
    (root / ".env").write_text("".join(f"LINE_{n}={n}\n" for n in range(30)))
    await bench.approved(READ, path=".env")
    args = {
        "path": ".env",
        "edits": [{"old": "LINE_2=2\n", "new": "TWO\n"}, {"old": "LINE_25=25\n", "new": "LAST\n"}],
    }
    message = await bench.answered(GateChoice.ONCE, EDIT, args, left_out=((0, 1),))
    assert (root / ".env").read_text().count("TWO\n") == 1
    assert "left out 1 of 2 parts" in message.result.text
    assert "LINE_25" not in message.result.text


async def test_a_secret_that_was_moved_is_told_to_no_judge(bench: Bench, root: Path) -> None:
    await bench.approved(MOVE, source=".env", target="env.txt")
    await bench.approved(WRITE, path="env.txt", content="A=1\n")
    before = await load_originals(bench.store.state, bench.blobs)
    assert "hunter" not in await net_change(before, bench.workspace)
