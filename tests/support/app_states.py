"""A screen without an engine: states made of events, and a session source that hands them out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

from textual.pilot import Pilot

from duckflow_tui.state.agent import AgentState, SessionInfo, TurnInfo
from duckflow_tui.state.cards import CardAnswer
from duckflow_tui.state.clock import ManualClock
from duckflow_tui.state.events import (
    CardAnswered,
    Event,
    GateAnswered,
    MessageQueued,
    ModeChanged,
    PauseRequested,
    QueueItemChanged,
    QueueItemRemoved,
    SessionStarted,
    TurnResumed,
    TurnStarted,
    UserMessageAdded,
)
from duckflow_tui.state.gates import GateAnswer
from duckflow_tui.state.ids import CountingIds
from duckflow_tui.state.messages import QueuedMessage, UserMessage
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.state.work import PlanEdit
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.bridge import Spawn
from duckflow_tui.ui.session_host import AppOptions

DEADLINE: Final = 20.0  # seconds until a wait has failed


class FakePlan:
    """Remembers what keys asked of the plan; ``problem`` is what it answers."""

    def __init__(self) -> None:
        self.edits: list[PlanEdit] = []
        self.asked: list[tuple[str, str]] = []  # what, step id
        self.problem = ""

    async def edit(self, edits: Sequence[PlanEdit]) -> str:
        self.edits += edits
        return self.problem

    def set_break(self, step_id: str, on: bool) -> str:
        return self._ask("break" if on else "no break", step_id)

    def retry(self, step_id: str) -> str:
        return self._ask("retry", step_id)

    def skip(self, step_id: str) -> str:
        return self._ask("skip", step_id)

    def _ask(self, what: str, step_id: str) -> str:
        self.asked.append((what, step_id))
        return self.problem


class FakeEngine:
    """Does to the Store what the real one does at once, and remembers what it was asked."""

    def __init__(self, store: Store, files: Sequence[str] = ()) -> None:
        self._store = store
        self._ids = CountingIds()
        self._files = list(files)
        self.suggestion = ""
        self.sent: list[str] = []
        self.commands: list[str] = []  # of the user's own
        self.logs: dict[str, str] = {}  # of servers
        self.asked: list[str] = []  # the other intents, by name
        self.answers: list[GateAnswer] = []
        self.card_answers: list[CardAnswer] = []
        self.plan = FakePlan()

    @property
    def store(self) -> Store:
        return self._store

    async def chat_loop(self) -> None:
        await asyncio.Event().wait()

    async def warm(self) -> None:
        self.asked.append("warm")

    async def send(self, text: str, when: Literal["now", "next"] = "next") -> None:
        self.sent.append(text)
        turn = self._store.state.turn
        if turn is not None and when == "now" and turn.pause != "paused":
            aside = UserMessage(
                message_id=self._ids("msg"), text=text, aside=True, at=self._store.clock.now()
            )
            self._store.dispatch(UserMessageAdded(message=aside))
        elif turn is not None:
            message = QueuedMessage(
                message_id=self._ids("msg"), text=text, at=self._store.clock.now()
            )
            self._store.dispatch(MessageQueued(message=message))

    def take_back(self, message_id: str) -> str | None:
        for message in self._store.state.queue:
            if message.message_id == message_id:
                self._store.dispatch(QueueItemRemoved(message_id=message_id))
                return message.text
        return None

    def change_queued(self, message_id: str, text: str) -> bool:
        if all(message.message_id != message_id for message in self._store.state.queue):
            return False
        self._store.dispatch(QueueItemChanged(message_id=message_id, text=text))
        return True

    async def run_command(self, text: str) -> None:
        self.commands.append(text)

    async def end_process(self, process_id: str) -> bool:
        self.asked.append(f"end {process_id}")
        return True

    async def start_server(self, name: str) -> None:
        self.asked.append(f"start {name}")

    async def stop_server(self, name: str) -> None:
        self.asked.append(f"stop {name}")

    async def restart_server(self, name: str) -> None:
        self.asked.append(f"restart {name}")

    async def server_log(self, name: str) -> str:
        return self.logs.get(name, "")

    async def retry(self) -> bool:
        self.asked.append("retry")
        return False

    async def answer_gate(self, answer: GateAnswer) -> None:
        self.answers.append(answer)
        self._store.dispatch(GateAnswered(answer=answer))

    async def answer_card(self, answer: CardAnswer) -> None:
        self._store.dispatch(
            CardAnswered(answer=answer, message_id=self._ids("msg"), at=self._store.clock.now())
        )
        self.card_answers.append(answer)

    def proposed_text(self, gate_id: str) -> str | None:
        return None

    def set_mode(self, mode: ApprovalMode) -> None:
        self._store.dispatch(ModeChanged(mode=mode))

    def pause(self) -> None:
        self.asked.append("pause")
        self._store.dispatch(PauseRequested())

    def resume(self) -> None:
        self.asked.append("resume")
        if self._store.state.turn is not None:
            self._store.dispatch(TurnResumed())

    def stop(self) -> None:
        self.asked.append("stop")

    async def undo(self) -> None:
        self.asked.append("undo")

    async def workspace_files(self) -> AsyncGenerator[list[str], None]:
        yield self._files


class FakeSessions:
    """Hands out one engine, or none; ``gate`` holds it back until it is set."""

    def __init__(self, engine: FakeEngine | None, *, held: asyncio.Event | None = None) -> None:
        self.engine = engine
        self.held = held
        self.demos = 0
        self.unconfirmed_origin = ""
        self.confirmed = 0
        self.closed = False

    def confirm_origin(self) -> None:
        self.confirmed += 1

    async def close(self) -> None:
        self.closed = True

    async def open(self, spawn: Spawn) -> FakeEngine | None:
        if self.held is not None:
            await self.held.wait()
        return self.engine

    async def open_demo(self, spawn: Spawn) -> FakeEngine:
        self.demos += 1
        return FakeEngine(store_with(demo=True))


def store_with(*events: Event, demo: bool = False, started: bool = True) -> Store:
    """A Store on a clock that stands still, with a session and these events in it."""
    clock = ManualClock()
    store = Store(AgentState(), clock, MemoryRecorder())
    if started:
        session = SessionInfo(
            session_id="session_00000001",
            workspace="/work/little-shop",
            title="little-shop",
            demo=demo,
            started_at=clock.now(),
            model="gpt-5-mini",
            endpoint="local",
        )
        store.dispatch(
            SessionStarted(session=session, mode=ApprovalMode.STANDARD, context_window=200_000)
        )
    for event in events:
        store.dispatch(event)
    return store


def turn_started(loop: int = 1) -> TurnStarted:
    """A turn in its loop ``loop`` of 14, at the first attempt of three."""
    return TurnStarted(
        turn=TurnInfo(
            turn_id="turn_00000001",
            message_id="msg_00000001",
            loop=loop,
            limit=14,
            started_at=ManualClock().now(),
        )
    )


def app_with(
    engine: FakeEngine | None,
    *,
    language: str = "en",
    theme: str = "duck-dark",
    data_dir: Path | None = None,
    held: asyncio.Event | None = None,
) -> DuckflowApp:
    """The app on a fake session; nothing moves and the clock stands still."""
    options = AppOptions(
        language=language,
        theme=theme,
        animation=False,
        title="little-shop",
        settings_path="~/.config/duckflow/settings.toml",
        data_dir=data_dir,
    )
    clock = engine.store.clock if engine is not None else ManualClock()
    return DuckflowApp(FakeSessions(engine, held=held), options, clock=clock)


async def settled(pilot: Pilot[int], holds: Callable[[], bool], what: str = "it") -> None:
    """Return once it holds; fails after ``DEADLINE`` seconds."""
    end = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come")
        await pilot.pause(0.01)


@asynccontextmanager
async def standing(
    app: DuckflowApp, width: int = 120, height: int = 40
) -> AsyncGenerator[Pilot[int]]:
    """The app with its session open."""
    async with app.run_test(size=(width, height)) as pilot:
        await settled(pilot, lambda: not app.opening, "the session")
        await pilot.pause()
        yield pilot
