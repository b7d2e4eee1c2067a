"""The text of the chat is the same drawn, copied and searched for."""

from __future__ import annotations

import re

import pytest
from support import consults, plans
from support.conversations import ChatApp, conversation, notice, user
from textual.geometry import Offset
from textual.selection import Selection

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import Level
from duckflow_tui.ui.panes import column_view

HEIGHT = 500  # lines: nothing is scrolled away
MARGIN = 3  # characters in front of each row: free, mark, free


def everything(language: str) -> AgentState:
    """Messages of every kind, none in flight."""
    state = AgentState()
    state.messages = [
        *conversation(language).messages,
        *plans.talk(language),
        *consults.talk(language),
        consults.reviewed(consults.review(language)),
        consults.attempt(language),
    ]
    return state


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("width", [44, 80, 140])
async def test_what_is_drawn_is_what_is_copied_and_what_is_found(
    language: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row copies as it stands; a search finds each word as often as it is on the screen, and
    finds it too while it is folded away.
    """
    monkeypatch.setattr(column_view, "SEARCH_SLICE", 60.0)
    app = ChatApp(everything(language), language=language)
    async with app.run_test(size=(width, HEIGHT)) as pilot:
        app.chat.action_fold()
        await pilot.pause()
        drawn = app.lines()
        check_copies(app, drawn)
        text = "\n".join(line[MARGIN:] for line in drawn).lower()
        found: dict[str, int] = {}
        for word in set(re.findall(r"[^\W\d_]{4,12}", text)):
            found[word] = app.chat.search(word)
            # A word that a narrow row breaks is found as well.
            assert found[word] >= text.count(word), word
            assert found[word] == text.count(word) or width < 140, word
        app.chat.action_fold()
        await pilot.pause()
        check_copies(app, app.lines())
        assert {word: app.chat.search(word) for word in found} == found


def check_copies(app: ChatApp, drawn: list[str]) -> None:
    """Parts of each line, copied, are that part of it."""
    for y, line in enumerate(drawn):
        for start, stop in ((MARGIN, 9), (5, len(line) - 1), (7, 8)):
            copied = app.chat.get_selection(Selection(Offset(start, y), Offset(stop, y)))
            assert (copied[0] if copied else "") == line[start : max(start, stop)].rstrip()


async def test_a_note_is_found_by_the_words_that_it_shows() -> None:
    state = AgentState()
    state.messages = [user("hello"), notice("files.changed_outside", Level.WARNING, paths="b.py")]
    app = ChatApp(state)
    async with app.run_test(size=(80, 20)):
        assert app.chat.search("changed outside") == 1
        assert app.chat.search("files.changed_outside") == 0


async def test_a_long_chat_is_searched_in_pieces_from_its_end() -> None:
    state = AgentState()
    state.messages = [user(f"message {number} apple", number) for number in range(3_000)]
    app = ChatApp(state)
    async with app.run_test(size=(80, 20)) as pilot:
        found: list[int] = []
        app.chat.search("apple", lambda: found.append(app.chat.search_position[1]))
        assert app.chat.next_match()
        while app.chat.search_position[1] < 3_000:
            await pilot.pause()
        assert app.chat.search_position == (3_000, 3_000)
