"""The page of the working memory: what the model carries, and the reasons of its decisions."""

from __future__ import annotations

from typing import Any

from support.app_states import FakeEngine, app_with, commanded, settled, standing, store_with
from support.app_states import turn_started as started
from support.conversations import assistant, user
from support.lists import is_listing, list_text
from support.open_apps import OpenApps
from support.pictures import by_name, each_state
from support.pinned import ManualClock
from textual.pilot import Pilot
from textual.widgets import Static, TextArea

from duckflow_tui.state.decision import Action, SelfCheck, TurnDecision
from duckflow_tui.state.memory import MemoryEdited, WorkingMemory, WorkingMemoryChanged
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.health import HealthSource
from duckflow_tui.ui.screens.list_page import ListPage, Page
from duckflow_tui.ui.screens.working_memory import WorkingForm, WorkingMemorySource

HOSTILE = "\x1b[31mrm -rf\u202e \x07[b]bold[/b]"
SAID = {
    "en": {
        "ask": "The total is wrong when two discounts apply. Fix it, and add a test.",
        "goal": "total() gives 81.00 for two discounts of 10 %, and a test shows it",
        "why": "Every order with two discounts is billed wrong",
        "constraints": ("no new dependency", "the public names stay"),
        "steps": ("read total()", "apply one discount after the other", "run the tests"),
        "questions": ("Do discounts apply to shipping, too?",),
        "log": ("the user allowed file_ops.edit_file pricing.py", "rates stay fractions"),
        "last": "src/shop/pricing.py +3 −1 (file_ops.edit_file)",
        "why 1": "The sum of the rates is the suspect, so the code that adds them is read first.",
        "why 2": "Each discount has to act on what the one before left over.",
        "yes": "it makes the total right",
        "no": "it changes the name of a public function",
    },
    "ja": {
        "ask": "割引が二つ重なると合計がおかしくなります。直して、テストも追加してください。",
        "goal": "10 % の割引が二つのとき total() が 81.00 を返し、テストで確かめられる",
        "why": "割引が二つある注文はすべて請求額が誤っている",
        "constraints": ("新しい依存を加えない", "公開している名前は変えない"),
        "steps": ("total() を読む", "割引を一つずつ適用する", "テストを実行する"),
        "questions": ("割引は送料にも適用しますか。",),
        "log": ("ユーザーが pricing.py の変更を許可した", "割引率は小数のまま扱う"),
        "last": "src/shop/pricing.py +3 −1 (file_ops.edit_file)",
        "why 1": "割引率の足し算が疑わしいので、まず足している箇所を読む。",
        "why 2": "割引は、一つ前の割引を引いた残りに掛ける必要がある。",
        "yes": "合計が正しくなる",
        "no": "公開している関数の名前が変わる",
    },
}


def carrying(language: str = "en") -> Store:
    """Two decisions: the newer one serves the goal, but breaks a constraint."""
    said: dict[str, Any] = SAID[language]
    read = Action(
        call_id="call_00000001",
        operation="file_ops.read_file",
        args={"path": "src/shop/pricing.py"},
        reasoning="see",
    )
    first = TurnDecision(
        decision_id="d1",
        rationale=said["why 1"],
        goal_consistency=SelfCheck(ok=True, reason=said["yes"]),
        actions=(read,),
    )
    second = TurnDecision(
        decision_id="d2",
        rationale=said["why 2"],
        goal_consistency=SelfCheck(ok=True, reason=said["yes"]),
        constraint_check=SelfCheck(ok=False, reason=said["no"]),
        confidence=0.8,
    )
    store = store_with(started(loop=3))
    store.state.messages += [
        user(said["ask"]),
        assistant("", 1, decision=first),
        assistant("pricing.py", 2, decision=second),
    ]
    store.state.memory = WorkingMemory(
        goal=said["goal"],
        why_now=said["why"],
        constraints=said["constraints"],
        plan_brief=said["steps"],
        open_questions=said["questions"],
        decision_log=said["log"],
        last_delta=said["last"],
    )
    return store


def page(app: DuckflowApp) -> str:
    return list_text(app)


def below(app: DuckflowApp) -> str:
    """What is shown of the chosen one, without the list and the keys."""
    title, listed, chosen, *_ = page(app).split("\n\n", 3)
    assert title
    assert listed
    return chosen.strip("\n")


async def stands(pilot: Pilot[int], app: DuckflowApp) -> None:
    """The page is there, and its keys count."""
    await settled(pilot, lambda: is_listing(app, WorkingMemorySource), "the page")
    clock = app.clock
    assert isinstance(clock, ManualClock)
    clock.advance(SETTLE_S)
    await pilot.pause()


async def test_where_there_is_room_for_two_rows_a_page_still_says_what_it_is_about(
    open_apps: OpenApps,
) -> None:
    """Below the chosen item the beginning of what belongs to it, in place of keys."""
    async with open_apps.standing(FakeEngine(carrying()), 20, 5) as (app, pilot):
        await commanded(pilot, "/working")
        await stands(pilot, app)
        rows = page(app).splitlines()
        assert rows[0].startswith("› goal")
        assert rows[1].split() == ["goal", "total()"]
        assert len(rows) == 2
        app.pop_screen()
        found = iter([("git", "ok", "git 2.43", ""), ("rg", "missing", "no ripgrep", "install")])
        board = HealthSource(found)
        app.push_screen(ListPage[None](app.words, app.clock, [board]))
        await settled(pilot, lambda: bool(app.screen.query(Page)), "the page")
        await settled(pilot, lambda: len(board.list_items()) == 2, "both of them")
        await settled(pilot, lambda: page(app).startswith("› ✓ git"), "the first of them")
        assert "git 2.43" in page(app).splitlines()[1]
        await pilot.press("down")
        await settled(pilot, lambda: page(app).startswith("› ! "), "the next one")
        assert "no ripgrep" in " ".join(page(app).split())


async def test_what_the_model_carries_is_listed_and_the_chosen_one_is_shown_whole() -> None:
    """Covers S4-103, S4-104."""
    fake = FakeEngine(carrying())
    app = app_with(fake)
    said: dict[str, Any] = SAID["en"]
    async with standing(app, 120) as pilot:
        await commanded(pilot, "/working")
        await stands(pilot, app)
        listed = page(app)
        for key in ("goal", "why"):
            assert said[key] in listed
        assert "src/shop/pricing.py +3 −1 (edit)" in listed
        for key in ("constraints", "steps", "questions"):
            assert " · ".join(said[key]) in listed
        assert "decisions       rates stay fractions · the user allowed edit pricing.py" in listed
        assert said["goal"] in below(app)
        await pilot.press("down", "down", "down")
        await settled(pilot, lambda: "3 run the tests" in below(app))
        assert "1 read total()" in below(app)

        changed = fake.store.state.memory.replace(plan_brief=("tell the user",))
        fake.store.dispatch(WorkingMemoryChanged(memory=changed))
        await settled(pilot, lambda: "tell the user" in below(app))
        await pilot.press("down", "down", "down")
        await settled(pilot, lambda: "2 rates stay" in below(app))
        newest, older = below(app).splitlines()
        assert "2 rates stay fractions" in newest
        assert "1 the user allowed" in older


async def test_a_decision_is_a_row_and_unfolds_to_its_rationale_and_both_checks() -> None:
    """Covers S4-104."""
    app = app_with(FakeEngine(carrying()))
    said: dict[str, Any] = SAID["en"]
    async with standing(app, 120) as pilot:
        await commanded(pilot, "/working")
        await stands(pilot, app)
        folded = page(app)
        assert f"✓✗  {said['why 2']}" in folded
        assert f"✓·  {said['why 1']}" in folded
        assert folded.index(said["why 2"]) < folded.index(said["why 1"])
        assert said["no"] not in folded

        await pilot.press(*["down"] * 7)
        await settled(pilot, lambda: said["no"] in below(app))
        rationale, goal, constraint, confidence = below(app).splitlines()
        assert rationale.split("  ")[-1].strip() == said["why 2"]
        assert f"✓ yes · {said['yes']}" in goal
        assert f"✗ no · {said['no']}" in constraint
        assert confidence.endswith("0.80")

        await pilot.press("down")
        await settled(pilot, lambda: "read src/shop/pricing.py" in below(app))
        assert "file_ops" not in below(app)
        assert "· not stated" in below(app)


async def test_enter_leads_to_the_place_in_the_chat_or_says_that_there_is_none(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(FakeEngine(carrying()), 120) as (app, pilot):
        await commanded(pilot, "/working")
        await stands(pilot, app)
        await pilot.press(*["down"] * 8, "enter")  # it said nothing, and its call did not run
        await settled(pilot, lambda: app.words("list.no_place") in page(app))
        await pilot.press("up")
        await settled(pilot, lambda: app.words("list.no_place") not in page(app))
        await pilot.press("enter")
        await settled(pilot, lambda: app.screen is app.bench)


async def test_where_nothing_is_carried_the_page_says_so_and_what_will_be_there(
    open_apps: OpenApps,
) -> None:
    fake = FakeEngine(store_with())
    async with open_apps.standing(fake, 120) as (app, pilot):
        await commanded(pilot, "/working")
        await stands(pilot, app)
        assert app.words("working.none").split(".")[0] in page(app)
        fake.store.dispatch(WorkingMemoryChanged(memory=WorkingMemory(goal=HOSTILE)))
        await settled(pilot, lambda: "rm -rf" in page(app))
        assert "\x1b" not in page(app)
        assert page(app).count(app.words("working.nothing")) >= 6


async def test_the_user_changes_adds_and_removes_items_by_hand() -> None:
    """Covers S4-103."""
    fake = FakeEngine(carrying())
    app = app_with(fake)
    said: dict[str, Any] = SAID["en"]
    async with standing(app, 120) as pilot:
        await commanded(pilot, "/working")
        await stands(pilot, app)
        assert "Enter edit, add, remove" in page(app)
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, WorkingForm), "the form")
        area = app.screen.query_one(TextArea)
        assert (area.text, area.has_focus) == (said["goal"], True)
        area.text = "  total() gives\n81.00 "
        await pilot.press("ctrl+s")
        await settled(pilot, lambda: "total() gives 81.00" in below(app))
        assert "you · sent with the next request" in below(app)
        goal = next(row for row in page(app).splitlines() if "goal  " in row)
        assert goal.rstrip().endswith("81.00  you")

        await pilot.press("down", "down", "enter")  # the constraints: one goes, one comes
        await settled(pilot, lambda: isinstance(app.screen, WorkingForm), "the form")
        area = app.screen.query_one(TextArea)
        assert area.text == "\n".join(said["constraints"])
        area.text = f"{said['constraints'][1]}\n\nno new file\none too many"
        await pilot.press("ctrl+s")
        problem = app.screen.query_one(".form-problem", Static)
        assert "at most 2 items" in str(problem.content)
        area.text = f"{said['constraints'][1]}\n\nno new file"
        await pilot.press("ctrl+s")
        await settled(pilot, lambda: "2 no new file" in below(app))
        memory = fake.store.state.memory
        assert memory.constraints == (said["constraints"][1], "no new file")
        assert memory.by_user == memory.untold == ("goal", "constraints")

        await pilot.press("down", "enter")
        await settled(pilot, lambda: isinstance(app.screen, WorkingForm), "the form")
        app.screen.query_one(TextArea).text = ""
        await pilot.press("escape")  # nothing changed
        await settled(pilot, lambda: "3 run the tests" in below(app))
        await pilot.press("down", "enter")
        await settled(pilot, lambda: isinstance(app.screen, WorkingForm), "the form")
        app.screen.query_one(TextArea).text = ""
        await pilot.press("ctrl+s")
        await settled(pilot, lambda: app.words("working.nothing") in below(app))
        assert fake.store.state.memory.open_questions == ()

        await pilot.press("down")  # the last change is the app's to write
        await settled(pilot, lambda: "edit, add" not in page(app))


async def test_where_nothing_is_carried_the_user_can_begin() -> None:
    fake = FakeEngine(store_with())
    app = app_with(fake, language="ja")
    async with standing(app, 60, 20) as pilot:
        await commanded(pilot, "/working")
        await stands(pilot, app)
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, WorkingForm), "the form")
        app.screen.query_one(TextArea).text = "合計を直す"
        await pilot.press("ctrl+s")
        await settled(pilot, lambda: "合計を直す" in page(app))
    assert fake.store.state.memory.goal == "合計を直す"


async def form(pilot: Pilot[int], app: DuckflowApp) -> None:
    await pilot.press("down", "down", "enter")
    await settled(pilot, lambda: isinstance(app.screen, WorkingForm), "the form")


def fields(language: str) -> tuple[Store, int]:
    return carrying(language), 3


def decision(language: str) -> tuple[Store, int]:
    return carrying(language), 7


def written(language: str) -> tuple[Store, int]:
    """The user wrote the goal by hand; the form of the constraints is open."""
    store = carrying(language)
    store.dispatch(MemoryEdited(name="goal", items=(str(SAID[language]["goal"]),)))
    return store, 0


@each_state("build", by_name([fields, decision, written]), main=("fields", "decision", "written"))
def test_pictures(snap_compare: Any, build: Any, size: tuple[int, int], language: str) -> None:
    store, downs = build(language)
    app = app_with(
        FakeEngine(store),
        language=language,
        theme="duck-light" if language == "ja" else "duck-dark",
    )

    async def press(pilot: Pilot[int]) -> None:
        await settled(pilot, lambda: not app.session.opening)
        await commanded(pilot, "/working")
        await stands(pilot, app)
        await pilot.press(*["down"] * downs)
        if build is written:
            await form(pilot, app)
        await pilot.pause(0.1)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=press)
