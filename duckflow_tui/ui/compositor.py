"""Textual's compositor, asking widgets only for lines that will be seen.

The stock one has every widget draw itself whole for each change, those too that lie behind others
or beside the change: of a key's ten milliseconds, more than half.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip


class LeanCompositor(Compositor):
    """Draws what the stock one draws.

    A line is a number with one bit for each cell. Widgets come from front to back: what is wanted
    of a line and no widget before has covered decides whether the next one is asked for it.
    """

    _wanted: dict[int, int] | None = None  # cells that changed, by line; None for all

    def render_partial_update(self) -> ChopsUpdate | None:
        wanted: dict[int, int] = {}
        for region in self._dirty_regions:
            cells = _cells(region)
            for y in region.line_range:
                wanted[y] = wanted.get(y, 0) | cells
        self._wanted = wanted
        try:
            return super().render_partial_update()
        finally:
            self._wanted = None

    def _get_renders(
        self, crop: Region | None = None
    ) -> Iterable[tuple[Region, Region, list[Strip]]]:
        screen = self.size.region if crop is None else crop.intersection(self.size.region)
        wanted = self._wanted
        if wanted is None:
            wanted = dict.fromkeys(screen.line_range, _cells(screen))
        open_cells = dict(wanted)
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip).intersection(screen)
            if not seen:
                continue
            place = region.intersection(clip)
            cells = _cells(place)
            lines = [y for y in seen.line_range if open_cells.get(y, 0) & cells]
            if not lines:
                continue
            rows = Region(0, lines[0], self.size.width, lines[-1] - lines[0] + 1)
            part = place.intersection(rows)
            strips = widget.render_lines(part.translate(-region.offset))
            # A widget that has not heard of its new size yet draws less than its place.
            for y, strip in zip(part.line_range, strips, strict=False):
                if y in open_cells:
                    drawn = min(strip.cell_length, part.width)
                    open_cells[y] &= ~_cells(Region(part.x, y, drawn, 1))
            yield region, clip.intersection(rows), strips
        # Textual cannot write a line in which a cell was drawn by nobody.
        left = [y for y, cells in open_cells.items() if cells and y in screen.line_range]
        if left:
            rows = Region(0, min(left), self.size.width, max(left) - min(left) + 1)
            blank = Strip.blank(self.size.width)
            yield self.size.region, rows, [blank] * rows.height


def _cells(region: Region) -> int:
    """A bit for each cell of a line that the region covers."""
    left = max(0, region.x)
    return ((1 << max(0, region.right - left)) - 1) << left
