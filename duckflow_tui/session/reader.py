"""Reads the journal of a session: every intact record, in order, each once.

Reading writes nothing, and damage in one place does not keep the rest from being read.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, cast

from duckflow_tui.session.blobs import BLOBS, FileBlobs
from duckflow_tui.session.faults import SessionFault, make_fault
from duckflow_tui.session.folders import SessionFolder, segment_name
from duckflow_tui.session.records import (
    HEADER_SEQ,
    Damage,
    JournalHeader,
    JournalLine,
    UnreadableRecord,
    encode,
    header_of,
    load_fields,
    of_later_program,
    parse_body,
    scan,
)
from duckflow_tui.session.snapshots import SnapshotPlace
from duckflow_tui.state.base import parse_time

MAX_SEQ: Final = 10**12  # of a record: above any session, far below the longest of a line
_TAG: Final = b"D1 "
_BEGINNING: Final = 64  # bytes that are read at once and tell what a file is


class RecordedEvent(NamedTuple):
    """One event of a journal, with its fields as they were written."""

    seq: int
    at: float  # seconds since the epoch
    fields: dict[str, Any]


class Unread(NamedTuple):
    """A record that could not be read, and its place. ``seq`` is None where the number is unknown
    too.

    ``reason`` is a ``records.DamageReason``, the code of a ``records.UnreadableRecord``, or
    ``segment`` for a complete file.
    """

    segment: int
    start: int
    reason: str
    seq: int | None = None


@dataclass(slots=True)
class SessionRead:
    """The content of a journal: its events, and the records that could not be read."""

    header: JournalHeader | None = None  # the first that could be read
    entries: list[RecordedEvent] = field(default_factory=list[RecordedEvent])
    unread: list[Unread] = field(default_factory=list[Unread])
    after: int = 0  # the sequence number behind which the reading began
    last_seq: int = 0
    size: int = 0  # bytes of the records that were read

    @property
    def damaged_count(self) -> int:
        """Number of lines that are no intact record."""
        return sum(1 for unread in self.unread if unread.seq is None)

    @property
    def unreadable_count(self) -> int:
        """Number of intact records from which no event could be read."""
        return sum(1 for unread in self.unread if unread.seq is not None)

    @property
    def lost_count(self) -> int:
        """Number of sequence numbers without an event."""
        return self.last_seq - self.after - len(self.entries)

    def take_record(
        self, seq: int, segment: int, start: int, read: Callable[[], dict[str, Any]]
    ) -> None:
        """Add the record ``seq``, unless one with its number or a later one was added. ``read``
        returns its fields or raises UnreadableRecord; an unreadable record goes to ``unread``.
        """
        self.last_seq = max(self.last_seq, seq)
        if seq <= (self.entries[-1].seq if self.entries else self.after):
            return
        try:
            fields = read()
            event, at = fields["event"], parse_time(fields["at"])
            if not isinstance(event, dict):
                raise UnreadableRecord("no_event")
        except UnreadableRecord as error:
            self.unread.append(Unread(segment, start, str(error), seq))
        except (TypeError, ValueError, KeyError):
            self.unread.append(Unread(segment, start, "no_event", seq))
        else:
            self.entries.append(RecordedEvent(seq, at, cast("dict[str, Any]", event)))


def read_session(folder: SessionFolder, *, after: SnapshotPlace | None = None) -> SessionRead:
    """Read the journal in this folder, or the part after the record ``after``.

    Raises SessionFault, also where it has no record, and KeyError where ``after`` is not in it.
    """
    return _Reading(folder, after).read_all()


class _Reading:
    """One reading of a journal, from the segments' lines to ``read``, the result."""

    def __init__(self, folder: SessionFolder, after: SnapshotPlace | None) -> None:
        self._folder = folder
        self._after = after
        self._blobs = FileBlobs(folder.path / BLOBS)
        self._frames: list[tuple[JournalLine, int]] = []  # each with the number of its file
        self._empty = True
        self._later: SessionFault | None = None
        seq = after.seq if after else 0
        self.read = SessionRead(after=seq, last_seq=seq)

    def read_all(self) -> SessionRead:
        """Read all segments of the journal; damage goes to ``unread``. Raises SessionFault where
        nothing can be read, KeyError where the record ``after`` is missing.
        """
        numbers = self._folder.list_segments()
        if not numbers:
            raise SessionFault("missing", self._folder.path)
        refused: SessionFault | None = None
        for number in numbers:
            try:
                self._read_segment(number, first=number == numbers[0])
            except SessionFault as fault:
                refused = fault
                self.read.unread.append(Unread(number, 0, "segment"))
        if self._later is not None:
            raise self._later
        if not self._frames and self.read.header is None:
            if refused is not None:
                raise refused
            raise SessionFault("empty" if self._empty else "foreign", self._folder.path)
        self._collect_records()
        return self.read

    def _read_segment(self, number: int, *, first: bool) -> None:
        """Read one segment. Of segments before that of ``after`` only the first one's header is
        read. Raises SessionFault, KeyError.
        """
        after = self._after
        skipped = after is not None and number < after.segment
        if skipped and not first:
            return
        name = segment_name(number)
        try:
            with self._folder.open_file(name) as file:
                frames = scan(file)
                if after is not None and first:
                    head = next(frames, None)
                    if isinstance(head, JournalLine) and head.seq == HEADER_SEQ:
                        self._take_header(head, number)
                if after is not None and number == after.segment:
                    file.seek(after.start)
                    frames = scan(file)
                    _check_place(next(frames, None), after)
                if not skipped:
                    self._take_records(frames, number)
                    file.seek(0)
                    self._identify_file(file.read(_BEGINNING))
        except OSError as error:
            raise make_fault(self._folder.path / name, error) from error

    def _take_records(self, frames: Iterator[JournalLine | Damage], number: int) -> None:
        """Sort the lines of a segment into header, records and damage."""
        for frame in frames:
            if isinstance(frame, Damage):
                self.read.unread.append(Unread(number, frame.start, frame.reason))
            elif frame.seq == HEADER_SEQ:
                self._take_header(frame, number)
            else:
                self._frames.append((frame, number))
                self.read.size += frame.end - frame.start

    def _identify_file(self, start: bytes) -> None:
        """Note from a file's first bytes, while no record was found, whether it is empty or of a
        later program.
        """
        torn = {(u.start, u.reason) for u in self.read.unread} == {(0, "torn")}
        ours = _TAG.startswith(start) or start.startswith(_TAG)
        self._empty = self._empty and (not start or (torn and ours))
        if not self._frames and self.read.header is None and of_later_program(start):
            self._later = SessionFault("newer", self._folder.path)

    def _take_header(self, frame: JournalLine, number: int) -> None:
        """Keep the first valid header; note one of a later program."""
        try:
            header = header_of(parse_body(frame.body))
        except UnreadableRecord as error:
            self.read.unread.append(Unread(number, frame.start, str(error), HEADER_SEQ))
            return
        if isinstance(header, int):
            self._later = SessionFault("newer", self._folder.path)
        else:
            self.read.header = self.read.header or header

    def _collect_records(self) -> None:
        """Parse the records in the order of their numbers, each number once."""
        self._frames.sort(key=lambda found: found[0].seq)
        read = self.read
        for frame, number in self._frames:
            if frame.seq > MAX_SEQ and frame.seq > read.last_seq + 1:  # the next fits in no line
                read.unread.append(Unread(number, frame.start, "frame"))
            else:
                read.take_record(
                    frame.seq, number, frame.start, partial(load_fields, frame.body, self._blobs)
                )


def _check_place(found: JournalLine | Damage | None, place: SnapshotPlace) -> None:
    """Raise KeyError unless the record is the one that the snapshot was taken after."""
    if (
        not isinstance(found, JournalLine)
        or found.seq != place.seq
        or zlib.crc32(encode(found.seq, found.body)) != place.check
    ):
        raise KeyError(place.seq)
