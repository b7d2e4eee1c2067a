"""Plans: made by a model, shown, approved, changed and ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.prompting.questions import plan_question
from duckflow_tui.prompting.replies import PlanReply, PlanStep
from duckflow_tui.safety.desk import Unanswered
from duckflow_tui.state.base import StateError, canonical_json, clip_value, one_line
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
    remarks_for_model,
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
from duckflow_tui.tools.operation import Output, ToolFault
from duckflow_tui.work.budget import BudgetEnd
from duckflow_tui.work.requirements import accept_change, normalize_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.store import Store
    from duckflow_tui.tools.plan_operations import PlannedStep
    from duckflow_tui.work.parts import TurnParts
    from duckflow_tui.work.run import TaskLoop

NOT_SENT: Final = "The user's limit of calls to models was reached; nothing was made."


async def make_plan(parts: TurnParts, goal: str, steps: Sequence[PlannedStep] = ()) -> Plan:
    """A draft for this goal: no circle, no unknown step, at least one step. It is made of the
    model's own ``steps``; the role ``creative`` makes it where there are none, or where that role
    has a model of its own. Raises ToolFault when none could be had.
    """
    if steps and not parts.models.service.roles.creative:
        given = [
            PlanStep(
                id=step.id.strip() or str(number),
                name=step.name,
                description=step.description,
                depends_on=[str(need) for need in step.depends_on],
            )
            for number, step in enumerate(steps, start=1)
        ]
        reply = PlanReply(name="", goal=goal, steps=given)
        try:
            return _from_reply(parts, reply, goal)
        except PlanProblem as problem:
            raise ToolFault(str(problem), Outcome.INVALID) from problem

    def read(reply: PlanReply) -> Plan:
        return _from_reply(parts, reply, goal)

    specs = parts.router.registry.specs()
    try:
        return await parts.models.ask(plan_question(parts.store.state, goal, specs), read)
    except Unreadable as error:
        raise ToolFault(f"No usable plan came: {one_line(str(error), 400)}") from error
    except LlmError as error:
        parts.notices.error(f"llm.error.{error.code}", **error.params)
        raise ToolFault(f"The plan could not be made: {error.code}.") from error
    except BudgetEnd as end:  # the turn's next call ends it
        raise ToolFault(NOT_SENT, Outcome.STOPPED) from end


def _from_reply(parts: TurnParts, reply: PlanReply, goal: str) -> Plan:
    names = [step.id.strip() for step in reply.steps]
    if len(set(names)) < len(names):
        raise PlanProblem("Two steps have the same id.")
    given = {name: parts.ids("step") for name in names}
    by_number = {str(n): given[name] for n, name in enumerate(names, start=1)}
    by_name = {step.name.strip(): given[step.id.strip()] for step in reply.steps}

    def need(reference: str) -> str:
        for known in (given, by_number, by_name):
            if found := known.get(reference.strip()):
                return found
        raise PlanProblem(f"depends_on names {reference!r}, which is no step's number or name.")

    steps = tuple(
        Step(
            step_id=given[step.id.strip()],
            name=one_line(step.name, 200),
            description=step.description,
            depends_on=tuple(dict.fromkeys(need(name) for name in step.depends_on)),
        )
        for step in reply.steps
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

    def __init__(self, parts: TurnParts, task_loop: TaskLoop) -> None:
        self._parts = parts
        self._task_loop = task_loop
        self._asking: dict[str, str] = {}  # plan id → its open card

    def show_again(self, plan_id: str) -> bool:
        """The plan changed: renew its card; False when none is open."""
        card_id = self._asking.get(plan_id)
        if card_id is None:
            return False
        self._parts.desk.withdraw_question(card_id, "renewed")
        return True

    def _who(self) -> str:
        """Who says yes to a plan: without a screen nobody is asked."""
        headless = self._parts.store.state.session.headless
        return "The approval mode, as nobody was asked," if headless else "The user"

    async def approval(self, plan_id: str, since: Plan | None = None) -> Output:
        """Ask until the user answered for the plan as it is (S2-22, C35)."""
        while True:
            plan = self._parts.store.state.get_plan(plan_id)
            options = (RUN_ALL, RUN_STEPS, EDIT_PLAN, REJECT)
            card = self._parts.desk.make_card(
                CardKind.PLAN, options, plan.fingerprint, plan_id=plan_id, before=since
            )
            self._asking[plan_id] = card.card_id
            try:
                answer = await self._parts.desk.ask(card)
            except Unanswered as none:
                if none.reason == "renewed":
                    since = plan
                    continue
                raise _unanswered(none) from none
            finally:
                self._asking.pop(plan_id, None)
            run = _ANSWERS.get(answer.action)
            try:
                await self._parts.store.commit(
                    PlanAnswered(
                        plan_id=plan_id,
                        fingerprint=answer.subject,
                        run=run,
                        reason=answer.full_text,
                    )
                )
            except StateError:  # changed between the key and now: the answer was for what it said
                since = plan
                continue
            approved = self._parts.store.state.get_plan(plan_id)
            if approved.run is not None:
                self._put_others_aside(plan_id)
            return _approved(approved, answer, self._who())

    def _put_others_aside(self, plan_id: str) -> None:
        """There is one plan at a time: what is left of another ends, and is said to."""
        parts = self._parts
        for other in parts.store.state.plans:
            if other.plan_id == plan_id or not other.status.may_run:
                continue
            work = parts.store.state.work
            if work is not None and work.plan_id == other.plan_id:
                self._task_loop.stop()
            for card in parts.store.state.cards:
                if card.plan_id == other.plan_id:
                    parts.desk.withdraw_question(card.card_id, "stopped")
            end_steps(parts.store, other, "another plan took its place")
            parts.store.dispatch(
                PlanStatusChanged(plan_id=other.plan_id, status=PlanStatus.CANCELLED)
            )
            done, total = other.progress
            parts.notices.tell("plan.put_aside", plan=other.name, done=str(done), total=str(total))

    async def change(self, plan: Plan, change: PlanChange) -> Output:
        """Put a change of an approved plan before the user; until then it holds back the steps
        that it changes or drops.
        """
        parts = self._parts
        while True:
            options = (ACCEPT, REJECT)
            card = parts.desk.make_card(
                CardKind.PLAN_CHANGE, options, change.change_id, plan_id=plan.plan_id, change=change
            )
            try:
                answer = await parts.desk.ask(card)
            except Unanswered as none:
                raise _unanswered(none) from none
            except asyncio.CancelledError:
                parts.notices.tell("plan.change_dropped")
                raise
            _check_accepted(answer, "the change")
            now = self._parts.store.state.get_plan(plan.plan_id)
            try:
                result = apply_edits(now, change.edits)
            except PlanProblem as problem:
                raise ToolFault(
                    f"The plan went on meanwhile, and the change no longer fits: {problem}"
                ) from problem
            if now.fingerprint == change.base:
                await parts.store.commit(PlanRevised(plan=result, by="model", accepted=True))
                await accept_change(parts, change)
                end_idle_plan(parts.store, plan.plan_id)
                return Output(
                    f"{self._who()} accepted the change; the plan is changed.", "accepted"
                )
            # Someone changed the plan meanwhile: show what this would do to it now.
            base, change_id = now.fingerprint, parts.ids("change")
            change = change.replace(change_id=change_id, base=base, result=result)

    async def end(self, plan: Plan, how: Literal["close", "delete"]) -> Output:
        """Have the user close or delete a plan; without their yes nothing becomes of it (S2-26)."""
        card = self._parts.desk.make_card(
            CardKind.PLAN_END, (ACCEPT, REJECT), how, plan_id=plan.plan_id
        )
        try:
            answer = await self._parts.desk.ask(card)
        except Unanswered as none:
            raise _unanswered(none) from none
        _check_accepted(answer, f"to {how} the plan")
        await self._parts.store.commit(PlanClosed(plan_id=plan.plan_id, deleted=how == "delete"))
        return Output(f"The user agreed: the plan {plan.name!r} is {how}d.", f"{how}d")


def _check_accepted(answer: CardAnswer, what: str) -> None:
    if answer.action != ACCEPT.action:
        raise ToolFault(f"The user refused {what}{_reason(answer)}", Outcome.REJECTED)


def _reason(answer: CardAnswer) -> str:
    """Why the user refused, with what they wrote on steps; empty where they said nothing."""
    reason = answer.text.strip()
    said = f": {reason}" if reason else ""
    if not answer.remarks:
        return said
    return f"{said}\nRemarks on steps of the plan:\n{remarks_for_model(answer.remarks)}"


def _unanswered(none: Unanswered) -> ToolFault:
    return ToolFault(str(none), Outcome.DENIED if none.reason == "nobody" else Outcome.STOPPED)


def _approved(plan: Plan, answer: CardAnswer, who: str) -> Output:
    if plan.run is None:
        account = "every remark" if answer.remarks else "the reason"
        raise ToolFault(
            f"The user rejected the plan{_reason(answer) or '.'}\nDo not carry it out. Take "
            f"{account} into account and propose another, or ask what they want instead.",
            Outcome.REJECTED,
        )
    how = "and wants it step by step"
    if plan.run is RunMode.ALL:
        how = "and wants all steps run; they begin now, and you are asked for each"
    text = f"{who} approved the plan {how}."
    if answer.text.strip():
        text += f" They said: {answer.text.strip()}"
    return Output(f"{text}\n{plan_words(plan)}", f"{len(plan.steps)}")


def _work(plan: Plan) -> list[tuple[str, str, list[int]]]:
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


def check_not_rejected(state: AgentState, plan: Plan) -> None:
    """Raise ToolFault where the user rejected a plan of these very steps, and said nothing since
    but no: it is not shown to them again unasked.
    """
    for message in reversed(state.messages):
        match message:
            case UserMessage() | CardMessage(card=Card(kind=CardKind.QUESTION)):
                return
            case CardMessage(card=Card(kind=CardKind.PLAN), plan=Plan() as shown, answer=answer):
                if answer.action == REJECT.action and _work(shown) == _work(plan):
                    raise ToolFault(
                        "The user rejected a plan of these very steps, so it was not shown again. "
                        "Propose one with other steps, or end your turn and ask what they want "
                        "instead."
                    )
            case _:
                pass


def held_back(state: AgentState, plan_id: str) -> frozenset[str]:
    """Steps that an open change of the plan would change or drop: they wait for the answer."""
    return frozenset(
        edit.step_id
        for card in state.cards
        if card.kind is CardKind.PLAN_CHANGE and card.plan_id == plan_id and card.change is not None
        for edit in card.change.edits
        if edit.op in ("change", "drop")
    )


async def let_go(store: Store, plan_id: str, step_ids: frozenset[str]) -> None:
    """Return once something no longer holds one of these steps back."""
    changed = asyncio.Event()
    forget = store.subscribe(lambda state, record: changed.set())
    try:
        while step_ids <= held_back(store.state, plan_id):
            changed.clear()
            await changed.wait()
    finally:
        forget()


def was_told_of(state: AgentState, step: Step) -> bool:
    """Whether the user answered the newest report on this step, which was not done, with words of
    their own: they may say that it is done.
    """
    cards = (m for m in reversed(state.messages) if isinstance(m, CardMessage))
    newest = next((m for m in cards if m.card.report and m.card.step_id == step.step_id), None)
    failed = step.status is WorkStatus.FAILED
    return failed and newest is not None and newest.answer.action == TELL.action


_SHOWN = 50  # steps


def plan_words(plan: Plan) -> str:
    """The plan with ids, status and needs, one step a line."""
    numbers = {step.step_id: str(n) for n, step in enumerate(plan.steps, start=1)}
    done, total = plan.progress
    lines = [
        f'Plan {plan.plan_id} "{plan.name}", {plan.status.value}, {done} of {total} steps done.',
        f"Goal: {one_line(plan.goal, 400)}",
    ]
    for number, step in enumerate(plan.steps[:_SHOWN], start=1):
        needs = ", ".join(numbers[need] for need in step.depends_on)
        behind = f" (after {needs})" if needs else ""
        note = f" — {one_line(step.note, 120)}" if step.note else ""
        lines.append(
            f"{number}. {step.step_id} [{step.status_text}] {step.name}{behind}: "
            f"{one_line(step.description, 200)}{note}"
        )
    if total > _SHOWN:
        lines.append(f"… and {total - _SHOWN} more steps")
    return "\n".join(lines)


def tasks_words(tasks: tuple[Task, ...]) -> str:
    return "\n".join(
        f"{number}. {task.operation} {clip_value(canonical_json(task.args))} "
        f"{task.description}".rstrip()
        for number, task in enumerate(tasks, start=1)
    )


def end_steps(store: Store, plan: Plan, note: str) -> None:
    """End the steps that the model works on itself, by plan_tool.update_step."""
    for step in plan.steps:
        if step.status is WorkStatus.IN_PROGRESS:
            set_step(store, plan.plan_id, step.step_id, WorkStatus.CANCELLED, note)


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
