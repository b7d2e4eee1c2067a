from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.prompting.budget import ScriptCounter

# One sentence in five languages, with its tokens in OpenAI's vocabularies of 200,000 and of
# 100,000 entries, as their page on GPT-4o gives them.
PUBLISHED = [
    ("Hello, my name is GPT-4o. I'm a new type of language model, it's nice to meet you!", 24, 27),
    ("你好，我的名字是GPT-4o。我是一种新型的语言模型，很高兴见到你！", 24, 34),
    (
        "こんにちは、私の名前はGPT-4oです。私は新しいタイプの言語モデルです。初めまして！",
        26,
        37,
    ),
    (
        "안녕하세요, 제 이름은 GPT-4o입니다. 저는 새로운 유형의 언어 모델입니다, 만나서 반갑습니다!",  # noqa: E501
        27,
        45,
    ),
    (
        "Привет, меня зовут GPT-4o. Я — новая языковая модель, приятно познакомиться!",
        23,
        39,
    ),
]


@pytest.mark.parametrize(("sentence", "fewest", "most"), PUBLISHED)
def test_estimate_lies_in_the_published_range(sentence: str, fewest: int, most: int) -> None:
    estimate = ScriptCounter().count(sentence)
    assert 0.9 * fewest <= estimate <= 1.05 * most


def test_japanese_is_not_counted_as_four_characters_a_token() -> None:
    """Covers S4-77: the rule that the notes call a bug for Japanese is not used."""
    assert ScriptCounter().count("日本語の文章を数える。" * 50) > 0.85 * 550


def test_code_takes_more_tokens_a_character_than_prose() -> None:
    prose = "The duck swims on the quiet pond while the programmer reads the morning paper. " * 9
    code = '{"path":"src/app.py","edits":[{"old":"x = f(1)","new":"x = f(2)"}]}' * 9
    counter = ScriptCounter()
    assert len(prose) / counter.count(prose) > 3.7
    assert len(code) / counter.count(code) < 3.0


@given(st.text(), st.text())
def test_counts_add_up(a: str, b: str) -> None:
    counter = ScriptCounter()
    whole, parts = counter.count(a + b), counter.count(a) + counter.count(b)
    assert max(counter.count(a), counter.count(b)) <= whole <= parts
    assert counter.count("") == 0


def test_a_lone_surrogate_is_counted() -> None:
    assert ScriptCounter().count("a\ud800b") >= 1


def test_factor_follows_what_a_model_reports_and_no_other_model() -> None:
    counter = ScriptCounter()
    for _ in range(12):
        counter.learn("local/qwen", round(1_000 * counter.factor("local/qwen")), 1_300)
    assert 1.29 <= counter.factor("local/qwen") <= 1.31
    assert counter.factor("other") == 1.0


def test_absurd_reports_move_the_factor_only_to_its_bounds() -> None:
    counter = ScriptCounter()
    counter.learn("m", 10, 1_000_000)
    assert counter.factor("m") == 2.0
    for _ in range(9):
        counter.learn("m", 1_000_000, 1)
    assert counter.factor("m") == 0.5
    counter.learn("m", 0, 0)
    assert counter.factor("m") == 0.5


def test_a_text_too_long_to_be_counted_whole_is_estimated_by_its_pieces() -> None:
    counter = ScriptCounter()
    parts = ["def f(x): return x\n" * 5_000, "日本語の文です。" * 12_000] * 5
    whole = sum(map(counter.count, parts))
    assert abs(counter.count("".join(parts)) - whole) < 0.02 * whole
