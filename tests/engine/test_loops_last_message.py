"""Lists of facts in a request, and work whose last message does not call it done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.reviews import claim, found, judged, lacks, works
from support.session import action, decision, done, script, session

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.goal import ReviewMessage
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import verdict_words

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
    replies = script(
        works(*first, content="done\n"),
        decision("Anything else?", next_step="pending_user", question={"text": "Else?"}),
        done("With the script.", continues=True, requirements=[more, *first]),
        satisfaction=judged(0.9, {"r1": 0.9, "r2": 0.9, "r3": 0.9}),
        requirements=found(more),
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
    "reasoning": Reply(reasoning="It is written."),
    "nothing": Reply(text=""),
}


@pytest.mark.parametrize("last", LAST)
async def test_work_that_is_done_ends_reviewed_however_the_last_message_looks(
    last: str, tmp_path: Path
) -> None:
    """Covers S1-57."""
    replies = script(
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
    replies = script(works(claim("the notes say done")), LAST[last], satisfaction=judged(0.4))
    async with session(tmp_path, replies, mode="trusted") as s:
        end = await s.turn("write the notes")
        assert (end.outcome, len(s.server.of("satisfaction"))) == ("partial", 1)
        assert (end.question is not None) is (last != "defer")


#: Nobody is there: what a model replies, its last reply over and over; outcome, requests
#: that it gets, and what is told or judged meanwhile.
QUESTION = {"text": "Which?", "options": ["a", "b"]}
ASKS = decision("", next_step="pending_user", question=QUESTION)
NOT_YET: dict[str, Any] = {"constraint_check": {"ok": False, "reason": "not verified yet"}}
CLAIMS: dict[str, Any] = {"requirements": [claim("x is 2")]}
READ = action("file_ops.read_file", path="a.py")
EDIT = action("file_ops.edit_file", path="a.py", edits=[{"old": "x = 1", "new": "x = 2"}])
OUTSIDE = action("file_ops.write_file", path="../x.py", content="x = 2\n")
WORKS, SAYS = decision("I do.", EDIT, **CLAIMS), done("x is 2.")
TALKS = decision("x is 2.", next_step="continue", **CLAIMS)
DOUBTS = decision("I do.", EDIT, **NOT_YET)
ALONE: dict[str, tuple[list[Reply], str, int, list[str]]] = {
    "asks": ([ASKS], "partial", 2, ["turn.nobody"]),
    "asks in words": (
        [decision("Shall I?", next_step="pending_user")], "partial", 2, ["turn.nobody"]
    ),
    "asks, then works": ([ASKS, WORKS, SAYS], "done", 3, ["turn.nobody", "Done: 1 of 1"]),
    "works, then asks": ([WORKS, ASKS], "done", 2, ["Done: 1 of 1"]),
    "doubts twice": ([DOUBTS, DOUBTS, WORKS, SAYS], "done", 4, ["turn.nobody", "Done: 1 of 1"]),
    "doubts": ([DOUBTS], "limit", 3, ["turn.nobody", "consulting.nobody.confusion"]),
    "claims": ([done("x is 2.", **CLAIMS)], "partial", 2, ["Not done yet", "Not met: 0 of 1"]),
    "talks": ([TALKS], "partial", 2, ["consulting.nobody.confusion"]),
    "leaves it to the user": (
        [decision("May I?", READ, EDIT, step="AWAITING_APPROVAL"), SAYS], "done", 2,
        ["Done: 1 of 1"],
    ),
    "is denied": (
        [decision("I do.", OUTSIDE, **CLAIMS), SAYS], "denied", 2,
        ["Not met: 0 of 1 · x is 2", "judging.halted"],
    ),
    "is denied in part": (
        [decision("I do.", EDIT, OUTSIDE, **CLAIMS), SAYS], "denied", 2,
        ["Done: 1 of 1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("temper", ALONE)
async def test_without_a_screen_a_model_is_told_once_what_it_has_to_decide_itself(
    tmp_path: Path, temper: str
) -> None:
    """What is allowed runs, and right work is called done; a turn in which a call was not allowed
    ends so, and the judge is told of the call.
    """
    replies, outcome, calls, told = ALONE[temper]
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.py").write_text("x = 1\n")
    judge = judged(0.2) if temper == "claims" else judged(0.9)
    replies = [*replies[:-1], replies[-1].model_copy(update={"repeat": True})]
    served = script(*replies, satisfaction=(judge,) * 3, missing=lacks("the edit"))
    async with session(tmp_path, served, mode="trusted", headless=True) as s:
        end = await s.turn("set x to 2")
        assert (end.outcome, len(s.server.of("main"))) == (outcome, calls)
        assert (end.question is not None) is (temper in ("asks", "asks in words"))
        told_judge = [request.text for request in s.server.of("satisfaction")]
        assert all("was not allowed" in text for text in told_judge if outcome == "denied")
        said = [
            verdict_words(m.review, Catalogue("en")) if isinstance(m, ReviewMessage) else m.key
            for m in s.state.messages
            if isinstance(m, ReviewMessage | NoticeMessage)
        ]
        kinds = ("turn.nobody", "consulting.", "judging.halted", "Done", "Not", "Partly")
        shown = [words for words in said if words.startswith(kinds)]
        starts = [words[: len(start)] for words, start in zip(shown, told, strict=False)]
        assert (starts, len(shown)) == (told, len(told)), shown


async def test_a_question_before_anything_changed_is_not_judged(tmp_path: Path) -> None:
    replies = script(
        decision("Which file?", next_step="pending_user", requirements=[claim("it is written")])
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        assert (await s.turn("write it")).outcome == "partial"
        assert s.server.of("satisfaction") == []
