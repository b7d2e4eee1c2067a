"""Start a program, read its output, and end it together with every process that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from duckflow_tui.safety.file_changes import wait_until_done
from duckflow_tui.tools.process_table import GRACE, LOOK, MARK, Offspring, kill_all, send_signal
from duckflow_tui.tools.watchdog import Watchdog

DRAIN: Final = 0.25  # seconds to read the rest of a pipe after its program has ended
_PIECE: Final = 512 * 1024  # bytes of one read
_REAPED: Final = 1.0  # seconds to wait for the exit code of a killed program


class _Pipes(asyncio.subprocess.SubprocessStreamProtocol):
    """Set ``exited`` as soon as the program ends; asyncio itself waits until its pipes are closed
    too, which a child process may keep open.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(limit=_PIECE, loop=loop)
        self.exited: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        """Set ``exited``; asyncio calls this when the program has ended."""
        super().process_exited()
        self.exited.set_result(None)


class Program:
    """A child process in a session of its own, without a terminal."""

    def __init__(self, transport: asyncio.SubprocessTransport, pipes: _Pipes) -> None:
        self._transport = transport
        process = asyncio.subprocess.Process(transport, pipes, asyncio.get_running_loop())
        self.pid = process.pid
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self.exited = pipes.exited

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        cwd: str | Path,
        environ: Mapping[str, str],
        *,
        stdin: int = asyncio.subprocess.DEVNULL,  # R07b
        stdout: int = asyncio.subprocess.PIPE,
        stderr: int = asyncio.subprocess.PIPE,
        pass_fds: Sequence[int] = (),
    ) -> Program:
        """Start a program; ``pass_fds`` are descriptors that it inherits. Raises OSError where it
        cannot be started, and ValueError for a NUL in an argument.
        """
        transport, pipes = await asyncio.get_running_loop().subprocess_exec(
            _Pipes,
            *argv,
            cwd=cwd,
            env=environ,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,  # R07c
        )
        return cls(transport, pipes)

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the program runs, negative the number of the signal that ended
        it.
        """
        return self._transport.get_returncode()

    async def wait(self) -> int | None:
        """Wait until the program ends and return its exit code. Processes that it started may still
        run.
        """
        await asyncio.shield(self.exited)
        return self.exit_code

    async def read(self, pipe: asyncio.StreamReader | None) -> bytes:
        """Return the next piece of ``stdout`` or ``stderr``; empty at its end, at most ``DRAIN``
        seconds after the program's end even if a child keeps the pipe open, and where ``pipe``
        is None.
        """
        if pipe is None:
            return b""
        reading = asyncio.ensure_future(pipe.read(_PIECE))
        try:
            await asyncio.wait({reading, self.exited}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({reading}, timeout=DRAIN)
            return reading.result() if reading.done() else b""
        finally:
            reading.cancel()

    def signal(self, number: int) -> bool:
        """Send a signal to the program's process group; return False where the group is empty."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # some members belong to another user
        return True

    def close(self) -> None:
        """Close the pipes, and kill the program with its process group if it still runs."""
        if self.exit_code is None:
            self.signal(signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._transport.close()


class ProcessGroup:
    """A program with every process that it started. Until ``release``, the watchdog kills all of
    them when the app dies.
    """

    def __init__(self, program: Program, mark: str, watchdog: Watchdog) -> None:
        self.program = program
        self._mark = mark
        self._watchdog = watchdog
        self._offspring = Offspring(mark, program.pid, watchdog.register_program(mark, program.pid))
        self._ending: asyncio.Task[None] | None = None
        self._hurried = asyncio.Event()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        cwd: str | Path,
        environ: Mapping[str, str],
        watchdog: Watchdog,
        *,
        pass_fds: Sequence[int] = (),
        **streams: int,
    ) -> ProcessGroup:
        """Start a program with a mark in its environment, which its children inherit. Raises
        OSError.
        """
        mark = watchdog.expect_program()
        try:
            marked = {**environ, MARK: mark}
            program = await Program.start(argv, cwd, marked, pass_fds=pass_fds, **streams)
        except BaseException:  # a cancellation too: nothing carries the mark
            watchdog.forget_program(mark)
            raise
        # No await from here on: a cancellation in between would leave the program behind.
        return cls(program, mark, watchdog)

    def release(self) -> None:
        """Tell the watchdog to forget the program: it has ended, or its processes may outlive the
        app.
        """
        self._watchdog.forget_program(self._mark)

    async def count_left(self) -> int:
        """Return how many processes of the group run."""
        return len(await asyncio.to_thread(self._find_members))

    async def end(self, grace: float = GRACE) -> None:
        """Send SIGTERM to all processes, and kill those that run after ``grace`` seconds.

        Further calls wait for the same end. A cancelled call kills the rest at once, and raises the
        cancellation when nothing runs any more.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_members(grace))
        await wait_until_done(self._ending, self._hurried.set)

    async def _end_members(self, grace: float) -> None:
        """Do the work of ``end``. The process table is read in a thread, since that may
        take long.
        """
        await asyncio.to_thread(lambda: self._signal_members(self._find_members(), signal.SIGTERM))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                # The end of processes that are not our children is not signalled.
                while await asyncio.to_thread(self._find_members):
                    if self._hurried.is_set():
                        break
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._hurried.wait(), LOOK)
        await asyncio.to_thread(kill_all, self._find_members, self._signal_members)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.program.wait(), _REAPED)

    def _signal_members(self, members: frozenset[int], number: signal.Signals) -> None:
        """Send a signal to the program's process group while the program runs, and to each of these
        processes.
        """
        if self.program.exit_code is None:
            self.program.signal(number)  # its id cannot be reused before it was waited for
        send_signal(members, number)

    def _find_members(self) -> frozenset[int]:
        """Return the ids of the processes that run now; blocking."""
        return self._offspring.find_running(lambda _: self.program.exit_code is None)
