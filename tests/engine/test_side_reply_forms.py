"""Each question beside the work is answered in the forms that models use; nearly all are used at
once. ``side_reply_forms.txt`` holds one answer for each kind, as models write it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.endpoint import bench
from support.model_words import WORDS
from support.pinned import CountingIds

from duckflow_tui.prompting.side_questions import KINDS
from duckflow_tui.prompting.side_replies import read_scores
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.operations import Effect, OperationSpec
from duckflow_tui.state.prompt import ChatMessage
from duckflow_tui.state.usage import Purpose
from duckflow_tui.tools.operation import default_registry
from duckflow_tui.work.plan_operations import UpdateStep
from duckflow_tui.work.task_lists import read_tasks

SHAPES = {kind.purpose: kind.reply for kind in KINDS}
SHELL = OperationSpec(
    name="shell.run",
    summary="",
    parameters={"properties": {"command": {"type": "string"}}, "required": ["command"]},
    effect=Effect.READ,
)
#: Forms that are asked for again.
UNREAD = {
    "requirements": {"camel case", "by priority"},
    "missing": {"headings with bullets"},  # "(priority 1)" stays in the text
    "plan": {"bare steps", "headings of steps"},
    "continuation": {"bare steps", "headings of steps"},  # the first: no strategy
    "report": {"true", "other names", "table", "status with words"},  # the rest may deny it
    "failure": {"bullets of fields"},
}


def load_forms() -> dict[str, dict[str, str]]:
    """The answers by purpose and name. A continuation is a plan whose goal is its strategy."""
    text = Path(__file__).with_name("side_reply_forms.txt").read_text(encoding="utf-8")
    forms: dict[str, dict[str, str]] = {}
    for part in text.split("=== ")[1:]:
        head, _, answer = part.partition("\n")
        purpose, _, name = head.partition(" · ")
        forms.setdefault(purpose, {})[name] = answer.rstrip("\n")
    forms["continuation"] = {
        name: re.sub("goal|objective", "strategy", re.sub("Goal|目標", "Strategy", answer))
        for name, answer in forms["plan"].items()
    }
    return forms


FORMS = load_forms()


def check_answer(purpose: str, text: str, value: Any) -> None:
    """Compare what was read of an answer with the meaning that all forms share, as far as the text
    says it. Raises AssertionError.
    """

    def names(words: str) -> bool:
        return re.search(words, text, re.I) is not None

    match purpose:
        case "requirements":
            first, second = value.requirements
            assert (first.requirement, second.requirement) == ("Add a --json flag", "Document it")
            assert not names("priorit|import|優先") or (first.priority, second.priority) == (1, 2)
            assert not names("pytest") or first.check.value == "pytest -q"
        case "missing":
            (gap,) = value.missing
            assert (gap.what, gap.priority) == ("No test covers --json", 1)
            assert not names("Python 3") or "Keep Python 3.11" in value.constraints[0]
        case "plan" | "continuation":
            first, second = value.steps
            assert (first.name, second.name) == ("Encoder", "Flag")
            assert not names("write the") or first.description == "Write the encoder"
            assert not names("depend|依存") or len(second.depends_on) == 1
            assert not names("risk|リスク") or value.risk == "low"
            goal = value.goal if purpose == "plan" else value.strategy
            assert not names("list --json") or goal == "list --json works"
        case "tasks":
            specs = (*default_registry().specs(), SHELL)
            tasks = read_tasks(value.tasks, specs, CountingIds(), lambda name, args: None)
            called = [(task.operation, task.args) for task in tasks]
            assert called == [
                ("file_ops.read_file", {"path": "cli.py"}), ("shell.run", {"command": "pytest -q"})
            ]  # fmt: skip
        case "report":
            assert (value.status, value.summary) == ("completed", "Added the flag")
            assert not names("wire") or value.next_action == "Wire it"
        case "failure":
            assert "installed" in value.cause
            assert (value.fix.removeprefix("action: "), value.retryable) == ("Install it", True)
        case _:
            assert "Read cli.py" in value.digest
            assert "chose argparse." in value.digest
            assert not re.search("[{<`]", value.digest)


@pytest.mark.parametrize("purpose", FORMS)
async def test_an_answer_in_any_usual_form_is_used_without_asking_again(purpose: Purpose) -> None:
    """All kinds but the judgement, whose forms ``test_tempers.py`` holds."""
    wrong: dict[str, str] = {}
    replies = tuple(Reply(text=text) for text in FORMS[purpose].values())
    async with bench(Script(replies={purpose: replies})) as at:
        for name, text in FORMS[purpose].items():
            asked = await at.service.ask(
                purpose, "main", [ChatMessage("user", "?")], SHAPES[purpose], llm_id="llm_1"
            )
            try:
                assert asked.value is not None, [WORDS(problem) for problem in asked.problems]
                check_answer(purpose, text, asked.value)
            except (AssertionError, ValueError, IndexError) as error:
                wrong[name] = str(error)[:300]
    assert wrong.keys() == UNREAD.get(purpose, set()), wrong


@pytest.mark.parametrize(
    ("purpose", "where", "written", "meant"),
    [
        *(("requirements", "priority", word, 1) for word in ("p1", 1.0, "critical", 0, "1 (must)")),
        *(("requirements", "priority", word, 3) for word in ("low", "nice to have", 5)),
        ("requirements", "check", "command: pytest", ("command", "pytest")),
        ("requirements", "check", {"type": "shell", "command": "pytest"}, ("command", "pytest")),
        ("requirements", "check", {"command": "pytest"}, ("command", "pytest")),
        ("requirements", "check", [{"kind": "Command", "value": ["a", "b"]}], ("command", "a b")),
        ("requirements", "check", "look at the tests", ("judgement", "look at the tests")),
        ("requirements", "check", {"file_exists": "a.py"}, ("file_exists", "a.py")),
        ("requirements", "check", {"kind": "File-Exists", "value": "a"}, ("file_exists", "a")),
        ("requirements", "check", {"kind": "file", "value": "a: b"}, ("file_contains", "a: b")),
        ("requirements", "check", {"kind": "contains", "value": "a: b"}, ("file_contains", "a: b")),
        (
            "requirements", "check", {"kind": "file_contains", "path": "a.py", "text": "def f"},
            ("file_contains", "a.py: def f"),
        ),
        ("requirements", "dropped", "r2, r3", ["r2", "r3"]),
        ("requirements", "dropped", {"r2": "not wanted"}, ["r2"]),
        ("requirements", "again", "none", []),
        ("plan", "risk", "low: nothing is lost", "low"),
        ("plan", "risk", "moderate", "medium"),
        ("plan", "risk", "who knows", None),
        ("plan", "depends_on", "none", []),
        ("report", "status", "Partially.", "partial"),
        ("report", "status", "Error", "failed"),
        ("report", "status", ["OK"], "completed"),
        ("failure", "retryable", "no", False),
        ("failure", "retryable", "yes, at once", True),
        ("failure", "fix", {"1": "allow it"}, "1: allow it"),
        ("digest", "digest", {"known": "x", "open": ["y"]}, "known: x\nopen: y"),
    ],
)  # fmt: skip
def test_a_value_is_read_in_each_way_that_models_write_it(
    purpose: str, where: str, written: Any, meant: object
) -> None:
    entry = {"requirement": "it stops", "name": "Encoder", where: written}
    answer = {
        "requirements": [entry], "steps": [entry], "status": "done", "summary": "x", "cause": "x",
        where: written,
    }  # fmt: skip
    value = SHAPES[purpose].model_validate(answer)
    entries = getattr(value, "requirements", None) or getattr(value, "steps", None) or [value]
    holder: Any = value if hasattr(value, where) else entries[0]
    found: Any = getattr(holder, where)
    assert ((found.kind, found.value) if where == "check" else found) == meant


@pytest.mark.parametrize(
    "status", ["complete failure", "done partially", "completed, but two tests fail"]
)
def test_a_status_that_says_more_than_one_word_is_not_read_by_its_first(status: str) -> None:
    with pytest.raises(ValidationError):
        SHAPES["report"].model_validate({"status": status, "summary": "x"})
    with pytest.raises(ValidationError):
        UpdateStep.model_validate({"step_id": "1", "status": status})


@pytest.mark.parametrize(
    ("word", "score"),
    [
        ("met", 1.0),
        ("**Fully met.**", 1.0),
        ("partly met", 0.5),
        ("Not met", 0.0),
        ("met only in part", None),
        ("yes, but two tests fail", None),
        ("full of bugs", None),
    ],
)
def test_a_score_in_words_counts_where_they_say_nothing_else(
    word: str, score: float | None
) -> None:
    assert read_scores(None, {"r1": word}, None, None)[1].get("r1") == score
