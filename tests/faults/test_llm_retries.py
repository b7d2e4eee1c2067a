"""Retries: when, how long, and when not."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from typing import Any

import pytest
from support.endpoint import Heard, action, bench, decision, prompt, script
from support.model_words import WORDS
from support.pinned import CountingIds, ManualClock

from duckflow_tui.llm.endpoints import Endpoint, Roles
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.exchange import Patience
from duckflow_tui.llm.service import LLMService
from duckflow_tui.scripted.replies import Fault, Reply
from duckflow_tui.words.catalogue import Catalogue

GOOD = Reply(text="Hello.")


def failing(status: int, count: int = 1, **fields: Any) -> tuple[Reply, ...]:
    return (Reply(fault=Fault(status=status, **fields)),) * count


async def test_retry_after_is_obeyed_and_shown() -> None:
    async with bench(script(*failing(429, headers={"Retry-After": "7"}), GOOD)) as at:
        reply = await at.decide()
    assert at.slept == [7.0]
    shown = at.heard.waits[0]
    assert shown is not None
    assert (shown.reason, shown.until) == ("rate_limited", 1_750_000_007.0)
    assert at.heard.waits[-1] is None
    assert reply.text == "Hello."
    assert reply.call.attempts == 2


async def test_a_longer_retry_after_stops_with_the_reason() -> None:
    async with bench(script(*failing(429, headers={"Retry-After": "61"}), GOOD)) as at:
        error = await at.fail()
    assert (error.code, error.seconds, at.slept) == ("wait_asked", 61.0, [])
    assert error.call is not None
    assert (error.call.outcome, error.call.error) == ("error", "wait_asked")


async def test_waits_add_up_to_a_minute_at_most() -> None:
    again = failing(429, 4, headers={"Retry-After": "25"})
    async with bench(script(*again, GOOD)) as at:
        error = await at.fail()
    assert at.slept == [25.0, 25.0]
    assert (error.code, error.seconds) == ("wait_asked", 25.0)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_five_retries_at_most_with_growing_waits(status: int) -> None:
    async with bench(script(*failing(status, 6), GOOD), protocol="tools") as at:
        error = await at.fail()
    assert at.slept == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert error.call is not None
    assert error.call.attempts == len(at.server.requests) == 6


async def test_the_wait_is_drawn_from_the_whole_range() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    draws = iter([0.0, 0.5, 0.25])
    async with bench(script(*failing(503, 3), GOOD)) as at:
        service = LLMService(
            {"here": at.endpoint},
            Roles(main="here/m"),
            CountingIds(),
            ManualClock(),
            {},
            patience=Patience(sleep=sleep, draw=lambda: next(draws)),
        )
        await service.decide(prompt(), llm_id="llm_1", observer=Heard())
        await service.aclose()
    assert slept == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("status", "code", "setting"),
    [
        (400, "bad_request", ""),
        (401, "no_key_sent", "endpoints.here.api_key_env"),
        (403, "forbidden", "endpoints.here.api_key_env"),
        (404, "not_found", "endpoints.here.base_url"),
    ],
)
async def test_what_is_refused_is_not_tried_again(status: int, code: str, setting: str) -> None:
    answers = script(*failing(status), GOOD, models=("duck-1",))
    async with bench(answers) as at:
        error = await at.fail()
    assert (error.code, error.setting, len(at.server.of("main"))) == (code, setting, 1)
    assert error.host == at.endpoint.host


async def test_a_context_that_overflows_is_told_apart() -> None:
    words = "This model's maximum context length is 8192 tokens; tools take 9000."
    async with bench(script(*failing(400, message=words), GOOD)) as at:
        error = await at.fail()
        await at.decide(llm_id="llm_2")
    assert error.code == "context_overflow"
    assert all("tools" in request.json for request in at.server.of("main"))


async def test_a_connection_that_is_refused_is_tried_again(port_of_nobody: int) -> None:
    clock, heard, slept = ManualClock(), Heard(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(seconds)

    here = Endpoint(name="here", base_url=f"http://127.0.0.1:{port_of_nobody}/v1")
    patience = Patience(sleep=sleep, draw=lambda: 0.5)
    service = LLMService(
        {"here": here}, Roles(main="here/m"), CountingIds(), clock, {}, patience=patience
    )
    with pytest.raises(LlmError) as caught:
        await service.decide(prompt(), llm_id="llm_1", observer=heard)
    await service.aclose()
    assert caught.value.code == "connect"
    said = Catalogue("ja")("llm.error.connect", **caught.value.params)
    assert "（接続が拒否されました）" in said, said
    assert "No connection to 127.0.0.1" in Catalogue()("llm.error.connect", **caught.value.params)
    assert caught.value.detail == os.strerror(errno.ECONNREFUSED)
    assert len(slept) == 5
    assert set(heard.reasons) == {"connect"}


async def test_a_reset_before_anything_was_shown_is_tried_again() -> None:
    broken = (Reply(fault=Fault(close=True)), Reply(text="Hello.", fault=Fault(cut_after=0)))
    async with bench(script(*broken, GOOD)) as at:
        reply = await at.decide()
    assert reply.text == at.heard.text == "Hello."
    assert at.heard.reasons == ["closed", "cut"]


def piece(**delta: Any) -> str:
    """An event with a piece of a reply."""
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n"


def failing_event(code: int, message: str) -> str:
    return f"data: {json.dumps({'error': {'code': code, 'message': message}})}\n\n"


HALF = piece(content="Hello, I")
#: Replies that break off before a call is whole; each list is the pieces of a stream.
BROKEN = {
    "thoughts alone": (piece(reasoning_content="A duck says hello."),),
    "half a text": (HALF,),
    "half a text, then 502": (HALF, failing_event(502, "Network connection lost.")),
    "half a text, then too much to do": (HALF, failing_event(529, "Overloaded")),
    "half a text, then words alone": (HALF, 'event: error\ndata: {"message": "gone"}\n\n'),
    "half a call": (HALF, piece(tool_calls=[{"index": 0, "id": "c", "function": {
        "name": "file_ops__write_file", "arguments": '{"path": "a'}}])),
    "a judgement and half a call": (
        piece(tool_calls=[{"index": 0, "id": "c", "function": {
            "name": "decide", "arguments": '{"rationale": "why"}'}}]),
        piece(tool_calls=[{"index": 1, "id": "d", "function": {
            "name": "file_ops__write_file", "arguments": '{"path": "a'}}])),
}  # fmt: skip


TOLD = BROKEN.keys() - {"a judgement and half a call"}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_reply_that_breaks_before_a_call_is_whole_is_asked_for_anew(case: str) -> None:
    """Nothing of it stays on the screen; the first time at once, then after a wait, then it is
    said, with the part that came.
    """
    broken = Reply(raw=BROKEN[case])
    async with bench(script(broken, broken, GOOD), protocol="tools") as at:
        reply = await at.decide()
        assert reply.text == at.heard.text == "Hello."
        assert (reply.reasoning, at.heard.thoughts) == ("", [])
        # The first time at once, where it had begun to speak.
        assert at.slept == ([2.0] if case in TOLD else [1.0, 2.0])


async def test_a_reply_that_breaks_each_time_is_kept_as_far_as_it_came() -> None:
    broken = Reply(text="Hello, I am a duck.", chunk_size=6, fault=Fault(cut_after=6))
    async with bench(script(*(broken,) * 3, GOOD)) as at:
        error = await at.fail()
    assert error.code == "cut"
    assert at.heard.text == "Hello,"
    assert error.call is not None
    assert error.call.outcome == "incomplete"
    assert len(at.server.requests) == 3


async def test_an_empty_reply_is_asked_for_once_more() -> None:
    empty = (Reply(text=""), Reply(raw=('data: {"choices": []}\n\n',)), Reply(raw=("",)))
    for one in empty:
        async with bench(script(one, GOOD)) as at:
            assert (await at.decide()).text == "Hello."
        async with bench(script(one, one, GOOD)) as at:
            error = await at.fail()
        assert (error.code, len(at.server.requests)) == ("empty", 2)


async def test_a_withheld_answer_says_so() -> None:
    async with bench(script(Reply(text="", finish="content_filter"), GOOD)) as at:
        assert (await at.fail()).code == "filtered"


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_break_in_the_arguments_runs_nothing_and_is_told_to_the_model(
    protocol: str,
) -> None:
    """Covers R16."""
    write = action("file_ops.write_file", args={"path": "x" * 900})
    made = decision(reply="", actions=[action(), write])
    broken = Reply(decision=made, chunk_size=40, fault=Fault(cut_after=900))
    async with bench(script(broken, GOOD), protocol=protocol) as at:
        reply = await at.decide()
    assert reply.decision is None
    assert not reply.complete
    assert "connection broke" in WORDS(reply.problems[0])
    assert (reply.call.outcome, reply.call.error) == ("incomplete", "cut")
    assert len(at.server.requests) == 1


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("{nonsense", "could not be read"),
        ('{"error": {"message": "overloaded", "code": 503}}', "overloaded"),
    ],
)
async def test_what_breaks_the_calls_is_told_as_what_it_is(event: str, words: str) -> None:
    """R16: a line that is no JSON, or an error, is not a broken connection."""
    whole = {"name": "file_ops__read_file", "arguments": '{"path": "a.py"}'}
    call = {"index": 0, "id": "c", "function": whole}
    begun = json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    broken = Reply(raw=(f"data: {begun}\n\n", f"data: {event}\n\n"))
    async with bench(script(broken, GOOD), protocol="tools") as at:
        reply = await at.decide()
    assert reply.decision is None
    assert words in WORDS(reply.problems[0])
    assert "connection" not in WORDS(reply.problems[0])


async def test_an_error_inside_the_stream_is_an_error() -> None:
    event = 'data: {"error": {"message": "overloaded", "code": 503}}\n\n'
    async with bench(script(Reply(raw=(event,)), GOOD)) as at:
        assert (await at.decide()).text == "Hello."
    assert at.heard.reasons == ["server_error"]
    said = 'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n'
    async with bench(script(*(Reply(raw=(said, event)),) * 3, GOOD)) as at:
        error = await at.fail()
    assert (error.code, error.detail) == ("server_error", "overloaded")


async def test_esc_ends_the_wait_for_a_retry() -> None:
    async with bench(script(*failing(429, headers={"Retry-After": "30"}), GOOD)) as at:
        waiting = asyncio.Event()

        async def forever(seconds: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        service = LLMService(
            {"here": at.endpoint},
            Roles(main="here/m"),
            CountingIds(),
            ManualClock(),
            {},
            patience=Patience(sleep=forever),
        )
        asking = asyncio.create_task(service.decide(prompt(), llm_id="llm_1", observer=at.heard))
        async with asyncio.timeout(10):
            await waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert at.heard.waits[-1] is None
        await service.aclose()
