"""Changing files: every byte that was not asked to change stays."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

import pytest
from support.bench import Bench, done

from duckflow_tui.state.base import hash_data
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.tools.diffs import MAX_COMPARED
from duckflow_tui.words.catalogue import Catalogue

WRITE = "file_ops.write_file"
EDIT = "file_ops.edit_file"
MOVE = "file_ops.move_file"
DELETE = "file_ops.delete_file"
READ = "file_ops.read_file"


@pytest.fixture
def bench(root: Path) -> Bench:
    return Bench(root, mode=ApprovalMode.TRUSTED)


def utf16(text: str) -> bytes:
    return codecs.BOM_UTF16_LE + text.encode("utf-16-le")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nold\r\nz\r\n", b"a\r\nnew\r\nz\r\n"),
        (b"a\nold\r\nz", b"a\nnew\r\nz"),
        (codecs.BOM_UTF8 + b"old\n", codecs.BOM_UTF8 + b"new\n"),
        (utf16("old\r\n行\r\n"), utf16("new\r\n行\r\n")),
        ("old 設定を読む\n".encode("cp932"), "new 設定を読む\n".encode("cp932")),
        ("old café".encode("cp1252"), "new café".encode("cp1252")),
        (b"old\x0c\t \n\n\n", b"new\x0c\t \n\n\n"),
    ],
)
async def test_an_edit_keeps_encoding_mark_and_endings(
    bench: Bench, root: Path, before: bytes, after: bytes
) -> None:
    (root / "f.txt").write_bytes(before)
    message = await bench.call(EDIT, path="f.txt", edits=[{"old": "old", "new": "new"}])
    assert message.result.outcome is Outcome.OK
    assert (root / "f.txt").read_bytes() == after


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\nb\n", "x\r\ny\r\n", b"x\r\ny\r\n"),
        (utf16("a\n"), "x\n", utf16("x\n")),
        (codecs.BOM_UTF8 + b"a\n", "x\n", codecs.BOM_UTF8 + b"x\n"),
        (b"a\n", "x", b"x"),
        (b"\0\1\2", "x\n", b"x\n"),
    ],
)
async def test_overwriting_keeps_encoding_mark_and_endings(
    bench: Bench, root: Path, before: bytes, content: str, after: bytes
) -> None:
    (root / "f.txt").write_bytes(before)
    await bench.call(WRITE, path="f.txt", content=content)
    assert (root / "f.txt").read_bytes() == after


async def test_mode_bits_stay(bench: Bench, root: Path) -> None:
    (root / "run").write_bytes(b"old\n")
    (root / "run").chmod(0o750)
    await bench.approved(EDIT, path="run", edits=[{"old": "old", "new": "new"}])
    assert stat.S_IMODE((root / "run").stat().st_mode) == 0o750


async def test_a_character_that_the_encoding_lacks_is_refused(bench: Bench, root: Path) -> None:
    before = "café\n".encode("cp1252")
    (root / "f.txt").write_bytes(before)
    message = await bench.call(EDIT, path="f.txt", edits=[{"old": "caf", "new": "あ"}])
    assert message.result.outcome is Outcome.ERROR
    assert "U+3042" in message.result.text
    assert (root / "f.txt").read_bytes() == before


async def test_binary_files_are_not_edited_as_text(bench: Bench, root: Path) -> None:
    (root / "f.bin").write_bytes(b"old\0")
    message = await bench.call(EDIT, path="f.bin", edits=[{"old": "old", "new": "new"}])
    assert message.result.outcome is Outcome.ERROR
    assert "binary" in message.result.text


async def test_a_new_file_gets_exactly_the_content_and_its_directories(
    bench: Bench, root: Path
) -> None:
    message = await bench.call(WRITE, path="deep/er/f.txt", content="x\r\ny")
    assert (root / "deep" / "er" / "f.txt").read_bytes() == b"x\r\ny"
    change = message.result.changes[0]
    assert (change.kind, change.before, change.after) == ("create", "", hash_data(b"x\r\ny"))


async def test_an_edit_that_does_not_fit_says_why_and_shows_the_nearest_lines(
    bench: Bench, root: Path
) -> None:
    (root / "f.py").write_text("def f(x):\n    return x\n")
    message = await bench.call(EDIT, path="f.py", edits=[{"old": "def f(y):", "new": "x"}])
    assert message.result.outcome is Outcome.ERROR
    assert "have not read this file" in message.result.text
    assert "     1  def f(x):" in message.result.text


async def test_one_edit_that_does_not_fit_stops_all(bench: Bench, root: Path) -> None:
    (root / "f.py").write_text("a\nb\n")
    edits = [{"old": "a", "new": "A"}, {"old": "c", "new": "C"}]
    await bench.call(EDIT, path="f.py", edits=edits)
    assert (root / "f.py").read_text() == "a\nb\n"


async def test_bytes_before_are_kept_before_the_change_is_made(bench: Bench, root: Path) -> None:
    """Covers S4-88."""
    (root / "f.txt").write_bytes(b"before\r\n")
    message = await bench.call(WRITE, path="f.txt", content="after")
    change = message.result.changes[0]
    assert await bench.blobs.get(change.before) == b"before\r\n"


async def test_a_move_keeps_the_bytes_and_asks_for_a_free_name(bench: Bench, root: Path) -> None:
    (root / "a.txt").write_bytes(b"a\0")
    (root / "b.txt").write_bytes(b"b")
    taken = await bench.call(MOVE, source="a.txt", target="b.txt")
    assert taken.result.outcome is Outcome.ERROR
    moved = await bench.call(MOVE, source="a.txt", target="c/a.txt")
    assert moved.result.outcome is Outcome.OK
    assert (root / "c" / "a.txt").read_bytes() == b"a\0"
    assert not (root / "a.txt").exists()
    assert (root / "b.txt").read_bytes() == b"b"


async def test_a_directory_as_target_is_answered_with_the_path_to_use(
    bench: Bench, root: Path
) -> None:
    (root / "a.txt").write_bytes(b"a")
    (root / "d").mkdir()
    message = await bench.call(MOVE, source="a.txt", target="d")
    assert message.result.outcome is Outcome.ERROR
    assert "d/a.txt" in message.result.text


async def test_deleting_shows_what_goes_and_says_that_it_can_come_back(
    bench: Bench, root: Path
) -> None:
    (root / "f.txt").write_bytes(b"one\ntwo\n")
    task = bench.begin(DELETE, path="f.txt")
    gate = await bench.gate()
    assert (gate.previews[0].kind, gate.previews[0].removed) == ("delete", 2)
    assert gate.impact.reversible
    assert not gate.can_edit
    await bench.answer(gate, GateChoice.ONCE)
    assert (await done(task)).result.outcome is Outcome.OK
    assert not (root / "f.txt").exists()


async def test_a_change_that_could_not_be_shown_is_not_proposed(root: Path) -> None:
    """Covers R18: a line of a diff costs hundreds of bytes, and there may be millions."""
    bench = Bench(root)
    long = "x\n" * (MAX_COMPARED // 2 + 1)
    (root / "long.txt").write_text(long)
    (root / "short.txt").write_text("x\n")
    edit = {"old": "x\nx\nx", "new": "y"}
    for operation, args in (
        (WRITE, {"path": "long.txt", "content": "y"}),
        (EDIT, {"path": "long.txt", "edits": [edit]}),
        (WRITE, {"path": "short.txt", "content": long}),
        (WRITE, {"path": "new.txt", "content": long}),
        (EDIT, {"path": "short.txt", "edits": [{"old": "x", "new": long}]}),
    ):
        message = await bench.call(operation, **args)
        assert message.result.outcome is Outcome.ERROR
        assert "50,001 lines" in message.result.text or "50,002 lines" in message.result.text
    assert (root / "short.txt").read_text() == "x\n"
    assert not (root / "new.txt").exists()


async def test_a_file_of_more_lines_than_are_shown_is_deleted_by_its_count(root: Path) -> None:
    """Covers R18."""
    bench = Bench(root, mode=ApprovalMode.TRUSTED)
    lines = MAX_COMPARED + 1
    (root / "long.log").write_text("x\n" * lines)
    task = bench.begin(DELETE, path="long.log")
    gate = await bench.gate()
    preview = gate.previews[0]
    assert (preview.removed, preview.hunks) == (lines, ())
    said = [Catalogue("en").localize(fact) for fact in preview.facts]
    assert said == ["100,001 lines, too many to show"]
    assert gate.impact.reversible
    await bench.answer(gate, GateChoice.ONCE)
    change = (await done(task)).result.changes[0]
    assert change.removed == lines
    assert not (root / "long.log").exists()


@pytest.mark.parametrize("operation", [WRITE, EDIT, DELETE])
async def test_a_directory_is_no_file(bench: Bench, root: Path, operation: str) -> None:
    (root / "d").mkdir()
    more = {
        WRITE: {"content": "x"},
        EDIT: {"edits": [{"old": "a", "new": "b"}]},
        DELETE: {},
    }[operation]
    message = await bench.call(operation, path="d", **more)
    assert message.result.outcome is Outcome.ERROR
    assert "is a directory" in message.result.text


@pytest.mark.parametrize("operation", [READ, EDIT, MOVE, DELETE])
async def test_what_is_not_there_is_said(bench: Bench, operation: str) -> None:
    args = {
        READ: {"path": "no"},
        EDIT: {"path": "no", "edits": [{"old": "a", "new": "b"}]},
        MOVE: {"source": "no", "target": "x"},
        DELETE: {"path": "no"},
    }[operation]
    message = await bench.call(operation, **args)
    assert message.result.outcome is Outcome.ERROR
    assert "does not exist" in message.result.text


async def test_a_fifo_is_refused(bench: Bench, root: Path) -> None:
    os.mkfifo(root / "pipe")
    for operation, more in [(READ, {}), (WRITE, {"content": "x"}), (DELETE, {})]:
        message = await bench.call(operation, path="pipe", **more)
        assert message.result.outcome is Outcome.ERROR
        assert "not a regular file" in message.result.text


async def test_what_was_written_counts_as_known(bench: Bench, root: Path) -> None:
    (root / "f.txt").write_bytes(b"a\n")
    await bench.call(READ, path="f.txt")
    await bench.call(WRITE, path="f.txt", content="b\n")
    assert bench.store.state.files_read == {"f.txt": hash_data(b"b\n")}
    await bench.call(MOVE, source="f.txt", target="g.txt")
    assert bench.store.state.files_read == {"g.txt": hash_data(b"b\n")}


async def test_an_edit_with_another_indentation_says_so_at_the_gate_and_to_the_model(
    root: Path,
) -> None:
    bench = Bench(root, mode=ApprovalMode.STANDARD)
    (root / "f.py").write_text("class A:\n    def f(self):\n        return 1\n")
    edits = [{"old": "def f(self):\n    return 1\n", "new": "def f(self):\n    return 2\n"}]
    task = bench.begin(EDIT, path="f.py", edits=edits)
    gate = await bench.gate()
    assert "other_indentation" in gate.impact.reasons
    await bench.answer(gate, GateChoice.ONCE)
    told = (await done(task)).result.text
    assert (root / "f.py").read_text() == "class A:\n    def f(self):\n        return 2\n"
    assert "another indentation than you wrote" in told


async def test_after_a_miss_whole_lines_can_be_replaced_while_the_file_is_the_same(
    bench: Bench, root: Path
) -> None:
    path = root / "f.py"
    path.write_text("one = 1\ntwo = compute(items)\n")
    missed = await bench.call(EDIT, path="f.py", edits=[{"old": "two = compute(it)", "new": "x"}])
    offer = missed.result.text.split('give lines, such as "')[1].split('"')[0]
    by_lines = [{"lines": offer, "new": "two = 2"}]
    path.write_text("one = 1\n# new\ntwo = compute(items)\n")
    late = await bench.call(EDIT, path="f.py", edits=by_lines)
    assert late.result.outcome is Outcome.ERROR
    assert "read it again" in late.result.text
    path.write_text("one = 1\ntwo = compute(items)\n")
    message = await bench.call(EDIT, path="f.py", edits=by_lines)
    assert message.result.outcome is Outcome.OK
    assert path.read_text() == "one = 1\ntwo = 2\n"


LONG = "".join(f"line_{n} = {n}\n" for n in range(30))
HEAD = "line_0 = 100\nline_1 = 1\n"


@pytest.mark.parametrize(
    ("content", "mark"),
    [
        (f"{HEAD}# ... rest unchanged\n", "# ... rest unchanged"),
        (f"{HEAD}// … existing code …\n", "// … existing code …"),
        (f"{HEAD}...\n", "..."),
        ("line_0 = 0\n# the other lines stay as they are\nline_29 = 29\n", "# the other lines"),
        (f"# ... as before\n{LONG[-40:]}", "# ... as before"),
        (f"{HEAD}\n<!-- ... -->\n\nline_29 = 29\n", "<!-- ... -->"),
        (f"{HEAD}# (unchanged)\n", "# (unchanged)"),
        # Every line is there, or what is gone is not stood for.
        (f"{HEAD}# The others are computed.\nlines = make_lines(30)\n", ""),
        (f"{HEAD}# Each line has\n# its number.\nlines = make_lines(30)\n", ""),
        (LONG.replace("line_3 = 3\n", "# ... more\n"), ""),
        ("# Title\n\nShort now.\n\n## Use\n\nline_29 = 29\n", ""),  # headings of Markdown
        (f"{LONG}# ... and so on\n", ""),
        (HEAD, ""),
        ("# A new file\nx = 1\n", ""),
    ],
)
async def test_a_comment_that_stands_for_lines_of_the_file_is_no_content(
    bench: Bench, root: Path, content: str, mark: str
) -> None:
    (root / "a.py").write_text(LONG)
    result = (await bench.call(WRITE, path="a.py", content=content)).result
    assert (root / "a.py").read_text() == (LONG if mark else content)
    assert not mark or (mark in result.text and EDIT in result.text)
