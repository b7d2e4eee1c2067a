from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden import assert_golden
from support.prompt_states import OPERATIONS, START, Talk, compiler
from support.work_states import (
    ASIDE_OPERATIONS,
    LIST,
    PROPOSE,
    READING,
    STEP_OPERATIONS,
    WRITING,
    waiting,
    working_talk,
)

from duckflow_tui.llm import codec_json, codec_tools
from duckflow_tui.prompting.compiler import PromptCompiler, prompt_tokens
from duckflow_tui.startup_facts import LANGUAGES
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import BESIDE_THE_WORK, AssistantMessage, Message, UserMessage
from duckflow_tui.state.decision import Action, PromptPattern
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.plan import Plan, ReportMessage, StepReport
from duckflow_tui.state.prompt import Prompt

Encode = Callable[[Prompt], list[dict[str, Any]]]


def as_json(prompt: Prompt) -> list[dict[str, Any]]:
    return codec_json.encode_request(prompt).messages


def as_tools(prompt: Prompt) -> list[dict[str, Any]]:
    return codec_tools.encode_request(prompt).messages


CODECS = pytest.mark.parametrize("encode", [as_json, as_tools])


def of_step(talk: Talk, of: PromptCompiler | None = None, thread: str = WRITING) -> Prompt:
    return (of or compiler()).compile(talk.state, STEP_OPERATIONS, thread=thread)


def of_aside(talk: Talk, of: PromptCompiler | None = None, answers: str = "") -> Prompt:
    return (of or compiler()).compile(talk.state, ASIDE_OPERATIONS, aside=True, answers=answers)


def of_turn(talk: Talk, of: PromptCompiler | None = None) -> Prompt:
    return (of or compiler()).compile(talk.state, OPERATIONS)


def with_step(plan: Plan, step_id: str, **update: Any) -> Plan:
    step = plan.get_step(step_id)
    assert step is not None
    return plan.with_step(step.model_copy(update=update))


def stays(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> bool:
    """Whether all of a request before its note begins the next one."""
    kept = before[: _find_note(before)]
    return now[: len(kept)] == kept


def _find_note(messages: list[dict[str, Any]]) -> int:
    """The index of the app's note; 0 where there is none."""
    begins = "[Written by the app, not"
    return next(
        (at for at, m in enumerate(messages) if str(m.get("content")).startswith(begins)), 0
    )


def no_result_without_its_call(history: tuple[Message, ...]) -> bool:
    asked: set[str] = set()
    for item in history:
        if isinstance(item, AssistantMessage) and item.decision:
            asked |= {action.call_id for action in item.decision.actions}
        elif isinstance(item, OperationMessage) and item.call_id not in asked:
            return False
    return True


# --- what a step reads ------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_tail_of_a_step(language: str) -> None:
    """Covers S3-17, S3-18, S3-30."""
    prompt = compiler(language).compile(
        working_talk().state, (*STEP_OPERATIONS, *ASIDE_OPERATIONS[1:]), thread=WRITING
    )
    assert_golden(f"prompt_{language}_step", prompt.tail)


@CODECS
def test_a_request_for_a_step_has_every_part_a_decision_needs(encode: Encode) -> None:
    """Covers S3-14, S3-16."""
    of = compiler()
    of.instructions = "Use four spaces."
    state = working_talk().state
    prompt = of.compile(state, STEP_OPERATIONS, thread=WRITING)
    messages = encode(prompt)
    system, tail = messages[0]["content"], messages[_find_note(messages)]["content"]
    operations, look = system, "- files.look(path: string"
    if encode is as_tools:
        operations, look = (
            json.dumps(codec_tools.encode_request(prompt).tools),
            '"name": "files__look"',
        )
    parts = {
        "role": "You are the user's pair programmer" in system,
        "tools": look in operations,
        "custom instructions": "Use four spaces." in system,
        "format and example": "next_step" in system and "rationale" in system,
        "request": "Show me today's weather of my city" in messages[1]["content"],
        "results": any("No such file: weather.json" in m["content"] for m in messages[2:-1]),
        "criteria": "It is done when a result shows" in tail,
        "cautions": "no {{…}} stands for it" in system,
    }
    assert [name for name, there in parts.items() if not there] == []
    assert "# Project instructions\nNone." in of_step(working_talk()).system


def test_a_step_reads_the_conversation_of_which_it_is_a_part() -> None:
    talk = working_talk()
    of = compiler()
    step, turn = of_step(talk, of), of_turn(talk, of)
    assert "Step 2: Write the page: Put the weather of the city" in step.tail
    assert step.history == turn.history == tuple(talk.state.messages)


def crowded(talk: Talk) -> None:
    """Results come that leave no room for those before them."""
    talk.state.usage = talk.state.usage.model_copy(update={"context_window": 16_000})
    for n in range(8):
        (call,) = talk.act(f"src/large_{n}.py", step_id=WRITING)
        talk.came(call, "z = 3\n" * 5_000, step_id=WRITING)


def test_beside_the_work_a_result_is_cut_to_200_characters_and_its_reason_is_whole() -> None:
    """Covers S3-15."""
    talk = working_talk()
    (call,) = talk.act("big.txt", step_id=WRITING)
    talk.came(call, "0123456789" * 500_000, step_id=WRITING)
    talk.user("What did it read?", aside=True)
    line = next(line for line in of_aside(talk).tail.splitlines() if '(path: "big.txt")' in line)
    shown = re.fullmatch(
        r'- files\.look\(path: "big\.txt"\) -> \[ok\] (\S+) \(see big\.txt\)', line
    )
    assert shown is not None
    assert len(shown.group(1)) == 200


@CODECS
def test_a_request_of_a_step_begins_with_the_one_before_it(encode: Encode) -> None:
    talk = working_talk()
    of = compiler()
    before = encode(of_step(talk, of))
    for n in range(5):
        (call,) = talk.act(f"src/{n}.py", step_id=WRITING)
        talk.user("How far?", aside=True)
        talk.notice("a file changed")
        of_aside(talk, of)
        of_turn(talk, of)
        talk.came(call, "x = 1\n" * 50, step_id=WRITING)
        now = encode(of_step(talk, of))
        assert stays(before, now)
        assert len(now) > len(before)
        before = now


def test_a_step_that_outgrows_the_window_keeps_the_request_and_whole_decisions() -> None:
    talk = working_talk()
    talk.state.usage = talk.state.usage.model_copy(update={"context_window": 16_000})
    of = compiler()
    for n in range(60):
        (call,) = talk.act(f"src/big_{n}.py", step_id=WRITING)
        talk.came(call, "z = 3\n" * 250, step_id=WRITING)
        prompt = of_step(talk, of)
        assert prompt_tokens(prompt) <= 16_000
        assert isinstance(prompt.history[0], UserMessage)
        assert no_result_without_its_call(prompt.history)
    assert "read src/big_" in of_step(talk, of).tail


def test_what_the_user_wants_is_never_cut_from_a_step() -> None:
    """Covers S3-30."""
    talk = working_talk()
    waiting(talk.state)
    for n in range(20):
        (call,) = talk.act(f"src/{n}.py", step_id=WRITING)
        talk.came(call, "日本語の結果 " * 40, step_id=WRITING)
    crowded(talk)
    prompt = of_step(talk)
    main = next(use for use in prompt.uses if use.layer == "main")
    assert main.tokens <= main.budget
    for kept in ("names the user's city", "no JavaScript", "page.html names", "style.css"):
        assert kept in prompt.tail


def test_a_thread_that_is_no_step_is_refused() -> None:
    talk = working_talk()
    with pytest.raises(ValueError, match="step_ffffffff"):
        of_step(talk, thread="step_ffffffff")
    with pytest.raises(ValueError, match="aside"):
        compiler().compile(talk.state, OPERATIONS, thread=WRITING, aside=True)


# --- an answer beside the work ----------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_tail_of_an_aside(language: str) -> None:
    talk = working_talk()
    waiting(talk.state)
    talk.act("a.py")
    talk.user("How far are you?", aside=True)
    prompt = compiler(language).compile(talk.state, ASIDE_OPERATIONS, aside=True)
    assert_golden(f"prompt_{language}_aside", prompt.tail)


@pytest.mark.parametrize("language", LANGUAGES)
def test_only_operations_that_are_offered_are_spoken_of(language: str) -> None:
    """Covers S2-25."""
    talk = working_talk()
    of = compiler(language)
    names = {spec.name for spec in (*ASIDE_OPERATIONS, PROPOSE, LIST)} - {"files.look"}

    def spoken(operations: tuple[OperationSpec, ...], **how: Any) -> set[str]:
        prompt = of.compile(talk.state, operations, **how)
        return {name for name in names if name in prompt.system + prompt.tail}

    assert spoken(ASIDE_OPERATIONS, aside=True) == names - {PROPOSE.name, LIST.name}
    assert spoken(ASIDE_OPERATIONS[:1], aside=True) == set()
    assert spoken(STEP_OPERATIONS, thread=WRITING) == set()
    talk.state.plans, talk.state.active_plan_id = (), None
    talk.state.phase = Phase.PLANNING
    special = PromptPattern.BASE_MAIN_SPECIALIZED
    assert spoken((*OPERATIONS, PROPOSE, LIST), pattern=special) == {PROPOSE.name}
    assert spoken(OPERATIONS, pattern=special) == set()


def test_an_aside_leaves_out_the_reply_whose_calls_still_run() -> None:
    talk = working_talk()
    of = compiler()
    settled = tuple(talk.state.messages)
    first, last = talk.act("a.py", "b.py")
    talk.came(first, "A")
    asked = talk.user("How far are you?", aside=True)
    assert of_aside(talk, of).history == (*settled, asked)
    talk.came(last, "B")
    assert of_aside(talk, of).history[: len(settled) + 1] == (*settled, asked)
    assert of_aside(talk, of).history[len(settled) + 1 :] == (
        talk.state.messages[-4],
        talk.state.messages[-3],
        talk.state.messages[-1],
    )


def test_an_aside_shows_a_reply_whose_calls_were_never_made() -> None:
    talk = working_talk()
    talk.act("a.py")
    refused = talk.state.messages[-1]
    talk.assistant("I take another way.")
    talk.user("How far are you?", aside=True)
    assert refused in of_aside(talk).history


def test_the_turn_sees_an_aside_once_its_results_are_there_and_the_question_at_once() -> None:
    talk = working_talk()
    of = compiler()
    asked = talk.user("What is in a.py?", aside=True)
    (call,) = talk.act("a.py", aside=True)
    answering = talk.state.messages[-1]
    history = of_turn(talk, of).history
    assert asked in history
    assert answering not in history
    talk.came(call, "A")
    assert of_turn(talk, of).history == (*history, answering, talk.state.messages[-1])


def test_the_next_request_of_the_user_ends_the_waiting_for_results() -> None:
    talk = working_talk()
    of = compiler()
    talk.user("What is in a.py?", aside=True)
    talk.act("a.py", aside=True)
    answering = talk.state.messages[-1]
    of_turn(talk, of)
    then = talk.user("Something else.")
    assert of_turn(talk, of).history[-2:] == (answering, then)


@CODECS
def test_what_was_said_beside_the_work_is_marked_for_the_model(encode: Encode) -> None:
    talk = working_talk()
    talk.user("How far?", aside=True)
    for prompt in (of_turn(talk), of_aside(talk)):
        said = [m["content"] for m in encode(prompt) if str(m["content"]).endswith("How far?")]
        assert said == [f"{BESIDE_THE_WORK}\nHow far?"]


@CODECS
def test_each_message_beside_the_work_is_answered_for_itself(encode: Encode) -> None:
    """The request for the first does not hold the second, and that for the second has both."""
    talk, of = working_talk(), compiler()
    first = talk.user("How far?", aside=True)
    second = talk.user("Which file?", aside=True)
    prompt = of_aside(talk, of, first.message_id)
    assert prompt.history[-1] is first
    assert "Which file?" not in str(encode(prompt))
    assert "\nHow far?\n" in prompt.tail
    talk.assistant("Half way.", aside=True)
    prompt = of_aside(talk, of, second.message_id)
    assert prompt.history[-3:] == (first, talk.state.messages[-1], second)
    assert "\nWhich file?\n" in prompt.tail


def test_an_answer_that_waits_for_the_user_goes_on_after_the_next_one() -> None:
    """Its reply is held back from the next one's request, and comes with its results."""
    talk, of = working_talk(), compiler()
    first = talk.user("Add a step.", aside=True)
    second = talk.user("How far?", aside=True)
    of_aside(talk, of, first.message_id)
    (change,) = talk.act("plan", aside=True)
    asking = talk.state.messages[-1]
    assert of_aside(talk, of, second.message_id).history[-2:] == (first, second)
    talk.assistant("Half way.", aside=True)
    answer = talk.state.messages[-1]
    talk.came(change, "accepted")
    prompt = of_aside(talk, of, first.message_id)
    assert prompt.history[-4:] == (second, answer, asking, talk.state.messages[-1])
    assert "\nAdd a step.\n" in prompt.tail


def test_an_answer_that_never_came_does_not_hold_the_next_message_back() -> None:
    talk, of = working_talk(), compiler()
    stopped = talk.user("How far?", aside=True)
    then = talk.user("And now?", aside=True)
    assert of_aside(talk, of, then.message_id).history[-2:] == (stopped, then)


MOVES = st.lists(
    st.sampled_from(["turn", "result", "aside", "answer", "again", "found", "notice"]), max_size=40
)


@pytest.mark.parametrize("encode", [as_json, as_tools])
@settings(max_examples=60, deadline=None)
@given(moves=MOVES)
def test_no_order_of_events_changes_what_was_sent(encode: Encode, moves: list[str]) -> None:
    """Requests of the turn and of asides each begin with their last one, however they mix."""
    talk, of = Talk(), compiler()
    talk.user("Do it.")
    sent: dict[str, list[dict[str, Any]]] = {}
    of_turn_open: list[Action] = []
    of_asides: dict[str, list[Action]] = {}  # message → its calls that have no result yet
    said: list[str] = []

    def send(who: str, answers: str = "") -> None:
        now = encode(of_turn(talk, of) if who == "turn" else of_aside(talk, of, answers))
        assert stays(sent.get(who, [{}]), now)
        sent[who] = now

    for n, move in enumerate(moves):
        if move == "turn" and not of_turn_open:
            send("turn")
            of_turn_open += talk.act(f"{n}.py", f"{n}.md")
        elif move == "aside":
            said.append(talk.user(f"Question {n}", aside=True).message_id)
        elif move == "answer" and said:
            answers = said.pop(0)
            send("aside", answers)
            of_asides[answers] = list(talk.act(f"{n}.txt", f"{n}.csv", aside=True))
        elif move == "again" and (ready := [m for m, calls in of_asides.items() if not calls]):
            send("aside", ready[0])
            of_asides[ready[0]] = list(talk.act(f"{n}.txt", aside=True))
        elif move == "result" and of_turn_open:
            talk.came(of_turn_open.pop(), f"result {n}")
        elif move == "found" and (waits := [calls for calls in of_asides.values() if calls]):
            talk.came(waits[-1].pop(), f"found {n}")
        elif move == "notice":
            talk.notice(f"notice {n}")


def test_asides_in_a_long_turn_leave_no_result_without_its_call() -> None:
    for window in range(9_000, 20_000, 1_100):
        talk, of = Talk(), compiler()
        talk.state.usage = talk.state.usage.model_copy(update={"context_window": window})
        for n in range(3):
            asked = talk.user(f"Request {n}")
            for m in range(16):
                (call,) = talk.act(f"{n}_{m}.py")
                talk.user(f"Question {n} {m}. " + "please " * 500, aside=True)
                (look,) = talk.act(f"{n}_{m}.txt", aside=True)
                talk.came(look, "y = 2\n" * 150)
                for_aside = of_aside(talk, of).history
                talk.came(call, "z = 3\n" * 200)
                for_turn = of_turn(talk, of).history
                assert no_result_without_its_call(for_turn)
                assert no_result_without_its_call(for_aside)
                assert asked in for_turn


# --- cards, reports, the mode -----------------------------------------------------------------


def a_report(for_model: str) -> ReportMessage:
    report = StepReport(
        report_id="r", plan_id="p", step_id=READING, step_name="n", status="completed"
    )
    return ReportMessage(message_id="m", report=report, for_model=for_model, at=START)


def test_a_digest_ends_with_a_report_where_nothing_was_said_after_it() -> None:
    talk = Talk()
    talk.state.usage = talk.state.usage.model_copy(update={"context_window": 9_000})
    for n in range(4):
        talk.user(f"Request {n}. " + "word " * 2_000)
        talk.state.messages.append(a_report(f"Step {n} is done."))
    assert re.search(r"- Request 2\. .*→ Step 2 is done\.", of_turn(talk).tail)


@pytest.mark.parametrize("mode", ["auto", "adaptive", "tasklist"])
def test_an_execution_mode_that_rules_stands_in_the_tail_of_the_turn(mode: Any) -> None:
    prompt = compiler(mode=mode).compile(working_talk().state, (*OPERATIONS, LIST))
    assert (f"\nExecution mode {mode}: " in prompt.tail) is (mode != "auto")
