"""Where a path lies: containment by descriptor, links, protected and secret names."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import inspect
import os
import socket
import subprocess
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.bench import descriptors

from duckflow_tui.safety import paths
from duckflow_tui.safety.paths import (
    Location,
    Opener,
    PathRefused,
    WorkspaceGone,
    choose_opener,
    open_by_component,
    open_in_kernel,
    walk_path,
)
from duckflow_tui.safety.policy import Access, Decision, judge_access
from duckflow_tui.safety.risk import ZoneMap
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.operations import ApprovalMode, Effect, Zone


@pytest.fixture(params=[open_in_kernel, open_by_component], ids=["kernel", "component"])
def opener(request: pytest.FixtureRequest) -> Opener:
    """Both ways to stay below a directory; the first only where the kernel has it."""
    chosen: Opener = request.param
    slash = os.open("/", os.O_RDONLY)
    try:
        os.close(chosen(slash, ".", os.O_RDONLY, 0))
    except OSError:
        pytest.skip("no openat2 here")
    finally:
        os.close(slash)
    return chosen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    (path / "src").mkdir()
    (path / "src" / "a.py").write_text("a = 1\n")
    return path


@pytest.fixture
def workspace(root: Path, tmp_path: Path, opener: Opener) -> Iterator[Workspace]:
    opened = Workspace(root, own_dirs=[tmp_path / "config"], home=tmp_path / "home", opener=opener)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "given", ["src/a.py", "./src/a.py", "src//a.py", "src/../src/a.py", "../work/src/a.py"]
)
def test_ways_to_say_a_path_inside(workspace: Workspace, given: str) -> None:
    place = workspace.locate_path(given)
    assert (place.zone, place.shown, place.exists, place.size) == (Zone.INSIDE, "src/a.py", True, 6)


def test_an_absolute_path_inside_is_inside(workspace: Workspace, root: Path) -> None:
    """C20: an absolute path inside is not refused for how it is spelled."""
    assert workspace.locate_path(str(root / "src" / "a.py")).shown == "src/a.py"
    assert workspace.locate_path(str(root)).shown == "."
    assert workspace.locate_path(str(root)).is_dir


@pytest.mark.parametrize(
    "given",
    ["../work_evil/a", "../../etc/passwd", "src/../../other", "..", "/etc/passwd", "~/notes", "~"],
)
def test_what_lies_outside(workspace: Workspace, given: str) -> None:
    """R01, C20, S4-64: a common beginning of two names is no containment."""
    place = workspace.locate_path(given)
    assert place.zone is Zone.OUTSIDE
    assert place.shown.startswith("/")


def test_home_is_not_a_directory_of_that_name(workspace: Workspace, tmp_path: Path) -> None:
    assert workspace.locate_path("~/x").shown == str(tmp_path / "home" / "x")
    assert workspace.locate_path("./~/x").shown == "~/x"


def test_a_root_that_is_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    """The way the user spells the workspace is not a link that leads out of it."""
    (tmp_path / "short").symlink_to(root)
    workspace = Workspace(tmp_path / "short")
    place = workspace.locate_path(str(tmp_path / "short" / "src" / "a.py"))
    assert (place.zone, place.shown) == (Zone.INSIDE, "src/a.py")


def test_a_link_and_its_target_are_both_judged(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    """R02: the stricter of link and target wins, in both directions."""
    (tmp_path / "outside.txt").write_text("x")
    (root / "out").symlink_to(tmp_path / "outside.txt")
    (root / "up").symlink_to("..")
    (tmp_path / "in").symlink_to(root / "src" / "a.py")
    (root / ".env").write_text("KEY=1")
    (root / "plain").symlink_to(".env")
    (root / "b.pem").symlink_to("src/a.py")
    (root / "inner").symlink_to("src/a.py")
    zones = {
        name: workspace.locate_path(name).zone
        for name in ("out", "up/outside.txt", "plain", "b.pem", "inner", str(tmp_path / "in"))
    }
    assert zones == {
        "out": Zone.OUTSIDE,
        "up/outside.txt": Zone.OUTSIDE,
        "plain": Zone.SECRET,
        "b.pem": Zone.SECRET,
        "inner": Zone.INSIDE,
        str(tmp_path / "in"): Zone.OUTSIDE,
    }
    inner = workspace.locate_path("inner")
    assert (inner.shown, inner.resolved, inner.is_link) == ("inner", "src/a.py", True)
    assert (inner.size, workspace.locate_path("src").size) == (6, 0)
    assert workspace.locate_path("b.pem").reasons == ("secret_name",)
    assert workspace.locate_path("out").leads_out
    assert "link_out" in workspace.locate_path("out").reasons
    assert workspace.locate_path("out").resolved == str(tmp_path / "outside.txt")
    assert not workspace.locate_path("up/outside.txt").leads_out  # says itself where it lies
    assert workspace.locate_path("up/outside.txt").shown == str(tmp_path / "outside.txt")


def test_only_what_was_asked_for_stays_open(opener: Opener, tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c" / "file").write_text("x")
    anchor = os.open(tmp_path, os.O_RDONLY)
    before = descriptors()
    for path in ("a/b/c/file", "a/b/c/none", "a/../a"):
        with contextlib.suppress(OSError):
            os.close(opener(anchor, path, os.O_RDONLY, 0))
    assert descriptors() == before
    os.close(anchor)


def test_as_many_links_are_followed_as_the_system_follows(workspace: Workspace, root: Path) -> None:
    (root / "0").symlink_to("src/a.py")
    for number in range(1, 41):
        (root / str(number)).symlink_to(str(number - 1))
    assert (root / "39").exists()
    assert workspace.locate_path("39").resolved == "src/a.py"
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        (root / "40").stat()
    with pytest.raises(PathRefused) as refused:
        workspace.locate_path("40")
    assert refused.value.code == "link_loop"


def test_the_longest_path_is_4096_bytes(workspace: Workspace) -> None:
    assert workspace.locate_path("./" * 2048).shown == "."
    with pytest.raises(PathRefused) as refused:
        workspace.locate_path("./" * 2048 + ".")
    assert refused.value.code == "too_long"


def test_a_folder_that_has_an_odd_name_already_may_get_new_files(
    workspace: Workspace, root: Path
) -> None:
    (root / "a.").mkdir()
    for path in ("a./new", "a./new/deep/x"):
        assert workspace.locate_path(path).shown == path


def test_where_the_way_ends_that_begins_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    gone = Location((*tmp_path.parts[1:], "gone"), ())
    with pytest.raises(PathRefused) as refused:
        walk_path(gone, ".", ".")
    assert refused.value.code == "moved"
    assert walk_path(gone, "日本", "日本").missing == 1


def test_a_link_that_goes_while_it_is_followed(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R02: a resolution that fails is a denial."""
    (root / "link").symlink_to("src")
    read = os.readlink

    def late(path: str) -> str:
        os.unlink(path)
        return read(path)

    monkeypatch.setattr(os, "readlink", late)
    with pytest.raises(PathRefused) as refused:
        workspace.locate_path("link/a.py")
    assert refused.value.code == "moved"


def test_links_without_end_are_refused(workspace: Workspace, root: Path) -> None:
    """R02: a resolution that fails is a denial."""
    (root / "zero").symlink_to(root / "zero")
    with pytest.raises(PathRefused) as refused:
        workspace.locate_path("zero/x")
    assert refused.value.code == "link_loop"
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    with pytest.raises(PathRefused) as refused:
        workspace.locate_path("one/x")
    assert refused.value.code == "link_loop"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "nul"),
        ("\ud800", "encoding"),
        ("x" * 5000, "too_long"),
        ("x" * 300, "too_long"),
        ("nothing/../src/a.py", "parent_of_missing"),
        ("src/a.py/b", "not_a_directory"),
        ("src/a.py/../a.py", "not_a_directory"),
        ("new.exe ", "odd_name"),
        ("new./x", "odd_name"),
        ("a\nb", "odd_name"),
        ("a\u202egpj.exe", "odd_name"),
    ],
)
def test_what_means_nothing_is_refused(workspace: Workspace, given: str, code: str) -> None:
    """R02, C20: NUL, trailing dots and spaces, `..` behind nothing."""
    with pytest.raises(PathRefused) as refused:
        workspace.locate_path(given)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "given",
    [
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/config",
        ".git./config",
        ".git /config",
        ".gi\u200dt/config",
        "GIT~1/config",
        ".git::$INDEX_ALLOCATION/config",
        "vendor/lib/.git/config",
        ".duckflow/config.toml",
        ".Duckflow/x",
        "../config/settings.toml",
        "../CONFIG/settings.toml",
        "/proc/self/environ",
        "/proc/self/cwd/src/a.py",
        "/dev/null",
    ],
)
def test_protected_while_absent(workspace: Workspace, given: str) -> None:
    """R09: names are protected although nothing of them exists, in every spelling."""
    try:
        zone = workspace.locate_path(given).zone
    except PathRefused as refused:
        # Refused even before it is judged: a disguise of the name, or a device.
        zone = Zone.PROTECTED if refused.code in ("odd_name", "special_file") else Zone.INSIDE
    assert zone is Zone.PROTECTED


def test_only_whole_names_are_protected(workspace: Workspace) -> None:
    for name in (".gitignore", ".github/x.yml", "git/config", "x.git", ".gitlab", "..git"):
        assert workspace.locate_path(name).zone is Zone.INSIDE, name


def test_a_link_into_the_protected_is_protected(workspace: Workspace, root: Path) -> None:
    """R02, R09."""
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]")
    (root / "settings").symlink_to(".git/config")
    (root / "g").symlink_to(".git")
    assert workspace.locate_path("settings").zone is Zone.PROTECTED
    assert workspace.locate_path("g/hooks/new").zone is Zone.PROTECTED


def test_a_hard_link_to_the_protected_is_protected(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    """R09: by inode, whatever the name; an ordinary second name is only noted."""
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh")
    os.link(root / ".git" / "hooks" / "pre-push", root / "innocent.txt")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rules.toml").write_text("")
    os.link(tmp_path / "config" / "rules.toml", root / "rules.txt")
    os.link(root / "src" / "a.py", root / "src" / "b.py")
    innocent = workspace.locate_path("innocent.txt")
    assert innocent.zone is Zone.PROTECTED
    assert innocent.reasons == ("hard_link", "protected_inode")
    assert workspace.locate_path("rules.txt").zone is Zone.PROTECTED
    other = workspace.locate_path("src/b.py")
    assert (other.zone, other.reasons) == (Zone.INSIDE, ("hard_link",))
    (root / ".git" / "link").symlink_to(root / "src" / "a.py")  # this is no name of it
    assert workspace.locate_path("src/b.py").zone is Zone.INSIDE


def test_a_second_name_is_protected_where_the_protected_files_are_too_many_to_compare(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R06: no file is compared with more than a limit, and then it is taken for one of them."""
    monkeypatch.setattr("duckflow_tui.safety.risk._MAX_ENTRIES", 3)
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "objects").mkdir()
    os.link(root / "src" / "a.py", root / "src" / "b.py")
    for name in ("hooks/one", "hooks/two", "three", "objects/four"):
        (root / ".git" / name).write_text("")
    assert workspace.locate_path("src/b.py").zone is Zone.INSIDE
    (root / ".git" / "five").write_text("")
    assert workspace.locate_path("src/b.py").zone is Zone.PROTECTED


@pytest.mark.parametrize("linked", [False, True], ids=["bare", "worktree"])
def test_protected_where_git_leads_to(root: Path, *, linked: bool) -> None:
    """R09: hooks and settings run programs wherever they lie."""
    bare = root / ".bare"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    if linked:
        (bare / "worktrees" / "main").mkdir(parents=True)
        (bare / "worktrees" / "main" / "commondir").write_text("../..\n")
    lead = ".bare/worktrees/main" if linked else str(bare)
    (root / ".git").write_text(f"gitdir: {lead}\n")
    workspace = Workspace(root)
    try:
        for path in (".bare/config", ".bare/hooks/pre-commit", ".bare/worktrees/main/config"):
            assert workspace.locate_path(path).zone is Zone.PROTECTED, path
        assert workspace.locate_path("src/a.py").zone is Zone.INSIDE
        assert workspace.locate_path(".barely").zone is Zone.INSIDE
    finally:
        workspace.close()


SETTINGS = (
    '[core]\n\tHooksPath = "tools/my hooks"  # ours\n[include]\npath=../more.cfg\n'
    "[core] attributesFile = \\\n attrs\n"
    '[core]\nhooksPath = sp"li"t/ho\\oks#x\n'
    '[filter "x"]\n\tclean = python3 bin/clean.py %f\n[alias]\n\td = !sh ./dep.sh\n'
    '[user]\n\tname = src\n[branch "src"]\n\tremote = src\n'
)


def test_where_the_settings_of_git_lead_is_closed_as_git_is(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """R09: hooks, attributes and included settings, also while absent, wherever they lie."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home" / ".config" / "git").mkdir(parents=True)
    (tmp_path / "home/.config/git/config").write_text("[core] hooksPath = ~/all-hooks\n")
    for folder in (root, root / "sub"):
        (folder / ".git").mkdir(parents=True)
        (folder / ".git/config").write_text(SETTINGS)
        (folder / "more.cfg").write_text("[include]\n\tpath = last.cfg\n")
    workspace = Workspace(root)
    try:
        led = ["tools/my hooks/pre-push", "more.cfg", "last.cfg", "attrs", "split/hooks/commit-msg"]
        for path in (*led, *(f"sub/{path}" for path in led), "~/all-hooks/pre-commit"):
            if path.startswith("~"):
                path = str(tmp_path / "home" / path[2:])
            place = workspace.locate_path(path)
            assert place.zone is Zone.PROTECTED, path
            access = Access("file_ops.write_file", Effect.WRITE, (place,))
            assert judge_access(access, ApprovalMode.TRUSTED).kind is Decision.DENY, path
        for path in ("src/a.py", "tools/a.py", "bin/a.py", "last.txt", "sub/src/new.py"):
            access = Access("file_ops.write_file", Effect.WRITE, (workspace.locate_path(path),))
            assert judge_access(access, ApprovalMode.TRUSTED).kind is Decision.ALLOW, path
    finally:
        workspace.close()
    (root / ".git/config").write_text("[core]\n\thooksPath = src/hooks\0more\n")  # as git reads it
    below = Workspace(root / "src")  # a folder of the repository
    assert below.locate_path("hooks/pre-push").zone is Zone.PROTECTED
    below.close()


def test_settings_of_git_that_change_are_read_again(root: Path) -> None:
    """Also where the file keeps its size and time."""
    (root / ".git").mkdir()
    config = root / ".git/config"
    workspace = Workspace(root)
    for name in ("one", "two", "six"):
        config.write_text(f"[core]\n\thooksPath = {name}\n[filter]\n\tclean = ./{name}.sh\n")
        os.utime(config, (1, 1))
        assert workspace.locate_path(f"{name}/pre-push").zone is Zone.PROTECTED
        assert workspace.locate_path(f"{name}.sh").reasons == ("run_by_git",)
    assert workspace.locate_path("one/pre-push").zone is Zone.INSIDE
    assert workspace.locate_path("one.sh").reasons == ()
    workspace.close()


def test_a_program_that_the_settings_of_git_name_asks(root: Path) -> None:
    """Whatever the setting is called, also while it is absent: it runs once somebody uses git."""
    (root / ".git").mkdir()
    (root / ".git/config").write_text(SETTINGS)
    (root / "bin").mkdir()
    for name in ("bin/clean.py", "bin/other.py"):
        (root / name).write_text("")
    workspace = Workspace(root)
    try:
        for path, said in (("bin/clean.py", True), ("dep.sh", True), ("bin/other.py", False)):
            access = Access("file_ops.write_file", Effect.WRITE, (workspace.locate_path(path),))
            verdict = judge_access(access, ApprovalMode.TRUSTED)
            assert ("program" in verdict.reasons) is said, path
            assert (verdict.kind is Decision.GATE) is said, path
    finally:
        workspace.close()


def test_protected_where_a_link_or_a_folder_named_git_leads_to(root: Path) -> None:
    bare, shared = root / ".bare", root / "shared"
    bare.mkdir()
    shared.mkdir()
    (bare / "commondir").write_text("../shared\n")
    (root / ".git").symlink_to(".bare")
    workspace = Workspace(root)
    try:
        for path in (".bare/config", "shared/config", "shared/hooks/pre-commit"):
            assert workspace.locate_path(path).zone is Zone.PROTECTED, path
        assert workspace.locate_path("src/a.py").zone is Zone.INSIDE
    finally:
        workspace.close()


@pytest.mark.parametrize("where", ["vendor/lib", "lib.git", "deep/down/under"])
def test_a_repository_inside_is_protected_wherever_it_lies(
    workspace: Workspace, root: Path, where: str
) -> None:
    """R09: of submodules, too, whose ``.git`` names any folder; git obeys it without one."""
    subprocess.run(["git", "init", "-q", "--bare", str(root / where)], check=True)
    for path in ("config", "hooks/post-checkout", "HEAD", "info/attributes", "refs/heads/x", "any"):
        assert workspace.locate_path(f"{where}/{path}").zone is Zone.PROTECTED, path
    assert workspace.locate_path(f"{where}/../beside.txt").zone is Zone.INSIDE


@pytest.mark.parametrize("last", ["HEAD", "head", "objects/a", "refs/heads/x", "commondir"])
def test_no_file_makes_a_repository_of_a_folder(
    workspace: Workspace, root: Path, last: str
) -> None:
    """Whichever of its parts comes last is refused."""
    folder = root / "lib"
    (folder / "hooks").mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs"):
        (folder / name).mkdir()
    part = last.split("/")[0]
    if part == "commondir":
        (folder / "refs").rmdir()
    elif part in ("objects", "refs"):
        (folder / part).rmdir()
    else:
        (folder / "HEAD").unlink()
    assert workspace.locate_path("lib/config").zone is Zone.INSIDE
    assert workspace.locate_path(f"lib/{last}").zone is Zone.PROTECTED


def test_a_workspace_that_is_a_repository_itself_stays_open(root: Path) -> None:
    """Its worktrees are folders beside what belongs to git."""
    subprocess.run(["git", "init", "-q", "--bare", str(root)], check=True)
    workspace = Workspace(root)
    try:
        for path in ("config", "hooks/pre-commit", "HEAD", "packed-refs"):
            assert workspace.locate_path(path).zone is Zone.PROTECTED, path
        assert workspace.locate_path("src/a.py").zone is Zone.INSIDE
        assert workspace.locate_path("main/new.py").zone is Zone.INSIDE
    finally:
        workspace.close()


def test_protected_where_variables_of_git_lead_to(root: Path) -> None:
    (root / "elsewhere").mkdir()
    workspace = Workspace(root, repositories=(root / "elsewhere", root, root.parent))
    try:
        assert workspace.locate_path("elsewhere/config").zone is Zone.PROTECTED
        assert workspace.locate_path("src/a.py").zone is Zone.INSIDE
    finally:
        workspace.close()


@pytest.mark.parametrize(
    "lead", [".", "..", "/", "", "no such folder", "src/../..", "loop", "loop/x", "\0", "link"]
)
def test_a_git_file_that_names_no_repository_closes_nothing(root: Path, lead: str) -> None:
    (root / "loop").symlink_to("loop")
    if lead == "link":
        (root / ".git").symlink_to("..")
    else:
        (root / ".git").write_text(f"gitdir: {lead}\n")
    workspace = Workspace(root)
    try:
        assert workspace.locate_path("src/a.py").zone is Zone.INSIDE
        assert workspace.locate_path(".git").zone is Zone.PROTECTED
    finally:
        workspace.close()


def test_a_pipe_named_git_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / ".git")
    Workspace(root).close()


def test_protected_by_inode_under_another_name(workspace: Workspace, root: Path) -> None:
    """R09: a second mount of .git has another name and the same inode."""
    (root / ".git").mkdir()
    ids = [(p.stat().st_dev, p.stat().st_ino) for p in (root, root / ".git")]
    zones = ZoneMap(root, ids[0], ())
    mounted = Location(("mnt", "work", "harmless", "config"), (None, ids[0], ids[1], None))
    plain = Location(("mnt", "work", "harmless", "config"), (None, ids[0], (0, 0), None))
    assert zones.judge_location(mounted).zone is Zone.PROTECTED
    assert zones.judge_location(plain).zone is Zone.INSIDE


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        ".ENV",
        "conf/server.pem",
        "id_rsa",
        "id_ed25519.pub",
        "private.KEY",
        ".npmrc",
        ".netrc",
        ".pypirc",
        "credentials",
        "credentials.json",
        ".aws/config",
        "home/.ssh/known_hosts",
        ".docker/config.json",
    ],
)
def test_secret_names(workspace: Workspace, name: str) -> None:
    """R09, S4-63: judged by name in any case, before the file exists."""
    assert workspace.locate_path(name).zone is Zone.SECRET


@pytest.mark.parametrize(
    "name", ["environment.py", "keys.py", "credentials.py", "monkey", "src/keyboard.key.md", "env"]
)
def test_source_files_are_no_secrets(workspace: Workspace, name: str) -> None:
    assert workspace.locate_path(name).zone is Zone.INSIDE


def test_a_secret_outside_is_outside_and_secret(workspace: Workspace) -> None:
    place = workspace.locate_path("~/.ssh/id_rsa")
    assert (place.zone, place.secret) == (Zone.OUTSIDE, True)


def test_the_same_name_in_other_unicode(workspace: Workspace, root: Path) -> None:
    """A model writes NFC; a file that came as NFD is found, and never doubled."""
    nfd = unicodedata.normalize("NFD", "ガイド.md")
    (root / nfd).write_text("x")
    place = workspace.locate_path(unicodedata.normalize("NFC", "ガイド.md"))
    assert place.exists
    assert place.shown == nfd


def test_a_name_that_means_two_files_is_refused(workspace: Workspace, root: Path) -> None:
    """The sign for Å is neither of the two ways to write the letter, and means both."""
    for name in ("\u00c5", "A\u030a"):
        (root / name).write_text("x")
        assert workspace.locate_path(name).shown == name
    with pytest.raises(PathRefused) as refused:
        workspace.locate_path("\u212b")
    assert refused.value.code == "ambiguous"


def test_special_files_are_refused(workspace: Workspace, root: Path) -> None:
    """safety.md, faults: FIFO, socket, device refused, and looking at them does not hang."""
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(root, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{here}/socket" if os.path.exists("/proc/self/fd") else "socket")
        os.close(here)
        for name in ("pipe", "socket"):
            with pytest.raises(PathRefused) as refused:
                workspace.locate_path(name)
            assert refused.value.code == "special_file"
    (root / "null").symlink_to("/dev/null")
    with pytest.raises(PathRefused):
        workspace.locate_path("null")


def test_the_root_is_pinned(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    """R03: another directory under the same name is not the workspace."""
    assert workspace.is_intact()
    root.rename(tmp_path / "moved")
    assert not workspace.is_intact()
    root.mkdir()
    assert not workspace.is_intact()
    with pytest.raises(WorkspaceGone):
        workspace.locate_path("src/a.py")


def test_a_workspace_that_was_closed_is_of_no_use(root: Path) -> None:
    before = descriptors()
    workspace = Workspace(root)
    workspace.close()
    workspace.close()
    assert descriptors() == before
    with pytest.raises(WorkspaceGone):
        workspace.locate_path("src/a.py")


def test_no_workspace_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("nothing", "file"):
        with pytest.raises(WorkspaceGone):
            Workspace(tmp_path / name)


def test_the_file_system_root_as_workspace() -> None:
    workspace = Workspace("/")
    assert workspace.locate_path("etc").zone is Zone.INSIDE
    assert workspace.locate_path("/etc/passwd").shown == "etc/passwd"


def test_leaving_by_descriptor_is_impossible(opener: Opener, root: Path, tmp_path: Path) -> None:
    """R01: links, `..` and absolute paths do not get past the opener itself."""
    (root / "up").symlink_to(tmp_path)
    (root / "loop").symlink_to("src")
    (tmp_path / "secret").write_text("x")
    fd = os.open(root, os.O_RDONLY)
    for path in ("up/secret", "../secret", "src/../../secret", "loop/a.py", "loop", ".."):
        with pytest.raises(OSError) as refused:  # noqa: PT011 - which of three is the kernel's own
            os.close(opener(fd, path, os.O_RDONLY, 0))
        assert refused.value.errno in (errno.ELOOP, errno.EXDEV, errno.ENOTDIR)
    os.close(opener(fd, "src/a.py", os.O_RDONLY, 0))
    os.close(fd)


@pytest.mark.skipif(not os.path.exists("/proc/version"), reason="only Linux has such a call")
def test_the_kernels_own_call_opens_what_was_named() -> None:
    """On another file system than the one it begins at, too."""
    slash = os.open("/", os.O_RDONLY)
    try:
        file = open_in_kernel(slash, "proc/version", os.O_RDONLY)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        pytest.skip("no openat2 here")
    else:
        with open(file, "rb") as opened:
            assert opened.read().startswith(b"Linux version")
    finally:
        os.close(slash)


class BusyKernel:
    """Has to be asked again a number of times, then gives a descriptor."""

    def __init__(self, times: int, number: int) -> None:
        self.left, self.number = times, number

    def syscall(self, *args: object) -> int:
        self.left -= 1
        ctypes.set_errno(self.number)
        return 0 if self.left < 0 else -1


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EINTR])
def test_a_kernel_that_is_busy_is_asked_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A rename elsewhere raced with it; whoever renames all the time does not win."""
    kernels = iter([BusyKernel(15, number), BusyKernel(16, number)])
    for given in (0, errno.EAGAIN):
        kernel = next(kernels)
        monkeypatch.setattr(paths, "load_libc", lambda kernel=kernel: kernel)
        if not given:
            assert open_in_kernel(0, "a", os.O_RDONLY) == 0
            continue
        with pytest.raises(OSError, match=os.strerror(given)):
            open_in_kernel(0, "a", os.O_RDONLY)


def test_where_the_kernel_has_no_such_call_each_part_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(directory: int, path: str, flags: int, mode: int = 0) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    choose = inspect.unwrap(choose_opener)
    before = descriptors()
    choose()
    monkeypatch.setattr(paths, "open_in_kernel", refuse)
    assert choose() is open_by_component
    assert descriptors() == before


def _spell(root: Path, tmp_path: Path) -> dict[str, str]:
    """Ways to say the root itself, by what is on the way."""
    (tmp_path / "short").symlink_to(root)
    (tmp_path / "twice").symlink_to("short")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "up").symlink_to("..")
    (root / "loop").symlink_to(".")
    (root / "parent").symlink_to("..")
    return {
        "a link": f"{tmp_path}/short",
        "a link to a link": f"{tmp_path}/twice",
        "a folder above through a link": f"{tmp_path}/private/up/work",
        "a detour": f"{tmp_path}/private/../work",
        "a detour behind a link": f"{tmp_path}/short/src/..",
        "a way out and in again": "parent/work",
        "a link inside": "loop",
        "slashes": f"/{tmp_path}//work/./",
        "home": "~/../work",
    }


def test_paths_that_are_the_same_place_are_the_same(
    root: Path, tmp_path: Path, opener: Opener
) -> None:
    """R01, R03: the root is known by its identity, however it was reached."""
    (tmp_path / "home").mkdir()
    workspace = Workspace(root, home=tmp_path / "home", opener=opener)
    (root / "leads_out").symlink_to(tmp_path / "home")
    (root / ".git").mkdir()
    for kind, spelled in _spell(root, tmp_path).items():
        for below, zone in (
            ("src/a.py", Zone.INSIDE),
            ("src/new.py", Zone.INSIDE),
            ("src/", Zone.INSIDE),
            (".", Zone.INSIDE),
            (".env", Zone.SECRET),
            (".git/config", Zone.PROTECTED),
            ("leads_out/x", Zone.OUTSIDE),
            ("../work_evil", Zone.OUTSIDE),
        ):
            place, plain = workspace.locate_path(f"{spelled}/{below}"), workspace.locate_path(below)
            assert (place.shown, place.zone) == (plain.shown, zone), (kind, below)
            assert place.real == plain.real, (kind, below)
    assert workspace.locate_path(f"{tmp_path}/short").shown == "."
    (tmp_path / "in").symlink_to(root / "src")
    assert workspace.locate_path(f"{tmp_path}/in/a.py").shown == "src/a.py"


def test_another_folder_behind_the_same_link_is_outside(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    """R03: the identity decides, not the spelling by which the root was opened."""
    (tmp_path / "short").symlink_to(root)
    assert workspace.locate_path(f"{tmp_path}/short/src/a.py").zone is Zone.INSIDE
    (tmp_path / "other" / "src").mkdir(parents=True)
    (tmp_path / "short").unlink()
    (tmp_path / "short").symlink_to("other")
    assert workspace.locate_path(f"{tmp_path}/short/src/a.py").zone is Zone.OUTSIDE
