"""The diff on the screen: hunks, split, wrapping, search, copying, and what it costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support.app_states import FakeEngine, settled, store_with
from support.conversations import operation
from support.gates import GateApp, at_gate, drawn, gate, many_lines, press, preview, pricing
from support.open_apps import OpenApps
from support.screens import screen_text
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import SELECT_ALL, Selection
from textual.widgets import Input

from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.gates import DiffLine, FilePreview, GateChoice, Hunk
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.diff_document import DiffDocument, RowKind, shown_line
from duckflow_tui.ui.panes.diff_paint import caption_text, changed_words
from duckflow_tui.ui.panes.key_guard import ANEW_S, SETTLE_S
from duckflow_tui.ui.panes.rows import Seen
from duckflow_tui.ui.panes.strips import break_line
from duckflow_tui.ui.panes.syntax import CHUNK, SyntaxLines
from duckflow_tui.ui.screens.edit_proposal import EditProposal
from duckflow_tui.words.catalogue import Catalogue

WIDE = (120, 40)


def changes(*places: int, count: int = 60) -> FilePreview:
    """A file of numbered lines that changes in some of them."""
    before = [f"line {n}" for n in range(count)]
    after = [f"{line}!" if n in places else line for n, line in enumerate(before)]
    return preview("a.txt", "\n".join(before), "\n".join(after), language="")


def added(*lines: str) -> FilePreview:
    """A new file of these lines."""
    marked = tuple(DiffLine(mark="+", old=None, new=n, text=t) for n, t in enumerate(lines, 1))
    hunk = Hunk(old_start=0, old_count=0, new_start=1, new_count=len(lines), lines=marked)
    return FilePreview(path="new.txt", kind="create", hunks=(hunk,), added=len(lines))


def view_of(app: GateApp) -> DiffView:
    return app.card.diff.view


async def whole_screen(pilot: Pilot[None]) -> DiffView:
    """The diff of the gate on the whole screen, where it has a title and the focus."""
    app = await at_gate(pilot)
    await press(pilot, "z")
    app.clock.advance(ANEW_S)
    view = app.screen.query_one(DiffView)
    assert app.focused is view
    return view


async def test_title_and_counts_follow_the_hunk_at_hand(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([changes(3, 30, 55), pricing()])) as (app, pilot):
        view = await whole_screen(pilot)
        assert "a.txt  +3 −3  hunk 1/4" in app.text()
        await press(pilot, "right_square_bracket", "right_square_bracket")
        assert "hunk 3/4" in app.text()
        await press(pilot, "right_square_bracket", "right_square_bracket")
        assert "pricing.py  +3 −2  hunk 4/4" in app.text()
        await press(pilot, "left_square_bracket")
        assert view.heading.hunk == 3


async def test_a_diff_in_sight_gives_way_to_one_without_lines(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([changes(30)])) as (_, pilot):
        view = view_of(await at_gate(pilot))
        assert view.scrollable_content_region.height
        view.show(DiffDocument(), at_change=True)
        await drawn(pilot)
        assert view.first_line == 0


async def test_hunk_at_hand_follows_scrolling(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([changes(*range(3, 200, 12), count=210)])) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "end")
        assert view_of(app).heading.hunk > 10


async def test_lines_and_files_below_are_counted(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([many_lines(100), changes(3), pricing()])) as (app, pilot):
        off = (await whole_screen(pilot)).off_screen
        shown = 100 + 8 + 9 - off.lines_below
        assert off.files_below == 2
        assert 20 < shown < 40
        assert f"… {off.lines_below} more lines, 2 more files" in app.text()


async def test_keys_that_do_not_fit_below_the_diff_are_left_out_whole(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([changes(3, 30)]), size=(60, 20)) as (
        app,
        pilot,
    ):
        await drawn(pilot)
        foot = next(line for line in app.text().split("\n") if "hunks" in line)
        assert foot.rstrip("│ ").endswith(
            ("hunks", "keep or drop", "only this", "split", "no wrap")
        )


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_one_hunk_of_three_is_taken_with_its_change_in_sight(
    language: str, open_apps: OpenApps
) -> None:
    """What ``]`` brings is the change; what is above it gives way. Lines of hunks that were left
    out are not asked about.
    """
    hunks = gate([changes(3, 30, 55)])
    async with open_apps.asking(hunks, size=(80, 22), language=language) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        await press(pilot, "]")
        for line in ("31     -▸line 30", "31 + line 30!", "34  34   line 33"):
            assert line in app.text()
        await press(pilot, "[", "space", "]", "]", "space", "[")
        assert "31 + line 30!" in app.text()
        assert app.card._document.to_see <= 8  # pyright: ignore[reportPrivateUsage]
        await press(pilot, "y")
        assert [answer.left_out for answer in app.answers] == [((0, 0), (0, 2))]


async def test_the_second_of_two_near_changes_is_remarked_on_and_left_out(
    open_apps: OpenApps,
) -> None:
    """One line between two changes is enough; ``]`` brings the line that ``c`` is about."""
    async with open_apps.asking(gate([changes(3, 5)])) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "]", "c", *"why?", "enter")
        app.clock.advance(ANEW_S)
        await press(pilot, "space", "y")
        app.clock.advance(ANEW_S)
        assert "1 remark would be lost." in app.text()
        lines = [line.strip("│ ") for line in app.text().split("\n")]
        assert lines[lines.index("› why?") - 1].endswith("line 5")
        await press(pilot, "y")
        assert app.answers[0].left_out == ((0, 1),)


async def test_a_change_that_is_longer_than_the_view_is_shown_from_its_start(
    open_apps: OpenApps,
) -> None:
    before = [f"line {n}" for n in range(90)]
    after = [f"{line}!" if 40 <= n < 70 else line for n, line in enumerate([*before])]
    after[3] = "changed"
    long = preview("a.txt", "\n".join(before), "\n".join(after), language="")
    async with open_apps.asking(gate([long]), size=(80, 24)) as (app, pilot):
        await at_gate(pilot)
        for keys in (("]",), ("[", "]"), ("end", "[", "]")):
            await press(pilot, *keys)
            assert "41     -▸line 40" in app.text()
            assert "line 39" not in app.text()
        assert 30 < app.card.count_unseen() < 70  # no line that changes was passed over unasked


async def test_split_shows_old_and_new_side_by_side(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([changes(3)])) as (app, pilot):
        await drawn(pilot)
        app.card.focus()
        await drawn(pilot)
        app.clock.advance(1)
        await press(pilot, "v")
        row = next(line for line in app.text().split("\n") if "line 3!" in line)
        assert row.index("4 - line 3") < row.index("4 + line 3!")


async def test_long_lines_wrap_until_w_and_scroll_then(open_apps: OpenApps) -> None:
    text = "start " + "x" * 160 + " the end"
    async with open_apps.asking(gate([added(text)])) as (app, pilot):
        view = await whole_screen(pilot)
        assert "the end" in app.text()
        await press(pilot, "w")
        assert "the end" not in app.text()
        view.scroll_to(x=200, animate=False)
        await drawn(pilot)
        assert "the end" in app.text()
        assert "1 + " in app.text()


async def test_left_out_hunk_is_dimmed_and_says_so(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([changes(3, 30)])) as (app, pilot):
        await whole_screen(pilot)
        assert "left out" not in app.text()
        await press(pilot, "space")
        assert "hunk 1/2 · left out" in app.text()


async def test_diff_that_only_is_to_be_read_has_nothing_to_leave_out(open_apps: OpenApps) -> None:
    store = store_with()
    asked = gate([changes(3, 30)])
    store.state.messages.append(operation("file_ops.edit_file", {"path": "a.txt"}, gate=asked))
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await pilot.press("f4")
        view = app.bench.diff.view
        await settled(pilot, lambda: app.bench.focused is view, "the diff")
        await pilot.press("space")
        refused = app.words("diff.whole.only_shown")
        await settled(pilot, lambda: refused in " ".join(screen_text(app).split()), "why not")
        assert view.document.left_out == set()


async def test_search_goes_round_the_places(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([many_lines(300)])) as (app, pilot):
        await drawn(pilot)
        view = view_of(app)
        assert view.search("value_no") == 0
        assert view.search("VALUE_29") == 11
        assert [view.next_match(), view.next_match(), view.next_match(-1)] == [11, 1, 11]
        await drawn(pilot)
        assert "value_299" in app.text()


async def test_copied_text_has_no_numbers_and_no_marks(open_apps: OpenApps) -> None:
    long = "y" * 150
    async with open_apps.asking(gate([added("one", long, "", "", "", "", "last")])) as (_, pilot):
        view = await whole_screen(pilot)
        copied = view.get_selection(SELECT_ALL)
        assert copied is not None
        assert copied[0].split("\n") == ["one", long, "", "", "", "", "last"]
        gutter = 7
        part = Selection(Offset(gutter + 1, 2), Offset(gutter + 3, 3))
        assert view.get_selection(part) == ("ne\nyyy", "\n")


async def test_split_copies_the_side_where_the_selection_begins(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate([changes(3)])) as (app, pilot):
        await drawn(pilot)
        view = app.card.query_one(DiffView)
        view.split = True
        await drawn(pilot)
        old = view.get_selection(Selection(Offset(0, 4), Offset(30, 4)))
        new = view.get_selection(Selection(Offset(59, 4), Offset(110, 4)))
        assert (old, new) == (("line 3", "\n"), ("line 3!", "\n"))


@pytest.mark.parametrize("size", [(120, 40), (60, 20), (20, 5), (3, 2)])
async def test_diff_draws_wide_characters_within_its_width(
    size: tuple[int, int], open_apps: OpenApps
) -> None:
    text = "合計を計算する 👩‍👩‍👧 é가" * 6
    async with open_apps.asking(gate([added(text, "短い", text)]), size=size) as (
        app,
        pilot,
    ):
        view = app.card.query_one(DiffView)
        await drawn(pilot)
        for split in (True, False):
            for wrap in (True, False):
                view.split, view.wrap = split, wrap
                await drawn(pilot)
                width = view.scrollable_content_region.width
                for y in range(view.size.height):
                    assert view.render_line(y).cell_length == width


def test_runs_of_blank_lines_and_of_spaces_become_counts() -> None:
    document = DiffDocument([added("a", *[""] * 9, "b" + " " * 70 + "c")])
    lines = [(row.kind, row.text, row.count) for row in document.rows if row.hunk >= 0][1:]
    assert lines == [
        (RowKind.LINE, "a", 1),
        (RowKind.BLANKS, "", 9),
        (RowKind.LINE, "b⟨␠×70⟩c", 1),
    ]
    assert document.unseen_lines == 11  # that it is new, its title says


def test_line_that_only_looks_blank_is_shown() -> None:
    document = DiffDocument([added(*["\u200b"] * 5, *["\x1c"] * 5)])
    shown = [row.text for row in document.rows if row.kind is RowKind.LINE]
    assert shown == ["⟨U+200B⟩"] * 5 + ["␜"] * 5


def test_spaces_that_are_no_ascii_are_counted_too() -> None:
    assert shown_line("a" + "\u3000\u00a0" * 25 + "b") == "a⟨␠×50⟩b"


def test_only_hunks_of_a_file_that_stays_can_be_left_out() -> None:
    document = DiffDocument([added("x"), changes(3)], choosing=True)
    assert not document.toggle((0, 0))
    assert document.toggle((1, 0))
    assert document.figures() == (1, 0)
    assert not document.takes_nothing


def test_changed_words_are_found_only_in_lines_that_are_alike() -> None:
    old, new = changed_words("return price * rate", "return price * share")
    assert (old, new) == (((15, 19),), ((15, 20),))
    assert changed_words("import os", "def total(price):") == ((), ())


def test_syntax_knows_a_string_that_began_before_the_chunk() -> None:
    lines = ["x = 1"] * (CHUNK - 2) + ['text = """', "still", "a string", '"""', "y = 2"]
    syntax = SyntaxLines("python", lines.__getitem__, len(lines))
    assert [kind for _, kind in syntax.spans(CHUNK)] == ["string"]
    assert [kind for _, kind in syntax.spans(CHUNK + 2)] == ["number"]
    assert list(SyntaxLines("no such language", lines.__getitem__, 5).spans(0)) == []


@given(st.lists(st.integers(0, 30), max_size=8), st.data())
def test_seen_counts_a_row_only_when_all_of_it_was_drawn(
    lengths: list[int], data: st.DataObject
) -> None:
    """Against the plain definition: every character of the row was drawn, in order."""
    seen = Seen(lengths, [1] * len(lengths))
    drawn = [-1] * len(lengths)
    for _ in range(data.draw(st.integers(0, 12)) if lengths else 0):
        row = data.draw(st.integers(0, len(lengths) - 1))
        start = data.draw(st.integers(0, lengths[row]))
        stop = data.draw(st.integers(start, lengths[row]))
        seen.mark_seen(row, start, stop)
        if start <= max(drawn[row], 0):
            drawn[row] = max(drawn[row], stop)
    missing = [row for row, upto in enumerate(drawn) if upto < lengths[row]]
    assert seen.unseen_lines == len(missing)
    assert [row for row in range(len(lengths)) if not seen.is_whole(row)] == missing


@given(st.text("ab (_) =,日本語。é👍\u0301", max_size=90), st.integers(4, 40), st.integers(0, 20))
def test_lines_are_broken_at_words_and_lose_nothing(text: str, room: int, indent: int) -> None:
    hang = min(indent, room // 2)
    spans = break_line(text, room, hang)
    assert "".join(text[start:stop] for start, stop in spans) == text
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
    for number, (start, stop) in enumerate(spans):
        width = room - hang if number else room
        assert cell_len(text[start:stop].rstrip(" ")) <= width
        inside = text[stop - 1 : stop + 1]
        if len(inside) == 2 and inside.isascii() and inside.isalnum():  # a word that is too long
            assert text[start:stop].strip().isalnum()


async def test_a_broken_line_keeps_its_indentation(open_apps: OpenApps) -> None:
    deep = "        return the_price_of(all_items) - the_discount_of(all_items)"
    new = gate([preview("a.py", "", deep, kind="create")])
    async with open_apps.asking(new, size=(60, 24)) as (app, pilot):
        await drawn(pilot)
        lines = [line for line in app.text().split("\n") if "↳" in line]
        assert lines
        assert all(line.split("↳ ")[1].startswith(" " * 8) for line in lines)
        assert app.card.diff.view.document.unseen_lines == 0


def test_no_single_sign_is_lit_beside_words_that_changed_or_alone() -> None:
    old, new = "return total(price, rate, days, stop)", "return total(cost, (rate), days, stop)"
    spans = changed_words(old, new)
    assert [old[a:b] for a, b in spans[0]] == ["price"]
    assert [new[a:b] for a, b in spans[1]] == ["cost"]
    assert changed_words("total(price", "total(price)") == ((), ())
    assert changed_words("price * 1 - rate", "price *= 1 - rate") == ((), ())


async def test_v_is_offered_where_two_sides_have_room_and_what_it_said_goes() -> None:
    app = GateApp(gate())
    async with app.run_test(size=(60, 24)) as pilot:
        await at_gate(pilot)
        assert "v split" not in app.text()
        await press(pilot, "v")
        assert "too narrow for side by side" in app.text()
        await press(pilot, "w")
        assert "too narrow" not in app.text()
        await press(pilot, "v")
        await pilot.resize_terminal(100, 24)
        await drawn(pilot)
        assert "too narrow" not in app.text()
        assert "v split" in app.text()
        await press(pilot, "v")
        assert "v unified" in app.text()
        await pilot.resize_terminal(60, 24)
        await drawn(pilot)
        assert "too narrow" not in app.text()


async def test_without_wrapping_a_cut_line_is_marked_and_can_be_scrolled(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate([added("x" * 130 + "the end", "short")])) as (app, pilot):
        await whole_screen(pilot)
        await press(pilot, "w")
        cut = next(line for line in app.text().split("\n") if "xxx" in line)
        assert cut.rstrip().endswith("x…")
        await press(pilot, *["right"] * 40)
        moved = next(line for line in app.text().split("\n") if "the end" in line)
        assert "…" not in moved


@pytest.mark.parametrize(("width", "sides"), [(70, False), (120, True)])
async def test_two_versions_stand_side_by_side_only_where_they_can_be_read(
    width: int, sides: bool, open_apps: OpenApps
) -> None:
    async with open_apps.asking(gate([changes(3)]), size=(width, 40)) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "v")
        together = any("line 3 " in line and "line 3!" in line for line in app.text().split("\n"))
        assert together is sides
        assert ("too narrow for side by side" in app.text()) is not sides


async def test_z_shows_the_diff_of_a_gate_on_the_whole_screen(open_apps: OpenApps) -> None:
    """Two sides are real there, hunks can be left out, and what is seen counts."""
    async with open_apps.asking(gate([changes(3, 20, 40, 60, 80, count=100), changes(5)])) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        await press(pilot, "full_stop")
        assert " z  full screen" in app.text()
        await press(pilot, "full_stop")
        left = app.card.count_unseen()
        assert left
        await press(pilot, "z")
        assert "src" not in app.text()
        assert "◆" not in app.text()
        app.clock.advance(ANEW_S)
        await press(pilot, "v", "space", "end")
        assert any(line.count("│") == 1 for line in app.text().split("\n"))
        assert app.card._document.unseen_lines == 0  # pyright: ignore[reportPrivateUsage]
        await press(pilot, "z", "y")  # too soon: the focus has just come
        assert app.answers == []
        assert "1 of 6 hunks left out" in app.text()
        await press(pilot, "z")
        app.clock.advance(ANEW_S)
        await press(pilot, "z")
        app.gates = ()
        await drawn(pilot)
        assert len(app.screen_stack) == 1


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_whole_screen_keeps_the_hunk_at_hand_and_says_how_to_leave(
    size: tuple[int, int], open_apps: OpenApps
) -> None:
    """Covers S4-60. What is left out there is what was marked, and what was seen there is counted
    in the gate; keys that decide are named, and are ignored until the page could be seen.
    """
    async with open_apps.asking(gate([changes(3, 30, 90, count=100)]), size=size) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "]", "z")
        whole = app.screen.query_one(DiffView)
        assert whole.heading.hunk == 2
        assert "z or Esc back  y allow  n reject" in app.text()
        app.clock.advance(0.9 * SETTLE_S)
        for key in "ynse1":
            await press(pilot, key)
            assert "came too soon and did nothing" in app.text()
        assert app.answers == []
        app.clock.advance(ANEW_S)
        await press(pilot, "space", "]", "end", "z")
        assert app.card._document.left_out == {(0, 1)}  # pyright: ignore[reportPrivateUsage]
        view = app.card.diff.view  # pyright: ignore[reportPrivateUsage]
        assert view.heading.hunk == 3
        left = app.card._document.unseen_lines  # pyright: ignore[reportPrivateUsage]
        total = app.card._document.to_see  # pyright: ignore[reportPrivateUsage]
        assert (f"seen {total - left} of {total}" in app.text()) is bool(left)


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_a_key_of_the_gate_decides_on_the_whole_screen_as_at_the_gate(
    language: str, open_apps: OpenApps
) -> None:
    """Covers S4-60. ``y`` asks once where lines were not on screen."""
    long = gate([many_lines(60)])
    proposed = {long.gate_id: "x = 1\n"}
    async with open_apps.asking(long, size=(80, 24), language=language, proposed=proposed) as (
        app,
        pilot,
    ):

        async def whole(*keys: str) -> None:
            await at_gate(pilot)
            await press(pilot, "z")
            app.clock.advance(ANEW_S)
            await press(pilot, *keys)

        await whole("n")
        reason = app.query_one("#question-text", Input)
        assert app.focused is reason
        await press(pilot, "escape")
        await whole("e")
        assert isinstance(app.screen, EditProposal)
        await press(pilot, "escape")
        await whole("y")
        assert app.words("gate.unread.allow") in app.text()
        await press(pilot, "y")  # nobody has read that yet
        assert app.answers == []
        await whole("pagedown", "pagedown", "pagedown", "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]
        assert len(app.screen_stack) == 1


def test_what_lines_cannot_show_is_said_in_the_language_of_the_screen() -> None:
    """Of a changed file it is a row of its own, and of a created one it is not left out."""
    fact = LocalizedText(key="diff.fact.no_final_newline")
    for kind, said in (("modify", "末尾に改行なし"), ("create", "新しいファイル · 末尾に改行なし")):
        document = DiffDocument([added("x").replace(kind=kind, facts=(fact,))])
        assert caption_text(document, Catalogue("ja"), 0) == said
        assert document.title_rows == ((1,) if kind == "create" else ())
