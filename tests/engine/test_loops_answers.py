"""Answers to cards about the work move limit, stamina, requirements and plan as the card said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from support.pace_talk import ANALYSIS, DIGEST, LONG, files, reads, stuck
from support.plan_talk import PROPOSE, answer, begin_plan, card, plan_reply
from support.reviews import diagnosis, found, thrice
from support.session import Session, done, script, session

from duckflow_tui.state.gates import CONSULTATION_OPTIONS, ESCALATION_OPTIONS
from duckflow_tui.state.goal import RequirementItem
from duckflow_tui.state.pace import Pattern, running_pace
from duckflow_tui.state.plan import Plan
from duckflow_tui.ui.panes.card_words import option_effects
from duckflow_tui.words.catalogue import Catalogue

SAID = "round the sum"  # the user's words, wherever an answer takes some
HOLD = "the request behind the answer"


@dataclass(frozen=True, slots=True)
class Figures:
    """How far the work may go, and what it is about."""

    limit: int
    stamina: float
    attempt: int
    items: tuple[RequirementItem, ...]
    closed: bool
    plan: Plan | None

    @classmethod
    def of(cls, s: Session) -> Figures:
        state, pace = s.state, running_pace(s.state)
        assert pace is not None
        assert state.objective is not None
        return cls(
            pace.limit.max_loops,
            state.vitals.stamina,
            state.turn.attempt if state.turn else 0,
            state.objective.extracted_requirements,
            state.objective.closed,
            state.active_plan,
        )


def moves_of_pace(before: Figures, now: Figures) -> str:
    """The words of a card for how limit and stamina moved."""
    by = now.limit - before.limit
    if now.attempt > before.attempt:
        assert now.stamina == round(1 - 0.1 * (now.attempt - 1), 4)
        return "limit and stamina reset"
    if by:
        assert now.stamina > before.stamina
        return f"limit +{by}, stamina up"
    assert now.stamina == before.stamina
    return "limit and stamina same"


def moves_of_ledger(s: Session, before: Figures, now: Figures) -> str:
    """The words of a card for how the requirements moved; empty where they did not."""
    old = {item.requirement_id: item for item in before.items}
    added = [i for i in now.items if i.requirement_id not in old and i.requirement == SAID]
    if any(i.priority > old[i.requirement_id].priority for i in now.items if i not in added):
        return "comes first"
    if added:
        return "becomes a requirement"
    asked = s.server.of("requirements")
    return "adds to the request" if asked and SAID in asked[-1].text else ""


def moves_of_plan(s: Session, before: Figures, now: Figures) -> str:
    """The words of a card for how the plan moved; empty where it did not."""
    if now.plan is None or before.plan is None:
        return (
            "a plan of small steps"
            if "plan_tool.propose whose" in s.server.of("main")[-1].new_text
            else ""
        )
    if now.plan.steps[0].taken:
        return f"step done, plan {'on hold' if now.plan.halted else 'goes on'}"
    if any("change the plan with plan_tool.revise" in r.text for r in s.server.of("main")):
        return "the AI changes the plan"
    return "plan on hold" if now.plan.halted and not before.plan.halted else ""


def moves_of_work(s: Session, now: Figures) -> str:
    """The words of a card for what became of a turn that ended."""
    assert s.state.last_turn is not None
    if now.closed:
        stopped = s.state.last_turn.outcome == "stopped"
        return "closes the request as stopped" if stopped else "closes the request"
    waits = "consulting.analysis" in s.notices()
    return "waits for you" if waits else "request stays open"


async def effects_of(s: Session, way: str) -> tuple[set[str], set[str]]:
    """Answer the open card so: the effects that it names, and those that are seen. Work that goes
    on by its words is looked at while its next request is held.
    """
    shown = await card(s)
    option = next(option for option in shown.options if option.action == way)
    named = option_effects(shown, Catalogue("en"))[option.key].split(" · ")
    before, seen = Figures.of(s), set[str]()
    await answer(s, way, SAID if option.takes_text else "")
    if goes_on := any(effect.startswith("limit") for effect in named):
        await s.server.reached(HOLD)
        seen.add(moves_of_pace(before, Figures.of(s)))
    s.server.release(HOLD)
    await s.ended()
    now = Figures.of(s)
    plan = moves_of_plan(s, before, now)
    seen |= {plan, moves_of_ledger(s, before, now)}
    if not goes_on and not plan:
        seen.add(moves_of_work(s, now))
    return set(named) - TOLD, seen - {""}


#: Effects on nothing but what the model is told.
TOLD = {
    *("same approach", "drops the old approach", "looks elsewhere", "keeps a summary"),
    *("shows a summary", "weighs two others", "shows cause and fix"),
}
HELD = done("Then so.").model_copy(update={"hold": HOLD})
ASIDE = {"failure": (ANALYSIS,), "digest": (DIGEST,), "requirements": (found(), found())}


def expect(pattern: Pattern) -> list[str]:
    return [option.action for option in CONSULTATION_OPTIONS[pattern]]


@pytest.mark.parametrize(("pattern", "way"), [(p, way) for p in Pattern for way in expect(p)])
async def test_an_answer_does_to_a_turn_what_its_line_says(
    tmp_path: Path, pattern: Pattern, way: str
) -> None:
    """Covers S0-56."""
    files(tmp_path / "work", 6)
    replies, environ = stuck(pattern)
    scripted = script(*replies, HELD, **ASIDE)
    async with session(tmp_path, scripted, environ=environ) as s:
        await s.engine.send("go")
        await card(s)
        for words in ("it is fast", "it is small"):
            assert s.engine.ledger.add_requirement(words, 1) is None
        named, seen = await effects_of(s, way)
        assert seen == named


IN_STEP = [
    *((Pattern.LIMIT, way) for way in expect(Pattern.LIMIT)),
    (Pattern.LOW_CONFIDENCE, "split"),
    (Pattern.LOW_CONFIDENCE, "keep_approach"),
]


@pytest.mark.parametrize(("pattern", "way"), IN_STEP)
async def test_an_answer_does_to_a_step_what_its_line_says(
    tmp_path: Path, pattern: Pattern, way: str
) -> None:
    """Covers S0-56."""
    files(tmp_path / "work", 6)
    replies, environ = stuck(pattern)
    if pattern is Pattern.LIMIT:  # of the step alone
        replies, environ = replies[:2], {**LONG, "DUCKFLOW_EXECUTION__MAX_STEPS": "2"}
    held = reads("f04.py").model_copy(update={"hold": HOLD})
    scripted = script(
        PROPOSE,
        done("The plan stands."),
        plan=plan_reply("look around", "look again"),
        task=(*replies, held, done("Looked."), reads("f05.py"), done("Looked again.")),
        **ASIDE,
    )
    async with session(tmp_path, scripted, environ=environ) as s:
        await begin_plan(s, asks="two notes please")
        await s.until(lambda state: any(c.situation is not None for c in state.cards))
        assert s.engine.ledger.add_requirement("it is small", 1) is None
        named, seen = await effects_of(s, way)
        assert seen == named


ROUND = [option.action for option in ESCALATION_OPTIONS if option.action != "assistance"]


@pytest.mark.parametrize("way", ROUND)
async def test_an_answer_to_the_report_does_what_its_line_says(tmp_path: Path, way: str) -> None:
    """Covers S0-56."""
    scripted = thrice(HELD, failure=(diagnosis(),), requirements=(found(), found()))
    async with session(tmp_path, scripted, mode="trusted") as s:
        await s.engine.send("write the notes")
        named, seen = await effects_of(s, way)
        assert seen == named
