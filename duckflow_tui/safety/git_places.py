"""Finds what git obeys in a folder by reading its files. Git itself is never called."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from os.path import isfile
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
        settings = _read_settings(str(config))
        for name, given in settings.leads:
            path = config.parent if name == "path" else top
            path = Path(os.path.normpath(path / os.path.expanduser(given)))
            if not folder.is_relative_to(path):
                closed[path] = None
                pending += [path] if name == "path" else []
        for place, words in settings.words.items():
            if os.path.isdir(place := os.path.join(top, place)):
                files = (os.path.join(place, word) for word in words)
                programs |= dict.fromkeys(Path(os.path.realpath(f)) for f in files if isfile(f))
    return GitPlaces(tuple(closed), tuple(programs))


class _Settings(NamedTuple):
    """The settings of one file of git that matter here."""

    leads: tuple[tuple[str, str], ...]  # a key of ``_LEADS`` in lower case, and its value
    words: Mapping[str, list[str]]  # all of them as paths: by the folder, the last names


_NO_SETTINGS: Final = _Settings((), {})


def _read_settings(path: str) -> _Settings:
    """The settings in a file as it is now; empty where there is none."""
    try:
        if not os.path.getsize(path):  # also a FIFO, which would block
            return _NO_SETTINGS
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_BYTES).replace("\\\n", "")
    except (OSError, ValueError):
        return _NO_SETTINGS
    given = (
        (name.lower(), re.split(r"\s[#;]|\0", value)[0].strip().strip('"'))
        for name, value in _LEADS.findall(text)
    )
    words: dict[str, list[str]] = {}
    for word in islice(dict.fromkeys(_WORD.findall(text)), _MAX_WORDS):
        place, name = os.path.split(word)
        words.setdefault(place, []).append(name)
    return _Settings(tuple(lead for lead in given if lead[1]), words)


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
