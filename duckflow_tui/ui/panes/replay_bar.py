"""The bar of a replay: position, speed, keys, and a track with the turning points."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.content import Content

from duckflow_tui.session.replay import MarkKind
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, fit, ink
from duckflow_tui.ui.replay_player import Player
from duckflow_tui.words.figures import clock_text

PLAYS: Final = "▶"
HALTS: Final = "‖"
SIGNS: Final[dict[MarkKind, str]] = {
    "gate": "◆",
    "failure": "✗",
    "consultation": "?",
    "review": "✓",
    "unmet": "✗",
}
#: Of several turning points in one cell the first in this order is shown.
_FIRST: Final[tuple[MarkKind, ...]] = ("failure", "unmet", "consultation", "gate", "review")
_HEAD: Final = "●"
_LINE: Final = "─"
_DONE: Final = "━"
_HINTS: Final = ("play", "step", "jump", "speed", "edge", "quit")  # the last is dropped last
_SHORTEST: Final = 8  # cells of a track beside figures on the same line


#: The keys of a replay, each with its action of the bar.
_ACTIONS: Final = dict(pair for key in keys_of("replay") for pair in key.list_actions())


class ReplayBar(Rows, can_focus=True):
    """The bar in the place of the composer. A click on the track seeks there. Its keys work
    wherever the focus is, unless a pane uses them for something that changes nothing.
    """

    def __init__(self, player: Player, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._player = player
        self._tape = player.tape
        self._track_at = (0, 1)  # its first column, and how many

    def show_position(self) -> None:
        """Draw the player's present position."""
        self._refresh_frame()
        self.invalidate()

    # keys

    async def handle_key(self, event: events.Key | events.Paste) -> bool:
        """Handle a key of the replay, and refuse keys that would write or act on the session.
        Returns False for a key that keeps its usual effect.
        """
        host = host_of(self)
        if isinstance(event, events.Paste):
            host.session.get_writable_engine()
            return True
        active = self.screen.active_bindings.get(event.key)
        in_pane = active is not None and active.node not in (self.screen, host)
        focused = self.screen.focused
        around = (focused, *focused.ancestors) if focused is not None else ()
        surfaces = [name for widget in around for name in getattr(widget, "surfaces", ())]
        keys = keys_of(*surfaces) if in_pane else keys_of("composer")
        acts = any(key.acts and event.key in key.keys for key in keys)
        if in_pane and not acts:
            return False
        if event.key in _ACTIONS:
            host.status.clear_message()
            await self.run_action(_ACTIONS[event.key])
        elif acts or event.is_printable:
            host.session.get_writable_engine()
        else:
            return False
        return True

    def action_play(self) -> None:
        """Start or halt the replay."""
        self._player.toggle_playing()

    def action_step(self, by: int) -> None:
        """Step to the next visible change, or with a negative number to the one before."""
        self._player.step_by(1 if by > 0 else -1)

    def action_jump(self, by: int) -> None:
        """Jump to the next turning point, or with a negative number to the one before."""
        if not self._player.jump_by(1 if by > 0 else -1):
            key = "replay.no_next" if by > 0 else "replay.no_previous"
            host_of(self).status.show_notice(key)

    def action_speed(self, by: int) -> None:
        """Play faster, or with a negative number slower."""
        self._player.change_speed(1 if by > 0 else -1)

    def action_to_edge(self, by: int) -> None:
        """Seek to the end, or with a negative number to the start."""
        self._player.seek_to(0 if by < 0 else len(self._player.tape))

    # Textual

    def on_mount(self) -> None:
        self._refresh_frame()

    def on_resize(self) -> None:
        self._refresh_frame()
        self.invalidate()

    def watch_words(self) -> None:
        self._refresh_frame()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted:
            self.call_later(self._refresh_frame)

    def on_click(self, event: events.Click) -> None:
        """Seek to the clicked place of the track."""
        event.stop()
        offset = event.get_content_offset(self)
        start, cells = self._track_at
        if offset is not None and offset.y == 0 and start <= offset.x < start + cells:
            total = len(self._tape)
            self._player.seek_to(round((offset.x - start) * total / max(1, cells - 1)))

    # drawing

    def lines(self, width: int) -> list[Row]:
        """Return the track; where the bar has no border, the figures before it, and where that
        leaves too little room the figures alone.
        """
        palette = self.palette
        if self._framed:
            self._track_at = (0, width)
            return [self._track(width, palette)]
        said = self._figures(width - _SHORTEST - 1)
        cells = width - cell_len(said) - 1
        sign = ink(palette.accent, bold=True)
        if cells < _SHORTEST:
            self._track_at = (0, 0)
            return [[Segment(fit(said, width), sign)]]
        self._track_at = (width - cells, cells)
        return [[Segment(f"{said} ", sign), *self._track(cells, palette)]]

    @property
    def _framed(self) -> bool:
        """Whether the bar has a border."""
        return self.styles.border_top[0] not in ("", "none")

    def _refresh_frame(self) -> None:
        """Draw the figures and key hints in the border."""
        if not self.is_attached:
            return
        palette, room = self.palette, max(0, self.size.width - 2)
        title = Text(self._figures(room), style=f"bold {palette.accent}", no_wrap=True)
        mark = self._player.mark
        if mark is not None:
            said = f"  {SIGNS[mark.kind]} {self.words(f'replay.mark.{mark.kind}')}"
            if title.cell_len + cell_len(said) <= room:
                title.append(said, style=self._colour(mark.kind, palette))
        self.border_title = Content.from_rich_text(title)
        self.border_subtitle = Content(self._hints(room))

    def _figures(self, room: int) -> str:
        """Return ``▶ replay  312/1,204  0:04:12 / 0:31:40  4×``, or as much of it as fits."""
        player, tape = self._player, self._tape
        sign = PLAYS if player.playing else HALTS
        place = f"{player.position:,}/{len(tape):,}"
        began = tape.time_at(0)
        time = clock_text(player.clock.now() - began)
        times = f"{time} / {clock_text(tape.time_at(len(tape)) - began)}"
        speed = f"{player.speed:g}×"
        name = self.words("replay.name")
        for parts in (
            (f"{sign} {name}", place, times, speed),
            (f"{sign} {name}", place, time, speed),
            (sign, place, time, speed),
            (sign, place, speed),
        ):
            said = "  ".join(parts)
            if cell_len(said) <= room:
                return said
        return fit(f"{sign} {player.position:,}", room)

    def _hints(self, room: int) -> str:
        """Return the key hints that fit."""
        hints = [self.words(f"replay.hint.{name}") for name in _HINTS]
        while hints and cell_len(" · ".join(hints)) > room:
            hints.pop(len(hints) - 2 if len(hints) > 1 else 0)
        return " · ".join(hints)

    def _track(self, cells: int, palette: Palette) -> Row:
        """Return the track: each cell stands for a part of the events, and shows the turning point
        in it.
        """
        total = max(1, len(self._tape))
        head = round(self._player.position * (cells - 1) / total)
        found: dict[int, MarkKind] = {}
        for mark in self._tape.marks:
            at = round(mark.position * (cells - 1) / total)
            if at not in found or _FIRST.index(mark.kind) < _FIRST.index(found[at]):
                found[at] = mark.kind
        row: Row = []
        for at in range(cells):
            if at == head:
                row.append(Segment(_HEAD, ink(palette.accent, bold=True)))
            elif at in found:
                kind = found[at]
                row.append(Segment(SIGNS[kind], ink(self._colour(kind, palette))))
            elif at < head:
                row.append(Segment(_DONE, ink(palette.ai)))
            else:
                row.append(Segment(_LINE, ink(palette.faint)))
        return row

    def _colour(self, kind: MarkKind, palette: Palette) -> str:
        """Return the colour of a kind of turning point."""
        return {
            "gate": palette.accent,
            "failure": palette.bad,
            "consultation": palette.accent,
            "review": palette.good,
            "unmet": palette.bad,
        }[kind]
