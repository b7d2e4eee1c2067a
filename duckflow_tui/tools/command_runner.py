"""Runs command lines, each in a new bash, with limits; each ends with all processes it started
(R07).
"""

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
from collections.abc import Awaitable, Callable, Container, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, NamedTuple

from duckflow_tui.safety.command_parsing import SimpleCommand, read_command
from duckflow_tui.safety.file_changes import remove_tree, wait_until_done
from duckflow_tui.safety.paths import Place, lies_inside
from duckflow_tui.safety.secrets import Redactor
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.session import SandboxLevel
from duckflow_tui.tools.command_output import Capture, OutputPump
from duckflow_tui.tools.diffs import size_words
from duckflow_tui.tools.operation import Output, ToolFault
from duckflow_tui.tools.process_group import DRAIN, ProcessGroup
from duckflow_tui.tools.results import reading_hint
from duckflow_tui.tools.watchdog import Watchdog

if TYPE_CHECKING:
    from duckflow_tui.state.usage import HostContacted
    from duckflow_tui.tools.proxy import HostProxy
    from duckflow_tui.tools.sandbox import Sandbox

#: Programs that read their input to its end, and arguments with which they read no file.
_READS_TO_THE_END: Final = frozenset(["tail", "wc", "cat"])
_READS_NO_FILE: Final = re.compile(r"-[A-Za-z0-9]+|--(?:lines|bytes)=\d+|\d+")


class CommandLimits(NamedTuple):
    """Limits of a command. Times in seconds, sizes in bytes."""

    timeout_s: float = 120
    max_timeout_s: float = 1_800
    max_output: int = 64_000_000  # output of one command kept on disk


class SandboxChoice(NamedTuple):
    """The user's settings of the sandbox.

    ``folder``: where the app may put the private files of commands; ``own``: the app's own folders;
    ``runs_from``: the Python environment in which the app is installed. Where the workspace
    contains one of these, commands cannot change it: a new ``.pth`` file or another ``python``
    would run with the next start of the app. So a command cannot install packages there without the
    user's consent. ``rungs``: kinds of sandbox to try, empty for all. ``env``: names of further
    variables that commands get, with or without a sandbox.
    """

    level: Literal["auto", "full", "none", "external"] = "none"
    read: tuple[str, ...] = ()  # further places that commands can read
    folder: Path = Path("/nonexistent")
    own: tuple[Path, ...] = ()
    runs_from: Path = Path(sys.prefix)
    rungs: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


def lock_folder(folder: Path) -> int | None:
    """Open a folder, lock it, and return the descriptor, which holds the lock while open. None
    where another process has the lock or locks are not supported. Raises OSError where it is no
    folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_left(folder: Path) -> None:
    """Remove the private files in ``folder`` of commands whose app was killed: those that nobody
    has locked. Raises nothing.
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
    """A started command: its processes, its output, its end.

    Cleaning up at its end is a task of its own, ``over``, so that a cancelled waiter does not skip
    it.
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
        """``redact`` removes secrets from a text; ``keep`` stores the whole output and returns its
        handle. ``leaves``: processes that it leaves running go on after its end. ``keepers``:
        number of processes that its sandbox adds. ``proxy``: its way to the network, closed with
        it. Starts ``over``.
        """
        self.group = group
        self._pump = pump
        self._capture = capture
        self._redact = redact
        self._keep = keep
        self._leaves = leaves
        self._keepers = keepers
        self._proxy = proxy
        self.unread: tuple[str, ...] = ()  # paths of secret files that its sandbox hides
        #: Returns the later secrets that it can read; blocking.
        self.later: Callable[[], tuple[str, ...]] = tuple
        #: The first path in a text, relative to a folder, that its sandbox hides; blocking.
        self.find_hidden_path: Callable[[str, Path], str] = lambda text, folder: ""
        self._began = time.monotonic()
        self._duration: float | None = None
        self._told_to_end = False
        self._blob = ""
        self._note = ""  # for the model: processes that were ended with it
        self.over = asyncio.create_task(self._run_to_end(), name=f"command {group.program.pid}")

    @property
    def duration_s(self) -> float:
        """Seconds that it has run so far, or ran in all."""
        return self._duration if self._duration is not None else time.monotonic() - self._began

    async def wait_until_done(self, seconds: float | None = None) -> bool:
        """Wait for the end of the command; return False if it did not end within ``seconds``. It is
        then ended with all processes it started, also when the caller is cancelled.
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
        """Wait until the command draws on a screen, then end it, unless it ends by itself within
        DRAWING_GRACE. Waits for ever for one that does not draw.
        """
        await self._pump.drawn.wait()
        await asyncio.sleep(DRAWING_GRACE)
        await self.end()

    @property
    def needs_terminal(self) -> bool:
        """Whether the command drew on a screen and did not exit with 0."""
        return self._pump.drawn.is_set() and self.group.program.exit_code != 0

    async def end(self) -> None:
        """End the command and all processes it started, and wait for that. If cancelled, they are
        killed and CancelledError is raised once that is done.
        """
        self._told_to_end = True
        await self.group.end()
        if await wait_until_done(self.over, lambda: None):
            raise asyncio.CancelledError

    async def _run_to_end(self) -> None:
        """Wait for the program, end the processes that it left running, store its output without
        secrets if the model gets only part of it, and release everything. Never raises OSError.
        """
        try:
            await self.group.program.wait()
            self._duration = time.monotonic() - self._began
            # A process that it started may hold its output open.
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
            if self._capture.read_output().cut:
                copy = await asyncio.to_thread(self._capture.copy_redacted, self._redact)
                if copy is not None:
                    with copy:
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
        """Return the output so far, redacted and cut to the limit for a model; the summary tells
        how and when it ended.
        """
        kept = self._capture.read_output()
        text = kept.head
        if kept.cut:
            left = f"[… {kept.cut:,} characters left out; {self._describe_whole_output()} …]"
            text = f"{text}\n{left}\n{kept.tail}"
        body = self._redact(text).rstrip("\n") or "(no output)"
        body = "\n".join(filter(None, (body, self._note, self.refused_hosts)))
        code = self.group.program.exit_code
        summary = f"{self.end_words} · {self.duration_s:.1f}s"
        return Output(body, summary, exit_code=code, cut=kept.cut, blob=self._blob)

    def last_lines(self, count: int) -> str:
        """Return the last ``count`` lines of output, redacted, and the hosts that were refused."""
        lines = self._redact(self._capture.last_lines(count))
        return "\n".join(filter(None, (lines, self.refused_hosts)))

    @property
    def refused_hosts(self) -> str:
        """A line for the model on the hosts that the proxy refused; empty for none."""
        return "" if self._proxy is None else self._proxy.refused_hosts

    @property
    def end_words(self) -> str:
        """How the command ended: ``exit 0``, the name of a signal, or ``running`` before
        its end.
        """
        return how_it_ended(self.group.program.exit_code)

    def _describe_whole_output(self) -> str:
        """Return where the model finds the whole output, or why it does not."""
        if not self._blob:
            lost = self._capture.lost
            return f"the whole could not be kept: {lost}" if lost else "the whole comes at its end"
        if self._capture.is_complete:
            return f"the whole is kept: {reading_hint(self._blob)}"
        return f"the first {size_words(self._capture.limit)} are kept: {reading_hint(self._blob)}"


def how_it_ended(exit_code: int | None) -> str:
    """Return ``exit <code>``, the name of the signal for a negative code, or ``running``
    for None.
    """
    if exit_code is None:
        return "running"
    if exit_code < 0:
        try:
            return signal.Signals(-exit_code).name
        except ValueError:
            return f"signal {-exit_code}"
    return f"exit {exit_code}"


class CommandRunner:
    """Starts commands in the workspace; ``close`` ends all of them.

    ``keep`` stores a whole output and returns its handle. ``spool`` is the folder for unfinished
    output. ``watchdog`` ends the commands if the app is killed. Values in ``secrets_known`` and
    secrets of ``environ`` are redacted from all output. ``report`` is called for hosts that a
    command contacts.
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
        """Give the program, folder and environment to run a line of the user on their terminal;
        nothing is started here.

        The folder is valid inside the context. Raises ToolFault where there is no bash, and
        WorkspaceError.
        """
        argv = self._find_bash(command)
        with self._workspace.open_folder_path(place) as folder:
            yield argv, folder, self._environ

    def _find_bash(self, command: str, *options: str) -> tuple[str, ...]:
        """Return the arguments that run a line in bash. Raises ToolFault where there is no bash."""
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
        """Start a line in a folder of the workspace; ``tell`` gets its redacted output as it comes.
        ``own``: a command of the user, with their environment and without a sandbox.
        ``network``: it may use the network. ``hosts``: it may reach these through a proxy, where
        its sandbox is full. ``outside``: it runs without a sandbox, as the user allowed.
        ``named``: secret files that the line names, which it can read.

        The folder is opened first, so that it is the one that was judged (R01). Raises ToolFault
        where there is no bash, OSError and WorkspaceError where it cannot be started.
        """
        # With pipefail, a command piped into ``tail`` still gives its own exit code.
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
        except BaseException:  # also on cancellation: nobody else closes the proxy
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
        """End all commands and their processes, and the sandbox. If cancelled, the processes are
        killed.
        """
        await asyncio.gather(*map(RunningCommand.end, self._live))
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of the model's commands, created at the first use."""
        if self._sandbox is None:
            from duckflow_tui.tools.sandbox import Sandbox

            environ = self._command_environment()
            self._sandbox = Sandbox(self._choice, self._workspace, environ)
        return self._sandbox

    def _command_environment(self) -> dict[str, str]:
        """Return the environment of a model's command."""
        return command_environment(self._environ, self._choice.env)

    async def find_level(self) -> SandboxLevel:
        """Return the level of the sandbox that the model's commands get, found by a test run."""
        return "none" if self._choice.level == "none" else await self.sandbox.find_level()


def _only_shows(part: SimpleCommand) -> bool:
    """Whether a command only shows the end or the size of its piped input, like ``tail``, ``wc`` or
    ``cat`` without files.
    """
    program, *rest = part.argv
    reads_on = part.joiner == "|" and program in _READS_TO_THE_END
    return reads_on and all(map(_READS_NO_FILE.fullmatch, rest))


#: Seconds in which a command that drew on a screen may end by itself: it only printed escapes.
DRAWING_GRACE: Final = 0.5

#: Names of variables whose values are redacted from results.
_SECRET_NAME: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH(?!OR)|COOKIE|PRIVATE|_DSN$|^DATABASE_URL$|^PG(PASS|SERVICE)"
    r"|^KUBECONFIG$|^NETRC$",
    re.IGNORECASE,
)

_USERINFO: Final = re.compile(r"://[^\s/@:]*:[^\s/@]+@")
_SHORTEST_SECRET: Final = 8  # characters; a shorter value is a word like any other

#: Variables of every command: no colours, no pager, no questions on a terminal.
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
    """Return the environment of a model's command: PATH with its absolute folders only, HOME,
    TMPDIR, the locale, a virtual environment on PATH, variables for plain output, and those in
    ``named``. Nothing else of ``environ`` is passed on.
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
    """Return the environment of a command that the user runs: all of ``environ``, without a
    terminal or pager.
    """
    return {**environ, "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


def secret_values(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of ``environ`` that are secrets by their variable's name, or that are URLs
    with a password, to redact them from results. Left out are values of fewer than 8 characters,
    absolute paths and values with blanks.
    """
    return frozenset(
        value
        for name, value in environ.items()
        if len(value) >= _SHORTEST_SECRET
        and (_SECRET_NAME.search(name) or _USERINFO.search(value))
        and not os.path.isabs(value)
        and " " not in value
    )


#: Variables that name the virtual environment in use.
ENVIRONMENTS: Final = ("VIRTUAL_ENV", "CONDA_PREFIX")

_PASSED_ON: Final = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT")


def find_program(name: str, workspace: Path) -> str | None:
    """Return the absolute path of a program on PATH; None where it is not found or lies in the
    workspace.
    """
    found = shutil.which(name)
    if found is None or not os.path.isabs(found) or lies_inside(found, workspace):
        return None
    return found
