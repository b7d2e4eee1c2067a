"""Choose the kind of sandbox for the model's commands by trying it, and wrap each command in it.

``sandbox_worker.py`` builds the sandbox around a command from the plan that is made here. This
module is imported with the first command.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import pwd
import re
import secrets
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple

from duckflow_tui.safety.file_changes import remove_tree
from duckflow_tui.safety.git_places import git_dirs
from duckflow_tui.safety.guarded import Guarded, KnownSecrets, find_guarded_places
from duckflow_tui.safety.names import words_of
from duckflow_tui.safety.paths import Identity, Location, PathRefused, walk_path
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.session import SandboxLevel
from duckflow_tui.tools.command_runner import ENVIRONMENTS, SandboxChoice, find_program, lock_folder
from duckflow_tui.tools.operation import ToolFault
from duckflow_tui.tools.process_group import Program
from duckflow_tui.tools.seccomp import filter_for

log = logging.getLogger("duckflow.sandbox")

Rung = Literal["bwrap", "namespaces", "seatbelt"]

#: The strongest first. On Ubuntu only the system's bubblewrap may create user namespaces.
_RUNGS: Final[Mapping[str, tuple[Rung, ...]]] = {
    "linux": ("bwrap", "namespaces"),
    "darwin": ("seatbelt",),
}

_BWRAP: Final = "/usr/bin/bwrap"
_SEATBELT: Final = "/usr/bin/sandbox-exec"
_TEST_S: Final = 15.0  # seconds that the self-test of one kind may take

#: System folders, which hold nothing of the user's: never hidden.
_SYSTEM: Final = frozenset(
    map(Path, words_of("/ /etc /nix /opt /private /private/var /usr /usr/local /var"))
)
#: Folders that hold homes.
_HOMES: Final = (Path("/home"), Path("/root"), Path("/Users"))
#: Names of folders in which programs are installed.
_PROGRAMS: Final = frozenset({"bin", ".bin", "sbin", "shims"})
#: Folders beside such a folder that belong to it: only those with code and packages.
_BESIDE: Final = words_of(
    "bin include installs lib lib32 lib64 libexec plugins sbin shims tools version versions"
)
#: Marks of a folder that holds one installation and nothing else.
_INSTALLED: Final = ("pyvenv.cfg", "conda-meta", "go.env", "lib/modules")
#: Packages and toolchains in a home that are found by no variable, only by the programs.
_PACKAGES: Final = words_of(
    ".cargo/git .cargo/registry .gem/ruby .gradle/caches .gradle/wrapper .ivy2/cache .local/lib "
    ".local/share/mise/installs .local/share/uv/python .m2/repository .nuget/packages "
    ".nvm/versions .pyenv/versions .rustup go/pkg"
)

#: Why a kind that works counts as partial.
CROWDED: Final = "the workspace is too large to be searched for repositories"
LINKED: Final = "a repository is a link, which bubblewrap cannot protect"

_NOTHING: Final = Guarded({}, ())
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # where commands have a folder of their own
_MOST_WORDS: Final = 200  # words of a command and its output that are tried as paths
_MOST_LINE: Final = 4096  # bytes of the first line of a script
_TRIES: Final = 3  # attempts of the self-test, which may fail on a busy machine


class SandboxedCommand(NamedTuple):
    """The command line that runs a command in its sandbox. ``keepers``: helper processes of the
    sandbox that run as long as the command has processes left. ``unread``: secret files that the
    command can neither read nor write. ``later`` returns the secret files that have been created
    or replaced since, which are not hidden from it; blocking.
    """

    argv: tuple[str, ...]
    keepers: int = 0
    unread: tuple[str, ...] = ()
    later: Callable[[], tuple[str, ...]] = tuple  # blocking


class Sandbox:
    """The sandbox for the commands of one session. Its kind is chosen once, by a self-test at the
    first command.
    """

    def __init__(
        self, choice: SandboxChoice, workspace: Workspace, environ: Mapping[str, str]
    ) -> None:
        self._choice = choice
        self._workspace = workspace
        self._environ = environ
        self._private: Path | None = None
        self._lock: int | None = None  # of that folder
        self._rung: Rung | None = None
        self._found: asyncio.Task[SandboxLevel] | None = None
        self._known = KnownSecrets()
        self._sized = False  # this bubblewrap can limit the size of a tmpfs
        self._crowded = False  # the workspace is too large to be searched
        self.why: list[str] = []  # the reasons against each kind that was tried
        self._source = _read_source("sandbox_worker.py")

    @property
    def found_rung(self) -> Rung | None:
        """The kind of sandbox in use; None before the self-test, and where no kind works."""
        return self._rung

    async def find_level(self) -> SandboxLevel:
        """Return the level of protection for commands. The first call runs the self-test, further
        calls wait for its result. The level is "partial" while the workspace is too large to be
        searched for places to protect.
        """
        if self._found is None:
            self._found = asyncio.create_task(self._find_rung(), name="sandbox")
        found = await asyncio.shield(self._found)
        return "partial" if self._crowded and found in ("full", "seatbelt") else found

    async def hold_command(
        self,
        argv: Sequence[str],
        *,
        network: bool,
        named: Iterable[str] = (),
        channel: int = 0,
    ) -> SandboxedCommand:
        """Return the command line that runs a command in the sandbox, or the command itself where
        there is none and the settings allow that; else raise ToolFault.

        ``network``: whether it may use the network freely. ``channel``: the descriptor to the
        command's proxy, 0 for none; only a full sandbox can use it. ``named``: absolute paths and
        patterns of secret files that the command line names; since naming them asks the user, the
        command can read them.
        """
        await self.find_level()
        if self._rung is not None:
            below = await self._find_guarded()
            named = tuple(named)
            shown = (*named, *map(str, self._listed_paths()))
            later = partial(self._find_later_secrets, _read_identities(below.secret), shown)
            secret = tuple(path for path in below.secret if not _matches_any(path, shown))
            below = below._replace(secret=secret)
            held = self._wrap_command(
                self._rung, argv, network=network, below=below, channel=channel
            )
            return held._replace(unread=secret, later=later)
        wanted = self._choice.level
        if wanted == "full":
            raise ToolFault("sandbox.none_full", reason="; ".join(self.why) or "-")
        return SandboxedCommand(tuple(argv))

    def find_hidden_path(self, text: str, folder: Path) -> str:
        """Return the first path in a text that exists but is hidden from commands, itself, behind a
        link, or as the interpreter of a script; empty for none. Relative paths start from
        ``folder``. Blocking.
        """
        if self._rung is None:
            return ""
        hidden = [*map(os.path.realpath, (*self._hidden_paths(), "/run", *_TEMPORARY))]
        shown = [*map(os.path.realpath, (str(self._workspace.root), *self._readable_paths()))]

        def is_hidden(path: Path) -> bool:
            """Whether the path exists, but not for a command in the sandbox."""
            private = [
                self._private_folder() / path.relative_to(place)
                for place in _TEMPORARY
                if path.is_relative_to(place)
            ]
            away = any(map(path.is_relative_to, hidden)) and path.exists()
            return (
                away
                and not any(map(path.is_relative_to, shown))
                and not any(map(Path.exists, private))
            )

        text = text.replace("${HOME}", "~").replace("$HOME", "~")
        words = dict.fromkeys(re.split(r"[\s'\"`|&;<>()=:,]+", text))
        for word in islice((w for w in words if "/" in w or w in ("~", "..")), _MOST_WORDS):
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                path = Path(folder, os.path.expanduser(word))
                for found in (path.resolve(), find_interpreter(path)):
                    if found and is_hidden(found):
                        return str(found)
        return ""

    def close(self) -> None:
        """Remove the commands' private ``/tmp`` and forget the known secret files; blocking."""
        self._known.forget_all()
        self._remove_private_folder()

    def _remove_private_folder(self) -> None:
        """Remove the commands' private folder and release its lock."""
        private, self._private = self._private, None
        if private is not None:
            remove_tree(private)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _find_guarded(self) -> Guarded:
        """Return the places of the workspace to protect from commands, as they are now. Raises
        ToolFault where they have just become more than can be found; from then on the level is
        "partial".
        """
        below, why = await asyncio.to_thread(self._scan_guarded, self._rung)
        was, self._crowded = self._crowded, bool(why)
        if why and not was:
            self.why.append(why)
            raise ToolFault("sandbox.no_longer_full", reason=why)
        return below

    def _scan_guarded(self, rung: Rung | None) -> tuple[Guarded, str]:
        """Return the places of the workspace that this kind of sandbox can protect, and the reason
        if those are not all, else an empty text; blocking.
        """
        why = ""
        below = find_guarded_places(self._workspace, self._known)
        self._workspace.protect_found([*map(Path, below.closed), *below.led])
        links = below.links if rung == "bwrap" else ()
        if not below.whole:  # more than can be passed to a command
            below, why = _NOTHING, CROWDED
        elif links:
            closed = {path: of for path, of in below.closed.items() if path not in links}
            below, why = below._replace(closed=closed), LINKED
        return below, why

    def _find_later_secrets(
        self, known: dict[str, Identity], readable: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the secret files that are new or replaced since ``known``, without those that
        commands may read; paths in the workspace are relative to its root. Blocking.
        """
        now = _read_identities(find_guarded_places(self._workspace, self._known).secret)
        later = (path for path in now if known.get(path) != now[path])
        seen = (path for path in later if not _matches_any(path, readable))
        root = self._workspace.root
        return tuple(os.path.relpath(p, root) if self._is_inside(p) else p for p in seen)

    # --- finding -----------------------------------------------------------------------------

    async def _find_rung(self) -> SandboxLevel:
        """Try the kinds of sandbox in order, keep the first that passes its self-test, and return
        its level; the reasons against the others are added to ``why``.
        """
        wanted = self._choice.level
        if wanted in ("none", "external"):
            return "external" if wanted == "external" else "none"
        rungs: tuple[Rung, ...] = _RUNGS.get(sys.platform, ())
        for rung in rungs:
            if self._choice.rungs and rung not in self._choice.rungs:
                continue
            lacks, why = "", ""
            for _ in range(_TRIES):
                lacks = await self._find_missing(rung)
                if not lacks:
                    break
            if not lacks:
                _, why = await asyncio.to_thread(self._scan_guarded, rung)
                lacks = LINKED if why == LINKED else ""
            if not lacks:
                self._rung = rung
                if self._contains_home():
                    # Commands could change files that run at login there, so each command asks.
                    self.why.append("the workspace contains the home folder")
                    return "partial"
                self._crowded = bool(why)
                self.why += [why] if why else []
                return "seatbelt" if rung == "seatbelt" else "full"
            self.why.append(f"{rung}: {lacks}")
            log.info("no sandbox by %s: %s", rung, lacks)
        return "none"

    def _contains_home(self) -> bool:
        """Whether the workspace is or contains the user's home folder."""
        return self._is_inside(os.path.realpath(Path.home()))

    async def _find_missing(self, rung: Rung) -> str:
        """Return the reason why this kind of sandbox does not work here; empty where it works."""
        if rung == "bwrap" and self._find_bwrap() is None:
            return "bubblewrap is not installed"
        try:
            with tempfile.TemporaryDirectory(prefix="duckflow-") as folder:
                return await self._try_rung(rung, Path(folder))
        except OSError as error:
            return error.strerror or str(error)

    async def _try_rung(self, rung: Rung, folder: Path) -> str:
        """Run the self-test in this kind of sandbox, with ``folder`` for its files; return what
        does not hold, empty where all does.
        """
        witness = folder / "written"
        path, abstract = str(folder / "socket"), f"duckflow-{secrets.token_hex(8)}"
        with (
            socket.socket(socket.AF_INET) as listening,
            socket.socket(socket.AF_UNIX) as by_path,
            socket.socket(socket.AF_UNIX) as by_name,
        ):
            listening.bind(("127.0.0.1", 0))
            by_path.bind(path)
            if sys.platform.startswith("linux"):
                by_name.bind(f"\0{abstract}")
            for one in (listening, by_path, by_name):
                one.listen(1)
            root = self._workspace.root
            asked = {
                "root": str(root),
                "outside": self._outside_folders(),
                "witness": str(witness),
                # Paths elsewhere are hidden: a write there reaches nothing.
                "closed": list(filter(self._is_inside, self._closed_paths())),
                "port": listening.getsockname()[1],
                "socket": path,
                "abstract": abstract,
            }
            test = (*self._python_program(_read_source("sandbox_selftest.py")), json.dumps(asked))
            if rung == "bwrap":
                said, _ = await self._run([self._find_bwrap() or _BWRAP, "--help"])
                self._sized = b"--size" in said
            # The test has no network, whatever the commands have.
            held = self._wrap_command(rung, test, network=False)
            said, status = await self._run(held.argv)
        if status != 0:
            return said.decode("utf-8", "replace").strip()[-300:] or f"exit {status}"
        wrong = [str(name) for name in json.loads(said or b'["nothing"]')]
        if witness.exists():
            wrong.append("write beside it")
        return f"it does not hold ({', '.join(wrong)})" if wrong else ""

    async def _run(self, argv: Sequence[str]) -> tuple[bytes, int]:
        """Run a program of the self-test within 15 seconds; return its output, or its standard
        error if it failed, and its exit code.
        """
        environ = {"PATH": self._environ.get("PATH", os.defpath)}
        program = await Program.start(argv, self._workspace.root, environ)
        try:
            async with asyncio.timeout(_TEST_S):
                said = b"".join([part async for part in _read_all(program, program.stdout)])
                fault = b"".join([part async for part in _read_all(program, program.stderr)])
                status = await program.wait()
        except TimeoutError:
            return b"the self-test took too long", 1
        finally:
            program.close()
            await program.wait()
        return (fault if status else said), status or 0

    def _outside_folders(self) -> list[str]:
        """Return folders outside of the workspace in which the self-test must not be able
        to write.
        """
        root = self._workspace.root
        near = [Path.home(), *root.parents, Path("/"), Path("/usr")]
        away = tuple(Path(os.path.realpath(path)) for path in ("/tmp", "/var/tmp", "/run"))
        return [
            str(path)
            for path in dict.fromkeys(near)
            if not path.is_relative_to(root) and not any(map(path.is_relative_to, away))
        ]

    # --- holding -----------------------------------------------------------------------------

    def _wrap_command(
        self,
        rung: Rung,
        argv: Sequence[str],
        *,
        network: bool,
        below: Guarded = _NOTHING,
        channel: int = 0,
    ) -> SandboxedCommand:
        """Return the command line that runs a command in this kind of sandbox. ``below`` are the
        places of the workspace to protect. Creates the app's own folders and the private folder
        where they are missing.
        """
        for path in map(os.path.realpath, self._choice.own):
            # A missing folder could not be protected: a command could create it.
            if Path(path).is_relative_to(self._workspace.root):
                with contextlib.suppress(OSError):  # then a command cannot create it either
                    os.makedirs(path, mode=0o700, exist_ok=True)
        if rung == "seatbelt":
            profile = seatbelt_profile(
                str(self._workspace.root),
                str(self._private_folder()),
                [*self._closed_paths(), *below.closed, *below.secret],
                [*self._hidden_paths(), *below.secret],
                self._readable_paths(),
                network=network,
            )
            return SandboxedCommand((_SEATBELT, "-p", profile, "--", *argv))
        plan = {
            "rung": rung,
            "bwrap": self._find_bwrap() or "",
            "root": str(self._workspace.root),
            "identity": list(self._workspace.identity),
            "private": str(self._private_folder()),
            "closed": self._closed_paths(),
            "below": below.closed,
            "blank": [path for path in below.secret if self._is_inside(path)],
            # Targets of links outside of the workspace
            "hidden": [*self._hidden_paths(), *(p for p in below.secret if not self._is_inside(p))],
            "readable": self._readable_paths(),
            "network": network,
            "channel": channel,
            "filter": self._make_filter(network).hex(),
            "sized": self._sized,
        }
        program = (*self._python_program(self._source), "hold", json.dumps(plan))
        # One helper process outside, and one of bubblewrap's, run on while processes are left.
        return SandboxedCommand((*program, *argv), keepers=2 if rung == "bwrap" else 1)

    def _make_filter(self, network: bool) -> bytes:
        """Return the seccomp filter for commands in this workspace."""
        shared = False
        with contextlib.suppress(OSError):  # if the folder is gone, no command runs
            shared = bool(os.stat(self._workspace.root).st_mode & stat.S_ISGID)
        return filter_for(network=network, shared=shared)

    def _python_program(self, text: str) -> tuple[str, ...]:
        """Return the command line that runs this source code in Python. It is passed as text, so no
        command can change the program of the next one.
        """
        return (os.path.realpath(sys.executable), "-I", "-S", "-c", text)

    def _find_bwrap(self) -> str | None:
        """Return the path of bubblewrap outside of the workspace; None where it is not
        installed.
        """
        if os.access(_BWRAP, os.X_OK):
            return _BWRAP
        return find_program("bwrap", self._workspace.root)

    def _private_folder(self) -> Path:
        """Return the folder that commands see as ``/tmp``; created for this session, and anew if it
        was removed.
        """
        if self._private is not None and self._private.is_dir():
            return self._private
        self._remove_private_folder()
        self._choice.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = self._private = Path(tempfile.mkdtemp(dir=self._choice.folder))
        with contextlib.suppress(FileNotFoundError):
            self._lock = lock_folder(made)
        # A session that starts at this moment may remove it as one left behind.
        return made if made.is_dir() else self._private_folder()

    def _closed_paths(self) -> list[str]:
        """Return existing places that commands must not write in, besides those found in the
        workspace: its protected places and the folder the app runs from.
        """
        places = (*self._workspace.closed_places, self._choice.runs_from)
        return [str(path) for path in places if os.path.lexists(path)]

    def _hidden_paths(self) -> list[str]:
        """Return the folders that appear empty in the sandbox: homes, parents of the workspace, the
        desktop's sockets, and the app's own folders. Those that the user lists as readable are
        left out.
        """
        root, homes = self._workspace.root, [Path.home(), *_HOMES]
        with contextlib.suppress(KeyError):  # a user without an account
            homes.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
        paths = [path for path in homes if path not in _SYSTEM]
        if Path.home() in _SYSTEM:
            paths += Path.home().glob(".*")
        paths += [path for path in root.parents if path not in _SYSTEM]
        run = Path(os.environ.get("XDG_RUNTIME_DIR", "/run"))  # sockets and FIFOs of the desktop
        paths += [run] if run.is_absolute() and not Path.home().is_relative_to(run) else []
        paths += [path for path in self._choice.own if not root.is_relative_to(path)]
        listed = self._listed_paths()
        return [
            str(path)
            for path in dict.fromkeys(paths)
            if not any(path.is_relative_to(shown) for shown in listed)
        ]

    def _readable_paths(self) -> list[str]:
        """Return the paths inside hidden folders that commands may read: programs of PATH with
        their packages, the app's own Python, git's folder of a worktree, and those that the user
        lists. Paths that lead through places where commands can write are left out, since a link
        there may lead anywhere.
        """
        root, written = self._workspace.root, (self._workspace.root, self._choice.folder)
        git = [path for path in git_dirs(root) if not passes_through(str(path), written)]
        theirs = ""
        with contextlib.suppress(OSError, ValueError, IndexError):
            theirs = str(Path(git[0], (git[0] / "gitdir").read_text("utf-8").strip()).resolve())
        if theirs != str(root / ".git"):
            git = []  # only the repository itself can say that this is one of its worktrees
        given = [*find_toolchain(self._environ, written), sys.base_prefix, sys.prefix]
        given += [*map(str, git), *map(str, self._listed_paths())]
        return [path for path in given if not passes_through(path, written)]

    def _listed_paths(self) -> list[Path]:
        """The paths that the user's settings list as readable, absolute."""
        root = self._workspace.root
        return [root / os.path.expanduser(path) for path in self._choice.read]

    def _is_inside(self, path: str) -> bool:
        """Whether a path is in the workspace."""
        return Path(path).is_relative_to(self._workspace.root)


def passes_through(path: str, places: Iterable[Path]) -> bool:
    """Whether an absolute path lies in one of these places or leads through one of them by a link;
    True where that cannot be found out.
    """
    try:
        walk = walk_path(Location((), ()), path, path)
    except (PathRefused, OSError):
        return True
    met = [Path(one.path) for one in (walk.end, *walk.links)]
    return any(one.is_relative_to(place) for one in met for place in places)


def find_interpreter(script: Path) -> Path | None:
    """Return the resolved path of the interpreter that a script names in its first line; None for a
    file that is no script. Raises OSError and ValueError.
    """
    if not script.is_file():
        return None
    with script.open("rb") as file:
        line = file.readline(_MOST_LINE)
    words = line.removeprefix(b"#!").split() if line.startswith(b"#!") else []
    return Path(os.fsdecode(words[0])).resolve() if words else None


def find_toolchain(environ: Mapping[str, str], written: Sequence[Path]) -> list[str]:
    """Return the paths that programs need to run: the folders of PATH, the code beside them, active
    environments, and package folders of the home. Only known names for code are taken from
    beside programs, since a folder such as ``~/.local`` may hold anything. Links that lead
    through ``written``, where commands can write, are not followed.
    """
    home = Path.home()
    found = dict.fromkeys(str(home / name) for name in sorted(_PACKAGES))
    found |= dict.fromkeys(environ[name] for name in ENVIRONMENTS if name in environ)
    pending = [*filter(os.path.isabs, environ.get("PATH", os.defpath).split(os.pathsep))]
    seen = set[Path]()
    for folder in map(Path, pending):  # grows by the folders to which links lead
        if folder in seen or home.is_relative_to(folder) or passes_through(str(folder), written):
            continue
        seen.add(folder)
        found[str(folder)] = None
        pending.append(os.path.realpath(folder))
        above = folder.parent
        if folder.name in _PROGRAMS and not home.is_relative_to(above):
            whole = any((above / mark).exists() for mark in _INSTALLED)
            beside = (above,) if whole else (above / name for name in sorted(_BESIDE))
            found |= dict.fromkeys(map(str, beside))
        if folder.is_relative_to(home):
            with contextlib.suppress(OSError):
                for link in filter(Path.is_symlink, folder.iterdir()):
                    if not passes_through(str(link), written):
                        program = link.resolve()
                        found[str(program)] = None
                        if program.parent.name in _PROGRAMS:
                            pending.append(str(program.parent))
    return list(found)


def _read_identities(paths: Iterable[str]) -> dict[str, Identity]:
    """Return device and inode of each path that exists."""
    found: dict[str, Identity] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            info = os.lstat(path)
            found[path] = info.st_dev, info.st_ino
    return found


def _matches_any(path: str, readable: Iterable[str]) -> bool:
    """Whether a path matches, contains, or lies in one of the readable paths, which may be
    patterns.
    """
    for given in readable:
        for one in (given, os.path.realpath(given)):
            same = path.count("/") == one.count("/") and fnmatchcase(path, one)
            if same or Path(path).is_relative_to(one) or Path(one).is_relative_to(path):
                return True
    return False


async def _read_all(program: Program, pipe: asyncio.StreamReader | None) -> AsyncGenerator[bytes]:
    """Yield the pieces of an output until its end."""
    while data := await program.read(pipe):
        yield data


def _read_source(name: str) -> str:
    """Return the source code of a module of this package."""
    return Path(__file__).with_name(name).read_text("utf-8")


def seatbelt_profile(
    root: str,
    private: str,
    closed: Sequence[str],
    hidden: Sequence[str],
    readable: Sequence[str],
    *,
    network: bool,
) -> str:
    """Return the profile for macOS's ``sandbox-exec``: write only in ``root`` and ``private`` but
    not in ``closed``, read nothing in ``hidden`` but what is ``readable``. A later rule
    overrides an earlier one.
    """

    def below(paths: Sequence[str]) -> str:
        """Return the filter that matches everything in these paths."""
        return " ".join(f"(subpath {json.dumps(os.path.realpath(path))})" for path in paths)

    devices = " ".join(
        f'(literal "/dev/{name}")' for name in ("null", "zero", "tty", "dtracehelper")
    )
    lines = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        f"(allow file-write* {below([root, private])} {devices})",
        *([f"(deny file-write* {below(closed)})"] if closed else []),
        *([f"(deny file-read-data {below(hidden)})"] if hidden else []),
        *([f"(allow file-read* {below([*readable, root, private])})"]),
        "(deny signal (target others))",
        "(allow signal (target same-sandbox))",
        "(deny process-info* (target others))",
        '(deny mach-lookup (global-name "com.apple.SecurityServer"))',
        *(["(deny network* (remote unix-socket))"] if network else ["(deny network*)"]),
    ]
    return "\n".join(lines)
