"""What was not on screen is not approved, however small the screen; what is shown is inert."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support import drawing
from support.app_states import settled
from support.gates import GateApp, at_gate, drawn, gate, many_lines, press, preview, pricing
from support.open_apps import OpenApps
from textual import events
from textual._compositor import Compositor
from textual.pilot import Pilot

from duckflow_tui.state.gates import FilePreview, Gate, GateChoice, Impact
from duckflow_tui.state.operations import Effect, Risk, Zone
from duckflow_tui.ui.panes.diff_document import DiffDocument, RowKind
from duckflow_tui.ui.panes.gate_words import (
    AI_MARK,
    argument_rows,
    gate_question,
    point_rows,
    scope_rows,
    sentence_rows,
    subject_words,
)
from duckflow_tui.ui.panes.key_guard import ANEW_S, DELAY_S
from duckflow_tui.words.catalogue import Catalogue

HOSTILE = "[@click=app.quit]x[/] \x1b]8;;http://evil\x07link\x1b]8;;\x07 \x1b[2J \u202eabc\u200b"
SIZES = ((120, 40), (80, 24), (60, 20), (40, 12), (20, 5))


def command(**fields: object) -> Gate:
    """A gate without a preview."""
    values: dict[str, object] = {
        "operation": "shell.run",
        "effect": Effect.EXECUTE,
        "args": {"command": "\n".join(f"echo {n}" for n in range(60)), "timeout_s": 30},
        "impact": Impact(zone=Zone.NOWHERE, risk=Risk.HIGH, reversible=False, reasons=("secret",)),
        "alternatives": (),
        "why": "",
        "can_edit": False,
        "can_grant_session": False,
    }
    return gate([], **(values | fields))


def unframed(app: GateApp) -> str:
    """The text on the screen as one line, without the frame of the card."""
    return " ".join(app.text().replace("│", " ").split())


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
async def test_y_asks_once_before_what_was_not_on_screen(
    size: tuple[int, int], open_apps: OpenApps
) -> None:
    """It names how much, scrolls to it, and the second key, pressed anew, decides (R14)."""
    async with open_apps.asking(gate([many_lines(600)]), size=size) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        unseen = app.card._document.unseen_lines  # pyright: ignore[reportPrivateUsage]
        assert 500 < unseen < 600
        assert f"seen {600 - unseen} of 600" in app.text()
        next_line = f"value_{600 - unseen} ="
        assert next_line not in app.text()
        await press(pilot, "y")
        left = app.card._document.unseen_lines  # pyright: ignore[reportPrivateUsage]
        assert 500 < left < unseen
        assert f"You have not seen {left} of 600 changed lines" in unframed(app)
        assert next_line in app.text()
        assert "allow anyway" in app.text()
        app.clock.advance(0.9 * ANEW_S)
        await press(pilot, "y")  # held, or before anybody can have read that
        app.clock.advance(0.9 * ANEW_S)
        await press(pilot, "y")
        assert app.answers == []
        app.clock.advance(ANEW_S)
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


async def test_the_second_y_counts_a_second_after_the_first_was_pressed(
    open_apps: OpenApps,
) -> None:
    """The time that the first one waited is part of it."""
    async with open_apps.asking(gate([many_lines(602)])) as (app, pilot):
        await at_gate(pilot)
        app.post_message(events.Key("y", "y"))
        await settled(pilot, lambda: app.card.is_holding, "the first y")
        app.clock.advance(DELAY_S)
        await settled(pilot, lambda: "You have not seen" in app.text(), "the question")
        app.clock.advance(ANEW_S - DELAY_S)
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


@pytest.mark.parametrize(("first", "then"), [(0.25, 0.03), (0.66, 0.04), (0.99, 0.5)])
@pytest.mark.parametrize("key", ["y", "s"])
async def test_a_key_that_is_held_answers_nothing(
    key: str, first: float, then: float, open_apps: OpenApps
) -> None:
    """However long a keyboard waits before it repeats it, and how often it does."""
    async with open_apps.asking(gate([many_lines(600)]), size=(80, 24)) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        await press(pilot, key)
        app.clock.advance(first)
        for _ in range(12):
            await press(pilot, key)
            app.clock.advance(then)
        assert app.answers == []
        await press(pilot, "n")
        assert app.answers == []


async def test_another_key_that_consents_asks_anew_and_a_rejection_asks_nothing(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate([many_lines(200)])) as (app, pilot):
        await at_gate(pilot)
        for number, key in enumerate("yssy"):  # the first s shows what it would allow
            await press(pilot, key)
            app.clock.advance(ANEW_S)
            assert app.answers == []
            said = " ".join(app.text().replace("│", " ").split())
            assert ("s this session: every edit inside the folder, anyway" in said) is (number == 2)
        await press(pilot, "n", "enter")
        assert app.answers[0].choice is GateChoice.REJECT


async def test_who_left_the_gate_is_asked_again(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([many_lines(200)])) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "y", "escape")
        await at_gate(pilot)
        assert "You have not seen" not in app.text()
        await press(pilot, "y")
        assert app.answers == []


async def test_whatever_scrolls_counts_what_it_brings_on_screen(open_apps: OpenApps) -> None:
    """And nothing that it jumps over: the figures are true."""
    async with open_apps.asking(gate([many_lines(200)]), size=(80, 24)) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        view = app.card.diff.view  # pyright: ignore[reportPrivateUsage]
        left = app.card.count_unseen()
        for key in ("down", "pagedown", "end"):
            await press(pilot, key)
            assert left - view.size.height <= app.card.count_unseen() < left
            left = app.card.count_unseen()
        assert "value_199 = 199" in app.text()
        await press(pilot, "home", *["pagedown"] * 30)
        assert app.card.count_unseen() == 0
        assert "of 200" not in app.text()
        await press(pilot, "y")
        assert app.answers[0].choice is GateChoice.ONCE


async def test_the_wheel_and_a_jump_to_a_hunk_count_too(open_apps: OpenApps) -> None:
    lines = [f"value_{n} = {n}" for n in range(300)]
    changed = [f"{line}0" if n % 60 >= 30 else line for n, line in enumerate(lines)]
    async with open_apps.asking(
        gate([preview("a.py", "\n".join(lines), "\n".join(changed))]), size=(80, 24)
    ) as (app, pilot):
        await at_gate(pilot)
        view = app.card.diff.view  # pyright: ignore[reportPrivateUsage]
        left = app.card.count_unseen()
        view.post_message(
            events.MouseScrollDown(view, 1, 1, 0, 1, 0, shift=False, meta=False, ctrl=False)
        )
        await settled_below(pilot, app, left)
        left = app.card.count_unseen()
        await press(pilot, "]", "]", "]", "]")
        assert app.card.count_unseen() < left


async def settled_below(pilot: Pilot[None], app: GateApp, left: int) -> None:
    """Wait until less is unseen."""
    for _ in range(200):
        await drawn(pilot)
        if app.card.count_unseen() < left:
            return
    raise AssertionError("the wheel brought nothing on screen")


async def test_without_wrapping_the_end_of_a_long_line_counts_as_unseen(
    open_apps: OpenApps,
) -> None:
    long = preview("a.txt", "", "x" * 130 + " rm -rf", kind="create", language="")
    async with open_apps.asking() as (app, pilot):
        app.card.diff.view.wrap = False
        app.gates = (gate([long]),)
        await at_gate(pilot)
        assert "rm -rf" not in app.text()
        await press(pilot, "y")
        assert "rm -rf" in app.text()
        assert "You have now seen all of it. y allow" in unframed(app)
        assert app.card.count_unseen() == 0
        assert app.answers == []
        app.clock.advance(ANEW_S)
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


@pytest.mark.parametrize("size", SIZES)
async def test_every_size_can_be_read_to_its_end_and_answered(
    size: tuple[int, int], open_apps: OpenApps
) -> None:
    """Down to 20×5 ``y`` approves, at most three times pressed; nothing raises."""
    few = command(gate_id="gate_00000002", args={"command": "echo 1\n" * 12})
    waiting = (gate(), few, gate(gate_id="gate_00000003"))
    async with open_apps.asking(*waiting, size=size) as (app, pilot):
        await at_gate(pilot)
        for number in range(len(waiting)):
            for _ in range(2):
                if len(app.answers) == number:
                    await press(pilot, "y")
                    app.clock.advance(ANEW_S)
            assert len(app.answers) == number + 1


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (40, 12)])
async def test_the_diff_and_the_keys_count_the_same_lines_in_each_frame(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen and not seen are never of two moments, also while lines come into sight."""
    app = GateApp(gate([many_lines(600)]))
    told: list[tuple[int, int]] = []

    def recorded(self: Compositor, full: bool = False, **how: Any) -> Any:
        made = drawing.all_of_it(self, full, **how)
        frame = unframed(app)
        seen = re.search(r"(?<!not )seen (\d+) of 600", frame)
        not_seen = re.search(r"not seen (\d+) of 600", frame)
        if seen and not_seen:
            told.append((int(seen[1]), int(not_seen[1])))
        return made

    monkeypatch.setattr(Compositor, "render_update", recorded)
    async with app.run_test(size=size) as pilot:
        await at_gate(pilot)
        for key in ("y", "pagedown", "y", "down", "y"):
            await press(pilot, key)
        await pilot.resize_terminal(size[0], 30)
        await press(pilot, "y")
    assert len(set(told)) > 1
    assert {seen + not_seen for seen, not_seen in told} == {600}


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_a_small_gate_that_was_seen_is_still_seen_on_a_smaller_screen(language: str) -> None:
    """Five lines at 60×20: nothing is asked, whatever size it had before."""
    app = GateApp(gate([many_lines(5)]), language=language)
    async with app.run_test(size=(80, 24)) as pilot:
        await at_gate(pilot)
        await pilot.resize_terminal(60, 20)
        await drawn(pilot)
        assert app.card.count_unseen() == 0
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


async def test_resizing_while_a_gate_is_open_never_raises_and_keeps_what_was_seen() -> None:
    app = GateApp(gate([many_lines(60)]))
    async with app.run_test(size=(120, 40)) as pilot:
        await at_gate(pilot)
        unseen = app.card.count_unseen()
        for width, height in (*SIZES, (1, 1), (120, 40)):
            await pilot.resize_terminal(width, height)
            await drawn(pilot)
        assert app.card.count_unseen() <= unseen
        await press(pilot, "n")
        assert "Enter rejects" in app.text()


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
async def test_five_points_are_in_sight(size: tuple[int, int], open_apps: OpenApps) -> None:
    """Covers S4-61, S4-65. Intent, why, impact, alternatives and the difference, at once."""
    async with open_apps.asking(gate(), size=size) as (app, pilot):
        await at_gate(pilot)
        shown = " ".join(app.text().replace("│", " ").split())
        for point in (
            "Edit src/shop/pricing.py +3 −2",
            "◆ Apply discounts one after the other: step 2 needs it;",
            "Inside the folder, can be undone",
            "1 keep the sum, cap it 2 change the test instead",
            "- rate = sum(discounts)",
            " y ",
            " n reject",
            " . more",
        ):
            assert point in shown
        assert "this session" not in shown
        await press(pilot, "full_stop")
        shown = " ".join(app.text().replace("│", " ").split())
        assert "s this session: every edit inside the folder" in shown


@pytest.mark.parametrize("size", [(120, 40), (60, 20)])
@pytest.mark.parametrize("language", ["en", "ja"])
async def test_i_unfolds_every_point_with_its_name_and_source(
    size: tuple[int, int], language: str, open_apps: OpenApps
) -> None:
    """Covers S4-61, S4-65, S4-66. In place of the diff; what was read there is not asked about."""
    words = Catalogue(language)
    async with open_apps.asking(gate(why="it fails; " * 60), language=language, size=size) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        await press(pilot, "end", "home")
        cut = app.card.count_unseen()
        await press(pilot, "i")
        text = ""
        for _ in range(12):
            text += app.text()
            await press(pilot, "pagedown")
        for point in ("intent", "why", "impact", "alternatives"):
            assert f"│ {words(f'gate.{point}')} " in text
        assert words("gate.says") in text
        assert words("gate.risk.LOW") in text
        assert app.card.count_unseen() <= cut
        await press(pilot, "i")
        assert words("gate.risk.LOW") not in app.text()
        await press(pilot, "i", "escape")
        assert words("gate.risk.LOW") not in app.text()
        assert app.focused is app.card
        assert app.answers == []


async def test_what_deviates_is_said_and_nothing_else() -> None:
    """Outside, irreversible, not held by a sandbox, high risk, a link, what is left out."""
    words = Catalogue()
    bad = command(
        facts={"runs": "rm x", "sandbox": "none", "timeout": "30 s", "rule": "named"},
        args={"command": "rm x"},
        impact=Impact(zone=Zone.OUTSIDE, risk=Risk.HIGH, reversible=False, places=("/etc/hosts",)),
    )
    rows = sentence_rows(bad, words, DiffDocument([]))
    said = " ".join(row.text for row in rows if row.tone == "warning")
    for part in (
        "OUTSIDE the folder",
        "cannot be undone",
        "NO SANDBOX: nothing limits this command",
        "HIGH risk",
        "leads to /etc/hosts",
    ):
        assert part.lower() in said.lower()
    assert argument_rows(bad, words, brief=True) == []
    rows = sentence_rows(
        bad.replace(impact=bad.impact.replace(reversible=True)),
        words,
        DiffDocument([]),
    )
    said = " ".join(row.text for row in rows if row.tone == "warning")
    assert "undo covers all files here" in said
    assert "cannot be undone" not in said
    held = command(
        facts={"runs": "ls", "sandbox": "full"},
        args={"command": "ls"},
        impact=Impact(zone=Zone.NOWHERE),
    )
    rows = sentence_rows(held, words, DiffDocument([]))
    assert {row.tone for row in rows} == {"text", "quiet"}
    said = rows[-1].text
    assert said.startswith("In the sandbox: can write only in this folder, no network · ")
    assert said.endswith("/undo covers all files here")
    brief = held.replace(facts=held.facts | {"until_quit": "__pycache__/"})
    said = sentence_rows(brief, words, DiffDocument([]))[-1].text
    assert said.endswith("/undo covers all files here (__pycache__/: only until you quit)")
    for risk, shown in ((Risk.MEDIUM, False), (Risk.HIGH, True)):
        risky = held.replace(impact=Impact(zone=Zone.NOWHERE, risk=risk))
        rows = sentence_rows(risky, words, DiffDocument([]))
        assert any("risk" in row.text.lower() for row in rows) is shown


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_hosts_that_a_command_would_reach_are_said_and_what_a_key_allows_of_them(
    language: str,
) -> None:
    """In the sentence and among the details; where nothing can hold it to them, as a warning."""
    words, names = Catalogue(language), "pypi.org, example.org:8080"
    given = gate(
        [],
        operation="shell.run",
        effect=Effect.EXECUTE,
        args={"command": "pip download x", "hosts": ["https://pypi.org", "example.org:8080"]},
        facts={"runs": "pip download x", "sandbox": "full_hosts", "hosts": names},
        grant_pattern="shell.run *network example.org:8080 pypi.org",
        grant_only="",
        can_grant_project=True,
    )
    rows = sentence_rows(given, words, DiffDocument([]))
    assert [row.tone for row in rows if names in row.text] == ["notice"]
    assert argument_rows(given, words, brief=True) == []
    assert sum(names in row.text for row in argument_rows(given, words)) == 1
    (session,) = [
        choice.text
        for choice in gate_question(given, words, DiffDocument([])).unlisted
        if choice.key == "s"
    ]
    assert "example.org:8080, pypi.org" in session
    first, *_ = scope_rows(given, GateChoice.PROJECT, [], words)
    assert first.text == words("rules.on_network", hosts="example.org:8080, pypi.org")
    free = given.replace(facts={"sandbox": "partial", "hosts_open": names}, grant_pattern="")
    for rows in (
        sentence_rows(free, words, DiffDocument([])),
        argument_rows(free, words),
    ):
        said = words("gate.hosts_open", hosts=names).casefold()
        assert [row.tone for row in rows if said in row.text.casefold()] == ["warning"]


@pytest.mark.parametrize("size", [(80, 20), (60, 20)])
@pytest.mark.parametrize("language", ["en", "ja"])
async def test_every_point_can_be_read_before_the_answer(
    size: tuple[int, int], language: str, open_apps: OpenApps
) -> None:
    """Covers S4-61. Points with more lines than fit scroll, and count as not seen until then."""
    long = gate(
        intent="割引を一つずつ順に適用する。" * 6,
        why="the failing test shows 20 % where 19 % is right; " * 6,
        alternatives=tuple(f"{n}: another way that takes some words to tell" for n in range(4)),
    )
    async with open_apps.asking(long, language=language, size=size) as (app, pilot):
        await at_gate(pilot)
        assert "│ ◆ 割引を" in app.text()
        assert "+3 −2" in app.text()
        await press(pilot, "y")
        assert app.answers == []
        app.clock.advance(ANEW_S)
        await press(pilot, "full_stop")
        seen = app.text()
        while app.card.count_unseen():
            await press(pilot, "pagedown")
            seen += app.text()
        assert all(f"{n}: another" in seen for n in range(4))
        await press(pilot, "full_stop", "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


async def test_lines_that_did_not_change_are_not_asked_about(open_apps: OpenApps) -> None:
    """Where room is short the diff begins with the change; the context before it is above."""
    async with open_apps.asking(gate(), size=(60, 18)) as (app, pilot):
        await at_gate(pilot)
        assert "# prices" not in app.text()
        assert "↑ 3" in app.text()
        assert app.card.count_unseen() == 0
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


async def test_what_tells_of_a_change_is_never_passed_over_unasked() -> None:
    """Of a file's name, of what becomes of it and of each changed line; of no other."""
    moved = FilePreview(path="a.py", kind="move", target="b.py", before_hash="h")
    wide = preview("wide.py", f"{'x ' * 300}\nold", f"{'x ' * 300}\nnew")
    for previews in ([moved, pricing()], [wide, moved]):
        app = GateApp(gate(previews))
        async with app.run_test(size=(60, 20)) as pilot:
            await at_gate(pilot)
            document = app.card._document  # pyright: ignore[reportPrivateUsage]
            rows = enumerate(document.rows)
            counted = [
                n for n, row in rows if row.mark != " " or row.kind in (RowKind.FILE, RowKind.NOTE)
            ]
            seen = document.seen
            assert all(seen.is_whole(n) or seen.is_left(n) for n in counted if document.weights[n])
            assert seen.is_left(0) == (previews[0] is wide)  # its name
            await press(pilot, "y")
            assert app.answers == []


async def test_the_keys_named_lead_to_what_was_not_seen(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([many_lines(99)]), size=(80, 24)) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        for keys, named in (((), "↓ PgDn End"), (("end",), "↑ PgUp Home")):
            await press(pilot, *keys, "y")
            assert f" {named} show more" in " ".join(unframed(app).split())
        await press(pilot, "home", *["pagedown"] * 2, "end", "pageup", "pageup", "y")
        assert "↑ PgUp Home show more" in " ".join(unframed(app).split())
        assert app.answers == []


async def test_title_and_keys_keep_to_their_lines_on_a_narrow_screen(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate(), step="step 2", language="en", size=(60, 20)) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        lines = app.text().split("\n")
        assert any(
            line.startswith("╭─ Edit src/shop/pricing.py  +3 −2  step 2 ─") for line in lines
        )
        end = next(n for n, line in enumerate(lines) if line.startswith("╰"))
        assert lines[end - 1].strip("│ ") == "y  allow   n  reject   e  edit   .  more"
        await press(pilot, "full_stop")
        lines = app.text().split("\n")
        end = next(n for n, line in enumerate(lines) if line.startswith("╰"))
        assert [line.strip("│ ") for line in lines[end - 3 : end]] == [
            "y  allow  n  reject  e  edit  c  remark  z  full screen",
            ".  less  s  this session: every edit inside the folder",
            "x  this session: edit src/shop/pricing.py",
        ]


async def test_title_that_fills_its_line_is_not_cut() -> None:
    """On 37 columns the title just fits: then no row has to repeat the path."""
    app = GateApp(gate())
    async with app.run_test(size=(37, 24)) as pilot:
        await at_gate(pilot)
        assert "╭─ Edit src/shop/pricing.py  +3 −2 ─" in app.text()
        assert "│ src/shop/pricing.py" not in app.text()
        await pilot.resize_terminal(36, 24)
        await drawn(pilot)
        assert "│ src/shop/pricing.py" in app.text()


async def test_missing_points_are_said_to_be_missing(open_apps: OpenApps) -> None:
    async with open_apps.asking(command(intent="")) as (app, pilot):
        await at_gate(pilot)
        assert "The AI gave no intent and no reason." in app.text()
        assert "◆ The AI gave" not in app.text()  # those words are the app's own
        assert "HIGH risk: a secret file" in app.text()
        assert "Cannot be undone" in app.text()
        await press(pilot, "i")
        assert app.text().count("not given") == 2
        assert "none" in app.text()
        assert "runs a program · cannot be undone" in app.text()


async def test_hostile_text_is_shown_and_does_nothing() -> None:
    """Markup, links, control and bidi characters in every field end up as signs on the screen."""
    evil = FilePreview(
        path=f"src/{HOSTILE}.py",
        kind="modify",
        hunks=preview("p", f"a {HOSTILE}", f"b {HOSTILE}").hunks,
        note=HOSTILE,
        added=1,
        removed=1,
        language="python",
    )
    waiting = gate(
        [evil],
        intent=HOSTILE,
        why=HOSTILE,
        alternatives=(HOSTILE,),
        grant_pattern=HOSTILE,
        args={HOSTILE: [HOSTILE]},
        impact=Impact(files=1, reasons=(HOSTILE,)),
    )
    app = GateApp(waiting, step="step 2")
    async with app.run_test(size=(120, 40)) as pilot:
        await at_gate(pilot)
        await pilot.click(app.card)
        text = app.text()
        assert "[@click=app.quit]" in text
        assert "␛]8;;http://evil" in text
        assert "⟨U+202E⟩abc" in text
        assert not set(text) & {"\x1b", "\x07", "\u202e", "\u200b"}
        for strip in app.screen._compositor.render_strips():  # pyright: ignore[reportPrivateUsage]  # what a terminal gets
            for segment in strip:
                assert segment.style is None or segment.style.link is None
                assert segment.style is None or "@click" not in segment.style.meta
        assert app.is_running


async def test_language_changes_under_an_open_gate() -> None:
    app = GateApp(gate())
    async with app.run_test(size=(120, 40)) as pilot:
        await at_gate(pilot)
        app.card.words = Catalogue("ja")
        await drawn(pilot)
        assert "許可" in app.text()
        assert "Apply discounts one after the other" in app.text()


def test_models_words_are_marked_and_facts_are_not() -> None:
    document = DiffDocument([pricing()])
    said = {row.label for row in point_rows(gate(), Catalogue(), document) if row.says}
    assert said == {"intent", "why", "or", ""}
    marked = [row for row in sentence_rows(gate(), Catalogue(), document) if row.mark]
    assert [row.text[:7] for row in marked] == ["◆ Apply"]


def test_the_check_of_a_requirement_is_the_apps_own_question() -> None:
    check = command(args={"command": "grep -q done a"}, checks="the notes say done")
    rows = {row.label: row for row in point_rows(check, Catalogue(), DiffDocument([]))}
    assert "requirement: the notes say done" in rows["intent"].text
    assert not rows["intent"].says
    assert not rows["why"].says
    [sentence, *_] = sentence_rows(check, Catalogue(), DiffDocument([]))
    assert not sentence.says
    assert AI_MARK not in sentence.text


def test_the_title_shows_the_command_as_it_is_and_no_line_break_of_ours() -> None:
    line = "sleep 30; echo ready"
    shown = command(args={"command": line}, facts={"runs": "sleep 30\n; echo ready"})
    assert subject_words(shown, Catalogue()) == line


def test_place_behind_a_link_is_named() -> None:
    impact = Impact(files=1, places=("src/shop/pricing.py", "/etc/hosts"))
    rows = point_rows(gate(impact=impact), Catalogue(), DiffDocument([pricing()]))
    named = [row.text for row in rows if "/etc/hosts" in row.text]
    assert len(named) == 1
    assert not any("pricing.py" in text for text in named)


def test_arguments_that_no_preview_shows_are_rows() -> None:
    """Every argument that will be used is shown: what is not on the diff stands in the card."""
    args = {
        "path": "src/shop/pricing.py",
        "edits": [{"old": "a", "new": "b"}],
        "mode": 0o755,
        "note": "",
    }
    rows = [row.text for row in argument_rows(gate(args=args), Catalogue())]
    assert rows == ["mode = 493", 'note = ""']
    elsewhere = gate(args={"path": "./src/shop/pricing.py"})
    assert [row.text for row in argument_rows(elsewhere, Catalogue())] == [
        'path = "./src/shop/pricing.py"'
    ]
    binary = FilePreview(path="a.png", kind="modify", note="binary")
    rows = [row.text for row in argument_rows(gate([binary], args={"content": "x"}), Catalogue())]
    assert rows == ['content = "x"']


def test_argument_of_many_lines_keeps_each_and_counts_blank_ones() -> None:
    text = "first\n" + "\n" * 6 + "last" + " " * 80 + "far"
    rows = [row.text for row in argument_rows(command(args={"command": text}), Catalogue())]
    assert rows == [
        "command = 8 lines:",
        "│ first",
        "│ 6 blank lines",
        "│ last⟨␠×80⟩far",
    ]


def test_every_detail_of_a_command_is_said_once() -> None:
    """Also where the AI gives one sentence as intent and reason."""
    line = "python3 -m pytest -q"
    asks = command(args={"command": line}, facts={"runs": line}, intent="Run it", why="Run it")
    words = Catalogue()
    rows = [*point_rows(asks, words, DiffDocument()), *argument_rows(asks, words)]
    assert [sum(said in row.text for row in rows) for said in (line, "Run it")] == [1, 1]


async def test_of_a_command_that_goes_on_nothing_is_said_to_be_undone(open_apps: OpenApps) -> None:
    async with open_apps.asking(command(args={"command": "serve", "background": True})) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        assert "Cannot be undone" in app.text()
