"""A screen without an engine: states made of events, and a session source that hands them out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from support.pinned import CountingIds, ManualClock
from support.screens import key_waits, stands
from textual.pilot import Pilot

from duckflow_tui.engine import TitleActions, WorkingActions
from duckflow_tui.safety.secrets import Redactor
from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.rewind import file_names, point_at
from duckflow_tui.session.rewind_actions import Forked, Hindrance
from duckflow_tui.sessions import Sessions
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock, Event, LocalizedText, Spawn
from duckflow_tui.state.conversation import (
    Level,
    MessageQueued,
    NoticeMessage,
    QueuedMessage,
    QueueItemChanged,
    QueueItemRemoved,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.gates import (
    CardAnswer,
    CardAnswered,
    DraftRemarks,
    FilePreview,
    GateAnswer,
    GateAnswered,
    Remark,
)
from duckflow_tui.state.memory import CompactionUndone
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.pace import LimitExtended, ProfileChosen, TaskProfile
from duckflow_tui.state.plan import PlanEdit
from duckflow_tui.state.rewind import ConversationRewound, RewindUndone, WorkSnapshot
from duckflow_tui.state.session import (
    ModeChanged,
    RemarksSaved,
    SessionInfo,
    SessionStarted,
)
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.state.turn import PauseRequested, TurnInfo, TurnResumed, TurnStarted
from duckflow_tui.tools.memory import MemoryFault, MemoryKind, MemoryLine
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.panes.status import VitalsPlace
from duckflow_tui.ui.session_host import AppOptions
from duckflow_tui.work.compaction import Undo
from duckflow_tui.work.requests import SentPart
from duckflow_tui.work.requirements import LedgerActions

DEADLINE: Final = 30.0  # seconds until a wait has failed


class FakePlan:
    """Remembers what keys asked of the plan; ``problem`` is what it answers."""

    def __init__(self) -> None:
        self.edits: list[PlanEdit] = []
        self.asked: list[tuple[str, str]] = []  # what, step id
        self.problem: LocalizedText | None = None

    async def edit_steps(self, edits: Sequence[PlanEdit]) -> LocalizedText | None:
        self.edits += edits
        return self.problem

    def set_break(self, step_id: str, on: bool) -> LocalizedText | None:
        return self._ask("break" if on else "no break", step_id)

    def retry_step(self, step_id: str) -> LocalizedText | None:
        return self._ask("retry", step_id)

    def skip_step(self, step_id: str) -> LocalizedText | None:
        return self._ask("skip", step_id)

    def close_plan(self, plan_id: str, *, delete: bool = False) -> LocalizedText | None:
        return self._ask("delete" if delete else "close", plan_id)

    def activate_plan(self, plan_id: str) -> LocalizedText | None:
        return self._ask("activate", plan_id)

    def _ask(self, what: str, step_id: str) -> LocalizedText | None:
        self.asked.append((what, step_id))
        return self.problem


class FakePace:
    """Does to the Store what the pacemaker's keys do."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def choose_profile(self, profile: TaskProfile | None) -> None:
        self._store.dispatch(ProfileChosen(profile=profile))

    def extend_limit(self, by: int = 5) -> None:
        self._store.dispatch(LimitExtended(by=by))


class FakeMemory:
    """Notes without a file; ``fault`` refuses every change."""

    def __init__(self) -> None:
        self.path = "~/.local/share/duckflow/memory/little-shop-0123456789ab.md"
        self.noted: list[MemoryLine] = []
        self.fault: MemoryFault | None = None
        self.asked: list[str] = []
        self.notes = self  # as ``engine.MemoryActions`` has those of the project

    async def list_lines(self) -> tuple[MemoryLine, ...]:
        return tuple(self.noted)

    async def add_line(self, text: str, kind: MemoryKind = "preference") -> MemoryFault | None:
        if self.fault is None:
            self.noted.append(MemoryLine(len(self.noted), kind, text, "2025-06-15", f"- {text}"))
        return self.fault

    async def remove_line(self, line: MemoryLine) -> MemoryFault | None:
        if self.fault is None:
            self.noted.remove(line)
        return self.fault

    async def create_file(self) -> MemoryFault | None:
        self.asked.append("begin")
        return self.fault

    async def reread(self) -> None:
        self.asked.append("reread")


class FakeContext:
    """The window of the model under the user's keys; remembers what it was asked."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.texts: dict[str, tuple[SentPart, ...]] = {}  # of requests, by id
        self.asked: list[str] = []
        self.problem = ""
        self.no_undo: Undo = ""

    def count_freeable(self) -> int:
        return 8_100

    def list_sent_parts(self, llm_id: str) -> tuple[SentPart, ...] | None:
        return self.texts.get(llm_id)

    async def read_whole_result(self, call_id: str) -> str | None:
        self.asked.append(f"whole {call_id}")
        return None

    async def compact_by_hand(self, hint: str = "") -> str:
        self.asked.append(f"compact {hint}".strip())
        return self.problem

    async def undo_compaction(self, compaction_id: str = "") -> tuple[Undo, dict[str, str]]:
        self.asked.append(f"undo {compaction_id}".strip())
        newest = self.store.state.compaction
        if not self.no_undo and newest is not None:
            self.store.dispatch(CompactionUndone(compaction_id=newest.compaction_id))
        return self.no_undo, {"tokens": "30,000", "room": "20,000"}


class FakeRewind:
    """Goes back in the Store at once; remembers what it was asked. ``problem`` refuses it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[str] = []
        self.problem: Hindrance = ""
        self.stuck: tuple[str, ...] = ()  # files that cannot be put back

    async def go_back(self, message_id: str, draft: str = "", *, files: bool = False) -> Hindrance:
        self.asked.append(f"{'back with files' if files else 'back'} {message_id}")
        point = point_at(self.store.state, message_id)
        if not self.problem and point is not None:
            text, names = point.text, file_names(point.changes)
            said = {"said": text, "count": str(point.messages)}
            told = [("rewind.back", Level.INFO, said)]
            if names and not files:
                told.append(("rewind.files", Level.WARNING, {"files": names}))
            self.store.dispatch(
                ConversationRewound(
                    message_id=message_id,
                    standing=WorkSnapshot(),
                    turns=0,
                    draft=f"{text}\n{draft}" if draft else text,
                    notices=tuple(
                        NoticeMessage(
                            message_id=f"n{n}", key=key, level=level, params=params, at=point.at
                        )
                        for n, (key, level, params) in enumerate(told)
                    ),
                )
            )
        return self.problem

    async def undo_rewind(self) -> Hindrance:
        self.asked.append("undo")
        rewound = self.store.state.rewound
        if not self.problem and rewound is not None:
            self.store.dispatch(RewindUndone(message_id=rewound.message_id))
        return self.problem

    async def undo_files(self, message_id: str) -> Hindrance:
        self.asked.append(f"files {message_id}")
        return self.problem

    async def list_conflicts(self, message_id: str) -> tuple[str, ...]:
        return self.stuck

    async def fork(self, message_id: str = "", draft: str = "") -> Forked:
        self.asked.append(f"fork {message_id}".strip())
        return Forked("session_0000000f", self.problem)


@dataclass(frozen=True, slots=True)
class FakeServers:
    """Remembers what it was asked."""

    logs: dict[str, str]
    asked: list[str]

    async def start(self, name: str) -> None:
        self.asked.append(f"start {name}")

    async def stop(self, name: str) -> None:
        self.asked.append(f"stop {name}")

    async def restart(self, name: str) -> None:
        self.asked.append(f"restart {name}")

    async def newest_log_lines(self, name: str) -> str:
        return self.logs.get(name, "")


class FakeEngine:
    """Does to the Store what the real one does at once, and remembers what it was asked."""

    def __init__(self, store: Store, files: Sequence[str] = ()) -> None:
        self._store = store
        self._ids = CountingIds()
        self._files = list(files)
        self.suggestion = ""
        self.branch = ""
        self.stories: dict[str, str] = {}
        self.previews: tuple[FilePreview, ...] = ()  # of the session's diff
        self.uncovered = ""  # a command of which that does not know
        self.sent: list[str] = []
        self.quoted: list[bool] = []  # of each that was sent
        self.commands: list[str] = []  # of the user's own
        self.logs: dict[str, str] = {}  # of servers
        self.asked: list[str] = []  # the other intents, by name
        self.models = None  # none was listed
        self.servers = FakeServers(self.logs, self.asked)
        self.drafts: list[str] = []  # what was to be kept
        self.answers: list[GateAnswer] = []
        self.card_answers: list[CardAnswer] = []
        self.plan = FakePlan()
        self.pace = FakePace(store)
        self.ledger = LedgerActions(store)
        self.context = FakeContext(store)
        self.rewind = FakeRewind(store)
        self.memory = FakeMemory()
        self.title = TitleActions(store)
        self.working = WorkingActions(store)

    @property
    def store(self) -> Store:
        return self._store

    async def chat_loop(self) -> None:
        await asyncio.Event().wait()

    async def read_branch(self) -> str:
        return self.branch

    async def load_lazily(self) -> None:
        self.asked.append("warm")

    async def send(
        self, text: str, when: Literal["now", "next"] = "next", *, quoted: bool = False
    ) -> None:
        self.sent.append(text)
        self.quoted.append(quoted)
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

    def lend_terminal(self, lend: object) -> None:
        """It runs nothing on a terminal."""

    async def run_command(self, text: str) -> None:
        self.commands.append(text)

    async def session_diff(self) -> tuple[tuple[FilePreview, ...], str]:
        return self.previews, self.uncovered

    async def end_process(self, process_id: str) -> bool:
        self.asked.append(f"end {process_id}")
        return True

    async def retry(self) -> bool:
        self.asked.append("retry")
        return False

    async def answer_gate(self, answer: GateAnswer) -> None:
        self.answers.append(answer)
        self._store.dispatch(GateAnswered(answer=answer, at=0.0))

    async def answer_card(self, answer: CardAnswer) -> None:
        self._store.dispatch(
            CardAnswered(answer=answer, message_id=self._ids("msg"), at=self._store.clock.now())
        )
        self.card_answers.append(answer)

    def proposed_text(self, gate_id: str) -> str | None:
        return None

    def keep_draft(self, text: str) -> None:
        self.drafts.append(text)

    def keep_remarks(self, about: str, remarks: tuple[Remark, ...]) -> None:
        kept = DraftRemarks(about=about, remarks=remarks) if remarks else DraftRemarks()
        self._store.dispatch(RemarksSaved(kept=kept))

    def set_mode(self, mode: ApprovalMode) -> None:
        self._store.dispatch(ModeChanged(mode=mode, at=0.0))

    def pause(self) -> None:
        self.asked.append("pause")
        self._store.dispatch(PauseRequested())

    def resume(self) -> None:
        self.asked.append("resume")
        if self._store.state.turn is not None:
            self._store.dispatch(TurnResumed(at=self._store.clock.now()))

    def stop(self) -> None:
        self.asked.append("stop")

    async def undo(self) -> None:
        self.asked.append("undo")

    async def workspace_files(self) -> AsyncGenerator[list[str], None]:
        yield self._files


class FakeSessions:
    """Hands out one engine, or none; ``gate`` holds it back until it is set."""

    def __init__(
        self,
        engine: FakeEngine | None,
        *,
        held: asyncio.Event | None = None,
        catalog: Catalog | None = None,
        folder: Path | None = None,
    ) -> None:
        self.engine = engine
        self.held = held
        self.catalog = catalog or Catalog(Path("/nowhere/state"))
        self.folder = folder
        self.other: FakeEngine | None = None  # what opening another comes to
        self.fault: SessionFault | OSError | None = None  # or what keeps it from that
        self.breaks: OSError | None = None  # what keeps the first one from being opened
        self.resumed: list[str] = []
        self.demos = 0
        self.unconfirmed_origin = ""
        self.missing = ""
        self.ports: tuple[int, ...] = ()
        self.confirmed = 0
        self.closed = False
        self.frozen = False

    def confirm_origin(self) -> None:
        self.confirmed += 1

    def redact(self, text: str) -> str:
        return Redactor().redact_text(text)

    async def close(self) -> None:
        self.closed = True

    def freeze(self) -> None:
        self.frozen = True

    async def open(self, spawn: Spawn) -> FakeEngine | None:
        if self.held is not None:
            await self.held.wait()
        if self.breaks is not None:
            raise self.breaks
        return self.engine

    def choose_resumed(self, session_id: str) -> None:
        self.resumed.append(session_id)

    async def open_resumed(self, session_id: str, spawn: Spawn) -> FakeEngine:
        if self.fault is not None:
            raise self.fault
        assert self.other is not None
        self.resumed.append(session_id)
        return self.other

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
    vitals: VitalsPlace = "auto",
    catalog: Catalog | None = None,
    folder: Path | None = None,
    choose: bool = False,
) -> DuckflowApp:
    """The app on a fake session; nothing moves and the clock stands still."""
    options = AppOptions(
        language=language,
        theme=theme,
        vitals=vitals,
        animation=False,
        title="little-shop",
        settings_path="~/.config/duckflow/settings.toml",
        data_dir=data_dir,
        workspace="/work/little-shop",
        choose=choose,
    )
    clock = engine.store.clock if engine is not None else ManualClock()
    sessions = FakeSessions(engine, held=held, catalog=catalog, folder=folder)
    return app_on(sessions, options, clock)


def app_on(
    sessions: FakeSessions, options: AppOptions | None = None, clock: Clock | None = None
) -> DuckflowApp:
    """The app where these come from."""
    return DuckflowApp(cast("Sessions", sessions), options, clock=clock)


async def settled(pilot: Pilot[Any], holds: Callable[[], bool], what: str = "it") -> None:
    """Return once it holds; fails after ``DEADLINE`` seconds. What takes long is looked at less and
    less often, since each look visits every widget; so is what is itself long to look at.
    """
    began = time.monotonic()
    end = began + DEADLINE
    delay = 0.01
    while not holds():
        if (looked := time.monotonic()) > end:
            raise AssertionError(f"{what} did not come")
        await pilot.pause(max(delay, min(3 * (looked - began), 0.2)))
        began = time.monotonic()
        delay = min(1.3 * delay, 0.05)


async def commanded(pilot: Pilot[int], text: str) -> None:
    """Put the text into the composer at once and send it."""
    app = pilot.app
    assert isinstance(app, DuckflowApp)
    app.bench.composer.replace_text(text)
    await pilot.press("enter")


async def asked(pilot: Pilot[int]) -> DuckflowApp:
    """Return once the screen asks what the state asks, which it does a frame later, and the
    composer has the focus: until then Enter does not go there.
    """
    app = pilot.app
    assert isinstance(app, DuckflowApp)
    bench = app.bench

    def shown() -> bool:
        assert app.session.store is not None
        state = app.session.store.state
        return bench.question.asked in (*state.gates, *state.cards)

    await settled(pilot, lambda: shown() and bench.focused is bench.composer, "a question")
    return app


async def at_question(pilot: Pilot[int]) -> DuckflowApp:
    """The user has gone to what is asked, and the time in which keys are ignored is over."""
    app = await asked(pilot)
    await pilot.press("enter")
    await settled(pilot, lambda: app.bench.focused is app.bench.talk.open_question, "the focus")
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(SETTLE_S)
    return app


async def press_alone(pilot: Pilot[int], *keys: str) -> None:
    """Press each key by itself, so that it has acted, and its result is drawn, before the next."""
    app = pilot.app
    for key in keys:
        await pilot.press(key)
        await settled(pilot, lambda: not key_waits(app) and stands(app.screen), f"what {key} does")


@asynccontextmanager
async def standing(
    app: DuckflowApp, width: int = 120, height: int = 40
) -> AsyncGenerator[Pilot[int]]:
    """The app with its session open."""
    async with app.run_test(size=(width, height)) as pilot:
        await settled(pilot, lambda: not app.session.opening, "the session")
        await pilot.pause()
        yield pilot


async def stand(pilot: Pilot[int]) -> DuckflowApp:
    """The app once its session is open and drawn."""
    app = pilot.app
    assert isinstance(app, DuckflowApp)
    await settled(pilot, lambda: not app.session.opening)
    for _ in range(3):
        await pilot.pause()
    return app


def pressing(*keys: str) -> Callable[[Pilot[int]], Any]:
    """Stand, then press the keys with the time between them that a card wants."""

    async def press(pilot: Pilot[int]) -> None:
        app = await stand(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.clock, ManualClock)
            app.clock.advance(SETTLE_S)
        for _ in range(3):
            await pilot.pause()

    return press
