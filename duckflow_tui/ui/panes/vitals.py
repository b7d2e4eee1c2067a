"""Mood, focus and stamina: a gauge, a value, where it came from, and a word."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import Binding, BindingType

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.vitals import VitalChange, Vitals
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, wrap

NAMES: Final = ("mood", "focus", "stamina")
SPARKS: Final = "▁▂▃▄▅▆▇█"
POINTS: Final = 5  # of the sparkline
HIGH: Final = 0.7  # from here on good; words, never figures, say so (S0-44)
LOW: Final = 0.5


def gauge(value: float, cells: int) -> tuple[str, str]:
    """The filled and the empty part of a bar; a value above 0 fills at least one cell."""
    filled = min(cells, max(round(value * cells), 1 if value > 0 else 0))
    return "━" * filled, "━" * (cells - filled)


def sparkline(name: str, vitals: Vitals) -> str:
    """The last ``POINTS`` values of a vital, the one before the first change included."""
    changes = [change for change in vitals.history if change.vital == name]
    if not changes:
        return ""
    values = [changes[0].old, *(change.new for change in changes)][-POINTS:]
    return "".join(map(spark, values))


def spark(value: float) -> str:
    """A value as one cell, eight heights."""
    return SPARKS[min(7, int(value * 8))]


def level(value: float) -> str:
    """``high``, ``middle`` or ``low``."""
    if value >= HIGH:
        return "high"
    return "middle" if value >= LOW else "low"


def level_colour(value: float, palette: Palette) -> str:
    """Green, yellow, red; the word beside it says the same."""
    return {"high": palette.good, "middle": palette.accent, "low": palette.bad}[level(value)]


class VitalsPane(Rows, can_focus=True):
    """Three gauges; Enter tells what each stands for and what moved it (S0-11, S0-44)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(key.keys), key.action, key.label, show=False) for key in keys_of("vitals")
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._vitals = Vitals()
        self._explained = False

    @property
    def explained(self) -> bool:
        """Whether the reasons are shown."""
        return self._explained

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        self._vitals = state.vitals
        self.again(layout=self._explained)

    def action_explain(self) -> None:
        self._explained = not self._explained
        self.again(layout=True)

    def lines(self, width: int) -> list[Row]:
        names = max(cell_len(self.words(f"vitals.{name}")) for name in NAMES)
        rows: list[Row] = []
        for name in NAMES:
            rows.append(self._gauge_row(name, names, width))
            if self._explained:
                rows.extend(self._reasons(name, width))
        return rows

    def _gauge_row(self, name: str, names: int, width: int) -> Row:
        palette = self.palette
        value: float = getattr(self._vitals, name)
        sparks = sparkline(name, self._vitals)
        colour = ink(level_colour(value, palette) if sparks else palette.quiet)
        bar = max(4, min(10, width - names - 22))
        full, empty = gauge(value, bar)
        # The word first: a narrow pane loses the picture before it loses the meaning (S0-44).
        word_key = f"vitals.word.{name}.{level(value)}" if sparks else "vitals.no_evidence"
        return [
            Segment(" " + pad(self.words(f"vitals.{name}"), names) + " ", ink(palette.quiet)),
            Segment(full, colour),
            Segment(empty, ink(palette.bars)),
            Segment(f" {value:.2f} ", ink(palette.text)),
            Segment(sparks.ljust(POINTS) + " " if sparks else "", colour),
            Segment(fit(self.words(word_key), max(0, width)), ink(palette.quiet)),
        ]

    def _reasons(self, name: str, width: int) -> list[Row]:
        palette = self.palette
        meaning = self.words(f"vitals.means.{name}")
        texts: list[str] = [meaning]
        changes = [change for change in self._vitals.history if change.vital == name]
        if not changes:
            texts.append(self.words("vitals.no_inputs"))
        texts.extend(self._change(change) for change in changes[-3:])
        rows: list[Row] = []
        for text in texts:
            style = ink(palette.quiet if text is not meaning else palette.text)
            for start, end in wrap(text, max(8, width - 4)):
                rows.append([Segment("   ", style), Segment(text[start:end], style)])
        return rows

    def _change(self, change: VitalChange) -> str:
        return f"{change.old:.2f} → {change.new:.2f}  {visible_line(change.cause)}"
