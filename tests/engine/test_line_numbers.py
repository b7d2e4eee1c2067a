"""Everything that names a line of a file names the same one, whatever characters stand above it."""

from __future__ import annotations

import ast
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.bench import Bench
from support.whole import WHOLE
from textual.widgets.text_area import Document

import duckflow_tui
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.lines import line_at, split_bare_lines, split_lines
from duckflow_tui.tools.diffs import compare_files
from duckflow_tui.tools.edits import Edit, apply_edits
from duckflow_tui.ui.screens.edit_proposal import can_edit

PACKAGE = Path(duckflow_tui.__file__).parent

#: All that Python, Unicode or an old editor takes for the end of a line, and what git does.
SEPARATORS = ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
NEEDLE = "needle"

#: Calls of ``splitlines`` on bytes that are no file of the user's: output of a program or of the
#: kernel, a stream of events, an export of this program.
BYTES = {"llm/wire.py", "tools/sandbox_worker.py"}


def _text(seed: int) -> str:
    """Words between separators, LF often enough that there are lines; one of them is the needle."""
    chance = random.Random(seed)
    words = [chance.choice(["a", "", "b c", "語"]) for _ in range(40)]
    words[chance.randrange(40)] = NEEDLE
    between = chance.sample(SEPARATORS, 3)
    parts: list[str] = []
    for word in words:
        parts += [word, chance.choice(between) if chance.random() < 0.7 else "\n"]
    return "".join(parts[: chance.choice([-1, len(parts)])])


TEXTS = [_text(seed) for seed in range(400 if WHOLE else 40)]
FEW = TEXTS[: 40 if WHOLE else 6]


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    ends = separator in ("\n", "\r\n")
    assert split_bare_lines(f"a{separator}b") == (["a", "b"] if ends else [f"a{separator}b"])
    assert line_at(f"a{separator}{NEEDLE}", 1 + len(separator))[0] == 1 + ends


def test_lines_joined_give_the_text_and_are_as_many_as_git_counts() -> None:
    for text in TEXTS:
        lines = split_lines(text)
        assert "".join(lines) == text
        assert len(lines) == text.count("\n") + (not text.endswith("\n"))


def test_hunks_applied_give_the_new_text_and_name_the_lines_that_git_names(tmp_path: Path) -> None:
    before = tmp_path / "before"
    after = tmp_path / "after"
    for number, text in enumerate(TEXTS):
        changed = text.replace(NEEDLE, "found")
        diff = compare_files(text.encode(), changed.encode())
        assert diff.apply_hunks(range(len(diff.hunks))) == changed.encode()
        (hunk,) = diff.hunks
        at = line_at(text, text.index(NEEDLE))
        assert [(x.old, x.text) for x in hunk.lines if x.mark == "-"] == [at]
        if number < len(FEW) and shutil.which("git"):
            before.write_bytes(text.encode())
            after.write_bytes(changed.encode())
            command = ["git", "diff", "--no-index", "--text", str(before), str(after)]
            shown = subprocess.run(command, capture_output=True, check=False).stdout.decode()
            assert re.search(rf"^@@ -{hunk.old_start}\b", shown, re.M)


def test_a_range_of_lines_replaces_the_line_of_that_number() -> None:
    for text in TEXTS:
        number, line = line_at(text, text.index(NEEDLE))
        edit = Edit(new=line.replace(NEEDLE, "found"), lines=f"{number}-{number}@{'0' * 8}")
        edited = apply_edits(text, [edit], crlf=False, sha="0" * 64)
        assert edited.text == text.replace(NEEDLE, "found")


def test_a_text_that_the_editor_would_change_by_itself_is_not_opened_in_it() -> None:
    assert can_edit("a\tb\n")
    assert can_edit("a\r\nb\r\n")
    assert not can_edit("a\r\nb\n")
    for text in TEXTS:
        assert not can_edit(text) or Document(text).text == text


async def test_reading_searching_and_editing_name_the_same_line(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "f.txt"
    bench = Bench(tmp_path / "work")
    for text in FEW:
        file.write_bytes(text.encode())
        number, line = line_at(text, text.index(NEEDLE))
        found = await bench.call("file_ops.search_text", pattern=NEEDLE)
        assert f"\n  {number}: " in found.result.text
        args = {"path": "f.txt", "start_line": number, "end_line": number}
        read = await bench.call("file_ops.read_file", **args)
        assert read.result.text.partition("\n")[2].removesuffix("\n") == line
        offered = f"{number}-{number}@{hash_data(text.encode())[:8]}"
        edits = [{"new": line.replace(NEEDLE, "found"), "lines": offered}]
        await bench.answered(
            GateChoice.ONCE, "file_ops.edit_file", {"path": "f.txt", "edits": edits}
        )
        assert file.read_bytes() == text.replace(NEEDLE, "found").encode()


def test_no_text_is_divided_where_only_python_sees_a_line() -> None:
    calls = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "scripted/" not in str(path)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "splitlines"
    }
    assert calls == BYTES
