"""Calls that cannot be meant, through the engine and over HTTP: what the model is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from support.session import action, decision, done, script, session

from duckflow_tui.state.base import MAX_BRIEF, clip_value
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.operations import Outcome

WRITE = "file_ops.write_file"
MOVE = "file_ops.move_file"
LONG = "n" * 3000
DEEP = "/".join(["deep" * 20] * 30)


def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"one\n")
    (folder / "d").mkdir()
    return folder


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("sub/", "sub/ ends like the path of a directory"),
        ("sub/.", "sub/. ends like the path of a directory"),
        ("a.txt/", "a.txt/ ends like the path of a directory"),
        ("d/", "d is a directory"),
    ],
)
async def test_a_path_that_ends_in_a_slash_is_no_file(
    tmp_path: Path, path: str, words: str
) -> None:
    folder = workspace(tmp_path)
    replies = script(decision("I write.", action(WRITE, path=path, content="x")), done())
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write")
        (result,) = s.results()
        assert result.result.outcome is Outcome.ERROR
        assert words in s.server.of("main")[1].new_text
    assert sorted(p.name for p in folder.iterdir()) == ["a.txt", "d"]
    assert (folder / "a.txt").read_bytes() == b"one\n"


@pytest.mark.parametrize(("target", "use"), [("new/", "new/a.txt"), ("d/", "d/a.txt")])
async def test_a_move_to_a_directory_is_refused_with_the_path_to_use(
    tmp_path: Path, target: str, use: str
) -> None:
    folder = workspace(tmp_path)
    replies = script(decision("I move.", action(MOVE, source="a.txt", target=target)), done())
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("move")
        assert f"such as {use}." in s.server.of("main")[1].new_text
        assert "the file's name included" in s.server.of("main")[0].text  # told before
    assert (folder / "a.txt").exists()


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize(
    ("operation", "args"),
    [
        ("file_ops.read_file", {"path": "{{" + LONG + "}}"}),
        ("file_ops.read_file", {"path": "a.txt", LONG: "x"}),
        ("file_ops.read_file", {"path": DEEP}),
        ("file_ops.read_file", {"path": f"{DEEP}/../x"}),
        ("file_ops.read_file", {"path": f".git/hooks/{DEEP}"}),
        ("file_ops.list_dir", {"path": DEEP}),
        ("file_ops.search_text", {"pattern": "x", "path": DEEP}),
        ("file_ops.search_text", {"pattern": "(" * 1900, "regex": True}),
        ("file_ops.find_files", {"glob": LONG}),
        (WRITE, {"path": f"a.txt/{DEEP}", "content": "x"}),
        (WRITE, {"path": f"{DEEP}/", "content": "x"}),
        ("file_ops.delete_file", {"path": DEEP}),
        (MOVE, {"source": DEEP, "target": "b.txt"}),
        (MOVE, {"source": "a.txt", "target": f"{DEEP}/"}),
        (f"file_ops.{LONG}", {}),
    ],
)
async def test_what_is_refused_is_not_repeated_at_length(
    tmp_path: Path, protocol: Literal["tools", "json"], operation: str, args: dict[str, Any]
) -> None:
    """Neither to the model nor on the screen: at most 300 characters of any value."""
    workspace(tmp_path)
    replies = script(decision("I try.", action(operation, **args)), done())
    async with session(tmp_path, replies, protocol=protocol, mode="trusted") as s:
        await s.turn("try")
        said = [m.result.text for m in s.results()]
        notices = [m for m in s.state.messages if isinstance(m, NoticeMessage)]
        said += [text for m in notices for text in (m.for_model, *m.params.values())]
        assert said, "nothing was refused"
        assert all(len(text) < 2 * MAX_BRIEF + 200 for text in said), max(map(len, said))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b 日本 🦆", "a b 日本 🦆"),
        ("a\x1b]52\u202e\n\ud800b", "a\\x1b]52\\u202e\\n\\ud800b"),
        ("x" * 300, "x" * 300),
        ("x" * 1301, "x" * 300 + "… (1,301 characters)"),
    ],
)
def test_a_value_in_a_sentence_is_short_and_printable(text: str, shown: str) -> None:
    assert clip_value(text) == shown


async def test_a_binary_file_that_is_overwritten_shows_its_sizes(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    (folder / "b.bin").write_bytes(bytes(range(256)) * 20)
    replies = script(
        decision("I write.", action(WRITE, path="b.bin", content="text now\n")), done()
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write")
        (message,) = s.results()
        assert message.result.summary == "5 KB → 9 bytes"
        assert "changed b.bin (5 KB → 9 bytes)" in s.server.of("main")[1].new_text


async def test_undoing_a_creation_takes_the_directories_it_made(tmp_path: Path) -> None:
    """S4-88: the workspace is as before; what was there, or is in use since, stays."""
    folder = workspace(tmp_path)
    replies = script(
        decision(
            "I write.",
            action(WRITE, path="d/new/deep/f.txt", content="x"),
            action(MOVE, source="a.txt", target="other/place/a.txt"),
        ),
        done(),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write")
        await s.engine.undo()
        assert not (folder / "other").exists()
        (folder / "d" / "new" / "mine.txt").write_text("mine")
        await s.engine.undo()
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) == [
        "a.txt",
        "d",
        "d/new",
        "d/new/mine.txt",
    ]


async def test_a_reference_is_refused_and_braces_that_are_meant_are_not(tmp_path: Path) -> None:
    """Covers S3-18, S3-40."""
    folder = workspace(tmp_path)
    odd = "templates/{{ task_name }}/{{step}}.html"
    replies = script(
        decision(
            "I write.",
            action(WRITE, path=odd, content="{{previous_result}} and {{ task_1.output }}\n"),
            action("file_ops.search_text", pattern="{{previous_result}}"),
            action("memory.recall", query="{{result}} or {{previous_result}}"),
            action("plan_tool.propose", goal="Let pages hold {{ task_1.output }}"),
            action("file_ops.read_file", path="{{previous_result}}"),
            action("file_ops.read_file", path="{{city}}"),
            action("memory.remember", text="Pages hold {{result}}.", kind="{{result}}"),
        ),
        done(),
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        await s.turn("write")
        assert (folder / odd).read_text().startswith("{{previous_result}}")
        outcomes = [m.result.outcome for m in s.results()]
        assert outcomes[:3] == [Outcome.OK] * 3
        assert outcomes[3] is not Outcome.INVALID
        assert outcomes[4:] == [Outcome.INVALID] * 3
        for message in s.results()[4:]:
            assert "nothing fills in a reference" in message.result.text
