"""A decision that changes many files is one wide change: one gate with a list (S4-110)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from support.session import Session, action, decision, done, script, session

from duckflow_tui.scripted.replies import Script
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationFinished, OperationStarted
from duckflow_tui.state.gates import GateAnswered, GateChoice, GateOpened
from duckflow_tui.state.operations import Outcome, Risk
from duckflow_tui.state.store import Record
from duckflow_tui.words.catalogue import Catalogue

NAMES = [f"f{n:02}.txt" for n in range(20)]


def write(path: str, content: str = "new\n") -> dict[str, Any]:
    return action("file_ops.write_file", path=path, content=content)


def twenty(*more: dict[str, Any]) -> Script:
    return script(decision("All at once.", *map(write, NAMES), *more), done("Written."))


def written(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.read_text() == "new\n")


@pytest.mark.parametrize(
    ("mode", "protocol"), [("strict", "tools"), ("standard", "json"), ("trusted", "tools")]
)
async def test_twenty_writes_in_one_reply_are_asked_for_in_one_gate(
    tmp_path: Path, mode: str, protocol: Literal["tools", "json"]
) -> None:
    """Covers S4-110, S4-63."""
    async with session(tmp_path, twenty(), mode=mode, protocol=protocol) as s:
        await s.engine.send("write them")
        gate = await s.gate()
        assert [preview.path for preview in gate.previews] == NAMES
        assert (gate.impact.files, gate.impact.added) == (20, 20)
        assert "wide_impact" in gate.impact.reasons
        assert gate.impact.risk is Risk.HIGH
        assert not gate.can_grant_session
        assert written(s.workspace) == []
        await s.answer(GateChoice.ONCE)
        assert (await s.ended()).files_changed == tuple(NAMES)
        assert written(s.workspace) == NAMES
        assert len(s.events(GateOpened)) == 1
        for name, message in zip(NAMES, s.results(), strict=True):
            assert message.gate is not None
            assert message.answer is not None
            assert [p.path for p in message.gate.previews] == [name]
            assert message.answer.call_id == message.call_id


async def test_each_file_can_be_left_out_and_the_others_are_written(tmp_path: Path) -> None:
    """The first, one between and the last; the model hears which. Covers S4-110."""
    async with session(tmp_path, twenty(), mode="trusted") as s:
        await s.engine.send("write them")
        await s.answer(GateChoice.ONCE, left_out=((0, 0), (7, 0), (19, 0)))
        await s.ended()
        out = [NAMES[0], NAMES[7], NAMES[19]]
        assert written(s.workspace) == [name for name in NAMES if name not in out]
        refused = [m.args["path"] for m in s.results() if m.result.outcome is Outcome.REJECTED]
        assert refused == out
        assert len([m for m in s.results() if m.result.outcome is Outcome.OK]) == 17
        assert "20 changes of files at once, but for a part" in str(s.state.memory.decision_log)


async def test_a_no_to_the_list_writes_nothing(tmp_path: Path) -> None:
    async with session(tmp_path, twenty(), mode="trusted") as s:
        await s.engine.send("write them")
        await s.answer(GateChoice.REJECT, reason="one by one, please")
        await s.ended()
        assert written(s.workspace) == []
        outcomes = [m.result.outcome for m in s.results()]
        assert outcomes == [Outcome.REJECTED, *[Outcome.SKIPPED] * 19]
        assert "one by one, please" in s.server.of("main")[1].new_text


async def test_the_answer_is_bound_to_every_call(tmp_path: Path) -> None:
    """Promise 3: another set of arguments gives another hash."""
    hashes: list[str] = []
    for at, content in enumerate(("new\n", "other\n")):
        reply = decision("All.", *map(write, NAMES[:19]), write(NAMES[19], content))
        (tmp_path / str(at)).mkdir()
        async with session(tmp_path / str(at), script(reply), mode="trusted") as s:
            await s.engine.send("write them")
            hashes.append((await s.gate()).args_hash)
    assert hashes[0] != hashes[1]


async def test_a_file_that_changes_behind_the_answer_is_asked_for_alone(tmp_path: Path) -> None:
    """R15: the consent was for another change."""
    async with session(tmp_path, twenty(), mode="trusted") as s:

        def meanwhile(_: AgentState, record: Record) -> None:
            if isinstance(record.event, GateAnswered):
                (s.workspace / NAMES[5]).write_text("the user's own\n")

        forget = s.store.subscribe(meanwhile)
        await s.engine.send("write them")
        await s.answer(GateChoice.ONCE)
        forget()
        gate = await s.gate()
        assert [p.path for p in gate.previews] == [NAMES[5]]
        assert (s.workspace / NAMES[5]).read_text() == "the user's own\n"
        await s.answer(GateChoice.ONCE, left_out=())
        await s.ended()
        assert written(s.workspace) == NAMES


async def test_a_second_change_of_a_file_is_asked_for_in_its_turn(tmp_path: Path) -> None:
    """What it does cannot be shown before the first one is made."""
    again = write(NAMES[0], "newer\n")
    async with session(
        tmp_path,
        script(decision("All.", *map(write, NAMES[:19]), again), done("Written.")),
        mode="trusted",
    ) as s:
        await s.engine.send("write them")
        gate = await s.answer(GateChoice.ONCE)
        assert len(gate.previews) == 19
        await s.until(lambda state: bool(state.gates) and state.gates[0].gate_id != gate.gate_id)
        second = await s.answer(GateChoice.ONCE)
        assert [p.path for p in second.previews] == [NAMES[0]]
        assert "wide_impact" in second.impact.reasons
        await s.ended()
        assert (s.workspace / NAMES[0]).read_text() == "newer\n"


async def test_files_that_come_go_and_move_stand_in_the_same_list(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("old.txt", "here.txt"):
        (work / name).write_text("old\n")
    more = (
        action("file_ops.delete_file", path="old.txt"),
        action("file_ops.move_file", source="here.txt", target="there.txt"),
    )
    reply = decision("All.", *map(write, NAMES[:9]), *more)
    async with session(tmp_path, script(reply, done("Done.")), mode="trusted") as s:
        await s.engine.send("tidy up")
        gate = await s.gate()
        assert [p.kind for p in gate.previews[9:]] == ["delete", "move"]
        await s.answer(GateChoice.ONCE, left_out=((10, 0),))
        await s.ended()
        assert (work / "here.txt").exists()
        assert not (work / "old.txt").exists()
        assert not (work / "there.txt").exists()


async def test_many_lines_that_go_away_in_several_files_are_bulk(tmp_path: Path) -> None:
    """Covers S4-110, S4-63."""
    work = tmp_path / "work"
    work.mkdir()
    for n in range(4):
        (work / f"{n}.txt").write_text("line\n" * 150)
    replies = script(decision("All.", *[write(f"{n}.txt") for n in range(4)]), done("Done."))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("shorten them")
        gate = await s.gate()
        assert "bulk_data" in gate.impact.reasons
        assert (len(gate.previews), gate.impact.removed) == (4, 600)


async def test_a_few_changes_are_as_they_were(tmp_path: Path) -> None:
    replies = script(decision("All.", *map(write, NAMES[:9])), done("Done."))
    async with session(tmp_path, replies, mode="trusted") as s:
        assert (await s.turn("write them")).outcome == "done"
        assert s.events(GateOpened) == []


async def test_what_is_refused_anyway_is_not_in_the_list(tmp_path: Path) -> None:
    config = write(".git/config")
    async with session(
        tmp_path,
        script(decision("All.", *map(write, NAMES[:19]), config), done("Done.")),
        mode="trusted",
    ) as s:
        await s.engine.send("write them")
        gate = await s.answer(GateChoice.ONCE)
        assert [p.path for p in gate.previews] == NAMES[:19]
        await s.ended()
        assert s.results()[-1].result.outcome is Outcome.DENIED


async def test_without_a_screen_a_wide_change_is_denied(tmp_path: Path) -> None:
    """R19."""
    async with session(tmp_path, twenty(), mode="trusted", headless=True) as s:
        assert (await s.turn("write them")).outcome == "denied"
        assert written(s.workspace) == []


CUTS: list[Callable[[Record], bool]] = [
    lambda record: isinstance(record.event, GateOpened),
    lambda record: isinstance(record.event, GateAnswered),
    lambda record: isinstance(record.event, OperationStarted),
    lambda record: isinstance(record.event, OperationFinished),
]


@pytest.mark.parametrize("at", range(len(CUTS)))
async def test_what_a_kill_in_between_left_is_true_and_nothing_is_consented_to(
    tmp_path: Path, at: int
) -> None:
    """What is done is recorded; what is not done is asked for again, or skipped."""
    async with session(tmp_path, twenty(), mode="trusted") as s:

        def cut(_: AgentState, record: Record) -> None:
            if CUTS[at](record) and not reached:
                reached.append(record)
                s.cut()

        reached: list[Record] = []
        s.store.subscribe(cut)
        await s.engine.send("write them")
        if at:
            await s.answer(GateChoice.ONCE)
        await s.until(lambda _: bool(reached))
    done_by_then = NAMES[:1] if at > 1 else []
    for name in written(s.workspace):
        if name not in done_by_then:  # what the test's own process did behind the cut
            (s.workspace / name).unlink()
    replies = script(done("There."))
    async with session(tmp_path, replies, mode="trusted", resume=s.session_id) as again:
        asked = {0: NAMES, 1: NAMES, 3: NAMES[1:]}.get(at, [])
        if at:
            again.engine.resume()
        if asked:
            gate = await again.gate()
            assert [p.path for p in gate.previews] == asked
            assert "wide_impact" in gate.impact.reasons
            assert written(again.workspace) == done_by_then
            await again.answer(GateChoice.ONCE)
        await again.ended()
        recorded = [c.path for m in again.results() for c in m.result.changes]
        assert recorded == written(again.workspace)
        assert recorded == NAMES or not asked


def notices(s: Session) -> list[str]:
    words = Catalogue("en")
    return [words(m.key, **m.params) for m in s.state.messages if m.kind == "notice"]


async def test_what_one_answer_allowed_is_taken_back_by_one_undo(tmp_path: Path) -> None:
    async with session(tmp_path, twenty(), mode="trusted") as s:
        await s.engine.send("write them")
        await s.answer(GateChoice.ONCE, left_out=((7, 0),))
        await s.ended()
        allowed = [name for name in NAMES if name != NAMES[7]]
        await s.engine.undo()
        assert written(s.workspace) == []
        said = notices(s)[-1]
        assert "19 files" in said
        assert NAMES[0] in said
        assert s.state.objective is not None
        assert s.state.objective.met_counts == (0, 1)
        await s.engine.redo()
        assert written(s.workspace) == allowed
        assert "19 files" in notices(s)[-1]


async def test_one_file_of_those_that_one_answer_allowed_can_be_taken_back(tmp_path: Path) -> None:
    async with session(tmp_path, twenty(), mode="trusted") as s:
        await s.engine.send("write them")
        await s.answer(GateChoice.ONCE)
        await s.ended()
        await s.engine.undo(one=True)
        assert written(s.workspace) == NAMES[:19]
        await s.engine.undo(one=True)
        assert written(s.workspace) == NAMES[:18]
        await s.engine.redo(one=True)
        assert written(s.workspace) == NAMES[:19]
        await s.engine.undo()
        assert written(s.workspace) == []
        assert "19 files" in notices(s)[-1]
        await s.engine.redo()
        assert written(s.workspace) == NAMES


async def test_a_file_that_changed_since_keeps_only_itself_from_being_taken_back(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, twenty(), mode="trusted") as s:
        await s.engine.send("write them")
        await s.answer(GateChoice.ONCE)
        await s.ended()
        (s.workspace / NAMES[5]).write_text("the user's own\n")
        await s.engine.undo()
        assert [p.name for p in s.workspace.iterdir()] == [NAMES[5]]
        assert (s.workspace / NAMES[5]).read_text() == "the user's own\n"
        said = notices(s)
        assert "19 files" in said[-2]
        assert NAMES[5] in said[-1]
        assert "/undo anyway" in said[-1]
        await s.engine.undo(anyway=True)
        assert list(s.workspace.iterdir()) == []
        await s.engine.redo()
        assert len(list(s.workspace.iterdir())) == 20
        assert (s.workspace / NAMES[5]).read_text() == "the user's own\n"
