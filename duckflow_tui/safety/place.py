"""What a path turned out to be, and the ways in which touching one can fail."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from duckflow_tui.state.base import brief
from duckflow_tui.state.operations import Zone


class Kind(StrEnum):
    """What lies at a name. ``SPECIAL``: FIFO, socket, device; listed, never opened."""

    FILE = "file"
    DIR = "dir"
    LINK = "link"
    SPECIAL = "special"


@dataclass(frozen=True)
class Place:
    """A path as it was judged: the facts are those of the moment of ``locate``.

    ``zone`` is the strictest of the path itself and of every link on the way (R02).
    """

    given: str  # as asked for
    shown: str  # where the name lies: relative to the workspace inside, absolute outside
    resolved: str  # the same for ``real``; differs from ``shown`` behind a link
    real: Path  # absolute, no link in it
    zone: Zone
    exists: bool = False
    is_dir: bool = False
    is_link: bool = False  # the last name is a symbolic link, ``real`` is what it leads to
    leads_out: bool = False  # and that lies outside, while the link lies inside
    size: int = 0  # bytes of the file
    mode: int | None = None  # permission bits of the file
    secret: bool = False  # a secret's name, outside the workspace too
    reasons: tuple[str, ...] = ()  # codes: why the zone is what it is

    @property
    def said(self) -> str:
        """``shown`` as a sentence names it: what cannot be printed spelled out, not too long."""
        return brief(self.shown)

    @property
    def names_directory(self) -> bool:
        """Whether the path was written as one of a directory: ``new/`` or ``new/.``."""
        return self.given.endswith((os.sep, f"{os.sep}.")) or self.given == "."


class Entry(NamedTuple):
    """A name found by ``Workspace.scan``. A tuple, because there may be 100,000 of them."""

    path: str  # relative to the workspace, absolute for a place outside
    name: str
    kind: Kind
    zone: Zone
    size: int = 0  # bytes, of a file
    depth: int = 1  # 1 for what lies in the scanned directory itself


class WorkspaceError(Exception):
    """A path could not be used; ``str()`` is a sentence for the model.

    ``code`` is stable, ``shown`` names the path it failed on.
    """

    def __init__(self, code: str, shown: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.shown = shown


_REFUSALS: dict[str, str] = {
    "empty": "The path is empty.",
    "nul": "A path cannot hold a NUL character.",
    "encoding": "The path {shown} cannot be written in this system's encoding.",
    "too_long": "The path is longer than the system allows.",
    "parent_of_missing": "{shown} goes up from a directory that does not exist.",
    "ambiguous": "{shown} fits several names that look the same; list the directory.",
    "not_a_directory": "A part of {shown} is not a directory.",
    "link_loop": "{shown} leads through links that never end.",
    "unreadable": "{shown} lies behind a directory that cannot be looked into.",
    "odd_name": "{shown}: a new name may not end in a dot or a space, or hold control or "
    "invisible characters.",
    "special_file": "{shown} is not a regular file (a FIFO, a socket or a device).",
    "is_directory": "{shown} is a directory, not a file.",
    "not_directory": "{shown} is not a directory.",
    "is_link": "{shown} is a symbolic link; only regular files can be moved or deleted.",
    "link_out": "{shown} is a link that leads out of the workspace; name what it leads to.",
    "protected": "{shown} is protected and never touched by a file operation.",
    "moved": "{shown} is not what it was when it was looked at: a part of the path was replaced.",
    "too_large": "{shown} is too large to be read whole; ask for a range.",
    "same_file": "Source and target are the same file: {shown}.",
}


class PathRefused(WorkspaceError):
    """The path may not be used like this, whoever asks. ``code`` is one of the table above."""

    def __init__(self, code: str, shown: str) -> None:
        super().__init__(code, shown, _REFUSALS[code].format(shown=brief(shown)))


class ContentChanged(WorkspaceError):
    """The file is not the one that was shown (R15); nothing was changed.

    ``now_sha`` is the SHA-256 of what is there now, empty when nothing is.
    """

    def __init__(self, place: Place, now_sha: str) -> None:
        what = "changed" if now_sha else "is gone"
        super().__init__("content_changed", place.shown, f"{place.said} {what} since it was shown.")
        self.place = place
        self.now_sha = now_sha


class WorkspaceGone(WorkspaceError):
    """The workspace directory was deleted, renamed or replaced (R03)."""

    def __init__(self, root: Path) -> None:
        super().__init__(
            "workspace_gone", str(root), f"The workspace {root} was deleted, renamed or replaced."
        )


class FileFailed(WorkspaceError):
    """The system refused: not found, no space, read-only, an I/O error. Old bytes are intact.

    ``code`` is ``not_found``, ``exists``, ``no_space``, ``read_only``, ``no_permission``,
    ``other_device`` or ``io_error``; ``errno`` is the system's.
    """

    def __init__(self, doing: str, shown: str, error: OSError) -> None:
        number = error.errno or errno.EIO
        sentence = f"Cannot {doing} {brief(shown)}: {os.strerror(number)}."
        super().__init__(_CODES.get(number, "io_error"), shown, sentence)
        self.errno = number


_CODES: dict[int, str] = {
    errno.ENOENT: "not_found",
    errno.EEXIST: "exists",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "no_space",
    errno.EROFS: "read_only",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EXDEV: "other_device",
}


def failure(doing: str, place: Place, error: OSError) -> WorkspaceError:
    """What an OSError on a judged path means: a link where there was none, or a fault."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return PathRefused("moved", place.shown)
    return FileFailed(doing, place.shown, error)
