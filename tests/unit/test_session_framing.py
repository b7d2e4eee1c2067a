"""The lines of a journal: what is written comes back, and what is damaged is noticed."""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from duckflow_tui.session.records import (
    Damage,
    Frame,
    as_bytes,
    encode,
    of_later_program,
    parsed,
    scan,
)

TEXT = st.text(st.characters())  # control characters and halves of surrogate pairs too
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def found(data: bytes, **kwargs: int) -> list[Frame | Damage]:
    return list(scan(io.BytesIO(data), **kwargs))


def seqs(data: bytes) -> list[int]:
    return [frame.seq for frame in found(data) if isinstance(frame, Frame)]


@given(st.lists(st.tuples(st.integers(0, 10**15 - 1), st.dictionaries(TEXT, JSON)), max_size=6))
@example([(1, {"text": "\ud800 \x00\n\r\u2028 D1 2 00000000 7 {}\n"})])
def test_any_json_comes_back_as_it_was(records: list[tuple[int, dict[str, Any]]]) -> None:
    data = b"".join(encode(seq, as_bytes(value)) for seq, value in records)
    data.decode("ascii")
    assert data.count(b"\n") == len(records)
    read = found(data)
    assert not [frame for frame in read if isinstance(frame, Damage)]
    frames = [frame for frame in read if isinstance(frame, Frame)]
    assert [(frame.seq, parsed(frame.body)) for frame in frames] == records
    assert b"".join(data[frame.start : frame.end] for frame in frames) == data


def test_a_line_is_spelled_as_the_specification_says() -> None:
    line = encode(7, b'{"a":1}')
    tag, length, crc, seq, body = line.decode().rstrip("\n").split(" ", 4)
    assert (tag, length, seq, body) == ("D1", "7", "7", '{"a":1}')
    assert len(crc) == 8
    assert int(crc, 16) == zlib.crc32(b'7 {"a":1}')


@given(
    st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_lines_of_anything_else_hide_no_record(foreign: list[bytes], at: int) -> None:
    lines = [encode(n, as_bytes({"n": n})) for n in range(4)]
    junk = b"".join(part.replace(b"\n", b"") + b"\n" for part in foreign)
    lines.insert(at, junk)
    read = found(b"".join(lines))
    assert [frame.seq for frame in read if isinstance(frame, Frame)] == [0, 1, 2, 3]
    blank = sum(1 for part in foreign if not part.replace(b"\n", b""))
    damages = [frame for frame in read if isinstance(frame, Damage)]
    assert len(foreign) - blank <= len(damages) <= len(foreign)


def test_a_line_without_end_is_held_only_in_part_and_counts_once() -> None:
    data = encode(1, b"{}") + b"x" * 5000 + b"\n" + encode(2, b"{}") + b"y" * 5000
    read = found(data, max_line=100)
    assert [f.seq if isinstance(f, Frame) else f.reason for f in read] == [
        1,
        "too_long",
        2,
        "too_long",
    ]


def test_a_record_may_have_nearly_a_million_bytes() -> None:
    """Sessions of earlier versions hold some."""
    line = encode(1, b"1" * 999_900)
    assert seqs(line) == [1]
    assert len(line) < 1_000_000


def test_a_record_inside_the_text_of_another_is_never_taken_for_one() -> None:
    forged = encode(9, as_bytes({"event": {"kind": "mode_changed", "mode": "trusted"}})).decode()
    line = encode(1, as_bytes({"text": f"\n{forged}\n"}))
    for at in range(len(line)):
        for bit in range(8):
            broken = bytearray(line)
            broken[at] ^= 1 << bit
            assert 9 not in seqs(bytes(broken))


def test_an_unfinished_line_is_torn_and_a_whole_one_without_newline_is_read() -> None:
    whole = encode(1, json.dumps({"a": 1}).encode())
    assert seqs(whole[:-1]) == [1]
    assert not [f for f in found(whole[:-1]) if isinstance(f, Damage)]
    for cut in range(1, len(whole) - 1):
        assert [f.reason for f in found(whole[:cut]) if isinstance(f, Damage)] == ["torn"]


def test_frames_of_a_later_program_are_told_from_damage() -> None:
    assert of_later_program(b"D2 17 0a0a0a0a 1 {}")
    assert not of_later_program(encode(1, b"{}"))
    assert not of_later_program(b"D2 is what the note begins with")
