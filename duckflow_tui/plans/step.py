"""One run of one step of a plan: adaptive, or by its task list; then the report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from duckflow_tui.agent.ask import Asker
from duckflow_tui.agent.budget import BudgetEnd, TurnEnd
from duckflow_tui.agent.dispatch import (
    Dispatcher,
    OperationCaller,
    cut_task,
    interrupted_at,
    rest_of,
    step_log,
    task_results,
)
from duckflow_tui.goals.consultation import Consultation, Consulted
from duckflow_tui.goals.pace import PaceKeeper
from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.plans.report import report_words, reported, result_line
from duckflow_tui.plans.tasks import LinkFault, call_of, list_tasks
from duckflow_tui.state.base import IdSource, Told, one_line
from duckflow_tui.state.conversation import UserMessage, UserMessageAdded
from duckflow_tui.state.decision import Action, NextStep, PromptPattern, TurnDecision
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import (
    ExecutionMode,
    Plan,
    PlanStatus,
    ReportMessage,
    Step,
    StepReport,
    Task,
    WorkStatus,
)
from duckflow_tui.state.plan_events import (
    PlanStatusChanged,
    ReportAdded,
    StepChanged,
    StepTasksSet,
    TaskChanged,
    WorkProgressed,
)

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.agent.steering import TurnControl
    from duckflow_tui.state.calls import OperationMessage
    from duckflow_tui.state.store import Store
    from duckflow_tui.state.turn import Interrupted

REPLANS: Final = 2  # times a step's remaining tasks are listed anew after a failure

IDLE_LOOPS: Final = 2  # a decision that neither acts nor ends is caught at its second (S3-21)


class StepFailed(Exception):
    """The step cannot be done now; ``str()`` is the cause, ``told`` the same in the app's own words
    for the user, where it has some.
    """

    def __init__(self, text: str, told: Told | None = None) -> None:
        super().__init__(text)
        self.told = told


def _because(code: str, text: str) -> StepFailed:
    return StepFailed(text, Told(key=f"work.cause.{code}"))


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
        self._before: Interrupted | None = None  # when an earlier process ended in this step
        self.stopped = False  # by the user, or because nobody could be asked
        self.wish = ""  # what the user wants instead
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
        self._before = interrupted_at(self._store.state, self._step_id)
        if self._before is not None:
            self._calls.log.extend(step_log(self._store.state, self._step_id))
        self._change(WorkStatus.IN_PROGRESS)
        self._store.dispatch(
            PlanStatusChanged(plan_id=self._plan_id, status=PlanStatus.IN_PROGRESS)
        )
        try:
            report = await self._report(*await self._cause())
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

    async def _cause(self) -> tuple[str, Told | None]:
        """Do the step; what kept it from being done, or nothing, and the same for the user."""
        try:
            if self._mode == "tasklist":
                await self._by_list()
            else:
                await self._adaptive()
        except StepFailed as failed:
            return str(failed), failed.told
        except BudgetEnd as end:
            self.stopped = True
            self._control.turn_end = end.outcome, end.status
            text = "The user's limit of calls to models was reached, and was not raised."
            return text, Told(key="work.cause.budget")
        except LlmError as error:
            self._parts.notices.error(
                f"llm.error.{error.code}", step_id=self._step_id, **error.params
            )
            text = f"The model could not be asked: {error.code}, {error.detail}".rstrip(", ")
            return text, Told(key=f"llm.error.{error.code}", params=error.params)
        return "", None

    # --- adaptive: one decision after each result (S3-8) ----------------------------------------

    async def _adaptive(self) -> None:
        """The limit of a run is the setting's; the turn's own limit does not count here (C1)."""
        turn = self._control.turn_pace
        pace = PaceKeeper(
            self._store,
            self._parts.pacemaker,
            self._parts.specs,
            step_id=self._step_id,
            step_limit=self._parts.limits.max_steps,
            outcomes=turn.outcomes if turn else None,
        )
        self._control.step_pace = pace
        try:
            await self._decisions(pace)
        finally:
            self._control.step_pace = None

    async def _decisions(self, pace: PaceKeeper) -> None:
        consultation = Consultation(
            self._parts,
            pace,
            lambda: self._calls.log,
            plan_id=self._plan_id,
            step_id=self._step_id,
        )
        asker = Asker(self._parts, purpose="task", step_id=self._step_id)
        dispatcher = Dispatcher(self._calls, self._control)
        idle = 0
        if self._before is not None and self._before.work is not None:
            pace.take_up(self._step.name, self._before.work.loop)
            rest = rest_of(self._store.state, self._step_id)
            if rest is not None:
                await dispatcher.take_up(rest)
                if self._after(dispatcher, rest.decision, pace, self._calls.log):
                    return
        while True:
            await self._control.safe_point()
            if await self._redirected() is not None:
                pace.forgive()
            consulted = await consultation.if_due()
            if consulted is not None:
                idle = 0
                if self._ends_with(consulted):
                    return
            self._progress(pace.next_loop(), pace.limit)
            try:
                decision = await asker.decide(PromptPattern.BASE_MAIN_SPECIALIZED, pace.role)
            except BudgetEnd:
                raise
            except TurnEnd as end:
                raise _because("unreadable", "The model's replies could not be read.") from end
            self._last_reply = decision.reply or self._last_reply
            pace.decided(decision, asker.repaired)
            if decision.refused_by_itself:
                idle += 1
                pace.acted(())
                self._tell_refusal(decision)
            elif decision.actions:
                idle = 0
                if await self._acted(dispatcher, decision, pace):
                    return
            elif decision.next_step is NextStep.DONE:
                return
            elif decision.next_step is NextStep.CONTINUE:
                idle += 1
                pace.acted(())
                if idle >= IDLE_LOOPS:
                    break
                self._parts.notices.say(
                    "turn.nothing_asked",
                    step_id=self._step_id,
                    for_model="You said continue but asked for no action, so nothing happened. "
                    "Ask for an action, or set next_step to done or pending_user.",
                )
            else:
                raise _question(decision)
            if idle >= IDLE_LOOPS:
                break
        raise _because("idle", "The model neither acted nor ended the step, twice in a row.")

    def _ends_with(self, consulted: Consulted) -> bool:
        """Whether the step ends with what there is; raises StepFailed where it cannot go on."""
        if consulted.end in ("goes_on", "accepted"):
            return consulted.end == "accepted"
        self.stopped, self.wish = True, consulted.wish
        if not self.wish:
            self._control.turn_end = consulted.outcome
        text = {
            "stopped": "The user wanted it to end here.",
            "waits": "It waits for the user's word.",
            "nobody": "It could not be done so, and nobody was there to ask.",
        }[consulted.end]
        raise _because(consulted.end, text)

    async def _acted(
        self, dispatcher: Dispatcher, decision: TurnDecision, pace: PaceKeeper
    ) -> bool:
        """Run the decision's actions; True when the step is done with them."""
        before = len(self._calls.log)
        await dispatcher.run(decision)
        return self._after(dispatcher, decision, pace, self._calls.log[before:])

    def _after(
        self,
        dispatcher: Dispatcher,
        decision: TurnDecision,
        pace: PaceKeeper,
        ran: Sequence[OperationMessage],
    ) -> bool:
        pace.acted(dispatcher.ran, dispatcher.stuck)
        if decision.next_step is NextStep.PENDING_USER:
            raise _question(decision)
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
        failure = cut_task(self._step) if self._before is not None else ""
        while True:
            if failure or not _open(self._step):
                await self._list(failure)
            tasks = _open(self._step)
            if not tasks:
                raise _because("no_tasks", "The list of tasks was empty.")
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
            if failure:
                raise StepFailed(failure) from error
            raise _because("no_list", f"No usable list of tasks: {error}") from error
        await self._store.commit(
            StepTasksSet(plan_id=self._plan_id, step_id=self._step_id, tasks=tasks)
        )

    async def _tasks(self, tasks: tuple[Task, ...]) -> str:
        """Run them in order; what went wrong, or nothing. What is behind a failure is dropped."""
        results = task_results(self._step, self._calls.log) if self._before else {}
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
        try:
            action = call_of(task, results, self._parts.ids, self._step.name)
        except LinkFault as fault:
            self._calls.ended_without_call(task, str(fault))
            return f"{task.operation}: {fault}", ""
        message = await self._calls.run(task, action)
        if message.result.went_well:
            return "", message.result.text
        return f"{task.operation} {one_line(str(action.args), 200)}: {result_line(message)}", ""

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

    async def _report(self, cause: str, told: Told | None) -> StepReport:
        log = tuple(self._calls.log)
        step = self._step
        return await reported(
            self._parts,
            self._plan,
            step,
            log,
            cause=cause,
            told=told,
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


def _question(decision: TurnDecision) -> StepFailed:
    """What the user has to be asked, in the model's words alone: it is shown as the cause."""
    text = decision.question.text if decision.question else decision.reply
    if said := one_line(text, 300):
        return StepFailed(said)
    return _because("not_said", "The user has to be asked, and the model did not say what.")


def _open(step: Step) -> tuple[Task, ...]:
    return tuple(task for task in step.task_list if task.status.is_open)


class StepCalls:
    """An ``OperationCaller`` that keeps the step's tasks true to what its calls do."""

    def __init__(
        self, caller: OperationCaller, store: Store, ids: IdSource, plan_id: str, step_id: str
    ) -> None:
        self._caller = caller
        self._store = store
        self._ids = ids
        self._plan_id = plan_id
        self._step_id = step_id
        self.log: list[OperationMessage] = []

    async def call(self, action: Action, *, step_id: str = "") -> OperationMessage:
        """A call of an adaptive step: a new task at the end of its list."""
        return await self.run(self._task(action), action)

    async def skip(self, action: Action, reason: str, *, step_id: str = "") -> OperationMessage:
        """A call that was asked for and not run."""
        message = await self._caller.skip(action, reason, step_id=self._step_id)
        self.log.append(message)
        task = self._task(action)
        self._put(task.model_copy(update={"status": WorkStatus.SKIPPED, "result": reason}))
        return message

    async def run(self, task: Task, action: Action) -> OperationMessage:
        """Run a task by this action; raises CancelledError after the task was marked so."""
        clock = self._store.clock
        begun = clock.monotonic()
        task = task.model_copy(
            update={
                "status": WorkStatus.IN_PROGRESS,
                "call_id": action.call_id,
                "started_at": clock.now(),
            }
        )
        self._put(task)
        status, result = WorkStatus.FAILED, ""  # unless it ends in another way
        try:
            message = await self._caller.call(action, step_id=self._step_id)
            self.log.append(message)
            status, result = _status(message), result_line(message)
        except asyncio.CancelledError:
            status, result = WorkStatus.CANCELLED, "stopped"
            raise
        finally:
            self._end(task, status, result, begun)
        return message

    def ended_without_call(self, task: Task, reason: str) -> None:
        """A task that could not even be called."""
        self._put(task.model_copy(update={"status": WorkStatus.FAILED, "result": reason}))

    def _task(self, action: Action) -> Task:
        """The task of a call: the one it had when an earlier process asked for it, or a new one."""
        for plan in self._store.state.plans:
            step = plan.step(self._step_id) if plan.plan_id == self._plan_id else None
            for task in step.task_list if step else ():
                if task.call_id == action.call_id and task.status.is_open:
                    return task
        return Task(
            task_id=self._ids("task"),
            operation=action.operation,
            args=action.args,
            description=action.intent or one_line(action.reasoning, 100),
            call_id=action.call_id,
        )

    def _end(self, task: Task, status: WorkStatus, result: str, begun: float) -> None:
        self._put(
            task.model_copy(
                update={
                    "status": status,
                    "result": result,
                    "duration_s": self._store.clock.monotonic() - begun,
                }
            )
        )

    def _put(self, task: Task) -> None:
        self._store.dispatch(TaskChanged(plan_id=self._plan_id, step_id=self._step_id, task=task))


def _status(message: OperationMessage) -> WorkStatus:
    if message.result.went_well:
        return WorkStatus.COMPLETED
    if message.result.outcome in (Outcome.SKIPPED, Outcome.REJECTED, Outcome.DECLINED):
        return WorkStatus.SKIPPED
    return WorkStatus.CANCELLED if message.result.outcome is Outcome.STOPPED else WorkStatus.FAILED
