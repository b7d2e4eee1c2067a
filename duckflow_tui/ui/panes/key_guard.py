"""When a key of a question acts: not before its focus was noticed, and not as part of a text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from textual import events
from textual.app import App
from textual.timer import Timer
from textual.widget import Widget

from duckflow_tui.state.base import Clock
from duckflow_tui.ui.panes.typed_ahead import COMPOSED

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
        self._idle: float | None = None  # when a key did nothing last
        self._last = float("-inf")
        self._held: _Held | None = None
        self._timer: Timer | None = None

    # --- the focus ---------------------------------------------------------------------------

    def unasked(self) -> None:
        """The focus is about to come, and not because the user wants it here."""
        self._unasked = True

    def begin(self, *, unasked: bool = False) -> None:
        """What the user looks at is new, or the focus is: keys are ignored for ``SETTLE``, or for
        ``SETTLE_UNASKED`` where the user did not go there.
        """
        self._settles = SETTLE_UNASKED if unasked or self._unasked else SETTLE
        self._unasked = False
        self._since = self._clock.monotonic()
        self._idle = None
        self._drop()

    def end(self) -> None:
        """No key is meant for this any more, until ``begin``."""
        self._since = None
        self._drop()

    @property
    def settled(self) -> bool:
        """Whether keys act."""
        return self._since is not None and self._passed(self._since) >= self._settles

    @property
    def came_by_itself(self) -> bool:
        """Whether keys do nothing yet because the focus came without the user's doing."""
        return self._settles > SETTLE and not self.settled

    def idle(self) -> None:
        """A key did nothing here: what follows it without a pause does nothing either."""
        self._idle = self._clock.monotonic()

    @property
    def goes_on(self) -> bool:
        """Whether a key comes in the middle of a text whose keys did nothing until now."""
        return self._idle is not None and self._passed(self._idle) < SILENCE

    def _passed(self, since: float) -> float:
        # Rounded, because 0.9 - 0.6 is less than 0.3.
        return round(self._clock.monotonic() - since, 6)

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
        return held.event if writes(event) or _composes(event) else None

    def _due(self) -> None:
        """Behind the keys that were read already and are on their way, through app and owner."""
        held, owner = self._held, self._owner
        if held is None:
            return
        app = cast("App[Any]", owner.app)  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]
        app.call_later(lambda: owner.call_later(self._act, held))

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


def _composes(event: events.Key | events.Paste) -> bool:
    return isinstance(event, events.Key) and event.key in COMPOSED


def anew(event: events.Key | events.Paste) -> events.Key | events.Paste:
    """The same, to be sent to another widget."""
    if isinstance(event, events.Paste):
        return events.Paste(event.text)
    return events.Key(event.key, event.character)
