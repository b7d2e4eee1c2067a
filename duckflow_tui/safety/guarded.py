"""Finds the secret files and the repositories below a workspace, which the sandbox keeps commands
from reading or changing.
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
from duckflow_tui.safety.names import holds_secrets, is_protected, is_secret_name
from duckflow_tui.safety.paths import Identity
from duckflow_tui.safety.workspace import Workspace

MAX_NAMES: Final = 500_000  # entries listed; 50,000 take 0.05 s
MAX_SECONDS: Final = 10.0
MAX_PLACES: Final = 200  # bubblewrap takes 0.8 s for these, and four times that for twice as many
MAX_TEXT: Final = 60_000  # characters of all paths as JSON: an argument has at most 131,072 bytes

_SHAPE: Final = frozenset({"HEAD", "head", "objects", "refs", "commondir"})

#: How git's files that are named after branches begin; no secret begins like this.
_BRANCH: Final = re.compile(rb"ref: refs/|[0-9a-f]{40}")

#: By the end of a name, a pattern without which the file holds no secret: a certificate is public,
#: and settings of a package manager are needed by every command of such a project.
_GIVEN: Final = re.compile(rb"(?i)(?:auth|token|password)\w*[\"']?\s*[=:]\s*[\"']?[^\s\"'$]")
_SAYS: Final = {".pem": re.compile(b"PRIVATE KEY"), ".npmrc": _GIVEN, ".yarnrc.yml": _GIVEN}
#: Ends of names of templates, which are meant to be shared.
_SHARED: Final = (".example", ".sample", ".template", ".dist")
_MAX_INDEX: Final = 100_000_000  # bytes; a larger index is not read
#: Bytes of a file that is searched: bundles of certificates have 300,000. A larger one is a secret.
_SAID: Final = 2_000_000

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_NAME_ONLY: Final[int] = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)  # without the content


class Guarded(NamedTuple):
    """Places that the sandbox guards: absolute paths without links. ``whole`` is False where the
    limits ended the search before it was complete.
    """

    closed: dict[str, Identity]  # repositories, folders that cannot be listed, and ``links``
    secret: tuple[str, ...]  # files, and folders that hold only secrets
    whole: bool = True
    links: tuple[str, ...] = ()  # links named ``.git`` or the like, also in the root
    led: tuple[Path, ...] = ()  # where repositories below the root lead; may be absent


class KnownSecrets:
    """Secret files and folders found in this session, at most MAX_PLACES. Each is held open by a
    descriptor, so that its inode is not reused while it is known. ``in`` tests an identity.
    """

    def __init__(self) -> None:
        self._open: dict[Identity, tuple[int, str]] = {}

    def __contains__(self, identity: object) -> bool:
        return identity in self._open

    def add_paths(self, paths: Iterable[str]) -> tuple[bool, bool]:
        """Add the paths and forget files that were deleted; raises nothing. Return whether all
        could be added, and whether a new one has several hard links.
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
        """Return the paths of known secrets outside ``root`` that are still the same files. (Links
        in the workspace led to them.)
        """
        found: list[str] = []
        for identity, (_, path) in self._open.items():
            with contextlib.suppress(OSError):
                info = os.lstat(path)
                if not Path(path).is_relative_to(root) and identity == (info.st_dev, info.st_ino):
                    found.append(path)
        return found

    def forget_all(self) -> None:
        """Forget all and close their descriptors."""
        while self._open:
            os.close(self._open.popitem()[1][0])


def find_guarded_places(workspace: Workspace, known: KnownSecrets | None = None) -> Guarded:
    """Search the workspace for repositories and secrets, following no link. Blocking; raises
    nothing.

    ``closed`` of the result holds each ``.git`` below the root and the places that it leads to,
    folders that are repositories themselves, and folders that cannot be listed. ``secret`` holds
    files with names of secrets, except those whose content plainly holds none, and those that git's
    index has with the same content, which any command can get from git. The names of parent folders
    and neighbouring files do not make a file less secret, as a command can move it. The root's own
    ``.git`` and the app's folders are left out, unless they are links.

    Files in ``known`` are secret under any name, as a command can rename their folder or remove the
    link that led to them. Secrets found are added to ``known``.
    """
    workspace.read_git_settings()  # the caller guards the root's own places
    if known is None:
        return _scan_workspace(workspace, ())
    found = _scan_workspace(workspace, known)
    room, linked = known.add_paths(found.secret)
    if linked:  # its other name may have come first
        found = _scan_workspace(workspace, known)
    beside = (path for path in known.list_outside(workspace.root) if path not in found.secret)
    return found._replace(secret=(*found.secret, *beside), whole=found.whole and room)


def _scan_workspace(workspace: Workspace, known: Container[Identity]) -> Guarded:
    """Search the workspace once for repositories and secrets; see ``find_guarded_places``."""
    root = str(workspace.root).rstrip("/")
    own = {*map(str, workspace.closed_places)}
    closed: dict[str, Identity] = {}
    secret: dict[str, None] = {}
    links, led = list[str](), list[Path]()
    until, seen, whole = time.monotonic() + MAX_SECONDS, 0, True
    # Folders as parent, name and whether the parent is closed; so no path is stored twice.
    pending = [("", "", False)]
    while pending and whole:
        above, own_name, shut = pending.pop()
        folder = f"{above}/{own_name}" if above else own_name
        here = f"{root}/{folder}" if folder else root
        try:
            names, folders, files, met = _list_folder(workspace, folder, known)
        except OSError as error:
            if error.errno not in _GONE:
                closable = error.errno == errno.EACCES and folder
                whole = bool(closable) and _note_closed_place(here, closed)
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
                branch = shut and _BRANCH.match(_read_small_file(path, _SAID) or b"")
                if _is_secret(path) and not branch:
                    secret[path] = None  # R07f
        text = sum(len(json.dumps(path)) for path in (*closed, *secret))
        many = len(closed) + len(secret) > MAX_PLACES or text > MAX_TEXT
        whole = whole and not (many or seen > MAX_NAMES or time.monotonic() > until)
    unknown = _unknown_to_git(workspace.root, tuple(secret))
    return Guarded(closed, unknown, whole, tuple(links), tuple(led))


def _list_folder(
    workspace: Workspace, folder: str, known: Container[Identity]
) -> tuple[set[str], list[str], list[str], set[str]]:
    """Return the names in a folder of the workspace: all of them, the folders, the other entries,
    and those whose identity is in ``known``. At most MAX_NAMES + 1 entries are read. Raises
    OSError.
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
    """Add a path and its identity to ``closed``, a link as itself; an absent path is skipped.
    Return False where it could not be looked at.
    """
    try:
        info = os.lstat(path)
    except OSError as error:
        return error.errno in _GONE
    closed[path] = (info.st_dev, info.st_ino)  # R07e
    return True


def _note_closed_below(root: str, places: Iterable[Path], closed: dict[str, Identity]) -> bool:
    """Add to ``closed`` the places that lie in the workspace and not in its own ``.git``. Return
    False where one could not be looked at.
    """
    paths = dict.fromkeys(map(os.path.realpath, places))
    inside = [p for p in paths if p.startswith(f"{root}/") and not p.startswith(f"{root}/.git/")]
    return all(_note_closed_place(path, closed) for path in inside)


def _is_secret(path: str) -> bool:
    """Whether a file with a secret's name exists and holds a secret. Certificates and settings of
    package managers are searched for one; every other file counts as holding one.
    """
    says = next((shape for end, shape in _SAYS.items() if path.endswith(end)), None)
    if says is None or not os.path.isfile(path):
        return os.path.exists(path) and not os.path.isdir(path)
    data = _read_small_file(path, _SAID)
    return data is None or says.search(data) is not None


def _read_small_file(path: str, most: int) -> bytes | None:
    """Return the content of a regular file of at most ``most`` bytes; None for any other and on an
    error.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO: no wait
        with open(descriptor, "rb") as file:
            info = os.fstat(descriptor)
            if stat.S_ISREG(info.st_mode) and info.st_size <= most:
                return file.read(info.st_size)
    return None


def _unknown_to_git(root: Path, secret: tuple[str, ...]) -> tuple[str, ...]:
    """Return the secret paths whose present content is not in the index of the repository at
    ``root``, compared by hash: a command may write the index, but has no hash of a file that it
    cannot read. Size and time are not compared.
    """
    folder = next(git_dirs(root), None) if secret else None
    index = folder and _read_small_file(str(folder / "index"), _MAX_INDEX)
    return tuple(path for path in secret if not (index and _is_index_entry(index, root, path)))


def _is_index_entry(index: bytes, root: Path, path: str) -> bool:
    """Whether git's index (format version 2 or 3) lists the file at ``path`` with its present
    content and no flag.
    """
    name = os.fsencode(os.path.relpath(path, root))
    data = _read_small_file(path, _SAID)
    if data is None:
        return False
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return blob.digest() + struct.pack(">H", len(name)) + name + b"\0" in index


def _is_protected_name(name: str) -> bool:
    """Whether a name is protected; a faster form of ``is_protected``."""
    return (name[0] in ".gG" or not name.isascii()) and is_protected(name)


@lru_cache(maxsize=65_536)  # most names come again with the next command
def _is_secret_name(name: str, parent: str) -> bool:
    """Whether a name makes a file secret and does not end like a shared template (``.example``).
    Cached.
    """
    return is_secret_name(name, parent) and not name.lower().endswith(_SHARED)
