"""Plans are listed, one of them in hand; the user closes and deletes them, the model only asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plan_talk import (
    PROPOSE,
    answer,
    plan_reply,
    report_reply,
    statuses,
    tasks_reply,
    write,
)
from support.reviews import judged
from support.session import Session, action, decision, done, judged_good, session

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.gates import CardKind
from duckflow_tui.state.goal import ReviewMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import PlanStatus, ReportMessage, WorkStatus

RUN = decision("I run the first.", action("task_loop.run", step_id="1"))
DONE, OPEN = WorkStatus.COMPLETED, WorkStatus.PENDING


def story(*main: Reply, plans: int = 1, **others: tuple[Reply, ...]) -> Script:
    """Plans of two notes, each step a list of one task."""
    lists = tuple(tasks_reply(write(f"{name}.txt")) for name in "abcd")
    reports = tuple(report_reply() for _ in lists)
    made = tuple(plan_reply("first note", "second note") for _ in range(plans))
    said = {"main": main, "plan": made, "tasks": lists, "report": reports, **others}
    return judged_good(Script(replies=said))


def ends(how: str) -> Reply:
    return decision(f"I {how} it.", action("plan_tool.revise", end=how))


async def asked(s: Session, kind: CardKind) -> None:
    await s.until(lambda state: any(card.kind is kind for card in state.cards))


async def stopped_after_one(s: Session) -> str:
    """The id of a plan of which the user had one step done."""
    await s.engine.send("two notes please")
    await asked(s, CardKind.PLAN)
    await answer(s, "run_steps")
    await asked(s, CardKind.REPORT)
    await answer(s, "stop")
    await s.ended()
    return s.state.plans[0].plan_id


def reports(s: Session) -> int:
    return sum(isinstance(m, ReportMessage) for m in s.state.messages)


async def test_a_plan_closed_by_key_is_in_no_turn_any_more_and_keeps_its_reports(
    tmp_path: Path,
) -> None:
    """A stubborn model cannot go on with it; the user's key can. Covers S2-26."""
    stubborn = decision("On with it.", action("task_loop.run"))
    script = story(PROPOSE, RUN, done("Stopped."), stubborn, done("Hello!"))
    async with session(tmp_path, script, mode="trusted") as s:
        plan_id = await stopped_after_one(s)
        assert s.engine.plan.close_plan(plan_id) is None
        assert s.state.active_plan is None
        assert [p.status for p in s.state.listed_plans] == [PlanStatus.CLOSED]
        assert s.engine.plan.close_plan(plan_id) is not None  # once is enough
        assert (await s.turn("hello")).outcome == "answered"
        assert s.results()[-1].result.outcome is Outcome.INVALID
        assert "the user closed the plan 'notes'" in str(s.server.requests[-1].json)
        s.cut()
    second = story(tasks=(tasks_reply(write("b.txt")),))
    async with session(tmp_path, second, mode="trusted", resume=s.session_id) as s:
        assert s.state.active_plan is None
        assert [p.status for p in s.state.listed_plans] == [PlanStatus.CLOSED]
        assert reports(s) == 1
        assert s.engine.plan.activate_plan(plan_id) is None
        assert s.active_plan.status is PlanStatus.IN_PROGRESS
        assert statuses(s.state) == [DONE, OPEN]
        assert s.engine.plan.run_plan() is None
        await s.until(lambda state: statuses(state) == [DONE, DONE])


async def test_a_plan_is_done_once_its_last_open_step_is_waived_by_key(tmp_path: Path) -> None:
    async with session(tmp_path, story(PROPOSE, RUN, done("Stopped.")), mode="trusted") as s:
        plan_id = await stopped_after_one(s)
        _, second = s.state.get_plan(plan_id).steps
        assert s.engine.plan.skip_step(second.step_id) is None
        assert s.state.get_plan(plan_id).status is PlanStatus.COMPLETED


async def test_a_deleted_plan_is_listed_no_more_and_cannot_be_opened(tmp_path: Path) -> None:
    """Covers S2-26."""
    async with session(tmp_path, story(PROPOSE, RUN, done("Stopped.")), mode="trusted") as s:
        plan_id = await stopped_after_one(s)
        assert s.engine.plan.close_plan(plan_id, delete=True) is None
        s.cut()
    look = decision("I look.", action("plan_tool.get", plan_id=plan_id))
    script = story(look, done("It is gone."))
    async with session(tmp_path, script, mode="trusted", resume=s.session_id) as s:
        assert s.state.listed_plans == ()
        assert s.state.active_plan is None
        assert reports(s) == 1
        assert s.engine.plan.activate_plan(plan_id) is not None
        assert s.engine.plan.close_plan(plan_id) is not None
        assert s.state.listed_plans == ()
        await s.turn("how is the plan?")
        assert s.results()[-1].result.outcome is Outcome.INVALID


async def test_a_way_back_takes_a_closing_with_it_only_where_that_came_later(
    tmp_path: Path,
) -> None:
    """Covers S2-26."""
    script = story(PROPOSE, RUN, done("Stopped."), done("Hello!"), done("A joke."))
    async with session(tmp_path, script, mode="trusted") as s:
        plan_id = await stopped_after_one(s)
        await s.turn("hello")
        s.engine.plan.close_plan(plan_id)
        await s.turn("tell me a joke")
        mine = [m.message_id for m in s.state.messages if isinstance(m, UserMessage)]
        assert await s.engine.rewind.go_back(mine[-1]) == ""
        assert (s.state.plans[0].status, s.state.active_plan) == (PlanStatus.CLOSED, None)
        assert await s.engine.rewind.go_back(mine[-2]) == ""
        assert s.state.plans[0].status is PlanStatus.IN_PROGRESS


async def test_a_turn_whose_second_plan_was_rejected_ends_with_a_verdict(tmp_path: Path) -> None:
    """The plan that was done is in hand again, and the turn is judged by its work."""
    whole = decision("I run it.", action("task_loop.run"))
    script = story(PROPOSE, whole, PROPOSE, done("Both notes are there."), plans=2)
    async with session(tmp_path, script, mode="trusted") as s:
        await s.engine.send("two notes please")
        await asked(s, CardKind.PLAN)
        await answer(s, "run_steps")
        await asked(s, CardKind.REPORT)
        await answer(s, "go_on")
        await s.until(lambda state: len(state.plans) == 2 and bool(state.cards))
        await answer(s, "reject", text="no")
        end = await s.ended()
        first, second = s.state.plans
        assert (first.status, second.status) == (PlanStatus.COMPLETED, PlanStatus.REJECTED)
        assert s.state.active_plan == first
        assert end.outcome == "done"
        assert any(isinstance(m, ReviewMessage) for m in s.state.messages)


async def test_of_several_plans_one_is_in_hand_and_a_key_takes_another(tmp_path: Path) -> None:
    """Covers S2-26."""
    script = story(PROPOSE, RUN, done("Stopped."), PROPOSE, RUN, done("Stopped again."), plans=2)
    async with session(tmp_path, script, mode="trusted") as s:
        first = await stopped_after_one(s)
        await s.engine.send("two other notes")
        await asked(s, CardKind.PLAN)
        second = s.state.plans[1].plan_id
        assert s.engine.plan.close_plan(second) is not None  # its card waiting for an answer
        await answer(s, "run_steps")
        await asked(s, CardKind.REPORT)
        at_work = LocalizedText(key="plan.problem.at_work")
        assert s.engine.plan.activate_plan(first) == at_work  # the second is being worked on
        assert s.engine.plan.close_plan(second) == at_work
        await answer(s, "stop")
        await s.ended(2)
        assert [p.status.value for p in s.state.listed_plans] == ["cancelled", "in_progress"]
        assert s.state.active_plan_id == second
        assert s.engine.plan.activate_plan(first) is None
        assert s.state.active_plan_id == first
        assert [p.status.value for p in s.state.listed_plans] == ["in_progress", "in_progress"]
        assert s.engine.plan.run_plan() is None
        await s.until(lambda state: statuses(state) == [DONE, DONE])
        assert [s.status for s in s.state.plans[1].steps] == [DONE, OPEN]


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize("how", ["close", "delete"])
async def test_the_model_ends_a_plan_only_with_the_users_key(
    tmp_path: Path, how: str, yes: bool
) -> None:
    """Covers S2-26."""
    script = story(PROPOSE, RUN, done("Stopped."), ends(how), done("As you wish."))
    async with session(tmp_path, script, mode="trusted") as s:
        await stopped_after_one(s)
        await s.engine.send("I do not want the rest")
        await asked(s, CardKind.PLAN_END)
        assert s.state.plans[0].status is PlanStatus.IN_PROGRESS
        await answer(s, "accept" if yes else "reject", "" if yes else "not yet")
        assert (await s.ended(2)).outcome == "done"
        result, plan = s.results()[-1].result, s.state.plans[0]
        if yes:
            assert result.outcome is Outcome.OK
            assert plan.status.value == f"{how}d"
            assert s.state.active_plan is None
        else:
            assert (result.outcome, "not yet" in result.text) == (Outcome.REJECTED, True)
            assert plan.status is PlanStatus.IN_PROGRESS
            assert s.state.active_plan == plan
        assert reports(s) == 1


async def test_a_plan_is_not_ended_where_nobody_can_be_asked(tmp_path: Path) -> None:
    script = story(PROPOSE, ends("close"), done("It stays."))
    async with session(tmp_path, script, mode="trusted", headless=True) as s:
        await s.turn("two notes please")
        result = s.results()[1].result
        assert (result.outcome, "Only the user ends a plan" in result.text) == (
            Outcome.DENIED,
            True,
        )
        assert s.state.plans[0].status is not PlanStatus.CLOSED


async def test_a_no_to_ending_a_stopped_plan_lets_nothing_of_it_begin(tmp_path: Path) -> None:
    script = story(PROPOSE, RUN, done("Stopped."), ends("close"), done("So it stays."))
    async with session(tmp_path, script, mode="trusted") as s:
        await stopped_after_one(s)
        await s.engine.send("hm")
        await asked(s, CardKind.PLAN_END)
        await answer(s, "reject")
        await s.ended(2)
        assert statuses(s.state) == [DONE, OPEN]


async def test_the_question_waits_over_the_end_of_the_process(tmp_path: Path) -> None:
    script = story(PROPOSE, RUN, done("Stopped."), ends("close"))
    async with session(tmp_path, script, mode="trusted") as s:
        await stopped_after_one(s)
        await s.engine.send("I do not want the rest")
        await asked(s, CardKind.PLAN_END)
        s.cut()
    again = story(done("Closed."))
    async with session(tmp_path, again, mode="trusted", resume=s.session_id) as s:
        await asked(s, CardKind.PLAN_END)
        await answer(s, "accept")
        await s.ended()
        assert s.state.plans[0].status is PlanStatus.CLOSED


async def test_a_call_that_neither_changes_nor_ends_is_sent_back(tmp_path: Path) -> None:
    both = action("plan_tool.revise", end="close", changes=[{"op": "drop", "step_id": "2"}])
    script = story(
        PROPOSE,
        RUN,
        done("Stopped."),
        decision("I try.", action("plan_tool.revise")),
        decision("I try.", both),
        done("Neither."),
    )
    async with session(tmp_path, script, mode="trusted") as s:
        await stopped_after_one(s)
        await s.turn("go on")
        assert [m.result.outcome for m in s.results()[-2:]] == [Outcome.INVALID] * 2
        assert s.state.plans[0].status is PlanStatus.IN_PROGRESS


async def test_a_rejected_plan_is_not_shown_again_unasked(tmp_path: Path) -> None:
    """A stubborn model proposes it again and again, and changes a step in its spacing alone: after
    the one no the user is not asked again in this turn, and a new message may ask for it. R20.
    """
    same = action(
        "plan_tool.revise", changes=[{"op": "change", "step_id": "1", "name": " First note."}]
    )
    tries = (PROPOSE, PROPOSE, decision("", same), done("The plan stands."))
    again = (PROPOSE, done("So be it."))
    low = (judged(0.1), judged(0.1))
    async with session(
        tmp_path, story(*tries, *again, plans=3, satisfaction=low), mode="trusted"
    ) as s:
        await s.engine.send("two notes please")
        await asked(s, CardKind.PLAN)
        await answer(s, "reject")
        assert (await s.ended()).outcome == "partial"
        assert len(s.state.plans) == 1
        outcomes = [m.result.outcome for m in s.results()]
        assert outcomes == [Outcome.REJECTED, Outcome.ERROR, Outcome.ERROR]
        assert "not shown again" in s.results()[2].result.text
        assert "judging.refused" in s.notices()  # the turn is judged, and nothing tried again
        await s.engine.send("show me that plan again")
        await asked(s, CardKind.PLAN)
        await answer(s, "reject")
        await s.ended(2)
        assert len(s.state.plans) == 2


async def test_a_model_that_proposes_a_rejected_plan_on_and_on_is_stopped_by_cards(
    tmp_path: Path,
) -> None:
    """The plan is shown once. Then the user is asked as for any call that comes again and again,
    and "another way" does not let the model go round for ever. R20.
    """
    script = story(*(PROPOSE for _ in range(40)), plans=1)
    async with session(tmp_path, script, mode="trusted") as s:
        await s.engine.send("two notes please")
        await asked(s, CardKind.PLAN)
        await answer(s, "reject")
        kinds = list[CardKind]()
        for action_name in ("other_approach", "stop_work"):
            shown = await answer(s, action_name)
            kinds.append(shown.kind)
            await s.until(lambda state, old=shown: old not in state.cards)
        end = await s.ended()
        assert kinds == [CardKind.CONSULTATION] * 2
        assert end.outcome != "done"
        assert len(s.state.plans) == 1
        assert len(s.results()) <= 20
