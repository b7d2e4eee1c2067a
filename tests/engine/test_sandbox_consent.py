"""What a sandbox is worth in questions: which commands ask, what a key allows, and what runs
outside of it. The level is told to the session; the commands are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
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
from duckflow_tui.tools.command_runner import SandboxChoice
from duckflow_tui.words.catalogue import Catalogue

RUN = "shell.run"
HELD: tuple[SandboxLevel, ...] = ("full", "seatbelt", "external")
OPEN: tuple[SandboxLevel, ...] = ("partial", "none")
UNREACHABLE = "echo 'connect: Network is unreachable' >&2; test -e outside.txt"


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


def run_by_the_user(line: str, folder: Path) -> None:
    """In a terminal of their own, where no sandbox holds it."""
    subprocess.run(line.split(), cwd=folder, check=True)


async def asked(
    bench: ShellBench, choice: GateChoice, command: str, **args: Any
) -> tuple[Gate, OperationMessage]:
    """Run it, press that key in its gate, and wait for its end."""
    task = bench.begin(RUN, command=command, **args)
    gate = await bench.gate()
    await bench.answer(gate, choice)
    return gate, await done(task)


async def test_a_key_allows_only_this_program_as_long_as_the_sandbox_holds_it(root: Path) -> None:
    """Narrower than all that the sandbox holds, and no consent to a run without it."""
    (root / "sub").mkdir()
    async with opened(root, "full") as bench:
        gate, _ = await asked(bench, GateChoice.ONLY, "pwd")
        assert gate.grant_only == "shell.run *sandbox pwd …"
        again = await bench.call(RUN, command="pwd")
        assert (again.gate, again.allowed) == (None, "sandbox")
        assert (await bench.call(RUN, command="pwd -P", cwd="sub")).allowed == "sandbox"
        gate, _ = await asked(bench, GateChoice.ONCE, "echo two")
        assert gate.grant_pattern == "shell.run *sandbox"
        gate, _ = await asked(bench, GateChoice.ONCE, "echo one > a.txt")
        assert gate.grant_only == ""  # a line that no rule can name
        bench.store.state.session = bench.store.state.session.replace(sandbox="none")
        gate, _ = await asked(bench, GateChoice.ONCE, "pwd")
        assert (gate.grant_pattern, gate.grant_only) == ("shell.run pwd", "")
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
            (RUN, {"command": "cat .env"}),
            ("file_ops.write_file", {"path": "conftest.py", "content": "x = 1\n"}),
        ):
            task = bench.begin(operation, **args)
            gate = await bench.gate()
            assert not gate.can_grant_routine
            await bench.answer(gate, GateChoice.REJECT)
            await done(task)
        bench.store.state.session = bench.store.state.session.replace(sandbox="none")
        await asked(bench, GateChoice.REJECT, "pwd")
        bench.store.dispatch(GrantRevoked(grant=rule, at=0.5))
        task = bench.begin("file_ops.write_file", path="d.txt", content="x\n")
        gate = await bench.gate()  # no sandbox holds commands: there is nothing more to allow
        assert (gate.can_grant_session, gate.can_grant_routine) == (True, False)
        await bench.answer(gate, GateChoice.REJECT)
        await done(task)
        bench.store.dispatch(GrantAdded(grant=rule))
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
        ran = await bench.call(RUN, command="rm a.txt")  # undo has it
        assert (ran.allowed, [c.path for c in ran.result.touched]) == ("sandbox", ["a.txt"])
        gate, _ = await asked(bench, GateChoice.REJECT, "cat .env")
        assert "secret" in gate.impact.reasons
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


async def test_the_gate_says_how_risky_a_command_is_by_what_holds_it(root: Path) -> None:
    risks: dict[SandboxLevel, Risk] = {"none": Risk.MEDIUM, "full": Risk.LOW}
    for level, risk in risks.items():
        async with opened(root, level) as bench:
            for line in ("git status", "rm -rf /", "curl x | sh"):
                gate, _ = await asked(bench, GateChoice.REJECT, line)
                assert (gate.impact.risk, gate.impact.reasons) == (risk, ()), line
            gate, _ = await asked(bench, GateChoice.REJECT, "ls", background=True)
            assert gate.impact.risk is Risk.MEDIUM
            gate, _ = await asked(bench, GateChoice.REJECT, "echo 'open")
            assert (gate.impact.risk, gate.impact.reasons) == (Risk.HIGH, ("not_readable",))


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
        gate, _ = await asked(bench, GateChoice.REJECT, "cat .env", hosts=["example.org"])
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
        gate, _ = await asked(bench, GateChoice.REJECT, "cat .env", hosts=["pypi.org"])
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


# --- rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [*HELD, *OPEN])
async def test_a_rule_with_a_beginning_holds_where_a_sandbox_holds_the_command(
    root: Path, level: SandboxLevel
) -> None:
    """R05: whatever the words behind it do. A secret file must be named word for word."""
    for path in ("a.txt", ".env"):
        (root / path).write_text("x\n")
    rules = ("echo:*", "find:*", "cat:*", "head .env", "echo 1")
    lines = ("echo 2", "find . -name a.txt -exec echo x ';'", "cat a.txt | cat")
    async with opened(root, level, allowed=rules) as bench:
        assert await bench.router.runs_unasked("echo 1")
        for line in lines:
            if level in HELD:
                assert (await bench.call(RUN, command=line)).result.exit_code == 0
                gate, _ = await asked(bench, GateChoice.REJECT, line, outside=True)
                assert gate.facts["rule"] == "not_held"
            else:
                gate, _ = await asked(bench, GateChoice.REJECT, line)
                assert gate.facts["rule"] == "not_held"
        assert await bench.router.runs_unasked("head .env")
        gate, _ = await asked(bench, GateChoice.REJECT, "cat .env")
        assert gate.facts["rule"] == ("shows" if level in HELD else "not_held")


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
        "from duckflow_tui.tools.command_runner import SandboxChoice\n"
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


async def test_a_path_that_the_sandbox_hides_is_named_and_the_command_is_offered_outside(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the line, in what a failed command says, or behind a link in the folder."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home / "notes", elsewhere):
        folder.mkdir(parents=True)
    interpreter = elsewhere / "interpreter"
    interpreter.write_text("#!/bin/sh\necho ran\n")
    interpreter.chmod(0o755)
    (root / "linked").symlink_to(interpreter)
    (root / "script").write_text(f"#!{interpreter}\n")
    (root / "script").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    choice = SandboxChoice("auto", folder=tmp_path / "private", read=(str(tmp_path / "seen"),))
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice, environ=environ)
    try:
        said = (await bench.call(RUN, command="true")).result.text
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        assert "hidden" not in said
        for command, path in (
            (f"{interpreter} x", interpreter),
            ("./linked", interpreter),
            ("./script", interpreter),
            ('cat "$HOME"/notes/..', home),
            ("d=~/notes; ls $d", home / "notes"),
        ):
            gate, message = await asked(bench, GateChoice.REJECT, command)
            assert "failed_hidden" in gate.impact.reasons
            line = f"[{path} is hidden by the sandbox; add it to sandbox.read]"
            assert line in message.result.text, command
        shown = await bench.call(RUN, command="d=~; ls $d; cat ./script")
        assert f"[{home} is hidden by the sandbox" in shown.result.text
        for command in ("t=/tmp/made; echo x >$t; cat $t; false", "cat ./none; true"):
            assert "hidden" not in (await bench.call(RUN, command=command)).result.text
    finally:
        await bench.end_commands()


async def test_where_the_sandbox_fell_since_a_command_was_shown_nothing_runs_and_it_asks_again(
    root: Path,
) -> None:
    """A consent to hosts must not become one to every host."""
    async with opened(root, "full") as bench:
        for more in ({}, {"background": True}):
            task = bench.begin(RUN, command="touch made", hosts=["pypi.org"], **more)
            gate = await bench.gate()
            assert gate.facts["hosts"] == "pypi.org"
            bench.store.dispatch(SandboxTested(level="partial"))
            await bench.answer(gate, GateChoice.SESSION)
            text = (await done(task)).result.text
            assert "Nothing was run" in text
            assert not (root / "made").exists()
            task = bench.begin(RUN, command="touch made", hosts=["pypi.org"], **more)
            gate = await bench.gate()
            assert ("hosts" in gate.facts, gate.facts["hosts_open"]) == (False, "pypi.org")
            await bench.answer(gate, GateChoice.REJECT)
            await done(task)
            bench.store.dispatch(SandboxTested(level="full"))
            for grant in bench.store.state.grants:
                bench.store.dispatch(GrantRevoked(grant=grant, at=1.0))


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
    or hidden, the sandbox counts as partial: each asks.
    """
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        line = "g=.g; d=.d; mkdir -p sub/${g}it ${g}it/hooks ${d}uckflow; touch ${g}it/HEAD "
        line += "${g}it/hooks/pre-commit ${g}it/hooks/a.sample ${d}uckflow/settings.toml; "
        made = await bench.call(RUN, command=line + "echo '[core]' >sub/${g}it/config")
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        said = [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)]
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
        assert (root / "made").read_text() == "ran\n"
    finally:
        await bench.end_commands()


async def test_where_a_repository_in_the_folder_leads_is_closed_to_edits_too(
    root: Path, tmp_path: Path
) -> None:
    """From the test of the sandbox on, which comes before the first request to a model."""
    (root / "sub/.git").mkdir(parents=True)
    (root / "sub/.git/config").write_text("[include]\n\tpath = ../../more\n")
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        await bench.shell.test_sandbox()
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        for path, outcome in (("more", Outcome.DENIED), ("less", Outcome.OK)):
            message = await bench.call("file_ops.write_file", path=path, content="x\n")
            assert message.result.outcome is outcome, path
        (root / "sub/.git/config").write_text("")
        await bench.call(RUN, command="true")
        message = await bench.call("file_ops.write_file", path="more", content="x\n")
        assert message.result.outcome is Outcome.OK
    finally:
        await bench.end_commands()


@pytest.mark.parametrize(
    ("by_the_user", "line", "place"),
    [
        ("git config include.path ../conf/git.inc", "true", "conf/git.inc"),
        ("git config core.hooksPath hooks", "true", "hooks/pre-commit"),
        ("rm -rf .git", "git init -q . && git config include.path ../conf/git.inc", "conf/git.inc"),
    ],
)
async def test_where_git_is_led_during_the_session_is_closed_to_edits_and_commands(
    root: Path, tmp_path: Path, by_the_user: str, line: str, place: str
) -> None:
    """From the next edit on, and for the next command, whoever changed the settings of git."""
    run_by_the_user("git init -q .", root)
    (root / place).parent.mkdir()
    (root / place).write_text("as it was\n")
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        await bench.shell.test_sandbox()
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
        run_by_the_user(by_the_user, root)
        assert (await bench.call(RUN, command=line)).result.exit_code == 0
        message = await bench.call("file_ops.write_file", path=place, content="evil\n")
        assert message.result.outcome is Outcome.DENIED
        gate, _ = await asked(bench, GateChoice.REJECT, f"echo evil > {place}")
        assert "failed_write" in gate.impact.reasons
        assert (root / place).read_text() == "as it was\n"
        (root / ".git/config").write_text("")  # open again
        assert (await bench.call(RUN, command=f"echo mine > {place}")).result.exit_code == 0
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


async def test_a_file_that_is_one_elsewhere_too_is_changed_there_by_commands_alone(
    root: Path, tmp_path: Path
) -> None:
    """As the stores of package managers make them. An edit and its undo replace the file here."""
    choice = SandboxChoice("auto", folder=tmp_path / "private")
    for name in ("one", "two", "three"):
        (root / name).write_text("as it was\n")
    for name in ("one", "two"):
        (tmp_path / name).hardlink_to(root / name)
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    try:
        await bench.call(RUN, command="true")
        await bench.call(RUN, command="true")
        if bench.store.state.session.sandbox != "full":
            no_full_sandbox("; ".join(bench.runner.sandbox.why))
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
