"""What a replay has in the place of an engine: nothing can be done, and each try says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.state.base import Told
from duckflow_tui.state.decision import Check, TaskProfile
from duckflow_tui.state.gates import CardAnswer, GateAnswer
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.plan import PlanEdit
from duckflow_tui.state.store import Store
from duckflow_tui.tools.memory import MemoryFault, MemoryKind, MemoryLine
from duckflow_tui.ui.replay_player import Player

if TYPE_CHECKING:
    from duckflow_tui.agent.compaction import Undo
    from duckflow_tui.agent.requests import SentPart
    from duckflow_tui.session.rewind import Forked, Hindrance, PutBack
    from duckflow_tui.state.base import Spawn

#: Says that this is a replay, and gives the words back for who has a place of its own for them.
Refuse = Callable[[], str]


def _told(refuse: Refuse) -> Told:
    refuse()
    return Told(key="replay.read_only")


class _Plan:
    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    async def edit(self, edits: Sequence[PlanEdit]) -> Told:
        return _told(self._refuse)

    def set_break(self, step_id: str, on: bool) -> Told:
        return _told(self._refuse)

    def retry(self, step_id: str) -> Told:
        return _told(self._refuse)

    def skip(self, step_id: str) -> Told:
        return _told(self._refuse)


class _Pace:
    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    def choose_profile(self, profile: TaskProfile | None) -> None:
        self._refuse()

    def extend(self, by: int = 5) -> None:
        self._refuse()


class _Ledger:
    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    def add(self, text: str, priority: int, check: Check) -> Told:
        return _told(self._refuse)

    def edit(
        self,
        requirement_id: str,
        text: str | None = None,
        priority: int | None = None,
        check: Check | None = None,
    ) -> Told:
        return _told(self._refuse)

    def waive(self, requirement_id: str, because: str) -> Told:
        return _told(self._refuse)

    def restore(self, requirement_id: str) -> Told:
        return _told(self._refuse)


class _Title:
    def __init__(self, player: Player, refuse: Refuse) -> None:
        self._player = player
        self._refuse = refuse

    def rename(self, name: str) -> str:
        self._refuse()
        return self._player.store.state.session.name

    def pin(self, pinned: bool) -> None:
        self._refuse()


class _Memory:
    """The notes may be other ones by now, and their folder gone: none are shown."""

    path = ""

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    async def lines(self) -> tuple[MemoryLine, ...]:
        return ()

    async def remember(self, text: str, kind: MemoryKind = "preference") -> MemoryFault | None:
        self._refuse()

    async def forget(self, line: MemoryLine) -> MemoryFault | None:
        self._refuse()

    async def begin(self) -> MemoryFault | None:
        self._refuse()

    async def reread(self) -> None:
        return


class _Context:
    """What was sent is known by its figures only."""

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    def sent(self, llm_id: str) -> tuple[SentPart, ...] | None:
        return None

    async def whole(self, call_id: str) -> str | None:
        return None

    async def compact(self, hint: str = "") -> str:
        self._refuse()
        return ""

    async def undo(self, compaction_id: str = "") -> tuple[Undo, dict[str, str]]:
        self._refuse()
        return "", {}


class _Rewind:
    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    async def back(self, message_id: str, draft: str = "") -> Hindrance:
        self._refuse()
        return "replay"

    async def undo(self) -> Hindrance:
        self._refuse()
        return "replay"

    async def put_files_back(self) -> PutBack:
        from duckflow_tui.session.rewind import PutBack

        self._refuse()
        return PutBack()

    async def fork(self, message_id: str = "", draft: str = "") -> Forked:
        from duckflow_tui.session.rewind import Forked

        self._refuse()
        return Forked(problem="replay")


class ReplayEngine:
    """An ``EngineFacade`` whose session is over; ``chat_loop`` plays it."""

    suggestion = ""

    def __init__(self, player: Player, refuse: Refuse) -> None:
        self.player = player
        self._refuse = refuse
        self.plan = _Plan(refuse)
        self.pace = _Pace(refuse)
        self.ledger = _Ledger(refuse)
        self.title = _Title(player, refuse)
        self.memory = _Memory(refuse)
        self.context = _Context(refuse)
        self.rewind = _Rewind(refuse)

    @property
    def store(self) -> Store:
        return self.player.store

    async def chat_loop(self) -> None:
        await self.player.run()

    async def warm(self) -> None:
        """Load the parser of replies, that a leap to a place full of them does not wait for it."""
        await asyncio.to_thread(import_module, "duckflow_tui.ui.panes.markdown")

    async def send(self, text: str, when: Literal["now", "next"] = "next") -> None:
        self._refuse()

    def change_queued(self, message_id: str, text: str) -> bool:
        self._refuse()
        return True

    async def run_command(self, text: str) -> None:
        self._refuse()

    async def end_process(self, process_id: str) -> bool:
        self._refuse()
        return True

    async def start_server(self, name: str) -> None:
        self._refuse()

    async def stop_server(self, name: str) -> None:
        self._refuse()

    async def restart_server(self, name: str) -> None:
        self._refuse()

    async def server_log(self, name: str) -> str:
        return ""

    def take_back(self, message_id: str) -> str | None:
        self._refuse()
        return None

    async def retry(self) -> bool:
        self._refuse()
        return True

    async def answer_card(self, answer: CardAnswer) -> None:
        self._refuse()

    async def answer_gate(self, answer: GateAnswer) -> None:
        self._refuse()

    def proposed_text(self, gate_id: str) -> str | None:
        return None

    def keep_draft(self, text: str) -> None:
        return

    def set_mode(self, mode: ApprovalMode) -> None:
        self._refuse()

    def pause(self) -> None:
        self._refuse()

    def resume(self) -> None:
        self._refuse()

    def stop(self) -> None:
        self._refuse()

    async def undo(self) -> None:
        self._refuse()

    async def workspace_files(self) -> AsyncGenerator[list[str], None]:
        yield []


class ReplaySource:
    """A ``SessionSource`` with one session in it, that nothing is recorded of."""

    unconfirmed_origin = ""
    folder: Path | None = None

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.engine: ReplayEngine | None = None

    def confirm_origin(self) -> None:
        return

    def resume(self, session_id: str) -> None:
        return

    async def open(self, spawn: Spawn) -> ReplayEngine | None:
        return self.engine

    async def open_demo(self, spawn: Spawn) -> ReplayEngine:
        return self._only

    async def open_resumed(self, session_id: str, spawn: Spawn) -> ReplayEngine:
        return self._only

    def redact(self, text: str) -> str:
        return text  # nothing is sent here that could be remembered

    async def close(self) -> None:
        return

    def freeze(self) -> None:
        return

    @property
    def _only(self) -> ReplayEngine:
        assert self.engine is not None
        return self.engine
