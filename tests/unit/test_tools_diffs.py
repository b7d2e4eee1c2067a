"""Diffs as hunks: exact to the byte, whatever is taken, and quick whatever the lines are."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.state.lines import split_bare_lines
from duckflow_tui.tools.diffs import CONTEXT, compare_files, join_hunks
from duckflow_tui.words.catalogue import Catalogue

LINES = st.lists(st.sampled_from(["a", "b", "", "c\r", "あ", "  x"]), max_size=40)
ENDS = st.sampled_from(["", "\n"])


def text(lines: list[str], end: str) -> bytes:
    return ("\n".join(lines) + end).encode()


FILES = st.builds(text, LINES, ENDS)


@given(FILES, FILES)
def test_all_hunks_give_the_new_file_and_none_the_old_one(before: bytes, after: bytes) -> None:
    diff = compare_files(before, after)
    everything = range(len(diff.hunks))
    assert diff.apply_hunks(everything) == after
    if diff.hunks:
        assert diff.apply_hunks([]) == before
    else:
        assert before == after


@given(FILES, FILES, st.data())
def test_hunks_left_out_can_still_be_taken_later(
    before: bytes, after: bytes, data: st.DataObject
) -> None:
    diff = compare_files(before, after)
    taken = data.draw(st.sets(st.sampled_from(range(len(diff.hunks) or 1))))
    some = diff.apply_hunks(taken)
    assert some is not None
    rest = compare_files(some, after)
    assert rest.apply_hunks(range(len(rest.hunks))) == after


@given(FILES, FILES)
def test_hunks_number_the_lines_of_both_files(before: bytes, after: bytes) -> None:
    old = split_bare_lines(before.decode())
    new = split_bare_lines(after.decode())
    hunks = compare_files(before, after).hunks
    for hunk in (*hunks, *join_hunks(hunks)):
        minus = [line for line in hunk.lines if line.mark != "+"]
        plus = [line for line in hunk.lines if line.mark != "-"]
        assert len(minus) == hunk.old_count
        assert len(plus) == hunk.new_count
        assert all(old[(line.old or 0) - 1] == line.text for line in minus)
        assert all(new[(line.new or 0) - 1] == line.text for line in plus)
        if minus:
            assert minus[0].old == hunk.old_start
        if plus:
            assert plus[0].new == hunk.new_start


@pytest.mark.parametrize(
    ("between", "first", "second"), [(1, 5, 4), (2, 5, 5), (3, 6, 5), (6, 7, 7), (7, 7, 7)]
)
def test_changes_with_a_line_between_can_each_be_left_out(
    between: int, first: int, second: int
) -> None:
    lines = [f"line {n}" for n in range(40)]
    changed = list(lines)
    at = 10 + between + 1
    changed[10], changed[at] = "ten", "other"
    diff = compare_files("\n".join(lines).encode(), "\n".join(changed).encode())
    begin = at + 5 - second  # three lines of context stand around the two, fewer between them
    assert [(h.old_start, h.old_count) for h in diff.hunks] == [(8, first), (begin, second)]
    only = list(lines)
    only[at] = "other"
    assert diff.apply_hunks([1]) == "\n".join(only).encode()
    assert len(list(join_hunks(diff.hunks))) == (1 if between <= 2 * CONTEXT else 2)


def test_one_hunk_of_a_crlf_file_keeps_every_other_byte() -> None:
    before = b"\xef\xbb\xbf" + b"".join(b"line %d\r\n" % n for n in range(30)) + b"end"
    after = before.replace(b"line 3\r\n", b"three\r\n").replace(b"line 25\r\n", b"")
    diff = compare_files(before, after)
    assert len(diff.hunks) == 2
    assert diff.apply_hunks([0]) == before.replace(b"line 3\r\n", b"three\r\n")
    assert diff.apply_hunks([1]) == before.replace(b"line 25\r\n", b"")


def test_utf_16_is_taken_apart_as_text() -> None:
    def encode(lines: list[str]) -> bytes:
        return b"\xff\xfe" + "".join(f"{line}\n" for line in lines).encode("utf-16-le")

    lines = [f"行 {n}" for n in range(30)]
    changed = [*lines[:2], "二", *lines[3:25], "追加", *lines[25:]]
    diff = compare_files(encode(lines), encode(changed))
    assert len(diff.hunks) == 2
    assert diff.apply_hunks([0]) == encode([*lines[:2], "二", *lines[3:]])


def test_what_lines_cannot_show_is_said() -> None:
    for before, after, language, said in (
        (b"a\r\nb\r\n", b"a\nb\n", "en", ["no longer: CRLF"]),
        (b"a\r\nb", b"a\nb", "en", ["no final newline", "no longer: CRLF"]),
        (b"a\n", b"a", "en", ["now: no final newline"]),
        (b"a\n", b"a", "ja", ["変更後: 末尾に改行なし"]),
        (None, b"a\0b", "en", ["binary"]),
    ):
        words = Catalogue(language)
        assert [words.localize(fact) for fact in compare_files(before, after).facts] == said
    assert compare_files(None, b"a\0b").hunks == ()


def test_a_change_of_encoding_cannot_be_taken_in_part() -> None:
    before = "\n".join(["é", *"abcdefghij", "è"]).encode("cp1252")
    after = "\n".join(["e", *"abcdefghij", "ë"]).encode()
    assert len(compare_files(before, after).hunks) == 1


def test_creation_and_deletion_are_one_hunk() -> None:
    made = compare_files(None, b"a\nb\n")
    assert (made.added, made.removed, len(made.hunks)) == (2, 0, 1)
    assert made.hunks[0].old_start == 0
    gone = compare_files(b"a\nb\n", None)
    assert (gone.added, gone.removed, len(gone.hunks)) == (0, 2, 1)


def _cases() -> dict[str, tuple[list[str], list[str]]]:
    size = 10_000
    chance = random.Random(7)
    unique = [f"line {n}" for n in range(size)]
    shuffled = chance.sample(unique, size)
    return {
        "every second line": (unique, [x if i % 2 else f"{x}!" for i, x in enumerate(unique)]),
        "all the same": (["x"] * size, ["y", *["x"] * size, "z"]),
        "two symbols": (chance.choices("ab", k=size), chance.choices("ab", k=size)),
        "reversed": (unique, unique[::-1]),
        "shuffled": (unique, shuffled),
        "many alike": (
            [str(n % 7) for n in range(size)],
            [str(n % 7) for n in range(3, size + 3)],
        ),
    }


@pytest.mark.parametrize("name", list(_cases()))
def test_ten_thousand_lines_are_compared_quickly_whatever_they_are(name: str) -> None:
    before, after = (("\n".join(lines)).encode() for lines in _cases()[name])
    times: list[float] = []
    for _ in range(3):
        start = time.process_time()
        diff = compare_files(before, after)
        times.append(time.process_time() - start)
        assert diff.apply_hunks(range(len(diff.hunks))) == after
    # difflib alone takes 20 seconds for the first of them; the budget is 0.15 s without load.
    assert min(times) < 0.6
