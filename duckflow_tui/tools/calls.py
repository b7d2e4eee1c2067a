"""One call on its way through the router: its data, the gate that asks about it, the record of its
outcome.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, cast

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.pending_questions import Desk, Unanswered
from duckflow_tui.safety.policy import Access, CallFact, Decision, Verdict
from duckflow_tui.safety.risk import WIDE_FILES
from duckflow_tui.state.base import (
    IdSource,
    JsonObject,
    ModelText,
    ToldError,
    canonical_json,
    clip_value,
    hash_data,
    one_line,
)
from duckflow_tui.state.calls import FileChangedOutside
from duckflow_tui.state.decision import MAX_ALTERNATIVES, Action
from duckflow_tui.state.gates import (
    AlsoAsked,
    FilePreview,
    Gate,
    GateAnswer,
    GateChoice,
    Impact,
    Remark,
    before_hashes,
)
from duckflow_tui.state.operations import Effect, FileChange, Outcome, Ruling, Zone
from duckflow_tui.state.session import HOLDS, SandboxLevel
from duckflow_tui.state.store import Record, Store
from duckflow_tui.tools.changes import PlannedChange, left_out
from duckflow_tui.tools.operation import (
    AnyOperation,
    Arguments,
    Edits,
    Output,
    Proposal,
    ToolFault,
    Work,
)
from duckflow_tui.tools.results import find_hashes_after, list_changes, make_stop_fault

#: Characters of a remarked line that the model gets; it wrote the line or can read it.
_REMARKED_LINE: Final = 200


class EditedByUser(Exception):
    """The user wrote another content in the gate; it must be shown in a new gate before it is
    applied. ``proposed`` is the model's content.
    """

    def __init__(self, text: str, proposed: tuple[PlannedChange, ...]) -> None:
        """``text`` is the user's content; ``proposed`` are the model's changes, of which the first
        counts.
        """
        self.text = text
        self.proposed = proposed[0].diff.after or b""


class JudgedAnew(Exception):
    """A call may no longer run without a question, because the user changed the mode meanwhile."""


GRANTED: Final = "granted"  # the policy's reason where a grant allows a call
SANDBOX: Final = "sandbox"  # the reason where a command may run because a sandbox confines it

#: Error texts of programs that a sandbox restricts, by the kind of restriction.
_SAYS: Final = {
    "write": "Read-only file system|EROFS|読み込み専用ファイルシステム"
    "|Device or resource busy|EBUSY|デバイスもしくはリソースがビジー状態です",
    "network": "Network is (?:unreachable|down)|ENETUNREACH|ENETDOWN|EAI_AGAIN|ENOTFOUND"
    "|[Cc]ould not resolve|Temporary failure in name resolution|Name or service not known"
    "|nodename nor servname|Failed to resolve|dial tcp: lookup|ネットワークに届きません",
    "limit": "^SIGXFSZ|^exit 153|File size limit exceeded|File too large|EFBIG"
    "|ファイルが大きすぎます|can't start new thread"
    "|fork: (?:retry: )?Resource temporarily unavailable"
    "|fork: (?:retry: )?リソースが一時的に利用できません",
}
_REFUSED: Final = (
    "Operation not permitted|Permission denied|許可されていない操作です|許可がありません"
)
_TAIL: Final = 4_000  # last characters of output that are searched for the cause


def held_back_by(level: SandboxLevel, output: Output, unread: tuple[str, ...] = ()) -> str:
    """Return the probable cause why a command failed in a sandbox of this level: ``write``,
    ``network``, ``limit`` or ``secret``; empty where its output does not suggest one.
    ``unread``: paths of files that it could not read; ``secret`` needs the name of one in the
    output.
    """
    if not output.exit_code or level in ("none", "external"):
        return ""
    text = output.text[-_TAIL:]
    for what, said in _SAYS.items():
        if re.search(said, text) and not (what == "limit" and level == "seatbelt"):
            return what
    names = "|".join(re.escape(os.path.basename(path)) for path in unread)
    if names and re.search(rf"(?<!\w)(?:{names})(?![\w-]|\.\w)", text):
        return "secret"
    return "write" if level != "full" and re.search(_REFUSED, text) else ""


@dataclass(slots=True)
class Call:
    """A call on its way through the router. Its fields are filled as it proceeds and make up its
    record.
    """

    action: Action
    step_id: str = ""  # of the plan's step that makes it
    by_user: bool = False  # the user ran it with ``!``; the key they pressed is the consent
    for_requirement: str = ""  # the app runs it to check this requirement
    args: JsonObject = field(init=False)  # a copy of those of ``action``
    gate: Gate | None = field(default=None, init=False)  # the gate that asked about it
    answer: GateAnswer | None = field(default=None, init=False)  # the user's answer there
    made: list[FileChange] = field(default_factory=list[FileChange], init=False)
    started: float | None = field(default=None, init=False)  # monotonic
    renewed: bool = field(default=False, init=False)
    edited: str | None = field(default=None, init=False)  # the content the user wrote instead
    proposed: bytes | None = field(default=None, init=False)  # the model's content, then
    work: Work | None = field(default=None, init=False)  # the proposal that runs
    previews: tuple[FilePreview, ...] = field(default=(), init=False)  # of its changes
    allowed: str = field(default="", init=False)  # why it may run: a mode, or "granted"
    held_back: str = field(default="", init=False)  # probable restriction of the sandbox, a code
    unasked: Access | None = field(default=None, init=False)  # as judged, where no gate asked
    ruling: Ruling | None = field(default=None, init=False)  # of the policy, the last one
    meant: tuple[AnyOperation, Arguments] | None = field(default=None, init=False)  # once parsed

    def __post_init__(self) -> None:
        self.args = cast("JsonObject", json.loads(canonical_json(self.action.args)))

    def asked_fields(self) -> dict[str, Any]:
        """Return the fields of ``AskedCall`` for this call."""
        action = self.action
        asked = action.model_dump(include={"call_id", "operation", "reasoning", "intent"})
        return {**asked, "args": self.args, "step_id": self.step_id, "by_user": self.by_user}


async def no_facts(operation: AnyOperation, args: Arguments) -> frozenset[CallFact]:
    """Return no facts about a call; a default."""
    return frozenset()


_REVERSIBLE = frozenset({Effect.READ, Effect.STATE})


@dataclass(frozen=True, slots=True)
class Planned:
    """A call that would change one file, judged but not yet asked about."""

    call: Call
    access: Access
    places: tuple[Place, ...]
    change: PlannedChange | None  # None where it is not known beforehand


@dataclass(frozen=True, slots=True)
class Consent:
    """The user's answer for a call that was asked about together with others, with the gate they
    saw. It does not hold for anything else.
    """

    gate: Gate
    answer: GateAnswer

    def matches_call(self, action: Action, changes: tuple[PlannedChange, ...]) -> bool:
        """Whether the arguments and changes of the call are those that the user saw."""
        seen = self.gate.previews
        same = self.gate.args_hash == action.args_hash
        return same and tuple(map(PlannedChange.make_preview, changes)) == seen


@dataclass(slots=True)
class Together:
    """The calls of one decision that together change many files or lines (S4-110)."""

    actions: tuple[Action, ...]
    files: int
    removed: int  # lines
    allowed: dict[str, Consent] = field(default_factory=dict[str, "Consent"])  # by call id

    def with_all_changes(self, access: Access) -> Access:
        """Return the access with the most lines that the decision or the call removes, and with the
        fact WIDE where the decision changes many files (``WIDE_FILES``).
        """
        facts = access.facts | {CallFact.WIDE} if self.files >= WIDE_FILES else access.facts
        removed = max(access.removed_lines, self.removed)
        return replace(access, facts=facts, removed_lines=removed)


def part_of(gate: Gate, answer: GateAnswer, index: int, action: Action) -> tuple[Gate, GateAnswer]:
    """Return the part of a gate about several calls, and of its answer, that concerns the call
    ``action``, whose file has this ``index`` in the gate.
    """
    own = gate.replace(
        call_id=action.call_id,
        operation=action.operation,
        args=action.args,
        args_hash=action.args_hash,
        previews=gate.previews[index : index + 1],
        also=(),
    )
    left = tuple((0, hunk) for file, hunk in answer.left_out if file == index)
    return own, answer.replace(
        call_id=action.call_id,
        args_hash=action.args_hash,
        before_hashes=before_hashes(own),
        left_out=left,
    )


def _describe_intent(action: Action) -> str:
    """Return the intent of a call, or the first 100 characters of its reasoning."""
    return action.intent or one_line(action.reasoning, 100)


class Renewed(ToldError):
    """The gate is out of date, because the file changed, and must be shown again."""

    def __init__(self, place: Place | None = None) -> None:
        """``place`` is the changed file, named in the text for the model."""
        super().__init__("path.changed", shown=place.label if place else "")


class GateQuestion(NamedTuple):
    """Everything that a gate is built from. ``args`` are shown completely and are the ones that
    will be used.
    """

    call: Call
    args: JsonObject
    effect: Effect
    places: tuple[Place, ...]
    proposal: Proposal
    verdict: Verdict
    also: tuple[AlsoAsked, ...] = ()  # further calls, whose changes come last

    @property
    def file_changes(self) -> tuple[PlannedChange, ...]:
        """The proposed file changes; none for a read or a command."""
        return self.proposal.changes if isinstance(self.proposal, Edits) else ()

    def make_gate(self, gate_id: str, at: float) -> Gate:
        """Return the gate with the five points of S4-61: intent, reason, impact, alternatives,
        preview.
        """
        call, action, changes = self.call, self.call.action, self.file_changes
        previews = tuple(map(PlannedChange.make_preview, changes))
        bound = action.replace(args=self.args).args_hash
        if self.also:  # bind the answer to the arguments of every call in the gate
            hashes = [action.args_hash, *(other.args_hash for other in self.also)]
            bound = hash_data(canonical_json(list[object](hashes)))
        can_edit = len(changes) == 1 and changes[0].editable_text is not None
        runs = self.effect is Effect.EXECUTE  # its place is the folder it runs in
        covered = isinstance(self.proposal, Work) and self.proposal.covered
        inside = bool(changes) and self.verdict.zone is not Zone.OUTSIDE
        reasons = self.verdict.reasons
        if call.held_back:
            reasons = (f"failed_{call.held_back}", *reasons)
        if isinstance(self.proposal, Edits):
            reasons = tuple(dict.fromkeys((*reasons, *self.proposal.reasons)))
        return Gate(
            gate_id=gate_id,
            call_id=action.call_id,
            operation=action.operation,
            args=self.args,
            args_hash=bound,
            effect=self.effect,
            intent=_describe_intent(action),
            why=action.reasoning,
            impact=Impact(
                files=len(changes) or (0 if runs else len(self.places)),
                added=sum(preview.added for preview in previews),
                removed=sum(preview.removed for preview in previews),
                zone=self.verdict.zone,
                risk=self.verdict.risk,
                reversible=inside or covered or self.effect in _REVERSIBLE,
                reasons=reasons,
                places=tuple(place.resolved for place in self.places),
            ),
            alternatives=action.alternatives[:MAX_ALTERNATIVES],
            previews=previews,
            also=self.also,
            can_grant_session=self.verdict.can_grant_session,
            can_grant_step=self.verdict.can_grant_step,
            can_grant_project=self.verdict.can_grant_project,
            can_grant_routine=self.verdict.can_grant_routine,
            facts={} if isinstance(self.proposal, Edits) else dict(self.proposal.facts),
            step_id=call.step_id,
            can_edit=can_edit,
            grant_pattern=self.verdict.grant_pattern,
            grant_only=self.verdict.grant_only,
            edited_by_user=call.edited is not None,
            renewed=call.renewed,
            checks=action.intent if call.for_requirement else "",
            opened_at=at,
        )


@dataclass(slots=True)
class GateKeeper:
    """Asks the user by gates, withdraws a gate when a file that it shows changes, and holds the
    texts that the user can edit.
    """

    store: Store
    desk: Desk
    ids: IdSource
    #: Id of an open gate that can be edited → the whole new content.
    proposed: dict[str, str] = field(default_factory=dict[str, str])

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Open a gate and return the user's answer; gate and answer are noted in the call. Raises
        Renewed when the gate went out of date, and ToolFault when there was no answer.
        """
        gate = question.make_gate(self.ids("gate"), self.store.clock.now())
        if self.store.state.session.sandbox not in HOLDS:  # then key s covers edits as well
            gate = gate.replace(can_grant_routine=False)
        call = question.call
        call.gate, call.answer = gate, None
        if gate.can_edit and (text := question.file_changes[0].editable_text) is not None:
            self.proposed[gate.gate_id] = text
        forget = self.store.subscribe(lambda _, record: self._renew_if_changed(record, gate))
        try:
            answer = await self.desk.ask(gate)
        except Unanswered as none:
            if none.reason == "renewed":
                raise Renewed from none
            outcome = Outcome.DENIED if none.reason == "nobody" else Outcome.STOPPED
            raise ToolFault(none.told, outcome) from none
        finally:
            forget()
            self.proposed.pop(gate.gate_id, None)
        call.answer = answer
        return answer

    async def ask_all(
        self, together: Together, question: GateQuestion, others: Sequence[Planned]
    ) -> GateAnswer:
        """Ask by one gate about a change and those of ``others``, later calls of its decision. An
        approval is stored in ``together`` for each of them. Return the answer for the first
        call. Raises as ``ask`` does.
        """
        call, (change,) = question.call, question.file_changes
        shown = (change, *(other.change for other in others if other.change is not None))
        also = tuple(
            AlsoAsked(
                call_id=other.call.action.call_id,
                operation=other.call.action.operation,
                args_hash=other.call.action.args_hash,
                intent=_describe_intent(other.call.action),
            )
            for other in others
        )
        places = (*question.places, *(place for other in others for place in other.places))
        whole = question._replace(args={}, places=places, proposal=Edits(shown), also=also)
        answer = await self.ask(whole)
        gate = call.gate
        assert gate is not None
        if not answer.is_approval:
            return answer
        for index, other in enumerate(others, start=1):
            own = part_of(gate, answer, index, other.call.action)
            together.allowed[other.call.action.call_id] = Consent(*own)
        call.gate, call.answer = part_of(gate, answer, 0, call.action)
        return call.answer

    def _renew_if_changed(self, record: Record, gate: Gate) -> None:
        """Withdraw the gate if the event says that a file it shows changed on the disk."""
        event = record.event
        if isinstance(event, FileChangedOutside):
            previews = [preview for preview in gate.previews if not preview.unseen]
            shown = {preview.path: preview.before_hash for preview in previews}
            shown |= {p.target: "" for p in previews if p.target}
            if shown.get(event.path, event.sha) != event.sha:
                self.desk.withdraw_question(gate.gate_id, "renewed")


def rejection_of(answer: GateAnswer, gate: Gate) -> ToolFault | None:
    """Return the fault for the model when the answer rejects the call or chooses an alternative;
    None when the call may run.
    """
    remarks = list_remarks(answer.remarks)
    if answer.choice is GateChoice.REJECT:
        reason = answer.reason.strip()
        name = "call.rejected_with_reason" if reason else "call.rejected"
        return ToolFault(name, Outcome.REJECTED, reason=reason, remarks=remarks)
    if answer.choice is GateChoice.ALTERNATIVE:
        label = clip_value(gate.alternatives[(answer.alternative or 1) - 1])
        return ToolFault("call.alternative", Outcome.DECLINED, label=label, remarks=remarks)
    return None


def check_denied(call: Call, verdict: Verdict) -> None:
    """Raise ToolFault for a denied call, and note the ruling in it. A call of the user is denied
    only where a place is protected.
    """
    if call.by_user and verdict.zone is not Zone.PROTECTED:
        return
    call.ruling = verdict.ruling
    if verdict.kind is Decision.DENY:
        raise ToolFault(verdict.told, Outcome.DENIED)


async def drop_left_out_hunks(
    changes: tuple[PlannedChange, ...], answer: GateAnswer
) -> tuple[PlannedChange, ...]:
    """Return the changes without the hunks that the user left out. Raises ToolFault when nothing
    remains.
    """
    kept: list[PlannedChange] = []
    for index, change in enumerate(changes):
        out = left_out(answer, index)
        rest = await change.without_hunks(out) if out else change
        if rest is not None:
            kept.append(rest)
    if not kept:
        raise ToolFault("call.all_left_out", Outcome.REJECTED)
    return tuple(kept)


def record_fault(call: Call, fault: ToolFault, words: Callable[..., str]) -> tuple[Outcome, Output]:
    """Return outcome and output of a call that failed or was not run, with the changes made before.
    ``words`` renders the text for the model.
    """
    text = words(fault.told)
    if call.made and fault.outcome is not Outcome.STOPPED:
        text = f"{text}\n{words('call.done_before', done=list_changes(call.made))}"
    summary = fault.summary or (one_line(text, 80) if fault.outcome.is_failure else "")
    output = fault.output or Output("")
    made = tuple(call.made)
    return fault.outcome, replace(
        output, text=text, summary=summary, read=find_hashes_after(call.made), changes=made
    )


def record_stop(call: Call, words: Callable[..., str]) -> tuple[Outcome, Output]:
    """Return outcome and output of a call that was stopped, with what it had printed and changed
    before.
    """
    started = call.started is not None
    stop = make_stop_fault(call.made, started=started)
    so_far = call.work.so_far if call.work is not None and started else None
    if so_far is None:
        return record_fault(call, stop, words)
    output = so_far()
    text = ModelText("text", {"text": (stop.told, output.text)})
    fault = ToolFault(text, Outcome.STOPPED, output.summary, output=output)
    return record_fault(call, fault, words)


def list_remarks(remarks: Iterable[Remark]) -> list[ModelText]:
    """Return the user's remarks for the model, numbered, each with path, line number, line and
    remark.
    """
    return [
        ModelText(
            f"remark.{'step' if not remark.path else 'removed' if remark.old else 'added'}",
            {
                "index": str(index),
                "path": clip_value(remark.path),
                "number": str(remark.number),
                "line": clip_value(remark.line, _REMARKED_LINE),
                "said": remark.said.strip(),
            },
        )
        for index, remark in enumerate(remarks, start=1)
    ]
