"""The whole app at a scripted endpoint, with a second server that lists models and wants a key."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from support.app_states import settled
from support.pinned import ManualClock
from support.prepared import UNTOUCHED
from support.seat import Seat
from support.session import done, nothing_but, script
from textual import events
from textual.app import App

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.llm.connections import Connections, ModelConnection
from duckflow_tui.llm.endpoints import ModelRef
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.sessions import Sessions
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions

KEY: Final = "duck-1234567890-abcdefgh"  # of no known shape
PRICED: Final = (
    {
        "id": "mallard-large",
        "context_length": 200_000,
        "pricing": {"prompt": "0.000003", "completion": "0.000015"},
    },
    {"id": "mallard-small", "context_length": 32_768},
    {"id": "teal"},
)


@contextmanager
def shelf(*, key: str = "") -> Generator[tuple[str, list[str]]]:
    """A server that lists ``PRICED``, with ``key`` only to who sends it, and whose models refuse
    every request with a word about the key that came; its base address, and the keys it was sent.
    """
    came: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _refuse(self, sent: str) -> None:
            self._answer(401, {"error": {"message": f"Incorrect key {sent.split(' ')[-1]}"}})

        def do_GET(self) -> None:
            sent = self.headers.get("Authorization") or ""
            came.append(sent)
            if key and sent != f"Bearer {key}":
                self._refuse(sent)
            elif self.path == "/v1/models":
                self._answer(200, {"object": "list", "data": PRICED})
            else:
                self._answer(404, {"error": {"message": "no such page"}})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            sent = self.headers.get("Authorization") or ""
            self._answer(400, {"error": {"message": f"not for account {sent.split(' ')[-1]}"}})

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", came
        finally:
            server.shutdown()
            thread.join()


class ModelSeat(Seat):
    """Someone at the app, and what stands around it."""

    server: ScriptedEndpoint
    sessions: Sessions
    home: Path

    @property
    def connections(self) -> Connections:
        """What is kept now."""
        return Connections(self.home / "data")

    @property
    def written(self) -> bytes:
        """All that the program wrote, but for the file that keys are kept in."""
        files = [f for f in self.home.rglob("*") if f.is_file() and f.name != "keys.json"]
        return b"".join(f.read_bytes() for f in files)

    def burst(self, *keys: str) -> None:
        """Type it all at once, as a terminal sends what it has read in one piece."""
        burst(self.app, *keys)


def burst(app: App[Any], *keys: str) -> None:
    """Each is a key's name, or a text."""
    for key in keys:
        names = [key] if len(key) == 1 or key in _NAMED else list(key)
        for name in names:
            character = name if len(name) == 1 else None
            app.post_message(events.Key(name, character))


_NAMED: Final = ("enter", "down", "up", "escape", "backspace", "tab", "ctrl+u", "ctrl+l")


@asynccontextmanager
async def at_models(
    tmp_path: Path,
    *replies: Reply,
    shelf_url: str = "",
    size: tuple[int, int] = (120, 40),
    language: str = "en",
    ports: str = "[]",
    settings: str = "",
    versioned: bool = True,
    connected: bool = True,
) -> AsyncGenerator[ModelSeat]:
    """The app in a session with the model ``small`` of a scripted endpoint that also lists
    ``large``, or what was chosen before in ``tmp_path``; ``shelf_url`` is connected as ``shelf``.
    In ``settings``, ``URL`` is its address; without ``versioned`` that is given without its
    ``/v1``. Without ``connected`` no server is known, and the app stands at its first screen.
    """
    workspace, home = tmp_path / "little-shop", tmp_path / "home"
    workspace.mkdir(parents=True, exist_ok=True)
    places = Places.find({"DUCKFLOW_HOME": str(home)})
    scripted = script(*(replies or (done("Hello.").model_copy(update={"repeat": True}),)))
    counted = {"digest": Reply(data={"numbers": [1, 2, 3]}, repeat=True)}
    fallback = {**scripted.fallback, **counted}
    update = {"models": ("small", "large"), "fallback": fallback}
    guard = None if versioned else nothing_but("/v1/")
    async with ScriptedEndpoint(scripted.model_copy(update=update), guard=guard) as server:
        kept, url = Connections(places.data), server.base_url
        url = url if versioned else url.removesuffix("/v1")
        if connected:
            kept.add_connection(ModelConnection(name="pond", base_url=url))
        if shelf_url:
            kept.add_connection(ModelConnection(name="shelf", base_url=shelf_url))
        if settings:
            places.config.mkdir(parents=True)
            places.settings_file.write_text(settings.replace("URL", url))
        elif connected and not kept.roles:
            kept.choose_model(ModelRef("pond", "small"))
        flags = Flags(workspace=workspace)
        environ = {**UNTOUCHED, "DUCKFLOW_DISCOVERY__PORTS": ports}
        clock = ManualClock()
        sessions = Sessions(choose_session(flags, places, language, environ))
        ui = sessions.choice.settings.ui
        options = AppOptions(
            language=language if ui.language == "auto" else ui.language,
            theme=ui.theme,
            vitals=ui.vitals,
            animation=False,
            data_dir=places.data,
            keep=sessions.save_setting,
            title="little-shop",
            settings=lambda: sessions.settings,
        )
        app = DuckflowApp(sessions, options, clock=clock)
        try:
            async with app.run_test(size=size) as pilot:
                if connected:
                    await settled(pilot, lambda: app.session.engine is not None, "the session")
                    await settled(pilot, lambda: app.bench.composer.has_focus, "the composer")
                else:
                    await settled(pilot, lambda: app.bench.talk.welcome is not None, "the screen")
                seat = ModelSeat(app, pilot, clock)
                seat.server, seat.sessions, seat.home = server, sessions, home
                yield seat
        finally:
            await sessions.close()
