"""The loop of a thread of work: ask the model, carry out its calls, update the pace, until done
(S2-7, S3-8).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Final

from duckflow_tui.safety.pending_questions import Unanswered
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import UserMessage, UserMessageAdded
from duckflow_tui.state.decision import Action, NextStep, PromptPattern, TurnDecision
from duckflow_tui.state.gates import CardKind, make_question_options
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.usage import Role
from duckflow_tui.work.checks import RequirementChecks
from duckflow_tui.work.model_calls import Asker
from duckflow_tui.work.pace import PaceKeeper
from duckflow_tui.work.resumed_work import Rest, is_left_out
from duckflow_tui.work.services import TurnParts
from duckflow_tui.work.steering import ReplyStopped, TurnControl

REPEATS: Final = 4  # the same failing call asks the user at its fourth time (safety.md, faults)


class Thread(ABC):
    """The loop that turns, steps of plans and answers beside the work share. A subclass defines
    what happens before a decision, on receiving it, and when the thread ends.
    """

    def __init__(
        self,
        parts: TurnParts,
        asker: Asker,
        control: TurnControl | None = None,
        pace: PaceKeeper | None = None,
        *,
        step_id: str = "",
    ) -> None:
        """Without ``control`` the thread cannot be paused; without ``pace`` its subclass counts its
        loops.
        """
        self.parts = parts
        self.store = parts.store
        self.asker = asker
        self.control = control
        self.pace = pace
        self.step_id = step_id
        self._checks = RequirementChecks(parts.store, parts.ids, parts.router, parts.notices.words)
        self.pattern = PromptPattern.BASE_MAIN  # of the next request
        self.idle = 0  # decisions in a row that neither acted nor ended
        self.ran: list[OperationMessage] = []  # by the newest decision
        self.left: Rest | None = None  # of the newest decision, for another thread to carry out
        self.course_changed = False  # the user's answer to a gate has to reach the model
        self._nobody_told = False  # that nobody can answer, which is said once
        self._announced = False  # the newest reply only judged, which some models do by itself
        self._stuck: tuple[OperationMessage, int] | None = None
        self._failures: Counter[tuple[str, str]] = Counter()
        #: Calls of the failed turn that this one takes up, by the hash of operation and arguments.
        self.ran_before: dict[str, OperationMessage] = {}
        self.left_before: dict[str, str] = {}  # hashes of files as that turn left them, by path

    async def run_decisions(self, rest: Rest | None = None) -> None:
        """Run decisions until the thread ends; first the ``rest`` of a decision from an earlier
        process. Raises LlmError, TurnEnd, and exceptions of the subclass.
        """
        over = rest is not None and await self._carry_out(rest.decision, rest.actions, rest.skip)
        while not over and not await self.prepare_decision():
            role = self.pace.role if self.pace else "main"
            decision = await self._decide_next(role)
            await self.take_decision(decision)
            if decision.refused_by_itself:
                over = await self.refuse_decision(decision)
            else:
                over = await self._carry_out(decision, decision.actions)

    # --- what a subclass says -------------------------------------------------------------------

    async def prepare_decision(self) -> bool:
        """Prepare the next decision: wait while paused and take in a redirect. True ends the
        thread.
        """
        if self.control is not None:
            await self.control.safe_point()
            await self.take_redirect()
        return False

    async def take_decision(self, decision: TurnDecision) -> None:
        """Handle a new decision before any of its calls runs."""
        if self.pace is not None:
            self.pace.take_decision(decision, self.asker.repaired)

    async def run_call(self, action: Action) -> OperationMessage:
        """Run one call and return its result, whatever the outcome."""
        return await self.parts.router.call(action, step_id=self.step_id)

    async def skip_call(self, action: Action, reason: str) -> OperationMessage:
        """Record an action as skipped, with the reason."""
        return await self.parts.router.skip(action, reason, step_id=self.step_id)

    def hands_over(self) -> bool:
        """Whether the remaining calls of the decision belong to another thread, as those after the
        call that begins a plan belong to its first step.
        """
        return False

    @property
    def takes_one_call(self) -> bool:
        """Whether the setting allows only the first call of a decision to run (S3-7)."""
        return self.parts.settings.execution == "adaptive"

    def reason_to_skip(self, action: Action) -> str:
        """Return why a call is skipped; empty to run it."""
        return ""

    @abstractmethod
    async def follow_decision(self, decision: TurnDecision) -> bool:
        """Act on a decision after its calls have results. True ends the thread."""

    async def ask_user(self, decision: TurnDecision) -> bool:
        """Ask the user the model's question, with its options as keys; yes and no if the decision
        awaits approval. The answer is added to the conversation; False if there was none.
        """
        approval = decision.step is Phase.AWAITING_APPROVAL
        question = decision.question
        options = make_question_options(question.options if question else (), approval=approval)
        said = question.text if question else decision.reply or decision.rationale
        card = self.parts.desk.make_card(
            CardKind.QUESTION, options, step_id=self.step_id, question=said
        )
        try:
            await self.parts.desk.ask(card)
        except Unanswered:
            return False
        self.idle = 0
        return True

    def tell_nobody(self) -> bool:
        """Without a screen, tell the model once that nobody can answer and that it has to decide
        itself. False with a screen, or if the thread was told already.
        """
        if self._nobody_told or not self.store.state.session.headless:
            return False
        self._nobody_told = True
        self.parts.notices.tell("turn.nobody", step_id=self.step_id)
        return True

    # --- the loop's own steps -------------------------------------------------------------------

    async def _decide_next(self, role: Role) -> TurnDecision:
        """Return the next decision; a reply stopped by a pause is requested again after
        resuming.
        """
        while True:
            try:
                return await self.asker.decide(self.pattern, role)
            except ReplyStopped:
                await Thread.prepare_decision(self)

    async def _carry_out(
        self, decision: TurnDecision, actions: Sequence[Action], skip: Outcome | None = None
    ) -> bool:
        """Run the calls of a decision, update checks and pace, and follow the decision; True ends
        the thread. ``skip``: skip all calls because of this earlier outcome.
        """
        begun = len(actions) < len(decision.actions)
        several = len(decision.actions) > 1 and not self.takes_one_call
        if several and not skip:
            await self.parts.router.weigh_changes(decision.actions, self.step_id)
        reason = self.parts.notices.words(f"skip.{skip}") if skip else ""
        await self._dispatch_actions(decision, actions, reason, begun=begun)
        await self._checks.tick_requirements(self.ran)
        if self.pace is not None:
            self.pace.take_results(self.ran, self._stuck)
        if decision.actions or self.changes_course:
            self.idle = 0
        if await self.follow_decision(decision):
            return True
        asked = decision.actions or self.changes_course
        announced = self.asker.in_calls and decision.judged and not (asked or self._announced)
        self._announced = announced  # its calls come in the next message
        if decision.next_step is NextStep.CONTINUE and not (asked or announced):
            self._count_idle(None)
            self.parts.notices.tell("turn.nothing_asked", step_id=self.step_id)
        return False

    async def _dispatch_actions(
        self, decision: TurnDecision, actions: Sequence[Action], skip: str, *, begun: bool
    ) -> None:
        """Run or skip each action, in order, with one recorded result each; actions of another
        thread go to ``left``.

        After the user changed the course (a redirect, an alternative, a refusal), later actions are
        skipped; so are all but the first if the setting allows one call per decision (S3-7).
        ``begun``: other actions of the decision already have results. ``skip``: a reason to skip
        all.
        """
        self.ran, self.left, self._stuck = [], None, None
        one, words = self.takes_one_call, self.parts.notices.words
        self.course_changed = bool(skip)
        for index, action in enumerate(actions):
            if not skip and self.control is not None:
                await self.control.safe_point()
                if self.control.redirected is not None:
                    skip = words("skip.redirected")
            if self.hands_over():
                self.left = Rest(decision, tuple(actions[index:]))
                return
            reason = skip or (words("skip.one_action") if one and (begun or self.ran) else "")
            reason = reason or self.reason_to_skip(action)
            if reason:
                await self.skip_call(action, reason)
                continue
            before = self.ran_before.pop(action.args_hash, None)
            if before is not None and await self._has_effects_left(before):
                self.ran.append(await self.skip_call(action, words("skip.ran_before")))
                continue
            if self.ran_before and self.parts.router.registry.has_effects(action.operation):
                self.ran_before.clear()  # what is done from here on is new
            message = await self.run_call(action)
            self.ran.append(message)
            outcome = message.result.outcome
            if outcome.is_failure:
                failure = f"{action.operation} {action.args_hash}", message.result.text
                self._failures[failure] += 1
                if self._failures[failure] >= REPEATS:
                    self._stuck = message, self._failures[failure]
            elif outcome.is_refused and not is_left_out(message):
                skip = words(f"skip.{outcome}")
            self.course_changed = bool(skip)

    async def _has_effects_left(self, message: OperationMessage) -> bool:
        """Whether the files that this call of a failed turn changed are as that turn left them."""
        for change in message.result.undoable_changes:
            for path in change.hashes_after:
                if await self.parts.router.undoing.hash_path(path) != self.left_before[path]:
                    return False
        return True

    @property
    def changes_course(self) -> bool:
        """Whether the user said something that the model must read before going on."""
        redirected = self.control is not None and self.control.redirected is not None
        return redirected or self.course_changed

    async def refuse_decision(self, decision: TurnDecision) -> bool:
        """Handle a decision whose own check failed: nothing runs (S4-59). True ends the thread."""
        reason = self.tell_refusal(decision)
        if not (self.idle and self.tell_nobody()):
            self._count_idle(reason)
        return False

    def tell_refusal(self, decision: TurnDecision) -> str:
        """Tell user and model that the decision's own check failed; return the check's reason."""
        if self.pace is not None:
            self.pace.take_results(())
        check, judgement = "goal_consistency", decision.goal_consistency
        if judgement.ok is not False:
            check, judgement = "constraint_check", decision.constraint_check
        self.parts.notices.warn(
            f"turn.{check}_no",
            step_id=self.step_id,
            for_model=self.parts.notices.words("turn.check_no", check=check),
            reason=judgement.reason,
        )
        return judgement.reason

    def _count_idle(self, no: str | None) -> None:
        """Count a decision that neither acted nor ended; the pacemaker asks the user after several
        (S3-21).
        """
        self.idle += 1
        if self.pace is not None:
            self.pace.count_idle(self.idle, no)

    async def take_redirect(self) -> str | None:
        """Add the user's message from a redirect to this thread, if there is one; return its text
        or None.
        """
        message = self.control.redirected if self.control is not None else None
        if self.control is None or message is None:
            return None
        self.control.redirected = None
        if self.pace is not None:
            self.pace.forgive_repeats()
        said = UserMessage(
            message_id=message.message_id,
            text=message.text,
            step_id=self.step_id,
            at=message.at,
            quoted=message.quoted,
        )
        await self.store.commit(UserMessageAdded(message=said))
        return message.text
