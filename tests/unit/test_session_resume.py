"""What is recorded and said when a session goes on: of its turn, its commands, its folder."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from support.consults import budget
from support.conversations import user
from support.decision_states import GIVEN
from support.gates import gate
from support.model_words import WORDS
from support.pinned import CountingIds, ManualClock
from support.plans import (
    FIX,
    PLAN,
    change_card,
    draft,
    plan_card,
    report,
    report_card,
    running,
)

from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.session.reader import RecordedEvent, SessionRead, Unread
from duckflow_tui.session.records import JournalHeader
from duckflow_tui.session.resume import EndedCalls, Restored, end_calls, resume
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage, RunningOperation
from duckflow_tui.state.conversation import AssistantMessage, Level, NoticeMessage
from duckflow_tui.state.decision import Action, SelfCheck, TurnDecision
from duckflow_tui.state.gates import GateAnswer, GateChoice
from duckflow_tui.state.operations import ApprovalMode, Effect, Outcome
from duckflow_tui.state.plan import Plan, WorkInfo, WorkStatus
from duckflow_tui.state.processes import BackgroundProcess
from duckflow_tui.state.session import SessionInfo, SessionResumed, SessionStarted
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.state.turn import TurnInfo
from duckflow_tui.state.usage import PromptFigures, PromptParts
from duckflow_tui.tools.notices import Notices

NOW = ManualClock().now()
TURN = TurnInfo(turn_id="turn_1", message_id="msg_1", started_at=NOW - 60)
TODAY = SessionInfo(
    session_id="session_today",
    workspace="/now",
    title="now",
    model="new",
    endpoint="far",
    branch="main",
    sandbox="full",
    demo=True,
)
EMPTY = RecordedEvent(1, NOW - 30, {})
STARTED_AGAIN = (
    "[Written by the app.] The app ended here and was started again; what was running has ended."
)


async def went_on(
    folder: Path,
    state: AgentState,
    *,
    header: JournalHeader | None = None,
    read: SessionRead | None = None,
    skipped: int = 0,
    headless: bool = False,
) -> SessionResumed:
    """What is recorded when the session of this state goes on in this folder."""
    recorder = MemoryRecorder()
    store = Store(state, ManualClock(), recorder)
    found = read or SessionRead(entries=[EMPTY], last_seq=1)
    found.header = header
    today = SessionStarted(
        session=TODAY.replace(headless=headless), mode=ApprovalMode.TRUSTED, context_window=9
    )
    restored = Restored(state, found, skipped, 0)
    with contextlib.closing(Workspace(folder)) as workspace:
        notices = Notices(store, CountingIds(), words=WORDS)
        await resume(store, notices, restored, today, workspace, lambda _: None)
    event = recorder.records[0].event
    assert isinstance(event, SessionResumed)
    return event


def told(state: AgentState) -> list[tuple[str, dict[str, str]]]:
    return [(m.key, m.params) for m in state.messages if isinstance(m, NoticeMessage)]


def for_model(state: AgentState) -> str:
    return " ".join(m.for_model for m in state.messages if isinstance(m, NoticeMessage)).strip()


def process(number: int, **fields: Any) -> BackgroundProcess:
    return BackgroundProcess(
        process_id=f"p{number}", call_id="c", command="x", cwd="/", started_at=1.0, **fields
    )


def request(number: int, **fields: Any) -> PromptFigures:
    values: dict[str, Any] = {"llm_id": f"llm_{number}", "purpose": "main", "turn_id": "turn_1"}
    return PromptFigures(**(values | fields), parts=PromptParts(chat=10), at=NOW)


async def test_of_a_session_at_rest_no_more_is_said_than_that_it_goes_on(tmp_path: Path) -> None:
    state = AgentState()
    await went_on(tmp_path, state)
    assert told(state) == [("resume.resumed", {})]
    assert for_model(state) == ""


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"grants": (GIVEN,)}, "resume.resumed_consent"),
        ({"grants": (GIVEN.replace(source="project"),)}, "resume.resumed"),  # which still holds
    ],
)
async def test_consent_that_ended_with_the_process_is_told(
    tmp_path: Path, fields: dict[str, Any], key: str
) -> None:
    state = AgentState()
    for name, value in fields.items():
        setattr(state, name, value)
    await went_on(tmp_path, state)
    assert told(state) == [(key, {})]


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ((), []),
        ((request(1),), [("resume.replies_lost", {"count": "1"})]),
        ((request(1), request(2, aside=True)), [("resume.replies_lost", {"count": "2"})]),
        ((request(1, turn_id="turn_0"),), []),
    ],
)
async def test_a_turn_that_was_cut_waits_and_replies_that_never_came_are_told(
    tmp_path: Path, lost: tuple[PromptFigures, ...], said: list[Any]
) -> None:
    state = AgentState()
    state.turn, state.requests = TURN, lost
    event = await went_on(tmp_path, state)
    assert told(state) == [("resume.resumed", {}), *said, ("resume.interrupted", {})]
    assert for_model(state) == STARTED_AGAIN
    assert not event.asks_again
    assert not event.ends_turn


async def test_commands_that_ran_in_the_background_are_counted(tmp_path: Path) -> None:
    state = AgentState()
    state.processes = (process(1), process(2), process(3, ended_at=2.0))
    await went_on(tmp_path, state)
    assert told(state) == [("resume.resumed", {}), ("resume.commands_ended", {"count": "2"})]
    assert for_model(state) == STARTED_AGAIN


@pytest.mark.parametrize("moved", ["device", "inode", "", "not known"])
async def test_another_folder_at_the_same_path_is_told_to_user_and_model(
    tmp_path: Path, moved: str
) -> None:
    with contextlib.closing(Workspace(tmp_path)) as workspace:
        device, inode = workspace.identity
    header = JournalHeader(
        session_id="s",
        workspace="/then",
        created_at=7.0,
        opened_at=8.0,
        device=device + (moved == "device"),
        inode=0 if moved == "not known" else inode + (moved == "inode"),
    )
    state = AgentState()
    state.files_read = {"a.py": "sha"}
    event = await went_on(tmp_path, state, header=header)
    another = moved in ("device", "inode")
    warned = [("resume.another_folder", {"path": "/now"})] if another else []
    assert told(state) == [("resume.resumed", {}), *warned]
    again = " The workspace is another folder than before: read files again."
    assert for_model(state) == (STARTED_AGAIN + again if another else "")
    assert event.another_folder is another
    assert [m.level for m in state.messages if isinstance(m, NoticeMessage)][1:] == [
        Level.WARNING for _ in warned
    ]
    assert event.session.started_at == 7.0  # of the header, where the state does not say


@pytest.mark.parametrize(
    ("read", "skipped", "damaged", "missing"),
    [
        (SessionRead(entries=[EMPTY], last_seq=3), 0, "0", "2"),
        (SessionRead(entries=[EMPTY], last_seq=1), 1, "0", "1"),
        (
            SessionRead(entries=[EMPTY], last_seq=1, unread=[Unread(1, 0, "frame")]),
            0,
            "1",
            "0",
        ),
        (
            SessionRead(
                last_seq=1, unread=[Unread(1, 0, "frame"), Unread(1, 9, "no_event", 1)], after=0
            ),
            0,
            "2",
            "1",
        ),
    ],
)
async def test_what_could_not_be_read_is_told_with_what_is_missing(
    tmp_path: Path, read: SessionRead, skipped: int, damaged: str, missing: str
) -> None:
    state = AgentState()
    await went_on(tmp_path, state, read=read, skipped=skipped)
    figures = {"damaged": damaged, "missing": missing}
    assert told(state) == [("resume.resumed", {}), ("resume.damaged", figures)]


async def test_it_keeps_its_name_and_its_beginning_and_goes_on_with_what_there_is(
    tmp_path: Path,
) -> None:
    state = AgentState()
    state.session = SessionInfo(
        session_id="session_1",
        workspace="/then",
        title="then",
        started_at=5.0,
        model="old",
        name="mine",
    )
    event = await went_on(tmp_path, state)
    assert event.session == TODAY.replace(
        session_id="session_1", title="then", started_at=5.0, name="mine"
    )
    assert (event.mode, event.context_window) == (ApprovalMode.TRUSTED, 9)
    empty = await went_on(tmp_path, AgentState())
    assert empty.session == TODAY


@pytest.mark.parametrize(
    ("entries", "ended_at"),
    [
        ([RecordedEvent(1, NOW - 90, {}), EMPTY], NOW - 30),
        ([], NOW),  # all of it is in the snapshot
        ([RecordedEvent(1, NOW + 90, {})], NOW),  # the clock was set back since
    ],
)
async def test_what_was_cut_ended_when_the_last_record_was_written(
    tmp_path: Path, entries: list[RecordedEvent], ended_at: float
) -> None:
    state = AgentState()
    state.turn = TURN
    state.running = (RunningOperation(call_id="c", operation="shell.run", args={}, at=NOW - 40),)
    read = SessionRead(entries=entries, last_seq=len(entries))
    event = await went_on(tmp_path, state, read=read, headless=True)
    assert (event.interrupted_at, event.at, event.ends_turn) == (ended_at, NOW, True)
    (cut,) = (m for m in state.messages if isinstance(m, OperationMessage))
    assert cut.at == (entries[-1].at if entries else NOW)
    assert "nothing was executed" in cut.result.text
    assert told(state) == [("resume.resumed", {})]


# --- calls that had no result --------------------------------------------------------------------

READ, WRITE = "file_ops.read_file", "file_ops.write_file"
WORK = WorkInfo(work_id="w", plan_id=PLAN, step_id=FIX, started_at=1.0)
ASKED = gate((), gate_id="gate_1", call_id="c1")


def running_call(operation: str = WRITE, **fields: Any) -> RunningOperation:
    values: dict[str, Any] = {"call_id": "c1", "operation": operation, "args": {}, "at": 1.0}
    return RunningOperation(**(values | fields))


def reply(*call_ids: str, step_id: str = "") -> AssistantMessage:
    """A reply of the model that asks for these calls."""
    judged = SelfCheck(ok=True, reason="serves it")
    decided = TurnDecision(
        decision_id="d",
        rationale="r",
        reply="I do it.",
        goal_consistency=judged,
        constraint_check=judged,
        actions=tuple(
            Action(call_id=call_id, operation=WRITE, args={}, reasoning="r") for call_id in call_ids
        ),
    )
    return AssistantMessage(
        message_id="a", llm_id="l", text="I do it.", decision=decided, step_id=step_id, at=1.0
    )


def cut(*calls: RunningOperation, asked: tuple[str, ...] = ("c1",), **fields: Any) -> AgentState:
    """A turn in which these calls ran, and what the model's newest reply asks for."""
    state = AgentState()
    state.turn = TURN
    state.messages = [user("go on").replace(message_id="msg_1"), reply(*asked)]
    state.running = calls
    for name, value in fields.items():
        setattr(state, name, value)
    return state


def effect(operation: str) -> Effect | None:
    return {READ: Effect.READ, WRITE: Effect.WRITE}.get(operation)


async def ended(folder: Path, state: AgentState, *, ends_turn: bool = False) -> EndedCalls:
    with contextlib.closing(Workspace(folder)) as workspace:
        return await end_calls(state, workspace, effect, NOW, WORDS, ends_turn=ends_turn)


def in_list(step: WorkStatus, task: WorkStatus) -> tuple[Plan, ...]:
    """A plan whose second step has a task that asked for the call."""
    plan = running()
    old = plan.steps[1]
    tasks = (old.task_list[1].replace(status=task, call_id="c1"),)
    second = old.replace(status=step, task_list=tasks)
    return (plan.replace(steps=(plan.steps[0], second, plan.steps[2])),)


RUNS, WAITS = WorkStatus.IN_PROGRESS, WorkStatus.PENDING


@pytest.mark.parametrize(
    ("state", "again"),
    [
        (cut(running_call()), True),  # nothing of it has happened
        (cut(running_call(READ, started=True)), True),
        (cut(running_call(started=True)), False),
        (cut(running_call("of_later", started=True)), False),
        (cut(running_call(by_user=True)), False),
        (cut(running_call(), asked=("c2",)), False),
        (cut(running_call(), turn=None), False),
        (cut(running_call("plan_tool.propose", started=True)), False),
        (
            cut(running_call("plan_tool.propose", started=True), cards=(plan_card(draft()),)),
            True,
        ),
        (cut(running_call("plan_tool.revise", started=True), cards=(change_card(),)), True),
        (cut(running_call("plan_tool.propose", started=True), cards=(change_card(),)), False),
        (cut(running_call("task_loop.run", started=True), work=WORK), False),
        (cut(running_call("task_loop.run", started=True)), False),
        (cut(running_call(), asked=(), plans=in_list(RUNS, RUNS)), True),
        (cut(running_call(), asked=(), plans=in_list(RUNS, WAITS)), False),
        (cut(running_call(), asked=(), plans=in_list(WAITS, RUNS)), False),
    ],
)
async def test_a_call_is_asked_for_again_where_nothing_that_matters_has_happened(
    tmp_path: Path, state: AgentState, again: bool
) -> None:
    found = await ended(tmp_path, state)
    assert [call.call_id for call in found.ended] == ([] if again else ["c1"])
    headless = await ended(tmp_path, state, ends_turn=True)
    assert [call.call_id for call in headless.ended] == ["c1"]
    assert not headless.asks_again


async def test_the_call_of_a_step_is_asked_for_again_by_the_step(tmp_path: Path) -> None:
    state = cut(running_call(step_id=FIX), work=WORK)
    state.messages = [state.messages[0], reply("c1", step_id=FIX)]
    assert (await ended(tmp_path, state)).ended == ()
    state.work = None
    assert len((await ended(tmp_path, state)).ended) == 1


async def test_the_users_no_is_the_result_where_the_app_ended_before_it_was_one(
    tmp_path: Path,
) -> None:
    no = GateAnswer(
        gate_id="gate_1", call_id="c1", args_hash="h", choice=GateChoice.REJECT, reason="not now"
    )
    for answer, outcome in ((no, Outcome.REJECTED), (None, Outcome.STOPPED)):
        state = cut(running_call(gate=ASKED, answer=answer, started=answer is None))
        (call,) = (await ended(tmp_path, state)).ended
        assert (call.result.outcome, call.gate, call.answer) == (outcome, ASKED, answer)
        assert ("not now" in call.result.text) == (answer is not None)
        assert (call.at, call.result.unknown) == (NOW, answer is None)


@pytest.mark.parametrize(
    ("state", "asks"),
    [
        (cut(running_call(), gates=(ASKED,)), True),
        (cut(running_call(started=True), gates=(ASKED,)), False),  # of a call that has ended
        (cut(running_call(), gates=(ASKED,), turn=None), False),
        (cut(asked=(), cards=(plan_card(draft()),)), False),
        (cut(running_call(), cards=(plan_card(draft()),)), True),
        (cut(asked=(), cards=(report_card(report()),), work=WORK), True),
        (cut(asked=(), cards=(budget(),)), True),
        (cut(asked=("c2",), cards=(budget(),)), False),  # its calls are run first
        (cut(asked=(), cards=(budget().replace(step_id=FIX),)), False),
        (cut(asked=(), cards=(budget().replace(step_id=FIX),), work=WORK), True),
        (cut(asked=()), False),
    ],
)
async def test_what_waited_for_the_user_is_asked_again_before_anything_else(
    tmp_path: Path, state: AgentState, asks: bool
) -> None:
    assert (await ended(tmp_path, state)).asks_again is asks
