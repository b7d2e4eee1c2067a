"""Markdown that streams gives the rows of markdown that came at once, and nothing acts in it."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.conversations import LONG_REPLY
from support.markdown_texts import replies
from support.whole import rounds

from duckflow_tui.safety.safe_text import is_safe
from duckflow_tui.ui.palette import DUCK_DARK
from duckflow_tui.ui.panes.blocks import Look
from duckflow_tui.ui.panes.markdown import MarkdownDocument
from duckflow_tui.ui.panes.strips import Row, row_cells, row_text
from duckflow_tui.words.catalogue import Catalogue

WORDS = Catalogue("en")

PIECES = (
    "# Head\n", "text **bold**", " and `code`", "\n", "\n\n", "- item\n", "  - nested\n",
    "1. one\n", "7) seven\n", "```python\n", "x = '''\n", "```\n", "~~~\n", "> quote\n",
    "| a | b |\n", "|---|--:|\n", "| 1 | 2 |\n", "---\n", "===\n", "    code\n",
    "[a](http://x)", "[a]: http://x\n", "![i](p.png)", "<b>", "&#8238;", "日本語の文章、です。",
    "\r\n", "\t", "\x1b[31m", "👨‍👩‍👧", "*", "def f():\n    return 1\n\n" * 9, "\\", "#", "-", "+",
    "|",
)  # fmt: skip

texts = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


def look(width: int) -> Look:
    """One that leaves so many cells for what a row says."""
    return Look(DUCK_DARK, width + (2 if width < 22 else 4), WORDS)


def rows_of(text: str, width: int, cuts: list[int] | None = None) -> list[Row]:
    """The rows of the text, fed at once or in the pieces that ``cuts`` make of it."""
    document = MarkdownDocument(look(width))
    last = 0
    for cut in sorted(cuts or []):
        document.feed_text(text[last:cut])
        document.draw_fed()
        last = cut
    document.feed_text(text[last:])
    document.draw_rest()
    return document.rows


def shown(text: str, width: int = 60) -> list[str]:
    """What the rows say."""
    return [row_text(row)[look(width).indent :].rstrip() for row in rows_of(text, width)]


@settings(max_examples=rounds(1_000, 200), deadline=None)
@given(
    text=texts | replies,
    share=st.lists(st.floats(0, 1), max_size=12),
    width=st.sampled_from([9, 40]),
)
@example(text="- ---\n\n- | a |\n  |---|--|\n", share=[1.0], width=40)  # a table where no list is
@example(text=f"- a\n- b\n- {'> ' * 30}deep\n- c\n- d\n", share=[0.2, 0.95], width=40)
def test_a_reply_in_pieces_gives_the_rows_of_the_whole(
    text: str, share: list[float], width: int
) -> None:
    cuts = [int(len(text) * part) for part in share]
    assert rows_of(text, width, cuts) == rows_of(text, width)


@settings(max_examples=100, deadline=None)
@given(text=texts, width=st.integers(1, 50))
def test_no_row_acts_hides_or_is_too_wide(text: str, width: int) -> None:
    for row in rows_of(text, width):
        assert row_cells(row) <= max(width, 8) + look(width).indent
        for segment in row:
            assert is_safe(segment.text)
            assert "\n" not in segment.text
            assert segment.style is None or (not segment.style.link and not segment.style.meta)


def test_rows_that_stay_as_they_were_are_the_same_objects() -> None:
    """So that what was made of them for the screen is not made again."""
    document = MarkdownDocument(look(60))
    document.feed_text(LONG_REPLY)
    document.draw_fed()
    before = document.rows[:]
    document.feed_text("\n\nmore\n\nand more\n")
    document.draw_fed()
    assert len(document.rows) > len(before) > 12
    assert all(a is b for a, b in zip(before, document.rows, strict=False))


def test_a_block_that_does_not_end_is_not_drawn_for_every_piece() -> None:
    """Else what a model says that repeats itself for ever stops the screen."""
    text = "word and more text\n" * 3_000
    document = MarkdownDocument(look(60))
    drawn = 0
    for at in range(0, len(text), 300):
        document.feed_text(text[at : at + 300])
        drawn += document.draw_fed()
    assert 10 < drawn < len(text) / 300 / 2
    document.draw_rest()
    assert document.rows == rows_of(text, 60)


def test_links_show_their_target_and_images_and_html_are_text() -> None:
    assert shown("see [the page](https://example.com/a) ok") == [
        "see the page (https://example.com/a) ok"
    ]
    assert shown("<https://example.com>") == ["https://example.com"]
    assert shown("![plan](a.png)") == ["![plan](a.png)"]
    assert shown("a <script>x</script> b") == ["a <script>x</script> b"]
    assert shown("[a]: https://example.com") == ["[a]: https://example.com"]


def test_characters_made_by_entities_are_shown() -> None:
    assert shown("a &#8238; b &#8203; c") == ["a ⟨U+202E⟩ b ⟨U+200B⟩ c"]


def test_what_is_nested_deeper_than_the_parser_reads_is_still_there() -> None:
    assert "hidden" in "".join(shown(">" * 60 + " hidden", 200))


def test_a_table_shrinks_and_then_stacks() -> None:
    table = "| name | what it does |\n|---|---|\n| total | adds up all the prices |\n"
    assert shown(table, 60)[1] == "─────  ──────────────────────"
    narrow = shown(table, 20)
    assert all(len(line) <= 20 for line in narrow)
    assert narrow[0].split() == ["name", "what", "it", "does"]
    assert shown(table, 9)[0] == "name:"


def test_numbers_of_a_list_go_on_when_its_items_arrive_one_by_one() -> None:
    text = "1. a\n1. b\n1. c\n1. d\n"
    cuts = list(range(len(text)))
    assert [row_text(row)[3:] for row in rows_of(text, 40, cuts)] == [
        " 1. a",
        " 2. b",
        " 3. c",
        " 4. d",
    ]


def test_japanese_breaks_between_characters_and_never_before_a_full_stop() -> None:
    lines = shown("日本語の文章、です。" * 6, 21)
    assert all(line[0] not in "、。" for line in lines)
    assert "".join(lines) == "日本語の文章、です。" * 6
