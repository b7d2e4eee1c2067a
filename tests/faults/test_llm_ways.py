"""The way to a server fails: the sentence names what is in the way, and only that is tried again
which may go better.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from support.endpoint import Bench, bench

from duckflow_tui.llm.discovery import FoundServer, reach_server
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.scripted.replies import Script
from duckflow_tui.words.catalogue import Catalogue


@asynccontextmanager
async def listener(
    answer: bytes, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[tuple[int, list[str]]]:
    """A server that answers each request with these bytes; its port, and the lines it was sent."""
    came: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append((await reader.read(4096)).decode("latin-1").partition("\r\n")[0])
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1], came


async def told(at: Bench) -> str:
    """The sentence of the failure."""
    with pytest.raises(LlmError) as caught:
        await at.decide()
    return Catalogue()(f"llm.error.{caught.value.code}", **caught.value.params)


def head(status: str) -> bytes:
    """The answer of a proxy that is none but a status."""
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()


NO_ANSWER = "through the proxy in HTTPS_PROXY was closed without an answer"
#: Answers of a proxy, the beginning of the sentence, and how often it is tried again.
PROXIES = {
    "407": (head("407 Proxy Authentication Required"), "did not accept the login", 0),
    "403": (head("403 Forbidden"), "does not let requests to models.example through", 0),
    "502": (head("502 Bad Gateway"), "did not reach models.example: “502 Bad Gateway”", 5),
    "hangs up": (b"", NO_ANSWER, 5),
    "is no proxy": (b"SSH-2.0-OpenSSH_9.6\r\n", NO_ANSWER, 5),
}


@pytest.mark.parametrize("case", PROXIES)
async def test_a_proxy_that_does_not_let_through_is_named(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a chat and where models are listed, and its password nowhere."""
    answer, words, retries = PROXIES[case]
    async with listener(answer) as (port, came):
        environ = {"HTTPS_PROXY": f"http://bob:hunter2@127.0.0.1:{port}"}
        async with bench(Script(), environ=environ, base_url="https://models.example/v1") as at:
            said = await told(at)
        assert words in said
        assert "HTTPS_PROXY" in said
        assert "hunter2" not in said
        assert len(at.slept) == retries
        monkeypatch.setenv("HTTPS_PROXY", environ["HTTPS_PROXY"])
        with pytest.raises(LlmError) as caught:
            await reach_server("https://models.example")
        assert words in Catalogue()(f"llm.error.{caught.value.code}", **caught.value.params)
        assert came == ["CONNECT models.example:443 HTTP/1.1"] * (retries + 2)


async def test_a_proxy_that_is_down_is_named(port_of_nobody: int) -> None:
    environ = {"ALL_PROXY": f"127.0.0.1:{port_of_nobody}"}
    async with bench(Script(), environ=environ, base_url="https://models.example/v1") as at:
        assert "The proxy in ALL_PROXY cannot be used" in await told(at)


async def test_a_server_that_hangs_up_at_once_did_not_break_a_reply() -> None:
    async with listener(b"") as (port, _), bench(
        Script(), base_url=f"http://127.0.0.1:{port}/v1"
    ) as at:  # fmt: skip
        assert "closed the connection without an answer" in await told(at)


async def listed(answer: bytes) -> FoundServer | str:
    """The server that was found at this answer, or the sentence of the failure."""
    async with listener(answer) as (port, _):
        try:
            return await reach_server(f"http://127.0.0.1:{port}/v1", seconds=2)
        except LlmError as error:
            return Catalogue()(f"llm.error.{error.code}", **error.params)


def body(status: str, text: str) -> bytes:
    data = text.encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


async def test_a_list_of_models_can_do_nothing_to_the_terminal() -> None:
    names = ["\x1b[31mred\x07", "left\u202e", "a" * 5000, "good", 5]
    found = await listed(body("200 OK", json.dumps({"data": [{"id": name} for name in names]})))
    assert isinstance(found, FoundServer)
    assert [line.id for line in found.models] == ["good"]
    said = await listed(body("500 Oh", "\x1b]0;evil\x07 bad \x00 gateway"))
    assert isinstance(said, str)
    assert "“\\x1b]0;evil\\x07 bad \\x00 gateway”" in said


async def test_a_list_that_never_ends_is_given_up() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await over.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(LlmError) as caught:
            await reach_server(f"http://127.0.0.1:{port}/v1", seconds=0.2)
        over.set()
    assert caught.value.code == "no_list"
    assert "larger than 32 MB" in str(await listed(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (33 << 20)))


async def test_https_to_a_server_without_it_says_so() -> None:
    async with listener(head("400 Bad Request")) as (port, _), bench(
        Script(), base_url=f"https://127.0.0.1:{port}/v1"
    ) as at:  # fmt: skip
        said = await told(at)
    assert "does not answer with encryption" in said
    assert "write http:// in endpoints.here.base_url" in said
    assert at.slept == []


def make_certificate(folder: Path) -> ssl.SSLContext:
    """A context with a certificate for 127.0.0.1 that is signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
    kept = folder / "both.pem"
    kept.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kept)
    return context


async def test_a_certificate_of_an_unknown_authority_says_where_to_name_it(tmp_path: Path) -> None:
    async with listener(b"", make_certificate(tmp_path)) as (port, _), bench(
        Script(), base_url=f"https://127.0.0.1:{port}/v1"
    ) as at:  # fmt: skip
        said = await told(at)
    assert "signed by an authority that this machine does not know" in said
    assert "SSL_CERT_FILE" in said
    assert at.slept == []
