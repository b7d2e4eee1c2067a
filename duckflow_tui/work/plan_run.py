"""Runs the steps of an approved plan one after the other, as a job beside the turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from duckflow_tui.state.base import one_line
from duckflow_tui.state.gates import (
    GO_ON,
    RETRY,
    SKIP,
    STOP,
    SUGGESTED,
    TAKE,
    TELL,
    CardAnswer,
    CardKind,
)
from duckflow_tui.state.plan import (
    ExecutionMode,
    Plan,
    ReportMessage,
    RunMode,
    Step,
    StepReport,
    WorkInfo,
    WorkStatus,
    list_ready_steps,
)
from duckflow_tui.state.plan_events import (
    StepBreakSet,
    WorkFinished,
    WorkStarted,
)
from duckflow_tui.work.propose import (
    end_plan,
    find_held_steps,
    list_steps,
    set_step,
    skip_step,
)
from duckflow_tui.work.resumed_work import Rest, find_interruption
from duckflow_tui.work.services import TurnParts
from duckflow_tui.work.steering import TurnControl, wait_until

WorkEnd = Literal["completed", "failed", "waiting"]


#: Status of a step that ended without being done; the user decides what becomes of it.
NOT_DONE: Final = (WorkStatus.FAILED, WorkStatus.BLOCKED)


@dataclass(slots=True)
class PlanResult:
    """The result of a run of a plan: its reports, and the user's wish if it stopped for one."""

    outcome: WorkEnd = "completed"
    reports: list[StepReport] = field(default_factory=list[StepReport])
    wish: str = ""  # the user's words, or the suggestion the user took
    suggested: bool = False  # ``wish`` is the suggestion; the plan goes on after it


class PlanRun:
    """One run of a plan. ``only``: id of the single step to run; empty for all steps."""

    def __init__(
        self,
        parts: TurnParts,
        control: TurnControl,
        plan: Plan,
        only: str = "",
        rest: Rest | None = None,
    ) -> None:
        """``rest``: remaining actions of the decision that began the plan; they belong to its first
        step.
        """
        self._parts = parts
        self._store = parts.store
        self._control = control
        self._plan_id = plan.plan_id
        self._only = only
        self._work_id = parts.ids("work")
        self._left = rest  # actions of a decision that belong to the next step
        self._left_for = list_steps(plan)  # the steps then; changed steps void ``_left``
        self._stopped = False  # the user ended the newest step, or nobody could be asked
        self._wish = ""  # the user's wish instead

    @property
    def _plan(self) -> Plan:
        """The plan as it is now."""
        return self._store.state.get_plan(self._plan_id)

    async def run(self) -> PlanResult:
        """Run steps until the plan is done, a step fails, or the user has to decide. Raises
        CancelledError after marking the running step as stopped.
        """
        result = PlanResult()
        self._store.dispatch(
            WorkStarted(
                work=WorkInfo(
                    work_id=self._work_id,
                    plan_id=self._plan_id,
                    started_at=self._store.clock.now(),
                )
            )
        )
        goes_on = await self._ask_unfinished(result)
        while goes_on:
            await self._control.safe_point()
            # After the pause, during which the user may have changed what comes next.
            step = self._next_step()
            if step is None:
                if not self._ready_steps():
                    break
                await wait_until(self._store, lambda _: not self._is_held())
                continue
            if step.break_before:
                if not await self._ask_at_breakpoint(step):
                    result.outcome = "waiting"
                    break
                continue
            report = await self._run_step(step)
            result.reports.append(report)
            if not await self._may_go_on(report, result):
                break
        await self._take_left_actions(keep=False)
        if not result.wish:  # a wish may still complete or redo a step
            end_plan(self._store, self._plan_id)
        self._store.dispatch(WorkFinished(work_id=self._work_id, outcome=result.outcome))
        return result

    async def _ask_unfinished(self, result: PlanResult) -> bool:
        """Ask about a step that an earlier run left unfinished, or repeat the question that was
        open when an earlier process ended. Returns whether to go on.
        """
        before = self._store.state.interrupted
        report = before.report if before is not None else None
        if report is None or report.plan_id != self._plan_id:
            step = unfinished_step(self._plan, self._only)
            if step is None:
                return True
            report = self._report_on(step)
        await self._control.safe_point()
        result.reports.append(report)
        return await self._may_go_on(report, result)

    def _report_on(self, step: Step) -> StepReport:
        """Return the newest report on a step, or a minimal one with status failed."""
        for message in reversed(self._store.state.messages):
            if isinstance(message, ReportMessage) and message.report.step_id == step.step_id:
                return message.report
        return StepReport(
            report_id=self._parts.ids("report"),
            plan_id=self._plan_id,
            step_id=step.step_id,
            step_name=step.name,
            status="failed",
            cause=step.note,
        )

    def _ready_steps(self) -> tuple[Step, ...]:
        """Return the steps that may begin; with ``only`` at most that one."""
        ready = list_ready_steps(self._plan)
        return tuple(s for s in ready if not self._only or s.step_id == self._only)

    def _is_held(self) -> bool:
        """Whether there are ready steps, and an open change of the plan blocks all of them."""
        return bool(self._ready_steps()) and self._next_step() is None

    def _next_step(self) -> Step | None:
        """Return the first ready step that no open change of the plan blocks; None if there is
        none.
        """
        held = find_held_steps(self._store.state, self._plan_id)
        return next((step for step in self._ready_steps() if step.step_id not in held), None)

    async def _run_step(self, step: Step) -> StepReport:
        """Run one step and return its report."""
        from duckflow_tui.work.step import StepRun  # few sessions need it

        mode = self._choose_mode(step)
        left = await self._take_left_actions(keep=mode == "adaptive")
        run = StepRun(self._parts, self._control, self._plan_id, self._work_id, step, mode, left)
        report = await run.run()
        self._left, self._left_for = run.left, run.work_seen
        self._stopped, self._wish = run.stopped, run.wish
        return report

    async def _take_left_actions(self, *, keep: bool) -> Rest | None:
        """Return the remaining actions of the earlier decision for the next step. Unless ``keep``
        is set and the plan is still the one that decision saw, record them as skipped and return
        None.
        """
        left, self._left = self._left, None
        if left is None or (keep and self._left_for == list_steps(self._plan)):
            return left
        for action in left.actions:
            await self._parts.router.skip(action, self._parts.notices.words("skip.left"))
        return None

    def _choose_mode(self, step: Step) -> ExecutionMode:
        """Return how to run a step: the mode of an interrupted run, else a task list where one with
        open tasks is there, else the setting. ``auto`` means a task list where the user approved
        step by step (C9) and no calls were left to the step, else adaptive.
        """
        if find_interruption(self._store.state, step.step_id) and step.mode is not None:
            return step.mode
        if any(task.status.is_open for task in step.task_list):
            return "tasklist"
        wanted = self._parts.settings.execution
        if wanted != "auto":
            return wanted
        by_list = self._plan.run is RunMode.STEP and self._left is None
        return "tasklist" if by_list else "adaptive"

    async def _ask_at_breakpoint(self, step: Step) -> bool:
        """Ask the user at a breakpoint; clear it and return True if they let the step begin."""
        if not await ask_to_begin(self._parts, self._plan, step):
            return False
        if self._plan.get_step(step.step_id) is not None:  # not dropped while the card was open
            event = StepBreakSet(plan_id=self._plan_id, step_id=step.step_id, on=False)
            self._store.dispatch(event)
        return True

    async def _may_go_on(self, report: StepReport, result: PlanResult) -> bool:
        """Whether to run the next step. Asks the user after a failed step, and after each step when
        going step by step; sets outcome and wish in ``result``.
        """
        if self._stopped:
            result.outcome, result.wish = "waiting", self._wish
            return False
        failed = report.status != "completed"
        if failed:
            result.outcome = "failed"
        following = list_ready_steps(
            self._plan
        )  # going step by step, even after the step of ``only``
        if not failed and (self._plan.run is RunMode.ALL or not following):
            return True
        options = [RETRY, TAKE, SKIP, STOP] if failed else [GO_ON, STOP]
        if report.next_action:
            label = one_line(report.next_action, 200)
            options.append(SUGGESTED.model_copy(update={"label": label}))
        options.append(TELL)
        card = self._parts.desk.make_card(
            CardKind.REPORT,
            tuple(options),
            subject=report.report_id,
            plan_id=self._plan_id,
            step_id=report.step_id,
            report=report,
        )
        answer = await self._parts.desk.ask(card)
        return await self._apply_answer(answer, report, result)

    async def _apply_answer(
        self, answer: CardAnswer, report: StepReport, result: PlanResult
    ) -> bool:
        """Apply the user's answer to a report; return whether the run goes on."""
        match answer.action:
            case GO_ON.action:
                self._only = ""
                return True
            case RETRY.action:
                if answer.text.strip():  # for the next run of the step
                    await self._parts.add_user_words(answer.text, report.step_id)
                self._set_status(report.step_id, WorkStatus.PENDING)
            case TAKE.action:
                self._set_status(report.step_id, WorkStatus.COMPLETED, taken=True)
            case SKIP.action:
                if (step := self._plan.get_step(report.step_id)) is not None:
                    skip_step(self._parts, self._plan, step)
            case _:
                if answer.action == SUGGESTED.action:
                    result.wish, result.suggested = report.next_action, True
                elif answer.action == TELL.action:
                    result.wish = answer.text
                if result.outcome == "completed" or result.wish:
                    result.outcome = "waiting"
                return False
        result.outcome = "completed"
        return True

    def _set_status(self, step_id: str, status: WorkStatus, *, taken: bool = False) -> None:
        """Set the status of a step, unless it was removed from the plan; ``taken``: the user
        declares it done.
        """
        if self._plan.get_step(step_id) is not None:  # not dropped while the card was open
            set_step(self._store, self._plan_id, step_id, status, taken=taken)


async def ask_to_begin(parts: TurnParts, plan: Plan, step: Step) -> bool:
    """Ask the user whether a step may begin. Raises Unanswered if nobody answers."""
    card = parts.desk.make_card(
        CardKind.BREAKPOINT,
        (GO_ON, STOP),
        step.step_id,
        plan_id=plan.plan_id,
        step_id=step.step_id,
    )
    return (await parts.desk.ask(card)).action == GO_ON.action


def unfinished_step(plan: Plan, only: str = "") -> Step | None:
    """Return the failed or blocked step that holds up the plan; None while another step is ready.

    With ``only``, a step id, return that step if it is failed or blocked, whatever the others are.
    """
    if not only and list_ready_steps(plan):
        return None
    ended = (step for step in plan.steps if step.status in NOT_DONE)
    return next((step for step in ended if only in ("", step.step_id)), None)
