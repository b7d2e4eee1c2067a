"""What is in flight, below the last message: replies arriving, operations running, what waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible, visible_line
from duckflow_tui.state.agent import AgentState, LiveReply, Waiting
from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.state.messages import QueuedMessage, RunningOperation
from duckflow_tui.state.work import WorkStatus
from duckflow_tui.ui.panes.blocks import (
    Block,
    FoldBlock,
    Group,
    Look,
    ReplyBlock,
    barred,
    framed,
    reply_rows,
    seconds_text,
    whole_seconds,
)
from duckflow_tui.ui.panes.operation_blocks import operation_row
from duckflow_tui.ui.panes.strips import PLAIN, Row, fit, ink, row_cells, rows_of

if TYPE_CHECKING:
    from duckflow_tui.ui.panes.markdown import MarkdownDocument

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
STILL: Final = "◌"  # where nothing may move

LIVE_REASONING: Final = 4_000  # characters of it that are shown while it still grows

_SPOKEN: Final = ("main", "task", "report")  # calls whose text is for the user


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is drawn: seconds since the epoch, and the spinner's sign."""

    now: float
    sign: str = STILL


class LiveReplyBlock(Block):
    """A reply that arrives: what is finished of it is drawn once."""

    def __init__(self, llm_id: str) -> None:
        super().__init__()
        self.llm_id = llm_id
        self.measured = True
        self.thought: FoldBlock | None = None  # the reasoning before it
        self._taken = 0  # pieces of ``LiveReply.text`` that were fed
        self._document: MarkdownDocument | None = None
        self._framed: list[Row] = []

    def follow(self, live: LiveReply, look: Look) -> None:
        """Draw what arrived since the last time."""
        fresh = live.text[self._taken :]
        self._taken += len(fresh)
        document = self._document_in(look)
        stable = min(document.stable, len(self._framed))
        for piece in fresh:
            document.feed(piece)
        changed = document.set_look(look.palette, look.text_width)
        if document.update() or changed:
            del self._framed[0 if changed else stable :]
            start = len(self._framed)
            self._framed += reply_rows(document.rows[start:], look, first=not start)
        self.rows = self._framed
        self.height = len(self.rows)

    def hand_over(self, block: ReplyBlock, look: Look) -> None:
        """Give a finished reply the rows that are drawn already, where its text is the same."""
        document = self._document
        if document is None or not block.text.startswith(document.source):
            return
        if document.set_look(look.palette, look.text_width):
            self._framed.clear()
        stable = min(document.stable, len(self._framed))
        document.feed(block.text[len(document.source) :])
        document.update()
        block.rows = block.finished(document, self._framed[:stable], look)
        block.height = len(block.rows)
        block.measured = True

    def draw(self, look: Look) -> list[Row]:
        return self._framed

    @property
    def source(self) -> str:
        return self._document.source if self._document else ""

    @property
    def said(self) -> str:
        return self.source

    def _document_in(self, look: Look) -> MarkdownDocument:
        if self._document is None:
            from duckflow_tui.ui.panes.markdown import MarkdownDocument

            self._document = MarkdownDocument(look.palette, look.text_width)
        return self._document


class ReadyBlock(Block):
    """Rows that are drawn anew whenever they may have changed."""

    def __init__(self, rows: list[Row], group: Group, *, moves: bool = False) -> None:
        super().__init__()
        self.rows = rows
        self.height = len(rows)
        self.measured = True
        self.group = group
        self.moves = moves  # shows time or a spinner

    def draw(self, look: Look) -> list[Row]:
        return self.rows or []


def live_blocks(
    state: AgentState,
    replies: dict[str, LiveReplyBlock],
    look: Look,
    moment: Moment,
    *,
    opened: bool,
    queue: bool,
) -> list[Block]:
    """Everything below the last message; ``replies`` keeps the drawn text of calls by their id.

    ``opened`` shows reasoning as it comes, ``queue`` messages that wait.
    """
    blocks: list[Block] = []
    for live in state.live.values():
        blocks.extend(_reply(live, replies, look, moment, opened=opened))
    asking = {gate.call_id for gate in state.gates}
    for running in state.running:
        blocks.append(_running(running, look, moment, needs_you=running.call_id in asking))
    if state.gates:
        blocks.append(_at_the_gate(state, look))
    if queue:
        blocks.extend(_queued(message, look) for message in state.queue)
    return blocks


def _reply(
    live: LiveReply, replies: dict[str, LiveReplyBlock], look: Look, moment: Moment, *, opened: bool
) -> list[Block]:
    blocks: list[Block] = []
    spoken = live.purpose in _SPOKEN
    reply: LiveReplyBlock | None = None
    if spoken and live.text:
        reply = replies.setdefault(live.llm_id, LiveReplyBlock(live.llm_id))
        reply.follow(live, look)
    if spoken and live.reasoning:
        if reply is None:
            blocks.append(_thinking(live, look, moment, opened=opened))
        else:
            blocks.append(_thought(live, reply, opened=opened))
    if reply is not None and reply.height:
        blocks.append(reply)
    if live.waiting is not None:
        said = waiting_text(live.waiting, look, moment)
        blocks.append(_moving(said, "", look, moment, look.palette.accent))
    elif not blocks:
        said = look.words(f"transcript.purpose.{live.purpose}")
        time = whole_seconds(moment.now - live.started_at, look.words)
        blocks.append(_moving(said, time, look, moment, look.palette.quiet))
    return blocks


def _thinking(live: LiveReply, look: Look, moment: Moment, *, opened: bool) -> Block:
    text = "".join(live.reasoning)
    time = whole_seconds(moment.now - (live.reasoning_started or live.started_at), look.words)
    said = look.words("transcript.thinking", time=time, count=f"{len(text):,}")
    moving = _moving(said, "", look, moment, look.palette.quiet)
    if not opened:
        return moving
    if len(text) > LIVE_REASONING:
        text = ELLIPSIS + text[-LIVE_REASONING:]
    body = [(visible(text.strip("\n")), ink(look.palette.quiet, italic=True))]
    rows = framed(barred(rows_of(body, look.text_width - 4), look), look)
    return ReadyBlock([*(moving.rows or []), *rows], "row", moves=True)


def _thought(live: LiveReply, reply: LiveReplyBlock, *, opened: bool) -> FoldBlock:
    if reply.thought is None:
        began = live.reasoning_started or live.started_at
        time = max(0.0, (live.first_text_at or began) - began)
        reply.thought = FoldBlock("transcript.thought", "".join(live.reasoning), time)
        reply.thought.opened = opened
    return reply.thought


def waiting_text(waiting: Waiting, look: Look, moment: Moment) -> str:
    """Why a call does not move, and since or until when."""
    words = look.words
    if waiting.reason == "silent":
        time = whole_seconds(moment.now - waiting.since, words)
        return words("transcript.waiting.silent", time=time)
    key = f"transcript.waiting.{waiting.reason}"
    reason = words(key) if words.has(key) else visible_line(waiting.reason)
    if waiting.until is None:
        time = whole_seconds(moment.now - waiting.since, words)
        return words("transcript.waits_since", reason=reason, time=time)
    left = max(0.0, waiting.until - moment.now)
    time = whole_seconds(left + 0.999, words)
    return words("transcript.tries_again", reason=reason, time=time)


def _moving(said: str, time: str, look: Look, moment: Moment, color: str) -> ReadyBlock:
    width = look.text_width - 2
    text = f"{said}  {time}" if time else said
    row = [
        Segment(f"{moment.sign} ", ink(look.palette.accent)),
        Segment(fit(text, width), ink(color)),
    ]
    return ReadyBlock(framed([row], look), "row", moves=True)


def _running(running: RunningOperation, look: Look, moment: Moment, *, needs_you: bool) -> Block:
    palette, words = look.palette, look.words
    figures = visible_line(running.progress)
    if needs_you:
        sign = Segment("◆ ", ink(palette.accent))
        right: Row = [Segment(words("transcript.needs_you"), ink(palette.accent))]
    elif running.started:
        sign = Segment(f"{moment.sign} ", ink(palette.accent))
        elapsed = moment.now - running.at
        time = whole_seconds(elapsed, words) if elapsed >= 1 else seconds_text(elapsed, words)
        right = [Segment(time, ink(palette.faint))] if elapsed >= 1 else []
    else:
        sign = Segment("○ ", ink(palette.faint))
        right = [Segment(words("transcript.its_turn"), ink(palette.faint))]
    row = operation_row(sign, running.operation, running.args, figures, right, look)
    return ReadyBlock(framed([row], look), "row", moves=running.started)


def _at_the_gate(state: AgentState, look: Look) -> Block:
    words = look.words
    said = words("transcript.waiting_for_you")
    plan = state.active_plan
    if plan is not None and plan.steps:
        current = next(
            (at for at, s in enumerate(plan.steps, 1) if s.status is WorkStatus.IN_PROGRESS), 0
        )
        if current:
            said = words("transcript.step_waits", step=current, steps=len(plan.steps))
    rows = rows_of([(said, ink(look.palette.quiet))], look.text_width)
    return ReadyBlock(framed(rows, look), "text")


def _queued(message: QueuedMessage, look: Look) -> Block:
    palette = look.palette
    chip = Segment(f" {look.words('transcript.queued')} ", ink(palette.accent, on=palette.raised))
    rows = rows_of([(visible(message.text.strip("\n")), ink(palette.quiet))], look.text_width)
    last = rows[-1]
    if row_cells(last) + 2 + chip.cell_length <= look.text_width:
        rows[-1] = [*last, Segment("  ", PLAIN), chip]
    else:
        rows.append([chip])
    return ReadyBlock(framed(rows, look, ("›", ink(palette.faint))), "text")


def moves(blocks: Sequence[Block]) -> bool:
    """Whether any of the blocks shows time or a spinner."""
    return any(isinstance(block, ReadyBlock) and block.moves for block in blocks)
