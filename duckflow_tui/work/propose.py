"""Makes, approves, changes and ends plans."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.prompting.side_questions import plan_question
from duckflow_tui.prompting.side_replies import PlanReply, PlanStep
from duckflow_tui.safety.pending_questions import Unanswered
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ModelText, StateError, one_line
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.gates import (
    ACCEPT,
    EDIT_PLAN,
    REJECT,
    RUN_ALL,
    RUN_STEPS,
    TELL,
    Card,
    CardAnswer,
    CardKind,
    CardMessage,
    CardOption,
)
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import (
    Plan,
    PlanChange,
    PlanProblem,
    PlanStatus,
    RunMode,
    Step,
    WorkStatus,
    apply_edits,
    check_steps,
    derive_end_status,
)
from duckflow_tui.state.plan_events import (
    PlanAnswered,
    PlanClosed,
    PlanRevised,
    PlanStatusChanged,
    StepChanged,
)
from duckflow_tui.state.store import Store
from duckflow_tui.tools.calls import list_remarks
from duckflow_tui.tools.operation import Output, ToolFault
from duckflow_tui.work.budget import BudgetEnd
from duckflow_tui.work.requirements import accept_change, normalize_text
from duckflow_tui.work.services import TurnParts


async def make_plan(parts: TurnParts, goal: str, steps: Sequence[PlanStep] = ()) -> Plan:
    """Make a draft plan for a goal, with at least one step and valid dependencies. It uses the
    model's ``steps``; if there are none, or the role ``creative`` has its own model, that role
    is asked. Raises ToolFault if no usable plan results.
    """

    def read(reply: PlanReply) -> Plan:
        """Convert the reply to a plan; raises PlanProblem."""
        return _read_plan(parts, reply, goal)

    models = parts.models
    if steps and not models.service.roles.creative:
        try:
            return read(PlanReply(goal=goal, steps=[*steps]))
        except PlanProblem as problem:
            raise ToolFault(problem.told, Outcome.INVALID) from problem
    specs = parts.router.registry.specs()
    try:
        return await models.ask(plan_question(parts.store.state, goal, specs), read)
    except Unreadable as error:
        raise ToolFault("plan.not_usable", problem=one_line(str(error), 400)) from error
    except LlmError as error:
        parts.notices.error(f"llm.error.{error.code}", **error.params)
        raise ToolFault("plan.model_failed", code=error.code) from error
    except BudgetEnd as end:  # the turn's next call ends it
        raise ToolFault("plan.limit", Outcome.STOPPED) from end


def _read_plan(parts: TurnParts, reply: PlanReply, goal: str) -> Plan:
    """Build a plan from a reply, with new ids for its steps. Raises PlanProblem."""
    names = [step.id.strip() or str(at) for at, step in enumerate(reply.steps, start=1)]
    if len(set(names)) < len(names):
        raise PlanProblem("same_id")
    given = {name: parts.ids("step") for name in names}
    by_number = {str(n): given[name] for n, name in enumerate(names, start=1)}
    by_name = {
        step.name.strip(): given[name] for name, step in zip(names, reply.steps, strict=True)
    }

    def find_need(reference: str) -> str:
        """Return the id of a step by its id, number or name in the reply; raises PlanProblem."""
        for known in (given, by_number, by_name):
            if found := known.get(reference.strip()):
                return found
        raise PlanProblem("no_need", need=str(reference))

    steps = tuple(
        Step(
            step_id=given[name],
            name=one_line(step.name, 200),
            description="" if step.description == step.name else step.description,
            depends_on=tuple(dict.fromkeys(map(find_need, step.depends_on))),
        )
        for name, step in zip(names, reply.steps, strict=True)
    )
    check_steps(steps)
    return Plan(
        plan_id=parts.ids("plan"),
        name=one_line(reply.name, 100) or one_line(goal, 100),
        goal=reply.goal or goal,
        steps=steps,
        risk=reply.risk or "",
        success_criteria=tuple(reply.success_criteria),
        created_at=parts.store.clock.now(),
    )


_ANSWERS = {RUN_ALL.action: RunMode.ALL, RUN_STEPS.action: RunMode.STEP}


class PlanApprovals:
    """Asks the user about plans, their changes and their end. An answer holds only for the version
    of the plan that its card showed.
    """

    def __init__(self, parts: TurnParts, stop_work: Callable[[], None]) -> None:
        self._parts = parts
        self._store = parts.store
        self._words = parts.notices.words
        self._stop_work = stop_work

    def show_again(self, plan_id: str) -> bool:
        """Renew the open card of a changed plan; False if none is open."""
        for card in self._store.state.cards:
            if card.kind is CardKind.PLAN and card.plan_id == plan_id:
                self._parts.desk.withdraw_question(card.card_id, "renewed")
                return True
        return False

    def _name_approver(self) -> str:
        """Return the words for who approves plans: the user, or without a screen the mode."""
        headless = self._store.state.session.headless
        return self._words("plan.by_mode" if headless else "plan.by_user")

    async def ask_for_approval(
        self, plan_id: str, since: Plan | None = None, *, own: bool = False
    ) -> Output:
        """Ask the user to approve a draft, again if it changes meanwhile (S2-22, C35); return what
        the model is told. Raises ToolFault if the user rejects it.

        ``since``: the version they saw before, for the comparison. ``own``: the model wrote the
        steps itself, so an unchanged plan is not repeated to it.
        """
        store = self._store
        answer = await self._ask_until_current(plan_id, since)
        approved = store.state.get_plan(plan_id)
        if approved.run is None:
            raise self._make_refusal("plan.rejected", answer)
        self._put_others_aside(plan_id)
        said = answer.text.strip()
        told = self._words(
            "plan.all" if approved.run is RunMode.ALL else "plan.steps",
            who=self._name_approver(),
            said=self._words("plan.they_said", text=said) if said else "",
            plan="" if own and approved.version == 1 else describe_plan(approved, self._words),
        )
        return Output(told.strip(), f"{len(approved.steps)}")

    async def _ask_until_current(self, plan_id: str, since: Plan | None) -> CardAnswer:
        """Ask the user to approve a draft until they answer for its newest version, and record
        that answer. ``since`` as in ``ask_for_approval``.
        """
        options = (RUN_ALL, RUN_STEPS, EDIT_PLAN, REJECT)
        while True:
            plan = self._store.state.get_plan(plan_id)
            answer = await self._ask(CardKind.PLAN, options, plan.fingerprint, plan, before=since)
            since = plan
            if answer is None:
                continue
            answered = PlanAnswered(
                plan_id=plan_id,
                fingerprint=answer.subject,
                run=_ANSWERS.get(answer.action),
                reason=answer.full_text,
            )
            try:
                await self._store.commit(answered)
            except StateError:  # the plan changed after the user pressed the key
                continue
            return answer

    def _put_others_aside(self, plan_id: str) -> None:
        """Cancel every other plan that may still run, with its work and open cards, and tell the
        user and the model.
        """
        parts, store = self._parts, self._store
        for other in store.state.plans:
            if other.plan_id == plan_id or not other.status.may_run:
                continue
            work = store.state.work
            if work is not None and work.plan_id == other.plan_id:
                self._stop_work()
            for card in store.state.cards:
                if card.plan_id == other.plan_id:
                    parts.desk.withdraw_question(card.card_id, "stopped")
            store.dispatch(PlanStatusChanged(plan_id=other.plan_id, status=PlanStatus.CANCELLED))
            done, total = other.progress
            parts.notices.tell("plan.put_aside", plan=other.name, done=str(done), total=str(total))

    async def ask_for_change(self, plan: Plan, change: PlanChange) -> Output:
        """Ask the user about a change of an approved plan, and apply it once accepted; return what
        the model is told. Asks again if the plan changed meanwhile. Steps that the change edits
        or drops do not begin before the answer. Raises ToolFault if it is refused.
        """
        parts, store = self._parts, self._store
        while True:
            try:
                await self._ask_to_accept(
                    "plan.refused", CardKind.PLAN_CHANGE, change.change_id, plan, change=change
                )
            except asyncio.CancelledError:
                parts.notices.tell("plan.change_dropped")
                raise
            now = store.state.get_plan(plan.plan_id)
            try:
                result = apply_edits(now, change.edits)
            except PlanProblem as problem:
                raise ToolFault("plan.no_longer_fits", problem=problem.told) from problem
            if now.fingerprint == change.base:
                break
            change_id = parts.ids("change")  # show what this would do to the plan as it is now
            change = change.replace(change_id=change_id, base=now.fingerprint, result=result)
        await store.commit(PlanRevised(plan=result, by="model", accepted=True))
        await accept_change(parts, change)
        end_idle_plan(store, plan.plan_id)
        return Output(self._words("plan.accepted", who=self._name_approver()), "accepted")

    async def ask_for_end(self, plan: Plan, how: Literal["close", "delete"]) -> Output:
        """Ask the user whether to close or delete a plan, and do so (S2-26). Raises ToolFault if
        they refuse.
        """
        await self._ask_to_accept(f"plan.refused_{how}", CardKind.PLAN_END, how, plan)
        await self._store.commit(PlanClosed(plan_id=plan.plan_id, deleted=how == "delete"))
        ended = f"{how}d"
        return Output(self._words("plan.ended", plan=plan.name, status=ended), ended)

    async def _ask(
        self,
        kind: CardKind,
        options: tuple[CardOption, ...],
        subject: str,
        plan: Plan,
        **shown: Any,
    ) -> CardAnswer | None:
        """Ask the user a question about the plan; ``shown`` are further fields of its card. Returns
        None if the plan changed meanwhile. Raises ToolFault if nobody answered.
        """
        card = self._parts.desk.make_card(kind, options, subject, plan_id=plan.plan_id, **shown)
        try:
            return await self._parts.desk.ask(card)
        except Unanswered as none:
            if none.reason == "renewed":
                return None
            outcome = Outcome.DENIED if none.reason == "nobody" else Outcome.STOPPED
            raise ToolFault(none.told, outcome) from none

    async def _ask_to_accept(
        self, refusal: str, kind: CardKind, subject: str, plan: Plan, **shown: Any
    ) -> None:
        """Return once the user accepts. Raises ToolFault with the text ``refusal`` for models if
        they refuse.
        """
        answer = await self._ask(kind, (ACCEPT, REJECT), subject, plan, **shown)
        assert answer is not None  # only the card of a draft is renewed
        if answer.action != ACCEPT.action:
            raise self._make_refusal(refusal, answer)

    def _make_refusal(self, name: str, answer: CardAnswer) -> ToolFault:
        """Make the ToolFault of a refused call from the text ``name``, with the user's reason and
        remarks.
        """
        reason = answer.text.strip()
        said = f": {reason}" if reason else "" if answer.remarks else "."
        if answer.remarks:
            remarks = ModelText("plan.remarks", {"remarks": list_remarks(answer.remarks)})
            said = f"{said}\n{self._words(remarks)}"
        return ToolFault(ModelText(name, {"said": said}), Outcome.REJECTED)


def _describe_work(plan: Plan) -> list[tuple[str, str, list[int]]]:
    """Return names, descriptions and dependencies of all steps, normalized and without ids, to
    compare two plans by content.
    """
    numbers = {step.step_id: number for number, step in enumerate(plan.steps)}
    return [
        (
            normalize_text(step.name),
            normalize_text(step.description),
            sorted(numbers[need] for need in step.depends_on),
        )
        for step in plan.steps
    ]


def was_just_rejected(state: AgentState, plan: Plan) -> bool:
    """Whether the user rejected a plan with the same steps, and has sent no message and answered no
    question since.
    """
    for message in reversed(state.messages):
        match message:
            case UserMessage() | CardMessage(card=Card(kind=CardKind.QUESTION)):
                return False
            case CardMessage(card=Card(kind=CardKind.PLAN), plan=Plan() as shown, answer=answer):
                if answer.action == REJECT.action and _describe_work(shown) == _describe_work(plan):
                    return True
            case _:
                pass
    return False


def list_steps(plan: Plan) -> list[tuple[str, ...]]:
    """Return ids, texts and skipped flags of all steps, to detect whether the user changed the
    plan.
    """
    skipped = WorkStatus.SKIPPED
    return [(s.step_id, s.name, s.description, str(s.status is skipped)) for s in plan.steps]


def was_approved_as_proposed(state: AgentState, plan: Plan) -> bool:
    """Whether an approved plan is as it was proposed, and the user wrote no comment when they were
    asked; without a screen nobody is.
    """
    cards = (m for m in state.messages if isinstance(m, CardMessage))
    asked = (m for m in cards if m.card.kind is CardKind.PLAN and m.card.plan_id == plan.plan_id)
    return plan.version == 1 and not any(m.answer.full_text.strip() for m in asked)


def find_held_steps(state: AgentState, plan_id: str) -> frozenset[str]:
    """Return the ids of steps that an open change of the plan would edit or drop."""
    return frozenset(
        edit.step_id
        for card in state.cards
        if card.kind is CardKind.PLAN_CHANGE and card.plan_id == plan_id and card.change is not None
        for edit in card.change.edits
        if edit.op in ("change", "drop")
    )


def was_answered_in_words(state: AgentState, step: Step) -> bool:
    """Whether the step failed and the user answered its newest report in their own words, which may
    say that it is done.
    """
    cards = (m for m in reversed(state.messages) if isinstance(m, CardMessage))
    newest = next((m for m in cards if m.card.report and m.card.step_id == step.step_id), None)
    failed = step.status is WorkStatus.FAILED
    return failed and newest is not None and newest.answer.action == TELL.action


_SHOWN = 50  # steps


def describe_plan(plan: Plan, words: Callable[..., str]) -> str:
    """Describe a plan for the model, one step per line with id, status and dependencies; at most
    ``_SHOWN`` steps.
    """
    numbers = {step.step_id: str(n) for n, step in enumerate(plan.steps, start=1)}
    done, total = plan.progress
    lines: list[str] = []
    for number, step in enumerate(plan.steps[:_SHOWN], start=1):
        needs = ", ".join(numbers[need] for need in step.depends_on)
        behind = f" (depends_on {needs})" if needs else ""
        note = f" — {one_line(step.note, 120)}" if step.note else ""
        lines.append(
            f"{number}. {step.step_id} [{step.status_text}] {step.name}{behind}: "
            f"{one_line(step.description, 200)}{note}"
        )
    if total > _SHOWN:
        lines.append(words("plan.more_steps", count=str(total - _SHOWN)))
    return words(
        "plan.shown",
        plan_id=plan.plan_id,
        plan=plan.name,
        status=plan.status_text,
        done=str(done),
        total=str(total),
        goal=one_line(plan.goal, 400),
        steps="\n".join(lines),
    )


def set_step(
    store: Store,
    plan_id: str,
    step_id: str,
    status: WorkStatus,
    note: str = "",
    *,
    taken: bool = False,
) -> None:
    """Set the status of a step; ``taken``: the user declared it done."""
    now = store.clock.now()
    step = StepChanged(
        plan_id=plan_id, step_id=step_id, status=status, note=note, taken=taken, at=now
    )
    store.dispatch(step)


def skip_step(parts: TurnParts, plan: Plan, step: Step) -> None:
    """Mark a step as skipped and tell the user."""
    set_step(parts.store, plan.plan_id, step.step_id, WorkStatus.SKIPPED)
    parts.notices.say("plan.step_skipped", step=step.name)


def end_idle_plan(store: Store, plan_id: str) -> None:
    """Set the final status of a plan after a change from outside, as ``end_plan`` does. Nothing
    happens while its work runs, which sets the status itself.
    """
    if store.state.work is None or store.state.work.plan_id != plan_id:
        end_plan(store, plan_id)


def end_plan(store: Store, plan_id: str) -> None:
    """Mark a plan that may run as completed or failed if none of its steps can go on, and a failed
    one as completed if all of them are done by now.
    """
    plan = store.state.get_plan(plan_id)
    status = derive_end_status(plan)
    mended = plan.status is PlanStatus.FAILED and status is PlanStatus.COMPLETED
    if status is not None and plan.status is not status and (plan.status.may_run or mended):
        store.dispatch(PlanStatusChanged(plan_id=plan_id, status=status))
