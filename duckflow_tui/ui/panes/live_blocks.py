"""Blocks for what is in progress, below the last message: streaming replies, running
calls, waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.state.calls import LiveOutput, RunningOperation
from duckflow_tui.state.gates import CardKind
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.usage import LiveReply
from duckflow_tui.ui.panes.blocks import (
    MOST_REPLY,
    Block,
    FoldBlock,
    Group,
    Look,
    bar_rows,
    frame_rows,
)
from duckflow_tui.ui.panes.operation_blocks import operation_row, own_mark
from duckflow_tui.ui.panes.plan_rows import step_place, worked_s
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import clock_text, time_words, waiting_words

if TYPE_CHECKING:
    from duckflow_tui.ui.panes.markdown import MarkdownDocument


FOLDED_LINES: Final = 5
OPEN_LINES: Final = 40
SILENT_AFTER: Final = 120.0  # seconds without output after which that is said
_CELLS: Final = 4  # characters at most that one cell is made of, as far as a cut goes


def output_rows(
    running: RunningOperation, output: LiveOutput | None, look: Look, now: float, *, opened: bool
) -> list[Row]:
    """Return the rows below a running call: its newest output or how long it has been silent."""
    rows: list[Row] = []
    if output is not None:
        count = OPEN_LINES if opened else FOLDED_LINES
        lines = output.newest_lines(count + 1)
        if len(lines) > count:
            lines = lines[1:]
            key = "output.earlier" if opened else "output.earlier_folded"
            said = fit(look.words(key), look.output_width)
            rows.append([Segment(said, ink(look.palette.quiet))])
        width = look.output_width
        rows += tail_rows(lines, width, ink(look.palette.quiet))
    prints = output is not None or running.operation == "shell.run"
    since = output.at or running.at if output is not None else running.at
    said = silence_words(since, now, look.words) if prints else ""
    if said:
        rows.append([Segment(fit(said, look.output_width), ink(look.palette.accent))])
    return bar_rows(rows, look)


def tail_rows(lines: list[str], width: int, style: Style) -> list[Row]:
    """Return a row for each line; of the last one, which still grows, the end is shown."""
    last = len(lines) - 1
    return [
        [Segment(_cut_line(line, width, newest=number == last), style)]
        for number, line in enumerate(lines)
    ]


def silence_words(since: float, now: float, words: Catalogue) -> str:
    """Return ``no output for 2 min``; empty before ``SILENT_AFTER`` seconds."""
    if now - since < SILENT_AFTER:
        return ""
    return words("output.silent", time=time_words(now - since, words))


def _cut_line(line: str, width: int, *, newest: bool) -> str:
    most = _CELLS * max(1, width)
    if not newest:
        return fit(visible_line(line[:most]), width)
    return fit(visible_line(line[-most:]), width, keep="end")


SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
STILL: Final = "◌"  # where nothing may move
STILL_AFTER: Final = 0.7  # seconds without new text until a reply says that it goes on
AT_ONCE: Final = 8_192  # characters of a reply that one drawing adds: 0.04 s of work at most
LIVE_REASONING: Final = 4_000  # characters of it that are shown while it still grows
_SPOKEN: Final = ("main", "task", "report")  # calls whose text is for the user


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a drawing, in seconds since the epoch, and the spinner's sign."""

    now: float
    sign: str = STILL


class LiveReplyBlock(Block):
    """A reply that is arriving, drawn as far as it has come."""

    def __init__(self, llm_id: str) -> None:
        super().__init__()
        self.llm_id = llm_id
        self.measured = True
        self.thought: FoldBlock | None = None  # the reasoning before it
        self.document: MarkdownDocument | None = None
        self._attempt = 0  # of the reply
        self._taken = 0  # pieces of ``LiveReply.text`` that came
        self._came = 0  # characters of them
        self._shown = ""  # of them as many as a reply is drawn with
        self._fed = 0  # characters of those that are drawn
        self.grew_at = 0.0  # seconds since the epoch

    def follow_reply(self, live: LiveReply, look: Look, now: float) -> None:
        """Draw the text that arrived since the last call, at most ``AT_ONCE`` characters."""
        # Here, because the parser costs what the first paint must not wait for.
        from duckflow_tui.ui.panes.markdown import MarkdownDocument

        if live.attempt != self._attempt:
            self._attempt, self.document = live.attempt, None
            self._taken = self._came = self._fed = 0
            self._shown = ""
        fresh = live.text[self._taken :]
        self._taken += len(fresh)
        if fresh:
            self.grew_at = now
        self._came += sum(map(len, fresh))
        if len(self._shown) < MOST_REPLY:
            self._shown = "".join((self._shown, *fresh))[:MOST_REPLY]
        document = self.document
        if document is None or document.look != look:
            document = self.document = MarkdownDocument(look)
            document.feed_text(self._shown[: self._fed])
        document.feed_text(self._shown[self._fed : self._fed + AT_ONCE])
        self._fed = min(self._fed + AT_ONCE, len(self._shown))
        document.draw_fed()
        self.rows = document.rows
        if self._came > MOST_REPLY:
            count = look.words("transcript.message_characters", count=f"{self._came:,}")
            more = [Segment(fit(f"{ELLIPSIS} {count}", look.text_width), ink(look.palette.quiet))]
            self.rows = [*document.rows, *frame_rows([more], look)]
        self.height = len(self.rows)

    def draw_rows(self, look: Look) -> list[Row]:
        return self.rows or []

    @property
    def source_text(self) -> str:
        return self._shown[: self._fed]


class ReadyBlock(Block):
    """A block of given rows, made again for each drawing."""

    def __init__(self, rows: list[Row], group: Group, *, moves: bool = False) -> None:
        super().__init__()
        self.rows = rows
        self.height = len(rows)
        self.measured = True
        self.group = group
        self.moves = moves  # shows time or a spinner

    def add_rows(self, rows: list[Row]) -> None:
        """Append rows."""
        self.rows = [*(self.rows or []), *rows]
        self.height = len(self.rows)

    def draw_rows(self, look: Look) -> list[Row]:
        return self.rows or []


def live_blocks(
    state: AgentState,
    replies: dict[str, LiveReplyBlock],
    look: Look,
    moment: Moment,
    *,
    opened: bool,
    step: bool,
) -> list[Block]:
    """Return everything below the last message; ``replies`` keeps the drawn replies by call id.

    ``opened`` shows reasoning and more output, ``step`` the progress of a plan.
    """
    blocks: list[Block] = []
    asked = bool(state.gates or state.cards)
    works = _is_at_work(state) and not asked and (not state.turn or state.turn.pause == "running")
    said_below = _main_call(state) if works else None  # the line of status says why it waits
    for live in state.live.values():
        alone, waits = not _is_at_work(state), live is not said_below
        parts = _reply_blocks(live, replies, look, moment, opened=opened, alone=alone, waits=waits)
        for part in parts:
            part.step_id = live.step_id
        blocks.extend(parts)
    asking = {gate.call_id for gate in state.gates}
    for running in state.running:
        waits = running.call_id in asking or _waits_on_card(running, state)
        block = _running_block(running, look, moment, needs_you=waits)
        block.step_id, block.call_id = running.step_id, running.call_id
        if running.started and not waits:
            output = state.outputs.get(running.call_id)
            below = output_rows(running, output, look, moment.now, opened=opened)
            block.add_rows(frame_rows(below, look) if below else [])
        blocks.append(block)
    if state.turn is not None and state.turn.pause != "running":
        blocks.append(_paused_block(state, look))
    elif works:
        blocks.append(_working_block(state, replies, look, moment, step=step))
    return blocks


def _reply_blocks(
    live: LiveReply,
    replies: dict[str, LiveReplyBlock],
    look: Look,
    moment: Moment,
    *,
    opened: bool,
    alone: bool,
    waits: bool,
) -> list[Block]:
    """Return the blocks of one streaming reply. ``alone``: no turn runs, so it is an answer beside
    work that has ended; ``waits``: another line says why it makes no progress.
    """
    blocks: list[Block] = []
    spoken = live.purpose in _SPOKEN
    reply: LiveReplyBlock | None = None
    if spoken and live.text:
        reply = replies.setdefault(live.llm_id, LiveReplyBlock(live.llm_id))
        reply.follow_reply(live, look, moment.now)
    if spoken and live.reasoning:
        if reply is None:
            blocks.append(_thinking_block(live, look, moment, opened=opened))
        else:
            blocks.append(_thought_block(live, reply, opened=opened))
    if reply is not None and reply.height:
        blocks.append(reply)
    if live.waiting is not None and waits:
        said = waiting_words(live.waiting, moment.now, look.words)
        blocks.append(_moving_block(said, "", look, moment, look.palette.text))
    elif live.aside and not blocks:
        said = look.words("transcript.purpose.aside")
        time = clock_text(moment.now - live.started_at)
        if alone:  # nothing else says what Esc does
            time = f"{time} · {look.words('transcript.esc_stops')}"
        blocks.append(_moving_block(said, time, look, moment, look.palette.quiet))
    return blocks


def _is_at_work(state: AgentState) -> bool:
    return state.turn is not None or any(not live.aside for live in state.live.values())


def _main_call(state: AgentState) -> LiveReply | None:
    """Return the model call that the work waits for; None without."""
    return next((live for live in state.live.values() if not live.aside), None)


def _working_block(
    state: AgentState,
    replies: dict[str, LiveReplyBlock],
    look: Look,
    moment: Moment,
    *,
    step: bool,
) -> ReadyBlock:
    """Return the line ``Working · step 2 of 4 · 0:42 · 38 tok/s · Esc pauses``."""
    words, turn = look.words, state.turn
    live = _main_call(state)
    if live is not None and live.waiting is not None:
        said = waiting_words(live.waiting, moment.now, look.words)
        said = f"{said[:1].upper()}{said[1:]} · {words('transcript.esc_pauses')}"
        block = _moving_block(said, "", look, moment, look.palette.text)
        block.group = "text"
        return block
    key = "transcript.working"
    if live is not None:
        reply = replies.get(live.llm_id)
        key = f"transcript.purpose.{live.purpose}"
        if reply is not None and reply.height:
            # The text stands still and the reply is not over: what it would do is arriving.
            still = moment.now - reply.grew_at >= STILL_AFTER
            key = "transcript.purpose.acting" if still else "transcript.working"
    said = words(key)
    number, total = step_place(state) if step else (0, 0)
    if turn is not None:
        began = turn.started_at + turn.away_s
        worked = worked_s(began, turn.waited_s, moment.now, state.waits_since)
    else:
        worked = moment.now - (live.started_at if live else moment.now)
    speed = _token_speed(live, moment.now) if live is not None else 0
    parts = {
        "said": said[:1].upper() + said[1:],
        "step": words("transcript.step_of", number=number, total=total) if number else "",
        "time": clock_text(worked),
        "speed": words("transcript.speed", count=speed) if speed else "",
        "keys": words("transcript.esc_pauses"),
    }
    for least in ("speed", "step"):  # what goes first where not all has room
        if cell_len(" · ".join(filter(None, parts.values()))) > look.text_width - 2:
            parts[least] = ""
    line = " · ".join(filter(None, parts.values()))
    block = _moving_block(line, "", look, moment, look.palette.quiet)
    block.group = "text"
    return block


def _token_speed(live: LiveReply, now: float) -> int:
    """Return tokens per second of a streaming reply, at four characters per token; 0 at
    its start.
    """
    began = live.reasoning_started or live.first_text_at
    if began is None or now - began < 1:
        return 0
    characters = sum(map(len, live.text)) + sum(map(len, live.reasoning))
    return round(characters / 4 / (now - began))


def _thinking_block(live: LiveReply, look: Look, moment: Moment, *, opened: bool) -> Block:
    """Return the row of a model that is thinking; ``opened`` with its newest thoughts."""
    text = "".join(live.reasoning)
    time = time_words(moment.now - (live.reasoning_started or live.started_at), look.words)
    said = look.words("transcript.thinking", time=time, count=f"{len(text):,}")
    moving = _moving_block(said, "", look, moment, look.palette.quiet)
    if not opened:
        return moving
    if len(text) > LIVE_REASONING:
        text = ELLIPSIS + text[-LIVE_REASONING:]
    body = [(make_visible(text.strip("\n")), ink(look.palette.quiet, italic=True))]
    rows = frame_rows(bar_rows(rows_of(body, look.output_width), look), look)
    return ReadyBlock([*(moving.rows or []), *rows], "row", moves=True)


def _thought_block(live: LiveReply, reply: LiveReplyBlock, *, opened: bool) -> FoldBlock:
    """Return the folded thoughts of a reply that is being written."""
    text = "".join(live.reasoning)  # of some models more of it comes behind the first words
    if reply.thought is None or len(reply.thought.text) != len(text):
        began = live.reasoning_started or live.started_at
        time = max(0.0, (live.first_text_at or began) - began)
        before, reply.thought = reply.thought, FoldBlock("transcript.thought", text, time)
        reply.thought.opened = before.opened if before is not None else opened
    return reply.thought


def _moving_block(said: str, time: str, look: Look, moment: Moment, color: str) -> ReadyBlock:
    """A row with a spinner, a text and a time."""
    width = look.text_width - 2
    text = f"{said}  {time}" if time else said
    row = [
        Segment(f"{moment.sign} ", ink(look.palette.ai)),
        Segment(fit(text, width), ink(color)),
    ]
    return ReadyBlock(frame_rows([row], look), "row", moves=True)


def _running_block(
    running: RunningOperation, look: Look, moment: Moment, *, needs_you: bool
) -> ReadyBlock:
    """Return the row of a call that runs or waits for its turn or the user."""
    palette, words = look.palette, look.words
    figures = visible_line(running.progress)
    if needs_you:
        sign = Segment("◆ ", ink(palette.accent))
        right: Row = [Segment(words("transcript.needs_you"), ink(palette.accent))]
    elif running.started:
        sign = Segment(f"{moment.sign} ", ink(palette.ai))
        elapsed = moment.now - running.at
        right = [Segment(clock_text(elapsed), ink(palette.faint))] if elapsed >= 1 else []
    else:
        sign = Segment("○ ", ink(palette.faint))
        right = [Segment(words("transcript.its_turn"), ink(palette.faint))]
    row = operation_row(sign, running.operation, running.args, figures, right, look)
    mark = own_mark(look) if running.by_user else None
    return ReadyBlock(frame_rows([row], look, mark), "row", moves=running.started and not needs_you)


def _waits_on_card(running: RunningOperation, state: AgentState) -> bool:
    """Whether the call continues only once the user answers a card, its own or one of its step."""
    asked = {card.kind for card in state.cards} - {CardKind.TRUST}
    match running.operation:
        case "plan_tool.propose":
            return CardKind.PLAN in asked
        case "plan_tool.revise":
            return bool(asked & {CardKind.PLAN, CardKind.PLAN_CHANGE, CardKind.PLAN_END})
        case "task_loop.run":
            at_gate = any(gate.step_id for gate in state.gates)
            return at_gate or bool(asked - {CardKind.PLAN_CHANGE})
        case _:
            return False


def _paused_block(state: AgentState, look: Look) -> Block:
    """Return the line that says that work is paused, or about to be, and how to resume."""
    words, palette = look.words, look.palette
    taken_hold = state.turn is not None and state.turn.pause == "paused"
    key = "transcript.paused" if taken_hold else "transcript.pausing"
    plan = state.active_plan
    steps = plan.steps if plan is not None else ()
    current = next((s for s in steps if s.status is WorkStatus.IN_PROGRESS), None)
    what = words("transcript.paused_work")
    if any(running.started and not running.by_user for running in state.running):
        what = words("transcript.paused_behind")
    elif current is not None:
        what = words("transcript.paused_step", title=visible_line(current.name))
    if state.gates or state.cards:
        key += "_asked"  # Enter leads to the question then, and goes on only behind it
    rows = rows_of([(words(key, what=what), ink(palette.accent))], look.text_width)
    return ReadyBlock(frame_rows(rows, look, ("‖", ink(palette.accent))), "text")


def has_moving_block(blocks: Sequence[Block]) -> bool:
    """Whether any block shows a time or spinner, or will once its text stops arriving."""
    return any(
        isinstance(block, LiveReplyBlock) or (isinstance(block, ReadyBlock) and block.moves)
        for block in blocks
    )
