"""What a requirement's check shows of the files as they lie, and which run of a command counts."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.bench import Bench
from support.model_words import WORDS
from support.shell import ShellBench

from duckflow_tui.state.base import hash_data
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Level, Message, NoticeMessage
from duckflow_tui.state.decision import Check, CheckKind
from duckflow_tui.state.goal import (
    RequirementEdited,
    RequirementItem,
    RequirementState,
    TaskObjective,
)
from duckflow_tui.state.operations import FileChange, OperationResult, Outcome
from duckflow_tui.work.checks import Finding, RequirementChecks

TESTS = "pytest -q"
BEGUN = 1000.0  # of the run, which took two seconds
ASKED = 500.0  # when the request was made


def item(kind: CheckKind, value: str) -> RequirementItem:
    check = Check(kind=kind, value=value)
    return RequirementItem(requirement_id="r1", requirement="it holds", check=check)


def ran(
    operation: str,
    outcome: Outcome = Outcome.OK,
    *,
    changes: tuple[FileChange, ...] = (),
    at: float = BEGUN + 10,
    text: str = "",
    code: int | None = None,
    by_check: str = "",
    covered: bool = False,
    **args: Any,
) -> OperationMessage:
    result = OperationResult(
        outcome=outcome,
        text=text,
        exit_code=code,
        changes=changes,
        covered=covered,
        duration_s=2.0,
    )
    return OperationMessage(
        call_id=f"call_{operation}",
        operation=operation,
        args=args,
        result=result,
        for_requirement=by_check,
        at=at,
    )


def suite(outcome: Outcome = Outcome.OK, **fields: Any) -> OperationMessage:
    """A run of the tests."""
    code = 0 if outcome is Outcome.OK else None
    values: dict[str, Any] = {"command": TESTS, "at": BEGUN + 2, "code": code, **fields}
    return ran("shell.run", outcome, **values)


def shell(
    command: str, outcome: Outcome = Outcome.OK, *, covered: bool = False
) -> OperationMessage:
    """A command; ``covered``: all that it changed of files is known, and here that is nothing."""
    return ran("shell.run", outcome, command=command, code=0, covered=covered)


def changed(path: str, *, target: str = "", before: str = "") -> tuple[FileChange, ...]:
    return (FileChange(path=path, kind="modify", target=target, before=before, after="x"),)


def notice(key: str) -> NoticeMessage:
    return NoticeMessage(message_id="n", level=Level.INFO, key=key, at=BEGUN + 10)


def bench(root: Path, *messages: Message) -> tuple[Bench, RequirementChecks]:
    """Nobody is there to allow a command; a.txt is older than the request and the run."""
    made = Bench(root, headless=True)
    made.store.state.objective = TaskObjective(
        objective_id="o", original_query="q", created_at=ASKED
    )
    made.store.state.messages.extend(messages)
    put(root, "a.txt", "a word\n", at=100.0)
    return made, RequirementChecks(made.store, made.ids, made.router, WORDS)


def put(root: Path, path: str, text: str, *, at: float) -> None:
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text(text)
    os.utime(root / path, (at, at))


async def look(checks: RequirementChecks, kind: CheckKind, value: str) -> Finding:
    found = await checks.check_requirement(item(kind, value))
    assert found is not None
    return found


# --- the run of a command ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "after",
    [
        ran("file_ops.read_file", path="a.txt"),
        ran("file_ops.write_file", Outcome.ERROR, path="a.txt"),
        ran("file_ops.write_file", path="a.txt", changes=changed("a.txt"), by_check="r2"),
        shell("ls", covered=True),
        shell("touch a.txt", Outcome.REJECTED),
        ran("mcp.files.write", Outcome.DENIED),
        notice("turn.stopped"),
        suite(Outcome.INVALID, at=BEGUN + 10),
        suite(Outcome.SKIPPED, at=BEGUN + 10),
        suite(Outcome.REJECTED, at=BEGUN + 10, cwd="src"),
        suite(Outcome.REJECTED, at=BEGUN + 10, background=True),
    ],
    ids=lambda message: f"{message.kind} {getattr(message, 'operation', '')}",
)
async def test_a_run_counts_until_something_may_have_changed_a_file(
    tmp_path: Path, after: Message
) -> None:
    _, checks = bench(tmp_path, suite(text="exit code 0\n3 passed"), after)
    found = await look(checks, "command", TESTS)
    shows = found.evidence
    assert shows is not None, found.words
    assert (shows.kind, shows.source, shows.exit_code) == ("command", TESTS, 0)
    assert (shows.text, shows.supports, shows.at) == ("3 passed", True, BEGUN + 2)


@pytest.mark.parametrize(
    "after",
    [
        ran("file_ops.write_file", path="a.txt", changes=changed("a.txt")),
        shell("touch a.txt"),
        shell("touch a.txt", Outcome.ERROR),
        shell("touch a.txt", Outcome.STOPPED),
        suite(Outcome.STOPPED, at=BEGUN + 10),
        ran("mcp.files.write"),
        notice("files.changed_outside"),
        notice("operations.undo.undone"),
        notice("operations.redo.redone"),
    ],
    ids=lambda message: f"{message.kind} {getattr(message, 'operation', '')}",
)
async def test_behind_what_may_have_changed_a_file_it_is_run_anew(
    tmp_path: Path, after: Message
) -> None:
    _, checks = bench(tmp_path, suite(), after)
    found = await look(checks, "command", TESTS)
    assert (found.outcome, found.evidence) == ("unchecked", None)
    assert "did not run: " in found.words


async def test_what_the_user_refused_is_not_asked_again(tmp_path: Path) -> None:
    _, checks = bench(tmp_path, suite(Outcome.REJECTED, text="not now"))
    found = await look(checks, "command", TESTS)
    assert found.words == f"`{TESTS}` did not run: rejected: not now"


@pytest.mark.parametrize(
    ("path", "at", "known", "counts"),
    [
        ("src/b.py", BEGUN, "", True),
        ("src/b.py", BEGUN + 1, hash_data("x\n"), True),  # written anew with the same bytes
        ("src/b.py", BEGUN, hash_data("y\n"), False),
        ("gone.txt", 0.0, hash_data("x\n"), False),
    ],
)
async def test_a_run_counts_where_no_known_file_holds_anything_else(
    tmp_path: Path, path: str, at: float, known: str, counts: bool
) -> None:
    """By content, whatever the times say."""
    made, checks = bench(tmp_path, suite())
    if at:
        put(tmp_path, path, "x\n", at=at)
    if known:
        made.store.state.files_read[path] = known
    assert (await look(checks, "command", TESTS)).outcome == ("met" if counts else "unchecked")


async def test_no_run_counts_once_a_file_was_changed_outside(tmp_path: Path) -> None:
    made, checks = bench(tmp_path, suite())
    made.store.state.changed_outside = ("a.txt",)
    assert (await look(checks, "command", TESTS)).outcome == "unchecked"


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "met"), (1, "refuted"), (126, "unchecked"), (127, "unchecked")]
)
async def test_the_exit_code_and_the_last_lines_of_a_run_are_what_it_shows(
    tmp_path: Path, code: int, outcome: str
) -> None:
    lines = [f"line {number} {'and more ' * 10}" for number in range(10)]
    text = "\n".join([f"exit code {code}", *lines, " "])
    _, checks = bench(tmp_path, suite(text=text, code=code))
    found = await look(checks, "command", f" {TESTS} ")
    assert found.outcome == outcome
    shows = found.evidence
    assert shows is not None
    assert shows.text == "\n".join(line.strip() for line in lines[2:])[-600:]
    assert shows.supports is (code == 0)
    assert found.words == f"`{TESTS}` ended with exit code {code}: {shows.text}"


@pytest.mark.parametrize("run", [suite(Outcome.ERROR, code=1), suite(code=None)])
async def test_of_a_run_that_did_not_come_to_its_end_nothing_is_shown(
    tmp_path: Path, run: OperationMessage
) -> None:
    _, checks = bench(tmp_path, run)
    found = await look(checks, "command", TESTS)
    assert (found.outcome, found.evidence) == ("unchecked", None)


async def test_a_call_of_a_server_that_only_reads_changes_no_file(tmp_path: Path) -> None:
    made, checks = bench(tmp_path, suite(), ran("mcp.files.read"))
    assert (await look(checks, "command", TESTS)).outcome == "unchecked"
    reads = made.router.registry.get("file_ops.read_file")
    assert reads is not None
    made.router.registry.add(replace(reads, name="mcp.files.read"))
    assert (await look(checks, "command", TESTS)).outcome == "met"


async def test_a_check_that_changes_files_says_which(tmp_path: Path) -> None:
    """Whoever judges weighs what a check is worth that makes what it looks for."""
    root = tmp_path / "work"
    root.mkdir()
    makes = "sh make.sh"
    made = ShellBench(root, allowed=(makes,), headless=True)
    checks = RequirementChecks(made.store, made.ids, made.router, WORDS)
    try:
        put(root, "make.sh", "echo > b.txt\n", at=100.0)
        found = await look(checks, "command", makes)
        assert found.words == f"`{makes}` ended with exit code 0, it changed b.txt: (no output)"
    finally:
        await made.end_commands()


async def test_what_is_left_to_judgement_is_not_looked_at(tmp_path: Path) -> None:
    _, checks = bench(tmp_path)
    assert await checks.check_requirement(item("judgement", "look at it")) is None


async def test_a_check_without_a_command_runs_none(tmp_path: Path) -> None:
    made, checks = bench(tmp_path)
    assert (await look(checks, "command", " ")).words == "the check names no command"
    assert made.store.state.messages == []


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "outcome", "words", "excerpt"),
    [
        ("file_exists", "new.txt", "met", "new.txt is there 15 B", "15 B"),
        ("file_exists", "src", "met", "src is there", ""),
        ("file_exists", "gone.txt", "refuted", "there is no gone.txt", ""),
        ("file_contains", "new.txt: two", "met", "new.txt has in line 3: two", "3: two"),
        ("file_contains", "new.txt:one", "met", "new.txt has in line 2: one", "2: one"),
        ("file_contains", "new.txt: four", "refuted", "new.txt does not hold four", ""),
        ("file_contains", "src: two", "refuted", "src is a folder", ""),
        ("file_contains", "src/b.py: x", "met", "src/b.py has in line 1: x", "1: x"),
        ("file_contains", "gone.txt: two", "refuted", "there is no gone.txt", ""),
        ("file_contains", "a.txt: other", "refuted", "a.txt does not hold other", ""),
        ("file_contains", "new.txt", "unchecked", "the check names no text to look for", None),
        ("file_contains", "large.txt: x", "unchecked", "large.txt is too large", None),
        ("file_contains", "most.txt: x", "refuted", "most.txt does not hold x", ""),
        ("file_exists", "../a.txt", "unchecked", "a check may not look at ", None),
        ("file_exists", "pipe", "unchecked", "pipe", None),
        ("file_exists", ".env", "unchecked", "a check may not look at .env", None),
        ("file_exists", "out.txt", "unchecked", "a check may not look at out.txt", None),
    ],
)
async def test_a_file_shows_what_it_holds_now(
    tmp_path: Path, kind: CheckKind, value: str, outcome: str, words: str, excerpt: str | None
) -> None:
    root = tmp_path / "work"
    root.mkdir()
    made, checks = bench(root)
    put(root, "new.txt", "\none\n  two\nsix\n", at=ASKED)
    os.mkfifo(root / "pipe")
    put(root, "src/b.py", "x\n", at=ASKED)
    put(root, ".env", "KEY=1\n", at=ASKED)
    for name, size in (("large.txt", 4 * 1024 * 1024 + 1), ("most.txt", 4 * 1024 * 1024)):
        put(root, name, "", at=ASKED)
        os.truncate(root / name, size)
    put(tmp_path, "b.txt", "x\n", at=ASKED)
    (root / "out.txt").symlink_to(tmp_path / "b.txt")
    found = await look(checks, kind, value)
    assert found.outcome == outcome
    assert found.words.startswith(words)
    if excerpt is None:
        assert found.evidence is None
        return
    shows = found.evidence
    assert shows is not None
    assert (shows.kind, shows.text, shows.supports) == ("file", excerpt, outcome == "met")
    assert (shows.source, shows.at) == (value.partition(":")[0], made.clock.now())


LATER = ASKED + 1
#: What was done to a.txt, which holds "a word" and holds it since before the request by its time.
BEFORE: dict[str, tuple[tuple[OperationMessage, ...], bool]] = {
    "nothing": ((), True),
    "another file": ((ran("x", changes=changed("b.txt", before="with"), at=LATER),), True),
    "before the request": ((ran("x", changes=changed("a.txt"), at=ASKED - 1),), True),
    "made": ((ran("x", changes=changed("a.txt"), at=LATER),), False),
    "made at once": ((ran("x", changes=changed("a.txt"), at=ASKED),), False),
    "moved there": ((ran("x", changes=changed("b.txt", target="a.txt"), at=LATER),), False),
    "moved there as it was": (
        (ran("x", changes=changed("b.txt", target="a.txt", before="with"), at=LATER),),
        False,
    ),
    "changed": ((ran("x", changes=changed("a.txt", before="with"), at=LATER),), True),
    "completed": ((ran("x", changes=changed("a.txt", before="without"), at=LATER),), False),
    "what it was is gone": ((ran("x", changes=changed("a.txt", before="lost"), at=LATER),), False),
    "changed twice": (
        (
            ran("x", changes=changed("a.txt", before="with"), at=LATER),
            ran("x", changes=changed("a.txt", before="without"), at=LATER),
        ),
        True,
    ),
}


@pytest.mark.parametrize("kind", ["file_exists", "file_contains"])
@pytest.mark.parametrize("case", BEFORE)
async def test_what_was_so_before_the_request_shows_nothing_of_the_work(
    tmp_path: Path, case: str, kind: CheckKind
) -> None:
    messages, was_so = BEFORE[case]
    made, checks = bench(tmp_path)
    shas = {"with": await made.blobs.put(b"a word"), "without": await made.blobs.put(b"a")}
    for message in messages:
        (change,) = message.result.changes
        kept = change.replace(before=shas.get(change.before, change.before))
        result = message.result.replace(changes=(kept,))
        made.store.state.messages.append(message.replace(result=result))
    value = "a.txt" if kind == "file_exists" else "a.txt: word"
    found = await checks.check_requirement(item(kind, value))
    if kind == "file_exists" and case == "completed":
        was_so = True  # the file was there, whatever it held
    assert (found is None) is was_so
    assert found is None or found.outcome == "met"


async def test_without_a_request_a_file_shows_what_it_holds(tmp_path: Path) -> None:
    made, checks = bench(tmp_path)
    made.store.state.objective = None
    put(tmp_path, "a.txt", "a word\n", at=0.25)
    assert (await look(checks, "file_contains", "a.txt: word")).outcome == "met"


# --- once more, after something was taken back ---------------------------------------------------


THERE = item("file_contains", "a.txt: word")


def undone(checks: Bench, at: float) -> None:
    """A call whose change is taken back."""
    checks.store.state.messages.append(ran("x", at=at))
    checks.store.state.undone_calls = ("call_x",)


def reopen(made: Bench, *items: RequirementItem) -> None:
    """The request is to be judged anew, and a.txt was changed for it."""
    state = made.store.state
    assert state.objective is not None
    state.objective = state.objective.replace(extracted_requirements=items, reopened=True)
    put(made.root, "a.txt", "a word\n", at=LATER)


@pytest.mark.parametrize(
    ("items", "at", "states", "open_again"),
    [
        ((THERE,), 0.0, "met", False),
        ((THERE,), ASKED - 1, "met", False),  # of the request before
        ((THERE,), ASKED, "met", True),
        ((item("file_contains", "a.txt: other"),), 0.0, "refuted", True),
        ((item("file_exists", "b.txt"),), 0.0, "refuted", True),
        ((item("file_exists", ".env"),), 0.0, "open", True),
        ((item("judgement", ""),), 0.0, "open", True),
        ((item("command", TESTS),), 0.0, "open", True),
        ((THERE, item("judgement", "").replace(requirement_id="r2")), 0.0, "met open", True),
        ((THERE.replace(state=RequirementState.WAIVED),), 0.0, "waived", False),
    ],
)
async def test_what_a_file_shows_decides_alone_once_something_was_taken_back(
    tmp_path: Path, items: tuple[RequirementItem, ...], at: float, states: str, open_again: bool
) -> None:
    made, checks = bench(tmp_path)
    reopen(made, *items)
    if at:
        undone(made, at)
    await checks.look_again()
    now = made.store.state.objective
    assert now is not None
    assert " ".join(i.state.value for i in now.extracted_requirements) == states
    assert now.reopened is open_again
    assert now.current_satisfaction == (1.0 if states == "met" and not open_again else 0.0)
    before = list(made.kinds)
    await checks.look_again()
    assert made.kinds == before  # it says nothing new


async def test_what_the_user_rewrites_meanwhile_is_not_decided_by_what_was_seen(
    tmp_path: Path,
) -> None:
    made, checks = bench(tmp_path)
    reopen(made, THERE)
    looks = asyncio.create_task(checks.look_again())
    await asyncio.sleep(0)  # it reads the file
    made.store.dispatch(RequirementEdited(item=THERE.replace(requirement="another")))
    await looks
    now = made.store.state.objective
    assert now is not None
    assert [i.state for i in now.extracted_requirements] == [RequirementState.OPEN]
    assert now.reopened


async def test_nothing_is_looked_at_again_where_nothing_was_judged(tmp_path: Path) -> None:
    made, checks = bench(tmp_path)
    before = made.store.state.objective
    await checks.look_again()
    assert made.store.state.objective is before
    made.store.state.objective = None
    await checks.look_again()
    assert made.kinds == ["mode_changed"]
