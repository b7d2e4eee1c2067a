"""``/memory``: what is noted on the project over its sessions, and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import SafeText, make_visible, visible_line
from duckflow_tui.tools.memory import MemoryFault, MemoryLine
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import palette_of, two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, prefixed, rows_of
from duckflow_tui.ui.screens.board import StateBoard, board_bindings
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine


def fault_words(fault: MemoryFault, path: str, words: Catalogue) -> SafeText:
    """Why a line was not noted or removed."""
    return words(f"memory.fault.{fault.code}", path=path, detail=fault.detail)


class MemoryBoard(StateBoard):
    """The lines in the order of the file; a second ``d`` deletes the one at the cursor."""

    SURFACE: ClassVar[Surface] = "memory"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("memory")

    def __init__(self, words: Catalogue, engine: Engine) -> None:
        super().__init__(words, engine.store)
        self._memory = engine.memory
        self._path = engine.memory.notes.path
        self._lines: tuple[MemoryLine, ...] = ()

    def on_mount(self) -> None:
        self.read_again()

    def read_again(self) -> None:
        """Show what the file says now."""
        self.run_worker(self._read(), exclusive=True, exit_on_error=False)

    async def _read(self) -> None:
        try:
            self._lines = await self._memory.notes.list_lines()
        except MemoryFault as fault:
            self._lines = ()
            self._said = fault_words(fault, self._path, self.words)
        self.invalidate()

    def acts_alone(self, action: str) -> bool:
        return action in ("leave", "open_file")

    # --- keys -------------------------------------------------------------------------------

    def action_delete(self) -> None:
        line = self._line(self.chosen)
        if line is not None and self.pressed_twice("delete"):
            self.host.spawn(self._forget(line), "memory")

    async def _forget(self, line: MemoryLine) -> None:
        self._report_fault(await self._memory.forget(line))

    def action_open_file(self) -> None:
        self.host.spawn(self._edit(), "editor")

    async def _edit(self) -> None:
        """The file itself is opened, so that what the editor leaves alone stays byte for byte."""
        fault = await self._memory.create_file()
        # A file that the app cannot read or add to is what the user opens it for.
        if fault is None or fault.code != "disk":
            fault = None
            path = Path(self._path)
            await self.host.editor.edit_file(path)
            await self._memory.notes.reread()
        self._report_fault(fault)

    def _report_fault(self, fault: MemoryFault | None) -> None:
        if self.is_mounted:
            self.report(fault_words(fault, self._path, self.words) if fault else "")
            self.read_again()

    # --- what it says -----------------------------------------------------------------------

    def heading(self) -> str:
        return f"{self.words('memory.title')}  {visible_line(self._path)}"

    def empty(self) -> str:
        return self._said or self.words("memory.none")

    def names(self) -> Sequence[str]:
        return [str(line.number) for line in self._lines]

    def item(self, name: str, width: int) -> Row:
        line = self._line(name)
        if line is None:
            return []
        palette = palette_of(self)
        kinds = [self.words(f"memory.kind.{kind}") for kind in ("worked", "failed", "preference")]
        column = max(cell_len(kind) for kind in kinds)
        kind = self.words(f"memory.kind.{line.kind}") if line.kind else "–"
        right = f"  {visible_line(line.on)} " if line.on else " "
        room = max(1, width - column - 2 - cell_len(right))
        left = [
            Segment(f"{pad(kind, column)}  ", ink(_colour(line, palette))),
            Segment(fit(visible_line(line.text), room), ink(palette.text)),
        ]
        return two_sided(left, [Segment(right, ink(palette.faint))], width)

    def about(self, name: str, width: int) -> list[Row]:
        palette = palette_of(self)
        if self.asked:
            return rows_of([(self.words("memory.delete_again"), ink(palette.accent))], width)
        return self.said_rows(width)

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        line = self._line(name)
        if line is None:
            return []
        palette, words = palette_of(self), self.words
        under = words(f"memory.heading.{line.kind}") if line.kind else words("memory.own")
        facts = [("under", under), ("at", visible_line(line.on) or "–"), ("file", self._path)]
        rows = [*rows_of([(make_visible(line.text), ink(palette.text))], width), Row()]
        column = max(cell_len(words(f"memory.{name}")) for name, _ in facts)
        for fact, text in facts:
            lead = f"{pad(words(f'memory.{fact}'), column)}  "
            part = rows_of(
                [(make_visible(text), ink(palette.quiet))], max(8, width - cell_len(lead))
            )
            rows += prefixed(part, (lead, ink(palette.faint)))
        return rows

    def _line(self, name: str) -> MemoryLine | None:
        return next((line for line in self._lines if str(line.number) == name), None)


def _colour(line: MemoryLine, palette: Palette) -> str:
    match line.kind:
        case "worked":
            return palette.good
        case "failed":
            return palette.bad
        case "preference":
            return palette.accent
        case None:
            return palette.faint
