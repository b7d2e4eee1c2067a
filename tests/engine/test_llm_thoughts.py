"""What a model thinks goes back with its message, to that model only, and is never changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.endpoint import bench, prompt
from support.session import Session, done, script, session, with_project

from duckflow_tui.scripted.replies import Fault, Reply
from duckflow_tui.state.conversation import AssistantMessage, Thought, UserMessage

READ = {"reasoning": "to see it", "path": "a.py"}
USER = UserMessage(message_id="m1", text="Read a.py", at=0.0)
SIGNED = {"google": {"thought_signature": "c2lnbmVk+/=="}}


def streamed(*deltas: dict[str, Any], finish: str = "tool_calls") -> Reply:
    """A stream of these deltas, as a provider of its own would send them."""
    events: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    pieces = [f"data: {json.dumps(event)}\n\n" for event in events]
    return Reply(raw=(*pieces, "data: [DONE]\n\n"))


def reads(**fields: Any) -> dict[str, Any]:
    """A delta with a call that reads a file."""
    function = {"name": "file_ops__read_file", "arguments": json.dumps(READ)}
    call = {"index": 0, "id": "c1", "type": "function", "function": function, **fields}
    return {"tool_calls": [call]}


def replied(running: Session, number: int) -> list[dict[str, Any]]:
    """The messages of the assistant in the n-th request of the main model."""
    messages = running.server.of("main")[number].json["messages"]
    return [message for message in messages if message["role"] == "assistant"]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_goes_back_with_the_calls_it_led_to(tmp_path: Path, name: str) -> None:
    """Servers that want it refuse the request after the first call without it; the turn before
    needs it no more.
    """
    thinking = streamed({name: "First I "}, {name: "read it."}, reads())
    replies = script(thinking, done("It says 1."), done("Yes."))
    async with session(with_project(tmp_path), replies, protocol="tools") as running:
        await running.turn("what does a.py say?")
        (made,) = replied(running, 1)
        assert made[name] == "First I read it."
        assert made["tool_calls"][0]["function"]["name"] == "file_ops__read_file"
        await running.turn("are you sure?")
        assert all(name not in message for message in replied(running, -1))


async def test_details_are_put_together_and_sent_back_as_they_came(tmp_path: Path) -> None:
    text = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    sealed = {"type": "reasoning.encrypted", "data": "b3BhcXVl", "id": "r1", "index": 1}
    thinking = streamed(
        {"reasoning": "Let", "reasoning_details": [{**text, "text": "Let"}]},
        {"reasoning": " me see", "reasoning_details": [{**text, "text": " me see"}]},
        {"reasoning_details": [{**text, "signature": "c2ln"}]},
        {"reasoning_details": [sealed]},
        reads(),
    )
    replies = script(thinking, done("It says 1."))
    async with session(with_project(tmp_path), replies, protocol="tools") as running:
        await running.turn("what does a.py say?")
        (made,) = replied(running, 1)
        assert made["reasoning_details"] == [
            {**text, "text": "Let me see", "signature": "c2ln"},
            sealed,
        ]
        assert "reasoning" not in made


async def test_a_signature_goes_back_with_the_call_it_came_with(tmp_path: Path) -> None:
    """Both calls have one name, the second one is signed."""
    second = reads(index=1, id="c2", extra_content=SIGNED)
    replies = script(streamed(reads(), second), done("It says 1."))
    async with session(with_project(tmp_path), replies, protocol="tools") as running:
        await running.turn("what does a.py say?")
        (made,) = replied(running, 1)
        asked = [call for call in made["tool_calls"] if "read" in call["function"]["name"]]
        assert [call.get("extra_content") for call in asked] == [None, SIGNED]


async def test_it_is_kept_through_a_resume(tmp_path: Path) -> None:
    """The process ends in the turn, and the next one goes on with it."""
    with_project(tmp_path)
    thinking = streamed({"reasoning_content": "I read."}, reads())
    held = done("late").model_copy(update={"hold": "for ever"})
    async with session(tmp_path, script(thinking, held), protocol="tools") as running:
        await running.engine.send("what does a.py say?")
        await running.server.reached("for ever")
        session_id = running.session_id
        running.cut()
    # It is another server, at another origin: nothing of the first one's goes there.
    async with session(
        tmp_path, script(done("It says 1.")), protocol="tools", resume=session_id
    ) as again:
        said = next(m for m in again.state.messages if isinstance(m, AssistantMessage))
        assert said.thought is not None
        assert said.thought.fields == {"reasoning_content": "I read."}
        again.engine.resume()
        await again.ended()
        assert all("reasoning_content" not in message for message in replied(again, 0))


async def test_a_server_that_wants_none_back_gets_none(tmp_path: Path) -> None:
    refused = Reply(
        fault=Fault(
            status=400,
            message="The reasoning_content is for display only. "
            "Please remove the reasoning_content from messages.",
        )
    )
    thinking = streamed({"reasoning_content": "I read."}, reads())
    replies = script(thinking, refused, thinking, done("It says 1."))
    async with session(with_project(tmp_path), replies, protocol="tools") as running:
        end = await running.turn("what does a.py say?")
        assert end.outcome == "done"
        assert [bool(made.get("reasoning_content")) for made in replied(running, 1)] == [True]
        for number in (2, 3):
            assert all("reasoning_content" not in made for made in replied(running, number))


@pytest.mark.parametrize(("origin", "model"), [("here", "duck-2"), ("https://else:443", "duck-1")])
async def test_another_model_or_origin_gets_nothing_of_it(origin: str, model: str) -> None:
    answer = Reply(text="It says 1.")
    async with bench(script(answer, answer), protocol="tools") as at:
        here = at.endpoint.origin
        for thought in (
            Thought(origin=here, model="duck-1", fields={"reasoning_content": "I read."}),
            Thought(origin=here if origin == "here" else origin, model=model, fields={"x": 1}),
        ):
            said = AssistantMessage(
                message_id="m2", llm_id="l", text="I read.", raw="I read.", at=0.0, thought=thought
            )
            await at.decide(prompt(USER, said))
        mine, other = (
            next(m for m in request.json["messages"] if m["role"] == "assistant")
            for request in at.server.requests
        )
    assert mine["reasoning_content"] == "I read."
    assert set(other) == {"role", "content"}


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_model_that_only_thinks_is_asked_for_its_answer_once(
    tmp_path: Path, protocol: Any
) -> None:
    """Then what it thought is the answer; a model that does so always is asked no more."""
    only = streamed({"reasoning_content": "It is 4."}, finish="stop")
    async with session(tmp_path, script(*(only,) * 3), protocol=protocol) as running:
        first = await running.turn("what is 2 + 2?")
        assert (first.outcome, first.reply) == ("answered", "It is 4.")
        asked = running.server.of("main")
        assert len(asked) == 2
        assert "write your answer now" in asked[1].text
        assert (await running.turn("sure?")).reply == "It is 4."
        assert len(asked) == 2
        assert len(running.server.of("main")) == 3
        replies = [m for m in running.state.messages if isinstance(m, AssistantMessage)]
        assert [m.text for m in replies] == ["", "It is 4.", "It is 4."]
        assert replies[-1].reasoning == ""


async def test_a_call_that_the_server_speaks_of_is_asked_for_once(tmp_path: Path) -> None:
    lost = streamed({"content": "I read it."}, finish="tool_calls")
    found = streamed({"content": "I read it."}, reads())
    replies = script(lost, found, done("It says 1."), lost, lost)
    async with session(with_project(tmp_path), replies, protocol="tools") as running:
        read = await running.turn("what does a.py say?")
        assert (read.outcome, read.reply) == ("done", "It says 1.")
        assert "but none came" in running.server.of("main")[1].text
        assert (await running.turn("read it again")).reply == "I read it."


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_reply_that_broke_off_leaves_nothing_where_the_next_is_whole(
    tmp_path: Path, protocol: Any
) -> None:
    broken = done("Half of an answer, which then").model_copy(
        update={"fault": Fault(cut_after=40), "chunk_size": 6, "reasoning": "Let me see."}
    )
    if protocol == "tools":
        broken = Reply(text="Half of an answer, which then breaks", fault=Fault(cut_after=20))
    async with session(tmp_path, script(broken, done("Whole.")), protocol=protocol) as running:
        end = await running.turn("hello")
        assert (end.outcome, end.reply) == ("answered", "Whole.")
        (message,) = (m for m in running.state.messages if isinstance(m, AssistantMessage))
        assert (message.text, message.complete) == ("Whole.", True)
        assert not [key for key in running.notices() if key.startswith("llm.error")]


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_stray_reasoning_and_marks_are_neither_shown_nor_sent_back(
    tmp_path: Path, protocol: Any
) -> None:
    said = "Four."
    if protocol == "json":
        said = json.dumps({"rationale": "2 + 2", "reply": said, "next_step": "done"})
    stray = Reply(text=f"I add {{2}} and 2.\n</think>\n\n{said}<|im_end|>", chunk_size=5)
    async with session(tmp_path, script(stray, done("Yes.")), protocol=protocol) as running:
        assert (await running.turn("what is 2 + 2?")).reply == "Four."
        (message,) = (m for m in running.state.messages if isinstance(m, AssistantMessage))
        assert (message.text, message.reasoning) == ("Four.", "I add {2} and 2.\n")
        await running.turn("sure?")
        sent = running.server.of("main")[1].raw.decode()
        assert not any(mark in sent for mark in ("</think>", "<|im_end|>", "I add"))
