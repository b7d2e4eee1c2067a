"""One turn: a user message, the decisions it takes, their actions, and the end."""

from __future__ import annotations

import asyncio
from typing import Final

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.loops.asking import Asker, TurnEnd
from duckflow_tui.loops.control import TurnControl
from duckflow_tui.loops.dispatcher import Dispatcher
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.state.agent import TurnInfo, TurnOutcome
from duckflow_tui.state.decision import NextStep, PromptPattern, TurnDecision
from duckflow_tui.state.events import (
    LoopStarted,
    ObjectiveChanged,
    OutsideChangesTold,
    TurnFinished,
    TurnStarted,
    UserMessageAdded,
    WorkingMemoryChanged,
)
from duckflow_tui.state.memory import updated
from duckflow_tui.state.messages import UserMessage
from duckflow_tui.state.phase import Phase, Status, Trigger
from duckflow_tui.state.work import RequirementItem, TaskObjective

IDLE_LOOPS: Final = 2  # a decision that neither acts nor ends is caught at its second (S3-21)


class Turn:
    """Runs once. Whatever happens, ``TurnFinished`` is the last event of it."""

    def __init__(self, parts: TurnParts, message: UserMessage) -> None:
        self._parts = parts
        self._store = parts.store
        self._message = message
        self.turn_id = parts.ids("turn")
        self.control = TurnControl(parts.store)
        self._dispatcher = Dispatcher(parts.caller, self.control)
        self._asker = Asker(parts)
        self._first = True  # the next decision is the first of the turn
        self._idle = 0
        self._before = parts.store.state.usage
        self._started = parts.store.clock.monotonic()

    async def run(self) -> None:
        """The whole turn. A cancelled turn ends as stopped, and the cancellation goes on."""
        self._begin()
        try:
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
        self._end_if_wanted(decision)

    def _end_if_wanted(self, decision: TurnDecision) -> None:
        match decision.next_step:
            case NextStep.DONE:
                raise TurnEnd("denied" if self._dispatcher.denied else "done")
            case NextStep.PENDING_USER:
                raise TurnEnd(
                    "denied" if self._dispatcher.denied else "partial", Status.REQUIRES_USER_INPUT
                )
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
                files_changed=tuple(self._dispatcher.changed),
                duration_s=self._store.clock.monotonic() - self._started,
            )
        )

    def _walk_to_done(self) -> None:
        """At the end the engine walks by itself; a turn that only talked skips the review."""
        machine = self._parts.machine
        state = self._store.state
        if state.phase is Phase.PLANNING and self._dispatcher.ran == 0:
            machine.move(Phase.DONE, Trigger.CHAT_ONLY)
            return
        if state.phase is not Phase.REVIEW:
            machine.move(Phase.REVIEW, Trigger.DONE)
        machine.move(Phase.DONE, Trigger.DONE)
