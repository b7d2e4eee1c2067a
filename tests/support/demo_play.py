"""The demo as a user plays it without a screen: the real engine, files and HTTP."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.prepared import UNTOUCHED

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.engine import Engine
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.places import Places
from duckflow_tui.scripted.stage import Stage, open_stage
from duckflow_tui.sessions import open_session
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.gates import (
    Card,
    CardAnswer,
    CardKind,
    Gate,
    GateAnswer,
    GateChoice,
    before_hashes,
)
from duckflow_tui.state.store import Record
from duckflow_tui.state.turn import TurnSummary

DEADLINE_S = 30.0
CODE = "src/shop/pricing.py"
TESTS = "tests/test_pricing.py"


@dataclass(slots=True)
class Play:
    """One session on a stage, and what a user does and sees."""

    stage: Stage
    engine: Engine

    @property
    def state(self) -> AgentState:
        """What is true."""
        return self.engine.store.state

    def text(self, path: str = CODE) -> str:
        """What a file of the project holds."""
        return (self.stage.workspace / path).read_text(encoding="utf-8")

    async def until(self, holds: Callable[[AgentState], bool]) -> None:
        """Return once the state is so; raises TimeoutError."""
        reached = asyncio.Event()

        def look(state: AgentState, _: Record | None = None) -> None:
            if holds(state):
                reached.set()

        forget = self.engine.store.subscribe(look)
        try:
            look(self.state)
            async with asyncio.timeout(DEADLINE_S):
                await reached.wait()
        finally:
            forget()

    async def say(self, text: str = "") -> None:
        """Send a message, the demo's own request by default, and see it taken up."""
        before = self.said()
        await self.engine.send(text or self.stage.request)
        await self.until(lambda state: state.turn is not None and self.said() > before)

    def said(self) -> int:
        """How many messages of the user are in the conversation."""
        return sum(message.kind == "user" for message in self.state.messages)

    async def gate(self) -> Gate:
        """The gate that opens next."""
        await self.until(lambda state: bool(state.gates) or state.turn is None)
        assert self.state.gates, self.replies()
        return self.state.gates[0]

    async def answer(
        self,
        choice: GateChoice,
        *,
        reason: str = "",
        alternative: int | None = None,
        left_out: tuple[tuple[int, int], ...] = (),
        edited: str | None = None,
    ) -> Gate:
        """Answer the gate that is open or opens next; the gate as it was shown."""
        gate = await self.gate()
        await self.engine.answer_gate(
            GateAnswer(
                gate_id=gate.gate_id,
                call_id=gate.call_id,
                args_hash=gate.args_hash,
                before_hashes=before_hashes(gate),
                choice=choice,
                reason=reason,
                alternative=alternative,
                left_out=left_out,
                edited=edited,
            )
        )
        return gate

    async def card(self, kind: CardKind) -> Card:
        """The card of this kind that is open or opens next; gates before it are approved, but for
        a plan change, which is asked for beside them.
        """
        wait = self.until if kind is CardKind.PLAN_CHANGE else self.approving
        await wait(lambda state: any(card.kind is kind for card in state.cards))
        return next(card for card in self.state.cards if card.kind is kind)

    async def answer_card(self, kind: CardKind, action: str, text: str = "") -> Card:
        """Answer the card of this kind as it is shown."""
        card = await self.card(kind)
        await self.engine.answer_card(
            CardAnswer(card_id=card.card_id, subject=card.subject, action=action, text=text)
        )
        return card

    async def approving(self, holds: Callable[[AgentState], bool]) -> None:
        """Approve every gate until the state is so."""
        while True:
            await self.until(lambda state: holds(state) or bool(state.gates))
            if holds(self.state):
                return
            await self.answer(GateChoice.ONCE)

    async def ask_beside(self, text: str) -> None:
        """Send a message while work runs."""
        await self.engine.send(text, when="now")

    def beside(self) -> list[str]:
        """What the model has said beside the work, oldest first."""
        messages = self.state.messages
        return [m.text for m in messages if isinstance(m, AssistantMessage) and m.aside]

    async def end(self) -> TurnSummary:
        """How the turn ended; an open gate would keep it from ending."""
        await self.until(lambda state: state.turn is None or bool(state.gates))
        assert self.state.turn is None, self.state.gates
        assert self.state.last_turn is not None
        return self.state.last_turn

    def replies(self) -> list[str]:
        """What the model has said, oldest first."""
        return [m.text for m in self.state.messages if isinstance(m, AssistantMessage)]

    def operations(self) -> list[OperationMessage]:
        """The model's calls that ended, oldest first."""
        calls = [m for m in self.state.messages if isinstance(m, OperationMessage)]
        return [m for m in calls if not m.for_requirement]


async def failing_tests(on: Play) -> list[str]:
    """Names of the project's tests that fail, run as its user would run them."""
    run = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "unittest",
        cwd=on.stage.workspace,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE_S):
        _, printed = await run.communicate()
    output = printed.decode()
    assert "Ran " in output, output
    return re.findall(r"^(?:FAIL|ERROR): (\S+)", output, re.M)


@asynccontextmanager
async def play(
    home: Path, *, language: str = "en", protocol: str = "auto", mode: str = "standard"
) -> AsyncGenerator[Play]:
    """A session whose model is the demo's, told over HTTP in this protocol."""
    async with open_stage(language, fast=True) as stage:
        flags = Flags(
            workspace=stage.workspace,
            base_url=stage.base_url,
            model=stage.model,
            protocol=protocol,
            mode=mode,
            allow=stage.commands,
        )
        choice = choose_session(
            flags, Places.find({"DUCKFLOW_HOME": str(home)}), language, UNTOUCHED
        )
        spawn = TaskSpawn()
        async with open_session(choice, spawn) as engine:
            spawn(engine.chat_loop(), "chat")
            try:
                yield Play(stage, engine)
            finally:
                await spawn.end_tasks()
        assert spawn.broken is None
