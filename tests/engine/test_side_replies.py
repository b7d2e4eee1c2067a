"""Replies beside the work are read in the form in which a model writes them, at the first call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from support.plan_talk import PROPOSE, answer, begin_plan, card, plan_reply, statuses, tasks_reply
from support.plan_talk import write as task
from support.reviews import claim, judged, lacks, next_plan, write
from support.session import decision, done, script, session

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.goal import AttemptStarted, RequirementState
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.plan_events import ReportAdded


def in_another_case(data: Any) -> Any:
    """Field names as ``suggestedImprovements``, ids as ``R1``, words of a choice as ``Command``."""
    if isinstance(data, list):
        return [in_another_case(entry) for entry in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    named: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", data).items():
        first, *rest = key.split("_")
        name = key.upper() if key in ("r1", "r2") else "".join((first, *map(str.title, rest)))
        named[name] = value.title() if key == "kind" else in_another_case(value)
    return named


SPLIT: dict[str, Any] = {
    "requirements": [
        claim("the notes are there", kind="file_exists", value="notes.txt"),
        claim("they say why"),
    ]
}
DROPS: dict[str, Any] = {"requirements": [], "dropped": ["r2"], "again": []}
HALF = judged(0.6, {"r1": 0.9, "r2": 0.3}, missing_aspects=[])


def data_of(reply: Reply) -> dict[str, Any]:
    assert reply.data is not None
    return reply.data


async def test_each_question_is_asked_once_whatever_case_its_answer_has(tmp_path: Path) -> None:
    """The splitter, twice; what is missing; the plan of a further attempt; a failure; a digest."""

    def says(data: dict[str, Any]) -> Reply:
        return Reply(text=json.dumps(in_another_case(data)))

    begin = decision("I write.", write("half\n"), task_profile="FILE_OPERATION")
    replies: dict[str, tuple[Reply, ...]] = {
        "main": (begin, done("One."), done("Two."), decision("I look.", write("x\n", "b.txt")),
                 done("Three.")),
        "requirements": (says(SPLIT), says(DROPS)),
        "satisfaction": (HALF, HALF, judged(0.9, {"r1": 0.9})),
        "missing": (says(data_of(lacks("the reason"))),) * 2,
        "failure": (says({"cause": "no reason given", "fix": "give it", "retryable": True}),),
        "continuation": (says(data_of(next_plan("write it anew"))),),
    }  # fmt: skip
    async with session(tmp_path, Script(replies=replies), mode="trusted") as s:
        await s.engine.send("write the notes")
        shown = await card(s)
        assert "P1 the reason" in s.events(AttemptStarted)[0].message.for_model
        await answer(s, "assistance")
        await s.until(lambda state: any(c.card_id != shown.card_id for c in state.cards))
        again = s.state.cards[0].escalation
        assert again is not None
        assert again.analysis is not None
        assert again.analysis.fix == "give it"
        await answer(s, "tell", "no reason needed")
        await s.ended()
        objective = s.objective
        first, second = objective.extracted_requirements
        assert (first.check.kind, second.state) == ("file_exists", RequirementState.WAIVED)
        assert s.events(AttemptStarted)[-1].message.plan.strategy == "write it anew"
        asked = [r.purpose for r in s.server.requests if r.purpose not in ("main", "satisfaction")]
        assert sorted(asked) == [
            *("continuation", "failure", "missing", "requirements", "requirements"),
        ]


@pytest.mark.parametrize("wrote", [True, False])
async def test_by_a_report_that_cannot_be_read_a_step_is_neither_done_nor_failed(
    tmp_path: Path, wrote: bool
) -> None:
    """What only brings words was not judged; what wrote a file is done, step by step too."""
    tasks = (tasks_reply(task("notes.txt")),) if wrote else (tasks_reply(),)
    replies = script(
        PROPOSE,
        done("Run it."),
        done("It is explained."),
        plan=plan_reply("explain"),
        tasks=tasks,
        task=done("A note is a short text."),
        report=(Reply(text='{"well": "it is"}'),) * 3,
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await begin_plan(s, "run_steps", asks="plan how to explain notes")
        wanted = WorkStatus.COMPLETED if wrote else WorkStatus.FAILED
        await s.until(lambda state: statuses(state) == [wanted])
        (report,) = [e.message.report for e in s.events(ReportAdded)]
        assert (report.told is not None and report.told.key) == (
            not wrote and "work.cause.not_judged"
        )
        assert "work.no_report" in s.notices()
        again = s.server.of("report")[1].json["messages"]
        assert [m["role"] for m in again[-2:]] == ["assistant", "user"]
        assert again[-2]["content"] == '{"well": "it is"}'
        if not wrote:
            await answer(s, "skip")
        await s.ended()
