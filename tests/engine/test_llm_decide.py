"""Decisions over HTTP: both protocols, what is learned from refusals, what calls cost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any, Literal

import pytest
from support.endpoint import Bench, action, bench, decision, prompt, script
from support.model_words import WORDS
from support.pinned import CountingIds

from duckflow_tui.llm.codec import WireRequest
from duckflow_tui.llm.endpoints import Endpoint, Roles, Target
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.exchange import Exchange, ReplyObserver
from duckflow_tui.llm.learned_models import ModelQuirks
from duckflow_tui.llm.service import LLMService
from duckflow_tui.prompting.side_replies import DigestReply, MissingReply
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Fault, RefusedPart, Reply, Script, Usage
from duckflow_tui.state.base import SystemClock
from duckflow_tui.state.conversation import AssistantMessage, UserMessage
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.prompt import ChatMessage

MAIN = Reply(decision=decision(actions=[action()]), chunk_size=5)


def bodies(at: Bench) -> list[dict[str, Any]]:
    return [request.json for request in at.server.of("main")]


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_one_script_is_one_decision_in_either_protocol(protocol: str) -> None:
    """Covers S4-57, S4-72."""
    async with bench(script(MAIN), protocol=protocol) as at:
        reply = await at.decide()
    made = reply.decision
    assert made is not None
    assert reply.problems == reply.warnings == ()
    assert reply.protocol == protocol
    assert (made.reply, made.prompt_pattern) == (
        "I read the file.", PromptPattern.BASE_MAIN_SPECIALIZED,
    )  # fmt: skip
    assert made.actions[0].operation == "file_ops.read_file"
    assert at.heard.text == "I read the file."
    assert len(at.heard.replies) > 2
    assert len(at.server.requests) == 1
    assert at.server.requests[0].purpose == "main"


async def test_the_reply_is_shown_before_the_rest_has_come() -> None:
    held = MAIN.model_copy(update={"hold": "rest", "hold_after": 75})
    async with bench(script(held), protocol="json") as at:
        asking = asyncio.create_task(at.decide())
        await at.server.reached("rest")
        await at.heard.until("I read")
        assert not asking.done()
        at.server.release("rest")
        assert (await asking).decision is not None


@pytest.mark.parametrize("how", ["reasoning_content", "reasoning", "think"])
@pytest.mark.parametrize("protocol", ["tools", "json", "responses"])
async def test_reasoning_is_heard_apart_from_the_reply(how: Any, protocol: str) -> None:
    thinking = MAIN.model_copy(update={"reasoning": "Let me see.", "reasoning_as": how})
    async with bench(script(thinking), protocol=protocol) as at:
        reply = await at.decide()
    assert reply.reasoning == "".join(at.heard.thoughts) == "Let me see."
    assert at.heard.text == "I read the file."
    assert reply.decision is not None


@pytest.mark.parametrize("status", [400, 422])
async def test_auto_steps_down_at_no_cost_and_remembers(status: int) -> None:
    refuses = tuple(
        RefusedPart(name=name, status=status)
        for name in ("tools", "json_schema", "response_format")
    )
    async with bench(script(MAIN, MAIN, refuses=refuses)) as at:
        first = await at.decide()
        second = await at.decide(llm_id="llm_2")
    sent = bodies(at)
    assert ["tools" in body for body in sent] == [True, False, False, False, False]
    forms = [body.get("response_format", {}).get("type") for body in sent]
    assert forms == [None, "json_schema", "json_object", None, None]
    assert (first.call.attempts, second.call.attempts) == (4, 1)
    assert first.decision is not None
    assert second.problems == ()
    assert "Answer with JSON." in sent[-1]["messages"][0]["content"]
    assert at.slept == []


async def test_a_server_error_that_says_no_tools_is_not_retried() -> None:
    refusal = RefusedPart(name="tools", status=500, message="tools param requires --jinja flag")
    async with bench(script(MAIN, refuses=(refusal,))) as at:
        reply = await at.decide()
    assert reply.protocol == "json"
    assert at.slept == []


async def test_a_protocol_that_was_chosen_is_kept() -> None:
    async with bench(script(MAIN, refuses=(RefusedPart(name="tools"),)), protocol="tools") as at:
        with pytest.raises(LlmError) as caught:
            await at.decide()
    assert caught.value.code == "bad_request"
    assert len(at.server.requests) == 1


async def test_a_refused_parameter_is_dropped_once_and_remembered() -> None:
    refuses = (RefusedPart(name="temperature"), RefusedPart(name="stream_options", status=422))
    async with bench(script(MAIN, MAIN, refuses=refuses), temperature=0.2) as at:
        await at.decide()
        await at.decide(llm_id="llm_2")
    has = [("temperature" in body, "stream_options" in body) for body in bodies(at)]
    assert has == [(True, True), (False, True), (False, False), (False, False)]


async def test_the_output_limit_goes_by_the_name_that_the_server_takes() -> None:
    words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    refuses = (RefusedPart(name="max_tokens", message=words),)
    async with bench(script(MAIN, refuses=refuses), max_output=500) as at:
        await at.decide()
    assert bodies(at)[-1]["max_completion_tokens"] == 500
    assert "max_tokens" not in bodies(at)[-1]


async def test_what_one_model_refused_is_not_held_against_another() -> None:
    async with ScriptedEndpoint(script(MAIN, MAIN, refuses=(RefusedPart(name="tools"),))) as server:
        here = Endpoint(name="here", base_url=server.base_url)
        roles = Roles.model_validate({"main": "here/small", "evaluator": "here/large"})
        service = LLMService({"here": here}, roles, CountingIds(), SystemClock(), {})
        await service.decide(prompt(), llm_id="llm_1", observer=ReplyObserver())
        await service.decide(prompt(), llm_id="llm_2", role="evaluator", observer=ReplyObserver())
        await service.aclose()
    sent = [request.json for request in server.of("main")]
    assert [(body["model"], "tools" in body) for body in sent] == [
        ("small", True), ("small", False), ("large", True), ("large", False),
    ]  # fmt: skip


async def test_usage_is_what_the_endpoint_says_and_has_its_price() -> None:
    told = MAIN.model_copy(
        update={"usage": Usage(prompt=1000, reply=200, cached=600, reasoning=50)}
    )
    async with bench(script(told), price_in=3.0, price_out=15.0) as at:
        call = (await at.decide()).call
    assert (call.tokens_in, call.tokens_cached, call.tokens_out, call.tokens_reasoning) == (
        1000, 600, 200, 50,
    )  # fmt: skip
    assert call.cost == (1000 * 3.0 + 200 * 15.0) / 1_000_000
    assert not call.estimated
    assert (call.llm_id, call.role, call.purpose, call.endpoint, call.model, call.outcome) == (
        "llm_1", "main", "main", "here", "duck-1", "ok",
    )  # fmt: skip


async def test_what_came_from_a_cache_has_its_own_price() -> None:
    told = MAIN.model_copy(update={"usage": Usage(prompt=1000, reply=200, cached=600)})
    async with bench(script(told), price_in=3.0, price_out=15.0, price_cached=0.3) as at:
        call = (await at.decide()).call
    assert call.cost is not None
    assert round(call.cost * 1_000_000) == 400 * 3 + 180 + 200 * 15


#: What a server counts, and what it costs in millionths of a dollar: 3 a token of prompt, 15 of
#: reply.
COUNTED: list[tuple[dict[str, Any], int, float]] = [
    ({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}, 100, 4500),
    ({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1300}, 300, 7500),  # Gemini
    ({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 3}, 100, 4500),
    ({"prompt_tokens": 1000, "completion_tokens": 100, "cost": 0.0001}, 100, 100),  # OpenRouter
    ({"prompt_tokens": 1000, "completion_tokens": 100, "cost": 0}, 100, 0),
    ({"prompt_tokens": 1000, "completion_tokens": 100, "cost": "dear"}, 100, 4500),
    ({"prompt_tokens": 1000, "completion_tokens": 100, "cost": -1}, 100, 4500),
]


@pytest.mark.parametrize(("counts", "said", "cost"), COUNTED)
async def test_a_reply_costs_what_the_server_counts_or_says(
    counts: dict[str, Any], said: int, cost: float
) -> None:
    """Thinking that only the total counts is paid for too; a cost that the server states wins."""
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}]}
    made = Reply(raw=(f"data: {json.dumps({**chunk, 'usage': counts})}\n\n", "data: [DONE]\n\n"))
    async with bench(script(made), price_in=3.0, price_out=15.0) as at:
        call = (await at.decide()).call
    assert (call.tokens_in, call.tokens_out) == (1000, said)
    assert call.cost is not None
    assert round(call.cost * 1_000_000, 3) == cost


def marks(body: dict[str, Any]) -> list[int]:
    """The places of the messages that are marked for a cache."""
    return [
        place
        for place, message in enumerate(body["messages"])
        if isinstance(message["content"], list)
        and message["content"][-1]["cache_control"] == {"type": "ephemeral"}
    ]


def plain(body: dict[str, Any]) -> list[Any]:
    """The texts of the messages, without marks."""
    texts = (message["content"] for message in body["messages"])
    return [text[0]["text"] if isinstance(text, list) else text for text in texts]


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_marks_stand_behind_the_system_part_and_the_last_stable_message(
    protocol: str,
) -> None:
    """What is sent is the same else, and what stands before a mark begins the next request too."""
    async with bench(script(MAIN, MAIN), protocol=protocol, cache="marks") as at:
        first = await at.decide()
        assert first.decision is not None
        said = AssistantMessage(
            message_id="m2",
            llm_id="llm_1",
            text="I read.",
            decision=first.decision,
            protocol="json",
            at=0.0,
        )
        more = UserMessage(message_id="m3", text="Go on.", at=0.0)
        await at.decide(prompt(*prompt().history, said, more, tail="Goal: other"), "llm_2")
    async with bench(script(MAIN, MAIN), protocol=protocol) as other:
        await other.decide()
        await other.decide(prompt(*prompt().history, said, more, tail="Goal: other"), "llm_2")
    one, two = bodies(at)
    assert marks(one) == [0]
    assert marks(two) == [0, len(two["messages"]) - 3]  # before the note and the user's words
    assert plain(one)[:1] == plain(two)[:1]
    for body, unmarked in zip((one, two), bodies(other), strict=True):
        assert marks(unmarked) == []
        assert plain(body) == plain(unmarked)
        assert {**body, "messages": []} == {**unmarked, "messages": []}


async def test_a_question_that_is_no_decision_is_marked_behind_its_system_part() -> None:
    answer = Reply(data={"digest": "short"})
    async with bench(Script(replies={"digest": (answer,)}), cache="marks") as at:
        messages = [ChatMessage("system", "Be short."), ChatMessage("user", "Shorten.")]
        await at.service.ask("digest", "fast", messages, DigestReply, llm_id="llm_1")
    assert marks(at.server.of("digest")[0].json) == [0]


@pytest.mark.parametrize("words", ["cache_control: Extra inputs", "content must be a string"])
async def test_marks_that_are_refused_are_left_out_and_remembered(words: str) -> None:
    refusal = Reply(fault=Fault(status=400, message=words))
    async with bench(script(refusal, MAIN, MAIN), cache="marks") as at:
        await at.decide()
        await at.decide(llm_id="llm_2")
    assert [bool(marks(body)) for body in bodies(at)] == [True, False, False]


async def test_a_refusal_of_a_request_without_marks_is_not_sent_again() -> None:
    refusal = Reply(fault=Fault(status=400, message="content must be a string"))
    async with bench(script(refusal, MAIN)) as at:
        with pytest.raises(LlmError):
            await at.decide()
    assert len(bodies(at)) == 1


async def test_a_key_names_what_requests_share_and_is_left_out_where_it_is_refused() -> None:
    refusal = Reply(
        fault=Fault(status=400, message="Unrecognized request argument: prompt_cache_key")
    )
    async with bench(script(MAIN, MAIN, refusal, MAIN), cache="key") as at:
        await at.decide()
        await at.decide(prompt(tail="Goal: other"), "llm_2")
        await at.decide(llm_id="llm_3")
    keys = [body.get("prompt_cache_key") for body in bodies(at)]
    assert keys[0]
    assert keys == [keys[0], keys[0], keys[0], None]


@pytest.mark.parametrize(
    ("base_url", "model", "how"),
    [
        ("https://api.openai.com/v1", "gpt-5", "key"),
        ("https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4", "marks"),
        ("https://openrouter.ai/api/v1", "openai/gpt-5", ""),
        ("https://api.anthropic.com/v1", "claude-sonnet-4-0", "marks"),
        ("http://localhost:11434/v1", "claude", ""),
        ("https://models.example/v1", "gpt-5", ""),
    ],
)
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_only_who_wants_it_is_told_what_to_cache(
    base_url: str, model: str, how: str, cache: Literal["auto", "off"]
) -> None:
    target = Target(Endpoint(name="here", base_url=base_url, cache=cache), model)
    request = WireRequest([{"role": role, "content": role} for role in ("system", "user", "user")])
    exchange = Exchange(
        *("llm_1", "main", "main", target, SystemClock(), ReplyObserver()), lambda _: request
    )
    exchange.request = request
    body = exchange.make_body(ModelQuirks())
    found = "marks" if marks(body) else "key" if "prompt_cache_key" in body else ""
    assert found == (how if cache == "auto" else "")


async def test_without_usage_the_count_is_estimated_and_says_so() -> None:
    silent = Reply(text="日本語の返事です", send_usage=False)
    async with bench(script(silent)) as at:
        call = (await at.decide()).call
    assert call.estimated
    assert call.tokens_out == 8
    assert call.tokens_in > 10
    assert call.cost is None


async def test_the_body_holds_the_settings_of_the_endpoint() -> None:
    settings: dict[str, Any] = {
        "temperature": 0.4,
        "reasoning_effort": "low",
        "max_output": 900,
        "extra_body": {"top_k": 5, "model": "not this"},
        "headers": {"X-Team": "ducks"},
    }
    async with bench(script(MAIN), **settings) as at:
        await at.decide()
    body = bodies(at)[0]
    assert (body["temperature"], body["reasoning_effort"], body["max_tokens"]) == (0.4, "low", 900)
    assert (body["top_k"], body["model"], body["stream"]) == (5, "duck-1", True)
    assert at.server.requests[0].headers["x-team"] == "ducks"


async def test_a_server_that_does_not_stream_is_understood() -> None:
    message = {"role": "assistant", "content": "Hello.", "reasoning_content": "greet"}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})
    async with bench(script(Reply(fault=Fault(body=body)))) as at:
        reply = await at.decide()
    assert reply.text == at.heard.text == "Hello."
    assert reply.reasoning == "greet"


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_reply_cut_at_the_limit_executes_nothing(protocol: str) -> None:
    """Covers R16."""
    cut = MAIN.model_copy(update={"finish": "length"})
    async with bench(script(cut), protocol=protocol) as at:
        reply = await at.decide()
    assert reply.decision is None
    assert reply.problems
    assert reply.text == "I read the file."
    assert reply.call.outcome == "incomplete"


async def test_a_malformed_reply_brings_words_for_the_model_and_is_counted() -> None:
    """Covers S4-58."""
    async with bench(script(Reply(text='{"reply": "x", "reply": "y"}')), protocol="json") as at:
        reply = await at.decide()
    assert reply.decision is None
    assert "duplicate key" in WORDS(reply.problems[0]).lower()
    assert reply.raw == '{"reply": "x", "reply": "y"}'
    assert reply.call.outcome == "malformed"
    assert reply.complete


async def test_other_questions_go_down_the_same_ladder_with_their_purpose() -> None:
    answer = Reply(data={"digest": "short", "mood": "fine"})
    fields = {"refuses": (RefusedPart(name="json_schema"),)}
    async with bench(Script.model_validate({"replies": {"digest": (answer,)}, **fields})) as at:
        asked = await at.service.ask(
            "digest", "fast", [ChatMessage("user", "Shorten, as JSON.")], DigestReply,
            llm_id="llm_1",
        )  # fmt: skip
    assert asked.value == DigestReply(digest="short")
    sent = at.server.of("digest")
    forms = [r.json["response_format"] for r in sent]
    assert [form["type"] for form in forms] == ["json_schema", "json_object"]
    assert forms[0]["json_schema"]["schema"]["properties"].keys() == DigestReply.model_fields.keys()
    assert asked.call.purpose == "digest"
    assert (asked.call.role, asked.call.attempts) == ("fast", 2)


async def test_what_an_answer_lacks_is_told_to_the_model() -> None:
    answer = Reply(data={"missing": [{"priority": 1}], "constraints": []})
    async with bench(Script(replies={"missing": (answer,)})) as at:
        asked = await at.service.ask(
            "missing", "fast", [ChatMessage("user", "What is missing?")], MissingReply,
            llm_id="llm_1",
        )  # fmt: skip
    assert asked.value is None
    problems = list(map(WORDS, asked.problems))
    assert any(problem.startswith("missing.0.what: ") for problem in problems)
    assert asked.call.outcome == "malformed"


async def test_a_role_without_a_model_says_which_setting_is_missing() -> None:
    service = LLMService({}, Roles(), CountingIds(), SystemClock(), {})
    with pytest.raises(LlmError) as caught:
        await service.decide(prompt(), llm_id="llm_1", observer=ReplyObserver())
    assert (caught.value.code, caught.value.setting) == ("no_model", "roles.main")
    assert caught.value.call is None


async def test_a_cancelled_call_leaves_its_account() -> None:
    held = MAIN.model_copy(update={"hold": "never"})
    async with bench(script(held)) as at:
        asking = asyncio.create_task(at.decide())
        await at.server.reached("never")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        call = at.service.cancelled_call("llm_1")
        assert call is not None
        assert call.outcome == "cancelled"
        assert at.service.cancelled_call("llm_1") is None


async def test_what_is_left_out_of_a_reply_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "duckflow.llm")
    text = json.dumps(decision(reply="Hello.", mood="glad"))
    async with bench(script(Reply(text=text)), protocol="json") as at:
        reply = await at.decide()
    assert reply.problems == ()
    assert len(reply.warnings) == len(caplog.messages) == 1
    assert reply.warnings[0] in caplog.text
    assert "“mood”" in caplog.text


async def test_64_kb_of_reply_cost_little_however_small_the_pieces() -> None:
    text = "# Title\n\nSome *words* and `code`.\n" * 1900
    made = decision(reply=text, actions=[action()])
    async with bench(script(Reply(decision=made, chunk_size=16)), protocol="json") as at:
        async with asyncio.timeout(20):
            reply = await at.decide()
    assert at.heard.text == reply.text == text


def test_the_service_imports_no_client_library_before_it_is_used() -> None:
    program = (
        "import sys, duckflow_tui.llm.service, duckflow_tui.settings;"
        "print([m for m in ('openai', 'httpx2') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
