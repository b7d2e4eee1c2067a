"""Between the engine and the screen: state goes down to panes, intents go up to the engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Told
from duckflow_tui.state.gates import CardAnswer, GateAnswer
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.plan import PlanEdit
from duckflow_tui.state.store import Record, Store, Unsubscribe
from duckflow_tui.ui.context_facade import ContextFacade, RewindFacade
from duckflow_tui.ui.goal_facades import LedgerFacade, MemoryFacade, PaceFacade, TitleFacade

if TYPE_CHECKING:
    from duckflow_tui.session.catalog import Catalog

FRAME: Final = 1 / 30  # seconds between two updates of one pane


class Job(Protocol):
    """Something that runs beside the screen and can be cancelled."""

    def cancel(self) -> object:
        """Ask it to end."""
        ...


class Spawn(Protocol):
    """Starts a coroutine beside the screen, in a group."""

    def __call__(self, coroutine: Coroutine[Any, Any, None], group: str) -> Job:
        """Its exceptions are the screen's to report."""
        ...


class PlanFacade(Protocol):
    """What the user's keys do to the plan. Each returns what is in the way, or nothing."""

    async def edit(self, edits: Sequence[PlanEdit]) -> Told | None:
        """Change, add, drop or move steps."""
        ...

    def set_break(self, step_id: str, on: bool) -> Told | None:
        """Be asked, or no longer, before a step begins."""
        ...

    def retry(self, step_id: str) -> Told | None:
        """Do a step again that ended without being done."""
        ...

    def skip(self, step_id: str) -> Told | None:
        """Waive a step."""
        ...


class EngineFacade(Protocol):
    """What the screen asks of an engine; ``loops.engine.Engine`` is one."""

    @property
    def store(self) -> Store:
        """What is true."""
        ...

    @property
    def suggestion(self) -> str:
        """A first request to offer in the composer, empty for none."""
        ...

    async def chat_loop(self) -> None:
        """Runs as long as the session."""
        ...

    async def warm(self) -> None:
        """Load what the first request needs."""
        ...

    async def send(self, text: str, when: Literal["now", "next"] = "next") -> None:
        """Take a message; returns once it would survive a crash. While work runs, ``now`` has it
        answered beside the work, ``next`` keeps it for the next turn.
        """
        ...

    def change_queued(self, message_id: str, text: str) -> bool:
        """Rewrite a waiting message; False when it no longer waits."""
        ...

    async def run_command(self, text: str) -> None:
        """Run a command of the user's own, beside everything else; ``stop`` ends it."""
        ...

    async def end_process(self, process_id: str) -> bool:
        """End a command in the background; False when it had ended."""
        ...

    async def start_server(self, name: str) -> None:
        """Start a server of tools, and wait until it serves or failed."""
        ...

    async def stop_server(self, name: str) -> None:
        """End a server of tools."""
        ...

    async def restart_server(self, name: str) -> None:
        """End a server of tools and start it again."""
        ...

    async def server_log(self, name: str) -> str:
        """The newest lines of its standard error."""
        ...

    def take_back(self, message_id: str) -> str | None:
        """Take a waiting message out of the queue; None when it is gone."""
        ...

    async def retry(self) -> bool:
        """Work on the last message again; False when that is not possible."""
        ...

    @property
    def plan(self) -> PlanFacade:
        """The plan under the user's keys."""
        ...

    @property
    def pace(self) -> PaceFacade:
        """The pacemaker under the user's keys."""
        ...

    @property
    def ledger(self) -> LedgerFacade:
        """The requirements under the user's keys."""
        ...

    @property
    def title(self) -> TitleFacade:
        """The session's name, and its place in the list."""
        ...

    @property
    def memory(self) -> MemoryFacade:
        """The notes of the project under the user's keys."""
        ...

    @property
    def context(self) -> ContextFacade:
        """The window of the model under the user's keys."""
        ...

    @property
    def rewind(self) -> RewindFacade:
        """The conversation as a whole under the user's keys."""
        ...

    async def answer_card(self, answer: CardAnswer) -> None:
        """The user's key on a card; raises StateError when it fits none."""
        ...

    async def answer_gate(self, answer: GateAnswer) -> None:
        """The user's key in a gate; raises StateError when it fits none."""
        ...

    def proposed_text(self, gate_id: str) -> str | None:
        """The whole new content that the gate's call would write; None where it has none."""
        ...

    def keep_draft(self, text: str) -> None:
        """What stands in the composer and was not sent."""
        ...

    def set_mode(self, mode: ApprovalMode) -> None:
        """Another approval mode."""
        ...

    def pause(self) -> None:
        """Halt at the next safe point."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...

    def stop(self) -> None:
        """End the running turn."""
        ...

    async def undo(self) -> None:
        """Take the last change of a file back."""
        ...

    def workspace_files(self) -> AsyncGenerator[list[str], None]:
        """Paths for the file picker in batches, as they are found."""
        ...


class SessionSource(Protocol):
    """Where the screen gets its engine from; called after the first paint."""

    @property
    def unconfirmed_origin(self) -> str:
        """Plain http to a private address that the user has not confirmed; empty for none."""
        ...

    def confirm_origin(self) -> None:
        """The user did; it is remembered."""
        ...

    def redact(self, text: str) -> str:
        """The text without keys and passwords, those of the settings and what looks like one."""
        ...

    async def close(self) -> None:
        """Take down what was opened."""
        ...

    def freeze(self) -> None:
        """Record nothing more: the app ends."""
        ...

    async def open(self, spawn: Spawn) -> EngineFacade | None:
        """The session of this workspace; None while no endpoint is configured. Raises
        SessionFault for one that cannot be taken up.
        """
        ...

    async def open_demo(self, spawn: Spawn) -> EngineFacade:
        """A session with scripted replies and a workspace of its own."""
        ...

    def resume(self, session_id: str) -> None:
        """``open`` takes up this session; empty: it begins a new one."""
        ...

    async def open_resumed(self, session_id: str, spawn: Spawn) -> EngineFacade:
        """Another session of this workspace, in place of the one that is open. Raises
        SessionFault; then that one stays.
        """
        ...

    @property
    def catalog(self) -> Catalog:
        """All sessions there are."""
        ...

    @property
    def folder(self) -> Path | None:
        """Where the open session is recorded; None while it is nowhere."""
        ...


Slices = Callable[[AgentState], tuple[object, ...]]
Redraw = Callable[[AgentState], None]


class Clockwork(Protocol):
    """What the bridge needs of the app: run something soon, run something later."""

    def call_later(self, callback: Callable[[], None]) -> bool:
        """After the messages that wait."""
        ...

    def set_timer(self, delay: float, callback: Callable[[], None]) -> object:
        """Once, after ``delay`` seconds."""
        ...


class Bridge:
    """Watches a Store and redraws panes whose slices changed, each at most 30 times a second.

    Nothing is scheduled while nothing changes.
    """

    def __init__(self, clockwork: Clockwork, monotonic: Callable[[], float]) -> None:
        self._clockwork = clockwork
        self._monotonic = monotonic
        self._panes: list[_Pane] = []
        self._unwatch: Unsubscribe | None = None
        self._state: AgentState | None = None

    def attach(self, store: Store) -> None:
        """Follow this store from now on, and draw every pane from it."""
        self.detach()
        self._state = store.state
        self._unwatch = store.watch(self._changed)
        for pane in self._panes:
            pane.remember(store.state)
            pane.redraw(store.state)

    def detach(self) -> None:
        """Follow nothing."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def add(self, slices: Slices, redraw: Redraw) -> None:
        """Call ``redraw`` whenever a slice is not the object, or not the number, that it was."""
        self._panes.append(_Pane(slices, redraw))

    def draw_now(self) -> None:
        """Draw what waits for its next frame: the state is about to be another."""
        for pane in self._panes:
            if pane.waiting:
                self._draw(pane)

    def _changed(self, state: AgentState, _record: Record) -> None:
        for pane in self._panes:
            if not pane.remember(state) or pane.waiting:
                continue
            pane.waiting = True
            wait = pane.drawn_at + FRAME - self._monotonic()
            if wait <= 0:
                self._clockwork.call_later(lambda pane=pane: self._draw(pane))
            else:
                self._clockwork.set_timer(wait, lambda pane=pane: self._draw(pane))

    def _draw(self, pane: _Pane) -> None:
        pane.waiting = False
        pane.drawn_at = self._monotonic()
        if self._state is not None:
            pane.redraw(self._state)


class _Pane:
    def __init__(self, slices: Slices, redraw: Redraw) -> None:
        self._slices = slices
        self.redraw = redraw
        self.waiting = False
        self.drawn_at = float("-inf")
        self._last: tuple[object, ...] = ()

    def remember(self, state: AgentState) -> bool:
        """Keep the slices; whether one is another object than before."""
        new = self._slices(state)
        old, self._last = self._last, new
        return len(old) != len(new) or not all(map(_same, old, new))


def _same(old: object, new: object) -> bool:
    return old is new or (isinstance(old, int) and old == new)
