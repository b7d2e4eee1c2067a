"""Finds what git obeys in a folder by reading its files. Git itself is never called."""

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

#: Settings that lead git to more that it obeys: hooks, attributes, included settings.
_LEADS: Final = re.compile(
    r"(?:^|\])[ \t]*(hookspath|attributesfile|path)[ \t]*=[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE
)
_WORD: Final = re.compile(r"[^\s\"';|&()!=\[\]]+")
_MAX_BYTES: Final = 256 * 1024  # of one file of settings that are read
_MAX_FILES: Final = 20  # files of settings
_MAX_WORDS: Final = 2_000  # of one file that are looked up

#: Folders in which files are looked for, those of submodules included.
_MAX_FOLDERS: Final = 1_000
#: Files at the top of a repository that git obeys, or that make one of it.
_OBEYED: Final = frozenset({"config", "config.worktree", "commondir", "gitdir"})

#: Names, in lower case, that belong to git at the top of a bare repository.
REPOSITORY_NAMES: Final = frozenset({
    "head", "objects", "refs", "commondir", "config", "config.worktree", "hooks", "info", "modules",
    "worktrees", "packed-refs", "logs", "index", "description", "gitdir", "shallow",
})  # fmt: skip


def is_repository(names: Collection[str]) -> bool:
    """Whether git takes a folder with these names in it, in lower case, for a repository, whatever
    the folder is called: HEAD with objects and refs, or with a file that says where those are.
    """
    return "head" in names and ("commondir" in names or {"objects", "refs"} <= {*names})


def git_dirs(root: Path) -> Iterator[Path]:
    """Where Git keeps what belongs to a worktree whose ``.git`` is a file or a link, and what it
    shares with the repository's other worktrees: both hold hooks and settings that run programs.
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
                return  # no repository: it would close the whole workspace
            yield folder


class GitPlaces(NamedTuple):
    """Absolute paths, which may be absent; none is the folder itself or one around it."""

    closed: tuple[Path, ...]  # repositories, hooks, files of attributes and of settings
    programs: tuple[Path, ...]  # files that the settings name in another way


def find_git_places(folder: Path, repository: Path | None = None) -> GitPlaces:
    """Find the files and folders whose content git acts on for a folder, which may lie below the
    top of a worktree, or for a ``repository`` without one: wherever its settings and those of the
    user lead.
    """
    around = (path for path in (folder, *folder.parents) if next(git_dirs(path), None))
    top = repository or next(around, folder)
    own = [repository] if repository else list(git_dirs(top))
    home = Path.home()
    user = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
    pending = [path / name for path in own for name in ("config", "config.worktree")]
    pending += [home / ".gitconfig", Path(user, "git", "config"), Path("/etc/gitconfig")]
    closed, programs = dict.fromkeys(own), dict[Path, None]()
    for config in islice(pending, _MAX_FILES):  # grows by what is included
        text = _read_settings(config)
        for name, value in _LEADS.findall(text):
            given = re.split(r"\s[#;]|\0", value)[0].strip().strip('"')
            path = config.parent if name.lower() == "path" else top
            path = Path(os.path.normpath(path / os.path.expanduser(given)))
            if given and not folder.is_relative_to(path):
                closed[path] = None
                pending += [path] if name.lower() == "path" else []
        for word in islice(dict.fromkeys(_WORD.findall(text)), _MAX_WORDS):
            if os.path.isfile(file := os.path.join(top, word)):
                programs[Path(os.path.realpath(file))] = None
    return GitPlaces(tuple(closed), tuple(programs))


def _read_settings(path: Path) -> str:
    """The settings in a file, continued lines joined; empty where there is none."""
    with contextlib.suppress(OSError, ValueError):
        if path.stat().st_size:  # 0 for a FIFO, which would block
            with path.open(encoding="utf-8", errors="replace") as file:
                return file.read(_MAX_BYTES).replace("\\\n", "")
    return ""


def list_git_files(places: Iterable[Path]) -> dict[str, os.stat_result]:
    """By path, the files that git obeys in repositories, in folders of hooks and as files of
    settings, as they are now; also of submodules in a repository. Links are not followed. Blocking;
    raises nothing.
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
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
