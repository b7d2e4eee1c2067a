"""The status line: usage of the session, vitals, helpful keys, and short messages."""

from __future__ import annotations

from typing import Final, Literal

from rich.cells import cell_len
from textual import events
from textual.reactive import reactive, var
from textual.timer import Timer

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.goal import ENDED_WELL
from duckflow_tui.state.pace import Vitals
from duckflow_tui.state.phase import Status
from duckflow_tui.state.session import SessionInfo
from duckflow_tui.state.turn import TurnInfo
from duckflow_tui.state.usage import UsageTotals
from duckflow_tui.ui.host import press
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.composer import Written
from duckflow_tui.ui.panes.rows import BarPart, Rows, arrange_bar
from duckflow_tui.ui.panes.strips import Row, ink
from duckflow_tui.ui.panes.vitals import level_colour, spark_of
from duckflow_tui.ui.panes.vitals_words import NAMES, Moved, changes_of, moved_words
from duckflow_tui.words.figures import cost_text, short_count

MESSAGE_FOR = 6.0  # seconds that a word of the app stays, unless a key comes first


#: Where the gauges are shown: ``auto`` in the side column, and where there is none as bars on the
#: status line if it has room; ``always`` there before anything else; ``off`` nowhere.
VitalsPlace = Literal["auto", "always", "off"]

Mood = Literal["calm", "working", "unsure", "stuck", "asking"]
#: A duck's head; each sign can be told without its colour.
DUCK: Final[dict[Mood, str]] = {
    "calm": "(o)>",
    "working": "(•)>",
    "unsure": "(?)>",
    "stuck": "(x)>",
    "asking": "(!)>",
}


def _duck_colour(mood: Mood, palette: Palette) -> str:
    return {
        "calm": palette.quiet,
        "working": palette.ai,
        "stuck": palette.bad,
    }.get(mood, palette.accent)


class StatusLine(Rows):
    """One row of figures and keys; a message of the app replaces it for a moment."""

    #: Whether the composer has no border that could say what its keys do.
    tight: reactive[bool] = reactive(False)
    written: var[Written] = var[Written]("nothing")  # in the composer
    #: Whether the vitals are shown here: ``off`` while a pane shows them.
    vitals_place: reactive[VitalsPlace] = reactive[VitalsPlace]("auto")
    duck: reactive[bool] = reactive(True)  # whether the mark is shown
    #: Whether it shows a session that is over: no key pauses or stops anything.
    over = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._usage = UsageTotals()
        self._turn: TurnInfo | None = None
        self._waiting = False
        self._own = False  # a command of the user's own runs
        self._session = SessionInfo()
        self._vitals = Vitals()
        self._went_well = False  # nothing runs, and the last turn did what it was to do
        self._failing = False  # the last request could not be worked on
        self._background = 0  # commands that run there
        self._failed: tuple[str, ...] = ()  # names of servers
        self._unkept = False  # the session is lost with the process
        self._said = ""
        self._timer: Timer | None = None

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        asks = (state.gates, state.cards)
        runs = (state.processes, state.servers, state.running)
        held = (state.session, state.vitals, state.status)
        return state.usage, state.turn, state.last_turn, state.unkept, *held, *asks, *runs

    def show(self, state: AgentState) -> None:
        """Update from this state."""
        self._usage, self._turn = state.usage, state.turn
        self._waiting = bool(state.gates or state.cards)
        self._own = any(running.by_user for running in state.running)
        self._session = state.session
        self._vitals, self._failing = state.vitals, state.status is Status.ERROR
        last = state.last_turn
        self._went_well = state.turn is None and last is not None and last.outcome in ENDED_WELL
        self._background = sum(process.is_running for process in state.processes)
        self._failed = tuple(s.name for s in state.servers if s.status == "failed")
        self._unkept = bool(state.unkept)
        self.invalidate()

    def watch_written(self) -> None:
        if self._turn is not None:  # else no word rests on it
            self.invalidate()

    def show_notice(self, key: str, *, stays: bool = False, **params: object) -> None:
        """Show an entry of the catalogue; an empty key clears it. A parameter may be an
        entry too.
        """
        if not key:
            self.clear_message()
            return
        told = {
            n: self.words.localize(v) if isinstance(v, LocalizedText) else v
            for n, v in params.items()
        }
        self.show_message(self.words(key, **told), stays=stays)

    def show_message(self, text: str, *, stays: bool = False) -> None:
        """Show a message instead of the figures until a key or for ``MESSAGE_FOR`` seconds; with
        ``stays`` only until a key.
        """
        self._said = text
        if self._timer is not None:
            self._timer.stop()
        self._timer = None if stays else self.set_timer(MESSAGE_FOR, self.clear_message)
        self.invalidate()

    def clear_message(self) -> None:
        """Show the figures again."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if self._said:
            self._said = ""
            self.invalidate()

    @property
    def is_waiting(self) -> bool:
        """Whether the shown message stays until a key."""
        return bool(self._said) and self._timer is None

    @property
    def notice_text(self) -> str:
        """The shown message; empty for none."""
        return self._said

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        fill = ink(palette.quiet, on=palette.bars)
        if self._said:
            said = BarPart(self._said, ink(palette.text), weight=9)
            return [arrange_bar([said], self._key_parts(palette), width, fill)]
        right = [*self._vitals_parts(palette), *self._key_parts(palette)]
        return [arrange_bar(self._left_parts(palette), right, width, fill)]

    def _vitals_parts(self, palette: Palette) -> list[BarPart]:
        """Return the duck and the vitals, such as ``(o)> mood ▆ focus ▅ stamina ▇``."""
        if not self._session.session_id:
            return []
        moved = moved_words(self._vitals, self.words)
        if self._went_well and moved.level != "high":  # it is over, and came to a good end
            moved = Moved("", "high")
        parts: list[BarPart] = []
        if self.duck:
            mood = self._mood_of(moved.level)
            parts.append(BarPart(DUCK[mood], ink(_duck_colour(mood, palette)), weight=6))
        if self.vitals_place != "off":
            parts += self._bar_parts(palette)
            if moved.level != "high":
                parts.append(BarPart(moved.said, ink(palette.text), weight=5, gap=2))
                parts.append(BarPart(self.words("status.why"), ink(palette.quiet), weight=0, gap=0))
        return parts

    def _bar_parts(self, palette: Palette) -> list[BarPart]:
        """Return a one-cell bar for each vital, with its name where there is room."""
        weight = 8 if self.vitals_place == "always" else 5
        parts: list[BarPart] = []
        for name in NAMES:
            value: float = getattr(self._vitals, name)
            has_moved = bool(changes_of(name, self._vitals))
            colour = level_colour(name, value, palette) if has_moved else palette.quiet
            title = self.words(f"vitals.{name}")
            parts.append(BarPart(title, ink(palette.quiet), weight=3, gap=1))
            parts.append(BarPart(spark_of(value), ink(colour), weight=weight, gap=1))
        return parts

    def _mood_of(self, level: str) -> Mood:
        """Return the duck's face for the present activity and the lowest vital's level."""
        if self._waiting:
            return "asking"
        if self._failing or level == "low":
            return "stuck"
        if level == "middle":
            return "unsure"
        return "working" if self._turn is not None else "calm"

    def _left_parts(self, palette: Palette) -> list[BarPart]:
        """Return what there is to say of context, calls, cost, a session that is not recorded,
        background commands and failed servers; nothing before there is a session.
        """
        if not self._session.session_id:
            return []
        usage, quiet = self._usage, ink(palette.quiet)
        parts: list[BarPart] = []
        if usage.last_context:
            parts.append(BarPart(self._context_words(usage), quiet, weight=5))
        if usage.calls:
            parts.append(BarPart(self.words("turn_line.calls", count=usage.calls), quiet, weight=1))
        if usage.cost is not None:
            parts.append(BarPart(cost_text(usage.cost), quiet, weight=4, gap=2))
        if self._unkept:
            parts.append(BarPart(self.words("status.unkept"), ink(palette.bad), weight=7))
        if self._background:
            said = self.words("status.background", count=self._background)
            parts.append(BarPart(said, ink(palette.ai), weight=6))
        if self._failed:
            parts.append(BarPart(self._server_words(), ink(palette.bad), weight=6))
        return parts

    def _server_words(self) -> str:
        if len(self._failed) == 1:
            return self.words("status.servers", names=self._failed[0])
        return self.words("status.servers_many", count=len(self._failed))

    def _context_words(self, usage: UsageTotals) -> str:
        """Return how full the context window is; only tokens where its size is unknown."""
        about = "~" if usage.estimated else ""
        if not usage.context_window:
            return self.words("status.context", used=about + short_count(usage.last_context))
        share = round(100 * usage.last_context / usage.context_window)
        percent = about + str(share) if share <= 100 else ">100"  # far more is a wrong --context
        return self.words("status.context_of", percent=percent)

    def _key_parts(self, palette: Palette) -> list[BarPart]:
        style = ink(palette.quiet)
        return [BarPart(text, style, weight=weight) for text, _, weight in self._helping_keys()]

    def _helping_keys(self) -> list[tuple[str, str, int]]:
        """Return the keys that are useful now: label, key, weight."""
        names = [("commands", "ctrl+p", 2), ("keys", "f1", 4)]
        if self._turn is None:
            if self._own:
                names.append(("stop", "escape", 7))
        elif self._turn.pause != "running":
            if self.written == "message":
                if self.tight:  # else the composer's frame says so
                    name = "redirect" if self._turn.pause == "paused" else "now"
                    names.append((name, "enter", 6))
            elif self.written == "nothing" and not self._waiting:
                names.append(("resume", "enter", 6))
            names.append(("stop", "escape", 7))
        elif self.tight and not (self._waiting and self.written == "nothing"):
            names += [("now", "enter", 5), ("next", "tab", 5)]
        shown = names[:2] if self.over else names
        return [(self.words(f"status.key_{name}"), key, weight) for name, key, weight in shown]

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        line = "".join(segment.text for segment in self.lines(self.size.width)[0])
        for text, key, _ in self._helping_keys():
            at = line.rfind(text)
            if at >= 0 and 0 <= event.x - cell_len(line[:at]) < cell_len(text):
                press(self, key)
