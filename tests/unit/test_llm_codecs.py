"""Conversation and decisions as the two codecs write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.endpoint import Heard, decision, prompt
from support.model_words import WORDS
from support.pinned import CountingIds, ManualClock

from duckflow_tui.llm import codec_json, codec_tools
from duckflow_tui.llm.codec import decision_schema, wire_name
from duckflow_tui.llm.completion import Completion, NativeCall
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, NoticeMessage, UserMessage
from duckflow_tui.state.decision import MAX_ACTIONS, Action, NextStep, SelfCheck, TurnDecision
from duckflow_tui.state.operations import Effect, OperationResult, OperationSpec, Outcome
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.prompt import Prompt

ACTIONS = (
    Action(
        call_id="call_1",
        wire_id="w1",
        operation="file_ops.read_file",
        args={"path": "日本.py"},
        reasoning="to see it",
        intent="know it",
    ),
    Action(
        call_id="call_2",
        operation="file_ops.write_file",
        args={"path": "b.py"},
        reasoning="to mend it",
        alternatives=("leave it",),
    ),
)
MADE = TurnDecision(
    decision_id="llm_1", rationale="First look.", reply="I look.",
    goal_consistency=SelfCheck(ok=True, reason="asked"),
    constraint_check=SelfCheck(ok=True), step=Phase.EXECUTION, actions=ACTIONS,
)  # fmt: skip


def user(text: str) -> UserMessage:
    return UserMessage(message_id=f"m_{text}", text=text, at=0.0)


def said(made: TurnDecision | None = MADE, **fields: Any) -> AssistantMessage:
    text = made.reply if made else "words"
    return AssistantMessage.model_validate(
        {"message_id": "a", "llm_id": "llm_1", "text": text, "decision": made, "at": 0.0, **fields}
    )


def result(call_id: str, outcome: Outcome = Outcome.OK, text: str = "print()") -> OperationMessage:
    return OperationMessage(
        call_id=call_id, operation="file_ops.read_file", args={},
        result=OperationResult(outcome=outcome, text=text), at=0.0,
    )  # fmt: skip


def notice(words: str) -> NoticeMessage:
    return NoticeMessage(message_id=f"n_{words}", key="k", for_model=words, at=0.0)


HISTORY: tuple[Message, ...] = (
    user("Mend it"),
    said(),
    result("call_1"),
    notice(""),
    result("call_2", Outcome.REJECTED, "rejected by the user: not now"),
    notice("A file changed."),
    said(MADE.model_copy(update={"decision_id": "llm_2", "actions": (), "reply": "Fine."})),
    user("Thanks"),
    said(None, complete=False),
    said(None, raw="{bad"),
)


def texts(messages: list[JsonObject]) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in messages]


def test_json_history_has_one_message_for_each_run_of_results() -> None:
    messages = codec_json.encode_request(prompt(*HISTORY)).messages
    assert [m["role"] for m in messages] == [
        "system", "user", "assistant", "user", "user", "assistant", "user", "assistant",
        "assistant", "user",
    ]  # fmt: skip
    results = messages[3]["content"]
    assert "1. file_ops.read_file [ok] print()" in results
    assert "[rejected] rejected by the user: not now" in results
    assert texts(messages)[-3:] == [
        ("assistant", "words [cut off]"),
        ("assistant", "{bad"),
        ("user", "Goal: test"),
    ]
    assert messages[0]["content"] == "You are a pair programmer.\n\nAnswer with JSON."


def test_what_the_json_codec_writes_of_a_decision_it_reads_as_the_same() -> None:
    text = codec_json.decision_text(MADE)
    assert list(json.loads(text))[:2] == ["rationale", "reply"]
    assert "日本.py" in text
    completion = completion_of()
    completion.add_chunk(_chunk(text))
    decoder = codec_json.JsonDecoder(lambda piece: None)
    read = decoder.decode(completion, prompt(), CountingIds(), "llm_1").decision
    assert read is not None
    forget = {"call_id": "", "wire_id": ""}
    assert [a.model_copy(update=forget) for a in read.actions] == [
        a.model_copy(update=forget) for a in MADE.actions
    ]
    assert read.model_copy(update={"actions": ()}) == MADE.model_copy(update={"actions": ()})


def test_every_native_call_gets_its_result_in_the_order_of_the_calls() -> None:
    late = (user("Go"), said(), result("call_2"), user("wait"), notice("seen"))
    messages = codec_tools.encode_request(prompt(*late)).messages
    calls = messages[2]["tool_calls"]
    assert [c["function"]["name"] for c in calls] == [
        "decide", "file_ops__read_file", "file_ops__write_file",
    ]  # fmt: skip
    assert [c["id"] for c in calls] == ["decide_llm_1", "w1", "call_2"]
    assert json.loads(calls[2]["function"]["arguments"]) == {"path": "b.py"}
    assert json.loads(calls[0]["function"]["arguments"])["calls"] == [
        {"reasoning": "to see it", "intent": "know it"},
        {"reasoning": "to mend it", "alternatives": ["leave it"]},
    ]
    answers = messages[3:6]
    assert [(m["role"], m["tool_call_id"], m["content"]) for m in answers] == [
        ("tool", "decide_llm_1", "noted"),
        ("tool", "w1", "not executed"),
        ("tool", "call_2", "[ok] print()"),
    ]
    assert texts(messages[6:]) == [("user", "wait"), ("user", "seen"), ("user", "Goal: test")]


def test_a_plain_answer_needs_no_call() -> None:
    plain = TurnDecision(decision_id="llm_3", reply="Hello.", next_step=NextStep.DONE)
    messages = codec_tools.encode_request(prompt(user("Hi"), said(plain))).messages
    assert messages[2] == {"role": "assistant", "content": "Hello."}


@pytest.mark.parametrize("encode", [codec_json.encode_request, codec_tools.encode_request])
def test_each_request_is_the_beginning_of_the_next(encode: Any) -> None:
    for length in (1, 6, 7, 8, 9, 10):
        made = encode(prompt(*HISTORY[:length], tail="one"))
        shorter = made.messages[: made.shared]
        whole = encode(prompt(*HISTORY, tail="another")).messages
        assert json.dumps(whole[: len(shorter)]) == json.dumps(shorter)


def test_text_that_utf8_cannot_carry_is_replaced() -> None:
    for encode in (codec_json.encode_request, codec_tools.encode_request):
        message = encode(prompt(user("a\ud800b 🦆"))).messages[-1]
        assert message["content"] == "a\ufffdb 🦆"
        message["content"].encode("utf-8")


def test_the_schema_puts_what_is_read_first_first() -> None:
    """Covers S4-57."""
    schema = decision_schema()
    assert list(schema["properties"])[:4] == [
        "rationale", "reply", "goal_consistency", "constraint_check",
    ]  # fmt: skip
    assert list(schema["properties"])[-1] == "actions"
    assert set(schema["required"]) == {"rationale", "step", "next_step"}
    assert schema["properties"]["prompt_pattern"]["enum"] == ["base_main", "base_main_specialized"]
    assert "$ref" not in json.dumps(schema)
    form = codec_json.encode_request(prompt()).response_format
    assert form is not None
    assert form["json_schema"]["strict"] is False


def test_a_parameter_called_reasoning_stays_the_operation_s_own() -> None:
    spec = OperationSpec(
        name="mcp.x.think", summary="Thinks.", effect=Effect.READ,
        parameters={"type": "object", "properties": {"reasoning": {"type": "string"}}},
    )  # fmt: skip
    request = Prompt(system="s", operations=(spec,))
    own = codec_tools.encode_request(request).tools[1]["function"]["parameters"]["properties"]
    assert set(own) == {"reasoning"}
    decide = NativeCall("d", "decide", ['{"rationale": "r", "calls": [{"reasoning": "why"}]}'])
    think = NativeCall("w", "mcp__x__think", ['{"reasoning": "mine"}'])
    read = decoded(request, decide, think)
    assert read.decision is not None
    assert read.decision.actions[0].args == {"reasoning": "mine"}
    assert read.decision.actions[0].reasoning == "why"


def test_what_a_call_is_for_is_told_once_for_all_calls_and_read_wherever_it_stands() -> None:
    """Also where a model writes it beside the arguments of the call."""
    functions = codec_tools.encode_request(prompt()).tools
    assert "intent" not in json.dumps(functions[1:])
    about = [{"reasoning": "see", "intent": "know it", "alternatives": ["guess"]}, "junk"]
    told = judged(rationale="Look, then mend.", calls=about)
    bare = NativeCall("w3", "file_ops__write_file", ['{"path": "b"}'])
    beside = NativeCall("w4", "file_ops__write_file", ['{"path": "c", "intent": "mended"}'])
    look = NativeCall("w", "file_ops__read_file", ['{"path": "a"}'])
    read = decoded(prompt(), told, look, bare, beside)
    assert read.problems == ()
    first, second, third = read.decision.actions
    assert (first.reasoning, first.intent, first.alternatives) == ("see", "know it", ("guess",))
    assert (second.args, second.reasoning, second.intent) == ({"path": "b"}, "Look, then mend.", "")
    assert (third.args, third.intent) == ({"path": "c"}, "mended")


def test_a_call_takes_its_reason_from_the_judgement_that_came_alone_before_it() -> None:
    alone = MADE.model_copy(update={"actions": ()})
    request = prompt(user("Mend it"), said(alone))
    read = decoded(request, NativeCall("w", "file_ops__write_file", ['{"path": "b"}']))
    assert read.problems == ()
    assert [action.reasoning for action in read.decision.actions] == ["First look."]


def test_an_operation_without_a_function_is_called_by_the_one_for_all_such() -> None:
    """By its own name it is understood as well; the history has the form that is on offer."""
    request = prompt().model_copy(update={"known": prompt().operations, "operations": ()})
    names = [tool["function"]["name"] for tool in codec_tools.encode_request(request).tools]
    assert names == ["decide", "operation"]
    named = {"name": "file_ops.read_file", "args": json.dumps({"path": "a"})}
    nested = {**named, "args": {"path": "a"}}
    for written in (named, nested):
        call = NativeCall("w1", "operation", [json.dumps(written)])
        (made,) = decoded(request, call).decision.actions
        assert (made.operation, made.args) == ("file_ops.read_file", {"path": "a"})
    assert [a.operation for a in decoded(request, READ).decision.actions] == ["file_ops.read_file"]
    sent = codec_tools.encode_request(
        request.model_copy(update={"history": (user("x"), said(MADE))})
    )
    called, *_ = [c["function"] for m in sent.messages for c in m.get("tool_calls", ())
                 if c["function"]["name"] == "operation"]  # fmt: skip
    assert json.loads(called["arguments"])["name"] == MADE.actions[0].operation


def completion_of() -> Completion:
    heard = Heard()
    return Completion(heard.take_reply, heard.take_reasoning, ManualClock())


def _chunk(text: str) -> Any:
    from duckflow_tui.llm.wire import WireChunk

    return WireChunk.model_validate({"choices": [{"message": {"content": text}}]})


def decoded(request: Prompt, *calls: NativeCall, text: str = "", finish: str = "stop") -> Any:
    completion = completion_of()
    if text:
        completion.add_chunk(_chunk(text))
    completion.calls = list(calls)
    completion.finish = finish
    decoder = codec_tools.ToolsDecoder(lambda piece: None)
    return decoder.decode(completion, request, CountingIds(), "llm_9")


def judged(**fields: Any) -> NativeCall:
    data = {k: v for k, v in decision(**fields).items() if k not in ("reply", "actions")}
    return NativeCall("d", "decide", [json.dumps(data)])


READ = NativeCall("w1", "file_ops__read_file", ['{"path": "a", "reasoning": "see"}'])
WRITE = NativeCall("w2", "file_ops__write_file", ['{"path": "a", "reasoning": "mend"}'])


def test_calls_without_decide_are_not_stated_and_go_on() -> None:
    """Covers S4-58."""
    for calls in ((READ,), (READ, WRITE)):
        read = decoded(prompt(), *calls)
        assert read.problems == ()
        assert len(read.decision.actions) == len(calls)
        assert read.decision.next_step is NextStep.CONTINUE
        assert read.decision.goal_consistency.ok is None


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (
            [NativeCall("w", "file_ops__write_file", ['{"path": "a", "reason'])],
            "args must be an object",
        ),
        ([NativeCall("w", "file_ops__write_file", ['{"path": "a", "path": "b"}'])], "duplicate"),
        ([NativeCall("w", "file_ops__wrlte_file", ["{}"])], "file_ops.write_file"),
        ([judged()], "more than once"),
    ],
)
def test_one_malformed_call_is_a_problem_of_the_whole_reply(
    calls: list[NativeCall], words: str
) -> None:
    """Covers S4-58, R16."""
    read = decoded(prompt(), judged(), READ, *calls)
    assert any(words in WORDS(problem) for problem in read.problems)
    assert [a.operation for a in read.decision.actions] == ["file_ops.read_file"]


@pytest.mark.parametrize("index", ["own", "always 0", "none"])
def test_of_a_flood_of_calls_few_are_kept_and_the_model_is_told_how_many_came(
    index: str,
) -> None:
    from duckflow_tui.llm.wire import WireChunk

    completion, most, flood = completion_of(), MAX_ACTIONS + 1, 2_000
    for number in range(flood):
        for name, text in (("file_ops__read_file", '{"path": '), (None, '"a"}')):
            function = {"name": name, "arguments": text}
            at = {"own": number, "always 0": 0}.get(index)
            call = {"index": at, "id": f"c{number}", "function": function}
            delta = {"delta": {"tool_calls": [call]}}
            completion.add_chunk(WireChunk.model_validate({"choices": [delta]}))
    assert [call.wire_id for call in completion.calls] == [f"c{n}" for n in range(most)]
    assert {call.argument_text for call in completion.calls} == {'{"path": "a"}'}
    decoder = codec_tools.ToolsDecoder(lambda piece: None)
    read = decoder.decode(completion, prompt(), CountingIds(), "llm_9")
    assert read.decision is not None
    assert read.decision.actions == ()
    assert WORDS(read.problems[0]).startswith(f"{flood} actions in one reply")
    assert len(read.raw) < 2_000


def test_calls_written_as_text_are_read_and_marked_and_an_empty_list_is_no_answer() -> None:
    text = '{"name": "file_ops__read_file", "arguments": {"path": "a"}}'
    for said in (text, f'{{"reply": "I look.", "actions": [{text.replace("name", "operation")}]}}'):
        read = decoded(prompt(), text=said.replace("arguments", "args"))
        (action,) = read.decision.actions
        assert (action.operation, action.args) == ("file_ops.read_file", {"path": "a"})
        assert action.from_text
    assert "cannot be read" in WORDS(decoded(prompt(), text='{"actions": []}').problems[0])
    assert decoded(prompt(), text='{"version": 1}').problems == ()
    shown = 'The workflow reads:\n```json\n{"actions": ["test", "lint"]}\n```'
    answer = decoded(prompt(), text=shown)
    assert (answer.problems, answer.text, answer.decision.actions) == ((), shown, ())


def test_a_call_without_a_reason_has_that_of_its_message() -> None:
    bare = NativeCall("w", "read_file", ['{"path": "a",}'])
    assert decoded(prompt(), bare, text="I look.").decision.actions[0].reasoning == "I look."
    read = decoded(prompt(), judged(rationale="To see it."), bare)
    assert read.decision.actions[0].reasoning == "To see it."
    assert (read.problems, read.decision.actions[0].args) == ((), {"path": "a"})


def test_two_calls_with_one_id_are_told_apart() -> None:
    twin = NativeCall("w1", "file_ops__read_file", ['{"path": "b", "reasoning": "see"}'])
    actions = decoded(prompt(), READ, twin).decision.actions
    assert [a.wire_id for a in actions] == ["w1", ""]
    assert actions[0].call_id != actions[1].call_id


def test_a_name_on_the_wire_is_one_that_providers_take_and_two_are_never_one() -> None:
    assert wire_name("file_ops.read_file") == "file_ops__read_file"
    assert wire_name("mcp.鴨.get item") == "mcp_____get_item"
    assert wire_name("x" * 64) == "x" * 64
    one, two = (wire_name("mcp.server." + "a" * 60 + end) for end in "xy")
    assert (len(one), one[:56], one != two) == (64, two[:56], True)
