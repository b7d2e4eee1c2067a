"""Each provider's own failures: how long is waited, and the sentence that the user reads."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from support.endpoint import Bench, bench
from support.zoo import KEY, Provider, Spoken, events, refusal
from support.zoo_hosted import Azure, DeepSeek, Gemini, Groq, Kimi, Mistral, OpenAi, OpenRouter
from support.zoo_local import LlamaCpp, LmStudio, Ollama, Vllm

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.words.catalogue import Catalogue

KINDS: tuple[type[Provider], ...] = (
    Ollama, LmStudio, LlamaCpp, Vllm, OpenAi, Azure, OpenRouter, DeepSeek, Kimi, Gemini, Groq,
    Mistral,
)  # fmt: skip
KEYED = tuple(kind for kind in KINDS if kind.key)
NAMED = tuple(kind for kind in KINDS if kind is not Azure)


@asynccontextmanager
async def asked(provider: Provider, key: str = KEY, **settings: Any) -> AsyncGenerator[Bench]:
    """A service that asks this provider for the model ``duck-1``."""
    async with (
        ScriptedEndpoint(Script(), guard=provider.answer, base=provider.base) as server,
        bench(
            Script(),
            environ={"MY_KEY": key},
            base_url=server.base_url + provider.query,
            api_key_env="MY_KEY",
            **settings,
        ) as at,
    ):
        yield at


async def told(at: Bench, language: str = "en") -> str:
    """The sentence of the failure."""
    with pytest.raises(LlmError) as caught:
        await at.decide()
    return Catalogue(language)(f"llm.error.{caught.value.code}", **caught.value.params)


@pytest.mark.parametrize("kind", KEYED, ids=lambda kind: kind.__name__)
async def test_a_wrong_key_is_named_and_not_shown(kind: type[Provider]) -> None:
    async with asked(kind(), key="wrong-key-987654321") as at:
        words = await told(at)
    assert "rejected the key in MY_KEY" in words
    assert "endpoints.here.api_key_env" in words
    assert "987654321" not in words
    assert at.slept == []


@pytest.mark.parametrize("kind", NAMED, ids=lambda kind: kind.__name__)
async def test_a_wrong_model_is_answered_with_those_there_are(kind: type[Provider]) -> None:
    async with asked(kind()) as at:
        words = await told(at)
    assert "has no model named duck-1" in words
    assert kind.model in words


class Fails(NamedTuple):
    """What a provider answers, what is waited in seconds, and what is read then: ``words`` where
    it fails for good, else nothing.
    """

    kind: type[Provider]
    replies: tuple[Reply, ...]
    waited: list[float]
    words: str = ""
    reason: str = ""  # why it waits


def error(status: int, message: str, /, **fields: Any) -> Reply:
    return refusal(status, {"error": {"message": message, **fields}})


def gemini(status: int, message: str, *details: dict[str, Any]) -> Reply:
    return Gemini().error(status, message, details=list(details))


TPM = ("Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_01` service "
       "tier `on_demand` on tokens per {} Limit 100000, Used 97050, Requested 3619. Please try "
       "again in {}. Need more tokens? Upgrade to Dev Tier today at "
       "https://console.groq.com/settings/billing")  # fmt: skip
LOADING = error(503, "Loading model", type="unavailable_error", code=503)
FAILS = {
    "Ollama is busy": Fails(Ollama, (refusal(503, {
        "error": "server busy, please try again. maximum pending requests exceeded"}),),
        [1.0], reason="server_error"),
    "LM Studio has loaded nothing": Fails(LmStudio, (error(
        404, "No models loaded. Please load a model in the developer page or use the `lms load` "
        "command"),), [], "has no model in memory: “No models loaded. Please load a model"),
    "llama.cpp loads the model": Fails(LlamaCpp, (LOADING,) * 8,
        [1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0, 20.0], reason="loading"),
    "vLLM has too small a window": Fails(Vllm, (refusal(400, {
        "object": "error", "type": "BadRequestError", "code": 400, "message": "This model's maximum"
        " context length is 8192 tokens. However, you requested 9000 tokens"}),), [],
        "too long for model duck-1"),
    "OpenAI for a moment": Fails(OpenAi, (error(
        429, "Rate limit reached for gpt-5.6-terra on requests per min (RPM): Limit 500, Used 500, "
        "Requested 1. Please try again in 120ms.", code="rate_limit_exceeded"),), [0.12],
        reason="rate_limited"),
    "OpenAI without credit": Fails(OpenAi, (error(
        429, "You exceeded your current quota, please check your plan and billing details.",
        type="insufficient_quota", code="insufficient_quota"),), [], "has no quota left"),
    "Azure by its words": Fails(Azure, (error(
        429, "Requests to the ChatCompletions_Create Operation under Azure OpenAI API have "
        "exceeded token rate limit of your current pricing tier. Please retry after 20 seconds.",
        code="429"),), [20.0], reason="rate_limited"),
    "Azure by its header": Fails(Azure, (refusal(429, {"error": {
        "code": "429", "message": "Rate limit is exceeded."}}, **{"Retry-After": "11"}),), [11.0],
        reason="rate_limited"),
    "Azure filters what is asked": Fails(Azure, (error(
        400, "The response was filtered due to the prompt triggering Azure OpenAI's content "
        "management policy.", type=None, param="prompt", code="content_filter", status=400,
        innererror={"code": "ResponsibleAIPolicyViolation"}),), [], "content filter of"),
    "OpenRouter inside a stream": Fails(OpenRouter, (events([
        ": OPENROUTER PROCESSING\n\n", {"id": "gen-1", "provider": "x", "choices": [{
            "index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            "error": {"code": 502, "message": "Provider disconnected unexpectedly"}}]),),
        [1.0], reason="server_error"),
    "OpenRouter without credit": Fails(OpenRouter, (error(
        402, "This request requires more credits, or fewer max_tokens.", code=402),), [],
        "has no quota left: “This request requires more credits, or fewer max_tokens”."),
    "OpenRouter from behind": Fails(OpenRouter, (error(
        429, "Provider returned error", code=429, metadata={
            "raw": "x is temporarily rate-limited upstream. Please retry shortly",
            "provider_name": "x"}),) * 6, [1.0, 2.0, 4.0, 8.0, 16.0],
        "accepts no more requests for now: “Provider returned error: x is temporarily rate-limited",
        reason="rate_limited"),
    "DeepSeek without credit": Fails(DeepSeek, (error(
        402, "Insufficient Balance", type="unknown_error", code="invalid_request_error"),), [],
        "has no quota left: “Insufficient Balance"),
    "DeepSeek is busy": Fails(DeepSeek, (error(
        503, "Service is too busy. We advise users to temporarily switch to alternative LLM API "
        "service providers."),), [1.0], reason="server_error"),
    "Kimi is overloaded": Fails(Kimi, (error(
        429, "The engine is currently overloaded, please try again later",
        type="engine_overloaded_error"),) * 2, [1.0, 2.0], reason="rate_limited"),
    "Gemini says when": Fails(Gemini, (gemini(
        429, "You exceeded your current quota, please check your plan and billing details.",
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}),), [34.4],
        reason="rate_limited"),
    "Gemini is overloaded": Fails(Gemini, (gemini(
        503, "The model is overloaded. Please try again later."),), [1.0], reason="server_error"),
    "Groq for a minute": Fails(Groq, (error(
        429, TPM.format("minute (TPM):", "7.66s"), type="tokens", code="rate_limit_exceeded"),),
        [7.66], reason="rate_limited"),
    "Groq for the day": Fails(Groq, (error(
        429, TPM.format("day (TPD):", "9m38.016s"), type="tokens", code="rate_limit_exceeded"),),
        [], "accepts no more requests until 2025-06-15 15:16:18: “Rate limit reached"),
    "Groq takes less in a minute": Fails(Groq, (error(
        413, "Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit "
        "6000, Requested 6294, please reduce your message size and try again.", type="tokens",
        code="rate_limit_exceeded"),), [], "too long for model duck-1"),
    "OpenRouter for the day": Fails(OpenRouter, (error(
        429, "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model "
        "requests per day", code=429, metadata={"headers": {"X-RateLimit-Limit": "50",
        "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1750032000000"}}),), [],
        "accepts no more requests until 2025-06-16 00:00:00: “Rate limit exceeded: free-models"),
    "OpenRouter's gateway for the day": Fails(OpenRouter, (error(
        429, "Rate limit exceeded: free-models-per-day-high-balance.", type="rate_limit_error",
        code="429"),), [], "a limit of your account is used up: “Rate limit exceeded: free-models"),
    "OpenRouter has none that keeps the policy": Fails(OpenRouter, (error(
        404, "No endpoints found matching your data policy (Free model training). Configure: "
        "https://openrouter.ai/settings/privacy", code=404),), [],
        "has no provider of model duck-1 that fits the privacy settings of your account"),
    "OpenRouter has it moderated": Fails(OpenRouter, (error(
        403, "duck-1 requires moderation on OpenAI. Your input was flagged for violence. No "
        "credits were charged.", code=403, metadata={"reasons": ["violence"]}),), [],
        "content filter of"),
    "OpenRouter from a region behind": Fails(OpenRouter, (error(
        403, "Provider returned error", code=403, metadata={"provider_name": "OpenAI", "raw":
        '{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or '
        'territory not supported","param":null,"type":"request_forbidden"}}'}),), [],
        "is not available in the region of this machine: “Provider returned error: Country"),
    "Gemini does not serve the place": Fails(Gemini, (gemini(
        400, "User location is not supported for the API use."),), [],
        "is not available in the region of this machine: “User location"),
    "Gemini recites": Fails(Gemini, (events([
        {"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason":
         "content_filter: RECITATION"}]}]),), [],
        "withheld the answer: “content_filter: RECITATION”."),
    "Gemini has a reason of its own": Fails(Gemini, (events([
        {"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": "OTHER"}]}]),
        ) * 6, [1.0, 2.0, 4.0, 8.0, 16.0], " failed: “OTHER”.", reason="server_error"),
    "GLM without credit": Fails(Kimi, (error(
        429, "Insufficient balance or no resource package. Please recharge.", code="1113"),), [],
        "has no quota left: “Insufficient balance"),
    "GLM without credit, in its language": Fails(Kimi, (error(
        429, "余额不足或无可用资源包,请充值。", code="1113"),), [], "has no quota left: “余额不足"),
    "GLM for five hours": Fails(Kimi, (error(
        429, "已达到 5 小时的使用上限。您的限额将在 2026-08-25 07:41:44 重置。", code="1308"),), [],
        "a limit of your account is used up: “已达到 5 小时的使用上限"),
    "LiteLLM over its budget": Fails(Vllm, (error(
        429, "Budget has been exceeded! Current cost: 26.075, Max budget: 0.25",
        type="budget_exceeded", param=None, code="429"),), [], "has no quota left: “Budget has"),
    "LiteLLM over a user's budget": Fails(Vllm, (error(
        400, "ExceededBudget: End User=ishaan3 over budget. Spend=0.00088, Budget=0.0001",
        type="auth_error", code="400"),), [], "has no quota left: “ExceededBudget"),
    "MiniMax in an answer that went well": Fails(Kimi, (refusal(200, {
        "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),), [],
        "has no quota left: “insufficient balance”."),
    "vLLM in an answer that went well": Fails(Vllm, (refusal(200, {
        "object": "error", "message": "The tokens are out of range", "code": 400}),), [],
        "refused the request for model duck-1: “The tokens are out of range”."),
    "An event that is an error": Fails(Vllm, (events([
        'event: error\ndata: {"message": "Server overloaded", "code": 503}\n\n'], done=False),),
        [1.0], reason="server_error"),
    "An event that is an error in a word": Fails(Vllm, (events([
        "event: error\ndata: upstream timed out\n\n"], done=False),) * 6,
        [1.0, 2.0, 4.0, 8.0, 16.0], " failed: “upstream timed out”.", reason="server_error"),
    "Cloudflare waits in vain": Fails(Kimi, (refusal(
        524, "<html><title>524: A timeout occurred</title></html>"),), [1.0],
        reason="server_error"),
    "nginx wants https": Fails(Vllm, (refusal(
        400, "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title>"
        "</head></html>"),), [], "speaks https, but the address begins with http"),
    "Go wants https": Fails(Ollama, (refusal(
        400, "Client sent an HTTP request to an HTTPS server.\n"),), [],
        "Write https:// in endpoints.here.base_url."),
    "A slash at the end": Fails(Vllm, (refusal(
        308, "", Location="/v1/chat/completions/"),), [], "sends requests on to http://127.0.0.1:"),
    "Mistral by the second": Fails(Mistral, (refusal(429, {
        "message": "Requests rate limit exceeded"}),), [1.0], reason="rate_limited"),
    "Mistral does not know a field": Fails(Mistral, (refusal(422, {
        "object": "error", "type": "invalid_request_error", "message": {"detail": [{
            "type": "extra_forbidden", "loc": ["body", "top_x"],
            "msg": "Extra inputs are not permitted", "input": 5}]}}),), [],
        "refused the request for model duck-1: “body.top_x: Extra inputs are not permitted”."),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILS)
async def test_a_failure_is_waited_for_or_said_in_a_sentence(case: str) -> None:
    kind, replies, waited, words, reason = FAILS[case]
    provider = kind(*(Spoken("Hello."),) * 2)
    provider.model = "duck-1"
    provider.failing.extend(replies)
    async with asked(provider) as at:
        if not words:
            assert (await at.decide()).text == "Hello."
        else:
            said = await told(at)
            assert words in said
            assert not any(sign in said for sign in '{}[]"')
            assert said.endswith((".", "…"))
            provider.failing.clear()
            assert (await at.decide()).text == "Hello."  # nothing stays of it
    assert at.slept == pytest.approx(waited)  # pyright: ignore[reportUnknownMemberType]
    assert set(at.heard.reasons) == ({reason} if reason else set())


PAGE = ("<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><center><h1>502 Bad Gateway"
        "</h1></center><hr><center>nginx</center></body></html>")  # fmt: skip


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "HTTP 501"),
        ("{}", "{}"),
        (PAGE, "502 Bad Gateway"),
        ("upstream connect error", "upstream connect error"),
        ('{"error": "no way"}', "no way"),
        ('{"error": {"message": {"detail": "no way"}}}', "no way"),
        ('{"error": {"error": {"message": "no way"}}}', "no way"),
        ('[{"error": {"code": 501, "message": "no way"}}]', "no way"),
        ('{"detail": [{"loc": ["body", "x"], "msg": "no way"}]}', "body.x: no way"),
        ('{"message": "no way", "request_id": "1"}', "no way"),
        ('{"error": null, "message": "no way"}', "no way"),
    ],
)
async def test_an_error_of_any_shape_is_told_by_its_words(body: str, words: str) -> None:
    provider = Provider()
    provider.failing.append(refusal(501, body))
    async with asked(provider) as at:
        said = await told(at)
    assert f" failed: “{words}”. The problem is on the server's side" in said


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_may_not_use_the_model_is_not_called_wrong(status: int) -> None:
    provider = Vllm()
    provider.failing.append(error(
        status, "key not allowed to access model. This key can only access models=['gpt-5']. Tried "
        "to access duck-1", type="key_model_access_denied", param="model", code=str(status),
    ))  # fmt: skip
    async with asked(provider) as at:
        said = await told(at)
    assert said.startswith("The key for 127.0.0.1:")
    assert "may not use model duck-1: “key not allowed to access model." in said


async def test_the_words_are_there_in_japanese() -> None:
    provider = Groq()
    provider.model = "duck-1"
    provider.failing.extend(FAILS["Groq for the day"].replies)
    async with asked(provider) as at:
        assert "2025-06-15 15:16:18 まで" in await told(at, "ja")
