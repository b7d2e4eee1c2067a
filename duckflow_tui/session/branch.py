"""The branch a workspace is on, read as a file: git itself is not called before trust (R12)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from duckflow_tui.session.folders import open_plain, opened

_LONGEST: Final = 1024  # bytes of HEAD
_BRANCH: Final = re.compile(r"ref: refs/heads/(\S.*)")
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
_SHORT: Final = 8  # digits of a commit


def branch_of(workspace: Path) -> str:
    """Its name, the first digits of a commit that no branch is on, or nothing.

    Follows no link and leaves the folder for nothing: of a worktree, whose ``.git`` is a file that
    points elsewhere, it knows nothing.
    """
    try:
        with (
            opened(workspace / ".git", flags=os.O_NOFOLLOW) as folder,
            open_plain("HEAD", folder) as file,
        ):
            head = file.read(_LONGEST)
    except OSError:
        return ""
    line = head.decode("utf-8", "replace").strip()
    if branch := _BRANCH.fullmatch(line):
        return branch[1]
    return line[:_SHORT] if _COMMIT.fullmatch(line) else ""
