"""The branch a workspace is on, read as a file: git itself is not called before trust (R12). After
it git says whether there is something to commit, with all off that the folder could make it run.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Final

from duckflow_tui.session.folders import open_directory, open_plain
from duckflow_tui.tools.command_runner import find_program, run_program

_LONGEST: Final = 1024  # bytes of HEAD
_BRANCH: Final = re.compile(r"ref: refs/heads/(\S.*)")
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
_SHORT: Final = 8  # digits of a commit
_TIME: Final = 5.0  # seconds for an answer of git: what takes longer is not waited for
#: Before every command: it runs nothing that the folder's settings name, and writes nothing.
_HARMLESS: Final = (
    *("--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
)
#: It loads no objects that a repository lacks: the place to load them from may be a program. What
#: a folder's settings say of protocols goes before ``-c protocol.allow``, and not before this.
_OFFLINE: Final = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}  # R12a
_STATUS: Final = "status --porcelain --no-renames --untracked-files=normal --ignore-submodules=all"
#: A filter runs a program on each file that is compared, and cannot be switched off as a whole;
#: what is included may lie where a command can write it between two looks.
_FILTERS: Final = (
    *("config", "--show-scope", "--includes", "--get-regexp"),
    r"^(filter|include|includeif)\.",
)
_OWN_SCOPES: Final = (b"system\t", b"global\t")  # of settings that do not lie in the folder


def branch_of(workspace: Path) -> str:
    """Its name, the first digits of a commit that no branch is on, or nothing.

    Follows no link and leaves the folder for nothing: of a worktree, whose ``.git`` is a file that
    points elsewhere, it knows nothing.
    """
    try:  # R12b
        with (
            open_directory(workspace / ".git", flags=os.O_NOFOLLOW) as folder,
            open_plain("HEAD", folder) as file,
        ):
            head = file.read(_LONGEST)
    except OSError:
        return ""
    line = head.decode("utf-8", "replace").strip()
    if branch := _BRANCH.fullmatch(line):
        return branch[1]
    return line[:_SHORT] if _COMMIT.fullmatch(line) else ""


async def is_uncommitted(workspace: Path) -> bool:
    """Whether something there is not committed, new files included. Also False where git is not
    installed, fails, takes over 5 seconds, lacks an object, or would have to run a filter that the
    folder names, or settings that it includes.

    Only for a folder that the user trusts.
    """
    git = find_program("git", workspace)
    if git is None:
        return False
    try:
        async with asyncio.timeout(_TIME):
            async with run_program([git, *_HARMLESS, *_FILTERS], workspace, more=_OFFLINE) as asked:
                assert asked.stdout is not None
                filters = (await asked.stdout.read()).splitlines()
                known = await asked.wait() in (0, 1)  # 1: there is none
            if not (known and all(line.startswith(_OWN_SCOPES) for line in filters)):
                return False
            async with run_program(
                [git, *_HARMLESS, *_STATUS.split()], workspace, more=_OFFLINE
            ) as asked:
                assert asked.stdout is not None
                return bool(await asked.stdout.read(1))
    except (OSError, TimeoutError):
        return False
