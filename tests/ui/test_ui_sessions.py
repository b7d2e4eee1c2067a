"""The page of sessions under the user's keys, and the commands about the one that is open."""

from __future__ import annotations

import errno
import json
import stat
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from support.app_states import (
    FakeEngine,
    FakeSessions,
    app_with,
    commanded,
    settled,
    standing,
    store_with,
)
from support.conversations import assistant, user
from support.lists import is_listing, open_list, take_action, take_twice
from support.pinned import ManualClock
from support.screens import screen_text, shown
from support.session_shelf import HOUR, NOW, WORKSPACE, asked, record, replied, shelf
from textual.pilot import Pilot
from textual.widgets import Input

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.faults import SessionInUse
from duckflow_tui.session.folders import session_path
from duckflow_tui.session.resume import open_to_read, resume_journal
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.turn import TurnInfo, TurnStarted
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens import sessions
from duckflow_tui.ui.screens.confirm import Confirm
from duckflow_tui.ui.screens.form import LineForm
from duckflow_tui.ui.screens.list_page import Page
from duckflow_tui.ui.screens.sessions import SessionSource

OWN = "session_00000001"  # what the app of these tests has open, in its fake engine


def with_shelf(state_dir: Path, *, folder: str = "") -> DuckflowApp:
    shelf(state_dir)
    catalog = Catalog(state_dir, clock=ManualClock(NOW))
    own = session_path(state_dir, WORKSPACE, folder) if folder else None
    return app_with(FakeEngine(store_with()), catalog=catalog, folder=own)


def sources(app: DuckflowApp) -> FakeSessions:
    found: object = app.session.sources
    assert isinstance(found, FakeSessions)
    return found


def settle(app: DuckflowApp) -> None:
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(2 * SETTLE_S)


def sessions_of(app: DuckflowApp) -> SessionSource:
    found = open_list(app).source
    assert isinstance(found, SessionSource)
    return found


async def opened(app: DuckflowApp, pilot: Pilot[int]) -> SessionSource:
    """The page, all of it read, once its keys count."""
    await commanded(pilot, "/sessions")
    await settled(pilot, lambda: is_listing(app, SessionSource), "the page")
    page = sessions_of(app)
    await settled(pilot, lambda: not page.is_reading and page.is_previewed, "the list")
    settle(app)
    return page


async def to(pilot: Pilot[int], page: SessionSource, number: str) -> None:
    """Put the cursor on the session of this number."""
    for _ in range(12):
        if page.facts is not None and page.facts.session_id.endswith(number):
            await settled(pilot, lambda: page.is_previewed, "its end")
            await pilot.pause()
            return
        await pilot.press("down")
    raise AssertionError(f"no session {number}")


def ids(page: SessionSource) -> list[str]:
    """The ids in the list, from its top."""
    return [key.rpartition("/")[2] for key in page.list_items()]


def text(page: SessionSource) -> str:
    return shown(page.page.query_one(Page))


async def test_each_row_says_how_it_stands_and_the_end_is_shown(tmp_path: Path) -> None:
    """Of all workspaces each row names its own, and one of another is told with its command."""
    app = with_shelf(tmp_path)
    async with standing(app) as pilot:
        page = await opened(app, pilot)
        await to(pilot, page, "1")
        rows = text(page)
        assert "met 1/4" in rows
        assert "waiting for approval" in rows
        assert "Discounts are added where they have to be multiplied" in rows
        assert "★ Release 2.0" in rows
        assert rows.index("★ Release 2.0") < rows.index("The total is wrong")
        assert "what does round_half_even do here" in rows
        assert "It rounds 0.5" not in rows  # of another workspace
        assert "little-shop" not in rows
        await take_action(app, pilot, "all folders")
        await settled(pilot, lambda: "session_00000007" in ids(page), "all of them")
        await settled(pilot, lambda: " little-shop  ★ Release 2.0" in text(page), "the folders")
        await to(pilot, page, "7")
        await pilot.press("enter")
        await pilot.pause()
        said = " ".join(text(page).split())
        assert "duckflow-tui --resume session_00000007 --dir /work/till" in said
        assert app.screen is page.page


async def test_what_cannot_be_opened_says_why_and_is_not_opened(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    async with standing(app) as pilot:
        page = await opened(app, pilot)
        for number, why in (("8", "later version"), ("9", "not a session")):
            await to(pilot, page, number)
            assert why in text(page), number
            await pilot.press("enter")
            await pilot.pause()
            assert app.screen is page.page, number
            assert sources(app).resumed == [], number


async def test_enter_opens_another_session_in_place_of_this_one(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    other = FakeEngine(store_with())
    other.store.state.messages += [user("the other one"), assistant("yes", 1)]
    other.store.state.draft = "half a thought"
    async with standing(app) as pilot:
        sources(app).other = other
        page = await opened(app, pilot)
        await to(pilot, page, "3")
        await pilot.press("enter")
        await settled(pilot, lambda: cast("Any", app.session.engine) is other, "the other session")
        assert sources(app).resumed == ["session_00000003"]
        assert app.bench.talk.transcript is not None
        await settled(
            pilot,
            lambda: "the other one" in shown(app.bench.talk.transcript or page.page),
            "its chat",
        )
        assert app.bench.composer.draft_text == "half a thought"


async def test_no_other_one_is_opened_or_begun_while_work_runs(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    other = FakeEngine(store_with())
    async with standing(app) as pilot:
        sources(app).other = other
        assert app.session.engine is not None
        turn = TurnInfo(turn_id="t", message_id="m", started_at=NOW)
        app.session.engine.store.dispatch(TurnStarted(turn=turn))
        await commanded(pilot, "/new")
        await settled(
            pilot, lambda: "Work is still running" in shown(app.bench.status), "the reason"
        )
        assert sources(app).resumed == []
        app.status.clear_message()
        page = await opened(app, pilot)
        await to(pilot, page, "3")
        await pilot.press("enter")
        await settled(
            pilot, lambda: "Work is still running" in shown(app.bench.status), "of the page"
        )
        assert sources(app).resumed == []
        if app.screen is page.page:
            await pilot.press("escape")
        await settled(pilot, lambda: app.screen is app.bench, "the chat")
        app.session.engine.store.state.turn = None
        await commanded(pilot, "/new")
        await settled(pilot, lambda: cast("Any", app.session.engine) is other, "a new session")
        assert sources(app).resumed == [""]


async def test_a_session_that_cannot_be_opened_leaves_this_one(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    async with standing(app) as pilot:
        engine = app.session.engine
        path = session_path(tmp_path, WORKSPACE, "session_00000003")
        sources(app).other = None
        page = await opened(app, pilot)
        await to(pilot, page, "3")
        sources(app).fault = SessionInUse(path, 4711)
        await pilot.press("enter")
        await settled(pilot, lambda: "4711" in shown(app.bench.status), "the reason")
        assert app.session.engine is engine


async def test_the_search_marks_what_it_finds_takes_letters_and_ends_with_esc(
    tmp_path: Path,
) -> None:
    app = with_shelf(tmp_path)
    async with standing(app) as pilot:
        page = await opened(app, pilot)
        await pilot.press("slash", *"multiplied")
        await settled(pilot, lambda: page.searched == "multiplied", "what was found")
        assert ids(page) == ["session_00000001"]
        await settled(pilot, lambda: page.is_previewed, "the place")
        assert "have to be multiplied" in text(page)
        await pilot.press("escape")
        await settled(pilot, lambda: page.searched == "", "all of them")
        assert len(ids(page)) == 7
        assert app.screen is page.page
        await pilot.press("slash", *"drptuxa")
        await pilot.pause()
        assert page.page.query_one(Input).value == "drptuxa"
        assert app.screen is page.page
        await pilot.press("escape")
        await settled(pilot, lambda: page.searched == "", "all of them again")
        await pilot.press("escape")
        await settled(pilot, lambda: app.screen is app.bench, "the end of it")


async def test_letters_that_were_meant_for_the_composer_do_nothing(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    async with standing(app) as pilot:
        app.action_sessions()
        await settled(pilot, lambda: is_listing(app, SessionSource), "the page")
        page = sessions_of(app)
        await settled(pilot, lambda: not page.is_reading, "the list")
        await pilot.press("d", "p", "r", "enter")
        await pilot.pause()
        assert app.screen is page.page


async def test_a_name_is_kept_and_a_pin_goes_to_the_top_and_away_again(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    async with standing(app) as pilot:
        page = await opened(app, pilot)
        await to(pilot, page, "3")
        await take_action(app, pilot, "name")
        await settled(pilot, lambda: isinstance(app.screen, LineForm), "the form")
        await pilot.press(*"Taxes", "enter")
        await settled(pilot, lambda: "Taxes" in text(page), "the name")
        path = session_path(tmp_path, WORKSPACE, "session_00000003")
        assert open_to_read(path).state.session.name == "Taxes"
        await take_action(app, pilot, "pin, unpin")
        await settled(pilot, lambda: ids(page)[0] == "session_00000003", "the top")
        await take_action(app, pilot, "pin, unpin")
        await settled(pilot, lambda: ids(page)[0] == "session_00000004", "its place")


async def test_the_open_session_is_named_and_pinned_by_its_engine(tmp_path: Path) -> None:
    app = with_shelf(tmp_path, folder=OWN)
    async with standing(app) as pilot:
        assert app.session.engine is not None
        state = app.session.engine.store.state
        page = await opened(app, pilot)
        await to(pilot, page, "1")
        assert "this one" in text(page)
        await take_action(app, pilot, "pin, unpin")
        await settled(pilot, lambda: state.session.pinned, "the pin")
        await take_action(app, pilot, "name")
        await settled(pilot, lambda: isinstance(app.screen, LineForm), "the form")
        await pilot.press(*"Mine", "enter")
        await settled(pilot, lambda: state.session.name == "Mine", "the name")
        await pilot.press("enter")  # it is open already
        await settled(pilot, lambda: app.screen is app.bench, "the chat")
        assert sources(app).resumed == []


@pytest.mark.parametrize(
    ("ends_with", "says"),
    [(0, ""), (2, "exit status 2"), (OSError(errno.ENOMEM, "no memory left"), "no memory left")],
)
async def test_the_chosen_session_is_watched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_with: int | OSError, says: str
) -> None:
    watched: list[Path] = []

    async def replay(_app: DuckflowApp, session: Path) -> int:
        watched.append(session)
        if isinstance(ends_with, OSError):
            raise ends_with
        return ends_with

    monkeypatch.setattr(sessions, "watch_again", replay)  # which would have the terminal
    app = with_shelf(tmp_path)
    async with standing(app) as pilot:
        page = await opened(app, pilot)
        await to(pilot, page, "9")  # which is no session: its reason stands there already
        await take_action(app, pilot, "replay")
        assert not watched
        while page.facts is None or not page.facts.session_id.endswith("3"):
            await pilot.press("up")
        await take_action(app, pilot, "replay")
        await settled(pilot, lambda: bool(watched), "the replay")
        assert watched == [session_path(tmp_path, WORKSPACE, "session_00000003")]
        await settled(pilot, lambda: says in text(page), "how it ended")
        assert ("Not replayed" in text(page)) is bool(says)
        assert app.screen is page.page


async def test_only_an_answer_moves_to_the_trash_and_enter_fetches_back(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    path = session_path(tmp_path, WORKSPACE, "session_00000003")
    async with standing(app) as pilot:
        page = await opened(app, pilot)
        await to(pilot, page, "3")
        await take_action(app, pilot, "to the trash")
        await settled(pilot, lambda: "Enter moves" in text(page), "the question")
        settle(app)
        await pilot.press("n")
        await settled(pilot, lambda: "Enter moves" not in text(page), "no")
        assert path.is_dir()
        await take_twice(app, pilot, "to the trash", "Enter moves")
        await settled(pilot, lambda: "session_00000003" not in ids(page), "that it is gone")
        assert not path.exists()
        await take_action(app, pilot, "open, leave trash")
        await settled(pilot, lambda: ids(page) == ["session_00000003"], "the trash")
        assert "pin" not in text(page)
        await pilot.press("enter")
        await settled(pilot, lambda: path.is_dir(), "the session")
        await settled(pilot, lambda: ids(page) == [], "the empty trash")
        assert "The trash is empty" in text(page)


async def test_what_is_open_elsewhere_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    path = session_path(tmp_path, WORKSPACE, "session_00000003")
    resumed = resume_journal(path, NOW)
    try:
        async with standing(app) as pilot:
            page = await opened(app, pilot)
            await to(pilot, page, "3")
            for key in ("name", "pin, unpin", "to the trash"):
                assert page.facts is not None
                assert "open in another window" not in text(page), key
                await take_action(app, pilot, key)
                await settled(pilot, lambda: "open in another window" in text(page), key)
                assert app.screen is page.page, key
                await pilot.press("down", "up")  # the reason goes
                await to(pilot, page, "3")
        assert path.is_dir()
    finally:
        resumed.journal.close_now()


async def test_the_session_at_work_is_not_put_into_the_trash(tmp_path: Path) -> None:
    app = with_shelf(tmp_path, folder="session_00000003")
    async with standing(app) as pilot:
        page = await opened(app, pilot)
        await to(pilot, page, "3")
        await take_action(app, pilot, "to the trash")
        await settled(pilot, lambda: "open here" in text(page), "the reason")
        assert app.screen is page.page


async def test_one_in_use_says_that_it_waits_too(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    resumed = resume_journal(session_path(tmp_path, WORKSPACE, "session_00000001"), NOW)
    try:
        async with standing(app) as pilot:
            page = await opened(app, pilot)
            assert "open · waiting for approval" in text(page)
    finally:
        resumed.journal.close_now()


async def test_a_narrow_page_says_the_state_and_who_speaks(tmp_path: Path) -> None:
    """The window begins in the middle of a text; that it is the AI's stands there all the same."""
    said = " ".join(f"word{number}" for number in range(400))
    record(tmp_path, "session_0000000a", [asked("tell me", NOW), replied(said, NOW)])
    app = with_shelf(tmp_path)
    async with standing(app, 60, 20) as pilot:
        page = await opened(app, pilot)
        await to(pilot, page, "a")
        assert "waiting for approval" in text(page)
        rows = text(page).splitlines()
        first = next(row for row in rows if "word" in row)
        assert "word0 " not in first
        assert first.split()[0] == "AI"


async def test_the_app_begins_with_the_page_where_it_is_asked_for(tmp_path: Path) -> None:
    shelf(tmp_path)
    catalog = Catalog(tmp_path, clock=ManualClock(NOW))
    app = app_with(FakeEngine(store_with()), catalog=catalog, choose=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot, lambda: is_listing(app, SessionSource), "the page")
        page = sessions_of(app)
        await settled(pilot, lambda: not page.is_reading, "the list")
        settle(app)
        await to(pilot, page, "2")
        await pilot.press("enter")
        await settled(pilot, lambda: not app.session.opening, "the session")
        assert sources(app).resumed == ["session_00000002"]


class LateCatalog(Catalog):
    """Reads on only once it may."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir, clock=ManualClock(NOW))
        self.may_read = threading.Event()

    def refresh(self, within: float | None = None) -> bool:
        if within is not None:
            assert self.may_read.wait(10.0)
        return super().refresh(within)


@pytest.mark.parametrize("walked", [False, True])
async def test_a_session_that_is_read_late_gets_the_cursor_unless_the_user_moved_it(
    tmp_path: Path, walked: bool
) -> None:
    """Without an id, ``--resume`` offers the newest, also below one that is pinned."""
    shelf(tmp_path)
    catalog = LateCatalog(tmp_path)
    catalog.refresh()
    record(tmp_path, "session_0000000a", [asked("What was cut", NOW)], at=NOW)
    app = app_with(FakeEngine(store_with()), catalog=catalog, choose=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot, lambda: is_listing(app, SessionSource), "the page")
        page = sessions_of(app)
        await settled(pilot, lambda: page.facts is not None and page.is_previewed, "what is known")
        before = page.page.chosen_id
        assert before.endswith("1")
        if walked:
            await pilot.press("up", "down", "down", "up")
        catalog.may_read.set()
        await settled(pilot, lambda: not page.is_reading and page.is_previewed, "the list")
        assert page.page.chosen_id.rpartition("_")[2] == ("00000001" if walked else "0000000a")


async def test_esc_there_begins_a_new_session(tmp_path: Path) -> None:
    shelf(tmp_path)
    catalog = Catalog(tmp_path, clock=ManualClock(NOW))
    app = app_with(FakeEngine(store_with()), catalog=catalog, choose=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot, lambda: is_listing(app, SessionSource), "the page")
        await pilot.press("escape")
        await settled(pilot, lambda: not app.session.opening, "the session")
        assert sources(app).resumed == [""]


async def test_no_text_of_a_journal_acts(tmp_path: Path) -> None:
    bad = "a\x1b]52;c;aGk=\x07b [bold]c \u202e d"
    record(tmp_path, "session_00000001", [asked(bad, NOW - HOUR), replied(bad, NOW - HOUR)])
    catalog = Catalog(tmp_path, clock=ManualClock(NOW))
    app = app_with(FakeEngine(store_with()), catalog=catalog)
    async with standing(app) as pilot:
        page = await opened(app, pilot)
        rows = text(page)
        assert rows.count("a␛]52;c;aGk=␇b [bold]c ⟨U+202E⟩ d") == 3


# --- the commands --------------------------------------------------------------------------------


async def test_rename_names_the_session_or_asks(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    async with standing(app) as pilot:
        assert app.session.engine is not None
        state: AgentState = app.session.engine.store.state
        await commanded(pilot, "/rename My shop")
        await settled(pilot, lambda: state.session.name == "My shop", "the name")
        await commanded(pilot, "/rename ")
        await settled(pilot, lambda: isinstance(app.screen, LineForm), "the form")
        await pilot.press("escape")
        await settled(pilot, lambda: app.screen is app.bench, "the chat")
        assert state.session.name == "My shop"
        await commanded(pilot, "/rename ")
        await settled(pilot, lambda: isinstance(app.screen, LineForm), "the form")
        await pilot.press("s", "enter")
        await settled(pilot, lambda: state.session.name == "My shops", "the name")


async def test_export_writes_the_open_session_and_asks_before_it_replaces(tmp_path: Path) -> None:
    app = with_shelf(tmp_path, folder=OWN)
    async with standing(app) as pilot:
        for name in ("out.md", "out.json"):
            target = tmp_path / name
            await commanded(pilot, f"/export {target}")
            await settled(pilot, target.exists, "the file")
            assert stat.S_IMODE(target.stat().st_mode) == 0o600
            assert "have to be multiplied" in target.read_text(encoding="utf-8")
            target.write_text("mine")
            for answer, kept in (("n", True), ("y", False)):
                await commanded(pilot, f"/export {target}")
                await settled(pilot, lambda: isinstance(app.screen, Confirm), "the question")
                settle(app)
                await pilot.press(answer)
                await settled(pilot, lambda: app.screen is app.bench, "the chat")
                if not kept:
                    await settled(pilot, lambda t=target: t.read_text() != "mine", name)
                assert (target.read_text() == "mine") is kept
    assert json.loads((tmp_path / "out.json").read_text())["duckflow_session"] == 1


async def test_a_session_that_is_nowhere_cannot_be_exported(tmp_path: Path) -> None:
    app = with_shelf(tmp_path)
    async with standing(app) as pilot:
        await commanded(pilot, "/export x.md")
        await settled(pilot, lambda: "only in memory" in shown(app.bench.status), "the reason")


async def test_the_figures_of_this_folder_are_a_page_of_their_own(tmp_path: Path) -> None:
    """On a narrow screen too all of them can be read. Covers S1-51."""
    app = with_shelf(tmp_path)
    async with standing(app, 60, 20) as pilot:
        await commanded(pilot, "/stats")
        await settled(pilot, lambda: "changes undone" in screen_text(app), "all")
        for said in ("Month    Sessions", "2025-05", "calls to models"):
            assert said in screen_text(app), said
        settle(app)
        await pilot.press("escape")
        assert app.screen is app.bench
