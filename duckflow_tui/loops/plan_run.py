"""One run of an approved plan: its steps as they become ready, until it is done or asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from duckflow_tui.loops.control import TurnControl
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.plan_held import held_back, let_go
from duckflow_tui.loops.resuming import interrupted_at
from duckflow_tui.loops.step_report import is_independent
from duckflow_tui.loops.step_run import StepRun
from duckflow_tui.state.base import one_line
from duckflow_tui.state.cards import (
    GO_ON,
    RETRY,
    SKIP,
    STOP,
    SUGGESTED,
    TELL,
    Card,
    CardAnswer,
    CardKind,
    CardOption,
)
from duckflow_tui.state.events import (
    PlanStatusChanged,
    StepBreakSet,
    StepChanged,
    UserMessageAdded,
    WorkFinished,
    WorkProgressed,
    WorkStarted,
)
from duckflow_tui.state.messages import UserMessage
from duckflow_tui.state.plans import ended_status, ready_steps
from duckflow_tui.state.store import Store
from duckflow_tui.state.work import (
    ExecutionMode,
    Plan,
    PlanStatus,
    RunMode,
    Step,
    StepReport,
    WorkInfo,
    WorkStatus,
)

WorkEnd = Literal["completed", "failed", "waiting"]

_LEAD: Final = 16  # characters around a step's name that add nothing: "Go on: ", "Next, step 2: "


@dataclass(slots=True)
class PlanResult:
    """What came of a run: the reports, and what the user wants instead of going on."""

    outcome: WorkEnd = "completed"
    reports: list[StepReport] = field(default_factory=list[StepReport])
    wish: str = ""  # the user's words, or the suggestion the user took


class PlanRun:
    """Runs once. ``only`` names one step to run; without it every step that becomes ready."""

    def __init__(
        self,
        parts: TurnParts,
        control: TurnControl,
        plan: Plan,
        only: str = "",
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._control = control
        self._plan_id = plan.plan_id
        self._only = only
        self._work_id = parts.ids("work")
        self._allowed = ""  # the step whose breakpoint the user has let pass
        self._stopped = False  # the user has said in the newest step that it ends here
        self._wish = ""  # and what they want instead

    @property
    def _plan(self) -> Plan:
        return next(p for p in self._store.state.plans if p.plan_id == self._plan_id)

    async def run(self) -> PlanResult:
        """Raises CancelledError after the step in hand was marked as stopped."""
        result = PlanResult()
        self._store.dispatch(
            WorkStarted(
                work=WorkInfo(
                    work_id=self._work_id,
                    plan_id=self._plan_id,
                    limit=self._parts.limits.max_steps,
                    started_at=self._store.clock.now(),
                )
            )
        )
        goes_on = await self._take_up(result)
        while goes_on:
            await self._control.safe_point()
            # Only now: during a pause the user may have changed what comes next.
            step = self._next()
            if step is None:
                if not (held := self._ready()):
                    break
                step_ids = frozenset(s.step_id for s in held)
                await let_go(self._store, self._plan_id, step_ids)
                continue
            if step.break_before and self._allowed != step.step_id:
                if not await self._past_breakpoint(step):
                    result.outcome = "waiting"
                    break
                continue
            report = await self._step(step)
            result.reports.append(report)
            if not await self._goes_on(report, result):
                break
        end_plan(self._store, self._plan_id)
        self._store.dispatch(WorkFinished(work_id=self._work_id, outcome=result.outcome))
        return result

    async def _take_up(self, result: PlanResult) -> bool:
        """Ask again what was being asked when an earlier process ended; whether to go on."""
        before = self._store.state.interrupted
        report = before.report if before is not None else None
        if report is None or report.plan_id != self._plan_id:
            return True
        await self._control.safe_point()
        result.reports.append(report)
        return await self._goes_on(report, result)

    def _ready(self) -> tuple[Step, ...]:
        ready = ready_steps(self._plan)
        return tuple(s for s in ready if not self._only or s.step_id == self._only)

    def _next(self) -> Step | None:
        """The first that may begin and that no open question holds back."""
        held = held_back(self._store.state, self._plan_id)
        return next((step for step in self._ready() if step.step_id not in held), None)

    async def _step(self, step: Step) -> StepReport:
        mode = self._mode(step)
        self._store.dispatch(
            WorkProgressed(
                work_id=self._work_id,
                step_id=step.step_id,
                mode=mode,
                loop=0,
                limit=self._parts.limits.max_steps,
            )
        )
        run = StepRun(self._parts, self._control, self._plan_id, self._work_id, step, mode)
        report = await run.run()
        self._stopped, self._wish = run.stopped, run.wish
        return report

    def _mode(self, step: Step) -> ExecutionMode:
        """The setting's way; ``auto`` takes a list where there is one whose tasks need nothing
        of each other, or where the user goes step by step and so sees it beforehand (C9).
        """
        if interrupted_at(self._store.state, step.step_id) and step.mode is not None:
            return step.mode
        wanted = self._parts.execution
        if wanted != "auto":
            return wanted
        tasks = tuple(task for task in step.task_list if task.status.is_open)
        if tasks:
            return "tasklist" if is_independent(tasks) else "adaptive"
        return "tasklist" if self._plan.run is RunMode.STEP else "adaptive"

    async def _past_breakpoint(self, step: Step) -> bool:
        answer = await self._ask(CardKind.BREAKPOINT, step.step_id, step.step_id, (GO_ON, STOP))
        if answer.action != GO_ON.action:
            return False
        self._allowed = step.step_id
        if self._plan.step(step.step_id) is not None:  # not dropped while the card was open
            event = StepBreakSet(plan_id=self._plan_id, step_id=step.step_id, on=False)
            self._store.dispatch(event)
        return True

    async def _goes_on(self, report: StepReport, result: PlanResult) -> bool:
        """Whether to take up the next step; asks where that is the user's to say."""
        if self._stopped:
            result.outcome, result.wish = "waiting", self._wish
            return False
        plan = self._plan
        failed = report.status != "completed"
        if failed:
            result.outcome = "failed"
        if self._only and not failed:
            return False
        if not failed and (plan.run is RunMode.ALL or not ready_steps(plan)):
            return True
        options: list[CardOption] = []
        if failed:
            options += [RETRY, SKIP]
        elif self._ready():
            options.append(GO_ON)
        options.append(STOP)
        goes_on = GO_ON in options and _names(report.next_action, self._ready()[0])
        if report.next_action and not goes_on:
            label = one_line(report.next_action, 200)
            options.append(SUGGESTED.model_copy(update={"label": label}))
        options.append(TELL)
        answer = await self._ask(
            CardKind.REPORT, report.report_id, report.step_id, tuple(options), report
        )
        return await self._answered(answer, report, result)

    async def _answered(self, answer: CardAnswer, report: StepReport, result: PlanResult) -> bool:
        match answer.action:
            case GO_ON.action:
                return True
            case RETRY.action:
                await self._tell(report.step_id, answer.text)
                self._reopen(report.step_id, WorkStatus.PENDING)
            case SKIP.action:
                self._reopen(report.step_id, WorkStatus.SKIPPED)
            case _:
                if answer.action == SUGGESTED.action:
                    result.wish = report.next_action
                elif answer.action == TELL.action:
                    result.wish = answer.text
                if result.outcome == "completed" or result.wish:
                    result.outcome = "waiting"
                return False
        result.outcome = "completed"
        return not (self._only and answer.action == SKIP.action)

    async def _tell(self, step_id: str, text: str) -> None:
        """What the user says to a step is in its own thread, where its next run reads it."""
        if text.strip():
            message = UserMessage(
                message_id=self._parts.ids("msg"),
                text=text,
                step_id=step_id,
                at=self._store.clock.now(),
            )
            await self._store.commit(UserMessageAdded(message=message))

    def _reopen(self, step_id: str, status: WorkStatus) -> None:
        if self._plan.step(step_id) is None:
            return  # the user dropped it while the card was open
        self._store.dispatch(
            StepChanged(
                plan_id=self._plan_id,
                step_id=step_id,
                status=status,
                at=self._store.clock.now(),
            )
        )

    async def _ask(
        self,
        kind: CardKind,
        subject: str,
        step_id: str,
        options: tuple[CardOption, ...],
        report: StepReport | None = None,
    ) -> CardAnswer:
        return await self._parts.cards.ask(
            Card(
                card_id=self._parts.ids("card"),
                kind=kind,
                subject=subject,
                options=options,
                plan_id=self._plan_id,
                step_id=step_id,
                report=report,
                opened_at=self._store.clock.now(),
            )
        )


def _names(suggestion: str, step: Step) -> bool:
    """Whether a suggestion says no more than to do this step."""
    said, name = one_line(suggestion, 400).casefold(), one_line(step.name, 200).casefold()
    before, found, after = said.partition(name)
    return bool(found) and len(f"{before}{after}".strip()) <= _LEAD


def end_idle_plan(store: Store, plan_id: str) -> None:
    """The same for a plan that was changed from outside, unless it is worked on: then its work
    does so. What kept a plan from being done may have been waived or dropped.
    """
    if store.state.work is not None and store.state.work.plan_id == plan_id:
        return
    plan = next(p for p in store.state.plans if p.plan_id == plan_id)
    if plan.status is PlanStatus.FAILED and ended_status(plan) is PlanStatus.COMPLETED:
        store.dispatch(PlanStatusChanged(plan_id=plan_id, status=PlanStatus.COMPLETED))
    end_plan(store, plan_id)


def end_plan(store: Store, plan_id: str) -> None:
    """Mark a plan as completed or failed once nothing of it can go on."""
    plan = next(p for p in store.state.plans if p.plan_id == plan_id)
    status = ended_status(plan)
    if status is not None and plan.status is not status and plan.status.may_run:
        store.dispatch(PlanStatusChanged(plan_id=plan_id, status=status))
