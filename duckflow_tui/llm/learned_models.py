"""Learned quirks of models by origin, as refusals and replies have shown them, and the file that
stores them.

A flag learned from a refusal is stored for a week in a file shared by all processes of the user. A
flag learned only from a reply lasts for the session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from duckflow_tui.llm.codec_json import JsonRung
from duckflow_tui.llm.endpoints import Endpoint, Protocol, Target
from duckflow_tui.llm.errors import LlmError, TokenLimits
from duckflow_tui.llm.quirks import (
    BROAD,
    EXACT,
    NAMED_STATUSES,
    Flag,
    Lesson,
    Quirk,
    find_refused_parameter,
    is_about_thinking,
    is_miswritten,
)
from duckflow_tui.places import lock_folder, write_private
from duckflow_tui.state.base import Clock, JsonObject, SystemClock
from duckflow_tui.state.usage import Api

Rung = Literal["tools", "json_schema", "json_object", "text"]

#: Flags of a session, which are not stored.
_OF_SESSION: Final[frozenset[Flag]] = frozenset(
    {"takes_tools", "fails_at_tools", "writes_calls", "sends_whole", "stale_thoughts", "no_images"}
)
_OF_NOW: Final = ("failing", "replies", "window", "output", "images")  # lessons that are not kept
_NOWHERE: Final = (404, 405, 501)  # statuses of an address where there is nothing
LEAST_OUTPUT: Final = 256  # tokens; a reply that has to be shorter is no use
_MOST_LEARNED: Final = 1024 * 1024  # bytes
LEARNED_LOCK_S: Final = 0.5  # seconds to wait while another process writes
LEARNED_FOR: Final = 7 * 24 * 3600.0  # seconds


@dataclass(slots=True)
class ModelQuirks:
    """The quirks of one model at its origin: flags, refused parameters, and token limits named by
    the server in this session (0 for none).
    """

    flags: set[Flag] = field(default_factory=set[Flag])
    dropped: set[str] = field(default_factory=set[str])
    at: float = 0.0  # seconds since the epoch, of the first refusal
    window: int = 0
    output: int = 0  # most of a reply

    def has_any(self, *flags: Flag) -> bool:
        """Whether at least one of the flags is set."""
        return not self.flags.isdisjoint(flags)

    @property
    def json(self) -> JsonRung:
        """The strictest form of JSON that was not refused."""
        if "no_json_mode" in self.flags:
            return "text"
        return "json_object" if "no_schema" in self.flags else "json_schema"

    @property
    def limit_name(self) -> str:
        """The name of the parameter that limits the length of a reply."""
        return "max_completion_tokens" if "max_tokens" in self.dropped else "max_tokens"

    def rung(self, protocol: Protocol, *, calls: bool) -> Rung:
        """Choose the form of the next request: native calls, or the strictest form of JSON that was
        not refused. JSON is for questions (``calls`` is False), for the protocol ``json``, and
        unless the protocol is ``tools`` for models whose native calls were refused or unusable.
        """
        is_refused = self.has_any("no_tools", "fails_at_tools", "writes_calls")
        if not calls or protocol == "json" or (protocol != "tools" and is_refused):
            return self.json
        return "tools"

    def choose_api(self, protocol: Protocol, usual: Api) -> Api:
        """Choose the API of the next request: the Responses API for that protocol; else chat if the
        server has no other, the Responses API if the model asked for it, or ``usual``.
        """
        if protocol == "responses":
            return "responses"
        if "no_responses" in self.flags:
            return "chat"
        return "responses" if "responses" in self.flags else usual

    def learn_from(self, error: LlmError, body: JsonObject, api: Api, endpoint: Endpoint) -> Lesson:
        """Set the flag, refused parameter or token limit that a refusal shows, so that the request
        can be sent again in another form; return its lesson, or an empty text for nothing new.
        Native calls are given up only if the endpoint may step down.
        """
        if error.code in ("output_limit", "context_overflow"):
            return self.learn_limits(error.limits)
        codes = ("bad_request", "not_found", "server_error", "responses_only")
        if error.code not in codes or is_miswritten(error):
            return ""
        if api == "responses" and error.status in _NOWHERE and endpoint.protocol != "responses":
            self.flags.add("no_responses")
            return "parameter"
        excluded: set[Flag] = set() if endpoint.may_step_down else {"no_tools"}
        if lesson := self._set_flag(EXACT, error, body, excluded):
            return lesson
        if error.status in NAMED_STATUSES and (name := find_refused_parameter(error, body)):
            self.dropped.add(name)
            return "parameter"
        if lesson := self._set_flag(BROAD, error, body, excluded):
            return lesson
        if error.status in NAMED_STATUSES and is_about_thinking(error, body):
            self.dropped.add("reasoning_effort")
            return "parameter"
        return ""

    def learn_limits(self, limits: TokenLimits) -> Lesson:
        """Learn token limits from a refusal. ``output`` or ``parameter``: the same request fits
        with a shorter reply; ``window``: the request must be shorter; empty: nothing new.
        """
        room = limits.output
        if not room and 0 < limits.asked < limits.window:
            room = (limits.window - limits.asked) // 2  # so that the next request has room to grow
        if room >= LEAST_OUTPUT and not 0 < self.output <= room:
            lesson: Lesson = "parameter" if self.output else "output"
            self.output = room
            return lesson
        if limits.window and not 0 < self.window <= limits.window:
            self.window = limits.window
            return "window"
        return ""

    def _set_flag(
        self, rows: Sequence[Quirk], error: LlmError, body: JsonObject, excluded: set[Flag]
    ) -> Lesson:
        """Set the first new flag whose row matches the refusal, except ``excluded`` ones; return
        its lesson, or an empty text.
        """
        for quirk in rows:
            if quirk.flag not in self.flags | excluded and quirk.matches(error, body):
                self.flags.add(quirk.flag)
                return quirk.lesson
        return ""

    def change_body(self, body: JsonObject) -> None:
        """Adapt a request's body to the quirks, in place."""
        for quirk in (*EXACT, *BROAD):
            if quirk.change is not None and quirk.flag in self.flags:
                quirk.change(body)
        for name in self.dropped:
            body.pop(name, None)


class LearnedModels:
    """The quirks of all models, by origin and name in ``models``, stored for a week because servers
    change. ``on_lesson`` is called with each lesson and its model.
    """

    def __init__(
        self,
        path: Path | None = None,
        clock: Clock = SystemClock(),  # noqa: B008 - it has no state
        on_lesson: Callable[[Lesson, Target], None] = lambda lesson, target: None,
    ) -> None:
        """Read the file; without ``path`` nothing is stored."""
        self._path = path
        self._clock = clock
        self._on_lesson = on_lesson
        self.models: defaultdict[str, ModelQuirks] = defaultdict(ModelQuirks)
        self.models.update(self._read_file())

    def keep_lesson(self, lesson: Lesson, target: Target) -> None:
        """Report a lesson, and store it unless it only applies to this session (unexplained
        failures, bad replies, sizes that may change when the server restarts). Disk errors are
        ignored.
        """
        self._on_lesson(lesson, target)
        if lesson in _OF_NOW:
            return
        name = self.name_of(target)
        known = self.models[name]
        known.at = known.at or self._clock.now()
        lasting = replace(known, flags=known.flags - _OF_SESSION, window=0, output=0)
        self._write_change(lambda kept: kept.update({name: lasting}))

    def _read_file(self) -> dict[str, ModelQuirks]:
        """Read the stored quirks without entries older than a week; empty if unreadable."""
        known: dict[str, ModelQuirks] = {}
        if self._path is not None:
            with suppress(OSError, ValidationError):
                data = self._path.read_bytes()
                known = _LEARNED.validate_json(data) if len(data) <= _MOST_LEARNED else {}
        since = self._clock.now() - LEARNED_FOR
        return {name: entry for name, entry in known.items() if entry.at > since}

    def _write_change(self, change: Callable[[dict[str, ModelQuirks]], object]) -> None:
        """Apply ``change`` to the current content of the file, under a lock, so that entries of
        other processes are kept. Disk errors are ignored.
        """
        if self._path is None:
            return
        with suppress(OSError), lock_folder(self._path.parent, LEARNED_LOCK_S):
            change(kept := self._read_file())
            if kept:
                write_private(self._path, _LEARNED.dump_json(kept, indent=1))
            else:
                self._path.unlink(missing_ok=True)

    @staticmethod
    def name_of(target: Target) -> str:
        """Return the key of a model in ``models``."""
        return f"{target.endpoint.origin} {target.model}"

    def quirks_of(self, target: Target) -> ModelQuirks:
        """Return the quirks of a model, created if missing; learning changes them in place."""
        return self.models[self.name_of(target)]

    def forget_model(self, target: Target | None = None) -> None:
        """Delete the quirks of a model, without ``target`` of all models, also from the file."""
        if target is None:
            self.models.clear()
            self._write_change(lambda kept: kept.clear())
        else:
            name = self.name_of(target)
            self.models.pop(name, None)
            self._write_change(lambda kept: kept.pop(name, None))


_LEARNED: Final = TypeAdapter(dict[str, ModelQuirks])
