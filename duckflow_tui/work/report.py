"""Reports on steps, made from the recorded calls, and worded by a model where that helps
(S2-20).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from duckflow_tui.llm.errors import LlmError, Unreadable, reason_params
from duckflow_tui.prompting.side_questions import list_evidence_calls, report_question
from duckflow_tui.prompting.side_replies import ReportReply
from duckflow_tui.state.base import LocalizedText, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.operations import Effect, OperationSpec, Outcome, describe_target
from duckflow_tui.state.plan import Plan, RunMode, Step, StepReport
from duckflow_tui.tools.results import changed_files
from duckflow_tui.work.budget import BudgetEnd
from duckflow_tui.work.services import TurnParts


class Cause(NamedTuple):
    """Why a step is not done: ``text`` for the model; ``told`` for the user, None where they read
    the same text.
    """

    text: str
    told: LocalizedText | None = None


def make_cause(parts: TurnParts, code: str, **values: str) -> Cause:
    """Make a cause from the texts of this code, for the model and for the user."""
    key = f"work.cause.{code}"
    return Cause(parts.notices.words(key, **values), LocalizedText(key=key))


async def make_report(
    parts: TurnParts,
    plan: Plan,
    step: Step,
    log: tuple[OperationMessage, ...],
    *,
    cause: Cause | None = None,
    last_words: str = "",
    early: bool = False,
    reachable: bool = True,
    calls_before: int = 0,
    waited_before: float = 0.0,
    started: float,
) -> StepReport:
    """Make the report on a step from its calls ``log`` and the model's ``last_words``.

    ``cause`` is why the step is not done, None if it ended normally. A step whose changes and
    commands all failed or were refused is not done. A step whose calls show no result is judged by
    a model from ``last_words`` (S2-28). A model words the report only if the user goes step by
    step, or the step is not done or has to be judged. ``early``: ``last_words`` came before the
    last calls ran; ``reachable``: whether the model can be asked.
    """
    found, specs = count_outcomes(log), parts.router.registry.specs()
    shows = any(m.result.went_well for m in list_evidence_calls(log, specs))
    works = list_works(log, specs)
    done_some = any(m.result.went_well for m in works)
    if cause is None and works and not done_some:
        cause = make_cause(parts, "nothing_went_well")
    words = None
    if cause or not shows or plan.run is RunMode.STEP:
        if reachable and (cause or log or last_words.strip()):
            words = await _ask_for_words(parts, plan, step, log, cause, last_words)
        if cause is None and not shows and words is None:
            cause = make_cause(parts, "not_judged" if last_words.strip() else "no_operation")
    status = words.status if words is not None else "completed"
    if cause:
        status = "partial" if done_some else "failed"
    text, told = cause if cause is not None else ("", None)
    if words is not None and words.cause.strip():
        told = None
    summary = last_words.strip() or _list_runs(log)
    if words is not None and (status != "completed" or early or not summary):
        summary = words.summary
    now = parts.store.state.get_plan(plan.plan_id).get_step(step.step_id) or step
    waited = now.waited_s - waited_before
    return StepReport(
        report_id=parts.ids("report"),
        plan_id=plan.plan_id,
        step_id=step.step_id,
        step_name=step.name,
        status=status,
        summary=summary,
        cause=text if told or words is None else words.cause or text,
        told=told,
        next_action=words.next_action if words is not None else "",
        **found,
        llm_calls=max(now.calls - calls_before, 0),
        duration_s=max(parts.store.clock.monotonic() - started - waited, 0.0),
        waited_s=waited,
        files_changed=changed_files(log),
    )


def _list_runs(log: Sequence[OperationMessage]) -> str:
    """List the commands that ran, each with its exit code."""
    ran = (m for m in log if m.result.exit_code is not None)
    return "; ".join(f"{one_line(describe_target(m.args), 80)} → {m.result.exit_code}" for m in ran)


async def _ask_for_words(
    parts: TurnParts,
    plan: Plan,
    step: Step,
    log: tuple[OperationMessage, ...],
    cause: Cause | None,
    last_words: str,
) -> ReportReply | None:
    """Ask a model to word the report; None, after a notice, if it cannot."""
    text = cause.text if cause is not None else ""
    question = report_question(
        parts.store.state, plan, step, log, count_outcomes(log), text, last_words
    )
    try:
        return await parts.models.ask(question, lambda reply: reply, step_id=step.step_id)
    except (LlmError, Unreadable) as error:
        parts.notices.warn("work.no_report", step_id=step.step_id, **reason_params(error))
    except BudgetEnd:
        pass  # the card or a notice has shown it
    return None


def count_outcomes(log: Sequence[OperationMessage]) -> dict[str, int]:
    """Count calls by outcome: ``succeeded``, ``failed``, ``refused`` (by the user or the policy)
    and ``skipped``, which are all others.
    """
    outcomes = [m.result.outcome for m in log]
    ran = outcomes.count(Outcome.OK) + outcomes.count(Outcome.ERROR)
    good = sum(m.result.went_well for m in log)
    refused = sum(outcome.is_forbidden for outcome in outcomes)
    skipped = len(log) - ran - refused
    return {"succeeded": good, "failed": ran - good, "refused": refused, "skipped": skipped}


def list_works(
    log: Sequence[OperationMessage], specs: Sequence[OperationSpec]
) -> list[OperationMessage]:
    """Return the calls meant to do the work, without those that only read or keep state."""
    effects = {spec.name: spec.effect for spec in specs}
    return [m for m in log if effects.get(m.operation) not in (Effect.READ, Effect.STATE)]


def describe_report(report: StepReport, words: Callable[..., str], last_reply: str = "") -> str:
    """Describe a report for the model. Omits the summary if it equals the model's ``last_reply``,
    and the counts of calls for a completed step.
    """
    names = ("succeeded", "failed", "refused", "skipped")
    counted, cause, following = dict.fromkeys(names, ""), "", ""
    if report.status != "completed":
        counted = {name: str(getattr(report, name)) for name in names}
        cause, following = one_line(report.cause, 500), one_line(report.next_action, 500)
    repeats = report.summary == last_reply.strip()
    return words(
        "work.report",
        step_id=report.step_id,
        step=report.step_name,
        status=report.status,
        summary="" if repeats else one_line(report.summary, 300),
        files=", ".join(report.files_changed[:30]),
        cause=cause,
        next=following,
        **counted,
    )


def result_line(message: OperationMessage) -> str:
    """Return the result of a call on one line, with the outcome unless it is ok."""
    result = message.result
    text = one_line(result.text, 200)
    return text if result.outcome is Outcome.OK else f"{result.outcome.value}: {text}"
