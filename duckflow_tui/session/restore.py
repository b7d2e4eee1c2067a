"""The state of a session again, from the last snapshot that is good and the events after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from duckflow_tui.session.migrations import Migrations
from duckflow_tui.session.payload import BlobShelf
from duckflow_tui.session.reader import MAX_SEQ, Entry, SessionRead, read_session
from duckflow_tui.session.session_files import SessionFolder
from duckflow_tui.session.snapshots import read_snapshot
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.events import StateError, event_from_json


@dataclass(frozen=True, slots=True)
class Applied:
    """How the events of a journal went into a state."""

    done: int = 0
    unknown: int = 0  # no event of this program
    refused: int = 0  # does not fit, because what it rests on was lost


@dataclass(frozen=True, slots=True)
class Restored:
    """A session as it was when the process ended; ``snapshot`` is 0 where none was used."""

    state: AgentState
    read: SessionRead
    applied: Applied
    snapshot: int = 0

    @property
    def last_seq(self) -> int:
        """The Store goes on after this one."""
        return self.read.last_seq

    @property
    def missing(self) -> int:
        """Events of this session that are not in the state; 0 for a session that is whole."""
        return self.read.lost(self.snapshot) + self.applied.unknown + self.applied.refused


def restore(
    folder: SessionFolder,
    *,
    migrations: Migrations | None = None,
    blobs: BlobShelf | None = None,
    snapshots: bool = True,
) -> Restored:
    """Read and apply; raises what ``read_session`` raises. ``snapshots``: may be used."""
    for seq in reversed(folder.snapshots()) if snapshots else ():
        found = read_snapshot(folder, seq) if seq <= MAX_SEQ else None
        if found is None:
            continue
        try:
            read = read_session(folder, after=found.place, migrations=migrations, blobs=blobs)
        except KeyError:  # made of another journal
            continue
        return Restored(found.state, read, apply_all(found.state, read.entries), seq)
    read = read_session(folder, migrations=migrations, blobs=blobs)
    state = AgentState()
    return Restored(state, read, apply_all(state, read.entries))


def apply_all(state: AgentState, entries: Iterable[Entry]) -> Applied:
    """Apply the events one after the other; what does not fit is counted and changes nothing."""
    done = unknown = refused = 0
    for entry in entries:
        try:
            event_from_json(entry.fields).apply(state)
        except ValidationError:
            unknown += 1
        except StateError:
            refused += 1
        else:
            done += 1
    return Applied(done, unknown, refused)
