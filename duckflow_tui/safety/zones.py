"""Where a location lies: which names and which inodes make it secret, protected or outside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duckflow_tui.safety.names import fold, is_protected, is_secret
from duckflow_tui.safety.paths import Identity, Spot
from duckflow_tui.state.operations import Zone

#: From what is free to what is never touched (R02: the stricter wins).
STRICTNESS: Final = (Zone.NOWHERE, Zone.INSIDE, Zone.SECRET, Zone.OUTSIDE, Zone.PROTECTED)

# Windows into the kernel: /proc/self/environ holds keys, /proc/self/root leads anywhere.
_SYSTEM: Final = frozenset({"proc", "sys", "dev"})

# Entries looked at when a file with several names is compared with the protected ones.
_MAX_ENTRIES: Final = 100_000

# Content-addressed: thousands of entries, and none that git obeys.
_LEFT_OUT: Final = frozenset({"objects", "lfs"})


def strictest(zones: Iterable[Zone]) -> Zone:
    """The zone that decides when several places are touched; NOWHERE for none."""
    return max(zones, key=STRICTNESS.index, default=Zone.NOWHERE)


@dataclass(frozen=True)
class Judgement:
    """One location's zone and why; ``inside`` are its names below the root, None outside."""

    zone: Zone
    inside: tuple[str, ...] | None
    secret: bool
    reason: str  # code, empty for a plain file inside


class ZoneMap:
    """Knows the root by identity and the protected directories by name and identity."""

    def __init__(self, root: Path, identity: Identity, own_dirs: Iterable[Path]) -> None:
        self.root = root
        self.identity = identity
        self._own = tuple(Path(os.path.realpath(path)) for path in own_dirs)
        self._own_names = tuple(_folded(path.parts[1:]) for path in self._own)

    def judge(self, spot: Spot) -> Judgement:
        """The zone of a location whose path holds no link."""
        inside = self.below_root(spot)
        secret = is_secret(spot.names if inside is None else inside)
        reason = self._protection(spot, inside)
        if reason:
            return Judgement(Zone.PROTECTED, inside, secret, reason)
        if inside is None:
            return Judgement(Zone.OUTSIDE, None, secret, "outside")
        if secret:
            return Judgement(Zone.SECRET, inside, True, "secret_name")
        return Judgement(Zone.INSIDE, inside, False, "")

    def below_root(self, spot: Spot) -> tuple[str, ...] | None:
        """The names behind the root, which is found by its inode, not by its spelling."""
        if len(self.root.parts) == 1:
            return spot.names
        for at in range(len(spot.ids) - 1, -1, -1):
            if spot.ids[at] == self.identity:
                return spot.names[at + 1 :]
        return None

    def is_own(self, path: str, outside: bool) -> bool:
        """Whether a listed path is a directory of the app, or lies in one."""
        names = Path(path).parts[1:] if outside else (*self.root.parts[1:], *path.split("/"))
        return self._is_own(names)

    def shares_protected_inode(self, identity: Identity) -> bool:
        """Whether a file with several names is one of the protected ones by another name.

        True as well when there are too many to tell (every limit fails closed, R06).
        """
        trees = [*(self.root / name for name in (".git", ".duckflow")), *self._own]
        return any(
            seen >= _MAX_ENTRIES or entry == identity
            for seen, entry in enumerate(_files_below(trees))
        )

    def _protection(self, spot: Spot, inside: tuple[str, ...] | None) -> str:
        names = spot.names if inside is None else inside
        if any(is_protected(name) for name in names):
            return "protected_name"
        if inside is None and spot.names[:1] and spot.names[0] in _SYSTEM:
            return "protected_system"
        if self._is_own(spot.names):
            return "protected_own"
        guarded = self._guarded_ids()
        if any(i in guarded for i in spot.ids if i is not None):
            return "protected_inode"
        return ""

    def _is_own(self, names: Iterable[str]) -> bool:
        if not self._own_names:
            return False
        folded = _folded(names)
        return any(folded[: len(own)] == own for own in self._own_names)

    def _guarded_ids(self) -> frozenset[Identity]:
        """Identities of the protected directories that exist now: a bind mount has them too."""
        found: set[Identity] = set()
        for path in (self.root / ".git", self.root / ".duckflow", *self._own):
            try:
                info = os.stat(path)
            except OSError:
                continue
            found.add((info.st_dev, info.st_ino))
        return frozenset(found)


def _folded(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(fold(name) for name in names)


def _files_below(trees: Iterable[Path]) -> Iterator[Identity]:
    for tree in trees:
        for directory, below, files in os.walk(tree):
            if ".git" in Path(directory).parts[-1:]:
                below[:] = [name for name in below if name not in _LEFT_OUT]
            for name in files:
                try:
                    info = os.lstat(os.path.join(directory, name))
                except OSError:
                    continue
                yield info.st_dev, info.st_ino
