"""What keys do to the notes of the project, and lending the terminal to the user's editor."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from duckflow_tui.ui import outside_editor
from duckflow_tui.ui.goal_actions import GoalActions
from duckflow_tui.ui.screens.memory import MemoryBoard, fault_words

T = TypeVar("T")


class MemoryActions(GoalActions, inherit_bindings=False):
    """The notes are the engine's; the editor is the user's own program."""

    _lent_out = False  # the user's editor has the terminal

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

    def action_memory(self) -> None:
        engine = self.acting()
        if engine is not None:
            memory = engine.memory
            self.push_screen(MemoryBoard(self.words, engine.store, memory.path, memory.lines))

    def action_remember(self, text: str = "") -> None:
        """The user's own line, a preference."""
        if not text.strip():
            self.say("memory.usage")
        elif self.store is None:
            self.bench.composer.add(f"/remember {text}")  # there is no project to note it on yet
        else:
            self.spawn(self._note(text.strip()), "memory")

    async def _note(self, text: str) -> None:
        engine = self.acting()
        if engine is None:
            return
        fault = await engine.memory.remember(text)
        if fault is None:
            self.say("memory.noted")
        else:
            self.bench.status.show_message(fault_words(fault, engine.memory.path, self.words))

    def on_memory_board_forget_wanted(self, event: MemoryBoard.ForgetWanted) -> None:
        self.spawn(self._strike_out(event), "memory")

    async def _strike_out(self, event: MemoryBoard.ForgetWanted) -> None:
        engine = self.acting()
        if engine is None:
            return
        fault = await engine.memory.forget(event.line)
        board = self._board()
        if board is not None:
            problem = fault_words(fault, engine.memory.path, self.words) if fault else ""
            board.tell(problem)
            board.read_again()

    def on_memory_board_edit_wanted(self) -> None:
        self.spawn(self._edit_memory(), "editor")

    async def _edit_memory(self) -> None:
        """The file itself is opened, so that what the editor leaves alone stays byte for byte."""
        engine = self.acting()
        if engine is None:
            return
        memory = engine.memory
        fault = await memory.begin()
        # A file that the app cannot read or add to is what the user opens it for.
        if fault is None or fault.code != "disk":
            fault = None
            await self.in_editor(
                lambda command: outside_editor.edit_file(command, Path(memory.path))
            )
            await memory.reread()
        board = self._board()
        if board is not None:
            board.tell(fault_words(fault, memory.path, self.words) if fault else "")
            board.read_again()

    def _board(self) -> MemoryBoard | None:
        return next((s for s in self.screen_stack if isinstance(s, MemoryBoard)), None)
