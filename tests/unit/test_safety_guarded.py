"""What of a workspace the sandbox keeps from commands, as it is found."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from duckflow_tui.safety import guarded as module
from duckflow_tui.safety.guarded import guarded
from duckflow_tui.safety.paths import best_opener
from duckflow_tui.safety.workspace import Workspace


def test_what_cannot_be_looked_into_is_closed(tmp_path: Path) -> None:
    """As its owner, a command could open it to itself, and a repository in it."""
    (tmp_path / "a/shut/b/.git").mkdir(parents=True)

    def opener(directory: int, path: str, flags: int, mode: int) -> int:
        if path == "a/shut":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return best_opener()(directory, path, flags, mode)

    found = guarded(Workspace(tmp_path, opener=opener))
    info = (tmp_path / "a/shut").stat()
    assert found.closed == {str(tmp_path / "a/shut"): (info.st_dev, info.st_ino)}
    assert found.whole


def test_links_are_not_followed_but_for_where_git_is_led(tmp_path: Path) -> None:
    root, beside = tmp_path / "work", tmp_path / "beside"
    for folder in (root / "sub", root / "store", root / "around/in", beside / "r/.git"):
        folder.mkdir(parents=True)
    (root / "sub/.git").symlink_to("../store")
    (root / "out").symlink_to(beside)
    (root / "loop").symlink_to(".")
    (root / "around/in/.git").write_text("gitdir: ../..\n")  # all of the workspace is nobody's
    (root / "around/.git").write_text(f"gitdir: {beside}/r/.git\n")
    (beside / "key").write_text("a secret")
    (root / ".env").symlink_to(beside / "key")
    (root / "gone.env").symlink_to(beside / "nothing")
    found = guarded(Workspace(root))
    assert found.secret == (f"{beside}/key",)
    assert sorted(found.closed) == [
        f"{root}/around/.git",
        f"{root}/around/in/.git",
        f"{root}/store",
    ]


@pytest.mark.parametrize(
    ("limit", "most"), [("MAX_NAMES", 5), ("MAX_PLACES", 2), ("MAX_TEXT", 60), ("MAX_SECONDS", -1)]
)
def test_what_passes_a_limit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    for name in "abc":
        (tmp_path / name / ".git").mkdir(parents=True)
    workspace = Workspace(tmp_path)
    assert guarded(workspace).whole
    monkeypatch.setattr(module, limit, most)
    assert not guarded(workspace).whole
