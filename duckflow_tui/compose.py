"""The composition root: from flags and settings to a choice, from a choice to an engine.

The engine's rooms are imported when a session is opened, in a thread: the screen takes keys
by then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from duckflow_tui.ending import Ending
from duckflow_tui.flags import Flags, Unusable
from duckflow_tui.llm.connections import Connections, KeyStore, ModelLine
from duckflow_tui.llm.endpoints import (
    CLI_ENDPOINT,
    Endpoint,
    ModelRef,
    ModelsInUse,
    Roles,
    find_need,
    resolve_key,
    setting_of,
)
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.places import ConfirmedOrigins, Places
from duckflow_tui.safety.safe_text import make_visible
from duckflow_tui.safety.secrets import RedactingFilter, Redactor, shield_process
from duckflow_tui.settings import (
    CHOSEN,
    CHOSEN_FOR_NOW,
    Loaded,
    McpSettings,
    Origin,
    SettingProblem,
    Settings,
    fault_of,
    listed,
    load,
)
from duckflow_tui.state.base import Spawn, SystemClock, one_line
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.phase_machine import PhaseTable
from duckflow_tui.state.usage import Role
from duckflow_tui.tools.mcp.config import McpServerConfig
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.scripted.stage import Stage
    from duckflow_tui.session.catalog import Catalog
    from duckflow_tui.tools.commands import SandboxChoice


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """The plan of a session: everything decided, nothing started."""

    workspace: Path
    places: Places
    settings: Settings
    language: str
    mode: ApprovalMode
    headless: bool
    demo: bool
    problems: tuple[SettingProblem, ...] = ()
    origins: dict[str, Origin] = field(default_factory=dict[str, Origin])  # of the settings
    endpoint_missing: bool = False
    confirm_origin: str = ""  # plain http to a private address that was not confirmed yet
    allowed: tuple[str, ...] = ()  # what ``--allow`` named, and the demo's own test command
    approved: tuple[str, ...] = ()  # operations of the app's own servers, as globs of a server
    resume: str = ""  # the session to take up, empty for a new one
    no_session: bool = False  # it is not recorded
    external_sandbox: bool = False  # what the program runs in holds its commands
    flags: Flags | None = None  # what it was chosen from
    #: The keys that the program keeps of the endpoints in use; None until ``with_keys`` has looked.
    keys: Mapping[str, str] | None = field(default=None, repr=False)
    known: KnownModels = field(default_factory=KnownModels)  # complete with the keys
    #: What was withheld in this process; each later choice has the same one.
    log_filter: RedactingFilter = field(
        default_factory=lambda: RedactingFilter(Redactor()), repr=False, compare=False
    )

    @property
    def redact(self) -> Callable[[str], str]:
        """Takes keys and passwords out of a text: those of the settings, those that were withheld,
        later too, and what looks like one.
        """
        redactor = self.log_filter.redactor
        redactor.add_secrets(secrets_of(self.settings, self.environ))
        return redactor.redact_text

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment, completed with the keys that the program keeps."""
        return {**(self.keys or {}), **os.environ}

    @property
    def sandbox(self) -> SandboxChoice:
        """The sandbox wanted for the AI's commands; only a flag says that something else holds
        them.
        """
        from duckflow_tui.tools.commands import SandboxChoice

        wanted, places = self.settings.sandbox, self.places
        return SandboxChoice(
            "external" if self.external_sandbox else wanted.level,
            wanted.read,
            places.state / "sandbox",
            places.own_dirs,
        )

    @property
    def connections(self) -> Connections:
        """Read the user's choices on the screen anew."""
        return Connections(self.places.data)

    def with_keys(self) -> SessionChoice:
        """The same with its keys, which no log shows from now on, and what is known of models;
        waits for the disk and the keyring, so it belongs in a thread.
        """
        if self.demo or self.keys is not None:
            return self
        kept = self.connections
        keys = kept.stored_keys(self.settings.endpoints)
        self.withhold(keys.values())
        return replace(self, keys=keys, known=KnownModels.load(kept))

    def withhold(self, secrets: Iterable[str]) -> None:
        """No log, journal or export holds these from now on, the open session's neither."""
        self.log_filter.redactor.add_secrets(secrets)
        for handler in logging.getLogger().handlers:
            handler.addFilter(self.log_filter)


def choose(
    flags: Flags, places: Places, language: str, environ: Mapping[str, str] = os.environ
) -> SessionChoice:
    """Settle endpoints, roles, mode and limits; raises Unusable with a text for the user."""
    say = Catalogue(language)
    if not flags.demo and not os.path.isdir(flags.workspace):
        raise Unusable(say("cli.not_a_folder", path=flags.workspace))
    loaded = load(places, environ)
    settings = loaded.settings
    before = {setting.key: setting.value for setting in listed(settings)}
    _apply(flags, settings)
    # R19a
    mode = ApprovalMode.STANDARD if flags.headless else settings.approval.mode  # R19
    if flags.mode is not None:
        mode = ApprovalMode(flags.mode)
    choice = SessionChoice(
        workspace=flags.workspace.absolute(),
        places=places,
        settings=settings,
        language=language,
        mode=mode,
        headless=flags.headless,
        demo=flags.demo,
        allowed=_allowed(flags, say),
        resume=flags.resume,
        no_session=flags.no_session,
        external_sandbox=flags.sandbox == "external",
        flags=flags,
    )
    _check_phases(loaded)
    problems = tuple(loaded.problems)
    choice = replace(choice, problems=problems)
    if not flags.demo:
        try:
            choice = _with_models(choice, flags, settings, say, environ)
        except Unusable as refused:
            raise Unusable(str(refused), problems) from refused
    flagged = (
        now.key for now in listed(settings) if before.get(now.key, now.field.default) != now.value
    )
    origins = {**loaded.origins, **dict.fromkeys(flagged, Origin())}
    return replace(choice, origins=origins)


def _allowed(flags: Flags, say: Catalogue) -> tuple[str, ...]:
    """The rules of this command line; one that would not say exactly what runs is refused."""
    if not flags.allow:
        return ()
    from duckflow_tui.safety.allow_rules import AllowRules, RuleRefused, as_flags, rules_like

    try:
        AllowRules.parse_rules(flags.allow)
    except RuleRefused as no:
        why, can = say(f"cli.allow_why.{no.code}"), make_visible(as_flags(rules_like(no.rule)))
        raise Unusable(say("cli.bad_allow", rule=make_visible(no.rule), why=why, can=can)) from None
    return flags.allow


def _check_phases(loaded: Loaded) -> None:
    """A table of phases that cannot be used is named, and the built-in one holds."""
    phases = loaded.settings.phases
    if not phases.table:
        return
    try:
        PhaseTable.load(Path(phases.table).expanduser())
    except (OSError, ValueError, RecursionError) as error:  # also what is no TOML, and no table
        detail = {"detail": one_line(str(error), 200)}
        loaded.problems.append(
            SettingProblem(phases.table, 0, "phases.table", "phase_table", detail)
        )
        phases.table = ""


def secrets_of(settings: Settings, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The keys of all endpoints and servers: what no log may hold."""
    keys = [resolve_key(endpoint, environ) for endpoint in settings.endpoints.values()]
    given = [secret for server in settings.mcp.servers.values() for secret in server.secrets]
    return [key for key in (*keys, *given) if key]


def _apply(flags: Flags, settings: Settings) -> None:
    if flags.max_calls is not None:
        settings.execution.max_model_calls = min(flags.max_calls, 1000)
    if flags.sandbox not in (None, "external"):
        settings.sandbox.level = flags.sandbox  # type: ignore[assignment]  # as below
    if flags.theme is not None:
        settings.ui.theme = flags.theme  # type: ignore[assignment]  # argparse knows the choices
    if flags.animation is not None:
        settings.ui.animation = flags.animation


def _with_models(
    choice: SessionChoice,
    flags: Flags,
    settings: Settings,
    say: Catalogue,
    environ: Mapping[str, str],
) -> SessionChoice:
    path = str(choice.places.settings_file)
    overrides: dict[str, str] = {}
    if flags.api_key_env:
        overrides["api_key_env"] = flags.api_key_env
    if flags.protocol:
        overrides["protocol"] = flags.protocol
    if flags.context:
        overrides["context"] = str(flags.context)
    if flags.base_url is not None:
        fields = {"name": CLI_ENDPOINT, "base_url": flags.base_url, **overrides}
        named = _endpoint(fields, say)
        if not flags.api_key_env and not environ.get("DUCKFLOW_API_KEY"):
            known = (e for e in settings.endpoints.values() if e.base_url == named.base_url)
            key = next((e.api_key_env for e in known if e.api_key_env), "")
            named = named.model_copy(update={"api_key_env": key})
        settings.endpoints[CLI_ENDPOINT] = named
        model = flags.model or _model_at(named, settings)
        settings.roles = Roles(main=f"{CLI_ENDPOINT}/{model}" if model else "")
    elif flags.model and settings.endpoints:
        settings.roles = _roles_with(settings, flags.model, say, path)
    main = settings.roles.model_of("main")
    if main is None:
        choice = replace(choice, endpoint_missing=True)
        if flags.base_url is not None:
            return _checked(choice, settings.endpoints[CLI_ENDPOINT], say, environ)
        wrong = any(problem.key == "roles.main" for problem in choice.problems)
        if flags.headless and settings.endpoints and (wrong or len(settings.endpoints) > 1):
            raise Unusable(say("cli.no_model", path=path))
        return choice
    endpoint = settings.endpoints[main.endpoint]
    if flags.base_url is None and overrides:
        endpoint = _endpoint({**endpoint.model_dump(), **overrides}, say)
        settings.endpoints[main.endpoint] = endpoint
    return _checked(choice, endpoint, say, environ)


def _model_at(endpoint: Endpoint, settings: Settings) -> str:
    """The model that was set or chosen for this very server; empty for none."""
    main = settings.roles.model_of("main")
    if main is None or settings.endpoints[main.endpoint].base_url != endpoint.base_url:
        return ""
    return main.model


def with_model(choice: SessionChoice, endpoint: Endpoint, model: str) -> SessionChoice:
    """The choice with a model that was found; raises Unusable where nothing may be sent to it."""
    flags = choice.flags or Flags(workspace=choice.workspace)
    say = Catalogue(choice.language)
    given = {"protocol": flags.protocol, "context": flags.context}
    kept = {name: value for name, value in given.items() if value}
    endpoint = endpoint.model_copy(update=kept)
    settings = choice.settings.model_copy(
        update={
            "endpoints": {**choice.settings.endpoints, endpoint.name: endpoint},
            "roles": choice.settings.roles.model_copy(update={"main": f"{endpoint.name}/{model}"}),
        }
    )
    origins = choice.origins | {"roles.main": Origin()}
    choice = replace(choice, settings=settings, endpoint_missing=False, origins=origins)
    return _checked(choice, endpoint, say, choice.environ)


def _checked(
    choice: SessionChoice, endpoint: Endpoint, say: Catalogue, environ: Mapping[str, str]
) -> SessionChoice:
    """The choice, once it is clear that requests may go to its endpoint."""
    need = find_need(endpoint, environ)
    if need == "refused":
        setting = setting_of(endpoint.name, "base_url")
        raise Unusable(say("llm.error.refused_url", detail=endpoint.base_url, setting=setting))
    if need == "confirmation" and not ConfirmedOrigins(choice.places.data).has(endpoint.origin):
        if choice.headless:
            raise Unusable(say("cli.not_confirmed", origin=endpoint.origin))
        return replace(choice, confirm_origin=endpoint.origin)
    return choice


def _endpoint(fields: Mapping[str, Any], say: Catalogue) -> Endpoint:
    try:
        return Endpoint.model_validate(fields)
    except ValidationError as error:
        code, _ = fault_of(error, Endpoint)
        key = "cli.bad_key_env" if code == "env_name" else "cli.bad_url"
        raise Unusable(say(key, reason=say(f"settings.why.{code}"))) from error


def _roles_with(settings: Settings, model: str, say: Catalogue, path: str) -> Roles:
    """``--model`` alone: on the endpoint it names, else on the main or the only endpoint."""
    head, slash, _ = model.partition("/")
    if slash and head in settings.endpoints:
        return settings.roles.model_copy(update={"main": model})
    main = settings.roles.model_of("main")
    if main is not None:
        name = main.endpoint
    elif len(settings.endpoints) == 1:
        name = next(iter(settings.endpoints))
    else:
        raise Unusable(say("cli.no_endpoint", path=path))
    return settings.roles.model_copy(update={"main": str(ModelRef(name, model))})


@asynccontextmanager
async def open_session(
    choice: SessionChoice, spawn: Spawn, ending: Ending | None = None
) -> AsyncGenerator[Engine]:
    """Build one session's engine and take it down again; the loops are started by the caller.

    From the first session on this process is closed to others of the same user. Raises
    WorkspaceGone when the folder cannot be opened, OSError when the demo finds no room, and
    SessionFault when a session cannot be taken up.
    """
    await asyncio.to_thread(_import_rooms, choice)
    choice = await asyncio.to_thread(choice.with_keys)
    from duckflow_tui.assembly import build, first_event
    from duckflow_tui.session.recording import start_recording
    from duckflow_tui.session.resume import resume
    from duckflow_tui.state.store import Record, Store
    from duckflow_tui.tools.commands import remove_left
    from duckflow_tui.tools.watchdog import Watchdog

    async with AsyncExitStack() as stack:
        stories: dict[str, str] = {}
        if choice.demo:
            from duckflow_tui.scripted.stage import open_stage

            stage = await stack.enter_async_context(
                open_stage(choice.language, fast=choice.headless)
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
            keep=not choice.no_session,
        )
        stack.push_async_callback(recording.close)
        store = Store(recording.state, SystemClock(), recording, last_seq=recording.last_seq)
        begun: list[Record] = []
        forget = store.subscribe(lambda _, record: begun.append(record))
        engine, workspace = build(choice, spawn, store, watchdog, recording)
        stack.callback(workspace.close)
        stack.push_async_callback(engine.close)
        recording.follow_store(store, engine.notices)
        if recording.restored is not None:
            today = first_event(choice, recording.session_id, workspace.root, store.clock.now())
            effect = engine.operation_effect
            await resume(store, engine.notices, recording.restored, today, workspace, effect)
            recording.restored = None  # in a long session many megabytes
        await engine.rules.load_rules()
        forget()
        engine.begun, engine.stories = begun, stories
        if ending is not None:
            ending.watch(recording, store, resumable=not choice.demo)
        yield engine


def _import_rooms(choice: SessionChoice) -> None:
    """Import the modules of a session when there is one: in a thread, as it takes a while."""
    if choice.demo:
        import_module("duckflow_tui.scripted.stage")
    if choice.demo or choice.settings.mcp.servers:
        import_module("duckflow_tui.tools.mcp.servers")
    import_module("duckflow_tui.assembly")
    shield_process()  # while nothing has been started yet that could look


class Sessions:
    """Where the screen gets its session from, once it stands."""

    def __init__(self, choice: SessionChoice) -> None:
        self.choice = choice
        self.ending = Ending()
        self._stack = AsyncExitStack()
        self._catalog: Catalog | None = None
        self.put_aside: list[Path] = []  # damaged files of what was chosen, by their new names
        self._chosen: dict[str, Origin] = {}  # on the screen in this process, by setting
        self.missing = ""  # why a model that the flags named in part could not be taken

    async def open(self, spawn: Spawn) -> Engine | None:
        """The session that was chosen; None while no model is configured. What the flags name of
        one is completed here where it is clear, else ``missing`` says what is missing.
        """
        flags = self.choice.flags
        named = flags is not None and (flags.base_url or flags.model)
        if self.choice.endpoint_missing and named and not self.choice.confirm_origin:
            from duckflow_tui.model_choice import settle_model

            try:
                self.choice = (await settle_model(self.choice)).choice
            except Unusable as refused:
                self.missing = str(refused)
        if self.choice.endpoint_missing:
            return None
        self.choice = await asyncio.to_thread(self.choice.with_keys)
        from duckflow_tui.session.faults import SessionFault

        try:
            return await self._stack.enter_async_context(
                open_session(self.choice, spawn, self.ending)
            )
        except SessionFault as fault:
            self.ending.fault = fault
            raise

    def use_model(
        self, ref: ModelRef, role: Role = "main", line: ModelLine | None = None
    ) -> ModelsInUse:
        """Have this model do a role from now on, in this process whatever flags and settings say,
        and in later ones where they name none. Waits for the disk and the keyring; raises OSError.
        """
        kept, at_hand = self.connections, self.models_at_hand()
        origin = CHOSEN_FOR_NOW
        if kept.find_connection(ref.endpoint) is not None:
            kept.choose_model(ref, role, line)
            origin = CHOSEN
        added = at_hand.endpoints.keys() - self.choice.settings.endpoints.keys()
        self._chosen |= dict.fromkeys((setting_of(name, "base_url") for name in added), CHOSEN)
        self._chosen[f"roles.{role}"] = origin
        roles = at_hand.roles.model_copy(update={role: str(ref)})
        settings = self.choice.settings.model_copy(
            update={"endpoints": dict(at_hand.endpoints), "roles": roles}
        )
        choice = replace(
            self.choice, settings=settings, keys=None, demo=False, endpoint_missing=False
        )
        self.choice = choice = choice.with_keys()
        known = choice.known.with_chosen(settings.endpoints[ref.endpoint].origin, line)
        return ModelsInUse(settings.endpoints, roles, choice.environ, known)

    def models_at_hand(self) -> ModelsInUse:
        """Every endpoint of the settings and every connection, with the keys that are kept. Waits
        for the disk and the keyring.
        """
        kept, settings = self.connections, self.choice.settings
        added = {c.name: c.endpoint for c in kept.all if c.name not in settings.endpoints}
        endpoints = settings.endpoints | added
        environ = {**kept.stored_keys(endpoints), **os.environ}
        return ModelsInUse(endpoints, settings.roles, environ, KnownModels.load(kept))

    @property
    def settings(self) -> Loaded:
        """The settings as they are now, and where each is from."""
        return Loaded(self.choice.settings, origins=self.choice.origins | self._chosen)

    def save_choice(
        self, name: str, value: str, say: Callable[..., str], *, by_flag: bool = False
    ) -> str:
        """Have the setting ``name`` of ``[ui]`` as it was chosen on the screen, here and in later
        starts; ``by_flag``: a flag set it in this one. Returns a sentence where a later start may
        have another value, else nothing. Waits for the disk.
        """
        from duckflow_tui.settings_file import save_choice

        places, key = self.choice.places, f"ui.{name}"
        said = save_choice(places, name, value, say, by_flag=by_flag)
        setattr(self.choice.settings.ui, name, value)  # which every choice of this process shares
        after = load(places)
        kept = getattr(after.settings.ui, name) == value
        self._chosen[key] = after.origins.get(key, CHOSEN_FOR_NOW) if kept else CHOSEN_FOR_NOW
        return said

    @property
    def ports(self) -> tuple[int, ...]:
        """Of this machine, where servers are looked for."""
        return self.choice.settings.discovery.ports

    def needs_confirmation(self, endpoint: Endpoint) -> bool:
        """Whether the user has yet to allow plain http to this private address (R11)."""
        if find_need(endpoint, {}) != "confirmation":
            return False
        return not ConfirmedOrigins(self.choice.places.data).has(endpoint.origin)

    @property
    def connections(self) -> Connections:
        """The user's choices on the screen."""
        data = self.choice.places.data
        return Connections(data, KeyStore(data, put_aside=self.put_aside))

    async def open_demo(self, spawn: Spawn) -> Engine:
        """The demo, chosen on the first screen."""
        self.choice = replace(self.choice, demo=True, endpoint_missing=False)
        return await self._stack.enter_async_context(open_session(self.choice, spawn, self.ending))

    def resume(self, session_id: str) -> None:
        """``open`` takes up this session; empty: it begins a new one."""
        self.choice = replace(self.choice, resume=session_id)

    async def open_resumed(self, session_id: str, spawn: Spawn) -> Engine:
        """Open another session of this workspace, with an empty id a new one; raises SessionFault,
        then the old one stays.
        """
        choice = replace(self.choice, resume=session_id)
        stack = AsyncExitStack()
        engine = await stack.enter_async_context(open_session(choice, spawn, self.ending))
        self.ending.leave_older()
        left, self._stack, self.choice = self._stack, stack, choice
        await left.aclose()
        self.ending.let_go()
        return engine

    @property
    def catalog(self) -> Catalog:
        """All sessions of this user; the demo's are not among them."""
        if self._catalog is None:
            from duckflow_tui.session.catalog import Catalog

            self._catalog = Catalog(self.choice.places.state, redact=self.choice.redact)
        return self._catalog

    @property
    def folder(self) -> Path | None:
        """Where the open session is recorded; None while it is nowhere."""
        return self.ending.folder

    @property
    def unconfirmed_origin(self) -> str:
        """Plain http to a private address that waits for the user's word; empty for none."""
        return self.choice.confirm_origin

    def confirm_origin(self, origin: str = "") -> None:
        """The user confirmed plain http to this private address, or to the one that waits for it;
        raises OSError.
        """
        ConfirmedOrigins(self.choice.places.data).add(origin or self.choice.confirm_origin)
        self.choice = replace(self.choice, confirm_origin="")

    def redact(self, text: str) -> str:
        """The text without keys and passwords."""
        return self.choice.redact(text)

    async def close(self) -> None:
        """Take down what was opened."""
        await self._stack.aclose()

    def freeze(self) -> None:
        """Record nothing more: the app ends, and the session goes on another time."""
        self.ending.freeze()


def _on_stage(choice: SessionChoice, stage: Stage) -> SessionChoice:
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
        # goes with the stage
        places=choice.places._replace(state=stage.own_state, data=stage.own_state / "data"),
        approved=approved,
    )
