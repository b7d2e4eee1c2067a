"""An MCP server that is a program on this machine: start, streams, log, and end."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duckflow_tui.safety.paths import lies_inside
from duckflow_tui.state.base import ModelText, ToldError
from duckflow_tui.tools.mcp.config import McpServerConfig, printable_line
from duckflow_tui.tools.process_group import ProcessGroup
from duckflow_tui.tools.watchdog import Watchdog

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


MAX_BYTES: Final = 512 * 1024  # bytes of a log file; one older file is kept
SHOWN: Final = 32 * 1024  # bytes of a log's end that are shown
_LINE: Final = 8 * 1024  # characters of a line that is held back until it is complete
_TAIL: Final = 2_000  # characters of the last lines, kept in memory for the reason of an end


class ServerLog:
    """The log of a server's standard error: whole lines without secrets, in a file that starts anew
    when it is full. Lines that cannot be written are dropped, so that a full disk does not stop
    a server.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        """``redact`` removes secrets from a text."""
        self.path = path
        self._redact = redact
        self._rest = ""
        self._tail = ""

    @property
    def last_line(self) -> str:
        """The newest line that is not empty, without secrets."""
        lines = f"{self._tail}{self._rest}".strip().split("\n")
        return self._redact(lines[-1].strip()) if lines else ""

    def note_start(self, title: str) -> None:
        """Write a heading with ``title`` for a new start of the server, and forget the lines before
        it.
        """
        self._rest = self._tail = ""
        self._write_text(f"--- {title}\n")

    def add_piece(self, piece: bytes) -> None:
        """Add a piece of the server's standard error; its last line is kept back until it is
        complete.
        """
        text = self._rest + piece.decode("utf-8", "replace")
        head, newline, self._rest = text.rpartition("\n")
        if len(self._rest) > _LINE:
            head, newline, self._rest = text, "\n", ""
        if not newline:
            return
        self._tail = f"{self._tail}{head}\n"[-_TAIL:]
        self._write_text(self._redact(f"{head}\n"))

    def add_line(self, text: str) -> None:
        """Write a line of the app itself."""
        self._write_text(f"{self._redact(text)}\n")

    def _write_text(self, text: str) -> None:
        """Append a text to the file; a full file is moved to ``.1`` first. Errors are ignored."""
        raw = text.encode("utf-8", "replace")
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._append_if_room(raw):
                os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
                self._append_if_room(raw[-MAX_BYTES:])

    def _append_if_room(self, raw: bytes) -> bool:
        """Append bytes to the file; return False, without writing, where it would exceed MAX_BYTES.
        Raises OSError.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        try:
            room = os.fstat(descriptor).st_size + len(raw) <= MAX_BYTES
            if room:
                os.write(descriptor, raw)
            return room
        finally:
            os.close(descriptor)


def log_end(path: Path) -> str:
    """Return the newest lines of a log, at most ``SHOWN`` bytes; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - SHOWN, 0))
            raw = file.read(SHOWN)
    except OSError:
        return ""
    text = raw.decode("utf-8", "replace")
    return text.partition("\n")[2] if size > SHOWN else text


MAX_LINE: Final = 4 * 1024 * 1024  # bytes of one message (R18)
MAX_GARBAGE: Final = 1_000  # lines in a row that are no messages, until the server is ended
GRACE_S: Final = 0.15  # seconds to end after its input was closed, and again after SIGTERM
_WAITING: Final = 64  # messages queued for a server that reads slowly
_PIECE: Final = 64 * 1024
_STDERR_PAUSE_S: Final = 0.01  # after a full piece, so that a flood of log lines slows the server
_LAST_WORDS_S: Final = 0.2  # seconds to read the output that it wrote before it ended

#: Variables of the app that a server gets besides its settings; none holds a secret.
_PASSED_ON: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_ALL",
    "LC_CTYPE", "LC_MESSAGES", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SYSTEMROOT",
    "APPDATA", "LOCALAPPDATA", "USERPROFILE", "TEMP", "TMP", "PATHEXT",
)  # fmt: skip


def server_environment(config: McpServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: a few harmless variables of the app, and those of its
    settings.
    """
    base = {name: environ[name] for name in _PASSED_ON if name in environ}
    return {**base, **config.env}


class ProgramRefused(ToldError):
    """A server's program must not be started."""


def server_program(config: McpServerConfig, environ: Mapping[str, str], workspace: Path) -> str:
    """Return the program to start: its absolute path if PATH has it, else the name as it is. Raises
    ProgramRefused for a program in the workspace found by PATH or a relative name, since
    whatever wrote it there would run.
    """
    name = config.command
    if os.path.isabs(name):
        return name
    found = shutil.which(name, path=server_environment(config, environ).get("PATH"))
    if found is None:
        return name  # starting it will fail with the system's message
    here = os.path.abspath(found)
    if lies_inside(here, workspace):
        values = {"program": printable_line(name, 80), "path": printable_line(here)}
        raise ProgramRefused("server.why.in_folder", **values)
    return here


class ServerProcess:
    """The running program of a server, with its children; ``ended`` is why it ended by itself."""

    def __init__(self, group: ProcessGroup, log: ServerLog, on_end: Callable[[], None]) -> None:
        """``on_end`` is called when no more messages come."""
        self._group = group
        self._log = log
        self._on_end = on_end
        self.grace_s = GRACE_S  # seconds
        self.fault: ModelText | None = None  # why the app ends it, such as output without messages
        self._told_to_end = False
        self.ended: ModelText | None = None  # why it ended by itself, once it has

    @property
    def is_running(self) -> bool:
        """Whether the program runs and has not broken the protocol."""
        return self._group.program.exit_code is None and not self.fault

    def end_output(self, fault: ModelText | None = None) -> None:
        """Note that no more messages come, because the program ended or because of this ``fault``,
        and call ``on_end``.
        """
        self.fault = self.fault or fault
        if not (self._told_to_end or self.ended):
            code = self._group.program.exit_code
            if self.fault:
                reason = self.fault
            elif code is None:
                reason = ModelText("server.why.silent", {})
            elif code < 0:
                reason = ModelText("server.why.signal", {"number": str(-code)})
            else:
                reason = ModelText("server.why.status", {"status": str(code)})
            last = self._log.last_line
            said = ModelText("server.why.said", {"reason": reason, "last": last})
            self.ended = said if last else reason
        self._on_end()

    async def wait(self, within_s: float) -> None:
        """Wait at most so many seconds for the program to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._group.program.wait()

    async def end(self) -> None:
        """Close the program's input, give it ``grace_s`` seconds, then end it with its child
        processes.
        """
        self._told_to_end = True
        try:
            if self._group.program.stdin is not None:
                self._group.program.stdin.close()
            await self.wait(self.grace_s)
        finally:
            await self._group.end(self.grace_s)
            self._group.release()


@asynccontextmanager
async def stdio_server(
    config: McpServerConfig,
    program_path: str,
    environ: Mapping[str, str],
    cwd: Path,
    log: ServerLog,
    on_end: Callable[[], None],
    watchdog: Watchdog,
) -> AsyncGenerator[tuple[ServerProcess, TransportStreams]]:
    """Start a server's program and yield it with the streams for the SDK; it is ended with the
    block. Raises OSError.
    """
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp.types.jsonrpc import jsonrpc_message_adapter

    loop = asyncio.get_running_loop()
    group = await ProcessGroup.start(
        (program_path, *config.args),
        cwd,
        server_environment(config, environ),
        watchdog,
        stdin=asyncio.subprocess.PIPE,
    )
    # No await up to the try: a cancellation in between would leave the program behind.
    program = group.program
    server = ServerProcess(group, log, on_end)
    # Also if a child process keeps its output open.
    program.exited.add_done_callback(lambda _: loop.call_later(_LAST_WORDS_S, server.end_output))
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stderr is not None
    stdin, stdout, stderr = program.stdin, program.stdout, program.stderr
    inbox, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outbox = anyio.create_memory_object_stream[SessionMessage](_WAITING)

    async def deliver(line: bytes) -> bool:
        """Pass a line on to the SDK; return False, with a line in the log, if it is no message."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            shown = printable_line(line[:400].decode("utf-8", "replace"))
            log.add_line(f"[on its output, no message] {shown}")
            return False
        await inbox.send(SessionMessage(message))
        return True

    async def listen() -> None:
        """Read messages from the program until it ends or sends unusable output."""
        garbage = 0
        try:
            async with inbox:
                async for line in _iter_lines(stdout):
                    garbage = 0 if not line.strip() or await deliver(line) else garbage + 1
                    if garbage >= MAX_GARBAGE:
                        server.end_output(ModelText("server.why.text", {}))
                        return
                await server.wait(_LAST_WORDS_S)  # so that its exit code is known
                await asyncio.wait({logging}, timeout=_LAST_WORDS_S)  # and its last log lines
                server.end_output()
        except _TooLong:
            limit = {"limit": str(MAX_LINE // 1024 // 1024)}
            server.end_output(ModelText("server.why.too_long", limit))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session ended first

    async def speak() -> None:
        """Write the SDK's messages to the program."""
        async with outbox:
            async for item in outbox:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    stdin.write(f"{text}\n".encode("utf-8", "replace"))
                    await stdin.drain()
                except (ConnectionError, RuntimeError):
                    return  # the program has ended, which ``listen`` notices

    async def keep_log() -> None:
        """Write the program's standard error to the log."""
        while piece := await stderr.read(_PIECE):
            log.add_piece(piece)
            if len(piece) == _PIECE:
                await asyncio.sleep(_STDERR_PAUSE_S)

    logging = asyncio.create_task(keep_log(), name=f"mcp {config.name} log")
    jobs = [
        asyncio.create_task(listen(), name=f"mcp {config.name} output"),
        asyncio.create_task(speak(), name=f"mcp {config.name} input"),
        logging,
    ]
    try:
        yield server, (read, write)
    finally:
        try:
            await server.end()
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            for stream in (inbox, read, write, outbox):
                stream.close()
            program.close()


class _TooLong(Exception):
    """A line is longer than ``MAX_LINE``."""


async def _iter_lines(pipe: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """Yield the lines of a pipe without their line breaks. Raises _TooLong."""
    parts: list[bytes] = []
    size = 0
    while piece := await pipe.read(_PIECE):
        *whole, rest = piece.split(b"\n")
        for end in whole:
            yield b"".join((*parts, end))
            parts, size = [], 0
        if rest:
            parts.append(rest)
            size += len(rest)
        if size > MAX_LINE:
            raise _TooLong
    if parts:
        yield b"".join(parts)
