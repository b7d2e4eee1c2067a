"""How well what is on the screen can be read, in each theme."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from support.app_states import FakeEngine, app_with, settled, standing
from support.gates import gate
from support.pictures import contrast, inks_of
from support.plans import working
from textual.color import Color

from duckflow_tui.state.gates import GateOpened
from duckflow_tui.ui.palette import PALETTES, Palette

READ: Final = 4.5  # of what a person acts on or reads to decide: WCAG 2, 1.4.3
OVERLOOKED: Final = 3.0  # of what may be overlooked, which is told by its colour
PICTURES: Final = Path(__file__).parent / "__snapshots__"
BEHIND: Final = (0.6, 0.84)  # of the background lies over what is behind a page, behind two


def colours(palette: Palette) -> set[str]:
    values = {getattr(palette, name) for name in Palette.__annotations__}
    return {value.lower() for value in values if isinstance(value, str)}


def too_faint(picture: str) -> set[tuple[str, str, str, float]]:
    """Texts that cannot be read well enough; with a page over them, those of the page."""
    inks = inks_of(picture)
    used = {ink for _, ink, _ in inks}
    faint = {palette.faint.lower() for palette in PALETTES.values()}
    for palette in PALETTES.values():
        ground = Color.parse(palette.background)
        inked = (Color.parse(ink) for ink in (palette.text, palette.quiet, palette.accent))
        if used & {ink.blend(ground, lies).hex.lower() for ink in inked for lies in BEHIND}:
            known = colours(palette)
            inks = [one for one in inks if one[1] in known and one[2] in known]
    found: set[tuple[str, str, str, float]] = set()
    for text, ink, ground in inks:
        ratio = contrast(ink, ground)
        if ratio < (OVERLOOKED if ink in faint else READ):
            found.add((text, ink, ground, round(ratio, 2)))
    return found


def test_every_picture_can_be_read() -> None:
    pictures = sorted(PICTURES.rglob("*.svg"))
    assert len(pictures) > 300
    found = {picture.name: too_faint(picture.read_text()) for picture in pictures}
    assert {name: bad for name, bad in found.items() if bad} == {}


@pytest.mark.parametrize("name", PALETTES)
async def test_a_gate_and_a_plan_can_be_read_in_every_theme(name: str) -> None:
    store = working()
    app = app_with(FakeEngine(store))
    async with standing(app, 160, 50) as pilot:
        store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: app.bench.question.display, "the gate")
        app.theme = name
        for focus in ("alt+3", "alt+1", "alt+2", "alt+4", "escape"):
            await pilot.press(focus)
            await pilot.pause()
            picture = app.export_screenshot()
            assert len({ink for _, ink, _ in inks_of(picture)} & colours(PALETTES[name])) > 4
            assert too_faint(picture) == set(), focus
