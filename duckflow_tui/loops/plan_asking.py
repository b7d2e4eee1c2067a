"""Putting a plan, or a change of one, before the user (S2-22, C35)."""

from __future__ import annotations

import asyncio

from duckflow_tui.loops.cards import CardClosed
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.plan_run import end_idle_plan
from duckflow_tui.loops.plan_words import plan_words
from duckflow_tui.safety.gates import ConsentMissing
from duckflow_tui.state.cards import (
    ACCEPT,
    EDIT_PLAN,
    REJECT,
    RUN_ALL,
    RUN_STEPS,
    Card,
    CardAnswer,
    CardKind,
    CardOption,
)
from duckflow_tui.state.events import (
    PlanAnswered,
    PlanRevised,
    PlanStatusChanged,
    StateError,
    StepChanged,
)
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plans import PlanProblem, edited
from duckflow_tui.state.work import Plan, PlanChange, PlanEdit, PlanStatus, RunMode, WorkStatus
from duckflow_tui.tools.operation import Output, ToolFault

_ANSWERS = {RUN_ALL.action: RunMode.ALL, RUN_STEPS.action: RunMode.STEP}


class PlanApprovals:
    """Each answer is bound to what its card showed; a plan that changed is shown again."""

    def __init__(self, parts: TurnParts) -> None:
        self._parts = parts
        self._asking: dict[str, str] = {}  # plan id → its open card

    def show_again(self, plan_id: str) -> bool:
        """The plan changed: renew its card; False when none is open."""
        card_id = self._asking.get(plan_id)
        if card_id is None:
            return False
        self._parts.cards.withdraw(card_id, "renewed")
        return True

    def _plan(self, plan_id: str) -> Plan:
        return next(p for p in self._parts.store.state.plans if p.plan_id == plan_id)

    async def approval(self, plan_id: str, since: Plan | None = None) -> Output:
        """Ask until the user answered for the plan as it is (S2-22, C35)."""
        while True:
            plan = self._plan(plan_id)
            options = (RUN_ALL, RUN_STEPS, EDIT_PLAN, REJECT)
            card = self._card(CardKind.PLAN, plan, plan.fingerprint, options, before=since)
            self._asking[plan_id] = card.card_id
            try:
                answer = await self._parts.cards.ask(card)
            except CardClosed as closed:
                if closed.reason == "renewed":
                    since = plan
                    continue
                raise ToolFault("The question was withdrawn.", Outcome.STOPPED) from closed
            except ConsentMissing as missing:
                raise ToolFault(str(missing), Outcome.DENIED) from missing
            finally:
                self._asking.pop(plan_id, None)
            run = _ANSWERS.get(answer.action)
            try:
                await self._parts.store.commit(
                    PlanAnswered(
                        plan_id=plan_id,
                        fingerprint=answer.subject,
                        run=run,
                        reason=answer.text.strip(),
                    )
                )
            except StateError:  # changed between the key and now: the answer was for what it said
                since = plan
                continue
            approved = self._plan(plan_id)
            if approved.run is not None:
                self._put_others_aside(plan_id)
            return _approved(approved, answer)

    def _put_others_aside(self, plan_id: str) -> None:
        """There is one plan at a time: what is left of another ends, and is said to."""
        parts = self._parts
        for other in parts.store.state.plans:
            if other.plan_id == plan_id or not other.status.may_run:
                continue
            for card in parts.store.state.cards:
                if card.plan_id == other.plan_id:
                    parts.cards.withdraw(card.card_id, "stopped")
            for step in other.steps:
                if step.status is WorkStatus.IN_PROGRESS:  # by plan_tool.update_step
                    parts.store.dispatch(
                        StepChanged(
                            plan_id=other.plan_id,
                            step_id=step.step_id,
                            status=WorkStatus.CANCELLED,
                            note="another plan took its place",
                            at=parts.store.clock.now(),
                        )
                    )
            parts.store.dispatch(
                PlanStatusChanged(plan_id=other.plan_id, status=PlanStatus.CANCELLED)
            )
            done, total = other.progress
            parts.notices.say(
                "plan.put_aside",
                for_model=f"The plan {other.name!r} was put aside for it, with {done} of {total} "
                "steps done.",
                plan=other.name,
                done=str(done),
                total=str(total),
            )

    async def change(self, plan: Plan, edits: tuple[PlanEdit, ...], result: Plan) -> Output:
        """Put a change of an approved plan before the user; until then it holds back the steps
        that it changes or drops.
        """
        parts = self._parts
        while True:
            change = PlanChange(
                change_id=parts.ids("change"),
                plan_id=plan.plan_id,
                base=plan.fingerprint,
                edits=edits,
                result=result,
            )
            card = self._card(
                CardKind.PLAN_CHANGE, plan, change.change_id, (ACCEPT, REJECT), change=change
            )
            try:
                answer = await parts.cards.ask(card)
            except CardClosed as closed:
                raise ToolFault("The question was withdrawn.", Outcome.STOPPED) from closed
            except ConsentMissing as missing:
                raise ToolFault(str(missing), Outcome.DENIED) from missing
            except asyncio.CancelledError:
                parts.notices.say(
                    "plan.change_dropped",
                    for_model="The user stopped the work while a change of the plan waited for "
                    "their answer; the plan was not changed.",
                )
                raise
            if answer.action != ACCEPT.action:
                reason = answer.text.strip()
                said = f": {reason}" if reason else ""
                raise ToolFault(f"The user refused the change{said}", Outcome.REJECTED)
            now = self._plan(plan.plan_id)
            try:
                result = edited(now, edits)
            except PlanProblem as problem:
                raise ToolFault(
                    f"The plan went on meanwhile, and the change no longer fits: {problem}"
                ) from problem
            if now.fingerprint == change.base:
                await parts.store.commit(PlanRevised(plan=result, by="model", accepted=True))
                end_idle_plan(parts.store, plan.plan_id)
                return Output("The user accepted the change; the plan is changed.", "accepted")
            plan = now  # someone changed the plan meanwhile: show what this would do to it now

    def _card(
        self,
        kind: CardKind,
        plan: Plan,
        subject: str,
        options: tuple[CardOption, ...],
        *,
        change: PlanChange | None = None,
        before: Plan | None = None,
    ) -> Card:
        return Card(
            card_id=self._parts.ids("card"),
            kind=kind,
            subject=subject,
            options=options,
            plan_id=plan.plan_id,
            change=change,
            before=before,
            opened_at=self._parts.store.clock.now(),
        )


def _approved(plan: Plan, answer: CardAnswer) -> Output:
    if plan.run is None:
        reason = plan.rejection
        said = f"The user rejected the plan: {reason}" if reason else "The user rejected the plan."
        raise ToolFault(
            f"{said}\nDo not carry it out. Take the reason into account and propose another, or "
            "ask what they want instead.",
            Outcome.REJECTED,
        )
    how = "and wants all steps run" if plan.run is RunMode.ALL else "and wants it step by step"
    text = f"The user approved the plan {how}."
    if answer.text.strip():
        text += f" They said: {answer.text.strip()}"
    return Output(f"{text}\n{plan_words(plan)}", f"{len(plan.steps)}")
