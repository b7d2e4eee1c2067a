"""What listing, searching and the file picker leave out: ``.gitignore`` rules and heavy folders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pathspec import GitIgnoreSpec

MAX_RULES_BYTES: Final = 256 * 1024  # R18, of one ignore file

#: Folders that hold what tools made or fetched; left out also where no ignore file says so.
HEAVY: Final = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".duckflow",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
    }
)

#: Gives the bytes of an ignore file by its path below the root, None when there is none.
ReadRules = Callable[[str], bytes | None]


class IgnoreRules:
    """Ignore files of a tree, each read when the walk first comes to its folder."""

    def __init__(self, read: ReadRules) -> None:
        self._read = read
        # Folder → the rules that speak about what lies in it, the nearest first, each with the
        # number of characters of a path that lie before its own folder's names.
        self._chains: dict[str, tuple[tuple[int, GitIgnoreSpec], ...]] = {}

    def ignores(self, path: str, *, is_dir: bool) -> bool:
        """Whether a path is left out; ``path`` is relative to the root, with ``/``.

        The folders above it are taken as not ignored: a walk does not enter those that are.
        """
        folder, _, name = path.rpartition("/")
        if is_dir and name in HEAVY:
            return True
        chain = self._chain(folder)
        if not chain:
            return False
        asked = f"{path}/" if is_dir else path
        for start, rules in chain:
            said = rules.check_file(asked[start:]).include
            if said is not None:
                return said
        return False

    def _chain(self, folder: str) -> tuple[tuple[int, GitIgnoreSpec], ...]:
        found = self._chains.get(folder)
        if found is None:
            above = self._chain(folder.rpartition("/")[0]) if folder else ()
            rules = self._load(f"{folder}/.gitignore" if folder else ".gitignore")
            start = len(folder) + 1 if folder else 0
            found = ((start, rules), *above) if rules else above
            self._chains[folder] = found
        return found

    def _load(self, path: str) -> GitIgnoreSpec | None:
        data = self._read(path)
        if not data or len(data) > MAX_RULES_BYTES:
            return None
        lines = data.decode("utf-8", "replace").splitlines()
        try:
            return GitIgnoreSpec.from_lines(lines)
        except ValueError:
            return GitIgnoreSpec.from_lines([line for line in lines if _readable(line)])


def _readable(line: str) -> bool:
    """Whether a line is a pattern; git too passes over those that are not."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
