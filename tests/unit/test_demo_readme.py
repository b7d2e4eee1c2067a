"""The README says what is so."""

from __future__ import annotations

import re

from support.readme_tables import README, with_tables

from duckflow_tui import cli, models_cli, replay_cli, sessions_cli
from duckflow_tui.cli import USAGE_ERROR
from duckflow_tui.commands import COMMANDS
from duckflow_tui.headless import EXIT_STATUS, WAITS
from duckflow_tui.words.catalogue import Catalogue

TEXT = README.read_text(encoding="utf-8")


def test_its_tables_are_those_of_the_registry_and_the_settings() -> None:
    assert with_tables(TEXT) == TEXT, "python tests/support/readme_tables.py writes them"


def test_it_starts_with_the_commands_that_work() -> None:
    begin = "python3 -m venv .venv && .venv/bin/pip install "
    assert f"    {begin}. && .venv/bin/duckflow-tui --demo\n" in TEXT
    assert f"    {begin}-e '.[dev]' && .venv/bin/pytest\n" in TEXT


def test_it_names_only_flags_and_commands_that_exist() -> None:
    flags = {
        option
        for made in (m.parser(Catalogue()) for m in (cli, sessions_cli, replay_cli, models_cli))
        for action in made._actions  # pyright: ignore[reportPrivateUsage]  # argparse has no other list
        for option in action.option_strings
    }
    calls = re.findall(r"duckflow-tui[^\n|]*", TEXT)
    used = {flag for call in calls for flag in re.findall(r"(?<!\S)--?[a-z][a-z-]*", call)}
    assert used <= flags
    assert "--demo" in used
    slashed = set(re.findall(r"`/([a-z]+)", TEXT)) - {"v"}
    assert slashed <= {name for command in COMMANDS for name in (command.name, *command.also)}


def test_its_exit_statuses_are_those_of_a_run_without_a_screen() -> None:
    rows = {int(status) for status in re.findall(r"^\| (\d+) \| ", TEXT, re.M)}
    assert rows == {*EXIT_STATUS.values(), USAGE_ERROR, WAITS}


def test_its_pictures_exist() -> None:
    pictures = re.findall(r"\]\((screenshots/[^)]+)\)", TEXT)
    assert pictures
    assert [name for name in pictures if not (README.parent / name).is_file()] == []
