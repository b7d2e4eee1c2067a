"""Models whose calls come as text: the work is done, it is said, and nothing ends as done by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.session import done, script, session

from duckflow_tui.demo.replies import Reply, Script
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import GateChoice

READ = {"path": "a.py"}
EDIT = {"path": "a.py", "edits": [{"old": "x = 1", "new": "x = 2"}]}
JUDGED = {
    "rationale": "as asked",
    "goal_consistency": {"ok": True, "reason": "asked for"},
    "constraint_check": {"ok": True, "reason": "none"},
    "next_step": "continue",
}


def hermes(*calls: tuple[str, dict[str, Any]]) -> str:
    return "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': args})}\n</tool_call>"
        for name, args in calls
    )


def coder(*calls: tuple[str, dict[str, Any]]) -> str:
    made: list[str] = []
    for name, args in calls:
        fields = "\n".join(
            f"<parameter={key}>\n{t if isinstance(t, str) else json.dumps(t)}\n</parameter>"
            for key, t in args.items()
        )
        made.append(f"<tool_call>\n<function={name}>\n{fields}\n</function>\n</tool_call>")
    return "\n".join(made)


def mistral(*calls: tuple[str, dict[str, Any]]) -> str:
    return f"[TOOL_CALLS] {json.dumps([{'name': n, 'arguments': a} for n, a in calls])}"


def project(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("x = 1\n")
    return tmp_path


READS = ("file_ops__read_file", READ)
EDITS = ("file_ops__edit_file", EDIT)
JUDGE = ("decide", JUDGED)


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize("form", [hermes, coder, mistral])
async def test_a_file_is_edited_by_calls_that_were_written_as_text(
    tmp_path: Path, form: Any, protocol: Any
) -> None:
    replies = script(
        Reply(text=f"I look at it.\n{form(READS)}"),
        Reply(text=form(JUDGE, EDITS) if protocol == "tools" else form(EDITS)),
        *([Reply(text=json.dumps({**JUDGED, "actions": [{"operation": "file_ops.edit_file",
           "args": EDIT, "reasoning": "asked"}]}))] if protocol == "json" else []),
        done("x is 2 now."),
    )  # fmt: skip
    async with session(project(tmp_path), replies, protocol=protocol, mode="trusted") as s:
        end = await s.turn("set x to 2")
        assert (tmp_path / "work" / "a.py").read_text() == "x = 2\n"
        assert end.outcome == "done"
        assert end.reply == "x is 2 now."
        assert "turn.from_text" in s.notices()
        shown = [m.text for m in s.state.messages if m.kind == "assistant"]
        assert all("tool_call" not in text.lower() for text in shown)


async def test_a_gate_says_that_the_call_was_read_from_text(tmp_path: Path) -> None:
    replies = script(Reply(text=hermes(JUDGE, EDITS)), done("done"))
    async with session(project(tmp_path), replies, protocol="tools", mode="standard") as s:
        await s.engine.send("set x to 2")
        gate = await s.gate()
        assert "from_text" in gate.impact.reasons
        await s.answer(GateChoice.ONCE)
        await s.ended()


async def test_after_two_in_a_row_json_is_asked_for(tmp_path: Path) -> None:
    replies = script(
        Reply(text=hermes(READS)), Reply(text=hermes(("file_ops__list_dir", {}))), done("x is 1.")
    )
    async with session(project(tmp_path), replies, protocol="auto") as s:
        end = await s.turn("what does a.py say?")
        assert end.outcome == "done"
        assert ["tools" in r.json for r in s.server.of("main")] == [True, True, False]
        assert "llm.learned.tools" in s.notices()


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "file_ops__read_fi',
        '<tool_call>\n{"name": "launch_rocket", "arguments": {}}\n</tool_call>',
        "<function=file_ops__edit_file>\n<parameter=path>\na.py",
        "[TOOL_CALLS] read a.py",
        "*** Begin Patch\n*** Update File: a.py\n-x = 1\n+x = 2",
    ],
)
async def test_what_looks_like_a_call_and_cannot_be_read_is_repaired(
    tmp_path: Path, text: str, protocol: Any
) -> None:
    """It is never the answer, and nothing of it ran."""
    replies = Script(replies={"main": (Reply(text=text), done("x is 1."))})
    async with session(project(tmp_path), replies, protocol=protocol, mode="trusted") as s:
        end = await s.turn("what does a.py say?")
        assert end.reply == "x is 1."
        assert "turn.repair" in s.notices()
        assert not [m for m in s.state.messages if isinstance(m, OperationMessage)]


async def test_an_answer_about_calls_is_an_answer(tmp_path: Path) -> None:
    text = "Such a model writes:\n\n```xml\n<tool_call>{...}</tool_call>\n```\n\nThat is all."
    async with session(project(tmp_path), script(Reply(text=text)), protocol="tools") as s:
        end = await s.turn("how do models write calls?")
        assert (end.outcome, end.reply) == ("done", text)
