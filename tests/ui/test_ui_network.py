"""The page of the hosts that were contacted."""

from __future__ import annotations

import pytest
from support.app_states import FakeEngine, app_with, commanded, settled, standing, store_with
from support.lists import is_listing, take_action
from support.pinned import ManualClock
from support.screens import shown

from duckflow_tui.state.usage import HostContacted, LlmCall, LlmCallFinished
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.list_page import Page
from duckflow_tui.ui.screens.network import NetworkSource

MODEL = HostContacted(
    host="models.example:443", use="model", name="far", setting="endpoints.far.base_url",
    via="proxy.example:3128", at=1_750_000_000.0, requests=1, sent=1_234, received=56_000,
)  # fmt: skip
TOOLS = HostContacted(
    host="127.0.0.1:9000", use="mcp", name="net\x1b[31m", setting="mcp.servers.net.url",
    at=1_750_000_060.0, requests=1, sent=800, received=2_500_000,
)  # fmt: skip
CALL = LlmCall(llm_id="l", role="evaluator", purpose="satisfaction", endpoint="far", model="m")


@pytest.mark.parametrize(("size", "language"), [((120, 40), "en"), ((60, 20), "ja")])
async def test_hosts_are_listed_with_what_for_how_much_and_which_setting(
    size: tuple[int, int], language: str
) -> None:
    """What a server calls itself acts on nothing; new contacts show while the page is open."""
    store = store_with(MODEL, MODEL, LlmCallFinished(call=CALL))
    app = app_with(FakeEngine(store), language=language)
    async with standing(app, *size) as pilot:
        await commanded(pilot, "/network")
        await settled(pilot, lambda: is_listing(app, NetworkSource), "the page")
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(SETTLE_S)
        page = app.screen.query_one(Page)
        words = app.words
        total = words("network.total", hosts=1, requests=2, sent="2 KB", received="112 KB")
        assert total in shown(page)
        for said in ("models.example:443", "evaluator", MODEL.setting, MODEL.via, "2 ", "112 KB"):
            assert said in shown(page), said
        store.dispatch(TOOLS)
        await settled(pilot, lambda: "127.0.0.1:9000" in shown(page), "the new host")
        await pilot.press("down")
        await settled(pilot, lambda: TOOLS.setting in shown(page), "its facts")
        assert "2.5 MB" in shown(page)
        assert "\x1b" not in shown(page)
        store.state.session = store.state.session.replace(demo=True)
        await pilot.press("up")
        await settled(pilot, lambda: "--demo" in shown(page), "what made the demo's model so")
        assert MODEL.setting not in shown(page)
        await take_action(app, pilot, words("keys.sessions_export"))
        await settled(pilot, lambda: words("sessions.not_kept")[:20] in shown(page), "the export")
        await pilot.press("escape")
        await settled(pilot, lambda: app.screen is app.bench)
