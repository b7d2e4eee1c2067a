"""A model's list of tasks as tasks of ours, their links, and what a log of a step comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.state.base import JsonObject
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
from duckflow_tui.tools.plan_operations import ListedTask
from duckflow_tui.tools.results import changed_files
from duckflow_tui.work.report import (
    count_outcomes,
    describe_report,
    has_done_some,
    is_independent,
    result_line,
)
from duckflow_tui.work.task_lists import (
    MAX_TASKS,
    LinkFault,
    find_linked_tasks,
    make_call,
    read_tasks,
    resolve_links,
)
from tests.support.model_words import WORDS

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


def item(operation: str = "f.read", **fields: Any) -> ListedTask:
    return ListedTask.model_validate({"operation": operation, **fields})


def read(*items: ListedTask) -> tuple[Task, ...]:
    def check(operation: str, args: JsonObject) -> None:
        if operation == "f.write" and "path" not in args:
            raise ToolFault("text", text="no path.")

    return read_tasks(items, (READ, WRITE, HEAVY, PLANS), Ids(), check, WORDS)


def link(task: str, field: str = "") -> dict[str, str]:
    return {"from_task": task, "field": field}


# --- lists -----------------------------------------------------------------------------------


def test_tasks_get_ids_of_ours_and_keep_what_they_need() -> None:
    one, two, three = read(
        item(id="found", description="look"),
        item("f.write", args={"path": link("found"), "deep": {"x": [link("1", "a"), 5]}}),
        item(depends_on=["t1", "task_2", "2", "found"]),
    )
    assert (one.task_id, one.operation, one.description) == ("task_1", "f.read", "look")
    assert one.depends_on == ()
    assert two.args == {"path": link("task_1"), "deep": {"x": [link("task_1", "a"), 5]}}
    assert two.depends_on == ("task_1",)
    assert three.depends_on == ("task_1", "task_2")


def test_a_name_means_the_first_task_that_has_it() -> None:
    *_, last = read(item(id="2"), item(id="2"), item(depends_on=["2"]))
    assert last.depends_on == ("task_1",)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([item()] * (MAX_TASKS + 1), f"has {MAX_TASKS + 1} tasks"),
        ([item("f.fly")], "Task 1: there is no operation 'f.fly'"),
        ([item(), item("f.heavy")], "Task 2: f.heavy cannot stand"),
        ([item("plan_tool.get")], "Task 1: plan_tool.get cannot stand"),
        ([item(depends_on=["1"])], "Task 1 refers to '1'"),
        ([item(args={"path": link("later")})], "Task 1 refers to 'later'"),
        ([item("f.write")], "Task 1: no path."),
        ([item("f.fly"), item("f.write")], "Task 2: no path."),
    ],
)
def test_a_list_that_cannot_be_is_refused_with_the_reason(
    items: list[ListedTask], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        read(*items)


def test_the_longest_list_is_taken_and_the_first_five_problems_are_told() -> None:
    assert len(read(*[item()] * MAX_TASKS)) == MAX_TASKS
    with pytest.raises(ValueError, match="Task 1") as refused:
        read(*[item("f.fly")] * 7)
    assert str(refused.value).count("there is no operation") == 5


def test_arguments_with_a_link_are_checked_when_it_is_filled_in() -> None:
    (_, linked) = read(item(), item("f.write", args={"text": link("1")}))
    assert linked.operation == "f.write"


def test_a_call_has_the_words_of_its_task_or_of_the_step() -> None:
    task = Task(task_id="t", operation="f.read", args={"path": link("a")}, description="look")
    call = make_call(task, {"a": "x.py"}, Ids(), "the step")
    assert (call.call_id, call.operation, call.args) == ("call_1", "f.read", {"path": "x.py"})
    assert (call.reasoning, call.intent) == ("look", "look")
    plain = make_call(task.model_copy(update={"description": ""}), {"a": ""}, Ids(), "the step")
    assert (plain.reasoning, plain.intent) == ("the step", "the step")


# --- links -----------------------------------------------------------------------------------

RESULT = json.dumps({"a": {"b": [10, {"c": "deep"}]}, "0": "zero", "none": None})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("", RESULT),
        ("a.b.0", 10),
        ("a.b.1.c", "deep"),
        ("0", "zero"),
        ("none", None),
        ("a.b", [10, {"c": "deep"}]),
        ("a.b." + "0" * 9, 10),
    ],
)
def test_a_link_is_the_value_of_its_field(field: str, value: object) -> None:
    args = {"x": link("t", field), "y": [link("t", field)], "z": {"in": link("t", field)}, "n": 1}
    filled = resolve_links(args, {"t": RESULT})
    assert filled == {"x": value, "y": [value], "z": {"in": value}, "n": 1}


@pytest.mark.parametrize(
    ("task", "field", "words"),
    [
        ("other", "", "Task 'other' has no result"),
        ("t", "b", "no field 'b'"),
        ("t", "a.b.2", "no field 'a.b.2'"),
        ("t", "a.b.x", "no field"),
        ("t", "a.b.-1", "no field"),
        ("t", "a.b.²", "no field"),
        ("t", "a.b." + "0" * 10, "no field"),
        ("t", "none.x", "no field"),
        ("text", "a", "is no JSON"),
    ],
)
def test_a_link_that_leads_nowhere_is_said(task: str, field: str, words: str) -> None:
    with pytest.raises(LinkFault) as fault:
        resolve_links({"x": link(task, field)}, {"t": RESULT, "text": "plain"})
    assert words in WORDS(fault.value.name, **fault.value.values)


def test_only_exactly_a_link_is_one() -> None:
    assert find_linked_tasks({"x": [link("a"), {"y": {"from_task": "b"}}]}) == {"a", "b"}
    no_link = {"from_task": "a", "field": "", "more": 1}
    assert find_linked_tasks(no_link) == set()
    assert find_linked_tasks({"field": "a"}) == set()
    assert resolve_links({"x": no_link}, {}) == {"x": no_link}


@given(
    st.recursive(
        st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.text().filter(lambda key: key != "from_task"), inner)
        ),
        max_leaves=8,
    )
)
def test_what_holds_no_link_stays_as_it_is(value: object) -> None:
    assert find_linked_tasks(value) == set()
    assert resolve_links({"x": value}, {}) == {"x": value}


@pytest.mark.parametrize(
    ("second", "independent"),
    [({}, True), ({"depends_on": ("t1",)}, False), ({"args": {"x": link("t1")}}, False)],
)
def test_tasks_that_need_nothing_of_each_other(second: dict[str, Any], independent: bool) -> None:
    first, other = Task(task_id="t1", operation="x"), Task(task_id="t2", operation="x", **second)
    assert is_independent((first, other)) is independent


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
    assert has_done_some(log, (READ, WRITE)) is some


def test_changed_files_are_named_once_where_they_are_now() -> None:
    log = [
        ran("a", changes=(change("b.py"), change("a.py"))),
        ran("a", changes=(change("b.py"), change("c.py", "d.py"))),
    ]
    assert changed_files(log) == ("b.py", "a.py", "d.py")


def test_a_result_is_one_line_with_what_it_was_where_it_was_not_well() -> None:
    assert result_line(ran("a")) == "it says this"
    assert result_line(ran("a", Outcome.ERROR)) == "error: it says this"
    assert result_line(ran("a", text="x" * 300)) == "x" * 199 + "…"


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
