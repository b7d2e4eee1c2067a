"""A turn that has ended: its request, folded work, all that the model said, what it took."""

from __future__ import annotations

import re
from random import Random

import pytest
from support.consults import consultation
from support.conversations import START, ChatApp, assistant, notice, operation, user
from support.plans import FIX, report, working
from textual.pilot import Pilot

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import Level, Message
from duckflow_tui.state.gates import CardAnswer, CardMessage
from duckflow_tui.state.operations import FileChange, Outcome
from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.turn import TurnSummary

CHANGE = FileChange(path="src/shop/pricing.py", kind="modify", added=3, removed=2)


def work() -> list[Message]:
    """Two replies on the way, six operations, the answer."""
    pricing = {"path": "src/shop/pricing.py"}
    return [
        user("mend the total", 1),
        assistant("I look at the code.", 1, reasoning="hm", reasoning_s=0.01),
        operation("file_ops.read_file", pricing, seconds=0.01),
        operation("file_ops.read_file", {"path": "tests/test_pricing.py"}),
        assistant("The rates are added. I change that.", 2),
        operation("file_ops.edit_file", pricing, changes=(CHANGE,)),
        operation("shell.run", {"command": "pytest -q"}, summary="exit 0", seconds=1.4),
        operation("shell.run", {"command": "git push"}, Outcome.REJECTED),
        operation("file_ops.search_text", {"pattern": "rate"}, summary="7 · 2"),
        assistant("They are applied one after the other now.", 3),
    ]


def ended(state: AgentState, **fields: object) -> None:
    """The turn of all that was said so far is over."""
    count = len(state.messages)
    turn = TurnSummary(turn_id=f"t{count}", outcome="done", llm_calls=3, messages=count)
    state.turns = [*state.turns, turn.model_copy(update=fields)]


def talk(*, over: bool = True) -> AgentState:
    state = AgentState()
    state.messages = work()
    if over:
        ended(state)
    return state


def said(app: ChatApp) -> list[str]:
    return [line.strip() for line in app.lines() if line.strip()]


FOLDED = [
    "› mend the total",
    "▸ thought · 2 characters",
    "◆ I look at the code.",
    f"▸ Read 2 files{'0.1 s':>53}",
    "◆ The rates are added. I change that.",
    "▸ Ran 1 search, edited pricing.py +3 −2, ran pytest -q, 1 command",
    "rejected",
    "◆ They are applied one after the other now.",
    "3 calls",
]


async def test_work_that_has_ended_is_one_row_between_words_that_stay() -> None:
    """While it runs each row is there; Enter unfolds rows and diff, and folds them again."""
    app = ChatApp(talk(over=False))
    async with app.run_test(size=(72, 40)) as pilot:
        running = said(app)
        assert not any("Read 2 files" in line for line in running)
        ended(app.state)
        app.chat.show_state(app.state)
        await pilot.pause()
        assert said(app) == FOLDED
        app.chat.focus()
        await pilot.press("up", "enter")
        unfolded = said(app)
        assert unfolded[5].startswith("▾ Ran 1 search")
        assert any("+3 −2" in line for line in unfolded[7:])
        await pilot.press("enter")
        assert said(app) == FOLDED
        row = next(n for n, line in enumerate(app.lines()) if "Ran 1 search" in line)
        await pilot.click(app.chat, offset=(6, row))
        assert said(app) == unfolded
        app.chat.action_fold()
        app.chat.action_fold()
        await pilot.pause()
        assert said(app) == FOLDED


async def test_the_next_turn_has_a_row_of_its_own_and_a_resumed_chat_is_the_same() -> None:
    state = talk()
    state.messages += [
        user("and the tests?", 2),
        operation("file_ops.read_file", {"path": "a.py"}),
        operation("file_ops.list_dir", {"path": "."}),
        notice("files.changed_outside", Level.WARNING, paths="b.py"),
        operation("shell.run", {"command": "pytest"}, Outcome.ERROR, seconds=0.0),
        operation("shell.run", {"command": "pytest"}, seconds=0.0),
        operation("file_ops.read_file", {"path": "gone"}, Outcome.ERROR, seconds=0.0),
        assistant("They pass.", 4),
    ]
    ended(state)
    state.messages += [user("thanks", 3), operation("file_ops.read_file", {"path": "a.py"})]
    ended(state)
    app = ChatApp(state)
    async with app.run_test(size=(72, 40)):
        lines = said(app)
        assert lines[: len(FOLDED) - 1] == FOLDED[:-1]
        second = lines.index("› and the tests?")
        assert lines[second + 1].startswith("▸ Read 1 file, listed 1 folder  ")
        assert lines[second + 2].startswith("! Note:")  # a warning is never folded
        assert lines[second + 3] == "▸ Ran pytest, 1 read failed"
        assert "◆ They pass." in lines
        assert lines[-2].startswith("▸ read   a.py")  # one row is no shorter as a count
        assert not any("0.0 s" in line for line in lines)


async def test_what_failed_is_not_counted_as_done_and_files_of_commands_are_named() -> None:
    state = AgentState()
    gone = [
        operation("file_ops.read_file", {"path": "gone"}, Outcome.ERROR, seconds=0.0)
        for _ in range(7)
    ]
    refused = operation("file_ops.read_file", {"path": ".env"}, Outcome.REJECTED, seconds=0.0)
    cut = operation("shell.run", {"command": "make"}, Outcome.STOPPED, seconds=0.0)
    touched = tuple(
        FileChange(path=path, kind="modify", added=1) for path in ("README.md", "made.txt")
    )
    wrote = operation("shell.run", {"command": "fmt"}, seconds=0.0)
    wrote = wrote.replace(result=wrote.result.replace(touched=touched, exit_code=0))
    for number, calls in enumerate(([*gone, refused], [cut, cut], [wrote, *gone[:1]]), 1):
        state.messages += [user(f"turn {number}", number), *calls, assistant("So it is.", number)]
        ended(state)
    app = ChatApp(state)
    async with app.run_test(size=(90, 50)) as pilot:
        rows = [line for line in said(app) if line.startswith("▸")]
        assert rows == [
            "▸ 1 read rejected, 7 reads failed",
            "▸ 2 commands cut off",
            "▸ Ran fmt README.md +1 made.txt +1, 1 read failed",
        ]
        row = next(n for n, line in enumerate(app.lines()) if "README.md" in line)
        await pilot.click(app.chat, offset=(6, row))
        await pilot.pause()
        assert any("change" in line and "README.md +1" in line for line in said(app))


async def test_a_step_is_folded_with_its_report_which_says_nothing_twice() -> None:
    state = working().state
    plan = state.active_plan
    assert plan is not None
    reply, edit = assistant("The cap is  gone from both files.\n", 7), work()[5]
    told = report().model_copy(
        update={"step_id": FIX, "summary": "The cap is gone from both files."}
    )
    state.messages = [
        user("remove cap"),
        *(message.model_copy(update={"step_id": FIX}) for message in (*work()[1:5], edit, reply)),
        ReportMessage(message_id="r", report=told, step_id=FIX, at=START),
    ]
    state.running, state.gates, state.cards = (), (), ()
    app = ChatApp(state)
    async with app.run_test(size=(90, 30)):
        text = "\n".join(said(app))
    assert text.count("gone from both files") == 1
    assert text.index("▸ Read 2 files") < text.index("◆ The rates are added")
    assert "read   tests" not in text
    told = told.model_copy(update={"summary": "Two files, no cap."})
    state.messages[-1] = ReportMessage(message_id="r", report=told, step_id=FIX, at=START)
    app = ChatApp(state)
    async with app.run_test(size=(90, 30)):
        assert "Two files, no cap." in "\n".join(said(app))


async def reading(app: ChatApp, pilot: Pilot[None]) -> list[str]:
    app.chat.scroll_to(y=0, animate=False)
    await pilot.pause()
    return app.lines()[:-1]


async def test_nothing_is_folded_under_the_eyes_of_who_reads_it() -> None:
    app = ChatApp(talk(over=False))
    async with app.run_test(size=(72, 8)) as pilot:
        before = await reading(app, pilot)
        ended(app.state)
        app.chat.show_state(app.state)
        await pilot.pause()
        assert app.lines()[:-1] == before
        app.chat.action_scroll_end()
        app.chat.show_state(app.state)
        await pilot.pause()
        assert said(app) == FOLDED[-5:]


async def test_what_is_searched_for_in_folded_work_is_brought_out() -> None:
    app = ChatApp(talk())
    async with app.run_test(size=(72, 20)) as pilot:
        assert app.chat.search("rates are added") == 1
        assert app.chat.next_match() == 1
        await pilot.pause()
        assert "◆ The rates are added. I change that." in said(app)


LONG = "\n".join(f"line {number}" for number in range(40))


@pytest.mark.parametrize("text", [LONG, "word " * 400])
async def test_a_long_message_of_the_user_stays_folded(text: str) -> None:
    """Sent now or in a session that is resumed: its first lines, what opens the rest, and the last
    line, where the question about what was pasted stands.
    """
    state = AgentState()
    state.messages = [user(text), assistant("Read.", 1)]
    app = ChatApp(state)
    async with app.run_test(size=(72, 60)) as pilot:
        folded = app.lines()
        row = next(n for n, line in enumerate(folded) if "▸" in line)
        assert row <= 4
        assert not any("line 20" in line for line in folded)
        if text == LONG:
            assert [line.split() for line in folded[row : row + 2]] == [
                ["▸", "36", "more", "lines"],
                ["line", "39"],
            ]
        await pilot.click(app.chat, offset=(6, row))
        opened = "\n".join(app.lines())
        assert opened.split().count("word" if text[0] == "w" else "line") == len(
            [word for word in text.split() if word in ("word", "line")]
        )
        row = next(n for n, line in enumerate(app.lines()) if "▾" in line)
        await pilot.click(app.chat, offset=(6, row))
        assert app.lines() == folded


@pytest.mark.parametrize(
    ("waited_s", "figures"),
    [(0.4, "3 calls · 0:12"), (190.0, "3 calls · 0:12 · waited 3:10")],
)
async def test_the_time_for_which_the_user_was_waited_for_stands_beside_that_of_the_work(
    waited_s: float, figures: str
) -> None:
    state = talk(over=False)
    ended(state, duration_s=12.0, waited_s=waited_s)
    app = ChatApp(state)
    async with app.run_test(size=(72, 40)):
        assert figures in said(app)


def answered_card() -> CardMessage:
    card = consultation(Pattern.STAGNATION)
    answer = CardAnswer(card_id=card.card_id, subject=card.subject, action="go_on")
    return CardMessage(message_id="card", card=card, answer=answer, at=START)


async def test_work_before_and_after_a_card_is_folded_above_and_below_it() -> None:
    state = AgentState()
    before, after = work()[1:5], work()[5:7]
    state.messages = [user("mend"), *before, answered_card(), *after, assistant("Done.", 3)]
    ended(state)
    app = ChatApp(state)
    async with app.run_test(size=(72, 40)):
        rows = [line for line in said(app) if line[:1] in "▸◆"]
    assert rows[3] == "◆ The rates are added. I change that."
    assert rows[5].startswith("▸ Edited pricing.py +3 −2, ran pytest -q")
    assert rows[6] == "◆ Done."
    assert len(rows) == 7  # the card is between words and work


def reads_of(line: str) -> int:
    """How many reads a row on the screen stands for."""
    counted = re.match(r"▸ Read (\d+) files?", line)
    return int(counted[1]) if counted else line.startswith("▸ read ")


async def test_folded_rows_count_exactly_the_work_between_their_neighbours() -> None:
    """Above each row that is not folded stand as many reads as were made before it."""
    app = ChatApp()
    async with app.run_test(size=(72, 200)) as pilot:
        for seed in range(30):
            random, state, reads = Random(seed), AgentState(), 0
            state.messages += [user("begin")]
            expected: dict[str, int] = {}
            for number in range(random.randint(2, 16)):
                kind = random.choice(("read", "read", "read", "words", "notice", "beside"))
                mark = f"{kind}-{number}"
                if kind == "read":
                    reads += 1
                    state.messages.append(operation("file_ops.read_file", {"path": mark}))
                elif kind == "words":
                    state.messages.append(assistant(mark, number))
                elif kind == "beside":
                    asked = user(mark, number).model_copy(update={"aside": True})
                    state.messages.append(asked)
                else:
                    state.messages.append(notice("files.changed_outside", paths=mark))
                expected[mark] = reads
            ended(state)
            app.chat.bind_state(state, app.chat.words)
            await pilot.pause()
            above = 0
            for line in said(app):
                for mark, count in expected.items():
                    if "read" not in mark and re.search(rf"\b{mark}\b", line):
                        assert above == count, (seed, line)
                above += reads_of(line)
            assert above == reads, seed
