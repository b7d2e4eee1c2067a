"""Listing a directory by descriptor: links are named, never followed."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from duckflow_tui.safety.names import holds_secrets, is_protected, is_secret_name, lies_in_secrets
from duckflow_tui.safety.place import Entry, Kind, Place
from duckflow_tui.safety.zones import ZoneMap
from duckflow_tui.state.operations import Zone

#: Our own unfinished files; never listed.
TEMP_PREFIX = ".duckflow-"
TEMP_SUFFIX = ".tmp"

log = logging.getLogger("duckflow.safety")


@dataclass(frozen=True)
class _Level:
    """A directory that is being listed, and what of it is still to come."""

    fd: int
    name: str
    prefix: str
    secret: bool  # everything in it is
    names: Iterator[os.DirEntry[str]]


def scan_below(
    directory: int,
    place: Place,
    *,
    depth: int | None,
    enter: Callable[[Entry], bool] | None,
    sizes: bool,
    zones: ZoneMap,
) -> Generator[Entry]:
    """The entries below an open directory, which is closed at the end."""
    base = "" if place.resolved == "." else place.resolved.rstrip("/") + "/"
    outside = place.zone is Zone.OUTSIDE
    secret = lies_in_secrets(place.resolved.split("/"))
    levels = [_level(directory, place.real.name, base, secret)]
    try:
        while levels:
            here = levels[-1]
            found = next(here.names, None)
            if found is None:
                os.close(levels.pop().fd)
                continue
            entry = _entry(found, here, len(levels), outside, sizes, zones)
            if entry is None:
                continue
            yield entry
            if entry.kind is not Kind.DIR or entry.zone is Zone.PROTECTED:
                continue
            if (depth is not None and len(levels) >= depth) or (enter and not enter(entry)):
                continue
            below = _open_below(here.fd, entry)
            if below is not None:
                secret = here.secret or holds_secrets(entry.name, here.name)
                levels.append(_level(below, entry.name, entry.path + "/", secret))
    finally:
        for level in levels:
            os.close(level.fd)


def _level(fd: int, name: str, prefix: str, secret: bool) -> _Level:
    try:
        with os.scandir(fd) as found:
            names = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        log.warning("cannot list %s: %s", prefix or ".", error.strerror)
        names = []
    return _Level(fd, name, prefix, secret, iter(names))


def _open_below(fd: int, entry: Entry) -> int | None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(entry.name, flags, dir_fd=fd)
    except OSError as error:
        log.warning("cannot list %s: %s", entry.path, error.strerror)
        return None


def _entry(
    found: os.DirEntry[str], here: _Level, depth: int, outside: bool, sizes: bool, zones: ZoneMap
) -> Entry | None:
    name = found.name
    if name.startswith(TEMP_PREFIX) and name.endswith(TEMP_SUFFIX):
        return None
    path = here.prefix + name
    size = 0
    shared = False
    if found.is_symlink():
        kind = Kind.LINK
    elif found.is_dir(follow_symlinks=False):
        kind = Kind.DIR
    elif not found.is_file(follow_symlinks=False):
        kind = Kind.SPECIAL
    else:
        kind = Kind.FILE
        if sizes:
            try:
                info = os.stat(name, dir_fd=here.fd, follow_symlinks=False)
            except FileNotFoundError:
                return None
            if not stat.S_ISREG(info.st_mode):
                return None
            size = info.st_size
            shared = info.st_nlink > 1 and zones.shares_protected_inode((info.st_dev, info.st_ino))
    own = kind is Kind.DIR and zones.is_own(path, outside)
    if is_protected(name) or shared or own:
        zone = Zone.PROTECTED
    elif outside:
        zone = Zone.OUTSIDE
    elif here.secret or is_secret_name(name, here.name):
        zone = Zone.SECRET
    else:
        zone = Zone.INSIDE
    return Entry(path, name, kind, zone, size, depth)
