"""The report on a step or on a list: counts are computed, the words are a model's (S2-20)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from duckflow_tui.agent.budget import BudgetEnd
from duckflow_tui.llm.errors import LlmError, Unreadable, because
from duckflow_tui.plans.tasks import linked_tasks
from duckflow_tui.prompting.questions import report_question, shown_by
from duckflow_tui.prompting.replies import ReportReply
from duckflow_tui.prompting.threads import step_of
from duckflow_tui.state.base import Told, one_line
from duckflow_tui.state.operations import Effect, OperationSpec, Outcome
from duckflow_tui.state.plan import Plan, Step, StepReport, Task
from duckflow_tui.tools.results import changed_files

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.state.calls import OperationMessage


NO_OPERATION: Final = "No operation ran that shows it."

NOT_JUDGED: Final = "Whether it is done could not be judged."


async def reported(
    parts: TurnParts,
    plan: Plan,
    step: Step,
    log: tuple[OperationMessage, ...],
    *,
    cause: str = "",
    told: Told | None = None,
    said: str = "",
    early: bool = False,
    calls_before: int = 0,
    waited_before: float = 0.0,
    started: float,
) -> StepReport:
    """The report on what ``log`` did of ``step``.

    ``cause`` is why it was not done, ``told`` the same for the user. Else a call of its own judges
    by the log whether it was (S2-28), and what the model ``said`` at its end is the summary, unless
    it was said ``early``, before the last calls ran; it is not done where that call could not be
    made, or where no operation went well.
    """
    found = counts(log)
    words, specs = await _words(parts, plan, step, log, cause, said), parts.router.registry.specs()
    if not cause and words is None:
        cause, told = NOT_JUDGED, Told(key="work.cause.not_judged")
    elif not cause and not any(m.result.went_well for m in shown_by(log, specs)):
        cause, told = NO_OPERATION, Told(key="work.cause.no_operation")
    elif words is not None and words.cause.strip():
        told = None
    if words is None:
        words = ReportReply(status="failed", summary=said, cause=cause, next_action="")
    status = words.status
    if cause:
        status = "partial" if has_done_some(log, specs) else "failed"
    summary = said.strip() if status == "completed" and not early else ""
    now = step_of(parts.store.state, step.step_id)  # none where the step is of no plan
    work = now[1] if now else parts.store.state.work
    waited = work.waited_s - waited_before if work is not None else 0.0
    return StepReport(
        report_id=parts.ids("report"),
        plan_id=plan.plan_id,
        step_id=step.step_id,
        step_name=step.name,
        status=status,
        summary=summary or words.summary,
        cause=cause if told else words.cause or cause,
        told=told,
        next_action=words.next_action,
        **found,
        llm_calls=max((now[1] if now else step).calls - calls_before, 0),
        duration_s=max(parts.store.clock.monotonic() - started - waited, 0.0),
        waited_s=waited,
        files_changed=changed_files(log),
    )


async def _words(
    parts: TurnParts,
    plan: Plan,
    step: Step,
    log: tuple[OperationMessage, ...],
    cause: str,
    said: str,
) -> ReportReply | None:
    """The model's words on the log; None when they could not be had, which is shown."""
    question = report_question(parts.store.state, plan, step, log, counts(log), cause, said)
    try:
        return await parts.models.ask(question, lambda reply: reply, step_id=step.step_id)
    except (LlmError, Unreadable) as error:
        parts.notices.warn("work.no_report", step_id=step.step_id, **because(error))
        return None
    except BudgetEnd:
        return None  # the card, or the notice, has shown it


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


def report_words(report: StepReport) -> str:
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


def failed_task(task: Task) -> Told:
    """Why work ended with this task, for the user: what its result says is meant for the model."""
    what = " · ".join(part for part in (one_line(task.description, 100), task.operation) if part)
    return Told(key="work.cause.task", params={"what": what})


def is_independent(tasks: tuple[Task, ...]) -> bool:
    """Whether no task needs what another gives."""
    return not any(task.depends_on or linked_tasks(task.args) for task in tasks)


def result_line(message: OperationMessage) -> str:
    result = message.result
    text = one_line(result.text, 200)
    return text if result.outcome is Outcome.OK else f"{result.outcome.value}: {text}"
