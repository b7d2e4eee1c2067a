"""The main job from outside, with the program of this tree or with an installed one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support import smoke

from duckflow_tui import __version__

#: The path of an installed program, which ``.ci/run`` names; else it is started from this tree.
INSTALLED = os.environ.get("DUCKFLOW_TEST_PROGRAM", "")


@pytest.fixture
def program(tmp_path: Path) -> smoke.Program:
    command = (INSTALLED,) if INSTALLED else (sys.executable, "-m", "duckflow_tui")
    return smoke.Program(command, tmp_path)


def test_the_program_says_its_version(program: smoke.Program) -> None:
    smoke.says_its_version(program, __version__)


def test_the_program_brings_its_manual(program: smoke.Program) -> None:
    smoke.prints_its_manual(program)


def test_the_trusted_demo_changes_a_file(program: smoke.Program) -> None:
    smoke.changes_a_file_when_trusted(program)


def test_the_planning_demo_changes_nothing(program: smoke.Program) -> None:
    smoke.changes_nothing_when_planning(program)


@pytest.mark.long
def test_an_edit_is_approved_with_keys_and_is_what_the_diff_showed(program: smoke.Program) -> None:
    smoke.approves_an_edit_with_keys(program)
