"""``/memory``: the notes on the project across sessions, and their file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import SafeText, make_visible, visible_line
from duckflow_tui.tools.memory import MemoryFault, MemoryLine
from duckflow_tui.ui.panes.strips import Row, pad
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, make_row, render_facts
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine


def fault_words(fault: MemoryFault, path: str, words: Catalogue) -> SafeText:
    """Return why a note was not added or removed."""
    return words(f"memory.fault.{fault.code}", path=path, detail=fault.detail)


class MemorySource(StateSource[MemoryLine]):
    """The notes on the project in the order of their file."""

    EMPTY: ClassVar[str] = "memory.none"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.store)
        self._memory = engine.memory
        self._path = engine.memory.notes.path
        self._lines: tuple[MemoryLine, ...] = ()

    def on_open(self) -> None:
        """Start to read the notes."""
        self.page.run_worker(self._read_notes, exclusive=True, exit_on_error=False)

    async def _read_notes(self) -> None:
        """Read the notes and draw them; an error is reported."""
        try:
            self._lines = await self._memory.notes.list_lines()
        except MemoryFault as fault:
            self._lines = ()
            self.page.report(fault_words(fault, self._path, self.words))
        self.page.invalidate()

    def list_actions(self, item: MemoryLine | None) -> Sequence[PageAction]:
        """Return actions that delete the note, after a question, and edit the file."""
        edit = self.make_session_action("keys.memory_edit", lambda _: self._edit_file())
        if item is None:
            return (edit,)

        async def delete_line(_: Engine) -> None:
            """Delete the note and report a fault."""
            self._report_fault(await self._memory.remove_line(item))

        asks = self.words("memory.delete_again")
        return self.make_session_action("keys.memory_delete", delete_line, question=asks), edit

    async def _edit_file(self) -> None:
        """Open the notes file in the user's editor and read it again. The file itself is edited, so
        that untouched lines stay byte for byte.
        """
        fault = await self._memory.create_file()
        # Also a file that the app cannot read: the user may open it to mend it.
        if fault is None or fault.code != "disk":
            fault = None
            await self.host.editor.edit_file(Path(self._path))
            await self._memory.notes.reread()
        self._report_fault(fault)

    def _report_fault(self, fault: MemoryFault | None) -> None:
        """Show a fault, or clear the last one, and read the notes again."""
        if self.page.is_mounted:
            self.page.report(fault_words(fault, self._path, self.words) if fault else "")
            self.on_open()

    def get_title(self) -> str:
        return f"{self.words('memory.title')}  {visible_line(self._path)}"

    def list_items(self) -> Mapping[str, MemoryLine]:
        return {str(line.number): line for line in self._lines}

    def render_row(self, item: MemoryLine, width: int) -> Row:
        """Render kind, text and date of a note."""
        palette = self.palette
        kinds = [self.words(f"memory.kind.{kind}") for kind in ("worked", "failed", "preference")]
        column = max(cell_len(kind) for kind in kinds)
        kind = self.words(f"memory.kind.{item.kind}") if item.kind else "–"
        colours = {"worked": palette.good, "failed": palette.bad, "preference": palette.accent}
        left = [
            (f"{pad(kind, column)}  ", colours.get(item.kind or "", palette.faint)),
            (visible_line(item.text), palette.text),
        ]
        right = f"  {visible_line(item.on)} " if item.on else " "
        return make_row(width, left, [(right, palette.faint)])

    def render_detail(self, item: MemoryLine, width: int, room: int) -> list[Row]:
        """Render the complete note with heading, date and file."""
        palette, words = self.palette, self.words
        under = words(f"memory.heading.{item.kind}") if item.kind else words("memory.own")
        facts = [("under", under), ("at", visible_line(item.on) or "–"), ("file", self._path)]
        named = [
            (words(f"memory.{name}"), make_visible(text), palette.quiet) for name, text in facts
        ]
        text = self.wrap_text(make_visible(item.text), width, palette.text)
        return [*text, Row(), *render_facts(named, width, palette)]
