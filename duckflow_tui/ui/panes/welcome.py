"""The first screen: no model is configured; what there is to connect to, and a demo without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import var
from textual.widgets import Static

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.base import half_width
from duckflow_tui.ui.connecting import Connecting, Source
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.rows import Rows, palette_of
from duckflow_tui.ui.panes.strips import Row, fit, ink, marked, pad
from duckflow_tui.words.catalogue import Catalogue

DEMO: Final = "0"  # the key of the demo's line, whatever is found


class Trouble(Protocol):
    """Something in the settings that does not count."""

    def words(self, say: Catalogue) -> str:
        """What and where, in the language of the catalogue."""
        ...


class SourceRows(Rows):
    """One line for each thing that can be taken, with its number."""

    class Clicked(Message):
        """The line of this number was clicked."""

        def __init__(self, at: int) -> None:
            super().__init__()
            self.at = at

    def __init__(self) -> None:
        super().__init__(id="welcome-lines")
        self.sources: Sequence[Source] = ()
        self.at = 0
        self.numbered = False  # the numbers are final

    def key_of(self, at: int) -> str:
        """The number that takes the line; empty for one that only the arrows reach."""
        if self.sources[at].kind == "demo":
            return DEMO
        return str(at + 1) if self.numbered and at < 9 else ""

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        said = [source.words(self.words) for source in self.sources]
        column = min(max((cell_len(label) for label, _ in said), default=0), max(8, width // 2))
        rows: list[Row] = []
        for at, (label, about) in enumerate(said):
            lit = at == self.at
            row = [
                Segment("› " if lit else "  ", ink(palette.accent)),
                Segment(pad(self.key_of(at), 2), ink(palette.accent, bold=True)),
                Segment(pad(fit(visible_line(label), column), column), ink(palette.text, bold=lit)),
                Segment(
                    f"  {fit(visible_line(about), max(0, width - column - 6))}", ink(palette.quiet)
                ),
            ]
            used = sum(cell_len(segment.text) for segment in row)
            row.append(Segment(" " * max(0, width - used), ink(None)))
            rows.append(marked(row, 0, -1, ink(None, on=palette.bars)) if lit else row)
        return rows

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y < len(self.sources):
            self.post_message(self.Clicked(event.y))


class Welcome(VerticalScroll, can_focus=True):
    """Stands where the chat will be. A key that is not one of its own is meant for the composer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", show=False),
        Binding("down", "walk(1)", show=False),
        Binding("enter", "take", show=False),
        *(Binding(digit, f"pick('{digit}')", show=False) for digit in "0123456789"),
    ]

    words: var[Catalogue] = var(Catalogue)

    def __init__(
        self,
        settings_path: str,
        troubles: Sequence[Trouble],
        connecting: Connecting,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._settings_path = settings_path
        self._troubles = troubles
        self._connecting = connecting
        self._rows = SourceRows()
        self._walked = False  # the user moved the mark
        self.waits = False  # a message waits for a model

    def compose(self) -> ComposeResult:
        yield Static(markup=False, classes="welcome-head")
        yield self._rows
        yield Static(markup=False, classes="welcome-said")
        yield Static(markup=False, classes="welcome-text")

    def on_mount(self) -> None:
        self._connecting.changed = self.invalidate
        self.invalidate()
        host_of(self).spawn(self._connecting.look(), "discovery")

    def watch_words(self) -> None:
        self.invalidate()

    def invalidate(self) -> None:
        """Write it in the language and the colours at hand."""
        if not self.is_mounted or not self.query(".welcome-head"):
            return
        rows, owner = self._rows, self._connecting
        before = rows.sources[rows.at].kind if rows.sources else ""
        rows.words = self.words
        rows.sources, rows.numbered = owner.first, not owner.looking
        kinds = [source.kind for source in rows.sources]
        if not self._walked:  # the first that was found, else the demo
            rows.at = 0 if kinds[0] in ("server", "key") else kinds.index("demo")
        else:
            rows.at = kinds.index(before) if before in kinds else 0
        rows.invalidate(layout=True)
        self.query_one(".welcome-head", Static).update(self._head())
        self.query_one(".welcome-said", Static).update(self._said())
        self.query_one(".welcome-text", Static).update(self._text())

    def _head(self) -> Content:
        palette = palette_of(self)
        parts: list[str | tuple[str, str]] = [
            (self.words("welcome.title"), f"bold {palette.accent}"),
            "\n",
            (self.words("welcome.why"), palette.quiet),
        ]
        if failure := self._connecting.failure:
            said = self.words("welcome.failed", reason=visible_line(failure))
            parts[2:] = [("✗ ", palette.bad), (said, palette.text)]
        for trouble in self._troubles:
            parts += ["\n", ("✗ ", palette.bad), (trouble.words(self.words), palette.text)]
        return Content.assemble(*parts)

    def _said(self) -> Content:
        palette, owner = palette_of(self), self._connecting
        said = owner.said
        if owner.looking:
            said = self.words("connect.looking")
        elif not said and not owner.servers and not owner.keys:
            said = self.words("welcome.nothing")
        parts = [(visible_line(said), palette.text if owner.said else palette.quiet)]
        if self.waits:
            parts += [("\n" if said else "", ""), (self.words("welcome.kept"), palette.accent)]
        return Content.assemble(*parts)

    def _text(self) -> Content:
        palette = palette_of(self)
        keys = self.words("welcome.keys")
        places = self.words("welcome.settings", path=self._settings_path)
        return Content.assemble((keys, palette.quiet), "\n", (places, palette.quiet))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the session of the model that was chosen is on its way, keys are the composer's."""
        return not (self.is_done and action in ("pick", "take", "walk"))

    # --- keys ---------------------------------------------------------------------------------

    def action_walk(self, by: int) -> None:
        self._walked = True
        self._rows.at = (self._rows.at + by) % len(self._rows.sources)
        self._rows.invalidate()

    def place_of(self, typed: str) -> int | None:
        """The line that a typed character takes."""
        lines = range(0 if self.is_done else len(self._rows.sources))
        return next((at for at in lines if self._rows.key_of(at) == half_width(typed)), None)

    def action_pick(self, digit: str) -> None:
        at = self.place_of(digit)
        if at is not None:
            self.take(at)

    def action_take(self) -> None:
        self.take(self._rows.at)

    def on_source_rows_clicked(self, event: SourceRows.Clicked) -> None:
        event.stop()
        self.take(event.at)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        host_of(self).bench.to_composer(event)

    @property
    def is_done(self) -> bool:
        """A model was chosen, and its session is on its way."""
        return self._connecting.chosen

    def take(self, at: int) -> None:
        """Do what the line says."""
        if self.is_done:
            return
        source = self._rows.sources[at]
        self._walked = source.kind != "again"  # then the mark goes to the first that is found
        self._rows.at = at
        self._rows.invalidate()
        host_of(self).spawn(self._connecting.take(source), "connecting")
