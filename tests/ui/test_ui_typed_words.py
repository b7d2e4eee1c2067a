"""Words that are typed at a question answer nothing and reach the composer; a key alone acts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import inf

import pytest
from support.app_states import FakeEngine, app_with, at_question, settled, standing
from support.consults import at_work, budget, consultation, escalation, question
from support.gates import gate
from support.plans import FIX, change_card, drafted, report_card, working
from support.plans import report as step_report
from support.screens import screen_text
from support.typist import TRUE_DELAY, Typist, key
from support.whole import rounds
from textual import events

from duckflow_tui.state.gates import IN_SANDBOX, Gate, GateChoice
from duckflow_tui.state.operations import ApprovalMode, Effect
from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes import key_guard
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.confirm import Confirm

SENTENCES = (
    "also cap the discount",
    "yes but keep the old name",
    "say why first",
    "a cap would be fine",
    "i think that is wrong",
    "no, use the other file",
    "not that one",
    "so it is",
    "the test is wrong",
    "please wait",
    "xylophone",
    "zoom in on that",
    "1 more try",
    "2 files are missing",
    "could you explain",
    "edit the readme too",
    "just a moment",
    "k thanks",
    "kill it",
    "why? it worked",
    "very good",
    "we should test",
    "oops, wrong one",
    "or take the list",
    "more tests first",
    "ok",
    "go on",
    "lose the header",
    "retry with sudo",
    "don't",
    "aa, chotto matte",
    "yamete kudasai",
    "sore wa dame",
    "nani kore",
    "e, nande",
    "tabun daijoubu",
    "jaa, tsugi",
)

#: Which sentences begin with a word of one letter that is an answer: alone for a while, it is one.
_ANSWERS = ("1 ", "2 ")


def edit() -> Store:
    return working(at_gate=True)


def command() -> Store:
    store = working(at_gate=True)
    asked: Gate = gate(
        [],
        operation="shell.run",
        effect=Effect.EXECUTE,
        args={"command": "pytest -q"},
        grant_pattern=f"shell.run {IN_SANDBOX}",
        grant_only=f"shell.run {IN_SANDBOX} pytest -q",
        can_grant_routine=True,
        can_grant_project=True,
        can_grant_step=True,
        step_id=FIX,
        can_edit=False,
    )
    store.state.gates = (asked,)
    return store


QUESTIONS: dict[str, Callable[[], Store]] = {
    "edit": edit,
    "command": command,
    "plan": drafted,
    "change": lambda: working(cards=(change_card(),)),
    "report": lambda: working(cards=(report_card(step_report()),)),
    "stuck": lambda: at_work("en", consultation(Pattern.STAGNATION)),
    "limit": lambda: at_work("en", consultation(Pattern.LIMIT)),
    "escalation": lambda: at_work("en", escalation()),
    "budget": lambda: at_work("en", budget()),
    "question": lambda: at_work("en", question()),
}


@pytest.fixture
def typist(monkeypatch: pytest.MonkeyPatch) -> Typist:
    return Typist(monkeypatch)


async def go_to_question(app: DuckflowApp, typist: Typist) -> None:
    bench = app.bench
    if app.screen is not bench:
        await app.pop_screen()
    bench.composer.replace_text("")
    bench.set_focus(bench.composer)
    assert typist.pilot is not None
    await settled(typist.pilot, lambda: bench.talk.open_question is not None, "a question")
    await typist.waits(1.0)
    bench.set_focus(bench.talk.open_question)
    await settled(typist.pilot, lambda: bench.focused is bench.talk.open_question)


def consent(fake: FakeEngine, app: DuckflowApp) -> tuple[object, ...]:
    """All that a key could have answered, chosen or changed."""
    left_out = set(app.bench.question._document.left_out)  # pyright: ignore[reportPrivateUsage]  # what y would apply
    answers = (*fake.answers, *fake.card_answers, *fake.plan.asked)
    return answers, left_out, fake.store.state.mode


@pytest.mark.parametrize("kind", QUESTIONS)
async def test_a_sentence_typed_at_a_question_is_whole_in_the_composer(
    kind: str, typist: Typist
) -> None:
    """At any pace of a writer, after any pause, with any pause between its words."""
    chance = random.Random(kind)
    fake = FakeEngine(QUESTIONS[kind]())
    app = app_with(fake)
    async with standing(app) as pilot:
        typist.pilot = pilot
        for sentence in chance.sample(SENTENCES, rounds(len(SENTENCES), 8)):
            await go_to_question(app, typist)
            before = consent(fake, app)
            pauses: dict[int, float] = {}
            if not sentence.startswith(_ANSWERS):
                spaces = [at for at, char in enumerate(sentence) if char == " "]
                places = [at + chance.randint(0, 1) for at in spaces]
                pauses = {at: chance.choice((0.1, 0.5, 1.2)) for at in places}
            first, gap = chance.choice((0.0, 0.2, 0.35, 2.0)), 1 / chance.uniform(3, 12)
            case = f"{sentence!r} after {first}, {gap:.3f} apart, pauses {pauses}"
            await typist.waits(first)
            await typist.types(sentence, gap, pauses)
            await typist.waits(1.0)
            assert consent(fake, app) == before, case
            assert app.screen is app.bench, case
            assert app.bench.composer.text == sentence, case
            assert app.bench.focused is app.bench.composer, case


async def at(app: DuckflowApp, typist: Typist) -> None:
    """The user is at the question, and has been for a while."""
    await go_to_question(app, typist)
    await typist.waits(SETTLE_S)


async def test_a_key_alone_shows_at_once_what_it_does_and_does_it_after_a_moment(
    typist: Typist,
) -> None:
    for language, said in (("en", "allowing…"), ("ja", "許可します…")):
        fake = FakeEngine(edit())
        app = app_with(fake, language=language)
        async with standing(app) as pilot:
            typist.pilot = pilot
            await at(app, typist)
            await typist.press("y")
            assert said in screen_text(app)
            await typist.waits(0.39)
            assert fake.answers == []
            await typist.waits(0.02)
            assert [answer.choice for answer in fake.answers] == [GateChoice.ONCE]


@pytest.mark.parametrize(
    ("letter", "shows", "text"),
    [
        (".", " .  less", ""),
        ("]", "▸", ""),
        ("i", " .  less", "iy"),
        ("z", " Diff  src/shop/pricing.py  +3 −2   ", "zy"),
    ],
)
async def test_a_key_that_decides_nothing_acts_at_once(
    letter: str, shows: str, text: str, typist: Typist
) -> None:
    """After a sign an answer is one, however soon it comes; two letters are a word."""
    fake = FakeEngine(edit())
    app = app_with(fake)
    async with standing(app) as pilot:
        typist.pilot = pilot
        await at(app, typist)
        for key_ in (letter, "[" if letter == "]" else letter, letter):  # there and back
            await typist.press(key_)
        assert shows in screen_text(app)
        await typist.press("y")
        await typist.waits(1.0)
        assert len(fake.answers) == (not text)
        assert app.bench.composer.text == text


async def test_enter_confirms_at_once_what_can_be_seen(typist: Typist) -> None:
    fake = FakeEngine(edit())
    app = app_with(fake)
    async with standing(app) as pilot:
        typist.pilot = pilot
        await at(app, typist)
        app.post_message(key("y"))  # in one go, as a line that was pasted
        app.post_message(events.Key("enter", "\r"))
        await settled(pilot, lambda: app.bench.focused is app.bench.composer, "the focus")
        await typist.waits(1.0)
        assert (fake.answers, fake.sent) == ([], [])
        await at(app, typist)
        await typist.press("y")
        await settled(pilot, lambda: app.bench.question._guard._seen_at < inf, "the screen")  # pyright: ignore[reportPrivateUsage]  # drawn since
        await pilot.press("enter")
        await settled(pilot, lambda: bool(fake.answers), "the answer")


async def test_a_key_still_on_its_way_when_the_wait_ends_makes_both_a_text(typist: Typist) -> None:
    """However long the app takes to hand it on."""
    fake = FakeEngine(edit())
    app = app_with(fake)
    async with standing(app) as pilot:
        typist.pilot = pilot
        await at(app, typist)
        await typist.press("y")
        app.key_queue.hold_keys()
        app.post_message(key("e"))
        await typist.waits(0.5)
        assert fake.answers == []
        await app.key_queue.release_keys()
        await settled(pilot, lambda: app.bench.composer.text == "ye", "the text")
        await typist.waits(1.0)
        assert fake.answers == []


@pytest.mark.parametrize("taken_back", ["escape", "backspace", "down"])
async def test_any_other_key_takes_an_answer_back(taken_back: str, typist: Typist) -> None:
    fake = FakeEngine(edit())
    app = app_with(fake)
    async with standing(app) as pilot:
        typist.pilot = pilot
        await at(app, typist)
        await typist.press("y")
        await pilot.press(taken_back)
        await typist.waits(1.0)
        assert (fake.answers, app.bench.composer.text) == ([], "")


@pytest.mark.parametrize("kind", ["edit", "plan", "stuck"])
async def test_what_is_no_single_key_answers_nothing(kind: str, typist: Typist) -> None:
    """A key that is held down, what an input method commits, a paste."""
    fake = FakeEngine(QUESTIONS[kind]())
    app = app_with(fake)
    async with standing(app) as pilot:
        typist.pilot = pilot
        letter = "1" if kind == "stuck" else "y"
        await at(app, typist)
        await typist.types(letter * 20, 0.033)
        await typist.waits(1.0)
        assert "came several times" in screen_text(app)
        assert app.bench.composer.text == ""
        for committed in ("はい", "ｙｅｓ", "あ"):
            await at(app, typist)
            for character in committed:
                app.post_message(key(character))
            await typist.waits(1.0)
            assert app.bench.composer.text == committed
        for pasted in ("y", "yes\n1"):
            await at(app, typist)
            app.post_message(events.Paste(pasted))
            await typist.waits(1.0)
            assert app.bench.composer.text == pasted
        assert not consent(fake, app)[0]


@pytest.mark.parametrize(
    ("letter", "choice", "scope"),
    [
        ("s", GateChoice.SESSION, "every command inside the folder, in the sandbox"),
        ("x", GateChoice.ONLY, "only pytest -q, in the sandbox"),
        ("t", GateChoice.STEP, "until this step of the plan ends"),
        ("p", GateChoice.PROJECT, "in later sessions too"),
        ("a", GateChoice.ROUTINE, "every edit inside the folder, and every command there"),
    ],
)
async def test_what_widens_rights_shows_its_scope_and_takes_a_second_key(
    letter: str, choice: GateChoice, scope: str, typist: Typist
) -> None:
    fake = FakeEngine(command())
    app = app_with(fake)
    async with standing(app) as pilot:
        typist.pilot = pilot
        await at(app, typist)
        await typist.press(letter)
        await typist.waits(0.5)
        assert scope in " ".join(screen_text(app).split())
        assert fake.answers == []
        await typist.press(letter)  # nobody has read it yet: 0.1 s
        await typist.waits(1.0)
        assert fake.answers == []
        await typist.press(letter)
        await typist.waits(0.5)
        assert [answer.choice for answer in fake.answers] == [choice]


async def test_words_typed_at_the_question_of_trusted_mode_leave_the_mode(typist: Typist) -> None:
    fake = FakeEngine(edit())
    app = app_with(fake)
    async with standing(app) as pilot:
        typist.pilot = pilot
        for text in ("yes, do", "yy", "no", "y"):
            app.bench.composer.replace_text("")
            app.action_mode("trusted")
            await settled(pilot, lambda: isinstance(app.screen, Confirm), "the question")
            await typist.waits(SETTLE_S)
            await typist.types(text, 0.3)
            await typist.waits(0.5)
            expected = ApprovalMode.TRUSTED if text == "y" else ApprovalMode.STANDARD
            assert fake.store.state.mode is expected, text
            if text == "yy":
                await pilot.press("escape")
            elif text != "y":
                await settled(pilot, lambda: app.bench.composer.text != "", "the text")
                assert app.bench.composer.text == text


async def test_an_answer_at_the_programs_own_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """In real time, with the delay that a user has."""
    monkeypatch.setattr(key_guard, "DELAY_S", TRUE_DELAY)
    fake = FakeEngine(edit())
    app = app_with(fake)
    async with standing(app) as pilot:
        await at_question(pilot)
        began = time.monotonic()
        await pilot.press("y")
        await settled(pilot, lambda: bool(fake.answers), "the answer")
        assert time.monotonic() - began >= TRUE_DELAY
