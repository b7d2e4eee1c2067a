"""Header, status line, vitals, plan: what they say of a state."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from support.app_states import FakeEngine, app_with, settled, standing, store_with, turn_started
from support.conversations import operation
from support.gates import gate
from support.pinned import ManualClock
from support.plans import working

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event
from duckflow_tui.state.calls import ChangesRedone, ChangesUndone
from duckflow_tui.state.gates import GateOpened
from duckflow_tui.state.operations import FileChange
from duckflow_tui.state.pace import VitalChange, VitalsChanged
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.plan import Plan, PlanStatus, Step, WorkStatus
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.state.turn import PauseRequested, TurnFinished, TurnOutcome, TurnSummary
from duckflow_tui.state.usage import (
    LlmCall,
    LlmCallDropped,
    LlmCallFinished,
    LlmCallStarted,
    ReplyDelta,
)
from duckflow_tui.ui import first_frame
from duckflow_tui.ui.bridge import FRAME, Bridge
from duckflow_tui.ui.fuzzy import Sieve
from duckflow_tui.ui.layout import first_frame_column, layout_for
from duckflow_tui.ui.panes.status import short_count
from duckflow_tui.words.catalogue import Catalogue


def shown(widget: Any) -> str:
    lines = widget.render_lines(widget.outer_size.region)
    return "\n".join(strip.text.rstrip() for strip in lines)


def call(**fields: Any) -> LlmCallFinished:
    values: dict[str, Any] = {
        "llm_id": "llm_1",
        "role": "main",
        "purpose": "main",
        "endpoint": "local",
        "model": "gpt-5-mini",
        "tokens_in": 42_000,
        "cost": 0.03,
    }
    return LlmCallFinished(call=LlmCall(**(values | fields)))


@pytest.mark.parametrize("language", ["en", "ja"])
def test_each_phase_and_status_has_words(language: str) -> None:
    """Covers S4-30."""
    words = Catalogue(language)
    for phase, status in product(Phase, Status):
        key = f"header.status.{phase}.{status}"
        assert words(key) != key


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("outcome", get_args(TurnOutcome))
async def test_the_header_says_how_the_turn_ended(language: str, outcome: TurnOutcome) -> None:
    """Until the next one begins. Covers S4-108."""
    store = store_with(turn_started())
    app = app_with(FakeEngine(store), language=language)
    async with standing(app):
        ready = Catalogue(language)("header.status.IDLE.SUCCESS")
        assert ready in shown(app.bench.header)
        store.dispatch(TurnFinished(turn_id="turn_00000001", outcome=outcome))
        app.bench.header.show(store.state)
        assert shown(app.bench.header).endswith(Catalogue(language)(f"header.ended.{outcome}"))
        store.dispatch(turn_started())
        app.bench.header.show(store.state)
        assert ready in shown(app.bench.header)


async def test_a_turn_whose_change_was_taken_back_is_not_called_finished() -> None:
    """Until it is made again; that an earlier turn's was, says nothing of the last one."""
    store = store_with(turn_started())
    app = app_with(FakeEngine(store))
    change = FileChange(path="a.py", kind="modify")
    message = operation("file_ops.edit_file", {}, changes=(change,))
    async with standing(app) as pilot:

        async def says(words: str, *events: Event) -> None:
            for event in events:
                store.dispatch(event)
            await settled(pilot, lambda: shown(app.bench.header).endswith(words), words)

        store.state.messages.append(message)
        await says("· finished", TurnFinished(turn_id="turn_00000001", outcome="done"))
        undone = ChangesUndone(call_id=message.call_id, changes=(change,))
        await says("· changes undone", undone)
        await says("· finished", ChangesRedone(call_id=message.call_id, changes=(change,)))
        await says("· changes undone", undone)
        await says("loop 1/14", turn_started())
        await says("· finished", TurnFinished(turn_id="turn_00000001", outcome="done"))


async def test_an_answer_beside_work_that_has_ended_is_said_to_go_on() -> None:
    store = store_with()
    state = store.state
    state.phase, state.last_turn = Phase.DONE, TurnSummary(turn_id="t", outcome="done")
    app = app_with(FakeEngine(store))
    async with standing(app) as pilot:
        assert shown(app.bench.header).endswith("finished")
        begun = LlmCallStarted(llm_id="l", purpose="main", at=1.0, aside=True)
        store.dispatch(begun)
        await settled(pilot, lambda: "still answering you" in shown(app.bench.header))
        store.dispatch(LlmCallDropped(llm_id="l"))
        await settled(pilot, lambda: shown(app.bench.header).endswith("finished"))


async def test_the_header_tells_phase_attempt_and_loop() -> None:
    app = app_with(FakeEngine(store_with(turn_started(loop=4))))
    async with standing(app):
        text = shown(app.bench.header)
    assert text.startswith("  duckflow   little-shop   gpt-5-mini")
    assert text.endswith("IDLE · ready   attempt 1/3   loop 4/14")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 119])
async def test_the_header_gives_up_what_matters_least(width: int) -> None:
    app = app_with(FakeEngine(store_with(turn_started(loop=4), PauseRequested())))
    async with standing(app, width, 24):
        text = shown(app.bench.header)
    assert "duckflow" in text
    assert width < 40 or "pausing" in text
    assert width < 80 or all(name in text for name in ("mood", "focus", "stamina"))
    assert not text.endswith("…")


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("demo", [False, True])
async def test_the_header_keeps_the_gauges_in_every_phase(language: str, demo: bool) -> None:
    """ui.md: 80 to 119 columns, vitals stay as three short gauges in the header."""
    store = store_with(turn_started(loop=4), demo=demo)
    app = app_with(FakeEngine(store), language=language)
    words = Catalogue(language)
    async with standing(app, 80, 24):
        for phase, status in product(Phase, Status):
            store.state.phase, store.state.status = phase, status
            app.bench.header.show(store.state)
            text = shown(app.bench.header)
            assert all(words(f"vitals.{name}") in text for name in ("mood", "focus", "stamina"))
            assert words(f"header.phase.{phase.value}") in text
            assert (words("pane.demo").split(" · ")[0] in text) is demo


async def test_the_status_line_says_what_was_used() -> None:
    app = app_with(FakeEngine(store_with(call(), call())))
    async with standing(app):
        assert shown(app.bench.status).split("   ")[:3] == [
            " ctx 42k/200k 21 %",
            "2 calls  $0.06",
            "standard",
        ]


async def test_an_estimate_is_marked_and_an_unknown_cost_is_not_shown() -> None:
    app = app_with(FakeEngine(store_with(call(estimated=True, cost=None))))
    async with standing(app):
        text = shown(app.bench.status)
    assert "ctx ~42k/200k ~21 %" in text
    assert "1 call " in text
    assert "$" not in text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (4_210, "4.2k"),
        (42_000, "42k"),
        (999_499, "999k"),
        (1_300_000, "1.3M"),
    ],
)
def test_counts_are_short(count: int, text: str) -> None:
    assert short_count(count) == text


async def test_vitals_start_without_evidence_and_tell_why() -> None:
    """Covers S0-11, S0-44."""
    fake = FakeEngine(store_with())
    app = app_with(fake)
    async with standing(app, 160, 60) as pilot:
        assert shown(app.bench.vitals).count("no evidence yet") == 3
        await pilot.press("f5")
        await settled(pilot, lambda: app.bench.focused is app.bench.vitals)
        await pilot.press("enter")
        await pilot.pause()
        assert "Inputs so far: none." in shown(app.bench.vitals)
        assert "How sure the AI is of its plan." in shown(app.bench.vitals)
        change = VitalChange(vital="focus", old=0.75, new=0.65, cause="repeat", at=1.0)
        fake.store.dispatch(VitalsChanged(change=change))
        await settled(pilot, lambda: "0.75 → 0.65  one repeat" in shown(app.bench.vitals))
        assert "one repeat · drifting" in shown(app.bench.vitals)


RUNS = PlanStatus.IN_PROGRESS


def planned() -> FakeEngine:
    store = store_with(turn_started())
    steps = (
        Step(step_id="step_1", name="Reproduce", status=WorkStatus.COMPLETED),
        Step(step_id="step_2", name="Fix it", status=WorkStatus.IN_PROGRESS),
        Step(step_id="step_3", name="Test it"),
    )
    store.state.plans = (
        Plan(plan_id="plan_1", name="discounts", goal="", steps=steps, status=RUNS),
    )
    store.state.active_plan_id = "plan_1"
    return FakeEngine(store)


async def test_a_plan_shows_its_steps_and_folds_to_a_line_at_a_gate() -> None:
    fake = planned()
    app = app_with(fake)
    async with standing(app) as pilot:
        assert shown(app.bench.query_one("#plan-title")) == " Plan  discounts  1/3"
        text = shown(app.bench.plan)
        assert "✓ 1 Reproduce" in text
        assert "▶ 2 Fix it" in text
        assert "○ 3 Test it" in text
        fake.store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: shown(app.bench.plan).strip() == "▶ 2/3 Fix it")


async def test_where_one_pane_is_shown_the_plan_is_a_line_above_the_composer() -> None:
    app = app_with(planned())
    async with standing(app, 60, 20):
        assert app.bench.pill.is_on_screen
        assert shown(app.bench.pill).strip() == "▶ 2/3 Fix it"
        assert not app.bench.plan.is_on_screen


@dataclass
class Shows:
    """A pane."""

    slices: Callable[[AgentState], tuple[object, ...]]
    show: Callable[[AgentState], None]


class Clockwork:
    """Runs what is due when it is told to; has its state shown, as the app does."""

    bridge: Bridge

    @property
    def state(self) -> AgentState:
        return self._state

    @state.setter
    def state(self, state: AgentState) -> None:
        self._state = state
        self.bridge.spread(state)

    def __init__(self) -> None:
        self.soon: list[Any] = []
        self.timers: list[tuple[float, Any]] = []

    def call_later(self, callback: Any) -> bool:
        self.soon.append(callback)
        return True

    def set_timer(self, delay: float, callback: Any) -> object:
        self.timers.append((delay, callback))
        return None


def test_changes_are_joined_to_thirty_a_second() -> None:
    clock, works = ManualClock(), Clockwork()
    store = Store(AgentState(), clock, MemoryRecorder())
    bridge = works.bridge = Bridge(cast("Any", works), clock.monotonic)
    drawn: list[int] = []
    pane = Shows(
        lambda state: (len(state.messages), state.usage), lambda s: drawn.append(s.usage.calls)
    )
    bridge.add(pane)
    bridge.attach(store)
    assert drawn == [0]
    for _ in range(100):
        store.dispatch(call())
    assert len(works.soon) == 1
    works.soon.pop()()
    assert drawn == [0, 100]
    store.dispatch(call())
    store.dispatch(call())
    assert not works.soon
    ((delay, late),) = works.timers
    assert 0 < delay <= FRAME
    late()
    assert drawn == [0, 100, 102]


def test_what_a_pane_does_not_show_does_not_wake_it() -> None:
    clock, works = ManualClock(), Clockwork()
    store = Store(AgentState(), clock, MemoryRecorder())
    bridge = works.bridge = Bridge(cast("Any", works), clock.monotonic)
    bridge.add(Shows(lambda state: (state.vitals,), lambda _: None))
    bridge.attach(store)
    event: Event = ReplyDelta(llm_id="none", text="x", at=0.0)
    store.dispatch(event)
    store.dispatch(call())
    assert not works.soon
    assert not works.timers


@pytest.mark.parametrize(("width", "height"), [(160, 50), (120, 40), (96, 30), (80, 24)])
async def test_the_first_frame_and_the_app_give_the_side_column_the_same_width(
    width: int, height: int
) -> None:
    """The style sheet has it for the app, ``layout`` for the frame before there is one."""
    app = app_with(FakeEngine(store_with(turn_started())))
    async with standing(app, width, height):
        layout = layout_for(width, height)
        assert layout != "single"
        assert app.bench.side.region.width == first_frame_column(width, layout)


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_first_frame_reads_its_words_as_toml_does(lang: str) -> None:
    folder = Path(first_frame.__file__).parents[1] / "words" / lang
    table = tomllib.loads((folder / "panes.toml").read_text(encoding="utf-8"))["pane"]
    palette = first_frame.palette_named("duck-dark")
    drawing = first_frame.drawing(120, 40, lang, "shop", palette)
    for name in ("vitals", "plan", "diff", "placeholder"):
        assert table[name] in drawing


@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize("width", [30, 60, 120])
def test_the_first_frame_of_the_demo_has_the_header_of_the_app(lang: str, width: int) -> None:
    import pyte

    screen = pyte.Screen(width, 20)
    palette = first_frame.palette_named("duck-dark")
    drawn = first_frame.drawing(width, 20, lang, "little-shop", palette, demo=True)
    pyte.Stream(screen).feed(drawn)
    row = " ".join(screen.display[0].split())
    said = str(Catalogue(lang)("pane.demo"))
    whole = f"duckflow {said} little-shop"
    assert whole[: len(row)] == row if width < 60 else row == whole


@pytest.mark.parametrize("depth", [0, 8, 24])
@pytest.mark.parametrize("size", [(1, 1), (20, 5), (60, 20), (80, 24), (120, 40), (300, 100)])
def test_the_first_frame_stays_inside_every_size(size: tuple[int, int], depth: int) -> None:
    import pyte

    width, height = size
    palette = first_frame.palette_named("duck-dark")
    screen = pyte.Screen(width + 4, height + 4)
    drawing = first_frame.drawing(
        width, height, "en", "w\x1b[2J\u202eorkspace" * 30, palette, depth
    )
    pyte.Stream(screen).feed(drawing)
    assert all(not line[width:].strip() for line in screen.display)
    assert not "".join(screen.display[height:]).strip()
    assert depth or ("38;2;" not in drawing and "38;5;" not in drawing)


def test_fuzzy_choice_prefers_names_to_paths_and_takes_candidates_piece_by_piece() -> None:
    paths = [f"src/pkg{n % 50}/mod{n % 700}/file_{n}.py" for n in range(20_000)]
    paths += ["docs/pricing/notes.md", "src/shop/pricing.py"]
    assert Sieve("pricing", 3).take(paths)[0] == "src/shop/pricing.py"
    assert Sieve("PRICING", 3).take(paths)[0] == "src/shop/pricing.py"
    assert Sieve("no such thing", 3).take(paths) == []
    sieve = Sieve("prICing", 3)
    assert sieve.take(paths[:20_000]) == []
    assert sieve.take(paths[20_000:])[0] == "src/shop/pricing.py"
    assert sieve.take(["src/pricings.py"])[0] == "src/pricings.py"


@pytest.mark.parametrize(("width", "height"), [(120, 40), (80, 24), (60, 20)])
async def test_the_line_to_search_with_leaves_the_composer_whole(width: int, height: int) -> None:
    app = app_with(FakeEngine(store_with()))
    async with standing(app, width, height) as pilot:
        await pilot.press("ctrl+f")
        await settled(pilot, lambda: bool(app.screen.query(".find")), "the line")
        await pilot.pause()
        find = app.screen.query_one(".find").region
        composer = app.bench.composer.region
        assert find.height == 1
        assert find.bottom == composer.y


async def test_what_a_stop_left_waiting_says_what_sends_it() -> None:
    store = store_with(turn_started())
    fake = FakeEngine(store)
    app = app_with(fake)
    async with standing(app) as pilot:
        await fake.send("later", when="next")
        await settled(pilot, lambda: "later" in shown(app.bench.queue))
        assert "Enter sends" not in shown(app.bench.queue)
        assert store.state.turn is not None
        store.dispatch(TurnFinished(turn_id=store.state.turn.turn_id, outcome="stopped"))
        await settled(pilot, lambda: "stopped: Enter sends" in shown(app.bench.queue), "the hint")


async def test_a_plan_that_gave_its_room_to_a_gate_keeps_no_timer() -> None:
    fake = FakeEngine(working())
    app = app_with(fake)
    async with standing(app) as pilot:
        plan = app.bench.plan
        assert plan.is_moving
        fake.store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: plan.folded, "the fold")
        assert not plan.is_moving
        await pilot.press("f3")
        await settled(pilot, lambda: not plan.folded, "the whole plan")
        assert plan.is_moving
