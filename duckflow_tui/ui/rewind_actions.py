"""What keys and commands do to the conversation as a whole: go back in it, take that back, fork."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from duckflow_tui.ui.context_actions import ContextActions

if TYPE_CHECKING:
    from duckflow_tui.safety.safe_text import SafeText
    from duckflow_tui.ui.screens.rewind import RewindBoard, Way


class RewindActions(ContextActions, inherit_bindings=False):
    """The conversation is the engine's; the text that returns goes to the composer."""

    def action_rewind(self) -> None:
        self._open_rewind(at_end=False)

    def action_fork(self) -> None:
        self._open_rewind(at_end=True)

    def _open_rewind(self, *, at_end: bool) -> None:
        from duckflow_tui.ui.screens.rewind import RewindBoard

        engine = self.acting()
        if engine is not None:
            self.push_screen(RewindBoard(self.words, engine.store, at_end=at_end))

    def action_undo_rewind(self, _undo: str) -> None:
        self.spawn(self._undo_rewind(), "rewind")

    def on_rewind_board_wanted(self, event: RewindBoard.Wanted) -> None:
        if event.way == "fork":
            self.spawn(self._fork(event.message_id), "rewind")
        else:
            self.spawn(self._rewind(event.message_id, event.way), "rewind")

    async def _rewind(self, message_id: str, way: Way) -> None:
        engine = self.acting()
        if engine is None:
            return
        problem = await engine.rewind.back(message_id, self.bench.composer.draft)
        if problem:
            self._refused(self.words(f"rewind.not.{problem}"))
            return
        self._leave_board()
        rewound = engine.store.state.rewound
        if rewound is not None:  # the draft of the state may be what was written before, kept late
            self.bench.composer.write(rewound.draft)
        if way == "files":
            await engine.rewind.put_files_back()
        self.say("rewind.how_to_undo")

    async def _undo_rewind(self) -> None:
        engine = self.acting()
        if engine is None:
            return
        rewound = engine.store.state.rewound
        problem = await engine.rewind.undo()
        if problem:
            self.say(f"rewind.not.{problem}")
            return
        if rewound is not None and self.bench.composer.draft.strip() == rewound.draft.strip():
            self.bench.composer.write("")
        self.say("rewind.undone")

    async def _fork(self, message_id: str) -> None:
        engine = self.acting()
        if engine is None:
            return
        if not self.own_key:  # nowhere, or in the demo's own folder
            self._refused(self.words("rewind.not.not_kept"))
            return
        forked = await engine.rewind.fork(message_id, self.bench.composer.draft)
        if forked.problem:
            self._refused(self.words(f"rewind.not.{forked.problem}", detail=forked.detail))
            return
        self._leave_board()
        turn = engine.store.state.turn
        if turn is None and engine is self.engine:
            await self.take_up(forked.session_id)
        else:
            self.bench.status.show_message(
                self.words("rewind.fork_waits", command=self._command(forked.session_id))
            )

    def _command(self, session_id: str) -> str:
        """What takes that session up from where the user's shell is."""
        workspace = self.store.state.session.workspace if self.store is not None else ""
        named = workspace and os.path.realpath(os.getcwd()) != workspace
        folder = f" --dir {shlex.quote(workspace)}" if named else ""
        return f"duckflow-tui --resume {session_id}{folder}"

    def _refused(self, why: SafeText) -> None:
        board = self._rewind_board()
        if board is not None:
            board.tell(why)
        else:
            self.bench.status.show_message(why)

    def _leave_board(self) -> None:
        board = self._rewind_board()
        if board is not None:
            board.dismiss(None)

    def _rewind_board(self) -> RewindBoard | None:
        from duckflow_tui.ui.screens.rewind import RewindBoard

        return next((s for s in self.screen_stack if isinstance(s, RewindBoard)), None)
