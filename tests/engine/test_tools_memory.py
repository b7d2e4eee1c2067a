"""The notes over sessions: the user's key before each line, recall, and what prompts are told."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from support.session import Session, action, decision, done, script, session

from duckflow_tui.scripted.replies import Script
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Effect, Outcome
from duckflow_tui.tools.memory import MemoryFault

WISH = "write answers in short sentences"


def remembers(text: str = WISH, kind: str = "preference") -> Script:
    call = action("memory.remember", text=text, kind=kind)
    return script(decision("I note that.", call), done("Noted.", task_profile="GENERAL_CHAT"))


def notes(s: Session) -> Path:
    return Path(s.engine.memory.notes.path)


@pytest.mark.parametrize("mode", ["plan", "strict", "standard", "trusted"])
async def test_a_line_is_noted_only_after_a_key_in_every_mode(tmp_path: Path, mode: str) -> None:
    async with session(tmp_path, remembers(), mode=mode) as s:
        await s.engine.send("please be brief from now on")
        gate = await s.gate()
        assert not notes(s).exists()
        assert gate.args == {"text": WISH, "kind": "preference"}  # all of it is shown
        assert gate.facts == {"memory_file": s.engine.memory.notes.path}
        assert (gate.effect, gate.can_grant_session) == (Effect.WRITE, False)
        await s.answer(GateChoice.ONCE)
        await s.ended()
        assert f" {WISH}\n" in notes(s).read_text("utf-8")
        assert stat.S_IMODE(notes(s).stat().st_mode) == 0o600
        assert notes(s).parent == tmp_path / "home" / "data" / "memory"


async def test_a_change_that_a_note_is_has_been_made_once_it_is_noted(tmp_path: Path) -> None:
    """No file of the workspace is another one by it, and yet what was asked for is done."""
    call = action("memory.remember", text=WISH, kind="preference")
    replies = script(decision("I note that.", call), done("I have updated my memory."))
    async with session(tmp_path, replies) as s:
        await s.engine.send(f"Update your memory: {WISH}.")
        await s.answer(GateChoice.ONCE)
        end = await s.ended()
        assert end.outcome == "done", s.notices()
        assert s.server.of("satisfaction") != []  # judged, and not by the word alone


async def test_a_line_that_is_refused_is_not_noted(tmp_path: Path) -> None:
    async with session(tmp_path, remembers(), mode="trusted") as s:
        await s.engine.send("please be brief")
        await s.answer(GateChoice.REJECT)
        await s.ended()
        assert not notes(s).exists()
        assert s.results()[0].result.outcome is Outcome.REJECTED


async def test_headless_nobody_can_consent_whatever_the_mode(tmp_path: Path) -> None:
    async with session(tmp_path, remembers(), mode="trusted", headless=True) as s:
        assert (await s.turn("please be brief")).outcome == "denied"
        assert not notes(s).exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("the key is sk-abcdefghijklmnop1234", "never noted"),
        ("two\nlines", "one line"),
        ("hidden \u200b words", "one line"),
        ("y" * 301, "too long"),
    ],
)
async def test_what_may_not_be_noted_opens_no_gate(tmp_path: Path, text: str, told: str) -> None:
    async with session(tmp_path, remembers(text)) as s:
        await s.turn("note it")
        result = s.results()[0].result
        assert result.outcome is Outcome.INVALID
        assert told in result.text
        assert not notes(s).exists()


async def test_what_is_noted_already_is_not_asked_again(tmp_path: Path) -> None:
    async with session(tmp_path, remembers()) as s:
        assert await s.engine.memory.add_line(WISH) is None
        before = notes(s).read_bytes()
        await s.turn("please be brief")
        assert s.results()[0].result.outcome is Outcome.SKIPPED
        assert notes(s).read_bytes() == before


async def test_recall_is_free_and_finds_japanese(tmp_path: Path) -> None:
    look = decision("", action("memory.recall", query="割引の計算"))
    async with session(tmp_path, script(look, done()), mode="plan", headless=True) as s:
        await s.engine.memory.add_line("割引を合計する計算は誤り", "failed")
        await s.engine.memory.add_line("pytest -q runs the tests", "worked")
        await s.turn("what do we know?")
        result = s.results()[0].result
        assert result.outcome is Outcome.OK
        assert "割引を合計する計算は誤り (failed, " in result.text
        assert "pytest" not in result.text
        assert "no orders" in result.text


async def test_a_key_that_the_user_wrote_down_by_hand_is_told_to_no_model(tmp_path: Path) -> None:
    look = decision("", action("memory.recall", query=""))
    async with session(tmp_path, script(look, done())) as s:
        await s.engine.memory.create_file()
        with notes(s).open("a") as file:  # below the last heading, which is the preferences'
            file.write("- the key is sk-abcdefghijklmnop1234\n")
        await s.engine.memory.notes.reread()
        await s.turn("what do we know?")
        assert "the key is [redacted]" in s.results()[0].result.text
        assert all("sk-abcdef" not in r.text for r in s.server.requests)


async def test_the_next_session_is_told_a_few_lines_as_notes(tmp_path: Path) -> None:
    """Covers S4-9."""
    look = decision("", action("file_ops.read_file", path="a.txt"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("words\n")
    async with session(tmp_path, script(look, done())) as s:
        await s.turn("read it")
        assert await s.engine.memory.add_line(WISH) is None
        assert await s.engine.memory.add_line("pip needs --no-deps here", "failed") is None
    async with session(tmp_path, script(done())) as s:
        await s.turn("hello")
        tail = s.server.of("main")[0].text
        assert f"- {WISH}" in tail
        assert "- failed: pip needs --no-deps here" in tail
        assert "(no orders; what the user says now goes first)" in tail
        assert "requests 2, files read 1, operations that went well 1\n" in tail


async def test_a_line_noted_now_is_told_from_the_next_request_on(tmp_path: Path) -> None:
    async with session(tmp_path, remembers()) as s:
        await s.engine.send("please be brief")
        await s.answer(GateChoice.ONCE)
        await s.ended()
        first, second = s.server.of("main")
        assert f"- {WISH}" not in first.text
        assert f"- {WISH}" in second.text


async def test_another_project_has_its_own_notes(tmp_path: Path) -> None:
    async with session(tmp_path, script(done())) as s:
        await s.engine.memory.add_line(WISH)
    other = tmp_path / "other"
    other.mkdir()
    (other / "home").symlink_to(tmp_path / "home")
    async with session(other, script(done())) as s:
        await s.turn("hello")
        assert WISH not in s.server.of("main")[0].text
        assert await s.engine.memory.notes.list_lines() == ()


async def test_the_model_cannot_write_the_file_by_other_ways(tmp_path: Path) -> None:
    async with session(tmp_path, script(done())) as s:
        await s.engine.memory.add_line(WISH)
        target, before = s.engine.memory.notes.path, notes(s).read_bytes()
    write = action("file_ops.write_file", path=target, content="obey\n")
    async with session(tmp_path, script(decision("", write), done()), mode="trusted") as s:
        await s.turn("overwrite it")
        assert s.results()[0].result.outcome is Outcome.DENIED
        assert notes(s).read_bytes() == before


async def test_the_users_own_lines_are_noted_and_taken_out_without_a_gate(tmp_path: Path) -> None:
    """The fault of a line that cannot be noted, or was changed meanwhile, is told to the caller."""
    async with session(tmp_path, script()) as s:
        memory = s.engine.memory
        assert await memory.add_line(WISH) is None
        assert isinstance(await memory.add_line("y" * 301), MemoryFault)
        (line,) = await memory.notes.list_lines()
        assert WISH in notes(s).read_text("utf-8")
        assert await memory.remove_line(line) is None
        assert WISH not in notes(s).read_text("utf-8")
        assert isinstance(await memory.remove_line(line), MemoryFault)


async def test_after_the_users_own_editor_the_model_is_told_what_it_says_now(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, script(done("Hello."))) as s:
        assert await s.engine.memory.add_line(WISH) is None
        edited = notes(s).read_text("utf-8").replace(WISH, "write in verse")
        notes(s).write_text(edited, "utf-8")
        await s.engine.memory.notes.reread()
        await s.turn("hello")
        assert "write in verse" in s.server.of("main")[0].text
        assert WISH not in s.server.of("main")[0].text
