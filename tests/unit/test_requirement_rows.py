"""The list of requirement rows and the tests that name them."""

from __future__ import annotations

from support.requirements import missing


def test_every_listed_row_is_named_by_a_test() -> None:
    assert missing() == []
