from __future__ import annotations

import pytest
from support.prompt_states import OPERATIONS, Talk, compiler, long_talk

from duckflow_tui.prompting.compiler import PromptCompiler, prompt_tokens
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, UserMessage
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.goal import TaskObjective
from duckflow_tui.state.prompt import Prompt


def request(of: PromptCompiler, talk: Talk) -> Prompt:
    return of.compile(talk.state, OPERATIONS, pattern=PromptPattern.BASE_MAIN)


def with_window(talk: Talk, tokens: int) -> Talk:
    talk.state.usage = talk.state.usage.model_copy(update={"context_window": tokens})
    return talk


def begins_with(later: Prompt, earlier: Prompt) -> bool:
    return (
        later.system == earlier.system
        and later.formats == earlier.formats
        and later.history[: len(earlier.history)] == earlier.history
    )


def test_everything_travels_while_there_is_room() -> None:
    """Covers S4-2: the history of a request is the conversation itself, whatever the pattern."""
    talk = with_window(long_talk(20), 128_000)
    of = compiler()
    plain = request(of, talk)
    special = of.compile(talk.state, OPERATIONS, pattern=PromptPattern.BASE_MAIN_SPECIALIZED)
    assert plain.history == special.history == tuple(talk.state.messages)
    assert "Question 0" not in plain.tail


def test_older_exchanges_become_digests_of_at_most_100_characters() -> None:
    """Covers S4-11, S4-16: three in the main layer, the five before them in the base layer."""
    talk = with_window(long_talk(60), 20_000)
    of = compiler()
    prompt = request(of, talk)
    first = prompt.history[0]
    assert isinstance(first, UserMessage)
    left_out = int(first.text.split()[1].rstrip(":"))
    assert left_out > 8
    base, main = prompt.tail.split("# Now")

    def digests(text: str) -> list[str]:
        return [line[2:] for line in text.splitlines() if line.startswith("- Question")]

    assert [d.split()[1] for d in digests(base)] == [
        f"{n}:" for n in range(left_out - 8, left_out - 3)
    ]
    assert [d.split()[1] for d in digests(main)] == [f"{n}:" for n in range(left_out - 3, left_out)]
    assert all(len(d) <= 100 for d in digests(prompt.tail))
    assert all("→ Part" in d for d in digests(prompt.tail))


def test_a_request_begins_with_the_one_before_it_as_long_as_the_turn_lasts() -> None:
    talk = with_window(long_talk(60), 20_000)
    of = compiler()
    talk.user("Now change part 3.")
    before = request(of, talk)
    assert before.history[0] is not talk.state.messages[0]
    for n in range(6):
        talk.loop("x = 1\n" * 80, f"src/more_{n}.py")
        talk.notice("a file changed")
        now = request(of, talk)
        assert begins_with(now, before)
        assert len(now.history) == len(before.history) + 3
        before = now


def test_a_growing_turn_is_not_cut_before_it_fills_the_window() -> None:
    talk = with_window(long_talk(5), 20_000)
    of = compiler()
    talk.user("Now read on.")
    before = request(of, talk)
    fullest = 0.0
    for n in range(99):
        talk.loop("x = 1\n" * 80, f"src/more_{n}.py")
        now = request(of, talk)
        history = next(u for u in now.uses if u.layer == "history")
        if not begins_with(now, before):
            break
        fullest = history.tokens / history.budget
        before = now
    assert 0.95 < fullest <= 1.0


def test_how_results_look_changes_with_the_window_and_not_with_its_last_percents() -> None:
    talk = with_window(Talk(), 16_000)
    of = compiler()
    talk.user("Read the log.")
    talk.loop("a line of the log 12345\n" * 2_000)

    def shown() -> object:
        talk.user("And?")
        return request(of, talk).history[2]

    first = shown()
    assert first is not talk.state.messages[2]
    with_window(talk, 15_500)
    assert shown() is first
    with_window(talk, 128_000)
    assert shown() is talk.state.messages[2]
    with_window(talk, 16_000)
    assert shown() == first


def test_a_new_turn_keeps_the_start_while_the_request_is_not_nearly_full() -> None:
    talk = with_window(long_talk(60), 20_000)
    of = compiler()
    talk.user("One more.")
    before = request(of, talk)
    talk.assistant("Yes.")
    talk.user("And another.")
    assert begins_with(request(of, talk), before)


def test_from_20_000_tokens_on_nine_tenths_of_a_request_are_the_one_before() -> None:
    talk = with_window(long_talk(40), 128_000)
    of = compiler()
    before = request(of, talk)
    assert prompt_tokens(before) > 20_000
    for n in range(20):
        if n % 4 == 0:
            talk.user(f"Then look at part {n}.")
        talk.loop("y = 2\n" * 250, f"src/later_{n}.py")
        now = request(of, talk)
        assert begins_with(now, before)
        before_tokens = next(u.tokens for u in before.uses if u.layer == "history")
        now_tokens = next(u.tokens for u in now.uses if u.layer == "history")
        assert before_tokens >= 0.9 * now_tokens
        before = now


def test_a_turn_that_outgrows_the_window_is_cut_at_a_decision_and_keeps_its_message() -> None:
    talk = with_window(long_talk(3), 16_000)
    of = compiler()
    asked = talk.user("Read everything, then tell me what is wrong.")
    prompt = request(of, talk)
    for n in range(40):
        talk.loop("z = 3\n" * 250, f"src/big_{n}.py")
        prompt = request(of, talk)
        assert prompt_tokens(prompt) <= 16_000
        assert asked in prompt.history
    assert prompt.history[0] is asked
    assert isinstance(prompt.history[1], AssistantMessage)
    assert prompt.history[-1] is talk.state.messages[-1]
    assert "- read src/big_" in prompt.tail
    assert "files.look src/big_" in prompt.tail


def test_an_answer_during_work_keeps_both_messages_of_the_user() -> None:
    talk = with_window(Talk(), 16_000)
    of = compiler()
    asked = talk.user("Read everything.")
    talk.loop("a\n" * 900)
    aside = talk.user("How far are you?", turn=False)
    for n in range(30):
        talk.loop("z = 3\n" * 250, f"src/big_{n}.py")
        assert request(of, talk).history[0] is asked
    assert request(of, talk).history[:2] == (asked, aside)


def test_no_history_begins_with_a_result_of_a_call_that_is_not_there() -> None:
    for window in range(9_000, 40_000, 1_700):
        talk = with_window(long_talk(40), window)
        of = compiler()
        for n in range(12):
            talk.loop("z = 3\n" * 200, f"src/{n}.py")
            history = request(of, talk).history
            for earlier, item in zip((None, *history), history, strict=False):
                if isinstance(item, OperationMessage):
                    assert isinstance(earlier, AssistantMessage | OperationMessage)


def test_one_huge_result_is_shown_in_part_and_says_so() -> None:
    talk = with_window(Talk(), 16_000)
    of = compiler()
    talk.user("Read the log.")
    talk.loop("BEGIN\n" + "a line of the log 12345\n" * 20_000 + "END")
    prompt = request(of, talk)
    shown = prompt.history[-1]
    assert isinstance(shown, OperationMessage)
    assert shown.result.text.startswith("BEGIN")
    assert shown.result.text.endswith("END")
    assert f"{shown.result.truncated_chars} characters left out" in shown.result.text
    assert prompt_tokens(prompt) <= 16_000
    talk.loop("short")
    assert request(of, talk).history[: len(prompt.history)] == prompt.history


def test_twenty_large_results_of_one_decision_still_fit() -> None:
    talk = with_window(Talk(), 16_000)
    talk.user("Read all.")
    talk.assistant("", rationale="read all")
    for n in range(20):
        talk.result("a line of the log 12345\n" * 2_000, f"{n}.log")
    assert prompt_tokens(request(compiler(), talk)) <= 16_000


def test_a_refused_request_is_followed_by_a_shorter_one() -> None:
    """Covers S4-80: an overflow that the estimate did not see."""
    talk = with_window(long_talk(60), 128_000)
    of = compiler()
    talk.user("Now?")
    refused = request(of, talk)
    assert of.shrink_after_refusal(talk.state, refused)
    retried = request(of, talk)
    assert prompt_tokens(retried) <= 0.7 * prompt_tokens(refused)
    assert retried.history[-1] is talk.state.messages[-1]
    talk.loop("more")
    assert begins_with(request(of, talk), retried)


def test_a_refused_request_with_nothing_to_leave_out_says_so() -> None:
    talk = with_window(Talk(), 128_000)
    of = compiler()
    talk.user("Hi")
    assert not of.shrink_after_refusal(talk.state, request(of, talk))


def test_a_model_that_counts_more_gets_less() -> None:
    talk = with_window(long_talk(60), 20_000)
    talk.state.session = talk.state.session.model_copy(update={"model": "hungry"})
    of = compiler()
    before = request(of, talk)
    for _ in range(9):
        of.learn(talk.state, before, 2 * prompt_tokens(before))
    talk.user("Now?")
    now = request(of, talk)
    assert sum(map(_characters, now.history)) < sum(map(_characters, before.history))
    assert prompt_tokens(now) <= 20_000


@pytest.mark.parametrize("window", [0, 8_192, 20_000, 128_000])
def test_the_same_state_gives_a_fresh_compiler_the_same_request(window: int) -> None:
    talk = with_window(long_talk(60), window)
    assert request(compiler(), talk) == request(compiler(), talk)


def test_another_conversation_starts_from_nothing() -> None:
    of = compiler()
    request(of, with_window(long_talk(60), 20_000))
    other = with_window(long_talk(2), 20_000)
    assert request(of, other).history == tuple(other.state.messages)


def test_the_message_with_the_request_in_hand_travels_however_long_the_work_has_become() -> None:
    """Later turns go on with it; what was said in them may become a digest, the request not."""
    talk = with_window(long_talk(60), 20_000)
    asked = next(m for m in talk.state.messages if isinstance(m, UserMessage))
    talk.state.objective = TaskObjective(
        objective_id="obj_1",
        original_query=asked.text,
        created_at=asked.at,
        message_id=asked.message_id,
    )
    first, second = request(compiler(), talk).history[:2]
    assert first is asked
    assert isinstance(second, UserMessage)
    assert second.text != "Question 1: what does part 1 do?"


def _characters(message: object) -> int:
    return len(message.result.text) if isinstance(message, OperationMessage) else len(str(message))
