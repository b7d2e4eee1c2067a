"""The window of the model under the user's keys: its page, what was sent, compactions."""

from __future__ import annotations

import re

import pytest
from support import context_states as states
from support.app_states import FakeEngine, commanded, settled, store_with
from support.lists import is_listing, list_text, open_list
from support.open_apps import OpenApps
from support.pinned import ManualClock
from support.running_states import ended
from support.screens import shown
from textual.pilot import Pilot

from duckflow_tui.state.memory import CompactionUndone, ContextCompacted
from duckflow_tui.state.usage import PromptMeasured, Purpose
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.context import ContextSource, SentSource


def page(app: DuckflowApp) -> str:
    return list_text(app)


async def open_board(app: DuckflowApp, pilot: Pilot[int]) -> None:
    await commanded(pilot, "/context")
    await settled(pilot, lambda: is_listing(app, ContextSource), "the page")
    await pilot.pause()
    settle(app)


def settle(app: DuckflowApp) -> None:
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(SETTLE_S)


# --- the status line ----------------------------------------------------------------------------


async def test_the_status_line_marks_an_estimate_until_the_endpoint_counted(
    open_apps: OpenApps,
) -> None:
    store = states.asked(waits=True)
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        assert "context ~27 %" in shown(app.bench.status)
        states.counted(store, 9, 51_840)
        await settled(pilot, lambda: "context 26 %" in shown(app.bench.status), "the count")


# --- the page -----------------------------------------------------------------------------------


async def test_requests_are_listed_newest_first_with_what_they_share(open_apps: OpenApps) -> None:
    async with open_apps.standing(states.engine(states.asked())) as (app, pilot):
        await open_board(app, pilot)
        rows = page(app).splitlines()
    assert rows[0].startswith("Context  52k of 200k (26 %) · about ")
    listed = [row for row in rows if ("~" in row and "ago" in row) or "same beginning" in row]
    assert [row.split()[0] for row in listed[:3]] == ["›", "check", "conversation"]
    assert "52k" in listed[0]
    assert "87% same beginning" in listed[0]
    assert "~2.2k" in listed[1]


@pytest.mark.parametrize(("behind", "row"), [("satisfaction", 1), ("main", 0)])
async def test_the_cursor_begins_at_the_newest_request_of_the_conversation(
    behind: Purpose, row: int, open_apps: OpenApps
) -> None:
    store = states.asked()
    newest = store.state.requests[-1]
    later = newest.model_copy(update={"llm_id": "llm_later", "purpose": behind})
    store.state.requests = (*store.state.requests, later)
    async with open_apps.standing(states.engine(store)) as (app, pilot):
        await open_board(app, pilot)
        assert page(app).splitlines()[2 + row].startswith("› conversation")


async def test_every_sign_of_the_bar_stands_in_its_legend(open_apps: OpenApps) -> None:
    async with open_apps.standing(states.engine(states.asked())) as (app, pilot):
        await open_board(app, pilot)
        rows = page(app).splitlines()
        at = next(n for n, row in enumerate(rows) if row.startswith("█"))
        legend = " ".join(rows[at + 1 : rows.index("", at)])
        assert "· free 1" in legend
        assert set(rows[at]) <= {sign for sign in legend.split() if len(sign) == 1}


async def test_parts_of_the_chosen_request_add_up(open_apps: OpenApps) -> None:
    store = states.asked()
    async with open_apps.standing(states.engine(store)) as (app, pilot):
        await open_board(app, pilot)
        text = page(app)
        for part in ("base", "operations", "project", "pinned", "files", "results", "chat"):
            assert f" {part} " in text
        await pilot.press("down")
        assert "It begins differently" in page(app)
    newest = store.state.requests[-1]
    assert newest.tokens == 51_840 == newest.parts.total


async def test_what_was_sent_is_read_part_by_part_with_hostile_text_made_visible(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(states.engine(states.asked())) as (app, pilot):
        await open_board(app, pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: is_listing(app, SentSource), "the texts")
        await pilot.pause()
        assert "Sent: conversation · 52k tokens" in page(app)
        assert "You are the user's pair programmer." in page(app)
        await pilot.press(*["down"] * 6)
        assert "files · result · read" in page(app)
        assert "\x1b" not in page(app)
        assert "line 3 " in page(app)
        await pilot.press("escape")
        assert is_listing(app, ContextSource)


async def test_a_request_of_an_earlier_run_has_only_its_figures(open_apps: OpenApps) -> None:
    async with open_apps.standing(states.engine(states.asked())) as (app, pilot):
        await open_board(app, pilot)
        await pilot.press("down", "enter")
        await pilot.pause()
        assert is_listing(app, ContextSource)
        assert "Only the figures of this request are left." in page(app)


async def test_before_the_first_request_it_says_so(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        await open_board(app, pilot)
        assert "No request has been sent to a model yet." in page(app)


@pytest.mark.parametrize(
    ("grows", "said"),
    [
        ((1, 2), "about 22 turns left"),
        ((1, 24, 25, 26), "compacted next turn"),
        ((1,), "turns left: not known yet"),
    ],
)
async def test_the_forecast_is_in_words(
    open_apps: OpenApps, grows: tuple[int, ...], said: str
) -> None:
    store = store_with()
    for number in grows:
        store.dispatch(PromptMeasured(figures=states.figures(number)))
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await open_board(app, pilot)
        assert said in page(app)


async def test_the_bar_shows_what_is_kept_for_the_reply_and_where_compaction_begins(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(states.engine(states.asked())) as (app, pilot):
        await open_board(app, pilot)
        text = page(app)
        bar = next(row for row in text.splitlines() if "█" in row and "░" in row)
        assert bar.rstrip().endswith("░")
        assert "·|·" in bar
        assert "reserved for the reply 16k" in text
        assert "compacted at ~130k" in text
        for part in ("base", "operations", "project", "pinned", "files", "results", "chat"):
            sign = re.search(rf"(\S) {part} ", text)
            assert sign is not None
            assert sign[1] in bar
        signs = re.findall(
            r"([^\w\s]) (?:base|operations|project|pinned|files|results|chat|state) ", text
        )
        assert len(set(signs)) == 8  # told apart without their colours


async def test_what_was_sent_adds_up_to_what_the_list_says(open_apps: OpenApps) -> None:
    store = states.asked()
    async with open_apps.standing(states.engine(store)) as (app, pilot):
        await open_board(app, pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: is_listing(app, SentSource), "the texts")
        board = open_list(app).source
        assert isinstance(board, SentSource)
        request = store.state.requests[-1]
        sizes: dict[str, int] = {}
        for part in board.parts:
            sizes[part.part] = sizes.get(part.part, 0) + part.tokens
        for name in ("base", "operations", "project", "files", "results", "chat"):
            assert abs(sizes[name] - getattr(request.parts, name)) <= len(board.parts)


# --- compactions --------------------------------------------------------------------------------


def chat(app: DuckflowApp) -> str:
    assert app.bench.talk.transcript is not None
    return " ".join(shown(app.bench.talk.transcript).split())


async def test_the_card_says_what_was_kept_digested_and_dropped(open_apps: OpenApps) -> None:
    async with open_apps.standing(states.engine(states.compacted())) as (app, pilot):
        text = chat(app)
        assert "Compacted ~118k → ~42k tokens · automatically: the window was full" in text
        assert "goal, requirements (2), constraints (1), decisions (1), plan" in text
        assert "14 earlier exchanges: now a summary" in text
        assert "33 results; they stay in this session" in text
        assert "cap in cart.py" not in text
        await pilot.press("ctrl+o")
        await settled(pilot, lambda: "cap in cart.py is not used" in chat(app), "the digest")
        assert "The receipt shows every discount" in chat(app)


async def test_the_meter_follows_a_compaction_and_its_undo_at_once_as_an_estimate(
    open_apps: OpenApps,
) -> None:
    store = states.asked()
    async with open_apps.standing(states.engine(store)) as (app, pilot):
        assert "context 26 %" in shown(app.bench.status)
        card = states.compaction(tokens_before=40_000, tokens_after=9_000)
        store.dispatch(ContextCompacted(compaction=card, message_id="msg_000000c1"))
        await settled(pilot, lambda: "context ~10 %" in shown(app.bench.status), "less")
        store.dispatch(CompactionUndone(compaction_id=card.compaction_id))
        await settled(pilot, lambda: "context ~26 %" in shown(app.bench.status), "all again")


async def test_why_nothing_was_compacted_stays_until_a_key(open_apps: OpenApps) -> None:
    fake = states.engine(states.asked())
    fake.context.problem = "nothing"
    async with open_apps.standing(fake) as (app, pilot):
        await commanded(pilot, "/compact")
        await settled(pilot, lambda: "Nothing to compact yet" in shown(app.bench.status))
        assert app.bench.status.is_waiting
        await pilot.press("x")
        await settled(pilot, lambda: "Nothing to compact" not in shown(app.bench.status), "gone")


async def test_without_a_digest_it_says_why(open_apps: OpenApps) -> None:
    async with open_apps.standing(
        states.engine(states.compacted(digest="", failure="rate_limited"))
    ) as (app, _):
        text = chat(app)
        assert "without a summary (the call failed: too many requests)" in text


async def test_u_on_the_card_takes_it_back(open_apps: OpenApps) -> None:
    fake = states.engine(states.compacted())
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("f2", "up")
        await pilot.press("u")
        await settled(pilot, lambda: "undone" in chat(app), "the card")
        assert fake.context.asked == ["undo compact_00000001"]
        assert "press u on this row" not in chat(app)
        await pilot.press("u")  # there is nothing to take back: it was meant for the composer
        await pilot.pause()
        assert app.bench.composer.draft_text == "u"


async def test_a_letter_is_meant_for_the_composer_where_no_compaction_is_chosen(
    open_apps: OpenApps,
) -> None:
    fake = states.engine(states.asked())
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("f2", "u")
        await pilot.pause()
        assert app.bench.composer.draft_text == "u"
        assert fake.context.asked == []


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [("/compact", "compact"), ("/compact names of files", "compact names of files"),
     ("/compact undo", "undo")],
)  # fmt: skip
async def test_the_command_compacts_or_takes_back(
    open_apps: OpenApps, typed: str, wanted: str
) -> None:
    fake = states.engine(states.compacted())
    async with open_apps.standing(fake) as (_, pilot):
        await pilot.press(*(" " if c == " " else c for c in typed), "escape", "enter")
        await settled(pilot, lambda: bool(fake.context.asked), "the call")
        assert fake.context.asked == [wanted]


async def test_what_is_in_the_way_is_said(open_apps: OpenApps) -> None:
    fake = states.engine(states.compacted())
    fake.context.no_undo = "no_room"
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("f2", "up", "u")
        await settled(pilot, lambda: "30,000 tokens" in shown(app.bench.status), "the reason")
        assert fake.store.state.compaction is not None


async def test_o_on_a_cut_result_asks_for_the_whole_of_it(open_apps: OpenApps) -> None:
    store = states.asked()
    cut = ended("cat server.log", "head\ntail", 0, cut=1_200_345)
    kept = cut.result.model_copy(update={"blob": "ab" * 32})
    store.state.messages += [cut, cut.model_copy(update={"call_id": "call_kept", "result": kept})]
    fake = states.engine(store)
    async with open_apps.standing(fake) as (app, pilot):
        assert "1,200,345 more characters, kept in full · o opens them" in chat(app)
        await pilot.press("f2", "up", "o")
        await settled(pilot, lambda: fake.context.asked == ["whole call_kept"], "the call")
        await settled(pilot, lambda: "no longer there" in shown(app.bench.status), "the answer")
