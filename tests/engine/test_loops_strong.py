"""The strong model, and only there."""

from __future__ import annotations

from pathlib import Path

from support.session import Session, action, decision, done, script, session

from duckflow_tui.state.usage import LlmCallFinished

STRONG = {"strong": "cli/big"}
READ = action("file_ops.read_file", path="a.txt")
ASKED = [{"requirement": "it works", "priority": 1, "check": {"kind": "judgement", "value": ""}}]
WAITS = decision("Which one?", next_step="pending_user")


def models(s: Session) -> list[str]:
    return [r.json["model"] for r in s.server.of("main")]


def workspace(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("words\n")


async def test_a_request_that_turns_out_to_be_hard_goes_on_with_the_strong_model(
    tmp_path: Path,
) -> None:
    """Covers S1-43."""
    workspace(tmp_path)
    first = decision("I look.", READ, task_profile="DEBUGGING", requirements=ASKED)
    ends = WAITS
    async with session(tmp_path, script(first, ends), roles=STRONG) as s:
        await s.turn("a.txt, please")
        assert models(s) == ["scripted", "big"]
        calls = [(e.call.role, e.call.model) for e in s.events(LlmCallFinished)]
        assert calls[:2] == [("main", "scripted"), ("strong", "big")]


async def test_small_talk_stays_with_the_main_model(tmp_path: Path) -> None:
    replies = script(done("Hello.", task_profile="GENERAL_CHAT"))
    async with session(tmp_path, replies, roles=STRONG) as s:
        await s.turn("hello")
        assert models(s) == ["scripted"]


async def test_a_request_that_touches_much_is_hard_and_talk_never_is(tmp_path: Path) -> None:
    """Covers S0-60."""
    environ = {"DUCKFLOW_PACEMAKER__HARD_FROM": "0.3"}
    workspace(tmp_path)
    names = [f"f{number}.txt" for number in range(12)]
    for name in names:
        (tmp_path / "work" / name).write_text("x\n")
    reads = [action("file_ops.read_file", path=name) for name in names]
    first = decision("I look.", *reads, task_profile="FILE_OPERATION", requirements=ASKED)
    hello = done("Hello.", task_profile="GENERAL_CHAT")
    replies = script(first, done("None of them has to change."), hello)
    async with session(tmp_path, replies, roles=STRONG, environ=environ) as s:
        await s.turn("change all of the files")
        asked = models(s)
        assert asked[:2] == ["scripted", "big"]
        await s.turn("hello")
        assert models(s)[len(asked) :] == ["scripted"]


async def test_without_a_strong_model_one_model_does_it_all(tmp_path: Path) -> None:
    workspace(tmp_path)
    first = decision("I look.", READ, task_profile="DEBUGGING", requirements=ASKED)
    async with session(tmp_path, script(first, WAITS)) as s:
        await s.turn("Find the bug: the test fails")
        assert models(s) == ["scripted", "scripted"]
        assert {e.call.role for e in s.events(LlmCallFinished)} == {"main"}


async def test_the_strong_model_is_sent_as_much_as_its_own_window_holds(tmp_path: Path) -> None:
    """Covers S1-43."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one word after the other\n" * 2_000)
    first = decision("I look.", READ, task_profile="DEBUGGING", requirements=ASKED)
    sizes: list[int] = []
    for window in (100_000, 8_000):
        roles = {"strong": "own/big"}
        async with session(tmp_path, script(first, WAITS), roles=roles, own_window=window) as s:
            await s.turn("a.txt, please")
            assert models(s) == ["scripted", "big"]
            sizes.append(len(s.server.of("main")[1].text))
    assert sizes[1] < 0.6 * sizes[0]
