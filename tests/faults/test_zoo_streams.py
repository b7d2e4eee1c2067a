"""What servers of many makers do to a stream that is well meant: it is read all the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.endpoint import bench, script
from support.model_words import WORDS

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.base import JsonObject

READ = "file_ops__read_file"
A, B = '{"path": "a"}', '{"path": "b"}'


def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def called(arguments: object, name: str | None = READ, **fields: Any) -> JsonObject:
    """A piece of a call."""
    return chunk(tool_calls=[{"function": {"name": name, "arguments": arguments}, **fields}])


def stream(*events: JsonObject | str, done: str = "data: [DONE]\n\n", line: str = "\n") -> Reply:
    made = [one if isinstance(one, str) else f"data: {json.dumps(one)}\n\n" for one in events]
    return Reply(raw=tuple(one.replace("\n", line) for one in (*made, done) if one))


HI = (chunk(role="assistant", content=""), chunk(content="Hi "), chunk(content="there."))
END = chunk("stop")
USAGE: JsonObject = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}

TEXTS = {
    "counts behind the end": stream(*HI, END, "data: [DONE]\n\n", USAGE),
    "no choices in between": stream({"choices": []}, *HI, {"choices": None}, END, USAGE),
    "the role each time": stream(chunk(role="assistant", content="Hi "),
                                 chunk("stop", role="assistant", content="there.")),
    "a delta that is null": stream({"choices": [{"delta": None}]}, *HI, END),
    "no finish_reason": stream(*HI),
    "no [DONE]": stream(*HI, END, done=""),
    "an end of its own name": stream(*HI, chunk("eos_token")),
    "CR LF": stream(*HI, END, line="\r\n"),
    "CR alone": stream(*HI, END, line="\r"),
    "comments and pings": stream(": OPENROUTER PROCESSING\n\n", ": ping\n\n", "event: ping\n\n",
                                 *HI, ":\n\n", END),
    "a byte order mark": stream("\ufeff", *HI, END),
    "no space behind data": stream(*(f"data:{json.dumps(one)}\n\n" for one in (*HI, END))),
    "parts in place of text": stream(chunk(content=[{"type": "text", "text": "Hi there."}]), END),
    "no index": stream({"choices": [{"delta": {"content": "Hi there."}}]}, END),
    "a message in place of a delta": stream(
        {"choices": [{"message": {"content": "Hi there."}, "finish_reason": "stop"}]}),
    "thoughts among the parts": stream(chunk(content=[
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]), *HI, END),
    "fields of other forms": stream(chunk(
        content="Hi there.", refusal=False, reasoning={"text": "Hm."}, reasoning_content=[],
        reasoning_details={}, extra_content=[], tool_calls=[None]), END),
    "calls that are an empty list": stream(*HI, chunk(tool_calls=[]),
                                           chunk("stop", tool_calls=None)),
}  # fmt: skip


@pytest.mark.parametrize("quirk", TEXTS)
async def test_a_text_is_read_from_the_stream_of_any_maker(quirk: str) -> None:
    async with bench(script(TEXTS[quirk]), protocol="tools") as at:
        reply = await at.decide()
    assert reply.text == at.heard.text == "Hi there."
    assert reply.problems == ()
    assert len(at.server.requests) == 1


FIRST, SECOND = called(A, index=0, id=""), called(B, index=0, id="")
CALLS = {
    "all with index 0 and an empty id": stream(FIRST, SECOND, END),
    "all with index 0 and no id, in pieces": stream(
        called("", index=0), called('{"path"', None, index=0), called(': "a"}', None, index=0),
        called("", index=0), called(B, None, index=0), END),
    "no index and no id": stream(called(A), called(B), END),
    "the name in each piece": stream(
        called('{"path"', index=0, id="x"), called(': "a"}', index=0, id="x"),
        called('{"path"', index=1, id="y"), called(': "b"}', index=1, id="y"), END),
    "the name in each piece, without an id": stream(
        called('{"path"', index=0), called(': "a"}', index=0),
        called('{"path"', index=1), called(': "b"}', index=1), END),
    "a prefix at the name": stream(called(A, f"functions.{READ}", index=0, id="x"),
                                   called(B, f"functions.{READ}", index=1, id="y"), END),
    "marks of the model behind the name": stream(
        called(A, f"{READ}<|channel|>commentary", index=0, id="x"),
        called(B, f"{READ}<|constrain|>json", index=1, id="y"), END),
    "arguments that are an object": stream(called({"path": "a"}, index=0, id="x"),
                                           called({"path": "b"}, index=1, id="y"), END),
    "arguments that are encoded twice": stream(called(json.dumps(A), index=0, id="x"),
                                               called(json.dumps(B), index=1, id="y"), END),
    "both in one piece": stream(chunk(tool_calls=[
        {"index": at, "id": f"c{at}", "function": {"name": READ, "arguments": given}}
        for at, given in enumerate((A, B))]), chunk("tool_calls")),
    "an end that says stop": stream(called(A, index=0, id="x"), called(B, index=1, id="y"), END),
    "an object in place of a list, ids that are numbers": stream(
        chunk(tool_calls={"index": 0, "id": 1, "function": {"name": READ, "arguments": A}}),
        chunk(tool_calls={"index": 1, "id": 2, "function": {"name": READ, "arguments": B}}), END),
    "one id for both": stream(called(A, index=0, id="x"), called(B, index=1, id="x"), END),
}  # fmt: skip


def read(made: Any) -> list[str]:
    assert made is not None
    return [action.args["path"] for action in made.actions]


@pytest.mark.parametrize("quirk", CALLS)
async def test_two_calls_are_read_from_the_stream_of_any_maker(quirk: str) -> None:
    async with bench(script(CALLS[quirk]), protocol="tools") as at:
        reply = await at.decide()
    assert reply.problems == ()
    assert read(reply.decision) == ["a", "b"]


async def test_the_one_call_of_earlier_days_is_read() -> None:
    """``function_call``, in pieces and in one."""
    pieces = stream(
        chunk(content=None, function_call={"name": READ, "arguments": ""}),
        chunk(function_call={"arguments": '{"path"'}),
        chunk(function_call={"arguments": ': "a"}'}),
        chunk("function_call"),
    )
    one = stream(chunk("function_call", function_call={"name": READ, "arguments": A}))
    async with bench(script(pieces, one), protocol="tools") as at:
        assert read((await at.decide()).decision) == ["a"]
        assert read((await at.decide()).decision) == ["a"]


async def test_another_name_begins_another_call() -> None:
    """Also where one index stands for both, no id tells them apart, and the first has nothing."""
    two = stream(called("", "decide", index=0), called(A, index=0), END)
    async with bench(script(two), protocol="tools") as at:
        assert read((await at.decide()).decision) == ["a"]


async def test_a_call_that_judges_is_known_by_its_prefix_too() -> None:
    judged = called('{"rationale": "why", "next_step": "done"}', "functions.decide", index=0)
    async with bench(script(stream(judged, END)), protocol="tools") as at:
        made = (await at.decide()).decision
    assert made is not None
    assert (made.rationale, made.actions) == ("why", ())


#: Where the counts of tokens stand: beside the choices, in a choice, elsewhere; what is cached.
COUNTED = {"prompt_tokens": 90, "completion_tokens": 7}
PLACES: dict[str, tuple[JsonObject, int]] = {
    "at OpenAI": ({"usage": {**COUNTED, "prompt_tokens_details": {"cached_tokens": 40}}}, 40),
    "at DeepSeek": ({"usage": {**COUNTED, "prompt_cache_hit_tokens": 40}}, 40),
    "at Moonshot": ({"choices": [{"index": 0, "delta": {}, "usage": {
        **COUNTED, "cached_tokens": 40}}]}, 40),
    "at Groq": ({"x_groq": {"id": "req_1", "usage": COUNTED}}, 0),
    "with null beside": ({"usage": {**COUNTED, "prompt_tokens_details": None}}, 0),
    "with more cached than asked": ({"usage": {**COUNTED, "cached_tokens": 400}}, 90),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
async def test_tokens_are_counted_wherever_they_stand(place: str) -> None:
    event, cached = PLACES[place]
    async with bench(script(stream(*HI, END, event))) as at:
        call = (await at.decide()).call
    assert (call.tokens_in, call.tokens_out, call.estimated) == (90, 7, False)
    assert call.tokens_cached == cached


@pytest.mark.parametrize("usage", [None, {}, [], "many", {"prompt_tokens": None}])
async def test_counts_that_are_missing_are_estimated(usage: object) -> None:
    async with bench(script(stream(*HI, {**END, "usage": usage}))) as at:
        reply = await at.decide()
    assert (reply.text, reply.call.estimated) == ("Hi there.", True)
    assert reply.call.tokens_in > 0


async def test_a_text_that_ends_without_an_end_is_cut_and_kept() -> None:
    async with bench(script(*(stream(*HI, done=""),) * 3)) as at:
        assert (await at.fail()).code == "cut"
        assert at.heard.text == "Hi there."


@pytest.mark.parametrize(
    ("finish", "code"),
    [("content_filter", "filtered"), ("SAFETY", "filtered"), ("error", "server_error"),
     ("insufficient_system_resource", "server_error")],
)  # fmt: skip
async def test_a_reply_that_was_broken_off_is_no_answer(finish: str, code: str) -> None:
    """What came of it is shown; the words do not say that all is well."""
    async with bench(script(*(stream(*HI, chunk(finish)),) * 3)) as at:
        assert (await at.fail()).code == code
        assert at.heard.text == "Hi there."


async def test_a_call_that_the_server_dropped_is_asked_for_again_then_as_json() -> None:
    """Gemini ends a stream so, behind thoughts alone, when it cannot read its own model's call."""
    dropped = stream(
        chunk(reasoning_content="I call it."),
        chunk("function_call_filter: MALFORMED_FUNCTION_CALL"),
    )
    good = Reply(decision={"reply": "Hi.", "rationale": "r", "next_step": "done"})
    async with bench(script(dropped, good), protocol="auto") as at:
        assert (await at.decide()).protocol == "tools"
    async with bench(script(*(dropped,) * 3, good), protocol="auto") as at:
        reply = await at.decide()
    assert (reply.protocol, reply.text) == ("json", "Hi.")


@pytest.mark.parametrize(
    "generation",
    [
        '<function=file_ops__read_file>{"path": "a"}</function>',
        '<function=file_ops__read_file{"path": "a"}</function>',
        '{"name": "file_ops__read_file", "parameters": {"path": "a"}}',
        '```\n{"tool_calls": [{"id": "p", "type": "function", "function": {"name": '
        '"file_ops__read_file"}, "parameters": {"path": "a"}}]}\n```',
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_what_groq_takes_for_no_call_is_read(generation: str, streamed: bool) -> None:
    """``failed_generation``: in the stream, or in place of it with status 400."""
    error = {"message": "Failed to call a function. Please adjust your prompt. See "
             "'failed_generation' for more details.", "type": "invalid_request_error",
             "code": "tool_use_failed", "failed_generation": generation,
             "status_code": 400}  # fmt: skip
    whole = json.dumps({"error": error})
    reply = stream(f"event: error\ndata: {whole}\n\n", done="")
    if not streamed:
        reply = Reply.model_validate({"fault": {"status": 400, "body": whole}})
    async with bench(script(reply), protocol="auto") as at:
        made = await at.decide()
    assert read(made.decision) == ["a"]
    assert made.from_text
    assert at.heard.text == ""


async def test_what_groq_cannot_show_is_no_answer() -> None:
    error = {
        "message": "Failed to call a function.",
        "code": "tool_use_failed",
        "status_code": 400,
        "failed_generation": "Tool use failed: JSON does not match the expected schema",
    }
    broken = stream(f"event: error\ndata: {json.dumps({'error': error})}\n\n", done="")
    async with bench(script(broken), protocol="auto") as at:
        reply = await at.decide()
    assert reply.decision is None
    assert "cannot be read" in WORDS(reply.problems[0])


@pytest.mark.parametrize("sign", [": still here\n\n", f"data: {json.dumps(chunk())}\n\n"])
@pytest.mark.parametrize("before", [(), HI], ids=["before the first token", "in the answer"])
async def test_signs_of_life_alone_keep_a_call_alive_for_a_while(
    sign: str, before: tuple[JsonObject, ...]
) -> None:
    """Three times as long as silence, then it is ended in words: else it would last for ever."""
    endless = stream(*before, *(sign,) * 100).model_copy(update={"delay_s": 0.05})
    async with bench(script(endless), first_token_s=0.8, idle_s=0.8) as at:
        error = await at.fail()
    assert (error.code, error.seconds) == ("stalled", 3 * 0.8)


async def test_a_server_that_is_silent_but_for_comments_answers_in_time() -> None:
    """Between two parts of an answer the time begins anew."""
    slow = stream(HI[1], *(": x\n\n",) * 8, HI[2], *(": x\n\n",) * 8, END)
    slow = slow.model_copy(update={"delay_s": 0.15})
    async with bench(script(slow), first_token_s=0.75, idle_s=0.75) as at:
        assert (await at.decide()).text == "Hi there."
