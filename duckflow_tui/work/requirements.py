"""Manages the current request and its ledger of requirements, including the user's own changes
(S1-24).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal

from duckflow_tui.llm.errors import LlmError, Unreadable, reason_params
from duckflow_tui.prompting.side_questions import requirements_question
from duckflow_tui.prompting.side_replies import RequirementsReply
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import LocalizedText, ToldError, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import (
    AssistantMessage,
    Level,
    Message,
    NoticeMessage,
    UserMessage,
)
from duckflow_tui.state.decision import Action, Check, NextStep, RequirementClaim, TurnDecision
from duckflow_tui.state.gates import (
    ACCEPT,
    REJECT,
    RUN_ALL,
    RUN_STEPS,
    TELL,
    Card,
    CardKind,
    CardMessage,
)
from duckflow_tui.state.goal import (
    ENDED_WELL,
    ObjectiveChanged,
    RequirementEdited,
    RequirementItem,
    RequirementsFound,
    RequirementWaived,
    TaskObjective,
)
from duckflow_tui.state.memory import WorkingMemory, WorkingMemoryChanged
from duckflow_tui.state.plan import REVISE, Plan, PlanChange
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import Belongs
from duckflow_tui.work.loop_limits import TALK
from duckflow_tui.work.services import TurnParts

MAX_NEW: Final = 30  # requirements that one decision may bring

#: Answers to a card whose words no message of the user repeats.
_HEARD: Final = (RUN_ALL.action, RUN_STEPS.action, TELL.action, REJECT.action)

#: Cards that ask about a change or the end of an approved plan.
_PLAN_QUESTIONS: Final = (CardKind.PLAN_CHANGE, CardKind.PLAN_END)


# --- whether a message is about the request in hand ----------------------------------------------


def relate_message(state: AgentState, message: UserMessage) -> Belongs:
    """Guess how a message relates to the current request, before its turn begins.

    A repeated message continues its request. After a question of the model, the message is guessed
    to answer it; otherwise to be a new request. The model's first decision corrects the guess.
    """
    old, last = state.objective, state.last_turn
    if old is None or last is None or old.closed:
        return "new"
    if last.outcome in ENDED_WELL and not old.reopened:
        return "new"
    before = state.messages[: last.messages]
    again = any(isinstance(m, UserMessage) and m.message_id == message.message_id for m in before)
    if again or message.text.strip() == old.original_query.strip():
        return "same"
    for m in reversed(before):
        if isinstance(m, AssistantMessage) and not m.aside and not m.step_id:
            asks = m.decision is not None and m.decision.next_step is NextStep.PENDING_USER
            return "guessed_same" if asks else "guessed_new"
    return "guessed_new"


class RequestInHand:
    """The request that a turn works on: a new one, the current one, or an earlier one taken up
    again.
    """

    def __init__(self, parts: TurnParts, message: UserMessage) -> None:
        self._parts = parts
        self._store = parts.store
        self._message = message
        self._heard = False

    def open_request(self) -> None:
        """Open a new request for the message; an unfinished current request is kept as an earlier
        one. Clears the working memory (S4-103), except items that the user wrote for it by hand.
        """
        memory = self._store.state.memory
        self._store.dispatch(
            ObjectiveChanged(
                objective=TaskObjective(
                    objective_id=self._parts.ids("obj"),
                    original_query=self._message.text,
                    created_at=self._message.at,
                    message_id=self._message.message_id,
                    max_iterations=self._parts.settings.max_attempts,
                    memory=memory,
                    heard=len(self._store.state.messages),
                )
            )
        )
        kept = {"decision_log": memory.decision_log, "last_delta": memory.last_delta}
        fresh = WorkingMemory.model_validate(kept)
        if memory.untold:  # the user wrote it for the next request
            fresh = fresh.with_user_fields(memory, memory.untold)
        self._store.dispatch(WorkingMemoryChanged(memory=fresh))

    def take_first_decision(self, decision: TurnDecision) -> bool:
        """Correct the guessed relation of the message by the turn's first decision; return whether
        a new request was opened for it. Later calls do nothing. If the message continues the
        request and the decision names no requirements, no model is asked later how the message
        changes them.
        """
        turn, now = self._store.state.turn, self._store.state.objective
        if self._heard or turn is None or now is None:
            return False
        self._heard = True
        opened = now.created_at == self._message.at  # a resumed turn may call this twice
        if turn.request == "guessed_same" and decision.continues is False and not opened:
            self.open_request()
            return True
        earlier = self._store.state.earlier
        if turn.request == "guessed_new" and decision.continues and opened and earlier:
            # Back to the earlier request, with requirements the user added to the new one.
            # Messages between the two do not concern it.
            back = earlier[-1].replace(left=None, heard=now.heard - 1)
            for item in now.extracted_requirements:
                renamed = item.model_copy(update={"requirement_id": next_id(back)})
                items = (*back.extracted_requirements, renamed)
                back = back.model_copy(update={"extracted_requirements": items})
            self._store.dispatch(ObjectiveChanged(objective=back))
            if now.memory is not None:
                own = self._store.state.memory
                back_to = now.memory.with_user_fields(own, own.by_user)
                self._store.dispatch(WorkingMemoryChanged(memory=back_to))
        if decision.continues and not decision.requirements:
            at = self._store.state.messages.index(self._message) + 1
            now = self._store.state.objective
            change_objective(self._store, heard=max(at, now.heard if now is not None else 0))
        return False


def list_requests(state: AgentState) -> list[str]:
    """Return the user's messages on the current request, oldest first, without duplicates."""
    objective = state.objective
    if objective is None:
        return []
    found = [objective.original_query]
    for message in state.messages:
        if not isinstance(message, UserMessage) or message.at <= objective.created_at:
            continue
        if message.text.strip() not in map(str.strip, found):
            found.append(message.text)
    return found


def change_objective(store: Store, **fields: object) -> None:
    """Set fields of the current request; does nothing if there is none."""
    if (objective := store.state.objective) is not None:
        store.dispatch(ObjectiveChanged(objective=objective.model_copy(update=fields)))


# --- the requirements of a request ---------------------------------------------------------------


async def take_requirements(parts: TurnParts, decision: TurnDecision, *, first: bool) -> None:
    """Add the requirements of a decision to the ledger (S1-26); ``first``: it is the turn's first
    decision.

    The fast role is asked only in two cases: the first time that work begins to change things and
    nobody named a requirement (S1-11), or the user said something new about a request that has
    requirements.
    """
    store = parts.store
    objective = store.state.objective
    assert objective is not None  # callers have checked
    if first and objective.iteration_count:  # of an earlier turn: the user's new word, new attempts
        most = objective.iteration_count + parts.settings.max_attempts
        objective = objective.replace(max_iterations=most)
        store.dispatch(ObjectiveChanged(objective=objective))
    claims = decision.requirements
    profile = store.state.profile_choice or objective.profile or decision.task_profile
    is_work = profile is not None and profile not in TALK
    acts = any(parts.router.registry.has_effects(action.operation) for action in decision.actions)
    if is_work and acts and not (claims or objective.extracted_requirements or objective.split):
        change_objective(store, split=True)
        try:
            claims = (await _ask_changes(parts, objective, ())).requirements
        except (LlmError, Unreadable) as error:
            parts.notices.warn("judging.no_requirements", **reason_params(error))
    talks = decision.task_profile in TALK and not decision.actions
    await update_ledger(parts, "first" if first else "later", claims, talks=talks)


async def update_ledger(
    parts: TurnParts,
    when: Literal["first", "later", "review"],
    claims: Sequence[RequirementClaim] = (),
    *,
    talks: bool = False,
) -> None:
    """Update the ledger by everything the user said and did since the last update: add new
    requirements and waive dropped ones. The fast role decides how; without new words, or if it
    fails, the model's ``claims`` are added. If every requirement was dropped and none added, the
    request itself becomes its only requirement, so that no model ends a request by itself.

    ``when``: after the ``first`` decision of a turn, after a ``later`` one, or before a ``review``.
    ``talks``: the decision only talks; the user's words are kept for the next decision.
    """
    store = parts.store
    objective = store.state.objective
    assert objective is not None
    until = len(store.state.messages)
    said = [] if talks else collect_wishes(store.state, objective, parts.notices.words)
    if when == "later" and not (said or claims):
        return
    counted = False
    if said and objective.extracted_requirements:
        counted = any(item.is_counted for item in objective.extracted_requirements)
        try:
            found = await _ask_changes(parts, objective, said)
        except (LlmError, Unreadable) as error:
            parts.notices.warn("judging.not_heard", **reason_params(error))
        else:
            claims = found.requirements
            _apply_changes(parts, found, one_line("; ".join(said), 200))
        objective = store.state.objective
        assert objective is not None
    if said:
        change_objective(store, heard=until)
    await add_claims(parts, claims, anew=counted)


def collect_wishes(
    state: AgentState, objective: TaskObjective, words: Callable[..., str]
) -> list[str]:
    """Collect the user's words and actions since the last update of the ledger that may change it,
    one line each, oldest first. Excludes messages that an answer beside the work has settled,
    and changes of the plan that name their own requirements.
    """
    since = state.messages[objective.heard :]
    settled = {
        message.answers
        for at, message in enumerate(since)
        if isinstance(message, AssistantMessage) and _is_settled_by(message, since[at:])
    }
    said: list[str] = []
    for message in since:
        if message.at < objective.created_at:
            continue
        match message:
            case UserMessage(text=text, message_id=message_id):
                if message_id not in settled and text.strip() != objective.original_query.strip():
                    said.append(words("wishes.said", words=text))
            case OperationMessage(for_requirement="") if message.result.outcome.is_refused:
                call = f"{message.call_text} ({message.intent})"
                answer = message.result.text.partition("\n")[0]
                if message.answer is not None and message.answer.remarks:
                    answer = words("wishes.rejected", words=message.answer.full_text)
                said.append(words("wishes.refused", call=one_line(call, 300), answer=answer))
            case NoticeMessage(key="plan.step_dropped" | "plan.step_skipped", params=params):
                way = message.key.rpartition("_")[2]
                said.append(words(f"wishes.{way}_step", step=str(params["step"])))
            case CardMessage(card=Card(change=PlanChange() as change), plan=plan, answer=answer):
                if answer.action == ACCEPT.action and change.requirements is None:
                    said.append(words("wishes.accepted", change=_describe_change(change, plan)))
            case CardMessage(card=Card(kind=CardKind.PLAN | CardKind.REPORT), answer=answer):
                if answer.action in _HEARD and answer.full_text.strip():
                    said.append(words("wishes.said", words=answer.full_text))
            case _:
                pass
    return said


def _is_settled_by(message: AssistantMessage, since: Sequence[Message]) -> bool:
    """Whether an answer beside the work has settled what its message means for the ledger: it asks
    the user about a change or the end of the plan, names requirements, or classifies the message
    as talk. ``since``: the messages from the answer on.
    """
    decision = message.decision
    if not message.aside or decision is None:
        return False
    revises = any(_is_asked_about(a, since) for a in decision.actions if a.operation == REVISE)
    return revises or bool(decision.requirements) or decision.task_profile in TALK


def _is_asked_about(action: Action, since: Sequence[Message]) -> bool:
    """Whether the user was asked about a change of the plan, or the call may still ask; a draft is
    changed without a question.
    """
    for message in since:
        if isinstance(message, CardMessage) and message.card.kind in _PLAN_QUESTIONS:
            return True
        if isinstance(message, OperationMessage) and message.call_id == action.call_id:
            return False
    return True


async def add_claims(
    parts: TurnParts, claims: Sequence[RequirementClaim], *, anew: bool = False
) -> None:
    """Add a model's claims to the ledger as requirements. ``anew``: if no requirement would then
    count, add the request itself as one.
    """
    store = parts.store
    objective = store.state.objective
    assert objective is not None
    if (checked := replace_checks(objective, claims)) != objective:
        objective = checked
        store.dispatch(ObjectiveChanged(objective=objective))
    count, items = new_items(objective, claims)
    if count > len(items):
        parts.notices.warn("judging.many", found=str(count), kept=str(len(items)))
    if anew and not any(item.is_counted for item in (*objective.extracted_requirements, *items)):
        first, *later = list_requests(store.state)
        whole = f"{one_line(first, 300)}; {one_line('; '.join(later), 200)}"
        items = (new_requirement(objective, whole.removesuffix("; ")),)
    if items:
        await store.commit(RequirementsFound(objective_id=objective.objective_id, items=items))
        counted = sum(item.is_counted for item in (*objective.extracted_requirements, *items))
        parts.notices.say("judging.counted", count=str(counted))
        await _tell_blocked_checks(parts, items)


async def _tell_blocked_checks(parts: TurnParts, items: Sequence[RequirementItem]) -> None:
    """Without a screen, warn the model of checks whose commands would need an approval."""
    for item in items if parts.store.state.session.headless else ():
        command = item.check.value.strip() if item.check.kind == "command" else ""
        if command and not await parts.router.runs_unasked(command):
            parts.notices.tell(
                "judging.cannot_check",
                Level.WARNING,
                requirement=item.requirement_id,
                command=one_line(command, 200),
            )


async def accept_change(parts: TurnParts, change: PlanChange) -> None:
    """Add and waive the requirements that an accepted change of the plan names."""
    if parts.store.state.objective is None:
        return
    waive_requirements(parts, tuple(change.waives), parts.notices.words("wishes.plan_changed"))
    await add_later_claims(parts, change.requirements or ())


async def add_later_claims(parts: TurnParts, claims: Sequence[RequirementClaim]) -> None:
    """Add requirements that the user named after the request. Where the ledger is empty, the
    request itself becomes the first one, so that it is judged beside them.
    """
    objective = parts.store.state.objective
    assert objective is not None
    if claims and not objective.extracted_requirements:
        whole = RequirementClaim(requirement=one_line(objective.original_query, 300))
        claims = (whole, *claims)
    await add_claims(parts, claims)


async def _ask_changes(
    parts: TurnParts, objective: TaskObjective, wishes: Sequence[str]
) -> RequirementsReply:
    """Ask the fast role to split the request into requirements (S1-11), or, given ``wishes`` of the
    user, how these change its requirements; ``dropped`` and ``again`` of the reply are then ids of
    the ledger. Raises LlmError and Unreadable.
    """
    known = objective.extracted_requirements

    def find_id(key: str) -> str:
        """Return the id of the requirement that the reply names; raises ToldError if unknown."""
        item = find_requirement(key, known)
        if item is None and wishes:
            ids = ", ".join(item.requirement_id for item in known)
            raise ToldError("judging.unknown_id", id=repr(key), ids=ids)
        return item.requirement_id if item is not None else key

    def read(reply: RequirementsReply) -> RequirementsReply:
        """Return the reply with ids of the ledger; raises ToldError if it has no requirement where
        some are needed.
        """
        if not (reply.requirements or wishes):
            raise ToldError("judging.no_requirement")
        ids = {"dropped": [*map(find_id, reply.dropped)], "again": [*map(find_id, reply.again)]}
        return reply.model_copy(update=ids)

    question = requirements_question(parts.store.state, objective.original_query, wishes)
    return await parts.models.ask(question, read)


def _apply_changes(parts: TurnParts, found: RequirementsReply, because: str) -> None:
    """Waive the requirements that the reply drops; reopen waived ones that it wants again."""
    waive_requirements(parts, found.dropped, because)
    for key in found.again:
        objective = parts.store.state.objective
        item = objective.get_requirement(key) if objective is not None else None
        if item is not None and not item.is_counted:
            parts.store.dispatch(RequirementWaived(requirement_id=key, waived=False))


def waive_requirements(parts: TurnParts, ids: Sequence[str], because: str) -> None:
    """Waive these requirements if they count, and tell the user and the model."""
    dropped: dict[str, str] = {}
    for key in ids:
        objective = parts.store.state.objective
        item = objective.get_requirement(key) if objective is not None else None
        if item is not None and item.is_counted:
            parts.store.dispatch(RequirementWaived(requirement_id=key, because=because))
            dropped[key] = item.requirement
    if dropped:
        what = one_line("; ".join(f"{key} {words}" for key, words in dropped.items()), 300)
        parts.notices.say(
            "judging.dropped",
            for_model=parts.notices.words("judging.dropped", what=what),
            what=one_line("; ".join(dropped.values()), 300),
        )


def _describe_change(change: PlanChange, plan: Plan | None) -> str:
    """Describe in words how a change of a plan changes its steps."""
    lines: list[str] = []
    for edit in change.edits:
        old = plan.get_step(edit.step_id) if plan is not None else None
        name = (old.name if old is not None else edit.name) or edit.step_id
        words = f": {edit.description}" if edit.description else ""
        lines.append(f"{edit.op} the step {name!r}{words}")
    return one_line("; ".join(lines), 600)


def new_items(
    objective: TaskObjective, claims: Sequence[RequirementClaim]
) -> tuple[int, tuple[RequirementItem, ...]]:
    """Return how many claims are new to the ledger, and requirements with new ids for them, at most
    ``MAX_NEW``, by priority.

    Within one decision, the same text with another check is another requirement. A text that is on
    the ledger, even waived, is not added again.
    """
    known = {normalize_text(item.requirement) for item in objective.extracted_requirements}
    new: dict[str, list[Check]] = {}
    found: list[RequirementClaim] = []
    for claim in claims:
        words = normalize_text(claim.requirement)
        checks = new.setdefault(words, [])
        if words in known or claim.check in checks or (checks and claim.check == Check()):
            continue
        checks.append(claim.check)
        found.append(claim)
    kept = found
    if len(found) > MAX_NEW:
        kept = sorted(found, key=lambda claim: claim.priority)[:MAX_NEW]
    items: list[RequirementItem] = []
    for claim in kept:
        item = RequirementItem(
            requirement_id=next_id(objective, items),
            requirement=claim.requirement,
            priority=claim.priority,
            check=claim.check,
        )
        items.append(item)
    return len(found), tuple(items)


def replace_checks(objective: TaskObjective, claims: Sequence[RequirementClaim]) -> TaskObjective:
    """Return the objective with the new checks that the model names for its own requirements, which
    are open again. Requirements of the user stay unchanged.
    """
    for item in objective.extracted_requirements:
        words = normalize_text(item.requirement)
        checks = [c.check for c in claims if normalize_text(c.requirement) == words]
        new = next((check for check in checks if check != Check()), item.check)
        if item.is_counted and not item.by_user and new != item.check and item.check not in checks:
            open_again = RequirementItem(
                requirement_id=item.requirement_id,
                requirement=item.requirement,
                priority=item.priority,
                check=new,
            )
            objective = objective.with_requirement(open_again)
    return objective


def new_requirement(objective: TaskObjective, text: str) -> RequirementItem:
    """Make a requirement with a new id, without adding it to the ledger."""
    return RequirementItem(requirement_id=next_id(objective), requirement=text)


def find_requirement(key: str, items: Sequence[RequirementItem]) -> RequirementItem | None:
    """Find the requirement that a person or a model names: by its id in any case, its text, or its
    position from 1.
    """
    words = normalize_text(key)
    for item in items:
        if words in (item.requirement_id, normalize_text(item.requirement)):
            return item
    place = re.fullmatch(r"\W*(?:r|req(?:uirement)?|要件)?[\s_#-]*(\d{1,3})\W*", words)
    if place is not None:
        for item in items:
            if item.requirement_id == f"r{place[1]}":
                return item
        at = int(place[1]) - 1
        return items[at] if 0 <= at < len(items) else None
    for item in items:
        if re.match(rf"\W*{re.escape(item.requirement_id)}\b", words):  # "r1: the notes say done"
            return item
    return None


def next_id(objective: TaskObjective, more: Sequence[RequirementItem] = ()) -> str:
    """Return the first of r1, r2 … that is used neither in the objective nor in ``more``."""
    taken = {item.requirement_id for item in (*objective.extracted_requirements, *more)}
    number = 1
    while f"r{number}" in taken:
        number += 1
    return f"r{number}"


def normalize_text(text: str) -> str:
    """Normalize a text for comparison: spaces, case, and quotes and full stops around it."""
    return " ".join(text.split()).strip(" .。\"'`").casefold()


class LedgerActions:
    """The user's own changes of requirements. Each method returns why it was not possible, as a
    message for the user, or None when done. Priorities are 1 (highest) to 3.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def add_requirement(
        self, text: str, priority: int = 1, check: Check | None = None
    ) -> LocalizedText | None:
        """Add a requirement of the user."""
        objective = self._store.state.objective
        if objective is None:
            return _make_problem("no_request")
        return self._write_item(new_requirement(objective, text), text, priority, check)

    def edit_requirement(
        self,
        requirement_id: str,
        text: str | None = None,
        priority: int | None = None,
        check: Check | None = None,
    ) -> LocalizedText | None:
        """Change text, priority or check of a requirement; None keeps a field."""
        item = self._find_item(requirement_id)
        return (
            item
            if isinstance(item, LocalizedText)
            else self._write_item(item, text, priority, check)
        )

    def waive_requirement(self, requirement_id: str, because: str = "") -> LocalizedText | None:
        """Waive a requirement: it stays listed and no longer counts."""
        item = self._find_item(requirement_id)
        if isinstance(item, LocalizedText):
            return item
        because = one_line(because, 200)
        self._store.dispatch(RequirementWaived(requirement_id=requirement_id, because=because))
        return None

    def restore_requirement(self, requirement_id: str) -> LocalizedText | None:
        """Restore a waived requirement; it is open again."""
        item = self._find_item(requirement_id)
        if isinstance(item, LocalizedText):
            return item
        if item.is_counted:
            return _make_problem("not_waived", id=requirement_id)
        self._store.dispatch(RequirementWaived(requirement_id=requirement_id, waived=False))
        return None

    def _write_item(
        self, item: RequirementItem, text: str | None, priority: int | None, check: Check | None
    ) -> LocalizedText | None:
        """Validate the fields and record the requirement."""
        words = (item.requirement if text is None else text).strip()
        priority = item.priority if priority is None else priority
        check = check or item.check
        if not words:
            return _make_problem("no_words")
        if priority not in (1, 2, 3):
            return _make_problem("priority")
        if check.kind != "judgement" and not check.value.strip():
            return _make_problem("no_value")
        fields = {"requirement": words, "priority": priority, "check": check}
        self._store.dispatch(RequirementEdited(item=item.model_copy(update=fields)))
        return None

    def _find_item(self, requirement_id: str) -> RequirementItem | LocalizedText:
        """Return the requirement, or the problem message if there is none."""
        objective = self._store.state.objective
        if objective is None:
            return _make_problem("no_request")
        item = objective.get_requirement(requirement_id)
        return item or _make_problem("not_there", id=one_line(requirement_id, 40))


def _make_problem(code: str, **params: str) -> LocalizedText:
    """Make the message ``ledger.problem.CODE``."""
    return LocalizedText(key=f"ledger.problem.{code}", params=params)
