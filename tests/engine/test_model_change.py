"""Another model takes over in the middle of a session, at another server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from support.session import action, decision, done, script, session, with_project

from duckflow_tui.llm.connections import ModelLine
from duckflow_tui.llm.endpoints import Endpoint, ModelRef, ModelsInUse, Roles
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Fault, Reply
from duckflow_tui.session.resume import open_to_read
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.session import ModelsChosen
from duckflow_tui.state.usage import LlmCallFinished

READ = {"reasoning": "to see it", "path": "a.py"}


def second(server: ScriptedEndpoint, **fields: object) -> dict[str, Endpoint]:
    """The endpoints of a session with this server as ``two`` beside the first one."""
    made = {"name": "two", "base_url": server.base_url, **fields}
    return {"two": Endpoint.model_validate(made)}


def in_use(
    endpoints: Mapping[str, Endpoint], line: ModelLine | None = None, **roles: str
) -> ModelsInUse:
    """These models, without keys; ``line`` is what the server says of the main one."""
    origin = endpoints[ModelRef.parse(roles["main"]).endpoint].origin
    known = KnownModels().with_chosen(origin, line)
    return ModelsInUse(dict(endpoints), Roles.model_validate(roles), {}, known)


def thinking_call() -> Reply:
    """A native call behind reasoning."""
    function = {"name": "file_ops__read_file", "arguments": json.dumps(READ)}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    deltas = [{"reasoning_content": "I read."}, {"tool_calls": [call]}]
    events = [json.dumps({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas]
    events.append(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    return Reply(raw=(*(f"data: {event}\n\n" for event in events), "data: [DONE]\n\n"))


async def test_the_next_turn_is_answered_by_the_new_model_at_its_server(tmp_path: Path) -> None:
    """With the window and the price of the new one; the journal says from when."""
    async with (
        ScriptedEndpoint(script(done("Two here."))) as other,
        session(with_project(tmp_path), script(done("One here.")), window=9_000) as s,
    ):
        await s.turn("hello")
        endpoints = second(other, context=50_000, price_in=1_000.0, price_out=1_000.0)
        assert s.engine.choose_models(in_use(endpoints, main="two/newer"))
        assert (s.state.session.endpoint, s.state.session.model) == ("two", "newer")
        assert s.state.usage.context_window == 50_000
        assert s.state.usage.cost is None
        await s.turn("hello again")
        assert len(s.server.of("main")) == 1
        (asked,) = other.of("main")
        assert asked.json["model"] == "newer"
        assert "hello again" in asked.text
        assert "One here." in asked.text
        assert s.state.usage.cost is not None
        calls = [(e.call.endpoint, e.call.model) for e in s.events(LlmCallFinished)]
        assert calls == [("cli", "scripted"), ("two", "newer")]
        order = [e for e in s.records if isinstance(e.event, LlmCallFinished | ModelsChosen)]
        assert [e.event.kind for e in order] == ["llm_call", "models_chosen", "llm_call"]
        assert "llm.answers.main" in s.notices()
        folder = s.ending.folder
    assert folder is not None
    assert open_to_read(folder).state.session.model == "newer"


async def test_while_a_turn_runs_it_waits_for_its_end(tmp_path: Path) -> None:
    """The turn in hand keeps its model; the message that waits is for the new one."""
    first = decision("I look.", action("file_ops.read_file", path="a.py"))
    held = done("One here.").model_copy(update={"hold": "rest"})
    async with (
        ScriptedEndpoint(script(done("Two here."))) as other,
        session(with_project(tmp_path), script(first, held)) as s,
    ):
        await s.engine.send("look at a.py")
        await s.server.reached("rest")
        await s.engine.send("and then?", when="next")
        assert not s.engine.choose_models(in_use(second(other), main="two/newer"))
        assert s.state.session.model == "scripted"
        s.server.release("rest")
        await s.ended(2)
        assert (len(s.server.of("main")), len(other.of("main"))) == (2, 1)
        said = [m.text for m in s.state.messages if isinstance(m, AssistantMessage)]
        assert said == ["I look.", "One here.", "Two here."]
        assert len(s.events(ModelsChosen)) == 1


async def test_reasoning_of_the_model_before_is_not_sent_to_the_new_one(tmp_path: Path) -> None:
    """The turn failed behind the first call and goes on with another model."""
    broken = Reply(fault=Fault(status=400, body='{"error": {"message": "no"}}'))
    replies = script(thinking_call(), broken)
    async with (
        ScriptedEndpoint(script(done("It says 1."))) as other,
        session(with_project(tmp_path), replies, protocol="tools") as s,
    ):
        assert (await s.turn("what does a.py say?")).outcome == "failed"
        assert "I read." in json.dumps(s.server.of("main")[1].json)
        s.engine.choose_models(in_use(second(other, protocol="tools"), main="two/newer"))
        assert await s.engine.retry()
        assert (await s.ended(2)).outcome == "done"
        assert "I read." not in json.dumps(other.of("main")[0].json)
        assert "x = 1" in other.of("main")[0].text


async def test_what_one_model_refused_is_asked_of_the_other(tmp_path: Path) -> None:
    """The first server takes no calls; the second is asked with calls all the same."""
    refused = Reply(
        fault=Fault(status=400, body='{"error": {"message": "tools are not supported"}}')
    )
    async with (
        ScriptedEndpoint(script(done("Two here."))) as other,
        session(with_project(tmp_path), script(refused, done("One.")), protocol="auto") as s,
    ):
        await s.turn("hello")
        assert "tools" not in s.server.of("main")[1].json
        s.engine.choose_models(in_use(second(other), main="two/newer"))
        await s.turn("hello again")
        assert other.of("main")[0].json["tools"]


async def test_another_role_alone_can_be_given_to_another_model(tmp_path: Path) -> None:
    """What judges is the new one; what decides stays."""
    asked = [{"requirement": "it is", "priority": 1, "check": {"kind": "judgement", "value": ""}}]
    replies = script(done("Yes, it is so.", requirements=asked))
    async with (
        ScriptedEndpoint(script()) as other,
        session(with_project(tmp_path), replies) as s,
    ):
        both = {**s.engine.models.endpoints, **second(other)}
        assert s.engine.choose_models(in_use(both, main="cli/scripted", evaluator="two/judge"))
        await s.turn("is it so?")
        assert [r.json["model"] for r in other.of("satisfaction")] == ["judge"]
        assert s.server.of("satisfaction") == []
        assert s.state.session.model == "scripted"
        assert [n for n in s.notices() if n.startswith("llm.")] == ["llm.answers.evaluator"]


async def test_the_window_and_the_price_that_a_server_lists_of_the_model_count(
    tmp_path: Path,
) -> None:
    """Another model of the same server has its own, as listed; what the settings say goes first."""
    line = ModelLine(id="newer", context=70_000, price_in=1_000.0, price_out=2_000.0)
    async with session(with_project(tmp_path), script(done("One."), done("Two."))) as s:
        cli = s.engine.models.endpoints["cli"]
        s.engine.choose_models(in_use({"cli": cli}, line, main="cli/newer"))
        assert s.state.usage.context_window == 70_000
        await s.turn("hello")
        call = s.events(LlmCallFinished)[-1].call
        assert call.cost == (call.tokens_in * 1_000.0 + call.tokens_out * 2_000.0) / 1_000_000
        own = cli.model_copy(update={"context": 9_000, "price_in": 0.0})
        s.engine.choose_models(in_use({"cli": own}, line, main="cli/newer"))
        assert s.state.usage.context_window == 9_000
        await s.turn("hello again")
        assert s.events(LlmCallFinished)[-1].call.cost == 0.0
