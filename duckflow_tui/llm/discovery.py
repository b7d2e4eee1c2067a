"""Finds endpoints to connect to: servers on this machine, known keys in the environment, and the
models of a server.

Nothing is contacted before a function is called; the HTTP library is imported then, in a thread.
Servers are not trusted: answers are limited in bytes and time, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import urlsplit

import jiter

from duckflow_tui.llm.connections import ModelConnection, ModelLine
from duckflow_tui.llm.endpoints import (
    CLI_ENDPOINT,
    HERE,
    LOOPBACK_PORTS,
    OPENAI_ORIGIN,
    Endpoint,
    find_need,
    is_loopback,
    is_private,
    may_carry_key,
    origin_of,
)
from duckflow_tui.llm.errors import UNLISTED, LlmError
from duckflow_tui.llm.exchange import Patience
from duckflow_tui.llm.wire import read_entries
from duckflow_tui.state.base import JsonObject, SystemClock

MAX_HERE: Final = 1024 * 1024  # bytes of a list that are read from a server nobody named
MAX_MODELS: Final = 2000  # of one server
MAX_ID: Final = 200  # characters of a model's name
_MAX_DATE: Final = 1e12  # seconds since 1970; a longer number is no date of a model
LIKE: Final = 0.6  # from which share of equal letters on a name was probably meant
LIST_S: Final = 10.0  # seconds that a server which somebody named has to list its models

Kind = Literal["Ollama", "LM Studio", "vLLM", "llama.cpp", ""]


class FoundServer(NamedTuple):
    """A server that answers the OpenAI way to list models."""

    base_url: str
    kind: Kind  # empty where the answer does not tell
    models: tuple[ModelLine, ...]
    wants_key: bool = False  # it lists no models without a key


class KnownKey(NamedTuple):
    """A provider with the environment variable of its key; it does not hold the key itself."""

    variable: str
    provider: str  # as people call it
    base_url: str
    default_model: str = ""  # a usual choice there; empty if there is none
    prefix: str = ""  # of keys that no other provider gives out

    @property
    def connection(self) -> ModelConnection:
        """A connection that reads its key from the variable."""
        name = re.sub(r"[^a-z0-9]+", "-", self.provider.lower())
        return ModelConnection(
            name=name, base_url=self.base_url, key_place="variable", variable=self.variable
        )


#: Addresses as the providers document them for OpenAI's client; models as usual in 2026.
PROVIDERS: Final = (
    KnownKey("OPENAI_API_KEY", "OpenAI", "https://api.openai.com/v1", "gpt-5", "sk-proj-"),
    KnownKey(
        "ANTHROPIC_API_KEY", "Anthropic", "https://api.anthropic.com/v1", "claude-sonnet-4-5",
        "sk-ant-",
    ),
    KnownKey(
        "GEMINI_API_KEY", "Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-pro", "AIza",
    ),
    KnownKey("DEEPSEEK_API_KEY", "DeepSeek", "https://api.deepseek.com/v1", "deepseek-chat"),
    KnownKey("MISTRAL_API_KEY", "Mistral", "https://api.mistral.ai/v1", "devstral-medium-latest"),
    KnownKey("MOONSHOT_API_KEY", "Moonshot", "https://api.moonshot.ai/v1", "kimi-k2-0905-preview"),
    KnownKey("XAI_API_KEY", "xAI", "https://api.x.ai/v1", "grok-code-fast-1", "xai-"),
    KnownKey(
        "GROQ_API_KEY", "Groq", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", "gsk_"
    ),
    KnownKey("CEREBRAS_API_KEY", "Cerebras", "https://api.cerebras.ai/v1", "gpt-oss-120b", "csk-"),
    KnownKey(
        "TOGETHER_API_KEY", "Together", "https://api.together.xyz/v1",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
    ),
    KnownKey(
        "OPENROUTER_API_KEY", "OpenRouter", "https://openrouter.ai/api/v1",
        "anthropic/claude-sonnet-4.5", "sk-or-",
    ),
)  # fmt: skip


def keys_here(environ: Mapping[str, str]) -> tuple[KnownKey, ...]:
    """Return the known variables that are set, each with the address that its key belongs to.

    If OPENAI_BASE_URL is set, DUCKFLOW_API_KEY and OPENAI_API_KEY belong to that address; otherwise
    DUCKFLOW_API_KEY is ignored and OPENAI_API_KEY belongs to OpenAI.
    """
    own = environ.get("OPENAI_BASE_URL", "").strip()
    host = _host_of(own)
    own_key = KnownKey("DUCKFLOW_API_KEY", host, own)
    found: list[KnownKey] = []
    for known in (own_key, *PROVIDERS) if host else PROVIDERS:
        if known.variable == "OPENAI_API_KEY" and host and origin_of(own) != OPENAI_ORIGIN:
            known = known._replace(provider=host, base_url=own, default_model="")
        if environ.get(known.variable, "").strip():
            found.append(known)
    return tuple(found)


def _host_of(address: str) -> str:
    """Return the host of a valid endpoint address; empty for any other text."""
    try:
        return Endpoint(name="own", base_url=address).hostname if address else ""
    except ValueError:
        return ""


def usual_model(known: KnownKey | None, models: Sequence[ModelLine]) -> str:
    """Choose the first model to offer: the provider's usual one if the server has it, else the
    server's first.
    """
    wanted = known.default_model if known is not None else ""
    if not models or any(line.id == wanted for line in models):
        return wanted
    return next((line.id for line in models if wanted and line.id.startswith(wanted)), models[0].id)


def find_nearest(name: str, names: Iterable[str], count: int) -> list[str]:
    """Return at most ``count`` names similar to ``name``, most similar first: names that contain it
    or are contained in it, then names of similar spelling.
    """
    wanted = name.casefold()
    bare = wanted.rpartition("/")[2]

    def likeness(other: str) -> float:
        """Rate the similarity of a name: up to 1.0 by spelling, more if one contains the other."""
        there = other.casefold()
        if wanted in there or there in wanted:
            return 2.0 - len(other) / 1000
        return difflib.SequenceMatcher(None, bare, there.rpartition("/")[2]).ratio()

    near = [(likeness(other), other) for other in dict.fromkeys(names)]
    near = [pair for pair in near if pair[0] >= LIKE]
    return [other for _, other in sorted(near, key=lambda pair: -pair[0])[:count]]


def address_of(text: str, key: str = "") -> str:
    """Return the address that the user typed or named: of a provider by name, or, if ``text`` is
    empty, of the provider whose keys begin like ``key``. Empty if unknown.
    """
    name = text.strip().lower()
    if not name:
        owners = (one for one in PROVIDERS if one.prefix and key.startswith(one.prefix))
        found = next(owners, None)
    else:
        found = next((one for one in PROVIDERS if one.provider.lower() == name), None)
    return found.base_url if found is not None else complete_address(text)


def complete_address(address: str) -> str:
    """Add a missing scheme to a typed address: http for local and private hosts, else https."""
    address = address.strip()
    if not address or "://" in address:
        return address
    try:
        name = urlsplit(f"//{address}").hostname or ""
    except ValueError:
        return address
    return f"{'http' if is_loopback(name) or is_private(name) else 'https'}://{address}"


# --- servers of this machine ----------------------------------------------------------------------


async def servers_here(
    ports: Iterable[int] = LOOPBACK_PORTS, timeout_s: float = 1.5
) -> tuple[FoundServer, ...]:
    """Find servers on 127.0.0.1: ask all ports at once, each for at most ``timeout_s`` seconds,
    without a key. Returned in the order of the ports. Faults of servers are not raised.
    """
    await import_later("transport")
    found = await asyncio.gather(*(_server_at(port, timeout_s) for port in ports))
    return tuple(server for server in found if server is not None)


async def _server_at(port: int, timeout_s: float) -> FoundServer | None:
    """Return the server at a port, also one that wants a key; None if none answers."""
    from duckflow_tui.llm.transport import BadStatus

    base_url = f"http://127.0.0.1:{port}/v1"
    endpoint = Endpoint(name=HERE, base_url=base_url)
    try:
        async with asyncio.timeout(timeout_s):
            headers, body = await get_bounded(endpoint, None, f"{base_url}/models", MAX_HERE)
            entries = read_entries(jiter.from_json(body))
            kind = _kind_of(headers, entries)
            if not kind and not entries:  # Ollama without a model says so at its root only
                _, body = await get_bounded(endpoint, None, f"{endpoint.origin}/", 1024)
                kind = "Ollama" if body.startswith(b"Ollama is running") else ""
            return FoundServer(base_url, kind, _read_lines(entries))
    except BadStatus as refused:
        asks = refused.status == 401
        return FoundServer(base_url, _kind_of(refused.headers, ()), (), asks) if asks else None
    except read_faults():
        return None


def _kind_of(headers: Mapping[str, str], entries: Sequence[JsonObject]) -> Kind:
    """Return the server program that headers or the list of models reveal; empty if unknown."""
    owners = {str(entry.get("owned_by", "")) for entry in entries}
    names = {name.lower(): value.lower() for name, value in headers.items()}
    if "llama.cpp" in names.get("server", "") or "llamacpp" in owners:
        return "llama.cpp"
    if "vllm" in owners:
        return "vLLM"
    if "library" in owners:
        return "Ollama"
    return "LM Studio" if "organization_owner" in owners else ""


# --- models of a server ---------------------------------------------------------------------------


async def reach_server(
    base_url: str, key: str = "", variable: str = "", seconds: float = LIST_S
) -> FoundServer:
    """List a server's models that can hold a conversation, at ``base_url`` or else with ``/v1``
    appended. ``variable`` names the source of the key, for errors. Raises LlmError;
    ValidationError for an invalid address.
    """
    name = (variable or "DUCKFLOW_API_KEY") if key else ""
    endpoint = Endpoint(name=CLI_ENDPOINT, base_url=base_url, api_key_env=name)
    try:
        return await list_server(endpoint, key, seconds)
    except LlmError as error:
        if urlsplit(endpoint.base_url).path or error.code not in UNLISTED:
            raise
        try:
            with_version = endpoint.model_copy(update={"base_url": f"{endpoint.base_url}/v1"})
            return await list_server(with_version, key, seconds)
        except LlmError as other:
            raise (error if other.code == "not_found" else other) from None


async def list_server(endpoint: Endpoint, key: str, seconds: float) -> FoundServer:
    """List the models at exactly this address; ``key`` is empty without one. Raises LlmError."""
    if find_need(endpoint, {endpoint.api_key_env: key}) == "refused":
        raise LlmError(
            "refused_url", host=endpoint.host, detail=endpoint.base_url, setting="--base-url"
        )
    await import_later("client")
    from duckflow_tui.llm.client import ChatClient

    sent = key if key and may_carry_key(endpoint) else None
    environ = {**os.environ, endpoint.api_key_env: key} if key else os.environ
    client = await ChatClient.open(endpoint, sent, environ, SystemClock(), Patience())
    try:
        entries = (await client.fetch_entries(seconds))[:MAX_MODELS]
    finally:
        await client.aclose()
    return FoundServer(endpoint.base_url, _kind_of({}, entries), _read_lines(entries))


#: What a name says of a model that does not talk.
_MUTE: Final = re.compile(
    r"(?:^|[/_.:-])(?:text-)?(?:embed\w*|whisper\w*|tts|dall-e\w*|moderation\w*|rerank\w*|bge|gte"
    r"|transcribe|realtime|audio|speech|sora\w*|imagen\w*|veo|orpheus|voxtral-mini-transcribe|ocr"
    r"|(?:gpt-)?image|davinci|babbage|minilm|e5|aqa)(?:$|[/_.:0-9-])",
    re.I,
)
_TALKS: Final = frozenset({"", "chat", "language", "code", "model", "base", "llm", "vlm"})


def _read_lines(entries: Sequence[JsonObject]) -> tuple[ModelLine, ...]:
    """Describe the models that can hold a conversation, newest first if the server dates them, else
    by name.
    """
    made: dict[str, tuple[float, ModelLine]] = {}
    for entry in entries:
        name = entry.get("id")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_ID or not name.isprintable():
            continue
        name = name.strip().removeprefix("models/")  # Gemini
        if name and name not in made and _can_talk(name, entry):
            created = entry.get("created")
            date = 0.0
            if isinstance(created, (int, float)) and 0 < created < _MAX_DATE:
                date = float(created)
            made[name] = date, _read_line(name, entry)
    dates = {date for date, _ in made.values()}
    order = sorted(made.values(), key=lambda one: one[1].id.casefold())
    if len(dates) > 1 and 0.0 not in dates:
        order.sort(key=lambda one: -one[0])
    return tuple(line for _, line in order)


def _can_talk(name: str, entry: JsonObject) -> bool:
    """Whether a model can hold a conversation, by its entry and name."""
    kind = entry.get("type")
    if isinstance(kind, str) and kind.lower() not in _TALKS:  # Together
        return False
    about = inner_of(entry, "architecture").get("output_modalities")  # OpenRouter
    if isinstance(about, list) and "text" not in about:
        return False
    if inner_of(entry, "capabilities").get("completion_chat") is False:  # Mistral
        return False
    return _MUTE.search(name) is None


def _read_line(name: str, entry: JsonObject) -> ModelLine:
    """Describe a model by its entry in a server's list."""
    sizes = [
        entry.get("context_length"),  # OpenRouter, Together, Moonshot
        inner_of(entry, "top_provider").get("context_length"),
        entry.get("context_window"),  # Groq
        entry.get("max_model_len"),  # vLLM
        entry.get("max_context_length"),  # Mistral
        inner_of(entry, "meta").get("n_ctx"),  # llama.cpp
    ]
    context = first_count(sizes)
    prices = inner_of(entry, "pricing")
    names, factor = ("input", "output", "cached_input", "cache_write"), 1.0
    if "prompt" in prices:  # a token's, as text
        names = ("prompt", "completion", "input_cache_read", "input_cache_write")
        factor = 1e6
    price_in, price_out, cached, write = (_read_price(prices.get(name), factor) for name in names)
    inputs = inner_of(entry, "architecture").get("input_modalities")  # OpenRouter
    able = inner_of(entry, "capabilities").get("vision")  # Mistral
    sees = "image" in inputs if isinstance(inputs, list) else able
    return ModelLine(
        id=name,
        sees=sees if isinstance(sees, bool) else None,
        context=context,
        price_in=price_in,
        price_out=price_out,
        price_cached=cached,
        price_write=write,
    )


def inner_of(entry: JsonObject, name: str) -> dict[str, Any]:
    """Return the object in a field of an entry; empty if it is not an object."""
    inner = entry.get(name)
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}


def first_count(sizes: Sequence[object]) -> int:
    """Return the first value that is a plausible number of tokens; 0 if there is none."""
    for size in sizes:
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1_000_000_000:
            return size
    return 0


def _read_price(value: object, times: float) -> float | None:
    """Convert a price to US dollars per million tokens by the factor ``times``; None for invalid
    prices, such as the -1 of a router.
    """
    try:
        price = float(value) * times if isinstance(value, (str, int, float)) else -1.0
    except (ValueError, OverflowError):
        return None
    return round(price, 6) if 0.0 <= price < 1e6 else None


# --- the way there --------------------------------------------------------------------------------


async def import_later(module: Literal["transport", "client"]) -> None:
    """Import a module of this package in a thread, because it imports a large library."""
    await asyncio.to_thread(importlib.import_module, f"duckflow_tui.llm.{module}")


async def get_bounded(
    endpoint: Endpoint, key: str | None, url: str, most: int
) -> tuple[Mapping[str, str], bytes]:
    """Fetch a URL and return headers and body, of at most ``most`` bytes. Raises BadStatus and the
    exceptions of ``read_faults``.
    """
    from duckflow_tui.llm.transport import BoundedResponse, open_http

    async with await open_http(endpoint, key, {}, 5.0) as http, http.stream("GET", url) as answer:
        assert isinstance(answer, BoundedResponse)  # the transport makes no others
        answer.most = most
        return answer.headers, await answer.aread()


def read_faults() -> tuple[type[BaseException], ...]:
    """Return the exception types that reading an answer can raise."""
    import httpx2

    return (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError)
