"""The operation file_ops.search_text: find matching lines with RE2, which takes time linear in the
length of a text for every pattern (R18).
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple

from pydantic import Field, field_validator

from duckflow_tui.safety.paths import FileKind, Place, WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import MAX_BRIEF
from duckflow_tui.state.operations import Effect, Outcome, Zone
from duckflow_tui.tools.globs import MAX_PATTERN, FileGlob
from duckflow_tui.tools.listing import quote_path, require_directory, walk_directory
from duckflow_tui.tools.operation import (
    Arguments,
    Operation,
    Output,
    ToolContext,
    ToolFault,
    Work,
)

TIME_LIMIT: Final = 20.0  # seconds; R18
MAX_MATCHES: Final = 200
MAX_CONTEXT: Final = 20  # lines before a match, and as many after it
LINE_WIDTH: Final = 300  # characters of a matching line that are shown
_FILES_AT_ONCE: Final = 20  # files that a thread searches before their rows are yielded
_SNIFFED: Final = 8_192  # bytes by which a binary file is recognized
_PIECE: Final = 1_000_000  # characters of a line that are read at once
_WINDOW: Final = 32 * 1024  # bytes that are searched before a stop is looked for
_OVERLAP: Final = 8 * 1024  # bytes that a match may reach into the next window
_LARGEST: Final = 20_000  # instructions of a pattern; one byte can take all of them


class SearchText(Arguments):
    """Arguments of file_ops.search_text."""

    pattern: str = Field(min_length=1, max_length=2_000)
    path: str = "."
    glob: str | None = Field(default=None, max_length=MAX_PATTERN)
    regex: bool = False
    context: int = Field(default=0, ge=0, le=MAX_CONTEXT, description="Lines around.")

    @field_validator("glob")
    @classmethod
    def _check_glob(cls, glob: str | None) -> str | None:
        """Return the glob, None for an empty one. Raises ValueError for an invalid one."""
        if not glob:
            return None
        FileGlob(glob)
        return glob

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        """Return the pattern. Raises ValueError where it holds a NUL or a line break."""
        if "\0" in pattern:
            raise ValueError("it cannot hold a NUL character")
        if "\n" in pattern:
            raise ValueError("it is looked for in each line by itself; give one line of it")
        return pattern


@dataclass(slots=True)
class Matches:
    """The matches of a search so far, by file in the order in which they were found."""

    files: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    count: int = 0
    full: bool = False
    timed_out: bool = False
    partly: bool = False  # some files or folders were not searched in full
    searched: int | None = None  # number of files, where they were counted


class _Search(NamedTuple):
    """One search: its arguments, and the file or folder to search."""

    args: SearchText
    place: Place
    workspace: Workspace
    words: Callable[..., str]

    async def list_files(self, found: Matches) -> list[str]:
        """Return the files to search: the one that was named, or those of a folder without ignored
        and secret ones that fit the glob. Set ``found.searched`` to their number for a folder, and
        ``found.partly`` where it could not be listed in full.
        """
        place, args = self.place, self.args
        if not place.is_dir:
            return [place.resolved]
        glob = None if args.glob is None else FileGlob(args.glob)
        walked = await walk_directory(self.workspace, place, depth=None)
        paths = [
            entry.path
            for entry in walked.entries
            if entry.kind is FileKind.FILE
            and entry.zone in (Zone.INSIDE, place.zone)
            and (glob is None or glob.fits(entry.path.removeprefix(place.resolved_prefix)))
        ]
        found.partly = walked.cut or walked.deep > 0
        found.searched = len(paths)
        return paths

    def admits_file(self, path: str) -> bool:
        """Whether matches in this file may be reported: those in a secret file, or in one of
        another zone, only where the search names it.
        """
        try:
            found = self.workspace.locate_path(path if path.startswith("/") else f"./{path}")
        except WorkspaceError:
            return False
        allowed = found.zone in (Zone.INSIDE, self.place.zone)
        return allowed and (self.place.secret or not found.secret)


async def _prepare_search(
    args: SearchText, places: tuple[Place, ...], context: ToolContext
) -> Work:
    """Return the work that searches, within TIME_LIMIT, and describes the matches."""
    place = places[0]
    search = _Search(args, place, context.workspace, context.words)

    async def run() -> Output:
        """Search and return the matches. Raises ToolFault for an invalid pattern or a missing
        place.
        """
        if not place.exists or (args.glob and FileGlob(args.glob).folder_in("") != ""):
            require_directory(place)
        if not context.workspace.is_intact():
            raise ToolFault("search.workspace_gone")
        found = Matches()
        try:
            async with asyncio.timeout(TIME_LIMIT):  # R18a
                await _collect_matches(search, found, context)
        except TimeoutError:
            found.timed_out = True
        return _make_answer(args, place, found, context)

    return Work(run)


async def _collect_matches(search: _Search, found: Matches, context: ToolContext) -> None:
    """Search the files in a thread and add the rows to ``found`` until MAX_MATCHES are there.
    Raises ToolFault for an invalid pattern.
    """
    pattern = _compile_pattern(search.args)
    paths = await search.list_files(found)
    stopped = threading.Event()
    try:
        for begin in range(0, len(paths), _FILES_AT_ONCE):
            part = paths[begin : begin + _FILES_AT_ONCE]
            rows = await asyncio.to_thread(_search_files, search, pattern, part, stopped)
            for path, row, is_match in rows:
                if is_match and found.count >= MAX_MATCHES:
                    found.full = True
                    return
                found.files.setdefault(path, []).append(row)
                found.count += is_match
            if rows:
                context.progress(str(found.count))
    finally:
        stopped.set()


def _compile_pattern(args: SearchText) -> Any:
    """Return the compiled RE2 pattern, for bytes. Raises ToolFault for an invalid or too large
    one.
    """
    import re2  # pyright: ignore[reportMissingTypeStubs]

    library: Any = re2
    options = library.Options()
    options.log_errors = False  # it would write over the screen
    pattern = args.pattern if args.regex else library.escape(args.pattern)
    try:
        compiled = library.compile(f"(?m){pattern}".encode("utf-8", "replace"), options)
    except library.error as error:
        raise _make_pattern_fault(f"regex parse error: {error}", args) from error
    if compiled.programsize > _LARGEST:
        raise _make_pattern_fault("pattern too large: its repetitions take too long", args)
    return compiled


def _search_files(
    search: _Search, pattern: Any, paths: Sequence[str], stopped: threading.Event
) -> list[tuple[str, str, bool]]:
    """Return path, row and whether it matches for these files; of each file at most one match more
    than MAX_MATCHES. Files that are unreadable or that the search may not report are skipped, and
    those behind ``stopped``.
    """
    rows: list[tuple[str, str, bool]] = []
    workspace = search.workspace
    for path in paths:
        if stopped.is_set():
            break
        try:
            if path.startswith("/"):
                opened = workspace.open_place(workspace.locate_path(path))
            else:
                opened = workspace.open_below(path)  # the walk has checked its place
            file = os.fdopen(opened, "rb")
        except (WorkspaceError, OSError):
            continue
        with file, suppress(OSError):
            if not _may_match(file, pattern, stopped):
                continue
            own = [(path, *row) for row in _search_file(search, pattern, file, stopped)]
            if own and search.admits_file(path):
                rows += own
    return rows


def _may_match(file: BinaryIO, pattern: Any, stopped: threading.Event) -> bool:
    """Return False where a small file has no match, which is much faster to find in many lines at
    once than line by line; True where its lines must be searched, and after ``stopped``.
    """
    data = file.read(_PIECE)
    file.seek(0)
    is_whole = len(data) < _PIECE and not data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not is_whole or re.search(rb"\\[Az]", pattern.pattern):
        return True
    data, at = data.replace(b"\r\n", b"\n"), 0
    while not stopped.is_set():
        end = data.find(b"\n", at + _WINDOW) + 1 or len(data)
        if end - at > 2 * _WINDOW or pattern.search(data, at, end):
            return True
        if end == len(data):
            return False
        at = end
    return True


def _find_match(pattern: Any, text: bytes, stopped: threading.Event) -> Any:
    """Return the first match in a line, or None; also None after ``stopped``. A long line is
    searched in windows: a match may be missed that reaches far into the next.
    """
    for at in range(0, len(text) or 1, _WINDOW):
        if stopped.is_set():
            return None
        end = at + _WINDOW + _OVERLAP
        match = pattern.search(text, at, end)
        if match and match.end() == end < len(text):  # perhaps only as the window ends here
            match = pattern.match(text, match.start(), end + _WINDOW)
        if match:
            return match
    return None


def _search_file(
    search: _Search, pattern: Any, file: BinaryIO, stopped: threading.Event
) -> Iterator[tuple[str, bool]]:
    """Yield the rows of one file, each with whether it is a match or a line near one."""
    near = search.args.context
    before: deque[str] = deque(maxlen=near)
    after = matched = count = 0  # context lines still to yield; last line that matched; matches
    for number, offset, piece in _iter_pieces(file, stopped):
        match = _find_match(pattern, piece, stopped) if number != matched else None
        if offset and not match:
            continue  # a line is shown by its first piece and its first match
        if match:
            matched, count = number, count + 1
        column = offset + match.start() + 1 if match else None
        row = _make_row(number, column, piece, search.words)
        if not match and not after:
            before.append(row)
            continue
        yield from ((line, False) for line in before)
        yield row, match is not None
        before.clear()
        after = near if match else after - 1
        if count > MAX_MATCHES:
            return


def _iter_pieces(file: BinaryIO, stopped: threading.Event) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lines of a text file in pieces that fit into memory: the line's number from 1, the
    piece's offset in the line in bytes, and the piece as UTF-8. Yields nothing for a binary
    file.
    """
    head = file.read(_SNIFFED)
    file.seek(0)
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in head and not wide:
        return
    text = io.TextIOWrapper(
        file, encoding="utf-16" if wide else "utf-8", errors="replace", newline="\n"
    )
    number, offset = 1, 0
    while not stopped.is_set() and (piece := text.readline(_PIECE)):
        data = piece.encode()
        yield number, offset, data.rstrip(b"\r\n")
        if piece.endswith("\n"):
            number, offset = number + 1, 0
        else:
            offset += len(data)


def _make_row(number: int, column: int | None, text: bytes, words: Callable[..., str]) -> str:
    """Return a line for the model: ``number: text`` for a match, ``number- text`` for a line near
    one, which has no ``column``. A line of more than LINE_WIDTH characters is cut, with a note
    that gives the byte, from 1, at which the match begins.
    """
    shown = text[: 4 * LINE_WIDTH + 4].decode("utf-8", "replace").rstrip("\r")
    if len(shown) > LINE_WIDTH:
        note = words("search.goes_on")
        if column is not None:
            note = words("search.match_further", byte=f"{column:,}")
        shown = f"{shown[:LINE_WIDTH]} {note}"
    return f"{number}{'-' if column is None else ':'} {shown}"


def _make_answer(args: SearchText, place: Place, found: Matches, context: ToolContext) -> Output:
    """Return the matches, by file, for the model."""
    plural = "es" if found.count != 1 else ""
    files = f"{len(found.files)} file{'s' if len(found.files) != 1 else ''}"
    pattern = json.dumps(args.pattern, ensure_ascii=False)[:200]
    head = f"[{found.count} match{plural} in {files} for {pattern}]"
    words = context.words
    if not found.files:
        name, where = "search.none", place.shown
        if found.searched is not None:
            name = "search.none_in_files"
            where = f"{found.searched:,} file{'s' * (found.searched != 1)} of {where}"
        if args.glob is not None and place.is_dir:
            glob = json.dumps(args.glob, ensure_ascii=False)
            where = words("search.fitting", where=where, glob=glob)
        head = words(name, pattern=pattern, where=where)
    lines = [head]
    for path, rows in found.files.items():
        lines.append(quote_path(path))
        lines.extend(f"  {row}" for row in rows)
    if found.full:
        lines.append(words("search.full", count=str(MAX_MATCHES)))
    if found.partly:
        lines.append(words("search.partly"))
    if found.timed_out:
        lines.append(words("search.timed_out", seconds=f"{TIME_LIMIT:.0f}"))
    summary = f"{found.count} · {len(found.files)}"
    return Output("\n".join(lines), f"time-out · {summary}" if found.timed_out else summary)


def _make_pattern_fault(message: str, args: SearchText) -> ToolFault:
    """Return the fault of a pattern that was refused with this message."""
    # The reason is on the last line, after the pattern.
    reason = message.strip().rpartition("\n")[2] if len(message) > MAX_BRIEF else message.strip()
    name = "search.no_expression" if args.regex else "search.no_pattern"
    return ToolFault(name, Outcome.INVALID, reason=reason[:MAX_BRIEF])


SEARCH_TEXT: Final = Operation(
    name="file_ops.search_text",
    summary="Find lines of files.",
    help=f"At most {MAX_MATCHES}; ignored and binary files are left out.",
    effect=Effect.READ,
    arguments=SearchText,
    paths=lambda args: (FileGlob(args.glob).folder_in(args.path) if args.glob else args.path,),
    prepare=_prepare_search,
    content=frozenset({"pattern", "glob"}),
)
