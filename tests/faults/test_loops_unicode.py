"""Halves of surrogate pairs from a model: told as what they are, and nothing with them runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from support.session import JUDGEMENT, Session, action, done, script, session

from duckflow_tui.scripted.replies import Reply, ScriptedCall
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.conversation import AssistantMessage

HALF = "\ud800"
WRITE = "file_ops.write_file"


def judged(**fields: Any) -> JsonObject:
    return {**JUDGEMENT, "step": "EXECUTION", "next_step": "continue", **fields}


def written(*paths: str) -> list[JsonObject]:
    """Arguments of a write for each path, as native calls have them."""
    return [{"reasoning": "asked for", "path": path, "content": "x"} for path in paths]


def events(*deltas: JsonObject) -> Reply:
    """A stream of these deltas whose JSON spells halves of pairs as escapes."""
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    lines = [json.dumps({"choices": [choice]}) for choice in choices]
    lines.append(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    return Reply(raw=tuple(f"data: {line}\n\n" for line in (*lines, "[DONE]")))


def piece(index: int, arguments: str, name: str = "") -> JsonObject:
    """A piece of a native call."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    call = {"index": index, "function": function} | ({"id": f"c{index}"} if name else {})
    return {"tool_calls": [call]}


def tools_reply(spelling: str) -> Reply:
    """A good write and one with half a pair in its path, by native calls."""
    good, bad = (json.dumps(args) for args in written("good.txt", f"a{HALF}.txt"))
    if spelling != "escaped in the arguments":
        bad = bad.replace("\\ud800", HALF)
    if spelling == "escaped on the wire":
        return events(
            piece(0, json.dumps(judged()), "decide"),
            piece(1, good, "file_ops__write_file"),
            piece(2, bad, "file_ops__write_file"),
        )
    names = ("decide", "file_ops__write_file", "file_ops__write_file")
    texts = (json.dumps(judged()), good, bad)
    calls = tuple(
        ScriptedCall(name=name, arguments=text) for name, text in zip(names, texts, strict=True)
    )
    return Reply(tool_calls=calls)


def json_reply(spelling: str) -> Reply:
    """The same two writes in one object."""
    actions = [action(WRITE, path=path, content="x") for path in ("good.txt", f"a{HALF}.txt")]
    text = json.dumps(judged(reply="I write.", actions=actions))
    if spelling != "escaped in the arguments":
        text = text.replace("\\ud800", HALF)
    if spelling == "escaped on the wire":
        return events({"content": text})
    return Reply(text=text)


def told(s: Session) -> str:
    """What the second request tells the model."""
    return s.server.of("main")[1].new_text


def last_text(s: Session) -> str:
    return [m for m in s.state.messages if isinstance(m, AssistantMessage)][-1].text


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize(
    "spelling", ["escaped in the arguments", "escaped on the wire", "as bytes on the wire"]
)
async def test_half_a_pair_in_an_argument_is_named_and_nothing_of_the_reply_runs(
    tmp_path: Path, protocol: Literal["tools", "json"], spelling: str
) -> None:
    """R16: the good call of the same reply does not run either."""
    reply = tools_reply(spelling) if protocol == "tools" else json_reply(spelling)
    replies = script(reply, done("I could write neither."))
    async with session(tmp_path, replies, protocol=protocol, mode="trusted") as s:
        end = await s.turn("write both")
        assert (end.outcome, len(s.server.of("main")), end.files_changed) == ("answered", 2, ())
        assert s.results() == []
        assert "one half of a surrogate pair" in told(s)
        assert "connection" not in told(s)
    assert list((tmp_path / "work").iterdir()) == []


async def test_a_pair_that_two_chunks_share_is_one_character(tmp_path: Path) -> None:
    (args,) = written("duck\U0001f986.txt")
    text = json.dumps(args).replace("\\ud83e", "\ud83e").replace("\\udd86", "\udd86")
    middle = text.index("\udd86")
    reply = events(
        {"content": "A duck: \ud83e"},
        {"content": "\udd86."},
        piece(0, json.dumps(judged()), "decide"),
        piece(1, text[:middle], "file_ops__write_file"),
        piece(1, text[middle:]),
    )
    async with session(tmp_path, script(reply, done()), protocol="tools", mode="trusted") as s:
        end = await s.turn("write it")
        assert end.files_changed == ("duck\U0001f986.txt",)
        first = next(m for m in s.state.messages if isinstance(m, AssistantMessage))
        assert first.text == "A duck: \U0001f986."


async def test_half_a_pair_in_plain_words_ends_nothing(tmp_path: Path) -> None:
    reply = events({"reasoning_content": f"hm {HALF}"}, {"content": f"Well {HALF}"})
    async with session(tmp_path, script(reply), protocol="tools") as s:
        assert (await s.turn("hello")).outcome == "answered"
        assert last_text(s) == "Well �"
