"""The JSON object of an answer that is weighed and never run, as models write it by hand: with
comments, in the notation of Python, in a fence, or several of which the first is meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from duckflow_tui.llm.strict_json import MOST_READ, NotStrict, find_object, parse_object
from duckflow_tui.state.base import JsonObject

_MOST_TRIED: Final = 100  # braces of one answer at which an object is looked for

#: A string in either quotes, a comment, a sign, a word or number, the space between.
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]++|\\.)*+"' + r"|'(?:[^'\\]++|\\.)*+'"
    r"|//[^\n]*|\#[^\n]*|/\*.*?\*/|[{}\[\],:()]|[^\s\"'{}\[\],:()#/]++|\s++|/",
    re.S,
)
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_PLAIN: Final = re.compile(r"true|false|null|-?\d.*|\.\d+")
_TUPLES: Final = {"(": "[", ")": "]"}


def read_object(text: str, known: Iterable[str]) -> JsonObject:
    """The first whole object of an answer that has one of the ``known`` fields, else the first.

    An object in strict JSON goes first. Raises NotStrict where none is whole, with what is wrong
    with the strict reading, and for an answer over 1,000,000 characters.
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
    while (at := text.find("{", at)) >= 0 and tried < _MOST_TRIED:
        tried += 1
        written, end = _as_json(text, at)
        if not end:
            break  # it is cut off: what it holds inside is never taken for the whole
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


def _as_json(text: str, start: int) -> tuple[str, int]:
    """The object that begins at ``start`` in the notation of JSON, and where it ends; empty where
    it has no end.
    """
    parts: list[str] = []
    depth, at = 0, start
    while token := _TOKEN.match(text, at):
        piece, at = token.group(), token.end()
        if piece.startswith(("//", "#", "/*")) or piece.isspace():
            continue
        piece = _TUPLES.get(piece, piece)
        if piece in "{[":
            depth += 1
        elif piece in "}]":
            depth -= 1
            if parts and parts[-1] == ",":
                parts.pop()
        elif piece[0] == "'":
            piece = _quoted(piece)
        elif piece not in ",:" and piece[0] != '"':
            piece = _WORDS.get(piece, piece)
            piece = piece if _PLAIN.fullmatch(piece) else json.dumps(piece)
        parts.append(piece)
        if not depth:
            return "".join(parts), at
    return "", 0


def _quoted(string: str) -> str:
    """A string in single quotes, in double ones."""
    return '"' + string[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
