"""Answers that are weighed and never run are read as models write them by hand."""

from __future__ import annotations

import json

import pytest

from duckflow_tui.llm.loose_json import read_value
from duckflow_tui.llm.strict_json import NotStrict

MEANT = {"a": [1, "it's 'so' // here"], "b": True, "c": None}


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(MEANT),
        repr(MEANT),
        f"```python\n{MEANT!r}\n```",
        f"I judge:\n{json.dumps(MEANT)}\nThat is all.",
        '{"a": [1, "it\'s \'so\' // here"], // as it stands\n "b": true, # yes\n "c": null,}',
        '{/* first */ "a": [1, "it\'s \'so\' // here",], "b": True, "c": None}',
        f"{json.dumps(MEANT)}\n\nOr else:\n{json.dumps({**MEANT, 'b': False})}",
        f'{{"x": 1}}\n{json.dumps(MEANT)}',
        "{a: [1, \"it's 'so' // here\"], b: true, c: null}",
    ],
)
def test_an_object_is_read_in_each_notation_that_models_use(written: str) -> None:
    assert read_value(written, ("a",)) == MEANT


@pytest.mark.parametrize(
    "written",
    [
        "",
        "no object",
        '{"a": [1, 2',
        "{'a': {'b': 1}",
        '{"a": 1, "a": 2}',
        "{'a': 1e999}",
    ],
)
def test_what_is_cut_or_no_object_is_never_completed(written: str) -> None:
    with pytest.raises(NotStrict):
        read_value(written, ("a",))


def test_many_braces_take_no_time() -> None:
    with pytest.raises(NotStrict):
        read_value("{'" * 300_000, ("a",))
