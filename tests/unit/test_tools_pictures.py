"""What of a picture's file is left for models, by its format."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.http_server import PIXEL

from duckflow_tui.session.blobs import MemoryBlobs
from duckflow_tui.tools.pictures import BrokenPicture, drop_metadata, find_image_kind, keep_images

SECRET = "api_key: q8Zk3vT1pLm9XyR2bNc7WdJ4hGf6Us0E".encode("utf-16-le")


def png_chunk(kind: bytes, data: bytes = b"") -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + b"\0" * 4


def segment(marker: int, data: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(data) + 2).to_bytes(2, "big") + data


def riff(kind: bytes, data: bytes) -> bytes:
    return kind + len(data).to_bytes(4, "little") + data + b"\0" * (len(data) % 2)


def webp(*chunks: bytes) -> bytes:
    return riff(b"RIFF", b"WEBP" + b"".join(chunks))


def still(text: bytes = b"") -> bytes:
    """An animated WebP file, with a text in its frame."""
    head = riff(b"VP8X", b"\2" + bytes(9)) + riff(b"ANIM", bytes(6))
    return webp(head, riff(b"ANMF", bytes(16) + riff(b"VP8L", b"\5" * 7) + text))


def gif(text: bytes = b"") -> bytes:
    table = b"\x80" + bytes(2) + bytes(6)
    frame = b"\x21\xf9\4" + bytes(5) + b"\x2c" + bytes(9) + b"\2\2\x4c\1\0"
    return b"GIF89a\1\0\1\0" + table + text + frame + b"\x3b"


EXIF = segment(0xE1, b"Exif\0\0" + SECRET)
START = b"\xff\xd8"
TABLES = segment(0xDB, b"\1" * 20)
SCAN = segment(0xDA, b"\2\3") + b"\7\xff\0\7\xff\xd0\7"
JPEG = START + TABLES + SCAN + SCAN + b"\xff\xd9"
JFIF = START + segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0") + TABLES + SCAN + b"\xff\xd9"
ADOBE = START + segment(0xEE, b"Adobe\0\x64\0\0\0\0\2") + TABLES + SCAN + b"\xff\xd9"


@pytest.mark.parametrize(
    ("file", "picture"),
    [
        pytest.param(JPEG + START + EXIF + JPEG[2:], JPEG, id="the second of a phone"),
        pytest.param(START + b"\xff" * 3 + EXIF + JPEG[2:], JPEG, id="behind fill bytes"),
        pytest.param(START + TABLES + SCAN + EXIF + SCAN + b"\xff\xd9", JPEG, id="between scans"),
        pytest.param(JPEG[:-2] + segment(0xFE, SECRET) + b"\xff\xd9", JPEG, id="behind a scan"),
        pytest.param(
            START + segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\2\2" + SECRET) + JFIF[20:],
            JFIF,
            id="a thumbnail",
        ),
        pytest.param(
            START + segment(0xEE, b"Adobe\0\x64\0\0\0\0\2" + SECRET) + ADOBE[18:],
            ADOBE,
            id="behind Adobe's header",
        ),
        pytest.param(PIXEL + png_chunk(b"IDAT", SECRET), PIXEL, id="behind the end of a PNG"),
        pytest.param(
            PIXEL[:-12] + png_chunk(b"IEND", SECRET), PIXEL, id="in the end of a PNG"
        ),
        pytest.param(still(riff(b"EXIF", SECRET)), still(), id="in a frame of a WebP"),
        pytest.param(still() + riff(b"VP8L", SECRET), still(), id="behind a WebP"),
        pytest.param(gif(b"\x21\xfe\4text\0\x21\xff\4text\4more\0"), gif(), id="texts of a GIF"),
        pytest.param(gif() + SECRET, gif(), id="behind a GIF"),
    ],
)  # fmt: skip
def test_only_what_shows_a_picture_is_left_of_its_file(file: bytes, picture: bytes) -> None:
    kind = find_image_kind(file)
    assert drop_metadata(file, kind) == picture
    assert drop_metadata(picture, kind) == picture


@pytest.mark.parametrize("whole", [PIXEL, JPEG, still(), gif()], ids=["png", "jpeg", "webp", "gif"])
def test_a_picture_that_ends_too_early_is_none(whole: bytes) -> None:
    kind = find_image_kind(whole)
    for size in range(12, len(whole)):
        with pytest.raises(BrokenPicture):
            drop_metadata(whole[:size], kind)


@pytest.mark.parametrize("begin", [PIXEL, JPEG, still(), gif()], ids=["png", "jpeg", "webp", "gif"])
@given(st.data())
def test_whatever_a_file_holds_it_is_a_picture_or_broken(begin: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(12, len(begin)))
    file = begin[:cut] + data.draw(st.binary(max_size=100)) + begin[cut:]
    kind = find_image_kind(file)
    try:
        picture = drop_metadata(file, kind)
    except BrokenPicture:
        return
    assert drop_metadata(picture, kind) == picture


@pytest.mark.parametrize("encoding", ["ascii", "utf-16-le", "utf-16-be"])
async def test_a_picture_whose_data_hold_a_key_is_not_kept(encoding: str) -> None:
    def redact(text: str) -> str:
        return text.replace("sk-proj-abcdefgh", "[redacted]")

    for text, kept, why in (("sk-proj-abcdefgh", 0, ("image.holds_key",)), ("a" * 16, 1, ())):
        picture = JPEG.replace(b"\7\xff\xd0", b"\7" + text.encode(encoding) + b"\xff\xd0")
        images, told = await keep_images([picture, picture], MemoryBlobs(), redact)
        assert (len(images), told) == (kept, why)


COUNTLESS: dict[str, Callable[[int], bytes]] = {
    "segments": lambda n: START + b"\xff\xdb\0\2" * n + JPEG[2:],
    "fill bytes": lambda n: START + b"\xff" * 4 * n + JPEG[2:],
    "the end of a scan": lambda n: JPEG[:-2] + b"\xff" * 4 * n + b"\0\xff\xd9",
    "png": lambda n: PIXEL[:33] + png_chunk(b"tRNS") * (n // 3) + PIXEL[33:],
    "webp": lambda n: still(riff(b"VP8L", b"") * (n // 2)),
    "gif": lambda n: gif(b"\x21\xfe" + b"\1a" * 2 * n + b"\0"),
}


@pytest.mark.parametrize("make", COUNTLESS.values(), ids=COUNTLESS)
def test_a_picture_of_countless_parts_is_read_in_linear_time(make: Callable[[int], bytes]) -> None:
    """Where each part costs a copy of all before, this takes minutes."""
    file = make(400_000)
    assert len(drop_metadata(file, find_image_kind(file))) <= len(file)
