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
    read_limits,
    retry_after,
)
from duckflow_tui.llm.tokens import estimate_tokens

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


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable"),
    [
        (400, '{"error": {"code": "context_length_exceeded", "message": "x"}}',
         "context_overflow", False),
        (400, '{"error": "the request exceeds the available context size"}',
         "context_overflow", False),
        (413, "prompt is too long: 210000 tokens", "context_overflow", False),
        (500, "oops", "server_error", True),
        (503, "<html>busy</html>", "server_error", True),
        (501, "no", "server_error", False),
        (307, "", "redirect", False),
    ],
)  # fmt: skip
def test_a_status_and_its_words_give_the_code(
    status: int, body: str, code: str, retryable: bool
) -> None:
    error = teller().make_status_error(
        status, {"Location": "https://evil.example/"}, body.encode(), 0.0
    )
    assert (error.code, error.retryable, error.status) == (code, retryable, status)
    assert error.host == "models.example"


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


#: Errors of too many tokens in their providers' words: window, request, most of a reply.
NUMBERS = {
    "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens "
    "(112946 in the messages, 10000 in the completion).": (16384, 112946, 0),
    "This endpoint's maximum context length is 131072 tokens. However, you requested about 133500 "
    "tokens (5500 of text input, 128000 in the output).": (131072, 5500, 0),
    "'max_tokens' is too large: 128000. This model's maximum context length is 32768 tokens and "
    "your request has 5500 input tokens (128000 > 32768 - 5500).": (32768, 5500, 0),
    "request (8079 tokens) exceeds the available context size (4096 tokens), try increasing it": (
        4096, 8079, 0),
    "Requested tokens (2285) exceed context window of 2048": (2048, 0, 0),
    "prompt is too long: 210000 tokens > 200000 maximum": (200000, 210000, 0),
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000": (
        200000, 188240, 0),
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).": (
        1048576, 1200000, 0),
    "Prompt tokens limit exceeded: 69120 > 36608. To increase, visit": (36608, 69120, 0),
    "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 6294": (
        6000, 6294, 0),
    "You requested up to 16384 tokens, but can only afford 3919.": (0, 0, 3919),
    "max_tokens is too large: 128000. This model supports at most 16384 completion tokens": (
        0, 0, 16384),
    "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]": (0, 0, 8192),
    "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens": (
        0, 0, 64000),
    "`max_tokens` must be less than or equal to `8192`, the maximum value": (0, 0, 8192),
    "The conversation holds 12 messages and 4096 rows": (0, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("words", NUMBERS)
def test_numbers_of_tokens_are_read_from_the_words(words: str) -> None:
    assert read_limits({}, words) == NUMBERS[words]


def test_numbers_of_tokens_in_fields_of_their_own_go_before() -> None:
    fields = {"n_ctx": 4096, "n_prompt_tokens": 8079, "message": "exceeds the context size"}
    assert read_limits(fields, "exceeds the context size") == (4096, 8079, 0)
