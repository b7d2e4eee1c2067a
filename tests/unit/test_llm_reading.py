"""From JSON to a decision: what is wrong becomes words for the model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.endpoint import OPERATIONS, action, decision
from support.model_words import WORDS
from support.pinned import CountingIds

from duckflow_tui.llm.codec import reading_of
from duckflow_tui.llm.decision_reading import Reading
from duckflow_tui.llm.outline import read_elements
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.decision import NextStep, PromptPattern, TurnDecision
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.prompt import Prompt
from duckflow_tui.tools.operation import default_registry


def read(data: JsonObject) -> tuple[TurnDecision, Reading]:
    reader = reading_of(Prompt(system="", operations=OPERATIONS), CountingIds())
    return reader.decision("llm_1", data), reader


def test_every_field_of_the_wire_arrives() -> None:
    """Covers S4-57."""
    made, reader = read(
        decision(
            confidence=0.8,
            task_profile="CODE_ANALYSIS",
            requirements=[{"requirement": "find the bug", "priority": 2}],
            state_delta={"goal": "find it", "constraints": ["no new files"], "decision": "read"},
            question={"text": "Which one?", "options": ["a", "b"]},
            actions=[action(intent="see it", alternatives=[{"label": "list it"}])],
        )
    )
    assert reader.problems == reader.warnings == []
    fields = made.model_dump(mode="json", exclude_none=True)
    assert fields | {"actions": [], "requirements": []} == {
        "decision_id": "llm_1", "rationale": "The file must be seen first.", "reply": made.reply,
        "goal_consistency": {"ok": True, "reason": "as asked"},
        "constraint_check": fields["constraint_check"], "confidence": 0.8,
        "task_profile": "CODE_ANALYSIS", "step": "EXECUTION", "next_step": "continue",
        "prompt_pattern": "base_main_specialized",
        "state_delta": {"goal": "find it", "constraints": ["no new files"], "decision": "read"},
        "question": {"text": "Which one?", "options": ["a", "b"]},
        "actions": [], "requirements": [],
    }  # fmt: skip
    assert made.requirements[0].priority == 2
    assert (made.actions[0].args, made.actions[0].alternatives) == ({"path": "a.py"}, ("list it",))


@pytest.mark.parametrize(
    ("text", "ok", "reason"),
    [
        ("yes: it helps", True, "it helps"),
        ("Yes", True, ""),
        ("no - it breaks a constraint", False, "it breaks a constraint"),
        ("NO", False, ""),
        ("はい：目標に合う", True, "目標に合う"),
        ("いいえ、制約に反する", False, "制約に反する"),
        ("はい。問題ありません", True, "問題ありません"),
        (True, True, ""),
        ({"ok": "no", "reason": "out of scope"}, False, "out of scope"),
        ({"ok": "yes: fine"}, True, "fine"),
        ("nothing to say", None, "nothing to say"),
        ("notably good", None, "notably good"),
        ("okay-ish", None, "okay-ish"),
        (7, None, ""),
        ({"reason": "no verdict"}, None, "no verdict"),
    ],
)
def test_a_check_may_come_as_text(text: object, ok: bool | None, reason: str) -> None:
    """Covers S4-57."""
    made, _ = read(decision(constraint_check=text))
    assert made.constraint_check.ok is ok
    assert made.constraint_check.reason == reason


@pytest.mark.parametrize("operation", ["file_ops.read_file", "file_ops.write_file"])
def test_missing_checks_are_not_stated_and_stop_nothing(operation: str) -> None:
    """Covers S4-58."""
    made, reader = read({"reply": "x", "actions": [action(operation)]})
    assert reader.problems == []
    assert made.goal_consistency.ok is None
    assert len(made.actions) == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"args": None}, "args is missing"),
        ({"args": "a.py"}, "args must be an object"),
        ({"args": ["a.py"]}, "args must be an object"),
        ({"args": '{"path": "a", "path": "b"}'}, "uplicate key"),
        ({"operation": None}, "operation is missing"),
        ({"operation": "file_ops.reed_file"}, "the closest are file_ops.read_file"),
        ({"operation": "shell.write_file"}, "file_ops.write_file"),
        ({"operation": "zzz"}, "there is no operation “zzz”"),
    ],
)
def test_a_malformed_action_is_named_and_left_out(wrong: dict[str, Any], words: str) -> None:
    """Covers S4-3, S4-58."""
    made, reader = read(decision(actions=[action(), {**action(), **wrong}]))
    assert len(made.actions) == 1
    assert len(reader.problems) == 1
    assert "action 2" in WORDS(reader.problems[0])
    assert words in WORDS(reader.problems[0])


@pytest.mark.parametrize(
    ("written", "args"),
    [
        ({"operation": "read_file"}, {"path": "a.py"}),
        ({"operation": "file_ops__read_file"}, {"path": "a.py"}),
        ({"operation": "functions.file_ops__read_file"}, {"path": "a.py"}),
        ({"operation": "fileOps.ReadFile"}, {"path": "a.py"}),
        ({"operation": "file-ops/read-file"}, {"path": "a.py"}),
        ({"args": {"name": "read_file", "arguments": '{"path": "a.py"}'}}, {"path": "a.py"}),
        ({"args": {"path": ["a.py"]}}, {"path": "a.py"}),
        ({"operation": None, "name": "read_file"}, {"path": "a.py"}),
        ({"args": None, "arguments": {"path": "b.py"}}, {"path": "b.py"}),
        ({"args": None, "path": "c.py", "last": "9"}, {"path": "c.py", "last": 9}),
        ({"args": {"path": 365, "last": "365"}}, {"path": "365", "last": 365}),
        (
            {"args": {"path": "a", "last": 7.0, "deep": "True"}},
            {"path": "a", "last": 7, "deep": True},
        ),
        ({"args": {"path": "a", "last": None}}, {"path": "a"}),
        ({"args": {"path": "a", "names": "x"}}, {"path": "a", "names": ["x"]}),
        ({"args": {"path": "a", "names": '["x", 2]'}}, {"path": "a", "names": ["x", "2"]}),
        ({"args": '{"path": "a", "last": "3",}'}, {"path": "a", "last": 3}),
        # What could mean more stays for the operation to refuse.
        ({"args": {"path": None, "last": "ten"}}, {"path": None, "last": "ten"}),
        ({"args": {"path": "a", "last": '1, "x": 2'}}, {"path": "a", "last": '1, "x": 2'}),
        ({"args": {"path": "a", "last": "NaN"}}, {"path": "a", "last": "NaN"}),
        ({"args": {"path": "a", "last": 1.5, "deep": 1}}, {"path": "a", "last": 1.5, "deep": 1}),
        ({"args": {"path": True, "file": "b"}}, {"path": True, "file": "b"}),
    ],
)
def test_a_call_that_can_mean_one_thing_only_is_taken_as_that(
    written: dict[str, Any], args: dict[str, Any]
) -> None:
    fields = {"path": {"type": "string"}, "last": {"type": "integer"}, "deep": {"type": "boolean"}}
    names = {"type": "array", "items": {"type": "string"}}
    parameters = {"type": "object", "properties": {**fields, "names": names}, "required": ["path"]}
    look = OPERATIONS[0].model_copy(update={"parameters": parameters})
    reader = reading_of(Prompt(system="", operations=(look, *OPERATIONS[1:])), CountingIds())
    made = reader.decision("llm_1", decision(actions=[{**action(), **written}]))
    assert reader.problems == []
    assert (made.actions[0].operation, made.actions[0].args) == ("file_ops.read_file", args)


def test_two_operations_of_one_last_name_are_not_guessed_at() -> None:
    twin = OPERATIONS[0].model_copy(update={"name": "mcp.disk.read_file"})
    reader = reading_of(Prompt(system="", operations=(*OPERATIONS, twin)), CountingIds())
    assert reader.decision("d", decision(actions=[action("read_file")])).actions == ()
    assert "mcp.disk.read_file" in WORDS(reader.problems[0])


@pytest.mark.parametrize("missing", [{"reasoning": ""}, {"reasoning": None}])
def test_a_call_without_a_reason_has_that_of_its_reply(missing: dict[str, Any]) -> None:
    bare = {**action(), **missing}
    made, reader = read(decision(rationale="It must be seen.", actions=bare))
    assert (made.actions[0].reasoning, reader.problems) == ("It must be seen.", [])
    made, _ = read(decision(actions=[{**bare, "intent": "see it"}]))
    assert made.actions[0].reasoning == "see it"
    made, _ = read({"actions": [bare]})
    assert made.actions[0].reasoning == ""


def test_where_the_work_is_follows_from_what_is_called_where_the_model_does_not_say_it() -> None:
    """Covers S4-57."""
    said = {k: v for k, v in decision().items() if k not in ("step", "prompt_pattern")}
    made, _ = read(
        {**said, "actions": [action("file_ops.read_file"), action("file_ops.write_file")]}
    )
    assert (made.step, made.prompt_pattern) == (
        Phase.EXECUTION,
        PromptPattern.BASE_MAIN_SPECIALIZED,
    )
    made, _ = read({**said, "actions": [action("file_ops.read_file")]})
    assert (made.step, made.prompt_pattern) == (None, PromptPattern.BASE_MAIN)
    made, _ = read({**said, "step": "review"})
    assert made.prompt_pattern is PromptPattern.BASE_MAIN_SPECIALIZED
    made, _ = read({**said, "step": "REVIEW", "prompt_pattern": "base_main"})
    assert made.prompt_pattern is PromptPattern.BASE_MAIN


def test_more_than_twenty_actions_are_a_problem_and_none_is_read() -> None:
    made, reader = read(decision(actions=[action()] * 20))
    assert len(made.actions) == 20
    assert len({one.call_id for one in made.actions}) == 20
    made, reader = read(decision(actions=[action()] * 21))
    assert made.actions == ()
    assert "at most 20" in WORDS(reader.problems[0])


def test_what_does_no_harm_is_only_a_warning() -> None:
    made, reader = read(
        decision(
            confidence=1.7,
            mood="great",
            step="DONE",
            next_step="finish",
            task_profile="SOMETHING",
            requirements=["bare text", {"priority": 1}, {"requirement": "x", "priority": "P9"}],
            state_delta={"goal": ["wrong"], "colour": "blue", "constraints": "one"},
            actions=[action(extra=1, alternatives=[{"label": str(n)} for n in range(12)])],
        )
    )
    assert reader.problems == []
    assert made.confidence == 1.0
    assert made.step is None
    assert made.next_step is NextStep.CONTINUE
    assert made.task_profile is None
    assert [claim.priority for claim in made.requirements] == [1, 3]
    assert made.state_delta.goal is None
    assert made.state_delta.constraints == ("one",)
    assert len(made.actions[0].alternatives) == 9
    text = "\n".join(reader.warnings)
    for part in ("“mood”", "step “DONE”", "“finish”", "“SOMETHING”", "“extra”"):
        assert part in text


def test_without_next_step_the_shape_of_the_reply_decides() -> None:
    made, _ = read({"reply": "Hello."})
    assert made.next_step is NextStep.DONE
    made, _ = read({"reply": "", "question": "Which file?"})
    assert made.next_step is NextStep.PENDING_USER
    assert made.question is not None
    made, _ = read({"reply": "", "actions": [action()]})
    assert made.next_step is NextStep.CONTINUE


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *decision(),
        "actions",
        "confidence",
        "question",
        "state_delta",
        "requirements",
        "task_profile",
    ]
)


@given(
    st.dictionaries(FIELDS, JSON, max_size=8),
    st.lists(
        st.dictionaries(st.sampled_from(["operation", "args", "reasoning", "alternatives"]), JSON),
        max_size=3,
    ),
)
def test_no_value_of_a_model_breaks_the_reader(data: JsonObject, actions: list[Any]) -> None:
    """Covers S4-58."""
    made, reader = read({**data, "actions": actions})
    assert len(made.actions) + len(reader.problems) >= len(actions)


def test_a_requirement_says_how_it_is_decided_and_what_cannot_be_read_is_left_to_judgement() -> (
    None
):
    checks: list[Any] = [
        {"kind": "command", "value": " pytest -q "},
        {"kind": "file_contains", "value": "a.py: def f"},
        {"kind": "judgement"},
        None,
        {"kind": "command", "value": ""},
        {"kind": "magic", "value": "x"},
        "pytest",
        ["command"],
        {"kind": ["command"], "value": 3},
    ]
    asked = [{"requirement": f"r{n}", "check": check} for n, check in enumerate(checks)]
    made, _ = read(decision(requirements=asked))
    found = [(claim.check.kind, claim.check.value) for claim in made.requirements]
    assert found[:2] == [("command", "pytest -q"), ("file_contains", "a.py: def f")]
    # What an unknown kind names is still to be looked at.
    assert [kind for kind, _ in found[2:]] == ["judgement"] * 7
    assert [value for _, value in found[2:]] == ["", "", "", "x", "pytest", "", ""]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("80%", 0.8), (" 0.7 ", 0.7), ("High", 0.9), ("low", 0.3), ("120%", 1.0), ("sure", None)],
)
def test_a_confidence_may_come_as_text(written: str, meant: float | None) -> None:
    made, reader = read(decision(confidence=written))
    assert made.confidence == meant
    assert bool(reader.warnings) == (meant is None)


def test_only_a_reply_is_forgiven_what_a_journal_is_not() -> None:
    exact = {"decision_id": "llm_1", "confidence": 0.5}
    assert TurnDecision.model_validate(exact).confidence == 0.5
    for wrong in ({"confidence": "50%"}, {"constraint_check": "yes: fine"}, {"step": "planning"}):
        with pytest.raises(ValidationError):
            TurnDecision.model_validate({**exact, **wrong})


def test_the_model_never_writes_what_is_ours() -> None:
    made, reader = read(
        decision(decision_id="mine", actions=[action(call_id="mine", wire_id="mine")])
    )
    assert made.decision_id == "llm_1"
    assert "mine" not in (made.actions[0].call_id, made.actions[0].wire_id)
    assert len(reader.warnings) == 3


FOREIGN: list[tuple[str, JsonObject, str, JsonObject]] = [
    ("Read", {"file_path": "a", "offset": 10, "limit": 5},
     "read_file", {"path": "a", "start_line": 10, "end_line": 14}),
    ("read", {"filePath": "a", "startLine": 3}, "read_file", {"path": "a", "start_line": 3}),
    ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True},
     "edit_file", {"path": "a", "edits": [{"old": "x", "new": "y", "all": True}]}),
    ("StrReplaceFile", {"path": "a", "edit": {"before": "x", "after": "y"}},
     "edit_file", {"path": "a", "edits": [{"old": "x", "new": "y"}]}),
    ("search_replace",
     {"file_path": "a", "content": "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE"},
     "edit_file", {"path": "a", "edits": [{"old": "x", "new": "y"}]}),
    ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]},
     "edit_file", {"path": "a", "edits": [{"old": "x", "new": "y"}]}),
    ("Grep", {"pattern": "x.*", "path": "src", "output_mode": "content"},
     "search_text", {"pattern": "x.*", "path": "src", "regex": True}),
    ("glob", {"pattern": "**/*.py"}, "find_files", {"glob": "**/*.py"}),
    ("str_replace_editor", {"command": "view", "path": "a", "view_range": [1, 20]},
     "read_file", {"path": "a", "start_line": 1, "end_line": 20}),
    ("str_replace_based_edit_tool", {"command": "create", "path": "a", "file_text": "x"},
     "write_file", {"path": "a", "content": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "ours", "args"), FOREIGN)
def test_a_call_in_the_words_of_another_tool_is_taken_for_ours(
    name: str, given: JsonObject, ours: str, args: JsonObject
) -> None:
    registry = default_registry()
    reader = reading_of(Prompt(system="", operations=registry.specs()), CountingIds())
    made = reader.decision("llm_1", {"reply": "x", "actions": [action(name, args=given)]})
    assert reader.problems == []
    assert [(a.operation, a.args) for a in made.actions] == [(f"file_ops.{ours}", args)]
    registry.check_arguments(made.actions[0].operation, made.actions[0].args)


@pytest.mark.parametrize(
    ("name", "given"),
    [("str_replace_editor", {"command": "insert", "path": "a", "new_str": "x"}), ("todo", {})],
)
def test_where_none_of_ours_is_meant_the_answer_names_ours(name: str, given: JsonObject) -> None:
    reader = reading_of(Prompt(system="", operations=default_registry().specs()), CountingIds())
    made = reader.decision("llm_1", {"reply": "x", "actions": [action(name, args=given)]})
    assert made.actions == ()
    assert "file_ops.edit_file" in WORDS(reader.problems[0])


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("a < b && c > d", "a < b && c > d"),
        ("a &lt; b&nbsp;c &amp;lt; d", "a < b\u00a0c &lt; d"),
        ("returns List<int> now", "returns List<int> now"),
        ("<![CDATA[if a < b: List<int>]]>", "if a < b: List<int>"),
        ("one<br>two, see <x.y@z.example>", "one<br>two, see <x.y@z.example>"),
    ],
)
def test_elements_are_read_whatever_else_stands_in_their_text(said: str, understood: str) -> None:
    text = f"So:\n<Verdict>\n<met>no</met><Why>{said}</Why>\n</Verdict> a < b </p>"
    assert read_elements(text) == {"verdict": {"met": "no", "why": understood}}


def test_elements_without_an_end_belong_to_the_one_around_them() -> None:
    text = "<?xml version='1.0'?><answer><p>a<p>b</p> c<item Level='1'/></answer>"
    read = {"text": "a c", "p": "b", "item": {"level": "1"}}
    assert read_elements(text) == {"answer": read}
    assert read_elements("<p>a <b>b") is None
    assert read_elements("List<int>, a < b") is None


def test_elements_nested_very_deeply_cost_no_answer() -> None:
    assert read_elements("<a>" * 2_000 + "x" + "</a>" * 2_000)
