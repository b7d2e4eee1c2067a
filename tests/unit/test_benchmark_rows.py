"""The report of the benchmark: what is missed says why."""

from __future__ import annotations

from benchmarks.rows import explained, row, table


def test_a_row_is_missed_on_the_far_side_of_its_limit() -> None:
    assert row("exit", 0.3, 0.3, "s")["met"]
    assert not row("exit", 0.31, 0.3, "s")["met"]
    assert not row("share", 0.8, 0.9, "share", at_least=True)["met"]


def test_a_missed_row_says_why_at_any_size_and_a_met_one_does_not() -> None:
    name = "memory after {} turns, times that after {}"
    large = explained(row(name.format("1,000", "100"), 1.4, 1.1, "×"))
    small = explained(row(name.format("100", "10"), 1.4, 1.1, "×"))
    assert large["why"] == small["why"] != "not known yet"
    assert "why" not in explained(row(name.format("100", "10"), 1.0, 1.1, "×"))
    assert large["why"] in table([large])


def test_a_reason_that_nobody_knows_is_not_made_up() -> None:
    assert explained(row("something new", 2, 1, "s"))["why"] == "not known yet"
