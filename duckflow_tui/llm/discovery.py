"""Finds what to connect to: servers on this machine, known keys, models, and what one can do.

Nothing is asked before somebody calls; the HTTP library is imported then, in a thread. Servers are
not trusted: what is read of one is bounded in bytes and in time, and no redirect is followed.
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
    """A server that lists its models the OpenAI way."""

    base_url: str
    kind: Kind  # empty where the answer does not tell
    models: tuple[ModelLine, ...]
    wants_key: bool = False  # it lists nothing without one


class KnownKey(NamedTuple):
    """A variable of the environment that holds a key; the key itself is not in here."""

    variable: str
    provider: str  # as people call it
    base_url: str
    default_model: str = ""  # a usual choice there; empty where there is none
    prefix: str = ""  # of keys that no other provider gives out

    @property
    def connection(self) -> ModelConnection:
        """A connection that takes its key from the variable."""
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
    """The known variables that are set, each with the address that its key belongs to.

    DUCKFLOW_API_KEY belongs to OPENAI_BASE_URL, and counts only where that is set; OPENAI_API_KEY
    goes there too instead of to OpenAI, as for any other program.
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
    """The host of an address that an endpoint can have; empty for any other."""
    try:
        return Endpoint(name="own", base_url=address).hostname if address else ""
    except ValueError:
        return ""


def usual_model(known: KnownKey | None, models: Sequence[ModelLine]) -> str:
    """The model to begin with: the usual one where the server has it, else its first one."""
    wanted = known.default_model if known is not None else ""
    if not models or any(line.id == wanted for line in models):
        return wanted
    return next((line.id for line in models if wanted and line.id.startswith(wanted)), models[0].id)


def find_nearest(name: str, names: Iterable[str], count: int) -> list[str]:
    """Those of the names that were most likely meant, the likeliest first: what a name is a part
    of, and what is spelt much like it.
    """
    wanted = name.casefold()
    bare = wanted.rpartition("/")[2]

    def likeness(other: str) -> float:
        there = other.casefold()
        if wanted in there or there in wanted:
            return 2.0 - len(other) / 1000
        return difflib.SequenceMatcher(None, bare, there.rpartition("/")[2]).ratio()

    near = [(likeness(other), other) for other in dict.fromkeys(names)]
    near = [pair for pair in near if pair[0] >= LIKE]
    return [other for _, other in sorted(near, key=lambda pair: -pair[0])[:count]]


def address_of(text: str, key: str = "") -> str:
    """The address that is meant by what was typed: a provider's name, an address, or nothing with
    a key whose beginning tells whose it is; empty where it does not.
    """
    name = text.strip().lower()
    if not name:
        owners = (one for one in PROVIDERS if one.prefix and key.startswith(one.prefix))
        found = next(owners, None)
    else:
        found = next((one for one in PROVIDERS if one.provider.lower() == name), None)
    return found.base_url if found is not None else complete_address(text)


def complete_address(address: str) -> str:
    """An address as people type it, with its scheme: http where it can only be near, else https."""
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
    """The servers that answer on 127.0.0.1, in the order of the ports, asked all at once, each
    within ``timeout_s`` seconds. No key is sent. Never raises for what a server does.
    """
    await import_later("transport")
    found = await asyncio.gather(*(_server_at(port, timeout_s) for port in ports))
    return tuple(server for server in found if server is not None)


async def _server_at(port: int, timeout_s: float) -> FoundServer | None:
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
    """The program that answers, where its headers or list name it."""
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
    """The server with its models that can hold a conversation, at the address that answers: that is
    ``base_url`` or that with ``/v1`` behind it. ``variable`` is where the key came from, for what
    is said of it. Raises LlmError; ValidationError for an address that is none.
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
    """List the models of the server at this very address; ``key`` is empty without one. Raises
    LlmError.
    """
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
    """The models that can hold a conversation: the newest first where the server dates them, else
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
    inner = entry.get(name)
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}


def first_count(sizes: Sequence[object]) -> int:
    """The first value that is a number of tokens; 0 for none."""
    for size in sizes:
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1_000_000_000:
            return size
    return 0


def _read_price(value: object, times: float) -> float | None:
    """Dollars for a million tokens; None for what is no price, such as the -1 of a router."""
    try:
        price = float(value) * times if isinstance(value, (str, int, float)) else -1.0
    except (ValueError, OverflowError):
        return None
    return round(price, 6) if 0.0 <= price < 1e6 else None


# --- the way there --------------------------------------------------------------------------------


async def import_later(module: Literal["transport", "client"]) -> None:
    await asyncio.to_thread(importlib.import_module, f"duckflow_tui.llm.{module}")


async def get_bounded(
    endpoint: Endpoint, key: str | None, url: str, most: int
) -> tuple[Mapping[str, str], bytes]:
    """Headers and body of one answer, which has at most ``most`` bytes; raises what
    ``read_faults`` says, or BadStatus.
    """
    from duckflow_tui.llm.transport import BodyTooLarge, open_http

    async with await open_http(endpoint, key, {}, 5.0) as http, http.stream("GET", url) as answer:
        body = bytearray()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > most:
                raise BodyTooLarge
        return answer.headers, bytes(body)


def read_faults() -> tuple[type[BaseException], ...]:
    """The errors that reading an answer raises."""
    import httpx2

    from duckflow_tui.llm.transport import BodyTooLarge

    return (httpx2.HTTPError, httpx2.StreamError, BodyTooLarge, OSError, ValueError)
