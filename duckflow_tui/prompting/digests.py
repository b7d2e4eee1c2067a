"""The conversation in lines of at most 100 characters: what stays of what no longer travels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duckflow_tui.state.base import one_line
from duckflow_tui.state.messages import (
    AssistantMessage,
    CardMessage,
    Message,
    OperationMessage,
    ReportMessage,
    UserMessage,
)

DIGEST: Final = 100  # characters (S4-11, S4-16)
_ASKED: Final = 42  # of them for what the user wrote


def exchange_digest(messages: Sequence[Message]) -> str:
    """One exchange, a user message and all up to the next one: asked → answered.

    What was said beside the work answers only what was asked beside it.
    """
    asked = next((m for m in messages if isinstance(m, UserMessage)), None)
    aside = asked is not None and asked.aside
    answers = (_said(m, aside) for m in reversed(messages))
    words = one_line(asked.text, _ASKED) if asked else ""
    return _joined(words, next((said for said in answers if said), ""))


def recent_exchanges(messages: Sequence[Message], most: int) -> tuple[str, ...]:
    """Digests of the newest exchanges of the conversation, oldest first, asides included."""
    begin, users = len(messages), 0
    while begin and users < most:
        begin -= 1
        users += isinstance(messages[begin], UserMessage) and not messages[begin].step_id
    exchanges: list[list[Message]] = []
    newest: dict[bool, list[Message]] = {}
    for message in messages[begin:]:
        if message.step_id:
            continue
        if isinstance(message, UserMessage):
            newest[message.aside] = [message]
            exchanges.append(newest[message.aside])
        else:
            aside = isinstance(message, AssistantMessage) and message.aside
            newest.get(aside, []).append(message)
    return tuple(line for line in map(exchange_digest, exchanges) if line)


def loop_digest(messages: Sequence[Message]) -> str:
    """One decision inside a turn and its results: why → what came of each call."""
    said = next((m for m in messages if isinstance(m, AssistantMessage)), None)
    why = said.decision.rationale if said and said.decision else (said.text if said else "")
    calls = [
        f"{m.operation} {target(m.args)} {m.result.outcome.value}".replace("  ", " ")
        for m in messages
        if isinstance(m, OperationMessage)
    ]
    told = [one_line(_told(m), _ASKED) for m in messages if _told(m)]
    return _joined(one_line(why, _ASKED), "; ".join([*calls, *told]))


def target(args: dict[str, object]) -> str:
    """What a call is about: the first of its arguments that names a thing, on one line."""
    for name in ("path", "source", "command", "pattern", "glob", "goal", "query"):
        value = args.get(name)
        if isinstance(value, str) and value:
            return one_line(value, 60)
    return ""


def _said(message: Message, aside: bool) -> str:
    if isinstance(message, AssistantMessage):
        return message.text.strip() if message.aside is aside else ""
    return "" if aside else _told(message)


def _told(message: Message) -> str:
    """What a card or a report says to the model."""
    return message.for_model.strip() if isinstance(message, CardMessage | ReportMessage) else ""


def _joined(left: str, right: str) -> str:
    if left and right:
        return one_line(f"{left} → {right}", DIGEST)
    return one_line(left or right, DIGEST)
