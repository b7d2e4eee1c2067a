"""Where a text occurs in a diff."""

from __future__ import annotations

from collections.abc import Iterator

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.diff_paint import Layer
from duckflow_tui.ui.panes.diff_rows import DiffDocument
from duckflow_tui.ui.panes.strips import Span, ink


class DiffSearch:
    """The places of one text, and the one the user is at."""

    def __init__(self, document: DiffDocument | None = None, text: str = "") -> None:
        """Upper and lower case are the same unless the text has an upper-case letter."""
        self._at = 0
        self._places = list(_find(document, visible_line(text))) if document and text else []
        self._rows: dict[int, list[int]] = {}
        for number, (row, _) in enumerate(self._places):
            self._rows.setdefault(row, []).append(number)

    @property
    def count(self) -> int:
        """How many places there are."""
        return len(self._places)

    @property
    def here(self) -> tuple[int, int] | None:
        """Row and character of the place the user is at."""
        if not self._places:
            return None
        row, (start, _) = self._places[self._at]
        return row, start

    def step(self, by: int) -> int:
        """Go ``by`` places on, around the end; the place's number from 1, 0 for none."""
        if not self._places:
            return 0
        self._at = (self._at + by) % len(self._places)
        return self._at + 1

    def layers(self, row: int, palette: Palette) -> list[Layer]:
        """What is laid over a row to mark its places."""
        numbers = self._rows.get(row, ())
        here, there = ink(palette.on_accent, on=palette.accent), ink(None, on=palette.selection)
        return [(self._places[n][1], here if n == self._at else there) for n in numbers]


def _find(document: DiffDocument, needle: str) -> Iterator[tuple[int, Span]]:
    exact = needle != needle.lower()
    for index, row in enumerate(document.rows):
        text = row.text if exact else row.text.lower()
        at = text.find(needle)
        while at >= 0:
            yield index, (at, at + len(needle))
            at = text.find(needle, at + len(needle))
