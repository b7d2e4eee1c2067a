"""What the chat looks like, in both languages, in each theme, at the three sizes."""

from __future__ import annotations

from typing import Any

import pytest
from support.conversations import ChatApp, conversation, live
from textual.pilot import Pilot

SIZES = [(120, 40), (80, 24), (60, 20)]


@pytest.mark.parametrize("size", SIZES, ids=["120x40", "80x24", "60x20"])
@pytest.mark.parametrize(("language", "theme"), [("en", "duck-dark"), ("ja", "duck-light")])
def test_a_turn_from_its_beginning(
    snap_compare: Any, language: str, theme: str, size: tuple[int, int]
) -> None:
    app = ChatApp(conversation(language), language=language, theme=theme)

    async def to_the_start(pilot: Pilot[None]) -> None:
        await pilot.pause()
        app.chat.action_scroll_home()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=to_the_start)


@pytest.mark.parametrize("size", SIZES, ids=["120x40", "80x24", "60x20"])
@pytest.mark.parametrize(("language", "theme"), [("ja", "duck-dark"), ("en", "duck-light")])
def test_a_turn_at_the_gate(
    snap_compare: Any, language: str, theme: str, size: tuple[int, int]
) -> None:
    app = ChatApp(conversation(language), language=language, theme=theme)
    assert snap_compare(app, terminal_size=size)


def test_a_reply_that_arrives_while_the_user_reads_above(snap_compare: Any) -> None:
    state = conversation()
    state.running, state.gates, state.queue = (), (), ()
    app = ChatApp(state)

    async def read_above(pilot: Pilot[None]) -> None:
        await pilot.pause()
        app.chat.scroll_to(y=4, animate=False)
        state.live["llm9"] = live("A first paragraph.\n\n- and\n- a list", reasoning="why " * 99)
        app.chat.show_state(state)
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=read_above)


def test_details_search_and_high_contrast(snap_compare: Any) -> None:
    app = ChatApp(conversation(), theme="duck-contrast")

    async def open_and_search(pilot: Pilot[None]) -> None:
        await pilot.pause()
        app.chat.action_fold()
        app.chat.search("failed")
        app.chat.next_match()
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=open_and_search)
