"""A process that works on sessions until it is killed, and says what was acknowledged.

Imports once, then forks a worker for each line ``<path> <seed>`` on standard input. On standard
output, one line each: ``pid`` of a worker, ``sent <gate> <choice>`` before an answer is committed,
``ack <seq> <kind>`` once an event is durable, ``did <call>`` for an effect, ``ended <pid>``.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from support.journal_events import answered, begun, finished, opened, requested, said, started
from support.prepared import end_threads

from duckflow_tui.session.faults import NotASession
from duckflow_tui.session.journal import Journal
from duckflow_tui.session.recording import start_journal
from duckflow_tui.session.resume import resume_journal
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, SystemClock, event_from_json
from duckflow_tui.state.gates import GateChoice, GateWithdrawn
from duckflow_tui.state.store import Store

SNAPSHOT_EVERY: Final = 20_000  # bytes; a stay makes several
LARGE: Final = 80_000  # characters that do not fit into a record
WARMING: Final = 150  # events that a snapshot is made of


def tell(*words: object) -> None:
    """One line, in one write: a kill leaves it whole or unsaid."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Worker:
    """Opens the session, settles what the last stay left, and works on without end."""

    def __init__(self, path: Path, seed: int, say: Callable[..., None]) -> None:
        self._say = say
        self._path = path
        self._random = random.Random(seed)
        self._store: Store | None = None
        self._seq = 0

    async def work(self, until: int = sys.maxsize) -> None:
        """Until it is killed, or the session has so many events."""
        journal = self._open()
        if self._seq == 0:
            await self._commit(started(self._path.name))
        await self._settle()
        while self._seq < until:
            number = self._seq
            text = "x" * LARGE if self._random.random() < 0.1 else "go on " * 20
            await self._commit(said(number, text))
            for extra in range(self._random.randrange(3)):
                self._dispatch(said(number + extra, "nobody waits for this one"))
            call = f"call_{self._seq:06d}"
            await self._commit(requested(call))
            await self._commit(opened(call))
            await self._answer(call)
        await journal.close()

    def _open(self) -> Journal:
        try:
            resumed = resume_journal(self._path, 2.0, snapshot_every=SNAPSHOT_EVERY)
            journal, state = resumed.journal, resumed.restored.state
            self._seq = resumed.restored.last_seq
        except NotASession as nothing:
            if nothing.code not in ("missing", "empty"):
                raise
            journal = start_journal(
                self._path.parents[2],
                self._path.name,
                Path("/w"),
                1.0,
                snapshot_every=SNAPSHOT_EVERY,
            )
            state = AgentState()
        self._store = Store(state, SystemClock(), journal, last_seq=self._seq)
        journal.follow_store(self._store)
        return journal

    async def _settle(self) -> None:
        """What waits or ran when the process was killed: asked again, or ended."""
        assert self._store is not None
        state = self._store.state
        for gate in state.gates:
            if self._random.random() < 0.5:
                await self._answer(gate.call_id)
            else:
                await self._commit(GateWithdrawn(gate_id=gate.gate_id, reason="stopped", at=0.0))
        for call in state.running:
            await self._commit(finished(call.call_id))

    async def _answer(self, call: str) -> None:
        choice = self._random.choice([GateChoice.ONCE, GateChoice.REJECT])
        self._say("sent", f"gate_{call}", choice.value)
        await self._commit(answered(call, choice))
        if choice is GateChoice.ONCE:
            await self._commit(begun(call))
            self._say("did", call)
        await self._commit(finished(call, "output " * 40))

    def _dispatch(self, event: Event) -> None:
        assert self._store is not None
        self._store.dispatch(event)
        self._seq += 1

    async def _commit(self, event: Event) -> None:
        assert self._store is not None
        await self._store.commit(event)
        self._seq += 1
        self._say("ack", self._seq, event.kind)


async def warm() -> None:
    """Begin a session and take it up again, with nobody to hear it: what is built at the first
    use of it is then in each worker.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions" / "w" / "session_00000000"
        for stay in (1, 2):
            await Worker(path, stay, lambda *_: None).work(stay * WARMING)


def main() -> None:
    """Fork a worker for each line until there are no more."""
    event_from_json(started().model_dump())  # builds the models of all events
    asyncio.run(warm())
    end_threads()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        path, seed = line.split()
        pid = os.fork()
        if pid == 0:
            asyncio.run(Worker(Path(path), int(seed), tell).work())
        tell("pid", pid)
        os.waitpid(pid, 0)
        tell("ended", pid)


if __name__ == "__main__":
    main()
