"""The demo's request that its model gets stuck at: the question, and where each answer leads."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from support.demo_play import Play, play
from support.prepared import UNTOUCHED

from duckflow_tui.compose import Flags, choose, open_session
from duckflow_tui.headless import HeadlessOptions, run
from duckflow_tui.places import Places
from duckflow_tui.scripted.story import request_text, tax_request
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import Card, CardKind, GateChoice
from duckflow_tui.state.pace import Pattern
from duckflow_tui.words.catalogue import Catalogue

BOTH = pytest.mark.parametrize("protocol", ["tools", "json"])
PAIRS = pytest.mark.parametrize(("language", "protocol"), [("en", "tools"), ("ja", "json")])
LANGUAGES = pytest.mark.parametrize("language", ["en", "ja"])
SEARCH = "file_ops.search_text"
ASK = CardKind.CONSULTATION


def over(state: AgentState) -> bool:
    return state.turn is None


def searches(on: Play) -> int:
    return sum(o.operation == SEARCH for o in on.operations())


async def stuck(on: Play, language: str = "en") -> Card:
    """Make the request and wait until the user is asked."""
    await on.say(tax_request(language))
    return await on.card(ASK)


@BOTH
async def test_the_fourth_search_for_the_same_brings_the_question(
    tmp_path: Path, protocol: str
) -> None:
    """Covers S0-39."""
    async with play(tmp_path, protocol=protocol) as on:
        card = await stuck(on)
        assert card.situation is not None
        assert (card.situation.pattern, card.situation.loop) == (Pattern.STAGNATION, 4)
        assert card.situation.cause.code == "same_action"
        assert (searches(on), len(on.replies())) == (4, 4)
        assert any(tried.times == 4 for tried in card.situation.tried)


@PAIRS
async def test_what_the_user_knows_leads_to_the_end(
    tmp_path: Path, protocol: str, language: str
) -> None:
    """Covers S0-39."""
    told = {"en": "It is 10 % here.", "ja": "うちは１０％です。"}[language]
    async with play(tmp_path, protocol=protocol, language=language) as on:
        await stuck(on, language)
        await on.answer_card(ASK, "more_info", told)
        await on.approving(over)
        end = await on.end()
        assert (end.outcome, end.satisfaction) == ("done", 1.0)
        assert 'CENT = Decimal("0.01")\nTAX_RATE = Decimal("0.1")\n' in on.text()
        assert searches(on) == 4
        assert "10 %" in end.reply
        assert request_text(language) in end.reply  # the test that is red is another matter
        assert "{" not in end.reply


@LANGUAGES
async def test_another_approach_looks_elsewhere_and_says_that_it_guesses(
    tmp_path: Path, language: str
) -> None:
    """Covers S0-39."""
    async with play(tmp_path, language=language) as on:
        await stuck(on, language)
        await on.answer_card(ASK, "other_approach")
        await on.approving(over)
        end = await on.end()
        assert end.outcome == "done"
        assert 'TAX_RATE = Decimal("0.08")' in on.text()
        assert ("please check it" if language == "en" else "ご確認ください") in end.reply
        assert on.state.objective is not None
        assert on.state.objective.attempted_strategies
        assert searches(on) == 4


async def test_to_keep_going_asks_again_three_loops_later(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        card = await stuck(on)
        await on.answer_card(ASK, "keep_going")
        await on.until(lambda state: any(c.card_id != card.card_id for c in state.cards))
        assert searches(on) == 7
        assert "6 times" in on.replies()[-1]
        await on.answer_card(ASK, "more_info", "8 %")
        await on.approving(over)  # with the rate it moves, so that its length asks nothing
        assert (await on.end()).outcome == "done"
        assert on.state.pace is not None
        assert on.state.pace.limit.grown > 0
        assert Pattern.LIMIT not in on.state.pace.consultations


async def test_to_stop_ends_it_and_the_next_message_is_another_matter(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        before = on.text()
        await stuck(on)
        await on.answer_card(ASK, "stop_work")
        assert (await on.end()).outcome == "partial"
        assert on.text() == before
        await on.say("thanks")
        assert "You are welcome" in (await on.end()).reply
        assert searches(on) == 4


async def test_own_words_without_a_rate_lead_to_a_question_and_its_answer_on(
    tmp_path: Path,
) -> None:
    async with play(tmp_path, language="ja") as on:
        await stuck(on, "ja")
        await on.answer_card(ASK, "tell", "もっとよく探してください")
        card = await on.card(CardKind.QUESTION)
        assert card.question == "店の消費税率はいくらですか。"
        assert [option.label for option in card.options if option.label] == ["8 %", "10 %"]
        await on.answer_card(CardKind.QUESTION, card.options[0].action)
        await on.approving(over)
        end = await on.end()
        assert 'TAX_RATE = Decimal("0.08")' in on.text()
        assert (end.outcome, "完了しました" in end.reply) == ("done", True)


async def test_a_refused_edit_leaves_the_word_to_the_user(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        before = on.text()
        await stuck(on)
        await on.answer_card(ASK, "more_info", "8 %")
        await on.answer(GateChoice.REJECT)
        assert (await on.end()).outcome == "partial"
        assert on.text() == before


async def test_a_rate_in_the_request_needs_no_question(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await on.say("Put our tax rate of 19 % into pricing.py")
        await on.approving(over)
        end = await on.end()
        assert (end.outcome, searches(on)) == ("done", 0)
        assert 'TAX_RATE = Decimal("0.19")' in on.text()
        await on.say(tax_request("en"))
        assert "already has" in (await on.end()).reply


async def test_without_a_screen_it_stops_and_says_why(tmp_path: Path) -> None:
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path)})
    flags = Flags(workspace=tmp_path, demo=True, headless=True, mode="trusted")
    choice = choose(flags, places, "en", UNTOUCHED)
    out, err = io.StringIO(), io.StringIO()
    options = HeadlessOptions(tax_request("en"), as_json=True)
    status = await run(lambda spawn: open_session(choice, spawn), options, Catalogue(), out, err)
    assert status == 4, err.getvalue()
    records: list[dict[str, Any]] = [json.loads(line) for line in out.getvalue().splitlines()]
    notices = [r["message"]["key"] for r in records if r["kind"] == "notice"]
    assert "consulting.nobody.stagnation" in notices
    assert records[-1]["outcome"] == "limit"
    assert records[-1]["reason"]["code"] in ("same_action", "same_result")
    assert records[-1]["files_changed"] == []
