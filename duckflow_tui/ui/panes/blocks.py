"""Blocks of the conversation: how each message is drawn, its height, and what copying it gives.

A block knows its message and a ``Look``, nothing else of the screen. Its rows are drawn when first
needed; until then its height is a cheap estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.state.conversation import (
    Level,
    NoticeMessage,
)
from duckflow_tui.state.decision import Question
from duckflow_tui.state.gates import CardKind
from duckflow_tui.ui.layout import TEXT
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.strips import (
    PLAIN,
    Piece,
    Row,
    fit,
    ink,
    pad,
    prefix_rows,
    row_cells,
    row_text,
    rows_of,
)
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import time_words

if TYPE_CHECKING:
    from duckflow_tui.ui.panes.markdown import MarkdownDocument


Group = Literal["text", "row", "notice", "head"]


MARK_CELLS: Final = 2  # a mark and the space behind it
MOST_LINES: Final = 12  # of a message of the user; one with more is folded
MOST_CHARS: Final = 1_000  # of it; one with more is folded too
_SHOWN_LINES: Final = 3  # of it while it is folded
_SHOWN_CHARS: Final = 200  # of such a line
MOST_REPLY: Final = 24_000  # characters of a reply that are drawn unasked: 0.1 s of work at most
SHORTEST: Final = 0.05  # seconds; a shorter time is not worth a word
FOLDED: Final = "▸"
OPEN: Final = "▾"


@dataclass(frozen=True, slots=True)
class Look:
    """The settings by which blocks are drawn; ``width`` is the widget's, in cells."""

    palette: Palette
    width: int
    words: Catalogue
    screen_rows: int = 40  # rows of the terminal

    @property
    def margin(self) -> int:
        """Free cells at each side; 0 in a very narrow widget."""
        return 1 if self.width >= 24 else 0

    @property
    def indent(self) -> int:
        """Cells before the text of each row: margin, mark, space."""
        return self.margin + MARK_CELLS

    @property
    def text_width(self) -> int:
        """Cells for the text of a row."""
        return max(1, min(TEXT, self.width - self.indent - self.margin))

    @property
    def output_width(self) -> int:
        """Cells for the text of a row of ``bar_rows``, which may use the right margin."""
        return max(1, self.text_width + self.margin - 4)


class Block:
    """A message, or a part of one. Adjacent blocks of one group other than ``text`` have no blank
    line between them.
    """

    group: Group = "text"
    foldable = False

    def __init__(self) -> None:
        self.rows: list[Row] | None = None  # None: not drawn, or let go of
        self.height = 1  # rows; exact once ``measured``
        self.measured = False
        self.opened = False
        self.hidden = False  # folded away with the work of its turn: it takes no room
        self.step_id = ""  # the step of a plan that it belongs to
        self.call_id = ""  # the call that it shows in flight

    def draw_rows(self, look: Look) -> list[Row]:
        """Return the rows, each with its margin."""
        raise NotImplementedError

    def estimate_height(self, look: Look) -> int:
        """Estimate how many rows ``draw_rows`` would return."""
        return 1

    def search_text(self, look: Look) -> str:
        """Return the text of all rows of the unfolded block."""
        opened = copy(self)  # what is shown of the block itself stays as it is
        opened.opened = True
        return text_of_rows(opened.draw_rows(look), look)

    @property
    def source_text(self) -> str:
        """The text to copy when the whole block is selected; empty: the text of its rows."""
        return ""

    @property
    def fold_row(self) -> int:
        """The index of the row whose click folds and unfolds the block."""
        return 0

    def set_open(self, *, opened: bool) -> None:
        """Fold or unfold the block; its rows must be drawn again afterwards."""
        self.opened = opened

    def follow_state(self, state: AgentState) -> bool:
        """Update a finished block from the state. Returns whether it has to be drawn again."""
        return False

    def forget_rows(self, look: Look) -> None:
        """Drop the drawn rows and estimate the height again."""
        self.rows = None
        self.measured = False
        self.height = max(1, self.estimate_height(look))


class UserBlock(Block):
    """A message of the user. A long one, such as one with a pasted file, shows its first lines and
    its last, which usually holds the question.
    """

    def __init__(self, text: str, *, aside: bool = False) -> None:
        super().__init__()
        self.text = text
        self.aside = aside  # said beside the work
        self.foldable = is_long(text)
        self._fold_at = 0  # the row that opens it

    def draw_rows(self, look: Look) -> list[Row]:
        text, hidden, last = self.source_text, 0, ""
        if self.foldable and not self.opened:
            text, hidden = first_lines(text)
            last = _last_line(self.source_text) if hidden > 1 else ""
        style, mark = ink(look.palette.text), ("›", ink(look.palette.accent, bold=True))
        rows = rows_of([(make_visible(text), style)], look.text_width)
        self._fold_at = len(rows)
        if self.foldable:
            rows.append(long_row(self.opened, hidden - bool(last), len(self.source_text), look))
        if last:
            rows += rows_of([(make_visible(last), style)], look.text_width)
        if self.aside:
            rows = with_chip(rows, look.words("transcript.beside"), look)
        return frame_rows(rows, look, mark)

    @property
    def fold_row(self) -> int:
        return self._fold_at

    def estimate_height(self, look: Look) -> int:
        folded = self.foldable and not self.opened
        text = first_lines(self.source_text)[0] if folded else self.text
        return rough_rows(text, look.text_width) + 2 * self.foldable

    @property
    def source_text(self) -> str:
        return self.text.strip("\n")


def is_long(text: str) -> bool:
    """Whether a text of the user is folded wherever it is shown."""
    text = text.strip("\n")
    return text.count("\n") >= MOST_LINES or len(text) > MOST_CHARS


def first_lines(text: str) -> tuple[str, int]:
    """Return the part of a long message that is shown while folded, and the number of
    hidden lines.
    """
    lines = text.split("\n")
    shown = [line[:_SHOWN_CHARS] for line in lines[:_SHOWN_LINES]]
    cut = shown != lines[:_SHOWN_LINES]
    return "\n".join(shown) + (ELLIPSIS if cut else ""), len(lines) - len(shown)


def _last_line(text: str) -> str:
    """Return the last line, cut at its start where it is long."""
    line = text[-_SHOWN_CHARS - 1 :].rpartition("\n")[2]
    return line if len(line) <= _SHOWN_CHARS else ELLIPSIS + line[1:]


def long_row(opened: bool, hidden: int, characters: int, look: Look) -> Row:
    """Return the row ``▸ 37 more lines`` that unfolds or folds a long message."""
    words = look.words
    if opened:
        said = words("transcript.fold_message")
    elif hidden > 1:
        said = words("transcript.message_lines", count=f"{hidden:,}")
    else:
        said = words("transcript.message_characters", count=f"{characters:,}")
    sign = OPEN if opened else FOLDED
    return [
        Segment(f"{sign} ", ink(look.palette.accent)),
        Segment(fit(said, max(1, look.text_width - 2)), ink(look.palette.quiet)),
    ]


class ReplyBlock(Block):
    """A reply of the model in Markdown; of a very long one only the beginning, until it is
    unfolded.
    """

    def __init__(self, text: str, *, complete: bool = True, stopped: bool = False) -> None:
        """``stopped``: an incomplete reply was stopped by the user."""
        super().__init__()
        self.text = text
        self.complete = complete
        self.stopped = stopped
        self.foldable = len(text) > MOST_REPLY

    @property
    def shown_text(self) -> str:
        """The part of the text that is drawn."""
        return self.text if self.opened else self.text[:MOST_REPLY]

    def draw_rows(self, look: Look) -> list[Row]:
        # Here, because the parser costs what the first paint must not wait for.
        from duckflow_tui.ui.panes.markdown import MarkdownDocument

        document = MarkdownDocument(look)
        document.feed_text(self.shown_text)
        return self.finish_rows(document)

    def take_over(self, document: MarkdownDocument) -> None:
        """Use the rows drawn while the reply arrived, if the document's text is the beginning of
        this reply.
        """
        if self.shown_text.startswith(document.source_text):
            document.feed_text(self.shown_text[len(document.source_text) :])
            self.rows = self.finish_rows(document)
            self.height, self.measured = len(self.rows), True

    def finish_rows(self, document: MarkdownDocument) -> list[Row]:
        """Return the rows of a document that holds ``shown_text``, with the notes below them."""
        document.draw_rest()
        done, look = document.rows, document.look
        if not self.complete:
            word = look.words("transcript.stopped_here" if self.stopped else "transcript.cut_off")
            done += frame_rows([[Segment(f"— {word}", ink(look.palette.bad))]], look)
        if self.foldable:
            hidden = self.text.count("\n", MOST_REPLY)
            done += frame_rows([long_row(self.opened, hidden, len(self.text), look)], look)
        return done

    @property
    def fold_row(self) -> int:
        return len(self.rows) - 1 if self.foldable and self.rows else 0

    def estimate_height(self, look: Look) -> int:
        return rough_rows(self.shown_text, look.text_width) + self.foldable

    @property
    def source_text(self) -> str:
        return self.text


class FoldBlock(Block):
    """A folded row with a text behind it: reasoning, or a reply that could not be read."""

    group: Group = "row"
    foldable = True

    def __init__(self, key: str, text: str, seconds: float | None) -> None:
        super().__init__()
        self.key = key
        self.text = text
        self.seconds = seconds

    def draw_rows(self, look: Look) -> list[Row]:
        palette = look.palette
        key, seconds = self.key, self.seconds
        if seconds is not None and seconds < 1:
            key, seconds = f"{key}_briefly", None
        time = "" if seconds is None else time_words(seconds, look.words)
        title = look.words(key, time=time, count=f"{len(self.text):,}")
        shown = fit(title, look.text_width - 2)
        row = [fold_sign(self, look), Segment(shown, ink(palette.quiet))]
        rows = frame_rows([row], look)
        if self.opened:
            body = [(make_visible(self.text.strip("\n")), ink(palette.quiet, italic=True))]
            rows += frame_rows(bar_rows(rows_of(body, look.output_width), look), look)
        return rows


class NoticeBlock(Block):
    """A message of the app."""

    group: Group = "notice"
    _SIGNS: Final = {Level.INFO: "·", Level.WARNING: "!", Level.ERROR: "✗"}

    def __init__(self, message: NoticeMessage) -> None:
        super().__init__()
        self.message = message

    def draw_rows(self, look: Look) -> list[Row]:
        palette, level = look.palette, self.message.level
        color = {Level.INFO: palette.faint, Level.WARNING: palette.accent}.get(level, palette.bad)
        text = ink(palette.quiet if level is Level.INFO else palette.text)
        pieces: list[Piece] = []
        if level is not Level.INFO:
            pieces.append((look.words(f"transcript.level.{level}") + " ", ink(color)))
        pieces.append((look.words(self.message.key, **self.message.params), text))
        rows = rows_of(pieces, look.text_width)
        return frame_rows(rows, look, (self._SIGNS[level], ink(color, bold=True)))


class QuestionBlock(Block):
    """A question of the model with its options."""

    def __init__(self, question: Question, *, asked_already: bool) -> None:
        super().__init__()
        self.question = question
        self.asked_already = asked_already  # the reply above holds its words

    def follow_state(self, state: AgentState) -> bool:
        before = self.hidden
        asked = {card.question for card in state.cards if card.kind is CardKind.QUESTION}
        self.hidden = self.question.text in asked  # the open card says it
        return self.hidden is not before

    def draw_rows(self, look: Look) -> list[Row]:
        palette = look.palette
        rows: list[Row] = []
        if not self.asked_already:
            rows += rows_of(
                [(make_visible(self.question.text), ink(palette.text))], look.text_width
            )
        for number, option in enumerate(self.question.options, 1):
            pieces = [
                (f"{number} ", ink(palette.accent)),
                (visible_line(option), ink(palette.quiet)),
            ]
            rows += rows_of(pieces, look.text_width)
        return frame_rows(rows, look, ("?", ink(palette.accent, bold=True)))


def text_of_rows(rows: Sequence[Row], look: Look) -> str:
    """Return the text of drawn rows without their margin, one line each."""
    return "\n".join(row_text(row)[look.indent :].rstrip() for row in rows)


def with_chip(rows: list[Row], word: str, look: Look) -> list[Row]:
    """Append a chip to the last row, or below it where there is no room."""
    chip = Segment(f" {word} ", ink(look.palette.accent, on=look.palette.raised))
    if row_cells(rows[-1]) + 2 + chip.cell_length <= look.text_width:
        return [*rows[:-1], [*rows[-1], Segment("  ", PLAIN), chip]]
    return [*rows, [chip]]


def frame_rows(rows: Sequence[Row], look: Look, mark: Piece | None = None) -> list[Row]:
    """Indent rows by the margin; ``mark`` (one cell) stands before the first."""
    blank = " " * look.indent
    done: list[Row] = []
    for number, row in enumerate(rows or [[]]):
        if not number and mark is not None:
            lead = [Segment(" " * look.margin, PLAIN)] if look.margin else []
            done.append([*lead, Segment(*mark), Segment(" ", PLAIN), *row])
        else:
            done.append([Segment(blank, PLAIN), *row])
    return done


def reply_rows(rows: Sequence[Row], look: Look, *, first: bool = True) -> list[Row]:
    """Frame rows of a reply; the background of code extends one cell into the margin."""
    if not rows:
        return []
    done = frame_rows(rows, look, ("◆", ink(look.palette.ai)) if first else None)
    for row, content in zip(done, rows, strict=True):
        style = content[0].style if content else None
        if style is not None and style.bgcolor is not None:
            at = len(row) - len(content) - 1
            row[at : at + 1] = [
                Segment(row[at].text[:-1], row[at].style),
                Segment(" ", ink(None, on=look.palette.raised)),
            ]
    return done


def labelled_rows(
    label: str,
    text: str,
    look: Look,
    width: int,
    *,
    colour: str = "",
    label_colour: str = "",
    by_model: bool = False,
    column: int = 8,
) -> list[Row]:
    """Return text with its label in a column of ``column`` cells, or before the text where
    ``width`` is small. ``by_model`` marks the text as the model's words.
    """
    palette = look.palette
    lead = pad(fit(label, 12), column if width >= 40 else 0)
    name: Piece = (f"{lead} " if lead else "", ink(label_colour or palette.faint))
    body: list[Piece] = [(text, ink(colour or palette.quiet))]
    if by_model:
        body.insert(0, (f"{look.words('gate.says')} ", ink(palette.ai, italic=True)))
    return prefix_rows(rows_of(body, max(1, width - cell_len(name[0]))), name)


def bar_rows(rows: Sequence[Row], look: Look) -> list[Row]:
    """Put rows of unfolded details behind a faint vertical line."""
    return [[Segment("  │ ", ink(look.palette.faint)), *row] for row in rows]


def fold_sign(block: Block, look: Look) -> Segment:
    """Return the triangle of a row that can be unfolded."""
    return Segment(f"{OPEN if block.opened else FOLDED} ", ink(look.palette.faint))


def rough_rows(text: str, width: int) -> int:
    """Estimate the rows of a text from the lengths of its lines."""
    width = max(1, width)
    if not text.isascii():  # three bytes of UTF-8 are two cells more often than not
        wide = (len(text.encode("utf-8", "surrogatepass")) - len(text)) / 2
        width = max(1, int(width / (1 + wide / len(text))))
    return sum(1 + max(0, len(line) - 1) // width for line in text.split("\n"))
