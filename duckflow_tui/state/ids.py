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
    "work",
    "card",
    "report",
    "change",
    "proc",
]


class IdSource(Protocol):
    """Gives a new identifier at each call."""

    def __call__(self, kind: IdKind) -> str:
        """``<kind>_<8 hex digits>``, not given before in this session."""
        ...


def random_id(kind: IdKind) -> str:
    """An identifier from the system's random source."""
    return f"{kind}_{secrets.token_hex(4)}"


class CountingIds:
    """Identifiers that count up, the same in every run: for tests and for the demo's pictures."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, kind: IdKind) -> str:
        self._next += 1
        return f"{kind}_{self._next:08x}"
