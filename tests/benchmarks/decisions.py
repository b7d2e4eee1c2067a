"""Decisions as a scripted model writes them."""

from __future__ import annotations

from duckflow_tui.state.base import JsonObject


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


def decision(rationale: str, goal: str, says: str, course: JsonObject) -> JsonObject:
    """A whole decision; both checks pass, because the script never leaves its goal."""
    return {
        "rationale": rationale,
        "reply": says,
        "goal_consistency": {"ok": True, "reason": goal},
        "constraint_check": {"ok": True, "reason": rationale},
        **course,
    }
