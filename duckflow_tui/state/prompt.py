"""A request to a model before it is encoded: written by ``prompting/``, encoded by the codecs."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from duckflow_tui.state.base import Frozen
from duckflow_tui.state.conversation import Message
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.usage import PromptParts


class ChatMessage(NamedTuple):
    """A message of a request to a model, other than a decision."""

    role: Literal["system", "user", "assistant"]
    content: str


class LayerUse(Frozen):
    """How much of its token budget a layer used (S4-80)."""

    layer: str  # base, operations, project, format, history, main, specialized
    tokens: int
    budget: int  # what it could take, with what it borrowed from others; 0: no limit
    trimmed: tuple[str, ...] = ()  # what was cut to fit, in trim order (S4-78)


class Prompt(Frozen):
    """A request, its stable parts first, so that servers can cache the prefix.

    Within a turn, ``system`` and the encoded ``history`` of one request are a prefix of the next;
    only ``tail`` changes freely.
    """

    system: str  # base layer, operations, project instructions
    sections: tuple[str, ...] = ()  # of ``system``: base, operations, project
    formats: dict[str, str] = Field(default_factory=dict)  # codec → its output-format block
    history: tuple[Message, ...] = ()
    tail: str = ""  # main layer with the working memory, and the specialized part
    operations: tuple[OperationSpec, ...] = ()  # the model is told of
    at_hand: tuple[OperationSpec, ...] = ()  # it is told of at the end, beside these
    known: tuple[OperationSpec, ...] = ()  # all there are: a call of one not told of is told why
    pattern: PromptPattern = PromptPattern.BASE_MAIN
    uses: tuple[LayerUse, ...] = Field(default=())
    parts: PromptParts = PromptParts()
    sizes: tuple[int, ...] = ()  # tokens of each item of ``history``
    thread: str = ""  # of work that asks: id of the turn or step, or ``aside`` and of the message
    tight: bool = False  # what was read for the request in hand does not all travel
