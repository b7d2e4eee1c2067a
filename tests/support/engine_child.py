"""A process that works in sessions of the real engine until it is killed, and says what is safe.

Imports once, then forks a worker for each line ``<folder> <seed>`` on standard input: it takes up
the folder's session, or begins it, and works against a scripted endpoint of its own. On standard
output, one line each: ``pid`` of a worker, ``session <id>``, ``up`` once it can be used,
``ack <seq> <kind>`` once an event is durable, ``sent <gate> <choice> <path>`` before an answer,
``ended <pid>``.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from support.prepared import UNTOUCHED, end_threads
from support.session import GOOD, action, decision, done

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.engine import Engine
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import Request, ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.session.folders import SessionPlace, list_places
from duckflow_tui.session.recording import Recording, start_journal
from duckflow_tui.session.resume import resume_journal
from duckflow_tui.sessions import open_session
from duckflow_tui.shutdown import Ending
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import event_from_json
from duckflow_tui.state.gates import GateAnswer, GateChoice, before_hashes
from duckflow_tui.state.store import Record

WARMING: Final = 5  # replies in which a write, an end and a queued message have been
SNAPSHOT_EVERY: Final = 20_000  # bytes of records; a stay makes several


def begun(home: Path) -> list[SessionPlace]:
    """The sessions of this home; one that was killed before its first line is none."""
    found = list_places(home / "state")
    return [place for place in found if any(f.stat().st_size for f in place.path.glob("journal-*"))]


def tell(*words: object) -> None:
    """One line, in one write: a kill leaves it whole or unsaid."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Worker:
    """Sends requests, answers gates by chance, queues, drafts, and never ends by itself."""

    def __init__(
        self, folder: Path, seed: int, say: Callable[..., None], *, until: int = sys.maxsize
    ) -> None:
        self.enough = asyncio.Event()  # it was asked for so many replies
        self._until = until
        self._say = say
        self._folder = folder
        self._random = random.Random(seed)
        self._seed = seed
        self._replies = 0
        self._records: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self._changed = asyncio.Event()

    async def work(self) -> NoReturn:
        workspace = self._folder / "work"
        workspace.mkdir(exist_ok=True)
        home = Places.find({"DUCKFLOW_HOME": str(self._folder / "home")})
        known = [place.session_id for place in begun(self._folder / "home")]
        async with ScriptedEndpoint(Script(), author=self._author) as server:
            flags = Flags(
                workspace=workspace,
                base_url=server.base_url,
                model="m",
                protocol="json",
                resume=known[0] if known else "",
            )
            ending, spawn = Ending(), TaskSpawn()
            async with open_session(
                choose_session(flags, home, "en", UNTOUCHED), spawn, ending
            ) as engine:
                self._say("session", engine.store.state.session.session_id)
                for record in engine.begun:
                    self._hear(engine.store.state, record)
                engine.store.subscribe(self._hear)
                spawn(self._acknowledge(ending.recordings[0]), "ack")
                spawn(engine.chat_loop(), "chat")
                self._say("up")
                await self._drive(engine)

    def _author(self, request: Request) -> Reply | None:
        """Writes a file or two, then ends, and finds it good."""
        if request.purpose != "main":
            return GOOD
        self._replies += 1
        if self._replies == self._until:
            self.enough.set()
        if self._replies % 2 == 0:
            return done("That is all of it.", task_profile="GENERAL_CHAT")
        actions = [
            action(
                "file_ops.write_file",
                path=f"f{self._seed}_{self._replies}_{number}.txt",
                content=f"{self._seed}\n" * self._random.choice([1, 300]),
            )
            for number in range(self._random.randint(1, 2))
        ]
        return decision("I write what was asked. " * 5, *actions, task_profile="GENERAL_CHAT")

    def _hear(self, state: AgentState, record: Record) -> None:
        if record.seq is not None:
            self._records.put_nowait((record.seq, record.event.kind))
            self._changed.set()

    async def _acknowledge(self, recording: Recording) -> None:
        while True:
            seq, kind = await self._records.get()
            await recording.wait_until_flushed(seq)
            assert recording.is_resumable
            self._say("ack", seq, kind)

    async def _drive(self, engine: Engine) -> NoReturn:
        state = engine.store.state
        while True:
            self._changed.clear()
            if state.gates:
                gate = state.gates[0]
                choice = self._random.choice([GateChoice.ONCE, GateChoice.ONCE, GateChoice.REJECT])
                if self._random.random() < 0.3:
                    await asyncio.sleep(0.02)  # a kill may find it open
                self._say("sent", gate.gate_id, choice.value, gate.args["path"])
                await engine.answer_gate(
                    GateAnswer(
                        gate_id=gate.gate_id,
                        call_id=gate.call_id,
                        args_hash=gate.args_hash,
                        before_hashes=before_hashes(gate),
                        choice=choice,
                    )
                )
            elif (state.turn is not None and state.turn.pause == "paused") or (
                state.turn is None and state.queue
            ):
                engine.resume()
            elif state.turn is None:
                await engine.send("write on")
                if self._random.random() < 0.3:
                    await engine.send("and this later", "next")
                engine.keep_draft(f"draft {self._random.random()}")
            await self._changed.wait()


async def warm() -> None:
    """Begin a session and take it up again, with nobody to hear it: what is built at the first
    use of it is then in each worker.
    """
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(2):
            worker = Worker(Path(folder), seed, lambda *_: None, until=WARMING)
            work = asyncio.create_task(worker.work())
            over = asyncio.create_task(worker.enough.wait())
            await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
            work.cancel()
            over.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work


def main() -> None:
    """Fork a worker for each line until there are no more."""
    event_from_json({"kind": "draft", "text": ""})  # builds the models of all events
    for begin in (start_journal, resume_journal):
        defaults = begin.__kwdefaults__
        assert defaults is not None
        defaults["snapshot_every"] = SNAPSHOT_EVERY
    asyncio.run(warm())
    end_threads()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        folder, seed = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(Worker(Path(folder), int(seed), tell).work())
            finally:
                os._exit(1)
        tell("pid", pid)
        os.waitpid(pid, 0)
        tell("ended", pid)


if __name__ == "__main__":
    main()
