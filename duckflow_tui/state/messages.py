"""The conversation: a list of frozen items, one source for screen and model. It only grows, until
the user goes back in it.

An item with a ``step_id`` belongs to the work on that step of a plan. The screen shows all items
in their order; the model reads, for a step, those of the step, and in the conversation those
of none.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen, JsonObject
from duckflow_tui.state.cards import Card, CardAnswer
from duckflow_tui.state.context import Compaction
from duckflow_tui.state.decision import TurnDecision
from duckflow_tui.state.gates import FilePreview, Gate, GateAnswer
from duckflow_tui.state.objective import ExecutionPlan, Review
from duckflow_tui.state.operations import FileChange, OperationResult
from duckflow_tui.state.work import Plan, StepReport

#: Before what the user said while work ran, for the model.
BESIDE_THE_WORK: Final = "[said while the work ran, and answered beside it]"


class Level(StrEnum):
    """How loud a notice is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class UserMessage(Frozen):
    """What the user sent."""

    kind: Literal["user"] = "user"
    message_id: str
    text: str
    aside: bool = False  # said while work ran, and answered beside it
    step_id: str = ""
    at: float

    @property
    def for_model(self) -> str:
        """What the model is told."""
        return f"{BESIDE_THE_WORK}\n{self.text}" if self.aside else self.text


class AssistantMessage(Frozen):
    """What the model replied. ``raw`` is kept only for a reply that could not be parsed."""

    kind: Literal["assistant"] = "assistant"
    message_id: str
    llm_id: str
    text: str  # the reply, markdown; a part of it when ``complete`` is false
    reasoning: str = ""
    reasoning_s: float = 0.0
    decision: TurnDecision | None = None
    protocol: Literal["json", "tools"] = "json"
    raw: str = ""
    complete: bool = True
    step_id: str = ""
    aside: bool = False
    answers: str = ""  # id of the message that was said beside the work and is answered
    at: float


class OperationMessage(Frozen):
    """A call and what came of it, in the place where it ended."""

    kind: Literal["operation"] = "operation"
    call_id: str
    operation: str
    args: JsonObject
    reasoning: str = ""
    intent: str = ""
    gate: Gate | None = None  # the gate it went through, as last shown
    answer: GateAnswer | None = None
    previews: tuple[FilePreview, ...] = ()  # of a change that went through no gate
    allowed: str = ""  # what let an effect happen unasked: the name of a mode, or "granted"
    result: OperationResult
    step_id: str = ""
    by_user: bool = False  # the user ran it with ``!``; the model is told as of any other event
    for_requirement: str = ""  # the app ran it as the check of this requirement, not the model
    at: float


class NoticeMessage(Frozen):
    """A word from the app itself: a key of the catalogue, so that languages can be switched.

    ``params`` hold untrusted text too; it is shown sanitised. ``for_model`` is what the model
    is told about it, as a user-role line, empty for nothing.
    """

    kind: Literal["notice"] = "notice"
    message_id: str
    level: Level = Level.INFO
    key: str
    params: dict[str, str] = Field(default_factory=dict)
    for_model: str = ""
    step_id: str = ""
    aside: bool = False  # ``for_model`` is for the one who answers beside the work
    fresh: bool = False  # the thread begins anew here: what was before travels as digests only
    at: float


class CardMessage(Frozen):
    """A card and its answer, in the place where the user gave it."""

    kind: Literal["card"] = "card"
    message_id: str
    card: Card
    plan: Plan | None = None  # as it was then
    answer: CardAnswer
    for_model: str = ""  # what the model is told, empty where a call's result says it
    step_id: str = ""
    at: float


class ReportMessage(Frozen):
    """How a step ended (S2-23)."""

    kind: Literal["report"] = "report"
    message_id: str
    report: StepReport
    for_model: str = ""  # what the model is told, empty where a call's result says it
    step_id: str = ""  # empty: the report belongs to the conversation
    at: float


class ReviewMessage(Frozen):
    """What an attempt was judged to be, with the evidence (S1-27)."""

    kind: Literal["review"] = "review"
    message_id: str
    review: Review
    for_model: str = ""
    step_id: str = ""
    at: float


class AttemptMessage(Frozen):
    """A further attempt begins: what it means to do, keep to and avoid (S1-25)."""

    kind: Literal["attempt"] = "attempt"
    message_id: str
    attempt: int = Field(ge=1)
    max_attempts: int = Field(ge=1)
    plan: ExecutionPlan
    for_model: str = ""
    step_id: str = ""
    at: float


class CompactionMessage(Frozen):
    """The conversation before was compacted. The model reads the digest at the head of what
    travels, not here.
    """

    kind: Literal["compaction"] = "compaction"
    message_id: str
    compaction: Compaction
    for_model: Literal[""] = ""
    step_id: str = ""
    at: float


Message = Annotated[
    UserMessage
    | AssistantMessage
    | OperationMessage
    | NoticeMessage
    | CardMessage
    | ReportMessage
    | ReviewMessage
    | AttemptMessage
    | CompactionMessage,
    Field(discriminator="kind"),
]


class QueuedMessage(Frozen):
    """A message sent while work runs; it waits for the next turn."""

    message_id: str
    text: str
    at: float


class RunningOperation(Frozen):
    """A call that was asked for and has not ended."""

    call_id: str
    operation: str
    args: JsonObject
    reasoning: str = ""
    intent: str = ""
    step_id: str = ""
    by_user: bool = False
    started: bool = False  # false while it waits for a gate or its turn
    at: float  # of the intent, or of the start once started
    progress: str = ""
    gate: Gate | None = None  # the answered one, as it was shown
    answer: GateAnswer | None = None
    expects: tuple[FileChange, ...] = ()  # what it is about to do to files, once started
