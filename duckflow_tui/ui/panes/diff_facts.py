"""What the lines around a diff say of it: its heading, and what of it is not on screen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiffHeading:
    """What the title of the pane says; numbers count from 1, 0 where there is none."""

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
    """What of a diff is not on screen, in lines of files and in files."""

    lines_above: int = 0
    lines_below: int = 0
    files_below: int = 0
