"""What of a workspace the sandbox keeps from commands, as it is found."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest
from support.bench import descriptors

from duckflow_tui.safety import guarded as module
from duckflow_tui.safety.guarded import (
    KnownSecrets,
    find_guarded_places,
)
from duckflow_tui.safety.paths import choose_opener
from duckflow_tui.safety.risk import tree_below
from duckflow_tui.safety.workspace import Workspace


def test_what_cannot_be_looked_into_is_closed(tmp_path: Path) -> None:
    """As its owner, a command could open it to itself, and a repository in it."""
    (tmp_path / "a/shut/b/.git").mkdir(parents=True)

    def opener(directory: int, path: str, flags: int, mode: int) -> int:
        if path == "a/shut":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return choose_opener()(directory, path, flags, mode)

    found = find_guarded_places(Workspace(tmp_path, opener=opener))
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
    (root / ".ssh").symlink_to(beside)
    (root / ".git").write_text("gitdir: at\n")  # what the root has of git is closed anyway
    (root / "at").mkdir()
    (root / "around/in/.git").write_text("gitdir: ../..\n")  # all of the workspace is nobody's
    (root / "around/.git").write_text(f"gitdir: {beside}/r/.git\n")
    (beside / "key").write_text("a secret")
    (root / ".env").symlink_to(beside / "key")
    (root / "gone.env").symlink_to(beside / "nothing")
    found = find_guarded_places(Workspace(root))
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
    assert find_guarded_places(Workspace(tmp_path)).secret == (f"{root}/conf/.env",)
    test, key = tmp_path / "conf/.env.test", tmp_path / "conf/key.pem"
    was = test.stat().st_mtime_ns
    test.write_text("A REAL KEY!\n")  # of the same size, and no younger by its time
    os.utime(test, ns=(was, was))
    os.utime(key, ns=(was, was + 1))  # with the same content
    hidden = (f"{root}/conf/.env", f"{root}/conf/.env.test")
    assert sorted(find_guarded_places(Workspace(tmp_path)).secret) == [*hidden]
    index = tmp_path / ".git/index"
    index.unlink()
    os.mkfifo(index)  # nobody waits for one who writes
    hidden = (f"{root}/.env", *hidden, f"{root}/conf/key.pem")
    assert sorted(find_guarded_places(Workspace(tmp_path)).secret) == [*hidden]


@pytest.mark.parametrize("limit", ["MAX_NAMES", "MAX_PLACES", "MAX_TEXT", "MAX_SECONDS"])
def test_what_passes_a_limit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    for name in "abc":
        (tmp_path / name / ".git").mkdir(parents=True)
    workspace = Workspace(tmp_path)
    text = sum(len(json.dumps(path)) for path in find_guarded_places(workspace).closed)
    needed = {"MAX_NAMES": 6, "MAX_PLACES": 3, "MAX_TEXT": text, "MAX_SECONDS": 10}[limit]
    monkeypatch.setattr(module, limit, needed)
    assert find_guarded_places(workspace).whole
    monkeypatch.setattr(module, limit, needed - (11 if limit == "MAX_SECONDS" else 1))
    assert not find_guarded_places(workspace).whole


@pytest.mark.parametrize(("limit", "length"), [(200, False), (198, True)])
def test_so_many_secrets_are_kept_from_commands(tmp_path: Path, limit: int, length: bool) -> None:
    """At most 200, and 60,000 characters of all paths, as JSON writes them."""
    workspace = Workspace(tmp_path)
    room = 60_000 - limit * (len(json.dumps(str(workspace.root))) + 1)
    for number in range(limit):
        size = room // limit + (number < room % limit) if length else 0
        (tmp_path / f"{number}.env".rjust(size, "x")).touch()
    found = find_guarded_places(workspace)
    assert (len(found.secret), found.whole) == (limit, True)
    if length:
        assert sum(len(json.dumps(path)) for path in found.secret) == 60_000
    for more in "ab":
        (tmp_path / f"{more}.env").touch()
    found = find_guarded_places(workspace)
    assert (len(found.secret), found.whole) == (limit + (2 if length else 1), False)


def test_what_lies_in_a_repository_is_closed_with_it(tmp_path: Path) -> None:
    """But for secret files, which nobody may read either; a branch may have any name."""
    for folder in (
        "bare/refs",
        "bare/objects",
        "lib/refs/heads",
        "lib/objects",
        "lib/x/.git",
        "sub/.git/refs",
        "sub/.git/objects",
    ):
        (tmp_path / folder).mkdir(parents=True)
    for path in ("bare/HEAD", "lib/HEAD", "sub/.git/HEAD", "lib/refs/heads/.env", "plain.env"):
        (tmp_path / path).write_text("ref: refs/heads/main\n")
    for path in (".git/a.env", "sub/.git/b.env", "lib/refs/c.env"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("KEY=1")
    before = descriptors()
    workspace = Workspace(tmp_path)
    found, root = find_guarded_places(workspace), tmp_path.resolve()
    workspace.close()
    assert descriptors() == before
    assert sorted(found.closed) == [f"{root}/bare", f"{root}/lib", f"{root}/sub/.git"]
    secret = [f"{root}/{path}" for path in ("lib/refs/c.env", "plain.env", "sub/.git/b.env")]
    assert sorted(found.secret) == secret


def test_a_certificate_is_public_unless_it_is_too_large_to_tell(tmp_path: Path) -> None:
    for name, size in (("a.pem", 2_000_000), ("b.pem", 2_000_001)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    assert find_guarded_places(Workspace(tmp_path)).secret == (f"{tmp_path.resolve()}/b.pem",)


def test_a_folder_that_is_gone_needs_not_be_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    def opener(directory: int, path: str, flags: int, mode: int) -> int:
        if path == "a":
            (tmp_path / "a").rmdir()
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return choose_opener()(directory, path, flags, mode)

    assert find_guarded_places(Workspace(tmp_path, opener=opener)) == ({}, (), True, (), ())


def test_a_known_secret_is_known_until_it_is_deleted_and_too_many_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may then be that of another file."""
    secret, known, workspace = tmp_path / ".env", KnownSecrets(), Workspace(tmp_path)
    secret.write_text("KEY=1")
    assert find_guarded_places(workspace, known).whole
    info = secret.stat()
    assert (info.st_dev, info.st_ino) in known
    secret.unlink()
    assert find_guarded_places(workspace, known).secret == ()
    assert (info.st_dev, info.st_ino) not in known
    monkeypatch.setattr(module, "MAX_PLACES", 2)
    for number in range(3):
        (tmp_path / f"{number}.env").touch()
        found = find_guarded_places(workspace, known)
        assert found.whole == (number < 2)
        (tmp_path / f"{number}.env").rename(tmp_path.parent / f"{number}.env")  # still somewhere
    known.forget_all()


def test_what_was_found_once_is_known_by_any_name(tmp_path: Path) -> None:
    root, known = tmp_path.resolve(), KnownSecrets()
    (root / ".ssh").mkdir()
    (root / ".ssh/config").touch()
    (root / ".env").write_text("KEY=1")
    workspace = Workspace(root)
    assert set(find_guarded_places(workspace, known).secret) == {f"{root}/.ssh", f"{root}/.env"}
    (root / ".ssh").rename(root / "folder")
    (root / ".env").rename(root / "file")
    assert set(find_guarded_places(workspace, known).secret) == {f"{root}/folder", f"{root}/file"}
    known.forget_all()
    assert find_guarded_places(workspace, known).secret == ()


def test_what_is_known_is_held_open_once_and_told_where_it_has_more_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    os.link(tmp_path / "b", tmp_path / "other")
    (tmp_path / "folder/in").mkdir(parents=True)
    known, before = KnownSecrets(), descriptors()
    path = {name: str(tmp_path / name) for name in ("a", "b", "c", "folder", "gone")}
    assert known.add_paths([]) == (True, False)
    assert known.add_paths([path["a"], path["gone"], path["folder"]]) == (True, False)
    assert known.add_paths([path["a"], path["b"]]) == (True, True)
    assert known.add_paths([path["a"], path["b"]]) == (True, False)  # told once
    assert known.add_paths([str(tmp_path / ("x" * 300))]) == (False, False)
    assert descriptors() == before + 3
    monkeypatch.setattr(module, "MAX_PLACES", 3)
    assert known.add_paths([path["a"], path["c"]]) == (False, False)
    assert descriptors() == before + 3
    assert sorted(known.list_outside(tmp_path / "folder")) == [path["a"], path["b"]]
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "a").touch()
    assert known.list_outside(tmp_path / "folder") == [path["b"]]
    known.forget_all()
    assert descriptors() == before


def test_a_secret_that_cannot_be_read_whole_is_not_the_one_that_git_has(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "b.env").write_text("KEY=1")
    subprocess.run(["git", "-C", str(tmp_path), "add", "-f", "."], check=True)
    assert find_guarded_places(Workspace(tmp_path)).secret == ()
    with (tmp_path / ".env").open("wb") as file:
        file.truncate(2_000_001)
    assert find_guarded_places(Workspace(tmp_path)).secret == (f"{tmp_path.resolve()}/.env",)


def test_what_lies_below_a_folder_is_told_but_for_what_is_left_out(tmp_path: Path) -> None:
    for folder in ("objects/a", "sub/objects/b", "sub/.git/objects/c", "sub/lfs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to("sub")
    found = {
        os.path.relpath(entry.path, tmp_path) for entry in tree_below(str(tmp_path), {"objects"})
    }
    assert found == {
        *("objects", "link", "sub", "sub/objects", "sub/objects/b", "sub/lfs"),
        *("sub/.git", "sub/.git/objects"),
    }
