"""Operations as rows: what ran, on what, how it ended, and behind the row everything about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible, visible_line
from duckflow_tui.state.base import JsonObject, canonical_json
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.ui.i18n import Catalogue
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.blocks import (
    Block,
    Group,
    Look,
    barred,
    fold_sign,
    framed,
    rough_rows,
    seconds_text,
)
from duckflow_tui.ui.panes.strips import PLAIN, Piece, Row, fit, ink, pad, prefixed, rows_of

HEAD_ROWS: Final = 24  # of a result that is too long to show, from its beginning
TAIL_ROWS: Final = 8  # and from its end
VALUE_ROWS: Final = 8  # of one argument

#: Arguments that say what an operation works on, the first that is there.
_TARGETS: Final = (
    "command", "pattern", "glob", "path", "source", "query", "goal", "step_id", "text", "message",
)  # fmt: skip
_PATHS: Final = frozenset({"path", "source"})

_MARKS: Final[dict[Outcome, str]] = {
    Outcome.OK: "✓",
    Outcome.ERROR: "✗",
    Outcome.INVALID: "✗",
    Outcome.DENIED: "⊘",
    Outcome.REJECTED: "⊘",
    Outcome.DECLINED: "↪",
    Outcome.STOPPED: "■",
    Outcome.SKIPPED: "–",
}


class OperationBlock(Block):
    """A call that ended: one row, its details behind it."""

    group: Group = "row"
    foldable = True

    def __init__(self, message: OperationMessage) -> None:
        super().__init__()
        self.message = message

    def draw(self, look: Look) -> list[Row]:
        message, palette = self.message, look.palette
        result = message.result
        mark = Segment(_MARKS[result.outcome], ink(_mark_color(result.outcome, palette)))
        right: Row = [mark]
        if look.text_width >= 30 and result.duration_s > 0:
            time = seconds_text(result.duration_s, look.words)
            right = [Segment(f"{time} ", ink(palette.faint)), mark]
        figures, said = self._figures(look), decision_text(message, look.words)
        target = target_of(message.args)[0]
        if said and cell_len(said) + cell_len(target) + 24 <= look.text_width:
            figures, said = said, ""  # there is room in the row
        row = operation_row(
            fold_sign(self, look), message.operation, message.args, figures, right, look
        )
        rows = [row]
        if said:
            rows += prefixed(
                rows_of([(said, ink(palette.quiet))], look.text_width - 4),
                ("  ↳ ", ink(palette.faint)),
            )
        if self.opened:
            rows += self._details(look)
        return framed(rows, look)

    def _figures(self, look: Look) -> str:
        result = self.message.result
        summary = visible_line(result.summary)
        if not summary and result.changes:
            added = sum(change.added for change in result.changes)
            removed = sum(change.removed for change in result.changes)
            summary = visible_line(f"+{added} −{removed}")
        if result.outcome is Outcome.OK or (result.outcome is Outcome.ERROR and summary):
            return summary
        word = look.words(f"transcript.outcome.{result.outcome}")
        return f"{word} · {summary}" if summary else word

    def _details(self, look: Look) -> list[Row]:
        message, words = self.message, look.words
        width = look.text_width - 4
        rows: list[Row] = []
        rows += _labelled(words("transcript.label.operation"), message.operation, look, width)
        rows += _labelled(words("transcript.label.intent"), message.intent, look, width)
        rows += _labelled(words("transcript.label.why"), message.reasoning, look, width)
        for name, value in message.args.items():
            text = value if isinstance(value, str) else canonical_json(value)
            rows += _labelled(visible_line(name), text, look, width)
        answer = message.answer
        if answer is not None:
            said = words(f"transcript.answer.{answer.choice}")
            rows += _labelled(words("transcript.label.answer"), said, look, width)
        for change in message.result.changes:
            target = f" → {change.target}" if change.target else ""
            text = f"{change.kind} {change.path}{target} +{change.added} −{change.removed}"
            rows += _labelled(words("transcript.label.change"), text, look, width)
        rows += self._result(look, width)
        return barred(rows, look)

    def _result(self, look: Look, width: int) -> list[Row]:
        result = self.message.result
        text = visible(result.text.strip("\n"))
        rows = rows_of([(text, ink(look.palette.quiet))], width) if text else []
        rows = shortened(rows, HEAD_ROWS, TAIL_ROWS, look)
        if result.truncated_chars:
            count = f"{result.truncated_chars:,}"
            said = look.words("transcript.left_out", count=count)
            rows += rows_of([(said, ink(look.palette.faint))], width)
        return rows

    def estimate(self, look: Look) -> int:
        if not self.opened:
            return 1
        return 4 + min(rough_rows(self.message.result.text, look.text_width - 4), 33)

    @property
    def said(self) -> str:
        message = self.message
        values = (str(value) for value in message.args.values())
        parts = (message.operation, *values, message.intent, message.reasoning)
        answer = message.answer.reason if message.answer else ""
        return "\n".join((*parts, answer, message.result.summary, message.result.text))


def operation_row(
    sign: Segment, operation: str, args: JsonObject, figures: str, right: Row, look: Look
) -> Row:
    """One line: sign, verb, target, figures, and at the right what it took and how it ended.

    ``figures`` is safe text. What does not fit is cut with ``…``, the target before the figures.
    """
    palette, width = look.palette, look.text_width
    verb = fit(verb_of(operation, look.words), max(1, width // 3))
    if width >= 24:
        verb = pad(verb, verb_cells(look.words))
    target, is_path = target_of(args)
    used = cell_len(sign.text) + cell_len(verb) + 1
    room = max(0, width - used - sum(segment.cell_length for segment in right) - 1)
    if figures and target and cell_len(target) + 2 + cell_len(figures) > room:
        figures = fit(figures, room // 2)
        target = fit(target, room - cell_len(figures) - 2, "end" if is_path else "start")
    target = fit(target, room, "end" if is_path else "start")
    left: Row = [sign, Segment(verb, ink(palette.ai)), Segment(" ", PLAIN)]
    left.append(Segment(target, ink(palette.quiet)))
    if figures:
        lead = "  " if target else ""
        space = room - cell_len(target) - len(lead)
        left.append(Segment(lead + fit(figures, space), ink(palette.quiet)))
    left = [segment for segment in left if segment.text]
    spare = width - sum(segment.cell_length for segment in (*left, *right))
    return [*left, Segment(" " * max(0, spare), PLAIN), *right] if spare > 0 else [*left, *right]


def verb_of(operation: str, words: Catalogue) -> str:
    """The short name of an operation; its own last part where the catalogue has none."""
    key = f"transcript.operation.{operation}"
    return words(key) if words.has(key) else visible_line(operation.rpartition(".")[2])


def verb_cells(words: Catalogue) -> int:
    """How wide the column of verbs is, in cells."""
    return int(words("transcript.verb_cells"))


def target_of(args: JsonObject) -> tuple[str, bool]:
    """What a call works on, on one line, and whether that is a path; empty when it names none."""
    for name in _TARGETS:
        value = args.get(name)
        if isinstance(value, str) and value.strip():
            return visible_line(value.strip()), name in _PATHS
    text = next((v for v in args.values() if isinstance(v, str) and v.strip()), "")
    return visible_line(text.strip()), False


def decision_text(message: OperationMessage, words: Catalogue) -> str:
    """What the user decided in the gate, where it changed what happened."""
    answer = message.answer
    if answer is None:
        return ""
    match answer.choice:
        case GateChoice.REJECT:
            key = "transcript.rejected_because" if answer.reason.strip() else "transcript.rejected"
            return words(key, reason=answer.reason.strip())
        case GateChoice.ALTERNATIVE:
            offered = message.gate.alternatives if message.gate else ()
            number = answer.alternative or 0
            label = offered[number - 1] if 0 < number <= len(offered) else str(number)
            return words("transcript.alternative", label=label)
        case GateChoice.EDIT:
            return words("transcript.edited")
        case GateChoice.ONCE | GateChoice.SESSION:
            if answer.left_out:
                return words("transcript.hunks_left_out", count=len(answer.left_out))
            return ""


def shortened(rows: Sequence[Row], head: int, tail: int, look: Look) -> list[Row]:
    """The rows, those in the middle replaced by their count when there are too many."""
    hidden = len(rows) - head - tail
    if hidden <= 1:
        return list(rows)
    said = look.words("transcript.more_lines", count=f"{hidden:,}")
    line: Row = [Segment(said, ink(look.palette.faint))]
    return [*rows[:head], line, *rows[len(rows) - tail :]]


def _labelled(label: str, text: str, look: Look, width: int) -> list[Row]:
    if not text.strip():
        return []
    name: Piece = (pad(fit(label, 12), 8 if width >= 40 else 0) + " ", ink(look.palette.faint))
    body = [(visible(text.strip("\n")), ink(look.palette.quiet))]
    rows = rows_of(body, max(1, width - cell_len(name[0])))
    return prefixed(shortened(rows, VALUE_ROWS, 0, look), name)


def _mark_color(outcome: Outcome, palette: Palette) -> str:
    match outcome:
        case Outcome.OK:
            return palette.good
        case Outcome.ERROR | Outcome.INVALID | Outcome.DENIED:
            return palette.bad
        case Outcome.DECLINED:
            return palette.ai
        case Outcome.REJECTED | Outcome.STOPPED | Outcome.SKIPPED:
            return palette.quiet
