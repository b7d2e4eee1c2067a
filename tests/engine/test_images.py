"""Pictures of results: shown to models that see by either API, named to the others."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.http_server import PIXEL
from support.mcp_servers import http_server
from support.session import GateChoice, action, decision, done, script, session
from support.zoo import Provider

from duckflow_tui.llm.codec import NOT_SHOWN
from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Fault, Reply
from duckflow_tui.state.operations import IMAGE_TOKENS
from duckflow_tui.state.usage import PromptMeasured
from duckflow_tui.tools.pictures import MAX_IMAGE

URL = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"


def pictures_of(request: Request) -> list[str]:
    """The addresses of the pictures in a request, as its API has them."""
    body: dict[str, Any] = request.json
    messages: list[dict[str, Any]] = body.get("messages") or body.get("input") or []
    parts: list[dict[str, Any]] = []
    for message in messages:
        content: Any = message.get("content")
        parts += content if isinstance(content, list) else []
    chat = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return chat + [part["image_url"] for part in parts if part["type"] == "input_image"]


class Refusing(Provider):
    """Refuses requests with pictures in a provider's words; the script writes all answers."""

    def __init__(self, status: int = 0, message: str = "", model: str = "duck-1") -> None:
        super().__init__()
        self.model = model
        self.refused = 0
        self._fault = Fault(status=status, message=message)

    def answer(self, request: Request) -> Reply | None:
        if not self._fault.message or not pictures_of(request):
            return None
        self.refused += 1
        return Reply(fault=self._fault)


def project(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "duck.png").write_bytes(PIXEL)
    return tmp_path


def look(path: str = "duck.png") -> dict[str, Any]:
    return action("file_ops.read_file", path=path)


@pytest.mark.parametrize("protocol", ["json", "tools", "responses"])
async def test_a_picture_reaches_a_model_that_sees_and_is_kept_once(
    tmp_path: Path, protocol: Protocol
) -> None:
    """Named by the user, read by the model, of a server's tool and of its resource; after a resume
    too.
    """
    root = project(tmp_path)
    with http_server() as (url, _):
        again: dict[str, Any] = {
            "protocol": protocol, "environ": {"DUCKFLOW_MCP__SERVERS__NET__URL": url}
        }  # fmt: skip
        replies = script(decision("I look.", look(), action("mcp.net.draw")), done("A pixel."))
        async with session(root, replies, **again) as s:
            await s.engine.send("What is in @duck.png, @gone.png and @net:photo://duck?")
            await s.answer(GateChoice.ONCE)
            await s.ended()
            first, last = s.server.of("main")
            results, name, port = s.results(), s.session_id, s.server.port
        assert pictures_of(first) == [URL] * 2
        assert pictures_of(last) == [URL] * 4
        assert NOT_SHOWN not in last.text
        assert [len(call.result.images) for call in results] == [1] * 4
        kept = [path.read_bytes() for path in (root / "home").rglob("*") if path.is_file()]
        assert kept.count(PIXEL) == 1
        assert not any(URL[40:].encode() in data for data in kept)
        async with session(root, script(done("Yes.")), resume=name, port=port, **again) as s:
            await s.turn("Are you sure?")
            assert pictures_of(s.server.of("main")[-1]) == [URL] * 4


@pytest.mark.parametrize("protocol", ["json", "tools", "responses"])
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Invalid content type. image_url is only supported by certain models."),
        (400, "Failed to deserialize: unknown variant `image_url`, expected `text`"),
        (404, "No endpoints found that support image input"),
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
        (400, "duck-1 is not a multimodal model"),
        (400, "Bad Request"),
        (413, "Request Entity Too Large"),
        (400, "'messages.3.content' : value must be a string"),
        (400, "messages.4.content.0.image: dimensions exceed max allowed size: 8000 pixels"),
    ],
)
async def test_one_refusal_teaches_for_the_session_that_a_model_takes_no_pictures(
    tmp_path: Path, protocol: Protocol, status: int, message: str
) -> None:
    server = Refusing(status, message)
    replies = script(decision("I look.", look()), done("It is not shown to me."), done("No."))
    async with session(project(tmp_path), replies, protocol=protocol, provider=server) as s:
        end = await s.turn("What is in the picture?")
        assert end.outcome == "done"
        await s.turn("Look again.")
        told = s.server.of("main")[-1]
        assert (server.refused, s.notices().count("llm.learned.images")) == (1, 1)
        assert NOT_SHOWN in told.text
        assert not pictures_of(told)


async def test_a_model_that_is_known_to_be_blind_is_sent_no_picture(tmp_path: Path) -> None:
    replies = script(decision("I look.", look()), done("It is not shown to me."))
    provider = Refusing(model="deepseek-v4-pro")
    async with session(project(tmp_path), replies, provider=provider) as s:
        await s.turn("What is in the picture?")
        assert not any(map(pictures_of, s.server.of("main")))
        assert NOT_SHOWN in s.server.of("main")[-1].text
        assert "llm.learned.images" in s.notices()


async def test_a_picture_is_counted_and_goes_with_its_result(tmp_path: Path) -> None:
    """Its tokens stand in the figures of the request, never those of its encoding; a file that is
    too large is named.
    """
    root = project(tmp_path)
    (root / "work" / "large.png").write_bytes(PIXEL + bytes(1_000_000))
    (root / "work" / "huge.png").write_bytes(PIXEL + bytes(MAX_IMAGE))
    calls = [look("large.png"), look("huge.png")]
    async with session(root, script(decision("I look.", *calls), done("Seen."))) as s:
        await s.turn("What is in the pictures?")
        measured = [event.figures for event in s.events(PromptMeasured)]
        files = [figures.parts.files for figures in measured if figures.purpose == "main"]
        assert files[0] == 0
        assert IMAGE_TOKENS / 2 < files[1] < IMAGE_TOKENS * 2  # by what its server counts
        large, huge = (call.result for call in s.results())
        assert (len(large.images), huge.images) == (1, ())
        assert "its content is not shown" in huge.text
        assert len(pictures_of(s.server.of("main")[-1])) == 1


async def test_a_picture_that_may_be_named_by_somebody_else_is_read_as_a_model_reads(
    tmp_path: Path,
) -> None:
    root = project(tmp_path)
    (root / "outside.png").write_bytes(PIXEL)
    async with session(root, script(done("One."))) as s:
        await s.engine.send(f"The log says @duck.png @{root}/outside.png", quoted=True)
        await s.answer(GateChoice.REJECT)
        await s.ended()
        inside, outside = s.results()
        assert not inside.by_user
        assert (len(inside.result.images), outside.result.images) == (1, ())


async def test_a_picture_that_leads_elsewhere_or_to_a_secret_asks_as_a_model_does(
    tmp_path: Path,
) -> None:
    """A name in the project may be a link that somebody else made."""
    root = project(tmp_path)
    (root / "notes.txt").write_text("private words")
    (root / "work" / ".env").write_text("SMTP_PASSWORD=hunter2hunter2")
    (root / "work" / "mockup.png").symlink_to("../notes.txt")
    (root / "work" / "logo.png").symlink_to(".env")
    async with session(root, script(done("No."))) as s:
        await s.engine.send("Is @mockup.png like @logo.png or @duck.png?")
        await s.answer(GateChoice.REJECT)
        await s.answer(GateChoice.REJECT)
        await s.ended()
        sent = s.server.of("main")[-1].raw.decode()
        assert len(pictures_of(s.server.of("main")[-1])) == 1
        assert not any(words in sent for words in ("private words", "hunter2"))


KEY = b"sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
TEXT = zlib.compress(b"API_KEY=" + KEY) + KEY.decode().encode("utf-16-le")  # as EXIF and zTXt


def png(*, texts: bool) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + b"\0" * 4

    begin, end = PIXEL[:33], PIXEL[33:]
    if not texts:
        return PIXEL
    return begin + chunk(b"zTXt", TEXT) + chunk(b"eXIf", TEXT) + end + TEXT


def jpeg(*, texts: bool) -> bytes:
    def segment(marker: int, data: bytes) -> bytes:
        return bytes([0xFF, marker]) + (len(data) + 2).to_bytes(2, "big") + data

    more = segment(0xE1, b"Exif\0\0" + TEXT) + segment(0xFE, TEXT) + segment(0xED, TEXT)
    frame = segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
    tables = segment(0xDB, b"\1" * 20) + segment(0xEE, b"Adobe\0\x64\0\0\0\0\2")
    scan = segment(0xDA, b"\2\3") + b"\7" * 30 + b"\xff\xd9"
    return b"\xff\xd8" + frame + more * texts + tables + scan + TEXT * texts


def webp(*, texts: bool) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return kind + len(data).to_bytes(4, "little") + data + b"\0" * (len(data) % 2)

    more = chunk(b"EXIF", TEXT) + chunk(b"XMP ", TEXT + b"x")
    flags = bytes([0x3C if texts else 0x10])
    body = b"WEBP" + chunk(b"VP8X", flags + b"\0" * 9) + chunk(b"VP8L", b"\5" * 31) + more * texts
    return b"RIFF" + len(body).to_bytes(4, "little") + body


@pytest.mark.parametrize(("name", "make"), [("a.png", png), ("b.jpg", jpeg), ("c.webp", webp)])
async def test_a_picture_goes_without_the_texts_that_it_carries(
    tmp_path: Path, name: str, make: Callable[..., bytes]
) -> None:
    """They can hold a key, compressed or in an encoding that no search for keys reads."""
    root = project(tmp_path)
    (root / "work" / name).write_bytes(make(texts=True))
    async with session(root, script(done("Seen."))) as s:
        await s.engine.send(f"What is on @{name}?")
        await s.ended()
        (sent,) = pictures_of(s.server.of("main")[-1])
    assert base64.b64decode(sent.partition(",")[2]) == make(texts=False)


async def test_a_picture_of_countless_segments_is_read_in_time_and_beside_the_screen(
    tmp_path: Path,
) -> None:
    root = project(tmp_path)
    (root / "work" / "duck.jpg").write_bytes(b"\xff\xd8" + b"\xff\xdb\0\2" * 400_000 + b"\xff\xd9")
    loop, gaps = asyncio.get_running_loop(), [0.0]

    async def beat() -> None:
        while True:
            begin = loop.time()
            await asyncio.sleep(0.01)
            gaps.append(loop.time() - begin)

    async with session(root, script(done("Seen."))) as s:
        begin, beating = loop.time(), asyncio.create_task(beat())
        await s.engine.send("What is on @duck.jpg?")
        await s.ended()
        beating.cancel()
        assert loop.time() - begin < 30
        assert max(gaps) < 2


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.webp", b"RIFF\x0c\0\0\0WEBPVP8X\0\0\0\0", "broken"),
        ("a.jpg", jpeg(texts=False).replace(b"\7" * 30, b"API_KEY=" + KEY), "a key"),
    ],
)
async def test_of_a_picture_that_is_not_shown_the_result_says_why(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    """Nothing else of its result is lost."""
    root = project(tmp_path)
    (root / "work" / name).write_bytes(data)
    replies = script(decision("I look.", look(name)), done("Not shown."))
    async with session(root, replies) as s:
        assert (await s.turn("What is on it?")).outcome == "done"
        (call,) = s.results()
        request = s.server.of("main")[-1]
        assert (call.result.outcome, call.result.images) == ("ok", ())
        named, told = call.result.text.split("\n")
        assert name in named
        assert why in told
        assert "not shown" in told
        assert pictures_of(request) == []
        assert base64.b64encode(KEY[3:30]) not in request.raw
