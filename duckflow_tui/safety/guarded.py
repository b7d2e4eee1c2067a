"""Places below a workspace that the sandbox keeps from commands; and, where there is
no sandbox, whether commands that read would show it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import struct
import time
from collections.abc import Container, Iterable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from duckflow_tui.safety.git_places import (
    REPOSITORY_NAMES,
    find_git_places,
    git_dirs,
    is_repository,
)
from duckflow_tui.safety.names import (
    holds_secrets,
    is_protected,
    is_secret_name,
)
from duckflow_tui.safety.paths import Identity
from duckflow_tui.safety.workspace import Workspace

MAX_NAMES: Final = 500_000  # that are looked at; 50,000 take 0.05 s
MAX_SECONDS: Final = 10.0
MAX_PLACES: Final = 200  # bubblewrap takes 0.8 s for these, and four times that for twice as many
MAX_TEXT: Final = 60_000  # characters of all paths as JSON: an argument has at most 131,072 bytes

_SHAPE: Final = frozenset({"HEAD", "head", "objects", "refs", "commondir"})

#: What files of git begin with that are named after branches: nobody keeps a secret so.
_BRANCH: Final = re.compile(rb"ref: refs/|[0-9a-f]{40}")

#: Files that hold a secret only where they say so, by the end of their names: a certificate is
#: public, and settings of a package manager are needed by every command of such a project.
_GIVEN: Final = re.compile(rb"(?i)(?:auth|token|password)\w*[\"']?\s*[=:]\s*[\"']?[^\s\"'$]")
_SAYS: Final = {".pem": re.compile(b"PRIVATE KEY"), ".npmrc": _GIVEN, ".yarnrc.yml": _GIVEN}
#: Ends of names of what is written to be shared.
_SHARED: Final = (".example", ".sample", ".template", ".dist")
_MAX_INDEX: Final = 100_000_000  # bytes; of a larger one nothing counts as known to git
#: Bytes that are searched: bundles of certificates have 300,000. A larger file is a secret by name.
_SAID: Final = 2_000_000

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_NAME_ONLY: Final[int] = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)  # without the content


class Guarded(NamedTuple):
    """Absolute paths that hold no link. Not ``whole``: there is more than the limits let find."""

    closed: dict[str, Identity]  # repositories, what could not be looked into, and ``links``
    secret: tuple[str, ...]  # files, and folders that hold nothing else
    whole: bool = True
    links: tuple[str, ...] = ()  # that stand for a repository, the root's own too
    led: tuple[Path, ...] = ()  # where repositories below the root lead to, also what is absent


class KnownSecrets:
    """Secret files and folders that were found in this session, at most MAX_PLACES. Each is held
    open, so that its number is given to no other file as long as it is known.
    """

    def __init__(self) -> None:
        self._open: dict[Identity, tuple[int, str]] = {}

    def __contains__(self, identity: object) -> bool:
        return identity in self._open

    def add_paths(self, paths: Iterable[str]) -> tuple[bool, bool]:
        """Keep them, and forget what was deleted; raises nothing. Whether there was room for all,
        and whether a new one has more than one name.
        """
        for identity, (file, _) in list(self._open.items()):
            if not os.fstat(file).st_nlink:
                os.close(self._open.pop(identity)[0])
        linked = False
        for path in paths:
            try:
                file = os.open(path, _NAME_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError as error:
                if error.errno in _GONE:
                    continue
                return False, linked
            info = os.fstat(file)
            identity = info.st_dev, info.st_ino
            if identity in self._open:
                os.close(file)
            elif len(self._open) >= MAX_PLACES:
                os.close(file)
                return False, linked
            else:
                self._open[identity] = file, path
                linked |= stat.S_ISREG(info.st_mode) and info.st_nlink > 1
        return True, linked

    def list_outside(self, root: Path) -> list[str]:
        """Those to which a link of the workspace led, as far as they are still there."""
        found: list[str] = []
        for identity, (_, path) in self._open.items():
            with contextlib.suppress(OSError):
                info = os.lstat(path)
                if not Path(path).is_relative_to(root) and identity == (info.st_dev, info.st_ino):
                    found.append(path)
        return found

    def forget_all(self) -> None:
        """Forget all."""
        while self._open:
            os.close(self._open.popitem()[1][0])


def find_guarded_places(workspace: Workspace, known: KnownSecrets | None = None) -> Guarded:
    """Look through the workspace by descriptors, following no link. Blocking; raises nothing.

    Found are: each ``.git`` below the root with the places that it leads to, folders that are
    repositories themselves, folders that cannot be listed, and secret files by their names, but for
    those that plainly hold none, and those that git has as they are, since any command can ask it
    for them. No name of a folder and nothing beside a file makes it less of a secret: a command can
    move it there. What the root itself holds for git and the app is not among them, but for links.

    What is ``known`` is secret under any name: a command can rename the folder that made it one, or
    remove the link that led to it. What is found comes to it.
    """
    workspace.read_git_settings()  # the caller closes the places of the root itself
    if known is None:
        return _scan_workspace(workspace, ())
    found = _scan_workspace(workspace, known)
    room, linked = known.add_paths(found.secret)
    found = (
        _scan_workspace(workspace, known) if linked else found
    )  # its other name may have come first
    beside = (path for path in known.list_outside(workspace.root) if path not in found.secret)
    return found._replace(secret=(*found.secret, *beside), whole=found.whole and room)


def _scan_workspace(workspace: Workspace, known: Container[Identity]) -> Guarded:
    root = str(workspace.root).rstrip("/")
    own = {*map(str, workspace.closed_places)}
    closed: dict[str, Identity] = {}
    secret: dict[str, None] = {}
    links, led = list[str](), list[Path]()
    until, seen, whole = time.monotonic() + MAX_SECONDS, 0, True
    # Folders by the one they lie in, no path being kept twice; and whether that is closed.
    pending = [("", "", False)]
    while pending and whole:
        above, own_name, shut = pending.pop()
        folder = f"{above}/{own_name}" if above else own_name
        here = f"{root}/{folder}" if folder else root
        try:
            names, folders, files, met = _list_folder(workspace, folder, known)
        except OSError as error:
            if error.errno not in _GONE:
                whole = (
                    error.errno == errno.EACCES
                    and bool(folder)
                    and _note_closed_place(here, closed)
                )
            continue
        seen += len(names)
        if not shut and is_repository({name.lower() for name in names & _SHAPE}):
            if folder:
                whole, shut = _note_closed_place(here, closed), True
            else:  # the rest of the workspace stays open
                for name in names:
                    if name.lower() in REPOSITORY_NAMES:
                        whole &= _note_closed_place(f"{here}/{name}", closed)
            led += (git := find_git_places(Path(here), Path(here)).closed[1:])
            whole &= _note_closed_below(root, git, closed)
        parent = here.rpartition("/")[2]
        places = [f"{here}/{name}" for name in names if _is_protected_name(name) and not shut]
        links += [path for path in places if os.path.islink(path)]
        for path in places if folder else links:
            whole &= _note_closed_place(path, closed)
        if folder and places:
            led += (git := find_git_places(Path(here)).closed)
            whole &= _note_closed_below(root, git, closed)
        for name in folders:
            if f"{here}/{name}" in own:
                continue
            if name in met or holds_secrets(name, parent):
                secret[f"{here}/{name}"] = None
            else:
                pending.append((folder, name, shut or _is_protected_name(name)))
        for name in files:
            if len(secret) > MAX_PLACES:
                break
            if name in met:
                secret[f"{here}/{name}"] = None
            elif _is_secret_name(name, parent):
                path = os.path.realpath(f"{here}/{name}")
                if _is_secret(path) and not (shut and _is_branch(path)):
                    secret[path] = None  # R07f
        text = sum(len(json.dumps(path)) for path in (*closed, *secret))
        many = len(closed) + len(secret) > MAX_PLACES or text > MAX_TEXT
        whole = whole and not (many or seen > MAX_NAMES or time.monotonic() > until)
    unknown = _unknown_to_git(workspace.root, tuple(secret))
    return Guarded(closed, unknown, whole, tuple(links), tuple(led))


def _list_folder(
    workspace: Workspace, folder: str, known: Container[Identity]
) -> tuple[set[str], list[str], list[str], set[str]]:
    """The names in a folder, those of folders, the rest, and those of what is ``known``; of too
    many only the first. Raises OSError.
    """
    names, folders, files, met = set[str](), list[str](), list[str](), set[str]()
    descriptor = workspace.open_below(folder, folder=True)
    try:
        device = os.fstat(descriptor).st_dev
        with os.scandir(descriptor) as found:
            for entry in islice(found, MAX_NAMES + 1):
                names.add(entry.name)
                (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
                if (device, entry.inode()) in known:
                    met.add(entry.name)
    finally:
        os.close(descriptor)
    return names, folders, files, met


def _note_closed_place(path: str, closed: dict[str, Identity]) -> bool:
    """Note what is to be closed; whether that could be done. Of a link it is the link itself."""
    try:
        info = os.lstat(path)
    except OSError as error:
        return error.errno in _GONE
    closed[path] = (info.st_dev, info.st_ino)  # R07e
    return True


def _note_closed_below(root: str, places: Iterable[Path], closed: dict[str, Identity]) -> bool:
    """Note those of the places that lie in the workspace, where its own repository does not hold
    them already; whether that could be done.
    """
    paths = dict.fromkeys(map(os.path.realpath, places))
    inside = [p for p in paths if p.startswith(f"{root}/") and not p.startswith(f"{root}/.git/")]
    return all(_note_closed_place(path, closed) for path in inside)


def _is_secret(path: str) -> bool:
    """Whether the file of such a name is there, and holds a secret as far as it would say so."""
    says = next((shape for end, shape in _SAYS.items() if path.endswith(end)), None)
    if says is None or not os.path.isfile(path):
        return os.path.exists(path) and not os.path.isdir(path)
    data = _read_small_file(path, _SAID)
    return data is None or says.search(data) is not None


def _is_branch(path: str) -> bool:
    """Whether it is what git notes of a branch, which may have any name."""
    return _BRANCH.match(_read_small_file(path, _SAID) or b"") is not None


def _read_small_file(path: str, most: int) -> bytes | None:
    """The bytes of a plain file; None for a larger one and for what cannot be read."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO: no wait
        with open(descriptor, "rb") as file:
            info = os.fstat(descriptor)
            if stat.S_ISREG(info.st_mode) and info.st_size <= most:
                return file.read(info.st_size)
    return None


def _unknown_to_git(root: Path, secret: tuple[str, ...]) -> tuple[str, ...]:
    """Those whose content is not the one that the repository's index names, by its hash: a command
    may have written the index, but has no hash of what it cannot read. Size and time tell nothing.
    """
    folder = next(git_dirs(root), None) if secret else None
    index = folder and _read_small_file(str(folder / "index"), _MAX_INDEX)
    return tuple(path for path in secret if not (index and _is_index_entry(index, root, path)))


def _is_index_entry(index: bytes, root: Path, path: str) -> bool:
    """Whether git's index, in the format of versions 2 and 3, lists the file at ``path`` with its
    present content and no flag.
    """
    name = os.fsencode(os.path.relpath(path, root))
    data = _read_small_file(path, _SAID)
    if data is None:
        return False
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return blob.digest() + struct.pack(">H", len(name)) + name + b"\0" in index


def _is_protected_name(name: str) -> bool:
    return (name[0] in ".gG" or not name.isascii()) and is_protected(name)


@lru_cache(maxsize=65_536)  # most names come again with the next command
def _is_secret_name(name: str, parent: str) -> bool:
    return is_secret_name(name, parent) and not name.lower().endswith(_SHARED)
