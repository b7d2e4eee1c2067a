"""``duckflow-tui sessions``: lists, shows, exports, deletes, restores and prunes sessions without a
screen; also finds the session that ``--resume`` means.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from rich.cells import cell_len, set_cell_size

from duckflow_tui.choice import Unusable, list_secrets
from duckflow_tui.command_line import CommandParser, folder_named
from duckflow_tui.places import Places
from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.safety.secrets import Redactor
from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.export import (
    FORMATS,
    export_lines,
    guess_format,
    make_export_name,
    write_file,
)
from duckflow_tui.session.facts import SessionFacts, group_by_month
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import (
    SessionFolder,
    SessionPlace,
    find_places,
    list_places,
    segment_name,
)
from duckflow_tui.session.resume import open_to_read
from duckflow_tui.session.words import (
    describe_session,
    fault_words,
    figure_rows,
    format_time,
    state_words,
)
from duckflow_tui.settings import load_settings
from duckflow_tui.startup_facts import LANGUAGES
from duckflow_tui.state.base import one_line
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import size_text

ACTIONS: Final = ("list", "show", "export", "delete", "restore", "prune")
FAILED: Final = 1
USAGE_ERROR: Final = 2
_WIDE: Final = 120  # columns where the output is no terminal
_ENDING: Final = 12  # texts of a conversation that ``show`` prints


def run_sessions(arguments: Sequence[str], places: Places, language: str) -> int:
    """Run the command ``sessions`` and return its exit status."""
    say = Catalogue(language)
    args = make_parser(say).parse_args(arguments)
    workspace = folder_named(args.dir)
    secrets = list_secrets(load_settings(places).settings)
    catalog = Catalog(places.state, redact=Redactor(secrets).redact_text)
    try:
        return _Sessions(catalog, args, say, workspace).run()
    except SessionFault as fault:
        return print_refusal(fault_words(fault, say), FAILED)


def make_parser(say: Catalogue) -> CommandParser:
    """Build the parser of ``sessions``."""
    made = CommandParser("duckflow-tui sessions", "sessions.cli.description", say.language, say)
    add = made.add_argument
    add("action", nargs="?", choices=ACTIONS, default="list", help=say("sessions.cli.action"))
    add("id", nargs="?", default="", metavar="ID", help=say("sessions.cli.id"))
    add("--dir", metavar="D", default=".", help=say("cli.help.dir"))
    add("--all", action="store_true", help=say("sessions.cli.all"))
    add("--trash", action="store_true", help=say("sessions.cli.trash"))
    add("--stats", action="store_true", help=say("sessions.cli.stats"))
    add("--json", action="store_true", help=say("sessions.cli.json"))
    add("--format", choices=FORMATS, help=say("sessions.cli.format"))
    add("-o", dest="output", metavar="FILE", help=say("sessions.cli.output"))
    add("--force", action="store_true", help=say("sessions.cli.force"))
    add("--lang", choices=LANGUAGES, help=say("cli.help.lang"))
    return made


class _Sessions:
    """The actions of the command for one workspace; each returns the exit status."""

    def __init__(
        self, catalog: Catalog, args: argparse.Namespace, say: Catalogue, workspace: Path
    ) -> None:
        self._catalog = catalog
        self._args = args
        self._say = say
        self._workspace = Path(os.path.realpath(workspace))

    def run(self) -> int:
        """Run the action that the arguments name."""
        args = self._args
        if args.action == "list":
            return self._list_sessions()
        if args.action == "prune":
            return self._prune_trash()
        if not args.id:
            return print_refusal(self._say("sessions.cli.no_id", action=args.action))
        trashed = args.action == "restore" or args.trash
        found = self._catalog.find(args.id, self._workspace, trashed=trashed)
        if len(found) != 1:
            return self._print_ambiguity(found)
        doing: dict[str, Callable[[SessionPlace], int]] = {
            "show": self._show_session,
            "export": self._export_session,
            "delete": self._delete_session,
            "restore": self._restore_session,
        }
        return doing[args.action](found[0])

    def _list_sessions(self) -> int:
        """Print the sessions as a table, as JSON, or as figures by month."""
        args = self._args
        found = self._catalog.list_all(None if args.all else self._workspace, trashed=args.trash)
        if args.stats:
            return self._print_stats(found)
        if args.json:
            print(json.dumps([self._as_json(facts) for facts in found], indent=1))
            return 0
        for row in _format_table(found, self._say, workspaces=args.all):
            print(row)
        total = self._count_sessions("total", found)
        elsewhere = self._count_elsewhere(trashed=args.trash)
        print(" · ".join(filter(None, (total, elsewhere))), file=sys.stderr)
        return 0

    def _print_stats(self, found: Sequence[SessionFacts]) -> int:
        """Print the figures of these sessions by month."""
        months = group_by_month(found)
        if self._args.json:
            print(json.dumps({month: of._asdict() for month, of in months.items()}, indent=1))
            return 0
        for row in figure_rows(months, self._say):
            print(row)
        return 0

    def _count_sessions(self, key: str, found: Sequence[SessionFacts]) -> str:
        """Return the number and size of these sessions in words, of the entry ``key``."""
        size = size_text(sum(facts.size for facts in found))
        return self._say(f"sessions.cli.{key}", count=len(found), size=size)

    def _count_elsewhere(self, *, trashed: bool) -> str:
        """Return how many sessions other workspaces have, in words; empty for none, or with
        ``--all``.
        """
        if self._args.all:
            return ""
        here = self._catalog.list_read(self._workspace, trashed=trashed)
        count = len(self._catalog.list_read(trashed=trashed)) - len(here)
        return self._say("sessions.cli.elsewhere", count=count) if count else ""

    def _show_session(self, place: SessionPlace) -> int:
        """Print the facts of a session and its last texts."""
        facts = self._catalog.facts_at(place)
        if self._args.json:
            print(json.dumps(self._as_json(facts), indent=1))
            return 0
        names = {
            name: self._say(f"export.fact.{name}") for name, _ in describe_session(facts, self._say)
        }
        wide = max(map(cell_len, names.values()))
        for name, text in describe_session(facts, self._say):
            print(f"{set_cell_size(names[name], wide)}  {text}")
        for piece in self._catalog.list_pieces(facts, _ENDING):
            print(f"\n{self._say(f'sessions.who.{piece.who}')}\n{make_visible(piece.text)}")
        return FAILED if facts.problem else 0

    def _export_session(self, place: SessionPlace) -> int:
        """Write the export of a session to a file, or to standard output for ``-``."""
        args = self._args
        kind = args.format or guess_format(args.output or "")
        target = make_export_name(place.session_id, kind) if args.output is None else args.output
        lines = export_lines(place.path, kind, self._say, self._catalog.redact or str)
        if target == "-":
            for line in lines:
                print(line)
            return 0
        path = Path(target).expanduser().absolute()
        try:
            write_file(path, lines, replace=args.force)
        except FileExistsError:
            return print_refusal(self._say("sessions.cli.exists", path=path), FAILED)
        print(self._say("sessions.exported", path=path))
        return 0

    def _delete_session(self, place: SessionPlace) -> int:
        """Move a session to the trash."""
        facts = self._catalog.facts_at(place)
        if place.in_trash:
            return print_refusal(self._say("sessions.cli.in_trash"))
        self._catalog.delete(facts)
        print(self._say("sessions.cli.deleted", title=facts.title, id=facts.session_id))
        return 0

    def _restore_session(self, place: SessionPlace) -> int:
        """Move a session from the trash back."""
        facts = self._catalog.facts_at(place)
        self._catalog.restore(facts)
        print(self._say("sessions.restored", title=facts.title))
        return 0

    def _prune_trash(self) -> int:
        """Delete the sessions in the trash for good, with ``--force``; without it list those that
        would be deleted.
        """
        args = self._args
        gone = self._catalog.list_all(None if args.all else self._workspace, trashed=True)
        if args.id:
            keys = {p.key for p in self._catalog.find(args.id, self._workspace, trashed=True)}
            gone = [facts for facts in gone if facts.key in keys]
        for row in _format_table(gone, self._say, workspaces=args.all):
            print(row)
        elsewhere = "" if args.id else self._count_elsewhere(trashed=True)
        status = 0
        if args.force:
            self._catalog.prune(*gone)
        if not gone:
            key = "cli.trash_empty_here" if elsewhere else "none_in_trash"
            said = self._say(f"sessions.{key}")
        elif not args.force:
            said, status = self._count_sessions("would_prune", gone), FAILED
        else:
            said = self._count_sessions("pruned", gone)
        print(" · ".join(filter(None, (said, elsewhere))))
        return status

    def _print_ambiguity(self, found: Sequence[SessionPlace]) -> int:
        """Print that an id matches no session or several, with the sessions to choose from."""
        listed = [self._catalog.facts_at(place) for place in found]
        key, elsewhere = "several", ""
        if not found:
            trashed = self._args.action == "restore"
            listed = self._catalog.list_all(self._workspace, trashed=trashed)
            key = "unknown" if listed else "unknown_none"
            elsewhere = self._count_elsewhere(trashed=trashed)
        print_refusal(self._say(f"sessions.cli.{key}", id=self._args.id))
        for row in [*_format_table(listed, self._say), elsewhere]:
            if row:
                print(row, file=sys.stderr)
        return USAGE_ERROR

    def _as_json(self, facts: SessionFacts) -> dict[str, object]:
        """Return the facts of a session for JSON, with title and path."""
        path = str(self._catalog.path_of(facts))
        return {**facts.model_dump(exclude={"key"}), "title": facts.title, "path": path}


def _format_table(
    found: Sequence[SessionFacts], say: Catalogue, *, workspaces: bool = False
) -> list[str]:
    """Return a line for each session: id, time, state, size, folder with ``workspaces``, title."""
    rows: list[tuple[str, ...]] = []
    for facts in found:
        state, title = state_words(facts, say), facts.title
        if facts.problem:  # the title is then only the id
            state, title = say("sessions.state.unreadable"), state
        pin = "* " if facts.pinned else ""
        parts = (facts.session_id, format_time(facts.last_at), state, size_text(facts.size))
        place = (facts.folder or facts.workspace,) if workspaces else ()
        rows.append((*parts, *place, f"{pin}{title}"))
    if not rows:
        return []
    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    lines: list[str] = []
    for row in rows:
        padded = [set_cell_size(text, width) for text, width in zip(row, widths, strict=False)]
        line = "  ".join((*padded, row[-1]))
        lines.append(visible_line(set_cell_size(line, min(cell_len(line), columns)).rstrip()))
    return lines


def print_refusal(message: str, status: int = USAGE_ERROR) -> int:
    """Print a message on standard error and return ``status``."""
    print(f"duckflow-tui: {make_visible(message)}", file=sys.stderr)
    return status


_LISTED: Final = 10  # sessions listed where an id matches none or several
_SMALL: Final = 200_000  # bytes; a larger journal certainly holds a message

_SAID: Final = tuple(
    f'"kind":"{kind}"'.encode() for kind in ("message_queued", "user_message", "draft")
)


def find_session_id(given: str, workspace: Path, state_dir: Path, say: Catalogue) -> str:
    """Return the complete id of the session that ``given`` begins; for an empty text the newest in
    which something was said. Raises Unusable, with a list of sessions, where there is none or
    several.
    """
    root = Path(os.path.realpath(workspace))
    if not given:
        newest = next((p for p in list_places(state_dir, root) if _holds_words(p.path)), None)
        if newest is None:
            raise Unusable(say("resume.none", path=make_visible(str(root))))
        return newest.session_id
    found = find_places(state_dir, given, root)
    if len(found) == 1:
        return found[0].session_id
    named = make_visible(one_line(given, 80))
    if found:
        raise Unusable(
            "\n".join([say("resume.several", given=named), *list_choices(found, state_dir, say)])
        )
    elsewhere = find_places(state_dir, given)
    if elsewhere:
        path, session = make_visible(_workspace_of(elsewhere[0].path)), elsewhere[0].session_id
        key = "resume.elsewhere" if os.path.isdir(path) else "resume.elsewhere_gone"
        raise Unusable(say(key, given=named, path=path, session=session))
    here = [place for place in list_places(state_dir, root) if _holds_words(place.path)]
    key = "resume.unknown" if here else "resume.unknown_none"
    raise Unusable("\n".join([say(key, given=named), *list_choices(here, state_dir, say)]))


def has_several(workspace: Path, state_dir: Path) -> bool:
    """Whether the workspace has more than one session in which something was said."""
    here = list_places(state_dir, os.path.realpath(workspace))
    return sum(1 for place in here if _holds_words(place.path)) > 1


def list_choices(found: Sequence[SessionPlace], state_dir: Path, say: Catalogue) -> list[str]:
    """Return a line for each of the first ten of these sessions, as in the list of ``sessions``."""
    catalog = Catalog(state_dir)
    return _format_table([catalog.facts_at(place) for place in found[:_LISTED]], say)


def _workspace_of(path: Path) -> str:
    """Return the folder that a session worked in; ``?`` where unreadable."""
    try:
        return open_to_read(path).state.session.workspace or "?"
    except SessionFault:
        return "?"


def _holds_words(path: Path) -> bool:
    """Whether the session's journal holds a message or a draft; a large journal counts as one that
    does.
    """
    left = _SMALL
    with suppress(SessionFault), closing(SessionFolder.open(path)) as folder:
        for number in folder.list_segments():
            with suppress(OSError, SessionFault), folder.open_file(segment_name(number)) as file:
                data = file.read(left + 1)
                if len(data) > left or any(kind in data for kind in _SAID):
                    return True
                left -= len(data)
    return False
