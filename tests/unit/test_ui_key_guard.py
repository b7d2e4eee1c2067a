"""Kinds of keys, and keys that wait for those typed before them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from textual import events

from duckflow_tui.ui.panes.key_guard import KeyOrder, composes, copy_event, writes


def key(name: str) -> events.Key:
    return events.Key(name, name if len(name) == 1 else None)


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
    again = copy_event(event)
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
    order, pumps = KeyOrder(), [cast("Any", Pump()) for _ in range(2)]
    for pump in pumps:
        order.delay_until_handled(pump, pump)
    for pump in pumps * 2:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await order.wait_for_turn()
        pump.waiting.pop()()
    async with asyncio.timeout(0.3):
        await order.wait_for_turn()


async def test_what_is_taken_down_holds_no_key_back() -> None:
    order, gone = KeyOrder(), cast("Any", Pump(takes=False))
    order.delay_until_handled(gone, gone)
    async with asyncio.timeout(0.3):
        await order.wait_for_turn()
