"""Translates one complete escape sequence or character from a terminal into events."""

from __future__ import annotations

import re
from typing import Final

from textual import constants, events, messages
from textual.message import Message

from duckflow_tui.ui.textual_private import FUNCTIONAL_KEYS, IS_ITERM, SequenceTable

_MOUSE: Final = re.compile(r"\x1b\[<(\d{1,3});-?\d{1,5};-?\d{1,5}[Mm]")
_RESIZE: Final = re.compile(
    r"\x1b\[48;(\d{1,5})[:\d]*;(\d{1,5})[:\d]*;(\d{1,5})[:\d]*;(\d{1,5})[:\d]*t"
)
_MODE_REPORT: Final = re.compile(r"\x1b\[\?(2026|2048);([0-4])\$y")
#: A key of kitty's protocol, or of xterm with modifiers; each field may have parts behind colons.
_EXTENDED: Final = re.compile(r"\x1b\[([\d:]*(?:;[\d:]*){0,2})([u~A-FHPQRS])")
#: xterm's modifyOtherKeys: modifiers, then the character.
_OTHER_KEY: Final = re.compile(r"\x1b\[27;(\d{1,3});(\d{1,7})~")
_OLD_FUNCTION: Final = re.compile(r"\x1bO(?:1;)?(\d)([A-Z])")

#: Characters of ordinary text that ``str.isprintable`` rejects: the ideographic space, and the
#: (non-)joiners of Persian, of Indian scripts and of emoji.
WRITTEN: Final = frozenset("\u3000\u200c\u200d")

_SHIFT: Final = 1
_ALT: Final = 2
_CTRL: Final = 4
_MODIFIER_BITS: Final = 0b111111  # Caps Lock and Num Lock have the bits above
_RELEASE: Final = 3  # event type
_MAX_BUTTON: Final = 127  # from 128 on: extra buttons, which the app does not use
_MAX_COLUMNS, _MAX_ROWS = 2_000, 1_000  # cells; a reply with more is not believed

#: The Latin letter on the key of a Cyrillic or Greek one, so that Ctrl and Alt with a letter work
#: in each layout, also in terminals that do not report the Latin key.
_LATIN_LETTERS: Final = dict(
    zip(
        "йцукенгшщзхъфывапролджэячсмитьбюёіїєґў" + "ςερτυθιοπασδφγηξκλζχψωβνμ",
        "qwertyuiop[]asdfghjkl;'zxcvbnm,.`s]'`o" + "wertyuiopasdfghjklzxcvbnm",
        strict=True,
    )
)


class SequenceReader:
    """Translates sequences into events; unknown ones and terminal reports give none."""

    def __init__(self) -> None:
        self._table = SequenceTable()

    def read_character(self, character: str) -> list[events.Key]:
        """Return the key of a character outside a sequence; none for a C1 control."""
        return [] if "\x80" <= character <= "\x9f" else self._table.character_keys(character)

    def read_alt(self, character: str) -> list[events.Key]:
        """Return the keys of Esc followed by a character: Alt with it, or for a control the Esc key
        and it.
        """
        if character in "\r123456789":  # listed as another character, or as the bare key
            return self._table.extended_keys(ord(character), "u", _ALT, "")
        listed = self._table.listed_keys(f"\x1b{character}")
        if listed:
            return listed
        if character < " ":  # Esc and a control key, pressed one after the other
            return [events.Key("escape", "\x1b"), *self.read_character(character)]
        if "\x80" <= character <= "\x9f":
            return []
        keys = self._table.character_keys(_latin_key(character), alt=True)
        return [events.Key(key.key, character) for key in keys]

    def read_function(self, sequence: str) -> list[events.Key]:
        """Return the keys of an SS3 sequence; an unknown one is Alt+O followed by its
        characters.
        """
        old = _OLD_FUNCTION.fullmatch(sequence)
        if old is not None:
            return self._read_extended(f"1;{old[1]}", old[2])
        listed = self._table.listed_keys(sequence)
        if listed:
            return listed
        typed = [self._table.character_keys(character) for character in sequence[2:]]
        return [*self.read_alt("O"), *(key for keys in typed for key in keys)]

    def read(self, sequence: str) -> list[Message]:
        """Return the events of a CSI sequence."""
        if sequence == "\x1b[I":
            return [events.AppFocus()]
        if sequence == "\x1b[O":
            return [events.AppBlur()]
        if mouse := _MOUSE.fullmatch(sequence):
            return self._table.mouse_events(sequence) if int(mouse[1]) <= _MAX_BUTTON else []
        if mode := _MODE_REPORT.fullmatch(sequence):
            return _read_mode(mode[1], int(mode[2]))
        if size := _RESIZE.fullmatch(sequence):
            return self._read_size(*map(int, size.groups()))
        if other := _OTHER_KEY.fullmatch(sequence):
            return [*self._read_extended(f"{other[2]};{other[1]}", "u")]
        if extended := _EXTENDED.fullmatch(sequence):
            keys = self._read_extended(extended[1], extended[2])
            return [*(keys or self._table.listed_keys(sequence))]
        return [*self._table.listed_keys(sequence)]

    def _read_size(self, height: int, width: int, high: int, wide: int) -> list[Message]:
        if not (0 < width <= _MAX_COLUMNS and 0 < height <= _MAX_ROWS and wide and high):
            return []
        return [self._table.resize_event((width, height), (wide, high))]

    def _read_extended(self, parameters: str, final: str) -> list[events.Key]:
        fields = [_parse_field(field) for field in parameters.split(";")]
        (code, shifted, base), (modifiers, kind, _), codes, *_ = (
            _pad_to_three(fields[0]),
            _pad_to_three(fields[1] if len(fields) > 1 else []),
            fields[2] if len(fields) > 2 else [],
        )
        bits = max(modifiers or 1, 1) - 1 & _MODIFIER_BITS
        if kind == _RELEASE:
            return []
        if final != "u":
            code = 1 if code is None else code
            known = f"{code}{final}" in FUNCTIONAL_KEYS
            return self._table.extended_keys(code, final, bits, "") if known else []
        text = "".join(chr(number) for number in codes if number and _is_text(number))
        if bits & ~_SHIFT & ~_ALT:
            # AltGr, where it comes as Ctrl and Alt, types; Ctrl with a letter never does.
            altgr = bool(text) and bits & (_CTRL | _ALT) == _CTRL | _ALT
            bits, text = (0, text) if altgr else (bits, "")
        code = code or 0
        if f"{code}u" in FUNCTIONAL_KEYS:
            return self._table.extended_keys(code, "u", bits, text)
        if text:
            return self._table.extended_keys(code, "u", bits, text)
        if not _is_text(code):
            return []
        if not bits & ~_SHIFT:
            typed = chr(shifted) if bits and shifted and _is_text(shifted) else chr(code)
            typed = typed.upper() if bits and len(typed.upper()) == 1 else typed
            return self._table.extended_keys(code, "u", bits, typed)
        if code > 127 and base is not None and 32 < base < 127:
            code = base
        letter = _latin_key(chr(code)).lower()  # Shift is in the modifier bits
        return self._table.extended_keys(ord(letter[0]), "u", bits, "")


def _read_mode(mode: str, setting: int) -> list[Message]:
    if mode == "2026":
        return [messages.TerminalSupportsSynchronizedOutput()] if setting else []
    if constants.SMOOTH_SCROLL and not IS_ITERM:
        return [messages.InBandWindowResize.from_setting_parameter(setting)]
    return []


def _parse_field(field: str) -> list[int | None]:
    """Parse the numbers of a field separated by colons; None for an empty or absurdly long one."""
    return [int(part) if part and len(part) <= 7 else None for part in field.split(":")]


def _pad_to_three(numbers: list[int | None]) -> tuple[int | None, int | None, int | None]:
    first, second, third, *_ = [*numbers, None, None, None]
    return first, second, third


def _is_text(code: int) -> bool:
    """Whether a code point is text: no control, surrogate or private use."""
    return code <= 0x10FFFF and (chr(code).isprintable() or chr(code) in WRITTEN)


def _latin_key(character: str) -> str:
    """Return the character on the same key of a Latin layout; the character itself if unknown."""
    latin = _LATIN_LETTERS.get(character.lower())
    if latin is None:
        return character
    return latin.upper() if character.isupper() else latin
