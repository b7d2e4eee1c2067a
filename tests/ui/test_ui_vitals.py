"""The gauges, what Enter shows of them, the limit of loops, and the app without gauges."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import goals
from support.app_states import (
    FakeEngine,
    app_with,
    commanded,
    settled,
    standing,
    store_with,
    turn_started,
)
from support.gates import gate
from support.open_apps import OpenApps
from support.screens import shown
from textual.pilot import Pilot

from duckflow_tui.state.pace import (
    Complexity,
    LimitSet,
    Pace,
    Reason,
    TaskProfile,
    Vitals,
    VitalsChanged,
)
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.vitals import spark_of
from duckflow_tui.ui.panes.vitals_words import limit_blocks, limit_summary
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.work.loop_limits import Pacemaker, PaceSettings
from duckflow_tui.work.vitals import VitalCause

EN = Catalogue("en")
NUMBER = r"(−?[\d.]+)"


async def explain(app: DuckflowApp, pilot: Pilot[int]) -> str:
    """Everything that Enter shows."""
    await pilot.press("f5")
    await settled(pilot, lambda: app.bench.focused is app.bench.vitals, "the focus")
    await pilot.press("enter")
    await settled(pilot, lambda: app.bench.vitals.explained)
    await pilot.pause()
    return shown(app.bench.vitals)


def part(text: str, name: str, until: str) -> str:
    """The rows of one vital, or of the limit, from its name to the next one's."""
    found = re.search(rf"^ {name}\b.*?(?=^ {until}\b|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, text
    return found.group()


def figures(pattern: str, text: str) -> list[float]:
    """The numbers that the pattern finds in what is shown."""
    found = re.search(pattern, text)
    assert found is not None, (pattern, text)
    return [float(group.replace("−", "-")) for group in found.groups()]


def near(one: float, other: float, by: float) -> bool:
    return abs(one - other) <= by


def on_gauge(text: str, name: str) -> float:
    return figures(rf"{name} +[━─]+ +{NUMBER}", text)[0]


@pytest.mark.parametrize("build", [goals.at_work, goals.falling], ids=["work", "falling"])
async def test_the_numbers_on_every_gauge_can_be_recomputed_from_what_enter_shows(
    open_apps: OpenApps,
    build: goals.Build,
) -> None:
    """Covers S0-8, S0-9, S0-10, S0-36, S0-44: only figures that stand on the screen, put into the
    documented formulas.
    """
    async with open_apps.standing(FakeEngine(build()), 160, 150) as (app, pilot):
        text = await explain(app, pilot)

    mood = part(text, "mood", "focus")
    share = figures(rf"outcomes: {NUMBER} of {NUMBER} good = {NUMBER}", mood)
    assert near(share[2], share[0] / share[1], 0.0001)
    sure = figures(rf"its own confidence: {NUMBER}", mood)[0]
    before = figures(rf"0\.7 × [\d.]+ \+ 0\.3 × {NUMBER} =", mood)[0]
    value = 0.7 * (0.5 * sure + 0.5 * share[2]) + 0.3 * before
    assert near(value, on_gauge(text, "mood"), 0.0051)
    assert near(value, figures(rf"\+ 0\.3 × [\d.]+ = {NUMBER}", mood)[0], 0.0002)

    focus = part(text, "focus", "stamina")
    before, by, after = figures(rf"{NUMBER} − {NUMBER} = {NUMBER}", focus)
    assert by == 0.1
    assert near(before - by, after, 0.0001)
    assert near(after, on_gauge(text, "focus"), 0.0051)

    stamina = part(text, "stamina", "Limit")
    loops, limit = figures(rf"loops: {NUMBER} of {NUMBER}", stamina)
    given = rf"failed: {NUMBER} · reads: {NUMBER} · attempt: {NUMBER}"
    failed, reads, attempt = figures(given, stamina)
    value = 1 - 0.6 * loops / limit - 0.1 * failed - 0.03 * reads - 0.1 * (attempt - 1)
    assert near(value, on_gauge(text, "stamina"), 0.0051)

    why = part(text, "Loop", "Questions")
    base = figures(rf"base: {NUMBER}", why)[0]
    score = figures(rf"0\.4 × {NUMBER}\s+\+ 0\.4 × {NUMBER}\s+\+ 0\.2 × {NUMBER}\s+= {NUMBER}", why)
    summed = sum(w * v for w, v in zip((0.4, 0.4, 0.2), score[:3], strict=True))
    assert near(summed, score[3], 0.0002)
    by_vitals = 0.7 if score[3] < 0.4 else 1.2 if score[3] > 0.8 else 1.0
    factors = figures(rf"files read {NUMBER} · conversation {NUMBER} ·\s+errors {NUMBER}", why)
    by_context = 1 + 0.4 * sum(factors) / 3
    shown_limit = figures(rf"{NUMBER} loops\b", why.split("final")[1])[0]
    assert int(round(base * by_vitals * by_context, 2)) == shown_limit
    product = figures(rf"{NUMBER} × {NUMBER} × {NUMBER} = {NUMBER} → {NUMBER}", why)
    assert near(product[0] * product[1] * product[2], product[3], 0.0051)
    assert int(product[3]) == product[4] == shown_limit


@given(
    profile=st.sampled_from([None, *TaskProfile]),
    complexity=st.floats(0.0, 1.0),
    mood=st.integers(0, 100),
    focus=st.integers(0, 100),
)
def test_the_calculation_line_gives_the_limit_whatever_the_figures(
    profile: TaskProfile | None, complexity: float, mood: int, focus: int
) -> None:
    """Covers S0-36."""
    vitals = Vitals(mood=mood / 100, focus=focus / 100)
    limit = Pacemaker().compute_limit(profile, "model", vitals, Complexity(value=complexity))
    lines = [line for block in limit_blocks(limit, EN) for line in block.lines]
    line = next(line for line in lines if "→" in line)
    base, by_vitals, by_context, product, whole = figures(
        rf"{NUMBER} × {NUMBER} × {NUMBER} = {NUMBER} → {NUMBER}", line
    )
    assert int(round(base * by_vitals * by_context, 6)) == whole == int(product)
    assert min(max(whole, 3), 20) == limit.max_loops


def test_an_adjustment_is_rounded_and_the_range_is_said() -> None:
    """Covers S0-34, S0-35: 1.2 is 20 % more, where floats make it 19.99…"""
    vitals = Vitals(mood=0.9, focus=0.9)
    limit = Pacemaker().compute_limit(TaskProfile.RESEARCH, "user", vitals, Complexity(value=0.0))
    blocks = limit_blocks(limit, EN)
    assert [block.name for block in blocks] == ["task", "vitals", "context", "limit", "final"]
    said = "\n".join(line for block in blocks for line in block.lines)
    assert "Research, as you chose" in said
    assert "vitals +20 %" in said
    assert "16 × 1.20 × 1.00 = 19.20 → 19" in said
    assert "19 loops\nkept between 3 and 20" in said


def test_the_range_of_the_settings_is_the_one_that_is_said() -> None:
    limit = Pacemaker(PaceSettings(min=4, max=9)).compute_limit(
        TaskProfile.RESEARCH, "model", Vitals(), Complexity(value=0.0)
    )
    said = [line for block in limit_blocks(limit, EN) for line in block.lines]
    assert said[-2:] == ["9 loops", "kept between 4 and 9"]


def test_a_fallback_is_said_to_be_one() -> None:
    """Covers S0-30."""
    limit = goals.fallback()
    said = " ".join(limit_summary(Pace(limit=limit, used=2), EN))
    assert said.startswith("After 15 loops you are asked how to continue")
    assert "a fallback: the calculation failed" in said
    (block,) = limit_blocks(limit, EN)
    assert block.lines == ("15 loops", "a fallback, not computed")


def test_the_summary_has_no_figure_but_loops() -> None:
    """Covers S0-2, S0-32, S0-33, S0-44."""
    pace = goals.falling().state.pace
    assert pace is not None
    said = limit_summary(pace, EN)
    assert said[1].startswith("Low: mood, focus, stamina. ")
    assert "The context is very involved." in said[1]
    assert set(re.findall(r"[\d.]*\d", " ".join(said))) == {"9", "14"}


def test_an_unknown_reason_is_left_out_and_added_loops_are_told() -> None:
    limit = goals.limit().model_copy(
        update={"max_loops": 19, "extended": 5, "reasoning": (Reason(code="new_one"),)}
    )
    said = limit_summary(Pace(limit=limit), EN)
    assert said[1] == "You added 5. 0 of 19 used."
    final = limit_blocks(limit, EN)[-1]
    assert "14 + 5 = 19" in final.lines


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("code", list(VitalCause))
def test_every_cause_has_words(language: str, code: VitalCause) -> None:
    words = Catalogue(language)
    kinds = ("read", "diff", "check", "requirement", "step") if code == "progress" else ("",)
    for kind in kinds:
        name = f"{code.value}_{kind}" if kind else code.value
        assert words(f"vitals.cause.{name}") != f"vitals.cause.{name}"


async def test_a_gauge_says_a_word_and_the_newest_cause(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(goals.at_work())) as (app, pilot):
        await pilot.press("f5")
        await settled(pilot, lambda: app.bench.vitals.is_on_screen, "the gauges")
        text = shown(app.bench.vitals)
    assert re.search(r"mood .*confident", text)
    assert re.search(r"focus .*drifting\n .* 2 repeats", text)
    assert re.search(r"stamina .*fresh", text)


async def test_a_gate_in_a_step_waits_for_approval_not_for_an_answer(open_apps: OpenApps) -> None:
    """The step leaves the phase of the turn as it is."""
    store = goals.at_work()
    state = store.state
    state.phase, state.status = Phase.EXECUTION, Status.REQUIRES_USER_INPUT
    state.gates = (gate(),)
    async with open_apps.standing(FakeEngine(store), language="ja") as (app, pilot):
        await pilot.press("f5")
        await settled(pilot, lambda: app.bench.vitals.is_on_screen, "the gauges")
        text = shown(app.bench.vitals)
    assert "承認待ち" in text
    assert "回答待ち" not in text


def test_a_curve_rises_with_its_values_and_leaves_room_above() -> None:
    """A whole block would touch the curve in the row above."""
    drawn = "".join(spark_of(value / 100) for value in range(101))
    assert "".join(dict.fromkeys(drawn)) == "▁▂▃▄▅▆▇"
    assert list(drawn) == sorted(drawn)


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("width", [80, 100, 120, 160])
async def test_no_word_beside_a_gauge_is_cut(language: str, width: int) -> None:
    """The bar and the sparkline give way first: words stand beside colours, always."""
    for build in (goals.at_work, goals.falling):
        app = app_with(FakeEngine(build(language)), language=language)
        async with standing(app, width, 24) as pilot:
            await explain(app, pilot)
            rows = shown(app.bench.vitals).splitlines()
            gauges = [row for row in rows if "━" in row]
            assert gauges
            assert not any("…" in row for row in gauges)


async def test_a_hostile_cause_stays_one_harmless_line(open_apps: OpenApps) -> None:
    store = goals.at_work()
    bad = "\x1b[2J[red]x[/]\nsecond\u202e"
    store.state.vitals = goals.moved(*goals.focus((VitalCause.REPEAT, bad)))
    async with open_apps.standing(FakeEngine(store), 160, 150) as (app, pilot):
        text = await explain(app, pilot)
    assert "[red]x[/]" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(row.startswith("second") for row in text.splitlines())


# --- going to what is behind a change ----------------------------------------------------------


async def test_enter_on_a_change_leads_to_its_place_in_the_chat(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(goals.at_work())) as (app, pilot):
        await explain(app, pilot)
        await pilot.press("down")  # the newest decision
        await pilot.press("enter")
        chat = app.bench.talk.transcript
        assert chat is not None
        await settled(pilot, lambda: app.bench.focused is chat, "the chat")
        assert "Two discounts are added" in marked_row(chat)
        assert app.bench.vitals.explained  # it stays to be read on


async def test_a_click_on_a_change_does_the_same(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(goals.at_work()), 120, 100) as (app, pilot):
        text = await explain(app, pilot)
        rows = text.splitlines()
        at = next(n for n, row in enumerate(rows) if "a repeat without" in row and "→" in row)
        await pilot.click(app.bench.vitals, offset=(10, at))
        chat = app.bench.talk.transcript
        assert chat is not None
        await settled(pilot, lambda: app.bench.focused is chat, "the chat")
        assert "pytest -q" in marked_row(chat)


async def test_a_change_without_a_place_says_so(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(goals.at_work())) as (app, pilot):
        await explain(app, pilot)
        app.bench.vitals.action_walk(99)
        app.bench.vitals.action_walk(-3)  # past the limit, to a loop that nothing is behind
        await pilot.press("enter")
        await settled(
            pilot, lambda: "Nothing about it is in the chat" in app.bench.status.notice_text
        )
        assert app.bench.focused is app.bench.vitals


async def test_the_explanation_moves_with_the_work_and_ends_with_the_key_that_asked(
    open_apps: OpenApps,
) -> None:
    fake = FakeEngine(goals.at_work(objective=True))
    async with open_apps.standing(fake, 120, 90) as (app, pilot):
        await explain(app, pilot)
        change = goals.focus((VitalCause.CHECK_NO, "left the goal"))[0]
        change = change.model_copy(
            update={
                "old": 0.65,
                "new": 0.55,
                "inputs": {"old": 0.65, "by": -0.1},
                "at": goals.NOW + 9,
            }
        )
        fake.store.dispatch(VitalsChanged(change=change))
        await settled(pilot, lambda: "0.65 − 0.10 = 0.55" in shown(app.bench.vitals), "the move")
        await pilot.press("escape")
        await settled(pilot, lambda: not app.bench.vitals.explained, "the end")
        await pilot.press("f5")
        await settled(pilot, lambda: app.bench.focused is app.bench.vitals, "the gauges")
        assert not app.bench.vitals.explained


# --- the limit and the kind of request ---------------------------------------------------------


async def test_more_loops_by_a_command(open_apps: OpenApps) -> None:
    fake = FakeEngine(store_with(turn_started(loop=4), LimitSet(limit=goals.limit())))
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("f5")
        await settled(pilot, lambda: "loop 4 of 14" in shown(app.bench.vitals))
        await pilot.press("escape", *"/more", "enter")
        await settled(pilot, lambda: "now 19" in app.bench.status.notice_text, "the limit")
        assert app.bench.status.notice_text == "5 loops more: the limit is now 19."


async def test_more_loops_with_nothing_at_work(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        await commanded(pilot, "/more")
        await settled(pilot, lambda: app.bench.status.notice_text.startswith("Nothing is running"))


async def test_the_kind_of_request_is_chosen_from_a_list_or_left_to_the_ai(
    open_apps: OpenApps,
) -> None:
    fake = FakeEngine(goals.at_work())
    async with open_apps.standing(fake) as (app, pilot):
        await commanded(pilot, "/profile")
        await settled(pilot, lambda: len(app.screen_stack) == 2, "the list")
        from textual.widgets import OptionList

        options = app.screen.query_one(OptionList)
        rows = [str(options.get_option_at_index(n).prompt) for n in range(options.option_count)]
        assert len(rows) == 10
        assert any("Debugging" in row and "now: the AI chose it" in row for row in rows)
        await pilot.press(*"research", "enter")
        await settled(
            pilot, lambda: fake.store.state.profile_choice is TaskProfile.RESEARCH, "the choice"
        )
        assert app.bench.status.notice_text == (
            "All requests of this session count as: Research, until /profile auto."
        )
        await commanded(pilot, "/profile auto")
        await settled(pilot, lambda: fake.store.state.profile_choice is None, "the AI's")


async def test_a_wrong_kind_of_request_is_refused_with_what_there_is(open_apps: OpenApps) -> None:
    fake = FakeEngine(goals.at_work())
    async with open_apps.standing(fake) as (app, pilot):
        await commanded(pilot, "/profile nonsense")
        await settled(pilot, lambda: "code_analysis" in app.bench.status.notice_text, "the hint")
        assert fake.store.state.profile_choice is None


# --- without gauges ----------------------------------------------------------------------------


async def test_without_gauges_none_is_anywhere_and_the_ledger_stays() -> None:
    app = app_with(FakeEngine(goals.at_work(objective=True)), vitals="off")
    async with standing(app) as pilot:
        assert not app.bench.vitals.is_on_screen
        assert shown(app.bench.query_one("#vitals-title")).strip() == "Goal  1/4"
        assert "✗ A test covers stacked" in shown(app.bench.goal.ledger)
        await pilot.resize_terminal(80, 24)
        await pilot.press("f5")
        await settled(pilot, lambda: app.bench.focused is app.bench.goal.ledger, "the ledger")
        assert "stamina" not in shown(app.bench.status)
        assert "Goal" in shown(app.bench.all_tabs)
        assert "Vitals" not in shown(app.bench.all_tabs)


async def test_the_gauges_are_switched_by_a_command(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(goals.at_work())) as (app, pilot):
        await pilot.press("f5")
        await settled(pilot, lambda: app.bench.vitals.is_on_screen, "the gauges")
        await pilot.press("escape", *"/vitals off", "enter")
        await settled(pilot, lambda: not app.bench.vitals.is_on_screen, "off")
        assert "/vitals auto" in app.bench.status.notice_text
        await pilot.press("f5")
        await pilot.pause()
        assert not app.bench.vitals.is_on_screen
        await pilot.press("escape", *"/vitals auto", "enter")
        await commanded(pilot, "/vitals")
        await settled(pilot, lambda: app.bench.focused is app.bench.vitals, "the pane")


def marked_row(chat: object) -> str:
    """The row that is lit because someone went there."""
    from duckflow_tui.ui.panes.transcript import Transcript

    assert isinstance(chat, Transcript)
    background = chat.rich_style.bgcolor
    for y in range(chat.size.height):
        strip = chat.render_line(y)
        lit = [s for s in strip if s.style and s.style.bgcolor not in (None, background)]
        if lit and any(s.text.strip() for s in lit):
            return strip.text
    return ""
