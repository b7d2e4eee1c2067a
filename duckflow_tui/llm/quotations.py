"""Tells JSON that a model repeats from what it was given from JSON of its own."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Final, cast

_MOST_NEEDLES: Final = 200  # entries of one object that are looked for, the longest ones

#: An escape of JSON or of a programming language, also one that is escaped again.
_ESCAPE: Final = re.compile(r"(?<!\\)\\++(?:u(?P<u>[0-9a-fA-F]{4})|x(?P<x>[0-9a-fA-F]{2})|[nrt]|)")
#: Blanks, quotation marks, and the marks before lines of quoted, changed or commented text.
_DROPPED: Final = re.compile(r"[\s\"'`“”‘’>+*#/|-]++")
_TRAILING_COMMA: Final = re.compile(r",(?=[}\]])")


def flatten_text(text: str) -> str:
    """Return a text without case, blanks, escapes and marks, so that JSON reads the same in any
    layout, as a literal of Python, escaped for a page or a string, quoted and commented out.
    """
    text = _ESCAPE.sub(lambda m: chr(int(code, 16)) if (code := m["u"] or m["x"]) else "", text)
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _DROPPED.sub("", html.unescape(html.unescape(text)))
    return _TRAILING_COMMA.sub("", text).casefold()


def is_repeated(value: object, written: str, given: str) -> bool:
    """Whether a value that a model wrote as ``written`` occurs whole in ``given``, a flattened
    text. Only objects, and lists of objects, that hold a text, number or boolean can.
    """
    if isinstance(value, list):
        entries = cast("list[object]", value)
        return bool(entries) and all(is_repeated(entry, written, given) for entry in entries)
    if not isinstance(value, dict) or not any(_list_entries(cast("object", value))):
        return False
    forms = (written, json.dumps(value, ensure_ascii=False))
    return any(flatten_text(form) in given for form in forms)


def has_all_entries(value: object, given: str) -> bool:
    """Whether each entry of a value, its key and content together, occurs somewhere in ``given``, a
    flattened text.
    """
    longest = sorted(set(_list_entries(value)), key=len, reverse=True)[:_MOST_NEEDLES]
    return bool(longest) and all(flatten_text(entry) in given for entry in longest)


def _list_entries(value: object, key: str = "") -> Iterator[str]:
    """Yield ``key: content`` for each text, number and boolean in a value; in a list without
    the key.
    """
    if isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            yield from _list_entries(inner, f"{name}:")
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _list_entries(inner)
    elif value is not None:
        yield key + (value if isinstance(value, str) else json.dumps(value))
