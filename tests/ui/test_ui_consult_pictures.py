"""Pictures of consultations, of the report after the last attempt, of a budget, and of reviews."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.app_states import FakeEngine, app_with, pressing
from support.consults import (
    at_work,
    attempt,
    budget,
    consultation,
    done,
    escalation,
    overruled,
    question,
    review,
    reviewed,
    server_field,
    server_page,
)
from support.pictures import by_name, each_state

from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp

Build = Callable[[str], Store]


def stagnation(language: str) -> Store:
    return at_work(language, consultation(Pattern.STAGNATION, language))


def low_confidence(language: str) -> Store:
    return at_work(language, consultation(Pattern.LOW_CONFIDENCE, language))


def confusion(language: str) -> Store:
    return at_work(language, consultation(Pattern.CONFUSION, language))


def too_many_tries(language: str) -> Store:
    return at_work(language, consultation(Pattern.TOO_MANY_TRIES, language))


def limit(language: str) -> Store:
    return at_work(language, consultation(Pattern.LIMIT, language))


def attempts_used_up(language: str) -> Store:
    return at_work(language, escalation(language))


def analysed(language: str) -> Store:
    return at_work(language, escalation(language, analysed=True))


def hard_limit(language: str) -> Store:
    return at_work(language, budget())


def question_asked(language: str) -> Store:
    return at_work(language, question(language, approval=True))


def server_asks(language: str) -> Store:
    return at_work(language, server_field(language))


def server_wants_a_page(language: str) -> Store:
    return at_work(language, server_page(language))


def continues(language: str) -> Store:
    return at_work(language, more=(reviewed(review(language)), attempt(language)))


def met(language: str) -> Store:
    return at_work(language, more=(reviewed(done(language)),))


def overruled_by_a_check(language: str) -> Store:
    return at_work(language, more=(reviewed(overruled(language)), attempt(language)))


EVERYWHERE: list[Build] = [
    limit, confusion, attempts_used_up, analysed, hard_limit, question_asked, server_asks,
    server_wants_a_page,
]  # fmt: skip
JUDGED: list[Build] = [continues, met, overruled_by_a_check]


def app_of(build: Build, language: str) -> DuckflowApp:
    theme = "duck-light" if language == "ja" else "duck-dark"
    return app_with(FakeEngine(build(language)), language=language, theme=theme)


@each_state("build", by_name(EVERYWHERE))
def test_cards(snap_compare: Any, build: Build, size: tuple[int, int], language: str) -> None:
    """English: the card has the focus. Japanese: it waits, as while the user types.

    Covers S1-32, S1-33.
    """
    keys = ("enter",) if language == "en" else ()
    app = app_of(build, language)
    assert snap_compare(app, terminal_size=size, run_before=pressing(*keys))


@pytest.mark.parametrize("build", [low_confidence, too_many_tries], ids=lambda b: b.__name__)
@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_other_patterns(snap_compare: Any, build: Build, language: str) -> None:
    app = app_of(build, language)
    assert snap_compare(app, terminal_size=(120, 40), run_before=pressing("enter"))


@each_state("build", by_name(JUDGED))
def test_reviews(snap_compare: Any, build: Build, size: tuple[int, int], language: str) -> None:
    """Folded where room is short, opened where there is some."""
    keys = ("ctrl+o",) if size == (120, 40) else ()
    app = app_of(build, language)
    assert snap_compare(app, terminal_size=size, run_before=pressing(*keys))


@pytest.mark.parametrize(
    ("build", "keys", "size"),
    [
        (stagnation, ("enter", "down", "down"), (120, 40)),
        (stagnation, ("enter", "2"), (80, 24)),
        (stagnation, ("enter", "x"), (60, 20)),
        (stagnation, ("enter", "escape"), (80, 24)),
        (continues, (), (120, 40)),
        (met, (), (120, 40)),
        (stagnation, ("enter",), (20, 5)),
    ],
    ids=["walk", "words", "no_choice", "left", "continues_folded", "met_folded", "tiny"],
)
def test_what_keys_do(
    snap_compare: Any, build: Build, keys: tuple[str, ...], size: tuple[int, int]
) -> None:
    assert snap_compare(app_of(build, "en"), terminal_size=size, run_before=pressing(*keys))
