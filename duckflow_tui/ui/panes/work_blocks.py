"""The finished work of a turn as one row that unfolds into its calls."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message
from duckflow_tui.state.operations import Outcome
from duckflow_tui.ui.panes.blocks import (
    SHORTEST,
    Block,
    FoldBlock,
    Group,
    Look,
    fold_sign,
    frame_rows,
)
from duckflow_tui.ui.panes.operation_blocks import (
    OperationBlock,
    count_words,
    file_pieces,
)
from duckflow_tui.ui.panes.strips import (
    PLAIN,
    Piece,
    Row,
    fit,
    ink,
    prefix_rows,
    row_cells,
    rows_of,
)
from duckflow_tui.words.figures import find_target, took_text

#: The kinds of operations in the order in which they are told.
_KINDS: Final = ("read", "listing", "search", "edit", "command", "operation")
_KIND_OF: Final = {
    "file_ops.read_file": "read",
    "file_ops.list_dir": "listing",
    "file_ops.find_files": "search",
    "file_ops.search_text": "search",
    "file_ops.write_file": "edit",
    "file_ops.edit_file": "edit",
    "file_ops.move_file": "edit",
    "file_ops.delete_file": "edit",
    "shell.run": "command",
}
COMMAND_CELLS: Final = 40  # of a command that is told by its words
#: Outcomes of calls that did not run to their end, in the order in which they are told.
_NOT_RUN: Final = (
    Outcome.REJECTED, Outcome.DENIED, Outcome.STOPPED, Outcome.SKIPPED, Outcome.DECLINED
)  # fmt: skip


class WorkBlock(Block):
    """The summary of finished work: ``▸ Read 3 files, edited pricing.py +3 −2, ran pytest -q``.
    Hidden while the work runs.
    """

    group: Group = "row"
    foldable = True

    def __init__(self, index: int, step_id: str) -> None:
        """``index`` is its own among the finished blocks; its members follow it directly."""
        super().__init__()
        self.index = index
        self.step_id = step_id
        self.hidden = True  # until the work has ended, and where there is nothing to fold
        self.members: list[Block] = []

    @property
    def finished_calls(self) -> list[OperationMessage]:
        """The finished operations, in order."""
        return [block.message for block in self.members if isinstance(block, OperationBlock)]

    def fold_members(self, *, opened: bool) -> None:
        """Show the summary because the work has ended, and its members only if ``opened``. Work of
        a single row is not folded.
        """
        if len(self.members) > 1 and self.finished_calls:
            self.hidden = False
            self.set_open(opened=opened)

    def set_open(self, *, opened: bool) -> None:
        super().set_open(opened=opened)
        for block in () if self.hidden else self.members:
            block.hidden = not opened
            if isinstance(block, OperationBlock) and block.message.result.changes:
                block.set_open(opened=opened)  # with its diff

    def draw_rows(self, look: Look) -> list[Row]:
        palette, sign = look.palette, fold_sign(self, look)
        rows = rows_of(self._figure_pieces(look), look.text_width - sign.cell_length)
        rows = prefix_rows(rows, (sign.text, sign.style or PLAIN))
        seconds = sum(call.result.duration_s for call in self.finished_calls)
        if seconds >= SHORTEST:
            time = took_text(seconds, look.words)
            spare = look.text_width - row_cells(rows[-1]) - cell_len(time)
            if len(rows) == 1 and spare > 1:
                rows[0] += [Segment(" " * spare, PLAIN), Segment(time, ink(palette.faint))]
        return frame_rows(rows, look)

    def search_text(self, look: Look) -> str:
        return super().search_text(look) if not self.hidden else ""

    def _figure_pieces(self, look: Look) -> list[Piece]:
        """Return each kind of call with its count and changed files, then the calls that failed or
        did not run.
        """
        palette, calls = look.palette, self.finished_calls
        sorted_calls: dict[tuple[str, str], list[OperationMessage]] = {}
        for call, how in zip(calls, _ways_of_ending(calls), strict=True):
            sorted_calls.setdefault((how, _kind_of(call)), []).append(call)
        parts: list[list[Piece]] = []
        for kind in _KINDS:
            if some := sorted_calls.get(("well", kind)):
                changes = [change for call in some for change in call.result.undoable_changes]
                said = _did_words(kind, some, look)
                parts.append([(said, ink(palette.quiet)), *file_pieces(changes, look)])
        for how in (*_NOT_RUN, "failed"):
            for kind in _KINDS:
                if some := sorted_calls.get((how, kind)):
                    what = count_words(f"kind.{kind}", len(some), look)
                    colour = palette.bad if how == "failed" else palette.quiet
                    parts.append([(look.words(f"work.of.{how}", what=what), ink(colour))])
        if parts:
            text, style = parts[0][0]
            parts[0][0] = text[:1].upper() + text[1:], style
        comma: Piece = (look.words("gate.list"), ink(palette.quiet))
        return [piece for part in parts for piece in (comma, *part)][1:]


def _kind_of(call: OperationMessage) -> str:
    return _KIND_OF.get(call.operation, "operation")


def _did_words(kind: str, calls: list[OperationMessage], look: Look) -> str:
    """Return the words for successful calls of one kind: ``read 3 files``, ``ran pytest -q``,
    ``edited``.
    """
    command = calls[0].args.get("command")
    if kind == "command" and len(calls) == 1 and isinstance(command, str):
        return look.words("work.ran", command=fit(visible_line(command), COMMAND_CELLS))
    return count_words(f"did.{kind}", len(calls), look)


def _ways_of_ending(calls: list[OperationMessage]) -> list[str]:
    """Return how each call ended: ``well``, ``failed``, an outcome of ``_NOT_RUN``, or empty for a
    failure that was repeated with success, such as a test that is red before a change and green
    after it.
    """
    last: dict[str, bool] = {}
    for call in calls:
        if call.result.outcome not in _NOT_RUN:
            last[_call_key(call)] = call.result.went_well
    ways: list[str] = []
    for call in calls:
        outcome = call.result.outcome
        if outcome in _NOT_RUN:
            ways.append(outcome)
        elif not (call.result.went_well or last[_call_key(call)]):
            ways.append("failed")
        else:
            ways.append("well" if outcome is Outcome.OK else "")
    return ways


def _call_key(call: OperationMessage) -> str:
    return f"{call.operation} {find_target(call.args)[0]}"


class WorkFolds:
    """Groups operations that follow one another into work blocks. All else in the chat stays where
    it is: words of the user and of the model, verdicts, notices.
    """

    def __init__(self) -> None:
        self._open: list[WorkBlock] = []  # of the turn that is under way
        self._last: WorkBlock | None = None  # the next operation belongs to it

    def forget_all(self) -> None:
        """Start over for another conversation."""
        self._open.clear()
        self._last = None

    def add_message(self, message: Message, blocks: list[Block], index: int) -> list[Block]:
        """Return the blocks of a message, the first of which will have this index, with a new
        work block before the first operation or thought that follows something else.
        """
        placed: list[Block] = []
        for block in blocks:
            if _is_work(message, block):
                work = self._last
                if work is None or work.step_id != message.step_id:
                    work = self._last = WorkBlock(index + len(placed), message.step_id)
                    self._open.append(work)
                    placed.append(work)
                work.members.append(block)
            else:
                self._last = None
            placed.append(block)
        return placed

    def end_work(self, step_id: str | None = None) -> list[WorkBlock]:
        """End the work of this step, without one all work: return its work blocks, which are no
        longer kept here. The next operation begins a new one.
        """
        ended = [work for work in self._open if step_id in (None, work.step_id)]
        self._open = [work for work in self._open if work not in ended]
        self._last = None
        return ended


def _is_work(message: Message, block: Block) -> bool:
    """Whether the block is an operation of the model, or its thoughts."""
    match message:
        case OperationMessage():
            return not message.by_user
        case AssistantMessage():
            return not message.aside and isinstance(block, FoldBlock)
        case _:
            return False
