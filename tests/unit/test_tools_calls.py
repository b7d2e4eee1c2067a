"""The gate of a call: its figures, and when what it shows is no longer so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from support.model_words import WORDS
from support.pinned import ManualClock

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.pending_questions import Desk
from duckflow_tui.safety.policy import Decision, Verdict
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.calls import FileChangedOutside
from duckflow_tui.state.decision import Action
from duckflow_tui.state.operations import Effect, FileChange, Outcome, Risk, Zone
from duckflow_tui.state.session import SandboxLevel
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.tools.calls import (
    Call,
    GateKeeper,
    GateQuestion,
    Renewed,
    held_back_by,
    record_fault,
)
from duckflow_tui.tools.changes import PlannedChange
from duckflow_tui.tools.diffs import compare_files
from duckflow_tui.tools.operation import Edits, Output, ToolFault, Work


def place(name: str) -> Place:
    real = Path("/work") / name
    return Place(given=name, shown=name, resolved=name, real=real, zone=Zone.INSIDE)


def move(source: str, target: str, before: bytes) -> PlannedChange:
    diff = compare_files(None, None)
    sha = hash_data(before)
    return PlannedChange("move", place(source), diff, sha, sha, place(target))


async def nothing() -> Output:
    return Output("")


def question(
    effect: Effect, places: tuple[Place, ...], proposal: Work | Edits, requirement: str = ""
) -> GateQuestion:
    action = Action(call_id="c1", operation="o", args={}, reasoning="it is wanted", intent="do it")
    call = Call(action, for_requirement=requirement)
    verdict = Verdict(Decision.GATE, Zone.INSIDE, Risk.LOW)
    return GateQuestion(call, {}, effect, places, proposal, verdict)


@pytest.mark.parametrize(
    ("level", "text", "unread", "what"),
    [
        ("full", "x: Read-only file system", (), "write"),
        ("full", "Read-only file system" + "." * 3_979, (), "write"),
        ("full", "Read-only file system" + "." * 3_980, (), ""),
        ("none", "x: Read-only file system", (), ""),
        ("external", "x: Read-only file system", (), ""),
        ("full", "Could not resolve host", (), "network"),
        ("full", "File too large", (), "limit"),
        ("seatbelt", "File too large", (), ""),
        ("full", "cannot read a/.env here", ("/work/a/.env",), "secret"),
        ("full", "cannot read a/.env.example", ("/work/a/.env",), ""),
        ("full", "Permission denied", (), ""),
        ("partial", "Permission denied", (), "write"),
    ],
)
def test_what_a_command_was_probably_held_back_by(
    level: SandboxLevel, text: str, unread: tuple[str, ...], what: str
) -> None:
    """By the last 4,000 characters that it wrote, and only where it failed."""
    assert held_back_by(level, Output(text, exit_code=1), unread) == what
    assert held_back_by(level, Output(text, exit_code=0), unread) == ""


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.INVALID, Outcome.STOPPED])
def test_what_was_done_before_a_fault_is_told_with_it(outcome: Outcome) -> None:
    """The words of a stop say it themselves."""
    call = Call(Action(call_id="c1", operation="o", args={}, reasoning="", intent=""))
    call.made.append(FileChange(path="a.py", kind="create", after="sha"))
    ended, output = record_fault(call, ToolFault("text", outcome, text="It went wrong."), WORDS)
    stopped = outcome is Outcome.STOPPED
    assert (ended, output.changes) == (outcome, tuple(call.made))
    assert output.text.startswith("It went wrong.")
    assert ("Done before that: " in output.text) is not stopped
    assert output.summary.startswith("" if stopped else "It went wrong.")
    assert bool(output.summary) is not stopped


WORK = Work(nothing, {"argv": "x"})
MOVE = Edits((move("a.py", "b.py", b"text"),), ("not_read_before",))
TWO = (place("a.py"), place("b.py"))


@pytest.mark.parametrize(
    ("effect", "proposal", "files", "reversible"),
    [
        (Effect.READ, WORK, 2, True),
        (Effect.STATE, WORK, 2, True),
        (Effect.EXECUTE, WORK, 0, False),
        (Effect.EXECUTE, replace(WORK, covered=True), 0, True),
        (Effect.WRITE, MOVE, 1, True),
        (Effect.WRITE, WORK, 2, False),
    ],
)
def test_what_a_gate_says_of_its_files(
    effect: Effect, proposal: Work | Edits, files: int, reversible: bool
) -> None:
    """Covers S4-61."""
    gate = question(effect, TWO, proposal).make_gate("g", 1.0)
    assert (gate.impact.files, gate.impact.reversible) == (files, reversible)
    assert gate.impact.places == ("a.py", "b.py")
    assert gate.facts == ({} if proposal is MOVE else {"argv": "x"})
    assert gate.impact.reasons == (("not_read_before",) if proposal is MOVE else ())
    assert gate.can_edit is False  # a move has no text


@pytest.mark.parametrize("requirement", ["", "r1"])
def test_only_a_check_of_a_requirement_is_shown_as_one(requirement: str) -> None:
    asked = question(Effect.EXECUTE, (), WORK, requirement)
    assert asked.make_gate("g", 1.0).checks == ("do it" if requirement else "")


@pytest.mark.parametrize(
    ("path", "sha", "renewed"),
    [
        ("a.py", hash_data(b"text"), False),
        ("a.py", hash_data(b"other"), True),
        ("b.py", hash_data(b"text"), True),
        ("b.py", "", False),
        ("c.py", hash_data(b"other"), False),
    ],
)
async def test_a_file_that_changed_renews_the_gate_that_shows_it(
    path: str, sha: str, renewed: bool
) -> None:
    """Where a file would go counts as much as where it comes from. Covers S4-61."""
    store = Store(AgentState(), ManualClock(), MemoryRecorder())
    keeper = GateKeeper(store, Desk(store, lambda kind: f"{kind}_1", WORDS), lambda kind: kind)
    task = asyncio.create_task(keeper.ask(question(Effect.WRITE, TWO, MOVE)))
    await asyncio.sleep(0)
    (gate,) = store.state.gates
    store.dispatch(FileChangedOutside(path=path, sha=sha))
    if renewed:
        with pytest.raises(Renewed):
            await asyncio.wait_for(task, 30.0)
        return
    assert store.state.gates == (gate,)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
