"""Layered settings: defaults, the user's file, the environment, flags; each wins over the last.

A wrong key or type is named with file and line, and the default holds. Nothing of a workspace
is read here: its files act only once the user trusts it (R10).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from duckflow_tui.llm.endpoints import Endpoint, Roles
from duckflow_tui.places import MAX_FILE_BYTES, Places
from duckflow_tui.state.operations import ApprovalMode

ENV_PREFIX: Final = "DUCKFLOW_"

_M = TypeVar("_M", bound=BaseModel)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class ExecutionSettings(_Section):
    """How far one request may go."""

    max_steps: int = Field(default=10, ge=1, le=100)
    """Model decisions in one turn (S3-6)."""
    max_model_calls: int = Field(default=60, ge=1, le=1000)
    """Calls to models in one turn, repairs included."""


class BudgetSettings(_Section):
    """Tokens each prompt layer may take (S4-76)."""

    base: int = Field(default=500, ge=100, le=20_000)
    """Tokens of the base layer: character, rules, session."""
    main: int = Field(default=800, ge=100, le=20_000)
    """Tokens of the main layer: the working memory."""
    specialized: int = Field(default=1200, ge=100, le=20_000)
    """Tokens of the layer for planning, execution and review."""


class ApprovalSettings(_Section):
    """What runs without asking."""

    mode: ApprovalMode = ApprovalMode.STANDARD
    """The mode the app starts in; headless runs take it from ``--mode`` only (R19)."""


class FileSettings(_Section):
    """What file operations may do."""

    max_write_bytes: int = Field(default=1_000_000, ge=1_000, le=100_000_000)
    """Largest file a model may write (S4-87)."""


class PhaseSettings(_Section):
    """Where the table of phases comes from."""

    table: str = ""
    """Path of a TOML file that replaces the built-in table (S4-54); empty for the built-in."""


class UiSettings(_Section):
    """How the app looks and speaks."""

    language: Literal["auto", "en", "ja"] = "auto"
    """``auto`` follows LC_ALL, LC_MESSAGES or LANG."""
    theme: Literal["duck-dark", "duck-light", "duck-contrast"] = "duck-dark"
    """The colours."""
    animation: bool = True
    """Whether anything moves that need not, such as spinners."""
    notifications: bool = True
    """Bell, title and desktop notification when a gate opens while the terminal is not focused."""


class Settings(BaseModel):
    """All settings, valid."""

    model_config = ConfigDict(extra="forbid")

    endpoints: dict[str, Endpoint] = Field(default_factory=dict[str, Endpoint])
    roles: Roles = Field(default_factory=Roles)
    execution: ExecutionSettings = Field(default_factory=ExecutionSettings)
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
    approval: ApprovalSettings = Field(default_factory=ApprovalSettings)
    files: FileSettings = Field(default_factory=FileSettings)
    phases: PhaseSettings = Field(default_factory=PhaseSettings)
    ui: UiSettings = Field(default_factory=UiSettings)


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """Something in a settings source that does not count. ``line`` is 0 where there is none."""

    source: str  # a path, or the name of an environment variable
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


@dataclass(slots=True)
class Loaded:
    """Settings and what was wrong with their sources."""

    settings: Settings
    problems: list[SettingProblem] = field(default_factory=list[SettingProblem])


def load(places: Places, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Defaults, then the user's file, then the environment. Never raises for their content."""
    loaded = Loaded(Settings())
    path = places.settings_file
    text = _read(path, loaded)
    if text:
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            line = int(found.group(1)) if (found := re.search(r"line (\d+)", str(error))) else 0
            loaded.problems.append(SettingProblem(str(path), line, "", f"not TOML: {error}"))
        else:
            _Layer(loaded, str(path), text).merge(table)
    for name in sorted(environ):
        tail = name.removeprefix(ENV_PREFIX)
        if tail == name or "__" not in tail:
            continue
        keys = [part.lower() for part in tail.split("__")]
        table: dict[str, Any] = {}
        inner = table
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = _env_value(environ[name])
        _Layer(loaded, name, "").merge(table)
    return loaded


def _read(path: Path, loaded: Loaded) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        loaded.problems.append(SettingProblem(str(path), 0, "", f"cannot be read: {error}"))
        return ""
    if len(raw) > MAX_FILE_BYTES:
        loaded.problems.append(
            SettingProblem(str(path), 0, "", f"is over {MAX_FILE_BYTES // 1024} KB, not read")
        )
        return ""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        loaded.problems.append(SettingProblem(str(path), line, "", "is not UTF-8"))
        return ""


def _env_value(text: str) -> object:
    """A number, a truth value or a list where the text is one in TOML; else the text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


class _Layer:
    """One source of settings, merged key by key so that one wrong key costs only itself."""

    def __init__(self, loaded: Loaded, source: str, text: str) -> None:
        self._loaded = loaded
        self._source = source
        self._text = text

    def merge(self, table: dict[str, Any]) -> None:
        settings = self._loaded.settings
        for name, value in table.items():
            if name not in Settings.model_fields:
                self._problem((name,), "no such section")
            elif not isinstance(value, dict):
                self._problem((name,), "must be a table")
            elif name == "endpoints":
                self._endpoints(cast("dict[str, Any]", value))
            elif name == "roles":
                section = self._fields((name,), settings.roles, cast("dict[str, Any]", value))
                settings.roles = section
            else:
                section = getattr(settings, name)
                merged = self._fields((name,), section, cast("dict[str, Any]", value))
                setattr(settings, name, merged)

    def _endpoints(self, table: dict[str, Any]) -> None:
        for name, value in table.items():
            if not isinstance(value, dict):
                self._problem(("endpoints", name), "must be a table")
                continue
            fields = cast("dict[str, Any]", value)
            old = self._loaded.settings.endpoints.get(name)
            if old is None:
                base_url = fields.get("base_url")
                try:
                    old = Endpoint(name=name, base_url=cast("str", base_url))
                except ValidationError as error:
                    self._problem(("endpoints", name, "base_url"), _words(error))
                    continue
            merged = self._fields(("endpoints", name), old, fields)
            self._loaded.settings.endpoints[name] = merged

    def _fields(self, path: tuple[str, ...], section: _M, table: dict[str, Any]) -> _M:
        for key, value in table.items():
            where = (*path, key)
            if key not in type(section).model_fields or key == "name":
                self._problem(where, "no such key")
                continue
            try:
                section = type(section).model_validate({**section.model_dump(), key: value})
            except ValidationError as error:
                self._problem(where, _words(error))
        return section

    def _problem(self, key: tuple[str, ...], message: str) -> None:
        line = _line_of(self._text, key)
        self._loaded.problems.append(
            SettingProblem(self._source, line, ".".join(key), f"{message}; the default holds")
        )


def _words(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return str(first["msg"]).removeprefix("Value error, ")


def _line_of(text: str, key: tuple[str, ...]) -> int:
    """The line where a dotted key stands, counted from 1; 0 when it cannot be told."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
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
    return _line_of(text, key[:-1]) if len(key) > 1 else 0
