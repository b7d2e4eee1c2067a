"""Passes keys on one at a time, so that each one reaches the focus that the key before it has
moved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, TextArea
from textual.worker import Worker

from duckflow_tui.ui.panes.key_guard import InlineField, Typed, is_text
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.ui.textual_private import pump_above

HandOn = Callable[[Typed], Awaitable[object]]

_MAX_HOLD_S: Final = 6.0  # seconds after which held keys are released in any case
_TURNS: Final = 3  # turns of the app's queue after which a key counts as handled


class KeyQueue:
    """Holds keys and pastes until the key before them has had its full effect.

    A key passes several queues before it acts, and may then move the focus or open a page; later
    keys would otherwise go to the widget that has the focus until then. A character typed in a text
    field moves nothing and is passed on at once.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._held: list[Typed] | None = None  # None: no key is being handled
        self._page: Screen[Any] | None = None  # page on which the handled key was pressed
        self._workers: list[Worker[None]] = []  # started by that key; they may open a page
        self._is_handled = False  # that key's direct effects are done
        self._timer: Timer | None = None
        self._when_free: list[Callable[[], object]] = []

    @property
    def is_holding(self) -> bool:
        """Whether a key is being handled, so that later ones wait."""
        return self._held is not None

    def hold_keys(self) -> None:
        """Hold all keys until ``release_keys``."""
        self._held = []

    async def handle_key(self, event: Typed, hand_on: HandOn) -> None:
        """Pass a key or paste to ``hand_on``, or hold it while an earlier key is being handled."""
        if self._held is not None:
            self._held.append(event)
        elif self._is_text(event):
            await hand_on(event)
        else:
            await self._start_key(event, hand_on)

    def call_when_free(self, callback: Callable[[], object]) -> None:
        """Call back once the app has passed on every key that arrived before."""
        self._app.call_later(self._call_if_free, callback)

    def await_page(self, worker: Worker[None]) -> None:
        """Hold keys also until this worker ends, since it may open a page."""
        if self._held is not None:
            self._workers.append(worker)

    async def release_if_ready(self) -> None:
        """Release the held keys if the key before them was handled and the page for them
        is ready.
        """
        if not self._is_handled:
            return
        page = self._app.screen
        if isinstance(page, Dialog) and not page.is_ready:
            return
        if page is not self._page or all(worker.is_finished for worker in self._workers):
            await self.release_keys()

    async def release_keys(self) -> None:
        """Pass on all held keys in order."""
        held, self._held, self._is_handled = self._held or [], None, False
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        for event in held:
            await self._app.on_event(event)
        waiting, self._when_free = self._when_free, []
        for callback in waiting:
            self._call_if_free(callback)

    def _call_if_free(self, callback: Callable[[], object]) -> None:
        """Call back now if no key is being handled, else after the keys are released."""
        if self._held is None:
            callback()
        else:
            self._when_free.append(callback)

    def _is_text(self, event: Typed) -> bool:
        """Whether the event writes into a text field that keeps the focus."""
        focused = self._app.focused
        is_field = isinstance(focused, Input | TextArea) and not isinstance(focused, InlineField)
        return is_field and is_text(event)

    async def _start_key(self, event: Typed, hand_on: HandOn) -> None:
        """Pass a key on, and hold later ones until it has been handled."""
        app, held = self._app, list[Typed]()
        self._held, self._page, self._is_handled = held, app.screen, False
        self._workers.clear()
        self._timer = app.set_timer(_MAX_HOLD_S, self.release_keys)
        focused = app.focused or app.screen
        await hand_on(event)
        # Twice, because a handler may send the key on once more, as a message.
        _call_when_handled(
            focused,
            app,
            lambda: _call_when_handled(focused, app, lambda: app.call_later(self._end_key, held)),
        )

    async def _end_key(self, held: list[Typed], turns: int = _TURNS) -> None:
        """Mark the key as handled, after some turns of the loop."""
        if self._held is held and turns:
            self._app.call_later(self._end_key, held, turns - 1)
        elif self._held is held:
            self._is_handled = True
            await self.release_if_ready()


def _call_when_handled(pump: MessagePump, top: MessagePump, then: Callable[[], object]) -> None:
    """Call ``then`` once the queues from ``pump`` up to ``top`` have been handled."""

    def go_up() -> None:
        above = pump_above(pump)
        if pump is top or above is None:
            then()
        else:
            _call_when_handled(above, top, then)

    if not pump.call_later(go_up):  # the pump is closing
        then()
