"""Rules of the user: kept for a project, in force, explained by what the policy said, revoked."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from support.bench import Bench, SlowDisk, done
from support.session import action, decision, script, session
from support.session import done as ended
from support.shell import ShellBench

from duckflow_tui.session.project_rules import LARGEST
from duckflow_tui.state.gates import GateChoice, Grant, GrantAdded, GrantRevoked
from duckflow_tui.state.operations import Outcome

WRITE = "file_ops.write_file"


def writes(path: str, text: str) -> dict[str, Any]:
    return action(WRITE, path=path, content=f"{text}\n")


def rules_file(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "home" / "data" / "rules").iterdir()
    return path


async def test_a_rule_is_kept_for_the_project_in_the_users_own_data(tmp_path: Path) -> None:
    """The next session does not ask; another folder of the same path does."""
    async with session(
        tmp_path, script(decision("I write.", writes("a.txt", "1")), ended())
    ) as made:
        await made.engine.send("write it")
        gate = await made.answer(GateChoice.PROJECT)
        assert gate.can_grant_project
        await made.ended()
        (rule,) = made.state.grants
        assert (rule.source, rule.pattern) == ("project", f"{WRITE} a.txt")
    path = rules_file(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in (tmp_path / "work").rglob("*")] == ["a.txt"]
    twice = script(decision("Both.", writes("a.txt", "2"), writes("b.txt", "2")), ended())
    async with session(tmp_path, twice) as made:
        assert [(g.grant_id, g.source) for g in made.state.grants] == [(rule.grant_id, "project")]
        await made.engine.send("write both")
        assert (await made.answer(GateChoice.REJECT)).previews[0].path == "b.txt"
        await made.ended()
        first = made.results()[0]
        assert (first.allowed, first.gate) == ("granted", None)
        assert first.ruling is not None
        assert (first.ruling.said, first.ruling.rules) == ("allow", (rule.grant_id,))
    (tmp_path / "work").rename(tmp_path / "elsewhere")
    again = script(decision("I write.", writes("a.txt", "3")), ended())
    async with session(tmp_path, again) as made:
        assert made.state.grants == ()
        await made.engine.send("write it")
        await made.answer(GateChoice.REJECT)


async def test_a_resumed_session_has_the_rules_of_the_project_and_no_other(tmp_path: Path) -> None:
    both = decision("Both.", writes("a.txt", "1"), writes("b.txt", "1"))
    async with session(tmp_path, script(both, ended())) as made:
        await made.engine.send("write both")
        await made.answer(GateChoice.PROJECT)
        await made.until(lambda state: bool(state.gates))
        await made.answer(GateChoice.SESSION)
        await made.ended()
        session_id = made.session_id
    async with session(tmp_path, script(), resume=session_id) as made:
        assert [(g.source, g.path) for g in made.state.grants] == [("project", "a.txt")]
    async with session(tmp_path, script(), resume=session_id) as made:
        assert made.notices()[-1] == "resume.resumed"  # no consent of this session was lost


async def test_a_rule_that_is_revoked_asks_again_now_and_in_later_sessions(tmp_path: Path) -> None:
    """Its end is recorded."""
    replies = script(
        decision("I write.", writes("a.txt", "1")),
        ended(),
        decision("Again.", writes("a.txt", "2")),
        ended(),
    )
    async with session(tmp_path, replies) as made:
        await made.engine.send("write it")
        await made.answer(GateChoice.PROJECT)
        await made.ended()
        (rule,) = made.state.grants
        assert await made.engine.rules.revoke_rule(rule) is None
        assert made.events(GrantRevoked)[0].grant == rule
        assert [change.revoked for change in made.state.rule_log] == [False, True]
        problem = await made.engine.rules.revoke_rule(rule)
        assert problem is not None
        assert problem.key == "rules.gone"
        await made.engine.send("and again")
        await made.answer(GateChoice.REJECT)
    assert json.loads(rules_file(tmp_path).read_text())["rules"] == []


async def test_a_call_that_waits_by_a_rule_asks_once_the_rule_is_revoked(tmp_path: Path) -> None:
    slow = SlowDisk("create")
    bench = Bench(tmp_path, disk=slow)
    rule = Grant(grant_id="g", operation=WRITE, path="b.txt", gate_id="gate_0")
    bench.store.dispatch(GrantAdded(grant=rule))
    bench.store.dispatch(GrantAdded(grant=rule.replace(grant_id="h", path="a.txt")))
    first = bench.begin(WRITE, path="a.txt", content="1\n")
    await asyncio.to_thread(slow.there.wait, 10)
    second = bench.begin(WRITE, path="b.txt", content="1\n")
    await bench.until(lambda state: len(state.running) == 2)
    await asyncio.sleep(0)
    bench.store.dispatch(GrantRevoked(grant=rule, at=1.0))
    slow.go.set()
    gate = await bench.gate()
    assert gate.previews[0].path == "b.txt"
    await bench.answer(gate, GateChoice.REJECT)
    assert (await done(first)).result.outcome is Outcome.OK
    assert (await done(second)).result.outcome is Outcome.REJECTED
    assert not (tmp_path / "b.txt").exists()


async def test_without_a_screen_no_rule_of_a_project_is_consent(tmp_path: Path) -> None:
    """R19."""
    async with session(
        tmp_path, script(decision("I write.", writes("a.txt", "1")), ended())
    ) as made:
        await made.engine.send("write it")
        await made.answer(GateChoice.PROJECT)
        await made.ended()
    again = script(decision("Again.", writes("a.txt", "2")), ended())
    async with session(tmp_path, again, headless=True) as made:
        await made.turn("write it")
        assert made.results()[0].result.outcome is Outcome.DENIED


def put_by_hand(file: Path, work: Path, operation: str, path: str) -> None:
    """A rule that no key has given."""
    info = work.stat()
    rule = {"grant_id": "g", "operation": operation, "path": path, "gate_id": "x"}
    kept = {"workspace": str(work), "device": info.st_dev, "inode": info.st_ino}
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({**kept, "rules": [rule]}))


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("file_ops.read_file", ".env"),
        ("file_ops.read_file", "/etc/hostname"),
        ("file_ops.delete_file", "a.txt"),
        (WRITE, "../outside.txt"),
        (WRITE, "Makefile"),
    ],
)
async def test_what_is_never_by_rule_is_not_offered_and_not_read_from_a_file_of_rules(
    tmp_path: Path, operation: str, path: str
) -> None:
    """Neither by a key nor by whoever writes into the file."""
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text("KEY=value\n")
    (work / "a.txt").write_text("a\n")
    async with session(tmp_path, script()) as made:
        path_of_rules = made.engine.rules.path
    resolved = path if path.startswith("/") else path.replace("..", str(tmp_path))
    put_by_hand(Path(path_of_rules), work, operation, resolved)
    args: dict[str, Any] = {"content": "x\n"} if operation == WRITE else {}
    replies = script(decision("I do.", action(operation, path=path, **args)), ended())
    async with session(tmp_path, replies) as made:
        assert [g.path for g in made.state.grants] == [resolved]
        await made.engine.send("do it")
        gate = await made.answer(GateChoice.REJECT)
        assert not gate.can_grant_project


async def test_a_rule_that_cannot_be_kept_holds_in_the_session_and_that_is_said(
    tmp_path: Path,
) -> None:
    (tmp_path / "home" / "data").mkdir(parents=True)
    (tmp_path / "home" / "data" / "rules").write_text("in the way")
    async with session(
        tmp_path, script(decision("I write.", writes("a.txt", "1")), ended())
    ) as made:
        assert "rules.unread" in made.notices()
        await made.engine.send("write it")
        await made.answer(GateChoice.PROJECT)
        await made.ended()
        assert "rules.not_kept" in made.notices()
        assert [g.source for g in made.state.grants] == ["key"]


async def test_a_rule_that_cannot_be_forgotten_ends_now_and_that_is_said(tmp_path: Path) -> None:
    replies = script(decision("I write.", writes("a.txt", "1")), ended())
    async with session(tmp_path, replies) as made:
        await made.engine.send("write it")
        await made.answer(GateChoice.PROJECT)
        await made.ended()
        file = rules_file(tmp_path)
        file.write_bytes(b" " * (LARGEST + 1))
        problem = await made.engine.rules.revoke_rule(made.state.grants[0])
        assert problem is not None
        assert problem.key == "rules.not_forgotten"
        assert problem.params["path"] == str(file)
        assert f"{LARGEST:,} bytes" in problem.params["reason"]
        assert made.state.grants == ()


async def test_a_rule_of_the_command_line_that_is_revoked_names_nothing_more(
    tmp_path: Path,
) -> None:
    """The model is not told of it any more, either."""
    run = action("shell.run", command="echo hi")
    replies = script(decision("I run.", run), ended(), decision("Again.", run), ended())
    async with session(tmp_path, replies, headless=True, allow=("echo hi", "echo ho")) as made:
        await made.turn("say hi")
        first = made.results()[0]
        assert first.result.outcome is Outcome.OK
        assert first.ruling is not None
        assert first.ruling.row == "shell named"
        rule = next(r for r in made.engine.rules.command_line_rules if r.path == "echo hi")
        assert await made.engine.rules.revoke_rule(rule) is None
        assert [r.path for r in made.engine.rules.command_line_rules] == ["echo ho"]
        assert [c.grant.path for c in made.state.rule_log] == ["echo hi"]
        await made.turn("again")
        second = made.results()[1]
        assert second.result.outcome is Outcome.DENIED
        assert second.ruling is not None
        assert second.ruling.said == "gate"
        assert second.ruling.row in ("shell inside", "shell held")  # where a sandbox holds it
        sent = [str(request) for request in made.server.of("main")]
        assert "echo hi, echo ho" in sent[0]
        assert "echo hi, echo ho" not in sent[2]


async def test_what_the_user_denies_is_refused_until_the_rule_is_revoked(tmp_path: Path) -> None:
    """Also their own kept rules and the command line allow it no more. Their own line runs."""
    run = action("shell.run", command="echo hi")
    replies = script(decision("I run.", run), ended(), decision("Again.", run), ended())
    async with session(tmp_path, replies, headless=True, allow=("echo hi",)) as made:
        made.engine.rules.add_denial("echo")
        await made.turn("say hi")
        await made.engine.run_command("echo mine")
        await made.until(lambda state: len(made.results()) == 2)
        (rule,) = made.state.grants
        assert await made.engine.rules.revoke_rule(rule) is None
        await made.turn("again")
        outcomes = [m.result.outcome for m in made.results()]
        assert outcomes == [Outcome.DENIED, Outcome.OK, Outcome.OK]
        changes = [(c.grant.path, c.revoked) for c in made.state.rule_log]
        assert changes == [("echo", False), ("echo", True)]


async def test_a_command_that_waits_by_a_rule_of_the_command_line_asks_once_it_is_revoked(
    tmp_path: Path,
) -> None:
    slow = SlowDisk("create")
    root = tmp_path / "work"
    root.mkdir()
    bench = ShellBench(root, allowed=("echo hi",), disk=slow)
    bench.store.dispatch(
        GrantAdded(grant=Grant(grant_id="g", operation=WRITE, path="a.txt", gate_id="gate_0"))
    )
    first = bench.begin(WRITE, path="a.txt", content="1\n")
    await asyncio.to_thread(slow.there.wait, 10)
    second = bench.begin("shell.run", command="echo hi")
    await bench.until(lambda state: len(state.running) == 2)
    for _ in range(50):  # until it waits for the write
        await asyncio.sleep(0)
    assert not bench.store.state.gates
    bench.shell.named.revoke_rule("echo hi")
    slow.go.set()
    await bench.answer(await bench.gate(), GateChoice.REJECT)
    assert (await done(first)).result.outcome is Outcome.OK
    assert (await done(second)).result.outcome is Outcome.REJECTED
    await bench.end_commands()
