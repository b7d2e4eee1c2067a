"""Bytes as text and back: nothing is lost, and what is no text is said to be none."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.tools.diffs import NotText, TextFile, decode_file
from duckflow_tui.words.catalogue import Catalogue

JAPANESE = "設定ファイルを読み込みます。\r\nエラー\r\n"


@given(st.binary(max_size=300))
def test_whatever_decodes_gives_the_same_bytes_again(data: bytes) -> None:
    try:
        file = decode_file(data)
    except NotText:
        return
    assert file.encode_text(file.text) == data


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=80))
def test_every_text_in_utf_8_is_text(text: str) -> None:
    assert decode_file(text.encode()).encoding == "utf-8"


@pytest.mark.parametrize(
    ("data", "encoding", "mark"),
    [
        (b"a\n", "utf-8", b""),
        (codecs.BOM_UTF8 + b"a\n", "utf-8", codecs.BOM_UTF8),
        (codecs.BOM_UTF16_LE + "aé\n".encode("utf-16-le"), "utf-16-le", codecs.BOM_UTF16_LE),
        (codecs.BOM_UTF16_BE + "a\n".encode("utf-16-be"), "utf-16-be", codecs.BOM_UTF16_BE),
        (codecs.BOM_UTF32_LE + "a\n".encode("utf-32-le"), "utf-32-le", codecs.BOM_UTF32_LE),
        (JAPANESE.encode("cp932"), "cp932", b""),
        (JAPANESE.encode("euc_jp"), "euc_jp", b""),
        ("naïve café – Müller\n".encode("cp1252"), "cp1252", b""),
    ],
)
def test_encodings_are_told_apart(data: bytes, encoding: str, mark: bytes) -> None:
    file = decode_file(data)
    assert (file.encoding, file.mark) == (encoding, mark)
    assert file.encode_text(file.text) == data


@pytest.mark.parametrize(
    "data",
    [
        b"PNG\0\0",
        b"\xff\xfe\x00",  # half a UTF-16 character
        b"\x80\x81\x8d\x90\xff",  # no table has these
        b"text\x01\x02\xff\xfe\xfa",
    ],
)
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(NotText):
        decode_file(data)


def test_a_character_that_the_encoding_lacks_is_named() -> None:
    file = decode_file("café".encode("cp1252"))
    with pytest.raises(NotText, match="U\\+3042, cp1252"):
        file.encode_text("あ")


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(NotText, match="U\\+D800"):
        TextFile("").encode_text("a\ud800")


@pytest.mark.parametrize(
    ("data", "facts"),
    [
        (b"a\nb\n", ()),
        (b"a\r\nb\r\n", ("CRLF",)),
        (b"a\r\nb\n", ("mixed line endings",)),
        (b"a", ("no final newline",)),
        (codecs.BOM_UTF8 + b"a\n", ("BOM",)),
        (b"", ()),
    ],
)
def test_facts_of_a_file(data: bytes, facts: tuple[str, ...]) -> None:
    assert tuple(map(Catalogue("en").localize, decode_file(data).notable_facts)) == facts
