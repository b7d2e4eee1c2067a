"""Reports which hosts were contacted, and with how many bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from duckflow_tui.state.usage import HostContacted

Report = Callable[[HostContacted], None]


class Contacts:
    """Collects reports of requests made outside a session, such as the search for servers, lists of
    models and probes. They are held until a session is open and then passed to it.
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
        """Pass held and all later reports to the session's ``report``, on the running
        event loop.
        """
        self._report, self._loop = report, asyncio.get_running_loop()
        while self._waiting:
            report(self._waiting.pop(0))


#: Set once by the program, so that no function on the way has to hand it on; unset in a program
#: that has no session.
outside: Final[ContextVar[Contacts]] = ContextVar("outside")
