"""The way of a call: intent, arguments, judgement, gate, effect, result. On real files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.bench import DEADLINE, Bench, SlowDisk, done, reply

from duckflow_tui.safety.paths import Place
from duckflow_tui.state.base import StateError, hash_data
from duckflow_tui.state.calls import FileChangedOutside
from duckflow_tui.state.decision import Action
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Effect, Outcome, Risk, Zone
from duckflow_tui.state.session import ModeChanged
from duckflow_tui.tools.operation import Arguments, Operation, Output, Registry, ToolContext, Work

READ = "file_ops.read_file"
WRITE = "file_ops.write_file"
EDIT = "file_ops.edit_file"
DELETE = "file_ops.delete_file"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    (path / "a.py").write_bytes(b"one\ntwo\nthree\n")
    return path


def long_file(root: Path) -> bytes:
    """A file in which two changes lie far enough apart for two hunks."""
    data = "".join(f"line {n}\n" for n in range(40)).encode()
    (root / "long.txt").write_bytes(data)
    return data


TWO_EDITS = [{"old": "line 3\n", "new": "THREE\n"}, {"old": "line 30\n", "new": "THIRTY\n"}]


# --- before anything runs --------------------------------------------------------------------


async def test_the_intent_is_recorded_before_anything_is_touched(bench: Bench) -> None:
    message = await bench.approved(WRITE, path="new.py", content="x\n")
    assert bench.kinds[1:] == [
        "operation_requested",
        "gate_opened",
        "gate_answered",
        "operation_started",
        "operation_finished",
    ]
    assert message.result.outcome is Outcome.OK
    assert bench.store.state.running == ()
    assert bench.store.state.messages[-1] is message


async def test_an_unknown_operation_runs_nothing(bench: Bench) -> None:
    message = await bench.call("file_ops.write", path="a.py", content="x")
    assert message.result.outcome is Outcome.INVALID
    assert "operation_started" not in bench.kinds


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"path": 3},
        {"path": "a.py", "start_line": "1"},
        {"path": "a.py", "lines": 3},
        {"path": "a.py", "start_line": 0},
        {"path": "a.py", "start_line": 3, "end_line": 2},
    ],
)
async def test_wrong_arguments_run_nothing(bench: Bench, args: dict[str, Any]) -> None:
    message = await bench.call(READ, **args)
    assert message.result.outcome is Outcome.INVALID
    assert bench.store.state.files_read == {}


async def test_references_to_other_results_are_refused_with_the_reason(bench: Bench) -> None:
    """Covers S3-18."""
    message = await bench.call(READ, path="{{previous_result}}")
    assert message.result.outcome is Outcome.INVALID
    assert "{{previous_result}}" in message.result.text


async def test_content_may_look_like_a_reference(bench: Bench, root: Path) -> None:
    """Covers S3-18."""
    await bench.approved(WRITE, path="ci.yml", content="run: ${{ task_1.out }}\n")
    assert (root / "ci.yml").read_text() == "run: ${{ task_1.out }}\n"


async def test_a_call_id_runs_once_at_a_time(bench: Bench) -> None:
    action = bench.action(WRITE, path="new.py", content="x\n")
    task = asyncio.create_task(bench.router.call(action))
    gate = await bench.gate()
    with pytest.raises(StateError):
        await bench.router.call(action)
    await bench.answer(gate, GateChoice.ONCE)
    assert (await done(task)).result.outcome is Outcome.OK


# --- policy ----------------------------------------------------------------------------------


async def test_reading_inside_needs_no_gate_and_changing_does(bench: Bench, root: Path) -> None:
    """Covers S4-86."""
    for operation, args in [
        (READ, {"path": "a.py"}),
        ("file_ops.list_dir", {}),
        ("file_ops.find_files", {"glob": "*.py"}),
        ("file_ops.search_text", {"pattern": "two"}),
    ]:
        assert (await bench.call(operation, **args)).gate is None
    for operation, args in [
        (WRITE, {"path": "b.py", "content": "b\n"}),
        (EDIT, {"path": "a.py", "edits": [{"old": "two", "new": "2"}]}),
        ("file_ops.move_file", {"source": "b.py", "target": "c.py"}),
        (DELETE, {"path": "c.py"}),
    ]:
        assert (await bench.approved(operation, **args)).gate is not None
    assert (root / "a.py").read_bytes() == b"one\n2\nthree\n"
    assert not (root / "c.py").exists()


@pytest.mark.parametrize("path", ["../out.txt", "/etc/hostname", "link/out.txt"])
async def test_outside_is_neither_read_nor_written_without_a_gate(
    bench: Bench, root: Path, path: str
) -> None:
    """Covers S4-85."""
    (root / "link").symlink_to(root.parent)
    (root.parent / "out.txt").write_text("out")
    for operation, more in [(READ, {}), (WRITE, {"content": "x"})]:
        task = bench.begin(operation, path=path, **more)
        gate = await bench.gate()
        assert gate.impact.zone is Zone.OUTSIDE
        await bench.answer(gate, GateChoice.REJECT)
        assert (await done(task)).result.outcome is Outcome.REJECTED
    assert (root.parent / "out.txt").read_text() == "out"


async def test_plan_mode_refuses_before_the_file_is_looked_at(root: Path) -> None:
    bench = Bench(root, mode=ApprovalMode.PLAN)
    message = await bench.call(EDIT, path="a.py", edits=[{"old": "not there", "new": "x"}])
    assert message.result.outcome is Outcome.DENIED
    assert "not found" not in message.result.text


async def test_trusted_mode_changes_without_a_gate(root: Path) -> None:
    bench = Bench(root, mode=ApprovalMode.TRUSTED)
    message = await bench.call(WRITE, path="a.py", content="x\n")
    assert message.result.outcome is Outcome.OK
    assert message.gate is None


async def test_trusted_mode_still_asks_before_many_lines_go_away(root: Path) -> None:
    (root / "data.csv").write_text("row\n" * 600)
    bench = Bench(root, mode=ApprovalMode.TRUSTED)
    task = bench.begin(WRITE, path="data.csv", content="row\n")
    gate = await bench.gate()
    assert "bulk_data" in gate.impact.reasons
    await bench.answer(gate, GateChoice.REJECT)
    assert (await done(task)).result.outcome is Outcome.REJECTED


async def test_a_file_larger_than_the_limit_is_denied(root: Path) -> None:
    """Covers S4-87."""
    bench = Bench(root, mode=ApprovalMode.TRUSTED, max_write_bytes=1_000)
    assert (await bench.call(WRITE, path="b", content="x" * 1_000)).result.outcome is Outcome.OK
    message = await bench.call(WRITE, path="c", content="あ" * 334)
    assert message.result.outcome is Outcome.DENIED
    assert "1002" in message.result.text
    grown = await bench.call(EDIT, path="b", edits=[{"old": "x" * 1_000, "new": "y" * 1_001}])
    assert grown.result.outcome is Outcome.DENIED
    assert not (root / "c").exists()


async def test_without_a_screen_a_gate_is_a_denial(root: Path) -> None:
    bench = Bench(root, headless=True)
    message = await bench.call(WRITE, path="a.py", content="x\n")
    assert message.result.outcome is Outcome.DENIED
    assert "approval" in message.result.text
    assert (root / "a.py").read_bytes() == b"one\ntwo\nthree\n"


async def test_an_edit_tells_nothing_of_a_secret_file_that_was_not_read(
    bench: Bench, root: Path
) -> None:
    (root / ".env").write_text("KEY=abc\n")
    for old in ("KEY=abc", "KEY=xyz"):
        message = await bench.call(EDIT, path=".env", edits=[{"old": old, "new": "x"}])
        assert message.result.outcome is Outcome.ERROR
        assert "read it first" in message.result.text


# --- the gate --------------------------------------------------------------------------------


async def test_a_gate_has_five_points_and_the_app_computes_all_but_two(
    bench: Bench, root: Path
) -> None:
    """Covers S4-61."""
    await bench.call(READ, path="a.py")
    task = bench.begin(EDIT, path="a.py", edits=[{"old": "two\nthree\n", "new": "2\n"}])
    gate = await bench.gate()
    assert (gate.intent, gate.why) == ("try it", "the test needs it")
    assert gate.alternatives == ("do nothing", "do another thing")
    assert (gate.impact.files, gate.impact.added, gate.impact.removed) == (1, 1, 2)
    assert (gate.impact.zone, gate.impact.risk) == (Zone.INSIDE, Risk.LOW)
    assert gate.impact.reversible
    assert gate.impact.reasons == ()
    preview = gate.previews[0]
    assert (preview.path, preview.kind, preview.language) == ("a.py", "modify", "py")
    assert preview.before_hash == hash_data(b"one\ntwo\nthree\n")
    assert preview.after_hash == hash_data(b"one\n2\n")
    assert [line.mark for line in preview.hunks[0].lines] == [" ", "-", "-", "+"]
    assert gate.args == {"path": "a.py", "edits": [{"old": "two\nthree\n", "new": "2\n"}]}
    assert gate.effect is Effect.WRITE
    await bench.answer(gate, GateChoice.REJECT)
    await done(task)


async def test_a_rejection_runs_nothing_and_gives_the_reason_to_the_model(
    bench: Bench, root: Path
) -> None:
    args = {"path": "a.py", "content": "x\n"}
    message = await bench.answered(GateChoice.REJECT, WRITE, args, reason="keep the old one")
    assert message.result.outcome is Outcome.REJECTED
    assert message.result.text.startswith("rejected by the user: keep the old one\n")
    assert (root / "a.py").read_bytes() == b"one\ntwo\nthree\n"
    assert "operation_started" not in bench.kinds


async def test_an_alternative_runs_nothing_and_gives_its_label(bench: Bench, root: Path) -> None:
    args = {"path": "a.py", "content": "x\n"}
    message = await bench.answered(GateChoice.ALTERNATIVE, WRITE, args, alternative=2)
    assert message.result.outcome is Outcome.DECLINED
    assert message.result.text == (
        'the user chose the alternative "do another thing" instead; nothing was executed'
    )
    assert (root / "a.py").read_bytes() == b"one\ntwo\nthree\n"


async def test_consent_to_one_file_covers_that_path_only(bench: Bench, root: Path) -> None:
    args = {"path": "a.py", "content": "x\n"}
    await bench.answered(GateChoice.ONLY, WRITE, args)
    assert (await bench.call(WRITE, path="a.py", content="y\n")).gate is None
    assert (await bench.approved(WRITE, path="b.py", content="y\n")).gate is not None


async def test_hunks_that_were_left_out_stay_out_and_the_model_is_told(
    bench: Bench, root: Path
) -> None:
    data = long_file(root)
    args = {"path": "long.txt", "edits": TWO_EDITS}
    message = await bench.answered(GateChoice.ONCE, EDIT, args, left_out=((0, 1),))
    now = data.replace(b"line 3\n", b"THREE\n")
    assert (root / "long.txt").read_bytes() == now
    assert "left out 1 of 2 parts" in message.result.text
    assert "+THIRTY" in message.result.text
    assert "+THREE" not in message.result.text
    assert message.result.changes[0].after == hash_data(now)
    assert bench.store.state.files_read["long.txt"] == hash_data(now)


async def test_leaving_everything_out_is_a_rejection(bench: Bench, root: Path) -> None:
    data = long_file(root)
    args = {"path": "long.txt", "edits": TWO_EDITS}
    message = await bench.answered(GateChoice.ONCE, EDIT, args, left_out=((0, 0), (0, 1)))
    assert message.result.outcome is Outcome.REJECTED
    assert (root / "long.txt").read_bytes() == data
    assert message.result.changes == ()


async def test_an_edit_by_the_user_is_shown_again_before_it_is_applied(
    bench: Bench, root: Path
) -> None:
    (root / "a.py").write_bytes(b"one\r\ntwo\r\n")
    task = bench.begin(EDIT, path="a.py", edits=[{"old": "two", "new": "2"}])
    first = await bench.gate()
    assert bench.router.proposed_text(first.gate_id) == "one\r\n2\r\n"
    await bench.answer(first, GateChoice.EDIT, edited="one\n2 and more\n")
    second = await bench.gate(after=first)
    assert second.edited_by_user
    assert second.args == {"path": "a.py", "content": "one\n2 and more\n"}
    assert second.args_hash != first.args_hash
    assert (root / "a.py").read_bytes() == b"one\r\ntwo\r\n"
    assert bench.router.proposed_text(first.gate_id) is None
    await bench.answer(second, GateChoice.ONCE)
    message = await done(task)
    assert (root / "a.py").read_bytes() == b"one\r\n2 and more\r\n"
    assert "-2\n+2 and more" in message.result.text


async def test_an_answer_to_the_gate_before_the_edit_is_refused(bench: Bench) -> None:
    task = bench.begin(WRITE, path="a.py", content="x\n")
    first = await bench.gate()
    await bench.answer(first, GateChoice.EDIT, edited="y\n")
    second = await bench.gate(after=first)
    with pytest.raises(StateError):
        await bench.desk.record_answer(
            reply(first, GateChoice.ONCE).model_copy(update={"gate_id": second.gate_id})
        )
    await bench.answer(second, GateChoice.REJECT)
    assert (await done(task)).result.outcome is Outcome.REJECTED


async def test_arguments_are_those_of_the_moment_of_display(bench: Bench, root: Path) -> None:
    args: dict[str, Any] = {"path": "a.py", "edits": [{"old": "two", "new": "2"}]}
    action = Action(call_id="call_x", operation=EDIT, args=args, reasoning="why")
    task = asyncio.create_task(bench.router.call(action))
    gate = await bench.gate()
    action.args["edits"][0]["new"] = "evil"
    action.args["path"] = "b.py"
    args["edits"].append({"old": "one", "new": "evil"})
    await bench.answer(gate, GateChoice.ONCE)
    message = await done(task)
    assert (root / "a.py").read_bytes() == b"one\n2\nthree\n"
    assert message.args == {"path": "a.py", "edits": [{"old": "two", "new": "2"}]}


async def test_overwriting_what_was_never_read_is_flagged(bench: Bench) -> None:
    task = bench.begin(WRITE, path="a.py", content="x\n")
    gate = await bench.gate()
    assert "not_read_before" in gate.impact.reasons
    await bench.answer(gate, GateChoice.REJECT)
    await done(task)
    await bench.call(READ, path="a.py")
    task = bench.begin(WRITE, path="a.py", content="x\n")
    gate = await bench.gate()
    assert "not_read_before" not in gate.impact.reasons
    await bench.answer(gate, GateChoice.REJECT)
    await done(task)


async def test_a_link_is_written_through_and_the_gate_names_its_target(
    bench: Bench, root: Path
) -> None:
    (root / "link.py").symlink_to("a.py")
    task = bench.begin(WRITE, path="link.py", content="x\n")
    gate = await bench.gate()
    assert "→ a.py" in gate.previews[0].note
    await bench.answer(gate, GateChoice.ONCE)
    await done(task)
    assert (root / "a.py").read_bytes() == b"x\n"
    assert (root / "link.py").is_symlink()


# --- the file changes meanwhile --------------------------------------------------------------


async def test_a_change_before_the_answer_withdraws_the_gate_and_opens_it_anew(
    bench: Bench, root: Path
) -> None:
    task = bench.begin(EDIT, path="a.py", edits=[{"old": "two", "new": "2"}])
    first = await bench.gate()
    now = b"zero\none\ntwo\nthree\n"
    (root / "a.py").write_bytes(now)
    bench.store.dispatch(FileChangedOutside(path="a.py", sha=hash_data(now)))
    second = await bench.gate(after=first)
    assert "gate_withdrawn" in bench.kinds
    assert second.renewed
    assert second.previews[0].before_hash == hash_data(now)
    await bench.answer(second, GateChoice.ONCE)
    assert (await done(task)).result.outcome is Outcome.OK
    assert (root / "a.py").read_bytes() == b"zero\none\n2\nthree\n"


async def test_a_change_elsewhere_leaves_the_gate_alone(bench: Bench) -> None:
    task = bench.begin(WRITE, path="a.py", content="x\n")
    gate = await bench.gate()
    bench.store.dispatch(FileChangedOutside(path="b.py", sha=hash_data(b"")))
    assert bench.store.state.gates == (gate,)
    await bench.answer(gate, GateChoice.ONCE)
    assert (await done(task)).result.outcome is Outcome.OK


async def test_a_change_that_nobody_noticed_asks_again_instead_of_being_overwritten(
    bench: Bench, root: Path
) -> None:
    task = bench.begin(WRITE, path="a.py", content="x\n")
    first = await bench.gate()
    (root / "a.py").write_bytes(b"written by someone\n")
    await bench.answer(first, GateChoice.ONCE)
    second = await bench.gate(after=first)
    assert second.renewed
    assert not bench.store.state.running[0].started
    assert (root / "a.py").read_bytes() == b"written by someone\n"
    assert [line.text for line in second.previews[0].hunks[0].lines] == ["written by someone", "x"]
    await bench.answer(second, GateChoice.REJECT)
    assert (await done(task)).result.outcome is Outcome.REJECTED


async def test_edits_that_fit_no_longer_are_an_error_for_the_model(
    bench: Bench, root: Path
) -> None:
    task = bench.begin(EDIT, path="a.py", edits=[{"old": "two", "new": "2"}])
    first = await bench.gate()
    (root / "a.py").write_bytes(b"other\n")
    await bench.answer(first, GateChoice.ONCE)
    message = await done(task)
    assert message.result.outcome is Outcome.ERROR
    assert "changed while the user was looking" in message.result.text
    assert (root / "a.py").read_bytes() == b"other\n"


async def test_what_the_user_wrote_survives_a_change_outside(bench: Bench, root: Path) -> None:
    task = bench.begin(WRITE, path="a.py", content="x\n")
    first = await bench.gate()
    await bench.answer(first, GateChoice.EDIT, edited="mine\n")
    second = await bench.gate(after=first)
    (root / "a.py").write_bytes(b"theirs\n")
    await bench.answer(second, GateChoice.ONCE)
    third = await bench.gate(after=second)
    assert third.renewed
    assert third.edited_by_user
    await bench.answer(third, GateChoice.ONCE)
    assert (await done(task)).result.outcome is Outcome.OK
    assert (root / "a.py").read_bytes() == b"mine\n"


async def test_the_model_is_told_that_a_file_changed_since_it_was_read(
    root: Path,
) -> None:
    bench = Bench(root, mode=ApprovalMode.TRUSTED)
    await bench.call(READ, path="a.py")
    (root / "a.py").write_bytes(b"zero\none\ntwo\n")
    fitted = await bench.call(EDIT, path="a.py", edits=[{"old": "two", "new": "2"}])
    assert "had changed since you last read it" in fitted.result.text
    (root / "a.py").write_bytes(b"nothing\n")
    missed = await bench.call(EDIT, path="a.py", edits=[{"old": "2", "new": "3"}])
    assert "has changed since you last read it" in missed.result.text


# --- stopping --------------------------------------------------------------------------------


async def test_a_stop_at_the_gate_is_recorded_and_passed_on(bench: Bench, root: Path) -> None:
    task = bench.begin(WRITE, path="a.py", content="x\n")
    await bench.gate()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await done(task)
    state = bench.store.state
    assert (state.gates, state.running) == ((), ())
    message = state.messages[-1]
    assert message.kind == "operation"
    assert message.result.outcome is Outcome.STOPPED
    assert "nothing was executed" in message.result.text
    assert (root / "a.py").read_bytes() == b"one\ntwo\nthree\n"


async def test_changing_the_mode_answers_no_gate(bench: Bench) -> None:
    task = bench.begin(WRITE, path="a.py", content="x\n")
    gate = await bench.gate()
    bench.store.dispatch(ModeChanged(mode=ApprovalMode.TRUSTED, at=0.0))
    assert bench.store.state.gates == (gate,)
    await bench.answer(gate, GateChoice.REJECT)
    assert (await done(task)).result.outcome is Outcome.REJECTED


async def test_a_call_that_waits_for_another_effect_is_judged_by_the_mode_when_its_turn_comes(
    root: Path,
) -> None:
    """Promise 2: what the user no longer allows does not happen unasked."""
    disk = SlowDisk("create")
    bench = Bench(root, mode=ApprovalMode.TRUSTED, disk=disk)
    first = bench.begin(WRITE, path="a.py", content="x\n")
    await asyncio.to_thread(disk.there.wait, DEADLINE)
    second = bench.begin(WRITE, path="b.py", content="y\n")
    await bench.until(lambda state: len(state.running) == 2)
    bench.store.dispatch(ModeChanged(mode=ApprovalMode.STRICT, at=0.0))
    disk.go.set()
    gate = await bench.gate()
    assert (gate.args["path"], gate.renewed) == ("b.py", False)
    assert not (root / "b.py").exists()
    await bench.answer(gate, GateChoice.ONCE)
    for task in (first, second):
        assert (await done(task)).result.outcome is Outcome.OK


async def test_a_call_that_is_skipped_is_recorded_with_the_reason(bench: Bench) -> None:
    message = await bench.router.skip(bench.action(DELETE, path="a.py"), "the user said no")
    assert message.result.outcome is Outcome.SKIPPED
    assert "the user said no" in message.result.text
    assert bench.store.state.running == ()


# --- results ---------------------------------------------------------------------------------


async def test_a_result_that_is_too_long_is_cut_in_the_middle_and_kept_whole(root: Path) -> None:
    whole = "".join(f"{n:07d} あ\n" for n in range(60_000))

    async def prepare(args: Arguments, places: tuple[Place, ...], context: ToolContext) -> Work:
        async def run() -> Output:
            return Output(whole)

        return Work(run)

    huge = Operation(
        name="memory.recall",
        summary="Says much.",
        effect=Effect.READ,
        arguments=Arguments,
        paths=lambda args: (),
        prepare=prepare,
    )
    bench = Bench(root, registry=Registry([huge]))
    result = (await bench.call("memory.recall")).result
    assert len(result.text.encode()) <= 256 * 1024
    assert result.text.startswith("0000000 あ\n")
    assert result.text.endswith("0059999 あ\n")
    assert f'path "result:{result.blob}"' in result.text
    assert (await bench.blobs.get(result.blob)).decode() == whole
    left = len(whole) - result.truncated_chars
    assert 0 < left < len(result.text)


@pytest.mark.parametrize("mode", ["plan", "strict", "standard", "trusted"])
async def test_more_of_a_cut_result_is_read_by_its_handle_unasked(
    root: Path, mode: ApprovalMode
) -> None:
    """R18: by the hash that the cut names, or by the id of the call; of this session alone."""
    (root / "long.txt").write_text("".join(f"line {n}\n" for n in range(1_500)))
    bench = Bench(root)
    bench.store.dispatch(ModeChanged(mode=ApprovalMode(mode), at=0.0))
    found = await bench.call("file_ops.read_file", path="long.txt")
    by_id = f"result:{found.call_id}"
    part = await bench.call("file_ops.read_file", path=by_id, start_line=700, end_line=701)
    assert part.result.text == f"[{by_id}: lines 700-701 of 1501]\nline 698\nline 699\n"
    assert part.gate is None
    blob = await bench.blobs.put(b"kept before a change")
    for handle in (f"result:{blob}", "result:", "result:call_0", "result:../../etc/passwd"):
        refused = await bench.call("file_ops.read_file", path=handle)
        assert refused.result.outcome is Outcome.INVALID
    assert list(bench.store.state.files_read) == ["long.txt"]


async def test_how_long_it_took_does_not_count_the_wait_for_the_user(bench: Bench) -> None:
    task = bench.begin(WRITE, path="a.py", content="x\n")
    gate = await bench.gate()
    bench.clock.advance(60)
    await bench.answer(gate, GateChoice.ONCE)
    assert (await done(task)).result.duration_s == 0.0


@pytest.mark.parametrize("mode", [ApprovalMode.TRUSTED, ApprovalMode.STANDARD])
async def test_a_change_without_a_gate_keeps_what_it_changed_and_what_allowed_it(
    root: Path, mode: ApprovalMode
) -> None:
    """With a gate both are in the gate and its answer."""
    bench = Bench(root, mode=mode)
    edit: dict[str, Any] = {"path": "a.py", "edits": [{"old": "two", "new": "TWO"}]}
    await bench.call("file_ops.read_file", path="a.py")
    if mode is ApprovalMode.TRUSTED:
        message = await bench.call(EDIT, **edit)
        assert [(p.path, p.added, p.removed) for p in message.previews] == [("a.py", 1, 1)]
        assert message.allowed == "trusted"
    else:
        asked = await bench.answered(GateChoice.SESSION, EDIT, edit)
        assert (asked.previews, asked.allowed) == ((), "")
        message = await bench.call(EDIT, path="a.py", edits=[{"old": "TWO", "new": "2"}])
        assert message.allowed == "granted"
        assert message.previews


async def test_reading_is_not_said_to_be_allowed(root: Path) -> None:
    bench = Bench(root, mode=ApprovalMode.TRUSTED)
    assert (await bench.call("file_ops.read_file", path="a.py")).allowed == ""
