"""The start screen: the stories of the demo, and the sessions of a folder to go on with."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from support.app_states import (
    FakeEngine,
    app_on,
    app_with,
    settled,
    standing,
    store_with,
    turn_started,
)
from support.app_states import FakeSessions as Sources
from support.conversations import user
from support.gates import gate
from support.pinned import ManualClock
from support.screens import screen_text
from support.session_shelf import NOW, asked, record, shelf

from duckflow_tui.scripted.stories import list_requests
from duckflow_tui.session.catalog import Catalog
from duckflow_tui.state.conversation import UserMessage, UserMessageAdded
from duckflow_tui.state.gates import GateOpened
from duckflow_tui.state.turn import TurnFinished
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.composer import Composer
from duckflow_tui.ui.panes.start import Start
from duckflow_tui.ui.session_host import AppOptions

STORIES = list_requests("en")


def demo() -> tuple[DuckflowApp, FakeEngine]:
    fake = FakeEngine(store_with(demo=True))
    fake.stories, fake.suggestion = STORIES, STORIES["bug"]
    return app_with(fake), fake


def line_with(app: DuckflowApp, said: str) -> int:
    """The line of the screen that says it."""
    return next(y for y, line in enumerate(screen_text(app).splitlines()) if said in line)


async def test_a_digit_alone_begins_a_story_and_a_digit_in_a_text_is_text() -> None:
    app, fake = demo()
    async with standing(app, 40, 12) as pilot:
        await settled(pilot, lambda: "Stuck, it asks you" in screen_text(app), "the stories")
        await pilot.press("3", "space", "t", "e", "s", "t", "s", "4")
        assert app.bench.composer.text == "3 tests4"
        assert "Stuck, it asks you" in screen_text(app)
        await pilot.press(*["backspace"] * 8)
        await pilot.press("２")  # of an input method
        await settled(pilot, lambda: fake.sent == [STORIES["plan"]], "the second story")
        assert app.bench.composer.text == ""


async def test_a_digit_before_the_stories_stand_begins_one() -> None:
    fake, held = FakeEngine(store_with(demo=True)), asyncio.Event()
    fake.stories = STORIES
    app = app_with(fake, held=held)
    async with app.run_test() as pilot:
        await pilot.press("2")
        await settled(pilot, lambda: app.bench.composer.text == "2")
        held.set()
        await settled(pilot, lambda: fake.sent == [STORIES["plan"]], "the second story")
        assert app.bench.composer.text == ""


async def test_a_click_begins_a_story_and_leaves_what_is_written() -> None:
    app, fake = demo()
    async with standing(app, 60, 20) as pilot:
        await settled(pilot, lambda: "Something is forgotten" in screen_text(app), "the stories")
        await pilot.press("m", "i", "n", "e")
        at = line_with(app, "Something is forgotten")
        await pilot.click(offset=(8, at + 1))  # its description belongs to it
        await settled(pilot, lambda: fake.sent == [STORIES["savings"]], "the third story")
        assert app.bench.composer.text == "mine"
        message = user(STORIES["savings"])
        assert isinstance(message, UserMessage)
        fake.store.dispatch(UserMessageAdded(message=message))
        await settled(pilot, lambda: not app.query("Start"), "its end")
        await pilot.press(*["backspace"] * 4, "4", "enter")  # a message now, not a story
        await settled(pilot, lambda: fake.sent[1:] == ["4"], "the message")


async def test_a_number_or_enter_goes_on_with_a_session_of_the_folder(tmp_path: Path) -> None:
    shelf(tmp_path)
    catalog = Catalog(tmp_path, clock=ManualClock(NOW))
    catalog.refresh()  # all of them: the app lists what it can read in a fifth of a second
    sources = Sources(FakeEngine(store_with()), catalog=catalog)
    options = AppOptions(workspace="/work/little-shop", animation=False)
    app = app_on(sources, options, ManualClock(NOW))
    async with standing(app, 80, 24) as pilot:
        await settled(pilot, lambda: "Release 2.0" in screen_text(app), "all sessions")
        assert "Continue where you left off" in screen_text(app)
        rows = screen_text(app).splitlines()[line_with(app, "› 1") :]
        assert "The total is wrong when two dis" in rows[0]
        assert "waiting for approval" in rows[0]
        assert "plan 1 of" in rows[1]
        assert "Release 2.0" in rows[4]  # pinned, and the oldest
        assert "cannot be opened" not in screen_text(app)
        sources.other = FakeEngine(store_with())
        for pressed, session in (("2", "session_00000002"), ("enter", "session_00000001")):
            await pilot.press(pressed)
            await settled(pilot, lambda s=session: sources.resumed[-1:] == [s], session)
            # The session that it goes on with is new here too: the same is offered again.
            await settled(
                pilot, lambda: "Continue where you left off" in screen_text(app), "the start"
            )


async def test_while_something_is_asked_digits_are_for_the_question() -> None:
    app, fake = demo()
    async with standing(app, 80, 24) as pilot:
        await settled(pilot, lambda: "Four stories" in screen_text(app), "the stories")
        fake.store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: app.bench.talk.open_question is not None, "the gate")
        await settled(pilot, lambda: "Four stories" not in screen_text(app), "its room")
        await pilot.press("4", "enter")
        await settled(pilot, lambda: app.bench.composer.text == "", "the key")
        assert fake.sent == []


async def test_nothing_waits_for_the_sessions_of_the_folder(tmp_path: Path) -> None:
    """What is sent before they are read is sent, and they are not shown behind it."""
    record(tmp_path, "session_00000002", [asked("fix it", NOW)])
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Catalog):
        def refresh(self, within: float | None = None) -> bool:
            begun.set()
            assert go_on.wait(20)
            return super().refresh(within)

    fake = FakeEngine(store_with())
    app = app_with(fake, catalog=Slow(tmp_path))
    async with standing(app) as pilot:
        await settled(pilot, begun.is_set, "the reading")
        await pilot.press("1", "enter")
        await settled(pilot, lambda: fake.sent == ["1"], "the message")
        message = user("1")
        assert isinstance(message, UserMessage)
        fake.store.dispatch(UserMessageAdded(message=message))
        go_on.set()
        await settled(pilot, lambda: all(w.is_finished for w in app.workers if w.name == "recent"))
        assert "fix it" not in screen_text(app)


@pytest.mark.parametrize("others", [0, 1])
async def test_a_folder_with_one_session_has_none_to_offer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """The sessions of all other folders are then not looked through."""
    own = record(tmp_path, "session_00000001", [asked("fix it", NOW)])
    for _ in range(others):
        record(tmp_path, "session_00000002", [asked("test it", NOW)])
    looked: list[str] = []

    class Watched(Catalog):
        def refresh(self, within: float | None = None) -> bool:
            looked.append("looked")
            return super().refresh(within)

    def offered(*_: object) -> None:
        looked.append("offered")

    monkeypatch.setattr(Start, "show_recent", offered)
    app = app_with(FakeEngine(store_with()), catalog=Watched(tmp_path), folder=own)
    async with standing(app) as pilot:
        await settled(pilot, lambda: "offered" in looked, "what there is to offer")
        assert looked == ["looked"] * others + ["offered"]


async def test_a_digit_takes_its_line_of_the_first_screen_once_the_composer_is_empty_again() -> (
    None
):
    sources = Sources(None)
    app = app_on(sources, AppOptions(animation=False), ManualClock())
    async with standing(app) as pilot:
        await settled(pilot, lambda: app.focused is app.bench.talk.welcome, "the first screen")
        await pilot.press("n", "o", "0", *["backspace"] * 3)
        assert isinstance(app.focused, Composer)
        assert sources.demos == 0
        await pilot.press("0")
        await settled(pilot, lambda: sources.demos == 1, "the demo")
        assert app.bench.composer.text == ""


async def test_the_branch_in_the_header_follows_the_repository() -> None:
    """Read at first and after each call, which may have changed it."""
    fake = FakeEngine(store_with())
    fake.branch = "main"
    app = app_with(fake)
    async with standing(app) as pilot:

        def header() -> str:
            return screen_text(app).splitlines()[0]

        await settled(pilot, lambda: "  main  " in header(), "the branch")
        fake.branch = "ducks"
        fake.store.dispatch(turn_started())
        fake.store.dispatch(TurnFinished(turn_id="turn_00000001", outcome="done"))
        await settled(pilot, lambda: "  ducks  " in header(), "the other branch")
