"""Find the changes of files that a command made, by looking at them before and after it, for undo
and for warnings about files that other programs act on. The user's git is not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from duckflow_tui.safety.git_places import is_repository, list_git_files
from duckflow_tui.safety.names import is_secret, obeyed_kind
from duckflow_tui.safety.paths import DirectoryEntry, FileKind, WorkspaceError
from duckflow_tui.safety.workspace import MAX_READ, Workspace
from duckflow_tui.state.base import LocalizedText, hash_data
from duckflow_tui.state.gates import FilePreview
from duckflow_tui.state.operations import FileChange, Zone
from duckflow_tui.tools.changes import TAKEN, ChangeKind, PlannedChange, mode_fact
from duckflow_tui.tools.diffs import FileDiff, compare_files
from duckflow_tui.tools.listing import IgnoreRules, read_rules
from duckflow_tui.tools.operation import Blobs, Touched, Written
from duckflow_tui.tools.undo import place_of

LIMIT: Final = 100_000_000  # bytes of all copies
#: Bytes of a file that is not ignored, up to which its old content becomes a blob of the session.
#: Larger and ignored files have a temporary copy only, until the process ends or its room is used.
MAX_KEPT: Final = 1_000_000
MAX_FILES: Final = 20_000  # files looked at that are not ignored
MAX_IGNORED: Final = 100_000  # ignored files looked at
MAX_SECONDS: Final = 3.0  # for each part of a look; files that it does not reach are not covered
MOST: Final = 500  # changes of one command that are covered, and files of one ignored folder
_COUNTED: Final = 64_000  # bytes of both contents, up to which lines are compared
SHOWN: Final = 2_000  # lines of one command's differences that are kept for display
_TOO_MANY: Final = LocalizedText(key="diff.fact.too_much")
_SECRET: Final = LocalizedText(key="diff.fact.secret")
#: Nanoseconds. A file that changed so shortly before its copy may change again at the same time:
#: the clocks of file systems go in steps of up to 10 ms.
_JUST_NOW: Final = 50_000_000
_MODE: Final = 0o777  # bits of a mode that an undo brings back


class _Stamp(NamedTuple):
    """Times, size, inode, mode and number of hard links of a file or link; a different stamp means
    that it may have changed.
    """

    mtime: int
    ctime: int
    size: int
    inode: int
    mode: int
    names: int  # number of hard links

    @classmethod
    def from_stat(cls, info: os.stat_result) -> _Stamp:
        """Return the stamp for the result of a ``stat``."""
        mode = stat.S_IMODE(info.st_mode)
        times = (info.st_mtime_ns, info.st_ctime_ns)
        return cls(*times, info.st_size, info.st_ino, mode, info.st_nlink)

    @property
    def is_restorable(self) -> bool:
        """Whether undo can restore the file fully: it has no special mode bits and no second hard
        link.
        """
        return not self.mode & ~_MODE and self.names == 1


#: The stamp of a file of which only the existence matters.
_THERE: Final = _Stamp(0, 0, 0, 0, 0, 0)
_MORE: Final = "…"  # last in a list of paths that is not complete


class _Copy(NamedTuple):
    """The place of a file's content among the copies, and the file's stamp when it was copied."""

    stamp: _Stamp
    at: int
    just_now: bool  # the file had changed right before it was copied

    def matches_stamp(self, stamp: _Stamp) -> bool:
        """Whether a file with this stamp surely still has the copied content."""
        return self.stamp == stamp and not self.just_now


class Stamps(NamedTuple):
    """Stamps by path of the files that other programs act on, at one moment. ``cut_at``: when the
    look began, in nanoseconds, if it did not reach all files; else 0.
    """

    files: Mapping[str, _Stamp]
    cut_at: int = 0

    @classmethod
    def from_json(cls, files: Mapping[str, Sequence[int]], cut_at: int) -> Stamps:
        """Return stamps from lists of numbers. Raises TypeError for a list of the wrong length."""
        return cls({path: _Stamp(*stamp) for path, stamp in files.items()}, cut_at)

    def is_new(self, path: str, stamp: _Stamp) -> bool:
        """Whether a file is new or changed since these stamps. One that the look may not have
        reached counts only if it changed after the look began.
        """
        old = self.files.get(path)
        return stamp != old and (old is not None or not self.cut_at or stamp.ctime >= self.cut_at)

    def covers(self, later: Stamps) -> bool:
        """Whether the two looks can be compared: False where only the later one did not reach all
        files, since a command may have made that many.
        """
        return bool(self.cut_at) or not later.cut_at


@dataclass(slots=True)
class _Look:
    """The files of a workspace at one moment, by path relative to its root."""

    stamps: dict[str, _Stamp] = field(default_factory=dict[str, _Stamp])
    readable: set[str] = field(default_factory=set[str])  # regular files that are not secret
    #: Those not ignored, with their modes.
    folders: dict[str, int] = field(default_factory=dict[str, int])
    ignored: dict[str, str] = field(default_factory=dict[str, str])  # file → its topmost folder
    closed: set[str] = field(default_factory=set[str])  # repositories and folders of the app
    #: Files that other programs act on.
    obeyed: dict[str, _Stamp] = field(default_factory=dict[str, _Stamp])
    began: int = field(default_factory=time.time_ns, init=False)
    rules: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    #: Topmost ignored folders not looked at in full; "" stands for the files that are not ignored.
    cut: set[str] = field(default_factory=set[str])

    @property
    def is_complete(self) -> bool:
        """Whether the look reached all files that are not ignored."""
        return "" not in self.cut

    def is_kept(self, path: str) -> bool:
        """Whether the content of a file before a command's change is kept for the whole session: it
        is not ignored and at most MAX_KEPT bytes large.
        """
        return path not in self.ignored and self.stamps[path].size <= MAX_KEPT

    @property
    def stamps_of_obeyed(self) -> Stamps:
        """Stamps of the files that other programs act on, at the moment of this look."""
        return Stamps(self.obeyed, self.began if self.cut else 0)


class Before(NamedTuple):
    """The files before a command, and the copies of them."""

    look: _Look
    copies: Mapping[str, _Copy]


class _FoundChange(NamedTuple):
    """A change, the copy of the file before it (None for a new file), and the difference (None
    where it is too large).
    """

    change: FileChange
    copy: _Copy | None
    diff: FileDiff | None


class FileCopies:
    """Copies of the files of a workspace; a file is copied again only when it has changed.

    The copies are in one unnamed file and vanish with the process; the content before a command's
    change becomes a blob of the session. Secret files are never read. For ignored files, only lost
    content counts as a change. Used as ``Blobs``, it also returns content that only the copies
    hold.
    """

    def __init__(self, workspace: Workspace, keep: Blobs, folder: Path, limit: int = LIMIT) -> None:
        """``keep`` are the session's blobs, ``folder`` holds the file of the copies, ``limit``
        bounds it in bytes; with 0 nothing is copied and undo covers no command.
        """
        self._workspace = workspace
        self._keep = keep
        self._folder = folder
        self.limit = limit
        self._copies: dict[str, _Copy] = {}
        self._destroyed: dict[str, _Copy] = {}  # by hash: contents that only the copies hold
        self.file: BinaryIO | None = None  # holds the copies; None while there are none
        self._end = 0
        self._counted: set[str] = set()  # files that were not ignored before an earlier command
        mask = os.umask(0o077)
        os.umask(mask)
        self._usual = _MODE & ~mask  # the mode of a folder that an undo makes
        self.redact: Callable[[str], str] = str  # takes secrets out of a text

    async def put(self, data: bytes) -> str:
        """Keep the bytes for the session and return their SHA-256. Raises OSError."""
        return await self._keep.put(data)

    async def get(self, sha: str) -> bytes:
        """Return the bytes with this SHA-256, from the session or the copies. Raises KeyError when
        they were never kept or are gone.
        """
        try:
            return await self._keep.get(sha)
        except KeyError:
            return self._read_copy(self._destroyed[sha])

    async def take_snapshot(self, *, copy: bool = True) -> Before | None:
        """Return the files as they are now, and copy them unless ``copy`` is False; None where they
        cannot be read.
        """
        try:
            return await asyncio.to_thread(self._take_snapshot, copy=copy and self.limit > 0)
        except (OSError, WorkspaceError):
            return None

    async def list_limits(self, *, held: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the paths that undo could not restore if a command destroyed them now, and those
        that it could restore only until the process ends. Folders end with a slash; ``…`` stands
        for more than was looked at. ``held``: a sandbox keeps the command from repositories and
        secret files, so that they do not count.
        """
        try:
            look = await asyncio.to_thread(self._look_at_files)
        except (OSError, WorkspaceError):
            return (_MORE,), ()
        others = look.stamps.keys() - look.readable
        secret = sorted(path for path in others if is_secret(path.split("/")))
        closed = [f"{path}/" for path in sorted(look.closed)]
        chosen, left = self._choose_files(look)
        short = [path for path in chosen if not look.is_kept(path)]
        tops = [(path, look.ignored.get(path, path)) for path in short]
        until_quit = dict.fromkeys(top if top == path else f"{top}/" for path, top in tops)
        return (*([] if held else [*closed, *secret]), *left), (*until_quit,)

    async def find_touched(self, before: Before) -> Touched:
        """Return the changes of files since ``before``, and keep the content from before them.
        Raises nothing: a change that cannot be kept is reported as not covered.
        """
        try:
            after = await asyncio.to_thread(self._look_at_files, before.look)
            obeyed = await asyncio.to_thread(self._find_written, before, after)
            if not self.limit:
                return Touched(obeyed=obeyed)
            found, uncovered = await asyncio.to_thread(self._compare_looks, before, after)
        except (OSError, WorkspaceError):
            return Touched()
        counted, destroyed = list[_FoundChange](), list[FileChange]()
        for one in found:
            path = one.change.path
            if len(counted) + len(destroyed) >= MOST or not await self._keep_copy(one):
                uncovered.append(path)
            elif path in before.look.ignored:
                destroyed.append(one.change)
            else:
                counted.append(one)
        previews: list[FilePreview] = []
        room = SHOWN
        for change, _, diff in counted:
            with contextlib.suppress(OSError, WorkspaceError):
                preview = self._make_preview(change, diff, room)
                room -= sum(len(hunk.lines) for hunk in preview.hunks)
                previews.append(preview)
        tops = before.look.ignored
        lost = dict.fromkeys(f"{tops[p]}/" for p in uncovered if tops.get(p, p) != p)
        files = sorted(path for path in uncovered if tops.get(path, path) == path)
        return Touched(
            changes=tuple(one.change for one in counted),
            uncovered=(*files, *lost),
            whole=before.look.is_complete
            and after.is_complete
            and all(path in tops for path in uncovered),
            previews=tuple(previews),
            destroyed=tuple(destroyed),
            obeyed=obeyed,
        )

    async def find_obeyed(self, before: Stamps) -> Written:
        """Return the files that other programs act on and that have changed since these stamps;
        none where that cannot be found out.
        """
        try:
            look = await asyncio.to_thread(self._look_at_files)
        except (OSError, WorkspaceError):
            return Written({})
        written = (path for path, stamp in look.obeyed.items() if before.is_new(path, stamp))
        files = {path: look.ignored.get(path, "") for path in written}
        return Written(files, before.covers(look.stamps_of_obeyed))

    def close(self) -> None:
        """Delete the copies."""
        if self.file is not None:
            self.file.close()
            self.file = None
        self._copies.clear()
        self._destroyed.clear()

    # looking

    def _look_at_files(self, earlier: _Look | None = None) -> _Look:
        """Return all files as they are now. The ignore rules of an ``earlier`` look are used, and
        those of new folders.
        """
        look = _Look(rules={} if earlier is None else dict(earlier.rules))
        rules = IgnoreRules(lambda path: self._read_rules(path, look.rules))
        ignored: dict[str, DirectoryEntry] = {}  # the topmost
        until = time.monotonic() + MAX_SECONDS
        root = self._workspace.locate_path(".")

        def enter(entry: DirectoryEntry) -> bool:
            """Whether to look into a folder: not into an ignored one."""
            return entry.path not in ignored

        for entry in self._workspace.scan_directory(root, depth=None, enter=enter, sizes=False):
            if len(look.stamps) >= MAX_FILES or time.monotonic() > until:
                look.cut.add("")
                break
            is_dir = entry.kind is FileKind.DIR
            if entry.zone is Zone.PROTECTED and is_dir:
                look.closed.add(entry.path)
            elif entry.path not in self._counted and rules.is_ignored(entry.path, is_dir=is_dir):
                ignored[entry.path] = entry
            else:
                self._note_entry(look, entry)
                look.cut |= {""} if entry.deep else set()
        until = time.monotonic() + MAX_SECONDS
        for top, entry in ignored.items():
            self._look_at_ignored(look, top, entry, until)
        self._look_at_git(look)
        return look

    def _look_at_ignored(self, look: _Look, top: str, first: DirectoryEntry, until: float) -> None:
        """Add to the look an ignored file, or the files in an ignored folder, until the monotonic
        time ``until``. A folder that cannot be listed counts as cut.
        """
        entries = iter((first,))
        if first.kind is FileKind.DIR:
            try:
                place = self._workspace.locate_path(f"./{top}")
                entries = self._workspace.scan_directory(place, depth=None, sizes=False)
            except WorkspaceError:  # it was removed or replaced meanwhile
                look.cut.add(top)
                return
        for entry in entries:
            if len(look.stamps) >= MAX_FILES + MAX_IGNORED or time.monotonic() > until:
                look.cut.add(top)
                break
            if entry.zone is Zone.PROTECTED:
                look.closed.add(entry.path)
            if entry.kind is FileKind.DIR:
                continue
            if entry.path not in self._counted:
                look.ignored[entry.path] = top
            self._note_entry(look, entry)

    def _note_entry(self, look: _Look, entry: DirectoryEntry) -> None:
        """Add a file or folder to the look."""
        path, info = entry.path, self._workspace.stat_path(entry.path)
        if info is None:
            return
        if entry.kind is FileKind.DIR:
            look.folders[path] = stat.S_IMODE(info.st_mode)
            return
        plain = stat.S_ISREG(info.st_mode)
        stamp = look.stamps[path] = _Stamp.from_stat(info)
        if plain and entry.zone is Zone.INSIDE:
            look.readable.add(path)
        if obeyed_kind(path.split("/"), info.st_mode if plain else None):
            look.obeyed[path] = stamp

    def _look_at_git(self, look: _Look) -> None:
        """Add to the look the files that git and the app act on: configuration and hooks of the
        workspace's repositories and of the places they refer to, also of folders that merely
        have the shape of a repository, and the app's settings.
        """
        root = self._workspace.root
        places = [*self._workspace.git_places, *(root / path for path in look.closed)]
        heads = [path for path in look.stamps if path.rpartition("/")[2] == "HEAD"]
        for folder in (root / path.rpartition("/")[0] for path in heads):
            with contextlib.suppress(OSError):
                if is_repository({name.lower() for name in os.listdir(folder)}):
                    places.append(folder)
        files = list_git_files(places)
        for path in (root / ".duckflow", *self._workspace.closed_places):
            with contextlib.suppress(OSError):
                files[f"{path}/settings.toml"] = os.lstat(path / "settings.toml")
        for path, info in files.items():
            look.obeyed[path.removeprefix(f"{root}/")] = _Stamp.from_stat(info)
        for head in filter(os.path.isfile, (f"{place}/HEAD" for place in places)):
            look.obeyed[head.removeprefix(f"{root}/")] = _THERE

    def _read_rules(self, path: str, known: dict[str, bytes | None]) -> bytes | None:
        """Return the content of an ignore file, None where there is none, and note it in
        ``known``.
        """
        if path not in known:
            known[path] = read_rules(self._workspace, path)
        return known[path]

    # copying

    def _choose_files(self, look: _Look) -> tuple[list[str], tuple[str, ...]]:
        """Return the files to copy within the limit, and the paths left out. Files that are not
        ignored and small ones come first; an ignored folder is copied as a whole or not at all.
        """
        groups: dict[str, list[str]] = {}
        for path in look.stamps:
            groups.setdefault(look.ignored.get(path, path), []).append(path)
        sizes = {top: sum(look.stamps[p].size for p in paths) for top, paths in groups.items()}
        chosen, left, room = list[str](), list[str](), self.limit
        ignored = {*look.ignored.values()}
        for top in sorted(groups, key=lambda top: (top in ignored, sizes[top], top)):
            paths = [path for path in groups[top] if path in look.readable]
            fits = sizes[top] <= room and len(groups[top]) <= MOST and top not in look.cut
            if fits and all(look.stamps[path].size <= MAX_READ for path in paths):
                chosen += paths
                room -= sizes[top]
            elif paths:
                left.append(top if groups[top] == [top] else f"{top}/")
        return chosen, (*left, *([] if look.is_complete else [_MORE]))

    def _take_snapshot(self, *, copy: bool) -> Before:
        """Look at the files and copy those without a valid copy; blocking."""
        look = self._look_at_files()
        self._counted.update(path for path in look.stamps if path not in look.ignored)
        if not copy:
            return Before(look, {})
        until = time.monotonic() + MAX_SECONDS
        chosen, _ = self._choose_files(look)
        file = self._open_copies()
        for path in chosen:
            stamp, made = look.stamps[path], self._copies.get(path)
            if made is None or not made.matches_stamp(stamp):
                self._copies.pop(path, None)
                if time.monotonic() < until:
                    self._copy_file(file, path, stamp)
        file.flush()
        copies = {path: self._copies[path] for path in chosen if path in self._copies}
        self._copies = dict(copies)
        return Before(look, copies)

    def _open_copies(self) -> BinaryIO:
        """Return the file of the copies; it is emptied first when it has grown to twice
        the limit.
        """
        if self.file is not None and self._end > 2 * self.limit:
            self.close()
        if self.file is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - see close
            self._end = 0
        return self.file

    def _copy_file(self, file: BinaryIO, path: str, stamp: _Stamp) -> None:
        """Append the content of a file to the copies; skip a file that cannot be read."""
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
        """Return the content of a file; None where it cannot be read, is larger than ``size``, or
        is larger than MAX_READ.
        """
        if size > MAX_READ:
            return None
        try:
            with open(self._workspace.open_below(path), "rb") as file:
                data = file.read(size + 1)
        except OSError:
            return None
        return data if len(data) <= size else None

    def _read_copy(self, copy: _Copy) -> bytes:
        """Return the content of a copy. Raises KeyError where the copies were deleted."""
        if self.file is None:
            raise KeyError(copy)
        return os.pread(self.file.fileno(), copy.stamp.size, copy.at)

    async def _keep_copy(self, found: _FoundChange) -> bool:
        """Keep the content from before a change, in the session's blobs or among the copies; return
        False where it could not be kept.
        """
        if found.copy is None:
            return True
        change = found.change
        if change.path in self._counted and change.before_size <= MAX_KEPT:
            try:
                await self._keep.put(self._read_copy(found.copy))
            except OSError:
                return False
        else:
            self._destroyed[change.before] = found.copy
        return True

    # comparing

    def _compare_looks(self, before: Before, after: _Look) -> tuple[list[_FoundChange], list[str]]:
        """Return the changes between the looks, and the paths that changed without being covered by
        undo.
        """
        found: list[_FoundChange] = []
        uncovered: list[str] = []
        was_there = before.look.stamps
        for path, was in was_there.items():
            info = self._workspace.stat_path(path)
            stamp = None if info is None else _Stamp.from_stat(info)
            copy = before.copies.get(path)
            if stamp == was and (copy is None or not copy.just_now):
                continue
            if copy is None or (info is not None and not stat.S_ISREG(info.st_mode)):
                uncovered.append(path)
                continue
            data = self._read_copy(copy)
            now = None if stamp is None else self._read_file(path, stamp.size)
            if stamp is not None and now is None:
                uncovered.append(path)
            elif stamp is None or now != data or stamp.mode != was.mode:
                change, diff = _make_change(path, data, was, now, stamp)
                gone: tuple[str, ...] = ()
                if stamp is None:
                    above = _parent_paths(path)
                    gone = tuple(f for f in above if self._workspace.stat_path(f) is None)
                if stamp is None and not self._has_room(path):
                    uncovered.append(path)
                    continue
                found.append(_FoundChange(change.replace(directories=gone), copy, diff))
                if not was.is_restorable or (stamp is not None and not stamp.is_restorable):
                    uncovered.append(path)
            elif was.names > 1 and (stamp.names < was.names or stamp.inode != was.inode):
                uncovered.append(path)  # same content, but no longer the same hard links
        for path in after.stamps.keys() - was_there.keys() - after.ignored.keys():
            stamp = after.stamps[path]
            now = self._read_file(path, stamp.size) if path in after.readable else None
            if now is None or not before.look.is_complete:
                uncovered.append(path)  # it may have existed before without being looked at
                continue
            made = tuple(f for f in _parent_paths(path) if f not in before.look.folders)
            change, diff = _make_change(path, None, None, now, stamp)
            found.append(_FoundChange(change.replace(directories=made), None, diff))
        uncovered += self._folders_changed(before.look.folders, [one.change for one in found])
        return sorted(found, key=lambda one: one.change.path), uncovered

    def _find_written(self, before: Before, after: _Look) -> Written:
        """Return the files that other programs act on and that are new or changed since ``before``.
        A file with a copy counts only if its content or mode differs.
        """
        was, found = before.look.stamps_of_obeyed, dict[str, str]()
        for path, stamp in after.obeyed.items():
            old, copy = was.files.get(path), before.copies.get(path)
            written = was.is_new(path, stamp)
            if written and old is not None and copy is not None and old.mode == stamp.mode:
                written = self._read_file(path, stamp.size) != self._read_copy(copy)
            if written:
                found[path] = after.ignored.get(path, "")
        return Written(found, was.covers(after.stamps_of_obeyed))

    def _make_preview(self, change: FileChange, diff: FileDiff | None, room: int) -> FilePreview:
        """Return the preview of a change. Differences of more than ``room`` lines and those that
        seem to hold a secret are replaced by a fact.
        """
        place, shown = place_of(self._workspace, change.path), diff or compare_files(None, None)
        if place is None:
            return FilePreview(path=change.path, kind=change.kind, facts=(TAKEN,))
        kind: ChangeKind = "modify"
        if not (change.before and change.after):
            kind = "create" if change.after else "delete"
        preview = PlannedChange(kind, place, shown, change.before, change.after).make_preview()
        lines = [line.text for hunk in preview.hunks for line in hunk.lines]
        text = "\n".join(lines)
        if diff is None or len(lines) > room:
            return preview.replace(hunks=(), facts=(_TOO_MANY,))
        if self.redact(text) != text:
            return preview.replace(hunks=(), facts=(_SECRET,))
        was, now = change.before_mode, change.after_mode
        if was is None or now is None or was == now:
            return preview
        return preview.replace(facts=(*preview.facts, mode_fact(was, now)))

    def _folders_changed(
        self, before: Mapping[str, int], changes: Iterable[FileChange]
    ) -> Iterator[str]:
        """Yield the folders that were removed or changed their mode, and that undo does not restore
        along with their files.
        """
        made = {folder for change in changes for folder in change.directories}
        for path, mode in before.items():
            info = self._workspace.stat_path(path)
            if info is None or not stat.S_ISDIR(info.st_mode):
                if path not in made or mode != self._usual:
                    yield path
            elif stat.S_IMODE(info.st_mode) != mode:
                yield path

    def _has_room(self, path: str) -> bool:
        """Whether a removed file could be created again at its path."""
        try:
            return place_of(self._workspace, path) is not None
        except WorkspaceError:
            return False


def _make_change(
    path: str,
    before: bytes | None,
    was: _Stamp | None,
    after: bytes | None,
    stamp: _Stamp | None,
) -> tuple[FileChange, FileDiff | None]:
    """Return the change of a file and its difference, None where the contents are too large to
    compare. ``before`` or ``after`` is None where the file did not exist.
    """
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


def _parent_paths(path: str) -> list[str]:
    """Return the parent folders of a relative path: ``a``, ``a/b`` for ``a/b/c.txt``."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]
