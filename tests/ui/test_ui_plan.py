"""The plan pane: what it shows while work runs, where its keys lead, what they ask of the plan."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import FakeEngine, app_with, settled, standing, store_with, turn_started
from support.gates import gate
from support.pinned import ManualClock
from support.plans import FIND, FIX, NOW, PLAN, TEST, draft, ended, running, working
from support.screens import screen_text
from textual.pilot import Pilot

from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.gates import (
    GateAnswer,
    GateAnswered,
    GateChoice,
    GateOpened,
    before_hashes,
)
from duckflow_tui.state.goal import ObjectiveChanged, TaskObjective
from duckflow_tui.state.memory import WorkingMemory, WorkingMemoryChanged
from duckflow_tui.state.plan import PlanStatus, Step, WorkStatus
from duckflow_tui.state.plan_events import PlanProposed, StepChanged, TaskChanged
from duckflow_tui.state.turn import TurnFinished
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.plan_rows import PlanSpot, PlanTree
from duckflow_tui.ui.screens.step_form import StepForm

HOSTILE = "\x1b[31mrm -rf\u202e \x07[b]bold[/b]\nnext"


def shown(widget: Any) -> str:
    lines = widget.render_lines(widget.outer_size.region)
    return "\n".join(strip.text.rstrip() for strip in lines)


def rows(app: DuckflowApp) -> list[str]:
    """Lines of the plan, without those that name its keys."""
    keys = app.words("plan.keys")
    lines = [line for line in shown(app.bench.plan).split("\n") if line.strip()]
    return [line for line in lines if line.strip() not in keys]


async def in_the_plan(pilot: Pilot[int]) -> DuckflowApp:
    app = pilot.app
    assert isinstance(app, DuckflowApp)
    await pilot.press("f3")
    await settled(pilot, lambda: app.bench.focused is app.bench.plan)
    return app


async def test_each_step_says_how_it_is_what_it_waits_for_and_what_it_took() -> None:
    """Covers S2-24."""
    app = app_with(FakeEngine(working()))
    async with standing(app, 160) as pilot:
        await in_the_plan(pilot)
        first, second, *tasks, last = rows(app)
        assert first.startswith(" ✓ 1 Reproduce the wrong total")
        assert first.split()[-4:] == ["3", "calls", "$0.01", "0:21"]
        assert second.startswith(" ▶ 2 Fix the calculation")
        assert second.split()[-2:] == ["0:48", "◌"]
        assert [task.split()[0] for task in tasks] == ["✓", "▶", "○"]
        assert "38 lines" in tasks[0]
        assert last.startswith("●○ 3 Test for stacked discounts")
        assert last.split()[-4:] == ["after", "2", "asks", "first"]


async def test_no_time_of_work_goes_on_while_a_gate_waits() -> None:
    """Neither that of the turn nor those of a step and its task, and none counts it later."""
    store = working()
    app = app_with(FakeEngine(store))

    def times() -> list[str]:
        running, task = (line for line in rows(app) if "▶" in line or "◆" in line)
        said = screen_text(app).partition(" · Esc pauses")[0]
        return [running.split()[-2], task.split()[-1], said.split(" · ")[-1]]

    async with standing(app, 160) as pilot:
        assert isinstance(app.clock, ManualClock)
        await in_the_plan(pilot)
        assert times() == ["0:48", "0:08", "0:00"]
        asked = gate(step_id=FIX, opened_at=NOW)
        store.dispatch(GateOpened(gate=asked))
        app.clock.advance(190)
        await settled(pilot, lambda: bool(app.bench.question.gate), "the gate")
        await settled(pilot, lambda: any("2 Fix" in r and " 0:48" in r for r in rows(app)), "it")
        answer = GateAnswer(
            gate_id=asked.gate_id,
            call_id=asked.call_id,
            args_hash=asked.args_hash,
            before_hashes=before_hashes(asked),
            choice=GateChoice.ONCE,
        )
        store.dispatch(GateAnswered(answer=answer, at=NOW + 190))
        app.clock.advance(5)
        await settled(pilot, lambda: times() == ["0:53", "0:13", "0:05"], "the times")


async def test_time_goes_on_while_a_step_runs_and_no_timer_is_left_when_it_ends() -> None:
    fake = FakeEngine(working())
    app = app_with(fake)
    async with standing(app) as pilot:
        clock = fake.store.clock
        assert isinstance(clock, ManualClock)
        assert app.bench.plan.is_moving
        clock.advance(12)
        await settled(pilot, lambda: "1:00" in rows(app)[1])
        event = StepChanged(
            plan_id=PLAN, step_id=FIX, status=WorkStatus.COMPLETED, at=fake.store.clock.now()
        )
        fake.store.dispatch(event)
        await settled(pilot, lambda: rows(app)[1].startswith(" ✓ 2"))
        assert not app.bench.plan.is_moving
        assert len(rows(app)) == 3  # what is done is folded
        assert "needs" not in rows(app)[2]  # nothing is in its way any more


async def test_a_task_that_changes_shows_at_once() -> None:
    fake = FakeEngine(working())
    app = app_with(fake)
    async with standing(app) as pilot:
        await in_the_plan(pilot)
        step = fake.store.state.plans[0].steps[1]
        update = {"status": WorkStatus.COMPLETED, "result": "+3 −2", "duration_s": 0.4}
        done = step.task_list[1].model_copy(update=update)
        fake.store.dispatch(TaskChanged(plan_id=PLAN, step_id=FIX, task=done))
        await settled(pilot, lambda: "+3 −2  0.4 s" in rows(app)[3])


async def test_a_step_and_a_task_at_a_gate_are_marked() -> None:
    fake = FakeEngine(working())
    app = app_with(fake)
    async with standing(app, 100) as pilot:
        fake.store.dispatch(GateOpened(gate=gate(step_id=FIX)))
        await pilot.press("f3")
        await settled(pilot, lambda: "\n".join(rows(app)).count("needs you") == 2)
        assert [n for n, row in enumerate(rows(app)) if "needs you" in row and "◆" in row] == [1, 3]


async def test_arrows_walk_and_fold() -> None:
    app = app_with(FakeEngine(working()))
    async with standing(app) as pilot:
        await in_the_plan(pilot)
        assert app.bench.plan.cursor_step is not None
        assert app.bench.plan.cursor_step.step_id == FIX  # where the work is
        await pilot.press("left")
        await settled(pilot, lambda: len(rows(app)) == 3)
        await pilot.press("up", "right")
        await settled(pilot, lambda: len(rows(app)) == 5)
        await pilot.press("space")
        await settled(pilot, lambda: len(rows(app)) == 3)
        await pilot.press("down", "down")
        assert app.bench.plan.cursor_step.step_id == TEST


async def test_enter_on_a_task_goes_to_its_call_and_on_a_step_to_its_first_item() -> None:
    app = app_with(FakeEngine(working()))
    async with standing(app, 120, 16) as pilot:
        await in_the_plan(pilot)
        await pilot.press("home", "enter")
        chat = app.bench.talk.transcript
        assert chat is not None
        await settled(pilot, lambda: app.bench.focused is chat)
        assert "step 1 · Reproduce the wrong total" in shown(chat)
        await in_the_plan(pilot)
        await pilot.press("down", "down", "enter")
        await settled(pilot, lambda: "side question" in shown(chat))
        assert "pricing.py  38 lines" in shown(chat)


async def test_enter_on_what_has_not_run_says_so() -> None:
    app = app_with(FakeEngine(working()))
    async with standing(app) as pilot:
        await in_the_plan(pilot)
        await pilot.press("down", "down", "down", "enter")
        await settled(pilot, lambda: "✗ This task has not run yet." in shown(app.bench.plan))
        assert app.bench.focused is app.bench.plan
        await pilot.press("down")
        await settled(pilot, lambda: "not run yet" not in shown(app.bench.plan))


@pytest.mark.parametrize(
    ("keys", "after"),
    [(("home", "J"), FIX), (("end", "K"), FIND), (("home", "down", "K"), "")],
)
async def test_a_step_is_moved(keys: tuple[str, ...], after: str) -> None:
    """Covers S2-22."""
    store = store_with(turn_started())
    store.state.plans, store.state.active_plan_id = (draft(),), PLAN
    fake = FakeEngine(store)
    async with standing(app_with(fake)) as pilot:
        await in_the_plan(pilot)
        await pilot.press(*keys)
        await settled(pilot, lambda: bool(fake.plan.edits))
        assert fake.plan.edits[0].op == "move"
        assert fake.plan.edits[0].after == after


async def test_a_step_at_the_end_does_not_move_further() -> None:
    fake = FakeEngine(working())
    async with standing(app_with(fake)) as pilot:
        await in_the_plan(pilot)
        await pilot.press("end", "J", "home", "K", "d", "d")
        await settled(pilot, lambda: bool(fake.plan.edits))
        assert [(edit.op, edit.step_id) for edit in fake.plan.edits] == [("drop", FIND)]


async def test_what_is_in_the_way_of_a_key_is_said_in_the_pane() -> None:
    fake = FakeEngine(working())
    fake.plan.problem = LocalizedText(key="plan.problem.has_begun", params={"step": "Fix it"})
    app = app_with(fake)
    async with standing(app) as pilot:
        await in_the_plan(pilot)
        await pilot.press("d", "d")
        await settled(pilot, lambda: "✗ “Fix it” has started" in shown(app.bench.plan))


async def test_a_step_is_dropped_by_a_second_key_for_the_same_step() -> None:
    """The first says what the second does; another key or another step takes it back."""
    fake = FakeEngine(working())
    app = app_with(fake)
    async with standing(app) as pilot:
        await in_the_plan(pilot)
        await pilot.press("home", "d")
        await settled(pilot, lambda: "d again drops step 1" in shown(app.bench.plan))
        await pilot.press("down", "d", "p", "d")
        await pilot.pause()
        assert fake.plan.edits == []
        await pilot.press("d")
        await settled(pilot, lambda: bool(fake.plan.edits))
        assert [edit.op for edit in fake.plan.edits] == ["drop"]


async def test_p_r_and_s_ask_for_a_breakpoint_another_try_and_a_skip() -> None:
    fake = FakeEngine(working())
    async with standing(app_with(fake)) as pilot:
        await in_the_plan(pilot)
        await pilot.press("p", "end", "p", "r", "s")
        await settled(pilot, lambda: len(fake.plan.asked) == 4)
        assert fake.plan.asked == [
            ("break", FIX),
            ("no break", TEST),
            ("retry", TEST),
            ("skip", TEST),
        ]


async def test_e_changes_the_words_and_the_needs_of_a_step() -> None:
    fake = FakeEngine(working())
    app = app_with(fake)
    async with standing(app) as pilot:
        await in_the_plan(pilot)
        await pilot.press("end", "e")
        await settled(pilot, lambda: isinstance(app.screen, StepForm))
        await pilot.press("end", "!", "enter", "tab", "end", *", 1", "enter")
        await settled(pilot, lambda: bool(fake.plan.edits))
        (edit,) = fake.plan.edits
        assert (edit.op, edit.step_id) == ("change", TEST)
        assert edit.name == "Test for stacked discounts!"
        assert edit.description is None  # as it was
        assert edit.depends_on == (FIX, FIND)


async def test_a_adds_a_step_after_the_one_at_the_cursor() -> None:
    fake = FakeEngine(working())
    app = app_with(fake)
    async with standing(app) as pilot:
        await in_the_plan(pilot)
        await pilot.press("a")
        await settled(pilot, lambda: isinstance(app.screen, StepForm))
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, StepForm)  # a step needs a name
        await pilot.press(*"Docs", "enter", *"as told", "tab", *"9", "ctrl+s")
        assert isinstance(app.screen, StepForm)  # there is no step 9
        await pilot.press("backspace", "2", "ctrl+s")
        await settled(pilot, lambda: bool(fake.plan.edits))
        (edit,) = fake.plan.edits
        assert (edit.op, edit.after, edit.name) == ("add", FIX, "Docs")
        assert (edit.description, edit.depends_on) == ("as told", (FIX,))


async def test_escape_in_the_form_changes_nothing() -> None:
    fake = FakeEngine(working())
    app = app_with(fake)
    async with standing(app) as pilot:
        await in_the_plan(pilot)
        await pilot.press("e")
        await settled(pilot, lambda: isinstance(app.screen, StepForm))
        await pilot.press("x", "escape")
        await settled(pilot, lambda: app.bench.focused is app.bench.plan)
        assert fake.plan.edits == []


async def test_names_of_a_model_are_neither_markup_nor_control_sequences() -> None:
    plan = running()
    steps = (plan.steps[0].model_copy(update={"name": HOSTILE}), *plan.steps[1:])
    store = working()
    store.state.plans = (plan.model_copy(update={"name": HOSTILE, "steps": steps}),)
    app = app_with(FakeEngine(store))
    async with standing(app, 160) as pilot:
        await in_the_plan(pilot)
        title = shown(app.bench.query_one("#plan-title"))
        for text in (rows(app)[0], title):
            assert "[b]bold" in text
            assert not any(character in text for character in "\x1b\x07\u202e")
        await pilot.press("home", "e")
        await settled(pilot, lambda: isinstance(app.screen, StepForm))
        assert "\u202e" not in app.export_screenshot()


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (draft(risk="high"), ["Plan", "discounts", "0/3", "draft", "·", "high", "risk"]),
        (draft(status=PlanStatus.REJECTED), ["Plan", "discounts", "0/3", "rejected"]),
        (ended(PlanStatus.FAILED), ["Plan", "discounts", "1/3", "failed"]),
        (ended(PlanStatus.COMPLETED), ["Plan", "discounts", "3/3", "done"]),
    ],
    ids=["draft", "rejected", "failed", "done"],
)
async def test_the_title_says_what_the_plan_is(plan: Any, words: list[str]) -> None:
    store = store_with()
    store.state.plans, store.state.active_plan_id = (plan,), PLAN
    app = app_with(FakeEngine(store))
    async with standing(app) as pilot:
        await in_the_plan(pilot)
        assert shown(app.bench.query_one("#plan-title")).split() == words


@pytest.mark.parametrize("width", [120, 100, 80, 60])
async def test_a_failed_review_stands_in_the_title_however_narrow_it_is(width: int) -> None:
    """Covers S1-56."""
    store, plan = store_with(), ended(PlanStatus.COMPLETED)
    plan = plan.replace(review_failed=True, name="discounts for regular customers", risk="high")
    store.state.plans, store.state.active_plan_id = (plan,), PLAN
    app = app_with(FakeEngine(store))
    async with standing(app, width) as pilot:
        await in_the_plan(pilot)
        title = " ".join(shown(app.bench.query_one("#plan-title")).split())
        assert title.endswith("3/3 review failed")


async def test_what_the_model_means_to_do_shows_as_provisional_until_there_is_a_plan() -> None:
    """Covers S3-36."""
    fake = FakeEngine(store_with(turn_started()))
    app = app_with(fake)

    def means(*items: str) -> None:
        fake.store.dispatch(WorkingMemoryChanged(memory=WorkingMemory(plan_brief=items)))

    async with standing(app, 120) as pilot:
        await pilot.press("f3")
        await settled(pilot, lambda: rows(app) == [" No plan yet."], "no plan")
        means("look", f"mend {HOSTILE}", "long " * 19)
        await settled(pilot, lambda: "Until there is a plan" in rows(app)[0])
        _head, first, second, *third = rows(app)
        assert first == "  1 look"
        assert second.startswith("  2 mend ")
        assert "\x1b" not in second
        assert [line[:9] for line in third] == ["  3 long ", *["    long "] * (len(third) - 1)]
        assert len(third) > 1
        assert " ".join(third).count("long") == 19

        fake.store.dispatch(PlanProposed(plan=draft()))
        await settled(pilot, lambda: "Reproduce" in rows(app)[0])
        assert "Until there is a plan" not in shown(app.bench.plan)


@pytest.mark.parametrize("status", [PlanStatus.COMPLETED, PlanStatus.FAILED, PlanStatus.REJECTED])
async def test_a_plan_that_is_over_gives_way_to_what_is_meant_for_a_newer_request(
    status: PlanStatus,
) -> None:
    """Covers S4-104."""
    store = store_with(turn_started())
    plan = draft().replace(status=status, created_at=NOW)
    store.state.plans, store.state.active_plan_id = (plan,), plan.plan_id
    store.state.memory = WorkingMemory(plan_brief=("look", "mend"))
    old = TaskObjective(objective_id="o1", original_query="q", created_at=NOW - 1)
    store.state.objective = old
    app = app_with(FakeEngine(store))
    async with standing(app, 120) as pilot:
        # What was meant before the plan was made is no news.
        assert "Reproduce" in rows(app)[0]
        store.dispatch(
            ObjectiveChanged(objective=old.replace(objective_id="o2", created_at=NOW + 1))
        )
        await settled(pilot, lambda: "Until there is a plan" in rows(app)[0])
        assert rows(app)[1:] == ["  1 look", "  2 mend"]
        store.dispatch(WorkingMemoryChanged(memory=WorkingMemory()))
        await settled(pilot, lambda: "Reproduce" in rows(app)[0])
        running = plan.replace(status=PlanStatus.APPROVED)
        store.state.plans = (running,)
        store.dispatch(WorkingMemoryChanged(memory=WorkingMemory(plan_brief=("look",))))
        await pilot.pause()
        assert "Reproduce" in rows(app)[0]  # work that is left comes before what is only meant


async def test_what_was_meant_for_a_turn_leaves_the_screen_with_it() -> None:
    store = store_with(turn_started())
    store.state.memory = WorkingMemory(plan_brief=("look", "mend"))
    app = app_with(FakeEngine(store))
    async with standing(app, 200, 60) as pilot:
        await settled(pilot, lambda: "Until there is a plan" in screen_text(app), "what is meant")
        store.dispatch(TurnFinished(turn_id="turn_00000001", outcome="done", reply="", llm_calls=1))
        await settled(pilot, lambda: "Until there is a plan" not in screen_text(app), "the end")
        assert not app.bench.plan.is_on_screen
        await pilot.press("f3")  # nor does it where the pane is asked for
        await settled(pilot, lambda: rows(app) == [" No plan yet."], "no plan")


async def test_a_provisional_plan_is_scrolled_to_its_end() -> None:
    """Covers S3-36."""
    store = store_with(turn_started())
    store.state.memory = WorkingMemory(plan_brief=("look", "mend", "the last"))
    app = app_with(FakeEngine(store))
    async with standing(app, 120):
        pane = app.bench.plan
        assert "Until there is a plan" in rows(app)[0]
        assert pane.line_count(40) == pane.get_content_height(pane.size, pane.size, 40) == 4


async def test_a_step_that_has_begun_says_no_more_that_it_asks_first() -> None:
    store, plan = working(), running()
    steps = tuple(step.model_copy(update={"break_before": True}) for step in plan.steps)
    store.state.plans = (plan.model_copy(update={"steps": steps}),)
    app = app_with(FakeEngine(store))
    async with standing(app, 160) as pilot:
        await in_the_plan(pilot)
        marked = [row for row in rows(app) if "●" in row]
        assert len(marked) == 1, "of three steps one is still to come"
        assert "Test for stacked discounts" in marked[0]
        assert sum("asks first" in row for row in rows(app)) == 1


def test_lines_and_places_belong_together_in_a_plan_of_any_size() -> None:
    """Covers S2-11."""
    tasks = running().steps[1].task_list
    steps = tuple(
        Step(step_id=f"s{n}", name=str(n), status=status, task_list=tasks)
        for n in range(100)
        for status in ([WorkStatus.PENDING, WorkStatus.FAILED, WorkStatus.COMPLETED][n % 3],)
    )
    tree = PlanTree()
    tree.take_plan(draft(steps=steps))
    assert tree.total_height == 100 + 33 * len(tasks)
    for line in range(tree.total_height):
        spot = tree.spot_at(line)
        assert spot is not None
        assert tree.line_of(spot) == line
    assert tree.spot_at(tree.total_height) is None
    assert tree.find_spot("s1", tasks[2].task_id) == PlanSpot(1, 2)
    assert tree.find_spot("s2", tasks[2].task_id) == PlanSpot(2)  # folded away
