"""Gates (approvals of calls) and cards (other questions), with answers bound to exactly what was
shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from duckflow_tui.state.base import (
    Event,
    Frozen,
    InConversation,
    JsonObject,
    LocalizedText,
    StateError,
)
from duckflow_tui.state.goal import SituationReport
from duckflow_tui.state.operations import Effect, Risk, Zone, change_running
from duckflow_tui.state.pace import Pattern, Situation
from duckflow_tui.state.plan import Plan, PlanChange, StepReport
from duckflow_tui.state.plan_events import count_wait

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState

#: A line of the context, a new one, or one that goes.
DiffMark = Literal[" ", "+", "-"]


class DiffLine(Frozen):
    """One line of a diff; numbers count from 1."""

    mark: DiffMark
    old: int | None
    new: int | None
    text: str  # without its line ending


class Hunk(Frozen):
    """A run of changed lines with its context; numbers as ``diff -u`` has them."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[DiffLine, ...]

    @property
    def old_begin(self) -> int:
        """Lines of the old file before the hunk."""
        return self.old_start - bool(self.old_count)

    @property
    def new_begin(self) -> int:
        """Lines of the new file before the hunk."""
        return self.new_start - bool(self.new_count)

    @property
    def old_end(self) -> int:
        """Lines of the old file up to the end of the hunk."""
        return self.old_begin + self.old_count


class FilePreview(Frozen):
    """The change of one file that a call would make. Computed by the app, never by the model."""

    path: str
    kind: str  # create, modify, delete, move
    target: str = ""  # of a move
    before_hash: str = ""  # empty: no such file now
    after_hash: str = ""  # empty: the file will be gone
    hunks: tuple[Hunk, ...] = ()
    added: int = 0
    removed: int = 0
    facts: tuple[LocalizedText, ...] = ()  # not visible in the hunks: binary, no final newline
    note: str = ""  # further ones that need no words: a size, the target of a link
    language: str = ""  # lexer name for highlighting, empty for plain text
    unseen: bool = False  # what is there now is looked at only after consent; no hash of it


#: The reason of a gate for an effect while the journal cannot be written; asked once.
UNRECORDED: Final = "unrecorded"


class Impact(Frozen):
    """Consequences of a call as computed by the app."""

    files: int = 0
    added: int = 0
    removed: int = 0
    zone: Zone = Zone.NOWHERE
    risk: Risk = Risk.LOW
    reversible: bool = True
    reasons: tuple[str, ...] = ()  # codes: why the risk is what it is, e.g. "executable_extension"
    places: tuple[str, ...] = ()  # what is touched, links followed; absolute outside the workspace


class AlsoAsked(Frozen):
    """Another call of the same reply that the same gate asks about, with the hash its answer is
    bound to.
    """

    call_id: str
    operation: str
    args_hash: str
    intent: str = ""


class GateChoice(StrEnum):
    """The answers to a gate."""

    ONCE = "once"  # y
    SESSION = "session"  # s
    STEP = "step"  # t
    ONLY = "only"  # x
    ROUTINE = "routine"  # a
    PROJECT = "project"  # p
    REJECT = "reject"  # n
    EDIT = "edit"  # e
    ALTERNATIVE = "alternative"  # 1…9


#: Answers that allow more than the one call that is asked about, in the order they are offered in.
WIDENS: Final = (
    GateChoice.SESSION,
    GateChoice.ONLY,
    GateChoice.STEP,
    GateChoice.PROJECT,
    GateChoice.ROUTINE,
)


class Gate(Frozen):
    """An approval that waits for the user. Its content is frozen; a change outside opens a
    new one.
    """

    gate_id: str
    call_id: str
    operation: str
    args: JsonObject
    args_hash: str
    effect: Effect
    intent: str  # the model's words, labelled as such
    why: str  # the model's words: reasoning
    impact: Impact
    alternatives: tuple[str, ...] = ()
    previews: tuple[FilePreview, ...] = ()  # of the call, then one of each that is also asked
    also: tuple[AlsoAsked, ...] = ()  # ``args_hash`` above covers them
    can_grant_session: bool = False
    can_grant_step: bool = False  # only while a step of a plan runs
    can_grant_project: bool = False  # a rule may be kept for later sessions too
    can_grant_routine: bool = False  # ``a`` may allow all work of the usual kind, see ``ROUTINE``
    facts: dict[str, str] = Field(default_factory=dict)  # figures of the app: argv, cwd, sandbox
    step_id: str = ""  # the plan's step that asks
    can_edit: bool = False
    grant_pattern: str = ""  # what ``s`` and ``t`` would allow: "shell.run pytest -q"
    #: What ``x`` would allow, less than that: this file alone, or this program in the sandbox.
    grant_only: str = ""
    edited_by_user: bool = False
    checks: str = ""  # the requirement whose check this is: the app asks, in a review
    renewed: bool = False  # the file changed outside since the last preview
    opened_at: float  # seconds since the epoch

    def pattern_of(self, choice: GateChoice) -> str:
        """Return the operation and target that a widening answer (one of ``WIDENS``) would allow;
        empty where it is not offered. A rule for the project is as narrow as possible.
        """
        match choice:
            case GateChoice.ROUTINE:
                return f"{ROUTINE} {ROUTINE}"
            case GateChoice.ONLY:
                return self.grant_only
            case GateChoice.PROJECT:
                return self.grant_only or self.grant_pattern
            case _:
                return self.grant_pattern

    def can_grant(self, choice: GateChoice) -> bool:
        """Whether this widening answer (one of ``WIDENS``) is offered at this gate."""
        match choice:
            case GateChoice.SESSION:
                return self.can_grant_session
            case GateChoice.STEP:
                return self.can_grant_step
            case GateChoice.ONLY:
                return bool(self.grant_only)
            case GateChoice.PROJECT:
                return self.can_grant_project
            case _:
                return choice is GateChoice.ROUTINE and self.can_grant_routine


class Remark(Frozen):
    """A comment of the user on one line of a pending change, or on one step of a plan."""

    path: str = ""  # of the file; empty: it is about a step
    number: int  # of the line or of the step, from 1
    old: bool = False  # the line is one that would go: its number is of the file as it is
    line: str  # the line as it stands, or the name of the step
    said: str  # by the user

    @property
    def place(self) -> str:
        """The remark's place: ``src/a.py:12``, ``src/a.py:−9`` for a removed line, ``2 Tests`` for
        a step.
        """
        if not self.path:
            return f"{self.number} {self.line}"
        return f"{self.path}:{'−' if self.old else ''}{self.number}"


class DraftRemarks(Frozen):
    """Unsent remarks, and the proposal that they are on."""

    about: str = ""  # hash of the call's arguments, or what an answer to the card is bound to
    remarks: tuple[Remark, ...] = ()


def _join_remarks(said: str, remarks: Iterable[Remark]) -> str:
    """The reason and the remarks of an answer, each with its place, on one line for people."""
    parts = (said.strip(), *(f"{remark.place}: {remark.said}" for remark in remarks))
    return "; ".join(part for part in parts if part)


class GateAnswer(Frozen):
    """The user's answer, bound to the gate, the call, its arguments and the files as shown."""

    gate_id: str
    call_id: str
    args_hash: str
    before_hashes: tuple[str, ...] = ()
    choice: GateChoice
    reason: str = ""  # of a rejection
    remarks: tuple[Remark, ...] = ()  # of a rejection, or with an alternative
    alternative: int | None = Field(default=None, ge=1, le=9)
    left_out: tuple[tuple[int, int], ...] = ()  # (file, hunk) not taken; a file without hunks: 0
    edited: str | None = None  # whole new content of the one file, for EDIT

    @property
    def full_text(self) -> str:
        """The reason and the remarks, each remark with its place."""
        return _join_remarks(self.reason, self.remarks)

    @property
    def is_approval(self) -> bool:
        """Whether the call may run."""
        return self.choice not in (GateChoice.REJECT, GateChoice.EDIT, GateChoice.ALTERNATIVE)


#: The path of a grant for all that runs in the sandbox, and the beginning of one for a command
#: only there; no command is written like this.
IN_SANDBOX: Final = "*sandbox"

#: Operation and path of a grant for every edit inside the folder and every command that the sandbox
#: holds; no operation and no path is written like this.
ROUTINE: Final = "//routine"

#: Operation and path of a grant for every edit inside the folder; no operation and no path is
#: written like this.
EDITS: Final = "//edits"

#: The operation of a rule that forbids; no operation has this name.
DENY: Final = "deny"


class Grant(Frozen):
    """A rule that allows an operation on a target or, with ``DENY``, forbids calls by words. Its
    scope is the session, one step, the project, the settings or the command line.
    """

    grant_id: str
    operation: str  # of one of the command line: "--allow"; or ``DENY``
    path: str  # of a file; of another operation: what its grant is about
    gate_id: str  # the gate whose answer gave it, of a project's in this session or before
    step_id: str = ""
    source: Literal["key", "project", "settings", "command_line"] = "key"
    at: float = 0.0  # when it was given, seconds since the epoch; 0 of the command line
    #: Whether its gate said that other programs act on this very file: only then it covers that.
    obeyed: bool = False

    @property
    def pattern(self) -> str:
        """The operation and target that it allows, as shown at the gate."""
        return f"{self.operation} {self.path}"


def before_hashes(gate: Gate) -> tuple[str, ...]:
    """Return the hashes that an answer must carry: one for each previewed file."""
    return tuple(preview.before_hash for preview in gate.previews)


class CardKind(StrEnum):
    """Kinds of questions that a card asks."""

    PLAN = "plan"  # a plan waits for approval
    PLAN_CHANGE = "plan_change"  # the model would change an approved plan
    PLAN_END = "plan_end"  # the model would close or delete a plan
    REPORT = "report"  # a step ended and the user chooses how to go on
    BREAKPOINT = "breakpoint"  # the user wanted to be asked before this step
    CONSULTATION = "consultation"  # the work is stuck, or at its limit
    ESCALATION = "escalation"  # the attempts are used up and something is still missing
    BUDGET = "budget"  # the next call would go past a hard limit
    QUESTION = "question"  # the model asks the user
    SERVER = "server"  # a tool server asks the user in the middle of a call
    TRUST = "trust"  # files of the folder that steer the work, of which nothing is used yet


class CardOption(Frozen):
    """One option of a card. Its words come from the screen's catalogue; ``label`` is text of the
    model.
    """

    key: str  # the letter or digit that takes it; the same action has the same key everywhere
    action: str
    label: str = ""
    takes_text: bool = False  # a reason or an instruction may go with it


class Card(Frozen):
    """A question to the user other than an approval. ``subject`` identifies what was shown; the
    answer is bound to it.
    """

    card_id: str
    kind: CardKind
    #: A plan's fingerprint, the id of a change, a report, a step or the card itself; of PLAN_END
    #: what becomes of the plan: "close" or "delete".
    subject: str
    options: tuple[CardOption, ...]
    plan_id: str = ""
    step_id: str = ""
    change: PlanChange | None = None  # of PLAN_CHANGE
    before: Plan | None = None  # of PLAN: the plan as the last card showed it
    report: StepReport | None = None
    situation: Situation | None = None  # of CONSULTATION
    escalation: SituationReport | None = None  # of ESCALATION
    question: str = ""  # of QUESTION: the model's words; of SERVER the server's
    files: tuple[FilePreview, ...] = ()  # of TRUST: what the user has not seen of them yet
    facts: dict[str, str] = Field(default_factory=dict)  # figures the words need
    opened_at: float  # seconds since the epoch


class CardAnswer(Frozen):
    """The user's answer, bound to the card and to what it showed."""

    card_id: str
    subject: str
    action: str
    text: str = ""
    remarks: tuple[Remark, ...] = ()  # on steps of the plan, where it is refused

    @property
    def full_text(self) -> str:
        """The text and the remarks, each with its place."""
        return _join_remarks(self.text, self.remarks)


#: Options by card. Digits and letters keep their meaning over all cards.
RUN_ALL = CardOption(key="y", action="run_all")
RUN_STEPS = CardOption(key="o", action="run_steps")
EDIT_PLAN = CardOption(key="e", action="edit")
REJECT = CardOption(key="n", action="reject", takes_text=True)
ACCEPT = CardOption(key="y", action="accept")
GO_ON = CardOption(key="y", action="go_on")
RETRY = CardOption(key="r", action="retry", takes_text=True)
TAKE = CardOption(key="d", action="take_as_done")
SKIP = CardOption(key="k", action="skip")
STOP = CardOption(key="n", action="stop")
OFFERED: Final = "offered_"  # begins the action of an answer that the model offers
SUGGESTED = CardOption(key="1", action="suggested")  # what the model would do next
TELL = CardOption(key="m", action="tell", takes_text=True)  # the user's own words
TRUST = CardOption(key="y", action="trust")
LOOK = CardOption(key="l", action="look")  # shows the files in the card; answers nothing
WITHOUT = CardOption(key="n", action="without")
YES = CardOption(key="1", action="yes")
NO = CardOption(key="2", action="no")
LEAVE_OUT = CardOption(key="k", action="leave_out")
OPEN_PAGE = CardOption(key="y", action="open_page")
DECLINE = CardOption(key="n", action="decline")


def _number_options(*actions: str, text: str = "") -> tuple[CardOption, ...]:
    """Return options on the digits, and one for the user's own words. The action ``text`` takes
    additional text.
    """
    digits = tuple(
        CardOption(key=str(number), action=action, takes_text=action == text)
        for number, action in enumerate(actions, start=1)
    )
    return (*digits, TELL)


_NUMBER: Final = re.compile(r"\s*\(?([0-9]{1,3})[).、。]?\s*")


def parse_typed_number(text: str) -> int:
    """The number of an answer that was typed, as ``2``, ``２``, ``2.`` or ``(2)``; 0 for none."""
    found = _NUMBER.fullmatch(unicodedata.normalize("NFKC", text[:20]))
    return int(found.group(1)) if found else 0


def make_question_options(labels: Iterable[str], *, approval: bool) -> tuple[CardOption, ...]:
    """Return an option for each answer that the model offers, at most nine, and one for the user's
    own words; with ``approval`` also yes and no.
    """
    offered = tuple(
        CardOption(key=str(number), action=f"{OFFERED}{number}", label=label)
        for number, label in enumerate(tuple(labels)[:9], start=1)
    )
    return (*((ACCEPT, REJECT) if approval else ()), *offered, TELL)


#: What the user may answer to a consultation; each has another effect (S0-39…42).
CONSULTATION_OPTIONS: Final[dict[Pattern, tuple[CardOption, ...]]] = {
    Pattern.STAGNATION: _number_options(
        "stop_work", "more_info", "keep_going", "other_approach", text="more_info"
    ),
    Pattern.LOW_CONFIDENCE: _number_options(
        *("detailed_requirements", "split", "other_source", "keep_approach"),
        text="detailed_requirements",
    ),
    Pattern.CONFUSION: _number_options(
        "top_requirement", "start_over", "tidy_results", "other_angle", text="top_requirement"
    ),
    Pattern.TOO_MANY_TRIES: _number_options(
        "accept_result", "analyse", "simplify", "different_approach", text="simplify"
    ),
    Pattern.LIMIT: _number_options("more_loops", "accept_result", "analyse", "stop_work"),
}

#: What the user may answer when the attempts are used up (S1-34…39).
ESCALATION_OPTIONS: Final = _number_options(
    *("instructions", "alternative", "accept_partial", "assistance", "cancel"),
    text="instructions",
)

#: What the user may answer when a hard limit refused a call.
BUDGET_OPTIONS: Final = _number_options("raise_budget", "accept_result", "stop_work")


class CardMessage(InConversation):
    """An answered card, placed in the conversation where the user answered."""

    kind: Literal["card"] = "card"
    card: Card
    plan: Plan | None = None  # as it was then
    answer: CardAnswer
    for_model: str = ""  # what the model is told, empty where a call's result says it


class RuleChange(Frozen):
    """A rule was added or revoked."""

    grant: Grant
    at: float  # seconds since the epoch
    revoked: bool = False


@dataclass(eq=False)
class GateState:
    """Open gates and cards, and the rules in force."""

    gates: tuple[Gate, ...] = ()  # approvals that are open (S4-42), oldest first
    cards: tuple[Card, ...] = ()  # open ones, oldest first
    waits_since: float | None = None  # one of them that is about the work is open from then on
    grants: tuple[Grant, ...] = ()

    @property
    def is_work_waiting(self) -> bool:
        """Whether an open question blocks the work; the one about trust blocks nothing."""
        return bool(self.gates) or any(c.kind is not CardKind.TRUST for c in self.cards)


class GateOpened(Event, kind="gate_opened"):
    """An approval opened; with the id of an open gate, its preview was renewed."""

    gate: Gate

    def apply(self, state: AgentState) -> None:
        if any(g.gate_id == self.gate.gate_id for g in state.gates):
            raise StateError(f"gate {self.gate.gate_id} is open already")
        state.gates = (*state.gates, self.gate)
        count_wait(state, self.gate.opened_at)


class GateAnswered(Event, kind="gate_answered"):
    """The user answered a gate. Rejected unless bound to exactly what an open gate shows."""

    answer: GateAnswer
    at: float  # seconds since the epoch

    def apply(self, state: AgentState) -> None:
        gate = next((g for g in state.gates if g.gate_id == self.answer.gate_id), None)
        if gate is None:
            raise StateError(f"gate {self.answer.gate_id} is not open")
        same = (
            self.answer.call_id == gate.call_id
            and self.answer.args_hash == gate.args_hash
            and self.answer.before_hashes == before_hashes(gate)
        )
        if not same:
            raise StateError("the answer is for something other than what the gate shows")
        if self.answer.choice is GateChoice.ALTERNATIVE and (
            self.answer.alternative is None or self.answer.alternative > len(gate.alternatives)
        ):
            raise StateError("there is no such alternative")
        if self.answer.choice in WIDENS and not gate.can_grant(self.answer.choice):
            raise StateError("this call can only be allowed once")
        if self.answer.is_approval and UNRECORDED in gate.impact.reasons:
            state.unkept_agreed = True
        state.gates = tuple(g for g in state.gates if g.gate_id != gate.gate_id)
        if state.remarks.about == gate.args_hash:
            state.remarks = DraftRemarks()
        change_running(state, gate.call_id, gate=gate, answer=self.answer)
        count_wait(state, self.at)


class GateWithdrawn(Event, kind="gate_withdrawn"):
    """A gate closed without an answer, because the turn stopped or a renewed one replaced it."""

    gate_id: str
    reason: Literal["stopped", "renewed", "edited"]
    at: float  # seconds since the epoch

    def apply(self, state: AgentState) -> None:
        if all(g.gate_id != self.gate_id for g in state.gates):
            raise StateError(f"gate {self.gate_id} is not open")
        state.gates = tuple(g for g in state.gates if g.gate_id != self.gate_id)
        count_wait(state, self.at)


class GrantAdded(Event, kind="grant_added"):
    """A rule came into force for this session, from the user, the project or the command line."""

    grant: Grant

    def apply(self, state: AgentState) -> None:
        state.grants = (*state.grants, self.grant)
        state.rule_log = (*state.rule_log, RuleChange(grant=self.grant, at=self.grant.at))


class GrantRevoked(Event, kind="grant_revoked"):
    """The user revoked a rule; it also no longer allows calls that already wait."""

    grant: Grant
    at: float

    def apply(self, state: AgentState) -> None:
        named = self.grant.source == "command_line"  # such a rule stands in no state
        if not named and self.grant not in state.grants:
            raise StateError(f"there is no rule {self.grant.grant_id}")
        state.grants = tuple(g for g in state.grants if g != self.grant)
        change = RuleChange(grant=self.grant, at=self.at, revoked=True)
        state.rule_log = (*state.rule_log, change)


class CardOpened(Event, kind="card_opened"):
    """A card opened."""

    card: Card

    def apply(self, state: AgentState) -> None:
        if any(c.card_id == self.card.card_id for c in state.cards):
            raise StateError(f"card {self.card.card_id} is open already")
        state.cards = (*state.cards, self.card)
        before = state.interrupted
        again = (
            before is not None
            and before.get_waiting_card(self.card.kind, self.card.step_id) is not None
        )
        if before is not None:
            state.interrupted = before.without_card(self.card)
        situation = self.card.situation
        if situation is not None and state.pace is not None and not again:
            seen = (*state.pace.consultations, situation.pattern)
            state.pace = state.pace.replace(consultations=seen)
        count_wait(state, self.card.opened_at)


class CardAnswered(Event, kind="card_answered"):
    """The user answered a card; card and answer enter the conversation. Rejected unless bound to
    what an open card shows.
    """

    answer: CardAnswer
    message_id: str
    at: float
    for_model: str = ""  # of the answer to a question: what the model is told

    def apply(self, state: AgentState) -> None:
        card = _get_card(state, self.answer.card_id)
        if card.subject != self.answer.subject:
            raise StateError("the answer is for something other than what the card shows")
        if self.answer.action not in [option.action for option in card.options]:
            raise StateError(f"the card has no answer {self.answer.action!r}")
        plan = next((p for p in state.plans if p.plan_id == card.plan_id), None)
        if state.remarks.about == card.subject:
            state.remarks = DraftRemarks()
        state.cards = tuple(c for c in state.cards if c.card_id != card.card_id)
        asked = card.kind is CardKind.QUESTION
        state.messages.append(
            CardMessage(
                message_id=self.message_id,
                card=card,
                plan=plan,
                answer=self.answer,
                for_model=self.for_model,
                step_id=card.step_id if asked else "",
                at=self.at,
            )
        )
        count_wait(state, self.at)


class CardWithdrawn(Event, kind="card_withdrawn"):
    """A card closed without an answer, because the work stopped or its content is out of date."""

    card_id: str
    reason: Literal["stopped", "renewed"]
    at: float  # seconds since the epoch

    def apply(self, state: AgentState) -> None:
        card = _get_card(state, self.card_id)
        state.cards = tuple(c for c in state.cards if c.card_id != card.card_id)
        count_wait(state, self.at)


def _get_card(state: AgentState, card_id: str) -> Card:
    """Return the open card with this id. Raises StateError."""
    found = next((c for c in state.cards if c.card_id == card_id), None)
    if found is None:
        raise StateError(f"card {card_id} is not open")
    return found
