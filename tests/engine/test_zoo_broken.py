"""A reply that breaks in the middle: it is kept and said, and /retry does nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.session import Session, action, decision, done, script, session

from duckflow_tui.llm.service import BROKEN_RETRIED
from duckflow_tui.scripted.replies import Fault, Reply
from duckflow_tui.state.conversation import AssistantMessage, NoticeMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.words.catalogue import Catalogue

APPEND = action("file_ops.edit_file", path="a.py", edits=[{"old": "x = 1", "new": "x = 1\ny = 2"}])
LOG = action("shell.run", command="sh t.sh")
WORK = decision("I add y, and log it.", APPEND, LOG)


def cut(protocol: str) -> tuple[Reply, ...]:
    """A reply that breaks behind its first words, as often as it is asked for."""
    said = Reply(text="Now I look whether it works.", fault=Fault(cut_after=12))
    if protocol == "json":
        said = done(said.text).model_copy(update={"fault": Fault(cut_after=70)})
    return (said.model_copy(update={"chunk_size": 6}),) * (1 + BROKEN_RETRIED)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("x = 1\n")
    (tmp_path / "work" / "t.sh").write_text("echo ran >> log\n")
    return tmp_path


def opened(home: Path, protocol: Any, *replies: Reply) -> Any:
    return session(
        home,
        script(*replies),
        protocol=protocol,
        mode="trusted",
        headless=True,
        allow=("sh t.sh",),
    )


def stands(home: Path) -> tuple[str, str]:
    """What the file and the command's log hold."""
    work = home / "work"
    return (work / "a.py").read_text(), (work / "log").read_text()


ONCE = ("x = 1\ny = 2\n", "ran\n")


async def broken(s: Session) -> None:
    """The turn as it ended: its part of a reply kept, the sentence said."""
    end = await s.turn("add y = 2 to a.py and log it")
    assert end.outcome == "failed"
    (part,) = (m for m in s.state.messages if isinstance(m, AssistantMessage) and not m.complete)
    assert part.text
    assert "Now I look whether it works.".startswith(part.text)
    notice = next(m for m in s.state.messages if isinstance(m, NoticeMessage))
    words = Catalogue("en")(notice.key, **notice.params)
    assert "broke in the middle of the reply" in words
    assert "/retry continues" in words


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_retry_goes_on_from_what_is_done(home: Path, protocol: str) -> None:
    """The model is told what it had done, how far its words came, and that the work broke off."""
    async with opened(home, protocol, WORK, *cut(protocol), done("y is there.")) as s:
        await broken(s)
        assert stands(home) == ONCE
        assert await s.engine.retry()
        end = await s.ended(2)
        assert (end.outcome, end.reply) == ("done", "y is there.")
        told = s.server.of("main")[-1].text
        assert "What was done before stays done" in told
        assert "[cut off]" in told
        assert "sh t.sh" in s.server.of("main")[-1].raw.decode()
        assert stands(home) == ONCE


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_model_that_begins_anew_does_nothing_twice(home: Path, protocol: str) -> None:
    async with opened(home, protocol, WORK, *cut(protocol), WORK, done("y is there.")) as s:
        await broken(s)
        assert await s.engine.retry()
        assert (await s.ended(2)).outcome == "done"
        assert stands(home) == ONCE
        outcomes = [m.result.outcome for m in s.results()]
        assert outcomes == [Outcome.OK, Outcome.OK, Outcome.SKIPPED, Outcome.SKIPPED]
        assert "carried out before the work broke off" in s.server.of("main")[-1].text


@pytest.mark.parametrize("back", ["undo", "outside"])
async def test_a_change_that_was_taken_back_is_made_again(home: Path, back: str) -> None:
    """A retry skips an equal call only while the file holds what the call wrote."""
    write = decision("x is 2.", action("file_ops.write_file", path="a.py", content="x = 2\n"))
    file = home / "work" / "a.py"
    async with opened(home, "json", write, *cut("json"), write, done("x is 2.")) as s:
        assert (await s.turn("set x to 2")).outcome == "failed"
        if back == "undo":
            await s.engine.undo()
        else:
            file.write_text("x = 1\n")
        assert file.read_text() == "x = 1\n"
        assert await s.engine.retry()
        assert (await s.ended(2)).outcome == "done"
        assert file.read_text() == "x = 2\n"


async def test_two_changes_of_one_file_are_both_kept(home: Path) -> None:
    """The newest change of the file counts: an earlier one of the turn is not made twice."""
    lines = [{"old": "x = 1", "new": "x = 1\ny = 2"}], [{"old": "y = 2", "new": "y = 2\nz = 3"}]
    first, second = (action("file_ops.edit_file", path="a.py", edits=edits) for edits in lines)
    work = decision("I add y and z.", first, second)
    async with opened(home, "json", work, *cut("json"), work, done("Both are there.")) as s:
        assert (await s.turn("add y and z")).outcome == "failed"
        assert await s.engine.retry()
        assert (await s.ended(2)).outcome == "done"
        assert (home / "work" / "a.py").read_text() == "x = 1\ny = 2\nz = 3\n"


async def test_what_is_asked_for_once_more_runs(home: Path) -> None:
    """The same command behind a new change is meant, and so is one that is asked for again."""
    again = decision("Once more.", LOG)
    new = decision("Another.", action("file_ops.write_file", path="b.py", content="z = 3\n"))
    async with opened(home, "json", WORK, *cut("json"), again, again, done("Logged.")) as s:
        await broken(s)
        assert await s.engine.retry()
        await s.ended(2)
        assert stands(home) == (ONCE[0], "ran\nran\n")
        s.server.add("main", new, again, done("Both."))
        await s.turn("write b.py, then log it")
        assert stands(home) == (ONCE[0], "ran\nran\nran\n")


async def test_a_new_change_makes_the_command_a_new_one(home: Path) -> None:
    new = decision("Another.", action("file_ops.write_file", path="b.py", content="z = 3\n"), LOG)
    async with opened(home, "json", WORK, *cut("json"), new, done("Both.")) as s:
        await broken(s)
        assert await s.engine.retry()
        await s.ended(2)
        assert stands(home) == (ONCE[0], "ran\nran\n")


async def test_a_message_of_its_own_is_no_retry(home: Path) -> None:
    async with opened(
        home, "json", WORK, *cut("json"), decision("Again.", LOG), done("Done.")
    ) as s:
        await broken(s)
        await s.turn("log it once more")
        assert stands(home) == (ONCE[0], "ran\nran\n")
