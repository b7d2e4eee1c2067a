"""``doctor``: what is there and what is missing is found, and each fix is said."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.prepared import run_program
from support.pty import Terminal
from support.serving import served
from support.shell import no_full_sandbox

from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.scripted.replies import Script
from duckflow_tui.tools.command_runner import SandboxChoice
from duckflow_tui.tools.sandbox import Sandbox

PROGRAM = [sys.executable, "-m", "duckflow_tui", "doctor"]


def checks(
    tmp_path: Path, *arguments: str, environ: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """The exit status, and each check by its name."""
    run = run_program(
        ["doctor", "--json", *arguments],
        cwd=tmp_path,
        environ={"DUCKFLOW_HOME": str(tmp_path / "home"), "LANG": "C.UTF-8", **(environ or {})},
    )
    assert run.stderr == ""
    return run.returncode, {check["name"]: check for check in json.loads(run.stdout)}


def test_a_bare_machine_is_told_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    """No ripgrep, git, colours, terminal, model; and a home that is no folder."""
    (tmp_path / "home").write_text("in the way")
    status, found = checks(tmp_path, environ={"PATH": str(tmp_path), "NO_COLOR": "1"})
    assert status == 1
    assert {name: check["state"] for name, check in found.items()} == {
        "terminal": "missing",
        "colours": "missing",
        "characters": "ok",
        "keys": "missing",
        "rg": "missing",
        "git": "missing",
        "sandbox": "missing",
        "disk": "broken",
        "settings": "missing",
        "model": "broken",
    }
    assert "ripgrep" in found["rg"]["fix"]
    assert "NO_COLOR" in found["colours"]["fix"]
    assert "DUCKFLOW_HOME" in found["disk"]["fix"]
    assert "--base-url" in found["model"]["fix"]


def test_a_sound_machine_with_a_model_has_nothing_in_the_way(tmp_path: Path) -> None:
    """Seen in a terminal, as a person sees it, with the model's server really asked."""
    with served(Script(models=("small", "large"))) as server:
        command = [*PROGRAM, "--base-url", server.endpoint.base_url, "--model", "large"]
        environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "COLORTERM": "truecolor"}
        with Terminal(command, cwd=tmp_path, environ=environ) as terminal:
            assert terminal.wait() == 0
            shown = terminal.text
        assert [request.path for request in server.endpoint.requests] == ["/v1/models"]
    assert "✓ Terminal: xterm-256color, 120×40" in shown
    assert "✓ Colours: 16 million" in shown
    assert "✓ Model: large at 127.0.0.1:" in shown
    assert "Everything is fine." in shown


def test_a_small_terminal_and_a_dumb_one_are_told(tmp_path: Path) -> None:
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home")}
    with Terminal(PROGRAM, cwd=tmp_path, environ=environ, width=50, height=30) as terminal:
        terminal.wait()
        assert "made for 60×20 or more" in terminal.text.replace("\n", "")
    with Terminal(PROGRAM, cwd=tmp_path, environ={**environ, "TERM": "dumb"}) as terminal:
        assert terminal.wait() == 1
        assert "Set TERM to what your terminal is" in terminal.text


def test_a_model_that_the_server_does_not_list_is_named_with_those_it_lists(
    tmp_path: Path,
) -> None:
    with served(Script(models=("small", "large"))) as server:
        status, found = checks(tmp_path, "--base-url", server.endpoint.base_url, "--model", "lagre")
    assert (status, found["model"]["state"]) == (1, "broken")
    assert "small, large" in found["model"]["fix"]


def test_a_server_of_this_machine_is_found_where_no_model_is_set(tmp_path: Path) -> None:
    """With its only model it works as it is; several are listed, to choose from."""
    with served(Script(models=("small",))) as server:
        port = server.endpoint.base_url.rpartition(":")[2].partition("/")[0]
        environ = {"DUCKFLOW_DISCOVERY__PORTS": f"[{port}]"}
        status, found = checks(tmp_path, environ=environ)
    assert (status, found["model"]["state"]) == (0, "missing")
    assert f"Using small at 127.0.0.1:{port}" in found["model"]["fix"]
    with served(Script(models=("small", "large"))) as server:
        status, found = checks(tmp_path, "--base-url", server.endpoint.base_url)
    assert (status, found["model"]["state"]) == (1, "broken")
    assert "Choose one with --model: large, small" in found["model"]["fix"]


def test_a_server_that_is_not_there_is_told_by_its_address(tmp_path: Path) -> None:
    status, found = checks(tmp_path, "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert (status, found["model"]["state"]) == (1, "broken")
    assert "127.0.0.1:9" in found["model"]["found"]


@pytest.mark.parametrize(("language", "said"), [("en", "settings"), ("ja", "設定")])
def test_wrong_settings_are_read_out_with_their_line(
    tmp_path: Path, language: str, said: str
) -> None:
    config = tmp_path / "home" / "config"
    config.mkdir(parents=True)
    (config / "settings.toml").write_text(
        "[ui]\nvitals = 3\n[mcp.servers.notes]\ncommand = 'no-such-program'\n"
    )
    _, found = checks(tmp_path, "--lang", language)
    assert found["settings"]["state"] == "missing"
    assert "settings.toml:2" in found["settings"]["found"]
    assert "no-such-program" in found["server"]["found"]
    assert "[mcp.servers.notes]" in found["server"]["fix"]


def real(tmp_path: Path, **choice: Any) -> Sandbox:
    """A sandbox of this machine for the same folder."""
    return Sandbox(
        SandboxChoice("auto", folder=tmp_path / "kept", **choice), Workspace(tmp_path), os.environ
    )


def test_the_kind_of_sandbox_that_holds_is_found_by_trying_it(tmp_path: Path) -> None:
    """What a session would find is told, with what to do only where nothing holds in full."""
    level = asyncio.run(real(tmp_path).find_level())
    for wanted in ("auto", "full"):
        _, found = checks(tmp_path, environ={"DUCKFLOW_SANDBOX__LEVEL": wanted})
        told = found["sandbox"]
        assert told["found"].startswith(level if level != "none" else "none works"), told
        assert (told["state"], bool(told["fix"])) == (
            ("ok", False) if level == "full" else ("missing", True)
        )
    _, found = checks(tmp_path)
    assert "turned off" in found["sandbox"]["found"]
    assert "sandbox.level" in found["sandbox"]["fix"]
    assert {path.name for path in tmp_path.iterdir()} <= {"home", "kept"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_named_as_the_reason(tmp_path: Path) -> None:
    if asyncio.run(real(tmp_path).find_level()) != "full":
        no_full_sandbox()
    os.chown(tmp_path, pwd.getpwnam("nobody").pw_uid, -1)
    _, found = checks(tmp_path, environ={"DUCKFLOW_SANDBOX__LEVEL": "auto"})
    assert "this folder belongs to nobody" in found["sandbox"]["fix"]


def test_where_the_system_lets_nobody_make_namespaces_the_fix_is_another_one(
    tmp_path: Path,
) -> None:
    """Looked at from within namespaces of a user who may make no others."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("bubblewrap is not installed")
    outer = [bwrap, "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--dev-bind"]
    outer += ["/", "/"]
    made = subprocess.run([*outer, "true"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"bubblewrap cannot keep others from making namespaces: {made.stderr}")
    environ = {
        **os.environ,
        "DUCKFLOW_SANDBOX__LEVEL": "auto",
        "DUCKFLOW_HOME": f"{tmp_path}/home",
        "LANG": "C.UTF-8",
    }
    run = subprocess.run(
        [*outer, *PROGRAM, "--json"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (told,) = (one for one in json.loads(run.stdout) if one["name"] == "sandbox")
    assert told["state"] == "missing"
    assert "every command asks first. bwrap: " in told["found"]
    if not os.path.exists("/usr/bin/bwrap"):
        assert told["fix"] == "Install bubblewrap."
    else:
        assert "--sandbox external" in told["fix"]


@pytest.mark.parametrize(("width", "height"), [(120, 40), (60, 20)])
def test_the_app_shows_the_same_page(tmp_path: Path, width: int, height: int) -> None:
    """In the app, with the model of the session and its server really asked."""
    with served(Script(models=("small", "large"))) as server:
        command = [*PROGRAM[:-1], "--base-url", server.endpoint.base_url, "--model", "large"]
        environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
        environ |= {"DUCKFLOW_SANDBOX__LEVEL": "auto"}  # really tried, beside the screen
        with Terminal(
            command, cwd=tmp_path, environ=environ, width=width, height=height
        ) as terminal:
            terminal.sees("Message")
            terminal.type("/doctor\r")
            model = ("✓ Model       large",) if height == 40 else ()
            terminal.sees("✓ Terminal", "! Colours", "Everything is fine", *model)
            assert height < 40 or re.search(
                "Sandbox +(full, by|partial, by|none works)", terminal.text
            )
            terminal.type("\x1b[B")
            terminal.sees("Unset NO_COLOR to see colours.")
            terminal.type("\x1b")
            terminal.sees("Message")


def test_without_a_model_the_page_goes_to_what_is_in_the_way(tmp_path: Path) -> None:
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home")}
    command = [*PROGRAM[:-1], "--lang", "ja"]
    with Terminal(command, cwd=tmp_path, environ=environ) as terminal:
        terminal.sees("Enter")
        terminal.type("/doctor\r")
        terminal.sees("マシンの確認", "› ✗ モデル", "--base-url")
