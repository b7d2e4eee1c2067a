"""A plan that was halted begins no step at another message; it goes on where the user wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.plan_talk import PROPOSE, answer, plan_reply, statuses, tasks_reply
from support.plan_talk import write as task_of
from support.session import DEADLINE, Session, action, decision, done, judged_good, session

from duckflow_tui.scripted.replies import Reply, Script, When
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import CardKind
from duckflow_tui.state.plan import PlanStatus, WorkStatus

DONE = WorkStatus.COMPLETED

RUN = decision("On with it.", action("task_loop.run"))


def write(name: str) -> Reply:
    """A step that writes its note and ends."""
    wrote = action("file_ops.write_file", path=f"{name}.txt", content="text\n")
    return decision(f"{name} is written.", wrote, next_step="done")


ASKS = decision("", next_step="pending_user", question={"text": "Which one?", "options": []})
STUCK = tuple(
    decision(f"Again {n}.", action("file_ops.read_file", path="gone.txt")) for n in range(4)
)
#: What the steps say once the plan goes on, however many are left.
REST = (write("b"), write("c"), write("d"))


def story(*task: Reply, later: tuple[Reply, ...] = (), made: bool = False) -> Script:
    """A plan of three notes, where none is ``made`` yet; ``later`` goes before the main model's
    ever same words.
    """
    replies = {
        "main": (*(() if made else (PROPOSE,)), *later),
        "plan": (plan_reply("first", "second", "third"),),
        "task": task,
        "tasks": tuple(tasks_reply(task_of(f"{name}.txt")) for name in "abc"),
    }
    told = {"main": done("I have said all.").model_copy(update={"repeat": True})}
    return judged_good(Script(replies=replies, fallback=told))


def at(word: str, reply: Reply) -> Reply:
    """The reply, once the user has said the word."""
    return reply.model_copy(update={"when": When(anywhere=word)})


async def asked(s: Session, kind: CardKind) -> None:
    await s.until(lambda state: any(card.kind is kind for card in state.cards))


async def begun(s: Session, how: str = "run_all") -> None:
    await s.engine.send("three notes please")
    await asked(s, CardKind.PLAN)
    await answer(s, how)


def answered(
    kind: CardKind, action_name: str, text: str = "", how: str = "run_all"
) -> Callable[[Session], Awaitable[None]]:
    """The user answers a card in the middle of the plan so."""

    async def halt(s: Session) -> None:
        await begun(s, how)
        await asked(s, kind)
        await answer(s, action_name, text)

    return halt


async def stopped(s: Session) -> None:
    """Ctrl+C in the second step."""
    await begun(s)
    await asked(s, CardKind.REPORT)
    s.engine.stop()


#: How a plan is halted after its first step: what its steps do, and what the user does.
WAYS: dict[str, tuple[tuple[Reply, ...], Callable[[Session], Awaitable[None]]]] = {
    "stop by key": ((write("a"), ASKS), stopped),
    "stop on a report": ((write("a"), ASKS), answered(CardKind.REPORT, "stop")),
    "wish": ((write("a"), ASKS), answered(CardKind.REPORT, "tell", "I do it myself")),
    "step by step": ((), answered(CardKind.REPORT, "stop", how="run_steps")),
    "stop when stuck": ((write("a"), *STUCK), answered(CardKind.CONSULTATION, "stop_work")),
}


@pytest.mark.parametrize("stubborn", [False, True], ids=["polite", "stubborn"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_halted_plan_runs_no_step_at_another_message(
    way: str, stubborn: bool, tmp_path: Path
) -> None:
    """A model that runs it unasked leads to a question, and once a turn only. Covers S2-30."""
    task, halt = WAYS[way]
    later = (at("hello", RUN), at("hello", RUN)) if stubborn else ()
    async with session(tmp_path, story(*task, *REST, later=later), mode="trusted") as s:
        await halt(s)
        await s.ended()
        before = (statuses(s.state), len(s.server.of("task")), len(s.server.of("tasks")))
        await s.engine.send("hello")
        if stubborn:
            await asked(s, CardKind.BREAKPOINT)
            await answer(s, "stop")
        await s.ended(2)
        assert (statuses(s.state), len(s.server.of("task")), len(s.server.of("tasks"))) == before
        assert not (s.workspace / "b.txt").exists()


@pytest.mark.parametrize("by", ["key", "words"])
@pytest.mark.parametrize("resumed", [False, True], ids=["at once", "resumed"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_halted_plan_goes_on_where_the_user_wants_it(
    way: str, resumed: bool, by: str, tmp_path: Path
) -> None:
    """To steps that run, or to a question about the one that was not done. Covers S2-30."""
    task, halt = WAYS[way]
    later = (at("go on then", RUN),)
    rest = () if resumed else REST
    async with session(tmp_path, story(*task, *rest, later=later), mode="trusted") as s:
        await halt(s)
        await s.ended()
        if not resumed:
            await go_on(s, by)
            return
        s.cut()
    script = story(*REST, later=later, made=True)
    async with session(tmp_path, script, mode="trusted", resume=s.session_id) as s:
        await go_on(s, by)


async def go_on(s: Session, by: str) -> None:
    """By the user's key or words; a step that is not done is done again."""
    if by == "key":
        async with asyncio.timeout(DEADLINE):
            while s.state.turn is None:  # the turn before is being put away
                s.engine.resume()
                await asyncio.sleep(0)
    else:
        await s.engine.send("go on then")

    def is_over(state: AgentState) -> bool:
        return bool(state.cards) or statuses(state) == [DONE] * 3

    for _ in range(6):
        await s.until(is_over)
        if s.state.cards:
            report = s.state.cards[0].report
            failed = report is not None and report.status != "completed"
            await answer(s, "retry" if failed else "go_on")
    assert statuses(s.state) == [DONE] * 3
    await s.until(lambda _: s.state.plans[0].status is PlanStatus.COMPLETED)
