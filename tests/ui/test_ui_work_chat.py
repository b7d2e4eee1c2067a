"""The chat while work runs: talking, queueing, commands and what they print, processes, servers."""

from __future__ import annotations

import time

import pytest
from support.app_states import FakeEngine, app_with, settled, standing, store_with, turn_started
from support.conversations import ChatApp, assistant, notice, user
from support.lists import take_action
from support.open_apps import OpenApps
from support.pinned import ManualClock
from support.running_states import (
    FAILING,
    QUEUE,
    aside,
    ended,
    in_background,
    runs,
    served,
    turn_took,
    waits,
    working,
)
from support.screens import screen_text
from textual.pilot import Pilot

from duckflow_tui.session.blobs import MemoryBlobs
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import TAIL, LiveOutput, OperationOutput
from duckflow_tui.state.conversation import NoticeAdded, QueueItemRemoved, UserMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.processes import McpServerChanged, ProcessEnded, ProcessOutput
from duckflow_tui.state.session import DraftSaved
from duckflow_tui.state.turn import TurnPaused
from duckflow_tui.tools.results import bound_result
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.panes.operation_blocks import CommandBlock
from duckflow_tui.ui.panes.transcript import Transcript
from duckflow_tui.ui.screens.edit_proposal import EditText
from duckflow_tui.ui.screens.list_page import ListPage
from duckflow_tui.words.catalogue import Catalogue

CALL = "call_00000001"


def chat_of(app: DuckflowApp) -> list[str]:
    """What the chat shows, without padding."""
    chat = app.bench.talk.transcript
    assert chat is not None
    return [chat.render_line(y).text.rstrip() for y in range(chat.size.height)]


def says(app: DuckflowApp, text: str) -> bool:
    return any(text in line for line in chat_of(app))


def page(app: DuckflowApp) -> str:
    """What the open board shows."""
    board = app.screen
    assert isinstance(board, ListPage)
    rows = board.query_one("Page")
    return "\n".join(rows.render_line(y).text.rstrip() for y in range(rows.size.height))


async def opened(pilot: Pilot[int], app: DuckflowApp, *keys: str) -> None:
    """Press the keys that open a board, and wait until its letters count."""
    await pilot.press(*keys)
    await settled(pilot, lambda: isinstance(app.screen, ListPage), "the board")
    clock = app.clock
    assert isinstance(clock, ManualClock)
    clock.advance(SETTLE_S)
    await pilot.pause()


# --- talking and queueing --------------------------------------------------------------------


async def test_enter_talks_now_and_tab_queues_while_work_runs(open_apps: OpenApps) -> None:
    """Covers complaint 20: which of the two it is stands at the composer and at the message."""
    fake = FakeEngine(store_with(turn_started()))
    async with open_apps.standing(fake) as (app, pilot):
        hint = str(app.bench.composer.border_subtitle)
        assert "Enter send now" in hint
        assert "Tab next turn" in hint
        await pilot.press("h", "i", "enter")
        await settled(pilot, lambda: bool(fake.store.state.messages), "the message")
        said = fake.store.state.messages[0]
        assert isinstance(said, UserMessage)
        assert said.aside
        assert fake.store.state.queue == ()
        await settled(pilot, lambda: says(app, "› hi   side question"), "the chip")
        await pilot.press("y", "o", "tab")
        await settled(pilot, lambda: [q.text for q in fake.store.state.queue] == ["yo"])
        assert len(fake.store.state.messages) == 1


async def test_while_paused_enter_gives_the_work_another_direction(open_apps: OpenApps) -> None:
    fake = FakeEngine(store_with(turn_started()))
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("escape")
        fake.store.dispatch(TurnPaused(at=fake.store.clock.now()))
        await settled(pilot, lambda: "redirects" in str(app.bench.composer.border_subtitle))
        await pilot.press("n", "o", "enter")
        await settled(pilot, lambda: [q.text for q in fake.store.state.queue] == ["no"])


@pytest.mark.parametrize("size", [(120, 40), (60, 20), (60, 12)])
async def test_while_paused_one_place_says_what_enter_does_with_what_is_written(
    size: tuple[int, int],
) -> None:
    """A draft that a session brought back is sent, and does not let the work go on. The frame of
    the composer says so, where it has one, else the last line.
    """
    fake = FakeEngine(store_with(turn_started()))
    fake.store.dispatch(DraftSaved(text="half a thought"))
    fake.store.dispatch(TurnPaused(at=fake.store.clock.now()))
    app = app_with(fake)

    def foot() -> str:
        return app.bench.status.render_line(0).text

    def enters() -> list[str]:
        """The lines of the screen that say what Enter does."""
        return [line for line in screen_text(app).splitlines() if "Enter" in line]

    async with standing(app, *size) as pilot:
        say = Catalogue("en")
        fake.store.dispatch(NoticeAdded(message=notice("resume.interrupted_draft")))
        if size[1] >= 20:
            await settled(pilot, lambda: says(app, "was interrupted"), "why it is paused")
        said = say("composer.redirects") if size[1] >= 20 else "Enter redirect"
        await settled(pilot, lambda: said in "".join(enters()), "what the draft does")
        assert len(enters()) == 1
        await pilot.press(*["backspace"] * len("half a thought"))
        await settled(pilot, lambda: "Enter continue" in foot(), "what an empty Enter does")
        assert "redirects" not in foot()
        await pilot.press(*"/help")
        await settled(pilot, lambda: not enters(), "a command is neither")


async def test_nothing_is_said_of_now_and_next_while_nothing_runs(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, _):
        assert not app.bench.composer.border_subtitle


async def test_more_than_three_waiting_messages_are_counted(open_apps: OpenApps) -> None:
    store = working()
    waits(store, QUEUE)
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        queue = app.bench.queue
        await settled(pilot, lambda: queue.size.height == 4)
        lines = [queue.render_line(y).text for y in range(4)]
        assert "then commit it" in lines[0]
        assert "2 more" in lines[3]


# --- the queue is opened ---------------------------------------------------------------------


@pytest.mark.parametrize("keys", [("alt+up",), ("/", "q", "u", "e", "u", "e", "enter")])
async def test_a_waiting_message_is_rewritten(open_apps: OpenApps, keys: tuple[str, ...]) -> None:
    store = working()
    waits(store, QUEUE[:2])
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await opened(pilot, app, *keys)
        await pilot.press("down", "enter")
        await settled(pilot, lambda: isinstance(app.screen, EditText), "the editor")
        await pilot.press("!", "ctrl+s")
        await settled(pilot, lambda: isinstance(app.screen, ListPage))
        assert [q.text for q in store.state.queue] == [QUEUE[0], f"{QUEUE[1]}!"]
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, EditText), "the editor")
        await pilot.press("x", "escape")
        await settled(pilot, lambda: isinstance(app.screen, ListPage))
        assert [q.text for q in store.state.queue] == [QUEUE[0], f"{QUEUE[1]}!"]


async def test_what_was_rewritten_too_late_is_in_the_composer(open_apps: OpenApps) -> None:
    """A character that was typed is never lost."""
    store = working()
    waits(store, QUEUE[:1])
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await opened(pilot, app, "alt+up")
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, EditText), "the editor")
        store.dispatch(QueueItemRemoved(message_id=store.state.queue[0].message_id))
        await pilot.press("!", "ctrl+s")
        await settled(pilot, lambda: app.bench.composer.text == f"{QUEUE[0]}!")


async def test_waiting_messages_change_places_and_come_back(open_apps: OpenApps) -> None:
    store = working()
    waits(store, QUEUE[:3])
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await opened(pilot, app, "alt+up")
        await take_action(app, pilot, "move it down")
        await settled(
            pilot, lambda: [q.text for q in store.state.queue] == [QUEUE[1], QUEUE[0], QUEUE[2]]
        )
        for label in ("move it down", "move it up", "take it back into the composer"):
            await take_action(app, pilot, label)  # the cursor went with the message
        await settled(pilot, lambda: [q.text for q in store.state.queue] == [QUEUE[1], QUEUE[2]])
        assert app.bench.composer.text == QUEUE[0]


async def test_the_queue_may_empty_itself_while_it_is_open(open_apps: OpenApps) -> None:
    store = working()
    waits(store, QUEUE[:2])
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await opened(pilot, app, "alt+up")
        for message in store.state.queue:
            store.dispatch(QueueItemRemoved(message_id=message.message_id))
        await settled(pilot, lambda: "No more queued messages." in page(app))
        await pilot.press("enter", "full_stop", "escape")
        await settled(pilot, lambda: app.screen is app.bench)


# --- the user's own commands -----------------------------------------------------------------


async def test_a_line_behind_an_exclamation_mark_runs_as_the_users_own(open_apps: OpenApps) -> None:
    fake = FakeEngine(store_with())
    async with open_apps.standing(fake) as (app, pilot):
        composer = app.bench.composer
        await pilot.press("!", "l", "s")
        await settled(pilot, lambda: "own command" in str(composer.border_title))
        assert composer.has_class("-own")
        await pilot.press("enter")
        await settled(pilot, lambda: fake.commands == ["ls"])
        assert fake.sent == []
        assert not composer.border_title
        await pilot.press("up")
        assert composer.text == "!ls"
        await pilot.press("enter")
        await settled(pilot, lambda: fake.commands == ["ls", "ls"])


async def test_an_exclamation_mark_behind_a_space_is_a_message_again_and_again(
    open_apps: OpenApps,
) -> None:
    """Recalled from the history it must not become a command."""
    fake = FakeEngine(store_with())
    async with open_apps.standing(fake) as (_, pilot):
        await pilot.press("space", "!", "x", "enter")
        await settled(pilot, lambda: fake.sent == ["!x"])
        await pilot.press("up", "enter")
        await settled(pilot, lambda: fake.sent == ["!x", "!x"])
        assert fake.commands == []


async def test_an_exclamation_mark_alone_stays(open_apps: OpenApps) -> None:
    fake = FakeEngine(store_with())
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("!", "enter")
        await settled(pilot, lambda: "command after the !" in app.bench.status.notice_text)
        assert app.bench.composer.text == "!"
        assert fake.commands == fake.sent == []


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_key_ends_the_users_own_command_when_nothing_else_runs(
    open_apps: OpenApps, key: str
) -> None:
    store = store_with()
    runs(store, "sleep 100", by_user=True)
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (_, pilot):
        await pilot.press(key)
        await settled(pilot, lambda: fake.asked[-1:] == ["stop"])


# --- what a command prints -------------------------------------------------------------------


async def test_the_newest_lines_stand_below_a_running_command_and_more_unfolded(
    open_apps: OpenApps,
) -> None:
    store = working()
    runs(store, "make", "".join(f"line {number}\n" for number in range(60)))
    async with open_apps.standing(FakeEngine(store), 120, 60) as (app, pilot):
        await settled(pilot, lambda: says(app, "line 59"))
        shown = [line for line in chat_of(app) if "│ line" in line]
        assert [line.split()[-1] for line in shown] == ["55", "56", "57", "58", "59"]
        assert says(app, "Ctrl+O")
        store.dispatch(OperationOutput(call_id=CALL, text="line 60\nlast", at=0.0))
        await settled(pilot, lambda: says(app, "│ last"))
        assert not says(app, "line 56")
        await pilot.press("ctrl+o")
        await settled(pilot, lambda: sum("│ l" in line for line in chat_of(app)) == 40)


async def test_output_cannot_act_and_a_carriage_return_begins_its_line_anew(
    open_apps: OpenApps,
) -> None:
    store = working()
    runs(store, "make", "\x1b]52;c;eA==\x07\x1b[2Jhello\u202e\n 10 %\r 20 %\r 30 %")
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await settled(pilot, lambda: says(app, "30 %"))
        text = "\n".join(chat_of(app))
        assert "␛]52;c;eA==␇␛[2Jhello⟨U+202E⟩" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "│  30 %" in text


async def test_silence_is_said_after_two_minutes() -> None:
    """Covers complaint 37."""
    store = working()
    runs(store, "make", "step 1\n", ago=300, silent=0)
    app = app_with(FakeEngine(store))
    clock = store.clock
    assert isinstance(clock, ManualClock)
    async with standing(app) as pilot:
        await settled(pilot, lambda: says(app, "step 1"))
        clock.advance(119)
        assert app.bench.talk.transcript is not None
        app.bench.talk.transcript.show_state(store.state)
        assert not says(app, "no output")
        clock.advance(6)
        await settled(pilot, lambda: says(app, "no output for 2 min"))
        store.dispatch(OperationOutput(call_id=CALL, text="step 2\n", at=clock.now()))
        await settled(pilot, lambda: says(app, "step 2") and not says(app, "no output"))


async def test_a_flood_of_output_is_drawn_at_most_fifteen_times_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fifty megabytes while keys are typed: each key is in the composer at once."""
    store = working()
    runs(store, "yes")
    app = app_with(FakeEngine(store))
    piece = ("y" * 99 + "\n") * 2_500  # 250 kB
    drawn: list[float] = []
    drawing = Transcript.show_state

    def counted(chat: Transcript, state: AgentState) -> None:
        drawn.append(time.monotonic())
        drawing(chat, state)

    monkeypatch.setattr(Transcript, "show_state", counted)
    async with standing(app) as pilot:
        drawn.clear()
        began = time.monotonic()
        slowest = 0.0
        for number in range(200):
            store.dispatch(OperationOutput(call_id=CALL, text=piece, at=0.0))
            if number % 20 == 0:
                pressed = time.monotonic()
                await pilot.press("k")
                slowest = max(slowest, time.monotonic() - pressed)
            await pilot.pause(0)
        took = time.monotonic() - began
        assert app.bench.composer.text == "k" * 10
        assert len(drawn) <= 15 * took + 1
        assert slowest < 1.0
        output = store.state.outputs[CALL]
        assert output.total == 200 * len(piece)
        assert len(output.text) <= TAIL


@pytest.mark.parametrize("piece", ["ab\n", "a\r\nb\n", "x" * 700, "k\rlong line\n", "\n"])
def test_the_newest_lines_are_the_end_of_the_whole(piece: str) -> None:
    output = LiveOutput()
    for number in range(400):
        output.add_output(f"{number}{piece}", at=0.0)
    lines = output.text.split("\n")
    if not lines[-1]:
        lines.pop()
    for count in (1, 5, 40):
        assert output.newest_lines(count) == lines[-count:]


# --- a command that ended --------------------------------------------------------------------


async def test_a_failing_command_says_so_in_a_word_and_shows_its_ends() -> None:
    state = AgentState()
    state.messages = [user("test it"), ended("pytest -q", FAILING, 1)]
    app = ChatApp(state)
    async with app.run_test(size=(90, 30)) as pilot:
        lines = app.lines()
        row = next(line for line in lines if "pytest -q" in line)
        assert "failed · exit 1" in row
        assert row.endswith("1.9 s ✗")
        assert sum("│" in line for line in lines) == 6
        assert any("… 10 more lines · Ctrl+O" in line for line in lines)
        assert "1 failed, 11 passed in 1.82s" in "\n".join(lines)
        app.chat.action_fold()
        await pilot.pause()
        assert any("test_case_5 PASSED" in line for line in app.lines())


async def test_a_command_of_the_users_own_is_marked_and_a_signal_named() -> None:
    state = AgentState()
    killed = ended("sleep 9", "", -15, by_user=True)
    result = killed.result.model_copy(update={"summary": "SIGTERM · 1.9s"})
    state.messages = [
        ended("ls", "a.py", 0, by_user=True),
        killed.model_copy(update={"result": result}),
        ended("cat big", "tail", 0, cut=5_000),
    ]
    app = ChatApp(state)
    async with app.run_test(size=(90, 12)):
        text = "\n".join(app.lines())
        assert "! ▸ shell  ls  exit 0" in text
        assert "$ ls" not in text
        assert "failed · SIGTERM" in text
        assert "… 5,000 more characters" in text


@pytest.mark.parametrize(
    ("printed", "by_user", "missing"), [(30, True, 0), (30, False, 25), (50, True, 18)]
)
async def test_the_output_of_the_users_own_command_fills_the_screen(
    printed: int, by_user: bool, missing: int
) -> None:
    state = AgentState()
    output = "\n".join(f"modified: file_{n}.py" for n in range(printed))
    state.messages = [ended("git status", output, 0, by_user=by_user)]
    app = ChatApp(state)
    async with app.run_test(size=(90, 40)):
        text = "\n".join(app.lines())
    assert text.count("modified: file_") == printed - missing
    assert (f"… {missing} more lines" in text) is bool(missing)


async def test_how_a_model_reads_on_is_not_for_the_screen() -> None:
    long = ended("make", "compiled", 0)
    for left_out in (
        await bound_result("x" * 500_000, MemoryBlobs()),
        await bound_result("a line\n" * 100_000, MemoryBlobs()),
    ):
        result = long.result.model_copy(update={"text": left_out[0], "blob": left_out[2]})
        block = CommandBlock(long.model_copy(update={"result": result}))
        assert "result:" in left_out[0]
        assert "result:" not in block.output_text()
        assert "left out" in block.output_text()


async def test_of_a_stopped_command_its_output_is_left() -> None:
    text = "stopped while it ran\n$ make\nstopped after 1.1s\ncompiled a.c"
    stopped = ended("make", "", -15, by_user=True)
    result = stopped.result.model_copy(
        update={"outcome": Outcome.STOPPED, "summary": "stopped after 1.1s", "text": text}
    )
    state = AgentState()
    state.messages = [stopped.model_copy(update={"result": result})]
    app = ChatApp(state)
    async with app.run_test(size=(90, 12)):
        lines = [line.strip() for line in app.lines() if line.strip()]
        assert lines[0].startswith("! ▸ shell  make  stopped  ")
        assert lines[1:] == ["│ compiled a.c"]


async def test_what_a_turn_took_stands_where_it_ended() -> None:
    state = AgentState()
    state.messages = [user("fix it"), assistant("Done.")]
    turn_took(state)
    app = ChatApp(state)
    async with app.run_test(size=(90, 12)):
        app.say(user("thanks", 2), aside("and now?"))
        lines = [line.strip() for line in app.lines() if line.strip()]
        assert lines[1:3] == ["◆ Done.", "4 calls · 12k tokens · $0.03 · 8.1 s"]
        assert lines[3] == "› thanks"
        assert lines[4].startswith("› and now?")


# --- the status line -------------------------------------------------------------------------


async def test_the_status_line_says_what_holds_commands_and_what_runs_unseen(
    open_apps: OpenApps,
) -> None:
    store = working()
    in_background(store)
    served(store)
    async with open_apps.standing(FakeEngine(store), 140, 40) as (app, pilot):
        text = app.bench.status.render_line(0).text
        assert "NO SANDBOX" in app.bench.header.render_line(0).text
        assert "1 in background · /ps" in text
        assert "MCP: weather · /mcp" in text
        assert "6 calls  $0.03" in text
        await pilot.resize_terminal(60, 12)
        await settled(pilot, lambda: "NO SANDBOX" in app.bench.header.render_line(0).text)


# --- boards ----------------------------------------------------------------------------------


async def test_processes_are_listed_tailed_live_and_ended(open_apps: OpenApps) -> None:
    store = working()
    in_background(store)
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (app, pilot):
        await opened(pilot, app, "/", "p", "s", "enter")
        text = page(app)
        assert "npm run dev -- --port 5173" in text
        assert "exit 1 by itself" in text
        store.dispatch(
            ProcessOutput(
                process_id="proc_00000001", text="\x1b[31mreloaded\n", at=store.clock.now()
            )
        )
        await settled(pilot, lambda: "␛[31mreloaded" in page(app))
        await take_action(app, pilot, "end it and all it started")
        await settled(pilot, lambda: fake.asked[-1] == "end proc_00000001")
        store.dispatch(
            ProcessEnded(
                process_id="proc_00000001", exit_code=-15, ended_by="user", at=store.clock.now()
            )
        )
        await settled(pilot, lambda: "runs" not in page(app))
        assert "end it" not in page(app)  # it does not run any more
        await pilot.press("escape")
        await settled(pilot, lambda: app.screen is app.bench)
        assert sum(asked.startswith("end") for asked in fake.asked) == 1


@pytest.mark.parametrize("action", ["start", "stop", "restart"])
async def test_servers_with_their_tools_log_and_actions(open_apps: OpenApps, action: str) -> None:
    store = working()
    served(store)
    fake = FakeEngine(store)
    fake.logs["shop"] = "opened\x1b[2J shop.db\n"
    async with open_apps.standing(fake) as (app, pilot):
        await opened(pilot, app, "/", "m", "c", "p", "enter")
        await settled(pilot, lambda: "opened␛[2J shop.db" in page(app))
        text = page(app)
        assert "mcp.shop.list_products  read-only, it says" in text
        assert "mcp.shop.set_price\n" in text
        await pilot.press("down")
        await settled(pilot, lambda: "connection refused" in page(app))
        await take_action(app, pilot, action)
        await settled(pilot, lambda: fake.asked[-1] == f"{action} weather")
        weather = store.state.servers[1].model_copy(update={"status": "ready", "error": ""})
        store.dispatch(McpServerChanged(server=weather))
        await settled(pilot, lambda: "connection refused" not in page(app))


@pytest.mark.parametrize("size", [(20, 5), (10, 3), (300, 100)])
async def test_boards_draw_at_every_size(open_apps: OpenApps, size: tuple[int, int]) -> None:
    store = working()
    in_background(store)
    served(store)
    waits(store, QUEUE)
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        for name in ("processes", "servers", "queue"):
            app.action_page(name)
            await settled(pilot, lambda: isinstance(app.screen, ListPage))
            await pilot.resize_terminal(*size)
            await pilot.press("down", "pagedown", "pageup", "up")
            await pilot.resize_terminal(80, 24)
            await pilot.press("escape")
            await settled(pilot, lambda: app.screen is app.bench)


async def test_copy_takes_the_last_reply_as_it_was_written(open_apps: OpenApps) -> None:
    store = store_with()
    store.state.messages.append(assistant("**bold** and `code`", 1))
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await pilot.pause()
        app.bench.action_copy()
        await settled(pilot, lambda: app.clipboard == "**bold** and `code`", "the copy")
