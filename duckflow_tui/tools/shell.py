"""The operations shell.run, shell.output and shell.end, and the command lines that the user runs
with ``!``.
"""

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
from duckflow_tui.state.base import IdSource, Job, Spawn, name_files, one_line
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
IN_TERMINAL: Final = "!"  # begins a line of the user that runs on their terminal
_DEFAULT_LINES: Final = 50


#: Runs a program on the user's terminal: the line as they wrote it, the program with its arguments,
#: its folder and environment. Returns its exit code, negative for a signal; raises OSError.
LendTerminal = Callable[[str, Sequence[str], str, Mapping[str, str]], Awaitable[int]]


class Run(Arguments):
    """Arguments of shell.run."""

    command: str = Field(
        min_length=1,
        max_length=MAX_COMMAND,
        description="There is no input: give flags that ask nothing.",
    )
    cwd: str = "."
    timeout_s: float | None = Field(default=None, ge=1)
    background: bool = Field(default=False, description="For servers: returns at once.")
    # Both are described to the model when the sandbox has held a command back.
    hosts: list[str] = Field(default_factory=list, max_length=MOST)
    outside: bool = False  # of the sandbox

    @field_validator("hosts", mode="before")
    @classmethod
    def _split_hosts(cls, given: object) -> object:
        """Split hosts that are given as one text."""
        return given.replace(",", " ").split() if isinstance(given, str) else given

    @field_validator("hosts")
    @classmethod
    def _parse_hosts(cls, given: list[str]) -> list[str]:
        """Return the hosts in their usual form, each once. Raises ValueError for an invalid one."""
        return list(dict.fromkeys(map(read_host, given)))


class ReadOutput(Arguments):
    """Arguments of shell.output."""

    process_id: str
    lines: int = Field(default=_DEFAULT_LINES, ge=1, le=2_000)


class EndProcess(Arguments):
    """Arguments of shell.end."""

    process_id: str


class NamedCommands:
    """The commands and operations that the user has allowed beforehand, by ``--allow`` or the
    demo's own rule, and the facts that the policy needs about a call.
    """

    def __init__(
        self, rules: Iterable[str], workspace: Workspace, store: Store, *, undoes: bool = True
    ) -> None:
        """``undoes``: whether undo covers the files that commands change. Raises RuleRefused for an
        invalid rule.
        """
        self.given = tuple(dict.fromkeys(rules))
        self._rules = AllowRules.parse_rules(self.given)
        self._workspace = workspace
        self._store = store
        self._undoes = undoes

    @property
    def prefixes(self) -> tuple[tuple[str, ...], ...]:
        """The rules that allow any command line with this beginning, as words; they apply only in a
        full sandbox (R05).
        """
        return self._rules.prefixes

    def revoke_rule(self, rule: str) -> None:
        """Revoke a rule; one that was not given is ignored."""
        self.given = tuple(given for given in self.given if given != rule)
        self._rules = AllowRules.parse_rules(self.given)

    async def call_facts(self, operation: AnyOperation, args: Arguments) -> frozenset[CallFact]:
        """Return the facts about a call: ``CallFact.NAMED`` where a rule allows all of it; for a
        command also whether the sandbox holds it or it asks to run outside, whether it runs in
        the background, and whether undo covers it.
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
        """Return the code of the reason why no rule allows a command; empty where one does. Rules
        apply in the workspace's root only, and a command that names a secret file needs a rule
        with the same words.
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
        """Return the hosts that a command asks for and that need consent; none where it runs
        without a sandbox, since nothing keeps it from the network then.
        """
        open_anyway = args.outside or self._store.state.session.sandbox in ("none", "external")
        return () if open_anyway else tuple(args.hosts)

    def _is_sandboxed(self, args: Run) -> bool:
        """Whether a sandbox would hold the command, with no network but the hosts it asks for."""
        level = self._store.state.session.sandbox
        # In a sandbox that is not full, a network reaches every host.
        only_hosts = level == "full" or not self.wanted_hosts(args)
        return level in HOLDS and not args.outside and only_hosts

    def _is_root(self, cwd: str, target: str) -> bool:
        """Whether ``target``, seen from the folder ``cwd``, is the workspace's root."""
        path = target if target.startswith("/") else f"{cwd.rstrip('/') or '/'}/{target}"
        try:
            place = self._workspace.locate_path(path)
        except WorkspaceError:
            return False
        return place.real == self._workspace.root and not place.leads_out


class Shell:
    """The operations of the shell, and what they need."""

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
        """``copies`` keeps copies of files, so that undo covers the changes of commands; ``obeyed``
        warns of changes to files that other programs act on.
        """
        self.lend_terminal: LendTerminal | None = None  # set by a screen that can lend its terminal
        self.obeyed = obeyed
        self._looking = set[asyncio.Task[None]]()  # at the changes of commands that have ended
        self._copies = copies
        self._runner = runner
        self._background = background
        self.named = named
        self._ids = ids
        self._store = store

    def make_operations(self) -> tuple[AnyOperation, ...]:
        """Return the operations shell.run, shell.output and shell.end."""
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
        """End a background command for the user; return False if it had already ended. Raises
        ToolFault for an unknown one.
        """
        return await self._background.end(process_id, "user")

    async def close(self) -> None:
        """End all commands and every process that they started; a cancelled call kills them at
        once.
        """
        await asyncio.gather(self._background.close(), self._runner.close())
        for looking in self._looking:
            looking.cancel()
        self.obeyed.close()
        if self._copies.file is not None:
            self._copies.close()

    async def test_sandbox(self) -> None:
        """Find out the sandbox's level, and record it if it is new or has changed."""
        known, level = self._store.state.session.sandbox, await self._runner.find_level()
        changed = level != known and {level, known} <= {*HOLDS, "partial"}
        if known == "untested" or changed:
            await self._store.commit(SandboxTested(level=level))

    async def _prepare_run(
        self, args: Run, places: tuple[Place, ...], context: ToolContext
    ) -> Work:
        """Check the arguments of shell.run and return the work that runs the command. Raises
        ToolFault.
        """
        place = places[0]
        _check_command(args, place, by_user=context.by_user)
        if context.by_user and args.command.startswith(IN_TERMINAL):
            return self._prepare_in_terminal(args, place, context)
        if context.by_user:
            return self._prepare_own_line(args, place, context)
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

        def so_far() -> Output:
            """Return the output of the command when it is stopped."""
            return _add_touched(_describe_end(started, "stopped"), seen, context)

        more = partial(self._find_uncovered_facts, args) if covers else None
        return Work(run, facts, so_far, seen, covers, more)

    async def _find_uncovered_facts(self, args: Run) -> dict[str, str]:
        """Return the gate's facts on files that undo does not cover: ``uncovered``, and
        ``until_quit`` for those covered only until the process ends. A fact without files is
        left out.
        """
        held = self._store.state.session.sandbox in HOLDS and not args.outside
        left, until_quit = await self._copies.list_limits(held=held)
        found = {"uncovered": left, "until_quit": until_quit}
        return {name: name_files(paths) for name, paths in found.items() if paths}

    def _gate_facts(self, args: Run, place: Place, seconds: float) -> dict[str, str]:
        """Return the facts that the gate shows of a command: programs, folder, time limit, sandbox,
        hosts and rule.
        """
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
        """Run a command in a sandbox of the level that was shown, and return its output.
        ``started`` receives the running command and ``seen`` its changes of files, also when it
        is stopped. Raises ToolFault where the level has changed or the time is up.
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
                # A new file may be the command's own; one that it could not write must not change.
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
            held_back = ""  # the refused hosts are reported, and the model can ask for them
        if hidden := await _note_hidden_path(args, place, context, running):
            held_back = held_back or ("hidden" if output.exit_code else "")
            output = replace(output, text=output.text + hidden)
        return replace(output, held_back=held_back)

    async def _look_after(
        self, before: Before, look: PendingLook | None, seen: list[Touched]
    ) -> None:
        """Find the changes of files that a command made, add them to ``seen``, and warn the user of
        changes to files that other programs act on.
        """
        touched = await self._copies.find_touched(before)
        seen.append(touched)
        if look is not None:
            await self.obeyed.tell(look, touched.obeyed)

    def _check_level(self, shown: SandboxLevel) -> None:
        """Raise ToolFault if the sandbox's level is no longer the one that was shown."""
        level = self._store.state.session.sandbox
        if level != shown:
            raise ToolFault("sandbox.level_changed", shown=shown, level=level)

    def _network_options(self, args: Run, level: SandboxLevel) -> dict[str, Any]:
        """Return the options of the runner for the network: the hosts in a full sandbox, else
        whether there is a network.
        """
        hosts = self.named.wanted_hosts(args)
        return {"hosts": hosts} if level == "full" else {"network": bool(hosts)}

    async def _drop_others_files(self, workspace: Workspace, written: Written) -> Written:
        """Return the written files without those that another call left as they are now, since the
        user was asked about that call or told of it.
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
        """Warn the user of these paths, which a command has changed; ``key`` is the warning's key
        below ``processes.``. Without paths, do nothing.
        """
        if paths:
            command, shown = one_line(args.command, 100), name_files(paths)
            self._background.notices.warn(f"processes.{key}", command=command, paths=shown)

    def _prepare_own_line(self, args: Run, place: Place, context: ToolContext) -> Work:
        """Return the work that runs the user's own command line. Its changes are not kept for undo,
        but it is noted whether it changed any file.
        """
        started: list[RunningCommand] = []
        seen: list[Touched] = []
        head = f"$ {args.command}\n"

        async def run() -> Output:
            """Run the line and return its output; a program that draws on the terminal is ended."""
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

    def _prepare_in_terminal(self, args: Run, place: Place, context: ToolContext) -> Work:
        """Return the work that runs the user's line after ``!`` on their terminal, which the screen
        lends.
        """
        command = args.command.removeprefix(IN_TERMINAL).strip()

        async def run() -> Output:
            """Run the line on the terminal; warn the user and raise ToolFault where there
            is none.
            """
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
        """Start a background command and return its id with its first output, or its end if it ends
        within EARLY seconds. Raises ToolFault where the sandbox's level has changed.
        """
        self._check_level(level)
        process_id, workspace = self._ids("proc"), context.workspace
        assessed = assess_command(read_command(args.command), place.real)
        before = await self._copies.take_snapshot(copy=False)
        look = before and await self.obeyed.begin(args.command, before)

        async def ended() -> None:
            """Warn the user of files that other programs act on and that the command has
            changed.
            """
            if look is not None:
                found = await self._copies.find_obeyed(look.stamps)
                await self.obeyed.tell(look, await self._drop_others_files(workspace, found))

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
            return replace(
                output, text=text + await _note_hidden_path(args, place, context, running)
            )
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
        """Return the work that describes the newest output of a background command."""

        async def run() -> Output:
            """Describe the newest lines of the command and whether it runs."""
            return Output(await self._background.describe_newest(args.process_id, args.lines))

        return Work(run)

    async def _prepare_end(
        self, args: EndProcess, places: tuple[Place, ...], context: ToolContext
    ) -> Work:
        """Return the work that ends a background command and describes its last output."""

        async def run() -> Output:
            """End the command with all its processes and describe its last lines."""
            ended = await self._background.end(args.process_id, "model")
            text = await self._background.describe_newest(args.process_id, _DEFAULT_LINES)
            if not ended:
                text = f"{context.words('command.had_ended')}\n{text}"
            return Output(text, args.process_id)

        return Work(run)


def _check_command(args: Run, place: Place, *, by_user: bool) -> None:
    """Raise ToolFault for a command with invalid characters, or whose folder does not exist."""
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
    """Return how a command ended, followed by its output; only ``head`` if it never started.
    ``stopped``: the word for a command that was stopped.
    """
    if not started:
        return Output(head)
    output = started[0].make_output()
    first = f"{stopped} after {started[0].duration_s:.1f}s" if stopped else output.summary
    return replace(output, text=f"{head}{first}\n{output.text}", summary=first)


def _describe_parts(parts: Sequence[SimpleCommand], command: str) -> str:
    """Return the programs that a command line runs, one a line; the line itself if it runs a single
    program that it names.
    """
    if len(parts) == 1 and parts[0].argv[0] in command:
        return command
    return "\n".join(f"{part.joiner} {part.text}".strip() for part in parts) or command


async def _note_hidden_path(
    args: Run, place: Place, context: ToolContext, running: RunningCommand
) -> str:
    """Return a line for the model about a path that the sandbox hides and that the command names,
    or printed when it failed; empty for none.
    """
    failed = running.group.program.exit_code
    text = f"{args.command}\n{running.last_lines(_DEFAULT_LINES) if failed else ''}"
    path = await asyncio.to_thread(running.find_hidden_path, text, place.real)
    return f"\n{context.words('sandbox.hidden', path=path)}" if path else ""


def _is_hurried() -> bool:
    """Whether the current task was cancelled more than once: then it must not wait for anything
    else.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 1


def _add_touched(output: Output, seen: list[Touched], context: ToolContext) -> Output:
    """Return the output with a note on the changed files that undo does not cover, if any."""
    if not (seen and seen[0].uncovered):
        return output
    note = context.words("command.not_undone", paths=name_files(seen[0].uncovered))
    return replace(output, text=f"{output.text}\n{note}")


class OwnCommands:
    """Runs the command lines of the user, each as a job of its own. No gate asks, since the user
    started them.
    """

    def __init__(self, router: ToolRouter, ids: IdSource, spawn: Spawn) -> None:
        self._router = router
        self._ids = ids
        self._spawn = spawn
        self._jobs: dict[str, Job] = {}

    def run(self, text: str) -> str:
        """Start a command line; return the id of its call, empty for a blank line."""
        if not text.strip():
            return ""
        call_id = self._ids("call")
        action = Action(
            call_id=call_id, operation=RUN, args={"command": text.strip()}, reasoning=""
        )
        self._jobs[call_id] = self._spawn(self._run_guarded(action), "command")
        return call_id

    def stop(self, call_id: str = "") -> bool:
        """Stop the command of this call with every process it started, or all of the user's for an
        empty id; return False where none runs.
        """
        found = False
        for name, job in self._jobs.items():
            if call_id in ("", name):
                # After the job's first step, since before it the stop could not be recorded.
                asyncio.get_running_loop().call_soon(job.cancel)
                found = True
        return found

    async def _run_guarded(self, action: Action) -> None:
        """Run the call and forget its job when it ends."""
        try:
            await self._router.call(action, by_user=True)
        finally:
            self._jobs.pop(action.call_id, None)
