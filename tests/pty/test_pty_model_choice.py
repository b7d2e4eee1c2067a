"""The app, started with only a part of what names a model."""

from __future__ import annotations

import sys
from pathlib import Path

from support.prepared import run_program
from support.pty import Terminal
from support.serving import Served, served
from support.session import done, script

PROGRAM = [sys.executable, "-m", "duckflow_tui"]


def start(tmp_path: Path, server: Served, *flags: str) -> Terminal:
    """With the server on the only port that is asked, from a fresh home."""
    port = server.endpoint.base_url.rpartition(":")[2].partition("/")[0]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "DUCKFLOW_DISCOVERY__PORTS": f"[{port}]"}
    return Terminal([*PROGRAM, *flags], cwd=tmp_path, environ=environ)


def test_a_model_alone_is_found_and_the_text_typed_meanwhile_is_answered(tmp_path: Path) -> None:
    replies = script(done("Hello from here.")).model_copy(update={"models": ("small", "large")})
    with served(replies) as server, start(tmp_path, server, "--model", "large") as terminal:
        terminal.sees("Message")
        terminal.type("hello\r")
        terminal.sees("Hello from here.")
        asked = [request.json.get("model") for request in server.endpoint.of("main")]
        assert asked[0] == "large"


def test_a_model_that_is_nowhere_is_answered_with_the_nearest(tmp_path: Path) -> None:
    replies = script(done("x")).model_copy(update={"models": ("qwen3-coder",)})
    with served(replies) as server, start(tmp_path, server, "--model", "qwen3-codr") as terminal:
        terminal.sees("No model named qwen3-codr was found. Nearest: qwen3-coder.")
        assert server.endpoint.of("main") == []


def test_a_session_goes_on_with_its_own_model_and_without_flags(tmp_path: Path) -> None:
    """Also where another server of this machine would be offered on the first screen."""
    replies = script(done("The first answer."), done("The second."), done("The third."))
    with served(replies) as server, served(script(done("Not me."))) as other:
        address = ("--base-url", server.endpoint.base_url, "--model", "duck-1")
        with start(tmp_path, other, *address) as terminal:
            terminal.sees("Message")
            terminal.type("hello\r")
            terminal.sees("The first answer.")
        with start(tmp_path, other, "-c", "go on") as terminal:
            terminal.sees("The first answer.", "duck-1", "The second.")
        environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        ended = run_program(["-p", "more", "--continue"], cwd=tmp_path, environ=environ)
        assert (ended.returncode, ended.stdout) == (0, "The third.\n"), ended.stderr
        asked = {request.json.get("model") for request in server.endpoint.of("main")}
        assert asked == {"duck-1"}
        assert not other.endpoint.of("main")
