"""The risk of a call: the highest of operation, path and content (S4-66), with its reasons; zones
of paths; scans of directories.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Set
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Final

from duckflow_tui.safety.command_parsing import CommandLine, iter_pieces
from duckflow_tui.safety.git_places import REPOSITORY_NAMES, find_git_places, is_repository
from duckflow_tui.safety.names import (
    BINARY_SUFFIXES,
    EXECUTABLE_SUFFIXES,
    effective_suffix,
    fold_name,
    holds_secrets,
    is_protected,
    is_secret,
    is_secret_name,
    lies_in_secrets,
    obeyed_kind,
)
from duckflow_tui.safety.paths import MAX_PATH, DirectoryEntry, FileKind, Identity, Location, Place
from duckflow_tui.safety.secrets import holds_secret
from duckflow_tui.state.operations import FILE_CHANGES, Effect, Risk, Zone

WIDE_FILES: Final = 10  # files in one decision that make its impact wide (S4-63)
BULK_LINES: Final = 500  # removed lines in one decision that make it bulk data (S4-63)
_RISKY: Final = frozenset({Effect.DELETE, Effect.EXECUTE, Effect.REMOTE})

#: Kinds of files that other programs act on, with the risk of changing one.
_OBEYED: Final = {"dot_name": Risk.HIGH, "program": Risk.MEDIUM, "build_file": Risk.MEDIUM}

_MAGIC: Final = (
    b"\x7fELF",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)

# Characters that reorder text on the screen, or are invisible in it (Trojan Source).
_HIDING: Final = re.compile(
    "[\u00ad\u034f\u115f\u1160\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2069\u2800"
    "\u3164\uffa0\U000e0000-\U000e007f]"
)

#: A Cyrillic letter beside a Latin one that it looks like: two names that read as one.
_LOOKALIKE: Final = re.compile(
    "[A-Za-z_][{0}]|[{0}][A-Za-z_]".format("аеорсухѕіјԁһӏԛԝАВЕЗКМНОРСТУХЅІЈ")
)


@dataclass
class Assessment:
    """The risk found so far and the codes of its reasons, in the order of finding."""

    risk: Risk
    reasons: list[str] = field(default_factory=list[str])
    #: Paths of secret files that a command names, links not followed; globs are not expanded.
    secrets: set[str] = field(default_factory=set[str])

    def add_reason(self, reason: str, risk: Risk) -> None:
        """Add a reason, once, and raise the risk to ``risk`` where that is higher."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.risk = max(self.risk, risk, key=attrgetter("rank"))


def assess_call(
    effect: Effect,
    zone: Zone,
    places: tuple[Place, ...],
    content: bytes | None = None,
    before: bytes | None = None,
    removed_lines: int = 0,
    *,
    wide: bool = False,
    line: CommandLine | None = None,
) -> Assessment:
    """Return risk and reasons of a call. ``places`` of a move are source, then target; of a command
    ``line`` the folder it runs in. ``content`` is the content of the file afterwards, ``before``
    the present one. ``wide``: its decision changes many files (S4-110).
    """
    found = Assessment(Risk.MEDIUM if effect in _RISKY else Risk.LOW)
    if line is not None:
        found = assess_command(line, places[0].real)
    marks = frozenset[str]().union(*map(_place_marks, places))
    changes = effect in FILE_CHANGES
    if zone is Zone.OUTSIDE:
        found.add_reason("outside", Risk.HIGH if changes else Risk.MEDIUM)
    elif zone is Zone.PROTECTED:
        found.add_reason("protected", Risk.CRITICAL)
    if "link_out" in marks:
        found.add_reason("link_out", Risk.HIGH)
    if "secret" in marks:
        found.add_reason("secret", Risk.CRITICAL if "outside" in marks else Risk.HIGH)
    if effect is Effect.DELETE:
        found.add_reason("deletes", Risk.MEDIUM)
    if changes:
        for mark, risk in _OBEYED.items():
            if mark in marks:
                found.add_reason(mark, risk)
        if wide or len(places) >= WIDE_FILES:
            found.add_reason("wide_impact", Risk.HIGH)
        if removed_lines >= BULK_LINES:
            found.add_reason("bulk_data", Risk.HIGH)
        if "hard_link" in marks and effect is not Effect.MOVE:  # a rename keeps the other names
            found.add_reason("hard_link", Risk.MEDIUM)
        if "through_link" in marks:
            found.add_reason("through_link", Risk.MEDIUM)
    text = "" if line is None else line.text
    if content is not None:
        text = content.decode("utf-8", "replace")
        if holds_secret(text, (before or b"").decode("utf-8", "replace")):
            found.add_reason("secret_content", Risk.HIGH)
    if _HIDING.search(text):
        found.add_reason("hidden_characters", Risk.HIGH)
    if _LOOKALIKE.search(text):
        found.add_reason("lookalike_letters", Risk.HIGH)
    script = effect in (Effect.WRITE, Effect.MOVE) and "script" in marks
    if script or (content is not None and content.startswith(b"#!")):
        found.risk = found.risk.raise_level()
        if "program" not in found.reasons:  # which implies this
            found.reasons.append("executable_extension" if script else "executable_content")
    return found


def _place_marks(place: Place) -> set[str]:
    """Return the codes of the properties of a place that matter for its risk."""
    name = place.real.name
    # A link is judged by its own name too.
    obeyed = {obeyed_kind(path.split("/"), place.mode) for path in (place.shown, place.resolved)}
    marks = {
        "link_out": place.leads_out,
        "secret": place.secret,
        "outside": place.zone is Zone.OUTSIDE,
        "program": "run_by_git" in place.reasons,
        **dict.fromkeys(obeyed, True),
        "through_link": place.is_link,
        "hard_link": "hard_link" in place.reasons,
        "script": effective_suffix(name) in EXECUTABLE_SUFFIXES,
    }
    return set(compress(marks, marks.values()))


def assess_command(line: CommandLine, cwd: Path) -> Assessment:
    """Return the risk of a line that runs in ``cwd`` without a sandbox: MEDIUM, or HIGH where it
    cannot be parsed, holds hidden characters or names a secret file. Names of programs do not
    matter.
    """
    found = Assessment(Risk.MEDIUM)
    if line.reason == "hidden":
        found.add_reason("hidden_characters", Risk.HIGH)
    if not line.readable:
        found.add_reason("not_readable", Risk.HIGH)
    folders = [cwd]  # the line may have changed into any of them
    for words in line.found:
        if words[:1] == ("cd",):
            folders += [cwd / word for word in words[1:]]
        for word in words:
            for text in iter_pieces(word):
                _add_secret(found, text, folders)
    for file in line.files:
        _add_secret(found, file, folders)
    return found


def _add_secret(found: Assessment, text: str, folders: list[Path]) -> None:
    """Add a reason and the possible paths if a word of a line names a secret file: ``.env``,
    ``--file=.env``. ``folders`` are the folders that it may be relative to.
    """
    path = text.rpartition("=")[2]
    names = [name for name in path.split("/") if name not in ("", ".")]
    if names and is_secret(names):
        found.add_reason("secret", Risk.HIGH)
        found.secrets |= {os.path.normpath(folder / path) for folder in folders}


def is_binary_program(place: Place | None, content: bytes | None) -> bool:
    """Whether a write would create a native program, by its name or its first bytes."""
    if place is not None and effective_suffix(place.real.name) in BINARY_SUFFIXES:
        return True
    if content is None:
        return False
    windows = content.startswith(b"MZ") and b"\0" in content[:256]
    return windows or content.startswith(_MAGIC)


#: From the least to the most strict zone (R02: the stricter wins).
STRICTNESS: Final = (Zone.NOWHERE, Zone.INSIDE, Zone.SECRET, Zone.OUTSIDE, Zone.PROTECTED)

# Views into the kernel: /proc/self/environ holds keys, /proc/self/root leads anywhere.
_SYSTEM: Final = frozenset({"proc", "sys", "dev"})

# Protected files that a file with several hard links is compared with, at most.
_MAX_ENTRIES: Final = 100_000

#: Names that make a folder a repository, folded → as git spells them.
_SHAPE: Final = {"head": "HEAD", "objects": "objects", "refs": "refs", "commondir": "commondir"}

# Content-addressed stores: thousands of entries, none of which git obeys.
_LEFT_OUT: Final = frozenset({"objects", "lfs"})


def strictest_zone(zones: Iterable[Zone]) -> Zone:
    """Return the strictest of the zones; NOWHERE for none."""
    return max(zones, key=STRICTNESS.index, default=Zone.NOWHERE)


@dataclass(frozen=True)
class ZoneJudgement:
    """The zone of a location and the reason. ``inside`` holds its names below the root, None
    outside.
    """

    zone: Zone
    inside: tuple[str, ...] | None
    secret: bool
    reason: str  # code, empty for an ordinary file inside


class ZoneMap:
    """Judges locations against the workspace root, known by its identity, and the protected
    directories, known by names and identities.
    """

    def __init__(self, root: Path, identity: Identity, own_dirs: Iterable[Path]) -> None:
        """``identity`` is that of ``root``; ``own_dirs`` are directories to protect. Reads the
        settings of git.
        """
        self.root = root
        self.identity = identity
        self._own_dirs = tuple(own_dirs)
        self._found = _fold_paths(())
        self.read_git_settings()

    def read_git_settings(self) -> None:
        """Read which places git obeys in the root by its present settings, and protect them in
        place of the earlier ones. Blocking: 0.3 ms.
        """
        git = find_git_places(self.root)
        closed = (*self._own_dirs, *git.closed)
        self.git = git.closed
        #: Directories of the app, and places that git obeys, resolved.
        self.own = tuple({Path(os.path.realpath(path)): None for path in closed})
        self._own_names = _fold_paths((*closed, *self.own))
        self._run_by_git = _fold_paths(git.programs)

    def protect_found(self, paths: Iterable[Path]) -> None:
        """Protect these places, found by a search below the root, in place of those of the last
        call.
        """
        self._found = _fold_paths(paths)

    def judge_location(self, spot: Location) -> ZoneJudgement:
        """Return the zone of a location."""
        inside = self.below_root(spot)
        secret = is_secret(spot.names if inside is None else inside)
        reason = self._find_protection(spot, inside)
        if reason:
            return ZoneJudgement(Zone.PROTECTED, inside, secret, reason)
        if inside is None:
            return ZoneJudgement(Zone.OUTSIDE, None, secret, "outside")
        if secret:
            return ZoneJudgement(Zone.SECRET, inside, True, "secret_name")
        reason = "run_by_git" if _fold_names(spot.names) in self._run_by_git else ""
        return ZoneJudgement(Zone.INSIDE, inside, False, reason)

    def below_root(self, spot: Location) -> tuple[str, ...] | None:
        """Return the names of a location below the root, which is recognized by its identity; None
        outside.
        """
        if len(self.root.parts) == 1:
            return spot.names
        if self.identity not in spot.ids:
            return None
        return spot.names[len(spot.ids) - spot.ids[::-1].index(self.identity) :]

    def shares_protected_inode(self, identity: Identity) -> bool:
        """Whether a file with several hard links is also a protected file. True as well when there
        are too many protected files to compare (every limit fails closed, R06).
        """
        trees = {self.root / ".git", self.root / ".duckflow", *self.own}
        return any(
            seen >= _MAX_ENTRIES or entry == identity
            for seen, entry in enumerate(_files_below(trees))
        )

    def is_closed(self, names: Iterable[str]) -> bool:
        """Whether an absolute path with these components is, or lies in, a directory of the app, a
        place that git obeys, or a place of the last ``protect_found``.
        """
        return _lies_in(names, self._own_names | self._found)

    def _find_protection(self, spot: Location, inside: tuple[str, ...] | None) -> str:
        """Return the code of the reason why a location is protected; empty where it is not."""
        if any(map(is_protected, spot.names if inside is None else inside)):
            return "protected_name"
        if inside is None and spot.names and spot.names[0] in _SYSTEM:
            return "protected_system"
        if self.is_closed(spot.names):
            return "protected_own"
        # A bind mount of a protected directory has its identity too.
        for path in (self.root / ".git", self.root / ".duckflow", *self.own):
            try:
                info = os.stat(path)
            except OSError:
                continue
            if (info.st_dev, info.st_ino) in spot.ids:
                return "protected_inode"
        folder = self.root
        for name in inside or ():
            folded = fold_name(name)
            # The names of a repository that exist here, and the one that would be created.
            there = {part for part in _SHAPE if os.path.lexists(folder / _SHAPE[part])} | {folded}
            below = folder != self.root
            if is_repository(there) and (below or folded in REPOSITORY_NAMES):
                return "protected_repository"
            if below and os.path.lexists(folder / ".git"):
                led = find_git_places(folder).closed
                if _lies_in(spot.names, _fold_paths(led)):
                    return "protected_own"
            folder /= name
        return ""


def _fold_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the components of a path as ``fold_name`` spells them."""
    return tuple(map(fold_name, names))


def _fold_paths(paths: Iterable[Path]) -> frozenset[tuple[str, ...]]:
    """Return the folded components of absolute paths."""
    return frozenset(_fold_names(path.parts[1:]) for path in paths)


def _lies_in(names: Iterable[str], places: Set[tuple[str, ...]]) -> bool:
    """Whether a path with these components is, or lies in, one of the places. ``places`` are folded
    components; ``names`` are folded here.
    """
    folded = _fold_names(names) if places else ()
    return any(folded[:count] in places for count in range(len(folded) + 1))


def _files_below(trees: Iterable[Path]) -> Iterator[Identity]:
    """Yield the identities of the trees that are files and of all files below the others."""
    for tree in trees:
        with contextlib.suppress(OSError):
            if stat.S_ISREG((info := os.stat(tree)).st_mode):
                yield info.st_dev, info.st_ino
        for entry in tree_below(str(tree), _LEFT_OUT):
            with contextlib.suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    info = entry.stat(follow_symlinks=False)
                    yield info.st_dev, info.st_ino


def tree_below(tree: str, leave_out: Set[str] = frozenset()) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a folder, at any depth, down to paths of MAX_PATH bytes. Links are not
    followed; a folder that cannot be listed is skipped. Folders named in ``leave_out`` are
    yielded but not entered, directly in ``tree`` and in each ``.git``. Blocking; raises nothing.
    """
    pending = [("", tree)]  # parent and name of each folder, so that no path is stored twice
    while pending:
        directory = "/".join(filter(None, pending.pop()))
        passed = leave_out if directory == tree or directory.endswith("/.git") else ()
        with contextlib.suppress(OSError), os.scandir(directory) as found:
            for entry in found:
                yield entry
                if entry.is_dir(follow_symlinks=False) and entry.name not in passed:
                    pending.append((directory, entry.name))


#: Levels of folders that a scan descends. Each needs an open descriptor, of which a process has
#: 1,024 or, on macOS, 256. Usual trees have up to 30 levels.
MAX_DEPTH: Final = 100
_LONGEST_NAME: Final = 255  # bytes

#: Names of the app's temporary files; never listed.
TEMP_PREFIX = ".duckflow-"
TEMP_SUFFIX = ".tmp"
log = logging.getLogger("duckflow.safety")


@dataclass(frozen=True)
class _Level:
    """A directory that is being listed, with its entries still to come."""

    fd: int
    name: str
    prefix: str
    secret: bool  # everything in it is a secret
    names: Iterator[os.DirEntry[str]]


def scan_below(
    directory: int,
    place: Place,
    *,
    depth: int | None,
    enter: Callable[[DirectoryEntry], bool] | None,
    sizes: bool,
    zones: ZoneMap,
) -> Generator[DirectoryEntry]:
    """Yield the entries below an open directory; the descriptor is closed at the end. A directory
    at MAX_DEPTH, or one whose paths could exceed MAX_PATH, is marked ``deep`` and not entered.
    See ``Workspace.scan_directory`` for the options.
    """
    outside = place.zone is Zone.OUTSIDE
    secret = lies_in_secrets(place.resolved.split("/"))
    levels = [_scan_level(directory, place.real.name, place.resolved_prefix, secret)]
    try:
        while levels:
            here = levels[-1]
            found = next(here.names, None)
            if found is None:
                os.close(levels.pop().fd)
                continue
            entry = _make_entry(found, here, len(levels), outside, sizes, zones)
            if entry is None:
                continue
            yield entry
            if entry.kind is not FileKind.DIR or entry.zone is Zone.PROTECTED or entry.deep:
                continue
            if (depth is not None and len(levels) >= depth) or (enter and not enter(entry)):
                continue
            below = _open_below(here.fd, entry)
            if below is not None:
                secret = here.secret or holds_secrets(entry.name, here.name)
                levels.append(_scan_level(below, entry.name, entry.path + "/", secret))
    finally:
        for level in levels:
            os.close(level.fd)


def _scan_level(fd: int, name: str, prefix: str, secret: bool) -> _Level:
    """List an open directory, sorted by name; one that cannot be listed counts as empty and is
    logged.
    """
    try:
        with os.scandir(fd) as found:
            names = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        log.warning("cannot list %s: %s", prefix or ".", error.strerror)
        names = []
    return _Level(fd, name, prefix, secret, iter(names))


def _open_below(fd: int, entry: DirectoryEntry) -> int | None:
    """Open a directory for listing, following no link; None, with a log entry, where it cannot be
    opened.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(entry.name, flags, dir_fd=fd)
    except OSError as error:
        log.warning("cannot list %s: %s", entry.path, error.strerror)
        return None


def _make_entry(
    found: os.DirEntry[str], here: _Level, depth: int, outside: bool, sizes: bool, zones: ZoneMap
) -> DirectoryEntry | None:
    """Return the entry with its kind, zone and, with ``sizes``, its size in bytes; None for the
    app's temporary files and for a file that vanished or was replaced meanwhile. ``outside``:
    the directory lies outside the workspace.
    """
    name = found.name
    path = here.prefix + name
    size = 0
    shared = False
    if found.is_symlink():
        kind = FileKind.LINK
    elif found.is_dir():
        kind = FileKind.DIR
    elif not found.is_file():
        kind = FileKind.SPECIAL
    else:
        kind = FileKind.FILE
        if name.startswith(TEMP_PREFIX) and name.endswith(TEMP_SUFFIX):
            return None
        if sizes:
            try:
                info = os.stat(name, dir_fd=here.fd, follow_symlinks=False)
            except FileNotFoundError:
                return None
            if not stat.S_ISREG(info.st_mode):
                return None
            size = info.st_size
            shared = info.st_nlink > 1 and zones.shares_protected_inode((info.st_dev, info.st_ino))
    names = Path(path).parts[1:] if outside else (*zones.root.parts[1:], *path.split("/"))
    own = kind is FileKind.DIR and zones.is_closed(names)
    if is_protected(name) or shared or own:
        zone = Zone.PROTECTED
    elif outside:
        zone = Zone.OUTSIDE
    elif here.secret or is_secret_name(name, here.name):
        zone = Zone.SECRET
    else:
        zone = Zone.INSIDE
    deep = kind is FileKind.DIR and (
        depth >= MAX_DEPTH
        or sum(len(os.fsencode(part)) + 1 for part in names) + _LONGEST_NAME >= MAX_PATH
    )
    return DirectoryEntry(path, name, kind, zone, size, depth, deep)
