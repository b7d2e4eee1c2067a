"""What a list says of a session, and the texts of it that a search looks through."""

from __future__ import annotations

from typing import Any

import pytest
from support import plans
from support.consults import attempt, budget, requirements, review, reviewed
from support.conversations import assistant, notice, operation, user
from support.gates import gate

from duckflow_tui.session.facts import (
    Figures,
    Piece,
    SessionFacts,
    group_by_month,
    iter_pieces,
    make_facts,
)
from duckflow_tui.session.reader import SessionRead
from duckflow_tui.session.records import JournalHeader
from duckflow_tui.session.resume import Restored
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import Message, QueuedMessage
from duckflow_tui.state.decision import Question
from duckflow_tui.state.gates import CardAnswer, CardMessage, GateAnswer, GateChoice
from duckflow_tui.state.goal import RequirementState, TaskObjective
from duckflow_tui.state.plan import PlanStatus, ReportMessage
from duckflow_tui.state.session import SessionInfo
from duckflow_tui.state.turn import TurnInfo, TurnSummary

HEADER = JournalHeader(session_id="s", workspace="/of/header", created_at=7.0, opened_at=8.0)


def facts(state: AgentState, header: JournalHeader | None = HEADER, **read: Any) -> SessionFacts:
    return make_facts("s", Restored(state, SessionRead(header, **read), 0, 0))


def objective(query: str = "mend it", *, met: int = 1) -> TaskObjective:
    return TaskObjective(
        objective_id="o",
        original_query=query,
        created_at=1.0,
        extracted_requirements=requirements(met=met),
    )


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({}, "s"),
        ({"draft": "half"}, "half"),
        ({"draft": "half", "request": "mend"}, "mend"),
        ({"request": "mend", "forked_title": "no fork"}, "mend"),
        ({"request": "mend", "forked_from": "s0", "forked_title": "first"}, "↳ first"),
        ({"request": "mend", "forked_from": "s0"}, "↳ mend"),
        ({"request": "mend", "forked_from": "s0", "forked_title": "x", "name": "mine"}, "mine"),
    ],
)
def test_a_session_is_called_by_the_best_that_there_is(fields: dict[str, str], title: str) -> None:
    assert SessionFacts.model_validate({"session_id": "s", **fields}).title == title


@pytest.mark.parametrize(
    "said",
    [
        {"messages": 1},
        {"waiting": 1},
        {"draft": "x"},
        {"problem": "foreign"},
        {"name": "x"},
        {"pinned": True},
    ],
)
def test_a_session_is_blank_until_anything_is_in_it(said: dict[str, Any]) -> None:
    assert SessionFacts(session_id="s", plan="p").is_blank
    assert not SessionFacts.model_validate({"session_id": "s", **said}).is_blank


def test_where_and_when_are_the_headers_until_the_session_says_it() -> None:
    bare = facts(AgentState())
    assert (bare.workspace, bare.started_at, bare.last_at) == ("/of/header", 7.0, 7.0)
    assert (bare.plan, bare.plan_done, bare.plan_steps) == ("", 0, 0)
    assert (bare.met, bare.requirements, bare.request, bare.last) == (0, 0, "", "")
    state = AgentState()
    state.session = SessionInfo(workspace="/of/session", started_at=9.0)
    told = facts(state)
    assert (told.workspace, told.started_at) == ("/of/session", 9.0)
    nothing = facts(AgentState(), None)
    assert (nothing.workspace, nothing.started_at) == ("", 0.0)


def test_the_newest_plan_counts_where_none_is_worked_on() -> None:
    state = AgentState()
    old, new = plans.ended(PlanStatus.FAILED), plans.ended(PlanStatus.COMPLETED)
    state.plans = (old.model_copy(update={"plan_id": "p0", "name": "old"}), new)
    found = facts(state)
    assert (found.plan, found.plan_done, found.plan_steps) == (new.name, *new.progress)
    state.objective = objective(met=2)
    assert (facts(state).met, facts(state).requirements) == state.objective.met_counts


def test_the_first_request_and_the_last_word_are_those_that_say_something() -> None:
    state = AgentState()
    state.queue = (QueuedMessage(message_id="q", text="first in\nline", at=1.0),)
    assert facts(state).request == "first in line"
    early = [user("\n"), user("the request"), assistant("the answer"), assistant("  ")]
    state.messages += [*early, notice("x")]
    found = facts(state)
    assert (found.request, found.last) == ("the request", "the answer")
    assert (found.messages, found.waiting) == (4, 1)
    assert found.last_at == max(message.at for message in state.messages)


def test_a_session_is_where_its_turn_was_left() -> None:
    state = AgentState()
    assert facts(state).state == "new"
    state.last_turn = TurnSummary(turn_id="t", outcome="partial")
    assert facts(state).state == "partial"
    # It ended with a question that nobody has answered: that is what it waits for.
    asked = Question(text="Which?", options=("a", "b"))
    state.last_turn = TurnSummary(turn_id="t", outcome="partial", question=asked)
    assert facts(state).state == "card"
    turn = TurnInfo(turn_id="t", message_id="u", started_at=1.0)
    state.turn = turn
    assert facts(state).state == "interrupted"
    state.turn = turn.model_copy(update={"pause": "paused"})
    assert facts(state).state == "paused"
    state.cards = (budget(),)
    assert facts(state).state == "card"
    state.gates = (gate(),)
    assert facts(state).state == "gate"


# --- what is searched ----------------------------------------------------------------------------


def piece(message: Message) -> Piece:
    state = AgentState()
    state.messages.append(message)
    _, found = iter_pieces(state)
    return found


def report(**fields: Any) -> ReportMessage:
    return ReportMessage(message_id="r", report=plans.report(**fields), at=5.0)


def result(name: str, args: dict[str, Any], **fields: Any) -> Message:
    return operation(name, args, **fields)


@pytest.mark.parametrize(
    ("message", "who", "text"),
    [
        (user("u" * 20_001), "user", "u" * 20_000),
        (assistant("a\x1b" * 10_001), "ai", "a␛" * 10_000),
        (result("f.read", {"path": "a.py"}), "tool", "f.read a.py"),
        (
            result("f.run", {"command": "ls\n-l"}, summary="2 lines"),
            "tool",
            "f.run ls -l · 2 lines",
        ),
        (result("f.find", {"x": 1, "query": 0, "pattern": "p"}), "tool", "f.find p"),
        (result("f.plain", {}, text="t" * 4_001), "tool", "f.plain\n" + "t" * 4_000),
        (report(step_name="S", summary="done", cause=""), "report", "S: done"),
        (report(step_name="S", summary="", cause="no room"), "report", "S:  no room"),
        (
            CardMessage(
                message_id="m",
                card=budget(),
                answer=CardAnswer(card_id="c", subject="", action="x", text="because"),
                at=2.0,
            ),
            "user",
            "because",
        ),
    ],
)
def test_each_kind_of_message_is_searched_by_what_it_says(
    message: Message, who: str, text: str
) -> None:
    found = piece(message)
    assert (found.who, found.text, found.at) == (who, text, message.at)


def test_a_review_is_searched_by_its_requirements_and_their_states() -> None:
    judged = review()
    signs = {
        RequirementState.OPEN: "○",
        RequirementState.MET: "✓",
        RequirementState.PARTLY: "◐",
        RequirementState.REFUTED: "✗",
        RequirementState.WAIVED: "–",
    }
    items = tuple(
        item.model_copy(update={"state": state, "requirement": state.value})
        for item, state in zip(judged.items * 2, signs, strict=False)
    )
    found = piece(reviewed(judged.model_copy(update={"items": items})))
    assert found.text.split("\n") == [f"{sign} {state.value}" for state, sign in signs.items()]
    assert found.who == "report"


def test_what_names_a_session_comes_first_and_what_waits_last() -> None:
    state = AgentState()
    state.session = SessionInfo(name="name", workspace="/w", branch="branch")
    state.draft = "draft"
    state.plans = (plans.draft(),)
    state.objective = objective()
    state.earlier = (objective(met=0),)
    state.queue = (QueuedMessage(message_id="q", text="wait\x1b", at=3.0),)
    state.messages += [notice("x"), user("")]
    first, last = iter_pieces(state)
    plan = state.plans[0]
    asked = [item.requirement for item in requirements()]
    named = ["name", "/w", "branch", "draft", plan.name, plan.goal]
    assert first.text.split("\n") == [*named, *(step.name for step in plan.steps), *asked, *asked]
    assert (first.who, first.at) == ("title", 0.0)
    assert (last.who, last.text, last.at) == ("user", "wait␛", 3.0)


def test_the_figures_of_a_month_add_up_what_came_of_its_requests() -> None:
    """A request is met as far as its last judgement says. The demo counts for nothing, nor does a
    session in which no request ended. Covers S1-51, S4-109.
    """
    state = AgentState()
    scores = {score: reviewed(review(score=score)) for score in (0.5, 1.0, 0.25)}
    beside = user("how far?", 2).model_copy(update={"aside": True})
    state.messages += [user("mend it", 1), scores[0.5], attempt(), beside]
    state.messages += [scores[1.0], user("and the README", 3), scores[0.25]]
    state.turns = [
        TurnSummary(turn_id=f"t{number}", outcome=outcome, llm_calls=2)
        for number, outcome in enumerate(("done", "failed", "stopped", "answered"))
    ]
    for number, choice in enumerate((GateChoice.ONCE, GateChoice.SESSION, GateChoice.REJECT)):
        answer = GateAnswer(gate_id="g", call_id=f"c{number}", args_hash="", choice=choice)
        call = operation("file_ops.edit_file", {"path": "a.py"})
        state.messages.append(call.model_copy(update={"call_id": f"c{number}", "answer": answer}))
    state.usage = state.usage.model_copy(update={"calls": 9})
    state.undone_calls = ("call_1",)
    one = facts(state).model_copy(update={"last_at": 1_700_000_000.0})  # in November 2023
    earlier = one.model_copy(update={"last_at": 1_690_000_000.0})  # in July
    left_out = [one.model_copy(update={"demo": True}), one.model_copy(update={"turns": 0})]
    months = group_by_month([earlier, one, *left_out, one])
    assert list(months) == ["2023-11", "2023-07"]
    assert months["2023-07"] == Figures(1, 4, 1, 1, 5, 2, 1.25, 9, 3, 2, 1)
    assert months["2023-11"] == Figures(2, 8, 2, 2, 10, 4, 2.5, 18, 6, 4, 2)
