"""The user is told which files that other programs act on changed while a command ran, however the
command ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from support.bench import done
from support.journal_disks import until
from support.session import action, decision, script, session
from support.session import done as ended
from support.shell import ShellBench

from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.tools.operation import RUN

WRITTEN = "processes.obeyed_written"


@pytest.fixture
async def bench(root: Path) -> AsyncGenerator[ShellBench]:
    found = ShellBench(root, mode=ApprovalMode.TRUSTED)
    yield found
    await found.end_commands()


async def begin(bench: ShellBench, command: str, **args: object) -> asyncio.Task[object]:
    task = bench.begin(RUN, command=command, **args)
    await bench.answer(await bench.gate(), GateChoice.ONCE)
    return task


def notices(bench: ShellBench) -> list[tuple[str, str]]:
    found = [m for m in bench.store.state.messages if isinstance(m, NoticeMessage)]
    return [(m.params["command"], m.params["paths"]) for m in found if m.key == WRITTEN]


def pending(root: Path) -> list[str]:
    folder = root.parent / "state" / "looks"
    return os.listdir(folder) if folder.is_dir() else []


@pytest.mark.parametrize("stops", [1, 2])
async def test_a_command_that_is_stopped_is_told_of_also_in_a_hurry(
    bench: ShellBench, root: Path, stops: int
) -> None:
    line = "mkdir .odd; echo x > .odd/tool; echo began; sleep 60"
    task = await begin(bench, line)
    await bench.until(lambda state: bool(state.outputs))
    for _ in range(stops):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({task})
    await bench.until(lambda _: bool(notices(bench)))
    assert notices(bench) == [(line, ".odd/tool")]
    await until(lambda: not pending(root))


@pytest.mark.parametrize("killed", [False, True])
async def test_what_a_session_did_not_tell_the_next_one_tells(
    bench: ShellBench, root: Path, killed: bool
) -> None:
    """Of a command in the background that quitting ended, or that a kill took with it."""
    (root / ".before").write_text("as it was")
    line = "echo x > .after; echo 1 > program; chmod 755 program; echo began; sleep 60"
    await done(await begin(bench, line, background=True))
    assert notices(bench) == []
    next_one = ShellBench(root, mode=ApprovalMode.TRUSTED)
    if killed:
        await next_one.shell.obeyed.tell_left()
        assert notices(next_one) == []  # the session lives, and will tell
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if "/state/looks/" in os.readlink(f"/proc/self/fd/{fd}"):
                    fcntl.flock(int(fd), fcntl.LOCK_UN)  # as the end of the process does
    else:
        await bench.end_commands()
    for number in range(2):
        await next_one.shell.obeyed.tell_left()
        assert notices(next_one) == [(line, ".after, program")], number
    assert pending(root) == []
    await next_one.end_commands()


async def test_a_session_begins_with_what_the_one_before_did_not_tell(tmp_path: Path) -> None:
    line = "echo x > .odd; chmod 700 .odd; sleep 60"
    call = action("shell.run", command=line, background=True)
    replies = script(decision("I run it.", call), ended())
    async with session(tmp_path, replies, mode="trusted") as made:
        await made.engine.send("begin")
        await made.answer(GateChoice.ONCE)
        await made.ended()
        await until((made.workspace / ".odd").exists)
    async with session(tmp_path, script(), mode="trusted") as made:
        await made.until(lambda _: WRITTEN in made.notices())
        (told,) = [m for m in made.state.messages if isinstance(m, NoticeMessage)]
        assert (told.params["command"], told.params["paths"]) == (line, ".odd")


async def test_a_damaged_record_of_an_earlier_session_tells_nothing(
    bench: ShellBench, root: Path
) -> None:
    await done(await begin(bench, "touch x; sleep 60", background=True))
    (name,) = pending(root)
    folder = root.parent / "state" / "looks"
    for number, text in enumerate(("", "{", '{"command": 1}', '{"stamps": {}, "command": "x"}')):
        (folder / f"{name}{number}").write_text(text)
    await bench.shell.obeyed.tell_left()
    assert (notices(bench), pending(root)) == ([], [name])


async def test_what_a_look_did_not_come_to_is_told_by_its_time(
    bench: ShellBench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is told that was there before, as in a folder of packages that is too large."""
    (root / ".gitignore").write_text("many/\n")
    (root / "many").mkdir()
    for number in range(50):
        (root / "many" / f".{number:03}").touch()
    monkeypatch.setattr("duckflow_tui.tools.snapshot.MAX_FILES", 0)
    monkeypatch.setattr("duckflow_tui.tools.snapshot.MAX_IGNORED", 10)
    before = await bench.copies.take_snapshot(copy=False)
    assert before is not None
    monkeypatch.setattr("duckflow_tui.tools.snapshot.MAX_IGNORED", 1_000)
    monkeypatch.setattr("duckflow_tui.tools.snapshot.MAX_FILES", 1_000)
    (root / "many" / ".049").write_text("evil")
    found = await bench.copies.find_obeyed(before.look.stamps_of_obeyed)
    assert found == ({"many/.049": "many"}, True)


async def test_a_flood_of_files_hides_nothing(
    bench: ShellBench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a command made more files than are looked at, that is told."""
    monkeypatch.setattr("duckflow_tui.tools.snapshot.MAX_FILES", 30)
    line = "mkdir '!'; touch '!'/{1..40}; mkdir .odd; echo x > .odd/tool"
    await done(await begin(bench, line))
    assert notices(bench) == [(line, "…")]


async def test_a_cache_that_git_ignores_is_told_once_and_all_else_each_time(
    bench: ShellBench, root: Path
) -> None:
    """Whether the project ignores it, or it brings the rule along as pytest's does."""
    (root / ".gitignore").write_text(".mypy_cache/\n")
    write = "for d in .mypy_cache .pytest_cache .odd; do mkdir -p $d; echo $RANDOM > $d/x; done; "
    rule = "echo '*' > .pytest_cache/.gitignore"
    for line in (write + rule, write):
        await done(await begin(bench, line))
    first, second = (paths for _, paths in notices(bench))
    for name in (".mypy_cache", ".pytest_cache", ".odd"):
        assert name in first
    assert second == ".odd/x"


async def test_an_ignored_repository_hides_nothing_and_takes_no_undo(
    bench: ShellBench, root: Path
) -> None:
    """The folders of a repository that git ignores, and those that its settings lead to, are
    closed; all else is looked at as before.
    """
    (root / ".gitignore").write_text("*\n!kept.txt\n")
    (root / "kept.txt").write_text("before\n")
    (root / "led").mkdir()
    await done(await begin(bench, "git init -q sub; git -C sub config core.hooksPath ../led"))
    bare = "git init -q --bare mirror"
    await done(await begin(bench, bare))
    bench.workspace.protect_found([root / "mirror", root / "led"])  # as before each sandbox
    line = "echo x > .odd; echo after > kept.txt"
    await done(await begin(bench, line))
    told = dict(notices(bench))
    assert told[bare].startswith("mirror/ (")
    assert told[line] == ".odd"
    last = bench.store.state.messages[-1]
    assert isinstance(last, OperationMessage)
    assert [change.path for change in last.result.touched] == ["kept.txt"]
