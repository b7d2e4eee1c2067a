"""What the command line says of a mistake, and the system of an error, in the user's language."""

from __future__ import annotations

import errno
import os
import re
import sys

import pytest

from duckflow_tui import cli, doctor_cli, models_cli, replay_cli, sessions_cli
from duckflow_tui.command_line import CommandParser
from duckflow_tui.words.catalogue import Catalogue, load_entries

COMMANDS = [m.make_parser for m in (doctor_cli, models_cli, replay_cli, sessions_cli)]
#: What may stand in a line of Japanese: what was typed, and the names of flags and values.
NAMES = re.compile(r"[A-Z|]{2,}|duckflow-tui( [a-z]+)?|--?[a-z][a-z-]*|'[^']*'|\[[^]]*\]|action")


def parsers(language: str) -> list[CommandParser]:
    say = Catalogue(language)
    return [
        cli.make_parser(str, language),
        cli.make_parser(say, language),
        *(make(say) for make in COMMANDS),
    ]


@pytest.mark.parametrize(
    ("language", "usage", "said"),
    [("en", "usage: ", ": error: "), ("ja", "使い方: ", ": エラー: ")],
)
@pytest.mark.parametrize(
    "arguments",
    [["--nope"], ["--lang"], ["--lang", "xx"], ["--lang=xx"], ["--help=x"], ["a", "b", "c"]],
    ids=" ".join,
)
def test_a_mistake_is_said_in_one_language(
    capsys: pytest.CaptureFixture[str], arguments: list[str], language: str, usage: str, said: str
) -> None:
    """Of each command line, with the status of a wrong usage."""
    for made in parsers(language):
        with pytest.raises(SystemExit) as ended:
            made.parse_args(arguments)
        assert ended.value.code == 2
        text = capsys.readouterr().err
        assert text.startswith(usage)
        line = text.splitlines()[-1]
        assert line.startswith(f"{made.prog}{said}")
        wrong = line.removeprefix(f"{made.prog}{said}")
        plain = NAMES.sub("", wrong)
        assert re.search(r"[ぁ-ん]" if language == "ja" else r"[a-z]{4}", plain)
        assert re.search(r"[a-z]{3}" if language == "ja" else r"[ぁ-ん]", plain) is None


@pytest.mark.parametrize(
    ("arguments", "newest", "request_text"),
    [
        (["-c"], True, ""),
        (["fix it"], False, "fix it"),
        (["-c", "fix it"], True, "fix it"),
        (["--mode", "plan", "fix it", "--lang", "ja"], False, "fix it"),
        (["--resume", "1f2e", "fix it"], False, "fix it"),
        (["--", "-5 is wrong"], False, "-5 is wrong"),
    ],
)
def test_a_start_goes_on_with_a_session_and_with_a_request(
    arguments: list[str], newest: bool, request_text: str
) -> None:
    args = cli.make_parser(str).parse_args(arguments)
    assert (args.newest, args.request) == (newest, request_text)


def test_a_request_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-p", "fix it", "fix it"]) == cli.USAGE_ERROR
    assert "-p" in capsys.readouterr().err


def test_the_help_has_no_english_title_in_japanese() -> None:
    for made in parsers("ja")[1:]:
        text = made.format_help()
        assert "使い方: " in text
        assert "オプション:" in text
        assert not re.search(r"usage|options|positional|arguments:", text)


def test_what_was_typed_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.make_parser(str, "ja").parse_args(["--no\x1b[2Jpe"])
    assert "\x1b" not in capsys.readouterr().err


# --- errors of the system -------------------------------------------------------------------------


def names() -> list[str]:
    return [key.partition(".")[2] for key in load_entries("en") if key.startswith("errno.")]


def test_each_error_of_the_system_is_said_in_the_users_language() -> None:
    """Alone, behind a name and in front of one, with and without its number."""
    say, english = Catalogue("ja"), Catalogue("en")
    for name in names():
        number = getattr(errno, name)
        theirs, ours = os.strerror(number), load_entries("ja")[f"errno.{name}"]
        forms = ("{}", "a b.txt: {}", "{}: a b.txt")
        for form in forms:
            told = say("connect.not_kept", reason=form.format(theirs))
            assert told == say("connect.not_kept", reason="X").replace("X", form.format(ours))
            numbered = form.format(f"[Errno {number}] {theirs}")
            assert say.translate_error(numbered) == form.format(ours)
            assert form.format(theirs) in english("connect.not_kept", reason=form.format(theirs))
        if sys.platform == "linux":
            assert load_entries("en")[f"errno.{name}"] == theirs


def test_what_a_library_says_of_a_connection_is_said_in_japanese() -> None:
    """The libraries' own sentences, word for word, are the English entries."""
    say, english = Catalogue("ja"), Catalogue("en")
    known = {key: text for key, text in load_entries("en").items() if key.startswith("library.")}
    assert len(known) > 5
    for key, theirs in known.items():
        ours = load_entries("ja")[key]
        assert say("llm.error.cut", host="h", detail=theirs).count(f"（{ours}）") == 1
        assert f": {theirs}. " in english("llm.error.cut", host="h", detail=theirs)
    numbered = "[Errno -2] Name or service not known"
    assert say.translate_error(numbered) == load_entries("ja")["library.unknown_name"]


def test_what_only_looks_like_an_error_stays() -> None:
    """A path is not an error, and words of others that hold one are theirs."""
    say = Catalogue("ja")
    assert "Permission denied" in say("cli.not_a_folder", path="Permission denied")
    assert say.translate_error("the Is a directory rule") == "the Is a directory rule"
    assert say.translate_error("Errno of nobody") == "Errno of nobody"
