"""The keys of a gate: what each answers, when they act, and who has the focus."""

from __future__ import annotations

from typing import Any

import pytest
from support.gates import AFTER, GateApp, at_gate, drawn, gate, press, preview
from support.open_apps import OpenApps
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import FilePreview, Gate, GateAnswer, GateChoice
from duckflow_tui.state.operations import Effect, OperationResult, Outcome
from duckflow_tui.ui.panes.key_guard import ANEW_S, SETTLE_S
from duckflow_tui.ui.panes.key_row import KeyRow
from duckflow_tui.ui.screens.edit_proposal import EditProposal
from duckflow_tui.words.catalogue import Catalogue

WIDE = (120, 40)
LETTERS = ("y", "s", "n", "e", "1", "2", "enter")
NARROW: dict[str, Any] = {"can_grant_session": False, "can_edit": False, "grant_only": ""}


def second() -> Gate:
    return gate(gate_id="gate_00000002", call_id="call_00000002", intent="The second one")


async def test_gate_does_not_take_the_focus_from_the_composer(open_apps: OpenApps) -> None:
    """Covers S4-60. What is typed while a gate opens goes to the composer, none of it answers."""
    async with open_apps.asking() as (app, pilot):
        await press(pilot, "t")
        app.gates = (gate(),)
        await press(pilot, "y", "n", "1", "e", "s", "enter")
        assert app.composer.value == "tyn1es"
        assert app.focused is app.composer
        assert app.answers == []


@pytest.mark.parametrize(
    ("keys", "gives"),
    [
        (("y",), {"choice": "once"}),
        (("n", *"use y n 1", "enter"), {"choice": "reject", "reason": "use y n 1"}),
        (("n", "enter"), {"choice": "reject"}),
        (("2",), {"choice": "alternative", "alternative": 2}),
    ],
)
async def test_a_key_answers_once_and_is_bound_to_what_was_shown(
    keys: tuple[str, ...], gives: dict[str, Any], open_apps: OpenApps
) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, *keys)
        asked = gate()
        bound = GateAnswer(
            gate_id=asked.gate_id,
            call_id=asked.call_id,
            args_hash=asked.args_hash,
            before_hashes=("before-src/shop/pricing.py",),
            **gives,
        )
        assert app.answers == [bound]
        assert app.focused is app.composer


@pytest.mark.parametrize(
    ("keys", "waits", "fields"),
    [
        (LETTERS, SETTLE_S - 0.001, {}),
        (("enter", "Y", "a", "0", "backspace", "down", "f7"), SETTLE_S, {}),
        (("p", "p"), SETTLE_S, {}),
        (("t", "t"), SETTLE_S, {}),
        (("3",), SETTLE_S, {}),
        (("s", "e"), SETTLE_S, NARROW),
    ],
    ids=["too soon", "no keys of a gate", "no rule", "no step", "no third way", "not offered"],
)
async def test_what_is_no_answer_answers_nothing(
    keys: tuple[str, ...], waits: float, fields: dict[str, Any], open_apps: OpenApps
) -> None:
    asked = gate(**fields)
    async with open_apps.asking(asked, proposed={"gate_00000001": AFTER}) as (app, pilot):
        await drawn(pilot)
        app.card.focus()
        await drawn(pilot)
        app.clock.advance(waits)
        await press(pilot, *keys)
        assert app.answers == []
        assert app.focused is app.card
        assert not isinstance(app.screen, EditProposal)
        assert app.card.diff.view.document.left_out == set()
        app.clock.advance(ANEW_S)
        await press(pilot, "full_stop")
        assert "this project" not in app.text()
        assert "this step" not in app.text()
        assert ("s  this session" in app.text(), " e  edit" in app.text()) == (not fields,) * 2


async def test_keys_that_walk_through_the_diff_act_at_once_however_fast(
    open_apps: OpenApps,
) -> None:
    """Covers S4-60. What was chosen is what is applied."""
    async with open_apps.asking(gate([scattered()])) as (app, pilot):
        await at_gate(pilot)
        await pilot.press("]", "space", "]", "space", "j", "j", "down", "end")
        assert app.card.diff.view.document.left_out == {(0, 1), (0, 2)}
        await drawn(pilot)
        await press(pilot, "y")
        assert app.answers[0].left_out == ((0, 1), (0, 2))


async def test_a_space_before_the_gate_has_settled_leaves_nothing_out(
    open_apps: OpenApps,
) -> None:
    """It was typed for what stood there before; on the whole screen as well."""
    async with open_apps.asking(gate([scattered()])) as (app, pilot):
        await drawn(pilot)
        app.card.focus()
        await drawn(pilot)
        document = app.card.diff.view.document
        await press(pilot, "space")
        assert document.left_out == set()
        assert "came too soon" in app.text()
        app.clock.advance(SETTLE_S)
        await press(pilot, "z")
        await drawn(pilot)
        await press(pilot, "]", "space")
        assert document.left_out == set()
        app.clock.advance(SETTLE_S)
        await press(pilot, "]", "space")
        assert document.left_out == {(0, 2)}


async def test_who_goes_to_a_gate_that_has_been_there_answers_at_once(open_apps: OpenApps) -> None:
    """Covers S4-60. Its time runs from when it came on the screen, not from the focus; what was
    typed before the focus came is no answer.
    """
    async with open_apps.asking(gate()) as (app, pilot):
        await drawn(pilot)
        app.clock.advance(SETTLE_S)
        app.card.focus()
        await drawn(pilot)
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


async def test_focus_stays_for_the_next_gate_and_the_time_begins_again(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate(), second()) as (app, pilot):
        await at_gate(pilot)
        assert "1 of 2" in app.text()
        await press(pilot, "y", "y")
        assert len(app.answers) == 1
        assert app.focused is app.card
        assert "The second one" in app.text()
        app.clock.advance(ANEW_S)
        await press(pilot, "y")
        assert [answer.gate_id for answer in app.answers] == ["gate_00000001", "gate_00000002"]


async def test_another_gate_under_the_focus_is_not_answered_by_a_key_for_the_first(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        app.gates = (second(),)
        await press(pilot, "y")
        assert app.answers == []


async def test_s_allows_for_the_session_and_shows_the_pattern(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "full_stop")
        assert "s  this session: every edit inside the folder" in app.text()
        assert "x  this session: edit src/shop/pricing.py" in app.text()
        await press(pilot, "s")
        assert app.answers == []
        shown = " ".join(app.text().split())
        assert "rule every edit inside the folder" in shown
        assert "in this session, until you revoke it in /rules" in shown
        await press(pilot, "s")  # too soon to have been read
        assert app.answers == []
        app.clock.advance(ANEW_S)
        await press(pilot, "s")
        assert app.answers[0].choice is GateChoice.SESSION


async def test_what_is_pasted_into_the_reason_takes_the_place_of_what_is_marked(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "n", "o", "l", "d", "shift+home")
        field = app.query_one("#question-text", Input)
        field.post_message(events.Paste("not\n now"))
        await drawn(pilot)
        assert field.value == "not now"
        await press(pilot, "shift+home", "x", "y", "z", "backspace", "left", "w", "enter")
        assert app.answers[0].reason == "xwy"  # each key acts once


async def test_escape_leaves_the_reason_first_and_then_the_gate_pending(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "n", "x", "escape")
        assert app.focused is app.card
        app.clock.advance(ANEW_S)
        await press(pilot, "escape")
        assert app.focused is app.composer
        assert app.answers == []
        assert app.card.gate == gate()
        assert app.card.display


async def test_reason_for_one_gate_is_not_sent_to_the_next(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "n", "x")
        app.gates = (second(),)
        await press(pilot, "enter")
        assert app.answers == []
        assert app.query_one("#question-text", Input).value == ""


async def test_click_gives_the_focus_and_approves_nothing(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await drawn(pilot)
        for widget in app.card.children:
            if widget.display:
                beside = (widget.size.width - 1, 0)  # where no letter is, as those are keys
                await pilot.click(widget, offset=beside)
                app.clock.advance(ANEW_S)
                await drawn(pilot)
                assert app.focused is app.card
        assert app.answers == []


async def click_on(pilot: Pilot[None], app: GateApp, name: str) -> None:
    """Click the name of a key where it stands on the screen."""
    found = [(y, line.find(name)) for y, line in enumerate(app.text().split("\n"))]
    y, x = next((y, x) for y, x in found if x >= 0)
    await pilot.click(offset=(x + 1, y))
    await drawn(pilot)


@pytest.mark.parametrize(("name", "choice"), [(" y  ", "once"), (" 2 change", "alternative")])
async def test_a_letter_can_be_clicked_and_is_the_key(
    name: str, choice: str, open_apps: OpenApps
) -> None:
    """The click that brings the focus answers nothing, nor does another within 300 ms."""
    async with open_apps.asking(gate()) as (app, pilot):
        await drawn(pilot)
        await click_on(pilot, app, name)
        assert app.focused is app.card
        app.clock.advance(SETTLE_S - 0.001)
        await click_on(pilot, app, name)
        assert app.answers == []
        app.clock.advance(ANEW_S)
        await click_on(pilot, app, name)
        assert [answer.choice for answer in app.answers] == [choice]


async def test_one_gate_is_answered_once(open_apps: OpenApps) -> None:
    """The card stays until the state says that the gate is closed; a second y is not sent."""
    async with open_apps.asking(gate(), second()) as (app, pilot):
        await at_gate(pilot)
        app.keep_gates = True
        await press(pilot, "y")
        app.clock.advance(ANEW_S)
        app.step = "step 3"  # anything that makes it draw anew
        await press(pilot, "y", "n")
        assert len(app.answers) == 1


async def test_e_sends_the_edited_text(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate(), proposed={"gate_00000001": AFTER}) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "e")
        editor = app.screen.query_one(TextArea)
        assert editor.text == AFTER
        editor.move_cursor((0, 0))
        await press(pilot, "#", "ctrl+s")
        answer = app.answers[0]
        assert (answer.choice, answer.edited) == (GateChoice.EDIT, f"#{AFTER}")
        assert answer.left_out == ()


async def test_what_is_typed_right_before_ctrl_s_is_part_of_the_edit(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate(), proposed={"gate_00000001": AFTER}) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "e")
        app.screen.query_one(TextArea).move_cursor((0, 0))
        for key, character in (("#", "#"), ("x", "x"), ("ctrl+s", "\x13")):
            app.post_message(events.Key(key, character))  # in one burst, as a terminal sends it
        await pilot.pause()
        await pilot.pause()
        assert [answer.edited for answer in app.answers] == [f"#x{AFTER}"]


@pytest.mark.parametrize("keys", [("escape",), ("ctrl+s",)])
async def test_edit_that_changes_nothing_answers_nothing(
    keys: tuple[str, ...], open_apps: OpenApps
) -> None:
    async with open_apps.asking(gate(), proposed={"gate_00000001": AFTER}) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "e", *keys)
        assert app.answers == []
        assert not isinstance(app.screen, EditProposal)
        assert app.focused is app.card


async def test_edit_of_a_gate_that_is_gone_is_not_sent(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate(), proposed={"gate_00000001": AFTER}) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "e", "#")
        app.gates = (second(),)
        await press(pilot, "ctrl+s")
        assert app.answers == []


async def test_text_with_control_characters_is_not_opened_in_the_editor(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate(), proposed={"gate_00000001": "a\x1b[2Jb"}) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "e")
        assert not isinstance(app.screen, EditProposal)
        assert "control characters" in app.text()


@pytest.mark.parametrize(
    ("keys", "said", "left_out"),
    [
        (("right_square_bracket", "space"), "1 of 3 hunks left out", ((0, 1),)),
        (("space", "space"), "space keep or drop", ()),
    ],
)
async def test_hunks_are_left_out_and_taken_in_again(
    keys: tuple[str, ...], said: str, left_out: tuple[tuple[int, int], ...], open_apps: OpenApps
) -> None:
    async with open_apps.asking(gate([scattered()])) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, *keys)
        assert said in app.text()
        await approve(app, pilot)
        assert app.answers[0].left_out == left_out


async def test_what_was_left_out_stays_so_in_an_edit(open_apps: OpenApps) -> None:
    """The editor has the text without it; saved as it is, nothing is answered and it stays out."""
    before = "\n".join(f"line {n}" for n in range(40))
    after = before.replace("line 3\n", "line 3!\nmore\n").replace("line 20", "line 20!")
    shown = preview("a.py", before, after, language="")
    async with open_apps.asking(gate([shown]), proposed={"gate_00000001": after}) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "space", "e")
        editor = app.screen.query_one(TextArea)
        assert editor.text == before.replace("line 20", "line 20!")
        assert editor.cursor_location == (20, 0)
        await press(pilot, "ctrl+s")
        app.clock.advance(ANEW_S)
        assert app.answers == []
        assert "1 of 2 hunks left out" in app.text()
        await press(pilot, "e", "#", "ctrl+s")
        assert app.answers[0].choice is GateChoice.EDIT
        assert app.answers[0].edited == before.replace("line 20", "#line 20!")


async def test_nothing_taken_is_not_approved(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([scattered()])) as (app, pilot):
        await at_gate(pilot)
        for key in ("space", "right_square_bracket") * 3:
            await press(pilot, key)
        assert "3 of 3 hunks left out" in app.text()
        for key in "ysys":
            await press(pilot, key)
            app.clock.advance(ANEW_S)
        assert app.answers == []
        assert "every hunk is left out" in app.text()


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("why", ["only_one", "file", "no_hunks"])
async def test_space_is_offered_only_where_a_hunk_can_be_left_out(
    why: str, language: str, open_apps: OpenApps
) -> None:
    """Elsewhere it changes nothing and says why."""
    shown = {
        "only_one": preview("a.py", "x = 1", "x = 2"),
        "file": preview("a.py", "", "x = 2\n", kind="create", before_hash=""),
        "no_hunks": preview("a.py", "", "", kind="move", target="b.py"),
    }[why]
    words = Catalogue(language)
    async with open_apps.asking(gate([shown]), language=language) as (app, pilot):
        await at_gate(pilot)
        assert words("diff.hint_toggle") not in app.text()
        assert words(f"diff.whole.{why}") not in app.text()
        await press(pilot, "space")
        assert app.text().count(words(f"diff.whole.{why}")) == 1
        assert app.card.diff.view.document.left_out == set()


async def test_choices_are_dropped_when_the_preview_is_renewed(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([scattered()])) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "space")
        app.gates = (gate([scattered()], renewed=True),)
        await drawn(pilot)
        assert "The file has changed: this is the new diff" in app.text()
        app.clock.advance(ANEW_S)
        await approve(app, pilot)
        assert app.answers[0].left_out == ()


async def test_keys_of_the_diff_act_at_the_gate(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([scattered()])) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "right_square_bracket", "right_square_bracket", "space")
        assert app.card.diff.view.document.left_out == {(0, 2)}
        assert "1 of 3 hunks left out" in app.text()
        await press(pilot, "left_square_bracket", "w")
        assert app.card.diff.view.heading.hunk == 2
        assert app.card.diff.view.wrap is False
        assert app.answers == []


async def test_gate_that_is_withdrawn_gives_the_focus_back(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        app.gates = ()
        await drawn(pilot)
        await press(pilot, "y")
        assert not app.card.display
        assert app.focused is app.composer
        assert app.composer.value == "y"


async def test_letters_are_lit_only_while_the_card_has_the_focus(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await drawn(pilot)
        assert "Enter to decide" in app.text()
        assert not app.card.query_one(KeyRow).lit
        await at_gate(pilot)
        assert "Enter to decide" not in app.text()
        assert app.card.query_one(KeyRow).lit


async def test_move_has_no_hunks_to_leave_out(open_apps: OpenApps) -> None:
    move = preview("a.py", "", "", kind="move", target="b.py", language="")
    async with open_apps.asking(gate([move], effect=Effect.MOVE)) as (app, pilot):
        await at_gate(pilot)
        assert "Move a.py → b.py" in app.text()
        await press(pilot, "space", "y")
        assert app.answers[0].choice is GateChoice.ONCE


def scattered() -> FilePreview:
    before = [f"line {n}" for n in range(40)]
    after = [f"{line}!" if n in (3, 20, 36) else line for n, line in enumerate(before)]
    return preview("src/shop/pricing.py", "\n".join(before), "\n".join(after), language="")


async def approve(app: GateApp, pilot: Pilot[None]) -> None:
    """Press y, and a second time where it asked about what was not on screen."""
    await press(pilot, "y")
    app.clock.advance(ANEW_S)
    if not app.answers:
        await press(pilot, "y")


async def test_the_edit_screen_opens_at_the_first_change(open_apps: OpenApps) -> None:
    before = [f"line {n}" for n in range(80)]
    text = "\n".join(f"{line}!" if n in (60, 61) else line for n, line in enumerate(before))
    change = preview("a.py", "\n".join(before), text)
    async with open_apps.asking(gate([change]), proposed={"gate_00000001": text}) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "e")
        assert app.screen.query_one(TextArea).cursor_location == (60, 0)
        assert "line 60!" in app.text()


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("width", [40, 60, 120])
async def test_the_question_for_the_reason_is_never_cut(
    language: str, width: int, open_apps: OpenApps
) -> None:
    words = Catalogue(language)
    async with open_apps.asking(gate(), language=language, size=(width, 30)) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        await press(pilot, "n")
        said = app.text()
        assert words("gate.ask_reason") in said


def by_rule(**fields: Any) -> Gate:
    """A gate that may become a rule of the project."""
    pattern = "file_ops.edit_file src/shop/pricing.py"
    return gate(can_grant_project=True, grant_pattern=pattern, **fields)


def before(choice: GateChoice) -> OperationMessage:
    """A call of the session that asked for the same."""
    asked = by_rule(gate_id=f"gate_{choice}")
    answer = GateAnswer(gate_id="g", call_id="c", args_hash="h", choice=choice)
    return OperationMessage(
        call_id=f"call_{choice}",
        operation="file_ops.edit_file",
        args={},
        reasoning="the total was wrong",
        gate=asked,
        answer=answer,
        result=OperationResult(outcome=Outcome.OK, text=""),
        at=1_750_000_000.0,
    )


async def test_p_shows_the_rule_with_what_it_would_have_allowed_and_p_again_keeps_it(
    open_apps: OpenApps,
) -> None:
    """What was refused before is counted."""
    calls = [before(GateChoice.ONCE), before(GateChoice.REJECT)]
    async with open_apps.asking(by_rule(), alike=lambda _: calls) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "p")
        text = app.text()
        assert app.answers == []
        assert "edit src/shop/pricing.py" in text
        assert "2 approvals (1 not allowed)" in " ".join(text.split())
        assert "allowed once  the total was wrong" in text
        assert "rejected  the total was wrong" in text
        assert "p  this project: edit src/shop/pricing.py" in text
        await press(pilot, "p")  # too soon to have been read
        assert app.answers == []
        app.clock.advance(ANEW_S)
        await press(pilot, "p")
        assert [answer.choice for answer in app.answers] == [GateChoice.PROJECT]
        assert app.answers[0].args_hash == "hash-of-args"


async def test_esc_goes_back_from_the_rule_and_another_key_answers_as_ever(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(by_rule()) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "p")
        assert "nothing else in this session" in app.text()
        app.clock.advance(ANEW_S)
        await press(pilot, "escape")
        assert "this project" not in app.text()
        assert "Apply discounts" in app.text()
        assert app.focused is app.card
        await press(pilot, "p")
        app.clock.advance(ANEW_S)
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


async def test_a_rule_that_was_not_shown_whole_is_asked_about(open_apps: OpenApps) -> None:
    """R14."""
    calls = [before(GateChoice.ONCE)] * 60
    async with open_apps.asking(by_rule(), alike=lambda _: calls, size=(80, 24)) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        await press(pilot, "p")
        app.clock.advance(ANEW_S)
        unseen = app.card.count_unseen()
        assert unseen > 40
        await press(pilot, "p")
        assert app.answers == []
        assert "You have not seen" in app.text()
        app.clock.advance(ANEW_S)
        await press(pilot, "p")
        assert [answer.choice for answer in app.answers] == [GateChoice.PROJECT]
