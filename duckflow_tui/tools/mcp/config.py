"""The settings of an MCP server, operation names for its tools, and its texts made printable."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.base import hash_data, one_line

#: Valid names of servers: they need no change in an operation's name in any protocol.
SERVER_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,24}")
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class McpServerConfig(BaseModel, extra="forbid", frozen=True):
    """One server: a program that is started, or an address that is reached over HTTP."""

    name: str
    command: str = ""
    """Program of a server on this machine; from PATH, or an absolute path."""
    args: tuple[str, ...] = ()
    """Its arguments, passed on as they are: no shell reads them."""
    env: dict[str, str] = Field(default_factory=dict[str, str])
    """Variables for it beside PATH, HOME, the language and the like; it gets no others."""
    url: str = ""
    """Address of a server that speaks streamable HTTP; https, or http in the private network."""
    schema_tool: str = ""
    """Its tool that tells a database's schema; with ``query_tool``: no query before it (C37)."""
    query_tool: str = ""
    """Its tool that queries the database."""
    timeout_s: float = Field(default=60.0, ge=1.0, le=3600.0)
    """Seconds an answer may take, and the start."""
    start_s: float = Field(default=10.0, ge=0.0, le=300.0)
    """Seconds the first request waits for it to start, so that the model knows its tools."""

    @property
    def transport(self) -> Literal["stdio", "http"]:
        """The way to reach the server: "http" where the settings have an address, else "stdio"."""
        return "http" if self.url else "stdio"

    @property
    def secret_values(self) -> tuple[str, ...]:
        """The values of its variables whose names suggest a secret."""
        return tuple(value for name, value in self.env.items() if _SECRET.search(name) and value)

    @field_validator("env")
    @classmethod
    def _check_env(cls, env: dict[str, str]) -> dict[str, str]:
        """Return the variables. Raises a validation error for an invalid name or a NUL in
        a value.
        """
        for name, value in env.items():
            if not _VARIABLE.fullmatch(name) or "\0" in value:
                raise PydanticCustomError(
                    "variables", "names of variables are letters, digits and _; no NUL in a value"
                )
        return env

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        """Return the address. Raises a validation error unless it is https, or http in the private
        network, without user name and password.
        """
        if not url:
            return url
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PydanticCustomError(
                "address_scheme", "must begin with https:// or http:// and name a host"
            )
        if parts.username or parts.password:
            raise PydanticCustomError("address_password", "must hold no user name or password")
        if parts.scheme == "http" and not _is_private(parts.hostname):
            raise PydanticCustomError(
                "address_private", "must be https, or http to an address of the private network"
            )
        return url

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        """Raise a validation error unless exactly one of command and url is set and no argument
        holds a NUL.
        """
        if bool(self.command) == bool(self.url):
            raise PydanticCustomError("command_or_url", "needs either a command or a url")
        if "\0" in "".join((self.command, *self.args)):
            raise PydanticCustomError("nul", "must hold no NUL")
        return self


def _is_private(host: str) -> bool:
    """Whether a host is localhost or an address of a private network."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


LONGEST: Final = 48  # characters of a tool's part, so that the name fits a line of the prompt
_KEPT: Final = 39  # characters kept of a longer one, before "_" and 8 hex digits of its SHA-256
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


def operation_name(server: str, tool: str) -> str:
    """Return the operation's name for a tool, ``mcp.<server>.<tool>``: other characters than
    letters, digits, ``_`` and ``-`` become ``_``, and a long name is shortened with a hash at
    its end.
    """
    part = _OTHER.sub("_", tool)
    if len(part) > LONGEST:
        part = f"{part[:_KEPT]}_{hash_data(tool)[:8]}"
    return f"mcp.{server}.{part}"


MAX_SAID: Final = 300  # characters of a server's message that is shown
MAX_DESCRIPTION: Final = 1_000  # characters of a tool's description


def printable_line(text: str, limit: int = MAX_SAID) -> str:
    """Return a message of a server or the system on one line of at most ``limit`` characters, with
    control characters made visible.
    """
    return one_line(visible_line(text[: limit * 2].replace("\n", " ")), limit)


def make_harmless(text: str) -> str:
    """Return a text with control and hidden characters made visible; line breaks and tabs stay."""
    return "\t".join(make_visible(part) for part in text.split("\t"))
