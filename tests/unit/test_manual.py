"""The manual: every page in both languages, true of flags, commands, keys and settings."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from support.manual_tables import LISTS, with_list

from duckflow_tui import cli, help_cli, models_cli, replay_cli, sessions_cli
from duckflow_tui.cli import USAGE_ERROR
from duckflow_tui.commands import COMMANDS
from duckflow_tui.headless import EXIT_STATUS, WAITS
from duckflow_tui.manual import INDEX, TOPICS, page_path, read_page
from duckflow_tui.startup_facts import LANGUAGES
from duckflow_tui.words.catalogue import Catalogue, load_entries

ROOT = Path(__file__).resolve().parents[2]
READMES = [ROOT / "README.md", ROOT / "README.ja.md"]
PAGES = [page_path(topic, lang) for lang in LANGUAGES for topic in (INDEX, *TOPICS)]
DOCUMENTS = [
    *READMES,
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("topic", LISTS)
def test_keys_and_settings_are_those_of_the_program(topic: str, language: str) -> None:
    written = read_page(topic, language)
    assert written == with_list(topic, language), "python tests/support/manual_tables.py"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_names_only_what_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    parsers = (
        m.make_parser(Catalogue()) for m in (cli, sessions_cli, replay_cli, models_cli, help_cli)
    )
    flags = {
        option
        for made in parsers
        for action in made._actions  # pyright: ignore[reportPrivateUsage]  # argparse has no other list
        for option in action.option_strings
    }
    calls = re.findall(r"duckflow-tui[^\n|`#]*", text)
    assert {flag for call in calls for flag in re.findall(r"(?<!\S)--?[a-z][a-z-]*", call)} <= flags
    names = {name for command in COMMANDS for name in (command.name, *command.also)}
    assert set(re.findall(r"`/([a-z]+)[`\s]", text)) <= names
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_page_leads_to_every_other(language: str) -> None:
    links = re.findall(r"\]\(([a-z]+)\.md\)", read_page(INDEX, language))
    assert links == list(TOPICS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_exit_statuses_are_those_of_a_run_without_a_screen(language: str) -> None:
    rows = {
        int(number) for number in re.findall(r"^\| (\d+) \|", read_page("headless", language), re.M)
    }
    assert rows == {*EXIT_STATUS.values(), USAGE_ERROR, WAITS, cli.UNREAD}


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_the_readme_is_short_and_starts_with_commands_that_work(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert len(text.encode()) <= 14_336
    begin = "python3 -m venv .venv && .venv/bin/pip install "
    assert f"    {begin}. && .venv/bin/duckflow-tui --demo" in text
    assert f"    {begin}-e '.[dev]' && .venv/bin/pytest\n" in text


def help_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "duckflow_tui", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_help_names_every_other_command() -> None:
    printed = help_command("--lang", "en", "--help").stdout
    (others,) = re.findall(r"Other commands: ([^;]+);", printed)
    assert others.split(", ") == [name for (name,) in cli.NAMED]


def test_a_page_is_printed_in_the_language_asked_for() -> None:
    printed = help_command("--lang", "ja", "help", "models")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert printed.stdout == read_page("models", "ja")
    assert help_command("help", "--lang", "en").stdout == read_page(INDEX, "en")


def test_an_unknown_page_names_the_nearest_and_all_there_are() -> None:
    refused = help_command("--lang", "en", "help", "setings\x1b[31m")
    assert (refused.returncode, refused.stdout) == (USAGE_ERROR, "")
    assert "Nearest: settings. Pages: start, models" in refused.stderr
    assert "\x1b" not in refused.stderr


@pytest.mark.parametrize("name", ["AGENTS.md", "CONTRIBUTING.md"])
def test_files_and_functions_that_are_named_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False
    ).stdout.split()
    files = listed or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.*")]
    wrong: list[str] = []
    for word in re.findall(r"`([\w/*.]+\.(?:py|toml|md|tcss)(?::[\w.]+)?)`", text):
        path, _, symbol = word.partition(":")
        found = [file for file in files if fnmatch(f"/{file}", f"*/{path}")]
        member = symbol.rpartition(".")[2]
        is_defined = not symbol or any(
            re.search(rf"\b(?:def|class) {member}\b", (ROOT / file).read_text(encoding="utf-8"))
            for file in found
        )
        if not (found and is_defined):
            wrong.append(word)
    assert wrong == []


@pytest.mark.parametrize(("language", "quotes"), [("en", '"([^"]+)"'), ("ja", "「([^」]+)」")])
def test_what_the_manual_quotes_from_the_screen_stands_there(language: str, quotes: str) -> None:
    """``…`` stands for what is filled in."""
    entries = load_entries(language).values()
    texts = [re.sub(r"\{\w+\}", "…", re.sub(r"\{\w+:.*?\|(.*?)\}", r"… \1", e)) for e in entries]
    rows = [
        row for row in read_page("troubleshooting", language).split("\n") if row.startswith("|")
    ]
    quoted = [said for row in rows for said in re.findall(quotes, row.split("|")[1])]
    assert len(quoted) > 5
    assert [said for said in quoted if not any(said in text for text in texts)] == []
    assert load_entries(language)["review.unproven"] in read_page("done", language)
