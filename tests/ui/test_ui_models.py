"""``/model`` and ``/connect`` in mid session, at servers over real HTTP."""

from __future__ import annotations

import logging
from collections.abc import Generator
from io import StringIO
from pathlib import Path

import pytest
from support.app_states import settled
from support.lists import is_listing, open_list, take_twice
from support.model_servers import KEY, ModelSeat, at_models, shelf
from textual.widgets import Input, OptionList

from duckflow_tui.llm.endpoints import ModelRef
from duckflow_tui.ui.layout import chat_width
from duckflow_tui.ui.screens.settings import SettingSource


async def at_list(seat: ModelSeat, *words: str) -> None:
    """The list of models is open, with this in it, and no more models come."""
    await seat.says("/model")
    await seat.sees("Choose a model", *words)
    await settled(seat.pilot, lambda: "Asking for more" not in seat.screen, "the whole list")


@pytest.mark.parametrize(
    ("keys", "model"),
    [
        (("down", "enter"), "pond/large"),
        (("down", "down", "enter"), "shelf/mallard-large"),
        (("down", "up", "enter"), "pond/small"),
        (("teal", "enter"), "shelf/teal"),
        (("mallard", "enter"), "shelf/mallard-large"),
        (("mallard", "down", "enter"), "shelf/mallard-small"),
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


async def test_a_model_that_is_named_with_the_command_is_what_enter_takes(tmp_path: Path) -> None:
    with shelf() as (url, _):
        async with at_models(tmp_path, shelf_url=url) as seat:
            await seat.says("/model teal")
            await seat.sees("Choose a model", "teal", "Enter select")
            await settled(seat.pilot, lambda: "mallard" not in seat.screen, "the others left out")
            await settled(seat.pilot, lambda: "Asking for more" not in seat.screen)
            await seat.pilot.press("enter")
            await settled(seat.pilot, lambda: now(seat) == "shelf/teal", "shelf/teal")


def now(seat: ModelSeat) -> str:
    """The model that answers now."""
    engine = seat.app.session.engine
    assert engine is not None
    return str(engine.models.roles.model_of("main"))


async def test_a_favourite_marked_in_a_burst_is_the_one_that_was_gone_to(tmp_path: Path) -> None:
    async with at_models(tmp_path) as seat:
        await at_list(seat, "small", "large")
        seat.burst("down", "ctrl+l")
        await seat.sees("★ large")
        assert seat.connections.favourites == (ModelRef("pond", "large"),)


async def test_a_damaged_file_of_choices_is_put_aside_by_the_next_one_and_said(
    tmp_path: Path,
) -> None:
    async with at_models(tmp_path) as seat:
        await at_list(seat, "small", "large")
        file = seat.home / "data" / "connections.json"
        file.write_bytes(b"{")
        seat.burst("down", "ctrl+l")
        await seat.sees("★ large")
        seat.burst("escape")
        await seat.sees("was damaged")
        assert "connections.json.damaged-1" in unbroken(seat.screen)
        assert (seat.home / "data" / "connections.json.damaged-1").read_bytes() == b"{"


# --- what the settings say ------------------------------------------------------------------------

OF_A_FILE = '[endpoints.here]\nbase_url = "URL"\n\n[roles]\nmain = "here/small"\n'


def unbroken(screen: str, width: int = 100_000) -> str:
    """The first columns without blanks and borders: a long path is broken anywhere."""
    lines = (line[:width] for line in screen.splitlines())
    return "".join("".join(lines).replace("│", " ").split())


async def setting(seat: ModelSeat, key: str) -> str:
    """What the page of settings says of one, as one line; the page is closed again."""
    await seat.says("/settings")
    await settled(seat.pilot, lambda: is_listing(seat.app, SettingSource), "the page")
    open_list(seat.app).choose(key)
    await seat.pilot.pause()
    seat.clock.advance(1)
    text = " ".join(seat.screen.split())
    await seat.pilot.press("escape")
    await settled(seat.pilot, lambda: seat.app.screen is seat.app.bench, "the session")
    return text


async def test_settings_show_the_model_that_was_chosen_on_the_screen_and_where_it_is_kept(
    tmp_path: Path,
) -> None:
    with shelf() as (url, _):
        port = url.rpartition(":")[2].removesuffix("/v1")
        async with at_models(tmp_path, ports=f"[{port}]") as seat:
            kept = "chosen on the screen, saved in connections.json"
            assert f'= "pond/small" {kept}' in await setting(seat, "roles.main")
            await seat.says("/connect")
            await seat.sees("local server", "3 models")
            seat.clock.advance(1)
            await seat.pilot.press("down", "enter")
            await seat.sees("Choose a model at", "mallard-large")
            await seat.pilot.press("down", "enter")
            await settled(seat.pilot, lambda: now(seat) == "local/mallard-small", "the model")
            assert f'= "local/mallard-small" {kept}' in await setting(seat, "roles.main")
            assert f'= "{url}" {kept}' in await setting(seat, "endpoints.local.base_url")
            assert "= unset by default" in await setting(seat, "roles.fast")
            listed = await setting(seat, "endpoints.local.context")
            assert "= 0 by default" in listed
            assert "32,768, as known for mallard-small" in listed
            engine = seat.app.session.engine
            assert engine is not None
            assert engine.store.state.usage.context_window == 32_768


async def test_settings_say_that_a_model_of_an_endpoint_of_the_file_is_chosen_for_now_only(
    tmp_path: Path,
) -> None:
    async with at_models(tmp_path, settings=OF_A_FILE) as seat:
        assert "settings.toml,line5" in unbroken(await setting(seat, "roles.main"))
        await at_list(seat, "large")
        await seat.pilot.press(*"large", "enter")
        await settled(seat.pilot, lambda: now(seat) == "here/large", "the model")
        text = await setting(seat, "roles.main")
        assert '= "here/large" chosen on the screen, until the program ends' in text
        said = await setting(seat, "endpoints.here.base_url")
        assert "settings.toml,line2" in unbroken(said)


# --- what the list says ---------------------------------------------------------------------------


async def test_the_list_says_price_window_and_endpoint_with_the_favourites_first(
    tmp_path: Path,
) -> None:
    with shelf() as (url, _):
        async with at_models(tmp_path, shelf_url=url) as seat:
            await at_list(seat, "teal")
            rows = listed(seat)
            assert [row.split()[0] for row in rows][:3] == ["small", "large", "mallard-large"]
            assert "in use · pond" in rows[0]
            assert "200k · $3 / $15 · shelf" in rows[2]
            await seat.pilot.press(*"teal", "ctrl+l", "ctrl+u")
            await seat.sees("★ teal", "small")
            assert listed(seat)[0].startswith("★ teal")
            await seat.pilot.press("escape")
            await at_list(seat, "★ teal")
            assert listed(seat)[0].startswith("★ teal")


def listed(seat: ModelSeat) -> list[str]:
    """The rows of the open list."""
    options = seat.app.screen.query_one(OptionList)
    return [str(option.prompt) for option in options.options]


async def test_a_model_taken_in_mid_session_answers_and_stands_in_the_header(
    tmp_path: Path,
) -> None:
    """And its window counts at once; what it was seen to do is said in the chat."""
    async with at_models(tmp_path) as seat:
        await seat.says("hello")
        await seat.sees("Hello.")
        await at_list(seat, "large")
        await seat.pilot.press("down", "enter")
        await settled(seat.pilot, lambda: "large" in header(seat), "the header")
        await seat.sees("Tested large: streams replies")
        await seat.says("hello again")
        await settled(seat.pilot, lambda: seat.server.of("main")[-1].json["model"] == "large")
        assert seat.connections.roles["main"] == ModelRef("pond", "large")


@pytest.mark.parametrize("kept", [True, False], ids=["connection", "settings"])
async def test_an_address_that_was_corrected_once_stays_so_for_the_next_model(
    tmp_path: Path, kept: bool
) -> None:
    """Of a connection for later starts too; a settings file is the user's."""
    settings = "" if kept else OF_A_FILE
    async with at_models(tmp_path, settings=settings, versioned=False) as seat:
        await seat.says("hello")
        await seat.sees("Hello.", "ends in /v1")
        await at_list(seat, "large")
        await seat.pilot.press(*"large", "enter")
        await seat.sees("Tested large")
        await seat.says("hello again")
        await settled(seat.pilot, lambda: len(seat.server.of("main")) > 2, "the second answer")
        posted = [r.path for r in seat.server.requests if r.method == "POST"]
        assert posted.count("/chat/completions") == 1
        connection = seat.connections.find_connection("pond")
        assert connection is not None
        assert connection.base_url.endswith("/v1") is kept


def header(seat: ModelSeat) -> str:
    return "".join(part.text for part in seat.app.bench.header.render_line(0))


async def test_tab_chooses_for_other_work_and_leaves_the_main_model(tmp_path: Path) -> None:
    async with at_models(tmp_path) as seat:
        await at_list(seat, "large")
        await seat.pilot.press("tab")
        await seat.sees("Choose the model for plans")
        await seat.pilot.press("down", "enter")
        await settled(seat.pilot, lambda: "creative" in seat.connections.roles, "the choice")
        assert seat.connections.roles["creative"] == ModelRef("pond", "large")
        assert now(seat) == "pond/small"


async def test_probe_says_in_the_chat_what_the_model_can_do(tmp_path: Path) -> None:
    async with at_models(tmp_path, size=(200, 40)) as seat:
        await seat.says("/probe")
        await seat.sees("Tested small: streams replies", "JSON schemas")


async def test_settings_that_name_the_model_are_said_to_count_first_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with at_models(tmp_path, size=(200, 40), settings=OF_A_FILE) as seat:
        await at_list(seat, "large")
        await seat.pilot.press(*"large", "enter")
        await seat.sees("takes precedence at the next")
        assert "settings.toml,line5" in unbroken(seat.screen, chat_width(200, 40))
    async with at_models(tmp_path / "again") as seat:
        await at_list(seat, "large")
        await seat.pilot.press(*"large", "enter")
        await seat.sees("Tested large")
        assert "next start" not in seat.screen


# --- /connect -------------------------------------------------------------------------------------


async def test_connect_takes_a_server_that_is_found_and_forgets_it_after_a_question(
    tmp_path: Path,
) -> None:
    with shelf() as (url, came):
        port = url.rpartition(":")[2].removesuffix("/v1")
        async with at_models(tmp_path, ports=f"[{port}]") as seat:
            await seat.says("/connect")
            await seat.sees("local server", "3 models")
            assert not any(came)
            seat.clock.advance(1)
            await seat.pilot.press("down", "enter")
            await seat.sees("Choose a model at", "mallard-large", "$3 / $15")
            await seat.pilot.press("down", "enter")
            await settled(seat.pilot, lambda: now(seat).endswith("/mallard-small"), "the model")
            await seat.says("/connect")
            await seat.sees("Connect models", "local")
            seat.clock.advance(1)
            await seat.pilot.press("down")
            await take_twice(seat.app, seat.pilot, "forget it and its key", "Enter forgets local")
            await seat.sees("were forgotten")
            assert [one.name for one in seat.connections.all] == ["pond"]


async def test_a_server_that_is_taken_puts_a_damaged_file_of_choices_aside_and_that_is_said(
    tmp_path: Path,
) -> None:
    with shelf() as (url, _):
        port = url.rpartition(":")[2].removesuffix("/v1")
        async with at_models(tmp_path, ports=f"[{port}]") as seat:
            await seat.says("/connect")
            await seat.sees("local server", "3 models")
            (seat.home / "data" / "connections.json").write_bytes(b"{")
            seat.clock.advance(1)
            await seat.pilot.press("down", "enter")
            await seat.sees("Choose a model at", "mallard-large")
            await seat.pilot.press("down", "enter")
            await seat.sees("was damaged")
            assert "connections.json.damaged-1" in unbroken(seat.screen)
            assert [one.name for one in seat.connections.all] == ["local"]


async def test_asking_for_models_is_said_until_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shelf(key=KEY) as (url, _):
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        async with at_models(tmp_path) as seat:
            await seat.says("/connect")
            await seat.sees("key in OPENAI_API_KEY")
            seat.clock.advance(1)
            await seat.pilot.press("down", "enter")
            await seat.sees("Choose a model at", "teal")
            assert "Asking" not in seat.app.bench.status.notice_text
            assert KEY not in seat.screen


async def test_an_address_on_the_first_screen_is_tried_there(tmp_path: Path) -> None:
    """What it answers stands below, and a server that needs a key leads to its form. What
    was sent before waits meanwhile, and goes to the model that is chosen.
    """
    with shelf() as (url, came), shelf(key=KEY) as (guarded, _):
        async with at_models(tmp_path, connected=False, size=(80, 24)) as seat:
            await seat.sees("Tab address")
            await seat.pilot.press(*"hello", "enter")
            await seat.sees("Your message is saved")
            await seat.pilot.press("tab")
            field = seat.app.bench.query_one("#welcome-address Input", Input)
            await settled(seat.pilot, lambda: field.has_focus, "the field")
            await seat.pilot.press(*"127.0.0.1:1/v1", "enter")
            await seat.sees("No connection to 127.0.0.1:1", "Check the address.")
            assert "--base-url." not in seat.screen
            await seat.pilot.press("ctrl+u", *KEY.replace("duck", "sk"), "enter")
            await seat.sees("looks like a key")
            assert came == []
            await seat.pilot.press("ctrl+u", *guarded, "enter")
            await seat.sees("Connect a server", "needs a key")
            await seat.pilot.press("escape")
            await settled(seat.pilot, lambda: field.has_focus, "the field again")
            await seat.pilot.press("ctrl+u", *url.removeprefix("http://").removesuffix("/v1"))
            await seat.pilot.press("up")  # a line, and back
            assert not field.has_focus
            await seat.pilot.press("down", "enter")
            await seat.sees("mallard-small", "teal")
            seat.clock.advance(1)
            await seat.pilot.press(*"teal", "enter")
            await settled(seat.pilot, lambda: seat.app.session.engine is not None, "the session")
            await seat.sees("› hello")
            assert now(seat).endswith("/teal")
            assert [one.base_url for one in seat.connections.all] == [url]


# --- keys -----------------------------------------------------------------------------------------


async def connected(seat: ModelSeat, address: str, key: str) -> None:
    """Write an address and a key behind ``/connect``."""
    await seat.says("/connect")
    await seat.sees("Connect models", "enter another address")
    seat.clock.advance(1)
    await seat.pilot.press("down", "enter")
    await seat.sees("Address or provider name")
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
            await seat.sees("Choose a model at", "teal")
            assert came[-1] == f"Bearer {KEY}"
            assert KEY not in seat.screen
            logging.getLogger("duckflow.test").warning("sent %s", KEY)
            await seat.pilot.press("enter")
            await settled(seat.pilot, lambda: now(seat).endswith("/mallard-large"), "the model")
            await seat.says(f"is {KEY} right?")
            await seat.sees("not for account")
            assert f"account {KEY}" not in seat.screen
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
