"""An attempt is its own: what it did and what it taught, told to the next one, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.reviews import CHECK, NOTES, WORDS, judged, lacks, next_plan, story, works, write
from support.session import Session, action, decision, done, session

from duckflow_tui.state.goal import AttemptResult

LEARNED = "the file is read by a script"


def results(s: Session) -> tuple[AttemptResult, ...]:
    assert s.state.objective is not None
    return s.state.objective.attempts


async def test_log_errors_and_results_of_an_attempt_stay_in_it(tmp_path: Path) -> None:
    """Three attempts, each with a call and a fault of its own. Covers S1-48."""
    gone = [decision("", action("file_ops.read_file", path=f"gone{n}.txt")) for n in (1, 2, 3)]
    script = story(
        works(WORDS),
        gone[0],
        done("One."),
        gone[1],
        decision("", write("two\n", "two.txt")),
        done("Two."),
        gone[2],
        decision("", write("three\n", "three.txt")),
        done("Three."),
        satisfaction=(judged(0.4), judged(0.4), judged(0.9)),
        missing=(lacks("the reason"), lacks("the reason")),
        continuation=(next_plan("way 1"), next_plan("way 2")),
    )
    async with session(tmp_path, script, mode="trusted") as s:
        assert (await s.turn("write the notes")).outcome == "done"
        written = [
            [text.split()[1].rstrip(":") for text in attempt.results] for attempt in results(s)
        ]
        assert written == [["notes.txt"], ["two.txt"], ["three.txt"]]
        failed = [[error.operation for error in attempt.errors] for attempt in results(s)]
        assert failed == [[f"file_ops.read_file gone{n}.txt"] for n in (1, 2, 3)]
        assert s.state.objective is not None
        assert len(s.state.objective.accumulated_results) == 3
        first, second = s.server.of("continuation")
        for request, count in ((first, 1), (second, 1)):
            errors = request.text.partition("<errors>")[2].partition("</errors>")[0]
            assert errors.count("gone1.txt:") == count


async def test_what_the_user_runs_and_what_checks_run_is_no_part_of_an_attempt(
    tmp_path: Path,
) -> None:
    held = done("Done.").model_copy(update={"hold": "wait"})
    script = story(works(NOTES, content="done\n"), held)
    async with session(tmp_path, script, mode="trusted", allow=(CHECK,)) as s:
        await s.engine.send("write the notes")
        await s.server.reached("wait")
        await s.engine.run_command("echo by the user")
        await s.until(lambda _: any(m.by_user for m in s.results()))
        s.server.release("wait")
        assert (await s.ended()).outcome == "done"
        assert [(m.by_user, m.for_requirement) for m in s.results()] == [
            (False, ""),
            (True, ""),
            (False, "r1"),
        ]
        (attempt,) = results(s)
        assert [text.partition(":")[0] for text in attempt.results] == [
            "file_ops.write_file notes.txt"
        ]
        assert attempt.strategy == "create notes.txt +1 −0"


async def test_a_lesson_is_told_to_the_next_attempt_and_once(tmp_path: Path) -> None:
    """Though the model that judges says it again, in other letters. Covers S1-14, S1-30."""
    again = lacks("the reason", constraints=["The file is  read by a script.", "it is small"])
    special = {"prompt_pattern": "base_main_specialized"}
    look = action("file_ops.list_dir", path=".")
    script = story(
        works(WORDS),
        done("One."),
        decision("", look, **special),
        done("Two."),
        decision("", look, **special),
        done("Three."),
        satisfaction=(judged(0.4), judged(0.4), judged(0.9)),
        missing=(lacks("the reason"), again),
        continuation=(next_plan("way 1"), next_plan("way 2")),
    )
    async with session(tmp_path, script, mode="trusted") as s:
        await s.turn("write the notes")
        assert [a.lessons_learned for a in results(s)] == [(LEARNED,), ("it is small",), ()]
        told = s.server.of("main")[-1].text
        assert (told.count(LEARNED), told.count("it is small")) == (1, 1)
        assert s.server.of("main")[3].text.count(LEARNED) == 1  # with the layer of its phase


@pytest.mark.parametrize(
    "ban",
    [
        "Do not read a.py again.",
        "never list the folder",
        "Avoid searching for it",
        "a.py は読まない",
        "Reading files is forbidden",
        "No more reading of files!",
        "files must not be opened",
    ],
)
async def test_a_lesson_never_forbids_looking(tmp_path: Path, ban: str) -> None:
    """Covers S1-49."""
    script = story(
        works(WORDS),
        done("One."),
        done("Two."),
        satisfaction=(judged(0.4), judged(0.9)),
        missing=(lacks("the reason", constraints=[ban, LEARNED]),),
        continuation=(next_plan("way 1"),),
    )
    async with session(tmp_path, script, mode="trusted") as s:
        await s.turn("write the notes")
        assert results(s)[0].lessons_learned == (LEARNED,)
        sent = s.server.of("continuation")[0].text + s.server.of("main")[-1].text
        assert ban not in sent
        assert "looking, checking and mending are always allowed" in sent


async def test_a_strategy_is_what_was_done_and_not_what_the_model_thought(tmp_path: Path) -> None:
    """Reading and checks are no part of it: they are never to be avoided. Covers S1-49."""
    why = {"rationale": "I read a.py to see the cause"}
    script = story(
        decision("", action("file_ops.list_dir", path="."), requirements=[WORDS], **why),
        decision("", write("half\n"), **why),
        decision("", action("file_ops.read_file", path="notes.txt"), **why),
        done("One.", **why),
        done("Two."),
        satisfaction=(judged(0.4), judged(0.9)),
        missing=(lacks("the reason"),),
        continuation=(next_plan("way 1"),),
    )
    async with session(tmp_path, script, mode="trusted") as s:
        await s.turn("write the notes")
        assert [a.strategy for a in results(s)] == ["create notes.txt +1 −0", "way 1"]
        avoid = s.server.of("continuation")[0].text.partition("<avoid>")[2].partition("</avoid>")[0]
        assert avoid.strip() == "- create notes.txt +1 −0"


@pytest.mark.parametrize(
    ("calls", "strategy"),
    [((action("file_ops.list_dir", path="."),), "only looked"), ((), "answered without any call")],
)
async def test_an_attempt_that_changed_nothing_is_called_so(
    tmp_path: Path, calls: tuple[dict[str, Any], ...], strategy: str
) -> None:
    script = story(
        decision("One.", *calls, step="REVIEW", next_step="done", requirements=[WORDS]),
        *[done("One.") for _ in calls],
        done("Two."),
        satisfaction=(judged(0.4), judged(0.9)),
        missing=(lacks("the reason"),),
        continuation=(next_plan("way 1"),),
    )
    async with session(tmp_path, script, mode="trusted") as s:
        await s.turn("write the notes")
        assert results(s)[0].strategy.startswith(strategy)
