"""Hard limits on calls, tokens and cost: what is refused is never sent, and a key raises it."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from support import model_words
from support.pinned import CountingIds, ManualClock
from support.plan_talk import PROPOSE, answer, card, plan_reply
from support.prepared import UNTOUCHED
from support.reviews import WORDS, works
from support.session import Session, action, decision, done, script, session

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.headless import HeadlessOptions, run_turn
from duckflow_tui.places import Places
from duckflow_tui.safety.pending_questions import Desk
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.sessions import open_session
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import Card, CardAnswer, CardKind, CardOpened
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.state.turn import TurnInfo, TurnStarted
from duckflow_tui.state.usage import BudgetRaised
from duckflow_tui.tools.notices import Notices
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.work.budget import BudgetEnd, BudgetLimits, CallBudget

CALLS = "DUCKFLOW_EXECUTION__MAX_MODEL_CALLS"
TOKENS = "DUCKFLOW_LIMITS__MAX_TOKENS"
COST = "DUCKFLOW_LIMITS__MAX_COST"


def reads(name: str = "a.txt") -> Reply:
    return decision(f"I read {name}.", action("file_ops.read_file", path=name))


def workspace(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        (tmp_path / "work" / name).write_text(f"the words of {name}\n")


def sent(s: Session) -> list[str]:
    """The purposes of all chat requests that the endpoint got."""
    return [r.purpose for r in s.server.requests if r.method == "POST"]


async def budget(s: Session) -> Card:
    """The budget card, once it is open and everything that was on its way has come to rest."""
    found = await card(s)
    assert found.kind is CardKind.BUDGET
    return found


async def test_the_call_beyond_the_limit_is_not_sent_until_a_key_raises_it(tmp_path: Path) -> None:
    """Covers S1-43."""
    workspace(tmp_path)
    replies = script(reads("a.txt"), reads("b.txt"), reads("c.txt"), done())
    async with session(tmp_path, replies, environ={CALLS: "2"}) as s:
        await s.engine.send("read them")
        found = await budget(s)
        assert sent(s) == ["main", "main"]
        assert found.facts == {
            "what": "calls",
            "used": "2",
            "limit": "2",
            "raise_to": "4",
            "purpose": "main",
        }
        await answer(s, "raise_budget")
        assert (await budget(s)).facts["purpose"] == "satisfaction"  # judged work costs one more
        await answer(s, "raise_budget")
        assert (await s.ended()).outcome == "done"
        assert sent(s) == [*["main"] * 4, "satisfaction"]


@pytest.mark.parametrize(
    ("choice", "outcome", "closed"),
    [("accept_result", "done", True), ("stop_work", "stopped", False)],
)
async def test_what_is_not_raised_ends_the_turn_and_sends_nothing_more(
    tmp_path: Path, choice: str, outcome: str, closed: bool
) -> None:
    workspace(tmp_path)
    async with session(tmp_path, script(reads(), done("Next.")), environ={CALLS: "1"}) as s:
        await s.engine.send("read it")
        await budget(s)
        await answer(s, choice)
        assert (await s.ended()).outcome == outcome
        assert sent(s) == ["main"]
        assert s.objective.closed is closed
        assert (await s.turn("and now?")).outcome == "answered"  # each turn has its own calls
        assert sent(s) == ["main", "main"]


async def test_own_words_enter_the_conversation_and_are_no_consent_to_spend(
    tmp_path: Path,
) -> None:
    workspace(tmp_path)
    async with session(tmp_path, script(reads(), done()), environ={CALLS: "1"}) as s:
        await s.engine.send("read it")
        first = await budget(s)
        await answer(s, "tell", "only the first line matters")
        await s.until(lambda state: any(c.card_id != first.card_id for c in state.cards))
        assert sent(s) == ["main"]
        await answer(s, "raise_budget")
        assert (await budget(s)).facts["purpose"] == "satisfaction"
        await answer(s, "raise_budget")
        await s.ended()
        assert "only the first line matters" in s.server.of("main")[-1].new_text


async def test_repairs_are_calls_too(tmp_path: Path) -> None:
    broken = Reply(text="{this is no decision")
    async with session(tmp_path, script(broken, done()), environ={CALLS: "1"}) as s:
        await s.engine.send("hello")
        await budget(s)
        assert sent(s) == ["main"]
        await answer(s, "stop_work")
        await s.ended()
        assert sent(s) == ["main"]


async def test_a_review_is_refused_like_any_other_call(tmp_path: Path) -> None:
    tale = script(works(WORDS), done("Written."))
    async with session(tmp_path, tale, mode="trusted", environ={CALLS: "2"}) as s:
        await s.engine.send("write the notes and say why")
        assert (await budget(s)).facts["purpose"] == "satisfaction"
        assert sent(s) == ["main", "main"]
        await answer(s, "accept_result")
        end = await s.ended()
        assert (end.outcome, end.satisfaction) == ("done", None)
        assert sent(s) == ["main", "main"]


async def test_tokens_count_over_the_turns_of_a_session_and_raising_is_recorded(
    tmp_path: Path,
) -> None:
    replies = script(done("One."), done("Two."), done("Three."))
    async with session(tmp_path, replies, environ={TOKENS: "100"}) as s:
        await s.engine.send("hello")
        found = await budget(s)
        assert sent(s) == []  # the request alone has more tokens than that
        coming = int(found.facts["next"])
        assert (found.facts["what"], found.facts["used"]) == ("tokens", "0")
        assert 100 < coming <= int(found.facts["raise_to"]) <= coming + 100
        await answer(s, "raise_budget")
        await s.ended()
        (raised,) = s.events(BudgetRaised)
        assert str(100 + int(raised.by)) == found.facts["raise_to"]
        await s.engine.send("hello again")
        again = await budget(s)
        used = s.state.usage.tokens_in + s.state.usage.tokens_out
        assert again.facts["used"] == str(used)
        assert sent(s) == ["main"]
        await answer(s, "stop_work")
        await s.ended(2)
        assert sent(s) == ["main"]
        assert (s.state.phase, s.state.status) == (Phase.IDLE, Status.SUCCESS)


async def test_cost_is_counted_by_the_prices_of_the_settings(tmp_path: Path) -> None:
    replies = script(done("One."), done("Two."))
    async with session(tmp_path, replies, environ={COST: "0.001"}, price=10.0) as s:
        await s.turn("hello")
        assert (s.state.usage.cost or 0) > 0.001
        await s.engine.send("hello again")
        assert (await budget(s)).facts["what"] == "cost"
        assert sent(s) == ["main"]
        await answer(s, "raise_budget")
        await s.ended(2)
        assert s.state.usage.more_cost > 0
        assert "budget.no_price" not in s.notices()


async def test_a_model_without_a_price_is_said_once_and_does_not_count(tmp_path: Path) -> None:
    replies = script(done("One."), done("Two."))
    async with session(tmp_path, replies, environ={COST: "0.001"}) as s:
        await s.turn("first")
        assert (await s.turn("second")).outcome == "answered"
        assert s.notices().count("budget.no_price") == 1


async def test_headless_nobody_raises_it_and_the_status_is_four(tmp_path: Path) -> None:
    workspace(tmp_path)
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    err = io.StringIO()
    async with ScriptedEndpoint(script(reads(), done())) as server:
        flags = Flags(
            workspace=tmp_path / "work",
            base_url=server.base_url,
            model="scripted",
            protocol="json",
            headless=True,
            max_calls=1,
        )
        chosen = choose_session(flags, places, "en", UNTOUCHED)
        status = await run_turn(
            lambda spawn: open_session(chosen, spawn),
            HeadlessOptions(text="read it"),
            Catalogue("en"),
            io.StringIO(),
            err,
        )
        assert len(server.of("main")) == 1
    assert status == 4
    assert "The limit of 1 model call" in err.getvalue()


async def test_a_step_counts_its_own_calls_and_the_turn_its_own(tmp_path: Path) -> None:
    workspace(tmp_path)
    replies = script(
        PROPOSE,
        decision("I run it.", action("task_loop.run", step_id="1")),
        done(),
        plan=plan_reply("first note"),
        task=(reads("a.txt"), reads("b.txt"), reads("c.txt"), reads("d.txt"), done()),
    )
    async with session(tmp_path, replies, mode="trusted", environ={CALLS: "3"}) as s:
        await s.engine.send("two notes")
        assert (await card(s)).kind is CardKind.PLAN
        await answer(s, "run_all")
        found = await budget(s)
        plan = s.active_plan
        assert found.step_id == plan.steps[0].step_id
        assert (found.facts["purpose"], found.facts["limit"]) == ("task", "3")
        assert sent(s).count("task") == 3
        await answer(s, "raise_budget")
        await s.until(lambda state: any(c.card_id != found.card_id for c in state.cards))
        assert s.state.cards[0].step_id == ""  # the turn has made three calls of its own
        assert sent(s).count("task") == 5
        await answer(s, "raise_budget")
        assert (await s.ended()).outcome == "done"


async def test_a_step_whose_limit_is_not_raised_is_reported_without_a_call(tmp_path: Path) -> None:
    workspace(tmp_path)
    replies = script(
        PROPOSE,
        decision("I run it.", action("task_loop.run", step_id="1")),
        done(),
        plan=plan_reply("first note"),
        task=(reads("a.txt"), reads("b.txt"), reads("c.txt"), reads("d.txt"), done()),
    )
    async with session(tmp_path, replies, mode="trusted", environ={CALLS: "3"}) as s:
        await s.engine.send("two notes")
        await card(s)
        await answer(s, "run_all")
        await budget(s)
        before = sent(s)
        await answer(s, "accept_result")
        assert (await s.ended()).outcome == "done"
        assert sent(s) == before
        assert len(s.events(CardOpened)) == 2  # of the plan and of the limit: no card about a step
        report = next(m.report for m in s.state.messages if isinstance(m, ReportMessage))
        assert "limit of calls" in report.cause


# --- calls that come at once ---------------------------------------------------------------------


class Two:
    """A budget of one call, used up, and two calls that want to be made."""

    def __init__(self) -> None:
        ids = CountingIds()
        self.store = Store(AgentState(), ManualClock(), MemoryRecorder())
        self.desk = Desk(self.store, ids, model_words.WORDS)
        self.opened: list[Card] = []
        self._open = asyncio.Event()
        self.store.subscribe(lambda _, record: self._see(record.event))
        notices = Notices(self.store, ids)
        limits = BudgetLimits(max_calls=2)
        self.budget = CallBudget(self.store, ids, self.desk, notices, limits)
        self.store.dispatch(
            TurnStarted(turn=TurnInfo(turn_id="turn_1", message_id="m", started_at=1.0))
        )

    def _see(self, event: object) -> None:
        if isinstance(event, CardOpened):
            self.opened.append(event.card)
            self._open.set()

    async def both(self, choice: str) -> list[BaseException | None]:
        await self.budget.permit_call("main")
        await self.budget.permit_call("main")
        loop = asyncio.get_running_loop()
        calls = [
            loop.create_task(self.budget.permit_call("main")),
            loop.create_task(self.budget.permit_call("main", aside=True)),
        ]
        async with asyncio.timeout(30):
            await self._open.wait()
            first = self.opened[0]
            await self.desk.record_answer(
                CardAnswer(card_id=first.card_id, subject=first.subject, action=choice)
            )
            return await asyncio.gather(*calls, return_exceptions=True)


async def test_two_calls_at_once_open_one_card_and_both_go_on() -> None:
    two = Two()
    assert await two.both("raise_budget") == [None, None]
    assert len(two.opened) == 1


async def test_two_calls_at_once_are_both_refused_by_one_answer() -> None:
    two = Two()
    ends = await two.both("stop_work")
    assert [type(end) for end in ends] == [BudgetEnd, BudgetEnd]
    assert len(two.opened) == 1
