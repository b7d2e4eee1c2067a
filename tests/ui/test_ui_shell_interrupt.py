"""An end from outside while a gate is open: the question is withdrawn, and nobody answered it."""

from __future__ import annotations

from pathlib import Path

from support.app_states import settled
from support.prepared import UNTOUCHED
from support.session import action, decision, done, script

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.sessions import Sessions
from duckflow_tui.state.base import Event
from duckflow_tui.state.gates import GateAnswered, GateWithdrawn
from duckflow_tui.state.turn import TurnFinished
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions


async def test_a_signal_withdraws_the_open_gate_and_the_turn_ends_as_stopped(
    tmp_path: Path,
) -> None:
    """Promise 2; what a signal handler calls is ``end``."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    write = action("file_ops.write_file", path="a.py", content="x = 2\n")
    events: list[Event] = []
    async with ScriptedEndpoint(script(decision("I write.", write), done())) as server:
        flags = Flags(workspace=workspace, base_url=server.base_url, model="m", protocol="json")
        app = DuckflowApp(
            Sessions(choose_session(flags, places, "en", UNTOUCHED)), AppOptions(animation=False)
        )
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(pilot, lambda: app.session.engine is not None, "the session")
            assert app.session.engine is not None
            store = app.session.engine.store
            store.subscribe(lambda state, record: events.append(record.event))
            await app.session.send("write it")
            await settled(pilot, lambda: bool(store.state.gates), "the gate")
            app.end(130)
            await settled(pilot, lambda: not app.is_running, "the end")
    assert app.return_code == 130
    assert [event.reason for event in events if isinstance(event, GateWithdrawn)] == ["stopped"]
    assert not any(isinstance(event, GateAnswered) for event in events)
    (end,) = [event for event in events if isinstance(event, TurnFinished)]
    assert end.outcome == "stopped"
    assert store.state.gates == ()
    assert list(workspace.iterdir()) == []
