"""The main job from outside, as the packaging check runs it on the installed program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import smoke

from duckflow_tui import __version__


@pytest.fixture
def program(tmp_path: Path) -> smoke.Program:
    return smoke.Program((sys.executable, "-m", "duckflow_tui"), tmp_path)


def test_the_program_says_its_version(program: smoke.Program) -> None:
    smoke.says_its_version(program, __version__)


def test_the_trusted_demo_changes_a_file(program: smoke.Program) -> None:
    smoke.changes_a_file_when_trusted(program)


def test_the_planning_demo_changes_nothing(program: smoke.Program) -> None:
    smoke.changes_nothing_when_planning(program)


def test_an_edit_is_approved_with_keys_and_is_what_the_diff_showed(program: smoke.Program) -> None:
    smoke.approves_an_edit_with_keys(program)
