"""The real program with a conversation already in it, and a line to the benchmark.

Arguments: address of the model, number of messages, descriptor to read commands from, descriptor
to tell what happened on; then ``--resume ID`` for a session that was recorded, ``--no-session`` for
one that is not. Commands and reports are JSON lines; times are of the monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from duckflow_tui.choice import Flags, SessionChoice, choose_session
from duckflow_tui.engine import Engine
from duckflow_tui.places import Places
from duckflow_tui.sessions import Sessions
from duckflow_tui.state.base import Spawn
from duckflow_tui.state.calls import OperationFinished, OperationMessage, OperationRequested
from duckflow_tui.state.conversation import (
    AssistantMessage,
    AssistantReplied,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.operations import OperationResult, Outcome
from duckflow_tui.state.session import DraftSaved
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import TurnFinished
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.first_frame import enter
from duckflow_tui.ui.session_host import AppOptions

LAST: Final = "the-last-words-of-all"  # of the conversation that was there
RECORDS: Final = 20  # a second, while the journal is to be busy


def fill(store: Store, count: int) -> None:
    """A conversation of this many messages, as its events: user, two calls, two replies."""
    for number in range(count // 5):
        at = float(number)
        text = f"please look at part {number}, it fails with two discounts."
        store.dispatch(
            UserMessageAdded(message=UserMessage(message_id=f"u{number}", text=text, at=at))
        )
        for nth, name in enumerate(("file_ops.read_file", "file_ops.search_text")):
            _call(store, f"c{number}-{nth}", name, at)
        _reply(store, f"a{number}", f"## part {number}\n\n- it **adds**\n- it `rounds`\n", at)
        _reply(store, f"b{number}", "part done. " * 20, at)
    _reply(store, "last", LAST, 0.0)


def _call(store: Store, call_id: str, name: str, at: float) -> None:
    args = {"path": "src/part.py", "pattern": "discount"}
    store.dispatch(OperationRequested(call_id=call_id, operation=name, args=args, at=at))
    result = OperationResult(outcome=Outcome.OK, text="x\n" * 40, summary="40 lines")
    message = OperationMessage(call_id=call_id, operation=name, args=args, result=result, at=at)
    store.dispatch(OperationFinished(message=message))


def _reply(store: Store, name: str, text: str, at: float) -> None:
    message = AssistantMessage(message_id=name, llm_id=name, text=text, at=at)
    store.dispatch(AssistantReplied(message=message))


class Line:
    """Commands from the benchmark, reports to it."""

    def __init__(self, commands: int, reports: int) -> None:
        self._commands = commands
        self._reports = reports
        self._rest = b""
        self._working: set[asyncio.Task[None]] = set()

    def listen(self, engine: Engine) -> None:
        """Take commands from now on."""
        asyncio.get_running_loop().add_reader(self._commands, self._hear, engine)

    def tell(self, **report: Any) -> None:
        """Write a report."""
        os.write(self._reports, json.dumps(report).encode() + b"\n")

    def _hear(self, engine: Engine) -> None:
        *lines, self._rest = (self._rest + os.read(self._commands, 4096)).split(b"\n")
        for line in lines:
            command = json.loads(line)
            if "say" in command:
                message = UserMessage(message_id=command["say"], text=command["say"], at=0.0)
                engine.store.dispatch(UserMessageAdded(message=message))
            elif "turns" in command:
                self._work(self._turns(engine, command["turns"]))
            elif "record" in command:
                self._work(self._record(engine.store))

    def _work(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _record(self, store: Store) -> None:
        """Have something recorded, and wait for the disk, as an engine at work does; it changes
        nothing that is on the screen.
        """
        number = 0
        while True:
            number += 1
            await store.commit(DraftSaved(text=f"draft {number} " * 20))
            await asyncio.sleep(1 / RECORDS)

    async def _turns(self, engine: Engine, count: int) -> None:
        ended = asyncio.Event()

        def look(_state: object, record: Any) -> None:
            if isinstance(record.event, TurnFinished):
                ended.set()

        forget = engine.store.subscribe(look)
        for number in range(count):
            ended.clear()
            await engine.send(f"turn {number}")
            await ended.wait()
        forget()
        self.tell(turns=count)


class FilledSessions(Sessions):
    """The session of the program, with something said in it before the screen gets it."""

    def __init__(self, choice: SessionChoice, count: int, line: Line) -> None:
        super().__init__(choice)
        self._count = count
        self._line = line

    async def open(self, spawn: Spawn) -> Engine | None:
        self._line.tell(opening=time.monotonic())
        engine = await super().open(spawn)
        if engine is not None:
            if self._count:
                fill(engine.store, self._count)
            self._line.listen(engine)
            self._line.tell(opened=time.monotonic())
        return engine


def main() -> int:
    """Run as ``duckflow-tui --base-url … --model scripted`` does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    for name in ("count", "commands", "reports"):
        parser.add_argument(name, type=int)
    parser.add_argument("--resume", default="")
    parser.add_argument("--no-session", action="store_true")
    args = parser.parse_args()
    gc.disable()  # both as the command line does
    sys.setswitchinterval(0.001)
    places = Places.find()
    frame = enter("en", Path.cwd().name)
    flags = Flags(
        workspace=Path.cwd(),
        base_url=args.base_url,
        model="scripted",
        resume=args.resume,
        no_session=args.no_session,
    )
    choice = choose_session(flags, places, "en")
    sessions = FilledSessions(choice, args.count, Line(args.commands, args.reports))
    options = AppOptions(title=Path.cwd().name, data_dir=places.data)
    return DuckflowApp(sessions, options, frame=frame).run_to_end()


if __name__ == "__main__":
    sys.exit(main())
