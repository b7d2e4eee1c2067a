"""A workspace with everything around it that calls operations: Store, gates, blobs, router."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from support.model_words import WORDS
from support.pinned import CountingIds, ManualClock

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.safety.pending_questions import Desk, UnattendedDesk
from duckflow_tui.safety.policy import PolicyRules
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.session.blobs import MemoryBlobs
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.decision import Action
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, before_hashes
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.session import ModeChanged
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.tools.operation import Blobs, Registry, default_registry
from duckflow_tui.tools.router import ToolRouter

T = TypeVar("T")

DEADLINE = 30.0  # seconds a test waits for a state that must come


def descriptors() -> int:
    """How many files this process has open; what earlier tests left behind is closed before."""
    gc.collect()
    return len(os.listdir("/dev/fd"))


class SlowDisk(Disk):
    """Waits in one call until it is let go; says when it is there."""

    def __init__(self, call: str) -> None:
        self.call = call
        self.there = threading.Event()
        self.go = threading.Event()

    def _wait(self, call: str) -> None:
        if call == self.call:
            self.there.set()
            assert self.go.wait(10)

    def create(self, directory: int, name: str, mode: int) -> int:
        self._wait("create")
        return super().create(directory, name, mode)

    def sync_directory(self, directory: int) -> None:
        self._wait("sync_directory")
        super().sync_directory(directory)


class Bench:
    """Real files under ``root``, a real Store and desk; answers are given by the test."""

    def __init__(
        self,
        root: Path,
        *,
        mode: ApprovalMode = ApprovalMode.STANDARD,
        headless: bool = False,
        registry: Registry | None = None,
        blobs: Blobs | None = None,
        disk: Disk | None = None,
        recorder: MemoryRecorder | None = None,
        max_write_bytes: int = 1_000_000,
    ) -> None:
        self.root = root
        self.clock = ManualClock()
        self.recorder = recorder or MemoryRecorder()
        self.store = Store(AgentState(), self.clock, self.recorder)
        self.ids = CountingIds()
        self.workspace = Workspace(root, disk=disk)
        self.desk = (
            UnattendedDesk(self.store, self.ids, WORDS, mode)
            if headless
            else Desk(self.store, self.ids, WORDS)
        )
        self.blobs = blobs or MemoryBlobs()
        self.router = ToolRouter(
            self.store,
            self.workspace,
            self.desk,
            registry or default_registry(),
            self.blobs,
            self.ids,
            WORDS,
            PolicyRules(max_write_bytes),
        )
        self.store.dispatch(ModeChanged(mode=mode, at=0.0))

    @property
    def kinds(self) -> list[str]:
        """The kinds of all recorded events, in order."""
        return [record.event.kind for record in self.recorder.records]

    def action(self, operation: str, /, **args: Any) -> Action:
        """A call with a reason."""
        return Action(
            call_id=self.ids("call"),
            operation=operation,
            args=args,
            reasoning="the test needs it",
            intent="try it",
            alternatives=("do nothing", "do another thing"),
        )

    async def call(self, operation: str, /, **args: Any) -> OperationMessage:
        """Call and wait for the end; no gate may open on the way."""
        async with asyncio.timeout(DEADLINE):
            return await self.router.call(self.action(operation, **args))

    def begin(self, operation: str, /, **args: Any) -> asyncio.Task[OperationMessage]:
        """Call without waiting."""
        return asyncio.create_task(self.router.call(self.action(operation, **args)))

    async def until(self, condition: Callable[[AgentState], bool]) -> None:
        """Return once the state fulfils the condition."""
        reached = asyncio.Event()

        def look(state: AgentState, _: object) -> None:
            if condition(state):
                reached.set()

        forget = self.store.subscribe(look)
        try:
            look(self.store.state, None)
            async with asyncio.timeout(DEADLINE):
                await reached.wait()
        finally:
            forget()

    async def gate(self, after: Gate | None = None) -> Gate:
        """The open gate, once there is one that is not ``after``."""
        old = after.gate_id if after else ""
        await self.until(lambda state: any(g.gate_id != old for g in state.gates))
        return next(g for g in self.store.state.gates if g.gate_id != old)

    async def answer(self, gate: Gate, choice: GateChoice, **more: Any) -> None:
        """Press a key in the gate as it is shown."""
        await self.desk.record_answer(reply(gate, choice, **more))

    async def approved(self, operation: str, /, **args: Any) -> OperationMessage:
        """Call, approve once what is shown, and wait for the end."""
        task = self.begin(operation, **args)
        await self.answer(await self.gate(), GateChoice.ONCE)
        return await done(task)

    async def answered(
        self, choice: GateChoice, operation: str, args: Mapping[str, Any], **more: Any
    ) -> OperationMessage:
        """Call, press that key, and wait for the end."""
        task = self.begin(operation, **args)
        await self.answer(await self.gate(), choice, **more)
        return await done(task)


def reply(gate: Gate, choice: GateChoice, **more: Any) -> GateAnswer:
    """An answer bound to what the gate shows."""
    return GateAnswer(
        gate_id=gate.gate_id,
        call_id=gate.call_id,
        args_hash=gate.args_hash,
        before_hashes=before_hashes(gate),
        choice=choice,
        **more,
    )


async def done(task: asyncio.Task[T]) -> T:
    """The task's result, within the deadline."""
    async with asyncio.timeout(DEADLINE):
        return await task
