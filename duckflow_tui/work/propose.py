"""Plans: made by a model, shown, approved, changed and ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.prompting.side_questions import plan_question
from duckflow_tui.prompting.side_replies import PlanReply, PlanStep
from duckflow_tui.safety.pending_questions import Unanswered
from duckflow_tui.state.base import ModelText, StateError, canonical_json, clip_value, one_line
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
    Task,
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
from duckflow_tui.tools.calls import list_remarks
from duckflow_tui.tools.operation import Output, ToolFault
from duckflow_tui.work.budget import BudgetEnd
from duckflow_tui.work.requirements import accept_change, normalize_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.store import Store
    from duckflow_tui.work.plan_operations import PlannedStep
    from duckflow_tui.work.services import TurnParts


async def make_plan(parts: TurnParts, goal: str, steps: Sequence[PlannedStep] = ()) -> Plan:
    """A draft for this goal: no circle, no unknown step, at least one step. It is made of the
    model's own ``steps``; the role ``creative`` makes it where there are none, or where that role
    has a model of its own. Raises ToolFault when none could be had.
    """

    def read(reply: PlanReply) -> Plan:
        return _read_plan(parts, reply, goal)

    models = parts.models
    if steps and not models.service.roles.creative:
        given = [
            PlanStep(
                id=step.id,
                name=step.name,
                description=step.description,
                depends_on=[str(need) for need in step.depends_on],
            )
            for step in steps
        ]
        try:
            return read(PlanReply(name="", goal=goal, steps=given))
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
    """A plan with ids of ours in place of the model's. Raises PlanProblem."""
    names = [step.id.strip() or str(at) for at, step in enumerate(reply.steps, start=1)]
    if len(set(names)) < len(names):
        raise PlanProblem("same_id")
    given = {name: parts.ids("step") for name in names}
    by_number = {str(n): given[name] for n, name in enumerate(names, start=1)}
    by_name = {
        step.name.strip(): given[name] for name, step in zip(names, reply.steps, strict=True)
    }

    def find_need(reference: str) -> str:
        for known in (given, by_number, by_name):
            if found := known.get(reference.strip()):
                return found
        raise PlanProblem("no_need", need=str(reference))

    steps = tuple(
        Step(
            step_id=given[name],
            name=one_line(step.name, 200),
            description=step.description,
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
    """Each answer is bound to what its card showed; a plan that changed is shown again."""

    def __init__(self, parts: TurnParts, stop_work: Callable[[], None]) -> None:
        self._parts = parts
        self._store = parts.store
        self._words = parts.notices.words
        self._stop_work = stop_work

    def show_again(self, plan_id: str) -> bool:
        """The plan changed: renew its card; False when none is open."""
        for card in self._store.state.cards:
            if card.kind is CardKind.PLAN and card.plan_id == plan_id:
                self._parts.desk.withdraw_question(card.card_id, "renewed")
                return True
        return False

    def _name_approver(self) -> str:
        """Who says yes to a plan: without a screen nobody is asked."""
        headless = self._store.state.session.headless
        return self._words("plan.by_mode" if headless else "plan.by_user")

    async def ask_for_approval(
        self, plan_id: str, since: Plan | None = None, *, own: bool = False
    ) -> Output:
        """Ask until the user answered for the plan as it is (S2-22, C35); ``since``: the plan as
        they saw it before. ``own``: the plan is in the model's own words, which need not be
        repeated to it. Raises ToolFault where the user rejected the plan.
        """
        store = self._store
        plan = store.state.get_plan(plan_id)
        options = (RUN_ALL, RUN_STEPS, EDIT_PLAN, REJECT)
        answer = await self._ask(CardKind.PLAN, options, plan.fingerprint, plan, before=since)
        if answer is not None:
            answered = PlanAnswered(
                plan_id=plan_id,
                fingerprint=answer.subject,
                run=_ANSWERS.get(answer.action),
                reason=answer.full_text,
            )
            try:
                await store.commit(answered)
            except StateError:  # changed between the key and now: the answer was for what it said
                answer = None
        if answer is None:
            return await self.ask_for_approval(plan_id, plan, own=own)
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

    def _put_others_aside(self, plan_id: str) -> None:
        """There is one plan at a time: what is left of another ends, and is said to."""
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
        """Ask the user about a change of an approved plan and wait; once accepted, commit it and
        return what the model is told. Asks anew where the plan changed meanwhile. Until the answer
        the steps that it changes or drops do not begin. Raises ToolFault for a refusal.
        """
        parts, store = self._parts, self._store
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
        if now.fingerprint != change.base:  # show what this would do to the plan as it is now
            change_id = parts.ids("change")
            change = change.replace(change_id=change_id, base=now.fingerprint, result=result)
            return await self.ask_for_change(plan, change)
        await store.commit(PlanRevised(plan=result, by="model", accepted=True))
        await accept_change(parts, change)
        end_idle_plan(store, plan.plan_id)
        return Output(self._words("plan.accepted", who=self._name_approver()), "accepted")

    async def ask_for_end(self, plan: Plan, how: Literal["close", "delete"]) -> Output:
        """Have the user close or delete a plan; without their yes nothing becomes of it (S2-26)."""
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
        """Put a question about the plan to the user; ``shown`` are further fields of its card. None
        where the plan changed meanwhile. Raises ToolFault where nobody answered.
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
        """Return once the user accepts. Raises ToolFault, in the words ``refusal`` for models,
        where they do not.
        """
        answer = await self._ask(kind, (ACCEPT, REJECT), subject, plan, **shown)
        assert answer is not None  # only the card of a draft is renewed
        if answer.action != ACCEPT.action:
            raise self._make_refusal(refusal, answer)

    def _make_refusal(self, name: str, answer: CardAnswer) -> ToolFault:
        """The error of a call that the user refused, in the words for models of this name: with
        their reason, and their remarks on steps.
        """
        reason = answer.text.strip()
        said = f": {reason}" if reason else "" if answer.remarks else "."
        if answer.remarks:
            remarks = ModelText("plan.remarks", {"remarks": list_remarks(answer.remarks)})
            said = f"{said}\n{self._words(remarks)}"
        return ToolFault(ModelText(name, {"said": said}), Outcome.REJECTED)


def _describe_work(plan: Plan) -> list[tuple[str, str, list[int]]]:
    """The finished work of a plan, whatever its ids, name and spacing: the steps in order."""
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
    """Whether the user rejected a plan of these very steps, and said nothing since but no."""
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
    """The ids and words of all steps, and whether they were skipped; compared to see whether the
    user changed the plan.
    """
    skipped = WorkStatus.SKIPPED
    return [(s.step_id, s.name, s.description, str(s.status is skipped)) for s in plan.steps]


def was_approved_as_proposed(state: AgentState, plan: Plan) -> bool:
    """Whether the user approved the plan without a change and without a word."""
    cards = (m for m in reversed(state.messages) if isinstance(m, CardMessage))
    newest = next((m for m in cards if m.card.kind is CardKind.PLAN), None)
    silent = newest is not None and not newest.answer.full_text.strip()
    return silent and plan.version == 1


def find_held_steps(state: AgentState, plan_id: str) -> frozenset[str]:
    """Steps that an open change of the plan would change or drop: they wait for the answer."""
    return frozenset(
        edit.step_id
        for card in state.cards
        if card.kind is CardKind.PLAN_CHANGE and card.plan_id == plan_id and card.change is not None
        for edit in card.change.edits
        if edit.op in ("change", "drop")
    )


def was_answered_in_words(state: AgentState, step: Step) -> bool:
    """Whether the user answered the newest report on this step, which was not done, with words of
    their own: they may say that it is done.
    """
    cards = (m for m in reversed(state.messages) if isinstance(m, CardMessage))
    newest = next((m for m in cards if m.card.report and m.card.step_id == step.step_id), None)
    failed = step.status is WorkStatus.FAILED
    return failed and newest is not None and newest.answer.action == TELL.action


_SHOWN = 50  # steps


def describe_plan(plan: Plan, words: Callable[..., str]) -> str:
    """The plan with ids, status and needs, one step a line, in the ``words`` for models."""
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


def describe_tasks(tasks: tuple[Task, ...]) -> str:
    """A line for each task: its number, the call, what it is for."""
    return "\n".join(
        f"{number}. {task.operation} {clip_value(canonical_json(task.args))} "
        f"{task.description}".rstrip()
        for number, task in enumerate(tasks, start=1)
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
    """Give a step another status from now on; ``taken``: by the user's word alone."""
    now = store.clock.now()
    step = StepChanged(
        plan_id=plan_id, step_id=step_id, status=status, note=note, taken=taken, at=now
    )
    store.dispatch(step)


def skip_step(parts: TurnParts, plan: Plan, step: Step) -> None:
    """Waive a step at the user's word, and say so: it may take requirements along."""
    set_step(parts.store, plan.plan_id, step.step_id, WorkStatus.SKIPPED)
    parts.notices.say("plan.step_skipped", step=step.name)


def end_idle_plan(store: Store, plan_id: str) -> None:
    """The same for a plan that was changed from outside, unless it is worked on: then its work
    does so. What kept a plan from being done may have been waived or dropped.
    """
    if store.state.work is not None and store.state.work.plan_id == plan_id:
        return
    plan = store.state.get_plan(plan_id)
    if plan.status is PlanStatus.FAILED and derive_end_status(plan) is PlanStatus.COMPLETED:
        store.dispatch(PlanStatusChanged(plan_id=plan_id, status=PlanStatus.COMPLETED))
    end_plan(store, plan_id)


def end_plan(store: Store, plan_id: str) -> None:
    """Mark a plan as completed or failed once nothing of it can go on."""
    plan = store.state.get_plan(plan_id)
    status = derive_end_status(plan)
    if status is not None and plan.status is not status and plan.status.may_run:
        store.dispatch(PlanStatusChanged(plan_id=plan_id, status=status))
