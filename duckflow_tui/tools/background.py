"""Background commands of a session, such as servers and watchers: watched, read and ended. All end
with the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from duckflow_tui.state.base import clip_value, name_files, one_line
from duckflow_tui.state.conversation import Level
from duckflow_tui.state.processes import (
    BackgroundProcess,
    ProcessEnded,
    ProcessOutput,
    ProcessStarted,
)
from duckflow_tui.state.store import Store
from duckflow_tui.tools.command_runner import RunningCommand, how_it_ended
from duckflow_tui.tools.notices import Notices
from duckflow_tui.tools.operation import ToolFault

MOST: Final = 16  # commands in the background at a time
TOLD_LINES: Final = 20  # last lines of an ended command, for the model

log = logging.getLogger("duckflow.commands")
Ender = Literal["user", "model", "app"]


@dataclass(slots=True)
class _Entry:
    """A background process and the task that watches it. ``ended_by``: who asked for its end; empty
    for nobody.
    """

    process: BackgroundProcess
    running: RunningCommand
    watcher: asyncio.Task[None]
    ended_by: Ender | Literal[""] = ""
    told: bool = False  # the model learns of its end from the result of a call
    later: set[str] = field(default_factory=set[str])  # secret files the user was warned of
    over: asyncio.Event = field(default_factory=asyncio.Event)


class BackgroundCommands:
    """Watches and ends the background commands of one session. The state lists them; this class
    holds their processes.
    """

    def __init__(self, store: Store, notices: Notices) -> None:
        self._store = store
        self.notices = notices
        self._entries: dict[str, _Entry] = {}

    def check_room(self) -> None:
        """Raise ToolFault when MOST commands are running."""
        running = [entry for entry in self._entries.values() if not entry.over.is_set()]
        if len(running) >= MOST:
            raise ToolFault("command.too_many", count=str(MOST))

    def add_output(self, process_id: str, text: str) -> None:
        """Record a piece of output of a background command; ignored for an unknown id."""
        if process_id in self._entries:
            now = self._store.clock.now()
            self._store.dispatch(ProcessOutput(process_id=process_id, text=text, at=now))

    async def watch_command(
        self,
        process_id: str,
        call_id: str,
        command: str,
        cwd: str,
        running: RunningCommand,
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        """Record a started command in the state and watch it in a task, which records its end and
        then awaits ``ended()``, unless the app ended it. Returns once the start is recorded.
        """
        process = BackgroundProcess(
            process_id=process_id,
            call_id=call_id,
            command=command,
            cwd=cwd,
            started_at=self._store.clock.now(),
        )
        watcher = asyncio.create_task(
            self._wait_for_end(process_id, ended), name=f"watch {process_id}"
        )
        self._entries[process_id] = _Entry(process, running, watcher)
        await self._store.commit(ProcessStarted(process=process))

    async def has_ended_within(self, process_id: str, seconds: float) -> bool:
        """Wait up to ``seconds`` for a command's end and return whether it came. If so, no notice
        tells the model of it: the caller has to.
        """
        entry = self._find_entry(process_id)
        entry.told = True
        try:
            async with asyncio.timeout(seconds):
                await entry.over.wait()
        except TimeoutError:
            return False
        finally:
            entry.told = entry.over.is_set()
        return True

    async def describe_newest(self, process_id: str, lines: int) -> str:
        """Return a command's state and its last ``lines`` lines for the model. Where it has ended,
        no notice tells the model of that any more. Raises ToolFault for an unknown id.
        """
        entry = self._find_entry(process_id)
        await self._tell_later(entry)
        text = entry.running.last_lines(lines) or "(no output)"
        state = next(p for p in self._store.state.processes if p.process_id == process_id)
        how = "running" if state.is_running else f"ended: {how_it_ended(state.exit_code)}"
        entry.told = entry.told or entry.over.is_set()
        return f"[{process_id}: {how}, {entry.running.duration_s:.0f} s]\n{text}"

    async def end(self, process_id: str, by: Ender) -> bool:
        """End a command and all processes it started; return False when it had ended already.
        Raises ToolFault for an unknown id.
        """
        entry = self._find_entry(process_id)
        if entry.over.is_set():
            return False
        entry.ended_by = entry.ended_by or by
        await entry.running.end()
        await entry.over.wait()
        return True

    async def close(self) -> None:
        """End all commands, as the session ends. If cancelled, they are killed at once."""
        watchers: list[asyncio.Task[None]] = []
        commands: list[RunningCommand] = []
        for entry in self._entries.values():
            if not entry.over.is_set():
                entry.ended_by = entry.ended_by or "app"
                commands.append(entry.running)
                watchers.append(entry.watcher)
        try:
            await asyncio.gather(*map(RunningCommand.end, commands))
            await asyncio.gather(*map(asyncio.shield, watchers), return_exceptions=True)
        finally:
            for watcher in watchers:
                watcher.cancel()

    async def _tell_later(self, entry: _Entry) -> None:
        """Warn the user, once for each file, of secret files that the command can read because they
        came after it began.
        """
        found = await asyncio.to_thread(entry.running.later)
        new = [path for path in found if path not in entry.later]
        entry.later.update(new)
        if new:
            command = one_line(entry.process.command, 60)
            self.notices.warn("processes.secret_later", command=command, paths=name_files(new))

    def _find_entry(self, process_id: str) -> _Entry:
        """Return the entry of a background command. Raises ToolFault for an unknown id."""
        entry = self._entries.get(process_id)
        if entry is None:
            known = ", ".join(self._entries) or "-"
            raise ToolFault("command.no_process", process=clip_value(process_id), known=known)
        return entry

    async def _wait_for_end(self, process_id: str, ended: Callable[[], Awaitable[None]]) -> None:
        """Wait for a command's end and record it; await ``ended()`` unless the app ended it; then
        tell the model, if it ended by itself or by the user and the model does not know yet.
        """
        entry = self._entries[process_id]
        running = entry.running
        try:
            await asyncio.shield(running.over)
            by = entry.ended_by or "itself"
            await self._store.commit(
                ProcessEnded(
                    process_id=process_id,
                    exit_code=running.group.program.exit_code,
                    ended_by=by,
                    output_blob=running.make_output().blob,
                    at=self._store.clock.now(),
                )
            )
            listed = {process.process_id for process in self._store.state.processes}
            for old in [old for old in self._entries if old not in listed]:
                del self._entries[old]
            if by != "app":
                await self._tell_later(entry)
                await ended()
        finally:
            told = entry.told
            entry.over.set()
        if by in ("itself", "user") and not told:
            self._tell_model(entry, by)

    def _tell_model(self, entry: _Entry, by: Literal["itself", "user"]) -> None:
        """Tell the user and the model by a notice that a command ended; the model also gets its
        last lines.
        """
        process, running = entry.process, entry.running
        how = running.end_words
        bad = by == "itself" and running.group.program.exit_code != 0
        lines = running.last_lines(TOLD_LINES)
        self.notices.say(
            f"processes.ended_{by}",
            Level.WARNING if bad else Level.INFO,
            for_model=self.notices.words(
                f"processes.ended_{by}",
                process=process.process_id,
                command=one_line(process.command, 200),
                how=how,
                seconds=f"{running.duration_s:.0f}",
                lines=lines or "–",
            ),
            command=one_line(process.command, 60),
            how=how,
            seconds=f"{running.duration_s:.0f}",
        )
