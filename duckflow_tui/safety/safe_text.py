"""Text from outside made harmless and visible (R13): nothing is dropped, nothing acts."""

from __future__ import annotations

import re
from typing import Final, NewType

#: Text that holds no control sequence, no bidi override, no invisible character.
SafeText = NewType("SafeText", str)

TAB: Final = 4  # columns of a tab stop

# C0 but newline, DEL, C1, then what Unicode calls format characters, separators of lines, fillers
# that look like nothing, and surrogates that no encoding can carry.
_SUSPECT: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d"
    "\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U000110bd\U000110cd\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

_ZWJ: Final = "\u200d"
_EMOJI: Final = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u27bf\u2934"
    "\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001faff]"
)
_IDEOGRAPH: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def visible(text: str) -> SafeText:
    r"""The text with everything that could act or hide shown as signs (``␛]52``, ``⟨U+202E⟩``).

    Newlines stay, ``\r\n`` becomes a newline and tabs become spaces up to the next stop of
    ``TAB`` columns. Joiners stay inside emoji, variation selectors behind ideographs.
    """
    if _SUSPECT.search(text) is None:
        return SafeText(text)
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    if "\t" in text:
        text = "\n".join(line.expandtabs(TAB) for line in text.split("\n"))
    return SafeText(_SUSPECT.sub(_sign, text))


def visible_line(text: str) -> SafeText:
    """The same on one line: newlines are shown as ``␊``."""
    return SafeText(visible(text).replace("\n", "␊"))


def is_safe(text: str) -> bool:
    """Whether ``visible`` would leave the text as it is."""
    return visible(text) == text


def _sign(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    text, at = match.string, match.start()
    if char == _ZWJ and _joins_emoji(text, at):
        return char
    if 0xE0100 <= code <= 0xE01EF and at and _IDEOGRAPH.match(text[at - 1]):
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"⟨U+{code:04X}⟩"


def _joins_emoji(text: str, at: int) -> bool:
    return (
        0 < at < len(text) - 1
        and _EMOJI.match(text[at - 1]) is not None
        and _EMOJI.match(text[at + 1]) is not None
    )
