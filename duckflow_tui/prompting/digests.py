"""The conversation in lines of at most 100 characters: what stays of what no longer travels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duckflow_tui.state.base import one_line
from duckflow_tui.state.messages import (
    AssistantMessage,
    Message,
    OperationMessage,
    UserMessage,
)

DIGEST: Final = 100  # characters (S4-11, S4-16)
_ASKED: Final = 42  # of them for what the user wrote


def exchange_digest(messages: Sequence[Message]) -> str:
    """One exchange, a user message and all up to the next one: asked → answered."""
    asked = next((m.text for m in messages if isinstance(m, UserMessage)), "")
    answered = next((_said(m) for m in reversed(messages) if _said(m)), "")
    return _joined(one_line(asked, _ASKED), answered)


def loop_digest(messages: Sequence[Message]) -> str:
    """One decision inside a turn and its results: why → what came of each call."""
    said = next((m for m in messages if isinstance(m, AssistantMessage)), None)
    why = said.decision.rationale if said and said.decision else (said.text if said else "")
    calls = [
        f"{m.operation} {target(m.args)} {m.result.outcome.value}".replace("  ", " ")
        for m in messages
        if isinstance(m, OperationMessage)
    ]
    return _joined(one_line(why, _ASKED), "; ".join(calls))


def target(args: dict[str, object]) -> str:
    """What a call is about: the first of its arguments that names a thing, on one line."""
    for name in ("path", "source", "command", "pattern", "glob", "goal", "query"):
        value = args.get(name)
        if isinstance(value, str) and value:
            return one_line(value, 60)
    return ""


def _said(message: Message) -> str:
    return message.text.strip() if isinstance(message, AssistantMessage) else ""


def _joined(left: str, right: str) -> str:
    if left and right:
        return one_line(f"{left} → {right}", DIGEST)
    return one_line(left or right, DIGEST)
