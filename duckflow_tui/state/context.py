"""What fills the window of a model: the figures of each request, and what was compacted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Count, Frozen
from duckflow_tui.state.usage import LlmCall, Purpose

KEPT_REQUESTS: Final = 100  # newest requests whose figures are kept

PartName = Literal["base", "operations", "project", "pinned", "files", "results", "chat", "tail"]
#: The parts of a request, in the order in which the meter shows them.
PARTS: Final[tuple[PartName, ...]] = (
    "base",
    "operations",
    "project",
    "pinned",
    "files",
    "results",
    "chat",
    "tail",
)

CompactedBy = Literal["user", "auto", "overflow"]


class PromptParts(Frozen):
    """What takes how many tokens of a request (C22)."""

    base: Count = Field(default=0, ge=0)  # the app's own instructions
    operations: Count = Field(default=0, ge=0)  # and the output format
    project: Count = Field(default=0, ge=0)  # AGENTS.md
    pinned: Count = Field(default=0, ge=0)  # goal, requirements, constraints, plan, gates
    files: Count = Field(default=0, ge=0)  # results of reads
    results: Count = Field(default=0, ge=0)  # other results
    chat: Count = Field(default=0, ge=0)  # what was said, and digests of it
    tail: Count = Field(default=0, ge=0)  # the rest of the working memory and where things stand

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, name) for name in PARTS)

    @property
    def conversation(self) -> int:
        """What grows with the conversation, and what a compaction makes smaller."""
        return self.files + self.results + self.chat

    def scaled(self, total: int) -> PromptParts:
        """The same shares of another total; the largest part takes what rounding leaves."""
        old = self.total
        if not old:
            return self.model_copy(update={"tail": total})
        sizes: dict[str, int] = {name: getattr(self, name) * total // old for name in PARTS}
        largest = max(PARTS, key=lambda name: sizes[name])
        sizes[largest] += total - sum(sizes.values())
        return PromptParts(**sizes)


class PromptFigures(Frozen):
    """One request to a model, in figures. Tokens are estimates until the endpoint counted."""

    llm_id: str
    purpose: Purpose
    step_id: str = ""
    aside: bool = False
    turn_id: str = ""
    parts: PromptParts
    window: Count = Field(default=0, ge=0)  # tokens of the model; 0 when unknown
    shared: Count = Field(default=0, ge=0)  # tokens that the request of its kind before began with
    estimated: bool = True
    ended: bool = False  # however the call did
    at: float

    @property
    def tokens(self) -> int:
        """All of the request."""
        return self.parts.total

    @property
    def shared_part(self) -> float:
        """How much of it the one before had too, 0 to 1; what a cache of prompts can answer."""
        return min(self.shared / self.tokens, 1.0) if self.tokens else 0.0

    def counted(self, call: LlmCall) -> PromptFigures:
        """Ended, with what the endpoint reported; it may have reported nothing."""
        if call.estimated or call.tokens_in <= 0 or not self.tokens:
            return self.model_copy(update={"ended": True})
        shared = self.shared * call.tokens_in // self.tokens
        parts = self.parts.scaled(call.tokens_in)
        update = {"parts": parts, "shared": shared, "estimated": False, "ended": True}
        return self.model_copy(update=update)


def on_the_way(requests: Sequence[PromptFigures], turn_id: str) -> tuple[PromptFigures, ...]:
    """The requests of a turn whose replies never came: of each conversation only the newest can."""
    newest: dict[tuple[bool, str], PromptFigures] = {}
    for figures in requests:
        if figures.turn_id == turn_id:
            newest[figures.aside, figures.step_id] = figures
    return tuple(figures for figures in newest.values() if not figures.ended)


class Kept(Frozen):
    """What no compaction takes away, as it was then."""

    goal: str = ""
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    plan: str = ""
    gates: tuple[str, ...] = ()


class Compaction(Frozen):
    """The conversation up to a place no longer travels in full; a digest travels for it."""

    compaction_id: str
    by: CompactedBy
    hint: str = ""  # what the user wanted kept above all
    begins_at: str  # id of the first message that travels in full
    digest: str = ""  # empty where there is none
    failure: str = ""  # why there is no new one: of ``llm.errors``, ``unreadable``, ``budget``
    kept: Kept = Kept()
    exchanges: Count = Field(default=0, ge=0)  # that were digested
    messages: Count = Field(default=0, ge=0)  # that no longer travel in full
    results: Count = Field(default=0, ge=0)  # of them results of operations, dropped but for a line
    tokens_before: Count = Field(default=0, ge=0)  # of the conversation, estimated
    tokens_after: Count = Field(default=0, ge=0)
    at: float
