"""Rows that are cut to the lines there are: each stays, and all of each can be read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from duckflow_tui.ui.panes.request import LEAST_ROOM, Foldable, folded
from duckflow_tui.ui.panes.rows import Seen

TEXTS = st.lists(st.text("ab c 割引、é👍", max_size=90), min_size=1, max_size=6)


@given(TEXTS, st.integers(LEAST_ROOM, 40), st.integers(0, 8))
def test_pages_lead_through_all_of_every_row(texts: list[str], room: int, spare: int) -> None:
    """Every page shows each row in its room, and something that was not shown before (R14)."""
    rows = [Foldable(text, room) for text in texts]
    height = len(rows) + spare
    seen = Seen([len(text) for text in texts], [1] * len(texts))
    page: dict[int, int] = {}
    for _ in range(sum(map(len, texts)) + 2):
        lines = folded(rows, height, page)
        assert len(lines) <= height
        assert [line.row for line in lines if line.first] == list(range(len(rows)))
        for line in lines:
            assert cell_len(texts[line.row][line.start : line.stop].rstrip() + line.marker) <= room
            seen.mark(line.row, line.start, line.stop)
        last = {line.row: line for line in lines}
        for row, line in last.items():
            assert bool(line.more) == (line.stop < len(texts[row]))
        if not seen.unseen:
            return
        page = {n: seen.upto(n) for n in range(len(rows)) if not seen.whole(n)}
    raise AssertionError("the pages come to no end")


def test_alternatives_share_their_line() -> None:
    text = "1 keep the sum, cap it   2 no   3 change the test instead"
    keys = tuple((text.index(digit), text.index(digit) + 1) for digit in "123")
    [line] = folded([Foldable(text, 40, keys)], 1, {})
    assert [text[a:b] for a, b in line.pieces] == ["1 keep the sum", "2 no", "3 change the t"]
    assert (line.stop, line.more) == (len("1 keep the sum"), 1)


def test_lines_to_spare_go_first_to_the_row_that_needs_the_fewest() -> None:
    rows = [Foldable("one two " * 10, 16), Foldable("three four five six seven", 16)]
    lines = folded(rows, 3, {})
    assert [(line.row, line.more > 0) for line in lines] == [(0, True), (1, False), (1, False)]
