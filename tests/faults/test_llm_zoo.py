"""Failures as the servers of many makers word them: what is done, and what the user is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.endpoint import Bench, bench, decision

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.scripted.replies import Fault, Reply, Script
from duckflow_tui.words.catalogue import Catalogue

GOOD = Reply(decision=decision(next_step="done", reply="Hello."))
SAY = Catalogue("en")


def failing(status: int, body: object = "", count: int = 1, **fields: Any) -> tuple[Reply, ...]:
    text = body if isinstance(body, str) else json.dumps(body)
    return (Reply(fault=Fault(status=status, body=text, **fields)),) * count


def server(*replies: Reply, models: tuple[str, ...] = ("duck-1",), key: str = "") -> Script:
    return Script(replies={"main": replies}, models=models, key=key)


async def told(at: Bench) -> str:
    """What the screen says of the failure."""
    with pytest.raises(LlmError) as caught:
        await at.decide()
    return SAY(f"llm.error.{caught.value.code}", **caught.value.params)


async def test_a_model_that_is_being_loaded_is_waited_for(  # llama.cpp, vLLM, LM Studio
) -> None:
    """For as long as a first token may take, not for a minute, and it is said why."""
    loading = failing(503, {"error": {"code": 503, "message": "Loading model"}}, 8)
    async with bench(server(*loading, GOOD), first_token_s=600.0) as at:
        reply = await at.decide()
    assert reply.decision is not None
    assert sum(at.slept) > 60.0
    assert set(at.heard.reasons) == {"loading"}
    async with bench(server(*loading, GOOD), first_token_s=30.0) as at:
        words = await told(at)
    assert "still loading model duck-1" in words
    assert sum(at.slept) <= 30.0


async def test_an_account_that_may_not_stream_gets_its_answer_whole() -> None:
    body = {"error": {"message": "Your organization must be verified to stream this model.",
                      "param": "stream", "code": "unsupported_value"}}  # fmt: skip
    async with bench(server(*failing(400, body), GOOD, GOOD)) as at:
        reply = await at.decide()
        await at.decide()
    assert reply.decision is not None
    sent = [request.json for request in at.server.of("main")]
    assert [body["stream"] for body in sent] == [True, False, False]
    assert "stream_options" not in sent[1]


async def test_a_server_that_fails_at_native_calls_without_a_word_is_asked_for_json() -> None:
    broken = failing(500, {"error": {"message": "Internal Server Error"}}, 3)
    async with bench(server(*broken, GOOD, GOOD), protocol="auto") as at:
        assert (await at.decide()).protocol == "json"
        assert len(at.slept) == 2
        assert (await at.decide()).protocol == "json"
    assert ["tools" in request.json for request in at.server.of("main")] == [
        True, True, True, False, False,
    ]  # fmt: skip


async def test_a_server_that_fails_after_it_took_native_calls_is_waited_for() -> None:
    """What worked before is not what makes it fail: the request stays as it is."""
    broken = failing(500, {"error": {"message": "Internal server error"}}, 4)
    async with bench(server(GOOD, *broken, GOOD), protocol="auto") as at:
        await at.decide()
        assert (await at.decide()).protocol == "tools"
        assert len(at.slept) == 4
    assert all("tools" in request.json for request in at.server.of("main"))


async def test_where_json_fails_too_the_calls_are_not_blamed() -> None:
    broken = failing(500, "oops", 3 + 6)
    async with bench(server(*broken, GOOD), protocol="auto") as at:
        assert "failed" in await told(at)
        assert (await at.decide()).protocol == "tools"


async def test_an_overflow_in_the_stream_is_not_tried_again() -> None:
    event = {"error": {"message": "maximum context length is 8192 tokens", "code": 500}}
    reply = Reply(raw=(f"data: {json.dumps(event)}\n\n",))
    async with bench(server(reply, GOOD)) as at:
        with pytest.raises(LlmError) as caught:
            await at.decide()
    assert (caught.value.code, at.slept) == ("context_overflow", [])


# --- keys, names, addresses ----------------------------------------------------------------------


async def test_a_missing_a_wrong_and_a_withheld_key_are_told_apart() -> None:
    async with bench(server(GOOD, key="right")) as at:
        words = await told(at)
    assert "none was sent" in words
    assert "endpoints.here.api_key_env" in words
    async with bench(
        server(GOOD, key="right"), api_key_env="MY_KEY", environ={"MY_KEY": "x1"}
    ) as at:
        words = await told(at)
    assert "rejected the key in MY_KEY" in words


async def test_of_many_models_those_with_the_nearest_names_are_shown() -> None:
    many = (*(f"model-{n}" for n in range(30)), "duck-1-large", "goose")
    gone = failing(404, {"error": {"message": "The model `duck-1` does not exist"}})
    async with bench(server(*gone, models=many)) as at:
        assert "It has: duck-1-large, model-0, " in await told(at)


async def test_another_fault_is_not_blamed_on_the_model() -> None:
    body = {"error": {"message": "messages: at least one message is required"}}
    async with bench(server(*failing(400, body), models=("qwen3",))) as at:
        assert "at least one message" in await told(at)
    assert len(at.server.requests) == 1


async def test_an_address_with_nothing_there_is_named_also_where_its_version_is_missing() -> None:
    """With a version it was tried too, once."""
    asked: list[str] = []

    async def nothing_here(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split()[1])
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(nothing_here, "127.0.0.1", 0) as listening:
        origin = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        for base_url in (origin, f"{origin}/api"):
            async with bench(server(), base_url=base_url) as at:
                assert "does not know model duck-1 or this address" in await told(at)
    posted = [path for path in asked if path.endswith("/chat/completions")]
    assert posted.count("/v1/chat/completions") == 1


@pytest.mark.parametrize("tail", ["/chat/completions", "/models", "/chat/completions/", ""])
async def test_the_address_of_a_call_is_taken_for_its_base(tail: str) -> None:
    async with bench(server(GOOD, GOOD)) as found:
        async with bench(server(GOOD), base_url=found.server.base_url + tail) as at:
            await at.decide()
        assert found.server.requests[0].path == "/v1/chat/completions"


async def test_what_a_provider_behind_a_router_said_is_told() -> None:
    body = {"error": {"message": "Provider returned error", "code": 400,
                      "metadata": {"raw": "the image is too small"}}}  # fmt: skip
    async with bench(server(*failing(400, body))) as at:
        assert "the image is too small" in await told(at)


@pytest.mark.parametrize("message", [
    "This model is only supported in v1/responses and not in v1/chat/completions.",
    "Function tools with reasoning_effort are not supported for duck-1 in /v1/chat/completions. To "
    "use function tools, use /v1/responses or set reasoning_effort to 'none'.",
])  # fmt: skip
async def test_a_model_of_another_api_is_asked_there(message: str) -> None:
    """It is learned by one refusal; a server that has no such API is asked as before."""
    refusal = failing(400, {"error": {"message": message, "param": "reasoning_effort"}})
    async with bench(server(*refusal, GOOD, GOOD)) as at:
        for _ in range(2):
            assert (await at.decide()).text == "Hello."
        paths = [request.path for request in at.server.of("main")]
    assert paths == ["/v1/chat/completions", "/v1/responses", "/v1/responses"]
    nothing = failing(404, {"detail": "Not Found"})
    async with bench(server(*refusal, *nothing, *refusal, GOOD)) as at:
        if "none" in message:
            assert (await at.decide()).text == "Hello."
            assert at.server.of("main")[-1].json["reasoning_effort"] == "none"
        else:
            assert "does not work with chat completions" in await told(at)


async def test_a_server_without_the_api_that_was_chosen_is_told_by_its_setting() -> None:
    nothing = failing(404, {"detail": "Not Found"})
    async with bench(server(*nothing), protocol="responses") as at:
        assert "Check endpoints.here.protocol" in await told(at)
