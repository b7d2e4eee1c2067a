"""The widget that shows diffs; it draws only the lines in view."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import var
from textual.selection import Selection
from textual.strip import Strip

from duckflow_tui.ui.host import bind_keys
from duckflow_tui.ui.panes.diff_document import (
    NARROWEST_SPLIT,
    DiffDocument,
    DiffLayout,
    Whole,
    shown_path,
)
from duckflow_tui.ui.panes.diff_paint import (
    DiffRenderer,
    before_note,
    caption_text,
    selected_text,
    shift_row,
)
from duckflow_tui.ui.panes.rows import LineView, palette_of
from duckflow_tui.ui.panes.search import Search
from duckflow_tui.ui.panes.strips import Span, fit, ink, mark_selection, pad


@dataclass(frozen=True, slots=True)
class DiffHeading:
    """The facts of the pane's title; numbers count from 1, 0 for none."""

    path: str = ""  # safe to show
    added: int = 0
    removed: int = 0
    hunk: int = 0
    hunks: int = 0
    files: int = 0
    left_out: bool = False  # the hunk at hand
    can_leave: bool = False


@dataclass(frozen=True, slots=True)
class OffScreen:
    """How much of a diff is not on screen, in lines of files and in files."""

    lines_above: int = 0
    lines_below: int = 0
    files_below: int = 0


class DiffView(LineView, can_focus=True):
    """Shows previews of file changes with line numbers, marks and colours (S4-61).

    Long lines wrap unless the user turns that off. Lines off screen are counted, and what was on
    screen is recorded in the document (R14).
    """

    BINDINGS: ClassVar[list[BindingType]] = bind_keys("diff")

    class Arranged(Message):
        """The user switched side-by-side or wrapping; all diff views follow."""

        def __init__(self, *, split: bool, wrap: bool) -> None:
            super().__init__()
            self.split = split
            self.wrap = wrap

    split: var[bool] = var(False)
    wrap: var[bool] = var(True)

    def __init__(
        self,
        *,
        focusable: bool = True,
    ) -> None:
        super().__init__()
        self.can_focus = focusable
        self.document = DiffDocument()
        self._layout_now: DiffLayout | None = None
        self._measured: DiffLayout | None = None  # at a width that was only asked about
        self._renderer_now: DiffRenderer | None = None
        self._search = Search[tuple[int, Span]]()
        self.at = 0  # the hunk at hand, an index of document.hunks
        self._finding = False  # the first change is yet to be scrolled to
        self.refused = ""  # why the last key did nothing: a key of the catalogue
        self.changing = False  # those who listen are yet to be told
        self.write_remark: Callable[[], None] | None = None  # where the pane has a line to write in
        self.bare = False  # without what the title of a gate says, which stands right above
        self.lines_beside: Callable[[int], int] = lambda width: 0  # of what stands around it
        self._listeners: list[Callable[[], None]] = []

    # what it shows

    def show(self, document: DiffDocument, *, at_change: bool = False, at: int = 0) -> None:
        """Show a document from its start, from hunk ``at``, or with ``at_change`` from its first
        change where room is short.
        """
        self.document = document
        self.at, self.refused = at, ""
        self._search = Search[tuple[int, Span]]()
        self.invalidate()
        self.scroll_to(0, 0, animate=False)
        self._finding = bool(document.rows) and (at_change or at > 0)
        if self._finding:
            self.call_after_refresh(self._find_change)

    def invalidate(self, *, layout: bool = True) -> None:
        """Lay out and draw everything again, keeping the row at the top of the view."""
        if not self.is_attached:
            return
        old = self._layout_now
        row = -1
        if old is not None and old.document is self.document and old.count:
            left, right = old.entry_at(old.find_entry(min(self.scroll_offset.y, old.height - 1))[0])
            row = left if left >= 0 else right
        self._layout_now = self._measured = self._renderer_now = None
        made = self._laid_out
        if row >= 0 and self.scroll_offset.y:
            self.scroll_to(y=made.top_of(row), animate=False)
        self.refresh(layout=layout)
        self._announce_later()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the current hunk changes, when more was seen, and when a hunk is
        left out or taken again.
        """
        self._listeners.append(callback)

    def announce_change(self) -> None:
        """Call the callbacks of ``on_change`` now, so that counts elsewhere are right in the same
        frame.
        """
        self.changing = False
        if self.is_attached:
            for tell in self._listeners:
                tell()

    @property
    def heading(self) -> DiffHeading:
        """The title's facts for the current hunk."""
        document = self.document
        if not document.previews:
            return DiffHeading()
        hunk = document.hunks[self.at] if document.hunks else None
        file = hunk.hunk_id[0] if hunk else 0
        added, removed = document.figures(file)
        return DiffHeading(
            path=shown_path(document.previews[file]),
            added=added,
            removed=removed,
            hunk=self.at + 1 if hunk else 0,
            hunks=len(document.hunks),
            files=len(document.previews),
            left_out=hunk is not None and hunk.hunk_id in document.left_out,
            can_leave=self.whole_reason is None,
        )

    @property
    def whole_reason(self) -> Whole | None:
        """Why the current hunk cannot be left out; None where it can."""
        hunks = self.document.hunks
        return self.document.find_whole_reason(hunks[self.at].hunk_id if hunks else None)

    @property
    def off_screen(self) -> OffScreen:
        """How much is above and below the view."""
        layout = self._laid_out
        if not self.scrollable_content_region.height:
            return OffScreen(lines_below=sum(self.document.weights))
        if not layout.count:
            return OffScreen()
        top = self.scroll_offset.y
        bottom = top + self.scrollable_content_region.height
        first, line = layout.find_entry(min(top, layout.height - 1))
        first += line > 0
        last = layout.find_entry(bottom)[0] if bottom < layout.height else layout.count
        starts = [layout.entry_of[row] for row in self.document.file_rows]
        return OffScreen(
            lines_above=layout.weights[first],
            lines_below=layout.weights[-1] - layout.weights[last],
            files_below=sum(1 for entry in starts if entry >= last),
        )

    @property
    def can_split(self) -> bool:
        """Whether there is room for both versions side by side."""
        return self.scrollable_content_region.width >= NARROWEST_SPLIT

    @property
    def is_split(self) -> bool:
        """Whether the versions are shown side by side."""
        return self.split and self.can_split

    def height_for(self, width: int) -> int:
        """Return the lines that the whole document takes at this width, with its scroll bar."""
        layout = self._lay_out(width - self.styles.scrollbar_size_vertical)
        return max(1, layout.height) + self._bar_lines(layout)

    def reveal_unseen(self) -> None:
        """Scroll to the first line that was not on screen, without skipping others."""
        row = next(iter(self.document.unseen_rows), -1)
        if row >= 0:
            across = 0 if self.wrap else self.document.seen.count_seen(row)
            self.scroll_to(across, self._lines_of(row)[0], animate=False)

    def unseen_lies(self) -> tuple[bool, bool]:
        """Return whether lines that were not on screen are above the view, and below it."""
        places = [self._lines_of(row) for row in self.document.unseen_rows]
        stop = self.first_line + self.lines_in_sight
        return any(a < self.first_line for a, _ in places), any(b > stop for _, b in places)

    def search(self, query: str, on_more: Callable[[], None] | None = None) -> int:
        """Mark every match of the query and return their number; an empty query ends the search.
        All are found at once, so ``on_more`` is never called.
        """
        self._search = Search[tuple[int, Span]](query)
        for index, row in enumerate(self.document.rows):
            matches = self._search.pattern.finditer(row.text)
            self._search.found += [(index, match.span()) for match in matches]
        self._renderer_now = None
        self.redraw()
        return len(self._search.found)

    @property
    def search_position(self) -> tuple[int, int]:
        """Return the number of the current match (from 1; 0 before the first step) and the number
        of all.
        """
        return self._search.position

    def next_match(self, step: int = 1) -> int:
        """Go to the next match below (1) or above (-1), wrapping around. Returns its number from 1;
        0 without matches.
        """
        match = self._search.step_to_match(step)
        self.redraw()
        if match is not None:
            row, (start, _) = match
            region = Region(0, self._laid_out.top_of(row, start), 1, 1)
            self.scroll_to_region(region, animate=False, force=True)
        return self._search.position[0]

    # keys

    # A jump that glides over lines would count them as seen (R14), so none does.

    def action_scroll_home(self) -> None:
        self.scroll_home(animate=False)

    def action_scroll_end(self) -> None:
        self.scroll_end(animate=False)

    def action_page_up(self) -> None:
        self.scroll_page_up(animate=False)

    def action_page_down(self) -> None:
        self.scroll_page_down(animate=False)

    def action_line(self, by: int) -> None:
        """Move the cursor a line down or up and scroll with it; without a pending question there is
        no cursor, only scrolling.
        """
        rows, here = self.document.lines, self.document.cursor
        if self.document.choosing and rows:
            if not self._in_sight(here):
                self.point_at(self.line_at_hand(last=by < 0))
            elif not self._is_cut(here, by):
                self.point_at(rows[min(max(bisect_left(rows, here) + by, 0), len(rows) - 1)])
        self.scroll_relative(y=by, animate=False)

    def action_remark(self) -> None:
        """Write a remark on the line at the cursor, or on the first change in view."""
        if self.write_remark is not None:
            self.write_remark()

    def point_at(self, row: int) -> None:
        """Move the cursor to a row, scroll it into view and make its hunk the current one; -1
        removes the cursor.
        """
        self.document.cursor, self.refused = row, ""
        if row < 0:
            return
        hunks = enumerate(self.document.hunks)
        self.at = next((n for n, hunk in hunks if hunk.first <= row <= hunk.last), self.at)
        self.redraw()
        self.reveal_lines(*self._lines_of(row))
        self._announce_later()

    def go_on_at(self, index: int) -> None:
        """Make a hunk the current one and show it, at the cursor if that is in it."""
        if self.document.hunks:
            hunk = self.document.hunks[index]
            if hunk.first <= self.document.cursor <= hunk.last:
                self.point_at(self.document.cursor)
            elif index != self.at:
                self._to_hunk(index)
        self._announce_later()  # more may have been seen, in another view

    def line_at_hand(self, *, last: bool = False) -> int:
        """Return the row at the cursor if it is in view, else the first change in view, else the
        first line (``last``: the last); -1 where no line of a file is in view.
        """
        here = self.document.cursor
        if self._in_sight(here):
            return here
        seen = [row for row in self.document.lines if self._in_sight(row)]
        if not seen or last:
            return seen[-1] if seen else -1
        return next((row for row in seen if self.document.rows[row].mark != " "), seen[0])

    def refuse(self, entry: str) -> None:
        """Show why the last key did nothing; ``entry`` is a key of the catalogue."""
        self.refused = entry
        self._announce_later()

    def action_next_hunk(self) -> None:
        self._to_hunk(self.at + 1)

    def action_previous_hunk(self) -> None:
        self._to_hunk(self.at - 1)

    def action_toggle_hunk(self) -> None:
        """Leave the current hunk out, or take it again; where that is not possible, say why until
        the next key.
        """
        whole = self.whole_reason
        self.refused = f"diff.whole.{whole}" if whole else ""
        if whole is None and self.document.toggle(self.document.hunks[self.at].hunk_id):
            self.invalidate()
        self._announce_later()

    def action_toggle_split(self) -> None:
        """Switch between one and two versions; where there is no room for two, say so until the
        next key.
        """
        self.refused = "" if self.can_split else "diff.too_narrow"
        if self.can_split:
            self.split = not self.split
            self.post_message(self.Arranged(split=self.split, wrap=self.wrap))
        self._announce_later()

    def action_toggle_wrap(self) -> None:
        self.refused = ""
        self.wrap = not self.wrap
        self.post_message(self.Arranged(split=self.split, wrap=self.wrap))

    # Textual

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked row, in either version."""
        layout, line = self._laid_out, self.first_line + event.y
        if not self.document.choosing or not 0 <= line < layout.height:
            return
        parts = layout.cells_on(line)
        part = parts[-1] if layout.split and event.x > layout.half else parts[0]
        if part.row >= 0 and not layout.is_caption(part.row):
            self.point_at(part.row)

    def watch_split(self) -> None:
        self.invalidate()

    def watch_wrap(self) -> None:
        self.invalidate()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.refused = ""
            self._follow_view()
            self._announce_later()

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_x(old_value, new_value)
        self._strips.clear()

    def on_resize(self) -> None:
        self.refused = ""
        if self._finding:
            self.call_after_refresh(self._find_change)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._renderer_now = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        most = max(0, container.height - self.lines_beside(width))
        bar = self.styles.scrollbar_size_horizontal  # Textual adds it, be there one or not
        if not self.document.previews:
            return most - bar
        layout = self._lay_out(width - self.styles.scrollbar_size_vertical)
        return min(max(1, layout.height) + self._bar_lines(layout), most) - bar

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selected_text(self._laid_out, self._current_renderer, self.words, selection), "\n"

    def line_count(self, width: int) -> int:
        return self._laid_out.height

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if self._laid_out.given_width != width:
            self._layout_now = None
        return super().render_line(y) if self._laid_out.count else self._empty_line(y, width)

    def on_screen(self, line: int) -> None:
        """Record the drawn line as seen; without wrapping only its visible part."""
        layout = self._laid_out
        if self._finding or line >= layout.height:
            return  # it is about to be scrolled away, or nothing
        news = False
        for part in layout.cells_on(line):
            if part.row < 0 or part.remark:
                continue
            row = self.document.rows[part.row]
            if layout.is_caption(part.row):
                ours = len(before_note(self.document, self.words, row))
                start, stop = (max(0, at - ours) for at in part.span)
            else:
                start, stop = layout.on_screen(part, self.scroll_offset.x)
            news |= self.document.seen.mark_seen(part.row, start, stop)
        if news:
            self._announce_later()

    # layout

    @property
    def _laid_out(self) -> DiffLayout:
        if self._layout_now is None:
            width = self.scrollable_content_region.width
            self._layout_now = layout = self._lay_out(width)
            self._strips.clear()
            # Scrolled as far as it goes, the longest line ends at the end of its side.
            wide = width + max(0, layout.longest - layout.room)
            self.virtual_size = Size(wide if layout.longest else width, layout.height)
        return self._layout_now

    def _bar_lines(self, layout: DiffLayout) -> int:
        """Return the lines that the horizontal scroll bar takes; 0 where no line is wider than the
        view.
        """
        return self.styles.scrollbar_size_horizontal if layout.longest > layout.room else 0

    def _lay_out(self, width: int) -> DiffLayout:
        for made in (self._layout_now, self._measured):
            if made is not None and made.document is self.document and made.given_width == width:
                return made
        document, words = self.document, self.words
        self._measured = DiffLayout(
            document,
            width,
            lambda row: caption_text(document, words, row),
            split=self.split,
            wraps=self.wrap,
            bare=self.bare,
        )
        return self._measured

    @property
    def _current_renderer(self) -> DiffRenderer:
        palette = palette_of(self)
        if self._renderer_now is None or self._renderer_now.palette is not palette:
            self._renderer_now = DiffRenderer(self.document, palette, self.words, self._search)
        return self._renderer_now

    def _follow_view(self) -> None:
        """Make a hunk in view the current one."""
        if not self.document.hunks:
            return
        top = self.scroll_offset.y
        bottom = top + self.scrollable_content_region.height
        first, last = self._lines_of_hunk(self.at)
        if first < bottom and last >= top:
            return
        count = len(self.document.hunks)
        self.at = next((n for n in range(count) if self._lines_of_hunk(n)[1] >= top), count - 1)
        self._strips.clear()

    def _lines_of_hunk(self, index: int) -> tuple[int, int]:
        """Return the first and the last line of a hunk."""
        hunk = self.document.hunks[index]
        layout = self._laid_out
        return layout.top_of(hunk.first), layout.tops[layout.entry_of[hunk.last] + 1] - 1

    def _lines_of(self, row: int) -> tuple[int, int]:
        """Return the first screen line of a row, and the line after its last."""
        layout = self._laid_out
        return layout.top_of(row), layout.tops[layout.entry_of[row] + 1]

    def _in_sight(self, row: int) -> bool:
        """Whether a part of a row is visible; False for a negative row."""
        if row < 0:
            return False
        top, stop = self._lines_of(row)
        return stop > self.first_line and top < self.first_line + self.lines_in_sight

    def _is_cut(self, row: int, by: int) -> bool:
        """Whether the row extends below the view, or above it for a negative ``by``."""
        top, stop = self._lines_of(row)
        above = top < self.first_line
        return above if by < 0 else stop > self.first_line + self.lines_in_sight

    def _to_hunk(self, index: int) -> None:
        """Make a hunk the current one; where room is short, context before its change is scrolled
        out.
        """
        document = self.document
        if not document.hunks:
            return
        self.at = min(max(index, 0), len(document.hunks) - 1)
        hunk = document.hunks[self.at]
        within = range(hunk.first, hunk.last + 1)
        change = next((n for n in within if document.rows[n].mark != " "), -1)
        if document.choosing and change >= 0:
            document.cursor = change
        self.refused = ""
        self.redraw()
        (top, end), first = self._lines_of_hunk(self.at), self._lines_of(max(change, hunk.first))[0]
        fits = end + 1 - self.scrollable_content_region.height
        self.scroll_to(y=min(first, max(top, fits)), animate=False)
        self._announce_later()

    def _find_change(self) -> None:
        """Scroll to the first change where the lines before it take most of the room or push the
        end of a change that fits out of view.
        """
        height = self.scrollable_content_region.height
        if not self._finding or height <= 0:
            return
        self._finding = False
        if self.at:
            at, self.at = self.at, 0
            self.go_on_at(at)
            self.refresh()
            return
        first, rows, layout = self.document.first_change, self.document.rows, self._laid_out
        line = layout.top_of(first)
        after = next((n for n in range(first, len(rows)) if rows[n].mark == " "), len(rows))
        end = layout.top_of(after) if after < len(rows) else layout.height
        several = bool(self.document.file_rows[1:])  # then a file's name stays
        hides_end = not several and end - line <= height < end
        if line > (height - 1 if several else height // 2) or hides_end:
            self.scroll_to(y=line, animate=False)
        self.refresh()

    def _announce_later(self) -> None:
        """Call the callbacks once, at the next refresh, for all changes until then."""
        if not self.changing and self.is_attached:
            self.changing = True
            self.call_after_refresh(self.announce_change)

    # drawing

    def draw_line(self, line: int, width: int) -> Strip:
        renderer, layout = self._current_renderer, self._laid_out
        if line >= layout.height:
            return Strip.blank(width, renderer.blank)
        parts = layout.cells_on(line)
        left = 0  # characters of the text that are scrolled out
        if layout.is_caption(parts[0].row):
            row, fill = renderer.caption_row(parts[0], width, self.at)
        elif layout.split:
            scrolled = 0 if layout.wraps else self.scroll_offset.x
            row, fill = renderer.both_sides(layout, parts, width, scrolled), renderer.blank
        else:
            row, fill = renderer.side(layout, parts[0], self.scroll_offset.x)
            left = 0 if layout.wraps else layout.on_screen(parts[0], self.scroll_offset.x)[0]
        over = ink(None, on=renderer.palette.selection)
        row = mark_selection(row, line, self.text_selection, over)
        return shift_row(row, left, line, width, fill, gutter=layout.gutter)

    def _empty_line(self, y: int, width: int) -> Strip:
        if y != 1:
            return Strip.blank(width, self._current_renderer.blank)
        text = fit("  " + self.words("diff.nothing"), width)
        style = self._current_renderer.blank + ink(self._current_renderer.palette.faint)
        return Strip([Segment(pad(text, width), style)])
