"""The lines of a journal: what is written comes back, and what is damaged is noticed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duckflow_tui.safety.secrets import REDACTED, Redactor
from duckflow_tui.session.blobs import FileBlobs
from duckflow_tui.session.records import (
    Damage,
    JournalHeader,
    JournalLine,
    UnreadableRecord,
    as_bytes,
    encode,
    header_of,
    of_later_program,
    parse_body,
    redact_value,
    scan,
    shelve_body,
)

TEXT = st.text(st.characters())  # control characters and halves of surrogate pairs too
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def found(data: bytes, **kwargs: int) -> list[JournalLine | Damage]:
    return list(scan(io.BytesIO(data), **kwargs))


def seqs(data: bytes) -> list[int]:
    return [frame.seq for frame in found(data) if isinstance(frame, JournalLine)]


@given(st.lists(st.tuples(st.integers(0, 10**15 - 1), st.dictionaries(TEXT, JSON)), max_size=6))
@example([(1, {"text": "\ud800 \x00\n\r\u2028 D1 2 00000000 7 {}\n"})])
def test_any_json_comes_back_as_it_was(records: list[tuple[int, dict[str, Any]]]) -> None:
    data = b"".join(encode(seq, as_bytes(value)) for seq, value in records)
    data.decode("ascii")
    assert data.count(b"\n") == len(records)
    read = found(data)
    assert not [frame for frame in read if isinstance(frame, Damage)]
    frames = [frame for frame in read if isinstance(frame, JournalLine)]
    assert [(frame.seq, parse_body(frame.body)) for frame in frames] == records
    assert b"".join(data[frame.start : frame.end] for frame in frames) == data


@given(
    st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_lines_of_anything_else_hide_no_record(foreign: list[bytes], at: int) -> None:
    lines = [encode(n, as_bytes({"n": n})) for n in range(4)]
    junk = b"".join(part.replace(b"\n", b"") + b"\n" for part in foreign)
    lines.insert(at, junk)
    read = found(b"".join(lines))
    assert [frame.seq for frame in read if isinstance(frame, JournalLine)] == [0, 1, 2, 3]
    blank = sum(1 for part in foreign if not part.replace(b"\n", b""))
    damages = [frame for frame in read if isinstance(frame, Damage)]
    assert len(foreign) - blank <= len(damages) <= len(foreign)


def test_a_line_without_end_is_held_only_in_part_and_counts_once() -> None:
    data = encode(1, b"{}") + b"x" * 5000 + b"\n" + encode(2, b"{}") + b"y" * 5000
    read = found(data, max_line=100)
    assert [f.seq if isinstance(f, JournalLine) else f.reason for f in read] == [
        1,
        "too_long",
        2,
        "too_long",
    ]


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


# --- what a record holds ----------------------------------------------------------------------


def hidden(text: str) -> str:
    return text.replace("hunter2", "•")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": ["hunter2", 1, None]}, {"a": ["•", 1, None]}),
        ({"hunter2": {"x": ("a hunter2",)}}, {"•": {"x": ["a •"]}}),
        ("hunter2", "•"),
        (["no secret", 2], ["no secret", 2]),
    ],
)
def test_a_secret_is_taken_out_of_every_text_keys_included(value: Any, shown: Any) -> None:
    assert redact_value(value, hidden) == shown
    assert redact_value(value, hidden, lambda _: True) == shown


def test_a_value_that_the_name_of_its_field_makes_a_key_is_taken_out() -> None:
    """Arguments of calls; alone it could be anything."""
    key = "q7Lr2Vx9Tb4Nw8Kd"
    redact = Redactor().redact_text
    value = {"args": {"apiKey": key, "ids": [key], "tokens": [key, 7]}, "call": {"other": "text"}}
    shown = redact_value(value, redact)
    assert shown["args"] == {"apiKey": REDACTED, "ids": [REDACTED], "tokens": [REDACTED, 7]}
    plain = {"args": {"ids": [key], "thought_signature": key}}
    assert redact_value(plain, redact) == plain


def test_a_secret_is_taken_out_of_what_no_program_of_today_can_read() -> None:
    """Nothing is lost by that: it was not valid before either."""
    assert redact_value({"kind": "hunter2"}, hidden, lambda _: False) == {"kind": "•"}


def test_a_large_record_goes_to_a_blob_and_one_of_64_kb_does_not(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    inline = b"1" * 65_536
    assert shelve_body(inline, "x", 1.0, blobs) == inline
    assert list(tmp_path.iterdir()) == []
    place = parse_body(shelve_body(inline + b"1", "x", 1.0, blobs))
    assert (place["at"], place["kind"], place["size"]) == (1.0, "x", 65_537)
    assert blobs.get_blocking(place["blob"]) == inline + b"1"


@pytest.mark.parametrize("body", [b"[1]", b"7", b'"x"', b"{", b"\xff", b"[" * 200_000])
def test_what_is_no_object_tells_nothing(body: bytes) -> None:
    with pytest.raises(UnreadableRecord, match="not_json"):
        parse_body(body)


def test_a_header_says_whose_session_it_is_or_which_later_version_wrote_it() -> None:
    fields: dict[str, Any] = {"session_id": "s", "workspace": "/w"}
    fields |= {"created_at": 1.0, "opened_at": 2.0}
    header = header_of({"journal": fields})
    assert isinstance(header, JournalHeader)
    assert (header.session_id, header.device, header.inode) == ("s", 0, 0)
    assert header_of({"journal": {**fields, "schema_version": 1}}) == header
    assert header_of({"journal": {"schema_version": 2}}) == 2
    wrongs: list[dict[str, Any]] = [{}, {"journal": []}, {"journal": {**fields, "opened_at": "x"}}]
    for wrong in wrongs:
        with pytest.raises(UnreadableRecord, match="no_header"):
            header_of(wrong)
    body = header.replace(workspace="/hunter2").as_body(hidden)
    assert parse_body(body)["journal"]["workspace"] == "/•"
    assert b"/w" in header.as_body(None)
