"""The engine: one session's loops and tools behind the few calls a screen needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from duckflow_tui.loops.chat_loop import ChatLoop, Spawn
from duckflow_tui.loops.notices import Notices
from duckflow_tui.loops.parts import DecisionMaker, PromptSource, TurnLimits, TurnParts
from duckflow_tui.loops.phases import PhaseKeeper
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.events import ModeChanged, OperationFinished
from duckflow_tui.state.gates import GateAnswer
from duckflow_tui.state.ids import IdSource
from duckflow_tui.state.messages import Level
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.state.phase_machine import PhaseMachine
from duckflow_tui.state.store import Record, Store
from duckflow_tui.tools.router import ToolRouter


class Models(DecisionMaker, Protocol):
    """The LLM service, with what a session does besides asking."""

    async def aclose(self) -> None:
        """Close connections."""
        ...

    async def warm(self) -> None:
        """Load the client library without holding the loop."""
        ...


class Answers(Protocol):
    """The gate broker, as a screen needs it."""

    async def answer(self, answer: GateAnswer) -> None:
        """Commit the user's answer; raises StateError when it fits no open gate."""
        ...


class Watch(Protocol):
    """The watcher of files."""

    async def run(self) -> None:
        """Report outside changes until cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What the composition root hands over."""

    store: Store
    ids: IdSource
    models: Models
    prompts: PromptSource
    router: ToolRouter
    broker: Answers
    watch: Watch
    machine: PhaseMachine
    list_files: Callable[[], Awaitable[list[str]]]
    intact: Callable[[], bool]  # whether the workspace is still the folder that was opened
    limits: TurnLimits
    suggestion: str = ""  # a first request to offer, where there is an obvious one


class Engine:
    """Built once for a session. Screens call it; headless runs call it; both watch its Store."""

    def __init__(self, parts: EngineParts, spawn: Spawn) -> None:
        self._parts = parts
        self._spawn = spawn
        self.store = parts.store
        self.suggestion = parts.suggestion
        self.notices = Notices(parts.store, parts.ids)
        self._keeper = PhaseKeeper(parts.store, parts.machine)
        self._gone = False  # that the workspace went was said
        parts.store.watch(self._look_after_workspace)
        self._chat = ChatLoop(
            TurnParts(
                store=parts.store,
                ids=parts.ids,
                models=parts.models,
                prompts=parts.prompts,
                caller=parts.router,
                specs=parts.router.specs,
                machine=parts.machine,
                notices=self.notices,
                limits=parts.limits,
            ),
            spawn,
        )

    async def chat_loop(self) -> None:
        """The inbox; runs as long as the session, as a worker of the group ``chat``."""
        watching = self._spawn(self._parts.watch.run(), "watch")
        try:
            await self._chat.run()
        finally:
            watching.cancel()

    async def warm(self) -> None:
        """Load what the first request needs, after the screen stands."""
        await self._parts.models.warm()

    async def send(self, text: str) -> None:
        """Take a message of the user; returns once it would survive a crash."""
        await self._chat.send(text)

    def take_back(self, message_id: str) -> str | None:
        """Take a waiting message out of the queue and return its text."""
        return self._chat.take_back(message_id)

    async def retry(self) -> bool:
        """Work on the last message again, after an error or a stop."""
        return await self._chat.retry()

    async def answer_gate(self, answer: GateAnswer) -> None:
        """The user's key in a gate. Raises StateError when it fits no open gate."""
        await self._parts.broker.answer(answer)

    def set_mode(self, mode: ApprovalMode) -> None:
        """Another approval mode from the next call on; an open gate stays open."""
        if mode is not self.store.state.mode:
            self.store.dispatch(ModeChanged(mode=mode))

    def pause(self) -> None:
        """Halt at the next safe point."""
        self._chat.pause()

    def resume(self) -> None:
        """Go on after a pause, or with messages that a stop left waiting."""
        self._chat.resume()
        self._chat.release()

    def stop(self) -> None:
        """End the running turn now."""
        self._chat.stop()

    async def undo(self) -> None:
        """Take the last change of a file back; says what it did or why it did not."""
        if self.store.state.turn is not None:
            self.notices.warn("undo.busy")
            return
        report = await self._parts.router.undo_last()
        level = Level.INFO if report.undone else Level.WARNING
        self.notices.say(report.key, level, for_model=report.for_model, **report.params)

    def proposed_text(self, gate_id: str) -> str | None:
        """The whole new content behind an open gate that can be edited."""
        return self._parts.router.proposed_text(gate_id)

    async def workspace_files(self) -> list[str]:
        """Paths for the file picker, ignored ones left out."""
        return await self._parts.list_files()

    def _look_after_workspace(self, state: AgentState, record: Record) -> None:
        """Say once that the folder went away or was replaced: nothing is written from then on."""
        if not isinstance(record.event, OperationFinished) or self._gone:
            return
        if record.event.message.result.outcome is Outcome.ERROR and not self._parts.intact():
            self._gone = True
            self.notices.error("workspace.gone", path=state.session.workspace)

    async def close(self) -> None:
        """Close connections; the session is over."""
        await self._parts.models.aclose()
