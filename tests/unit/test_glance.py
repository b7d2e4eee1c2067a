"""What the first frame knows before anything is parsed: never wrong where it would do harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duckflow_tui.cli import make_parser
from duckflow_tui.places import Places, peek_ui_settings
from duckflow_tui.startup_facts import Glance, look_at_arguments, settings_path

TOKENS = [
    *("--dir", "--demo", "--mode", "--base-url", "--model", "--api-key-env", "--protocol"),
    *("--sandbox", "full", "external"),
    *("--lang", "--theme", "--no-animation", "-p", "-px", "--json", "--stream", "--max-calls"),
    *("-h", "--help", "--version", "--", "-", "", "x", "1", "-1", "plan", "json", "auto", "ja"),
    *("duck-light", "--dir=x", "--lang=en", "--lang=fr", "--mode=plan", "--theme=", "--demo=1"),
    *("--dem", "--model=-p", "--dir=", "=", "doctor"),
]


def looks(*arguments: str, environ: dict[str, str] | None = None) -> Glance:
    seen = look_at_arguments(arguments, environ or {"DUCKFLOW_HOME": "/nowhere"})
    assert seen is not None
    return seen


@given(st.lists(st.sampled_from(TOKENS), max_size=6))
@example(["--dir", "-p"])
@example(["--model", "--help"])
def test_a_frame_is_drawn_only_for_what_the_command_line_takes_as_a_start(argv: list[str]) -> None:
    if look_at_arguments(argv, {"DUCKFLOW_HOME": "/nowhere"}) is None:
        return
    args = make_parser(str).parse_args(argv)  # exits on help and on a mistake
    assert args.prompt is None


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--demo"],
        ["-c"],
        ["--resume"],
        ["--resume", "session_12", "--mode", "plan"],
        ["--resume=12", "--lang=ja"],
        ["--dir", "x", "--mode", "plan", "--base-url", "http://x/v1", "--model", "m"],
        ["--api-key-env=K", "--protocol=json", "--lang=ja", "--theme=duck-light", "--no-animation"],
        ["--sandbox", "full", "--demo"],
    ],
)
def test_every_usual_start_gets_a_frame(argv: list[str]) -> None:
    assert look_at_arguments(argv, {"DUCKFLOW_HOME": "/nowhere"}) is not None


def test_flags_come_before_variables_and_variables_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config" / "settings.toml"
    path.parent.mkdir()
    path.write_text("[ui]\nlanguage = 'ja'\ntheme = \"duck-light\" # mine\n", encoding="utf-8")
    home = {"DUCKFLOW_HOME": str(tmp_path)}
    assert (looks(environ=home).language, looks(environ=home).theme) == ("ja", "duck-light")
    more = {**home, "DUCKFLOW_UI__LANGUAGE": "en", "DUCKFLOW_UI__THEME": "duck-contrast"}
    assert (looks(environ=more).language, looks(environ=more).theme) == ("en", "duck-contrast")
    seen = looks("--lang", "ja", "--theme=duck-dark", environ=more)
    assert (seen.language, seen.theme) == ("ja", "duck-dark")


@pytest.mark.parametrize(
    "text",
    [
        "[ui]\nlanguage = 'ja'\n",
        "\ufeff[ui] # screen\nlanguage = \"ja\"\n[limits]\nlanguage = 'en'\n",
        "[other]\nlanguage = 'ja'\n",
        "language = 'ja'\n",
        "",
    ],
)
def test_the_file_is_read_as_toml_reads_it(tmp_path: Path, text: str) -> None:
    environ = {"DUCKFLOW_HOME": str(tmp_path)}
    places = Places.find(environ)
    places.config.mkdir()
    places.settings_file.write_text(text, encoding="utf-8")
    assert looks(environ=environ).language == peek_ui_settings(places).get("language", "en")


@pytest.mark.parametrize("xdg", ["", "elsewhere"])
def test_the_settings_are_where_the_program_has_them(
    xdg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / xdg) if xdg else "")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / xdg) if xdg else ""}
    assert settings_path(environ) == str(Places.find({}).settings_file)
    home = {"DUCKFLOW_HOME": str(tmp_path / "own")}
    assert settings_path(home) == str(Places.find(home).settings_file)


def test_the_title_is_the_folder(tmp_path: Path) -> None:
    assert looks("--dir", str(tmp_path / "shop")).title == "shop"
    assert looks("--dir", "/").title == "/"
    assert looks("--demo").title == "little-shop"


def test_the_demo_says_that_it_is_one() -> None:
    assert looks("--demo").demo
    assert not looks("--dir", "/").demo
