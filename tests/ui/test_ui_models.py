"""``/model`` and ``/connect`` in mid session, at servers over real HTTP."""

from __future__ import annotations

import logging
from collections.abc import Generator
from io import StringIO
from pathlib import Path

import pytest
from support.app_states import settled
from support.model_servers import KEY, ModelSeat, at_models, shelf

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


# --- keys -----------------------------------------------------------------------------------------


async def connected(seat: ModelSeat, address: str, key: str) -> None:
    """Write an address and a key behind ``/connect``."""
    await seat.says("/connect")
    await seat.sees("Connect models", "another address or key")
    seat.clock.advance(1)
    await seat.pilot.press("down", "enter")
    await seat.sees("Address, or the provider's name")
    await seat.pilot.press(*address, "tab", *key, "enter")


@pytest.fixture
def logged() -> Generator[StringIO]:
    """All that is logged, by a handler that stood before the session."""
    lines, root = StringIO(), logging.getLogger()
    handler = logging.StreamHandler(lines)
    root.addHandler(handler)
    try:
        yield lines
    finally:
        root.removeHandler(handler)


async def test_a_key_typed_in_mid_session_is_in_no_journal_log_or_export(
    tmp_path: Path, logged: StringIO
) -> None:
    """Its value, since it has no known shape: wherever it comes from, here the user, the server
    and a log line.
    """
    with shelf(key=KEY) as (url, came):
        async with at_models(tmp_path) as seat:
            await connected(seat, url, KEY)
            await seat.sees("Which model at", "teal")
            assert came[-1] == f"Bearer {KEY}"
            assert KEY not in seat.screen
            await seat.pilot.press("enter")
            await settled(seat.pilot, lambda: now(seat).endswith("/mallard-large"), "the model")
            await seat.says(f"is {KEY} right?")
            await seat.sees("not for account")
            assert f"account {KEY}" not in seat.screen
            logging.getLogger("duckflow.test").warning("sent %s", KEY)
            redact = seat.sessions.catalog.redact
            assert redact is not None
            assert KEY not in redact(f"is {KEY} right?")
        assert "sent [redacted]" in logged.getvalue()
        assert KEY not in logged.getvalue()
        assert KEY.encode() not in seat.written
        assert b"[redacted] right?" in seat.written
        (kept,) = seat.home.rglob("keys.json")
        assert KEY in kept.read_text()
        assert kept.stat().st_mode & 0o777 == 0o600
