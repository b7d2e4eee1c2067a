"""The git branch of a workspace, and whether it has uncommitted changes.

The branch is read from ``.git/HEAD``: git is not run before the user trusts the folder (R12).
Afterwards git is asked for changes, with every option off by which the folder could make it run a
program.
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
_TIME: Final = 5.0  # seconds to wait for git
#: Options of every git command, so that it runs nothing the folder's settings name, and writes
#: nothing.
_HARMLESS: Final = (
    *("--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
)
#: Environment in which git fetches no missing objects, because their source may be a program. The
#: folder's protocol settings override ``-c protocol.allow``, but not these variables.
_OFFLINE: Final = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}  # R12a
_STATUS: Final = "status --porcelain --no-renames --untracked-files=normal --ignore-submodules=all"
#: Command that lists filters and includes: a filter runs a program on each compared file and cannot
#: be switched off in general; a command may change an included file at any time.
_FILTERS: Final = (
    *("config", "--show-scope", "--includes", "--get-regexp"),
    r"^(filter|include|includeif)\.",
)
_OWN_SCOPES: Final = (b"system\t", b"global\t")  # scopes of settings outside the folder


def branch_of(workspace: Path) -> str:
    """Return the name of the checked-out branch, the first 8 digits of a detached commit, or an
    empty string.

    Follows no link and reads nothing outside the folder; so a worktree, whose ``.git`` is a file
    that points elsewhere, gives an empty string.
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
    """Whether the folder has uncommitted changes or untracked files. Also False where git is not
    installed, fails, takes over 5 seconds, lacks an object, or would run a filter or include a
    file that the folder's own settings name.

    Runs git: call it only for a folder that the user trusts.
    """
    git = find_program("git", workspace)
    if git is None:
        return False
    try:
        async with asyncio.timeout(_TIME):
            async with run_program(
                [git, *_HARMLESS, *_FILTERS], workspace, more=_OFFLINE
            ) as process:
                assert process.stdout is not None
                filters = (await process.stdout.read()).splitlines()
                known = await process.wait() in (0, 1)  # 1: there is none
            if not (known and all(line.startswith(_OWN_SCOPES) for line in filters)):
                return False
            async with run_program(
                [git, *_HARMLESS, *_STATUS.split()], workspace, more=_OFFLINE
            ) as process:
                assert process.stdout is not None
                return bool(await process.stdout.read(1))
    except (OSError, TimeoutError):
        return False
