"""What a run without a screen says on standard error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.serving import served
from support.session import action, decision, done, script


def run(tmp_path: Path, base_url: str) -> subprocess.CompletedProcess[str]:
    work = tmp_path / "work"
    work.mkdir()
    return subprocess.run(
        [sys.executable, "-m", "duckflow_tui", "--base-url", base_url, "--model", "m", "-p", "go"],
        cwd=work,
        env={"DUCKFLOW_HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_outcome_of_an_operation_is_said_in_words(tmp_path: Path) -> None:
    """R19: what was denied is said."""
    write = action("file_ops.write_file", path="../x", content="x")
    with served(script(decision("I write.", write), done())) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert ended.returncode == 3
    row = next(line for line in ended.stderr.splitlines() if "../x" in line)
    assert row.endswith(" denied")
    assert "outcome." not in ended.stderr


def test_an_address_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    ended = run(tmp_path, "htp:/x")
    assert ended.returncode == 2
    assert ended.stderr == (
        "duckflow-tui: --base-url cannot be used: "
        "must begin with https:// or http:// and name a host\n"
    )
