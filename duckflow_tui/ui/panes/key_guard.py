"""Keys around a move of the focus: each reaches its place in order, and none answers too soon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.message_pump import MessagePump
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.base import Clock
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.textual_private import bindings_of, pump_above

#: Keys beside characters that a message is written with; they follow what was typed before them.
COMPOSED: Final = frozenset({"enter", "backspace"})

#: What is printed on keys that write nothing to be seen.
_PRINTED: Final = {"escape": "Esc", "enter": "Enter", "backspace": "Backspace"}

#: Seconds that keys are held back at most, should what they wait for never come.
_LONGEST: Final = 0.5


class InOrder:
    """Holds the keys that a widget gets itself behind those that are still on their way to it.

    When the focus moves, keys that were typed before may wait in the queues of the widget that
    had it and of those around it; keys typed after come straight.
    """

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._awaited = 0

    def behind(self, before: Widget, top: MessagePump) -> None:
        """Hold what comes until all that waits from ``before`` up to ``top`` was handled."""
        self._awaited += 1
        self._open.clear()
        # Twice: what the first time finds may be handed on once, as a message.
        when_handled(before, top, lambda: when_handled(before, top, self._arrived))

    async def turn(self) -> None:
        """Return when it is the turn of a key that came straight."""
        if not self._open.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST):
                    await self._open.wait()

    def _arrived(self) -> None:
        self._awaited -= 1
        if not self._awaited:
            self._open.set()


def when_handled(pump: MessagePump, top: MessagePump, then: Callable[[], object]) -> None:
    """Call ``then`` when what waits in the queues from ``pump`` up to ``top`` was handled."""

    def handled() -> None:
        above = pump_above(pump)
        if pump is top or above is None:
            then()
        else:
            when_handled(above, top, then)

    if not pump.call_later(handled):  # it is being taken down
        then()


class InlineField(Input):
    """One line to write in that takes over the keys of the widget it stands in.

    ``done`` gets the text on Enter, at once; ``dropped`` hears of Esc where the widget does not.
    The widget hands on with ``take`` what still comes to it from the moment in which the field was
    opened.
    """

    def __init__(
        self,
        done: Callable[[str], object],
        *,
        id: str | None,
        dropped: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(compact=True, select_on_focus=False, id=id)
        self.cursor_blink = False
        self._done = done
        self._dropped = dropped
        self._order = InOrder()

    def take_over(self, before: Widget) -> None:
        """Get the focus now; ``before`` hands on what it still gets."""
        self._order.behind(before, before)
        self.screen.set_focus(self)

    async def on_key(self, event: events.Key) -> None:
        await self._order.turn()
        if await self.take(event):
            event.stop()
            event.prevent_default()

    async def on_paste(self, event: events.Paste) -> None:
        await self._order.turn()
        event.stop()
        event.prevent_default()
        self.take_paste(event)

    async def take(self, event: events.Key) -> bool:
        """Do at once what the key does here; False for a key that does nothing here."""
        if not self.display:  # sent or closed a moment ago
            return False
        if event.is_printable and event.character is not None:
            self._write(event.character)
            return True
        if event.key == "escape" and self._dropped is not None:
            self._dropped()
            return True
        for binding in bindings_of(self, event.key):
            if await host_of(self).run_action(binding.action, self):
                return True
        return False

    def take_paste(self, event: events.Paste) -> None:
        """Write what was pasted; the field has one line."""
        self._write(" ".join(event.text.split()))

    def _write(self, text: str) -> None:
        if self.selection.is_empty:
            self.insert_text_at_cursor(text)
        else:
            self.replace(text, *self.selection)

    async def action_submit(self) -> None:
        self._done(self.value)


#: Seconds after the focus came in which keys are ignored: they were meant for another place.
SETTLE: Final = 0.3

#: The same where the focus came by itself, to a question that the user did not turn to: nobody
#: has read it sooner, and the next key may still be meant for the one before.
SETTLE_UNASKED: Final = 1.0

#: Seconds without a key that end a text whose first keys did nothing: until then its letters
#: were not pressed for their own sake either.
SILENCE: Final = 0.3

#: Seconds between two keys of one burst at most: nobody presses two keys so fast.
BURST: Final = 0.005

#: Seconds that a key which consents waits for the next. A text that was pasted or typed ahead
#: brings it sooner, a finger hardly ever; nobody feels the wait.
HOLD: Final = 0.03


Act = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Held:
    event: events.Key
    act: Act


class KeyGuard:
    """Belongs to one widget that asks. Every key and paste that comes to it goes by here first."""

    def __init__(self, owner: Widget, clock: Clock) -> None:
        self._owner = owner
        self._clock = clock
        self._since: float | None = None
        self._settles = SETTLE  # seconds that this takes, from then on
        self._unasked = False  # the focus is about to come by itself
        self._twice = False  # a key was pressed once, and is to be pressed again
        self._idle: float | None = None  # when a key did nothing last
        self._last = float("-inf")
        self._held: _Held | None = None
        self._timer: Timer | None = None
        self._missed: list[str] = []  # keys that did nothing since the focus came
        self._before = ""  # typed right before it came, and meant for here

    # --- the focus ---------------------------------------------------------------------------

    def unasked(self) -> None:
        """The focus is about to come, and not because the user wants it here."""
        self._unasked = True

    def begin(self, *, unasked: bool = False, twice: bool = False, settled: bool = False) -> None:
        """What the user looks at is new, or the focus is: keys are ignored for ``SETTLE``, or for
        ``SETTLE_UNASKED`` where the user did not go there, or, once ``settled`` at a page that
        leads here, not at all. ``twice``: a key is to be pressed again.
        """
        self._twice = twice
        self._settles = SETTLE_UNASKED if unasked or self._unasked else SETTLE * (not settled)
        self._unasked = False
        self._since = self._clock.monotonic()
        self._idle = None
        self._drop()

    def end(self) -> None:
        """No key is meant for this any more, until ``begin``."""
        self._since = None
        self._drop()

    @property
    def on(self) -> bool:
        """Whether keys are meant for this; those that decide nothing act then."""
        return self._since is not None

    @property
    def settled(self) -> bool:
        """Whether every key acts."""
        return self._since is not None and self._passed(self._since) >= self._settles

    @property
    def came_by_itself(self) -> bool:
        """Whether keys do nothing yet because the focus came without the user's doing."""
        return self._settles > SETTLE and not self.settled

    def idle(self) -> None:
        """A key did nothing here: what follows it without a pause does nothing either."""
        self._idle = self._clock.monotonic()

    def miss(self, event: events.Key) -> None:
        """The key did nothing, and who pressed it may believe that it did."""
        self.idle()
        if not self.settled and (self._twice or self.came_by_itself):
            return  # what is to be read then says so
        name = visible_line(event.character) if writes(event) and event.character else ""
        self._missed.append(name if name.strip() else _PRINTED.get(event.key, event.key))

    def came_before(self, text: str) -> None:
        """All of this was typed behind the key that led here, and went to another place."""
        self._before = visible_line(text)

    @property
    def missed(self) -> list[str]:
        """The keys that did nothing here, as they are printed."""
        return [*self._before.replace(" ", ""), *self._missed]

    def forget(self) -> None:
        """Count keys that do nothing anew."""
        self._missed.clear()
        self._before = ""

    @property
    def goes_on(self) -> bool:
        """Whether a key comes in the middle of a text whose keys did nothing until now."""
        return self._idle is not None and self._passed(self._idle) < SILENCE

    def _passed(self, since: float) -> float:
        # A little more, because 0.9 - 0.6 is less than 0.3.
        return self._clock.monotonic() - since + 1e-6

    # --- bursts ------------------------------------------------------------------------------

    @property
    def holding(self) -> bool:
        """Whether a key waits, because the next could make it a part of a text."""
        return self._held is not None

    def begins(self, event: events.Key) -> bool:
        """Whether no other key came right before it. To be asked of every key."""
        apart = event.time - self._last >= BURST
        self._last = event.time
        return apart

    def hold(self, event: events.Key, act: Act) -> None:
        """Let ``act`` follow on this key, unless another comes within ``HOLD``."""
        self._drop()
        self._held = _Held(event, act)
        self._timer = self._owner.set_timer(HOLD, self._due)

    async def first_of_text(self, event: events.Key | events.Paste) -> events.Key | None:
        """The key that was held and is the first of a text which goes on with ``event``.

        A held key whose time is over acts now; one that a key of another kind came right behind
        was no part of a text, and does nothing either.
        """
        held = self._held
        if held is None:
            return None
        if event.time - held.event.time >= HOLD:  # the timer is late
            await self._act(held)
            return None
        self._drop()
        if writes(event) or composes(event):
            return held.event
        self.miss(held.event)
        return None

    def _due(self) -> None:
        """Behind the keys that were read already and are on their way, through app and owner."""
        held, owner = self._held, self._owner
        if held is None:
            return
        host_of(owner).call_later(lambda: owner.call_later(self._act, held))

    async def _act(self, held: _Held) -> None:
        if self._held is held:
            self._drop()
            await held.act()

    def _drop(self) -> None:
        self._held = None
        if self._timer is not None:
            self._timer.stop()
            self._timer = None


def writes(event: events.Key | events.Paste) -> bool:
    """Whether it puts characters where text is written."""
    if isinstance(event, events.Paste):
        return True
    return event.is_printable and event.character is not None


def composes(event: events.Key | events.Paste) -> bool:
    """Whether it is a key beside characters that a message is written with."""
    return isinstance(event, events.Key) and event.key in COMPOSED


def anew(event: events.Key | events.Paste) -> events.Key | events.Paste:
    """The same, to be sent to another widget."""
    if isinstance(event, events.Paste):
        return events.Paste(event.text)
    return events.Key(event.key, event.character)
