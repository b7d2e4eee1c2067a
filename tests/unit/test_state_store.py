"""The Store: order, atomicity, watchers, recording."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.pinned import ManualClock

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import KINDS, Event, StateError, event_from_json
from duckflow_tui.state.conversation import (
    MessageQueued,
    QueuedMessage,
    QueueItemRemoved,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.phase import Status, StatusChanged
from duckflow_tui.state.session import ModeChanged, SessionInfo, SessionStarted
from duckflow_tui.state.store import MemoryRecorder, Record, Store
from duckflow_tui.state.usage import LlmCallStarted, ReplyDelta


def make_store() -> tuple[Store, MemoryRecorder]:
    recorder = MemoryRecorder()
    return Store(AgentState(), ManualClock(), recorder), recorder


def said(text: str) -> UserMessageAdded:
    return UserMessageAdded(message=UserMessage(message_id=f"msg_{text}", text=text, at=1.0))


def test_an_event_changes_the_state_before_it_is_recorded_and_told() -> None:
    """One owner of the state, told at once: Covers S4-33."""
    store, recorder = make_store()
    seen: list[tuple[ApprovalMode, int]] = []
    store.subscribe(lambda state, record: seen.append((state.mode, len(recorder.records))))
    store.dispatch(ModeChanged(mode=ApprovalMode.PLAN, at=0.0))
    assert seen == [(ApprovalMode.PLAN, 1)]


def test_a_refused_event_changes_and_records_nothing() -> None:
    store, recorder = make_store()
    with pytest.raises(StateError):
        store.dispatch(QueueItemRemoved(message_id="msg_none"))
    assert recorder.records == []
    store.dispatch(said("a"))
    assert [r.seq for r in recorder.records] == [1]


def test_transient_events_are_told_but_not_recorded() -> None:
    store, recorder = make_store()
    told: list[Record] = []
    store.subscribe(lambda state, record: told.append(record))
    store.dispatch(LlmCallStarted(llm_id="llm_1", purpose="main", at=0.0))
    store.dispatch(ReplyDelta(llm_id="llm_1", text="hel", at=0.1))
    store.dispatch(said("a"))
    assert [r.event.kind for r in recorder.records] == ["user_message"]
    assert [r.seq for r in told] == [None, None, 1]
    assert "".join(store.state.live["llm_1"].text) == "hel"


def test_a_dispatch_from_a_watcher_waits_until_every_watcher_heard_the_first() -> None:
    store, _ = make_store()
    heard: list[str] = []

    def first(state: AgentState, record: Record) -> None:
        heard.append(f"first {record.event.kind}")
        if isinstance(record.event, ModeChanged):
            store.dispatch(StatusChanged(status=Status.ERROR))

    store.subscribe(first)
    store.subscribe(lambda state, record: heard.append(f"second {record.event.kind}"))
    store.dispatch(ModeChanged(mode=ApprovalMode.STRICT, at=0.0))
    assert heard == [
        "first mode_changed",
        "second mode_changed",
        "first status_changed",
        "second status_changed",
    ]


def test_a_watcher_that_breaks_does_not_keep_others_from_hearing() -> None:
    store, _ = make_store()
    heard: list[str] = []

    def broken(state: AgentState, record: Record) -> None:
        raise RuntimeError("view")

    store.subscribe(broken)
    store.subscribe(lambda state, record: heard.append(record.event.kind))
    store.dispatch(said("a"))
    assert heard == ["user_message"]


def test_a_refused_dispatch_from_a_watcher_does_not_reach_the_first_caller() -> None:
    store, _ = make_store()

    def nested(state: AgentState, record: Record) -> None:
        if isinstance(record.event, UserMessageAdded):
            store.dispatch(QueueItemRemoved(message_id="none"))
            store.dispatch(StatusChanged(status=Status.ERROR))

    store.subscribe(nested)
    store.dispatch(said("a"))
    assert store.state.status is Status.ERROR


def test_a_watcher_sees_the_state_as_each_event_left_it_until_it_unsubscribes() -> None:
    """Never a stale one: Covers S4-34."""
    store, _ = make_store()
    seen: list[int] = []
    forget = store.subscribe(lambda state, record: seen.append(len(state.queue)))
    store.dispatch(ModeChanged(mode=ApprovalMode.PLAN, at=0.0))
    queued = QueuedMessage(message_id="m", text="later", at=0.0)
    store.dispatch(MessageQueued(message=queued))
    assert seen == [0, 1]
    forget()
    store.dispatch(QueueItemRemoved(message_id="m"))
    assert seen == [0, 1]


async def test_commit_returns_only_after_the_recorder_has_flushed() -> None:
    order: list[str] = []

    class Slow(MemoryRecorder):
        async def wait_until_flushed(self, seq: int) -> None:
            order.append(f"flushed {seq}")

    store = Store(AgentState(), ManualClock(), Slow())
    await store.commit(said("a"))
    order.append("returned")
    assert order == ["flushed 1", "returned"]


def test_every_recorded_event_reads_back_as_itself() -> None:
    store, recorder = make_store()
    store.dispatch(
        SessionStarted(
            session=SessionInfo(session_id="session_1", workspace="/w", title="w"),
            mode=ApprovalMode.STANDARD,
        )
    )
    store.dispatch(said("日本語 \x1b]0;x"))
    again = AgentState()
    for record in recorder.records:
        line = record.as_json()
        fields = {k: v for k, v in line.items() if k not in ("seq", "at")}
        event = event_from_json(fields)
        assert event == record.event
        event.apply(again)
    assert again.messages == store.state.messages
    assert again.session == store.state.session


def test_an_event_is_known_by_its_kind_and_no_two_share_one() -> None:
    assert all(cls.model_fields["kind"].default == kind for kind, cls in KINDS.items())
    assert len(KINDS) > 70
    with pytest.raises(TypeError, match="notice"):

        class Another(Event, kind="notice"):  # pyright: ignore[reportUnusedClass]  # defining it acts
            pass


def test_what_is_no_event_of_this_program_is_refused() -> None:
    for fields in ({"kind": "nonsense"}, {"kind": ["notice"]}, {}, {"kind": "draft", "more": 1}):
        with pytest.raises(ValidationError):
            event_from_json(fields)


def test_a_nested_event_that_breaks_holds_no_later_event_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(ModeChanged):
        def apply(self, state: AgentState) -> None:
            raise ZeroDivisionError("a mistake in an event")

    store = Store(AgentState(), ManualClock(), MemoryRecorder())
    broken = Broken.model_construct(kind="mode_changed", mode=ApprovalMode.PLAN)

    def answer(state: AgentState, record: Record) -> None:
        if record.event == ModeChanged(mode=ApprovalMode.STRICT, at=0.0):
            store.dispatch(broken)

    store.subscribe(answer)
    store.dispatch(ModeChanged(mode=ApprovalMode.STRICT, at=0.0))
    store.dispatch(ModeChanged(mode=ApprovalMode.TRUSTED, at=0.0))
    assert store.state.mode is ApprovalMode.TRUSTED
    assert "a mistake in an event" in caplog.text
