"""The limit of loops: the golden table, its boundaries, its reasons, and the fallback."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.conversations import operation
from support.pinned import ManualClock

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.goal import TaskObjective
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.pace import Complexity, LimitExtended, LoopLimit, TaskProfile, Vitals
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.work.loop_limits import (
    BASES,
    Pacemaker,
    PaceSettings,
    compute_complexity,
    measure_request,
    measure_session,
)

LOW = Vitals(mood=0.3, focus=0.3, stamina=0.3)
NEUTRAL = Vitals()
GOOD = Vitals(mood=0.9, focus=0.9, stamina=0.9)

#: Limit for factor 0.7, 1.0, 1.2, each at complexity 0.0, 0.3, 0.6, 1.0 (S0-13…22).
GOLDEN: dict[TaskProfile | None, str] = {
    TaskProfile.SIMPLE_QUESTION: "3 3 4 4 | 5 5 6 7 | 6 6 7 8",
    TaskProfile.CODE_ANALYSIS: "8 9 10 11 | 12 13 14 16 | 14 16 17 20",
    TaskProfile.FILE_OPERATION: "5 6 6 7 | 8 8 9 11 | 9 10 11 13",
    TaskProfile.COMPLEX_REASONING: "12 14 15 17 | 18 20 20 20 | 20 20 20 20",
    TaskProfile.MULTI_STEP_TASK: "10 11 13 14 | 15 16 18 20 | 18 20 20 20",
    TaskProfile.GENERAL_CHAT: "4 4 5 5 | 6 6 7 8 | 7 8 8 10",
    TaskProfile.CREATIVE_WRITING: "7 7 8 9 | 10 11 12 14 | 12 13 14 16",
    TaskProfile.DEBUGGING: "9 10 12 13 | 14 15 17 19 | 16 18 20 20",
    TaskProfile.RESEARCH: "11 12 13 15 | 16 17 19 20 | 19 20 20 20",
    None: "5 6 6 7 | 8 8 9 11 | 9 10 11 13",
}


def limit(
    profile: TaskProfile | None, vitals: Vitals = NEUTRAL, complexity: float = 0.0
) -> LoopLimit:
    return Pacemaker().compute_limit(profile, "model", vitals, Complexity(value=complexity))


def codes(found: LoopLimit) -> list[str]:
    return [reason.code for reason in found.reasoning]


def new_store() -> Store:
    return Store(AgentState(), ManualClock(), MemoryRecorder())


@pytest.mark.parametrize("profile", list(GOLDEN))
def test_the_golden_table(profile: TaskProfile | None) -> None:
    """Covers S0-1, S0-5, S0-7, S0-10, S0-13, S0-14, S0-15, S0-16, S0-17, S0-18, S0-19, S0-20,
    S0-21, S0-22.
    """
    rows = [
        " ".join(str(limit(profile, vitals, c).max_loops) for c in (0.0, 0.3, 0.6, 1.0))
        for vitals in (LOW, NEUTRAL, GOOD)
    ]
    assert " | ".join(rows) == GOLDEN[profile]
    assert GOLDEN.keys() == {None, *BASES} == {None, *TaskProfile}


def test_the_product_is_cut_before_it_is_kept_in_its_range() -> None:
    """12 × 1.0 × 1.24 = 14.88. Covers S0-7."""
    assert limit(TaskProfile.CODE_ANALYSIS, complexity=0.6).max_loops == 14
    # 12 × (1 + 0.4 × 5/24) is 13 exactly, which floats must not miss.
    context = compute_complexity(5, 0, 0, 0)
    found = Pacemaker().compute_limit(TaskProfile.CODE_ANALYSIS, "model", NEUTRAL, context)
    assert found.max_loops == 13


@pytest.mark.parametrize(
    ("mood", "focus", "stamina", "factor"),
    [
        (0.4, 0.4, 0.4, 1.0),  # 0.4000000000000001 in floats
        (0.8, 0.8, 0.8, 1.0),  # 0.8000000000000002 in floats
        (0.3999, 0.4, 0.4, 0.7),
        (0.8001, 0.8, 0.8, 1.2),
        (0.0, 0.0, 0.0, 0.7),
        (1.0, 1.0, 1.0, 1.2),
    ],
)
def test_the_boundaries_of_the_score_are_strict(
    mood: float, focus: float, stamina: float, factor: float
) -> None:
    """Covers S0-9."""
    found = limit(None, Vitals(mood=mood, focus=focus, stamina=stamina))
    assert found.vitals_factor == factor


@given(
    profile=st.sampled_from([None, *TaskProfile]),
    mood=st.floats(0, 1),
    focus=st.floats(0, 1),
    stamina=st.floats(0, 1),
    complexity=st.floats(0, 1),
)
def test_the_limit_lies_between_3_and_20(
    profile: TaskProfile | None, mood: float, focus: float, stamina: float, complexity: float
) -> None:
    """Covers S0-6."""
    vitals = Vitals(mood=mood, focus=focus, stamina=stamina)
    found = limit(profile, vitals, complexity)
    assert 3 <= found.max_loops <= 20
    assert not found.fallback


def test_settings_move_the_range_and_the_bases() -> None:
    settings = PaceSettings(min=6, max=9, base={TaskProfile.DEBUGGING: 40})
    pacemaker = Pacemaker(settings)
    plain = Complexity(value=0.0)
    found = pacemaker.compute_limit(TaskProfile.DEBUGGING, "user", NEUTRAL, plain)
    assert (found.max_loops, found.lowest, found.highest) == (9, 6, 9)
    assert pacemaker.compute_limit(TaskProfile.RESEARCH, "user", NEUTRAL, plain).max_loops == 8
    assert codes(found)[-1] == "clamped"
    assert found.reasoning[-1].params == {"computed": "40", "limit": "9"}


# --- complexity ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "turns", "errors", "executions", "value"),
    [
        (0, 0, 0, 0, 0.0),
        (8, 15, 1, 3, 1.0),
        (4, 7, 1, 10, 0.422),
        (2, 3, 0, 5, 0.15),
        (80, 150, 3, 3, 1.0),
    ],
)
def test_vectors_of_complexity(
    files: int, turns: int, errors: int, executions: int, value: float
) -> None:
    """Covers S0-23, S0-24, S0-25, S0-26."""
    assert round(compute_complexity(files, turns, errors, executions).value, 3) == value


def test_what_cannot_be_measured_does_not_count() -> None:
    """Covers S0-26."""
    assert compute_complexity(None, None, None, None).value == 0.3
    found = compute_complexity(8, None, None, None)
    assert (found.value, found.files, found.history, found.errors) == (1.0, 1.0, None, None)
    assert compute_complexity(None, None, 1, 3).value == 1.0


# --- reasons ---------------------------------------------------------------------------------


def test_reasons_stand_with_the_limit() -> None:
    """Covers S0-2, S0-29, S0-34."""
    found = limit(TaskProfile.CODE_ANALYSIS, GOOD, 0.5)
    assert (found.base_loops, found.vitals_factor, found.complexity_factor) == (12, 1.2, 1.2)
    assert [(reason.code, reason.params) for reason in found.reasoning] == [
        ("profile", {"profile": "CODE_ANALYSIS", "base": "12", "by": "model"}),
        ("vitals_good", {"vital": "mood"}),
        ("vitals_good", {"vital": "focus"}),
        ("vitals_good", {"vital": "stamina"}),
        ("complexity_medium", {}),
        ("adjusted_vitals", {"percent": "+20"}),
        ("adjusted_complexity", {"percent": "+20"}),
    ]


def test_no_adjustment_is_said() -> None:
    """Covers S0-32, S0-34."""
    vitals = Vitals(mood=0.5, focus=0.8, stamina=0.8)
    assert codes(limit(None, vitals)) == [
        "profile",
        "vitals_standard",
        "complexity_low",
        "no_adjustment",
    ]
    low = limit(None, LOW)
    assert ("adjusted_vitals", {"percent": "-30"}) in [(r.code, r.params) for r in low.reasoning]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0.29, "complexity_low"),
        (0.3, "complexity_medium"),
        (0.7, "complexity_medium"),
        (0.71, "complexity_high"),
    ],
)
def test_the_word_for_complexity(value: float, code: str) -> None:
    """Covers S0-33."""
    assert code in codes(limit(TaskProfile.RESEARCH, complexity=value))


def test_high_complexity_names_what_makes_it_high() -> None:
    """Covers S0-33."""
    context = compute_complexity(9, 2, 3, 3)
    assert context.value > 0.7
    found = codes(Pacemaker().compute_limit(None, "model", NEUTRAL, context))
    at = found.index("complexity_high")
    assert found[at + 1 : at + 3] == ["many_files", "many_errors"]
    assert "long_history" not in found


# --- fallback --------------------------------------------------------------------------------


class TornBases(dict[TaskProfile, int]):
    """Bases that cannot be read."""

    def get(self, key: TaskProfile, default: object = None, /) -> int:
        raise ValueError("the bases are torn")


def test_a_limit_that_cannot_be_computed_is_the_settings_one_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Covers S0-27, S0-30."""
    pacemaker = Pacemaker(PaceSettings(fallback=11, base=TornBases()))
    with caplog.at_level(logging.WARNING, "duckflow.pacemaker"):
        found = pacemaker.compute_limit(
            TaskProfile.DEBUGGING, "model", NEUTRAL, Complexity(value=0.0)
        )
    assert (found.max_loops, found.fallback, found.base_loops) == (11, True, 0)
    assert [(r.code, r.params) for r in found.reasoning] == [
        ("fallback", {"cause": "calculation", "limit": "11"})
    ]
    assert "could not be computed" in caplog.text
    assert caplog.records[0].message.startswith("[DUCK_PACEMAKER]")


def test_without_settings_the_fallback_is_15() -> None:
    """Covers S0-28."""
    assert PaceSettings().fallback == 15
    unreadable: Any = "eleven"
    torn = Pacemaker(PaceSettings(fallback=unreadable, base=TornBases()))
    found = torn.compute_limit(TaskProfile.DEBUGGING, "model", NEUTRAL, Complexity(value=0.0))
    assert (found.max_loops, found.fallback) == (15, True)
    assert found.reasoning[0].params["cause"] == "settings"


# --- the start of an attempt -----------------------------------------------------------------


def test_starting_an_attempt_writes_the_limit_to_the_state_and_returns_it() -> None:
    """Covers S0-4, S0-31."""
    store = new_store()
    store.state.files_read = {f"f{n}.py": "sha" for n in range(8)}
    assert measure_session(store.state).files == 1.0
    ran = operation("shell.run", {"command": "ls"})
    failed = operation("shell.run", {"command": "ls"}, Outcome.ERROR)
    unread = new_store().state
    unread.messages += [ran, ran, failed]
    unread.messages += [ran.model_copy(update={"by_user": True})]  # not the model's
    assert measure_session(unread) == compute_complexity(0, 0, 1, 3)
    found = Pacemaker().start_session(store, TaskProfile.CODE_ANALYSIS, "model", fresh=True)
    # one third of complexity: 12 × 1.0 × 1.1333
    assert found.max_loops == 13
    assert store.state.pace is not None
    assert store.state.pace.limit == found
    assert store.state.pace.used == 0


def test_a_request_is_measured_by_what_came_behind_its_message() -> None:
    """A clock that was set back in between drops nothing of it."""
    state = new_store().state
    ran = operation("file_ops.read_file", {"path": "a.txt"}, Outcome.ERROR)
    asked, more = (UserMessage(message_id=f"msg_{n}", at=9.0, text="mend it") for n in range(2))
    state.messages += [more.replace(message_id="msg_before", at=1.0), ran.replace(at=1.0), asked]
    state.messages += [ran.replace(at=5.0), more.replace(at=5.0)]
    assert measure_request(state) == compute_complexity(1, 3, 2, 2)
    state.objective = TaskObjective(
        objective_id="o", original_query="mend it", created_at=9.0, message_id="msg_0"
    )
    assert measure_request(state) == compute_complexity(1, 1, 1, 1)


def test_loops_the_user_added_outlive_a_new_limit() -> None:
    store = new_store()
    pacemaker = Pacemaker()
    pacemaker.start_session(store, None, "model", fresh=True)
    store.dispatch(LimitExtended(by=5))
    store.dispatch(LimitExtended(by=2, who="pacemaker"))
    assert store.state.pace is not None
    before = store.state.pace.limit
    found = pacemaker.start_session(store, TaskProfile.DEBUGGING, "model", before=before)
    assert (found.max_loops, found.extended, found.grown) == (21, 7, 2)


def test_the_log_of_a_start(caplog: pytest.LogCaptureFixture) -> None:
    """The notes' example comes to 0.75 and 14. Covers S0-8, S0-45, S0-46."""
    store = new_store()
    store.state.vitals = Vitals(mood=0.75, focus=0.80, stamina=0.65)
    store.state.files_read = {f"f{n}": "sha" for n in range(8)}
    context = compute_complexity(8, 12, 0, 0)
    assert round(context.value, 9) == 0.6
    found = Pacemaker().compute_limit(
        TaskProfile.CODE_ANALYSIS, "model", store.state.vitals, context
    )
    assert (found.vitals_score, found.max_loops) == (0.75, 14)
    with caplog.at_level(logging.INFO, "duckflow.pacemaker"):
        Pacemaker().start_session(store, TaskProfile.CODE_ANALYSIS, "model", fresh=True)
    assert caplog.messages == [
        "[DUCK_PACEMAKER] limit set: profile=CODE_ANALYSIS limit=13",
        "[DUCK_PACEMAKER] vitals: mood=0.75 focus=0.80 stamina=0.65",
        "[DUCK_PACEMAKER] complexity: 0.33 (medium)",
    ]
