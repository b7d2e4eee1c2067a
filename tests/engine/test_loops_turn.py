"""A turn from the message to the file's bytes, over real HTTP, in both protocols."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from support.reviews import judged
from support.session import action, before_note, decision, done, note_of, script, session

from duckflow_tui.llm.service import BROKEN_RETRIED
from duckflow_tui.scripted.replies import Fault, RefusedPart, Reply, Script
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.audit import list_decisions
from duckflow_tui.state.conversation import AssistantMessage, NoticeMessage, UserMessage
from duckflow_tui.state.gates import GateChoice, Remark
from duckflow_tui.state.operations import Outcome, Risk
from duckflow_tui.state.phase import Phase, PhaseChanged, Status, TransitionRefused
from duckflow_tui.state.turn import TurnPaused
from duckflow_tui.state.usage import LlmCallFinished, ReplyDelta
from duckflow_tui.words.catalogue import Catalogue

BUGGY = "def total(price, rates):\n    return price * (1 - sum(rates))\n"
FIXED = """\
def total(price, rates):
    for rate in rates:
        price *= 1 - rate
    return price
"""
EDIT = action(
    "file_ops.edit_file",
    path="shop.py",
    edits=[
        {
            "old": "    return price * (1 - sum(rates))\n",
            "new": "    for rate in rates:\n        price *= 1 - rate\n    return price\n",
        }
    ],
    alternatives=("keep the sum, cap it", "change the test"),
)
READ = action("file_ops.read_file", path="shop.py")


def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "shop.py").write_text(BUGGY)
    return folder


#: What was asked for, with a check.
ASKED = {
    "requirement": "each rate applies to what the one before left",
    "priority": 1,
    "check": {"kind": "file_contains", "value": "shop.py: for rate in rates"},
}


def main_job() -> Script:
    return script(
        decision("Let me look.", READ, task_profile="DEBUGGING", requirements=[ASKED]),
        decision("The rates are summed.", EDIT),
        done("Rates apply one after the other now."),
    )


@pytest.mark.parametrize("protocol", ["tools", "json", "auto", "responses"])
async def test_read_edit_through_the_gate_done(
    tmp_path: Path, protocol: Literal["tools", "json", "auto", "responses"]
) -> None:
    """Covers S4-60, S4-86, S4-92, S4-94, S4-96."""
    folder = workspace(tmp_path)
    async with session(tmp_path, main_job(), protocol=protocol) as s:
        await s.engine.send("fix the total")
        gate = await s.gate()
        assert (folder / "shop.py").read_text() == BUGGY
        assert gate.previews[0].path == "shop.py"
        assert gate.alternatives == ("keep the sum, cap it", "change the test")
        await s.answer(GateChoice.ONCE)
        end = await s.ended()
        assert end.outcome == "done"
        assert end.files_changed == ("shop.py",)
        assert end.llm_calls == 4  # one of them the judge's
        assert end.reply == "Rates apply one after the other now."
        assert (folder / "shop.py").read_bytes() == FIXED.encode()
        read = s.results()[0].result
        assert read.outcome is Outcome.OK
        assert "sum(rates)" in s.server.of("main")[1].new_text


async def test_the_phases_of_a_job_end_in_done(tmp_path: Path) -> None:
    """Covers S4-90."""
    workspace(tmp_path)
    async with session(tmp_path, main_job(), mode="trusted") as s:
        await s.turn("fix the total")
        moves = [e.transition.new for e in s.events(PhaseChanged)]
        assert moves == [Phase.PLANNING, Phase.EXECUTION, Phase.REVIEW, Phase.DONE]


async def test_a_talk_ends_from_planning_in_done_and_costs_one_call(tmp_path: Path) -> None:
    """Covers S4-72."""
    async with session(tmp_path, script(done("Hello.", step="PLANNING"))) as s:
        end = await s.turn("hi")
        assert (end.outcome, end.llm_calls) == ("answered", 1)
        assert [e.transition.new for e in s.events(PhaseChanged)] == [Phase.PLANNING, Phase.DONE]


async def test_the_pattern_of_a_decision_builds_the_next_request(tmp_path: Path) -> None:
    """Covers S4-73, S4-74, S4-75, S4-95."""
    workspace(tmp_path)
    replies = script(
        decision("a", READ, prompt_pattern="base_main_specialized"),
        decision("b", READ, prompt_pattern="base_main"),
        done(),
    )
    async with session(tmp_path, replies) as s:
        await s.turn("look at it")
        assert len(s.server.of("main")) == 3  # the choice costs no call
        tails = [note_of(request) for request in s.server.of("main")]
        execution = "# Execution"
        assert [execution in tail for tail in tails] == [False, True, False]


async def test_the_working_memory_travels_with_the_next_request(tmp_path: Path) -> None:
    """Covers S4-15, S4-95."""
    workspace(tmp_path)
    delta = {"goal": "totals are right", "constraints": ["no new file"], "decision": "one by one"}
    async with session(tmp_path, script(decision("a", READ, state_delta=delta), done())) as s:
        await s.turn("fix it")
        assert s.state.memory.goal == "totals are right"
        assert s.state.memory.decision_log[0] == "one by one"
        tail = note_of(s.server.of("main")[1])
        assert "totals are right" in tail
        assert "no new file" in tail


async def test_all_calls_of_a_turn_share_their_history(tmp_path: Path) -> None:
    """A request before its note begins the next one: Covers S4-2."""
    workspace(tmp_path)
    async with session(tmp_path, main_job(), mode="trusted") as s:
        await s.turn("fix the total")
        for earlier, later in itertools.pairwise(s.server.of("main")):
            kept = before_note(earlier)
            assert later.json["messages"][: len(kept)] == kept


async def test_a_rejection_reaches_the_model_with_its_reason_and_is_no_error(
    tmp_path: Path,
) -> None:
    """R20. Covers S4-60."""
    folder = workspace(tmp_path)
    main = decision("a", EDIT), done("Then I leave it.", step="PLANNING")
    async with session(tmp_path, script(*main, satisfaction=judged(0.0))) as s:
        await s.engine.send("fix the total")
        await s.answer(GateChoice.REJECT, reason="keep it simple")
        end = await s.ended()
        assert end.outcome == "partial"  # what was asked for is not there, at the user's word
        assert end.files_changed == ()
        assert (folder / "shop.py").read_text() == BUGGY
        assert "keep it simple" in s.server.of("main")[1].new_text
        assert s.results()[0].result.outcome is Outcome.REJECTED
        moved = [change.vital for change in s.state.vitals.history]
        assert set(moved) <= {"stamina"}  # which every loop costs
        assert [c.inputs["failed"] for c in s.state.vitals.history] == [0.0] * len(moved)


@pytest.mark.parametrize("protocol", ["json", "tools"])
async def test_remarks_on_lines_reach_the_model_as_one_list(
    tmp_path: Path, protocol: Literal["json", "tools"]
) -> None:
    """Each with its file, line, version and words; and all that tells of the decision has them."""
    folder = workspace(tmp_path)
    replies = script(decision("a", EDIT), done("Then I ask first."))
    async with session(tmp_path, replies, protocol=protocol) as s:
        await s.engine.send("fix the total")
        goes, comes = "    return price * (1 - sum(rates))", "    for rate in rates:"
        remarks = (
            Remark(path="shop.py", number=2, old=True, line=goes, said="this stays"),
            Remark(path="shop.py", number=2, line=comes, said='say "discount"'),
        )
        await s.answer(GateChoice.REJECT, remarks=remarks)
        await s.ended()
        assert (folder / "shop.py").read_text() == BUGGY
        told = s.results()[0].result.text
        assert told.split("\n") == [
            "rejected by the user",
            "Remarks on lines of the change:",
            f'1. shop.py, line 2 that would be removed: "{goes}"',
            "   The user's remark: this stays",
            f'2. shop.py, line 2 of the new version: "{comes}"',
            '   The user\'s remark: say "discount"',
            "Nothing was executed. Do not ask for the same again; take every remark of the user "
            "into account, or ask what they want instead.",
        ]
        assert told in s.server.of("main")[1].new_text
        said = 'shop.py:−2: this stays; shop.py:2: say "discount"'
        assert list_decisions(s.state)[0].said == said


async def test_an_alternative_executes_nothing_and_its_label_reaches_the_model(
    tmp_path: Path,
) -> None:
    folder = workspace(tmp_path)
    later = action("file_ops.write_file", path="b.py", content="x")
    async with session(tmp_path, script(decision("a", EDIT, later), done())) as s:
        await s.engine.send("fix the total")
        await s.answer(GateChoice.ALTERNATIVE, alternative=2)
        await s.ended()
        assert (folder / "shop.py").read_text() == BUGGY
        assert not (folder / "b.py").exists()
        assert "change the test" in s.server.of("main")[1].new_text
        outcomes = [m.result.outcome for m in s.results()]
        assert outcomes == [Outcome.DECLINED, Outcome.SKIPPED]


@pytest.mark.parametrize("check", ["goal_consistency", "constraint_check"])
async def test_a_no_of_the_model_itself_stops_its_actions_and_is_shown(
    tmp_path: Path, check: str
) -> None:
    """Covers S4-59."""
    folder = workspace(tmp_path)
    no: dict[str, Any] = {check: {"ok": False, "reason": "it breaks the rule"}}
    async with session(tmp_path, script(decision("a", EDIT, **no), done()), mode="trusted") as s:
        await s.turn("fix the total")
        assert (folder / "shop.py").read_text() == BUGGY
        assert s.results() == []
        assert f"turn.{check}_no" in s.notices()
        assert check in s.server.of("main")[1].new_text


async def test_in_plan_mode_nothing_is_written_and_the_turn_goes_on(tmp_path: Path) -> None:
    """R17, R19."""
    folder = workspace(tmp_path)
    async with session(tmp_path, main_job(), mode="plan") as s:
        end = await s.turn("fix the total")
        assert end.outcome == "denied"
        assert len(s.server.of("main")) == 3  # the turn went on behind the refusal
        assert (folder / "shop.py").read_text() == BUGGY
        assert s.results()[1].result.outcome is Outcome.DENIED


async def test_after_a_failed_operation_the_model_may_plan_again(tmp_path: Path) -> None:
    """Covers S4-29, S4-53, S4-91."""
    workspace(tmp_path)
    gone = action("file_ops.read_file", path="gone.py")
    replies = script(decision("a", gone), decision("b", READ, step="PLANNING"), done())
    async with session(tmp_path, replies) as s:
        seen: list[tuple[Phase, Status]] = []
        s.store.subscribe(lambda state, _: seen.append((state.phase, state.status)))
        await s.turn("look")
        assert (Phase.EXECUTION, Status.ERROR) in seen
        moves = [e.transition.new for e in s.events(PhaseChanged)]
        assert moves[:3] == [Phase.PLANNING, Phase.EXECUTION, Phase.PLANNING]
        assert s.results()[0].result.outcome is Outcome.ERROR


async def test_a_high_risk_gate_waits_in_awaiting_approval(tmp_path: Path) -> None:
    """Covers S4-46, S4-49, S4-63, S4-64."""
    workspace(tmp_path)
    outside = action("file_ops.write_file", path=str(tmp_path / "outside.txt"), content="x")
    replies = script(decision("a", outside), done("No, then.", step="PLANNING"))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("write outside")
        gate = await s.gate()
        assert gate.impact.risk is Risk.HIGH
        await s.until(lambda state: state.phase is Phase.AWAITING_APPROVAL)
        assert s.state.status is Status.REQUIRES_USER_INPUT
        await s.answer(GateChoice.REJECT)
        await s.ended()
        assert not (tmp_path / "outside.txt").exists()
        moves = [e.transition.new for e in s.events(PhaseChanged)]
        at = moves.index(Phase.AWAITING_APPROVAL)
        assert moves[at + 1] is Phase.PLANNING


async def test_of_three_edits_near_each_other_the_middle_one_can_be_left_out(
    tmp_path: Path,
) -> None:
    lines = [f"line {number}" for number in range(1, 25)]
    folder = workspace(tmp_path)
    (folder / "notes.txt").write_text("\n".join(lines))
    changed = [f"{line}!" if line in ("line 4", "line 10", "line 16") else line for line in lines]
    write = action("file_ops.write_file", path="notes.txt", content="\n".join(changed))
    async with session(tmp_path, script(decision("Three.", write), done("Written."))) as s:
        await s.engine.send("mark them")
        (preview,) = (await s.gate()).previews
        assert len(preview.hunks) == 3
        await s.answer(GateChoice.ONCE, left_out=((0, 1),))
        await s.ended()
        written = (folder / "notes.txt").read_text().split("\n")
        assert [line for line in written if line.endswith("!")] == ["line 4!", "line 16!"]


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_malformed_reply_runs_nothing_and_is_asked_again_at_most_twice(
    tmp_path: Path, protocol: Literal["tools", "json"]
) -> None:
    """R16. Covers S4-58."""
    folder = workspace(tmp_path)
    unknown = action("file_ops.explode", path="shop.py")
    bad = Reply(decision=decision("a", EDIT, unknown).decision, repeat=True)
    async with session(tmp_path, script(bad), protocol=protocol, mode="trusted") as s:
        end = await s.turn("fix the total")
        assert (end.outcome, end.llm_calls) == ("failed", 4)
        assert (folder / "shop.py").read_text() == BUGGY
        assert s.results() == []
        assert s.notices()[-1] == "turn.unreadable"
        assert "explode" in s.server.of("main")[1].new_text


@pytest.mark.parametrize(
    ("reply", "protocol", "fault"),
    [
        (decision("a", EDIT, action("file_ops.explode", path="shop.py")), "tools", ""),
        (Reply(text='{"rationale": "edits", '), "json", ""),
        (Reply(decision=decision("a", EDIT).decision, finish="length"), "json", "_cut"),
        (
            Reply(decision=decision("a", EDIT).decision, fault=Fault(cut_after=200)),
            "tools",
            "_broken",
        ),
    ],
    ids=["unknown", "not JSON", "cut", "broken"],
)
async def test_why_a_reply_cannot_be_used_is_told_in_plain_words(
    tmp_path: Path, reply: Reply, protocol: Literal["tools", "json"], fault: str
) -> None:
    """What is wrong with it in the model's own terms is for the model alone."""
    workspace(tmp_path)
    again = reply.model_copy(update={"repeat": True})
    async with session(tmp_path, script(again), protocol=protocol, mode="trusted") as s:
        await s.turn("fix the total")
        told = [m for m in s.state.messages if isinstance(m, NoticeMessage)]
        assert told[0].key == f"turn.repair{fault}"
        assert told[-1].key == f"turn.unreadable{fault}"
        for notice in told:
            for language in ("en", "ja"):
                words = Catalogue(language)(notice.key, **notice.params)
                assert not re.search(r"explode|edit_file|edits|goal_|\{", words), words


async def test_a_repaired_reply_goes_on_and_costs_no_loop(tmp_path: Path) -> None:
    """Covers S4-58."""
    workspace(tmp_path)
    broken = Reply(text='{"rationale": ')
    replies = script(broken, broken, broken, done("Fine.", step="PLANNING"))
    async with session(tmp_path, replies) as s:
        end = await s.turn("hi")
        assert (end.outcome, end.llm_calls) == ("answered", 4)
        assert "turn.repair" in s.notices()


async def test_an_error_of_the_endpoint_ends_the_turn_and_the_message_can_be_retried(
    tmp_path: Path,
) -> None:
    replies = script(Reply(fault=Fault(status=401)), done("Hello.", step="PLANNING"))
    async with session(tmp_path, replies) as s:
        end = await s.turn("hi")
        assert end.outcome == "failed"
        assert s.notices() == ["llm.error.no_key_sent"]
        assert s.state.status is Status.ERROR
        assert await s.engine.retry()
        assert (await s.ended(2)).outcome == "answered"
        users = [m for m in s.state.messages if isinstance(m, UserMessage)]
        assert [m.text for m in users] == ["hi"]


async def test_text_of_a_stream_that_broke_is_kept_and_marked(tmp_path: Path) -> None:
    broken = Reply(text="Here is what I think about it, at length.", fault=Fault(cut_after=25))
    again = (broken,) * (1 + BROKEN_RETRIED)
    async with session(tmp_path, script(*again), protocol="tools") as s:
        end = await s.turn("hi")
        assert end.outcome == "failed"
        kept = [m for m in s.state.messages if isinstance(m, AssistantMessage)]
        assert len(kept) == 1
        assert kept[0].text.startswith("Here is what")
        assert not kept[0].complete


async def test_an_overflowing_window_is_compacted_once(tmp_path: Path) -> None:
    overflow = Reply(
        fault=Fault(status=400, message="This model's maximum context length is 8192 tokens")
    )
    past = [done(f"Answer {n}. " + "words " * 800, step="PLANNING") for n in range(4)]
    main = (*past, overflow, done("Short.", step="PLANNING"))
    digest = Reply(data={"digest": "Four questions were answered."})
    async with session(tmp_path, script(*main, digest=digest)) as s:
        for number in range(4):
            await s.turn(f"question {number}")
        end = await s.turn("the last one")
        assert end.outcome == "answered"
        (compaction,) = s.state.compactions
        assert (compaction.by, compaction.digest) == ("overflow", "Four questions were answered.")
        assert set(s.notices()) == {"turn.answered", "llm.learned.window"}
        refused, shorter = s.server.of("main")[-2:]
        assert len(shorter.raw) < len(refused.raw)
        assert "the last one" in shorter.text
        assert "Four questions were answered." in shorter.text


async def test_a_message_sent_during_work_waits_visibly_and_is_the_next_turn(
    tmp_path: Path,
) -> None:
    """Covers S4-31."""
    first = Reply(decision=done("One.", step="PLANNING").decision, hold="a")
    async with session(tmp_path, script(first, done("Two.", step="PLANNING"))) as s:
        await s.engine.send("first")
        await s.server.reached("a")
        await s.engine.send("second")
        assert [q.text for q in s.state.queue] == ["second"]
        s.server.release("a")
        await s.ended(2)
        assert s.state.queue == ()
        users = [m for m in s.state.messages if isinstance(m, UserMessage)]
        assert [m.text for m in users] == ["first", "second"]


async def test_a_waiting_message_can_be_taken_back(tmp_path: Path) -> None:
    first = Reply(decision=done("One.", step="PLANNING").decision, hold="a")
    async with session(tmp_path, script(first)) as s:
        await s.engine.send("first")
        await s.server.reached("a")
        await s.engine.send("second")
        waits = s.state.queue[0].message_id
        assert s.engine.change_queued(waits, "the second")
        assert s.state.queue[0].text == "the second"
        assert s.engine.take_back(waits) == "the second"
        assert not s.engine.change_queued(waits, "gone")
        await s.engine.undo()
        await s.engine.redo()
        assert s.notices() == ["undo.busy", "undo.busy"]
        s.server.release("a")
        await s.ended()
        assert s.state.queue == ()


async def test_a_stop_ends_the_turn_keeps_the_text_and_holds_the_queue(tmp_path: Path) -> None:
    slow = Reply(text="A long answer that never ends.", hold="a", hold_after=12)
    replies = script(slow, done("Two.", step="PLANNING"))
    async with session(tmp_path, replies, protocol="tools") as s:
        await s.engine.send("first")
        await s.until(lambda state: any(live.text for live in state.live.values()))
        await s.engine.send("second")
        s.engine.stop()
        end = await s.ended()
        assert end.outcome == "stopped"
        kept = next(m for m in s.state.messages if isinstance(m, AssistantMessage))
        assert kept.text
        assert not kept.complete
        assert [q.text for q in s.state.queue] == ["second"]
        assert s.state.phase is Phase.IDLE
        s.engine.resume()
        assert (await s.ended(2)).outcome == "answered"


async def test_after_a_stop_a_new_message_goes_first_and_the_rest_waits_for_the_user(
    tmp_path: Path,
) -> None:
    slow = Reply(text="A long answer that never ends.", hold="a", hold_after=12)
    replies = script(slow, *(done(f"{n}.", step="PLANNING") for n in ("Two", "Three", "Four")))
    async with session(tmp_path, replies, protocol="tools") as s:
        await s.engine.send("first")
        await s.until(lambda state: any(live.text for live in state.live.values()))
        await s.engine.send("waits")
        s.engine.stop()
        await s.ended()
        await s.engine.send("new")
        await s.ended(2)
        assert [q.text for q in s.state.queue] == ["waits"]
        s.engine.resume()
        await s.ended(3)
        users = [m.text for m in s.state.messages if isinstance(m, UserMessage)]
        assert users == ["first", "new", "waits"]
        await s.engine.send("after")  # nothing is held back any more
        await s.ended(4)


async def test_a_stop_closes_an_open_gate_without_consent(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    async with session(tmp_path, script(decision("a", EDIT))) as s:
        await s.engine.send("fix the total")
        await s.gate()
        s.engine.stop()
        assert (await s.ended()).outcome == "stopped"
        assert s.state.gates == ()
        assert s.results()[0].result.outcome is Outcome.STOPPED
        assert (folder / "shop.py").read_text() == BUGGY


async def test_a_pause_halts_before_the_next_action_and_resumes(tmp_path: Path) -> None:
    workspace(tmp_path)
    async with session(tmp_path, script(decision("a", EDIT, READ), done())) as s:
        await s.engine.send("look")
        await s.gate()
        s.engine.pause()
        await s.answer(GateChoice.ONCE)
        await s.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        assert len(s.results()) == 1  # what has begun goes on to its end
        s.engine.resume()
        assert (await s.ended()).outcome == "done"
        assert len(s.results()) == 2


async def test_a_message_sent_while_paused_redirects_the_work(tmp_path: Path) -> None:
    workspace(tmp_path)
    replies = script(decision("a", EDIT, READ), done("As you say."))
    async with session(tmp_path, replies, protocol="tools") as s:
        await s.engine.send("fix it")
        await s.gate()
        s.engine.pause()
        await s.answer(GateChoice.ONCE)
        await s.until(lambda _: bool(s.events(TurnPaused)))
        await s.engine.send("rather leave it alone")
        assert (await s.ended()).outcome == "done"
        assert [m.result.outcome for m in s.results()] == [Outcome.OK, Outcome.SKIPPED]
        assert "rather leave it alone" in s.server.of("main")[1].new_text


async def test_the_reply_is_in_the_state_while_the_rest_of_the_json_is_withheld(
    tmp_path: Path,
) -> None:
    """Covers S4-57."""
    reply = Reply(
        decision=done("Streams as it comes.", step="PLANNING").decision,
        hold="a",
        hold_after=60,
        chunk_size=5,
    )
    async with session(tmp_path, script(reply)) as s:
        await s.engine.send("hi")
        await s.server.reached("a")

        def shown(state: AgentState) -> bool:
            return any("".join(live.text) == "Streams as it comes." for live in state.live.values())

        await s.until(shown)
        assert s.state.turn is not None
        s.server.release("a")
        await s.ended()
        assert "".join(e.text for e in s.events(ReplyDelta)) == "Streams as it comes."


async def test_a_file_changed_outside_is_told_to_the_model(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    held = Reply(decision=decision("b", READ).decision, hold="a")
    async with session(tmp_path, script(decision("a", READ), held, done())) as s:
        await s.engine.send("look")
        await s.server.reached("a")
        (folder / "shop.py").write_text("# by hand\n")
        await s.until(lambda state: bool(state.changed_outside))
        s.server.release("a")
        await s.ended()
        assert "files.changed_outside" in s.notices()
        assert "Changed by someone else" in s.server.of("main")[2].new_text


async def test_undo_restores_the_bytes_and_tells_the_model(tmp_path: Path) -> None:
    """Covers S4-88."""
    folder = workspace(tmp_path)
    replies = script(decision("a", EDIT), done(), done("I see.", step="PLANNING"))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("fix the total")
        assert (folder / "shop.py").read_text() == FIXED
        await s.engine.undo()
        assert (folder / "shop.py").read_bytes() == BUGGY.encode()
        assert s.notices()[-1] == "operations.undo.done"
        await s.turn("and now?")
        assert "undid your change of shop.py" in s.server.of("main")[-1].new_text


async def test_every_call_is_accounted_for(tmp_path: Path) -> None:
    workspace(tmp_path)
    async with session(tmp_path, main_job(), mode="trusted") as s:
        end = await s.turn("fix the total")
        calls = [e.call for e in s.events(LlmCallFinished)]
        assert [(c.role, c.purpose, c.outcome) for c in calls] == [
            *[("main", "main", "ok")] * 3,
            ("evaluator", "satisfaction", "ok"),
        ]
        assert end.tokens == sum(c.tokens_in + c.tokens_out for c in calls)
        assert s.state.usage.calls == 4
        headers = {r.headers["x-duckflow-purpose"] for r in s.server.of("main")}
        assert headers == {"main"}


async def test_a_model_that_refuses_native_calls_still_does_the_job(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    job = main_job().model_copy(update={"refuses": (RefusedPart(name="tools"),)})
    async with session(tmp_path, job, protocol="auto", mode="trusted") as s:
        end = await s.turn("fix the total")
        assert end.outcome == "done"
        assert (folder / "shop.py").read_text() == FIXED


async def test_prompts_name_every_operation_of_the_registry_and_stay_in_their_budgets(
    tmp_path: Path,
) -> None:
    """Covers S4-97."""
    from duckflow_tui.prompting.budget import ScriptCounter

    workspace(tmp_path)
    async with session(tmp_path, main_job(), mode="trusted") as s:
        await s.turn("fix the total")
        count = ScriptCounter().count
        for request in s.server.of("main"):
            system = request.json["messages"][0]["content"]
            tail = note_of(request)
            assert "file_ops.edit_file" in system
            assert count(tail) <= 500 + 800 + 1200


async def test_a_workspace_that_is_replaced_is_said_once_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    folder = workspace(tmp_path)
    again = action("file_ops.write_file", path="b.py", content="x")
    replies = script(decision("a", EDIT), decision("b", again), done())
    async with session(tmp_path, replies, mode="trusted") as s:
        folder.rename(tmp_path / "moved")
        folder.mkdir()
        await s.turn("fix the total")
        assert s.notices().count("workspace.gone") == 1
        assert list(folder.iterdir()) == []
        assert (tmp_path / "moved" / "shop.py").read_text() == BUGGY


async def test_a_wrong_setting_is_named_in_the_conversation(tmp_path: Path) -> None:
    environ = {"DUCKFLOW_EXECUTION__MAX_STEPS": "many"}
    async with session(tmp_path, script(done()), environ=environ) as s:
        said = [m for m in s.state.messages if isinstance(m, NoticeMessage)]
        assert [m.key for m in said] == ["settings.problem"]
        assert "DUCKFLOW_EXECUTION__MAX_STEPS" in said[0].params["problem"]


async def test_a_refused_move_of_the_phase_is_told_in_one_line_and_once(tmp_path: Path) -> None:
    """The calls of that decision run all the same, and the work stays in its phase.

    Covers S4-51, S4-113.
    """
    workspace(tmp_path)
    look = action("file_ops.list_dir", path=".")
    read = action("file_ops.read_file", path="shop.py")
    replies = script(
        decision("I look.", look),
        decision("I plan.", read, step="PLANNING"),
        decision("I look again.", look),
        done(),
    )
    async with session(tmp_path, replies) as s:
        await s.turn("look at the shop")
        tails = [note_of(request) for request in s.server.of("main")]
        told = [[line for line in t.split("\n") if "EXECUTION → PLANNING" in line] for t in tails]
        assert [len(lines) for lines in told] == [0, 0, 1, 0]
        assert [m.result.outcome for m in s.results()] == [Outcome.OK] * 3
        (refused,) = (event.refusal for event in s.events(TransitionRefused))
        assert (refused.old, refused.wanted) == (Phase.EXECUTION, Phase.PLANNING)
