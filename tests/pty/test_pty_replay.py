"""``replay`` in a terminal: by an id and by a file, left as it was found, nothing written."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from support.journal_disks import content, drive, put
from support.journal_events import started, turn
from support.pty import Terminal

from duckflow_tui.session.export import json_lines, write_file
from duckflow_tui.session.folders import session_path

ID = "session_0123abcd"
DEAF = 0.4  # seconds; a page ignores letters for 0.3 s after it opened


def replay(home: Path, *arguments: str) -> Terminal:
    """The program with its own files in ``home``."""
    command = [sys.executable, "-m", "duckflow_tui", "replay", *arguments]
    environ = {"DUCKFLOW_HOME": str(home), "LANG": "C.UTF-8"}
    return Terminal(command, cwd=home, environ=environ)


@pytest.fixture
async def kept(tmp_path: Path) -> Path:
    """A home with one session; its folder."""
    state = tmp_path / "state"
    driven = drive(state / "sessions" / ("0" * 16) / ID)
    await driven.commit(started(ID), *turn(1))
    await driven.journal.close()
    return driven.path


def journals(home: Path) -> dict[str, bytes]:
    """The files below a folder with their contents, but for the lists' own index."""
    files = (path for path in home.rglob("*") if path.is_file() and path.name != "index.json")
    return {str(path): content(path) for path in files}


@pytest.mark.parametrize("what", ["id", "beginning", "file"])
def test_a_session_is_shown_and_q_gives_the_terminal_back(
    tmp_path: Path, kept: Path, what: str
) -> None:
    exported = tmp_path / "kept.json"
    write_file(exported, json_lines(kept, str))
    before = journals(tmp_path)
    given = {"id": ID, "beginning": "0123", "file": str(exported)}[what]
    with replay(tmp_path, given, "--speed", "16x") as terminal:
        terminal.sees("replay")
        terminal.sees("25/25")
        terminal.sees("please go on")
        terminal.type("q")
        assert terminal.wait() == 0
        assert terminal.modes == terminal.modes_before
        output = bytes(terminal.output)
        for mode in (b"1049", b"1003", b"1006", b"1016", b"2004"):
            on, off = (output.rfind(b"\x1b[?" + mode + end) for end in (b"h", b"l"))
            assert on < 0 or off > on, mode
        assert output.rfind(b"\x1b[?25h") > output.rfind(b"\x1b[?25l")
    assert journals(tmp_path) == before


def test_the_settings_are_shown_in_a_replay_too(tmp_path: Path, kept: Path) -> None:
    with replay(tmp_path, ID) as terminal:
        terminal.sees("25/25")
        terminal.type("\x10")
        terminal.sees("type to filter")
        terminal.type("settings")
        terminal.sees("/settings")
        terminal.type("\r")
        terminal.sees("a flag over both")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("notes.md", "is not a session"),
        ("empty.json", "empty"),
        ("nowhere.json", "no session and no file"),
        ("./nowhere.json", "There is no session"),
        ("ffff", "no session and no file"),
    ],
)
def test_what_is_no_session_is_said_and_nothing_is_drawn_or_written(
    tmp_path: Path, kept: Path, given: str, says: str
) -> None:
    put(tmp_path / "notes.md", b"# notes\n")
    put(tmp_path / "empty.json", b"")
    before = journals(tmp_path)
    with replay(tmp_path, given) as terminal:
        terminal.sees(says)
        assert terminal.wait() == 2
        assert b"\x1b[?1049h" not in terminal.output
    assert kept.is_dir()
    assert journals(tmp_path) == before


async def test_from_the_list_of_a_running_app_it_comes_and_goes(tmp_path: Path) -> None:
    """The app behind it has its screen again, and the terminal is left as it was found. A module
    in the folder that is named like ours is not run.
    """
    work = tmp_path / "work"
    work.mkdir()
    driven = drive(session_path(tmp_path / "state", work, ID))
    await driven.commit(started(ID), *turn(1))
    await driven.journal.close()
    environ = {"DUCKFLOW_HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "duckflow_tui"]
    with Terminal(command, cwd=work, environ=environ) as terminal:
        terminal.sees("Message")
        module = work / "duckflow_tui"
        module.mkdir()
        put(module / "__init__.py", b"")
        put(module / "__main__.py", f"open({str(tmp_path / 'run')!r}, 'w')".encode())
        terminal.type("/sessions\r")
        terminal.sees("replay", "please go on")
        terminal.listen(DEAF)
        terminal.type(".")
        terminal.sees("type to filter")
        terminal.type("replay\r")
        terminal.sees("replay", "/25")
        terminal.type("q")
        terminal.until(lambda: "replay" in terminal.text and "/25" not in terminal.text, "the list")
        assert not (tmp_path / "run").exists()
        terminal.type("\x1b")
        terminal.sees("Message")
        terminal.signal(signal.SIGTERM)
        assert terminal.wait() == 128 + signal.SIGTERM
        assert terminal.modes == terminal.modes_before
