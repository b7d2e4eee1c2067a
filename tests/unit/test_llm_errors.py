"""Errors in plain words: what failed, on what, which setting; never a key."""

from __future__ import annotations

import base64
import string
import time
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import duckflow_tui
from duckflow_tui.llm.endpoints import Endpoint
from duckflow_tui.llm.errors import (
    DETAIL,
    ErrorCode,
    FailureTeller,
    LlmError,
    escape_text,
    retry_after,
)
from duckflow_tui.llm.learned_models import ModelQuirks
from duckflow_tui.llm.quirks import is_miswritten
from duckflow_tui.llm.tokens import estimate_tokens
from duckflow_tui.state.base import JsonObject

STRINGS = Path(duckflow_tui.__file__).parent / "words"
KEY = "sk-verysecret-0123456789"


def teller() -> FailureTeller:
    here = Endpoint(name="work", base_url="https://models.example/v1")
    return FailureTeller(here, "duck-1", (KEY,))


def test_every_code_has_words_in_both_languages_and_no_unknown_blank() -> None:
    tables = [
        tomllib.loads((STRINGS / lang / "llm.toml").read_text(encoding="utf-8"))["llm"]
        for lang in ("en", "ja")
    ]
    for group in ("error", "in_turn"):
        english, japanese = (
            {
                key: {name for _, name, _, _ in string.Formatter().parse(text) if name}
                for key, text in table[group].items()
            }
            for table in tables
        )
        assert english == japanese
        if group == "error":
            assert set(english) == set(get_args(ErrorCode))
            assert set().union(*english.values()) <= set(LlmError("cut").params)


@given(st.text(max_size=600), st.integers(0, 600))
def test_no_part_of_a_key_and_no_control_character_is_left(text: str, at: int) -> None:
    shown = escape_text(text[:at] + KEY + text[at:], (KEY,))
    assert KEY not in shown
    assert len(shown) <= DETAIL
    assert shown.isprintable()


def test_a_key_that_the_cut_would_split_is_masked_too() -> None:
    for before in range(DETAIL - len(KEY) - 2, DETAIL + 2):
        assert "sk-very" not in escape_text("x" * before + KEY, (KEY,))
    assert "sk-very" not in escape_text(" " * (DETAIL * 8 - 10) + KEY, (KEY,))


@pytest.mark.parametrize(
    "told",
    [
        KEY[::-1],
        KEY.upper(),
        f"{KEY[:9]} {KEY[9:]}",
        " ".join(KEY),
        "|".join(KEY[at : at + 4] for at in range(0, len(KEY), 4)),
        KEY.encode().hex(" "),
        *(base64.b64encode(f"{'x' * n}{KEY}:".encode()).decode() for n in range(3)),
        base64.urlsafe_b64encode(KEY.encode()).decode()[::-1],
    ],
)
def test_a_key_in_another_form_is_masked_too(told: str) -> None:
    shown = escape_text(f"bad key {told} of yours", (KEY,))
    assert (shown[:8], shown[-8:]) == ("bad key ", "of yours")
    left = "".join(filter(str.isalnum, shown[8:-8]))
    assert len(left) < 8  # what base64 has of other bytes


def test_what_only_looks_a_little_like_a_key_stays() -> None:
    for key in ("the-word-one", "very-secret", KEY):
        said = "very secret words 0123456789: the word one of your keys, " + KEY[4:18]
        assert escape_text(said, (key,)) == said


def test_a_text_pasted_for_a_key_costs_no_time_for_being_long() -> None:
    pasted = "K" * 1_000_000
    begun = time.process_time()
    assert "K" not in escape_text(f"no such key: {pasted}", (pasted,))
    assert time.process_time() - begun < 1.0


def test_an_error_names_the_setting_and_keeps_the_key_out() -> None:
    body = f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode()
    error = teller().make_status_error(401, {}, body, 0.0)
    assert error.setting == "endpoints.work.api_key_env"
    assert KEY not in f"{error} {error.detail} {error.message} {error.params}"
    assert "bad key •••" in error.detail


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"Retry-After-Ms": "250"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "9" * 50}, None),
        ({}, None),
    ],
)
def test_both_forms_of_retry_after_are_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=100.0) == seconds


def test_tokens_are_estimated_by_script() -> None:
    assert estimate_tokens("a" * 400) == 100
    assert estimate_tokens("日本語のテスト") == 7
    assert estimate_tokens("日本語" + "a" * 40) == 13
    assert estimate_tokens("") == 0


MESSAGES: list[JsonObject] = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "u"},
    {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": []},
    {"role": "tool", "tool_call_id": "call_1", "content": "x"},
]
BODY: JsonObject = {"messages": MESSAGES, "stream": True, "stream_options": {}, "temperature": 0.1,
                    "reasoning_effort": "low", "max_tokens": 32_000}  # fmt: skip
REFUSALS = [
    (head.partition("\n")[0], *row.split("\t"))
    for head in Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").split("=== ")
    for row in head.splitlines()[1:]
]


@pytest.mark.parametrize(("provider", "meaning", "body"), REFUSALS)
def test_each_refusal_of_a_provider_is_named_and_learned(
    provider: str, meaning: str, body: str
) -> None:
    """``refusals.txt`` holds errors in their providers' words: the request (with functions, or a
    form of JSON), its status, the code of the failure, then what is learned of it.
    """
    form, status, code, *lessons = meaning.split()
    error = teller().make_status_error(int(status), {}, body.encode(), 0.0)
    quirks = ModelQuirks()
    asked: JsonObject = {"tools": []} if form == "tools" else {
        "messages": MESSAGES[:2], "response_format": {"type": form}}  # fmt: skip
    quirks.learn_from(error, {**BODY, **asked}, "chat", Endpoint(name="x", base_url="http://x"))
    learned = sorted(quirks.flags) + [f"-{name}" for name in quirks.dropped]
    learned += [f"window={quirks.window}"] if quirks.window else []
    learned += [f"output={quirks.output}"] if quirks.output else []
    learned += ["miswritten"] if is_miswritten(error) else []
    wait = [f"wait={error.retry_after:g}"] if error.retry_after else []
    assert (error.code, [*(learned or ["."]), *wait]) == (code, lessons)
    assert not error.detail.startswith("{")
