"""Bytes of a file as text and back, byte for byte: encoding, byte order mark, line endings."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_JAPANESE: Final = ("euc_jp", "cp932")
_KANA: Final = re.compile("[\u3041-\u30ff]")
_HALF_WIDTH: Final = re.compile("[\uff61-\uff9f]")
# Controls that text in an old encoding has no use for; form feed and escape occur.
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")


class NotText(ValueError):
    """Bytes that are no text, or text that an encoding cannot hold; the message says why."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """Text of a file without its byte order mark; line endings as they are."""

    text: str
    encoding: str = "utf-8"  # a codec of Python
    mark: bytes = b""  # the byte order mark

    @property
    def crlf(self) -> bool:
        """Whether most lines end with CR LF."""
        pairs = self.text.count("\r\n")
        return pairs > self.text.count("\n") - pairs

    @property
    def facts(self) -> tuple[str, ...]:
        """What a reader should know: an unusual encoding, a mark, line endings, the last line."""
        found: list[str] = []
        if self.encoding != "utf-8":
            found.append(self.encoding)
        if self.mark:
            found.append("BOM")
        pairs = self.text.count("\r\n")
        if pairs:
            found.append("CRLF" if pairs == self.text.count("\n") else "mixed line endings")
        if self.text and not self.text.endswith("\n"):
            found.append("no final newline")
        return tuple(found)

    def encode(self, text: str) -> bytes:
        """Other text in this file's encoding and with its mark; raises NotText."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            char = text[error.start]
            raise NotText(
                f"the character U+{ord(char):04X} cannot be written in {self.encoding}, "
                "the encoding of the file"
            ) from None

    def with_endings(self, text: str) -> str:
        """The text with CR LF where this file has it; text that has pairs already stays."""
        if self.crlf and "\r\n" not in text:
            return text.replace("\n", "\r\n")
        return text


def decode(data: bytes) -> TextFile:
    """The text of a file, such that ``encode`` gives the same bytes again; raises NotText."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data[len(mark) :], encoding, mark)
    if b"\0" in data:
        raise NotText("binary")
    try:
        return TextFile(data.decode("utf-8"))
    except UnicodeDecodeError:
        return _old(data)


def size_words(size: int) -> str:
    """A number of bytes as people say it: ``812 bytes``, ``12 KB``, ``3.4 MB``."""
    if size < 1000:
        return f"{size} bytes"
    if size < 1_000_000:
        return f"{round(size / 1000)} KB"
    return f"{size / 1_000_000:.1f} MB"


def _strict(data: bytes, encoding: str, mark: bytes) -> TextFile:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise NotText(f"begins like {encoding} and is not") from None
    return TextFile(text, encoding, mark)


def _old(data: bytes) -> TextFile:
    """Text of before UTF-8; only when nothing else than that encoding explains it."""
    if _CONTROLS.search(data):
        raise NotText("binary")
    for encoding in _JAPANESE:
        text = _round_trip(data, encoding)
        if text is None:
            continue
        kana = len(_KANA.findall(text))
        if kana and kana >= len(_HALF_WIDTH.findall(text)):
            return TextFile(text, encoding)
    text = _round_trip(data, "cp1252")
    if text is None:
        raise NotText("in an encoding that cannot be told")
    return TextFile(text, "cp1252")


def _round_trip(data: bytes, encoding: str) -> str | None:
    try:
        text = data.decode(encoding)
        return text if text.encode(encoding) == data else None
    except UnicodeError:
        return None
