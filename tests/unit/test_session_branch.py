"""What is said of a folder's repository: its branch, and whether something is not committed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from duckflow_tui.session.branch import branch_of, is_uncommitted


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


def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """A folder in which ``git`` does this; ``$WHAT`` is what it is asked for."""
    programs, work = tmp_path / "bin", tmp_path / "work"
    work.mkdir()
    programs.mkdir()
    if body:
        what = 'case " $* " in *" config "*) WHAT=config ;; *) WHAT=status ;; esac'
        start = "#!/bin/sh" if body != "nothing" else "#!/no/such/program"
        (programs / "git").write_text(f"{start}\n{what}\n{body}\n")
        (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin" if body else str(programs))
    return work


CHANGED = 'test $WHAT = status && echo " M a.py"'


@pytest.mark.parametrize(
    ("body", "uncommitted"),
    [
        ("", False),  # there is no git
        ("nothing", False),  # it cannot be started
        (f"{CHANGED}; test $WHAT = status", True),  # 1 of config: no filter is set
        (f"{CHANGED}; exit 0", True),
        ("test $WHAT = status", False),
        (f"{CHANGED}; test $WHAT = status || exit 2", False),
        (f"test $WHAT = config && printf 'global\\tfilter.a x\\nsystem\\tx y\\n'; {CHANGED}", True),
        (f"test $WHAT = config && printf 'local\\tfilter.a x\\n'; {CHANGED}", False),
        (f"test $WHAT = config && printf 'global\\tx\\nlocal\\tx\\n'; {CHANGED}", False),
    ],
)
async def test_a_change_counts_only_where_git_runs_nothing_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, uncommitted: bool
) -> None:
    assert await is_uncommitted(git(tmp_path, monkeypatch, body)) is uncommitted
