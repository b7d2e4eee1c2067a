"""The conversation's threads: which items belong to which step, and on which block each lies."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, UserMessage
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.ui.panes.blocks import Block, blocks_of
from duckflow_tui.ui.panes.card_blocks import QuestionBlock, StepBlock
from duckflow_tui.ui.panes.strips import Row

GUTTER = "▏"


class Threads:
    """Puts a head before the first item of a step, and remembers where everything is."""

    def __init__(self) -> None:
        self._step = ""  # of the head above
        self._asked: dict[str, str] = {}  # id of a message said beside the work → its text
        self._above = ""  # id of the question that the last block asks, or answers
        self._refs: dict[str, int] = {}  # call id or message id → index of its block
        self._steps: dict[str, int] = {}  # step id → index of the first block that is about it

    def clear(self) -> None:
        """Another conversation."""
        self._step = self._above = ""
        self._asked.clear()
        self._refs.clear()
        self._steps.clear()

    def blocks(self, message: Message, state: AgentState, index: int) -> list[Block]:
        """The blocks of a message; the first of them will lie at ``index``."""
        blocks = blocks_of(message, state.plans)
        own = len(blocks)
        for block in blocks:
            block.step_id = message.step_id
        if blocks:
            blocks = self._with_question(message, blocks)
            own = len(blocks)
        if blocks and message.step_id and message.step_id != self._step:
            self._step = message.step_id
            blocks.insert(0, _head(message.step_id, state))
        if blocks and message.step_id:
            self._steps.setdefault(message.step_id, index)
        if blocks and isinstance(message, ReportMessage):
            self._steps.setdefault(message.report.step_id, index)
        if isinstance(message, OperationMessage):
            self._refs[message.call_id] = index + len(blocks) - 1
        elif blocks:
            self._refs[message.message_id] = index + len(blocks) - own
        return blocks

    def _with_question(self, message: Message, blocks: list[Block]) -> list[Block]:
        """An answer beside the work that does not stand right below its question names it."""
        above, self._above = self._above, ""
        if isinstance(message, UserMessage) and message.aside:
            self._asked[message.message_id] = message.text
            self._above = message.message_id
        elif isinstance(message, AssistantMessage) and message.answers:
            self._above = message.answers
            asked = self._asked.get(message.answers, "")
            if asked and above != message.answers:
                return [QuestionBlock(asked), *blocks]
        return blocks

    def with_head(self, live: Sequence[Block], state: AgentState) -> list[Block]:
        """Blocks in flight; the first of a step that has no head yet gets one."""
        blocks = list(live)
        for at, block in enumerate(blocks):
            if block.step_id:
                if block.step_id != self._step:
                    blocks.insert(at, _head(block.step_id, state))
                break
        return blocks

    def place(self, step_id: str, ref: str) -> int | None:
        """Index of the finished block of a call or a message, or with none named of a step."""
        return self._refs.get(ref) if ref else self._steps.get(step_id)


def guttered(row: Row, style: Style) -> Row:
    """The row with a line in its margin, as items of a step have it."""
    text, own, _ = row[0]
    return [Segment(GUTTER, style), Segment(text[1:], own), *row[1:]]


def _head(step_id: str, state: AgentState) -> StepBlock:
    for plan in reversed(state.plans):
        for number, step in enumerate(plan.steps, 1):
            if step.step_id == step_id:
                return StepBlock(str(number), step.name, step_id)
    return StepBlock("?", "", step_id)
