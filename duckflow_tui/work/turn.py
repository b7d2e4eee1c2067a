"""One turn: a user message, the decisions on it, their calls, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.state.base import canonical_json, clip_value, hash_data, one_line
from duckflow_tui.state.calls import OperationMessage, OutsideChangesReported
from duckflow_tui.state.conversation import AssistantMessage, Message, UserMessage
from duckflow_tui.state.decision import Action, NextStep, Question, TurnDecision
from duckflow_tui.state.gates import Card, CardKind, CardMessage
from duckflow_tui.state.goal import ENDED_WELL, RequirementState, Review, ReviewMessage
from duckflow_tui.state.memory import OwnField, WorkingMemory, WorkingMemoryChanged, apply_delta
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.pace import Reason
from duckflow_tui.state.phase import Phase, Status, Trigger
from duckflow_tui.state.phase_machine import RECOVERED
from duckflow_tui.state.plan import Plan, PlanStatus, ReportMessage, derive_end_status
from duckflow_tui.state.plan_events import PlanHalted
from duckflow_tui.state.turn import TurnFinished, TurnInfo, TurnOutcome, TurnStarted
from duckflow_tui.tools.results import changed_files
from duckflow_tui.work.attempts import ReviewEnd
from duckflow_tui.work.budget import ACCEPTED, BY_USER, TurnEnd
from duckflow_tui.work.consultation import Consultation
from duckflow_tui.work.model_calls import Asker
from duckflow_tui.work.pace import IDLE_LOOPS, PaceKeeper
from duckflow_tui.work.plan_dispatch import PlanDesk
from duckflow_tui.work.plan_operations import BEGINS_PLAN
from duckflow_tui.work.propose import end_plan
from duckflow_tui.work.requirements import RequestInHand, relate_message
from duckflow_tui.work.resumed_work import (
    Rest,
    find_escalation,
    find_rest,
    find_turn_start,
    list_decisions,
)
from duckflow_tui.work.review import ENDS_WORK, OUTCOMES, Reviewer
from duckflow_tui.work.services import TurnParts
from duckflow_tui.work.steering import TurnControl
from duckflow_tui.work.thread import Thread

_FRESH: Final = ("new", "guessed_new")  # requests of their own


class Turn(Thread):
    """The thread that works on a user message. ``TurnFinished`` is its last event, even after a
    failure or cancellation.
    """

    def __init__(
        self,
        parts: TurnParts,
        desk: PlanDesk,
        message: UserMessage,
        *,
        plan_first: bool = False,
        paused: bool = False,
        resumed: TurnInfo | None = None,
    ) -> None:
        """``plan_first``: continue the approved plan before asking the model; ``paused``: start
        paused; ``resumed``: the turn of an earlier process to continue.
        """
        self.steering = TurnControl(parts.store)
        self._paced = PaceKeeper(parts.store, parts.settings.pacemaker, parts.router.registry.specs)
        self.steering.turn_pace = self._paced
        super().__init__(parts, Asker(parts), self.steering, self._paced)
        self._desk = desk
        self._plan_first = plan_first
        self._message = message
        self.turn_id = resumed.turn_id if resumed else parts.ids("turn")
        self._paused = paused
        self._resumed = resumed
        self._left = False  # its session is left: nothing more is recorded
        self._request = RequestInHand(parts, message)
        self._reviewer = Reviewer(parts, self._paced)
        self._answer_wanted = False  # a done without a word was sent back once
        #: Decision at which the model was asked whether a change belongs to a step, by its id.
        self._asked_at: dict[str, int] = {}
        self._ending = TurnEnding(parts)
        self._consultation = Consultation(parts, self._paced, self._ending.list_calls)

    async def run(self) -> None:
        """Run the whole turn. A cancelled turn is finished as stopped, and CancelledError is raised
        again.
        """
        try:
            rest = await self._begin_or_resume()
            await self.run_decisions(rest)
        except TurnEnd as end:
            await self._finish_turn(end)
        except LlmError as error:
            told = self._describe_break()
            kind = "in_turn" if error.code in ("connect", "not_found_host") else "error"
            self.parts.notices.error(f"llm.{kind}.{error.code}", for_model=told, **error.params)
            detail = f"{error.code}: {error.detail}"[:200]
            self.parts.machine.set_status(Status.ERROR, detail)
            reason = Reason(code=f"llm.{error.code}")
            await self._finish_turn(TurnEnd("failed", Status.ERROR, reason))
        except asyncio.CancelledError:
            if not self._left:
                self.parts.machine.reset(Trigger.STOP)
                self.parts.notices.tell("turn.stopped")
                await self._finish_turn(TurnEnd("stopped", reason=BY_USER))
            raise
        except Exception as error:  # noqa: BLE001 - whatever broke, the turn ends and says it
            told = self._describe_break()
            what = self.parts.notices.report_fault(error, for_model=told)
            self.parts.machine.set_status(Status.ERROR, what)
            await self._finish_turn(TurnEnd("failed", Status.ERROR))

    def _describe_break(self) -> str:
        """Return a text that tells the model the turn broke off, empty if there was no decision."""
        begun = list_decisions(self.store.state)
        return self.parts.notices.words("turn.broke_off") if begun else ""

    def leave(self) -> None:
        """Mark the session as being closed: a cancellation then records nothing, so that the turn
        can be resumed.
        """
        self._left = True

    async def _begin_or_resume(self) -> Rest | None:
        """Begin the turn, or resume that of an earlier process; return the remaining calls of its
        newest decision, or None.
        """
        if self._resumed is None or self._is_cut_at_its_begin(self._resumed):
            self._begin_turn()
        else:
            self._take_up(self._resumed)
        await self.parts.models.ready()
        if self._paused:
            self.steering.pause()
            await self.steering.safe_point()
        if self._resumed is None:
            if self._plan_first:
                await self._desk.run_rest(asks=True)
            return None
        state = self.store.state
        rest = find_rest(state)
        if rest is not None and not self._is_of_plan(rest):
            self.pattern = rest.decision.prompt_pattern
            return rest
        await self.steering.safe_point()  # a paused turn waits for the user's key
        worked = state.interrupted is not None and state.interrupted.work is not None
        if worked or self._desk.may_begin_step:
            await self._desk.run_rest(rest, asks=True)
        if (escalated := find_escalation(state)) is not None:
            await self._take_verdict(await self._reviewer.ask_again(*escalated))
        return None

    def _is_of_plan(self, rest: Rest) -> bool:
        """Whether the remaining calls belong to the plan that their decision began."""
        done = [a.operation for a in rest.decision.actions if a not in rest.actions]
        return bool(done) and done[-1] in BEGINS_PLAN and self._desk.takes_calls

    # --- the loop ----------------------------------------------------------------------------

    async def run_decisions(self, rest: Rest | None = None) -> None:
        """Run decisions until the turn ends. If the model's replies become unusable, end as done if
        a review finds the work done.
        """
        try:
            await super().run_decisions(rest)
        except (TurnEnd, LlmError) as end:
            # Replies that are empty or that nobody can read say nothing against the work.
            empty = isinstance(end, LlmError) and end.code == "empty"
            if empty or (isinstance(end, TurnEnd) and end.outcome == "failed"):
                await self._end_if_done()
            raise

    async def prepare_decision(self) -> bool:
        """Wait while paused, tell the model of outside changes, consult the user if needed, and
        count the loop; always return False. Raises TurnEnd if the user ends the turn, in a step or
        here, or if the model no longer acts and a review finds the request done.
        """
        await super().prepare_decision()
        self._tell_outside_changes()
        if self.steering.turn_end is not None:
            raise TurnEnd(*self.steering.turn_end)
        if self.idle >= IDLE_LOOPS:
            await self._end_if_done()
        consulted = await self._consultation.ask_if_due()
        if consulted is not None and consulted.end != "goes_on":
            raise TurnEnd(*consulted.turn_outcome, laid_down=True)
        if consulted is not None:
            self.idle = 0
            self.pattern = consulted.next_prompt or self.pattern
        self._paced.next_loop()
        return False

    async def take_decision(self, decision: TurnDecision) -> None:
        """Apply a decision to phase, status, request, working memory and requirements. The user is
        told of their own items that it dropped, and, like the model, of a move of phase that is
        refused after a recovery.
        """
        machine, state = self.parts.machine, self.store.state
        # What is for the user to decide is asked first: a gate or a card leads there.
        if decision.step not in (None, Phase.AWAITING_APPROVAL):
            moved = machine.move_to(
                decision.step, Trigger.DECISION, decision_id=decision.decision_id
            )
            if not moved and state.refusals[-1].reason.startswith(RECOVERED):
                self.parts.notices.warn(
                    "turn.recovered",
                    for_model=self.parts.notices.words("turn.recovered"),
                )
        machine.set_status(Status.IN_PROGRESS)
        before = state.memory.constraints
        if self._request.take_first_decision(decision):
            self._paced.refresh_vitals()
        memory = state.memory
        update = apply_delta(memory, decision.state_delta)
        if update.memory != memory or update.cuts:
            self.store.dispatch(WorkingMemoryChanged(memory=update.memory, cuts=update.cuts))
        if before:
            self._tell_dropped(before)
        if lost := set(memory.by_user) - set(update.memory.by_user):
            self._tell_overwritten(memory, lost)
        await super().take_decision(decision)
        await self._reviewer.record_requirements(decision)
        self.pattern = decision.prompt_pattern

    def hands_over(self) -> bool:
        """Whether the newest call began the plan; later calls belong to its first step."""
        newest = self.ran[-1].operation if self.ran else ""
        return newest in BEGINS_PLAN and self._desk.takes_calls

    def reason_to_skip(self, action: Action) -> str:
        """Return why to skip a call: a plan is to begin, or its next step waits and the call may
        belong to it (asked once per step). Empty to run it.
        """
        if self._desk.may_begin_step:
            return self.parts.notices.words("skip.begins")
        step = self._desk.waiting_step
        if step is None or not self.parts.router.registry.has_effects(action.operation):
            return ""
        turn = self.store.state.turn
        now = turn.loop if turn is not None else 0
        if self._asked_at.setdefault(step.step_id, now) < now:
            return ""  # it has made the call again
        named = {"step": step.name, "step_id": step.step_id}
        return self.parts.notices.words("plan.begin_or_beside", **named)

    async def refuse_decision(self, decision: TurnDecision) -> bool:
        """Handle a decision whose own check failed: none of its calls runs. If it wants to
        continue, the model decides again; otherwise ask the user, or end the turn and wait for
        them.
        """
        if decision.next_step is NextStep.CONTINUE:
            return await super().refuse_decision(decision)
        self.tell_refusal(decision)
        if not (decision.offers_keys and await self.ask_user(decision)):
            await self._wait_for_user(decision, "partial")
        return False

    async def follow_decision(self, decision: TurnDecision) -> bool:
        """Act on a decision after its calls: run the plan, ask the user, review the work, or go on.
        Returns False; a turn ends by raising TurnEnd.
        """
        if self.changes_course:
            return False
        if self._desk.may_begin_step and (plan := await self._desk.run_rest(self.left)) is not None:
            self.idle = 0
            if not self._ends_with(plan, decision):
                return False  # its reports are sent, and answered, before the turn ends
        asks = decision.step is Phase.AWAITING_APPROVAL and not decision.actions
        keys = decision.question is not None and decision.offers_keys
        if (asks or keys) and decision.next_step is not NextStep.DEFER:
            if await self.ask_user(decision):
                return False
            if decision.next_step is not NextStep.DONE:
                await self._wait_for_user(decision, self._ending.judge_outcome("partial"))
                return False
        if decision.actions and decision.next_step is NextStep.CONTINUE:
            return False
        if decision.next_step is NextStep.DONE and not self._all_went_well(decision):
            return False  # the results are sent once more, and the model goes on from them
        wants_end = decision.next_step in (NextStep.DONE, NextStep.PENDING_USER)
        if wants_end and await self._desk.run_rest():
            self.idle = 0
            return False
        match decision.next_step:
            case NextStep.DONE:
                if self._wants_an_answer():
                    return False
                # Done is what the review says, not what the model says (S1-1).
                outcome = self._ending.judge_outcome("done")
                log, reply = self._ending.list_calls(), self._last_reply()
                end = await self._reviewer.review_work(log, reply, last=outcome != "done")
                if outcome != "done":
                    raise TurnEnd(outcome)
                await self._take_verdict(end)
            case NextStep.PENDING_USER:
                await self._wait_for_user(decision, self._ending.judge_outcome("partial"))
            case NextStep.DEFER:
                await self._end_if_done()
                self.parts.machine.reset(Trigger.DEFER)
                raise TurnEnd("partial")
            case NextStep.CONTINUE:
                pass
        return False

    async def _end_if_done(self) -> None:
        """Review changes that were not reviewed yet, and raise TurnEnd if the request is done,
        although the model did not say so. Skipped after a denial or with an unfinished plan.
        """
        if self._ending.has_unjudged_changes() and self._ending.judge_outcome("done") == "done":
            log, reply = self._ending.list_calls(), self._last_reply()
            if (end := await self._reviewer.review_work(log, reply, last=True)) == "done":
                await self._take_verdict(end)

    def _ends_with(self, plan: Plan, decision: TurnDecision) -> bool:
        """Whether the turn ends after the plan's run: the plan is completed, and the decision that
        began it was to end the turn.
        """
        done = plan.status is PlanStatus.COMPLETED
        return done and decision.next_step is NextStep.DONE and self._all_went_well(decision)

    def _last_reply(self) -> str:
        """Return the newest text of the turn for the user, also from a step."""
        turn = self.store.state.turn
        assert turn is not None
        for message in reversed(
            self.store.state.messages[find_turn_start(self.store.state, turn) :]
        ):
            if isinstance(message, AssistantMessage) and not message.aside and message.text.strip():
                return message.text
        return self.asker.last_reply

    def _all_went_well(self, decision: TurnDecision) -> bool:
        """Whether every call of the decision ran and succeeded; True without calls."""
        wanted = {action.call_id for action in decision.actions}
        messages = reversed(self.store.state.messages if wanted else ())
        went = {m.call_id: m.result.went_well for m in messages if isinstance(m, OperationMessage)}
        return all(went.get(call_id, False) for call_id in wanted)

    async def _wait_for_user(self, decision: TurnDecision, outcome: TurnOutcome) -> None:
        """End the turn with the model's question, or its reply as one. Without a question or a user
        to answer it, the turn ends as done if a review finds so. Raises TurnEnd; returns only if
        the model was told to decide by itself.
        """
        if decision.question is None or self.store.state.session.headless:
            await self._end_if_done()
        if outcome != "denied" and self.tell_nobody():  # the denial said so
            return
        question = decision.question or Question(text=decision.reply)
        reason = Reason(code="question")
        raise TurnEnd(outcome, Status.REQUIRES_USER_INPUT, reason, question=question)

    async def _take_verdict(self, end: ReviewEnd) -> None:
        """Act on the end of a review: raise TurnEnd, or if another attempt begins, run the reopened
        steps of the plan.
        """
        if end != "continue":
            outcome, status = OUTCOMES.get(end, ("done", Status.SUCCESS))
            reason = {"accepted": ACCEPTED, "cancelled": BY_USER}.get(end)
            raise TurnEnd(outcome, status, reason, laid_down=end in ENDS_WORK)
        self._answer_wanted = False
        if self._desk.may_begin_step:
            await self._desk.run_rest()

    def _wants_an_answer(self) -> bool:
        """Whether the turn made calls and said nothing to the user. The model is then told to give
        its answer, once until the next attempt; after that this returns False (S3-23).
        """
        if self.asker.last_reply.strip() or self._answer_wanted or not self._ending.list_calls():
            return False
        self._answer_wanted = True
        self.parts.notices.tell("turn.no_answer")
        return True

    # --- what a turn writes down -------------------------------------------------------------

    def _is_cut_at_its_begin(self, turn: TurnInfo) -> bool:
        """Whether the earlier process ended before it had recorded the turn's request and limit."""
        state = self.store.state
        now, fresh = state.objective, turn.request in _FRESH
        opened = now is not None and (not fresh or now.message_id == turn.message_id)
        return not (list_decisions(state) or (opened and state.pace is not None))

    def _begin_turn(self) -> None:
        """Record the start of the turn, relate its message to a request, and set the limit."""
        state = self.store.state
        settings = self.parts.settings
        request = relate_message(state, self._message)
        if self._resumed is None:
            usage = state.usage
            self.store.dispatch(
                TurnStarted(
                    turn=TurnInfo(
                        turn_id=self.turn_id,
                        message_id=self._message.message_id,
                        max_attempts=settings.max_attempts,
                        request=request,
                        started_at=self.store.clock.now(),
                        calls_before=usage.calls,
                        tokens_before=usage.tokens_in + usage.tokens_out,
                        cost_before=usage.cost,
                    )
                )
            )
            plan = state.active_plan
            if self._plan_first and plan is not None and plan.may_go_on:
                self.store.dispatch(PlanHalted(plan_id=plan.plan_id, halted=""))
        if state.phase in (Phase.IDLE, Phase.DONE, Phase.AWAITING_APPROVAL):
            self.parts.machine.move_to(Phase.PLANNING, Trigger.USER_MESSAGE)
        self.parts.machine.set_status(Status.IN_PROGRESS)
        fresh = request in _FRESH
        if fresh:
            before = state.memory.constraints
            self._request.open_request()
            if before:
                self._tell_dropped(before)
        self._paced.begin_turn(fresh=fresh)
        last = state.last_turn
        if last is not None and last.outcome == "failed":
            self._take_over(state.messages[: last.messages])

    def _take_over(self, messages: Sequence[Message]) -> None:
        """After a failed turn on the same message, remember its successful calls with effects that
        the user has not undone, so that an equal call is skipped while its files are as that turn
        left them.
        """
        if self._message not in messages:
            return
        undone = self.store.state.undone_calls
        for message in messages[messages.index(self._message) :]:
            if not isinstance(message, OperationMessage) or message.call_id in undone:
                continue
            for change in message.result.undoable_changes:
                self.left_before |= change.hashes_after
            changes = self.parts.router.registry.has_effects(message.operation)
            own = not (message.by_user or message.step_id)
            if own and changes and message.result.outcome is Outcome.OK:
                key = hash_data(canonical_json([message.operation, message.args]))
                self.ran_before[key] = message

    def _take_up(self, turn: TurnInfo) -> None:
        """Restore the state of a resumed turn from its decisions."""
        self.parts.machine.set_status(Status.IN_PROGRESS)
        decisions = list_decisions(self.store.state)
        self._paced.resume_turn(turn.loop, len(decisions))
        for first in decisions[:1]:
            self._request.take_first_decision(first)
        self._reviewer.resume_turn(decisions)
        said = (decision.reply for decision in reversed(decisions) if decision.reply.strip())
        self.asker.last_reply = next(said, "")

    def _tell_dropped(self, before: tuple[str, ...]) -> None:
        """Tell user and model which constraints were dropped from the working memory (S4-103)."""
        dropped = [words for words in before if words not in self.store.state.memory.constraints]
        if dropped:
            said = "; ".join(dropped)
            self.parts.notices.tell("turn.constraint_dropped", constraints=said)

    def _tell_overwritten(self, memory: WorkingMemory, lost: set[OwnField]) -> None:
        """Tell the user which of their own items in the working memory the model replaced
        (S4-103).
        """
        for name in sorted(lost):
            value: str | tuple[str, ...] = getattr(self.store.state.memory, name)
            if name == "constraints" and not set(memory.constraints) <= set(value):
                continue  # what was dropped has been said
            said = value if isinstance(value, str) else " · ".join(value)
            self.parts.notices.say(f"working.overwritten.{name}", said=said or "–")

    def _tell_outside_changes(self) -> None:
        """Tell the model of files that were changed from outside since the last report, and record
        that they were told; nothing happens without any.
        """
        paths = self.store.state.changed_outside
        if paths:
            self.parts.notices.tell("files.changed_outside", paths=", ".join(paths))
            self.store.dispatch(OutsideChangesReported(paths=paths))

    async def _finish_turn(self, end: TurnEnd) -> None:
        """Finish the turn, unless it never began."""
        running = self.store.state.turn
        if running is None or running.turn_id != self.turn_id:
            return  # it broke before it had begun
        self._paced.log_end(end.outcome, end.reason)
        await self._ending.finish_turn(end, self.asker.last_reply, self._reviewer.newest)


class TurnEnding:
    """Determines and records how the running turn ends."""

    def __init__(self, parts: TurnParts) -> None:
        self._parts = parts
        self._store = parts.store

    def _list_messages(self) -> Sequence[Message]:
        """Return the messages of the turn, without the user's message it works on."""
        state = self._store.state
        return (
            state.messages[find_turn_start(state, state.turn) :] if state.turn is not None else ()
        )

    def list_calls(self) -> list[OperationMessage]:
        """Return the model's calls of this turn, including those of steps."""
        return [
            m
            for m in self._list_messages()
            if isinstance(m, OperationMessage) and not (m.by_user or m.for_requirement)
        ]

    def has_unjudged_changes(self) -> bool:
        """Whether the turn changed files since its last review, if there was one."""
        for message in reversed(self._list_messages()):
            if isinstance(message, ReviewMessage):
                return False
            if isinstance(message, OperationMessage) and message.result.undoable_changes:
                return True
        return False

    def judge_outcome(self, wanted: TurnOutcome) -> TurnOutcome:
        """Return the outcome to record instead of ``wanted``: ``denied`` after a denied call;
        ``partial`` for ``done`` while an approved plan is unfinished, unless the user had halted
        it and this turn did not work on it.
        """
        if any(m.result.outcome is Outcome.DENIED for m in self.list_calls()):
            return "denied"
        plan = self._store.state.active_plan
        if plan is None or wanted != "done":
            return wanted
        waits = plan.status.may_run and not plan.halted
        if waits or self._worked_on(plan):
            return "done" if plan.status is PlanStatus.COMPLETED else "partial"
        return wanted

    def _worked_on(self, plan: Plan) -> bool:
        """Whether this turn worked on the plan; False for a rejected plan."""
        if plan.status is PlanStatus.REJECTED:
            return False
        for m in self._list_messages():
            match m:
                case ReportMessage(report=report) if report.plan_id == plan.plan_id:
                    return True
                case OperationMessage(operation=name, step_id=step_id, result=result):
                    ran = result.outcome.may_have_effects
                    if (ran and name.startswith("task_loop.")) or plan.get_step(
                        step_id
                    ) is not None:
                        return True
                case CardMessage(card=Card(kind=CardKind.BREAKPOINT, plan_id=plan.plan_id)):
                    return True
                case _:
                    pass
        return False

    async def finish_turn(self, end: TurnEnd, reply: str, review: Review | None) -> None:
        """Set the final states of plans, phase and status, and commit ``TurnFinished`` with
        figures, review and reason. An answer is also said to be one.
        """
        machine, status = self._parts.machine, end.status
        if end.outcome == "answered":
            self._parts.notices.say("turn.answered")
        for plan in self._store.state.plans:
            # Its work may have been stopped before it could say that nothing of it is left.
            if derive_end_status(plan) is PlanStatus.COMPLETED:
                end_plan(self._store, plan.plan_id)
        if end.outcome in ("done", "answered", "denied"):
            self._walk_to_done()
        elif end.laid_down or status is not Status.REQUIRES_USER_INPUT:
            detail = self._store.state.status_detail if status is Status.ERROR else ""
            machine.reset(Trigger.STOP)
            machine.set_status(status, detail)
        else:
            machine.set_status(status)  # the model's own question waits, where the work is
        state, reason = self._store.state, end.reason
        assert state.turn is not None
        spent = state.turn.summarize_as_stopped(state, self._store.clock.now())
        cost = None
        if state.usage.cost is not None:
            cost = state.usage.cost - (state.turn.cost_before or 0.0)
        if end.outcome == "denied" or (reason is None and end.outcome not in ENDED_WELL):
            reason = self._make_reason(end.outcome)
        await self._store.commit(
            TurnFinished(
                turn_id=spent.turn_id,
                outcome=end.outcome,
                reply=reply,
                satisfaction=review.score if review is not None else None,
                proven=review.is_proven if review is not None else None,
                remarks=review.remarks if review is not None else (),
                llm_calls=spent.llm_calls,
                tokens=spent.tokens,
                cost=cost,
                files_changed=changed_files(self.list_calls()),
                duration_s=spent.duration_s,
                waited_s=spent.waited_s,
                reason=reason,
                question=end.question,
            )
        )

    def _make_reason(self, outcome: TurnOutcome) -> Reason:
        """Return the reason why the turn ended before it was done, with its facts."""
        state, plan = self._store.state, self._store.state.active_plan
        denied = [m for m in self.list_calls() if m.result.outcome is Outcome.DENIED]
        if outcome == "denied" and denied:
            last = denied[-1]
            params = {"what": one_line(last.call_text, 200)}
            reasons = last.gate.impact.reasons if last.gate is not None else ()
            if "from_text" in reasons:  # no flag of the command line would allow it
                return Reason(code="from_text", params=params)
            return Reason(
                code="denied", params={**params, "because": one_line(last.result.text, 300)}
            )
        if outcome == "failed":
            return Reason(code="failed", params={"because": state.status_detail})
        if outcome == "limit":
            return Reason(code="limit")
        if plan is not None and self._worked_on(plan) and plan.status is not PlanStatus.COMPLETED:
            done, total = map(str, plan.progress)
            params = {"plan": clip_value(plan.name), "done": done, "total": total}
            return Reason(code="plan", params=params)
        items = state.objective.extracted_requirements if state.objective is not None else ()
        unmet = [i for i in items if i.is_counted and i.state is not RequirementState.MET]
        if unmet:
            listed = "; ".join(f"{i.requirement_id} {i.requirement}" for i in unmet)
            return Reason(code="unmet", params={"requirements": one_line(listed, 400)})
        return Reason(code="partial")

    def _walk_to_done(self) -> None:
        """Move the phase to done, through review unless the turn was in planning and no call of it
        went well. Where the table of phases knows no way, reset the phase.
        """
        machine = self._parts.machine
        state = self._store.state
        if state.phase is Phase.PLANNING and not any(m.result.went_well for m in self.list_calls()):
            machine.move_to(Phase.DONE, Trigger.CHAT_ONLY)
            return
        if state.phase is not Phase.REVIEW:
            machine.move_to(Phase.REVIEW, Trigger.DONE)
        if not machine.move_to(Phase.DONE, Trigger.DONE):
            machine.reset()  # the table knows no way from here; nothing runs all the same
