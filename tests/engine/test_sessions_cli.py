"""``duckflow-tui sessions`` as a program: what it prints, writes, moves and refuses."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.prepared import run_program
from support.session_shelf import HOUR, NOW, WORKSPACE, asked, record, replied, shelf

from duckflow_tui.session.folders import session_path
from duckflow_tui.session.resume import resume_journal

SECRET = "hunter2-of-the-shop"


class Shop:
    """A home with the sessions of ``support.session_shelf``, and the program in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "state"
        shelf(self.state)

    def run(self, *arguments: str, language: str = "en") -> subprocess.CompletedProcess[str]:
        environ = {
            **os.environ,
            "DUCKFLOW_HOME": str(self.home),
            "DUCKFLOW_UI__LANGUAGE": language,
            "DUCKFLOW_ENDPOINTS__X__BASE_URL": "http://localhost:1/v1",
            "DUCKFLOW_ENDPOINTS__X__API_KEY_ENV": "SHOP_KEY",
            "SHOP_KEY": SECRET,
            "TZ": "UTC",
        }
        return run_program(["sessions", *arguments], cwd=self.home, environ=environ)

    def path(self, number: int) -> Path:
        return session_path(self.state, WORKSPACE, f"session_0000000{number}")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_the_list_names_each_session_of_the_workspace(shop: Shop) -> None:
    done = shop.run("--dir", WORKSPACE)
    assert done.returncode == 0
    rows = done.stdout.splitlines()
    assert len(rows) == 7
    assert rows[0].split()[:3] == ["session_00000004", "2025-05-29", "23:06"]
    assert "* Release 2.0" in rows[0]
    assert "waiting for approval" in rows[1]
    assert any("written by a later version" in row for row in rows)
    assert "7 sessions" in done.stderr
    assert "session_00000007" in shop.run("list", "--all").stdout
    assert "承認待ち" in shop.run("--dir", WORKSPACE, language="ja").stdout


def test_json_has_all_the_facts(shop: Shop) -> None:
    found = json.loads(shop.run("list", "--json", "--dir", WORKSPACE).stdout)
    facts = {one["session_id"]: one for one in found}["session_00000001"]
    assert (facts["state"], facts["met"], facts["requirements"]) == ("gate", 1, 4)
    assert facts["path"] == str(shop.path(1))


def test_show_says_what_is_known_and_how_it_ends(shop: Shop) -> None:
    done = shop.run("show", "00000001")
    assert done.returncode == 0
    assert "branch        main" in done.stdout
    assert "Discounts are added where they have to be multiplied" in done.stdout


def test_show_of_what_cannot_be_read_says_why(shop: Shop) -> None:
    done = shop.run("show", "session_00000009")
    assert done.returncode == 1
    assert "not a session of this program" in done.stdout


def test_nothing_in_a_journal_acts_on_the_terminal(shop: Shop) -> None:
    bad = "a\x1b]52;c;aGk=\x07b \u202e"
    record(shop.state, "session_0000000a", [asked(bad, NOW), replied(bad, NOW)])
    for arguments in (("--all",), ("show", "0000000a"), ("export", "0000000a", "-o", "-")):
        said = shop.run(*arguments).stdout
        assert "a␛]52;c;aGk=␇b ⟨U+202E⟩" in said
        assert not {char for char in said if ord(char) < 0x20} - {"\n"}


def test_an_export_holds_no_key_and_replaces_nothing(shop: Shop) -> None:
    record(shop.state, "session_0000000a", [asked(f"the key is {SECRET}", NOW - HOUR)])
    done = shop.run("export", "0000000a")
    target = shop.home / "duckflow-session_0000000a.md"
    assert done.returncode == 0
    assert str(target) in done.stdout
    assert target.stat().st_mode & 0o777 == 0o600
    assert "the key is [redacted]" in target.read_text()
    target.write_text("mine")
    refused = shop.run("export", "0000000a")
    assert (refused.returncode, target.read_text()) == (1, "mine")
    assert "--force" in refused.stderr
    assert shop.run("export", "0000000a", "--force").returncode == 0
    assert "the key is [redacted]" in target.read_text()
    assert shop.run("export", "0000000a", "-o", "a.json").returncode == 0
    assert json.loads((shop.home / "a.json").read_text())["duckflow_session"] == 1


def test_delete_moves_restore_brings_back_and_only_force_removes(shop: Shop) -> None:
    done = shop.run("delete", "00000003")
    assert done.returncode == 0
    assert "sessions restore session_00000003" in done.stdout
    assert not shop.path(3).exists()
    assert "session_00000003" in shop.run("--trash", "--dir", WORKSPACE).stdout
    assert shop.run("restore", "00000003").returncode == 0
    assert shop.path(3).is_dir()
    shop.run("delete", "00000003")
    would = shop.run("prune", "--dir", WORKSPACE)
    assert would.returncode == 1
    assert "--force" in would.stdout
    assert shop.run("restore", "00000003").returncode == 0
    shop.run("delete", "00000003")
    assert shop.run("prune", "--force", "--dir", WORKSPACE).returncode == 0
    assert shop.run("restore", "00000003").returncode == 2
    assert len(list(shop.path(3).parent.iterdir())) == 7


def test_a_session_that_is_open_is_not_deleted(shop: Shop) -> None:
    resumed = resume_journal(shop.path(3), NOW)
    try:
        done = shop.run("delete", "00000003")
    finally:
        resumed.journal.close_now()
    assert done.returncode == 1
    assert str(os.getpid()) in done.stderr
    assert shop.path(3).is_dir()


@pytest.mark.parametrize("arguments", [("show",), ("show", "nope"), ("delete", "session_0")])
def test_an_id_that_means_none_or_several_is_a_wrong_use(
    shop: Shop, arguments: tuple[str, ...]
) -> None:
    done = shop.run(*arguments, "--dir", WORKSPACE)
    assert done.returncode == 2
    assert len(arguments) == 1 or "session_00000002" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_elsewhere_is_named_where_nothing_is_here(shop: Shop) -> None:
    """Nobody is told of an empty list or trash that is only another folder's."""
    shop.run("delete", "00000003")
    listed = shop.run()
    assert listed.stdout == ""
    assert "0 sessions" in listed.stderr
    assert "in other folders: --all" in listed.stderr
    assert "in other folders" not in shop.run("--all").stderr
    pruned = shop.run("prune")
    assert (
        pruned.stdout == "Nothing from this folder is in the trash. · 1 in other folders: --all\n"
    )
    would = shop.run("prune", "--all")
    assert would.returncode == 1
    assert "1 session, " in would.stdout
    unknown = shop.run("show", "zzzz")
    assert unknown.returncode == 2
    assert "Sessions here" not in unknown.stderr
    assert "in other folders: --all" in unknown.stderr


def test_lists_of_what_could_be_meant_have_titles(shop: Shop, tmp_path: Path) -> None:
    environ = {**os.environ, "DUCKFLOW_HOME": str(shop.home)}
    shop_dir = tmp_path / "work"
    shop_dir.mkdir()

    def said(*arguments: str) -> str:
        done = run_program(arguments, cwd=shop_dir, environ=environ)
        assert done.returncode == 2
        return done.stderr

    assert "The total is wrong when two discounts apply" in said("replay", "zzz")
    record(shop.state, "session_0000000b", [asked("Sort the shelf", NOW)], workspace=str(shop_dir))
    headless = ("-p", "go on", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert "Sort the shelf" in said(*headless, "--resume", "zzz")
    gone = said(*headless, "--resume", "00000001")
    assert f"worked in {WORKSPACE}, which no longer exists" in gone
    assert "duckflow-tui replay session_00000001" in gone


def test_the_figures_are_shown_month_by_month(shop: Shop) -> None:
    """Covers S1-51."""
    rows = [row.split() for row in shop.run("--stats", "--all").stdout.splitlines()]
    assert rows[0][:3] == ["Month", "Sessions", "Requests"]
    assert rows[1:] == [
        ["2025-06", "1", "1", "0", "100", "%", "1.0", "–", "1", "–", "0"],
        ["2025-05", "1", "1", "0", "100", "%", "1.0", "–", "1", "–", "0"],
        ["All", "2", "2", "0", "100", "%", "1.0", "–", "2", "–", "0"],
    ]
    found = json.loads(shop.run("--stats", "--json", "--dir", "/work/till").stdout)
    assert {month: of["turns"] for month, of in found.items()} == {"2025-06": 1}
