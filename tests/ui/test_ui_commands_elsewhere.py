"""What people type who come from another program: nothing of it is sent, and it leads on."""

from __future__ import annotations

import pytest
from support.app_states import FakeEngine, settled, store_with
from support.open_apps import OpenApps

from duckflow_tui.commands import COMMANDS, ELSEWHERE
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue

OTHERS = [
    "/init",
    "/cost",
    "/usage",
    "/status",
    "/agents",
    "/review",
    "/hooks",
    "/vim",
    "/add-dir",
    "/terminal-setup",
    "/clear",
    "/config",
    "/permissions",
    "/memory",
    "/login",
    "/logout",
    "/bug",
    "/compact",
    "/model",
    "/resume",
    "/rewind",
    "/export",
    "/context",
    "/doctor",
    "/mcp",
    "/ide",
    "/approvals",
    "/new",
    "/diff",
    "/mention",
    "/output-style",
    "/statusline",
    "/pr-comments",
    "/plugin",
]


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


@pytest.mark.parametrize("name", OTHERS)
def test_every_command_of_another_program_leads_to_one_of_ours(name: str) -> None:
    ours = {n for command in COMMANDS for n in (command.name, *command.also)}
    known = name[1:] in ours
    assert known or name[1:] in ELSEWHERE
    for language in ("en", "ja"):
        assert known or name in Catalogue(language)(f"elsewhere.{name[1:]}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("/add-dir ../other", "an approval that names the place"),
        ("/terminal-setup", "Ctrl+J starts a new line"),
        ("/init: please", "AGENTS.md"),
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
