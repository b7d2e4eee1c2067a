"""The chat: what it shows of a state, where its view stays, what can be copied and found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from rich.segment import Segment
from support.conversations import (
    LONG_REPLY,
    REPLY,
    START,
    ChatApp,
    answer,
    assistant,
    conversation,
    gate,
    live,
    notice,
    operation,
    user,
)
from support.pinned import ManualClock
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.scrollbar import ScrollBarRender

from duckflow_tui.safety.safe_text import is_safe
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import RunningOperation
from duckflow_tui.state.conversation import AssistantReplied, Level
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.state.usage import LlmCallStarted, ReplyDelta, Waiting
from duckflow_tui.ui.palette import DUCK_DARK, DUCK_LIGHT
from duckflow_tui.words.catalogue import Catalogue

DEADLINE = 30.0


def told(*texts: str) -> AgentState:
    """A state with user messages of these texts."""
    state = AgentState()
    state.messages = [user(text, number) for number, text in enumerate(texts)]
    return state


async def until(condition: Callable[[], bool]) -> None:
    """Wait for the screen to get there."""
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110  # what is waited for is drawn, not signalled
            await asyncio.sleep(0.01)


async def reading(app: ChatApp, pilot: Pilot[None], line: int) -> list[str]:
    """Scroll to the line, away from the end; what is on the screen then."""
    app.chat.scroll_to(y=line, animate=False)
    await pilot.pause()
    return app.lines()


def on_ground(app: ChatApp, y: int, color: str) -> str:
    """What stands on that background on a line of the screen."""
    return "".join(
        segment.text
        for segment in app.chat.render_line(y)
        if segment.style and segment.style.bgcolor and segment.style.bgcolor.name == color.lower()
    )


# --- what is shown ---------------------------------------------------------------------------


async def test_an_operation_is_a_row_with_figures_time_and_a_sign() -> None:
    """Covers S0-44."""
    state = AgentState()
    state.messages = [
        operation("file_ops.read_file", {"path": "src/shop/pricing.py"}),
        operation(
            "shell.run",
            {"command": "pytest -q"},
            Outcome.ERROR,
            summary="1 failed, 11 passed",
            seconds=1.9,
        ),
    ]
    app = ChatApp(state)
    async with app.run_test(size=(70, 10)):
        first, second = app.lines()[:2]
    assert first.split() == ["▸", "read", "src/shop/pricing.py", "0.1", "s", "✓"]
    assert second.strip().startswith("▸ shell  pytest -q  1 failed, 11 passed  ")
    assert second.endswith("1.9 s ✗")


@pytest.mark.parametrize(
    ("choice", "outcome", "fields", "said"),
    [
        (GateChoice.REJECT, Outcome.REJECTED, {"reason": "not now"}, "rejected: not now"),
        (GateChoice.REJECT, Outcome.REJECTED, {}, "rejected"),
        (
            GateChoice.ALTERNATIVE,
            Outcome.DECLINED,
            {"alternative": 2},
            "alternative chosen: cap it",
        ),
        (GateChoice.EDIT, Outcome.OK, {"edited": "x"}, "applied with your edit"),
        (GateChoice.ONCE, Outcome.OK, {"left_out": ((0, 1),)}, "hunks left out: 1"),
    ],
)
async def test_a_decision_of_the_user_stands_at_its_operation(
    choice: GateChoice, outcome: Outcome, fields: dict[str, object], said: str
) -> None:
    state = AgentState()
    state.messages = [
        operation(
            "file_ops.edit_file",
            {"path": "a.py"},
            outcome,
            gate=gate(alternatives=("keep it", "cap it")),
            answer=answer(choice, **fields),
        )
    ]
    app = ChatApp(state)
    async with app.run_test(size=(70, 5)):
        assert said in app.lines()[0]


async def test_reasoning_is_folded_with_its_length_and_time() -> None:
    state = AgentState()
    state.messages = [assistant(REPLY, reasoning="because " * 10, reasoning_s=4.0)]
    app = ChatApp(state)
    async with app.run_test(size=(70, 12)) as pilot:
        assert app.lines()[0].strip() == "▸ thought for 4 s · 80 characters"
        assert not any("because" in line for line in app.lines())
        await pilot.click(app.chat, offset=(6, 0))
        assert "because" in app.lines()[1]
        await pilot.click(app.chat, offset=(6, 0))
        assert not any("because" in line for line in app.lines())


async def test_folding_all_shows_the_details_of_every_operation() -> None:
    state = conversation()
    app = ChatApp(state)
    async with app.run_test(size=(100, 80)) as pilot:
        folded = app.lines()
        app.chat.action_fold()
        await pilot.pause()
        text = "\n".join(app.lines())
        assert "find the cause" in text
        assert "1 failed, 11 passed" in text.replace("\n", " ")
        app.chat.action_fold()
        await pilot.pause()
        assert app.lines() == folded


async def test_a_long_result_names_how_many_lines_it_leaves_out() -> None:
    state = AgentState()
    state.messages = [operation("file_ops.read_file", {"path": "a"}, text="line\n" * 246)]
    app = ChatApp(state)
    async with app.run_test(size=(80, 60)) as pilot:
        app.chat.action_fold()
        await pilot.pause()
        assert any("… 214 more lines" in line for line in app.lines())


async def test_notices_have_a_sign_and_a_word_for_their_level() -> None:
    state = AgentState()
    state.messages = [
        notice("turn.stopped"),
        notice("files.changed_outside", Level.WARNING, paths="a\x1b[2Jb"),
        notice("settings.problem", Level.ERROR, problem="x"),
    ]
    app = ChatApp(state)
    async with app.run_test(size=(80, 6)):
        info, warning, error = app.lines()[:3]
    assert info.split()[0] == "·"
    assert warning.split()[:2] == ["!", "Note:"]
    assert "a␛[2Jb" in warning
    assert error.split()[:2] == ["✗", "Error:"]


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        (Waiting(reason="silent", since=START + 90), "waiting for the model · 10 s"),
        (
            Waiting(reason="rate_limited", until=START + 104),
            "too many requests · retrying in 4 s",
        ),
        (Waiting(reason="odd\u202ecode", since=START + 90), "odd⟨U+202E⟩code · for 10 s"),
    ],
)
async def test_a_call_that_does_not_move_says_why(waiting: Waiting, said: str) -> None:
    state = AgentState()
    state.live["llm9"] = live(waiting=waiting)
    app = ChatApp(state)
    async with app.run_test(size=(70, 5)):
        lines = [line.strip() for line in app.lines() if line.strip()]
        assert lines == [f"◌ {said[:1].upper()}{said[1:]} · Esc pauses"]  # and it is said once


async def test_what_runs_counts_its_seconds_and_what_needs_the_user_says_so() -> None:
    state = conversation()
    clock = ManualClock(START + 100)
    app = ChatApp(state, clock=clock)
    async with app.run_test(size=(100, 24)):
        text = "\n".join(app.lines())
        assert "◌ shell  pytest -q tests  41 %" in text
        assert text.count("needs you") == 1
        assert "Esc pauses" not in text  # the gate says what Esc does
        assert any(line.endswith("0:12") for line in app.lines())
        clock.advance(5)
        await until(lambda: any(line.endswith("0:17") for line in app.lines()))


async def test_nothing_moves_by_itself_when_nothing_runs() -> None:
    state = AgentState()
    app = ChatApp(state)
    app.chat.animation = True
    async with app.run_test(size=(80, 24)) as pilot:
        assert not app.chat.is_moving
        state.running = (
            RunningOperation(call_id="r", operation="shell.run", args={}, started=True, at=START),
        )
        app.chat.show_state(state)
        assert app.chat.is_moving
        state.running = ()
        app.say(operation("shell.run", {"command": "ls"}))
        await pilot.pause()
        assert not app.chat.is_moving


async def test_hostile_text_is_shown_and_does_not_act() -> None:
    bad = "\x1b]52;c;QQ==\x07 [link=https://x]y[/link] \u202e \u200b [@click=app.bell]z[/] \x9b2J"
    state = AgentState()
    state.messages = [
        user(bad),
        assistant(bad + "\n\n```\n" + bad + "\n```\n[" + bad + "](http://x)", reasoning=bad),
        operation("evil." + bad, {"path": bad, bad: bad}, Outcome.ERROR, text=bad, summary=bad),
        notice("turn.stopped", x=bad),
        assistant("", raw=bad),
    ]
    state.live["llm9"] = live(bad, reasoning=bad)
    state.running = (RunningOperation(call_id="r", operation=bad, args={"x": bad}, at=START),)
    app = ChatApp(state)
    async with app.run_test(size=(80, 90)) as pilot:
        app.chat.action_fold()
        await pilot.pause()
        for y in range(90):
            for segment in app.chat.render_line(y):
                assert is_safe(segment.text)
                style = segment.style
                assert style is None or (not style.link and set(style.meta) <= {"offset"})
        text = "\n".join(app.lines())
        assert "␛]52;c;QQ==␇ [link=https://x]y[/link] ⟨U+202E⟩" in text


async def test_the_same_words_are_drawn_the_same_wherever_they_stand() -> None:
    """A style for each place would stay in the caches of a process that runs for long."""
    app = ChatApp(told(*["the same words"] * 60))
    async with app.run_test(size=(40, 10)) as pilot:
        chat, drawn = app.chat, list[list[list[Segment]]]()
        for line in (20, 60):
            await reading(app, pilot, line)
            strips = chat.render_lines(chat.size.region)[:-1]  # the last counts what is below
            drawn.append([list(strip) for strip in strips])
        assert "the same words" in "".join(s.text for s in drawn[0][0])
        assert drawn[0] == drawn[1]


async def test_the_pointer_finds_the_character_of_the_page() -> None:
    app = ChatApp(told(*["the same words"] * 60))
    async with app.run_test(size=(40, 10)) as pilot:
        lines = await reading(app, pilot, 20)
        assert lines[2].endswith("the same words")
        found = app.screen.get_widget_and_offset_at(5, 2)
        assert found == (app.chat, Offset(5, 22))


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 10, 13, 20, 31])
async def test_every_width_is_drawn_to_its_last_cell(width: int) -> None:
    state = conversation("ja")
    state.messages.append(assistant(LONG_REPLY + "👨‍👩‍👧‍👦" * 20, reasoning="思考" * 40))
    app = ChatApp(state, language="ja")
    async with app.run_test(size=(width, 20)) as pilot:
        app.chat.action_fold()
        app.chat.action_scroll_home()
        await pilot.pause()
        inside = app.chat.scrollable_content_region.width
        for _ in range(10):
            for y in range(20):
                assert app.chat.render_line(y).cell_length == max(inside, 1)
            app.chat.action_page_down()


async def test_language_and_theme_change_what_is_there() -> None:
    app = ChatApp(conversation())
    async with app.run_test(size=(90, 30)) as pilot:
        app.chat.words = Catalogue("ja")
        await pilot.pause()
        assert any(Catalogue("ja")("transcript.needs_you") in line for line in app.lines())
        app.theme = "duck-light"
        await pilot.pause()
        ground = [on_ground(app, y, DUCK_LIGHT.background) for y in range(30)]
        assert all(ground)
        assert not any(on_ground(app, y, DUCK_DARK.background) for y in range(30))


async def test_a_thought_whose_reply_still_arrives_changes_with_language_and_width() -> None:
    state = AgentState()
    state.live["llm9"] = live("So", reasoning="why " * 60)
    app = ChatApp(state)
    async with app.run_test(size=(80, 30)) as pilot:
        app.chat.action_fold()
        await pilot.resize_terminal(40, 30)
        await pilot.pause()
        assert "".join(app.lines()).count("why") == 60
        app.chat.words = Catalogue("ja")
        await pilot.pause()
        assert "思考" in app.lines()[0]


# --- replies that arrive ---------------------------------------------------------------------


async def test_a_store_is_followed_and_a_reply_ends_as_if_it_had_come_at_once() -> None:
    store = Store(AgentState(), ManualClock(START), MemoryRecorder())
    app = ChatApp()
    async with app.run_test(size=(60, 50)) as pilot:
        app.chat.bind_state(store, Catalogue("en"))
        store.dispatch(LlmCallStarted(llm_id="llm1", purpose="main", at=START))
        await until(lambda: app.lines()[0].strip() == "◌ Thinking · 0:00 · Esc pauses")
        for at in range(0, len(LONG_REPLY), 7):
            piece = LONG_REPLY[at : at + 7]
            store.dispatch(ReplyDelta(llm_id="llm1", text=piece, at=START))
        await until(lambda: "at the end." in "".join(app.lines()))
        arriving = [line for line in app.lines() if "Esc pauses" not in line]
        store.dispatch(AssistantReplied(message=assistant(LONG_REPLY, 1)))
        await until(lambda: not app.chat.is_moving and not store.state.live)
        await pilot.pause()
        ended = app.lines()
        app.chat.bind_state(store, Catalogue("en"))
        await pilot.pause()
        assert app.lines() == ended
        assert "\n".join(arriving).rstrip() == "\n".join(ended).rstrip()


async def test_a_reply_that_was_cut_off_says_so() -> None:
    state = AgentState()
    state.messages = [assistant("Half a sen", complete=False)]
    app = ChatApp(state)
    async with app.run_test(size=(60, 5)):
        assert app.lines()[1].strip() == "— cut off here"


# --- where the view is -----------------------------------------------------------------------


async def test_the_view_follows_the_end_only_while_the_user_is_there() -> None:
    app = ChatApp(told(*(f"message {number}" for number in range(40))))
    async with app.run_test(size=(60, 12)) as pilot:
        assert app.lines()[-1].strip() == "› message 39"
        app.say(user("message 40"))
        await pilot.pause()
        assert app.lines()[-1].strip() == "› message 40"
        before = await reading(app, pilot, 20)
        app.say(user("one"), user("two"))
        await pilot.pause()
        assert app.lines()[:-1] == before[:-1]
        assert app.lines()[-1].strip() == "↓ 4 new lines · End"
        app.chat.action_scroll_end()
        await pilot.pause()
        assert app.lines()[-1].strip() == "› two"
        app.say(user("three"))
        await pilot.pause()
        assert app.lines()[-1].strip() == "› three"


async def test_a_click_on_the_line_of_new_lines_goes_to_the_end() -> None:
    app = ChatApp(told(*(f"message {number}" for number in range(40))))
    async with app.run_test(size=(60, 12)) as pilot:
        await reading(app, pilot, 0)
        app.say(user("last"))
        await pilot.pause()
        await pilot.click(app.chat, offset=(5, 11))
        assert app.lines()[-1].strip() == "› last"


async def test_other_widths_keep_the_words_at_the_top() -> None:
    texts = [f"start{number} " + f"word{number} " * 40 for number in range(30)]
    app = ChatApp(told(*texts))
    async with app.run_test(size=(80, 12)) as pilot:
        before = await reading(app, pilot, 60)
        for width in (50, 33, 61, 80):
            await pilot.resize_terminal(width, 12)
            await pilot.pause()
            assert app.lines()[0].split()[-1] == before[0].split()[-1]
        assert app.lines() == before


async def test_scrolling_up_through_blocks_never_seen_skips_nothing() -> None:
    texts = [f"**m{number}**\n\n- a\n- b\n\n```\ncode\n```" for number in range(60)]
    state = AgentState()
    state.messages = [assistant(text, number) for number, text in enumerate(texts)]
    app = ChatApp(state)
    async with app.run_test(size=(60, 10)) as pilot:
        seen: list[str] = []
        while app.chat.scroll_offset.y > 0:
            top = app.lines()[0]
            app.chat.action_scroll_up()
            await pilot.pause(0)
            assert app.lines()[1] == top
            seen.append(app.lines()[0].strip())
        names = [line.removeprefix("◆ ") for line in reversed(seen) if "m" in line]
        assert names[:50] == [f"m{number}" for number in range(50)]


@pytest.mark.parametrize("rows", [2, 7, 30])
async def test_the_scroll_bar_is_drawn_as_the_view_is_now(rows: int) -> None:
    """However it came there: message by message, by a layout of the screen, which writes sizes
    into the bar by itself, by scrolling up, by a smaller terminal.
    """
    app = ChatApp(told("message"))

    def drawn(height: float, in_sight: float, position: float) -> list[Segment]:
        height = max(height, in_sight)
        bar = ScrollBarRender.render_bar(app.chat.size.height, height, in_sight, position)
        return list(bar.segments)

    def assert_true() -> None:
        bar, view = app.chat.vertical_scrollbar, app.chat
        if view.show_vertical_scrollbar:
            shown = drawn(bar.window_virtual_size, bar.window_size, bar.position)
            assert shown == drawn(view.virtual_size.height, view.size.height, view.scroll_y)

    async with app.run_test(size=(60, rows)) as pilot:
        for number in range(40):
            app.say(user(f"message {number}"))
            await pilot.pause()
            assert_true()
            app.screen.refresh(layout=True)
            await pilot.pause()
            assert_true()
        for line in (33, 32, 20, 19, 1, 0):
            await reading(app, pilot, line)
            assert_true()
        await pilot.resize_terminal(60, max(2, rows // 2))
        await pilot.pause()
        assert_true()


# --- copying and finding ---------------------------------------------------------------------


async def test_a_reply_selected_whole_is_copied_as_its_source() -> None:
    state = AgentState()
    state.messages = [user("hello"), assistant(LONG_REPLY)]
    app = ChatApp(state)
    async with app.run_test(size=(80, 40)) as pilot:
        app.chat.focus()
        app.chat.action_select_block(-1)
        await pilot.pause()
        assert app.screen.get_selected_text() == LONG_REPLY.rstrip("\n")
        app.chat.action_select_block(-1)
        await pilot.pause()
        assert app.screen.get_selected_text() == "hello"
        await pilot.press("ctrl+a")
        assert app.screen.get_selected_text() == f"hello\n\n{LONG_REPLY.rstrip()}"
    assert app.chat.last_reply_markdown() == LONG_REPLY


async def test_a_part_is_copied_as_it_stands_without_margin_and_padding() -> None:
    state = AgentState()
    state.messages = [assistant("```python\nif a:\n    b()\n```\n\nend of it")]
    app = ChatApp(state)
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.mouse_down(app.chat, offset=(3, 0))
        await pilot.hover(app.chat, offset=(40, 1))
        await pilot.mouse_up(app.chat, offset=(40, 1))
        assert app.screen.get_selected_text() == "if a:\n    b()"
        await pilot.click(app.chat, offset=(8, 3), times=2)
        assert app.screen.get_selected_text() == "of"
        assert on_ground(app, 3, DUCK_DARK.selection) == "of"


async def test_wide_characters_are_selected_where_the_pointer_is() -> None:
    app = ChatApp(told("日本語 です"))
    async with app.run_test(size=(40, 6)) as pilot:
        await pilot.click(app.chat, offset=(6, 0), times=2)
        assert app.screen.get_selected_text() == "日本語"


async def test_search_counts_marks_and_goes_round() -> None:
    state = told(*(f"message {number} Apple" for number in range(30)))
    state.messages.insert(3, operation("shell.run", {"command": "x"}, text="an apple inside"))
    app = ChatApp(state)
    async with app.run_test(size=(60, 12)) as pilot:
        chat = app.chat
        assert chat.search("apple") == 31
        assert chat.next_match()
        assert chat.search_position == (31, 31)
        for _ in range(28):
            chat.next_match(-1)
        await pilot.pause()
        assert chat.search_position == (3, 31)
        assert any("message 2 Apple" in line for line in app.lines())
        chat.next_match()
        await pilot.pause()
        assert any("an apple inside" in line for line in app.lines())
        app.say(user("pineapple"))
        assert chat.search_position[1] == 32
        assert chat.search("absent") == 0
        assert not chat.next_match()
        assert chat.search("") == 0


async def test_a_match_that_is_broken_over_two_rows_is_found() -> None:
    app = ChatApp(told("aaaa " * 3 + "aa needle in hay"))
    async with app.run_test(size=(30, 12)) as pilot:
        assert app.chat.search("needle in") == 1
        app.chat.next_match()
        await pilot.pause()
        found = [on_ground(app, y, DUCK_DARK.accent) for y in range(4)]
        assert [text for text in found if text] == ["needle", "in"]


async def test_enter_opens_the_row_that_is_marked() -> None:
    state = AgentState()
    state.messages = [operation("shell.run", {"command": f"run {n}"}, text="out") for n in range(3)]
    app = ChatApp(state)
    async with app.run_test(size=(60, 30)) as pilot:
        app.chat.focus()
        await pilot.press("up", "up", "enter")
        assert app.lines()[0].strip().startswith("▸")
        assert app.lines()[1].strip().startswith("▾")
        assert "│ intent" in app.lines()[2]
        await pilot.press("enter")
        assert app.lines()[1].strip().startswith("▸")
