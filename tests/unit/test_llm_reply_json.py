"""The JSON of a reply is read where it can mean one thing only, because it is acted on."""

from __future__ import annotations

import json

import pytest
from support.model_words import WORDS

from duckflow_tui.llm.reply_json import MAX_DEPTH, NotStrict, find_object, find_values, parse_object


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "duplicate key"),
        ('{"x": {"a": 1, "a": 2}}', "duplicate key"),
        ('{"a": 1}{"a": 2}', "more than one"),
        ('{"a": 1} or else {"a": 2}', "more than one"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": Infinity}', "not valid JSON"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "number out of range"),
        ('{"a": ' + "9" * 60 + "}", "too many digits"),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", "nested"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "recursion limit"),
        ('{"a": "\\ud800"}', "one half of a surrogate pair"),
        ('{"a": [1, {"b c": "x\ud83e"}]}', "one half of a surrogate pair"),
        ('{"a": {"\udc00": 1}}', "one half of a surrogate pair"),
        ('{"a": "\ud83e', "one half of a surrogate pair"),
        ('{"a": here}', "not valid JSON"),
        ("{'a': 'it's'}", "not valid JSON"),
        ("{'a': {'b': 1}", "not valid JSON"),
        ('{"a": [1, two]}', "not valid JSON"),
        ('{"a": "cut', "not valid JSON"),
        ('{"a": {"a": 1}', "not valid JSON"),
        ('{"b": {"a": 1}, "a": wrong}', "not valid JSON"),
        ('Here: {"b": {"a": 1}, "a": ', "not valid JSON"),
        ('{"a": "he said "no" to it"}', "not valid JSON"),
        ('{"a": 1 "b": 2}', "not valid JSON"),
        ("[1]", "not an object"),
        ("no JSON at all", "no JSON object"),
        ("", "no JSON object"),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', "more than one"),
    ],
)
def test_what_is_not_certain_is_refused_with_the_reason(text: str, words: str) -> None:
    """Covers R16."""
    with pytest.raises(NotStrict) as caught:
        parse_object(text) if text.startswith("[") else find_object(text, {"a"})
    assert words.lower() in WORDS(caught.value.told).lower()


OBJECT = '{"a": {"b": [1, "}"]}}'


@pytest.mark.parametrize(
    ("text", "around"),
    [
        (OBJECT, ""),
        (f"\ufeff  {OBJECT}\n", ""),
        (f"```json\n{OBJECT}\n```", ""),
        (f"```\n{OBJECT}\n```", ""),
        (f"Here it is:\n```json\n{OBJECT}\n```\nDone.", "Here it is:\n\nDone."),
        (f"Here it is: {OBJECT}", "Here it is:"),
        (f"{OBJECT} and more", "and more"),
        (f"```json\n{OBJECT}\n```\n```python\nx = {{1: 2}}\n```", "```python\nx = {1: 2}\n```"),
        (f'It was {{"c": 1}}.\n{OBJECT}\nIt is {{"d": True}}', 'It was {"c": 1}.'),
        (f'In Python {{"a": f(1)}}, so: {OBJECT}', 'In Python {"a": f(1)}, so:'),
        (f"{OBJECT}\n{OBJECT}", OBJECT),
    ],
)
def test_the_one_object_is_found_whatever_is_written_around_it(text: str, around: str) -> None:
    found = find_object(text, {"a", "x"})
    assert found.data == {"a": {"b": [1, "}"]}}
    assert found.around.startswith(around)
    assert bool(found.around) is bool(around)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('{"a": [1, 2,], "b": {"c": 3 , },\n}', {"a": [1, 2], "b": {"c": 3}}),
        ('{"a": "one\n\ttwo"}', {"a": "one\n\ttwo"}),
        (r'{"a": "\d+\s \\w \"\n"}', {"a": '\\d+\\s \\w "\n'}),
        (r'{"a": "\bword\d", "b": "\b"}', {"a": r"\bword\d", "b": "\b"}),
        (r'{"a": "\user \u00e9"}', {"a": r"\user é"}),
        ('{"a": "x \\\n y"}', {"a": "x \\\n y"}),
        (
            '{"a": True, "b": [False, None], "c": "True, None,}"}',
            {"a": True, "b": [False, None], "c": "True, None,}"},
        ),
        (
            "{a: [1, 'it\\'s \"so\" // here'], // so\n b: true, # yes\n /* no */ c: null}",
            {"a": [1, 'it\'s "so" // here'], "b": True, "c": None},
        ),
        ('{“a”: “he said "no"”}', {"a": 'he said "no"'}),
    ],
)
def test_what_can_mean_one_thing_only_is_read_as_that(written: str, meant: object) -> None:
    assert parse_object(written) == meant
    assert find_object(f"So:\n{written}\nThat is all.", {"a"}).data == meant
    assert find_values(f"So:\n{written}\nThat is all.").values == [meant]


def test_what_is_mended_is_held_to_the_same_rules() -> None:
    for text, words in (('{"a": 1, "a": True,}', "duplicate"), ('{"a": 1e999,}', "too large")):
        with pytest.raises(NotStrict) as caught:
            parse_object(text)
        assert words in WORDS(caught.value.told).lower()


def test_a_fence_inside_a_string_is_no_fence() -> None:
    data = {"reply": 'Look:\n```json\n{"x": 1}\n```\n'}
    assert find_object(json.dumps(data), {"reply", "x"}).data == data
    assert find_object(f"```json\n{json.dumps(data)}\n```", {"reply", "x"}).data == data


def test_the_deepest_allowed_value_can_be_written_again() -> None:
    inner = MAX_DEPTH - 1
    data = parse_object('{"a": ' + "[" * (inner - 1) + "]" * (inner - 1) + "}")
    assert json.loads(json.dumps(data)) == data


def test_an_answer_that_is_only_judged_may_have_words_without_quotes_lists_and_several_values() -> (
    None
):
    assert find_values('{"x": 1}\n{a: yes, b: 2026-11-27}\n["one"]').values == [
        {"x": 1}, {"a": "yes", "b": "2026-11-27"}, ["one"]
    ]  # fmt: skip
    assert find_values(json.dumps(json.dumps({"a": 1}))).values == [{"a": 1}]
    for text in ("", "a [1] and {so}", '{"a": [1, 2', '{"a": 1, "a": 2}', "{'" * 300_000):
        with pytest.raises(NotStrict):
            find_values(text)
