"""The output of commands: what is shown of it does not depend on the pieces it comes in."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.whole import rounds

from duckflow_tui.tools.command_output import Capture

_PARTS = (
    "text\n",
    "日本",
    "\r",
    "\x1b[1;31mred\x1b[0m",
    "\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x07",
    "\x1b[24;1H~",
    "\x1b[?1049h",
    "\x1bPq#0\x1b\\",
    "\x1b(B",
)


@settings(max_examples=rounds(1_000, 150), deadline=None)
@given(
    st.lists(st.sampled_from(_PARTS), max_size=8).map("".join),
    st.sets(st.integers(1, 120), max_size=8),
)
def test_no_piece_of_an_escape_is_shown(text: str, cuts: set[int]) -> None:
    data, at, shown = text.encode(), 0, ""
    capture = Capture(Path("/nonexistent"), 1_000_000)
    for cut in sorted(cuts):
        shown += capture.take_piece(data[at:cut])
        at = max(at, min(cut, len(data)))
    shown += capture.take_piece(data[at:]) + capture.end_input()
    plain = Capture(Path("/nonexistent"), 1_000_000)
    assert shown == plain.take_piece(data) + plain.end_input()
    assert "\x1b" not in shown
    assert capture.read_output() == plain.read_output()
    assert capture.draws == ("\x1b[24;1H" in text or "\x1b[?1049h" in text)


def test_an_escape_that_never_ends_hides_nothing_else() -> None:
    capture = Capture(Path("/nonexistent"), 1_000_000)
    assert capture.take_piece(b"a\x1b") + capture.take_piece(b"]0;title") == "a"
    assert "end" in capture.take_piece(b"x" * 10_000 + b"\nend")
