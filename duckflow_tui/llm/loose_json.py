"""Lenient reading of an object or list in a model's answer: with comments, with Python
literals, in a code fence, or among several. Only for answers that are judged and never executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, cast

from duckflow_tui.llm.strict_json import MOST_READ, NotStrict, first_object, parse_object
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.lenient import field_name

_MAX_ATTEMPTS: Final = 100  # opening braces of one answer that are tried

#: One token: a string in either quotes, a comment, punctuation, a word or number, or space.
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]++|\\.)*+"' + r"|'(?:[^'\\]++|\\.)*+'"
    r"|//[^\n]*|\#[^\n]*|/\*.*?\*/|[{}\[\],:()]|[^\s\"'{}\[\],:()#/]++|\s++|/",
    re.S,
)
#: Literals and tuples of Python.
_REPLACED: Final = {"True": "true", "False": "false", "None": "null", "(": "[", ")": "]"}
_JSON_SCALAR: Final = re.compile(r"true|false|null|-?\d.*|\.\d+")


#: Where an object begins, or at the beginning of a line a list of objects or texts; a bracket in a
#: sentence is neither.
_BEGIN: Final = re.compile(
    r"""\{(?=\s*(?:["'}/\#]|\w+\s*:))|^[ \t]*(?P<list>\[)(?=\s*[{"'\]])""", re.M
)


def read_value(text: str, known: Iterable[str]) -> JsonObject | list[object]:
    """The first complete object or list of an answer that has one of the ``known`` fields, else the
    first. An answer that is the JSON of a text is read as that text.

    Raises NotStrict where none is complete or the answer has more than 1,000,000 characters.
    """
    if len(text) > MOST_READ:
        raise NotStrict("too_long", limit=f"{MOST_READ:,}")
    text = _unquote_text(text.strip())
    names = frozenset(known)
    first: JsonObject | list[object] | None = None
    wrong = NotStrict("none")
    at = tried = 0
    while (begin := _BEGIN.search(text, at)) and tried < _MAX_ATTEMPTS:
        tried += 1
        at = begin.start("list") if begin["list"] else begin.start()
        written, end = first_object(text, at, _TOKEN, _convert_piece)
        if not written:
            if first is None:  # cut off: an inner object must not be taken for the whole
                parse_object(text[at:], mend=False)  # says where
            break
        try:
            found: Any = parse_object(f'{{"found": {written}}}')["found"]
        except NotStrict as error:
            wrong, at = error, at + 1
            continue
        if not isinstance(found, list) and not names.isdisjoint(map(field_name, found)):
            return cast("JsonObject", found)
        first, at = first or cast("list[object]", found), end
    if first is None:
        raise wrong
    return first


def _unquote_text(text: str) -> str:
    """The text that a JSON string holds; any other text unchanged."""
    if text.startswith('"') and text.endswith('"'):
        try:
            return str(json.loads(text))
        except (ValueError, RecursionError):
            pass  # two strings, or words in quotes
    return text


def _convert_piece(piece: str) -> str:
    """Rewrite one token as JSON; a comment becomes a space."""
    if piece.startswith(("//", "#", "/*")):
        return " "
    if piece[0] == "'":
        return _requote(piece)
    if piece[0] == '"' or piece in "{[}],:" or piece.isspace():
        return piece
    piece = _REPLACED.get(piece, piece)
    return piece if piece in "[]" or _JSON_SCALAR.fullmatch(piece) else json.dumps(piece)


def _requote(string: str) -> str:
    """Rewrite a single-quoted string with double quotes."""
    return '"' + string[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
