"""Consultations: ask the user when the work is stuck or at its limit, and carry out the answer
(S0-37…43).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from duckflow_tui.llm.errors import LlmError, Unreadable, reason_params
from duckflow_tui.prompting.lines import frame_text
from duckflow_tui.safety.pending_questions import Unanswered
from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.consequences import find_consequence
from duckflow_tui.state.conversation import Level, NoticeAdded
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.gates import CONSULTATION_OPTIONS, TELL, Card, CardKind
from duckflow_tui.state.goal import RequirementEdited, RequirementItem
from duckflow_tui.state.pace import Pattern, Reason, Situation
from duckflow_tui.state.phase import Phase, Status, Trigger
from duckflow_tui.state.turn import TurnOutcome
from duckflow_tui.work.attempts import (
    ask_digest,
    ask_failure_analysis,
    current_work,
    describe_changes,
    summarize_calls,
)
from duckflow_tui.work.budget import ACCEPTED, BY_USER
from duckflow_tui.work.pace import PaceKeeper
from duckflow_tui.work.requirements import (
    change_objective,
    find_requirement,
    new_requirement,
)
from duckflow_tui.work.services import TurnParts
from duckflow_tui.work.situations import MOST_TRIED, find_consultation, list_tried
from duckflow_tui.work.vitals import ConsultCause

ConsultEnd = Literal[
    "goes_on",
    "stopped",  # the user stops the work for now
    "accepted",  # the user accepts the result as it is
    "waits",  # for the user's next message
    "nobody",  # there was nobody to ask
]


_LINE: Final = 200  # characters of a strategy
_DIGEST: Final = 2_000  # characters of tidied results that are kept


@dataclass(frozen=True, slots=True)
class ConsultationEnd:
    """The result of a consultation. ``wish``: text for the model on what the user wants instead of
    the step.
    """

    end: ConsultEnd = "goes_on"
    next_prompt: PromptPattern | None = None  # None: as the model chose it
    wish: str = ""
    cause: Reason | None = None  # the cause, if nobody could be asked

    @property
    def turn_outcome(self) -> tuple[TurnOutcome, Status, Reason | None]:
        """The outcome, status and reason of a turn that ends here."""
        match self.end:
            case "accepted":
                return "done", Status.SUCCESS, ACCEPTED
            case "stopped":
                return "partial", Status.SUCCESS, BY_USER
            case "nobody":
                talked = self.cause is not None and self.cause.code == ConsultCause.NO_ACTION
                outcome = "partial" if talked else "limit"
                return outcome, Status.REQUIRES_USER_INPUT, self.cause
            case _:
                return "partial", Status.REQUIRES_USER_INPUT, BY_USER


class Consultation:
    """Asks the user and carries out the answer, for one turn or one run of a step. Messages about
    it go to that thread.
    """

    def __init__(
        self,
        parts: TurnParts,
        keeper: PaceKeeper,
        log: Callable[[], Sequence[OperationMessage]],
        *,
        plan_id: str = "",
        step_id: str = "",
    ) -> None:
        """``log`` returns the model's calls so far."""
        self._parts = parts
        self._store = parts.store
        self._keeper = keeper
        self._log = log
        self._plan_id = plan_id
        self._step_id = step_id

    async def ask_if_due(self) -> ConsultationEnd | None:
        """Ask the user if the pacemaker requires it; return the result, or None if nothing was
        asked. At the limit, the limit may first grow by itself. Other threads go on meanwhile.

        A consultation that was open when an earlier process ended is repeated first.
        """
        before = self._store.state.interrupted
        card = before.get_waiting_card(CardKind.CONSULTATION, self._step_id) if before else None
        situation = card.situation if card is not None else None
        if situation is not None:
            self._keeper.start_cool_down(situation)
        else:
            if (grown := self._keeper.grow_limit()) is not None:
                old, new = map(str, grown)
                self._parts.notices.say("pace.grown", step_id=self._step_id, old=old, new=new)
            if (found := find_consultation(self._keeper.collect_signals())) is None:
                return None
            situation = self._keeper.make_situation(found, self._log())
        try:
            card, action, text = await self._ask_user(situation)
        except Unanswered as none:
            if none.reason == "nobody":
                return self._end_unasked(situation)
            # Renewed: the user continued the work by another key.
            return ConsultationEnd("goes_on" if none.reason == "renewed" else "waits")
        return await self._take_answer(card, action, text)

    async def _ask_user(self, situation: Situation) -> tuple[Card, str, str]:
        """Ask the user until the answer is complete (S0-43); return the card, the chosen action,
        and the text if the action takes one.
        """
        while True:
            card = self._parts.desk.make_card(
                CardKind.CONSULTATION,
                CONSULTATION_OPTIONS[situation.pattern],
                plan_id=self._plan_id,
                step_id=self._step_id,
                situation=situation,
            )
            answer = await self._parts.desk.ask(card)
            option = next(o for o in card.options if o.action == answer.action)
            text = answer.text.strip() if option.takes_text else ""
            if text or not option.takes_text:
                return card, answer.action, text

    def _end_unasked(self, situation: Situation) -> ConsultationEnd:
        """End the work with a warning, because nobody is there to ask."""
        pattern, params = situation.pattern, {"loops": str(situation.limit)}
        key = "turn.limit" if pattern is Pattern.LIMIT else f"consulting.nobody.{pattern.value}"
        self._parts.notices.warn(key, step_id=self._step_id, **params)
        return ConsultationEnd("nobody", cause=situation.cause)

    async def _take_answer(self, card: Card, action: str, text: str) -> ConsultationEnd:
        """Carry out the answer, and tell the model of it if the work goes on."""
        found = find_consequence(card, action)
        if found.loops:
            self._keeper.extend_limit(found.loops)
        if found.forgives:
            self._keeper.forgive_repeats()
        if text:
            await self._parts.add_user_words(text, self._step_id)
        match found.ledger:
            case "first":
                self._put_first(text)
            case "added":
                _, objective = current_work(self._store.state)
                self._set_priority(new_requirement(objective, text), 1)
            case _:
                pass
        match found.next:
            case "accepted":
                if not self._step_id:
                    change_objective(self._store, closed=True)
                return ConsultationEnd("accepted")
            case "waits":
                await self._analyse_failure()
                return ConsultationEnd("waits")
            case "stopped" if found.plan == "revised":  # by the turn's conversation
                wish = self._parts.notices.words("consulting.split_step", data="plan_tool.revise")
                return ConsultationEnd("stopped", wish=wish)
            case "stopped":
                return ConsultationEnd("stopped")
            case _:
                pass
        if found.plan == "proposed":  # small steps, approved one by one by the user
            self._parts.machine.move_to(Phase.PLANNING, Trigger.USER_MESSAGE)
            self._tell_model(action, "plan_tool.propose")
            return ConsultationEnd(next_prompt=PromptPattern.BASE_MAIN_SPECIALIZED)
        match action:
            case "other_approach" | "different_approach":
                self._other_approach()
            case "other_source":
                self._other_source()
            case "start_over":
                self._start_over()
            case "tidy_results":
                await self._tidy_results()
            case _ if found.forgives and action != TELL.action:  # the user's own words are enough
                self._tell_model(action)
            case _:
                pass
        return ConsultationEnd()

    # --- what an answer does -----------------------------------------------------------------

    async def _analyse_failure(self) -> None:
        """Ask for an analysis of the failure, and show it to the user and the model."""
        _, objective = current_work(self._store.state)
        missing = [
            item.requirement
            for item in objective.extracted_requirements
            if item.is_counted and item.satisfaction_level < 1.0
        ]
        found = await ask_failure_analysis(
            self._parts, self._log(), missing, "consulting.no_analysis", self._step_id
        )
        if found is None:
            return
        words = self._parts.notices.words
        data = words("consulting.cause_and_fix", cause=found.cause, fix=found.fix)
        self._tell_model("analysis", frame_text("analysis", data), cause=found.cause, fix=found.fix)

    def _other_approach(self) -> None:
        """Record the current strategy as failed, and tell the model to choose another."""
        _, objective = current_work(self._store.state)
        brief = "; ".join(self._store.state.memory.plan_brief)  # what the model said it would do
        strategy = one_line(
            brief or describe_changes(self._log(), self._parts.notices.words), _LINE
        )
        if strategy:
            ways = tuple(dict.fromkeys((*objective.attempted_strategies, strategy)))
            change_objective(self._store, attempted_strategies=ways)
        lines = [f"- {entry.text}" for entry in list_tried(self._log())[-MOST_TRIED:]]
        if strategy:
            lines.insert(0, f"- {strategy}")
        self._tell_model("other_approach", frame_text("tried", "\n".join(lines)))

    def _other_source(self) -> None:
        """Use another role's model for the rest of the attempt; if there is none, tell the model to
        look in other places.
        """
        other = self._parts.models.service.roles.second_opinion
        if other is None or self._keeper.role == other[0]:
            self._tell_model("other_source")
        else:
            self._keeper.other = other[0]
            self._tell_model("other_model", model=other[1])

    def _put_first(self, text: str) -> None:
        """Give one requirement priority 1, found by id or text or else added, and lower the others
        to 2.
        """
        _, objective = current_work(self._store.state)
        counted = [item for item in objective.extracted_requirements if item.is_counted]
        top = find_requirement(text, counted) or new_requirement(objective, text)
        self._set_priority(top, 1)
        for item in objective.extracted_requirements:
            if item.requirement_id != top.requirement_id and item.is_counted and item.priority < 2:
                self._set_priority(item, 2)

    def _start_over(self) -> None:
        """Mark a fresh start in the thread: later requests carry earlier messages only as
        digests.
        """
        message = self._parts.notices.make_message(
            "consulting.start_over",
            self._parts.notices.words("consulting.start_over"),
        )
        notice = NoticeAdded(message=message.replace(step_id=self._step_id, fresh=True))
        self._store.dispatch(notice)

    async def _tidy_results(self) -> None:
        """Summarize the results so far, store the summary with the request, and tell the model."""
        done = summarize_calls(self._log())
        lines = [f"- {_drop_room(text)}" for text in done.results]
        lines += [
            f"- failed: {_drop_room(error.operation)}: {error.message}" for error in done.errors
        ]
        text = "\n".join(dict.fromkeys(lines))
        if text:
            try:
                text = await ask_digest(self._parts, text)
            except (LlmError, Unreadable) as error:
                notices = self._parts.notices
                notices.warn("consulting.no_digest", step_id=self._step_id, **reason_params(error))
        text = text[:_DIGEST]
        _, objective = current_work(self._store.state)
        if text:
            kept = (*objective.accumulated_results, text)
            change_objective(self._store, accumulated_results=kept)
        results = frame_text("results", text or self._parts.notices.words("consulting.no_results"))
        self._tell_model("tidied", results, digest=text or "–")

    # --- what changes ------------------------------------------------------------------------

    def _tell_model(self, name: str, data: str = "", **params: str) -> None:
        """Show the notice ``consulting.NAME`` to the user, and give the model the text of that
        name, filled with ``data``.
        """
        key, words = f"consulting.{name}", {"data": data} if data else {}
        self._parts.notices.say(
            key,
            for_model=self._parts.notices.words(key, **words),
            step_id=self._step_id,
            aside=False,
            level=Level.INFO,
            **params,
        )

    def _set_priority(self, item: RequirementItem, priority: int) -> None:
        """Record the requirement with this priority."""
        changed = item.model_copy(update={"priority": priority})
        self._store.dispatch(RequirementEdited(item=changed))


def _drop_room(call: str) -> str:
    """Shorten the operation's name in the text of a call: without its namespace, with spaces for
    underscores.
    """
    name, space, rest = call.partition(" ")
    return f"{name.rpartition('.')[2].replace('_', ' ')}{space}{rest}"
