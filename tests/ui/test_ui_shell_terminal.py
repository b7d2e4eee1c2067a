"""What reaches the terminal: the last filter, titles, notifications, the clipboard."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from support.app_states import FakeEngine, app_with, settled, standing, store_with, turn_started
from support.conversations import user
from support.gates import gate
from textual import events
from textual.color import Color
from textual.widgets import Static

from duckflow_tui.safety.safe_text import is_safe
from duckflow_tui.state.gates import GateOpened
from duckflow_tui.state.turn import TurnFinished, TurnOutcome
from duckflow_tui.ui.escape_filter import SafeLineFilter
from duckflow_tui.ui.terminal import (
    MAX_CLIPBOARD,
    clipboard_sequence,
    notification_sequence,
    title_sequence,
)

BLACK = Color(0, 0, 0)
HOSTILE = "a\x1b]52;c;ZXZpbA==\x07b\x9b31m\u202egnp.exe\u200b\x00"


@given(st.lists(st.text(max_size=12), max_size=6))
def test_the_filter_leaves_nothing_that_acts_and_keeps_the_width(texts: list[str]) -> None:
    """Covers R13."""
    segments = [Segment(text, Style(bold=True)) for text in texts]
    filtered = SafeLineFilter().apply(segments, BLACK)
    assert all(is_safe(segment.text) and "\n" not in segment.text for segment in filtered)
    before = sum(cell_len(segment.text) for segment in segments)
    assert sum(cell_len(segment.text) for segment in filtered) == before


def test_the_filter_takes_links_away_and_leaves_the_rest() -> None:
    plain = [Segment("日本語 한국어 👩\u200d👩\u200d👧", Style(bold=True))]
    assert SafeLineFilter().apply(plain, BLACK) == plain
    linked = [Segment("here", Style(bold=True, link="https://example.org/\x1b]0;x"))]
    (shown,) = SafeLineFilter().apply(linked, BLACK)
    assert shown.text == "here"
    assert shown.style is not None
    assert shown.style.link is None
    assert shown.style.bold


async def test_every_widget_of_the_app_passes_the_filter() -> None:
    """Covers R13: also a widget that was handed text that nobody made safe."""
    app = app_with(FakeEngine(store_with()))
    async with standing(app) as pilot:
        widget = Static(HOSTILE, markup=False)
        await app.bench.query_one("#chat").mount(widget)
        await pilot.pause()
        lines = widget.render_lines(widget.size.region)
        shown = "".join(segment.text for strip in lines for segment in strip)
        assert is_safe(shown)


@pytest.mark.parametrize(
    "environ", [{}, {"TERM": "foot"}, {"VTE_VERSION": "7000"}, {"TMUX": "/tmp/x"}]
)
def test_titles_and_notifications_carry_no_sequence_of_others(environ: dict[str, str]) -> None:
    """Covers R13."""
    title = title_sequence(HOSTILE)
    assert title.startswith("\x1b]2;")
    assert is_safe(title.removeprefix("\x1b]2;").removesuffix("\x1b\\"))
    note = notification_sequence("duckflow", HOSTILE, environ)
    if "TMUX" in environ:
        note = note.removeprefix("\x1bPtmux;").removesuffix("\x1b\\").replace("\x1b\x1b", "\x1b")
    body = note.removeprefix("\x1b]777;notify;").removeprefix("\x1b]9;").removesuffix("\x1b\\")
    assert is_safe(body)
    assert body != note


def test_the_clipboard_takes_the_text_as_it_is_up_to_its_limit() -> None:
    sequence = clipboard_sequence("naïve\x1b", {})
    assert sequence is not None
    data = sequence.removeprefix("\x1b]52;c;").removesuffix("\x1b\\")
    assert base64.b64decode(data).decode() == "naïve\x1b"
    assert clipboard_sequence("x" * MAX_CLIPBOARD, {}) is None


@pytest.mark.parametrize("blurred", [True, False])
async def test_an_open_gate_calls_only_when_nobody_looks(
    blurred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeEngine(store_with(turn_started()))
    app = app_with(fake)
    bells: list[str] = []
    written: list[str] = []
    async with standing(app) as pilot:
        monkeypatch.setattr(app, "bell", lambda: bells.append("bell"))
        monkeypatch.setattr(app, "write_to_terminal", written.append)
        if blurred:
            app.post_message(events.AppBlur())
            await pilot.pause()
        fake.store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: any("needs you" in text for text in written))
        assert bool(bells) is blurred
        assert any("]9;" in text or "]777;" in text for text in written) is blurred
        assert not any("file_ops" in text for text in written)  # a name that nobody knows


@pytest.mark.parametrize("blurred", [True, False])
@pytest.mark.parametrize(
    ("outcome", "said"), [("done", "Done: mend"), ("failed", "Ended without finishing: mend")]
)
async def test_the_end_of_the_work_calls_only_when_nobody_looks(
    blurred: bool, outcome: TurnOutcome, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeEngine(store_with(turn_started()))
    app = app_with(fake)
    fake.store.state.messages.append(user("mend the total"))
    written: list[str] = []
    async with standing(app) as pilot:
        turn = fake.store.state.turn
        assert turn is not None
        monkeypatch.setattr(app, "write_to_terminal", written.append)
        if blurred:
            app.post_message(events.AppBlur())
        await pilot.pause()
        assert not any(said in text for text in written)
        fake.store.dispatch(TurnFinished(turn_id=turn.turn_id, outcome=outcome))
        if blurred:
            await settled(pilot, lambda: any(said in text for text in written), "the call")
        await pilot.pause()
        assert sum(said in text for text in written) == blurred


async def test_no_colour_means_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    fake = FakeEngine(store_with())
    app = app_with(fake)
    async with standing(app):
        strips: list[Any] = []
        for widget in (app.bench.header, app.bench.status, app.bench.composer):
            strips += widget.render_lines(widget.outer_size.region)
        styles = [segment.style for strip in strips for segment in strip if segment.style]
        assert all(style.color is None or style.color.is_default for style in styles)
        assert all(style.bgcolor is None or style.bgcolor.is_default for style in styles)
        assert any(style.reverse for style in styles), "the cursor must be seen"


async def test_a_crash_report_shows_no_values_and_no_sequences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = app_with(FakeEngine(store_with()))

    def broken() -> None:
        key = "".join(("sk-", "secret", "-value"))
        raise RuntimeError(f"boom\x1b[31m {len(key)}")

    async def crash() -> None:
        async with standing(app) as pilot:
            app.call_later(broken)
            await settled(pilot, lambda: not app.is_running)

    with pytest.raises(RuntimeError):
        await crash()
    report = capsys.readouterr().err
    assert "boom␛[31m 15" in report
    assert "sk-secret" not in report
