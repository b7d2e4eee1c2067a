"""The composer: what each key does to the text, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len
from support.app_states import FakeEngine, app_with, settled, standing, store_with, turn_started
from support.open_apps import OpenApps
from support.screens import shown
from textual import events

from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.history import MessageHistory


def engine(*files: str) -> FakeEngine:
    return FakeEngine(store_with(), files)


def completed(app: DuckflowApp) -> bool:
    """Whether a list is open, and is that of all that is written."""
    looked = [worker for worker in app.workers if worker.group == "completion"]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # Worker[Unknown]
    return app.bench.completions.is_open and all(worker.is_finished for worker in looked)


@pytest.mark.parametrize("key", ["ctrl+j", "alt+enter", "shift+enter"])
async def test_keys_for_a_new_line(open_apps: OpenApps, key: str) -> None:
    async with open_apps.standing(engine()) as (app, pilot):
        await pilot.press("a", key, "b")
        assert app.bench.composer.text == "a\nb"


async def test_backslash_and_enter_is_a_new_line(open_apps: OpenApps) -> None:
    fake = engine()
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("a", "backslash", "enter", "b")
        assert app.bench.composer.text == "a\nb"
        assert fake.sent == []


async def test_enter_sends_and_empties(open_apps: OpenApps) -> None:
    fake = engine()
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("h", "i", "enter")
        await settled(pilot, lambda: fake.sent == ["hi"])
        assert app.bench.composer.text == ""
        assert app.bench.focused is app.bench.composer


async def test_what_was_not_typed_is_sent_as_quoted(open_apps: OpenApps) -> None:
    fake = engine()
    async with open_apps.standing(fake) as (app, pilot):
        for pastes, typed, quoted in (
            ("see @net:menu://today", "x", True),
            ("", "@net", False),
            ("line 1", "@net", False),
        ):
            if pastes:
                app.bench.composer.post_message(events.Paste(pastes))
            await pilot.press(*(key.replace("@", "at") for key in typed), "space", "enter")
            await settled(pilot, lambda: bool(fake.quoted))
            assert fake.quoted.pop() is quoted
        app.bench.composer.replace_text("see @net:menu://today")  # from the history
        await pilot.press("enter")
        await settled(pilot, lambda: fake.quoted == [True])


async def test_keys_of_the_stock_widget_are_unbound(open_apps: OpenApps) -> None:
    """F6, F7 and Ctrl+Q do nothing here."""
    async with open_apps.standing(engine()) as (app, pilot):
        await pilot.press("a", "b", "f6", "f7", "ctrl+q")
        assert app.bench.composer.selected_text == ""
        assert app.is_running


@pytest.mark.parametrize(
    ("language", "chip"), [("en", "[Pasted 132 lines · "), ("ja", "[貼り付け 132 行 · ")]
)
async def test_a_large_paste_is_folded_and_sent_whole(language: str, chip: str) -> None:
    fake = engine()
    app = app_with(fake, language=language)
    text = "\n".join(f"line {number}" for number in range(132))
    async with standing(app) as pilot:
        await pilot.press("a", " ")
        app.post_message(events.Paste(text.replace("\n", "\r")))
        await settled(pilot, lambda: "[" in app.bench.composer.text)
        assert app.bench.composer.text.startswith(f"a {chip}")
        await pilot.press("!", "enter")
        await settled(pilot, lambda: bool(fake.sent))
    assert fake.sent == [f"a {text}!"]


async def test_a_chip_is_deleted_as_a_whole(open_apps: OpenApps) -> None:
    fake = engine()
    async with open_apps.standing(fake) as (app, pilot):
        app.post_message(events.Paste("x" * 2000))
        await settled(pilot, lambda: "Pasted" in app.bench.composer.text)
        await pilot.press("backspace")
        assert app.bench.composer.text == ""


async def test_a_small_paste_does_not_send(open_apps: OpenApps) -> None:
    fake = engine()
    async with open_apps.standing(fake) as (app, pilot):
        app.post_message(events.Paste("one\r\ntwo\r\n"))
        await settled(pilot, lambda: app.bench.composer.text == "one\ntwo\n")
        assert fake.sent == []


async def test_history_at_the_edge_and_the_draft_comes_back(open_apps: OpenApps) -> None:
    fake = engine()
    async with open_apps.standing(fake) as (app, pilot):
        composer = app.bench.composer
        for text in ("first", "second"):
            composer.replace_text(text)
            await pilot.press("enter")
        await settled(pilot, lambda: len(fake.sent) == 2)
        await pilot.press("d", "up")
        assert composer.text == "second"
        await pilot.press("up", "up")
        assert composer.text == "first"
        await pilot.press("down", "down")
        assert composer.text == "d"


async def test_up_moves_inside_the_text_before_it_recalls(open_apps: OpenApps) -> None:
    async with open_apps.standing(engine()) as (app, pilot):
        app.bench.composer.past.add("older")
        await pilot.press("a", "ctrl+j", "b", "up")
        assert app.bench.composer.text == "a\nb"
        assert app.bench.composer.cursor_location[0] == 0
        await pilot.press("up")
        assert app.bench.composer.text == "older"


async def test_search_the_history(open_apps: OpenApps) -> None:
    async with open_apps.standing(engine()) as (app, pilot):
        app.bench.composer.past.add("fix the total")
        app.bench.composer.past.add("write a test")
        await pilot.press("ctrl+r", "t", "o", "t", "enter")
        await settled(pilot, lambda: app.bench.composer.text == "fix the total")


async def test_commands_complete_with_tab_and_run_with_enter(open_apps: OpenApps) -> None:
    async with open_apps.standing(engine()) as (app, pilot):
        await pilot.press("/", "v", "i")
        await settled(pilot, lambda: app.bench.completions.is_open)
        await pilot.press("tab")
        assert app.bench.composer.text == "/vitals "
        await pilot.press("enter")
        await settled(pilot, lambda: app.bench.focused is app.bench.vitals)
        assert app.bench.composer.text == ""


async def test_files_complete_with_tab_and_enter_and_are_sent_by_enter_behind_them(
    open_apps: OpenApps,
) -> None:
    fake = engine("src/shop/pricing.py", "src/shop/cart.py")
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("s", "e", "e", " ", "@", "p", "r", "i", "c")
        await settled(pilot, lambda: completed(app), "the list for all of it")
        await pilot.press("tab")
        assert app.bench.composer.text == "see @src/shop/pricing.py "
        assert not app.bench.completions.is_open
        for key in (*"@cart", "enter"):  # faster than the list
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        written = "see @src/shop/pricing.py @src/shop/cart.py "
        await settled(pilot, lambda: app.bench.composer.text == written, "the name")
        assert fake.sent == []
        await pilot.press("enter")
        await settled(pilot, lambda: bool(fake.sent))
        await pilot.press(*"and @none", "enter")
        await settled(pilot, lambda: len(fake.sent) == 2)
    assert fake.sent == [written.strip(), "and @none"]


async def test_escape_closes_the_list_and_nothing_else(open_apps: OpenApps) -> None:
    fake = FakeEngine(store_with(turn_started()))
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("/")
        await settled(pilot, lambda: app.bench.completions.is_open)
        await pilot.press("escape")
        assert not app.bench.completions.is_open
        assert "pause" not in fake.asked
        assert app.bench.composer.text == "/"


async def test_tab_queues_while_work_runs_and_waits_otherwise(open_apps: OpenApps) -> None:
    fake = engine()
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("x", "tab")
        assert app.bench.composer.text == "x"
        assert app.bench.focused is app.bench.composer
        fake.store.dispatch(turn_started())
        await pilot.press("tab")
        await settled(pilot, lambda: len(fake.store.state.queue) == 1)
        assert app.bench.composer.text == ""


async def test_a_waiting_message_comes_back_behind_the_draft(open_apps: OpenApps) -> None:
    fake = FakeEngine(store_with(turn_started()))
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("x", "tab")
        await settled(pilot, lambda: len(fake.store.state.queue) == 1)
        await pilot.press("y")
        app.session.take_back(fake.store.state.queue[0].message_id)
        assert app.bench.composer.text == "y\nx"
        assert fake.store.state.queue == ()


async def test_an_unknown_command_stays_and_a_path_is_a_message(open_apps: OpenApps) -> None:
    fake = engine()
    async with open_apps.standing(fake) as (app, pilot):
        app.bench.composer.replace_text("/nonsense")
        await pilot.press("enter")
        await settled(pilot, lambda: "nonsense" in app.bench.status.notice_text)
        assert app.bench.composer.text == "/nonsense"
        app.bench.composer.replace_text("/etc/hosts is wrong")
        await pilot.press("enter")
        await settled(pilot, lambda: fake.sent == ["/etc/hosts is wrong"])


async def test_it_grows_to_eight_rows(open_apps: OpenApps) -> None:
    async with open_apps.standing(engine()) as (app, pilot):
        app.bench.composer.replace_text("\n".join("abc"))
        await pilot.pause()
        assert app.bench.composer.content_size.height == 3
        app.bench.composer.replace_text("\n".join("x" * 8))
        await pilot.press("ctrl+j", "ctrl+j", "ctrl+j")
        assert app.bench.composer.content_size.height == 8


async def test_wide_characters_are_sent_as_typed(open_apps: OpenApps) -> None:
    fake = engine()
    async with open_apps.standing(fake) as (_, pilot):
        await pilot.press("漢", "字", "한", "글", "enter")
        await settled(pilot, lambda: fake.sent == ["漢字한글"])


def test_history_is_private_and_of_one_workspace(tmp_path: Path) -> None:
    MessageHistory(tmp_path, "/work/a").add("secret plan\nsecond line")
    assert MessageHistory(tmp_path, "/work/a").messages == ["secret plan\nsecond line"]
    assert MessageHistory(tmp_path, "/work/b").messages == []
    (path,) = (tmp_path / "history").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_history_survives_a_torn_line(tmp_path: Path) -> None:
    MessageHistory(tmp_path, "/work/a").add("one")
    (path,) = (tmp_path / "history").iterdir()
    with path.open("ab") as file:
        file.write(b'\n"tw')
    MessageHistory(tmp_path, "/work/a").add("three")
    assert MessageHistory(tmp_path, "/work/a").messages == ["one", "three"]


async def test_a_line_with_a_key_is_not_remembered_in_clear(tmp_path: Path) -> None:
    """What /remember refuses must not stand in the history instead, nor come back with ↑."""
    key = "sk-" + "q7Zt0Vx2mK9sLr4WbN8cYd3E"
    fake = engine()
    app = app_with(fake, data_dir=tmp_path)
    async with standing(app) as pilot:
        app.bench.composer.replace_text(f"/remember my key is {key}")
        await pilot.press("enter")
        app.bench.composer.replace_text(f"then log in with {key}")
        await pilot.press("ctrl+c")
        await settled(pilot, lambda: len(app.bench.composer.past.messages) == 2)
        await pilot.press("up")
        assert app.bench.composer.text == "then log in with sk-[redacted]"
    (path,) = (tmp_path / "history").iterdir()
    kept = path.read_text()
    assert "my key is" in kept
    assert key not in kept


async def test_keys_that_come_at_once_act_in_their_order(open_apps: OpenApps) -> None:
    """A burst as type-ahead makes it: bound keys do not fall behind the characters."""
    fake = engine()
    async with open_apps.standing(fake) as (app, pilot):
        burst = [
            "o",
            "n",
            "x",
            "backspace",
            "e",
            "ctrl+j",
            "t",
            "w",
            "o",
            "home",
            "_",
            "enter",
            "n",
        ]
        for key in burst:
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await settled(pilot, lambda: fake.sent == ["one\n_two"])
        await settled(pilot, lambda: app.bench.composer.text == "n")


async def test_enter_runs_the_command_that_is_written_not_one_of_a_list_that_is_behind(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(engine()) as (app, pilot):
        await pilot.press("/")
        await settled(pilot, lambda: app.bench.completions.is_open)
        for key in (*"vitals", "enter"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await settled(pilot, lambda: app.bench.composer.text == "")
        await settled(pilot, lambda: app.bench.focused is app.bench.vitals)


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_a_list_of_commands_that_is_cut_says_so(language: str) -> None:
    app = app_with(engine(), language=language)
    async with standing(app, 40, 20) as pilot:
        await pilot.press("/")
        await settled(pilot, lambda: app.bench.completions.is_open)
        await settled(pilot, lambda: "…" in shown(app.bench.completions), "rows that are cut")
        width = app.bench.completions.size.width
        *rows, place = shown(app.bench.completions).splitlines()
        assert str(len(app.bench.completions.candidates)) in place
        for candidate, row in zip(app.bench.completions.candidates, rows, strict=False):
            assert row.rstrip().endswith((candidate.about, "…"))
            assert cell_len(row.rstrip()) <= width
        assert any(row.rstrip().endswith("…") for row in rows)
