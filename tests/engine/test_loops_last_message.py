"""Lists of facts in a request, and work whose last message does not call it done."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.reviews import claim, found, judged, story, works
from support.session import decision, done, session

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.agent import AgentState

LIST = """Write the notes:
- the notes say done
- the answer says why
- the old notes are in archive/
- a script reads the file"""


def wanted(state: AgentState) -> list[str]:
    assert state.objective is not None
    return [item.requirement for item in state.objective.extracted_requirements]


async def test_of_a_list_only_what_the_model_calls_a_requirement_is_one_and_none_twice(
    tmp_path: Path,
) -> None:
    """The later words of the user bring one more, not those that stand there in other words.
    Covers S1-55.
    """
    first = (claim("notes.txt contains the word done"), claim("a reason is given in the reply"))
    more = claim("the notes name the script")
    replies = story(
        works(*first, content="done\n"),
        decision("Anything else?", next_step="pending_user", question={"text": "Else?"}),
        done("With the script.", continues=True, requirements=[more, *first]),
        satisfaction=(judged(0.9, {"r1": 0.9, "r2": 0.9, "r3": 0.9}),),
        requirements=(found(more),),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn(LIST)
        assert wanted(s.state) == [str(one["requirement"]) for one in first]
        assert (await s.turn("and name the script")).outcome == "done"
        assert wanted(s.state) == [str(one["requirement"]) for one in (*first, more)]
        assert "the old notes are in archive/" in s.server.of("requirements")[0].text


LAST = {
    "continue with words": decision("It is written.", next_step="continue"),
    "pending": decision("It is written. Anything else?", next_step="pending_user"),
    "defer": decision("It is written.", next_step="defer"),
    "empty": decision("", next_step="continue"),
    "no": decision(
        "It is written.",
        next_step="done",
        goal_consistency={"ok": False, "reason": "I am not sure"},
    ),
    "text": Reply(text="It is written."),
    "nothing": Reply(text=""),
}


@pytest.mark.parametrize("last", LAST)
async def test_work_that_is_done_ends_reviewed_however_the_last_message_looks(
    last: str, tmp_path: Path
) -> None:
    """Covers S1-57."""
    replies = story(
        works(claim("the notes say done"), content="done\n"),
        *(LAST[last],) * 4,
        satisfaction=(judged(0.9),) * 3,
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        end = await s.turn("write the notes")
        assert (end.outcome, end.satisfaction) == ("done", 0.9)


@pytest.mark.parametrize("last", ["pending", "defer", "no"])
async def test_work_that_is_not_done_ends_as_the_last_message_says(
    last: str, tmp_path: Path
) -> None:
    """One judgement, and no further attempt: the model waits for the user."""
    replies = story(works(claim("the notes say done")), LAST[last], satisfaction=(judged(0.4),))
    async with session(tmp_path, replies, mode="trusted") as s:
        end = await s.turn("write the notes")
        assert (end.outcome, len(s.server.of("satisfaction"))) == ("partial", 1)
        assert (end.question is not None) is (last != "defer")


async def test_a_question_before_anything_changed_is_not_judged(tmp_path: Path) -> None:
    replies = story(
        decision("Which file?", next_step="pending_user", requirements=[claim("it is written")])
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        assert (await s.turn("write it")).outcome == "partial"
        assert s.server.of("satisfaction") == []
