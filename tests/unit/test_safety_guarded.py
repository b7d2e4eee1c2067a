"""What of a workspace the sandbox keeps from commands, as it is found."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from duckflow_tui.safety import guarded as module
from duckflow_tui.safety.guarded import KnownSecrets, guarded, secrets_near
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
        f"{root}/sub/.git",
    ]
    assert found.links == (f"{root}/sub/.git",)
    assert found.closed[found.links[0]][1] == (root / "sub/.git").lstat().st_ino


def test_a_secret_that_git_has_as_it_is_is_not_hidden(tmp_path: Path) -> None:
    """A command could ask git for it; hidden, it would look changed to git. But a command can write
    an index itself where there was none; only who has read a file knows the hash to write there.
    """

    def git(*args: str) -> None:
        given = ("-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path))
        subprocess.run(["git", *given, *args], check=True, capture_output=True)

    (tmp_path / "conf").mkdir()
    for path in (".env", ".env.example", "conf/.env", "conf/.env.test", "conf/key.pem"):
        (tmp_path / path).write_text("PRIVATE KEY\n")
    git("init", "-q")
    git("add", "-f", ".env", "conf/.env.test", "conf/key.pem")
    git("commit", "-q", "-m", "begin")
    root = tmp_path.resolve()
    assert guarded(Workspace(tmp_path)).secret == (f"{root}/conf/.env",)
    test, key = tmp_path / "conf/.env.test", tmp_path / "conf/key.pem"
    was = test.stat().st_mtime_ns
    test.write_text("A REAL KEY!\n")  # of the same size, and no younger by its time
    os.utime(test, ns=(was, was))
    os.utime(key, ns=(was, was + 1))  # with the same content
    hidden = (f"{root}/conf/.env", f"{root}/conf/.env.test")
    assert sorted(guarded(Workspace(tmp_path)).secret) == [*hidden]
    index = tmp_path / ".git/index"
    index.unlink()
    os.mkfifo(index)  # nobody waits for one who writes
    hidden = (f"{root}/.env", *hidden, f"{root}/conf/key.pem")
    assert sorted(guarded(Workspace(tmp_path)).secret) == [*hidden]


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


def test_the_look_at_a_home_leaves_the_workspace_out_and_tells_what_passes_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command fills its workspace as it likes; the look at the rest must not end by that."""
    home = tmp_path.resolve() / "home"
    for path in ("a/.env", "work/.env", "work/x", "work/y", "work/z/.env", "z/.env"):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text("KEY=1")
    (tmp_path / "home too").symlink_to(home)
    around = [f"{home}/{name}/.env" for name in "az"]
    monkeypatch.setattr(module, "MAX_NEAR", 2)
    monkeypatch.setattr(module, "MAX_NAMES", 6)  # three folders and two files, and it goes on
    for spelled in (home, tmp_path / "home too"):
        found, whole = secrets_near(spelled, {f"{home}/work"})
        assert (sorted(found), whole) == (around, True)
        assert not secrets_near(spelled, ())[1]
    for limit, most in (("MAX_NEAR", 1), ("MAX_NAMES", 4), ("MAX_SECONDS", -1)):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, most)
            assert not secrets_near(home, {f"{home}/work"})[1]


def test_a_known_secret_is_known_until_it_is_deleted_and_too_many_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may then be that of another file."""
    secret, known, workspace = tmp_path / ".env", KnownSecrets(), Workspace(tmp_path)
    secret.write_text("KEY=1")
    assert guarded(workspace, known).whole
    info = secret.stat()
    assert (info.st_dev, info.st_ino) in known
    secret.unlink()
    assert guarded(workspace, known).secret == ()
    assert (info.st_dev, info.st_ino) not in known
    monkeypatch.setattr(module, "MAX_PLACES", 2)
    for number in range(3):
        (tmp_path / f"{number}.env").touch()
        found = guarded(workspace, known)
        assert found.whole == (number < 2)
        (tmp_path / f"{number}.env").rename(tmp_path.parent / f"{number}.env")  # still somewhere
    known.close()
