"""Secrets stay out of logs, exports and error texts (promise 7)."""

from __future__ import annotations

import base64
import ctypes
import io
import json
import logging
import subprocess
import sys
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.safety.secrets import (
    REDACTED,
    RedactingFilter,
    Redactor,
    holds_secret,
    shield_process,
)

KEY = "k9+/Zq\"w'x\\y z=日本"


@given(st.text(min_size=8), st.text(), st.text())
def test_a_known_secret_never_gets_through(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    assert secret not in redactor.redact_text(before + secret + after).replace(REDACTED, "")


def test_a_secret_in_other_spellings() -> None:
    """As a URL, a JSON text and a Python repr spell it."""
    redactor = Redactor([KEY])
    for text, before, after in (
        (KEY, "", ""),
        (quote(KEY), "", ""),
        (quote(KEY, safe=""), "", ""),
        (json.dumps({"k": KEY}), '{"k": "', '"}'),
        (json.dumps({"k": KEY}, ensure_ascii=False), '{"k": "', '"}'),
        (repr(KEY), "'", "'"),
    ):
        assert redactor.redact_text(text) == f"{before}{REDACTED}{after}"
    assert Redactor([quote(KEY)]).redact_text(KEY) == REDACTED


@pytest.mark.parametrize("secret", ["abcdefgh", "abcdefghi", "abcdefghij"])
@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("after", range(3))
def test_a_secret_among_other_bytes_in_base64(secret: str, before: int, after: int) -> None:
    """Each character that holds nothing but bits of the secret is gone, and no other."""
    coded = base64.b64encode(b"~" * before + secret.encode() + b"?" * after).decode()
    begin, end = -(-8 * before // 6), 8 * (before + len(secret)) // 6
    if not after:  # what fills up the last one belongs to nothing else
        end = -(-8 * (before + len(secret)) // 6)
        end -= (before + len(secret)) % 3 > 0
    shown = Redactor([secret]).redact_text(coded)
    assert shown == f"{coded[:begin]}{REDACTED}{coded[end:]}"


def test_a_secret_turned_round_or_in_hexadecimal() -> None:
    redactor = Redactor(["abcdefgh", "1234567"])
    for text in (
        "hgfedcba",
        "6162636465666768",
        "61 62 63 64 65 66 67 68",
        "61:62:63:64:65:66:67:68",
    ):
        assert redactor.redact_text(text) == REDACTED
    assert Redactor(["k\xe4se{}|~"]).redact_text("6BC3A473657B7D7C7E") == REDACTED
    assert redactor.redact_text("7654321") == "7654321"  # one that is shorter is not looked for so


@pytest.mark.parametrize(("length", "shown"), [(57, REDACTED), (56, None)])
def test_a_long_secret_is_found_where_a_program_broke_its_line(
    length: int, shown: str | None
) -> None:
    secret = ("abcdefghij" * 6)[:length]
    text = f"{secret[:30]}\n{secret[30:]}"
    assert Redactor([secret]).redact_text(text) == (shown or text)


def test_the_longer_of_two_secrets_goes_whole() -> None:
    assert Redactor(["abcdefgh", "abcdefgh-ijkl"]).redact_text("<abcdefgh-ijkl>") == f"<{REDACTED}>"


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcdefghijklmnop1234",
        "ghp_" + "a1B2" * 9,
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijkl",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\ncut off here",
    ],
)
def test_what_looks_like_a_key(text: str) -> None:
    assert holds_secret(text)
    assert Redactor().redact_text(f"a {text} b").startswith(f"a {REDACTED}")


def test_several_keys_in_one_text() -> None:
    """Overlapping shapes too: what is inside another one goes with it."""
    inner = "ghp_" + "a1B2" * 9
    text = f"1 sk-{'x' * 20} 2 -----BEGIN PRIVATE KEY-----\n{inner}\n-----END PRIVATE KEY----- 3"
    shown = Redactor().redact_text(text)
    assert inner not in shown
    assert shown.startswith(f"1 {REDACTED} 2 {REDACTED}")
    assert shown.endswith(" 3")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abcdef0123456789", f"Authorization: Bearer {REDACTED}"),
        ("postgres://app:hunter2@db/x", f"postgres://{REDACTED}@db/x"),
        ("https://example.org/a:b@c", "https://example.org/a:b@c"),
        ("authorization: basic dXNlcjpwYXNzd29yZA==", f"authorization: basic {REDACTED}"),
        ("the task-sk-list of bearer tokens", "the task-sk-list of bearer tokens"),
        ("Authorization: Basic YWRtaW46cGFzc3dk", f"Authorization: Basic {REDACTED}"),
        ("Authorization: Basic YWRtaW46cGFzczE=", f"Authorization: Basic {REDACTED}"),
        ("Authorization: Basic YWRtaW46cGFzczE", f"Authorization: Basic {REDACTED}"),
        ("Add basic authentication to the API.", "Add basic authentication to the API."),
        ("bearer information, basic TypeScriptSetup", "bearer information, basic TypeScriptSetup"),
        ("bearer aBcDeFgHiJkLmNoPqRsTuVwX", f"bearer {REDACTED}"),
        *((text, text) for text in ("bearer aBcDeFgHiJkLmNoPqRsTuVw", f"bearer {'abcd' * 6}")),
        *((text, text) for text in (f"bearer {'ABCD' * 6}", "mask-abcdefghijklmnop1234")),
        ("sk-abcdefghijklmnop1234", REDACTED),
        ("sk-abcdefghijklmnop1234 b", f"{REDACTED} b"),
        ('password="q7Lr2Vx9Tb4Nw8Kd"', f'password="{REDACTED}"'),
        ('api_key="q7Lr2Vx9Tb4Nw8Kd"', f'api_key="{REDACTED}"'),
        ('encryption_key="q7Lr2Vx9Tb4Nw8Kd"', f'encryption_key="{REDACTED}"'),
        *((text, text) for text in ('key="q7Lr2Vx9Tb4Nw8Kd"', 'token="aBcDeFgHiJkLmNoP"')),
        *((text, text) for text in ('token="1234567890123456"', 'token="aaaa1111bbbb2222"')),
        (
            "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----ghp_" + "a1B2" * 9,
            REDACTED * 2,
        ),
    ],
)
def test_keys_in_their_places(text: str, shown: str) -> None:
    assert Redactor().redact_text(text) == shown


@pytest.mark.parametrize(
    "unit", ["-eyJ", "-eyJaaaaaaaaaa", "A_KEY=", "A1bcdefgh_KEY=", "api_key: "]
)
def test_no_text_takes_longer_than_its_length_explains(unit: str) -> None:
    """A file or a model may write what begins like a key a million times."""
    token = f"eyJ{'a1B' * 6}.eyJ{'b2C' * 6}.{'c3D' * 6}"
    given = "q7Lr2Vx9Tb4Nw8Kd"
    text = f"{unit * (400_000 // len(unit))} {token}\nAPI_KEY={given} {token}-eyJ"
    began = time.process_time()
    shown = Redactor().redact_text(text)
    assert time.process_time() - began < 1.0
    assert token not in shown
    assert given not in shown


def test_a_value_among_many_that_are_given_at_once_is_taken_for_a_key() -> None:
    assert Redactor().redact_text("A_KEY=" * 9 + "word") == "A_KEY=" * 9 + "word"
    assert Redactor().redact_text("A_KEY=" * 10 + "word") == f"{'A_KEY=' * 9}A_KEY{REDACTED}"


def test_of_twenty_thousand_values_in_a_text_each_is_looked_at() -> None:
    """What comes after so many is taken for a key."""
    text = 'token="aaaaaaaaaaaaaaaa" ' * 20_000
    assert Redactor().redact_text(text) == text
    more = 'token="bbbbbbbbbbbbbbbb"'
    assert Redactor().redact_text(text + more) == f'{text}token="{REDACTED}"'


def test_short_secrets_only_as_whole_words() -> None:
    redactor = Redactor(["test"])
    assert redactor.redact_text("tests/test.py: test") == f"tests/{REDACTED}.py: {REDACTED}"


def test_the_log_gets_no_secret() -> None:
    """Promise 7: not in the message, its arguments, a traceback or a stack."""
    redactor = Redactor(["s3cret-value", "another-one"])
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(RedactingFilter(redactor))
    log = logging.Logger("test")
    log.addHandler(handler)
    log.warning("key %s and %d%%", "s3cret-value", 5)
    try:
        raise ValueError("bad s3cret-value")
    except ValueError:
        log.exception("failed", stack_info=True)
    log.error("another-one, no arguments: 100%")
    text = out.getvalue()
    assert "s3cret" not in text
    assert "another" not in text
    assert f"key {REDACTED} and 5%" in text
    assert f"ValueError: bad {REDACTED}" in text
    assert "Traceback" in text


def test_every_part_of_a_record_of_the_log_is_cleaned() -> None:
    """What another handler has put into it already, too."""
    kept = {
        "stack_info": "at s3cret-value",
        "exc_text": "by s3cret-value",
        "args": ("s3cret-value",),
    }
    record = logging.makeLogRecord({"msg": "with %s", **kept})
    assert RedactingFilter(Redactor(["s3cret-value"])).filter(record)
    assert record.getMessage() == f"with {REDACTED}"
    error = ValueError("bad s3cret-value")
    record = logging.makeLogRecord({"msg": "failed", "exc_info": (ValueError, error, None)})
    assert RedactingFilter(Redactor(["s3cret-value"])).filter(record)
    assert (record.exc_text, record.exc_info) == (f"ValueError: bad {REDACTED}", None)
    record = logging.makeLogRecord({"msg": "with %s", **kept})
    RedactingFilter(Redactor(["s3cret-value"])).filter(record)
    assert (record.stack_info, record.exc_text) == (f"at {REDACTED}", f"by {REDACTED}")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux closes a process")
def test_a_shielded_process_is_not_dumpable() -> None:
    """The system's own answer, 0 for closed; 3 is PR_GET_DUMPABLE of linux/prctl.h."""
    program = (
        "import ctypes; from duckflow_tui.safety.secrets import shield_process; "
        "get = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0); "
        "print(get(), shield_process(), get())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout.split() == ["1", "True", "0"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux closes a process")
@pytest.mark.parametrize(("said", "done"), [(0, True), (-1, False)])
def test_a_process_counts_as_shielded_where_the_system_did_it(
    monkeypatch: pytest.MonkeyPatch, said: int, done: bool
) -> None:
    """By PR_SET_DUMPABLE of linux/prctl.h, which is 4."""
    asked: list[list[int]] = []

    class Library:
        def __init__(self, name: None) -> None: ...

        def prctl(self, *values: ctypes.c_int | ctypes.c_ulong) -> int:
            asked.append([value.value for value in values])
            return said

    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert shield_process() is done
    assert asked == [[4, 0, 0, 0, 0]]
