"""The lean compositor shows what Textual's own shows, and asks fewer widgets for it."""

from __future__ import annotations

from typing import Any

import pyte
import pytest
from support.app_states import FakeEngine, app_with, standing, store_with, turn_started
from support.conversations import assistant, operation, user
from support.gates import gate
from support.rewind_states import asked
from textual._compositor import Compositor
from textual.events import Resize
from textual.geometry import Region, Size
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from duckflow_tui.state.gates import GateOpened
from duckflow_tui.state.turn import TurnSummary
from duckflow_tui.state.usage import ReplyDelta
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.transcript import Transcript
from duckflow_tui.ui.textual_private import LeanCompositor

FILES = ("src/shop/cart.py", "src/shop/pricing.py", "README.md")


class Watched:
    """A terminal that is sent every update of an app that runs without one."""

    def __init__(self, app: DuckflowApp, width: int, height: int) -> None:
        self._app = app
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self._screen)
        self._wanted = pyte.Screen(width, height)
        self._wanted_stream = pyte.Stream(self._wanted)
        self._written: dict[int, str] = {}  # lines of that, as they were written last
        self.updates = 0

    def take(self, _screen: object, update: Any) -> None:
        if update is not None:
            self.updates += 1
            self._stream.feed(update.render_segments(self._app.console))

    def line(self, y: int) -> str:
        """A row of it."""
        return self._screen.display[y]

    def assert_whole(self, monkeypatch: pytest.MonkeyPatch, after: str) -> None:
        """What it shows is what Textual's own compositor makes of the whole screen."""
        wanted = self._wanted
        with monkeypatch.context() as patch:
            patch.setattr(LeanCompositor, "_get_renders", Compositor._get_renders)  # pyright: ignore[reportPrivateUsage]
            strips = self._app.bench._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        console = self._app.console
        for y, strip in enumerate(strips):
            if self._written.get(y) != (line := strip.render(console)):
                self._wanted_stream.feed(f"\x1b[{y + 1}H{line}")
                self._written[y] = line
        there = self._screen.display
        for y, line in enumerate(wanted.display):
            assert there[y] == line, f"line {y} after {after}"
            assert self._screen.buffer[y] == wanted.buffer[y], f"colours of line {y} after {after}"


async def _rest(pilot: Pilot[int]) -> None:
    """Until nothing more is drawn."""
    for _ in range(2):
        await pilot.pause(0.04)


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
async def test_after_any_change_the_terminal_shows_what_a_whole_drawing_would(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(store_with(turn_started()), FILES)
    app = app_with(engine)
    watched = Watched(app, *size)
    async with standing(app, *size) as pilot:
        monkeypatch.setattr(app, "_display", watched.take)
        app.bench.refresh()
        await _rest(pilot)
        watched.assert_whole(monkeypatch, "the first drawing")
        for keys in (
            ["h", "i", "space", "日"],
            ["@", "p"],  # a list opens over the chat and closes again
            ["escape"],
            ["/"],
            ["ctrl+u"],
            ["alt+enter", "x"],  # the composer grows
            ["backspace", "backspace"],
            ["tab"],
            ["alt+2"],
            ["alt+3"],
            ["alt+1"],
            ["f1"],
            ["escape"],
        ):
            await pilot.press(*keys)
            await _rest(pilot)
            if app.screen is app.bench:
                watched.assert_whole(monkeypatch, str(keys))
        for number in range(8):
            text = f"## part {number}\n\n```python\nx = {number}\n```\n\n- one **two**\n\n" * 3
            engine.store.dispatch(ReplyDelta(llm_id="llm_1", text=text, at=0.0))
            await _rest(pilot)
            watched.assert_whole(monkeypatch, f"piece {number}")
        engine.store.dispatch(GateOpened(gate=gate()))
        await _rest(pilot)
        watched.assert_whole(monkeypatch, "the gate")
        app.theme = "duck-light"
        await _rest(pilot)
        watched.assert_whole(monkeypatch, "another theme")
        app.action_language("ja")
        await _rest(pilot)
        watched.assert_whole(monkeypatch, "another language")
        assert watched.updates > 20


async def test_work_that_folds_into_as_many_lines_as_the_answer_takes_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the turn ends with stands where its rows were, however many they were."""
    store = store_with()
    app = app_with(FakeEngine(store))
    watched = Watched(app, 80, 60)
    said, alike = store.state.messages, 0
    async with standing(app, 80, 60) as pilot:
        monkeypatch.setattr(app, "_display", watched.take)
        app.bench.refresh()
        transcript = app.bench.query_one(Transcript)
        for count in range(1, 6):
            said += [user("do it", count), assistant("I look.", count)]
            said += [operation("file_ops.read_file", {"path": "a.txt"}) for _ in range(count)]
            transcript.show_state(store.state)
            await _rest(pilot)
            before = transcript.virtual_size.height
            said.append(assistant("Looked at.", count))
            turn = TurnSummary(turn_id=f"t{count}", outcome="done", llm_calls=3)
            store.state.turns += [turn.model_copy(update={"messages": len(said)})]
            transcript.show_state(store.state)
            await _rest(pilot)
            watched.assert_whole(monkeypatch, f"the end of turn {count}")
            alike += before == transcript.virtual_size.height
    assert alike


async def test_resizes_while_text_streams_and_a_gate_stands_open_end_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FakeEngine(store_with(turn_started()), FILES)
    app = app_with(engine)
    sizes = [(80, 12), (100, 12), (120, 9), (120, 40), (60, 20), (20, 5), (1, 1)]
    async with standing(app, *sizes[0]) as pilot:
        drawn: list[str] = []

        def draw(_screen: object, update: Any) -> None:
            if update is not None:
                drawn.append(update.render_segments(app.console))

        monkeypatch.setattr(app, "_display", draw)
        for number in range(6):
            for width, height in sizes:
                pilot.app.post_message(Resize(Size(width, height), Size(width, height)))
                text = f"part {number}\n\n```python\nx = {number}\n```\n\n" * 4
                engine.store.dispatch(ReplyDelta(llm_id="llm_1", text=text, at=0.0))
                await pilot.pause(0.01)
            if number == 2:
                engine.store.dispatch(GateOpened(gate=gate()))
        assert drawn


@pytest.mark.parametrize("size", [(80, 12), (100, 12), (120, 9), (120, 40)])
async def test_after_another_size_the_terminal_shows_what_a_whole_drawing_would(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(store_with(turn_started()), FILES)
    app = app_with(engine)
    async with standing(app, 80, 24) as pilot:
        engine.store.dispatch(ReplyDelta(llm_id="llm_1", text="one **two**\n\n" * 40, at=0.0))
        engine.store.dispatch(GateOpened(gate=gate()))
        await _rest(pilot)
        watched = Watched(app, *size)
        monkeypatch.setattr(app, "_display", watched.take)
        await pilot.resize_terminal(*size)
        await _rest(pilot)
        watched.assert_whole(monkeypatch, f"{size}")


async def test_a_pane_that_draws_less_than_its_place_shows_what_lies_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = app_with(FakeEngine(store_with()))
    watched = Watched(app, 80, 24)
    async with standing(app, 80, 24) as pilot:
        monkeypatch.setattr(app, "_display", watched.take)
        for widget, lines in ((app.bench.plan, 2), (app.bench.status, 0), (app.bench, 3)):

            def less(crop: Region, widget: Widget = widget, lines: int = lines) -> list[Strip]:
                return type(widget).render_lines(widget, crop)[:lines]

            monkeypatch.setattr(widget, "render_lines", less)
        app.bench.refresh()
        await _rest(pilot)
        assert watched.updates
        assert "duckflow" in watched.line(0)
        assert watched.line(23).strip() == ""


async def test_going_back_in_the_conversation_and_forth_paints_all_that_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = asked()
    app = app_with(engine)
    watched = Watched(app, 120, 40)
    async with standing(app, 120, 40) as pilot:
        monkeypatch.setattr(app, "_display", watched.take)
        app.bench.refresh()
        await _rest(pilot)
        assert await engine.rewind.go_back("msg_1") == ""
        await _rest(pilot)
        watched.assert_whole(monkeypatch, "going back")
        assert await engine.rewind.undo_rewind() == ""
        await _rest(pilot)
        watched.assert_whole(monkeypatch, "taking it back")


async def test_a_key_in_the_composer_asks_no_other_pane_to_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = app_with(FakeEngine(store_with()))
    async with standing(app, 120, 40) as pilot:
        await _rest(pilot)
        bench = app.bench
        assert bench.talk.transcript is not None
        asked: list[Region] = []

        def asks(crop: Region) -> list[Strip]:
            asked.append(crop)
            return []

        for widget in (bench.talk.transcript, bench.plan, bench.vitals, bench.header, bench.status):
            monkeypatch.setattr(widget, "render_lines", asks)
        bench.composer.insert("x")
        await _rest(pilot)
        assert bench.composer.text == "x"
        assert asked == []
