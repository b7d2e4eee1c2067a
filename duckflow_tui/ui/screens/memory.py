"""``/memory``: what is noted on the project over its sessions, and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import SafeText, make_visible, visible_line
from duckflow_tui.tools.memory import MemoryFault, MemoryLine
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, prefix_rows, rows_of
from duckflow_tui.ui.screens.list_page import PageAction, StateSource
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine


def fault_words(fault: MemoryFault, path: str, words: Catalogue) -> SafeText:
    """Why a line was not noted or removed."""
    return words(f"memory.fault.{fault.code}", path=path, detail=fault.detail)


class MemorySource(StateSource):
    """The notes on the project in the order of their file."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.store)
        self._memory = engine.memory
        self._path = engine.memory.notes.path
        self._lines: tuple[MemoryLine, ...] = ()

    def on_open(self) -> None:
        self.page.run_worker(self._read_notes(), exclusive=True, exit_on_error=False)

    async def _read_notes(self) -> None:
        try:
            self._lines = await self._memory.notes.list_lines()
        except MemoryFault as fault:
            self._lines = ()
            self.page.report(fault_words(fault, self._path, self.words))
        self.page.invalidate()

    def list_actions(self, row_id: str) -> Sequence[PageAction]:
        words, line = self.words, self._find_line(row_id)
        edit = self.make_action(
            "keys.memory_edit", lambda: self.host.spawn(self._edit_file(), "editor")
        )
        if line is None:
            return (edit,)

        def delete() -> None:
            self.host.spawn(self._delete_line(line), "memory")

        asks = words("memory.delete_again")
        return (
            self.make_action("keys.memory_delete", lambda: self.page.ask_first(asks, delete)),
            edit,
        )

    async def _delete_line(self, line: MemoryLine) -> None:
        self._report_fault(await self._memory.remove_line(line))

    async def _edit_file(self) -> None:
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
        if self.page.is_mounted:
            self.page.report(fault_words(fault, self._path, self.words) if fault else "")
            self.on_open()

    def get_title(self) -> str:
        return f"{self.words('memory.title')}  {visible_line(self._path)}"

    def get_empty_text(self) -> str:
        return self.words("memory.none")

    def list_ids(self) -> Sequence[str]:
        return [str(line.number) for line in self._lines]

    def render_row(self, row_id: str, width: int) -> Row:
        line = self._find_line(row_id)
        if line is None:
            return []
        palette = self.palette
        kinds = [self.words(f"memory.kind.{kind}") for kind in ("worked", "failed", "preference")]
        column = max(cell_len(kind) for kind in kinds)
        kind = self.words(f"memory.kind.{line.kind}") if line.kind else "–"
        right = f"  {visible_line(line.on)} " if line.on else " "
        room = max(1, width - column - 2 - cell_len(right))
        left = [
            Segment(f"{pad(kind, column)}  ", ink(_pick_colour(line, palette))),
            Segment(fit(visible_line(line.text), room), ink(palette.text)),
        ]
        return two_sided(left, [Segment(right, ink(palette.faint))], width)

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        line = self._find_line(row_id)
        if line is None:
            return []
        palette, words = self.palette, self.words
        under = words(f"memory.heading.{line.kind}") if line.kind else words("memory.own")
        facts = [("under", under), ("at", visible_line(line.on) or "–"), ("file", self._path)]
        rows = [*rows_of([(make_visible(line.text), ink(palette.text))], width), Row()]
        column = max(cell_len(words(f"memory.{row_id}")) for row_id, _ in facts)
        for fact, text in facts:
            lead = f"{pad(words(f'memory.{fact}'), column)}  "
            part = rows_of(
                [(make_visible(text), ink(palette.quiet))], max(8, width - cell_len(lead))
            )
            rows += prefix_rows(part, (lead, ink(palette.faint)))
        return rows

    def _find_line(self, name: str) -> MemoryLine | None:
        return next((line for line in self._lines if str(line.number) == name), None)


def _pick_colour(line: MemoryLine, palette: Palette) -> str:
    match line.kind:
        case "worked":
            return palette.good
        case "failed":
            return palette.bad
        case "preference":
            return palette.accent
        case None:
            return palette.faint
