"""Rows that are cut to the lines there are: each stays in sight."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from duckflow_tui.ui.panes.request import LEAST_ROOM, Foldable, fold_rows

TEXTS = st.lists(st.text("ab c 割引、é👍", max_size=90), min_size=1, max_size=6)


@given(TEXTS, st.integers(LEAST_ROOM, 40), st.integers(0, 8))
def test_each_row_keeps_to_its_room_and_says_what_is_left(
    texts: list[str], room: int, spare: int
) -> None:
    rows = [Foldable(text, room) for text in texts]
    lines = fold_rows(rows, len(rows) + spare)
    assert len(lines) <= len(rows) + spare
    assert [line.row for line in lines if line.first] == list(range(len(rows)))
    for line in lines:
        assert cell_len(texts[line.row][line.start : line.stop].rstrip() + line.cut_marker) <= room
    last = {line.row: line for line in lines}
    for row, line in last.items():
        assert bool(line.more) == (line.stop < len(texts[row]))


def test_alternatives_share_their_line() -> None:
    text = "1 keep the sum, cap it   2 no   3 change the test instead"
    keys = tuple((text.index(digit), text.index(digit) + 1) for digit in "123")
    [line] = fold_rows([Foldable(text, 40, keys)], 1)
    assert [text[a:b] for a, b in line.pieces] == ["1 keep the sum", "2 no", "3 change the t"]
    assert (line.stop, line.more) == (len("1 keep the sum"), 1)


def test_lines_to_spare_go_first_to_the_row_that_needs_the_fewest() -> None:
    rows = [Foldable("one two " * 10, 16), Foldable("three four five six seven", 16)]
    lines = fold_rows(rows, 3)
    assert [(line.row, line.more > 0) for line in lines] == [(0, True), (1, False), (1, False)]
