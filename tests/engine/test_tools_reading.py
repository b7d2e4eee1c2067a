"""Reading files: ranges, limits, what is said about a file, and files too large to hold."""

from __future__ import annotations

import re
import resource
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support import session as talk
from support.bench import Bench, done

from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.session.blobs import FileBlobs
from duckflow_tui.state.base import hash_data
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome, Zone
from duckflow_tui.tools.reading import DEFAULT_BYTES, DEFAULT_LINES, RANGE_BYTES, WHOLE_BYTES
from duckflow_tui.tools.results import MAX_LINE, load_originals, net_change

READ = "file_ops.read_file"


def split(message: OperationMessage) -> tuple[str, str]:
    header, _, body = message.result.text.partition("\n")
    return header, body


async def test_a_whole_file_comes_with_its_lines_counted(bench: Bench, root: Path) -> None:
    (root / "a.py").write_bytes(b"one\ntwo\nthree")
    message = await bench.call(READ, path="a.py")
    header, body = split(message)
    assert header == "[a.py: lines 1-3 of 3, no final newline]"
    assert body == "one\ntwo\nthree"
    assert message.result.summary == "1–3/3"
    assert bench.store.state.files_read == {"a.py": hash_data(b"one\ntwo\nthree")}


@pytest.mark.parametrize(
    ("args", "header", "body"),
    [
        ({"start_line": 2}, "lines 2-4 of 4", "2\n3\n4\n"),
        ({"end_line": 2}, "lines 1-2 of 4", "1\n2\n"),
        ({"start_line": 2, "end_line": 3}, "lines 2-3 of 4", "2\n3\n"),
        ({"start_line": 3, "end_line": 99}, "lines 3-4 of 4", "3\n4\n"),
    ],
)
async def test_ranges(
    bench: Bench, root: Path, args: dict[str, int], header: str, body: str
) -> None:
    (root / "f").write_bytes(b"1\n2\n3\n4\n")
    found = split(await bench.call(READ, path="f", **args))
    assert header in found[0]
    assert found[1] == body


@pytest.mark.parametrize(
    ("columns", "words"),
    [("ten", "ten is no range"), ("0-3", "is no range"), ("9-3", "lies before")],
)
async def test_columns_that_cannot_be_read_are_told(
    bench: Bench, root: Path, columns: str, words: str
) -> None:
    (root / "f").write_bytes(b"1\n2\n3\n4\n")
    message = await bench.call(READ, path="f", columns=columns)
    assert message.result.outcome is Outcome.INVALID
    assert words in message.result.text


async def test_a_line_behind_the_end_is_an_error_with_the_count(bench: Bench, root: Path) -> None:
    (root / "f").write_bytes(b"1\n2\n")
    message = await bench.call(READ, path="f", start_line=3)
    assert message.result.outcome is Outcome.ERROR
    assert "has 2 lines" in message.result.text


async def test_a_long_file_says_how_to_read_on(bench: Bench, root: Path) -> None:
    (root / "f").write_text("".join(f"{n}\n" for n in range(1, 5_001)))
    header, body = split(await bench.call(READ, path="f"))
    assert header == f"[f: lines 1-{DEFAULT_LINES} of 5000]"
    assert body.endswith(f"read on with start_line={DEFAULT_LINES + 1}]")
    header, body = split(await bench.call(READ, path="f", start_line=DEFAULT_LINES + 1))
    assert body.startswith(f"{DEFAULT_LINES + 1}\n")
    assert body.endswith("5000\n")


async def test_limits_count_bytes_and_cut_between_lines(bench: Bench, root: Path) -> None:
    (root / "f").write_text("あ" * 333 + "\n" + ("い" * 333 + "\n") * 999)
    for args, limit in [({}, DEFAULT_BYTES), ({"start_line": 1}, RANGE_BYTES)]:
        message = await bench.call(READ, path="f", **args)
        lines = split(message)[1].split("\n")
        assert limit - 1_100 < len(message.result.text.encode()) < limit + 200
        assert set(lines[1:-1]) == {"い" * 333}


async def test_a_long_line_comes_in_parts_that_make_the_whole(bench: Bench, root: Path) -> None:
    text = "".join(f"{number:07}," for number in range(50_000))  # 400,000 characters in one line
    (root / "min.js").write_text(f"{text}\nend\n")
    message = await bench.call(READ, path="min.js")
    assert len(message.result.text) < MAX_LINE + 300
    parts: list[str] = []
    while True:
        header, shown = split(message)
        assert header == "[min.js: lines 1-2 of 2]"
        parts.append(shown.partition("\n")[0])
        match = re.search(r'line 1 has 400,000; read on with columns="(\d+-\d+)"', shown)
        if match is None:
            break
        message = await bench.call(READ, path="min.js", columns=match[1])
    assert "".join(parts) == text
    behind = await bench.call(READ, path="min.js", columns="400001-")
    assert behind.result.outcome is Outcome.ERROR
    assert "none of these lines has a character 400,001" in behind.result.text
    wrong = await bench.call(READ, path="min.js", columns="9-3")
    assert wrong.result.outcome is Outcome.INVALID
    (root / "huge").write_text("x" * (WHOLE_BYTES + 1))
    huge = await bench.call(READ, path="huge")
    assert "line 1 has 1,000,000+;" in huge.result.text
    assert len(huge.result.text) < MAX_LINE + 300


async def test_an_empty_file_is_not_an_error(bench: Bench, root: Path) -> None:
    (root / "f").write_bytes(b"")
    message = await bench.call(READ, path="f")
    assert message.result.outcome is Outcome.OK
    assert message.result.text == "[f: empty]"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a\0" * 2_000, "no text (binary), 4 KB"),
        (b"\x80\x81\x8d\x90\xff", "encoding that cannot be told"),
    ],
)
async def test_what_is_no_text_is_summarised(
    bench: Bench, root: Path, data: bytes, words: str
) -> None:
    (root / "f").write_bytes(data)
    message = await bench.call(READ, path="f")
    assert message.result.outcome is Outcome.OK
    assert words in message.result.text
    assert len(message.result.text) < 200


async def test_other_encodings_are_decoded_and_named(bench: Bench, root: Path) -> None:
    (root / "f").write_bytes("設定を読む\r\n".encode("cp932"))
    header, body = split(await bench.call(READ, path="f"))
    assert header == "[f: lines 1-1 of 1, cp932, CRLF]"
    assert body == "設定を読む\n"


async def test_a_secret_is_read_only_through_a_gate(bench: Bench, root: Path) -> None:
    (root / ".env").write_text("KEY=1\n")
    task = bench.begin(READ, path=".env")
    gate = await bench.gate()
    assert gate.impact.zone is Zone.SECRET
    assert gate.previews == ()
    await bench.answer(gate, GateChoice.ONCE)
    assert "KEY=1" in (await done(task)).result.text


async def test_a_range_of_a_huge_file_is_found_without_holding_the_file(
    bench: Bench, root: Path
) -> None:
    line = "x" * 99
    with (root / "huge.log").open("w") as file:
        for start in range(0, 600_000, 10_000):  # 65 MB
            file.write("".join(f"{n:08d} {line}\n" for n in range(start + 1, start + 10_001)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = await bench.call(READ, path="huge.log", start_line=500_000, end_line=500_001)
    header, body = split(message)
    assert header == "[huge.log: lines 500000-500001 of more than 500001]"
    assert body.startswith(f"00500000 {line}\n00500001 {line}\n")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 25_000  # KB


async def test_the_end_of_a_large_file_is_known_once_it_was_reached(
    bench: Bench, root: Path
) -> None:
    rows = WHOLE_BYTES // 100 + 10
    (root / "large").write_text("".join(f"{n:099d}\n" for n in range(1, rows + 1)))
    header, body = split(await bench.call(READ, path="large", start_line=rows - 1))
    assert header == f"[large: lines {rows - 1}-{rows} of {rows}]"
    assert body == f"{rows - 1:099d}\n{rows:099d}\n"
    behind = await bench.call(READ, path="large", start_line=rows + 1)
    assert behind.result.outcome is Outcome.ERROR


async def test_what_a_request_changed_is_one_difference(tmp_path: Path) -> None:
    """From before its first change to now; not that of an earlier request."""
    root = tmp_path / "work"
    (root / "d").mkdir(parents=True)
    (root / "a.py").write_text("x = 1\ny = 1\n")
    (root / "d" / "b.py").write_text("old\n")
    (root / "d" / "e.py").write_text("e\n")

    def edit(path: str, old: str, new: str) -> dict[str, Any]:
        return talk.action("file_ops.edit_file", path=path, edits=[{"old": old, "new": new}])

    replies = talk.script(
        talk.decision("a", edit("a.py", "y = 1", "y = 2")),
        talk.done("first"),
        talk.decision(
            "b",
            edit("a.py", "x = 1", "x = 5"),
            edit("a.py", "x = 5", "x = 2"),
            talk.action("file_ops.move_file", source="d/b.py", target="d/c.py"),
            edit("d/c.py", "old", "new"),
            talk.action("file_ops.write_file", path="n.py", content="n\n"),
            talk.action("file_ops.delete_file", path="d/e.py"),
        ),
        talk.done("second"),
    )
    async with talk.session(tmp_path, replies, mode="trusted") as s:
        await s.turn("set y to 2")
        await s.engine.send("now set x to 2 as well and tidy up")
        await s.answer(GateChoice.ONCE)  # of the deletion
        await s.ended(2)
        (folder,) = (tmp_path / "home").rglob("blobs")
        before = await load_originals(s.state, FileBlobs(folder))
    with closing(Workspace(root)) as workspace:
        text = await net_change(before, workspace)
        (root / "a.py").write_text("x = 1\ny = 2\n")
        again = await net_change(before, workspace)
    heads = ["- changed a.py +1 −1", "- changed d/c.py (was d/b.py) +1 −1"]
    heads += ["- created n.py +1 −0", "- deleted d/e.py +0 −1"]
    hunks = ["@@ a.py 1\n-x = 1\n+x = 2\n y = 2", "@@ d/c.py 1\n-old\n+new"]
    hunks += ["@@ n.py 1\n+n", "@@ d/e.py 0\n-e"]
    assert text == "\n".join([*heads, *hunks])
    assert again == "\n".join([*heads[1:], *hunks[1:]])
