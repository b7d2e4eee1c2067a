"""Gates: a proposal shown to the user, and the answer bound to exactly what was shown."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen, JsonObject
from duckflow_tui.state.operations import Effect, Risk, Zone

#: A line of the context, a new one, or one that goes.
DiffMark = Literal[" ", "+", "-"]


class DiffLine(Frozen):
    """One line of a diff; numbers count from 1."""

    mark: DiffMark
    old: int | None
    new: int | None
    text: str  # without its line ending


class Hunk(Frozen):
    """A run of changed lines with its context."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[DiffLine, ...]


class FilePreview(Frozen):
    """What would become of one file. Computed by the app, never by the model."""

    path: str
    kind: str  # create, modify, delete, move
    target: str = ""  # of a move
    before_hash: str = ""  # empty: no such file now
    after_hash: str = ""  # empty: the file will be gone
    hunks: tuple[Hunk, ...] = ()
    added: int = 0
    removed: int = 0
    note: str = ""  # facts the diff cannot show: "binary, 12 KB", "CRLF", "no final newline"
    language: str = ""  # lexer name for highlighting, empty for plain text


class Impact(Frozen):
    """Computed consequences of a call."""

    files: int = 0
    added: int = 0
    removed: int = 0
    zone: Zone = Zone.NOWHERE
    risk: Risk = Risk.LOW
    reversible: bool = True
    reasons: tuple[str, ...] = ()  # codes: why the risk is what it is, e.g. "executable_extension"
    places: tuple[str, ...] = ()  # what is touched, links followed; absolute outside the workspace


class GateChoice(StrEnum):
    """The keys of a gate."""

    ONCE = "once"  # y
    SESSION = "session"  # s
    STEP = "step"  # t
    REJECT = "reject"  # n
    EDIT = "edit"  # e
    ALTERNATIVE = "alternative"  # 1…9


class Gate(Frozen):
    """A question to the user. What it shows is frozen; a change outside opens another."""

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
    previews: tuple[FilePreview, ...] = ()
    can_grant_session: bool = False
    can_grant_step: bool = False  # only while a step of a plan runs
    needs_word: str = ""  # what must be typed before this may be approved, once in a session
    facts: dict[str, str] = Field(default_factory=dict)  # figures of the app: argv, cwd, sandbox
    step_id: str = ""  # the plan's step that asks
    can_edit: bool = False
    grant_pattern: str = ""  # what ``s`` would allow, in words of the policy: "edit src/a.py"
    edited_by_user: bool = False
    checks: str = ""  # the requirement whose check this is: the app asks, in a review
    renewed: bool = False  # the file changed outside since the last preview
    opened_at: float  # seconds since the epoch


class GateAnswer(Frozen):
    """The user's key, bound to the gate, the call, its arguments and the files as shown."""

    gate_id: str
    call_id: str
    args_hash: str
    before_hashes: tuple[str, ...] = ()
    choice: GateChoice
    reason: str = ""  # of a rejection
    alternative: int | None = Field(default=None, ge=1, le=9)
    left_out: tuple[tuple[int, int], ...] = ()  # (file index, hunk index) not taken
    word: str = ""  # what was typed where the gate wants a word
    edited: str | None = None  # whole new content of the one file, for EDIT

    @property
    def approves(self) -> bool:
        """Whether the call may run."""
        return self.choice in (GateChoice.ONCE, GateChoice.SESSION, GateChoice.STEP)


class Grant(Frozen):
    """Consent that outlives one call: the same operation on the same thing, for this session, or
    until the step ends that it was given in.
    """

    grant_id: str
    operation: str
    path: str  # of a file; of another operation: what its grant is about
    gate_id: str  # the gate whose answer gave it
    step_id: str = ""


def before_hashes(gate: Gate) -> tuple[str, ...]:
    """The hashes an answer must carry: one for each previewed file."""
    return tuple(preview.before_hash for preview in gate.previews)
