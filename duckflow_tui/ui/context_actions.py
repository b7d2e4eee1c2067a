"""What keys and commands do to the window of the model: look at it, compact, take that back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckflow_tui.commands import undo_compaction
from duckflow_tui.ui import outside_editor
from duckflow_tui.ui.memory_actions import MemoryActions

if TYPE_CHECKING:
    from duckflow_tui.ui.panes.transcript import Transcript
    from duckflow_tui.ui.screens.context import ContextBoard


class ContextActions(MemoryActions, inherit_bindings=False):
    """The conversation is the engine's; here is only asked for it."""

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

    def action_context(self) -> None:
        from duckflow_tui.ui.screens.context import ContextBoard

        engine = self.acting()
        if engine is not None:
            self.push_screen(ContextBoard(self.words, engine.store, engine.context.sent))

    def on_context_board_opened(self, event: ContextBoard.Opened) -> None:
        from duckflow_tui.ui.screens.context import SentBoard

        if self.store is not None:
            self.push_screen(SentBoard(self.words, self.store, event.title, event.parts))
