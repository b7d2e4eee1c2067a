"""The demo's story over real HTTP, with the real loops, gate and files: bytes on disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.demo_play import CODE, TESTS, Play, failing_tests, play

from duckflow_tui.state.gates import CardKind, GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.phase import Phase, Status

AS_IT_WAS = "    rate = sum(discounts)\n    return price * (1 - rate)\n"
LOOP = "    for rate in discounts:\n        price *= 1 - rate\n    return price\n"
PROD = "    rate = 1 - prod(1 - share for share in discounts)\n    return price * (1 - rate)\n"
CAP = "    rate = min(sum(discounts), Decimal(1))\n    return price * (1 - rate)\n"
RED = "test_two_discounts_apply_one_after_the_other"
RUN = "shell.run"
PAIRS = pytest.mark.parametrize(("language", "protocol"), [("en", "tools"), ("ja", "json")])


async def propose(on: Play) -> None:
    """Ask for the fix and wait for the proposal."""
    await on.say()
    await on.gate()


@PAIRS
async def test_an_approved_edit_is_on_disk_as_shown_and_read_again(
    tmp_path: Path, protocol: str, language: str
) -> None:
    """Covers S4-90, S4-92, S4-94."""
    async with play(tmp_path, protocol=protocol, language=language) as on:
        before = on.text()
        await propose(on)
        assert on.text() == before
        assert await failing_tests(on) == [RED]
        gate = await on.answer(GateChoice.ONCE)
        assert (gate.impact.added, gate.impact.removed, len(gate.alternatives)) == (3, 2, 2)
        end = await on.end()
        assert (end.outcome, end.files_changed) == ("done", (CODE,))
        assert on.text() == before.replace(AS_IT_WAS, LOOP)
        assert [o.operation for o in on.operations()] == [
            "shell.run", "file_ops.read_file", "file_ops.read_file",
            "file_ops.edit_file", "file_ops.read_file", "shell.run",
        ]  # fmt: skip
        read, run = on.operations()[-2:]
        assert LOOP in read.result.text
        assert [o.result.exit_code for o in on.operations() if o.operation == RUN] == [1, 0]
        assert all(o.gate is None for o in on.operations() if o.operation == RUN)
        assert await failing_tests(on) == []
        phases = [move.new for move in on.state.transitions]
        assert phases == [Phase.PLANNING, Phase.EXECUTION, Phase.REVIEW, Phase.DONE]
        assert {m.protocol for m in on.state.messages if m.kind == "assistant"} == {protocol}
        told = re.search(r"^Ran 6 tests in .*$", run.result.text, re.M)
        assert told is not None
        assert f"```\n{told.group()}\nOK\n```" in end.reply
        assert f"`{RED}`" in on.replies()[1]
        assert "AssertionError: Decimal('80.00') != Decimal('81')" in on.replies()[1]


async def test_a_reason_is_heard_and_answered_with_a_smaller_edit(tmp_path: Path) -> None:
    async with play(tmp_path, protocol="json") as on:
        before = on.text()
        await propose(on)
        await on.answer(GateChoice.REJECT, reason="no loops, please\nthey are slow")
        gate = await on.answer(GateChoice.ONCE)
        assert "> no loops, please\n> they are slow" in on.replies()[-1]
        assert (gate.impact.added, gate.impact.removed) == (2, 1)
        end = await on.end()
        assert end.outcome == "done"
        after = before.replace(AS_IT_WAS, PROD)
        assert on.text() == after.replace("Decimal\n", "Decimal\nfrom math import prod\n", 1)
        assert await failing_tests(on) == []


async def test_a_second_refusal_leads_to_one_question_and_its_answer_to_that_edit(
    tmp_path: Path,
) -> None:
    async with play(tmp_path) as on:
        before = on.text()
        await propose(on)
        await on.answer(GateChoice.REJECT)
        await on.answer(GateChoice.REJECT)
        question = await on.card(CardKind.QUESTION)
        assert on.text() == before
        assert [option.key for option in question.options] == ["1", "2", "3", "m"]
        await on.answer_card(CardKind.QUESTION, question.options[1].action)
        await on.answer(GateChoice.ONCE)
        await on.end()
        assert on.text() == before.replace(AS_IT_WAS, CAP)


@PAIRS
async def test_the_first_alternative_caps_the_sum_and_says_what_stays_wrong(
    tmp_path: Path, protocol: str, language: str
) -> None:
    async with play(tmp_path, protocol=protocol, language=language) as on:
        before = on.text()
        await propose(on)
        await on.answer(GateChoice.ALTERNATIVE, alternative=1)
        await on.answer(GateChoice.ONCE)
        end = await on.end()
        assert on.text() == before.replace(AS_IT_WAS, CAP)
        failing = await failing_tests(on)
        assert failing == [RED]
        assert f"FAIL: {RED}" in end.reply
        assert "FAILED (failures=1)" in end.reply


async def test_the_second_alternative_changes_the_test_with_a_frank_word(tmp_path: Path) -> None:
    async with play(tmp_path, protocol="tools") as on:
        code, tests = on.text(), on.text(TESTS)
        await propose(on)
        await on.answer(GateChoice.ALTERNATIVE, alternative=2)
        await on.gate()
        assert "I would not" in on.replies()[-1]
        await on.answer(GateChoice.ONCE)
        end = await on.end()
        assert end.files_changed == (TESTS,)
        changed = tests.replace("discounts_apply_one_after_the_other", "discounts_are_added")
        assert on.text(TESTS) == changed.replace("Decimal(81)", "Decimal(80)")
        assert on.text() == code
        assert on.operations()[-2].args == {"path": TESTS}
        assert "\nOK\n" in end.reply
        assert await failing_tests(on) == []


@PAIRS
async def test_in_plan_mode_nothing_changes_and_the_reply_says_so(
    tmp_path: Path, protocol: str, language: str
) -> None:
    async with play(tmp_path, mode="plan", protocol=protocol, language=language) as on:
        before = on.text()
        await on.say()
        end = await on.end()
        assert (end.outcome, end.files_changed) == ("denied", ())
        assert on.text() == before
        assert "+    for rate in discounts:" in end.reply
        assert ("nothing was changed" if language == "en" else "変更していません") in end.reply


async def test_a_part_that_was_left_out_is_noticed_in_the_file(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await propose(on)
        await on.answer(GateChoice.REJECT, reason="smaller")
        gate = await on.gate()
        assert len(gate.previews[0].hunks) == 2
        await on.answer(GateChoice.ONCE, left_out=((0, 0),))
        end = await on.end()
        assert PROD in on.text()
        assert "from math" not in on.text()
        assert "ends in a `NameError`" in end.reply
        assert "NameError: name 'prod' is not defined" in end.reply


async def test_what_the_user_wrote_in_the_gate_is_left_alone(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        mine = on.text().replace(AS_IT_WAS, "    return price  # to be decided\n")
        await propose(on)
        await on.answer(GateChoice.EDIT, edited=mine)
        await on.answer(GateChoice.ONCE)
        end = await on.end()
        assert on.text() == mine
        assert "your version" in on.replies()[-2]
        assert "something other than I proposed" in end.reply


async def test_a_file_that_changes_under_an_open_gate_is_read_again(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await propose(on)
        theirs = on.text().replace(AS_IT_WAS, LOOP)
        (on.stage.workspace / CODE).write_text(theirs, encoding="utf-8")
        if on.state.gates:
            await on.answer(GateChoice.ONCE)
        end = await on.end()
        assert on.text() == theirs
        names = [message.operation for message in on.operations()]
        refused = names.index("file_ops.edit_file")
        assert on.operations()[refused].result.outcome is Outcome.ERROR
        assert names[refused + 1] == "file_ops.read_file"
        assert "already in it" in end.reply


FREE = (
    ("hello", "This is the demo"),
    ("Thanks!", "You are welcome"),
    ("What can you do?", "Add a loyalty discount"),
    ("which model is this?", "I am a script"),
    ("undo that", "`/undo` takes"),
    ("now tidy the receipt", "my replies are scripted"),
    ("write a poem about ducks", "--base-url http://localhost:11434/v1"),
    ("こんにちは", "これはデモです"),
    ("ありがとう", "どういたしまして"),
    ("何ができますか?", "常連のお客さま向けに"),
    ("アヒルの詩を書いて", "私の返事は台本です"),
)


async def test_a_free_message_gets_an_honest_answer_and_touches_nothing(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        for said, answer in FREE:
            await on.say(said)
            end = await on.end()
            cannot = any(word in answer for word in ("scripted", "台本", "--base-url", "/undo"))
            assert end.outcome == ("partial" if cannot else "answered"), said
            assert end.llm_calls == 1, said
            assert answer in end.reply
            assert on.operations() == [], said
            # What it cannot do is not done, but nothing is asked, so nothing waits for the user.
            assert on.state.phase is (Phase.IDLE if cannot else Phase.DONE), said
            assert on.state.status is Status.SUCCESS, said
            assert end.question is None, said


async def test_the_session_goes_on_after_the_first_request(tmp_path: Path) -> None:
    async with play(tmp_path, protocol="json") as on:
        before = on.text()
        await propose(on)
        await on.answer(GateChoice.ONCE)
        await on.end()
        await on.say("show me the diff again")
        end = await on.end()
        assert "+    for rate in discounts:" in end.reply
        await on.say()
        end = await on.end()
        assert "already in it" in end.reply
        await on.engine.undo()
        assert on.text() == before
        await on.say()
        await on.answer(GateChoice.ONCE)
        assert (await on.end()).outcome == "done"
        assert on.text() == before.replace(AS_IT_WAS, LOOP)


async def test_a_message_to_the_paused_work_redirects_it(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await propose(on)
        on.engine.pause()
        await on.answer(GateChoice.REJECT, reason="wait")
        await on.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        await on.engine.send("keep the sum and cap it")
        gate = await on.gate()
        assert "100 %" in gate.intent
