"""The decisions of a session for ``/decisions``: each approval, rule, refusal and effect, with who
decided and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from duckflow_tui.state.base import Frozen
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import (
    ACCEPT,
    REJECT,
    RUN_ALL,
    RUN_STEPS,
    CardMessage,
    GateChoice,
    RuleChange,
)
from duckflow_tui.state.operations import ApprovalMode, Outcome, Ruling, describe_target

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.conversation import Message


class AuditKind(StrEnum):
    """How a request for consent ended, and who decided it."""

    APPROVED = "approved"  # the user, by a key
    EDITED = "edited"  # the user approved their own version
    REFUSED = "refused"  # the user, by a key
    ALTERNATIVE = "alternative"  # the user took another way
    ANSWERED = "answered"  # the user, a question that is neither approved nor refused
    UNANSWERED = "unanswered"  # the question was withdrawn
    RULE = "rule"  # unasked, by a rule of the user
    NAMED = "named"  # unasked, named on the command line
    MODE = "mode"  # unasked, by the approval mode
    NOT_RUN = "not_run"  # nobody: it could not run, or what came before kept it from it
    OWN = "own"  # the user ran it
    DENIED = "denied"  # the policy, or nobody was there to ask
    RULE_GIVEN = "rule_given"
    RULE_REVOKED = "rule_revoked"
    MODE_SET = "mode_set"


#: The user was asked, and answered.
ASKED: Final = frozenset(
    {AuditKind.APPROVED, AuditKind.EDITED, AuditKind.REFUSED, AuditKind.ALTERNATIVE}
)
#: It ran without a question.
UNASKED: Final = frozenset({AuditKind.RULE, AuditKind.NAMED, AuditKind.MODE})

_NOT_CARRIED_OUT: Final = (Outcome.INVALID, Outcome.SKIPPED)

_CHOICES: Final = {
    GateChoice.REJECT: AuditKind.REFUSED,
    GateChoice.ALTERNATIVE: AuditKind.ALTERNATIVE,
    GateChoice.EDIT: AuditKind.EDITED,
}
_ACTIONS: Final = {
    ACCEPT.action: AuditKind.APPROVED,
    RUN_ALL.action: AuditKind.APPROVED,
    RUN_STEPS.action: AuditKind.APPROVED,
    REJECT.action: AuditKind.REFUSED,
}


class AuditEntry(Frozen):
    """One decision. ``why`` is the model's reason, ``said`` the user's words."""

    ref: str  # unlike that of any other
    kind: AuditKind
    at: float  # seconds since the epoch; 0: not known
    what: str  # an operation, the kind of a card or a mode
    subject: str = ""  # the file, the command, or what a rule allows
    choice: str = ""  # of the answer: "session", "run_all"
    why: str = ""
    said: str = ""
    step_id: str = ""
    place: str = ""  # the call or message in the chat
    rule: str = ""  # id of the grant that this is about
    ruling: Ruling | None = None  # what the policy said of a call; None where nobody knows
    ruleable: bool = False  # a rule could have answered the question
    no_rule: str = ""  # why no rule of the command line named a command, as a code
    outcome: str = ""  # of a call
    changed: int = 0  # files


@dataclass(eq=False)
class AuditState:
    """Decisions that are in no message of the conversation."""

    rule_log: tuple[RuleChange, ...] = ()  # the oldest first
    mode_log: tuple[tuple[ApprovalMode, float], ...] = ()  # that were set, and when
    gone_decisions: tuple[AuditEntry, ...] = ()  # of messages that a way back left


class AuditCounts(NamedTuple):
    """How often decisions of each kind were made."""

    asked: int = 0
    approved: int = 0
    refused: int = 0  # another way chosen included
    unasked: int = 0
    denied: int = 0
    undone: int = 0


def list_decisions(state: AgentState) -> list[AuditEntry]:
    """Return all decisions of the session, oldest first, including those of messages removed by a
    rewind.
    """
    found = [*state.gone_decisions, *iter_entries(state.messages)]
    places = {
        m.gate.gate_id: m.call_id
        for m in state.messages
        if isinstance(m, OperationMessage) and m.gate is not None
    }
    for number, change in enumerate(state.rule_log):
        found.append(_rule_entry(change, number, places.get(change.grant.gate_id, "")))
    for number, (mode, at) in enumerate(state.mode_log):
        found.append(AuditEntry(ref=f"mode_{number}", kind=AuditKind.MODE_SET, at=at, what=mode))
    return sorted(found, key=lambda entry: entry.at)


def iter_entries(messages: Iterable[Message]) -> Iterator[AuditEntry]:
    """Yield the decisions in these messages."""
    for message in messages:
        if isinstance(message, OperationMessage):
            kind = _kind_of(message)
            if kind is not None:
                yield _call_entry(message, kind)
        elif isinstance(message, CardMessage):
            answer = message.answer
            yield AuditEntry(
                ref=message.message_id,
                kind=_ACTIONS.get(answer.action, AuditKind.ANSWERED),
                at=message.at,
                what=message.card.kind,
                subject=message.plan.name if message.plan is not None else message.card.question,
                choice=answer.action,
                said=answer.full_text,
                step_id=message.card.step_id,
                place=message.message_id,
            )


def make_entry(call: OperationMessage) -> AuditEntry:
    """Return the entry of a call, also of one that needed no decision."""
    not_run = call.result.outcome in _NOT_CARRIED_OUT
    return _call_entry(call, _kind_of(call) or (AuditKind.NOT_RUN if not_run else AuditKind.MODE))


def count_decisions(entries: Iterable[AuditEntry], undone: Iterable[str]) -> dict[str, AuditCounts]:
    """Count how often each operation and kind of question was asked, approved, refused and undone,
    most frequent first. ``undone`` are ids of calls whose changes were undone.
    """
    taken_back = frozenset(undone)
    found: dict[str, list[AuditEntry]] = {}
    for entry in entries:
        if entry.place and entry.kind not in (AuditKind.RULE_GIVEN, AuditKind.RULE_REVOKED):
            found.setdefault(entry.what, []).append(entry)
    rows = sorted(found.items(), key=lambda row: -len(row[1]))
    return {what: _count_entries(listed, taken_back) for what, listed in rows}


def sum_counts(rows: Iterable[AuditCounts]) -> AuditCounts:
    """Add up the counts."""
    return AuditCounts(*map(sum, zip(AuditCounts(), *rows, strict=True)))


def _count_entries(entries: list[AuditEntry], undone: frozenset[str]) -> AuditCounts:
    """Return the counts over these entries of one operation."""
    kinds = [entry.kind for entry in entries]
    return AuditCounts(
        asked=sum(kind in ASKED for kind in kinds),
        approved=sum(kind in (AuditKind.APPROVED, AuditKind.EDITED) for kind in kinds),
        refused=sum(kind in (AuditKind.REFUSED, AuditKind.ALTERNATIVE) for kind in kinds),
        unasked=sum(kind in UNASKED for kind in kinds),
        denied=kinds.count(AuditKind.DENIED),
        undone=sum(entry.place in undone for entry in entries),
    )


def _kind_of(call: OperationMessage) -> AuditKind | None:
    """Return how the call was decided; None where no decision was needed."""
    if call.by_user:
        return AuditKind.OWN
    if call.answer is not None:
        return _CHOICES.get(call.answer.choice, AuditKind.APPROVED)
    if call.result.outcome is Outcome.DENIED:
        return AuditKind.DENIED
    if call.gate is not None:
        return AuditKind.UNANSWERED
    if call.result.outcome in _NOT_CARRIED_OUT:
        return None
    if call.allowed == "granted" or (call.ruling is not None and call.ruling.rules):
        return AuditKind.RULE
    if call.allowed and call.ruling is not None and "named" in call.ruling.row.split():
        return AuditKind.NAMED
    return AuditKind.MODE if call.allowed else None


def _call_entry(call: OperationMessage, kind: AuditKind) -> AuditEntry:
    """Return the entry of a call that was decided in this way."""
    previews = call.gate.previews if call.gate is not None else call.previews
    previews = () if call.result.touched else previews  # a command is its own subject
    paths = dict.fromkeys(preview.target or preview.path for preview in previews)
    answer = call.answer
    return AuditEntry(
        ref=call.call_id,
        kind=kind,
        at=call.at,
        what=call.operation,
        subject=", ".join(paths) or describe_target(call.args),
        choice=answer.choice if answer is not None else "",
        why=call.reasoning.strip(),
        said=answer.full_text if answer is not None else "",
        step_id=call.step_id,
        place=call.call_id,
        ruling=call.ruling,
        ruleable=call.gate is not None and call.gate.can_grant_session,
        no_rule=call.gate.facts.get("rule", "") if call.gate is not None else "",
        outcome=call.result.outcome,
        changed=len(call.result.changes),
    )


def _rule_entry(change: RuleChange, number: int, place: str) -> AuditEntry:
    """Return the entry of a rule that was added or revoked; ``number`` is its place in the log,
    ``place`` the call whose gate gave it.
    """
    grant = change.grant
    return AuditEntry(
        ref=f"rule_{number}",
        kind=AuditKind.RULE_REVOKED if change.revoked else AuditKind.RULE_GIVEN,
        at=change.at,
        what=grant.operation,
        subject=grant.path,
        choice="step" if grant.step_id else grant.source,
        step_id=grant.step_id,
        place=place,
        rule=grant.grant_id,
    )
