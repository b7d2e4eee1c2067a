"""The user's own commands: ``!`` without a terminal, ``!!`` with the one that the screen has."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.pty import Terminal, process_state
from support.serving import served
from support.session import done, script

#: Draws as an editor does, and waits for a key that never comes.
DRAWS = r"printf '\033[?1049h\033[24;1H~'; echo $$ > drawing; exec sleep 100"


@contextmanager
def program(tmp_path: Path, *flags: str, **environ: str) -> Generator[Terminal]:
    """The program in ``tmp_path/work`` with a model that answers once."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    with served(script(done("Hello."))) as server:
        address = ("--base-url", server.endpoint.base_url, "--model", "m", *flags)
        command = [sys.executable, "-m", "duckflow_tui", *address]
        places = {"DUCKFLOW_HOME": str(tmp_path / "home"), **environ}
        with Terminal(command, cwd=work, environ=places) as terminal:
            terminal.until(lambda: " @ " in terminal.text, "the composer")
            yield terminal


def test_two_marks_give_the_command_the_terminal_and_the_chat_says_how_it_ended(
    tmp_path: Path,
) -> None:
    with program(tmp_path) as terminal:
        terminal.type("!!read -p 'na''me? ' name; test -t 1 && echo hello $name; exit 3")
        terminal.sees("!! in the terminal")
        terminal.type("\r")
        terminal.sees("name? ")
        assert terminal.modes == terminal.modes_before
        terminal.type("duck\n")
        terminal.sees("hello duck", "exit status 3 · Enter returns")
        terminal.type("\n")
        terminal.sees("exit 3", "Message")
        assert "hello duck" not in terminal.text
        terminal.type("next")
        terminal.sees("next")
        terminal.type(b"\x03\x1b[99;5u\x03")
        assert terminal.wait() == 0
        assert terminal.modes == terminal.modes_before


def test_ctrl_c_and_ctrl_z_are_the_commands_own(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        terminal.type("!!echo be''gun; sleep 100\r")
        terminal.sees("begun")
        terminal.type(b"\x1a")
        terminal.until(lambda: process_state(terminal.pid) == "T", "the stop, for the shell")
        os.killpg(os.getpgid(terminal.pid), signal.SIGCONT)
        terminal.until(lambda: process_state(terminal.pid) != "T", "the way back")
        terminal.type(b"\x03")
        terminal.sees("exit status 130")
        terminal.type("\n")
        terminal.sees("Message")


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_command_that_draws_is_ended_and_told_the_way_that_works(
    language: str, tmp_path: Path
) -> None:
    with program(tmp_path, "--lang", language, GIT_EDITOR=DRAWS) as terminal:
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run([*git, "init", "-q"], cwd=tmp_path / "work", check=True)
        terminal.type("!git -c user.name=a -c user.email=a@b commit --allow-empty\r")
        terminal.until(lambda: "!!git" in terminal.text.replace("\n", ""), "the way that works")
        assert "␛" not in terminal.text
        drawing = int((tmp_path / "work" / "drawing").read_text())
        terminal.until(lambda: not Path(f"/proc/{drawing}").exists(), "the end of the editor")
        terminal.type("next")
        terminal.sees("next")


@pytest.mark.skipif(shutil.which("vim") is None, reason="there is no vim here")
def test_an_editor_without_a_terminal_fills_the_chat_with_nothing(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        terminal.type("!vim x\r")
        terminal.sees("!!vim x gives it the terminal")
        assert "␛" not in terminal.text
        assert "~" not in terminal.text


def test_what_is_printed_with_escapes_is_shown_without(tmp_path: Path) -> None:
    """A file of a screen is printed too, and is no program that draws."""
    with program(tmp_path) as terminal:
        terminal.type(
            r"!printf '\033[31mred \033[2;1Hthere\033[0m\n\033'; sleep 0.2; printf '[1mbold'"
        )
        terminal.type("\r")
        terminal.sees("red there", "exit 0")
        assert "␛" not in terminal.text
        assert "[1m" not in terminal.text.split("exit 0")[1]
