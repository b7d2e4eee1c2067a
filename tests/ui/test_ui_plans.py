"""The list of plans: how far each is, and what its keys ask of the engine."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import (
    FakeEngine,
    app_with,
    at_question,
    commanded,
    settled,
    standing,
    store_with,
)
from support.lists import is_listing, list_text, settle_keys, take_action, take_twice
from support.pinned import ManualClock
from support.plans import NOW, PLAN, draft, end_card, running, said, working
from support.screens import screen_text
from textual.pilot import Pilot

from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.plan import Plan, PlanStatus
from duckflow_tui.state.plan_events import PlanClosed
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.plans import PlanSource

OTHER = "plan_00000002"


def other(language: str = "en", **fields: Any) -> Plan:
    name = "割引の説明書" if language == "ja" else "a page on discounts"
    steps = tuple(
        step.model_copy(update={"step_id": f"other_{n}", "depends_on": ()})
        for n, step in enumerate(draft(language).steps)
    )
    return draft(language, plan_id=OTHER, name=name, steps=steps, created_at=NOW + 1, **fields)


def listed(language: str = "en") -> FakeEngine:
    """Two plans; the older one is active."""
    store = store_with()
    store.state.plans = (running(language), other(language, status=PlanStatus.CLOSED))
    store.state.active_plan_id = PLAN
    return FakeEngine(store)


def page(app: DuckflowApp) -> list[str]:
    return [line for line in list_text(app).split("\n") if line.strip()]


async def open_board(app: DuckflowApp, pilot: Pilot[int]) -> None:
    """The list of plans, once its keys count."""
    await commanded(pilot, "/plans")
    await settled(pilot, lambda: is_listing(app, PlanSource), "the page")
    await pilot.pause()
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(SETTLE_S)


async def test_each_plan_says_how_far_it_is_and_one_is_in_hand() -> None:
    """Covers S2-26."""
    fake = listed()
    app = app_with(fake)
    async with standing(app, 100, 30) as pilot:
        await open_board(app, pilot)
        _, newest, older, *rest = page(app)
        assert " ".join(newest.split()) == "› a page on discounts closed · 0 of 3 done"
        assert " ".join(older.split()) == "▶ discounts active · in progress · 1 of 3 done"
        assert said()["goal"] in " ".join(rest)
        assert any(line.split()[:2] == ["○", "1"] for line in rest)
        await pilot.press("down")
        await settled(pilot, lambda: any(line.split()[:2] == ["▶", "2"] for line in page(app)))
        fake.store.dispatch(PlanClosed(plan_id=OTHER, deleted=True))
        await settled(pilot, lambda: "a page on" not in "".join(page(app)))


async def test_a_plan_is_taken_in_hand_closed_and_deleted_after_a_question() -> None:
    """Covers S2-26."""
    fake = listed()
    app = app_with(fake)
    async with standing(app, 100, 30) as pilot:
        await open_board(app, pilot)
        await pilot.press("enter", "down")
        await take_action(app, pilot, "close the plan")
        await settled(pilot, lambda: fake.plan.asked == [("activate", OTHER), ("close", PLAN)])
        await take_action(app, pilot, "delete the plan")
        await settled(pilot, lambda: any("Enter deletes" in line for line in page(app)))
        settle_keys(app)
        await pilot.press("up", "down")  # another was looked at: the question is gone
        await settled(pilot, lambda: not any("Enter deletes" in line for line in page(app)))
        assert len(fake.plan.asked) == 2
        await take_twice(app, pilot, "delete the plan", "Enter deletes")
        await settled(pilot, lambda: fake.plan.asked[2:] == [("delete", PLAN)])
        fake.plan.problem = LocalizedText(key="plan.problem.at_work")
        await take_action(app, pilot, "close the plan")
        await settled(pilot, lambda: any("stop that or answer first" in line for line in page(app)))


async def test_without_a_plan_the_list_says_so() -> None:
    app = app_with(FakeEngine(store_with()))
    async with standing(app, 100, 30) as pilot:
        await open_board(app, pilot)
        assert any("No plan in this session" in line for line in page(app))


@pytest.mark.parametrize(
    ("how", "means"), [("close", "can reopen it"), ("delete", "leaves the list")]
)
async def test_a_card_says_what_an_end_means_before_the_key(how: str, means: str) -> None:
    """Covers S2-26."""
    fake = FakeEngine(working(cards=(end_card(how),)))
    app = app_with(fake)
    async with standing(app) as pilot:
        await at_question(pilot)
        text = " ".join(screen_text(app).split())
        assert f"The AI wants to {how} this plan" in text
        assert means in text
        assert "yes, end it" in text
        await pilot.press("y")
        await settled(pilot, lambda: bool(fake.card_answers), "the answer")
        answer = fake.card_answers[0]
        assert (answer.action, answer.subject) == ("accept", how)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_list_of_plans(snap_compare: Any, language: str) -> None:
    fake = listed(language)
    theme = "duck-light" if language == "ja" else "duck-dark"
    app = app_with(fake, language=language, theme=theme)

    async def press(pilot: Pilot[int]) -> None:
        assert isinstance(pilot.app, DuckflowApp)
        await settled(pilot, lambda: not app.session.opening)
        await open_board(app, pilot)
        await pilot.press("down")
        await take_action(app, pilot, app.words("keys.plans_delete"))
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=press)
