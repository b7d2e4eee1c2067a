"""Textual's driver with what a first frame, an idle terminal and a lost one ask of it."""

from __future__ import annotations

import os
import re
import selectors
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.app import App
from textual.message import Message

from duckflow_tui.ui.textual_private import KeyParser, ResumableDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckflow_tui.ui.first_frame import FirstFrame

ALTERNATE_SCREEN: Final = "\x1b[?1049h"
MOUSE_PIXELS_OFF: Final = "\x1b[?1016l"  # Textual switches the mode on and never off
#: Alt with a key whose legacy sequence Textual reads as another character, or as the bare key.
_ALT: Final = re.compile("\x1b([1-9\r])")
MID_SEQUENCE: Final = 0.02  # seconds until an escape sequence that may have ended is looked at


class DuckDriver(ResumableDriver):
    """Takes the terminal over from the first frame; sleeps while nothing is typed.

    The stock input thread wakes ten times a second, ends the app on a byte that is not UTF-8 and
    spins on a terminal that is gone.
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
        """A signal comes in the middle of anything, the next one in the middle of this: the
        terminal is taken back by the loop, once for all that came before.
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
        keys = KeyParser()
        decode = getincrementaldecoder("utf-8")("replace").decode
        early, self._early = self._early, b""
        self._feed(keys, decode(early))
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = selector.select(MID_SEQUENCE if keys.mid_sequence else None)
                sources = {key.fd for key, _ in ready}
                if self.fileno in sources:
                    data = self._read()
                    if not data:
                        self._lost()
                        return
                    self._feed(keys, decode(data))
                for event in keys.tick():
                    self.process_message(event)

    def _feed(self, keys: KeyParser, text: str) -> None:
        if text:  # of nothing, the parser makes the end of input
            for event in keys.feed(_ALT.sub(_told_apart, text)):
                self.process_message(event)

    def process_message(self, message: Message) -> None:
        if not self.exit_event.is_set():
            super().process_message(message)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, 4096)
        except OSError:  # EIO: the terminal hung up
            return b""

    def _lost(self) -> None:
        for callback in self.hung_up:
            self.call_on_loop(callback)


def _told_apart(match: re.Match[str]) -> str:
    """The same key as the newer keyboard protocol writes it."""
    return f"\x1b[{ord(match.group(1))};3u"


def driver_for(
    frame: FirstFrame | None, hung_up: Callable[[], None] | None = None
) -> type[DuckDriver]:
    """A driver class bound to the frame that holds the terminal."""
    callbacks = () if hung_up is None else (hung_up,)
    return type("BoundDriver", (DuckDriver,), {"frame": frame, "hung_up": callbacks})
