"""The whole app in each state that a user can meet, at the three sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import goals
from support.app_states import FakeEngine, app_with, settled, store_with
from support.conversations import REPLY, REPLY_JA, START, answer, assistant, live, operation, user
from support.gates import gate
from support.pictures import IDS, LARGE, SIZES
from textual.pilot import Pilot

from duckflow_tui.demo.story import story_requests
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import RunningOperation
from duckflow_tui.state.conversation import Level, NoticeMessage, QueuedMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.pace import VitalChange, Vitals
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import TurnInfo
from duckflow_tui.state.usage import UsageTotals
from duckflow_tui.ui.app import DuckflowApp

ASK = "The total is wrong when two discounts apply. Find out why, fix it, and add a test."
ASK_JA = "割引が二つ重なると合計がおかしくなります。原因を調べて直し、テストも追加してください。"
PATH = {"path": "src/shop/pricing.py"}

Build = Callable[[AgentState, bool], None]


def asked(state: AgentState, ja: bool) -> None:
    state.messages.append(user(ASK_JA if ja else ASK))
    state.phase, state.status = Phase.EXECUTION, Status.IN_PROGRESS
    state.turn = TurnInfo(
        turn_id="turn_1", message_id="u0", loop=4, limit=14, started_at=state.session.started_at
    )
    state.usage = UsageTotals(
        calls=6, tokens_in=90_000, cost=0.03, last_context=42_000, context_window=200_000
    )


def empty(state: AgentState, ja: bool) -> None:
    pass


def streaming(state: AgentState, ja: bool) -> None:
    asked(state, ja)
    state.live["llm9"] = live((REPLY_JA if ja else REPLY)[:90], reasoning="look at the code " * 30)


def operations(state: AgentState, ja: bool) -> None:
    asked(state, ja)
    state.messages.append(assistant(REPLY_JA if ja else REPLY, 1))
    state.messages += [
        operation("file_ops.read_file", PATH, summary="38 lines"),
        operation("file_ops.read_file", {"path": "tests/test_pricing.py"}, summary="52 lines"),
    ]
    state.running = (
        RunningOperation(
            call_id="r1",
            operation="file_ops.search_text",
            args={"pattern": "discount", "path": "src"},
            started=True,
            at=START,
        ),
    )
    state.queue = (QueuedMessage(message_id="q", text="then commit it", at=START),)
    state.vitals = Vitals(
        mood=0.82,
        focus=0.65,
        stamina=0.83,
        history=(
            VitalChange(vital="mood", old=0.7, new=0.76, cause="decision", at=1.0),
            VitalChange(vital="mood", old=0.76, new=0.82, cause="decision", at=2.0),
            VitalChange(vital="focus", old=0.75, new=0.65, cause="repeat", at=3.0),
            VitalChange(
                vital="stamina",
                old=1.0,
                new=0.83,
                cause="loop",
                inputs={"loops": 4, "limit": 14, "failed": 0, "attempt": 1},
                at=4.0,
            ),
        ),
    )


def at_the_gate(state: AgentState, ja: bool) -> None:
    operations(state, ja)
    state.queue = ()
    state.running = (
        RunningOperation(
            call_id="call_00000001", operation="file_ops.edit_file", args=PATH, at=START
        ),
    )
    state.phase, state.status = Phase.AWAITING_APPROVAL, Status.REQUIRES_USER_INPUT
    state.gates = (gate(),)


def rejected(state: AgentState, ja: bool) -> None:
    operations(state, ja)
    state.running, state.queue, state.turn = (), (), None
    reason = "合計のままで" if ja else "keep the sum"
    state.messages += [
        operation(
            "file_ops.edit_file",
            PATH,
            Outcome.REJECTED,
            gate=gate(),
            answer=answer(GateChoice.REJECT, reason=reason),
            seconds=0,
        ),
        assistant("分かりました。合計のままにします。" if ja else "I will keep the sum.", 2),
    ]
    state.phase, state.status = Phase.DONE, Status.SUCCESS


def failed(state: AgentState, ja: bool) -> None:
    asked(state, ja)
    state.turn = None
    state.phase, state.status = Phase.PLANNING, Status.ERROR
    params = {"model": "gpt-5-mini", "host": "127.0.0.1:8000", "setting": "base_url", "detail": ""}
    state.messages.append(
        NoticeMessage(
            message_id="n", level=Level.ERROR, key="llm.error.connect", params=params, at=START
        )
    )


STATES: list[Build] = [empty, streaming, operations, at_the_gate, rejected, failed]


def store_in(build: Build, language: str) -> Store:
    store = store_with()
    build(store.state, language == "ja")
    return store


async def stands(pilot: Pilot[int]) -> None:
    app = pilot.app
    assert isinstance(app, DuckflowApp)
    await settled(pilot, lambda: not app.session.opening)
    await pilot.pause()
    await pilot.pause()


@pytest.mark.parametrize("build", STATES, ids=lambda build: build.__name__)
@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_states_in_english_and_dark(snap_compare: Any, build: Build, size: tuple[int, int]) -> None:
    app = app_with(FakeEngine(store_in(build, "en")))
    assert snap_compare(app, terminal_size=size, run_before=stands)


@pytest.mark.parametrize("build", STATES, ids=lambda build: build.__name__)
def test_states_in_japanese_and_light(snap_compare: Any, build: Build) -> None:
    app = app_with(FakeEngine(store_in(build, "ja")), language="ja", theme="duck-light")
    size = (120, 40) if build in (at_the_gate, empty) else (80, 24)
    assert snap_compare(app, terminal_size=size, run_before=stands)


@pytest.mark.parametrize("build", [streaming, operations, failed], ids=lambda b: b.__name__)
@pytest.mark.parametrize("language", ["en", "ja"])
def test_states_where_there_is_much_room(snap_compare: Any, build: Build, language: str) -> None:
    app = app_with(FakeEngine(store_in(build, language)), language=language)
    assert snap_compare(app, terminal_size=LARGE, run_before=stands)


@pytest.mark.parametrize(
    ("language", "theme", "size"),
    [*(("en", "duck-dark", size) for size in SIZES), ("ja", "duck-light", (80, 24))],
    ids=[*(f"en-duck-dark-{name}" for name in IDS), "ja-duck-light-80x24"],
)
def test_the_first_screen(
    snap_compare: Any, size: tuple[int, int], language: str, theme: str
) -> None:
    app = app_with(None, language=language, theme=theme)
    assert snap_compare(app, terminal_size=size, run_before=stands)


@pytest.mark.parametrize(
    ("keys", "size"),
    [
        (("/",), (80, 24)),
        (("ctrl+p",), (80, 24)),
        (("f1",), (120, 40)),
        (("shift+tab",), (80, 24)),
        (("f5", "enter"), (60, 20)),
        (("ctrl+f", "t", "o"), (80, 24)),
        (("h", "e", "l", "l", "o"), (20, 5)),
    ],
    ids=["commands", "palette", "keys", "trusted", "vitals", "find", "tiny"],
)
def test_what_keys_open(snap_compare: Any, keys: tuple[str, ...], size: tuple[int, int]) -> None:
    app = app_with(FakeEngine(store_in(rejected, "en")))

    async def press(pilot: Pilot[int]) -> None:
        await stands(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await pilot.pause(0.1)

    assert snap_compare(app, terminal_size=size, run_before=press)


def test_high_contrast_at_the_gate(snap_compare: Any) -> None:
    app = app_with(FakeEngine(store_in(at_the_gate, "en")), theme="duck-contrast")

    async def focus_it(pilot: Pilot[int]) -> None:
        await stands(pilot)
        await pilot.press("enter")
        await pilot.pause()

    assert snap_compare(app, terminal_size=(120, 40), run_before=focus_it)


@pytest.mark.parametrize(
    ("language", "theme", "size"),
    [("en", "duck-dark", (120, 40)), ("en", "duck-dark", (40, 12)), ("ja", "duck-light", (60, 20))],
    ids=["en-120x40", "en-40x12", "ja-60x20"],
)
def test_the_stories_of_the_demo(
    snap_compare: Any, size: tuple[int, int], language: str, theme: str
) -> None:
    fake = FakeEngine(store_with(demo=True))
    fake.stories = story_requests(language)
    fake.suggestion = fake.stories["bug"]
    app = app_with(fake, language=language, theme=theme)
    assert snap_compare(app, terminal_size=size, run_before=stands)


def test_where_there_is_much_room(snap_compare: Any) -> None:
    """Beside a gate all requirements stand, where a smaller screen shows the open one."""
    store = store_in(at_the_gate, "en")
    goals.set_objective(store, items=goals.requirements())
    app = app_with(FakeEngine(store))
    assert snap_compare(app, terminal_size=LARGE, run_before=stands)
