"""Base classes of values and events, clocks and ids, and helpers that cut and encode text."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from datetime import datetime, tzinfo
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Protocol, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState


#: JSON object as it came from a model or goes to a tool; values are JSON values only.
JsonObject = dict[str, Any]
ELLIPSIS = "…"
MAX_BRIEF = 300  # characters of a value from outside that a sentence repeats

MOST_COUNTED: Final = 10**12

#: How many of something; a larger number, which only a journal or an export that lies holds, is
#: read as ``MOST_COUNTED``, so that it can be added, divided and shown.
Count = Annotated[int, AfterValidator(partial(min, MOST_COUNTED))]


class Frozen(BaseModel):
    """A value that is replaced, never changed. Unknown fields, NaN and infinity are validation
    errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

    def replace(self, **fields: Any) -> Self:
        """Return a copy with these fields replaced, without validation."""
        return self.model_copy(update=fields)


class InConversation(Frozen):
    """Fields of every message of a conversation."""

    message_id: str
    step_id: str = ""  # of the plan's step it belongs to; empty: to the conversation itself
    at: float  # seconds since the epoch


class LocalizedText(Frozen):
    """A message of the app: a key of the catalogue of words, and its parameters."""

    key: str
    params: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelText:
    """A message to a model: the name of a section in the prompt files, and the values of its
    fields. A value may itself be a ModelText, or a sequence of texts, one per line.
    """

    name: str
    values: Mapping[str, str | ModelText | Sequence[str | ModelText]]


class ToldError(Exception):
    """An error whose text ``told`` is sent to a model; ``str()`` is for logs only."""

    def __init__(
        self, text: str | ModelText, /, **values: str | ModelText | Sequence[str | ModelText]
    ) -> None:
        """``text`` is the name of a section, filled with ``values``, or a ModelText."""
        self.told = text if isinstance(text, ModelText) else ModelText(text, values)
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.told.name}: {', '.join(map(str, self.told.values.values()))}"


def describe_error(error: BaseException) -> str:
    """Return the type of an error and what it says, on one line of at most 300 characters; of a
    group, those of its first error.
    """
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return describe_error(group.exceptions[0])
    return one_line(f"{type(error).__name__}: {error}".removesuffix(": "), MAX_BRIEF)


def one_line(text: str, limit: int) -> str:
    """Return the text on one line, at most ``limit`` characters; a cut is marked with ``…``."""
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    return flat[: limit - 1].rstrip() + ELLIPSIS


NAMED: Final = 6  # files that are told by name


def name_files(paths: Sequence[str]) -> str:
    """Return the first six paths, separated by commas, and the number of the others as ``…
    (+3)``.
    """
    said = ", ".join(one_line(path, 200) for path in paths[:NAMED])
    return said if len(paths) <= NAMED else f"{said}, {ELLIPSIS} (+{len(paths) - NAMED})"


#: Full-width forms of ASCII and the blank of that width, as input methods write them.
_FULL_WIDTH: Final = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}


def half_width(text: str) -> str:
    """Replace full-width forms of ASCII characters by ASCII, and nothing else. (NFKC would also
    turn ``①``, which input methods offer, into a key.)
    """
    return text.translate(_FULL_WIDTH)


def clip_value(text: str, limit: int = MAX_BRIEF) -> str:
    """Return a value from outside for use in a sentence: unprintable characters escaped, cut at
    ``limit`` characters with the total count.
    """
    shown = escape_unprintable(text[:limit])[:limit]
    return shown if len(text) <= limit else f"{shown}{ELLIPSIS} ({len(text):,} characters)"


def escape_unprintable(text: str) -> str:
    """Escape the characters of a text that are not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def canonical_json(value: object) -> str:
    """Encode a JSON value with sorted keys and no spaces, so that equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@lru_cache(maxsize=128)
def schema_of(model: type[BaseModel]) -> JsonObject:
    """Return the JSON schema of a model without the docstrings of its classes. The result is cached
    and must not be changed.
    """
    schema = model.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("description", None)
    return schema


@lru_cache(maxsize=128)
def plain_schema(model: type[BaseModel], sent: tuple[str, ...]) -> JsonObject:
    """Return a model's JSON schema with references resolved and only the keywords in ``sent``, in
    that order: servers differ in which keywords they accept. The result is cached and must not
    be changed.
    """
    schema = model.model_json_schema()
    models: JsonObject = schema.get("$defs", {})

    def simplify_node(node: JsonObject) -> JsonObject:
        if "anyOf" in node:
            node = {**next(way for way in node["anyOf"] if way != {"type": "null"}), **node}
        if "$ref" in node:
            node = {**models[node["$ref"].rpartition("/")[2]], "description": None, **node}
        kept: JsonObject = {key: node[key] for key in sent if node.get(key) is not None}
        if "description" in kept:
            kept["description"] = " ".join(kept["description"].split())
        if "items" in kept:
            kept["items"] = simplify_node(kept["items"])
        if "properties" in kept:
            fields: JsonObject = kept["properties"]
            kept["properties"] = {name: simplify_node(field) for name, field in fields.items()}
        return kept

    return simplify_node({**schema, "description": None})


def hash_data(data: bytes | str) -> str:
    """SHA-256 in hex (64 characters); text is hashed as UTF-8, lone surrogates kept."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.sha256(raw).hexdigest()


IdKind = Literal[
    "session", "msg", "turn", "call", "llm", "gate", "grant", "plan", "step", "task", "obj", "req",
    "check", "review", "work", "card", "report", "change", "proc", "compact",
]  # fmt: skip


#: Returns a new identifier of a kind at each call, ``<kind>_<8 hex digits>``, not given before in
#: this session.
IdSource = Callable[[IdKind], str]


def random_id(kind: IdKind) -> str:
    """Return an identifier from the system's random source."""
    return f"{kind}_{secrets.token_hex(4)}"


class Job(Protocol):
    """Something that runs beside the caller and can be cancelled: a task or a Textual worker."""

    def cancel(self) -> object:
        """Cancel it."""
        ...


class Spawn(Protocol):
    """Starts a coroutine beside the caller, in a group such as ``chat``, ``task`` or ``mcp``."""

    def __call__(self, coroutine: Coroutine[Any, Any, None], group: str) -> Job:
        """Start the coroutine; its exceptions go to the spawner, not to the caller."""
        ...


_LAST: Final = 1e11  # some three thousand years


class Clock(Protocol):
    """Tells the time, in seconds."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...


def parse_time(value: object) -> float:
    """Parse a time as seconds since the epoch. Raises ValueError for anything else, or over 3,000
    years away.
    """
    if not isinstance(value, int | float | str):
        raise ValueError("no time")
    try:
        at = float(value)
    except OverflowError as error:
        raise ValueError("no time") from error
    if not abs(at) <= _LAST:
        raise ValueError("no time")
    return at


def to_datetime(at: float, zone: tzinfo | None = None) -> datetime | None:
    """Convert seconds since the epoch to a datetime in ``zone`` or local time; None for 0 and for
    times outside the calendar.
    """
    try:
        return datetime.fromtimestamp(at, zone) if at else None
    except (ValueError, OverflowError, OSError):
        return None


class SystemClock:
    """The machine's own clocks."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class StateError(ValueError):
    """Raised by an event that does not fit the state; the state is unchanged then."""


class Event(Frozen):
    """A change of the state. ``kind`` names it in the journal and in ``--json``; transient events
    are shown but not journalled. ``apply`` is pure: it checks, then assigns, without clock, new
    ids or I/O.
    """

    transient: ClassVar[bool] = False
    kind: str = ""

    def __init_subclass__(cls, *, kind: str = "", transient: bool | None = None) -> None:
        """``kind`` is given where the class is defined, and no other value of it is one."""
        super().__init_subclass__()
        if transient is not None:
            cls.transient = transient
        if kind:
            cls.kind = kind
            cls.__annotations__["kind"] = Literal[kind]
            if KINDS.setdefault(kind, cls) is not cls:
                raise TypeError(f"there is an event {kind} already")

    def apply(self, state: AgentState) -> None:
        """Change the state. Raises StateError and leaves it unchanged where the event does
        not fit.
        """
        raise NotImplementedError


#: Every event by its kind; a class of events enters it by being defined.
KINDS: dict[str, type[Event]] = {}


def copy_slices(target: object, source: object, *slices: type[object]) -> None:
    """Copy the fields of these slices from source to target, lists and dicts as shallow copies."""
    for part in slices:
        for field in fields(cast("Any", part)):
            value: Any = getattr(source, field.name)
            setattr(target, field.name, copy(value) if type(value) in (list, dict) else value)


def event_from_json(values: dict[str, Any]) -> Event:
    """Build an event from its fields as journalled. Raises pydantic.ValidationError."""
    kind = values.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind].model_validate(values)
    unknown = PydanticCustomError("unknown_kind", "no event of this program")
    raise ValidationError.from_exception_data(
        "Event", [InitErrorDetails(type=unknown, loc=("kind",), input=kind)]
    )
