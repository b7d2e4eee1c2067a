"""Converts messages to blocks, and assigns them to turns and steps."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import (
    AssistantMessage,
    Message,
    NoticeMessage,
    UserMessage,
)
from duckflow_tui.state.gates import CardMessage
from duckflow_tui.state.goal import AttemptMessage, ReviewMessage
from duckflow_tui.state.memory import CompactionMessage
from duckflow_tui.state.plan import Plan, ReportMessage
from duckflow_tui.state.turn import TurnSummary
from duckflow_tui.ui.panes.blocks import (
    SHORTEST,
    Block,
    FoldBlock,
    Group,
    Look,
    NoticeBlock,
    QuestionBlock,
    ReplyBlock,
    UserBlock,
    frame_rows,
)
from duckflow_tui.ui.panes.card_blocks import (
    AsideQuestionBlock,
    AttemptBlock,
    CardBlock,
    ReportBlock,
    ReviewBlock,
    StepBlock,
)
from duckflow_tui.ui.panes.card_words import step_number
from duckflow_tui.ui.panes.context_blocks import CompactionBlock
from duckflow_tui.ui.panes.operation_blocks import CommandBlock, OperationBlock, is_command
from duckflow_tui.ui.panes.strips import Row, ink, rows_of
from duckflow_tui.ui.panes.work_blocks import WorkFolds
from duckflow_tui.words.figures import clock_text, cost_text, short_count, took_text


def blocks_of(message: Message, plans: Sequence[Plan] = (), above: str = "") -> list[Block]:
    """Return the blocks of a message in order; none for a reply without text and question.

    ``plans`` give the numbers of steps, ``above`` is the model's last text in the same step.
    """
    match message:
        case UserMessage():
            return [UserBlock(message.text, aside=message.aside)]
        case CardMessage():
            return [CardBlock(message)]
        case ReportMessage(report=report):
            plan = next((p for p in plans if p.plan_id == report.plan_id), None)
            repeats = report.is_repeated_in(above)
            return [ReportBlock(report, step_number(plan, report.step_id), repeats=repeats)]
        case ReviewMessage():
            return [ReviewBlock(message)]
        case AttemptMessage():
            return [AttemptBlock(message)]
        case CompactionMessage():
            return [CompactionBlock(message)]
        case OperationMessage():
            return [CommandBlock(message) if is_command(message) else OperationBlock(message)]
        case NoticeMessage():
            return [NoticeBlock(message)]
        case AssistantMessage():
            return _assistant_blocks(message)


def _assistant_blocks(message: AssistantMessage) -> list[Block]:
    """Return the blocks of a reply: thoughts, text, question."""
    blocks: list[Block] = []
    if message.reasoning.strip():
        blocks.append(FoldBlock("transcript.thought", message.reasoning, message.reasoning_s))
    if message.text.strip() or not message.complete:
        block = ReplyBlock(message.text, complete=message.complete, stopped=message.stopped)
        blocks.append(block)
    elif message.raw.strip():
        blocks.append(FoldBlock("transcript.unreadable", message.raw, None))
    question = message.decision.question if message.decision else None
    if question is not None:
        asked = question.text.strip() in message.text
        if not asked or question.options:
            blocks.append(QuestionBlock(question, asked_already=asked))
    return blocks


class TurnBlock(Block):
    """The figures of an ended turn: ``4 calls · 12.3k tokens · $0.01 · 8.1 s · waited 3:10``."""

    group: Group = "row"

    def __init__(self, turn: TurnSummary) -> None:
        super().__init__()
        self.turn = turn

    def draw_rows(self, look: Look) -> list[Row]:
        said = " · ".join(self._list_figures(look))
        return frame_rows(rows_of([(said, ink(look.palette.faint))], look.text_width), look)

    def _list_figures(self, look: Look) -> list[str]:
        """Calls, tokens, cost and time of the turn, as words."""
        turn, words = self.turn, look.words
        found: list[str] = [words("turn_line.calls", count=turn.llm_calls)]
        if turn.tokens:
            found.append(words("turn_line.tokens", count=short_count(turn.tokens)))
        if turn.cost is not None:
            found.append(cost_text(turn.cost))
        if turn.duration_s >= SHORTEST:
            found.append(took_text(turn.duration_s, words))
        if turn.waited_s >= 1:
            found.append(words("turn_line.waited", time=clock_text(turn.waited_s)))
        return found


def turn_blocks(turn: TurnSummary) -> list[Block]:
    """Return the line of figures of a turn; none where no model was asked."""
    return [TurnBlock(turn)] if turn.llm_calls else []


GUTTER = "▏"


class StepHeads:
    """Puts a heading before the first block of each step, and records where blocks are."""

    def __init__(self) -> None:
        self.work = WorkFolds()
        self._step = ""  # of the head above
        self._asked: dict[str, str] = {}  # id of a message said beside the work → its text
        self._said: dict[str, str] = {}  # by step: what the model said last in it
        self._above = ""  # id of the question that the last block asks, or answers
        self._refs: dict[str, int] = {}  # call id or message id → index of its block
        self._steps: dict[str, int] = {}  # step id → index of the first block that is about it

    def forget_all(self) -> None:
        """Start over for another conversation."""
        self.work.forget_all()
        self._step = self._above = ""
        self._asked.clear()
        self._said.clear()
        self._refs.clear()
        self._steps.clear()

    def make_blocks(self, message: Message, state: AgentState, index: int) -> list[Block]:
        """Return the blocks of a message; the first of them will have this index."""
        step_id = message.report.step_id if isinstance(message, ReportMessage) else ""
        blocks = blocks_of(message, state.plans, self._said.get(step_id, ""))
        if isinstance(message, AssistantMessage) and message.step_id and message.text.strip():
            self._said[message.step_id] = message.text
        for block in blocks:
            block.step_id = message.step_id
        if not blocks:
            return []
        blocks = self._with_question(message, blocks)
        first = blocks[0]
        heads = list[Block]()
        if message.step_id and message.step_id != self._step:
            self._step = message.step_id
            heads.append(_make_head(message.step_id, state))
        blocks = [*heads, *self.work.add_message(message, blocks, index + len(heads))]
        if message.step_id:
            self._steps.setdefault(message.step_id, index)
        if isinstance(message, ReportMessage):
            self._steps.setdefault(message.report.step_id, index)
        ref = message.call_id if isinstance(message, OperationMessage) else message.message_id
        self._refs[ref] = index + blocks.index(first)
        return blocks

    def _with_question(self, message: Message, blocks: list[Block]) -> list[Block]:
        """Add the question to an answer beside the work that does not directly follow it."""
        above, self._above = self._above, ""
        if isinstance(message, UserMessage) and message.aside:
            self._asked[message.message_id] = message.text
            self._above = message.message_id
        elif isinstance(message, AssistantMessage) and message.answers:
            self._above = message.answers
            asked = self._asked.get(message.answers, "")
            if asked and above != message.answers:
                return [AsideQuestionBlock(asked), *blocks]
        return blocks

    def with_head(self, live: Sequence[Block], state: AgentState) -> list[Block]:
        """Return the live blocks, with a heading before the first of a step that has none yet."""
        blocks = list(live)
        for at, block in enumerate(blocks):
            if block.step_id:
                if block.step_id != self._step:
                    blocks.insert(at, _make_head(block.step_id, state))
                break
        return blocks

    def find_block(self, step_id: str, ref: str) -> int | None:
        """Return the index of the finished block of a call or message, or of a step's first one;
        None without.
        """
        return self._refs.get(ref) if ref else self._steps.get(step_id)


def draw_gutter(row: Row, style: Style) -> Row:
    """Return the row with a vertical line in its margin, which marks blocks of a step."""
    text, own, _ = row[0]
    return [Segment(GUTTER, style), Segment(text[1:], own), *row[1:]]


def _make_head(step_id: str, state: AgentState) -> StepBlock:
    """Return the heading of a step; ``?`` where no plan contains it any longer."""
    for plan in reversed(state.plans):
        for number, step in enumerate(plan.steps, 1):
            if step.step_id == step_id:
                return StepBlock(str(number), step.name, step_id)
    return StepBlock("?", "", step_id)
