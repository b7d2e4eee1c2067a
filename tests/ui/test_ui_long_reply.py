"""A reply of 200,000 characters, at once: no drawing takes more than a small part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from markdown_it import MarkdownIt
from support.app_states import FakeEngine, app_with, settled, standing, store_with, turn_started
from support.conversations import assistant
from support.screens import screen_text

from duckflow_tui.state.conversation import AssistantMessage, AssistantReplied
from duckflow_tui.state.usage import LlmCallStarted, ReplyDelta
from duckflow_tui.ui.panes.blocks import MOST_REPLY
from duckflow_tui.ui.panes.live_blocks import AT_ONCE

PIECE = "- an **item** of a list with `code`\n\nA paragraph of some words behind it.\n\n"
TEXT = "The beginning.\n\n" + PIECE * (200_000 // len(PIECE)) + "The end of it.\n"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Sequence[int]:
    """The characters of each text that was parsed, in their order."""
    counts: list[int] = []
    parse = MarkdownIt.parse

    def counting(self: MarkdownIt, src: str, *more: Any) -> Any:
        counts.append(len(src))
        return parse(self, src, *more)

    monkeypatch.setattr(MarkdownIt, "parse", counting)
    return counts


async def test_a_very_long_reply_at_once_holds_up_no_key(parsed: Sequence[int]) -> None:
    store = store_with(turn_started())
    fake = FakeEngine(store)
    app = app_with(fake)
    async with standing(app) as pilot:
        store.dispatch(LlmCallStarted(llm_id="llm1", purpose="main", at=0.0))
        store.dispatch(ReplyDelta(llm_id="llm1", text=TEXT, at=1.0))
        await settled(pilot, lambda: "all of it, " in screen_text(app), "how much came")
        await pilot.press("x")
        assert app.bench.composer.text == "x"
        message = assistant(TEXT, 1)
        assert isinstance(message, AssistantMessage)
        store.dispatch(AssistantReplied(message=message))
        await settled(pilot, lambda: "more lines" in screen_text(app), "what is left out")
        await pilot.resize_terminal(100, 30)
        await pilot.press("ctrl+o", "y")
        await settled(pilot, lambda: "more lines" in screen_text(app), "the same at another width")
        assert app.bench.composer.text == "xy"
        assert parsed[0] <= AT_ONCE  # and the next time as much more
        assert max(parsed) <= MOST_REPLY
        assert sum(parsed) <= 6 * MOST_REPLY
        assert "The end of it." not in screen_text(app)
        chat = app.bench.talk.transcript
        assert chat is not None
        lines = screen_text(app).splitlines()
        at = next(y for y, line in enumerate(lines) if "more lines" in line)
        await pilot.click(offset=(6, at))  # all of it, for who asks
        await pilot.press("end")
        chat.action_scroll_end()
        await settled(pilot, lambda: "The end of it." in screen_text(app), "the end")
