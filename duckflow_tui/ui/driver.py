"""A Textual driver that takes over from the first frame, sleeps while idle, and survives a lost
terminal.
"""

from __future__ import annotations

import os
import selectors
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import constants
from textual.app import App
from textual.message import Message

from duckflow_tui.ui.terminal_input import TerminalInput
from duckflow_tui.ui.textual_private import ResumableDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckflow_tui.ui.first_frame import FirstFrame

ALTERNATE_SCREEN: Final = "\x1b[?1049h"
MOUSE_PIXELS_OFF: Final = "\x1b[?1016l"  # Textual switches the mode on and never off
#: Beside what Textual asks of the terminal's keyboard: the key of the Latin layout, for shortcuts.
ALTERNATE_KEYS_TOO: Final = "\x1b[=4;2u"


class DuckDriver(ResumableDriver):
    """Takes the terminal over from the first frame and blocks while nothing is typed.

    Textual's own input thread wakes ten times a second, ends the app on bytes that it cannot
    decode, and spins on a terminal that is gone.
    """

    frame: ClassVar[FirstFrame | None] = None
    hung_up: ClassVar[tuple[Callable[[], None], ...]] = ()  # a plain function would be bound

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._shown = False
        self._drawn_before = self.frame is not None and self.frame.taken
        self._early = b""  # typed while the first frame stood
        self._resuming = False  # the program goes on, and the loop has not come to it yet

    def write(self, data: str) -> None:
        if data == ALTERNATE_SCREEN and self._drawn_before:
            # Entering it again would clear the first frame: a flash of nothing.
            self._drawn_before = False
            return
        if self._shown or data == ALTERNATE_SCREEN:
            super().write(data)

    def start_application_mode(self) -> None:
        self._shown = True
        if self.frame is not None:
            self._early = self.frame.take_keys()
        super().start_application_mode()
        if not constants.DISABLE_KITTY_KEY:
            self.write(ALTERNATE_KEYS_TOO)
        if self.frame is not None:
            # What Textual found is the first frame's raw mode, not what the shell had.
            self.attrs_before = list(self.frame.modes)
            self.frame.taken = True

    def stop_application_mode(self) -> None:
        if not self._shown:
            return
        self.write(MOUSE_PIXELS_OFF)
        super().stop_application_mode()
        # While the screen belongs to another program nobody takes what is written, and the
        # writer's queue is short: what the app draws meanwhile is dropped, not waited for.
        self._shown = False
        if self.frame is not None:
            self.frame.taken = False

    def went_on(self) -> None:
        """Take the terminal back after SIGCONT. A signal may arrive in the middle of anything, so
        the loop does it, once for all signals so far.
        """
        if not self._resuming:
            self._resuming = True
            self.call_on_loop(self.resume_application_mode)

    def resume_application_mode(self) -> None:
        self._resuming = False
        if self._shown:  # stopped without a word before: the terminal may have any mode now
            self.suspend_application_mode()
        super().resume_application_mode()
        # Whatever stood on the screen is gone, and what was drawn meanwhile was dropped.
        self.host.call_later(self.host.refresh)

    def disable_input(self) -> None:
        os.write(self._wake_write, b".")
        super().disable_input()

    def run_input_thread(self) -> None:
        with suppress(BlockingIOError):
            # Left from the last end of input; it stays readable until then, so that a thread
            # woken before the exit event is set looks again instead of sleeping.
            os.read(self._wake_read, 64)
        source = TerminalInput()
        early, self._early = self._early, b""
        self._process_all(source.feed_bytes(early, time.monotonic()))
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = selector.select(source.seconds_until_tick(time.monotonic()))
                sources = {key.fd for key, _ in ready}
                if self.fileno in sources:
                    data = self._read_input()
                    if not data:
                        self._report_hang_up()
                        return
                    self._process_all(source.feed_bytes(data, time.monotonic()))
                else:
                    self._process_all(source.check_silence(time.monotonic()))

    def _process_all(self, messages: list[Message]) -> None:
        for message in messages:
            self.process_message(message)

    def process_message(self, message: Message) -> None:
        if not self.exit_event.is_set():
            super().process_message(message)

    def _read_input(self) -> bytes:
        try:
            return os.read(self.fileno, 4096)
        except OSError:  # EIO: the terminal hung up
            return b""

    def _report_hang_up(self) -> None:
        for callback in self.hung_up:
            self.call_on_loop(callback)


def driver_for(
    frame: FirstFrame | None, hung_up: Callable[[], None] | None = None
) -> type[DuckDriver]:
    """Return a driver class bound to the frame that holds the terminal; ``hung_up`` is called when
    the terminal is gone.
    """
    callbacks = () if hung_up is None else (hung_up,)
    return type("BoundDriver", (DuckDriver,), {"frame": frame, "hung_up": callbacks})
