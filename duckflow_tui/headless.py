"""The same loops without a screen: ``-p``."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, TextIO

from duckflow_tui.loops.engine import Engine
from duckflow_tui.safety.safe_text import visible
from duckflow_tui.state.agent import AgentState, TurnOutcome
from duckflow_tui.state.events import (
    AssistantReplied,
    NoticeAdded,
    OperationFinished,
    TurnFinished,
)
from duckflow_tui.state.messages import Level
from duckflow_tui.state.store import Record
from duckflow_tui.ui.i18n import Catalogue

EXIT_STATUS: Final[dict[TurnOutcome, int]] = {
    "done": 0,
    "failed": 1,
    "partial": 1,
    "denied": 3,
    "limit": 4,
    "stopped": 130,
}


@dataclass(frozen=True, slots=True)
class HeadlessOptions:
    """What to print. ``stream`` adds transient events; it needs ``as_json``."""

    text: str
    as_json: bool = False
    stream: bool = False


class TaskSpawn:
    """Runs the loops' coroutines as asyncio tasks and keeps what broke in them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.broken: BaseException | None = None

    def __call__(self, coroutine: Coroutine[Any, Any, None], group: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine, name=group)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.broken = task.exception()

    async def end(self) -> None:
        """Cancel what still runs and wait for it."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def run(
    open_engine: Callable[[TaskSpawn], AbstractAsyncContextManager[Engine]],
    options: HeadlessOptions,
    catalogue: Catalogue,
    out: TextIO = sys.stdout,
    err: TextIO = sys.stderr,
) -> int:
    """One turn; returns the exit status: 0 done, 1 failed or partial, 3 denied, 4 limit,
    130 stopped, 143 after SIGTERM, 129 after SIGHUP.
    """
    spawn = TaskSpawn()
    async with open_engine(spawn) as engine:
        return await _one_turn(engine, spawn, options, catalogue, out, err)


async def _one_turn(
    engine: Engine,
    spawn: TaskSpawn,
    options: HeadlessOptions,
    catalogue: Catalogue,
    out: TextIO,
    err: TextIO,
) -> int:
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[TurnFinished] = loop.create_future()
    printer = _JsonLines(options.stream, out) if options.as_json else _Words(catalogue, out, err)

    def follow(state: AgentState, record: Record) -> None:
        printer.show(record)
        if isinstance(record.event, TurnFinished) and not finished.done():
            finished.set_result(record.event)

    engine.store.watch(follow)
    ended_by: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):

        def stop(number: int = number) -> None:
            ended_by.append(number)
            engine.stop()

        loop.add_signal_handler(number, stop)
    spawn(engine.chat_loop(), "chat")
    try:
        await engine.send(options.text or engine.suggestion)
        end = await finished
    finally:
        await spawn.end()
    if spawn.broken is not None:
        print(catalogue("headless.broken", error=repr(spawn.broken)), file=err)
    if ended_by:
        return 128 + ended_by[0]
    return EXIT_STATUS[end.outcome]


class _JsonLines:
    """One record a line, ASCII only, so that no byte of it can act on a terminal."""

    def __init__(self, stream: bool, out: TextIO) -> None:
        self._stream = stream
        self._out = out

    def show(self, record: Record) -> None:
        if record.seq is None and not self._stream:
            return
        self._out.write(json.dumps(record.as_json(), ensure_ascii=True) + "\n")
        self._out.flush()


class _Words:
    """The reply on standard output, everything else on standard error."""

    def __init__(self, catalogue: Catalogue, out: TextIO, err: TextIO) -> None:
        self._say = catalogue
        self._out = out
        self._err = err

    def show(self, record: Record) -> None:
        match record.event:
            case AssistantReplied(message=message) if message.text:
                print(visible(message.text), file=self._out, flush=True)
            case OperationFinished(message=message):
                result = message.result
                target = message.args.get("path") or message.args.get("source") or ""
                print(
                    self._say(
                        "headless.operation",
                        operation=message.operation,
                        target=str(target),
                        outcome=self._say(f"transcript.outcome.{result.outcome}"),
                        summary=result.summary,
                    ),
                    file=self._err,
                )
            case NoticeAdded(message=notice):
                sign = {Level.INFO: "·", Level.WARNING: "!", Level.ERROR: "✗"}[notice.level]
                print(f"{sign} {self._say(notice.key, **notice.params)}", file=self._err)
            case TurnFinished(outcome=outcome) if outcome != "done":
                print(self._say(f"headless.outcome.{outcome}"), file=self._err)
            case _:
                pass
