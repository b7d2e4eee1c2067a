"""Sessions on the disk, as the real journal records them: the events of a real turn, many times."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.processes import fresh
from benchmarks.programs.filled_app import LAST
from support.session import action, decision, done, script, session

from duckflow_tui.places import Places
from duckflow_tui.safety.secrets import Redactor
from duckflow_tui.session.folders import session_path
from duckflow_tui.session.recording import start_journal
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, SystemClock, event_from_json
from duckflow_tui.state.conversation import AssistantMessage, AssistantReplied, UserMessageAdded
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.session import SessionInfo, SessionStarted
from duckflow_tui.state.store import Record, Store

MESSAGES: Final = 5  # of a turn: the request, two replies, two calls
SESSION: Final = "session_00000001"
CLOSE_S: Final = 60.0
_ONCE: Final = frozenset({"message_queued", "vitals"})
_ID: Final = re.compile(r"\b([a-z]+)_[0-9a-f]{8}\b")


@dataclass(frozen=True, slots=True)
class Turn:
    """The events of one real turn as JSON, and the ids in it."""

    said: str
    ids: tuple[str, ...]

    @classmethod
    def of(cls, events: Sequence[Event]) -> Turn:
        """The turn of these events."""
        said = json.dumps([event.model_dump(mode="json") for event in events])
        ids = tuple(dict.fromkeys(found.group() for found in _ID.finditer(said)))
        return cls(said, ids)

    def events(self, number: int) -> list[Event]:
        """The same turn with ids of its own."""
        new = {name: f"{name[:-8]}{at:03x}{number:05x}" for at, name in enumerate(self.ids)}
        said = _ID.sub(lambda found: new[found.group()], self.said)
        return [event_from_json(fields) for fields in json.loads(said)]


@cache
def real_turns() -> tuple[Turn, Turn]:
    """Have the engine do turns of two reads, over HTTP: what it recorded of the first one and of
    those after it.
    """
    first, later = asyncio.run(_real_turns(fresh("turn")))
    return Turn.of(first), Turn.of(later)


async def _real_turns(where: Path) -> tuple[list[Event], list[Event]]:
    reads = [action("file_ops.read_file", path=f"part_{number}.py") for number in range(2)]
    reply = "## what I found\n\n- it **adds**\n- it `rounds`\n\n" + "part done. " * 20
    fields = {"task_profile": "GENERAL_CHAT"}
    replies = script(*[decision("I read both parts.", *reads, **fields), done(reply, **fields)] * 2)
    (where / "work").mkdir()
    for number in range(2):
        (where / "work" / f"part_{number}.py").write_text("total = sum(discounts)\n" * 40)
    async with session(where, replies) as opened:
        await opened.turn("please look at both parts, they fail with two discounts.")
        split = len(opened.records)
        await opened.turn("please look at them again, they fail with two discounts.")
        records = opened.records
    return _turn(records[:split]), _turn(records[split:])


def _turn(records: Sequence[Record]) -> list[Event]:
    """From the request on. What the session as a whole began with is left out, and the vitals:
    each of their changes names the value before it, which is another one in each turn.
    """
    events = [record.event for record in records if record.seq is not None]
    first = next(n for n, event in enumerate(events) if isinstance(event, UserMessageAdded))
    return [event for event in events[first:] if event.kind not in _ONCE]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A session that was recorded."""

    home: Path
    workspace: Path
    path: Path  # of its folder
    turns: int

    def copy(self, *, snapshots: bool = True) -> Recorded:
        """The same session in another home, as it was left: opening it writes into it."""
        home = fresh("home")
        shutil.copytree(self.home, home, dirs_exist_ok=True)
        path = home / self.path.relative_to(self.home)
        if not snapshots:
            for snapshot in path.glob("snapshot-*"):
                snapshot.unlink()
        return replace(self, home=home, path=path)


def recorded(turns: int) -> Recorded:
    """Record a session of so many turns, in a home of its own, as fast as the journal takes it."""
    return asyncio.run(_recorded(*real_turns(), turns, fresh("home"), fresh("work")))


async def _recorded(first: Turn, later: Turn, turns: int, home: Path, workspace: Path) -> Recorded:
    state_dir = Places.find({"DUCKFLOW_HOME": str(home)}).state
    clock = SystemClock()
    journal = start_journal(
        state_dir, SESSION, workspace, clock.now(), redact=Redactor([]).redact_text
    )
    store = Store(AgentState(), clock, journal)
    journal.follow_store(store)
    info = SessionInfo(
        session_id=SESSION,
        workspace=str(workspace),
        title=workspace.name,
        started_at=clock.now(),
        model="scripted",
        endpoint="cli",
    )
    store.dispatch(SessionStarted(session=info, mode=ApprovalMode.STANDARD))
    for number in range(turns):
        *events, end = (later if number else first).events(number)
        for event in events:
            store.dispatch(event)
        await store.commit(end)
    last = AssistantMessage(message_id="last", llm_id="last", text=LAST, at=clock.now())
    await store.commit(AssistantReplied(message=last))
    while journal.drawing:  # noqa: ASYNC110  # a thread draws, and tells nobody
        await asyncio.sleep(0.01)
    await journal.close(CLOSE_S)
    path = session_path(state_dir, workspace, SESSION)
    return Recorded(home, workspace, path, turns)
