"""``duckflow-tui doctor``: checks whether this machine has everything the program uses, and says
how to mend it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import locale
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from duckflow_tui.choice import Flags, SessionChoice, Unusable, choose_session
from duckflow_tui.command_line import CommandParser, folder_named
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.places import Places
from duckflow_tui.safety.paths import WorkspaceError
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.settings import SandboxSettings, load_settings
from duckflow_tui.startup_facts import LANGUAGES
from duckflow_tui.state.base import one_line
from duckflow_tui.state.session import HOLDS, SandboxLevel
from duckflow_tui.words.catalogue import Catalogue

SOUND: Final = 0
BROKEN: Final = 1  # no work is possible

State = Literal["ok", "missing", "broken"]  # missing: the program works without it

_MARKS: Final[Mapping[State, str]] = {"ok": "✓", "missing": "!", "broken": "✗"}
_LEAST_FREE: Final = 200 * 1024 * 1024  # bytes: a long session with the files it changed
_SMALLEST: Final = (60, 20)  # columns and rows that the screen is made for
_ANSWER_S: Final = 5.0  # seconds that a server or a program has to answer
_SANDBOX_S: Final = 20.0  # seconds for the self-tests of all kinds of sandbox; one takes 0.2
_SHOWN_MODELS: Final = 5
_KINDS: Final[Mapping[str, str]] = {"bwrap": "bubblewrap", "namespaces": "namespaces"}
_DEEP: Final = ("truecolor", "24bit")


class HealthCheck(NamedTuple):
    """The result of one check: what was found, and how to mend it where it is not in order."""

    name: str
    state: State
    found: str
    fix: str = ""


def run_doctor(arguments: Sequence[str], places: Places, language: str) -> int:
    """Run the command ``doctor`` and return its exit status."""
    say = Catalogue(language)
    args = make_parser(say).parse_args(arguments)
    flags = Flags(
        workspace=folder_named(args.dir),
        base_url=args.base_url,
        model=args.model,
        api_key_env=args.api_key_env,
    )
    checks: list[HealthCheck] = []
    for check in _Doctor(flags, places, language, say).run_checks(None):
        checks.append(check)
        if not args.json:
            _print_check(check, say)
    if args.json:
        print(json.dumps([check._asdict() for check in checks], ensure_ascii=False, indent=1))
    broken = [check for check in checks if check.state == "broken"]
    if not args.json:
        print(say("doctor.broken" if broken else "doctor.sound", count=len(broken)))
    return BROKEN if broken else SOUND


def check_health(choice: SessionChoice, language: str) -> Iterator[HealthCheck]:
    """Yield the same checks for a running program, with the model that its session uses."""
    say = Catalogue(language)
    flags = Flags(workspace=choice.workspace)
    yield from _Doctor(flags, choice.places, language, say).run_checks(choice)


def make_parser(say: Catalogue) -> CommandParser:
    """Build the parser of ``doctor``."""
    made = CommandParser("duckflow-tui doctor", "doctor.description", say.language, say)
    add = made.add_argument
    add("--json", action="store_true", help=say("doctor.json"))
    add("--dir", metavar="D", default=".", help=say("cli.help.dir"))
    add("--base-url", metavar="U", help=say("cli.help.base_url"))
    add("--model", metavar="N", help=say("cli.help.model"))
    add("--api-key-env", metavar="V", help=say("cli.help.api_key_env"))
    add("--lang", choices=LANGUAGES, help=say("cli.help.lang"))
    return made


def _print_check(check: HealthCheck, say: Catalogue) -> None:
    """Print a check on one line, and on a second one how to mend it."""
    name = say(f"doctor.name.{check.name}")
    print(f"{_MARKS[check.state]} {name}: {check.found}")
    if check.fix:
        print(f"    {check.fix}", flush=True)


class _Doctor:
    """Runs the checks for one workspace."""

    def __init__(self, flags: Flags, places: Places, language: str, say: Catalogue) -> None:
        self._flags = flags
        self._places = places
        self._language = language
        self._say = say

    def run_checks(self, choice: SessionChoice | None) -> Iterator[HealthCheck]:
        """Yield each check as soon as it is done; the one that queries the model's server is last.
        Without a ``choice``, flags and settings are resolved to one.
        """
        yield self._check_terminal()
        yield self._check_colours()
        yield self._check_characters()
        yield self._check_shift_enter()
        for name in ("rg", "git"):
            yield self._check_program(name)
        yield self._check_sandbox(choice)
        yield self._check_disk()
        try:
            choice = choice or choose_session(self._flags, self._places, self._language)
        except Unusable as refused:
            problems = [problem.describe_problem(self._say) for problem in refused.problems]
            yield self._check_settings(problems)
            yield HealthCheck("model", "broken", one_line(str(refused), 300))
            return
        yield self._check_settings(
            [problem.describe_problem(self._say) for problem in choice.problems]
        )
        yield from self._check_servers(choice)
        yield self._check_model(choice)

    def _make_check(
        self, name: str, state: State, key: str, fix: str = "", **params: Any
    ) -> HealthCheck:
        """Return a check with the words under ``doctor.{key}``, and those on how to mend it under
        ``doctor.{fix}``.
        """
        say = self._say
        found = say(f"doctor.{key}", **params)
        return HealthCheck(name, state, found, say(f"doctor.{fix}", **params) if fix else "")

    def _check_terminal(self) -> HealthCheck:
        """Check that standard input and output are a terminal, large enough and not dumb."""
        term = os.environ.get("TERM", "")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return self._make_check("terminal", "missing", "terminal.none", "terminal.none_fix")
        size = shutil.get_terminal_size()
        facts: dict[str, Any] = {
            "term": visible_line(term) or "TERM=",
            "columns": size.columns,
            "rows": size.lines,
        }
        if term in ("", "dumb"):
            return self._make_check(
                "terminal", "broken", "terminal.found", "terminal.dumb_fix", **facts
            )
        if size.columns < _SMALLEST[0] or size.lines < _SMALLEST[1]:
            facts |= {"least": f"{_SMALLEST[0]}×{_SMALLEST[1]}"}
            return self._make_check(
                "terminal", "missing", "terminal.found", "terminal.small_fix", **facts
            )
        return self._make_check("terminal", "ok", "terminal.found", **facts)

    def _check_colours(self) -> HealthCheck:
        """Check how many colours the terminal shows, by NO_COLOR, COLORTERM and TERM."""
        environ = os.environ
        if environ.get("NO_COLOR"):
            return self._make_check("colours", "missing", "colours.off", "colours.off_fix")
        if environ.get("COLORTERM", "").lower() in _DEEP:
            return self._make_check("colours", "ok", "colours.deep")
        key = "colours.many" if "256color" in environ.get("TERM", "") else "colours.few"
        return self._make_check("colours", "missing", key, "colours.fix")

    def _check_characters(self) -> HealthCheck:
        """Check that the locale's encoding is UTF-8."""
        encoding = locale.getpreferredencoding(False)
        if encoding.lower().replace("-", "") == "utf8":
            return self._make_check("characters", "ok", "characters.found", encoding=encoding)
        return self._make_check(
            "characters", "missing", "characters.found", "characters.fix", encoding=encoding
        )

    def _check_shift_enter(self) -> HealthCheck:
        """Check whether the terminal distinguishes Shift+Enter from Enter."""
        from duckflow_tui.ui.bindings import tells_shift_enter

        if tells_shift_enter(os.environ):
            return self._make_check("keys", "ok", "keys.all")
        return self._make_check("keys", "missing", "keys.some", "keys.fix")

    def _check_program(self, name: Literal["rg", "git"]) -> HealthCheck:
        """Check that a program is installed and tells its version."""
        from duckflow_tui.tools.command_runner import find_program

        found = find_program(name, self._flags.workspace)
        if found is None:
            return self._make_check(name, "missing", "program.none", f"program.{name}_fix")
        try:
            asked = subprocess.run(
                [found, "--version"], capture_output=True, timeout=_ANSWER_S, check=False
            )
            version = asked.stdout.decode("utf-8", "replace").partition("\n")[0]
        except (OSError, subprocess.TimeoutExpired) as error:
            return HealthCheck(name, "missing", one_line(str(error), 200))
        return HealthCheck(name, "ok", f"{visible_line(one_line(version, 60))} ({found})")

    def _check_sandbox(self, choice: SessionChoice | None) -> HealthCheck:
        """Check which sandbox works in this folder, by the test that a session makes."""
        wanted = (
            choice.settings if choice else load_settings(self._places, os.environ).settings
        ).sandbox
        if choice is not None and choice.sandbox.level == "external":
            return self._make_check("sandbox", "ok", "sandbox.external")
        if wanted.level == "none":
            return self._make_check("sandbox", "missing", "sandbox.off", "sandbox.off_fix")
        try:
            with tempfile.TemporaryDirectory(prefix="duckflow-") as folder:
                tried = asyncio.run(_probe_sandbox(self._flags.workspace, wanted, Path(folder)))
        except (OSError, WorkspaceError, TimeoutError) as error:
            return HealthCheck("sandbox", "missing", one_line(str(error) or "timeout", 200))
        level, rung, lacks = tried
        facts = {"kind": rung, "lacks": visible_line(one_line("; ".join(lacks), 300))}
        if level in HOLDS:
            return self._make_check("sandbox", "ok", f"sandbox.{level}", **facts)
        key = "refused" if level == "none" and wanted.level != "auto" else level
        fix = "install_fix" if any("not installed" in one for one in lacks) else "closed_fix"
        root = self._flags.workspace
        if (owner := root.stat().st_uid) != os.geteuid():
            fix, facts["owner"] = "owner_fix", str(owner)
            with contextlib.suppress(KeyError):  # a user without an account
                facts["owner"] = root.owner()
        fix = "" if level == "partial" else f"sandbox.{fix}"
        return self._make_check("sandbox", "missing", f"sandbox.{key}", fix, **facts)

    def _check_disk(self) -> HealthCheck:
        """Check that the program's folders are writable and have 200 MB free."""
        folders: list[Path] = []
        for folder in dict.fromkeys(self._places.own_dirs):
            there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
            if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
                return self._make_check(
                    "disk", "broken", "disk.closed", "disk.closed_fix", path=folder
                )
            folders.append(there)
        try:
            free = min(shutil.disk_usage(folder).free for folder in folders)
        except OSError as error:
            return HealthCheck("disk", "broken", one_line(str(error), 200))
        facts: dict[str, Any] = {"path": self._places.state, "megabytes": free // 1024**2}
        if free < _LEAST_FREE:
            return self._make_check("disk", "missing", "disk.free", "disk.full_fix", **facts)
        return self._make_check("disk", "ok", "disk.free", **facts)

    def _check_settings(self, problems: Sequence[str]) -> HealthCheck:
        """Report the problems of the settings, or that they were read."""
        path = self._places.settings_file
        if problems:
            return HealthCheck("settings", "missing", "\n    ".join(problems))
        key = "settings.read" if path.exists() else "settings.none"
        return self._make_check("settings", "ok", key, path=path)

    def _check_servers(self, choice: SessionChoice) -> Iterator[HealthCheck]:
        """Yield a check for each MCP server whose program is not found; servers at an address are
        not contacted.
        """
        from duckflow_tui.tools.command_runner import find_program

        root = Path(os.path.realpath(choice.workspace))
        for name, server in choice.settings.mcp.servers.items():
            named = os.path.isabs(server.command)  # the user named it, so any place is allowed
            found = shutil.which(server.command) if named else find_program(server.command, root)
            if server.command and found is None:
                yield self._make_check(
                    "server", "missing", "server.none", "server.fix", server=name,
                    command=visible_line(server.command),
                )  # fmt: skip

    def _check_model(self, choice: SessionChoice) -> HealthCheck:
        """Check that the main endpoint answers and lists the main model."""
        main = choice.settings.roles.model_of("main")
        if choice.confirm_origin:
            return self._make_check(
                "model", "missing", "model.unconfirmed", "model.unconfirmed_fix",
                origin=choice.confirm_origin,
            )  # fmt: skip
        if choice.endpoint_missing or main is None:
            return self._find_model(choice)
        host = choice.settings.endpoints[main.endpoint].host
        facts: dict[str, Any] = {"model": visible_line(main.model), "host": host}
        try:
            names = asyncio.run(_list_models(choice))
        except LlmError as error:
            words = self._say(f"llm.error.{error.code}", **error.params)
            if error.code in ("not_found", "not_json", "html"):  # a server need not have a list
                return self._make_check("model", "missing", "model.unlisted", **facts)
            return HealthCheck("model", "broken", visible_line(one_line(words, 400)))
        if main.model.removeprefix("models/") not in names:
            known = ", ".join(visible_line(one_line(name, 60)) for name in names[:_SHOWN_MODELS])
            facts |= {"known": known, "count": len(names)}
            return self._make_check(
                "model", "broken", "model.unknown", "model.unknown_fix", **facts
            )
        return self._make_check("model", "ok", "model.found", **facts)

    def _find_model(self, choice: SessionChoice) -> HealthCheck:
        """Check which model would be chosen where none is set."""
        from duckflow_tui.model_choice import settle_model

        try:
            line = asyncio.run(settle_model(choice)).line
        except Unusable as refused:
            return self._make_check("model", "broken", "model.none")._replace(fix=str(refused))
        return self._make_check("model", "missing", "model.none", "model.found_fix", line=line)


async def _probe_sandbox(
    root: Path, wanted: SandboxSettings, folder: Path
) -> tuple[SandboxLevel, str, list[str]]:
    """Test the sandboxes for a workspace. Return the level that holds, the name of its kind, and
    why others do not work. Raises OSError, WorkspaceError for an unusable workspace,
    TimeoutError after 20 s.
    """
    from duckflow_tui.safety.workspace import Workspace
    from duckflow_tui.tools.command_runner import SandboxChoice
    from duckflow_tui.tools.sandbox import Sandbox

    choice = SandboxChoice(wanted.level, wanted.read, folder)
    with contextlib.closing(Workspace(root)) as workspace:
        with contextlib.closing(Sandbox(choice, workspace, os.environ)) as sandbox:
            async with asyncio.timeout(_SANDBOX_S):
                level = await sandbox.find_level()
        return level, _KINDS.get(sandbox.found_rung or "", ""), sandbox.why


async def _list_models(choice: SessionChoice) -> tuple[str, ...]:
    """Return the names of the models that the main endpoint lists. Raises LlmError."""
    from duckflow_tui.llm.service import LLMService
    from duckflow_tui.state.base import SystemClock, random_id

    choice = choice.load_keys()
    endpoints, roles = choice.settings.endpoints, choice.settings.roles
    service = LLMService(endpoints, roles, random_id, SystemClock(), choice.environ)
    try:
        return await service.fetch_model_names("main", _ANSWER_S)
    finally:
        await service.aclose()
