"""Ten requests to a model, each in a fresh copy of the sample project: calls, attempts, loops and
satisfaction.

The mode is *trusted*: files of the copy are edited without asking; what would still need a yes is
refused, but for the project's tests and for plans.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.request_cases import CASES, After, Case, files_of
from benchmarks.rows import Row, aligned, rounded

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.engine import Engine
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.places import Places
from duckflow_tui.scripted.stage import open_stage
from duckflow_tui.sessions import open_session
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import (
    Card,
    CardAnswer,
    CardKind,
    Gate,
    GateAnswer,
    GateChoice,
    before_hashes,
)
from duckflow_tui.state.goal import AttemptStarted
from duckflow_tui.state.pace import LimitExtended, LimitSet, Pattern
from duckflow_tui.state.store import Record
from duckflow_tui.state.turn import LoopStarted, TurnFinished

LONGEST_S: Final = 900.0  # of one request; then it is stopped
CONSULTED: Final = 3  # times the user says something; then the work is stopped
#: Forms of the command in the project's README that a model may run.
_TESTS: Final = tuple(
    f"{python} -m unittest{option}" for python in ("python3", "python") for option in ("", " -q")
)
_CARDS: Final = {
    CardKind.PLAN: "run_all",
    CardKind.PLAN_CHANGE: "accept",
    CardKind.BREAKPOINT: "go_on",
    CardKind.ESCALATION: "accept_partial",
    CardKind.BUDGET: "stop_work",
}


@dataclass(frozen=True, slots=True)
class Model:
    """Who answers."""

    base_url: str
    name: str
    api_key_env: str | None = None


def measure(model: Model, tell: Callable[[Row], None] | None = None) -> list[Row]:
    """A row for each request, told when it is over; raises Unusable when nothing can be asked of
    the endpoint.
    """
    return asyncio.run(_all(model, tell))


def table(lines: Iterable[Row]) -> str:
    """The rows for people."""
    head = "request", "calls", "tokens", "attempts", "loops", "asked", "satisfied", "outcome", "s"
    cells: list[tuple[str, ...]] = [("", *head)]
    for line in lines:
        score = line["satisfaction"]
        cells.append(
            (
                "✓" if line["as_wanted"] else "✗",
                line["what"].removeprefix("request: "),
                str(line["calls"]),
                f"{line['tokens']:,}",
                str(line["attempts"]),
                " + ".join(f"{used}/{limit}" for used, limit in line["loops"]),
                str(line["asked"]),
                "–" if score is None else f"{score:.2f}",
                line["outcome"],
                f"{line['seconds']:g}",
            )
        )
    return aligned(cells, left=(0, 1, 8))


@dataclass(slots=True)
class Watch:
    """Follows one session."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    loops: list[list[int]] = field(default_factory=list[list[int]])  # by attempt: used, limit
    attempts: int = 1
    asked: int = 0
    end: TurnFinished | None = None  # of the turn that ended last, until it is taken

    def look(self, state: AgentState, record: Record) -> None:
        match record.event:
            case LoopStarted(loop=loop, limit=limit):
                if loop == 1:
                    self.loops.append([0, 0])
                self.loops[-1] = [loop, limit]
            case LimitSet() | LimitExtended() if self.loops and state.pace is not None:
                # A new limit after a review belongs to the attempt that is about to begin.
                if state.pace.used == self.loops[-1][0] and self.attempts == len(self.loops):
                    self.loops[-1][1] = state.pace.limit.max_loops
            case AttemptStarted():
                self.attempts += 1
            case TurnFinished() as end:
                self.end = end
            case _:
                pass
        self.changed.set()


async def _all(model: Model, tell: Callable[[Row], None] | None) -> list[Row]:
    rows: list[Row] = []
    for case in CASES:
        rows.append(await _one(case, model))
        if tell is not None:
            tell(rows[-1])
    return rows


async def _one(case: Case, model: Model) -> Row:
    with tempfile.TemporaryDirectory(prefix="duckflow-requests-") as folder:
        async with open_stage(fast=True, folder=Path(folder) / "stage") as stage:
            before = files_of(stage.workspace)
            flags = Flags(
                workspace=stage.workspace,
                base_url=model.base_url,
                model=model.name,
                api_key_env=model.api_key_env,
                mode="trusted",
                allow=(*stage.commands, *_TESTS),
                no_session=True,
            )
            places = Places.find({"DUCKFLOW_HOME": str(Path(folder) / "home")})
            environ = {k: v for k, v in os.environ.items() if _is_passed_on(k, model)}
            choice = choose_session(flags, places, "en", environ)
            watch, spawn = Watch(), TaskSpawn()
            loop = asyncio.get_running_loop()
            async with open_session(choice, spawn) as engine:
                engine.store.subscribe(watch.look)
                spawn(engine.chat_loop(), "chat")
                began = loop.time()
                try:
                    await engine.send(case.text)
                    end = await _end_in_time(case, engine, watch)
                finally:
                    await spawn.end_tasks()
                took = loop.time() - began
                if spawn.broken is not None:
                    raise spawn.broken
            after = After(stage.workspace, before, end.reply)
            return {
                "what": f"request: {case.name}",
                "calls": end.llm_calls,
                "attempts": watch.attempts,
                "loops": watch.loops,
                "asked": watch.asked,
                "satisfaction": end.satisfaction,
                "outcome": end.outcome,
                "as_wanted": await asyncio.to_thread(case.as_wanted, after),
                "tokens": end.tokens,
                "seconds": rounded(took),
            }


def _is_passed_on(name: str, model: Model) -> bool:
    """No setting of the user's own counts here; their key does."""
    keys = {"DUCKFLOW_API_KEY", model.api_key_env}
    return name in keys or not name.startswith("DUCKFLOW_")


async def _end_in_time(case: Case, engine: Engine, watch: Watch) -> TurnFinished:
    try:
        async with asyncio.timeout(LONGEST_S):
            return await answer_until_ended(engine, watch, case.advice)
    except TimeoutError:
        engine.stop()
        return await answer_until_ended(engine, watch, case.advice)


async def answer_until_ended(engine: Engine, watch: Watch, advice: str = "") -> TurnFinished:
    """Be the user until a turn is over, and return its end. Gates are refused; ``advice`` is what
    a consultation is told.
    """
    store = engine.store
    while watch.end is None:
        watch.changed.clear()
        if store.state.gates:
            await engine.answer_gate(_refused(store.state.gates[0]))
        elif store.state.cards:
            await engine.answer_card(_answer(advice, store.state.cards[0], watch))
        else:
            await watch.changed.wait()
    end, watch.end = watch.end, None
    return end


def _refused(gate: Gate) -> GateAnswer:
    return GateAnswer(
        gate_id=gate.gate_id,
        call_id=gate.call_id,
        args_hash=gate.args_hash,
        before_hashes=before_hashes(gate),
        choice=GateChoice.REJECT,
        reason=f"Only the project's tests may be run here: {_TESTS[0]}",
    )


def _answer(advice: str, card: Card, watch: Watch) -> CardAnswer:
    action, text = _CARDS.get(card.kind, ""), ""
    offered = {option.action for option in card.options}
    if card.kind is CardKind.REPORT:
        action = "go_on" if "go_on" in offered else "skip"
    elif card.kind is CardKind.CONSULTATION:
        watch.asked += 1
        action, text = _consulted(advice, card, watch.asked)
    return CardAnswer(card_id=card.card_id, subject=card.subject, action=action, text=text)


def _consulted(advice: str, card: Card, times: int) -> tuple[str, str]:
    assert card.situation is not None
    pattern = card.situation.pattern
    if times > CONSULTED:
        stops = pattern in (Pattern.STAGNATION, Pattern.LIMIT)
        return ("stop_work" if stops else "tell"), "Stop here and say what you have."
    if pattern is Pattern.LIMIT:
        return "more_loops", ""
    return ("more_info" if pattern is Pattern.STAGNATION else "tell"), advice
