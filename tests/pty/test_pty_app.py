"""The program in a real terminal: first paint, type-ahead, signals, sizes, hostile names."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from support.pty import Terminal, process_state
from support.strange_input import strange_bytes
from support.whole import rounds

from duckflow_tui.ui.terminal_input import PASTE_SILENCE, SEQUENCE_SILENCE

ENTERED = b"\x1b[?1049h"
LEFT = b"\x1b[?1049l"


@contextmanager
def program(
    tmp_path: Path,
    *arguments: str,
    width: int = 100,
    height: int = 30,
    workspace: str = "shop",
    start: tuple[str, str] = ("-m", "duckflow_tui"),
    prepared: bool = True,
) -> Generator[Terminal]:
    """``duckflow-tui`` in a workspace of its own, with no settings: the first screen. ``prepared``
    off: as an interpreter starts it.
    """
    folder = tmp_path / workspace
    folder.mkdir(exist_ok=True)
    root = str(Path(__file__).parents[2])
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "PYTHONPATH": root}
    command = [sys.executable, *start, "--dir", str(folder), *arguments]
    with Terminal(
        command, cwd=tmp_path, environ=environ, width=width, height=height, prepared=prepared
    ) as terminal:
        yield terminal


def left_as_found(terminal: Terminal) -> None:
    assert terminal.modes == terminal.modes_before
    output = bytes(terminal.output)
    assert output.count(b"\x1b[?1049h") == output.count(LEFT) == 1
    for mode in (b"1000", b"1003", b"1006", b"1016", b"2004", b"1004"):
        last_on = output.rfind(b"\x1b[?" + mode + b"h")
        assert last_on < 0 or output.rfind(b"\x1b[?" + mode + b"l") > last_on, mode
    assert output.rfind(b"\x1b[?25h") > output.rfind(b"\x1b[?25l")
    protocols = {ENTERED: 0, LEFT: 0}  # of the keyboard, pushed on each of the two screens
    screen = LEFT
    for found in re.finditer(rb"\x1b\[(?:\?1049[hl]|(>\d+u)|(<\d*u))", output):
        if not (found[1] or found[2]):
            screen = found[0]
        protocols[screen] += bool(found[1]) - (bool(found[2]) and protocols[ENTERED] > 0)
    assert not any(protocols.values())


def test_type_ahead_arrives_once_and_in_order(tmp_path: Path) -> None:
    text = "the quick brown fox 0123456789"
    with program(tmp_path, prepared=False) as terminal:
        terminal.writes(b"duckflow")
        for character in text:
            terminal.type(character)
            terminal.read(0.02)
        terminal.sees(text)
        terminal.sees("the demo")
        assert terminal.text.count("the quick") == 1
        row = next(line for line in terminal.lines if "the quick" in line)
        assert row.strip("│ ") == text


def test_what_is_typed_at_the_start_is_seen_at_once_and_never_disappears(tmp_path: Path) -> None:
    with program(tmp_path, prepared=False) as terminal:
        terminal.writes(b"duckflow")
        terminal.type("early")
        terminal.sees("early")
        assert b"\x1b[?1003h" not in terminal.output, "the app was there already"
        while "the demo" not in terminal.text:
            terminal.read(0.25)
            assert "early" in terminal.text
        terminal.type(" bird")
        terminal.sees("early bird")
        assert terminal.text.count("early") == 1


def test_the_first_frame_is_not_cleared_before_the_app_draws(tmp_path: Path) -> None:
    with program(tmp_path, prepared=False) as terminal:
        terminal.sees("the demo")
        assert bytes(terminal.output).count(b"\x1b[?1049h") == 1
        assert b"\x1b[2J" not in terminal.output


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
@pytest.mark.parametrize("when", ["first byte", "app"])
def test_a_signal_gives_the_terminal_back(
    tmp_path: Path, number: signal.Signals, status: int, when: str
) -> None:
    with program(tmp_path, prepared=when == "app") as terminal:
        if when == "app":
            terminal.sees("the demo")
        else:
            terminal.writes(ENTERED)
        terminal.signal(number)
        assert terminal.wait() == status
        left_as_found(terminal)


@pytest.mark.parametrize(
    ("change", "call"),
    [("termios.tcsetattr", 1), *(("signal.signal", call) for call in (2, 3, 4, 5, 6))],
)
def test_no_moment_on_the_screen_is_without_a_handler(
    tmp_path: Path, change: str, call: int
) -> None:
    """A signal right behind a change: the terminal made raw, the handlers set one by one."""
    module, name = change.split(".")
    signalled = f"""
import itertools, os, signal, termios
calls, real = itertools.count(1), {change}
def changes(*arguments):
    before = real(*arguments)
    if next(calls) == {call}:
        os.kill(os.getpid(), signal.SIGTERM)
    return before
{module}.{name} = changes
from duckflow_tui.cli import main
raise SystemExit(main())
"""
    with program(tmp_path, start=("-c", signalled)) as terminal:
        assert terminal.wait() == 143
        assert terminal.modes == terminal.modes_before
        assert terminal.output.count(ENTERED) <= terminal.output.count(LEFT) == 1


def test_ctrl_c_twice_leaves_a_clean_terminal(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        terminal.type(b"\x03")
        terminal.sees("Ctrl+C again")
        terminal.type(b"\x03")
        assert terminal.wait() == 0
        left_as_found(terminal)


def test_ctrl_z_gives_the_terminal_to_the_shell_and_the_screen_comes_back(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        terminal.type("draft")
        terminal.sees("draft")
        terminal.type(b"\x1a")
        terminal.writes(LEFT)
        terminal.until(lambda: process_state(terminal.pid) == "T", "the stop")
        assert terminal.modes == terminal.modes_before
        start = len(terminal.output)
        terminal.signal(signal.SIGCONT)
        terminal.writes(b"\x1b[?1049h", start=start)
        terminal.type("ed")
        terminal.sees("drafted", "the demo")
        terminal.drain()
        terminal.screen.reset()  # something else wrote on the terminal
        terminal.type(b"\x0c")
        terminal.sees("drafted", "the demo")


@pytest.mark.parametrize("stop", [signal.SIGTSTP, signal.SIGSTOP])
def test_continued_the_whole_screen_is_drawn_again_without_a_key(
    tmp_path: Path, stop: signal.Signals
) -> None:
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        terminal.type("draft")
        terminal.sees("draft")
        for _ in range(2):
            terminal.signal(stop)
            terminal.until(lambda: process_state(terminal.pid) == "T", "the stop")
            terminal.drain()
            terminal.screen.reset()  # what another program wrote there, or nothing
            terminal.signal(signal.SIGCONT)
            terminal.sees("draft", "the demo")
        terminal.type("ed")
        terminal.sees("drafted")


def test_every_size_draws_and_the_draft_stays(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        terminal.type("draft")
        terminal.sees("draft")
        for width, height in ((20, 5), (1, 1), (300, 100), (2, 40), (100, 30)):
            start = len(terminal.output)
            terminal.resize(width, height)
            terminal.until(lambda start=start: len(terminal.output) > start, f"{width}×{height}")
        terminal.type("ed")
        terminal.sees("drafted")


def test_a_hostile_folder_name_is_shown_and_does_nothing(tmp_path: Path) -> None:
    """Covers R13: neither the frame, nor the screen, nor the title sends what a name holds."""
    name = "evil\x1b]52;c;ZXZpbA==\x07\x9b31m\u202etxt\x1b[2J"
    with program(tmp_path, workspace=name) as terminal:
        terminal.sees("the demo")
        terminal.drain()
        output = bytes(terminal.output)
        assert b"\x1b]52" not in output
        assert b"\x1b[2J" not in output
        pointers = re.compile(rb"\x1b\]22;[a-z-]+\x07")  # Textual's own: the pointer's shape
        assert b"\x07" not in pointers.sub(b"", output)
        assert "\u202e".encode() not in output
        assert "\x9b".encode() not in output
        terminal.sees("evil␛]52")


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (b"a\x1b[98;1:1uc", "abc"),
        (b"a\x1b[98;1:3uc", "ac"),
        (b"one\x1b[27;2;13~two", "one↵two"),
        (b"a\x1b[?62;22c\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\\x1bP>|kitty(0.40)\x1b\\b", "ab"),
        ((b"a\x1b[<35;1", 0.3, b"0;5Mb"), "ab"),
        ((b"a\x1b]11;rgb:1e1e", 0.3, b"/1e1e/2e2e\x07b"), "ab"),
        ((b"\x1b[200~hello", 0.3, b" world\x1b[2", 0.3, b"01~!"), "hello world!"),
        (b"a\x1b[200~\x1b[27;2;13~\x1b[201~b", "a␛[27;2;13~b"),
        (b"draft\x1b[1089::99;5:1unext", "next"),
    ],
    ids=[
        *("pressed", "released", "xterm's Shift+Enter", "replies"),
        *("cut mouse", "cut reply", "cut paste", "key in a paste", "Ctrl+C on a Cyrillic layout"),
    ],
)
def test_what_terminals_send_is_what_it_means(
    tmp_path: Path, sent: bytes | tuple[bytes | float, ...], shown: str
) -> None:
    """Keys of every protocol, replies and pastes, cut or not: no more and no less is written."""
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        for piece in (sent,) if isinstance(sent, bytes) else sent:
            if isinstance(piece, bytes):
                terminal.type(piece)
            else:
                terminal.listen(piece)
        terminal.until(lambda: _written(terminal) == shown, shown)


def test_the_rest_of_a_paste_is_waited_for_and_its_want_is_told(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        terminal.type(b"\x1b[200~hello")
        terminal.sees("the end of the paste")
        assert _written(terminal) == "hello"
        terminal.type(b"!")
        terminal.until(lambda: _written(terminal) == "hello!", "the key behind it")


@pytest.mark.parametrize("seed", range(rounds(4, 1)))
def test_strange_bytes_end_nothing_and_the_next_keys_are_heard(seed: int, tmp_path: Path) -> None:
    """Through all that acts on them. Left out are keys that end it or open another program, and
    sizes, each of which draws the whole screen.
    """
    luck, leave = random.Random(seed), re.compile(rb"[\x00-\x1a\x1c-\x1f]|\x1b\[48;")
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        for _ in range(3):
            terminal.type(leave.sub(b"", b"".join(strange_bytes(luck) for _ in range(100))))
            terminal.listen(0.1)
        terminal.listen(PASTE_SILENCE + SEQUENCE_SILENCE + 0.2)
        terminal.type(b"\x1b[27u\x1b[27u\x1b[99;5u")  # whatever page was opened, and the draft
        terminal.type(b"\x1b[200~ok, all is well\x1b[201~")
        terminal.sees("ok, all is well")
        assert not terminal.ended


def _written(terminal: Terminal) -> str:
    """What stands in the composer, its rows joined by arrows."""
    rows = [row.strip() for row in terminal.lines]
    top = max((at for at, row in enumerate(rows) if row.startswith("╭─")), default=0)
    inside = [row.strip("│ ") for row in rows[top + 1 :] if row.startswith("│")]
    return "↵".join(row for row in inside if row)


def test_bytes_that_are_no_text_end_nothing(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        terminal.type(b"a\xff\xfeb")
        terminal.type("c")
        terminal.until(lambda: "bc" in terminal.text, "what came behind")


@pytest.mark.parametrize("sequence", [b"\x1b\r", b"\n"], ids=["Alt+Enter", "Ctrl+J"])
def test_new_lines_from_plain_terminals(tmp_path: Path, sequence: bytes) -> None:
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        terminal.type(b"one" + sequence + b"two")
        terminal.until(
            lambda: any("│ one" in a and "│ two" in b for a, b in _pairs(terminal.lines)),
            "two lines",
        )


def test_alt_and_a_digit_from_a_plain_terminal_shows_a_pane(tmp_path: Path) -> None:
    with program(tmp_path, width=60, height=20) as terminal:
        terminal.sees("the demo")
        terminal.type(b"\x1b4")
        terminal.sees("neutral")
        assert "¢" not in terminal.text


def test_the_terminals_cursor_is_where_the_next_letter_comes(tmp_path: Path) -> None:
    """There an input method opens its window: before the first key, after a long draft was put
    away, and in a field that opens, too.
    """
    with program(tmp_path, "--base-url", "http://127.0.0.1:9/v1", "--model", "m") as terminal:

        def at(text: str, behind: int = 0) -> None:
            """The cursor is at the beginning of the text, or so many cells behind it."""

            def there() -> bool:
                rows = (y for y, line in enumerate(terminal.lines) if text in line)
                y = next(rows, None)
                cursor = terminal.screen.cursor
                if y is None:
                    return False
                return (cursor.x, cursor.y) == (terminal.lines[y].index(text) + behind, y)

            terminal.until(there, f"the cursor at {text!r}")

        at("Message   @ file")
        terminal.type("hello\nto all\nof you")
        at("of you", behind=6)
        terminal.type("\x03")
        at("Message   @ file")
        terminal.type("\x06")
        at("in the chat or the diff")
        terminal.type("needle")
        at("needle", behind=6)
        terminal.type("\x1b[D")
        at("needle", behind=5)


def test_idle_writes_nothing(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        terminal.sees("the demo")
        while terminal.read(1.0):
            pass
        start = len(terminal.output)
        assert terminal.read(2.0) == b""
        assert len(terminal.output) == start


class Editing:
    """A program with a draft that Ctrl+G hands to an editor."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._set = monkeypatch
        monkeypatch.delenv("VISUAL", raising=False)

    def write_editor(self, text: str) -> str:
        """The command of an editor that does what a Python script says."""
        script = self.folder / "editor.py"
        script.write_text(text)
        return f"{sys.executable} {script}"

    @contextmanager
    def begin(self, command: str, width: int = 120) -> Generator[Terminal]:
        """The terminal once the draft was typed and the editor called."""
        self._set.setenv("EDITOR", command)
        with program(self.folder, width=width) as terminal:
            terminal.sees("the demo")
            terminal.type("typed")
            terminal.sees("typed")
            terminal.type(b"\x07")
            yield terminal


@pytest.fixture
def editing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editing:
    return Editing(tmp_path, monkeypatch)


def test_the_editor_gets_the_terminal_and_gives_the_text_back(editing: Editing) -> None:
    command = editing.write_editor(
        "import sys, termios\n"
        "assert termios.tcgetattr(0)[3] & termios.ICANON\n"
        "text = open(sys.argv[1]).read()\n"
        "open(sys.argv[1], 'w').write(text + ' and edited\\n')\n"
    )
    with editing.begin(command) as terminal:
        terminal.sees("typed and edited")
        terminal.type("!")
        terminal.sees("typed and edited!")


@pytest.mark.parametrize("command", ["/nowhere/editor", "'", " "])
def test_an_editor_that_cannot_start_leaves_the_screen_and_the_draft(
    editing: Editing, command: str
) -> None:
    with editing.begin(command) as terminal:
        terminal.sees("could not be started", "typed")
        terminal.type("!")
        terminal.sees("typed!")


@pytest.mark.parametrize("command", ["vi", "{folder}/bin/vi -n", "{outside}/link"])
def test_an_editor_in_the_folder_that_is_worked_in_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editing: Editing, command: str
) -> None:
    """The AI can write there; such a program is refused by its name, its path and a link."""
    folder, outside = tmp_path / "shop", tmp_path / "outside"
    outside.mkdir()
    (outside / "link").symlink_to(folder / "bin" / "vi")
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    editor = folder / "bin" / "vi"
    editor.parent.mkdir(parents=True)
    editor.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    editor.chmod(0o755)
    with editing.begin(command.format(folder=folder, outside=outside), 160) as terminal:
        terminal.sees("was not started: it is inside")
        terminal.type("!")
        terminal.sees("typed!")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("end", ["sys.exit(1)", "os.remove(sys.argv[1])"])
def test_an_editor_that_fails_leaves_the_draft(editing: Editing, end: str) -> None:
    command = editing.write_editor(f"import os, sys\nprint('at it', flush=True)\n{end}\n")
    with editing.begin(command) as terminal:
        terminal.writes(b"at it")
        terminal.type("!")
        terminal.sees("typed!")


def test_ctrl_c_in_the_editor_is_the_editors(editing: Editing) -> None:
    command = editing.write_editor(
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n"
        "    print('editing', flush=True)\n"
        "    signal.pause()\n"
        "except KeyboardInterrupt:\n"
        "    open(sys.argv[1], 'a').write(' interrupted')\n"
    )
    with editing.begin(command) as terminal:
        terminal.writes(b"editing")
        terminal.type(b"\x03")
        terminal.sees("typed interrupted")
        terminal.type("!")
        terminal.sees("typed interrupted!")


def _pairs(lines: list[str]) -> list[tuple[str, str]]:
    return list(pairwise(lines))
