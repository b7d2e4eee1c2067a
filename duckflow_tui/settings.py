"""Layered settings: defaults, choices on the screen, the user's file, the environment; each layer
overrides those before it.

The meaning of each setting is in ``words/en/setting.toml`` and its Japanese twin, for the page
``/settings`` and the manual. The comment behind a field names the requirement that sets its
default.
"""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, cast, get_args

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, Field, StringConstraints, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ErrorType

from duckflow_tui.llm.connections import Connections
from duckflow_tui.llm.endpoints import LOOPBACK_PORTS, Endpoint, ModelRef, Roles, Temperatures
from duckflow_tui.places import Places
from duckflow_tui.startup_facts import MAX_SETTINGS, read_plain_file
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.lines import split_lines
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.pace import TaskProfile
from duckflow_tui.tools.mcp.config import SERVER_NAME, McpServerConfig
from duckflow_tui.work.loop_limits import BASES, FINAL_FALLBACK, MAX_LIMIT, MIN_LIMIT

Say = Callable[..., str]

#: Code of the type that a value must have, by the beginning of pydantic's error type.
_KINDS: Final = (
    ("string_too_short", "empty"),
    ("int_", "whole"),
    ("float_", "number"),
    ("finite_", "number"),
    ("bool_", "truth"),
    ("string_", "text"),
    ("dict_", "table"),
    ("mapping_", "table"),
    ("list_", "list"),
    ("tuple_", "list"),
)

_BOUNDS: Final = ("greater_than", "less_than")
_CHOICES: Final = ("literal_error", "enum")


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """An entry of a settings source that is ignored. ``line`` is 0 where there is none."""

    source: str  # a path, or the name of an environment variable
    line: int
    key: str  # empty where the whole source does not count
    code: str  # entry of the catalogue under ``settings.why``
    params: Mapping[str, str] = field(default_factory=dict[str, str])

    def describe_problem(self, say: Say) -> str:
        """Return a sentence that says where the entry is, what is wrong, and what applies
        instead.
        """
        where = f"{self.source}:{self.line}" if self.line else self.source
        why = say(f"settings.why.{self.code}", **self.params)
        if self.key:
            name = "settings.bad_rule" if self.code.startswith("rule.") else "settings.wrong"
            return say(name, where=where, key=self.key, why=why)
        return say("settings.unread", where=where, why=why)


def describe_fault(error: ValidationError, model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """Return the code of the first mistake in a validation error, and the parameters of
    its words.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    kind, place = first["type"], first["loc"]
    about = model.model_fields.get(str(place[0])) if place else None
    if kind not in get_args(ErrorType):
        return kind, {}  # raised by a validator of ours
    if kind in _CHOICES and about is not None:
        return "choices", {"choices": ", ".join(list_choices(about))}
    if kind.startswith(_BOUNDS) and about is not None:
        return _describe_bounds(about)
    code = next((code for begin, code in _KINDS if kind.startswith(begin)), "kind")
    return code, {}


def list_choices(about: FieldInfo) -> list[str]:
    """Return the allowed values of a setting that is one of a few words; empty for others."""
    kind: Any = about.annotation
    if inspect.isclass(kind) and issubclass(kind, StrEnum):
        return [choice.value for choice in kind]
    return [choice for choice in get_args(kind) if isinstance(choice, str)]


def find_limits(about: FieldInfo) -> tuple[Any, Any]:
    """Return the least and the greatest value of a setting; None for a missing limit."""
    low = next((mark.ge for mark in about.metadata if isinstance(mark, Ge)), None)
    return low, next((mark.le for mark in about.metadata if isinstance(mark, Le)), None)


def _describe_bounds(about: FieldInfo) -> tuple[str, dict[str, str]]:
    """Return the code and parameters of the words for a number's bounds."""
    low, high = find_limits(about)
    above = next((mark.gt for mark in about.metadata if isinstance(mark, Gt)), None)
    if low is not None and high is not None:
        return "range", {"low": f"{low:,}", "high": f"{high:,}"}
    if above is not None:
        return "above", {"low": f"{above:,}"}
    return "least", {"low": f"{low:,}"}


ENV_PREFIX: Final = "DUCKFLOW_"
MAX_PORTS: Final = 16  # that are tried at once

#: Variables that create an endpoint or a server; they are read before its other ones.
_MAKERS: Final = ("__BASE_URL", "__COMMAND", "__URL")

_M = TypeVar("_M", bound=BaseModel)


class _Section(BaseModel, extra="forbid", validate_assignment=True):
    """A table of the settings."""


class ExecutionSettings(_Section):
    """How work is carried out, and its limits for one request."""

    mode: Literal["auto", "adaptive", "tasklist"] = "auto"  # S3-7
    max_steps: int = Field(default=60, ge=1, le=100)  # S3-6
    max_attempts: int = Field(default=3, ge=1, le=10)
    max_model_calls: int = Field(default=60, ge=1, le=1000)


class BaseLoops(_Section):
    """Model decisions that a request of each kind usually needs (S0-13…21)."""

    SIMPLE_QUESTION: int = Field(default=BASES[TaskProfile.SIMPLE_QUESTION], ge=1, le=100)
    CODE_ANALYSIS: int = Field(default=BASES[TaskProfile.CODE_ANALYSIS], ge=1, le=100)
    FILE_OPERATION: int = Field(default=BASES[TaskProfile.FILE_OPERATION], ge=1, le=100)
    COMPLEX_REASONING: int = Field(default=BASES[TaskProfile.COMPLEX_REASONING], ge=1, le=100)
    MULTI_STEP_TASK: int = Field(default=BASES[TaskProfile.MULTI_STEP_TASK], ge=1, le=100)
    GENERAL_CHAT: int = Field(default=BASES[TaskProfile.GENERAL_CHAT], ge=1, le=100)
    CREATIVE_WRITING: int = Field(default=BASES[TaskProfile.CREATIVE_WRITING], ge=1, le=100)
    DEBUGGING: int = Field(default=BASES[TaskProfile.DEBUGGING], ge=1, le=100)
    RESEARCH: int = Field(default=BASES[TaskProfile.RESEARCH], ge=1, le=100)


class PacemakerSettings(_Section):
    """Limits of model decisions for one request before the user is asked."""

    min: int = Field(default=MIN_LIMIT, ge=1, le=100)  # S0-6
    max: int = Field(default=MAX_LIMIT, ge=1, le=100)  # S0-6
    fallback: int = Field(default=FINAL_FALLBACK, ge=1, le=100)  # S0-27
    hard_from: float = Field(default=0.6, ge=0.0, le=1.0)
    base: BaseLoops = Field(default_factory=BaseLoops)


class BudgetSettings(_Section):
    """Token budgets of the prompt layers (S4-76)."""

    base: int = Field(default=500, ge=100, le=20_000)
    main: int = Field(default=800, ge=100, le=20_000)
    specialized: int = Field(default=1200, ge=100, le=20_000)


class LimitSettings(_Section):
    """Limits of a session's cost, in dollars, and tokens, 0 for none; at a limit the next model
    call waits until the user raises it.
    """

    max_cost: float = Field(default=0.0, ge=0.0, le=100_000.0)
    max_tokens: int = Field(default=0, ge=0, le=1_000_000_000)


#: A rule of ``safety.rules.find_denying_rule``.
DeniedWords = Annotated[str, StringConstraints(strip_whitespace=True)]


NO_TEXT: Final = LocalizedText(key="rule.no_text")


def sift_denials(value: object, refuse: Callable[[LocalizedText], None]) -> object:
    """Return a list of denial rules without those that no call could match, each of which is passed
    to ``refuse`` as a fault. A value that is no list is returned unchanged.
    """
    from duckflow_tui.safety.rules import find_rule_fault

    if not isinstance(value, list):
        return value
    kept: list[object] = []
    for rule in cast("list[object]", value):
        fault = find_rule_fault(rule) if isinstance(rule, str) else NO_TEXT
        if fault is None:
            kept.append(rule)
        else:
            refuse(fault)
    return kept


class ApprovalSettings(_Section):
    """The approval mode and the rules that deny."""

    mode: ApprovalMode = ApprovalMode.STANDARD  # R19
    deny: tuple[DeniedWords, ...] = ()


class FileSettings(_Section):
    """The limits of file operations."""

    max_write_bytes: int = Field(default=1_000_000, ge=1_000, le=100_000_000)  # S4-87


class ShellSettings(_Section):
    """Limits of commands: time, output, and bytes copied for undo."""

    timeout_s: float = Field(default=120, ge=1, le=86_400)
    max_timeout_s: float = Field(default=1_800, ge=1, le=86_400)
    max_output_bytes: int = Field(default=64_000_000, ge=1_000_000, le=1_000_000_000)
    undo_bytes: int = Field(default=100_000_000, ge=0, le=2_000_000_000)


class SandboxSettings(_Section):
    """The sandbox of the model's commands: level, extra readable folders, environment variables
    passed on.
    """

    level: Literal["auto", "full", "none"] = "auto"
    read: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class PhaseSettings(_Section):
    """The file of the user's own table of phases; empty: the built-in one."""

    table: str = ""  # S4-54


class McpSettings(_Section):
    """MCP servers, started with a session; only the user's own settings can name them."""

    servers: dict[str, McpServerConfig] = Field(default_factory=dict[str, McpServerConfig])


class DiscoverySettings(_Section):
    """Local ports on which model servers are looked for while none is configured."""

    ports: tuple[int, ...] = LOOPBACK_PORTS

    @field_validator("ports")
    @classmethod
    def _check_ports(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        """Return the ports; raises for more than 16, or a number that is no port."""
        if len(value) > MAX_PORTS or not all(0 < port < 65_536 for port in value):
            raise PydanticCustomError("ports", "must be at most 16 numbers from 1 to 65535")
        return value


class UiSettings(_Section):
    """Language and look of the app."""

    language: Literal["auto", "en", "ja"] = "auto"
    theme: Literal["duck-dark", "duck-light", "duck-contrast", "duck-contrast-light"] = "duck-dark"
    vitals: Literal["auto", "always", "off"] = "auto"
    duck: bool = True
    animation: bool = True
    notifications: bool = True


class Settings(BaseModel, extra="forbid"):
    """All settings, validated."""

    endpoints: dict[str, Endpoint] = Field(default_factory=dict[str, Endpoint])
    roles: Roles = Field(default_factory=Roles)
    temperature: Temperatures = Field(default_factory=Temperatures)
    execution: ExecutionSettings = Field(default_factory=ExecutionSettings)
    pacemaker: PacemakerSettings = Field(default_factory=PacemakerSettings)
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    approval: ApprovalSettings = Field(default_factory=ApprovalSettings)
    files: FileSettings = Field(default_factory=FileSettings)
    shell: ShellSettings = Field(default_factory=ShellSettings)
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    phases: PhaseSettings = Field(default_factory=PhaseSettings)
    mcp: McpSettings = Field(default_factory=McpSettings)
    discovery: DiscoverySettings = Field(default_factory=DiscoverySettings)
    ui: UiSettings = Field(default_factory=UiSettings)


class Origin(NamedTuple):
    """The source of a value: a line of a file, or an environment variable; empty for a flag."""

    name: str = ""
    line: int = 0


CHOSEN: Final = Origin("/connect")  # chosen on the screen and stored
CHOSEN_FOR_NOW: Final = Origin("/model")  # chosen on the screen for this process only


@dataclass(slots=True)
class Loaded:
    """Settings, the problems of their sources, and the origin of each set value by its
    dotted key.
    """

    settings: Settings
    problems: list[SettingProblem] = field(default_factory=list[SettingProblem])
    origins: dict[str, Origin] = field(default_factory=dict[str, Origin])


class Setting(NamedTuple):
    """One value of the settings. ``key`` is dotted; ``words`` is the key of its description."""

    key: str
    words: str
    value: object
    field: FieldInfo


def list_settings(settings: Settings) -> Iterator[Setting]:
    """Yield every setting in the order of the sections."""
    for section in type(settings).model_fields:
        found = getattr(settings, section)
        if section == "endpoints":
            for name, endpoint in found.items():
                yield from _list_section(f"endpoints.{name}", "setting.endpoints.NAME", endpoint)
        elif section == "mcp":
            for name, server in found.servers.items():
                yield from _list_section(f"mcp.servers.{name}", "setting.mcp.servers.NAME", server)
        else:
            yield from _list_section(section, f"setting.{section}", found)


def _list_section(key: str, words: str, section: BaseModel) -> Iterator[Setting]:
    """Yield the settings of a section and of the sections in it."""
    for name, about in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _list_section(f"{key}.{name}", f"{words}.{name}", value)
        elif name != "name":
            yield Setting(f"{key}.{name}", f"{words}.{name}", value, about)


def find_section(settings: Settings, key: str) -> tuple[BaseModel, str]:
    """Return the section of a dotted key, and the name of its field there. Raises KeyError for an
    endpoint that there is not.
    """
    *sections, name = key.split(".")
    section: Any = settings
    for part in sections:
        named = isinstance(section, dict)  # the endpoints, by name
        section = section[part] if named else getattr(section, part)
    return section, name


def check_value(settings: Settings, key: str, value: object) -> object:
    """Return a value validated and converted as its field would; ``settings`` are not changed.
    Raises ValidationError.
    """
    section, name = find_section(settings, key)
    fields = {field: getattr(section, field) for field in type(section).model_fields}
    return getattr(type(section).model_validate({**fields, name: value}), name)


def change_setting(settings: Settings, key: str, value: object) -> None:
    """Set a valid value; an endpoint, which others may hold, is replaced by a changed copy."""
    section, name = find_section(settings, key)
    if isinstance(section, Endpoint):
        section = section.model_copy(update={name: value})
        settings.endpoints[section.name] = section
    else:
        setattr(section, name, value)


def load_settings(places: Places, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Load the settings from defaults, the user's file and the environment, and complete them by
    the choices on the screen.

    The environment overrides the file. An endpoint or role in either replaces a choice on the
    screen. Invalid entries become problems; nothing is raised for them.
    """
    loaded = Loaded(Settings())
    roles_from: dict[str, _Layer] = {}
    path = places.settings_file
    text = _read_file(path, loaded)
    if text:
        try:
            table = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            line = int(found.group(1)) if (found := re.search(r"line (\d+)", str(error))) else 0
            _note_unread(loaded, path, "not_toml", line, detail=str(error))
        else:
            _Layer(loaded, str(path), text, roles_from).merge_table(table)
    for name in sorted(environ, key=lambda name: (not name.endswith(_MAKERS), name)):
        tail = name.removeprefix(ENV_PREFIX)
        if tail == name or "__" not in tail:
            continue
        keys = [part.lower() for part in tail.split("__")]
        table: dict[str, Any] = {}
        inner = table
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = _parse_variable(environ[name])
        _Layer(loaded, name, "", roles_from).merge_table(table)
    _check_roles(loaded.settings, roles_from)
    _add_connections(loaded, Connections(places.data))
    return loaded


def _add_connections(loaded: Loaded, chosen: Connections) -> None:
    """Add the connections and models chosen on the screen, where the settings name none."""
    settings = loaded.settings
    if chosen.problem:
        _note_unread(loaded, chosen.path, "no_choice")
    free = [one for one in chosen.all if one.name not in settings.endpoints]
    settings.endpoints |= {one.name: one.endpoint for one in free}
    names = {one.name for one in free}
    given = {
        role: str(ref)
        for role, ref in chosen.roles.items()
        if not getattr(settings.roles, role) and ref.endpoint in names
    }
    settings.roles = settings.roles.model_copy(update=given)
    made = [*(f"endpoints.{name}.base_url" for name in names), *(f"roles.{role}" for role in given)]
    loaded.origins |= dict.fromkeys(made, CHOSEN)


def _check_roles(settings: Settings, roles_from: Mapping[str, _Layer]) -> None:
    """Clear each role whose endpoint does not exist, with a problem."""
    for role, layer in roles_from.items():
        text: str = getattr(settings.roles, role)
        if not text or (name := ModelRef.parse(text).endpoint) in settings.endpoints:
            continue
        layer.note_problem(("roles", role), "no_endpoint", endpoint=name)
        settings.roles = settings.roles.model_copy(update={role: ""})


def _read_file(path: Path, loaded: Loaded) -> str:
    """Return the text of a settings file; empty where it is missing, or unusable, which adds a
    problem.
    """
    try:
        raw = read_plain_file(path, MAX_SETTINGS + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        _note_unread(loaded, path, "unreadable", detail=error.strerror or "")
        return ""
    if len(raw) > MAX_SETTINGS:
        _note_unread(loaded, path, "too_large", limit=str(MAX_SETTINGS // 1024))
        return ""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _note_unread(loaded, path, "not_utf8", raw.count(b"\n", 0, error.start) + 1)
        return ""


def _note_unread(loaded: Loaded, path: Path, code: str, line: int = 0, **params: str) -> None:
    """Add a problem for a source that is ignored as a whole."""
    loaded.problems.append(SettingProblem(str(path), line, "", code, params))


def _parse_variable(text: str) -> object:
    """Parse an environment variable as a TOML value; text that is none is returned unchanged."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


class _Layer:
    """One source of settings, merged key by key, so that an invalid key affects only itself."""

    def __init__(
        self, loaded: Loaded, source: str, text: str, roles_from: dict[str, _Layer]
    ) -> None:
        """``roles_from`` records, by role, the source that set it last."""
        self._loaded = loaded
        self._source = source
        self._text = text
        self._roles_from = roles_from

    def merge_table(self, table: dict[str, Any]) -> None:
        """Merge a parsed table into the settings; invalid entries become problems."""
        settings = self._loaded.settings
        for name, value in table.items():
            if name not in Settings.model_fields:
                self.note_problem((name,), "no_section")
            elif not isinstance(value, dict):
                self.note_problem((name,), "table")
            elif name == "endpoints":
                self._merge_endpoints(cast("dict[str, Any]", value))
            elif name == "mcp":
                self._merge_servers(cast("dict[str, Any]", value))
            elif name == "roles":
                before = settings.roles
                settings.roles = self._merge_fields((name,), before, cast("dict[str, Any]", value))
                for role in Roles.model_fields:
                    if getattr(settings.roles, role) != getattr(before, role):
                        self._roles_from[role] = self
            else:
                section = getattr(settings, name)
                fields = cast("dict[str, Any]", value)
                if name == "execution":
                    fields = self._read_execution(fields)
                elif name == "pacemaker":
                    fields = self._read_pacemaker(fields)
                elif name == "approval" and "deny" in fields:
                    fields = {**fields, "deny": sift_denials(fields["deny"], self._refuse_denial)}
                merged = self._merge_fields((name,), section, fields)
                setattr(settings, name, merged)

    def _refuse_denial(self, fault: LocalizedText) -> None:
        """Add a problem for a denial rule."""
        self.note_problem(("approval", "deny"), fault.key, **fault.params)

    def _read_execution(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return the table of ``[execution]`` with ``adaptive_mode = true|false`` converted to
        ``mode`` (S3-5).
        """
        if "adaptive_mode" not in table:
            return table
        rest = {key: value for key, value in table.items() if key != "adaptive_mode"}
        wanted = table["adaptive_mode"]
        if not isinstance(wanted, bool):
            self.note_problem(("execution", "adaptive_mode"), "truth")
            return rest
        return {"mode": "adaptive" if wanted else "tasklist", **rest}

    def _read_pacemaker(self, table: dict[str, Any]) -> dict[str, Any]:
        """Merge the table ``base`` of ``[pacemaker]`` and return the other entries."""
        if "base" not in table:
            return table
        path, wanted = ("pacemaker", "base"), table["base"]
        if not isinstance(wanted, dict):
            self.note_problem(path, "table")
        else:
            named = {k.upper(): v for k, v in cast("dict[str, Any]", wanted).items()}
            section = self._loaded.settings.pacemaker
            section.base = self._merge_fields(path, section.base, named)
        return {key: value for key, value in table.items() if key != "base"}

    def _merge_endpoints(self, table: dict[str, Any]) -> None:
        """Merge ``[endpoints.*]``; a new endpoint without a valid address is left out."""
        for name, value in table.items():
            if not isinstance(value, dict):
                self.note_problem(("endpoints", name), "table")
                continue
            fields = cast("dict[str, Any]", value)
            old = self._loaded.settings.endpoints.get(name)
            if old is None:
                base_url = fields.get("base_url")
                try:
                    old = Endpoint(name=name, base_url=cast("str", base_url))
                except ValidationError as error:
                    self._note_fault(("endpoints", name, "base_url"), error, Endpoint)
                    continue
            merged = self._merge_fields(("endpoints", name), old, fields)
            self._loaded.settings.endpoints[name] = merged

    def _merge_servers(self, table: dict[str, Any]) -> None:
        """Merge ``[mcp.servers.*]``."""
        for name, value in table.items():
            if name != "servers":
                self.note_problem(("mcp", name), "no_key")
            elif not isinstance(value, dict):
                self.note_problem(("mcp", name), "table")
            else:
                for server, fields in cast("dict[str, Any]", value).items():
                    self._merge_server(server, fields)

    def _merge_server(self, name: str, value: object) -> None:
        """Merge one MCP server; a new one without command or URL is left out."""
        path = ("mcp", "servers", name)
        servers = self._loaded.settings.mcp.servers
        if not isinstance(value, dict):
            self.note_problem(path, "table")
            return
        if not SERVER_NAME.fullmatch(name):
            self.note_problem(path, "server_name")
            return
        fields = cast("dict[str, Any]", value)
        server = servers.get(name)
        if server is None:
            way = "url" if "url" in fields and "command" not in fields else "command"
            try:
                server = McpServerConfig.model_validate({"name": name, way: fields.get(way, "")})
            except ValidationError as error:
                where = (*path, way) if way in fields else path
                self._note_fault(where, error, McpServerConfig)
                return
        server = servers[name] = self._merge_fields(path, server, fields)
        if bool(server.schema_tool) != bool(server.query_tool):
            self.note_problem(path, "query_pair")

    def _merge_fields(self, path: tuple[str, ...], section: _M, table: dict[str, Any]) -> _M:
        """Return the section with each valid field set and its origin recorded; invalid ones become
        problems.
        """
        for key, value in table.items():
            where = (*path, key)
            if key not in type(section).model_fields or key == "name":
                self.note_problem(where, "no_key")
                continue
            try:
                section = type(section).model_validate({**section.model_dump(), key: value})
            except ValidationError as error:
                self._note_fault(where, error, type(section))
            else:
                origin = Origin(self._source, find_line(self._text, where))
                self._loaded.origins[".".join(where)] = origin
        return section

    def _note_fault(
        self, key: tuple[str, ...], error: ValidationError, model: type[BaseModel]
    ) -> None:
        """Add a validation error as a problem of this key."""
        code, params = describe_fault(error, model)
        self.note_problem(key, code, **params)

    def note_problem(self, key: tuple[str, ...], code: str, **params: str) -> None:
        """Add a problem for a key of this source, with its line."""
        line = find_line(self._text, key)
        self._loaded.problems.append(
            SettingProblem(self._source, line, ".".join(key), code, params)
        )


def find_line(text: str, key: tuple[str, ...]) -> int:
    """Return the line of a dotted key in a TOML text, counted from 1, or that of the nearest table
    above it; 0 where there is none.
    """
    table: tuple[str, ...] = ()
    for number, line in enumerate(split_lines(text), start=1):
        header = re.match(r"\s*\[\[?([^\]]+)\]", line)
        if header:
            table = tuple(part.strip().strip("\"'") for part in header.group(1).split("."))
            if table == key:
                return number
            continue
        entry = re.match(r"\s*([A-Za-z0-9_.\"'-]+)\s*=", line)
        if entry:
            name = tuple(part.strip("\"'") for part in entry.group(1).split("."))
            full = (*table, *name)
            if full == key or full == key[: len(full)]:
                return number
    return find_line(text, key[:-1]) if len(key) > 1 else 0
