"""The program from outside: started, used and ended as a user does, in a real terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.prepared import is_prepared, run_program
from support.pty import Terminal

from duckflow_tui.manual import read_page
from duckflow_tui.startup_facts import LANGUAGES

REQUEST: Final = "The total is wrong when two discounts apply. Find out why and fix it."
FIXED: Final = Path("src/shop/pricing.py")
DEADLINE: Final = 60.0  # seconds for a run without a screen
GATE_DEAF: Final = 0.3  # seconds that a gate ignores keys after it got the focus
CTRL_C: Final = b"\x03"
MOUSE_PIXELS_OFF: Final = b"\x1b[?1016l"
ALTERNATE_ON: Final = b"\x1b[?1049h"
ALTERNATE_OFF: Final = b"\x1b[?1049l"

#: A line of the diff that goes or comes: its number before or after, its sign, its text.
_CHANGED: Final = re.compile(r"│ +(\d+) +([-+]) (.*?) *│")


@dataclass(frozen=True, slots=True)
class Program:
    """How the program is started, and the empty folder that all of it happens in."""

    command: tuple[str, ...]
    folder: Path

    @property
    def workspace(self) -> Path:
        """Where it is started; nothing may appear there."""
        made = self.folder / "work"
        made.mkdir(exist_ok=True)
        return made

    @property
    def environ(self) -> Mapping[str, str]:
        """Its own home, and its own place for temporary files."""
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        return {"DUCKFLOW_HOME": str(self.folder / "home"), "TMPDIR": str(temporary)}

    def projects(self) -> list[Path]:
        """The demo's projects that lie on the disk now."""
        return sorted((self.folder / "temporary").glob("duckflow-demo-*/little-shop"))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A run without a terminal. An interpreter is started only for the installed program: how
        that of this tree starts is seen in the terminal.
        """
        if is_prepared(self.command):
            return run_program(arguments, cwd=self.workspace, environ=dict(self.environ))
        return subprocess.run(
            [*self.command, *arguments],
            cwd=self.workspace,
            env={**os.environ, **self.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )


def prints_its_manual(program: Program) -> None:
    """The manual of each language comes with the program."""
    for language in LANGUAGES:
        done = program.run("help", "settings", "--lang", language)
        assert (done.returncode, done.stdout) == (0, read_page("settings", language)), done


def says_its_version(program: Program, version: str) -> None:
    """``--version`` prints name and version."""
    done = program.run("--version")
    assert (done.returncode, done.stdout) == (0, f"duckflow-tui {version}\n"), done


def changes_a_file_when_trusted(program: Program) -> None:
    """The demo without a screen, in a mode that edits without asking."""
    done, records = _headless_demo(program, "trusted")
    end = records[-1]
    assert (end["kind"], end["outcome"], done.returncode) == ("turn_finished", "done", 0), end
    [project] = program.projects()
    assert str(FIXED) in end["files_changed"]
    assert (project / FIXED).read_bytes() != _original(FIXED)


def changes_nothing_when_planning(program: Program) -> None:
    """The same in a mode that edits nothing: what was refused shows in the exit status."""
    before = program.projects()
    done, records = _headless_demo(program, "plan")
    end = records[-1]
    assert (end["kind"], end["files_changed"], done.returncode) == ("turn_finished", [], 3), end
    assert program.projects() == before  # a project in which nothing changed is taken away


def approves_an_edit_with_keys(program: Program) -> None:
    """Type the request, see the gate, approve: the file holds what the diff showed."""
    known = program.projects()
    with Terminal(
        [*program.command, "--demo"],
        cwd=program.workspace,
        environ=program.environ,
        prepared=False,
    ) as terminal:
        terminal.sees("Message")
        terminal.type(REQUEST)  # at the first frame: what is typed from then on is not lost
        terminal.sees("fix it.")
        terminal.type("\r")
        terminal.sees("Enter to decide", "return price")
        [project] = [path for path in program.projects() if path not in known]
        before = (project / FIXED).read_bytes()
        shown = applied(before.decode(), terminal.lines).encode()
        terminal.type("\r")
        terminal.sees("Esc back")
        terminal.listen(GATE_DEAF + 0.1)
        assert (project / FIXED).read_bytes() == before
        terminal.type("y")
        terminal.sees("Done: 2 of 2", "/undo takes the edit back.")
        assert (project / FIXED).read_bytes() == shown != before
        _quits(terminal)
    assert not list(program.workspace.iterdir())


def applied(text: str, screen: Sequence[str]) -> str:
    """The text after the change that the diff on the screen shows."""
    lines = text.splitlines(keepends=True)
    rows = [match for line in screen if (match := _CHANGED.search(line))]
    gone = {int(row[1]) - 1: row[3] for row in rows if row[2] == "-"}
    assert rows
    assert all(lines[number].rstrip("\n") == shown for number, shown in gone.items())
    kept = [line for number, line in enumerate(lines) if number not in gone]
    for row in rows:
        if row[2] == "+":
            kept.insert(int(row[1]) - 1, row[3] + "\n")
    return "".join(kept)


def _quits(terminal: Terminal) -> None:
    """Ctrl+C twice: it ends by itself and leaves the terminal as it found it."""
    terminal.type(CTRL_C)
    terminal.sees("Ctrl+C")
    terminal.type(CTRL_C)
    assert terminal.wait() == 0
    output = bytes(terminal.output)
    assert output.rfind(ALTERNATE_OFF) > output.rfind(ALTERNATE_ON) >= 0
    assert output.rfind(MOUSE_PIXELS_OFF) > 0
    assert terminal.modes == terminal.modes_before


def _headless_demo(
    program: Program, mode: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    done = program.run("--demo", "-p", "--json", "--mode", mode)
    assert done.stdout, done.stderr
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def _original(path: Path) -> bytes:
    from duckflow_tui.scripted import stage

    return (Path(stage.__file__).with_name("workspace") / "little-shop" / path).read_bytes()
