"""How many keys a day's loop costs with a sandbox: edit, test, edit, test, git status, git diff."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.pty import Terminal
from support.serving import served
from support.session import action, decision, done, script
from support.shell import no_full_sandbox

from duckflow_tui.scripted.replies import Reply

GATE_DEAF = 0.4  # seconds; a gate ignores keys for 0.3 s after the user went to it
TESTS = "python3 -m unittest -q 2>&1 | tail -5"
TEST = """\
import unittest
from total import total

class Totals(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([2, 3]), {expected})
"""


def edit(old: str, new: str) -> dict[str, Any]:
    return action("file_ops.edit_file", path="total.py", edits=[{"old": old, "new": new}])


def shell(command: str) -> dict[str, Any]:
    return action("shell.run", command=command)


LOOP = (
    (edit("return 0", "return len(items)"), shell(TESTS)),
    (edit("return len(items)", "return sum(items)"), shell(TESTS)),
    (shell("git status --short"), shell("git --no-pager diff --stat")),
)


def project(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "total.py").write_text("def total(items):\n    return 0\n")
    (work / "test_total.py").write_text(TEST.format(expected=5))
    for line in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -q -m begin"):
        subprocess.run(["git", *line.split()], cwd=work, check=True, capture_output=True)
    return work


def replies(*, together: bool) -> tuple[Reply, ...]:
    """Two calls in a reply, or one."""
    asked = LOOP if together else tuple((call,) for pair in LOOP for call in pair)
    return (*(decision("Next.", *calls) for calls in asked), done("It adds up now."))


class Keys:
    """Answers gates and counts the keys that it takes."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.pressed = 0

    def press(self, key: str) -> None:
        self.terminal.type(key)
        self.pressed += 1

    def allow(self, title: str, key: str) -> None:
        """Enter goes to the gate, unless it has the focus of the one before in the same reply."""
        terminal = self.terminal
        terminal.until(lambda: f"╭─ {title}" in terminal.text, title)
        weak(terminal)
        terminal.until(lambda: "to decide" in terminal.text or "Esc back" in terminal.text)
        if "to decide" in terminal.text:
            self.press("\r")
            terminal.sees("Esc back")
        terminal.listen(GATE_DEAF)
        self.press(key)
        if key != "y":  # it allows more than what is shown
            terminal.sees(f"{key} again allows it")
            terminal.listen(GATE_DEAF)
            self.press(key)
        terminal.until(lambda: f"╭─ {title}" not in terminal.text, "the next")


def weak(terminal: Terminal) -> None:
    if any(level in terminal.text for level in ("NO SANDBOX", "sandbox partial")):
        no_full_sandbox()


@pytest.mark.parametrize(
    ("mode", "together", "keys", "most"),
    [
        ("standard", True, "ss", 5),
        ("standard", False, "a", 3),
        ("trusted", True, "", 0),
        ("trusted", False, "", 0),
    ],
)
def test_a_days_loop_costs_few_keys(
    tmp_path: Path, mode: str, together: bool, keys: str, most: int
) -> None:
    """In standard mode Enter goes to the gate of the first edit. There ``a`` is one answer for all
    edits and all commands in the sandbox; ``s`` is one for the edits of the folder, and at the gate
    of the first command one for the commands. In trusted mode nothing is asked.
    """
    work = project(tmp_path)
    command = [sys.executable, "-m", "duckflow_tui", "--model", "m", "--protocol", "json"]
    command += ["--mode", mode]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "DUCKFLOW_SANDBOX__LEVEL": "auto"}
    with served(script(*replies(together=together))) as server:
        command += ["--base-url", server.endpoint.base_url]
        with Terminal(command, cwd=work, environ=environ) as terminal:
            pressed = Keys(terminal)
            terminal.sees("Message", mode)
            terminal.type("make total add up\r")
            for title, key in zip(("Edit total.py", "Run python3"), keys, strict=False):
                pressed.allow(title, key)
            terminal.until(lambda: "adds up now" in terminal.text or "to decide" in terminal.text)
            weak(terminal)
            terminal.sees("It adds up now.", "auto-allowed: edits, commands")
            terminal.type("\x0f")  # the rows of the work
            terminal.sees("auto-allowed in the sandbox")
        sent = str(server.endpoint.of("main")[-1].json)
    assert "FAILED (failures=1)" in sent
    assert "total.py |" in sent
    assert pressed.pressed <= most


def test_an_edit_and_its_test_in_one_reply_cost_three_keys(tmp_path: Path) -> None:
    """Each allowed alone: Enter goes to the first gate, and the second one keeps the focus."""
    command = [sys.executable, "-m", "duckflow_tui", "--model", "m", "--protocol", "json"]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "DUCKFLOW_SANDBOX__LEVEL": "auto"}
    asked = script(decision("Next.", *LOOP[0]), done("It counts now."))
    with served(asked) as server:
        command += ["--base-url", server.endpoint.base_url]
        with Terminal(command, cwd=project(tmp_path), environ=environ) as terminal:
            pressed = Keys(terminal)
            terminal.sees("Message", "standard")
            terminal.type("make total count\r")
            for title in ("Edit total.py", "Run python3"):
                pressed.allow(title, "y")
            terminal.sees("It counts now.")
        sent = str(server.endpoint.of("main")[-1].json)
    assert "FAILED (failures=1)" in sent  # the edit was made and the test ran
    assert pressed.pressed == 3


ONE, TWO = edit("return 0", "return len(items)"), edit("return len(items)", "return sum(items)")
OTHER = action("file_ops.write_file", path="notes.txt", content="sums\n")
MODULE = "python3 -m unittest"


def is_changed(work: Path) -> bool:
    """Whether the edit of the first reply was made."""
    return "len(items)" in (work / "total.py").read_text()


def has_notes(work: Path) -> bool:
    """Whether the edits of both replies were made."""
    return (work / "notes.txt").exists() and "sum(items)" in (work / "total.py").read_text()


@dataclass(frozen=True)
class Habit:
    """Something that is done every day: what the AI asks for, the keys, and what is there then."""

    calls: tuple[tuple[dict[str, Any], ...], ...]  # of each reply
    title: str  # of the first approval
    keys: tuple[str, ...]
    then: str
    holds: Callable[[Path], bool] = lambda _: True
    focused: bool = True  # whether the user went to the approval before


HABITS = {
    "see the whole diff": Habit(((ONE,),), "Edit total.py", (), "+     return len(items)"),
    "approve an edit from the composer": Habit(
        ((ONE,),), "Edit total.py", ("\r", "y"), "All done.", is_changed, focused=False
    ),
    "approve an edit at hand": Habit(((ONE,),), "Edit total.py", ("y",), "All done.", is_changed),
    "allow edits for the session": Habit(
        ((ONE,), (TWO, OTHER)), "Edit total.py", ("s", "s"), "All done.", has_notes
    ),
    "allow tests only": Habit(
        ((shell(f"{MODULE} -q"),), (shell(f"{MODULE} test_total"),), (shell("ls"),)),
        "Run python3",
        ("x", "x"),
        "Run ls",
    ),
    "reject with words": Habit(
        ((ONE,),), "Edit total.py", ("n", "sum, not len", "\r"), "All done."
    ),
}


@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS)
def test_what_is_done_every_day_takes_few_keys(tmp_path: Path, habit: Habit) -> None:
    """Each key is listed; the user waits for what it shows and the guard, and nothing else."""
    work = project(tmp_path)
    command = [sys.executable, "-m", "duckflow_tui", "--model", "m", "--protocol", "json"]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "DUCKFLOW_SANDBOX__LEVEL": "auto"}
    asked = script(*(decision("Next.", *calls) for calls in habit.calls), done("All done."))
    with served(asked) as server:
        command += ["--base-url", server.endpoint.base_url]
        with Terminal(command, cwd=work, environ=environ) as terminal:
            terminal.sees("Message", "standard")
            terminal.type("go\r")
            terminal.sees(habit.title, "Enter to decide")
            if "Run" in habit.title:
                weak(terminal)
            if habit.focused:
                terminal.type("\r")
                terminal.sees("Esc back")
            for number, key in enumerate(habit.keys):
                if number and habit.keys[number - 1] == key:
                    terminal.sees(f"{key} again allows it")
                elif habit.keys[:number][-1:] == ("n",):
                    terminal.sees("Enter rejects")
                elif habit.keys[:number][-1:] == ("\r",):
                    terminal.sees("Esc back")
                terminal.listen(GATE_DEAF)
                terminal.type(key)
            terminal.sees(habit.then)
        sent = str(server.endpoint.of("main")[-1].json)
    assert all(key in sent for key in habit.keys if len(key) > 1)  # words reach the AI
    assert habit.holds(work)


def test_a_reply_is_stopped_with_one_key_and_continued_after_quitting_with_one(
    tmp_path: Path,
) -> None:
    """Ctrl+C on an empty composer; a digit on the start screen, without an Enter."""
    work = project(tmp_path)
    command = [sys.executable, "-m", "duckflow_tui", "--model", "m", "--protocol", "json"]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home")}
    slow = Reply(text="never seen", first_delay_s=60)
    with served(script(done("First."), slow)) as server:
        command += ["--base-url", server.endpoint.base_url]
        with Terminal(command, cwd=work, environ=environ) as terminal:
            terminal.sees("Message")
            terminal.type("hello there\r")
            terminal.sees("First.")
            terminal.until(lambda: "Esc pauses" not in terminal.text, "the end of the turn")
            terminal.type("more\r")
            terminal.sees("Esc pauses")
            terminal.type("\x03")
            terminal.sees("stopped")
            terminal.until(lambda: "Esc pauses" not in terminal.text, "the stop")
            terminal.type("/quit\r")
            terminal.wait()
        with Terminal(command, cwd=work, environ=environ) as terminal:
            terminal.sees("Continue where you left off", "Message")
            terminal.type("1")
            terminal.sees("First.")
