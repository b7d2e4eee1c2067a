"""``/model`` and ``/connect`` in mid session, at servers over real HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.app_states import settled
from support.model_servers import ModelSeat, at_models, shelf

from duckflow_tui.llm.endpoints import ModelRef


async def at_list(seat: ModelSeat, *words: str) -> None:
    """The list of models is open, with this in it, and no more models come."""
    await seat.says("/model")
    await seat.sees("Which model answers?", *words)
    await settled(seat.pilot, lambda: "Asking for more" not in seat.screen, "the whole list")


@pytest.mark.parametrize(
    ("keys", "model"),
    [
        (("down", "enter"), "pond/large"),
        (("down", "down", "enter"), "shelf/mallard-large"),
        (("down", "up", "enter"), "pond/small"),
        (("teal", "enter"), "shelf/teal"),
        (("mallard", "enter"), "shelf/mallard-small"),
        (("mallard", "down", "enter"), "shelf/mallard-large"),
        (("teel", "backspace", "backspace", "al", "enter"), "shelf/teal"),
        (("teal", "ctrl+u", "large", "enter"), "pond/large"),
        (("tea", "escape", "enter"), "pond/small"),
    ],
)
async def test_enter_takes_what_the_keys_before_it_in_one_burst_lead_to(
    tmp_path: Path, keys: tuple[str, ...], model: str
) -> None:
    """And what comes behind it in the same burst is written into the composer."""
    with shelf() as (url, _):
        async with at_models(tmp_path, shelf_url=url) as seat:
            await at_list(seat, "small", "large", "mallard-small", "teal")
            seat.burst(*keys, "hi")
            await settled(seat.pilot, lambda: seat.app.bench.composer.text == "hi", "the text")
            await settled(seat.pilot, lambda: now(seat) == model, model)


def now(seat: ModelSeat) -> str:
    """The model that answers now."""
    engine = seat.app.session.engine
    assert engine is not None
    return str(engine.models.roles.of("main"))


async def test_a_favourite_marked_in_a_burst_is_the_one_that_was_gone_to(tmp_path: Path) -> None:
    async with at_models(tmp_path) as seat:
        await at_list(seat, "small", "large")
        seat.burst("down", "ctrl+l")
        await seat.sees("★ large")
        assert seat.connections.favourites == (ModelRef("pond", "large"),)
