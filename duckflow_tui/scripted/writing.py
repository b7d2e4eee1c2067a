"""Decisions as the demo's model writes them, and how fast they come."""

from __future__ import annotations

import json
from typing import Any, Final

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.base import JsonObject

_REPLY_S: Final = 3.0  # how long a reply takes to arrive, as from a quick model
_PIECE_S: Final = 0.02
_SMALLEST_PIECE: Final = 3  # characters


def action(operation: str, args: JsonObject, words: dict[str, str]) -> JsonObject:
    """A call with the words of a gate: ``intent`` and ``why``."""
    return {
        "operation": operation,
        "args": args,
        "reasoning": words["why"],
        "intent": words["intent"],
    }


def goes_on(step: str, confidence: float, *actions: JsonObject) -> JsonObject:
    """The course of a decision that acts and wants to see what comes of it."""
    return {
        "confidence": confidence,
        "step": step,
        "next_step": "continue",
        "prompt_pattern": "base_main_specialized",
        "actions": list(actions),
    }


def ends(step: str = "REVIEW") -> JsonObject:
    """The course of a decision that is the last."""
    return {"step": step, "next_step": "done", "prompt_pattern": "base_main"}


def asks(question: str, options: list[str], *, confidence: float = 0.4) -> JsonObject:
    """The course of a decision that leaves the next word to the user."""
    return {
        "step": "EXECUTION",
        "next_step": "pending_user",
        "prompt_pattern": "base_main",
        "confidence": confidence,
        "question": {"text": question, "options": options},
    }


def decision(rationale: str, goal: str, says: str, course: JsonObject) -> JsonObject:
    """A whole decision; both checks pass, because the script never leaves its goal."""
    return {
        "rationale": rationale,
        "reply": says,
        "goal_consistency": {"ok": True, "reason": goal},
        "constraint_check": {"ok": True, "reason": rationale},
        **course,
    }


def one_more(judgement: JsonObject, action: JsonObject) -> JsonObject:
    """The decision that asks for ``action`` alone, which was given back: the app takes one action
    a decision. ``judgement`` is that of the decision that asked for it first.
    """
    return {
        "rationale": judgement["rationale"],
        "reply": "",
        "goal_consistency": judgement["goal_consistency"],
        "constraint_check": judgement["constraint_check"],
        **goes_on(judgement["step"], judgement["confidence"], action),
    }


def paced(fast: bool, thinks: str = "", **said: Any) -> Reply:
    """A reply that takes about as long as a real one; ``fast`` sends it at once."""
    if fast:
        return Reply(reasoning=thinks, chunk_size=64, **said)
    length = len(thinks) + len(json.dumps(said, ensure_ascii=False))
    return Reply(
        reasoning=thinks,
        chunk_size=max(_SMALLEST_PIECE, round(length * _PIECE_S / _REPLY_S)),
        delay_s=_PIECE_S,
        first_delay_s=_PIECE_S * 20,
        **said,
    )
