"""The engine: one session's loops and tools behind the calls that a screen needs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from duckflow_tui.safety.paths import WorkspaceError
from duckflow_tui.safety.rules import ANY_END
from duckflow_tui.session.branch import branch_of
from duckflow_tui.session.rewind import RecordedPast
from duckflow_tui.session.rewind_actions import RewindActions
from duckflow_tui.state.base import LocalizedText, Spawn, one_line
from duckflow_tui.state.calls import OperationFinished, OperationMessage
from duckflow_tui.state.conversation import Level, UserMessage
from duckflow_tui.state.gates import (
    DENY,
    IN_SANDBOX,
    DraftRemarks,
    FilePreview,
    GateAnswer,
    GateChoice,
    Grant,
    GrantAdded,
    GrantRevoked,
    Remark,
)
from duckflow_tui.state.memory import MemoryEdited, OwnField, find_edit_problem
from duckflow_tui.state.operations import ApprovalMode, Effect, Outcome
from duckflow_tui.state.session import (
    HOLDS,
    MAX_NAME,
    DraftSaved,
    ModeChanged,
    ModelsChosen,
    RemarksSaved,
    SessionPinned,
    SessionTitled,
)
from duckflow_tui.state.turn import TurnFinished
from duckflow_tui.state.usage import Role
from duckflow_tui.tools.listing import iter_files, list_top
from duckflow_tui.tools.memory import MemoryFault, MemoryKind, MemoryLine, memory_operations
from duckflow_tui.tools.operation import RUN
from duckflow_tui.tools.session_diff import session_diff
from duckflow_tui.tools.shell import LendTerminal, OwnCommands
from duckflow_tui.tools.undo import find_command_since
from duckflow_tui.tools.watch import FileWatcher
from duckflow_tui.work.actions import PlanActions
from duckflow_tui.work.checks import RequirementChecks
from duckflow_tui.work.compaction import Compactor
from duckflow_tui.work.inbox import Inbox
from duckflow_tui.work.notes import note_changes
from duckflow_tui.work.pace import PaceActions
from duckflow_tui.work.plan_dispatch import PlanDesk
from duckflow_tui.work.plan_operations import plan_operations
from duckflow_tui.work.requirements import LedgerActions
from duckflow_tui.work.services import TurnParts
from duckflow_tui.work.steering import PhaseKeeper, TurnControl
from duckflow_tui.work.task_loop import TaskLoop

if TYPE_CHECKING:
    from duckflow_tui.llm.endpoints import ModelsInUse
    from duckflow_tui.llm.learned_models import LearnedModels
    from duckflow_tui.session.memory import ProjectMemory
    from duckflow_tui.session.project_rules import ProjectRules
    from duckflow_tui.session.trust import ProjectTrust
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.store import Record, Store
    from duckflow_tui.tools.mcp.servers import McpServers
    from duckflow_tui.tools.shell import NamedCommands, Shell
    from duckflow_tui.tools.undo import UndoReport


class Engine:
    """One session, used by screens and headless runs, which watch its Store.

    ``send``, ``pause``, ``change_queued`` and ``take_back`` are methods of the inbox,
    ``answer_gate`` of ``rules``, ``answer_card`` of the desk, ``proposed_text`` of the router.
    """

    def __init__(
        self,
        parts: TurnParts,
        shell: Shell,
        servers: McpServers | None,
        memory: ProjectMemory,
        past: RecordedPast,
        spawn: Spawn,
        trust: ProjectTrust,
        kept: ProjectRules | None = None,
    ) -> None:
        """``servers``: the MCP servers of the settings, if any. ``memory`` and ``kept``, the stored
        rules, belong to the project; ``past`` reads this session's earlier states.
        """
        self.store = parts.store
        self.notices = parts.notices
        self.stories: dict[str, str] = {}  # of the demo: the requests that begin them, by name
        self.begun: Sequence[Record] = ()  # records from before anybody could subscribe
        self._models = parts.models
        self._router = parts.router
        self._checks = RequirementChecks(parts.store, parts.ids, parts.router, parts.notices.words)
        self._shell = shell
        self.servers = servers
        self.trust = trust
        self._spawn = spawn
        router = parts.router
        self._watcher = FileWatcher(parts.store, router.workspace, router.own_writes)
        self._gone = False  # whether the loss of the workspace was reported
        self._keeper = PhaseKeeper(parts.store, parts.machine)
        self._chosen: ModelsInUse | None = None  # to use once the turn has ended
        parts.store.subscribe(self._on_record)
        note_changes(parts.store, parts.notices.words)
        task_loop = TaskLoop(spawn)
        desk = PlanDesk(parts, task_loop, self._current_control, lambda: self._inbox.take_plan_up())
        router.registry.add(*plan_operations(desk), *memory_operations(memory))
        self._own_commands = OwnCommands(parts.router, parts.ids, spawn)
        inbox = self._inbox = Inbox(parts, desk, spawn)
        self.send, self.pause = inbox.send, inbox.pause
        self.change_queued, self.take_back = inbox.change_queued, inbox.take_back
        self.rules = RuleActions(parts, kept, shell.named)
        self.answer_gate, self.answer_card = self.rules.answer_gate, parts.desk.record_answer
        self.proposed_text = router.proposed_text
        self.plan = PlanActions(
            parts, desk.approvals, lambda: self._inbox.work_again(plan_first=True)
        )
        self.ledger = LedgerActions(parts.store)
        self.title = TitleActions(parts.store)
        self.working = WorkingActions(parts.store)
        self.context = Compactor(parts)
        self.rewind = RewindActions(parts, past, lambda: self._inbox.is_working)
        self.memory = MemoryActions(parts.store, memory)
        self.pace = PaceActions(parts.store, parts.desk, self._current_control)

    def _current_control(self) -> TurnControl | None:
        """Return the steering of the running turn; None without one."""
        turn = self._inbox.turn
        return turn.steering if turn is not None else None

    async def read_branch(self) -> str:
        """Return the folder's present branch; see ``branch_of``."""
        return await asyncio.to_thread(branch_of, self._router.workspace.root)

    async def chat_loop(self) -> None:
        """Run the inbox and the watcher of the workspace's files for the length of the session, as
        a worker of the group ``chat``.
        """
        await self.trust.use_trusted()
        watching = self._spawn(self._watcher.run(), "watch")
        try:
            await self._inbox.run()
        finally:
            watching.cancel()

    async def load_lazily(self) -> None:
        """Load what the first request needs, once the screen is shown: import the client, list the
        project, start the MCP servers.
        """
        await self._models.service.import_client()
        await self.note_project_files()
        if self.servers is not None:
            await self.servers.start_all()

    async def note_project_files(self) -> None:
        """List the top of the project into the prompts, for the session's first request; errors are
        ignored.
        """
        with contextlib.suppress(OSError, WorkspaceError):
            self._models.prompts.overview = await list_top(self._router.workspace)

    def probe_models(self) -> None:
        """Forget which features the models refused, so that the next request tries them again."""
        self._models.service.forget_lessons()

    @property
    def learned(self) -> LearnedModels:
        """The features that models were found to refuse, which requests leave out."""
        return self._models.service.learned

    @property
    def suggestion(self) -> str:
        """A first request to offer in the demo; empty elsewhere."""
        return next(iter(self.stories.values()), "")

    @property
    def models(self) -> ModelsInUse:
        """The models in use for each role."""
        return self._models.service.models_in_use

    def choose_models(self, models: ModelsInUse) -> bool:
        """Use these models from the next request on and return True. While a turn runs they are
        used only after it ends; then return False.
        """
        turn = self.store.state.turn
        if turn is not None and turn.pause != "paused":
            self._chosen = models
            return False
        self._change_models(models)
        return True

    def _change_models(self, models: ModelsInUse) -> None:
        """Use these models at once, record the change, and notify the user of each role with
        another model.
        """
        service, before, roles = self._models.service, self._models.service.roles, models.roles
        service.change_models(models)
        self._chosen = None
        endpoint, model = service.target_of("main")
        self.store.dispatch(
            ModelsChosen(
                endpoint=endpoint.name,
                model=model,
                base_url=endpoint.base_url,
                api_key_env=endpoint.api_key_env,
                context_window=service.window_of("main"),
                roles=roles.model_dump(exclude={"main"}, exclude_defaults=True),
                at=self.store.clock.now(),
            )
        )
        for role in get_args(Role):
            if getattr(roles, role) != getattr(before, role):
                endpoint, model = service.target_of(role)
                self.notices.say(f"llm.answers.{role}", model=model, host=endpoint.host)

    @property
    def is_working(self) -> bool:
        """Whether a turn runs, or will begin without further input."""
        return self._inbox.is_working

    async def retry(self) -> bool:
        """Work on the last message again, after an error or a stop. Returns False where there is
        nothing to retry.
        """
        return self._inbox.work_again()

    def operation_effect(self, operation: str) -> Effect | None:
        """Return the effect of an operation; None for an unknown one."""
        specs = self._router.registry.specs()
        return next((spec.effect for spec in specs if spec.name == operation), None)

    def keep_draft(self, text: str) -> None:
        """Record the composer's text, so that a resumed session has it."""
        if text != self.store.state.draft:
            self.store.dispatch(DraftSaved(text=text))

    def keep_remarks(self, about: str, remarks: tuple[Remark, ...]) -> None:
        """Record the remarks on the lines of the proposal ``about``; a resumed session shows them
        again if it asks for the same proposal.
        """
        kept = DraftRemarks(about=about, remarks=remarks) if remarks else DraftRemarks()
        if kept != self.store.state.remarks:
            self.store.dispatch(RemarksSaved(kept=kept))

    def set_mode(self, mode: ApprovalMode) -> None:
        """Change the approval mode from the next call on; an open gate stays open."""
        if mode is not self.store.state.mode:
            self.store.dispatch(ModeChanged(mode=mode, at=self.store.clock.now()))

    def resume(self) -> None:
        """Continue after a pause, with messages that a stop left queued, or with the plan."""
        self._inbox.resume()
        state = self.store.state
        plan = state.active_plan
        if state.turn is None and not state.queue and plan is not None and plan.may_go_on:
            self.plan.run_plan()

    def stop(self) -> None:
        """End the running turn and the user's own commands now."""
        self._inbox.stop()
        self._own_commands.stop()

    def lend_terminal(self, lend: LendTerminal) -> None:
        """Set the function by which the user's own commands get the terminal."""
        self._shell.lend_terminal = lend

    async def run_command(self, text: str) -> None:
        """Start the user's own command beside the other work; ``stop`` ends it. One that begins
        with ``!`` gets the terminal.
        """
        self._own_commands.run(text)

    async def end_process(self, process_id: str) -> bool:
        """End a background command with its child processes; returns False where it had ended
        already.
        """
        if process_id and self._own_commands.stop(process_id):
            return True
        return await self._shell.end_process(process_id)

    async def tell_left_changes(self) -> None:
        """Notify the user of file changes by commands of an earlier session that ended without
        looking at them.
        """
        await self._shell.obeyed.tell_left()

    async def undo(self, *, anyway: bool = False, one: bool = False, ignored: bool = False) -> None:
        """Undo the changes that the last approval allowed, and notify the user of the result;
        refused while a turn runs. ``anyway``: also where a file was changed since. ``one``: only
        the last call of that approval. ``ignored``: also the newest command where it overwrote
        only ignored files.
        """
        if self.store.state.turn is not None:
            self.notices.warn("undo.busy")
            return
        undoing = self._router.undoing
        self._report_undo(
            [await undoing.undo_last(anyway=anyway, ignored=ignored)]
            if one or ignored
            else await undoing.undo_allowed(anyway=anyway)
        )
        await self._checks.look_again()

    async def redo(self, *, anyway: bool = False, one: bool = False, whole: bool = False) -> None:
        """Redo the changes undone last, and notify the user of the result; refused while a turn
        runs. ``anyway``: also where a file was changed since. ``one``: only the last call.
        ``whole``: all undone changes, until one fails.
        """
        if self.store.state.turn is not None:
            self.notices.warn("undo.busy")
            return
        undoing, goes_on = self._router.undoing, True
        while goes_on:
            reports = (
                [await undoing.redo_last(anyway=anyway)]
                if one
                else await undoing.redo_allowed(anyway=anyway)
            )
            self._report_undo(reports)
            complete = all(report.complete for report in reports)
            goes_on = whole and complete and bool(self.store.state.undone_calls)
        await self._checks.look_again()

    def redact(self, text: str) -> str:
        """Return the text with known secrets replaced."""
        return self._router.redact(text)

    async def session_diff(self) -> tuple[tuple[FilePreview, ...], str]:
        """Return the file changes since the session began, and the newest command whose changes are
        not known; empty for none.
        """
        undoing, state = self._router.undoing, self.store.state
        words = self.notices.words
        found = await session_diff(state, undoing.workspace, undoing.blobs, words)
        return found, find_command_since(state, None)

    def _report_undo(self, reports: list[UndoReport]) -> None:
        """Report each undo or redo as a notice."""
        for report in reports:
            level = Level.INFO if report.undone else Level.WARNING
            words = self.notices.words
            told = "\n".join(words(name, **values) for name, values in report.for_model)
            params = report.params | ({"why": words(report.why)} if report.why else {})
            self.notices.say(report.key, level, for_model=told, aside=False, **params)

    def workspace_files(self) -> AsyncGenerator[list[str], None]:
        """Yield the workspace's paths for the file picker in batches, without ignored files."""
        return iter_files(self._router.workspace)

    def _on_record(self, state: AgentState, record: Record) -> None:
        """Change models once a turn has ended. After a failed call, report once if the workspace
        folder is gone or was replaced; nothing is written to it then.
        """
        if self._chosen is not None and isinstance(record.event, TurnFinished):
            self._change_models(self._chosen)
        if not isinstance(record.event, OperationFinished) or self._gone:
            return
        if (
            record.event.message.result.outcome is Outcome.ERROR
            and not self._router.workspace.is_intact()
        ):
            self._gone = True
            self.notices.error("workspace.gone", path=state.session.workspace)

    async def close(self) -> None:
        """End commands and MCP servers, add the session's counts to the memory, and close
        connections.
        """
        self._own_commands.stop()
        try:
            closing = [self._shell.close(), self.memory.close()]
            if self.servers is not None:
                closing.append(self.servers.close())
            await asyncio.gather(*closing)
        finally:
            self.store.detach()  # events of a cancelled turn are not recorded
            self._inbox.close_inbox()
            await self._models.service.aclose()


class TitleActions:
    """Name and pin of the open session; for other sessions see ``session.catalog``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rename_session(self, name: str) -> str:
        """Name the session, on one line; empty removes the name. Returns the name."""
        name = one_line(name, MAX_NAME)
        if name != self._store.state.session.name:
            self._store.dispatch(SessionTitled(name=name))
        return name

    def pin_session(self, pinned: bool) -> None:
        """List the session first, or no longer."""
        if pinned != self._store.state.session.pinned:
            self._store.dispatch(SessionPinned(pinned=pinned))


class RuleActions:
    """The session's rules: answers to gates that make rules, denials, and revocation; stores those
    of the project.
    """

    def __init__(self, parts: TurnParts, kept: ProjectRules | None, named: NamedCommands) -> None:
        """``kept`` is None in sessions that store no rules: headless (R19), and the demo."""
        self._store, self._desk, self._notices = parts.store, parts.desk, parts.notices
        self._prompts = parts.models.prompts
        self._router, self._ids = parts.router, parts.ids
        self._kept = kept
        self._named = named

    @property
    def command_line_rules(self) -> tuple[Grant, ...]:
        """The rules of ``--allow``, and the demo's own, as grants."""
        return tuple(
            Grant(grant_id=rule, operation="--allow", path=rule, gate_id="", source="command_line")
            for rule in self._named.given
        )

    @property
    def path(self) -> str:
        """The file of the project's rules; empty where none are stored."""
        return self._kept.path if self._kept is not None else ""

    async def load_rules(self, denials: Sequence[str]) -> None:
        """Put into force the denials of the settings and the stored rules of the project. An
        unreadable file is reported as a notice.
        """
        self.set_denials(denials)
        if self._kept is None:
            return
        try:
            rules = await asyncio.to_thread(self._kept.load)
        except OSError as error:
            self._notices.warn("rules.unread", path=self.path, reason=_describe_error(error))
            return
        for rule in rules:
            self._store.dispatch(GrantAdded(grant=rule))

    async def answer_gate(self, answer: GateAnswer) -> None:
        """Record the user's answer to a gate, and store the rule where the answer makes one for the
        project. A rule that cannot be stored holds for this session only, with a notice. Raises
        StateError for a gate that is not open.
        """
        await self._desk.record_answer(answer)
        if answer.choice is not GateChoice.PROJECT or self._kept is None:
            return
        rule = next(g for g in self._store.state.grants if g.gate_id == answer.gate_id)
        try:
            await asyncio.to_thread(self._kept.add, rule)
        except OSError as error:
            now = self._store.clock.now()
            if rule in self._store.state.grants:
                self._store.dispatch(GrantRevoked(grant=rule, at=now))
                self._store.dispatch(GrantAdded(grant=rule.replace(source="key")))
            self._notices.warn("rules.not_kept", path=self.path, reason=_describe_error(error))

    def set_denials(self, rules: Sequence[str]) -> None:
        """Make these rules the only denials that come from the settings (R06)."""
        grants = self._store.state.grants
        standing = [g for g in grants if g.operation == DENY and g.source == "settings"]
        for grant in standing:
            if grant.path not in rules:
                now = self._store.clock.now()
                self._store.dispatch(GrantRevoked(grant=grant, at=now))
        for rule in dict.fromkeys(rules):  # R06g
            if rule not in [grant.path for grant in standing]:
                self.add_denial(rule, "settings")

    def add_denial(self, rule: str, source: Literal["key", "settings"] = "key") -> None:
        """Add a rule to this session that denies what ``safety.rules.find_denying_rule`` matches by
        it.
        """
        now, rule_id = self._store.clock.now(), self._ids("grant")
        grant = Grant(
            grant_id=rule_id, operation=DENY, path=rule, gate_id="", source=source, at=now
        )
        self._store.dispatch(GrantAdded(grant=grant))

    async def find_unusable_rule(self) -> str:
        """Return a rule of the command line that allows commands by their beginning, where no full
        sandbox is active (R05); empty for none. Waits for the test of the sandbox.
        """
        if not self._named.prefixes or await self._is_sandboxed():  # R05b
            return ""
        return next(rule for rule in self._named.given if rule.endswith(ANY_END))

    async def _is_sandboxed(self) -> bool:
        """Whether commands run in a full sandbox; waits for its test."""
        run = self._router.registry.get(RUN)
        if run is not None and run.ready is not None:
            await run.ready()
        return self._store.state.session.sandbox in HOLDS

    async def allow_in_sandbox(self) -> bool:
        """Allow all commands in the sandbox without a question, as ``--sandboxed`` asks (R19).
        Returns False where there is no full sandbox.
        """
        if not await self._is_sandboxed():
            return False
        now, rule_id = self._store.clock.now(), self._ids("grant")
        rule = Grant(
            grant_id=rule_id,
            operation=RUN,
            path=IN_SANDBOX,
            gate_id="",
            source="command_line",
            at=now,
        )
        await self._store.commit(GrantAdded(grant=rule))
        return True

    async def revoke_rule(self, rule: Grant) -> LocalizedText | None:
        """Revoke a rule at once. Returns a message where the rule is gone already or cannot be
        deleted from the project's file; else None.
        """
        if rule.source == "command_line":
            self._named.revoke_rule(rule.path)
        elif rule not in self._store.state.grants:
            return LocalizedText(key="rules.gone")
        await self._store.commit(GrantRevoked(grant=rule, at=self._store.clock.now()))
        if rule.source == "project" and self._kept is not None:
            try:
                await asyncio.to_thread(self._kept.remove, rule.grant_id)
            except OSError as error:
                params = {"path": self.path, "reason": _describe_error(error)}
                return LocalizedText(key="rules.not_forgotten", params=params)
        return None


def _describe_error(error: OSError) -> str:
    """Return the system's message for an error."""
    return error.strerror or str(error)


class WorkingActions:
    """The user's edits of the working memory (S4-103)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write_field(self, name: OwnField, items: Sequence[str]) -> LocalizedText | None:
        """Replace the items of a field; ``goal`` and ``why_now`` hold one item at most. Returns the
        problem that prevents it, or None.
        """
        given = tuple(line for item in items if (line := " ".join(item.split())))
        if problem := find_edit_problem(name, given):
            return problem
        value = getattr(self._store.state.memory, name)
        if given != tuple(item for item in ((value,) if isinstance(value, str) else value) if item):
            self._store.dispatch(MemoryEdited(name=name, items=given))
        return None


def count_session(state: AgentState) -> dict[str, int]:
    """Return a session's counts for the memory: files read, successful operations, requests."""
    asked = sum(isinstance(m, UserMessage) and not m.aside for m in state.messages)
    done = sum(
        isinstance(m, OperationMessage) and m.result.outcome is Outcome.OK for m in state.messages
    )
    return {
        "total_files": len(state.files_read),
        "successful_operations": done,
        "total_conversations": asked,
    }


class MemoryActions:
    """Changes of the project's memory by the user. Each method returns the fault that prevented the
    change, or None.
    """

    def __init__(self, store: Store, notes: ProjectMemory) -> None:
        self._store = store
        self.notes = notes
        self._before = count_session(store.state)

    async def add_line(self, text: str, kind: MemoryKind = "preference") -> MemoryFault | None:
        """Add a note."""
        return await _catch_fault(self.notes.remember(text, kind))

    async def remove_line(self, line: MemoryLine) -> MemoryFault | None:
        """Remove a line that the list of lines returned."""
        return await _catch_fault(self.notes.forget(line))

    async def create_file(self) -> MemoryFault | None:
        """Create the notes file where it is missing, for the user's editor."""
        return await _catch_fault(self.notes.create_file())

    async def close(self) -> None:
        """Add the counts of this session to the totals."""
        now = count_session(self._store.state)
        await self.notes.add_counts({key: now[key] - self._before[key] for key in now})


async def _catch_fault(work: Awaitable[None]) -> MemoryFault | None:
    """Await ``work`` and return its MemoryFault, or None."""
    try:
        await work
    except MemoryFault as fault:
        return fault
    return None
