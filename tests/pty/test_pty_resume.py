"""kill -9 the program in a terminal, and take its session up again: what the screen shows."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.kept_app import halt_until, kept, killed, sessions, start
from support.prepared import UNTOUCHED, run_program
from support.reviews import judged
from support.serving import served
from support.session import action, decision, done, script

from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.operations import Outcome

STAY = 2.2  # seconds; an answered gate keeps the focus for 2
GATE_DEAF = 0.4  # seconds; a gate ignores keys for 0.3 s after it got the focus
WRITE = action("file_ops.write_file", path="a.txt", content="one\n")


def test_a_gate_a_queue_and_a_draft_survive_a_kill(tmp_path: Path) -> None:
    """The gate is pending again, and the user's key lets it all go on."""
    replies = script(decision("I write.", WRITE), done("Written."), done("And counted."))
    with served(replies) as server:
        with start(tmp_path, server.endpoint.base_url) as terminal:
            terminal.sees("Message")
            terminal.type("write it\r")
            terminal.sees("Enter to decide")
            terminal.type("count it\t")
            terminal.sees("count it")
            terminal.type("half a thought")
            terminal.until(lambda: kept(tmp_path).draft == "half a thought", deadline=1.5)
            killed(terminal)
        asked = len(server.endpoint.requests)
        with start(tmp_path, server.endpoint.base_url, "--resume") as terminal:
            terminal.sees("write it", "I write.", "Enter to decide", "count it", "half a thought")
            terminal.sees("Session resumed.")
            assert len(server.endpoint.requests) == asked
            assert not (tmp_path / "work" / "a.txt").exists()
            terminal.type(b"\x7f" * len("half a thought"))
            terminal.type("\r")
            terminal.sees("Esc back")
            terminal.listen(GATE_DEAF)
            terminal.type("y")
            terminal.sees("Written.")
            assert (tmp_path / "work" / "a.txt").read_text() == "one\n"
            terminal.listen(STAY)
            terminal.type("\r")  # the queue was held for the user's key
            terminal.sees("And counted.")
    assert len(sessions(tmp_path)) == 1


def test_a_stream_in_the_middle_of_a_queue_is_taken_up_by_a_key(tmp_path: Path) -> None:
    """Nothing is sent before that key; it lets the message and what waits behind it go on."""
    held = [
        done(text).model_copy(update={"hold": hold, "hold_after": 8})
        for text, hold in (("The first.", "one"), ("The second is cut.", "two"))
    ]
    with served(script(*held, done("The second, whole."), done("The third."))) as server:
        with start(tmp_path, server.endpoint.base_url) as terminal:
            terminal.sees("Message")
            terminal.type("tell me one\r")
            server.reached("one")
            terminal.type("tell me two\t")
            terminal.sees("tell me two")
            terminal.type("tell me three\t")
            terminal.sees("tell me three")
            server.release("one")
            server.reached("two")
            killed(terminal)
        server.release("two")
        with start(tmp_path, server.endpoint.base_url, "--resume") as terminal:
            terminal.sees("The first.", "tell me two", "tell me three")
            terminal.sees("The work was interrupted", "Enter continue")
            assert [waiting.text for waiting in kept(tmp_path).queue] == ["tell me three"]
            assert len(server.endpoint.of("main")) == 2
            terminal.type("\r")
            terminal.sees("The second, whole.", "The third.")


@pytest.mark.parametrize("in_place", [False, True], ids=["unfinished", "in_place"])
def test_a_change_that_was_cut_is_told_as_the_file_is(tmp_path: Path, in_place: bool) -> None:
    """Killed inside the apply; what came behind it in the reply never runs."""
    for number in range(6):  # all nine may be written between two looks
        place = tmp_path / str(number)
        place.mkdir()
        if _cut_inside_a_change(place, in_place=in_place):
            return
    pytest.fail("no change was caught in its middle")


def _cut_inside_a_change(tmp_path: Path, *, in_place: bool) -> bool:
    """Kill the program inside a change and take its session up; False where none was caught."""
    work = tmp_path / "work"
    writes = [
        action("file_ops.write_file", path=f"f{n:02}.txt", content=f"{n}\n" * 200)
        for n in range(9)  # one more would be asked about as a wide change
    ]
    first = decision("I write.", *writes).model_copy(update={"hold": "rest", "hold_after": 8})
    replies = script(first, done("I look first."), satisfaction=judged(0.9))
    cut: list[str] = []

    def applying() -> bool:
        """A change has begun, and nothing says that it ended."""
        cut[:] = [str(c.args["path"]) for c in kept(tmp_path).running if c.started]
        return bool(cut) and (work / cut[0]).exists() is in_place

    with served(replies) as server:
        with start(tmp_path, server.endpoint.base_url, "--mode", "trusted") as terminal:
            terminal.sees("Message")
            terminal.type("write them\r")
            server.reached("rest")
            terminal.type("count them\t")
            terminal.sees("count them")
            terminal.type("half a thought")
            terminal.until(lambda: kept(tmp_path).draft == "half a thought", deadline=1.5)
            server.release("rest")
            if not halt_until(terminal, applying, lambda: kept(tmp_path).turn is None):
                return False
            killed(terminal)
        written = {path.name for path in work.iterdir() if path.suffix == ".txt"}
        with start(tmp_path, server.endpoint.base_url, "--resume") as terminal:
            terminal.sees("The work was interrupted", "count them", "half a thought")
            assert {path.name for path in work.iterdir()} == written
            terminal.type(b"\x7f" * len("half a thought"))
            terminal.type("\r")
            terminal.sees("I look first.")
            terminal.until(lambda: kept(tmp_path).turn is None)
        assert {path.name for path in work.iterdir()} == written
        results = [m for m in kept(tmp_path).messages if isinstance(m, OperationMessage)]
        [stopped] = [m for m in results if m.result.outcome is Outcome.STOPPED]
        assert stopped.args["path"] == cut[0]
        done_now = {str(m.args["path"]) for m in results if m.result.changes}
        assert done_now == written
        told = "This was done" if in_place else f"{cut[0]} was not changed"
        assert told in stopped.result.text
        assert told in str(server.endpoint.of("main")[-1])
    return True


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
            terminal.until(lambda: any(call.started for call in kept(tmp_path).running))
            killed(terminal)
        with start(tmp_path, server.endpoint.base_url, "--resume") as terminal:
            terminal.sees("sleep 50", "outcome unknown", "The work was interrupted")
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
        found = re.search(r"duckflow[-_]tui --resume (session_[0-9a-f]{8})", last)
        assert found
        assert sessions(tmp_path) == [found[1]]
        with start(tmp_path, server.endpoint.base_url, "--resume", found[1][8:12]) as terminal:
            terminal.sees("write it", "Enter to decide")
            assert not (tmp_path / "work" / "a.txt").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [("", "There is no session in"), ("beef", "There is no session beef in this folder")],
)
def test_a_session_that_is_not_there_is_a_usage_error(
    tmp_path: Path, given: str, says: str
) -> None:
    with start(tmp_path, "http://127.0.0.1:9/v1", "--resume", *filter(None, [given])) as terminal:
        assert terminal.wait() == 2
        assert says in bytes(terminal.output).decode()


BARE = {"PATH": "/usr/bin:/bin", "LANG": "C"}  # where the program is found by no name


def test_headless_goes_on_with_a_session_and_keeps_none_where_it_is_told_so(
    tmp_path: Path,
) -> None:
    def run(base_url: str, *flags: str) -> subprocess.CompletedProcess[str]:
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        environ = {**BARE, "DUCKFLOW_HOME": str(tmp_path / "home")}
        return run_program(
            ["--base-url", base_url, "--model", "m", *flags], cwd=work, environ=environ
        )

    with served(script(done("One."), done("Two."), done("Three."))) as server:
        url = server.endpoint.base_url
        first = run(url, "-p", "first", "--no-session")
        assert (first.returncode, first.stdout, sessions(tmp_path)) == (0, "One.\n", [])
        assert "--resume" not in first.stderr
        second = run(url, "--lang", "en", "-p", "second")
        [session_id] = sessions(tmp_path)
        command = second.stderr.splitlines()[-1].partition(": ")[2]
        assert command.endswith(f" --resume {session_id} --base-url {url} --model m --lang en")
        third = subprocess.run(  # as it is pasted into the shell that the program was started from
            ["sh", "-c", f"{command} -p third"],
            cwd=tmp_path / "work",
            env={**UNTOUCHED, **BARE, "DUCKFLOW_HOME": str(tmp_path / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (third.returncode, third.stdout) == (0, "Three.\n")
        assert "second" in str(server.endpoint.of("main")[-1])
        assert sessions(tmp_path) == [session_id]
