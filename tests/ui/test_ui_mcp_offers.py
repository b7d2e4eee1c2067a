"""What servers offer in the composer: ``@server:`` for resources, ``/server:`` for prompts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.app_states import settled
from support.mcp_servers import http_server
from support.pinned import ManualClock
from support.prepared import UNTOUCHED, run_program
from support.seat import Seat
from support.serving import served
from support.session import done, judged_good, script

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.sessions import Sessions
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions


@dataclass
class Guest(Seat):
    """A user with a server of tools."""

    @property
    def composer(self) -> str:
        """The text that is written."""
        return self.app.bench.composer.text

    def offered(self) -> list[str]:
        """The values of the list above the composer."""
        return [c.value for c in self.app.bench.completions.candidates]

    async def presses(self, text: str, *keys: str) -> None:
        names = {" ": "space", "/": "slash", "@": "at", ":": "colon", "=": "equals_sign"}
        await self.pilot.press(*(names.get(c, c) for c in text), *keys)


@asynccontextmanager
async def seat(tmp_path: Path, url: str) -> AsyncGenerator[Guest]:
    work = tmp_path / "work"
    work.mkdir()
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    async with ScriptedEndpoint(judged_good(script(done("Soup.")))) as endpoint:
        flags = Flags(workspace=work, base_url=endpoint.base_url, model="m")
        environ = {**UNTOUCHED, "DUCKFLOW_MCP__SERVERS__NET__URL": url}
        clock = ManualClock()
        sessions = Sessions(choose_session(flags, places, "en", environ))
        app = DuckflowApp(sessions, AppOptions(animation=False), clock=clock)
        try:
            async with app.run_test(size=(120, 40)) as pilot:
                await settled(pilot, lambda: app.session.engine is not None, "the session")
                user = Guest(app, pilot, clock)
                await settled(pilot, lambda: bool(servers(user)), "the server")
                yield user
        finally:
            await sessions.close()


def servers(user: Guest) -> list[str]:
    """The servers that serve."""
    store = user.app.session.store
    return [s.name for s in store.state.servers if s.prompts] if store is not None else []


async def test_resources_are_completed_and_read(tmp_path: Path) -> None:
    with http_server() as (url, _):
        async with seat(tmp_path, url) as user:
            await user.presses("@ne")
            await settled(user.pilot, lambda: "net:" in user.offered(), "the server's name")
            await user.pilot.press("tab")
            assert user.composer == "@net:"
            every = ["net:menu://today", "net:photo://duck", "net:menu://"]
            await settled(user.pilot, lambda: user.offered() == every, "its resources")
            await user.presses("today", "tab")
            assert user.composer == "@net:menu://today "
            await user.pilot.press("enter")
            await user.sees("read resource", "menu://today", "Soup.")


async def test_a_prompt_is_completed_and_written_for_the_user_to_send(tmp_path: Path) -> None:
    with http_server() as (url, _):
        async with seat(tmp_path, url) as user:
            await user.presses("/ne")
            await settled(user.pilot, lambda: "/net:check" in user.offered(), "the prompt")
            while user.app.bench.completions.chosen_candidate.value != "/net:check":  # type: ignore[union-attr]  # it is in the list
                await user.pilot.press("down")
            await user.pilot.press("enter")
            assert user.composer == "/net:check "  # it needs an argument
            await user.pilot.press("enter")
            await user.sees("check needs: day")
            assert user.composer == "/net:check"
            await user.presses(" today tone=nice", "enter")
            await settled(user.pilot, lambda: user.composer.startswith("Is the"), "the prompt")
            assert user.composer == "Is the menu of today good? Be nice."
            await user.sees("This text is from net.")
            await user.pilot.press("enter")
            await user.sees("Soup.")


def test_without_a_screen_a_prompt_is_sent_at_once(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with http_server() as (url, _), served(judged_good(script(done("Soup.")))) as server:
        environ = {
            "DUCKFLOW_HOME": str(tmp_path / "home"),
            "LANG": "C.UTF-8",
            "DUCKFLOW_MCP__SERVERS__NET__URL": url,
        }

        def run(text: str) -> tuple[int, str, str]:
            flags = ("--base-url", server.endpoint.base_url, "--model", "m", "-p", text)
            ended = run_program(flags, cwd=work, environ=environ)
            return ended.returncode, ended.stdout, ended.stderr

        assert run("/net:check")[0] == 2
        assert "check needs: day" in run("/net:check")[2]
        assert run("/net:check today")[:2] == (0, "Soup.\n")
        asked = server.endpoint.of("main")[-1].text
        assert "Is the menu of today good? Be plain." in asked
