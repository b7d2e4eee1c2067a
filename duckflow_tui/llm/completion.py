"""A completion as it is put together from the pieces of a stream."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from duckflow_tui.llm.reply_parts import Hear, ReplySplitter
from duckflow_tui.llm.wire import (
    PieceJoiner,
    WireCall,
    WireChunk,
    WireMessage,
    WireUsage,
    join_surrogates,
    wire_text,
)
from duckflow_tui.state.base import Clock, JsonObject, canonical_json
from duckflow_tui.state.conversation import Thought, call_key
from duckflow_tui.state.decision import MAX_ACTIONS
from duckflow_tui.state.usage import Api

#: The field of a message with the items of a response, which go back as they came.
OUTPUT: Final = "output"
_GROWING: Final = ("text", "summary", "data")  # fields of a detail that come in pieces
_NOTHING: Final = ("", "{}", "null")  # arguments that say nothing
_MOST_THOUGHT: Final = 256 * 1024  # characters of JSON
MOST_CALLS: Final = MAX_ACTIONS + 1  # kept of one reply: the actions, and the one that judges


@dataclass(slots=True)
class NativeCall:
    """A native call as far as it has arrived."""

    wire_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    extra: JsonObject = field(default_factory=dict[str, Any])  # to be sent back with it

    @property
    def argument_text(self) -> str:
        """The arguments as text, complete JSON once the stream has ended. Lone surrogates
        are kept.
        """
        return join_surrogates("".join(self.arguments))

    @property
    def is_object(self) -> bool:
        """Whether the arguments are a complete JSON object."""
        try:
            return isinstance(json.loads(self.argument_text), dict)
        except (ValueError, RecursionError):
            return False

    def split_objects(self) -> list[NativeCall]:
        """Split a call whose arguments are several concatenated objects into one call for each.
        Repeated objects and an empty one before another are dropped; only the first call keeps
        the id.
        """
        text = self.argument_text
        if len(text) > _MOST_SPLIT or _TWO_OBJECTS.search(text) is None:
            return [self]
        found: list[tuple[object, str]] = []
        at = 0
        try:
            while at < len(text):
                value, end = _DECODER.raw_decode(text, at)
                if found and found[-1][0] in ({}, value):
                    found.pop()
                found.append((value, text[at:end]))
                at = _SPACE.match(text, end).end()  # type: ignore[union-attr]  # matches always
        except (ValueError, RecursionError):
            return [self]
        return [
            NativeCall("" if number else self.wire_id, self.name, [part], self.extra)
            for number, (_, part) in enumerate(found)
        ]


_MOST_SPLIT: Final = 256 * 1024  # characters; as Python objects JSON may take 40 times its size
_TWO_OBJECTS: Final = re.compile(r"\}\s*+\{")
_SPACE: Final = re.compile(r"\s*+")
_DECODER: Final = json.JSONDecoder()


#: Finish reasons with other names on some servers; text after a colon gives details.
_FINISHES: Final = {
    "model_length": "length", "max_tokens": "length", "max_output_tokens": "length",
    "safety": "content_filter", "sensitive": "content_filter", "recitation": "content_filter",
    "prohibited_content": "content_filter", "blocklist": "content_filter", "spii": "content_filter",
    "refusal": "content_filter", "end_turn": "stop", "eos": "stop", "tool_use": "tool_calls",
}  # fmt: skip


class Completion:
    """A reply as far as it has arrived. ``finish`` or ``ended`` is set when the server ends it."""

    def __init__(
        self,
        content: Hear,
        reasoning: Hear,
        clock: Clock,
        restart: Callable[[], None] = lambda: None,
    ) -> None:
        """``content`` and ``reasoning`` are called with each piece as it arrives; ``restart`` is
        called when all pieces so far are void, before new ones come.
        """
        self._clock = clock
        self._restart = restart
        self._splitter = ReplySplitter(self._add_content, self._add_reasoning, self._restart_answer)
        self._by_index: dict[int, NativeCall] = {}
        self._content_parts: list[str] = []
        self._content_shown = PieceJoiner(content)
        self._reasoning_shown = PieceJoiner(reasoning)
        self._reasoning_parts: list[str] = []
        self._reasoning_from: float | None = None
        self._reasoning_to: float | None = None
        self._reasoning_name = ""  # the field that reasoning came in, empty for ``<think>``
        self._details: list[JsonObject] = []
        self._extra: JsonObject = {}
        self._last: NativeCall | None = None
        self.items: list[JsonObject] = []  # of a response, as they came
        self.calls: list[NativeCall] = []  # at most MOST_CALLS
        self.more_calls = 0  # that came behind these and are not kept
        self.finish = ""  # finish_reason by its usual name, empty while it has not come
        self.finish_words = ""  # the same in the server's own words
        self.ended = False  # the server said [DONE] or sent a plain completion
        self.streamed = False  # it came as a stream of events
        self.usage: WireUsage | None = None
        self.first_token_at: float | None = None  # monotonic
        self.saw_choice = False
        self.pieces = 0  # of reasoning, text or calls
        self.failed = False  # the text is a call that the server could not parse

    @property
    def text(self) -> str:
        """The content without reasoning. Lone surrogates are kept, because calls may be written in
        it.
        """
        return join_surrogates("".join(self._content_parts))

    @property
    def has_reply(self) -> bool:
        """Whether there is text or a call, not only reasoning."""
        return bool(self.calls or self.text.strip())

    @property
    def reasoning(self) -> str:
        """The reasoning, from its own field or from between tags."""
        return wire_text("".join(self._reasoning_parts))

    @property
    def reasoning_s(self) -> float:
        """Seconds from the first piece of reasoning to the first piece of the answer, or
        until now.
        """
        if self._reasoning_from is None:
            return 0.0
        end = self._reasoning_to if self._reasoning_to is not None else self._clock.monotonic()
        return max(end - self._reasoning_from, 0.0)

    def make_thought(self, origin: str, model: str) -> Thought | None:
        """Return the reasoning to send back with this message in later requests; None if there is
        none or it is over ``_MOST_THOUGHT`` characters.
        """
        fields: JsonObject = {}
        if self._details:
            fields["reasoning_details"] = self._details
        elif self._reasoning_name:
            fields[self._reasoning_name] = self.reasoning
        if self._extra:
            fields["extra_content"] = self._extra
        if self.items:
            fields = {OUTPUT: self.items}
        seen: Counter[str] = Counter()
        calls: dict[str, JsonObject] = {}
        for call in self.calls:
            seen[call.name] += 1
            if call.extra:
                calls[call_key(call.name, seen[call.name])] = call.extra
        if not fields and not calls:
            return None
        api: Api = "responses" if self.items else "chat"
        made = Thought(origin=origin, model=model, api=api, fields=fields, calls=calls)
        return made if len(canonical_json(made.model_dump())) <= _MOST_THOUGHT else None

    def add_chunk(self, chunk: WireChunk) -> None:
        """Add the next chunk of a stream, or a whole completion; only its first choice is used."""
        first = chunk.choices[0].usage if chunk.choices else None
        inside = chunk.usage or first or chunk.x_groq or {}
        if counts := inside.get("usage", inside):
            self.take_usage(counts)
        for choice in chunk.choices or ():
            if choice.index:
                continue
            self.saw_choice = True
            message = choice.delta or choice.message
            if message is not None:
                self.add_message(message)
            if choice.finish_reason:
                self.finish_words = choice.finish_reason
                kind = choice.finish_reason.partition(":")[0].strip().lower()
                self.end(_FINISHES.get(kind, kind))

    def take_usage(self, counts: JsonObject) -> None:
        """Store the server's token counts; invalid counts are ignored."""
        with suppress(ValidationError):
            self.usage = WireUsage.model_validate(counts)

    def end(self, finish: str) -> None:
        """End the reply with the server's finish reason."""
        self.finish = finish
        self.close()

    def close(self) -> None:
        """End the reply: show text that was held back, drop empty calls, and split concatenated
        ones.
        """
        self._splitter.close()
        self._content_shown.feed("", final=True)
        self._reasoning_shown.feed("", final=True)
        self._end_reasoning()
        named = (c for c in self.calls if c.name or c.argument_text.strip() not in _NOTHING)
        split = [part for call in named for part in call.split_objects()]
        self.more_calls += len(split[MOST_CALLS:])
        self.calls = split[:MOST_CALLS]

    def take_thought(self) -> None:
        """Use the reasoning as the text of a reply that has no other."""
        self._content_parts, self._reasoning_parts = [self.reasoning], []

    def take_failed(self, generation: str) -> None:
        """Use a generation that the server refused as a call as the text of the reply, without
        showing it.
        """
        self._content_parts = [generation]
        self.first_token_at = self.first_token_at or self._clock.monotonic()
        self.finish, self.failed = "stop", True

    def note_piece(self) -> None:
        """Count a piece that arrived, and note the time of the first."""
        self.pieces += 1
        if self.first_token_at is None:
            self.first_token_at = self._clock.monotonic()

    def add_message(self, message: WireMessage) -> None:
        """Add a message or a delta of one."""
        reasoning = message.reasoning_content or message.reasoning
        content, calls = message.content, message.tool_calls or []
        if message.function_call is not None:
            calls = [*calls, WireCall(function=message.function_call)]
        if isinstance(content, list):
            thoughts = (thought for part in content for thought in part.thinking or ())
            reasoning = reasoning or "".join(thought.text or "" for thought in thoughts)
            content = "".join(part.text or "" for part in content)
        text = (content or "") + (message.refusal or "")  # which is the text that it is
        if reasoning or text or calls:
            self.note_piece()
        if reasoning:
            for name in ("reasoning_content", "reasoning"):
                if getattr(message, name):
                    self._reasoning_name = name
            self._add_reasoning(reasoning)
        for detail in message.reasoning_details or ():
            self._add_detail(detail)
        self._extra |= message.extra_content or {}
        if text:
            self._splitter.feed(text)
        for piece in calls:
            self._end_reasoning()
            self._add_call(piece)

    def _add_detail(self, piece: JsonObject) -> None:
        """Append a piece to the last reasoning detail if kind and index are equal, else as a new
        detail.
        """
        last = self._details[-1] if self._details else {}
        same = all(last.get(name) == piece.get(name) for name in ("type", "index"))
        if not same or ("id" in piece and piece["id"] != last.get("id", piece["id"])):
            self._details.append(dict(piece))
            return
        for name, value in piece.items():
            old = last.get(name)
            if name in _GROWING and isinstance(value, str) and isinstance(old, str):
                # Where it is too long to be sent back, no more of it is needed.
                last[name] = old + value if len(old) <= _MOST_THOUGHT else old
            else:
                last[name] = old if value is None else value

    def _add_call(self, piece: WireCall) -> None:
        """Add a piece to its call. Tolerates servers that omit the index or always send 0, repeat
        or omit name and id, or send the name in pieces.
        """
        function = piece.function
        name = ((function and function.name) or "").partition("<|")[0]
        name = wire_text(name.removeprefix("functions."))
        call = self._find_call(piece, name)
        if call is None:
            call = NativeCall()
            if len(self.calls) < MOST_CALLS:
                self.calls.append(call)
            else:
                self.more_calls += 1
            if piece.index is not None:
                self._by_index[piece.index] = call
            self._last = call
        if name != call.name:
            call.name += name
        call.wire_id = call.wire_id or wire_text(piece.id or "")
        call.extra |= piece.extra_content or {}
        arguments = function.arguments if function else None
        if isinstance(arguments, dict):
            arguments = canonical_json(arguments)
        if arguments:
            call.arguments.append(arguments)

    def _find_call(self, piece: WireCall, name: str) -> NativeCall | None:
        """Return the call that a piece continues; None if it begins a new one."""
        if piece.index is not None:
            call = self._by_index.get(piece.index)
        else:
            same = (call for call in self.calls if piece.id and call.wire_id == piece.id)
            call = next(same, self._last)
        if call is None or not name or not call.name:
            return call
        if piece.id:
            return call if piece.id == call.wire_id else None
        is_in_pieces = bool(call.wire_id) and not call.arguments
        return call if name == call.name or is_in_pieces else None

    def _restart_answer(self) -> None:
        """Move the answer so far to the reasoning: an end tag without a beginning showed what it
        was.
        """
        thought, self._content_parts = "".join(self._content_parts), []
        self._restart()
        self._reasoning_to = None
        for part in (*self._reasoning_parts,):
            self._reasoning_shown.feed(part)
        self._add_reasoning(thought)

    def _add_content(self, text: str) -> None:
        """Add a piece of the answer and show it."""
        self._end_reasoning()
        self._content_parts.append(text)
        self._content_shown.feed(text)

    def _add_reasoning(self, text: str) -> None:
        """Add a piece of reasoning and show it."""
        if self._reasoning_from is None:
            self._reasoning_from = self._clock.monotonic()
        self._reasoning_parts.append(text)
        self._reasoning_shown.feed(text)

    def _end_reasoning(self) -> None:
        """Note the time at which the reasoning ended."""
        if self._reasoning_from is not None and self._reasoning_to is None:
            self._reasoning_to = self._clock.monotonic()
