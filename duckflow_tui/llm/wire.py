"""Parses data from the wire: event-stream lines and chunks of a completion.

The models tolerate missing fields, because servers differ, and require valid JSON.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar, cast

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from duckflow_tui.state.base import JsonObject

MAX_LINE: Final = 4 * 1024 * 1024  # bytes of one stream line (R18)
_MOST_TOKENS: Final = 100_000_000  # of one request; the largest windows take a tenth of it

#: A half of a surrogate pair, escaped or as the bytes that UTF-8 forbids.
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
_MAX_WITH_HALVES: Final = 256 * 1024  # bytes; as Python objects JSON may take 40 times its size


class LineTooLong(Exception):
    """Raised for a stream line over ``MAX_LINE`` bytes; ``beginning`` is its start."""

    def __init__(self, beginning: bytes) -> None:
        super().__init__("a stream line is over 4 MB")
        self.beginning = beginning


@dataclass(slots=True)
class LineLimit:
    """Checks that no line of a stream is over ``MAX_LINE`` bytes."""

    _length: int = field(default=0, init=False)  # of the line on its way

    def check_piece(self, piece: bytes) -> None:
        """Check the next piece of the stream; raises LineTooLong."""
        head, newline, _ = piece.partition(b"\n")
        self._length += len(head)
        if self._length > MAX_LINE:
            raise LineTooLong(piece[:4096])
        if newline:
            self._length = len(piece) - piece.rfind(b"\n") - 1


@dataclass(slots=True)
class EventReader:
    """Splits a byte stream into the data of its server-sent events, scanning each byte once.
    Comments and other fields are dropped; the data of an event named ``error`` is wrapped in an
    object as its ``error``. Raises LineTooLong.
    """

    _line: bytearray = field(default_factory=bytearray, init=False)
    _data: list[bytes] = field(default_factory=list[bytes], init=False)
    _after_cr: bool = field(default=False, init=False)  # a line feed would belong to it
    _first: bool = field(default=True, init=False)
    _is_error: bool = field(default=False, init=False)  # the name of the event that comes

    def feed(self, piece: bytes) -> list[bytes]:
        """Take a piece of the stream; return the data of the events that it completes."""
        events: list[bytes] = []
        if not piece:
            return events
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        for line in piece.splitlines(keepends=True):
            text = line.rstrip(b"\r\n")
            if len(self._line) + len(text) > MAX_LINE:  # R18c
                raise LineTooLong(bytes(self._line[:4096]) or text[:4096])
            self._line += text
            if len(text) < len(line):
                self._end_line(events)
        return events

    def finish(self) -> list[bytes]:
        """End the stream; return the data of an event without its final empty line."""
        events: list[bytes] = []
        self._end_line(events)
        self._end_line(events)  # an empty one
        return events

    def _end_line(self, events: list[bytes]) -> None:
        """Process a complete line; adds the data of an event that it ends."""
        line = bytes(self._line)
        self._line.clear()
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line.startswith(b"event:"):
            self._is_error = line[6:].strip() == b"error"
        elif not line and self._data:
            data = b"\n".join(self._data)
            events.append(_wrap_error(data) if self._is_error else data)
            self._data, self._is_error = [], False


def _wrap_error(data: bytes) -> bytes:
    """Wrap the data of an error event in a JSON object as its ``error``."""
    try:
        said: object = json.loads(data)
    except (ValueError, RecursionError):
        said = data.decode("utf-8", "replace")
    if isinstance(said, dict) and "error" in said:
        said = cast("JsonObject", said)["error"]
    return json.dumps({"error": said or "error"}).encode()


class _Wire(BaseModel):
    """Base of the models of wire data: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _drop_invalid(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    """Return the validated value; None if it is invalid."""
    try:
        return validate(value)
    except ValidationError:
        return None


def _list_objects(value: object) -> object:
    """Return an object as a list of one, and a list without nulls; anything else unchanged."""
    if isinstance(value, list):
        return [entry for entry in cast("list[object]", value) if entry is not None]
    return [cast("object", value)] if isinstance(value, dict) else value


_T = TypeVar("_T")
#: A field that a reply can do without: in another form it counts as absent.
_Minor = Annotated[_T | None, WrapValidator(_drop_invalid)]


class WireFunction(_Wire):
    """A piece of a call: the name once, the arguments in slices. (Some servers send them whole, as
    an object.)
    """

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class WireCall(_Wire):
    """A piece of one native call."""

    index: int | None = None
    id: _Minor[str] = None
    function: WireFunction | None = None
    extra_content: _Minor[dict[str, Any]] = None


class WirePart(_Wire):
    """A part of a content list: of the answer, or of reasoning (Mistral)."""

    text: str | None = None
    thinking: _Minor[list[WirePart]] = None


class WireMessage(_Wire):
    """A delta of a stream, or the message of a plain completion."""

    content: str | list[WirePart] | None = None
    reasoning_content: _Minor[str] = None
    reasoning: _Minor[str] = None
    reasoning_details: _Minor[list[dict[str, Any]]] = None
    extra_content: _Minor[dict[str, Any]] = None
    refusal: _Minor[str] = None
    tool_calls: Annotated[list[WireCall] | None, BeforeValidator(_list_objects)] = None
    function_call: WireFunction | None = None
    """The one call of a reply, as it was written before there were several."""


class WireChoice(_Wire):
    """One choice; only the first is used."""

    index: int | None = None
    delta: WireMessage | None = None
    message: WireMessage | None = None
    finish_reason: _Minor[str] = None
    usage: _Minor[dict[str, Any]] = None  # where Moonshot states them


class WireChunk(_Wire):
    """One event of the stream, or a whole completion. Unknown fields are kept, because some servers
    send errors in them.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    choices: list[WireChoice] | None = None
    usage: _Minor[dict[str, Any]] = None
    x_groq: _Minor[dict[str, Any]] = None
    """Where Groq states the counts, as its ``usage``."""
    error: Any = None


def read_chunk(event: bytes) -> WireChunk:
    """Parse an event to a chunk; lone surrogates are kept. Raises ValidationError."""
    try:
        return WireChunk.model_validate_json(event)
    except ValidationError:
        if len(event) > _MAX_WITH_HALVES or _HALF.search(event) is None:
            raise
        try:
            data: object = json.loads(event.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            data = None
        if data is None:
            raise
    return WireChunk.model_validate(data)


def read_entries(answer: object) -> list[JsonObject]:
    """Return the models in a server's list: ``{"data": […]}`` or a plain list; a ``data`` of null
    is empty. Raises ValueError for anything else.
    """
    if isinstance(answer, dict):
        answer = cast("JsonObject", answer).get("data", answer) or []
    if not isinstance(answer, list):
        raise ValueError("no list of models")
    entries = cast("list[object]", answer)
    return [cast("JsonObject", entry) for entry in entries if isinstance(entry, dict)]


_Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
_Tokens = Annotated[int, Field(strict=True, ge=0, le=_MOST_TOKENS)]


class _TokenDetails(_Wire):
    """Details of token counts."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class WireUsage(_Wire):
    """Token counts as stated by the endpoint, in the field names of either API."""

    prompt_tokens: _Tokens = Field(
        0, validation_alias=AliasChoices("prompt_tokens", "input_tokens")
    )
    completion_tokens: _Tokens = Field(
        0, validation_alias=AliasChoices("completion_tokens", "output_tokens")
    )
    total_tokens: _Minor[_Amount] = None
    prompt_details: _TokenDetails | None = Field(
        None, validation_alias=AliasChoices("prompt_tokens_details", "input_tokens_details")
    )
    reply_details: _TokenDetails | None = Field(
        None, validation_alias=AliasChoices("completion_tokens_details", "output_tokens_details")
    )
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cost: _Minor[_Amount] = None
    """US dollars, where the server states them."""

    @property
    def reply_tokens(self) -> int:
        """Tokens of the reply. If only the total includes reasoning, they are derived from it."""
        unstated = int(self.total_tokens or 0) - self.prompt_tokens
        return min(max(self.completion_tokens, unstated), _MOST_TOKENS)

    @property
    def cached(self) -> int:
        """Tokens of the prompt read from a cache, at most all of them."""
        details = self.prompt_details
        stated = (details and details.cached_tokens) or self.prompt_cache_hit_tokens
        stated = stated or self.cached_tokens or self.cache_read_input_tokens
        return min(max(stated or 0, 0), self.prompt_tokens)

    @property
    def cache_writes(self) -> int:
        """Tokens of the prompt written to a cache, at most those not read from one."""
        details = self.prompt_details
        stated = (details and details.cache_write_tokens) or self.cache_creation_input_tokens
        return min(max(stated or 0, 0), self.prompt_tokens - self.cached)

    @property
    def reasoning(self) -> int:
        """Tokens of the reply that were reasoning, at most all of them."""
        details = self.reply_details
        return min(max((details and details.reasoning_tokens) or 0, 0), self.reply_tokens)


def content_text(message: JsonObject) -> str:
    """Return the text of a message: its content, or its text parts joined; empty if it has none."""
    content: str | list[JsonObject] | None = message.get("content")
    if not isinstance(content, list):
        return content or ""
    return "\n\n".join(part["text"] for part in content if part["type"] == "text")


HALF: Final = re.compile("[\ud800-\udfff]")
_PIECES: Final = codecs.getincrementaldecoder("utf-16-le")


def wire_text(text: str) -> str:
    """Return the text as valid UTF-8 can encode it: surrogate pairs joined, lone surrogates
    replaced by ``�``.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def join_surrogates(text: str) -> str:
    """Join surrogate pairs to characters; lone surrogates are kept."""
    if text.isascii() or HALF.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class PieceJoiner:
    """Passes on text in pieces as valid UTF-8 can encode it; a surrogate pair split between pieces
    is joined.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._pieces = _PIECES("replace")

    def feed(self, piece: str, *, final: bool = False) -> None:
        """Take a piece and pass on what is complete; ``final``: no more pieces follow."""
        if text := self._pieces.decode(piece.encode("utf-16-le", "surrogatepass"), final):
            self._show(text)
