"""The branch of a folder's repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from duckflow_tui.session.branch import branch_of


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        (b"ref: refs/heads/ducks\n", "ducks"),
        (b"ref: refs/heads/feature/a b\n", "feature/a b"),
        (b"ref: refs/remotes/origin/main\n", ""),
        (b"0123456789abcdef0123456789abcdef01234567\n", "01234567"),
        (b"0123456789abcdef0123456789abcdef0123456\n", ""),  # too short for a commit
        (b"", ""),
        (b"ref: refs/heads/" + b"x" * 2000, "x" * 1008),  # no more than a beginning is read
    ],
)
def test_a_branch_is_read_from_its_file(tmp_path: Path, head: bytes, branch: str) -> None:
    assert branch_of(tmp_path) == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(head)
    assert branch_of(tmp_path) == branch


def test_no_link_and_no_device_is_read_for_a_branch(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ref: refs/heads/leak\n")
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").symlink_to(secret)
    assert branch_of(tmp_path) == ""
    (git / "HEAD").unlink()
    os.mkfifo(git / "HEAD")
    assert branch_of(tmp_path) == ""
