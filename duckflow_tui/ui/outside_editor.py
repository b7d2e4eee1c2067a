"""Runs other programs on this terminal while the loop goes on: the user's editor, commands, a
replay.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from textual.app import SuspendNotSupported

import duckflow_tui
from duckflow_tui.safety.paths import lies_inside
from duckflow_tui.safety.safe_text import make_visible

if TYPE_CHECKING:
    from duckflow_tui.ui.app import DuckflowApp

T = TypeVar("T")


@contextmanager
def lent_terminal(app: DuckflowApp) -> Generator[list[Exception]]:
    """Give the terminal to another program inside the block; the screen always comes back.

    An OSError or ValueError ends the block and is appended to the yielded list, because an
    exception out of Textual's ``suspend`` would leave the terminal given away.
    """
    problems: list[Exception] = []
    with app.suspend(), app.guard.lent():
        try:
            yield problems
        except (OSError, ValueError) as error:
            problems.append(error)


class OutsideEditor:
    """The editor that the user configured, run without a shell."""

    def __init__(self, app: DuckflowApp) -> None:
        self._app = app
        self._runs = False
        self.one_at_a_time = asyncio.Lock()  # of the user's lines that wait for the terminal

    async def edit(self, text: str) -> str | None:
        """Open a text in the editor and return it after editing; None where the editor failed or
        could not run.
        """
        return await self._run(lambda argv: _edit_text(argv, text))

    async def edit_file(self, path: Path) -> None:
        """Open a file in place."""
        await self._run(lambda argv: _run_editor(argv, path))

    async def _run(self, work: Callable[[list[str]], Awaitable[T]]) -> T | None:
        """Run ``work`` while no other program has the terminal; None, after a notice, where that is
        not possible.
        """
        if self._runs:
            return None
        self._runs = True
        command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        found: T | None = None
        try:
            with lent_terminal(self._app) as problems:
                found = await work(_found(command, Path(self._app.session.workspace)))
        finally:
            self._runs = False
        if problems:
            inside = isinstance(problems[0], _InWorkspace)
            key = "shell.editor_inside" if inside else "shell.no_editor"
            self._app.status.show_notice(key, command=command, error=str(problems[0]))
        return found


async def run_on_terminal(
    app: DuckflowApp, line: str, argv: Sequence[str], folder: str, environ: Mapping[str, str]
) -> int:
    """Run the user's command line on the terminal and return its exit code, negative for a signal.

    Its output stays on screen until Enter. Raises OSError where it cannot be started; with ENOTTY
    where the app has no terminal.
    """
    code = 0
    async with app.editor.one_at_a_time:
        with _no_terminal_as_os_error(), lent_terminal(app) as problems:
            print(f"$ {make_visible(line)}", flush=True)
            program = await asyncio.create_subprocess_exec(*argv, cwd=folder, env=environ)
            try:
                code = await program.wait()
            except asyncio.CancelledError:  # the app ends
                program.terminate()
                raise
            status = code if code >= 0 else 128 - code  # as a shell says it
            print(f"\n{app.words('shell.back_from_terminal', code=status)}", end="", flush=True)
            await _read_line()
    if problems:
        raise problems[0]
    return code


@contextmanager
def _no_terminal_as_os_error() -> Generator[None]:
    """Raise OSError where the app cannot hand over the terminal in the block."""
    try:
        yield
    except SuspendNotSupported as error:
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY)) from error


async def _read_line() -> None:
    """Wait for Enter, or for the end of input on a lost terminal."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    descriptor = sys.stdin.fileno()
    loop.add_reader(descriptor, came.set)
    try:
        await came.wait()
        os.read(descriptor, 4096)
    finally:
        loop.remove_reader(descriptor)


class _InWorkspace(ValueError):
    """Raised for a program inside the workspace, where the AI can write."""


def _found(command: str, workspace: Path) -> list[str]:
    """Return the program's full path and its arguments. Raises OSError or ValueError."""
    argv = shlex.split(command)
    if not argv:
        raise ValueError("no program is named")
    program = shutil.which(argv[0])
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    if lies_inside(program, workspace):
        raise _InWorkspace(program)
    return [os.path.abspath(program), *argv[1:]]


async def _edit_text(argv: list[str], text: str) -> str | None:
    """Return the text as the user saved it in the editor; None where the editor failed."""
    with tempfile.TemporaryDirectory(prefix="duckflow-") as folder:  # mode 0700
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8")
        if not await _run_editor(argv, path):
            return None
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")


async def _run_editor(argv: list[str], path: Path) -> bool:
    """Run the editor on a file; False where it reports failure."""
    editor = await asyncio.create_subprocess_exec(*argv, str(path))
    return await editor.wait() == 0


async def watch_again(app: DuckflowApp, session: Path) -> int:
    """Replay a session from its folder or file until the user quits; returns the exit status, 2
    where there was nothing to show.

    Raises OSError where the replay cannot be started.
    """
    command = _replaying(session, "--lang", app.words.language, "--theme", str(app.theme))
    elsewhere = Path(duckflow_tui.__file__).parent.parent
    status = 0
    with lent_terminal(app) as problems:
        shown = await asyncio.create_subprocess_exec(*command, cwd=elsewhere)
        status = await shown.wait()
    if problems:
        raise problems[0]
    return status


def _replaying(session: Path, *flags: str) -> list[str]:
    """Return the command that starts this program. ``-P`` keeps the workspace, which may contain a
    module of our name, off the import path.
    """
    start = [sys.executable, "-P", "-m", "duckflow_tui", "replay"]
    return [*start, *flags, os.path.abspath(session)]
