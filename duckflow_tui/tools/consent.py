"""The gate of one call: what it shows, and what became of the question."""

from __future__ import annotations

from dataclasses import dataclass, field

from duckflow_tui.safety.desk import Desk, Unanswered
from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.policy import Verdict
from duckflow_tui.state.base import IdSource, JsonObject, brief, canonical_json, digest, one_line
from duckflow_tui.state.calls import FileChangedOutside
from duckflow_tui.state.decision import MAX_ALTERNATIVES, Action
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, Impact
from duckflow_tui.state.operations import Effect, Outcome
from duckflow_tui.state.store import Record, Store
from duckflow_tui.tools.changes import PlannedChange
from duckflow_tui.tools.operation import Edits, Proposal, ToolFault

_REVERSIBLE = frozenset({Effect.READ, Effect.STATE})


class Renewed(Exception):
    """What the gate showed is no longer so: it must be shown again."""


@dataclass(slots=True)
class Asked:
    """The gate a call went through, and its answer: what the record of the call keeps."""

    gate: Gate | None = None
    answer: GateAnswer | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Everything a gate is built from. ``args`` are shown whole and are what will be used."""

    action: Action
    args: JsonObject
    effect: Effect
    places: tuple[Place, ...]
    proposal: Proposal
    verdict: Verdict
    renewed: bool = False
    edited: bool = False
    step_id: str = ""
    needs_word: str = ""
    for_requirement: str = ""  # its id, where the app runs the check of one

    @property
    def changes(self) -> tuple[PlannedChange, ...]:
        """The file changes, none for a read or a command."""
        return self.proposal.changes if isinstance(self.proposal, Edits) else ()

    @property
    def args_hash(self) -> str:
        """What the answer is bound to; the same function as ``Action.args_hash``."""
        return hash_of(self.action.operation, self.args)

    def gate(self, gate_id: str, at: float) -> Gate:
        """The five points of S4-61: intent, why, impact, alternatives, preview."""
        changes = self.changes
        previews = tuple(map(PlannedChange.preview, changes))
        can_edit = len(changes) == 1 and changes[0].text is not None
        runs = self.effect is Effect.EXECUTE  # its place is the folder it runs in
        reasons = self.verdict.reasons
        if isinstance(self.proposal, Edits):
            reasons = tuple(dict.fromkeys((*reasons, *self.proposal.reasons)))
        return Gate(
            gate_id=gate_id,
            call_id=self.action.call_id,
            operation=self.action.operation,
            args=self.args,
            args_hash=self.args_hash,
            effect=self.effect,
            intent=self.action.intent or one_line(self.action.reasoning, 100),
            why=self.action.reasoning,
            impact=Impact(
                files=len(changes) or (0 if runs else len(self.places)),
                added=sum(preview.added for preview in previews),
                removed=sum(preview.removed for preview in previews),
                zone=self.verdict.zone,
                risk=self.verdict.risk,
                reversible=bool(changes) or self.effect in _REVERSIBLE,
                reasons=reasons,
                places=tuple(place.resolved for place in self.places),
            ),
            alternatives=self.action.alternatives[:MAX_ALTERNATIVES],
            previews=previews,
            can_grant_session=self.verdict.can_grant_session,
            can_grant_step=self.verdict.can_grant_step,
            needs_word=self.needs_word,
            facts={} if isinstance(self.proposal, Edits) else dict(self.proposal.facts),
            step_id=self.step_id,
            can_edit=can_edit,
            grant_pattern=self.verdict.grant_pattern,
            edited_by_user=self.edited,
            renewed=self.renewed,
            checks=self.action.intent if self.for_requirement else "",
            opened_at=at,
        )


@dataclass(slots=True)
class GateKeeper:
    """Asks, withdraws a gate when a file it shows changes, and knows what an edit starts from."""

    store: Store
    desk: Desk
    ids: IdSource
    _proposed: dict[str, str] = field(default_factory=dict[str, str])

    def proposed_text(self, gate_id: str) -> str | None:
        """The whole new content behind an open gate; None when it cannot be edited."""
        return self._proposed.get(gate_id)

    async def ask(self, question: Question, asked: Asked) -> GateAnswer:
        """The user's answer. Raises Renewed, and ToolFault where there was none."""
        gate = question.gate(self.ids("gate"), self.store.clock.now())
        asked.gate, asked.answer = gate, None
        if gate.can_edit and (text := question.changes[0].text) is not None:
            self._proposed[gate.gate_id] = text
        forget = self.store.watch(lambda _, record: self._hear(record, gate))
        try:
            answer = await self.desk.ask(gate)
        except Unanswered as none:
            if none.reason == "renewed":
                raise Renewed from none
            outcome = Outcome.DENIED if none.reason == "nobody" else Outcome.STOPPED
            raise ToolFault(str(none), outcome) from none
        finally:
            forget()
            self._proposed.pop(gate.gate_id, None)
        asked.answer = answer
        return answer

    def _hear(self, record: Record, gate: Gate) -> None:
        match record.event:
            case FileChangedOutside(path=path, sha=sha):
                shown = {preview.path: preview.before_hash for preview in gate.previews}
                shown |= {p.target: "" for p in gate.previews if p.target}
                if path in shown and shown[path] != sha:
                    self.desk.withdraw(gate.gate_id, "renewed")
            case _:
                pass


def refusal(answer: GateAnswer, gate: Gate) -> ToolFault | None:
    """What the model is told when the answer lets nothing run; None when it may."""
    if answer.choice is GateChoice.REJECT:
        reason = answer.reason.strip()
        said = f"rejected by the user: {reason}" if reason else "rejected by the user"
        return ToolFault(
            f"{said}\nNothing was executed. Do not ask for the same again; take the user's "
            "reason into account, or ask what they want instead.",
            Outcome.REJECTED,
        )
    if answer.choice is GateChoice.ALTERNATIVE:
        label = gate.alternatives[(answer.alternative or 1) - 1]
        return ToolFault(
            f'the user chose the alternative "{brief(label)}" instead; nothing was executed',
            Outcome.DECLINED,
        )
    return None


def left_out(answer: GateAnswer, file: int) -> tuple[int, ...]:
    """The hunks of one file that the user did not take."""
    return tuple(hunk for index, hunk in answer.left_out if index == file)


def hash_of(operation: str, args: JsonObject) -> str:
    """``Action.args_hash`` over arguments that are not an action's own."""
    return digest(canonical_json([operation, args]))
