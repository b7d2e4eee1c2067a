"""``duckflow-tui replay``: finds a session by id or file and replays it on the screen."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from duckflow_tui.command_line import CommandParser
from duckflow_tui.places import Places
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.folders import find_places, list_places
from duckflow_tui.session.replay import Tape, load_tape
from duckflow_tui.sessions_cli import USAGE_ERROR, list_choices, print_refusal
from duckflow_tui.startup_facts import LANGUAGES, THEMES
from duckflow_tui.state.base import one_line
from duckflow_tui.words.catalogue import Catalogue

SLOWEST: Final = 0.25
FASTEST: Final = 16.0


def run_replay(arguments: Sequence[str], places: Places, language: str) -> int:
    """Run the command ``replay`` and return its exit status. Raises SessionFault."""
    say = Catalogue(language)
    args = make_parser(say).parse_args(arguments)
    speed = _parse_speed(args.speed)
    if speed is None:
        return print_refusal(say("replay.cli.bad_speed", given=one_line(args.speed, 40)))
    path = _find_path(args.session, places.state, say)
    if path is None:
        return USAGE_ERROR
    tape = load_tape(path)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return print_refusal(say("cli.no_terminal"))
    return _show_replay(tape, speed, args, places, language)


def make_parser(say: Catalogue) -> CommandParser:
    """Build the parser of ``replay``."""
    made = CommandParser("duckflow-tui replay", "replay.cli.description", say.language, say)
    add = made.add_argument
    add("session", metavar="ID|FILE", help=say("replay.cli.session"))
    add("--speed", metavar="X", default="1", help=say("replay.cli.speed"))
    add("--lang", choices=LANGUAGES, help=say("cli.help.lang"))
    add("--theme", choices=THEMES, help=say("cli.help.theme"))
    add("--no-animation", action="store_true", help=say("cli.help.no_animation"))
    return made


def _parse_speed(text: str) -> float | None:
    """Parse a factor of the recorded speed, such as ``4`` or ``4x``; None for a text that is none
    or outside ``SLOWEST`` to ``FASTEST``.
    """
    try:
        speed = float(text.lower().removesuffix("x").removesuffix("×"))
    except ValueError:
        return None
    return speed if SLOWEST <= speed <= FASTEST else None


def _find_path(given: str, state_dir: Path, say: Catalogue) -> Path | None:
    """Return the named file, or the folder of the session with this id; else print the sessions to
    choose from and return None.
    """
    named = Path(os.path.expanduser(given))
    found = [*find_places(state_dir, given), *find_places(state_dir, given, trash=True)]
    if len(found) == 1:
        return found[0].path
    if not found and (os.path.lexists(named) or "/" in given):
        return named
    key = "replay.cli.several" if found else "replay.cli.unknown"
    print_refusal(say(key, given=visible_line(one_line(given, 80))))
    for row in list_choices(found or list_places(state_dir), state_dir, say):
        print(row, file=sys.stderr)
    return None


def _show_replay(
    tape: Tape, speed: float, args: argparse.Namespace, places: Places, language: str
) -> int:
    """Replay a session in the app and return the exit status."""
    from duckflow_tui.settings import load_settings
    from duckflow_tui.settings_file import save_setting
    from duckflow_tui.ui.app import DuckflowApp
    from duckflow_tui.ui.replay_player import Player
    from duckflow_tui.ui.session_host import AppOptions

    loaded = load_settings(places)
    ui = loaded.settings.ui
    session = tape.state_at(len(tape)).session
    given = {"ui.theme": args.theme, "ui.language": args.lang}
    options = AppOptions(
        language=language,
        theme=args.theme or ui.theme,
        vitals=ui.vitals,
        animation=ui.animation and not args.no_animation,
        notifications=False,
        title=session.title,
        settings=lambda: loaded,
        settings_path=str(places.settings_file),
        keep=lambda key, value, say: save_setting(
            places, key, value, say, by_flag=bool(given.get(key))
        ),
        demo=session.demo,
    )
    status = DuckflowApp(None, options, player=Player(tape, speed=speed)).run_to_end()
    if tape.lost:
        print(Catalogue(language)("replay.cli.lost", count=tape.lost))
    return status
