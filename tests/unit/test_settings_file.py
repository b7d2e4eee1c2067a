"""Choices in the user's settings file: one value changes, and all else is as it was."""

from __future__ import annotations

import itertools
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.places import Places
from duckflow_tui.settings_file import save_setting, write_setting
from duckflow_tui.words.catalogue import Catalogue

SAY = Catalogue("en")

#: What people have in such a file, each with a table that no other has.
PARTS = (
    "# My settings.\n\n",
    '[endpoints.local]\nbase_url = "http://localhost:1/v1"  # at home\nheaders = { a = "1" }\n\n',
    "[approval]\n# never again trusted\nmode = 'strict'\n",
    "[mcp.servers.clock]\ncommand = [\n  'clock',  # the one of the office\n]\n\n",
    "[limits]\r\nmax_cost = 1.50\r\n",
)
UI = (
    "",
    "[ui]\n",
    "[ui]  # how it looks\n# the dark one at night\ntheme = 'duck-dark'  # mine\nduck = false\n",
    '[ui]\nlanguage = "ja"\n\n# and so on\n',
    'ui = { theme = "duck-dark", duck = false }\n',
    'ui.theme = "duck-dark"\nui.duck = false\n',
)


@given(
    parts=st.permutations(PARTS),
    count=st.integers(0, len(PARTS)),
    ui=st.sampled_from(UI),
    place=st.integers(0, len(PARTS)),
    ends=st.sampled_from(("", "\n", "# the end")),
    name=st.sampled_from(("theme", "language", "vitals")),
)
def test_one_value_changes_and_all_else_stays(
    tmp_path_factory: pytest.TempPathFactory,
    parts: Sequence[str],
    count: int,
    ui: str,
    place: int,
    ends: str,
    name: str,
) -> None:
    some = list(parts[:count])
    some.insert(0 if not ui.startswith("[") else min(place, count), ui)
    before = "".join(some) + ends
    file = tmp_path_factory.mktemp("config") / "settings.toml"
    file.write_bytes(before.encode())
    write_setting(file, f"ui.{name}", "chosen")
    after = file.read_bytes().decode()
    expected = tomllib.loads(before)
    expected.setdefault("ui", {})[name] = "chosen"
    assert tomllib.loads(after) == expected
    lines = after.splitlines()
    own = [
        line for line in before.splitlines() if not line.startswith((name, f"ui.{name}", "ui ="))
    ]
    rest = iter(lines)
    assert all(line in rest for line in own), "a line is gone, or stands elsewhere"
    assert ("# mine" in after) == ("# mine" in before)  # behind the value that changed


def places_of(tmp_path: Path) -> Places:
    return Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})


def kept(places: Places, environ: Mapping[str, str] | None = None, *, by_flag: bool = False) -> str:
    return save_setting(
        places, "ui.theme", "duck-light", SAY, by_flag=by_flag, environ=environ or {}
    )


def test_a_file_is_made_for_its_user_alone(tmp_path: Path) -> None:
    places = places_of(tmp_path)
    assert kept(places) == ""
    assert places.settings_file.read_text() == '[ui]\ntheme = "duck-light"\n'
    assert places.settings_file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in places.config.iterdir()] == ["settings.toml"]


def test_a_list_and_a_value_that_is_unset_are_written_to_an_endpoint(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[endpoints.a]  # mine\nbase_url = "http://h/v1"\nmax_output = 9\n')
    write_setting(file, "endpoints.a.max_output", None)
    write_setting(file, "endpoints.a.context", 80)
    write_setting(file, "sandbox.env", ("X", "Y"))
    assert tomllib.loads(file.read_text()) == {
        "endpoints": {"a": {"base_url": "http://h/v1", "context": 80}},
        "sandbox": {"env": ["X", "Y"]},
    }
    assert "# mine" in file.read_text()


def test_a_link_stays_one_and_the_file_keeps_its_rights(tmp_path: Path) -> None:
    """As of people who have their settings in a repository of their own."""
    places, real = places_of(tmp_path), tmp_path / "dotfiles" / "duckflow.toml"
    for folder in (places.config, real.parent):
        folder.mkdir(parents=True)
    real.write_text("\ufeff# mine\n")
    real.chmod(0o644)
    places.settings_file.symlink_to(real)
    assert kept(places) == ""
    assert places.settings_file.is_symlink()
    assert real.read_text() == '# mine\n\n[ui]\ntheme = "duck-light"\n'
    assert real.stat().st_mode & 0o777 == 0o644


def test_what_keeps_a_choice_from_the_next_start_is_said(tmp_path: Path) -> None:
    number = itertools.count()

    def said(content: bytes | None, **environ: str) -> str:
        places = places_of(tmp_path / str(next(number)))
        if content is not None:
            places.config.mkdir(parents=True)
            places.settings_file.write_bytes(content)
        sentence = kept(places, environ)
        if content is not None:
            assert places.settings_file.read_bytes() == content
        return sentence

    assert "DUCKFLOW_UI__THEME sets it" in said(None, DUCKFLOW_UI__THEME="duck-contrast")
    assert "settings.toml:2: not TOML" in said(b"a = 1\nb = = 2\n")
    assert "settings.toml:1: not UTF-8" in said(b"a = '\xff'\n")
    assert "settings.toml: over 256 KB, not read" in said(b"#" * 300_000)
    assert "settings.toml:1: must be a table" in said(b"[[ui]]\ntheme = 'x'\n")


def test_a_variable_that_is_no_theme_prevents_nothing(tmp_path: Path) -> None:
    assert kept(places_of(tmp_path), {"DUCKFLOW_UI__THEME": "mauve"}) == ""


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    places = places_of(tmp_path)
    places.config.mkdir(parents=True)
    places.settings_file.symlink_to("/proc/nobody/settings.toml")
    assert "It was not saved: settings.toml: No such file" in kept(places)
    places.settings_file.unlink()
    os.mkdir(places.settings_file)
    assert "It was not saved: settings.toml: cannot be read" in kept(places)


def test_a_flag_comes_before_what_is_kept(tmp_path: Path) -> None:
    places = places_of(tmp_path)
    assert (
        kept(places, by_flag=True) == "Saved, but a start with --theme uses the value given there."
    )
    assert "duck-light" in places.settings_file.read_text()
