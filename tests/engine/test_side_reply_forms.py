"""Each question beside the work is answered in the forms that models use; all are used at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from support.endpoint import bench
from support.model_words import WORDS
from support.pinned import CountingIds

from duckflow_tui.prompting.side_questions import KINDS
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.prompt import ChatMessage
from duckflow_tui.tools.operation import default_registry
from duckflow_tui.work.task_lists import read_tasks

Data = dict[str, Any]


def in_camel_case(data: Any) -> Any:
    """The names of fields as ``suggestedImprovements``."""
    if isinstance(data, list):
        return [in_camel_case(entry) for entry in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    named: Data = {}
    for key, value in cast("Data", data).items():
        first, *rest = key.split("_")
        named["".join((first, *map(str.title, rest)))] = in_camel_case(value)
    return named


def with_comments(data: Data) -> str:
    return json.dumps(data, indent=1).replace("\n ", " // as asked\n ", 3)


#: Notations of one and the same answer, for every kind of question.
NOTATIONS: dict[str, Callable[[Data], str]] = {
    "plain": json.dumps,
    "prose": lambda data: f"Let me see {{so}} and [1].\n{json.dumps(data)}\nThat is all.",
    "fence": lambda data: f"Here it is:\n```json\n{json.dumps(data, indent=2)}\n```",
    "camel case": lambda data: json.dumps(in_camel_case(data)),
    "wrapped": lambda data: json.dumps({"answer": data}),
    "a call": lambda data: json.dumps({"name": "give_answer", "arguments": data}),
    "python": repr,
    "comments": with_comments,
    "commas": lambda data: json.dumps(data, indent=1).replace("\n}", ",\n}"),
    "no quotes": lambda data: re.sub(r'"(\w+)": ', r"\1: ", json.dumps(data)),
    "list of one": lambda data: json.dumps([data]),
    "two": lambda data: f"{json.dumps(data)}\n{json.dumps(dict.fromkeys(data))}",
    "text": lambda data: json.dumps(json.dumps(data)),
}

CLAIM: Data = {
    "requirement": "it stops",
    "priority": 1,
    "check": {"kind": "command", "value": "pytest"},
}
REQUIREMENTS: Data = {"requirements": [CLAIM], "dropped": [], "again": []}
MISSING: Data = {
    "missing": [{"what": "the reason", "priority": 2}],
    "constraints": ["no network"],
    "suggested_improvements": [],
    "alternative_strategies": ["write it anew"],
}
STEPS: list[Data] = [
    {"id": "s1", "name": "Write", "description": "Write a.py.", "depends_on": []},
    {"id": "s2", "name": "Test", "description": "Run pytest.", "depends_on": ["s1"]},
]
PLAN: Data = {
    "name": "notes", "goal": "notes are there", "steps": STEPS, "risk": "low",
    "success_criteria": ["a.py is there"],
}  # fmt: skip
CONTINUATION: Data = {**PLAN, "strategy": "by hand"}
WRITE: Data = {"operation": "file_ops.write_file", "args": {"path": "a.py", "content": "x = 1\n"}}
TASKS: Data = {"tasks": [{**WRITE, "description": "write it"}]}
REPORT: Data = {
    "status": "completed", "summary": "a.py is there.", "cause": "", "next_action": "test it",
}  # fmt: skip
FAILURE: Data = {"cause": "no access", "fix": "allow it", "retryable": True}
DIGEST: Data = {"digest": "a.py holds x."}


def claims(**fields: Any) -> Data:
    return {"requirements": [{**CLAIM, **fields}]}


def without(data: Data, *names: str) -> Data:
    return {key: value for key, value in data.items() if key not in names}


def steps(*written: Any) -> Data:
    return {**PLAN, "steps": list(written)}


def tasks(**fields: Any) -> Data:
    return {"tasks": [{**WRITE, **fields}]}


#: Forms of one kind: what is written, and fields of what is read where they differ from the row's
#: own answer.
FORMS: dict[str, tuple[Data, list[tuple[Any, Data]]]] = {
    "requirements": (
        REQUIREMENTS,
        [
            *((claims(priority=word), {}) for word in ("P1", "p1", "1", 1.0, "high", "must")),
            *((claims(priority=word), {}) for word in ("critical", "必須", 0, None, "1 (must)")),
            *((claims(priority=word), {"priority": 2}) for word in ("P2", "medium", "中")),
            *((claims(priority=word), {"priority": 3}) for word in ("low", "nice to have", 5)),
            (claims(check="command: pytest"), {}),
            (claims(check={"type": "shell", "command": "pytest"}), {}),
            (claims(check={"command": "pytest"}), {}),
            (claims(check=[CLAIM["check"]]), {}),
            (claims(check={"kind": "Command", "value": ["pytest"]}), {}),
            (claims(check="look at the tests"), {"check": ("judgement", "look at the tests")}),
            (claims(check=None), {"check": ("judgement", "")}),
            (claims(check={"file_exists": "a.py"}), {"check": ("file_exists", "a.py")}),
            (
                claims(check={"kind": "file_contains", "path": "a.py", "text": "def f"}),
                {"check": ("file_contains", "a.py: def f")},
            ),
            ({"requirements": ["it stops"]}, {"check": ("judgement", "")}),
            ({"requirements": "it stops"}, {"check": ("judgement", "")}),
            (["it stops"], {"check": ("judgement", "")}),
            ({"requirements": CLAIM}, {}),
            ({"requirements": {"r1": CLAIM}}, {}),
            ({"requirements": {"1": "it stops"}}, {"check": ("judgement", "")}),
            (CLAIM, {}),
            ([CLAIM, {**CLAIM, "requirement": "it says why"}], {"count": 2}),
            (claims(requirement=None, text="it stops"), {}),
            (claims(requirement=None, description="it stops"), {}),
            ({"items": [CLAIM]}, {}),
            ({**REQUIREMENTS, "dropped": "r2, r3"}, {"dropped": ["r2", "r3"]}),
            ({**REQUIREMENTS, "dropped": [2]}, {"dropped": ["2"]}),
            ({**REQUIREMENTS, "dropped": {"r2": "not wanted"}}, {"dropped": ["r2"]}),
            ({**REQUIREMENTS, "dropped": None, "again": "none"}, {}),
        ],
    ),
    "missing": (
        MISSING,
        [
            ({**MISSING, "missing": [{"what": "the reason", "priority": "P2"}]}, {}),
            ({**MISSING, "missing": [{"item": "the reason", "priority": "medium"}]}, {}),
            ({**MISSING, "missing": {"what": "the reason", "priority": 2}}, {}),
            ({**MISSING, "missing": ["the reason"]}, {"priority": 1}),
            ({**MISSING, "missing": "the reason"}, {"priority": 1}),
            ({**MISSING, "missing": [{"what": "the reason"}]}, {"priority": 1}),
            ({**MISSING, "missing": {"1": "the reason"}}, {"priority": 1}),
            ({**MISSING, "constraints": "no network"}, {}),
            ({**MISSING, "constraints": [{"constraint": "no network"}]}, {}),
            ({**MISSING, "constraints": None}, {"constraints": []}),
            (without(MISSING, "constraints"), {"constraints": []}),
            (without(MISSING, "suggested_improvements"), {}),
            ({**MISSING, "suggested_improvements": "none"}, {}),
            ({**MISSING, "alternative_strategies": "write it anew"}, {}),
            ({**MISSING, "alternative_strategies": [{"strategy": "write it anew"}]}, {}),
            ({**without(MISSING, "alternative_strategies"), "alternatives": ["write it anew"]}, {}),
            ({**without(MISSING, "missing"), "missing_items": MISSING["missing"]}, {}),
            (MISSING["missing"] * 2, {"constraints": [], "alternatives": [], "count": 2}),
            ({"missing": ["the reason"]}, {"priority": 1, "constraints": [], "alternatives": []}),
            ({**MISSING, "missing": [None, "", {"what": "the reason", "priority": "2"}]}, {}),
        ],
    ),
    "plan": (
        PLAN,
        [
            (without(PLAN, "name"), {"name": ""}),
            (without(PLAN, "goal"), {"goal": ""}),
            (without(PLAN, "risk", "success_criteria"), {"risk": None, "criteria": []}),
            ({**PLAN, "risk": "Low"}, {}),
            ({**PLAN, "risk": "low: nothing is lost"}, {}),
            ({**PLAN, "risk": "moderate"}, {"risk": "medium"}),
            ({**PLAN, "risk": "who knows"}, {"risk": None}),
            ({**PLAN, "risk": {"level": "low"}}, {}),
            ({**PLAN, "success_criteria": "a.py is there"}, {}),
            ({**PLAN, "success_criteria": [{"criterion": "a.py is there"}]}, {}),
            (steps({**STEPS[0], "id": 1}, {**STEPS[1], "depends_on": [1]}), {"ids": "1 s2"}),
            (steps({**STEPS[0], "id": 1.5}, STEPS[1]), {"ids": "1.5 s2"}),
            (steps(*(without(step, "id") for step in STEPS)), {"ids": " "}),
            (steps(STEPS[0], {**STEPS[1], "depends_on": "s1"}), {}),
            (steps(STEPS[0], {**STEPS[1], "dependencies": ["s1"], "depends_on": None}), {}),
            (steps({**STEPS[0], "depends_on": "none"}, STEPS[1]), {}),
            (steps({**STEPS[0], "depends_on": None}, STEPS[1]), {}),
            (steps(without(STEPS[0], "depends_on"), STEPS[1]), {}),
            (steps("Write", "Test"), {"ids": " ", "first": "Write"}),
            (steps({**without(STEPS[0], "name"), "title": "Write"}, STEPS[1]), {}),
            (steps({**without(STEPS[0], "description"), "details": "Write a.py."}, STEPS[1]), {}),
            (steps(without(STEPS[0], "description"), STEPS[1]), {"first": "Write"}),
            ({**PLAN, "steps": {"s1": STEPS[0], "s2": STEPS[1]}}, {}),
            ({**PLAN, "steps": {"1": "Write", "2": "Test"}}, {"ids": " ", "first": "Write"}),
            ({**without(PLAN, "steps"), "phases": STEPS}, {}),
            ({**without(PLAN, "steps"), "milestones": STEPS}, {}),
            (STEPS, {"name": "", "goal": "", "risk": None, "criteria": []}),
            ({"plan": PLAN}, {}),
            ({"plan": {"steps": STEPS}}, {"name": "", "goal": "", "risk": None, "criteria": []}),
        ],
    ),
    "continuation": (
        CONTINUATION,
        [
            ({**without(CONTINUATION, "strategy"), "approach": "by hand"}, {}),
            ({**CONTINUATION, "strategy": ["by hand"]}, {}),
            ({"plan": CONTINUATION}, {}),
            ({"strategy": "by hand", "plan": PLAN}, {}),
            ({"strategy": "by hand", "plan": STEPS},
             {"name": "", "goal": "", "risk": None, "criteria": []}),
            (without(CONTINUATION, "name"), {"name": ""}),
            ({**CONTINUATION, "steps": STEPS[:1]}, {"ids": "s1"}),
            ({**CONTINUATION, "steps": STEPS[0]}, {"ids": "s1"}),
            ({**CONTINUATION, "steps": ["Write", "Test"]}, {"ids": " ", "first": "Write"}),
            ({**CONTINUATION, "risk": None}, {"risk": None}),
        ],
    ),
    "tasks": (
        TASKS,
        [
            (tasks(operation="write_file"), {}),
            (tasks(operation="file_ops__write_file"), {}),
            (tasks(operation="Write"), {}),
            (tasks(args={"file_path": "a.py", "content": "x = 1\n"}), {}),
            (tasks(args=json.dumps(WRITE["args"])), {}),
            ({"tasks": [{"name": "write_file", "arguments": WRITE["args"]}]}, {}),
            ({"tasks": [{"tool": "write_file", "parameters": WRITE["args"]}]}, {}),
            ({"tasks": [{"function": {"name": "write_file", "arguments": WRITE["args"]}}]}, {}),
            ({"tasks": [{"operation": "file_ops.write_file", "path": "a.py",
                         "content": "x = 1\n"}]}, {}),
            ({"tasks": TASKS["tasks"][0]}, {}),
            ({"tasks": {"1": WRITE}}, {}),
            ({"operations": TASKS["tasks"]}, {}),
            ({"task_list": TASKS["tasks"]}, {}),
            (TASKS["tasks"], {}),
            (WRITE, {}),
            ({"tasks": [WRITE, WRITE]}, {"count": 2}),
            ({"tasks": []}, {"count": 0}),
            ([], {"count": 0}),
        ],
    ),
    "report": (
        REPORT,
        [
            *(({**REPORT, "status": word}, {})
              for word in ("Completed", "completed.", "done", "success", "complete", "OK", "完了")),
            ({**REPORT, "status": "partially completed"}, {"status": "partial"}),
            ({**REPORT, "status": "partial: one is missing"}, {"status": "partial"}),
            ({**REPORT, "status": "failure"}, {"status": "failed"}),
            ({**REPORT, "status": "Error"}, {"status": "failed"}),
            ({**REPORT, "status": ["completed"]}, {}),
            ({**REPORT, "cause": None}, {}),
            (without(REPORT, "cause"), {}),
            (without(REPORT, "next_action"), {"next": ""}),
            ({**REPORT, "next_action": ["test it"]}, {}),
            ({**without(REPORT, "next_action"), "next_steps": ["test it"]}, {}),
            ({**REPORT, "summary": ["a.py", "is there."]}, {"summary": "a.py; is there."}),
            ({"report": REPORT}, {}),
        ],
    ),
    "failure": (
        FAILURE,
        [
            *(({**FAILURE, "retryable": word}, {}) for word in ("yes", "True", 1, "yes, at once")),
            ({**FAILURE, "retryable": "no"}, {"retryable": False}),
            (without(FAILURE, "retryable"), {"retryable": False}),
            ({**FAILURE, "fix": ["allow", "retry"]}, {"fix": "allow; retry"}),
            ({**FAILURE, "fix": {"1": "allow it"}}, {"fix": "1: allow it"}),
            ({**without(FAILURE, "cause"), "root_cause": "no access"}, {}),
            ({**without(FAILURE, "fix"), "recommendation": "allow it"}, {}),
            ({"analysis": FAILURE}, {}),
        ],
    ),
    "digest": (
        DIGEST,
        [
            ({"digest": ["a.py", "holds x."]}, {"digest": "a.py\nholds x."}),
            ({"summary": "a.py holds x."}, {}),
            ({"digest": {"known": "x", "open": ["y"]}}, {"digest": "known: x\nopen: y"}),
            (["a.py", "holds x."], {"digest": "a.py\nholds x."}),
        ],
    ),
}  # fmt: skip
#: Answers that are a text alone.
TEXTS = ("a.py holds x.", "- a.py holds {x}\n- y is open", "x は a.py にあります。")


def facts_of(purpose: str, value: Any) -> Data:
    """The fields of a reply that the forms vary."""
    match purpose:
        case "requirements":
            first = value.requirements[0]
            return {
                "text": first.requirement, "priority": first.priority, "dropped": value.dropped,
                "check": (first.check.kind, first.check.value), "count": len(value.requirements),
                "again": value.again,
            }  # fmt: skip
        case "missing":
            first = value.missing[0]
            return {
                "what": first.what, "priority": first.priority, "constraints": value.constraints,
                "better": value.suggested_improvements, "count": len(value.missing),
                "alternatives": value.alternative_strategies,
            }  # fmt: skip
        case "plan" | "continuation":
            return {
                "name": value.name, "goal": value.goal, "risk": value.risk,
                "criteria": value.success_criteria, "first": value.steps[0].description,
                "ids": " ".join(step.id for step in value.steps),
                "strategy": getattr(value, "strategy", ""),
            }  # fmt: skip
        case "tasks":
            registry = default_registry()
            found = read_tasks(
                value.tasks, registry.specs(), CountingIds(), registry.check_arguments
            )
            assert all((t.operation, t.args) == tuple(WRITE.values()) for t in found)
            return {"count": len(found)}
        case "report":
            return {**value.model_dump(exclude={"next_action"}), "next": value.next_action}
        case _:
            return cast("Data", value.model_dump())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.purpose)
async def test_an_answer_in_any_usual_form_is_used_without_asking_again(kind: Any) -> None:
    """All kinds but the judgement, whose forms ``test_tempers.py`` holds."""
    purpose = kind.purpose
    if purpose == "satisfaction":
        return
    plain, varied = FORMS[purpose]
    written: list[tuple[str, Data]] = [(write(plain), {}) for write in NOTATIONS.values()]
    written += [(json.dumps(data, ensure_ascii=False), other) for data, other in varied]
    if purpose == "digest":
        written += [(text, {"digest": text}) for text in TEXTS]
    expected = facts_of(purpose, kind.reply.model_validate(plain))
    wrong: list[str] = []
    replies = tuple(Reply(text=text) for text, _ in written)
    async with bench(Script(replies={purpose: replies})) as at:
        for text, other in written:
            asked = await at.service.ask(
                purpose, "main", [ChatMessage("user", "?")], kind.reply, llm_id="llm_1"
            )
            try:
                assert asked.value is not None, [WORDS(problem) for problem in asked.problems]
                assert facts_of(purpose, asked.value) == {**expected, **other}
            except (AssertionError, ValueError, IndexError) as error:
                wrong.append(f"{text}\n  {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)
