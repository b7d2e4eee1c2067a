"""The user's messages under the keys: going back, with files or without, taking it back, forks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.app_states import (
    FakeEngine,
    FakeSessions,
    app_with,
    settled,
    standing,
    store_with,
)
from support.conversations import user
from support.lists import is_listing, list_text, take_action
from support.pinned import ManualClock
from support.rewind_states import asked
from support.screens import screen_text, shown
from textual import events
from textual.pilot import Pilot

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.folders import session_path
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.rewind import ConversationRewound
from duckflow_tui.state.session import DraftSaved
from duckflow_tui.state.store import Record
from duckflow_tui.state.turn import TurnInfo, TurnStarted
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.pick_list import PickList
from duckflow_tui.ui.screens.rewind import MessageSource

WAYS = ("conversation and files", "conversation only", "files only")
RENAME = "Now rename cap to limit everywhere it is used"
LAST = "what does round_half_even do here"


async def opened(app: DuckflowApp, pilot: Pilot[int], command: str = "/rewind") -> None:
    """The list, once its keys count."""
    await pilot.press(*command, "enter")
    await settled(pilot, lambda: is_listing(app, MessageSource), "the list")
    await pilot.pause()
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(SETTLE_S)


def page(app: DuckflowApp) -> str:
    return list_text(app)


def chat(app: DuckflowApp) -> str:
    assert app.bench.talk.transcript is not None
    return shown(app.bench.talk.transcript)


async def test_each_message_says_what_became_of_files_since() -> None:
    app = app_with(asked())
    async with standing(app) as pilot:
        await opened(app, pilot)
        rows = page(app).splitlines()
        assert LAST in next(row for row in rows if row.startswith("›"))
        assert "no file has changed since" in page(app)
        await pilot.press("down")
        assert "Now rename cap" in next(row for row in page(app).splitlines() if "›" in row)
        assert "3 files" in page(app)
        assert "+18 −0" in page(app)
        await pilot.press("down", "down")
        assert "+10 −6" in page(app)  # both changes of pricing.py


async def test_enter_goes_back_the_text_returns_and_files_stay() -> None:
    engine = asked()
    app = app_with(engine)
    async with standing(app) as pilot:
        await opened(app, pilot)
        await pilot.press("down", "enter")
        await settled(pilot, lambda: isinstance(app.screen, PickList), "the choice")
        await pilot.press("down", "enter")
        await settled(pilot, lambda: app.screen is app.bench, "the chat")
        assert engine.rewind.asked == ["back msg_2"]
        assert app.bench.composer.draft_text == RENAME
        await settled(pilot, lambda: "Changed since and not undone" in chat(app), "what stays")
        assert LAST not in chat(app)
        assert "2 messages of yours removed" in " ".join(chat(app).split())
        assert "Both pass." in chat(app)
        assert "/rewind undo" in shown(app.bench.status)
        app.bench.composer.replace_text("")
        await pilot.press(*"/rewind", "space", *"undo", "escape", "enter")
        await settled(pilot, lambda: LAST in chat(app), "what had left")
        assert "Changed since and not undone" not in chat(app)


async def test_a_draft_that_is_kept_late_does_not_take_the_place_of_the_text() -> None:
    engine = asked()
    app = app_with(engine)

    def keep(state: AgentState, record: Record) -> None:
        if isinstance(record.event, ConversationRewound):
            engine.store.dispatch(DraftSaved(text=""))

    async with standing(app) as pilot:
        await opened(app, pilot)
        engine.store.subscribe(keep)
        await pilot.press("down", "enter")
        await settled(pilot, lambda: isinstance(app.screen, PickList), "the choice")
        await pilot.press("down", "enter")
        await settled(pilot, lambda: app.screen is app.bench, "the chat")
        assert app.bench.composer.draft_text == RENAME


@pytest.mark.parametrize(
    ("keys", "wanted", "draft"),
    [
        ("enter", "back with files msg_2", RENAME),
        ("down enter", "back msg_2", RENAME),
        ("down down enter", "files msg_2", ""),
        ("escape", "", ""),
    ],
)
async def test_enter_offers_conversation_and_files_at_first_sight(
    keys: str, wanted: str, draft: str
) -> None:
    """What of the files would stay all the same is named with what undoes them."""
    engine = asked()
    engine.rewind.stuck = ("src/shop/receipt.py",)
    app = app_with(engine)
    async with standing(app) as pilot:
        await opened(app, pilot)
        assert "no file has changed since" in page(app)
        await pilot.press("down")
        assert "go back: conversation, files or both" in page(app)
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, PickList), "the choice")
        rows = [row.strip() for row in screen_text(app).splitlines()]
        for way in WAYS:
            assert any(way in row for row in rows), way
        assert screen_text(app).count("src/shop/receipt.py: kept") == 1
        assert engine.rewind.asked == []
        await pilot.press(*keys.split())
        if not wanted:
            await settled(pilot, lambda: is_listing(app, MessageSource), "the list")
        else:
            await settled(pilot, lambda: app.screen is app.bench, "the chat")
            if wanted.startswith("files"):
                assert LAST in chat(app)
                assert "/redo all" in shown(app.bench.status)
        assert engine.rewind.asked == [wanted] * bool(wanted)
        assert app.bench.composer.draft_text == draft


@pytest.mark.parametrize("word", ["look", "book", "rabbit", "oops", "bbob"])
async def test_a_word_typed_on_the_list_goes_to_the_composer(word: str) -> None:
    engine = asked()
    app = app_with(engine)
    async with standing(app) as pilot:
        await opened(app, pilot)
        assert isinstance(app.clock, ManualClock)
        await pilot.press("down")
        for letter in word:
            app.post_message(events.Key(letter, letter))
        await settled(pilot, lambda: app.screen is app.bench, "the chat")
        await settled(pilot, lambda: app.bench.composer.text == word, "the word")
        assert engine.rewind.asked == []


async def test_a_list_has_the_rows_that_what_is_below_it_leaves() -> None:
    """What is hidden above and below is counted, and the cursor moves before the list does."""
    store = store_with()
    store.state.messages = [
        user(f"request {n}").model_copy(update={"message_id": f"msg_{n}"}) for n in range(40)
    ]
    app = app_with(FakeEngine(store))
    async with standing(app) as pilot:
        await opened(app, pilot)

        def listed() -> list[str]:
            lines = page(app).splitlines()[2:]
            return lines[: lines.index("")]

        rows = page(app).splitlines()
        # the head, the list, a blank, three rows below, and the keys, with a blank above
        assert len(listed()) == len(rows) - 2 - 1 - 3 - 1 - 1
        shown = len(listed()) - 1
        assert listed()[-1].strip() == f"↓ {41 - shown} more"
        await pilot.press(*["down"] * (shown - 2))
        assert listed()[shown - 1].startswith("›")
        assert listed()[-1].strip() == f"↓ {41 - shown} more"
        await pilot.press("down")
        assert listed()[shown - 1].startswith("›")
        assert listed()[-1].strip() == f"↑ 1 more   ↓ {40 - shown} more"
        await pilot.press("up")
        assert listed()[shown - 2].startswith("›")
        await pilot.press(*["down"] * 40)
        assert listed()[-1].strip() == f"↑ {41 - shown} more"
        assert listed()[-2].startswith("›")


async def test_what_is_in_the_way_is_said_on_the_list() -> None:
    engine = asked()
    engine.rewind.problem = "busy"
    app = app_with(engine)
    async with standing(app) as pilot:
        await opened(app, pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: "Work is running." in page(app), "the reason")
        assert app.bench.composer.draft_text == ""
        await pilot.press("up")  # where it stands already
        await settled(pilot, lambda: "go back" not in page(app), "no way back")


async def test_a_way_back_is_taken_back_with_the_text_it_brought() -> None:
    """Unless something is in the way, or the text was changed."""
    engine = asked()
    app = app_with(engine)
    async with standing(app) as pilot:
        await opened(app, pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: app.bench.composer.draft_text == LAST, "the text")
        engine.rewind.problem = "busy"
        app.action_undo_rewind("undo")
        await settled(pilot, lambda: app.bench.status.notice_text == app.words("rewind.not.busy"))
        assert app.bench.composer.draft_text == LAST
        engine.rewind.problem = ""
        app.action_undo_rewind("undo")
        await settled(pilot, lambda: app.bench.status.notice_text == app.words("rewind.undone"))
        assert app.bench.composer.draft_text == ""


def forking(tmp_path: Path) -> tuple[DuckflowApp, FakeEngine, FakeSessions]:
    engine = asked()
    own = session_path(tmp_path, "/work/little-shop", "session_00000001")
    app = app_with(engine, catalog=Catalog(tmp_path), folder=own)
    sources = app.session.sources
    assert isinstance(sources, FakeSessions)
    sources.other = FakeEngine(store_with())
    sources.other.store.state.draft = LAST
    return app, engine, sources


@pytest.mark.parametrize(
    ("command", "keys", "wanted"),
    [
        ("/rewind", "full_stop f o r k enter", "fork msg_3"),
        ("/fork", "enter", "fork"),
        ("/fork", "down enter", "fork msg_3"),
    ],
)
async def test_the_fork_takes_the_place(
    tmp_path: Path, command: str, keys: str, wanted: str
) -> None:
    app, engine, sources = forking(tmp_path)
    async with standing(app) as pilot:
        await opened(app, pilot, command)
        assert command == "/rewind" or "Enter makes another session" in page(app)
        await pilot.press(*keys.split())
        await settled(pilot, lambda: app.session.engine is sources.other, "the fork")
        assert engine.rewind.asked == [wanted]
        assert sources.resumed == ["session_0000000f"]
        assert app.bench.composer.draft_text == LAST


async def test_the_page_of_forks_names_the_keys_that_work_there(
    tmp_path: Path,
) -> None:
    app, _, _ = forking(tmp_path)
    async with standing(app) as pilot:
        await opened(app, pilot, "/fork")
        foot = page(app).splitlines()[-1]
        assert foot == "Enter fork   / filter   Esc close"
        await pilot.press("down", "down")
        assert "undo" not in page(app)


async def test_while_work_runs_the_fork_waits_and_says_how_to_resume_it(tmp_path: Path) -> None:
    app, engine, sources = forking(tmp_path)
    turn = TurnInfo(turn_id="t", message_id="msg_3", started_at=0.0)
    async with standing(app) as pilot:
        engine.store.dispatch(TurnStarted(turn=turn))
        await opened(app, pilot)
        await take_action(app, pilot, "fork")
        said = "duckflow-tui --resume session_0000000f"
        await settled(pilot, lambda: said in shown(app.bench.status), "how")
        assert sources.resumed == []
        assert app.session.engine is engine
