"""The first paint: the four panes in plain escape codes, before anything else is imported.

From here on the terminal is raw and does not echo. Typed text is shown in the frame's composer and
kept; Textual's driver, which sets the same modes without flushing input, takes over.
"""

from __future__ import annotations

import os
import sys
import unicodedata

from duckflow_tui.ui.layout import MAIN, ROOMY, chat_width
from duckflow_tui.ui.palette import palette_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Any, Final

    from duckflow_tui.ui.early_keys import EarlyKeys
    from duckflow_tui.ui.palette import Palette

ENTER: Final = "\x1b[?1049h\x1b[?2004h\x1b[?7l\x1b[?25l"
LEAVE: Final = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[0m\x1b[?1049l"

_STRINGS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "words")


class FirstFrame:
    """A terminal that was taken over, with its former modes to restore."""

    def __init__(self, fd: int, modes: list[Any]) -> None:
        self.fd = fd
        self.modes = modes  # of termios.tcgetattr before the frame
        self.taken = True
        self._keys: EarlyKeys | None = None
        self._handlers: dict[int, Any] = {}

    def listen(self, show: Callable[[str], bool]) -> None:
        """Start reading typed text; ``show`` draws it and returns False where it does not fit."""
        from duckflow_tui.ui.early_keys import EarlyKeys

        self._keys = EarlyKeys(self.fd, show)

    def take_keys(self) -> bytes:
        """Stop reading and return the bytes typed so far, because the app reads from here on."""
        return b"" if self._keys is None else self._keys.take_keys()

    def answer_signals(self) -> None:
        """Restore the terminal before a signal ends the process, until ``hand_over``."""
        import signal

        def end(number: int, _frame: FrameType | None) -> None:
            self.restore()
            os._exit(128 + number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, end)

    def hand_over(self) -> dict[int, Any]:
        """Stop handling signals and return the handlers that were set before."""
        before, self._handlers = self._handlers, {}
        return before

    def restore(self) -> None:
        """Leave the alternate screen and restore the modes; a second call does nothing."""
        if not self.taken:
            return
        import signal

        self.taken = False
        self.take_keys()  # nobody is there to have them, and nothing may be drawn any more
        for number, handler in self.hand_over().items():
            signal.signal(number, handler)
        _write(LEAVE)
        self.restore_modes()

    def restore_modes(self) -> None:
        """Restore the line discipline without drawing; a lost terminal is ignored."""
        import termios

        try:
            termios.tcsetattr(self.fd, termios.TCSANOW, self.modes)
        except termios.error:
            return


def enter(
    lang: str,
    title: str,
    *,
    theme: str = "duck-dark",
    demo: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> FirstFrame | None:
    """Take the terminal over and draw the frame; None where there is no terminal to draw on.

    ``title`` is the name of the workspace folder and may contain anything; ``demo`` shows that
    replies are scripted.
    """
    if environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return None
    try:
        import termios
    except ImportError:  # Windows: Textual's own driver does all of it there
        return None
    if sys.__stdin__ is None or sys.__stderr__ is None:
        return None
    fd = sys.__stdin__.fileno()
    if not (os.isatty(fd) and os.isatty(sys.__stderr__.fileno())):
        return None
    try:
        modes = termios.tcgetattr(fd)
        width, height = os.get_terminal_size(sys.__stderr__.fileno())
    except (termios.error, OSError):
        return None
    frame = FirstFrame(fd, modes)
    frame.answer_signals()  # before anything is changed that a signal must change back
    try:
        _go_raw(fd)
    except termios.error:
        frame.restore()
        return None
    depth, palette = colour_depth(environ), palette_named(theme)
    _write(ENTER + drawing(width, height, lang, title, palette, depth, demo=demo))

    def show(text: str) -> bool:
        drawn = render_typed_text(text, width, height, lang, palette, depth)
        if drawn is not None:
            _write(drawn)
        return drawn is not None

    frame.listen(show)
    return frame


def colour_depth(environ: Mapping[str, str]) -> int:
    """Return the bits of colour that the terminal supports: 24, 8, or 0 for none."""
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR"):
        return 0
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return 24
    return 8 if "256color" in term or "kitty" in term else 0


def drawing(
    width: int,
    height: int,
    lang: str,
    title: str,
    palette: Palette,
    depth: int = 24,
    *,
    demo: bool = False,
) -> str:
    """Return the frame as text with escape codes, for any size from 1 × 1 on."""
    canvas = _Canvas(max(width, 1), max(height, 1), palette, depth)
    words = _words(lang)
    canvas.fill(0, 0, canvas.width, canvas.height, palette.background)
    canvas.fill(0, 0, canvas.width, 1, palette.bars)
    canvas.put(1, 0, " duckflow ", palette.on_accent, palette.accent, bold=True)
    at, end = 13, canvas.width - 1
    if demo:
        canvas.put(at, 0, words["demo"], palette.accent, palette.bars, end=end)
        at += _cells(words["demo"]) + 2
    canvas.put(at, 0, _make_harmless(title), palette.text, palette.bars, end=end)
    if canvas.height > 2:
        canvas.fill(0, canvas.height - 1, canvas.width, 1, palette.bars)
    _composer(canvas, words)
    _side(canvas, words)
    return canvas.text()


def render_typed_text(
    text: str, width: int, height: int, lang: str, palette: Palette, depth: int = 24
) -> str | None:
    """Return the composer's line with this text in it; None where it does not fit."""
    canvas = _Canvas(max(width, 1), max(height, 1), palette, depth)
    x, y, end = _line(canvas)
    room = end - x
    if room <= 0 or _cut(text, room - 1) != text:
        return None
    canvas.fill(x, y, room, 1, palette.background)
    if text:
        canvas.put(x, y, text, palette.text, palette.background, end=end)
    else:
        hint = _words(lang)["placeholder"]
        canvas.put(x, y, hint, palette.quiet, palette.background, end=end)
    return canvas.text()


def _line(canvas: _Canvas) -> tuple[int, int, int]:
    """Return where the composer's text is: column of its first cell, row, column after its last
    cell.
    """
    if canvas.height < ROOMY:
        return 1, max(canvas.height - 2, 0), min(canvas.width, MAIN) - 1
    width = min(chat_width(canvas.width, canvas.height), MAIN + 2)
    return 3, canvas.height - 3, width - 3


def _side(canvas: _Canvas, words: dict[str, str]) -> None:
    """Draw the titles of the panes beside the chat, where there is room for the column."""
    palette, left = canvas.palette, chat_width(canvas.width, canvas.height)
    if left == canvas.width:
        return
    for y in range(1, canvas.height - 1):
        canvas.put(left, y, "│", palette.bars, palette.background)
    for name, y in (("vitals", 1), ("plan", 6), ("diff", 7)):
        canvas.fill(left + 1, y, canvas.width - left - 1, 1, palette.raised)
        canvas.put(left + 2, y, words[name], palette.accent, palette.raised, bold=True)
        after = left + 4 + _cells(words[name])
        canvas.put(after, y, words.get(f"no_{name}", ""), palette.quiet, palette.raised)


def _composer(canvas: _Canvas, words: dict[str, str]) -> None:
    """Draw the empty composer with its placeholder."""
    palette = canvas.palette
    width = min(chat_width(canvas.width, canvas.height), MAIN + 2)
    x, y, end = _line(canvas)
    canvas.put(x, y, words["placeholder"], palette.quiet, palette.background, end=end)
    if canvas.height < ROOMY:
        return
    top = y - 1
    line = "─" * max(width - 4, 0)
    canvas.put(1, top, f"╭{line}╮", palette.faint, palette.background)
    canvas.put(1, y, "│", palette.faint, palette.background)
    canvas.put(width - 2, y, "│", palette.faint, palette.background)
    canvas.put(1, top + 2, f"╰{line}╯", palette.faint, palette.background)


class _Canvas:
    """Collects texts at positions of a grid of cells, cut to its size."""

    def __init__(self, width: int, height: int, palette: Palette, depth: int) -> None:
        self.width = width
        self.height = height
        self.palette = palette
        self._depth = depth
        self._parts: list[str] = []

    def fill(self, x: int, y: int, width: int, height: int, colour: str) -> None:
        for row in range(y, min(y + height, self.height)):
            self._parts.append(f"\x1b[{row + 1};{x + 1}H{self._colour(48, colour)}{' ' * width}")

    def put(
        self,
        x: int,
        y: int,
        text: str,
        colour: str,
        behind: str,
        *,
        bold: bool = False,
        end: int | None = None,
    ) -> None:
        """Write text at a cell, cut at the canvas's edge or at column ``end``."""
        room = min(self.width, end if end is not None else self.width) - x
        if room <= 0 or not 0 <= y < self.height:
            return
        weight = "\x1b[1m" if bold else ""
        style = f"\x1b[0m{weight}{self._colour(38, colour)}{self._colour(48, behind)}"
        self._parts.append(f"\x1b[{y + 1};{x + 1}H{style}{_cut(text, room)}")

    def text(self) -> str:
        return "".join((*self._parts, "\x1b[0m"))

    def _colour(self, ground: int, colour: str) -> str:
        """Return the escape sequence of a colour ``#rrggbb`` in the terminal's depth; ``ground`` is
        38 for text, 48 for background.
        """
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        if self._depth == 24:
            return f"\x1b[{ground};2;{red};{green};{blue}m"
        if self._depth == 8:
            cube = [round(channel / 255 * 5) for channel in (red, green, blue)]
            return f"\x1b[{ground};5;{16 + 36 * cube[0] + 6 * cube[1] + cube[2]}m"
        return ""


def _cells(text: str) -> int:
    """The width of a text in cells, without importing Rich."""
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
        if not unicodedata.combining(char)
    )


def _cut(text: str, cells: int) -> str:
    """Return the beginning of a text that fits in so many cells."""
    used = 0
    for at, char in enumerate(text):
        used += _cells(char)
        if used > cells:
            return text[:at]
    return text


def _words(lang: str) -> dict[str, str]:
    """Read the entries of ``panes.toml``, one per line, without tomllib, whose import would cost a
    fifth of the first paint's time.
    """
    folder = lang if lang in ("en", "ja") else "en"
    words: dict[str, str] = {}
    with open(os.path.join(_STRINGS, folder, "panes.toml"), encoding="utf-8") as lines:
        for line in lines:
            name, sign, text = line.strip().partition(" = ")
            if sign:
                words[name] = text.strip('"')
    return words


def _make_harmless(title: str) -> str:
    """Replace the control characters of a title by visible ones."""
    if title.isascii() and title.isprintable():
        return title
    from duckflow_tui.safety.safe_text import visible_line

    return visible_line(title)


def _go_raw(fd: int) -> None:
    """Set the terminal modes that Textual's driver sets, so that nothing changes when it starts."""
    import termios

    modes = termios.tcgetattr(fd)
    modes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
    modes[0] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
    modes[6][termios.VMIN] = 1
    termios.tcsetattr(fd, termios.TCSANOW, modes)


def _write(text: str) -> None:
    stream = sys.__stderr__
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        return
