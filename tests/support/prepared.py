"""The program in a process that had it imported before it began.

To import the program is most of what a start costs, and what few tests are about. A server of
each worker imports it once, and each start is a fork of the server: with arguments, environment,
folder, session, terminal and end of its own. Whoever tests the start itself
starts an interpreter, as ``test_pty_smoke`` does with the installed program.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import io
import json
import logging
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final, TextIO, TypedDict

PROGRAM: Final = (sys.executable, "-m", "duckflow_tui")
LONGEST: Final = 1 << 17  # bytes of a request
DEADLINE: Final = 60.0  # seconds for a run without a terminal
#: No test asks servers of the machine that it runs on, or has its sandbox, unless it says so.
UNTOUCHED: Final = {"DUCKFLOW_DISCOVERY__PORTS": "[]", "DUCKFLOW_SANDBOX__LEVEL": "none"}
_NUMBER: Final = struct.Struct("i")
#: What a session imports when it begins, when the screen is drawn or when a model is asked.
_MODULES: Final = (
    "duckflow_tui.cli",
    "duckflow_tui.headless",
    "duckflow_tui.replay_cli",
    "duckflow_tui.sessions_cli",
    "duckflow_tui.ui.app",
    "duckflow_tui.ui.first_frame",
    "duckflow_tui.ui.session_host",
    "openai",
    "textual.drivers.linux_driver",
)


class _Request(TypedDict):
    arguments: list[str]
    environ: dict[str, str]
    cwd: str
    terminal: bool
    bereft: bool


def is_prepared(command: Sequence[str]) -> bool:
    """Whether the command is the program, and no interpreter has to be started for it."""
    wanted = sys.platform == "linux"  # elsewhere a packet tells no end
    return wanted and tuple(command[: len(PROGRAM)]) == PROGRAM


class PreparedProcess:
    """A process of the program, told as much of as ``subprocess.Popen`` tells.

    ``streams`` are descriptors of its standard input, output and error; ``terminal``: it leads a
    session of its own, whose terminal is its standard input.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        streams: tuple[int, int, int],
        cwd: Path,
        environ: Mapping[str, str],
        terminal: bool = False,
        bereft: bool = False,
    ) -> None:
        """``bereft``: the folder that it works in is removed as it starts."""
        request: _Request = {
            "arguments": list(command[len(PROGRAM) :]),
            "environ": dict(environ),
            "cwd": str(cwd),
            "terminal": terminal,
            "bereft": bereft,
        }
        self._told, telling = os.pipe()
        try:
            socket.send_fds(_server(), [json.dumps(request).encode()], [*streams, telling])
        finally:
            os.close(telling)
        self.returncode: int | None = None
        self.pid = self._number()

    def _number(self) -> int:
        data = os.read(self._told, _NUMBER.size)
        assert data, "the server of prepared processes has ended"
        number: int = _NUMBER.unpack(data)[0]
        return number

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._ended_within(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; raises TimeoutExpired."""
        status = self._ended_within(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(PROGRAM, timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Does nothing once it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], seconds)[0]:
            self.returncode = self._number()
            os.close(self._told)
        return self.returncode


class PipedProcess(PreparedProcess):
    """The same with pipes, as ``subprocess.Popen`` makes them of text. ``out`` is where its
    standard output goes instead.
    """

    def __init__(
        self, command: Sequence[str], *, cwd: Path, environ: Mapping[str, str], out: IO[str] | None
    ) -> None:
        (given, writing), (reading, told), (errors, said) = (os.pipe() for _ in range(3))
        self.stdin: IO[str] = os.fdopen(writing, "w", encoding="utf-8")
        self.stdout: IO[str] = os.fdopen(reading, encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(errors, encoding="utf-8")
        streams = given, told if out is None else out.fileno(), said
        try:
            super().__init__(command, streams=streams, cwd=cwd, environ=environ)
        finally:
            for descriptor in (given, told, said):
                os.close(descriptor)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote and nobody has read, once it has ended; raises TimeoutExpired."""
        with ThreadPoolExecutor(2) as threads:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
            read = [
                threads.submit(stream.read)
                for stream in (self.stdout, self.stderr)
                if not stream.closed
            ]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            texts = [text.result() for text in read]
        for stream in (self.stdout, self.stderr):
            stream.close()
        return texts[0] if len(texts) > 1 else "", texts[-1]


@contextlib.contextmanager
def running_program(
    arguments: Sequence[str], *, cwd: Path, environ: Mapping[str, str]
) -> Generator[subprocess.Popen[bytes] | PreparedProcess]:
    """The program without a terminal, which nobody hears; killed at the end."""
    command, environ = [*PROGRAM, *arguments], {**UNTOUCHED, **environ}
    with open(os.devnull, "r+b") as nothing:
        process: subprocess.Popen[bytes] | PreparedProcess
        if is_prepared(command):
            number = nothing.fileno()
            streams = number, number, number
            process = PreparedProcess(command, streams=streams, cwd=cwd, environ=environ)
        else:
            process = subprocess.Popen(
                command, cwd=cwd, env=environ, stdin=nothing, stdout=nothing, stderr=nothing
            )
    try:
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE)


def run_program(
    arguments: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    bereft: bool = False,
    seconds: float = DEADLINE,
) -> subprocess.CompletedProcess[str]:
    """A run without a terminal: its exit status and what it printed; ``bereft``: the folder that
    it works in is removed as it starts. Raises TimeoutExpired after so many seconds.
    """
    command, environ = [*PROGRAM, *arguments], {**UNTOUCHED, **environ}
    if not is_prepared(command):
        return subprocess.run(
            ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *command] if bereft else command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
            cwd=cwd,
            env=environ,
        )
    with (
        open(os.devnull) as nothing,
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as err,
    ):
        streams = nothing.fileno(), out.fileno(), err.fileno()
        process = PreparedProcess(command, streams=streams, cwd=cwd, environ=environ, bereft=bereft)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, status, out.read(), err.read())


@functools.cache
def _server() -> socket.socket:
    """The way to the server of this worker, which ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # ``PYTHONPATH`` says where the program lies when a copy of it is tested.
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    with its:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.prepared", str(its.fileno())],
            cwd=Path(__file__).parents[1],
            env={**kept, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            pass_fds=[its.fileno()],
            start_new_session=True,
        )
    _servers.append(process)
    return ours


_servers: list[subprocess.Popen[bytes]] = []  # kept, so that nobody takes it for forgotten


def _serve(requests: socket.socket) -> list[str]:
    """Fork for each request; returns only in a process of the program, with its arguments."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, LONGEST, 4)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            if (pid := os.fork()) == 0:
                requests.detach()  # closed with all other descriptors
                request: _Request = json.loads(data)
                _become(request, descriptors)
                return request["arguments"]
            _tell_the_end(pid, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        os.waitpid(-1, os.WNOHANG)  # of one that has told its end


def _tell_the_end(pid: int, descriptors: Sequence[int]) -> None:
    """Tell the process's number, then its exit status, and end."""
    *streams, telling = descriptors
    for stream in streams:
        os.close(stream)
    os.write(telling, _NUMBER.pack(pid))
    _, status = os.waitpid(pid, 0)
    os.write(telling, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(request: _Request, descriptors: Sequence[int]) -> None:
    """Take over what an interpreter would find when it is started."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    os.closerange(3, max(descriptors) + 1)
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    if request["bereft"]:
        os.rmdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    sys.stdin = sys.__stdin__ = _stream(0, "r", "surrogateescape")
    sys.stdout = sys.__stdout__ = _stream(1, "w", "surrogateescape")
    sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace")


def _stream(number: int, mode: str, errors: str) -> TextIO:
    by_lines = number == 2 or os.isatty(number)
    raw = os.fdopen(number, f"{mode}b", closefd=False)
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=by_lines)


def read_words() -> None:
    """Read the words of the app before a fork: it takes longer than all else in a start."""
    from duckflow_tui.words.catalogue import LANGUAGES, load_entries

    for language in LANGUAGES:
        load_entries(language)


def end_threads() -> None:
    """Wait for what a piece of work left to end: a fork would lose it, and keep what it holds."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(DEADLINE)
            assert not thread.is_alive(), thread.name


def _main() -> int:
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # as the program does before it imports
    for module in _MODULES:
        importlib.import_module(module)
    read_words()
    gc.collect()
    gc.freeze()
    arguments = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["duckflow_tui", *arguments]
    from duckflow_tui.cli import main

    ended: list[int] = []
    atexit.register(_leave, ended)  # runs behind what the program registers
    ended.append(main())
    return ended[0]


def _leave(ended: Sequence[int]) -> None:
    """End without taking down the modules one by one, as ``cli.main`` does behind a screen."""
    if ended:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended[0])


if __name__ == "__main__":
    raise SystemExit(_main())
