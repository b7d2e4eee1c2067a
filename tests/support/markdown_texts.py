"""Markdown as models write it, and as they do not: for properties of what is drawn of it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

WORDS = (
    "text", "**bold**", "a `code` b", "*half", "[a page](http://x.y/z)", "[later]", "<b>html</b>",
    "日本語の文章、です。", "한국어", "👨‍👩‍👧 family", "&#8238;entity", "a | b", "\x1b[31mred",
    "tab\there", "x" * 70, "~~gone~~", "http://plain.example", "![i](p.png)", "\\*", "1.", "-",
    "#", "",
)  # fmt: skip
MARKS = (
    ("- ", "  "), ("* ", "  "), ("1. ", "   "), ("7) ", "   "), ("> ", "> "), ("> ", ""),
    ("- ", " "),
)  # fmt: skip
CODE = ("x = '''", "def f():", "    return 1", "", "# comment", '"""', "}", "`" * 3 + " no", "日本")

Texts = st.SearchStrategy[str]


def _lines(parts: Sequence[str]) -> str:
    return "\n".join(parts)


def _headed(level: int, said: str) -> str:
    return f"{'#' * level} {said}"


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _fenced(mark: str, info: str, lines: Sequence[str], closed: bool) -> str:
    return _lines((f"{mark}{info}", *lines, *([mark] if closed else [])))


def _behind(marks: tuple[str, str], text: str) -> str:
    """A block in a list or a quote: what stands before its first line, and before the others."""
    return marks[0] + text.replace("\n", f"\n{marks[1]}")


def _nested(blocks: Texts) -> Texts:
    """Lists and quotes of blocks, and some that lost their indentation."""
    items = st.lists(st.builds(_behind, st.sampled_from(MARKS), blocks), min_size=1, max_size=3)
    return st.builds(str.join, st.sampled_from(("\n", "\n\n")), items)


word = st.sampled_from(WORDS)
line = st.lists(word, min_size=1, max_size=4).map(" ".join)
paragraph = st.lists(line, min_size=1, max_size=4).map(_lines)
heading = st.builds(_headed, st.integers(1, 7), line)
setext = st.tuples(paragraph, st.sampled_from(("===", "---", "-", "="))).map(_lines)
rule = st.sampled_from(("---", "***", "- - -", "___"))
definition = st.just("[later]: http://defined.example 'title'")
html = st.sampled_from(("<div>\n<p>in", "</div>", "<!-- a comment\n\nover lines -->", "<script>x"))
row = st.lists(word, min_size=1, max_size=4).map(_cells)
under = st.sampled_from(("|---|--:|", "|---|", "--|--", "|:-:|---|---|"))
table = st.tuples(row, under, st.lists(row, max_size=4).map(_lines)).map(_lines)
code = st.lists(st.sampled_from(CODE), max_size=6)
fence = st.builds(
    _fenced,
    st.sampled_from(("```", "~~~", "````")),
    st.sampled_from(("", "python", "js extra", "{.x}")),
    code | st.lists(st.sampled_from(CODE), min_size=40, max_size=80),
    st.booleans(),
)
indented = code.map(_lines).map(lambda text: _behind(("    ", "    "), text))
flat = st.one_of(paragraph, heading, setext, rule, definition, html, table, fence, indented)
block = st.recursive(flat, _nested, max_leaves=6)
joint = st.sampled_from(("\n", "\n\n", "\n \n", "\r\n", "\n\n\n", ""))
#: Whole replies, up to some thousand characters.
replies = st.lists(st.tuples(block, joint).map("".join), max_size=7).map("".join)
