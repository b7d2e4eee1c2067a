"""What a person reads is in their words: the demo's stories played, every pane and page opened."""

from __future__ import annotations

import inspect
import re
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final

import pytest
from pydantic import BaseModel
from support.app_states import settled
from support.pinned import ManualClock
from support.prepared import UNTOUCHED
from support.seat import Seat

from duckflow_tui import state
from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.engine import Engine
from duckflow_tui.places import Places
from duckflow_tui.scripted.stage import open_stage
from duckflow_tui.scripted.stories import list_requests
from duckflow_tui.sessions import Sessions
from duckflow_tui.state.gates import CardKind
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions

#: Keys that answer a card; any other is answered with y.
ANSWERS: Final = {CardKind.CONSULTATION: ("2", "8", "space", "percent_sign", "enter")}
#: The stories, and which pages are opened behind each: together all that can be, but for what shows
#: the words that a request or a settings file has.
STORIES: Final[dict[str, tuple[str, ...]]] = {
    "plan": ("plans", "requirements", "working", "memory"),
    "savings": ("rules", "decisions", "network"),
    "bug": ("requirements", "ps", "mcp", "rewind"),
    "tax": ("context", "sessions", "keys"),
}


def internal() -> re.Pattern[str]:
    """Names of operations, of fields and of values that the state has, and what pydantic says."""
    names: set[str] = set()
    for module in iter_modules(state.__path__, f"{state.__name__}."):
        for _, kind in inspect.getmembers(import_module(module.name), inspect.isclass):
            if issubclass(kind, StrEnum):
                names |= {value.value for value in kind}
            elif issubclass(kind, BaseModel):
                names |= kind.model_fields.keys()
    either = "|".join(sorted(name for name in names if "_" in name))
    operations = r"(?:file_ops|plan_tool|task_tool|task_loop|shell|git|memory)\.[a-z]\w+"
    return re.compile(
        rf"\b(?:{operations}|{either})\b|Field required|input_value|\btype=|validation error"
    )


class Reader(Seat):
    """Plays a story to its end and notes the program's own names on each screen."""

    def __init__(self, app: DuckflowApp, seat: Seat) -> None:
        super().__init__(app, seat.pilot, seat.clock)
        self.found: dict[str, None] = {}
        self._internal = internal()

    async def reads(self, where: str) -> None:
        await self.pilot.pause()
        for line in self.screen.splitlines():
            for name in self._internal.findall(line):
                self.found[f"{where}: {name}: {line.strip()}"] = None

    async def plays(self, engine: Engine, request: str) -> None:
        """Send the request; look at each question with all that can be unfolded; allow it."""
        store = engine.store
        before = len(store.state.turns)
        await self.says(request)
        while True:
            await settled(
                self.pilot,
                lambda: self._shown() in self._open() or len(store.state.turns) > before,
                "a question or the end",
            )
            if not self._open():
                return
            card = self.app.bench.question.card
            await self.reads(card.kind if card is not None else "gate")
            await self.decides(*(ANSWERS.get(card.kind, "y") if card is not None else "y"))

    async def opens(self, page: str) -> None:
        """Open the page, look at its first rows and what stands about each; close it."""
        bench = self.app.bench
        bench.to_composer()
        await self.says(f"/{page}")
        await settled(self.pilot, lambda: self.app.screen is not bench, page)
        for _ in range(3):
            await self.reads(page)
            await self.pilot.press("down")
        await self.reads(page)
        while self.app.screen is not bench:
            await self.pilot.press("escape")
            await self.pilot.pause()


@pytest.mark.parametrize(
    ("story", "language"),
    [*zip(STORIES, ("en", "ja", "ja", "en"), strict=True), ("bug", "en")],
)
async def test_no_internal_name_is_on_any_screen_of_the_demos_stories(
    tmp_path: Path, story: str, language: str
) -> None:
    """All that one story asks, and, with what it leaves, some of the pages: a name that slips
    through does so in each language, so that only the first story is played in both.
    """
    async with open_stage(language, fast=True, folder=tmp_path / "stage") as stage:
        places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
        flags = Flags(workspace=stage.workspace, base_url=stage.base_url, model=stage.model,
                      allow=stage.commands)  # fmt: skip
        clock = ManualClock()
        sessions = Sessions(choose_session(flags, places, language, UNTOUCHED))
        app = DuckflowApp(sessions, AppOptions(animation=False, language=language), clock=clock)
        async with app.run_test(size=(150, 60)) as pilot:
            await settled(pilot, lambda: app.session.engine is not None, "the session")
            engine = app.session.engine
            assert engine is not None
            user = Reader(app, Seat(app, pilot, clock))
            await user.plays(engine, list_requests(language)[story])
            for keys in (("ctrl+o",), ("pageup",), ("f5", "enter"), ("escape", "f3")):
                await pilot.press(*keys)
                await user.reads(str(keys))
            await pilot.press("escape", "ctrl+o", "end")
            for page in STORIES[story]:
                await user.opens(page)
        await sessions.close()
    assert list(user.found) == []
