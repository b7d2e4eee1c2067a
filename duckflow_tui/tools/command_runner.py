"""Runs command lines: a fresh bash for each, bounded, ended with all it started (R07)."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Container,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, NamedTuple

from duckflow_tui.safety.command_parsing import SimpleCommand, read_command
from duckflow_tui.safety.file_changes import remove_tree, wait_until_done
from duckflow_tui.safety.paths import Place, lies_inside
from duckflow_tui.safety.secrets import Redactor
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.session import SandboxLevel
from duckflow_tui.tools.command_output import Capture, OutputPump, clean_output
from duckflow_tui.tools.diffs import size_words
from duckflow_tui.tools.operation import Output, ToolFault
from duckflow_tui.tools.process_group import DRAIN, ProcessGroup, Program
from duckflow_tui.tools.results import reading_hint
from duckflow_tui.tools.watchdog import Watchdog

if TYPE_CHECKING:
    from duckflow_tui.state.usage import HostContacted
    from duckflow_tui.tools.proxy import HostProxy
    from duckflow_tui.tools.sandbox import Sandbox

#: Programs that read all that is written to them, and the words with which they read nothing else.
_READS_TO_THE_END: Final = frozenset(["tail", "wc", "cat"])
_READS_NO_FILE: Final = re.compile(r"-[A-Za-z0-9]+|--(?:lines|bytes)=\d+|\d+")


class CommandLimits(NamedTuple):
    """Bounds of a command. Times in seconds, sizes in bytes."""

    timeout_s: float = 120
    max_timeout_s: float = 1_800
    max_output: int = 64_000_000  # kept on disk of what one command prints


class SandboxChoice(NamedTuple):
    """The user's settings of the sandbox.

    ``folder``: where the app may keep the commands' private files; ``own``: the app's own folders;
    ``runs_from``: the environment of Python that the app is installed in. All of that is closed
    where the workspace holds it, since a new ``.pth`` file or another ``python`` in it runs with
    the next start; so a command installs no package there without the user's consent.
    ``rungs``: the kinds to try, empty for all there are. ``env``: names of variables that commands
    get beside the usual ones, sandbox or not.
    """

    level: Literal["auto", "full", "none", "external"] = "none"
    read: tuple[str, ...] = ()  # more places that commands can read
    folder: Path = Path("/nonexistent")
    own: tuple[Path, ...] = ()
    runs_from: Path = Path(sys.prefix)
    rungs: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


def lock_folder(folder: Path) -> int | None:
    """The opened folder, locked for as long as this process keeps it open; None where another
    process has the lock, or there can be none. Raises OSError where it is no folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_left(folder: Path) -> None:
    """Remove the private files of commands whose app was killed: nobody has their lock. Raises
    nothing.
    """
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(folder)
    for name in names:
        with contextlib.suppress(OSError):
            descriptor = lock_folder(folder / name)
            if descriptor is not None:
                remove_tree(folder / name)
                os.close(descriptor)


Keep = Callable[[BinaryIO], Awaitable[str]]


class RunningCommand:
    """A command that was started: its processes, its output, its end.

    What is to be done at its end is a task of its own, ``over``, which nobody skips who is
    cancelled while he waits.
    """

    def __init__(
        self,
        group: ProcessGroup,
        pump: OutputPump,
        capture: Capture,
        redact: Callable[[str], str],
        keep: Keep,
        *,
        leaves: bool,
        keepers: int = 0,
        proxy: HostProxy | None = None,
    ) -> None:
        """``redact`` takes secrets out of a text. ``leaves``: what it leaves running goes on after
        its end. ``keepers``: processes of its sandbox, which are there as long as something else
        is. ``proxy``: its way to the network.
        """
        self.group = group
        self._pump = pump
        self._capture = capture
        self._redact = redact
        self._keep = keep
        self._leaves = leaves
        self._keepers = keepers
        self._proxy = proxy
        self.unread: tuple[str, ...] = ()  # paths of secret files that its sandbox keeps from it
        self.later: Callable[[], tuple[str, ...]] = tuple  # those it does not; blocking
        #: The first path in a text, relative to a folder, that its sandbox hides; blocking.
        self.find_hidden_path: Callable[[str, Path], str] = lambda text, folder: ""
        self._began = time.monotonic()
        self._duration: float | None = None
        self._told_to_end = False
        self._blob = ""
        self._note = ""  # what else is to be said of its end
        self.over = asyncio.create_task(self._run_to_end(), name=f"command {group.program.pid}")

    @property
    def duration_s(self) -> float:
        """Seconds it ran, so far or in all."""
        return self._duration if self._duration is not None else time.monotonic() - self._began

    async def wait_until_done(self, seconds: float | None = None) -> bool:
        """Wait for its end; whether it came within so many seconds. A command that is late, and
        one whose caller is cancelled, is ended with all that it started.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.group.program.wait()
            await asyncio.shield(self.over)
        except TimeoutError:
            await self.end()
            return False
        except asyncio.CancelledError:
            await self.end()
            raise
        return True

    async def end_if_drawing(self) -> None:
        """End it once it has drawn on a screen, unless it ends by itself soon after."""
        await self._pump.drawn.wait()
        await asyncio.sleep(DRAWING_GRACE)
        await self.end()

    @property
    def needs_terminal(self) -> bool:
        """Whether it drew on a screen, and did not get on without one."""
        return self._pump.drawn.is_set() and self.group.program.exit_code != 0

    async def end(self) -> None:
        """End it and all it started; cancelled, kill what is left and raise that once done."""
        self._told_to_end = True
        await self.group.end()
        if await wait_until_done(self.over, lambda: None):
            raise asyncio.CancelledError

    async def _run_to_end(self) -> None:
        """Wait for the program, end what it left running, and keep its output without secrets."""
        try:
            await self.group.program.wait()
            self._duration = time.monotonic() - self._began
            # Somebody it started may hold its output open.
            await asyncio.wait({self._pump.done}, timeout=DRAIN)
            if self._told_to_end:
                await self.group.end()
            elif not self._leaves and (left := await self.group.count_left()):
                left = max(left - self._keepers, 1)
                self._note = (
                    f"[{left} process{'es' if left > 1 else ''} that the command left running "
                    f"{'were' if left > 1 else 'was'} ended with it; background: true keeps a "
                    "command]"
                )
                await self.group.end()
            self._pump.stop()
            await self._pump.done
            kept = self._capture.read_output()
            short = kept.cut or clean_output(kept.head)[1]
            if short and (file := self._capture.open_file()) is not None:
                copied = asyncio.to_thread(self._capture.copy_redacted, file, self._redact)
                with await copied as copy:
                    self._blob = await self._keep(copy)
        except OSError as error:
            self._capture.lost = error.strerror or str(error)
        finally:
            self._pump.stop()
            self._capture.close()
            self.group.program.close()
            self.group.release()
            if self._proxy is not None:
                await self._proxy.close()

    def make_output(self) -> Output:
        """The output so far, within the limit for a model; the summary says how it ended."""
        kept = self._capture.read_output()
        text, short = clean_output(kept.head)
        if kept.cut:
            left = f"[… {kept.cut:,} characters left out; {self._describe_whole_output()} …]"
            text = f"{text}\n{left}\n{clean_output(kept.tail)[0]}"
        elif short:
            text = f"{text.rstrip()}\n[{self._describe_whole_output()}]"
        body = self._redact(text).rstrip("\n") or "(no output)"
        body = "\n".join(filter(None, (body, self._note, self.refused_hosts)))
        code = self.group.program.exit_code
        summary = f"{self.end_words} · {self.duration_s:.1f}s"
        return Output(body, summary, exit_code=code, cut=kept.cut, blob=self._blob)

    def last_lines(self, count: int) -> str:
        """The newest lines it printed, and which hosts it was refused."""
        lines = self._redact(self._capture.last_lines(count))
        return "\n".join(filter(None, (lines, self.refused_hosts)))

    @property
    def refused_hosts(self) -> str:
        """Which hosts it wanted and may not reach, for the model; empty for none."""
        return "" if self._proxy is None else self._proxy.refused_hosts

    @property
    def end_words(self) -> str:
        """How it ended, in two words."""
        return how_it_ended(self.group.program.exit_code)

    def _describe_whole_output(self) -> str:
        if not self._blob:
            lost = self._capture.lost
            return f"the whole could not be kept: {lost}" if lost else "the whole comes at its end"
        if self._capture.is_complete:
            return f"the whole is kept: {reading_hint(self._blob)}"
        return f"the first {size_words(self._capture.limit)} are kept: {reading_hint(self._blob)}"


def how_it_ended(exit_code: int | None) -> str:
    """``exit 0``, or the signal that ended it."""
    if exit_code is None:
        return "running"
    if exit_code < 0:
        try:
            return signal.Signals(-exit_code).name
        except ValueError:
            return f"signal {-exit_code}"
    return f"exit {exit_code}"


class CommandRunner:
    """Starts commands in the workspace and ends with all of them.

    Should the app be killed, ``watchdog`` does it. ``secrets_known`` are values that no result
    repeats; those of the environment come to them.
    """

    def __init__(
        self,
        workspace: Workspace,
        keep: Keep,
        spool: Path,
        watchdog: Watchdog,
        limits: CommandLimits | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        secrets_known: frozenset[str] = frozenset(),
        sandbox: SandboxChoice | None = None,
    ) -> None:
        self.limits = limits or CommandLimits()
        self._keep = keep
        self._workspace = workspace
        self._spool = spool
        self._watchdog = watchdog
        self._environ = environ
        self._live: set[RunningCommand] = set()
        self._choice = sandbox or SandboxChoice()
        self._sandbox: Sandbox | None = None
        self._redact = Redactor(secret_values(environ) | secrets_known).redact_text
        self.report: Callable[[HostContacted], None] = lambda contact: None

    @contextmanager
    def in_terminal(
        self, command: str, place: Place
    ) -> Generator[tuple[tuple[str, ...], str, Mapping[str, str]]]:
        """The program, folder and environment of a line that the user runs on their terminal.

        The folder holds as long as the context. Raises ToolFault where there is no bash.
        """
        argv = self._find_bash(command)
        with self._workspace.open_folder_path(place) as folder:
            yield argv, folder, self._environ

    def _find_bash(self, command: str, *options: str) -> tuple[str, ...]:
        """The program that runs a line. Raises ToolFault where there is none."""
        bash = find_program("bash", self._workspace.root)
        if bash is None:
            raise ToolFault("command.no_bash")
        # What follows ``--`` is the line, even when it begins with a dash (R08).
        return (bash, "--noprofile", "--norc", *options, "-c", "--", command)  # R07d R08a

    async def start(
        self,
        command: str,
        place: Place,
        tell: Callable[[str], None],
        *,
        own: bool = False,
        network: bool = False,
        outside: bool = False,
        named: Iterable[str] = (),
        hosts: Sequence[str] = (),
    ) -> RunningCommand:
        """Start a line in a folder of the workspace; ``own``: the user runs it themselves.
        ``network``: it may use the network. ``hosts``: it may reach these, by a proxy, where its
        sandbox is full. ``outside``: no sandbox holds it, as the user allowed.
        ``named``: the secret files that the line names, which it can read.

        The folder is opened first, so that it is the one that was judged (R01). Raises ToolFault
        where there is no bash, OSError and WorkspaceError where it cannot be started.
        """
        # What is only shown in part still ends as the command that wrote it did.
        shown = any(map(_only_shows, read_command(command).parts))
        ends = ("-o", "pipefail") if shown else ()
        argv, keepers = self._find_bash(command, *ends), 0
        unread: tuple[str, ...] = ()
        later: Callable[[], tuple[str, ...]] = tuple
        # R07a
        environ = users_own(self._environ) if own else self._command_environment()
        proxy, passed = None, ()
        if hosts:
            from duckflow_tui.tools.proxy import HostProxy, proxy_variables

            proxy = HostProxy(hosts, self.report)
            passed = (proxy.channel_fd,)
            environ |= proxy_variables(hosts)
        held = not (own or outside or self._choice.level in ("none", "external"))
        try:
            if held:
                channel = proxy.channel_fd if proxy else 0
                argv, keepers, unread, later = await self.sandbox.hold_command(
                    argv, network=network, named=named, channel=channel
                )
            with self._workspace.open_folder_path(place) as folder:
                group = await ProcessGroup.start(
                    argv,
                    folder,
                    environ,
                    self._watchdog,
                    pass_fds=passed,
                    stderr=asyncio.subprocess.STDOUT,  # in the order of their writing
                )
        except BaseException:  # a cancellation too: nobody else closes it
            if proxy is not None:
                await proxy.close()
            raise
        if proxy is not None:
            proxy.begin_listening()
        capture = Capture(self._spool, self.limits.max_output)
        pump = OutputPump(group.program, capture, lambda text: tell(self._redact(text)))
        running = RunningCommand(
            group,
            pump,
            capture,
            self._redact,
            self._keep,
            leaves=own,
            keepers=keepers,
            proxy=proxy,
        )
        running.unread, running.later = unread, later
        if held:
            running.find_hidden_path = self.sandbox.find_hidden_path
        self._live.add(running)
        running.over.add_done_callback(lambda _: self._live.discard(running))
        return running

    async def close(self) -> None:
        """End every command and all they started; what is left when cancelled is killed."""
        await asyncio.gather(*map(RunningCommand.end, self._live))
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of the model's commands; made with the first of them."""
        if self._sandbox is None:
            from duckflow_tui.tools.sandbox import Sandbox

            environ = self._command_environment()
            self._sandbox = Sandbox(self._choice, self._workspace, environ)
        return self._sandbox

    def _command_environment(self) -> dict[str, str]:
        return command_environment(self._environ, self._choice.env)

    async def find_level(self) -> SandboxLevel:
        """The level of the sandbox of the model's commands, found by a test."""
        return "none" if self._choice.level == "none" else await self.sandbox.find_level()


def _only_shows(part: SimpleCommand) -> bool:
    """Whether a command only shows the end or the size of what the one before it writes."""
    program, *rest = part.argv
    reads_on = part.joiner == "|" and program in _READS_TO_THE_END
    return reads_on and all(map(_READS_NO_FILE.fullmatch, rest))


#: Seconds for a command that drew on a screen to end by itself: a file with escapes was printed.
DRAWING_GRACE: Final = 0.5

#: Names of variables whose values are struck out of results, should a command read them elsewhere.
_SECRET_NAME: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH(?!OR)|COOKIE|PRIVATE|_DSN$|^DATABASE_URL$|^PG(PASS|SERVICE)"
    r"|^KUBECONFIG$|^NETRC$",
    re.IGNORECASE,
)

_USERINFO: Final = re.compile(r"://[^\s/@:]*:[^\s/@]+@")
_SHORTEST_SECRET: Final = 8  # characters; a shorter value is a word like any other

#: What every command gets: no colours, no pager, no question on a terminal that is not there.
_PLAIN: Final = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
}


def command_environment(environ: Mapping[str, str], named: Container[str] = ()) -> dict[str, str]:
    """The environment of a model's command: what programs need to be found and to know the
    language, the virtual environment whose programs PATH finds, and the ``named`` variables.
    PATH keeps its absolute folders. Nothing else of ``environ`` is passed on.
    """
    folders = [path for path in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(path)]
    kept = {name: environ[name] for name in _PASSED_ON if name in environ}
    kept |= {name: value for name, value in environ.items() if name.startswith("LC_")}
    kept |= {"PATH": os.pathsep.join(folders) or os.defpath}
    for name in ENVIRONMENTS:
        if name in environ and os.path.join(environ[name], "bin") in folders:
            kept[name] = environ[name]
    return {**kept, **_PLAIN, **{n: v for n, v in environ.items() if n in named}}


def users_own(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command that the user runs: theirs, but for a terminal."""
    return {**environ, "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


def secret_values(environ: Mapping[str, str]) -> frozenset[str]:
    """Values that no result may repeat, should a command get hold of them all the same."""
    return frozenset(
        value
        for name, value in environ.items()
        if len(value) >= _SHORTEST_SECRET
        and _is_secret(name, value)
        and not os.path.isabs(value)
        and " " not in value
    )


def _is_secret(name: str, value: str) -> bool:
    return _SECRET_NAME.search(name) is not None or _USERINFO.search(value) is not None


#: Variables that name the virtual environment in use.
ENVIRONMENTS: Final = ("VIRTUAL_ENV", "CONDA_PREFIX")

_PASSED_ON: Final = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT")


def find_program(name: str, workspace: Path) -> str | None:
    """The absolute path of a program on PATH; one that lies in the workspace does not count."""
    found = shutil.which(name)
    if found is None or not os.path.isabs(found) or lies_inside(found, workspace):
        return None
    return found


@asynccontextmanager
async def run_program(
    argv: Sequence[str],
    cwd: Path,
    *,
    more: Mapping[str, str] = MappingProxyType({}),
    memory: int | None = None,
) -> AsyncGenerator[Program, None]:
    """A program of the app's own with both outputs piped, and ``more`` variables; killed when the
    block ends. ``memory`` bounds its heap, in bytes, on Linux. Raises OSError when it cannot be
    started, ValueError for a NUL in an argument.
    """
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    program = await Program.start(
        argv,
        cwd,
        {**passed_on, **more},
        stdin=asyncio.subprocess.DEVNULL,
    )
    if memory is not None:
        _bound_memory(program.pid, memory)
    try:
        yield program
    finally:
        program.close()
        await program.wait()


def _bound_memory(pid: int, memory: int) -> None:
    """Let allocations of a process fail beyond so many bytes, where the system can."""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        resource.prlimit(pid, resource.RLIMIT_DATA, (memory, memory))
