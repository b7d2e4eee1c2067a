"""The diff beside the chat is that of a change that stands, and says whether it was made wholly."""

from __future__ import annotations

import pytest
from support.app_states import (
    FakeEngine,
    app_with,
    settled,
    standing,
    store_with,
    turn_started,
)
from support.conversations import START, answer, operation, user
from support.gates import gate, many_lines, preview, pricing
from support.screens import screen_text
from textual.widgets import Static

from duckflow_tui.state.calls import ChangesUndone, OperationFinished, OperationRequested
from duckflow_tui.state.gates import GateAnswer, GateChoice, GateOpened, GateWithdrawn
from duckflow_tui.state.operations import FileChange, Outcome
from duckflow_tui.state.rewind import RewindUndone
from duckflow_tui.state.session import DraftSaved
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.words.catalogue import LANGUAGES

CALL = "call_00000001"
EDIT = "file_ops.edit_file"


def shown(app: DuckflowApp) -> str:
    """The line above the diff, empty while there is none."""
    line = app.bench.diff.query_one(".diff-verdict", Static)
    return str(line.render()) if line.display else ""


async def test_behind_a_command_the_last_change_of_files_stands_with_its_own_verdict() -> None:
    """A command that went well applied nothing: an empty diff is never called applied."""
    store = store_with(turn_started())
    asked = gate(previews=(pricing(),))
    change = operation(EDIT, {}, gate=asked, answer=answer(GateChoice.ONCE))
    run = operation("shell.run", {}, gate=gate(previews=()), answer=answer(GateChoice.ONCE))
    run = run.model_copy(update={"call_id": "c_run"})
    app = app_with(FakeEngine(store))
    async with standing(app, 120, 40) as pilot:
        store.state.messages += [run]
        store.dispatch(DraftSaved(text="x"))
        await pilot.pause()
        assert shown(app) == ""
        store.state.messages += [change, run]
        store.dispatch(DraftSaved(text="x"))
        await settled(pilot, lambda: shown(app) == "✓ applied", "the change")
        assert app.bench.diff.view.document.previews


@pytest.mark.parametrize(
    ("outcome", "given"),
    [
        (Outcome.REJECTED, answer(GateChoice.REJECT, reason="too wide")),
        (Outcome.DECLINED, answer(GateChoice.ALTERNATIVE, alternative=1)),
        (Outcome.ERROR, answer(GateChoice.ONCE)),
        (Outcome.STOPPED, None),
    ],
    ids=lambda value: str(value) if isinstance(value, Outcome) else "",
)
async def test_a_change_that_was_not_made_is_not_shown_beside_the_chat(
    outcome: Outcome, given: GateAnswer | None
) -> None:
    """The change before it, which stands, is still shown."""
    store = store_with(turn_started())
    app = app_with(FakeEngine(store))
    diff = app.bench.diff

    def column() -> str:
        return next(row for row in screen_text(app).splitlines() if "│ Diff" in row)

    async with standing(app, 120, 40) as pilot:
        refused = operation(EDIT, {}, outcome, gate=gate(), answer=given)
        refused = refused.model_copy(update={"call_id": CALL})
        store.state.messages += [refused]
        store.dispatch(DraftSaved(text="x"))
        await settled(pilot, lambda: "none yet" in column(), "that there is none")
        assert (shown(app), diff.call_id, diff.view.document.previews) == ("", "", ())
        made = operation(EDIT, {}, gate=gate([many_lines(3)]), answer=answer(GateChoice.ONCE))
        made = made.model_copy(update={"call_id": "call_made"})
        store.state.messages[-1:] = [made, refused]
        store.dispatch(DraftSaved(text="y"))
        await settled(pilot, lambda: shown(app) == "✓ applied", "the one that stands")
        assert diff.call_id == "call_made"
        assert "big.py" in column()
        undone = (FileChange(path="src/big.py", kind="modify"),)
        store.dispatch(ChangesUndone(call_id=made.call_id, changes=undone))
        await settled(pilot, lambda: "none yet" in column(), "that none stands")
        assert (shown(app), diff.call_id, diff.view.document.previews) == ("", "", ())


async def test_what_was_left_out_or_partly_made_is_not_said_to_be_applied() -> None:
    store = store_with(turn_started())
    app = app_with(FakeEngine(store))
    change = FileChange(path="a.py", kind="modify")

    async def ends(number: int, outcome: Outcome, given: GateAnswer, *changes: FileChange) -> str:
        call_id = f"call_{number}"
        asked = gate(gate_id=f"gate_{number}", call_id=call_id)
        store.dispatch(OperationRequested(call_id=call_id, operation=EDIT, args={}, at=START))
        store.dispatch(GateOpened(gate=asked))
        store.dispatch(GateWithdrawn(gate_id=asked.gate_id, reason="stopped", at=0.0))
        message = operation(EDIT, {}, outcome, gate=asked, answer=given, changes=changes)
        store.dispatch(OperationFinished(message=message.model_copy(update={"call_id": call_id})))
        await settled(pilot, lambda: app.bench.diff.call_id == call_id, "what became of it")
        return shown(app)

    async with standing(app) as pilot:
        once = answer(GateChoice.ONCE)
        partly = await ends(1, Outcome.ERROR, once, change)
        assert partly == "✗ only partly applied: failed"
        fewer = answer(GateChoice.ONCE, left_out=((0, 0),))
        assert await ends(2, Outcome.OK, fewer) == "✓ applied, 1 of 1 hunk left out"
        assert await ends(3, Outcome.OK, once, change) == "✓ applied"
        store.dispatch(ChangesUndone(call_id="call_3", changes=(change,)))
        await settled(pilot, lambda: app.bench.diff.call_id == "call_2", "the change before it")


async def test_what_was_left_out_is_still_so_where_a_session_is_taken_up() -> None:
    """The pane has it from the conversation, where no key of a gate was pressed before."""
    lines = "".join(f"{number}\n" for number in range(20))
    both = preview("a.py", lines, lines.replace("\n2\n", "\ntwo\n") + "more\nand more\n")
    assert len(both.hunks) == 2
    fewer = answer(GateChoice.ONCE, left_out=((0, 1),))
    store = store_with(turn_started())
    store.state.messages += [operation(EDIT, {}, gate=gate(previews=(both,)), answer=fewer)]
    app = app_with(FakeEngine(store))
    async with standing(app) as pilot:
        await settled(pilot, lambda: shown(app) != "", "the change")
        assert shown(app) == "✓ applied, 1 of 2 hunks left out"
        view = app.bench.diff.view
        assert (view.heading.added, view.heading.removed) == (1, 1)
        assert view.document.left_out == {(0, 1)}


async def test_a_change_that_nobody_was_asked_about_is_shown_when_it_was_made() -> None:
    store = store_with(turn_started())
    app = app_with(FakeEngine(store))
    async with standing(app) as pilot:
        assert app.bench.diff.view.heading.files == 0
        store.dispatch(OperationRequested(call_id=CALL, operation=EDIT, args={}, at=START))
        message = operation(EDIT, {"path": "src/shop/pricing.py"}).model_copy(
            update={"call_id": CALL, "previews": (pricing(),), "allowed": "trusted"}
        )
        store.dispatch(OperationFinished(message=message))
        await settled(pilot, lambda: app.bench.diff.view.heading.files == 1, "the diff")
        assert app.bench.diff.view.heading.path == "src/shop/pricing.py"
        await settled(pilot, lambda: shown(app) == "✓ applied", "the verdict")


async def test_no_diff_stays_of_a_change_that_left_with_a_way_back() -> None:
    asked = gate(previews=(pricing(),))
    older = operation(EDIT, {}, gate=asked, answer=answer(GateChoice.ONCE))
    newer = older.model_copy(update={"call_id": "c_newer"})
    store = store_with()
    store.state.messages += [user("one"), older, user("two", 2), newer]
    engine = FakeEngine(store)
    app = app_with(engine)
    async with standing(app, 120, 40) as pilot:
        await settled(pilot, lambda: app.bench.diff.call_id == "c_newer", "the last change")
        await engine.rewind.go_back("u2")
        await settled(pilot, lambda: app.bench.diff.call_id == older.call_id, "the one before")
        store.dispatch(RewindUndone(message_id="u2"))
        await settled(pilot, lambda: app.bench.diff.call_id == "c_newer", "the last again")
        await engine.rewind.go_back("u0")
        await settled(pilot, lambda: app.bench.diff.call_id == "", "nothing to compare")
        assert not app.bench.diff.view.document.previews
        assert shown(app) == ""


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_diff_of_the_session_stands_in_the_pane_until_files_change_again(
    language: str,
) -> None:
    """Its keys are those of each diff. A question that is open keeps its own."""
    store = store_with(turn_started())
    change = operation(EDIT, {}, gate=gate(previews=(pricing(),)), answer=answer(GateChoice.ONCE))
    made = FileChange(path="src/shop/pricing.py", kind="modify")
    done = change.result.replace(changes=(made,))
    store.state.messages += [change.model_copy(update={"call_id": CALL, "result": done})]
    engine = FakeEngine(store)
    app = app_with(engine, language=language)
    words, diff = app.words, app.bench.diff

    def above(key: str, **params: object) -> bool:
        return shown(app) == words(f"diff.{key}", **params)

    async with standing(app, 120, 40) as pilot:
        await settled(pilot, lambda: diff.call_id == CALL, "the last change")
        app.run_typed("/diff session")
        await settled(pilot, lambda: above("session_none"), "that there is none")
        assert diff.view.document.previews == ()
        engine.previews = (pricing(), many_lines(3))
        app.run_typed("/diff session")
        counts = {"files": 2, "added": 6, "removed": 2}
        await settled(pilot, lambda: above("session_said", **counts), "the counts")
        await settled(pilot, lambda: app.focused is diff.view, "the focus")
        await pilot.press("]")
        assert diff.view.heading.path == "src/big.py"
        store.dispatch(DraftSaved(text="x"))
        await pilot.pause()
        assert above("session_said", **counts)
        app.bench.show_pane("vitals")
        app.run_typed("/diff last")
        await settled(pilot, lambda: "✓" in shown(app), "the change")
        await settled(pilot, lambda: app.focused is diff.view, "the focus")
        assert app.bench.shown == "diff"
        assert diff.call_id == CALL
        engine.uncovered = "make"
        app.run_typed("/diff session")
        told = words("diff.session_command", command="make")
        await settled(pilot, lambda: app.bench.status.notice_text == told, "what it does not know")
        store.dispatch(ChangesUndone(call_id=CALL, changes=(made,)))
        await settled(pilot, lambda: shown(app) == "", "that none stands")
        store.dispatch(OperationRequested(call_id="call_2", operation=EDIT, args={}, at=START))
        store.dispatch(GateOpened(gate=gate(call_id="call_2", previews=(pricing(),))))
        await settled(pilot, lambda: app.bench.question.gate is not None, "the question")
        app.run_typed("/diff session")
        later = words("diff.session_later")
        await settled(pilot, lambda: app.bench.status.notice_text == later, "that it has to wait")
        assert shown(app) == ""
