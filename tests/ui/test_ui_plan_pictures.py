"""Pictures of a plan: draft, at work, asking, changed, reported, finished, failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.app_states import (
    FakeEngine,
    app_with,
    pressing,
    store_with,
    turn_started,
)
from support.conversations import START
from support.pictures import IDS, SIZES
from support.plans import (
    FIX,
    change_card,
    draft,
    drafted,
    failed_report,
    over,
    plan_card,
    report_card,
    revised,
    talk,
    working,
)

from duckflow_tui.state.memory import WorkingMemory
from duckflow_tui.state.plan import PlanStatus, ReportMessage, WorkStatus
from duckflow_tui.state.store import Store

Build = Callable[[str], Store]

BRIEF = (
    "Read pricing.py and the failing test",
    "Let each discount act on what the one before left over, not on the first price",
    "Run the tests",
)
BRIEF_JA = (
    "pricing.py と失敗するテストを読む",
    "割引を元の価格ではなく、一つ前の割引を引いた残りに掛けるように直す",
    "テストを実行する",
)


def provisional(language: str) -> Store:
    """The model has said what it means to do; no plan was asked for."""
    store = store_with(turn_started(loop=2))
    store.state.messages += talk(language)[:1]
    brief = BRIEF_JA if language == "ja" else BRIEF
    store.state.memory = WorkingMemory(plan_brief=brief)
    return store


def a_draft(language: str) -> Store:
    return drafted(language)


def a_draft_again(language: str) -> Store:
    store, plan = drafted(language), revised(draft(language), language)
    store.state.plans, store.state.cards = (plan,), (plan_card(plan, draft(language)),)
    return store


def at_work(language: str) -> Store:
    return working(language)


def gate_in_a_step(language: str) -> Store:
    return working(language, at_gate=True)


def a_change(language: str) -> Store:
    reason = "受け取り票にも同じ計算がある" if language == "ja" else "the receipt adds them up too"
    return working(language, cards=(change_card(language, reason=reason),))


def a_report(language: str) -> Store:
    report = failed_report(language)
    store = working(language, cards=(report_card(report),))
    state = store.state
    state.messages.append(ReportMessage(message_id="m9", report=report, step_id=FIX, at=START))
    step = state.plans[0].steps[1]
    update = {"status": WorkStatus.FAILED, "started_at": None, "elapsed_s": 63.0}
    state.plans = (state.plans[0].with_step(step.model_copy(update=update)),)
    state.running = ()
    assert step.step_id == FIX
    return store


def finished(language: str) -> Store:
    return over(PlanStatus.COMPLETED, language)


def failed(language: str) -> Store:
    return over(PlanStatus.FAILED, language)


STATES: list[Build] = [
    provisional, a_draft, a_draft_again, gate_in_a_step,
    a_change, a_report, finished, failed,
]  # fmt: skip
MAIN: list[Build] = [provisional, a_draft]


@pytest.mark.parametrize("build", STATES, ids=lambda build: build.__name__)
@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_plans_in_english(snap_compare: Any, build: Build, size: tuple[int, int]) -> None:
    """The open card has the focus, as when the user decides; without a plan its pane has it."""
    store = build("en")
    keys = ("enter",) if store.state.cards else () if store.state.plans else ("f3",)
    app = app_with(FakeEngine(store))
    assert snap_compare(app, terminal_size=size, run_before=pressing(*keys))


@pytest.mark.parametrize(
    ("size", "build"),
    [
        pytest.param(size, build, id=f"{name}-{build.__name__}")
        for size, name in zip(SIZES, IDS, strict=True)
        for build in STATES
        if build in MAIN or name == "80x24"
    ],
)
def test_plans_in_japanese(snap_compare: Any, build: Build, size: tuple[int, int]) -> None:
    """The open card waits, as while the user types."""
    app = app_with(FakeEngine(build("ja")), language="ja", theme="duck-light")
    assert snap_compare(app, terminal_size=size, run_before=pressing())


@pytest.mark.parametrize(
    ("build", "keys", "size"),
    [
        (at_work, ("f3", "down"), (120, 40)),
        (at_work, ("f3",), (80, 24)),
        (at_work, ("f3", "end", "e"), (80, 24)),
        (a_draft, ("enter", "n", "x"), (60, 20)),
        (a_report, ("enter", "r"), (80, 24)),
        (a_draft, ("enter",), (20, 5)),
    ],
    ids=["tree", "pane", "form", "reason", "word", "tiny"],
)
def test_what_keys_open(
    snap_compare: Any, build: Build, keys: tuple[str, ...], size: tuple[int, int]
) -> None:
    app = app_with(FakeEngine(build("en")))
    assert snap_compare(app, terminal_size=size, run_before=pressing(*keys))
