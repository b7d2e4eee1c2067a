"""Never an effect without its own consent: answers that come twice, late, or for another gate."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest
from support.bench import Bench
from support.bench import done as ended
from support.mcp_servers import HOSTILE
from support.session import action, decision, done, script, session

from duckflow_tui.state.base import StateError
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, GateWithdrawn, before_hashes
from duckflow_tui.state.operations import Outcome

CHOICES = [GateChoice.ONCE, GateChoice.ONLY]


def yes(gate: Gate, choice: GateChoice = GateChoice.ONCE) -> GateAnswer:
    return GateAnswer(
        gate_id=gate.gate_id,
        call_id=gate.call_id,
        args_hash=gate.args_hash,
        before_hashes=before_hashes(gate),
        choice=choice,
    )


@pytest.mark.parametrize("choice", CHOICES)
async def test_an_answer_given_twice_approves_one_call(tmp_path: Path, choice: GateChoice) -> None:
    """The second does not reach the gate that is open by then, for the same or for another file."""
    same = action("file_ops.write_file", path="a.txt", content="one\n")
    other = action("file_ops.write_file", path="b.txt", content="two\n")
    replies = script(decision("I write.", same), decision("I write another.", other), done())
    async with session(tmp_path, replies) as s:
        await s.engine.send("write two files")
        first = await s.gate()
        await s.engine.answer_gate(yes(first, choice))
        with pytest.raises(StateError):
            await s.engine.answer_gate(yes(first, choice))
        await s.until(lambda state: any(g.gate_id != first.gate_id for g in state.gates))
        with pytest.raises(StateError):
            await s.engine.answer_gate(yes(first, choice))
        assert (s.workspace / "a.txt").read_text() == "one\n"
        assert not (s.workspace / "b.txt").exists()
        await s.answer(GateChoice.REJECT)
        await s.ended()
        assert not (s.workspace / "b.txt").exists()


async def test_the_same_call_once_more_asks_once_more(tmp_path: Path) -> None:
    call = action("file_ops.delete_file", path="a.txt")
    replies = script(decision("Gone.", call), decision("Gone again.", call), done())
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("1\n")
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("delete it twice")
        first = await s.answer(GateChoice.ONCE)
        await s.until(lambda _: len(s.results()) == 1)
        (s.workspace / "a.txt").write_text("2\n")  # the user put it back
        await s.until(lambda state: any(g.gate_id != first.gate_id for g in state.gates))
        await s.answer(GateChoice.REJECT)
        await s.ended()
        assert (s.workspace / "a.txt").read_text() == "2\n"


@pytest.mark.parametrize("choice", CHOICES)
async def test_of_two_gates_the_one_that_was_answered_lets_its_call_run(
    tmp_path: Path, choice: GateChoice
) -> None:
    """An answer put together of both is none."""
    bench = Bench(tmp_path)
    first = bench.begin("file_ops.write_file", path="a.txt", content="1\n")
    a = await bench.gate()
    second = bench.begin("file_ops.write_file", path="b.txt", content="2\n")
    b = await bench.gate(after=a)
    for mixed in (
        yes(a).replace(gate_id=b.gate_id),
        yes(b).replace(gate_id=a.gate_id),
        yes(b).replace(args_hash=a.args_hash),
        yes(b).replace(call_id=a.call_id),
        yes(b).replace(before_hashes=("0" * 64,)),
        yes(b).replace(before_hashes=()),
    ):
        with pytest.raises(StateError):
            await bench.desk.record_answer(mixed)
    assert not (tmp_path / "a.txt").exists()
    assert not (tmp_path / "b.txt").exists()
    await bench.desk.record_answer(yes(b, choice))
    assert (await ended(second)).result.outcome is Outcome.OK
    assert not (tmp_path / "a.txt").exists()
    assert [gate.gate_id for gate in bench.store.state.gates] == [a.gate_id]
    await bench.desk.record_answer(yes(a, GateChoice.REJECT))
    assert (await ended(first)).result.outcome is Outcome.REJECTED
    assert not (tmp_path / "a.txt").exists()


async def test_an_answer_after_the_stop_lets_nothing_run(tmp_path: Path) -> None:
    """Nor does it answer the gate that the next request opens for the very same call."""
    call = action("file_ops.write_file", path="a.txt", content="1\n")
    replies = script(decision("I write.", call), decision("I write.", call), done())
    async with session(tmp_path, replies) as s:
        await s.engine.send("write it")
        gate = await s.gate()
        s.engine.stop()
        await s.ended()
        assert [e.reason for e in s.events(GateWithdrawn)] == ["stopped"]
        with pytest.raises(StateError):
            await s.engine.answer_gate(yes(gate))
        await s.engine.send("write it after all")
        await s.gate()
        with pytest.raises(StateError):
            await s.engine.answer_gate(yes(gate))
        await s.answer(GateChoice.REJECT)
        await s.ended(2)
        assert not (s.workspace / "a.txt").exists()


async def test_an_answer_from_before_the_app_ended_lets_nothing_run(tmp_path: Path) -> None:
    call = action("file_ops.write_file", path="a.txt", content="1\n")
    async with session(tmp_path, script(decision("I write.", call))) as s:
        await s.engine.send("write it")
        gate, number = await s.gate(), s.session_id
        s.cut()
    async with session(tmp_path, script(done()), resume=number) as s:
        again = await s.gate()
        assert again.gate_id != gate.gate_id
        with pytest.raises(StateError):
            await s.engine.answer_gate(yes(gate))
        await s.answer(GateChoice.REJECT)
        await s.ended()
        assert not (s.workspace / "a.txt").exists()


@pytest.mark.parametrize("choice", CHOICES)
async def test_two_instances_share_a_folder_and_no_consent(
    tmp_path: Path, choice: GateChoice
) -> None:
    """What one was allowed the other asks for; what one wrote meanwhile the other shows first."""
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.txt"
    file.write_text("0\n")

    def edit(new: str) -> dict[str, object]:
        return action("file_ops.write_file", path="a.txt", content=new)

    read = action("file_ops.read_file", path="a.txt")
    ones = script(decision("I look.", read), decision("I write.", edit("one\n")), done())
    others = script(decision("I look.", read), decision("I write.", edit("two\n")), done())
    async with session(tmp_path, ones) as one, session(tmp_path, others) as other:
        await one.engine.send("write one")
        await other.engine.send("write two")
        mine, theirs = await one.gate(), await other.gate()
        for s, foreign in ((one, theirs), (other, mine)):
            with pytest.raises(StateError):
                await s.engine.answer_gate(yes(foreign).replace(gate_id="gate_other"))
        await one.engine.answer_gate(yes(mine, choice))
        await one.ended()
        assert file.read_text() == "one\n"
        assert not other.state.grants
        # The other's key was for what is there no more: nothing is written before the new diff.
        with contextlib.suppress(StateError):  # where it was noticed before the key
            await other.engine.answer_gate(yes(theirs, choice))
        assert file.read_text() == "one\n"
        await other.until(lambda state: any(g.renewed for g in state.gates))
        again = other.state.gates[0]
        assert again.previews[0].before_hash == mine.previews[0].after_hash
        await other.answer(GateChoice.REJECT)
        await other.ended()
        assert file.read_text() == "one\n"


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_COMMON_DIR"])
async def test_a_repository_that_a_variable_names_is_never_written(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R09: commands that the user allows obey it."""
    (tmp_path / "work" / "elsewhere").mkdir(parents=True)
    monkeypatch.setenv(variable, str(tmp_path / "work" / "elsewhere"))
    call = action("file_ops.write_file", path="elsewhere/config", content="[core]\n")
    async with session(tmp_path, script(decision("I write.", call), done()), mode="trusted") as s:
        await s.turn("configure it")
        assert s.results()[0].result.outcome is Outcome.DENIED


async def test_a_flag_allows_a_tool_as_its_server_first_described_it(tmp_path: Path) -> None:
    """R10, R19: nobody saw what it says now."""
    (tmp_path / "home" / "config").mkdir(parents=True)
    command, args = json.dumps(sys.executable), json.dumps(["-I", str(HOSTILE)])
    settings = f"[mcp.servers.hostile]\ncommand = {command}\nargs = {args}\n"
    (tmp_path / "home" / "config" / "settings.toml").write_text(settings)
    echo = action("mcp.hostile.echo", text="a")
    turns = action("mcp.hostile.turn", what="description")
    replies = script(
        decision("I ask.", echo), decision("I turn it.", turns), done(), decision("I ask.", echo),
        done(),
    )  # fmt: skip
    async with session(tmp_path, replies, headless=True, allow=("mcp.hostile.*",)) as s:
        await s.turn("ask the server")
        assert [m.result.outcome for m in s.results()] == [Outcome.OK, Outcome.OK]
        await s.until(lambda state: "approved" in state.servers[0].tools[0].summary)
        await s.turn("ask it again")
        assert s.results()[-1].operation == "mcp.hostile.echo"
        assert s.results()[-1].result.outcome is Outcome.DENIED
