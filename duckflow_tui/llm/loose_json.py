"""Lenient reading of a JSON object in a model's answer: with comments, with Python literals, in a
code fence, or among several. Only for answers that are judged and never executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from duckflow_tui.llm.strict_json import (
    MOST_READ,
    NotStrict,
    find_object,
    first_object,
    parse_object,
)
from duckflow_tui.state.base import JsonObject

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


def read_object(text: str, known: Iterable[str]) -> JsonObject:
    """The first complete object of an answer that has one of the ``known`` fields, else the first.

    Strict JSON is preferred. Raises NotStrict, with the error of the strict reading, where no
    object is complete or the answer has more than 1,000,000 characters.
    """
    names = frozenset(known)
    try:
        return find_object(text, names).data
    except NotStrict as error:
        wrong = error
    if len(text) > MOST_READ:
        raise wrong
    first: JsonObject | None = None
    at = tried = 0
    while (at := text.find("{", at)) >= 0 and tried < _MAX_ATTEMPTS:
        tried += 1
        written, end = first_object(text, at, _TOKEN, _convert_piece)
        if not written:
            break  # cut off: an inner object must not be taken for the whole
        try:
            found = parse_object(written)
        except NotStrict:
            at += 1
            continue
        if not names.isdisjoint(key.strip().casefold() for key in found):
            return found
        first, at = first or found, end
    if first is None:
        raise wrong
    return first


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
