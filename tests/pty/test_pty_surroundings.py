"""What happens around a session: another instance, a workspace that goes, a disk that is full."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.kept_app import kept, killed, sessions, start
from support.pty import Terminal
from support.reviews import judged
from support.serving import served
from support.session import action, decision, done, script

from duckflow_tui.session.resume import open_to_read
from duckflow_tui.state.conversation import AssistantMessage

GATE_DEAF = 0.4  # seconds; a gate ignores keys for 0.3 s after the user went to it
CTRL_C = b"\x03"
WRITE = action("file_ops.write_file", path="a.txt", content="one\n")


def left(terminal: Terminal) -> str:
    """Leave by the keys; what the program says at its end."""
    terminal.type(CTRL_C)
    terminal.sees("Ctrl+C")
    before = len(terminal.output)
    terminal.type(CTRL_C)
    assert terminal.wait() == 0
    said = bytes(terminal.output[before:]).decode()
    assert "Traceback" not in said
    return said


def replies(tmp_path: Path, session_id: str) -> list[str]:
    messages = kept(tmp_path, session_id).messages
    return [m.text for m in messages if isinstance(m, AssistantMessage)]


def program(cwd: Path, *arguments: str, before: Sequence[str] = ()) -> Terminal:
    """The program as it is called in this folder, without an endpoint; its home is beside it."""
    command = [*before, sys.executable, "-m", "duckflow_tui", *arguments]
    return Terminal(command, cwd=cwd, environ={"DUCKFLOW_HOME": str(cwd.parent / "home")})


def fill(path: Path) -> None:
    """Take all the room there is on this disk."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def test_two_instances_of_a_workspace_have_a_session_each(tmp_path: Path) -> None:
    """What one has open the other cannot take up; the end of one is nothing to the other."""
    with served(script(done("To one."), done("To two."), done("One again."))) as server:
        url = server.endpoint.base_url
        with start(tmp_path, url) as first:
            first.sees("Message")
            first.type("hi\r")
            first.sees("To one.")
            [one] = sessions(tmp_path)
            with start(tmp_path, url) as second:
                second.sees("Message")
                second.type("hi\r")
                second.sees("To two.")
                with start(tmp_path, url, "--resume", one) as third:
                    assert third.wait() == 2
                    said = bytes(third.output).decode()
                killed(second)
            assert f"{one} is already open in another window (process {first.pid})" in said
            words = " ".join(said.split())
            assert "Continue there; without --continue or --resume, a new session begins" in words
            first.type("and now?\r")
            first.sees("One again.")
            first.until(lambda: replies(tmp_path, one) == ["To one.", "One again."])
        [two] = set(sessions(tmp_path)) - {one}
        assert replies(tmp_path, two) == ["To two."]


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_workspace_that_goes_is_said_and_nothing_is_lost(tmp_path: Path, replaced: bool) -> None:
    """Nothing is written into a folder that has only its name; the talk goes on and is kept."""
    work = tmp_path / "work"
    talk = script(
        done("Hello."),
        decision("I write.", WRITE),
        done("It did not work."),
        done("I am here."),
    )
    with served(talk) as server:
        url = server.endpoint.base_url
        with start(tmp_path, url, "--mode", "trusted") as terminal:
            terminal.sees("Message")
            terminal.type("hi\r")
            terminal.sees("Hello.")
            terminal.until(lambda: "Esc pauses" not in terminal.text, "the end of the turn")
            if replaced:
                work.rename(tmp_path / "before")
                work.mkdir()
            else:
                shutil.rmtree(work)
            terminal.type("write it\r")
            terminal.sees("deleted", "replaced.", "Nothing", "written", "It did not work.")
            terminal.until(lambda: kept(tmp_path).turn is None)  # it is judged before it ends
            said = left(terminal)
            [session_id] = sessions(tmp_path)
            assert re.search(rf"duckflow[-_]tui --resume {session_id}", said)
        assert work.exists() is replaced
        assert not list(tmp_path.glob("*/a.txt"))
        if replaced:
            with start(tmp_path, url, "--resume") as terminal:
                terminal.sees("It did not work.", "not the folder")
                terminal.type("and now?\r")
                terminal.sees("I am here.")
                assert "read files again" in str(server.endpoint.of("main")[-1])
        else:
            (tmp_path / "before").mkdir()
            named = ["--resume", session_id, "--dir", str(work)]
            with program(tmp_path / "before", *named) as terminal:
                assert terminal.wait() == 2
                said = bytes(terminal.output).decode()
                assert f"{work} is not a folder that can be opened" in said


def test_a_folder_that_is_gone_before_the_start_is_said(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    enter = ["sh", "-c", 'rmdir "$0" && exec "$@"', str(gone)]
    with program(gone, before=enter) as terminal:
        assert terminal.wait() == 2
        assert "The current folder was deleted" in bytes(terminal.output).decode()


def test_a_disk_that_is_full_is_said_and_what_was_said_meanwhile_is_kept_at_the_end(
    tmp_path: Path,
) -> None:
    talk = script(
        done("Before."), decision("I write.", WRITE), done("Written."), satisfaction=judged(0.9)
    )
    with (
        served(talk) as server,
        start(tmp_path, server.endpoint.base_url, "--mode", "trusted", disk="size=2m") as terminal,
    ):
        terminal.sees("Message")
        terminal.type("hi\r")
        terminal.sees("Before.")
        terminal.until(lambda: "Esc pauses" not in terminal.text, "the end of the turn")
        held = os.open(f"/proc/{terminal.pid}/root{tmp_path / 'home'}", os.O_PATH)
        home = Path(f"/proc/self/fd/{held}")  # also once the program has ended
        fill(home / "ballast")
        terminal.type("write it\r")
        terminal.sees("The disk is full", "not saved", "cannot be saved right", "Enter to decide")
        terminal.type("\r")
        terminal.sees("Esc back")  # the gate has the focus
        terminal.listen(GATE_DEAF)
        terminal.type("y")
        terminal.sees("Written.", "+1 −0", "Done: 1 of 1")
        assert (tmp_path / "work" / "a.txt").read_text() == "one\n"
        (home / "ballast").unlink()
        said = left(terminal)
        [folder] = home.glob("state/sessions/*/session_*")
        assert re.search(rf"duckflow[-_]tui --resume {folder.name}", said)
        messages = open_to_read(folder).state.messages
        texts = [m.text for m in messages if isinstance(m, AssistantMessage)]
        assert texts == ["Before.", "I write.", "Written."]
        os.close(held)


def test_a_home_that_can_only_be_read_is_said_and_the_session_works(tmp_path: Path) -> None:
    """The session lives in memory: a notice, and the status line for as long as it is so."""
    with (
        served(script(done("Hello."))) as server,
        start(tmp_path, server.endpoint.base_url, disk="ro,size=1m") as terminal,
    ):
        terminal.sees("The disk is read-only", "is only in memory", "not saved")
        terminal.type("hi\r")
        terminal.sees("Hello.")
        assert "--resume" not in left(terminal)


def test_a_home_that_is_none_is_said_and_the_session_works(tmp_path: Path) -> None:
    (tmp_path / "home" / "state").mkdir(parents=True)
    (tmp_path / "home" / "state" / "sessions").write_text("a file where the folder should be")
    with (
        served(script(done("Hello."))) as server,
        start(tmp_path, server.endpoint.base_url) as terminal,
    ):
        terminal.sees("is only in memory", "not saved")
        terminal.type("hi\r")
        terminal.sees("Hello.")
        assert "--resume" not in left(terminal)
