"""Models with a window of a few thousand tokens, and servers that cut requests in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.session import Session, action, decision, done, script, session

from duckflow_tui.llm.tokens import estimate_tokens
from duckflow_tui.scripted.replies import Reply, Usage
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.usage import LlmCallFinished, PromptMeasured
from duckflow_tui.words.catalogue import Catalogue

LINES = 40
CODE = "".join(f"def part_{n}() -> int:\n    return {n}\n" for n in range(LINES // 2))


def read_and_edit(tmp_path: Path) -> tuple[Reply, ...]:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text(CODE)
    edits = [{"old": "return 19", "new": "return 190"}]
    return (
        decision("Look.", action("file_ops.read_file", path="a.py")),
        decision("Edit.", action("file_ops.edit_file", path="a.py", edits=edits)),
        done("part_19 returns 190."),
    )


def told(s: Session, key: str) -> list[NoticeMessage]:
    return [m for m in s.state.messages if isinstance(m, NoticeMessage) and m.key == key]


def counting(reply: Reply, tokens: int) -> Reply:
    return reply.model_copy(update={"usage": Usage(prompt=tokens, reply=20)})


@pytest.mark.parametrize("protocol", ["json", "tools"])
async def test_a_read_and_an_edit_work_in_4096_tokens(tmp_path: Path, protocol: Any) -> None:
    """The model sees the file whole, and each request leaves a tenth of the window for a reply."""
    replies = read_and_edit(tmp_path)
    async with session(
        tmp_path, script(*replies), protocol=protocol, window=4_096, mode="trusted"
    ) as s:
        end = await s.turn("let part_19 in a.py return 190")
        assert (end.outcome, end.llm_calls) == ("done", 4)
        assert "return 190" in (tmp_path / "work" / "a.py").read_text()
        requests = s.server.of("main")
        for request in requests:
            sent = {"messages": request.json["messages"], "tools": request.json.get("tools")}
            assert estimate_tokens(json.dumps(sent, ensure_ascii=False)) < 0.9 * 4_096
        assert CODE.strip() in requests[1].text
        assert not told(s, "turn.window_small")
        assert not told(s, "turn.window_cut")


async def test_a_small_window_is_told_less_and_a_large_one_all(tmp_path: Path) -> None:
    sizes: dict[int, int] = {}
    for window in (4_096, 8_192, 8_193, 0):
        folder = tmp_path / f"{window:04}"  # the request names the folder
        folder.mkdir()
        async with session(folder, script(done("Hi.")), window=window) as s:
            await s.turn("hello")
            (request,) = s.server.of("main")
            sizes[window] = estimate_tokens(request.json["messages"][0]["content"])
            small = 0 < window <= 8_192
            system = request.json["messages"][0]["content"]
            assert ("- file_ops.move_file(" in system) is not small
            assert ("plan_tool.propose" in system) is not small
            assert "- file_ops.edit_file(" in system
    assert sizes[4_096] == sizes[8_192] < 1_250 < sizes[8_193]
    assert sizes[8_193] == sizes[0]


async def test_what_does_not_fit_at_all_is_said_before_the_call(tmp_path: Path) -> None:
    async with session(tmp_path, script(done("Hi."), done("Hi.")), window=1_536) as s:
        await s.turn("hello")
        (notice,) = told(s, "turn.window_small")
        kinds = [m.kind for m in s.state.messages]
        assert kinds.index("notice") < kinds.index("assistant")
        assert notice.params["window"] == "1,536"
        await s.turn("hello again")
        assert len(told(s, "turn.window_small")) == 2
    for language in ("en", "ja"):
        words = str(Catalogue(language)(notice.key, **notice.params))
        assert "OLLAMA_CONTEXT_LENGTH" in words
        assert "--context" in words


@pytest.mark.parametrize("window", [0, 32_768])
async def test_a_server_that_cuts_in_silence_is_noticed(tmp_path: Path, window: int) -> None:
    """It counts 4,000 tokens of a request of twice as many; that is said once in a turn, and the
    estimates stay as they are.
    """
    text = "the words of a long message " * 1_000
    look = decision("Look.", action("file_ops.list_dir"))
    replies = [counting(r, 4_000) for r in (look, done("I do not know."))]
    async with session(tmp_path, script(*replies), window=window) as s:
        await s.turn(text)
        (notice,) = told(s, "turn.window_cut")
        assert notice.params["window"] == "4,000"
        assert int(notice.params["sent"].replace(",", "")) > 7_000
        first, second, *_ = (e.figures.tokens for e in s.events(PromptMeasured))
        assert second > first
        assert s.state.usage.context_window == window
    for language in ("en", "ja"):
        words = str(Catalogue(language)(notice.key, **notice.params))
        assert "OLLAMA_CONTEXT_LENGTH" in words
        assert "--context" in words


@pytest.mark.parametrize(("counted", "words"), [(4_096, 600), (8_192, 1_100)])
async def test_a_count_that_is_a_window_to_the_last_token_is_taken_for_one(
    tmp_path: Path, counted: int, words: int
) -> None:
    """Where a longer request counts the same: it is said, what follows fits, and a new process
    finds it anew. Once alone it may be chance, and nothing is learned of it.
    """
    text = "the words of a long message " * words
    look = decision("Look.", action("file_ops.list_dir"))
    full = counting(look, counted)
    replies = [full, full, counting(done("It is there."), 1_500)]
    async with session(tmp_path, script(*replies)) as s:
        await s.turn(text)
        assert told(s, "turn.window_cut")
        (notice,) = told(s, "llm.learned.window")
        assert notice.params["tokens"] == f"{counted:,}"
        first, second, third, *_ = (e.figures.tokens for e in s.events(PromptMeasured))
        assert third < counted < first < second
        assert s.state.usage.context_window == counted
        session_id = s.session_id
    again = script(full, counting(done("Yes."), counted))
    async with session(tmp_path, again, resume=session_id) as s:
        await s.turn(text)
        assert len(told(s, "turn.window_cut")) == len(told(s, "llm.learned.window")) == 2


@pytest.mark.parametrize("counted", [0, 1, 40])
async def test_a_count_that_no_text_can_have_is_not_believed(tmp_path: Path, counted: int) -> None:
    look = decision("Look.", action("file_ops.list_dir"))
    replies = [counting(r, counted) for r in (look, look, done("It is there."))]
    async with session(tmp_path, script(*replies)) as s:
        await s.turn("look at it")
        main = [c for c in s.state.requests if c.purpose == "main"]
        assert all(c.estimated for c in main)
        assert main[0].parts.total <= main[1].parts.total <= main[2].parts.total
        assert s.state.usage.tokens_in > 6_000
        assert not told(s, "turn.window_cut")


async def test_a_model_whose_tokens_are_longer_than_thought_is_no_cut(tmp_path: Path) -> None:
    """Tokenizers differ: the first count calibrates, and what follows fits it."""
    look = decision("Look.", action("file_ops.list_dir"))
    async with session(tmp_path, script(*[look] * 3, done("It is there."))) as s:
        await s.turn("look at it")
        assert not told(s, "turn.window_cut")
        counts = [e.call.tokens_in for e in s.events(LlmCallFinished) if e.call.purpose == "main"]
    folder = tmp_path / "again"
    folder.mkdir()
    lower = [int(0.7 * count) for count in counts]
    replies = [counting(r, n) for r, n in zip([look] * 3, lower, strict=False)]
    async with session(folder, script(*replies, counting(done("It is."), lower[3]))) as s:
        await s.turn("look at it")
        assert not told(s, "turn.window_cut")
