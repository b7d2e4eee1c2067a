"""From the first key to the first session: type-ahead, the first screen, the demo."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any, cast

import pytest
from support.app_states import (
    FakeEngine,
    FakeSessions,
    app_on,
    app_with,
    settled,
    standing,
    store_with,
)
from support.pinned import ManualClock
from support.screens import screen_text
from textual import events
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.message import Message

from duckflow_tui.settings import SettingProblem
from duckflow_tui.state.session import DraftSaved
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions


async def test_keys_before_the_composer_stands_arrive_in_order() -> None:
    app = app_with(FakeEngine(store_with()))
    came: list[events.Event] = [events.Key(char, char) for char in "hello wörld"]
    came += [events.Paste(" pasted"), events.Key("x", "x")]

    def begins(message: Message) -> None:
        """As the driver does: nobody has waited for the screen."""
        if isinstance(message, events.Load):
            while came:
                app.post_message(came.pop(0))

    async with app.run_test(message_hook=begins) as pilot:
        await settled(pilot, lambda: app.bench.composer.text == "hello wörld pastedx")


async def test_the_style_sheets_are_parsed_only_once_the_screen_has_added_its_own() -> None:
    """Parsed before it, all of them would be parsed a second time."""
    parsed: list[bool] = []

    class Sheet(Stylesheet):
        def parse(self) -> None:
            parsed.append(bool(app.screen_stack))
            super().parse()

        def reparse(self) -> None:
            parsed.append(bool(app.screen_stack))
            super().reparse()

    app = app_with(FakeEngine(store_with()))
    app.stylesheet = Sheet(variables=app.get_css_variables())
    async with standing(app):
        assert parsed
        assert all(parsed)
        assert app.bench.styles.background == Color.parse(app.theme_variables["background"])


async def test_what_is_sent_before_the_session_is_open_is_sent_once_it_is() -> None:
    held = asyncio.Event()
    fake = FakeEngine(store_with())
    app = app_with(fake, held=held)
    async with app.run_test() as pilot:
        await pilot.press("o", "n", "e", "enter", "t", "w", "o")
        await settled(pilot, lambda: [unsent.text for unsent in app.session.unsent] == ["one"])
        assert app.bench.composer.text == "two"
        held.set()
        await settled(pilot, lambda: fake.sent == ["one"])
        assert app.bench.composer.text == "two"


class SavedMeanwhile(FakeEngine):
    """Its session's draft is saved, as half a second after a key, while its chat is being made."""

    app: DuckflowApp

    def keep_draft(self, text: str) -> None:
        self.store.dispatch(DraftSaved(text=text))

    def lend_terminal(self, lend: object) -> None:
        self.app.session.keep_draft()


@pytest.mark.parametrize("before", ["", "half a thought"])
async def test_what_is_typed_while_the_session_opens_is_there_once(before: str) -> None:
    held, fake = asyncio.Event(), SavedMeanwhile(store_with())
    fake.store.dispatch(DraftSaved(text=before))
    fake.app = app = app_with(fake, held=held)
    async with app.run_test() as pilot:
        await pilot.press(*"fix")
        await settled(pilot, lambda: app.bench.composer.text == "fix")
        held.set()
        await settled(pilot, lambda: not app.session.opening)
        assert app.bench.composer.text == "\n".join(filter(None, (before, "fix")))


@pytest.mark.parametrize("request_text", ["fix it", "!make test"])
async def test_a_request_of_the_command_line_is_sent_as_if_it_were_typed(
    request_text: str,
) -> None:
    """Once a session is open; where none can be, it waits in the composer."""
    for fake in (FakeEngine(store_with()), None):
        options = AppOptions(animation=False, request=request_text)
        app = app_on(FakeSessions(fake), options, ManualClock())
        async with app.run_test() as pilot:
            if fake is None:
                await settled(pilot, lambda app=app: app.bench.talk.welcome is not None)
                await settled(pilot, lambda app=app: app.bench.composer.text == request_text)
            else:
                own = request_text.startswith("!")
                came = fake.commands if own else fake.sent
                await settled(pilot, lambda came=came: came == [request_text.removeprefix("!")])
                assert app.bench.composer.text == ""


async def test_without_an_endpoint_the_text_stays() -> None:
    held = asyncio.Event()
    app = app_with(None, held=held)
    async with app.run_test() as pilot:
        await pilot.press("o", "n", "e", "enter")
        await settled(pilot, lambda: [unsent.text for unsent in app.session.unsent] == ["one"])
        held.set()
        await settled(pilot, lambda: app.bench.talk.welcome is not None)
        await settled(pilot, lambda: app.bench.composer.text == "one")
        await settled(pilot, lambda: "saved" in screen_text(app))
        assert app.bench.composer.text == "one"


async def test_work_beside_the_session_that_fails_is_said_by_its_name() -> None:
    async def work() -> None:
        raise RuntimeError("it broke")

    app = app_with(FakeEngine(store_with()))
    async with standing(app) as pilot:
        app.spawn(work(), "diff")
        said = app.words("shell.worker_failed", name="diff", error="it broke")
        await settled(pilot, lambda: app.bench.status.notice_text == said, "what failed")


async def test_before_a_session_the_diff_pane_comes_whatever_of_it_is_asked_for() -> None:
    app = app_with(None)
    async with standing(app) as pilot:
        for asked in ("/diff", "/diff last", "/diff session"):
            app.bench.show_pane("chat")
            app.run_typed(asked)
            await settled(pilot, lambda: app.bench.shown == "diff", asked)


async def test_the_first_screen_says_how_and_enter_starts_the_demo() -> None:
    app = app_with(None)
    async with standing(app) as pilot:
        shown = app.export_screenshot().replace("&#160;", " ")
        for words in ("--base-url", "settings.toml", "No server was found", "the demo"):
            assert words in shown, words
        await pilot.press("enter")
        await settled(
            pilot, lambda: app.session.engine is not None and app.bench.talk.transcript is not None
        )
        assert app.bench.talk.welcome is None
        await pilot.pause()
        assert "scripted replies" in app.export_screenshot().replace("&#160;", " ")


async def test_enter_sends_the_suggestion_at_once_and_only_once() -> None:
    fake = FakeEngine(store_with())
    fake.suggestion = "fix the total"
    app = app_with(fake)
    async with standing(app) as pilot:
        assert app.bench.composer.text == ""
        await pilot.press("enter")
        await settled(pilot, lambda: fake.sent == ["fix the total"])
        assert app.bench.composer.text == ""
        await pilot.press("enter")
        await pilot.pause()
        assert fake.sent == ["fix the total"]


async def test_what_is_typed_stands_in_place_of_the_suggestion() -> None:
    fake = FakeEngine(store_with())
    fake.suggestion = "fix the total"
    app = app_with(fake)
    async with standing(app) as pilot:
        await pilot.press("h", "i", "enter")
        await settled(pilot, lambda: fake.sent == ["hi"])


async def test_tab_takes_the_suggestion_to_be_changed() -> None:
    fake = FakeEngine(store_with())
    fake.suggestion = "fix the total"
    app = app_with(fake)
    async with standing(app) as pilot:
        await pilot.press("tab", "!", "enter")
        await settled(pilot, lambda: fake.sent == ["fix the total!"])


async def test_a_suggestion_that_has_no_room_is_cut_with_a_mark() -> None:
    fake = FakeEngine(store_with())
    fake.suggestion = "The total is wrong when two discounts apply"
    app = app_with(fake)
    async with standing(app, 40, 20) as pilot:
        row = "".join(part.text for part in app.bench.composer.render_line(0)).strip()
        assert row.startswith("Enter: The total")
        assert row.endswith("…")
        await pilot.resize_terminal(120, 40)
        await settled(
            pilot,
            lambda: "apply" in "".join(p.text for p in app.bench.composer.render_line(0)),
        )


async def test_the_demo_says_so_before_its_session_stands() -> None:
    held = asyncio.Event()
    sessions = FakeSessions(FakeEngine(store_with(demo=True)), held=held)
    app = app_on(sessions, AppOptions(title="little-shop", demo=True), ManualClock())
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot, lambda: app.bench.composer.has_focus)
        header = "".join(part.text for part in app.bench.header.render_line(0))
        assert "demo · scripted replies" in header
        held.set()
        await settled(pilot, lambda: not app.session.opening)


async def test_what_is_sent_in_the_demo_is_kept_nowhere(tmp_path: Path) -> None:
    for demo, kept in ((True, []), (False, ["history"])):
        fake = FakeEngine(store_with(demo=demo))
        app = app_with(fake, data_dir=tmp_path)
        async with standing(app) as pilot:
            await pilot.press("h", "i", "enter")
            await settled(pilot, lambda fake=fake: fake.sent == ["hi"])
        assert os.listdir(tmp_path) == kept


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "The session could not be opened: No space left on device"),
     ("ja", "セッションを開けませんでした: ディスクに空きがありません")],
)  # fmt: skip
async def test_a_session_that_cannot_be_opened_is_said_and_stays_said_and_can_be_tried_again(
    language: str, said: str
) -> None:
    fake, held = FakeEngine(store_with()), asyncio.Event()
    sessions = FakeSessions(fake, held=held)
    sessions.breaks = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    app = app_on(sessions, AppOptions(language=language), ManualClock())
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot, lambda: app.bench.composer.has_focus)
        await pilot.press("h", "i", "enter")
        held.set()
        await settled(pilot, lambda: said in " ".join(screen_text(app).split()), "the reason")
        assert app.bench.composer.text == "hi"
        await pilot.press("down", "down")
        await pilot.pause()
        assert said in " ".join(screen_text(app).split())  # a word in the status line would be gone
        sessions.breaks = None
        app.spawn(app.session.begin(), "connecting")
        await settled(pilot, lambda: fake.sent == ["hi"], "the message")
        assert said not in " ".join(screen_text(app).split())


async def test_a_second_try_that_fails_is_said_and_leaves_the_way_open_for_a_third() -> None:
    fake = FakeEngine(store_with())
    sessions = FakeSessions(None)
    app = app_on(sessions, AppOptions(), ManualClock())
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot, lambda: app.bench.talk.welcome is not None)
        sessions.engine = fake
        for reason in ("one disk is full", "another disk is full"):
            sessions.breaks = OSError(f"{reason}\x1b[31m")
            app.connecting.chosen = True  # as a choice on the first screen leaves it
            app.spawn(app.session.begin(), "connecting")
            await settled(pilot, lambda reason=reason: reason in screen_text(app), reason)
            assert "\x1b" not in screen_text(app)
            assert not app.connecting.chosen
        sessions.breaks = None
        app.spawn(app.session.begin(), "connecting")
        await settled(pilot, lambda: app.bench.talk.welcome is None, "the session")


async def test_another_session_that_cannot_be_opened_leaves_this_one_and_is_said() -> None:
    fake = FakeEngine(store_with())
    sessions = FakeSessions(fake)
    sessions.fault = OSError(errno.ENOSPC, "the disk is full")
    app = app_on(sessions, AppOptions(), ManualClock())
    async with standing(app) as pilot:
        app.run_typed("/new")
        await settled(pilot, lambda: "Not opened. the disk is full" in screen_text(app), "why")
        assert app.session.store is fake.store


async def test_the_first_screen_shows_every_mistake_in_the_settings_whole() -> None:
    why = {"choices": "duck-dark, duck-light, duck-contrast"}
    path = "/home/somebody/with/a/long/name/.config/duckflow/settings.toml"
    problems = tuple(SettingProblem(path, line, "ui.theme", "choices", why) for line in range(3, 7))
    app = app_on(FakeSessions(None), AppOptions(problems=problems), ManualClock())
    async with app.run_test(size=(60, 40)) as pilot:
        await settled(pilot, lambda: app.bench.talk.welcome is not None)
        for language in ("en", "ja"):
            app.action_language(language)
            await pilot.pause()
            head = app.bench.query_one(".welcome-head")
            rows = [head.render_line(y).text for y in range(head.size.height)]
            shown = "".join("".join(rows).split())
            for problem in problems:
                assert "".join(problem.describe_problem(app.words).split()) in shown


async def test_nothing_is_suggested_to_who_has_sent_something_before_the_session_stood() -> None:
    held = asyncio.Event()
    fake = FakeEngine(store_with())
    fake.suggestion = "fix the total"
    app = app_with(fake, held=held)
    async with app.run_test() as pilot:
        await pilot.press("o", "n", "e", "enter")
        await settled(pilot, lambda: [unsent.text for unsent in app.session.unsent] == ["one"])
        held.set()
        await settled(pilot, lambda: fake.sent == ["one"])
        await pilot.press("enter")
        await pilot.pause()
        assert app.bench.composer.text == ""


async def test_plain_http_is_asked_for_before_anything_is_opened() -> None:
    """Covers R11: the address is confirmed by a key, once."""
    fake = FakeEngine(store_with())
    sessions = FakeSessions(fake)
    sessions.unconfirmed_origin = "http://192.168.1.7:8000"
    clock = ManualClock()
    app = app_on(sessions, clock=clock)
    async with app.run_test() as pilot:
        await settled(pilot, lambda: app.screen is not app.bench)
        assert app.session.engine is None
        assert sessions.confirmed == 0
        clock.advance(1)
        await pilot.press("y")
        await settled(pilot, lambda: cast("Any", app.session.engine) is fake)
        assert sessions.confirmed == 1


async def test_plain_http_refused_opens_nothing() -> None:
    sessions = FakeSessions(FakeEngine(store_with()))
    sessions.unconfirmed_origin = "http://192.168.1.7:8000"
    app = app_on(sessions, clock=ManualClock())
    async with app.run_test() as pilot:
        await settled(pilot, lambda: app.screen is not app.bench)
        await pilot.press("escape")
        await settled(pilot, lambda: app.bench.talk.welcome is not None)
        assert app.session.engine is None
        assert sessions.confirmed == 0


async def test_the_end_takes_the_session_down() -> None:
    sessions = FakeSessions(FakeEngine(store_with()))
    app = app_on(sessions, clock=ManualClock())
    async with app.run_test() as pilot:
        await settled(pilot, lambda: app.session.engine is not None)
        await pilot.press("ctrl+c", "ctrl+c")
    assert sessions.closed


async def test_commands_typed_before_the_session_stands_are_done_then_each_on_its_own() -> None:
    """None is lost, none comes back into the composer to be joined with the next line."""
    held = asyncio.Event()
    fake = FakeEngine(store_with())
    app = app_with(fake, held=held)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(*"/remember one", "enter", *"/remember two", "enter", *"hello", "enter")
        await settled(pilot, lambda: len(app.session.unsent) == 3, "what waits")
        assert app.bench.composer.text == ""
        held.set()
        await settled(pilot, lambda: [m.text for m in fake.memory.noted] == ["one", "two"])
        assert fake.sent == ["hello"]
        assert app.bench.composer.text == ""
