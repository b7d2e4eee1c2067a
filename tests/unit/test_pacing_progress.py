"""What is progress, what is a repeat, and when work stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.goal import RequirementItem, RequirementState, TaskObjective
from duckflow_tui.state.operations import Effect, FileChange, OperationResult, Outcome
from duckflow_tui.state.pace import Pattern, Reason
from duckflow_tui.state.plan import Plan, Step, WorkStatus
from duckflow_tui.work.progress import LoopSigns, ProgressWatch, read_place
from duckflow_tui.work.situations import Signals, describe_situation, list_achieved, list_tried

READS = ("file_ops.read_file", "file_ops.search_text", "file_ops.list_dir")
REFUSALS = (
    Outcome.REJECTED,
    Outcome.DECLINED,
    Outcome.DENIED,
    Outcome.SKIPPED,
    Outcome.STOPPED,
)


def effect_of(operation: str) -> Effect | None:
    if operation.startswith("plan_tool."):
        return Effect.STATE
    return Effect.READ if operation in READS else None


class Work:
    """Calls with running ids, one loop after the other."""

    def __init__(self) -> None:
        self.watch = ProgressWatch(effect_of)
        self.log: list[OperationMessage] = []

    def loop(self, *calls: OperationMessage, steps_done: int = 0) -> LoopSigns:
        numbered = [
            call.model_copy(update={"call_id": f"call_{len(self.log) + n}"})
            for n, call in enumerate(calls)
        ]
        self.log += numbered
        return self.watch.judge_loop(numbered, steps_done=steps_done)


def call(
    operation: str,
    text: str = "",
    outcome: Outcome = Outcome.OK,
    *,
    changes: tuple[FileChange, ...] = (),
    exit_code: int | None = None,
    **args: Any,
) -> OperationMessage:
    result = OperationResult(outcome=outcome, text=text, changes=changes, exit_code=exit_code)
    return OperationMessage(call_id="", operation=operation, args=args, result=result, at=0.0)


def read(path: str, *lines: str, start_line: int = 1) -> OperationMessage:
    text = "\n".join((f"[{path}: lines]", *lines))
    return call("file_ops.read_file", text, path=path, start_line=start_line)


def edit(path: str, before: str, after: str) -> OperationMessage:
    """A change of the file's content from ``before`` to ``after``."""
    change = FileChange(path=path, kind="modify", before=before, after=after, added=1, removed=1)
    return call("file_ops.edit_file", "done", changes=(change,), path=path, old=before, new=after)


def run(command: str, exit_code: int, text: str = "") -> OperationMessage:
    return call("shell.run", text, exit_code=exit_code, command=command)


def kinds(signs: LoopSigns) -> list[str]:
    return [progress.kind.value for progress in signs.progress]


def test_a_new_file_is_progress_and_the_same_again_is_a_repeat() -> None:
    work = Work()
    assert kinds(work.loop(read("a.py", "x = 1"))) == ["read"]
    again = work.loop(read("a.py", "x = 1"))
    assert again.progress == ()
    assert again.repeat is not None
    assert (again.repeat.operation, again.repeat.what, again.repeat.times) == (
        "file_ops.read_file",
        "a.py",
        2,
    )
    assert again.repeat.refs == ("call_1",)


def test_a_range_counts_only_with_lines_not_seen_before() -> None:
    work = Work()
    work.loop(read("a.py", "one", "two", "three", "four"))
    smaller = work.loop(read("a.py", "two", "three", start_line=2))
    assert (smaller.progress, smaller.repeat is not None) == ((), True)
    further = work.loop(read("a.py", "four", "five", start_line=4))
    assert kinds(further) == ["read"]
    assert kinds(work.loop(read("b.py", "one"))) == ["read"]  # of another file


def test_a_search_that_finds_nothing_new_is_neither() -> None:
    work = Work()
    first = call("file_ops.search_text", "[1 match]\na.py\n  1: x", pattern="x")
    other = call("file_ops.search_text", "[1 match]\na.py\n  1: x", pattern="x =")
    assert kinds(work.loop(first)) == ["read"]
    signs = work.loop(other)
    assert (signs.progress, signs.repeat) == ((), None)
    assert work.loop(other).repeat is not None


def test_reading_what_was_just_changed_is_no_repeat() -> None:
    work = Work()
    work.loop(read("a.py", "one", "two"))
    work.loop(edit("a.py", "A", "B"))
    signs = work.loop(read("a.py", "one"))
    assert (signs.progress, signs.repeat) == ((), None)
    assert work.loop(read("a.py", "one")).repeat is not None


def test_a_change_to_new_content_is_progress_and_back_to_old_content_is_a_repeat() -> None:
    work = Work()
    assert kinds(work.loop(edit("a.py", "A", "B"))) == ["diff"]
    back = work.loop(edit("a.py", "B", "A"))
    assert (back.progress, back.repeat is not None) == ((), True)
    assert kinds(work.loop(edit("a.py", "A", "C"))) == ["diff"]


def test_a_check_is_progress_when_it_turns_green() -> None:
    work = Work()
    first = work.loop(run("pytest -q", 1))
    assert (first.progress, first.outcomes) == ((), ())  # red is information
    assert kinds(work.loop(edit("a.py", "A", "B"))) == ["diff"]
    green = work.loop(run("pytest -q", 0))
    assert (kinds(green), green.outcomes) == (["check"], (True,))


def test_a_check_that_was_green_and_is_red_went_badly() -> None:
    work = Work()
    assert work.loop(run("pytest -q", 0)).outcomes == (True,)
    work.loop(edit("a.py", "A", "B"))
    assert work.loop(run("pytest -q", 1)).outcomes == (False,)


def test_a_done_step_is_progress() -> None:
    work = Work()
    work.loop(read("a.py", "x"), steps_done=1)
    done = work.loop(call("plan_tool.update_step", "ok", step_id="s1"), steps_done=2)
    assert kinds(done) == ["step"]


def test_the_same_action_for_the_fourth_time_stands_still() -> None:
    """Covers S0-39."""
    work = Work()
    signs = [work.loop(read("a.py", "x")) for _ in range(4)]
    assert [s.stuck for s in signs[:3]] == [None, None, None]
    stuck = signs[3].stuck
    assert stuck is not None
    assert (stuck.code, stuck.params) == (
        "same_action",
        {"operation": "file_ops.read_file", "what": "a.py", "times": "4"},
    )


def test_progress_between_makes_the_count_begin_again() -> None:
    work = Work()
    for number in range(12):
        assert work.loop(run("pytest -q", 1, "1 failed")).stuck is None
        assert work.loop(edit("a.py", f"v{number}", f"v{number + 1}")).stuck is None


def test_thirty_different_files_never_stand_still() -> None:
    work = Work()
    for number in range(30):
        signs = work.loop(read(f"f{number}.py"))  # all of them empty
        assert (kinds(signs), signs.stuck, signs.repeat) == (["read"], None, None)


def test_the_same_result_for_the_fourth_time_stands_still_whatever_was_asked() -> None:
    work = Work()
    texts = [
        work.loop(call("file_ops.edit_file", "old text not found", Outcome.ERROR, path="a", n=n))
        for n in range(4)
    ]
    assert texts[2].stuck is None
    assert texts[3].stuck is not None
    assert texts[3].stuck.code == "same_result"
    assert texts[3].outcomes == (False,)
    # Of what only went well and reads nothing, the words say nothing.
    others = [work.loop(call("plan_tool.update_step", "ok", step_id=f"s{n}")) for n in range(6)]
    assert [s.stuck for s in others] == [None] * 6


@pytest.mark.parametrize("checks", [False, True])
def test_flipping_between_two_contents_is_caught_at_the_fourth_change(checks: bool) -> None:
    """With tests between that turn green and red by turns, too."""
    work = Work()
    states = ["A", "B"]
    stuck: list[str | None] = []
    for number in range(4):
        before, after = states[number % 2], states[(number + 1) % 2]
        calls = [edit("a.py", before, after)]
        if checks:
            calls += [run("pytest t1", number % 2), run("pytest t2", 1 - number % 2)]
        signs = work.loop(*calls)
        stuck.append(signs.stuck.code if signs.stuck else None)
    assert stuck == [None, None, None, "back_and_forth"]


@pytest.mark.parametrize("new", [False, True])
def test_a_read_beside_each_flip_does_not_hide_the_flipping(new: bool) -> None:
    """With a file read under another spelling each time, and with new files."""
    work = Work()
    stuck: list[str | None] = []
    for number in range(4):
        before, after = "AB"[number % 2], "BA"[number % 2]
        other = read(f"f{number}.py", "x") if new else read("./" * number + "b.py", "x")
        signs = work.loop(edit("a.py", before, after), other)
        stuck.append(signs.stuck.code if signs.stuck else None)
    assert stuck == [None, None, None, "back_and_forth"]


def test_a_flip_beside_work_on_another_file_is_no_standstill() -> None:
    """A switch for more words in a log is turned on and off while something is mended."""
    work = Work()
    for number in range(8):
        flip = edit("a.py", "AB"[number % 2], "BA"[number % 2])
        signs = work.loop(flip, edit("b.py", f"v{number}", f"v{number + 1}"))
        assert signs.stuck is None


SPELLINGS = (
    "a/b.py",
    "./a/b.py",
    "a//b.py",
    "a/./b.py",
    " a/b.py",
    "a/c/../b.py",
    "a/b.py/",
    "/w/a/b.py",
)


def test_a_file_read_under_another_spelling_is_the_same_file() -> None:
    work = Work()
    signs: list[LoopSigns] = []
    for spelling in SPELLINGS:
        text = "[a/b.py: lines 1-1 of 1]\none"  # the place where it was found
        signs.append(work.loop(call("file_ops.read_file", text, path=spelling)))
    assert [kinds(s) for s in signs] == [["read"], *([[]] * 7)]
    assert [s.repeat is not None for s in signs[1:]] == [True] * 7
    assert [s.stuck.code if s.stuck else None for s in signs[:4]] == [None] * 3 + ["same_action"]


def detour(n: int) -> OperationMessage:
    return call("file_ops.read_file", f"no such file {n}", Outcome.ERROR, path="./" * n + "a")


def blanks_between(n: int) -> OperationMessage:
    return run("pytest" + " " * n + " -q", 1, f"failed after {n} s")


def blanks_around(n: int) -> OperationMessage:
    return run(" " * n + "pytest -q\n", 0, f"passed after {n} s")


def blanks_at_ends(n: int) -> OperationMessage:
    return call("plan_tool.note", f"{n}", note="x" + " " * n + "\ny" + "\n" * n)


@pytest.mark.parametrize("spelled", [detour, blanks_between, blanks_around, blanks_at_ends])
def test_blanks_and_detours_make_no_other_action(
    spelled: Callable[[int], OperationMessage],
) -> None:
    work = Work()
    stuck = [work.loop(spelled(number)).stuck for number in range(4)]
    assert stuck[:3] == [None] * 3
    assert stuck[3] is not None
    assert stuck[3].code == "same_action"


@pytest.mark.parametrize("outcome", REFUSALS)
def test_what_the_user_refuses_counts_nowhere(outcome: Outcome) -> None:
    """R20."""
    work = Work()
    refused = call("file_ops.write_file", "no", outcome, path="a.py", content="x")
    for _ in range(6):
        signs = work.loop(refused)
        assert signs == LoopSigns()
    assert list_tried(work.log) == ()


def test_after_a_word_of_the_user_the_count_begins_again() -> None:
    work = Work()
    assert [work.loop(read("a.py", "x")) for _ in range(4)][-1].stuck is not None
    work.watch.forgive_repeats()
    assert [work.loop(read("a.py", "x")).stuck for _ in range(3)] == [None] * 3
    assert work.loop(read("a.py", "x")).stuck is not None


def test_after_a_word_of_the_user_changes_back_and_forth_count_anew() -> None:
    work = Work()

    def flips(count: int) -> list[bool]:
        """Whether it is stuck behind each of so many changes."""
        changes = [("AB", "BA")[len(work.log) + n & 1] for n in range(count)]
        return [work.loop(edit("a.py", *change)).stuck is not None for change in changes]

    assert flips(3) == [False] * 3  # the first is new, the others lead back
    work.watch.forgive_repeats()
    assert flips(3) == [False, False, True]


@pytest.mark.parametrize("word", [ProgressWatch.forgive_repeats, ProgressWatch.clear_fruitless])
def test_after_a_word_of_the_user_different_calls_that_bring_nothing_count_anew(
    word: Callable[[ProgressWatch], None],
) -> None:
    work = Work()

    def until_stuck(first: int) -> int:
        """How many calls, each for another file that is not there, it takes."""
        for number in range(20):
            path = f"{first + number}.py"
            gone = call("file_ops.read_file", f"{path} is gone", Outcome.ERROR, path=path)
            if work.loop(gone).stuck is not None:
                return number + 1
        raise AssertionError("it was never stuck")

    before = until_stuck(0)
    word(work.watch)
    assert until_stuck(100) == before == 8


def test_the_situation_lists_what_was_tried_and_what_was_reached() -> None:
    """Covers S0-38."""
    work = Work()
    work.loop(read("a.py", "x"), edit("a.py", "A", "B"), run("pytest -q", 0))
    gone = call("file_ops.read_file", "b.py does not exist", Outcome.ERROR, path="b.py")
    work.loop(gone, gone)
    found = list_tried(work.log)
    assert [(t.text, t.ref, t.went_well, t.times) for t in found] == [
        ("file_ops.read_file a.py", "call_0", True, 1),
        ("file_ops.edit_file a.py +1 −1", "call_1", True, 1),
        ("shell.run pytest -q", "call_2", True, 1),
        ("file_ops.read_file b.py: b.py does not exist", "call_4", False, 2),
    ]
    assert list_achieved(work.log, AgentState()) == ("a.py +1 −1", "pytest -q")


def test_what_was_taken_back_is_not_reached_and_is_told_apart() -> None:
    """Covers S0-38."""
    work = Work()
    for before, after in (("A", "B"), ("B", "A"), ("A", "B"), ("B", "A")):
        work.loop(edit("a.py", before, after))
    work.loop(edit("b.py", "A", "B"), edit("b.py", "B", "C"))
    work.loop(edit("c.py", "A", "B"), edit("c.py", "B", "A"))  # as it was before the first
    assert list_achieved(work.log, AgentState()) == ("b.py 2×",)
    back = [(t.text, t.times) for t in list_tried(work.log) if t.back]
    assert back == [("file_ops.edit_file a.py +1 −1", 3), ("file_ops.edit_file c.py +1 −1", 1)]


def test_a_change_that_had_to_be_made_again_comes_back_to_what_was() -> None:
    """Somebody else had taken it back."""
    work = Work()
    for _ in range(2):
        work.loop(edit("a.py", "A", "B"))
    assert [t.back for t in list_tried(work.log)] == [False, True]


def test_the_situation_counts_what_was_read_and_what_it_does_not_list() -> None:
    """Covers S0-38."""
    work = Work()

    def counts(work: Work) -> tuple[int, ...]:
        shown = describe_situation(
            (Pattern.LIMIT, Reason(code="limit")),
            Signals(loop=9, limit=9, mood=0.7, stamina=0.7, focus=[]),
            work.log,
            AgentState(),
            lambda operation: operation in READS,
            model_words="",
        )
        achieved = len(shown.achieved), shown.achieved_more
        return len(shown.tried), shown.tried_before, *achieved, shown.read

    assert counts(work) == (0, 0, 0, 0, 0)
    for number in range(9):
        work.loop(read(f"f{number}.py", f"text {number}"))
    assert counts(work) == (6, 3, 0, 0, 9)
    work = Work()
    for number in range(10):
        work.loop(edit(f"f{number}.py", "A", "B"))
    assert counts(work)[2:] == (8, 2, 0)


def test_a_loop_names_the_calls_that_tell_of_the_work() -> None:
    work = Work()
    refused = call("file_ops.write_file", "no", Outcome.REJECTED, path="a.py")
    assert work.loop(read("a.py", "x"), refused, read("b.py", "y")).refs == ("call_0", "call_2")
    done = work.loop(read("c.py", "x"), read("c.py", "x"), steps_done=1)
    assert [(p.what, p.refs) for p in done.progress if p.kind.value == "step"] == [
        ("1", ("call_4",))
    ]
    assert work.loop(refused, steps_done=2).progress[0].refs == ()


def test_calls_that_could_not_be_made_are_not_called_fruitless() -> None:
    work = Work()
    wrong = call("file_ops.read_file", "start_line is wrong", Outcome.INVALID, path="a.py")
    assert not work.loop(wrong).fruitless
    gone = call("file_ops.read_file", "a.py is gone", Outcome.ERROR, path="a.py")
    assert work.loop(wrong, gone).fruitless


def test_of_what_neither_reads_nor_changes_only_the_same_again_tells_anything() -> None:
    work = Work()
    noted = call("memory.note", "kept", words="x")
    first, again, other = work.loop(noted), work.loop(noted), work.loop(call("memory.note", "too"))
    assert (first.outcomes, first.repeat, first.fruitless) == ((True,), None, False)
    assert (again.outcomes, again.fruitless) == ((), True)
    assert again.repeat is not None
    assert (again.repeat.operation, again.repeat.times) == ("memory.note", 2)
    assert (other.outcomes, other.repeat) == ((True,), None)
    gone = call("memory.note", "no room", Outcome.ERROR, words="y")
    told = [work.loop(gone) for _ in range(2)]
    assert [(signs.outcomes, signs.repeat is not None) for signs in told] == [
        ((False,), False),
        ((False,), True),
    ]


def test_a_change_counts_once_for_each_content_that_a_file_comes_to() -> None:
    work = Work()
    first, again, other = [work.loop(edit("a.py", *way)) for way in ("AB", "CB", "BD")]
    assert (kinds(first), first.outcomes) == (["diff"], (True,))
    assert (kinds(again), again.outcomes) == ([], ())  # somebody else had changed it
    assert kinds(other) == ["diff"]


def test_what_a_check_says_that_is_new_is_not_fruitless() -> None:
    work = Work()
    told = [("pytest", "E one"), ("pytest -x", "E one"), ("pytest -v", "E two"), ("pytest", "E 3")]
    fruitless = [work.loop(run(command, 1, text)).fruitless for command, text in told]
    assert fruitless == [False, True, False, True]  # the last is the same check again


def test_to_read_what_was_changed_is_not_fruitless() -> None:
    work = Work()
    work.loop(read("a.py", "x"))
    work.loop(edit("a.py", "A", "B"))
    assert not work.loop(read("a.py", "x")).fruitless
    assert work.loop(read("a.py", "x")).fruitless


def test_another_change_lets_those_back_and_forth_count_anew() -> None:
    work = Work()
    for way in ("AB", "BA", "AB"):
        work.loop(edit("a.py", *way))
    work.loop(edit("b.py", "A", "B"))
    stuck = [work.loop(edit("a.py", *way)).stuck for way in ("BA", "AB", "BA")]
    assert [reason is not None for reason in stuck] == [False, False, True]


def test_eight_calls_bring_nothing_in_two_loops_at_least() -> None:
    def gone(first: int, count: int) -> list[OperationMessage]:
        names = [f"{first + n}.py" for n in range(count)]
        return [call("file_ops.read_file", f"{n} is gone", Outcome.ERROR, path=n) for n in names]

    work = Work()
    assert work.loop(*gone(0, 9)).stuck is None
    stuck = work.loop(*gone(9, 1)).stuck
    assert stuck is not None
    assert (stuck.code, stuck.params) == ("nothing_new", {"times": "10"})


def test_a_file_that_is_reached_by_two_ways_is_one() -> None:
    work = Work()
    ways = ("lib/a.py", "src/a.py", "lib/a.py", "src/a.py")
    stuck = [
        work.loop(call("file_ops.read_file", "[src/a.py: lines]\nx", path=way)).stuck
        for way in ways
    ]
    assert [reason.code if reason else "" for reason in stuck] == ["", "", "", "same_action"]
    assert read_place(call("file_ops.read_file", "[note: x]", path="b.py")) == "b.py"


def test_a_check_that_turns_green_by_itself_is_progress() -> None:
    work = Work()
    assert kinds(work.loop(run("pytest", 1))) == []
    assert kinds(work.loop(run("pytest", 0))) == ["check"]


def by_user(message: OperationMessage) -> OperationMessage:
    return message.model_copy(update={"by_user": True})


def test_what_the_user_did_is_neither_tried_nor_read() -> None:
    """Covers S0-38."""
    work = Work()
    work.loop(by_user(read("a.py", "x")), by_user(run("ls", 0)))
    work.loop(read("b.py", "x"), read("b.py", "y"), call("file_ops.read_file", "no", path="c.py"))
    work.loop(call("file_ops.list_dir", "no", Outcome.ERROR, path="d"), run("make", 2))
    shown = describe_situation(
        (Pattern.STAGNATION, Reason(code="nothing_new")),
        Signals(loop=3, limit=9, mood=0.7, stamina=0.7, focus=[]),
        work.log,
        AgentState(),
        lambda operation: operation in READS,
        model_words="I read",
    )
    assert [t.text for t in shown.tried] == [
        "file_ops.read_file b.py",
        "file_ops.read_file c.py",
        "file_ops.list_dir d: no",
        "shell.run make",
    ]
    assert (shown.pattern, shown.loop, shown.limit) == (Pattern.STAGNATION, 3, 9)
    assert (shown.read, shown.achieved, shown.hypothesis_said) == (2, (), "I read")
    assert shown.hypothesis == Reason(code="not_there")


@pytest.mark.parametrize(
    ("asked", "worked", "names"), [(5.0, "", ["done"]), (6.0, "", []), (6.0, "s1", ["done"])]
)
def test_what_is_met_and_the_steps_that_are_done_are_reached(
    asked: float, worked: str, names: list[str]
) -> None:
    """Covers S0-38. Not what the user took as done, nor steps of an older plan."""
    state = AgentState()
    met, other = (
        RequirementItem(requirement_id=f"r{n}", requirement=words, state=how)
        for n, (words, how) in enumerate(
            (("it is clear", RequirementState.MET), ("it is short", RequirementState.PARTLY))
        )
    )
    state.objective = TaskObjective(
        objective_id="o",
        original_query="q",
        created_at=asked,
        extracted_requirements=(met, other),
    )
    steps = (
        Step(step_id="s1", name="done", status=WorkStatus.COMPLETED),
        Step(step_id="s2", name="taken", status=WorkStatus.COMPLETED, taken=True),
        Step(step_id="s3", name="failed", status=WorkStatus.FAILED),
    )
    state.plans = (Plan(plan_id="p", name="p", goal="g", steps=steps, created_at=5.0),)
    state.active_plan_id = "p"
    log = [
        run("pytest", 0),
        run("ls", 0),
        by_user(run("make", 0)),
        run("ls", 1).model_copy(update={"step_id": worked}),
    ]
    assert list_achieved(log, state) == ("it is clear", *names, "pytest")


def test_a_move_is_reached_where_it_led() -> None:
    moved = FileChange(path="a.py", kind="move", target="b.py", before="A", after="A", added=0)
    message = call("file_ops.move_file", "done", changes=(moved,), source="a.py", target="b.py")
    assert list_achieved([message, message], AgentState()) == ("b.py 2×",)


def test_calls_that_read_alike_are_one_row_with_their_number() -> None:
    work = Work()
    work.loop(read("a.py", "x"), read("a.py", "y", start_line=200))
    assert [(t.text, t.times) for t in list_tried(work.log)] == [("file_ops.read_file a.py", 2)]
    (cut,) = list_tried([call("mcp.ask", "x" * 200, Outcome.ERROR)])
    assert cut.text == f"mcp.ask: {'x' * 110}…"


def test_a_search_that_finds_nothing_went_neither_well_nor_badly() -> None:
    work = Work()
    assert work.loop(call("file_ops.search_text", "[0 matches in 0 files]")).outcomes == ()
    found = call("file_ops.search_text", "[1 match in 1 file]\na.py\n  1: tax")
    assert work.loop(found).outcomes == (True,)


def test_the_same_check_of_the_same_files_is_a_repeat() -> None:
    work = Work()
    work.loop(read("a.py", "x"))
    assert work.loop(run("pytest -q", 1)).repeat is None
    again = work.loop(run("pytest -q", 1)).repeat
    assert again is not None
    assert (again.operation, again.times) == ("shell.run", 2)
    assert work.loop(edit("a.py", "A", "B")).repeat is None
    assert work.loop(run("pytest -q", 1)).repeat is None


def test_keeping_a_plan_up_to_date_is_no_outcome_of_the_work() -> None:
    """Covers S0-3."""
    work = Work()
    signs = work.loop(*(call("plan_tool.update_step", f"step {n} is done") for n in range(6)))
    assert signs.outcomes == ()
    assert not signs.progress
