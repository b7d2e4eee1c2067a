"""Makes control and invisible characters of text from outside visible, so that they have no effect
(R13). Nothing is dropped.
"""

from __future__ import annotations

import re
from typing import Final, NewType

#: Text that holds no control sequence, no bidi override, no invisible character.
SafeText = NewType("SafeText", str)

#: Escape sequences: colours, cursor moves, window titles (ECMA-48, and OSC of xterm); the beginning
#: of one that is not finished.
ESCAPE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\n]*(?:\x1b\\)?"
    r"|[ -/]*[0-~]?)"
)

TAB: Final = 4  # columns of a tab stop

# C0 without newline, DEL, C1, then Unicode's format characters, line separators, invisible fillers,
# and surrogates, which cannot be encoded.
_ALWAYS: Final = (
    "\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
# Also invisible, but part of an emoji or ideograph when behind one.
_JOINING: Final = "\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
_SUSPECT: Final = re.compile(f"[{_ALWAYS}{_JOINING}]")
_ZWJ: Final = "\u200d"
_TEXT_OR_EMOJI: Final = "\ufe0e\ufe0f"
_KEYCAP: Final = "\u20e3"
_EMOJI: Final = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u27bf\u2934"
    "\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_IDEOGRAPH: Final = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def make_visible(text: str) -> SafeText:
    r"""Replace characters that could act or hide by visible signs (``␛]52``, ``⟨U+202E⟩``).

    Newlines stay, ``\r\n`` becomes a newline, and tabs become spaces up to the next tab stop of
    ``TAB`` columns. Joiners inside emoji and variation selectors behind their characters stay.
    """
    if _SUSPECT.search(text) is None:
        return SafeText(text)
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    if "\t" in text:
        text = "\n".join(line.expandtabs(TAB) for line in text.split("\n"))
    return SafeText(_SUSPECT.sub(_replace_unsafe_char, text))


def visible_line(text: str) -> SafeText:
    """Do as ``make_visible`` and show newlines as ``␊``, so that the text is one line."""
    return SafeText(make_visible(text).replace("\n", "␊"))


def is_safe(text: str) -> bool:
    """Whether ``make_visible`` would leave the text unchanged."""
    return make_visible(text) == text


def _replace_unsafe_char(match: re.Match[str]) -> str:
    """Return a visible sign for a control or invisible character; the character itself where it is
    part of an emoji or ideograph.
    """
    char = match.group()
    if _is_part_of_sign(char, match.string, match.start()):  # R13b
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"⟨U+{code:04X}⟩"  # R13a


def _is_part_of_sign(char: str, text: str, at: int) -> bool:
    """Whether the invisible character at a place belongs to the emoji or ideograph before it."""
    if at == 0:
        return False
    before = text[at - 1]
    if char == _ZWJ:
        after = text[at + 1 : at + 2]
        return bool(_EMOJI.match(after)) and _ends_emoji(text, at)
    if char in _TEXT_OR_EMOJI:
        if before in "0123456789#*":
            return text[at + 1 : at + 2] == _KEYCAP
        return _EMOJI.match(before) is not None
    selects = "\ufe00" <= char <= "\ufe02" or char >= "\U000e0100"
    return selects and _IDEOGRAPH.match(before) is not None


def _ends_emoji(text: str, at: int) -> bool:
    """Whether an emoji, with an optional variation selector, ends directly before ``at``."""
    end = at - 1
    if text[end] in _TEXT_OR_EMOJI and end > 0:
        end -= 1
    return _EMOJI.match(text[end]) is not None
