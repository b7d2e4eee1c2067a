"""Plays a recorded session into a Store, at its own pace, event by event, or from any position."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Literal

from duckflow_tui.session.replay import Mark, Tape
from duckflow_tui.state.store import MemoryRecorder, Record, Store

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
LONGEST: Final = 1.5  # seconds that a pause of the session takes at most, at speed 1
FRAME: Final = 1 / 20  # seconds between two pieces of what goes on in a pause
NEAR: Final = 40  # events up to which a way forward is gone event by event

Back = Literal[-1, 1]


class ReplayClock:
    """A clock whose wall time is that of the shown record; its monotonic time is real."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, at: float) -> None:
        self.at = at  # seconds since the epoch

    def now(self) -> float:
        return self.at


class _Nowhere(MemoryRecorder):
    """Discards records, because they are recorded already."""

    def append(self, record: Record) -> None:
        return


class Player:
    """The position in a recorded session; ``run`` moves it while it plays."""

    def __init__(self, tape: Tape, *, speed: float = 1.0, playing: bool = True) -> None:
        self.tape = tape
        self.speed = speed
        self.playing = playing
        self.position = 0
        self.clock = ReplayClock(tape.time_at(0))
        self.store = self._make_store()
        #: Called when ``store`` is another: what was shown no longer holds.
        self.on_leap: Callable[[Store], None] = lambda store: None
        #: Called when position, speed or ``playing`` changed.
        self.on_change: Callable[[], None] = lambda: None
        #: Called when a question opened or closed: it is to be seen before the next event.
        self.on_question: Callable[[], None] = lambda: None
        self._moved = asyncio.Event()
        self._keys = 0  # that moved, paused or went on

    @property
    def at_end(self) -> bool:
        """Whether all events have been played."""
        return self.position >= len(self.tape)

    @property
    def mark(self) -> Mark | None:
        """The turning point at the current position; None between them."""
        mark = self.tape.mark_before(self.position + 1)
        return mark if mark is not None and mark.position == self.position else None

    # keys

    def toggle_playing(self) -> None:
        """Play or pause; at the end, play from the start again."""
        self._keys += 1
        if self.at_end:
            self._go_to(0)
            self.playing = True
        else:
            self.playing = not self.playing
        self._wake_player()

    def step_by(self, by: Back) -> None:
        """Move to the next or previous event that changes the screen, and pause."""
        tape = self.tape
        at = tape.stop_after(self.position) if by > 0 else tape.stop_before(self.position)
        self.seek_to(at)

    def jump_by(self, by: Back) -> bool:
        """Move to the next or previous turning point, and pause; False where there is none."""
        tape = self.tape
        mark = tape.mark_after(self.position) if by > 0 else tape.mark_before(self.position)
        if mark is None:
            return False
        self.seek_to(mark.position)
        return True

    def seek_to(self, position: int) -> None:
        """Move to any position, and pause."""
        self._keys += 1
        self.playing = False
        self._go_to(max(0, min(position, len(self.tape))))
        self._wake_player()

    def change_speed(self, by: Back) -> None:
        """Set the next higher speed, or for a negative ``by`` the next lower one, where there is
        one.
        """
        beyond = [speed for speed in SPEEDS if (speed - self.speed) * by > 0]
        self.speed = min(beyond, key=lambda speed: abs(speed - self.speed), default=self.speed)
        self._wake_player()

    # playing

    async def run(self) -> None:
        """Play until cancelled; waits while paused and at the end."""
        owed = 0.0  # seconds too short to wait for
        while True:
            if not self.playing:
                await self._wait_for_key()
                continue
            owed += self._pause_before() / self.speed
            if owed >= FRAME:
                if not await self._pass_time():
                    owed = 0.0
                    continue
                owed = 0.0
            self._play_next()
            if self.position % NEAR == 0:
                await asyncio.sleep(0)
            if self.at_end:
                self.playing = False
            self.on_change()

    async def _wait_for_key(self) -> None:
        """Wait until the user moves, pauses or changes the speed."""
        self._moved.clear()
        await self._moved.wait()

    def _wake_player(self) -> None:
        """End the player's wait and report the change."""
        self._moved.set()
        self.on_change()

    def _pause_before(self) -> float:
        """Return the seconds until the next event at speed 1."""
        return min(max(0.0, self.tape.beats[self.position].at - self.clock.now()), LONGEST)

    async def _pass_time(self) -> bool:
        """Wait for the pause before the next event; False where a key interrupted it."""
        beat = self.tape.beats[self.position]
        start, pause = self.clock.now(), self._pause_before()
        gone, last, keys = 0.0, time.monotonic(), self._keys
        while gone < pause:
            self._moved.clear()
            try:
                async with asyncio.timeout(min(FRAME, (pause - gone) / self.speed)):
                    await self._moved.wait()
            except TimeoutError:
                pass
            now = time.monotonic()
            gone, last = min(pause, gone + (now - last) * self.speed), now
            if keys != self._keys:
                return False
            self.clock.at = start + (beat.at - start) * (gone / pause)
            self.on_change()
        return True

    def _play_next(self) -> None:
        """Apply the next event; pauses at a question."""
        beat = self.tape.beats[self.position]
        self.clock.at = beat.at
        state = self.store.state
        before = state.gates, state.cards
        self.store.dispatch(beat.event)
        self.position += 1
        if (state.gates, state.cards) != before:
            self.on_question()

    def _go_to(self, position: int) -> None:
        """Move to an event: play forward to a near one, else restore the state there."""
        if 0 <= position - self.position <= NEAR:
            while self.position < position:
                self._play_next()
            return
        self.position = position
        self.clock.at = self.tape.time_at(position)
        self.store = self._make_store()
        self.on_leap(self.store)

    def _make_store(self) -> Store:
        """Return a Store with the state at the present position, which records nothing."""
        state = self.tape.state_at(self.position)
        return Store(state, self.clock, _Nowhere(), last_seq=self.position)
