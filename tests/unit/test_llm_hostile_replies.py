"""No reply costs much more than its length: every reader is given the worst of each shape."""

from __future__ import annotations

import json
import signal
import tracemalloc
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from math import isqrt
from types import FrameType

import pytest
from support.endpoint import prompt
from support.pinned import CountingIds, ManualClock
from support.whole import rounds

from duckflow_tui.llm import codec_json, codec_tools
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.reply_json import NotStrict, ReplyPreview, find_object
from duckflow_tui.llm.text_calls import MOST, read_calls
from duckflow_tui.llm.wire import WireChunk

LENGTH = rounds(100_000, 50_000)  # characters
CPU_S = rounds(5, 2)  # seconds for all readers of one shape; each takes some tenths, and minutes
# of so long a text where the work grows with the square of the length
READ = "file_ops.read_file"
KNOWN = {name: {"path": {"type": "string"}} for name in (READ, "file_ops__read_file")}
CALL = f'{{"name": "{READ}", "arguments": {{"path": "a"}}}}'

#: Each with what begins it, what is repeated, what ends it.
SHAPES = {
    "objects": ("", '{"a": 1}\n', ""),
    "objects that differ": ("", '{"a": 1}{"b": 2}', ""),
    "decisions": ("", '{"reply": "x"}\n', ""),
    "objects that are none": ("", '{"a": x}\n', ""),
    "comments without an end": ("{a: ", "/* ", ""),
    "objects in comments without an end": ("", "{a: /* ", ""),
    "fenced objects": ("", '```json\n{"operation": "x"}\n```\n', ""),
    "fences": ("", "```json\n", ""),
    "bare fences": ("", "```\n", ""),
    "calls in a list": ("", f"{CALL},", ""),
    "objects that name a call": ("", f'\n{{"name": "{READ}"}}', ""),
    "one long fence": ("", "`", ""),
    "one long fence of tildes": ("", "~", ""),
    "fences in fences": ("", "", "".join(f"{'~' * n}\n" for n in range(3, isqrt(2 * LENGTH)))),
    "spaces behind a fence": ("```", " ", 'x{"a": 1}'),
    "objects in objects": ("", '\n{"name":', ""),
    "whole objects in objects": ("", '\n{"name":', "1" + "}" * (LENGTH // 9)),
    "objects of objects": ("", '{"a":', ""),
    "a call, then an object without an end": ("", f"<tool_call>{CALL}{{", ""),
    "calls": ("", f"{CALL}\n", ""),
    "marked calls": ("", f"<tool_call>{CALL}</tool_call>", ""),
    "marks": ("", "<tool_call>{", ""),
    "names of marks": ("", "[TOOL_CALLS]", ""),
    "spaces behind a name": (f"<function={READ}", " ", "x"),
    "lines behind an action": (f"Action: {READ}", "\n", "x"),
    "spaces behind a separator": (f"<｜tool▁call▁begin｜>{READ}", " ", "x"),
    "fences behind a separator": (f"<｜tool▁call▁begin｜>{READ}", "```json   ", "x"),
    "a long name": ("<|channel|>commentary to=", "a.", "x"),
    "parameters": (f"<function={READ}>", "<parameter=a>b</parameter>", "</function>"),
    "parameters without an end": ("", "<function=decide><parameter=", ""),
    "empty calls": ("", f"<function={READ}></function>", "<parameter=a>b</parameter>"),
    "calls by invoke": ("", f'<invoke name="{READ}">', ""),
    "patches": ("", "*** Begin Patch\n", ""),
    "spaces in a path": ("*** Begin Patch\n*** Add File: a", " ", "b\n*** End Patch"),
    "calls of Python": ("", 'file_ops.read_file(path="a")\n', ""),
    "calls of Python without an end": ("", "\nfile_ops.read_file(", ""),
    "strings of Python without an end": ("", "\nfile_ops.read_file(\'\'\'\"", ""),
    "elements": ("", f"<{READ}>\n<path>", ""),
    "elements in one": (f"<{READ}>\n<path>", "<a>", f"</{READ}>"),
    "blocks": ("", "a.py\n<<<<<<< SEARCH\nx\n=======\n", ""),
    "heads of a diff": ("", "--- a\n+++ b\n@@\n", ""),
    "a word of a call": ("", "<|channel|> to=", ""),
    "thoughts": ("", "<think>", ""),
    "spaces behind thoughts": ("<think>x</think>", " ", "x"),
    "a name without an end": ('{"', "a", ""),
    "escapes": ('{"reply": "', "\\n", ""),
    "lists": ('{"reply": "x", "actions": [', "[],", "1]}"),
    "deep lists": ('{"reply": "x", "actions": ', "[", ""),
    "digits": ('{"reply": "x", "confidence": ', "9", "}"),
    "fields": ('{"reply": "x"', ', "a": 1', "}"),
    "actions": ('{"reply": "x", "actions": [', '{"operation": "x"},', "1]}"),
}  # fmt: skip

IN_SMALL_PIECES = ("spaces behind thoughts", "a name without an end", "escapes", "thoughts")


def written(shape: str, length: int = LENGTH) -> str:
    begin, piece, end = SHAPES[shape]
    return begin + piece * (length // len(piece) if piece else 0) + end


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """End with AssertionError what takes more of this process's own time, a regex too."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it took more than {seconds} s of work")

    old = signal.signal(signal.SIGVTALRM, ended)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)


def chunk(**message: object) -> WireChunk:
    return WireChunk.model_validate({"choices": [{"delta": message}]})


def pieces(text: str, length: int) -> Iterator[str]:
    return (text[at : at + length] for at in range(0, len(text), length))


@pytest.mark.parametrize("shape", SHAPES)
def test_no_reader_of_replies_takes_more_than_its_length(shape: str) -> None:
    text = written(shape)
    with at_most(CPU_S):
        read_calls((text * (MOST // len(text) + 1))[: MOST + 1], KNOWN)  # too long to be read
        for decoder in (
            codec_json.JsonDecoder(lambda piece: None),
            codec_tools.ToolsDecoder(lambda piece: None),
        ):
            heard: list[str] = []
            completion = Completion(decoder.content, heard.append, ManualClock())
            for piece in pieces(text, 4 if shape in IN_SMALL_PIECES else 400):
                completion.add_chunk(chunk(content=piece))
            completion.close()
            decoder.decode(completion, prompt(), CountingIds(), "llm_1")


@pytest.mark.parametrize("argument", ['{"path": "', '"{', ""])
def test_a_server_that_names_the_call_in_each_piece_makes_it_no_dearer(argument: str) -> None:
    """Whether the call is at its end is asked at each piece."""
    completion = Completion(lambda piece: None, lambda piece: None, ManualClock())
    text = argument + "}" * (LENGTH // 2)
    with at_most(CPU_S):
        for piece in pieces(text, 2):
            completion.add_chunk(
                chunk(tool_calls=[{"index": 0, "function": {"name": "x", "arguments": piece}}])
            )
    assert "".join(call.argument_text for call in completion.calls) == text


@pytest.mark.parametrize("shape", ["objects", "decisions", "fenced objects", "objects that differ"])
def test_memory_of_many_objects_grows_with_the_reply_and_no_faster(shape: str) -> None:
    def peak(length: int) -> int:
        text = written(shape, length)
        tracemalloc.start()
        try:
            with suppress(NotStrict):
                find_object(text, ("reply", "actions"))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    first, second = peak(20_000), peak(80_000)
    assert second < 6 * first + 100_000  # 16 times as much where it is the square


def test_what_nobody_needs_of_a_stream_is_not_held_while_more_of_it_comes() -> None:
    """Held, it would be copied with each piece."""
    completion = Completion(lambda piece: None, lambda piece: None, ManualClock())
    completion.add_chunk(chunk(content="<think>x</think>"))
    preview = ReplyPreview(lambda piece: None)
    preview.feed('{"')
    tracemalloc.start()
    try:
        for _ in range(1_000):
            completion.add_chunk(chunk(content=" " * 100))
        blank = tracemalloc.get_traced_memory()[0]
        for _ in range(1_000):
            preview.feed("a" * 100)
        key = tracemalloc.get_traced_memory()[0] - blank
    finally:
        tracemalloc.stop()
    assert max(blank, key) < 50_000  # of 100,000 characters each


def test_of_many_objects_few_are_read_and_the_model_is_told() -> None:
    example = '{"a": 1}\n'
    for count, is_read in ((99, True), (100, False)):
        text = example * count + '{"reply": "x"}'
        if is_read:
            assert find_object(text, ("reply",)).data == {"reply": "x"}
        else:
            with pytest.raises(NotStrict, match="too_many: 100"):
                find_object(text, ("reply",))


def test_a_reply_beyond_all_bounds_is_not_read() -> None:
    text = json.dumps({"reply": "x", "a": "b" * 1_000_000})
    with pytest.raises(NotStrict, match="too_long: 1,000,000"):
        find_object(text, ("reply",))
