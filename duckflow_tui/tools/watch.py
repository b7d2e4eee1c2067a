"""Watch the files that were read or are shown in a gate, and report changes that the app did not
make.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Final

from duckflow_tui.safety.paths import Place, WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import (
    ChangesRedone,
    ChangesUndone,
    FileChangedOutside,
    OperationFinished,
)
from duckflow_tui.state.gates import GateAnswered, GateOpened, GateWithdrawn
from duckflow_tui.state.store import Record, Store

#: Milliseconds between two checks of the watching thread for reports of the system; it sleeps
#: in between, so that it costs nothing while no file changes.
_STEP_MS: Final = 200
#: Milliseconds between two scans of the folders where the system has no watches left.
_POLL_MS: Final = 5_000

log = logging.getLogger("duckflow.watch")


class OwnWrites:
    """The hashes that the app itself wrote last, by path, so that its own changes are not
    reported.
    """

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def is_own(self, path: str, sha: str) -> bool:
        """Whether this is the content that the app wrote last to the file, or is about to write."""
        return self._last.get(path) == sha

    @contextlib.contextmanager
    def expect_writes(self, files: Mapping[str, str]) -> Generator[None, None, None]:
        """Register these hashes before writing the files in the block; they are taken back if the
        block fails.
        """
        before = self._last
        self._last = {**before, **files}
        try:
            yield
        except BaseException:  # also a cancellation: nothing was written
            self._last = before
            raise


class FileWatcher:
    """Watches the folders of the relevant files, not the whole tree, and dispatches
    FileChangedOutside.

    Relevant are the files in ``files_read`` and in the previews of open gates. A change counts if
    the content's hash differs. A changed file is not reported again until it is read or shown anew,
    so that a growing log costs nothing.
    """

    def __init__(self, store: Store, workspace: Workspace, own: OwnWrites) -> None:
        self._store = store
        self._workspace = workspace
        self._own = own
        self._stale = asyncio.Event()  # the set of files may have changed
        self._places: dict[str, Place] = {}
        self._stamps: dict[str, tuple[int, ...]] = {}  # when the files were last hashed
        self._void: set[str] = set()  # files whose change was reported already
        self.polling = False  # the system has no watches left: folders are scanned

    async def run(self) -> None:
        """Watch until cancelled."""
        forget = self._store.subscribe(self._on_record)
        try:
            while True:
                self._stale.clear()
                self._track_places()
                await self._check_files()
                folders = _folders_of(self._places.values())
                if not folders:
                    await self._stale.wait()
                    continue
                await self._watch_folders(folders)
        finally:
            forget()

    def _on_record(self, state: AgentState, record: Record) -> None:
        """Wake the watcher if a record changes the set of relevant files."""
        match record.event:
            case OperationFinished(files_read=read) if not self._void.isdisjoint(read):
                self._void -= read.keys()
                self._stale.set()
            case (
                OperationFinished()
                | GateOpened()
                | GateAnswered()
                | GateWithdrawn()
                | ChangesUndone()
                | ChangesRedone()
            ):
                if self._wanted_files(state) != set(self._places):
                    self._stale.set()
            case _:
                pass

    @staticmethod
    def _wanted_files(state: AgentState) -> set[str]:
        """Return the paths of the relevant files."""
        wanted = set(state.files_read)
        for gate in state.gates:
            wanted.update(p.path for p in gate.previews if not p.unseen)
        return wanted

    def _track_places(self) -> None:
        """Update the watched places to the files that are relevant now."""
        wanted = self._wanted_files(self._store.state)
        for path in set(self._places) - wanted:
            del self._places[path]
            self._stamps.pop(path, None)
            self._void.discard(path)
        for path in wanted - set(self._places):
            with contextlib.suppress(WorkspaceError):
                self._places[path] = self._workspace.locate_path(path)

    async def _watch_folders(self, folders: frozenset[Path]) -> None:
        """Watch these folders and check the files at each change, until the files lie in other
        folders. Switches to polling if the system has no watches left.
        """
        import watchfiles

        stop = asyncio.Event()
        renewing = asyncio.create_task(self._track_until_moved(folders, stop))
        try:
            # Its stop event may be one of trio, whose types are missing.
            async for _ in watchfiles.awatch(  # pyright: ignore[reportUnknownMemberType]
                *folders,
                watch_filter=None,
                recursive=False,
                step=_STEP_MS,
                debounce=_STEP_MS,
                stop_event=stop,
                rust_timeout=60_000,
                force_polling=self.polling,
                poll_delay_ms=_POLL_MS,
                ignore_permission_denied=True,
            ):
                await self._check_files()
                if _folders_of(self._places.values()) != folders:
                    return
        except FileNotFoundError:
            return  # a folder was removed before the watch began: try again
        except OSError as error:
            if self.polling:
                log.warning("files cannot be watched: %s", error)
                await self._stale.wait()
                return
            log.warning("no watches left, looking every %d s instead: %s", _POLL_MS // 1000, error)
            self.polling = True
        finally:
            renewing.cancel()

    async def _track_until_moved(self, folders: frozenset[Path], stop: asyncio.Event) -> None:
        """Update the watched files while the watch runs, and set ``stop`` once they lie in other
        folders.
        """
        # The watch is active now; this finds changes made while it was being set up.
        await self._check_files()
        while True:
            await self._stale.wait()
            self._stale.clear()
            self._track_places()
            if _folders_of(self._places.values()) != folders:
                stop.set()
                return
            await self._check_files()

    async def _check_files(self) -> None:
        """Hash the files whose time, size or inode changed, and report those that differ from what
        was read or shown and that the app did not write.
        """
        for path in tuple(self._places):
            place = self._places.get(path)
            stamp = _stamp_of(place.real) if place else ()
            before = self._stamps.get(path)
            if place is None or before == stamp:
                continue
            if path in self._void and before and stamp and not self._shown_hashes(path):
                continue
            try:
                place = self._workspace.locate_path(path)
                sha = await self._workspace.hash_file(place) if place.exists else ""
            except WorkspaceError as error:
                log.info("%s cannot be compared: %s", path, error)
                continue
            self._places[path] = place
            self._stamps[path] = stamp
            known = self._shown_hashes(path)
            known.add(self._store.state.files_read.get(path, sha))
            if known - {sha} and not self._own.is_own(path, sha):
                self._void.add(path)
                self._store.dispatch(FileChangedOutside(path=path, sha=sha))

    def _shown_hashes(self, path: str) -> set[str]:
        """Return the hashes of a file from before the changes that open gates show."""
        found: set[str] = set()
        for gate in self._store.state.gates:
            for preview in gate.previews:
                if preview.path == path and not preview.unseen:
                    found.add(preview.before_hash)
        return found


def _stamp_of(path: Path) -> tuple[int, ...]:
    """Return modification time, size and inode of a file; empty where it does not exist."""
    try:
        info = path.stat()
    except OSError:
        return ()
    return info.st_mtime_ns, info.st_size, info.st_ino


def _folders_of(places: Iterable[Place]) -> frozenset[Path]:
    """Return the folders of the files; for a missing folder, its nearest existing parent."""
    found: set[Path] = set()
    for place in places:
        folder = place.real.parent
        while not folder.is_dir():
            folder = folder.parent
        found.add(folder)
    return frozenset(found)
