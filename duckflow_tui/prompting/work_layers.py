"""What the tails for running work are told: a step's next action, an answer beside the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duckflow_tui.prompting import lines
from duckflow_tui.prompting.budget import Cuttable, Trim
from duckflow_tui.prompting.digests import recent_exchanges
from duckflow_tui.prompting.frames import framed, inside
from duckflow_tui.prompting.layers import MAIN_DIGESTS, UNSET, Lists, Values, request
from duckflow_tui.prompting.lines import LINE, bullets, numbered, short
from duckflow_tui.prompting.operations import spoken
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.cards import Card
from duckflow_tui.state.messages import OperationMessage, UserMessage
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.work import Plan, Step, WorkStatus

_RESULTS: Final = 12  # newest of a step; the older ones are in its own conversation
_TASKS: Final = 12  # next ones of a list
_LAST_RESULTS: Final = 3  # of the running step, for an answer beside it


def step_values(
    state: AgentState,
    plan: Plan,
    step: Step,
    operations: Sequence[OperationSpec],
    digests: Sequence[str],
    nothing: str,
) -> tuple[Values, Lists]:
    """For the next action inside a step (S3-14…18, S3-30, S3-36).

    ``digests`` are of decisions of the step that no longer travel; ``nothing`` stands for
    results while there are none.
    """
    work = state.work if state.work and state.work.step_id == step.step_id else None
    done, total = plan.progress
    results = step_results(state, step)
    first = max(0, len(results) - _RESULTS)
    shown = numbered([inside(lines.result(m), "results") for m in results[first:]], first + 1)
    tasks = [t for t in step.task_list if t.status.is_open][:_TASKS]
    values = {
        **_wish(state),
        "plan_name": short(plan.name, LINE),
        "plan_goal": short(plan.goal, 2 * LINE),
        "plan_done": str(done),
        "plan_total": str(total),
        "step_number": str(lines.step_number(plan, step)),
        "step": lines.step(step),
        "loop": str(work.loop) if work else "",
        "limit": str(work.limit) if work else "",
        "mode": state.mode.value,
        "changed_outside": lines.changed_outside(state),
        "op_revise": spoken(operations)["op_revise"],
    }
    recent = recent_exchanges(state.messages, MAIN_DIGESTS)
    return values, {
        "results": Cuttable(Trim.EVIDENCE, shown or (nothing,), drop="first"),
        "needs": Cuttable(Trim.EVIDENCE, lines.needs(state, plan, step)),
        "conversation": Cuttable(Trim.CONVERSATION_SUMMARY, bullets(recent), drop="first"),
        "digests": Cuttable(
            Trim.CONVERSATION_SUMMARY, bullets(digests[-MAIN_DIGESTS:]), drop="first"
        ),
        "tasks": Cuttable(Trim.PLAN_BRIEF, numbered([lines.task(t) for t in tasks])),
    }


def aside_values(
    state: AgentState,
    operations: Sequence[OperationSpec],
    digests: Sequence[str],
    answers: str = "",
) -> tuple[Values, Lists]:
    """For an answer beside the work: what runs now, how far it is, what waits for the user.

    ``answers`` is the message that is answered; empty: the newest.
    """
    work, (plan, step) = state.work, _running(state)
    done, total = plan.progress if plan else (0, 0)
    tasks = step.task_list if step else ()
    # Nothing in a state says what time it is; its newest message comes nearest.
    now = state.messages[-1].at if state.messages else 0.0
    begun = (step.started_at if step else None) or (work.started_at if work else now)
    recent = step_results(state, step)[-_LAST_RESULTS:] if step else []
    names = spoken(operations)
    values = {
        **_wish(state),
        "phase": state.phase.value,
        "status": state.status.value,
        "mode": state.mode.value,
        "plan": lines.plan(plan),
        "plan_done": str(done) if plan else "",
        "plan_total": str(total) if plan else "",
        "step_number": str(lines.step_number(plan, step)) if plan and step else "",
        "step": lines.step(step) if step else "",
        "tasks_done": str(_completed(step)) if tasks else "",
        "tasks_total": str(len(tasks)) if tasks else "",
        "loop": str(work.loop) if work else "",
        "limit": str(work.limit) if work else "",
        "elapsed": lines.elapsed(now - begun) if work else "",
        "running": lines.running(state),
        "asked": short(_asked(state, answers), 2 * LINE),
        "cards": "\n".join(bullets([_card(state, card) for card in state.cards])),
        "results": framed("results", "\n".join(bullets([lines.result(m) for m in recent]))),
        **{name: names[name] for name in ("op_get", "op_revise", "op_pause", "op_stop")},
    }
    return values, {
        "digests": Cuttable(
            Trim.CONVERSATION_SUMMARY, bullets(digests[-MAIN_DIGESTS:]), drop="first"
        ),
    }


def _asked(state: AgentState, message_id: str) -> str:
    """What the user said beside the work, and is answered now."""
    said = (m for m in reversed(state.messages) if isinstance(m, UserMessage) and m.aside)
    return next((m.text for m in said if message_id in (m.message_id, "")), "")


def step_results(state: AgentState, step: Step) -> list[OperationMessage]:
    """The calls of a step that ended, oldest first."""
    return [
        message
        for message in state.messages
        if isinstance(message, OperationMessage) and message.step_id == step.step_id
    ]


def _wish(state: AgentState) -> Values:
    """What is never cut: what the user wants, and what waits for their key."""
    memory = state.memory
    return {
        "request": request(state),
        "goal": memory.goal or UNSET,
        "constraints": "\n".join(bullets(memory.constraints)),
        "requirements": lines.requirements(state),
        "gates": lines.gates(state),
    }


def _running(state: AgentState) -> tuple[Plan | None, Step | None]:
    """The step that runs and its plan; without one the active plan."""
    wanted = state.work.step_id if state.work else ""
    for plan in state.plans:
        for step in plan.steps:
            if step.step_id == wanted or step.status is WorkStatus.IN_PROGRESS:
                return plan, step
    return state.active_plan, None


def _completed(step: Step | None) -> int:
    return sum(t.status is WorkStatus.COMPLETED for t in step.task_list) if step else 0


def _card(state: AgentState, card: Card) -> str:
    """What a card is about: its kind, and the plan or the step."""
    plan = next((p for p in state.plans if p.plan_id == card.plan_id), None)
    step = plan.step(card.step_id) if plan else None
    name = step.name if step else plan.name if plan else ""
    said = card.report.summary if card.report else card.change.reason if card.change else ""
    return ": ".join(short(part) for part in (card.kind.value, name, said) if part)
