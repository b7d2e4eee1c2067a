"""The base of every value in the state, and how text is cut to a limit."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

#: JSON object as it came from a model or goes to a tool; values are JSON values only.
JsonObject = dict[str, Any]

ELLIPSIS = "…"
MAX_BRIEF = 300  # characters of a value from outside that a sentence repeats

MOST_COUNTED: Final = 10**12

#: How many of something; a larger number, which only a journal or an export that lies holds, is
#: read as ``MOST_COUNTED``, so that it can be added, divided and shown.
Count = Annotated[int, AfterValidator(lambda number: min(number, MOST_COUNTED))]


class Frozen(BaseModel):
    """A value that is replaced, never changed; unknown fields and floats that are no number or
    without end are errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class Told(Frozen):
    """Something the app says, as a key of the words on the screen and what stands in them."""

    key: str
    params: dict[str, str] = Field(default_factory=dict)


def one_line(text: str, limit: int) -> str:
    """The text on one line, at most ``limit`` characters, the cut marked with ``…``."""
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    return flat[: limit - 1].rstrip() + ELLIPSIS


def brief(text: str, limit: int = MAX_BRIEF) -> str:
    """A value from outside inside a sentence: what is not printable is spelled out, and over
    ``limit`` characters it is cut, with the count of all.
    """
    shown = text[:limit]
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() else _spelled(char) for char in shown)[:limit]
    return shown if len(text) <= limit else f"{shown}{ELLIPSIS} ({len(text):,} characters)"


def _spelled(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def canonical_json(value: object) -> str:
    """One spelling for one JSON value: sorted keys, no spaces, text as it is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(data: bytes | str) -> str:
    """SHA-256 in hex (64 characters); text is hashed as UTF-8, lone surrogates kept."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.sha256(raw).hexdigest()
