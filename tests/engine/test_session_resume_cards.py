"""Questions about the work itself that were open when the app ended: open again, and pending."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pace_talk import LONG, files, reads, stuck
from support.plan_talk import PROPOSE, answer, begin_plan, card, plan_reply, statuses
from support.reviews import judged, thrice, works
from support.session import Session, decision, done, script, session

from duckflow_tui.state.gates import Card, CardAnswered, CardKind, CardOpened
from duckflow_tui.state.goal import AttemptMessage
from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.plan import WorkStatus

CALLS = "DUCKFLOW_EXECUTION__MAX_MODEL_CALLS"
TOKENS = "DUCKFLOW_LIMITS__MAX_TOKENS"


async def opened(s: Session, kind: CardKind) -> Card:
    """The card of this kind, once it is open."""
    await s.until(lambda state: any(c.kind is kind for c in state.cards))
    return next(c for c in s.state.cards if c.kind is kind)


async def again(s: Session, before: Card) -> Card:
    """The same question, open once more: nobody answered it, and nothing was asked for it."""
    shown = await card(s)
    assert shown.card_id != before.card_id
    own = {"card_id", "subject", "opened_at"}
    assert shown.model_dump(exclude=own) == before.model_dump(exclude=own)
    assert s.events(CardAnswered) == []
    assert s.server.requests == []
    assert s.state.turn is not None
    assert s.state.turn.pause == "running"
    return shown


@pytest.mark.parametrize("pattern", [Pattern.STAGNATION, Pattern.LIMIT])
async def test_a_consultation_asks_again_each_time_until_a_key_answers_it(
    tmp_path: Path, pattern: Pattern
) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(pattern)
    async with session(tmp_path, script(*replies), environ=environ) as s:
        await s.engine.send("go")
        before = await opened(s, CardKind.CONSULTATION)
        s.cut()
    for _ in range(2):
        async with session(tmp_path, script(), environ=environ, resume=s.session_id) as s:
            before = await again(s, before)
            s.cut()
    ends = script(done("There it is."))
    async with session(tmp_path, ends, environ=environ, resume=s.session_id) as s:
        await again(s, before)
        assert s.state.pace is not None
        assert s.state.pace.consultations == (pattern,)
        await answer(s, "more_loops" if pattern is Pattern.LIMIT else "keep_going")
        assert (await s.ended()).reply == "There it is."


async def test_a_consultation_in_a_step_asks_again_there(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 3)
    environ = {**LONG, "DUCKFLOW_EXECUTION__MAX_STEPS": "2"}
    replies = script(
        PROPOSE,
        done("The plan stands."),
        plan=plan_reply("look around"),
        task=tuple(reads(name) for name in names),
    )
    async with session(tmp_path, replies, environ=environ) as s:
        await begin_plan(s, asks="two notes please")
        before = await opened(s, CardKind.CONSULTATION)
        assert before.step_id
        s.cut()
    more = script(done("All done."), task=done("Looked."))
    async with session(tmp_path, more, environ=environ, resume=s.session_id) as s:
        await again(s, before)
        await answer(s, "more_loops")
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [WorkStatus.COMPLETED]


async def test_what_to_do_after_the_last_attempt_is_asked_again(tmp_path: Path) -> None:
    async with session(tmp_path, thrice(), mode="trusted") as s:
        await s.engine.send("write the notes")
        before = await opened(s, CardKind.ESCALATION)
        s.cut()
    async with session(tmp_path, script(), mode="trusted", resume=s.session_id) as s:
        await again(s, before)
        await answer(s, "accept_partial")
        end = await s.ended()
        assert (end.outcome, end.satisfaction, end.reply) == ("done", 0.4, "Three.")
        assert end.reason is not None
        assert (end.reason.code, end.proven) == ("accepted", False)
        assert s.objective.closed
        assert s.state.phase is Phase.DONE
    async with session(tmp_path, script(done("Hi.")), mode="trusted", resume=s.session_id) as s:
        assert s.state.last_turn is not None
        assert s.state.last_turn.outcome == "done"
        await s.turn("hello")
        assert s.state.earlier == ()  # it was not left unfinished


async def test_instructions_after_the_last_attempt_begin_a_new_round(tmp_path: Path) -> None:
    async with session(tmp_path, thrice(), mode="trusted") as s:
        await s.engine.send("write the notes")
        before = await opened(s, CardKind.ESCALATION)
        s.cut()
    whole = thrice(satisfaction=(judged(0.9),)).replies
    more = script(done("Because the script reads it."), **whole)
    async with session(tmp_path, more, mode="trusted", resume=s.session_id) as s:
        await again(s, before)
        await answer(s, "instructions", "name the script")
        assert (await s.ended()).outcome == "done"
        told = s.server.of("continuation")[0].text
        assert "name the script" in told
        assert "the reason" in told
        tries = [m.attempt for m in s.state.messages if isinstance(m, AttemptMessage)]
        assert tries == [2, 3, 4]


@pytest.mark.parametrize(
    ("choice", "outcome"), [("raise_budget", "done"), ("stop_work", "stopped")]
)
async def test_a_limit_of_calls_stands_where_it_stood(
    tmp_path: Path, choice: str, outcome: str
) -> None:
    """What was spent before the app ended is not given anew, also where the setting was raised."""
    names = files(tmp_path / "work", 4)
    async with session(tmp_path, script(*map(reads, names)), environ={CALLS: "2"}) as s:
        await s.engine.send("read them")
        before = await opened(s, CardKind.BUDGET)
        s.cut()
    more = script(*map(reads, names[2:]), done())
    async with session(tmp_path, more, environ={CALLS: "50"}, resume=s.session_id) as s:
        await again(s, before)
        await answer(s, choice)
        if choice == "raise_budget":
            second = await opened(s, CardKind.BUDGET)
            assert (second.facts["used"], second.facts["limit"]) == ("4", "4")
            assert len(s.server.of("main")) == 2
            await answer(s, "raise_budget")
        assert (await s.ended()).outcome == outcome
        assert len(s.server.of("main")) == (3 if outcome == "done" else 0)


async def test_a_limit_of_tokens_asks_again(tmp_path: Path) -> None:
    names, short = files(tmp_path / "work", 1), {TOKENS: "2000"}
    async with session(tmp_path, script(reads(names[0])), environ=short) as s:
        await s.engine.send("read them")
        before = await opened(s, CardKind.BUDGET)
        s.cut()
    async with session(tmp_path, script(done("Unread.")), environ=short, resume=s.session_id) as s:
        await again(s, before)
        await answer(s, "raise_budget")
        assert (await s.ended()).outcome == "answered"


async def test_a_limit_of_a_step_asks_again_in_it(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 3)
    replies = script(
        PROPOSE,
        done("The plan stands."),
        plan=plan_reply("look around"),
        task=tuple(reads(name) for name in names),
    )
    async with session(tmp_path, replies, environ={CALLS: "3"}) as s:
        await begin_plan(s, asks="two notes please")
        before = await opened(s, CardKind.BUDGET)
        assert before.step_id
        s.cut()
    more = script(done("All done."), task=done("Looked."))
    async with session(tmp_path, more, environ={CALLS: "3"}, resume=s.session_id) as s:
        await again(s, before)
        await answer(s, "raise_budget")
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [WorkStatus.COMPLETED]


async def test_a_step_that_was_given_more_loops_has_them_when_the_session_goes_on(
    tmp_path: Path,
) -> None:
    names = files(tmp_path / "work", 4)
    held = [reads(name).model_copy(update={"hold": name}) for name in names]
    replies = script(
        PROPOSE,
        done("The plan stands."),
        plan=plan_reply("look around"),
        task=(held[0], reads(names[1]), held[2]),
    )
    environ = {**LONG, "DUCKFLOW_EXECUTION__MAX_STEPS": "2"}
    async with session(tmp_path, replies, environ=environ) as s:
        await begin_plan(s, asks="two notes please")
        await s.server.reached(names[0])
        s.engine.pace.extend_limit()
        s.server.release(names[0])
        await s.server.reached(names[2])
        s.cut()
    more = script(done("All done."), task=(reads(names[3]), done("Looked.")))
    async with session(tmp_path, more, environ=environ, resume=s.session_id) as s:
        await s.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        s.engine.resume()
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [WorkStatus.COMPLETED]
        assert s.events(CardOpened) == []


async def test_calls_that_the_card_held_back_wait_for_the_users_key(tmp_path: Path) -> None:
    """The model asks what the request means, at its limit, before it runs what it decided."""
    body = works().decision
    assert body is not None
    first = decision("I write.", *body["actions"], task_profile="FILE_OPERATION", confidence=0.8)
    async with session(tmp_path, script(first), mode="trusted", environ={CALLS: "1"}) as s:
        await s.engine.send("write the notes")
        await opened(s, CardKind.BUDGET)
        s.cut()
    async with session(
        tmp_path, script(done()), mode="trusted", environ={CALLS: "1"}, resume=s.session_id
    ) as s:
        await s.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        assert not (tmp_path / "work" / "notes.txt").exists()
        s.engine.resume()
        await opened(s, CardKind.BUDGET)
        assert s.server.requests == []
