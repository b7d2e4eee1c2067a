"""JSON of a reply: found in the text, read where it has one meaning only, then held to strict
rules, because it will be acted on (R16).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, cast

import jiter

from duckflow_tui.llm.wire import HALF, PieceJoiner
from duckflow_tui.state.base import JsonObject, ToldError, clip_value

#: Characters of a reply that is read. Models write at most 128,000 tokens, half as much.
MOST_READ: Final = 1_000_000
_MOST_OBJECTS: Final = 100  # of one reply that are read to find the one that is meant
_ESCAPED_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
MAX_DEPTH: Final = 50  # deeper values could not be written to the journal again

#: The fence that the object stands in, before it and behind it, without the space around.
_FENCES: Final = re.compile(r"```[ \t]*+(?:json[c5]?)?\Z"), re.compile(r"```[ \t]*$", re.M)
_BEGIN: Final = re.compile(r'\{(?=\s*")')
#: A string to its end, a sign, a number or word, the space between.
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]|[^\s"{}\[\],:]++|\s++', re.S)
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}  # as Python writes them
_ESCAPED: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)|[\x00-\x1f]", re.S)
_NO_ESCAPE: Final = re.compile(r'(?:[^\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+\\', re.S)


class NotStrict(ToldError, ValueError):
    """A text that is not one JSON object."""

    def __init__(self, name: str, /, **values: str) -> None:
        super().__init__(f"json.{name}", **values)


class ReplyObject(NamedTuple):
    """The object of a reply, as it was written, and the other text ``around`` it."""

    data: JsonObject
    around: str = ""
    written: str = ""


def _mend_string(string: str) -> str:
    """A string of JSON whose line breaks and lone backslashes are escaped."""
    raw = _NO_ESCAPE.match(string) is not None  # it holds a backslash that escapes nothing

    def escaped(match: re.Match[str]) -> str:
        sign = match.group()
        # Beside \d and \w a \b is the end of a word and not the control character.
        kept = '"\\/nrt' if raw else '"\\/nrtbf'
        if len(sign) > 2 or (len(sign) == 2 and sign[1] in kept):
            return sign
        return json.dumps(sign)[1:-1]

    return _ESCAPED.sub(escaped, string)


def _mend_piece(piece: str) -> str:
    return _mend_string(piece) if piece[0] == '"' else _WORDS.get(piece, piece)


def parse_object(text: str, *, mend: bool = True) -> JsonObject:
    """One object, nothing behind it: no duplicate keys, no NaN, no depth over 50.

    With ``mend``, what can mean one thing only is read as that: a comma too many, a line break
    inside a string, a backslash that escapes nothing, ``True``, ``False`` and ``None``. What is cut
    off is never completed. Raises NotStrict.
    """
    try:
        value: object = jiter.from_json(
            text.encode("utf-8"), allow_inf_nan=False, catch_duplicate_keys=True
        )
    except ValueError as error:
        mended, end = first_object(text, 0) if mend and text.startswith("{") else ("", 0)
        if mended and not text[end:].strip():
            return parse_object(mended, mend=False)
        if HALF.search(text) or (_ESCAPED_HALF.search(text) and "hex escape" in str(error)):
            raise NotStrict("half_of_pair") from None
        raise NotStrict("not_valid", problem=clip_value(str(error))) from None
    if not isinstance(value, dict):
        raise NotStrict("no_object")
    _check_values(cast("object", value))
    return cast("JsonObject", value)


def find_object(text: str, known: Iterable[str]) -> ReplyObject:
    """The one object of a reply, whatever else is written around it. Where there are several, it is
    the one with a field that is ``known``. Raises NotStrict when there is none, when two different
    ones could be meant, and for a reply over 1,000,000 characters or with over 100 objects.
    """
    if len(text) > MOST_READ:
        raise NotStrict("too_long", limit=f"{MOST_READ:,}")
    text = text.strip().removeprefix("\ufeff").strip()
    wrong: NotStrict | None = None
    if text.startswith("{"):
        try:
            return ReplyObject(parse_object(text), written=text)
        except NotStrict as error:
            wrong = error
    names = frozenset(known)
    chosen: tuple[JsonObject, int, int] | None = None  # where it begins and ends
    fits = differs = False
    at = count = 0
    while begin := _BEGIN.search(text, at):
        count += 1
        if count > _MOST_OBJECTS:
            raise NotStrict("too_many", limit=str(_MOST_OBJECTS))
        mended, at = first_object(text, begin.start())
        try:
            if not mended:
                parse_object(text[begin.start() :], mend=False)
                break
            data = parse_object(mended, mend=False)
        except NotStrict as error:
            wrong = wrong or error
            if not mended:
                break  # what it holds inside is never taken for the whole
            continue
        is_fit = not names.isdisjoint(data)
        if chosen is None or (is_fit and not fits):
            chosen, fits, differs = (data, begin.start(), at), is_fit, False
        elif is_fit == fits:
            differs = differs or data != chosen[0]
    if wrong is not None and not fits:
        raise wrong
    if chosen is None:
        raise NotStrict("none")
    if differs:
        raise NotStrict("several")
    data, start, end = chosen
    before, behind = text[:start].rstrip(), text[end:].lstrip()
    if fence := _FENCES[1].match(behind):
        behind = behind[fence.end() :]
    around = f"{_FENCES[0].sub('', before).strip()}\n\n{behind.strip()}".strip()
    return ReplyObject(data, around, text[start:end])


def first_object(
    text: str,
    start: int,
    token: re.Pattern[str] = _TOKEN,
    rewrite: Callable[[str], str] = _mend_piece,
) -> tuple[str, int]:
    """The object that begins at ``start``, rewritten, and where it ends; empty where it does not.
    ``rewrite`` gives each ``token`` as JSON has it, by default mended; a comma too many goes.
    """
    parts: list[str] = []
    depth, at = 0, start
    while match := token.match(text, at):
        piece, at = rewrite(match.group()), match.end()
        if piece in ("{", "["):
            depth += 1
        elif piece in ("}", "]"):
            depth -= 1
            while parts[-1].isspace():
                parts.pop()
            if parts[-1] == ",":
                parts.pop()
        parts.append(piece)
        if not depth:
            return "".join(parts), at
    return "", at


def _check_values(root: object) -> None:
    """Walk without recursion: the depth is what must be found out."""
    level: list[object] = [root]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise NotStrict("too_deep", limit=str(MAX_DEPTH))
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(cast("dict[str, Any]", value).values())
            elif isinstance(value, list):
                inner.extend(cast("list[Any]", value))
            elif isinstance(value, float) and not math.isfinite(value):
                raise NotStrict("number_too_large")
            elif isinstance(value, int) and abs(value) >= 1 << 128:
                raise NotStrict("number_too_long")
        level = inner


_STRUCTURE: Final = re.compile(r'["{}\[\],:]')

#: The inside of a string as far as it is whole, and an escape in it.
_STRING: Final = re.compile(r'(?:[^"\\]++|\\(?:[^u]|u[0-9a-fA-F]{4}))*', re.S)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.S)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LONGEST_ESCAPE: Final = 6
_LONGEST_KEY: Final = 64  # characters of a key that are kept, far more than any that is looked for


class ReplyPreview:
    """Gives out the string under the top-level key ``reply`` as its characters arrive.

    Every character is looked at once, whatever the sizes of the pieces (O(n) over the stream).
    """

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._show = PieceJoiner(emit)
        self._depth = 0
        self._in_string = False
        self._is_key = True  # the next string at depth 1 is a key
        self._current = ""  # the key that is read, or whose value comes
        self._pending = ""  # an escape that is not whole yet
        self._done = False  # the object has ended, or is none: the strict parse will say so
        self.keys: set[str] = set()  # top-level ones whose value has begun

    @property
    def has_ended(self) -> bool:
        """Whether the object has come to its end."""
        return self._done and not self._depth

    def feed(self, text: str) -> None:
        """Take the next piece of the stream."""
        text, self._pending = self._pending + text, ""
        at = 0
        while at < len(text) and not self._done:
            at = self._read_string(text, at) if self._in_string else self._skip_structure(text, at)

    def _skip_structure(self, text: str, at: int) -> int:
        """To behind the next sign that says something; before the object only its brace does."""
        if not self._depth:
            at = text.find("{", at)
            if at < 0:
                return len(text)
        match = _STRUCTURE.search(text, at)
        if match is None:
            return len(text)
        char = match.group()
        if char == '"':
            self._in_string = True
            if self._depth == 1 and self._is_key:
                self._current = ""
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
            self._done = self._depth == 0
        elif self._depth == 1:
            self._is_key = char == ","
            if char == ":":
                self.keys.add(self._current)
        return match.end()

    def _read_string(self, text: str, at: int) -> int:
        """To the end of the string, or of what there is of it."""
        match = _STRING.match(text, at)
        end = at if match is None else match.end()
        piece = _ESCAPE.sub(_unescape_match, text[at:end])
        if self._depth == 1 and self._is_key:
            self._current = (self._current + piece)[:_LONGEST_KEY]
        elif self._depth == 1 and self._current == "reply":
            self._show.feed(piece)
        if end == len(text):
            return end
        if text[end] == '"':
            self._show.feed("", final=True)
            self._in_string = False
            return end + 1
        self._done = len(text) - end >= _LONGEST_ESCAPE
        self._pending = text[end:]
        return len(text)


def _unescape_match(escape: re.Match[str]) -> str:
    code, sign = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPES.get(sign, sign)
