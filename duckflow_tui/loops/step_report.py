"""What is computed of a step's log, and how its report reads to the model (S2-20)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duckflow_tui.loops.links import linked_tasks
from duckflow_tui.state.base import one_line
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import Effect, OperationSpec, Outcome
from duckflow_tui.state.work import StepReport, Task

_RAN: Final = (Outcome.OK, Outcome.ERROR)
_REFUSED: Final = (Outcome.REJECTED, Outcome.DECLINED, Outcome.DENIED)


def counts(log: Sequence[OperationMessage]) -> dict[str, int]:
    """Operations that went well, that failed, that were refused, and those that did not run."""
    ran = [m for m in log if m.result.outcome in _RAN]
    good = sum(m.result.went_well for m in ran)
    refused = sum(m.result.outcome in _REFUSED for m in log)
    return {
        "succeeded": good,
        "failed": len(ran) - good,
        "refused": refused,
        "skipped": len(log) - len(ran) - refused,
    }


def has_done_some(log: Sequence[OperationMessage], specs: Sequence[OperationSpec]) -> bool:
    """Whether a call did a part of the work: to have read something is none."""
    reads = {spec.name for spec in specs if spec.effect is Effect.READ}
    return any(m.result.went_well and m.operation not in reads for m in log)


def changed_files(log: Sequence[OperationMessage]) -> tuple[str, ...]:
    """Paths that the calls changed, in the order of their first change."""
    paths = (change.target or change.path for m in log for change in m.result.changes)
    return tuple(dict.fromkeys(paths))


def report_words(report: StepReport) -> str:
    """A report for the model."""
    lines = [
        f'Report on step {report.step_id} "{report.step_name}": {report.status}. '
        f"{report.succeeded} operations went well, {report.failed} failed, "
        f"{report.refused} were refused, {report.skipped} did not run."
    ]
    if report.summary:
        lines.append(one_line(report.summary, 1000))
    if report.status != "completed" and report.cause:
        lines.append(f"Cause: {one_line(report.cause, 500)}")
    if report.files_changed:
        lines.append(f"Files changed: {', '.join(report.files_changed[:30])}")
    if report.next_action:
        lines.append(f"Suggested next: {one_line(report.next_action, 300)}")
    return "\n".join(lines)


def is_independent(tasks: tuple[Task, ...]) -> bool:
    """Whether no task needs what another gives."""
    return not any(task.depends_on or linked_tasks(task.args) for task in tasks)
