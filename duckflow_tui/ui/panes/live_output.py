"""What a running command prints, below its row: the newest lines, and for how long nothing came."""

from __future__ import annotations

from typing import Final

from rich.segment import Segment
from rich.style import Style

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.calls import LiveOutput, RunningOperation
from duckflow_tui.ui.panes.blocks import Look, barred, whole_seconds
from duckflow_tui.ui.panes.strips import Row, fit, ink
from duckflow_tui.words.catalogue import Catalogue

FOLDED_LINES: Final = 5
OPEN_LINES: Final = 40
SILENT_AFTER: Final = 120.0  # seconds without output after which that is said

_CELLS: Final = 4  # characters at most that one cell is made of, as far as a cut goes


def output_rows(
    running: RunningOperation, output: LiveOutput | None, look: Look, now: float, *, opened: bool
) -> list[Row]:
    """Rows for below the row of a call that runs; none while there is nothing to say."""
    rows: list[Row] = []
    if output is not None:
        count = OPEN_LINES if opened else FOLDED_LINES
        lines = output.newest(count + 1)
        if len(lines) > count:
            lines = lines[1:]
            key = "output.earlier" if opened else "output.earlier_folded"
            said = fit(look.words(key), look.text_width - 4)
            rows.append([Segment(said, ink(look.palette.faint))])
        width = look.text_width - 4
        rows += tail_rows(lines, width, ink(look.palette.quiet))
    prints = output is not None or running.operation == "shell.run"
    since = output.at or running.at if output is not None else running.at
    said = silence(since, now, look.words) if prints else ""
    if said:
        rows.append([Segment(fit(said, look.text_width - 4), ink(look.palette.accent))])
    return barred(rows, look)


def tail_rows(lines: list[str], width: int, style: Style) -> list[Row]:
    """One row for each line; of the last one, which still grows, its end is shown."""
    last = len(lines) - 1
    return [
        [Segment(_cut(line, width, newest=number == last), style)]
        for number, line in enumerate(lines)
    ]


def silence(since: float, now: float, words: Catalogue) -> str:
    """``no output for 2:05`` once it is long enough to be said."""
    if now - since < SILENT_AFTER:
        return ""
    return words("output.silent", time=whole_seconds(now - since, words))


def _cut(line: str, width: int, *, newest: bool) -> str:
    most = _CELLS * max(1, width)
    if not newest:
        return fit(visible_line(line[:most]), width)
    return fit(visible_line(line[-most:]), width, keep="end")
