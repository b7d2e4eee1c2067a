"""Text to rows: every character is kept, no row is too wide, offsets are those of the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Offset
from textual.selection import Selection

from duckflow_tui.ui.panes.strips import (
    PLAIN,
    Piece,
    Row,
    fit,
    fold,
    ink,
    mark_row,
    prefix_rows,
    row_text,
    rows_of,
    strip_of,
    text_of,
    wrap,
)

LINES = st.text(alphabet="ab, .(日本、。「」ー한👍é %1", max_size=60)


@given(text=LINES, width=st.integers(2, 30))
def test_wrapping_loses_only_the_spaces_at_its_breaks(text: str, width: int) -> None:
    parts = [text[start:stop] for start, stop in wrap(text, width)]
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(part) <= width for part in parts)


def test_a_character_wider_than_its_row_stands_alone() -> None:
    assert wrap("日本", 1) == [(0, 1), (1, 2)]


@given(text=LINES, width=st.integers(2, 30))
def test_folding_loses_nothing(text: str, width: int) -> None:
    parts = [text[start:stop] for start, stop in fold(text, width)]
    assert "".join(parts) == text
    assert all(cell_len(part) <= width for part in parts)


@given(text=LINES, width=st.integers(0, 30), end=st.booleans())
def test_a_cut_text_fits_and_is_marked(text: str, width: int, end: bool) -> None:
    short = fit(text, width, "end" if end else "start")
    assert cell_len(short) <= width
    assert short == text or width == 0 or "…" in short


WORDS = (
    *(
        "日",
        "本語",
        "カード",
        "キャッシュ",
        "ちょっと",
        "人々",
        "ﾃｽﾄｶｰﾄﾞ",
        "ｷｬｯｼｭ",
        "ABC",
        "x",
        "`code`",
    ),
    *("9 %", "10 個", "it’s", "git commit", "src/shop/pricing.py"),
)
ENDS = ("", "", "、", "。", "！", "？！", "…", "：", "・", "｡", " ", "!? ", ", ")
PAIRS = ("", "「」", "（）", "『』", "()", "“”", "｢｣", "【】")


@st.composite
def prose(draw: st.DrawFn) -> str:
    """Japanese with quotes, names and half-width forms, as people and models write it."""
    text = ""
    for _ in range(draw(st.integers(1, 7))):
        pair = draw(st.sampled_from(PAIRS))
        said = "".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2)))
        text += f"{pair[:1]}{said}{pair[1:]}{draw(st.sampled_from(ENDS))}"
    return text.strip()


@given(text=prose(), width=st.integers(24, 40))
def test_no_row_begins_with_what_closes_or_ends_with_what_opens(text: str, width: int) -> None:
    """Kinsoku: punctuation, brackets, small kana and the long mark; of half width too."""
    rows = [text[start:stop] for start, stop in wrap(text, width)]
    closes = "、。！？」）』”｣】…：・ーゃっュッ々｡ﾞｰｬｯｭ’"
    assert [row for row in rows[1:] if row[0] in closes] == []
    assert [row for row in rows[:-1] if row[-1] in "「（『“｢【"] == []


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("設定は（ABC）です", 8, ["設定は", "（ABC）", "です"]),
        ("うち 12 件は", 8, ["うち", "12 件は"]),
        ("残り 3 ファイル", 12, ["残り", "3 ファイル"]),
        ("合計 1,024 文字。", 12, ["合計", "1,024 文字。"]),
        ("それは何ですか！？", 16, ["それは何です", "か！？"]),
        ("新しいｷｬｯｼｭを", 9, ["新しいｷｬｯ", "ｼｭを"]),
        ("https://a.example。", 17, ["https://a.exampl", "e。"]),
        ("say “it’s here” now", 10, ["say “it’s", "here” now"]),
        ("one two three", 8, ["one two", "three"]),
        ("  indented words", 10, ["  indented", "words"]),
        ("averyveryverylong word", 10, ["averyveryv", "erylong", "word"]),
        ("これはペンです。「引用」です", 10, ["これはペン", "です。「引", "用」です"]),
        ("see 日本語 now", 8, ["see 日本", "語 now"]),
        ("rate of 20 % now", 11, ["rate of", "20 % now"]),
        ("👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧", 4, ["👨‍👩‍👧👨‍👩‍👧", "👨‍👩‍👧"]),
    ],
)
def test_lines_break_where_a_reader_expects(text: str, width: int, lines: list[str]) -> None:
    assert [text[start:stop] for start, stop in wrap(text, width)] == lines


def test_pieces_keep_their_styles_over_a_break() -> None:
    bold = ink("#ffffff", bold=True)
    pieces: list[Piece] = [("one ", PLAIN), ("two three", bold), (" four", PLAIN)]
    rows = rows_of(pieces, 8)
    assert [row_text(row) for row in rows] == ["one two", "three", "four"]
    assert [(s.text, s.style) for s in rows[0]] == [("one ", PLAIN), ("two", bold)]
    assert rows[1] == [Segment("three", bold)]


def test_marking_changes_only_the_marked_characters() -> None:
    row: Row = [Segment("abc", PLAIN), Segment("日本語", PLAIN)]
    over = ink("#ff0000")
    done = mark_row(row, 2, 5, over)
    assert row_text(done) == "abc日本語"
    assert "".join(s.text for s in done if s.style and s.style.color) == "c日本"
    assert (
        "".join(s.text for s in mark_row(row, 4, -1, over) if s.style and s.style.color) == "本語"
    )


def test_a_strip_is_padded_without_offsets_and_knows_its_line() -> None:
    strip = strip_of([Segment("日本", PLAIN), Segment("ab", PLAIN)], 7, 10)
    assert strip.cell_length == 10
    offsets = [s.style.meta.get("offset") if s.style else None for s in strip]
    assert offsets == [(0, 7), (2, 7), None]


def test_copied_rows_have_neither_margin_nor_padding() -> None:
    rows = prefix_rows([[Segment("one  ")], [Segment("two")], [Segment("three")]], ("› ", PLAIN))
    selection = Selection(Offset(0, 10), Offset(4, 12))
    assert text_of(rows, 10, selection, indent=2) == "one\ntwo\nth"
