"""Uses of Textual's private parts; nowhere else are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._compositor import ChopsUpdate, Compositor
from textual._keyboard_protocol import FUNCTIONAL_KEYS as FUNCTIONAL_KEYS
from textual._xterm_parser import IS_ITERM as IS_ITERM
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Offset, Region
from textual.keys import _character_to_key
from textual.strip import Strip
from textual.widgets import Input, TextArea

from duckflow_tui.state.base import half_width

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.binding import Binding
    from textual.filter import LineFilter
    from textual.message import Message
    from textual.message_pump import MessagePump
    from textual.screen import Screen
    from textual.widget import Widget

# pyright: reportPrivateUsage=false


class HostedApp(App[int], inherit_bindings=False):
    """An app with its own line filters, direct writes to the terminal, and its own error report."""

    def change_filters(self, change: Callable[[Sequence[LineFilter]], list[LineFilter]]) -> None:
        """Replace the filters that every line of the screen passes."""
        self._filters = change(self._filters)

    def write_to_terminal(self, sequence: str) -> None:
        """Write an escape sequence that is not part of the screen; nothing where the app has no
        terminal.
        """
        if self._driver is not None and not self.is_headless:
            self._driver.write(sequence)

    def error_report(self) -> str:
        """Return the report of an error that ends the app. Textual's own would print local
        variables, with keys and file contents.
        """
        raise NotImplementedError

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Also move the terminal's cursor to the focused field, because an input method opens its
        window there.
        """
        field = screen.focused
        if isinstance(field, Input | TextArea):
            at_end = isinstance(field, Input) and field.cursor_at_end  # told one cell too far
            self.cursor_position = field.cursor_screen_offset - Offset(at_end, 0)
        super()._display(screen, renderable)  # pyright: ignore[reportUnknownMemberType]  # Screen[Unknown]

    def _fatal_error(self) -> None:
        self._exit_renderables.append(Text(self.error_report()))
        self._close_messages_no_wait()


class ResumableDriver(LinuxDriver):
    """A driver that reports when the stopped process continues, and when to take the terminal."""

    @property
    def host(self) -> App[Any]:
        """The app."""
        return self._app

    def call_on_loop(self, callback: Callable[[], object]) -> None:
        """Call back on the app's loop, from any thread or signal handler; does nothing once the
        loop has ended.
        """
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(callback)

    def went_on(self) -> None:
        """Called when the process continues after it was stopped (SIGCONT)."""
        raise NotImplementedError

    def _sigcont_application(self, *_: object) -> None:
        if self._auto_restart:
            self.went_on()


class SequenceTable:
    """Textual's tables of keys and its decoding of mouse reports, for one complete sequence at a
    time.

    Fed with a stream, Textual's own parser ends the app on some sequences and turns others into
    text.
    """

    def __init__(self) -> None:
        self._parser = XTermParser()

    def character_keys(self, character: str, *, alt: bool = False) -> list[events.Key]:
        """Return the key of one character, with or without Alt."""
        return list(self._parser._sequence_to_key_events(character, alt))

    def listed_keys(self, sequence: str) -> list[events.Key]:
        """Return the keys of a legacy sequence; empty where Textual does not list it."""
        keys = ANSI_SEQUENCES_KEYS.get(sequence)
        if isinstance(keys, str):
            return self.character_keys(keys)
        if not isinstance(keys, tuple):  # unlisted, or listed as one to be ignored
            return []
        return [events.Key(key.value, None) for key in keys]

    def extended_keys(self, code: int, final: str, bits: int, text: str) -> list[events.Key]:
        """Return the keys of a kitty-protocol sequence: ``bits`` are its modifiers, ``text`` what
        it types.
        """
        modifiers = str(bits + 1) if bits else ""
        codes = ":".join(str(ord(character)) for character in text)
        fields = f"{code};{modifiers};{codes}" if codes else f"{code};{modifiers}"
        return self.character_keys(f"\x1b[{fields}{final}")

    def mouse_events(self, report: str) -> list[Message]:
        """Return the event of an SGR mouse report whose numbers have at most five digits."""
        event = self._parser.parse_mouse_code(report)
        return [event] if event is not None else []

    def resize_event(self, cells: tuple[int, int], pixels: tuple[int, int]) -> events.Resize:
        """Return the event for a new size of the terminal; from then on mouse reports are in
        pixels.
        """
        event = events.Resize.from_dimensions(cells, pixels)
        self._parser.terminal_size, self._parser.terminal_pixel_size = event.size, event.pixel_size
        self._parser.mouse_pixels = True
        return event


def half_width_key(event: events.Key) -> events.Key:
    """Return the key as it would be without an input method's full-width form; the same object
    where it is not one.
    """
    character = half_width(event.character or "")
    if not character or character == event.character:
        return event
    key = events.Key(_character_to_key(character), character)
    key.time = event.time  # bursts are told by it
    return key


def bindings_of(widget: Widget, key: str) -> Sequence[Binding]:
    """Return the bindings of a key on this widget itself."""
    return widget._bindings.key_to_bindings.get(key, ())


def pump_above(pump: MessagePump) -> MessagePump | None:
    """Return the message pump that messages bubble to from this one."""
    return pump._parent


def theme_of(area: TextArea) -> object:
    """Return the theme object of a TextArea, which is replaced when its theme changes."""
    return area._theme


def draw_leanly(screen: Screen[Any]) -> None:
    """Give a new screen the compositor below."""
    screen._compositor = LeanCompositor()


class LeanCompositor(Compositor):
    """A compositor that asks widgets only for lines that will be visible.

    Textual's own has every widget render in full for each change, also those behind others or
    beside the change, which takes more than half of the ten milliseconds of a key.

    Each line is a number with one bit per cell. Widgets are visited front to back; a widget is
    asked for a line only if it has cells that no widget before has covered.
    """

    _wanted: dict[int, int] | None = None  # cells that changed, by line; None for all

    def render_partial_update(self) -> ChopsUpdate | None:
        wanted: dict[int, int] = {}
        for region in self._dirty_regions:
            cells = _cells(region)
            for y in region.line_range:
                wanted[y] = wanted.get(y, 0) | cells
        self._wanted = wanted
        try:
            return super().render_partial_update()
        finally:
            self._wanted = None

    def _get_renders(
        self, crop: Region | None = None
    ) -> Iterable[tuple[Region, Region, list[Strip]]]:
        screen = self.size.region if crop is None else crop.intersection(self.size.region)
        wanted = self._wanted
        if wanted is None:
            wanted = dict.fromkeys(screen.line_range, _cells(screen))
        open_cells = dict(wanted)
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip).intersection(screen)
            if not seen:
                continue
            place = region.intersection(clip)
            cells = _cells(place)
            lines = [y for y in seen.line_range if open_cells.get(y, 0) & cells]
            if not lines:
                continue
            rows = Region(0, lines[0], self.size.width, lines[-1] - lines[0] + 1)
            part = place.intersection(rows)
            strips = widget.render_lines(part.translate(-region.offset))
            # A widget that has not heard of its new size yet draws less than its place.
            for y, strip in zip(part.line_range, strips, strict=False):
                if y in open_cells:
                    drawn = min(strip.cell_length, part.width)
                    open_cells[y] &= ~_cells(Region(part.x, y, drawn, 1))
            yield region, clip.intersection(rows), strips
        # Textual cannot write a line in which a cell was drawn by nobody.
        left = [y for y, cells in open_cells.items() if cells and y in screen.line_range]
        if left:
            rows = Region(0, min(left), self.size.width, max(left) - min(left) + 1)
            blank = Strip.blank(self.size.width)
            yield self.size.region, rows, [blank] * rows.height


def _cells(region: Region) -> int:
    """Return a bit for each cell of a line that the region covers."""
    left = max(0, region.x)
    return ((1 << max(0, region.right - left)) - 1) << left
