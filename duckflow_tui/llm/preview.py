"""What of a reply can be read while its JSON is still arriving. For eyes only, never acted on."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

_STOP: Final = re.compile(r'["\\]')
_STRUCTURE: Final = re.compile(r'["{}\[\],:]')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_REPLACEMENT: Final = "\ufffd"


class _At(Enum):
    START = auto()  # before the object
    STRUCTURE = auto()
    STRING = auto()
    DONE = auto()


class ReplyPreview:
    """Gives out the string under one top-level key as its characters arrive.

    Every character is looked at once, whatever the sizes of the pieces (O(n) over the stream).
    """

    def __init__(self, emit: Callable[[str], None], key: str = "reply") -> None:
        self._emit = emit
        self._key = key
        self._at = _At.START
        self._depth = 0
        self._is_key = False  # the next string at depth 1 is a key
        self._current = ""  # the key whose value comes
        self._collected: list[str] = []  # of a key
        self._showing = False
        self._pending = ""  # an escape that is not whole yet
        self._high = ""  # the first half of a surrogate pair
        self.keys: list[str] = []  # top-level keys whose value has begun

    def feed(self, text: str) -> None:
        """Take the next piece of the stream."""
        if self._pending:
            text, self._pending = self._pending + text, ""
        position = 0
        shown: list[str] = []
        while position < len(text) and self._at is not _At.DONE:
            if self._at is _At.START:
                position = self._find_start(text, position)
            elif self._at is _At.STRUCTURE:
                position = self._structure(text, position)
            else:
                position = self._string(text, position, shown)
        if shown:
            self._emit("".join(shown))

    def _find_start(self, text: str, position: int) -> int:
        start = text.find("{", position)
        if start < 0:
            return len(text)
        self._at = _At.STRUCTURE
        self._depth = 1
        self._is_key = True
        return start + 1

    def _structure(self, text: str, position: int) -> int:
        match = _STRUCTURE.search(text, position)
        if match is None:
            return len(text)
        char = match.group()
        if char == '"':
            self._at = _At.STRING
            self._collected = []
            self._showing = self._depth == 1 and not self._is_key and self._current == self._key
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
            if self._depth == 0:
                self._at = _At.DONE
        elif self._depth == 1:
            self._is_key = char == ","
            if char == ":":
                self.keys.append(self._current)
        return match.end()

    def _string(self, text: str, position: int, shown: list[str]) -> int:
        match = _STOP.search(text, position)
        end = len(text) if match is None else match.start()
        if end > position:
            self._take(text[position:end], shown)
        if match is None:
            return end
        if match.group() == '"':
            self._take("", shown, flush=True)
            if self._depth == 1 and self._is_key:
                self._current = "".join(self._collected)
            self._at = _At.STRUCTURE
            return match.end()
        return self._escape(text, match.start(), shown)

    def _escape(self, text: str, start: int, shown: list[str]) -> int:
        sign = text[start + 1 : start + 2]
        length = 6 if sign == "u" else 2
        if len(text) < start + length:
            self._pending = text[start:]
            return len(text)
        if sign != "u":
            self._take(_ESCAPES.get(sign, sign), shown)
            return start + 2
        try:
            code = int(text[start + 2 : start + 6], 16)
        except ValueError:
            self._at = _At.DONE  # not JSON: the strict parse will say so
            return len(text)
        if 0xD800 <= code < 0xDC00:
            self._take("", shown, flush=True)
            self._high = chr(code)
        elif 0xDC00 <= code < 0xE000 and self._high:
            joined = 0x10000 + ((ord(self._high) - 0xD800) << 10) + (code - 0xDC00)
            self._high = ""
            self._take(chr(joined), shown)
        else:
            self._take(_REPLACEMENT if 0xDC00 <= code < 0xE000 else chr(code), shown)
        return start + 6

    def _take(self, text: str, shown: list[str], *, flush: bool = False) -> None:
        if self._high and (text or flush):
            text, self._high = _REPLACEMENT + text, ""
        if not text:
            return
        if self._showing:
            shown.append(text)
        elif self._depth == 1 and self._is_key:
            self._collected.append(text)
