"""The composition root: builds the engine of a session from a ``SessionChoice``.

Importing this module imports all rooms, which is slow; a screen imports it in a thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from duckflow_tui.choice import SessionChoice, list_secrets
from duckflow_tui.engine import Engine, count_session
from duckflow_tui.llm.connections import Connections
from duckflow_tui.llm.contacts import outside
from duckflow_tui.llm.endpoints import Endpoint, Roles, Target
from duckflow_tui.llm.learned_models import LearnedModels
from duckflow_tui.llm.quirks import SILENT, Lesson
from duckflow_tui.llm.service import LLMService
from duckflow_tui.places import find_assets
from duckflow_tui.project_settings import tighten_settings
from duckflow_tui.prompting.budget import Budgets, ScriptCounter
from duckflow_tui.prompting.compiler import PromptCompiler
from duckflow_tui.prompting.side_questions import QuestionPrompts
from duckflow_tui.prompting.templates import notice_words
from duckflow_tui.safety.pending_questions import Desk, UnattendedDesk
from duckflow_tui.safety.policy import CallFact, PolicyRules
from duckflow_tui.safety.secrets import shield_process
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.session.branch import branch_of
from duckflow_tui.session.memory import KINDS, MemoryWords, ProjectMemory
from duckflow_tui.session.project_rules import ProjectRules
from duckflow_tui.session.recording import Recording, start_recording
from duckflow_tui.session.resume import resume
from duckflow_tui.session.rewind import RecordedPast
from duckflow_tui.session.trust import NOTES, SETTINGS, ProjectTrust, Texts, TrustAnswers
from duckflow_tui.settings import ApprovalSettings, McpSettings, PacemakerSettings, Settings
from duckflow_tui.shutdown import Ending
from duckflow_tui.state.base import Spawn, SystemClock, one_line, random_id
from duckflow_tui.state.pace import TaskProfile
from duckflow_tui.state.phase_machine import PhaseMachine, PhaseTable
from duckflow_tui.state.session import SessionInfo, SessionStarted
from duckflow_tui.state.store import Record, Store
from duckflow_tui.state.usage import WindowLearned
from duckflow_tui.tools.background import BackgroundCommands
from duckflow_tui.tools.command_runner import CommandLimits, CommandRunner, remove_left
from duckflow_tui.tools.control_files import ObeyedFiles
from duckflow_tui.tools.mcp.config import McpServerConfig
from duckflow_tui.tools.memory import MemoryKind
from duckflow_tui.tools.mentions import read_mentions
from duckflow_tui.tools.notices import Notices
from duckflow_tui.tools.operation import AnyOperation, Arguments, default_registry
from duckflow_tui.tools.router import ToolRouter
from duckflow_tui.tools.shell import NamedCommands, Shell
from duckflow_tui.tools.snapshot import FileCopies
from duckflow_tui.tools.watchdog import Watchdog
from duckflow_tui.words.catalogue import LANGUAGES, Catalogue, load_entries
from duckflow_tui.work.budget import BudgetLimits, CallBudget
from duckflow_tui.work.loop_limits import Pacemaker, PaceSettings
from duckflow_tui.work.model_calls import ModelAccess
from duckflow_tui.work.requests import RequestLog
from duckflow_tui.work.services import TurnParts, TurnSettings

if TYPE_CHECKING:
    from duckflow_tui.scripted.stage import Stage


@asynccontextmanager
async def open_engine(
    choice: SessionChoice, spawn: Spawn, ending: Ending | None = None
) -> AsyncGenerator[Engine]:
    """Build the engine of one session, resume or begin the session, and close all after the block.
    The caller starts the loops.

    From the first session on, other processes of the same user cannot inspect this one. Raises
    WorkspaceGone where the folder cannot be opened, OSError where the demo cannot create its files,
    and SessionFault where the session cannot be resumed.
    """
    shield_process()  # before any child process is started
    choice = await asyncio.to_thread(choice.load_keys)
    async with AsyncExitStack() as stack:
        stories: dict[str, str] = {}
        if choice.demo:
            from duckflow_tui.scripted.stage import open_stage

            stage = await stack.enter_async_context(
                open_stage(choice.language, fast=choice.flags.headless)
            )
            if ending is not None:
                ending.stages.append(stage)
            choice = _on_stage(choice, stage)
            choice = replace(choice, allowed=(*choice.allowed, *stage.commands))
            stories = stage.stories
        await asyncio.to_thread(remove_left, choice.sandbox.folder)
        watchdog = Watchdog()
        stack.push_async_callback(watchdog.close)
        recording = await asyncio.to_thread(
            start_recording,
            choice.places.state,
            choice.workspace,
            choice.redact,
            resume=choice.resume,
            keep=not choice.flags.no_session,
        )
        stack.push_async_callback(recording.close)
        store = Store(recording.state, SystemClock(), recording, last_seq=recording.last_seq)
        begun: list[Record] = []
        forget = store.subscribe(lambda _, record: begun.append(record))
        engine, workspace = build_engine(choice, spawn, store, watchdog, recording)
        stack.callback(workspace.close)
        stack.push_async_callback(engine.close)
        recording.follow_store(store, engine.notices)
        if recording.restored is not None:
            today = make_first_event(
                choice, recording.session_id, workspace.root, store.clock.now()
            )
            effect = engine.operation_effect
            await resume(store, engine.notices, recording.restored, today, workspace, effect)
            recording.restored = None  # frees many megabytes of a long session
        await engine.rules.load_rules(choice.settings.approval.deny)
        spawn(engine.tell_left_changes(), "looks")
        forget()
        engine.begun, engine.stories = begun, stories
        if ending is not None:
            ending.watch_session(recording, store, resumable=not choice.demo)
        yield engine


def _on_stage(choice: SessionChoice, stage: Stage) -> SessionChoice:
    """Return the choice with the demo's endpoint, servers and folders in place of the user's."""
    from duckflow_tui.scripted.servers import SERVERS

    servers = {
        server.name: McpServerConfig(
            name=server.name,
            command=sys.executable,
            args=server.args,
            schema_tool=server.schema_tool,
            query_tool=server.query_tool,
        )
        for server in SERVERS
    }
    settings = choice.settings.model_copy(
        update={
            "endpoints": {"demo": Endpoint(name="demo", base_url=stage.base_url, context=200_000)},
            "roles": Roles(main=f"demo/{stage.model}"),
            "mcp": McpSettings(servers=servers),
        }
    )
    approved = tuple(f"mcp.{name}.*" for name in servers)
    return replace(
        choice,
        settings=settings,
        workspace=stage.workspace,
        # deleted with the stage
        places=choice.places._replace(state=stage.own_state, data=stage.own_state / "data"),
        approved=approved,
    )


def build_engine(
    choice: SessionChoice, spawn: Spawn, store: Store, watchdog: Watchdog, recording: Recording
) -> tuple[Engine, Workspace]:
    """Build the engine of this choice, and the workspace that the caller closes after it; no loop
    is started. A new session's first event is recorded.

    ``watchdog`` ends the engine's child processes if the app is killed. Raises WorkspaceGone where
    the folder cannot be opened.
    """
    settings = choice.settings
    redact = choice.redact
    told = notice_words(find_assets("prompts"), choice.language)
    notices = Notices(store, random_id, redact, told)
    led = (os.environ.get(name) for name in ("GIT_DIR", "GIT_COMMON_DIR"))
    repositories = (Path(choice.workspace, place) for place in led if place)
    workspace = Workspace(
        choice.workspace, own_dirs=choice.places.own_dirs, repositories=repositories
    )
    if recording.restored is None:
        event = make_first_event(choice, recording.session_id, workspace.root, store.clock.now())
        store.dispatch(event)
    registry = default_registry()
    desk = (
        UnattendedDesk(store, random_id, told, choice.mode)
        if choice.flags.headless
        else Desk(store, random_id, told)
    )
    servers = None
    if settings.mcp.servers:
        from duckflow_tui.tools.mcp.connection import ServerParts
        from duckflow_tui.tools.mcp.servers import McpServers

        folder = choice.places.state / "mcp"
        servers = McpServers(
            settings.mcp.servers.values(),
            ServerParts(
                store,
                notices,
                spawn,
                folder,
                os.environ,
                watchdog,
                workspace.root,
                desk,
                choice.connections.keys,
                choice.withhold_secrets,
            ),
            registry,
            approved=choice.approved,
        )
    undoes = settings.shell.undo_bytes > 0
    named = NamedCommands(choice.allowed, workspace, store, undoes=undoes)
    kept: ProjectRules | None = None
    # R19b
    if not (choice.flags.headless or choice.demo):  # headless, consent is on the command line (R19)
        kept = ProjectRules(choice.places.data / "rules", workspace.root, workspace.identity)
    runner = CommandRunner(
        workspace,
        recording.blobs.put_file,
        choice.places.state / "spool",
        watchdog,
        _command_limits(settings),
        environ=os.environ,
        secrets_known=frozenset(list_secrets(choice.settings, choice.environ)),
        sandbox=choice.sandbox,
    )
    runner.report = store.dispatch
    background = BackgroundCommands(store, notices)
    copies = FileCopies(
        workspace,
        recording.blobs,
        choice.places.state / "spool",
        settings.shell.undo_bytes,
    )
    copies.redact = redact
    obeyed = ObeyedFiles(copies, notices, choice.places.state / "looks", workspace.root)
    shell = Shell(runner, background, named, random_id, store, copies, obeyed)
    registry.add(*shell.make_operations())

    async def facts(operation: AnyOperation, args: Arguments) -> frozenset[CallFact]:
        """Return the facts about a call that the approval policy needs: allowed by the command
        line, changed since, declared by a server.
        """
        found = await named.call_facts(operation, args)
        if servers is not None:
            found |= servers.call_facts(operation.name)
        return found - {CallFact.NAMED} if CallFact.CHANGED in found else found

    router = ToolRouter(
        store,
        workspace,
        desk,
        registry,
        copies,
        random_id,
        told,
        PolicyRules(max_write=settings.files.max_write_bytes, keeps=kept is not None),
    )
    router.facts = facts
    router.redact = redact
    router.named = lambda: named.given
    memory = ProjectMemory(
        choice.places.data / "memory",
        workspace.root,
        _make_memory_words(choice.language, workspace.root.name),
        store.clock,
        redact,
        already=count_session(recording.state),
    )
    memory.load()

    async def ready() -> None:
        """Wait until trust, sandbox and servers are settled, which decide what a model is told;
        then read the files that messages mention.
        """
        await asyncio.gather(trust.use_trusted(), shell.test_sandbox())
        if servers is not None:
            await servers.wait_until_ready()
        await read_mentions(store, router, random_id)

    table = (
        PhaseTable.load(Path(settings.phases.table).expanduser()) if settings.phases.table else None
    )
    parts = TurnParts(
        store,
        random_id,
        notices,
        PhaseMachine(store, table),
        _make_model_access(choice, store, desk, notices, memory, recording.blobs.get, ready),
        router,
        desk,
        TurnSettings(
            max_steps=settings.execution.max_steps,
            max_attempts=settings.execution.max_attempts,
            execution=settings.execution.mode,
            pacemaker=_make_pacemaker(settings.pacemaker, settings.roles),
        ),
    )
    past = RecordedPast(recording, choice.places.state, redact)

    def use(texts: Texts) -> None:
        """Apply the trusted texts of the folder: notes go into the prompts, settings tighten
        limits, mode and denials; tell the user.
        """
        parts.models.prompts.instructions = texts.get(NOTES, "")
        approval = ApprovalSettings(mode=store.state.mode, deny=settings.approval.deny)
        now = settings.model_copy(update={"approval": approval})
        tight, problems = tighten_settings(now, texts.get(SETTINGS, ""), SETTINGS)
        runner.limits = _command_limits(tight)
        router.rules = replace(router.rules, max_write=tight.files.max_write_bytes)
        parts.models.budget.limits = _budget_limits(tight)
        engine.rules.set_denials(tight.approval.deny)
        say = Catalogue(choice.language)
        for problem in problems:
            why = say(f"settings.why.{problem.code}", **problem.params)
            line = str(problem.line)
            notices.warn("trust.setting", file=SETTINGS, line=line, key=problem.key, why=why)
        if (mode := tight.approval.mode) is not store.state.mode:
            engine.set_mode(mode)
            notices.say("trust.mode", mode=mode.value)
        if texts:
            notices.say("trust.used", names=", ".join(texts))

    by_flag = choice.flags.trust if choice.flags.headless else None
    answers = TrustAnswers(choice.places.data / "trust")
    trust = ProjectTrust(workspace, desk, notices, spawn, answers, use, by_flag)
    engine = Engine(parts, shell, servers, memory, past, spawn, trust, kept)
    if not choice.flags.headless:  # a headless run has printed them already
        say = Catalogue(choice.language)
        for problem in choice.problems:
            notices.warn("settings.problem", problem=problem.describe_problem(say))
    return engine, workspace


def _make_model_access(
    choice: SessionChoice,
    store: Store,
    desk: Desk,
    notices: Notices,
    memory: ProjectMemory,
    load_blob: Callable[[str], Awaitable[bytes]],
    ready: Callable[[], Awaitable[None]],
) -> ModelAccess:
    """Build the parts that call models: service, prompts, budget and log of requests."""
    settings = choice.settings

    def on_lesson(lesson: Lesson, target: Target) -> None:
        """Tell the user what was learned about a model, record a learned context window, and
        correct a stored address.
        """
        quirks = learned.quirks_of(target)
        if lesson not in SILENT:
            notices.say(
                f"llm.learned.{lesson}",
                model=target.model,
                host=target.endpoint.host,
                tokens=f"{quirks.window if lesson == 'window' else quirks.output:,}",
            )
        main = service.target_of("main")
        if lesson == "window" and learned.name_of(target) == learned.name_of(main):
            store.dispatch(WindowLearned(tokens=quirks.window))
        if lesson == "version" and not choice.demo:
            _correct_address(choice.connections, target.endpoint)

    kept = None if choice.demo else choice.places.data / "learned_models.json"
    learned = LearnedModels(kept, store.clock, on_lesson)
    service = LLMService(
        settings.endpoints,
        settings.roles,
        random_id,
        store.clock,
        choice.environ,
        temperatures=settings.temperature,
        learned=learned,
    )
    service.known = choice.known
    service.load_blob = load_blob
    service.report = store.dispatch
    if (contacts := outside.get(None)) is not None:
        contacts.go_to(store.dispatch)
    return ModelAccess(
        store,
        random_id,
        service,
        PromptCompiler(
            find_assets("prompts"),
            choice.language,
            Budgets(**settings.budget.model_dump()),
            ScriptCounter(),
            mode=settings.execution.mode,
            memory=lambda: memory.known,
        ),
        QuestionPrompts(find_assets("prompts"), choice.language),
        CallBudget(store, random_id, desk, notices, _budget_limits(settings)),
        RequestLog(store, service, choice.redact),
        ready,
    )


def _correct_address(kept: Connections, endpoint: Endpoint) -> None:
    """Store the address with ``/v1`` at which a connection's server was found to answer."""
    connection = kept.find_connection(endpoint.name)
    if connection is not None and f"{connection.base_url}/v1" == endpoint.base_url:
        with suppress(OSError):  # the next start tries again
            kept.add_connection(connection.model_copy(update={"base_url": endpoint.base_url}))


def _budget_limits(settings: Settings) -> BudgetLimits:
    """Return the limits of calls, tokens and cost from the settings."""
    return BudgetLimits(
        max_calls=settings.execution.max_model_calls,
        max_tokens=settings.limits.max_tokens,
        max_cost=settings.limits.max_cost,
    )


def _command_limits(settings: Settings) -> CommandLimits:
    """Return the limits of time and output for commands from the settings."""
    return CommandLimits(
        timeout_s=settings.shell.timeout_s,
        max_timeout_s=max(settings.shell.max_timeout_s, settings.shell.timeout_s),
        max_output=settings.shell.max_output_bytes,
    )


def make_first_event(
    choice: SessionChoice, session_id: str, root: Path, now: float
) -> SessionStarted:
    """Return the event that a new session of this choice begins with. Reads the branch from the
    disk.
    """
    main = choice.settings.roles.model_of("main")
    endpoint = choice.settings.endpoints[main.endpoint] if main else None
    window = choice.known.facts_at(endpoint, main.model).context if main and endpoint else 0
    return SessionStarted(
        session=SessionInfo(
            session_id=session_id,
            workspace=str(root),
            title=root.name or str(root),
            demo=choice.demo,
            headless=choice.flags.headless,
            started_at=now,
            model=main.model if main else "",
            endpoint=main.endpoint if main else "",
            base_url=endpoint.base_url if endpoint else "",
            api_key_env=endpoint.api_key_env if endpoint else "",
            branch=branch_of(root),
            sandbox="none" if choice.sandbox.level == "none" else "untested",
        ),
        mode=choice.mode,
        context_window=window,
    )


def _make_pacemaker(settings: PacemakerSettings, roles: Roles) -> Pacemaker:
    """Return the pacemaker with the loop limits of the settings."""
    bases = {TaskProfile(name): loops for name, loops in settings.base.model_dump().items()}
    hard_from = settings.hard_from if roles.strong else None
    return Pacemaker(PaceSettings(settings.min, settings.max, settings.fallback, bases, hard_from))


def _make_memory_words(language: str, project: str) -> MemoryWords:
    """Return the texts of a notes file: a new file is in ``language``, headings of every language
    are recognized.
    """
    say = Catalogue(language)
    known: dict[str, MemoryKind] = {
        load_entries(other, "memory")[f"memory.heading.{kind}"].casefold(): kind
        for other in LANGUAGES
        for kind in KINDS
    }
    return MemoryWords(
        title=say("memory.file_title", project=one_line(project, 80)),
        note=say("memory.file_note"),
        headings={kind: say(f"memory.heading.{kind}") for kind in KINDS},
        known=known,
    )
