"""The requirements: beside the chat, on their page, and under the user's keys."""

from __future__ import annotations

import pytest
from support import goals
from support.app_states import FakeEngine, commanded, settled, store_with
from support.gates import gate
from support.lists import is_listing, list_text, open_list, take_action
from support.open_apps import OpenApps
from support.pinned import ManualClock
from support.screens import screen_text, shown
from textual.pilot import Pilot
from textual.widgets import Input, Static, TextArea

from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.decision import Check
from duckflow_tui.state.gates import GateOpened
from duckflow_tui.state.goal import (
    Evidence,
    RequirementEdited,
    RequirementItem,
    RequirementState,
    Review,
    ReviewMessage,
    TaskObjective,
)
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.goal import pick_foremost
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.form import LineForm
from duckflow_tui.ui.screens.ledger import RequirementSource
from duckflow_tui.ui.screens.requirement_form import OneOf, RequirementForm


def asked() -> FakeEngine:
    return FakeEngine(goals.at_work(objective=True))


def item_of(fake: FakeEngine, requirement_id: str) -> RequirementItem:
    objective = fake.store.state.objective
    item = objective.get_requirement(requirement_id) if objective else None
    assert item is not None
    return item


def page(app: DuckflowApp) -> str:
    return list_text(app)


async def open_board(app: DuckflowApp, pilot: Pilot[int]) -> None:
    """The page of requirements, once its keys count."""
    await commanded(pilot, "/requirements")
    await settled(pilot, lambda: is_listing(app, RequirementSource), "the page")
    await pilot.pause()
    clock = app.clock
    assert isinstance(clock, ManualClock)
    clock.advance(SETTLE_S)


# --- beside the chat ---------------------------------------------------------------------------


async def test_each_requirement_has_a_mark_and_its_words(open_apps: OpenApps) -> None:
    """Covers S1-15."""
    async with open_apps.standing(asked(), 80, 24) as (app, pilot):
        await pilot.press("f5")
        await settled(pilot, lambda: app.bench.goal.ledger.is_on_screen)
        await pilot.pause()
        rows = shown(app.bench.goal.ledger).splitlines()
    assert rows[0] == " Goal  1/4"
    assert "".join(row[1] for row in rows[1:6]) == "✓◐✗○–"
    assert rows[1].endswith("10 % and 10 % make 19 %")


async def test_beside_plan_and_diff_all_of_it_is_read_where_the_screen_is_high(
    open_apps: OpenApps,
) -> None:
    """A long one goes on below its beginning."""
    async with open_apps.standing(asked()) as (app, _):
        rows = shown(app.bench.goal.ledger).splitlines()
        assert len(rows) == 9
        assert rows[2:5] == [
            " ◐ The cause is explained in",
            "   words that a user",
            "   understands",
        ]
        assert rows[-1:] == [" – The receipt is mended too"]


@pytest.mark.parametrize(("height", "rows"), [(40, 9), (30, 4), (24, 1)])
async def test_on_a_lower_screen_it_takes_less_and_counts_the_rest(
    open_apps: OpenApps, height: int, rows: int
) -> None:
    async with open_apps.standing(asked(), 120, height) as (app, _):
        assert app.bench.goal.ledger.size.height == rows
        assert ("… 3 more · /requirements" in shown(app.bench.goal.ledger)) is (rows == 4)


async def test_while_a_gate_is_open_it_is_one_line_where_the_screen_is_low(
    open_apps: OpenApps,
) -> None:
    """The line says how many are met, and what is open."""
    fake = asked()
    async with open_apps.standing(fake, 120, 30) as (app, pilot):
        fake.store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: app.bench.goal.ledger.size.height == 1, "one line")
        first = pick_foremost(goals.requirements(), 1)[0].requirement
        assert first[:8] in shown(app.bench.goal.ledger)
        await settled(pilot, lambda: "Goal  1/4" in screen_text(app), "the figures")
        await pilot.resize_terminal(120, 40)
        await settled(pilot, lambda: app.bench.goal.ledger.size.height == 9, "all of them")


async def test_without_requirements_it_takes_no_room(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        assert not app.bench.goal.ledger.is_on_screen
        goals.set_objective(
            app.session.engine.store if app.session.engine else store_with(), items=()
        )
        new = RequirementItem(requirement_id="req_9", requirement="It works")
        assert app.session.engine is not None
        app.session.engine.store.dispatch(RequirementEdited(item=new))
        await settled(pilot, lambda: "It works" in shown(app.bench.goal.ledger), "the first one")


def test_what_is_not_settled_is_shown_first_in_the_order_of_all() -> None:
    items = goals.requirements()
    assert [item.requirement_id for item in pick_foremost(items, 2)] == ["req_2", "req_3"]
    assert [item.requirement_id for item in pick_foremost(items, 4)] == [
        "req_1", "req_2", "req_3", "req_4",
    ]  # fmt: skip
    assert pick_foremost(items, 9) == list(items)


@pytest.mark.parametrize("key", ["enter", "click"])
async def test_it_opens_the_page(open_apps: OpenApps, key: str) -> None:
    async with open_apps.standing(asked()) as (app, pilot):
        if key == "click":
            await pilot.click(app.bench.goal.ledger)
        else:
            app.bench.set_focus(app.bench.goal.ledger)
            await pilot.press(key)
        await settled(pilot, lambda: is_listing(app, RequirementSource), "the page")


# --- the page ----------------------------------------------------------------------------------


async def test_the_page_shows_state_score_check_and_evidence(open_apps: OpenApps) -> None:
    """Covers S1-15, S1-27."""
    async with open_apps.standing(asked()) as (app, pilot):
        await open_board(app, pilot)
        text = page(app)
        assert "1/4 met" in text
        assert "met · 1.00" in text
        assert "priority" in text
        assert "high" in text
        assert "command  pytest -q tests/test_pricing.py" in text
        assert "exit 0 · 1 min ago" in text
        assert "12 passed in 1.91s" in text
        assert "+        price *= 1 - rate" in text
        await pilot.press("down")
        await settled(pilot, lambda: "partly met · 0.60" in page(app), "the second")
        assert "✗ reply" in page(app)
        await pilot.press("down", "down", "down")
        await settled(pilot, lambda: "another day" in page(app), "the waived one")


async def test_what_only_the_works_own_check_shows_is_met_for_now(open_apps: OpenApps) -> None:
    fake = asked()
    state = fake.store.state
    assert state.objective is not None
    ticked = item_of(fake, "req_1").replace(provisional=True)
    state.objective = state.objective.with_requirement(ticked)
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        assert page(app).count("met, not judged yet") == 2  # on its row, and among its facts


async def test_an_earlier_request_stands_below_with_what_became_of_it_and_can_only_be_read(
    open_apps: OpenApps,
) -> None:
    fake = asked()
    store = fake.store
    left = TaskObjective(
        objective_id="obj_0",
        original_query="Write the notes",
        created_at=0.0,
        extracted_requirements=(RequirementItem(requirement_id="req_1", requirement="say why"),),
        left="stopped",
    )
    store.state.earlier = (left,)
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        await pilot.press(*["down"] * 5)
        await settled(pilot, lambda: "no longer being worked on" in page(app), "the request")
        assert "· Write the notes" in page(app)
        assert "earlier · stopped · 0/1 met" in page(app)
        await pilot.press("down")
        await settled(pilot, lambda: "› ○ say why" in page(app), "its requirement")
        assert "This belongs to an earlier request" in page(app)
        assert "edit" not in page(app)
        assert "drop it" not in page(app)
        assert is_listing(app, RequirementSource)
        assert store.state.earlier == (left,)
        assert item_of(fake, "req_1").is_counted


async def test_an_evidence_leads_to_its_call_in_the_chat(open_apps: OpenApps) -> None:
    async with open_apps.standing(asked()) as (app, pilot):
        await open_board(app, pilot)
        await take_action(app, pilot, "to evidence 1")
        await settled(pilot, lambda: app.screen is app.bench, "the chat")
        await settled(pilot, lambda: app.bench.focused is app.bench.talk.transcript, "its focus")


async def test_an_evidence_without_a_place_says_so_and_the_page_stays(open_apps: OpenApps) -> None:
    async with open_apps.standing(asked()) as (app, pilot):
        await open_board(app, pilot)
        await take_action(app, pilot, "to evidence 2")  # a call that is not in this chat
        await settled(pilot, lambda: "Nothing about it is in the chat" in page(app), "the word")
        await pilot.press("down")  # a judgement: no call at all
        await settled(pilot, lambda: "to evidence 1" not in page(app), "no way")
        assert is_listing(app, RequirementSource)


async def test_keys_in_the_first_moment_change_nothing(open_apps: OpenApps) -> None:
    fake = asked()
    async with open_apps.standing(fake) as (app, pilot):
        await commanded(pilot, "/requirements")
        await settled(pilot, lambda: is_listing(app, RequirementSource), "the page")
        await pilot.press("enter")
        await pilot.pause()
        assert is_listing(app, RequirementSource)
        assert item_of(fake, "req_1").priority == 1


async def test_another_priority_leaves_what_was_shown(open_apps: OpenApps) -> None:
    fake = asked()
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, RequirementForm), "the form")
        app.screen.query_one("#form-priority", OneOf).action_go(1)
        await pilot.press("ctrl+s")
        await settled(pilot, lambda: item_of(fake, "req_1").priority == 2, "the priority")
        assert item_of(fake, "req_1").state is RequirementState.MET  # its evidence still counts
        assert not item_of(fake, "req_1").by_user  # the words are still the model's


async def test_evidence_without_a_call_leads_to_the_review_that_saw_it_or_has_no_number(
    open_apps: OpenApps,
) -> None:
    fake = asked()
    objective = fake.store.state.objective
    assert objective is not None
    seen = Evidence(kind="file", text="is there", source="README.md", at=10.0)
    item = objective.extracted_requirements[0].model_copy(update={"evidence": (seen,)})
    fake.store.state.objective = objective.with_requirement(item)
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        assert "1 ✓ README.md" not in page(app)
        judged = Review(review_id="rev_1", attempt=1, max_attempts=3, score=1.0, done=True)
        fake.store.state.messages.append(ReviewMessage(message_id="m_rev", review=judged, at=20.0))
        open_list(app).invalidate()
        await settled(pilot, lambda: "1 ✓ README.md" in page(app), "the number")
        assert app.bench.talk.transcript is not None
        app.bench.talk.transcript.show_state(fake.store.state)
        await take_action(app, pilot, "to evidence 1")
        await settled(pilot, lambda: not is_listing(app, RequirementSource), "the chat")


async def test_new_words_take_the_evidence_away_and_are_the_users(open_apps: OpenApps) -> None:
    fake = asked()
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, RequirementForm), "the form")
        area = app.screen.query_one(TextArea)
        assert area.text == "10 % and 10 % make 19 %"
        area.text = "Two discounts of 10 % make 19 %"
        await pilot.press("ctrl+s")
        await settled(pilot, lambda: item_of(fake, "req_1").by_user, "the edit")
        item = item_of(fake, "req_1")
        assert item.requirement == "Two discounts of 10 % make 19 %"
        assert item.state is RequirementState.OPEN
        assert item.check == goals.requirements()[0].check
        await settled(pilot, lambda: "written by" in page(app), "the page")


async def test_another_kind_of_check_with_its_value(open_apps: OpenApps) -> None:
    fake = asked()
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        await pilot.press("down", "enter")
        await settled(pilot, lambda: isinstance(app.screen, RequirementForm), "the form")
        app.screen.query_one("#form-kind").focus()
        await settled(pilot, lambda: isinstance(app.screen.focused, OneOf), "the kinds")
        await pilot.press("right")  # from judgement round to command
        app.screen.query_one(Input).value = "pytest -q"
        await pilot.press("ctrl+s")
        wanted = Check(kind="command", value="pytest -q")
        await settled(pilot, lambda: item_of(fake, "req_2").check == wanted, "the check")


@pytest.mark.parametrize(
    ("steps", "value", "problem"),
    [
        (0, "", ""),  # a judgement needs none
        (1, "", "needs a value"),
        (2, "", "needs a value"),
        (3, "README.md", "path: text"),
        (3, "README.md: ", "path: text"),
        (3, "README.md: Usage", ""),
    ],
)
async def test_a_new_requirement_is_checked_before_it_is_taken(
    open_apps: OpenApps, steps: int, value: str, problem: str
) -> None:
    fake = asked()
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        await take_action(app, pilot, "add")
        await settled(pilot, lambda: isinstance(app.screen, RequirementForm), "the form")
        await pilot.press("ctrl+s")
        form = app.screen
        said = form.query_one(".form-problem", Static)
        await settled(pilot, lambda: "needs text" in str(said.content), "the first problem")
        form.query_one(TextArea).text = "It is documented"
        form.query_one("#form-priority", OneOf).action_go(1)
        for _ in range(steps):
            form.query_one("#form-kind", OneOf).action_go(1)
        form.query_one(Input).value = value
        await pilot.press("ctrl+s")
        if problem:
            await settled(pilot, lambda: problem in str(said.content), problem)
            assert app.screen is form
            return
        await settled(pilot, lambda: is_listing(app, RequirementSource), "the page")
        objective = fake.store.state.objective
        assert objective is not None
        new = objective.extracted_requirements[-1]
        assert (new.requirement, new.priority, new.by_user) == ("It is documented", 2, True)
        assert new.check.value == value
        assert open_list(app).chosen_id == new.requirement_id  # the next key is meant for it


async def test_a_requirement_is_waived_with_a_reason_and_wanted_again(open_apps: OpenApps) -> None:
    fake = asked()
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        await pilot.press("down", "down")
        await take_action(app, pilot, "drop it, with a reason")
        await settled(pilot, lambda: isinstance(app.screen, LineForm), "the question")
        await pilot.press(*"later", "enter")
        await settled(pilot, lambda: not item_of(fake, "req_3").is_counted, "the waiver")
        assert item_of(fake, "req_3").waived_because == "later"
        await settled(pilot, lambda: "1/3 met" in page(app), "the count")
        await take_action(app, pilot, "restore it")
        await settled(pilot, lambda: item_of(fake, "req_3").is_counted, "its return")


async def test_escape_waives_nothing(open_apps: OpenApps) -> None:
    fake = asked()
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        await take_action(app, pilot, "drop it, with a reason")
        await settled(pilot, lambda: isinstance(app.screen, LineForm), "the question")
        await pilot.press("x", "escape")
        await settled(pilot, lambda: is_listing(app, RequirementSource), "the page")
        assert item_of(fake, "req_1").is_counted


async def test_what_the_engine_refuses_is_said_on_the_page(
    open_apps: OpenApps, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = LocalizedText(key="ledger.problem.not_there", params={"id": "req_1 [now]"})
    fake = asked()

    def refuse(*_: object) -> LocalizedText:
        return problem

    monkeypatch.setattr(fake.ledger, "waive_requirement", refuse)
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        await take_action(app, pilot, "drop it, with a reason")
        await pilot.press("enter")
        await settled(pilot, lambda: "no requirement req_1 [now]" in page(app), "the problem")
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, RequirementForm), "the form")
        await pilot.press("escape")
        await settled(pilot, lambda: is_listing(app, RequirementSource), "the page")
        assert "no requirement" not in page(app)


async def test_without_a_request_there_is_nothing_to_add_to(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        await open_board(app, pilot)
        assert "There is no request yet" in page(app)
        await pilot.press("full_stop")
        await pilot.pause()
        assert is_listing(app, RequirementSource)


async def test_a_first_requirement_can_be_the_users_own(open_apps: OpenApps) -> None:
    fake = FakeEngine(goals.at_work())
    goals.set_objective(fake.store, items=())
    async with open_apps.standing(fake) as (app, pilot):
        await open_board(app, pilot)
        await take_action(app, pilot, "add")
        await settled(pilot, lambda: isinstance(app.screen, RequirementForm), "the form")


async def test_hostile_words_of_a_requirement_are_made_visible(open_apps: OpenApps) -> None:
    fake = FakeEngine(goals.at_work())
    bad = RequirementItem(requirement_id="req_1", requirement="a\x1b[2J\u202e[b]x[/b]\nsecond")
    goals.set_objective(fake.store, items=(bad,))
    async with open_apps.standing(fake) as (app, pilot):
        beside = shown(app.bench.goal.ledger)
        await open_board(app, pilot)
        for text in (beside, page(app)):
            assert "[b]x[/b]" in text
            assert "\x1b" not in text
            assert "\u202e" not in text


@pytest.mark.parametrize(("width", "height"), [(20, 5), (40, 10), (60, 20)])
async def test_small_screens_draw_it_all_the_same(
    open_apps: OpenApps, width: int, height: int
) -> None:
    async with open_apps.standing(asked(), width, height) as (app, pilot):
        await pilot.press("f5", "enter", "down", "pagedown")
        await pilot.press("escape")
        app.action_page("requirements")
        await settled(pilot, lambda: is_listing(app, RequirementSource), "the page")
        await pilot.press("down", "pagedown", "escape")
