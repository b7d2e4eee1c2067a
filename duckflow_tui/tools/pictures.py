"""Pictures of results: what of their files goes to models, and what does not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from duckflow_tui.state.operations import Image
from duckflow_tui.tools.operation import Blobs

MAX_IMAGE: Final = 3_750_000  # bytes of a picture: 5 MB in base64, the most that Claude's API takes
_KINDS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
#: Text inside the bytes of a picture that is long enough for a key.
_TEXT_RUNS: Final = re.compile(rb"[\t -~]{8,}")

_PNG_CHUNKS: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT"})
_PNG_END: Final = b"\0\0\0\0IEND\xaeB`\x82"

#: A marker of a JPEG, not its first and no byte of a scan; fill bytes stand before it.
_MARKER: Final = re.compile(rb"\xff[^\0\xff\xd0-\xd8]")
_SCAN: Final = 0xDA
_JPEG_END: Final = 0xD9
#: The header without a thumbnail: without it, or Adobe's, some readers guess the colours.
_JFIF: Final = b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
_ADOBE_SIZE: Final = 14

_WEBP_FRAMES: Final = frozenset({b"VP8 ", b"VP8L", b"ANMF"})
_WEBP_METADATA: Final = 0x2C  # flags in VP8X: colour profile, EXIF, XMP
_ANMF_HEAD: Final = 16  # bytes of place, size and time before the chunks of a frame


class BrokenPicture(ValueError):
    """A file ends or goes wrong before its picture does."""


def find_image_kind(data: bytes) -> str:
    """Return the media type of a picture that models can be shown, by its first bytes; empty for
    other data, and for more than MAX_IMAGE bytes.
    """
    if len(data) > MAX_IMAGE:
        return ""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _KINDS if data.startswith(begin)), "")


def drop_metadata(data: bytes, kind: str) -> bytes:
    """Return of a picture of this media type what is needed to show it, to its end: no texts,
    EXIF (with it the orientation), XMP, colour profile, thumbnail or second picture. Raises
    BrokenPicture.
    """
    try:
        return b"".join(_WALKS[kind](data))
    except LookupError:
        raise BrokenPicture from None


def _walk_png(data: bytes) -> Iterator[bytes]:
    """Yield the signature, the chunks of the picture and the end."""
    yield data[:8]
    at, kind = 8, b""
    while kind != b"IEND":
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")  # size, type, data, checksum
        if end > len(data):
            raise BrokenPicture
        kind = data[at + 4 : at + 8]
        if kind in _PNG_CHUNKS:
            yield data[at:end]
        at = end
    yield _PNG_END


def _walk_jpeg(data: bytes) -> Iterator[bytes]:
    """Yield the frame, its tables and scans, with the two headers that say how colours are
    meant. What stands between segments is skipped, as readers do.
    """
    yield data[:2]
    at, scans = 2, 0
    while found := _MARKER.search(data, at):
        begin = found.start()
        marker = data[begin + 1]
        if marker == _JPEG_END:
            break
        size = int.from_bytes(data[begin + 2 : begin + 4], "big")
        end = begin + 2 + size
        if size < 2 or end > len(data):
            raise BrokenPicture
        name = data[begin + 4 : begin + 9]
        if marker == _SCAN:
            scans += 1
            after = _MARKER.search(data, end)
            end = after.start() if after else len(data)
            yield data[begin:end]
        elif marker == 0xE0 and name == b"JFIF\0" and at == 2:
            yield _JFIF
        elif marker == 0xEE and name == b"Adobe" and size >= _ADOBE_SIZE:
            yield b"\xff\xee\0\x0e" + data[begin + 4 : begin + 2 + _ADOBE_SIZE]
        elif 0xC0 <= marker <= 0xDF:
            yield data[begin:end]
        at = end
    if not found or not scans:
        raise BrokenPicture
    yield b"\xff\xd9"


def _walk_webp(data: bytes) -> Iterator[bytes]:
    """Yield the header and the chunks of the picture."""
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data):
        raise BrokenPicture
    frames = 0
    chunks: list[bytes] = []
    for name, body in _iter_riff(data, 12, end):
        match name:
            case b"VP8X":
                chunks.append(_riff(name, bytes([body[0] & ~_WEBP_METADATA]) + body[1:10]))
            case b"ANMF":
                inner = _iter_riff(body, _ANMF_HEAD, len(body))
                kept = (_riff(*one) for one in inner if one[0] in (b"ALPH", b"VP8 ", b"VP8L"))
                chunks.append(_riff(name, body[:_ANMF_HEAD] + b"".join(kept)))
            case b"VP8 " | b"VP8L" | b"ALPH" | b"ANIM":
                chunks.append(_riff(name, body))
            case _:
                pass
        frames += name in _WEBP_FRAMES
    if not frames:
        raise BrokenPicture
    yield _riff(b"RIFF", b"WEBP" + b"".join(chunks))


def _iter_riff(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the type and the content of each chunk between two places. Raises BrokenPicture."""
    while at + 8 <= end:
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if at + 8 + size > end:
            raise BrokenPicture
        yield data[at : at + 4], data[at + 8 : at + 8 + size]
        at += 8 + size + size % 2


def _riff(name: bytes, body: bytes) -> bytes:
    """Return a chunk with this content, padded to an even size."""
    return name + len(body).to_bytes(4, "little") + body + b"\0" * (len(body) % 2)


def _walk_gif(data: bytes) -> Iterator[bytes]:
    """Yield the header and the frames, each with its colours, time and transparency."""
    at = 13 + _table_size(data[10])
    yield data[:at]
    while data[at] != 0x3B:
        begin, kept = at, True
        if data[at] == 0x2C:
            at += 10 + _table_size(data[at + 9]) + 1  # place, size and table; size of a code
        elif data[at] == 0x21:
            kept = data[at + 1] == 0xF9
            at += 2
        else:
            raise BrokenPicture
        while size := data[at]:
            at += 1 + size
        at += 1
        if kept:
            yield data[begin:at]
    yield b"\x3b"


def _table_size(flags: int) -> int:
    """Return the size of the table of colours that these flags of a GIF announce."""
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


_WALKS: Final[dict[str, Callable[[bytes], Iterator[bytes]]]] = {
    "image/png": _walk_png,
    "image/jpeg": _walk_jpeg,
    "image/webp": _walk_webp,
    "image/gif": _walk_gif,
}


async def keep_images(
    pictures: Iterable[bytes], blobs: Blobs, redact: Callable[[str], str]
) -> tuple[tuple[Image, ...], tuple[str, ...]]:
    """Store pictures, without their metadata, as blobs and return them as references, each once;
    and the names of the texts that say why others are left out: they are broken, or ``redact``
    finds a key in their text. Raises OSError.
    """
    kept: list[Image] = []
    why: list[str] = []
    for data in dict.fromkeys(pictures):
        kind = find_image_kind(data)
        try:
            shown, masked = await asyncio.to_thread(_make_presentable, data, kind, redact)
        except BrokenPicture:
            why.append("image.broken")
            continue
        if masked:
            why.append("image.holds_key")
        else:
            kept.append(Image(sha=await blobs.put(shown), mime=kind, size=len(shown)))
    return tuple(kept), tuple(dict.fromkeys(why))


def _make_presentable(data: bytes, kind: str, redact: Callable[[str], str]) -> tuple[bytes, bool]:
    """Return a picture without its metadata, and whether ``redact`` finds a key in what is left,
    in ASCII or UTF-16. Raises BrokenPicture.
    """
    data = drop_metadata(data, kind)
    runs = _TEXT_RUNS.findall(data) + _TEXT_RUNS.findall(data.replace(b"\0", b""))
    text = b"\n".join(runs).decode("ascii")
    return data, redact(text) != text
