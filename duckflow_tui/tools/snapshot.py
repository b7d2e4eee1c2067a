"""Finds the files a command changes, by looking at them before and after it, so that undo covers
it. Nothing of it touches the user's git.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

from duckflow_tui.safety.paths import DirectoryEntry, FileKind, WorkspaceError
from duckflow_tui.safety.workspace import MAX_READ, Workspace
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.gates import FilePreview
from duckflow_tui.state.operations import FileChange, Zone
from duckflow_tui.state.rewind import list_all_calls
from duckflow_tui.state.store import Store
from duckflow_tui.tools.changes import ChangeKind, PlannedChange
from duckflow_tui.tools.diffs import FileDiff, compare_files
from duckflow_tui.tools.listing import walk_parts
from duckflow_tui.tools.operation import RUN, Blobs, Touched
from duckflow_tui.tools.undo import place_of

MAX_FILE: Final = 1_000_000  # bytes of a file that is copied
LIMIT: Final = 100_000_000  # bytes of all copies
MAX_FILES: Final = 20_000  # that are looked at
MAX_SECONDS: Final = 3.0  # that one look may take; what it did not come to is not covered
MOST: Final = 500  # changes of one command that are covered
_COUNTED: Final = 64_000  # bytes of both sides, up to which lines are counted
SHOWN: Final = 2_000  # lines of the differences of one command that are kept to be shown
_TOO_MANY: Final = "too much to show"
_TAKEN: Final = "something else lies there now"
_SECRET: Final = "not shown: it may hold a secret"
#: Nanoseconds. What changed so short before it was copied may change again without another time:
#: the clocks of file systems go in steps of up to 10 ms.
_JUST_NOW: Final = 50_000_000
_IGNORE_FILE: Final = ".gitignore"
_MODE: Final = 0o777  # bits of a mode that an undo brings back


class _Stamp(NamedTuple):
    """A stamp that shows whether a file, or a link, was touched since; the mode stands apart."""

    mtime: int
    ctime: int
    size: int
    inode: int
    mode: int
    names: int  # that the file has

    @classmethod
    def from_stat(cls, info: os.stat_result) -> _Stamp:
        mode = stat.S_IMODE(info.st_mode)
        times = (info.st_mtime_ns, info.st_ctime_ns)
        return cls(*times, info.st_size, info.st_ino, mode, info.st_nlink)

    @property
    def goes_back(self) -> bool:
        """Whether an undo brings all of it: not what runs as another user, nor a second name."""
        return not self.mode & ~_MODE and self.names == 1


class _Copy(NamedTuple):
    """Where the bytes of a file lie among the copies."""

    stamp: _Stamp
    at: int
    just_now: bool  # the file had been changed right before

    def matches_stamp(self, stamp: _Stamp) -> bool:
        """Whether the file still holds these bytes."""
        return self.stamp == stamp and not self.just_now


class Before(NamedTuple):
    """The files before a command."""

    files: Mapping[str, _Stamp]  # by path below the root; those that may be read
    copies: Mapping[str, _Copy]
    others: Mapping[str, _Stamp]  # that may not be read, and what is no file
    folders: Mapping[str, int]  # their modes
    whole: bool  # everything was looked at


class _Found(NamedTuple):
    """A change, the copy from before it, and the difference; None where it is too large."""

    change: FileChange
    copy: _Copy | None
    diff: FileDiff | None


class FileCopies:
    """Copies of the files of a workspace, each made once and anew only when it changed.

    They lie in one file without a name, so that nothing of them outlives the process; of what a
    command changed, the bytes before it become blobs of the session. Secret files are never read,
    ignored ones never looked at.
    """

    def __init__(
        self,
        workspace: Workspace,
        keep: Blobs,
        folder: Path,
        limit: int = LIMIT,
        store: Store | None = None,
    ) -> None:
        """``folder`` holds that file; ``limit``: bytes of all copies, 0: nothing is covered;
        ``store``: of the session, whose changes of ignore files take no file from what is covered.
        """
        self._workspace = workspace
        self._keep = keep
        self._folder = folder
        self.limit = limit
        self._copies: dict[str, _Copy] = {}
        self.file: BinaryIO | None = None  # of the copies, while there are any
        self._end = 0
        self._store = store
        self._seen: dict[str, DirectoryEntry] | None = None  # before earlier commands; not ignored
        mask = os.umask(0o077)
        os.umask(mask)
        self._usual = _MODE & ~mask  # the mode of a folder that an undo makes
        self.redact: Callable[[str], str] = str  # takes secrets out of a text

    async def take_snapshot(self) -> Before | None:
        """How files are now; None where that cannot be known or nothing is to be covered."""
        if not self.limit:
            return None
        try:
            entries, whole = await self._list_entries(
                {} if self._seen else await self._first_rules()
            )
            self._seen = {entry.path: entry for entry in entries}
            return await asyncio.to_thread(self._copy_entries, entries, whole)
        except (OSError, WorkspaceError):
            return None

    async def find_touched(self, before: Before) -> Touched:
        """The changes since; the bytes before it are kept. Raises nothing: what could not be kept
        is not covered.
        """
        try:
            entries, whole = await self._list_entries()
            found, uncovered = await asyncio.to_thread(self._compare_entries, before, entries)
        except (OSError, WorkspaceError):
            return Touched()
        changes, left = list[FileChange](), list[FileChange]()
        previews: list[FilePreview] = []
        room = SHOWN
        for change, copy, diff in found:
            try:
                if copy is not None and len(changes) < MOST:
                    await self._keep.put(self._read_copy(copy))
            except OSError:
                uncovered.append(change.path)
            else:
                if len(changes) >= MOST:
                    left.append(change)
                    continue
                changes.append(change)
                with contextlib.suppress(OSError, WorkspaceError):
                    preview = self._make_preview(change, diff, room)
                    room -= sum(len(hunk.lines) for hunk in preview.hunks)
                    previews.append(preview)
        uncovered += [change.path for change in left]
        paths = tuple(sorted(uncovered))
        return Touched(tuple(changes), paths, whole and before.whole, tuple(previews))

    async def obeyed_files(self) -> Mapping[str, object]:
        """By path, what tells whether a file that builds, tests or agents obey was touched since;
        nothing is copied, and nothing told where that cannot be known.
        """
        try:
            entries, _ = await self._list_entries()
            kept = [entry for entry in entries if self._workspace.obeyed_kind(entry.path)]
            return {
                path: stamp for path, _, stamp in await asyncio.to_thread(self._stamp_entries, kept)
            }
        except (OSError, WorkspaceError):
            return {}

    def _stamp_entries(self, entries: Iterable[DirectoryEntry]) -> list[tuple[str, bool, _Stamp]]:
        return list(self._iter_stamped(entries))

    def close(self) -> None:
        """Let go of the copies."""
        if self.file is not None:
            self.file.close()
            self.file = None
        self._copies.clear()

    # inside

    async def _first_rules(self) -> dict[str, bytes]:
        """The contents, before the first command, of ignore files that calls of the session
        changed; later ones find what was seen before.
        """
        calls = list_all_calls(self._store.state) if self._store is not None else []
        found: dict[str, bytes] = {}
        for call in calls:
            if call.operation == RUN:
                if call.result.touched or (
                    call.result.exit_code is not None and not call.result.covered
                ):
                    return {}  # what it made would count as well
                continue
            for change in call.result.changes:
                for path in (change.path, change.target):
                    if path.rpartition("/")[2] == _IGNORE_FILE and path not in found:
                        was = change.before if path == change.path else ""
                        with contextlib.suppress(KeyError):
                            found[path] = await self._keep.get(was) if was else b""
        return found

    async def _list_entries(
        self, rules: Mapping[str, bytes] = MappingProxyType({})
    ) -> tuple[list[DirectoryEntry], bool]:
        """Everything but what is ignored, with what was not ignored before earlier commands, and
        whether that is all there is. ``rules`` are taken for the content of ignore files.
        """
        entries: list[DirectoryEntry] = []
        deep = False
        until = time.monotonic() + MAX_SECONDS
        root = self._workspace.locate_path(".")
        walked = walk_parts(self._workspace, root, depth=None, instead=rules)
        async with contextlib.aclosing(walked):
            async for part in walked:
                entries += part.entries
                deep |= part.deep > 0
                if part.cut or len(entries) > MAX_FILES or time.monotonic() > until:
                    return entries[:MAX_FILES], False
        if self._seen:
            found = {entry.path for entry in entries}
            there = self._workspace.stat_path
            entries += [e for path, e in self._seen.items() if path not in found and there(path)]
        return entries[:MAX_FILES], len(entries) <= MAX_FILES and not deep

    def _copy_entries(self, entries: Iterable[DirectoryEntry], whole: bool) -> Before:
        """The look in its thread; copies what has no copy."""
        files: dict[str, _Stamp] = {}
        others: dict[str, _Stamp] = {}
        until = time.monotonic() + MAX_SECONDS
        file = self._open_copies()
        for path, readable, stamp in self._iter_stamped(entries):
            if not readable:
                others[path] = stamp
                continue
            files[path] = stamp
            copy = self._copies.get(path)
            if copy is not None and copy.matches_stamp(stamp):
                continue
            self._copies.pop(path, None)
            late = time.monotonic() > until
            if late or stamp.size > MAX_FILE or self._end + stamp.size > self.limit:
                continue
            self._copy_file(file, path, stamp)
        file.flush()
        found = {e.path: self._workspace.stat_path(e.path) for e in entries if _is_folder(e)}
        folders = {path: stat.S_IMODE(info.st_mode) for path, info in found.items() if info}
        copies = {path: copy for path, copy in self._copies.items() if path in files}
        return Before(files, copies, others, folders, whole)

    def _iter_stamped(
        self, entries: Iterable[DirectoryEntry]
    ) -> Iterator[tuple[str, bool, _Stamp]]:
        """Each entry that is no folder: its path, whether it is a file that may be read, and its
        stamp.
        """
        for entry in entries:
            if _is_folder(entry):
                continue
            info = self._workspace.stat_path(entry.path)
            if info is None:
                continue
            readable = entry.zone is Zone.INSIDE and stat.S_ISREG(info.st_mode)
            yield entry.path, readable, _Stamp.from_stat(info)

    def _open_copies(self) -> BinaryIO:
        """The file of the copies, begun anew when most of it is of no use any more."""
        used = sum(copy.stamp.size for copy in self._copies.values())
        if self.file is not None and self._end > 2 * used + MAX_FILE:
            self.close()
        if self.file is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - see close
            self._end = 0
        return self.file

    def _copy_file(self, file: BinaryIO, path: str, stamp: _Stamp) -> None:
        now = time.time_ns()
        data = self._read_file(path, stamp.size)
        if data is None:
            return
        file.seek(self._end)
        file.write(data)
        just_now = now - max(stamp.mtime, stamp.ctime) < _JUST_NOW
        self._copies[path] = _Copy(stamp, self._end, just_now)
        self._end += len(data)

    def _read_file(self, path: str, size: int) -> bytes | None:
        """The content of the file; None where it cannot be read or is larger than it was, or than a
        file that is read whole.
        """
        if size > MAX_READ:
            return None
        try:
            with open(self._workspace.open_below(path), "rb") as file:
                data = file.read(size + 1)
        except OSError:
            return None
        return data if len(data) <= size else None

    def _compare_entries(
        self, before: Before, entries: Iterable[DirectoryEntry]
    ) -> tuple[list[_Found], list[str]]:
        """Each change with the copy from before it, and the paths that changed and have none."""
        found: list[_Found] = []
        uncovered: list[str] = []
        now = {path: (readable, stamp) for path, readable, stamp in self._iter_stamped(entries)}
        for path, was in before.files.items():
            info = self._workspace.stat_path(path)  # it may be ignored by now
            stamp = None if info is None else _Stamp.from_stat(info)
            copy = before.copies.get(path)
            if stamp == was and (copy is None or not copy.just_now):
                continue
            if copy is None or (info is not None and not stat.S_ISREG(info.st_mode)):
                uncovered.append(path)
                continue
            data = self._read_copy(copy)
            after = None if stamp is None else self._read_file(path, stamp.size)
            if stamp is not None and after is None:
                uncovered.append(path)
            elif stamp is None or after != data or stamp.mode != was.mode:
                change, diff = _make_change(path, data, was, after, stamp)
                gone = () if stamp is not None else self._gone_folders(path)
                if stamp is None and not self._has_room(path):
                    uncovered.append(path)
                    continue
                found.append(_Found(change.replace(directories=gone), copy, diff))
                if not was.goes_back or (stamp is not None and not stamp.goes_back):
                    uncovered.append(path)
            elif was.names > 1 and (stamp.names < was.names or stamp.inode != was.inode):
                uncovered.append(path)  # it has the same bytes, and no longer with its other name
        rules = any(path.rpartition("/")[2] == _IGNORE_FILE for path in uncovered)
        rules = rules or any(f.change.path.rpartition("/")[2] == _IGNORE_FILE for f in found)
        for path, was in before.others.items():
            info = self._workspace.stat_path(path)
            if info is None or _Stamp.from_stat(info) != was:
                uncovered.append(path)
        for path in now.keys() - before.files.keys() - before.others.keys():
            readable, stamp = now[path]
            new = path.rpartition("/")[2] == _IGNORE_FILE
            if not before.whole or (rules and not new):
                uncovered.append(path)  # it may have been there, and only not been looked at
                continue
            after = self._read_file(path, stamp.size) if readable else None
            if after is None:
                uncovered.append(path)
                continue
            made = tuple(f for f in _parent_paths(path) if f not in before.folders)
            change, diff = _make_change(path, None, None, after, stamp)
            found.append(_Found(change.replace(directories=made), None, diff))
        uncovered += self._folders_changed(before.folders, [one.change for one in found])
        return sorted(found, key=lambda one: one.change.path), uncovered

    def _make_preview(self, change: FileChange, diff: FileDiff | None, room: int) -> FilePreview:
        """The change as a difference of at most ``room`` lines; else only what it did is said."""
        place, shown = place_of(self._workspace, change.path), diff or compare_files(None, None)
        if place is None:
            return FilePreview(path=change.path, kind=change.kind, note=_TAKEN)
        kind: ChangeKind = "modify"
        if not (change.before and change.after):
            kind = "create" if change.after else "delete"
        preview = PlannedChange(kind, place, shown, change.before, change.after).make_preview()
        lines = [line.text for hunk in preview.hunks for line in hunk.lines]
        text = "\n".join(lines)
        if diff is None or len(lines) > room:
            return preview.replace(hunks=(), note=_TOO_MANY)
        if self.redact(text) != text:
            return preview.replace(hunks=(), note=_SECRET)
        was, now = change.before_mode, change.after_mode
        if was is None or now is None or was == now:
            return preview
        modes = f"permissions {was:03o} → {now:03o}"
        return preview.replace(note=", ".join(filter(None, (preview.note, modes))))

    def _folders_changed(
        self, before: Mapping[str, int], changes: Iterable[FileChange]
    ) -> Iterator[str]:
        """Those that an undo does not bring back, as they were, with the files in them."""
        made = {folder for change in changes for folder in change.directories}
        for path, mode in before.items():
            info = self._workspace.stat_path(path)
            if info is None or not stat.S_ISDIR(info.st_mode):
                if path not in made or mode != self._usual:
                    yield path
            elif stat.S_IMODE(info.st_mode) != mode:
                yield path

    def _has_room(self, path: str) -> bool:
        """Whether a file that went can be made again where it was."""
        try:
            return place_of(self._workspace, path) is not None
        except WorkspaceError:
            return False

    def _read_copy(self, copy: _Copy) -> bytes:
        assert self.file is not None
        return os.pread(self.file.fileno(), copy.stamp.size, copy.at)

    def _gone_folders(self, path: str) -> tuple[str, ...]:
        """The folders of a file that went with it, the outermost first."""
        return tuple(f for f in _parent_paths(path) if self._workspace.stat_path(f) is None)


def _make_change(
    path: str,
    before: bytes | None,
    was: _Stamp | None,
    after: bytes | None,
    stamp: _Stamp | None,
) -> tuple[FileChange, FileDiff | None]:
    kind = "create" if before is None else "delete" if after is None else "modify"
    countable = len(before or b"") + len(after or b"") <= _COUNTED
    diff = compare_files(before, after) if countable else None
    change = FileChange(
        path=path,
        kind=kind,
        before="" if before is None else hash_data(before),
        after="" if after is None else hash_data(after),
        before_mode=was.mode if was is not None else None,
        after_mode=stamp.mode if stamp is not None else None,
        before_size=len(before or b""),
        after_size=len(after or b""),
        added=diff.added if diff else 0,
        removed=diff.removed if diff else 0,
    )
    return change, diff


def _is_folder(entry: DirectoryEntry) -> bool:
    return entry.kind is FileKind.DIR


def _parent_paths(path: str) -> list[str]:
    """``a``, ``a/b`` for ``a/b/c.txt``."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]
