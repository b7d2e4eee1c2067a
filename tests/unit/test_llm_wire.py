"""Event streams are read in any slices, and within bounds."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.endpoint import Heard
from support.pinned import ManualClock

from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.wire import MAX_LINE, EventReader, LineTooLong, WireChunk

STREAM = (
    b"\xef\xbb\xbf: comment\r\n\r\ndata: one\n\nevent: x\ndata:two\r\ndata: more\r\n\r\n"
    b"id: 3\rdata: three\r\r: keep-alive\n\ndata: last"
)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=10))
def test_any_slicing_gives_the_same_events(cuts: list[int]) -> None:
    reader = EventReader()
    places = sorted({0, len(STREAM), *cuts})
    events: list[bytes] = []
    for start, end in itertools.pairwise(places):
        events += reader.feed(STREAM[start:end])
    assert events + reader.finish() == [b"one", b"two\nmore", b"three", b"last"]


def test_a_line_over_four_megabytes_is_refused_before_it_is_kept() -> None:
    """Covers R18."""
    reader = EventReader()
    piece = b"data: " + b"x" * 65_530
    reader.feed(piece)
    for _ in range(MAX_LINE // len(piece) - 1):
        assert reader.feed(b"y" * len(piece)) == []
    with pytest.raises(LineTooLong) as caught:
        reader.feed(b"y" * len(piece))
    assert caught.value.beginning.startswith(b"data: xxx")


def completed(*chunks: dict[str, object]) -> tuple[Completion, Heard]:
    said = Heard()
    completion = Completion(said.take_reply, said.take_reasoning, ManualClock())
    for chunk in chunks:
        completion.add_chunk(WireChunk.model_validate(chunk))
    completion.close()
    return completion, said


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields}]}


A, B = '{"path": "a.py"}', '{"path": "b.py"}'
#: Pieces of calls as index, id, name and arguments; then the calls they are.
PIECES: dict[str, tuple[list[tuple[Any, Any, Any, Any]], list[tuple[str, str]]]] = {
    "neither index nor id, arguments as an object": (
        [(None, "c1", "read", {"x": 1}), (None, None, "list", "{}")],
        [("read", '{"x":1}'), ("list", "{}")],
    ),
    "the call sent again at the end": (
        [(0, "c1", "read", A[:8]), (0, None, None, A[8:]), (0, "c1", "read", A)],
        [("read", A)],
    ),
    "the arguments sent again in pieces": (
        [(0, "c1", "read", A), (0, None, None, A[:5]), (0, None, None, A[5:])],
        [("read", A)],
    ),
    "an empty object before the arguments": (
        [(0, "c1", "read", "{}"), (0, None, None, A[:5]), (0, None, None, A[5:])],
        [("read", A)],
    ),
    "two calls under one index": (
        [(0, None, "read", A), (0, None, "read", B)],
        [("read", A), ("read", B)],
    ),
    "pieces told apart by id": (
        [
            (None, "c1", "read", ""),
            (None, "c2", "read", ""),
            (None, "c1", None, A[:8]),
            (None, "c2", None, B),
            (None, "c1", None, A[8:]),
        ],
        [("read", A), ("read", B)],
    ),
    "the name in pieces": (
        [(0, "c1", "file_ops", ""), (0, None, "__read", None), (0, None, "_file", A)],
        [("file_ops__read_file", A)],
    ),
    "the name with each piece": (
        [(0, "c1", "read", A[:8]), (0, None, "read", A[8:])],
        [("read", A)],
    ),
    "an empty call behind an edit": (
        [(0, "c1", "edit", A), (1, "c2", "", ""), (2, None, None, "{}")],
        [("edit", A)],
    ),
    "two braces inside a text": (
        [(0, "c1", "write", '{"content": "a {} {} b"}')],
        [("write", '{"content": "a {} {} b"}')],
    ),
    "what is no object behind one": ([(0, "c1", "read", A + "{oops")], [("read", A + "{oops")]),
}


@pytest.mark.parametrize(("pieces", "calls"), PIECES.values(), ids=PIECES)
def test_calls_are_whole_once_each_however_they_come(
    pieces: list[tuple[Any, Any, Any, Any]], calls: list[tuple[str, str]]
) -> None:
    chunks = [
        delta(tool_calls=[{"index": at, "id": i, "function": {"name": n, "arguments": a}}])
        for at, i, n, a in pieces
    ]
    completion, _ = completed(*chunks)
    completion.close()
    assert [(call.name, call.argument_text) for call in completion.calls] == calls


@pytest.mark.parametrize("count", [-5, 10**8 + 1, int("9" * 400), True, "7", 5.0, None])
def test_a_count_that_makes_no_sense_leaves_the_usage_to_our_own_estimate(count: object) -> None:
    for name in ("prompt_tokens", "completion_tokens"):
        completion, _ = completed({"usage": {"prompt_tokens": 5, name: count}})
        assert completion.usage is None
    largest, _ = completed({"usage": {"prompt_tokens": 10**8}})
    assert largest.usage is not None


def test_usage_that_makes_no_sense_is_left_out() -> None:
    completion, _ = completed({"usage": "many"})
    assert completion.usage is None
    counted, _ = completed(
        {
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 99},
                "completion_tokens_details": None,
            }
        }
    )
    assert counted.usage is not None
    assert counted.usage.cached == 10
    assert counted.usage.reasoning == 0
