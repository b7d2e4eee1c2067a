"""The report on a step or on a list: counts are computed, the words are a model's (S2-20)."""

from __future__ import annotations

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.purposes import ReportReply
from duckflow_tui.loops.endings import BudgetEnd
from duckflow_tui.loops.llm_services import LLMServices
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.questions import Unreadable
from duckflow_tui.loops.step_report import changed_files, counts, has_done_some
from duckflow_tui.state.base import Told, one_line
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.work import Plan, Step, StepReport


async def reported(
    parts: TurnParts,
    plan: Plan,
    step: Step,
    log: tuple[OperationMessage, ...],
    *,
    cause: str = "",
    told: Told | None = None,
    said: str = "",
    calls_before: int = 0,
    duration_s: float = 0.0,
) -> StepReport:
    """The report on what ``log`` did of ``step``.

    ``cause`` is why it was not done, ``told`` the same for the user; empty when it was: then what
    the model ``said`` at its end is the summary, and a call is made only where it said nothing
    (C19).
    """
    found = counts(log)
    words = ReportReply(
        status="failed" if cause else "completed",
        summary="" if cause else said,
        cause=cause,
        next_action="",
    )
    if cause or not said.strip():
        worded = await _words(parts, plan, step, log, cause)
        if worded is not None and worded.cause.strip():
            told = None
        words = worded or words
    status = words.status
    if cause:
        status = "partial" if has_done_some(log, parts.specs()) else "failed"
    now = plan_step(parts, step)
    return StepReport(
        report_id=parts.ids("report"),
        plan_id=plan.plan_id,
        step_id=step.step_id,
        step_name=step.name,
        status=status,
        summary=words.summary,
        cause=words.cause or cause,
        told=told,
        next_action=words.next_action,
        **found,
        llm_calls=max(now.calls - calls_before, 0),
        duration_s=duration_s,
        files_changed=changed_files(log),
    )


def plan_step(parts: TurnParts, step: Step) -> Step:
    """The step as the state has it now; itself where it is of no plan."""
    plans = parts.store.state.plans
    return next((s for p in plans if (s := p.step(step.step_id)) is not None), step)


async def _words(
    parts: TurnParts, plan: Plan, step: Step, log: tuple[OperationMessage, ...], cause: str
) -> ReportReply | None:
    """The model's words on the log; None when they could not be had, which is shown."""
    try:
        return await LLMServices(parts).report(plan, step, log, counts(log), cause=cause)
    except (LlmError, Unreadable) as error:
        reason = one_line(str(error), 200)
        parts.notices.warn("work.no_report", step_id=step.step_id, reason=reason)
        return None
    except BudgetEnd:
        return None  # the card, or the notice, has shown it
