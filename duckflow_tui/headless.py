"""The same loops without a screen: ``-p``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, TextIO

from duckflow_tui.engine import Engine
from duckflow_tui.safety.safe_text import visible
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import OperationFinished, OperationMessage
from duckflow_tui.state.conversation import AssistantReplied, Level, NoticeAdded
from duckflow_tui.state.goal import AttemptStarted, ObjectiveReviewed, RequirementState, Review
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.plan_events import ReportAdded, StepChanged
from duckflow_tui.state.store import Record
from duckflow_tui.state.turn import TurnFinished, TurnOutcome
from duckflow_tui.state.usage import LlmWaiting, Waiting
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import figures_words

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
    finished: asyncio.Future[TurnOutcome] = loop.create_future()
    printer = _JsonLines(options.stream, out) if options.as_json else _Words(catalogue, out, err)
    lost: list[OSError] = []  # the output, which nobody reads any more
    ended_by: list[int] = []
    stopping = False

    def follow(state: AgentState, record: Record) -> None:
        nonlocal stopping
        if isinstance(record.event, TurnFinished) and not finished.done():
            finished.set_result(record.event.outcome)
        if not lost:
            try:
                printer.show(record, state)
            except OSError as error:
                lost.append(error)
        if lost and not stopping and state.turn is not None:
            stopping = True
            engine.stop()

    for record in engine.begun:
        follow(engine.store.state, record)
    engine.store.watch(follow)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):

        def stop(number: int = number) -> None:
            ended_by.append(number)
            engine.stop()
            if engine.store.state.turn is None and not finished.done():
                finished.set_result("stopped")  # there is no turn yet that could say so

        loop.add_signal_handler(number, stop)
    chat = spawn(engine.chat_loop(), "chat")
    try:
        await engine.send(options.text or engine.suggestion)
        await asyncio.wait((finished, chat), return_when=asyncio.FIRST_COMPLETED)
        # A loop that broke ends no turn any more.
        outcome: TurnOutcome = finished.result() if finished.done() else "failed"
    finally:
        await spawn.end()
    if spawn.broken is not None:
        print(catalogue("headless.broken", error=repr(spawn.broken)), file=err)
    if ended_by:
        return 128 + ended_by[0]
    if lost:
        _say_lost(lost[0], catalogue, out, err)
        return EXIT_STATUS["failed"]
    return EXIT_STATUS[outcome]


def _say_lost(error: OSError, catalogue: Catalogue, out: TextIO, err: TextIO) -> None:
    """Say that the output is lost; a reader that has read enough, as ``head`` does, knows it."""
    if not isinstance(error, BrokenPipeError):
        with contextlib.suppress(OSError):
            print(catalogue("headless.unwritten", error=error.strerror or str(error)), file=err)
    try:
        out.flush()
    except OSError:
        # What is left in the buffer would fail once more when Python ends, with a traceback.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


class _JsonLines:
    """One record a line, ASCII only, so that no byte of it can act on a terminal."""

    def __init__(self, stream: bool, out: TextIO) -> None:
        self._stream = stream
        self._out = out

    def show(self, record: Record, state: AgentState) -> None:
        if record.seq is None and not self._stream:
            return
        self._out.write(json.dumps(record.as_json(), ensure_ascii=True) + "\n")
        self._out.flush()


class _Words:
    """The turn's last reply on standard output, everything else on standard error."""

    def __init__(self, catalogue: Catalogue, out: TextIO, err: TextIO) -> None:
        self._say = catalogue
        self._out = out
        self._err = err
        self._held = ""  # a reply that may be the turn's last

    def show(self, record: Record, state: AgentState) -> None:
        event = record.event
        match event:
            case AssistantReplied(message=message) if message.text:
                self._narrate()
                self._held = message.text
                acts = message.decision is not None and bool(message.decision.actions)
                if acts or message.step_id or message.aside:
                    self._narrate()
            case LlmWaiting(waiting=Waiting() as waiting):
                print(f"· {self._waiting(waiting, record.at)}", file=self._err, flush=True)
            case OperationFinished(message=message):
                result = message.result
                target = visible(one_line(_target(message), 100))
                print(
                    self._say(
                        "headless.operation",
                        operation=message.operation,
                        target=target,
                        outcome=self._say(f"transcript.outcome.{result.outcome}"),
                        summary=visible(
                            figures_words(message.operation, _figures(message), self._say)
                        ),
                    ),
                    file=self._err,
                )
            case NoticeAdded(message=notice):
                sign = {Level.INFO: "·", Level.WARNING: "!", Level.ERROR: "✗"}[notice.level]
                print(f"{sign} {self._say(notice.key, **notice.params)}", file=self._err)
            case StepChanged(status=WorkStatus.IN_PROGRESS):
                print(f"▶ {visible(_step_name(state, event))}", file=self._err)
            case ReportAdded(message=message):
                report = message.report
                sign = "✓" if report.status == "completed" else "✗"
                words = visible(" ".join((report.cause or report.summary).split()))
                if report.told is not None:
                    words = self._say(report.told.key, **report.told.params)
                print(f"{sign} {visible(report.step_name)}: {words}", file=self._err)
            case ObjectiveReviewed(message=message):
                review = message.review
                if not review.done and review.attempt < review.max_attempts:
                    self._narrate()  # a further attempt has the last word
                print(self._reviewed(review), file=self._err)
            case AttemptStarted(message=message):
                number, limit = message.attempt, message.max_attempts
                say = self._say("review.attempt", number=number, limit=limit)
                print(f"▸ {say}", file=self._err)
            case TurnFinished(outcome=outcome, reply=reply, llm_calls=calls, tokens=tokens):
                if self._held != reply:
                    self._narrate()
                if reply:
                    print(visible(reply), file=self._out, flush=True)
                if outcome != "done":
                    print(self._say(f"headless.outcome.{outcome}"), file=self._err)
                said = self._say("headless.calls", calls=str(calls), tokens=f"{tokens:,}")
                print(said, file=self._err)
            case _:
                pass

    def _narrate(self) -> None:
        text, self._held = self._held, ""
        if text:
            print(f"{visible(text)}\n", file=self._err, flush=True)

    def _reviewed(self, review: Review) -> str:
        """How far the request is met, and what of it is missing."""
        counted = [item for item in review.items if item.counts]
        met = sum(item.state is RequirementState.MET for item in counted)
        last = review.attempt >= review.max_attempts
        how = "done" if review.done else "ends" if last else "continues"
        text = self._say(
            f"review.{how}",
            score=f"{review.score:.2f}",
            met=met,
            counted=len(counted),
            number=review.attempt,
            limit=review.max_attempts,
        )
        said = [f"{'✓' if review.done else '✗'} {self._say('review.title')}  {text}"]
        said += [
            f"  {self._say('review.missing', what=visible(one_line(lack.what, 200)))}"
            for lack in review.missing
        ]
        return "\n".join(said)

    def _waiting(self, waiting: Waiting, now: float) -> str:
        key = f"llm.waiting.{waiting.reason}"
        reason = self._say(key) if self._say.has(key) else waiting.reason
        if waiting.until is None:
            seconds = self._say("transcript.seconds", count=round(now - waiting.since))
            return self._say("transcript.waits_since", reason=reason, time=seconds)
        seconds = self._say("transcript.seconds", count=max(1, round(waiting.until - now)))
        return self._say("transcript.tries_again", reason=reason, time=seconds)


def _step_name(state: AgentState, event: StepChanged) -> str:
    plan = next(p for p in state.plans if p.plan_id == event.plan_id)
    step = plan.step(event.step_id)
    return step.name if step else event.step_id


def _target(message: OperationMessage) -> str:
    """What the call works on: its path or command, else its arguments as they are."""
    args = message.args
    named = next((args[name] for name in ("path", "source", "command") if args.get(name)), "")
    return str(named) or json.dumps(args, ensure_ascii=False) if args else ""


def _figures(message: OperationMessage) -> str:
    """The result in short. A server's says nothing about itself: then its first words."""
    result = message.result
    if result.summary or not message.operation.startswith("mcp."):
        return result.summary
    return one_line(result.text, 80)
