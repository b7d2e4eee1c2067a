"""shell.run, shell.output, shell.end: commands of the model, and of the user with ``!``."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pydantic import Field, field_validator

from duckflow_tui.safety.command_parsing import SimpleCommand, read_command
from duckflow_tui.safety.hosts import MOST, read_host
from duckflow_tui.safety.paths import Place, WorkspaceError
from duckflow_tui.safety.policy import CallFact
from duckflow_tui.safety.risk import assess_command
from duckflow_tui.safety.rules import AllowRules
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import IdSource, Job, Spawn, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.decision import Action
from duckflow_tui.state.operations import Effect, Need, Outcome
from duckflow_tui.state.session import HOLDS, SandboxLevel, SandboxTested
from duckflow_tui.state.store import Store
from duckflow_tui.tools.background import BackgroundCommands
from duckflow_tui.tools.calls import held_back_by
from duckflow_tui.tools.command_runner import CommandRunner, RunningCommand, how_it_ended
from duckflow_tui.tools.control_files import ObeyedFiles, PendingLook
from duckflow_tui.tools.operation import (
    RUN,
    AnyOperation,
    Arguments,
    Operation,
    Output,
    ToolContext,
    ToolFault,
    Touched,
    Work,
    Written,
)
from duckflow_tui.tools.router import ToolRouter
from duckflow_tui.tools.snapshot import Before, FileCopies

EARLY: Final = 1.0  # seconds in which a background command may fail at once
MAX_COMMAND: Final = 20_000  # characters
IN_TERMINAL: Final = "!"  # before a line of the user's: it runs on their terminal
_NAMED: Final = 6  # files that undo does not cover, by name
_DEFAULT_LINES: Final = 50


#: Runs a program on the user's terminal: the line as they wrote it, the program with its arguments,
#: its folder and environment. Returns its exit code, negative for a signal; raises OSError.
LendTerminal = Callable[[str, Sequence[str], str, Mapping[str, str]], Awaitable[int]]


class Run(Arguments):
    command: str = Field(
        min_length=1,
        max_length=MAX_COMMAND,
        description="There is no input: give flags that ask nothing.",
    )
    cwd: str = "."
    timeout_s: float | None = Field(default=None, ge=1)
    background: bool = Field(
        default=False,
        description="For servers: returns at once.",
    )
    hosts: list[str] = Field(default_factory=list, max_length=MOST)  # told of as ``outside``
    outside: bool = False  # of the sandbox; told of where one held something back

    @field_validator("hosts", mode="before")
    @classmethod
    def _listed(cls, given: object) -> object:
        return given.replace(",", " ").split() if isinstance(given, str) else given

    @field_validator("hosts")
    @classmethod
    def _read(cls, given: list[str]) -> list[str]:
        return list(dict.fromkeys(map(read_host, given)))


class ReadOutput(Arguments):
    process_id: str
    lines: int = Field(default=_DEFAULT_LINES, ge=1, le=2_000)


class EndProcess(Arguments):
    process_id: str


class NamedCommands:
    """Knows what else the policy has to know of a call: whether it was named beforehand, by
    ``--allow`` or by the demo's own rule, and whether a sandbox holds it.
    """

    def __init__(
        self, rules: Iterable[str], workspace: Workspace, store: Store, *, undoes: bool = True
    ) -> None:
        """``undoes``: whether undo covers the files that commands change. Raises RuleRefused."""
        self.given = tuple(dict.fromkeys(rules))
        self._rules = AllowRules.parse_rules(self.given)
        self._workspace = workspace
        self._store = store
        self._undoes = undoes

    @property
    def prefixes(self) -> tuple[tuple[str, ...], ...]:
        """The beginnings among the rules, which hold only inside a full sandbox (R05)."""
        return self._rules.prefixes

    def revoke_rule(self, rule: str) -> None:
        """Revoke a rule."""
        self.given = tuple(given for given in self.given if given != rule)
        self._rules = AllowRules.parse_rules(self.given)

    async def call_facts(self, operation: AnyOperation, args: Arguments) -> frozenset[CallFact]:
        """``CallFact.NAMED`` where every part of a command, or the operation, was named; of a
        command also what holds it, and whether undo covers it.
        """
        if not isinstance(args, Run):
            named = bool(self._rules.operations) and self._rules.names_operation(operation.name)
            return frozenset({CallFact.NAMED}) if named else frozenset()
        unheld = args.outside and self._store.state.session.sandbox != "none"
        said = {
            CallFact.HELD: self._is_sandboxed(args),
            CallFact.UNHELD: unheld,
            CallFact.NAMED: not (unheld or self.find_objection(args)),
            CallFact.BACKGROUND: args.background,
            CallFact.UNDOABLE: self._undoes and not args.background,
        }
        return frozenset(fact for fact, holds in said.items() if holds)

    def find_objection(self, args: Run) -> str:
        """Empty for a command that was named; else the code of the reason. A rule holds in the
        folder it was given for, which is the workspace, and names a secret file only word for word.
        """
        line, root = read_command(args.command), self._workspace.root
        code = self._rules.find_objection(
            line, lambda target: self._is_root(args.cwd, target), held=self._is_sandboxed(args)
        )
        if code:
            return code
        if not self._is_root(args.cwd, "."):
            return "cd"
        shows = not self._rules.names_exactly(line) and assess_command(line, root).secrets  # R05d
        return "shows" if shows else ""

    def wanted_hosts(self, args: Run) -> tuple[str, ...]:
        """The hosts that it wants to reach and that need consent: where nothing keeps commands from
        the network, or this one is not held, they are no question of their own.
        """
        open_anyway = args.outside or self._store.state.session.sandbox in ("none", "external")
        return () if open_anyway else tuple(args.hosts)

    def _is_sandboxed(self, args: Run) -> bool:
        level = self._store.state.session.sandbox
        # Elsewhere every host could be reached.
        only_hosts = level == "full" or not self.wanted_hosts(args)
        return level in HOLDS and not args.outside and only_hosts

    def _is_root(self, cwd: str, target: str) -> bool:
        path = target if target.startswith("/") else f"{cwd.rstrip('/') or '/'}/{target}"
        try:
            place = self._workspace.locate_path(path)
        except WorkspaceError:
            return False
        return place.real == self._workspace.root and not place.leads_out


class Shell:
    """The shell operations over one runner."""

    def __init__(
        self,
        runner: CommandRunner,
        background: BackgroundCommands,
        named: NamedCommands,
        ids: IdSource,
        store: Store,
        copies: FileCopies,
        obeyed: ObeyedFiles,
    ) -> None:
        """``copies``: of the files, so that undo covers what a command changes."""
        self.lend_terminal: LendTerminal | None = None  # where a screen has one to give
        self.obeyed = obeyed
        self._looking = set[asyncio.Task[None]]()  # at what commands did that have ended
        self._copies = copies
        self._runner = runner
        self._background = background
        self.named = named
        self._ids = ids
        self._store = store

    def make_operations(self) -> tuple[AnyOperation, ...]:
        """shell.run, shell.output, shell.end."""
        limits = self._runner.limits
        return (
            Operation(
                name=RUN,
                summary="Run a command line in a fresh bash.",
                help=f"timeout_s: {limits.timeout_s:g}, at most {limits.max_timeout_s:g}.",
                effect=Effect.EXECUTE,
                arguments=Run,
                paths=lambda args: (args.cwd,),
                prepare=self._prepare_run,
                command=lambda args: args.command,
                hosts=self.named.wanted_hosts,
                content=frozenset({"command"}),  # braces are the shell's own there
                ready=self.test_sandbox,
                example={"command": "make"},
            ),
            Operation(
                name="shell.output",
                summary="The newest lines of a background command, and whether it runs.",
                effect=Effect.READ,
                arguments=ReadOutput,
                needs=(Need.PROCESS,),
                prepare=self._prepare_output,
            ),
            Operation(
                name="shell.end",
                summary="End a background command with everything it started.",
                effect=Effect.STATE,
                arguments=EndProcess,
                needs=(Need.PROCESS,),
                prepare=self._prepare_end,
            ),
        )

    async def end_process(self, process_id: str) -> bool:
        """The user ends a background command; False when it had ended. Raises ToolFault."""
        return await self._background.end(process_id, "user")

    async def close(self) -> None:
        """End every command and all they started; cancelled: they are killed at once."""
        await asyncio.gather(self._background.close(), self._runner.close())
        for looking in self._looking:
            looking.cancel()
        self.obeyed.close()
        if self._copies.file is not None:
            self._copies.close()

    async def test_sandbox(self) -> None:
        """Find out what holds a command, before the first one is judged or told of."""
        known, level = self._store.state.session.sandbox, await self._runner.find_level()
        changed = level != known and {level, known} <= {*HOLDS, "partial"}
        if known == "untested" or changed:
            await self._store.commit(SandboxTested(level=level))

    async def _prepare_run(
        self, args: Run, places: tuple[Place, ...], context: ToolContext
    ) -> Work:
        place = places[0]
        _check_command(args, place, by_user=context.by_user)
        if context.by_user and args.command.startswith(IN_TERMINAL):
            return self._in_terminal(args, place, context)
        if context.by_user:
            return self._users_own(args, place, context)
        limits = self._runner.limits
        seconds = limits.timeout_s if args.timeout_s is None else args.timeout_s
        if seconds > limits.max_timeout_s:
            limit = f"{limits.max_timeout_s:g}"
            raise ToolFault("command.timeout_too_long", Outcome.INVALID, limit=limit)
        facts = self._gate_facts(args, place, seconds)
        level = self._store.state.session.sandbox
        if args.background:
            self._background.check_room()
            return Work(lambda: self._begin_background(args, place, context, level), facts)
        started: list[RunningCommand] = []
        seen: list[Touched] = []
        covers = self._copies.limit > 0
        run = partial(self._run, args, place, context, seconds, level, started, seen)
        so_far = partial(_describe_stop, started, seen, context)
        more = partial(self._find_uncovered, args) if covers else None
        return Work(run, facts, so_far, seen, covers, more)

    async def _find_uncovered(self, args: Run) -> dict[str, str]:
        """The facts of the gate that name the files which undo would not cover, and those which it
        would cover only until the process ends; empty for none.
        """
        held = self._store.state.session.sandbox in HOLDS and not args.outside
        left, until_quit = await self._copies.list_limits(held=held)
        found = {"uncovered": left, "until_quit": until_quit}
        return {name: _name_first(paths) for name, paths in found.items() if paths}

    def _gate_facts(self, args: Run, place: Place, seconds: float) -> dict[str, str]:
        line = read_command(args.command)
        facts = {"runs": _describe_parts(line.parts, args.command), "cwd": place.shown}
        if args.background:
            facts["background"] = "yes"
        else:
            facts["timeout"] = f"{seconds:g} s"
        level = self._store.state.session.sandbox
        facts["sandbox"] = "outside" if args.outside and level != "none" else level
        if args.hosts:
            only = level == "full" and not args.outside
            facts["hosts" if only else "hosts_open"] = ", ".join(args.hosts)
            if facts["sandbox"] in ("full", "seatbelt"):
                facts["sandbox"] += "_hosts"
        facts["rule"] = self.named.find_objection(args) or "named"
        return facts

    async def _run(
        self,
        args: Run,
        place: Place,
        context: ToolContext,
        seconds: float,
        level: SandboxLevel,
        started: list[RunningCommand],
        seen: list[Touched],
    ) -> Output:
        """Run it in a sandbox of this level, as was shown; what it changed of files is known at its
        end, whatever that is.
        """
        self._check_level(level)
        root = context.workspace.root
        assessed = assess_command(read_command(args.command), place.real)
        before = await self._copies.take_snapshot()
        look = before and await self.obeyed.begin(args.command, before)
        try:
            running = await self._runner.start(
                args.command,
                place,
                context.output,
                outside=args.outside,
                named=assessed.secrets,
                **self._network_options(args, level),
            )
            started.append(running)
            in_time = await running.wait_until_done(seconds)
        finally:
            if before is not None and started:
                looking = asyncio.create_task(self._look_after(before, look, seen))
                self._looking.add(looking)
                looking.add_done_callback(self._looking.discard)
                if not _is_hurried():
                    await asyncio.shield(looking)
            elif look is not None:
                await self.obeyed.tell(look, Written({}))
            if started and started[0].unread and not _is_hurried():
                # What is new may be the command's own, and such as it could not write is not.
                later = await asyncio.to_thread(started[0].later)
                replaced = [path for path in later if str(root / path) in started[0].unread]
                self._warn_user("secret_replaced", args, replaced)
        if not in_time:
            output = running.make_output()
            raise ToolFault(
                "command.timed_out",
                summary=f"time-out · {running.duration_s:.1f}s",
                output=_add_touched(output, seen, context),
                seconds=f"{seconds:g}",
                text=output.text,
            )
        output = _add_touched(_describe_end(started), seen, context)
        held_back = "" if args.outside else held_back_by(level, output, running.unread)
        if held_back == "network" and args.hosts:
            held_back = ""  # what it may not reach is said, and the AI can ask for it
        if hidden := await _say_hidden(args, place, context, running):
            held_back = held_back or ("hidden" if output.exit_code else "")
            output = replace(output, text=output.text + hidden)
        return replace(output, held_back=held_back)

    async def _look_after(
        self, before: Before, look: PendingLook | None, seen: list[Touched]
    ) -> None:
        """Find out what a command did, and tell the user what other programs act on of it."""
        touched = await self._copies.find_touched(before)
        seen.append(touched)
        if look is not None:
            await self.obeyed.tell(look, touched.obeyed)

    def _check_level(self, shown: SandboxLevel) -> None:
        """Raise ToolFault where another sandbox holds commands than the one that was shown."""
        level = self._store.state.session.sandbox
        if level != shown:
            raise ToolFault("sandbox.level_changed", shown=shown, level=level)

    def _network_options(self, args: Run, level: SandboxLevel) -> dict[str, Any]:
        """The agreed access to the network, as the runner takes it."""
        hosts = self.named.wanted_hosts(args)
        return {"hosts": hosts} if level == "full" else {"network": bool(hosts)}

    async def _leave_out_others(self, workspace: Workspace, written: Written) -> Written:
        """Drop the files that stand as another call left them: the user was asked about that call,
        or told of it.
        """
        left: dict[str, str] = {}
        for message in self._store.state.messages:
            if isinstance(message, OperationMessage):
                changes = (*message.result.changes, *message.result.touched)
                left |= {change.target or change.path: change.after for change in changes}
        found = dict(written.files)
        for path in found.keys() & left.keys():
            with contextlib.suppress(WorkspaceError):
                if left[path] == await workspace.hash_file(workspace.locate_path(f"./{path}")):
                    del found[path]
        return written._replace(files=found)

    def _warn_user(self, key: str, args: Run, paths: list[str]) -> None:
        """Say to the user what a command did that works on after it, where it did anything."""
        if paths:
            command, shown = one_line(args.command, 100), _list_first(tuple(paths))
            self._background.notices.warn(f"processes.{key}", command=command, paths=shown)

    def _users_own(self, args: Run, place: Place, context: ToolContext) -> Work:
        """The user's own line. Undo covers nothing of it, but where it changed no file, there is
        nothing to cover either.
        """
        started: list[RunningCommand] = []
        seen: list[Touched] = []
        head = f"$ {args.command}\n"

        async def run() -> Output:
            before = await self._copies.take_snapshot(copy=False)
            running = await self._runner.start(args.command, place, context.output, own=True)
            started.append(running)
            ending = asyncio.create_task(running.end_if_drawing())
            try:
                await running.wait_until_done()
            finally:
                ending.cancel()
            if running.needs_terminal:
                command = one_line(args.command, 100)
                self._background.notices.warn("processes.needs_terminal", command=command)
                text = f"{head}{context.words('command.drew')}"
                return replace(running.make_output(), text=text, cut=0, blob="")
            touched = await self._copies.find_touched(before) if before is not None else Touched()
            if not (touched.changes or touched.destroyed or touched.uncovered):
                seen.append(Touched(whole=touched.whole))
            return _describe_end(started, head=head)

        return Work(run, {}, partial(_describe_end, started, "stopped", head), seen)

    def _in_terminal(self, args: Run, place: Place, context: ToolContext) -> Work:
        """The user's line with ``!`` before it: on the terminal that the screen gives away."""
        command = args.command.removeprefix(IN_TERMINAL).strip()

        async def run() -> Output:
            began = time.monotonic()
            try:
                if self.lend_terminal is None:
                    raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
                with self._runner.in_terminal(command, place) as (argv, folder, environ):
                    code = await self.lend_terminal(command, argv, folder, environ)
            except OSError as error:
                if error.errno != errno.ENOTTY:
                    raise
                shown = one_line(command, 100)
                self._background.notices.warn("processes.no_terminal", command=shown)
                raise ToolFault("command.no_terminal") from None
            how = f"{how_it_ended(code)} · {time.monotonic() - began:.1f}s"
            said = context.words("command.in_terminal")
            return Output(f"$ {command}\n{how}\n{said}", how, exit_code=code)

        return Work(run)

    async def _begin_background(
        self, args: Run, place: Place, context: ToolContext, level: SandboxLevel
    ) -> Output:
        self._check_level(level)
        process_id, workspace = self._ids("proc"), context.workspace
        assessed = assess_command(read_command(args.command), place.real)
        before = await self._copies.take_snapshot(copy=False)
        look = before and await self.obeyed.begin(args.command, before)

        async def ended() -> None:
            if look is not None:
                found = await self._copies.find_obeyed(look.stamps)
                await self.obeyed.tell(look, await self._leave_out_others(workspace, found))

        running = await self._runner.start(
            args.command,
            place,
            lambda text: self._background.add_output(process_id, text),
            outside=args.outside,
            named=assessed.secrets,
            **self._network_options(args, level),
        )
        try:
            await self._background.watch_command(
                process_id, context.call_id, args.command, place.shown, running, ended
            )
            early = await self._background.has_ended_within(process_id, EARLY)
        except asyncio.CancelledError:
            await self._background.end(process_id, "user")
            raise
        if early:
            output = _describe_end([running])
            text = f"{context.words('command.ended_at_once')}\n{output.text}"
            return replace(output, text=text + await _say_hidden(args, place, context, running))
        told = context.words(
            "command.runs",
            process=process_id,
            pid=str(running.group.program.pid),
            output=running.last_lines(_DEFAULT_LINES) or context.words("command.no_output"),
        )
        return Output(told, process_id)

    async def _prepare_output(
        self, args: ReadOutput, places: tuple[Place, ...], context: ToolContext
    ) -> Work:
        async def run() -> Output:
            return Output(await self._background.describe_newest(args.process_id, args.lines))

        return Work(run)

    async def _prepare_end(
        self, args: EndProcess, places: tuple[Place, ...], context: ToolContext
    ) -> Work:
        async def run() -> Output:
            ended = await self._background.end(args.process_id, "model")
            text = await self._background.describe_newest(args.process_id, _DEFAULT_LINES)
            if not ended:
                text = f"{context.words('command.had_ended')}\n{text}"
            return Output(text, args.process_id)

        return Work(run)


def _check_command(args: Run, place: Place, *, by_user: bool) -> None:
    """Raise ToolFault for a command that cannot be run."""
    if "\0" in args.command:
        raise ToolFault("command.nul", Outcome.INVALID)
    try:
        args.command.encode()
    except UnicodeEncodeError:
        raise ToolFault("command.no_text", Outcome.INVALID) from None
    if not place.exists:
        raise ToolFault("command.no_folder", path=place.label)
    if not place.is_dir:
        raise ToolFault("command.folder_is_file", path=place.label)


def _describe_end(started: list[RunningCommand], stopped: str = "", head: str = "") -> Output:
    """How a command ended, then what it printed; of one that never began, nothing."""
    if not started:
        return Output(head)
    output = started[0].make_output()
    first = f"{stopped} after {started[0].duration_s:.1f}s" if stopped else output.summary
    return replace(output, text=f"{head}{first}\n{output.text}", summary=first)


def _describe_parts(parts: Sequence[SimpleCommand], command: str) -> str:
    """Return what a command line runs, one program a line. One program that the line names as it
    is needs no second reading: then it is the line itself.
    """
    if len(parts) == 1 and parts[0].argv[0] in command:
        return command
    return "\n".join(f"{part.joiner} {part.text}".strip() for part in parts) or command


def _describe_stop(
    started: list[RunningCommand], seen: list[Touched], context: ToolContext
) -> Output:
    return _add_touched(_describe_end(started, "stopped"), seen, context)


async def _say_hidden(
    args: Run, place: Place, context: ToolContext, running: RunningCommand
) -> str:
    """A line for the model of a path that the command names, or that it printed where it failed,
    and that its sandbox hides; empty for none.
    """
    failed = running.group.program.exit_code
    text = f"{args.command}\n{running.last_lines(_DEFAULT_LINES) if failed else ''}"
    path = await asyncio.to_thread(running.find_hidden_path, text, place.real)
    return f"\n{context.words('sandbox.hidden', path=path)}" if path else ""


def _is_hurried() -> bool:
    """Whether it was stopped a second time: then nothing else is waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 1


def _name_first(paths: tuple[str, ...]) -> str:
    more = [f"+{len(paths) - _NAMED:,}"] if len(paths) > _NAMED else []
    return ", ".join([*(one_line(path, 60) for path in paths[:_NAMED]), *more])


def _list_first(paths: tuple[str, ...]) -> str:
    named = ", ".join(one_line(path, 100) for path in paths[:_NAMED])
    return named if len(paths) <= _NAMED else f"{named} and {len(paths) - _NAMED} more"


def _add_touched(output: Output, seen: list[Touched], context: ToolContext) -> Output:
    """The same with what undo does not cover of what the command changed."""
    if not seen:
        return output
    found, text = seen[0], output.text
    if found.uncovered:
        paths = _list_first(found.uncovered)
        text = f"{text}\n{context.words('command.not_undone', paths=paths)}"
    return replace(output, text=text)


class OwnCommands:
    """Runs the user's lines, each as a job of its own; the key they pressed is the consent."""

    def __init__(self, router: ToolRouter, ids: IdSource, spawn: Spawn) -> None:
        self._router = router
        self._ids = ids
        self._spawn = spawn
        self._jobs: dict[str, Job] = {}

    def run(self, text: str) -> str:
        """Start a line; returns the id of its call, empty for a line that says nothing."""
        if not text.strip():
            return ""
        call_id = self._ids("call")
        action = Action(
            call_id=call_id, operation=RUN, args={"command": text.strip()}, reasoning=""
        )
        self._jobs[call_id] = self._spawn(self._run_guarded(action), "command")
        return call_id

    def stop(self, call_id: str = "") -> bool:
        """End that command with all it started, or every one of the user's; False for none."""
        found = False
        for name, job in self._jobs.items():
            if call_id in ("", name):
                # Behind the job's first step, without which it could not say that it was stopped.
                asyncio.get_running_loop().call_soon(job.cancel)
                found = True
        return found

    async def _run_guarded(self, action: Action) -> None:
        try:
            await self._router.call(action, by_user=True)
        finally:
            self._jobs.pop(action.call_id, None)
