"""From the first key to the first session: type-ahead, the first screen, the demo."""

from __future__ import annotations

import asyncio

from support.app_states import FakeEngine, FakeSessions, app_with, settled, standing, store_with
from textual import events

from duckflow_tui.state.clock import ManualClock
from duckflow_tui.ui.app import DuckflowApp


async def test_keys_before_the_composer_stands_arrive_in_order() -> None:
    app = app_with(FakeEngine(store_with()))
    async with app.run_test() as pilot:
        # As the driver does: nobody has waited for the screen.
        for character in "hello wörld":
            app.post_message(events.Key(character, character))
        app.post_message(events.Paste(" pasted"))
        app.post_message(events.Key("x", "x"))
        await settled(pilot, lambda: app.bench.composer.text == "hello wörld pastedx")


async def test_what_is_sent_before_the_session_is_open_is_sent_once_it_is() -> None:
    held = asyncio.Event()
    fake = FakeEngine(store_with())
    app = app_with(fake, held=held)
    async with app.run_test() as pilot:
        await pilot.press("o", "n", "e", "enter", "t", "w", "o")
        await settled(pilot, lambda: app.unsent == ["one"])
        assert app.bench.composer.text == "two"
        held.set()
        await settled(pilot, lambda: fake.sent == ["one"])
        assert app.bench.composer.text == "two"


async def test_without_an_endpoint_the_text_stays() -> None:
    held = asyncio.Event()
    app = app_with(None, held=held)
    async with app.run_test() as pilot:
        await pilot.press("o", "n", "e", "enter")
        await settled(pilot, lambda: app.unsent == ["one"])
        held.set()
        await settled(pilot, lambda: app.bench.welcome is not None)
        await settled(pilot, lambda: app.bench.composer.text == "one")
        await pilot.press("enter")
        await settled(pilot, lambda: bool(app.bench.status.said))
        assert app.bench.composer.text == "one"


async def test_the_first_screen_says_how_and_enter_starts_the_demo() -> None:
    app = app_with(None)
    async with standing(app) as pilot:
        shown = app.export_screenshot().replace("&#160;", " ")
        for words in (
            "--base-url",
            "settings.toml",
            "DUCKFLOW_API_KEY",
            "11434",
            "8080",
            "8000",
            "demo",
        ):
            assert words in shown, words
        await pilot.press("enter")
        await settled(pilot, lambda: app.engine is not None and app.bench.transcript is not None)
        assert app.bench.welcome is None
        await pilot.pause()
        assert "scripted replies" in app.export_screenshot().replace("&#160;", " ")


async def test_a_suggestion_is_taken_by_enter_and_sent_by_another() -> None:
    fake = FakeEngine(store_with())
    fake.suggestion = "fix the total"
    app = app_with(fake)
    async with standing(app) as pilot:
        assert app.bench.composer.text == ""
        await pilot.press("enter")
        await settled(pilot, lambda: app.bench.composer.text == "fix the total")
        assert fake.sent == []
        await pilot.press("enter")
        await settled(pilot, lambda: fake.sent == ["fix the total"])


async def test_nothing_is_suggested_to_who_has_sent_something_before_the_session_stood() -> None:
    held = asyncio.Event()
    fake = FakeEngine(store_with())
    fake.suggestion = "fix the total"
    app = app_with(fake, held=held)
    async with app.run_test() as pilot:
        await pilot.press("o", "n", "e", "enter")
        await settled(pilot, lambda: app.unsent == ["one"])
        held.set()
        await settled(pilot, lambda: fake.sent == ["one"])
        await pilot.press("enter")
        await pilot.pause()
        assert app.bench.composer.text == ""


async def test_plain_http_is_asked_for_before_anything_is_opened() -> None:
    """Covers R11: the address is confirmed by a key, once."""
    fake = FakeEngine(store_with())
    sessions = FakeSessions(fake)
    sessions.unconfirmed_origin = "http://192.168.1.7:8000"
    clock = ManualClock()
    app = DuckflowApp(sessions, clock=clock)
    async with app.run_test() as pilot:
        await settled(pilot, lambda: app.screen is not app.bench)
        assert app.engine is None
        assert sessions.confirmed == 0
        clock.advance(1)
        await pilot.press("y")
        await settled(pilot, lambda: app.engine is fake)
        assert sessions.confirmed == 1


async def test_plain_http_refused_opens_nothing() -> None:
    sessions = FakeSessions(FakeEngine(store_with()))
    sessions.unconfirmed_origin = "http://192.168.1.7:8000"
    app = DuckflowApp(sessions, clock=ManualClock())
    async with app.run_test() as pilot:
        await settled(pilot, lambda: app.screen is not app.bench)
        await pilot.press("escape")
        await settled(pilot, lambda: app.bench.welcome is not None)
        assert app.engine is None
        assert sessions.confirmed == 0


async def test_the_end_takes_the_session_down() -> None:
    sessions = FakeSessions(FakeEngine(store_with()))
    app = DuckflowApp(sessions, clock=ManualClock())
    async with app.run_test() as pilot:
        await settled(pilot, lambda: app.engine is not None)
        await pilot.press("ctrl+c", "ctrl+c")
    assert sessions.closed


async def test_a_session_that_cannot_be_opened_is_said() -> None:
    class Broken(FakeSessions):
        async def open(self, spawn: object) -> FakeEngine | None:
            raise OSError("no room on the device\x1b[31m")

    app = DuckflowApp(Broken(None), clock=ManualClock())
    async with app.run_test() as pilot:
        await settled(pilot, lambda: "no room on the device" in app.bench.status.said)
        assert "\x1b" not in app.bench.status.said
        assert app.is_running
