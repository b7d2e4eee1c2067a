"""A command that ended: how, how long it took, and of what it printed the first and last lines."""

from __future__ import annotations

from typing import Final

from rich.segment import Segment
from rich.style import Style

from duckflow_tui.safety.safe_text import visible
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.ui.panes.blocks import Look, barred
from duckflow_tui.ui.panes.operation_blocks import OperationBlock
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of

FIRST_LINES: Final = 2  # of the output that a folded block shows
LAST_LINES: Final = 3

_NOTHING: Final = "(no output)"  # what a result says of a command that printed nothing


def is_command(message: OperationMessage) -> bool:
    """Whether a command ran to its end, by itself or not."""
    return message.result.exit_code is not None


def printed(message: OperationMessage) -> str:
    """What the command printed, without what its result says of it."""
    result = message.result
    text, command = result.text, message.args.get("command")
    head = f"$ {command}\n" if message.by_user else ""
    _, found, rest = text.partition(f"{head}{result.summary}\n")
    text = (rest if found and result.summary else text).strip("\n")
    return "" if text == _NOTHING else text


class CommandBlock(OperationBlock):
    """Its row says the exit code; below stand the ends of the output, all of it when opened."""

    def __init__(self, message: OperationMessage) -> None:
        super().__init__(message)
        self._lines = printed(message).split("\n")

    def mark(self, look: Look) -> Segment:
        if self._failed and self.message.result.outcome is Outcome.OK:
            return Segment("✗", ink(look.palette.bad))
        return super().mark(look)

    def figures(self, look: Look) -> tuple[str, Style]:
        result, words, palette = self.message.result, look.words, look.palette
        code = result.exit_code or 0
        if result.outcome is Outcome.STOPPED:
            word = "unknown" if result.unknown else "stopped"
            return words(f"transcript.outcome.{word}"), ink(palette.quiet)
        if result.outcome is not Outcome.OK:
            return super().figures(look)[0], ink(palette.bad if self._failed else palette.quiet)
        if not code:
            return words("output.exit", code=code), ink(palette.quiet)
        how = words("output.exit", code=code) if code > 0 else result.summary.partition(" · ")[0]
        return f"{words('transcript.outcome.error')} · {visible(how)}", ink(palette.bad)

    def preview(self, look: Look) -> list[Row]:
        lines, width = self._lines, look.text_width - 4
        hidden = len(lines) - FIRST_LINES - LAST_LINES
        quiet, faint = ink(look.palette.quiet), ink(look.palette.faint)
        if lines == [""]:
            return []
        rows: list[Row] = []
        shown = lines if hidden <= 1 else [*lines[:FIRST_LINES], *lines[-LAST_LINES:]]
        for line in shown:
            rows.append([Segment(fit(visible(line[: 4 * width]), width), quiet)])
        if hidden > 1:
            said = look.words("output.more", count=f"{hidden:,}")
            rows.insert(FIRST_LINES, [Segment(fit(said, width), faint)])
        if left_out := self.left_out(look):
            rows += rows_of([(left_out, faint)], width)
        return barred(rows, look)

    def output(self) -> str:
        return "\n".join(self._lines)

    def estimate(self, look: Look) -> int:
        if self.opened:
            return super().estimate(look)
        shown = 0 if self._lines == [""] else len(self._lines)
        return 1 + min(shown, FIRST_LINES + LAST_LINES + 1)

    @property
    def _failed(self) -> bool:
        return self.message.result.outcome is Outcome.ERROR or bool(self.message.result.exit_code)
