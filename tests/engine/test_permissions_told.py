"""The permissions that a model is told of are those that its calls then meet; a refusal is told in
the language of the session.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.bench import done as ended
from support.session import action, decision, done, script, session
from support.shell import ShellBench

from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.tools.shell import RUN

CALLS = (
    ("file_ops.write_file", {"path": "made.txt", "content": "x\n"}),
    ("file_ops.write_file", {"path": "deep/er/made.txt", "content": "y\n"}),
    ("file_ops.edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]}),
    ("file_ops.edit_file", {"path": "sub/b.txt", "edits": [{"old": "one", "new": "two"}]}),
    ("file_ops.move_file", {"source": "c.txt", "target": "d.txt"}),
    ("file_ops.move_file", {"source": "sub/e.txt", "target": "f.txt"}),
    ("file_ops.delete_file", {"path": "g.txt"}),
    ("file_ops.delete_file", {"path": "sub/h.txt"}),
    (RUN, {"command": "make all"}),
    (RUN, {"command": "touch i.txt"}),
)


@pytest.mark.parametrize("mode", list(ApprovalMode))
async def test_forty_calls_meet_what_the_model_was_told(mode: ApprovalMode, tmp_path: Path) -> None:
    """Covers S4-116."""
    root = tmp_path / "work"
    (root / "sub").mkdir(parents=True)
    for name in ("a.txt", "c.txt", "g.txt", "sub/b.txt", "sub/e.txt", "sub/h.txt"):
        (root / name).write_text("one\n")
    bench = ShellBench(root, mode=mode)
    told = await bench.router.current_permissions()
    for operation, args in CALLS:
        task = bench.begin(operation, **args)
        await asyncio.wait(
            (task, opened := asyncio.create_task(bench.gate())), return_when="FIRST_COMPLETED"
        )
        if opened.done():
            assert operation in told.asks, (operation, args)
            await bench.answer(opened.result(), GateChoice.REJECT)
            assert (await ended(task)).result.outcome is Outcome.REJECTED
            continue
        opened.cancel()
        denied = task.result().result.outcome is Outcome.DENIED
        assert operation in (told.refused if denied else told.runs), (operation, args)


@pytest.mark.parametrize(
    ("language", "told"),
    [("en", "none.py does not exist; file_ops.find_files"), ("ja", "none.py は存在しない。")],
)
async def test_a_refusal_is_told_in_the_language_of_the_session(
    tmp_path: Path, language: str, told: str
) -> None:
    reads = decision("", action("file_ops.read_file", path="none.py"))
    async with session(tmp_path, script(reads, done()), language=language) as s:
        await s.turn("read it")
        assert told in s.server.of("main")[1].new_text
