"""The scripted endpoint picks its replies by what a request holds."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoint import bench, decision, prompt, script

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.scripted.replies import Reply, When
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, UserMessage
from duckflow_tui.state.decision import Action, TurnDecision
from duckflow_tui.state.operations import OperationResult, Outcome

ASKED = TurnDecision(
    decision_id="llm_0",
    rationale="Mend it.",
    actions=(
        Action(
            call_id="call_1",
            operation="file_ops.write_file",
            args={"path": "a.py"},
            reasoning="to mend it",
            alternatives=("only a comment", "a new file"),
        ),
    ),
)


def after(outcome: Outcome, text: str) -> tuple[Message, ...]:
    return (
        UserMessage(message_id="m1", text="Mend a.py, do not talk of rejected by the user", at=0.0),
        AssistantMessage(message_id="m2", llm_id="llm_0", text="", decision=ASKED, at=0.0),
        OperationMessage(
            call_id="call_1",
            operation="file_ops.write_file",
            args={},
            result=OperationResult(outcome=outcome, text=text),
            at=0.0,
        ),
    )


def answer(text: str, **when: str) -> Reply:
    return Reply(decision=decision(reply=text), when=When.model_validate(when), repeat=True)


REPLIES = (
    answer("as you wish", gate="rejected"),
    answer("a new file then", gate="alternative:2"),
    answer("a comment then", gate="alternative:1"),
    answer("too big", gate="error", pattern="too large"),
    answer("done", gate="approved"),
)


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize(
    ("outcome", "text", "reply"),
    [
        (Outcome.REJECTED, "rejected by the user: not now", "as you wish"),
        (Outcome.DECLINED, 'the user chose the alternative "a new file"', "a new file then"),
        (Outcome.DECLINED, 'the user chose the alternative "only a comment"', "a comment then"),
        (Outcome.ERROR, "the file is too large", "too big"),
        (Outcome.OK, "written", "done"),
        (Outcome.ERROR, "no room", "I do not know how to go on."),
    ],
)
async def test_a_reply_is_chosen_by_what_came_of_the_gate(
    protocol: str, outcome: Outcome, text: str, reply: str
) -> None:
    fallback = {"*": Reply(decision=decision(reply="I do not know how to go on."))}
    replies = script(*REPLIES, fallback=fallback)
    async with bench(replies, protocol=protocol) as at:
        made = (await at.decide(prompt(*after(outcome, text)))).decision
    assert made is not None
    assert made.reply == reply


async def test_replies_are_used_up_in_order_and_then_the_endpoint_says_so() -> None:
    replies = script(Reply(text="one"), Reply(text="two"))
    async with bench(replies) as at:
        assert [(await at.decide()).text for _ in range(2)] == ["one", "two"]
        with pytest.raises(LlmError, match="nothing left to say") as caught:
            await at.decide()
        at.server.add("main", Reply(text="three"))
        assert (await at.decide()).text == "three"
    assert caught.value.code == "bad_request"


async def test_a_key_that_the_script_asks_for_must_come() -> None:
    replies = script(Reply(text="in"), key="k-1")
    async with bench(replies, environ={"K": "k-1"}, api_key_env="K") as at:
        assert (await at.decide()).text == "in"
    async with bench(replies, environ={"K": "other"}, api_key_env="K") as at:
        with pytest.raises(LlmError) as caught:
            await at.decide()
    assert caught.value.code == "auth"


async def test_every_request_is_kept_as_it_came() -> None:
    async with bench(script(Reply(text="x"))) as at:
        await at.decide()
    request: Any = at.server.of("main")[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["x-duckflow-purpose"] == "main"
    assert "Read a.py" in request.text
    assert b'"stream":true' in request.raw.replace(b" ", b"")
