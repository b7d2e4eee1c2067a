"""Searching text: nothing secret, never for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.bench import Bench

from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools import search

SEARCH = "file_ops.search_text"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "src").mkdir(parents=True)
    (path / "a.py").write_text("x = 1\nneedle = 2\n")
    (path / "src" / "b.txt").write_text("no\nneedle (here)\nneedle\r\n")
    (path / ".env").write_text("needle=secret\n")
    (path / "node_modules").mkdir()
    (path / "node_modules" / "m.js").write_text("needle")
    (path / ".gitignore").write_text("*.log\n")
    (path / "x.log").write_text("needle")
    (path / "bin").write_bytes(b"needle\0")
    return path


async def test_matches_come_by_file_with_line_numbers(bench: Bench) -> None:
    message = await bench.call(SEARCH, pattern="needle")
    assert message.result.text == (
        '[3 matches in 2 files for "needle"]\n'
        "a.py\n  2: needle = 2\n"
        "src/b.txt\n  2: needle (here)\n  3: needle"
    )
    assert message.result.summary == "3 · 2"


async def test_lines_around_a_match_come_where_they_are_asked_for(bench: Bench, root: Path) -> None:
    """Each line comes once; only matches are counted."""
    lines = [f"{n}-{n}" for n in range(1, 13)]
    lines[3] = lines[5] = lines[10] = "needle"
    (root / "c.txt").write_text("\n".join(lines) + "\n")
    message = await bench.call(SEARCH, pattern="needle", path="c.txt", context=2)
    near = "2- 2-2, 3- 3-3, 4: needle, 5- 5-5, 6: needle, 7- 7-7, 8- 8-8"
    far = "9- 9-9, 10- 10-10, 11: needle, 12- 12-12"
    rows = f"{near}, {far}".split(", ")
    assert message.result.text == '[3 matches in 1 file for "needle"]\nc.txt\n' + "\n".join(
        f"  {row}" for row in rows
    )
    message = await bench.call(SEARCH, pattern="needle", path="c.txt", context=1)
    assert "  7- 7-7\n  10- 10-10" in message.result.text


async def test_a_pattern_is_text_unless_it_is_said_to_be_more(bench: Bench) -> None:
    text = await bench.call(SEARCH, pattern="needle (")
    assert "  2: needle (here)" in text.result.text
    regex = await bench.call(SEARCH, pattern=r"^needle\s\(", regex=True)
    assert "[1 match in 1 file" in regex.result.text


async def test_a_wrong_expression_is_told(bench: Bench) -> None:
    message = await bench.call(SEARCH, pattern="(", regex=True)
    assert message.result.outcome is Outcome.INVALID
    assert "regex parse error" in message.result.text


async def test_path_and_glob_narrow(bench: Bench) -> None:
    inside = await bench.call(SEARCH, pattern="needle", path="src")
    assert "a.py" not in inside.result.text
    only = await bench.call(SEARCH, pattern="needle", glob="*.py")
    assert "src/b.txt" not in only.result.text
    file = await bench.call(SEARCH, pattern="needle", path="src/b.txt")
    assert "[2 matches in 1 file" in file.result.text


async def test_nothing_found_is_an_answer(bench: Bench) -> None:
    message = await bench.call(SEARCH, pattern="haystack")
    assert message.result.outcome is Outcome.OK
    assert message.result.text.startswith('[0 matches for "haystack" in 4 files of .;')


@pytest.mark.parametrize("glob", [None, "*", ".env", "**/.env", "!nothing"])
async def test_a_secret_is_not_searched_without_a_gate(bench: Bench, glob: str | None) -> None:
    message = await bench.call(SEARCH, pattern="needle", glob=glob)
    assert "needle=secret" not in message.result.text
    assert "\n.env" not in message.result.text


async def test_a_secret_that_was_allowed_is_searched(bench: Bench) -> None:
    args = {"pattern": "needle", "path": ".env"}
    message = await bench.answered(GateChoice.ONCE, SEARCH, args)
    assert "1: needle=secret" in message.result.text


async def test_a_link_to_the_outside_is_not_followed(bench: Bench, root: Path) -> None:
    (root.parent / "out").mkdir()
    (root.parent / "out" / "f").write_text("needle outside")
    (root / "link").symlink_to(root.parent / "out")
    (root / "file").symlink_to(root.parent / "out" / "f")
    message = await bench.call(SEARCH, pattern="outside")
    assert "[0 matches" in message.result.text


async def test_a_place_outside_is_searched_after_its_gate(bench: Bench, root: Path) -> None:
    out = root.parent / "out"
    out.mkdir()
    (out / "f").write_text("needle outside")
    (out / "id_rsa").write_text("needle key")
    args = {"pattern": "needle", "path": str(out)}
    message = await bench.answered(GateChoice.ONCE, SEARCH, args)
    assert f"{out}/f\n  1: needle outside" in message.result.text
    assert "key" not in message.result.text


async def test_long_lines_and_many_matches_are_cut(bench: Bench, root: Path) -> None:
    (root / "many").write_text("".join(f"hit {n} {'x' * 5_000}\n" for n in range(400)))
    message = await bench.call(SEARCH, pattern="hit")
    assert f"only the first {search.MAX_MATCHES} matches" in message.result.text
    assert max(len(line) for line in message.result.text.split("\n")) < 400


async def test_a_nul_is_refused(bench: Bench) -> None:
    message = await bench.call(SEARCH, pattern="a\0b")
    assert message.result.outcome is Outcome.INVALID


async def test_a_name_with_a_line_break_stays_one_name(bench: Bench, root: Path) -> None:
    (root / "odd\nname").write_text("needle odd\n")
    message = await bench.call(SEARCH, pattern="odd")
    assert '"odd\\nname"\n  1: needle odd' in message.result.text


async def test_a_file_that_turns_out_binary_takes_no_match_of_another_with_it(
    bench: Bench, root: Path
) -> None:
    late = b"needle\n" + b"x\n" * 50_000 + b"\0needle\n"
    (root / "a-late").write_bytes(late)
    (root / "c-late\nname").write_bytes(late)
    (root / "d\nlast").write_text("needle\n")
    found = (await bench.call(SEARCH, pattern="needle")).result.text
    for path in ("a-late", "a.py", '"c-late\\nname"', '"d\\nlast"', "src/b.txt"):
        assert f"\n{path}\n" in found


async def test_of_a_binary_file_no_match_means_little(bench: Bench) -> None:
    found = (await bench.call(SEARCH, pattern="needle", path="bin")).result.text
    assert "0 matches" in found
    assert "binary" in found


async def test_a_class_of_characters_is_understood_or_refused(bench: Bench) -> None:
    message = await bench.call(SEARCH, pattern="^[[:alpha:]]+ =", regex=True)
    assert message.result.outcome is Outcome.INVALID or "2: needle = 2" in message.result.text


async def test_a_match_far_in_a_long_line_is_told_with_its_place(bench: Bench, root: Path) -> None:
    (root / "min.js").write_text(f"{'a' * 200_000}farther{'b' * 200_000}\n")
    message = await bench.call(SEARCH, pattern="farther")
    (row,) = message.result.text.split("\n")[2:]
    cut = " [… the line goes on; the match begins at byte 200,001; read_file has columns]"
    assert row == f"  1: {'a' * search.LINE_WIDTH}{cut}"
    args = {"path": "min.js", "columns": "200001-200007"}
    assert "\nfarther\n" in (await bench.call("file_ops.read_file", **args)).result.text


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("needle", True), (r"^a+b", True), (r"^b", False), (r"a{3}$", False), (r"z$", True)],
)
async def test_a_long_line_is_searched_as_one(
    bench: Bench, root: Path, pattern: str, found: bool
) -> None:
    """A match across any place is found, and no match only because the search paused there."""
    (root / "long").mkdir()
    for before in (32_765, 40_957, 65_533):
        text = "a" * 3_000 + "b" + "a" * (before - 3_001) + "needle" + "a" * 100_000 + "z"
        (root / "long" / f"{before}.txt").write_text(text)
    message = await bench.call(SEARCH, path="long", pattern=pattern, regex=True)
    assert message.result.summary == ("3 · 3" if found else "0 · 0")
