"""The user's decisions are facts for the judge, each with its id."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plan_talk import answer, plan_reply
from support.reviews import WORDS, believes, write
from support.session import action, decision, done, script, session

PLAN = decision(
    "I plan.",
    action("plan_tool.propose", goal="two notes"),
    task_profile="FILE_OPERATION",
    requirements=[WORDS],
)


@pytest.mark.parametrize("way", ["run_all", "reject"])
async def test_the_judge_is_told_what_the_user_decided_on_a_plan(tmp_path: Path, way: str) -> None:
    work = decision("I write.", write("done\n"))
    scripted = script(
        PLAN,
        *([work] if way == "reject" else []),
        done("Written."),
        plan=plan_reply("write the notes"),
        task=(work, done("Written.")),
    )
    async with session(tmp_path, scripted, mode="trusted", author=believes) as s:
        await s.engine.send("write the notes")
        await answer(s, way, "too long" if way == "reject" else "")
        await s.ended()
        facts = s.server.of("satisfaction")[-1].text
        said = "refused" if way == "reject" else "approved"
        told = f"U1 the user {said} the plan “notes”:"
        # The steps of a plan that was followed stand above the facts, as they are by now.
        why = "    too long\n    1. write the notes\n" if way == "reject" else "</facts>"
        assert f"{told}\n{why}" in facts
        assert facts.count("1. write the notes") == 1
