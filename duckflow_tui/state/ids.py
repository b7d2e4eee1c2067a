"""Identifiers: a prefix and eight hex digits (S2-12…14), from a source that a test can pin."""

from __future__ import annotations

import secrets
from typing import Literal, Protocol

IdKind = Literal[
    "session",
    "msg",
    "turn",
    "call",
    "llm",
    "gate",
    "grant",
    "plan",
    "step",
    "task",
    "obj",
    "req",
    "check",
    "review",
    "work",
    "card",
    "report",
    "change",
    "proc",
    "compact",
]


class IdSource(Protocol):
    """Gives a new identifier at each call."""

    def __call__(self, kind: IdKind) -> str:
        """``<kind>_<8 hex digits>``, not given before in this session."""
        ...


def random_id(kind: IdKind) -> str:
    """An identifier from the system's random source."""
    return f"{kind}_{secrets.token_hex(4)}"
