"""One turn: a user message, the decisions it takes, their actions, and the end."""

from __future__ import annotations

import asyncio
from typing import Final

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.loops.asking import Asker, TurnEnd
from duckflow_tui.loops.control import TurnControl
from duckflow_tui.loops.dispatcher import Dispatcher
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.plan_desk import PlanDesk, run_words
from duckflow_tui.loops.plan_run import end_plan
from duckflow_tui.loops.step_report import changed_files
from duckflow_tui.state.agent import TurnInfo, TurnOutcome
from duckflow_tui.state.cards import STOP
from duckflow_tui.state.decision import NextStep, PromptPattern, TurnDecision
from duckflow_tui.state.events import (
    LoopStarted,
    ObjectiveChanged,
    OutsideChangesTold,
    StepChanged,
    TurnFinished,
    TurnStarted,
    UserMessageAdded,
    WorkingMemoryChanged,
)
from duckflow_tui.state.memory import updated
from duckflow_tui.state.messages import (
    CardMessage,
    OperationMessage,
    ReportMessage,
    UserMessage,
)
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.phase import Phase, Status, Trigger
from duckflow_tui.state.plans import ended_status, ready_steps
from duckflow_tui.state.work import Plan, PlanStatus, RequirementItem, TaskObjective, WorkStatus
from duckflow_tui.tools.operation import ToolFault

IDLE_LOOPS: Final = 2  # a decision that neither acts nor ends is caught at its second (S3-21)


class Turn:
    """Runs once. Whatever happens, ``TurnFinished`` is the last event of it."""

    def __init__(
        self, parts: TurnParts, desk: PlanDesk, message: UserMessage, *, plan_first: bool = False
    ) -> None:
        """``plan_first``: take the approved plan up again before the model is asked."""
        self._parts = parts
        self._desk = desk
        self._plan_first = plan_first
        self._store = parts.store
        self._message = message
        self.turn_id = parts.ids("turn")
        self.control = TurnControl(parts.store)
        self._dispatcher = Dispatcher(parts.caller, self.control)
        self._asker = Asker(parts)
        self._first = True  # the next decision is the first of the turn
        self._idle = 0
        self._answer_wanted = False  # a done without a word was sent back once
        self._messages_before = len(parts.store.state.messages)
        self._before = parts.store.state.usage
        self._started = parts.store.clock.monotonic()

    async def run(self) -> None:
        """The whole turn. A cancelled turn ends as stopped, and the cancellation goes on."""
        self._begin()
        try:
            await self._parts.ready()
            await self._loops()
        except TurnEnd as end:
            await self._finish(end.outcome, end.status)
        except LlmError as error:
            self._say_error(error)
            recovered = self._parts.machine.recover(f"{error.code}: {error.detail}"[:200])
            if not recovered:
                self._parts.machine.reset(status=Status.ERROR)
            await self._finish("failed", Status.ERROR)
        except asyncio.CancelledError:
            self._parts.machine.reset(Trigger.STOP)
            self._parts.notices.say("turn.stopped", for_model="The user stopped the work here.")
            await self._finish("stopped", Status.SUCCESS)
            raise
        except Exception:
            # Whatever broke, the turn must not be left open; the app's handler shows the error.
            self._parts.machine.reset(status=Status.ERROR)
            await self._finish("failed", Status.ERROR)
            raise

    # --- the loop ----------------------------------------------------------------------------

    async def _loops(self) -> None:
        limits = self._parts.limits
        pattern = PromptPattern.BASE_MAIN
        if self._plan_first:
            await self._rest_of_plan()
        for loop in range(1, limits.max_steps + 1):
            await self.control.safe_point()
            await self._take_redirect()
            self._tell_outside_changes()
            self._store.dispatch(LoopStarted(loop=loop, limit=limits.max_steps))
            decision = await self._asker.decide(pattern)
            await self._act(decision)
            pattern = decision.prompt_pattern
        self._parts.notices.warn("turn.limit", loops=str(limits.max_steps))
        raise TurnEnd("limit", Status.REQUIRES_USER_INPUT)

    async def _act(self, decision: TurnDecision) -> None:
        machine = self._parts.machine
        if decision.step is not None:
            machine.move(decision.step, Trigger.DECISION, decision_id=decision.decision_id)
        machine.set_status(Status.IN_PROGRESS)
        self._remember(decision)
        if decision.refused_by_itself:
            self._refuse(decision)
            return
        await self._dispatcher.run(decision)
        stuck = self._dispatcher.stuck_on
        if stuck:
            self._parts.notices.warn("turn.stuck", operation=stuck)
            raise TurnEnd("partial", Status.REQUIRES_USER_INPUT)
        if self.control.redirected or self._dispatcher.course_changed:
            self._idle = 0
            return
        if decision.actions:
            self._idle = 0
            if decision.next_step in (NextStep.CONTINUE, NextStep.DONE):
                return  # done with actions: their results are sent once more
        await self._end_if_wanted(decision)

    async def _end_if_wanted(self, decision: TurnDecision) -> None:
        wants_end = decision.next_step in (NextStep.DONE, NextStep.PENDING_USER)
        if wants_end and await self._rest_of_plan():
            self._idle = 0
            return  # its reports are sent, and answered, before the turn ends
        match decision.next_step:
            case NextStep.DONE:
                if self._wants_an_answer():
                    return
                raise TurnEnd(self._outcome("done"))
            case NextStep.PENDING_USER:
                raise TurnEnd(self._outcome("partial"), Status.REQUIRES_USER_INPUT)
            case NextStep.DEFER:
                self._parts.machine.reset(Trigger.DEFER)
                raise TurnEnd("partial")
            case NextStep.CONTINUE:
                self._idle += 1
                if self._idle >= IDLE_LOOPS:
                    self._parts.notices.warn("turn.idle")
                    raise TurnEnd("partial", Status.REQUIRES_USER_INPUT)
                self._parts.notices.say(
                    "turn.nothing_asked",
                    for_model="You said continue but asked for no action, so nothing happened. "
                    "Ask for an action, or set next_step to done or pending_user.",
                )

    def _wants_an_answer(self) -> bool:
        """A turn that did something and said nothing is asked once for its answer (S3-23)."""
        if self._asker.last_reply.strip() or self._answer_wanted or not self._log():
            return False
        self._answer_wanted = True
        self._parts.notices.say(
            "turn.no_answer",
            for_model="You ended the work without a word to the user. Tell them in reply what came "
            "of it.",
        )
        return True

    async def _rest_of_plan(self) -> bool:
        """Run what the user approved and nobody has run yet; True when something was.

        The approval is the user's order: a model that forgets it does not undo it.
        """
        plan = self._store.state.active_plan
        if plan is None or not plan.status.may_run or not ready_steps(plan):
            return False
        # What could not be done, or the user put aside, is for the next turn.
        if self._desk.put_aside == plan.plan_id:
            return False
        if not self._plan_first and self._halted(plan):
            return False
        try:
            result = await self._desk.work_on(plan)
        except ToolFault as fault:
            self._parts.notices.warn("work.ended", reason=fault.text, for_model=fault.text)
            return False
        self._parts.notices.say("work.reported", for_model=run_words(self._plan(plan), result))
        return True

    def _halted(self, plan: Plan) -> bool:
        """Whether the user stopped it: then only their key, or a call that they ask the model
        for, lets it go on.
        """
        if any(step.status is WorkStatus.CANCELLED for step in plan.steps):
            return True
        cards = (m for m in reversed(self._store.state.messages) if isinstance(m, CardMessage))
        last = next((m for m in cards if m.card.plan_id == plan.plan_id), None)
        return last is not None and last.answer.action == STOP.action

    def _plan(self, plan: Plan) -> Plan:
        return next(p for p in self._store.state.plans if p.plan_id == plan.plan_id)

    def _log(self) -> list[OperationMessage]:
        """The model's calls of this turn, those of steps included."""
        messages = self._store.state.messages[self._messages_before :]
        return [m for m in messages if isinstance(m, OperationMessage) and not m.by_user]

    def _outcome(self, wanted: TurnOutcome) -> TurnOutcome:
        """What the turn came to: a denial shows, and so does an approved plan left undone."""
        if any(m.result.outcome is Outcome.DENIED for m in self._log()):
            return "denied"
        plan = self._store.state.active_plan
        touched = plan is not None and any(
            isinstance(m, ReportMessage) and m.report.plan_id == plan.plan_id
            for m in self._store.state.messages[self._messages_before :]
        )
        if plan is not None and wanted == "done" and (touched or plan.status.may_run):
            return "done" if plan.status is PlanStatus.COMPLETED else "partial"
        return wanted

    def _refuse(self, decision: TurnDecision) -> None:
        """The model's own check said no: nothing runs (S4-59), it is shown, the model hears it."""
        check = "goal_consistency"
        judgement = decision.goal_consistency
        if judgement.ok is not False:
            check, judgement = "constraint_check", decision.constraint_check
        self._parts.notices.warn(
            f"turn.{check}_no",
            for_model=f"Your {check} was no, so none of your actions ran. Propose something that "
            "passes both checks, or ask the user.",
            reason=judgement.reason,
        )
        if decision.next_step is not NextStep.CONTINUE:
            raise TurnEnd("partial", Status.REQUIRES_USER_INPUT)
        self._idle += 1
        if self._idle >= IDLE_LOOPS:
            self._parts.notices.warn("turn.idle")
            raise TurnEnd("partial", Status.REQUIRES_USER_INPUT)

    # --- what a turn writes down -------------------------------------------------------------

    def _begin(self) -> None:
        self._desk.put_aside = ""
        state = self._store.state
        limits = self._parts.limits
        self._store.dispatch(
            TurnStarted(
                turn=TurnInfo(
                    turn_id=self.turn_id,
                    message_id=self._message.message_id,
                    max_attempts=limits.max_attempts,
                    limit=limits.max_steps,
                    started_at=self._store.clock.now(),
                    calls_before=self._before.calls,
                )
            )
        )
        if state.phase in (Phase.IDLE, Phase.DONE, Phase.AWAITING_APPROVAL):
            self._parts.machine.move(Phase.PLANNING, Trigger.USER_MESSAGE)
        self._parts.machine.set_status(Status.IN_PROGRESS)
        finished = state.last_turn is None or state.last_turn.outcome == "done"
        if state.objective is None or finished:
            self._store.dispatch(
                ObjectiveChanged(
                    objective=TaskObjective(
                        objective_id=self._parts.ids("obj"),
                        original_query=self._message.text,
                        created_at=self._message.at,
                        max_iterations=limits.max_attempts,
                    )
                )
            )

    def _remember(self, decision: TurnDecision) -> None:
        state = self._store.state
        update = updated(state.memory, decision.state_delta, last_delta=decision.rationale)
        if update.memory != state.memory or update.cuts:
            self._store.dispatch(WorkingMemoryChanged(memory=update.memory, cuts=update.cuts))
        if not self._first or state.objective is None:
            return
        self._first = False
        objective = state.objective
        items = tuple(
            RequirementItem(
                requirement_id=f"r{number}", requirement=claim.requirement, priority=claim.priority
            )
            for number, claim in enumerate(decision.requirements, start=1)
        )
        changed = objective.model_copy(
            update={
                "profile": decision.task_profile or objective.profile,
                "extracted_requirements": items or objective.extracted_requirements,
            }
        )
        if changed != objective:
            self._store.dispatch(ObjectiveChanged(objective=changed))

    async def _take_redirect(self) -> None:
        message = self.control.take_redirect()
        if message is not None:
            await self._store.commit(
                UserMessageAdded(
                    message=UserMessage(
                        message_id=message.message_id, text=message.text, at=message.at
                    )
                )
            )

    def _tell_outside_changes(self) -> None:
        paths = self._store.state.changed_outside
        if paths:
            names = ", ".join(paths)
            self._parts.notices.say(
                "files.changed_outside",
                for_model=f"Changed outside since you read them: {names}. Read again before you "
                "rely on what they held.",
                paths=names,
            )
            self._store.dispatch(OutsideChangesTold(paths=paths))

    def _say_error(self, error: LlmError) -> None:
        self._parts.notices.error(f"llm.error.{error.code}", **error.params)

    async def _finish(self, outcome: TurnOutcome, status: Status) -> None:
        machine = self._parts.machine
        state = self._store.state
        self._lay_steps_down()
        if outcome in ("done", "denied"):
            self._walk_to_done()
        elif outcome != "failed":
            machine.set_status(status)
        usage, before = state.usage, self._before
        cost = None
        if usage.cost is not None:
            cost = usage.cost - (before.cost or 0.0)
        await self._store.commit(
            TurnFinished(
                turn_id=self.turn_id,
                outcome=outcome,
                reply=self._asker.last_reply,
                llm_calls=usage.calls - before.calls,
                tokens=usage.tokens_in + usage.tokens_out - before.tokens_in - before.tokens_out,
                cost=cost,
                files_changed=changed_files(self._log()),
                duration_s=self._store.clock.monotonic() - self._started,
            )
        )

    def _lay_steps_down(self) -> None:
        """A step that the model works on itself runs no longer than the turn; a plan of which
        nothing is left is completed, though its work was stopped before it could say so.
        """
        for plan in self._store.state.plans:
            for step in plan.steps:
                if step.status is WorkStatus.IN_PROGRESS:
                    self._store.dispatch(
                        StepChanged(
                            plan_id=plan.plan_id,
                            step_id=step.step_id,
                            status=WorkStatus.CANCELLED,
                            note="the turn ended before it was done",
                            at=self._store.clock.now(),
                        )
                    )
            if ended_status(plan) is PlanStatus.COMPLETED:
                end_plan(self._store, plan.plan_id)

    def _walk_to_done(self) -> None:
        """At the end the engine walks by itself; a turn that only talked skips the review."""
        machine = self._parts.machine
        state = self._store.state
        if state.phase is Phase.PLANNING and not any(m.result.went_well for m in self._log()):
            machine.move(Phase.DONE, Trigger.CHAT_ONLY)
            return
        if state.phase is not Phase.REVIEW:
            machine.move(Phase.REVIEW, Trigger.DONE)
        machine.move(Phase.DONE, Trigger.DONE)
