"""A command runs as the same user as the app, and what the app was given stays closed to it."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.serving import served
from support.session import action, decision, done, script

ROOT = str(Path(__file__).parents[2])
KEY = "A_SERVICE_KEY"

#: Takes down what it can read of itself, and of every process it descends from.
LOOK = """
cat /proc/$$/environ > own
pid=$PPID
while [ "$pid" -gt 1 ]; do
  cat "/proc/$pid/environ" >> above 2>> refused
  set -- $(sed 's/.*) //' "/proc/$pid/stat")
  pid=$2
done
"""


def without_capabilities() -> list[str]:
    """What runs a program as a plain user; nothing where we are one. Skips where it cannot be."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux has /proc/<pid>/environ")
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root reads every process, and there is no setpriv to give that up")
    argv = [setpriv, "--bounding-set=-all", "--inh-caps=-all"]
    tried = subprocess.run([*argv, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"root reads every process, and cannot give that up here: {tried.stderr}")
    return argv


def test_a_command_cannot_read_the_keys_of_the_app(tmp_path: Path) -> None:
    """Its own environment is rid of them, and that of the app is closed, while the app itself
    still reaches the folder of a command by its own descriptor.
    """
    run_as = without_capabilities()
    work = tmp_path / "work"
    work.mkdir()
    (work / "look.sh").write_text(LOOK)
    secret = f"sk-{secrets.token_hex(12)}"
    asked = decision("I look.", action("shell.run", command="sh look.sh"))
    with served(script(asked, done("Seen."))) as server:
        argv = [sys.executable, "-m", "duckflow_tui", "-p", "go", "--dir", str(work)]
        argv += ["--base-url", server.endpoint.base_url, "--model", "m", "--protocol", "json"]
        argv += ["--api-key-env", KEY, "--allow", "sh look.sh"]
        ended = subprocess.run(
            [*run_as, *argv],
            env={
                "DUCKFLOW_HOME": str(tmp_path / "home"),
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": ROOT,
                KEY: secret,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        sent = server.endpoint.requests[0].headers
    assert ended.returncode == 0, ended.stderr
    assert sent["authorization"] == f"Bearer {secret}", "the app has the key"
    assert b"DUCKFLOW_CALL=" in (work / "own").read_bytes(), "so it would be read"
    assert secret.encode() not in (work / "above").read_bytes()
    refused = (work / "refused").read_text().lower()
    assert "denied" in refused or "not permitted" in refused
