"""Untrusted text made harmless (R13)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.safety.safe_text import is_safe, make_visible, visible_line

ZWJ = "\u200d"
SELECTORS = "\ufe0e\ufe0f"
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
INVISIBLE = "\u200b\u200c\u2060\ufeff\u00ad\u034f\u3164\uffa0\u115f\u1160\u180e"

# Text in which the interesting characters are frequent enough to meet each other.
NASTY = st.text(
    st.one_of(
        st.sampled_from("\x00\x07\x1b\x7f\x9b\r\n\t aA1#あ葛한\u20e3" + BIDI + INVISIBLE),
        st.sampled_from(ZWJ + SELECTORS + "\ufe00\ufe05\U000e0100\U000e0041\U000e007f"),
        st.sampled_from("👨👩🏽❤🏳🌈☠©"),
        st.characters(),
    )
)


def _forbidden(char: str) -> bool:
    """What R13 names, said without the tables of the code under test."""
    category = unicodedata.category(char)
    return (
        (category in ("Cc", "Cf", "Cs", "Zl", "Zp") and char != "\n")
        or char in BIDI + INVISIBLE
        or 0xE0000 <= ord(char) <= 0xE0FFF
        or 0xFE00 <= ord(char) <= 0xFE0F
    )


def _allowed_here(text: str, at: int) -> bool:
    char, before = text[at], text[at - 1 : at]
    if char == ZWJ:
        return unicodedata.category(text[at + 1]) == "So" and before not in ("", " ", "\n")
    if char in SELECTORS:
        return unicodedata.category(before) in ("So", "Sk", "Sm", "Po", "Nd", "Lo", "Ps", "Lu")
    ivs = 0xE0100 <= ord(char) <= 0xE01EF or 0xFE00 <= ord(char) <= 0xFE02
    return ivs and before != "" and unicodedata.category(before) in ("Lo", "Nl", "Lm", "Cn", "So")


@given(NASTY)
def test_nothing_that_acts_or_hides_is_left(text: str) -> None:
    """R13: no C0 but newline, no C1, bidi, tag or zero-width character outside an emoji."""
    shown = make_visible(text)
    for at, char in enumerate(shown):
        # A regional or other emoji newer than this Python's tables has no category.
        if _forbidden(char) and not (0x1F000 <= ord(shown[at - 1]) <= 0x1FAFF and at):
            assert _allowed_here(shown, at), (shown, at)


def test_every_code_point_by_itself_is_shown() -> None:
    """R13: alone there is no emoji to join, so that nothing invisible may stay."""
    left = [
        hex(c) for c in range(0x110000) if _forbidden(chr(c)) and chr(c) in make_visible(chr(c))
    ]
    assert left == []


@given(NASTY)
def test_showing_twice_changes_nothing_more(text: str) -> None:
    shown = make_visible(text)
    assert make_visible(shown) == shown
    assert is_safe(shown)


@given(NASTY)
def test_nothing_is_dropped(text: str) -> None:
    """R13: every character is there, or its sign is; only line ends and tabs are respelled."""
    plain = text.replace("\r\n", "\n")
    if "\t" in plain:
        plain = "\n".join(line.expandtabs(4) for line in plain.split("\n"))
    shown = make_visible(text)
    at = 0
    for char in plain:
        code = ord(char)
        picture = chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else None
        sign = picture or f"⟨U+{code:04X}⟩"
        part = char if shown.startswith(char, at) else sign
        assert shown.startswith(part, at)
        at += len(part)
    assert at == len(shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;cm0=\x07", "␛]52;c;cm0=␇"),
        ("\x9b31m", "⟨U+009B⟩31m"),
        ("abc\u202edcba", "abc⟨U+202E⟩dcba"),
        ("hi\U000e0068\U000e0069", "hi⟨U+E0068⟩⟨U+E0069⟩"),
        ("pass\u200bword", "pass⟨U+200B⟩word"),
        ("a\u200db", "a⟨U+200D⟩b"),
        ("a\u200d👩", "a⟨U+200D⟩👩"),
        ("a\ufe0f\u200d👩", "a⟨U+FE0F⟩⟨U+200D⟩👩"),
        ("x\ufe0f", "x⟨U+FE0F⟩"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f⟨U+FE0F⟩"),
        ("👍\ufe01\ufe02", "👍⟨U+FE01⟩⟨U+FE02⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("a\tb\n\tc", "a   b\n    c"),
        ("a\r\nb\rc", "a\nb␍c"),
    ],
)
def test_signs(text: str, shown: str) -> None:
    assert make_visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "日本語のテキスト、カタカナ、｢半角ｶﾅ｣",
        "한국어 텍스트",
        "か\u3099 e\u0301",
        "👨‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈 🏴‍☠️ ❤️‍🔥 1️⃣ #️⃣ ☎︎ ©️ 🇯🇵",
        "葛\U000e0100飾 神\ufe00",
        "[bold]not markup here[/]",
        "┌─┐ │ ▶ ⠙ é ß Ω \ue0b0",
    ],
)
def test_what_people_write_stays(text: str) -> None:
    """R13: Japanese, Korean and emoji with ZWJ stay as they are."""
    assert make_visible(text) == text


def test_one_line() -> None:
    assert visible_line("a\nb\r\nc\u2028d") == "a␊b␊c⟨U+2028⟩d"
