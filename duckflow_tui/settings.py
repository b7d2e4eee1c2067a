"""Layered settings: defaults, the user's file, the environment, flags; each wins over the last.

What each one means is said in ``words/en/setting.toml`` and its twin in Japanese, for the page
``/settings`` and for the manual. Behind a field stands the requirement that its default is from.
"""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
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

#: What a value has to be, by the beginning of pydantic's name for the mistake.
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
    """Something in a settings source that does not count. ``line`` is 0 where there is none."""

    source: str  # a path, or the name of an environment variable
    line: int
    key: str  # empty where the whole source does not count
    code: str  # entry of the catalogue under ``settings.why``
    params: Mapping[str, str] = field(default_factory=dict[str, str])

    def describe_problem(self, say: Say) -> str:
        """Where it stands, what is wrong, and what holds instead."""
        where = f"{self.source}:{self.line}" if self.line else self.source
        why = say(f"settings.why.{self.code}", **self.params)
        if self.key:
            name = "settings.bad_rule" if self.code.startswith("rule.") else "settings.wrong"
            return say(name, where=where, key=self.key, why=why)
        return say("settings.unread", where=where, why=why)


def describe_fault(error: ValidationError, model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """The code of the first mistake and what its words are filled with."""
    first = error.errors(include_url=False, include_input=False)[0]
    kind, place = first["type"], first["loc"]
    about = model.model_fields.get(str(place[0])) if place else None
    if kind not in get_args(ErrorType):
        return kind, {}  # of a validator of our own
    if kind in _CHOICES and about is not None:
        return "choices", {"choices": ", ".join(list_choices(about))}
    if kind.startswith(_BOUNDS) and about is not None:
        return _describe_bounds(about)
    code = next((code for begin, code in _KINDS if kind.startswith(begin)), "kind")
    return code, {}


def list_choices(about: FieldInfo) -> list[str]:
    """The values of a setting that is one of a few words; else none."""
    kind: Any = about.annotation
    if inspect.isclass(kind) and issubclass(kind, StrEnum):
        return [choice.value for choice in kind]
    return [choice for choice in get_args(kind) if isinstance(choice, str)]


def find_limits(about: FieldInfo) -> tuple[Any, Any]:
    """The least and the most that a setting can be; None where there is no such limit."""
    low = next((mark.ge for mark in about.metadata if isinstance(mark, Ge)), None)
    return low, next((mark.le for mark in about.metadata if isinstance(mark, Le)), None)


def _describe_bounds(about: FieldInfo) -> tuple[str, dict[str, str]]:
    """The word's key for the bounds of a number, and the numbers in it."""
    low, high = find_limits(about)
    above = next((mark.gt for mark in about.metadata if isinstance(mark, Gt)), None)
    if low is not None and high is not None:
        return "range", {"low": f"{low:,}", "high": f"{high:,}"}
    if above is not None:
        return "above", {"low": f"{above:,}"}
    return "least", {"low": f"{low:,}"}


ENV_PREFIX: Final = "DUCKFLOW_"
MAX_PORTS: Final = 16  # that are asked at once

#: Keys without which an endpoint or a server does not exist: they come before its other ones.
_MAKERS: Final = ("__BASE_URL", "__COMMAND", "__URL")

_M = TypeVar("_M", bound=BaseModel)


class _Section(BaseModel, extra="forbid", validate_assignment=True):
    """A table of the settings."""


class ExecutionSettings(_Section):
    """How work is done, and how far one request may go."""

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
    """How long the work on a request may go on before the user is asked."""

    min: int = Field(default=MIN_LIMIT, ge=1, le=100)  # S0-6
    max: int = Field(default=MAX_LIMIT, ge=1, le=100)  # S0-6
    fallback: int = Field(default=FINAL_FALLBACK, ge=1, le=100)  # S0-27
    hard_from: float = Field(default=0.6, ge=0.0, le=1.0)
    base: BaseLoops = Field(default_factory=BaseLoops)


class BudgetSettings(_Section):
    """Tokens each prompt layer may take (S4-76)."""

    base: int = Field(default=500, ge=100, le=20_000)
    main: int = Field(default=800, ge=100, le=20_000)
    specialized: int = Field(default=1200, ge=100, le=20_000)


class LimitSettings(_Section):
    """The budget of a session; past a limit the next call is not sent before you raised it."""

    max_cost: float = Field(default=0.0, ge=0.0, le=100_000.0)
    max_tokens: int = Field(default=0, ge=0, le=1_000_000_000)


#: A rule of ``safety.rules.find_denying_rule``.
DeniedWords = Annotated[str, StringConstraints(strip_whitespace=True)]


NO_TEXT: Final = LocalizedText(key="rule.no_text")


def sift_denials(value: object, refuse: Callable[[LocalizedText], None]) -> object:
    """A list of rules that deny, without those that no call could match: each of these is handed
    to ``refuse``. What is no list comes back as it is.
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
    """The rules for what runs without asking."""

    mode: ApprovalMode = ApprovalMode.STANDARD  # R19
    deny: tuple[DeniedWords, ...] = ()


class FileSettings(_Section):
    """The limits of file operations."""

    max_write_bytes: int = Field(default=1_000_000, ge=1_000, le=100_000_000)  # S4-87


class ShellSettings(_Section):
    """How commands run."""

    timeout_s: float = Field(default=120, ge=1, le=86_400)
    max_timeout_s: float = Field(default=1_800, ge=1, le=86_400)
    max_output_bytes: int = Field(default=64_000_000, ge=1_000_000, le=1_000_000_000)
    undo_bytes: int = Field(default=100_000_000, ge=0, le=2_000_000_000)


class SandboxSettings(_Section):
    """The sandbox of the AI's commands."""

    level: Literal["auto", "full", "none"] = "auto"
    read: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class PhaseSettings(_Section):
    """Where the table of phases comes from."""

    table: str = ""  # S4-54


class McpSettings(_Section):
    """Servers of tools that are started with a session; only the user's own settings name any."""

    servers: dict[str, McpServerConfig] = Field(default_factory=dict[str, McpServerConfig])


class DiscoverySettings(_Section):
    """Where models are looked for while none is configured."""

    ports: tuple[int, ...] = LOOPBACK_PORTS

    @field_validator("ports")
    @classmethod
    def _check_ports(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(value) > MAX_PORTS or not all(0 < port < 65_536 for port in value):
            raise PydanticCustomError("ports", "must be at most 16 numbers from 1 to 65535")
        return value


class UiSettings(_Section):
    """How the app looks and speaks."""

    language: Literal["auto", "en", "ja"] = "auto"
    theme: Literal["duck-dark", "duck-light", "duck-contrast", "duck-contrast-light"] = "duck-dark"
    vitals: Literal["auto", "always", "off"] = "auto"
    duck: bool = True
    animation: bool = True
    notifications: bool = True


class Settings(BaseModel, extra="forbid"):
    """All settings, valid."""

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
    """Where a value is from: a line of a file, or a variable; a flag where both are empty."""

    name: str = ""
    line: int = 0


CHOSEN: Final = Origin("/connect")  # on the screen, and kept
CHOSEN_FOR_NOW: Final = Origin("/model")  # on the screen, at an endpoint that the settings name


@dataclass(slots=True)
class Loaded:
    """Settings, what was wrong with their sources, and which source set a key, by dotted key."""

    settings: Settings
    problems: list[SettingProblem] = field(default_factory=list[SettingProblem])
    origins: dict[str, Origin] = field(default_factory=dict[str, Origin])


class Setting(NamedTuple):
    """One value of the settings. ``key`` is dotted; ``words`` is the key of what it means."""

    key: str
    words: str
    value: object
    field: FieldInfo


def list_settings(settings: Settings) -> Iterator[Setting]:
    """Every value there is, in the order of the sections."""
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
    """The settings of a section and of sections inside it, in order."""
    for name, about in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _list_section(f"{key}.{name}", f"{words}.{name}", value)
        elif name != "name":
            yield Setting(f"{key}.{name}", f"{words}.{name}", value, about)


def find_section(settings: Settings, key: str) -> tuple[BaseModel, str]:
    """The section of a dotted key, and the name of its field there."""
    *sections, name = key.split(".")
    return reduce(getattr, sections, settings), name


def check_value(settings: Settings, key: str, value: object) -> object:
    """The value as its field holds it; ``settings`` stay as they are. Raises ValidationError."""
    section, name = find_section(settings, key)
    copy = section.model_copy()
    setattr(copy, name, value)
    return getattr(copy, name)


def load_settings(places: Places, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Defaults, then what was chosen on the screen, then the user's file, then the environment; an
    endpoint or a role that a later one names is its alone. Never raises for their content.
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
    """The connections and models that were chosen on the screen, where the settings name none."""
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
    """A role on an endpoint that does not exist counts as not set."""
    for role, layer in roles_from.items():
        text: str = getattr(settings.roles, role)
        if not text or (name := ModelRef.parse(text).endpoint) in settings.endpoints:
            continue
        layer.note_problem(("roles", role), "no_endpoint", endpoint=name)
        settings.roles = settings.roles.model_copy(update={role: ""})


def _read_file(path: Path, loaded: Loaded) -> str:
    """The text of a settings file; empty where it is missing or unusable, which is noted as a
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
    loaded.problems.append(SettingProblem(str(path), line, "", code, params))


def _parse_variable(text: str) -> object:
    """A number, a truth value or a list where the text is one in TOML; else the text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


class _Layer:
    """One source of settings, merged key by key so that one wrong key costs only itself."""

    def __init__(
        self, loaded: Loaded, source: str, text: str, roles_from: dict[str, _Layer]
    ) -> None:
        """``roles_from`` notes which source set a role last."""
        self._loaded = loaded
        self._source = source
        self._text = text
        self._roles_from = roles_from

    def merge_table(self, table: dict[str, Any]) -> None:
        """Merge a parsed settings file into the settings; what is wrong becomes a problem."""
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
        self.note_problem(("approval", "deny"), fault.key, **fault.params)

    def _read_execution(self, table: dict[str, Any]) -> dict[str, Any]:
        """``adaptive_mode = true|false`` is another way to say the mode (S3-5)."""
        if "adaptive_mode" not in table:
            return table
        rest = {key: value for key, value in table.items() if key != "adaptive_mode"}
        wanted = table["adaptive_mode"]
        if not isinstance(wanted, bool):
            self.note_problem(("execution", "adaptive_mode"), "truth")
            return rest
        return {"mode": "adaptive" if wanted else "tasklist", **rest}

    def _read_pacemaker(self, table: dict[str, Any]) -> dict[str, Any]:
        """``base`` is a table of its own, by the names of the kinds."""
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
        """Merge ``[endpoints.*]``; an endpoint without a valid address is left out."""
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
        """Merge one MCP server; one without command or url is left out."""
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
        """The section with each field that is valid, its origin noted; others become problems."""
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
        """Note a validation error as a problem of this key."""
        code, params = describe_fault(error, model)
        self.note_problem(key, code, **params)

    def note_problem(self, key: tuple[str, ...], code: str, **params: str) -> None:
        """Name a key of this source that does not count, with its line."""
        line = find_line(self._text, key)
        self._loaded.problems.append(
            SettingProblem(self._source, line, ".".join(key), code, params)
        )


def find_line(text: str, key: tuple[str, ...]) -> int:
    """The line where a dotted key stands, counted from 1; 0 when it cannot be told."""
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
