"""A pilot that waits only for widgets that have something to do."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from textual.app import ScreenError
from textual.message_pump import MessagePump
from textual.pilot import Pilot, WaitForScreenTimeout

#: Seconds until widgets that do not come to an end are an error.
_DEADLINE = 30.0


async def caught_up(self: Pilot[Any], timeout: float = _DEADLINE) -> bool:
    """Wait until each widget has done what it was told until now; whether all of them did. Textual
    wakes every widget for that, which was a third of the time of a picture.
    """
    app = self.app
    try:
        screen = app.screen
    except ScreenError:  # the app has ended
        return False
    waited_for = 0
    all_did = asyncio.Event()

    def one_did() -> None:
        nonlocal waited_for
        waited_for -= 1
        if not waited_for:
            all_did.set()

    for pump in (app, *screen.walk_children(with_self=True)):
        if not _has_nothing_to_do(pump) and pump.call_later(one_did):
            waited_for += 1
    if not waited_for:
        await asyncio.sleep(0)
        return True
    failed: asyncio.Event = vars(app)["_exception_event"]
    first = [asyncio.create_task(event.wait()) for event in (all_did, failed)]
    try:
        ended, _ = await asyncio.wait(first, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in first:
            task.cancel()
    if not ended:
        raise WaitForScreenTimeout("a widget did not come to an end")
    return not waited_for


def _has_nothing_to_do(pump: MessagePump) -> bool:
    """Whether it waits for a message and none is there."""
    arrives = cast("Any", pump)._message_queue.ready_event
    return bool(arrives._waiters) and not arrives.is_set()
