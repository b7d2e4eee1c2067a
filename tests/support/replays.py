"""Sessions that are recorded to be replayed: played live on the real screen, over real HTTP."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.app_states import DEADLINE, settled
from support.conversations import REPLY, REPLY_JA
from support.journal_events import answered, begun, finished, opened, requested, said, started
from support.plans import draft
from support.prepared import UNTOUCHED
from textual.pilot import Pilot
from textual.widget import Widget

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.places import Places
from duckflow_tui.scripted.stage import open_stage
from duckflow_tui.session.folders import list_places
from duckflow_tui.session.reader import RecordedEvent
from duckflow_tui.session.replay import Tape, load_tape
from duckflow_tui.sessions import Sessions
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event
from duckflow_tui.state.conversation import (
    AssistantMessage,
    AssistantReplied,
    Level,
    NoticeAdded,
    NoticeMessage,
)
from duckflow_tui.state.gates import Card
from duckflow_tui.state.plan_events import PlanProposed
from duckflow_tui.state.turn import TurnInfo, TurnStarted
from duckflow_tui.state.usage import LlmCall, LlmCallFinished
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import ANEW_S
from duckflow_tui.ui.panes.replay_bar import ReplayBar
from duckflow_tui.ui.recorded_session import RecordedSession
from duckflow_tui.ui.replay_player import Player
from duckflow_tui.ui.session_host import AppOptions

START = 1_750_000_000.0  # seconds since the epoch, of the first event
OPTIONS = AppOptions(animation=False, notifications=False, title="little-shop")
BESIDE_THE_FOOT = ("#header", "#all-tabs", "#side", "#talk", "#pill", "#queue", "#status")


@dataclass(slots=True)
class Live:
    """The app on a stage, and a user's hands."""

    app: DuckflowApp
    pilot: Pilot[int]
    cards: list[Card] = field(default_factory=list[Card])  # that were answered

    @property
    def state(self) -> AgentState:
        """What is true."""
        assert self.app.session.engine is not None
        return self.app.session.engine.store.state

    async def until(self, holds: Callable[[AgentState], bool], what: str) -> None:
        """Return once the state is so."""
        await settled(self.pilot, lambda: holds(self.state), what)

    async def say(self, text: str) -> None:
        """Type a message and send it."""
        self.app.bench.composer.replace_text(text)
        await self.pilot.press("enter")
        await self.until(lambda state: state.turn is not None, "the turn")

    async def answer(self, *keys: str) -> None:
        """Turn to the open gate and press these keys once they count."""
        await self.until(lambda state: bool(state.gates), "the gate")
        await settled(self.pilot, lambda: self.app.bench.question.gate is not None, "the card")
        gate = self.app.bench.question.gate
        await self.pilot.press("alt+3")
        await settled(self.pilot, lambda: self.app.bench.question.has_focus, "the focus")
        await self._pressed(keys, lambda: gate not in self.state.gates, "an answer to the gate")

    async def approve_card(self, key: str) -> None:
        """Turn to the open card and press this key until it is answered."""
        question = self.app.bench.question
        await settled(self.pilot, lambda: question.card is not None, "the card")
        card = question.card
        assert card is not None
        self.cards.append(card)
        await self.pilot.press("alt+3")
        await settled(self.pilot, lambda: question.has_focus, "the focus")
        await self._pressed((key,), lambda: card not in self.state.cards, "an answer to the card")

    async def _pressed(self, keys: Sequence[str], done: Callable[[], bool], what: str) -> None:
        """Press these keys until it is done. A key is refused while it could be meant for another
        place, and while rows are unseen.
        """
        end = time.monotonic() + DEADLINE
        while not done():
            focus = self.app.screen.focused
            assert time.monotonic() < end, f"{what} did not come of {keys}; focus: {focus}"
            await self.pilot.press(*keys)
            await self.pilot.pause(1.1 * ANEW_S)  # keys that come close together are a text

    async def approve_all(self) -> None:
        """Say yes to whatever is asked until the turn is over."""
        while True:
            await self.until(lambda s: bool(s.gates or s.cards) or s.turn is None, "a question")
            if self.state.turn is None:
                break
            if self.app.bench.question.card is not None:
                await self.approve_card("y")
            elif self.app.bench.question.gate is not None:
                await self.answer("y")
            await self.pilot.pause(0.05)
        await self.ended()

    async def ended(self) -> None:
        """Return once the turn is over and drawn; every item of the chat has been looked at."""
        await self.until(lambda state: state.turn is None, "the end")
        self.app.bench.to_composer()
        await self.pilot.pause(0.3)
        chat = self.app.bench.talk.transcript
        assert chat is not None
        await settled(self.pilot, lambda: not chat.measure(100), "the whole chat")


@asynccontextmanager
async def live(
    home: Path, *, size: tuple[int, int] = (120, 40), language: str = "en"
) -> AsyncGenerator[tuple[Live, str]]:
    """The real app on the demo's stage, recorded under ``home``; and the demo's request."""
    found = Places.find({"DUCKFLOW_HOME": str(home)})
    async with open_stage(language, fast=True) as stage:
        flags = Flags(
            workspace=stage.workspace,
            base_url=stage.base_url,
            model=stage.model,
            allow=stage.commands,
        )
        sessions = Sessions(choose_session(flags, found, language, UNTOUCHED))
        app = DuckflowApp(sessions, OPTIONS)
        app.action_language(language)
        async with app.run_test(size=size) as pilot:
            await settled(pilot, lambda: not app.session.opening, "the session")
            yield Live(app, pilot), stage.request
        sessions.ending.write_all()


def recorded(home: Path) -> Path:
    """The folder of the only session under this home."""
    (place,) = list_places(Places.find({"DUCKFLOW_HOME": str(home)}).state)
    return place.path


def tape_of(home: Path) -> Tape:
    """What the session under this home recorded."""
    return load_tape(recorded(home))


def seen(widget: Widget) -> list[Any]:
    """What the widget shows, cell for cell: its strips with their colours."""
    return [list(strip) for strip in widget.render_lines(widget.outer_size.region)]


def panes(app: DuckflowApp) -> dict[str, list[Any]]:
    """Every visible widget that draws, but for the composer or the bar in its place."""
    found: dict[str, list[Any]] = {}
    for part in BESIDE_THE_FOOT:
        for top in app.bench.query(part).results(Widget):
            for widget in (top, *top.query("*").results(Widget)):
                if widget.display and widget.region and not widget.is_container:
                    name = f"{part} {widget.css_path_nodes[-1]} {widget.region}"
                    found[name] = seen(widget)
    return found


def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a socket that is not of this machine alone raises."""

    def refused(*args: object, **_: object) -> None:
        raise AssertionError(f"the network was asked for: {args}")

    made = socket.socket.__init__

    def local(self: socket.socket, family: int = -1, *args: Any, **more: Any) -> None:
        if family != socket.AF_UNIX:  # a loop's own pair of pipes
            refused(family)
        made(self, family, *args, **more)

    monkeypatch.setattr(socket.socket, "__init__", local)
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


def replay_app(tape: Tape, *, speed: float = 1.0, playing: bool = False) -> DuckflowApp:
    """The app that shows this tape."""
    return DuckflowApp(None, OPTIONS, player=Player(tape, speed=speed, playing=playing))


def player_of(app: DuckflowApp) -> Player:
    """The player of a replay."""
    assert isinstance(app.session, RecordedSession)
    return app.session.player


def bar_of(app: DuckflowApp) -> ReplayBar:
    """The bar of a replay."""
    assert app.bench.bar is not None
    return app.bench.bar


@asynccontextmanager
async def replaying(
    tape: Tape,
    *,
    size: tuple[int, int] = (120, 40),
    playing: bool = False,
    speed: float = 1.0,
    language: str = "en",
) -> AsyncGenerator[tuple[DuckflowApp, Pilot[int]]]:
    """The replay on the screen."""
    app = replay_app(tape, speed=speed, playing=playing)
    app.action_language(language)
    async with app.run_test(size=size) as pilot:
        await settled(pilot, lambda: not app.session.opening, "the session")
        await pilot.pause()
        yield app, pilot


def tape_with(*timed: tuple[float, Event]) -> Tape:
    """A tape of these events, each at its seconds after the first."""
    return Tape(
        RecordedEvent(seq, START + at, event.model_dump(mode="json"))
        for seq, (at, event) in enumerate(timed, 1)
    )


def call(llm_id: str) -> LlmCallFinished:
    """A call of the main model ended."""
    return LlmCallFinished(
        call=LlmCall(llm_id=llm_id, role="main", purpose="main", endpoint="e", model="m")
    )


def reply(llm_id: str, text: str) -> AssistantReplied:
    """What it replied."""
    message = AssistantMessage(message_id=f"m_{llm_id}", llm_id=llm_id, text=text, at=START)
    return AssistantReplied(message=message)


def story(language: str = "en") -> Tape:
    """A message, a long reply, a gate, an error, a plan: 14 events over two hours."""
    words = REPLY_JA if language == "ja" else REPLY
    error = NoticeMessage(
        message_id="n",
        level=Level.ERROR,
        key="llm.error.connect",
        params={"model": "m", "host": "h", "setting": "base_url", "detail": ""},
        at=START,
    )
    info = TurnInfo(turn_id="t", message_id="msg_00000001", started_at=START)
    timed: list[tuple[float, Event]] = [
        (0, started(workspace="/work/little-shop")),
        (1, said(1, "合計がおかしい" if language == "ja" else "the total is wrong")),
        (1, TurnStarted(turn=info)),
        (20, call("llm_1")),
        (20, reply("llm_1", words)),
        (21, requested("call_1")),
        (21, opened("call_1")),
        (3600, answered("call_1")),
        (3600, begun("call_1")),
        (3601, finished("call_1", "gone", "file_ops.delete_file")),
        (3700, NoticeAdded(message=error)),
        (3800, PlanProposed(plan=draft(language))),
        (3900, said(2, "go on")),
        (7200, reply("llm_2", "The end.")),
    ]
    return tape_with(*timed)
