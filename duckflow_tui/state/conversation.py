"""The conversation: its messages, and the queue of messages that wait for the next turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Event, Frozen, InConversation, JsonObject, StateError
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.decision import TurnDecision
from duckflow_tui.state.gates import CardMessage
from duckflow_tui.state.goal import AttemptMessage, ReviewMessage
from duckflow_tui.state.memory import CompactionMessage
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.usage import Api

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState

#: Before what the user said while work ran, for the model.
BESIDE_THE_WORK: Final = "[said while the work ran, and answered beside it]"


class Level(StrEnum):
    """The importance of a notice."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class UserMessage(InConversation):
    """A message of the user."""

    kind: Literal["user"] = "user"
    text: str
    aside: bool = False  # said while work ran, and answered beside it
    quoted: bool = False  # it may hold what the user did not write: a paste, a pipe, a prompt

    @property
    def for_model(self) -> str:
        """The text that the model receives."""
        return f"{BESIDE_THE_WORK}\n{self.text}" if self.aside else self.text


class RefusedCall(Frozen):
    """A native call that could not be used, as it was received; ``arguments`` is unparsed text."""

    wire_id: str
    name: str
    arguments: str


class Thought(Frozen):
    """Reasoning data that a model wants back unchanged with its message, sometimes signed. It is
    sent only to the same model, origin and API: by chat completions within its turn, by the
    Responses API in later turns too.
    """

    origin: str  # scheme, host and port
    model: str
    api: Api = "chat"
    fields: JsonObject  # of the message, such as ``reasoning_content``
    calls: dict[str, JsonObject] = Field(default_factory=dict[str, JsonObject])
    """Extra fields of its native calls, by ``call_key``."""

    @property
    def added_fields(self) -> JsonObject:
        """The data that the message's text and calls do not contain anyway."""
        if self.api == "chat":
            return {**self.fields, **self.calls}
        return {"items": [item for item in self.fields["output"] if item["type"] == "reasoning"]}


def call_key(name: str, number: int) -> str:
    """Return a key for the n-th call of a function in one message, counted from 1; ids are not
    always unique.
    """
    return f"{name}:{number}"


class AssistantMessage(InConversation):
    """A reply of the model; ``raw`` and ``calls`` are set only for a reply that could not
    be used.
    """

    kind: Literal["assistant"] = "assistant"
    llm_id: str
    text: str  # the reply, markdown; a part of it when ``complete`` is false
    reasoning: str = ""
    reasoning_s: float = 0.0
    decision: TurnDecision | None = None
    protocol: Literal["json", "tools"] = "json"
    raw: str = ""
    calls: tuple[RefusedCall, ...] = ()
    complete: bool = True
    stopped: bool = False  # by the user, while it arrived; ``complete`` is false then
    aside: bool = False
    answers: str = ""  # id of the message that was said beside the work and is answered
    thought: Thought | None = None


class NoticeMessage(InConversation):
    """A message of the app: a key of the catalogue, so that the language can change.

    ``params`` may hold untrusted text, which is escaped when shown. ``for_model`` is sent to the
    model as a user message; empty: nothing is sent.
    """

    kind: Literal["notice"] = "notice"
    level: Level = Level.INFO
    key: str
    params: dict[str, str] = Field(default_factory=dict)
    for_model: str = ""
    aside: bool = False  # ``for_model`` is for the one who answers beside the work
    fresh: bool = False  # the thread begins anew here: what was before travels as digests only


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
    quoted: bool = False  # as of ``UserMessage``


def forget_rewound(state: AgentState) -> None:
    """Drop the messages kept for undoing a rewind."""
    state.rewound = None
    state.rewound_messages = []


@dataclass(eq=False)
class ConversationState:
    """The messages of the conversation. They are only appended, except by a rewind."""

    messages: list[Message] = field(default_factory=list[Message])
    queue: tuple[QueuedMessage, ...] = ()


class UserMessageAdded(Event, kind="user_message"):
    """A message of the user entered the conversation."""

    message: UserMessage

    def apply(self, state: AgentState) -> None:
        state.queue = tuple(q for q in state.queue if q.message_id != self.message.message_id)
        state.messages.append(self.message)
        forget_rewound(state)
        _clear_sent_draft(state, self.message.text)


class MessageQueued(Event, kind="message_queued"):
    """A message sent while work runs waits for the next turn."""

    message: QueuedMessage

    def apply(self, state: AgentState) -> None:
        state.queue = (*state.queue, self.message)
        _clear_sent_draft(state, self.message.text)


class QueueItemChanged(Event, kind="queue_item_changed"):
    """The user rewrote a waiting message."""

    message_id: str
    text: str

    def apply(self, state: AgentState) -> None:
        if all(q.message_id != self.message_id for q in state.queue):
            raise StateError(f"no message {self.message_id} waits")
        state.queue = tuple(
            q.replace(text=self.text, quoted=True) if q.message_id == self.message_id else q
            for q in state.queue
        )


class QueueItemRemoved(Event, kind="queue_item_removed"):
    """The user took a waiting message back."""

    message_id: str

    def apply(self, state: AgentState) -> None:
        if all(q.message_id != self.message_id for q in state.queue):
            raise StateError(f"no message {self.message_id} waits")
        state.queue = tuple(q for q in state.queue if q.message_id != self.message_id)


class NoticeAdded(Event, kind="notice"):
    """The app added a message of its own."""

    message: NoticeMessage

    def apply(self, state: AgentState) -> None:
        state.messages.append(self.message)


class AssistantReplied(Event, kind="assistant_message"):
    """A reply of the model ended, complete or cut short."""

    message: AssistantMessage

    def apply(self, state: AgentState) -> None:
        state.live.pop(self.message.llm_id, None)
        state.messages.append(self.message)


def _clear_sent_draft(state: AgentState, text: str) -> None:
    """Clear the draft where it holds just this text."""
    if state.draft.strip() == text:
        state.draft = ""
