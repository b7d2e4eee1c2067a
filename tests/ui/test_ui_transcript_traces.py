"""The chat: what stands at a call afterwards, and what says that something waits."""

from __future__ import annotations

import pytest
from support.conversations import START, ChatApp, answer, assistant, gate, operation
from support.gates import preview
from support.pinned import ManualClock

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.turn import TurnInfo
from duckflow_tui.state.usage import LiveReply


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"answer": answer(GateChoice.ONCE), "gate": gate()}, "allowed once"),
        ({"answer": answer(GateChoice.SESSION), "gate": gate()}, "allowed for this session"),
        ({"allowed": "granted"}, "allowed by an earlier answer"),
        ({"allowed": "trusted"}, "auto-allowed (trusted mode)"),
    ],
)
async def test_which_consent_allowed_a_call_stands_among_its_details(
    fields: dict[str, object], said: str
) -> None:
    state = AgentState()
    done = operation("file_ops.edit_file", {"path": "a.py"}, summary="+1 −1")
    state.messages = [done.model_copy(update=fields)]
    app = ChatApp(state)
    async with app.run_test(size=(90, 5)) as pilot:
        assert app.lines()[0].split() == ["▸", "edit", "a.py", "+1", "−1", "0.1", "s", "✓"]
        app.chat.action_fold()
        await pilot.pause()
        assert said in "\n".join(app.lines())


async def test_details_show_the_change_and_not_its_arguments() -> None:
    change = preview("a.py", "a = 1\nb = 2", "a = 1\nb = 3")
    edits = [{"old": "b = 2", "new": "b = 3"}]
    done = operation("file_ops.edit_file", {"path": "a.py", "edits": edits})
    refused = operation("file_ops.edit_file", {"path": "b.py", "edits": edits}, Outcome.DENIED)
    state = AgentState()
    state.messages = [done.model_copy(update={"previews": (change,)}), refused]
    app = ChatApp(state)
    async with app.run_test(size=(70, 30)) as pilot:
        app.chat.action_fold()
        await pilot.pause()
        text = "\n".join(app.lines())
        assert '"old"' not in text
        assert "2   - b = 2" in text
        assert "2 + b = 3" in text
        assert "- b = 2" in text.partition("b.py")[2]


async def test_why_a_call_failed_is_whole_and_says_the_path_once() -> None:
    path = "src/shop/pricing.py"
    why = f"{path} was not read before, so that nothing of it can be edited"
    state = AgentState()
    state.messages = [operation("file_ops.edit_file", {"path": path}, Outcome.ERROR, summary=why)]
    app = ChatApp(state)
    async with app.run_test(size=(60, 6)):
        text = " ".join(" ".join(app.lines()).split())
        assert text.count(path) == 1
        assert "was not read before, so that nothing of it can be edited" in text.replace("↳ ", "")


async def test_a_reply_that_stands_still_says_that_it_goes_on() -> None:
    """What it would do is still arriving: a sign and the time move until that is there."""
    state = AgentState()
    live = LiveReply("llm1", "main", START)
    live.text.append("I raise it.")
    state.live["llm1"] = live
    clock = ManualClock(START)
    app = ChatApp(state, clock=clock)
    async with app.run_test(size=(60, 8)) as pilot:
        assert not any("next" in line for line in app.lines())
        assert app.chat.is_moving
        clock.advance(3)
        app.chat.show_state(state)
        await pilot.pause()
        assert any("Deciding what to do next · 0:03" in line for line in app.lines())
        live.text.append(" And more.")
        app.chat.show_state(state)
        await pilot.pause()
        assert not any("Writing what" in line for line in app.lines())


async def test_a_pause_says_what_is_halted() -> None:
    """The keys stand where they change with what is written."""
    state = AgentState()
    state.turn = TurnInfo(turn_id="t", message_id="u0", started_at=START, pause="pausing")
    app = ChatApp(state)
    async with app.run_test(size=(90, 8)) as pilot:
        assert any("Pausing at the next safe point" in line for line in app.lines())
        state.turn = state.turn.model_copy(update={"pause": "paused"})
        app.chat.show_state(state)
        await pilot.pause()
        text = " ".join(app.lines())
        assert "Paused: nothing more is done until you continue" in text
        state.turn = state.turn.model_copy(update={"pause": "running"})
        app.chat.show_state(state)
        await pilot.pause()
        assert not any("Paus" in line for line in app.lines())


async def test_a_search_makes_no_new_lines() -> None:
    """Blocks that search draws turn out taller than was thought; nothing arrived."""
    state = AgentState()
    long = "word " * 60
    state.messages = [assistant(f"apple {n} {long}", n) for n in range(40)]
    app = ChatApp(state)
    async with app.run_test(size=(50, 12)) as pilot:
        await pilot.pause()
        app.chat.search("apple")
        for _ in range(12):
            app.chat.next_match(-1)
            await pilot.pause()
            assert app.chat.new_lines == 0
        app.say(assistant("one more", 99))
        await pilot.pause()
        assert app.chat.new_lines > 0


async def test_normal_progress_is_one_short_line_for_each_activity() -> None:
    """Covers S0-37."""
    state = AgentState()
    state.messages = [
        operation("file_ops.read_file", {"path": "a.py"}, summary="1–9/9"),
        operation("shell.run", {"command": "pytest -q"}, summary="exit 0 · 1.2s"),
        operation("file_ops.edit_file", {"path": "a.py"}, summary="+1 −1"),
    ]
    app = ChatApp(state)
    async with app.run_test(size=(70, 12)):
        rows = [row.strip() for row in app.lines() if row.strip()]
    assert [row.split()[:2] for row in rows] == [["▸", "read"], ["▸", "shell"], ["▸", "edit"]]
    assert ["a.py" in rows[0], "pytest -q" in rows[1], "+1 −1" in rows[2]] == [True] * 3


@pytest.mark.parametrize(
    ("language", "summary", "said"),
    [
        ("en", "0 · 0", "0 matches in 0 files"),
        ("en", "1 · 1", "1 match in 1 file"),
        ("ja", "12 · 3", "12 件（3 ファイル）"),
    ],
)
async def test_a_search_says_what_its_figures_count(language: str, summary: str, said: str) -> None:
    state = AgentState()
    state.messages = [operation("file_ops.search_text", {"pattern": "duck"}, summary=summary)]
    app = ChatApp(state, language=language)
    async with app.run_test(size=(70, 4)):
        assert said in app.lines()[0]
