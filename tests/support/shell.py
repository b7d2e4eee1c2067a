"""A bench with the shell operations on it: real bash, real processes, a real workspace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from support.bench import DEADLINE, Bench
from support.model_words import WORDS

from duckflow_tui.session.blobs import FileBlobs
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.session import SessionInfo, SessionStarted
from duckflow_tui.tools.background import BackgroundCommands
from duckflow_tui.tools.command_runner import CommandLimits, CommandRunner, SandboxChoice
from duckflow_tui.tools.control_files import ObeyedFiles
from duckflow_tui.tools.notices import Notices
from duckflow_tui.tools.process_table import MARK
from duckflow_tui.tools.shell import NamedCommands, Shell
from duckflow_tui.tools.snapshot import LIMIT, FileCopies
from duckflow_tui.tools.watchdog import Watchdog


def no_full_sandbox(why: str = "") -> NoReturn:
    """Leave out a test where no sandbox holds a command in full; fail it with
    ``DUCKFLOW_TEST_SANDBOX=must``, which ``.ci/run`` sets where the system can make one.
    """
    said = f"no sandbox holds a command in full on this machine {why}".strip()
    if os.environ.get("DUCKFLOW_TEST_SANDBOX") == "must":
        pytest.fail(said)
    pytest.skip(said)


class ShellBench(Bench):
    """``allowed`` are rules as of ``--allow``; ``environ`` is what the app itself was given,
    ``keys`` are those of its endpoints.
    """

    def __init__(
        self,
        root: Path,
        *,
        allowed: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
        keys: frozenset[str] = frozenset(),
        limits: CommandLimits | None = None,
        copies: int = LIMIT,
        sandbox: SandboxChoice | None = None,
        mode: ApprovalMode = ApprovalMode.STANDARD,
        **more: Any,
    ) -> None:
        self.kept = FileBlobs(root.parent / "state" / "blobs")
        super().__init__(root, mode=mode, blobs=self.kept, **more)
        level = "none" if sandbox is None else "untested"
        session = SessionInfo(session_id="session_1", sandbox=level)
        self.store.dispatch(SessionStarted(session=session, mode=mode))
        self.watchdog = Watchdog()
        self.runner = CommandRunner(
            self.workspace,
            self.kept.put_file,
            root.parent / "state" / "spool",
            self.watchdog,
            limits,
            environ=os.environ if environ is None else environ,
            secrets_known=keys,
            sandbox=sandbox,
        )
        notices = Notices(self.store, self.ids, words=WORDS)
        self.background = BackgroundCommands(self.store, notices)
        named = NamedCommands(allowed, self.workspace, self.store)
        spool = root.parent / "state" / "spool"
        self.copies = FileCopies(self.workspace, self.kept, spool, copies)
        looks = root.parent / "state" / "looks"
        obeyed = ObeyedFiles(self.copies, notices, looks, self.workspace.root)
        self.shell = Shell(
            self.runner,
            self.background,
            named,
            self.ids,
            self.store,
            self.copies,
            obeyed,
        )
        self.router.registry.add(*self.shell.make_operations())
        self.router.facts = named.call_facts
        self.router.undoing = replace(self.router.undoing, blobs=self.copies)

    def kept_bytes(self) -> list[bytes]:
        """All that was kept of files and of output."""
        folder = self.root.parent / "state" / "blobs"
        return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]

    async def end_commands(self) -> None:
        """As the end of a session does."""
        await self.shell.close()
        await self.watchdog.close()


def running_with(text: str) -> list[int]:
    """Processes of this machine that have the text in their arguments, without ourselves."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            line = Path("/proc", name, "cmdline").read_bytes()
            state = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if text.encode() in line and state != b"Z":
            found.append(int(name))
    return found


async def comes(holds: Callable[[], bool], within: float = DEADLINE) -> bool:
    """Whether it becomes so in as many seconds; other programs' processes cannot be waited for."""
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.02)
    return True


def sleepers(own: str) -> list[str]:
    """The durations that sleeping processes were given, in order, of those that end with ``own``
    behind a point.
    """
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended just now
            words = place.read_bytes().split(b"\0")
            if words[0].endswith(b"sleep") and words[1].endswith(f".{own}".encode()):
                found.append(words[1].decode())
    return sorted(found)


@contextlib.contextmanager
def sleeping(seconds: str, mark: str) -> Generator[subprocess.Popen[bytes]]:
    """A program with the mark of a command, as the app starts one; killed at the end."""
    environ = {**os.environ, MARK: mark}
    with subprocess.Popen(["sleep", seconds], env=environ, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()
