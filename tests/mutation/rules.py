"""Switches each safety rule R01–R20 off, and tells which of them no test misses.

The lines that hold a part of a rule carry an id in a comment, such as ``# R07a``, at their end or
on the line above. A switch names the id and the line that stands there once the rule is off.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from mutation.tree import Copy, copied

_WITHIN: Final = 240.0  # seconds for the tests of one switch
_PACKAGE: Final = Path("duckflow_tui")


class Switch(NamedTuple):
    """One way to switch a rule off: ``lines`` maps ids of source lines to their replacements."""

    off: str  # the protection that is gone, in a few words
    lines: dict[str, str]
    tests: tuple[str, ...]  # files below ``tests/``, or ids in them

    @property
    def rule(self) -> str:
        """The rule that the lines belong to, such as ``R07``."""
        return next(iter(self.lines))[:3]


_LOCATE: Final = "engine/test_safety_locate.py"
_RACES: Final = "faults/test_safety_races.py"
_FILES: Final = "engine/test_safety_files.py"
_LINES: Final = "unit/test_safety_commands.py"
_SHELL: Final = "engine/test_tools_shell.py"
_POLICY: Final = "unit/test_safety_policy.py"
_TURN: Final = "engine/test_loops_turn.py"
_GATES: Final = "engine/test_safety_gates.py"
_STREAMS: Final = "faults/test_llm_streams.py"
_KEYS: Final = "faults/test_llm_keys.py"
_SANDBOX: Final = "faults/test_sandbox.py"
_PAGES: Final = "ui/test_ui_gate_pages.py"

SWITCHES: Final = (
    Switch("the names decide, not the descriptor", {"R01a": "if False:"}, (_RACES,)),
    Switch(
        "the kernel lets a path lead out",
        {"R01b": "how = _OpenHow(flags | os.O_CLOEXEC, mode, 0)"},
        (_LOCATE, _RACES),
    ),
    Switch(
        "one component after the other may be a link",
        {"R01c": "below = os.open(parent, os.O_RDONLY, dir_fd=here)"},
        (_LOCATE, _RACES),
    ),
    Switch(
        "of a link only the target is judged",
        {"R02a": "pass"},
        (f"{_LOCATE}::test_a_link_and_its_target_are_both_judged",),
    ),
    Switch("what cannot be looked at is taken for absent", {"R02b": 'code = "absent"'}, (_LOCATE,)),
    Switch(
        "of names that look the same the first is taken",
        {"R02c": "if False:"},
        (f"{_LOCATE}::test_a_name_that_means_two_files_is_refused",),
    ),
    Switch(
        "another folder under the root's name is the workspace",
        {"R03a": "return True"},
        (f"{_LOCATE}::test_the_root_is_pinned",),
    ),
    Switch("redirects into files are plain", {"R04a": "return"}, (_LINES,)),
    Switch("an assignment before a program is plain", {"R04b": "if False:"}, (_LINES,)),
    Switch("a second line is plain", {"R04c": "if False:"}, (_LINES,)),
    Switch("patterns and variables are plain", {"R04d": "elif False:"}, (_LINES,)),
    Switch("the grammar alone is believed", {"R04f": "if False:"}, (_LINES,)),
    Switch("a command goes to another folder", {"R04g": "if False:"}, (_LINES,)),
    Switch(
        "a beginning names a command that nothing holds",
        {"R05a": "return any(argv[: len(p)] == p for p in self.prefixes)"},
        (_LINES, "unit/test_safety_bypass.py"),
    ),
    Switch(
        "a beginning is no mistake where nothing holds a command",
        {"R05b": "if True:"},
        ("engine/test_headless_commands.py",),
    ),
    Switch(
        "a key allows a beginning where nothing holds a command",
        {"R05c": "return IN_SANDBOX"},
        (_POLICY,),
    ),
    Switch(
        "a beginning counts for secret files too",
        {"R05d": 'shows = ""'},
        ("engine/test_sandbox_consent.py",),
    ),
    Switch(
        "a line that cannot be read runs in the sandbox",
        {"R06a": '{"secret", "hidden_characters", "deny_unsure"}'},
        (_POLICY,),
    ),
    Switch(
        "a rule that forbids lets pass what cannot be read",
        {"R06b": "is_readable = True"},
        (_LINES,),
    ),
    Switch(
        "a rule that forbids sees the first command alone",
        {"R06c": "commands = line.found[:1]"},
        (_LINES,),
    ),
    Switch(
        "a rule that forbids lets run what may be forbidden",
        {"R06f": "pass"},
        (_LINES,),
    ),
    Switch(
        "what the settings forbid is not heard",
        {"R06g": "for rule in ():"},
        ("engine/test_headless_commands.py",),
    ),
    Switch("what is longer than a limit is read", {"R06d": "if False:"}, (_LINES,)),
    Switch("more commands than a limit are read", {"R06e": "if False:"}, (_LINES,)),
    Switch(
        "a command has the whole environment",
        {"R07a": "environ = users_own(self._environ) if own else dict(self._environ)"},
        (_SHELL,),
    ),
    Switch(
        "a command has the app's input",
        {"R07b": "stdin: int | None = None,"},
        (f"{_SHELL}::test_there_is_no_input_and_no_terminal",),
    ),
    Switch(
        "a command has the app's terminal and group",
        {"R07c": "start_new_session=False,"},
        (f"{_SHELL}::test_there_is_no_input_and_no_terminal",),
    ),
    Switch(
        "bash reads the user's own files first",
        {"R07d": 'return (bash, "-l", *options, "-c", "--", command)'},
        (_SHELL,),
    ),
    Switch(
        "a command in the sandbox writes repositories below the root",
        {"R07e": "pass"},
        (f"{_SANDBOX}::test_a_repository_that_a_command_makes_is_its_own_until_it_ends",),
    ),
    Switch(
        "a command in the sandbox reads secret files",
        {"R07f": "pass"},
        (
            f"{_SANDBOX}::test_secret_files_of_the_workspace_are_kept_from_a_command"
            "_that_does_not_name_them",
        ),
    ),
    Switch(
        "a command may be an option of bash",
        {"R08a": 'return (bash, "--noprofile", "--norc", *options, "-c", command)'},
        (f"{_SHELL}::test_a_line_that_begins_with_a_dash_is_a_line",),
    ),
    Switch(
        "another spelling of a name is another name",
        {"R09a": "return name"},
        ("unit/test_safety_names.py",),
    ),
    Switch("a second name of a protected file is free", {"R09b": "if False:"}, (_LOCATE,)),
    Switch(
        "files of a folder are used before the user answered",
        {"R10a": "self._use_texts(texts)"},
        ("engine/test_trust.py",),
    ),
    Switch("a folder's settings widen the user's", {"R10b": "if True:"}, ("engine/test_trust.py",)),
    Switch(
        "what was changed stays trusted",
        {"R10c": "self._use_texts({n: t for n, t in texts.items() if trusted})"},
        ("engine/test_trust.py",),
    ),
    Switch(
        "files of a folder are used where nobody is there",
        {"R10d": "self._use_texts(texts)"},
        ("engine/test_trust.py",),
    ),
    Switch(
        "the key goes over plain http",
        {"R11a": "return True"},
        ("unit/test_llm_endpoints.py", _KEYS),
    ),
    Switch(
        "a redirect is followed",
        {"R11b": "follow_redirects=True,", "R11c": "if response.status_code < 400:"},
        (_KEYS,),
    ),
    Switch(
        "a public host is asked over plain http",
        {"R11d": 'return "nothing"'},
        ("unit/test_llm_endpoints.py", _KEYS),
    ),
    Switch(
        "git is asked for the branch",
        {"R12a": "os.system(f\"git -C '{workspace}' status\")\ntry:"},
        ("engine/test_trust.py::test_git_is_never_called",),
    ),
    Switch(
        "what a terminal acts on is dropped",
        {"R13a": 'return ""'},
        ("unit/test_safety_safe_text.py",),
    ),
    Switch(
        "control characters reach a widget",
        {"R13b": "if True:"},
        ("unit/test_safety_safe_text.py",),
    ),
    Switch(
        "the last line filter lets all pass",
        {"R13c": "if True:"},
        ("ui/test_ui_shell_terminal.py",),
    ),
    Switch(
        "y approves what was not on screen",
        {"R14a": "doubt = bool(remarks)"},
        (f"{_PAGES}::test_y_asks_once_before_what_was_not_on_screen",),
    ),
    Switch("other content than was shown is changed", {"R15a": "if False:"}, (_FILES,)),
    Switch(
        "a reply that was cut off is carried out",
        {"R16a": "if False:", "R16b": "if False:"},
        ("unit/test_llm_codecs.py", "engine/test_llm_decide.py"),
    ),
    Switch(
        "of a malformed reply the rest is carried out",
        {"R16c": "if operation is not None:"},
        (f"{_TURN}::test_a_malformed_reply_runs_nothing_and_is_asked_again_at_most_twice",),
    ),
    Switch(
        "what no row speaks about is allowed",
        {"R17a": "return Verdict(Decision.ALLOW, zone, Risk.LOW)"},
        (f"{_POLICY}::test_what_no_row_speaks_about_is_denied",),
    ),
    Switch(
        "a search may run for ever",
        {"R18a": "async with asyncio.timeout(None):"},
        (
            "faults/test_tools_search_limits.py::"
            "test_what_was_found_in_time_is_told_and_a_stop_ends_the_reading",
        ),
    ),
    Switch(
        "a body may be of any size",
        {"R18b": "if False:"},
        (f"{_STREAMS}::test_what_is_no_answer_is_a_clean_error",),
    ),
    Switch(
        "a line of a stream may be of any size", {"R18c": "if False:"}, ("unit/test_llm_wire.py",)
    ),
    Switch(
        "a result goes whole to the model", {"R18d": "if True:"}, ("engine/test_tools_router.py",)
    ),
    Switch(
        "settings give consent where nobody is there",
        {"R19a": "mode = settings.approval.mode  # R19"},
        ("unit/test_settings.py",),
    ),
    Switch(
        "rules that were kept give consent where nobody is there",
        {"R19b": "if not choice.demo:  # headless, consent is on the command line (R19)"},
        ("engine/test_rules.py",),
    ),
    Switch(
        "a gate where nobody is there waits",
        {"R19c": "return await super().ask(question)\nraise Unanswered("},
        (f"{_GATES}::test_nobody_to_ask",),
    ),
    Switch(
        "a refusal is a failure of the work",
        {"R20a": "RAN: Final = (Outcome.REJECTED, Outcome.OK, Outcome.ERROR, Outcome.INVALID)"},
        (
            f"{_TURN}::test_a_rejection_reaches_the_model_with_its_reason_and_is_no_error",
            "engine/test_loops_pace.py",
            "unit/test_pacing_progress.py",
        ),
    ),
)

RULES: Final = tuple(f"R{number:02}" for number in range(1, 21))


def switch_off(only: Sequence[str]) -> int:
    """A line for each rule, or for those named; 1 where one is missed by no test, or not there."""
    missed: list[str] = []
    with copied() as copy:
        for rule in only or RULES:
            switches = [switch for switch in SWITCHES if switch.rule == rule]
            unheld = [switch.off for switch in switches if not _caught(copy, switch)]
            held = f"held, {len(switches)} ways" if switches else "NO SWITCH"
            said = f"SURVIVED: {'; '.join(unheld)}" if unheld else held
            print(f"{rule}  {said}", flush=True)
            if unheld or not switches:
                missed.append(rule)
    print(f"{len(only or RULES) - len(missed)} of {len(only or RULES)} rules are held")
    return 1 if missed else 0


def _caught(copy: Copy, switch: Switch) -> bool:
    """Whether a test of the switch fails with the rule off, and none as things are."""
    tests = [f"tests/{test}" for test in switch.tests]
    if failed := copy.run(tests, _WITHIN):
        raise SystemExit(f"{switch.rule}: {failed} fails as things are")
    with ExitStack() as stack:
        for path, text in switched_sources(copy.root / _PACKAGE, switch).items():
            stack.enter_context(copy.changed(_PACKAGE / path, text))
        return bool(copy.run(tests, _WITHIN))


def switched_sources(package: Path, switch: Switch) -> dict[Path, str]:
    """The sources with the rule switched off, by their paths below the package.

    Raises ValueError where an id stands on no line or on several.
    """
    sources: dict[Path, list[str]] = {}
    for number, replacement in switch.lines.items():
        path, at = _find_line(package, number)
        lines = sources.setdefault(path, list(_read_lines(package / path)))
        indent = lines[at][: -len(lines[at].lstrip())]
        lines[at] = textwrap.indent(replacement, indent)
    return {path: "\n".join(lines) for path, lines in sources.items()}


def _find_line(package: Path, number: str) -> tuple[Path, int]:
    """The source file and the index of the line that carries an id."""
    found: list[tuple[Path, int]] = []
    for path in package.rglob("*.py"):
        for at, line in enumerate(_read_lines(path)):
            code, mark, comment = line.rpartition("# ")
            if mark and number in comment.split():
                found.append((path.relative_to(package), at if code.strip() else at + 1))
    if len(found) != 1:
        raise ValueError(f"{number} stands on {len(found)} lines, and one is wanted")
    return found[0]


@cache
def _read_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").split("\n"))
