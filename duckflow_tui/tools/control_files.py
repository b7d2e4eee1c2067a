"""Tells the user which files that other programs act on (hooks, settings, build files) changed
while a command ran.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from duckflow_tui.state.base import ELLIPSIS, hash_data, name_files, one_line
from duckflow_tui.state.conversation import Level
from duckflow_tui.tools.notices import Notices
from duckflow_tui.tools.operation import Written
from duckflow_tui.tools.snapshot import Before, FileCopies, Stamps

_ALONE: Final = 3  # files of one group that are named one by one
_MAX_BYTES: Final = 64_000_000  # read of a file of stamps


class PendingLook(NamedTuple):
    """A started command whose changes were not told yet, and the stamps of files before it.
    ``file`` is an open, locked descriptor of ``path``, where these are stored.
    """

    command: str
    stamps: Stamps
    path: Path
    file: int


class ObeyedFiles:
    """Compares the files that other programs act on before and after a command.

    The stamps before it are stored in a file until the user was told, so that the next session can
    tell of commands whose end this one did not see: stopped in a hurry, closed or killed.
    """

    def __init__(self, copies: FileCopies, notices: Notices, folder: Path, root: Path) -> None:
        """``folder`` stores the stamps, also of other workspaces; ``root`` is the workspace."""
        self._copies = copies
        self._notices = notices
        self._folder = folder
        self._start = f"{hash_data(os.fsencode(root))[:32]}-"
        self._open = set[int]()  # descriptors of pending looks
        self._told = set[str]()  # ignored folders that were named already

    async def begin(self, command: str, before: Before) -> PendingLook | None:
        """Store the stamps before a command; None where they cannot be stored."""
        look = await asyncio.to_thread(self._begin, command, before)
        if look is not None:
            self._open.add(look.file)
        return look

    async def tell(self, look: PendingLook, written: Written | None = None) -> None:
        """Tell the user by a notice which files the command changed, and delete the stored stamps.
        ``written`` None: find them by a comparison with the disk. Each ignored folder is named
        once in a session, as caches change with every run.
        """
        if written is None:
            written = await self._copies.find_obeyed(look.stamps)
        ignored = {path: _find_group(path, top) for path, top in written.files.items() if top}
        again = {path for path, group in ignored.items() if group in self._told}
        self._told.update(ignored.values())
        left = {path: top for path, top in written.files.items() if path not in again}
        written = written._replace(files=left)
        if written.files or not written.whole:
            loud = "" in written.files.values() or not written.whole
            level = Level.WARNING if loud else Level.INFO
            command = one_line(look.command, 100)
            paths = _group_paths(written)
            self._notices.say("processes.obeyed_written", level, command=command, paths=paths)
        if look.file in self._open:
            self._open.remove(look.file)
            await asyncio.to_thread(_forget, look)

    def close(self) -> None:
        """Release the stored stamps of unfinished commands; the next session tells of them."""
        while self._open:
            os.close(self._open.pop())

    async def tell_left(self) -> None:
        """Tell the user what changed since commands of earlier sessions began whose end no session
        saw.
        """
        left = await asyncio.to_thread(self._find_left)
        self._open.update(look.file for look in left)
        for look in left:
            await self.tell(look)

    def _begin(self, command: str, before: Before) -> PendingLook | None:
        """Write command and stamps to a new locked file; None on an OSError. Blocking."""
        stamps = before.look.stamps_of_obeyed
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file, path = tempfile.mkstemp(prefix=self._start, dir=self._folder)
        except OSError:
            return None
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kept = {"command": command, "stamps": stamps.files, "cut_at": stamps.cut_at}
            text = json.dumps(kept, ensure_ascii=True)
            with open(os.dup(file), "w", encoding="ascii") as out:
                out.write(text)
        return PendingLook(command, stamps, Path(path), file)

    def _find_left(self) -> list[PendingLook]:
        """Return the looks of dead sessions, locked for this one; damaged files are deleted.
        Blocking.
        """
        found: list[PendingLook] = []
        for path in self._folder.glob(f"{self._start}*"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                look = PendingLook("", Stamps({}), path, file)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:  # its session is alive and tells of it
                    os.close(file)
                    continue
                try:
                    with open(os.dup(file), encoding="ascii") as text:
                        told = json.loads(text.read(_MAX_BYTES))
                    stamps = Stamps.from_json(told["stamps"], told["cut_at"])
                    look = look._replace(command=told["command"], stamps=stamps)
                except BaseException:  # damaged
                    _forget(look)
                    raise
                found.append(look)
        return found


def _forget(look: PendingLook) -> None:
    """Delete the stored stamps and close their file."""
    with contextlib.suppress(OSError):
        look.path.unlink(missing_ok=True)
    os.close(look.file)


def _find_group(path: str, top: str) -> str:
    """Return the outermost folder in a path whose name begins with a dot; else the ignored folder
    ``top``; else the path itself.
    """
    parts = path.split("/")
    dots = [at for at, part in enumerate(parts[:-1], 1) if part[0] == "." and part != ".."]
    return "/".join(parts[: min(dots, default=0)]) or top or path


def _group_paths(written: Written) -> str:
    """Return the files on one line; more than three in one group of ``_find_group`` as that folder
    and their number.
    """
    groups: dict[str, list[str]] = {}
    tops = written.files
    for path in sorted(tops, key=lambda path: (tops[path] != "", path)):
        groups.setdefault(_find_group(path, tops[path]), []).append(path)
    shown = list[str]()
    for top, paths in groups.items():
        shown += paths if len(paths) <= _ALONE else [f"{top}/ ({len(paths):,})"]
    named = [name_files(shown)] if shown else []
    return ", ".join([*named, *([] if written.whole else [ELLIPSIS])])
