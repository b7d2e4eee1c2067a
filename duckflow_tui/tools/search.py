"""file_ops.search_text: lines that match, found by a program that can be killed (R08, R18)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import Field, field_validator

from duckflow_tui.safety.names import SECRET_DIRS, SECRET_GLOBS
from duckflow_tui.safety.paths import FileKind, Place, WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import MAX_BRIEF
from duckflow_tui.state.operations import Effect, Outcome, Zone
from duckflow_tui.tools.command_runner import find_program, run_program
from duckflow_tui.tools.globs import MAX_PATTERN, FileGlob
from duckflow_tui.tools.listing import (
    RG_OPTIONS,
    IgnoreRules,
    ignore_rules,
    quote_path,
    require_directory,
    walk_directory,
)
from duckflow_tui.tools.operation import (
    Arguments,
    Operation,
    Output,
    ToolContext,
    ToolFault,
    Work,
)
from duckflow_tui.tools.process_group import Program

TIME_LIMIT: Final = 20.0  # seconds; R18
MAX_MATCHES: Final = 200
_MEMORY: Final = 512 * 1024 * 1024  # bytes that a search program may take
MAX_CONTEXT: Final = 20  # lines before and as many behind a match
LINE_WIDTH: Final = 300  # characters of a matching line that are shown
_ROW: Final = re.compile(rb"(\d+)(?::(\d+):|-)(.*)", re.S)
_TOTAL: Final = re.compile(rb"(.*)^\d+ matches\n.*?^(\d+) files searched\n", re.S | re.M)
_WORKER: Final = Path(__file__).with_name("search_worker.py")


class SearchText(Arguments):
    pattern: str = Field(min_length=1, max_length=2_000)
    path: str = "."
    glob: str | None = Field(default=None, max_length=MAX_PATTERN)
    regex: bool = False
    context: int = Field(default=0, ge=0, le=MAX_CONTEXT, description="Lines around.")

    @field_validator("glob")
    @classmethod
    def _is_understood(cls, glob: str | None) -> str | None:
        if not glob:
            return None
        FileGlob(glob)
        return glob

    @field_validator("pattern")
    @classmethod
    def _is_in_a_line(cls, pattern: str) -> str:
        if "\0" in pattern:
            raise ValueError("it cannot hold a NUL character")
        if "\n" in pattern:
            raise ValueError("it is looked for in each line by itself; give one line of it")
        return pattern


@dataclass(slots=True)
class Matches:
    """The matches of a search so far, by file in the order of discovery."""

    files: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    count: int = 0
    full: bool = False
    timed_out: bool = False
    partly: bool = False  # some places could not be read whole, or lie too deep
    searched: int | None = None  # files that there were to search, where they were counted


class _Search(NamedTuple):
    args: SearchText
    place: Place
    workspace: Workspace
    glob: FileGlob | None
    rules: IgnoreRules
    words: Callable[..., str]

    @property
    def top_folder(self) -> str:
        """The folder from which ignore files count, below the root; empty outside."""
        inside = self.place.real.is_relative_to(self.workspace.root)
        return self.place.resolved if inside else ""

    async def list_files(self, found: Matches | None = None) -> list[str]:
        """The files to search; ``found`` is told where that is not all of them."""
        walked = await walk_directory(self.workspace, self.place, depth=None)
        if found is not None:
            found.partly = walked.cut or walked.deep > 0
        return [
            entry.path
            for entry in walked.entries
            if entry.kind is FileKind.FILE
            and entry.zone in (Zone.INSIDE, self.place.zone)
            and (
                self.glob is None
                or self.glob.fits(entry.path.removeprefix(self.place.resolved_prefix))
            )
        ]

    @property
    def target_path(self) -> str:
        """The place as programs are told it: below the root, or absolute outside of it."""
        root = self.workspace.root
        if self.place.real == root:
            return "."
        if self.place.real.is_relative_to(root):
            return f"./{self.place.real.relative_to(root)}"
        return str(self.place.real)

    def admits_file(self, path: str) -> bool:
        """Whether matches in this file may be told: it is what the gate, if any, has named."""
        try:
            found = self.workspace.locate_path(path)
        except WorkspaceError:
            return False
        if found.real == self.place.real:
            return True
        if found.secret and not self.place.secret:
            return False
        return found.zone in (Zone.INSIDE, self.place.zone) and self._passes_filters(path)

    def _passes_filters(self, path: str) -> bool:
        """Whether the file is one of those that the glob and the ignore files leave, as
        ``find_files`` lists them. A program may have searched more.
        """
        top = self.place.resolved_prefix
        if self.glob is not None and not self.glob.fits(path.removeprefix(top)):
            return False
        outside = not self.place.real.is_relative_to(self.workspace.root)
        if outside:
            return not self.rules.leaves_out(path.removeprefix(top), "")
        return not self.rules.leaves_out(path, top)


async def _prepare_search(
    args: SearchText, places: tuple[Place, ...], context: ToolContext
) -> Work:
    place = places[0]
    glob = None if args.glob is None else FileGlob(args.glob)
    rules = ignore_rules(context.workspace, place)
    search = _Search(args, place, context.workspace, glob, rules, context.words)

    async def run() -> Output:
        if not place.exists or (glob is not None and glob.folder_in("") != ""):
            require_directory(place)
        if not context.workspace.is_intact():
            raise ToolFault("search.workspace_gone")
        if place.is_dir:
            await asyncio.to_thread(search.rules.begin_at, search.top_folder)
        program = find_program("rg", context.workspace.root)
        found = Matches()
        lines = _by_program(program, search, found) if program else _by_worker(search, found)
        try:
            async with asyncio.timeout(TIME_LIMIT):  # R18a
                await _collect_matches(lines, search, found, context)
        except TimeoutError:
            found.timed_out = True
        finally:
            await lines.aclose()
        if not found.files and place.is_dir and not found.timed_out and found.searched is None:
            found.searched = len(await search.list_files())
        return _make_answer(args, place, found, context)

    return Work(run)


async def _collect_matches(
    lines: AsyncGenerator[tuple[str, str, bool], None],
    search: _Search,
    found: Matches,
    context: ToolContext,
) -> None:
    admitted: dict[str, bool] = {}
    async for path, line, matches in lines:
        if path not in admitted:
            admitted[path] = await asyncio.to_thread(search.admits_file, path)
        if not admitted[path]:
            continue  # not even counted: that it matches would tell of its content
        if matches and found.count >= MAX_MATCHES:
            found.full = True
            return
        found.files.setdefault(path, []).append(line)
        found.count += matches
        if matches and found.count % 50 == 0:
            context.progress(str(found.count))


async def _by_program(
    program: str, search: _Search, found: Matches
) -> AsyncGenerator[tuple[str, str, bool], None]:
    args = search.args
    argv = [program, "--color=never", "--no-heading", "--with-filename", "--line-number", "--null"]
    argv += ["--sort=path", "--crlf", "--stats"]
    if args.context:
        argv += [f"--context={args.context}", "--no-context-separator"]
    argv += ["--column", f"--max-columns={4 * LINE_WIDTH}", "--max-columns-preview"]
    if not args.regex:
        argv.append("--fixed-strings")
    if search.glob is not None and search.place.is_dir:
        argv += [f"--glob={name}" for name in search.glob.rough_names() or ()]
    argv += RG_OPTIONS  # behind the user's glob: of two the last one counts
    if not search.place.secret:
        argv += [f"--iglob=!{glob}" for glob in sorted(SECRET_GLOBS | SECRET_DIRS)]
    argv += ["--", args.pattern, search.target_path]  # R08b
    async with run_program(argv, search.workspace.root, memory=_MEMORY) as rg:
        async for row in _iter_rows(rg, search.workspace.root, found, search.words):
            yield row
        if await rg.wait() == -signal.SIGABRT:  # a line is too long for it
            found.files.clear()
            found.count = 0
            async for row in _by_worker(search, found):
                yield row
            return
        if search.glob is not None:
            found.searched = None  # it was given more files than the glob means
        words = (await rg.read(rg.stderr)).decode("utf-8", "replace")
        if await rg.wait() == 2:
            if words:
                raise _make_pattern_fault(words, args)
            found.partly = True


async def _by_worker(
    search: _Search, found: Matches
) -> AsyncGenerator[tuple[str, str, bool], None]:
    args = search.args
    if search.place.is_dir:
        paths = await search.list_files(found)
        found.searched = len(paths)
    else:
        paths = [search.place.resolved]
    outside = not search.place.real.is_relative_to(search.workspace.root)
    cwd = Path("/") if outside else search.workspace.root
    pattern = args.pattern if args.regex else re.escape(args.pattern)
    order = (
        json.dumps({"pattern": pattern, "width": LINE_WIDTH + 1, "context": args.context}).encode()
        + b"\n"
    )
    names_in = b"".join(os.fsencode(path.lstrip("/")) + b"\0" for path in paths)
    argv = [sys.executable, "-I", "-S", str(_WORKER)]
    async with run_program(argv, cwd, with_input=True) as worker:
        assert worker.stdin is not None
        feeding = asyncio.create_task(_feed_input(worker.stdin, order + names_in))
        try:
            async for path, line, matches in _iter_rows(worker, cwd, found, search.words):
                yield (f"/{path}" if outside else path), line, matches
            if await worker.wait() == 2:
                words = (await worker.read(worker.stderr)).decode("utf-8", "replace")
                raise _make_pattern_fault(words, args)
        finally:
            feeding.cancel()
            with suppress(asyncio.CancelledError):
                await feeding


async def _feed_input(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(data)
        await pipe.drain()
        pipe.close()


async def _iter_rows(
    program: Program, cwd: Path, found: Matches, words: Callable[..., str]
) -> AsyncGenerator[tuple[str, str, bool], None]:
    """``path NUL number:column:text LF`` as the path, ``number: text``, and that it matches; of a
    line near a match it is ``number-text``. A text of more than LINE_WIDTH characters is cut, and
    the byte is told at which its match begins, counted from 1. ``found`` is told what other lines
    say: that a file was not searched whole, and behind the last row how many files were searched.
    """
    tail = b""
    begun = b""  # lines without NUL: the beginning of a path that holds line breaks, or a remark
    while chunk := await program.read(program.stdout):
        *lines, tail = (tail + chunk).split(b"\n")
        for line in lines:
            path, nul, rest = (begun + line).partition(b"\0")
            if not nul:
                begun = path + b"\n"
                continue
            begun = b""
            row = _ROW.match(rest)
            if row is None:
                continue
            if b"\n" in path:
                path = await asyncio.to_thread(_existing_path, path, cwd, found)
            number, column, text = row.groups()
            shown = text.decode("utf-8", "replace").rstrip("\r")
            if len(shown) > LINE_WIDTH:
                note = words("search.goes_on")
                if column:
                    note = words("search.match_further", byte=f"{int(column):,}")
                shown = f"{shown[:LINE_WIDTH]} {note}"
            name = os.fsdecode(path).removeprefix("./")
            yield name, f"{number.decode()}{':' if column else '-'} {shown}", column is not None
    if (total := _TOTAL.search(begun)) is not None:
        found.searched = int(total.group(2))
        found.partly |= bool(total.group(1).strip())


def _existing_path(text: bytes, cwd: Path, found: Matches) -> bytes:
    """The path that stands behind remarks, of which each is a line."""
    while b"\n" in text and not os.path.lexists(os.path.join(os.fsencode(cwd), text)):
        text = text.partition(b"\n")[2]
        found.partly = True
    return text


def _make_answer(args: SearchText, place: Place, found: Matches, context: ToolContext) -> Output:
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
    return Output("\n".join(lines), f"{found.count} · {len(found.files)}")


def _make_pattern_fault(words: str, args: SearchText) -> ToolFault:
    """The fault of a pattern that a search program refused in these words."""
    # What is wrong comes last, behind the pattern itself.
    reason = words.strip().rpartition("\n")[2] if len(words) > MAX_BRIEF else words.strip()
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
