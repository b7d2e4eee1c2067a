"""What the model leaves to the user: an approval it asks for, a question with answers, a way back
after errors; and how phase and status say that a turn has ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from support.pace_talk import LONG, files
from support.plan_talk import PROPOSE, answer, begin_plan, card, plan_reply
from support.session import Session, action, decision, done, script, session

from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.scripted.replies import Fault, Reply
from duckflow_tui.state.conversation import NoticeMessage, UserMessage
from duckflow_tui.state.gates import CardKind, GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.phase import Phase, PhaseChanged, Status, TransitionRefused
from duckflow_tui.state.phase_machine import DEFAULT_TABLE
from duckflow_tui.state.plan import WorkStatus

WRITE = action("file_ops.write_file", path="a.txt", content="a\n")
READ = action("file_ops.read_file", path="here.txt")
GONE = action("file_ops.read_file", path="gone.txt")
WAITS = Phase.AWAITING_APPROVAL
QUESTION = {"text": "Which library?", "options": ["curses", "Textual"]}


def reads_of(name: str) -> dict[str, Any]:
    return action("file_ops.read_file", path=name)


def moves(s: Session) -> list[Phase]:
    """Where the phases led, one after the other."""
    return [e.transition.new for e in s.events(PhaseChanged)]


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize("mode", ["strict", "standard", "trusted"])
async def test_what_the_model_leaves_to_the_user_is_asked_whatever_the_mode(
    tmp_path: Path, mode: str, protocol: Literal["tools", "json"]
) -> None:
    """Covers S4-107, S4-46."""
    replies = script(decision("May I?", WRITE, step=WAITS), done("Written."))
    async with session(tmp_path, replies, mode=mode, protocol=protocol) as s:
        await s.engine.send("write a.txt")
        gate = await s.gate()
        assert "for_user" in gate.impact.reasons
        assert not gate.can_grant_session
        assert (s.state.phase, s.state.status) == (WAITS, Status.REQUIRES_USER_INPUT)
        assert not (s.workspace / "a.txt").exists()
        await s.answer(GateChoice.ONCE)
        assert (await s.ended()).outcome == "done"
        assert (s.workspace / "a.txt").read_text() == "a\n"
        assert moves(s)[:3] == [Phase.PLANNING, WAITS, Phase.EXECUTION]


async def test_a_refusal_of_what_it_left_to_the_user_leads_back_to_planning(tmp_path: Path) -> None:
    """Covers S4-49, S4-107."""
    replies = script(decision("May I?", WRITE, step=WAITS), done("No, then.", step="PLANNING"))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("write a.txt")
        await s.answer(GateChoice.REJECT)
        await s.ended()
        assert moves(s)[:3] == [Phase.PLANNING, WAITS, Phase.PLANNING]
        assert not (s.workspace / "a.txt").exists()


async def test_reading_is_asked_for_too_and_what_plan_mode_refuses_stays_refused(
    tmp_path: Path,
) -> None:
    """Covers S4-107."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "here.txt").write_text("here\n")
    replies = script(decision("May I?", READ, WRITE, step=WAITS), done("Read."))
    async with session(tmp_path, replies, mode="plan") as s:
        await s.engine.send("look")
        gate = await s.answer(GateChoice.ONCE)
        assert gate.operation == "file_ops.read_file"
        await s.ended()
        assert [m.result.outcome for m in s.results()] == [Outcome.OK, Outcome.DENIED]


@pytest.mark.parametrize("next_step", ["continue", "pending_user", "done"])
@pytest.mark.parametrize("protocol", ["tools", "json", "responses"])
async def test_a_wait_for_approval_without_an_action_asks_and_yes_goes_on(
    tmp_path: Path, next_step: str, protocol: Protocol
) -> None:
    """Covers S4-107."""
    replies = script(
        decision("I would replace the parser. Shall I?", step=WAITS, next_step=next_step),
        decision("Then I do.", WRITE),
        done("Replaced."),
    )
    async with session(tmp_path, replies, mode="trusted", protocol=protocol) as s:
        await s.engine.send("tidy up")
        shown = await card(s)
        assert (shown.kind, shown.question) == (
            CardKind.QUESTION,
            "I would replace the parser. Shall I?",
        )
        assert [o.key for o in shown.options] == ["y", "n", "m"]
        assert (s.state.phase, s.state.status) == (WAITS, Status.REQUIRES_USER_INPUT)
        await answer(s, "accept")
        assert (await s.ended()).outcome == "done"
        assert (s.workspace / "a.txt").exists()
        assert moves(s)[:3] == [Phase.PLANNING, WAITS, Phase.EXECUTION]
        assert "The user's answer: yes" in s.server.of("main")[1].new_text


async def test_no_to_a_wait_for_approval_leads_back_to_planning_with_the_reason(
    tmp_path: Path,
) -> None:
    """Covers S4-49, S4-107."""
    replies = script(decision("Shall I?", step=WAITS), done("Not then.", step="PLANNING"))
    async with session(tmp_path, replies) as s:
        await s.engine.send("tidy up")
        await answer(s, "reject", "the parser stays")
        await s.ended()
        assert moves(s)[:3] == [Phase.PLANNING, WAITS, Phase.PLANNING]
        assert "The user's answer: no: the parser stays" in s.server.of("main")[1].new_text


@pytest.mark.parametrize("next_step", ["continue", "pending_user", "done"])
async def test_the_options_of_a_question_are_keys(tmp_path: Path, next_step: str) -> None:
    """Covers S4-67."""
    asks = decision("One thing.", step="PLANNING", next_step=next_step, question=QUESTION)
    async with session(tmp_path, script(asks, done("Textual it is."))) as s:
        await s.engine.send("a snake game")
        shown = await card(s)
        assert [(o.key, o.label) for o in shown.options] == [
            ("1", "curses"),
            ("2", "Textual"),
            ("m", ""),
        ]
        assert (s.state.phase, s.state.status) == (Phase.PLANNING, Status.REQUIRES_USER_INPUT)
        await answer(s, "offered_2")
        assert (await s.ended()).reply == "Textual it is."
        assert "The user's answer: Textual" in s.server.of("main")[1].new_text
        assert "the user chose Textual" in " ".join(s.state.memory.decision_log)


async def test_what_is_written_while_a_question_is_open_answers_it(tmp_path: Path) -> None:
    asks = decision("One thing.", step="PLANNING", next_step="pending_user", question=QUESTION)
    async with session(tmp_path, script(asks, done("Plain print."))) as s:
        await s.engine.send("a snake game")
        await card(s)
        await s.engine.send("neither, plain print", when="now")
        assert (await s.ended()).reply == "Plain print."
        assert "The user's answer: neither, plain print" in s.server.of("main")[1].new_text
        assert s.server.of("aside") == []
        assert len([m for m in s.state.messages if isinstance(m, UserMessage)]) == 1


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("2", "Textual"),
        (" ２．", "Textual"),
        ("(1)", "curses"),
        ("3", "3"),
        ("0", "0"),
        ("2 players", "2 players"),
    ],
)
async def test_a_typed_number_is_the_option_of_that_number_where_there_is_one(
    tmp_path: Path, typed: str, told: str
) -> None:
    """At an open card and at a question that the turn ended with."""
    asks = decision("One thing.", step="PLANNING", next_step="pending_user", question=QUESTION)
    async with session(tmp_path, script(asks, done("That one."))) as s:
        await s.engine.send("a snake game")
        await card(s)
        await s.engine.send(typed, when="now")
        await s.ended()
        assert f"The user's answer: {told}\n" in s.server.of("main")[1].new_text + "\n"
    (tmp_path / "other").mkdir()
    more = script(asks, asks, done("That one."), done("Three it is."))
    async with session(tmp_path / "other", more, headless=True) as s:
        await s.turn("a snake game")
        await s.turn(typed)
        said = [m.text for m in s.state.messages if isinstance(m, UserMessage)]
        assert said == ["a snake game", told]
        await s.turn("2")  # nothing is asked any more
        said = [m.text for m in s.state.messages if isinstance(m, UserMessage)]
        assert said[2] == "2"


async def test_a_question_without_answers_ends_the_turn_and_the_next_message_goes_on(
    tmp_path: Path,
) -> None:
    asks = decision("Which one?", step="PLANNING", next_step="pending_user", question="Which one?")
    async with session(tmp_path, script(asks, done("That one."))) as s:
        end = await s.turn("a snake game")
        assert (end.outcome, s.state.cards) == ("partial", ())
        assert (s.state.phase, s.state.status) == (Phase.PLANNING, Status.REQUIRES_USER_INPUT)
        assert (await s.turn("that one")).reply == "That one."


async def test_a_question_that_its_own_check_stopped_still_has_keys(tmp_path: Path) -> None:
    asks = decision(
        "It would break the constraint.",
        next_step="pending_user",
        constraint_check={"ok": False, "reason": "no new library"},
        question=QUESTION,
    )
    async with session(tmp_path, script(asks, done("curses."))) as s:
        await s.engine.send("a snake game")
        await answer(s, "offered_1")
        assert (await s.ended()).reply == "curses."


async def test_a_question_in_a_step_is_answered_there_and_the_step_goes_on(tmp_path: Path) -> None:
    replies = script(
        PROPOSE,
        done("All there."),
        plan=plan_reply("choose"),
        task=(
            decision("One thing.", next_step="pending_user", question=QUESTION),
            decision("Then Textual.", WRITE),
            done("Chosen."),
        ),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await begin_plan(s, asks="two notes please")
        await card(s, CardKind.QUESTION)
        assert s.state.cards[0].step_id
        await answer(s, "offered_2")
        await s.ended()
        assert "The user's answer: Textual" in s.server.of("task")[1].new_text
        assert s.state.plans[0].steps[0].status is WorkStatus.COMPLETED


@pytest.mark.parametrize("step", [WAITS, Phase.PLANNING])
async def test_a_question_that_was_open_when_the_app_ended_is_asked_again(
    tmp_path: Path, step: Phase
) -> None:
    asks = decision("One thing.", step=step, next_step="pending_user", question=QUESTION)
    async with session(tmp_path, script(asks)) as s:
        await s.engine.send("a snake game")
        before = await card(s)
        s.cut()
    async with session(tmp_path, script(done("curses.")), resume=s.session_id) as s:
        shown = await card(s)
        assert (shown.question, shown.options) == (before.question, before.options)
        assert s.server.requests == []
        await answer(s, "offered_1")
        assert (await s.ended()).reply == "curses."
        assert "The user's answer: curses" in s.server.of("main")[0].text


# --- errors, and how a turn ended -----------------------------------------------------------------


async def test_decisions_go_back_after_errors_only_so_often(tmp_path: Path) -> None:
    """Covers S4-50, S4-53."""
    names = files(tmp_path / "work", 4)
    tries = [
        reply
        for number in range(2)
        for reply in (
            decision("look", reads_of(names[2 * number])),
            decision("try", action("file_ops.read_file", path=f"gone{number}.txt")),
            decision("again", reads_of(names[2 * number + 1]), step="PLANNING"),
        )
    ]
    table = tmp_path / "phases.toml"
    table.write_text(DEFAULT_TABLE.read_text().replace("recoveries = 3", "recoveries = 1"))
    environ = {**LONG, "DUCKFLOW_PHASES__TABLE": str(table)}
    async with session(tmp_path, script(*tries, done("I give up.")), environ=environ) as s:
        await s.turn("look for it")
        back = [m for m in moves(s) if m is Phase.PLANNING]
        assert len(back) == 1 + 1  # the turn's own beginning, and the limit
        refused = [e.refusal for e in s.events(TransitionRefused)]
        assert [r.wanted for r in refused] == [Phase.PLANNING]
        assert "as often as they may" in refused[0].reason
        told = [m.for_model for m in s.state.messages if isinstance(m, NoticeMessage)]
        assert any("back to planning after errors" in words for words in told)
        assert s.state.recoveries == 1


#: What the model does, the settings, how the turn ends, and what is true then.
Case = tuple[tuple[Reply, ...], dict[str, str], str, tuple[Phase, Status]]
ENDS: list[Case] = [
    ((decision("a", READ), done("There.")), {}, "done", (Phase.DONE, Status.SUCCESS)),
    ((decision("a", READ), Reply(fault=Fault(status=401))), {}, "failed",
     (Phase.IDLE, Status.ERROR)),
    ((decision("a", READ), Reply(text="{", repeat=True)), {}, "failed", (Phase.IDLE, Status.ERROR)),
    ((Reply(fault=Fault(status=401)),), {}, "failed", (Phase.IDLE, Status.ERROR)),
    ((decision("a", READ), Reply(decision=decision("b").decision, repeat=True)), {}, "partial",
     (Phase.IDLE, Status.REQUIRES_USER_INPUT)),
    ((decision("a", READ), decision("b", next_step="defer")), {}, "partial",
     (Phase.IDLE, Status.SUCCESS)),
    ((decision("a", READ), *(decision("b", next_step="pending_user"),) * 2), {}, "partial",
     (Phase.EXECUTION, Status.REQUIRES_USER_INPUT)),
    (tuple(decision("a", GONE) for _ in range(5)), {"DUCKFLOW_EXECUTION__MAX_MODEL_CALLS": "2"},
     "limit", (Phase.IDLE, Status.REQUIRES_USER_INPUT)),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(ENDS)))
async def test_phase_and_status_say_how_the_turn_ended(tmp_path: Path, at: int) -> None:
    """Nothing runs any more, and nothing says that it does. Covers S4-108."""
    replies, environ, outcome, expected = ENDS[at]
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "here.txt").write_text("here\n")
    headless = outcome in ("limit", "partial")
    async with session(tmp_path, script(*replies), environ=environ, headless=headless) as s:
        end = await s.turn("look")
        assert (end.outcome, (s.state.phase, s.state.status)) == (outcome, expected)
        if outcome == "failed":
            assert s.state.status_detail


async def test_a_turn_that_was_stopped_is_stopped(tmp_path: Path) -> None:
    """Covers S4-108."""
    replies = script(decision("May I?", WRITE, step=WAITS))
    async with session(tmp_path, replies) as s:
        await s.engine.send("write a.txt")
        await s.gate()
        s.engine.stop()
        assert (await s.ended()).outcome == "stopped"
        assert (s.state.phase, s.state.status) == (Phase.IDLE, Status.SUCCESS)
