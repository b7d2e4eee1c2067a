"""A gate about all changes of a reply: a list of files, each readable, each to be left out."""

from __future__ import annotations

import pytest
from support.gates import at_gate, gate, press, preview
from support.open_apps import OpenApps

from duckflow_tui.state.gates import AlsoAsked, FilePreview, Gate, GateChoice
from duckflow_tui.ui.panes.key_guard import SETTLE_S

MOVED = FilePreview(path="here.txt", kind="move", target="there.txt", before_hash="h")


def wide() -> Gate:
    """Three files that come, one that changes, one that moves."""
    previews = [preview(f"f{n}.txt", "", f"{n}", kind="create") for n in range(3)]
    previews += [preview("readme.txt", "old", "new"), MOVED]
    also = [
        AlsoAsked(call_id=f"call_{n}", operation="file_ops.write_file", args_hash=f"h{n}")
        for n in range(4)
    ]
    return gate(previews, also=tuple(also))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_each_file_is_shown_and_can_be_left_out(
    size: tuple[int, int], open_apps: OpenApps
) -> None:
    """The first that comes, and the one that moves. Covers S4-110."""
    async with open_apps.asking(wide(), size=size) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "space", "]", "]", "]", "]", "space")
        document = app.card._document  # pyright: ignore[reportPrivateUsage]
        assert document.left_out == {(0, 0), (4, 0)}
        await press(pilot, "y")
        app.clock.advance(SETTLE_S)
        if document.unseen_lines:
            assert app.answers == []
            await press(pilot, "y")
        (answer,) = app.answers
        assert (answer.choice, answer.left_out) == (GateChoice.ONCE, ((0, 0), (4, 0)))


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_what_is_said_of_several_files_is_of_all_and_names_how_to_leave_one_out(
    language: str, open_apps: OpenApps
) -> None:
    """Covers S4-110. The reason of one file is not told as that of all; ``i`` shows each."""
    asked = wide()
    also = [part.model_copy(update={"intent": f"purpose {n}"}) for n, part in enumerate(asked.also)]
    async with open_apps.asking(
        asked.model_copy(update={"also": tuple(also)}), language=language
    ) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        text = app.text()
        assert app.words("gate.each_its_reason", count=5) in text
        assert "discounts" not in text.lower()
        assert app.words("gate.leaves_files") in text
        foot = next(line for line in text.split("\n") if "] [" in line)
        assert foot.index("space") < foot.index("] [")
        await press(pilot, "i")
        assert all(f"urpose {n}" in app.text() for n in range(4))


async def test_with_every_file_left_out_there_is_nothing_to_allow(open_apps: OpenApps) -> None:
    async with open_apps.asking(wide(), size=(120, 60)) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "space", *["]", "space"] * 4)
        for _ in range(5):
            await press(pilot, "y")
        assert app.answers == []
