"""Judges the calls of each loop as progress or repeats, and detects when the work is stuck.

A repeat counts only in a loop without progress; a change back to earlier content counts also if
something new was read in the same loop. Many different calls without new information count as stuck
too. Calls that were refused, denied, skipped or stopped count nowhere (R20); a call with invalid
arguments only counts as bringing nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from duckflow_tui.state.base import canonical_json, hash_data
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.lines import split_bare_lines
from duckflow_tui.state.operations import Effect, Outcome, describe_target
from duckflow_tui.state.pace import Reason
from duckflow_tui.work.vitals import ConsultCause, ProgressKind, make_reason

STUCK_AT: Final = 4  # repeats of an action or result without progress
FRUITLESS: Final = 8  # different calls in a row that brought nothing, in two loops or more
RETURNS: Final = 3  # changes in a row back to earlier content: caught at the fourth turn

# R20a
RAN: Final = (Outcome.OK, Outcome.ERROR, Outcome.INVALID)  # outcomes relevant to progress
_PATHS: Final = ("path", "source", "target")
_SLASHES: Final = re.compile(r"/{2,}")


@dataclass(frozen=True, slots=True)
class ProgressSign:
    """A sign of progress; ``what`` is a path, a command or the name of a step."""

    kind: ProgressKind
    what: str
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeat:
    """A call that was repeated without progress, for the ``times``-th time."""

    operation: str
    what: str
    times: int
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopSigns:
    """The judgement of one loop. ``outcomes``: successes and failures that say something about the
    work, oldest first.
    """

    progress: tuple[ProgressSign, ...] = ()
    repeat: Repeat | None = None
    fruitless: bool = False  # calls ran, and none of them brought anything
    outcomes: tuple[bool, ...] = ()
    stuck: Reason | None = None  # a cause of a consultation
    refs: tuple[str, ...] = ()


Keyed = tuple[OperationMessage, str]  # a call with its key


@dataclass(slots=True)
class _Loop:
    """The judgement of a loop while its calls are examined."""

    ran: list[Keyed] = field(default_factory=list[Keyed])
    progress: list[ProgressSign] = field(default_factory=list[ProgressSign])
    repeats: list[Keyed] = field(default_factory=list[Keyed])
    outcomes: list[bool] = field(default_factory=list[bool])
    returned: set[str] = field(default_factory=set[str])  # paths back at an earlier content
    moved: bool = False  # whether there was progress other than something new that was read
    news: bool = False  # a result that is no progress but has new information
    tried: bool = False  # whether a call ran, with or without success

    def add_progress(self, kind: ProgressKind, what: str, refs: tuple[str, ...]) -> None:
        """Add a sign of progress."""
        self.progress.append(ProgressSign(kind, what, refs))
        self.moved = self.moved or kind is not ProgressKind.READ


class ProgressWatch:
    """Tracks progress in one thread of work: a turn, or one run of a step.

    ``effect_of`` returns the effect of an operation by name, None if unknown.
    """

    def __init__(self, effect_of: Callable[[str], Effect | None]) -> None:
        self._effect_of = effect_of
        self._lines: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        self._answered: set[str] = set()  # hashes of calls with their results
        self._contents: defaultdict[str, set[str]] = defaultdict(set)
        self._now: dict[str, str] = {}
        self._unverified: set[str] = set()  # paths changed and not read since
        self._green: dict[str, bool] = {}  # command → whether it went well when last run
        self._back = False  # the newest change went back to earlier content
        self._calls: Counter[str] = Counter()  # since the last progress, as the next two
        self._results: Counter[str] = Counter()
        self._returns: Counter[str] = Counter()
        self._fruitless: list[int] = []  # calls of each loop that brought nothing, as above
        self._steps_done: int | None = None

    def judge_loop(self, messages: Sequence[OperationMessage], *, steps_done: int = 0) -> LoopSigns:
        """Judge the loop that made these calls and remember it for the next ones; only calls that
        ended as OK, ERROR or INVALID count. ``steps_done``: completed steps of plans so far;
        more than at the previous loop is progress.
        """
        loop, refs = _Loop(), list[str]()
        for message in messages:
            if message.result.outcome in RAN:
                key = make_call_key(message)
                loop.ran.append((message, key))
                refs.append(message.call_id)
                self._judge_call(message, key, loop)
        if self._steps_done is not None and steps_done > self._steps_done:
            loop.add_progress(ProgressKind.STEP, str(steps_done), tuple(refs[-1:]))
        self._steps_done = steps_done
        self._count_loop(loop)
        repeat = None
        if loop.repeats and not loop.progress:
            most, key = max(loop.repeats, key=lambda repeated: self._calls[repeated[1]])
            times, again = self._calls[key], [message.call_id for message, _ in loop.repeats]
            repeat = Repeat(most.operation, describe_target(most.args), times, tuple(again))
        return LoopSigns(
            progress=tuple(loop.progress),
            repeat=repeat,
            outcomes=tuple(loop.outcomes),
            fruitless=loop.tried and bool(self._fruitless),
            stuck=self._find_stuck(loop),
            refs=tuple(refs),
        )

    def forgive_repeats(self) -> None:
        """Reset all counts of repeats: the user gave new directions, or a requirement improved."""
        self._calls.clear()
        self._results.clear()
        self._returns.clear()
        self._fruitless.clear()

    def clear_fruitless(self) -> None:
        """Reset only the count of calls that brought nothing, after the user was asked."""
        self._fruitless.clear()

    # --- one call ----------------------------------------------------------------------------

    def _judge_call(self, message: OperationMessage, key: str, loop: _Loop) -> None:
        """Judge one call by its kind, and add its signs to the loop."""
        result = message.result
        if result.outcome is Outcome.INVALID:
            return
        loop.tried = True
        good, answer = result.outcome is Outcome.OK, hash_data(f"{key} {result.text}")
        known = answer in self._answered  # this call has given this result before
        self._answered.add(answer)
        # The app's own lines, in brackets, tell nothing of what was read.
        shown = {hash(line) for line in split_bare_lines(result.text) if line[:1] != "["}
        if good and result.changes:
            self._judge_change(message, key, loop)
        elif good and result.exit_code is not None:
            self._judge_check(message, key, loop, shown)
        elif good and self._effect_of(message.operation) is Effect.READ:
            self._judge_read(message, key, loop, shown, known=known)
        else:  # neither reads nor changes: only the same call with the same result tells anything
            if known:
                loop.repeats.append((message, key))
            keeps_books = good and self._effect_of(message.operation) is Effect.STATE
            if not keeps_books and not (good and known):
                loop.outcomes.append(good)
            loop.news = loop.news or (good and not known)

    def _judge_change(self, message: OperationMessage, key: str, loop: _Loop) -> None:
        """Judge a change: content new to one of its paths is progress; a return to known content is
        a repeat.
        """
        new: list[str] = []
        for path, before, after in _iter_contents(message):
            known = self._contents[path]
            known.add(before)
            if after in known:
                loop.returned.add(path)
            else:
                new.append(path)
            known.add(after)
            self._now[path] = after
            self._unverified.add(path)
        self._back = not new
        if new:
            loop.outcomes.append(True)
            loop.add_progress(ProgressKind.DIFF, new[0], (message.call_id,))
        else:
            loop.repeats.append((message, key))

    def _judge_check(
        self, message: OperationMessage, key: str, loop: _Loop, shown: set[int]
    ) -> None:
        """Judge a command with an exit code. A failure is information, unless the command succeeded
        before. Success after failure is progress, unless it comes from a change back to earlier
        content.
        """
        good, was_green = message.result.went_well, self._green.get(key)
        if good and was_green is False and not self._back:
            loop.add_progress(ProgressKind.CHECK, describe_target(message.args), (message.call_id,))
        self._green[key] = good
        answer = hash_data(canonical_json([key, sorted(self._now.items()), good]))
        if again := answer in self._answered:
            loop.repeats.append((message, key))
        self._answered.add(answer)
        if (good and not again) or (was_green and not good):
            loop.outcomes.append(good)
        known = self._lines[message.operation, ""]
        loop.news = loop.news or (bool(shown - known) and not again)
        known |= shown

    def _judge_read(
        self, message: OperationMessage, key: str, loop: _Loop, shown: set[int], *, known: bool
    ) -> None:
        """Judge a read: lines not seen before are progress; ``known``: the same call gave this
        result before.
        """
        path, result = read_place(message), message.result
        place = message.operation, path
        first = place not in self._lines
        seen = self._lines[place]
        fresh = bool(shown - seen)
        seen |= shown
        verifies = path in self._unverified
        self._unverified.discard(path)
        # Also an empty file or folder; a search that finds nothing has shown nothing.
        if fresh or (first and not known and result.text.startswith(f"[{path}: ")):
            loop.outcomes.append(True)
            loop.add_progress(ProgressKind.READ, describe_target(message.args), (message.call_id,))
        elif verifies:
            loop.news = True
        elif known or (path and shown):
            loop.repeats.append((message, key))

    # --- the whole loop ----------------------------------------------------------------------

    def _count_loop(self, loop: _Loop) -> None:
        """Count the loop's calls and results; progress restarts the counts."""
        calls, results = Counter[str](), Counter[str]()
        for message, key in loop.ran:
            calls[key] += 1
            is_read = self._effect_of(message.operation) is Effect.READ
            if not message.result.went_well or is_read:
                results[make_result_key(message)] += 1
        if loop.progress:
            self._calls = Counter(dict.fromkeys(calls, 1))
            self._results = Counter(dict.fromkeys(results, 1))
        else:
            self._calls += calls
            self._results += results
        if loop.progress or loop.news:
            self._fruitless.clear()
        elif loop.ran:
            self._fruitless.append(len(loop.ran))
        if loop.moved:
            self._returns.clear()
        else:
            self._returns.update(loop.returned)

    def _find_stuck(self, loop: _Loop) -> Reason | None:
        """Return why the work is stuck after this loop, else None."""
        for path in () if loop.moved else sorted(loop.returned):
            if (times := self._returns[path]) >= RETURNS:
                return make_reason(ConsultCause.BACK_AND_FORTH, path=path, times=str(times))
        if loop.progress:
            return None
        for message, key in loop.ran:
            if (times := self._calls[key]) >= STUCK_AT:
                return make_same_action(message.operation, describe_target(message.args), times)
        for message, _ in loop.ran:
            if (times := self._results[make_result_key(message)]) >= STUCK_AT:
                operation = message.operation
                return make_reason(ConsultCause.SAME_RESULT, operation=operation, times=str(times))
        if loop.ran and len(self._fruitless) > 1 and sum(self._fruitless) >= FRUITLESS:
            return make_reason(ConsultCause.NOTHING_NEW, times=str(sum(self._fruitless)))
        return None


def make_same_action(operation: str, what: str, times: int) -> Reason:
    """Make the cause "the same call again without progress"."""
    return make_reason(ConsultCause.SAME_ACTION, operation=operation, what=what, times=str(times))


def _iter_contents(message: OperationMessage) -> Iterator[tuple[str, str, str]]:
    """Yield path and content hashes before and after of each change; a move yields its source and
    its target.
    """
    for change in message.result.changes:
        if change.target:
            yield change.path, change.before, ""
            yield change.target, "", change.after
        else:
            yield change.path, change.before, change.after


def make_call_key(message: OperationMessage) -> str:
    """Hash a call so that calls with equivalent arguments have equal keys."""
    args = _normalize_argument("", message.args)
    if path := read_place(message):
        args["path"] = path
    return hash_data(canonical_json([message.operation, args]))


def make_result_key(message: OperationMessage) -> str:
    """Hash operation and result text of a call."""
    return hash_data(canonical_json([message.operation, message.result.text]))


def read_place(message: OperationMessage) -> str:
    """Return the path that a call is about; empty if it has none.

    For a file that was read this is the path in the first line of the result, which may differ from
    the argument.
    """
    path = message.args.get("path")
    if not isinstance(path, str) or not path.strip():
        return ""
    asked = _normalize_path(path)
    head = message.result.text.partition("\n")[0]
    found = head[1:].partition(": ")[0] if head.startswith("[") else ""
    same = found and posixpath.basename(_normalize_path(found)) == posixpath.basename(asked)
    return _normalize_path(found) if same else asked


def _normalize_argument(name: str, value: Any) -> Any:
    """Normalize an argument for comparison: trailing blanks, spaces of commands, paths."""
    if isinstance(value, list):
        return [_normalize_argument(name, inner) for inner in cast("list[Any]", value)]
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        return {key: _normalize_argument(key, inner) for key, inner in inside.items()}
    if not isinstance(value, str):
        return value
    if name in _PATHS:
        return _normalize_path(value)
    if name == "command":
        return " ".join(value.split())
    return "\n".join(map(str.rstrip, value.rstrip().split("\n")))


def _normalize_path(path: str) -> str:
    """Normalize a path: ``./a//b/`` becomes ``a/b``."""
    path = _SLASHES.sub("/", path.strip())
    return posixpath.normpath(path) if path else ""
