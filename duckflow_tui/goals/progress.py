"""What of a loop's operations is progress, what is a repeat, and when the work stands still.

A repeat counts only in a loop without progress; a change back to earlier content counts also
where something new was read beside it. What the user refused, and what was denied, skipped or
stopped, counts nowhere (R20).
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from duckflow_tui.goals.vitals import ConsultCause, ProgressKind
from duckflow_tui.state.base import canonical_json, digest, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.pace import Reason

STUCK_AT: Final = 4  # times of the same action or result without progress

RETURNS: Final = 3  # changes in a row back to earlier content: caught at the fourth turn


_RAN: Final = (Outcome.OK, Outcome.ERROR, Outcome.INVALID)

_TARGETS: Final = (
    "path",
    "source",
    "command",
    "pattern",
    "glob",
    "query",
    "url",
    "step_id",
    "goal",
)

_TARGET: Final = 80  # characters of what a call was about


@dataclass(frozen=True, slots=True)
class Progress:
    """Something moved; ``what`` is a path, a command or the name of a step."""

    kind: ProgressKind
    what: str
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same again, for the ``times``-th time."""

    operation: str
    what: str
    times: int
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopSigns:
    """What one loop showed. ``outcomes`` are those that tell of the plan, oldest first."""

    progress: tuple[Progress, ...] = ()
    repeat: Repeat | None = None
    outcomes: tuple[bool, ...] = ()
    stuck: Reason | None = None  # a cause of a consultation
    refs: tuple[str, ...] = ()


@dataclass(slots=True)
class _Loop:
    """Gathered over one loop."""

    progress: list[Progress] = field(default_factory=list[Progress])
    repeats: list[OperationMessage] = field(default_factory=list[OperationMessage])
    outcomes: list[bool] = field(default_factory=list[bool])
    ran: list[OperationMessage] = field(default_factory=list[OperationMessage])
    returned: set[str] = field(default_factory=set[str])

    @property
    def moved(self) -> bool:
        """Whether there was progress other than something new that was read."""
        return any(step.kind is not ProgressKind.READ for step in self.progress)


class ProgressWatch:
    """Belongs to one thread of work: a turn's conversation, or one run of a step.

    ``reads`` tells of an operation's name whether it only reads.
    """

    def __init__(self, reads: Callable[[str], bool]) -> None:
        self._reads = reads
        self._lines: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        self._answered: set[str] = set()  # call and result, as they were
        self._contents: defaultdict[str, set[str]] = defaultdict(set)
        self._now: dict[str, str] = {}
        self._unverified: set[str] = set()  # paths changed and not read since
        self._green: dict[str, bool] = {}  # command → whether it went well when last run
        self._back = False  # the newest change went back to earlier content
        self._calls: Counter[str] = Counter()  # since the last progress, as the next two
        self._results: Counter[str] = Counter()
        self._returns: Counter[str] = Counter()
        self._steps_done: int | None = None

    def loop(self, messages: Sequence[OperationMessage], *, steps_done: int = 0) -> LoopSigns:
        """What the loop that ran these calls showed. ``steps_done``: of the plan, by now."""
        loop = _Loop()
        for message in messages:
            if message.result.outcome not in _RAN:
                continue
            loop.ran.append(message)
            self._judge(message, loop)
        if self._steps_done is not None and steps_done > self._steps_done:
            refs = tuple(message.call_id for message in loop.ran[-1:])
            loop.progress.append(Progress(ProgressKind.STEP, str(steps_done), refs))
        self._steps_done = steps_done
        self._count(loop)
        return LoopSigns(
            progress=tuple(loop.progress),
            repeat=None if loop.progress else self._repeat(loop),
            outcomes=tuple(loop.outcomes),
            stuck=self._stuck(loop),
            refs=tuple(message.call_id for message in loop.ran),
        )

    def forgive(self) -> None:
        """Count repeats anew: the user said how to go on, or a requirement was met further."""
        self._calls.clear()
        self._results.clear()
        self._returns.clear()

    # --- one call ----------------------------------------------------------------------------

    def _judge(self, message: OperationMessage, loop: _Loop) -> None:
        result = message.result
        if result.outcome is not Outcome.OK:
            loop.outcomes.append(False)
            self._again(message, loop)
        elif result.changes:
            loop.outcomes.append(True)
            self._changed(message, loop)
        elif result.exit_code is not None:
            self._checked(message, loop)
        elif self._reads(message.operation):
            if _lines_of(message):  # a search that finds nothing tells nothing of the plan
                loop.outcomes.append(True)
            self._read(message, loop)
        else:
            loop.outcomes.append(True)
            self._again(message, loop)

    def _again(self, message: OperationMessage, loop: _Loop) -> None:
        """Neither reads nor changes: only the same call with the same result tells anything."""
        if not self._new_answer(message):
            loop.repeats.append(message)

    def _new_answer(self, message: OperationMessage) -> bool:
        answer = digest(f"{call_key(message)} {message.result.text}")
        if answer in self._answered:
            return False
        self._answered.add(answer)
        return True

    def _changed(self, message: OperationMessage, loop: _Loop) -> None:
        new: list[str] = []
        blank = only_blanks(message)
        for path, before, after in _contents(message):
            known = self._contents[path]
            known.add(before)
            if after in known:
                loop.returned.add(path)
            elif not blank:
                new.append(path)
            known.add(after)
            self._now[path] = after
            self._unverified.add(path)
        self._back = not new and not blank
        if new:
            loop.progress.append(Progress(ProgressKind.DIFF, new[0], (message.call_id,)))
        else:
            loop.repeats.append(message)

    def _checked(self, message: OperationMessage, loop: _Loop) -> None:
        """A check that fails is information, unless it was green before. One that turns green
        because a change was taken back shows nothing new.
        """
        command, good = call_key(message), message.result.went_well
        was_green = self._green.get(command)
        if good:
            loop.outcomes.append(True)
            if was_green is False and not self._back:
                what = target(message)
                loop.progress.append(Progress(ProgressKind.CHECK, what, (message.call_id,)))
        elif was_green:
            loop.outcomes.append(False)
        self._green[command] = good
        answer = digest(canonical_json([command, sorted(self._now.items()), good]))
        if answer in self._answered:
            loop.repeats.append(message)
        self._answered.add(answer)

    def _read(self, message: OperationMessage, loop: _Loop) -> None:
        path = read_place(message)
        place = message.operation, path
        first = place not in self._lines
        known = self._lines[place]
        shown = _lines_of(message)
        fresh = bool(shown - known)
        known |= shown
        new_answer = self._new_answer(message)
        verifies = path in self._unverified
        self._unverified.discard(path)
        if fresh or (first and new_answer):
            what = target(message)
            loop.progress.append(Progress(ProgressKind.READ, what, (message.call_id,)))
        elif not verifies and (path or not new_answer):
            loop.repeats.append(message)

    # --- the whole loop ----------------------------------------------------------------------

    def _count(self, loop: _Loop) -> None:
        calls = Counter(call_key(message) for message in loop.ran)
        results = Counter(
            result_key(message)
            for message in loop.ran
            if not message.result.went_well or self._reads(message.operation)
        )
        if loop.progress:
            self._calls = Counter(dict.fromkeys(calls, 1))
            self._results = Counter(dict.fromkeys(results, 1))
        else:
            self._calls += calls
            self._results += results
        if loop.moved:
            self._returns.clear()
        else:
            self._returns += Counter(loop.returned)

    def _repeat(self, loop: _Loop) -> Repeat | None:
        if not loop.repeats:
            return None
        most = max(loop.repeats, key=lambda message: self._calls[call_key(message)])
        refs = tuple(message.call_id for message in loop.repeats)
        return Repeat(most.operation, target(most), self._calls[call_key(most)], refs)

    def _stuck(self, loop: _Loop) -> Reason | None:
        for path in () if loop.moved else sorted(loop.returned):
            if (times := self._returns[path]) >= RETURNS:
                return _cause(ConsultCause.BACK_AND_FORTH, path=path, times=str(times))
        if loop.progress:
            return None
        for message in loop.ran:
            if (times := self._calls[call_key(message)]) >= STUCK_AT:
                return same_action(message.operation, target(message), times)
        for message in loop.ran:
            if (times := self._results[result_key(message)]) >= STUCK_AT:
                operation = message.operation
                return _cause(ConsultCause.SAME_RESULT, operation=operation, times=str(times))
        return None


def target(message: OperationMessage) -> str:
    """What a call was about, on one line; empty where its arguments name nothing."""
    named = (message.args.get(name) for name in _TARGETS)
    found = next((value for value in named if isinstance(value, str) and value), "")
    return one_line(found, _TARGET)


def same_action(operation: str, what: str, times: int) -> Reason:
    """The same call came again without getting further."""
    return _cause(ConsultCause.SAME_ACTION, operation=operation, what=what, times=str(times))


def _cause(code: ConsultCause, **params: str) -> Reason:
    return Reason(code=code.value, params=params)


def _lines_of(message: OperationMessage) -> set[int]:
    """The lines that a read showed, without the app's own in brackets."""
    return {hash(line) for line in message.result.text.splitlines() if line[:1] != "["}


def _contents(message: OperationMessage) -> Iterator[tuple[str, str, str]]:
    """Path, content before and content after; a move empties one place and fills the other."""
    for change in message.result.changes:
        if change.target:
            yield change.path, change.before, ""
            yield change.target, "", change.after
        else:
            yield change.path, change.before, change.after


_PATHS: Final = ("path", "source", "target")

_SLASHES: Final = re.compile(r"/{2,}")


def call_key(message: OperationMessage) -> str:
    """The same for calls that ask for the same."""
    args = {name: _plain(name, value) for name, value in message.args.items()}
    if path := read_place(message):
        args["path"] = path
    return digest(canonical_json([message.operation, args]))


def result_key(message: OperationMessage) -> str:
    """The same for calls of one operation that answered the same."""
    return digest(canonical_json([message.operation, message.result.text]))


def read_place(message: OperationMessage) -> str:
    """What a call with a path is about; empty for a call without one.

    A file that was read is named by the first line of the result, wherever the path led to it.
    """
    path = message.args.get("path")
    if not isinstance(path, str) or not path.strip():
        return ""
    plain = _spelled(path)
    head = message.result.text.partition("\n")[0]
    found = head[1:].partition(": ")[0] if head.startswith("[") else ""
    same = found and posixpath.basename(_spelled(found)) == posixpath.basename(plain)
    return _spelled(found) if same else plain


def only_blanks(message: OperationMessage) -> bool:
    """Whether the changes are in blanks at the end of lines and in empty lines alone."""
    previews = message.gate.previews if message.gate is not None else message.previews
    hunks = [hunk for preview in previews for hunk in preview.hunks]
    if not hunks or any(preview.kind != "modify" for preview in previews):
        return False
    for hunk in hunks:
        old, new = (
            [text for line in hunk.lines if line.mark == mark and (text := line.text.rstrip())]
            for mark in ("-", "+")
        )
        if old != new:
            return False
    return True


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(name, inner) for inner in cast("list[Any]", value)]
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        return {key: _plain(key, inner) for key, inner in inside.items()}
    if not isinstance(value, str):
        return value
    if name in _PATHS:
        return _spelled(value)
    if name == "command":
        return " ".join(value.split())
    return "\n".join(line.rstrip() for line in value.rstrip().split("\n"))


def _spelled(path: str) -> str:
    """A path without detours: ``./a//b/`` is ``a/b``."""
    path = _SLASHES.sub("/", path.strip())
    return posixpath.normpath(path) if path else ""
