"""Operations and commands in the chat: what ran, how it ended, what it changed or printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.base import JsonObject, canonical_json
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import DiffLine, FilePreview, GateChoice
from duckflow_tui.state.lines import split_bare_lines
from duckflow_tui.state.operations import FileChange, Outcome
from duckflow_tui.tools.diffs import join_hunks
from duckflow_tui.tools.results import hide_reading_hint
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.blocks import (
    SHORTEST,
    Block,
    Group,
    Look,
    bar_rows,
    fold_sign,
    frame_rows,
)
from duckflow_tui.ui.panes.diff_document import shown_path
from duckflow_tui.ui.panes.strips import (
    PLAIN,
    Piece,
    Row,
    fit,
    ink,
    pad,
    prefix_rows,
    row_cells,
    rows_of,
)
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import TARGETS, figures_words, find_target, took_text


def change_rows(previews: Sequence[FilePreview], palette: Palette, width: int) -> list[Row]:
    """Every line of the hunks with its numbers and mark; a file's path where there are several."""
    rows: list[Row] = []
    lines = [line for preview in previews for hunk in preview.hunks for line in hunk.lines]
    olds, news = [line.old or 0 for line in lines], [line.new or 0 for line in lines]
    digits = len(str(max((*olds, *news), default=0)))
    columns = 2 if any(olds) and any(news) else 1
    for preview in previews:
        if len(previews) > 1 or not preview.hunks:
            said = f"{visible_line(shown_path(preview))}  +{preview.added} −{preview.removed}"
            rows += rows_of([(said, ink(palette.text, bold=True))], width)
        for number, hunk in enumerate(join_hunks(preview.hunks)):
            if number:
                rows.append([Segment("⋯", ink(palette.faint))])
            for line in hunk.lines:
                rows += _line_rows(line, palette, digits, width, columns=columns)
    return rows


def _line_rows(
    line: DiffLine, palette: Palette, digits: int, width: int, *, columns: int
) -> list[Row]:
    """The rows of one line of a diff; before it its old and its new number, or in one column
    the only one, and its sign.
    """
    ground = {"+": palette.added, "-": palette.removed}.get(line.mark)
    tone = palette.quiet if ground is None else palette.text
    sign = {"+": palette.good, "-": palette.bad}.get(line.mark, palette.faint)
    numbers = (line.old, line.new) if columns == 2 else (line.new or line.old,)
    head = "".join(f"{number or '':>{digits}} " for number in numbers) + f"{line.mark} "
    text = visible_line(line.text.expandtabs(4))
    rows = rows_of([(text, ink(tone, on=ground))], max(1, width - len(head)), words=False)
    rows = prefix_rows(rows, (head, ink(sign, on=ground)), (" " * len(head), ink(None, on=ground)))
    if ground is None:
        return rows
    fill = ink(None, on=ground)
    return [[*row, Segment(pad("", width - row_cells(row)), fill)] for row in rows]


HEAD_ROWS: Final = 24  # of a result that is too long to show, from its beginning
TAIL_ROWS: Final = 8  # and from its end
VALUE_ROWS: Final = 8  # of one argument
EXIT_CELLS: Final = 14  # of the figures, kept before the target: "終了コード 127"
_NAMED: Final = 2  # changed files that are named; of more there is only the count
CHANGE_ROWS: Final = 60  # of a change; the pane beside the chat has the whole of it

_SIDES: Final = (("-", "old"), ("+", "new"))
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
    """A finished call: one row that unfolds into its details."""

    group: Group = "row"
    foldable = True

    def __init__(self, message: OperationMessage) -> None:
        super().__init__()
        self.message = message

    def draw_rows(self, look: Look) -> list[Row]:
        message, palette = self.message, look.palette
        result = message.result
        mark = self.outcome_sign(look)
        right: Row = [mark]
        if look.text_width >= 30 and result.duration_s >= SHORTEST:
            time = took_text(result.duration_s, look.words)
            right = [Segment(f"{time} ", ink(palette.faint)), mark]
        (figures, style), said = self.figures_and_style(look), decision_text(message, look.words)
        target = find_target(message.args)[0]
        room = look.text_width - cell_len(target) - 24
        if said and cell_len(said) <= room:
            figures, said = said, ""  # there is room in the row
        elif has_failed(message) and cell_len(figures) > room:
            said, figures = said or figures, ""  # why it failed is not cut
        sign, name, args = fold_sign(self, look), message.operation, message.args
        rows = [operation_row(sign, name, args, figures, right, look, style)]
        if said:
            rows += prefix_rows(
                rows_of([(said, ink(palette.quiet))], look.output_width),
                ("  ↳ ", ink(palette.faint)),
            )
        rows += self._detail_rows(look) if self.opened else self.preview_rows(look)
        return frame_rows(rows, look, own_mark(look) if message.by_user else None)

    def outcome_sign(self, look: Look) -> Segment:
        """Return the sign of the outcome, shown at the right end of the row."""
        outcome = self.message.result.outcome
        return Segment(_MARKS[outcome], ink(_mark_color(outcome, look.palette)))

    def figures_and_style(self, look: Look) -> tuple[str, Style]:
        """Return the figures in the row, as safe text, with their style."""
        return self._figures_text(look), ink(look.palette.quiet)

    def preview_rows(self, look: Look) -> list[Row]:
        """Return rows shown below the folded call; by default none."""
        return []

    def output_text(self) -> str:
        """The result's text shown while the block is unfolded."""
        result = self.message.result
        return hide_reading_hint(result.text, result.blob)

    def left_out(self, look: Look) -> str:
        """Return how many characters of the result were cut off, in words; empty for none."""
        result = self.message.result
        key = "transcript.left_out" if result.blob else "output.lost"
        count = result.truncated_chars
        return look.words(key, count=f"{count:,}") if count else ""

    @property
    def has_more(self) -> bool:
        """Whether the whole result is stored on disk while this message has a part of it."""
        return bool(self.message.result.blob and self.message.result.truncated_chars)

    def _figures_text(self, look: Look) -> str:
        """Outcome and figures of the call, such as ``+3 −2``."""
        result = self.message.result
        summary = without_target(visible_line(result.summary), self.message.args)
        summary = visible_line(figures_words(self.message.operation, summary, look.words))
        if not summary and result.changes:
            added = sum(change.added for change in result.changes)
            removed = sum(change.removed for change in result.changes)
            summary = f"+{added} −{removed}" if added or removed else ""  # none for a move
        if result.outcome is Outcome.OK or (result.outcome is Outcome.ERROR and summary):
            return summary
        outcome = "unknown" if result.unknown else result.outcome
        word = look.words(f"transcript.outcome.{outcome}")
        return f"{word} · {summary}" if summary else word

    def _detail_rows(self, look: Look) -> list[Row]:
        """Return the details: intent, reason, arguments, change and result."""
        message, words = self.message, look.words
        width = look.output_width
        rows: list[Row] = []
        if not words.has(f"transcript.operation.{message.operation}"):  # of a server, by its name
            rows += _labelled_rows(
                words("transcript.label.operation"), message.operation, look, width
            )
        rows += _labelled_rows(words("transcript.label.intent"), message.intent, look, width)
        rows += _labelled_rows(words("transcript.label.why"), message.reasoning, look, width)
        gate, touched = message.gate, message.result.touched
        previews = message.previews or (gate.previews if gate is not None else ())
        for name, value in message.args.items():
            if previews and not touched and name not in TARGETS:
                continue  # the change below says it better
            text = _in_words(value)
            rows += _labelled_rows(visible_line(name), text, look, width)
        answer = message.answer
        said = consent_text(message, words)
        if answer is not None:
            said = words(f"transcript.answer.{answer.choice}")
        if said:
            rows += _labelled_rows(words("transcript.label.answer"), said, look, width)
        for change in message.result.shown_changes:
            target = f" → {change.target}" if change.target else ""
            kind = words(f"rewind.kind.{change.kind}")
            text = f"{kind} {change.path}{target} +{change.added} −{change.removed}"
            rows += _labelled_rows(words("transcript.label.change"), text, look, width)
        changed = change_rows(previews, look.palette, width)
        rows += shorten_rows(changed, CHANGE_ROWS, 0, look)
        rows += self._result_rows(look, width)
        return bar_rows(rows, look)

    def _result_rows(self, look: Look, width: int) -> list[Row]:
        """Return the result's text, cut in the middle where it is long."""
        text = make_visible(self.output_text().strip("\n"))
        rows = rows_of([(text, ink(look.palette.quiet))], width) if text else []
        rows = shorten_rows(rows, HEAD_ROWS, TAIL_ROWS, look)
        if said := self.left_out(look):
            rows += rows_of([(said, ink(look.palette.quiet))], width)
        return rows


def count_words(kind: str, count: int, look: Look) -> str:
    """Return a count of calls of one kind in words, such as ``3 files read``."""
    return look.words(f"work.{kind}", count=f"{count:,}")


def file_pieces(changes: list[FileChange], look: Look) -> list[Piece]:
    """Return the changed files with their line counts; many files as one sum."""
    palette = look.palette
    lines: dict[str, tuple[int, int]] = {}
    for change in changes:
        name = (change.target or change.path).rpartition("/")[2]
        added, removed = lines.get(name, (0, 0))
        lines[name] = added + change.added, removed + change.removed
    if len(lines) > _NAMED:
        added, removed = (sum(figures) for figures in zip(*lines.values(), strict=True))
        lines = {count_words("file", len(lines), look): (added, removed)}
    pieces: list[Piece] = []
    for name, (added, removed) in lines.items():
        pieces.append((f" {visible_line(name)}", ink(palette.text)))
        if added or not removed:
            pieces.append((f" +{added}", ink(palette.good)))
        if removed:
            pieces.append((f" −{removed}", ink(palette.bad)))
    return pieces


def own_mark(look: Look) -> Piece:
    """Return the mark before a command that the user ran."""
    return ("!", ink(look.palette.accent, bold=True))


def operation_row(
    sign: Segment,
    operation: str,
    args: JsonObject,
    figures: str,
    right: Row,
    look: Look,
    style: Style | None = None,
) -> Row:
    """Return one row: sign, verb, target, figures, and ``right`` at the right edge.

    ``figures`` is safe text, in ``style``. The target is cut before the figures.
    """
    palette, width = look.palette, look.text_width
    verb = fit(verb_of(operation, look.words), max(1, width // 3))
    if width >= 24:
        verb = pad(verb, verb_cells(look.words))
    target, is_path = find_target(args)
    used = cell_len(sign.text) + cell_len(verb) + 1
    room = max(0, width - used - sum(segment.cell_length for segment in right) - 1)
    if figures and target and cell_len(target) + 2 + cell_len(figures) > room:
        figures = fit(figures, max(room // 2, min(room - 2, EXIT_CELLS)))
        target = fit(target, room - cell_len(figures) - 2, "end" if is_path else "start")
    target = fit(target, room, "end" if is_path else "start")
    left: Row = [sign, Segment(verb, ink(palette.ai)), Segment(" ", PLAIN)]
    left.append(Segment(target, ink(palette.quiet)))
    if figures:
        lead = "  " if target else ""
        space = room - cell_len(target) - len(lead)
        left.append(Segment(lead + fit(figures, space), style or ink(palette.quiet)))
    left = [segment for segment in left if segment.text]
    spare = width - sum(segment.cell_length for segment in (*left, *right))
    return [*left, Segment(" " * max(0, spare), PLAIN), *right] if spare > 0 else [*left, *right]


def verb_of(operation: str, words: Catalogue) -> str:
    """Return the short name of an operation; its last part where the catalogue has none."""
    said = words.name_operations(operation)
    return said if said != operation else visible_line(operation.rpartition(".")[2])


def call_words(operation: str, args: JsonObject, words: Catalogue) -> str:
    """Return a call in a few words on one line, such as ``edit src/shop/pricing.py``."""
    return f"{verb_of(operation, words)} {find_target(args)[0]}".rstrip()


def verb_cells(words: Catalogue) -> int:
    """Return the width of the column of verbs in cells."""
    return int(words("transcript.verb_cells"))


def decision_text(message: OperationMessage, words: Catalogue) -> str:
    """Return the user's decision at the gate, where it changed what happened; else empty."""
    answer = message.answer
    if answer is None:
        return ""
    match answer.choice:
        case GateChoice.REJECT:
            key = "transcript.rejected_because" if answer.full_text else "transcript.rejected"
            return words(key, reason=answer.full_text)
        case GateChoice.ALTERNATIVE:
            offered = message.gate.alternatives if message.gate else ()
            number = answer.alternative or 0
            label = offered[number - 1] if 0 < number <= len(offered) else str(number)
            return words("transcript.alternative", label=label)
        case GateChoice.EDIT:
            return words("transcript.edited")
        case _:  # it was allowed, once or for longer
            if answer.left_out:
                return words("transcript.hunks_left_out", count=len(answer.left_out))
            return ""


def consent_text(message: OperationMessage, words: Catalogue) -> str:
    """Return which consent allowed an effect: the user's key, an earlier answer, or the mode."""
    answer = message.answer
    if answer is not None and answer.is_approval:
        return words(f"transcript.answer.{answer.choice}")
    return words(f"transcript.allowed.{message.allowed}") if message.allowed else ""


def has_failed(message: OperationMessage) -> bool:
    """Whether the call failed, was invalid or was denied."""
    return message.result.outcome in (Outcome.ERROR, Outcome.INVALID, Outcome.DENIED)


def without_target(summary: str, args: JsonObject) -> str:
    """Return the summary without the path at its start, which the row shows already."""
    target, is_path = find_target(args)
    if is_path and target and summary.startswith(target):
        return summary.removeprefix(target).lstrip(" :,") or summary
    return summary


def shorten_rows(rows: Sequence[Row], head: int, tail: int, look: Look) -> list[Row]:
    """Return the first ``head`` and last ``tail`` rows, with the number of rows left out between
    them.
    """
    hidden = len(rows) - head - tail
    if hidden <= 1:
        return list(rows)
    said = look.words("transcript.more_lines", count=f"{hidden:,}")
    line: Row = [Segment(said, ink(look.palette.quiet))]
    return [*rows[:head], line, *rows[len(rows) - tail :]]


def _in_words(value: Any) -> str:
    """Format an argument for reading: replacements as marked lines, other values as written."""
    if isinstance(value, str):
        return value
    edits = cast("list[Any]", value) if isinstance(value, list) else []
    lines: list[str] = []
    for edit in edits:
        if not isinstance(edit, dict) or "old" not in edit or "new" not in edit:
            return canonical_json(cast("Any", value))
        for mark, side in _SIDES:
            text = str(cast("JsonObject", edit)[side])
            lines += [f"{mark} {line}" for line in split_bare_lines(text)]
    return "\n".join(lines) if lines else canonical_json(cast("Any", value))


def _labelled_rows(label: str, text: str, look: Look, width: int) -> list[Row]:
    """Rows of a text behind its label; none for an empty text."""
    if not text.strip():
        return []
    name: Piece = (pad(fit(label, 12), 8 if width >= 40 else 0) + " ", ink(look.palette.faint))
    body = [(make_visible(text.strip("\n")), ink(look.palette.quiet))]
    rows = rows_of(body, max(1, width - cell_len(name[0])))
    return prefix_rows(shorten_rows(rows, VALUE_ROWS, 0, look), name)


def _mark_color(outcome: Outcome, palette: Palette) -> str:
    """The colour of the mark for an outcome."""
    match outcome:
        case Outcome.OK:
            return palette.good
        case Outcome.ERROR | Outcome.INVALID | Outcome.DENIED:
            return palette.bad
        case Outcome.DECLINED:
            return palette.ai
        case Outcome.REJECTED | Outcome.STOPPED | Outcome.SKIPPED:
            return palette.quiet


FIRST_LINES: Final = 2  # of the output that a folded block shows
LAST_LINES: Final = 3
OWN_BESIDE: Final = 8  # rows of the screen that the output of the user's own command leaves
_NOTHING: Final = "(no output)"  # what a result says of a command that printed nothing


def is_command(message: OperationMessage) -> bool:
    """Whether the message is a command that ran to its end."""
    return message.result.exit_code is not None


def printed_text(message: OperationMessage) -> str:
    """Return a command's output without the app's remarks in the result."""
    result = message.result
    text = hide_reading_hint(result.text, result.blob)
    _, found, rest = text.partition(f"{result.summary}\n")  # before it the user's own command
    text = (rest if found and result.summary else text).strip("\n")
    return "" if text == _NOTHING else text


class CommandBlock(OperationBlock):
    """A finished command: its row shows the exit code, with the ends of the output below, or all of
    it when unfolded.
    """

    def __init__(self, message: OperationMessage) -> None:
        super().__init__(message)
        self._lines = printed_text(message).split("\n")

    def outcome_sign(self, look: Look) -> Segment:
        if self._has_failed and self.message.result.outcome is Outcome.OK:
            return Segment("✗", ink(look.palette.bad))
        return super().outcome_sign(look)

    def figures_and_style(self, look: Look) -> tuple[str, Style]:
        result, words, palette = self.message.result, look.words, look.palette
        code = result.exit_code or 0
        if result.outcome is Outcome.STOPPED:
            word = "unknown" if result.unknown else "stopped"
            return words(f"transcript.outcome.{word}"), ink(palette.quiet)
        if result.outcome is not Outcome.OK:
            return super().figures_and_style(look)[0], ink(
                palette.bad if self._has_failed else palette.quiet
            )
        if not code:
            return words("output.exit", code=code), ink(palette.quiet)
        how = words("output.exit", code=code) if code > 0 else result.summary.partition(" · ")[0]
        return f"{words('transcript.outcome.error')} · {make_visible(how)}", ink(palette.bad)

    def preview_rows(self, look: Look) -> list[Row]:
        lines, width = self._lines, look.output_width
        first, last = FIRST_LINES, LAST_LINES
        if self.message.by_user:  # whole, as far as a screen has room for it
            first = max(first, look.screen_rows - OWN_BESIDE - last)
        hidden = len(lines) - first - last
        quiet = ink(look.palette.quiet)
        rows: list[Row] = []
        touched = self.message.result.shown_changes
        label: Piece = (f"{look.words('transcript.label.change')} ", ink(look.palette.faint))
        changed = rows_of([label, *file_pieces(list(touched), look)], width) if touched else []
        if lines == [""]:
            return bar_rows(changed, look) if changed else []
        shown = lines if hidden <= 1 else [*lines[:first], *lines[-last:]]
        for line in shown:
            rows.append([Segment(fit(make_visible(line[: 4 * width]), width), quiet)])
        if hidden > 1:
            said = look.words("output.more", count=f"{hidden:,}")
            rows.insert(first, [Segment(fit(said, width), quiet)])
        if left_out := self.left_out(look):
            rows += rows_of([(left_out, quiet)], width)
        return bar_rows(rows + changed, look)

    def output_text(self) -> str:
        return "\n".join(self._lines)

    @property
    def _has_failed(self) -> bool:
        return self.message.result.outcome is Outcome.ERROR or bool(self.message.result.exit_code)
