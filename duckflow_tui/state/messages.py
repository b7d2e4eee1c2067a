"""The conversation: an append-only list of frozen items, one source for screen and model."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen, JsonObject
from duckflow_tui.state.decision import TurnDecision
from duckflow_tui.state.gates import Gate, GateAnswer
from duckflow_tui.state.operations import OperationResult


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
    at: float


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
    result: OperationResult
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
    at: float


Message = Annotated[
    UserMessage | AssistantMessage | OperationMessage | NoticeMessage,
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
    started: bool = False  # false while it waits for a gate or its turn
    at: float  # of the intent, or of the start once started
    progress: str = ""
