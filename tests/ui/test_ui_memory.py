"""The notes under the user's keys: looked at, added to, deleted; and their page as a picture."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import (
    FakeEngine,
    app_with,
    commanded,
    settled,
    standing,
    store_with,
)
from support.lists import is_listing, list_text, settle_keys, take_action, take_twice
from support.pinned import ManualClock
from support.screens import screen_text, shown
from textual.pilot import Pilot

from duckflow_tui.tools.memory import MemoryFault, MemoryLine
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.panes.status import StatusLine
from duckflow_tui.ui.screens.memory import MemorySource

EN = (
    MemoryLine(4, "worked", "pytest -q src/ finds the tests of both packages", "2025-06-12"),
    MemoryLine(5, "worked", "PYTHONPATH=src is needed before anything runs", "2025-05-30"),
    MemoryLine(
        8,
        "failed",
        "Rates were summed before they were applied: 10 % and 10 % made 20 %, because total() took "
        "the list as one rate",
        "2025-06-14",
    ),
    MemoryLine(11, "preference", "Short answers, and a test before each fix", "2025-06-10"),
    MemoryLine(14, None, "releases on Fridays", ""),
)
JA = (
    MemoryLine(4, "worked", "テストは pytest -q src/ で両方のパッケージを確かめる", "2025-06-12"),
    MemoryLine(5, "worked", "実行の前に PYTHONPATH=src が要る", "2025-05-30"),
    MemoryLine(
        8,
        "failed",
        "割引率を先に足し合わせたため、10 % と 10 % が 20 % 引きになった。"
        "total() が一覧を一つの率として扱っていた",
        "2025-06-14",
    ),
    MemoryLine(11, "preference", "回答は短く、修正の前に必ずテスト", "2025-06-10"),
    MemoryLine(14, None, "リリースは金曜日", ""),
)


def noted(lines: tuple[MemoryLine, ...] = EN) -> FakeEngine:
    fake = FakeEngine(store_with())
    fake.memory.noted += lines
    return fake


def page(app: DuckflowApp) -> str:
    return list_text(app)


async def open_board(app: DuckflowApp, pilot: Pilot[int]) -> None:
    """The page of notes, once its keys count."""
    await commanded(pilot, "/memory")
    await settled(pilot, lambda: is_listing(app, MemorySource), "the page")
    await pilot.pause()
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(SETTLE_S)


async def test_the_page_names_the_file_and_lists_its_lines() -> None:
    app = app_with(noted())
    async with standing(app, 100, 30) as pilot:
        await open_board(app, pilot)
        await settled(pilot, lambda: "worked" in page(app))
        text = page(app)
        assert "memory/little-shop-0123456789ab.md" in text
        for said in ("pytest -q src/", "Short answers", "releases on Fridays", "2025-06-14"):
            assert said in text


async def test_a_line_is_deleted_after_a_question() -> None:
    fake = noted()
    app = app_with(fake)
    async with standing(app, 100, 30) as pilot:
        await open_board(app, pilot)
        await settled(pilot, lambda: "worked" in page(app))
        await pilot.press("down")
        await take_action(app, pilot, "delete the line")
        await settled(pilot, lambda: "Enter deletes" in page(app))
        await pilot.press("enter")  # too soon: nobody has read the question
        assert len(fake.memory.noted) == len(EN)
        assert "Enter came too soon" in screen_text(app)
        settle_keys(app)
        await pilot.press("down", "up")  # another line was looked at: the question is gone
        await settled(pilot, lambda: "Enter deletes" not in page(app))
        await pilot.press("enter")
        assert len(fake.memory.noted) == len(EN)
        await take_twice(app, pilot, "delete the line", "Enter deletes")
        await settled(pilot, lambda: EN[1] not in fake.memory.noted)
        await settled(pilot, lambda: "PYTHONPATH" not in page(app))
        assert len(fake.memory.noted) == len(EN) - 1


async def test_what_is_in_the_way_of_deleting_is_said_on_the_page() -> None:
    fake = noted()
    fake.memory.fault = MemoryFault("disk", "Read-only file system")
    app = app_with(fake)
    async with standing(app, 100, 30) as pilot:
        await open_board(app, pilot)
        await settled(pilot, lambda: "worked" in page(app))
        await take_twice(app, pilot, "delete the line", "Enter deletes")
        await settled(pilot, lambda: "Read-only file system" in page(app))


async def test_hostile_lines_are_shown_as_signs() -> None:
    fake = noted((MemoryLine(0, "worked", "clear \x1b[2J\u202e", "2025-\x07"),))
    app = app_with(fake)
    async with standing(app, 100, 30) as pilot:
        await open_board(app, pilot)
        await settled(pilot, lambda: "␛[2J⟨U+202E⟩" in page(app))
        assert "\x1b" not in page(app)


async def test_remember_notes_what_stands_behind_it_as_a_preference() -> None:
    fake = noted(())
    app = app_with(fake)
    async with standing(app, 100, 30) as pilot:
        await commanded(pilot, "/remember no emojis")
        await settled(pilot, lambda: bool(fake.memory.noted))
        assert (fake.memory.noted[0].kind, fake.memory.noted[0].text) == ("preference", "no emojis")
        await settled(pilot, lambda: "Noted" in shown(app.bench.query_one(StatusLine)))
        assert fake.sent == []  # it is no message to the AI


async def test_remember_says_why_it_did_not() -> None:
    fake = noted(())
    fake.memory.fault = MemoryFault("secret")
    app = app_with(fake)
    async with standing(app, 100, 30) as pilot:
        await commanded(pilot, "/remember sk-x")
        await settled(pilot, lambda: "key or password" in shown(app.bench.query_one(StatusLine)))
        await commanded(pilot, "/remember")
        await settled(pilot, lambda: "/remember short" in shown(app.bench.query_one(StatusLine)))


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_page_of_notes(snap_compare: Any, language: str) -> None:
    fake = noted(JA if language == "ja" else EN)
    app = app_with(fake, language=language, theme="duck-light" if language == "ja" else "duck-dark")

    async def press(pilot: Pilot[int]) -> None:
        assert isinstance(pilot.app, DuckflowApp)
        await settled(pilot, lambda: not app.session.opening)
        await open_board(app, pilot)
        await settled(pilot, lambda: "pytest" in page(app))
        await pilot.press("down", "down")
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=press)
