"""Vitals, limits and requirements for screens, made by the rules that make them at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from support.app_states import store_with
from support.conversations import REPLY, REPLY_JA, assistant, operation, user
from support.pinned import ManualClock

from duckflow_tui.state.decision import Check
from duckflow_tui.state.goal import Evidence, RequirementItem, RequirementState, TaskObjective
from duckflow_tui.state.pace import (
    LoopLimit,
    Pace,
    Pattern,
    TaskProfile,
    Vital,
    VitalChange,
    Vitals,
)
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import TurnInfo
from duckflow_tui.state.usage import UsageTotals
from duckflow_tui.work import vitals as rules
from duckflow_tui.work.loop_limits import Pacemaker, PaceSettings, compute_complexity
from duckflow_tui.work.vitals import VitalCause

Build = Callable[[], Store]

NOW: Final = ManualClock().now()
ASK: Final = {
    "en": "The total is wrong when two discounts apply. Find out why, fix it, and add a test.",
    "ja": "割引が二つ重なると合計がおかしくなります。原因を調べて直し、テストも追加してください。",
}
PATH: Final = {"path": "src/shop/pricing.py"}
CALL: Final = "call_00000007"  # of the test run in the chat


def moved(*changes: VitalChange) -> Vitals:
    """The vitals after these changes."""
    vitals = Vitals()
    for change in changes:
        assert getattr(vitals, change.vital) == change.old
        vitals = vitals.model_copy(
            update={change.vital: change.new, "history": (*vitals.history, change)}
        )
    return vitals


def change(
    vital: Vital,
    old: float,
    cause: VitalCause,
    inputs: dict[str, float],
    params: dict[str, str] | None = None,
    *,
    at: float,
    refs: tuple[str, ...] = (),
) -> VitalChange:
    """The vital as these inputs make it."""
    new, said = rules.compute_vital(vital, inputs), params or {}
    about = {"vital": vital, "cause": cause.value, "params": said, "inputs": inputs, "refs": refs}
    return VitalChange.model_validate({**about, "old": old, "new": new, "at": at})


def mood(*decisions: tuple[float | None, str], ref: str = "a1") -> list[VitalChange]:
    """Decisions with their confidence, and the outcomes known then as ``+`` and ``-``."""
    changes: list[VitalChange] = []
    old = Vitals().mood
    for at, (confidence, outcomes) in enumerate(decisions):
        good = [sign == "+" for sign in outcomes]
        inputs = rules.mood_inputs(old, confidence, good)
        changes.append(change("mood", old, VitalCause.DECISION, inputs, at=NOW + at, refs=(ref,)))
        old = changes[-1].new
    return changes


def focus(*signals: tuple[VitalCause, str], refs: tuple[str, ...] = (CALL,)) -> list[VitalChange]:
    """Signals with what they were about; of progress its kind before a colon."""
    changes: list[VitalChange] = []
    old = Vitals().focus
    for at, (cause, about) in enumerate(signals):
        kind, _, what = about.rpartition(":")
        params = {"kind": kind or "read", "what": what, "operation": "file_ops.read_file"}
        if cause is VitalCause.CHECK_NO:
            params = {"check": "goal_consistency", "reason": about}
        inputs = {"old": old, "by": rules.FOCUS_BY[cause]}
        changes.append(change("focus", old, cause, inputs, params, at=NOW + at, refs=refs))
        old = changes[-1].new
    return changes


def stamina(loops: int, limit: int, *, failed: int = 0, attempt: int = 1) -> list[VitalChange]:
    """A change for every loop up to this one."""
    changes: list[VitalChange] = []
    old = Vitals().stamina
    for loop in range(1, loops + 1):
        counts = {"loops": loop, "limit": limit, "failed": failed, "attempt": attempt}
        inputs = {name: float(count) for name, count in counts.items()}
        changes.append(change("stamina", old, VitalCause.LOOP, inputs, at=NOW + loop))
        old = changes[-1].new
    return changes


def limit(
    profile: TaskProfile | None = TaskProfile.DEBUGGING,
    vitals: Vitals | None = None,
    *,
    files: int | None = 2,
    turns: int | None = 3,
    errors: int | None = 0,
) -> LoopLimit:
    """What the pacemaker sets."""
    context = compute_complexity(files, turns, errors, None if errors is None else 5)
    return Pacemaker().compute_limit(profile, "model", vitals or Vitals(), context)


def requirements(language: str = "en") -> tuple[RequirementItem, ...]:
    """Met, partly met, refuted, open, waived."""
    ja = language == "ja"
    output = "12 passed in 1.91s"
    return (
        RequirementItem(
            requirement_id="req_1",
            requirement="10 % と 10 % の割引で 19 % 引きになる"
            if ja
            else "10 % and 10 % make 19 %",
            priority=1,
            state=RequirementState.MET,
            satisfaction_level=1.0,
            check=Check(kind="command", value="pytest -q tests/test_pricing.py"),
            evidence=(
                Evidence(
                    kind="command",
                    text=output,
                    source="pytest -q tests/test_pricing.py",
                    exit_code=0,
                    call_id=CALL,
                    at=NOW - 75,
                ),
                Evidence(
                    kind="diff",
                    text="-    rate = sum(discounts)\n+    for rate in discounts:\n"
                    "+        price *= 1 - rate",
                    source="src/shop/pricing.py",
                    call_id="call_00000006",
                    at=NOW - 132,
                ),
            ),
        ),
        RequirementItem(
            requirement_id="req_2",
            requirement="原因を利用者に分かる言葉で説明する"
            if ja
            else "The cause is explained in words that a user understands",
            priority=2,
            state=RequirementState.PARTLY,
            satisfaction_level=0.6,
            evidence=(
                Evidence(
                    kind="reply",
                    text="原因は示されているが、例がない。"
                    if ja
                    else "The cause is named, but without an example.",
                    source="gpt-5-mini",
                    supports=False,
                    at=NOW - 60,
                ),
            ),
        ),
        RequirementItem(
            requirement_id="req_3",
            requirement="割引の重なりを確かめるテストがある"
            if ja
            else "A test covers stacked discounts",
            priority=1,
            state=RequirementState.REFUTED,
            check=Check(kind="file_contains", value="tests/test_pricing.py: def test_stacked"),
            evidence=(
                Evidence(
                    kind="file",
                    text="def test_one_discount():",
                    source="tests/test_pricing.py",
                    supports=False,
                    call_id="call_00000005",
                    at=NOW - 60,
                ),
            ),
        ),
        RequirementItem(
            requirement_id="req_4",
            requirement="変更履歴に一行" if ja else "A line in the changelog",
            priority=3,
            check=Check(kind="file_contains", value="CHANGES.md: discounts"),
            by_user=True,
        ),
        RequirementItem(
            requirement_id="req_5",
            requirement="受け取り票も直す" if ja else "The receipt is mended too",
            priority=2,
            state=RequirementState.WAIVED,
            waived_because="別の作業で" if ja else "another day",
        ),
    )


def at_work(language: str = "en", *, objective: bool = False) -> Store:
    """A turn in its fourth loop, with what it has said and done so far."""
    store, ja = store_with(), language == "ja"
    state = store.state
    state.messages += [
        user(ASK[language]),
        assistant(REPLY_JA if ja else REPLY, 1),
        operation("file_ops.read_file", PATH, summary="38 lines"),
        operation("file_ops.read_file", {"path": "tests/test_pricing.py"}, summary="52 lines"),
    ]
    test_run = operation("shell.run", {"command": "pytest -q"}, summary="exit 1")
    state.messages.append(test_run.model_copy(update={"call_id": CALL}))
    state.phase, state.status = Phase.EXECUTION, Status.IN_PROGRESS
    state.turn = TurnInfo(
        turn_id="turn_1", message_id="u0", loop=4, limit=14, started_at=state.session.started_at
    )
    state.usage = UsageTotals(
        calls=6, tokens_in=90_000, cost=0.03, last_context=42_000, context_window=200_000
    )
    state.vitals = moved(
        *mood((0.8, "+"), (0.85, "++"), (0.9, "++++")),
        *focus(
            (VitalCause.PROGRESS, "read:src/shop/pricing.py"),
            (VitalCause.REPEAT, "src/shop/pricing.py"),
            (VitalCause.REPEAT, "src/shop/pricing.py"),
        ),
        *stamina(4, 14),
    )
    state.pace = Pace(limit=limit(), used=4)
    if objective:
        set_objective(store, language)
    return store


def falling(language: str = "en") -> Store:
    """Repeats, a "no", a repaired reply; a second attempt; two consultations."""
    store = at_work(language)
    state = store.state
    state.vitals = moved(
        *mood((None, "+-"), (0.4, "+--"), (0.3, "+---")),
        *focus(
            (VitalCause.REPEAT, "src/shop/pricing.py"),
            (VitalCause.REPEAT, "src/shop/pricing.py"),
            (VitalCause.CHECK_NO, "目標から外れた" if language == "ja" else "it left the goal"),
            (VitalCause.REPEAT, "src/shop/pricing.py"),
        ),
        *stamina(9, 14, failed=2, attempt=2),
    )
    state.pace = Pace(
        limit=limit(TaskProfile.RESEARCH, state.vitals, files=8, turns=14, errors=1),
        used=9,
        consultations=(Pattern.STAGNATION, Pattern.LOW_CONFIDENCE, Pattern.STAGNATION),
    )
    assert state.turn is not None
    state.turn = state.turn.model_copy(
        update={"attempt": 2, "loop": 9, "limit": state.pace.limit.max_loops}
    )
    return store


def set_objective(
    store: Store, language: str = "en", items: tuple[RequirementItem, ...] | None = None
) -> None:
    """What the user asked for, with these requirements."""
    store.state.objective = TaskObjective(
        objective_id="obj_1",
        original_query=ASK[language],
        created_at=NOW - 300,
        extracted_requirements=requirements(language) if items is None else items,
    )


def fallback() -> LoopLimit:
    """What the pacemaker sets when the limit cannot be computed."""
    broken = PaceSettings(base={TaskProfile.DEBUGGING: float("nan")})  # pyright: ignore[reportArgumentType]  # broken on purpose
    return Pacemaker(broken).compute_limit(
        TaskProfile.DEBUGGING, "model", Vitals(), compute_complexity(2, 3, 0, 5)
    )
