"""Programs that read: started from a list of arguments, never by a shell, and always ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

_PASSED_ON: Final = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT")


def find_program(name: str, workspace: Path) -> str | None:
    """The absolute path of a program on PATH; one that lies in the workspace does not count."""
    found = shutil.which(name)
    if found is None:
        return None
    real = Path(os.path.realpath(found))
    inside = real.is_relative_to(workspace) or Path(found).absolute().is_relative_to(workspace)
    return None if inside or not os.path.isabs(found) else found


@asynccontextmanager
async def running(
    argv: Sequence[str], cwd: Path, *, with_input: bool = False
) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A program in its own process group with both outputs piped; killed when the block ends.

    Raises OSError when it cannot be started, ValueError for a NUL in an argument.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        stdin=asyncio.subprocess.PIPE if with_input else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=os.name != "nt",
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            _kill(process)
        # What is left in the pipes must be taken out, or asyncio never sees the end.
        await asyncio.gather(_drain(process.stdout), _drain(process.stderr))
        await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


async def _drain(pipe: asyncio.StreamReader | None) -> None:
    while pipe is not None and await pipe.read(65_536):
        pass
