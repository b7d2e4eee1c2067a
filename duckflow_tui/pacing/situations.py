"""What a consultation shows of the work so far: what was tried, and what was reached (S0-38)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duckflow_tui.pacing.progress import target
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import canonical_json, one_line
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.objective import RequirementState
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.pace import Tried
from duckflow_tui.state.work import WorkStatus

MOST_TRIED: Final = 6
MOST_ACHIEVED: Final = 8
_LINE: Final = 120  # characters

_RAN: Final = (Outcome.OK, Outcome.ERROR, Outcome.INVALID)


def tried(log: Sequence[OperationMessage]) -> tuple[Tried, ...]:
    """The newest calls, the same ones as one, each with its last place in the chat."""
    found: dict[str, Tried] = {}
    for message in log:
        if message.by_user or message.result.outcome not in _RAN:
            continue
        key = canonical_json([message.operation, message.args])
        times = found.pop(key).times + 1 if key in found else 1
        text = f"{message.operation} {target(message)}".rstrip()
        if message.result.outcome is not Outcome.OK:
            text = f"{text}: {message.result.text}"
        found[key] = Tried(
            text=one_line(text, _LINE),
            ref=message.call_id,
            went_well=message.result.went_well,
            times=times,
        )
    return tuple(found.values())[-MOST_TRIED:]


def achieved(log: Sequence[OperationMessage], state: AgentState) -> tuple[str, ...]:
    """Requirements met, steps done, files changed, commands that went well."""
    found: list[str] = []
    if state.objective is not None:
        found += [
            item.requirement
            for item in state.objective.extracted_requirements
            if item.state is RequirementState.MET
        ]
    if state.active_plan is not None:
        found += [s.name for s in state.active_plan.steps if s.status is WorkStatus.COMPLETED]
    lines: dict[str, tuple[int, int]] = {}
    commands: dict[str, None] = {}
    for message in log:
        for change in message.result.changes:
            added, removed = lines.get(change.target or change.path, (0, 0))
            counted = added + change.added, removed + change.removed
            lines[change.target or change.path] = counted
        if message.result.exit_code is not None and not message.by_user:
            command = target(message)
            commands.pop(command, None)
            if message.result.went_well:
                commands[command] = None
    found += [f"{path} +{added} −{removed}" for path, (added, removed) in lines.items()]
    found += commands
    return tuple(one_line(text, _LINE) for text in found[:MOST_ACHIEVED])
