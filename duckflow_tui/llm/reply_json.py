"""Finds and parses JSON in replies, including common deviations that have only one meaning.

``find_object`` is for replies that are executed (R16): exactly one object, and no unquoted texts.
``find_values`` is for answers that are judged and never executed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

import jiter

from duckflow_tui.llm.wire import HALF, PieceJoiner
from duckflow_tui.state.base import JsonObject, ToldError, clip_value

#: Characters of a reply that is read. Models write at most 128,000 tokens, half as much.
MOST_READ: Final = 1_000_000
_MOST_VALUES: Final = 100  # of one reply that are read to find the one that is meant
MAX_DEPTH: Final = 50  # deeper values could not be written to the journal again

#: The fence that the object stands in, before it and behind it, without the space around.
_FENCES: Final = re.compile(r"```[ \t]*+(?:json[c5]?)?\Z"), re.compile(r"```[ \t]*$", re.M)
#: Where an object begins, or at the beginning of a line a list of objects or texts; a bracket in a
#: sentence is neither.
_BEGIN: Final = re.compile(
    r"""\{(?=\s*(?:["'“/\#]|\w+\s*:))|^[ \t]*(?P<list>\[)(?=\s*[{"'“\]])""", re.M
)
#: One token: a string in any quotes, a comment, punctuation, a word or number, or space. A string
#: or comment without an end is none, so that nothing behind its beginning is searched again.
_TOKEN: Final = re.compile(
    r"\"(?:[^\"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+'|“[^”]*+”"
    r"|//[^\n]*+|\#[^\n]*+|/\*.*?\*/|[{}\[\],:]|[^\s\"'“{}\[\],:\#/]++|\s++|/(?!\*)",
    re.S,
)
_LITERALS: Final = {"True": "true", "False": "false", "None": "null"}  # as Python writes them
_JSON_SCALAR: Final = re.compile(r"true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_KEY: Final = re.compile(r"[A-Za-z_]\w*")
_ESCAPED: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)|[\x00-\x1f]", re.S)
_NO_ESCAPE: Final = re.compile(r'(?:[^\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+\\', re.S)
_ESCAPED_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
_QUOTE: Final = re.compile(r"\\(.)|\"", re.S)


class NotStrict(ToldError, ValueError):
    """Raised for a text without the expected JSON."""

    def __init__(self, name: str, /, **values: str) -> None:
        super().__init__(f"json.{name}", **values)


class ReplyObject(NamedTuple):
    """The object of a reply and the text ``around`` it."""

    data: JsonObject
    around: str = ""


class ReplyValues(NamedTuple):
    """The values of an answer, their source texts, and the text ``around`` them."""

    values: list[object]
    written: list[str]
    around: str


class _Place(NamedTuple):
    """A value in a text from ``start`` to ``end``, or the reason why it cannot be parsed."""

    value: object
    start: int
    end: int
    wrong: NotStrict | None = None


def parse_object(text: str) -> JsonObject:
    """Parse a text that is exactly one JSON object, without duplicate keys, NaN or depth over 50.
    Accepts deviations with one meaning: trailing commas, line breaks and backslashes in strings,
    other quotes, comments, unquoted keys, ``True``, ``False`` and ``None``. Truncated text is
    never completed. Raises NotStrict.
    """
    try:
        return _parse_exact_object(text)
    except NotStrict:
        written, end = convert_value(text, 0) if text.startswith("{") else ("", 0)
        if not written or text[end:].strip():
            raise
    return _parse_exact_object(written)


def find_object(text: str, known: Iterable[str]) -> ReplyObject:
    """Find the one object in a reply, ignoring other text. Of several, the one with a field in
    ``known`` is meant. Raises NotStrict if there is none or two different ones qualify, and for
    more than 1,000,000 characters or 100 objects.
    """
    text = _limit_text(text)
    wrong: NotStrict | None = None
    if text.startswith("{"):
        try:
            return ReplyObject(parse_object(text))
        except NotStrict as error:
            wrong = error
    names = frozenset(known)
    chosen: tuple[JsonObject, _Place] | None = None
    fits = differs = False
    for place in _find_places(text, is_loose=False):
        wrong = wrong or place.wrong
        if place.wrong is not None:
            continue
        data = cast("JsonObject", place.value)  # lists are not looked for
        is_fit = not names.isdisjoint(data)
        if chosen is None or (is_fit and not fits):
            chosen, fits, differs = (data, place), is_fit, False
        elif is_fit == fits:
            differs = differs or data != chosen[0]
    if wrong is not None and not fits:
        raise wrong
    if chosen is None:
        raise NotStrict("none")
    if differs:
        raise NotStrict("several")
    data, place = chosen
    before, behind = text[: place.start].rstrip(), text[place.end :].lstrip()
    if fence := _FENCES[1].match(behind):
        behind = behind[fence.end() :]
    around = f"{_FENCES[0].sub('', before).strip()}\n\n{behind.strip()}".strip()
    return ReplyObject(data, around)


def find_values(text: str) -> ReplyValues:
    """Find the objects in an answer, and lists that begin a line, in order; unquoted words become
    texts. An answer that is a JSON string is parsed as its content. A truncated value is dropped
    with all that follows.

    Raises NotStrict if no value is complete, or for more than 1,000,000 characters.
    """
    text = _limit_text(text)
    if text.startswith('"') and text.endswith('"'):
        with suppress(ValueError, RecursionError):  # two strings, or words in quotes
            text = str(json.loads(text))
    places = [*_find_places(text, is_loose=True)]
    found = [place for place in places if place.wrong is None]
    if not found:
        raise next((place.wrong for place in places if place.wrong), NotStrict("none"))
    around: list[str] = []
    at = 0
    for place in places:
        around.append(text[at : place.start])
        at = place.end or len(text)  # behind a cut value is none
    around.append(text[at:])
    values, written = [p.value for p in found], [text[p.start : p.end] for p in found]
    return ReplyValues(values, written, "\n".join(around))


def _limit_text(text: str) -> str:
    """Strip a text; raises NotStrict if it is too long."""
    if len(text) > MOST_READ:
        raise NotStrict("too_long", limit=f"{MOST_READ:,}")
    return text.strip().removeprefix("\ufeff").strip()


def _find_places(text: str, *, is_loose: bool) -> Iterator[_Place]:
    """Yield the outermost objects of a text, with ``is_loose`` also lists. A truncated value is
    yielded as wrong and is the last. Raises NotStrict for more than 100.
    """
    at = count = 0
    while begin := _BEGIN.search(text, at):
        if begin["list"] and not is_loose:
            at = begin.end()
            continue
        count += 1
        if count > _MOST_VALUES:
            raise NotStrict("too_many", limit=str(_MOST_VALUES))
        start = begin.start("list") if begin["list"] else begin.start()
        written, at = convert_value(text, start, is_loose=is_loose)
        try:
            value = parse_exact(written or text[start:])
        except NotStrict as error:
            yield _Place(None, start, at, error)
            if not written:
                return
        else:
            yield _Place(value, start, at)


def convert_value(text: str, start: int, *, is_loose: bool = False) -> tuple[str, int]:
    """Rewrite the object or list at ``start`` as standard JSON; return it and its end in ``text``.
    Returns an empty text if it has no end. With ``is_loose`` unquoted words become strings.
    """
    parts: list[str] = []
    opened: list[str] = []  # the brackets around the next token
    is_key, at = False, start
    while match := _TOKEN.match(text, at):
        piece, at = match.group(), match.end()
        if piece in ("{", "["):
            opened.append(piece)
        elif piece in ("}", "]"):
            opened.pop()
            while parts[-1].isspace():
                parts.pop()
            if parts[-1] == ",":
                parts.pop()
        else:
            piece = _convert_piece(piece, is_text=is_loose or (is_key and _KEY.fullmatch(piece)))
        parts.append(piece)
        if not opened:
            return "".join(parts), at
        is_key = opened[-1] == "{" and (piece in ("{", ",") or (is_key and piece.isspace()))
    return "", at


def _convert_piece(piece: str, *, is_text: object) -> str:
    """Rewrite one token as JSON: a comment becomes a space, a word a string if ``is_text``."""
    if piece.startswith(("//", "#", "/*")):
        return " "
    if piece[0] == "“":
        return json.dumps(piece[1:-1])
    if piece[0] == "'":
        inner = _QUOTE.sub(lambda sign: _convert_quote(sign.group()), piece[1:-1])
        return _escape_string(f'"{inner}"')
    if piece[0] == '"':
        return _escape_string(piece)
    piece = _LITERALS.get(piece, piece)
    if not is_text or piece in ",:" or piece.isspace() or _JSON_SCALAR.fullmatch(piece):
        return piece
    return json.dumps(piece)


def _convert_quote(sign: str) -> str:
    """Convert an escape or quote in a single-quoted string to its form in a double-quoted one."""
    return {"\\'": "'", '"': '\\"'}.get(sign, sign)


def _escape_string(string: str) -> str:
    """Escape line breaks and lone backslashes in a JSON string."""
    raw = _NO_ESCAPE.match(string) is not None  # it has a backslash that escapes nothing

    def escape(match: re.Match[str]) -> str:
        """Return an escape unchanged if it is valid, else escaped."""
        sign = match.group()
        # Beside \d and \w a \b is the end of a word and not the control character.
        kept = '"\\/nrt' if raw else '"\\/nrtbf'
        if len(sign) > 2 or (len(sign) == 2 and sign[1] in kept):
            return sign
        return json.dumps(sign)[1:-1]

    return _ESCAPED.sub(escape, string)


def _parse_exact_object(text: str) -> JsonObject:
    """Parse standard JSON that must be an object; raises NotStrict."""
    value = parse_exact(text)
    if not isinstance(value, dict):
        raise NotStrict("no_object")
    return cast("JsonObject", value)


def parse_exact(text: str) -> object:
    """Parse standard JSON within the bounds of ``parse_object``; raises NotStrict."""
    try:
        value: object = jiter.from_json(
            text.encode("utf-8"), allow_inf_nan=False, catch_duplicate_keys=True
        )
    except ValueError as error:
        if HALF.search(text) or (_ESCAPED_HALF.search(text) and "hex escape" in str(error)):
            raise NotStrict("half_of_pair") from None
        raise NotStrict("not_valid", problem=clip_value(str(error))) from None
    _check_values(value)
    return value


def _check_values(root: object) -> None:
    """Check depth and numbers of a parsed value; raises NotStrict. Iterative, because the depth is
    unknown.
    """
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
    """Extracts the string under the top-level key ``reply`` from JSON while it arrives.

    Scans each character once, whatever the size of the pieces (O(n) over the stream).
    """

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._show = PieceJoiner(emit)
        self._depth = 0
        self._in_string = False
        self._is_key = True  # the next string at depth 1 is a key
        self._current = ""  # the current key, being read or with its value being read
        self._pending = ""  # an escape that is not whole yet
        self._done = False  # the object has ended or is invalid, which the strict parse reports
        self.keys: set[str] = set()  # top-level ones whose value has begun

    def feed(self, text: str) -> None:
        """Take the next piece of the stream."""
        text, self._pending = self._pending + text, ""
        at = 0
        while at < len(text) and not self._done:
            at = self._read_string(text, at) if self._in_string else self._skip_structure(text, at)

    def _skip_structure(self, text: str, at: int) -> int:
        """Process text outside strings up to the next structural character; return the position
        after it.
        """
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
        """Process a string up to its end, or the end of the text; return the position."""
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
    """Return the character of an escape."""
    code, sign = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPES.get(sign, sign)
