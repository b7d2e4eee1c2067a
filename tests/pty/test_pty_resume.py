"""kill -9 the program in a terminal, and take its session up again: what the screen shows."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.pty import Terminal
from support.serving import served
from support.session import action, decision, done, script

from duckflow_tui.demo.endpoint import Reply

GATE_DEAF = 0.4  # seconds; a gate ignores keys for 0.3 s after it got the focus
CTRL_C = b"\x03"
WRITE = action("file_ops.write_file", path="a.txt", content="one\n")


def start(tmp_path: Path, base_url: str, *flags: str, **environ: str) -> Terminal:
    """The program in ``tmp_path/work``, its own files in ``tmp_path/home``."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "duckflow_tui", "--base-url", base_url, "--model", "m", *flags]
    home = {"DUCKFLOW_HOME": str(tmp_path / "home"), **environ}
    return Terminal(command, cwd=work, environ=home, width=120, height=40)


def killed(terminal: Terminal) -> None:
    terminal.signal(signal.SIGKILL)
    assert terminal.wait() == -signal.SIGKILL


def sessions(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "home").glob("state/sessions/*/session_*")]


def test_a_gate_a_queue_and_a_draft_survive_a_kill(tmp_path: Path) -> None:
    """Covers S4-80, C22. The gate is pending again, and the user's key lets it all go on."""
    replies = script(decision("I write.", WRITE), done("Written."), done("And counted."))
    with served(replies) as server:
        with start(tmp_path, server.endpoint.base_url) as terminal:
            terminal.sees("Message")
            terminal.type("write it\r")
            terminal.sees("Enter to decide")
            terminal.type("count it\t")
            terminal.sees("count it")
            terminal.type("half a thought")
            terminal.sees("half a thought")
            terminal.listen(1.0)  # a draft is kept within a second
            killed(terminal)
        asked = len(server.endpoint.requests)
        with start(tmp_path, server.endpoint.base_url, "--resume") as terminal:
            terminal.sees("write it", "I write.", "Enter to decide", "count it", "half a thought")
            terminal.sees("The session goes on.")
            assert len(server.endpoint.requests) == asked
            assert not (tmp_path / "work" / "a.txt").exists()
            terminal.type(b"\x7f" * len("half a thought"))
            terminal.type("\r")
            terminal.sees("Esc back")
            terminal.listen(GATE_DEAF)
            terminal.type("y")
            terminal.sees("Written.")
            assert (tmp_path / "work" / "a.txt").read_text() == "one\n"
            terminal.type("\r")  # the queue was held for the user's key
            terminal.sees("And counted.")
    assert len(sessions(tmp_path)) == 1


def test_a_stream_that_was_cut_leaves_the_turn_paused(tmp_path: Path) -> None:
    reply = Reply(decision=done("A long answer it is.").decision, hold="rest", hold_after=8)
    with served(script(reply, done("Now all of it."))) as server:
        with start(tmp_path, server.endpoint.base_url) as terminal:
            terminal.sees("Message")
            terminal.type("tell me\r")
            server.reached("rest")
            killed(terminal)
        server.release("rest")
        with start(tmp_path, server.endpoint.base_url, "--resume") as terminal:
            terminal.sees("tell me", "The work was interrupted", "Enter goes on")
            assert len(server.endpoint.requests) == 1
            terminal.type("\r")
            terminal.sees("Now all of it.", "DONE")


def test_a_command_that_was_cut_is_shown_as_unknown(tmp_path: Path) -> None:
    run = action("shell.run", command="sleep 50")
    with served(script(decision("I run.", run), done("I look first."))) as server:
        with start(tmp_path, server.endpoint.base_url) as terminal:
            terminal.sees("Message")
            terminal.type("run it\r")
            terminal.sees("Enter to decide")
            terminal.type("\r")
            terminal.sees("Esc back")
            terminal.listen(GATE_DEAF)
            terminal.type("y")
            terminal.sees("type unsandboxed")
            terminal.type("unsandboxed\r")
            terminal.until(
                lambda: "Enter to decide" not in terminal.text and "Esc back" not in terminal.text
            )
            terminal.listen(0.5)
            killed(terminal)
        with start(tmp_path, server.endpoint.base_url, "--resume") as terminal:
            terminal.sees("sleep 50", "stopped", "The work was interrupted")
            terminal.type("\r")
            terminal.sees("I look first.")
            assert "not known" in str(server.endpoint.of("main")[-1])


def test_the_end_names_the_command_and_leaves_an_open_gate_open(tmp_path: Path) -> None:
    """The last line on exit takes the session up again; quitting answers no question."""
    with served(script(decision("I write.", WRITE), done("Written."))) as server:
        with start(tmp_path, server.endpoint.base_url) as terminal:
            terminal.sees("Message")
            terminal.type("write it\r")
            terminal.sees("Enter to decide")
            terminal.signal(signal.SIGTERM)
            assert terminal.wait(deadline=3.0) == 128 + signal.SIGTERM
            last = bytes(terminal.output).decode().strip().splitlines()[-1]
        found = re.search(r"duckflow-tui --resume (session_[0-9a-f]{8})", last)
        assert found
        assert sessions(tmp_path) == [found[1]]
        with start(tmp_path, server.endpoint.base_url, "--resume", found[1][8:12]) as terminal:
            terminal.sees("write it", "Enter to decide")
            assert not (tmp_path / "work" / "a.txt").exists()


def test_a_session_that_is_open_elsewhere_is_refused_and_goes_on_there(tmp_path: Path) -> None:
    with (
        served(script(done("Hello."), done("Still here."))) as server,
        start(tmp_path, server.endpoint.base_url) as first,
    ):
        first.sees("Message")
        first.type("hi\r")
        first.sees("Hello.")
        [session_id] = sessions(tmp_path)
        with start(tmp_path, server.endpoint.base_url, "--resume", session_id) as second:
            assert second.wait() == 2
            said = bytes(second.output).decode()
        assert f"{session_id} is open in another window already (process {first.pid})" in said
        first.type("and now?\r")
        first.sees("Still here.")


@pytest.mark.parametrize(
    ("given", "says"),
    [("", "There is no session of"), ("beef", "There is no session beef of this folder")],
)
def test_a_session_that_is_not_there_is_a_usage_error(
    tmp_path: Path, given: str, says: str
) -> None:
    with start(tmp_path, "http://127.0.0.1:9/v1", "--resume", *filter(None, [given])) as terminal:
        assert terminal.wait() == 2
        assert says in bytes(terminal.output).decode()


def test_a_home_that_cannot_be_written_is_said_and_the_session_works(tmp_path: Path) -> None:
    """The session lives in memory: a notice, and the status line for as long as it is so."""
    (tmp_path / "home" / "state").mkdir(parents=True)
    (tmp_path / "home" / "state" / "sessions").write_text("a file where the folder should be")
    with (
        served(script(done("Hello."))) as server,
        start(tmp_path, server.endpoint.base_url) as terminal,
    ):
        terminal.sees("lives in memory only", "memory only")
        terminal.type("hi\r")
        terminal.sees("Hello.")
        terminal.type(CTRL_C)
        terminal.sees("Ctrl+C")
        terminal.type(CTRL_C)
        assert terminal.wait() == 0
        assert b"--resume" not in terminal.output


def test_headless_goes_on_with_a_session_and_keeps_none_where_it_is_told_so(
    tmp_path: Path,
) -> None:
    def run(base_url: str, *flags: str) -> subprocess.CompletedProcess[str]:
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "duckflow_tui", "--base-url", base_url, "--model", "m"]
        return subprocess.run(
            [*command, *flags],
            cwd=work,
            env={"PATH": "/usr/bin:/bin", "DUCKFLOW_HOME": str(tmp_path / "home"), "LANG": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    with served(script(done("One."), done("Two."), done("Three."))) as server:
        url = server.endpoint.base_url
        first = run(url, "-p", "first", "--no-session")
        assert (first.returncode, first.stdout, sessions(tmp_path)) == (0, "One.\n", [])
        assert "--resume" not in first.stderr
        second = run(url, "-p", "second")
        [session_id] = sessions(tmp_path)
        assert second.stderr.splitlines()[-1].endswith(f"duckflow-tui --resume {session_id}")
        third = run(url, "-p", "third", "--resume", session_id)
        assert (third.returncode, third.stdout) == (0, "Three.\n")
        assert "second" in str(server.endpoint.of("main")[-1])
        assert sessions(tmp_path) == [session_id]
