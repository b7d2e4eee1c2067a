"""The operation file_ops.read_file: read a text file, a range of its lines, a picture, or an
earlier result.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.policy import CallFact
from duckflow_tui.state.base import LocalizedText, ModelText, clip_value, hash_data
from duckflow_tui.state.lines import split_lines, strip_ending
from duckflow_tui.state.operations import Effect, Outcome, Zone
from duckflow_tui.tools.diffs import NotText, decode_file, size_words
from duckflow_tui.tools.operation import (
    Arguments,
    Operation,
    Output,
    ToolContext,
    ToolFault,
    Work,
)
from duckflow_tui.tools.pictures import find_image_kind
from duckflow_tui.tools.results import HANDLE, MAX_LINE

DEFAULT_LINES: Final = 2_000  # lines of a read without a range
DEFAULT_BYTES: Final = 100_000  # bytes of text as UTF-8, of a read without a range
RANGE_BYTES: Final = 200_000  # bytes of a read with a range; less than MAX_RESULT (R18)
WHOLE_BYTES: Final = 8_000_000  # a larger file is read in pieces, and only as far as needed
_PIECE: Final = 1_000_000
_SNIFFED: Final = 4_096
_LONG_NAMED: Final = 5  # long lines that are named
_RANGE: Final = re.compile(r"\s*([1-9]\d{0,8})\s*(?:([-–:])\s*(\d{0,9})\s*)?")


class ReadFile(Arguments):
    """Arguments of file_ops.read_file."""

    path: str = Field(description="A file, or result:… as a cut result names it.")
    start_line: int | None = Field(default=None, ge=1)
    end_line: int | None = Field(default=None, ge=1)
    # Columns of each line, such as "20001-40000"; named only in the note on a long line.
    columns: SkipJsonSchema[str] = ""


class _Lines(NamedTuple):
    """A range of lines. ``first`` is the number of its first line, ``total`` the lines of the file,
    None where they were not counted; ``facts`` are notable properties for the model, ``sha`` the
    file's hash if it was read whole.
    """

    lines: Sequence[str]
    first: int
    total: int | None
    facts: tuple[LocalizedText, ...] = ()
    sha: str = ""

    @property
    def last_number(self) -> int:
        """The number of the range's last line."""
        return self.first + len(self.lines) - 1


async def _prepare_reading(args: ReadFile, places: tuple[Place, ...], context: ToolContext) -> Work:
    """Check the ranges and return the work that reads. Raises ToolFault for a range that ends
    before its start.
    """
    for start, end in [(args.start_line, args.end_line), _column_range(args)]:
        if end is not None and end < (start or 1):
            raise ToolFault(
                "read.end_before_start", Outcome.INVALID, end=str(end), start=str(start)
            )

    place = places[0] if places else None
    return Work(partial(_read_target, args, place, context))


def _column_range(args: ReadFile) -> tuple[int, int]:
    """Return the first and the last column to show of each line, counted from 1, at most MAX_LINE
    columns. Raises ToolFault for an invalid range.
    """
    found = _RANGE.fullmatch(args.columns or "1-")
    if found is None:
        raise ToolFault("read.no_range", Outcome.INVALID, given=clip_value(args.columns))
    first = int(found[1])
    last = first if not found[2] else int(found[3] or first + MAX_LINE)
    return first, min(last, first + MAX_LINE - 1)


def reading_facts(args: Arguments) -> frozenset[CallFact]:
    """Return ``CallFact.OWN_RESULT`` where a call reads an earlier result instead of a file; else
    nothing.
    """
    handle = isinstance(args, ReadFile) and args.path.startswith(HANDLE)
    return frozenset({CallFact.OWN_RESULT}) if handle else frozenset()


async def _read_result(args: ReadFile, context: ToolContext) -> Output:
    """Return a range of the result of an earlier call of this session. Raises ToolFault."""
    text = await context.result(args.path.removeprefix(HANDLE).strip())
    lines = await asyncio.to_thread(split_lines, text)
    if not lines:
        return Output(f"[{clip_value(args.path)}: empty]", "0")
    shown = clip_value(args.path)
    return _make_answer(args, shown, _read_range(args, shown, lines), context)


def _read_range(
    args: ReadFile,
    label: str,
    lines: Sequence[str],
    facts: tuple[LocalizedText, ...] = (),
    sha: str = "",
) -> _Lines:
    """Return the requested range of these lines. Raises ToolFault, naming the file as ``label``,
    where it begins behind the last line.
    """
    first = args.start_line or 1
    if first > len(lines):
        raise ToolFault("read.no_line", path=label, count=str(len(lines)), line=str(first))
    return _Lines(lines[first - 1 : args.end_line or len(lines)], first, len(lines), facts, sha)


async def _read_target(args: ReadFile, place: Place | None, context: ToolContext) -> Output:
    """Return the requested range of a file, or of an earlier result where ``place`` is None. A
    picture is returned as an image, of another binary file only its kind and size. Raises
    ToolFault.
    """
    if place is None:
        return await _read_result(args, context)
    if place.is_dir:
        raise ToolFault("read.is_directory", path=place.label)
    if not place.exists:
        raise ToolFault("read.missing", path=place.label)
    if place.size > WHOLE_BYTES:
        return _make_answer(args, place.shown, await _read_large(args, place, context), context)
    data = await context.workspace.read_bytes(place)
    sha = hash_data(data)
    read = {place.shown: sha}
    if not data:
        return Output(f"[{place.shown}: empty]", "0", read)
    try:
        file = decode_file(data)
    except NotText as error:
        if kind := find_image_kind(data):
            about = f"{kind}, {size_words(len(data))}"
            text = context.words("read.image", path=place.shown, about=about)
            return Output(text, about, read, images=(data,))
        fault = _make_binary_fault(place, len(data), error.told)
        return Output(context.words(fault.told), size_words(len(data)), read)
    found = _read_range(args, place.label, split_lines(file.text), file.notable_facts, sha)
    return _make_answer(args, place.shown, found, context, partly=place.zone is Zone.INSIDE)


async def _read_large(args: ReadFile, place: Place, context: ToolContext) -> _Lines:
    """Return the requested range of a file that is too large to be read whole; its lines are
    counted piece by piece. Raises ToolFault.
    """
    first = args.start_line or 1
    last = args.end_line or first + DEFAULT_LINES - 1
    head = await context.workspace.read_bytes(place, 0, _SNIFFED)
    if b"\0" in head:
        raise _make_binary_fault(place, place.size, ModelText("no_text.binary", {}))
    kept = bytearray()
    ended = False
    offset, line = 0, 1  # ``line``: the number of the line that ``offset`` lies in
    while line <= last and len(kept) <= 4 * RANGE_BYTES:
        piece = await context.workspace.read_bytes(place, offset, _PIECE)
        if not piece:
            ended = True
            break
        offset += len(piece)
        begin = start = 0
        for until in (first, last + 1):
            begin = start
            while line < until:
                end = piece.find(b"\n", start)
                if end < 0:
                    start = len(piece)
                    break
                line, start = line + 1, end + 1
        kept += piece[begin:start]
        context.progress(f"{place.shown} · {size_words(offset)}")
    if not kept:
        raise ToolFault("read.fewer_lines", path=place.label, line=str(first))
    try:
        shown = decode_file(bytes(kept)).text
    except NotText:
        # A very long line may be cut within a character.
        shown = bytes(kept).decode("utf-8", "replace")
    lines = split_lines(shown)
    total = first + len(lines) - 1 if ended else None
    return _Lines(lines, first, total)


def _make_answer(
    args: ReadFile, shown: str, found: _Lines, context: ToolContext, *, partly: bool = True
) -> Output:
    """Return the answer for these lines, cut to the limits, with a header and notes on what was
    cut. With ``partly`` the file counts as read by the model even where only a part is shown,
    else only where all of it is.
    """
    ranged = args.start_line is not None or args.end_line is not None
    budget = RANGE_BYTES if ranged else DEFAULT_BYTES
    most = len(found.lines) if ranged else DEFAULT_LINES
    kept: list[str] = []
    size = 0
    begin, end = _column_range(args)
    long: list[str] = []  # notes on lines that are longer than shown
    widest = 0
    for number, line in enumerate(found.lines[:most], found.first):
        bare = strip_ending(line)
        part = bare[begin - 1 : end] + line[len(bare) :]
        size += len(part.encode("utf-8", "replace"))
        if size > budget:
            break
        kept.append(part)
        widest = max(widest, len(bare))
        if len(bare) > end:
            least = "+" if found.total is None and number == found.last_number else ""
            figures = {"line": str(number), "count": f"{len(bare):,}{least}"}
            long.append(context.words("read.long_line", **figures))
    if begin > max(widest, 1):
        raise ToolFault("read.no_character", path=clip_value(shown), character=f"{begin:,}")
    last = found.first + len(kept) - 1
    note = ""
    total = str(found.total) if found.total is not None else f"more than {last}"
    facts = "".join(f", {context.words(fact.key, **fact.params)}" for fact in found.facts)
    whole = found.total is not None and last >= found.total
    if not whole and len(kept) < len(found.lines):
        note = context.words("read.cut", line=str(last + 1))
    elif not whole and found.total is None:
        note = context.words("read.goes_on", line=str(last + 1))
    if long:
        named = long[:_LONG_NAMED]
        if more := len(long) - len(named):
            named.append(context.words("read.others", count=str(more)))
        cut = context.words(
            "read.long_lines",
            shown=f"{begin}-{end}",
            lines=", ".join(named),
            next=f"{end + 1}-{end + MAX_LINE}",
        )
        note = f"{cut}\n{note}" if note else cut
    header = f"[{shown}: lines {found.first}-{last} of {total}{facts}]\n"
    body = "".join(kept).replace("\r\n", "\n")
    if note and not body.endswith("\n"):
        body += "\n"
    text = f"{header}{body}{note}"
    complete = whole and found.first == 1 and begin == 1 and not long
    read = {shown: found.sha} if found.sha and (partly or complete) else {}
    total_shown = str(found.total) if found.total is not None else "…"
    return Output(text, f"{found.first}–{last}/{total_shown}", read)


def _make_binary_fault(place: Place, size: int, problem: ModelText) -> ToolFault:
    """Return the fault for a file that is no text, with its size."""
    return ToolFault("read.no_text", path=place.shown, problem=problem, size=size_words(size))


READ_FILE: Final = Operation(
    name="file_ops.read_file",
    summary=f"Read {DEFAULT_LINES:,} lines of a text file, or others, counted from 1.",
    effect=Effect.READ,
    arguments=ReadFile,
    paths=lambda args: () if args.path.startswith(HANDLE) else (args.path,),
    prepare=_prepare_reading,
)
