"""Every kind of sandbox, really run: what it must keep a command from, and what must go on working.

A kind that the kernel or the machine lacks is skipped with the reason that the self-test gives.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Generator
from pathlib import Path
from typing import ClassVar, Final, Literal, NamedTuple, get_args

import pytest
from support.shell import no_full_sandbox

from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.tools import sandbox_worker, seccomp
from duckflow_tui.tools.command_runner import SandboxChoice
from duckflow_tui.tools.operation import ToolFault
from duckflow_tui.tools.sandbox import LINKED, Rung, Sandbox, seatbelt_profile

Who = Literal["us", "nobody"]
NOBODY: Final = 65533  # a user that owns nothing here
RUNGS: Final[tuple[Rung, ...]] = ("bwrap", "namespaces")
DEADLINE: Final = 60.0


class Made(NamedTuple):
    """A workspace with a sandbox around it, and beside it a place that is not the command's."""

    sandbox: Sandbox
    root: Path
    beside: Path
    rung: Rung
    who: Who

    def run(self, command: str, *, network: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a line as the model's commands are run."""
        held = asyncio.run(self.sandbox.hold_command(("/bin/bash", "-c", command), network=network))
        return self.started(held.argv)

    def started(self, argv: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        """Run what the sandbox made of a command."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.beside / "home"), "LANG": "C"}
        return subprocess.run(
            as_user(self.who, argv),
            cwd=self.root,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            start_new_session=True,
            check=False,
        )

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run a program of Python in it; the one that every user can read."""
        (self.root / "attack.py").write_text(code)
        return self.run(f"{interpreter(self.who)} -I -S attack.py")


def as_user(who: Who, argv: tuple[str, ...]) -> list[str]:
    if who == "us":
        return list(argv)
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    given = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--bounding-set=-all"]
    return [setpriv, *given, "--inh-caps=-all", "--", *argv]


def interpreter(who: Who) -> str:
    """A Python that this user can run; skips where there is none."""
    ours = os.path.realpath(sys.executable)
    if who == "us":
        return ours
    for path in (ours, "/usr/local/bin/python3", "/usr/bin/python3"):
        test = "import sys; sys.exit(sys.version_info < (3, 9))"
        # By a shell: setpriv itself still has the rights of root while it starts something.
        argv = as_user(who, ("/bin/sh", "-c", 'exec "$0" -I -S -c "$1"', path, test))
        if subprocess.run(argv, capture_output=True, check=False).returncode == 0:
            return path
    pytest.skip("no Python here can be run by another user")


class Tried(Sandbox):
    """A sandbox whose self-test runs once for each kind: it is a start as dear as a command's, and
    tells the same each time.
    """

    _told: ClassVar[dict[tuple[type, Rung], tuple[str, bool]]] = {}

    async def _find_missing(self, rung: Rung) -> str:
        if (type(self), rung) not in self._told:
            self._told[type(self), rung] = await super()._find_missing(rung), self._sized
        lacks, self._sized = self._told[type(self), rung]
        return lacks


class OtherUser(Tried):
    """The same, whose self-test runs as the other user too."""

    def _python_program(self, text: str) -> tuple[str, ...]:
        return (interpreter("nobody"), *super()._python_program(text)[1:])

    async def _run(self, argv: tuple[str, ...]) -> tuple[bytes, int]:  # type: ignore[override]
        return await super()._run(as_user("nobody", tuple(argv)))


@pytest.fixture(params=[(rung, who) for rung in RUNGS for who in get_args(Who)], ids="-".join)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Made]:
    rung, who = request.param
    if who == "nobody" and (os.geteuid() != 0 or shutil.which("setpriv") is None):
        pytest.skip("only root can become another user, with setpriv")
    if who == "us":
        yield from make(rung, who, tmp_path)
        return
    with tempfile.TemporaryDirectory(prefix="duckflow-nobody-", dir=shared(tmp_path)) as folder:
        yield from make(rung, who, Path(folder))


def shared(folder: Path) -> Path:
    """The folder above in which every user has files: those between are pytest's, and another run
    of it closes them to others when it begins.
    """
    return next((path for path in folder.parents if path.stat().st_mode & stat.S_ISVTX), folder)


def make(rung: Rung, who: Who, place: Path) -> Generator[Made]:
    beside = place / "beside"
    root, kept = place / "work", place / "kept"
    for folder in (beside / "home", root / ".git" / "hooks", kept):
        folder.mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    (beside / "theirs").write_text("as it was")
    (beside / "theirs").chmod(0o600)
    choice = SandboxChoice("auto", folder=kept, own=(kept,), rungs=(rung,))
    kind = Tried if who == "us" else OtherUser
    sandbox = kind(choice, Workspace(root), os.environ)
    sandbox._private_folder()  # pyright: ignore[reportPrivateUsage]
    if who == "nobody":
        open_for(place)
    level = asyncio.run(sandbox.find_level())
    if level == "none" and (rung, who) == ("bwrap", "us"):
        no_full_sandbox("; ".join(sandbox.why))
    if level == "none":
        pytest.skip(f"{rung} as {who}: {'; '.join(sandbox.why)}")
    yield Made(sandbox, root, beside, rung, who)
    sandbox.close()


def open_for(folder: Path) -> None:
    """Give a tree to the other user, with a way to it."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    for parent in folder.parents:
        if parent != parent.parent and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)


# --- what must fail --------------------------------------------------------------------------


def test_nothing_beside_the_workspace_is_changed(made: Made) -> None:
    theirs = made.beside / "theirs"
    (made.root / "link").symlink_to(theirs)
    done = made.run(
        f"echo no > {made.beside}/new; echo no > {theirs}; echo no > {made.root}/link; "
        f"truncate -s 0 {theirs}; ln {theirs} hard && echo no > hard; "
        f"mv {theirs} {made.root}/taken; rm -f {theirs}; "
        f"chmod 666 {theirs}; chmod 777 {made.beside}"
    )
    assert theirs.read_text() == "as it was", done.stderr
    assert sorted(path.name for path in made.beside.iterdir()) == ["home", "theirs"], done.stderr
    assert theirs.stat().st_mode & 0o777 == 0o600


def test_what_a_command_takes_has_limits(made: Made) -> None:
    done = made.run("ulimit -c; ulimit -Hc; truncate -s 1G some && exec truncate -s 33G more")
    assert (done.stdout, done.returncode) == ("0\n0\n", -signal.SIGXFSZ), done.stderr
    assert (made.root / "some").stat().st_size == 1 << 30
    source = made.sandbox._source  # pyright: ignore[reportPrivateUsage]
    for name, value in (("SHARED", 10 << 20), ("EMPTY", 5 << 20), ("PROCESSES", 30)):
        source = re.sub(rf"^MOST_{name} = .*?(?=  #)", f"MOST_{name} = {value}", source, flags=re.M)
    source = re.sub("^EACH_PROCESSOR = .*", "EACH_PROCESSOR = 1", source, flags=re.M)
    made.sandbox._source = source  # pyright: ignore[reportPrivateUsage]
    if made.who == "nobody":  # the kernel never counts those of root
        many = made.run("for n in {1..60}; do sleep 1 & done; wait")
        assert "Resource temporarily unavailable" in many.stderr
    fill = "head -c {0}M /dev/zero >{1}/new; echo $?; rm -f {1}/new; "
    tries = "".join(
        fill.format(size, folder)
        for folder, room in (("/dev/shm", 10), ("/run", 5))
        for size in (room - 1, room + 1)
    )
    tries += "touch /dev/new; echo $?; "
    everyday = "echo x >/dev/null && head -c 9 /dev/zero >/dev/shm/y && test -c /dev/ptmx && :|cat"
    done = made.run(f"{tries} {everyday}; echo $?")
    assert done.stdout.split() == ["0", "1", "0", "1", "1", "0"], done.stderr


def test_a_bubblewrap_that_cannot_bound_memory_is_not_told_to() -> None:
    """One before 0.7 would not start."""
    plan = {"bwrap": "bwrap", "network": False, "cwd": "/"}
    mounts = [sandbox_worker.Mount("/run", "empty")]
    for sized in (True, False):
        argv = sandbox_worker.bubblewrap_argv({**plan, "sized": sized}, mounts, ["true"])
        assert argv.count("--size") == 2 * sized
        assert argv.count("--tmpfs") == 2


def test_what_git_obeys_stays_as_it_is(made: Made) -> None:
    made.run(
        "echo evil > .git/hooks/pre-commit; echo evil >> .git/config; rm -rf .git; "
        "mv .git .gone; mkdir .git; echo evil > .git/config"
    )
    assert (made.root / ".git/config").read_text() == "[core]\n"
    assert list((made.root / ".git/hooks").iterdir()) == []
    assert sorted(p.name for p in made.root.iterdir()) == [".git"]


def test_where_a_git_file_leads_is_closed_too(made: Made) -> None:
    if made.who == "nobody":
        pytest.skip("held as ourselves")
    bare = made.root / ".bare"
    (made.root / ".git").rename(bare)
    (made.root / ".git").write_text("gitdir: .bare\n")
    choice = SandboxChoice("auto", folder=made.beside / "kept", rungs=(made.rung,))
    again = made._replace(sandbox=Tried(choice, Workspace(made.root), os.environ))
    again.run("echo evil >> .bare/config; echo 'gitdir: mine' > .git; rm -f .git")
    assert (bare / "config").read_text() == "[core]\n"
    assert (made.root / ".git").read_text() == "gitdir: .bare\n"
    again.sandbox.close()


def test_a_repository_below_the_root_stays_as_it_is_with_the_places_it_leads_to(
    made: Made,
) -> None:
    """The folders around it can be used."""
    repository(made.root / "libs/one/.git")
    repository(made.root / "libs/kept.git")
    repository(made.root / ".store")
    (made.root / ".store/refs").rmdir()  # it is told by what leads to it alone
    (made.root / "libs/two").mkdir()
    (made.root / "libs/two/.git").write_text("gitdir: ../../.store\n")
    if made.who == "nobody":
        open_for(made.root)
    before = contents(made.root)
    done = made.run(
        "echo evil >>libs/one/.git/config; echo evil >libs/one/.git/hooks/pre-commit; "
        "echo evil >>libs/kept.git/config; echo evil >>.store/config; "
        "echo 'gitdir: evil' >libs/two/.git; rm -f libs/two/.git; mv libs/two/.git libs/two/old; "
        "mv libs/one old; mv libs old; mv libs/kept.git old; mv .store old; rm -rf libs"
    )
    shutil.rmtree(made.root / "old", ignore_errors=True)  # a copy
    assert contents(made.root) == before, done.stderr
    done = made.run("echo ours >libs/one/new && mkdir libs/three && mv libs/one/new libs/three/")
    assert done.returncode == 0, done.stderr


def test_where_the_settings_of_repositories_lead_stays_as_it_is(made: Made) -> None:
    """Hooks, attributes and included settings of one below the root, and of a folder that only has
    the shape of one; so do the settings of a root in that shape.
    """
    led = "[core]\nhooksPath = ../{0}-hooks\nattributesFile = ../{0}-attributes\n"
    repository(made.root / "sub/.git")
    repository(made.root / "lib")
    (made.root / "sub/.git/config").write_text(led.format("sub") + "[include]\npath = ../more\n")
    (made.root / "sub/more").write_text("[include]\npath = ../last\n")
    (made.root / "last").write_text("")
    (made.root / "lib/config").write_text(led.format("lib"))
    (made.root / "HEAD").write_text("ref: refs/heads/main\n")
    (made.root / "config").write_text("[core]\n")
    for name in ("objects", "refs"):
        (made.root / name).mkdir()
    for name in ("sub", "lib"):
        (made.root / f"{name}-hooks").mkdir()
        (made.root / f"{name}-hooks/pre-commit").write_text("as it was")
        (made.root / f"{name}-attributes").write_text("as it was")
    if made.who == "nobody":
        open_for(made.root)
    before = contents(made.root)
    done = made.run(
        "for f in {sub,lib}-hooks/{pre-commit,new} {sub,lib}-attributes sub/more last config HEAD; "
        "do echo evil >>$f; rm -f $f; done; mv sub-hooks old; mv lib-hooks old; mv config old"
    )
    assert contents(made.root) == before, done.stderr
    done = made.run("echo ours >src && mkdir -p hooks && echo ours >sub/new")
    assert done.returncode == 0, done.stderr


def test_a_link_that_stands_for_a_repository_stays_with_what_it_leads_to(made: Made) -> None:
    """The root's own and one below it, also one that leads nowhere."""
    if made.rung != "namespaces":
        pytest.skip("only what makes its own mounts can close a link")
    (made.root / ".git").rename(made.root / "store")
    (made.root / ".git").symlink_to("store")
    repository(made.root / "a/kept")
    (made.root / "a/b").mkdir()
    (made.root / "a/b/.git").symlink_to("../kept")
    (made.root / "c").mkdir()
    (made.root / "c/.git").symlink_to("nowhere")
    if made.who == "nobody":
        open_for(made.root)
    before = contents(made.root)
    links = {name: os.readlink(made.root / name / ".git") for name in ("", "a/b", "c")}
    done = made.run(
        "rm -f .git a/b/.git c/.git; mkdir .git a/b/.git c/.git c/nowhere; "
        "mv .git old; mv a/b/.git old; mv a/b gone; mv a gone; mv c new; "
        "ln -sfn /etc .git; ln -sfn /etc a/b/.git; ln -sfn /etc c/.git; "
        "echo evil >>.git/config; echo evil >>a/b/.git/config; mv a/kept old; mv store old"
    )
    shutil.rmtree(made.root / "c/nowhere", ignore_errors=True)
    assert contents(made.root) == before, done.stderr
    assert {n: os.readlink(made.root / n / ".git") for n in links} == links, done.stderr
    done = made.run("cat .git/config && echo ours >a/b/new")
    assert (done.returncode, done.stdout) == (0, "[core]\n"), done.stderr


def test_where_bubblewrap_cannot_close_a_link_another_kind_holds_or_each_command_asks(
    tmp_path: Path,
) -> None:
    root = tmp_path / "work"
    repository(root / "store")
    choice = SandboxChoice("auto", folder=tmp_path / "kept", rungs=("bwrap",))
    one, two = (Sandbox(choice, Workspace(root), os.environ) for _ in range(2))
    try:
        if asyncio.run(one.find_level()) != "full":
            pytest.skip("; ".join(one.why))
        (root / ".git").symlink_to("store")
        assert (asyncio.run(two.find_level()), two.why) == ("none", [f"bwrap: {LINKED}"])
        with pytest.raises(ToolFault, match="no_longer_full"):
            asyncio.run(one.hold_command(("/bin/true",), network=False))
        assert (asyncio.run(one.find_level()), one.why) == ("partial", [LINKED])
        held = asyncio.run(one.hold_command(("/bin/true",), network=False))
        assert subprocess.run(held.argv, cwd=root, check=False).returncode == 0
    finally:
        one.close()
        two.close()


def test_a_repository_that_a_command_makes_is_its_own_until_it_ends(made: Made) -> None:
    assert made.run("mkdir -p new/.git/hooks && echo '[core]' >new/.git/config").returncode == 0
    made.run("echo evil >>new/.git/config; echo evil >new/.git/hooks/pre-commit; mv new old")
    assert contents(made.root / "new") == {".git/config": "[core]\n"}


def test_a_repository_that_is_swapped_before_it_is_closed_lets_no_command_run(made: Made) -> None:
    """As a command in the background could do between the look and the start."""
    repository(made.root / "sub/.git")
    if made.who == "nobody":
        open_for(made.root)
    held = asyncio.run(
        made.sandbox.hold_command(("/bin/sh", "-c", "echo ran >made"), network=False)
    )
    (made.root / "sub/.git").rename(made.root / "sub/old")
    shutil.copytree(made.root / "sub/old", made.root / "sub/.git")
    if made.who == "nobody":
        open_for(made.root)
    done = made.started(held.argv)
    assert (done.returncode, (made.root / "made").exists()) == (125, False)
    assert "is not the folder it was" in done.stderr


def repository(folder: Path) -> None:
    for name in ("hooks", "objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\n")


def contents(folder: Path) -> dict[str, str]:
    """What each file below it holds, by path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


REACH = """
import socket, sys
reached = []
def tried(name, family, kind, address):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.connect(address)
            s.send(b"x")
            if kind == socket.SOCK_DGRAM:
                s.recv(1)
        reached.append(name)
    except OSError:
        pass
tried("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT))
tried("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", DATAGRAMS))
tried("abstract", socket.AF_UNIX, socket.SOCK_STREAM, "\\0NAME")
tried("path", socket.AF_UNIX, socket.SOCK_STREAM, "NAME.socket")
tried("vsock", 40, socket.SOCK_STREAM, (2, 1))
print(reached)
"""


SET_ID: Final = """
import os, stat
flags = os.O_CREAT | os.O_WRONLY
tries = {
    "chmod": lambda: os.chmod("made", 0o4755),
    "group": lambda: os.chmod("made", 0o2755),
    "fchmod": lambda: os.fchmod(os.open("made", os.O_WRONLY), 0o4755),
    "fchmodat": lambda: os.chmod("made", 0o4755, dir_fd=os.open(".", os.O_RDONLY)),
    "open": lambda: os.open("opened", flags, 0o4755),
    "mknod": lambda: os.mknod("node", stat.S_IFREG | 0o4755),
}
open("made", "w").close()
for name, attack in tries.items():
    try:
        attack()
    except PermissionError:
        continue
    print(name)
os.chmod("made", 0o755)
os.close(os.open("plain", flags, 0o640))
"""


def test_no_program_is_made_that_runs_as_another_user(made: Made) -> None:
    found = made.python(SET_ID)
    assert (found.stdout, found.returncode) == ("", 0), found.stderr
    modes = {path.name: path.stat().st_mode & 0o7777 for path in made.root.iterdir()}
    assert (modes["made"], modes["plain"]) == (0o755, 0o640)
    assert all(not mode & 0o6000 for mode in modes.values())
    made.root.chmod(0o2775)  # a folder that a group shares
    done = made.run("mkdir -p a/b && chmod 2775 a && cp -a a c && echo yes; exec chmod 4755 made")
    assert (done.stdout, done.returncode) == ("yes\n", 1), done.stderr


def test_no_socket_of_anybody_else_is_reached(made: Made) -> None:
    name = f"duckflow-{os.getpid()}-{made.rung}"
    with (
        socket.socket() as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as path,
    ):
        for one in (tcp, udp):
            one.bind(("127.0.0.1", 0))
        abstract.bind(f"\0{name}")
        with tempfile.TemporaryDirectory(dir="/tmp") as short:  # as the path of a socket must be
            os.chmod(short, 0o755)
            os.symlink(made.root, f"{short}/w")
            path.bind(f"{short}/w/{name}.socket")
            path.listen()
            os.chmod(made.root / f"{name}.socket", 0o777)
            tcp.listen()
            abstract.listen()
            code = REACH.replace("PORT", str(tcp.getsockname()[1])).replace("NAME", name)
            code = code.replace("DATAGRAMS", str(udp.getsockname()[1]))
            assert made.python(code).stdout == "[]\n"
        udp.setblocking(False)
        with pytest.raises(BlockingIOError):
            udp.recv(1)


SERVES: Final = """
import os, socket, sys
by_name = socket.socket(socket.AF_UNIX)
by_name.bind("relative")
by_name.listen()
os.mkfifo("fifo")
heard = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
print("ready", flush=True)
sys.stdin.read()
print(os.read(heard, 9))
"""

SPEAKS: Final = """
import os, socket
for name, attack in {
    "socket": lambda: socket.socket(socket.AF_UNIX).connect("relative"),
    "fifo": lambda: os.write(os.open("fifo", os.O_WRONLY | os.O_NONBLOCK), b"evil"),
}.items():
    try:
        attack()
    except OSError:
        continue
    print(name)
"""


def test_neither_a_socket_by_a_relative_name_nor_a_fifo_of_a_program_outside_is_reached(
    made: Made,
) -> None:
    made.sandbox._choice = made.sandbox._choice._replace(  # pyright: ignore[reportPrivateUsage]
        read=(str(made.beside),)  # else nothing of it could be seen
    )
    argv = as_user(made.who, (interpreter(made.who), "-I", "-S", "-c", SERVES))
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=made.beside, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        (made.root / "attack.py").write_text(SPEAKS)
        line = (
            f"cd {made.beside} && cat theirs && {interpreter(made.who)} -I -S {made.root}/attack.py"
        )
        found = made.run(line)
        assert found.stdout == "as it was", found.stderr
        server.stdin.close()
        assert server.stdout.read() == "b''\n"


FORBIDDEN = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"
done = []
def tried(name, result):
    if result >= 0:
        done.append(name)
tried("namespace", libc.unshare(0x10000000))
tried("mounts", libc.unshare(0x20000))
tried("remount", libc.mount(None, b"/", None, 32 | 4096, None))
tried("mount", libc.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, None))
tried("umount", libc.umount2(b"/tmp", 2))
tried("keyctl", libc.syscall(219 if arm else 250, 0, -3, 1))
tried("io_uring", libc.syscall(425, 1, ctypes.create_string_buffer(120)))
tried("clone", libc.syscall(220 if arm else 56, 0x10000000 | 17, 0, 0, 0, 0))
main, terminal = os.openpty() if os.path.exists("/dev/ptmx") else (0, 0)
tried("typing", libc.ioctl(terminal, 0x5412, b"x"))
print(done)
"""


def test_no_call_leads_out_of_it(made: Made) -> None:
    found = made.python(FORBIDDEN)
    assert found.stdout == "[]\n", found.stderr


def test_the_app_is_neither_signalled_nor_read(made: Made) -> None:
    secret = "the-key-of-the-app"
    environ = {**os.environ, "DUCKFLOW_TEST_SECRET": secret}
    argv = ["sleep", "60"]
    if made.who == "nobody":
        argv = as_user("nobody", ("/bin/sleep", "60"))
    with subprocess.Popen(argv, env=environ) as app:
        try:
            found = made.run(f"kill -KILL {app.pid}; cat /proc/{app.pid}/environ /proc/*/environ")
            assert secret not in found.stdout
            assert app.poll() is None
        finally:
            app.kill()


def test_a_home_is_empty_but_for_what_programs_need_and_the_user_listed(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its files are called, and whatever lies beside programs that PATH finds."""
    home = made.beside / "home"
    secret = (
        *(".newtool/session", "Documents/passwords.txt", "notes", ".cargo/credentials.toml"),
        *(".local/share/vault/item", ".tool/state.db", "checkout/.env", "checkout/etc/key"),
        *(".local/bin-backup/key", "stuff/key", ".pyenv/token"),
    )
    for name in secret:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("a secret")
    needed = {
        **dict.fromkeys(
            (".local/bin/tool", "checkout/bin/tool", ".tool/tool"), "#!/bin/sh\necho ran"
        ),
        **dict.fromkeys((".local/share/envs/x/bin/linked", "stuff/alone"), "#!/bin/sh\necho ran"),
        ".local/share/envs/x/pyvenv.cfg": "",
        ".local/share/envs/x/data/file": "",
        ".cargo/registry/package": "",
        "checkout/lib/code": "",
        ".pyenv/versions/3/lib": "",
        "listed/file": "",
        ".pyenv/shims/py": "#!/bin/sh\necho ran",
    }
    for name, text in needed.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    (home / ".local/bin/linked").symlink_to(home / ".local/share/envs/x/bin/linked")
    (home / ".local/bin/alone").symlink_to("../../stuff/alone")
    if made.who == "nobody":
        open_for(made.root.parent)
    monkeypatch.setenv("HOME", str(home))
    folders = [home / name for name in (".local/bin", "checkout/bin", ".pyenv/shims", ".cargo/bin")]
    environ = {"PATH": os.pathsep.join([*map(str, folders), str(home), "/usr/bin:/bin"])}
    monkeypatch.setattr(made.sandbox, "_environ", environ)
    choice = made.sandbox._choice._replace(read=("~/listed",))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(made.sandbox, "_choice", choice)
    found = made.run(f"cd {home} && cat {' '.join(secret)}; ls -A")
    assert found.stdout.split() == [".cargo", ".local", ".pyenv", "checkout", "listed", "stuff"]
    assert found.stderr.count("No such file") == len(secret)
    there = [str(home / name) for name in needed if name != ".tool/tool"]
    tools = " ".join(str(home / ".local/bin" / name) for name in ("tool", "linked", "alone"))
    found = made.run(f"ls {' '.join(there)} >/dev/null && for t in {tools}; do $t; done")
    assert (found.stdout, found.returncode) == ("ran\n" * 3, 0), found.stderr
    found = made.run(f"echo worse >>{home}/.local/bin/tool; rm -rf {home}/listed")
    assert (home / ".local/bin/tool").read_text() == "#!/bin/sh\necho ran"
    assert (home / "listed/file").exists()


def test_nothing_that_a_command_wrote_leads_what_is_shown_of_a_home_elsewhere(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs of PATH in the workspace, links to it, and a repository that it names as its own;
    a worktree whose repository knows it has it.
    """
    home = made.beside / "home"
    for name in ("deep/bin/key", "other/.git/HEAD", "deep/key", "worktree/HEAD", "store/HEAD"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("a secret")
    (home / "worktree/commondir").write_text("../store")
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/tool").symlink_to(made.root / "tool")
    shutil.rmtree(made.root / ".git")
    folders = (made.root / "bin", made.root / "env/bin", home / ".local/bin")
    if made.who == "nobody":
        open_for(made.root.parent)
    monkeypatch.setenv("HOME", str(home))
    environ = {"PATH": ":".join([*map(str, folders), "/usr/bin:/bin"])}
    environ |= {"VIRTUAL_ENV": str(made.root / "env")}
    monkeypatch.setattr(made.sandbox, "_environ", environ)
    kept = made.sandbox._private_folder()  # pyright: ignore[reportPrivateUsage]
    plant = "ln -s {0}/deep/bin bin; ln -s {0}/deep env; ln -s {0}/deep/key tool; "
    plant += "mkdir $TMPDIR/x; echo {1}/.git >$TMPDIR/x/gitdir; echo {0}/deep >$TMPDIR/x/commondir"
    made.run(plant.format(home, made.root))
    keys = f"cat {home}/*/key {home}/*/*/key {home}/other/.git/HEAD {home}/store/HEAD"
    for gitdir in (home / "other/.git", kept / "x", home / "worktree"):
        (made.root / ".git").write_text(f"gitdir: {gitdir}")
        if made.who == "nobody":
            open_for(made.root)
        assert made.run(keys).stdout == ""
    (home / "worktree/gitdir").write_text(f"{made.root}/.git\n")
    if made.who == "nobody":
        open_for(home)
    found = made.run(keys)
    assert found.stdout == "a secret", found.stderr


def test_secret_files_of_the_workspace_are_kept_from_a_command_that_does_not_name_them(
    made: Made,
) -> None:
    for path, text in {
        ".env": "KEY=a secret",
        "conf/secrets.toml": "key = 'a secret'",
        "conf/led-to": "KEY=a secret too",
        "conf/.aws/config": "key = a secret",
        "conf/server.pem": "-----BEGIN PRIVATE KEY-----",
        ".npmrc": "//registry.example.org/:_authToken=abcdef",
        "ca.pem": "-----BEGIN CERTIFICATE-----",  # public
        "web/.npmrc": "engine-strict=true\n//example.org/:_authToken=${TOKEN}",
        # What lies beside a secret, and the names of its folders, take nothing from it.
        "pyvenv.cfg": "",
        "env/site-packages/key.pem": "-----BEGIN PRIVATE KEY-----",
        "env/site-packages/cacert.pem": "-----BEGIN CERTIFICATE-----\n" * 10_000,
        "like/HEAD": "",
        "like/objects/.env": "KEY=a secret",
        "like/refs/heads/.env": "KEY=a secret",
        "like/refs/heads/credentials": "0123456789" * 4,  # a branch
        "moved/.git/node_modules/.env": "KEY=a secret",
        ".GIT/.env": "KEY=a secret",
        "listed/.env": "KEY=listed",
    }.items():
        (made.root / path).parent.mkdir(parents=True, exist_ok=True)
        (made.root / path).write_text(text)
    (made.root / "linked.env").symlink_to("conf/led-to")
    if made.who == "nobody":
        open_for(made.root.parent)
    secret = ".env linked.env conf/secrets.toml conf/.aws/config conf/server.pem .npmrc "
    secret += "env/site-packages/key.pem like/objects/.env like/refs/heads/.env "
    secret += "moved/.git/node_modules/.env .GIT/.env"
    opened = "ca.pem web/.npmrc env/site-packages/cacert.pem like/refs/heads/credentials "
    opened += "listed/.env"
    made.sandbox._choice = made.sandbox._choice._replace(  # pyright: ignore[reportPrivateUsage]
        read=("listed",)
    )
    found = made.run(f"for f in {secret} {opened}; do cat $f >/dev/null && echo $f; done")
    assert found.stdout.split() == opened.split()
    assert found.stderr.count("Permission denied") == 10, found.stderr
    made.run(
        "echo >.env; rm -f .env; echo >>linked.env; "
        "mv conf old; cat old/* old/.aws/* >seen; mv old conf"
    )
    assert (made.root / ".env").read_text() == "KEY=a secret"
    assert (made.root / "conf/led-to").read_text() == "KEY=a secret too"
    assert "a secret" not in (made.root / "seen").read_text()
    line = ("/bin/cat", ".env", "linked.env")
    named = [str(made.root / name) for name in (".env", "linked.env", "conf/.aws/x", "conf/s*.pem")]
    held = asyncio.run(made.sandbox.hold_command(line, network=False, named=named))
    found = made.started(held.argv)
    assert found.stdout == "KEY=a secretKEY=a secret too", found.stderr
    assert {".npmrc", "secrets.toml"} < {Path(path).name for path in held.unread}
    assert not {str(made.root / ".env"), str(made.root / "conf/led-to")} & {*held.unread}


def test_what_was_found_as_a_secret_stays_hidden_under_any_name(made: Made) -> None:
    """A command can rename the folder that makes a file one, or remove the link that leads to it;
    another name of the same file is none the less it.
    """
    away = made.beside / "led-to"
    for path in (
        made.root / ".docker/config.json",
        made.root / "conf/gh/hosts.yml",
        made.root / "led-to",
        made.root / "a/again",
        away,
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a secret")
    (made.root / ".config/gcloud").mkdir(parents=True)
    (made.root / ".config/gcloud/token").write_text("a secret")
    (made.root / "one.env").symlink_to("led-to")
    (made.root / "two.env").symlink_to(away)
    (made.root / "b.env").hardlink_to(made.root / "a/again")
    if made.who == "nobody":
        open_for(made.root.parent)
    read = f"cat {made.root}/* {made.root}/*/* {made.root}/*/*/* {away}"
    rename = "mv .docker docker && mv conf/gh gh && mv .config config && rm one.env two.env"
    found = made.run(f"{read}; {rename}")
    assert (found.stdout, found.returncode) == ("", 0), found.stderr
    found = made.run(f"{read}; mkdir more && mv docker gh config more")
    assert (found.stdout, found.returncode) == ("", 0), found.stderr
    held = asyncio.run(made.sandbox.hold_command(("/bin/true",), network=False))
    assert str(away) in json.loads(held.argv[6])["hidden"]  # it lies where nothing is shown anyway
    assert made.run(f"{read} {made.root}/more/*/*/*").stdout == ""
    shutil.rmtree(made.root / "more/docker")  # by the user
    (made.root / "led-to").unlink()
    made.run("true")
    (made.root / "led-to").write_text("another")
    if made.who == "nobody":
        open_for(made.root)
    assert made.run(read).stdout == "another"


def own_folders(made: Made, *own: Path, repositories: tuple[Path, ...] = ()) -> Made:
    """The same workspace, in which folders of the app lie."""
    workspace = Workspace(made.root, own_dirs=own, repositories=repositories)
    choice = SandboxChoice("auto", folder=made.root.parent / "kept", own=own, rungs=(made.rung,))
    kind = Tried if made.who == "us" else OtherUser
    sandbox = kind(choice, workspace, os.environ)
    sandbox._private_folder()  # pyright: ignore[reportPrivateUsage]
    if made.who == "nobody":
        open_for(made.root.parent)
    return made._replace(sandbox=sandbox)


def test_the_apps_own_folders_in_the_workspace_are_neither_read_nor_written(made: Made) -> None:
    data = made.root / "dh" / "data"
    data.mkdir(parents=True)
    (data / "keys.json").write_text("a key of the user")
    again = own_folders(made, data)
    found = again.run(
        "cat dh/data/keys.json; grep -r key dh; echo evil > dh/data/keys.json; "
        "echo evil > dh/data/new; rm -rf dh/data"
    )
    assert found.stdout == "", found.stderr
    assert [path.name for path in data.iterdir()] == ["keys.json"]
    assert (data / "keys.json").read_text() == "a key of the user"
    again.sandbox.close()


def test_the_environment_that_the_app_runs_from_cannot_be_changed(made: Made) -> None:
    code = made.root / ".venv/lib/app.py"
    (made.root / ".venv/bin").mkdir(parents=True)
    code.parent.mkdir()
    code.write_text("print('ours')")
    made.sandbox._choice = made.sandbox._choice._replace(  # pyright: ignore[reportPrivateUsage]
        runs_from=made.root / ".venv"
    )
    if made.who == "nobody":
        open_for(made.root)
    found = made.run(
        "echo evil > .venv/lib/app.py; echo evil > .venv/lib/evil.pth; "
        "ln -sf /bin/sh .venv/bin/python; mv .venv old; "
        f"{interpreter(made.who)} -I .venv/lib/app.py"
    )
    assert len(re.findall("Read-only file system|busy", found.stderr)) == 4, found.stderr
    assert found.stdout == "ours\n"
    assert contents(made.root / ".venv") == {"lib/app.py": "print('ours')"}


def test_what_is_kept_from_a_command_cannot_be_replaced_with_a_folder_around_it(made: Made) -> None:
    """Not the app's own folders that are not there yet either."""
    real = made.root / "deep" / "down" / "real"
    real.mkdir(parents=True)
    (real / "config").write_text("[core]\n")
    own = (made.root / "dh" / "config", made.root / "dh" / "share" / "data")
    again = own_folders(made, *own, repositories=(real,))
    done = again.run(
        "mv dh dh_old; mkdir -p dh/config; echo evil > dh/config/settings.toml; "
        "mv dh/share dh/old; mkdir -p dh/share/data; echo evil > dh/share/data/keys.json; "
        "mkdir -p dh/config; echo evil > dh/config/settings.toml; echo evil > dh/share/data/a; "
        "mv deep old; mkdir -p deep/down/real; echo evil > deep/down/real/config; "
        "mv deep/down old; mkdir -p deep/down/real; echo evil > deep/down/real/config; "
        "echo ours > deep/down/file; mkdir deep/more; mv deep/down/file deep/down/name"
    )
    assert [list(path.iterdir()) for path in own] == [[], []], done.stderr
    assert (real / "config").read_text() == "[core]\n", done.stderr
    assert (real.parent / "name").read_text() == "ours\n"
    assert (made.root / "deep" / "more").is_dir()
    again.sandbox.close()


# --- what must work --------------------------------------------------------------------------


def test_the_workspace_is_written_and_a_command_ends_as_it_does_outside(made: Made) -> None:
    found = made.run(
        "mkdir -p a/b && echo yes > a/b/c && chmod 755 a/b/c && mv a/b/c d; "
        "echo out; echo err >&2; yes | head -1; cd a && pwd; exit 7"
    )
    assert (found.returncode, (made.root / "d").read_text()) == (7, "yes\n")
    assert found.stdout == f"out\ny\n{made.root}/a\n"
    assert made.run("kill -TERM $$").returncode == -15
    assert made.run("kill -KILL $$").returncode == -9


def test_a_command_cannot_say_in_place_of_its_sandbox_how_it_ended(made: Made) -> None:
    found = made.run("for pipe in /proc/1/fd/*; do echo '0 1' >$pipe; done; exit 7")
    assert (found.returncode, found.stdout) == (7, "")


def test_a_private_place_for_temporary_files_lasts_for_the_session(made: Made) -> None:
    assert made.run('echo kept > "$TMPDIR/note"').returncode == 0
    found = made.run('cat "$TMPDIR/note" && mkdir -p "$XDG_CACHE_HOME/x"')
    assert (found.stdout, found.returncode) == ("kept\n", 0), found.stderr


def test_the_environment_that_the_app_runs_from_can_be_run_wherever_it_is(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where others' temporary files are hidden, as in a tree that was cloned there."""
    monkeypatch.setattr(sys, "prefix", str(made.beside / "environment"))
    program = made.beside / "environment" / "bin" / "greet"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    if made.who == "nobody":
        open_for(made.beside)
    found = made.run(f"{program}; echo echo worse >>{program}; {program}")
    assert found.stdout == "hello\nhello\n", found.stderr


def test_the_tests_of_a_project_run(made: Made) -> None:
    (made.root / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    (made.root / "test_sums.py").write_text(
        "import multiprocessing, socket, threading, unittest\nimport sums\n\n\n"
        "class Sums(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(sums.add(1, 2), 3)\n"
    )
    found = made.run(f"{interpreter(made.who)} -m unittest -v")
    assert (found.returncode, found.stderr.count("ok\n")) == (0, 1), found.stderr


@pytest.mark.whole
def test_a_package_is_installed_into_an_environment_inside(made: Made) -> None:
    if made.who == "nobody":
        pytest.skip("as ourselves: the other user's Python may come without pip")
    with zipfile.ZipFile(made.root / "duckling-1.0-py3-none-any.whl", "w") as wheel:
        about = "Metadata-Version: 2.1\nName: duckling\nVersion: 1.0\n"
        wheel.writestr("duckling.py", "def quack():\n    return 'quack'\n")
        wheel.writestr("duckling-1.0.dist-info/METADATA", about)
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr("duckling-1.0.dist-info/WHEEL", tags)
        wheel.writestr("duckling-1.0.dist-info/RECORD", "")
    ours = importlib.util.find_spec("pip")
    python = interpreter(made.who)
    if made.rung == "bwrap" or ours is None or ours.origin is None:
        environment, pip = f"{python} -m venv .venv", ".venv/bin/pip"
    else:  # seconds less: pip itself is not installed as well
        environment = f"{python} -m venv --without-pip .venv"
        pip = f".venv/bin/python {Path(ours.origin).parent}"
    found = made.run(
        f"{environment} && {pip} install -q --no-index --disable-pip-version-check "
        "duckling-1.0-py3-none-any.whl && "
        ".venv/bin/python -c 'import duckling; print(duckling.quack())'"
    )
    assert found.stdout == "quack\n", found.stderr


def test_a_full_sandbox_holds_where_the_system_lets_one_be_made(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    choice = SandboxChoice("full", folder=tmp_path / "kept")
    sandbox = Sandbox(choice, Workspace(tmp_path), os.environ)
    if asyncio.run(sandbox.find_level()) != "full":
        no_full_sandbox("; ".join(sandbox.why))
    assert sandbox.found_rung in ("bwrap", "namespaces")
    sandbox.close()


# --- when it cannot be made ------------------------------------------------------------------


def test_a_command_does_not_run_when_its_sandbox_cannot_be_set_up(made: Made) -> None:
    made.root.rename(made.root.with_name("away"))
    made.root.mkdir()
    if made.who == "nobody":
        open_for(made.root)
    found = made.run("echo ran > written; echo ran")
    assert found.returncode == 125
    assert "nothing was run" in found.stderr
    assert found.stdout == ""
    assert list(made.root.iterdir()) == []


def test_what_vanishes_while_a_sandbox_is_made_costs_no_command_and_no_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a socket between the look for it and its mount: bubblewrap fails, and is tried again."""
    root, fails = tmp_path / "work", tmp_path / "fails"
    root.mkdir()
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = --help ] || if [ "$(cat {fails})" -gt 0 ]; then\n'
        f"  echo $(($(cat {fails}) - 1)) >{fails}; echo vanished >&2; exit 1\nfi\n"
        'exec /usr/bin/bwrap "$@"\n'
    )
    program.chmod(0o755)
    choice = SandboxChoice("auto", folder=tmp_path / "kept", rungs=("bwrap",))
    sandbox = Sandbox(choice, Workspace(root), os.environ)
    monkeypatch.setattr(sandbox, "_find_bwrap", lambda: str(program))
    fails.write_text("5")
    if asyncio.run(sandbox.find_level()) != "full":
        no_full_sandbox("; ".join(sandbox.why))
    made = Made(sandbox, root, tmp_path, "bwrap", "us")
    for failing, said in ((2, ("ran\n", "", 3)), (3, ("", "vanished", 125))):
        fails.write_text(str(failing))
        found = made.run("echo ran; exit 3")
        assert (found.stdout, found.stderr[:8], found.returncode) == said
    sandbox.close()


def test_where_the_user_wants_a_full_sandbox_nothing_runs_without_one(tmp_path: Path) -> None:
    choice = SandboxChoice("full", folder=tmp_path / "kept", rungs=("seatbelt",))
    sandbox = Sandbox(choice, Workspace(tmp_path), os.environ)

    async def tried() -> str:
        assert await sandbox.find_level() == "none"
        with pytest.raises(ToolFault, match="none_full"):
            await sandbox.hold_command(("/bin/true",), network=False)
        return ""

    asyncio.run(tried())


def test_a_kind_that_holds_nothing_is_not_taken_for_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The self-test is what decides: here nothing is held at all."""
    choice = SandboxChoice("auto", folder=tmp_path / "kept", rungs=("namespaces",))
    sandbox = Sandbox(choice, Workspace(tmp_path), os.environ)
    held = sandbox._wrap_command  # pyright: ignore[reportPrivateUsage]

    def open_(rung: Rung, argv: tuple[str, ...], *, network: bool) -> object:
        return held(rung, argv, network=network)._replace(argv=tuple(argv))

    monkeypatch.setattr(sandbox, "_wrap_command", open_)
    assert asyncio.run(sandbox.find_level()) == "none"
    assert re.search("tcp, socket, abstract socket, write beside it", sandbox.why[0])


def test_in_the_home_folder_no_sandbox_lets_a_command_run_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What starts by itself for the user lies there, and a command could write it."""
    root, kept = tmp_path / "home", tmp_path / "kept"
    (root / "below").mkdir(parents=True)
    kept.mkdir()
    monkeypatch.setenv("HOME", str(root))
    choice = SandboxChoice("auto", folder=kept, own=(kept,))
    levels: list[str] = []
    for workspace in (tmp_path, root, root / "below"):
        sandbox = Tried(choice, Workspace(workspace), os.environ)
        levels.append(asyncio.run(sandbox.find_level()))
        sandbox.close()
    if levels[2] != "full":
        no_full_sandbox("; ".join(sandbox.why))
    assert levels == ["partial", "partial", "full"]


# --- what can be read only -------------------------------------------------------------------


def test_the_filter_of_both_architectures_is_whole() -> None:
    """Every jump lands in the program, and its last step lets pass what no step named."""
    for machine in seccomp.MACHINES.values():
        for families in ((), (1, 2, 10, 16)):
            program = seccomp.seccomp_program(machine, families)
            steps = [program[at : at + 8] for at in range(0, len(program), 8)]
            assert len(program) % 8 == 0
            assert len(steps) < 4096
            for at, step in enumerate(steps):
                assert at + 1 + max(step[2], step[3]) < len(steps) or step[0] == 0x06
            assert int.from_bytes(steps[-1][4:], "little") == 0x7FFF0000


def test_the_rules_for_macos_name_every_place() -> None:
    """They cannot be run here; the order counts, since the last rule that fits decides."""
    rules = seatbelt_profile("/w", "/p", ["/w/.git"], ["/h/.ssh"], ["/opt/x"], network=False)
    lines = rules.splitlines()
    order = [
        "(deny file-write*)",
        '(deny file-write* (subpath "/w/.git"))',
        '(deny file-read-data (subpath "/h/.ssh"))',
        '(allow file-read* (subpath "/opt/x") (subpath "/w") (subpath "/p"))',
    ]
    assert [line for line in lines if line in order] == order
    assert "(deny network*)" in lines
    assert json.dumps("/w") in next(line for line in lines if line.startswith("(allow file-write*"))
