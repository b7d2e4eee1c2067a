"""The git branch of a workspace, read from ``.git/HEAD``: git, which obeys settings of the folder
and the system, is not run for it (R12).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from duckflow_tui.session.folders import open_directory, open_plain

_LONGEST: Final = 1024  # bytes of HEAD
_BRANCH: Final = re.compile(r"ref: refs/heads/(\S.*)")
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
_SHORT: Final = 8  # digits of a commit


def branch_of(workspace: Path) -> str:
    """Return the name of the checked-out branch, the first 8 digits of a detached commit, or an
    empty string.

    Follows no link and reads nothing outside the folder; so a worktree, whose ``.git`` is a file
    that points elsewhere, gives an empty string.
    """
    try:  # R12a
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
