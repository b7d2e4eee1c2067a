"""What of a screen is drawn in tests. There is no terminal, and drawing was a third of their time:
a screen is drawn when a test looks at it. Where a question stands on it, that counts what was in
sight: what counts is drawn with each change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual._compositor import Compositor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from duckflow_tui.ui.panes.column_view import ColumnView
from duckflow_tui.ui.panes.composer import Composer
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.request import RequestView

#: As Textual has it: every change is drawn.
all_of_it: Callable[..., Any] = vars(Compositor)["render_update"]

_render_chops: Callable[..., Any] = vars(Compositor)["_render_chops"]
_counting = False  # a screen is drawn for those who count what is in sight, and nobody else


def install() -> None:
    """Draw so from now on."""
    changed: list[tuple[Any, str, Any]] = [
        (Compositor, "render_update", _when_asked),
        (Compositor, "_render_chops", _chops_to_be_shown),
    ]
    for kind in (Widget, Composer, ColumnView):
        changed.append((kind, "render_lines", _lines_to_be_shown(vars(kind)["render_lines"])))
    for kind, name, how in changed:
        setattr(kind, name, how)  # Textual has no switch for it


def what_counts(self: Compositor, full: bool = False, **how: Any) -> Any:
    """Ask the widgets for what a drawing would, and make no picture of it. Where a screen lies
    over another, all is drawn.
    """
    global _counting
    screen: Any = self.root
    if full or screen is None or len(screen.app.screen_stack) > 1:
        return all_of_it(self, full, **how)
    _counting = True
    try:
        all_of_it(self, **how)
    finally:
        _counting = False
    return None


def _when_asked(self: Compositor, full: bool = False, **how: Any) -> Any:
    if full or _asks(self.root):
        return what_counts(self, full, **how)
    self._dirty_regions.clear()  # pyright: ignore[reportPrivateUsage]
    return None


def _asks(screen: Any) -> bool:
    """Whether a question stands on the screen or behind it."""
    if screen is None:
        return False
    if not hasattr(screen.app, "bench"):  # an app of tests: of a question alone, or of none
        return hasattr(screen.app, "card")
    return screen.app.bench.talk.open_question is not None


def _chops_to_be_shown(self: Compositor, crop: Region, *how: Any) -> Any:
    if not _counting:
        return _render_chops(self, crop, *how)
    for _ in self._get_renders(crop):  # pyright: ignore[reportPrivateUsage]
        pass
    return []


def _lines_to_be_shown(render_lines: Callable[..., list[Strip]]) -> Any:
    def lines(self: Widget, crop: Region) -> list[Strip]:
        if not _counting or isinstance(self, (DiffView, RequestView)):
            return render_lines(self, crop)
        return [Strip.blank(crop.width)] * crop.height

    return lines
