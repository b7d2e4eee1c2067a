"""``/doctor``: whether this machine has everything the program uses, and how to mend it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.ui.panes.strips import Row, fit, pad
from duckflow_tui.ui.screens.list_source import ListSource, color_parts

#: Name, state, what was found, and the fix where it is not sound.
Found = tuple[str, str, str, str]

_MARKS: Final = {"ok": "✓", "missing": "!", "broken": "✗"}


class HealthSource(ListSource[Found]):
    """The checks in order, each shown as soon as it is done."""

    TITLE: ClassVar[str] = "doctor.title"

    def __init__(self, checks: Iterator[Found]) -> None:
        """``checks`` is iterated in a thread, because a check may wait for a program or a
        server.
        """
        self._checks = checks
        self._found: dict[str, Found] = {}
        self._done = False

    def on_open(self) -> None:
        """Start the checks."""
        self.page.run_worker(self._run_checks, exit_on_error=False)

    async def _run_checks(self) -> None:
        """Run the checks one by one and show each; put the cursor on the first broken one."""
        while (check := await asyncio.to_thread(next, self._checks, None)) is not None:
            self._found[f"{len(self._found)}"] = check
            self.page.invalidate()
        self._done = True
        worst = next((at for at, check in self._found.items() if check[1] == "broken"), "")
        if worst and self.page.chosen_id == "0":
            self.page.choose(worst)
        self.page.invalidate()

    def render_head(self, width: int) -> list[Row]:
        """Render the summary: checking, broken or in order."""
        broken = sum(check[1] == "broken" for check in self._found.values())
        key = "looking" if not self._done else "broken" if broken else "sound"
        colour = self.palette.bad if broken else self.palette.quiet
        return [*self.wrap_text(self.words(f"doctor.{key}", count=broken), width, colour), []]

    def list_items(self) -> Mapping[str, Found]:
        return self._found

    def render_row(self, item: Found, width: int) -> Row:
        palette = self.palette
        what, state, found, _ = item
        colours = {"ok": palette.good, "missing": palette.accent, "broken": palette.bad}
        names = [self.words(f"doctor.name.{check[0]}") for check in self._found.values()]
        column = max(map(cell_len, names))
        room = width - column - 4
        about = f"  {fit(visible_line(found), room)}" if room > 0 else ""
        name = pad(self.words(f"doctor.name.{what}"), column)
        return color_parts(
            [(f"{_MARKS[state]} ", colours[state]), (name, palette.text), (about, palette.quiet)]
        )

    def render_detail(self, item: Found, width: int, room: int) -> list[Row]:
        """Render the complete finding, and how to mend it."""
        _, _, found, fix = item
        rows = self.wrap_text(make_visible(found), width, self.palette.text)
        return rows + (self.wrap_text(make_visible(fix), width, self.palette.accent) if fix else [])
