"""What there is to show makes the layout: the column beside the chat, its width, one pane alone."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from support import goals
from support.app_states import (
    DEADLINE,
    FakeEngine,
    app_with,
    at_question,
    settled,
    standing,
    store_with,
    turn_started,
)
from support.consults import consultation
from support.conversations import answer, assistant, operation, user
from support.gates import gate, many_lines, preview
from support.open_apps import OpenApps
from support.plans import running, working
from support.running_states import ended
from support.screens import screen_text, stands
from textual.events import MouseDown, MouseMove, MouseUp
from textual.widget import Widget

from duckflow_tui.state.conversation import UserMessageAdded
from duckflow_tui.state.gates import CardKind, CardOpened, Gate, GateChoice, GateOpened
from duckflow_tui.state.goal import RequirementItem
from duckflow_tui.state.operations import Effect
from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.plan import PlanStatus
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import LoopStarted
from duckflow_tui.ui import first_frame
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.layout import BROAD, MAIN, TEXT, chat_width
from duckflow_tui.ui.panes.diff_pane import find_newest_change
from duckflow_tui.ui.panes.side import LEAST, MOST
from duckflow_tui.ui.screens.whole_diff import WholeDiff


def shown(app: DuckflowApp) -> set[str]:
    """The panes beside the chat, or in its place, that are on the screen."""
    bench = app.bench
    panes: dict[str, Widget] = {"plan": bench.plan, "diff": bench.diff, "vitals": bench.vitals}
    panes["goal"] = bench.goal.ledger
    titles = {f"title of {name}": bench.query_one(f"#{name}-title") for name in ("plan", "diff")}
    found = {name for name, pane in panes.items() if pane.is_on_screen}
    return found | {name for name, title in titles.items() if title.is_on_screen}


def edited(store: Store) -> None:
    """An edit was asked for, allowed and made."""
    store.state.messages.append(
        operation("file_ops.edit_file", {"path": "src/shop/pricing.py"}, gate=gate())
    )


def spoil(kept: Path) -> None:
    """Something else than the app wrote is in the file."""
    kept.write_text("[]")


TITLES = {"title of plan", "title of diff"}


@pytest.mark.parametrize(("width", "columns"), [(120, 30), (127, 37), (200, 44)])
async def test_whatever_the_column_comes_to_hold_it_keeps_its_width(
    open_apps: OpenApps, width: int, columns: int
) -> None:
    """What is empty is its title alone, and so is a diff; the chat is wrapped once in a session."""
    store, line = store_with(), "0123456789" * 8
    store.state.messages.append(ended("pytest", line, 0))
    async with open_apps.standing(FakeEngine(store), width, 40) as (app, pilot):
        side = app.bench.side
        assert line in screen_text(app), "output of 80 columns"
        assert shown(app) == {"vitals", *TITLES}
        assert side.region.width == columns
        goals.set_objective(store)
        app.state = store.state
        await settled(pilot, lambda: shown(app) == {"vitals", "goal", *TITLES}, "the goal")
        assert side.region.width == columns
        store.state.plans, store.state.active_plan_id = (running(),), running().plan_id
        edited(store)
        app.state = store.state
        all_of_it = {"vitals", "goal", "plan", *TITLES}
        await settled(pilot, lambda: shown(app) == all_of_it, "the plan")
        assert side.region.width == columns
        assert (
            "pricing.py"
            in screen_text(app).splitlines()[app.bench.query_one("#diff-title").region.y]
        )
        store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: app.bench.question.is_on_screen, "the gate")
        assert "diff" not in shown(app)
        assert side.region.width == columns


async def test_each_pane_takes_the_rows_it_needs(open_apps: OpenApps) -> None:
    store = store_with()
    async with open_apps.standing(FakeEngine(store), 120, 40) as (app, pilot):
        store.state.plans, store.state.active_plan_id = (running(),), running().plan_id
        edited(store)
        app.state = store.state
        await pilot.press("alt+left")  # from here on a diff has room
        both = {"plan", "diff", *TITLES}
        await settled(pilot, lambda: shown(app) == {"vitals", *both}, "plan and diff")
        plan, diff = app.bench.plan.region, app.bench.diff.region
        assert plan.height <= 8, "no more rows than it needs"
        assert plan.bottom < diff.y
        assert diff.bottom >= 38, "the rest is for the change"
        await pilot.resize_terminal(119, 40)
        await settled(pilot, lambda: shown(app) == set(), "the chat alone")
        assert app.bench.composer.region.width >= 104
        assert app.bench.pill.is_on_screen
        await pilot.resize_terminal(120, 40)
        await settled(pilot, lambda: "plan" in shown(app), "the column")
        assert not app.bench.pill.is_on_screen


@pytest.mark.parametrize("width", [80, 106, 120, 200])
async def test_text_is_never_wider_than_is_easy_to_read(open_apps: OpenApps, width: int) -> None:
    """The first frame has the composer at the place where the app has it."""
    import pyte

    store = store_with()
    store.state.messages.append(operation("file_ops.read_file", {"path": "x" * 300}))
    async with open_apps.standing(FakeEngine(store), width, 30) as (app, _):
        composer = app.bench.composer.region
        assert composer.width == min(chat_width(width, 30) - 2, MAIN)
        transcript = app.bench.talk.transcript
        assert transcript is not None
        rows = transcript.render_lines(transcript.size.region)
        assert max(len(strip.text.rstrip()) for strip in rows) <= TEXT + 3
    screen = pyte.Screen(width, 30)
    drawn = first_frame.drawing(width, 30, "en", "shop", first_frame.palette_named("duck-dark"))
    pyte.Stream(screen).feed(drawn)
    frame = screen.display[composer.y][: chat_width(width, 30)].rstrip()
    assert frame[-1] == "╮"
    assert len(frame) == composer.right


async def test_the_diff_of_what_was_made_stands_beside_a_question_until_the_next_request(
    open_apps: OpenApps,
) -> None:
    """What is decided is in the gate alone, also where the pane has room for it."""
    store = store_with()
    edited(store)
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await pilot.press("alt+left")
        await settled(pilot, lambda: "diff" in shown(app), "the diff")
        store.dispatch(GateOpened(gate=gate([many_lines(4)])))
        await settled(pilot, lambda: "value_0 = 0" in screen_text(app), "the gate")
        assert screen_text(app).count("value_0 = 0") == 1
        assert app.bench.diff.view.document.previews[0].path == "src/shop/pricing.py"
        assert "diff" in shown(app)
        store.state.gates = ()
        store.dispatch(UserMessageAdded(message=user("and now the receipt")))
        app.state = store.state
        await settled(pilot, lambda: "diff" not in shown(app), "its title alone")


def test_a_change_is_overtaken_by_the_next_request_only() -> None:
    change = operation("file_ops.edit_file", {"path": "src/shop/pricing.py"}, gate=gate())
    ran = operation("shell.run", {"command": "ls"}, gate=gate(()), answer=answer(GateChoice.ONCE))
    beside = user("how far are you?").replace(aside=True)
    assert find_newest_change([change, beside, ran]) == (change, False)
    assert find_newest_change([change, user("and now the receipt"), ran]) == (change, True)
    assert find_newest_change([user("go on")])[0] is None


@pytest.mark.parametrize("works", [True, False])
async def test_what_an_earlier_request_needed_leaves_with_the_first_answer_to_the_next(
    open_apps: OpenApps, works: bool
) -> None:
    """The chat keeps its width all the while."""
    store = goals.at_work(objective=True)
    store.state.turn = None
    plan = running()
    store.state.plans = (plan.replace(status=PlanStatus.COMPLETED),)
    store.state.active_plan_id = plan.plan_id
    edited(store)
    store.state.messages[-1] = store.state.messages[-1].replace(step_id=plan.steps[-1].step_id)
    fake = FakeEngine(store)
    async with open_apps.standing(fake, 120, 40) as (app, pilot):
        all_of_it = {"vitals", "goal", "plan", *TITLES}
        await settled(pilot, lambda: shown(app) == all_of_it, "all of it")
        width = app.bench.talk.region.width
        store.dispatch(UserMessageAdded(message=user("and now the receipt")))
        goals.set_objective(store, items=())
        begun = turn_started()
        calls = store.state.usage.calls
        store.dispatch(begun.replace(turn=begun.turn.replace(calls_before=calls)))
        app.bridge.show_now()
        await pilot.pause()
        assert app.bench.talk.region.width == width
        if works:
            new = RequirementItem(requirement_id="r9", requirement="The receipt is right")
            goals.set_objective(store, items=(new,))
        store.state.usage = store.state.usage.replace(calls=calls + 1)
        store.dispatch(LoopStarted(loop=2, limit=14))
        wanted = {"vitals", *TITLES, *({"goal"} if works else set[str]())}
        await settled(pilot, lambda: shown(app) == wanted, "what this request needs")
        assert app.bench.talk.region.width == width
        said = "The receipt is right"
        await settled(pilot, lambda: (said in screen_text(app)) is works, "the requirement")


async def test_the_gauges_stay_while_the_user_types_and_is_consulted(open_apps: OpenApps) -> None:
    """Covers S4-117."""
    fake = FakeEngine(goals.falling())
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("alt+4")
        await settled(pilot, lambda: app.bench.focused is app.bench.vitals, "the focus")
        await pilot.press("enter")
        await settled(pilot, lambda: app.bench.vitals.explained, "the figures")
        await pilot.press("h", "o", "w")
        await settled(pilot, lambda: app.bench.composer.text == "how", "the composer")
        assert "vitals" in shown(app)
        fake.store.dispatch(CardOpened(card=consultation(Pattern.STAGNATION)))
        await settled(pilot, lambda: app.bench.talk.asks is CardKind.CONSULTATION, "the card")
        assert "vitals" in shown(app)


async def test_without_a_column_the_gauges_are_bars_on_the_status_line(open_apps: OpenApps) -> None:
    """Where room is short the names go first, then the bars, which ``always`` keeps."""
    fake = FakeEngine(goals.falling())
    async with open_apps.standing(fake, 120, 40) as (app, pilot):
        bars = re.compile(r"mood [▁-▇] focus [▁-▇] stamina [▁-▇]")

        def foot() -> str:
            return screen_text(app).splitlines()[-1]

        assert not bars.search(foot())
        await pilot.press("f6", "f6")
        await settled(pilot, lambda: bars.search(foot()) is not None, "a hidden column")
        await pilot.resize_terminal(80, 24)
        await settled(pilot, lambda: "(x)> ▃ ▃ ▃  mood falling" in foot(), "no room for a column")
        await pilot.resize_terminal(20, 24)
        await settled(pilot, lambda: not re.search("[▁-▇]", foot()), "no room")
        app.bench.vitals_place = "always"
        await settled(pilot, lambda: re.search("[▁-▇] [▁-▇] [▁-▇]", foot()) is not None, "always")
        app.bench.vitals_place = "off"
        await settled(pilot, lambda: not re.search("[▁-▇]", foot()), "off")


async def test_one_key_makes_the_column_wide_hides_it_and_brings_it_back(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(FakeEngine(working()), 120, 40) as (app, pilot):
        side = app.bench.side
        beside = side.region.width
        for key in ("f6", "alt+0"):
            await pilot.press("f6")
            await settled(pilot, lambda: side.region.width == 120 * MOST // 100, key)
            await pilot.press(key)
            await settled(pilot, lambda: not side.display, "hidden")
            await settled(pilot, lambda: app.bench.pill.is_on_screen, "the pill in its place")
            await pilot.press("f3")
            await settled(pilot, lambda: app.bench.focused is app.bench.plan, "asked for")
            assert app.bench.plan.is_on_screen
            await pilot.press("escape")
            await settled(pilot, lambda: not side.display, "hidden again")
            await pilot.press(key)
            await settled(pilot, lambda: side.display and side.region.width == beside, "beside")


async def test_the_border_moves_by_key_and_mouse_and_is_remembered(tmp_path: Path) -> None:
    def at(kind: type[Any], x: int) -> Any:
        return kind(app.bench.side, x - app.bench.side.region.x, 5, 0, 0, 1, False, False, False,
                    screen_x=x, screen_y=6)  # fmt: skip

    kept = tmp_path / "side.json"
    app = app_with(FakeEngine(working()), data_dir=tmp_path)
    async with standing(app, 200, 40) as pilot:
        side = app.bench.side
        assert side.region.width == BROAD
        await pilot.press("alt+left")
        await settled(pilot, lambda: side.region.width > BROAD, "wider")
        await pilot.press("alt+right", "alt+right")
        await settled(pilot, lambda: side.region.width < BROAD, "narrower")
        for event in (at(MouseDown, side.region.x), at(MouseMove, 150)):
            side.post_message(event)
        await settled(pilot, lambda: side.region.x == 150, "the border under the pointer")
        side.post_message(at(MouseMove, 199))
        await settled(pilot, lambda: side.share == LEAST, "as narrow as it gets")
        side.post_message(at(MouseMove, 140))
        side.post_message(at(MouseUp, 140))
        await settled(pilot, lambda: '"share":30' in kept.read_text(), "the file")
    app = app_with(FakeEngine(working()), data_dir=tmp_path)
    async with standing(app, 200, 40):
        assert app.bench.side.region.x == 140
    spoil(kept)
    app = app_with(FakeEngine(working()), data_dir=tmp_path)
    async with standing(app, 200, 40):
        assert app.bench.side.region.width == BROAD


async def test_the_border_moves_on_while_the_disk_that_keeps_it_is_busy(tmp_path: Path) -> None:
    kept, has_time = tmp_path / "side.json", Event()
    app = app_with(FakeEngine(working()), data_dir=tmp_path)
    async with standing(app, 200, 40) as pilot:
        side = app.bench.side
        app.save_in_background(lambda: "" if has_time.wait(DEADLINE) else "too late")
        before = round(100 * BROAD / 200)
        await pilot.press("alt+left", "alt+left")
        await settled(pilot, lambda: side.share == before + 8, "moved twice")
        assert not kept.exists()
        has_time.set()
        await settled(pilot, kept.is_file, "written when the disk has time again")
        await settled(pilot, lambda: f'"share":{before + 8}' in kept.read_text(), "the newest")
        assert app.status.notice_text == ""


@pytest.mark.parametrize("pane", ["plan", "diff", "vitals"])
async def test_a_pane_can_have_all_of_the_screen(pane: str) -> None:
    store = goals.at_work(objective=True)
    edited(store)
    app = app_with(FakeEngine(store))
    key = {"plan": "f3", "diff": "f4", "vitals": "f5"}[pane]
    async with standing(app) as pilot:
        await pilot.press(key)
        await settled(pilot, lambda: app.bench.focused is not app.bench.composer, "the focus")
        await pilot.press("z")
        side = app.bench.side
        await settled(pilot, lambda: side.region.width == 120, "all of the width")
        assert {"plan", "diff", "vitals"} & shown(app) == {pane}
        assert not app.bench.query_one("#chat").display
        assert app.bench.composer.is_on_screen
        said = pane == "diff"
        await settled(pilot, lambda: ("z or Esc back" in screen_text(app)) is said, "the key back")
        await pilot.press("escape")
        await settled(pilot, lambda: side.region.width < 120, "the chat beside it")
        await settled(pilot, lambda: "z or Esc back" not in screen_text(app), "the foot")
        assert app.bench.focused is not app.bench.composer
        await pilot.press("z", "z", "z", "escape", "escape")
        await settled(pilot, lambda: app.bench.focused is app.bench.composer, "the composer")
        assert not app.bench.zoomed


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_a_gate_beside_what_was_said_shows_lines_of_the_new_file(
    language: str, open_apps: OpenApps
) -> None:
    """What its title says, that the file is new, takes no line of it."""
    why = "tests that fail first show that they test something, and they stay for the next step"
    what: dict[str, Any] = {"args": {"path": "src/big.py"}, "alternatives": ()}
    new = gate([many_lines(14)], intent="write down what regular customers pay", why=why, **what)
    store = working(language)
    fake = FakeEngine(store)
    async with open_apps.standing(fake, 80, 24, language=language) as (app, pilot):
        store.dispatch(GateOpened(gate=new))
        await settled(pilot, lambda: "value_3 = 3" in screen_text(app), "the gate")
        store.dispatch(UserMessageAdded(message=user("why in steps?")))
        await settled(pilot, lambda: app.bench.talk.question.yields, "room for the answer")
        await settled(pilot, lambda: stands(app.screen), "the screen")
        text = screen_text(app)
        assert "1 + value_0 = 0" in text, text
        assert "2 + value_1 = 1" in text, text
        assert app.words("diff.kind.create") not in text


async def test_where_room_is_short_a_pane_lies_over_the_chat_until_esc(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(working()), 80, 24) as (app, pilot):
        bench = app.bench
        assert bench.composer.region.width == 78
        assert not bench.all_tabs.is_on_screen
        assert bench.pill.is_on_screen
        await pilot.press("alt+2")
        await settled(pilot, lambda: bench.plan.is_on_screen, "the plan")
        assert not bench.query_one("#chat").display
        assert bench.all_tabs.is_on_screen
        assert not bench.pill.is_on_screen
        await pilot.press("escape")
        await settled(
            pilot,
            lambda: bench.query_one("#chat").display and not bench.plan.is_on_screen,
            "the chat",
        )


async def test_where_room_is_short_z_gives_a_pane_what_the_composer_and_the_header_had(
    open_apps: OpenApps,
) -> None:
    """A character brings them back, and so does a question; what a key cannot do there it says."""
    store = working()
    edited(store)
    async with open_apps.standing(FakeEngine(store), 80, 24) as (app, pilot):
        bench = app.bench
        await pilot.press("f6")
        await settled(
            pilot, lambda: bench.status.notice_text == app.words("shell.no_column"), "a word"
        )
        for key, pane in (("alt+2", bench.plan), ("alt+3", bench.diff)):
            await pilot.press(key)
            await settled(pilot, lambda p=pane: p.is_on_screen, "the pane")
            await settled(pilot, lambda: bench.focused is not bench.composer, "the focus")
            before = pane.region.height
            await pilot.press("z")
            await settled(pilot, lambda p=pane: p.region.height >= 21, "the rows")
            assert pane.region.height > before
            assert not bench.header.is_on_screen
            assert not bench.composer.is_on_screen
            await pilot.press("z")
            await settled(pilot, lambda p=pane, b=before: p.region.height == b, "the rows back")
        await pilot.press("z")
        await settled(pilot, lambda: not bench.composer.is_on_screen, "the rows")
        assert "Esc back" in screen_text(app)
        await pilot.press("h", "i")
        await settled(pilot, lambda: bench.composer.has_focus, "the composer")
        assert bench.composer.text == "hi"
        assert bench.header.is_on_screen
        await pilot.press("alt+3")
        await settled(pilot, lambda: bench.focused is bench.diff.view, "the focus")
        await pilot.press("z")
        await settled(pilot, lambda: not bench.composer.is_on_screen, "the rows")
        store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: bench.question.is_on_screen, "the question")
        assert bench.composer.is_on_screen


async def test_at_a_gate_z_shows_its_diff_and_leaves_the_layout(open_apps: OpenApps) -> None:
    store = store_with()
    store.state.gates = (gate(),)
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await at_question(pilot)
        await pilot.press("z")
        await settled(pilot, lambda: isinstance(app.screen, WholeDiff), "the diff")
        assert not app.bench.zoomed


@pytest.mark.parametrize("lines", [1, 2, 40])
async def test_a_change_that_is_decided_is_on_the_screen_once(
    open_apps: OpenApps, lines: int
) -> None:
    store = working()
    store.state.gates = (gate([many_lines(lines)]),)
    async with open_apps.standing(FakeEngine(store), 120, 40) as (app, pilot):
        await settled(pilot, lambda: "value_0 = 0" in screen_text(app), "the change")
        await pilot.pause()
        assert screen_text(app).count("value_0 = 0") == 1


@pytest.mark.parametrize("size", [(200, 60), (120, 40)])
async def test_a_short_chat_and_its_question_stand_together(
    open_apps: OpenApps, size: tuple[int, int]
) -> None:
    """Nothing of the chat moves for it, and what comes while it is open finds its room."""
    store = store_with(UserMessageAdded(message=user("fix it")))
    store.state.messages.append(assistant("I look at the file."))
    async with open_apps.standing(FakeEngine(store), *size) as (app, pilot):
        await settled(pilot, lambda: "I look at" in screen_text(app), "the chat")
        place = line_of(app, "I look at")
        store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: is_together(app), "the gate below the chat")
        assert line_of(app, "I look at") == place
        store.dispatch(UserMessageAdded(message=user("and the tests", 2)))
        await settled(pilot, lambda: "and the tests" in screen_text(app), "what was said")
        await settled(pilot, lambda: is_together(app), "the gate below what was said")


def line_of(app: DuckflowApp, text: str) -> int:
    """The line of the screen that holds the text."""
    return next(n for n, line in enumerate(screen_text(app).split("\n")) if text in line)


def is_together(app: DuckflowApp) -> bool:
    """Whether the question stands one blank line below the last of the chat."""
    chat, asks = app.bench.talk.transcript, app.bench.question
    assert chat is not None
    return asks.is_on_screen and asks.region.y - chat.region.y - chat.virtual_size.height == 1


LONG = "python -c 'print(" + "1 + " * 40 + "0)'"


@pytest.mark.parametrize(
    ("asks", "columns"),
    [
        (gate(), MAIN),
        (gate([preview("a.py", "x = 1", "y = " + "1 + " * 30)]), 154),
        (
            gate([], operation="shell.run", effect=Effect.EXECUTE, args={"command": LONG}),
            154,
        ),
    ],
    ids=["short lines", "a long line", "a long command"],
)
async def test_an_approval_is_as_wide_as_its_lines_need(
    open_apps: OpenApps, asks: Gate, columns: int
) -> None:
    """As wide as the composer, or where a line of code or a command is longer as the chat."""
    store = store_with(UserMessageAdded(message=user("fix it")))
    async with open_apps.standing(FakeEngine(store), 200, 60) as (app, pilot):
        store.dispatch(GateOpened(gate=asks))
        await settled(pilot, lambda: app.bench.question.outer_size.width == columns, "its width")
        assert app.bench.composer.outer_size.width == MAIN
