"""Remarks on the lines of a change that waits: how they are written, where they stand, who gets
them.
"""

from __future__ import annotations

import pytest
from support.app_states import FakeEngine, at_question, settled
from support.gates import GateApp, at_gate, drawn, gate, many_lines, press, preview, pricing
from support.open_apps import OpenApps
from support.pinned import ManualClock
from support.plans import drafted, working
from support.screens import screen_text
from textual.pilot import Pilot
from textual.widgets import Input

from duckflow_tui.state.gates import GateChoice, Remark
from duckflow_tui.state.session import RemarksSaved
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.key_guard import ANEW_S

GOES = "    return price * (1 - rate)"
COMES = "    for rate in discounts:"
PATH = "src/shop/pricing.py"


async def remark(pilot: Pilot[None], app: GateApp, *keys: str) -> None:
    """Go by the first keys, write what the last is on the line there, and be back at the gate."""
    await press(pilot, *keys[:-1], "c", *keys[-1], "enter")
    app.clock.advance(ANEW_S)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_n_sends_the_remarks_on_lines_at_once(
    size: tuple[int, int], open_apps: OpenApps
) -> None:
    """Each with its file, its line and which version the line is of; in the order of the lines."""
    async with open_apps.asking(gate(), size=size) as (app, pilot):
        await at_gate(pilot)
        await remark(pilot, app, "down", "j", "j", "one loop is enough")  # the line that comes
        await remark(pilot, app, "up", "keep this")  # the one before it, which goes
        shown = [line.strip("│ ▆▇▅▄▃▂▁") for line in app.text().split("\n")]
        below = {line.split("›")[1].strip(): n for n, line in enumerate(shown) if "›" in line}
        assert shown[below["keep this"] - 1].endswith(f"16     -▸{GOES}")
        assert shown[below["one loop is enough"] - 1].endswith(f"15 + {COMES}")
        assert "reject and send 2 remarks" in app.text()
        await press(pilot, "n")
        answer = app.answers[0]
        assert (answer.choice, answer.reason) == (GateChoice.REJECT, "")
        assert answer.remarks == (
            Remark(path=PATH, number=16, old=True, line=GOES, said="keep this"),
            Remark(path=PATH, number=15, line=COMES, said="one loop is enough"),
        )


async def test_esc_drops_what_is_written_and_an_empty_text_takes_the_remark_away(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate(), size=(60, 20)) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "c", *"never mind", "escape")
        app.clock.advance(ANEW_S)
        assert app.focused is app.card
        assert "never mind" not in app.text()
        await remark(pilot, app, "no")
        await remark(pilot, app, "t")  # goes on with what is there
        assert "› not" in app.text()
        await press(pilot, "c", "backspace", "backspace", "backspace", "enter")
        app.clock.advance(ANEW_S)
        assert "›" not in app.text()
        assert "reject and send" not in app.text()
        await press(pilot, "n")  # asks for a reason, as without remarks
        assert app.answers == []


async def test_to_allow_with_remarks_is_asked_about_once(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await remark(pilot, app, "rename it")
        await press(pilot, "y")
        app.clock.advance(ANEW_S)
        assert "1 remark would be lost." in app.text()
        assert "You have not seen" not in app.text()
        assert app.answers == []
        await remark(pilot, app, "down", "and this")  # what was asked is another thing now
        await press(pilot, "y")
        app.clock.advance(ANEW_S)
        assert "2 remarks would be lost." in app.text()
        await press(pilot, "y")
        assert [(a.choice, a.remarks) for a in app.answers] == [(GateChoice.ONCE, ())]


async def test_an_alternative_takes_the_remarks_along(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await remark(pilot, app, "rename it")
        await press(pilot, "2")
        assert [remark.said for remark in app.answers[0].remarks] == ["rename it"]


async def test_remarks_stay_while_the_gate_waits_and_with_their_lines_when_it_is_shown_anew(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await remark(pilot, app, "down", "down", "stays")
        await remark(pilot, app, *["down"] * 3, "goes with its line")
        await press(pilot, "escape", "h", "i")
        assert app.composer.value == "hi"
        assert "› stays" in app.text()
        app.gates = ()
        renewed = preview(PATH, "# new\n" * 3 + f"def total():\n{GOES}", "# new\n" * 3)
        before = pricing().hunks[0].lines
        assert GOES in [line.text for line in before]
        app.gates = (gate([renewed], gate_id="gate_00000002", renewed=True),)
        await at_gate(pilot)
        await press(pilot, "n")
        found = [(one.line, one.said) for answer in app.answers for one in answer.remarks]
        assert found == [(GOES, "stays")]


async def test_remarks_are_written_on_a_line_that_was_clicked_and_on_the_whole_screen(
    open_apps: OpenApps,
) -> None:
    """The pointer sets the line; what is written in one place stands in the others."""
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        view = app.card.diff.view  # pyright: ignore[reportPrivateUsage]
        lines = app.text().split("\n")
        line = next(n for n, text in enumerate(lines) if COMES in text)
        await pilot.click(view, offset=(10, line - view.region.y))
        await drawn(pilot)
        assert app.focused is app.card
        app.clock.advance(ANEW_S)
        await press(pilot, "c", *"at the gate", "enter")
        assert app.focused is app.card
        app.clock.advance(ANEW_S)
        await press(pilot, "z")
        app.clock.advance(ANEW_S)
        await press(pilot, "j", "c", *"from the whole", "enter")
        whole = app.screen.query_one(DiffView)
        assert app.focused is whole
        await press(pilot, "v")
        sides = [text for text in app.text().split("\n") if "›" in text]
        assert [text.count("›") for text in sides] == [1, 1]
        await press(pilot, "z")
        app.clock.advance(ANEW_S)
        await press(pilot, "n")
        assert [(one.number, one.said) for one in app.answers[0].remarks] == [
            (15, "at the gate"),
            (16, "from the whole"),
        ]


async def test_every_line_of_a_long_file_can_be_walked_to(open_apps: OpenApps) -> None:
    """Each key brings the next line on the screen, those that are cut too; a jump takes the cursor
    to what is in sight then.
    """
    long = preview("a.py", "", "\n".join(f"{n} " + "word " * (40 * (n % 3)) for n in range(12)))
    async with open_apps.asking(gate([long]), size=(60, 20)) as (app, pilot):
        await at_gate(pilot)
        document = app.card._document  # pyright: ignore[reportPrivateUsage]
        places = [document.cursor]
        while document.unseen_lines and len(places) < 99:
            await press(pilot, "down")
            places.append(document.cursor)
        assert list(dict.fromkeys(places))[1:] == document.lines
        assert document.unseen_lines == 0
        await press(pilot, "home", "up")
        assert document.cursor < 5
        app.gates = (gate([many_lines(300)], gate_id="gate_2", call_id="call_2"),)
        await drawn(pilot)
        app.clock.advance(1.0)
        await remark(pilot, app, "pagedown", "pagedown", "here")
        said = app.card._document.list_remarks()  # pyright: ignore[reportPrivateUsage]
        assert 5 < said[0].number < 40
        assert said[0].line == f"value_{said[0].number - 1} = {said[0].number - 1}"


# --- remarks and the end of the process ----------------------------------------------------------


async def written(app: DuckflowApp, pilot: Pilot[int], text: str) -> None:
    """Write it on the line or step at hand."""
    assert isinstance(app.clock, ManualClock)
    await pilot.press("c")
    await settled(pilot, lambda: isinstance(app.focused, Input), "the line to write in")
    await pilot.press(*text, "enter")
    await settled(pilot, lambda: app.bench.focused is app.bench.talk.open_question, "the question")
    app.clock.advance(ANEW_S)


def once_more(store: Store, **fields: object) -> FakeEngine:
    """The same work in another process, which has read what was kept; its gate has ``fields``."""
    again = working(at_gate=True)
    again.dispatch(RemarksSaved(kept=store.state.remarks))
    again.state.gates = tuple(
        asked.replace(gate_id="gate_0000000f", call_id="call_0000000f", **fields)
        for asked in again.state.gates
    )
    return FakeEngine(again)


async def test_remarks_on_a_diff_stand_on_the_very_same_proposal_when_the_session_goes_on(
    open_apps: OpenApps,
) -> None:
    first = FakeEngine(working(at_gate=True))
    async with open_apps.standing(first) as (app, pilot):
        await at_question(pilot)
        await written(app, pilot, "rename")
    fake = once_more(first.store)
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await settled(pilot, lambda: "› rename" in screen_text(app), "the remark")
        await pilot.press("n")
        await settled(pilot, lambda: bool(fake.answers), "the answer")
        assert [(one.path, one.said) for one in fake.answers[0].remarks] == [(PATH, "rename")]
        assert fake.store.state.remarks.remarks == ()


async def test_remarks_on_another_proposal_are_dropped_and_that_is_said(
    open_apps: OpenApps,
) -> None:
    first = FakeEngine(working(at_gate=True))
    async with open_apps.standing(first) as (app, pilot):
        await at_question(pilot)
        await written(app, pilot, "rename")
    fake = once_more(first.store, args_hash="hash-of-others")
    async with open_apps.standing(fake) as (app, pilot):
        await settled(
            pilot,
            lambda: "1 remark on an earlier proposal dropped" in screen_text(app),
            "the notice",
        )
        assert "› rename" not in screen_text(app)
        assert fake.store.state.remarks.remarks == ()


async def test_remarks_on_a_plan_stand_on_the_same_plan_when_the_session_goes_on(
    open_apps: OpenApps,
) -> None:
    first = FakeEngine(drafted())
    async with open_apps.standing(first) as (app, pilot):
        await at_question(pilot)
        await pilot.press("down", "down")
        await written(app, pilot, "smaller")
    again = drafted()
    again.dispatch(RemarksSaved(kept=first.store.state.remarks))
    fake = FakeEngine(again)
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await settled(pilot, lambda: "smaller" in screen_text(app), "the remark")
        await pilot.press("n")
        await settled(pilot, lambda: bool(fake.card_answers), "the answer")
        assert [one.said for one in fake.card_answers[0].remarks] == ["smaller"]
        assert fake.store.state.remarks.remarks == ()
