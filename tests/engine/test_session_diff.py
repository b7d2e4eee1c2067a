"""What became of files since the session began: as they lie there now, whoever changed them how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.session import Session, action, decision, done, script, session

from duckflow_tui.state.gates import FilePreview, GateChoice
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.turn import TurnFinished
from duckflow_tui.words.catalogue import Catalogue

LINES = "".join(f"line {number}\n" for number in range(1, 30))


def write(path: str, content: str) -> dict[str, Any]:
    return action("file_ops.write_file", path=path, content=content)


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return action("file_ops.edit_file", path=path, edits=[{"old": old, "new": new}])


def move(source: str, target: str) -> dict[str, Any]:
    return action("file_ops.move_file", source=source, target=target)


def delete(path: str) -> dict[str, Any]:
    return action("file_ops.delete_file", path=path)


def run(command: str) -> dict[str, Any]:
    return action("shell.run", command=command)


async def worked(made: Session, text: str, number: int) -> None:
    """One turn in which the user approves all that is asked."""
    await made.engine.send(text)
    while True:
        await made.until(lambda s: bool(s.gates) or len(made.events(TurnFinished)) == number)
        if not made.state.gates:
            return
        await made.answer(GateChoice.ONCE)


async def told(made: Session) -> dict[str, tuple[str, str, int, int]]:
    """Each file: its kind, where it came from, lines added and removed."""
    found, _ = await made.engine.session_diff()
    told: dict[str, tuple[str, str, int, int]] = {}
    for p in found:
        path = p.target or p.path
        name = f"{path}, before" if p.path == "over.txt" else path
        told[name] = (p.kind, p.target and p.path, p.added, p.removed)
    return told


async def preview(made: Session, path: str) -> FilePreview:
    found, _ = await made.engine.session_diff()
    return next(p for p in found if path in (p.path, p.target))


async def test_each_file_is_compared_with_the_start_of_the_session(tmp_path: Path) -> None:
    """Edited twice, made, deleted, made and deleted, moved, moved and edited, moved to
    where another one was, put back by hand, undone, and what commands did; same after a resume.
    """
    work = tmp_path / "work"
    work.mkdir()
    names = "edited deleted moved both back undone sed mv again over mover"
    for name in names.split(" "):
        (work / f"{name}.txt").write_text(f"{name}\n{LINES}")
    first = decision(
        "I change.",
        edit("edited.txt", "line 3\n", "third\n"),
        write("new.txt", "new\n"),
        delete("deleted.txt"),
        write("short.txt", "short\n"),
        move("moved.txt", "there.txt"),
        move("both.txt", "sub/both.txt"),
        edit("sub/both.txt", "line 5\n", "fifth\n"),
        edit("back.txt", "line 7\n", "seventh\n"),
        delete("again.txt"),
        delete("over.txt"),
    )
    second = decision(
        "More.",
        edit("edited.txt", "line 20\n", ""),
        delete("short.txt"),
        edit("back.txt", "seventh\n", "line 7\n"),
        write("again.txt", "again\n"),
        move("mover.txt", "over.txt"),
        run("sed -i '1d' sed.txt && mv mv.txt mv2.txt && printf 'made\\n' > made.txt"),
    )
    third = decision("One more.", move("undone.txt", "undone2.txt"))
    expected = {
        "again.txt": ("modify", "", 0, 29),
        "deleted.txt": ("delete", "", 0, 30),
        "edited.txt": ("modify", "", 1, 2),
        "made.txt": ("create", "", 1, 0),
        "mv2.txt": ("move", "mv.txt", 0, 0),
        "new.txt": ("create", "", 1, 0),
        "over.txt": ("move", "mover.txt", 0, 0),
        "over.txt, before": ("delete", "", 0, 30),
        "sed.txt": ("modify", "", 0, 1),
        "sub/both.txt": ("move", "both.txt", 1, 1),
        "there.txt": ("move", "moved.txt", 0, 0),
    }
    async with session(tmp_path, script(first, second, done(), third, done())) as made:
        assert await told(made) == {}
        made.engine.set_mode(ApprovalMode.TRUSTED)
        await worked(made, "change", 1)
        await worked(made, "and more", 2)
        assert (await told(made))["undone2.txt"][0] == "move"
        await made.engine.undo()
        assert await told(made) == expected
        hunks = (await preview(made, "edited.txt")).hunks
        assert [line.text for h in hunks for line in h.lines if line.mark == "-"] == [
            "line 3", "line 20",
        ]  # fmt: skip
        assert [line.text for h in hunks for line in h.lines if line.mark == "+"] == ["third"]
        session_id = made.session_id
    (work / "new.txt").write_text("new\nby hand\n")  # what the user adds is a part of what is there
    (work / "made.txt").unlink()
    (work / "sed.txt").chmod(0o600)
    (work / "there.txt").unlink()
    (work / "there.txt").symlink_to(work / "mv2.txt")
    async with session(tmp_path, script(), resume=session_id) as made:
        after = await told(made)
        assert after.pop("new.txt") == ("create", "", 2, 0)
        assert after.pop("moved.txt") == ("modify", "", 0, 0)
        assert [f.key for f in (await preview(made, "moved.txt")).facts] == ["diff.fact.taken"]
        said = [Catalogue("en").localize(f) for f in (await preview(made, "sed.txt")).facts]
        assert said == ["permissions 644 → 600"]
        assert after == {
            path: kind for path, kind in expected.items() if path in after and path != "new.txt"
        }
        assert expected.keys() - after.keys() == {"new.txt", "made.txt", "there.txt"}


async def test_files_that_git_ignores_are_left_out_unless_a_call_wrote_them(
    tmp_path: Path,
) -> None:
    """Also by an ignore file in their own folder, which a command made."""
    work = tmp_path / "work"
    work.mkdir()
    (work / ".gitignore").write_text("*.pyc\n*.local\n")
    (work / "a.py").write_text("a = 1\n")
    run_tests = (
        "mkdir -p .cache .pytest_cache && echo '*' > .cache/.gitignore && "
        "for f in .cache/x .pytest_cache/nodes a.pyc; do echo run >> $f; done"
    )
    again = f"{run_tests}; echo b >> a.py"
    replies = script(
        decision("I test.", run(run_tests)),
        done(),
        decision("I test again.", run(again), write("own.local", "mine\n")),
        done(),
    )
    async with session(tmp_path, replies) as made:
        made.engine.set_mode(ApprovalMode.TRUSTED)
        await worked(made, "test", 1)
        assert await told(made) == {}
        await worked(made, "and again", 2)
        assert (work / "a.pyc").read_text() == "run\nrun\n"
        assert list(await told(made)) == ["a.py", "own.local"]
