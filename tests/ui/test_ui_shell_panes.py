"""Header, status line, vitals, plan: what they say of a state."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from support import goals
from support.app_states import FakeEngine, app_with, settled, standing, store_with, turn_started
from support.conversations import operation
from support.gates import gate
from support.pinned import ManualClock
from support.plans import working

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event
from duckflow_tui.state.calls import ChangesRedone, ChangesUndone
from duckflow_tui.state.conversation import (
    Level,
    MessageQueued,
    NoticeAdded,
    NoticeMessage,
    QueuedMessage,
)
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
from duckflow_tui.ui.panes.status import DUCK, Mood
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
        key = f"vitals.status.{phase}.{status}"
        assert words(key) != key


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_the_vitals_tell_where_the_turn_stands_and_how_the_last_ended(language: str) -> None:
    """Until the next one begins. Covers S4-108."""
    store, words = store_with(turn_started(loop=4)), Catalogue(language)
    app = app_with(FakeEngine(store), language=language)
    stands = words("vitals.status.IDLE.SUCCESS")
    loop = words("vitals.loop", number=4, limit=14)
    attempt = words("vitals.attempt", number=1, limit=3)
    async with standing(app) as pilot:
        await pilot.press("f5")
        await settled(pilot, lambda: f"{stands} · {attempt} · {loop}" in shown(app.bench.vitals))
        for outcome in get_args(TurnOutcome):
            store.dispatch(TurnFinished(turn_id="turn_00000001", outcome=outcome))
            app.bench.vitals.show(store.state)
            said = words(f"sessions.state.{outcome}")
            assert shown(app.bench.vitals).splitlines()[3].strip() == said
            store.dispatch(turn_started())
            app.bench.vitals.show(store.state)
            assert stands in shown(app.bench.vitals)


async def test_a_turn_whose_change_was_taken_back_is_not_called_finished() -> None:
    """Until it is made again, where no requirement was judged by it: those are to be judged anew.
    That an earlier turn's was, says nothing of the last one.
    """
    store = store_with(turn_started())
    app = app_with(FakeEngine(store))
    change = FileChange(path="a.py", kind="modify")
    message = operation("file_ops.edit_file", {}, changes=(change,))
    async with standing(app) as pilot:

        async def says(words: str, *events: Event) -> None:
            for event in events:
                store.dispatch(event)
            await settled(pilot, lambda: words in shown(app.bench.vitals), words)

        await pilot.press("f5")
        store.state.messages.append(message)
        await says("done", TurnFinished(turn_id="turn_00000001", outcome="done"))
        undone = ChangesUndone(call_id=message.call_id, changes=(change,))
        await says("changes undone", undone)
        await says("done", ChangesRedone(call_id=message.call_id, changes=(change,)))
        await says("changes undone", undone)
        goals.set_objective(store)
        again = ChangesRedone(call_id=message.call_id, changes=(change,), reopens=True)
        await says("files changed since · needs a new check", again)
        assert "done" not in shown(app.bench.vitals)
        store.state.objective = None
        await says("changes undone", undone)
        await says("loop 1 of 14", turn_started())
        await says("done", TurnFinished(turn_id="turn_00000001", outcome="done"))


async def test_an_answer_beside_work_that_has_ended_says_what_ends_it() -> None:
    """And Esc does."""
    store = store_with()
    state = store.state
    state.phase, state.last_turn = Phase.DONE, TurnSummary(turn_id="t", outcome="done")
    fake = FakeEngine(store)
    app = app_with(fake)
    async with standing(app) as pilot:
        chat = app.bench.talk.transcript
        await pilot.press("escape")
        assert not fake.asked or fake.asked == ["warm"]
        store.dispatch(LlmCallStarted(llm_id="l", purpose="main", at=1.0, aside=True))
        await settled(pilot, lambda: "Esc stops" in shown(chat))
        assert "Working" not in shown(chat)
        await pilot.press("escape")
        assert fake.asked[-1] == "stop"
        store.dispatch(LlmCallDropped(llm_id="l"))
        await settled(pilot, lambda: "Esc stops" not in shown(chat))


async def test_one_line_at_the_end_of_the_chat_says_how_the_work_stands() -> None:
    """Nothing else on the screen says so."""
    store = working()
    app = app_with(FakeEngine(store))
    async with standing(app) as pilot:
        chat = app.bench.talk.transcript
        said = "Working · step 2 of 3 · 1:20 · Esc pauses"
        assert store.state.turn is not None
        turn = store.state.turn
        store.state.turn = turn.model_copy(update={"started_at": store.clock.now() - 80})
        app.state = store.state
        await settled(pilot, lambda: said in shown(chat), "the line")
        assert "Esc" not in shown(app.bench.status)
        store.dispatch(LlmCallStarted(llm_id="l", purpose="main", at=store.clock.now()))
        await settled(pilot, lambda: "Thinking · step 2 of 3" in shown(chat), "the call")
        began = store.clock.now() - 10
        store.dispatch(ReplyDelta(llm_id="l", text="word" * 380, at=began))
        await settled(pilot, lambda: "· 38 tok/s ·" in shown(chat), "the speed")
        store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: "Esc pauses" not in shown(chat), "what the gate says")
        store.state.gates = ()
        store.dispatch(PauseRequested())
        await settled(pilot, lambda: "Pausing at the next safe point" in shown(chat), "the pause")
        assert "Working" not in shown(chat)
        await settled(pilot, lambda: "Esc stop" in shown(app.bench.status), "what Esc does now")


async def test_the_line_at_the_end_leaves_out_whole_what_has_no_room_or_is_told_below_it() -> None:
    """In Japanese it is longest. What Esc does is never cut."""
    store = working("ja")
    now = store.clock.now()
    store.dispatch(LlmCallStarted(llm_id="l", purpose="main", at=now))
    store.dispatch(ReplyDelta(llm_id="l", text="語" * 380, at=now - 10))
    app = app_with(FakeEngine(store), language="ja")
    async with standing(app, 160, 24) as pilot:
        chat = app.bench.talk.transcript
        whole = "作業しています · ステップ 2/3 · 0:00 · 10 トークン/秒 · Esc で一時停止"
        await settled(pilot, lambda: whole in shown(chat), "all of it")
        await pilot.resize_terminal(80, 24)
        below = whole.replace(" · ステップ 2/3", "")
        await settled(pilot, lambda: below in shown(chat), "without the step")
        assert "2/3" in shown(app.bench.pill)
        await pilot.resize_terminal(50, 24)
        least = below.replace(" · 10 トークン/秒", "")
        await settled(pilot, lambda: least in shown(chat), "without the speed")


async def test_the_header_tells_the_project_the_model_and_what_may_happen_unasked() -> None:
    """And nothing that the vitals, the chat or the foot say."""
    store = store_with(turn_started(loop=4), call())
    store.state.session = store.state.session.model_copy(update={"branch": "main"})
    app = app_with(FakeEngine(store))
    async with standing(app):
        text = shown(app.bench.header)
        foot = shown(app.bench.status)
    assert text.startswith("  duckflow   little-shop  main  gpt-5-mini")
    assert text.endswith("standard · NO SANDBOX")
    for word in ("IDLE", "ready", "attempt", "loop", "call"):
        assert word not in text
    for word in ("standard", "SANDBOX", "gpt-5-mini"):
        assert word not in foot


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("width", [20, 40, 60, 80, 119])
async def test_the_header_gives_up_what_matters_least(width: int, language: str) -> None:
    app = app_with(FakeEngine(store_with(turn_started(loop=4))), language=language)
    async with standing(app, width, 24):
        text = shown(app.bench.header)
    assert "duckflow" in text
    assert width < 40 or app.words("status.sandbox.none") in text
    assert width < 80 or "gpt-5-mini" in text
    assert not text.endswith("…")


def moved(**values: tuple[float, float, str]) -> VitalsChanged:
    """The last change of one vital: from, to, cause."""
    ((name, (old, new, cause)),) = values.items()
    change = VitalChange(
        vital=cast("Any", name), old=old, new=new, cause=cast("Any", cause), at=1.0
    )
    return VitalsChanged(change=change)


async def test_the_foot_shows_at_a_glance_how_it_is_going() -> None:
    store = store_with()
    app = app_with(FakeEngine(store))
    async with standing(app, 99, 40) as pilot:

        async def foot(*said: str) -> None:
            app.state = store.state
            await settled(pilot, lambda: all(s in shown(app.bench.status) for s in said), said[0])

        await foot(DUCK["calm"])
        bars = " mood ▅ focus {} stamina {}"
        await foot(DUCK["calm"] + bars.format("▆", "▇"))
        store.dispatch(turn_started())
        store.dispatch(moved(stamina=(1.0, 0.6, "loop")))
        await foot(DUCK["working"] + bars.format("▆", "▅"))
        store.dispatch(moved(focus=(0.75, 0.65, "repeat")))
        await foot(DUCK["unsure"] + bars.format("▅", "▅") + "  focus falling: 1 repeat")
        store.dispatch(moved(focus=(0.65, 0.45, "repeat")))
        await foot(DUCK["stuck"] + bars.format("▄", "▅") + "  focus falling: 2 repeats")
        store.dispatch(moved(focus=(0.45, 0.55, "progress")))
        await foot(DUCK["unsure"], "focus drifting: 2 repeats")  # not by what raised it
        store.dispatch(TurnFinished(turn_id="turn_00000001", outcome="done"))
        await foot(DUCK["calm"])
        assert "drifting" not in shown(app.bench.status)
        store.dispatch(turn_started())
        store.dispatch(moved(focus=(0.55, 0.45, "repeat")))
        store.dispatch(TurnFinished(turn_id="turn_00000001", outcome="partial"))
        await foot(DUCK["stuck"], "focus falling: 1 repeat")
        await pilot.press("alt+4")
        await settled(pilot, lambda: "focus" not in shown(app.bench.status), "told once")
        await foot(DUCK["stuck"])
        await pilot.press("escape")
        store.dispatch(GateOpened(gate=gate()))
        await foot(DUCK["asking"])
        app.status.duck = False
        await settled(pilot, lambda: DUCK["asking"] not in shown(app.bench.status), "off")
        app.bench.vitals_place = "off"
        await settled(pilot, lambda: "focus" not in shown(app.bench.status), "no vitals")
    assert len({sign.strip() for sign in DUCK.values()}) == len(get_args(Mood))


async def test_the_status_line_says_what_was_used() -> None:
    app = app_with(FakeEngine(store_with(call(), call())))
    async with standing(app):
        assert shown(app.bench.status).split("   ")[:2] == [
            " context 21 %",
            "2 calls  $0.06",
        ]


async def test_an_estimate_is_marked_and_an_unknown_cost_is_not_shown() -> None:
    app = app_with(FakeEngine(store_with(call(estimated=True, cost=None))))
    async with standing(app):
        text = shown(app.bench.status)
    assert "context ~21 %" in text
    assert "1 call " in text
    assert "$" not in text


async def test_vitals_start_without_evidence_and_tell_why() -> None:
    """Covers S0-11, S0-44."""
    fake = FakeEngine(store_with())
    app = app_with(fake)
    async with standing(app, 160, 60) as pilot:
        await pilot.press("f5")
        await settled(pilot, lambda: shown(app.bench.vitals).count("neutral") == 3)
        await settled(pilot, lambda: app.bench.focused is app.bench.vitals)
        await pilot.press("enter")
        await pilot.pause()
        assert "No inputs yet" in shown(app.bench.vitals)
        assert "How sure the AI is of its plan." in shown(app.bench.vitals)
        change = VitalChange(vital="focus", old=0.75, new=0.65, cause="repeat", at=1.0)
        fake.store.dispatch(VitalsChanged(change=change))
        await settled(pilot, lambda: "0.75 → 0.65  a repeat" in shown(app.bench.vitals))
        assert "Latest: a repeat without progress" in shown(app.bench.vitals)
        await pilot.press("enter")
        await settled(pilot, lambda: "0.65" not in shown(app.bench.vitals), "words alone")
        assert re.search(r"focus +━+─+ drifting\n +▆▅ 1 repeat", shown(app.bench.vitals))


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


async def test_a_plan_shows_its_steps() -> None:
    app = app_with(planned())
    async with standing(app):
        assert shown(app.bench.query_one("#plan-title")) == " Plan  discounts  1/3"
        text = shown(app.bench.plan)
        assert "✓ 1 Reproduce" in text
        assert "▶ 2 Fix it" in text
        assert "○ 3 Test it" in text


async def test_where_one_pane_is_shown_the_plan_is_a_line_above_the_composer() -> None:
    app = app_with(planned())
    async with standing(app, 60, 20):
        assert app.bench.pill.is_on_screen
        assert shown(app.bench.pill).strip() == "▶ 2 of 3 Fix it"
        assert not app.bench.plan.is_on_screen


@dataclass(eq=False)
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
        self.bridge.show_changes(state)

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


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_first_frame_reads_its_words_as_toml_does(lang: str) -> None:
    folder = Path(first_frame.__file__).parents[1] / "words" / lang
    table = tomllib.loads((folder / "panes.toml").read_text(encoding="utf-8"))["pane"]
    palette = first_frame.palette_named("duck-dark")
    drawing = first_frame.drawing(120, 40, lang, "shop", palette)
    assert table["placeholder"] in drawing
    assert table["demo"] in first_frame.drawing(120, 40, lang, "shop", palette, demo=True)


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
        at = store.clock.now() + 1
        stopped = NoticeMessage(message_id="n", level=Level.INFO, key="turn.stopped", at=at)
        store.dispatch(NoticeAdded(message=stopped))
        await settled(pilot, lambda: "stopped: Enter sends" in shown(app.bench.queue), "the hint")


async def test_what_is_sent_while_nothing_runs_does_not_wait() -> None:
    """It is on its way into the chat: no chip moves the chat for a moment."""
    store = store_with()
    app = app_with(FakeEngine(store))
    async with standing(app) as pilot:
        message = QueuedMessage(message_id="q", text="begin", at=store.clock.now())
        store.dispatch(MessageQueued(message=message))
        app.bridge.show_now()
        await pilot.pause()
        assert (store.state.queue, app.bench.queue.region.height) == ((message,), 0)
