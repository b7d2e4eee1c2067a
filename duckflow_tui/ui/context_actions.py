"""What keys and commands do to the window of the model: look at it, compact, take that back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckflow_tui.ui import outside_editor
from duckflow_tui.ui.memory_actions import MemoryActions

if TYPE_CHECKING:
    from duckflow_tui.ui.panes.transcript import Transcript
    from duckflow_tui.ui.screens.context import ContextBoard

_UNDO = "undo"  # behind ``/compact``


class ContextActions(MemoryActions, inherit_bindings=False):
    """The conversation is the engine's; here is only asked for it."""

    def told(self, command: str, argument: str) -> None:
        if command != "compact":
            super().told(command, argument)
        elif self.engine is None:
            self.say("shell.no_endpoint")
        elif argument.strip().lower() == _UNDO:
            self.spawn(self._undo_compaction(""), "compact")
        else:
            self.spawn(self._compact(argument.strip()), "compact")

    def on_transcript_undo_wanted(self, event: Transcript.UndoWanted) -> None:
        self.spawn(self._undo_compaction(event.compaction_id), "compact")

    async def _compact(self, hint: str) -> None:
        if self.engine is None:
            return
        self.say("compaction.runs")
        problem = await self.engine.context.compact(hint)
        if problem:
            self.say_lasting(f"compaction.not.{problem}")
        else:
            self.bench.status.clear_message()

    async def _undo_compaction(self, compaction_id: str) -> None:
        if self.engine is None:
            return
        problem, figures = await self.engine.context.undo(compaction_id)
        if problem:
            self.say_lasting(f"compaction.no_undo.{problem}", **figures)
        else:
            self.say("compaction.undone")

    def on_transcript_whole_wanted(self, event: Transcript.WholeWanted) -> None:
        self.spawn(self._open_whole(event.call_id), "editor")

    async def _open_whole(self, call_id: str) -> None:
        """A copy of it in the user's editor: what is kept stays as it is."""
        text = await self.engine.context.whole(call_id) if self.engine is not None else None
        if text is None:
            self.say("context.gone")
        else:
            await self.in_editor(lambda command: outside_editor.edit(command, text))

    def action_context(self) -> None:
        from duckflow_tui.ui.screens.context import ContextBoard

        if self.engine is not None:
            self.push_screen(ContextBoard(self.words, self.engine.store, self.engine.context.sent))

    def on_context_board_opened(self, event: ContextBoard.Opened) -> None:
        from duckflow_tui.ui.screens.context import SentBoard

        if self.engine is not None:
            self.push_screen(SentBoard(self.words, self.engine.store, event.title, event.parts))
