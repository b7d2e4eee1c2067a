"""Runs one step of a plan, adaptively or by a task list, and makes its report."""

from __future__ import annotations

import asyncio

from pydantic import ValidationError

from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.state.base import LocalizedText, one_line
from duckflow_tui.state.calls import OperationMessage
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
    find_step,
)
from duckflow_tui.state.plan_events import (
    PlanStatusChanged,
    StepChanged,
    TaskChanged,
    WorkProgressed,
)
from duckflow_tui.state.session import CUT
from duckflow_tui.state.turn import Interrupted
from duckflow_tui.work.budget import BudgetEnd, TurnEnd
from duckflow_tui.work.consultation import Consultation, ConsultationEnd
from duckflow_tui.work.model_calls import Asker
from duckflow_tui.work.pace import PaceKeeper
from duckflow_tui.work.plan_operations import UPDATE_STEP, UpdateStep
from duckflow_tui.work.propose import list_steps
from duckflow_tui.work.report import (
    Cause,
    describe_report,
    make_cause,
    make_report,
    result_line,
)
from duckflow_tui.work.resumed_work import Rest, collect_step_log, find_interruption, find_rest
from duckflow_tui.work.services import TurnParts
from duckflow_tui.work.steering import TurnControl
from duckflow_tui.work.task_lists import list_tasks
from duckflow_tui.work.thread import Thread


class StepFailed(Exception):
    """Raised when the step cannot be done."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.text)
        self.cause = cause


class StepRun(Thread):
    """One run of a step, as a thread of decisions. When the run ends, the step has its final
    status. An adaptive run has its own loop limit (C1).
    """

    def __init__(
        self,
        parts: TurnParts,
        control: TurnControl,
        plan_id: str,
        work_id: str,
        step: Step,
        mode: ExecutionMode,
        rest: Rest | None = None,
    ) -> None:
        """``rest``: remaining actions of an earlier decision, which belong to this step."""
        turn = control.turn_pace
        self._step_pace = PaceKeeper(
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
            self._step_pace,
            step_id=step.step_id,
        )
        self.pattern = PromptPattern.BASE_MAIN_SPECIALIZED
        self.steering = control
        self._work_id = work_id
        self._plan_id = plan_id
        self._mode: ExecutionMode = mode
        self.log: list[OperationMessage] = []
        self._listed = 0  # tasks of the list that is carried out now
        self._interrupted: Interrupted | None = None  # set if an earlier process ended in this step
        self._rest = rest
        self._is_model_reachable = True  # until a request fails for good
        self.work_seen = list_steps(self._plan)  # by the newest decision
        self._end_note: str | None = None  # of the call that ended the step
        self._end_refused = False  # such a call of the newest decision ended nothing
        self.stopped = False  # by the user, or because nobody could be asked
        self.wish = ""  # what the user wants instead
        self._is_accepted = False  # the user accepted the unfinished step as done
        self._calls_before, self._waited_before = step.calls, step.waited_s
        self._started = parts.store.clock.monotonic()
        self._consultation = Consultation(
            parts, self._step_pace, lambda: self.log, plan_id=plan_id, step_id=step.step_id
        )

    @property
    def _plan(self) -> Plan:
        """The plan as it is now."""
        return self.store.state.get_plan(self._plan_id)

    @property
    def _step(self) -> Step:
        """The step as it is now."""
        step = self._plan.get_step(self.step_id)
        assert step is not None  # a step that runs cannot be dropped
        return step

    async def run(self) -> StepReport:
        """Run the step and record its report. Raises CancelledError after marking it as stopped."""
        self._interrupted = find_interruption(self.store.state, self.step_id)
        if self._interrupted is not None:
            self.log.extend(collect_step_log(self.store.state, self.step_id))
        self._record_progress(0, self.parts.settings.max_steps)
        self._record_status(WorkStatus.IN_PROGRESS)
        self.store.dispatch(PlanStatusChanged(plan_id=self._plan_id, status=PlanStatus.IN_PROGRESS))
        try:
            cause = await self._do_step()
            report = await make_report(
                self.parts,
                self._plan,
                self._step,
                tuple(self.log),
                cause=cause,
                last_words=self._last_words(),
                reachable=self._is_model_reachable,
                early=bool(self.ran),
                calls_before=self._calls_before,
                waited_before=self._waited_before,
                started=self._started,
            )
        except asyncio.CancelledError:
            self._record_status(WorkStatus.CANCELLED, "stopped")
            raise
        except Exception as error:
            # The step must not appear to be running; whoever spawned this job shows the error.
            self._record_status(WorkStatus.FAILED, one_line(repr(error), 200))
            raise
        if self._is_accepted:
            report = report.replace(status="completed", told=None)
        done = report.status == "completed"
        self._record_status(
            WorkStatus.COMPLETED if done else WorkStatus.FAILED,
            one_line(report.summary if done else report.cause or report.summary, 200),
        )
        told = describe_report(report, self.parts.notices.words, self.asker.last_reply)
        await self.parts.add_report(report, for_model=told)
        return report

    async def _do_step(self) -> Cause | None:
        """Do the work of the step; return why it failed, or None."""
        pace = self._step_pace
        work = self._interrupted.work if self._interrupted is not None else None
        loop = work.loop if work is not None and work.mode == "adaptive" else 0
        pace.begin_step(loop)
        self.steering.step_pace = pace
        try:
            await self.run_decisions(await self._find_first_calls())
        except StepFailed as failed:
            return failed.cause
        except BudgetEnd:
            self.stopped = True  # the turn has the same budget
            return make_cause(self.parts, "budget")
        except TurnEnd:  # the repairs are used up
            return make_cause(self.parts, "unreadable")
        except LlmError as error:
            self.parts.notices.error(
                f"llm.error.{error.code}", step_id=self.step_id, **error.params
            )
            self._is_model_reachable = False
            problem = f"{error.code}, {error.detail}".rstrip(", ")
            text = self.parts.notices.words("work.cause.unasked", problem=problem)
            return Cause(text, LocalizedText(key=f"llm.error.{error.code}", params=error.params))
        finally:
            self.steering.step_pace = None
        return None

    async def _find_first_calls(self) -> Rest | None:
        """Return the calls with which the step begins or, after an interruption, continues; None if
        the model decides first.
        """
        if self._interrupted is not None:
            rest = find_rest(self.store.state, self.step_id) or self._rest
            cut = any(task.result == CUT for task in self._step.task_list)
            if rest is not None or cut or not _open_tasks(self._step):
                return rest
        return await self._take_list() if self._mode == "tasklist" else self._rest

    # --- one decision after each result (S3-8) ---------------------------------------------------

    async def prepare_decision(self) -> bool:
        """Wait while paused, consult the user if needed, and count the loop; True if the user
        accepted the step as it is.
        """
        await super().prepare_decision()
        consulted = await self._consultation.ask_if_due()
        if consulted is not None:
            self.idle = 0
            if self._ends_with(consulted):
                return True
        self._record_progress(self._step_pace.next_loop(), self._step_pace.limit.max_loops)
        return False

    async def take_decision(self, decision: TurnDecision) -> None:
        """Note the plan that the decision saw, and update the pacemaker."""
        self.work_seen, self._end_refused = list_steps(self._plan), False
        self._listed = 0
        await super().take_decision(decision)

    def hands_over(self) -> bool:
        """Whether the remaining calls are not run by this step: after the call that ended it, they
        belong to the next step; of a task list they are dropped after a failed call or new words
        of the user, and the model decides anew.
        """
        if self._listed:
            return self.changes_course or any(not m.result.went_well for m in self.ran)
        return self._end_note is not None

    def reason_to_skip(self, action: Action) -> str:
        """Return why to skip a call: the call before it tried to end the step and could not. Empty
        to run it.
        """
        return self.parts.notices.words("skip.not_ended") if self._end_refused else ""

    def _ends_step(self, action: Action) -> bool:
        """Whether the action marks this step as completed."""
        if action.operation != UPDATE_STEP:
            return False
        try:
            given = UpdateStep.model_validate(action.args)
        except ValidationError:
            return False  # the call says what is wrong with them
        return given.status == "completed" and find_step(self._plan, given.step_id) == self._step

    async def run_call(self, action: Action) -> OperationMessage:
        """Run a call and record it as a task of the step. The call that ends the step becomes no
        task, and it is skipped unless all calls before it succeeded.
        """
        if self._listed:
            self._record_progress(len(self.ran) + 1, self._listed)
        if not self._ends_step(action):
            return await self._run_task(self._task_of(action), action)
        if not all(message.result.went_well for message in self.ran):
            self._end_refused = True
            return await super().skip_call(action, self.parts.notices.words("skip.not_ended"))
        message = await super().run_call(action)
        if message.result.went_well:
            self._end_note = str(action.args.get("note", ""))
        else:
            self._end_refused = True
        return message

    async def skip_call(self, action: Action, reason: str) -> OperationMessage:
        """Record a skipped call and its task."""
        message = await super().skip_call(action, reason)
        self.log.append(message)
        task = self._task_of(action)
        self._record_task(task.model_copy(update={"status": WorkStatus.SKIPPED, "result": reason}))
        return message

    async def follow_decision(self, decision: TurnDecision) -> bool:
        """Return True if the step is done. Raises StepFailed if the model stops with a question
        that nobody answers.
        """
        if self._end_note is not None:
            return True
        self.left = None
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
            case _ if self._rest is not None and decision is self._rest.decision:
                return False  # it was said of the plan, not of this step
            case NextStep.PENDING_USER if self.tell_nobody():
                return False
            case _:
                raise StepFailed(self._name_question(decision))

    def _last_words(self) -> str:
        """Return the model's last words on the step: the note of the call that ended it, else its
        last reply.
        """
        if self._end_note is not None:
            return self._end_note
        return self.asker.last_reply or (self._rest.decision.reply if self._rest else "")

    def _ends_with(self, consulted: ConsultationEnd) -> bool:
        """Whether the user accepted the step as it is. Raises StepFailed if the consultation
        stopped it.
        """
        if consulted.end == "goes_on":
            return False
        if consulted.end == "accepted":
            self.stopped = self._is_accepted = True
            return True
        self.stopped, self.wish = True, consulted.wish
        if not self.wish:
            self.steering.turn_end = consulted.turn_outcome
        raise StepFailed(make_cause(self.parts, consulted.end))

    def _name_question(self, decision: TurnDecision) -> Cause:
        """Return the model's question to the user as the cause of the failure."""
        text = decision.question.text if decision.question else decision.reply
        return Cause(said) if (said := one_line(text, 300)) else make_cause(self.parts, "not_said")

    # --- by list: in order, until a call fails; from there on adaptive (C9) ---------------------

    async def _take_list(self) -> Rest | None:
        """Return the open tasks of the step as the calls of one decision, listing them first if
        there are none; None for an empty list. Raises StepFailed.
        """
        if not _open_tasks(self._step):
            try:
                await list_tasks(self.parts, self._plan, self._step)
            except Unreadable as error:
                cause = make_cause(self.parts, "no_list", problem=str(error))
                raise StepFailed(cause) from error
        actions: list[Action] = []
        for task in _open_tasks(self._step):
            call_id, words = self.parts.ids("call"), task.description or self._step.name
            self._record_task(task.replace(call_id=call_id))
            actions.append(
                Action(
                    call_id=call_id,
                    operation=task.operation,
                    args=task.args,
                    reasoning=words,
                    intent=words,
                )
            )
        if not actions:
            return None
        self._listed = len(actions)
        decision = TurnDecision(
            decision_id=actions[0].call_id,
            next_step=NextStep.DONE,
            actions=tuple(actions),
        )
        return Rest(decision, decision.actions)

    @property
    def takes_one_call(self) -> bool:
        """Whether only the first call of a decision runs; False for a task list."""
        return super().takes_one_call and not self._listed

    # --- tasks ----------------------------------------------------------------------------------

    async def _run_task(self, task: Task, action: Action) -> OperationMessage:
        """Run the action of a task and record its result. Raises CancelledError after marking the
        task as cancelled.
        """
        clock = self.store.clock
        begun = clock.monotonic()
        status, begun_at = WorkStatus.IN_PROGRESS, clock.now()
        begins = {"call_id": action.call_id, "started_at": begun_at, "waited_s": 0.0}
        task = task.replace(status=status, **begins)
        self._record_task(task)
        ended: dict[str, object] = {"status": WorkStatus.FAILED}  # where the call raises
        try:
            message = await super().run_call(action)
            self.log.append(message)
            ended = {"status": _task_status(message), "result": result_line(message)}
        except asyncio.CancelledError:
            ended = {"status": WorkStatus.CANCELLED, "result": "stopped"}
            raise
        finally:
            waited = sum(t.waited_s for t in self._step.task_list if t.task_id == task.task_id)
            ended["duration_s"] = clock.monotonic() - begun - waited
            self._record_task(task.model_copy(update=ended))
        return message

    def _task_of(self, action: Action) -> Task:
        """Return the open task of a call left by an earlier process, else a new one."""
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

    def _record_task(self, task: Task) -> None:
        """Record the task in the state."""
        self.store.dispatch(TaskChanged(plan_id=self._plan_id, step_id=self.step_id, task=task))

    # --- state ----------------------------------------------------------------------------------

    def _record_status(self, status: WorkStatus, note: str = "") -> None:
        """Record the status of the step; unless it begins, cancel its open tasks."""
        if status is not WorkStatus.IN_PROGRESS:
            # Cancel the remaining tasks: another run must not begin in the middle of the list.
            for task in _open_tasks(self._step):
                self._record_task(task.replace(status=WorkStatus.CANCELLED))
        self.store.dispatch(
            StepChanged(
                plan_id=self._plan_id,
                step_id=self.step_id,
                status=status,
                note=note,
                mode=self._mode,
                taken=self._is_accepted and status is WorkStatus.COMPLETED,
                at=self.store.clock.now(),
            )
        )

    def _record_progress(self, loop: int, limit: int) -> None:
        """Record the loop, or task number, and its limit."""
        self.store.dispatch(
            WorkProgressed(
                work_id=self._work_id,
                step_id=self.step_id,
                mode=self._mode,
                loop=loop,
                limit=limit,
            )
        )


def _open_tasks(step: Step) -> tuple[Task, ...]:
    """Return the tasks of the step that have not ended."""
    return tuple(task for task in step.task_list if task.status.is_open)


def _task_status(message: OperationMessage) -> WorkStatus:
    """Return the status of a task by the result of its call."""
    if message.result.went_well:
        return WorkStatus.COMPLETED
    if message.result.outcome in (Outcome.SKIPPED, Outcome.REJECTED, Outcome.DECLINED):
        return WorkStatus.SKIPPED
    return WorkStatus.CANCELLED if message.result.outcome is Outcome.STOPPED else WorkStatus.FAILED
