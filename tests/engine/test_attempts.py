"""An attempt is its own: what it did and what it taught, told to the next one, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.reviews import CHECK, NOTES, WORDS, judged, lacks, works, write
from support.session import Session, action, decision, done, script, session

from duckflow_tui.state.goal import AttemptResult

LEARNED = "the file is read by a script"


def results(s: Session) -> tuple[AttemptResult, ...]:
    return s.objective.attempts


async def test_log_errors_and_results_of_an_attempt_stay_in_it(tmp_path: Path) -> None:
    """Three attempts, each with a call and a fault of its own. Covers S1-48."""
    gone = [decision("", action("file_ops.read_file", path=f"gone{n}.txt")) for n in (1, 2, 3)]
    replies = script(
        works(WORDS),
        gone[0],
        done("One."),
        gone[1],
        decision("", write("two\n", "two.txt")),
        done("Two."),
        gone[2],
        decision("", write("three\n", "three.txt")),
        done("Three."),
        satisfaction=(judged(0.4), judged(0.5), judged(0.9)),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        assert (await s.turn("write the notes")).outcome == "done"
        written = [
            [text.split()[1].rstrip(":") for text in attempt.results] for attempt in results(s)
        ]
        assert written == [["notes.txt"], ["two.txt"], ["three.txt"]]
        failed = [[error.operation for error in attempt.errors] for attempt in results(s)]
        assert failed == [[f"file_ops.read_file gone{n}.txt"] for n in (1, 2, 3)]
        assert len(s.objective.accumulated_results) == 3


async def test_what_the_user_runs_and_what_checks_run_is_no_part_of_an_attempt(
    tmp_path: Path,
) -> None:
    held = done("Done.").model_copy(update={"hold": "wait"})
    replies = script(works(NOTES, content="done\n"), held)
    async with session(tmp_path, replies, mode="trusted", allow=(CHECK,)) as s:
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


UNNAMED: dict[str, Any] = {"missing_aspects": []}


async def test_what_is_missing_is_asked_for_only_where_the_judge_names_nothing(
    tmp_path: Path,
) -> None:
    replies = script(
        works(WORDS),
        done("One."),
        done("Two."),
        done("Three."),
        satisfaction=(judged(0.3), judged(0.4, **UNNAMED), judged(0.9)),
        missing=lacks("the second reason"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        assert (await s.turn("write the notes")).outcome == "done"
        assert [len(s.server.of(p)) for p in ("missing", "continuation")] == [1, 0]
        told = [request.text for request in s.server.of("main")]
        assert "P1 the reason" in told[2]
        assert "P1 the second reason" in told[3]
        assert "+half" in told[2]  # the files as they differ now
        assert LEARNED in told[3]
        assert not any("Avoid" in text or "not enough by itself" in text for text in told)


async def test_after_the_last_attempt_nothing_is_asked_but_the_user(tmp_path: Path) -> None:
    replies = script(
        works(WORDS),
        *(done(f"{n}.") for n in ("One", "Two", "Three")),
        satisfaction=(judged(0.2), judged(0.3), judged(0.4, **UNNAMED)),
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        assert (await s.turn("write the notes")).outcome == "partial"
        assert [len(s.server.of(p)) for p in ("satisfaction", "missing", "continuation")] == [
            3,
            0,
            0,
        ]


async def test_two_attempts_that_miss_the_same_end_in_the_report(tmp_path: Path) -> None:
    replies = script(
        works(WORDS), done("One."), done("Two."), done("Three."), satisfaction=(judged(0.4),) * 3
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        end = await s.turn("write the notes")
        assert (end.outcome, len(s.server.of("satisfaction"))) == ("partial", 2)
        assert "judging.unasked" in s.notices()


async def test_where_nothing_concrete_is_missing_no_attempt_begins(tmp_path: Path) -> None:
    empty = lacks()
    replies = script(
        works(WORDS),
        done("One."),
        satisfaction=judged(0.6, verdict="fix", **UNNAMED),
        missing=empty,
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        end = await s.turn("write the notes")
        assert (end.outcome, len(s.server.of("main"))) == ("partial", 2)


@pytest.mark.parametrize(
    ("calls", "strategy"),
    [
        ((action("file_ops.list_dir", path="."),), "only looked"),
        ((write("x\n"),), "create notes.txt"),
    ],
)
async def test_an_attempt_is_told_by_what_it_did(
    tmp_path: Path, calls: tuple[dict[str, Any], ...], strategy: str
) -> None:
    replies = script(
        decision("One.", *calls, requirements=[WORDS]),
        done("One."),
        done("Two."),
        satisfaction=(judged(0.4), judged(0.9)),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        assert results(s)[0].strategy.startswith(strategy)
        assert s.objective.attempted_strategies == ()  # nothing of it is to be avoided
