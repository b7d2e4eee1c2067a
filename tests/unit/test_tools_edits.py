"""Exact replacements, and what a model is told when they do not fit."""

from __future__ import annotations

import time

import pytest

from duckflow_tui.tools.files import Edit, EditRefused, apply_edits

CODE = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


def replacing(old: str, new: str, *, all: bool = False) -> Edit:
    return Edit(old=old, new=new, all=all)


def refusal(text: str, *edits: Edit) -> EditRefused:
    with pytest.raises(EditRefused) as caught:
        apply_edits(text, edits, crlf=False)
    return caught.value


def test_edits_apply_one_after_the_other() -> None:
    first = replacing("def a():\n    return 1", "def a():\n    return 2")
    second = replacing("return 2", "return 3")
    assert apply_edits(CODE, [first, second], crlf=False) == CODE.replace("return 1", "return 3", 1)


def test_text_that_occurs_twice_is_refused_with_its_lines() -> None:
    assert "occurs 2 times, at lines 2, 6" in refusal(CODE, replacing("return 1", "x")).text


def test_overlapping_places_are_ambiguous_too() -> None:
    assert "occurs 2 times" in refusal("aaa", replacing("aa", "b")).text


def test_all_replaces_every_place() -> None:
    edited = apply_edits(CODE, [replacing("return 1", "return 2", all=True)], crlf=False)
    assert edited == CODE.replace("return 1", "return 2")
    assert apply_edits("aaa", [replacing("aa", "b", all=True)], crlf=False) == "ba"


def test_text_that_is_not_there_shows_the_nearest_lines_with_their_numbers() -> None:
    error = refusal(CODE, replacing("def b():\n  return 1", "x"))
    assert "not found" in error.text
    assert "     5  def b():\n     6      return 1" in error.quote


def test_a_difference_in_indentation_only_is_named() -> None:
    error = refusal("if x:\n\tgo()\n", replacing("if x:\n    go()", "x"))
    assert "only in spaces or tabs" in error.quote


def test_a_misspelt_line_finds_its_like() -> None:
    error = refusal(CODE + "total = compute(items)\n", replacing("total = computee(item)", "x"))
    assert "     7  total = compute(items)" in error.quote


def test_nothing_alike_shows_nothing() -> None:
    assert refusal(CODE, replacing("zzzzqqqq", "x")).quote == ""


def test_which_of_several_edits_failed_is_said() -> None:
    error = refusal(CODE, replacing("def a", "def c"), replacing("nowhere", "x"))
    assert error.text.startswith("edit 2:")


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("return 1", "return 1")])
def test_edits_that_mean_nothing_are_refused(old: str, new: str) -> None:
    refusal(CODE, replacing(old, new))


def test_a_crlf_file_is_matched_by_plain_line_breaks_and_keeps_its_own() -> None:
    text = "a = 1\r\nb = 2\r\nc = 3\r\n"
    edited = apply_edits(text, [replacing("b = 2\nc = 3", "b = 4\nx = 0\nc = 5")], crlf=True)
    assert edited == "a = 1\r\nb = 4\r\nx = 0\r\nc = 5\r\n"


def test_new_lines_in_a_crlf_file_are_crlf_where_none_was_replaced() -> None:
    assert apply_edits("a\r\nb\r\n", [replacing("b", "b\nc")], crlf=True) == "a\r\nb\r\nc\r\n"


def test_mixed_endings_stay_as_they_are_around_the_edit() -> None:
    text = "a\nb\nc\r\nd\r\n"
    assert apply_edits(text, [replacing("a\nb", "a\nB\nB")], crlf=False) == ("a\nB\nB\nc\r\nd\r\n")
    assert apply_edits(text, [replacing("c\nd", "c\nD")], crlf=False) == "a\nb\nc\r\nD\r\n"


def test_crlf_from_the_model_matches_a_plain_file() -> None:
    assert apply_edits("a\nb\n", [replacing("a\r\nb", "c\r\nd")], crlf=False) == "c\nd\n"


def test_the_nearest_match_is_looked_for_in_bounded_time() -> None:
    text = "".join(f"    value_{n} = compute_{n % 97}(value_{n - 1})\n" for n in range(20_000))
    start = time.process_time()
    refusal(text, replacing("    walue_77 = komputed_3(valeu)\n    other = 1", "x"))
    assert time.process_time() - start < 3.0
