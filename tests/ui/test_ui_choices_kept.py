"""A choice made on the screen is there at the next start, or the screen says for how long it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.app_states import settled
from support.model_servers import ModelSeat, at_models

from duckflow_tui.commands import CHOICES, USER_CAN
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.pace import TaskProfile
from duckflow_tui.ui.screens.model_list import ModelList

WIDE = (220, 40)  # room for two versions of a file


@dataclass(frozen=True)
class Chosen:
    """How a choice is made, and where the screen has it; ``by`` is a command or a key."""

    by: str
    now: Callable[[ModelSeat], object]
    value: object
    for_session: str = ""  # how it is said that it does not hold at the next start; empty: it does
    focus: str = ""  # a key that is pressed before
    name: str = ""  # of the command or the action in the table of what a user can do


def model_of(seat: ModelSeat) -> str:
    engine = seat.app.session.engine
    return str(engine.models.roles.main) if engine is not None else ""


def mode_of(seat: ModelSeat) -> ApprovalMode | None:
    store = seat.app.session.store
    return store.state.mode if store is not None else None


def profile_of(seat: ModelSeat) -> TaskProfile | None:
    store = seat.app.session.store
    return store.state.profile_choice if store is not None else None


def details_of(seat: ModelSeat) -> bool:
    chat = seat.app.bench.talk.transcript
    return chat is not None and chat.details_open


STRICT, RESEARCH = ApprovalMode.STRICT, TaskProfile.RESEARCH
DIFF = "f4"
CHOSEN = (
    Chosen("/theme duck-light", lambda seat: seat.app.theme, "duck-light"),
    Chosen("/vitals off", lambda seat: seat.app.bench.vitals_place, "off"),
    Chosen("/model large", model_of, "pond/large"),
    Chosen("alt+left", lambda seat: seat.app.bench.side.share, 24, name="screen.move_border"),
    Chosen("f6", lambda seat: seat.app.bench.column, "wide", name="screen.column"),
    Chosen("v", lambda seat: seat.app.bench.diff.view.split, True, focus=DIFF),
    Chosen("w", lambda seat: seat.app.bench.diff.view.wrap, False, focus=DIFF),
    Chosen("/profile research", profile_of, RESEARCH, "All requests of this session count as"),
    Chosen("/mode strict", mode_of, STRICT, "strict mode for this session"),
    Chosen("shift+tab", mode_of, ApprovalMode.STANDARD, "for this session", name="cycle_mode"),
    Chosen("ctrl+o", details_of, True, "Details shown for this session", name="screen.fold"),
    Chosen("/lang ja", lambda seat: seat.app.words.language, "ja"),  # the last: all is said anew
)

#: Commands and keys with a choice, which is what to do and not how things are from now on.
ACTS = {"diff", "help", "undo", "redo", "rewind"}


async def choose(seat: ModelSeat, choice: Chosen) -> str:
    """Make the choice; returns what the screen says of it."""
    if choice.by.startswith("/"):
        await seat.says(choice.by)
    else:
        if choice.focus:
            await seat.pilot.press(choice.focus)
            view = seat.app.bench.diff.view
            await settled(seat.pilot, lambda: view.has_focus, "the focus")
        await seat.pilot.press(choice.by)
    if choice.by.startswith("/model"):
        await settled(seat.pilot, lambda: isinstance(seat.app.screen, ModelList), "the list")
        await seat.sees("large")
        await seat.pilot.press("enter")
    await settled(seat.pilot, lambda: choice.now(seat) == choice.value, choice.by)
    await seat.pilot.pause()
    said = seat.app.status.notice_text
    await seat.pilot.press("escape")
    return said


async def test_each_choice_is_kept_or_the_screen_says_that_it_is_not(tmp_path: Path) -> None:
    async with at_models(tmp_path, size=WIDE) as seat:
        for choice in CHOSEN:
            assert choice.now(seat) != choice.value, choice.by
            said = await choose(seat, choice)
            assert choice.for_session in said, f"{choice.by}: {said}"
    async with at_models(tmp_path, size=WIDE) as seat:
        for choice in CHOSEN:
            if not choice.for_session:
                assert choice.now(seat) == choice.value, choice.by
    work = tmp_path / "little-shop"
    assert list(work.iterdir()) == []  # nothing of it in the folder that is worked in


def test_no_command_with_a_choice_is_missing_in_the_table() -> None:
    listed = {choice.name or choice.by.split()[0].removeprefix("/") for choice in CHOSEN}
    choosing = {command.name for command in USER_CAN if command.takes in CHOICES}
    assert choosing - ACTS - listed == set()


async def test_a_theme_that_is_only_looked_at_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "home" / "config" / "settings.toml"
    async with at_models(tmp_path) as seat:
        await seat.says("/theme")
        await seat.sees("duck-contrast")
        await seat.pilot.press("down", "escape")
        await settled(seat.pilot, lambda: seat.app.theme == "duck-dark", "the theme as it was")
    assert not file.exists()
    async with at_models(tmp_path) as seat:
        await seat.says("/theme")
        await seat.sees("duck-contrast")
        await seat.pilot.press("down", "enter")
        await settled(seat.pilot, file.exists, "the file")
    assert file.read_text() == '[ui]\ntheme = "duck-light"\n'


@pytest.mark.parametrize(
    ("text", "variable", "said"),
    [
        (
            "[ui\n",
            "",
            "Applies until the program ends. It was not saved: settings.toml:1: not TOML",
        ),
        ("[ui]\n", "duck-contrast", "DUCKFLOW_UI__THEME sets it at the next start"),
    ],
)
async def test_a_choice_that_cannot_be_kept_holds_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, variable: str, said: str
) -> None:
    if variable:
        monkeypatch.setenv("DUCKFLOW_UI__THEME", variable)
    async with at_models(tmp_path) as seat:
        file = tmp_path / "home" / "config" / "settings.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        await seat.says("/theme duck-light")
        await seat.sees(said)
        assert seat.app.theme == "duck-light"
        assert file.read_text() == text
