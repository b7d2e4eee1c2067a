"""What a journal has on disk: the folder, its lock, the segment that is written, blobs."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from duckflow_tui.safety.disk import Disk
from duckflow_tui.session.blobs import FileBlobs
from duckflow_tui.session.drafts import sweep
from duckflow_tui.session.header import JournalHeader
from duckflow_tui.session.lock import SessionLock
from duckflow_tui.session.payload import Redact
from duckflow_tui.session.reader import BLOBS
from duckflow_tui.session.segments import Segments
from duckflow_tui.session.session_files import SessionFolder
from duckflow_tui.session.snapshots import Place, write_steps
from duckflow_tui.session.state_image import Image


class JournalDisk:
    """Belongs to the journal's thread. Methods raise OSError, and SessionInUse for the lock."""

    def __init__(
        self,
        path: Path,
        header: JournalHeader,
        *,
        disk: Disk | None = None,
        redact: Redact | None = None,
        folder: SessionFolder | None = None,
        lock: SessionLock | None = None,
    ) -> None:
        self.path = path
        self.redact = redact
        self._header = header
        self._disk = disk or Disk()
        self._folder = folder
        self._lock = lock
        self._segments: Segments | None = None
        self.blobs = FileBlobs(path / BLOBS, self._disk)

    @property
    def segment(self) -> int:
        """The number of the file that is written; 0 before there is one."""
        return self._segments.number if self._segments else 0

    @property
    def segments(self) -> Segments:
        """Where lines go, once ``begin`` was done."""
        if self._segments is None:
            raise FileNotFoundError(self.path)
        return self._segments

    def begin(self) -> None:
        """Make what is not there, take the lock, go on behind what was written before."""
        folder = self._locked()
        sweep(folder.descriptor)
        self._segments = Segments(folder, self._disk, lambda: self._header.as_body(self.redact))
        try:
            self._segments.go_on()
        except OSError:
            self._segments.next()

    def next_segment(self) -> None:
        """Leave the file that failed, or try to begin once more."""
        if self._lock is None or self._segments is None:
            self.begin()
        else:
            self._segments.next()

    def snapshot(self, place: Place, image: Image) -> Generator[int, None, None]:
        """Write one, piece by piece."""
        return write_steps(self._locked(), self._disk, place, image, self.redact)

    def close(self) -> None:
        """Give everything back; once is enough."""
        if self._segments is not None:
            self._segments.close()
        if self._folder is not None and self._lock is not None:
            sweep(self._folder.descriptor)
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _locked(self) -> SessionFolder:
        if self._folder is None:
            self._folder = SessionFolder.create(self.path, self._disk)
        if self._lock is None:
            self._lock = SessionLock.take(self._folder)
        return self._folder
