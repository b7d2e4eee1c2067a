"""The one function that judges every operation (R17); the table stands in ``policy_table``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from duckflow_tui.safety.names import fold
from duckflow_tui.safety.place import Place
from duckflow_tui.safety.policy_table import TABLE, Decision, Fact, Row
from duckflow_tui.safety.risk import Assessment, assess, is_binary_program
from duckflow_tui.safety.zones import strictest
from duckflow_tui.state.gates import Gate, Grant
from duckflow_tui.state.operations import ApprovalMode, Effect, Risk, Zone

__all__ = ["MAX_WRITE", "Access", "Decision", "DenyRule", "Fact", "Verdict", "grant_for", "judge"]

MAX_WRITE: Final = 1_000_000  # bytes; S4-87, the default of a setting

#: Reasons for which a change asks in every mode and each time anew (S4-63).
ALWAYS_ASK: Final = frozenset(
    {"secret", "secret_content", "system_file", "wide_impact", "bulk_data", "hidden_characters"}
)

_WRITES: Final = frozenset({Effect.WRITE, Effect.MOVE})
_CHANGES: Final = _WRITES | {Effect.DELETE}


@dataclass(frozen=True)
class Access:
    """A call with everything it would touch. ``effect`` None: no such operation.

    ``places`` of a move are source, then target. ``removed_lines`` counts what would go away.
    """

    operation: str
    effect: Effect | None
    places: tuple[Place, ...] = ()
    content: bytes | None = None  # what a file would hold afterwards
    args_hash: str = ""
    facts: frozenset[Fact] = frozenset()
    removed_lines: int = 0


@dataclass(frozen=True)
class DenyRule:
    """What the user never wants: globs over the operation and over the path, in any case.

    A path glob fits the path as shown, what a link leads to, each directory above it, and each
    name by itself, so that ``*.lock`` and ``vendor`` mean what they say.
    """

    operation: str = "*"
    path: str = "*"

    def fits(self, access: Access) -> bool:
        """Whether the rule speaks about this call; one of its places is enough (R06)."""
        if not fnmatchcase(access.operation, self.operation):
            return False
        if self.path == "*":
            return True
        return any(
            self._covers(path) for place in access.places for path in (place.shown, place.resolved)
        )

    def _covers(self, path: str) -> bool:
        names = [fold(name) for name in path.split("/")]
        wanted = "/".join(fold(name) for name in self.path.rstrip("/").split("/"))
        above = ("/".join(names[:end]) for end in range(1, len(names) + 1))
        return any(fnmatchcase(part, wanted) for part in (*above, *names))


@dataclass(frozen=True)
class Verdict:
    """The judgement, with its reasons as codes and as a sentence for the model."""

    kind: Decision
    zone: Zone
    risk: Risk
    reasons: tuple[str, ...] = ()
    reason_text: str = ""
    can_grant_session: bool = False
    grant_pattern: str = ""  # of the gate: operation, space, path


def judge(
    access: Access,
    mode: ApprovalMode,
    grants: Iterable[Grant] = (),
    *,
    deny: Iterable[DenyRule] = (),
    max_write: int = MAX_WRITE,
) -> Verdict:
    """Allow, ask or refuse. Pure; the same for every tool, mode and front end.

    A grant turns a question into permission, never a refusal. ``max_write`` is in bytes.
    """
    zone = strictest(place.zone for place in access.places)
    if access.effect is None:
        return _denied(zone, Risk.CRITICAL, "unknown_operation", access)
    content = access.content
    if content is not None and len(content) > max_write:
        content = None  # refused below; not worth being searched
    found = assess(access.effect, zone, access.places, content, access.removed_lines)
    row = next(
        (r for r in TABLE if r.fits(access.operation, access.effect, zone, access.facts)), None
    )
    if row is None:
        return _denied(zone, Risk.CRITICAL, "unknown_operation", access)
    refusal = _refusal(access, access.effect, zone, deny, max_write)
    if refusal:
        return _denied(zone, found.risk, refusal, access, found.reasons, max_write)
    kind = row.cell(mode)
    if kind is Decision.DENY:
        return _denied(zone, found.risk, f"{mode}_mode", access, found.reasons)
    must_ask = access.effect in _CHANGES and bool(ALWAYS_ASK.intersection(found.reasons))
    if kind is Decision.ALLOW and must_ask:
        kind = Decision.GATE
    if kind is Decision.ALLOW:
        return Verdict(kind, zone, found.risk, tuple(found.reasons))
    return _asked(access, row, zone, found, must_ask, grants)


def grant_for(gate: Gate, grant_id: str) -> Grant:
    """The grant that ``s`` in this gate gives; raises ValueError when it can give none."""
    operation, _, path = gate.grant_pattern.partition(" ")
    if not gate.can_grant_session or operation != gate.operation or not path:
        raise ValueError(f"gate {gate.gate_id} cannot be granted for the session")
    return Grant(grant_id=grant_id, operation=operation, path=path, gate_id=gate.gate_id)


def _asked(
    access: Access,
    row: Row,
    zone: Zone,
    found: Assessment,
    must_ask: bool,
    grants: Iterable[Grant],
) -> Verdict:
    reasons = tuple(found.reasons)
    can_grant = row.grantable and not must_ask and len(access.places) == 1
    if not can_grant:
        return Verdict(Decision.GATE, zone, found.risk, reasons)
    path = access.places[0].resolved
    if any(g.operation == access.operation and g.path == path for g in grants):
        return Verdict(Decision.ALLOW, zone, found.risk, (*reasons, "granted"))
    return Verdict(
        Decision.GATE,
        zone,
        found.risk,
        reasons,
        can_grant_session=True,
        grant_pattern=f"{access.operation} {path}",
    )


def _refusal(
    access: Access, effect: Effect, zone: Zone, deny: Iterable[DenyRule], max_write: int
) -> str:
    """The code of what is refused whatever the mode, empty for nothing."""
    if zone is Zone.PROTECTED:
        return "protected"
    if any(rule.fits(access) for rule in deny):
        return "denied_by_rule"
    if effect in _CHANGES and any(place.leads_out for place in access.places):
        return "link_out"
    if effect not in _WRITES:
        return ""
    if is_binary_program(access.places[-1:], access.content):
        return "binary_executable"
    if access.content is not None and len(access.content) > max_write:
        return "too_large"
    return ""


_SENTENCES: Final = {
    "unknown_operation": "There is no operation {operation} that may do this.",
    "protected": "{paths} is protected: neither read nor written, not even with approval.",
    "link_out": "{paths} leads out of the workspace through a link; name the file itself.",
    "denied_by_rule": "The user's rules forbid {operation} on {paths}.",
    "binary_executable": "{paths} would be a program for a machine; such files are not written.",
    "too_large": "{paths} would have {size} bytes; a written file has at most {limit}.",
    "plan_mode": "Plan mode changes nothing: describe the change instead, and the user will "
    "switch modes to carry it out.",
}


def _denied(
    zone: Zone,
    risk: Risk,
    code: str,
    access: Access,
    reasons: Iterable[str] = (),
    max_write: int = MAX_WRITE,
) -> Verdict:
    sentence = _SENTENCES[code].format(
        operation=access.operation,
        paths=" and ".join(place.shown for place in access.places) or "This",
        size=len(access.content or b""),
        limit=max_write,
    )
    rest = tuple(reason for reason in reasons if reason != code)
    return Verdict(Decision.DENY, zone, risk, (code, *rest), sentence)
