"""When the user is consulted, in which order, and not again too soon."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duckflow_tui.state.pace import Pattern, Reason
from duckflow_tui.work.progress import Repeat, make_same_action
from duckflow_tui.work.situations import (
    UNSURE,
    Signals,
    compute_growth,
    find_consultation,
    guess_cause,
)
from duckflow_tui.work.vitals import VitalCause

CALM = Signals(loop=4, limit=14, mood=0.7, stamina=0.8, focus=[0.75, 0.85, 0.95, 1.0, 1.0])
STUCK = make_same_action("file_ops.read_file", "a.py", 4)


def cause(signals: Signals) -> str:
    found = find_consultation(signals)
    return found[1].code if found else ""


def pattern(signals: Signals) -> Pattern | None:
    found = find_consultation(signals)
    return found[0] if found else None


def test_calm_work_is_not_interrupted() -> None:
    assert find_consultation(CALM) is None


def test_standing_still() -> None:
    """Covers S0-39."""
    assert find_consultation(replace(CALM, stuck=STUCK)) == (Pattern.STAGNATION, STUCK)


@pytest.mark.parametrize(("moods", "expected"), [(0, None), (1, None), (2, Pattern.LOW_CONFIDENCE)])
def test_a_low_mood_on_two_decisions_in_a_row(moods: int, expected: Pattern | None) -> None:
    """Covers S0-40."""
    assert pattern(replace(CALM, mood=0.4, low_moods=moods)) is expected


def test_a_mood_that_is_low_by_outcomes_alone_waits_while_the_work_moves() -> None:
    low = replace(CALM, mood=0.4, low_moods=2, share=0.2, moves=[True])
    assert find_consultation(low) is None
    assert pattern(replace(low, confidence=0.2)) is Pattern.LOW_CONFIDENCE
    assert pattern(replace(low, moves=[False])) is Pattern.LOW_CONFIDENCE


@pytest.mark.parametrize(
    ("focus", "expected"),
    [
        ((0.4, 0.3), ""),
        ((0.35, 0.25), "focus_low"),
        ((0.25, 0.25), ""),  # low before: no news
        ((0.15, 0.25), ""),  # it rises
        ((0.85, 0.75, 0.65, 0.55), "focus_fell"),
        ((0.85, 0.75, 0.75, 0.65), ""),
        ((1.0, 0.9, 0.9, 0.8, 0.7), ""),  # a fall of 0.3 within four loops
        ((1.0, 0.85, 0.7), "focus_fell"),
    ],
)
def test_a_focus_that_is_low_or_falls_fast(focus: tuple[float, ...], expected: str) -> None:
    """Covers S0-41."""
    signals = replace(CALM, focus=focus)
    assert cause(signals) == expected
    assert pattern(signals) in (None, Pattern.CONFUSION)


@pytest.mark.parametrize(
    ("stamina", "fruitless", "expected"),
    [
        (0.3, True, ""),
        (0.29, True, "stamina_low"),
        (0.29, False, ""),  # as in a third attempt that moves
        (0.1, True, "stamina_low"),
        (0.09, True, "stamina_out"),
        (0.09, False, ""),
    ],
)
def test_a_stamina_that_runs_out_in_work_that_brings_nothing(
    stamina: float, fruitless: bool, expected: str
) -> None:
    """Covers S0-42."""
    signals = replace(CALM, stamina=stamina, fruitless=fruitless)
    assert cause(signals) == expected
    assert pattern(signals) in (None, Pattern.TOO_MANY_TRIES)


def test_no_consultation_within_three_loops_of_another() -> None:
    stuck = replace(CALM, stuck=STUCK)
    assert [bool(find_consultation(replace(stuck, since_asked=n))) for n in (0, 1, 2, 3)] == [
        False,
        False,
        False,
        True,
    ]


def test_the_limit_always_asks_and_before_all_others() -> None:
    at_limit = replace(CALM, loop=14, since_asked=1, stuck=STUCK)
    assert pattern(at_limit) is Pattern.LIMIT
    assert pattern(replace(at_limit, loop=13)) is None


def test_a_cause_has_its_figures_and_what_came_again() -> None:

    def told(**fields: object) -> dict[str, str]:
        found = find_consultation(replace(CALM, **fields))
        assert found is not None
        return found[1].params

    repeat = Repeat("shell.run", "ls", 3, ())
    again = {"operation": "shell.run", "what": "ls"}
    lowered = (frozenset({VitalCause.REPEAT}), *[frozenset({VitalCause.REPAIRED})] * 3)
    low = {"focus": (0.4, 0.35, 0.3, 0.25), "lowered": lowered}
    assert told(**low) == {"value": "0.25", "signs": "repeat repaired"}
    assert told(**low, repeat=repeat) == {"value": "0.25", "signs": "repeat repaired", **again}
    fell = {"focus": (0.95, 0.9, 0.7, 0.6), "lowered": lowered, "repeat": repeat}
    assert told(**fell) == {"old": "0.95", "new": "0.60", "signs": "repaired"}
    assert told(stamina=0.2, fruitless=True) == {"value": "0.20", "signs": "loops"}
    assert told(mood=0.4, low_moods=2) == {"value": "0.40", "signs": "unsure"}
    assert told(loop=15) == {"limit": "14"}


def test_what_is_most_amiss_goes_first() -> None:
    confused = replace(CALM, focus=(0.35, 0.25), low_moods=2, fruitless=True, stamina=0.2)
    assert cause(replace(confused, stuck=STUCK)) == "same_action"
    assert cause(replace(confused, stamina=0.05)) == "stamina_out"
    assert cause(confused) == "focus_low"
    assert cause(replace(confused, focus=(0.3, 0.3))) == "stamina_low"
    assert cause(replace(confused, focus=(0.3,), stamina=0.3)) == "mood_low"


@pytest.mark.parametrize(
    ("code", "params", "guess", "kept"),
    [
        ("same_action", {"operation": "o", "what": "w", "times": "4"}, "repeats_call", "ow"),
        ("nothing_new", {"times": "8"}, "not_there", ""),
        ("checks_no", {"reason": "it left the goal"}, "self_contradiction", ""),
        ("no_action", {}, "several_ways", ""),
        ("back_and_forth", {"path": "a.py", "times": "3"}, "undoing_itself", "a.py"),
        ("mood_low", {"value": "0.40"}, "unsure", ""),
        ("stamina_low", {}, "long_and_slow", ""),
    ],
)
def test_each_cause_suggests_what_is_behind_it(
    code: str, params: dict[str, str], guess: str, kept: str
) -> None:
    found = guess_cause(Reason(code=code, params=params), CALM)
    assert (found.code, "".join(found.params.values())) == (guess, kept)


@pytest.mark.parametrize("code", ["checks_no", "no_action"])
def test_a_model_that_contradicts_itself_is_confused(code: str) -> None:
    assert pattern(replace(CALM, stuck=Reason(code=code))) is Pattern.CONFUSION


def test_the_hypothesis_comes_from_the_signals() -> None:
    assert guess_cause(STUCK, CALM).code == "repeats_call"
    same = Reason(code="same_result", params={"operation": "shell.run", "times": "3"})
    found = guess_cause(same, CALM)
    assert (found.code, found.params) == ("no_new_information", {"operation": "shell.run"})
    out = find_consultation(replace(CALM, stamina=0.05, fruitless=True))
    assert out is not None
    assert guess_cause(out[1], replace(CALM, failed=6)).params == {"count": "6"}
    assert guess_cause(out[1], CALM).code == "long_and_slow"
    limit = find_consultation(replace(CALM, loop=14))
    assert limit is not None
    assert guess_cause(limit[1], replace(CALM, moves=[True])).code == "long_but_moving"


@pytest.mark.parametrize(
    ("lowered", "signs", "guess"),
    [
        ((VitalCause.REPEAT,), "repeat", "same_again"),
        ((VitalCause.CHECK_NO,), "check_no", "self_contradiction"),
        ((VitalCause.REPAIRED,), "repaired", "bad_replies"),
        ((VitalCause.REPAIRED, VitalCause.REPEAT), "repeat repaired", "same_again"),
        ((VitalCause.FRUITLESS,), "fruitless", "not_there"),
        ((VitalCause.FRUITLESS, VitalCause.NO_ACTION), "fruitless no_action", "several_ways"),
    ],
)
@pytest.mark.parametrize("focus", [(0.35, 0.25), (0.85, 0.55)])
def test_a_lost_thread_names_only_what_lowered_the_focus(
    focus: tuple[float, ...], lowered: tuple[VitalCause, ...], signs: str, guess: str
) -> None:
    """Covers S0-41."""
    found = find_consultation(replace(CALM, focus=focus, lowered=(frozenset(), frozenset(lowered))))
    assert found is not None
    assert found[1].params["signs"] == signs
    assert guess_cause(found[1], CALM).code == guess


def test_what_used_the_stamina_up_and_what_keeps_the_mood_low_is_named() -> None:

    def signs(**fields: object) -> str:
        found = find_consultation(replace(CALM, **fields))
        assert found is not None
        return found[1].params["signs"]

    tired = {"stamina": 0.2, "fruitless": True}
    assert signs(**tired, failed=3) == "failed"
    assert signs(**tired, attempt=2) == "attempts"
    assert signs(**tired) == "loops"
    low = {"mood": 0.4, "low_moods": 2}
    assert signs(**low, confidence=0.2, share=1.0) == "unsure"
    assert signs(**low, confidence=0.9, share=0.2) == "outcomes"
    assert signs(**low, confidence=0.2, share=0.2) == "unsure outcomes"
    assert signs(**low, confidence=0.2, share=UNSURE) == "unsure"  # no less than it needs
    assert signs(**low, confidence=UNSURE, share=0.2) == "outcomes"


def test_the_limit_of_work_that_moves_grows_up_to_three_times_itself() -> None:
    """C1."""
    moving = replace(CALM, loop=14, moves=[True])
    assert compute_growth(moving, 14, 0) == 5
    assert compute_growth(replace(moving, loop=13), 14, 0) == 0
    assert compute_growth(replace(moving, moves=[False]), 14, 0) == 0
    assert compute_growth(replace(moving, stuck=STUCK, since_asked=1), 14, 0) == 0
    assert compute_growth(replace(moving, loop=39, limit=39), 14, 0) == 3
    assert compute_growth(replace(moving, loop=42, limit=42), 14, 0) == 0
    assert compute_growth(moving, 14, 26) == 2  # what earlier attempts took counts too
