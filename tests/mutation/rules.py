"""Switches each safety rule R01–R20 off, and tells which of them no test misses.

A switch names the text in the source that holds a part of the rule, and what stands there instead
once it is off; text that is gone, or there more than once, ends the run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mutation.tree import Copy, copied

_WITHIN: Final = 240.0  # seconds for the tests of one switch
_PACKAGE: Final = Path("duckflow_tui")


class Switch(NamedTuple):
    """One way to switch a rule off. ``edits``: file below the package, text, what replaces it."""

    rule: str
    off: str  # what is no longer so, in a few words
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]  # files below ``tests/``, or ids in them


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
    Switch(
        "R01",
        "the names decide, not the descriptor",
        (
            (
                "safety/workspace.py",
                "if (info.st_dev, info.st_ino) != (found.info.st_dev, found.info.st_ino):",
                "if False:",
            ),
        ),
        (_RACES,),
    ),
    Switch(
        "R01",
        "the kernel lets a path lead out",
        (("safety/paths.py", "_BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)", "0)"),),
        (_LOCATE, _RACES),
    ),
    Switch(
        "R01",
        "one component after the other may be a link",
        (
            (
                "safety/paths.py",
                "below = os.open(parent, WALK, dir_fd=here)",
                "below = os.open(parent, os.O_RDONLY, dir_fd=here)",
            ),
        ),
        (_LOCATE, _RACES),
    ),
    Switch(
        "R02",
        "of a link only the target is judged",
        (("safety/workspace.py", "zone = strictest((zone, link.zone))", "pass"),),
        (f"{_LOCATE}::test_a_link_and_its_target_are_both_judged",),
    ),
    Switch(
        "R02",
        "what cannot be looked at is taken for absent",
        (
            (
                "safety/paths.py",
                'code = _CODES.get(error.errno, "unreadable")',
                'code = "absent"',
            ),
        ),
        (_LOCATE,),
    ),
    Switch(
        "R02",
        "of names that look the same the first is taken",
        (("safety/paths.py", "if len(twins) > 1:", "if False:"),),
        (f"{_LOCATE}::test_a_name_that_means_two_files_is_refused",),
    ),
    Switch(
        "R03",
        "another folder under the root's name is the workspace",
        (
            (
                "safety/workspace.py",
                "return (info.st_dev, info.st_ino) == self._zones.identity",
                "return True",
            ),
        ),
        (f"{_LOCATE}::test_the_root_is_pinned",),
    ),
    Switch(
        "R04",
        "redirects into files are plain",
        (("safety/commands.py", 'raise _NotPlain("redirect")', "return"),),
        (_LINES,),
    ),
    Switch(
        "R04",
        "an assignment before a program is plain",
        (("safety/commands.py", 'if not self._argv and "=" in value:', "if False:"),),
        (_LINES,),
    ),
    Switch(
        "R04",
        "a second line is plain",
        (("safety/commands.py", 'if "\\n" in self._text:', "if False:"),),
        (_LINES,),
    ),
    Switch(
        "R04",
        "patterns and variables are plain",
        (("safety/commands.py", 'elif char in "*?[{}$`":', "elif False:"),),
        (_LINES,),
    ),
    Switch(
        "R04",
        "a command of bash that sets PATH is plain",
        (("safety/commands.py", "if self._argv[0] in _SETS and _sets(self._argv):", "if False:"),),
        ("unit/test_safety_bypass.py",),
    ),
    Switch(
        "R04",
        "the grammar alone is believed",
        (("safety/commands.py", "if _lexed(self._text) != self._tokens:", "if False:"),),
        (_LINES,),
    ),
    Switch(
        "R04",
        "a command goes to another folder",
        (
            (
                "safety/allow_rules.py",
                "if moves > 1 or piped or not _moves_inside(part, inside):",
                "if False:",
            ),
        ),
        (_LINES,),
    ),
    Switch(
        "R05",
        "any program is named by its beginning",
        (("safety/allow_rules.py", "elif _runs_anything(argv):", "elif False:"),),
        (_LINES,),
    ),
    Switch(
        "R05",
        "a beginning covers options that write or execute",
        (
            (
                "safety/allow_rules.py",
                "form[: len(p)] == p and not _escapes(form, len(p))",
                "form[: len(p)] == p",
            ),
        ),
        ("unit/test_safety_bypass.py",),
    ),
    Switch(
        "R05",
        "a key allows options for longer that nobody knows",
        (
            (
                "safety/command_risk.py",
                "elif (needs := _option(word, options)) is None:",
                "elif (needs := bool(_option(word, options))) is None:",
            ),
        ),
        ("unit/test_safety_bypass.py",),
    ),
    Switch(
        "R05",
        "a rule for what reads counts for secret files too",
        (
            (
                "safety/guarded.py",
                "(shows_files(part.argv) for part in line.parts)",
                "()",
            ),
        ),
        (
            "engine/test_sandbox_consent.py"
            "::test_a_rule_for_what_reads_leaves_them_to_a_question_too_unless_it_names_them",
        ),
    ),
    Switch(
        "R06",
        "a line that cannot be read runs in the sandbox",
        (
            (
                "safety/policy.py",
                '{"hidden_characters", "not_readable"}',
                '{"hidden_characters"}',
            ),
        ),
        (_POLICY,),
    ),
    Switch(
        "R06",
        "a rule that forbids lets pass what cannot be read",
        (("safety/policy.py", "return not line.readable or any(", "return any("),),
        (_LINES,),
    ),
    Switch(
        "R06",
        "a rule that forbids sees the first command alone",
        (("safety/policy.py", "for found in line.found)", "for found in line.found[:1])"),),
        (_LINES,),
    ),
    Switch(
        "R06",
        "what is longer than a limit is read",
        (("safety/commands.py", "if len(text) > MAX_LINE:", "if False:"),),
        (_LINES,),
    ),
    Switch(
        "R06",
        "more commands than a limit are read",
        (("safety/commands.py", "if len(self._parts) > MAX_PARTS:", "if False:"),),
        (_LINES,),
    ),
    Switch(
        "R07",
        "a command has the whole environment",
        (
            (
                "tools/commands.py",
                "else scrubbed(self._environ, self._known)",
                "else dict(self._environ)",
            ),
        ),
        (_SHELL,),
    ),
    Switch(
        "R07",
        "a command has the app's input",
        (
            (
                "tools/process_group.py",
                "stdin: int = asyncio.subprocess.DEVNULL",
                "stdin: int | None = None",
            ),
        ),
        (f"{_SHELL}::test_there_is_no_input_and_no_terminal",),
    ),
    Switch(
        "R07",
        "a command has the app's terminal and group",
        (
            (
                "tools/process_group.py",
                'start_new_session=os.name != "nt"',
                "start_new_session=False",
            ),
        ),
        (f"{_SHELL}::test_there_is_no_input_and_no_terminal",),
    ),
    Switch(
        "R07",
        "bash reads the user's own files first",
        (
            (
                "tools/commands.py",
                '(bash, "--noprofile", "--norc", *options,',
                '(bash, "-l", *options,',
            ),
        ),
        (_SHELL,),
    ),
    Switch(
        "R07",
        "a command in the sandbox writes repositories below the root",
        (("safety/guarded.py", "closed[path] = (info.st_dev, info.st_ino)", "pass"),),
        (f"{_SANDBOX}::test_a_repository_that_a_command_makes_is_its_own_until_it_ends",),
    ),
    Switch(
        "R07",
        "a command in the sandbox reads secret files",
        (("safety/guarded.py", "secret[path] = None", "pass"),),
        (
            f"{_SANDBOX}::test_secret_files_of_the_workspace_are_kept_from_a_command"
            "_that_does_not_name_them",
        ),
    ),
    Switch(
        "R08",
        "a command may be an option of bash",
        (("tools/commands.py", '"-c", "--", command)', '"-c", command)'),),
        (f"{_SHELL}::test_a_line_that_begins_with_a_dash_is_a_line",),
    ),
    Switch(
        "R08",
        "a pattern may be an option of the search program",
        (
            (
                "tools/search.py",
                '[*argv, "--", args.pattern, search.target]',
                "[*argv, args.pattern, search.target]",
            ),
        ),
        ("engine/test_tools_search.py",),
    ),
    Switch(
        "R09",
        "another spelling of a name is another name",
        (("safety/names.py", 'return name.lower().rstrip(". ")', "return name"),),
        ("unit/test_safety_names.py",),
    ),
    Switch(
        "R09",
        "a second name of a protected file is free",
        (
            (
                "safety/workspace.py",
                "if self._zones.shares_protected_inode((file.st_dev, file.st_ino)):",
                "if False:",
            ),
        ),
        (_LOCATE,),
    ),
    Switch(
        "R10",
        "files of a folder are used before the user answered",
        (
            (
                "session/trust.py",
                "self._apply({n: t for n, t in texts.items() if trusted and known.get(n) == t})",
                "self._apply(texts)",
            ),
        ),
        ("engine/test_trust.py",),
    ),
    Switch(
        "R10",
        "a folder's settings widen the user's",
        (("project_settings.py", "            if stricter:", "            if True:"),),
        ("engine/test_trust.py",),
    ),
    Switch(
        "R10",
        "what was changed stays trusted",
        (("session/trust.py", "if trusted and known.get(n) == t})", "if trusted})"),),
        ("engine/test_trust.py",),
    ),
    Switch(
        "R10",
        "files of a folder are used where nobody is there",
        (
            (
                "session/trust.py",
                "self._apply(texts if self._by_flag else {})",
                "self._apply(texts)",
            ),
        ),
        ("engine/test_trust.py",),
    ),
    Switch(
        "R11",
        "the key goes over plain http",
        (
            (
                "llm/endpoints.py",
                "return is_private(endpoint.hostname) and endpoint.allow_http_key",
                "return True",
            ),
        ),
        ("unit/test_llm_endpoints.py", _KEYS),
    ),
    Switch(
        "R11",
        "a redirect is followed",
        (
            ("llm/transport.py", "follow_redirects=False", "follow_redirects=True"),
            (
                "llm/transport.py",
                "if response.status_code < 300:",
                "if response.status_code < 400:",
            ),
        ),
        (_KEYS,),
    ),
    Switch(
        "R11",
        "a public host is asked over plain http",
        (
            (
                "llm/endpoints.py",
                'return "confirmation" if is_private(endpoint.hostname) else "refused"',
                'return "nothing"',
            ),
        ),
        ("unit/test_llm_endpoints.py", _KEYS),
    ),
    Switch(
        "R12",
        "git loads what a repository lacks from where its settings say",
        (
            (
                "session/branch.py",
                '{"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}',
                "{}",
            ),
        ),
        ("engine/test_trust.py::test_what_is_not_committed_is_known_of_a_trusted_folder_alone",),
    ),
    Switch(
        "R12",
        "git is asked for the branch",
        (
            (
                "session/branch.py",
                "    try:\n        with (\n            opened(",
                "    os.system(f\"git -C '{workspace}' status\")\n"
                "    try:\n        with (\n            opened(",
            ),
        ),
        ("engine/test_trust.py::test_git_is_never_called",),
    ),
    Switch(
        "R13",
        "what a terminal acts on is dropped",
        (("safety/safe_text.py", 'return f"⟨U+{code:04X}⟩"', 'return ""'),),
        ("unit/test_safety_safe_text.py",),
    ),
    Switch(
        "R13",
        "control characters reach a widget",
        (("safety/safe_text.py", "if _belongs(char, match.string, match.start()):", "if True:"),),
        ("unit/test_safety_safe_text.py",),
    ),
    Switch(
        "R13",
        "the last line filter lets all pass",
        (("ui/line_filter.py", "if all(_harmless(segment) for segment in segments):", "if True:"),),
        ("ui/test_ui_shell_terminal.py",),
    ),
    Switch(
        "R14",
        "y approves what was not on screen",
        (
            (
                "ui/panes/gate.py",
                "bool(self.unseen() or",
                "bool(",
            ),
        ),
        (f"{_PAGES}::test_y_asks_once_before_what_was_not_on_screen",),
    ),
    Switch(
        "R15",
        "other content than was shown is changed",
        (("safety/changing.py", "    if now != expect:", "    if False:"),),
        (_FILES,),
    ),
    Switch(
        "R16",
        "a reply that was cut off is carried out",
        (
            ("llm/codec_json.py", 'if completion.finish == "length":', "if False:"),
            ("llm/codec_tools.py", 'if completion.finish == "length":', "if False:"),
        ),
        ("unit/test_llm_codecs.py", "engine/test_llm_decide.py"),
    ),
    Switch(
        "R16",
        "of a malformed reply the rest is carried out",
        (
            (
                "work/ask.py",
                "if operation is not None and operation.effect is Effect.READ:",
                "if operation is not None:",
            ),
        ),
        (f"{_TURN}::test_a_malformed_reply_runs_nothing_and_is_asked_again_at_most_twice",),
    ),
    Switch(
        "R17",
        "what no row speaks about is allowed",
        (
            (
                "safety/policy.py",
                "    if row is None:\n"
                '        return _denied(zone, Risk.CRITICAL, "unknown_operation", access, ruling)',
                "    if row is None:\n        return Verdict(Decision.ALLOW, zone, Risk.LOW)",
            ),
        ),
        (f"{_POLICY}::test_what_no_row_speaks_about_is_denied",),
    ),
    Switch(
        "R18",
        "a search may run for ever",
        (("tools/search.py", "asyncio.timeout(TIME_LIMIT)", "asyncio.timeout(None)"),),
        (
            "faults/test_tools_search_limits.py::"
            "test_an_expression_that_never_ends_is_stopped_and_said",
        ),
    ),
    Switch(
        "R18",
        "a body may be of any size",
        (("llm/transport.py", "if total > MAX_BODY:", "if False:"),),
        (f"{_STREAMS}::test_what_is_no_answer_is_a_clean_error",),
    ),
    Switch(
        "R18",
        "a line of a stream may be of any size",
        (("llm/wire.py", "if len(self._line) + len(text) > MAX_LINE:", "if False:"),),
        ("unit/test_llm_wire.py",),
    ),
    Switch(
        "R18",
        "a result goes whole to the model",
        (("tools/results.py", "if len(short) <= MAX_RESULT:", "if True:"),),
        ("engine/test_tools_router.py",),
    ),
    Switch(
        "R19",
        "settings give consent where nobody is there",
        (
            (
                "compose.py",
                "ApprovalMode.STANDARD if flags.headless else settings.approval.mode",
                "settings.approval.mode",
            ),
        ),
        ("unit/test_settings.py",),
    ),
    Switch(
        "R19",
        "rules that were kept give consent where nobody is there",
        (("assembly.py", "if not (choice.headless or choice.demo):", "if not choice.demo:"),),
        ("engine/test_rules.py",),
    ),
    Switch(
        "R19",
        "a gate where nobody is there waits",
        (
            (
                "safety/desk.py",
                "        if isinstance(question, Gate):\n            raise Unanswered(\n"
                '                "nobody",',
                "        if isinstance(question, Gate):\n"
                "            return await super().ask(question)\n            raise Unanswered(\n"
                '                "nobody",',
            ),
        ),
        (f"{_GATES}::test_nobody_to_ask",),
    ),
    Switch(
        "R20",
        "a refusal is a failure of the work",
        (
            (
                "work/progress.py",
                "RAN: Final = (Outcome.OK,",
                "RAN: Final = (Outcome.REJECTED, Outcome.OK,",
            ),
        ),
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
    if failed := copy.run(tests, _WITHIN).caught:
        raise SystemExit(f"{switch.rule}: {failed} fails as things are")
    return bool(_off(copy, switch.edits, tests))


def _off(copy: Copy, edits: Sequence[tuple[str, str, str]], tests: Sequence[str]) -> str:
    """The test that fails once all of the edits are made; empty for none."""
    if not edits:
        return copy.run(tests, _WITHIN).caught
    (name, old, new), *rest = edits
    source = (copy.root / _PACKAGE / name).read_text(encoding="utf-8")
    if source.count(old) != 1:
        sys.exit(f"{name} holds this {source.count(old)} times, and once is wanted:\n{old}")
    with copy.changed(_PACKAGE / name, source.replace(old, new)):
        return _off(copy, rest, tests)
