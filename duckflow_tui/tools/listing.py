"""Lists the workspace: a directory's entries, files by name, files for the picker; and the rules of
ignore files.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Final, NamedTuple

from pydantic import Field, field_validator

from duckflow_tui.safety.names import words_of
from duckflow_tui.safety.paths import MAX_PATH, DirectoryEntry, FileKind, Place
from duckflow_tui.safety.risk import MAX_DEPTH
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.lines import split_bare_lines
from duckflow_tui.state.operations import Effect, Zone
from duckflow_tui.tools.command_runner import find_program
from duckflow_tui.tools.diffs import size_words
from duckflow_tui.tools.globs import MAX_PATTERN, FileGlob, Patterns
from duckflow_tui.tools.operation import (
    Arguments,
    Operation,
    Output,
    ToolContext,
    ToolFault,
    Work,
)
from duckflow_tui.tools.process_group import Program

MAX_LISTED: Final = 1_000
MAX_FOUND: Final = 500
MAX_WALKED: Final = 200_000  # entries of one walk
MAX_TEXT: Final = 32_000_000  # characters of their paths, 160 each on average
MAX_PICKED: Final = 100_000
_NAMED: Final = 20  # names of a directory in the overview
_TOPS: Final = 30  # directories in the overview


class ListDir(Arguments):
    path: str = "."
    depth: int = Field(default=1, ge=1, le=10)  # levels down


class FindFiles(Arguments):
    glob: str = Field(
        min_length=1,
        max_length=MAX_PATTERN,
        description="Such as *.py or src/**/*.ts; without / at any depth.",
    )
    path: str = "."

    @field_validator("glob")
    @classmethod
    def _is_understood(cls, glob: str) -> str:
        """Validate the glob; raises ValueError."""
        FileGlob(glob)
        return glob


class Listing(NamedTuple):
    """Entries of a walk, in order, and how many were left out."""

    entries: list[DirectoryEntry]
    ignored: int = 0
    cut: bool = False  # the limits ended the walk
    deep: int = 0  # directories that lie too deep to be entered


async def walk_directory(
    workspace: Workspace, place: Place, *, depth: int | None, sizes: bool = False
) -> Listing:
    """Return the entries below a directory without ignored ones, at most MAX_WALKED entries with
    MAX_TEXT characters, and no deeper than MAX_DEPTH. ``depth`` None: all levels. Walks in a
    thread, which ends soon after a cancellation.
    """
    stopped = threading.Event()
    outside = not place.real.is_relative_to(workspace.root)
    # Ignore files of a place outside are not read, as no gate named them.
    rules = IgnoreRules((lambda path: None) if outside else partial(read_rules, workspace))

    def collect() -> Listing:
        """Walk the directory; runs in a thread."""
        rules.begin_at("" if outside else place.resolved)
        entries: list[DirectoryEntry] = []
        ignored = text = deep = 0
        shut: set[str] = set()  # ignored directories, not to be entered
        for entry in workspace.scan_directory(
            place, depth=depth, enter=lambda entry: entry.path not in shut, sizes=sizes
        ):
            path = entry.path.removeprefix(place.resolved_prefix) if outside else entry.path
            if rules.is_ignored(path, is_dir=entry.kind is FileKind.DIR):
                ignored += 1
                shut.add(entry.path)
                continue
            entries.append(entry)
            text += len(path)
            # A directory at the requested depth is not counted as too deep.
            deep += entry.deep and (depth is None or entry.depth < depth)
            if stopped.is_set() or len(entries) >= MAX_WALKED or text >= MAX_TEXT:
                return Listing(entries, ignored, cut=True, deep=deep)
        return Listing(entries, ignored, deep=deep)

    try:
        return await asyncio.to_thread(collect)
    finally:
        stopped.set()


async def list_top(workspace: Workspace) -> tuple[str, ...]:
    """Return lines with the names in the workspace and one level down: a line for each directory,
    at most 30 lines of 20 names, with the number of further ones.
    """
    found = await walk_directory(workspace, workspace.locate_path("."), depth=2)
    below: dict[str, list[str]] = {"": []}
    for entry in found.entries:
        folder = entry.path.rpartition("/")[0]
        is_dir = entry.kind is FileKind.DIR
        below.setdefault(folder, []).append(quote_path(entry.name) + "/" * is_dir)
        if is_dir and not folder:
            below.setdefault(entry.path, [])
    lines: list[str] = []
    for folder, names in below.items():
        rest = [f"… {len(names) - _NAMED} more"] if len(names) > _NAMED else []
        said = ", ".join([*names[:_NAMED], *rest])
        lines.append(f"{quote_path(folder)}/: {said}" if folder else said)
    more = [f"… {len(lines) - _TOPS} more directories"] if len(lines) > _TOPS else []
    return (*filter(None, lines[:_TOPS]), *more)


def read_rules(workspace: Workspace, path: str) -> bytes | None:
    """Return the content of an ignore file, cut after MAX_RULES_BYTES + 1 bytes; None where there
    is none.
    """
    try:
        with open(workspace.open_below(path), "rb") as file:
            return file.read(MAX_RULES_BYTES + 1)
    except OSError:
        return None


async def _prepare_list(args: ListDir, places: tuple[Place, ...], context: ToolContext) -> Work:
    """Return the work that lists a directory."""
    place = places[0]

    async def run() -> Output:
        """List the directory."""
        require_directory(place)
        found = await walk_directory(context.workspace, place, depth=args.depth, sizes=True)
        shown = found.entries[:MAX_LISTED]
        lines = [
            _describe_entry(entry, entry.path.removeprefix(place.resolved_prefix))
            for entry in shown
        ]
        folders = sum(entry.kind is FileKind.DIR for entry in found.entries)
        files = len(found.entries) - folders
        facts = [
            f"{folders} director{'y' if folders == 1 else 'ies'}",
            f"{files} file{'s' * (files != 1)}",
        ]
        if found.ignored:
            facts.append(f"{found.ignored} ignored")
        header = f"[{place.shown}: {', '.join(facts)}]"
        if len(found.entries) > len(shown) or found.cut:
            more = f"{len(found.entries) - len(shown)}{'+' if found.cut else ''}"
            lines.append(context.words("listing.more", count=more))
        lines += _deeper_words(found, context)
        return Output("\n".join([header, *lines]), str(len(found.entries)))

    return Work(run)


async def _prepare_find(args: FindFiles, places: tuple[Place, ...], context: ToolContext) -> Work:
    """Return the work that finds files by a glob."""
    place = places[0]
    glob = FileGlob(args.glob)

    async def run() -> Output:
        """Find the files that match the glob."""
        require_directory(place)
        found = await walk_directory(context.workspace, place, depth=None)
        files = [entry.path for entry in found.entries if entry.kind is not FileKind.DIR]
        paths = [path for path in files if glob.fits(path.removeprefix(place.resolved_prefix))]
        count = f"{len(paths)} file{'s' * (len(paths) != 1)}"
        given = json.dumps(args.glob, ensure_ascii=False)
        head = f"{count} for {given}, of {len(files):,} in {place.shown}"
        if found.ignored:
            left_out = context.words("listing.ignored", count=f"{found.ignored:,}")
            head = f"{head}; {left_out}"
        lines = [f"[{head}]"]
        lines += [quote_path(path) for path in paths[:MAX_FOUND]]
        if len(paths) > MAX_FOUND:
            more = f"{len(paths) - MAX_FOUND:,}"
            lines.append(context.words("listing.more_found", count=more))
        if found.cut:
            looked = f"{len(found.entries) + found.ignored:,}"
            lines.append(context.words("listing.first_names", count=looked))
        lines += _deeper_words(found, context)
        return Output("\n".join(lines), str(len(paths)))

    return Work(run)


def _deeper_words(found: Listing, context: ToolContext) -> list[str]:
    """Return the line that tells the model that directories were too deep to be entered, if any."""
    if not found.deep:
        return []
    limits = {"levels": str(MAX_DEPTH), "bytes": f"{MAX_PATH:,}"}
    return [context.words("listing.deeper", **limits)]


def quote_path(path: str) -> str:
    """Return a path on one line: unchanged, or as a JSON string where it holds unprintable
    characters.
    """
    return path if path.isprintable() else json.dumps(path)


async def iter_files(
    workspace: Workspace, limit: int = MAX_PICKED
) -> AsyncGenerator[list[str], None]:
    """Yield files of the workspace without ignored ones, at most ``limit`` and MAX_TEXT, in no
    fixed order: in batches as ripgrep finds them, or where it is not installed all at once.
    """
    program = find_program("rg", workspace.root)
    if program is None or not workspace.is_intact():
        walked = await walk_directory(workspace, workspace.locate_path("."), depth=None)
        files = [entry.path for entry in walked.entries if entry.kind is not FileKind.DIR]
        yield files[:limit]
        return
    left, room = limit, MAX_TEXT
    argv = [program, *RG_OPTIONS, "--files", "--null"]
    process = await Program.start(argv, workspace.root, {})
    try:
        tail = b""
        while left > 0 < room and (chunk := await process.read(process.stdout)):
            room -= len(chunk)
            *names, tail = (tail + chunk).split(b"\0")
            batch = [os.fsdecode(name) for name in names[:left]]
            left -= len(batch)
            if batch:
                yield batch
    finally:
        process.close()
        await process.wait()


def require_directory(place: Place) -> None:
    """Raise ToolFault for a place that is absent or a file."""
    if not place.exists:
        raise ToolFault("file.missing", path=place.label)
    if not place.is_dir:
        raise ToolFault("listing.is_file", path=place.label)


def _describe_entry(entry: DirectoryEntry, path: str) -> str:
    """Return one line of a listing: name and kind or size."""
    name = quote_path(path)
    match entry.kind:
        case FileKind.DIR:
            return f"{name}/"
        case FileKind.LINK:
            return f"{name} (link)"
        case FileKind.SPECIAL:
            return f"{name} (no regular file)"
        case FileKind.FILE:
            mark = ", needs approval to read" if entry.zone is Zone.SECRET else ""
            return f"{name} ({size_words(entry.size)}{mark})"


LIST_DIR: Final = Operation(
    name="file_ops.list_dir",
    summary="List a directory, ignored files left out.",
    effect=Effect.READ,
    arguments=ListDir,
    paths=lambda args: (args.path,),
    prepare=_prepare_list,
)

FIND_FILES: Final = Operation(
    name="file_ops.find_files",
    listed=True,
    summary="Find files by their names.",
    effect=Effect.READ,
    arguments=FindFiles,
    paths=lambda args: (FileGlob(args.glob).folder_in(args.path),),
    prepare=_prepare_find,
    content=frozenset({"glob"}),
)

MAX_RULES: Final = 5_000  # R18, lines of one ignore file
MAX_RULES_BYTES: Final = 256 * 1024  # R18, of one ignore file

#: Folders of generated or fetched files; ignored also without an ignore file.
HEAVY: Final = words_of(
    ".git .hg .svn .duckflow node_modules __pycache__ .venv venv .tox .nox .mypy_cache "
    ".ruff_cache .pytest_cache"
)

#: Options that make ripgrep ignore the same files as ``walk_directory``.
RG_OPTIONS: Final = (
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--no-messages",
    "--no-ignore-parent",
    "--no-ignore-global",
    "--no-ignore-dot",
    "--no-ignore-exclude",
    *(f"--glob=!{name}" for name in sorted(HEAVY)),
)

#: Returns the content of an ignore file by its path below the root, None when there is none.
ReadRules = Callable[[str], bytes | None]


class IgnoreRules:
    """The ignore files of a tree, each read when the walk first comes to its folder."""

    def __init__(self, read: ReadRules) -> None:
        """``read`` returns the content of an ignore file by its path below the root."""
        self._read = read
        # Folder → the rules that apply in it, nearest first, each with the length of the prefix of
        # a path that is cut off before matching.
        self._chains: dict[str, tuple[tuple[int, Patterns], ...]] = {}

    def begin_at(self, folder: str) -> None:
        """Prepare for a walk of a folder that was named explicitly: where rules above ignore the
        folder, they do not apply below it. Empty and ``.`` are the root.
        """
        if folder in ("", "."):
            return
        names = folder.split("/")
        above = ["/".join(names[:count]) for count in range(1, len(names) + 1)]
        if any(self.is_ignored(path, is_dir=True) for path in above):
            self._chains = {folder.rpartition("/")[0]: ()}

    def is_ignored(self, path: str, *, is_dir: bool) -> bool:
        """Whether a path is ignored, by an ignore file or as a folder in HEAVY; ``path`` is
        relative to the root, with ``/``. The folders above it are assumed not to be: a walk does
        not enter ignored ones.
        """
        folder, _, name = path.rpartition("/")
        if is_dir and name in HEAVY:
            return True
        chain = self._rule_chain(folder)
        if not chain:
            return False
        asked = f"{path}/" if is_dir else path
        for start, rules in chain:
            said = rules.include(asked[start:])
            if said is not None:
                return said
        return False

    def _rule_chain(self, folder: str) -> tuple[tuple[int, Patterns], ...]:
        """Return the patterns that apply in a folder, nearest first, each with the offset at which
        its paths begin.
        """
        found = self._chains.get(folder)
        if found is None:
            above = self._rule_chain(folder.rpartition("/")[0]) if folder else ()
            rules = self._load_patterns(f"{folder}/.gitignore" if folder else ".gitignore")
            start = len(folder) + 1 if folder else 0
            found = ((start, rules), *above) if rules else above
            self._chains[folder] = found
        return found

    def _load_patterns(self, path: str) -> Patterns | None:
        """Parse one ignore file, skipping invalid lines. None for an absent, empty or too large
        one.
        """
        data = self._read(path)
        if not data or len(data) > MAX_RULES_BYTES:
            return None
        text = data.decode("utf-8", "replace")
        lines = [line for line in split_bare_lines(text)[:MAX_RULES] if len(line) <= MAX_PATTERN]
        try:
            return Patterns(lines)
        except ValueError:
            return Patterns([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    """Whether a line is a valid pattern; git too skips invalid ones."""
    try:
        Patterns([line])
    except ValueError:
        return False
    return True
