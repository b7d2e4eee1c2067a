"""Memory of the model: the working memory with its limits (S4-35…44), and compactions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from pydantic import Field, ValidationError

from duckflow_tui.state.base import (
    Count,
    Event,
    Frozen,
    InConversation,
    LocalizedText,
    StateError,
    one_line,
)
from duckflow_tui.state.decision import StateDelta
from duckflow_tui.state.usage import CompactedBy

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState

LINE = 200  # characters of goal, why_now, last_delta (S4-35, 36, 43)
ITEM = 100  # characters of a list item (S4-37…39, 41)
DECIDED = 500  # characters of a decision that the app notes: the user's reason stands there whole
MAX_CONSTRAINTS = 2
MAX_PLAN_BRIEF = 3
MAX_OPEN_QUESTIONS = 2
MAX_CONTEXT_REFS = 20
MAX_DECISIONS = 50
MOST: Final = {
    "constraints": MAX_CONSTRAINTS,
    "plan_brief": MAX_PLAN_BRIEF,
    "open_questions": MAX_OPEN_QUESTIONS,
}
#: The five items of the notes: what the user, too, writes (S4-103).
OwnField = Literal["goal", "why_now", "constraints", "plan_brief", "open_questions"]
OWN_FIELDS: Final[tuple[OwnField, ...]] = get_args(OwnField)
_REF = r"(file|conversation|plan):\S.*"
Line = Annotated[str, Field(max_length=LINE, pattern=r"^[^\n]*$")]
Item = Annotated[str, Field(max_length=ITEM)]
Decided = Annotated[str, Field(max_length=DECIDED)]
Ref = Annotated[str, Field(pattern=f"^{_REF}$")]


class WorkingMemory(Frozen):
    """Goal, constraints and decisions sent with every request, within limits (S4-44)."""

    goal: Line = ""
    why_now: Line = ""
    constraints: tuple[Item, ...] = Field(default=(), max_length=MAX_CONSTRAINTS)
    plan_brief: tuple[Item, ...] = Field(default=(), max_length=MAX_PLAN_BRIEF)
    open_questions: tuple[Item, ...] = Field(default=(), max_length=MAX_OPEN_QUESTIONS)
    context_refs: tuple[Ref, ...] = ()  # file:…, conversation:…, plan:… (S4-40)
    decision_log: tuple[Decided, ...] = Field(default=(), max_length=MAX_DECISIONS)  # oldest first
    last_delta: Line = ""
    by_user: tuple[OwnField, ...] = ()  # that stand as the user wrote them
    untold: tuple[OwnField, ...] = ()  # of those: what no request has shown to the model yet

    def with_user_fields(self, other: WorkingMemory, names: tuple[OwnField, ...]) -> WorkingMemory:
        """Return a copy in which these fields have the values the user wrote in ``other``."""
        fields: dict[str, Any] = {name: getattr(other, name) for name in names}
        fields["by_user"] = tuple(n for n in OWN_FIELDS if n in (*self.by_user, *names))
        untold = [n for n in other.untold if n in names]
        fields["untold"] = tuple(n for n in OWN_FIELDS if n in (*self.untold, *untold))
        return self.replace(**fields)


class MemoryUpdate(Frozen):
    """A new working memory, and what was cut or dropped to keep its limits."""

    memory: WorkingMemory
    cuts: tuple[str, ...] = ()  # "goal: 312 → 200 characters"


def apply_delta(memory: WorkingMemory, delta: StateDelta) -> MemoryUpdate:
    """Apply a decision's changes: absent fields stay, lists are replaced, ``decision`` is appended.

    Too long text is cut, surplus items are dropped, references in another form are refused; each is
    named in ``cuts`` (S4-44). A field that the user wrote since the model was asked stays theirs,
    and is named too; a later change by the model replaces it.
    """
    cuts: list[str] = []

    def cut_line(name: str, value: str, limit: int = LINE) -> str:
        """A value as one line of at most ``limit`` characters; notes the cut."""
        flat = " ".join(value.split())
        if len(flat) > limit:
            cuts.append(f"{name}: {len(flat)} → {limit} characters")
        return one_line(value, limit)

    def cut_items(name: str, value: tuple[str, ...], most: int) -> tuple[str, ...]:
        """A list with at most ``most`` items, each as one line; notes the cut."""
        given = [item for item in value if item.strip()]
        if len(given) > most:
            cuts.append(f"{name}: {len(given)} → {most} items")
        return tuple(cut_line(f"{name}[{i}]", item, ITEM) for i, item in enumerate(given[:most]))

    refs = memory.context_refs
    if delta.context_refs is not None:
        good = [ref for ref in delta.context_refs if re.fullmatch(_REF, ref)]
        bad = len(delta.context_refs) - len(good)
        if bad:
            cuts.append(f"context_refs: {bad} of unknown form")
        if len(good) > MAX_CONTEXT_REFS:
            cuts.append(f"context_refs: {len(good)} → {MAX_CONTEXT_REFS} items")
        refs = tuple(good[:MAX_CONTEXT_REFS])
    log = memory.decision_log
    if delta.decision and delta.decision.strip():
        log = (*log, cut_line("decision", delta.decision, ITEM))[-MAX_DECISIONS:]
    fields: dict[str, Any] = {**dict(memory), "context_refs": refs, "decision_log": log}
    for name in OWN_FIELDS:
        if (value := getattr(delta, name)) is None:
            continue
        if name in memory.untold:
            cuts.append(f"{name}: stands as the user wrote it")
            continue
        most = MOST.get(name)
        fields[name] = cut_line(name, value) if most is None else cut_items(name, value, most)
        if fields[name] != getattr(memory, name):
            fields["by_user"] = tuple(n for n in fields["by_user"] if n != name)
    return MemoryUpdate(memory=WorkingMemory(**fields), cuts=tuple(cuts))


def find_edit_problem(name: OwnField, items: Sequence[str]) -> LocalizedText | None:
    """Return why these items do not fit the field; None where they do."""
    most, longest = MOST.get(name, 1), ITEM if name in MOST else LINE
    if len(items) > most:
        return LocalizedText(key="working.form.many", params={"most": str(most)})
    for item in items:
        if len(item) > longest:
            params = {"count": str(len(item)), "most": str(longest)}
            return LocalizedText(key="working.form.long", params=params)
    return None


class PreservedContext(Frozen):
    """Texts that a compaction keeps in full, as of that time."""

    goal: str = ""
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    plan: str = ""
    gates: tuple[str, ...] = ()


class Compaction(Frozen):
    """A compaction: up to a message the conversation is replaced by a digest in requests."""

    compaction_id: str
    by: CompactedBy
    hint: str = ""  # what the user wanted kept above all
    begins_at: str  # id of the first message that travels in full
    digest: str = ""  # empty where there is none
    failure: str = ""  # why there is no new one: of ``llm.errors``, ``unreadable``, ``budget``
    kept: PreservedContext = PreservedContext()
    exchanges: Count = Field(default=0, ge=0)  # that were digested
    messages: Count = Field(default=0, ge=0)  # that no longer travel in full
    results: Count = Field(default=0, ge=0)  # of them results of operations, dropped but for a line
    tokens_before: Count = Field(default=0, ge=0)  # of the conversation, estimated
    tokens_after: Count = Field(default=0, ge=0)
    at: float


class CompactionMessage(InConversation):
    """Marks in the conversation where a compaction was made."""

    kind: Literal["compaction"] = "compaction"
    compaction: Compaction
    for_model: Literal[""] = ""


@dataclass(eq=False)
class MemoryState:
    """The working memory and the compactions."""

    memory: WorkingMemory = field(default_factory=WorkingMemory)
    files_read: dict[str, str] = field(default_factory=dict[str, str])
    """Shown path → SHA-256 when last read or written."""
    compactions: tuple[Compaction, ...] = ()  # in force, oldest first
    undone_compactions: tuple[str, ...] = ()  # that the user took back

    @property
    def compaction(self) -> Compaction | None:
        """The compaction in effect; None while the whole conversation is sent."""
        return self.compactions[-1] if self.compactions else None


class WorkingMemoryChanged(Event, kind="working_memory"):
    """A decision changed the working memory; ``cuts`` names what its limits removed."""

    memory: WorkingMemory
    cuts: tuple[str, ...] = ()

    def apply(self, state: AgentState) -> None:
        goal, before = self.memory.goal, state.memory.goal
        if goal and goal != before and state.work is None:  # the goal of a step is not the work's
            state.session = state.session.replace(goal=goal)
        state.memory = self.memory


class MemoryEdited(Event, kind="memory_edited"):
    """The user edited a field of the working memory; a single-line field has at most one item."""

    name: OwnField
    items: tuple[Line, ...] = ()

    def apply(self, state: AgentState) -> None:
        value = self.items if self.name in MOST else "".join(self.items[:1])
        try:
            new = WorkingMemory.model_validate({**dict(state.memory), self.name: value})
        except ValidationError as error:
            raise StateError(f"{self.name} breaks a limit of the working memory") from error
        own = new.replace(untold=(self.name,))
        state.memory = new.with_user_fields(own, (self.name,))


class ChangeNoted(Event, kind="change_noted"):
    """The newest change of files was noted for the model; ``decided`` adds it to the
    decision log.
    """

    change: str
    decided: bool = False

    def apply(self, state: AgentState) -> None:
        update: dict[str, object] = {"last_delta": one_line(self.change, LINE)}
        if self.decided:
            log = (*state.memory.decision_log, one_line(self.change, DECIDED))
            update["decision_log"] = log[-MAX_DECISIONS:]
        state.memory = state.memory.replace(**update)


class ContextCompacted(Event, kind="context_compacted"):
    """From here on a digest is sent in place of older messages, which stay in the session."""

    compaction: Compaction
    message_id: str

    def apply(self, state: AgentState) -> None:
        new = self.compaction.compaction_id
        if any(c.compaction_id == new for c in state.compactions):
            raise StateError(f"compaction {new} is there already")
        state.compactions = (*state.compactions, self.compaction)
        _fill_by(state, self.compaction, by=-1)
        state.messages.append(
            CompactionMessage(
                message_id=self.message_id, compaction=self.compaction, at=self.compaction.at
            )
        )


class CompactionUndone(Event, kind="compaction_undone"):
    """The user undid the newest compaction: the full messages are sent again."""

    compaction_id: str

    def apply(self, state: AgentState) -> None:
        newest = state.compaction
        if newest is None or newest.compaction_id != self.compaction_id:
            raise StateError(f"{self.compaction_id} is not the newest compaction")
        state.compactions = state.compactions[:-1]
        _fill_by(state, newest, by=1)
        state.undone_compactions = (*state.undone_compactions, self.compaction_id)


def _fill_by(state: AgentState, compaction: Compaction, *, by: int) -> None:
    """Adjust the estimate of the next request by the compaction's saving: -1 less, 1 more."""
    if state.usage.last_context:
        change = by * (compaction.tokens_before - compaction.tokens_after)
        filled = max(state.usage.last_context + change, compaction.tokens_after)
        state.usage = state.usage.replace(last_context=filled, estimated=True)
