"""Resolves the command line and the settings to a ``SessionChoice``: everything a session is
started with. Nothing is started here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from duckflow_tui.llm.connections import Connections
from duckflow_tui.llm.endpoints import (
    CLI_ENDPOINT,
    Endpoint,
    ModelRef,
    Roles,
    find_need,
    resolve_key,
    setting_of,
)
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.places import ConfirmedOrigins, Places
from duckflow_tui.safety.secrets import RedactingFilter, Redactor
from duckflow_tui.settings import (
    Loaded,
    Origin,
    SettingProblem,
    Settings,
    describe_fault,
    list_settings,
    load_settings,
)
from duckflow_tui.state.base import one_line
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.phase_machine import PhaseTable
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.tools.command_runner import SandboxChoice


class Unusable(Exception):
    """Raised where flags or settings do not allow a start; the text is for the user. ``problems``
    are the other faults found in the settings.
    """

    def __init__(self, text: str, problems: tuple[SettingProblem, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Flags:
    """The command line as typed; None where a flag was not given."""

    workspace: Path
    demo: bool = False
    mode: str | None = None
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    protocol: str | None = None
    context: int | None = None  # tokens of the model's window
    max_calls: int | None = None
    deny: tuple[str, ...] = ()  # words of commands that never run
    allow: tuple[str, ...] = ()  # exact commands and servers' operations; headless only (R19)
    theme: str | None = None
    animation: bool | None = None
    headless: bool = False
    resume: str = ""  # the id of the session to resume
    no_session: bool = False
    trust: bool = False  # trust the folder's notes and settings; headless only (R19)
    sandbox: str | None = None  # a level of the settings, or ``external``


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """Everything that a session is started with, resolved from flags and settings. Later choices of
    a process share its mutable ``settings`` and ``log_filter``.
    """

    workspace: Path
    places: Places
    settings: Settings
    language: str
    mode: ApprovalMode
    demo: bool
    flags: Flags  # of the command line
    problems: tuple[SettingProblem, ...] = ()
    origins: dict[str, Origin] = field(default_factory=dict[str, Origin])  # of the settings
    endpoint_missing: bool = False
    confirm_origin: str = ""  # private address with plain http that the user has to confirm
    allowed: tuple[str, ...] = ()  # rules of ``--allow``, and the demo's own test command
    approved: tuple[str, ...] = ()  # operations of the app's own servers, as globs of a server
    resume: str = ""  # id of the session to resume; empty for a new one
    #: Stored keys of the endpoints in use, by variable; None before ``load_keys``.
    keys: Mapping[str, str] | None = field(default=None, repr=False)
    known: KnownModels = field(default_factory=KnownModels)  # complete after ``load_keys``
    #: Redacts the secrets withheld in this process; later choices share it.
    log_filter: RedactingFilter = field(
        default_factory=lambda: RedactingFilter(Redactor()), repr=False, compare=False
    )

    @property
    def redact(self) -> Callable[[str], str]:
        """A function that replaces secrets in a text: keys of the settings, withheld secrets, also
        those added later, and text that looks like a secret.
        """
        redactor = self.log_filter.redactor
        redactor.add_secrets(list_secrets(self.settings, self.environ))
        return redactor.redact_text

    @property
    def environ(self) -> Mapping[str, str]:
        """The process's environment and the stored keys; on equal names the environment wins."""
        return {**(self.keys or {}), **os.environ}

    @property
    def sandbox(self) -> SandboxChoice:
        """The sandbox wanted for the model's commands. Only ``--sandbox external`` states that the
        user sandboxes the program by other means.
        """
        from duckflow_tui.tools.command_runner import SandboxChoice

        wanted, places = self.settings.sandbox, self.places
        return SandboxChoice(
            "external" if self.flags.sandbox == "external" else wanted.level,
            wanted.read,
            places.state / "sandbox",
            places.own_dirs,
            env=wanted.env,
        )

    @property
    def connections(self) -> Connections:
        """The stored connections and models that the user chose on the screen, read again at each
        access.
        """
        return Connections(self.places.data)

    def needs_confirmation(self, endpoint: Endpoint) -> bool:
        """Whether the user has still to confirm plain http to this private address (R11)."""
        confirmed = ConfirmedOrigins(self.places.data)
        need = find_need(endpoint, {})
        return need == "confirmation" and not confirmed.is_confirmed(endpoint.origin)

    def load_keys(self) -> SessionChoice:
        """Return the choice with its stored keys and the known facts about models; the logs redact
        the keys from now on. Blocks on the disk and the keyring, so call it in a thread. Returns
        itself for the demo, or where they are loaded already.
        """
        if self.demo or self.keys is not None:
            return self
        kept = self.connections
        keys = kept.stored_keys(self.settings.endpoints)
        self.withhold_secrets(keys.values())
        return replace(self, keys=keys, known=KnownModels.load(kept))

    def withhold_secrets(self, secrets: Iterable[str]) -> None:
        """Redact these secrets in logs, journal and exports from now on, also for the open
        session.
        """
        self.log_filter.redactor.add_secrets(secrets)
        for handler in logging.getLogger().handlers:
            handler.addFilter(self.log_filter)


def choose_session(
    flags: Flags, places: Places, language: str, environ: Mapping[str, str] = os.environ
) -> SessionChoice:
    """Resolve endpoints, roles, mode and limits from flags, settings and environment. Raises
    Unusable with a text for the user.
    """
    say = Catalogue(language)
    if not flags.demo and not os.path.isdir(flags.workspace):
        raise Unusable(say("cli.not_a_folder", path=flags.workspace))
    _check_rules(flags, say)
    loaded = load_settings(places, environ)
    settings = loaded.settings
    before = {setting.key: setting.value for setting in list_settings(settings)}
    _apply_flags(flags, settings)
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
        demo=flags.demo,
        flags=flags,
        allowed=flags.allow,
        resume=flags.resume,
    )
    _check_phases(loaded)
    problems = tuple(loaded.problems)
    choice = replace(choice, problems=problems)
    if not flags.demo:
        try:
            choice = _choose_models(choice, flags, settings, say, environ)
        except Unusable as refused:
            raise Unusable(str(refused), problems) from refused
    flagged = (
        now.key
        for now in list_settings(settings)
        if before.get(now.key, now.field.default) != now.value
    )
    origins = {**loaded.origins, **dict.fromkeys(flagged, Origin())}
    return replace(choice, origins=origins)


def _check_rules(flags: Flags, say: Catalogue) -> None:
    """Raise Unusable for a rule of ``--allow`` or ``--deny`` that no call can match."""
    from duckflow_tui.safety.rules import find_rule_fault

    for flag, rules in (("--allow", flags.allow), ("--deny", flags.deny)):
        for rule in rules:
            if (fault := find_rule_fault(rule)) is not None:
                why = say(f"settings.why.{fault.key}", **fault.params)
                raise Unusable(say("cli.bad_rule", flag=flag, why=why))


def _check_phases(loaded: Loaded) -> None:
    """Add a problem for an unusable table of phases and clear the setting, so that the built-in
    table is used.
    """
    phases = loaded.settings.phases
    if not phases.table:
        return
    try:
        PhaseTable.load(Path(phases.table).expanduser())
    except (
        OSError,
        ValueError,
        RecursionError,
    ) as error:  # missing, not TOML, or not a valid table
        detail = {"detail": one_line(str(error), 200)}
        loaded.problems.append(
            SettingProblem(phases.table, 0, "phases.table", "phase_table", detail)
        )
        phases.table = ""


def list_secrets(settings: Settings, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the keys of all endpoints and servers in the settings, which no log may contain."""
    keys = [resolve_key(endpoint, environ) for endpoint in settings.endpoints.values()]
    given = [secret for server in settings.mcp.servers.values() for secret in server.secret_values]
    return [key for key in (*keys, *given) if key]


def _apply_flags(flags: Flags, settings: Settings) -> None:
    """Write the values of flags into ``settings``, in place. Denials are added to those of the
    settings; model calls are capped at 1000.
    """
    if flags.deny:
        approval = settings.approval
        approval.deny = (*approval.deny, *flags.deny)
    if flags.max_calls is not None:
        settings.execution.max_model_calls = min(flags.max_calls, 1000)
    if flags.sandbox not in (None, "external"):
        settings.sandbox.level = flags.sandbox  # type: ignore[assignment]  # as below
    if flags.theme is not None:
        settings.ui.theme = flags.theme  # type: ignore[assignment]  # argparse knows the choices
    if flags.animation is not None:
        settings.ui.animation = flags.animation


def _choose_models(
    choice: SessionChoice,
    flags: Flags,
    settings: Settings,
    say: Catalogue,
    environ: Mapping[str, str],
) -> SessionChoice:
    """Resolve the endpoint and model of each role from flags and settings; changes
    ``settings.endpoints`` and ``settings.roles``. Without a main model the result has
    ``endpoint_missing``. Raises Unusable.
    """
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
        named = _make_endpoint(fields, say)
        if not flags.api_key_env and not environ.get("DUCKFLOW_API_KEY"):
            known = (e for e in settings.endpoints.values() if e.base_url == named.base_url)
            key = next((e.api_key_env for e in known if e.api_key_env), "")
            named = named.model_copy(update={"api_key_env": key})
        settings.endpoints[CLI_ENDPOINT] = named
        model = flags.model or _find_model_at(named, settings)
        settings.roles = Roles(main=f"{CLI_ENDPOINT}/{model}" if model else "")
    elif flags.model and settings.endpoints:
        settings.roles = _name_main_role(settings, flags.model, say, path)
    main = settings.roles.model_of("main")
    if main is None:
        choice = replace(choice, endpoint_missing=True)
        if flags.base_url is not None:
            return _check_endpoint(choice, settings.endpoints[CLI_ENDPOINT], say)
        wrong = any(problem.key == "roles.main" for problem in choice.problems)
        if flags.headless and settings.endpoints and (wrong or len(settings.endpoints) > 1):
            raise Unusable(say("cli.no_model", path=path))
        return choice
    endpoint = settings.endpoints[main.endpoint]
    if flags.base_url is None and overrides:
        endpoint = _make_endpoint({**endpoint.model_dump(), **overrides}, say)
        settings.endpoints[main.endpoint] = endpoint
    return _check_endpoint(choice, endpoint, say)


def _find_model_at(endpoint: Endpoint, settings: Settings) -> str:
    """Return the main model of the settings if its endpoint has the same address; else an empty
    string.
    """
    main = settings.roles.model_of("main")
    if main is None or settings.endpoints[main.endpoint].base_url != endpoint.base_url:
        return ""
    return main.model


def with_model(choice: SessionChoice, endpoint: Endpoint, model: str) -> SessionChoice:
    """Return the choice with this endpoint and main model. Raises Unusable where nothing may be
    sent to the endpoint.
    """
    say = Catalogue(choice.language)
    given = {"protocol": choice.flags.protocol, "context": choice.flags.context}
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
    return _check_endpoint(choice, endpoint, say)


def _check_endpoint(choice: SessionChoice, endpoint: Endpoint, say: Catalogue) -> SessionChoice:
    """Return the choice, with ``confirm_origin`` set where the user must first confirm the address.
    Raises Unusable where requests may not go there, or cannot be confirmed because there is no
    screen.
    """
    if find_need(endpoint, {}) == "refused":
        setting = setting_of(endpoint.name, "base_url")
        raise Unusable(say("llm.error.refused_url", detail=endpoint.base_url, setting=setting))
    if choice.needs_confirmation(endpoint):
        if choice.flags.headless:
            raise Unusable(say("cli.not_confirmed", origin=endpoint.origin))
        return replace(choice, confirm_origin=endpoint.origin)
    return choice


def _make_endpoint(fields: Mapping[str, Any], say: Catalogue) -> Endpoint:
    """Validate the fields of an endpoint. Raises Unusable with the fault in words."""
    try:
        return Endpoint.model_validate(fields)
    except ValidationError as error:
        code, _ = describe_fault(error, Endpoint)
        key = "cli.bad_key_env" if code == "env_name" else "cli.bad_url"
        raise Unusable(say(key, reason=say(f"settings.why.{code}"))) from error


def _name_main_role(settings: Settings, model: str, say: Catalogue, path: str) -> Roles:
    """Return the roles with the main model that ``--model`` names: at the endpoint in front of its
    slash, else at the main or the only endpoint. Raises Unusable where that is not clear.
    """
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
