"""What is said while work runs: answered in order, each for itself, and none held up by another."""

from __future__ import annotations

from pathlib import Path

from support.plan_talk import PROPOSE, answer, begin_plan, plan_reply
from support.session import Session, action, decision, done, note_of, script, session

from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Reply, Script, When
from duckflow_tui.state.conversation import BESIDE_THE_WORK, AssistantMessage, UserMessage
from duckflow_tui.state.gates import CardKind, GateChoice

WRITES = decision(
    "Written.", action("file_ops.write_file", path="a.txt", content="a\n"), next_step="done"
)


def working(*beside: Reply) -> Script:
    """A plan of one step, which waits at a gate; these answer what is said meanwhile."""
    return script(PROPOSE, *beside, done("All done."), plan=plan_reply("first note"), task=WRITES)


async def at_the_gate(running: Session) -> None:
    await begin_plan(running)
    await running.gate()


async def answers(running: Session, count: int) -> list[str]:
    """What was answered beside the work, once there are so many."""

    def said() -> list[str]:
        messages = running.state.messages
        return [m.text for m in messages if isinstance(m, AssistantMessage) and m.aside]

    await running.until(lambda _: len(said()) >= count)
    return said()


def last_words(request: Request) -> str:
    """The last message that is not the app's note."""
    texts = [str(message["content"]) for message in request.json["messages"]]
    return texts[-2] if texts[-1] == note_of(request) else texts[-1]


async def test_two_messages_at_once_are_answered_in_order_each_for_itself(tmp_path: Path) -> None:
    """The second request waits for the first answer, and each ends with its own message."""
    slow = Reply(decision=done("Half way.").decision, hold="first")
    async with session(tmp_path, working(slow, done("It is a.txt."))) as running:
        await at_the_gate(running)
        before = len(running.server.of("main"))
        await running.engine.send("how far are you?", when="now")
        await running.engine.send("which file?", when="now")
        await running.server.reached("first")
        said = [m.text for m in running.state.messages if isinstance(m, UserMessage) and m.aside]
        assert said == ["how far are you?", "which file?"]  # both stand in the chat at once
        assert len(running.server.of("main")) == before + 1
        running.server.release("first")
        assert await answers(running, 2) == ["Half way.", "It is a.txt."]
        first, second = running.server.of("main")[before:]
        assert last_words(first) == f"{BESIDE_THE_WORK}\nhow far are you?"
        assert "which file?" not in first.text
        assert last_words(second) == f"{BESIDE_THE_WORK}\nwhich file?"
        assert "Half way." in second.text
        await running.answer(GateChoice.ONCE)
        assert (await running.ended()).outcome == "done"


async def test_a_change_of_the_plan_that_waits_holds_no_question_up(tmp_path: Path) -> None:
    """The question behind it is answered while the card is open; then the change is accepted."""
    change = {"op": "add", "step_id": "n", "name": "third note", "depends_on": ["1"]}
    wish = decision("A third.", action("plan_tool.revise", changes=[change]), next_step="done")
    async with session(tmp_path, working(wish, done("Half way."))) as running:
        await at_the_gate(running)
        await running.engine.send("a third one too", when="now")
        await running.engine.send("how far are you?", when="now")
        assert await answers(running, 2) == ["A third.", "Half way."]
        assert [card.kind for card in running.state.cards] == [CardKind.PLAN_CHANGE]
        await answer(running, "accept")
        await running.until(lambda s: len(s.active_plan.steps if s.active_plan else ()) == 2)


async def test_an_answer_that_goes_on_after_the_users_key_still_has_its_own_message(
    tmp_path: Path,
) -> None:
    change = {"op": "add", "step_id": "n", "name": "third note", "depends_on": ["1"]}
    revise = action("plan_tool.revise", changes=[change])
    replies = working(
        decision("A third.", revise),
        done("Half way."),
        Reply(decision=done("Then without it.").decision, when=When(pattern="refused the change")),
    )
    async with session(tmp_path, replies) as running:
        await at_the_gate(running)
        await running.engine.send("a third one too", when="now")
        await running.engine.send("how far are you?", when="now")
        await answers(running, 2)
        await answer(running, "reject", "no, leave it")
        assert (await answers(running, 3))[-1] == "Then without it."
        asked = running.server.of("main")[-1]
        assert "no, leave it" in last_words(asked)
        assert "a third one too" in note_of(asked)


async def test_a_stop_ends_the_answers_that_wait_their_turn(tmp_path: Path) -> None:
    slow = Reply(decision=done("Half way.").decision, hold="first")
    async with session(tmp_path, working(slow, done("It is a.txt."))) as running:
        await at_the_gate(running)
        await running.engine.send("how far are you?", when="now")
        await running.engine.send("which file?", when="now")
        await running.server.reached("first")
        before = len(running.server.requests)
        running.engine.stop()
        assert (await running.ended()).outcome == "stopped"
        running.server.release("first")
        assert len(running.server.requests) == before
        assert running.state.live == {}


async def test_work_that_has_ended_meanwhile_is_not_halted(tmp_path: Path) -> None:
    """The answer beside the work comes after the turn, and wants to halt it."""
    halt = decision("I halt it.", action("task_loop.pause"))
    late = Reply(decision=halt.decision, hold="late", when=When(pattern="wait a moment"))
    over = Reply(decision=done("It is over.").decision, when=When(pattern="No work is going on"))
    async with session(tmp_path, working(late, over)) as running:
        await at_the_gate(running)
        await running.engine.send("wait a moment", when="now")
        await running.server.reached("late")
        await running.answer(GateChoice.ONCE)
        assert (await running.ended()).outcome == "done"
        running.server.release("late")
        assert (await answers(running, 2))[-1] == "It is over."
