"""What a command line would run, and what may run by a rule (R04…R06); how risky it looks."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckflow_tui import safety
from duckflow_tui.safety import command_parsing
from duckflow_tui.safety.command_parsing import MAX_LINE, MAX_PARTS, read_command
from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.policy import Access, CallFact, Decision, Verdict, judge_access
from duckflow_tui.safety.risk import assess_command
from duckflow_tui.safety.rules import AllowRules, RuleRefused, find_rule_fault
from duckflow_tui.state.gates import DENY, Grant
from duckflow_tui.state.operations import ApprovalMode, Effect, Risk, Zone
from duckflow_tui.words.catalogue import Catalogue

ROOT = Path("/work")


def argvs(text: str) -> list[tuple[str, ...]]:
    return [part.argv for part in read_command(text).parts]


# --- what is plain -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pytest -q", [("pytest", "-q")]),
        ("  ls\t-la  ", [("ls", "-la")]),
        ("a && b || c ; d | e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("a&&b", [("a",), ("b",)]),
        ("ls;", [("ls",)]),
        ("pytest 2>&1 | tail -5", [("pytest",), ("tail", "-5")]),
        ("ls >/dev/null", [("ls",)]),
        ("ls 2>/dev/null && pwd", [("ls",), ("pwd",)]),
        ("echo 'a b' \"c d\"", [("echo", "a b", "c d")]),
        ("echo a'b'\"c\"d", [("echo", "abcd")]),
        (r"echo a\ b \; \*", [("echo", "a b", ";", "*")]),
        ("echo ''", [("echo", "")]),
        ("echo '$HOME' '`x`' '*' '~'", [("echo", "$HOME", "`x`", "*", "~")]),
        ('echo "*" "~" "{a,b}"', [("echo", "*", "~", "{a,b}")]),
        (r'echo "a\"b\\c\d"', [("echo", 'a"b\\c\\d')]),
        ("echo 日本語", [("echo", "日本語")]),
        ("echo a=b --x=y", [("echo", "a=b", "--x=y")]),
        ("echo -5 7", [("echo", "-5", "7")]),
        ("echo a#b", [("echo", "a#b")]),
        ("test -e x", [("test", "-e", "x")]),
        ("printf x -v", [("printf", "x", "-v")]),
    ],
)
def test_plain_commands_are_read_word_by_word(text: str, expected: list[tuple[str, ...]]) -> None:
    line = read_command(text)
    assert line.reason == ""
    assert [part.argv for part in line.parts] == expected


def test_what_joins_the_parts_is_known() -> None:
    line = read_command("a && b || c ; d | e")
    assert [part.joiner for part in line.parts] == ["", "&&", "||", ";", "|"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \t ", "empty"),
        ("echo $HOME", "expansion"),
        ('echo "$HOME"', "expansion"),
        (r'echo "\$HOME"', "expansion"),
        ("echo $(id)", "expansion"),
        ("echo $'\\x41'", "expansion"),
        ('echo $"hi"', "compound"),
        ("echo ~", "expansion"),
        ("echo ~root/x", "expansion"),
        ("echo a=~/x", "expansion"),
        ("echo a''~", "expansion"),
        ('echo "a"~b', "expansion"),
        ("echo 'a'~", "expansion"),
        ("ls *.py", "expansion"),
        ("ls a'b'*", "expansion"),
        ("echo {a,b}", "expansion"),
        ("echo {1..3}", "expansion"),
        ("A=1", "assignment"),
        ("'A'=1 ls", "assignment"),
        ("ls > out", "redirect"),
        ("ls 3>/dev/null", "redirect"),
        ("ls >/dev/null/x", "redirect"),
        ("ls >&2", "redirect"),
        ("ls 1>&2", "redirect"),
        ("ls 2>&-", "redirect"),
        ("cat < /etc/passwd", "redirect"),
        ("ls &", "background"),
        ("ls # x", "comment"),
        ("ls\npwd", "newline"),
        ("ls \\\n-la", "newline"),
        ("ls \u202e", "hidden"),
        ("ls \U000e0041", "hidden"),
        ("echo \ud800", "hidden"),
        ("(ls)", "compound"),
        ("for x in a; do ls; done", "compound"),
        ("while :; do :; done", "compound"),
        ("((1))", "compound"),
        ("ls &&", "unparsed"),
        ("&& ls", "unparsed"),
        ("ls ;; pwd", "compound"),
        ("ls | | pwd", "unparsed"),
        # a redirect alone is no command
        (">/dev/null", "unparsed"),
        ("2>&1", "unparsed"),
        (">/dev/null; ls", "unparsed"),
        ("2>&1 && ls", "unparsed"),
        ("ls; >/dev/null; pwd", "unparsed"),
        ("echo 'a", "unparsed"),
        ('echo "a', "unparsed"),
        ("echo \\", "unparsed"),
        ("'' ls", "unparsed"),
        ("ls )", "unparsed"),
        ("echo 'a'b~", "expansion"),
        ("echo ``a", "unparsed"),
        ("echo 10#$(id)", "expansion"),
        ("x" * (MAX_LINE + 1), "too_long"),
        (";".join(["ls"] * (MAX_PARTS + 1)), "too_many"),
        # one word, which the grammar takes for two
        ("pytest -x''\\q", "unparsed"),
        ('ls ""\\/etc', "unparsed"),
    ],
)
def test_everything_else_has_no_parts_and_a_reason(text: str, reason: str) -> None:
    line = read_command(text)
    assert line.parts == ()
    assert line.reason == reason


def test_of_a_line_with_more_than_is_looked_at_nothing_is_read() -> None:
    """What stands at its end is not seen: a rule that denies has to fit it (R06)."""
    line = read_command(";".join(["a"] * 3_000 + ["git push"]))
    assert (line.readable, line.found, line.parts, line.reason) == (False, (), (), "too_many")
    line = read_command(";".join(["a"] * 2_000 + ["git push"]))
    assert (line.readable, line.reason) == (True, "too_many")
    assert line.found[-1] == ("git", "push")


def test_a_line_is_read_down_to_its_fifth_substitution() -> None:
    line = read_command("a $(b $(c $(d $(e $(f)))))")
    programs = [words[0] for words in line.found]
    assert (line.readable, line.reason, programs) == (True, "expansion", [*"abcdef"])
    line = read_command("a $(b $(c $(d $(e $(f $(g))))))")
    assert (line.readable, line.reason, line.found, line.parts) == (False, "too_many", (), ())


def test_without_the_grammar_no_command_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine for which there is none: every line asks."""
    monkeypatch.setattr(safety, "command_parsing", command_parsing)  # what it is, it is again
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    monkeypatch.delitem(sys.modules, command_parsing.__name__)
    line = importlib.import_module(command_parsing.__name__).read_command("ls")
    assert (line.parts, line.reason, line.readable) == ((), "no_parser", False)


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=60))
def test_reading_never_fails_and_is_plain_or_has_a_reason(text: str) -> None:
    line = read_command(text)
    assert bool(line.parts) != bool(line.reason)
    if line.reason in ("too_long", "hidden", "no_parser", "unparsed", "too_many"):
        assert line.parts == ()


@pytest.fixture(scope="module")
def teller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program ``x`` that notes its own words."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "x"
    program.write_text('#!/bin/sh\nprintf "%s\\0" "$#" "$@" >> "$NOTES"\n')
    program.chmod(0o755)
    return folder


pieces = st.sampled_from(
    [
        *("a", "b-c", "'d e'", '"f g"', "\\ ", "\\\\", "2>&1", ">/dev/null", "~", "*", "$x", "`"),
        *("#", "=", "'", '"', "{", "}", "!", "^", "[", "]", "\\'", '\\"', "%", "--", "-n", "1"),
        *("2", "&", "<", "é", "日", "@", ",", ":", " ", "  ", "\t", " ; x ", " && x ", ";x "),
        *("|", "||x ", "&&"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces, max_size=12).map("".join))
def test_bash_runs_exactly_what_was_read(teller: Path, tail: str) -> None:
    """The grammar, the lexer and bash itself agree on every word of a plain line."""
    text = f"x {tail}"
    line = read_command(text)
    programs = {part.argv[0] for part in line.parts}
    joiners = {part.joiner for part in line.parts} - {"", ";", "&&"}
    if line.reason or programs != {"x"} or joiners:
        return
    notes = teller / "notes"
    notes.write_bytes(b"")
    environ = {
        "PATH": f"{teller}:/usr/bin:/bin",
        "NOTES": str(notes),
        "LANG": "C.UTF-8",
        "HOME": "/",
    }
    argv = ["bash", "--noprofile", "--norc", "-c", "--", text]
    ended = subprocess.run(argv, env=environ, cwd=teller, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    said = notes.read_bytes().decode().split("\0")[:-1]
    expected = [word for part in line.parts for word in (str(len(part.argv) - 1), *part.argv[1:])]
    assert said == expected
    assert sorted(os.listdir(teller)) == ["notes", "x"]


# --- rules -------------------------------------------------------------------------------------

RULES = AllowRules.parse_rules(["pytest -q", "ruff check .", "mcp.shop.*", "mcp.clock.now"])


def find_objection(text: str) -> str:
    inside = ("sub", "/work/sub")
    return RULES.find_objection(read_command(text), lambda target: target in inside, held=False)


@pytest.mark.parametrize(
    "text",
    [
        "pytest -q",
        "pytest   '-q'",
        "pytest -q 2>&1",
        "pytest -q >/dev/null && ruff check .",
        "cd sub && pytest -q",
        "cd /work/sub; pytest -q",
        "pytest -q && cd sub && ruff check .",
    ],
)
def test_a_line_of_named_commands_is_named(text: str) -> None:
    assert find_objection(text) == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pytest", "not_named"),
        ("pytest -q -x", "not_named"),
        ("pytest -qx", "not_named"),
        ("./pytest -q", "not_named"),
        ("sudo pytest -q", "not_named"),
        ("pytest -q | tee log", "not_named"),
        ("pytest -q; rm x", "not_named"),
        ("pytest -q || rm x", "not_named"),
        ("pytest -q &", "background"),
        ("pytest -q > log", "redirect"),
        ("PYTHONPATH=. pytest -q", "assignment"),
        ("pytest -q $(rm x)", "expansion"),
        ("pytest -q\nrm x", "newline"),
        ("cd other && pytest -q", "cd"),
        ("cd .. && pytest -q", "cd"),
        ("cd sub/.. && pytest -q", "cd"),
        ("cd - && pytest -q", "cd"),
        ("cd && pytest -q", "cd"),
        ("cd -P sub && pytest -q", "cd"),
        ("cd sub sub && pytest -q", "cd"),
        ("cd '' && pytest -q", "cd"),
        ("cd sub && cd sub && pytest -q", "cd"),
        ("cd sub | pytest -q", "cd"),
        ("pytest -q | cd sub", "cd"),
        ("cd sub", "not_named"),
        ("", "empty"),
    ],
)
def test_one_part_that_is_not_named_is_enough_to_ask(text: str, code: str) -> None:
    assert find_objection(text) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pytest", ""),
        ("pytest -q -k 'a or b' 2>&1", ""),
        ("cd sub && pytest -q | tail", ""),
        ("npm run test -- --watch=no", ""),
        ("npm run lint", "not_named"),
        ("pytester", "not_named"),
        ("./pytest", "not_named"),  # a file of the project, whatever it is called
        ("python3 -m pytest", "not_named"),
        ("pytest | ./tail", "not_named"),
        ("pytest $(rm x)", "expansion"),
        ("cd .. && pytest | tail", "cd"),
    ],
)
def test_a_beginning_names_whatever_follows_in_a_full_sandbox_alone(text: str, code: str) -> None:
    """R05."""
    rules = AllowRules.parse_rules(["pytest:*", "npm run test:*", "tail:*", "bash:*"])
    line = read_command(text)
    assert rules.find_objection(line, lambda target: target == "sub", held=True) == code
    assert rules.find_objection(line, lambda target: target == "sub", held=False) != ""
    assert rules.find_objection(read_command("pytest"), lambda _: True, held=False) == "not_held"


@given(
    st.lists(st.sampled_from(["pytest -q", "ruff check .", "rm x", "cd sub", "cd .."]), min_size=1)
)
def test_no_line_is_named_that_holds_a_part_which_is_not(parts: list[str]) -> None:
    allowed = find_objection(" && ".join(parts)) == ""
    assert not (allowed and {"rm x", "cd .."} & set(parts))


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("", "empty"),
        (":*", "empty"),
        ("*", "expansion"),
        ("pytest *", "expansion"),
        ("git:*push", "expansion"),
        ("$X", "expansion"),
        ("Bash(git push:*)", "compound"),
        ("git 'push", "unparsed"),
        ("MCP.shop.*", "expansion"),
        ("mcp.shop.buy(", "unparsed"),
        ("mcp.shop", "operation"),
        ("mcp.", "operation"),
        ("shell.run", "operation"),
        ("file_ops.delete", "operation"),
        ("pytest -q && ls", "several"),
        ("pytest -q > x", "redirect"),
        ("X=1 pytest", "assignment"),
        ("a\nb", "newline"),
    ],
)
def test_a_rule_that_does_not_say_exactly_what_runs_is_refused(rule: str, code: str) -> None:
    with pytest.raises(RuleRefused) as refused:
        AllowRules.parse_rules([rule])
    assert (refused.value.code, refused.value.rule) == (code, rule)
    fault = find_rule_fault(f" {rule} ")
    assert fault is not None
    for language in ("en", "ja"):
        said = Catalogue(language)(f"settings.why.{fault.key}", **fault.params)
        assert "settings.why" not in said
        assert not rule.removesuffix(":*") or rule.replace("\n", " ") in said


@pytest.mark.parametrize(
    "rule", ["git push", "git push:*", "rm", "rm -rf ./x", "npm run 'build:prod'", "web.py"]
)
def test_the_words_of_a_command_are_a_rule_that_denies_it(rule: str) -> None:
    assert find_rule_fault(rule) is None
    assert judged(rule.removesuffix(":*"), TRUSTED, rule).kind is D


@pytest.mark.parametrize(
    ("operation", "named"),
    [
        ("mcp.shop.list", True),
        ("mcp.clock.now", True),
        ("mcp.clock.set", False),
        ("mcp.shopping.list", False),
        ("file_ops.delete_file", False),
        ("shell.run", False),
    ],
)
def test_globs_speak_about_tools_of_servers(operation: str, named: bool) -> None:
    assert RULES.names_operation(operation) is named


# --- policy ------------------------------------------------------------------------------------

PLAN, STRICT, STANDARD, TRUSTED = ApprovalMode
A, G, D = Decision.ALLOW, Decision.GATE, Decision.DENY


def at(zone: Zone = Zone.INSIDE) -> tuple[Place, ...]:
    return (Place("sub", "sub", "sub", ROOT / "sub", zone, exists=True, is_dir=True),)


def judged(
    command: str,
    mode: ApprovalMode,
    *denied: str,
    facts: tuple[CallFact, ...] = (CallFact.NAMED,),
    granted: tuple[str, ...] = (),
) -> Verdict:
    """The verdict on a command in a folder below, with these rules of the user."""
    rules = [
        Grant(grant_id=f"g{at}", operation=DENY, path=rule, gate_id="")
        for at, rule in enumerate(denied)
    ]
    rules += [
        Grant(grant_id=path, operation="shell.run", path=path, gate_id="") for path in granted
    ]
    access = Access(
        "shell.run", Effect.EXECUTE, at(), None, frozenset(facts), command=command, root=ROOT
    )
    return judge_access(access, mode, rules)


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "ls && git push origin",
        "/usr/bin/git push",
        "GIT PUSH",
        "x=1 git push",
        "(git push)",
        "echo $(git push)",
        "if true; then git push; fi",
        "echo `echo $(git push)`",
        "a $(b $(c $(d $(e $(git push)))))",
        "a $(b $(c $(d $(e $(f $(git push))))))",
        "a $(b $(c $(d $(e $(f $(g $(git push)))))))",
        "cat <(git push)",
        "git push > log",
        "git 'push'",
        "gi''t p\\ush",
        "git push\nls",
        "git -C sub --no-pager push origin",
        "sudo -n git push",
        "env A=1 timeout 5 git push",
        "ls | xargs git push",
        "find . -exec git push ';'",
        "bash -c 'cd x; git push'",
        "bash -c \"g''it push\"",
        "bash -c 'gi\\t \"pu\"sh'",
        "ssh host \"sh -c 'git push'\"",
        "python3 -c 'import os; os.system(\"git push\")'",
        "echo 'unreadable",
        "ls\x00",
        "y" * (MAX_LINE + 1),
    ],
)
def test_a_deny_rule_holds_for_every_part_and_for_what_cannot_be_read(command: str) -> None:
    """R06: in every mode, and whatever was named or granted."""
    for rule in ("git push", "git push:*", "  git   push ", "git 'push'"):
        found = judged(command, TRUSTED, rule)
        assert (found.kind, found.reasons[0]) == (D, "denied_by_rule")
        assert found.told.values["rule"] == rule
        assert found.ruling is not None
        assert found.ruling.rules == ("g0",)


@pytest.mark.parametrize(
    "command",
    ["git pull", "git stash", "push", "push git", "git commit -m 'push later'", "gitk push", "ls"],
)
def test_a_deny_rule_lets_other_commands_be_asked_for(command: str) -> None:
    assert judged(command, TRUSTED, "git push", facts=()).kind is G
    assert judged(command, TRUSTED, "git push").kind is A


@pytest.mark.parametrize(
    "command",
    ["$X push", "x=push; git $x", "sh <<E\ngit push\nE", "g() { git $1; }; g push", "git pus? x"],
)
def test_while_a_deny_rule_stands_more_than_plain_words_asks_each_time(command: str) -> None:
    """R06: it may be what is forbidden, or is."""
    granted = (*("*sandbox", "//routine"), command)
    for facts in ((), (CallFact.HELD,)):
        found = judged(command, TRUSTED, "git push", granted=granted, facts=facts)
        assert (found.kind, found.can_grant_session) == (G, False)
        assert "deny_unsure" in found.reasons
    assert judged(command, TRUSTED, granted=granted, facts=(CallFact.HELD,)).kind is A
    assert judged(command, TRUSTED, "mcp.shop.*", facts=(CallFact.HELD,)).kind is A


@pytest.mark.parametrize("rule", [":*", "git*push"])
def test_a_kept_rule_that_cannot_be_read_denies_every_command(rule: str) -> None:
    """R06: a session of an older version may hold one."""
    assert judged("ls", TRUSTED, rule).kind is D


@pytest.mark.parametrize(
    ("rule", "operation", "denied"),
    [
        ("mcp.shop.buy", "mcp.shop.buy", True),
        ("mcp.shop.*", "mcp.shop.buy", True),
        ("mcp.*", "mcp.clock.now", True),
        ("mcp.shop.*", "mcp.shopping.buy", False),
        ("shop buy", "mcp.shop.buy", False),
    ],
)
def test_a_deny_rule_for_tools_of_servers(rule: str, operation: str, denied: bool) -> None:
    access = Access(operation, Effect.REMOTE, facts=frozenset({CallFact.NAMED}))
    given = [Grant(grant_id="g", operation=DENY, path=rule, gate_id="")]
    assert (judge_access(access, TRUSTED, given).kind is D) is denied


def test_a_rule_about_commands_says_nothing_about_files() -> None:
    access = Access("file_ops.read_file", Effect.READ, at())
    given = [Grant(grant_id="g", operation=DENY, path="sub", gate_id="")]
    assert judge_access(access, STANDARD, given).kind is A


# --- risk --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "risk"),
    [
        ((), Risk.MEDIUM),
        ((CallFact.UNDOABLE,), Risk.MEDIUM),
        ((CallFact.UNHELD, CallFact.UNDOABLE), Risk.MEDIUM),
        ((CallFact.HELD,), Risk.MEDIUM),
        ((CallFact.HELD, CallFact.UNDOABLE), Risk.LOW),
    ],
)
@pytest.mark.parametrize("command", ["ls", "rm -rf /", "sudo x", "curl x | sh", "make > log"])
def test_the_risk_of_a_command_that_can_be_read_is_that_of_what_holds_it(
    command: str, facts: tuple[CallFact, ...], risk: Risk
) -> None:
    """Whatever its program is called."""
    assert judged(command, STANDARD, facts=facts).risk is risk


def test_a_command_that_reaches_hosts_is_of_more_risk() -> None:
    facts = frozenset({CallFact.HELD, CallFact.UNDOABLE})
    access = Access("shell.run", Effect.EXECUTE, at(), None, facts, command="x", hosts=("a.org",))
    assert judge_access(access, STANDARD).risk is Risk.MEDIUM


@pytest.mark.parametrize(
    ("command", "reasons"),
    [
        ("cat .env", "secret"),
        ("wc < .env", "secret"),
        ("x --file=.env", "secret"),
        ("python3 -c 'print(open(\".env\").read())'", "secret"),
        ("echo $(cat ~/.ssh/id_rsa)", "secret"),
        ("echo x > a/.env", "secret"),
        ("echo 'open", "not_readable"),
        ("ls \u202e", "hidden_characters not_readable"),
        ("y" * (MAX_LINE + 1), "not_readable"),
    ],
)
def test_what_names_a_secret_file_or_cannot_be_read_is_of_high_risk_and_asks_each_time(
    command: str, reasons: str
) -> None:
    facts = (CallFact.HELD, CallFact.UNDOABLE)
    for mode in (STANDARD, TRUSTED):
        found = judged(command, mode, facts=facts, granted=("*sandbox", "//routine"))
        assert (found.kind, found.risk, " ".join(found.reasons)) == (G, Risk.HIGH, reasons)
        assert not found.can_grant_session
    assert judged(command, TRUSTED, facts=(CallFact.HELD, CallFact.NAMED)).kind is A


@pytest.mark.parametrize(
    ("line", "secrets"),
    [
        ("cat a.py", ()),
        ("cat .env if=a/x.pem", ("/work/.env", "/work/a/x.pem")),
        ("cat a/../*.key", ("/work/*.key",)),
        ("cd sub && cat .env", ("/work/.env", "/work/sub/.env")),
        ("sh -c 'cat .env'", ("/work/.env", "/work/cat .env")),
        ("sh -c 'cat .e\"\"nv'", ("/work/.env",)),
        ("cat /home/.ssh/id_rsa", ("/home/.ssh/id_rsa",)),
    ],
)
def test_the_secret_files_that_a_line_names(line: str, secrets: tuple[str, ...]) -> None:
    """In each folder that it may be in by then."""
    assert assess_command(read_command(line), ROOT).secrets == {*secrets}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_a_command_always_has_a_risk(text: str) -> None:
    assert assess_command(read_command(text), ROOT).risk in Risk


def test_a_line_that_is_nested_without_end_costs_little() -> None:
    assert assess_command(read_command("$(" * 900 + ")" * 900), ROOT).risk is Risk.HIGH


def test_other_characters_than_ascii_stay_what_they_are_everywhere() -> None:
    """In words, in quotes, in targets and in substitutions; the marks in their place never show."""
    line = read_command("cat 'zq買う' \"日 本\" && rm é/ü")
    assert [part.argv for part in line.parts] == [("cat", "zq買う", "日 本"), ("rm", "é/ü")]
    assert read_command("echo x > 出力 < 入力").files == ("出力", "入力")
    assert read_command("echo $(rm 大事)").found[1] == ("rm", "大事")
    assert read_command("名=1 ls").reason == "assignment"


@pytest.mark.parametrize("mark", ["zq", "zzzzz"])
def test_what_stands_in_for_another_character_cannot_be_written_in_pieces(mark: str) -> None:
    """R04: else a rule for ``make`` would let another program run."""
    line = read_command(f'{mark[0]}"{mark[1:]}00006d"ake test && cd é')
    assert [part.argv for part in line.parts] == [(f"{mark}00006dake", "test"), ("cd", "é")]


def test_a_line_made_to_be_slow_is_read_all_the_same() -> None:
    """R06: what stands in for a character stays short, whatever else the line holds."""
    word, other = "z" + "q" * 3_900, "é" * 3_900
    assert argvs(f"{word} {other}") == [(word, other)]
