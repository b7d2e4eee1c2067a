"""Every key that the screen shows is a key that works there.

Keys are read from what a terminal gets, not from the table that draws them. Each is then pressed
where it is shown: something is another afterwards, or it is said why not.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pytest
from support import consults, context_states, goals, plans, rewind_states, running_states
from support.app_states import (
    app_with,
    asked,
    at_question,
    commanded,
    settled,
    standing,
    store_with,
)
from support.conversations import assistant, operation, user
from support.decision_states import RuledEngine, decided
from support.gates import gate, many_lines, preview
from support.pinned import ManualClock
from support.replays import replaying, story
from support.screens import screen_text
from support.session_shelf import NOW, shelf
from textual.pilot import Pilot
from textual.widget import Widget

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.plan import PlanStatus
from duckflow_tui.state.store import Store
from duckflow_tui.tools.memory import MemoryLine
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.list_page import ListPage
from duckflow_tui.ui.screens.sessions import SessionSource

#: How keys are printed, and what a terminal sends for them.
PRINTED: Final = {
    "Enter": "enter", "⏎": "enter", "Esc": "escape", "Tab": "tab", "space": "space",
    "↑": "up", "↓": "down", "←": "left", "→": "right", "PgUp": "pageup", "PgDn": "pagedown",
    "Home": "home", "End": "end", "+": "plus", "−": "minus", "[": "left_square_bracket",
    "]": "right_square_bracket", "/": "slash", "@": "at", "!": "exclamation_mark",
    ".": "full_stop",
}  # fmt: skip
#: Keys of which one alone may find nothing: they go one way and the other.
WAYS: Final = (
    {"up", "down"}, {"left", "right"}, {"home", "end"}, {"J", "K"},
    {"left_square_bracket", "right_square_bracket"}, {"down", "pagedown", "end"},
)  # fmt: skip
#: Of two ways the one that finds something where a list begins is tried first.
ONWARDS: Final = {"down", "right", "end", "J", "right_square_bracket"}
SCROLL: Final = {"pageup", "pagedown"}  # they find nothing where all is in sight
NAMED: Final = re.compile(r"(?<!\w)(?:\^[A-Z]|F\d+|(?:Ctrl|Alt)\+\w|Enter|Esc|Tab)(?!\w)")
EDGE: Final = re.compile(r"\s{2,}| · |[│╭╮╰╯─▏]+")
Group = tuple[str, ...]  # keys that are printed for one thing; the same key twice: pressed twice


def pressed(token: str) -> list[str]:
    """The names of the keys that a printed word stands for; none where it is no key."""
    if token in PRINTED:
        return [PRINTED[token]]
    if token and all(sign in PRINTED for sign in token):
        return [PRINTED[sign] for sign in token]
    if re.fullmatch("[a-zA-Z0-9]", token):
        return [token]
    if re.fullmatch(r"\^[A-Z]|Ctrl\+\w", token):
        return [f"ctrl+{token[-1].lower()}"]
    if re.fullmatch(r"Alt\+\w", token):
        return [f"alt+{token[-1]}"]
    return [token.lower()] if re.fullmatch(r"F\d+", token) else []


def keys_in(line: str) -> Iterator[Group]:
    """The keys that a line shows, in each language: those at the start of a piece of it, and
    elsewhere those that have a name.
    """
    for piece in EDGE.split(line):
        words, keys = piece.replace("1 … 9", "1").split(), list[str]()
        while words and (found := pressed(words[0])):
            keys += found
            words.pop(0)
        if keys:
            yield tuple(keys)
        for name in NAMED.findall(" ".join(words)):
            yield tuple(pressed(name))


@dataclass(frozen=True)
class Place:
    """A surface, how it is come to, and which keys stand on it at least."""

    has: str  # printed keys
    state: Callable[[str], Store]
    #: Keys; ``?`` goes to the open question, ``/x`` is a command.
    go: tuple[str, ...] = ()
    only: bool = False  # the other keys were pressed at a place like it


def talked(_language: str) -> Store:
    store = store_with()
    for number in range(12):
        store.state.messages += [user("why?", number), assistant("because\n\n" * 4, 20 + number)]
    return store


def gated(**fields: Any) -> Callable[[str], Store]:
    def build(language: str) -> Store:
        store = plans.working(language, at_gate=True)
        store.state.gates = (gate(can_grant_step=True, **fields),)
        return store

    return build


def hunked() -> Any:
    before = "".join(f"line {n}\n" for n in range(60))
    return preview("a.py", before, before.replace("line 5\n", "5\n").replace("line 40\n", "40\n"))


def changed(language: str) -> Store:
    """A change of two hunks was made."""
    store = plans.working(language)
    asked = gate(previews=(hunked(),))
    store.state.messages.append(operation("file_ops.edit_file", {"path": "a.py"}, gate=asked))
    return store


def consulted(language: str) -> Store:
    return consults.at_work(language, consults.consultation(Pattern.STAGNATION, language))


def questioned(language: str) -> Store:
    return consults.at_work(language, consults.question(language))


def reported(language: str) -> Store:
    return plans.working(language, cards=(plans.report_card(plans.failed_report(language)),))


def two_plans(language: str) -> Store:
    store = plans.working(language)
    other = plans.draft(language, plan_id="plan_00000002", status=PlanStatus.CLOSED)
    store.state.plans = (*store.state.plans, other)
    return store


def objective(language: str) -> Store:
    return goals.at_work(language, objective=True)


def background(_language: str) -> Store:
    store = talked("en")
    running_states.in_background(store)
    running_states.served(store)
    return store


def waiting(language: str) -> Store:
    store = plans.working(language)
    running_states.waits(store, ["one", "two"])
    return store


COMMAND: Final[dict[str, Any]] = {
    "operation": "shell.run", "args": {"command": "pytest -q"}, "previews": (),
    "can_grant_project": True, "can_edit": False,
}  # fmt: skip
PLACES: Final = {
    "idle": Place("@ / ! ^P F1", talked),
    "working": Place("@ / ! ^P F1 Enter Tab Esc", plans.working),
    "gate unfocused": Place("Enter ^P F1", gated()),
    "gate command": Place("y n . 1 2 Esc", gated(**COMMAND), ("?",)),
    "gate edit": Place("e .", gated(), ("?",), only=True),
    "gate hunks": Place("] [ space", gated(previews=(hunked(),)), ("?",), only=True),
    "gate long": Place("y", gated(previews=(many_lines(602),)), ("?",), only=True),
    "gate all about it": Place("e z c . Esc", gated(), ("?", "."), only=True),
    "command all about it": Place("s t p . Esc", gated(**COMMAND), ("?", "i"), only=True),
    "gate asks once": Place("y n", gated(previews=(many_lines(602),)), ("?", "y"), only=True),
    "diff": Place("] [ w", changed, ("alt+3",), only=True),
    "whole diff": Place("z Esc y n", gated(previews=(hunked(),)), ("?", "z")),
    "plan": Place("⏎ e a d J K p r s", plans.working, ("alt+2", "down")),
    "vitals": Place("^P F1", goals.falling, ("alt+4",)),
    "plan card": Place("y o e n c Esc", plans.drafted, ("?",)),
    "report card": Place("r k n", reported, ("?",), only=True),
    "question": Place("1 m Esc", questioned, ("?",), only=True),
    "consultation": Place("1 2 3 4 m ↑ ↓ Esc", consulted, ("?",)),
    "requirements": Place("Enter . / Esc", objective, ("/requirements",)),
    "working memory": Place("Enter / Esc", objective, ("/working",)),
    "context": Place("Enter / Esc", context_states.asked, ("/context",)),
    "sent": Place("/ Esc", context_states.asked, ("/context", "enter")),
    "rules": Place("Enter . Tab / Esc", decided, ("/rules", "down")),
    "no rules": Place("Tab Esc", talked, ("/rules",)),
    "decisions": Place("Enter . Tab / Esc", decided, ("/decisions",)),
    "rewind": Place("Enter . / Esc", lambda lang: rewind_states.asked(lang).store,
                    ("/rewind",)),
    "plans": Place("Enter . / Esc", two_plans, ("/plans",)),
    "memory": Place(". / Esc", talked, ("/memory",)),
    "settings": Place("Enter / Esc", talked, ("/settings",)),
    "network": Place(". Tab Esc", talked, ("/network",)),
    "background": Place(". / Esc", background, ("/ps",)),
    "servers": Place(". / Esc", background, ("/mcp",)),
    "queue": Place("Enter . / Esc", waiting, ("/queue",)),
    "sessions": Place("Enter . / Esc", talked, ("/sessions",)),
    "manual": Place("↑ ↓ ← → / Esc", talked, ("/help vitals",)),
    "palette": Place("Enter Esc", talked, ("ctrl+p",)),
}  # fmt: skip
#: Places that lie far from each other, for one app: a tour is a case, of which a sample runs. What
#: a key does has no language, so that each place is seen in English and some are in Japanese.
TOURS: Final = [
    *(("en", list(PLACES)[first::9]) for first in range(9)),
    ("ja", list(PLACES)[::4]),
]


class Desk:
    """The app at one place after the other."""

    def __init__(self, app: DuckflowApp, fake: RuledEngine, pilot: Pilot[int]) -> None:
        self.app, self.fake, self.pilot = app, fake, pilot
        self._times = 0
        self.place = PLACES["idle"]

    async def come_to(self, place: Place) -> None:
        """All is as it was, and the keys go to that place."""
        another, self.place = self.place is not place, place
        app, state = self.app, self.fake.store.state
        while len(app.screen_stack) > 1:
            app.pop_screen()
        self._times += 1
        vars(state).update(copy.deepcopy(vars(place.state(app.words.language).state)))
        state.gates = tuple(
            g.model_copy(update={"gate_id": f"g{self._times}"}) for g in state.gates
        )
        state.cards = tuple(
            c.model_copy(update={"card_id": f"c{self._times}"}) for c in state.cards
        )
        app.bench.composer.replace_text("")
        app.bench.column, app.bench.zoomed = "side", False
        app.bench.to_composer()
        if another:
            await app.bench.show_session(self.fake.store)
        app.state = state
        app.status.clear_message()
        await self.pilot.pause()
        app.bench.to_composer()  # a question may have taken the focus of the one before
        if state.gates or state.cards:
            await asked(self.pilot)
        for key in place.go:
            before = app.screen
            if key == "?":
                await at_question(self.pilot)
            elif key.startswith("/"):
                await commanded(self.pilot, key)
                await settled(self.pilot, lambda b=before: app.screen is not b, key)
            else:
                await self.pilot.press(key)
            await self.settle()
        page = cast("object", app.screen)
        source = page.source if isinstance(page, ListPage) else None
        if isinstance(source, SessionSource):
            await settled(
                self.pilot, lambda: not source.is_reading and source.is_previewed, "the list"
            )

    async def settle(self) -> None:
        """What was pressed is drawn, and the next key is meant for where the focus is now."""
        await self.pilot.pause()
        assert isinstance(self.app.clock, ManualClock)
        self.app.clock.advance(SETTLE_S)

    def lines(self) -> list[str]:
        """What the screen shows where it shows keys."""
        app, bench = self.app, self.app.bench
        rows = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]  # what a terminal gets

        def of(widget: Widget) -> list[str]:
            if not (widget.display and widget.is_on_screen):
                return []
            left, right = widget.region.x, widget.region.right
            cut = rows[widget.region.y : widget.region.bottom]
            return [row.crop(left, right).text for row in cut]

        if app.screen is not bench:
            pages = app.screen.query(".card, .whole").results(Widget)
            found = [row for page in pages for row in of(page)]
            if app.screen.query(".list-card"):  # above stands what is listed
                ends = (n for n, row in enumerate(found) if not row.strip("│ "))
                found = found[max(ends) :]
            elif app.screen.query(".whole"):
                found = [row for row in found if row.strip()][-1:]
            elif app.screen.query(".card-page, .card-field"):
                found = found[:3]
            return found
        found = [*of(bench.question)]
        written = of(bench.composer)
        found += written if bench.focused is bench.composer else written[-1:]
        if bench.focused is bench.plan:
            found += of(bench.plan)[-4:]
        if bench.focused is bench.diff.view:
            found += of(bench.diff.query_one(".diff-foot"))
        if not self.place.only:
            (bar,) = of(bench.status)
            found += [bar[40:]]  # before that are figures
            if bench.talk.chat is not None:
                found += [row for row in of(bench.talk.chat) if "Esc" in row][-1:]
        return found

    def shows(self) -> list[Group]:
        return [group for line in self.lines() for group in keys_in(line)]

    def stands(self) -> tuple[object, ...]:
        """All that a key could change."""
        app, fake = self.app, self.fake
        told = [
            fake.asked, fake.sent, fake.commands, fake.answers, fake.card_answers, fake.plan.asked,
            fake.plan.edits, fake.context.asked, fake.rewind.asked, fake.memory.asked,
        ]  # fmt: skip
        # A notice behind a page is drawn on nothing.
        seen = screen_text(app), app.status.notice_text
        return *seen, app.screen.focused, len(app.screen_stack), repr(told)

    async def acts(self, keys: Group) -> bool:
        """Whether something is another once they are pressed."""
        await self.settle()
        before = self.stands()
        for number, key in enumerate(keys):
            if number:
                await self.settle()
            await self.pilot.press(key)
        return await another(self.pilot, self.stands, before)


async def another(pilot: Pilot[int], stands: Callable[[], object], before: object) -> bool:
    """Whether it comes to be another, or the app ends."""
    for wait in (0.0, 0.02, 0.05, 0.1, 0.2):
        await pilot.pause(wait)
        if stands() != before or pilot.app._exit:  # pyright: ignore[reportPrivateUsage]  # as Textual tells it
            return True
    return False


def onwards(key: str) -> bool:
    """Sorts the keys that go onwards before the others."""
    return key not in ONWARDS


async def dead_keys(desk: Desk, place: Place) -> list[str]:
    """The keys of the place that do nothing and say nothing."""
    await desk.come_to(place)
    expected = {key for name in place.has.split() for key in pressed(name)}
    for wait in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6):
        shown = desk.shows()
        printed = {key for group in shown for key in group}
        if expected <= printed:
            break
        await desk.pilot.pause(wait)
    assert expected <= printed, (expected - printed, desk.lines())
    twice = {g for g in shown if shown.count(g) > 1 and set(g) <= expected}
    assert not twice, (twice, desk.lines())
    dead: list[str] = []
    for group in dict.fromkeys(shown):
        if place.only and not set(group) & expected:
            continue
        if set(group) <= SCROLL:
            if not set(group) & set(desk.app.screen.active_bindings):
                dead.append(" ".join(group))
            continue
        ways = any(set(group) <= way for way in WAYS)
        alike = len(set(group)) == 1
        worked: list[bool] = []
        for keys in [group] if alike else [(key,) for key in sorted(group, key=onwards)]:
            if ways and any(worked):
                break
            if desk.shows() != shown:
                await desk.come_to(place)
            acted = await desk.acts(keys)
            if not acted:  # what the last key left may say the same
                await desk.come_to(place)
                acted = await desk.acts(keys)
            worked.append(acted)
        if not (any(worked) if ways else all(worked)):
            dead.append(" ".join(group))
    return dead


@pytest.mark.parametrize(
    ("language", "places"), TOURS, ids=[f"{language}-{places[0]}" for language, places in TOURS]
)
async def test_each_key_that_is_shown_does_something_there(
    language: str, places: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or says why not; and none is shown twice at once."""
    monkeypatch.chdir(tmp_path)  # the file of the settings is made where the app runs
    shelf(tmp_path, language)
    fake = RuledEngine(store_with())
    fake.memory.noted += (MemoryLine(n, "worked", f"{n}", "2025-06-12") for n in (4, 5))
    fake.context = context_states.engine(context_states.asked(language), language).context
    app = app_with(fake, language=language, catalog=Catalog(tmp_path, clock=ManualClock(NOW)))
    found: dict[str, list[str]] = {}
    async with standing(app) as pilot:
        desk = Desk(app, fake, pilot)
        for name in places:
            if dead := await dead_keys(desk, PLACES[name]):
                found[name] = dead
    assert not found


async def test_each_key_that_a_replay_shows_does_something() -> None:
    async with replaying(story()) as (app, pilot):
        line = screen_text(app).splitlines()[-2]
        groups = [group for group in keys_in(line) if len(group) < 3]
        printed = {key for group in groups for key in group}
        assert {"space", "left", "right", "n", "p", "plus", "minus", "home", "end", "q"} == printed
        await pilot.press("n")
        for group in groups:
            for key in group:
                before = screen_text(app)
                await pilot.press(key)
                assert await another(pilot, lambda: screen_text(app), before), key
