"""The pages of what was decided and of the rules: filter, place, figures, reasons, revoking."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import app_with, at_question, commanded, settled, store_with
from support.decision_states import GIVEN, KEPT, RuledEngine, decided
from support.gates import gate
from support.journal_events import started
from support.lists import is_listing, list_text, open_list, settle_keys, take_action, take_twice
from support.open_apps import OpenApps
from support.pinned import ManualClock
from support.replays import player_of, replaying, tape_with
from support.screens import screen_text
from textual.pilot import Pilot
from textual.widgets import Input

from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.calls import OperationFinished, OperationMessage, OperationRequested
from duckflow_tui.state.gates import DENY, GateChoice, GateOpened, GrantAdded
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.session import ModeChanged
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import ANEW_S, SETTLE_S
from duckflow_tui.ui.screens.decisions import DecisionSource
from duckflow_tui.ui.screens.list_page import ListPage
from duckflow_tui.ui.screens.network import NetworkSource
from duckflow_tui.ui.screens.pick_list import PickList
from duckflow_tui.ui.screens.rules import RuleSource

BOARDS = DecisionSource, RuleSource
SIZES = [(120, 40, "en"), (80, 24, "ja"), (60, 20, "en")]


def page(app: DuckflowApp) -> list[str]:
    """The page's rows, without blanks at their ends."""
    return [line.rstrip() for line in list_text(app).split("\n")]


def text(app: DuckflowApp) -> str:
    return " ".join(" ".join(page(app)).split())


async def opened(app: DuckflowApp, pilot: Pilot[int], name: str) -> ListPage[Any]:
    await commanded(pilot, f"/{name}")
    await settled(pilot, lambda: is_listing(app, *BOARDS), "the page")
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(SETTLE_S)
    return open_list(app)


async def typed(pilot: Pilot[int], text: str) -> None:
    await pilot.press("slash")
    await pilot.press(*("space" if c == " " else "full_stop" if c == "." else c for c in text))
    await pilot.pause()


async def test_the_newest_decision_comes_first_with_who_decided_and_how_often(
    open_apps: OpenApps,
) -> None:
    """Covers S4-66, S4-109."""
    async with open_apps.standing(RuledEngine(decided())) as (app, pilot):
        board = await opened(app, pilot, "decisions")
        rows = [board.source.render_row(item, 90) for item in board.list_items().values()]
        kinds = [row[2].text.strip() for row in rows]
        assert kinds == [
            *(
                "allowed by rule",
                "yours",
                "revoked",
                "allowed by --allow",
                "denied",
                "rejected",
                "approved",
            ),
            *("allowed by rule", "rule", "approved", "rule", "mode", "rule"),
        ]
        often = "asked 3 · approved 2 (67 %) · rejected 1 · auto-allowed"
        assert f"{often} 3 · denied 1 · undone 1" in text(app)
        assert f"edit: {often} 2 · undone 1" in text(app)


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ("rejected", ["4"]),
        ("denied", ["5"]),
        ("allowed by rule", ["8", "2"]),
        ("undone", ["3"]),
        ("approved", ["3", "1"]),
        ("auto-allowed", ["8", "6", "2"]),
        ("asked", ["4", "3", "1"]),
        ("2025-06-15 names.py", ["4"]),
        ("names.py", ["4"]),
        ("edit step 2", ["2"]),
        ("keep the old", ["4"]),
        ("no such thing", []),
    ],
)
async def test_the_filter_finds_kind_path_step_and_words(
    open_apps: OpenApps, words: str, places: list[str]
) -> None:
    """Covers S4-109."""
    async with open_apps.standing(RuledEngine(decided())) as (app, pilot):
        board = await opened(app, pilot, "decisions")
        await typed(pilot, words)
        assert list(board.list_items()) == [f"call_0000000{place}" for place in places]
        if not places:
            assert "No matches." in text(app)
        await pilot.press("escape")
        assert app.screen is board
        assert len(board.list_items()) == 13
        await pilot.press("escape")
        assert app.screen is app.bench


async def test_enter_goes_to_the_place_in_the_chat_of_a_rule_to_its_gate(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(RuledEngine(decided())) as (app, pilot):
        board = await opened(app, pilot, "decisions")
        await typed(pilot, "mode standard")
        await pilot.press("enter")
        assert app.screen is board
        assert "Nothing about it is in the chat" in text(app)
        await pilot.press("escape")
        await typed(pilot, "rejected")
        await pilot.press("enter")
        await settled(pilot, lambda: app.screen is app.bench, "the chat")


async def test_without_a_decision_the_page_says_so(open_apps: OpenApps) -> None:
    async with open_apps.standing(RuledEngine(store_with())) as (app, pilot):
        await opened(app, pilot, "decisions")
        assert "Nothing has been asked, denied or changed yet" in text(app)


async def test_an_export_of_a_session_that_is_not_kept_says_so_on_the_page(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(RuledEngine(decided())) as (app, pilot):
        await opened(app, pilot, "decisions")
        await take_action(app, pilot, "export")
        await settled(pilot, lambda: "nothing on disk to export" in text(app))


async def test_rules_say_where_they_are_from_and_how_often_each_was_used(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(RuledEngine(decided())) as (app, pilot):
        await opened(app, pilot, "rules")
        rows = page(app)
        assert "this session · 1 use" in next(r for r in rows if f"edit {GIVEN.path}  " in r)
        assert "this project · 1 use" in next(r for r in rows if f"edit {KEPT.path}  " in r)
        assert "--allow · 1 use" in next(r for r in rows if "python -m pytest:*" in r)
        assert not any("src/shop/cart.py" in r and "used" in r for r in rows)  # revoked
        assert "set at 14:56" in next(r for r in rows if "standard mode" in r and "set" in r)
        await pilot.press("down")
        assert "your answer to an approval" in text(app)


async def test_what_is_denied_stands_among_the_rules(open_apps: OpenApps) -> None:
    engine = RuledEngine(decided())
    denied = GIVEN.replace(grant_id="d", operation=DENY, path="git push", source="settings")
    async with open_apps.standing(engine) as (app, pilot):
        engine.store.dispatch(GrantAdded(grant=denied))
        await opened(app, pilot, "rules")
        row = next(r for r in page(app) if "never: git push" in r)
        assert "settings · 0 uses" in row
        await pilot.press("down")
        await settled(pilot, lambda: "the settings (approval.deny) or --deny" in text(app))
        assert "denies git push" in text(app)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("0", "It did not ask: reading in the folder needs no approval in standard mode."),
        (
            "1",
            "It asks: changing a file in the folder needs your approval in standard mode. A rule",
        ),
        ("2", f"It did not ask: your rule allows it: edit {GIVEN.path}"),
        ("5", "It was denied: the place is protected; no key and no rule allows it."),
        ("6", "It did not ask: the command line names it (--allow), or the demo's own rule."),
        ("7", "It did not ask: you ran it yourself."),
    ],
)
async def test_a_call_says_why_it_asked_or_did_not(
    open_apps: OpenApps, call: str, said: str
) -> None:
    async with open_apps.standing(RuledEngine(decided())) as (app, pilot):
        board = await opened(app, pilot, "rules")
        board.choose(f"call_0000000{call}")
        await settled(pilot, lambda: said in text(app), said)


async def test_the_mode_says_what_it_asks_lets_happen_and_refuses(open_apps: OpenApps) -> None:
    """By the policy's own table, also for the next mode; and where the mode is from."""
    engine = RuledEngine(store_with())
    async with open_apps.standing(engine) as (app, pilot):
        await opened(app, pilot, "rules")
        assert "by default" in text(app)
        asks, _, rest = text(app).partition(" asks for ")[2].partition(" denies ")
        refused, _, unasked = rest.partition(" does not ask for ")
        assert "changing a file in the folder, " in asks
        assert "changing something outside the folder, commands, reading a resource" in asks
        assert "of a server, tools of servers, adding a project note" in asks
        assert "a command" not in asks  # which would be only some of them
        assert refused.startswith("a protected place")
        assert "reading in the folder" in unasked
        assert "a command named by --allow, " in unasked
        engine.store.dispatch(ModeChanged(mode=ApprovalMode.PLAN, at=ManualClock().now()))
        await settled(pilot, lambda: "◆ plan mode" in text(app))
        refused = text(app).partition(" denies ")[2].partition(" does not ask for ")[0]
        assert "changing a file in the folder" in refused
        engine.store.dispatch(ModeChanged(mode=ApprovalMode.TRUSTED, at=ManualClock().now()))
        await settled(pilot, lambda: "◆ trusted mode" in text(app))
        asks, _, rest = text(app).partition(" asks for ")[2].partition(" denies ")
        assert "a command that uses the network, a command in the folder without a full" in asks
        assert "a command in the sandbox" in rest.partition(" does not ask for ")[2]


async def test_a_rule_is_revoked_once_the_question_is_answered(open_apps: OpenApps) -> None:
    """The mode and a call cannot be revoked; another row takes the question back."""
    engine = RuledEngine(decided())
    revoke, asks = "revoke the rule", "Enter revokes this rule"
    async with open_apps.standing(engine) as (app, pilot):
        board = await opened(app, pilot, "rules")
        assert revoke not in text(app)
        await pilot.press("down")
        await take_action(app, pilot, revoke)
        await settled(pilot, lambda: asks in text(app))
        await pilot.press("down", "up")
        settle_keys(app)
        assert asks not in text(app)
        assert GIVEN in engine.store.state.grants
        await take_twice(app, pilot, revoke, asks)
        await settled(pilot, lambda: GIVEN not in engine.store.state.grants)
        await settled(pilot, lambda: not any("this session · used" in name for name in page(app)))
        engine.rules.problem = LocalizedText(
            key="rules.not_forgotten", params={"path": "p", "reason": "r"}
        )
        await take_twice(app, pilot, revoke, asks)
        await settled(pilot, lambda: "the next session would have it again" in text(app))
        board.choose("call_00000005")
        await settled(pilot, lambda: revoke not in text(app))


async def test_tab_turns_to_the_rules_and_the_hosts(open_apps: OpenApps) -> None:
    async with open_apps.standing(RuledEngine(decided())) as (app, pilot):
        board = await opened(app, pilot, "decisions")
        await typed(pilot, "rejected")
        await pilot.press("tab", "tab")  # from the field to the list, then to the next one
        await settled(pilot, lambda: is_listing(app, RuleSource), "the rules")
        assert len(board.list_items()) > 1  # the filter was that of the decisions
        await pilot.press("right")
        await settled(pilot, lambda: is_listing(app, NetworkSource), "the hosts")
        await pilot.press("left", "left")
        await settled(pilot, lambda: is_listing(app, DecisionSource), "the decisions")


@pytest.mark.parametrize("name", ["decisions", "rules"])
@pytest.mark.parametrize(("width", "height", "language"), SIZES)
def test_pictures(snap_compare: Any, name: str, width: int, height: int, language: str) -> None:
    theme = "duck-light" if language == "ja" else "duck-dark"
    app = app_with(RuledEngine(decided(language)), language=language, theme=theme)

    async def press(pilot: Pilot[int]) -> None:
        assert isinstance(pilot.app, DuckflowApp)
        await settled(pilot, lambda: not app.session.opening)
        board = await opened(app, pilot, name)
        board.choose("call_00000004")
        await pilot.pause()

    assert snap_compare(app, terminal_size=(width, height), run_before=press)


async def test_p_at_a_gate_shows_the_calls_of_the_session_that_asked_for_the_same(
    open_apps: OpenApps,
) -> None:
    """In the whole app: what is counted is the session's own, of that pattern alone."""
    store = decided()
    pattern = "file_ops.edit_file src/shop/names.py"
    store.dispatch(
        GateOpened(gate=gate((), can_grant_project=True, grant_pattern=pattern, grant_only=""))
    )
    engine = RuledEngine(store)
    async with open_apps.standing(engine) as (app, pilot):
        await at_question(pilot)
        await pilot.press("p")
        await settled(
            pilot,
            lambda: "answered 1 approval (1 not allowed)" in whole(app),
            "the rule",
        )
        assert "rejected  each discount has to act" in screen_text(app)
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(ANEW_S)
        await pilot.press("p")
        await settled(pilot, lambda: bool(engine.answers), "the answer")
        assert engine.answers[0].choice is GateChoice.PROJECT


def whole(app: DuckflowApp) -> str:
    """The screen's words in a row, without the frames."""
    return " ".join(screen_text(app).replace("│", " ").split())


async def test_in_a_replay_both_pages_are_read_only() -> None:
    """Covers S4-109."""
    call = decided().state.messages[3]
    assert isinstance(call, OperationMessage)
    asked = OperationRequested(**call.copy_fields(), at=call.at)
    events = [started(), GrantAdded(grant=GIVEN), asked, OperationFinished(message=call)]
    tape = tape_with(*((float(at), event) for at, event in enumerate(events)))
    async with replaying(tape) as (app, pilot):
        await pilot.press("end")
        await settled(pilot, lambda: bool(player_of(app).store.state.grants), "the end")
        for name, action in (("rules", "revoke the rule"), ("decisions", "export")):
            app.run_typed(f"/{name}")
            await settled(pilot, lambda: is_listing(app, *BOARDS), name)
            await settled(pilot, lambda: open_list(app).is_settled, name)
            assert GIVEN.path in text(app)
            await pilot.press("down", "full_stop")
            await settled(pilot, lambda: isinstance(app.screen, PickList), "the menu")
            app.screen.query_one(Input).value = action
            await pilot.pause()
            await pilot.press("enter")
            await settled(pilot, lambda: "This is a replay" in text(app), name)
            await pilot.press("escape")
            await settled(pilot, lambda: app.screen is app.bench)
        assert player_of(app).store.state.grants == (GIVEN,)
