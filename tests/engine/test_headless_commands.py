"""Commands without a screen: consent comes from this command line, or there is none (R19)."""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.prepared import UNTOUCHED, running_program
from support.reviews import claim, judged, lacks
from support.session import action, decision, done, script, session
from support.shell import running_with

from duckflow_tui.choice import Flags, Unusable, choose_session
from duckflow_tui.cli import main
from duckflow_tui.headless import HeadlessOptions, run_turn
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.sessions import open_session
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.state.processes import ProcessEnded
from duckflow_tui.state.session import ModeChanged
from duckflow_tui.words.catalogue import Catalogue

TEST = f"{sys.executable} -c 'print(6 * 7)'"


def asks_for(command: str, **args: Any) -> tuple[Reply, Reply]:
    return decision("I run it.", action("shell.run", command=command, **args)), done()


async def headless(
    tmp_path: Path,
    replies: tuple[Reply, ...] | Script,
    *allow: str,
    mode: str | None = None,
    text: str = "run the tests",
    resume: str = "",
    err: io.StringIO | None = None,
    out: io.StringIO | None = None,
    context: int | None = None,
    sandboxed: bool = False,
    external: bool = False,
    deny: tuple[str, ...] = (),
    trust: bool = False,
) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the records of a run."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    out = out or io.StringIO()
    scripted = replies if isinstance(replies, Script) else script(*replies)
    async with ScriptedEndpoint(scripted) as server:
        flags = Flags(
            workspace=work,
            base_url=server.base_url,
            model="scripted",
            protocol="json",
            mode=mode,
            headless=True,
            allow=allow,
            deny=deny,
            trust=trust,
            resume=resume,
            context=context,
            sandbox="external" if external else None,
        )
        choice = choose_session(flags, places, "en", UNTOUCHED)
        status = await run_turn(
            lambda spawn: open_session(choice, spawn),
            HeadlessOptions(text=text, as_json=err is None, sandboxed=sandboxed),
            Catalogue("en"),
            out,
            err or io.StringIO(),
        )
    return status, [json.loads(line) for line in out.getvalue().splitlines() if err is None]


class Terminal(io.StringIO):
    """Where both streams are read by one pair of eyes."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("wanting", [False, True])
async def test_a_reply_that_was_told_before_the_end_is_not_printed_again_on_a_terminal(
    tmp_path: Path, wanting: bool
) -> None:
    """With its calls; what was denied lets no attempt begin, so that it is the last word there."""
    runs = action("shell.run", command="true")
    one = decision("I try it.", runs, next_step="done", requirements=[claim("It runs")])
    replies = script(one, satisfaction=judged(0.9))
    if wanting:
        two = (decision("So.", runs, requirements=[claim("It runs")]), done("I try it."))
        replies = script(*two, satisfaction=judged(0.4), missing=lacks("a run"))
    allow = () if wanting else ("true",)
    screen, out, err = Terminal(), io.StringIO(), io.StringIO()
    await headless(tmp_path, replies, *allow, out=screen, err=screen)
    assert screen.getvalue().count("I try it.") == 1
    await headless(tmp_path, replies, *allow, out=out, err=err)
    assert out.getvalue() == "I try it.\n"
    assert err.getvalue().count("I try it.") == (0 if wanting else 1)


def results(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r["message"]["result"] for r in records if r["kind"] == "operation_finished"]


@pytest.mark.parametrize("mode", [None, "trusted"])
async def test_without_a_rule_a_command_is_denied_and_the_run_says_so(
    tmp_path: Path, mode: str | None
) -> None:
    status, records = await headless(tmp_path, asks_for("touch made"), mode=mode)
    assert status == 3
    assert [r["outcome"] for r in results(records)] == ["denied"]
    assert not (tmp_path / "work/made").exists()


async def test_a_command_that_was_named_runs(tmp_path: Path) -> None:
    command = f"{TEST} 2>&1 && touch made"
    status, records = await headless(tmp_path, asks_for(command), TEST, "touch made")
    assert status == 0
    (result,) = results(records)
    assert result["outcome"] == "ok"
    assert result["exit_code"] == 0
    assert result["text"].endswith("\n42")
    assert (tmp_path / "work/made").exists()


@pytest.mark.parametrize("mode", ["standard", "trusted", "plan"])
async def test_the_model_is_told_what_runs_and_that_nobody_answers(
    tmp_path: Path, mode: str
) -> None:
    rules, told = ("true", "make test"), "further words): true, make test\nNobody is there"
    runs = {"trusted": "write_file, edit_file, move_file"}.get(mode, "")
    asks = {
        "standard": "write_file, edit_file, move_file, delete_file, shell.run",
        "trusted": "delete_file, shell.run",
    }.get(mode, "–")
    async with session(tmp_path, script(done()), headless=True, allow=rules) as alone:
        alone.engine.store.dispatch(ModeChanged(mode=ApprovalMode(mode), at=0.0))
        await alone.turn("go")
        tail = alone.server.of("main")[-1].text
    assert f"Approval mode {mode}\n" in tail
    assert (f"besides reading: {runs}\n" in tail) is bool(runs)
    assert ("Refused now: write_file, edit_file" in tail) is (mode == "plan")
    assert (told in tail) is (mode != "plan")
    assert f"what would ask ({asks}) is refused" in tail
    assert "ends the run; the user answers it later with --resume" in tail
    async with session(tmp_path, script(done())) as made:
        await made.turn("go")
        asked = made.server.of("main")[-1].text
        assert "Nobody is there" not in asked
        assert "Run unasked" not in asked


async def test_a_stated_check_that_cannot_run_is_told_with_the_next_request(tmp_path: Path) -> None:
    """And one that can run is not spoken of."""
    wanted = [
        {
            "requirement": f"{name} passes",
            "priority": 1,
            "check": {"kind": "command", "value": name},
        }
        for name in ("make test", "true -x")
    ]
    reads = action("file_ops.list_dir")
    first = decision("I look.", reads, task_profile="DEBUGGING", requirements=wanted)
    async with session(tmp_path, script(first, done()), headless=True, allow=("true -x",)) as s:
        await s.turn("Mend it.")
        second = s.server.of("main")[1].text
    assert "The check of r1 cannot run, as nobody is there to allow it: make test." in second
    assert "true -x" not in second.partition("The check of r1")[2].partition("]")[0]


async def test_what_goes_around_a_rule_is_denied_and_what_is_harmless_runs(tmp_path: Path) -> None:
    """R04: each of these would make ``x``, were it run."""
    around = (
        *("echo a; touch x", "echo $(touch x)", "echo a > x", "echo a\ntouch x", "touch() { x; }"),
        *("echo a && touch x", "echo a | xargs touch x", "test -v 'a[$(touch x)]'", "touch x &"),
    )
    harmless = ("echo a", "echo a && true; test a", "echo a 2>&1 | true")
    first = decision("", *(action("shell.run", command=line) for line in around))
    second = decision("", *(action("shell.run", command=line) for line in harmless))
    rules = ("echo a", "test a", "true")
    kept: dict[str, Any] = {"headless": True, "mode": "trusted", "allow": rules}
    async with session(tmp_path, script(first, second, done()), **kept) as s:
        await s.turn("run them")
        outcomes = [m.result.outcome for m in s.results()]
        assert outcomes == [Outcome.DENIED] * len(around) + [Outcome.OK] * len(harmless)
    assert not (tmp_path / "work/x").exists()


async def test_a_rule_with_a_beginning_begins_nothing_where_no_sandbox_holds_a_command(
    tmp_path: Path,
) -> None:
    """R05."""
    said = io.StringIO()
    status, _ = await headless(tmp_path, asks_for("touch made"), "touch made", "ls:*", err=said)
    assert (status, (tmp_path / "work/made").exists()) == (2, False)
    assert "--allow ls:* applies only in a full sandbox" in said.getvalue()
    assert '--allow "ls" allows that exact command' in said.getvalue()
    status, _ = await headless(tmp_path, asks_for("touch made"), "touch:*", external=True)
    assert (status, (tmp_path / "work/made").exists()) == (0, True)


@pytest.mark.parametrize("mode", ["standard", "trusted"])
async def test_what_the_user_denies_runs_by_no_consent(tmp_path: Path, mode: str) -> None:
    """R06: of the command line, the settings and the folder, in a sandbox and by a rule."""
    (tmp_path / "work/.duckflow").mkdir(parents=True)
    (tmp_path / "work/.duckflow/settings.toml").write_text('[approval]\ndeny = ["mkdir -p"]\n')
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "home/config/settings.toml").write_text('[approval]\ndeny = ["rm"]\n')
    denied = ("touch one", "echo 1 && /bin/rm x", "sh -c 'mkdir -p a'", "echo 'open")
    calls = (action("shell.run", command=line) for line in (*denied, "t=1; $t", "echo 2"))
    kept: dict[str, Any] = {"mode": mode, "sandboxed": True, "external": True, "trust": True}
    status, records = await headless(
        tmp_path, (decision("I run.", *calls), done()), "echo 2", deny=("touch",), **kept
    )
    found = [r["message"]["ruling"] for r in records if r["kind"] == "operation_finished"]
    assert [r["code"] for r in found[:4]] == ["denied_by_rule"] * 4
    assert (found[4]["said"], found[4]["code"]) == ("gate", "deny_unsure")
    assert found[5]["said"] == "allow"
    assert status == 3
    assert "The user's rule “touch” forbids this" in results(records)[0]["text"]


@pytest.mark.parametrize("ends", [0, 3])
async def test_a_command_of_which_only_the_end_is_shown_still_ends_as_it_does(
    tmp_path: Path, ends: int
) -> None:
    """Its exit code is the one of what was run, and no success of ``tail``."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "t.sh").write_text(f"seq 30; exit {ends}\n")
    replies = asks_for(f"cd {work} && sh t.sh 2>&1 | tail -n 2")
    _, records = await headless(tmp_path, replies, "sh t.sh", "tail -n 2", mode="trusted")
    (result,) = results(records)
    assert (result["outcome"], result["exit_code"]) == ("ok", ends)
    assert result["text"].endswith("\n29\n30")


@pytest.mark.parametrize("mode", [None, "trusted", "strict", "plan"])
async def test_the_command_line_can_consent_to_all_that_a_sandbox_holds(
    tmp_path: Path, mode: str | None
) -> None:
    """R19: what the user says is a sandbox, here. Stricter modes stay stricter, and what it does
    not keep from harm stays denied.
    """
    work = tmp_path / "work"
    work.mkdir()
    (work / "kept").touch()
    runs = mode in (None, "trusted")
    given = asks_for("for n in 1 2; do echo $n > made; done; rm kept; touch kept")
    status, records = await headless(tmp_path, given, mode=mode, sandboxed=True, external=True)
    assert status == (0 if runs else 3)
    assert (work / "made").exists() is runs
    assert [r["message"]["allowed"] for r in records if r["kind"] == "operation_finished"] == [
        "sandbox" if runs else ""
    ]
    for line, args in (("rm kept; cat .env", {}), ("rm kept", {"outside": True})):
        status, _ = await headless(
            tmp_path, asks_for(line, **args), mode=mode, sandboxed=True, external=True
        )
        assert status == 3
    assert (work / "kept").exists()


async def test_without_that_consent_a_sandbox_alone_lets_nothing_run_in_standard_mode(
    tmp_path: Path,
) -> None:
    status, _ = await headless(tmp_path, asks_for("touch made"), external=True)
    assert status == 3
    assert not (tmp_path / "work/made").exists()


async def test_where_nothing_holds_a_command_that_consent_begins_nothing(tmp_path: Path) -> None:
    said = io.StringIO()
    status, _ = await headless(tmp_path, asks_for("touch made"), sandboxed=True, err=said)
    assert status == 2
    assert "there is no full sandbox here (NO SANDBOX)" in said.getvalue()
    assert not (tmp_path / "work/made").exists()


async def test_a_part_that_was_not_named_denies_the_whole(tmp_path: Path) -> None:
    status, records = await headless(tmp_path, asks_for("touch made && touch more"), "touch made")
    assert status == 3
    assert [r["outcome"] for r in results(records)] == ["denied"]
    assert not (tmp_path / "work/made").exists()


@pytest.mark.parametrize("mode", ["plan", "strict"])
async def test_the_mode_is_stricter_than_the_rule(tmp_path: Path, mode: str) -> None:
    status, _ = await headless(tmp_path, asks_for("touch made"), "touch made", mode=mode)
    assert status == 3
    assert not (tmp_path / "work/made").exists()


async def test_the_model_reads_exit_code_and_output(tmp_path: Path) -> None:
    replies = script(*asks_for("echo broken; exit 4"))
    async with session(tmp_path, replies, headless=True, allow=("true",)) as made:
        await made.turn("go")
        assert "denied" in made.results()[0].result.outcome
    replies = script(*asks_for("sh t.sh"))
    (tmp_path / "work/t.sh").write_text("echo broken; exit 4\n")
    async with session(tmp_path, replies, headless=True, allow=("sh t.sh",)) as made:
        await made.turn("go")
        main = [request for request in made.server.requests if request.purpose == "main"]
        sent = json.dumps(main[-1].json)
        assert "[exit 4]" in sent
        assert "[ok] exit" not in sent
        assert "broken" in sent


async def test_a_command_of_the_app_runs_on_the_session_that_is_taken_up(tmp_path: Path) -> None:
    """The table that the composer reads: a name, a denied request asked again, and a change of
    files taken back.
    """
    status, records = await headless(tmp_path, asks_for("touch made"))
    assert status == 3
    session_id = records[0]["session"]["session_id"]
    again = asks_for("touch made")
    status, records = await headless(
        tmp_path, again, "touch made", text="/retry", resume=session_id
    )
    assert (status, records[-1]["kind"]) == (0, "turn_finished")
    assert (tmp_path / "work/made").exists()
    said = io.StringIO()
    status, records = await headless(
        tmp_path, (), text="/rename two tries", resume=session_id, err=said
    )
    assert (status, said.getvalue()) == (0, "· Session resumed.\nNamed: two tries\n")
    assert records == []  # and no word of a model


@pytest.mark.parametrize(
    ("digest", "sign", "told"),
    [
        (Reply(data={"digest": "five answers were given"}), "·", "tokens"),
        (Reply(text='{"nothing": 1}'), "!", "without a summary (the model returned none)"),
    ],
)
async def test_what_a_compaction_came_to_is_said(
    tmp_path: Path, digest: Reply, sign: str, told: str
) -> None:
    """Without a digest the older messages are lost to the model, which nobody should miss."""
    turns = [done(f"Answer {n}: " + "word " * 400, step="PLANNING") for n in range(6)]
    async with session(tmp_path, script(*turns)) as made:
        for n in range(6):
            await made.turn(f"question {n}")
        session_id = made.session_id
    said = io.StringIO()
    replies = script(digest=digest.model_copy(update={"repeat": True}))
    status, _ = await headless(
        tmp_path, replies, text="/compact", resume=session_id, err=said, context=12_000
    )
    assert status == 0
    line = next(row for row in said.getvalue().splitlines() if "Compacted" in row)
    assert line.startswith(f"{sign} Compacted")
    assert told in line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/nothing here", "Unknown command: /nothing. /keys lists them all."),
        ("/theme", "/theme needs the screen; start without -p."),
        ("/profile bold", "bold is not one of"),
        ("/more", "Nothing is running"),
    ],
)
async def test_a_command_that_cannot_run_here_says_so_and_asks_no_model(
    tmp_path: Path, text: str, told: str
) -> None:
    said = io.StringIO()
    status, _ = await headless(tmp_path, (), text=text, err=said)
    assert status == 2
    assert told in said.getvalue()
    assert "model calls" not in said.getvalue()


async def test_what_is_shown_of_a_session_can_be_printed(tmp_path: Path) -> None:
    """Without a request to a model, without keys, and with nothing that a terminal obeys."""
    writes = [
        action("file_ops.write_file", path="new.txt", content="one\x1b[2J\n"),
        action("file_ops.edit_file", path="old.txt", edits=[{"old": "b", "new": "B"}]),
    ]
    async with session(tmp_path, script(decision("I write.", *writes), done())) as made:
        (tmp_path / "work/old.txt").write_text("a\nb\nc\n")
        await made.engine.send("write")
        for _ in writes:
            gate = await made.answer(GateChoice.ONCE)
            await made.until(lambda state, gate=gate: gate not in state.gates)
        await made.ended()
        session_id, host = made.session_id, made.server.origin.partition("://")[2]
    for text, told in (
        ("/network", [f"| {host} | the model |", "## Network"]),
        ("/decisions", ["## Decisions", "`new.txt`"]),
        ("/diff session", ["--- /dev/null\n+++ new.txt\n", "\n-b\n+B\n", "\n+one"]),
    ):
        status, out, err = await printed(tmp_path, text, session_id)
        assert (status, "\x1b" in out) == (0, False)
        for part in told:
            assert part in out
        assert "model calls" not in err
    assert (await printed(tmp_path, "/diff last", session_id))[0] == 2


async def printed(tmp_path: Path, text: str, session_id: str) -> tuple[int, str, str]:
    """The exit status and both outputs of a command on a session."""
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    out, err = io.StringIO(), io.StringIO()
    async with ScriptedEndpoint(script()) as server:
        flags = Flags(
            workspace=tmp_path / "work",
            base_url=server.base_url,
            model="scripted",
            headless=True,
            resume=session_id,
        )
        choice = choose_session(flags, places, "en", UNTOUCHED)
        options = HeadlessOptions(text=text)
        status = await run_turn(
            lambda s: open_session(choice, s), options, Catalogue("en"), out, err
        )
        assert server.requests == []
    return status, out.getvalue(), err.getvalue()


async def test_a_background_command_ends_with_the_run(tmp_path: Path) -> None:
    mark = f"41{secrets.randbelow(10**9)}"
    command = f"sleep {mark}"
    status, records = await headless(tmp_path, asks_for(command, background=True), command)
    assert status == 0
    assert running_with(mark) == []
    ended = [r for r in records if r["kind"] == "process_ended"]
    assert [r["ended_by"] for r in ended] in ([], ["app"])


async def test_a_signal_ends_the_run_and_its_command_within_three_seconds(tmp_path: Path) -> None:
    mark = f"42{secrets.randbelow(10**9)}"
    (tmp_path / "work").mkdir()
    async with ScriptedEndpoint(script(*asks_for(f"sleep {mark}"))) as server:
        argv = ["-p", "go", "--dir", str(tmp_path / "work")]
        argv += ["--base-url", server.base_url, "--model", "scripted", "--allow", f"sleep {mark}"]
        environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        with running_program(argv, cwd=tmp_path, environ=environ) as process:
            async with asyncio.timeout(20):
                while not running_with(f"sleep\0{mark}"):  # noqa: ASYNC110  # another's child
                    await asyncio.sleep(0.02)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 10) == 143
            assert time.monotonic() - began < 3
            assert running_with(mark) == []


@pytest.mark.parametrize("rule", ["rm *", "a && b", "X=1 a", "ls > x", "echo $X", "", "ls &"])
def test_a_rule_that_does_not_say_what_runs_is_a_wrong_command_line(
    tmp_path: Path, rule: str
) -> None:
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    for language in ("en", "ja"):
        with pytest.raises(Unusable) as refused:
            choose_session(
                Flags(workspace=tmp_path, demo=True, allow=(rule,)), places, language, UNTOUCHED
            )
        assert "--allow" in str(refused.value)


def test_rules_are_for_runs_without_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--demo", "--allow", "ls"]) == 2
    assert "--allow" in capsys.readouterr().err


# --- the engine's own ways -----------------------------------------------------------------------


async def test_the_user_s_command_is_told_to_the_model_and_stop_ends_it(tmp_path: Path) -> None:
    mark = f"43{secrets.randbelow(10**9)}"
    async with session(tmp_path, script(done("Seen."))) as made:
        await made.engine.run_command("echo from the user; exit 5")
        await made.until(lambda state: any(isinstance(m, OperationMessage) for m in state.messages))
        (message,) = made.results()
        assert message.by_user
        assert message.result.exit_code == 5
        await made.turn("what did I run?")
        sent = json.dumps(made.server.requests[-1].json)
        assert "The user ran this themselves" in sent
        assert "$ echo from the user; exit 5" in sent
        await made.engine.run_command(f"echo long; sleep {mark}")
        await made.until(lambda state: bool(state.outputs))
        made.engine.stop()
        await made.until(lambda state: not state.running)
        assert made.results()[-1].result.outcome is Outcome.STOPPED
        assert running_with(mark) == []


async def test_the_user_s_command_for_a_terminal_is_run_by_who_has_one(tmp_path: Path) -> None:
    """Where nobody has, it is refused with the way that works; the model is told how it ended."""
    lines: list[str] = []

    async def lend(line: str, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> int:
        lines.append(f"{line}, by {argv[-1]}, {environ['TERM']}")
        return 4

    async with session(tmp_path, script(done("Seen.")), environ={"TERM": "xterm"}) as made:
        await made.engine.run_command("!less notes")
        await made.until(lambda state: any(isinstance(m, NoticeMessage) for m in state.messages))
        notice = next(m for m in made.state.messages if isinstance(m, NoticeMessage))
        assert notice.key == "processes.no_terminal"
        assert notice.params == {"command": "less notes"}
        made.engine.lend_terminal(lend)
        await made.engine.run_command("!  less notes")
        await made.until(lambda state: len(made.results()) == 2)
        assert lines == ["less notes, by less notes, xterm"]
        assert made.results()[-1].result.exit_code == 4
        await made.turn("what did I run?")
        assert "$ less notes" in json.dumps(made.server.requests[-1].json)


async def test_a_background_command_is_ended_by_the_user_and_with_the_session(
    tmp_path: Path,
) -> None:
    mark = f"44{secrets.randbelow(10**9)}"
    replies = script(
        decision(
            "Two servers.",
            action("shell.run", command=f"sleep {mark}", background=True),
            action("shell.run", command=f"sleep {mark}1", background=True),
        ),
        done(),
    )
    async with session(tmp_path, replies) as made:
        await made.engine.send("serve")
        await made.answer(GateChoice.ONCE)
        await made.until(lambda state: len(state.processes) == 1 and bool(state.gates))
        await made.answer(GateChoice.ONCE)
        await made.ended()
        first, second = made.state.processes
        assert await made.engine.end_process(first.process_id)
        assert [e.process_id for e in made.events(ProcessEnded)] == [first.process_id]
        assert "processes.ended_user" in made.notices()
        assert second.is_running
        assert running_with(f"{mark}1")
    assert running_with(mark) == []
