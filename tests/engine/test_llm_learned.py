"""What a server refuses is learned from its reason, said once, remembered for a week."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.endpoint import Bench, bench, decision, prompt
from support.pinned import ManualClock
from support.session import action as act
from support.session import decision as decide
from support.session import done, nothing_but, script, session

from duckflow_tui.llm.endpoints import Endpoint, Protocol, Target
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.learned_models import LEARNED_FOR, LearnedModels
from duckflow_tui.scripted.endpoint import Request, ScriptedEndpoint
from duckflow_tui.scripted.replies import Fault, Reply, Script
from duckflow_tui.state.base import JsonObject
from duckflow_tui.words.catalogue import Catalogue

ANSWER = Reply(decision=decision(next_step="done", reply="Hello."))


def refused(message: str, status: int = 400, **fields: Any) -> Reply:
    return Reply(fault=Fault(status=status, message=message, **fields))


def main(*replies: Reply) -> Script:
    return script(*replies)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use."),
        (500, "tools param requires --jinja flag"),
    ],
)
async def test_a_server_without_native_calls_is_asked_for_json(status: int, message: str) -> None:
    async with bench(main(refused(message, status), ANSWER), protocol="auto") as at:
        reply = await at.decide()
        assert reply.protocol == "json"
        assert len(at.server.requests) == 2
        assert at.slept == []


async def test_a_model_that_does_not_think_is_asked_without_the_effort() -> None:
    replies = main(refused('"qwen2.5" does not support thinking'), ANSWER, ANSWER)
    async with bench(replies, protocol="auto", reasoning_effort="low") as at:
        assert (await at.decide()).protocol == "tools"
        await at.decide()
        sent = [request.json for request in at.server.requests]
        assert ["reasoning_effort" in body for body in sent] == [True, False, False]


@pytest.mark.parametrize(
    "message",
    [
        "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
        "An assistant message with 'tool_calls' must be followed by tool messages",
        "tool_call_id is missing in messages[4]",
        "Your account has no credits left for tools",
    ],
)
async def test_a_word_about_tools_is_no_reason_to_give_calls_up(message: str) -> None:
    """The ladder steps down for what a server does not support, not because it names a tool."""
    async with bench(main(refused(message), ANSWER), protocol="auto") as at:
        with pytest.raises(LlmError):
            await at.decide()
        assert (await at.decide()).protocol == "tools"


def field_of(body: JsonObject) -> JsonObject:
    """The schema of the only argument of an operation whose schema has all sorts of keywords."""
    found: JsonObject = body["tools"][1]["function"]["parameters"]["properties"]["path"]
    return found


ODD: JsonObject = {"type": ["string", "null"], "const": "a", "default": "a", "minLength": 1}
#: Protocol, a refusal in the words of its server, what is looked at in a request, then what it is
#: before and after.
CHANGES: list[tuple[Protocol, str, Callable[[JsonObject], object], object, object]] = [
    ("auto", "Invalid JSON payload received. Unknown name \"const\" at 'tools[0].function_"
     "declarations[5].parameters.properties[8].value': Cannot find field.",
     field_of, ODD, {"type": "string", "enum": ["a"]}),
    ("auto", "Invalid schema for function 'file_ops__edit_file': 'default' is not permitted.",
     field_of, ODD, {"type": "string", "enum": ["a"]}),
    ("auto", "max_tokens: Field required", lambda body: body.get("max_tokens"), None, 16_384),
    ("json", "response_format.json_schema.strict: Extra inputs are not permitted",
     lambda body: body["response_format"]["json_schema"].get("strict"), False, None),
    ("responses", "Your organization must be verified to generate reasoning summaries.  See "
     "'reasoning.summary'.", lambda body: body.get("reasoning"), {"summary": "auto"}, None),
    ("responses", "Unsupported parameter: 'include'",
     lambda body: "include" in body, True, False),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "message", "look", "before", "after"), CHANGES)
async def test_a_refusal_changes_the_part_of_the_request_that_it_names(
    protocol: Protocol, message: str, look: Any, before: object, after: object
) -> None:
    """And nothing is given up for it: native calls stay native, a schema stays a schema."""
    schema: JsonObject = {"type": "object", "properties": {"path": ODD}}
    asked = prompt()
    asked = asked.replace(operations=(asked.operations[0].replace(parameters=schema),))
    async with bench(main(refused(message), ANSWER, ANSWER), protocol=protocol) as at:
        for _ in range(2):
            assert (await at.decide(asked)).decision is not None
        bodies = [request.json for request in at.server.of("main")]
    assert [look(body) for body in bodies] == [before, after, after]
    assert all(("tools" in body) == (protocol != "json") for body in bodies)


async def test_reasoning_that_a_server_cannot_open_is_left_out(tmp_path: Path) -> None:
    stale = refused("The encrypted content gAAA could not be verified.")
    first = decide("I look.", act("git.status")).model_copy(update={"reasoning": "So."})
    replies = script(first, stale, done("Clean."))
    async with session(tmp_path, replies, protocol="responses") as s:
        await s.turn("is it clean?")
        kinds = [[item["type"] for item in r.json["input"]] for r in s.server.of("main")]
    assert ["reasoning" in kind for kind in kinds] == [False, True, False]
    assert ["function_call_output" in kind for kind in kinds] == [False, True, True]
    (kept,) = (tmp_path / "home").rglob("learned_models.json")
    (entry,) = json.loads(kept.read_bytes()).values()
    assert entry["flags"] == []


async def test_a_call_that_the_server_could_not_read_is_asked_for_again() -> None:
    """Some servers check the calls of their own model, and answer 400 where one is miswritten."""
    miswritten = refused("Failed to call a function. Please adjust your prompt.")
    async with bench(main(miswritten, ANSWER), protocol="auto") as at:
        reply = await at.decide()
        assert reply.protocol == "tools"
        assert reply.decision is not None


def template(alternates: bool, *, system: bool, status: int) -> Any:
    """An author that answers only what its chat template takes."""

    def author(request: Request) -> Reply | None:
        roles = [message["role"] for message in request.json["messages"]]
        if "system" in roles and not system:
            return refused("Jinja Exception: System role not supported", status)
        spoken = [role for role in roles if role != "system"]
        if alternates and any(a == b == "user" for a, b in itertools.pairwise(spoken)):
            return refused(
                "Conversation roles must alternate user/assistant/user/assistant", status
            )
        return ANSWER

    return author


@pytest.mark.parametrize("system", [True, False])
@pytest.mark.parametrize("status", [400, 500])
async def test_a_template_that_wants_roles_in_turn_gets_them(system: bool, status: int) -> None:
    """The last message of the user holds what stands in two elsewhere; with no system message the
    first one begins with its words. Nothing waits, and it is learned for the next request.
    """
    author = template(True, system=system, status=status)
    async with (
        ScriptedEndpoint(Script(), author=author) as server,
        bench(Script(), base_url=server.base_url, protocol="json") as at,
    ):
        assert (await at.decide()).decision is not None
        sent = [request.json["messages"] for request in server.requests]
        assert at.slept == []
        assert len(sent) == 2
        roles = [message["role"] for message in sent[-1]]
        assert roles == (["system", "user"] if system else ["user"])
        last = sent[-1][-1]["content"]
        assert "Read a.py" in last
        assert "Goal: test" in last
        assert ("You are a pair programmer." in last) is not system
        await at.decide()
        assert len(server.requests) == 3


async def test_it_is_said_once_and_kept_for_the_next_start(tmp_path: Path) -> None:
    refusal = refused("this model does not support tools")
    replies = script(refusal, done("Hello."), done("Again."))
    async with session(tmp_path, replies, protocol="auto") as running:
        await running.turn("hello")
        await running.turn("hello again")
        assert running.notices().count("llm.learned.tools") == 1
        (kept,) = (tmp_path / "home").rglob("learned_models.json")
        (entry,) = json.loads(kept.read_bytes()).values()
        assert entry["flags"] == ["no_tools"]
        running.engine.probe_models()
        assert not kept.exists()
        running.server.add("main", done("Native."))
        await running.turn("and now?")
        assert "tools" in running.server.of("main")[-1].json


async def test_failures_without_a_reason_cost_the_calls_of_one_session_at_most(
    tmp_path: Path,
) -> None:
    """It is said as what was seen, and where JSON does not work either, what brings calls back."""
    broken = [refused("Internal server error", 500, headers={"Retry-After": "0.01"})] * 3
    unclear = Reply(text='{"rationale": ', repeat=True)
    other = refused("Unsupported parameter: 'temperature'")
    replies = script(*broken, done("Hello."), other, unclear)
    async with session(tmp_path, replies, protocol="auto") as running:
        await running.turn("hello")
        assert running.notices().count("llm.learned.failing") == 1
        assert not list((tmp_path / "home").rglob("learned_models.json"))
        await running.turn("hello again")
        assert not any("tools" in request.json for request in running.server.of("main")[3:])
        assert running.notices()[-1] == "turn.unreadable_json"
        assert "/probe" in Catalogue("en")("turn.unreadable_json")
    (kept,) = (tmp_path / "home").rglob("learned_models.json")
    (entry,) = LearnedModels(kept, ManualClock(running.state.messages[-1].at)).models.values()
    assert (entry.dropped, entry.rung("auto", calls=True)) == ({"temperature"}, "tools")


async def test_an_address_without_its_version_is_corrected_at_the_first_request_and_said_once(
    tmp_path: Path,
) -> None:
    replies = script(done("Hello."), done("Again."))
    async with session(tmp_path, replies, versioned=False) as running:
        await running.turn("hello")
        await running.turn("hello again")
        posted = [r.path for r in running.server.requests if r.method == "POST"]
        assert posted == ["/chat/completions", *["/v1/chat/completions"] * 2]
        assert running.notices().count("llm.learned.version") == 1
        assert running.engine.models.endpoints["cli"].base_url.endswith("/v1")


async def test_a_server_that_has_nothing_at_its_version_either_is_asked_there_once() -> None:
    async with ScriptedEndpoint(main(), guard=nothing_but("/api/")) as server:
        settings = {"base_url": server.base_url.removesuffix("/v1")}
        at = Bench(server, environ={}, silent_s=10.0, settings=settings)
        with pytest.raises(LlmError) as raised:
            await at.decide()
        await at.service.aclose()
        assert raised.value.code == "not_found"
        posted = [request.path for request in server.requests if request.method == "POST"]
        assert posted == ["/chat/completions", "/v1/chat/completions"]


def target(url: str = "http://127.0.0.1:1/v1") -> Target:
    return Target(Endpoint(name="here", base_url=url), "m")


def test_what_was_learned_holds_for_its_model_for_a_week(tmp_path: Path) -> None:
    path = tmp_path / "data" / "learned.json"
    first = LearnedModels(path, ManualClock(1000.0))
    first.models["http://127.0.0.1:1 m"].flags.add("no_tools")
    first.keep_lesson("tools", target())
    assert "no_tools" not in first.models["http://127.0.0.1:1 other"].flags
    soon, late = (ManualClock(1000.0 + LEARNED_FOR + by) for by in (-1, 1))
    assert "no_tools" in LearnedModels(path, soon).models["http://127.0.0.1:1 m"].flags
    assert "no_tools" not in LearnedModels(path, soon).models["http://127.0.0.1:1 other"].flags
    assert "no_tools" not in LearnedModels(path, late).models["http://127.0.0.1:1 m"].flags


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"x": {"flags": ["perhaps"]}}'])
def test_a_file_that_cannot_be_read_is_as_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "learned.json"
    path.write_bytes(data)
    kept = LearnedModels(path)
    assert "no_tools" not in kept.models["x"].flags
    kept.models["http://127.0.0.1:1 m"].flags.add("no_tools")
    kept.keep_lesson("tools", target())
    assert "no_tools" in LearnedModels(path).models["http://127.0.0.1:1 m"].flags
