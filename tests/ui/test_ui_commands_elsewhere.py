"""What people type who come from another program: nothing of it is sent, and it leads on."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from support.app_states import (
    FakeEngine,
    app_with,
    settled,
    standing,
    store_with,
    turn_started,
)
from support.open_apps import OpenApps
from support.screens import screen_text

from duckflow_tui.commands import ELSEWHERE, parse_command
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import LANGUAGES, Catalogue


async def sent(text: str, open_apps: OpenApps) -> tuple[FakeEngine, str, str]:
    """What became of this: the engine, the composer's text, and what the screen says."""
    fake = FakeEngine(store_with())
    async with open_apps.standing(fake) as (app, pilot):
        app.bench.composer.replace_text(text)
        await pilot.press("enter")
        await settled(
            pilot,
            lambda: (
                bool(app.bench.status.notice_text)
                or isinstance(app.screen, Dialog)
                or bool(fake.sent)
            ),
            "an answer",
        )
        return fake, app.bench.composer.text, app.bench.status.notice_text


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_said_of_other_programs_commands_fits_on_80_columns(language: str) -> None:
    """The line at the foot of the screen cuts what is longer, with one cell at each side."""
    words = Catalogue(language)
    said = [words(key) for key in ("shell.meant_note", *(f"elsewhere.{n}" for n in ELSEWHERE))]
    assert [text for text in said if cell_len(text) > 78] == []


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_a_command_that_is_none_here_is_answered_by_its_name(name: str) -> None:
    for language in ("en", "ja"):
        assert f"/{name}" in Catalogue(language)(f"elsewhere.{name}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("/add-dir ../other", "an approval that names the place"),
        ("/terminal-setup", "Ctrl+J starts a new line"),
        ("/init: please", "AGENTS.md"),
        ("/run pytest -q", "! before a command"),
        ("/setings", "Did you mean /settings?"),
        ("/theem dark", "Did you mean /theme?"),
        ("/qqqq1-x", "Unknown command: /qqqq1-x"),
        ("/add-dir\n../other", "an approval that names the place"),
        ("/undo.", "/undo.. Did you mean /undo?"),
        ("/help。", "Did you mean /help?"),
        ("/ヘルプ", "Unknown command: /ヘルプ"),
        ("/" + "x" * 300, "Unknown command: /xxx"),
    ],
)
async def test_what_begins_like_a_command_is_answered_and_not_sent(
    text: str, says: str, open_apps: OpenApps
) -> None:
    fake, written, said = await sent(text, open_apps)
    assert says in said
    assert (fake.sent, written) == ([], text)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("exit", "/quit"),
        ("Quit", "/quit"),
        ("ｅｘｉｔ", "/quit"),
        (":q", "/quit"),
        ("# tests run with make", "/remember tests run with make"),
    ],
)
async def test_words_that_mean_a_command_elsewhere_wait_as_that_command(
    text: str, instead: str, open_apps: OpenApps
) -> None:
    fake, written, said = await sent(text, open_apps)
    assert "Nothing was sent" in said
    assert (fake.sent, written) == ([], instead)


@pytest.mark.parametrize(
    "text",
    [
        "/etc/hosts is wrong",
        "/tmp is full",
        "/notes.md has a typo",
        "/srv/app/a.py\n/srv/app/b.py",
        "exit the loop early",
        "#12 is still open",
        "# Title\n\nA text with a heading.",
        "#",
    ],
)
async def test_a_path_a_heading_and_a_sentence_are_messages(text: str, open_apps: OpenApps) -> None:
    fake, _, _ = await sent(text, open_apps)
    assert fake.sent == [text]


#: Keys, commands and words of every day in other programs, each with the state of the session in
#: which it is pressed, and its outcome: an intent of the session, a text on the screen, a command
#: of ours that it is, what is written in the composer, or the end of the program.
HABITS = [
    ("escape", "works", "asks: pause"),
    ("escape escape", "works", "asks: stop"),
    ("escape escape", "talked", "shows: Go back to before"),
    ("shift+tab", "idle", "shows: Switch to trusted mode?"),
    ("ctrl+d ctrl+d", "idle", "ends"),
    ("ctrl+c ctrl+c", "idle", "ends"),
    ("ctrl+c", "works", "asks: stop"),
    ("ctrl+r", "idle", "shows: No messages sent here yet."),
    ("ctrl+z", "idle", "suspends"),
    ("?", "idle", "shows: approval mode: plan → strict → standard → trusted"),
    ("? escape", "idle", "writes: "),
    ("# tests run with make", "idle", "writes: /remember tests run with make"),
    ("exit", "idle", "writes: /quit"),
    ("!git status", "idle", "runs: git status"),
    ("@src/", "idle", "shows: src/shop.py"),
    ("/init", "idle", "shows: AGENTS.md"),
    ("/review", "idle", "shows: /diff session"),
    ("/vim", "idle", "shows: $EDITOR"),
    ("/details", "idle", "shows: Ctrl+O"),
    ("/clear", "idle", "is: new"),
    ("/model", "idle", "is: model"),
    ("/cost", "idle", "is: stats"),
    ("/help", "idle", "is: help"),
    ("/compact", "idle", "is: compact"),
    ("/resume", "idle", "is: sessions"),
    ("/diff", "idle", "is: diff"),
    ("/undo", "idle", "is: undo"),
    ("/config", "idle", "is: settings"),
    ("/mcp", "idle", "is: mcp"),
    ("/permissions", "idle", "is: rules"),
    ("/memory", "idle", "is: memory"),
    ("/status", "idle", "is: doctor"),
    ("/export", "idle", "is: export"),
    ("/tasks", "idle", "is: ps"),
    ("/theme", "idle", "is: theme"),
]


@pytest.mark.parametrize(("typed", "state", "outcome"), HABITS)
async def test_habits_from_other_programs_work_or_are_answered(
    typed: str, state: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, _, what = outcome.partition(": ")
    if kind == "is":
        found = parse_command(typed)
        assert found is not None
        assert found.command is not None
        assert found.command.name == what
        return
    store = store_with(turn_started()) if state == "works" else store_with()
    if state == "talked":
        store.state.messages.append(UserMessage(message_id="m1", text="make it so", at=0.0))
    fake = FakeEngine(store, files=["src/shop.py"])
    app, signals = app_with(fake), list[int]()
    async with standing(app) as pilot:
        if kind == "suspends":
            monkeypatch.setattr(app, "action_suspend_process", lambda: signals.append(1))
        keys = typed.split() if "+" in typed or "escape" in typed else [*typed, "enter"]
        await pilot.press(*(keys[:-1] if typed in ("?", "@src/") else keys))

        def has_come() -> bool:
            return {
                "asks": lambda: what in fake.asked,
                "shows": lambda: what in screen_text(app),
                "ends": lambda: app.return_value == 0,
                "suspends": lambda: bool(signals),
                "writes": lambda: app.bench.composer.text == what,
                "runs": lambda: fake.commands == [what],
            }[kind]()

        await settled(pilot, has_come, outcome)
    assert not fake.sent
