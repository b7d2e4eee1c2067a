"""Finds the files whose content git acts on for a folder, by reading its settings. Git itself is
never called.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from duckflow_tui.safety.paths import MAX_PATH

#: Settings that name further files that git obeys: hooks, attributes, included settings.
_LEADS: Final = re.compile(
    r"(?:^|\])[ \t]*(hookspath|attributesfile|path)[ \t]*="
    r"((?:\"(?:[^\"\\\n]|\\.)*\"|\\.|[^\"\\\n\0#;])*)",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTING: Final = re.compile(r"\\(.)|\"")
_WORD: Final = re.compile(r"[^\s\0\"';|&()!=\[\]]+")
_MAX_BYTES: Final = 256 * 1024  # of one file of settings that are read
_MAX_FILES: Final = 20  # files of settings
_MAX_WORDS: Final = 2_000  # of one file that are looked up

#: Folders that are searched for files, including those of submodules.
_MAX_FOLDERS: Final = 1_000
#: Files at the top of a repository that git obeys, or that make it a repository.
_OBEYED: Final = frozenset({"config", "config.worktree", "commondir", "gitdir"})

#: Names, in lower case, that belong to git at the top of a bare repository.
REPOSITORY_NAMES: Final = frozenset({
    "head", "objects", "refs", "commondir", "config", "config.worktree", "hooks", "info", "modules",
    "worktrees", "packed-refs", "logs", "index", "description", "gitdir", "shallow",
})  # fmt: skip


def is_repository(names: Collection[str]) -> bool:
    """Whether git treats a folder that holds these names (in lower case) as a repository, whatever
    its own name: HEAD with objects and refs, or HEAD with ``commondir``.
    """
    return "head" in names and ("commondir" in names or {"objects", "refs"} <= {*names})


def git_dirs(root: Path) -> Iterator[Path]:
    """Yield the git directory of a worktree (``.git``, or where a file or link of that name leads),
    then the common directory that it shares with other worktrees, if any: both hold hooks and
    settings that run programs. Yields nothing where ``root`` is no worktree or lies in its git
    directory.
    """
    folder = root
    with contextlib.suppress(OSError, ValueError):
        for name, lead in ((".git", "gitdir:"), ("commondir", "")):
            if name == ".git" and (folder / name).is_dir():
                folder = Path(os.path.realpath(folder / name))
            else:
                if not stat.S_ISREG(os.lstat(folder / name).st_mode):
                    return
                with open(folder / name, encoding="utf-8", errors="surrogateescape") as file:
                    line = file.readline(MAX_PATH)
                folder = Path(os.path.realpath(folder / line.removeprefix(lead).strip()))
            if root.is_relative_to(folder):
                return  # it would protect the whole workspace
            yield folder


class GitPlaces(NamedTuple):
    """Absolute paths that git obeys; they may be absent. The folder they were searched for and its
    parents are not among them.
    """

    closed: tuple[Path, ...]  # repositories, hooks, files of attributes and of settings
    programs: tuple[Path, ...]  # every word of the settings as a path, which git may run


def find_git_places(folder: Path, repository: Path | None = None) -> GitPlaces:
    """Return the files and folders whose content git acts on for a folder, which may lie below the
    top of a worktree, or for a bare ``repository``. Follows the settings of the repository, the
    user and the system. Raises nothing; the number of files read is limited.
    """
    around = (path for path in (folder, *folder.parents) if next(git_dirs(path), None))
    top = repository or next(around, folder)
    own = [repository] if repository else list(git_dirs(top))
    home = Path.home()
    user = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
    pending = [path / name for path in own for name in ("config", "config.worktree")]
    pending += [home / ".gitconfig", Path(user, "git", "config"), Path("/etc/gitconfig")]
    closed, programs = dict.fromkeys(own), dict[Path, None]()
    for config in islice(pending, _MAX_FILES):  # grows by included files
        leads, words = _read_settings(str(config))
        for name, given in leads:
            path = config.parent if name == "path" else top
            path = Path(os.path.normpath(path / os.path.expanduser(given)))
            if not folder.is_relative_to(path):
                closed[path] = None
                pending += [path] if name == "path" else []
        programs |= dict.fromkeys(Path(os.path.realpath(top / word)) for word in words)
    return GitPlaces(tuple(closed), tuple(programs))


def _read_settings(path: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Read a git configuration file. Return the settings of ``_LEADS``, each as key in lower case
    and value, and every word of the file once; nothing where it is absent, no regular file or
    cannot be read.
    """
    try:
        if not os.path.getsize(path):  # also a FIFO, which would block
            return [], []
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_BYTES).replace("\\\n", "")
    except (OSError, ValueError):
        return [], []
    given = ((name.lower(), _QUOTING.sub(r"\1", v).strip()) for name, v in _LEADS.findall(text))
    words = islice(dict.fromkeys(_WORD.findall(text)), _MAX_WORDS)
    return [lead for lead in given if lead[1]], [*words]


def list_git_files(places: Iterable[Path]) -> dict[str, os.stat_result]:
    """Return the stat results, by path, of the existing files that git obeys in these repositories,
    hook folders and settings files, and in their submodules and worktrees. Links are not
    followed. Blocking; raises nothing.
    """
    found: dict[str, os.stat_result] = {}
    pending = [*places]
    for place in islice(pending, _MAX_FOLDERS):  # grows by submodules and worktrees
        own = _list_folder(place)
        if is_repository({path.name.lower() for path in own}):
            own = [path for path in own if path.name in _OBEYED]
        inner = (path for name in ("hooks", "info") for path in _list_folder(place / name))
        pending += [
            path for name in ("modules", "worktrees") for path in _list_folder(place / name)
        ]
        for path in (place, *own, *inner):
            with contextlib.suppress(OSError):
                info = os.lstat(path)
                if not stat.S_ISDIR(info.st_mode) and not path.name.endswith(".sample"):
                    found[str(path)] = info
    return found


def _list_folder(folder: Path) -> list[Path]:
    """Return the sorted paths in a folder; none where it cannot be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
