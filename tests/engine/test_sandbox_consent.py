"""What a sandbox is worth in questions: which commands ask, what a key allows, and what runs
outside of it. The level is told to the session; the commands are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from support.bench import done
from support.session import action, decision, script, session
from support.session import done as finished
from support.shell import ShellBench, no_full_sandbox

from duckflow_tui.safety.policy import PolicyRules, grant_for
from duckflow_tui.session.decisions import rule_words
from duckflow_tui.state.calls import OperationMessage, OperationStarted
from duckflow_tui.state.conversation import Level, NoticeMessage
from duckflow_tui.state.gates import Gate, GateChoice, Grant, GrantAdded, GrantRevoked
from duckflow_tui.state.operations import ApprovalMode, Outcome, Risk
from duckflow_tui.state.session import ModeChanged, SandboxLevel, SandboxTested, end_with_process
from duckflow_tui.tools.commands import SandboxChoice
from duckflow_tui.words.catalogue import Catalogue

RUN = "shell.run"
HELD: tuple[SandboxLevel, ...] = ("full", "seatbelt", "external")
OPEN: tuple[SandboxLevel, ...] = ("partial", "none")
UNREACHABLE = "echo 'connect: Network is unreachable' >&2; test -e outside.txt"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@contextlib.asynccontextmanager
async def opened(
    root: Path, level: SandboxLevel, mode: ApprovalMode = ApprovalMode.STANDARD, **more: Any
) -> AsyncGenerator[ShellBench]:
    bench = ShellBench(root, mode=mode, **more)
    bench.store.state.session = bench.store.state.session.replace(sandbox=level)
    try:
        yield bench
    finally:
        await bench.end_commands()


async def asked(
    bench: ShellBench, choice: GateChoice, command: str, **args: Any
) -> tuple[Gate, OperationMessage]:
    """Run it, press that key in its gate, and wait for its end."""
    task = bench.begin(RUN, command=command, **args)
    gate = await bench.gate()
    await bench.answer(gate, choice)
    return gate, await done(task)


async def test_a_key_allows_only_this_command_as_long_as_the_sandbox_holds_it(root: Path) -> None:
    """Narrower than all that the sandbox holds, and no consent to a run without it."""
    (root / "sub").mkdir()
    async with opened(root, "full") as bench:
        gate, _ = await asked(bench, GateChoice.ONLY, "pwd")
        assert gate.grant_only == "shell.run *sandbox pwd …"
        again = await bench.call(RUN, command="pwd")
        assert (again.gate, again.allowed) == (None, "sandbox")
        for command, cwd in (("echo two", "."), ("pwd", "sub")):
            gate, _ = await asked(bench, GateChoice.ONCE, command, cwd=cwd)
            assert gate.grant_pattern == "shell.run *sandbox"
        # In the background it has no end and no undo: that is another thing to agree to.
        gate, _ = await asked(bench, GateChoice.REJECT, "pwd", background=True)
        assert gate.grant_only == "shell.run *sandbox pwd … &"
        gate, _ = await asked(bench, GateChoice.ONCE, "echo one > a.txt")
        assert gate.grant_only == ""  # a line that no rule can name
        bench.store.state.session = bench.store.state.session.replace(sandbox="none")
        gate, _ = await asked(bench, GateChoice.ONCE, "pwd")
        assert (gate.grant_pattern, gate.grant_only) == ("shell.run pwd …", "")
        bench.store.state.session = bench.store.state.session.replace(sandbox="full")
        (rule,) = bench.store.state.grants
        assert rule_words(rule, Catalogue("en")) == "only pwd …, in the sandbox"
        bench.store.dispatch(GrantRevoked(grant=rule, at=1.0))
        gate, _ = await asked(bench, GateChoice.REJECT, "pwd")
        assert gate.grant_only == "shell.run *sandbox pwd …"
        with pytest.raises(ValueError, match="cannot be granted"):
            grant_for(gate.replace(grant_only=""), "grant_1", GateChoice.ONLY)


async def test_one_key_at_an_edit_allows_edits_and_commands_in_the_sandbox(root: Path) -> None:
    """Until it is revoked, and never a deletion, a run without a sandbox or what runs later."""
    edit = {"path": "a.txt", "content": "one\n"}
    async with opened(root, "full") as bench:
        task = bench.begin("file_ops.write_file", **edit)
        await bench.answer(await bench.gate(), GateChoice.ROUTINE)
        assert (await done(task)).result.outcome is Outcome.OK
        second = await bench.call("file_ops.write_file", path="b.txt", content="two\n")
        moved = await bench.call("file_ops.move_file", source="b.txt", target="c.txt")
        ran = await bench.call(RUN, command="cat *.txt")
        assert {m.result.outcome for m in (second, moved, ran)} == {Outcome.OK}
        assert ran.allowed == "sandbox"
        (rule,) = bench.store.state.grants
        assert rule_words(rule, Catalogue("en")).startswith("every edit inside the folder")
        for operation, args in (
            ("file_ops.delete_file", {"path": "c.txt"}),
            (RUN, {"command": "rm c.txt"}),
            ("file_ops.write_file", {"path": "conftest.py", "content": "x = 1\n"}),
        ):
            task = bench.begin(operation, **args)
            gate = await bench.gate()
            assert not gate.can_grant_routine
            await bench.answer(gate, GateChoice.REJECT)
            await done(task)
        bench.store.state.session = bench.store.state.session.replace(sandbox="none")
        await asked(bench, GateChoice.REJECT, "pwd")
        bench.store.state.session = bench.store.state.session.replace(sandbox="full")
        bench.store.dispatch(GrantRevoked(grant=rule, at=1.0))
        await asked(bench, GateChoice.REJECT, "pwd")
        task = bench.begin("file_ops.write_file", path="d.txt", content="four\n")
        await bench.answer(await bench.gate(), GateChoice.REJECT)
        assert (await done(task)).result.outcome is Outcome.REJECTED


@pytest.mark.parametrize("level", HELD)
async def test_in_standard_mode_one_key_allows_the_commands_in_the_sandbox(
    root: Path, level: SandboxLevel
) -> None:
    """Other commands too, lines that no rule could name, and those in a folder below."""
    (root / "sub").mkdir()
    async with opened(root, level) as bench:
        gate, first = await asked(bench, GateChoice.SESSION, "echo one > a.txt")
        assert gate.grant_pattern == "shell.run *sandbox"
        assert gate.facts["sandbox"] == level
        assert first.allowed == ""
        second = await bench.call(RUN, command="for f in *.txt; do cat $f; done")
        assert second.result.text.endswith("\none")
        assert second.allowed == "sandbox"
        below = await bench.call(RUN, command="pwd", cwd="sub")
        assert below.result.text.endswith("/sub")
        bench.store.dispatch(ModeChanged(mode=ApprovalMode.STRICT, at=0.0))
        gate, _ = await asked(bench, GateChoice.REJECT, "echo two")
        assert not gate.can_grant_session


async def test_the_consent_ends_with_the_process(root: Path) -> None:
    async with opened(root, "full") as bench:
        await asked(bench, GateChoice.SESSION, "echo one")
        assert [grant.path for grant in bench.store.state.grants] == ["*sandbox"]
        end_with_process(bench.store.state, 0.0)
        await asked(bench, GateChoice.REJECT, "echo two")


@pytest.mark.parametrize("level", HELD)
async def test_in_trusted_mode_nothing_is_asked_that_the_sandbox_holds(
    root: Path, level: SandboxLevel
) -> None:
    (root / "a.txt").write_text("a\n")
    async with opened(root, level, ApprovalMode.TRUSTED) as bench:
        ran = await bench.call(RUN, command="sh -c 'echo $((6 * 7))'")
        assert (ran.result.text.split("\n")[-1], ran.allowed) == ("42", "sandbox")
        gate, _ = await asked(bench, GateChoice.REJECT, "rm a.txt")
        assert "deletes" in gate.impact.reasons
        assert not gate.can_grant_session


@pytest.mark.parametrize("mode", [ApprovalMode.STANDARD, ApprovalMode.TRUSTED])
@pytest.mark.parametrize("level", OPEN)
async def test_what_nothing_holds_asks_and_a_key_allows_that_command_alone(
    root: Path, level: SandboxLevel, mode: ApprovalMode
) -> None:
    async with opened(root, level, mode) as bench:
        gate, _ = await asked(bench, GateChoice.ONCE, "echo one two")
        gate, _ = await asked(bench, GateChoice.SESSION, "sh -c 'echo one'")
        assert gate.grant_pattern == "shell.run sh -c 'echo one'"
        again = await bench.call(RUN, command="sh -c 'echo one'")
        assert (again.result.exit_code, again.allowed) == (0, "granted")
        gate, _ = await asked(bench, GateChoice.SESSION, "sh -c 'echo one'", background=True)
        assert gate.grant_pattern == "shell.run sh -c 'echo one' &"
        again = await bench.call(RUN, command="sh -c 'echo one'", background=True)
        assert again.allowed == "granted"
        await asked(bench, GateChoice.REJECT, "sh -c 'echo two'")


async def test_read_only_commands_are_of_low_risk(root: Path) -> None:
    async with opened(root, "none") as bench:
        gate, _ = await asked(bench, GateChoice.SESSION, "git status --short")
        assert (gate.impact.risk, gate.grant_pattern) == (Risk.LOW, "shell.run git status …")
        await bench.call(RUN, command="git --no-pager status -b")
        gate, _ = await asked(bench, GateChoice.REJECT, "git commit -m x")
        assert gate.impact.risk is Risk.MEDIUM


@pytest.mark.parametrize("mode", [ApprovalMode.STRICT, ApprovalMode.STANDARD, ApprovalMode.TRUSTED])
async def test_outside_the_sandbox_each_command_asks_however_often_it_is_asked_for(
    root: Path, mode: ApprovalMode
) -> None:
    """A stubborn model asks for it each time; neither the consent for the sandbox nor a rule of
    the command line lets one run.
    """
    async with opened(root, "full", mode, allowed=("echo 1",)) as bench:
        if mode is ApprovalMode.STANDARD:
            await asked(bench, GateChoice.SESSION, "echo 0 > a")
        for _ in range(3):
            gate, message = await asked(bench, GateChoice.REJECT, "echo 1", outside=True)
            assert gate.facts["sandbox"] == "outside"
            assert "outside_sandbox" in gate.impact.reasons
            assert (gate.can_grant_session, gate.can_grant_step) == (False, False)
            assert gate.args["outside"] is True
            assert message.result.outcome is Outcome.REJECTED
        _, message = await asked(bench, GateChoice.ONCE, "echo 1", outside=True)
        assert message.result.text.endswith("\n1")
        await asked(bench, GateChoice.REJECT, "echo 1", outside=True)


async def test_in_plan_mode_nothing_runs_outside_either(root: Path) -> None:
    async with opened(root, "full", ApprovalMode.PLAN) as bench:
        for args in ({}, {"outside": True}):
            message = await bench.call(RUN, command="touch made", **args)
            assert message.result.outcome is Outcome.DENIED
        assert not (root / "made").exists()


# --- the network, host by host -----------------------------------------------------------------


async def test_a_rule_for_hosts_lets_commands_reach_those_alone_and_says_nothing_else(
    root: Path,
) -> None:
    """The command itself asks as ever; a sloppy model's spellings are one host, which counts for
    the usual ports.
    """
    async with opened(root, "full") as bench:
        given = "https://PyPI.org/simple, files.example.org:8080"
        gate, _ = await asked(bench, GateChoice.SESSION, "echo 1", hosts=given)
        assert gate.facts["hosts"] == "pypi.org, files.example.org:8080"
        assert gate.grant_pattern == "shell.run *network files.example.org:8080 pypi.org"
        gate, _ = await asked(bench, GateChoice.SESSION, "echo 2", hosts=["pypi.org"])
        assert (gate.grant_pattern, "reaches" in gate.impact.reasons) == (
            "shell.run *sandbox",
            False,
        )
        network, sandbox = bench.store.state.grants
        for hosts in (["pypi.org:443", "files.example.org:8080"], ["pypi.org"]):
            ran = await bench.call(RUN, command="echo 3", hosts=hosts)
            assert ran.ruling is not None
            assert ran.ruling.rules == (sandbox.grant_id, network.grant_id)
        for host in ("pypi.org:8080", "files.example.org", "evil.pypi.org", "example.org"):
            gate, _ = await asked(bench, GateChoice.REJECT, "echo 4", hosts=[host, "pypi.org"])
            assert "reaches" in gate.impact.reasons
        gate, _ = await asked(bench, GateChoice.REJECT, "rm a", hosts=["example.org"])
        assert not gate.can_grant_session
        await bench.store.commit(GrantRevoked(grant=network, at=0.0))
        await asked(bench, GateChoice.REJECT, "echo 3", hosts=["pypi.org"])


async def test_a_rule_of_the_project_for_hosts_is_none_for_what_runs(root: Path) -> None:
    async with opened(root, "full") as bench:
        bench.router.rules = PolicyRules(keeps=True)
        gate, _ = await asked(bench, GateChoice.PROJECT, "echo 1", hosts=["pypi.org"])
        assert [(g.source, g.path) for g in bench.store.state.grants] == [
            ("project", "*network pypi.org")
        ]
        gate, _ = await asked(bench, GateChoice.REJECT, "echo 1", hosts=["pypi.org"])
        assert (gate.grant_pattern, gate.can_grant_project) == ("shell.run *sandbox", False)
        bench.store.dispatch(ModeChanged(mode=ApprovalMode.TRUSTED, at=0.0))
        ran = await bench.call(RUN, command="echo 1", hosts=["pypi.org"])
        assert (ran.allowed, ran.result.exit_code) == ("sandbox", 0)


@pytest.mark.parametrize("level", ["partial", "seatbelt"])
async def test_where_nothing_can_hold_a_command_to_its_hosts_that_is_said_and_each_asks(
    root: Path, level: SandboxLevel
) -> None:
    async with opened(root, level, ApprovalMode.TRUSTED, allowed=("echo 1",)) as bench:
        rule = Grant(
            grant_id="r", operation=RUN, path="*network pypi.org", gate_id="", source="project"
        )
        bench.store.dispatch(GrantAdded(grant=rule))
        for _ in range(2):
            gate, _ = await asked(bench, GateChoice.ONCE, "echo 1", hosts=["pypi.org"])
            assert (gate.facts.get("hosts"), gate.facts["hosts_open"]) == (None, "pypi.org")
            assert (gate.can_grant_session, gate.can_grant_project) == (False, False)
        await bench.call(RUN, command="echo 1")


@pytest.mark.parametrize("level", ["none", "external"])
async def test_where_every_command_has_the_network_hosts_are_no_question_of_their_own(
    root: Path, level: SandboxLevel
) -> None:
    async with opened(root, level, ApprovalMode.TRUSTED, allowed=("echo 1",)) as bench:
        await bench.call(RUN, command="echo 1", hosts=["pypi.org"])
        gate, _ = await asked(bench, GateChoice.REJECT, "rm -r b", hosts=["pypi.org"])
        assert gate.facts["hosts_open"] == "pypi.org"


@pytest.mark.parametrize("mode", [ApprovalMode.PLAN, ApprovalMode.STRICT, ApprovalMode.TRUSTED])
async def test_without_a_key_or_a_rule_no_host_is_reached_and_no_other_way_in_asks_less(
    root: Path, mode: ApprovalMode
) -> None:
    async with opened(root, "full", mode, headless=True, allowed=("touch a",)) as bench:
        for given in (["pypi.org"], "pypi.org"):
            ran = await bench.call(RUN, command="touch a", hosts=given)
            assert ran.result.outcome is Outcome.DENIED
        ran = await bench.call(RUN, command="touch a", hosts=["*.org"])
        assert (ran.result.outcome, "write its name" in ran.result.text) == (Outcome.INVALID, True)
        assert not (root / "a").exists()


# --- what the sandbox probably held back -------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("connect: Network is unreachable", "failed_network"),
        ("curl: (6) Could not resolve host: example.org", "failed_network"),
        ("touch: cannot touch '/opt/x': Read-only file system", "failed_write"),
        ("fatal: Unable to create '.git/index.lock': Read-only file system", "failed_write"),
        ("bash: line 1: 7 File size limit exceeded", "failed_limit"),
        ("bash: fork: retry: Resource temporarily unavailable", "failed_limit"),
    ],
)
async def test_a_command_that_the_sandbox_held_back_is_offered_outside_once(
    root: Path, said: str, reason: str
) -> None:
    line = f'echo "{said}" >&2; test -e outside.txt'
    async with opened(root, "full", ApprovalMode.TRUSTED) as bench:
        task = bench.begin(RUN, command=line)
        gate = await bench.gate()
        assert reason in gate.impact.reasons
        assert "outside_sandbox" in gate.impact.reasons
        assert gate.facts["sandbox"] == "outside"
        assert gate.args == {"command": line, "outside": True}
        (root / "outside.txt").touch()
        await bench.answer(gate, GateChoice.ONCE)
        message = await done(task)
        assert message.result.exit_code == 0
        assert "Probably the sandbox" in message.result.text
        assert "outside the sandbox" in message.result.text
        assert (message.gate, message.answer is not None) == (gate, True)


async def test_a_no_leaves_what_came_of_it_and_the_same_is_not_offered_again(root: Path) -> None:
    async with opened(root, "full", ApprovalMode.TRUSTED) as bench:
        task = bench.begin(RUN, command=UNREACHABLE)
        await bench.answer(await bench.gate(), GateChoice.REJECT, reason="use the cache")
        message = await done(task)
        assert (message.result.outcome, message.result.exit_code) == (Outcome.OK, 1)
        assert "Probably the sandbox" in message.result.text
        assert "use the cache" in message.result.text
        assert (message.gate, message.allowed) == (None, "sandbox")
        again = await bench.call(RUN, command=UNREACHABLE)
        assert "The user did not want it outside." in again.result.text
        task = bench.begin(RUN, command=f"{UNREACHABLE}; false")
        await bench.answer(await bench.gate(), GateChoice.REJECT)
        await done(task)


@pytest.mark.parametrize("level", ["none", "external"])
async def test_where_no_sandbox_denies_anything_nothing_is_put_down_to_it(
    root: Path, level: SandboxLevel
) -> None:
    async with opened(root, level) as bench:
        _, message = await asked(bench, GateChoice.ONCE, UNREACHABLE)
        assert "Probably" not in message.result.text


async def test_a_command_that_went_well_or_failed_by_itself_is_not_put_down_to_it(
    root: Path,
) -> None:
    async with opened(root, "full", ApprovalMode.TRUSTED) as bench:
        for line in (
            "echo Network is unreachable",
            "echo 1 failed; false",
            "cat none: Permission denied",
        ):
            message = await bench.call(RUN, command=line)
            assert "Probably" not in message.result.text


async def test_with_nobody_there_it_is_said_and_nothing_is_asked(root: Path) -> None:
    async with opened(root, "full", ApprovalMode.TRUSTED, headless=True) as bench:
        session = bench.store.state.session
        bench.store.state.session = session.replace(headless=True)
        message = await bench.call(RUN, command=UNREACHABLE)
        assert "Nobody is there to allow it outside." in message.result.text
        denied = await bench.call(RUN, command="echo 1", outside=True)
        assert denied.result.outcome is Outcome.DENIED


# --- rules, and what the AI wrote --------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "line", "path"),
    [
        ("sh t.sh", "sh t.sh", "t.sh"),
        ("sh t.sh", "sh t.sh 2>&1 | tail -3", "t.sh"),
        ("./t.sh", "./t.sh", "t.sh"),
        ("python3 -m tool", "python3 -m tool", "tool.py"),
        ("python3 -m tool", "python3 -m tool", "tool/__main__.py"),
        ("make test", "make test", "Makefile"),
        ("make -f other test", "make -f other test", "other"),
        ("pytest:*", "pytest -q", "conftest.py"),
        ("pytest -p tool", "pytest -p tool", "tool.py"),
        ("./python3 -m unittest", "./python3 -m unittest", "python3"),
        ("./test", "./test", "test"),
        ("bin/ls src", "bin/ls src", "bin/ls"),
        ("./ls t.py", "./ls t.py", "t.py"),
        ("npm test", "npm test", "sub/package.json"),
        ("python3 -m tool.run", "python3 -m tool.run", "tool/__init__.py"),
        ("python3 ./tool", "python3 ./tool", "tool/__main__.py"),
        ("node tool", "node tool", "tool/index.js"),
        ("sh led.sh", "sh led.sh", "t.sh"),
        ("sh t.sh", "sh t.sh", "led.sh"),
    ],
)
async def test_a_rule_is_void_once_the_ai_wrote_what_it_runs(
    root: Path, rule: str, line: str, path: str
) -> None:
    """Where no sandbox holds it; what it wrote is the user's again once it was undone."""
    (root / "t.sh").write_text("echo 1\n")
    (root / "led.sh").symlink_to("t.sh")
    async with opened(root, "none", ApprovalMode.TRUSTED, allowed=(rule, "true")) as bench:
        assert await bench.router.runs_unasked(line)
        task = bench.begin("file_ops.write_file", path=path, content="echo written\n")
        await bench.until(lambda state: bool(state.gates or state.messages))
        if bench.store.state.gates:
            await bench.answer(await bench.gate(), GateChoice.ONCE)
        assert (await done(task)).result.outcome is Outcome.OK
        assert not await bench.router.runs_unasked(line)
        gate, _ = await asked(bench, GateChoice.REJECT, line)
        assert "ai_wrote" in gate.impact.reasons
        assert gate.facts["rule"] == "ai_wrote"
        assert not gate.can_grant_session
        bench.store.state.session = bench.store.state.session.replace(sandbox="full")
        assert await bench.router.runs_unasked(line)
        gate, _ = await asked(bench, GateChoice.REJECT, line, outside=True)
        assert "ai_wrote" in gate.impact.reasons
        bench.store.state.session = bench.store.state.session.replace(sandbox="none")
        await bench.router.undoing.undo_last()
        assert await bench.router.runs_unasked(line)


async def test_a_rule_is_void_once_a_command_of_the_ai_wrote_what_it_runs(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(root, "none", ApprovalMode.TRUSTED, allowed=("./check", "ls")) as bench:
        assert await bench.router.runs_unasked("./check")
        _, message = await asked(bench, GateChoice.ONCE, "echo 'echo 1' > check")
        assert [change.path for change in message.result.touched] == ["check"]
        gate, _ = await asked(bench, GateChoice.REJECT, "./check")
        assert gate.facts["rule"] == "ai_wrote"
        assert await bench.router.runs_unasked("ls")
        monkeypatch.setenv("PATH", f"{root}:{os.environ['PATH']}")  # as by a venv
        await asked(bench, GateChoice.ONCE, "echo 'echo 1' > ls; chmod +x ls")
        gate, _ = await asked(bench, GateChoice.REJECT, "ls")
        assert gate.facts["rule"] == "ai_wrote"
        (root / "wc").write_text("")  # the folder brought it along: nobody knows what it does
        (root / "wc").chmod(0o755)
        gate, _ = await asked(bench, GateChoice.REJECT, "wc -l check")
        assert gate.grant_pattern == f"{RUN} wc -l check"


async def test_tests_and_what_they_test_may_be_written_and_run_by_a_rule(root: Path) -> None:
    """That is what a rule for tests is given for."""
    rules = ("pytest:*", "make test", "git status", "/bin/python3 -m unittest tests.test_a")
    rules += ("mypy src",)
    async with opened(root, "none", ApprovalMode.TRUSTED, allowed=rules) as bench:
        for path in ("src/a.py", "src/__init__.py", "tests/test_a.py", "README.md"):
            await bench.call("file_ops.write_file", path=path, content="x = 1\n")
        for line in ("pytest -q tests/test_a.py", *rules[1:]):
            assert await bench.router.runs_unasked(line), line


async def test_a_grant_for_what_reads_leaves_secrets_and_what_lies_outside_to_a_question(
    root: Path,
) -> None:
    """As the same files ask of a file operation; a link counts with what it leads to. A rule of the
    project allows no more than a key.
    """
    for folder in ("src", "app", "linked", "hidden"):
        (root / folder).mkdir()
        (root / folder / "a.py").write_text("x = 1\n")
    (root / "a.py").write_text("x = 1\n")
    (root.parent / "key").write_text("outside\n")
    for path in (".env", "app/deploy.key", "hidden/.env"):
        (root / path).write_text("DB=1\n")
    for path, leads in {"notes": "../key", "conf": ".env", "linked/up": ".."}.items():
        (root / path).symlink_to(leads)
    readers = ("cat a.py", "grep x a.py", "head a.py", "rg x src", "diff a.py src/a.py")
    async with opened(root, "none") as bench:
        for line in readers:
            choice = GateChoice.ONCE if line.startswith(("cat", "rg")) else GateChoice.SESSION
            gate, _ = await asked(bench, choice, line)
            assert gate.can_grant_session, line
            if choice is GateChoice.ONCE:
                path = gate.grant_pattern.removeprefix(f"{RUN} ")
                rule = Grant(grant_id=line, operation=RUN, path=path, gate_id="", source="project")
                bench.store.dispatch(GrantAdded(grant=rule))
        for line, reason in {
            **dict.fromkeys(("cat notes", "cat ./notes", "head -2 -- notes"), "outside"),
            **dict.fromkeys(
                ("cat src/../conf", "grep -fconf a.py", "grep --file=conf x"), "secret"
            ),
            **dict.fromkeys(("grep -r x .", "grep -r x", "grep -drecurse x app"), "secret"),
            **dict.fromkeys(("grep -rnA 3 src", "grep --regexp x -r src"), "secret"),
            **dict.fromkeys(("rg x", "rg --hidden x hidden", "rg -g .env x hidden"), "secret"),
            **dict.fromkeys(("grep -R x linked", "diff linked src"), "outside"),
        }.items():
            assert not await bench.router.runs_unasked(line), line
            gate, _ = await asked(bench, GateChoice.REJECT, line)
            assert (gate.can_grant_session, reason in gate.impact.reasons) == (False, True), line
        for line in (
            *readers,
            *("cat src/a.py", "grep -rn DB src a.py", "grep -R DB src", "grep --recursive x src"),
            *("grep -r x linked", "rg -n DB src", "rg DB hidden", "diff -u a.py linked/a.py"),
            *("grep DB a.py /dev/null", "grep DB .", "rg -nC 2 DB src linked"),
        ):
            assert await bench.router.runs_unasked(line), line
        (root / ".env").unlink()
        (root / "app/deploy.key").unlink()
        answered: list[bool] = []
        asyncio.get_running_loop().call_soon(answered.append, True)
        assert await bench.router.runs_unasked("rg x")
        assert answered, "the loop stood still while the folder was looked through"


async def test_a_rule_for_what_reads_leaves_them_to_a_question_too_unless_it_names_them(
    root: Path,
) -> None:
    """A rule with ``:*``, and one whose word is a link to somewhere else."""
    (root / "src").mkdir()
    for path in ("a.py", "src/a.py", ".env", "src/.env", "../key"):
        (root / path).write_text("x = 1\n")
    for path, leads in {"notes": "../key", "conf": ".env"}.items():
        (root / path).symlink_to(leads)
    rules = ("cat:*", "grep:*", "head .env", "head conf", "tail -n 1 ../key", "env tail conf")
    rules += ("rg:*", "diff:*", "sort:*", "git diff:*", "git grep:*", "/bin/cat:*", "base64:*")
    async with opened(root, "none", ApprovalMode.TRUSTED, allowed=rules) as bench:
        for line, reason in {
            **dict.fromkeys(("cat notes", "cat a.py && cat ../key", "grep x ../key"), "outside"),
            **dict.fromkeys(("cat .env", "cat conf", "head conf", "grep -r x src"), "secret"),
            # Also where an option is not known.
            **dict.fromkeys(("rg -uu x", "rg --no-ignore x .env", "sort --stable .env"), "secret"),
            **dict.fromkeys(("diff --side-by-side .env a.py", "grep -hf.env a.py"), "secret"),
            **dict.fromkeys(("git diff --no-index .env a.py", "git grep --no-index x"), "secret"),
            **dict.fromkeys(("git grep --untracked x src", "git diff --no-ind src a"), "secret"),
            **dict.fromkeys(("/bin/cat .env", "env tail conf", "base64 -w0 .env"), "secret"),
            "git diff --no-index ../key /dev/null": "outside",
        }.items():
            assert not await bench.router.runs_unasked(line), line
            gate, _ = await asked(bench, GateChoice.REJECT, line)
            assert reason in gate.impact.reasons, line
            assert gate.facts["rule"] == "shows", line
        for line in (
            *("cat a.py", "grep -n x src/a.py", "head .env", "tail -n 1 ../key", "/bin/cat a.py"),
            *("rg --no-ignore x a.py", "sort --stable a.py", "git diff --no-index a.py src/a.py"),
        ):
            assert await bench.router.runs_unasked(line), line
        (root / "src/.env").unlink()
        assert await bench.router.runs_unasked("grep -r x src")


@pytest.mark.parametrize("version", [2, 4])
async def test_a_grant_for_git_leaves_tracked_secrets_to_a_question(
    root: Path, version: int
) -> None:
    """It shows what became of them without their names; of a folder in a repository also what lies
    beside it. Any file that git does not track counts for nothing.
    """

    def git(*args: str) -> None:
        given = ("-c", "user.name=a", "-c", "user.email=a@b", "-C", str(root.parent))
        subprocess.run(["git", *given, *args], check=True, capture_output=True)

    names = ("a/x.py", "a/xy.py", "b/x.py", ".env", "b/ca.pem")
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x\n" * 9)
    shutil.rmtree(root / ".git", ignore_errors=True)
    git("init", "-q")
    git("update-index", "--force-write-index", "--index-version", str(version))
    git("add", "-f", *(f"{root.name}/{name}" for name in names if name != ".env"))
    quiet = ("git diff --stat", "git status -s", "git log --oneline -n 2", "git show -s HEAD")
    shows = ("git diff", "git diff --stat -p", "git log -p", "git show HEAD", "git status -vs")
    shows += ("git grep x", "git stash show -p", "git --no-pager diff --cached")
    rules = ("git diff:*", "git status:*", "git log:*", "git show:*", "git grep:*")
    rules += ("git stash:*", "git --no-pager diff --cached")
    async with opened(root, "none", ApprovalMode.TRUSTED, allowed=rules) as bench:
        for line in (*quiet, *shows):
            assert await bench.router.runs_unasked(line), line
        for secret in (f"{root.name}/.env", "z.key", "b/.aws/x"):
            (root.parent / secret).parent.mkdir(parents=True, exist_ok=True)
            (root.parent / secret).write_text("KEY=1\n")
            git("add", "-f", secret)
            for line in quiet:
                assert await bench.router.runs_unasked(line), line
            for line in shows if secret.endswith(".env") else shows[:1]:
                assert not await bench.router.runs_unasked(line), (secret, line)
            (root.parent / secret).unlink()
            assert not await bench.router.runs_unasked("git diff"), secret  # it was deleted
            git("rm", "-q", "--cached", secret)
        assert await bench.router.runs_unasked("git diff")
        (root.parent / ".git/index").write_bytes(b"DIRC" + bytes(8) + b"of another version")
        gate, _ = await asked(bench, GateChoice.REJECT, "git diff")
        assert ("secret" in gate.impact.reasons, gate.facts["rule"]) == (True, "shows")


async def test_a_rule_is_bound_to_the_folder_it_was_given_for(root: Path) -> None:
    (root / "vendor/evil").mkdir(parents=True)
    async with opened(root, "none", ApprovalMode.TRUSTED, allowed=("touch made",)) as bench:
        for line, cwd in (
            *(("cd vendor/evil && touch made", "."), ("touch made", "vendor/evil")),
            *(("cd / && touch made", "."), ("cd evil && touch made", "vendor")),
        ):
            gate, message = await asked(bench, GateChoice.REJECT, line, cwd=cwd)
            assert gate.facts["rule"] == "cd"
            assert message.result.outcome is Outcome.REJECTED
        message = await bench.call(RUN, command=f"cd {root} && touch made")
        assert message.result.exit_code == 0
        await bench.call(RUN, command="touch made", cwd=str(root))
    assert not (root / "vendor/evil/made").exists()


async def test_what_commands_of_a_killed_app_left_is_removed_by_the_next_session(
    tmp_path: Path,
) -> None:
    """As ``kill -9`` leaves it; what belongs to a session that still runs stays."""
    kept = tmp_path / "home/state/sandbox"
    program = (
        "import os, sys, time; from pathlib import Path\n"
        "from duckflow_tui.safety.workspace import Workspace\n"
        "from duckflow_tui.tools.commands import SandboxChoice\n"
        "from duckflow_tui.tools.sandbox import Sandbox\n"
        "choice = SandboxChoice('auto', folder=Path(sys.argv[1]))\n"
        "sandbox = Sandbox(choice, Workspace('.'), os.environ)\n"
        "print(sandbox._private_folder(), flush=True); time.sleep(60)\n"
    )
    argv = (sys.executable, "-c", program, str(kept))
    app = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert app.stdout is not None
    folder = Path((await app.stdout.readline()).decode().strip())
    (folder / "cache").mkdir()
    (folder / "cache/file").write_text("left")
    async with session(tmp_path, script(finished())):
        assert [entry.name for entry in kept.iterdir()] == [folder.name]
    app.kill()
    await app.wait()
    async with session(tmp_path, script(finished())):
        assert list(kept.iterdir()) == []


# --- a real sandbox ------------------------------------------------------------------------------


async def test_what_a_real_sandbox_refuses_is_put_down_to_it_and_runs_outside_once_allowed(
    root: Path, tmp_path: Path
) -> None:
    """No network, and the repository's own files, which the sandbox keeps as they are."""
    kept = root / ".git/description"
    kept.parent.mkdir()
    kept.write_text("kept\n")
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        await bench.call(RUN, command="true")
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        program = "import socket; socket.create_connection(('192.0.2.1', 9), timeout=5)"
        task = bench.begin(RUN, command=f'python3 -c "{program}"')
        gate = await bench.gate()
        assert "failed_network" in gate.impact.reasons
        await bench.answer(gate, GateChoice.REJECT)
        assert (await done(task)).result.exit_code == 1
        task = bench.begin(RUN, command="g=.g; echo changed > ${g}it/description")
        gate = await bench.gate()
        assert "failed_write" in gate.impact.reasons
        assert kept.read_text() == "kept\n"
        await bench.answer(gate, GateChoice.ONCE)
        assert (await done(task)).result.exit_code == 0
        assert kept.read_text() == "changed\n"
    finally:
        await bench.end_commands()


async def test_a_secret_file_that_is_kept_from_a_command_is_told_and_its_name_asks(
    root: Path, tmp_path: Path
) -> None:
    """As the tests of a project that read ``.env``: refused in the sandbox, they run outside once
    allowed. A line that names such a file asks at once, and then reads it where it is held.
    """
    (root / "conf").mkdir()
    (root / "conf/.env").write_text("PORT=8080\n")
    (root / "check.py").write_text("print(open('conf/.env').read())\n")
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        task = bench.begin(RUN, command="python3 check.py")
        await bench.until(lambda state: bool(state.gates or state.messages))
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        gate = await bench.gate()
        assert {"failed_secret", "outside_sandbox"} <= set(gate.impact.reasons)
        await bench.answer(gate, GateChoice.ONCE)
        message = await done(task)
        assert "file of secrets, which it keeps from commands" in message.result.text
        assert "PORT=8080" in message.result.text
        gate, message = await asked(bench, GateChoice.ONCE, "cd conf && cat .env")
        assert (gate.facts["sandbox"], "secret" in gate.impact.reasons) == ("full", True)
        assert message.result.text.endswith("PORT=8080")
        apart = await bench.call(RUN, command="e=.env; echo process$e ${e}ironment; false")
        assert "Probably" not in apart.result.text
    finally:
        await bench.end_commands()


async def test_a_repository_that_a_command_makes_is_said_and_closed_to_the_next(
    root: Path, tmp_path: Path
) -> None:
    """So are settings of this app, in a folder that had none. Where there is too much to be closed
    or hidden, the sandbox counts as partial: each asks, and what was said of hard links is not said
    again.
    """
    (root / "linked").touch()
    (tmp_path / "linked").hardlink_to(root / "linked")
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        line = "g=.g; d=.d; mkdir -p sub/${g}it ${g}it/hooks ${d}uckflow; touch ${g}it/HEAD "
        line += "${g}it/hooks/pre-commit ${g}it/hooks/a.sample ${d}uckflow/settings.toml; "
        made = await bench.call(RUN, command=line + "echo '[core]' >sub/${g}it/config")
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        _, *said = [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)]
        obeyed = ".duckflow/settings.toml, .git/HEAD, .git/hooks/pre-commit, sub/.git/config"
        assert [(m.key, m.params["paths"]) for m in said] == [("processes.obeyed_written", obeyed)]
        assert made.result.outcome is Outcome.OK
        task = bench.begin(RUN, command="g=.g; echo evil >>sub/${g}it/config")
        gate = await bench.gate()
        assert "failed_write" in gate.impact.reasons
        await bench.answer(gate, GateChoice.REJECT)
        await done(task)
        assert (root / "sub/.git/config").read_text() == "[core]\n"
        for number in range(3_000):  # more than the arguments of a program may hold
            (root / f"{number:0>60}.env").touch()
        refused = await bench.call(RUN, command="echo ran >made")
        assert "Nothing was run; call it again" in refused.result.text
        gate, _ = await asked(bench, GateChoice.ONCE, "echo ran >made")
        assert gate.facts["sandbox"] == bench.store.state.session.sandbox == "partial"
        notices = [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)]
        assert [m.key for m in notices].count("processes.linked") == 1
        assert (root / "made").read_text() == "ran\n"
    finally:
        await bench.end_commands()


async def test_a_secret_that_comes_after_a_command_in_the_background_began_is_said_once(
    root: Path, tmp_path: Path
) -> None:
    """As when an editor saves ``.env`` by putting another file in its place."""
    (root / ".env").write_text("KEY=old\n")
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        line = "e=.e; until test -e go; do sleep 0.02; done; cat ${e}nv"
        begun = await bench.call(RUN, command=line, background=True)
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        process_id = begun.result.summary
        await bench.call("shell.output", process_id=process_id)
        assert [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)] == []
        (root / "new").write_text("KEY=new\n")
        (root / "new").rename(root / ".env")
        (root / "b.env").write_text("KEY=more\n")
        await bench.call("shell.output", process_id=process_id)
        (root / "go").touch()
        await bench.background.has_ended_within(process_id, 10)
        assert "KEY=new" in (await bench.call("shell.output", process_id=process_id)).result.text
        said = [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)]
        said = [(m.key, {*m.params["paths"].split(", ")}) for m in said]
        assert said == [
            ("processes.secret_later", {".env", "b.env"}),
            ("processes.obeyed_written", {".env"}),  # by the user, while it ran
        ]
    finally:
        await bench.end_commands()


async def test_a_secret_that_is_replaced_while_a_command_runs_is_said_at_its_end(
    root: Path, tmp_path: Path
) -> None:
    """Not those that the command made itself."""
    (root / ".env").write_text("KEY=old\n")
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        line = "e=.e; cp src.txt c${e}nv; echo began; until test -e go; do sleep 0.02; done"
        (root / "src.txt").write_text("KEY=mine\n")
        task = bench.begin(RUN, command=f"{line}; cat ${{e}}nv")
        await bench.until(lambda state: bool(state.outputs or state.gates))
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        (root / "new").write_text("KEY=new\n")
        (root / "new").rename(root / ".env")
        (root / "go").touch()
        assert "KEY=new" in (await done(task)).result.text
        said = [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)]
        keys = ("processes.obeyed_written", "processes.secret_replaced")
        assert [(m.key, m.params["paths"]) for m in said] == [(key, ".env") for key in keys]
    finally:
        await bench.end_commands()


async def test_a_file_that_is_one_elsewhere_too_is_said_once_and_changed_by_commands_alone(
    root: Path, tmp_path: Path
) -> None:
    """As the stores of package managers make them. An edit and its undo replace the file here."""
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    for name in ("one", "two", "three"):
        (root / name).write_text("as it was\n")
    (root / "again").hardlink_to(root / "three")  # both names are here
    (root / ".git").mkdir()
    (root / ".git/object").write_text("what no command can write")
    (tmp_path / "object").hardlink_to(root / ".git/object")
    for name in ("one", "two"):
        (tmp_path / name).hardlink_to(root / name)
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        await bench.call(RUN, command="true")
        await bench.call(RUN, command="true")
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        said = [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)]
        assert [(m.key, m.params["count"]) for m in said] == [("processes.linked", "2")]
        edit = [{"old": "as it was", "new": "edited"}]
        edits = asyncio.create_task(bench.call("file_ops.edit_file", path="one", edits=edit))
        await bench.answer(await bench.gate(), GateChoice.ONCE)
        await edits
        assert (root / "one").read_text() == "edited\n"
        assert (tmp_path / "one").read_text() == "as it was\n"
        await bench.call(RUN, command="echo changed >> two")
        outside = "as it was\nchanged\n"  # as was said
        assert (tmp_path / "two").read_text() == outside
        assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"
        assert ((root / "two").read_text(), (tmp_path / "two").read_text()) == (
            "as it was\n",
            outside,
        )
    finally:
        await bench.end_commands()


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (
            "echo {} >package.json; mkdir -p a/.x; echo x >a/.x/y; echo >src.py",
            "a/.x/y, package.json",
        ),
        ("mv conftest.py tests.py; mv src.py conftest.py; sleep 30", "conftest.py"),
        ("chmod +x src.py; rm conftest.py; echo >setup.txt; false", "src.py"),
        ("mkdir tools; echo x > tools/post-checkout", "tools/post-checkout"),
        # by the ignore rules from before, and in a folder that was ignored
        ("echo '*' > .gitignore; mkdir .any; echo x > .any/agent", ".any/agent, .gitignore"),
        ("mkdir -p out/bin; cp conftest.py out/bin/run; chmod 711 out/bin/run", "out/bin/run"),
        ("for n in 1 2 3 4 5; do echo > out/.$n; done", "out/ (5)"),
        ("mkdir -p a/.b/c; for n in 1 2 3 4 5; do echo > a/.b/c/$n; done", "a/.b/ (5)"),
        # in the shape of a repository, at the root and below
        ("mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; echo > config", "HEAD, config"),
        ("mkdir -p v/objects v/refs; echo x > v/HEAD; echo > v/config", "v/HEAD, v/config"),
        ("touch conftest.py; cp -p conftest.py x; mv x conftest.py", ""),
        ("cat conftest.py", ""),
    ],
)
async def test_what_a_command_wrote_that_builds_or_agents_obey_is_said_once(
    root: Path, line: str, written: str
) -> None:
    """However the command ends; the model is told nothing that it could take for consent."""
    for path in ("conftest.py", "src.py"):
        (root / path).write_text(f"# {path}\n")
    (root / ".git").mkdir()
    (root / ".git/config").write_text("[core]\nhooksPath = tools\n")
    (root / ".gitignore").write_text("out/\n")
    (root / "out").mkdir()
    async with opened(root, "full", ApprovalMode.TRUSTED) as bench:
        task = bench.begin(RUN, command=line, timeout_s=2)
        await bench.until(lambda state: bool(state.gates or state.messages))
        if bench.store.state.gates:  # it deletes
            await bench.answer(await bench.gate(), GateChoice.ONCE)
        await done(task)
        said = [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)]
        found = [(m.key, m.params["paths"], m.for_model) for m in said]
        assert found == [("processes.obeyed_written", written, "")] * bool(written)
        quiet = written.startswith("out/")  # a folder that was ignored before
        assert [m.level for m in said] == [Level.INFO if quiet else Level.WARNING] * bool(written)


async def test_of_a_command_in_the_background_it_is_said_at_its_end(root: Path) -> None:
    """Not of files that another call wrote meanwhile and left so."""
    line = "until test -e go; do sleep 0.02; done; echo evil >> conftest.py; echo {} > tox.ini"
    line = f"{line}; g=.g; mkdir -p sub/${{g}}it/hooks; echo x > sub/${{g}}it/config"
    async with opened(root, "full", ApprovalMode.TRUSTED) as bench:
        (root / "conftest.py").write_text("# ours\n")
        (root / "setup.py").write_text("# as it was\n")
        begun = await bench.call(RUN, command=line, background=True)
        for path in ("package.json", "tox.ini"):
            task = bench.begin("file_ops.write_file", path=path, content="{}\n")
            await bench.answer(await bench.gate(), GateChoice.ONCE)
            await done(task)
        await bench.call(RUN, command="echo all: > Makefile")
        (root / "go").touch()
        await bench.background.has_ended_within(begun.result.summary, 10)
        said = [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)]
        assert [(m.key, m.params["paths"], m.for_model) for m in said] == [
            ("processes.obeyed_written", "Makefile", ""),
            ("processes.obeyed_written", "conftest.py, sub/.git/config", ""),
        ]


async def test_a_session_tries_the_sandbox_with_its_first_command(tmp_path: Path) -> None:
    """The whole assembly: the level is told before the command begins, and once; in trusted mode
    commands then run unasked, and what writes elsewhere is offered outside.
    """
    first = action("shell.run", command="echo $((6 * 7)) > made; cat made")
    elsewhere = action("shell.run", command="d=/us; touch ${d}r/duckflow-was-here")
    replies = script(
        decision("I run it.", first), decision("Now elsewhere.", elsewhere), finished()
    )
    environ = {"DUCKFLOW_SANDBOX__LEVEL": "auto"}
    async with session(tmp_path, replies, mode="trusted", environ=environ) as made:
        assert made.store.state.session.sandbox == "untested"
        await made.engine.send("go")
        await made.until(lambda state: bool(state.gates) or state.session.sandbox != "untested")
        if made.state.session.sandbox != "full":
            no_full_sandbox()
        gate = await made.gate()
        assert gate.args["outside"] is True
        assert {"failed_write", "outside_sandbox"} <= set(gate.impact.reasons)
        await made.answer(GateChoice.REJECT)
        await made.ended()
        held, refused = made.results()
        assert (held.allowed, held.gate, held.result.text.split("\n")[-1]) == (
            "sandbox",
            None,
            "42",
        )
        assert (refused.result.exit_code, refused.allowed) == (1, "sandbox")
        assert "Read-only file system" in refused.result.text
        assert "Probably the sandbox" in refused.result.text
        kinds = [type(record.event) for record in made.records]
        assert kinds.count(SandboxTested) == 1
        assert kinds.index(SandboxTested) < kinds.index(OperationStarted)
    assert "duckflow-was-here" not in os.listdir("/usr")
    assert os.listdir(tmp_path / "home/state/sandbox") == []
