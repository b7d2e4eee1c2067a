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
    rename,
    undo_compaction,
)
from duckflow_tui.engine import Engine
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.conversation import QueuedMessage
from duckflow_tui.state.pace import LoopLimit, Pace, TaskProfile
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


class Session:
    """Writes down what is done to it; what it answers is set before."""

    def __init__(self, **answers: Any) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.answers = answers
        self.store = SimpleNamespace(state=AgentState())
        self.pace = SimpleNamespace(extend_limit=self._extend, choose_profile=self._call("profile"))
        self.context = SimpleNamespace(
            compact_by_hand=self._wait("compact"), undo_compaction=self._wait("undo")
        )
        self.title = SimpleNamespace(rename_session=str.strip)
        self.denied: list[str] = []
        self.rules = SimpleNamespace(add_denial=self.denied.append)
        self.retry = self._wait("retry")
        self.trust = SimpleNamespace(ask_again=self._wait("trust"))

    def _call(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            self.done.append((name, *given))
            return self.answers.get(name)

        return call

    def _wait(self, name: str) -> Any:
        call = self._call(name)

        async def wait(*given: Any, **named: Any) -> Any:
            return call(*given, *([named] if named else []))

        return wait

    def _extend(self) -> None:
        self.done.append(("extend",))
        self.store.state.pace = self.answers.get("extended")

    def say(self, key: str, **params: Any) -> None:
        self.said.append((key, params))

    @property
    def engine(self) -> Engine:
        return cast("Engine", self)


async def act(session: Session, name: str, argument: str = "") -> None:
    command = BY_NAME[name]
    assert command.act is not None
    work = command.act(session.engine, argument, session.say)
    if work is not None:
        await work


@pytest.mark.parametrize(
    ("name", "nothing"), [("retry", "shell.nothing_to_retry"), ("trust", "trust.nothing")]
)
@pytest.mark.parametrize("found", [True, False])
async def test_it_is_said_when_there_is_nothing_to_try_again_or_to_ask_about(
    name: str, nothing: str, found: bool
) -> None:
    session = Session(**{name: found})
    await act(session, name)
    assert session.done == [(name,)]
    assert session.said == ([] if found else [(nothing, {})])


async def test_more_loops_are_told_with_the_limit_that_they_moved() -> None:
    session = Session(extended=pace(8))
    session.store.state.pace = pace(3)
    await act(session, "more")
    assert session.done == [("extend",)]
    assert session.said == [("pace.extended", {"count": 5, "limit": 8})]


async def test_a_kind_of_request_is_named_or_left_to_the_ai() -> None:
    for profile in TaskProfile:
        session = Session()
        name = profile.value.lower()
        await act(session, "profile", name)
        assert session.done == [("profile", profile)]
        assert session.said == [
            ("profile.said", {"profile": LocalizedText(key=f"choice.profile.{name}")})
        ]
    session = Session()
    await act(session, "profile", "auto")
    assert (session.done, session.said) == ([("profile", None)], [("profile.said_auto", {})])


async def test_a_conversation_is_shortened_and_what_is_in_the_way_stays_on_the_screen() -> None:
    session = Session()
    await act(session, "compact", " keep the tests ")
    assert session.done == [("compact", "keep the tests")]
    assert session.said == [("compaction.runs", {}), ("", {})]
    session = Session(compact="short")
    await act(session, "compact")
    assert session.said == [("compaction.runs", {}), ("compaction.not.short", {"stays": True})]


async def test_a_compaction_is_taken_back_by_word_or_by_its_id() -> None:
    session = Session(undo=("", {}))
    await act(session, "compact", " Undo ")
    assert session.done == [("undo", "")]
    assert session.said == [("compaction.undone", {})]
    session = Session(undo=("full", {"tokens": "9"}))
    await undo_compaction(session.engine, "c1", session.say)
    assert session.done == [("undo", "c1")]
    assert session.said == [("compaction.no_undo.full", {"stays": True, "tokens": "9"})]


@pytest.mark.parametrize(("given", "key"), [(" x ", "renamed"), (" ", "unnamed")])
def test_a_name_is_told_or_that_there_is_none(given: str, key: str) -> None:
    session = Session()
    rename(session.engine, given, session.say)
    assert session.said == [(f"sessions.{key}", {"name": given.strip()})]


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
    session = Session()
    add_denial(session.engine, given, session.say)
    assert session.denied == denied
    assert [said.rpartition(".")[2] for said, _ in session.said] == [key]


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
