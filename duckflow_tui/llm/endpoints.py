"""Endpoints and roles as in the settings, and the rules for where a key may be sent (R11).

Imports no client library: settings are read before the first paint.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.usage import Role

if TYPE_CHECKING:
    from duckflow_tui.llm.known_models import KnownModels

Protocol = Literal["auto", "tools", "json", "responses"]

#: Default ports of Ollama, LM Studio, vLLM, and llama.cpp (new and old).
LOOPBACK_PORTS: Final = (11434, 1234, 8000, 8080, 9931)

#: How the name of a key begins that the program keeps itself: of no variable that a user has set.
KEPT_KEY: Final = "DUCKFLOW_KEY_"
CLI_ENDPOINT: Final = "cli"  # the one that --base-url makes
HERE: Final = "here"  # a server that is looked for on this machine
PROBE: Final = "probe"  # name of an endpoint that is being probed
_FLAGS: Final = {
    "base_url": "--base-url", "api_key_env": "--api-key-env", "protocol": "--protocol"
}  # fmt: skip
OPENAI_ORIGIN: Final = "https://api.openai.com:443"
PRIVATE_SUFFIXES: Final = (".local", ".lan", ".home.arpa", ".internal", ".localdomain")
#: Headers that are a credential in themselves, and go only where a key may go.
CREDENTIAL_HEADERS: Final = frozenset(
    {"authorization", "api-key", "x-api-key", "proxy-authorization", "cookie", "x-goog-api-key"}
)

#: What is behind the base of an address that a call goes to.
_CALLS: Final = ("/chat/completions", "/completions", "/responses", "/models")
_QUERY: Final = re.compile(r"(?:api-version=[\w.-]{1,40})?", re.A)  # as Azure wants it
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
#: A name that is a key in truth: long, with small letters and digits.
_KEY: Final = re.compile(r"(?=.{20})(?=.*[a-z])(?=.*[0-9]).*")

Need = Literal["nothing", "key", "confirmation", "refused"]


class Endpoint(BaseModel, frozen=True, extra="forbid"):
    """An OpenAI-compatible server, and how to talk to it."""

    name: str = Field(min_length=1)
    base_url: str
    """Up to and with the version, such as ``https://api.openai.com/v1``. One of a deployment at
    Azure ends in ``?api-version=…``, and its key goes in the header ``api-key``."""
    api_key_env: str = ""
    """Environment variable that holds the key; the key itself is never a setting."""
    protocol: Protocol = "auto"
    """``auto`` tries native calls first and remembers what the model refused; ``responses`` does
    so by the Responses API in place of chat completions."""
    context: int = Field(default=0, ge=0)
    """Context window in tokens; 0 when unknown."""
    max_output: int | None = Field(default=None, ge=1)
    """Most tokens of one reply; Unset leaves it to the server."""
    temperature: float | None = Field(default=None, ge=0.0, le=2.0)
    """Sampling temperature; Unset leaves it to the server."""
    reasoning_effort: str | None = None
    """How long the model may think, in the server's own words, such as ``low``."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """More headers for each request."""
    extra_body: JsonObject = Field(default_factory=dict[str, Any])
    """More fields for the body of each request."""
    price_in: float | None = Field(default=None, ge=0.0)
    """US dollars for a million tokens of prompt."""
    price_out: float | None = Field(default=None, ge=0.0)
    """US dollars for a million tokens of reply."""
    price_cached: float | None = Field(default=None, ge=0.0)
    """US dollars for a million tokens of prompt that came from a cache; Unset is price_in."""
    cache: Literal["auto", "marks", "key", "off"] = "auto"
    """``marks`` says with each request what to cache, ``key`` names what requests share."""
    first_token_s: float = Field(default=600.0, gt=0.0)
    """Longest silence before the first token, in seconds; local models load slowly. With signs of
    life alone a call lives three times as long."""
    idle_s: float = Field(default=120.0, gt=0.0)
    """Longest silence inside a reply, in seconds."""
    allow_http_key: bool = False
    """Whether the key may go over plain http to a private address."""

    @field_validator("base_url", mode="before")
    @classmethod
    def _check_address(cls, value: object) -> object:
        """Return the address without a trailing slash. Raises a validation error for one that is no
        plain http or https address, or holds a login, a fragment or a query other than
        api-version.
        """
        if not isinstance(value, str) or not value.strip():
            raise PydanticCustomError(
                "address_needed", "an address such as http://localhost:11434/v1 is needed"
            )
        url = value.strip().rstrip("/")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise PydanticCustomError("address_broken", "is not an address") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PydanticCustomError(
                "address_scheme", "must begin with https:// or http:// and name a host"
            )
        if parts.username is not None or parts.password is not None:
            raise PydanticCustomError(
                "address_login", "must hold no user name or password; use api_key_env"
            )
        if not _QUERY.fullmatch(parts.query) or parts.fragment or port == 0:
            raise PydanticCustomError(
                "address_query", "must hold no query but api-version, and no fragment"
            )
        if not url.isascii() or any(char <= " " for char in url):
            raise PydanticCustomError("address_ascii", "must be plain ASCII without spaces")
        return url

    @field_validator("base_url")
    @classmethod
    def _strip_call_path(cls, value: str) -> str:
        """Remove the path of a single call, such as ``/chat/completions``, from a pasted
        address.
        """
        value, mark, query = value.partition("?")
        for call in _CALLS:
            value = value.rstrip("/").removesuffix(call)
        return value.rstrip("/") + mark + query

    @field_validator("api_key_env")
    @classmethod
    def _name_of_a_variable(cls, value: str) -> str:
        """Check that the value is the name of a variable and not a key."""
        name = value.strip()
        if name and (not _NAME.fullmatch(name) or _KEY.fullmatch(name)):
            raise PydanticCustomError(
                "env_name", "must be the name of an environment variable, not the key itself"
            )
        return name

    @property
    def host(self) -> str:
        """Host, with the port if the address states one, for display."""
        return urlsplit(self.base_url).netloc

    @property
    def hostname(self) -> str:
        """Host without port and brackets, in lower case."""
        return (urlsplit(self.base_url).hostname or "").rstrip(".")

    @property
    def origin(self) -> str:
        """Scheme, host and port: keys and learned quirks are bound to it."""
        return origin_of(self.base_url)

    @property
    def may_step_down(self) -> bool:
        """Whether JSON may be requested instead if a model does not support native calls."""
        return self.protocol in ("auto", "responses")

    @property
    def is_https(self) -> bool:
        """Whether the connection to the server is encrypted."""
        return urlsplit(self.base_url).scheme == "https"


def setting_of(name: str, key: str) -> str:
    """Return the name of the setting, or command-line flag, by which the user changes a value of an
    endpoint.
    """
    if name != CLI_ENDPOINT:
        return f"endpoints.{name}.{key}"
    flag = _FLAGS.get(key)
    return flag or f"endpoints.NAME.{key}"  # which only an endpoint of the settings file has


class ModelRef(NamedTuple):
    """A model on an endpoint, both by name."""

    endpoint: str
    model: str

    @classmethod
    def parse(cls, text: str) -> ModelRef:
        """Parse ``endpoint/model``, split at the first slash; raises ValueError if one is
        missing.
        """
        endpoint, slash, model = text.strip().partition("/")
        if not slash or not endpoint or not model:
            raise PydanticCustomError("endpoint_model", "must be endpoint/model")
        return cls(endpoint, model)

    def __str__(self) -> str:
        return f"{self.endpoint}/{self.model}"


class Target(NamedTuple):
    """A model and its endpoint."""

    endpoint: Endpoint
    model: str


class Roles(BaseModel, frozen=True, extra="forbid"):
    """The model of each role as ``endpoint/model``; roles left empty use ``main`` (S1-5)."""

    main: str = ""
    """The conversation and its decisions."""
    creative: str = ""
    """Plans."""
    fast: str = ""
    """Classification, extraction, digests."""
    evaluator: str = ""
    """SelfCheck of results."""
    strong: str = ""
    """Decisions on hard requests; empty: ``main`` decides on all."""

    @field_validator("*")
    @classmethod
    def _check_reference(cls, value: str) -> str:
        """Check and normalize ``endpoint/model``; empty stays empty."""
        return str(ModelRef.parse(value)) if value.strip() else ""

    def model_of(self, role: Role) -> ModelRef | None:
        """Return the model of a role, else of ``main``; None if neither is set."""
        text: str = getattr(self, role) or self.main
        return ModelRef.parse(text) if text else None

    @property
    def second_opinion(self) -> tuple[Role, str] | None:
        """A role with another model than ``main``, and that model's name; None if there is none."""
        main = self.model_of("main")
        choices: tuple[Role, ...] = ("strong", "evaluator")
        for role in choices:
            found = self.model_of(role)
            if found is not None and found != main:
                return role, found.model
        return None


class ModelsInUse(NamedTuple):
    """The endpoints, roles, keys and model facts that a session uses."""

    endpoints: dict[str, Endpoint]
    roles: Roles
    environ: Mapping[str, str]
    known: KnownModels


class Temperatures(BaseModel, frozen=True, extra="forbid"):
    """Sampling temperature of each role; where unset, the endpoint's applies."""

    main: float | None = Field(default=None, ge=0.0, le=2.0)
    """Decisions; unset here and at the endpoint: 0.1."""
    creative: float | None = Field(default=None, ge=0.0, le=2.0)
    """Plans."""
    fast: float | None = Field(default=None, ge=0.0, le=2.0)
    """Classification, extraction, digests."""
    evaluator: float | None = Field(default=None, ge=0.0, le=2.0)
    """SelfCheck of results."""
    strong: float | None = Field(default=None, ge=0.0, le=2.0)
    """Decisions on hard requests; unset here and at the endpoint: 0.1."""


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address, with default ports written out."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    return f"{parts.scheme}://{host}:{port}"


def is_loopback(hostname: str) -> bool:
    """Whether a host name or address is this machine."""
    if hostname == "localhost" or hostname.endswith(".localhost"):
        return True
    address = _address_of(hostname)
    return address is not None and address.is_loopback


def is_private(hostname: str) -> bool:
    """Whether a host name or address can only be in a private network.

    Names of one label or with a private suffix count; the addresses they resolve to are checked
    again before anything is sent.
    """
    address = _address_of(hostname)
    if address is not None:
        return is_private_address(address)
    return "." not in hostname or hostname.endswith(PRIVATE_SUFFIXES)


_CARRIER_NAT: Final = ipaddress.ip_network("100.64.0.0/10")  # also what overlay networks use


def is_private_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is private, link-local, loopback or carrier-grade NAT; an IPv4 address
    mapped into IPv6 is judged as IPv4.
    """
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if isinstance(address, ipaddress.IPv4Address) and address in _CARRIER_NAT:
        return True
    return address.is_private


def _address_of(hostname: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address; None for a name."""
    try:
        return ipaddress.ip_address(hostname)
    except ValueError:
        return None


def find_need(endpoint: Endpoint, environ: Mapping[str, str]) -> Need:
    """Return what an endpoint needs before its first request (R11), or ``nothing``.

    ``refused``: plain http to a public host, which is never allowed. ``confirmation``: plain http
    to a private host, which the user confirms once. ``key``: its key variable is not set.
    """
    if not endpoint.is_https and not is_loopback(endpoint.hostname):
        return "confirmation" if is_private(endpoint.hostname) else "refused"  # R11d
    if endpoint.api_key_env and not environ.get(endpoint.api_key_env, "").strip():
        return "key"
    return "nothing"


def may_carry_key(endpoint: Endpoint) -> bool:
    """Whether a key may be sent to this endpoint at all (R11)."""
    if endpoint.is_https or is_loopback(endpoint.hostname):
        return True
    return is_private(endpoint.hostname) and endpoint.allow_http_key  # R11a


def key_name(endpoint: Endpoint, environ: Mapping[str, str]) -> str:
    """Return the environment variable that holds the key for this endpoint; empty if none is set
    (R11).

    It is the variable that the endpoint names. If it names none: DUCKFLOW_API_KEY for the endpoint
    of ``--base-url``, or OPENAI_API_KEY if the origin is OpenAI's or OPENAI_BASE_URL's.
    """
    names: list[str] = []
    if endpoint.api_key_env:
        names.append(endpoint.api_key_env)
    else:
        if endpoint.name == CLI_ENDPOINT:
            names.append("DUCKFLOW_API_KEY")
        owner = origin_of(environ.get("OPENAI_BASE_URL", "").strip() or OPENAI_ORIGIN)
        if endpoint.origin in (OPENAI_ORIGIN, owner):
            names.append("OPENAI_API_KEY")
    return next((name for name in names if environ.get(name, "").strip()), "")


def resolve_key(endpoint: Endpoint, environ: Mapping[str, str]) -> str | None:
    """Return the key to send to this endpoint; None to send none (R11)."""
    if not may_carry_key(endpoint):
        return None
    name = key_name(endpoint, environ)
    return environ[name].strip() if name else None
