"""The pages of ``/model`` and ``/connect`` as they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from support.app_states import FakeEngine, app_with, settled, store_with
from support.pictures import each_state
from textual.pilot import Pilot
from textual.screen import Screen

from duckflow_tui.llm.connections import Connections, ModelConnection, ModelLine
from duckflow_tui.llm.discovery import FoundServer, KnownKey
from duckflow_tui.llm.endpoints import ModelRef, ModelsInUse, Roles
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.screens.connect import ConnectSource
from duckflow_tui.ui.screens.connect_form import ConnectForm
from duckflow_tui.ui.screens.list_page import ListPage
from duckflow_tui.ui.screens.model_list import ModelList

CONNECTED: Final = (
    ModelConnection(name="ollama", base_url="http://127.0.0.1:11434/v1"),
    ModelConnection(
        name="openrouter", base_url="https://openrouter.ai/api/v1", key_place="keyring"
    ),
)
LINES: Final = (
    ModelLine(id="qwen3-coder:30b", context=262_144),
    ModelLine(id="gpt-oss:20b", context=131_072),
    ModelLine(id="anthropic/claude-sonnet-4.5", context=1_000_000, price_in=3.0, price_out=15.0),
    ModelLine(id="deepseek/deepseek-chat-v3.1", context=163_840, price_in=0.27, price_out=1.0),
    ModelLine(id="an-organisation/a-model-with-quite-a-long-name-instruct-2507-fp8"),
)


def models(app: DuckflowApp, kept: Connections) -> Screen[Any]:
    endpoints = {one.name: one.endpoint for one in CONNECTED}
    in_use = ModelsInUse(endpoints, Roles(main="ollama/gpt-oss:20b"), {}, KnownModels())
    page = ModelList(app.words, app.words("models.title"), "", app.connecting, in_use)
    for line in LINES:
        endpoint = "openrouter" if "/" in line.id else "ollama"
        page.offer_lines({f"{endpoint}/{line.id}": line})
    page.all_listed()
    return page


def connect(app: DuckflowApp, kept: Connections) -> Screen[Any]:
    app.connecting.servers = (
        FoundServer("http://127.0.0.1:1234/v1", "LM Studio", LINES[:2]),
        FoundServer("http://127.0.0.1:8000/v1", "", (), True),
    )
    key = KnownKey("DEEPSEEK_API_KEY", "DeepSeek", "https://api.deepseek.com/v1", "deepseek-chat")
    app.connecting.keys = (key,)
    return ListPage(app.words, app.clock, [ConnectSource(app.connecting, kept)])


def form(app: DuckflowApp, kept: Connections) -> Screen[Any]:
    path = "~/.local/share/duckflow/keys.json"
    said = app.words("connect.fault.refused_key.written", host="api.openai.com", detail="401")
    return ConnectForm(app.words, "https://api.openai.com/v1", said, "keyring", path)


PAGES: Final[Mapping[str, Callable[[DuckflowApp, Connections], Screen[Any]]]] = {
    "models": models,
    "connect": connect,
    "connect-form": form,
}


@each_state("name", {name: name for name in PAGES})
def test_the_pages_of_models(
    snap_compare: Any, tmp_path: Path, name: str, size: tuple[int, int], language: str
) -> None:
    kept = Connections(tmp_path)
    for one in CONNECTED:
        kept.add_connection(one)
    kept.choose_model(ModelRef("ollama", "gpt-oss:20b"))
    kept.set_favourite(ModelRef("openrouter", "anthropic/claude-sonnet-4.5"))
    app = app_with(FakeEngine(store_with()), language=language)
    cast("Any", app.session.sources).connections = kept

    async def show(pilot: Pilot[int]) -> None:
        await settled(pilot, lambda: not app.session.opening)
        page = PAGES[name](app, kept)
        app.push_screen(page)
        await settled(pilot, lambda: app.screen is page)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=show)
