"""Operations as values: what can be called, what was requested, and results."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen, JsonObject, one_line

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState


class Effect(StrEnum):
    """The effect of an operation, from harmless to dangerous."""

    READ = "read"
    WRITE = "write"
    MOVE = "move"
    DELETE = "delete"
    EXECUTE = "execute"
    REMOTE = "remote"  # a server's tool with side effects
    STATE = "state"  # changes only our own state (plans, memory)


FILE_CHANGES: Final = frozenset({Effect.WRITE, Effect.MOVE, Effect.DELETE})
SIDE_EFFECTS: Final = FILE_CHANGES | {Effect.EXECUTE, Effect.REMOTE}


class Weight(StrEnum):
    """Light operations run in the turn, heavy ones as work of their own (S2-7)."""

    LIGHT = "light"
    HEAVY = "heavy"


class Need(StrEnum):
    """A precondition for calls of an operation."""

    CONVERSATION = "conversation"  # it is asked for there: by no step, by no answer beside work
    WORKER = "worker"  # it is asked for by the conversation or a step: by no answer beside work
    PLAN = "plan"  # a plan is in hand
    WORK = "work"  # work runs beside the one who asks
    PROCESS = "process"  # a command was started in the background
    NOTES = "notes"  # earlier sessions noted something


class OperationSpec(Frozen):
    """One entry of the registry, as prompts and native calls name it."""

    name: str  # dotted: file_ops.read_file
    summary: str  # one sentence for the model
    parameters: JsonObject  # JSON schema of the arguments, an object
    effect: Effect
    weight: Weight = Weight.LIGHT
    needs: tuple[Need, ...] = ()  # all of them; a model is not told of what could do nothing
    listed: bool = False  # told on a line and called by the function for all such calls

    @property
    def has_side_effects(self) -> bool:
        """Whether a call may change anything outside our own state."""
        return self.effect in SIDE_EFFECTS


class Risk(StrEnum):
    """The risk of a call: the highest of operation, path and content."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"

    @property
    def rank(self) -> int:
        """The level as a number, 0 for LOW to 3 for CRITICAL."""
        return list(Risk).index(self)

    def raise_level(self) -> Risk:
        """Return the next higher level; CRITICAL stays."""
        return list(Risk)[min(self.rank + 1, 3)]


class Zone(StrEnum):
    """Where a path lies."""

    INSIDE = "inside"
    SECRET = "secret"  # inside, but .env, keys and the like
    OUTSIDE = "outside"
    PROTECTED = "protected"  # never written, not even with approval
    NOWHERE = "nowhere"  # the operation touches no path


class ApprovalMode(StrEnum):
    """How much runs without asking; see the table in ``safety/policy.py``."""

    PLAN = "plan"
    STRICT = "strict"
    STANDARD = "standard"
    TRUSTED = "trusted"


class Permissions(Frozen):
    """Names of operations by what the policy currently decides for ordinary calls."""

    runs: tuple[str, ...] = ()  # without a question
    asks: tuple[str, ...] = ()  # the user; where nobody is there, it is refused
    refused: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()  # what consents and rules allow beyond that, as they show it


class Ruling(Frozen):
    """The policy's last verdict on a call, and the rule that decided it."""

    said: Literal["allow", "gate", "deny"]
    mode: ApprovalMode
    row: str = ""  # of the policy's table; empty where none speaks about the call
    code: str = ""  # what decided before the mode did: "protected", "granted", "secret"
    rules: tuple[str, ...] = ()  # ids of the grants that allowed it


class Outcome(StrEnum):
    """How a call ended."""

    OK = "ok"
    ERROR = "error"  # it ran, or tried to, and failed
    INVALID = "invalid"  # unknown operation, wrong arguments: nothing ran
    DENIED = "denied"  # the policy refused it, or headless had no consent
    REJECTED = "rejected"  # the user said no in the gate
    DECLINED = "declined"  # the user took an alternative instead
    STOPPED = "stopped"  # the turn was stopped before it ran or while it ran
    SKIPPED = "skipped"  # an earlier "no" or an error kept it from running

    @property
    def is_refused(self) -> bool:
        """Whether the user did not want the call."""
        return self in (Outcome.REJECTED, Outcome.DECLINED)

    @property
    def is_forbidden(self) -> bool:
        """Whether the user, a rule or the mode did not let the call run."""
        return self.is_refused or self is Outcome.DENIED

    @property
    def is_failure(self) -> bool:
        """Whether the call itself was at fault, or what it met."""
        return self in (Outcome.ERROR, Outcome.INVALID)

    @property
    def may_have_effects(self) -> bool:
        """Whether the call ran, at least in part."""
        return self in (Outcome.OK, Outcome.ERROR, Outcome.STOPPED)


class FileChange(Frozen):
    """A change of one file, with enough to show and undo it.

    ``before`` and ``after`` are SHA-256 of the whole file, empty where there is none; the bytes
    before are in the blob store under ``before``.
    """

    path: str  # as shown: relative to the workspace where inside
    kind: str  # create, modify, delete, move
    target: str = ""  # of a move
    before: str = ""
    after: str = ""
    before_mode: int | None = None  # permission bits of the file before
    after_mode: int | None = None  # and after it; None where they are not known or there is none
    before_size: int = 0  # bytes, 0 where there is no file
    after_size: int = 0
    directories: tuple[str, ...] = ()  # that came or went with it, the outermost first
    added: int = 0  # lines
    removed: int = 0  # lines

    @property
    def hashes_after(self) -> dict[str, str]:
        """The hash of each file of the change after it, by path; empty where there is no file."""
        return {self.path: "", self.target: self.after} if self.target else {self.path: self.after}


#: Tokens that a picture is counted as: what Claude takes of the largest; others take fewer of most
#: (Anthropic's guide to vision, 2026).
IMAGE_TOKENS: Final = 1_600


class Image(Frozen):
    """A picture in a result. Its bytes are the blob of the session with this SHA-256."""

    sha: str
    mime: str  # image/png, image/jpeg, image/gif or image/webp
    size: int  # bytes


class OperationResult(Frozen):
    """The result of a call."""

    outcome: Outcome
    text: str  # for the model: the content, or what went wrong and what to do
    summary: str = ""  # for the screen: one short line of figures, no sentence
    changes: tuple[FileChange, ...] = ()
    touched: tuple[FileChange, ...] = ()  # by a command, as its files before and after it show
    destroyed: tuple[FileChange, ...] = ()  # ignored files that a command deleted or overwrote
    covered: bool = False  # a command, and ``touched`` is all it changed of files not ignored
    truncated_chars: int = Field(default=0, ge=0)  # left out of text; the whole is in ``blob``
    blob: str = ""  # hash of the whole text where it was cut
    images: tuple[Image, ...] = ()  # models that see are shown them behind the text
    exit_code: int | None = None  # of a command that ended; negative: the signal that ended it
    duration_s: float = 0.0
    unknown: bool = False  # the app ended while it ran: nobody saw how it ended

    @property
    def undoable_changes(self) -> tuple[FileChange, ...]:
        """The changes that an undo of this call reverts: its own, or those of a command to files
        that it touched or destroyed. Whether their contents are stored is not checked.
        """
        return self.changes or (*self.touched, *self.destroyed)

    @property
    def shown_changes(self) -> tuple[FileChange, ...]:
        """The changes to show: all, but of files ignored by git only deletions."""
        deleted = (change for change in self.destroyed if change.kind == "delete")
        return self.changes or (*self.touched, *deleted)

    @property
    def label(self) -> str:
        """The outcome as shown to the model before the text; a command that failed is not "ok"."""
        if self.outcome is Outcome.OK and not self.went_well:
            return f"[exit {self.exit_code}]"
        return f"[{self.outcome.value}]"

    @property
    def went_well(self) -> bool:
        """Whether the call ran and, for a command, exited with 0."""
        return self.outcome is Outcome.OK and self.exit_code in (None, 0)


#: Arguments that name what a call is about, the most telling first.
_TARGETS: Final = (
    *("path", "source", "command", "pattern", "glob", "query", "url", "uri", "step_id", "goal"),
)


def describe_target(args: JsonObject, limit: int = 80) -> str:
    """Return the path, command or query in a call's arguments on one line of at most ``limit``
    characters; empty where they have none.
    """
    for name in _TARGETS:
        value = args.get(name)
        if isinstance(value, str) and value:
            return one_line(value, limit)
    return ""


def change_running(state: AgentState, call_id: str, **fields: Any) -> None:
    """Replace fields of a running call; does nothing where it does not run."""
    for at, call in enumerate(state.running):
        if call.call_id == call_id:
            changed = call.replace(**fields)
            state.running = (*state.running[:at], changed, *state.running[at + 1 :])
