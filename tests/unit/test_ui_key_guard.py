"""When keys act at a widget that asks: neither too soon after it came, nor as part of a text."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.pinned import ManualClock
from textual import events
from textual.widget import Widget

from duckflow_tui.ui.panes.key_guard import (
    BURST,
    HOLD,
    SETTLE,
    SILENCE,
    InOrder,
    KeyGuard,
    anew,
    composes,
    writes,
)


class Owner:
    """A widget whose timers run out when the test says so."""

    def __init__(self) -> None:
        self.timers: list[Any] = []
        self.waiting: list[Any] = []
        self.app = self

    def set_timer(self, seconds: float, call: Any) -> Any:
        timer = SimpleNamespace(seconds=seconds, call=call, stopped=False)
        timer.stop = lambda: setattr(timer, "stopped", True)
        self.timers.append(timer)
        return timer

    def call_later(self, call: Any, *given: Any) -> None:
        self.waiting.append((call, given))

    async def handle_all(self) -> None:
        while self.waiting:
            call, given = self.waiting.pop(0)
            done = call(*given)
            if done is not None:
                await done


class Guarded:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.owner = Owner()
        self.guard = KeyGuard(cast("Widget", self.owner), self.clock)
        self.done: list[str] = []

    def hold(self, event: events.Key) -> None:
        async def act() -> None:
            self.done.append(event.key)

        self.guard.hold(event, act)


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


def key(name: str, at: float = 0.0) -> events.Key:
    event = events.Key(name, name if len(name) == 1 else None)
    event.time = at
    return event


# --- the focus -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "before", "seconds"),
    [(True, False, 0.3), (False, False, 1.0), (True, True, 1.0)],
)
def test_keys_act_once_the_focus_has_been_here_for_a_while(
    guarded: Guarded, asked: bool, before: bool, seconds: float
) -> None:
    guard = guarded.guard
    assert (guard.settled, guard.came_by_itself) == (False, False)
    if before:
        guard.unasked()
    guard.begin(unasked=not asked)
    by_itself = seconds > SETTLE
    guarded.clock.advance(seconds - 0.001)
    assert (guard.settled, guard.came_by_itself) == (False, by_itself)
    guarded.clock.advance(0.001)
    assert (guard.settled, guard.came_by_itself) == (True, False)
    guard.end()
    assert not guard.settled
    guard.begin()  # what was said of the focus before holds once
    guarded.clock.advance(SETTLE)
    assert guard.settled


def test_keys_that_did_nothing_are_told_until_they_are_forgotten(guarded: Guarded) -> None:
    guard = guarded.guard
    guard.begin()
    guarded.clock.advance(SETTLE)
    guard.came_before("o k")
    for event in (key("x"), key("escape")):
        guard.miss(event)
    assert guard.missed == ["o", "k", "x", "Esc"]
    guard.forget()
    assert guard.missed == []


def test_a_text_goes_on_until_nothing_comes_for_a_while(guarded: Guarded) -> None:
    guard = guarded.guard
    assert not guard.goes_on
    guard.idle()
    guarded.clock.advance(SILENCE - 0.001)
    assert guard.goes_on
    guard.idle()
    guarded.clock.advance(SILENCE)
    assert not guard.goes_on
    guard.idle()
    guard.begin()
    assert not guard.goes_on


def test_a_key_begins_something_where_none_came_right_before_it(guarded: Guarded) -> None:
    guard = guarded.guard
    assert guard.begins(key("a", 5.0))
    assert not guard.begins(key("b", 5.0 + BURST / 2))
    assert not guard.begins(key("c", 5.0 + BURST * 1.4))  # beside the one before it
    assert guard.begins(key("d", 6.0))
    assert guard.begins(key("e", 6.0 + 2 * BURST))
    assert not guard.begins(key("f", 0.0))
    assert guard.begins(key("g", BURST))


# --- a key that waits ----------------------------------------------------------------------------


async def test_a_held_key_acts_when_its_time_is_over(guarded: Guarded) -> None:
    guarded.hold(key("y"))
    (timer,) = guarded.owner.timers
    assert (timer.seconds, guarded.guard.holding, guarded.done) == (HOLD, True, [])
    timer.call()
    assert guarded.done == []  # what was read before goes first
    await guarded.owner.handle_all()
    assert (guarded.done, guarded.guard.holding, timer.stopped) == (["y"], False, True)
    timer.call()
    await guarded.owner.handle_all()
    assert guarded.done == ["y"]


@pytest.mark.parametrize(
    ("then", "first"),
    [
        (key("e"), "y"),
        (events.Paste("es"), "y"),
        (key("enter"), "y"),
        (key("backspace"), "y"),
        (key("up"), None),
    ],
)
async def test_a_held_key_is_the_first_of_a_text_that_comes_right_behind_it(
    guarded: Guarded, then: events.Key | events.Paste, first: str | None
) -> None:
    assert await guarded.guard.first_of_text(then) is None
    guarded.hold(key("y", 5.0))
    then.time = 5.0 + HOLD / 2
    found = await guarded.guard.first_of_text(then)
    assert (found.key if found is not None else None) == first
    assert (guarded.guard.holding, guarded.done) == (False, [])
    assert guarded.owner.timers[0].stopped


async def test_a_key_that_comes_later_belongs_to_no_text(guarded: Guarded) -> None:
    guarded.hold(key("y", 5.0))
    assert await guarded.guard.first_of_text(key("e", 5.0 + 2 * HOLD)) is None
    assert (guarded.done, guarded.guard.holding) == (["y"], False)


@pytest.mark.parametrize("way", ["begin", "end", "another"])
async def test_a_held_key_is_dropped_with_what_it_was_meant_for(guarded: Guarded, way: str) -> None:
    guarded.hold(key("y"))
    first = guarded.owner.timers[0]
    first.call()
    if way == "another":
        guarded.hold(key("n"))
    elif way == "begin":
        guarded.guard.begin()
    else:
        guarded.guard.end()
    assert first.stopped
    await guarded.owner.handle_all()
    assert guarded.done == []
    assert guarded.guard.holding is (way == "another")


# --- kinds of keys -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "written", "composed"),
    [
        (key("a"), True, False),
        (events.Key("space", " "), True, False),
        (events.Paste("x"), True, False),
        (key("enter"), False, True),
        (key("backspace"), False, True),
        (key("up"), False, False),
        (events.Key("ctrl+a", "\x01"), False, False),
    ],
)
def test_characters_write_and_two_keys_belong_to_writing(
    event: events.Key | events.Paste, written: bool, composed: bool
) -> None:
    assert (writes(event), composes(event)) == (written, composed)
    again = anew(event)
    assert again is not event
    assert type(again) is type(event)
    if isinstance(again, events.Paste) and isinstance(event, events.Paste):
        assert again.text == event.text
    elif isinstance(again, events.Key) and isinstance(event, events.Key):
        assert (again.key, again.character) == (event.key, event.character)


# --- keys that wait for those typed before them --------------------------------------------------


class Pump:
    """A queue of messages that is handled when the test says so."""

    _parent = None

    def __init__(self, *, takes: bool = True) -> None:
        self.waiting: list[Any] = []
        self._takes = takes

    def call_later(self, call: Any) -> bool:
        if self._takes:
            self.waiting.append(call)
        return self._takes


async def test_a_key_waits_for_every_queue_that_may_hold_one_typed_before_it() -> None:
    """Each is passed twice, and the key comes as soon as the last is through."""
    order, pumps = InOrder(), [cast("Any", Pump()) for _ in range(2)]
    for pump in pumps:
        order.behind(pump, pump)
    for pump in pumps * 2:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await order.turn()
        pump.waiting.pop()()
    async with asyncio.timeout(0.3):
        await order.turn()


async def test_what_is_taken_down_holds_no_key_back() -> None:
    order, gone = InOrder(), cast("Any", Pump(takes=False))
    order.behind(gone, gone)
    async with asyncio.timeout(0.3):
        await order.turn()
