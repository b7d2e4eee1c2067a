"""Keys around a move of the focus: each reaches its place in order, and none answers too soon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Literal

from textual import events
from textual.message_pump import MessagePump
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.base import Clock
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.textual_private import bindings_of, pump_above
from duckflow_tui.words.catalogue import Catalogue

#: Keys beside characters that a message is written with; they follow what was typed before them.
COMPOSED: Final = frozenset({"enter", "backspace"})

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
        elif not self.display:  # what is behind Enter is for the widget it stands in to hand on
            event.prevent_default()

    async def on_paste(self, event: events.Paste) -> None:
        await self._order.turn()
        event.prevent_default()
        if self.display:
            event.stop()
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


#: Seconds in which nothing is answered after what asks, or what it asks, came into view: a key that
#: comes sooner was meant for another place.
SETTLE: Final = 0.3

#: Seconds that a key waits before it acts. People who write press the next one sooner.
DELAY = 0.4

Act = Callable[[], Awaitable[object]]
Typed = events.Key | events.Paste

#: How the newest key stands: it waits and will act, came within ``SETTLE``, came again while it
#: waited (as one that is held down does), does nothing here, or was taken back by another key.
Standing = Literal["", "waits", "too_soon", "repeated", "unknown", "taken_back"]


class KeyGuard:
    """Decides for one widget that asks whether a key answers or belongs to a text.

    Nothing acts within ``SETTLE`` of ``begin``. A printable key acts after ``DELAY``, or with
    Enter; another one within ``DELAY`` before or behind it makes both the beginning of a text,
    which goes to ``hand_on`` whole, and so does a paste. ``show`` is called when ``standing`` is
    another.
    """

    def __init__(
        self,
        owner: Widget,
        clock: Clock,
        hand_on: Callable[[Sequence[Typed]], None],
        show: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._hand_on = hand_on
        self._show = show
        self._since: float | None = None
        #: Printable keys since the last pause. A single letter stays behind a pause: where a space
        #: follows it was a word.
        self._typed: list[events.Key] = []
        self._walks = False  # all of them are keys that are pressed many times in a row
        self._timer: Timer | None = None  # runs out ``DELAY`` behind the newest of them
        self._act: Act | None = None  # what that one does then
        self._is_seen = False  # the screen was drawn since it came
        self.standing: Standing = ""

    def begin(self) -> None:
        """What is asked came into view just now."""
        self._since = self._clock.monotonic()
        self._act = None
        self._stand("")

    def end(self) -> None:
        """No key is meant for this any more, until ``begin``."""
        self._since = None
        self.forget()

    def forget(self) -> None:
        """What was typed here has had its effect, or shall have none."""
        self._typed.clear()
        self._act = None
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._stand("")

    def release(self) -> Sequence[Typed]:
        """Forget the keys that still wait, which are given back: what they could answer is gone."""
        typed = [*self._typed] if self.holding else []
        self.forget()
        return typed

    @property
    def on(self) -> bool:
        """Whether keys are meant for this."""
        return self._since is not None

    @property
    def settled(self) -> bool:
        """Whether keys may act."""
        # A little more, because 0.9 - 0.6 is less than 0.3.
        return self._since is not None and self._clock.monotonic() - self._since + 1e-6 >= SETTLE

    @property
    def holding(self) -> bool:
        """Whether the next key may still turn the newest one into a part of a text."""
        return self._timer is not None

    @property
    def newest(self) -> str:
        """The newest key of ``standing``, as it is printed; empty for none."""
        return visible_line(self._typed[-1].character or "") if self._typed else ""

    async def take(self, event: events.Key, act: Act | None, *, walks: bool = False) -> bool:
        """Take a key that does ``act``, or nothing here; False for one that may act as ever.

        ``walks``: it decides nothing and is pressed many times in a row, so it acts at once.
        """
        if not writes(event):
            return await self._take_other(event)
        before = self._typed[-1] if self._typed else None
        again = before is not None and before.key == event.key
        goes_on = before is not None and _is_space(event) and not _is_space(before)
        if self.holding and not again and (goes_on or not (walks and self._walks)):
            self._pass_on(event)
            return True
        repeated = self.holding and again and not walks
        if not goes_on and (not self.holding or (again and walks)):
            self._typed.clear()
        self._walks = walks and (self._walks or not self._typed)
        self._typed.append(event)
        self._act = None
        self._wait()
        if not self.settled:
            self._stand("too_soon")
        elif repeated:
            self._stand("repeated")
        elif walks and not goes_on and act is not None:
            self._stand("")
            await act()
        elif act is not None:
            self._act = act
            self._is_seen = False
            self._owner.call_after_refresh(self._see, self._timer)
            self._stand("waits")
        elif event.character is not None and not event.character.isascii():
            self._pass_on()  # of an input method: no key of anything
        else:
            self._stand("unknown")
        return True

    def words(self, words: Catalogue, what: str = "") -> str:
        """How the newest key stands, where that is to be said; ``what`` it will do."""
        if self.standing in ("", "unknown"):
            return ""
        return words(f"guard.{self.standing}", key=self.newest, what=what)

    def take_paste(self, event: events.Paste) -> None:
        """A paste is a text, with what was typed right before it."""
        if not self.holding:
            self._typed.clear()
        self._pass_on(event)

    async def _take_other(self, event: events.Key) -> bool:
        """A key that writes nothing: Enter confirms what can be seen, any other takes it back."""
        if event.key == "enter" and self.holding and not self._walks:
            act = self._act
            if act is None or not self._is_seen:
                self._pass_on(event)
                return True
            self._end_wait()
            await act()
            return True
        taken_back = self._act is not None
        self.forget()
        self._stand("taken_back" if taken_back else "")
        return False

    def _pass_on(self, event: Typed | None = None) -> None:
        typed: list[Typed] = [*self._typed, event] if event is not None else [*self._typed]
        self.forget()
        self._hand_on(typed)

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._owner.set_timer(DELAY, self._run_out)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._act = None
        self._stand("")

    def _see(self, timer: Timer | None) -> None:
        self._is_seen |= timer is self._timer

    def _run_out(self) -> None:
        """Behind the keys that were read already and are on their way, through app and owner."""
        owner, timer = self._owner, self._timer
        host_of(owner).call_later(lambda: owner.call_later(self._pause, timer))

    async def _pause(self, timer: Timer | None) -> None:
        """Nothing came behind the newest key."""
        if timer is None or timer is not self._timer:
            return
        if self._act is None:
            self._timer = None
            return
        act = self._act
        self._end_wait()
        await act()

    def _stand(self, standing: Standing) -> None:
        if standing or self.standing:
            self.standing = standing
            self._show()


def _is_space(event: events.Key) -> bool:
    return event.character is not None and event.character.isspace()


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
