"""A started command with everything it started: ended as a whole, wherever its children went."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence

from duckflow_tui.tools.process_table import GRACE, LOOK, MARK, Offspring, kill_all, send
from duckflow_tui.tools.watchdog import Watchdog


class ProcessGroup:
    """A program in its own session, without a terminal, with no input, its output in one pipe.

    Killed with the app by the watchdog, until it is released.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, mark: str, began: int, watchdog: Watchdog
    ) -> None:
        self._process = process
        self._mark = mark
        self._watchdog = watchdog
        self._ended = asyncio.Lock()
        self.pid = process.pid
        self._offspring = Offspring(mark, process.pid, began)

    @classmethod
    async def start(
        cls, argv: Sequence[str], cwd: str, environ: Mapping[str, str], watchdog: Watchdog
    ) -> tuple[ProcessGroup, int]:
        """Start it; returns the group and the reading end of its output, stdout and stderr in the
        order in which they were written. Raises OSError.
        """
        reading, writing = os.pipe()
        mark = ""
        try:
            mark = watchdog.expect()
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=cwd,
                env={**environ, MARK: mark},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            watchdog.forget(mark)
            raise
        finally:
            os.close(writing)
        return cls(process, mark, watchdog.leads(mark, process.pid), watchdog), reading

    def release(self) -> None:
        """It has ended, or what is left of it may outlive the app."""
        self._watchdog.forget(self._mark)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.returncode

    async def wait(self) -> int:
        """The exit code of the program itself; what it started may still run."""
        return await self._process.wait()

    def left(self) -> int:
        """How many of its processes run. Looks through the process table: not for the loop."""
        return len(self._members())

    async def end(self, grace: float = GRACE) -> None:
        """Ask everything to end, and kill what is left after ``grace`` seconds.

        Cancelled: what is left is killed at once.
        """
        async with self._ended:
            try:
                self._signal(await asyncio.to_thread(self._members), signal.SIGTERM)
                until = time.monotonic() + grace
                # Nothing tells of the end of processes that are not our own children.
                while time.monotonic() < until and await asyncio.to_thread(self._members):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK)
            finally:
                self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """Kill everything now; returns when nothing is found any more, or after a moment."""
        kill_all(self._members, self._signal)

    def _signal(self, members: frozenset[int], number: signal.Signals) -> None:
        if self._process.returncode is None:
            # Nobody else has the number while the leader was not waited for.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
        send(members, number)

    def _members(self) -> frozenset[int]:
        return self._offspring.running(lambda _: self._process.returncode is None)
