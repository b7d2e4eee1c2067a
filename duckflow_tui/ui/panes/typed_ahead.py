"""Keys that come faster than the focus moves: each reaches the place it was meant for, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.widgets import Input

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
        _pass(before, top, lambda: _pass(before, top, self._arrived))

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


def _pass(pump: MessagePump, top: MessagePump, then: Callable[[], object]) -> None:
    """Call ``then`` when what waits in the queues from ``pump`` up to ``top`` was handled."""

    def handled() -> None:
        above = pump._parent  # pyright: ignore[reportPrivateUsage]  # of a pump, not of a node
        if pump is top or above is None:
            then()
        else:
            _pass(above, top, then)

    if not pump.call_later(handled):  # it is being taken down
        then()


class InlineField(Input):
    """One line to write in that takes over the keys of the widget it stands in.

    ``done`` gets the text on Enter, at once. The widget hands on with ``take`` what still comes
    to it from the moment in which the field was opened.
    """

    def __init__(self, done: Callable[[str], object], *, id: str) -> None:
        super().__init__(compact=True, select_on_focus=False, id=id)
        self.cursor_blink = False
        self._done = done
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
        app = cast("App[Any]", self.app)  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if await app.run_action(binding.action, self):
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
