"""Exports: a transcript for people, all records for programs; no secrets, no overwriting."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support import goals, plans
from support.consults import attempt, requirements, review, reviewed
from support.context_states import compaction
from support.conversations import assistant
from support.golden import assert_golden
from support.session_shelf import NOW, asked, called, record, replied, shelf, whole

from duckflow_tui.safety.secrets import Redactor
from duckflow_tui.session.export import (
    LARGEST,
    export_lines,
    read_export,
    render_markdown,
    write_file,
)
from duckflow_tui.session.facts import SessionFacts, make_facts
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import session_path
from duckflow_tui.session.reader import MAX_SEQ
from duckflow_tui.session.resume import apply_all, open_to_read
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.gates import GateAnswer, GateChoice, Remark
from duckflow_tui.state.goal import ObjectiveChanged, RequirementItem, TaskObjective
from duckflow_tui.state.memory import CompactionMessage
from duckflow_tui.state.operations import FileChange, OperationResult, Outcome
from duckflow_tui.state.plan import PlanStatus, ReportMessage
from duckflow_tui.state.plan_events import PlanProposed
from duckflow_tui.words.catalogue import Catalogue

SECRET: Final = "hunter2-of-the-shop"
KEY: Final = "sk-" + "a1B2c3D4e5F6g7H8i9J0"
WORKSPACE: Final = "/work/little-shop"


def redact() -> Redactor:
    return Redactor([SECRET])


def as_markdown(path: Path, language: str = "en") -> str:
    say = Catalogue(language)
    return "\n".join(export_lines(path, "markdown", say, redact().redact_text))


def as_json(path: Path) -> str:
    return "\n".join(export_lines(path, "json", Catalogue("en"), redact().redact_text))


def test_the_transcript_says_what_was_asked_done_planned_and_paid(tmp_path: Path) -> None:
    state = goals.at_work(objective=True).state
    plan = plans.running().model_copy(update={"status": PlanStatus.DRAFT})
    events = [
        PlanProposed(plan=plan),
        *whole("Mend the total", "It is mended.", NOW),
        ObjectiveChanged(objective=state.objective),
    ]
    text = as_markdown(record(tmp_path, "session_00000001", events))
    assert text.startswith("# discounts\n")  # its plan
    for said in (
        "calls 1 · tokens 9,310 · $0.03",
        "- ✓ P1 10 % and 10 % make 19 % — met",
        "✓ `pytest -q tests/test_pricing.py` · exit 0 · 12 passed in 1.91s",
        "- – P2 The receipt is mended too — dropped · another day",
        "> Mend the total",
        "It is mended.",
        "- read · `src/shop/pricing.py` · done · 38 lines",
        "def total(lines):",
        "## Plan: discounts (1/3)",
    ):
        assert said in text, said


def test_a_request_that_was_left_is_told_with_its_open_requirements(tmp_path: Path) -> None:
    path = record(tmp_path, "session_00000001", [asked("x", NOW), replied("y", NOW)])
    found = open_to_read(path)
    item = RequirementItem(requirement_id="r1", requirement="say why")
    left = TaskObjective(
        objective_id="obj_1",
        original_query="write the notes",
        created_at=NOW,
        extracted_requirements=(item,),
        left="stopped",
    )
    found.state.earlier = (left,)
    text = render_markdown(found.state, make_facts("session_00000001", found), Catalogue("en"), str)
    assert "## Earlier request, not finished: write the notes\n\n- ○ P1 say why — open" in text


def test_what_a_report_only_repeats_is_said_once() -> None:
    said = "All three tests pass."
    state = AgentState()
    report = ReportMessage(message_id="m", report=plans.report(summary=said), at=NOW)
    state.messages = [assistant(f"{said} The cap is gone."), report]
    text = render_markdown(state, SessionFacts(session_id="s"), Catalogue("en"), str)
    assert (text.count(said), "**✓ Reproduce the wrong total**\n" in text) == (1, True)


def rich_state() -> AgentState:
    """A conversation with every kind of message, two plans, requirements and changed files."""
    state = plans.working().state
    failed = plans.over(PlanStatus.FAILED).state
    noted = failed.plans[0].with_step(
        failed.plans[0].steps[1].model_copy(update={"note": "the\nfixture resets it"})
    )
    state.plans = (*state.plans, noted.model_copy(update={"plan_id": "plan_2"}))
    state.objective = TaskObjective(
        objective_id="obj_1",
        original_query="mend it",
        created_at=NOW,
        extracted_requirements=requirements(),
    )
    state.messages += [*failed.messages[-1:], reviewed(review()), attempt()]
    state.messages += [
        assistant("It broke off", 5).model_copy(update={"complete": False}),
        ReportMessage(
            message_id="m9",
            report=plans.failed_report().model_copy(
                update={"told": LocalizedText(key="work.cause.stopped"), "cause": "never said"}
            ),
            at=NOW,
        ),
        NoticeMessage(message_id="n1", key="pace.grown", params={"old": "3", "new": "8"}, at=NOW),
        CompactionMessage(message_id="c1", compaction=compaction(), at=NOW),
    ]
    for number, (path, target, kind) in enumerate(
        [("a.py", "", "modify"), ("b.py", "c.py", "move"), ("d`.py", "", "create")]
    ):
        change = FileChange(path=path, target=target, kind=kind, added=number, removed=2)
        result = OperationResult(
            outcome=Outcome.OK, text="x", changes=(change,), exit_code=number or None
        )
        answer = GateAnswer(
            gate_id="g",
            call_id=f"w{number}",
            args_hash="h",
            choice=GateChoice.ONCE,
            reason="go\non",
            remarks=(Remark(path="a.py", number=3, old=True, line="x = 1", said="keep\nit"),),
        )
        state.messages.append(
            OperationMessage(
                call_id=f"w{number}",
                operation="file_ops.edit_file",
                args={"path": path, "command": "not named"},
                result=result,
                answer=answer if number else None,
                at=NOW,
            )
        )
    state.undone_calls = ("w1",)
    last = state.messages.pop()
    assert isinstance(last, OperationMessage)
    state.left_behind = (last,)
    return state


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_utc")
def test_a_transcript_as_a_whole() -> None:
    facts = SessionFacts(
        session_id="session_00000001",
        forked_from="session_00000000",
        workspace=WORKSPACE,
        name="Two\ndiscounts",
        branch="main",
        model="scripted",
        state="done",
        calls=7,
        cost=0.01234,
        tokens=12345,
        started_at=NOW,
        last_at=NOW + 3600,
        missing=2,
    )
    text = render_markdown(rich_state(), facts, Catalogue("en"), str)
    assert_golden("export_en", text.rstrip("\n"))
    bare = SessionFacts(session_id="session_00000001")
    assert_golden(
        "export_en_bare", render_markdown(AgentState(), bare, Catalogue("en"), str).rstrip("\n")
    )


def test_a_long_result_is_cut_in_the_transcript_and_whole_in_the_records(tmp_path: Path) -> None:
    result = "\n".join(f"line {n}" for n in range(500))
    path = record(tmp_path, "session_00000001", [asked("x", NOW), *called("c", "a", result, NOW)])
    text = as_markdown(path)
    assert "line 3\n" in text
    assert "line 499" in text
    assert "line 250" not in text
    assert "460 more" in text
    assert "line 250" in as_json(path)


def test_a_result_cannot_end_its_own_fence(tmp_path: Path) -> None:
    result = "a\n```\n# not a heading\n````\nb"
    path = record(tmp_path, "session_00000001", [*called("c", "a", result, NOW)])
    assert f"`````text\n{result}\n`````" in as_markdown(path)


@pytest.mark.parametrize("kind", ["markdown", "json"])
def test_no_secret_and_no_control_character_leaves(tmp_path: Path, kind: str) -> None:
    """Promise 7: also one that the journal, written without a redactor, holds."""
    bad = f"key {KEY} and {SECRET} \x1b]52;c;aGk=\x07"
    events = [asked(bad, NOW), *called("c", SECRET, bad, NOW), replied(bad, NOW)]
    path = record(tmp_path, "session_00000001", events, branch=KEY)
    assert SECRET in (path / "journal-1.d1").read_text()
    text = as_markdown(path) if kind == "markdown" else as_json(path)
    assert SECRET not in text
    assert KEY not in text
    assert "[redacted]" in text
    assert not any(ord(char) < 0x20 and char != "\n" for char in text)


def test_a_secret_that_is_also_a_word_of_ours_leaves_the_records_readable(tmp_path: Path) -> None:
    path = record(tmp_path, "session_00000001", whole("what is done", "it is done", NOW))

    def done_is_secret(text: str) -> str:
        return text.replace("done", "[a secret]")

    target = tmp_path / "x.json"
    write_file(target, export_lines(path, "json", Catalogue("en"), done_is_secret))
    read = read_export(target)
    assert apply_all(AgentState(), read.entries) == 0
    events = [entry.fields for entry in read.entries]
    assert events[1]["message"]["text"] == "what is [a secret]"
    assert (events[-1]["outcome"], events[-1]["reply"]) == ("done", "it is [a secret]")


def test_the_records_bring_back_the_same_state(tmp_path: Path) -> None:
    shelf(tmp_path, "ja")
    path = session_path(tmp_path, WORKSPACE, "session_00000001")
    target = tmp_path / "out.json"
    write_file(target, export_lines(path, "json", Catalogue("en"), redact().redact_text))
    assert target.read_bytes().isascii()
    read = read_export(target)
    assert read.header is not None
    assert (read.lost_count, read.unread) == (0, [])
    state = AgentState()
    apply_all(state, read.entries)
    assert vars(state) == vars(open_to_read(path).state)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", "empty"),
        ("not json", "foreign"),
        ("[1, 2]", "foreign"),
        ('{"records": []}', "foreign"),
        ('{"duckflow_session": 1, "schema_version": 1, "records": 7}', "foreign"),
        ('{"duckflow_session": 2, "schema_version": 1, "records": []}', "newer"),
        ('{"duckflow_session": 1, "schema_version": 2, "records": []}', "newer"),
        (None, "missing"),
    ],
)
def test_what_is_no_export_is_refused(tmp_path: Path, content: str | None, code: str) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SessionFault) as raised:
        read_export(path)
    assert raised.value.code == code


def test_a_record_that_is_none_does_not_cost_the_others(tmp_path: Path) -> None:
    path = record(tmp_path, "session_00000001", whole("a", "b", NOW))
    value = json.loads(as_json(path))
    value["records"][2]["event"] = None
    target = tmp_path / "x.json"
    target.write_text(json.dumps(value))
    read = read_export(target)
    assert len(read.entries) + 1 == len(value["records"])


def test_a_file_is_its_owners_and_is_not_replaced_unasked(tmp_path: Path) -> None:
    target = tmp_path / "a.md"
    old = os.umask(0)
    try:
        write_file(target, ["one", "二"])
    finally:
        os.umask(old)
    assert target.read_text(encoding="utf-8") == "one\n二\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    made: list[str] = []
    with pytest.raises(FileExistsError):
        write_file(target, (made.append(line) or line for line in ["two"]))
    assert made == []  # nothing is read for it
    assert target.read_text(encoding="utf-8") == "one\n二\n"
    write_file(target, ["two"], replace=True)
    assert target.read_text() == "two\n"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    link = tmp_path / "a.md"
    link.symlink_to(precious)
    with pytest.raises(FileExistsError):
        write_file(link, ["x"])
    write_file(link, ["x"], replace=True)
    assert precious.read_text() == "mine"


def test_an_export_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    shelf(tmp_path / "state")
    broken = session_path(tmp_path / "state", WORKSPACE, "session_00000009")
    target = tmp_path / "a.md"
    with pytest.raises(SessionFault, match=r": foreign$"):
        write_file(target, export_lines(broken, "markdown", Catalogue("en"), str))
    assert not target.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_pipe_or_a_folder_is_no_place_for_an_export(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for target, words in ((pipe, "not supported"), (folder, "Is a directory")):
        before = target.lstat().st_ino
        with pytest.raises(OSError, match=words):
            write_file(target, ["x"], replace=True)
        assert target.lstat().st_ino == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_what_is_no_file_or_too_large_is_not_read(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with pytest.raises(SessionFault, match=r": foreign$"):
        read_export(pipe)
    with large.open("wb") as file:
        file.truncate(LARGEST + 1)
    for path, code in ((large, "foreign"), (tmp_path, "io_error")):
        with pytest.raises(SessionFault, match=rf": {code}$"):
            read_export(path)


def test_records_count_once_in_their_order_and_none_beyond_what_can_follow(tmp_path: Path) -> None:
    path = record(tmp_path, "session_00000001", whole("a", "b", NOW))
    value = json.loads(as_json(path))
    records = value["records"]
    last = records[-1]["seq"]
    before = {**records[1], "event": {**records[1]["event"], "kind": "no such"}}
    beyond = {**records[-1], "seq": MAX_SEQ + 1}
    value["records"] = [*records, records[-1], before, beyond]
    target = tmp_path / "x.json"
    target.write_text(json.dumps(value))
    read = read_export(target)
    assert [entry.seq for entry in read.entries] == [r["seq"] for r in records]
    assert read.last_seq == last
    assert [(u.segment, u.reason, u.seq) for u in read.unread] == [(0, "no_event", None)]
    value["records"] = [{**records[-1], "seq": MAX_SEQ}]
    target.write_text(json.dumps(value))
    read = read_export(target)
    assert (read.last_seq, len(read.entries), read.unread) == (MAX_SEQ, 1, [])
