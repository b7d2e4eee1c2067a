"""The engine: one session's loops and tools behind the few calls a screen needs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from duckflow_tui.safety.paths import WorkspaceError
from duckflow_tui.safety.rules import ANY_END
from duckflow_tui.session.branch import branch_of, is_uncommitted
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
from duckflow_tui.tools.undo import command_since
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
    """Built once for a session. Screens call it; headless runs call it; both watch its Store.

    ``send``, ``pause``, ``change_queued`` and ``take_back`` are the inbox's own methods,
    ``answer_gate`` that of ``rules``, ``answer_card`` the desk's, ``proposed_text`` the router's.
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
        """``servers`` are those of the settings, if any; ``memory`` and ``kept`` rules are of the
        project, ``past`` what was recorded of this session.
        """
        self.store = parts.store
        self.notices = parts.notices
        self.stories: dict[str, str] = {}  # of the demo: the requests that begin them, by name
        self.begun: Sequence[Record] = ()  # what was recorded before anybody could watch
        self._models = parts.models
        self._router = parts.router
        self._checks = RequirementChecks(parts.store, parts.ids, parts.router, parts.notices.words)
        self._shell = shell
        self.servers = servers
        self.trust = trust
        self._spawn = spawn
        router = parts.router
        self._watcher = FileWatcher(parts.store, router.workspace, router.own_writes)
        self._repository = router.workspace.stat_path(".git")  # of the folder, when it began
        self._gone = False  # that the workspace went was said
        self._keeper = PhaseKeeper(parts.store, parts.machine)
        self._chosen: ModelsInUse | None = None  # for when the turn ends
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
        turn = self._inbox.turn
        return turn.steering if turn is not None else None

    async def branch_now(self) -> tuple[str, bool]:
        """The branch that the folder is on, and whether something is not committed; of that nothing
        is known before the user trusts the folder (R12), nor of a repository that came since while
        a command runs, which may be writing what git obeys.
        """
        workspace, state = self._router.workspace, self.store.state
        branch = await asyncio.to_thread(branch_of, workspace.root)
        if not (branch and self.trust.given):
            return branch, False
        now, then = workspace.stat_path(".git"), self._repository
        if now is None or then is None or not os.path.samestat(now, then):
            runs = [process.is_running for process in state.processes]
            if any(runs) or any(call.operation == RUN for call in state.running):
                return branch, False
        return branch, await is_uncommitted(workspace.root)

    async def chat_loop(self) -> None:
        """The inbox; runs as long as the session, as a worker of the group ``chat``."""
        await self.trust.use_trusted()
        watching = self._spawn(self._watcher.run(), "watch")
        try:
            await self._inbox.run()
        finally:
            watching.cancel()

    async def load_lazily(self) -> None:
        """Load what the first request needs, after the screen stands."""
        await self._models.service.import_client()
        await self.note_project_files()
        if self.servers is not None:
            await self.servers.start_all()

    async def note_project_files(self) -> None:
        """Note what lies at the top of the project, for the first request of the session."""
        with contextlib.suppress(OSError, WorkspaceError):
            self._models.prompts.overview = await list_top(self._router.workspace)

    def probe_models(self) -> None:
        """Ask each model again for what it refused once: a server may have been renewed."""
        self._models.service.forget_lessons()

    @property
    def learned(self) -> LearnedModels:
        """The models' refusals, which each next request takes into account."""
        return self._models.service.learned

    @property
    def suggestion(self) -> str:
        """A first request to offer, where there is an obvious one."""
        return next(iter(self.stories.values()), "")

    @property
    def models(self) -> ModelsInUse:
        """Which models do the work now."""
        return self._models.service.models_in_use

    def choose_models(self, models: ModelsInUse) -> bool:
        """Have these models answer from the next request on. While a turn runs, once it has ended:
        then False.
        """
        turn = self.store.state.turn
        if turn is not None and turn.pause != "paused":
            self._chosen = models
            return False
        self._change_models(models)
        return True

    def _change_models(self, models: ModelsInUse) -> None:
        """Have these models answer at once, record it, and say which role changed its model."""
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
        """Whether a turn runs, or begins without another word of the user."""
        return self._inbox.is_working

    async def retry(self) -> bool:
        """Work on the last message again, after an error or a stop."""
        return self._inbox.work_again()

    def operation_effect(self, operation: str) -> Effect | None:
        """The effect of an operation; None for one there is not."""
        specs = self._router.registry.specs()
        return next((spec.effect for spec in specs if spec.name == operation), None)

    def keep_draft(self, text: str) -> None:
        """Keep the composer's text, so that it is there when the session goes on."""
        if text != self.store.state.draft:
            self.store.dispatch(DraftSaved(text=text))

    def keep_remarks(self, about: str, remarks: tuple[Remark, ...]) -> None:
        """Keep the remarks on the lines of the proposal ``about``, so that they are there again
        when the session goes on and asks for exactly that.
        """
        kept = DraftRemarks(about=about, remarks=remarks) if remarks else DraftRemarks()
        if kept != self.store.state.remarks:
            self.store.dispatch(RemarksSaved(kept=kept))

    def set_mode(self, mode: ApprovalMode) -> None:
        """Another approval mode from the next call on; an open gate stays open."""
        if mode is not self.store.state.mode:
            self.store.dispatch(ModeChanged(mode=mode, at=self.store.clock.now()))

    def resume(self) -> None:
        """Go on after a pause, with messages that a stop left waiting, or with the plan."""
        self._inbox.resume()
        state = self.store.state
        plan = state.active_plan
        if state.turn is None and not state.queue and plan is not None and plan.may_go_on:
            self.plan.run_plan()

    def stop(self) -> None:
        """End the running turn now, and the commands that the user runs."""
        self._inbox.stop()
        self._own_commands.stop()

    def lend_terminal(self, lend: LendTerminal) -> None:
        """Let the user's own commands have the terminal, where they ask for it."""
        self._shell.lend_terminal = lend

    async def run_command(self, text: str) -> None:
        """Run the user's own command beside everything else; ``stop`` ends it. With a ``!`` before
        it, it gets the terminal.
        """
        self._own_commands.run(text)

    async def end_process(self, process_id: str) -> bool:
        """End a command in the background with all it started; False when it had ended."""
        if process_id and self._own_commands.stop(process_id):
            return True
        return await self._shell.end_process(process_id)

    async def tell_left_changes(self) -> None:
        """Tell what commands of an earlier session changed whose end it did not see."""
        await self._shell.obeyed.tell_left()

    async def undo(self, *, anyway: bool = False, one: bool = False, ignored: bool = False) -> None:
        """Take back what was allowed last; says what it did or why it did not. ``anyway``: also
        where a file was changed since. ``one``: one file of those that one answer allowed.
        ``ignored``: the newest command counts also where it overwrote ignored files alone.
        """
        if self.store.state.turn is not None:
            self.notices.warn("undo.busy")
            return
        undoing, before = self._router.undoing, self._met_counts
        self._report_undo(
            [await undoing.undo_last(anyway=anyway, ignored=ignored)]
            if one or ignored
            else await undoing.undo_allowed(anyway=anyway)
        )
        await self._recheck_requirements(before)

    async def redo(self, *, anyway: bool = False, one: bool = False, whole: bool = False) -> None:
        """Make again what was undone last; says what it did or why it did not. ``anyway``: also
        where a file was changed since. ``one``: one file of those that one answer allowed.
        ``whole``: and all that was undone before, until one cannot be.
        """
        if self.store.state.turn is not None:
            self.notices.warn("undo.busy")
            return
        undoing, before, goes_on = self._router.undoing, self._met_counts, True
        while goes_on:
            reports = (
                [await undoing.redo_last(anyway=anyway)]
                if one
                else await undoing.redo_allowed(anyway=anyway)
            )
            self._report_undo(reports)
            complete = all(report.complete for report in reports)
            goes_on = whole and complete and bool(self.store.state.undone_calls)
        await self._recheck_requirements(before)

    @property
    def _met_counts(self) -> tuple[int, int]:
        """How many requirements are met, and of how many."""
        objective = self.store.state.objective
        return objective.met_counts if objective is not None else (0, 0)

    async def _recheck_requirements(self, before: tuple[int, int]) -> None:
        """Check the requirements by the files as they are now. Where that changes how many are met
        and a verdict stands in the chat, say so, as the verdict is of before.
        """
        await self._checks.look_again()
        met, counted = self._met_counts
        if (met, counted) != before and self.store.state.last_review is not None:
            self.notices.say("judging.now", met=str(met), counted=str(counted))

    def redact(self, text: str) -> str:
        """The text without the keys that the app knows."""
        return self._router.redact(text)

    async def session_diff(self) -> tuple[tuple[FilePreview, ...], str]:
        """The changes of files since the session began, and the newest command of which that is not
        known, empty for none.
        """
        undoing, state = self._router.undoing, self.store.state
        words = self.notices.words
        found = await session_diff(state, undoing.workspace, undoing.blobs, words)
        return found, command_since(state, None)

    def _report_undo(self, reports: list[UndoReport]) -> None:
        """Say in the chat what each undo or redo did."""
        for report in reports:
            level = Level.INFO if report.undone else Level.WARNING
            words = self.notices.words
            told = "\n".join(words(name, **values) for name, values in report.for_model)
            params = report.params | ({"why": words(report.why)} if report.why else {})
            self.notices.say(report.key, level, for_model=told, aside=False, **params)

    def workspace_files(self) -> AsyncGenerator[list[str], None]:
        """Paths for the file picker in batches, as they are found, ignored ones left out."""
        return iter_files(self._router.workspace)

    def _on_record(self, state: AgentState, record: Record) -> None:
        """Change models between turns; say once that the folder went away or was replaced: nothing
        is written from then on.
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
        """End commands and servers, and close connections; the session is over."""
        self._own_commands.stop()
        try:
            closing = [self._shell.close(), self.memory.close()]
            if self.servers is not None:
                closing.append(self.servers.close())
            await asyncio.gather(*closing)
        finally:
            self.store.detach()  # what a turn that is left still lays down is not recorded
            self._inbox.close_inbox()
            await self._models.service.aclose()


class TitleActions:
    """One for a session that is open; others are changed by ``session.catalog``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rename_session(self, name: str) -> str:
        """Name the session, on one line; empty takes the name away. Returns the name."""
        name = one_line(name, MAX_NAME)
        if name != self._store.state.session.name:
            self._store.dispatch(SessionTitled(name=name))
        return name

    def pin_session(self, pinned: bool) -> None:
        """At the top of the list, or no longer."""
        if pinned != self._store.state.session.pinned:
            self._store.dispatch(SessionPinned(pinned=pinned))


class RuleActions:
    """The rules in force under the user's keys: kept for the project, and taken back."""

    def __init__(self, parts: TurnParts, kept: ProjectRules | None, named: NamedCommands) -> None:
        """``kept`` is None where a session keeps no rules: headless (R19), and in the demo."""
        self._store, self._desk, self._notices = parts.store, parts.desk, parts.notices
        self._prompts = parts.models.prompts
        self._router, self._ids = parts.router, parts.ids
        self._kept = kept
        self._named = named

    @property
    def command_line_rules(self) -> tuple[Grant, ...]:
        """The rules of the command line, and the demo's own."""
        return tuple(
            Grant(grant_id=rule, operation="--allow", path=rule, gate_id="", source="command_line")
            for rule in self._named.given
        )

    @property
    def path(self) -> str:
        """The file of the project's rules; empty where none are kept."""
        return self._kept.path if self._kept is not None else ""

    async def load_rules(self, denials: Sequence[str]) -> None:
        """Those of the settings that forbid, and the rules that were kept for the project, hold in
        this session.
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
        """Record the user's key, and keep the rule that it made for the project; one that cannot be
        kept holds in this session. Raises StateError as ``Desk.answer`` does.
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
        """The settings forbid these from now on, and nothing else (R06)."""
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
        """Forbid in this session what ``safety.rules.find_denying_rule`` finds by this rule."""
        now, rule_id = self._store.clock.now(), self._ids("grant")
        grant = Grant(
            grant_id=rule_id, operation=DENY, path=rule, gate_id="", source=source, at=now
        )
        self._store.dispatch(GrantAdded(grant=grant))

    async def find_unusable_rule(self) -> str:
        """A rule of the command line with a beginning, where no full sandbox holds commands (R05);
        empty for none.
        """
        if not self._named.prefixes or await self._is_sandboxed():  # R05b
            return ""
        return next(rule for rule in self._named.given if rule.endswith(ANY_END))

    async def _is_sandboxed(self) -> bool:
        """Whether commands run in a full sandbox; waits until it has been tested."""
        run = self._router.registry.get(RUN)
        if run is not None and run.ready is not None:
            await run.ready()
        return self._store.state.session.sandbox in HOLDS

    async def allow_in_sandbox(self) -> bool:
        """The command line consents to all that a sandbox holds (R19); False where none does."""
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
        """Take a rule back, at once; returns what is in the way of forgetting it for good."""
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
    return error.strerror or str(error)


class WorkingActions:
    """The user's own changes of the working memory (S4-103)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write_field(self, name: OwnField, items: Sequence[str]) -> LocalizedText | None:
        """Let a field say just this, each item on a line of its own; of goal and why_now one, and
        none for nothing. Returns what is in the way, or None.
        """
        given = tuple(line for item in items if (line := " ".join(item.split())))
        if problem := find_edit_problem(name, given):
            return problem
        value = getattr(self._store.state.memory, name)
        if given != tuple(item for item in ((value,) if isinstance(value, str) else value) if item):
            self._store.dispatch(MemoryEdited(name=name, items=given))
        return None


def count_session(state: AgentState) -> dict[str, int]:
    """The totals of what a session has read, done and been asked."""
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
    """Each method that changes something returns what is in the way, or None."""

    def __init__(self, store: Store, notes: ProjectMemory) -> None:
        self._store = store
        self.notes = notes
        self._before = count_session(store.state)

    async def add_line(self, text: str, kind: MemoryKind = "preference") -> MemoryFault | None:
        """Note a line."""
        return await _catch_fault(self.notes.remember(text, kind))

    async def remove_line(self, line: MemoryLine) -> MemoryFault | None:
        """Take a line out, as ``lines`` had it."""
        return await _catch_fault(self.notes.forget(line))

    async def create_file(self) -> MemoryFault | None:
        """Make the file where there is none, for the user's own editor."""
        return await _catch_fault(self.notes.create_file())

    async def close(self) -> None:
        """The session is over: its counts join the totals."""
        now = count_session(self._store.state)
        await self.notes.add_counts({key: now[key] - self._before[key] for key in now})


async def _catch_fault(work: Awaitable[None]) -> MemoryFault | None:
    try:
        await work
    except MemoryFault as fault:
        return fault
    return None
