"""JSON of a reply: found in the text, then parsed strictly, because it will be acted on (R16)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final, cast

import jiter

from duckflow_tui.state.base import JsonObject

MAX_DEPTH: Final = 50  # deeper values could not be written to the journal again
_FENCE: Final = re.compile(r"^[ \t]*```[ \t]*(?:json[c5]?)?[ \t]*\r?\n(.*?)^[ \t]*```", re.M | re.S)


class NotStrict(ValueError):
    """A text that is not one JSON object; the message is written for the model."""


@dataclass(frozen=True, slots=True)
class Found:
    """The object of a reply; ``around`` tells whether other text stood before or behind it."""

    data: JsonObject
    around: bool = False


def parse_object(text: str) -> JsonObject:
    """One object, nothing behind it: no duplicate keys, no NaN, no depth over 50.

    Raises NotStrict.
    """
    try:
        value: object = jiter.from_json(
            text.encode("utf-8", "replace"), allow_inf_nan=False, catch_duplicate_keys=True
        )
    except ValueError as error:
        raise NotStrict(f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise NotStrict("the JSON is not an object")
    _check(cast("object", value))
    return cast("JsonObject", value)


def find_object(text: str) -> Found:
    """The one object of a reply: bare, in a code fence, or behind some prose.

    Raises NotStrict when there is none, more than one fence with JSON, or text behind a bare
    object: what was meant is then not certain.
    """
    stripped = text.strip().removeprefix("\ufeff").strip()
    if stripped.startswith("{"):
        return Found(parse_object(stripped))
    fenced = [match.group(1).strip() for match in _FENCE.finditer(stripped)]
    objects = [body for body in fenced if body.startswith("{")]
    if len(objects) == 1:
        whole = stripped.startswith("```") and stripped.endswith("```")
        return Found(parse_object(objects[0]), around=not whole)
    if len(objects) > 1:
        raise NotStrict("there is more than one JSON object; send exactly one")
    start = stripped.find("{")
    if start < 0:
        raise NotStrict("there is no JSON object in the reply")
    return Found(parse_object(stripped[start:]), around=True)


def _check(root: object) -> None:
    """Walk without recursion: the depth is what must be found out."""
    level: list[object] = [root]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise NotStrict(f"the JSON is nested more than {MAX_DEPTH} levels deep")
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(cast("dict[str, Any]", value).values())
            elif isinstance(value, list):
                inner.extend(cast("list[Any]", value))
            elif isinstance(value, float) and not math.isfinite(value):
                raise NotStrict("a number is too large")
            elif isinstance(value, int) and abs(value) >= 1 << 128:
                raise NotStrict("a number has too many digits")
        level = inner
