"""The first screen, while no model is configured: sources to connect, and the demo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import var
from textual.widgets import Input, Static

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.settings import SettingProblem
from duckflow_tui.state.base import half_width
from duckflow_tui.ui.connecting import Connecting, Source
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.rows import Rows, palette_of
from duckflow_tui.ui.panes.strips import Piece, Row, fit, ink, mark_row, pad, rows_of
from duckflow_tui.words.catalogue import Catalogue

DEMO: Final = "0"  # the key of the demo's line, whatever is found
FIELD: Final = "Tab"  # the key that leads to the field
_KEYS: Final = len(FIELD) + 1  # cells of the column of keys


class Said(Rows):
    """A wrapped text of the first screen."""

    def __init__(self, *, classes: str) -> None:
        super().__init__(classes=classes)
        self._pieces: list[Piece] = []

    def show_text(self, *pieces: tuple[str, Style]) -> None:
        """Show these styled texts; empty ones are left out."""
        self._pieces = [piece for piece in pieces if piece[0]]
        self.invalidate(layout=True)

    def lines(self, width: int) -> list[Row]:
        return rows_of(self._pieces, width) if self._pieces else []


class SourceRows(Rows):
    """One line for each source that can be chosen, with its number."""

    class Clicked(Message):
        """Posted after a click on a line, with its index."""

        def __init__(self, at: int) -> None:
            super().__init__()
            self.at = at

    def __init__(self) -> None:
        super().__init__(id="welcome-lines")
        self.sources: Sequence[Source] = ()
        self.at = 0
        self.numbered = False  # the numbers are final
        self.lit = True  # the mark is here, and not at the field

    def key_of(self, at: int) -> str:
        """Return the digit that chooses the line; empty for a line without one."""
        if self.sources[at].kind == "demo":
            return DEMO
        return str(at + 1) if self.numbered and at < 9 else ""

    def column(self, width: int) -> int:
        """Return the cells of the column of names, the field's label included."""
        names = [source.describe(self.words)[0] for source in self.sources]
        return min(max(map(cell_len, [*names, self.words("welcome.address")])), max(8, width // 2))

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        said = [source.describe(self.words) for source in self.sources]
        column = self.column(width)
        room = max(0, width - column - _KEYS - 4)
        rows: list[Row] = []
        for at, (label, about) in enumerate(said):
            lit = self.lit and at == self.at
            row = [
                Segment("› " if lit else "  ", ink(palette.accent)),
                Segment(pad(self.key_of(at), _KEYS), ink(palette.accent, bold=True)),
                Segment(pad(fit(visible_line(label), column), column), ink(palette.text, bold=lit)),
                Segment(f"  {fit(visible_line(about), room)}", ink(palette.quiet)),
            ]
            used = sum(cell_len(segment.text) for segment in row)
            row.append(Segment(" " * max(0, width - used), ink(None)))
            rows.append(mark_row(row, 0, -1, ink(None, on=palette.bars)) if lit else row)
        return rows

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y < len(self.sources):
            self.post_message(self.Clicked(event.y))


class Welcome(VerticalScroll, can_focus=True):
    """The first screen, in the place of the chat. Keys that it does not use go to the composer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", show=False),
        Binding("down", "walk(1)", show=False),
        Binding("enter", "take", show=False),
        Binding("tab", "address", show=False),
        *(Binding(digit, f"pick('{digit}')", show=False) for digit in "0123456789"),
    ]

    words: var[Catalogue] = var(Catalogue)

    def __init__(
        self,
        settings_path: str,
        troubles: Sequence[SettingProblem],
        connecting: Connecting,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._settings_path = settings_path
        self._troubles = troubles
        self._connecting = connecting
        self._rows = SourceRows()
        self._field = Input("", compact=True, select_on_focus=False, classes="card-field")
        self._field.cursor_blink = False
        self._walked = False  # the user moved the mark
        self.waits = False  # a message waits for a model

    def compose(self) -> ComposeResult:
        yield Said(classes="welcome-head")
        yield self._rows
        with Horizontal(id="welcome-address"):
            yield Static(markup=False)
            yield self._field
        yield Said(classes="welcome-said")
        yield Said(classes="welcome-text")

    def on_mount(self) -> None:
        """Start to look for servers and keys."""
        self._connecting.changed = self.invalidate
        self.invalidate()
        host_of(self).spawn(self._connecting.look_for_sources(), "discovery")

    def watch_words(self) -> None:
        self.invalidate()

    def on_resize(self) -> None:
        self._write_label()

    def invalidate(self) -> None:
        """Draw the screen again, for the present sources, language and colours."""
        if not self.is_mounted or not self.query(".welcome-head"):
            return
        rows, owner = self._rows, self._connecting
        before = rows.sources[rows.at].kind if rows.sources else ""
        rows.words = self.words
        rows.sources, rows.numbered = owner.first_sources, not owner.looking
        kinds = [source.kind for source in rows.sources]
        if not self._walked:  # the first that was found, else the demo
            rows.at = 0 if kinds[0] in ("server", "key") else kinds.index("demo")
        else:
            rows.at = kinds.index(before) if before in kinds else 0
        rows.invalidate(layout=True)
        self._say_head()
        self._write_label()
        self._say_answer()
        self._say_keys()

    def _say_head(self) -> None:
        """Draw the title, the last failure or else why a model is needed, and problems of the
        settings.
        """
        palette, words = palette_of(self), self.words
        text, bad = ink(palette.text), ink(palette.bad)
        parts: list[Piece] = [(words("welcome.title"), ink(palette.accent, bold=True))]
        if failure := self._connecting.failure:
            said = words("welcome.failed", reason=visible_line(failure))
            parts += [("\n✗ ", bad), (said, text)]
        else:
            parts.append((f"\n{words('welcome.why')}", ink(palette.quiet)))
        for trouble in self._troubles:
            parts += [("\n✗ ", bad), (trouble.describe_problem(words), text)]
        self.query_one(".welcome-head", Said).show_text(*parts)

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _write_label(self) -> None:
        """Draw the label before the address field, marked where the field has the focus."""
        palette, lit = palette_of(self), self._field.has_focus
        self._field.placeholder = self.words("welcome.address_hint")
        column = self._rows.column(self.scrollable_content_region.width)
        label = Content.assemble(
            ("› " if lit else "  ", palette.accent),
            (pad(FIELD, _KEYS), f"bold {palette.accent}"),
            (pad(self.words("welcome.address"), column), f"{'bold ' if lit else ''}{palette.text}"),
            "  ",
        )
        self.query_one("#welcome-address Static", Static).update(label)
        self._rows.lit = not lit
        self._rows.invalidate()

    def _say_answer(self) -> None:
        """Draw the result of the search for servers and keys, or of the last choice."""
        palette, owner = palette_of(self), self._connecting
        said = owner.said
        if owner.looking:
            said = self.words("connect.looking")
        elif not said and not owner.servers and not owner.keys:
            said = self.words("welcome.nothing")
        colour = palette.text if owner.said else palette.quiet
        parts: list[Piece] = [(visible_line(said), ink(colour))]
        if self.waits:
            kept = self.words("welcome.kept")
            parts.append((f"\n{kept}" if said else kept, ink(palette.accent)))
        self.query_one(".welcome-said", Said).show_text(*parts)

    def _say_keys(self) -> None:
        """Draw the keys and the path of the settings file."""
        places = self.words("welcome.settings", path=self._settings_path)
        text = f"{self.words('welcome.keys')}\n{places}"
        self.query_one(".welcome-text", Said).show_text((text, ink(palette_of(self).quiet)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the screen's keys once a model is chosen; they then go to the composer."""
        return not (self.is_done and action in ("pick", "take", "walk", "address"))

    # --- keys ---------------------------------------------------------------------------------

    def action_walk(self, by: int) -> None:
        """Move the mark along the lines and the field."""
        self._walked = True
        count = len(self._rows.sources)  # the field stands behind the lines
        to = ((count if self._field.has_focus else self._rows.at) + by) % (count + 1)
        self._rows.at = min(to, count - 1)
        (self._field if to == count else self).focus()
        self._rows.invalidate()

    def action_address(self) -> None:
        """Focus the address field; from there the next widget."""
        self.screen.focus_next() if self._field.has_focus else self._field.focus()

    def place_of(self, typed: str) -> int | None:
        """Return the index of the line that a typed character chooses; None for none."""
        lines = range(0 if self.is_done else len(self._rows.sources))
        return next((at for at in lines if self._rows.key_of(at) == half_width(typed)), None)

    def action_pick(self, digit: str) -> None:
        """Choose the line with this digit."""
        at = self.place_of(digit)
        if at is not None:
            self.take(at)

    def action_take(self) -> None:
        """Choose the marked line."""
        self.take(self._rows.at)

    def on_source_rows_clicked(self, event: SourceRows.Clicked) -> None:
        event.stop()
        self.take(event.at)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Ask the server at the entered address."""
        event.stop()
        if not self.is_done:
            host_of(self).spawn(self._connecting.try_address(event.value), "connecting")

    def on_paste(self, event: events.Paste) -> None:
        """Pass a paste to the composer."""
        event.stop()
        host_of(self).bench.to_composer(event)

    @property
    def is_done(self) -> bool:
        """Whether a model was chosen and its session is being opened."""
        return self._connecting.chosen

    def take(self, at: int) -> None:
        """Choose a line: connect its source, or open the demo."""
        if self.is_done:
            return
        source = self._rows.sources[at]
        self._walked = source.kind != "again"  # then the mark goes to the first that is found
        self._rows.at = at
        self._rows.invalidate()
        host_of(self).spawn(self._connecting.take_source(source), "connecting")
