"""Reads a session's journal: every record that is whole, in its order, once.

Nothing is written, and nothing that cannot be read keeps the rest from being read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from duckflow_tui.session.blobs import BLOBS, FileBlobs
from duckflow_tui.session.faults import NewerSession, NotASession, SessionFault, opening
from duckflow_tui.session.folders import SessionFolder, segment_name
from duckflow_tui.session.records import (
    HEADER_SEQ,
    Damage,
    Frame,
    JournalHeader,
    Migrations,
    UnreadableRecord,
    encode,
    event_fields,
    header_of,
    of_later_program,
    parsed,
    scan,
)
from duckflow_tui.session.snapshots import SnapshotPlace
from duckflow_tui.state.base import moment

MAX_SEQ: Final = 10**12  # of a record: above any session, far below the longest of a line

_TAG: Final = b"D1 "
_BEGINNING: Final = 64  # bytes that tell what a file is


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One event as it was written, its fields brought up to today's version."""

    seq: int
    at: float  # seconds since the epoch
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unread:
    """What could not be read, and where. ``seq`` is None where not even that is known.

    ``reason`` is one of ``records.DamageReason`` or of what ``records.Unreadable`` carries;
    ``segment`` for a whole file.
    """

    segment: int
    start: int
    reason: str
    seq: int | None = None


@dataclass(slots=True)
class SessionRead:
    """All that a journal holds. ``lost`` counts events that were in it and are in no record."""

    header: JournalHeader | None = None  # the first that could be read
    entries: list[RecordedEvent] = field(default_factory=list[RecordedEvent])
    unread: list[Unread] = field(default_factory=list[Unread])
    last_seq: int = 0
    size: int = 0  # bytes of the records that were read
    retired: int = 0  # events of an older version that mean nothing today

    @property
    def damaged(self) -> int:
        """Lines that are no record any more."""
        return sum(1 for unread in self.unread if unread.seq is None)

    @property
    def unreadable(self) -> int:
        """Whole records that tell no event."""
        return sum(1 for unread in self.unread if unread.seq is not None)

    def lost(self, after: int = 0) -> int:
        """Sequence numbers after this one that nothing was read for."""
        return self.last_seq - after - len(self.entries) - self.retired


def read_session(
    folder: SessionFolder,
    *,
    after: SnapshotPlace | None = None,
    migrations: Migrations | None = None,
) -> SessionRead:
    """Read the journal in this folder, or what follows the record at ``after``.

    Raises NotASession when nothing in it is a record, NewerSession when a later program wrote in
    it, SessionUnreadable when the system refuses, and KeyError when ``after`` is not there.
    """
    return _Reading(folder, after, migrations or Migrations()).all()


class _Reading:
    def __init__(
        self,
        folder: SessionFolder,
        after: SnapshotPlace | None,
        migrations: Migrations,
    ) -> None:
        self._folder = folder
        self._after = after
        self._migrations = migrations
        self._blobs = FileBlobs(folder.path / BLOBS)
        self._frames: list[tuple[Frame, int, int]] = []  # record, segment, version
        self._version = 0  # of the records that come now; 0 while no header was read
        self._empty = True
        self._later: NewerSession | None = None
        self.read = SessionRead(last_seq=after.seq if after else 0)

    def all(self) -> SessionRead:
        numbers = self._folder.segments()
        if not numbers:
            raise NotASession("missing", self._folder.path)
        refused: SessionFault | None = None
        for number in numbers:
            try:
                self._segment(number, first=number == numbers[0])
            except SessionFault as fault:
                refused = fault
                self.read.unread.append(Unread(number, 0, "segment"))
        if self._later is not None:
            raise self._later
        if not self._frames and self.read.header is None:
            if refused is not None:
                raise refused
            raise NotASession("empty" if self._empty else "foreign", self._folder.path)
        self._collect()
        return self.read

    def _segment(self, number: int, *, first: bool) -> None:
        """Its records; of a file before the one ``after`` lies in only the header counts."""
        place = self._after
        after = place.position if place else None
        skipped = after is not None and number < after.segment
        if skipped and not first:
            return
        name = segment_name(number)
        try:
            with self._folder.read(name) as file:
                frames = scan(file)
                if after is not None and first:
                    head = next(frames, None)
                    if isinstance(head, Frame) and head.seq == HEADER_SEQ:
                        self._header(head, number)
                    self._version = self._migrations.current  # what a snapshot was made in
                if place and number == place.position.segment:
                    file.seek(place.position.start)
                    frames = scan(file)
                    _check(next(frames, None), place)
                if not skipped:
                    self._records(frames, number)
                    file.seek(0)
                    self._whose(file.read(_BEGINNING))
        except OSError as error:
            raise opening(self._folder.path / name, error) from error

    def _records(self, frames: Iterator[Frame | Damage], number: int) -> None:
        for frame in frames:
            if isinstance(frame, Damage):
                self.read.unread.append(Unread(number, frame.start, frame.reason))
            elif frame.seq == HEADER_SEQ:
                self._header(frame, number)
            else:
                self._frames.append((frame, number, self._version))
                self.read.size += frame.end - frame.start

    def _whose(self, start: bytes) -> None:
        """What a file is that no record was found in so far: its header may have been torn."""
        torn = {(u.start, u.reason) for u in self.read.unread} == {(0, "torn")}
        ours = _TAG.startswith(start) or start.startswith(_TAG)
        self._empty = self._empty and (not start or (torn and ours))
        if not self._frames and self.read.header is None and of_later_program(start):
            self._later = NewerSession(self._folder.path, 0)

    def _header(self, frame: Frame, number: int) -> None:
        try:
            header = header_of(parsed(frame.body), self._migrations.current)
        except UnreadableRecord as error:
            self.read.unread.append(Unread(number, frame.start, error.reason, HEADER_SEQ))
            return
        if isinstance(header, int):
            self._later = NewerSession(self._folder.path, header)
            return
        if self._version == 0:  # records before it lost theirs; they are as old or older
            self._frames = [(f, n, header.schema_version) for f, n, _ in self._frames]
        self._version = header.schema_version
        self.read.header = self.read.header or header

    def _collect(self) -> None:
        """Parse the records in the order of their numbers, each number once."""
        self._frames.sort(key=lambda found: found[0].seq)
        done = last = self.read.last_seq
        for frame, number, version in self._frames:
            if frame.seq > MAX_SEQ and frame.seq > last + 1:  # the next one would fit in no line
                self.read.unread.append(Unread(number, frame.start, "frame"))
                continue
            last = frame.seq
            if frame.seq <= done:
                continue
            try:
                fields = parsed(frame.body)
                event = event_fields(fields, self._blobs)
                event = self._migrations.bring_up(event, version or self._migrations.current)
                at = moment(fields.get("at", 0.0))
            except UnreadableRecord as error:
                self.read.unread.append(Unread(number, frame.start, error.reason, frame.seq))
                continue
            except (TypeError, ValueError, KeyError):
                self.read.unread.append(Unread(number, frame.start, "no_event", frame.seq))
                continue
            done = frame.seq
            if event is None:
                self.read.retired += 1
            else:
                self.read.entries.append(RecordedEvent(frame.seq, at, event))
        self.read.last_seq = max(self.read.last_seq, last)


def _check(found: Frame | Damage | None, place: SnapshotPlace) -> None:
    """A snapshot must be of this journal: the record it was made after is where it says."""
    if (
        not isinstance(found, Frame)
        or found.seq != place.seq
        or zlib.crc32(encode(found.seq, found.body)) != place.check
    ):
        raise KeyError(place.seq)
