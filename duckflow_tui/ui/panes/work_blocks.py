"""The work of a turn as one row, once it has ended: what was done, and behind it each row of it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, UserMessage
from duckflow_tui.state.goal import AttemptMessage, ReviewMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.ui.panes.blocks import (
    SHORTEST,
    Block,
    Group,
    Look,
    QuestionBlock,
    ReplyBlock,
    fold_sign,
    framed,
    seconds_text,
)
from duckflow_tui.ui.panes.card_blocks import AttemptBlock, ReviewBlock
from duckflow_tui.ui.panes.operation_blocks import (
    OperationBlock,
    count_words,
    file_pieces,
    is_unasked,
)
from duckflow_tui.ui.panes.strips import PLAIN, Piece, Row, ink, prefixed, row_cells, rows_of
from duckflow_tui.words.figures import find_target

#: How operations are counted where none changed a file, in this order; all others are the last.
_KINDS: Final = {
    "file_ops.read_file": "read",
    "file_ops.list_dir": "listing",
    "file_ops.find_files": "search",
    "file_ops.search_text": "search",
    "shell.run": "command",
}
_OTHER: Final = "operation"
_APART: Final = ("refused", "cut_off", "not_run", "failed")  # what did not end well, in this order
_NOT_RUN: Final[dict[Outcome, str]] = {
    Outcome.REJECTED: "refused",
    Outcome.DENIED: "refused",
    Outcome.STOPPED: "cut_off",
    Outcome.SKIPPED: "not_run",
    Outcome.DECLINED: "not_run",
}


class WorkBlock(Block):
    """``▸ 6 operations, 1 edit pricing.py +3 −2``. It is hidden until the work has ended."""

    group: Group = "row"
    foldable = True

    def __init__(self, index: int) -> None:
        """``index``: its own, among the finished blocks; its members are all behind it."""
        super().__init__()
        self.index = index
        self.hidden = True
        self.members: list[Block] = []

    @property
    def calls(self) -> list[OperationMessage]:
        """The finished operations, in order."""
        return [block.message for block in self.members if isinstance(block, OperationBlock)]

    def end(self, *, opened: bool) -> None:
        """The work has ended: show the row, and the members only if it is ``opened``. What was said
        last is the answer and what was judged last the verdict: they are not folded, nor is work
        of one row.
        """
        for kept in (ReplyBlock, ReviewBlock):
            last = next((m for m in reversed(self.members) if isinstance(m, kept)), None)
            if last is not None:
                self.members.remove(last)
        if len(self.members) > 1 and self.calls:
            self.hidden = False
            self.open(opened=opened)

    def open(self, *, opened: bool) -> None:
        super().open(opened=opened)
        for block in () if self.hidden else self.members:
            block.hidden = not opened
            if isinstance(block, OperationBlock) and block.message.result.changes:
                block.open(opened=opened)  # with its diff

    def draw(self, look: Look) -> list[Row]:
        palette, sign = look.palette, fold_sign(self, look)
        rows = rows_of(self._figures(look), look.text_width - sign.cell_length)
        rows = prefixed(rows, (sign.text, sign.style or PLAIN))
        seconds = sum(call.result.duration_s for call in self.calls)
        if seconds >= SHORTEST:
            time = seconds_text(seconds, look.words)
            spare = look.text_width - row_cells(rows[-1]) - cell_len(time)
            if len(rows) == 1 and spare > 1:
                rows[0] += [Segment(" " * spare, PLAIN), Segment(time, ink(palette.faint))]
        return framed(rows, look)

    def _figures(self, look: Look) -> list[Piece]:
        """The counted kinds: all operations and the edits, or where there are none, each kind."""
        palette, calls = look.palette, self.calls
        edits = [call for call in calls if call.result.changes]
        ended = Counter(
            (how, _OTHER if edits else _KINDS.get(call.operation, _OTHER))
            for call, how in zip(calls, _ways_of_ending(calls), strict=True)
        )
        kinds = tuple(dict.fromkeys((*_KINDS.values(), _OTHER)))
        attempts = sum(isinstance(block, AttemptBlock) for block in self.members)
        counts = {kind: ended["well", kind] for kind in kinds}
        if edits and counts[_OTHER] == sum(way == "well" for way in _ways_of_ending(edits)):
            counts[_OTHER] = 0  # each of them is named as an edit
        counts["attempt"] = attempts + 1 if attempts else 0
        counts["unasked"] = sum(is_unasked(call) for call in calls)
        said = [(count_words(kind, n, look), "well") for kind, n in counts.items() if n]
        for how in _APART:
            for kind in kinds:
                n = ended[how, kind]
                if n and edits:
                    said.append((count_words(how, n, look), how))
                elif n:
                    what = count_words(f"kind.{kind}", n, look)
                    said.append((look.words(f"work.of.{how}", what=what), how))
        if edits:
            said.append((count_words("edit", len(edits), look), "well"))
        pieces: list[Piece] = []
        for text, how in said:
            if pieces:
                pieces.append((look.words("work.joined"), ink(palette.quiet)))
            pieces.append((text, ink(palette.bad if how == "failed" else palette.quiet)))
        return pieces + file_pieces(
            [c for call in calls for c in call.result.undoable_changes], look
        )

    @property
    def said(self) -> str:
        return ""  # what it counts is said by its members


def _ways_of_ending(calls: list[OperationMessage]) -> list[str]:
    """How each call ended: ``well`` or one of ``_APART``; empty for one that could not run and was
    made again with success. Tests that are red before the change and green after it went well.
    """
    last: dict[str, bool] = {}
    for call in calls:
        if call.result.outcome not in _NOT_RUN:
            last[_same(call)] = call.result.went_well
    ways: list[str] = []
    for call in calls:
        outcome = call.result.outcome
        if outcome in _NOT_RUN:
            ways.append(_NOT_RUN[outcome])
        elif not (call.result.went_well or last[_same(call)]):
            ways.append("failed")
        else:
            ways.append("well" if outcome is Outcome.OK else "")
    return ways


def _same(call: OperationMessage) -> str:
    return f"{call.operation} {find_target(call.args)[0]}"


class WorkFolds:
    """Which blocks belong to the work that is under way, that of a step apart from the turn's."""

    def __init__(self) -> None:
        self._open: dict[str, WorkBlock] = {}  # by step, empty for the turn itself

    def clear(self) -> None:
        """Another conversation, or another request in it."""
        self._open.clear()

    def take(self, message: Message, blocks: list[Block], index: int) -> WorkBlock | None:
        """Note what of a message is work; the row to put before it where it is the first.
        ``index``: of that row.
        """
        if isinstance(message, UserMessage) and not message.aside:
            self.clear()
        if not _is_work(message):
            return None
        members = [block for block in blocks if not isinstance(block, QuestionBlock)]
        if not members:
            return None
        work = self._open.get(message.step_id)
        first = None
        if work is None:
            work = first = self._open[message.step_id] = WorkBlock(index)
            work.step_id = message.step_id
        work.members += members
        return first

    def ended(self, step_id: str | None = None) -> list[WorkBlock]:
        """The work that has ended, of this step or all there is."""
        if step_id is None:
            found = list(self._open.values())
            self.clear()
            return found
        work = self._open.pop(step_id, None)
        return [] if work is None else [work]


def _is_work(message: Message) -> bool:
    """Whether it is a part of the work, not a word to the user or of theirs."""
    match message:
        case OperationMessage():
            return not message.by_user
        case AssistantMessage():
            return not message.aside
        case AttemptMessage() | ReviewMessage():
            return True
        case _:
            return False
