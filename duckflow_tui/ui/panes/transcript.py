"""The conversation as one widget that draws only the lines in view."""

from __future__ import annotations

from time import monotonic, thread_time
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset
from textual.reactive import var
from textual.selection import Selection
from textual.timer import Timer

from duckflow_tui.commands import undo_compaction
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock, SystemClock
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.processes import ProcessOutput
from duckflow_tui.state.store import Record, Store, Unsubscribe
from duckflow_tui.ui.host import bind_keys, host_of
from duckflow_tui.ui.panes.blocks import Block, FoldBlock, Look, QuestionBlock, ReplyBlock
from duckflow_tui.ui.panes.card_blocks import ReportBlock, ReviewBlock
from duckflow_tui.ui.panes.column import LinePosition
from duckflow_tui.ui.panes.column_text import word_at
from duckflow_tui.ui.panes.column_view import Anchor, ColumnView
from duckflow_tui.ui.panes.context_blocks import CompactionBlock
from duckflow_tui.ui.panes.live_blocks import (
    SPINNER,
    STILL,
    LiveReplyBlock,
    Moment,
    has_moving_block,
    live_blocks,
)
from duckflow_tui.ui.panes.operation_blocks import OperationBlock
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import Row, ink, mark_row, row_text
from duckflow_tui.ui.panes.turn_blocks import StepHeads, draw_gutter, turn_blocks
from duckflow_tui.ui.panes.work_blocks import WorkBlock
from duckflow_tui.words.catalogue import Catalogue

FRAME: Final = 1 / 12  # seconds between two drawings of what arrives without a pause
SPIN: Final = 1 / 10  # seconds between two signs of the spinner
LONGEST_REST: Final = 0.5  # seconds
BUSY_SHARE: Final = 4  # a drawing that takes long is followed by so many times as long without


_FOLLOWING: Final = (ReportBlock, ReviewBlock, QuestionBlock, CompactionBlock)


class Transcript(ColumnView, can_focus=True):
    """Shows the conversation, finished and in progress. It keeps no state of its own:
    ``show_state`` shows a state.

    Follows the end until the user scrolls up; then a line at the bottom counts new lines.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "previous_row", show=False),
        Binding("down", "next_row", show=False),
        Binding("enter", "toggle_row", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
        Binding("shift+up", "scroll_up", show=False),
        Binding("shift+down", "scroll_down", show=False),
        Binding("home", "scroll_home", show=False),
        Binding("end", "scroll_end", show=False),
        Binding("ctrl+a", "select_everything", show=False),
        Binding("ctrl+up", "select_block(-1)", show=False),
        Binding("ctrl+down", "select_block(1)", show=False),
        *bind_keys("compaction", "result"),
    ]

    words: var[Catalogue] = var(Catalogue)
    #: Whether anything may move; off, a still sign and the seconds show that work goes on.
    animation: var[bool] = var(True)
    tells_step: var[bool] = var(True)  # no other line near it does

    def __init__(
        self,
        source: Store | AgentState | None = None,
        *,
        animation: bool = True,
        id: str | None = None,
    ) -> None:
        """A Store is followed while the widget is mounted."""
        super().__init__(id=id)
        self.set_reactive(Transcript.animation, animation)
        self._source = source
        self._unwatch: Unsubscribe | None = None
        self.details_open = False
        self._state: AgentState | None = None
        self._clock: Clock = SystemClock()
        self._count = 0  # messages of the state that have blocks
        self._last: object = None  # of them
        self._ended = 0  # turns that have theirs
        self._to_fold: list[WorkBlock] = []  # has ended, while the user was reading elsewhere
        # Finished blocks that may still change, with their indexes: the newest report, verdict and
        # question by class, and every compaction.
        self._followers: dict[Block | type[Block], tuple[int, Block]] = {}
        self._threads = StepHeads()
        self._replies: dict[str, LiveReplyBlock] = {}
        self._live_rows: list[Row] = []
        self._live_top = 0  # the line they began on when they were drawn
        self._cursor: Block | None = None
        self._ticker: Timer | None = None
        self._later: Timer | None = None
        self._drawn_at = float("-inf")
        self._cost = 0.0
        self._frame = 0

    # --- data -------------------------------------------------------------------------------

    def bind_state(
        self, source: Store | AgentState, words: Catalogue, clock: Clock | None = None
    ) -> None:
        """Show this state from its first message on. A Store brings its clock and is followed; for
        a plain state call ``show_state`` and ``live_changed``.
        """
        self._source = source
        self.set_reactive(Transcript.words, words)
        if clock is not None:
            self._clock = clock
        elif isinstance(source, Store):
            self._clock = source.clock
        if self.is_mounted:
            self._start_showing()

    def _start_showing(self) -> None:
        """Show a store or a state from its beginning, and follow the store."""
        self._stop_showing()
        source = self._source
        self._begin_anew()
        self._look = self._new_look()
        if isinstance(source, Store):
            self._clock = source.clock
            self._unwatch = source.subscribe(self._take_change)
            source = source.state
        if source is not None:
            self.show_state(source)
        self.refresh()

    def _begin_anew(self) -> None:
        """Clear everything shown."""
        self._column.remove_all()
        self._threads.forget_all()
        self._to_fold.clear()
        self._replies.clear()
        self._forget_search()
        self._cursor = self._anchor = self._last = None
        self._followers.clear()
        self._count = self._ended = 0
        self.following = True

    def _goes_on(self, state: AgentState) -> bool:
        """Whether the state's messages continue those shown; they do not after a rewind."""
        count = self._count
        if count > len(state.messages) or self._ended > len(state.turns):
            return False
        return not count or state.messages[count - 1] is self._last

    def _stop_showing(self) -> None:
        """Stop following the store and all timers."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if self._later is not None:
            self._later.stop()
            self._later = None
        self._tick_while(needed=False)

    def show_state(self, state: AgentState) -> None:
        """Append the messages that are new, and draw everything in progress again."""
        self._state = state
        if not self._goes_on(state):
            self._begin_anew()
            self.refresh()
        while self._count < len(state.messages):
            self._end_turns(state)
            message = self._last = state.messages[self._count]
            self._count += 1
            blocks = self._threads.make_blocks(message, state, len(self._column.finished))
            for place, block in enumerate(blocks, len(self._column.finished)):
                if isinstance(block, _FOLLOWING):
                    key = block if isinstance(block, CompactionBlock) else type(block)
                    self._followers[key] = place, block
                if self.details_open and block.foldable and not isinstance(block, ReplyBlock):
                    block.set_open(opened=True)
                block.height = max(1, block.estimate_height(self._look))
            if isinstance(message, AssistantMessage):
                self._hand_over(message.llm_id, blocks)
            self._column.append_blocks(blocks)
            if isinstance(message, ReportMessage):
                self._to_fold += self._threads.work.end_work(message.report.step_id)
        self._end_turns(state)
        self._fold_ended()
        for place, block in self._followers.values():
            if block.follow_state(state):
                self._invalidate_blocks(place)
                self.refresh()
        self._search_on()
        for llm_id in [known for known in self._replies if known not in state.live]:
            del self._replies[llm_id]
        self._draw_live()

    def _end_turns(self, state: AgentState) -> None:
        """Append the line of figures for each turn that ended before the next message."""
        while self._ended < len(state.turns):
            turn = state.turns[self._ended]
            if turn.messages > self._count:
                return
            self._ended += 1
            self._to_fold += self._threads.work.end_work()
            self._column.append_blocks(turn_blocks(turn))

    def _fold_ended(self) -> None:
        """Fold the work of ended turns, unless the user has scrolled up."""
        if not self.following or not self._to_fold:
            return
        for work in self._to_fold:
            work.fold_members(opened=self.details_open)
        self._column.invalidate_tops(min(work.index for work in self._to_fold))
        self._to_fold.clear()
        self.refresh()  # also where as many lines came as were folded

    def _take_change(self, state: AgentState, record: Record) -> None:
        if not isinstance(record.event, ProcessOutput):
            self.live_changed(state)

    def live_changed(self, state: AgentState) -> None:
        """Schedule a drawing for the next frame, because a reply or output grew."""
        self._state = state
        if self.is_mounted and self._later is None:
            busy = min(BUSY_SHARE * self._cost, LONGEST_REST)
            wait = max(FRAME, busy) - (monotonic() - self._drawn_at)
            self._later = self.set_timer(max(0.001, wait), self._draw_late)

    def last_reply_markdown(self) -> str:
        """Return the source of the newest reply with text; empty without one."""
        messages = self._state.messages if self._state else []
        for message in reversed(messages):
            if isinstance(message, AssistantMessage) and message.text.strip():
                return message.text
        return ""

    @property
    def is_moving(self) -> bool:
        """Whether a timer redraws times or spinners."""
        return self._ticker is not None

    # --- drawing ----------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.watch(host_of(self), "theme", self._take_look, init=False)
        self._start_showing()

    def on_unmount(self) -> None:
        self._stop_showing()

    def on_resize(self) -> None:
        self._take_look()

    def watch_words(self) -> None:
        if self.is_mounted:
            self._take_look()

    def watch_tells_step(self) -> None:
        if self.is_mounted:
            self._draw_live()

    def watch_animation(self) -> None:
        self._tick_while(needed=False)
        self._tick_while(needed=has_moving_block(self._column.live))

    def watch_has_focus(self, _has_focus: bool) -> None:
        self._repaint_all()

    def _new_look(self) -> Look:
        width = max(1, self.scrollable_content_region.width) if self.size else 80
        return Look(palette_of(self), width, self.words, host_of(self).size.height)

    def _take_look(self) -> None:
        """Redraw everything for a new width, theme or language; the text in view stays."""
        look = self._new_look()
        if look != self._look:
            new_lines = self.new_lines
            if not self.following and self._anchor is None:
                self._anchor = self._top_place()
            self._drop_selection()
            self._look = look
            self._column.forget_rows(look)
            self._forget_matches()
            self._draw_live(settle=False)
            self._update_view(self._anchor)
            self._seen = self._column.total_height - new_lines
        self._update_view(self._anchor)
        self._repaint_all()

    def _hand_over(self, llm_id: str, blocks: list[Block]) -> None:
        """Let finished blocks take over the rows drawn by the live reply."""
        reply = self._replies.pop(llm_id, None)
        for block in blocks if reply else ():
            if reply and isinstance(block, ReplyBlock):
                if reply.document is not None and reply.document.look == self._look:
                    block.take_over(reply.document)
            elif reply and isinstance(block, FoldBlock) and reply.thought:
                block.opened = reply.thought.opened

    def _draw_late(self) -> None:
        """Draw the state whose drawing was put off."""
        self._later = None
        if self._state is not None:
            self.show_state(self._state)

    def _draw_live(self, *, settle: bool = True) -> None:
        """Redraw streamed replies and running calls."""
        state = self._state
        if state is None:
            return
        began = thread_time()
        moment = Moment(self._clock.now(), self._spinner_sign())
        blocks = live_blocks(
            state,
            self._replies,
            self._look,
            moment,
            opened=self.details_open,
            step=self.tells_step,
        )
        blocks = self._threads.with_head(blocks, state)
        self._column.set_live(blocks)
        for index in range(len(self._column.finished), len(self._column)):
            self._column.draw_block(index, self._look)
        old, self._live_rows = self._live_rows, self._column.live_rows()
        self._tick_while(needed=has_moving_block(blocks))
        if settle:
            self._update_view()
            self._refresh_live(old)
        self._drawn_at = monotonic()
        self._cost = thread_time() - began

    def _refresh_live(self, old: list[Row]) -> None:
        """Repaint those lines of the live blocks that changed."""
        new, top = self._live_rows, self._column.finished_height
        before, self._live_top = self._live_top, top
        if before != top or len(old) != len(new):
            same = 0 if before != top else _count_same(old, new)
            self._refresh_lines_in_sight(min(before, top) + same, None)
            return
        same = _count_same(old, new)
        if same < len(new):
            stop = len(new) - _count_same(old[::-1], new[::-1])
            self._refresh_lines_in_sight(top + same, top + stop)

    def _spinner_sign(self) -> str:
        return SPINNER[self._frame % len(SPINNER)] if self._is_animated() else STILL

    def _is_animated(self) -> bool:
        return self.animation and host_of(self).animation_level != "none"

    def _tick_while(self, *, needed: bool) -> None:
        """Run the spinner's timer only while it is needed."""
        if not needed:
            if self._ticker is not None:
                self._ticker.stop()
                self._ticker = None
        elif self._ticker is None and self.is_mounted:
            self._ticker = self.set_interval(
                SPIN if self._is_animated() else 1.0, self._advance_spinner
            )

    def _advance_spinner(self) -> None:
        self._frame += 1
        if self.is_on_screen and self._later is None:  # else the next frame shows it
            self._draw_live()

    def _lay_over(self, row: Row, place: LinePosition, line: int) -> Row:
        """Return a row with the gutter of a step and the mark of the cursor laid over it."""
        block = self._column.block_at(place.index)
        if block.step_id and row and self._look.margin:
            row = draw_gutter(row, ink(self._look.palette.ai))
        if block is self._cursor and place.row == 0 and self.has_focus:
            row = mark_row(row, 0, -1, ink(None, on=self._look.palette.bars))
        return super()._lay_over(row, place, line)

    # --- going to a place -------------------------------------------------------------------

    def go_to(self, step_id: str, call_id: str = "") -> bool:
        """Scroll to a call, or without one to the first item of a step; False where it is not
        found.
        """
        index = self._threads.find_block(step_id, call_id)
        if index is None:
            first = len(self._column.finished)
            index = next(
                (
                    at
                    for at, block in enumerate(self._column.live, first)
                    if (block.call_id == call_id if call_id else block.step_id == step_id)
                ),
                None,
            )
        if index is None:
            return False
        self._bring_out(index)
        self.show_block(index)
        self._cursor = self._column.block_at(index)
        return True

    def _bring_out(self, index: int) -> None:
        """Unfold the work that contains a hidden block."""
        block = self._column.block_at(index)
        if not block.hidden:
            return
        for at, work in enumerate(self._column.finished[:index]):
            if isinstance(work, WorkBlock) and block in work.members:
                self._set_open(at, opened=True)

    # --- folding ----------------------------------------------------------------------------

    def action_fold(self) -> None:
        """Unfold every row that can be unfolded, or fold all."""
        self.details_open = not self.details_open
        anchor = None if self.following else self._top_place()
        self._drop_selection()
        for index, block in enumerate(self._column.finished):
            if isinstance(block, ReplyBlock):
                continue  # a very long one is opened by itself
            if block.foldable and block.opened is not self.details_open:
                self._set_open(index, opened=self.details_open)
        for reply in self._replies.values():
            if reply.thought is not None:
                reply.thought.opened = self.details_open
                reply.thought.rows = None
        self._after_fold(anchor)

    def toggle(self, index: int) -> None:
        """Unfold or fold the block at that index, if it can be folded."""
        block = self._column.block_at(index)
        if not block.foldable:
            return
        anchor = self._top_place()
        self.following = False  # what was opened stays where it was, under the pointer
        self._drop_selection()
        self._set_open(index, opened=not block.opened)
        self._after_fold(anchor)
        self.following = self.scroll_offset.y >= self.max_scroll_y
        self._seen = self._column.total_height

    def _set_open(self, index: int, *, opened: bool) -> None:
        """Fold or unfold the block, and the members of a work block with it."""
        block = self._column.block_at(index)
        block.set_open(opened=opened)
        self._invalidate_blocks(index, block.members if isinstance(block, WorkBlock) else ())

    def _after_fold(self, anchor: Anchor | None) -> None:
        """Redraw after folding, keeping the anchor's line in place."""
        new_lines = self.new_lines
        self._draw_live(settle=False)
        self._update_view(anchor)
        self._seen = self._column.total_height - new_lines
        self._repaint_all()

    def action_toggle_row(self) -> None:
        if self._cursor is None:
            self._step_cursor(-1)
        elif (index := self._index_of(self._cursor)) is not None:
            self.toggle(index)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "undo_compaction":
            return isinstance(self._cursor, CompactionBlock) and self._cursor.in_force
        if action == "open_whole":
            return isinstance(self._cursor, OperationBlock) and self._cursor.has_more
        return super().check_action(action, parameters)

    def action_undo_compaction(self) -> None:
        host = host_of(self)
        engine = host.session.get_writable_engine()
        if engine is not None and isinstance(self._cursor, CompactionBlock):
            compaction_id = self._cursor.compaction.compaction_id
            host.spawn(undo_compaction(engine, compaction_id, host.status.show_notice), "compact")

    def action_open_whole(self) -> None:
        if isinstance(self._cursor, OperationBlock):
            host_of(self).spawn(self._open_whole(self._cursor.message.call_id), "editor")

    async def _open_whole(self, call_id: str) -> None:
        """Open a copy of the call's whole result in the user's editor."""
        host = host_of(self)
        engine = host.session.engine
        text = await engine.context.read_whole_result(call_id) if engine is not None else None
        if text is None:
            host.status.show_notice("context.gone")
        else:
            await host.editor.edit(text)

    def action_previous_row(self) -> None:
        self._step_cursor(-1)

    def action_next_row(self) -> None:
        self._step_cursor(1)

    def _can_open(self, index: int) -> bool:
        block = self._column.block_at(index)
        return block.foldable and not block.hidden

    def _index_of(self, block: Block) -> int | None:
        top = self.scroll_offset.y
        near = self._column.blocks_between(top - 2, top + self.rows_in_sight + 2)
        return next((index for index in near if self._column.block_at(index) is block), None)

    def _step_cursor(self, by: int) -> None:
        """Move the cursor to the next row in sight that can be unfolded; where there is none,
        scroll.
        """
        top = self.scroll_offset.y
        bottom = top + self.rows_in_sight
        near = self._column.blocks_between(top, bottom)
        rows = [
            index
            for index in near
            if self._can_open(index) and top <= self._column.top_of(index) < bottom
        ]
        here = None if self._cursor is None else self._index_of(self._cursor)
        ahead = rows
        if here is not None and here in rows:
            ahead = [index for index in rows if (index - here) * by > 0]
        if ahead:
            chosen = ahead[0] if by > 0 else ahead[-1]
            self._cursor = self._column.block_at(chosen)
            self._repaint_all()
        else:
            self.scroll_by(by)

    # --- pointer ----------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        event.prevent_default()  # a double click would select the whole conversation
        if self.new_lines and event.y == self.rows_in_sight - 1:
            self.action_scroll_end()
            return
        line = self.scroll_offset.y + event.y
        place = self._column.position_at(line)
        if place is None or place.row < 0:
            return
        if event.chain == 2:
            word = word_at(row_text(self._column.row_at(place)), event.x, self._look.indent)
            if word is not None:
                self._select_text(Selection(Offset(word[0], line), Offset(word[1], line)))
        elif event.chain == 3:
            self._select_block(place.index)
        elif (
            event.chain == 1
            and place.row == self._column.block_at(place.index).fold_row
            and self.text_selection is None
        ):
            self.toggle(place.index)

    def focus_on_click(self) -> bool:
        """Return False: a click must not take the focus from the composer."""
        return False


def _count_same(old: list[Row], new: list[Row]) -> int:
    """Count how many rows at the start are equal."""
    count = 0
    for was, now in zip(old, new, strict=False):
        if was is not now and was != now:
            break
        count += 1
    return count
