"""Another session takes the place of the one that is open."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from support.prepared import UNTOUCHED
from support.session import action, decision, script
from support.session_shelf import NOW, asked, record

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.engine import Engine
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.session.faults import SessionInUse
from duckflow_tui.session.folders import is_written
from duckflow_tui.session.resume import open_to_read, resume_journal
from duckflow_tui.sessions import Sessions
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import UserMessage


def recorded(tmp_path: Path) -> str:
    """A session of ``tmp_path/work`` with one message of the user; its id."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    events = [asked("the first one", NOW)]
    path = record(tmp_path / "home" / "state", "session_0000000a", events, workspace=str(workspace))
    return path.name


def sessions_of(tmp_path: Path, base_url: str = "http://127.0.0.1:9/v1") -> Sessions:
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    flags = Flags(workspace=tmp_path / "work", base_url=base_url, model="m", protocol="json")
    return Sessions(choose_session(flags, places, "en", UNTOUCHED))


def texts(engine: Engine) -> list[str]:
    return [m.text for m in engine.store.state.messages if isinstance(m, UserMessage)]


async def test_it_brings_its_messages_and_the_other_is_closed(tmp_path: Path) -> None:
    session_id = recorded(tmp_path)
    sessions, spawn = sessions_of(tmp_path), TaskSpawn()
    try:
        first = await sessions.open(spawn)
        assert first is not None
        left = sessions.folder
        assert left is not None
        first.title.rename_session("left behind")
        second = await sessions.open_resumed(session_id, spawn)
        assert texts(second) == ["the first one"]
        assert sessions.folder is not None
        assert sessions.folder.name == session_id
        assert (is_written(left), is_written(sessions.folder)) == (False, True)
        assert open_to_read(left).state.session.name == "left behind"
        found = {facts.session_id: facts for facts in sessions.catalog.list_all()}
        assert found[session_id].in_use
    finally:
        await spawn.end_tasks()
        await sessions.close()
    assert not is_written(sessions.folder)


async def test_one_that_cannot_be_opened_leaves_this_one_as_it_is(tmp_path: Path) -> None:
    session_id = recorded(tmp_path)
    sessions, spawn = sessions_of(tmp_path), TaskSpawn()
    try:
        first = await sessions.open(spawn)
        assert first is not None
        folder = sessions.folder
        assert folder is not None
        resumed = resume_journal(folder.parent / session_id, 1.0)
        try:
            with pytest.raises(SessionInUse):
                await sessions.open_resumed(session_id, spawn)
        finally:
            resumed.journal.close_now()
        first.title.rename_session("still here")
        assert sessions.folder == folder
    finally:
        await spawn.end_tasks()
        await sessions.close()
    assert open_to_read(folder).state.session.name == "still here"


async def test_a_fork_takes_the_place_of_the_session_that_it_was_made_of(tmp_path: Path) -> None:
    session_id = recorded(tmp_path)
    sessions, spawn = sessions_of(tmp_path), TaskSpawn()
    try:
        await sessions.open(spawn)
        original = await sessions.open_resumed(session_id, spawn)
        message = original.store.state.messages[0]
        assert isinstance(message, UserMessage)
        forked = await original.rewind.fork(message.message_id)
        assert forked.problem == ""
        fork = await sessions.open_resumed(forked.session_id, spawn)
        assert (texts(fork), fork.store.state.draft) == ([], "the first one")
        assert fork.store.state.session.forked_from == session_id
        assert sessions.folder is not None
        assert is_written(sessions.folder)
        assert not is_written(sessions.folder.parent / session_id)
    finally:
        await spawn.end_tasks()
        await sessions.close()


async def test_what_was_left_does_not_stay_in_memory(tmp_path: Path) -> None:
    """Three switches away from work that is paused, and nothing of those three is left."""
    look = decision("I look.", action("file_ops.list_dir", path="."))
    held = [look.model_copy(update={"hold": f"rest{n}", "hold_after": 20}) for n in range(3)]
    (tmp_path / "work").mkdir()
    spawn, left = TaskSpawn(), list[weakref.ref[AgentState]]()
    async with ScriptedEndpoint(script(*held)) as server:
        sessions = sessions_of(tmp_path, server.base_url)
        engine = await sessions.open(spawn)
        for number in range(3):
            assert engine is not None
            chat = spawn(engine.chat_loop(), "chat")
            await engine.send("look around")
            await until(lambda state: bool(state.live), engine)
            engine.pause()
            server.release(f"rest{number}")
            await until(lambda s: s.turn is not None and s.turn.pause == "paused", engine)
            left.append(weakref.ref(engine.store.state))
            engine = await sessions.open_resumed("", spawn)
            chat.cancel()
            del chat  # its traceback knows the engine
        try:
            async with asyncio.timeout(30):
                while any(ref() is not None for ref in left):
                    gc.collect()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pass
        kept = [ref() is not None for ref in left]
        await spawn.end_tasks()
        await sessions.close()
    assert kept == [False] * 3


async def until(holds: Callable[[AgentState], bool], engine: Engine) -> None:
    """Return once the state is so."""
    async with asyncio.timeout(30):
        while not holds(engine.store.state):  # noqa: ASYNC110  # the engine has no event for it
            await asyncio.sleep(0.01)
