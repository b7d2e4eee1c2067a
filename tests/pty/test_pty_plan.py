"""The installed program carries a plan out, with keys: approve, ask beside the work, wish, stop."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from support.plan_talk import plan_reply
from support.pty import Terminal
from support.serving import served
from support.session import action, decision, done, script
from support.shell import sleepers

from duckflow_tui.scripted.replies import When

STAY = 2.2  # seconds; an answered question keeps the focus for 2
GATE_DEAF = 0.4  # seconds; a gate or a card ignores keys for 0.3 s after it got the focus
OWN = str(os.getpid())  # several runs on one machine look at the same processes
GROUP, GONE = f"91.{OWN}", f"92.{OWN}"  # seconds, longer than any wait of this test
COMMAND = f"setsid sleep {GONE} & sleep {GROUP} & printf 'has %s\\n' begun; wait"


def focus_and(terminal: Terminal, key: str) -> None:
    """Enter on the empty composer goes to what is open; then the key."""
    terminal.type("\r")
    terminal.sees("Esc back")
    terminal.listen(GATE_DEAF)
    terminal.type(key)


def test_a_plan_is_approved_asked_about_changed_and_stopped_with_keys(tmp_path: Path) -> None:
    """The step's command runs for a minute and a half; beside it a question is answered and a wish
    changes the plan; Esc Esc ends it and every child within two seconds.

    Covers S2-22, S4-31.
    """
    wish = decision(
        "I would add a third note.",
        action("plan_tool.revise", changes=[{"op": "add", "name": "third note"}]),
        next_step="done",
    ).model_copy(update={"when": When(pattern="a third")})
    question = done("It is the first note.").model_copy(update={"when": When(pattern="where are")})
    replies = script(
        decision("I plan.", action("plan_tool.propose", goal="notes"), step="PLANNING"),
        question,
        wish,
        done("The plan runs."),
        plan=plan_reply("first note", "second note"),
        task=decision("", action("shell.run", command=COMMAND)),
    )
    work = tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-m", "duckflow_tui", "--model", "m", "--protocol", "json"]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home")}
    with (
        served(replies) as server,
        Terminal(
            [*command, "--base-url", server.endpoint.base_url], cwd=work, environ=environ
        ) as terminal,
    ):
        terminal.sees("Message", "NO SANDBOX")
        terminal.type("write notes\r")
        terminal.sees("second note", "run all")
        focus_and(terminal, "y")
        terminal.sees("needs you", "allow")
        terminal.listen(GATE_DEAF)
        assert sleepers(OWN) == []
        if "Enter to decide" in terminal.text:  # it came too late for the focus to have stayed
            focus_and(terminal, "y")
        else:
            terminal.type("y")
        terminal.sees("has begun")
        terminal.listen(STAY)

        terminal.type("where are you?\r")
        terminal.sees("It is the first note.")
        assert sleepers(OWN) == [GROUP, GONE]

        terminal.type("a third one too\r")
        terminal.sees("Plan change", "third note")
        focus_and(terminal, "y")
        terminal.sees("0/3")
        terminal.listen(STAY)

        terminal.type("\x1b")
        terminal.listen(0.3)
        terminal.type("\x1b")
        asked = time.monotonic()
        terminal.until(lambda: sleepers(OWN) == [], "its children end")
        took = time.monotonic() - asked
        terminal.sees("Stopped")
        print(f"children ended after {took:.2f} s")
        assert took < 2 + 3  # two, and what a busy machine adds
        terminal.type("\x03")
        terminal.listen(0.2)
        terminal.type("\x03")
        assert terminal.wait() == 0
