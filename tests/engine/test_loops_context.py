"""The window of the model, read off the requests that the endpoint got: what travels, what is
compacted, what is told of it.
"""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from support.session import Session, action, before_note, decision, done, note_of, script, session

from duckflow_tui.llm.tokens import estimate_tokens
from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Fault, Reply, Script
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.decision import Check
from duckflow_tui.state.memory import Compaction, CompactionMessage
from duckflow_tui.state.usage import PromptMeasured
from duckflow_tui.work.requests import KEPT

GOAL = "Keep the totals right"
WISH = "The receipt shows every discount"
DIGEST = Reply(data={"digest": "The parser of lists was mended; cap stays."}, repeat=True)
LONG = "one two three four " * 250  # about 1,200 tokens


def answer(number: int, text: str = LONG) -> Reply:
    """An answer that leaves the request open, so that goal and requirements go on."""
    said = decision(
        f"Answer {number}. {text}",
        next_step="pending_user",
        step="PLANNING",
        state_delta={"goal": GOAL, "constraints": ["no new packages"]} if number == 0 else {},
    )
    return said.model_copy(update={"chunk_size": 1_000})  # or it comes in 200 pieces


def talk(turns: int, text: str = LONG, **others: tuple[Reply, ...]) -> Script:
    nothing = Reply(data={"requirements": []}, repeat=True)  # that a message adds to the request
    replies = {"main": tuple(answer(n, text) for n in range(turns)), "requirements": (nothing,)}
    replies |= others
    return Script(replies=replies)


async def hold(s: Session, turns: int, first: int = 0) -> None:
    """So many turns; the user's own requirement is there from the second on."""
    for number in range(first, first + turns):
        assert (await s.turn(f"question {number} of many")).outcome == "partial"
        if number == 0:
            assert (
                s.engine.ledger.add_requirement(WISH, 1, Check(kind="judgement", value="")) is None
            )


def read(number: int) -> Reply:
    return decision(f"Read {number}.", action("file_ops.read_file", path=f"f{number}.txt"))


def whole(request: Request) -> str:
    return json.dumps(request.json, ensure_ascii=False)


def shown(s: Session) -> list[Compaction]:
    """The cards in the conversation."""
    return [m.compaction for m in s.state.messages if isinstance(m, CompactionMessage)]


# --- a conversation past the window -------------------------------------------------------------


async def test_a_conversation_past_the_window_goes_on_and_keeps_what_is_pinned(
    tmp_path: Path,
) -> None:
    """Covers C23: goal, requirements and constraints are in every request, a digest stands for
    what no longer travels, and what was dropped is said.
    """
    async with session(tmp_path, talk(16, digest=(DIGEST,)), window=24_000) as s:
        await hold(s, 16)
        requests = s.server.of("main")
        assert len(requests) == 16
        for request in requests[1:]:
            assert GOAL in request.text
            assert WISH in request.text
            assert "no new packages" in request.text
        for request in requests:
            assert estimate_tokens(whole(request)) < 24_000
        cards = shown(s)
        assert cards
        assert cards == list(s.state.compactions)
        assert all(card.by == "auto" and card.digest for card in cards)
        assert cards[0].kept.goal == GOAL
        assert cards[0].kept.requirements == (WISH,)
        assert cards[0].exchanges == cards[0].messages // 2 > 0
        assert cards[0].tokens_after < cards[0].tokens_before
        last = requests[-1]
        assert last.text.count("The parser of lists was mended") == 1
        assert f"Answer 0. {LONG}" not in last.text
        assert "question 15 of many" in last.text


async def test_the_digest_is_made_of_what_goes_and_of_the_digest_before(tmp_path: Path) -> None:
    first = Reply(data={"digest": "DIGEST ONE"})
    second = Reply(data={"digest": "DIGEST TWO"}, repeat=True)
    async with session(tmp_path, talk(20, digest=(first, second)), window=24_000) as s:
        await hold(s, 20)
        assert len(s.state.compactions) >= 2
        asked = [request.text for request in s.server.of("digest")]
        assert "question 0 of many" in asked[0]
        assert "Answer 0." in asked[0]
        assert "DIGEST ONE" in asked[1]
        assert "Answer 0. one" not in asked[1]
        assert "DIGEST TWO" in s.server.of("main")[-1].text
        assert "DIGEST ONE" not in s.server.of("main")[-1].text


async def test_without_a_digest_a_line_of_each_exchange_stays_and_the_card_says_why(
    tmp_path: Path,
) -> None:
    broken = Reply(fault=Fault(status=400, message="no"), repeat=True)
    async with session(tmp_path, talk(14, digest=(broken,)), window=24_000) as s:
        await hold(s, 14)
        card = shown(s)[0]
        assert card.digest == ""
        assert card.failure
        assert card.kept.goal == GOAL
        last = s.server.of("main")[-1]
        assert WISH in last.text
        assert f"Answer 1. {LONG}" not in last.text
        assert "- question 1 of many → Answer 1. one two" in last.text


async def test_a_small_window_never_gets_a_digest_call_that_overflows(tmp_path: Path) -> None:
    """Many short calls instead of one that an 8k model would refuse."""
    text = "日本語の長い返答です。" * 60
    async with session(tmp_path, talk(10, text, digest=(DIGEST,)), window=10_000) as s:
        await hold(s, 10)
        digests = s.server.of("digest")
        assert digests
        assert all(estimate_tokens(whole(request)) < 5_000 for request in digests)
        assert all(WISH in request.text for request in s.server.of("main")[1:])
        assert s.state.compactions[-1].digest


async def test_a_turn_that_outgrows_the_window_is_compacted_at_a_decision(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for n in range(7):
        (tmp_path / "work" / f"f{n}.txt").write_text(f"file {n}\n" + "a line of words\n" * 400)
    reads = [
        decision(f"Read {n}. {LONG}", action("file_ops.read_file", path=f"f{n}.txt"))
        for n in range(7)
    ]  # more is said than read
    replies = script(*reads, answer(0, "All read."), digest=DIGEST)
    async with session(tmp_path, replies, window=18_000) as s:
        assert (await s.turn("read them all")).outcome == "partial"
        card = shown(s)[0]
        assert card.by == "auto"
        assert card.results > 0
        requests = s.server.of("main")
        assert all("read them all" in request.text for request in requests)
        assert all(estimate_tokens(whole(request)) < 18_000 for request in requests)
        assert "The parser of lists was mended" in requests[-1].text


SOURCE = "".join(f"def part_{n}(value: int) -> int:\n    return value + {n}\n" for n in range(20))


def edit(number: int) -> Reply:
    old, new = f"value + {number}\n", f"value * {number}\n"
    edits = [{"old": old, "new": new}]
    return decision(f"Edit {number}.", action("file_ops.edit_file", path="a.py", edits=edits))


@pytest.mark.parametrize("protocol", ["json", "tools"])
async def test_results_read_longest_ago_leave_before_anything_is_digested(
    tmp_path: Path, protocol: Any
) -> None:
    """32 decisions in 16,000 tokens: the file that is edited stands in every request as it is then,
    one digest is made in place of three, nothing exceeds the window, and the begin of a request
    is seldom another than that of the one before. Covers C23.
    """
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text(SOURCE)
    for n in range(24):
        (tmp_path / "work" / f"f{n}.txt").write_text(f"file {n}\n" + "some words, a line\n" * 160)
    look = decision("Look.", action("file_ops.read_file", path="a.py"))
    replies, sources, now = [look], ["", SOURCE], SOURCE
    for n in range(24):
        replies.append(read(n))
        sources.append(now)
        if n % 4 == 3:
            replies.append(edit(n % 20))
            now = now.replace(f"value + {n % 20}\n", f"value * {n % 20}\n")
            sources.append(now)
    replies.append(done("All is done."))
    asked = script(*tuple(replies), digest=DIGEST)
    async with session(
        tmp_path, asked, protocol=protocol, window=16_000, mode="trusted",
        environ={"DUCKFLOW_PACEMAKER__MIN": "40"},
    ) as s:  # fmt: skip
        end = await s.turn("look at a.py and at the files, and make the parts multiply")
        requests = s.server.of("main")
        assert (end.outcome, len(requests)) == ("done", len(replies))
        assert (tmp_path / "work" / "a.py").read_text() == now
        assert len(s.state.compactions) == 1
        moved = 0
        for number, (request, source) in enumerate(zip(requests, sources, strict=False)):
            assert estimate_tokens(whole(request)) < 16_000
            assert "look at a.py" in request.text
            shortened = "left out by the app to save room" in whole(request)
            shortened = shortened or "The parser of lists was mended" in request.text
            if number:
                assert (source if shortened else SOURCE) in request.text
                old = before_note(requests[number - 1])
                old = [m for m in old if "files in hand" not in m["content"]]
                moved += before_note(request)[: len(old)] != old
        # The schemas of native calls are counted a fifth higher than thought: less room is left.
        assert 3 <= moved <= (4 if protocol == "json" else 5)


async def test_nothing_is_compacted_while_there_is_room(tmp_path: Path) -> None:
    async with session(tmp_path, talk(6, digest=(DIGEST,)), window=128_000) as s:
        await hold(s, 6)
        assert s.state.compactions == ()
        assert s.server.of("digest") == []
        assert "question 0 of many" in s.server.of("main")[-1].text


async def test_a_stop_while_it_is_digested_leaves_the_conversation_whole(tmp_path: Path) -> None:
    held = Reply(data={"digest": "late"}, hold="digest")
    async with session(tmp_path, talk(20, digest=(held,)), window=24_000) as s:
        number = 0
        while not s.server.of("digest"):
            await s.engine.send(f"question {number} of many")
            number += 1
            await s.until(lambda state, n=number: len(state.turns) >= n or "digest" in _live(state))
            if "digest" in _live(s.state):
                break
        await s.server.reached("digest")
        s.engine.stop()
        await s.until(lambda state: state.turn is None)
        assert s.state.compactions == ()
        assert shown(s) == []


def _live(state: Any) -> set[str]:
    return {reply.purpose for reply in state.live.values()}


# --- within a turn ------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["json", "tools"])
async def test_nine_tenths_of_a_request_are_the_one_before_from_20_000_tokens_on(
    tmp_path: Path, protocol: Any
) -> None:
    (tmp_path / "work").mkdir()
    for n in range(26):
        (tmp_path / "work" / f"f{n}.txt").write_text(f"file {n}\n" + "some words, a line\n" * 220)
    reads = [read(n) for n in range(26)]
    async with session(
        tmp_path, script(*reads, done()), protocol=protocol, window=128_000,
        environ={"DUCKFLOW_PACEMAKER__MIN": "20"},
    ) as s:  # fmt: skip
        await s.engine.send("read them")
        await s.until(
            lambda state: len(s.server.of("main")) > 20 or bool(state.turns or state.cards)
        )
        requests = s.server.of("main")
        large = 0
        for earlier, later in pairwise(requests):
            old, new = before_note(earlier), before_note(later)
            assert new[: len(old)] == old
            if estimate_tokens(whole(later)) >= 20_000:
                large += 1
                same = len(json.dumps(old, ensure_ascii=False))
                assert same >= 0.9 * len(json.dumps(new, ensure_ascii=False))
        assert large >= 2
        shares = [r.shared_part for r in s.state.requests if r.purpose == "main"]
        assert shares[0] == 0.0
        assert min(shares[1:]) > 0.6
        s.engine.stop()
        await s.until(lambda state: state.turn is None)


# --- what each request is made of ---------------------------------------------------------------


async def test_tokens_are_estimates_until_the_endpoint_counted(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("words of the file\n" * 40)
    read = decision("Look.", action("file_ops.read_file", path="a.txt"))
    run = decision("List.", action("file_ops.list_dir", path="."))
    async with session(tmp_path, script(read, run, done()), window=64_000) as s:
        await s.turn("look at it")
        asked = [e.figures for e in s.events(PromptMeasured)]
        assert [f.purpose for f in asked] == ["main", "main", "main", "satisfaction"]
        assert all(f.estimated for f in asked)
        measured = asked[:3]
        assert all(f.tokens > 0 and f.window == 64_000 for f in measured)
        counted = s.state.requests[:3]
        assert [f.llm_id for f in counted] == [f.llm_id for f in measured]
        assert not any(f.estimated for f in counted)
        assert s.state.usage.last_context == counted[-1].tokens
        assert not s.state.usage.estimated
        assert measured[0].parts.files == 0 < measured[1].parts.files < measured[2].parts.files
        assert all(f.parts.base and f.parts.operations and f.parts.chat for f in measured)
        assert measured[0].shared == 0
        assert 0.8 < measured[1].shared_part <= measured[2].shared_part < 1.0


async def test_an_endpoint_that_counts_nothing_leaves_the_estimate(tmp_path: Path) -> None:
    silent = done().model_copy(update={"send_usage": False})
    async with session(tmp_path, script(silent)) as s:
        await s.turn("hello")
        assert all(f.estimated for f in s.state.requests)
        assert s.state.usage.estimated


async def test_what_was_sent_can_be_read_part_by_part_without_keys(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("token sk-abcdefghijklmnop1234 in it\n")
    read = decision("Look.", action("file_ops.read_file", path="a.txt"))
    async with session(tmp_path, script(read, done()), protocol="tools") as s:
        await s.turn("look at it")
        newest = next(f for f in reversed(s.state.requests) if f.purpose == "main")
        parts = s.engine.context.list_sent_parts(newest.llm_id)
        assert parts is not None
        kinds = [part.part for part in parts]
        assert [kinds[0], kinds[-1]] == ["base", "tail"]
        assert {"operations", "project", "chat", "files"} <= set(kinds)
        (file,) = (part for part in parts if part.part == "files")
        assert file.name == "file_ops.read_file"
        assert "[redacted] in it" in file.text
        assert "sk-abcdefghijklmnop1234" not in s.server.of("main")[-1].text
        sent = s.server.of("main")[-1].json["messages"]
        assert parts[-1].text == sent[-1]["content"]
        assert s.engine.context.list_sent_parts("llm_0") is None


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_question_is_listed_with_the_parts_that_were_sent(
    tmp_path: Path, protocol: Literal["tools", "json"]
) -> None:
    """The reply format is one of them, also where the endpoint counted the whole."""
    (tmp_path / "work").mkdir()
    write = action("file_ops.write_file", path="a.txt", content="x\n")
    replies = script(decision("I write.", write, task_profile="FILE_OPERATION"), done())
    async with session(tmp_path, replies, protocol=protocol, mode="trusted") as s:
        await s.turn("write a.txt")
        asked = next(f for f in s.state.requests if f.purpose == "satisfaction")
        parts = s.engine.context.list_sent_parts(asked.llm_id)
        assert parts is not None
        listed = {name: getattr(asked.parts, name) for name in type(asked.parts).model_fields}
        listed = {name: size for name, size in listed.items() if size}
        assert set(listed) == {part.part for part in parts} == {"base", "operations", "tail"}
        sizes = dict.fromkeys(listed, 0)
        for part in parts:
            sizes[part.part] += part.tokens
        share = asked.tokens / sum(sizes.values())
        assert all(abs(listed[name] - sizes[name] * share) <= len(parts) for name in sizes)


async def test_texts_of_the_last_requests_are_kept_and_figures_of_more(tmp_path: Path) -> None:
    turns = KEPT + 2
    async with session(tmp_path, script(*(done(f"{n}") for n in range(turns)))) as s:
        for number in range(turns):
            await s.turn(f"question {number}")
        main = [f.llm_id for f in s.state.requests]
        there = [s.engine.context.list_sent_parts(llm_id) is not None for llm_id in main]
        assert there == [False] * (len(main) - KEPT) + [True] * KEPT


async def test_after_a_resume_figures_and_compactions_are_there_and_texts_are_not(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, talk(14, digest=(DIGEST,)), window=24_000) as s:
        await hold(s, 14)
        requests, compactions, name = s.state.requests, s.state.compactions, s.session_id
        assert compactions
    async with session(tmp_path, talk(1), window=24_000, resume=name) as s:
        assert s.state.requests == requests
        assert s.state.compactions == compactions
        assert s.engine.context.list_sent_parts(requests[-1].llm_id) is None
        await s.turn("and now?")
        request = s.server.of("main")[-1]
        assert "The parser of lists was mended" in request.text
        assert WISH in request.text
        assert f"Answer 0. {LONG}" not in request.text


# --- by the user --------------------------------------------------------------------------------


async def test_the_user_compacts_and_takes_it_back(tmp_path: Path) -> None:
    async with session(tmp_path, talk(8, digest=(DIGEST,)), window=64_000) as s:
        await hold(s, 6)
        compact, freeable = s.engine.context.compact_by_hand, s.engine.context.count_freeable()
        assert await asyncio.gather(compact("the names of files"), compact()) == ["", "running"]
        assert "the names of files" in s.server.of("digest")[0].text
        (card,) = shown(s)
        assert (card.by, card.hint) == ("user", "the names of files")
        assert 0 < card.tokens_before - card.tokens_after < freeable  # the digest takes some
        await hold(s, 1, first=6)
        short = s.server.of("main")[-1].text
        assert "question 1 of many" not in short.replace("- question 1 of many", "")
        assert "question 6 of many" in short
        assert await s.engine.context.undo_compaction() == ("", {})
        assert s.state.compactions == ()
        assert s.state.undone_compactions == (card.compaction_id,)
        await hold(s, 1, first=7)
        again = s.server.of("main")[-1].text
        users = [m.text for m in s.state.messages if isinstance(m, UserMessage)]
        assert all(text in again for text in users)
        assert "The parser of lists was mended" not in again
        assert (await s.engine.context.undo_compaction())[0] == "none"


async def test_it_is_not_taken_back_where_the_whole_has_no_room(tmp_path: Path) -> None:
    async with session(tmp_path, talk(30, digest=(DIGEST,)), window=24_000) as s:
        number = 0
        while len(s.state.compactions) < 1 or number < 20:
            await hold(s, 1, first=number)
            number += 1
        while len(s.state.compactions) > 1:
            problem, _ = await s.engine.context.undo_compaction()
            if problem:
                break
        problem, figures = await s.engine.context.undo_compaction()
        assert problem == "no_room"
        assert int(figures["tokens"].replace(",", "")) > int(figures["room"].replace(",", ""))
        assert s.state.compactions


async def test_an_empty_conversation_and_running_work_are_not_compacted(tmp_path: Path) -> None:
    held = done("Later.", step="PLANNING").model_copy(update={"hold": "work"})
    async with session(tmp_path, script(held)) as s:
        assert s.engine.context.count_freeable() == 0
        assert await s.engine.context.compact_by_hand() == "nothing"
        await s.engine.send("work")
        await s.server.reached("work")
        assert await s.engine.context.compact_by_hand() == "busy"
        assert (await s.engine.context.undo_compaction())[0] == "busy"
        s.server.release("work")
        await s.ended()
        assert s.server.of("digest") == []


async def test_the_first_request_of_a_session_shows_what_lies_at_the_top_of_the_project(
    tmp_path: Path,
) -> None:
    """Two levels, what is ignored left out, many names counted; later requests do without."""
    root = tmp_path / "work"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "deep" / "far.py").write_text("x\n")
    for n in range(30):
        (root / "src" / f"m{n:02}.py").write_text("x\n")
    (root / "main.py").write_text("x\n")
    (root / "noise.log").write_text("x\n")
    (root / ".gitignore").write_text("*.log\n")
    replies = script(
        decision("a", action("file_ops.read_file", path="main.py")), done(), done("x.")
    )
    async with session(tmp_path, replies) as s:
        await s.engine.note_project_files()
        await s.turn("look at it")
        await s.turn("and another thing: look again")
        first, second, third = map(note_of, s.server.of("main"))
    assert "Top of the project" in first
    assert "src/: deep/, m00.py, m01.py" in first
    assert "… 11 more" in first
    assert "main.py" in first
    assert "far.py" not in first
    assert "noise.log" not in first
    assert "Top of the project" not in second + third
