"""Exact replacements, and what a model is told when they do not fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.model_words import WORDS

import duckflow_tui
from duckflow_tui.tools.edits import Edit, EditRefused, apply_edits

CODE = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


def replacing(old: str, new: str, *, all: bool = False) -> Edit:
    return Edit(old=old, new=new, all=all)


def edit(text: str, *edits: Edit, crlf: bool = False) -> str:
    return apply_edits(text, edits, crlf=crlf).text


def refusal(text: str, *edits: Edit) -> EditRefused:
    with pytest.raises(EditRefused) as caught:
        apply_edits(text, edits, crlf=False)
    return caught.value


def shown_lines(error: EditRefused) -> str:
    return WORDS(error.nearest) if error.nearest is not None else ""


def test_edits_apply_one_after_the_other() -> None:
    first = replacing("def a():\n    return 1", "def a():\n    return 2")
    second = replacing("return 2", "return 3")
    assert edit(CODE, first, second) == CODE.replace("return 1", "return 3", 1)


def test_text_that_occurs_twice_is_refused_with_its_lines() -> None:
    assert "occurs 2 times, at lines 2, 6" in WORDS(refusal(CODE, replacing("return 1", "x")).told)


def test_overlapping_places_are_ambiguous_too() -> None:
    assert "occurs 2 times" in WORDS(refusal("aaa", replacing("aa", "b")).told)


def test_all_replaces_every_place() -> None:
    edited = edit(CODE, replacing("return 1", "return 2", all=True))
    assert edited == CODE.replace("return 1", "return 2")
    assert edit("aaa", replacing("aa", "b", all=True)) == "ba"


def test_text_that_is_not_there_shows_the_nearest_lines_with_their_numbers() -> None:
    error = refusal(CODE, replacing("def b():\n  return 1", "x"))
    assert "not found" in WORDS(error.told)
    assert "     5  def b():\n     6      return 1" in shown_lines(error)


def test_a_difference_in_indentation_only_is_named() -> None:
    error = refusal("if x:\n\tgo()\n", replacing("if x:\n    go()", "x"))
    assert "only in spaces or tabs" in shown_lines(error)


def test_a_misspelt_line_finds_its_like() -> None:
    error = refusal(CODE + "total = compute(items)\n", replacing("total = computee(item)", "x"))
    assert "     7  total = compute(items)" in shown_lines(error)


def test_nothing_alike_shows_nothing() -> None:
    assert refusal(CODE, replacing("zzzzqqqq", "x")).nearest is None


def test_which_of_several_edits_failed_is_said() -> None:
    error = refusal(CODE, replacing("def a", "def c"), replacing("nowhere", "x"))
    assert WORDS(error.told).startswith("edit 2:")


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("return 1", "return 1")])
def test_edits_that_mean_nothing_are_refused(old: str, new: str) -> None:
    refusal(CODE, replacing(old, new))


def test_a_crlf_file_is_matched_by_plain_line_breaks_and_keeps_its_own() -> None:
    text = "a = 1\r\nb = 2\r\nc = 3\r\n"
    edited = edit(text, replacing("b = 2\nc = 3", "b = 4\nx = 0\nc = 5"), crlf=True)
    assert edited == "a = 1\r\nb = 4\r\nx = 0\r\nc = 5\r\n"


def test_new_lines_in_a_crlf_file_are_crlf_where_none_was_replaced() -> None:
    assert edit("a\r\nb\r\n", replacing("b", "b\nc"), crlf=True) == "a\r\nb\r\nc\r\n"


def test_mixed_endings_stay_as_they_are_around_the_edit() -> None:
    text = "a\nb\nc\r\nd\r\n"
    assert edit(text, replacing("a\nb", "a\nB\nB")) == ("a\nB\nB\nc\r\nd\r\n")
    assert edit(text, replacing("c\nd", "c\nD")) == "a\nb\nc\r\nD\r\n"


def test_crlf_from_the_model_matches_a_plain_file() -> None:
    assert edit("a\nb\n", replacing("a\r\nb", "c\r\nd")) == "c\nd\n"


def test_the_nearest_match_is_looked_for_in_bounded_time() -> None:
    text = "".join(f"    value_{n} = compute_{n % 97}(value_{n - 1})\n" for n in range(20_000))
    start = time.process_time()
    refusal(text, replacing("    walue_77 = komputed_3(valeu)\n    other = 1", "x"))
    assert time.process_time() - start < 3.0


SHOP = Path(duckflow_tui.__file__).parent / "scripted/workspace/little-shop/src/shop"
AMOUNT = """        lines.append(f"{item.name:<{width - 10}}{amount:>10}")
    lines.append("-" * width)
    lines.append(f"{'Total':<{width - 10}}{whole:>10}")"""

# Texts as they stand in files: what to change, and how it should read afterwards.
PLACES: dict[str, tuple[str, str, str]] = {
    "a method in a class": (
        "class Cart:\n    def add(self, item):\n        self.items.append(item)\n\n"
        "    def total(self):\n        # sum of all\n        value = 0\n"
        "        for item in self.items:\n            value += item.price\n        return value\n",
        "        value = 0\n        for item in self.items:\n            value += item.price\n",
        "        value = 0\n        for item in self.items:\n            if item.taxed:\n"
        "                value += item.tax\n            value += item.price\n",
    ),
    "a function with tabs": (
        'func main() {\n\tif err != nil {\n\t\tlog.Fatal("can\'t open it")\n\t}\n\trun()\n}\n',
        '\tif err != nil {\n\t\tlog.Fatal("can\'t open it")\n\t}',
        '\tif err != nil {\n\t\tlog.Print("can\'t open it - going on")\n\t\treturn\n\t}',
    ),
    "a list in Markdown with trailing blanks": (
        "# Notes\n\n- first  \n  more of it\n- second - the 'last' one\n\nEnd.\n",
        "- first  \n  more of it\n- second - the 'last' one",
        "- first  \n  more of it\n- second - the 'last' one\n- third",
    ),
    "a mapping in YAML": (
        "jobs:\n  test:\n    steps:\n      - run: \"pip install -e '.[dev]'\"\n"
        '      - run: "pytest -q"\n  lint:\n    steps:\n      - run: "ruff check ."\n',
        '      - run: "pip install -e \'.[dev]\'"\n      - run: "pytest -q"',
        '      - run: "pip install -e \'.[dev]\'"\n      - run: "pytest -q -x"',
    ),
    "a receipt": (
        (SHOP / "receipt.py").read_text("utf-8"),
        AMOUNT,
        AMOUNT.replace(
            "    lines.append(f\"{'Total", "    paid = whole\n    lines.append(f\"{'Total"
        ),
    ),
    "a price": (
        (SHOP / "pricing.py").read_text("utf-8"),
        "    return price * (1 - rate)",
        "    if rate > 1:\n        rate = rate / 100\n    return price * (1 - rate)",
    ),
    "Japanese prose": (
        "設定を読む。\n    「値」が無ければ - 既定の 'auto' を使う。\n    終わり。\n",
        "    「値」が無ければ - 既定の 'auto' を使う。\n    終わり。",
        "    「値」が無ければ - 既定の 'auto' を使う。\n    警告を出す。\n    終わり。",
    ),
}


def _per_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(row) if row.strip() else row for row in text.split("\n"))


def _dedented(text: str) -> str:
    rows = [row for row in text.split("\n") if row.strip()]
    common = min(len(row) - len(row.lstrip()) for row in rows)
    return _per_line(lambda row: row[common:])(text)


#: What models make of a text that they copy, told as what they do to it.
MISSES: dict[str, Callable[[str], str]] = {
    "blanks at line ends are lost": _per_line(str.rstrip),
    "blanks at line ends are added": _per_line(lambda row: row + "  "),
    "quotes are made round": lambda text: text.replace("'", "\u2019").replace('"', "\u201d"),
    "a hyphen is made a dash": lambda text: text.replace(" - ", " \u2013 "),
    "spaces are made hard": lambda text: text.replace(" ", "\u00a0"),
    "the indentation is taken off": _dedented,
    "four spaces are put in front": _per_line(lambda row: "    " + row),
    "a tab is put in front": _per_line(lambda row: "\t" + row),
    "quotes and line ends at once": _per_line(lambda row: row.replace("'", "\u2018") + " "),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("miss", MISSES)
def test_an_edit_that_misses_by_little_is_what_a_person_would_have_meant(
    place: str, miss: str
) -> None:
    """Old and new carry the same slip; what the file has stays, but for what is really new."""
    text, old, new = PLACES[place]
    slip = MISSES[miss]
    meant = text.replace(old, new)
    assert text.count(old) == 1
    edited = apply_edits(text, [Edit(old=slip(old), new=slip(new))], crlf=False)
    for row, right in zip(edited.text.split("\n"), meant.split("\n"), strict=True):
        assert row == right if right in text.split("\n") else _plain(row) == _plain(right)
    in_windows = apply_edits(
        text.replace("\n", "\r\n"), [Edit(old=slip(old), new=slip(new))], crlf=True
    )
    assert in_windows.text == edited.text.replace("\n", "\r\n")


def _plain(text: str) -> str:
    """A text without what the slips of a new line are: its quotes, dashes, blanks at the end."""
    for strange, common in (
        ("\u2018", "'"), ("\u2019", "'"), ("\u201d", '"'), ("\u2013", "-"), ("\u00a0", " ")
    ):  # fmt: skip
        text = text.replace(strange, common)
    return "\n".join(row.rstrip() for row in text.split("\n"))


@pytest.mark.parametrize("miss", MISSES)
def test_a_near_miss_that_fits_twice_is_refused_with_both_lines(miss: str) -> None:
    text = "    a = 'x' - 1  \n    b = \"y\"\n\nif c:\n    a = 'x' - 1  \n    b = \"y\"\n"
    old = "    a = 'x' - 1  \n    b = \"y\""
    error = refusal(text, replacing(MISSES[miss](old), "z"))
    assert "at lines 1, 5" in WORDS(error.told)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("if a:\n    b()\n", "if a:\nb()\n"),  # the structure is another one
        ("if a:\n        b()\n    c()\n", "if a:\n    b()\n    c()\n"),
        ("total = 1\n", "totals = 1"),
        ("value = 'a b'\n", "value = 'a  b'"),  # blanks inside a line
        ("foobar()\n", "foo  "),
        ("a\n\n\nb\n", "a\n\nb"),
        ("    x = 1\n", "      x = 1\n  y = 2\n"),
    ],
)
def test_what_differs_in_more_than_its_shape_is_not_taken(text: str, old: str) -> None:
    assert "not found" in WORDS(refusal(text, replacing(old, "new")).told)


def test_a_new_line_that_cannot_be_moved_with_the_others_is_refused() -> None:
    text = "    a()\n    b()\n"
    error = refusal(text, replacing("        a()\n        b()", "        a()\n  c()"))
    assert "not found" in WORDS(error.told)


def test_a_line_whose_indentation_was_cut_off_stands_below_what_comes_before_it() -> None:
    """It is told by the line itself, which comes again; what is written in full stays as it is."""
    text = "def a():\n    return 1\n"
    above = apply_edits(text, [replacing("return 1", "b()\nreturn 1")], crlf=False)
    assert above == ("def a():\n    b()\n    return 1\n", ("other_indentation",))
    in_full = replacing("return 1", "b()\n    return 1")
    assert apply_edits(text, [in_full], crlf=False) == (above.text, ())
    below = replacing("return 1", "return 1\n\n\ndef b():\n    return 2")
    assert edit(text, below) == "def a():\n    return 1\n\n\ndef b():\n    return 2\n"


def test_how_a_near_miss_was_found_is_told() -> None:
    text = "def f():\n    return 'a'  \n"
    found = apply_edits(text, [Edit(old="return ‘a’", new="return 2")], crlf=False)
    assert found.near == ("other_characters",)
    found = apply_edits(text, [Edit(old="  def f():\n      return 'a'", new="  x")], crlf=False)
    assert found == ("x\n", ("other_indentation",))
    assert apply_edits(text, [Edit(old="def f", new="def g")], crlf=False).near == ()


SHA = "0123456789abcdef" * 4


def test_a_refusal_offers_whole_lines_of_the_very_file() -> None:
    text = "one = 1\ntwo = compute(items)\nthree = 3\n"
    with pytest.raises(EditRefused) as caught:
        apply_edits(text, [replacing("two = computee(item)", "x")], crlf=False, sha=SHA)
    assert '"2-2@01234567"' in shown_lines(caught.value)
    offered = Edit(new="two = 2\nhalf = 0.5", lines="2-2@01234567")
    edited = apply_edits(text, [offered], crlf=False, sha=SHA)
    assert edited.text == "one = 1\ntwo = 2\nhalf = 0.5\nthree = 3\n"
    gone = apply_edits(text, [Edit(new="", lines="1-2@01234567")], crlf=False, sha=SHA)
    assert gone.text == "three = 3\n"


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ([Edit(new="x", lines="2-2@01234568")], "not the one whose lines were shown"),
        ([Edit(new="x", lines="3-4@01234567")], "has lines 1 to 2"),
        ([Edit(new="x", lines="2-1@01234567")], "has lines 1 to 2"),
        ([Edit(new="x", lines="0-1@01234567")], "has lines 1 to 2"),
        ([Edit(new="x", lines="1-2")], "is a range such as"),
        ([Edit(old="a", new="x", lines="1-2@01234567")], "is a range such as"),
        ([Edit(old="a", new="x"), Edit(new="x", lines="1-2@01234567")], "only edit"),
    ],
)
def test_lines_of_another_file_or_none_are_refused(edits: list[Edit], why: str) -> None:
    with pytest.raises(EditRefused) as caught:
        apply_edits("a\nb\n", edits, crlf=False, sha=SHA)
    assert why in WORDS(caught.value.told)
