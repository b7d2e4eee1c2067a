"""Where a path really leads: one component after the other, links counted and remembered (R02)."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections import deque
from dataclasses import dataclass, field

from duckflow_tui.safety.place import PathRefused

MAX_LINKS = 40  # as Linux counts them
MAX_PATH = 4096  # bytes

#: (device, inode)
Identity = tuple[int, int]


@dataclass(frozen=True)
class Spot:
    """A location without links: names from ``/`` on, with the identity of those that exist."""

    names: tuple[str, ...]
    ids: tuple[Identity | None, ...]

    @property
    def path(self) -> str:
        """Absolute."""
        return "/" + "/".join(self.names)


@dataclass
class Walk:
    """The end of a path, and every link that was followed to get there."""

    end: Spot
    at: Spot  # where the last name of the path lies; differs from ``end`` when it is a link
    links: list[Spot] = field(default_factory=list[Spot])
    missing: int = 0  # how many of the last names do not exist
    info: os.stat_result | None = None  # of the end, None while absent


def walk(start: Spot, path: str, shown: str) -> Walk:
    """Follow ``path`` from ``start`` as the system would. Raises PathRefused."""
    pending = deque(path.split("/"))
    names, ids = list(start.names), list(start.ids)
    if path.startswith("/"):
        names, ids = [], []
    links: list[Spot] = []
    at: Spot | None = None
    missing = 0
    info: os.stat_result | None = None
    while pending:
        name = pending.popleft()
        if name in ("", "."):
            continue
        if info is not None and not stat.S_ISDIR(info.st_mode):
            raise PathRefused("not_a_directory", shown)
        if name == "..":
            if missing:
                raise PathRefused("parent_of_missing", shown)
            del names[-1:], ids[-1:]
            info = None
            continue
        if missing:
            names.append(name)
            ids.append(None)
            missing += 1
            continue
        here = "/" + "/".join(names)
        name, info = _look(here, name, shown)
        if info is None:
            names.append(name)
            ids.append(None)
            missing = 1
            continue
        spot = Spot((*names, name), (*ids, (info.st_dev, info.st_ino)))
        if not stat.S_ISLNK(info.st_mode):
            names.append(name)
            ids.append(spot.ids[-1])
            continue
        links.append(spot)
        if len(links) > MAX_LINKS:
            raise PathRefused("link_loop", shown)
        if at is None and not any(rest not in ("", ".") for rest in pending):
            at = spot
        target = _read_link(spot.path, shown)
        if target.startswith("/"):
            names, ids = [], []
        pending.extendleft(reversed(target.split("/")))
        info = None
    end = Spot(tuple(names), tuple(ids))
    if info is None and not missing:
        info = _stat(end.path, shown)
        if info is None:
            raise PathRefused("moved", shown)
    return Walk(end=end, at=at or end, links=links, missing=missing, info=info)


def _look(directory: str, name: str, shown: str) -> tuple[str, os.stat_result | None]:
    """The entry, under the spelling that the directory has it in."""
    info = _stat(f"{directory}/{name}" if directory != "/" else f"/{name}", shown)
    if info is not None or name.isascii():
        return name, info
    wanted = unicodedata.normalize("NFC", name)
    try:
        entries = os.listdir(directory)
    except OSError:
        return name, None
    twins = [e for e in entries if unicodedata.normalize("NFC", e) == wanted]
    if len(twins) > 1:
        raise PathRefused("ambiguous", shown)
    if not twins:
        return name, None
    return twins[0], _stat(f"{directory}/{twins[0]}", shown)


def _stat(path: str, shown: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError as error:
        code = _CODES.get(error.errno or 0, "unreadable")
        if code == "absent":
            return None
        raise PathRefused(code, shown) from error


def _read_link(path: str, shown: str) -> str:
    try:
        return os.readlink(path)
    except OSError as error:
        raise PathRefused("moved", shown) from error


_CODES = {
    errno.ENOENT: "absent",
    errno.ENOTDIR: "not_a_directory",
    errno.ELOOP: "link_loop",
    errno.ENAMETOOLONG: "too_long",
}
