"""Writes the newest change and the decisions into the working memory (S4-41, S4-43)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from duckflow_tui.state.base import clip_value, one_line
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
from duckflow_tui.state.plan_events import (
    PlanActivated,
    PlanAnswered,
    PlanClosed,
    PlanProposed,
    PlanRevised,
    StepChanged,
)
from duckflow_tui.state.session import ModeChanged

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.base import Event
    from duckflow_tui.state.plan import Plan
    from duckflow_tui.state.store import Record, Store, Unsubscribe

#: Cards whose answer another event says too, or that decide nothing about the work itself.
_NOT_NOTED: Final = frozenset(
    {CardKind.PLAN, CardKind.PLAN_CHANGE, CardKind.REPORT, CardKind.BREAKPOINT, CardKind.BUDGET}
    | {CardKind.TRUST}
)


def note_changes(store: Store) -> Unsubscribe:
    """Note what changes and what is decided, from now on."""

    def on_event(state: AgentState, record: Record) -> None:
        decided = False
        match record.event:
            case OperationFinished(message=m) if m.result.changes:
                change = f"{_list_files(m.result.changes)} ({m.operation})"
            case StepChanged() as event:
                name = next((s.name for p in state.plans if (s := p.get_step(event.step_id))), "")
                by = " by the user's word" if event.taken else ""
                change = f"step {name!r} is {event.status.value}{by}"
            case PlanProposed(plan=plan):
                change = f"the plan {plan.name!r} was made"
            case event:
                change, decided = _describe_decision(state, event), True
        if change:
            store.dispatch(ChangeNoted(change=change, decided=decided))

    return store.subscribe(on_event)


def guess_items(state: AgentState) -> dict[OwnField, tuple[str, ...]]:
    """The facts in place of items of the working memory that nobody has stated while
    a request is in hand: the request itself, the reason of the newest decision, what was learned,
    the next steps of the plan or the requirements that are open, the question that waits. Empty
    for an item of which the facts say nothing either.
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


def _describe_decision(state: AgentState, event: Event) -> str:
    """The decision that an event records, on one line; empty for none."""
    match event:
        case GateAnswered(answer=answer):
            calls = (c for c in state.running if c.call_id == answer.call_id)
            gate = next((call.gate for call in calls if call.gate is not None), None)
            return _gate_answer(gate, answer) if gate is not None else ""
        case CardAnswered():
            card = next(m.card for m in reversed(state.messages) if isinstance(m, CardMessage))
            option = next(o for o in card.options if o.action == event.answer.action)
            about = f"about the {card.kind.value}"
            if card.kind is CardKind.QUESTION:
                about = repr(clip_value(card.question))
            chose = f"asked {about}, the user chose {clip_value(option.label) or option.action}"
            # What was said to a step is for its own conversation.
            words = "" if card.step_id else event.answer.full_text
            return "" if card.kind in _NOT_NOTED else chose + _format_reason(words)
        case PlanAnswered():
            # Without a screen nobody was asked: the approval mode had decided.
            who = "the approval mode" if state.session.headless else "the user"
            did = "approved" if event.run is not None else "refused"
            return (
                f"{who} {did} the plan {_get_plan_name(state.plans, event.plan_id)!r}"
                + _format_reason(event.reason)
            )
        case PlanRevised(plan=plan):
            taken = ", accepted by the user" if event.accepted else f", by the {event.by}"
            return f"the plan {plan.name!r} was changed to version {plan.version}{taken}"
        case PlanClosed(plan_id=plan_id, deleted=deleted):
            return f"the user {'deleted' if deleted else 'closed'} the plan " + repr(
                _get_plan_name(state.plans, plan_id)
            )
        case PlanActivated(plan_id=plan_id):
            return f"the user took the plan {_get_plan_name(state.plans, plan_id)!r} in hand"
        case RequirementWaived():
            did = "dropped" if event.waived else "took back"
            return f"the user {did} {event.requirement_id}" + _format_reason(event.because)
        case RequirementEdited(item=item):
            return f"the user wrote {item.requirement_id}: {item.requirement}"
        case MemoryEdited(name=name, items=items):
            said = "; ".join(items) or "nothing"
            return f"the user wrote {name.replace('_', ' ')} by hand: {said}"
        case ChangesUndone():
            return f"the user took back: {_list_files(event.changes)}"
        case ChangesRedone():
            return f"the user had made again: {_list_files(event.changes)}"
        case ModeChanged():
            return f"the user set the approval mode to {event.mode.value}"
        case _:
            return ""


def _gate_answer(gate: Gate, answer: GateAnswer) -> str:
    what = f"{gate.operation} {describe_target(gate.args)}".rstrip()
    if gate.also:
        what = f"{len(gate.previews)} changes of files at once"
    match answer.choice:
        case GateChoice.ALTERNATIVE:
            return f"the user took {gate.alternatives[(answer.alternative or 1) - 1]!r} over {what}"
        case GateChoice.EDIT:
            return f"the user wrote their own version of {what}"
        case _ if answer.is_approval:
            return f"the user allowed {what}, but for a part" if answer.left_out else ""
        case _:
            return f"the user refused {what}" + _format_reason(answer.full_text)


def _format_reason(words: str) -> str:
    return f": {words.strip()}" if words.strip() else ""


def _list_files(changes: Iterable[FileChange]) -> str:
    return ", ".join(f"{c.kind} {c.target or c.path} +{c.added} −{c.removed}" for c in changes)


def _get_plan_name(plans: Iterable[Plan], plan_id: str) -> str:
    return next((plan.name for plan in plans if plan.plan_id == plan_id), "")
