"""What a consultation shows of the work so far: what was tried, and what was reached (S0-38)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from duckflow_tui.goals.progress import target
from duckflow_tui.state.base import canonical_json, one_line
from duckflow_tui.state.goal import RequirementState
from duckflow_tui.state.operations import FileChange, Outcome
from duckflow_tui.state.pace import Pattern, Reason, Situation, Tried
from duckflow_tui.state.plan import WorkStatus

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.calls import OperationMessage

MOST_TRIED: Final = 6

MOST_ACHIEVED: Final = 8

_LINE: Final = 120  # characters

_ARGUMENT: Final = 40  # characters of one that tells two calls apart


_RAN: Final = (Outcome.OK, Outcome.ERROR, Outcome.INVALID)


def situation(
    log: Sequence[OperationMessage],
    state: AgentState,
    reads: Callable[[str], bool],
    *,
    pattern: Pattern,
    cause: Reason,
    loop: int,
    limit: int,
    hypothesis: Reason,
    said: str,
) -> Situation:
    """What the user is shown. ``reads`` tells of an operation's name whether it only reads;
    ``said`` are the model's own words.
    """
    entries, found = tried(log), achieved(log, state)
    return Situation(
        pattern=pattern,
        cause=cause,
        loop=loop,
        limit=limit,
        tried=entries[-MOST_TRIED:],
        tried_before=max(len(entries) - MOST_TRIED, 0),
        achieved=found[:MOST_ACHIEVED],
        achieved_more=max(len(found) - MOST_ACHIEVED, 0),
        read=looked_at(log, reads),
        hypothesis=hypothesis,
        hypothesis_said=said,
    )


def tried(log: Sequence[OperationMessage]) -> tuple[Tried, ...]:
    """The calls, oldest first, the same ones as one, each with its last place in the chat. Calls
    that read alike are told apart by what differs.
    """
    found: dict[str, tuple[Tried, OperationMessage]] = {}
    contents: dict[str, set[str]] = {}
    for message in log:
        if message.by_user or message.result.outcome not in _RAN:
            continue
        back = _goes_back(message, contents)
        key = canonical_json([message.operation, message.args, back])
        times = found.pop(key)[0].times + 1 if key in found else 1
        entry = Tried(
            text=_line(message),
            ref=message.call_id,
            went_well=message.result.went_well,
            times=times,
            back=back,
        )
        found[key] = entry, message
    return _told_apart(list(found.values()))


def achieved(log: Sequence[OperationMessage], state: AgentState) -> tuple[str, ...]:
    """Requirements met, steps done, files that are other than before, commands that went well.

    Of a file the net effect counts: what was taken back again reached nothing.
    """
    found: list[str] = []
    if state.objective is not None:
        found += [
            item.requirement
            for item in state.objective.extracted_requirements
            if item.state is RequirementState.MET
        ]
    if state.active_plan is not None:
        found += [s.name for s in state.active_plan.steps if s.status is WorkStatus.COMPLETED]
    files: dict[str, _Net] = {}
    commands: dict[str, None] = {}
    for message in log:
        for change in message.result.changes:
            path = change.target or change.path
            files.setdefault(path, _Net()).add(change)
        if message.result.exit_code is not None and not message.by_user:
            command = target(message)
            commands.pop(command, None)
            if message.result.went_well:
                commands[command] = None
    found += [f"{path} {net.said}" for path, net in files.items() if net.changes]
    found += commands
    return tuple(one_line(text, _LINE) for text in found)


def looked_at(log: Sequence[OperationMessage], reads: Callable[[str], bool]) -> int:
    """How many files and other places the model read or searched."""
    return len(
        {
            (message.operation, target(message))
            for message in log
            if message.result.went_well and not message.by_user and reads(message.operation)
        }
    )


@dataclass(slots=True)
class _Net:
    """The changes of one file that were not taken back."""

    changes: list[FileChange] = field(default_factory=list[FileChange])

    def add(self, change: FileChange) -> None:
        """Back at an earlier content, everything since then came to nothing."""
        for at, before in enumerate(self.changes):
            if before.before == change.after and not change.target:
                del self.changes[at:]
                return
        self.changes.append(change)

    @property
    def said(self) -> str:
        """Lines of the one change; of several only how many: their lines may be the same ones."""
        if len(self.changes) > 1:
            return f"{len(self.changes)}×"
        return f"+{self.changes[0].added} −{self.changes[0].removed}"


def _line(message: OperationMessage) -> str:
    result = message.result
    text = f"{message.operation} {target(message)}".rstrip()
    if result.outcome is not Outcome.OK:
        text = f"{text}: {result.text}"
    elif result.changes:
        added, removed = (
            sum(c.added for c in result.changes),
            sum(c.removed for c in result.changes),
        )
        text = f"{text} +{added} −{removed}"
    return one_line(text, _LINE)


def _goes_back(message: OperationMessage, contents: dict[str, set[str]]) -> bool:
    """Whether a change brought back what a file held before; notes what the file holds now."""
    back = False
    for change in message.result.changes:
        known = contents.setdefault(change.target or change.path, set())
        known.add(change.before)
        back = back or change.after in known
        known.add(change.after)
    return back


def _told_apart(found: Sequence[tuple[Tried, OperationMessage]]) -> tuple[Tried, ...]:
    """The entries; where two say the same, each with the first argument in which they differ."""
    alike: dict[tuple[str, bool], list[OperationMessage]] = {}
    for entry, message in found:
        alike.setdefault((entry.text, entry.back), []).append(message)
    told: list[Tried] = []
    for entry, message in found:
        others = alike[entry.text, entry.back]
        name = _differs(others) if len(others) > 1 else ""
        if name:
            value = one_line(str(message.args.get(name, "–")), _ARGUMENT)
            text = one_line(f"{entry.text} · {name} {value}", _LINE + _ARGUMENT)
            entry = entry.model_copy(update={"text": text})
        told.append(entry)
    return tuple(told)


def _differs(messages: Sequence[OperationMessage]) -> str:
    names = dict.fromkeys(name for message in messages for name in message.args)
    return next(
        (n for n in names if len({canonical_json([m.args.get(n)]) for m in messages}) > 1), ""
    )
