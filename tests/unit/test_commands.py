"""The table of what a user can do, without a screen and without a session behind it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from duckflow_tui.commands import (
    CHOICES,
    COMMANDS,
    add_denial,
    find_by_prefix,
    parse_command,
)
from duckflow_tui.engine import Engine
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.conversation import QueuedMessage
from duckflow_tui.state.pace import LoopLimit, Pace
from duckflow_tui.state.turn import TurnInfo
from duckflow_tui.ui.bindings import KEYS, keys_of

BY_NAME = {command.name: command for command in COMMANDS}


def pace(loops: int) -> Pace:
    return Pace(limit=LoopLimit(max_loops=loops))


# --- when it is possible ------------------------------------------------------------------------


def problems(state: AgentState | None) -> dict[str, list[str]]:
    """What is in the way of which commands."""
    found: dict[str, list[str]] = {}
    for command in COMMANDS:
        told = command.problem("", state)
        if told is not None:
            found.setdefault(told.key, []).append(command.name)
    return found


def test_in_a_session_a_queue_and_a_running_attempt_are_wanted_for_what_changes_them() -> None:
    state = AgentState()
    assert problems(state) == {"pace.nothing_runs": ["more"], "shell.queue_empty": ["queue"]}
    state.queue = (QueuedMessage(message_id="q", text="x", at=1.0),)
    assert problems(state) == {"pace.nothing_runs": ["more"]}
    turn = TurnInfo(turn_id="t", message_id="u", started_at=1.0)
    for state.turn, state.pace in ((turn, None), (None, pace(3))):
        assert problems(state) == {"pace.nothing_runs": ["more"]}
    state.turn = turn
    assert problems(state) == {}


@pytest.mark.parametrize("takes", CHOICES)
def test_a_choice_is_one_of_those_there_are_whatever_its_case(takes: Any) -> None:
    command = next(c for c in COMMANDS if c.takes == takes)
    state = AgentState()
    for value in CHOICES[command.takes]:
        assert command.problem(value, state) is None
        assert command.problem(value.upper(), state) is None
    choices = ", ".join(CHOICES[command.takes])
    wrong = LocalizedText(key="shell.no_choice", params={"given": "nonsense", "choices": choices})
    assert command.problem("nonsense", state) == wrong
    assert BY_NAME["compact"].problem("nonsense", state) is None


# --- what is typed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/undo", "undo", ""),
        ("  /UNDO \n", "undo", ""),
        ("/compact  keep\nthe tests ", "compact", "keep\nthe tests"),
        ("/mode\tplan", "mode", "plan"),
        ("/nothing x", None, "x"),
    ],
)
def test_a_command_is_a_word_behind_a_slash(text: str, name: str | None, argument: str) -> None:
    found = parse_command(text)
    assert found is not None
    assert (found.command.name if found.command else None) == name
    assert found.argument == argument


@pytest.mark.parametrize("text", ["", "undo", "/", "/etc/hosts is wrong", "/ undo", "a /undo"])
def test_anything_else_is_a_message(text: str) -> None:
    assert parse_command(text) is None


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("mo", "model mode more"),  # the one that is used most
        ("mode", "mode model"),  # the one that is called so
        ("RE", "redo rewind remember requirements retry rename reset resume"),  # then aliases
        ("cl", "clear"),
        ("x", ""),
    ],
)
def test_commands_are_completed_by_their_daily_use(prefix: str, names: str) -> None:
    assert " ".join(name for name, _ in find_by_prefix(prefix)) == names
    assert find_by_prefix("")[:3] == tuple((command.name, command) for command in COMMANDS[:3])


# --- what is done to a session -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "denied", "key"),
    [
        ("deny git push", ["git push"], "denies_now"),
        ("deny  ", [], "deny_how"),
        ("git push", [], "deny_how"),
        ("deny git*push", [], "expansion"),
        ("deny shell.run", [], "operation"),
    ],
)
def test_words_are_denied_or_it_is_said_how(given: str, denied: list[str], key: str) -> None:
    found: list[str] = []
    said: list[str] = []
    session = SimpleNamespace(rules=SimpleNamespace(add_denial=found.append))

    def say(key: str, **_: object) -> None:
        said.append(key)

    add_denial(cast("Engine", session), given, say)
    assert found == denied
    assert [each.rpartition(".")[2] for each in said] == [key]


# --- keys ----------------------------------------------------------------------------------------


def test_no_key_means_two_things_in_one_place() -> None:
    seen: set[tuple[str, str]] = set()
    for key in KEYS:
        for name, action in key.list_actions():
            assert (key.surface, name) not in seen
            assert action
            seen.add((key.surface, name))
    assert keys_of("goal", "result") == tuple(k for k in KEYS if k.surface in ("goal", "result"))
    assert len(keys_of("goal", "result")) == 2
