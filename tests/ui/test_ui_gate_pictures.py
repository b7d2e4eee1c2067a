"""Pictures of the gate and the diff in the sizes, languages and themes that users meet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.gates import GateApp, at_gate, drawn, gate, many_lines, press, preview, pricing
from textual.pilot import Pilot

from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import FilePreview, Gate, GateAnswer, GateChoice, Impact
from duckflow_tui.state.operations import Effect, OperationResult, Outcome, Risk, Zone
from duckflow_tui.ui.panes.key_guard import SETTLE_S

Snap = Callable[..., bool]
SIZES = ((120, 40), (80, 24), (60, 20))


def files() -> Gate:
    """Several files with everything that a diff can say."""
    notes = preview("docs/メモ.md", "a\nb", "a\nb\nc " + "長い行 " * 20, language="markdown")
    image = FilePreview(path="img/logo.png", kind="delete", before_hash="x", note="binary, 12 KB")
    places = [f"value_{n} = {n}" for n in range(40)]
    changed = [f"{p}0" if n in (4, 30) else p for n, p in enumerate(places)]
    cart = preview("src/shop/cart.py", "\n".join(places), "\n".join(changed))
    return gate([cart, pricing(), notes, image], renewed=True, edited_by_user=True)


def program() -> Gate:
    """An operation without a preview, and with a risk."""
    return gate(
        [],
        operation="shell.run",
        effect=Effect.EXECUTE,
        args={"command": "set -e\n\n\n\n\n\nrm -r build" + " " * 60 + "dist", "timeout_s": 30},
        impact=Impact(zone=Zone.NOWHERE, risk=Risk.HIGH, reversible=False, reasons=("secret",)),
        alternatives=(),
        why="",
        can_grant_session=False,
        can_edit=False,
    )


async def focused(pilot: Pilot[None]) -> None:
    await at_gate(pilot)
    await drawn(pilot)


async def waiting(pilot: Pilot[None]) -> None:
    await drawn(pilot)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("language", ["en", "ja"])
def test_gate_with_the_focus(snap_compare: Snap, size: tuple[int, int], language: str) -> None:
    """Covers S4-62. One form in every size and language."""
    app = GateApp(gate(), language=language, step="step 2")
    assert snap_compare(app, terminal_size=size, run_before=focused)


@pytest.mark.parametrize("theme", ["duck-dark", "duck-light", "duck-contrast"])
def test_gate_waits_for_the_user(snap_compare: Snap, theme: str) -> None:
    app = GateApp(gate(), program(), theme=theme)
    assert snap_compare(app, terminal_size=(120, 40), run_before=waiting)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_several_files_with_a_hunk_left_out(snap_compare: Snap, size: tuple[int, int]) -> None:
    async def leave(pilot: Pilot[None]) -> None:
        await at_gate(pilot)
        await press(pilot, "right_square_bracket", "space")

    app = GateApp(files())
    assert snap_compare(app, terminal_size=size, run_before=leave)


def test_side_by_side(snap_compare: Snap) -> None:
    async def split(pilot: Pilot[None]) -> None:
        await at_gate(pilot)
        await pilot.press("v")
        await drawn(pilot)

    assert snap_compare(GateApp(files()), terminal_size=(120, 40), run_before=split)


@pytest.mark.parametrize("size", [(120, 40), (60, 20)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_program_with_a_risk(snap_compare: Snap, size: tuple[int, int]) -> None:
    """Covers S4-65."""
    app = GateApp(program(), gate(gate_id="gate_00000002"))
    assert snap_compare(app, terminal_size=size, run_before=focused)


def test_reason_of_a_rejection(snap_compare: Snap) -> None:
    async def reject(pilot: Pilot[None]) -> None:
        await at_gate(pilot)
        await pilot.press("n", *"too wide")
        await drawn(pilot)

    assert snap_compare(GateApp(gate()), terminal_size=(120, 40), run_before=reject)


@pytest.mark.parametrize(("size", "language"), [((120, 40), "en"), ((80, 24), "ja")])
def test_remarks_on_lines(snap_compare: Snap, size: tuple[int, int], language: str) -> None:
    async def write(pilot: Pilot[None]) -> None:
        app = await at_gate(pilot)
        await press(pilot, "j", "c", *"one loop is enough", "enter")
        app.clock.advance(SETTLE_S)
        await press(pilot, "j", "j", "c", *"why this name?")

    app = GateApp(gate(), language=language)
    assert snap_compare(app, terminal_size=size, run_before=write)


def test_editor_of_a_proposal(snap_compare: Snap) -> None:
    async def edit(pilot: Pilot[None]) -> None:
        await at_gate(pilot)
        await pilot.press("e")
        await drawn(pilot)

    app = GateApp(gate(), proposed={"gate_00000001": "def total(price):\n    return price\n"})
    assert snap_compare(app, terminal_size=(80, 24), run_before=edit)


def test_what_was_not_seen_of_a_long_file(snap_compare: Snap) -> None:
    async def page(pilot: Pilot[None]) -> None:
        await at_gate(pilot)
        await pilot.press("y")
        await drawn(pilot)

    app = GateApp(gate([many_lines(120)]), language="ja")
    assert snap_compare(app, terminal_size=(80, 24), run_before=page)


def test_smallest_screen(snap_compare: Snap) -> None:
    app = GateApp(gate())
    assert snap_compare(app, terminal_size=(20, 5), run_before=focused)


@pytest.mark.parametrize(
    ("size", "language"), [((120, 40), "en"), ((80, 24), "ja"), ((60, 20), "en")]
)
def test_a_rule_before_it_is_kept(snap_compare: Snap, size: tuple[int, int], language: str) -> None:
    def before(choice: GateChoice, at: float) -> OperationMessage:
        answer = GateAnswer(gate_id="g", call_id="c", args_hash="h", choice=choice)
        return OperationMessage(
            call_id=f"call_{choice}",
            operation="file_ops.edit_file",
            args={},
            reasoning="the discounts are added before they are applied",
            answer=answer,
            result=OperationResult(outcome=Outcome.OK, text=""),
            at=at,
        )

    async def look(pilot: Pilot[None]) -> None:
        await at_gate(pilot)
        await press(pilot, "p")

    asks = gate(can_grant_project=True, grant_pattern="file_ops.edit_file src/shop/pricing.py")
    calls = [before(GateChoice.ONCE, 1_750_000_000.0), before(GateChoice.REJECT, 1_750_000_300.0)]
    app = GateApp(asks, language=language, alike=lambda _: calls)
    assert snap_compare(app, terminal_size=size, run_before=look)
