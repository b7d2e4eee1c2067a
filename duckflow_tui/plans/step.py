"""One run of one step of a plan: adaptive, or by its task list; then the report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from duckflow_tui.agent.ask import Asker
from duckflow_tui.agent.budget import BudgetEnd, TurnEnd
from duckflow_tui.agent.rest import cut_task, interrupted_at, rest_of, step_log, task_results
from duckflow_tui.agent.thread import Thread
from duckflow_tui.goals.consultation import Consultation, ConsultationEnd
from duckflow_tui.goals.pace import PaceKeeper
from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.plans.report import failed_task, make_report, report_words, result_line
from duckflow_tui.plans.tasks import LinkFault, call_of, list_tasks
from duckflow_tui.state.base import Told, one_line
from duckflow_tui.state.decision import Action, NextStep, PromptPattern, TurnDecision
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.plan import (
    ExecutionMode,
    Plan,
    PlanStatus,
    Step,
    StepReport,
    Task,
    WorkStatus,
)
from duckflow_tui.state.plan_events import (
    PlanStatusChanged,
    StepChanged,
    StepTasksSet,
    TaskChanged,
    WorkProgressed,
)

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.agent.steering import TurnControl
    from duckflow_tui.state.calls import OperationMessage
    from duckflow_tui.state.turn import Interrupted

REPLANS: Final = 2  # times a step's remaining tasks are listed anew after a failure


class StepFailed(Exception):
    """The step cannot be done now; ``str()`` is the cause, ``told`` the same in the app's own words
    for the user, where it has some.
    """

    def __init__(self, text: str, told: Told | None = None) -> None:
        super().__init__(text)
        self.told = told


def _because(code: str, text: str) -> StepFailed:
    return StepFailed(text, Told(key=f"work.cause.{code}"))


class StepRun(Thread):
    """The thread of one run of a step. Whatever happens, the step has left IN_PROGRESS when it is
    over. An adaptive run is paced as a turn is, by a limit of its own (C1).
    """

    def __init__(
        self,
        parts: TurnParts,
        control: TurnControl,
        plan_id: str,
        work_id: str,
        step: Step,
        mode: ExecutionMode,
    ) -> None:
        turn = control.turn_pace
        self._paced = PaceKeeper(
            parts.store,
            parts.settings.pacemaker,
            parts.router.registry.specs,
            step_id=step.step_id,
            step_cap=parts.settings.max_steps,
            outcomes=turn.outcomes if turn else None,
        )
        super().__init__(
            parts,
            Asker(parts, purpose="task", step_id=step.step_id),
            control,
            self._paced if mode == "adaptive" else None,
            step_id=step.step_id,
        )
        self.pattern = PromptPattern.BASE_MAIN_SPECIALIZED
        self.steering = control
        self._work_id = work_id
        self._plan_id = plan_id
        self._mode: ExecutionMode = mode
        self.log: list[OperationMessage] = []
        self._replans = 0
        self._before: Interrupted | None = None  # when an earlier process ended in this step
        self.stopped = False  # by the user, or because nobody could be asked
        self.wish = ""  # what the user wants instead
        self._taken = False  # the user took what there is as done
        self._calls_before, self._waited_before = step.calls, step.waited_s
        self._started = parts.store.clock.monotonic()
        self._consultation = Consultation(
            parts, self._paced, lambda: self.log, plan_id=plan_id, step_id=step.step_id
        )

    @property
    def _plan(self) -> Plan:
        return self.store.state.plan(self._plan_id)

    @property
    def _step(self) -> Step:
        step = self._plan.step(self.step_id)
        assert step is not None  # a step that runs cannot be dropped
        return step

    async def run(self) -> StepReport:
        """The whole step. Raises CancelledError after the step was marked as stopped."""
        self._before = interrupted_at(self.store.state, self.step_id)
        if self._before is not None:
            self.log.extend(step_log(self.store.state, self.step_id))
        self._change(WorkStatus.IN_PROGRESS)
        self.store.dispatch(PlanStatusChanged(plan_id=self._plan_id, status=PlanStatus.IN_PROGRESS))
        try:
            cause, told = await self._cause()
            report = await make_report(
                self.parts,
                self._plan,
                self._step,
                tuple(self.log),
                cause=cause,
                told=told,
                said=self.asker.last_reply,
                early=bool(self.ran),
                calls_before=self._calls_before,
                waited_before=self._waited_before,
                started=self._started,
            )
        except asyncio.CancelledError:
            self._change(WorkStatus.CANCELLED, "stopped")
            raise
        except Exception as error:
            # Whatever broke, the step must not look as if it still ran; who spawned shows it.
            self._change(WorkStatus.FAILED, one_line(repr(error), 200))
            raise
        if self._taken:
            report = report.replace(status="completed", told=None)
        done = report.status == "completed"
        self._change(
            WorkStatus.COMPLETED if done else WorkStatus.FAILED,
            one_line(report.summary if done else report.cause or report.summary, 200),
        )
        await self.parts.add_report(report, for_model=report_words(report, self.asker.last_reply))
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
        except BudgetEnd:
            self.stopped = True  # and the turn's next call is refused as well
            text = "The user's limit of calls to models was reached, and was not raised."
            return text, Told(key="work.cause.budget")
        except TurnEnd:  # the repairs are used up
            told = Told(key="work.cause.unreadable")
            return "The model's replies could not be read.", told
        except LlmError as error:
            self.parts.notices.error(
                f"llm.error.{error.code}", step_id=self.step_id, **error.params
            )
            text = f"The model could not be asked: {error.code}, {error.detail}".rstrip(", ")
            return text, Told(key=f"llm.error.{error.code}", params=error.params)
        return "", None

    # --- adaptive: one decision after each result (S3-8) ----------------------------------------

    async def _adaptive(self) -> None:
        rest, step = None, self._step
        text = f"{step.name}\n{step.description}"
        if self._before is not None and (work := self._before.work) is not None:
            self._paced.begin_step(text, work.loop, work.limit)
            rest = rest_of(self.store.state, self.step_id)
        else:
            self._paced.begin_step(text)
        self.steering.step_pace = self._paced
        try:
            await self.decisions(rest)
        finally:
            self.steering.step_pace = None

    async def before(self) -> bool:
        await super().before()
        consulted = await self._consultation.if_due()
        if consulted is not None:
            self.idle = 0
            if self._ends_with(consulted):
                return True
        self._progress(self._paced.next_loop(), self._paced.limit.max_loops)
        return False

    async def call(self, action: Action) -> OperationMessage:
        """A call of an adaptive step: a new task at the end of its list."""
        return await self._run_task(self._task_of(action), action)

    async def skip(self, action: Action, reason: str) -> OperationMessage:
        message = await super().skip(action, reason)
        self.log.append(message)
        task = self._task_of(action)
        self._put(task.model_copy(update={"status": WorkStatus.SKIPPED, "result": reason}))
        return message

    async def after(self, decision: TurnDecision) -> bool:
        if self.changes_course:
            return False
        asks = decision.step is Phase.AWAITING_APPROVAL and not decision.actions
        if (asks or decision.offers_keys) and await self.ask_user(decision):
            return False
        match decision.next_step:
            case NextStep.DONE:
                asked = {action.call_id for action in decision.actions}
                return all(m.result.went_well for m in self.log if m.call_id in asked)
            case NextStep.CONTINUE:
                return False
            case _:
                raise _question(decision)

    def _ends_with(self, consulted: ConsultationEnd) -> bool:
        """Whether the step ends with what there is; raises StepFailed where it cannot go on."""
        if consulted.end == "goes_on":
            return False
        if consulted.end == "accepted":
            self.stopped = self._taken = True
            return True
        self.stopped, self.wish = True, consulted.wish
        if not self.wish:
            self.steering.turn_end = consulted.outcome
        text = {
            "stopped": "The user wanted it to end here.",
            "waits": "It waits for the user's word.",
            "nobody": "It could not be done so, and nobody was there to ask.",
        }[consulted.end]
        raise _because(consulted.end, text)

    # --- by list: in order; a failure replans the rest (C9) -------------------------------------

    async def _by_list(self) -> None:
        failure = cut_task(self._step) if self._before is not None else ""
        while True:
            if failure or not _open(self._step):
                await self._list(failure)
            if not _open(self._step):
                if failure:  # and nobody knows another way
                    raise StepFailed(failure, self._failed())
                self.pace = self._paced
                await self._adaptive()  # it brings words
                return
            failure = await self._tasks(_open(self._step))
            if not failure:
                return
            if (wish := await self.take_redirect()) is not None:
                failure = f"The user said meanwhile: {wish}"
                continue
            self._replans += 1
            if self._replans > REPLANS:
                raise StepFailed(failure, self._failed())

    async def _list(self, failure: str) -> None:
        try:
            tasks = await list_tasks(self.parts, self._plan_id, self.step_id, failure)
        except Unreadable as error:
            if failure:
                raise StepFailed(failure, self._failed()) from error
            raise _because("no_list", f"No usable list of tasks: {error}") from error
        await self.store.commit(
            StepTasksSet(plan_id=self._plan_id, step_id=self.step_id, tasks=tasks)
        )

    async def _tasks(self, tasks: tuple[Task, ...]) -> str:
        """Run them in order; what went wrong, or nothing. What is behind a failure is dropped."""
        results = task_results(self._step, self.log) if self._before else {}
        total = len(self._step.task_list)
        for number, task in enumerate(tasks, start=1):
            await self.steering.safe_point()
            if self.steering.redirected is not None:
                self._drop(tasks[number - 1 :])
                return "the user redirected the work"
            self._progress(total - len(tasks) + number, max(total, 1))
            failure, text = await self._task(task, results)
            if failure:
                self._drop(tasks[number:])
                return failure
            results[task.task_id] = text
        return ""

    def _failed(self) -> Told | None:
        """The task that the list ended with, in words for the user."""
        for task in reversed(self._step.task_list):
            if task.result is not None and task.status is not WorkStatus.COMPLETED:
                return failed_task(task)
        return None

    def _drop(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            self._put(task.replace(status=WorkStatus.CANCELLED))

    async def _task(self, task: Task, results: Mapping[str, str]) -> tuple[str, str]:
        try:
            action = call_of(task, results, self.parts.ids, self._step.name)
        except LinkFault as fault:
            self._put(task.model_copy(update={"status": WorkStatus.FAILED, "result": str(fault)}))
            return f"{task.operation}: {fault}", ""
        message = await self._run_task(task, action)
        if message.result.went_well:
            return "", message.result.text
        return f"{task.operation} {one_line(str(action.args), 200)}: {result_line(message)}", ""

    async def _run_task(self, task: Task, action: Action) -> OperationMessage:
        """Run a task by this action; raises CancelledError after the task was marked so."""
        clock = self.store.clock
        begun = clock.monotonic()
        status, begun_at = WorkStatus.IN_PROGRESS, clock.now()
        begins = {"call_id": action.call_id, "started_at": begun_at, "waited_s": 0.0}
        task = task.replace(status=status, **begins)
        self._put(task)
        ended: dict[str, object] = {"status": WorkStatus.FAILED}  # unless it ends in another way
        try:
            message = await super().call(action)
            self.log.append(message)
            ended = {"status": _status(message), "result": result_line(message)}
        except asyncio.CancelledError:
            ended = {"status": WorkStatus.CANCELLED, "result": "stopped"}
            raise
        finally:
            waited = sum(t.waited_s for t in self._step.task_list if t.task_id == task.task_id)
            ended["duration_s"] = clock.monotonic() - begun - waited
            self._put(task.model_copy(update=ended))
        return message

    def _task_of(self, action: Action) -> Task:
        """The task of a call: the one it had when an earlier process asked for it, or a new one."""
        for task in self._step.task_list:
            if task.call_id == action.call_id and task.status.is_open:
                return task
        return Task(
            task_id=self.parts.ids("task"),
            operation=action.operation,
            args=action.args,
            description=action.intent or one_line(action.reasoning, 100),
            call_id=action.call_id,
        )

    def _put(self, task: Task) -> None:
        self.store.dispatch(TaskChanged(plan_id=self._plan_id, step_id=self.step_id, task=task))

    # --- state ----------------------------------------------------------------------------------

    def _change(self, status: WorkStatus, note: str = "") -> None:
        if status is not WorkStatus.IN_PROGRESS:
            # What is left of a list goes with its run: another run must not begin in its middle.
            self._drop(_open(self._step))
        self.store.dispatch(
            StepChanged(
                plan_id=self._plan_id,
                step_id=self.step_id,
                status=status,
                note=note,
                mode=self._mode,
                taken=self._taken and status is WorkStatus.COMPLETED,
                at=self.store.clock.now(),
            )
        )

    def _progress(self, loop: int, limit: int) -> None:
        self.store.dispatch(
            WorkProgressed(
                work_id=self._work_id,
                step_id=self.step_id,
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


def _status(message: OperationMessage) -> WorkStatus:
    if message.result.went_well:
        return WorkStatus.COMPLETED
    if message.result.outcome in (Outcome.SKIPPED, Outcome.REJECTED, Outcome.DECLINED):
        return WorkStatus.SKIPPED
    return WorkStatus.CANCELLED if message.result.outcome is Outcome.STOPPED else WorkStatus.FAILED
