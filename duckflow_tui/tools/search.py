"""file_ops.search_text: lines that match, found by a program that can be killed (R08, R18)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import Field

from duckflow_tui.safety.names import SECRET_DIRS, SECRET_GLOBS
from duckflow_tui.safety.paths import FileKind, Place, WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import MAX_BRIEF
from duckflow_tui.state.operations import Effect, Outcome, Zone
from duckflow_tui.tools.commands import find_program, running
from duckflow_tui.tools.listing import RG_OPTIONS, name_filter, quoted, walk
from duckflow_tui.tools.operation import Arguments, Operation, Output, ToolContext, ToolFault, Work
from duckflow_tui.tools.process_group import Program

TIME_LIMIT: Final = 20.0  # seconds; R18
MAX_MATCHES: Final = 200
MAX_CONTEXT: Final = 20  # lines before and as many behind a match
LINE_WIDTH: Final = 300  # characters of a matching line that are shown
_ROW: Final = re.compile(rb"(\d+)([:-])(.*)", re.S)
_WORKER: Final = Path(__file__).with_name("search_worker.py")


class SearchText(Arguments):
    pattern: str = Field(
        min_length=1, max_length=2_000, description="A text, or with regex a regular expression."
    )
    path: str = Field(default=".", description="File or directory.")
    glob: str | None = Field(default=None, max_length=1_000, description="Only such files: *.py.")
    regex: bool = False
    context: int = Field(default=0, ge=0, le=MAX_CONTEXT, description="Lines around each match.")


@dataclass(slots=True)
class Matches:
    """What a search found so far, by file in the order of discovery."""

    files: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    count: int = 0
    full: bool = False
    timed_out: bool = False
    partly: bool = False  # some places could not be read, or lie too deep


class _Search(NamedTuple):
    args: SearchText
    place: Place
    workspace: Workspace

    @property
    def target(self) -> str:
        """The place as programs are told it: below the root, or absolute outside of it."""
        root = self.workspace.root
        if self.place.real == root:
            return "."
        if self.place.real.is_relative_to(root):
            return f"./{self.place.real.relative_to(root)}"
        return str(self.place.real)

    def admits(self, path: str) -> bool:
        """Whether matches in this file may be told: it is what the gate, if any, has named."""
        try:
            found = self.workspace.locate(path)
        except WorkspaceError:
            return False
        if found.real == self.place.real:
            return True
        if found.secret and not self.place.secret:
            return False
        return found.zone in (Zone.INSIDE, self.place.zone)


async def _prepare(args: SearchText, places: tuple[Place, ...], context: ToolContext) -> Work:
    place = places[0]
    if "\0" in args.pattern or "\0" in (args.glob or ""):
        raise ToolFault("pattern and glob cannot hold a NUL character.", Outcome.INVALID)
    if args.glob is not None:
        name_filter(args.glob or " ")
    search = _Search(args, place, context.workspace)

    async def run() -> Output:
        if not place.exists:
            raise ToolFault(f"{place.said} does not exist.")
        if not context.workspace.intact():
            raise ToolFault("The workspace directory is gone.")
        program = find_program("rg", context.workspace.root)
        found = Matches()
        lines = _by_program(program, search, found) if program else _by_worker(search, found)
        try:
            async with asyncio.timeout(TIME_LIMIT):
                await _collect(lines, search, found, context)
        except TimeoutError:
            found.timed_out = True
        finally:
            await lines.aclose()
        return _answer(args, place, found)

    return Work(run)


async def _collect(
    lines: AsyncGenerator[tuple[str, str, bool], None],
    search: _Search,
    found: Matches,
    context: ToolContext,
) -> None:
    admitted: dict[str, bool] = {}
    async for path, line, matches in lines:
        if path not in admitted:
            admitted[path] = search.admits(path)
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
    argv.append("--sort=path")
    if args.context:
        argv += [f"--context={args.context}", "--no-context-separator"]
    argv += [f"--max-columns={LINE_WIDTH}", "--max-columns-preview"]
    if not args.regex:
        argv.append("--fixed-strings")
    if args.glob is not None:
        argv.append(f"--glob={args.glob}")
    argv += RG_OPTIONS  # behind the user's glob: of two the last one counts
    if not search.place.secret:
        argv += [f"--iglob=!{glob}" for glob in sorted(SECRET_GLOBS | SECRET_DIRS)]
    async with running([*argv, "--", args.pattern, search.target], search.workspace.root) as rg:
        async for row in _rows(rg):
            yield row
        words = (await rg.read(rg.stderr)).decode("utf-8", "replace")
        if await rg.wait() == 2:
            if words:
                raise ToolFault(_pattern_words(words, args), Outcome.INVALID)
            found.partly = True


async def _by_worker(
    search: _Search, found: Matches
) -> AsyncGenerator[tuple[str, str, bool], None]:
    args = search.args
    if search.place.is_dir:
        walked = await walk(search.workspace, search.place, depth=None)
        found.partly = walked.cut or walked.deep > 0
        names = name_filter(args.glob) if args.glob else None
        paths = [
            entry.path
            for entry in walked.entries
            if entry.kind is FileKind.FILE
            and entry.zone in (Zone.INSIDE, search.place.zone)
            and (names is None or names.include(entry.path.removeprefix(search.place.prefix)))
        ]
    else:
        paths = [search.place.resolved]
    outside = not search.place.real.is_relative_to(search.workspace.root)
    cwd = Path("/") if outside else search.workspace.root
    pattern = args.pattern if args.regex else re.escape(args.pattern)
    order = (
        json.dumps({"pattern": pattern, "width": LINE_WIDTH, "context": args.context}).encode()
        + b"\n"
    )
    names_in = b"".join(os.fsencode(path.lstrip("/")) + b"\0" for path in paths)
    argv = [sys.executable, "-I", "-S", str(_WORKER)]
    async with running(argv, cwd, with_input=True) as worker:
        assert worker.stdin is not None
        feeding = asyncio.create_task(_feed(worker.stdin, order + names_in))
        try:
            async for path, line, matches in _rows(worker):
                yield (f"/{path}" if outside else path), line, matches
            if await worker.wait() == 2:
                words = (await worker.read(worker.stderr)).decode("utf-8", "replace")
                raise ToolFault(_pattern_words(words, args), Outcome.INVALID)
        finally:
            feeding.cancel()
            with suppress(asyncio.CancelledError):
                await feeding


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(data)
        await pipe.drain()
        pipe.close()


async def _rows(program: Program) -> AsyncGenerator[tuple[str, str, bool], None]:
    """``path NUL number:text LF`` as the path, ``number: text``, and that it matches; ``-`` behind
    the number marks a line near a match.
    """
    tail = b""
    begun = b""  # of a path that holds a line break
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
            number, sign, text = row.groups()
            shown = text.decode("utf-8", "replace").rstrip("\r")
            name = os.fsdecode(path).removeprefix("./")
            yield name, f"{number.decode()}{sign.decode()} {shown}", sign == b":"


def _answer(args: SearchText, place: Place, found: Matches) -> Output:
    plural = "es" if found.count != 1 else ""
    files = f"{len(found.files)} file{'s' if len(found.files) != 1 else ''}"
    lines = [f"[{found.count} match{plural} in {files} for {json.dumps(args.pattern)[:200]}]"]
    for path, rows in found.files.items():
        lines.append(quoted(path))
        lines.extend(f"  {row}" for row in rows)
    if found.full:
        lines.append(f"[only the first {MAX_MATCHES} matches; narrow the pattern or the path]")
    if found.partly:
        lines.append("[some places lie too deep or could not be read; they were not searched]")
    if found.timed_out:
        lines.append(
            f"[stopped after {TIME_LIMIT:.0f} seconds, not everything was searched; narrow the "
            "path or simplify the pattern]"
        )
    return Output("\n".join(lines), f"{found.count} · {len(found.files)}")


def _pattern_words(words: str, args: SearchText) -> str:
    kind = "regular expression" if args.regex else "pattern"
    # What is wrong comes last, behind the pattern itself.
    reason = words.strip().rpartition("\n")[2] if len(words) > MAX_BRIEF else words.strip()
    return f"The {kind} cannot be used: {reason[:MAX_BRIEF]}"


SEARCH_TEXT: Final = Operation(
    name="file_ops.search_text",
    summary="Find lines of files.",
    help=f"Not of ignored, binary and (unless path names one) secret files; at most {MAX_MATCHES}.",
    effect=Effect.READ,
    arguments=SearchText,
    paths=lambda args: (args.path,),
    prepare=_prepare,
    content=frozenset({"pattern", "glob"}),
)
