"""The JSON of a reply is parsed strictly, because it is acted on."""

from __future__ import annotations

import json

import pytest

from duckflow_tui.llm.strict_json import MAX_DEPTH, NotStrict, find_object, parse_object


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "duplicate key"),
        ('{"x": {"a": 1, "a": 2}}', "duplicate key"),
        ('{"a": 1} and more', "trailing characters"),
        ('{"a": 1}{"b": 2}', "trailing characters"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": Infinity}', "not valid JSON"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "number out of range"),
        ('{"a": ' + "9" * 60 + "}", "too many digits"),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", "nested"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "recursion limit"),
        ('{"a": "\\ud800"}', r"not valid Unicode: a holds U\+D800"),
        ('{"a": [1, {"b c": "x\ud83e"}]}', r"not valid Unicode: a\[1\]\.b c holds U\+D83E"),
        ('{"a": {"\udc00": 1}}', r"not valid Unicode: a name in a holds U\+DC00"),
        ('{"a": "\ud83e', "not valid Unicode: it holds one half"),
        ('{"a": "\\ud83e\\udd86"} and more', "trailing characters"),
        ('{"a": "line\nbreak"}', "control character"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 1,}', "not valid JSON"),
        ('{"a": "cut', "not valid JSON"),
        ("[1]", "not an object"),
        ("no JSON at all", "no JSON object"),
        ("", "no JSON object"),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', "more than one"),
    ],
)
def test_what_is_not_certain_is_refused_with_the_reason(text: str, words: str) -> None:
    """Covers R16."""
    parse = parse_object if text.startswith("[") else find_object
    with pytest.raises(NotStrict, match=f"(?i){words}"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "around"),
    [
        ('{"a": {"b": [1, "}"]}}', False),
        ('\ufeff  {"a": {"b": [1, "}"]}}\n', False),
        ('```json\n{"a": {"b": [1, "}"]}}\n```', False),
        ('```\n{"a": {"b": [1, "}"]}}\n```', False),
        ('Here it is:\n```json\n{"a": {"b": [1, "}"]}}\n```\nDone.', True),
        ('Here it is: {"a": {"b": [1, "}"]}}', True),
    ],
)
def test_the_one_object_is_found(text: str, around: bool) -> None:
    found = find_object(text)
    assert found.data == {"a": {"b": [1, "}"]}}
    assert found.around is around


def test_a_fence_inside_a_string_is_no_fence() -> None:
    data = {"reply": 'Look:\n```json\n{"x": 1}\n```\n'}
    assert find_object(json.dumps(data)).data == data
    assert find_object(f"```json\n{json.dumps(data)}\n```").data == data


def test_the_deepest_allowed_value_can_be_written_again() -> None:
    inner = MAX_DEPTH - 1
    data = parse_object('{"a": ' + "[" * (inner - 1) + "]" * (inner - 1) + "}")
    assert json.loads(json.dumps(data)) == data
