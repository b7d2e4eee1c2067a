"""The engine of a session, built of the rooms. Importing this module imports them all."""

from __future__ import annotations

import os
from pathlib import Path

from duckflow_tui.assets import asset_folder
from duckflow_tui.compose import Choice, secrets_of
from duckflow_tui.llm.names import wire_name
from duckflow_tui.llm.service import LLMService
from duckflow_tui.loops.cards import ModeAnswers
from duckflow_tui.loops.engine import Engine, EngineParts
from duckflow_tui.loops.parts import TurnLimits
from duckflow_tui.loops.spawning import Spawn
from duckflow_tui.prompting.budget import Budgets
from duckflow_tui.prompting.compiler import PromptCompiler
from duckflow_tui.prompting.layers import ModeChoice
from duckflow_tui.prompting.questions import QuestionPrompts
from duckflow_tui.prompting.tokens import ScriptCounter
from duckflow_tui.safety.command_rules import NamedRules
from duckflow_tui.safety.gates import GateBroker, NoConsent
from duckflow_tui.safety.policy import Fact
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.session.blobs import FileBlobs
from duckflow_tui.state.agent import AgentState, SessionInfo
from duckflow_tui.state.clock import SystemClock
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.events import SessionStarted
from duckflow_tui.state.ids import random_id
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.phase_machine import PhaseMachine, PhaseTable
from duckflow_tui.state.prompt import Prompt
from duckflow_tui.state.store import MemoryRecorder, Record, Store
from duckflow_tui.tools.background import BackgroundCommands
from duckflow_tui.tools.commands import CommandLimits, CommandRunner
from duckflow_tui.tools.listing import iter_files
from duckflow_tui.tools.mcp.servers import McpServers
from duckflow_tui.tools.operation import AnyOperation, Arguments
from duckflow_tui.tools.registry import default_registry
from duckflow_tui.tools.router import ToolRouter
from duckflow_tui.tools.shell import NamedCommands, Shell
from duckflow_tui.tools.watch import FileWatcher
from duckflow_tui.ui.i18n import Catalogue


def build(choice: Choice, spawn: Spawn, suggestion: str) -> tuple[Engine, Workspace]:
    """The engine of this choice and the workspace to close after it; nothing is started.

    Raises WorkspaceGone when the folder cannot be opened.
    """
    settings = choice.settings
    clock = SystemClock()
    store = Store(AgentState(), clock, MemoryRecorder())
    begun: list[Record] = []
    forget = store.watch(lambda _, record: begun.append(record))
    workspace = Workspace.open(choice.workspace, own_dirs=choice.places.own_dirs)
    main = settings.roles.of("main")
    endpoint = settings.endpoints[main.endpoint] if main else None
    store.dispatch(
        SessionStarted(
            session=SessionInfo(
                session_id=random_id("session"),
                workspace=str(workspace.root),
                title=workspace.root.name or str(workspace.root),
                demo=choice.demo,
                headless=choice.headless,
                started_at=clock.now(),
                model=main.model if main else "",
                endpoint=main.endpoint if main else "",
            ),
            mode=choice.mode,
            context_window=endpoint.context if endpoint else 0,
        )
    )
    registry = default_registry()
    servers = McpServers(
        settings.mcp.servers.values(),
        store=store,
        registry=registry,
        spawn=spawn,
        ids=random_id,
        folder=choice.places.state / "mcp",
        environ=os.environ,
        wire_name=wire_name,
        approved=choice.approved,
    )
    blobs = FileBlobs(choice.places.state / "blobs")
    named = NamedCommands(NamedRules.of(choice.allowed), workspace)
    runner = CommandRunner(
        workspace,
        blobs.put_file,
        choice.places.state / "spool",
        CommandLimits(
            timeout_s=settings.shell.timeout_s,
            max_timeout_s=max(settings.shell.max_timeout_s, settings.shell.timeout_s),
            max_output=settings.shell.max_output_bytes,
        ),
        environ=os.environ,
        secrets_known=frozenset(secrets_of(choice)),
    )
    background = BackgroundCommands(store, random_id, runner)
    shell = Shell(runner, background, named, random_id, lambda: store.state.session.sandbox)
    for operation in shell.operations():
        registry.add(operation)
    broker = GateBroker(store, random_id, clock)

    def facts(operation: AnyOperation, args: Arguments) -> frozenset[Fact]:
        return named.facts(operation, args) | servers.facts(operation.name)

    router = ToolRouter(
        store,
        workspace,
        NoConsent() if choice.headless else broker,
        registry,
        blobs,
        random_id,
        max_write_bytes=settings.files.max_write_bytes,
        facts=facts,
    )
    compiler = PromptCompiler(
        asset_folder("prompts"),
        choice.language,
        Budgets(**settings.budget.model_dump()),
        ScriptCounter(),
    )
    table = (
        PhaseTable.load(Path(settings.phases.table).expanduser()) if settings.phases.table else None
    )
    engine = Engine(
        EngineParts(
            store=store,
            ids=random_id,
            models=LLMService(settings.endpoints, settings.roles, random_id, clock, os.environ),
            prompts=_Prompts(store, compiler, settings.execution.mode),
            router=router,
            broker=broker,
            watch=FileWatcher(store, workspace, router.own_writes),
            machine=PhaseMachine(store, table),
            file_names=lambda: iter_files(workspace),
            intact=workspace.intact,
            limits=TurnLimits(
                max_steps=settings.execution.max_steps,
                max_model_calls=settings.execution.max_model_calls,
                max_attempts=settings.execution.max_attempts,
            ),
            questions=QuestionPrompts(asset_folder("prompts"), choice.language),
            servers=servers,
            commands=shell,
            execution=settings.execution.mode,
            asked=ModeAnswers(choice.mode) if choice.headless else None,
            suggestion=suggestion,
            begun=begun,
        ),
        spawn,
    )
    if not choice.headless:  # which prints them before it begins
        say = Catalogue(choice.language)
        for problem in choice.problems:
            engine.notices.warn("settings.problem", problem=problem.words(say))
    forget()
    return engine, workspace


class _Prompts:
    """The compiler, bound to the state it reads."""

    def __init__(self, store: Store, compiler: PromptCompiler, mode: ModeChoice) -> None:
        self._store = store
        self._compiler = compiler
        self._mode: ModeChoice = mode

    def compile(
        self,
        operations: tuple[OperationSpec, ...],
        pattern: PromptPattern,
        *,
        thread: str = "",
        aside: bool = False,
    ) -> Prompt:
        return self._compiler.compile(
            self._store.state,
            operations,
            pattern=pattern,
            thread=thread,
            aside=aside,
            execution_mode=self._mode,
        )

    def overflowed(self, prompt: Prompt) -> bool:
        return self._compiler.overflowed(self._store.state, prompt)

    def learn(self, prompt: Prompt, tokens_in: int) -> None:
        self._compiler.learn(self._store.state, prompt, tokens_in)
