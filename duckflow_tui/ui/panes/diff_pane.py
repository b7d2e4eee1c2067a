"""The diff with what stands around it: the title's text, what is off screen, the keys."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import var
from textual.widgets import Static

from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.i18n import Catalogue
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.diff_pen import counted
from duckflow_tui.ui.panes.diff_rows import DiffDocument
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.ui.panes.theme_palette import palette_of

_FEWEST_HINTS = 3  # lines of room below which the keys give way to the diff itself


class DiffPane(Vertical):
    """A DiffView above one line that counts what is not on screen and names the keys."""

    words: var[Catalogue] = var(Catalogue)

    def __init__(self, *, focusable: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self.view = DiffView(focusable=focusable)
        self._foot = Static(classes="diff-foot", markup=False)

    def compose(self) -> ComposeResult:
        yield self.view
        yield self._foot

    def show(self, document: DiffDocument) -> None:
        """Show another document from its start."""
        self.view.show(document)

    def height_for(self, width: int) -> int:
        """Lines that the whole document and the line below take at this width."""
        return self.view.height_for(width) + 1

    def title(self, width: int) -> Text:
        """``Diff  src/shop/pricing.py  +3 −2  hunk 1/1`` in at most ``width`` cells.

        The path gives way first, at its beginning.
        """
        palette = palette_of(self)
        heading = self.view.heading
        text = Text(self.words("diff.title"), style=f"bold {palette.accent}", no_wrap=True)
        if not heading.files:
            return text
        facts = [f"+{heading.added} −{heading.removed}"]
        if heading.hunks:
            facts.append(self.words("diff.hunk", number=heading.hunk, total=heading.hunks))
        if heading.left_out:
            facts.append(self.words("diff.left_out"))
        rest = "".join(f"  {fact}" for fact in facts)
        room = width - text.cell_len - 2 - Text(rest).cell_len
        text.append("  ")
        text.append(fit(heading.path, max(room, 8), keep="end"), style=f"bold {palette.text}")
        text.append(rest, style=palette.quiet)
        text.truncate(max(1, width), overflow="ellipsis")
        return text

    def watch_words(self, words: Catalogue) -> None:
        self.view.words = words
        self._say()

    def on_resize(self) -> None:
        self._say()

    def on_diff_view_changed(self) -> None:
        self._say()

    def _say(self) -> None:
        if self.is_attached:
            text = self._foot_text(palette_of(self))
            self._foot.update(text, layout=False)

    def _foot_text(self, palette: Palette) -> Text:
        off = self.view.off_screen
        text = Text(" ", no_wrap=True, overflow="ellipsis", end="")
        counts: list[str] = []
        if off.lines_above:
            counts.append(self.words("diff.above", lines=off.lines_above))
        if off.lines_below:
            counts.append(counted(self.words, "diff.more", off.lines_below))
        if off.files_below:
            counts.append(counted(self.words, "diff.more_files", off.files_below))
        text.append(", ".join(counts), style=palette.quiet)
        if self.view.document.previews and self.view.size.height >= _FEWEST_HINTS:
            text.append("   " if counts else " ")
            text.append(self._hints(), style=palette.faint)
        return text

    def _hints(self) -> str:
        heading = self.view.heading
        hints: list[str] = []
        labels = {key.action: key.label for key in keys_of("diff")}
        if heading.hunks > 1:
            pair = f"{labels['next_hunk']} {labels['previous_hunk']}"
            hints.append(f"{pair} {self.words('diff.hint_hunks')}")
        if heading.can_leave:
            hints.append(f"{labels['toggle_hunk']} {self.words('diff.hint_toggle')}")
        split = "diff.hint_unified" if self.view.split else "diff.hint_split"
        wrap = "diff.hint_cut" if self.view.wrap else "diff.hint_wrap"
        hints.append(f"{labels['toggle_split']} {self.words(split)}")
        hints.append(f"{labels['toggle_wrap']} {self.words(wrap)}")
        return "  ".join(hints)
