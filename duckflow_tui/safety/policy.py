"""The policy: ``judge_access`` allows, asks about or denies every operation (R17), by the rows of
``TABLE``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from typing import Final

from duckflow_tui.safety.command_parsing import read_command
from duckflow_tui.safety.hosts import ON_NETWORK, is_covered
from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.risk import assess_call, is_binary_program, strictest_zone
from duckflow_tui.safety.rules import can_hide_denied, find_denying_rule
from duckflow_tui.state.base import ModelText, StateError, clip_value
from duckflow_tui.state.gates import DENY, EDITS, IN_SANDBOX, ROUTINE, Gate, GateChoice, Grant
from duckflow_tui.state.operations import (
    FILE_CHANGES,
    SIDE_EFFECTS,
    ApprovalMode,
    Effect,
    Risk,
    Ruling,
    Zone,
)

MAX_WRITE: Final = 1_000_000  # bytes; S4-87, the default of a setting

#: Reasons for which a change needs approval in every mode, each time anew (S4-63).
ALWAYS_ASK: Final = frozenset(
    {"secret", "secret_content", "dot_name", "program", "build_file", "wide_impact", "bulk_data"}
    | {"hidden_characters", "lookalike_letters", "hard_link"}
)

#: The reasons among them for which the user may allow one file by its name.
_OBEYED: Final = frozenset({"dot_name", "program", "build_file"})

#: Reasons for which a command needs approval each time anew, also in a sandbox: it can read a
#: secret file that its line names, and a line that cannot be parsed may name one (R06).
_ASKS_EACH_TIME: Final = frozenset(
    {"secret", "hidden_characters", "not_readable", "deny_unsure"}  # R06a
)

#: Beginnings of the subjects of grants that are not kept for later sessions.
_NEVER_KEPT: Final = (IN_SANDBOX, EDITS, ROUTINE)
_KINDS: Final = frozenset({EDITS, ROUTINE})  # operations of grants that are no operation of a tool

_ZONE: Final = attrgetter("zone")
_LEADS_OUT: Final = attrgetter("leads_out")
_WRITES: Final = frozenset({Effect.WRITE, Effect.MOVE})


@dataclass(frozen=True)
class Access:
    """An operation call with everything it would touch. ``effect`` None: no such operation.
    ``places`` of a move are source, then target. ``removed_lines`` counts the lines that the
    call removes, or all calls of its decision where that is more (S4-110).
    """

    operation: str
    effect: Effect | None
    places: tuple[Place, ...] = ()
    content: bytes | None = None  # of the file afterwards
    facts: frozenset[CallFact] = frozenset()
    removed_lines: int = 0
    command: str | None = None  # the line that a shell would run in the only place
    root: Path | None = None  # the workspace, for a command
    version: str = ""  # of a server's tool: hash of its description
    hosts: tuple[str, ...] = ()  # that the command asks to reach, and a sandbox would block
    before: bytes | None = None  # of the file now


@dataclass(frozen=True)
class PolicyRules:
    """The user's settings that apply to every call."""

    max_write: int = MAX_WRITE  # bytes
    keeps: bool = False  # whether rules can be kept for the project


_NOT_DENIED: Final = ModelText("text", {"text": ""})


@dataclass(frozen=True)
class Verdict:
    """The decision on a call, with its reasons as codes; ``told`` is the text of a denial for the
    model.
    """

    kind: Decision
    zone: Zone
    risk: Risk
    reasons: tuple[str, ...] = ()
    told: ModelText = _NOT_DENIED
    can_grant_session: bool = False
    can_grant_step: bool = False
    can_grant_project: bool = False
    can_grant_routine: bool = False
    #: Of the gate: operation, space, subject; ``*#`` and a hash for a server's tool.
    grant_pattern: str = ""
    grant_only: str = ""  # of the gate: this file alone, or this program in the sandbox
    ruling: Ruling | None = None  # row, mode and rules that decided, for the record

    def join_verdict(self, other: Verdict) -> Verdict:
        """Return one verdict for both, as a gate that can be approved once only, without grants."""
        return Verdict(
            Decision.GATE,
            strictest_zone((self.zone, other.zone)),
            max(self.risk, other.risk, key=attrgetter("rank")),
            tuple(dict.fromkeys((*self.reasons, *other.reasons))),
            ruling=self.ruling,
        )


def judge_access(
    access: Access,
    mode: ApprovalMode,
    grants: Iterable[Grant] = (),
    *,
    max_write: int = MAX_WRITE,
    step_id: str = "",
    keeps: bool = False,
) -> Verdict:
    """Decide whether a call is allowed, asked about or denied. Pure; the same for every tool, mode
    and front end.

    A grant turns a question into permission, never a denial. A grant for a step applies only to
    calls with its ``step_id``. Grants with operation ``DENY`` deny. ``max_write`` is in bytes;
    ``keeps`` tells whether rules can be kept for the project.
    """
    grants = tuple(grants)
    denials = {grant.path: grant.grant_id for grant in grants if grant.operation == DENY}
    rules = _for_hosts(access, grants, step_id) if access.hosts else ()
    if rules is None:
        access = replace(access, facts=access.facts | {CallFact.REACHES})
    zone = strictest_zone(map(_ZONE, access.places))
    row = _find_row(access.operation, access.effect, zone, access.facts)
    if access.effect is None or row is None:
        ruling = Ruling(said="deny", mode=mode)
        return _deny_access(zone, Risk.CRITICAL, "unknown_operation", access, ruling)  # R17a
    content = access.content
    if content is not None and len(content) > max_write:
        content = None  # denied below; need not be searched
    line = None if access.command is None else read_command(access.command)
    found = assess_call(
        access.effect,
        zone,
        access.places,
        content,
        access.before,
        access.removed_lines,
        wide=CallFact.WIDE in access.facts,
        line=line,
    )
    ruling = Ruling(said="deny", mode=mode, row=row.name)
    rule = find_denying_rule(denials, access.operation, access.command)
    if rule:
        ruling = ruling.replace(rules=(denials[rule],))
    kind = row.decisions[_MODES.index(mode)]
    denial = _find_denial(access, access.effect, zone, max_write, rule)
    if not denial and kind is Decision.DENY:
        denial = f"{mode}_mode"
    if denial:
        reasons = found.reasons
        return _deny_access(zone, found.risk, denial, access, ruling, reasons, max_write, rule)
    always = ALWAYS_ASK.intersection(found.reasons) if access.effect in FILE_CHANGES else ()
    if line is not None:
        if access.facts >= _HARMLESS and not found.reasons:
            found.risk = Risk.LOW
        for fact in _RISKS & access.facts:
            found.add_reason(fact.value, Risk.MEDIUM)
        if can_hide_denied(denials, line):
            found.add_reason("deny_unsure", Risk.MEDIUM)  # R06f
        always = () if CallFact.NAMED in access.facts else _ASKS_EACH_TIME & {*found.reasons}
    asks = sorted(always)
    if CallFact.FOR_USER in access.facts and access.effect is not Effect.STATE:
        asks.append("for_user")
        found.reasons.append("for_user")
    if CallFact.FROM_TEXT in access.facts:
        found.reasons.append("from_text")
        if access.effect in SIDE_EFFECTS:
            asks.append("from_text")
    if kind is Decision.ALLOW and asks:
        kind = Decision.GATE
    if kind is Decision.ALLOW:
        ruling = ruling.replace(said="allow", code="granted" if rules else "", rules=rules or ())
        return Verdict(kind, zone, found.risk, tuple(found.reasons), ruling=ruling)
    ruling = ruling.replace(said="gate", code=next(iter(asks), ""))
    verdict = Verdict(Decision.GATE, zone, found.risk, tuple(found.reasons), ruling=ruling)
    if not _OBEYED.issuperset(asks):
        return verdict
    verdict = _apply_grants(access, row, mode, verdict, grants, step_id, by_name=bool(asks))
    if asks:
        return verdict
    if rules and verdict.ruling is not None and verdict.kind is Decision.ALLOW:
        ruling = verdict.ruling
        verdict = replace(verdict, ruling=ruling.replace(rules=(*ruling.rules, *rules)))
    narrow = verdict.grant_only or not verdict.grant_pattern.startswith(EDITS)
    kept = bool(keeps and row.in_step and verdict.can_grant_session and narrow)
    kept = kept and (rules is None or CallFact.HELD not in access.facts)
    return replace(verdict, can_grant_project=True) if kept else verdict


def grant_for(
    gate: Gate, grant_id: str, choice: GateChoice = GateChoice.SESSION, at: float = 0.0
) -> Grant:
    """Return the grant that an answer to this gate gives (key ``s``, ``t``, ``x``, ``p`` or ``a``);
    ``at`` is its time. Raises StateError when the gate does not offer that grant.
    """
    step_id = gate.step_id if choice is GateChoice.STEP else ""
    operation, _, path = gate.pattern_of(choice).partition(" ")
    can = gate.can_grant(choice) and bool(path) and (choice is not GateChoice.STEP or bool(step_id))
    if not can or operation not in (gate.operation, EDITS, ROUTINE):
        raise StateError(f"gate {gate.gate_id} cannot be granted for longer than once")
    return Grant(
        grant_id=grant_id,
        operation=operation,
        path=path,
        gate_id=gate.gate_id,
        step_id=step_id,
        source="project" if choice is GateChoice.PROJECT else "key",
        at=at,
        obeyed=not _OBEYED.isdisjoint(gate.impact.reasons),
    )


def _apply_grants(
    access: Access,
    row: Row,
    mode: ApprovalMode,
    verdict: Verdict,
    grants: Iterable[Grant],
    step_id: str,
    *,
    by_name: bool,
) -> Verdict:
    """Return an ALLOW verdict where grants cover the call, else the gate with the grants that it
    can offer. ``by_name``: other programs act on the file, and only a grant for that counts.
    """
    if mode not in row.grantable:
        return verdict
    subject = _grant_subject(access)
    only = _programs_in_sandbox(access) if subject == IN_SANDBOX else ()
    trusted = row.decisions[_MODES.index(ApprovalMode.TRUSTED)] is Decision.ALLOW
    routine = (ROUTINE,) if trusted and mode is ApprovalMode.STANDARD and not by_name else ()
    edits = (EDITS,) if routine and access.effect in _WRITES else ()
    given = {
        grant.path: grant.grant_id
        for grant in reversed(tuple(grants))
        if grant.operation == (grant.path if grant.path in _KINDS else access.operation)
        and grant.step_id in ("", step_id)
        and (grant.source != "project" or (row.in_step and not grant.path.startswith(_NEVER_KEPT)))
        and (not by_name or (grant.obeyed and grant.source == "key"))
    }  # a file of rules cannot widen this
    for wanted in ((subject,) if subject else (), only, edits, routine):
        if wanted and given.keys() >= set(wanted):
            rules = tuple(dict.fromkeys(given[subject] for subject in wanted))
            ruling = Ruling(said="allow", mode=mode, row=row.name, code="granted", rules=rules)
            reasons = (*verdict.reasons, "granted")
            return replace(verdict, kind=Decision.ALLOW, reasons=reasons, ruling=ruling)
    verdict = replace(verdict, can_grant_routine=bool(routine))
    if not (subject or edits):
        return verdict
    if edits:
        only = (subject,) if subject else ()
    pattern = f"{EDITS} {EDITS}" if edits else f"{access.operation} {subject}"
    return replace(
        verdict,
        can_grant_session=True,
        can_grant_step=row.in_step and bool(step_id),
        grant_pattern=pattern,
        grant_only=f"{access.operation} {only[0]}" if len(only) == 1 else "",
    )


def _grant_subject(access: Access) -> str:
    """Return the subject that a grant for this call would name: a file, a tool of a server, hosts,
    this exact command line, or everything in the sandbox. Empty where only this one call can be
    approved.
    """
    if access.command is not None:
        if CallFact.REACHES in access.facts:
            hosts = ON_NETWORK + " ".join(sorted(access.hosts))
            return hosts if CallFact.HELD in access.facts else ""
        return IN_SANDBOX if CallFact.HELD in access.facts else _exact_line(access)  # R05c
    if len(access.places) == 1:
        return access.places[0].resolved
    if access.places or not access.operation.startswith("mcp."):
        return ""
    return name_any_call(access.version)


def _programs_in_sandbox(access: Access) -> tuple[str, ...]:
    """Return the subjects of grants for programs with any arguments, one for each program of a line
    that runs in the sandbox; none where the line is not plain (R05).
    """
    parts = read_command(access.command or "").parts
    # ``python -m pytest`` runs pytest: allowing it must not allow all of Python.
    heads = (part.argv[: 3 if part.argv[1:2] == ("-m",) else 1] for part in parts)
    programs = (f"{IN_SANDBOX} {shlex.join(head)} …" for head in heads)
    return tuple(dict.fromkeys(programs))


def _exact_line(access: Access) -> str:
    """Return the line as the subject of a grant: with ``&`` where it runs in the background, and
    with its folder where that is not the root. Empty where the line is not plain (R04).
    """
    parts = read_command(access.command or "").parts
    if not parts:
        return ""
    text = " ".join(filter(None, (word for part in parts for word in (part.joiner, part.text))))
    if CallFact.BACKGROUND in access.facts:
        text += " &"
    folder = access.places[0] if access.places else None
    if folder is None or folder.real == access.root:
        return text
    return f"{text} (in {folder.resolved})"


def _for_hosts(access: Access, grants: Iterable[Grant], step_id: str) -> tuple[str, ...] | None:
    """Return the ids of the grants that let the command reach its hosts; None where they do not
    cover all hosts, or no sandbox holds the command.
    """
    given = {
        grant.grant_id: grant.path.removeprefix(ON_NETWORK).split()
        for grant in grants
        if grant.operation == access.operation
        and grant.path.startswith(ON_NETWORK)
        and grant.step_id in ("", step_id)
    }
    every = [host for hosts in given.values() for host in hosts]
    if CallFact.HELD not in access.facts or not is_covered(access.hosts, every):
        return None
    return tuple(rule for rule, hosts in given.items() if not set(hosts).isdisjoint(access.hosts))


def name_any_call(version: str) -> str:
    """Return the subject of a grant for all calls of a server's tool. ``version`` is a hash of the
    tool's description: when the server changes that, the grant no longer applies.
    """
    return f"*#{version}"


def _find_denial(access: Access, effect: Effect, zone: Zone, max_write: int, rule: str) -> str:
    """Return the code of a denial that holds in every mode, empty for none. ``rule`` is the user's
    rule that forbids the call, if any.
    """
    if zone is Zone.PROTECTED:
        return "protected"
    if rule:
        return "denied_by_rule"
    if effect in FILE_CHANGES and True in map(_LEADS_OUT, access.places):
        return "link_out"
    if effect not in _WRITES:
        return ""
    if is_binary_program(access.places[-1] if access.places else None, access.content):
        return "binary_executable"
    if access.content is not None and len(access.content) > max_write:
        return "too_large"
    return ""


def _deny_access(
    zone: Zone,
    risk: Risk,
    code: str,
    access: Access,
    ruling: Ruling,
    reasons: Iterable[str] = (),
    max_write: int = MAX_WRITE,
    rule: str = "",
) -> Verdict:
    """Return a DENY verdict with the text for the model; ``code`` comes first among its reasons."""
    told = ModelText(
        f"policy.{code}",
        {
            "operation": clip_value(access.operation) or "-",
            "paths": ", ".join(place.label for place in access.places) or "-",
            "size": str(len(access.content or b"")),
            "limit": str(max_write),
            "rule": rule or "-",
        },
    )
    rest = tuple(reason for reason in reasons if reason != code)
    ruling = ruling.replace(code=code)
    return Verdict(Decision.DENY, zone, risk, (code, *rest), told, ruling=ruling)


class Decision(StrEnum):
    """The decision on a call."""

    ALLOW = "allow"
    GATE = "gate"
    DENY = "deny"


class CallFact(StrEnum):
    """Further facts about a call, determined by the app. The model sets only ``FOR_USER``, which
    restricts.
    """

    APPROVED = "approved"  # the user approved this server and this tool before
    OWN_RESULT = "own_result"  # it reads the result of an earlier call, and no place
    WIDE = "wide"  # its decision changes many files
    FOR_USER = "for_user"  # the model says that this is for the user to decide
    FROM_TEXT = "from_text"  # the model wrote it as text, where it may be a quotation
    CHANGED = "changed"  # its server describes the tool otherwise than when first offered
    NAMED = "named"  # by --allow on this command line, or by the demo's own rule
    HELD = "held"  # a sandbox confines the command, without network
    UNHELD = "outside_sandbox"  # the command would run outside an available sandbox
    REACHES = "reaches"  # it asks for hosts that no rule of the user names
    BACKGROUND = "background"  # the command goes on when its call has ended
    UNDOABLE = "undoable"  # undo covers the files that the command changes


#: Facts that make a command at least a medium risk.
_RISKS: Final = frozenset({CallFact.UNHELD, CallFact.REACHES})

#: A command of which both are true, and that can be read, is of low risk.
_HARMLESS: Final = frozenset({CallFact.HELD, CallFact.UNDOABLE})


#: Facts that rest on a consent or the sandbox, and end with it.
BY_CONSENT: Final = frozenset({CallFact.APPROVED, CallFact.NAMED, CallFact.HELD})

_MODES: Final = tuple(ApprovalMode)  # plan, strict, standard, trusted


@dataclass(frozen=True)
class Row:
    """One row of the table. ``grantable``: modes in which the key ``s`` may allow such a call for
    the session. ``in_step``: such a grant may also be given for the running step (``t``) and for
    later sessions (``p``); never for calls outside, for secrets, or for everything in a sandbox.
    A call that trusted mode allows can be granted by ``a`` in standard mode.
    """

    name: str
    operations: tuple[str, ...]
    effects: frozenset[Effect]
    zones: frozenset[Zone]
    decisions: tuple[Decision, Decision, Decision, Decision]  # by mode, as in ``_MODES``
    facts: frozenset[CallFact] = frozenset()
    grantable: frozenset[ApprovalMode] = frozenset()
    in_step: bool = False


def _find_row(
    operation: str, effect: Effect | None, zone: Zone, facts: frozenset[CallFact]
) -> Row | None:
    """Return the first row of the table that matches the call, or None."""
    for row in TABLE:
        if effect in row.effects and zone in row.zones and row.facts <= facts:
            for pattern in row.operations:
                if fnmatchcase(operation, pattern):
                    return row
    return None


_FILES = ("file_ops.*",)
_SHELL = ("shell.*",)
_MCP = ("mcp.*",)
_OWN = ("plan_tool.*", "task_tool.*", "task_loop.*")
_READ = frozenset({Effect.READ})
_DELETE = frozenset({Effect.DELETE})
_RUN = frozenset({Effect.EXECUTE})
_STATE = frozenset({Effect.STATE})
_ANY = frozenset(Effect)
_EFFECTS = _ANY - {Effect.STATE}
_INSIDE = frozenset({Zone.INSIDE})
_NOWHERE = frozenset({Zone.NOWHERE})
_SECRET = frozenset({Zone.SECRET})
_OUTSIDE = frozenset({Zone.OUTSIDE})
_IN_OR_NONE = frozenset({Zone.INSIDE, Zone.NOWHERE})
_NOT_PROTECTED = frozenset(Zone) - {Zone.PROTECTED}
_APPROVED = frozenset({CallFact.APPROVED})
_NAMED = frozenset({CallFact.NAMED})
_RESULT = frozenset({CallFact.OWN_RESULT})
_EVERY = frozenset(ApprovalMode)
_LOOSE = frozenset({ApprovalMode.STANDARD, ApprovalMode.TRUSTED})
_HELD = frozenset({CallFact.HELD})
_UNHELD = frozenset({CallFact.UNHELD})
_REACHES = frozenset({CallFact.REACHES})
_A, _G, _D = Decision.ALLOW, Decision.GATE, Decision.DENY

#: The first row that fits decides; where none fits, the call is denied (R17).
TABLE: Final[tuple[Row, ...]] = (
    # name, operations, effects, zones,                            plan strict standard trusted
    Row("protected", ("*",), _ANY, frozenset({Zone.PROTECTED}), (_D, _D, _D, _D)),
    Row("read inside", _FILES, _READ, _INSIDE, (_A, _A, _A, _A)),
    Row("read results", _FILES, _READ, _NOWHERE, (_A, _A, _A, _A), facts=_RESULT),
    Row("read secret", _FILES, _READ, _SECRET, (_G, _G, _G, _G), grantable=_EVERY),
    Row("read outside", _FILES, _READ, _OUTSIDE, (_G, _G, _G, _G), grantable=_EVERY),
    Row("write inside", _FILES, _WRITES, _INSIDE, (_D, _G, _G, _A), grantable=_EVERY, in_step=True),
    Row("write secret", _FILES, _WRITES, _SECRET, (_D, _G, _G, _G)),
    Row("delete inside", _FILES, _DELETE, _INSIDE | _SECRET, (_D, _G, _G, _G)),
    Row("write outside", _FILES, _WRITES | _DELETE, _OUTSIDE, (_D, _G, _G, _G)),
    Row("shell outside the sandbox", _SHELL, _RUN, _NOT_PROTECTED, (_D, _G, _G, _G), facts=_UNHELD),
    Row("shell network", _SHELL, _RUN, _INSIDE, (_D, _G, _G, _G), _REACHES, _LOOSE, in_step=True),
    Row("shell named", _SHELL, _RUN, _INSIDE, (_D, _G, _A, _A), facts=_NAMED),
    Row("shell held", _SHELL, _RUN, _INSIDE, (_D, _G, _G, _A), _HELD, _LOOSE, in_step=True),
    Row("shell inside", _SHELL, _RUN, _INSIDE, (_D, _G, _G, _G), grantable=_LOOSE, in_step=True),
    Row("shell", _SHELL, _RUN, _NOT_PROTECTED, (_D, _G, _G, _G)),
    Row("shell output", ("shell.output",), _READ, _NOWHERE, (_A, _A, _A, _A)),
    Row("shell end", ("shell.end",), _STATE, _NOWHERE, (_D, _A, _A, _A)),
    Row("describe tool", ("mcp_tools.describe",), _READ, _NOWHERE, (_A, _A, _A, _A)),
    Row("mcp resource", ("mcp_resources.read",), _READ, _NOWHERE, (_G, _G, _G, _G)),
    Row("mcp named read", _MCP, _READ, _IN_OR_NONE, (_G, _G, _A, _A), facts=_NAMED),
    Row("mcp named", _MCP, _EFFECTS, _IN_OR_NONE, (_D, _G, _A, _A), facts=_NAMED),
    Row("mcp approved read", _MCP, _READ, _IN_OR_NONE, (_G, _G, _A, _A), facts=_APPROVED),
    Row("mcp read", _MCP, _READ, _NOT_PROTECTED, (_G, _G, _G, _G), grantable=_LOOSE),
    Row("mcp", _MCP, _EFFECTS, _NOT_PROTECTED, (_D, _G, _G, _G)),
    Row("remember", ("memory.remember",), _WRITES, _NOWHERE, (_G, _G, _G, _G)),
    Row("recall", ("memory.recall",), _READ, _NOWHERE, (_A, _A, _A, _A)),
    Row("own state", _OWN, _STATE, _NOWHERE, (_A, _A, _A, _A)),
)
