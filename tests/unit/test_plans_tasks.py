"""A model's list of tasks as tasks of ours, and what a log of a step comes to."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.model_words import WORDS

from duckflow_tui.state.base import JsonObject, ToldError
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.operations import (
    Effect,
    FileChange,
    OperationResult,
    OperationSpec,
    Outcome,
    Weight,
)
from duckflow_tui.state.plan import StepReport, Task
from duckflow_tui.tools.operation import ToolFault
from duckflow_tui.tools.results import changed_files
from duckflow_tui.work.report import (
    count_outcomes,
    describe_report,
    list_works,
)
from duckflow_tui.work.task_lists import MAX_TASKS, read_tasks

READ = OperationSpec(name="f.read", summary="", parameters={}, effect=Effect.READ)
WRITE = OperationSpec(name="f.write", summary="", parameters={}, effect=Effect.WRITE)
HEAVY = READ.model_copy(update={"name": "f.heavy", "weight": Weight.HEAVY})
PLANS = READ.model_copy(update={"name": "plan_tool.get"})


class Ids:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"


def item(operation: str = "f.read", **fields: Any) -> JsonObject:
    return {"operation": operation, "args": {}, **fields}


def read(*items: JsonObject) -> tuple[Task, ...]:
    def check(operation: str, args: JsonObject) -> None:
        if operation == "f.write" and "path" not in args:
            raise ToolFault("text", text="no path.")

    return read_tasks(items, (READ, WRITE, HEAVY, PLANS), Ids(), check)


# --- lists -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([item()] * (MAX_TASKS + 1), f"has {MAX_TASKS + 1} tasks"),
        ([item("f.fly")], "Task 1: there is no operation “f.fly”"),
        ([item(), item("f.heavy")], "Task 2: f.heavy cannot stand"),
        ([item("plan_tool.get")], "Task 1: plan_tool.get cannot stand"),
        ([item("f.write")], "Task 1: no path."),
        ([item("f.fly"), item("f.write")], "Task 2: no path."),
    ],
)
def test_a_list_that_cannot_be_is_refused_with_the_reason(
    items: list[JsonObject], words: str
) -> None:
    with pytest.raises(ToldError) as refused:
        read(*items)
    assert re.search(words, WORDS(refused.value.told))


def test_the_longest_list_is_taken_and_the_first_five_problems_are_told() -> None:
    assert len(read(*[item()] * MAX_TASKS)) == MAX_TASKS
    with pytest.raises(ToldError) as refused:
        read(*[item("f.fly")] * 7)
    told = WORDS(refused.value.told)
    assert (told.startswith("Task 1"), told.count("there is no operation")) == (True, 5)


# --- what a log comes to ---------------------------------------------------------------------


def ran(operation: str, outcome: Outcome = Outcome.OK, **fields: Any) -> OperationMessage:
    result = OperationResult(outcome=outcome, text=fields.pop("text", "it says\nthis"), **fields)
    return OperationMessage(call_id="c", operation=operation, args={}, result=result, at=1.0)


def change(path: str, target: str = "") -> FileChange:
    return FileChange(path=path, kind="move" if target else "modify", target=target)


def test_a_report_counts_every_call_once() -> None:
    log = [
        ran("a"),
        ran("a", exit_code=0),
        ran("a", exit_code=2),
        ran("a", Outcome.ERROR),
        *(ran("a", outcome) for outcome in (Outcome.REJECTED, Outcome.DECLINED, Outcome.DENIED)),
        ran("a", Outcome.SKIPPED),
        ran("a", Outcome.INVALID),
    ]
    assert count_outcomes(log) == {"succeeded": 2, "failed": 2, "refused": 3, "skipped": 2}
    assert count_outcomes([]) == {"succeeded": 0, "failed": 0, "refused": 0, "skipped": 0}


@pytest.mark.parametrize(
    ("log", "some"),
    [
        ([], False),
        ([ran("f.read")], False),
        ([ran("f.write", Outcome.ERROR)], False),
        ([ran("f.write", exit_code=1)], False),
        ([ran("f.read"), ran("f.write")], True),
    ],
)
def test_to_have_read_something_is_no_part_of_the_work(
    log: list[OperationMessage], some: bool
) -> None:
    assert any(m.result.went_well for m in list_works(log, (READ, WRITE))) is some


def test_changed_files_are_named_once_where_they_are_now() -> None:
    log = [
        ran("a", changes=(change("b.py"), change("a.py"))),
        ran("a", changes=(change("b.py"), change("c.py", "d.py"))),
    ]
    assert changed_files(log) == ("b.py", "a.py", "d.py")


REPORT = StepReport(
    report_id="r",
    plan_id="p",
    step_id="step_1",
    step_name="write",
    status="failed",
    summary="half\nof it",
    cause="no\nroom",
    next_action="make\nroom",
    succeeded=1,
    failed=2,
    refused=3,
    skipped=4,
    files_changed=tuple(f"f{n}" for n in range(31)),
)


def test_the_words_of_a_report() -> None:
    lines = describe_report(REPORT, WORDS).split("\n")
    assert lines == [
        'Report on step step_1 "write": failed.',
        "1 operations went well, 2 failed, 3 were refused, 4 did not run.",
        "half of it",
        "Files changed: " + ", ".join(f"f{n}" for n in range(30)),
        "Cause: no room",
        "Suggested next: make room",
    ]
    bare = {"summary": "", "next_action": "", "files_changed": (), "status": "completed"}
    assert describe_report(REPORT.model_copy(update=bare), WORDS).count("\n") == 0
