"""Servers, keys and models that are found, over real HTTP; what is chosen, and where keys are."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.endpoint import action, decision

from duckflow_tui.llm.connections import Connections, KeyStore, ModelConnection, ModelLine
from duckflow_tui.llm.discovery import (
    complete_address,
    keys_here,
    reach_server,
    servers_here,
    usual_model,
)
from duckflow_tui.llm.endpoints import CLI_ENDPOINT, Endpoint, ModelRef, Target
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.llm.learned_models import LearnedModels
from duckflow_tui.llm.probe import probe_model
from duckflow_tui.llm.transport import GuardedTransport
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import RefusedPart, Reply, Script
from duckflow_tui.settings import CHOSEN, load_settings
from duckflow_tui.words.catalogue import Catalogue

SECRET = "sk-duck-0123456789abcdef"


class Served:
    """What a hand-made server got, and where it listens."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.sent = 0  # bytes
        self.port = 0


@asynccontextmanager
async def serving(
    *pieces: bytes, forever: bytes = b"", pause_s: float = 0.0
) -> AsyncGenerator[Served]:
    """A server that answers whatever is asked with these bytes; ``forever`` it goes on with."""
    served = Served()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            while forever:
                writer.write(forever)
                await writer.drain()
                served.sent += len(forever)
                await asyncio.sleep(pause_s)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()


def answering(body: object, *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer with this JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + data


def listed(*names: str, **fields: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, **fields} for name in names]}


# --- servers of this machine ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind", "models"),
    [
        (answering(listed("qwen3:8b", owned_by="library")), "Ollama", ["qwen3:8b"]),
        (answering(listed("gpt-oss-20b", owned_by="organization_owner")), "LM Studio",
         ["gpt-oss-20b"]),
        (answering(listed("Qwen/Q3", owned_by="vllm", max_model_len=8192)), "vLLM", ["Qwen/Q3"]),
        (answering(listed("m.gguf"), "Server: llama.cpp"), "llama.cpp", ["m.gguf"]),
        (answering({"object": "list", "data": None}), "", []),
        (answering(listed("mine")), "", ["mine"]),
    ],
)  # fmt: skip
async def test_a_server_is_named_by_what_it_says_of_itself(
    answer: bytes, kind: str, models: list[str]
) -> None:
    async with serving(answer) as served:
        (found,) = await servers_here((served.port,))
    assert (found.kind, [line.id for line in found.models]) == (kind, models)
    assert found.base_url == f"http://127.0.0.1:{served.port}/v1"


async def test_ollama_without_a_model_is_still_ollama() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        root = head.startswith(b"GET / ")
        writer.write(answering(b"Ollama is running" if root else {"object": "list", "data": None}))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        (found,) = await servers_here((server.sockets[0].getsockname()[1],))
    assert (found.kind, found.models) == ("Ollama", ())


async def test_no_key_and_no_cookie_is_sent_to_a_server_that_nobody_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "DUCKFLOW_API_KEY", "DUCKFLOW_KEY_HERE"):
        monkeypatch.setenv(name, SECRET)
    async with serving(answering(listed("m"))) as served:
        await servers_here((served.port,))
    (head,) = served.heads
    assert head.startswith("GET /v1/models ")
    assert SECRET not in head
    assert "authorization" not in head.lower()
    assert "cookie" not in head.lower()


HOSTILE = {
    "endless": ((b"HTTP/1.1 200 OK\r\n\r\n",), b"[" * 65536, 0.0),
    "endless head": ((b"HTTP/1.1 200 OK\r\n",), b"X-A: b\r\n" * 1000, 0.0),
    "dripping": ((b"HTTP/1.1 200 OK\r\n\r\n",), b" ", 0.05),
    "mute": ((), b"", 0.0),
    "junk": ((b"\x00\xff\r\n\r\n" * 9,), b"", 0.0),
    "web page": ((answering(b"<html>hello</html>"),), b"", 0.0),
    "deep": ((answering(b"[" * 100_000),), b"", 0.0),
    "number": ((answering(b'{"data": [{"id": ' + b"9" * 5000 + b"}]}"),), b"", 0.0),
    "other json": ((answering({"error": "no"}),), b"", 0.0),
    "failing": ((answering({"error": "no"}, status="500 Oh"),), b"", 0.0),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_server_costs_its_own_time_only(kind: str) -> None:
    """It is left out, or found without a model, and its neighbour is found all the same."""
    pieces, forever, pause_s = HOSTILE[kind]
    async with (
        serving(*pieces, forever=forever, pause_s=pause_s) as bad,
        serving(answering(listed("good"))) as good,
    ):
        begun = time.monotonic()
        found = await servers_here((bad.port, good.port), 1.0)
        assert time.monotonic() - begun < 5.0
    assert [server.models for server in found][-1] == (ModelLine(id="good"),)
    assert all(not server.models for server in found[:-1])


async def test_of_an_endless_list_only_the_beginning_is_read() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\n\r\n", forever=b"[" * 65536) as served:
        assert await servers_here((served.port,), 5.0) == ()
        assert served.sent < 16 * 1024 * 1024  # what is read, and what the system holds on its way


async def test_a_redirect_is_not_followed() -> None:
    async with serving(answering(listed("elsewhere"))) as other:
        there = f"Location: http://127.0.0.1:{other.port}/v1/models"
        async with serving(answering({}, there, status="302 Found")) as served:
            assert await servers_here((served.port,)) == ()
    assert other.heads == []


async def test_a_server_that_wants_a_key_is_named_as_one() -> None:
    async with serving(answering({"error": "key"}, status="401 Unauthorized")) as served:
        (found,) = await servers_here((served.port,))
    assert (found.wants_key, found.models) == (True, ())


async def test_all_ports_are_asked_at_once() -> None:
    slow = [serving(b"HTTP/1.1 200 OK\r\n\r\n", forever=b" ", pause_s=0.05) for _ in range(4)]
    ports = [(await one.__aenter__()).port for one in slow]
    begun = time.monotonic()
    assert await servers_here(ports, 0.8) == ()
    assert time.monotonic() - begun < 2.4
    for one in slow:
        await one.__aexit__(None, None, None)


# --- known keys -----------------------------------------------------------------------------------


def test_each_known_key_belongs_to_its_own_address() -> None:
    names = ["OPENAI", "OPENROUTER", "DEEPSEEK", "MISTRAL", "GROQ", "GEMINI", "MOONSHOT", "XAI",
             "TOGETHER", "CEREBRAS", "ANTHROPIC"]  # fmt: skip
    environ = {f"{name}_API_KEY": SECRET for name in names} | {"OTHER_API_KEY": SECRET}
    found = keys_here(environ)
    assert {known.variable for known in found} == {f"{name}_API_KEY" for name in names}
    assert len({known.connection.endpoint.origin for known in found}) == len(names)
    assert all(known.base_url.startswith("https://") for known in found)
    assert SECRET not in repr(found)
    assert SECRET not in repr([known.connection for known in found])


def test_an_address_of_the_environment_takes_the_key_of_openai_with_it() -> None:
    own = {"OPENAI_BASE_URL": "http://box.lan:8000/v1"}
    (known,) = keys_here(own | {"OPENAI_API_KEY": SECRET})
    assert (known.provider, known.base_url) == ("box.lan", "http://box.lan:8000/v1")
    (known,) = keys_here(own | {"DUCKFLOW_API_KEY": SECRET})
    assert known.base_url == "http://box.lan:8000/v1"
    assert keys_here({"DUCKFLOW_API_KEY": SECRET}) == ()
    assert keys_here({"GROQ_API_KEY": "  "}) == ()
    (known,) = keys_here({"OPENAI_BASE_URL": "nonsense", "OPENAI_API_KEY": SECRET})
    assert known.base_url == "https://api.openai.com/v1"


def test_the_usual_model_is_taken_where_the_server_has_it() -> None:
    (known,) = keys_here({"DEEPSEEK_API_KEY": SECRET})
    lines = [ModelLine(id="deepseek-reasoner"), ModelLine(id=known.default_model)]
    assert usual_model(known, lines) == known.default_model
    assert usual_model(known, lines[:1]) == "deepseek-reasoner"
    assert usual_model(None, lines) == "deepseek-reasoner"
    assert usual_model(known, ()) == known.default_model
    assert usual_model(None, ()) == ""


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("localhost:11434", "http://localhost:11434"),
        ("192.168.1.7:8000/v1", "http://192.168.1.7:8000/v1"),
        ("api.deepseek.com", "https://api.deepseek.com"),
        (" https://x.example/v1 ", "https://x.example/v1"),
        ("", ""),
    ],
)
def test_an_address_gets_the_scheme_that_is_meant(typed: str, address: str) -> None:
    assert complete_address(typed) == address


# --- models of a server ---------------------------------------------------------------------------


async def test_models_come_with_what_the_server_says_of_them() -> None:
    data = [
        {"id": "a/old", "created": 1, "context_length": 8000,
         "pricing": {"prompt": "0.0000005", "completion": "0.0000015"}},
        {"id": "a/new", "created": 9, "max_model_len": 32768},
        {"id": "a/router", "created": 5, "pricing": {"prompt": "-1", "completion": "-1"}},
        {"id": "a/t", "created": 4, "type": "chat", "pricing": {"input": 0.2, "output": 0.6}},
        {"id": "nomic-embed-text", "created": 9}, {"id": "whisper-large-v3", "created": 9},
        {"id": "tts-1", "created": 9}, {"id": "x/bge-m3", "created": 9, "type": "embedding"},
        {"id": "pic", "created": 9, "architecture": {"output_modalities": ["image"]}},
        {"id": "m", "created": 9, "capabilities": {"completion_chat": False}},
        {"id": 5}, "junk", {"id": "bad\x1b[31m"}, {"id": "a/new", "created": 3},
    ]  # fmt: skip
    async with serving(answering({"data": data}, "Content-Type: application/json")) as served:
        lines = (await reach_server(f"http://127.0.0.1:{served.port}/v1")).models
    assert lines == (
        ModelLine(id="a/new", context=32768),
        ModelLine(id="a/router"),
        ModelLine(id="a/t", price_in=0.2, price_out=0.6),
        ModelLine(id="a/old", context=8000, price_in=0.5, price_out=1.5),
    )


async def test_models_without_dates_are_in_the_order_of_their_names() -> None:
    async with serving(answering(listed("b", "C", "a"), "Content-Type: application/json")) as on:
        lines = (await reach_server(f"http://127.0.0.1:{on.port}/v1")).models
    assert [line.id for line in lines] == ["a", "b", "C"]


async def test_a_wrong_key_is_told_by_its_variable_and_host() -> None:
    async with ScriptedEndpoint(Script(key="right")) as server:
        with pytest.raises(LlmError) as caught:
            await reach_server(server.base_url, SECRET, "MY_KEY")
        assert (caught.value.code, caught.value.key_name) == ("auth", "MY_KEY")
        assert caught.value.host in server.base_url
        assert SECRET not in f"{caught.value!r} {caught.value.params}"
        with pytest.raises(LlmError) as caught:
            await reach_server(server.base_url)
        assert caught.value.code == "no_key_sent"
        assert (await reach_server(server.base_url, "right", "MY_KEY")).models


class Caught(httpx2.AsyncBaseTransport):
    """Takes requests where the network would be."""

    def __init__(self) -> None:
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(200, json={"data": []})


@pytest.mark.parametrize(
    ("base_url", "listing"),
    [
        ("https://api.anthropic.com/v1", {"x-api-key": SECRET, "anthropic-version": "2023-06-01"}),
        ("https://api.openai.com/v1", {"authorization": f"Bearer {SECRET}"}),
    ],
)
async def test_a_list_is_asked_for_in_the_way_of_its_provider(
    base_url: str, listing: dict[str, str]
) -> None:
    """One provider takes a bearer for its chat and not for its list."""
    caught = Caught()
    guarded = GuardedTransport(caught, Endpoint(name="p", base_url=base_url), SECRET)
    for method in ("GET", "POST"):
        await guarded.handle_async_request(httpx2.Request(method, f"{base_url}/models"))
    sent = [
        {name: value for name, value in request.headers.items()
         if name in ("authorization", "x-api-key", "anthropic-version")}
        for request in caught.requests
    ]  # fmt: skip
    assert sent == [listing, {"authorization": f"Bearer {SECRET}"}]


async def test_a_key_is_not_sent_over_plain_http_into_the_world() -> None:
    with pytest.raises(LlmError) as caught:
        await reach_server("http://example.com/v1", SECRET)
    assert caught.value.code == "refused_url"


async def test_an_address_without_its_version_is_corrected() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        good = head.startswith(b"GET /v1/models ")
        body = listed("m") if good else {"error": "not here"}
        kind = "Content-Type: application/json"
        writer.write(answering(body, kind, status="200 OK" if good else "404 Not Found"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        for typed in (base_url, f"{base_url}/", f"{base_url}/v1/chat/completions"):
            found = await reach_server(typed)
            assert (found.base_url, found.models) == (f"{base_url}/v1", (ModelLine(id="m"),))
        with pytest.raises(LlmError) as caught:
            await reach_server(f"{base_url}/other")
        assert caught.value.code == "not_found"


@pytest.mark.parametrize(
    "body",
    [b'{"data": [}', b"", b"[" * 100_000, b'["\xff"]', b"9" * 5000],
    ids=["cut", "empty", "deep", "no text", "long number"],
)
async def test_what_only_says_that_it_is_json_is_told_as_unreadable(body: bytes) -> None:
    async with serving(answering(body, "Content-Type: application/json")) as served:
        with pytest.raises(LlmError) as caught:
            await reach_server(f"http://127.0.0.1:{served.port}/v1")
    assert caught.value.code == "not_json"


async def test_a_model_with_an_impossible_date_is_still_a_model() -> None:
    body = b'{"data": [{"id": "m", "created": ' + b"9" * 400 + b"}]}"
    async with serving(answering(body)) as served:
        (found,) = await servers_here((served.port,))
    assert found.models == (ModelLine(id="m"),)


# --- the probe ------------------------------------------------------------------------------------


def script(*replies: Reply, **fields: Any) -> Script:
    numbers = Reply(data={"numbers": list(range(40))}, delay_s=0.002)
    return Script(replies={"main": replies, "digest": (numbers,)}, models=("duck-1",), **fields)


LOOKS_UP = Reply(decision=decision(actions=[action("probe.look_up", args={"word": "duck"})]))


async def test_a_model_that_can_do_all_is_reported_so() -> None:
    async with ScriptedEndpoint(script(LOOKS_UP)) as server:
        here = ModelConnection(name="here", base_url=server.base_url)
        report = await probe_model(
            here.endpoint, "duck-1", line=ModelLine(id="duck-1", context=4096)
        )
        bodies = [request.json for request in server.requests]
    assert report.error is None
    assert (report.streams, report.native_calls, report.json_schema) == (True, True, True)
    assert report.context == 4096
    assert report.first_token_s is not None
    assert report.tokens_per_s is not None
    assert 10 < report.tokens_per_s < 100_000
    assert len(bodies) == 2
    assert all(body["max_tokens"] <= 512 for body in bodies)
    assert len(json.dumps(bodies)) < 16_000


async def test_what_a_probe_learns_is_kept_and_what_was_known_is_forgotten(tmp_path: Path) -> None:
    kept = tmp_path / "learned_models.json"
    refuses = (
        RefusedPart(name="tools", message="tools are not supported"),
        RefusedPart(name="json_schema", message="response_format json_schema is not supported"),
    )
    async with ScriptedEndpoint(script(LOOKS_UP, refuses=refuses)) as server:
        here = ModelConnection(name="here", base_url=server.base_url)
        report = await probe_model(here.endpoint, "duck-1", learned=LearnedModels(kept))
        name = LearnedModels.name_of(Target(here.endpoint, "duck-1"))
    assert (report.native_calls, report.json_schema, report.answers) == (False, False, True)
    assert "no_tools" in LearnedModels(kept).models[name].flags
    port = here.endpoint.host.rpartition(":")[2]
    async with ScriptedEndpoint(script(LOOKS_UP), port=int(port)):
        report = await probe_model(here.endpoint, "duck-1", learned=LearnedModels(kept))
    assert report.native_calls is True
    assert not kept.exists()


async def test_a_probe_that_is_refused_says_by_whom() -> None:
    async with ScriptedEndpoint(script(LOOKS_UP, key="right")) as server:
        here = ModelConnection(
            name="here", base_url=server.base_url, key_place="variable", variable="MY_KEY"
        )
        report = await probe_model(here.endpoint, "duck-1", {"MY_KEY": SECRET})
        assert report.error is not None
        assert (report.error.code, report.error.key_name) == ("auth", "MY_KEY")
        assert (report.answers, report.native_calls, report.json_schema) == (False, None, None)
        assert SECRET not in repr(report)
        assert (
            await probe_model(here.endpoint, "duck-1", {"MY_KEY": "right"})
        ).native_calls is True


async def test_a_probe_goes_with_the_headers_and_fields_of_its_endpoint() -> None:
    async with ScriptedEndpoint(script(LOOKS_UP, key="right")) as server:
        endpoint = Endpoint(
            name=CLI_ENDPOINT,
            base_url=server.base_url,
            protocol="json",
            headers={"X-Team": "ducks"},
            extra_body={"top_k": 5},
        )
        report = await probe_model(endpoint, "duck-1", {"DUCKFLOW_API_KEY": "right"})
        first = server.requests[0]
    assert (report.error, report.native_calls) == (None, True)
    assert (first.headers["x-team"], first.json["top_k"]) == ("ducks", 5)


async def test_a_model_that_only_talks_is_reported_so() -> None:
    """Without a stream, a call or an object of its own; its window is the server's."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "content-length" in head:
            await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
        message = {"role": "assistant", "content": "Hello, how can I help you?"}
        body: dict[str, Any] = {"choices": [{"message": message, "finish_reason": "stop"}]}
        if head.startswith("get /api/ps "):
            body = {
                "models": [
                    {"name": "other", "context_length": 9},
                    {"name": "m", "context_length": 4096},
                ]
            }
        writer.write(answering(body, "Content-Type: application/json"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        here = ModelConnection(name="here", base_url=f"http://127.0.0.1:{port}/v1")
        report = await probe_model(here.endpoint, "m")
    assert report.error is None
    assert (report.streams, report.native_calls, report.json_schema) == (False, None, False)
    assert report.context == 4096


# --- what was chosen ------------------------------------------------------------------------------

HERE = ModelConnection(name="here", base_url="http://localhost:11434/v1")
FAR = ModelConnection(name="far", base_url="https://api.deepseek.com/v1")
MODEL, OTHER = ModelRef("here", "qwen3:8b"), ModelRef("far", "a/b")


def test_what_was_chosen_is_there_at_the_next_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = Connections(data)
    made.add_connection(HERE)
    made.add_connection(FAR)
    line = ModelLine(id="qwen3:8b", context=4096, date="2026-11-23")
    made.choose_model(MODEL, line=line)
    made.choose_model(OTHER, "fast")
    made.set_favourite(OTHER)
    again = Connections(data)
    assert again.all == (HERE, FAR)
    assert again.roles == {"main": MODEL, "fast": OTHER}
    assert again.favourites == (OTHER,)
    assert again.lines == {MODEL: line}
    assert stat.S_IMODE(again.path.stat().st_mode) == 0o600
    assert [path.name for path in data.iterdir()] == ["connections.json"]
    again.set_favourite(OTHER, favourite=False)
    assert Connections(data).favourites == ()
    again.forget_connection("far")
    assert (Connections(data).all, Connections(data).roles) == ((HERE,), {"main": MODEL})


def test_two_windows_keep_each_others_choices(tmp_path: Path) -> None:
    one, two = Connections(tmp_path), Connections(tmp_path)
    one.add_connection(HERE)
    two.add_connection(FAR)
    assert Connections(tmp_path).all == (HERE, FAR)


NAMES = ("a", "b", "c")
WRITTEN = {f"{name}{number}" for name in NAMES for number in range(12)}
WRITER = """
import os, sys
from pathlib import Path
from duckflow_tui.llm.connections import Connections, KeyStore, ModelConnection, ModelLine
from duckflow_tui.llm.endpoints import Endpoint
from duckflow_tui.llm import learned_models
from duckflow_tui.llm.endpoints import Target
from duckflow_tui.llm.learned_models import LearnedModels
from duckflow_tui.llm.known_models import KnownModels

learned_models.LEARNED_LOCK_S = 30.0  # half a second is too short on a busy machine
folder, *names = Path(sys.argv[1]), *sys.argv[2:]
started, starts = [], [os.pipe() for _ in range(3)]
for name in names:  # imported once, since it takes longer than all that they write
    started.append(os.fork())
    if started[-1] == 0:
        break
def together():  # goes on when the last of them is there, and has closed its end
    waits, mine = starts.pop(0)
    os.close(mine)
    os.read(waits, 1)

if started[-1]:
    for _, mine in starts:
        os.close(mine)
    sys.exit(sum(os.waitpid(pid, 0)[1] for pid in started))
known, learned = KnownModels(folder), LearnedModels(folder / "learned_models.json")
local = Endpoint(name="here", base_url="http://127.0.0.1/v1")
together()
for number in range(12):
    here = ModelConnection(name=f"{name}{number}", base_url="http://127.0.0.1/v1", key_place="file")
    Connections(folder, KeyStore(folder)).add_connection(here, f"key of {here.name}")
together()
for number in range(12):
    known.keep_lines(f"{name}{number}", [ModelLine(id="m")], "2026-11-23")
together()
for number in range(12):
    learned.keep_lesson("tools", Target(local, f"{name}{number}"))
    learned.keep_lesson("tools", Target(local, f"gone{name}"))
    learned.forget_model(Target(local, f"gone{name}"))
"""


def test_programs_that_write_at_the_same_time_keep_what_each_other_wrote(tmp_path: Path) -> None:
    """Three of this program: their choices and keys, what servers said of models, and what models
    refused; what one forgot is gone.
    """
    command = [sys.executable, "-c", WRITER, str(tmp_path), *NAMES]
    subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60, check=True)
    kept = Connections(tmp_path)
    assert {one.name for one in kept.all} == WRITTEN
    assert set(kept.stored_keys(WRITTEN).values()) == {f"key of {name}" for name in WRITTEN}
    assert set(KnownModels(tmp_path).refreshed) == WRITTEN
    learned = LearnedModels(tmp_path / "learned_models.json").models
    assert {name.rpartition(" ")[2] for name in learned} == WRITTEN
    left = [path.name for path in tmp_path.iterdir() if path.suffix != ".json"]
    assert left == []


def test_a_program_that_stands_still_while_it_writes_holds_no_other_up_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckflow_tui.places.LOCK_S", 0.2)
    made = Connections(tmp_path)
    made.add_connection(HERE)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError):
            made.add_connection(FAR)
    finally:
        os.close(folder)
    made.add_connection(FAR)
    assert Connections(tmp_path).all == (HERE, FAR)


def test_on_a_disk_without_locks_what_is_chosen_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    Connections(tmp_path).add_connection(HERE)
    assert Connections(tmp_path).all == (HERE,)


BROKEN = {
    "cut": b"{",
    "list": b"[]",
    "bytes": b"\xff\xfe",
    "long": b"x" * 300_000,
    "deep": b"[" * 100_000,
    "roles": b'{"roles": 5}',
    "no model": b'{"roles": {"main": "noslash"}}',
    "favourite": b'{"favourites": ["/"]}',
    "line": b'{"models": {"q": {"id": "q"}}}',
    "address": b'{"connections": {"a": {"name": "a", "base_url": "ftp://x"}}}',
    "variable": b'{"connections": {"a": {"name": "a", "base_url": "http://127.0.0.1/v1", '
    b'"key_place": "variable", "variable": "A B"}}}',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_counts_as_none_and_a_choice_puts_it_aside(
    tmp_path: Path, data: bytes
) -> None:
    for _ in ("once", "again, beside the first"):
        (tmp_path / "connections.json").write_bytes(data)
        broken = Connections(tmp_path)
        assert (broken.all, broken.roles, broken.favourites, broken.lines) == ((), {}, (), {})
        assert broken.problem
        broken.add_connection(HERE)
        assert Connections(tmp_path).all == (HERE,)
        (aside,) = broken.put_aside
        assert aside.read_bytes() == data
        broken.add_connection(FAR)
        assert broken.put_aside == [aside]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("name", ["connections.json", "keys.json"])
def test_a_file_that_cannot_be_opened_is_not_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.symlink_to(path)  # which goes nowhere
    made = Connections(tmp_path, KeyStore(tmp_path, Ring(refuses=True)))
    with pytest.raises(OSError, match="symbolic links"):
        made.add_connection(FAR, SECRET)
    assert path.is_symlink()
    assert made.put_aside == []


@pytest.mark.parametrize("language", ["en", "ja"])
def test_of_a_broken_file_the_user_is_told_at_the_start(tmp_path: Path, language: str) -> None:
    places = Places(tmp_path, tmp_path, tmp_path)
    (tmp_path / "connections.json").write_bytes(BROKEN["address"])
    (problem,) = load_settings(places, {}).problems
    told = problem.describe_problem(Catalogue(language))
    assert str(tmp_path / "connections.json") in told
    assert "no_choice" not in told


def test_a_broken_file_of_keys_holds_none(tmp_path: Path) -> None:
    for data in (b"{", b"[]", b"[" * 100_000, b"\xff"):
        (tmp_path / "keys.json").write_bytes(data)
        assert KeyStore(tmp_path, Ring(refuses=True)).get_secret("far") == ""


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b'{"https://a.example b": 5}'])
def test_a_broken_file_of_keys_is_put_aside_where_the_next_key_is_kept(
    tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(data)
    path.chmod(0o600)
    made = Connections(tmp_path, KeyStore(tmp_path, Ring(refuses=True)))
    kept = made.add_connection(FAR, SECRET)
    assert made.stored_keys(["far"]) == {kept.key_name: SECRET}
    (aside,) = made.put_aside
    assert aside.read_bytes() == data
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_a_new_connection_gets_a_name_of_its_own(tmp_path: Path) -> None:
    made = Connections(tmp_path)
    made.add_connection(HERE)
    assert (made.free_name("here"), made.free_name("Über x/y"), made.free_name("..")) == (
        "here-2", "ber-x-y", "server",
    )  # fmt: skip


# --- where keys are -------------------------------------------------------------------------------


class Ring:
    """A keyring in memory: it stands in for the library."""

    priority = 5.0

    def __init__(self, *, hangs: bool = False, refuses: bool = False) -> None:
        self.held: dict[tuple[str, str], str] = {}
        self._hangs = hangs
        self._refuses = refuses

    def get_keyring(self) -> Ring:
        return self

    def _asked(self) -> None:
        if self._hangs:
            threading.Event().wait()
        if self._refuses:
            raise RuntimeError("the collection is locked")

    def get_password(self, service_name: str, username: str) -> str | None:
        self._asked()
        return self.held.get((service_name, username))

    def set_password(self, service_name: str, username: str, password: str) -> None:
        self._asked()
        self.held[service_name, username] = password

    def delete_password(self, service_name: str, username: str) -> None:
        self._asked()
        del self.held[service_name, username]


def test_a_key_goes_into_the_keyring_and_no_file(tmp_path: Path) -> None:
    ring = Ring()
    made = Connections(tmp_path, KeyStore(tmp_path, ring))
    kept = made.add_connection(FAR, SECRET)
    assert kept.key_place == "keyring"
    assert list(ring.held.values()) == [SECRET]
    assert all(SECRET not in path.read_text() for path in tmp_path.iterdir())
    assert made.stored_keys(["far"]) == {kept.key_name: SECRET}
    assert made.stored_keys(["here"]) == {}
    assert SECRET not in repr(made.all)
    made.forget_connection("far")
    assert ring.held == {}


@pytest.mark.parametrize("ring", [Ring(hangs=True), Ring(refuses=True)])
def test_a_keyring_that_does_not_answer_holds_nothing_up(tmp_path: Path, ring: Ring) -> None:
    begun = time.monotonic()
    keys = KeyStore(tmp_path, ring, seconds=(0.2, 0.2))
    made = Connections(tmp_path, keys)
    kept = made.add_connection(FAR, SECRET)
    assert time.monotonic() - begun < 5.0
    assert kept.key_place == "file"
    assert made.stored_keys(["far"]) == {kept.key_name: SECRET}
    held = tmp_path / "keys.json"
    assert stat.S_IMODE(held.stat().st_mode) == 0o600
    made.forget_connection("far")
    assert SECRET not in held.read_text()


def test_a_key_of_one_address_is_none_for_another(tmp_path: Path) -> None:
    made = Connections(tmp_path, KeyStore(tmp_path, Ring(refuses=True)))
    kept = made.add_connection(FAR, SECRET)
    made.add_connection(kept.model_copy(update={"base_url": "https://evil.example/v1"}))
    assert made.stored_keys(["far"]) == {}


def test_a_machine_without_a_keyring_says_so(tmp_path: Path) -> None:
    class Nothing(Ring):
        priority = 0.0

    keys = KeyStore(tmp_path, Nothing())
    assert keys.find_place() == "file"


def test_what_was_chosen_counts_below_the_settings(tmp_path: Path) -> None:
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    made = Connections(places.data)
    made.add_connection(HERE)
    made.add_connection(FAR)
    made.choose_model(MODEL)
    made.choose_model(OTHER, "fast")
    loaded = load_settings(places, {})
    assert loaded.settings.roles.main == "here/qwen3:8b"
    assert loaded.settings.roles.fast == "far/a/b"
    assert loaded.origins["roles.main"] == CHOSEN
    own = {
        "DUCKFLOW_ENDPOINTS__FAR__BASE_URL": "https://other.example/v1",
        "DUCKFLOW_ENDPOINTS__MINE__BASE_URL": "https://mine.example/v1",
        "DUCKFLOW_ROLES__MAIN": "mine/m",
    }
    loaded = load_settings(places, own)
    assert loaded.problems == []
    assert loaded.settings.roles.main == "mine/m"
    assert loaded.settings.roles.fast == ""  # it was chosen for another server of that name
    assert loaded.settings.endpoints["far"].base_url == "https://other.example/v1"
    assert loaded.settings.endpoints["far"].api_key_env == ""
