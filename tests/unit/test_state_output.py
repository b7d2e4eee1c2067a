"""Output that is arriving: its newest part, as a terminal would leave it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.state.calls import TAIL, LiveOutput, apply_carriage_returns


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\nb", "a\nb"),
        ("10 %\r20 %\r30 %\nok", "30 %\nok"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("a\r\r\nb", "a\nb"),
        ("x\ra", "a"),
        ("100 %\r", "100 %\r"),
        ("a\nb\rc\rd\re\n", "a\ne\n"),
    ],
)
def test_a_carriage_return_begins_the_line_anew(text: str, left: str) -> None:
    assert apply_carriage_returns(text) == left


@given(
    st.lists(st.sampled_from(["a", "bc", "\n", "\r", "\r\n", "日", " "]), max_size=40), st.data()
)
def test_how_output_is_cut_into_pieces_makes_no_difference(
    pieces: list[str], data: st.DataObject
) -> None:
    text = "".join(pieces)
    whole, cut = LiveOutput(), LiveOutput()
    whole.add_output(text, at=0.0)
    rest = text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        cut.add_output(rest[:size], at=0.0)
        rest = rest[size:]
    assert cut.text == whole.text == apply_carriage_returns(text).rstrip("\r")
    assert [cut.newest_lines(n) for n in range(1, 7)] == [
        whole.newest_lines(n) for n in range(1, 7)
    ]
    assert cut.total == len(text)


def test_only_the_newest_part_is_kept() -> None:
    output = LiveOutput()
    for number in range(30_000):
        output.add_output(f"line {number}\n", at=0.0)
    assert len(output.text) == TAIL
    assert output.text.endswith("line 29999\n")
    output.add_output("x" * (3 * TAIL), at=0.0)
    output.add_output("y", at=0.0)
    assert output.text == "x" * (TAIL - 1) + "y"
