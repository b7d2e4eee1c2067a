"""The pages over the panes, and what the panes ask for beside them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from duckflow_tui.commands import AUTO, CHOICES, undo_compaction
from duckflow_tui.state.decision import TaskProfile
from duckflow_tui.ui import outside_editor
from duckflow_tui.ui.panes.goal import LedgerPane
from duckflow_tui.ui.panes.vitals import VitalsPane
from duckflow_tui.ui.panes.vitals_words import profile_words
from duckflow_tui.ui.screens.ledger import LedgerBoard
from duckflow_tui.ui.screens.memory import MemoryBoard, fault_words
from duckflow_tui.ui.screens.pick_list import Choice
from duckflow_tui.ui.screens.processes import ProcessBoard
from duckflow_tui.ui.screens.servers import ServerBoard
from duckflow_tui.ui.screens.waiting import WaitingBoard
from duckflow_tui.ui.session_actions import SessionActions

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.ui.panes.transcript import Transcript

T = TypeVar("T")


class PageActions(SessionActions, inherit_bindings=False):
    """A page does by itself what its keys say; here it is opened."""

    _lent_out = False  # the user's editor has the terminal

    # --- pages ------------------------------------------------------------------------------

    def action_queue(self) -> None:
        if self.store is None or not self.store.state.queue:
            self.say("shell.queue_empty")
        else:
            self.push_screen(WaitingBoard(self.words, self.store))

    def action_processes(self) -> None:
        if self.store is not None:
            self.push_screen(ProcessBoard(self.words, self.store))

    def action_servers(self) -> None:
        if self.store is not None:
            self.push_screen(ServerBoard(self.words, self.store))

    def action_requirements(self) -> None:
        if self.store is not None:
            self.push_screen(LedgerBoard(self.words, self.store))

    def action_memory(self) -> None:
        engine = self.acting()
        if engine is not None:
            self.push_screen(MemoryBoard(self.words, engine))

    def action_context(self) -> None:
        from duckflow_tui.ui.screens.context import ContextBoard

        engine = self.acting()
        if engine is not None:
            self.push_screen(ContextBoard(self.words, engine.store))

    def action_rewind(self, *, at_end: bool = False) -> None:
        from duckflow_tui.ui.screens.rewind import RewindBoard

        engine = self.acting()
        if engine is not None:
            self.push_screen(RewindBoard(self.words, engine.store, at_end=at_end))

    def action_fork(self) -> None:
        self.action_rewind(at_end=True)

    # --- the conversation -------------------------------------------------------------------

    def take_back(self, message_id: str) -> None:
        """A waiting message comes back into the composer."""
        engine = self.acting()
        text = engine.take_back(message_id) if engine is not None else None
        if text is not None:
            self.bench.composer.add(text)

    def stop_own_command(self) -> bool:
        """End what the user runs with ``!``; False when nothing of theirs runs."""
        if self.store is None or not any(r.by_user for r in self.store.state.running):
            return False
        engine = self.acting()
        if engine is not None:
            engine.stop()
        return True

    def action_undo_rewind(self, _undo: str) -> None:
        engine = self.acting()
        if engine is not None:
            self.spawn(self._undo_rewind(engine), "rewind")

    async def _undo_rewind(self, engine: Engine) -> None:
        rewound = engine.store.state.rewound
        problem = await engine.rewind.undo()
        if problem:
            self.say(f"rewind.not.{problem}")
            return
        if rewound is not None and self.bench.composer.draft.strip() == rewound.draft.strip():
            self.bench.composer.write("")
        self.say("rewind.undone")

    def on_transcript_undo_wanted(self, event: Transcript.UndoWanted) -> None:
        engine = self.acting()
        if engine is not None:
            self.spawn(undo_compaction(engine, event.compaction_id, self.say), "compact")

    def on_transcript_whole_wanted(self, event: Transcript.WholeWanted) -> None:
        self.spawn(self._open_whole(event.call_id), "editor")

    async def _open_whole(self, call_id: str) -> None:
        """A copy of it in the user's editor: what is kept stays as it is."""
        text = await self.engine.context.whole(call_id) if self.engine is not None else None
        if text is None:
            self.say("context.gone")
        else:
            await self.in_editor(lambda command: outside_editor.edit(command, text))

    # --- the goal ---------------------------------------------------------------------------

    def action_vitals(self, shown: str) -> None:
        """Show the gauges, or nowhere."""
        self.bench.vitals_on = shown == "on"
        self.say(f"vitals.{shown}")

    def on_vitals_pane_go_to(self, event: VitalsPane.GoTo) -> None:
        if not self.bench.go_to_first(tuple(reversed(event.refs))):
            self.say("vitals.no_place")

    def profile_choices(self) -> list[Choice]:
        """The kinds of request; the one in force is marked, with who chose it."""
        state = self.store.state if self.store is not None else None
        chosen = state.profile_choice if state is not None else None
        limit = state.pace.limit if state is not None and state.pace is not None else None
        found: list[Choice] = []
        for value in CHOICES["profile"]:
            profile = None if value == AUTO else TaskProfile(value.upper())
            mark = ""
            if profile is chosen:
                mark = self.words("profile.yours" if profile else "profile.auto")
            elif profile is not None and limit is not None and limit.profile is profile:
                mark = self.words(f"profile.now_{limit.chosen_by}")
            name = profile_words(profile, self.words) if profile else self.words("profile.let")
            found.append(Choice(value, name, mark))
        return found

    def on_ledger_pane_opened(self, _event: LedgerPane.Opened) -> None:
        self.action_requirements()

    def on_vitals_pane_ledger_wanted(self, _event: VitalsPane.LedgerWanted) -> None:
        self.action_requirements()

    # --- notes and the user's editor --------------------------------------------------------

    def action_remember(self, text: str = "") -> None:
        """The user's own line, a preference."""
        if not text.strip():
            self.say("memory.usage")
        elif self.store is None:
            self.bench.composer.add(f"/remember {text}")  # there is no project to note it on yet
        else:
            engine = self.acting()
            if engine is not None:
                self.spawn(self._note(engine, text.strip()), "memory")

    async def _note(self, engine: Engine, text: str) -> None:
        fault = await engine.memory.remember(text)
        if fault is None:
            self.say("memory.noted")
        else:
            self.bench.status.show_message(fault_words(fault, engine.memory.path, self.words))

    async def in_editor(self, run: Callable[[str], Awaitable[T]]) -> T | None:
        """Lend the terminal to the user's editor, as often as nobody else has it; None when it
        could not be run, which is said. Whatever it does, the screen comes back.
        """
        if self._lent_out:
            return None
        self._lent_out = True
        command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        found: T | None = None
        problem = ""
        try:
            with self.suspend(), self.guard.lent():
                # Caught in here: an error that leaves ``suspend`` keeps the terminal given away.
                try:
                    found = await run(command)
                except (OSError, ValueError) as error:
                    problem = str(error)
        finally:
            self._lent_out = False
        if problem:
            self.say("shell.no_editor", command=command, error=problem)
        return found
