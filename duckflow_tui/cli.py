"""The entry point: parses the arguments and runs the app, a headless turn or another command.

Imports at the top only modules that Python loads anyway: the first frame is drawn before all other
imports, and even ``argparse`` and ``pathlib`` would delay it.
"""

from __future__ import annotations

import gc
import os
import sys

from duckflow_tui.startup_facts import (
    LANGUAGES,
    MODES,
    PROTOCOLS,
    SANDBOXES,
    THEMES,
    look_at_arguments,
    resolve_language,
)
from duckflow_tui.streams import guard_streams, output_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Final, NoReturn, TextIO

    from duckflow_tui.choice import SessionChoice
    from duckflow_tui.command_line import CommandParser
    from duckflow_tui.places import Places
    from duckflow_tui.session.faults import SessionFault
    from duckflow_tui.settings import SettingProblem
    from duckflow_tui.shutdown import Ending
    from duckflow_tui.ui.first_frame import FirstFrame
    from duckflow_tui.words.catalogue import Catalogue

FAILED: Final = 1
USAGE_ERROR: Final = 2  # also wrong settings
INTERRUPTED: Final = 130  # by SIGINT, before there was a turn to stop
UNREAD: Final = 141  # nobody reads the output, as after SIGPIPE
NO_TEXT: Final = ""  # -p without a text
#: Commands with a command line of their own: ``run_NAME`` of the module ``NAME_cli``.
NAMED: Final = (["sessions"], ["replay"], ["doctor"], ["models"], ["help"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status. Errors are printed as a sentence. After the app
    was on the screen the process exits here.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    guard_streams()
    try:
        status, drawn = _run_framed(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit:  # of argparse, which does not report a help that could not be written
        if (lost := output_error()) is None:
            raise
        return _print_error(lost, arguments)
    except Exception as error:  # noqa: BLE001 - the last place that can put it into words
        return _print_error(error, arguments)
    return _exit_now(status) if drawn else status


def _run_framed(arguments: Sequence[str]) -> tuple[int, bool]:
    """Run the command with the first frame, which is removed from the screen in any case. Returns
    the exit status, and whether the app was on the screen.
    """
    frame = _draw_first_frame(arguments)
    try:
        return _run_command(arguments, frame)
    finally:
        if frame is not None:
            frame.restore()
        sys.stdout.flush()  # also after the help, which ends by an exception


def _print_error(error: Exception, arguments: Sequence[str]) -> int:
    """Print the error that ended the program and return the exit status. An unexpected error is
    logged; it is raised again where ``DUCKFLOW_DEBUG`` is set.
    """
    lost = output_error()
    if isinstance(lost, BrokenPipeError):
        return UNREAD
    from duckflow_tui.choice import Unusable
    from duckflow_tui.places import NoHome
    from duckflow_tui.session.faults import SessionFault

    say = _load_words(_find_language(arguments, {}))
    if lost is not None:
        return _print_refusal(say("cli.unwritten", error=lost.strerror or str(lost)), FAILED)
    if isinstance(error, Unusable):
        _print_problems(error.problems, say)
        return _print_refusal(str(error))
    if isinstance(error, SessionFault):
        return _print_refusal(_describe_fault(error, say))
    if isinstance(error, NoHome):
        return _print_refusal(say("cli.no_home"))
    if isinstance(error, FileNotFoundError) and error.filename is None:  # as ``getcwd`` raises it
        return _print_refusal(say("cli.cwd_gone"))
    return _print_refusal(_log_error(error, say), FAILED)


def _log_error(error: Exception, say: Catalogue) -> str:
    """Log an unexpected error and return it in words; raises it again where ``DUCKFLOW_DEBUG`` is
    set.
    """
    from contextlib import suppress

    from duckflow_tui.places import Places, find_log_file
    from duckflow_tui.session.faults import log_fault, open_log

    if os.environ.get("DUCKFLOW_DEBUG"):
        raise error
    if not find_log_file():
        with suppress(OSError):  # perhaps the very error
            open_log(Places.find().state, ())
    words = say.localize(log_fault(error))
    if isinstance(error, OSError) and error.strerror:
        name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
        return say.translate_error(": ".join(filter(None, (name, error.strerror))))
    return words


def _draw_first_frame(arguments: Sequence[str]) -> FirstFrame | None:
    """Draw the first frame and return it, if the arguments certainly start the app in a terminal;
    else None.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    look = look_at_arguments(arguments)
    if look is None:
        return None
    from duckflow_tui.ui.first_frame import enter

    return enter(look.language, look.title, theme=look.theme, demo=look.demo)


def _run_command(arguments: Sequence[str], frame: FirstFrame | None) -> tuple[int, bool]:
    """Run what the arguments ask for. Returns the exit status, and whether the app was on the
    screen.
    """
    from duckflow_tui.places import Places, peek_ui_settings

    places = Places.find()
    language = _find_language(arguments, peek_ui_settings(places))
    # Without this pydantic reads the metadata of every installed package to find plug-ins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    arguments = _skip_language(arguments)
    if arguments[:1] in NAMED:
        from importlib import import_module

        run = getattr(import_module(f"duckflow_tui.{arguments[0]}_cli"), f"run_{arguments[0]}")
        return run(arguments[1:], places, language), False
    args = make_parser(_find_help_words(arguments, language), language).parse_args(arguments)
    if args.context is not None and _parse_count(args.context) is None:
        return _print_refusal(_load_words(language)("cli.bad_context", given=args.context)), False
    if args.max_calls is not None and _parse_count(args.max_calls) is None:
        return _print_refusal(
            _load_words(language)("cli.bad_max_calls", given=args.max_calls)
        ), False
    from duckflow_tui.command_line import folder_named

    workspace = folder_named(args.dir)
    if args.resume is not None and (args.demo or args.no_session):
        return _print_refusal(_load_words(language)("resume.alone")), False
    if args.newest and (args.resume is not None or args.demo or args.no_session):
        return _print_refusal(_load_words(language)("cli.continue_alone")), False
    if args.prompt is not None and args.request:
        return _print_refusal(_load_words(language)("cli.request_twice")), False
    if args.prompt is not None:
        return _run_headless(args, places, workspace, language), False
    for wrong, key in (
        (args.allow, "cli.allow_needs_prompt"),
        (args.sandboxed, "cli.sandboxed_needs_prompt"),
        (args.trust, "cli.trust_needs_prompt"),
        (args.json or args.stream, "cli.json_needs_prompt"),
        (args.no_session, "cli.no_session_needs_prompt"),
        (not (sys.stdin.isatty() and sys.stdout.isatty()), "cli.no_terminal"),
    ):
        if wrong:
            return _print_refusal(_load_words(language)(key)), False
    return _run_interactive(args, places, workspace, language, frame), True


def make_parser(say: Callable[[str], str], language: str = "en") -> CommandParser:
    """Build the parser of the main command line."""
    from duckflow_tui import __version__
    from duckflow_tui.command_line import CommandParser

    made = CommandParser("duckflow-tui", "cli.description", language, say)
    made.epilog = say("cli.others")
    add = made.add_argument
    version = f"duckflow-tui {__version__}"
    add("request", nargs="?", default="", metavar="PROMPT", help=say("cli.help.request"))
    add("--version", action="version", version=version, help=say("cli.help.version"))
    add("--dir", metavar="D", default=".", help=say("cli.help.dir"))
    add("--demo", action="store_true", help=say("cli.help.demo"))
    add("--resume", nargs="?", const="", metavar="ID", help=say("cli.help.resume"))
    add("-c", "--continue", dest="newest", action="store_true", help=say("cli.help.continue"))
    add("--mode", choices=MODES, help=say("cli.help.mode"))
    add("--sandbox", choices=SANDBOXES, help=say("cli.help.sandbox"))
    add("--base-url", metavar="U", help=say("cli.help.base_url"))
    add("--model", metavar="N", help=say("cli.help.model"))
    add("--api-key-env", metavar="V", help=say("cli.help.api_key_env"))
    add("--protocol", choices=PROTOCOLS, help=say("cli.help.protocol"))
    add("--context", metavar="TOKENS", help=say("cli.help.context"))
    add("--lang", choices=LANGUAGES, help=say("cli.help.lang"))
    add("--theme", choices=THEMES, help=say("cli.help.theme"))
    add("--no-animation", action="store_true", help=say("cli.help.no_animation"))
    add = made.add_argument_group(say("cli.help.headless")).add_argument
    add("-p", dest="prompt", nargs="?", const=NO_TEXT, metavar="TEXT", help=say("cli.help.prompt"))
    add("--json", action="store_true", help=say("cli.help.json"))
    add("--stream", action="store_true", help=say("cli.help.stream"))
    add("--deny", action="append", default=[], metavar="WORDS", help=say("cli.help.deny"))
    add("--allow", action="append", default=[], metavar="ARGV", help=say("cli.help.allow"))
    add("--trust", action="store_true", help=say("cli.help.trust"))
    add("--sandboxed", action="store_true", help=say("cli.help.sandboxed"))
    add("--no-session", action="store_true", help=say("cli.help.no_session"))
    add("--max-calls", metavar="N", help=say("cli.help.max_calls"))
    return made


def _parse_count(text: str) -> int | None:
    """Parse an integer from 1 to 999,999,999; None for any other text."""
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) > 0 else None


def _find_language(arguments: Sequence[str], ui: dict[str, str]) -> str:
    """Return the language of ``--lang``, the environment or the settings, before arguments are
    parsed, so that the help is in it too.
    """
    for index, argument in enumerate(arguments):
        value = ""
        if argument == "--lang" and index + 1 < len(arguments):
            value = arguments[index + 1]
        elif argument.startswith("--lang="):
            value = argument.partition("=")[2]
        if value in LANGUAGES:
            return value
    setting = os.environ.get("DUCKFLOW_UI__LANGUAGE") or ui.get("language", "auto")
    return resolve_language(setting)


def _skip_language(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments without a leading ``--lang`` where a command follows it; else all of
    them.
    """
    said = 0
    if arguments[:1] == ["--lang"]:
        said = 2
    elif arguments and arguments[0].startswith("--lang="):
        said = 1
    return arguments[said:] if arguments[said : said + 1] in NAMED else arguments


def _find_help_words(arguments: Sequence[str], language: str) -> Callable[[str], str]:
    """Return the words of the help where it was asked for, else a function without words, because
    loading them would delay the first frame.
    """
    if {"-h", "--help"}.isdisjoint(arguments):
        return str
    return _load_words(language)


def _load_words(language: str) -> Catalogue:
    """Return the catalogue of this language; imports it only now."""
    from duckflow_tui.words.catalogue import Catalogue

    return Catalogue(language)


def _exit_now(status: int) -> NoReturn:
    """Flush the outputs and end the process without the interpreter's clean-up, which takes a third
    of a second.
    """
    import logging

    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _print_refusal(message: str, status: int = USAGE_ERROR) -> int:
    """Print a message on standard error; return ``status``."""
    print(f"duckflow-tui: {message}", file=sys.stderr)
    return status


def _print_problems(problems: Sequence[SettingProblem], say: Catalogue) -> None:
    """Print the problems of the settings on standard error."""
    for problem in problems:
        print(say("settings.problem", problem=problem.describe_problem(say)), file=sys.stderr)


def _choose_session(
    args: argparse.Namespace, places: Places, workspace: Path, language: str
) -> SessionChoice:
    """Resolve arguments and settings to the session to open, and open the log file. Raises Unusable
    or SessionFault.
    """
    from duckflow_tui.choice import Flags, choose_session, list_secrets
    from duckflow_tui.llm.contacts import Contacts, outside
    from duckflow_tui.session.faults import open_log

    session_id = ""
    if args.resume is not None or args.newest:
        from duckflow_tui.sessions_cli import find_session_id

        session_id = find_session_id(
            args.resume or "", workspace, places.state, _load_words(language)
        )
    choice = choose_session(
        Flags(
            workspace=workspace,
            demo=args.demo,
            mode=args.mode,
            sandbox=args.sandbox,
            base_url=args.base_url,
            model=args.model,
            api_key_env=args.api_key_env,
            protocol=args.protocol,
            context=_parse_count(args.context or ""),
            max_calls=_parse_count(args.max_calls or ""),
            deny=tuple(args.deny),
            allow=tuple(args.allow),
            theme=args.theme,
            animation=False if args.no_animation else None,
            headless=args.prompt is not None,
            resume=session_id,
            no_session=args.no_session,
            trust=args.trust,
        ),
        places,
        language,
    )
    places.close_to_others()
    outside.set(Contacts())
    open_log(places.state, list_secrets(choice.settings))
    return choice


def _run_headless(args: argparse.Namespace, places: Places, workspace: Path, language: str) -> int:
    """Run one turn without a screen (``-p``) and return its exit status."""
    say = _load_words(language)
    text: str = args.prompt
    is_piped = text == "-" or (text == NO_TEXT and not args.demo and not sys.stdin.isatty())
    if is_piped:
        text = sys.stdin.read()
    if not text.strip() and not args.demo:
        return _print_refusal(say("cli.no_text"))
    if args.stream and not args.json:
        return _print_refusal(say("cli.stream_needs_json"))
    import asyncio

    from duckflow_tui.headless import HeadlessOptions, run_turn
    from duckflow_tui.sessions import open_session
    from duckflow_tui.shutdown import Ending

    choice = _choose_session(args, places, workspace, language)
    _print_problems(choice.problems, say)
    if choice.endpoint_missing:
        from duckflow_tui.model_choice import settle_model

        choice, line = asyncio.run(settle_model(choice))
        print(line, file=sys.stderr)
    options = HeadlessOptions(text, args.json, args.stream, args.sandboxed, is_piped)
    ending = Ending()
    status = asyncio.run(run_turn(lambda spawn: open_session(choice, spawn, ending), options, say))
    if ending.kept_project is not None:
        print(say("cli.demo_kept", path=str(ending.kept_project)), file=sys.stderr)
    if not args.json:  # the first JSON record names the session
        _print_resume_command(ending, args, workspace, say, sys.stderr)
    return status


def _run_interactive(
    args: argparse.Namespace,
    places: Places,
    workspace: Path,
    language: str,
    frame: FirstFrame | None,
) -> int:
    """Run the app until the user leaves and return its exit status."""
    # Garbage collection during the imports takes a fifth of the start and finds nothing. The app
    # turns it on again once it accepts keys.
    gc.disable()
    # With the default of 5 ms, threads that list files or import modules would delay keys.
    sys.setswitchinterval(0.001)
    from duckflow_tui.sessions import Sessions

    choice = _choose_session(args, places, workspace, language)
    from duckflow_tui.ui.app import DuckflowApp
    from duckflow_tui.ui.session_host import AppOptions

    def health(language: str) -> Iterator[tuple[str, str, str, str]]:
        """Yield the checks of ``duckflow-tui doctor`` for the open session."""
        from duckflow_tui.doctor_cli import check_health

        return check_health(sessions.choice, language)

    folder = workspace.absolute()
    sessions = Sessions(choice)
    given = {"ui.theme": args.theme, "ui.language": args.lang}
    options = AppOptions(
        language=language,
        theme=choice.settings.ui.theme,
        vitals=choice.settings.ui.vitals,
        duck=choice.settings.ui.duck,
        animation=choice.settings.ui.animation,
        notifications=choice.settings.ui.notifications,
        title="little-shop" if args.demo else folder.name or str(folder),
        settings=lambda: sessions.settings,
        settings_path=str(places.settings_file),
        keep=lambda key, value, say: sessions.save_setting(
            key, value, say, by_flag=bool(given.get(key))
        ),
        demo=args.demo,
        problems=choice.problems,
        data_dir=places.data,
        workspace=os.path.realpath(workspace),
        choose=_must_pick_session(args, workspace, places),
        request=args.request.strip(),
        health=health,
    )
    status = DuckflowApp(sessions, options, frame=frame).run_to_end()
    ending, say = sessions.ending, _load_words(language)
    ending.write_all()
    if ending.fault is not None:
        raise ending.fault
    if ending.kept_project is not None:
        print(say("cli.demo_kept", path=str(ending.kept_project)))
    _print_resume_command(ending, args, workspace, say, sys.stdout)
    return status


def _must_pick_session(args: argparse.Namespace, workspace: Path, places: Places) -> bool:
    """Whether the user must pick the session to resume: ``--resume`` was given without an id, and
    there are several.
    """
    if args.resume != "":
        return False
    from duckflow_tui.sessions_cli import has_several

    return has_several(workspace, places.state)


def _describe_fault(fault: SessionFault, say: Catalogue) -> str:
    """Return a session's fault in words, with advice where another process has the session open."""
    from duckflow_tui.session.words import fault_words

    way = f" {say('cli.in_use_way')}" if fault.code == "in_use" else ""
    return f"{fault_words(fault, say)}{way}"


def _list_resume_flags(args: argparse.Namespace) -> list[str]:
    """Return the given flags that a later resume needs again: of the model, and the language."""
    named = ("--base-url", "--model", "--api-key-env", "--protocol", "--context", "--lang")
    given = ((flag, getattr(args, flag[2:].replace("-", "_"))) for flag in named)
    return [part for flag, value in given if value is not None for part in (flag, str(value))]


def _print_resume_command(
    ending: Ending, args: argparse.Namespace, workspace: Path, say: Catalogue, out: TextIO
) -> None:
    """Print the command that resumes the session, if it can be resumed."""
    command = ending.resume_command(workspace, _list_resume_flags(args), named=args.dir != ".")
    if command:
        print(say("resume.how", command=command), file=out, flush=True)
