"""One run of one step of a plan: adaptive, or by its task list; then the report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.loops.asking import Asker, TurnEnd
from duckflow_tui.loops.control import TurnControl
from duckflow_tui.loops.dispatcher import Dispatcher
from duckflow_tui.loops.links import LinkFault, resolved
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.questions import Unreadable
from duckflow_tui.loops.reporting import reported
from duckflow_tui.loops.step_calls import StepCalls, result_line
from duckflow_tui.loops.step_report import report_words
from duckflow_tui.loops.step_tasks import list_tasks
from duckflow_tui.state.base import one_line
from duckflow_tui.state.decision import Action, NextStep, PromptPattern, TurnDecision
from duckflow_tui.state.events import (
    PlanStatusChanged,
    ReportAdded,
    StepChanged,
    StepTasksSet,
    TaskChanged,
    UserMessageAdded,
    WorkProgressed,
)
from duckflow_tui.state.messages import ReportMessage, UserMessage
from duckflow_tui.state.work import (
    ExecutionMode,
    Plan,
    PlanStatus,
    Step,
    StepReport,
    Task,
    WorkStatus,
)

REPLANS: Final = 2  # times a step's remaining tasks are listed anew after a failure
IDLE_LOOPS: Final = 2  # a decision that neither acts nor ends is caught at its second (S3-21)


class StepFailed(Exception):
    """The step cannot be done now; ``str()`` is the cause."""


class StepRun:
    """Runs once. Whatever happens, the step has left IN_PROGRESS when it is over."""

    def __init__(
        self,
        parts: TurnParts,
        control: TurnControl,
        plan_id: str,
        work_id: str,
        step: Step,
        mode: ExecutionMode,
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._control = control
        self._work_id = work_id
        self._plan_id = plan_id
        self._step_id = step.step_id
        self._mode: ExecutionMode = mode
        self._calls = StepCalls(parts.caller, parts.store, parts.ids, self._plan_id, step.step_id)
        self._replans = 0
        self._last_reply = ""
        self._calls_before = step.calls
        self._started = parts.store.clock.monotonic()

    @property
    def _plan(self) -> Plan:
        return next(p for p in self._store.state.plans if p.plan_id == self._plan_id)

    @property
    def _step(self) -> Step:
        step = self._plan.step(self._step_id)
        assert step is not None  # a step that runs cannot be dropped
        return step

    async def run(self) -> StepReport:
        """The whole step. Raises CancelledError after the step was marked as stopped."""
        self._change(WorkStatus.IN_PROGRESS)
        self._store.dispatch(
            PlanStatusChanged(plan_id=self._plan_id, status=PlanStatus.IN_PROGRESS)
        )
        try:
            report = await self._report(await self._cause())
        except asyncio.CancelledError:
            self._change(WorkStatus.CANCELLED, "stopped")
            raise
        except Exception as error:
            # Whatever broke, the step must not look as if it still ran; who spawned shows it.
            self._change(WorkStatus.FAILED, repr(error)[:200])
            raise
        done = report.status == "completed"
        self._change(
            WorkStatus.COMPLETED if done else WorkStatus.FAILED,
            one_line(report.summary if done else report.cause or report.summary, 200),
        )
        await self._store.commit(
            ReportAdded(
                message=ReportMessage(
                    message_id=self._parts.ids("msg"),
                    report=report,
                    for_model=report_words(report),
                    at=self._store.clock.now(),
                )
            )
        )
        return report

    async def _cause(self) -> str:
        """Do the step; what kept it from being done, or nothing."""
        try:
            if self._mode == "tasklist":
                await self._by_list()
            else:
                await self._adaptive()
        except StepFailed as failed:
            return str(failed)
        except LlmError as error:
            self._parts.notices.error(
                f"llm.error.{error.code}", step_id=self._step_id, **error.params
            )
            return f"The model could not be asked: {error.code}, {error.detail}".rstrip(", ")
        return ""

    # --- adaptive: one decision after each result (S3-8) ----------------------------------------

    async def _adaptive(self) -> None:
        limit = self._parts.limits.max_steps
        asker = Asker(self._parts, purpose="task", step_id=self._step_id)
        dispatcher = Dispatcher(self._calls, self._control)
        idle = 0
        for loop in range(1, limit + 1):
            await self._control.safe_point()
            await self._redirected()
            self._progress(loop, limit)
            try:
                decision = await asker.decide(PromptPattern.BASE_MAIN_SPECIALIZED)
            except TurnEnd as end:
                raise StepFailed(_END[end.outcome]) from end
            self._last_reply = decision.reply or self._last_reply
            if decision.refused_by_itself:
                idle += 1
                self._tell_refusal(decision)
            elif decision.actions:
                idle = 0
                if await self._acted(dispatcher, decision):
                    return
            elif decision.next_step is NextStep.DONE:
                return
            elif decision.next_step is NextStep.CONTINUE:
                idle += 1
                if idle >= IDLE_LOOPS:
                    break
                self._parts.notices.say(
                    "turn.nothing_asked",
                    step_id=self._step_id,
                    for_model="You said continue but asked for no action, so nothing happened. "
                    "Ask for an action, or set next_step to done or pending_user.",
                )
            else:
                question = decision.question.text if decision.question else decision.reply
                raise StepFailed(f"The user has to be asked: {one_line(question, 300)}")
            if idle >= IDLE_LOOPS:
                break
        if idle >= IDLE_LOOPS:
            raise StepFailed("The model neither acted nor ended the step, twice in a row.")
        raise StepFailed(f"The step was not done after {limit} decisions.")

    async def _acted(self, dispatcher: Dispatcher, decision: TurnDecision) -> bool:
        """Run the decision's actions; True when the step is done with them."""
        before = len(self._calls.log)
        await dispatcher.run(decision)
        ran = self._calls.log[before:]
        if dispatcher.stuck_on:
            raise StepFailed(f"The same call of {dispatcher.stuck_on} failed again and again.")
        if decision.next_step is NextStep.PENDING_USER:
            question = decision.question.text if decision.question else decision.reply
            raise StepFailed(f"The user has to be asked: {one_line(question, 300)}")
        return decision.next_step is NextStep.DONE and all(m.result.went_well for m in ran)

    def _tell_refusal(self, decision: TurnDecision) -> None:
        judgement = decision.goal_consistency
        check = "goal_consistency"
        if judgement.ok is not False:
            check, judgement = "constraint_check", decision.constraint_check
        self._parts.notices.warn(
            f"turn.{check}_no",
            step_id=self._step_id,
            for_model=f"Your {check} was no, so none of your actions ran.",
            reason=judgement.reason,
        )

    # --- by list: in order; a failure replans the rest (C9) -------------------------------------

    async def _by_list(self) -> None:
        failure = ""
        while True:
            if failure or not _open(self._step):
                await self._list(failure)
            tasks = _open(self._step)
            if not tasks:
                raise StepFailed("The list of tasks was empty.")
            failure = await self._tasks(tasks)
            if not failure:
                return
            if (wish := await self._redirected()) is not None:
                failure = f"The user said meanwhile: {wish}"
                continue
            self._replans += 1
            if self._replans > REPLANS:
                raise StepFailed(failure)

    async def _list(self, failure: str) -> None:
        try:
            tasks = await list_tasks(self._parts, self._plan_id, self._step_id, failure)
        except Unreadable as error:
            raise StepFailed(f"No usable list of tasks: {error}") from error
        await self._store.commit(
            StepTasksSet(plan_id=self._plan_id, step_id=self._step_id, tasks=tasks)
        )

    async def _tasks(self, tasks: tuple[Task, ...]) -> str:
        """Run them in order; what went wrong, or nothing. What is behind a failure is dropped."""
        results: dict[str, str] = {}
        total = len(self._step.task_list)
        for number, task in enumerate(tasks, start=1):
            await self._control.safe_point()
            if self._control.redirected:
                self._drop(tasks[number - 1 :])
                return "the user redirected the work"
            self._progress(total - len(tasks) + number, max(total, 1))
            failure, text = await self._task(task, results)
            if failure:
                self._drop(tasks[number:])
                return failure
            results[task.task_id] = text
        return ""

    def _drop(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            self._store.dispatch(
                TaskChanged(
                    plan_id=self._plan_id,
                    step_id=self._step_id,
                    task=task.model_copy(update={"status": WorkStatus.CANCELLED}),
                )
            )

    async def _task(self, task: Task, results: Mapping[str, str]) -> tuple[str, str]:
        words = task.description or self._step.name
        try:
            args = resolved(task.args, results)
        except LinkFault as fault:
            self._calls.ended_without_call(task, str(fault))
            return f"{task.operation}: {fault}", ""
        action = Action(
            call_id=self._parts.ids("call"),
            operation=task.operation,
            args=args,
            reasoning=words,
            intent=words,
        )
        message = await self._calls.run(task, action)
        if message.result.went_well:
            return "", message.result.text
        return f"{task.operation} {one_line(str(args), 200)}: {result_line(message)}", ""

    async def _redirected(self) -> str | None:
        """What the user said while the work was paused, into the step's own thread."""
        message = self._control.take_redirect()
        if message is None:
            return None
        await self._store.commit(
            UserMessageAdded(
                message=UserMessage(
                    message_id=message.message_id,
                    text=message.text,
                    step_id=self._step_id,
                    at=message.at,
                )
            )
        )
        return message.text

    async def _report(self, cause: str) -> StepReport:
        log = tuple(self._calls.log)
        step = self._step
        return await reported(
            self._parts,
            self._plan,
            step,
            log,
            cause=cause,
            said=self._last_reply,
            calls_before=self._calls_before,
            duration_s=self._store.clock.monotonic() - self._started,
        )

    # --- state ----------------------------------------------------------------------------------

    def _change(self, status: WorkStatus, note: str = "") -> None:
        if status is not WorkStatus.IN_PROGRESS:
            # What is left of a list goes with its run: another run must not begin in its middle.
            self._drop(_open(self._step))
        self._store.dispatch(
            StepChanged(
                plan_id=self._plan_id,
                step_id=self._step_id,
                status=status,
                note=note,
                mode=self._mode,
                at=self._store.clock.now(),
            )
        )

    def _progress(self, loop: int, limit: int) -> None:
        self._store.dispatch(
            WorkProgressed(
                work_id=self._work_id,
                step_id=self._step_id,
                mode=self._mode,
                loop=loop,
                limit=limit,
            )
        )


_END: Final = {
    "limit": "The step used up its calls to models.",
    "failed": "The model's replies could not be read.",
}


def _open(step: Step) -> tuple[Task, ...]:
    return tuple(task for task in step.task_list if task.status.is_open)
