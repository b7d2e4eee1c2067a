"""A pause while a model replies: the request ends, what came stays, and the model is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plan_talk import PROPOSE, answer, plan_reply, statuses, tasks_reply, write
from support.session import GOOD, Session, action, decision, done, script, session

from duckflow_tui.llm.codec import STOPPED
from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.scripted.replies import Fault, Reply, Script
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.turn import LoopStarted
from duckflow_tui.state.usage import LlmCallFinished, ReplyDelta

AT_ONCE = 0.5  # seconds within which the server sees that nobody reads any more
LONG = " ".join(f"Sentence {number}." for number in range(1, 40))


def held(reply: Reply, after: int = 0, **fields: object) -> Reply:
    """The same, but all behind so many characters waits for ever."""
    return reply.model_copy(update={"hold": "held", "hold_after": after, "chunk_size": 5, **fields})


def replies(running: Session) -> list[AssistantMessage]:
    return [m for m in running.state.messages if isinstance(m, AssistantMessage)]


async def pause(running: Session) -> None:
    """Pause while a reply is held; the server is rid of its client at once, and nothing more is
    asked.
    """
    await running.server.reached("held")
    await running.until(lambda state: bool(state.live))
    before = len(running.server.requests)
    running.engine.pause()
    await running.server.wait_for_hangup("held", AT_ONCE)
    await running.until(lambda state: state.turn is not None and state.turn.pause == "paused")
    assert len(running.server.requests) == before
    assert not any(not live.aside for live in running.state.live.values())


@pytest.mark.parametrize("protocol", ["tools", "json", "responses"])
async def test_a_pause_ends_the_reply_keeps_its_text_and_asks_again_with_it(
    tmp_path: Path, protocol: Protocol
) -> None:
    slow = held(done(LONG, step="PLANNING"), 200)
    again = done("In short: no.", step="PLANNING")
    async with session(tmp_path, script(slow, again), protocol=protocol) as s:
        await s.engine.send("tell me all")
        await s.until(lambda state: any(live.text for live in state.live.values()))
        await pause(s)
        came = len(s.events(ReplyDelta))
        (cut,) = replies(s)
        assert (cut.complete, cut.stopped) == (False, True)
        assert LONG.startswith(cut.text)
        assert cut.text == "".join(e.text for e in s.events(ReplyDelta))
        s.engine.resume()
        assert (await s.ended()).reply == "In short: no."
        assert f"{cut.text}{STOPPED}" in s.server.of("main")[1].text
        assert s.events(ReplyDelta)[came - 1].text  # nothing of the first came later
        assert "Sentence 39" not in "".join(m.text for m in replies(s))
        calls = [e.call.outcome for e in s.events(LlmCallFinished)]
        assert calls == ["cancelled", "ok"]  # what it took is counted
        assert [e.loop for e in s.events(LoopStarted)] == [1]  # and costs no loop


async def test_thoughts_alone_stay_too(tmp_path: Path) -> None:
    slow = held(done("Yes.", step="PLANNING"), 1, reasoning="Let me think about it.")
    async with session(tmp_path, script(slow, done("No.", step="PLANNING"))) as s:
        await s.engine.send("is it?")
        await s.until(lambda state: any(live.reasoning for live in state.live.values()))
        await pause(s)
        assert [(m.text, m.reasoning, m.stopped) for m in replies(s)] == [
            ("", "Let me think about it.", True)
        ]
        s.engine.resume()
        assert (await s.ended()).reply == "No."


async def test_nothing_of_a_call_that_was_being_written_is_carried_out(tmp_path: Path) -> None:
    writes = decision("I write.", action("file_ops.write_file", path="a.txt", content="x" * 400))
    slow = held(writes, 420)
    async with session(tmp_path, script(slow, done("As you say.")), protocol="tools") as s:
        await s.engine.send("write it")
        await s.until(lambda state: any(live.text for live in state.live.values()))
        await pause(s)
        await s.engine.send("rather not")
        assert (await s.ended()).outcome == "answered"
        asked = s.server.of("main")[1]
        assert asked.text.index(f"I write.{STOPPED}") < asked.text.index("rather not")
        assert s.results() == []
        assert not (s.workspace / "a.txt").exists()


async def test_before_the_first_word_nothing_is_kept_and_the_same_is_asked_again(
    tmp_path: Path,
) -> None:
    slow = held(done("Yes.", step="PLANNING"))
    async with session(tmp_path, script(slow, done("No.", step="PLANNING"))) as s:
        await s.engine.send("is it?")
        await pause(s)
        assert replies(s) == []
        s.engine.resume()
        await s.ended()
        first, second = s.server.of("main")
        assert second.json["messages"] == first.json["messages"]


async def test_a_wait_that_the_server_asked_for_ends_too(tmp_path: Path) -> None:
    busy = Reply(fault=Fault(status=429, headers={"retry-after": "50"}))
    async with session(tmp_path, script(busy, done("Here.", step="PLANNING"))) as s:
        await s.engine.send("is it?")
        await s.until(lambda state: any(live.waiting for live in state.live.values()))
        s.engine.pause()
        await s.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        assert s.state.live == {}
        assert replies(s) == []
        s.engine.resume()
        assert (await s.ended()).reply == "Here."


async def test_the_second_time_the_work_is_stopped(tmp_path: Path) -> None:
    slow = held(done(LONG, step="PLANNING"), 200)
    async with session(tmp_path, script(slow, done("Again."))) as s:
        await s.engine.send("tell me all")
        await s.until(lambda state: any(live.text for live in state.live.values()))
        s.engine.pause()
        s.engine.stop()  # before anything of the pause was done
        assert (await s.ended()).outcome == "stopped"
        await s.server.wait_for_hangup("held", AT_ONCE)
        assert [m.stopped for m in replies(s)] == [True]
        assert await s.engine.retry()
        assert (await s.ended(2)).reply == "Again."


async def test_enter_right_behind_it_asks_again_at_once(tmp_path: Path) -> None:
    slow = held(done(LONG, step="PLANNING"), 200)
    async with session(tmp_path, script(slow, done("Again.", step="PLANNING"))) as s:
        await s.engine.send("tell me all")
        await s.until(lambda state: any(live.text for live in state.live.values()))
        for _ in range(3):
            s.engine.pause()
            s.engine.resume()
        assert (await s.ended()).reply == "Again."
        assert [m.stopped for m in replies(s)] == [True, False]


PLAN = (PROPOSE, done("Run it."), done("All done."))
TASKS = {"tasks": (tasks_reply(write("a.txt")),)}
TASKLIST = {"DUCKFLOW_EXECUTION__MODE": "tasklist"}


@pytest.mark.parametrize("purpose", ["plan", "task", "tasks", "report", "satisfaction"])
async def test_whatever_a_model_is_asked_for_is_asked_again_after_the_pause(
    tmp_path: Path, purpose: str
) -> None:
    """A plan, a decision in a step, its list of tasks, its report, the judge's word."""
    step = decision("I write.", action("file_ops.write_file", path="a.txt", content="a"))
    report = Reply(data={"status": "completed", "summary": "s", "cause": "", "next_action": ""})
    asked = {
        "main": PLAN,
        "plan": (plan_reply("first note"),),
        "task": (step, done("Written.")),
        "report": (report,),
        "satisfaction": (GOOD.model_copy(update={"repeat": False}),),
        **TASKS,
    }
    first = held(asked[purpose][0], 9)
    scripted = Script(replies={**asked, purpose: (first, *asked[purpose])})
    environ = TASKLIST if purpose == "tasks" else None
    async with session(tmp_path, scripted, mode="trusted", environ=environ) as s:
        await s.engine.send("notes please")
        if purpose != "plan":
            await answer(s, "run_steps" if purpose == "report" else "run_all")
        await pause(s)
        assert len(s.server.of(purpose)) == 1
        s.engine.resume()
        if purpose == "plan":
            await answer(s, "run_all")
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [WorkStatus.COMPLETED]


async def test_an_answer_beside_the_work_goes_on(tmp_path: Path) -> None:
    slow = held(done(LONG, step="PLANNING"), 200)
    beside = Reply(decision=done("Half way.").decision, hold="beside", hold_after=9)
    async with session(tmp_path, script(slow, beside, done("Again."))) as s:
        await s.engine.send("tell me all")
        await s.until(lambda state: any(live.text for live in state.live.values()))
        await s.engine.send("how far?", when="now")
        await s.server.reached("beside")
        await pause(s)
        s.server.release("beside")
        await s.until(lambda _: any(m.aside and m.complete for m in replies(s)))
        s.engine.resume()
        assert (await s.ended()).outcome == "answered"


async def test_a_kill_right_after_it_leaves_a_paused_turn_that_goes_on(tmp_path: Path) -> None:
    slow = held(done(LONG, step="PLANNING"), 200)
    async with session(tmp_path, script(slow)) as s:
        await s.engine.send("tell me all")
        await s.until(lambda state: any(live.text for live in state.live.values()))
        await pause(s)
        said = replies(s)[0].text
        s.cut()
    resumed = session(tmp_path, script(done("Again.", step="PLANNING")), resume=s.session_id)
    async with resumed as after:
        assert [(m.text, m.stopped) for m in replies(after)] == [(said, True)]
        assert "resume.interrupted" in after.notices()
        assert after.server.requests == []
        after.engine.resume()
        assert (await after.ended()).reply == "Again."
        assert f"{said}{STOPPED}" in after.server.of("main")[0].text
