"""The terminal besides the screen: restore, signals, title, bell, notifications, clipboard. All
text passes the same filter as the screen's (R13).
"""

from __future__ import annotations

import base64
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.base import one_line
from duckflow_tui.state.conversation import Message, UserMessage
from duckflow_tui.state.gates import CardKind
from duckflow_tui.state.goal import ENDED_WELL
from duckflow_tui.ui.panes.operation_blocks import call_words

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.ui.app import DuckflowApp
    from duckflow_tui.ui.first_frame import FirstFrame

#: Every mode that Textual or the first frame may have left on; harmless where it is off.
RESET: Final = (
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?2004l\x1b[?1004l\x1b[?2048l"
    "\x1b]22;default\x1b\\\x1b[?7h\x1b[?25h\x1b[0m\x1b[23;2t"
)
SAVE_TITLE: Final = "\x1b[22;2t"
LEAVE_ALTERNATE: Final = "\x1b[<u\x1b[?1049l"
GRACE: Final = 2.5  # seconds the app gets to end by itself after a signal; the promise is 3
MAX_CLIPBOARD: Final = 74_994  # bytes; what common terminals take in one OSC 52
MAX_TITLE: Final = 120  # characters
MAX_NOTE: Final = 200
_REQUEST: Final = 80  # characters of a request that a notification repeats


class TerminalGuard:
    """Restores the terminal however the program ends: normally, by an error, or by a signal."""

    def __init__(self, frame: FirstFrame | None) -> None:
        self._frame = frame
        self._restored = False
        self._lent = False
        self._previous: dict[int, Any] = {}
        self.exit_status: int | None = None  # 128 + signal once one came

    def watch_signals(self, end: Callable[[int], None]) -> None:
        """On SIGINT, SIGTERM and SIGHUP call ``end(exit_status)``; force the end after ``GRACE``
        seconds.

        In raw mode Ctrl+C is a key, so a SIGINT comes from outside.
        """

        def arrived(number: int, _frame: FrameType | None) -> None:
            if self.exit_status is not None or (number == signal.SIGINT and self._lent):
                return
            self.exit_status = 128 + number
            timer = threading.Timer(GRACE, self._force)
            timer.daemon = True
            timer.start()
            end(self.exit_status)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._previous[number] = signal.signal(number, arrived)
        if self._frame is not None:
            self._previous |= self._frame.hand_over()

    @contextmanager
    def lent(self) -> Generator[None, None, None]:
        """Inside the block, leave Ctrl+C to the other program that has the terminal."""
        self._lent = True
        try:
            yield
        finally:
            self._lent = False

    def restore(self) -> None:
        """Reset every mode and the line discipline; a second call does nothing."""
        if self._restored:
            return
        self._restored = True
        for number, handler in self._previous.items():
            if threading.current_thread() is threading.main_thread():
                signal.signal(number, handler)
        frame = self._frame
        inside = frame is not None and frame.taken
        _raw_write((LEAVE_ALTERNATE if inside else "") + RESET)
        if frame is not None:
            frame.taken = False
            frame.restore_modes()

    def _force(self) -> None:
        """Restore the terminal and end the process at once."""
        self.restore()
        os._exit(self.exit_status or 1)


#: Cards that ask for an approval; the others ask for an answer.
_APPROVALS: Final = (CardKind.PLAN, CardKind.PLAN_CHANGE, CardKind.PLAN_END)


class Terminal:
    """The app's messages to its terminal: title, notifications, clipboard."""

    def __init__(self, app: DuckflowApp) -> None:
        self._app = app
        self._seen: frozenset[str] = frozenset()  # ids of gates and cards
        self._worked = ""  # id of the turn that ran when it was looked last
        self.copied = ""  # last, whether the terminal took it or not

    def begin(self) -> None:
        """Save the terminal's title and set the app's own."""
        self._app.write_to_terminal(SAVE_TITLE)
        self._set_title("")

    def copy(self, text: str) -> None:
        """Send text to the terminal's clipboard and show a notice; whether it was accepted cannot
        be known.
        """
        self.copied = text
        sequence = clipboard_sequence(text)
        if sequence is None:
            self._app.status.show_notice("shell.too_long_to_copy", count=len(text))
            return
        self._app.write_to_terminal(sequence)
        self._app.status.show_notice("shell.copied", count=len(text))

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        return state.gates, state.cards, state.turn is None, self._find_work(state)

    def show(self, state: AgentState) -> None:
        """Show in the title that the user is asked; notify a user who looks elsewhere, also when
        work ended.
        """
        words = self._app.words
        names = {gate.gate_id: call_words(gate.operation, gate.args, words) for gate in state.gates}
        asked = {card.card_id for card in state.cards if card.kind not in _APPROVALS}
        names |= {card.card_id: words(f"card.kind.{card.kind}") for card in state.cards}
        new = [question for question in names if question not in self._seen]
        self._seen = frozenset(names)
        waits = "shell.title_waiting" if names.keys() - asked else "shell.title_asked"
        self._set_title(waits if names else "")
        worked, self._worked = self._worked, state.turn.turn_id if state.turn is not None else ""
        last = state.last_turn
        if new:
            key = "consult.asks_you" if new[-1] in asked else "shell.needs_you"
            self._call(words(key, operation=names[new[-1]]))
        elif worked and state.turn is None and last is not None and last.turn_id == worked:
            asked_for = next((m for m in reversed(state.messages) if _is_request(m)), None)
            key = "shell.work_done" if last.outcome in ENDED_WELL else "shell.work_ended"
            said = asked_for.text if isinstance(asked_for, UserMessage) else ""
            self._call(words(key, what=one_line(said, _REQUEST)))

    def _call(self, body: str) -> None:
        """Notify the user, unless they look at the terminal or turned notifications off."""
        app = self._app
        if not app.app_focus and app.options.notifications:
            app.bell()
            app.write_to_terminal(notification_sequence("duckflow", body, os.environ))

    @staticmethod
    def _find_work(state: AgentState) -> str:
        """The session's name or first request: words of the user, since no text of a model goes
        into a control sequence (R13).
        """
        return one_line(state.session.name or state.first_request, _REQUEST)

    def _set_title(self, waits: str) -> None:
        store = self._app.session.store
        name, work = self._app.options.title, ""
        if store is not None:
            name, work = store.state.session.title, self._find_work(store.state)
        mark = f"{self._app.words(waits)} " if waits else ""
        said = f"{mark}duckflow {name}".strip()
        self._app.write_to_terminal(title_sequence(f"{said} · {work}" if work else said))


def _is_request(message: Message) -> bool:
    return isinstance(message, UserMessage) and not message.aside


def title_sequence(title: str) -> str:
    """Return the escape sequence (OSC 2) that sets a title, made harmless."""
    return f"\x1b]2;{visible_line(title)[:MAX_TITLE]}\x1b\\"


def notification_sequence(title: str, body: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the desktop notification that this terminal supports: OSC 777, else OSC 9."""
    body = visible_line(body)[:MAX_NOTE]
    title = visible_line(title)[:MAX_TITLE].replace(";", ",")
    if environ.get("VTE_VERSION") or environ.get("TERM", "").startswith(("foot", "rxvt")):
        return _through_tmux(f"\x1b]777;notify;{title};{body}\x1b\\", environ)
    return _through_tmux(f"\x1b]9;{title}: {body}\x1b\\", environ)


def clipboard_sequence(text: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the escape sequence (OSC 52) that copies a text; None where it exceeds what terminals
    accept.
    """
    data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if len(data) > MAX_CLIPBOARD:
        return None
    sequence = f"\x1b]52;c;{data}\x1b\\"
    # tmux takes the plain one with set-clipboard on and hands the wrapped one to the terminal.
    return sequence + _through_tmux(sequence, environ) if environ.get("TMUX") else sequence


def _through_tmux(sequence: str, environ: Mapping[str, str]) -> str:
    """Wrap an escape sequence so that tmux passes it on; outside tmux it is returned unchanged."""
    if not environ.get("TMUX"):
        return sequence
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _raw_write(text: str) -> None:
    stream = sys.__stderr__
    if stream is None:
        return
    try:
        if stream.isatty():
            os.write(stream.fileno(), text.encode("ascii"))
    except OSError:  # the terminal is gone
        return
