"""Keeps the newest change and the log of decisions in the working memory up to date
(S4-41, S4-43).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, ModelText, clip_value, one_line
from duckflow_tui.state.calls import ChangesRedone, ChangesUndone, OperationFinished
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.gates import (
    CardAnswered,
    CardKind,
    CardMessage,
    Gate,
    GateAnswer,
    GateAnswered,
    GateChoice,
)
from duckflow_tui.state.goal import RequirementEdited, RequirementWaived
from duckflow_tui.state.lines import split_bare_lines
from duckflow_tui.state.memory import (
    ITEM,
    LINE,
    MAX_CONSTRAINTS,
    MAX_PLAN_BRIEF,
    MOST,
    ChangeNoted,
    MemoryEdited,
    OwnField,
)
from duckflow_tui.state.operations import FileChange, describe_target
from duckflow_tui.state.plan import Plan
from duckflow_tui.state.plan_events import (
    PlanActivated,
    PlanAnswered,
    PlanClosed,
    PlanProposed,
    PlanRevised,
    StepChanged,
)
from duckflow_tui.state.session import ModeChanged
from duckflow_tui.state.store import Record, Store, Unsubscribe

#: Cards whose answer another event says too, or that decide nothing about the work itself.
_NOT_NOTED: Final = frozenset(
    {CardKind.PLAN, CardKind.PLAN_CHANGE, CardKind.REPORT, CardKind.BREAKPOINT, CardKind.BUDGET}
    | {CardKind.TRUST, CardKind.SERVER}
)


def note_changes(store: Store, words: Callable[..., str]) -> Unsubscribe:
    """Subscribe to the store, and from then on record file changes and decisions in the working
    memory. Returns the function that ends this.
    """

    def on_event(state: AgentState, record: Record) -> None:
        """Note the change or decision in an event."""
        decided = False
        match record.event:
            case OperationFinished(message=m) if m.result.changes:
                change = f"{_list_files(m.result.changes)} ({m.operation})"
            case StepChanged() as event:
                name = next((s.name for p in state.plans if (s := p.get_step(event.step_id))), "")
                text = "log.step_taken" if event.taken else "log.step"
                change = words(text, step=name, status=event.status.value)
            case PlanProposed(plan=plan):
                change = words("log.plan_made", plan=plan.name)
            case event:
                decision, decided = _describe_decision(state, event), True
                change = words(decision) if decision is not None else ""
        if change:
            store.dispatch(ChangeNoted(change=change, decided=decided))

    return store.subscribe(on_event)


def guess_items(state: AgentState) -> dict[OwnField, tuple[str, ...]]:
    """Derive items of the working memory that nobody has stated, from the request in hand: its
    text, the reason of the newest decision, lessons, next steps of the plan or open
    requirements, and the open question. Empty for items without facts.
    """
    objective, memory, plan = state.objective, state.memory, state.active_plan
    if objective is None:
        return {}
    open_items = [i for i in objective.extracted_requirements if i.is_counted and i.state != "met"]
    steps = [s.name for s in plan.steps if s.status.is_open] if plan is not None else []
    reasons = (
        message.decision.rationale
        for message in reversed(state.messages)
        if isinstance(message, AssistantMessage) and not message.aside and message.decision
        if message.at >= objective.created_at
    )
    questions = [card.question for card in state.cards if card.kind is CardKind.QUESTION]
    found: dict[OwnField, list[str]] = {
        "goal": split_bare_lines(objective.original_query.strip())[:1],
        "why_now": [next(reasons, "")],
        "constraints": list(objective.learned_constraints[-MAX_CONSTRAINTS:]),
        "plan_brief": (steps or [item.requirement for item in open_items])[:MAX_PLAN_BRIEF],
        "open_questions": questions,
    }
    return {
        name: tuple(
            one_line(item, ITEM if name in MOST else LINE) for item in items if item.strip()
        )
        for name, items in found.items()
        if not getattr(memory, name)
    }


def _describe_decision(state: AgentState, event: Event) -> ModelText | None:
    """Describe the user's or the model's decision in an event on one line; None if it is no
    decision.
    """
    match event:
        case GateAnswered(answer=answer):
            calls = (c for c in state.running if c.call_id == answer.call_id)
            gate = next((call.gate for call in calls if call.gate is not None), None)
            return _describe_gate_answer(gate, answer) if gate is not None else None
        case CardAnswered():
            return _describe_card_answer(state, event)
        case PlanAnswered():
            # Without a screen nobody was asked: the approval mode had decided.
            way = "approved" if event.run is not None else "refused"
            name = f"plan_{way}_by_mode" if state.session.headless else f"plan_{way}"
            plan = _get_plan_name(state.plans, event.plan_id)
            return _make_text(name, plan=plan, reason=event.reason)
        case PlanRevised(plan=plan):
            way = "accepted" if event.accepted else f"by_{event.by}"
            return _make_text(f"plan_changed_{way}", plan=plan.name, version=str(plan.version))
        case PlanClosed(plan_id=plan_id, deleted=deleted):
            name = "plan_deleted" if deleted else "plan_closed"
            return _make_text(name, plan=_get_plan_name(state.plans, plan_id))
        case PlanActivated(plan_id=plan_id):
            return _make_text("plan_activated", plan=_get_plan_name(state.plans, plan_id))
        case RequirementWaived():
            name = "requirement_dropped" if event.waived else "requirement_restored"
            return _make_text(name, id=event.requirement_id, reason=event.because)
        case RequirementEdited(item=item):
            return _make_text("requirement_written", id=item.requirement_id, text=item.requirement)
        case MemoryEdited(name=name, items=items):
            return _make_text("memory_written", item=name.replace("_", " "), text="; ".join(items))
        case ChangesUndone():
            return _make_text("changes_undone", files=_list_files(event.changes))
        case ChangesRedone():
            return _make_text("changes_redone", files=_list_files(event.changes))
        case ModeChanged():
            return _make_text("mode", mode=event.mode.value)
        case _:
            return None


def _describe_card_answer(state: AgentState, event: CardAnswered) -> ModelText | None:
    """Describe the answer to a card; None if it is not worth a note."""
    card = next(m.card for m in reversed(state.messages) if isinstance(m, CardMessage))
    if card.kind in _NOT_NOTED:
        return None
    option = next(o for o in card.options if o.action == event.answer.action)
    chosen = clip_value(option.label) or option.action
    # The user's words to a step stay in its conversation.
    reason = "" if card.step_id else event.answer.full_text
    if card.kind is CardKind.QUESTION:
        question = clip_value(card.question)
        return _make_text("answered", question=question, chosen=chosen, reason=reason)
    return _make_text("chose", card=card.kind.value, chosen=chosen, reason=reason)


def _describe_gate_answer(gate: Gate, answer: GateAnswer) -> ModelText | None:
    """Describe the answer to an approval question; None if it is not worth a note."""
    call: str | ModelText = f"{gate.operation} {describe_target(gate.args)}".rstrip()
    if gate.also:
        call = ModelText("log.changes_at_once", {"count": str(len(gate.previews))})
    match answer.choice:
        case GateChoice.ALTERNATIVE:
            label = gate.alternatives[(answer.alternative or 1) - 1]
            return _make_text("took_alternative", label=label, call=call)
        case GateChoice.EDIT:
            return _make_text("wrote_own", call=call)
        case _ if answer.is_approval:
            return _make_text("allowed_a_part", call=call) if answer.left_out else None
        case _:
            return _make_text("refused", call=call, reason=answer.full_text)


def _make_text(name: str, *, reason: str = "", **values: str | ModelText) -> ModelText:
    """Make the text of this name for models, with ``reason`` appended if there is one."""
    text = ModelText(f"log.{name}", values)
    if not reason.strip():
        return text
    return ModelText("log.with_reason", {"text": text, "reason": reason.strip()})


def _list_files(changes: Iterable[FileChange]) -> str:
    """List changed files for one line."""
    return ", ".join(f"{c.kind} {c.target or c.path} +{c.added} −{c.removed}" for c in changes)


def _get_plan_name(plans: Iterable[Plan], plan_id: str) -> str:
    """Return the name of the plan with this id; empty if there is none."""
    return next((plan.name for plan in plans if plan.plan_id == plan_id), "")
