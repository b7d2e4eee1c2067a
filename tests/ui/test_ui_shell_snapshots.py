"""The whole app in each state that a user can meet, at the four sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import consults, goals, plans
from support.app_states import (
    FakeEngine,
    app_with,
    at_question,
    settled,
    store_with,
    turn_started,
)
from support.conversations import (
    REPLY,
    REPLY_JA,
    START,
    answer,
    assistant,
    live,
    notice,
    operation,
    user,
)
from support.gates import gate, many_lines
from support.open_apps import OpenApps
from support.pictures import IDS, LARGE, SIZES
from support.screens import stands as still
from textual.pilot import Pilot

from duckflow_tui.scripted.stories import list_requests
from duckflow_tui.state.calls import RunningOperation
from duckflow_tui.state.conversation import Level, QueuedMessage
from duckflow_tui.state.gates import CardAnswer, CardAnswered, Gate, GateChoice
from duckflow_tui.state.operations import FileChange, Outcome
from duckflow_tui.state.pace import Pattern, VitalChange, Vitals
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import TurnFinished, TurnOutcome
from duckflow_tui.state.usage import UsageTotals
from duckflow_tui.ui.app import DuckflowApp

ASK = "The total is wrong when two discounts apply. Find out why, fix it, and add a test."
ASK_JA = "割引が二つ重なると合計がおかしくなります。原因を調べて直し、テストも追加してください。"
PATH = {"path": "src/shop/pricing.py"}
GATE_JA: dict[str, Any] = {
    "intent": "割引を一つずつ順に適用する",
    "why": "失敗するテストでは 19 % のところが 20 % になる",
    "alternatives": ("合計のままで上限を付ける", "テストのほうを変える"),
}

Build = Callable[[str], Store]


def asked(language: str) -> Store:
    """A turn in its fourth loop."""
    store = store_with(turn_started(loop=4))
    state = store.state
    state.messages.append(user(ASK_JA if language == "ja" else ASK))
    state.phase, state.status = Phase.EXECUTION, Status.IN_PROGRESS
    state.usage = UsageTotals(
        calls=6, tokens_in=90_000, cost=0.03, last_context=42_000, context_window=200_000
    )
    return store


def empty(language: str) -> Store:
    return store_with()


def chatting(language: str) -> Store:
    """A turn that did something has ended, and the next one works."""
    store = rejected(language)
    state, ja = store.state, language == "ja"
    store.dispatch(turn_started(loop=1))
    state.messages += [
        user("受け取り票には何が出ますか" if ja else "what does the receipt print?", 2),
        operation("file_ops.read_file", {"path": "src/shop/receipt.py"}, summary="1–21/21"),
    ]
    state.phase, state.status = Phase.EXECUTION, Status.IN_PROGRESS
    return store


def streaming(language: str) -> Store:
    store = asked(language)
    reply = (REPLY_JA if language == "ja" else REPLY)[:90]
    store.state.live["llm9"] = live(reply, reasoning="look at the code " * 30)
    return store


def operations(language: str) -> Store:
    store = asked(language)
    state = store.state
    state.messages.append(assistant(REPLY_JA if language == "ja" else REPLY, 1))
    state.messages += [
        operation("file_ops.read_file", PATH, summary="1–38/38"),
        operation("file_ops.read_file", {"path": "tests/test_pricing.py"}, summary="1–52/52"),
    ]
    state.running = (
        RunningOperation(
            call_id="r1",
            operation="file_ops.search_text",
            args={"pattern": "discount", "path": "src"},
            started=True,
            at=START,
        ),
    )
    state.queue = (QueuedMessage(message_id="q", text="then commit it", at=START),)
    state.vitals = Vitals(
        mood=0.82,
        focus=0.65,
        stamina=0.83,
        history=(
            VitalChange(vital="mood", old=0.7, new=0.76, cause="decision", at=1.0),
            VitalChange(vital="mood", old=0.76, new=0.82, cause="decision", at=2.0),
            VitalChange(vital="focus", old=0.75, new=0.65, cause="repeat", at=3.0),
            VitalChange(
                vital="stamina",
                old=1.0,
                new=0.83,
                cause="loop",
                inputs={"loops": 4, "limit": 14, "failed": 0, "attempt": 1},
                at=4.0,
            ),
        ),
    )
    return store


def at_the_gate(language: str, asks: Gate | None = None) -> Store:
    store = operations(language)
    state, asks = store.state, asks or gate(**(GATE_JA if language == "ja" else {}))
    state.queue = ()
    state.running = (
        RunningOperation(call_id=asks.call_id, operation=asks.operation, args=asks.args, at=START),
    )
    state.phase, state.status = Phase.AWAITING_APPROVAL, Status.REQUIRES_USER_INPUT
    state.gates = (asks,)
    return store


def long_diff(language: str) -> Store:
    """The gate of a new file that no screen holds."""
    args = {"path": "src/big.py"}
    said = GATE_JA if language == "ja" else {}
    about = {"operation": "file_ops.write_file", "args": args, "grant_pattern": "edit src/big.py"}
    return at_the_gate(language, gate([many_lines(600)], **(said | about | {"alternatives": ()})))


def rejected(language: str) -> Store:
    store, ja = operations(language), language == "ja"
    state = store.state
    state.running, state.queue = (), ()
    state.messages += [
        operation(
            "file_ops.edit_file",
            PATH,
            Outcome.REJECTED,
            gate=gate(),
            answer=answer(GateChoice.REJECT, reason="合計のままで" if ja else "keep the sum"),
            seconds=0,
        ),
        assistant("分かりました。合計のままにします。" if ja else "I will keep the sum.", 2),
    ]
    ended(store, "done")
    return store


def plan_running(language: str) -> Store:
    return plans.working(language)


def stuck(language: str) -> Store:
    store = goals.falling(language)
    about = {"loop": 9, "limit": 14}
    store.state.cards = (consults.consultation(Pattern.STAGNATION, language, **about),)
    store.state.status = Status.REQUIRES_USER_INPUT
    return store


def done(language: str) -> Store:
    store = asked(language)
    change = FileChange(path=PATH["path"], kind="modify", added=3, removed=2)
    tests = {"command": "pytest -q"}
    store.state.messages += [
        operation("file_ops.read_file", PATH, summary="1–38/38"),
        operation("file_ops.edit_file", PATH, changes=(change,)),
        operation("shell.run", tests, summary="exit 0", seconds=1.9),
        assistant(REPLY_JA if language == "ja" else REPLY, 1),
        consults.reviewed(consults.done(language)),
    ]
    ended(store, "done", satisfaction=0.93)
    return store


def failed(language: str) -> Store:
    """Three attempts did not get there, and the user gave up."""
    judged = consults.review(language, attempt=3, follows=False)
    store = consults.at_work(
        language, consults.escalation(language), more=(consults.reviewed(judged),)
    )
    [card] = store.state.cards
    answer = CardAnswer(card_id=card.card_id, subject=card.subject, action="cancel")
    store.dispatch(CardAnswered(answer=answer, message_id="msg_answer", at=START))
    ended(store, "stopped")
    return store


def offline(language: str) -> Store:
    """The model's server cannot be reached any more."""
    store = asked(language)
    params = {
        "model": "gpt-5-mini",
        "host": "127.0.0.1:8000",
        "setting": "endpoints.local.base_url",
        "detail": "All connection attempts failed",
    }
    store.state.messages.append(notice("llm.in_turn.connect", Level.ERROR, **params))
    ended(store, "failed", llm_calls=0)
    store.state.status = Status.ERROR
    return store


def ended(store: Store, outcome: TurnOutcome, **fields: Any) -> None:
    """End the turn that runs."""
    state = store.state
    assert state.turn is not None
    state.phase, state.status = Phase.DONE, Status.SUCCESS
    took: dict[str, Any] = {"llm_calls": 6, "tokens": 91_200, "cost": 0.03, "duration_s": 42.0}
    turn_id = state.turn.turn_id
    store.dispatch(TurnFinished(turn_id=turn_id, outcome=outcome, **(took | fields)))


STATES: list[Build] = [
    empty, chatting, streaming, operations, at_the_gate, long_diff, rejected, plan_running, stuck,
    done, failed, offline,
]  # fmt: skip


async def stands(pilot: Pilot[int]) -> None:
    app = pilot.app
    assert isinstance(app, DuckflowApp)
    await settled(pilot, lambda: not app.session.opening)
    await pilot.pause()
    await pilot.pause()


@pytest.mark.parametrize("build", STATES, ids=lambda build: build.__name__)
@pytest.mark.parametrize("language", ["en", "ja"])
async def test_states(
    open_apps: OpenApps, pictured: Callable[[DuckflowApp], None], build: Build, language: str
) -> None:
    """From the smallest terminal to the largest, so that each has more in sight than the one
    before. English and dark: a question has the focus. Japanese and light: it waits.
    """
    first, *more = reversed((LARGE, *SIZES))
    fake = FakeEngine(build(language))
    async with open_apps.standing(fake, *first, language=language) as (app, pilot):
        if language == "ja":
            app.theme = "duck-light"
        elif fake.store.state.gates or fake.store.state.cards:
            await at_question(pilot)
        for size in (first, *more):
            await pilot.resize_terminal(*size)
            await settled(pilot, lambda: still(app.screen), "the screen")
            pictured(app)


@pytest.mark.parametrize(
    ("language", "theme", "size"),
    [*(("en", "duck-dark", size) for size in SIZES), ("ja", "duck-light", (80, 24))],
    ids=[*(f"en-duck-dark-{name}" for name in IDS), "ja-duck-light-80x24"],
)
def test_the_first_screen(
    snap_compare: Any, size: tuple[int, int], language: str, theme: str
) -> None:
    app = app_with(None, language=language, theme=theme)
    assert snap_compare(app, terminal_size=size, run_before=stands)


@pytest.mark.parametrize(
    ("keys", "size"),
    [
        (("/",), (80, 24)),
        (("ctrl+p",), (80, 24)),
        (("f1",), (120, 40)),
        (("shift+tab",), (80, 24)),
        (("f5", "enter"), (60, 20)),
        (("ctrl+f", "t", "o"), (80, 24)),
        (("h", "e", "l", "l", "o"), (20, 5)),
    ],
    ids=["commands", "palette", "keys", "trusted", "vitals", "find", "tiny"],
)
def test_what_keys_open(snap_compare: Any, keys: tuple[str, ...], size: tuple[int, int]) -> None:
    app = app_with(FakeEngine(rejected("en")))

    async def press(pilot: Pilot[int]) -> None:
        await stands(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await pilot.pause(0.1)

    assert snap_compare(app, terminal_size=size, run_before=press)


def test_high_contrast_at_the_gate(snap_compare: Any) -> None:
    app = app_with(FakeEngine(at_the_gate("en")), theme="duck-contrast")

    async def focus_it(pilot: Pilot[int]) -> None:
        await stands(pilot)
        await pilot.press("enter")
        await pilot.pause()

    assert snap_compare(app, terminal_size=(120, 40), run_before=focus_it)


@pytest.mark.parametrize(
    ("language", "theme", "size"),
    [("en", "duck-dark", (120, 40)), ("en", "duck-dark", (40, 12)), ("ja", "duck-light", (60, 20))],
    ids=["en-120x40", "en-40x12", "ja-60x20"],
)
def test_the_stories_of_the_demo(
    snap_compare: Any, size: tuple[int, int], language: str, theme: str
) -> None:
    fake = FakeEngine(store_with(demo=True))
    fake.stories = list_requests(language)
    fake.suggestion = fake.stories["bug"]
    app = app_with(fake, language=language, theme=theme)
    assert snap_compare(app, terminal_size=size, run_before=stands)


def test_where_there_is_much_room(snap_compare: Any) -> None:
    """Beside a gate all requirements stand, where a smaller screen shows the open one."""
    store = at_the_gate("en")
    goals.set_objective(store, items=goals.requirements())
    app = app_with(FakeEngine(store))
    assert snap_compare(app, terminal_size=LARGE, run_before=stands)
