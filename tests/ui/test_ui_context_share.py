"""How full the context is, where the window that was named is far too small."""

from __future__ import annotations

from support.app_states import FakeEngine, app_with, settled, standing, store_with
from support.screens import screen_text

from duckflow_tui.state.usage import UsageTotals


async def test_a_context_over_its_window_is_not_told_in_thousands_of_percent() -> None:
    store = store_with()
    store.state.usage = UsageTotals(last_context=2566, context_window=1, calls=1)
    app = app_with(FakeEngine(store))
    async with standing(app) as pilot:
        await settled(pilot, lambda: ">100" in screen_text(app))
        assert "256600" not in screen_text(app)
        app.action_page("context")
        await settled(pilot, lambda: app.screen is not app.bench)
        await settled(pilot, lambda: ">100" in screen_text(app))
        assert "256600" not in screen_text(app)
