"""Who hears which hosts are sent requests."""

from __future__ import annotations

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

    def __call__(self, contact: HostContacted) -> None:
        self._report(contact)

    def go_to(self, report: Report) -> None:
        """A session is open: it hears what waited, and from now on all."""
        self._report = report
        while self._waiting:
            report(self._waiting.pop(0))


#: Set once by the program, so that no function on the way has to hand it on; unset in a program
#: that has no session.
outside: Final[ContextVar[Contacts]] = ContextVar("outside")
