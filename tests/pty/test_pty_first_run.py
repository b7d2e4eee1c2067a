"""From a fresh home to the first answer: what is found, which keys it takes, what goes wrong."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.pty import Terminal
from support.serving import served
from support.session import done, script

from duckflow_tui.scripted.replies import Reply, Script

KEY = "duck-1234567890-abcdefgh"


def start(
    tmp_path: Path, *flags: str, environ: Mapping[str, str] | None = None, ports: str = "[]",
    width: int = 120, height: int = 40,
) -> Terminal:  # fmt: skip
    """The program in ``tmp_path/work`` without any settings, with the servers of these ports."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    surroundings = {
        "DUCKFLOW_HOME": str(tmp_path / "home"),
        "DUCKFLOW_DISCOVERY__PORTS": ports,
        "OPENAI_API_KEY": "",
        **(environ or {}),
    }
    command = [sys.executable, "-m", "duckflow_tui", *flags]
    return Terminal(command, cwd=work, environ=surroundings, width=width, height=height)


def answering(*models: str) -> Script:
    """A server with these models, that greets."""
    greets = done("Hello from the model.").model_copy(update={"repeat": True})
    counted = {"digest": Reply(data={"numbers": [1, 2, 3]}, repeat=True)}
    return script(greets).model_copy(update={"models": models, "fallback": counted})


def port_of(base_url: str) -> str:
    return f"[{base_url.rpartition(':')[2].removesuffix('/v1')}]"


def everything_kept(tmp_path: Path) -> bytes:
    """All that the program wrote, but for the file that keys are kept in."""
    files = (tmp_path / "home").rglob("*")
    return b"".join(f.read_bytes() for f in files if f.is_file() and f.name != "keys.json")


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
def test_with_a_server_here_three_keys_lead_to_the_first_answer(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    """1 takes the server, Enter its model, and Enter sends what was written."""
    with served(answering("small", "large")) as server:
        ports = port_of(server.endpoint.base_url)
        with start(tmp_path, ports=ports, width=size[0], height=size[1]) as terminal:
            terminal.sees("1 ", "2 models")
            terminal.type("1")
            terminal.sees("small", "large")
            terminal.type("\rhello\r")  # also in one burst
            terminal.sees("› hello", "Hello from the model.")
        assert server.endpoint.of("main")[-1].json["model"] in ("small", "large")
        with start(tmp_path, ports="[]") as terminal:  # kept for the next time
            terminal.sees("Message", "large")


def test_with_a_key_in_the_environment_three_keys_do_as_well(tmp_path: Path) -> None:
    """What was typed and sent before a model was chosen is kept, and sent then."""
    with served(answering("one-model")) as server:
        environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.endpoint.base_url}
        with start(tmp_path, environ=environ) as terminal:
            terminal.sees("1 ", "key in OPENAI_API_KEY")
            terminal.type("hello there\r")
            terminal.sees("Your message is saved")
            terminal.type("\r")
            terminal.sees("one-model", "select")
            terminal.type("\r")
            terminal.sees("› hello there", "Hello from the model.")
            assert KEY not in terminal.text
        sent = server.endpoint.of("main")[-1]
        assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in everything_kept(tmp_path)
    assert KEY.encode() not in terminal.output


@pytest.mark.parametrize(("language", "title"), [("en", "the demo"), ("ja", "デモ")])
@pytest.mark.parametrize("key", ["\r", "0"])
def test_with_nothing_found_the_demo_is_one_key_away(
    tmp_path: Path, key: str, language: str, title: str
) -> None:
    with start(tmp_path, "--lang", language, width=80, height=24) as terminal:
        terminal.sees(f"› 0   {title}")
        terminal.type(key)
        terminal.sees("Enter: ", "NO SANDBOX" if language == "en" else "")


class Lists(BaseHTTPRequestHandler):
    """Lists a model, to anybody."""

    key = ""  # that is asked for

    def do_GET(self) -> None:
        right = not self.key or self.headers.get("Authorization") == f"Bearer {self.key}"
        listed = {"object": "list", "data": [{"id": "guarded-model"}]}
        refused = {"error": {"message": "Incorrect API key provided"}}
        data = json.dumps(listed if right else refused).encode()
        self.send_response(200 if right else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class Guard(Lists):
    key = KEY


def test_to_look_again_puts_the_mark_on_the_server_that_is_found(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lists, bind_and_activate=False)
    server.server_bind()  # nobody listens yet
    with start(tmp_path, ports=f"[{server.server_port}]") as terminal:
        terminal.sees("› 0   the demo", "2   look again")
        server.server_activate()
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            terminal.type("2")
            terminal.sees("› 1 ", "1 model")
            terminal.type("\r")
            terminal.sees("guarded-model", "select")
        finally:
            server.shutdown()
            server.server_close()


@contextmanager
def guarded() -> Generator[str]:
    """A server that lists a model to who has the key; its base address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("size", [(120, 40), (60, 20)])
def test_a_wrong_key_is_named_with_its_host_and_corrected_in_place(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    """Which key, which host, what to do; the right one leads on, and is nowhere to be seen."""
    with guarded() as base_url:
        environ = {"OPENAI_API_KEY": "wrong-key-00000000", "OPENAI_BASE_URL": base_url}
        host = base_url.removeprefix("http://").removesuffix("/v1")
        width, height = size
        with start(tmp_path, environ=environ, width=width, height=height) as terminal:
            terminal.sees("key in OPENAI_API_KEY")
            terminal.type("1")
            terminal.sees("Connect a server", "rejected", "OPENAI_API_KEY", host, "another")
            terminal.type("also-wrong-000000\r")
            terminal.sees("rejected", host, "again.")  # words that no end of a line cuts
            terminal.type(KEY + "\r")
            terminal.sees("guarded-model", "select")
            terminal.type("\r")
            terminal.sees("standard ·", "guarded-model")
        assert KEY.encode() not in terminal.output
        assert b"wrong-000" not in terminal.output
    assert KEY.encode() not in everything_kept(tmp_path)
    kept = tmp_path / "home" / "data" / "keys.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert KEY in kept.read_text()


def test_only_the_name_of_a_variable_can_be_kept(tmp_path: Path) -> None:
    """An address is written too; a variable that is empty is said at once."""
    with guarded() as base_url:
        with start(tmp_path, environ={"MY_OWN_KEY": KEY}) as terminal:
            terminal.sees("and its address")
            terminal.type("1")
            terminal.sees("Address or provider name")
            terminal.type(base_url + "\t\t\x1b[C")
            terminal.sees("Only the name is stored")
            terminal.type("\x1b[Z")
            terminal.listen(0.3)
            terminal.type("NO_SUCH_KEY\r")
            terminal.sees("The variable NO_SUCH_KEY is empty here")
            terminal.type("\x15")
            terminal.listen(0.3)
            terminal.type("MY_OWN_KEY\r")
            terminal.sees("guarded-model", "select")
            terminal.type("\r")
            terminal.sees("standard ·", "guarded-model")
        assert KEY.encode() not in terminal.output
        assert not (tmp_path / "home" / "data" / "keys.json").exists()


def test_with_an_endpoint_configured_nothing_is_looked_for(tmp_path: Path) -> None:
    """Neither the ports nor the keys; the chat is there at once."""
    with served(answering("other")) as here, served(answering("mine")) as mine:
        flags = ("--base-url", mine.endpoint.base_url, "--model", "mine")
        ports = port_of(here.endpoint.base_url)
        with start(tmp_path, *flags, environ={"OPENAI_API_KEY": KEY}, ports=ports) as terminal:
            terminal.sees("standard ·", "Message")
            terminal.type("hello\r")
            terminal.sees("Hello from the model.")
        assert here.endpoint.requests == []
