"""Reports of which hosts are sent requests, and how much."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from duckflow_tui.state.usage import HostContacted

Report = Callable[[HostContacted], None]


class Contacts:
    """Takes what no session asked for: servers looked for before there is one, the models of a
    server, a trial of one. The session that is open hears it; until there is one, it waits.
    """

    def __init__(self) -> None:
        self._waiting: list[HostContacted] = []
        self._report: Report = self._waiting.append
        self._loop: asyncio.AbstractEventLoop | None = None  # of the session

    def __call__(self, contact: HostContacted) -> None:
        if self._loop is None or self._loop is asyncio.get_running_loop():
            self._report(contact)
        else:  # checks of the machine have a loop and a thread of their own
            with contextlib.suppress(RuntimeError):  # the session has ended
                self._loop.call_soon_threadsafe(self._report, contact)

    def go_to(self, report: Report) -> None:
        """A session is open: it hears what waited, and from now on all, in the loop that this is
        called in.
        """
        self._report, self._loop = report, asyncio.get_running_loop()
        while self._waiting:
            report(self._waiting.pop(0))


#: Set once by the program, so that no function on the way has to hand it on; unset in a program
#: that has no session.
outside: Final[ContextVar[Contacts]] = ContextVar("outside")
