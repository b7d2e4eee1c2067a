"""The Responses API: the same work as by chat completions, its items sent back as they came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from support.endpoint import action, bench, decision
from support.session import Session, done, script, session, with_project
from support.session import action as act
from support.session import decision as decide

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Fault, Reply, Usage

MAIN = Reply(decision=decision(actions=[action()]), reasoning="First I look.")
TOOLS: Any = [
    {"type": "function", "name": name, "parameters": {}, "strict": False}
    for name in ("decide", "file_ops__read_file")
]


async def test_the_endpoint_speaks_as_the_client_library_reads() -> None:
    """The library's own accumulator takes the stream, and its end is what came in pieces."""
    usage = Usage(prompt=90, reply=12, cached=40, reasoning=5)
    reply = MAIN.model_copy(update={"usage": usage, "chunk_size": 3})
    async with ScriptedEndpoint(script(reply, reply, reply)) as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key="k", max_retries=0)
        given: Any = {"model": "scripted", "input": "Read a.py", "tools": TOOLS}
        async with client.responses.stream(**given) as stream:
            kinds = [event.type async for event in stream]
            end = await stream.get_final_response()
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
        assert end.output_text == "I read the file."
        assert [item.type for item in end.output] == [
            "reasoning", "message", "function_call", "function_call"
        ]  # fmt: skip
        assert end.usage is not None
        assert end.usage.output_tokens_details.reasoning_tokens == 5
        whole = await client.responses.create(stream=False, **given)
        assert [item.type for item in whole.output] == [item.type for item in end.output]
        await client.close()


async def test_a_decision_is_the_same_by_either_api() -> None:
    usage = Usage(prompt=90, reply=12, cached=40, reasoning=5)
    counted = MAIN.model_copy(update={"usage": usage})
    made: list[Any] = []
    for protocol in ("tools", "responses"):
        async with bench(script(counted), protocol=protocol) as at:
            reply = await at.decide()
            assert at.heard.text == reply.text == "I read the file."
            assert "".join(at.heard.thoughts) == reply.reasoning == "First I look."
            made.append((reply.decision, reply.call.tokens_in, reply.call.tokens_out,
                         reply.call.tokens_cached, reply.call.tokens_reasoning))  # fmt: skip
    assert made[0] == made[1]


async def test_the_request_says_what_the_api_calls_it() -> None:
    replies = script(MAIN)
    settings: dict[str, Any] = {"reasoning_effort": "low", "max_output": 900}
    async with bench(replies, protocol="responses", **settings) as at:
        await at.decide()
    (request,) = at.server.of("main")
    body: Any = request.json
    assert request.path == "/v1/responses"
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert (body["max_output_tokens"], body["store"]) == (900, False)
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["instructions"].startswith("You are a pair programmer.")
    assert all(tool["strict"] is False and tool["name"] for tool in body["tools"])
    assert not body.keys() & {"messages", "max_tokens", "stream_options", "reasoning_effort"}


def sent(running: Session, number: int) -> list[dict[str, Any]]:
    """The input of the n-th request of the main model."""
    items: list[dict[str, Any]] = running.server.of("main")[number].json["input"]
    return items


async def test_items_go_back_as_they_came_in_later_turns_too(tmp_path: Path) -> None:
    first = decide("I look.", act("file_ops.read_file", path="a.py"), act("git.status"))
    replies = script(
        first.model_copy(update={"reasoning": "First I look."}), done("It says 1."), done("Yes.")
    )
    async with session(with_project(tmp_path), replies, protocol="responses") as s:
        await s.turn("what does a.py say?")
        await s.turn("are you sure?")
        items = sent(s, -1)
    kinds = [item.get("role") or item["type"] for item in items]
    assert kinds[:9] == [
        "user", "reasoning", "assistant", "function_call", "function_call", "function_call",
        "function_call_output", "function_call_output", "function_call_output",
    ]  # fmt: skip
    assert items[1]["encrypted_content"]
    assert [i["call_id"] for i in items[3:6]] == [i["call_id"] for i in items[6:9]]
    assert "x = 1" in items[7]["output"]


async def test_a_resumed_session_sends_the_same_items(tmp_path: Path) -> None:
    first = decide("I look.", act("file_ops.read_file", path="a.py"))
    replies = script(first.model_copy(update={"reasoning": "So."}), done("It says 1."))
    async with session(with_project(tmp_path), replies, protocol="responses") as s:
        await s.turn("what does a.py say?")
        name, before, port = s.session_id, sent(s, -1), s.server.port
    more = script(done("Yes."))
    async with session(tmp_path, more, protocol="responses", resume=name, port=port) as s:
        await s.turn("are you sure?")
        items = sent(s, -1)
    assert [i for i in items if i["type"] == "reasoning"] == [
        i for i in before if i["type"] == "reasoning"
    ]
    assert [i for i in items if i["type"].startswith("function_call")][:4] == [
        i for i in before if i["type"].startswith("function_call")
    ]


async def test_a_compacted_conversation_keeps_calls_and_results_together(tmp_path: Path) -> None:
    """What goes, goes with its items; what stays is sent as it came. The endpoint refuses a call
    without its result.
    """
    reads = [
        decide(f"I read, {n}.", act("file_ops.read_file", path="a.py")).model_copy(
            update={"reasoning": f"Thought {n}."}
        )
        for n in range(8)
    ]
    ends = [done(f"Read {n}. " + "words " * 800) for n in range(8)]
    turns = [reply for pair in zip(reads, ends, strict=True) for reply in pair]
    replies = script(*tuple(turns), digest=Reply(data={"digest": "Read."}))
    async with session(with_project(tmp_path), replies, protocol="responses", window=64_000) as s:
        for n in range(7):
            await s.turn(f"read it, time {n}")
        assert await s.engine.context.compact_by_hand("") == ""
        assert (await s.turn("once more")).reply.startswith("Read 7.")
        items = sent(s, -1)
    thoughts = [item["summary"][0]["text"] for item in items if item["type"] == "reasoning"]
    assert thoughts[-1] == "Thought 7."
    assert thoughts == [f"Thought {n}." for n in range(8)][-len(thoughts) :]
    assert len(thoughts) < 8


# --- streams as servers of other minds send them -------------------------------------------------

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "file_ops__read_file",
        "arguments": '{"path": "a.py", "reasoning": "to see it"}'}  # fmt: skip
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [],
           "content": [{"type": "reasoning_text", "text": "So."}]}  # fmt: skip
SPOKEN = {"type": "message", "id": "m_1", "role": "assistant",
          "content": [{"type": "output_text", "text": "Hello."}]}  # fmt: skip


def streamed(*events: Any) -> Reply:
    """These events; a text is the kind of one without fields."""
    made = [{"type": one} if isinstance(one, str) else one for one in events]
    pieces = [f"event: {one.get('type')}\ndata: {json.dumps(one)}\n\n" for one in made]
    return Reply(raw=tuple(pieces))


def ended(status: str = "completed", **fields: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"id": "r", "status": status, "output": [], **fields}
    return {"type": f"response.{status}", "response": response}


def delta(kind: str, text: str) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "delta": text}


def whole(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": item}


#: Streams with the text, the reasoning and the files that are read.
SHAPES: dict[str, tuple[Reply, str, str, list[str]]] = {
    "llama.cpp, without any index": (
        streamed("response.created", delta("reasoning_text", "S"), delta("reasoning_text", "o."),
                 whole(THOUGHT), delta("output_text", "Hel"), delta("output_text", "lo."),
                 whole(SPOKEN), {"type": "response.output_item.added", "item": CALL},
                 delta("function_call_arguments", "{"), whole(CALL),
                 whole({**CALL, "call_id": "c2", "arguments": '{"path": "b.py"}'}), ended()),
        "Hello.", "So.", ["a.py", "b.py"],
    ),
    "whole items only": (
        streamed(whole(THOUGHT), whole(SPOKEN), whole(CALL), ended()), "Hello.", "So.", ["a.py"]
    ),
    "all of it at the end": (
        streamed(ended(output=[THOUGHT, SPOKEN, CALL])), "Hello.", "So.", ["a.py"]
    ),
    "two messages, kinds that nobody knows": (
        streamed("response.keepalive", delta("output_text", "I look."), whole(SPOKEN),
                 whole({"type": "web_search_call", "id": "w"}), delta("output_text", "Done."),
                 whole(SPOKEN), {"odd": 1}, ended()),
        "I look.\n\nDone.", "", [],
    ),
    "a text in place of its parts": (
        streamed(whole({**SPOKEN, "content": "Hello."}), ended()), "Hello.", "", []
    ),
    "a refusal": (streamed(delta("refusal", "I will not."), ended()), "I will not.", "", []),
    "in one piece": (
        Reply(fault=Fault(body=json.dumps({"status": "completed", "output": [SPOKEN, CALL]}))),
        "Hello.", "", ["a.py"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_stream_is_read_however_its_server_sends_it(shape: str) -> None:
    reply, text, thought, paths = SHAPES[shape]
    async with bench(script(reply), protocol="responses") as at:
        made = await at.decide()
    assert made.problems == ()
    assert made.decision is not None
    assert (made.text, made.reasoning) == (text, thought)
    assert at.heard.text == text
    assert [one.args["path"] for one in made.decision.actions] == paths


#: Ends that are failures, and what is made of each: code, whether it is asked for again.
FAILURES: dict[str, tuple[Reply, str, bool]] = {
    "a failed response": (
        streamed(ended("failed", error={"code": "server_error", "message": "try later"})),
        "server_error", True,
    ),
    "a limit in the stream": (
        streamed(ended("failed", error={"code": "rate_limit_exceeded", "message": "slow"})),
        "rate_limited", True,
    ),
    "an error event": (
        streamed({"type": "error", "code": "invalid_prompt", "message": "no", "param": None}),
        "bad_request", False,
    ),
    "an error object": (
        streamed({"error": {"message": "n_ctx exceeded", "code": 400}}), "context_overflow", False
    ),
    "filtered": (
        streamed(delta("output_text", "It"),
                 ended("incomplete", incomplete_details={"reason": "content_filter"})),
        "filtered", False,
    ),
    "nothing but an end": (streamed(ended()), "empty", True),
    "a text that breaks off": (streamed(delta("output_text", "Hel")), "cut", True),
    "a number that JSON has not": (
        streamed(whole({**THOUGHT, "odd": float("nan")}), ended()), "not_json", False
    ),
    "no JSON": (Reply(raw=("data: {oops\n\n",)), "not_json", False),
    "a web page": (Reply(fault=Fault(html=True)), "html", False),
    "an object in the wrong place": (Reply(raw=('data: [1]\n\n', "data: 2\n\n")), "empty", True),
    "a line without end": (Reply(raw=("data: ", *(["x" * 65_536] * 80))), "too_large", False),
    "depth": (Reply(raw=("data: " + "[" * 100_000 + "\n\n",)), "not_json", False),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_response_that_fails_is_named(kind: str) -> None:
    reply, code, again = FAILURES[kind]
    replies = (reply, MAIN) if again else (reply, reply)
    async with bench(script(*replies), protocol="responses") as at:
        if again:
            assert (await at.decide()).text == "I read the file."
            return
        with pytest.raises(LlmError) as caught:
            await at.decide()
    assert caught.value.code == code


async def test_a_reply_at_its_limit_is_told_to_the_model() -> None:
    cut = Reply(text="I beg", finish="length")
    async with bench(script(cut), protocol="responses") as at:
        made = await at.decide()
    assert (made.decision, made.text) == (None, "I beg")
    assert [one.name for one in made.problems] == ["reply.cut_by_limit"]


async def test_a_call_that_breaks_off_is_asked_for_again() -> None:
    """No call counts before it is whole."""
    broken = streamed({"type": "response.output_item.added", "item": CALL},
                      delta("function_call_arguments", '{"path"'))  # fmt: skip
    async with bench(script(broken, MAIN), protocol="responses") as at:
        assert (await at.decide()).decision is not None
        assert len(at.server.of("main")) == 2
