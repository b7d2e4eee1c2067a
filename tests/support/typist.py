"""Someone who types at a pace, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.pinned import ManualClock
from textual import events
from textual.message_pump import MessagePump
from textual.pilot import Pilot

from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes import key_guard

TRUE_DELAY = 0.4  # seconds, as the program has it
_NAMES = {
    " ": "space",
    ",": "comma",
    ".": "full_stop",
    "?": "question_mark",
    "'": "apostrophe",
    "-": "minus",
    "]": "right_square_bracket",
    "[": "left_square_bracket",
}


def key(character: str) -> events.Key:
    """The key of a character, as a terminal gives it."""
    return events.Key(_NAMES.get(character, character), character)


class _Timer:
    def __init__(self, due: float, call: Callable[[], object]) -> None:
        self.due, self.call, self.stopped = due, call, False

    def stop(self) -> None:
        self.stopped = True


class Typist:
    """Types at this app; the time in which a key waits passes on the app's own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._timers: list[_Timer] = []
        self.pilot: Pilot[int] | None = None
        stock: Any = MessagePump.set_timer
        monkeypatch.setattr(key_guard, "DELAY_S", TRUE_DELAY)

        def set_timer(pump: MessagePump, delay: float, callback: Any = None, **more: Any) -> Any:
            if delay != TRUE_DELAY or self.pilot is None:
                return stock(pump, delay, callback, **more)
            self._timers.append(_Timer(self._clock.monotonic() + delay, callback))
            return self._timers[-1]

        monkeypatch.setattr(MessagePump, "set_timer", set_timer)

    @property
    def _app(self) -> DuckflowApp:
        assert self.pilot is not None
        app = self.pilot.app
        assert isinstance(app, DuckflowApp)
        return app

    @property
    def _clock(self) -> ManualClock:
        assert isinstance(self._app.clock, ManualClock)
        return self._app.clock

    async def press(self, character: str) -> None:
        """One key."""
        self._app.post_message(key(character))
        await self._rest()

    async def types(self, text: str, gap: float, pauses: dict[int, float] | None = None) -> None:
        """Every character, ``gap`` seconds apart; before some, by their place, a pause instead.
        Once the composer has the focus, what is left comes in one go.
        """
        for at, character in enumerate(text):
            if self._app.bench.focused is self._app.bench.composer:
                for rest in text[at:]:
                    self._app.post_message(key(rest))
                await self._rest()
                break
            if at:
                await self.waits((pauses or {}).get(at, gap))
            self._app.post_message(key(character))

    async def waits(self, seconds: float) -> None:
        """Let time pass, with what is due on the way."""
        await self._rest()
        end = self._clock.monotonic() + seconds
        while True:
            due = [t for t in self._timers if not t.stopped and t.due <= end + 1e-9]
            if not due:
                break
            first = min(due, key=lambda timer: timer.due)
            self._timers.remove(first)
            self._clock.advance(max(0.0, first.due - self._clock.monotonic()))
            first.call()
            await self._rest()
        self._timers = [timer for timer in self._timers if not timer.stopped]
        self._clock.advance(max(0.0, end - self._clock.monotonic()))

    async def _rest(self) -> None:
        assert self.pilot is not None
        for _ in range(3):
            await self.pilot.pause()
