"""Zones, operations, modes: what runs, what asks, what is refused, as one table (C16)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from duckflow_tui.state.operations import ApprovalMode, Effect, Zone


class Decision(StrEnum):
    """What becomes of a call."""

    ALLOW = "allow"
    GATE = "gate"
    DENY = "deny"


class Fact(StrEnum):
    """What else is known about a call, found out by the app, never by the model."""

    ALLOWED_BY_RULE = "allowed_by_rule"  # every part of the command is allowed by the user's rules
    FULL_SANDBOX = "full_sandbox"
    APPROVED = "approved"  # the user approved this server and this tool before
    OWN_RESULT = "own_result"  # it reads what an earlier call of the session gave, and no place
    NAMED = "named"  # by --allow on this command line, or by the demo's own rule


@dataclass(frozen=True)
class Row:
    """One line of the table. ``grantable``: modes in which the key ``s`` may allow it for the
    session; ``in_step``: the key ``t`` may allow it for the step that runs.
    """

    name: str
    operations: tuple[str, ...]
    effects: frozenset[Effect]
    zones: frozenset[Zone]
    plan: Decision
    strict: Decision
    standard: Decision
    trusted: Decision
    facts: frozenset[Fact] = frozenset()
    grantable: frozenset[ApprovalMode] = frozenset()
    in_step: bool = False

    def fits(self, operation: str, effect: Effect, zone: Zone, facts: frozenset[Fact]) -> bool:
        """Whether the row speaks about this call."""
        return (
            effect in self.effects
            and zone in self.zones
            and self.facts <= facts
            and any(fnmatchcase(operation, pattern) for pattern in self.operations)
        )

    def cell(self, mode: ApprovalMode) -> Decision:
        """The decision in a mode."""
        return {
            ApprovalMode.PLAN: self.plan,
            ApprovalMode.STRICT: self.strict,
            ApprovalMode.STANDARD: self.standard,
            ApprovalMode.TRUSTED: self.trusted,
        }[mode]


_FILES = ("file_ops.*",)
_SHELL = ("shell.*",)
_MCP = ("mcp.*",)
_GIT = ("git.*",)
_GIT_READ = ("git.status", "git.diff", "git.log")
_OUTPUT = ("shell.output",)
_END = ("shell.end",)
_OWN = ("plan_tool.*", "task_tool.*", "task_loop.*")
_REMEMBER = ("memory.remember",)
_RECALL = ("memory.recall",)

_READ = frozenset({Effect.READ})
_CHANGE = frozenset({Effect.WRITE, Effect.MOVE})
_DELETE = frozenset({Effect.DELETE})
_RUN = frozenset({Effect.EXECUTE})
_STATE = frozenset({Effect.STATE})
_ANY = frozenset(Effect)
_EFFECTS = _ANY - {Effect.STATE}

_INSIDE = frozenset({Zone.INSIDE})
_SECRET = frozenset({Zone.SECRET})
_OUTSIDE = frozenset({Zone.OUTSIDE})
_IN_OR_NONE = frozenset({Zone.INSIDE, Zone.NOWHERE})
_NOT_PROTECTED = frozenset(Zone) - {Zone.PROTECTED}

_BY_RULE = frozenset({Fact.ALLOWED_BY_RULE, Fact.FULL_SANDBOX})
_SANDBOX = frozenset({Fact.FULL_SANDBOX})
_APPROVED = frozenset({Fact.APPROVED})
_NAMED = frozenset({Fact.NAMED})
_RESULT = frozenset({Fact.OWN_RESULT})

_EVERY = frozenset(ApprovalMode)
_LOOSE = frozenset({ApprovalMode.STANDARD, ApprovalMode.TRUSTED})

_A, _G, _D = Decision.ALLOW, Decision.GATE, Decision.DENY

#: The first row that fits decides; where none fits, the call is denied (R17).
TABLE: Final[tuple[Row, ...]] = (
    # name, operations, effects, zones,                            plan strict standard trusted
    Row("protected", ("*",), _ANY, frozenset({Zone.PROTECTED}), _D, _D, _D, _D),
    Row("read inside", _FILES, _READ, _INSIDE, _A, _A, _A, _A),
    Row("read results", _FILES, _READ, frozenset({Zone.NOWHERE}), _A, _A, _A, _A, facts=_RESULT),
    Row("read secret", _FILES, _READ, _SECRET, _G, _G, _G, _G, grantable=_EVERY),
    Row("read outside", _FILES, _READ, _OUTSIDE, _G, _G, _G, _G, grantable=_EVERY),
    Row("write inside", _FILES, _CHANGE, _INSIDE, _D, _G, _G, _A, grantable=_EVERY, in_step=True),
    Row("write secret", _FILES, _CHANGE, _SECRET, _D, _G, _G, _G),
    Row("delete inside", _FILES, _DELETE, _INSIDE | _SECRET, _D, _G, _G, _G),
    Row("write outside", _FILES, _CHANGE | _DELETE, _OUTSIDE, _D, _G, _G, _G),
    Row("shell by rule", _SHELL, _RUN, _IN_OR_NONE, _D, _G, _A, _A, facts=_BY_RULE),
    Row("shell in sandbox", _SHELL, _RUN, _IN_OR_NONE, _D, _G, _G, _A, facts=_SANDBOX),
    Row("shell named", _SHELL, _RUN, _INSIDE, _D, _G, _A, _A, facts=_NAMED),
    Row("shell", _SHELL, _RUN, _NOT_PROTECTED, _D, _G, _G, _G),
    Row("shell output", _OUTPUT, _READ, frozenset({Zone.NOWHERE}), _A, _A, _A, _A),
    Row("shell end", _END, _STATE, frozenset({Zone.NOWHERE}), _D, _A, _A, _A),
    Row("mcp named read", _MCP, _READ, _IN_OR_NONE, _G, _G, _A, _A, facts=_NAMED),
    Row("mcp named", _MCP, _EFFECTS, _IN_OR_NONE, _D, _G, _A, _A, facts=_NAMED),
    Row("mcp approved read", _MCP, _READ, _IN_OR_NONE, _G, _G, _A, _A, facts=_APPROVED),
    Row("mcp read", _MCP, _READ, _NOT_PROTECTED, _G, _G, _G, _G, grantable=_LOOSE),
    Row("mcp", _MCP, _EFFECTS, _NOT_PROTECTED, _D, _G, _G, _G),
    Row("git read", _GIT_READ, _READ, _IN_OR_NONE, _A, _A, _A, _A),
    Row("git read secret", _GIT_READ, _READ, _SECRET, _G, _G, _G, _G),
    Row("git", _GIT, _EFFECTS, _IN_OR_NONE | _SECRET, _D, _G, _G, _G),
    Row("remember", _REMEMBER, _CHANGE, frozenset({Zone.NOWHERE}), _G, _G, _G, _G),
    Row("recall", _RECALL, _READ, frozenset({Zone.NOWHERE}), _A, _A, _A, _A),
    Row("own state", _OWN, _STATE, frozenset({Zone.NOWHERE}), _A, _A, _A, _A),
)
