"""Arguments → settings → the app or a headless run. The only place that knows all rooms.

Nothing heavy is imported at the top: in a terminal the first frame is drawn before.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from duckflow_tui import __version__
from duckflow_tui.places import Places, language_of, peek_ui
from duckflow_tui.ui.i18n import LANGUAGES, Catalogue

if TYPE_CHECKING:
    from duckflow_tui.compose import Choice
    from duckflow_tui.ui.first_frame import FirstFrame

USAGE_ERROR: Final = 2  # also wrong settings
NO_TEXT: Final = ""  # -p without a text
MODES: Final = ("plan", "strict", "standard", "trusted")
THEMES: Final = ("duck-dark", "duck-light", "duck-contrast")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    places = Places.find()
    ui = peek_ui(places)
    language = _language(arguments, ui)
    # To look for plug-ins of pydantic, it would read the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    args = parser(_help_words(arguments, language)).parse_args(arguments)
    headless = args.prompt is not None
    if not headless and not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _refuse(Catalogue(language)("cli.no_terminal"))
    workspace = Path(args.dir).expanduser()
    if headless:
        return _headless(args, places, workspace, language)
    from duckflow_tui.ui.first_frame import enter

    theme = args.theme or ui.get("theme", "duck-dark")
    frame = enter(language, _title(workspace, args.demo), theme=theme)
    try:
        status = _interactive(args, places, workspace, language, frame)
    finally:
        if frame is not None:
            frame.restore()
    return _leave(status)


def parser(say: Callable[[str], str]) -> argparse.ArgumentParser:
    """The command line; only what exists is on it."""
    made = argparse.ArgumentParser(
        prog="duckflow-tui", description=say("cli.description"), add_help=False, allow_abbrev=False
    )
    made.add_argument("-h", "--help", action="help", help=say("cli.help.help"))
    made.add_argument(
        "--version",
        action="version",
        version=f"duckflow-tui {__version__}",
        help=say("cli.help.version"),
    )
    made.add_argument("--dir", metavar="D", default=".", help=say("cli.help.dir"))
    made.add_argument("--demo", action="store_true", help=say("cli.help.demo"))
    made.add_argument("--mode", choices=MODES, help=say("cli.help.mode"))
    made.add_argument("--base-url", metavar="U", help=say("cli.help.base_url"))
    made.add_argument("--model", metavar="N", help=say("cli.help.model"))
    made.add_argument("--api-key-env", metavar="V", help=say("cli.help.api_key_env"))
    made.add_argument(
        "--protocol", choices=("auto", "tools", "json"), help=say("cli.help.protocol")
    )
    made.add_argument("--lang", choices=LANGUAGES, help=say("cli.help.lang"))
    made.add_argument("--theme", choices=THEMES, help=say("cli.help.theme"))
    made.add_argument("--no-animation", action="store_true", help=say("cli.help.no_animation"))
    headless = made.add_argument_group(say("cli.help.headless"))
    headless.add_argument(
        "-p", dest="prompt", nargs="?", const=NO_TEXT, metavar="TEXT", help=say("cli.help.prompt")
    )
    headless.add_argument("--json", action="store_true", help=say("cli.help.json"))
    headless.add_argument("--stream", action="store_true", help=say("cli.help.stream"))
    headless.add_argument("--max-calls", type=_count, metavar="N", help=say("cli.help.max_calls"))
    return made


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _language(arguments: Sequence[str], ui: dict[str, str]) -> str:
    """The language before anything is parsed, so that the help speaks it too."""
    for index, argument in enumerate(arguments):
        value = ""
        if argument == "--lang" and index + 1 < len(arguments):
            value = arguments[index + 1]
        elif argument.startswith("--lang="):
            value = argument.partition("=")[2]
        if value in LANGUAGES:
            return value
    setting = os.environ.get("DUCKFLOW_UI__LANGUAGE") or ui.get("language", "auto")
    return language_of(setting if setting in LANGUAGES else "auto")


def _help_words(arguments: Sequence[str], language: str) -> Callable[[str], str]:
    """The words of the help where it is asked for; the first frame does not wait for them."""
    if {"-h", "--help"}.isdisjoint(arguments):
        return str
    return Catalogue(language)


def _leave(status: int) -> NoReturn:
    """End now. Loops and threads have ended; to take the modules down one by one would keep the
    shell waiting for a third of a second.
    """
    import logging

    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _title(workspace: Path, demo: bool) -> str:
    return "little-shop" if demo else workspace.absolute().name or str(workspace.absolute())


def _refuse(message: str) -> int:
    print(f"duckflow-tui: {message}", file=sys.stderr)
    return USAGE_ERROR


def _choose(args: argparse.Namespace, places: Places, workspace: Path, language: str) -> Choice:
    from duckflow_tui.compose import Flags, choose, secrets_of
    from duckflow_tui.session.log import open_log

    choice = choose(
        Flags(
            workspace=workspace,
            demo=args.demo,
            mode=args.mode,
            base_url=args.base_url,
            model=args.model,
            api_key_env=args.api_key_env,
            protocol=args.protocol,
            max_calls=args.max_calls,
            theme=args.theme,
            animation=False if args.no_animation else None,
            headless=args.prompt is not None,
        ),
        places,
        language,
    )
    open_log(places.state, secrets_of(choice))
    return choice


def _headless(args: argparse.Namespace, places: Places, workspace: Path, language: str) -> int:
    say = Catalogue(language)
    text: str = args.prompt
    if text == "-" or (text == NO_TEXT and not args.demo and not sys.stdin.isatty()):
        text = sys.stdin.read()
    if not text.strip() and not args.demo:
        return _refuse(say("cli.no_text"))
    if args.stream and not args.json:
        return _refuse(say("cli.stream_needs_json"))
    import asyncio

    from duckflow_tui.compose import Ending, Unusable, open_session
    from duckflow_tui.headless import HeadlessOptions, run

    try:
        choice = _choose(args, places, workspace, language)
    except Unusable as problem:
        return _refuse(str(problem))
    for trouble in choice.problems:
        print(say("settings.problem", problem=trouble), file=sys.stderr)
    if choice.endpoint_missing:
        return _refuse(say("cli.no_endpoint", path=places.settings_file))
    options = HeadlessOptions(text=text, as_json=args.json, stream=args.stream)
    ending = Ending()
    status = asyncio.run(run(lambda spawn: open_session(choice, spawn, ending), options, say))
    if ending.kept is not None:
        print(say("cli.demo_kept", path=ending.kept), file=sys.stderr)
    return status


def _interactive(
    args: argparse.Namespace,
    places: Places,
    workspace: Path,
    language: str,
    frame: FirstFrame | None,
) -> int:
    # What is imported now stays: to look through it for garbage, again and again, is a fifth of
    # the start. The app goes on with it once it takes keys.
    gc.disable()
    # Threads that list files or import would each let a key wait for 5 ms, several times over.
    sys.setswitchinterval(0.001)
    from duckflow_tui.compose import Sessions, Unusable

    try:
        choice = _choose(args, places, workspace, language)
    except Unusable as problem:
        if frame is not None:
            frame.restore()
        return _refuse(str(problem))
    from duckflow_tui.ui.app import DuckflowApp
    from duckflow_tui.ui.session_host import AppOptions

    sessions = Sessions(choice)
    options = AppOptions(
        language=language,
        theme=choice.settings.ui.theme,
        animation=choice.settings.ui.animation,
        notifications=choice.settings.ui.notifications,
        title=_title(workspace, args.demo),
        settings_path=str(places.settings_file),
        problems=tuple(str(problem) for problem in choice.problems),
        data_dir=places.data,
    )
    status = DuckflowApp(sessions, options, frame=frame).run_to_end()
    if sessions.ending.kept is not None:
        print(Catalogue(language)("cli.demo_kept", path=sessions.ending.kept))
    return status
