"""Calls in the words of other tools are made as ours, in both protocols, over real HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from support.session import action, decision, done, note_of, script, session

from duckflow_tui.scripted.replies import Reply, ScriptedCall
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.phase import Phase

Protocol = Literal["tools", "json"]

PATCH = """\
*** Begin Patch
*** Update File: a.py
@@
-x = 1
+x = 2
*** Add File: b.py
+y = 3
*** End Patch"""


def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


def asked(protocol: Protocol, name: str, args: dict[str, Any]) -> Reply:
    if protocol == "tools":
        return Reply(text="Next.", tool_calls=(ScriptedCall(name=name, arguments=args),))
    return decision("Next.", action(name, **args))


#: A session of each of ten other agents' models: what it calls, and how it ends. ``EDIT`` makes
#: ``x = 1`` in a.py to ``x = 2``.
Calls = list[tuple[str, dict[str, Any]]]
OLD, NEW = "x = 1", "x = 2"
UNIFIED = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
BLOCK = "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n"
HARNESSES: dict[str, Calls] = {
    "claude code": [
        ("TodoWrite", {"todos": [{"content": "set x", "status": "pending", "activeForm": "…"}]}),
        ("Read", {"file_path": "a.py", "offset": 1, "limit": 20}),
        ("Grep", {"pattern": "x", "path": ".", "output_mode": "content", "-n": True}),
        ("Glob", {"pattern": "*.py"}),
        ("LS", {"path": "."}),
        ("Edit", {"file_path": "a.py", "old_string": OLD, "new_string": NEW, "replace_all": False}),
        ("Bash", {"command": "echo hi", "description": "Say hi", "timeout": 60_000}),
    ],
    "codex": [
        ("shell", {"command": ["bash", "-lc", "echo hi"], "workdir": ".", "timeout_ms": 1000}),
        ("update_plan", {"explanation": "", "plan": [{"step": "set x", "status": "in_progress"}]}),
        ("apply_patch", {"input": PATCH}),
    ],
    "codex in its shell": [
        ("shell", {"command": ["apply_patch", PATCH], "justification": "needed"}),
        ("exec_command", {"cmd": "echo hi", "yield_time_ms": 1000}),
    ],
    "cursor": [
        ("read_file", {"target_file": "a.py", "should_read_entire_file": True, "explanation": ""}),
        ("list_dir", {"relative_workspace_path": "."}),
        ("grep_search", {"query": "x", "case_sensitive": False, "include_pattern": "*.py"}),
        ("search_replace", {"file_path": "a.py", "old_string": OLD, "new_string": NEW}),
        ("bash", {"cmd": "echo hi"}),
        ("run_terminal_cmd", {"command": "echo hi", "is_background": False, "explanation": "hi"}),
    ],
    "cline": [
        ("list_files", {"path": ".", "recursive": True}),
        ("search_files", {"path": ".", "regex": "x", "file_pattern": "*.py"}),
        ("replace_in_file", {"path": "a.py", "diff": BLOCK}),
        ("execute_command", {"command": "echo hi", "requires_approval": False}),
        ("attempt_completion", {"result": "x is 2 now."}),
    ],
    "roo": [
        ("read_file", {"args": {"path": "a.py"}}),
        ("apply_diff",
         {"path": "a.py", "diff": BLOCK.replace("x = 1", ":start_line:1\n-------\nx = 1")}),
        ("update_todo_list", {"todos": "[x] set x"}),
    ],
    "gemini": [
        ("read_file", {"absolute_path": "a.py"}),
        ("search_file_content", {"pattern": "x", "include": "*.py"}),
        ("replace", {"file_path": "a.py", "old_string": OLD, "new_string": NEW,
                     "expected_replacements": 1, "instruction": "set it"}),
        ("run_shell_command", {"command": "echo hi", "directory": ".", "description": "hi"}),
    ],
    "anthropic's editor": [
        ("str_replace_based_edit_tool", {"command": "view", "path": "a.py", "view_range": [1, 1]}),
        ("str_replace_based_edit_tool", {"command": "create", "path": "b.py", "file_text": "y\n"}),
        ("str_replace_based_edit_tool",
         {"command": "str_replace", "path": "a.py", "old_str": OLD, "new_str": NEW}),
        ("bash", {"command": "echo hi", "restart": False}),
    ],
    "openhands": [
        ("think", {"thought": "x has to be 2"}),
        ("str_replace_editor",
         {"command": "str_replace", "path": "a.py", "old_str": OLD, "new_str": NEW}),
        ("execute_bash", {"command": "echo hi", "is_input": "false", "security_risk": "LOW"}),
        ("finish", {"message": "x is 2 now.", "task_completed": "true"}),
    ],
    "copilot": [
        ("read_file", {"filePath": "a.py", "startLine": 1, "endLine": 1}),
        ("file_search", {"query": "*.py"}),
        ("replace_string_in_file", {"filePath": "a.py", "oldString": OLD, "newString": NEW,
                                    "explanation": "set x"}),
        ("create_file", {"filePath": "b.py", "content": "y\n"}),
        ("run_in_terminal", {"command": "echo hi", "explanation": "hi", "isBackground": False}),
    ],
    "opencode": [
        ("todowrite", {"todos": [{"content": "set x", "status": "pending", "id": "1"}]}),
        ("read", {"filePath": "a.py"}),
        ("list", {"path": "."}),
        ("edit", {"filePath": "a.py", "oldString": OLD, "newString": NEW, "replaceAll": False}),
    ],
    "swe-agent": [
        ("bash", {"command": "echo hi"}),
        ("patch", {"patch": UNIFIED}),
        ("submit", {}),
    ],
    "goose": [
        ("developer__text_editor", {"command": "view", "path": "a.py"}),
        ("developer__text_editor",
         {"command": "str_replace", "path": "a.py", "old_str": OLD, "new_str": NEW}),
        ("developer__shell", {"command": "echo hi"}),
    ],
    "our names, other arguments": [
        ("file_ops.read_file", {"file_path": "a.py"}),
        ("file_ops.search_text", {"query": "x", "include": "*.py"}),
        ("file_ops.edit_file",
         {"arguments": {"path": "a.py", "old_string": OLD, "new_string": NEW}}),
        ("shell.run", {"cmd": ["echo", "hi"], "timeout": 5}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize("harness", HARNESSES)
async def test_the_habits_of_another_agent_s_model_lose_no_call(
    tmp_path: Path, protocol: Protocol, harness: str
) -> None:
    """Each of its calls does what it means there, and its end is the answer."""
    folder = project(tmp_path)
    calls = HARNESSES[harness]
    replies = [asked(protocol, name, args) for name, args in calls]
    ends = calls[-1][0] in ("attempt_completion", "finish", "submit")
    end = () if ends else (done("x is 2 now."),)
    async with session(
        tmp_path, script(*replies, *end), protocol=protocol, mode="trusted", allow=("echo hi",)
    ) as s:
        ended = await s.turn("x must be 2")
        assert (ended.outcome, (folder / "a.py").read_text()) == ("done", "x = 2\n")
        assert len(s.server.of("main")) == len(replies) + len(end)
        bad = [(m.operation, m.result.text) for m in s.results() if not m.result.went_well]
        assert not bad
        assert ended.reply.endswith("x is 2 now." if calls[-1][0] != "submit" else "Next.")


async def test_only_a_command_is_joined_from_a_list_of_words(tmp_path: Path) -> None:
    folder = project(tmp_path)
    write = asked("tools", "write_file", {"path": "b.txt", "content": ["a b", "c"]})
    async with session(tmp_path, script(write, done()), protocol="tools", mode="trusted") as s:
        await s.turn("write b.txt")
        assert not s.results()[0].result.went_well
        assert not (folder / "b.txt").exists()


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize("field", ["input", "patch"])
async def test_a_patch_is_an_edit_for_each_of_its_files(
    tmp_path: Path, protocol: Protocol, field: str
) -> None:
    folder = project(tmp_path)
    replies = script(asked(protocol, "apply_patch", {field: PATCH}), done())
    async with session(tmp_path, replies, protocol=protocol, mode="trusted") as s:
        end = await s.turn("x must be 2, and add b.py")
        assert end.outcome == "done"
        assert (folder / "a.py").read_text() == "x = 2\n"
        assert (folder / "b.py").read_text() == "y = 3\n"
        again = s.server.of("main")[1].json["messages"]
        ids = [call["id"] for m in again for call in m.get("tool_calls") or ()]
        assert sorted(ids) == sorted(m["tool_call_id"] for m in again if m["role"] == "tool")


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_patch_that_does_not_say_where_is_refused_and_our_names_are_told(
    tmp_path: Path, protocol: Protocol
) -> None:
    folder = project(tmp_path)
    nowhere = "*** Begin Patch\n*** Update File: a.py\n@@\n+x = 2\n*** End Patch"
    replies = script(asked(protocol, "apply_patch", {"input": nowhere}), done())
    async with session(tmp_path, replies, protocol=protocol, mode="trusted") as s:
        await s.turn("x must be 2")
        assert (folder / "a.py").read_text() == "x = 1\n"
        assert "there is no operation “apply_patch”" in s.server.of("main")[1].text


async def test_a_hint_names_only_what_is_on_offer(tmp_path: Path) -> None:
    """Without a plan none can be revised."""
    project(tmp_path)
    replies = script(decision("Next.", action("plan_tool.revize", changes=[])), done("No."))
    async with session(tmp_path, replies) as s:
        await s.turn("change the plan")
        (hint,) = [
            m.for_model
            for m in s.state.messages
            if isinstance(m, NoticeMessage) and "revize" in m.for_model
        ]
        assert "plan_tool.propose" in hint
        assert "plan_tool.revise" not in hint


async def test_after_two_failures_in_a_row_the_app_goes_back_to_planning(tmp_path: Path) -> None:
    """Covers S4-50, S4-91, S4-113."""
    project(tmp_path)
    lost = action("file_ops.read_file", path="lost.py")
    replies = script(
        decision("First.", lost),
        decision("Second.", lost | {"args": {"path": "gone.py"}}),
        done("I found nothing."),
    )
    async with session(tmp_path, replies) as s:
        await s.turn("read lost.py")
        tails = [note_of(request) for request in s.server.of("main")]
        assert "Phase EXECUTION" in tails[1]
        assert "Phase PLANNING" in tails[2]
        assert "The last operation failed: gone.py does not exist" in tails[2]
        assert (Phase.EXECUTION, Phase.PLANNING) in [(m.old, m.new) for m in s.state.transitions]


async def test_the_reason_of_a_refusal_is_told_whole_as_long_as_the_request_lasts(
    tmp_path: Path,
) -> None:
    """Covers S4-41, S4-105."""
    project(tmp_path)
    reason = "Keep the old name, as " + "the importer of the shop in Osaka reads it too, " * 6
    write = action("file_ops.write_file", path="b.py", content="y = 1\n")
    look = action("file_ops.read_file", path="a.py")
    replies = script(decision("I write.", write), decision("Then I look.", look), done("No."))
    async with session(tmp_path, replies, mode="standard") as s:
        await s.engine.send("write b.py")
        await s.answer(GateChoice.REJECT, reason=reason)
        await s.ended()
        (entry,) = s.state.memory.decision_log
        assert reason.strip() in entry
        assert entry in note_of(s.server.of("main")[2])


async def test_the_goal_is_the_request_marked_as_such_until_the_model_states_one(
    tmp_path: Path,
) -> None:
    """Covers S4-114."""
    project(tmp_path)
    look = action("file_ops.read_file", path="a.py")
    replies = script(
        decision("I look.", look),
        decision("Again.", look, state_delta={"goal": "x is known"}),
        done("It is 1."),
    )
    async with session(tmp_path, replies) as s:
        await s.turn("What is x?\nTell me.")
        tails = [note_of(request) for request in s.server.of("main")]
        assert "\nGoal (the request, until you state one): What is x?" in tails[0]
        assert "\nGoal: x is known" in tails[2]
        assert "until you state one" not in tails[2]
