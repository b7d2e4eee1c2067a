"""A real session for tests: engine, tools and files as the program builds them, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from support.prepared import UNTOUCHED
from support.zoo import Provider

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.engine import Engine
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.llm.endpoints import Protocol, Temperatures
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import Author, Request, ScriptedEndpoint
from duckflow_tui.scripted.replies import Fault, Reply, Script
from duckflow_tui.sessions import open_session
from duckflow_tui.shutdown import Ending
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, before_hashes
from duckflow_tui.state.goal import TaskObjective
from duckflow_tui.state.plan import Plan
from duckflow_tui.state.store import Record, Store
from duckflow_tui.state.turn import TurnFinished

E = TypeVar("E")
DEADLINE = 30.0  # seconds until a wait has failed

#: A judge who finds all work good.
GOOD = Reply(
    data={
        "overall_score": 0.9,
        "requirement_scores": {"r1": 0.9},
        "evidence": {"r1": ["P1"]},
        "missing_aspects": [],
        "grade": "good",
        "quality_assessment": "as asked",
        "suggestions": [],
        "verdict": "approve",
        "completion_recommendation": True,
    },
    repeat=True,
)
#: A report that finds every step done.
REPORTED = Reply(
    data={"status": "completed", "summary": "It is there.", "cause": "", "next_action": ""},
    repeat=True,
)
JUDGEMENT: dict[str, Any] = {
    "rationale": "as asked",
    "goal_consistency": {"ok": True, "reason": "serves it"},
    "constraint_check": {"ok": True, "reason": "none broken"},
    "prompt_pattern": "base_main",
}


def action(operation: str, *, alternatives: tuple[str, ...] = (), **args: Any) -> dict[str, Any]:
    """An action of a decision."""
    made: dict[str, Any] = {
        "operation": operation,
        "args": args,
        "reasoning": "the request needs it",
        "intent": "do what was asked",
    }
    if alternatives:
        made["alternatives"] = [{"label": label} for label in alternatives]
    return made


def decision(
    reply: str,
    *actions: dict[str, Any],
    step: str = "EXECUTION",
    next_step: str = "continue",
    **fields: Any,
) -> Reply:
    """A well-formed decision, served in whichever protocol the request asks for."""
    body = {
        **JUDGEMENT,
        "reply": reply,
        "step": step,
        "next_step": next_step,
        "actions": list(actions),
        **fields,
    }
    return Reply(decision=body)


def done(reply: str = "Done.", **fields: Any) -> Reply:
    """A decision that ends the turn."""
    return decision(reply, next_step="done", step=fields.pop("step", "REVIEW"), **fields)


def script(*main: Reply, **others: Reply | tuple[Reply, ...]) -> Script:
    """Return a script with the main model's replies in order and those of other purposes by name.

    A judge finds all work good, and a report each step done, where none is given for them.
    """
    named = {
        purpose: (replies,) if isinstance(replies, Reply) else replies
        for purpose, replies in others.items()
    }
    return judged_good(Script(replies={"main": main, **named}))


def with_project(tmp_path: Path) -> Path:
    """Put a project of one file where a session works; returns ``tmp_path``."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("x = 1\n")
    return tmp_path


NOTE: Final = "[Written by the app, not by"  # how a note begins


def note_of(request: Request) -> str:
    """The app's note in a request: where the work stands."""
    return str(request.json["messages"][_find_note(request)]["content"])


def before_note(request: Request) -> list[dict[str, Any]]:
    """The messages of a request with which the next one begins too."""
    return request.json["messages"][: _find_note(request)]


def _find_note(request: Request) -> int:
    messages = request.json["messages"]
    found = (at for at, m in enumerate(messages) if str(m["content"]).startswith(NOTE))
    return next(found)


def judged_good(scripted: Script) -> Script:
    """The script with a judge who finds all work good, where it has no word of one."""
    judge = {"satisfaction": (GOOD,)}
    given = {**judge, **scripted.replies}
    # A step's report too, where the script has no word of one, or none left.
    reports = {} if given.get("report") == () else {"report": REPORTED}
    fallback = {**reports, **scripted.fallback}
    return scripted.model_copy(update={"replies": given, "fallback": fallback})


@dataclass
class Session:
    """A running session, its endpoint and everything it recorded."""

    engine: Engine
    server: ScriptedEndpoint
    workspace: Path
    spawn: TaskSpawn
    ending: Ending
    records: list[Record] = field(default_factory=list[Record])
    _ends: list[TurnFinished] = field(default_factory=list[TurnFinished])
    breaks: bool = False  # the test puts a fault into the program, which has to say so

    @property
    def store(self) -> Store:
        return self.engine.store

    @property
    def state(self) -> AgentState:
        return self.engine.store.state

    @property
    def objective(self) -> TaskObjective:
        """What was asked for; there has to be something."""
        assert self.state.objective is not None
        return self.state.objective

    @property
    def active_plan(self) -> Plan:
        """The plan in hand; there has to be one."""
        assert self.state.active_plan is not None
        return self.state.active_plan

    @property
    def session_id(self) -> str:
        return self.state.session.session_id

    def keep(self, _: AgentState, record: Record) -> None:
        """Take in what was recorded."""
        self.records.append(record)
        if isinstance(record.event, TurnFinished):
            self._ends.append(record.event)

    def cut(self) -> None:
        """From here on nothing is recorded: to the journal this is the end of the process."""
        self.ending.freeze()

    async def until(self, holds: Callable[[AgentState], bool]) -> None:
        """Return once the state is so; fails after the deadline."""
        if holds(self.state):
            return
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()

        def look(state: AgentState, record: Record) -> None:
            if holds(state) and not reached.done():
                reached.set_result(None)

        forget = self.store.subscribe(look)
        try:
            async with asyncio.timeout(DEADLINE):
                await reached
        finally:
            forget()

    async def gate(self) -> Gate:
        """The oldest open gate, once there is one."""
        await self.until(lambda state: bool(state.gates))
        return self.state.gates[0]

    async def answer(self, choice: GateChoice, **fields: Any) -> Gate:
        """Answer the oldest gate as a key would."""
        gate = await self.gate()
        await self.engine.answer_gate(
            GateAnswer(
                gate_id=gate.gate_id,
                call_id=gate.call_id,
                args_hash=gate.args_hash,
                before_hashes=before_hashes(gate),
                choice=choice,
                **fields,
            )
        )
        return gate

    async def ended(self, number: int = 1) -> TurnFinished:
        """The end of the n-th turn."""
        await self.until(lambda _: len(self._ends) >= number)
        return self._ends[number - 1]

    async def turn(self, text: str) -> TurnFinished:
        """Send a message and wait until its turn has ended."""
        number = len(self._ends) + 1
        await self.engine.send(text)
        return await self.ended(number)

    def events(self, kind: type[E]) -> list[E]:
        """Recorded events of a kind."""
        return [r.event for r in self.records if isinstance(r.event, kind)]

    def results(self) -> list[OperationMessage]:
        """Finished calls in order."""
        return [m for m in self.state.messages if isinstance(m, OperationMessage)]

    def notices(self) -> list[str]:
        """Keys of the app's own words."""
        return [m.key for m in self.state.messages if isinstance(m, NoticeMessage)]


def nothing_but(base: str) -> Callable[[Request], Reply | None]:
    """A server that has nothing at paths that begin with anything else."""
    nothing = Reply(fault=Fault(status=404, message="no such page"))
    return lambda request: None if request.path.startswith(base) else nothing


@asynccontextmanager
async def session(
    tmp_path: Path,
    replies: Script,
    *,
    protocol: Protocol = "json",
    mode: str | None = None,
    headless: bool = False,
    environ: dict[str, str] | None = None,
    allow: tuple[str, ...] = (),
    roles: dict[str, str] | None = None,
    price: float | None = None,
    window: int = 0,
    temperature: dict[str, float] | None = None,
    own_window: int = 0,
    resume: str = "",
    no_session: bool = False,
    trust: bool = False,
    author: Author | None = None,
    provider: Provider | None = None,
    versioned: bool = True,
    language: str = "en",
    port: int = 0,
) -> AsyncGenerator[Session]:
    """Open a session on ``tmp_path/work`` against a scripted endpoint; ends everything after.

    ``roles`` name other models of that endpoint, ``cli/…``; ``temperature`` is by role; ``price``
    is what a million of its tokens cost, in US dollars; ``window`` is what its models can hold, 0
    when unknown, and ``own_window`` those of the same server under the name ``own``; ``resume`` is
    the id of a session to go on with; ``author`` writes what no queue of the script holds;
    ``provider`` keeps its rules in front of it; without ``versioned`` its address is given without
    its ``/v1``; ``port`` is that of an endpoint before, whose place it takes.
    """
    workspace = tmp_path / "work"
    workspace.mkdir(exist_ok=True)
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    guard, base = (provider.answer, provider.base) if provider else (None, "/v1")
    if not versioned:
        guard = nothing_but("/v1/")
    async with ScriptedEndpoint(
        judged_good(replies), port=port, author=author, guard=guard, base=base
    ) as server:
        flags = Flags(
            workspace=workspace,
            base_url=(server.base_url if versioned else server.base_url.removesuffix("/v1"))
            + (provider.query if provider else ""),
            model=provider.model if provider else "scripted",
            protocol=protocol,
            mode=mode,
            headless=headless,
            allow=allow,
            resume=resume,
            no_session=no_session,
            trust=trust,
        )
        choice = choose_session(flags, places, language, {**UNTOUCHED, **(environ or {})})
        if roles:
            named = choice.settings.roles.model_copy(update=roles)
            settings = choice.settings.model_copy(update={"roles": named})
            choice = replace(choice, settings=settings)
        if temperature:
            settings = choice.settings.model_copy(
                update={"temperature": Temperatures(**temperature)}
            )
            choice = replace(choice, settings=settings)
        if price is not None:
            priced = choice.settings.endpoints["cli"].model_copy(
                update={"price_in": price, "price_out": price}
            )
            settings = choice.settings.model_copy(update={"endpoints": {"cli": priced}})
            choice = replace(choice, settings=settings)
        if window:
            endpoint = choice.settings.endpoints["cli"].model_copy(update={"context": window})
            settings = choice.settings.model_copy(update={"endpoints": {"cli": endpoint}})
            choice = replace(choice, settings=settings)
        if own_window:
            cli = choice.settings.endpoints["cli"]
            own = cli.model_copy(update={"name": "own", "context": own_window})
            settings = choice.settings.model_copy(update={"endpoints": {"cli": cli, "own": own}})
            choice = replace(choice, settings=settings)
        spawn = TaskSpawn()
        ending = Ending()
        async with open_session(choice, spawn, ending) as engine:
            made = Session(engine, server, workspace, spawn, ending)
            engine.store.subscribe(made.keep)
            spawn(engine.chat_loop(), "chat")
            try:
                yield made
            finally:
                await spawn.end_tasks()
        assert spawn.broken is None, spawn.broken
        told = [m for m in made.state.messages if isinstance(m, NoticeMessage)]
        faults = [notice.params for notice in told if notice.key.startswith("engine.fault")]
        assert bool(faults) is made.breaks, faults
