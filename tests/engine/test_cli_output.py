"""What the commands print: to a reader that leaves, and in the language that was named first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.prepared import UNTOUCHED, run_program

from duckflow_tui.cli import UNREAD, USAGE_ERROR

PROGRAM = [sys.executable, "-m", "duckflow_tui"]


def environ(tmp_path: Path) -> dict[str, str]:
    return {**UNTOUCHED, "DUCKFLOW_HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}


@pytest.mark.parametrize(
    ("arguments", "buffered"),
    [
        (["doctor"], ""),  # which writes at the end
        (["doctor"], "1"),  # and this at once
        (["doctor", "--json"], ""),
        (["models"], "1"),
        (["sessions"], ""),
        (["--help"], "1"),
        (["replay", "--help"], ""),
    ],
)
def test_a_reader_that_leaves_ends_it_without_a_traceback(
    tmp_path: Path, arguments: list[str], buffered: str
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    try:
        ended = subprocess.run(
            [*PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=writes,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**environ(tmp_path), "PYTHONUNBUFFERED": buffered},
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writes)
    assert "Broken" not in ended.stderr
    assert "Traceback" not in ended.stderr
    if arguments != ["sessions"]:  # of which there are none to print
        assert ended.returncode == UNREAD


@pytest.mark.parametrize("before", [["--lang", "ja"], ["--lang=ja"]], ids=" ".join)
@pytest.mark.parametrize("command", ["doctor", "models"])
def test_a_command_may_stand_behind_the_language(
    tmp_path: Path, command: str, before: list[str]
) -> None:
    def said(*arguments: str) -> str:
        ended = run_program(arguments, cwd=tmp_path, environ=environ(tmp_path))
        assert ended.returncode != USAGE_ERROR
        assert not {"usage:", "使い方:"} & {*ended.stderr.split()}
        return (ended.stdout + ended.stderr).partition("\n")[0]

    assert said(*before, command) == said(command, "--lang", "ja") != said(command)
