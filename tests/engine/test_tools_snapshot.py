"""What a command changed goes back with undo: byte for byte, modes too, and what is not covered is
said.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from support.bench import done
from support.session import Session, action, decision, script, session
from support.session import done as ended
from support.shell import ShellBench

from duckflow_tui.safety.workspace import MAX_READ
from duckflow_tui.session.export import render_markdown
from duckflow_tui.session.facts import SessionFacts
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.tools.results import changed_files
from duckflow_tui.tools.snapshot import LIMIT, MAX_KEPT
from duckflow_tui.words.catalogue import Catalogue


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "src").mkdir(parents=True)
    (path / "old" / "deep").mkdir(parents=True)
    files = {"a.txt": b"one\n", "src/b.bin": b"\0\1\2", "old/deep/c.txt": b"c", "run.sh": b"#!\n"}
    for name, data in files.items():
        (path / name).write_bytes(data)
        (path / name).chmod(0o640)
    return path


@pytest.fixture
async def bench(root: Path) -> AsyncGenerator[ShellBench]:
    found = ShellBench(root, mode=ApprovalMode.TRUSTED)
    yield found
    await found.end_commands()


async def run(bench: ShellBench, command: str, **args: object) -> OperationMessage:
    task = bench.begin("shell.run", command=command, **args)
    await bench.until(lambda state: bool(state.gates) or task.done())
    for gate in bench.store.state.gates:
        await bench.answer(gate, GateChoice.ONCE)
    return await done(task)


def tree(root: Path) -> dict[str, object]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        if path.is_file()
        else "folder"
        for path in sorted(root.rglob("*"))
    }


CHANGES = (
    "echo two >> a.txt; mkdir -p new/er && cp src/b.bin new/er/d.bin; rm -r old; "
    "chmod 755 run.sh; printf '\\3' > src/b.bin; chmod 400 src/b.bin; mv a.txt z.txt"
)


async def test_what_a_command_changed_goes_back_and_comes_again(
    bench: ShellBench, root: Path
) -> None:
    """Covers S4-88."""
    before = tree(root)
    message = await run(bench, CHANGES)
    after = tree(root)
    assert message.result.covered
    assert changed_files([message]) == tuple(c.path for c in message.result.touched)
    shown = {preview.path: preview for preview in message.previews}
    lines = [line for hunk in shown["a.txt"].hunks for line in hunk.lines]
    assert [(line.mark, line.text) for line in lines] == [("-", "one")]
    assert shown["new/er/d.bin"].kind == "create"
    assert [Catalogue("en").localize(f) for f in shown["run.sh"].facts] == ["permissions 640 → 755"]
    assert "undo does not cover" not in message.result.text
    assert after != before
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"
    assert tree(root) == before
    assert (await bench.router.undoing.redo_last()).key == "operations.redo.done"
    assert tree(root) == after
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"
    assert tree(root) == before
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.nothing"


async def test_what_a_command_changed_is_shown_but_no_secret_and_no_book(
    bench: ShellBench,
) -> None:
    bench.copies.redact = lambda text: text.replace("s3cr3t-key", "[redacted]")
    message = await run(bench, "echo key=s3cr3t-key > a.txt; seq 3000 > many.txt; echo x > z")
    facts = {p.path: (len(p.hunks), [f.key for f in p.facts]) for p in message.previews}
    assert facts == {
        "a.txt": (0, ["diff.fact.secret"]),
        "many.txt": (0, ["diff.fact.too_much"]),
        "z": (1, []),
    }
    assert all(preview.added for preview in message.previews)


async def test_the_gate_says_of_a_command_whether_undo_can_take_it_back(
    bench: ShellBench,
) -> None:
    said: list[bool] = []
    for background, limit in ((False, LIMIT), (True, LIMIT), (False, 0)):
        bench.copies.limit = limit
        task = bench.begin("shell.run", command="echo x > a.txt", background=background)
        gate = await bench.gate()
        said.append(gate.impact.reversible)
        await bench.answer(gate, GateChoice.ONCE)
        await done(task)
        undone = await bench.router.undoing.undo_last()
        assert (undone.key == "operations.undo.done") == said[-1]
    assert said == [True, False, False]


async def test_what_undo_would_not_cover_is_said_in_the_gate(root: Path) -> None:
    """Each for its own reason: larger than is read, too many in an ignored folder, beyond the limit
    of all copies; and what no copy is made of.
    """
    bench = ShellBench(root, mode=ApprovalMode.TRUSTED, copies=1_000_000)
    (root / ".gitignore").write_text("many/\nsmall/\n*.db\n")
    for folder, count in (("many", 501), ("small", 20)):
        (root / folder).mkdir()
        for number in range(count):
            (root / folder / str(number)).touch()
    (root / "large.bin").touch()
    os.truncate(root / "large.bin", MAX_READ + 1)
    (root / "x.db").write_bytes(bytes(900_000))
    (root / "y.db").write_bytes(bytes(999_999))
    (root / ".git").mkdir()
    (root / ".env").write_text("KEY=1\n")
    task = bench.begin("shell.run", command="rm -rf *")
    gate = await bench.gate()
    assert gate.facts["uncovered"] == ".git/, .env, large.bin, many/, y.db"
    assert gate.impact.reversible
    await bench.answer(gate, GateChoice.ONCE)
    message = await done(task)
    assert "[undo does not cover what this changed: large.bin, y.db, many/]" in message.result.text
    assert (await bench.router.undoing.undo_last()).key.startswith("operations.undo.done")
    assert len(os.listdir(root / "small")) == 20
    assert (root / "x.db").stat().st_size == 900_000
    assert not (root / "y.db").exists()
    await bench.end_commands()


async def test_commands_and_edits_go_back_in_their_order(bench: ShellBench, root: Path) -> None:
    before = tree(root)
    await bench.call("file_ops.write_file", path="a.txt", content="edited\n")
    await run(bench, "sed -i s/edited/again/ a.txt")
    middle = tree(root)
    await run(bench, "sed -i s/again/third/ a.txt")
    await bench.router.undoing.undo_last()
    assert tree(root) == middle
    await bench.router.undoing.undo_last()
    assert (root / "a.txt").read_bytes() == b"edited\n"
    assert (
        await bench.router.undoing.undo_last()
    ).key == "operations.undo.done"  # and no command left
    assert tree(root) == before


async def test_a_command_that_failed_or_ran_too_long_is_covered_too(
    bench: ShellBench, root: Path
) -> None:
    before = tree(root)
    message = await run(bench, "echo x > a.txt; exit 3")
    assert message.result.exit_code == 3
    await bench.router.undoing.undo_last()
    assert tree(root) == before
    message = await run(bench, "echo x > late; sleep 60", timeout_s=1)
    assert message.result.outcome is Outcome.ERROR
    await bench.router.undoing.undo_last()
    assert tree(root) == before


async def test_a_command_that_is_stopped_is_covered_too(bench: ShellBench, root: Path) -> None:
    before = tree(root)
    task = bench.begin("shell.run", command="echo x > a.txt; echo ready; sleep 60")
    await bench.answer(await bench.gate(), GateChoice.ONCE)
    await bench.until(lambda state: any("ready" in out.text for out in state.outputs.values()))
    task.cancel()
    await bench.until(lambda state: not state.running)
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"
    assert tree(root) == before


async def test_what_is_not_covered_is_said(bench: ShellBench, root: Path) -> None:
    (root / ".env").write_bytes(b"KEY=1\n")
    (root / "large.bin").touch()
    os.truncate(root / "large.bin", MAX_READ + 1)
    message = await run(
        bench, "echo 2 >> large.bin; echo K=2 > .env; ln -s a.txt link; echo x > a.txt"
    )
    assert not message.result.covered
    said = "[undo does not cover what this changed: .env, large.bin, link]"
    assert said in message.result.text
    assert [change.path for change in message.result.touched] == ["a.txt"]
    report = await bench.router.undoing.undo_last()
    assert (root / "a.txt").read_bytes() == b"one\n"
    assert (root / ".env").read_bytes() == b"K=2\n"
    assert report.key == "operations.undo.done"
    await bench.call("file_ops.write_file", path="a.txt", content="three\n")
    await bench.router.undoing.undo_last()
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.nothing_command"
    for blob in bench.kept_bytes():
        assert b"KEY=1" not in blob


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ("git status; cat a.txt", "operations.undo.done"),
        ("echo mine > mine", "operations.undo.done_command"),
    ],
)
async def test_undo_names_a_command_of_the_user_only_where_it_changed_files(
    bench: ShellBench, root: Path, own: str, key: str
) -> None:
    before = tree(root)
    await run(bench, "echo two >> run.sh")
    message = await bench.router.call(bench.action("shell.run", command=own), by_user=True)
    assert message.result.covered == (not key.endswith("command"))
    report = await bench.router.undoing.undo_last()
    assert report.key == key
    assert (root / "run.sh").read_bytes() == b"#!\n"
    assert ("mine" in tree(root)) == ("mine" in own)
    assert before.items() <= tree(root).items()


ODD = {
    "rm -r old; echo x > old": ["old", "old/deep", "old/deep/c.txt"],
    "rm -r src; ln -s /usr src": ["src", "src/b.bin"],
    "rm a.txt; mkdir a.txt; echo x > a.txt/y": ["a.txt"],
    "rm link": ["link"],
    "ln -sfn run.sh link": ["link"],
    "rmdir empty": ["empty"],
    "chmod 700 src; echo > src/b.bin": ["src"],
    "chmod 500 empty": ["empty"],
    # A write by anybody but root takes the bit away.
    "chmod u+s run.sh": ["run.sh"] if os.geteuid() == 0 else [],
    "rm odd.": ["odd."],
    "cp one t; mv t one; echo x >> one": ["one"],
    "cp -p one t; mv t one": ["one", "two"],  # the same bytes, and two files
    "ln a.txt third": [],
    "n=.duckflow-1.tmp; mkdir $n && echo x > $n/y": [],  # no unfinished file of the app
    "echo x > git~1": ["git~1"],
    "echo x > ' '; echo x > '~'; echo x > '~root'": [],
}


async def test_odd_shapes_go_back_or_are_told_and_keep_nothing_else_from_it(root: Path) -> None:
    (root / "link").symlink_to(".")
    (root / "empty").mkdir()
    for name in ("odd.", "one"):
        (root / name).write_text("mine\n")
    (root / "two").hardlink_to(root / "one")
    for command, told in ODD.items():
        shutil.copytree(root, again := root.parent / "again" / "work", symlinks=True)
        (again / "two").unlink()
        (again / "two").hardlink_to(again / "one")
        before = tree(again)
        bench = ShellBench(again, mode=ApprovalMode.TRUSTED)
        message = await run(bench, f"{command}; echo changed >> run.sh; rm old/deep/c.txt")
        said = message.result.text.partition("[undo does not cover what this changed: ")[2]
        named = said.partition("]")[0].split(", ") if said else []
        assert {*told} <= {*named}, (command, said)
        assert message.result.covered == (not told), command
        report = await bench.router.undoing.undo_last()
        assert report.key.startswith("operations.undo.done"), (command, report)
        after = tree(again)
        paths = before.keys() | after.keys()
        wrong = {path for path in paths if before.get(path) != after.get(path)}
        assert wrong <= {*told}, command
        await bench.end_commands()
        shutil.rmtree(again)


async def test_what_was_ignored_is_never_taken_for_new(bench: ShellBench, root: Path) -> None:
    """Its owner had it before; only what was destroyed of it counts."""
    (root / ".gitignore").write_bytes(b"kept/\n*.log\n")
    (root / "kept").mkdir()
    (root / "kept" / "mine").write_bytes(b"mine\n")
    (root / "own.log").write_bytes(b"own\n")
    message = await run(bench, "rm .gitignore; echo more >> own.log; echo x > a.txt")
    assert [change.path for change in message.result.touched] == [".gitignore", "a.txt"]
    assert [change.path for change in message.result.destroyed] == ["own.log"]
    await bench.router.undoing.undo_last()
    assert (root / ".gitignore").exists()
    assert (root / "kept" / "mine").read_bytes() == b"mine\n"
    assert (root / "own.log").read_bytes() == b"own\n"
    message = await run(bench, "echo '*.txt' >> .gitignore; echo y > a.txt; echo z >> own.log")
    assert {change.path for change in message.result.touched} == {".gitignore", "a.txt"}
    await bench.router.undoing.undo_last()
    assert (root / "a.txt").read_bytes() == b"one\n"


async def test_an_ignore_file_of_a_command_takes_no_file_from_what_undo_covers(
    bench: ShellBench, root: Path
) -> None:
    rules = "src/\\n*.txt\\nAGENTS.md\\nbuilt/\\n"
    (root / "AGENTS.md").write_text("as it was\n")
    await run(bench, f"printf '{rules}' > .gitignore")
    before = tree(root)
    message = await run(
        bench, "rm -r src; echo lost > a.txt; echo lost > AGENTS.md; mkdir -p built; echo > built/x"
    )
    assert message.result.covered
    touched = {change.path for change in message.result.touched}
    assert touched == {"a.txt", "src/b.bin", "AGENTS.md"}
    await bench.router.undoing.undo_last()
    kept = {path: is_ for path, is_ in tree(root).items() if not path.startswith("built")}
    assert kept == before


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf data cache.db",
        "find data -name '*.csv' -delete; : > cache.db",
        'mv data gone; python3 -c \'open("cache.db", "wb").write(bytes(9))\'',
    ],
)
async def test_ignored_and_large_files_that_a_command_destroyed_come_back(
    bench: ShellBench, root: Path, command: str
) -> None:
    (root / ".gitignore").write_text("data/\ngone/\n*.db\n")
    (root / "data" / "deep").mkdir(parents=True)
    (root / "data" / "deep" / "x.csv").write_bytes(b"1,2\n")
    (root / "cache.db").write_bytes(os.urandom(MAX_KEPT * 3))
    (root / "large.bin").write_bytes(os.urandom(MAX_KEPT * 2))
    before = tree(root)
    message = await run(bench, f"{command}; echo > large.bin")
    assert "undo does not cover" not in message.result.text
    assert "data/deep/x.csv" in [change.path for change in message.result.shown_changes]
    assert tree(root) != before
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"
    left = {path: is_ for path, is_ in tree(root).items() if not path.startswith("gone")}
    assert left == before
    assert (await bench.router.undoing.redo_last()).key == "operations.redo.done"
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.done"


async def test_a_cache_that_a_command_wrote_anew_is_not_the_last_change(
    bench: ShellBench, root: Path
) -> None:
    """An edit, then a run of the tests: undo takes back the edit, and the cache when asked to."""
    (root / ".gitignore").write_text("cache/\n")
    (root / "cache").mkdir()
    (root / "cache" / "x").write_text("old")
    await bench.call("file_ops.write_file", path="a.txt", content="edited\n")
    message = await run(bench, "echo new > cache/x")
    assert message.result.covered
    assert message.result.shown_changes == ()
    assert [c.path for c in (await bench.router.undoing.undo_last()).undone] == ["a.txt"]
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.only_ignored"
    report = await bench.router.undoing.undo_last(ignored=True)
    assert [change.path for change in report.undone] == ["cache/x"]
    assert (root / "cache" / "x").read_text() == "old"


async def test_a_file_that_was_changed_since_keeps_the_whole_command_from_being_undone(
    bench: ShellBench, root: Path
) -> None:
    await run(bench, "echo x > a.txt; echo y > run.sh")
    (root / "a.txt").write_bytes(b"mine\n")
    after = tree(root)
    assert (await bench.router.undoing.undo_last()).key == "operations.undo.changed"
    assert tree(root) == after


async def test_the_users_git_is_left_alone(bench: ShellBench, root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_bytes(b"ref: refs/heads/main\n")
    spool = root.parent / "state" / "spool"
    message = await run(bench, "cat a.txt | head -1 && git status; ls src")
    assert (message.result.covered, message.result.touched) == (True, ())
    git = tree(root / ".git")
    await run(bench, "echo x > a.txt")
    await bench.router.undoing.undo_last()
    assert tree(root / ".git") == git
    assert list(spool.iterdir()) == []  # the copies have no name


async def test_after_a_cut_the_next_process_takes_back_what_a_command_changed(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n")
    call = action("shell.run", command="echo x > a.txt; echo new > b.txt")
    async with session(tmp_path, script(decision("I run it.", call), ended()), mode="trusted") as s:
        await s.engine.send("change it")
        await s.answer(GateChoice.ONCE)
        await s.ended()
        s.cut()
    async with session(tmp_path, script(), mode="trusted", resume=s.session_id) as s:
        first = next(m.message_id for m in s.state.messages if m.kind == "user")
        assert await s.engine.rewind.go_back(first, files=True) == ""
        assert (s.workspace / "a.txt").read_text() == "one\n"
        assert not (s.workspace / "b.txt").exists()
        assert await s.engine.rewind.undo_rewind() == ""
        assert (s.workspace / "a.txt").read_text() == "x\n"
        assert (s.workspace / "b.txt").read_text() == "new\n"


def undo_notice(s: Session) -> NoticeMessage:
    """The newest notice about an undo or a redo."""
    found = [m for m in s.state.messages if isinstance(m, NoticeMessage)]
    return next(m for m in reversed(found) if m.key.startswith("operations."))


@pytest.mark.parametrize("anyway", [False, True])
async def test_the_next_process_restores_what_is_stored_and_names_what_is_not(
    tmp_path: Path, anyway: bool
) -> None:
    root = tmp_path / "work"
    (root / "__pycache__").mkdir(parents=True)
    kept = {"README.md": b"read me\n", "logo.png": bytes(range(256)) * 40}
    files = kept | {"__pycache__/x.pyc": os.urandom(900), "large.bin": bytes(MAX_KEPT + 1)}
    for name, data in files.items():
        (root / name).write_bytes(data)
    call = action("shell.run", command=f"rm {' '.join(files)}")
    async with session(tmp_path, script(decision("I clean.", call), ended()), mode="trusted") as s:
        await s.engine.send("clean")
        gate = await s.gate()
        assert gate.facts["until_quit"] == "large.bin, __pycache__/"
        assert "uncovered" not in gate.facts
        await s.answer(GateChoice.ONCE)
        await s.ended()
    async with session(tmp_path, script(), mode="trusted", resume=s.session_id) as s:
        await s.engine.undo(anyway=anyway)
        there = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        assert there == kept
        said = undo_notice(s)
        assert said.key == "operations.undo.partly_lost"
        assert said.params["path"] == "README.md, logo.png"
        assert said.params["lost"] == "large.bin, __pycache__/x.pyc"
        changed, _ = await s.engine.session_diff()
        assert [(one.path, one.kind) for one in changed] == [
            ("__pycache__/x.pyc", "delete"),
            ("large.bin", "delete"),
        ]
        await s.engine.undo(anyway=anyway)
        assert undo_notice(s).key == "operations.undo.nothing"
    async with session(tmp_path, script(), mode="trusted", resume=s.session_id) as s:
        await s.engine.redo()
        assert undo_notice(s).key == "operations.redo.done"
        assert not any(path.is_file() for path in root.rglob("*"))
        changed, _ = await s.engine.session_diff()
        assert {one.path for one in changed} == {*files}
        await s.engine.undo(anyway=anyway)
        assert (root / "README.md").read_bytes() == kept["README.md"]


async def test_a_rewind_in_the_next_process_tells_which_files_were_not_put_back(
    tmp_path: Path,
) -> None:
    root = tmp_path / "work"
    (root / "__pycache__").mkdir(parents=True)
    (root / "README.md").write_text("read me\n")
    (root / "__pycache__" / "x.pyc").write_bytes(os.urandom(900))
    call = action("shell.run", command="rm README.md __pycache__/x.pyc")
    async with session(tmp_path, script(decision("I clean.", call), ended()), mode="trusted") as s:
        await s.engine.send("clean")
        await s.answer(GateChoice.ONCE)
        await s.ended()
    replies = script(ended("Again."))
    async with session(tmp_path, replies, mode="trusted", resume=s.session_id) as s:
        first = next(m.message_id for m in s.state.messages if m.kind == "user")
        assert await s.engine.rewind.go_back(first, files=True) == ""
        assert (root / "README.md").read_text() == "read me\n"
        assert undo_notice(s).params["lost"] == "__pycache__/x.pyc"
        facts = SessionFacts(session_id=s.session_id)
        lines = render_markdown(s.state, facts, Catalogue("en"), str).splitlines()
        marked = {
            line.split("`")[1]: line.endswith("undone")
            for line in lines
            if line.startswith("- delete")
        }
        assert marked == {"README.md": True, "__pycache__/x.pyc": False}
        await s.turn("go on")
        sent = s.server.of("main")[-1].text
        assert "put back to what they were: README.md" in sent
        assert "these files was not undone: __pycache__/x.pyc" in sent
