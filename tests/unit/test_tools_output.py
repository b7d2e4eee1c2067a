"""The output of commands: what is shown of it does not depend on the pieces it comes in."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.whole import rounds

from duckflow_tui.safety.secrets import REDACTED, Redactor
from duckflow_tui.tools.command_output import Capture

_KEY = "q8Zk3vT1pLm9XyR2bNc7WdJ4hGf6Us0E"

_PARTS = (
    "text\n",
    "日本",
    "\r",
    "\x1b[1;31mred\x1b[0m",
    "\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x07",
    "\x1b[24;1H~",
    "\x1b[?1049h",
    "\x1bPq#0\x1b\\",
    "\x1b(B",
)


@settings(max_examples=rounds(1_000, 150), deadline=None)
@given(
    st.lists(st.sampled_from(_PARTS), max_size=8).map("".join),
    st.sets(st.integers(1, 120), max_size=8),
)
def test_no_piece_of_an_escape_is_shown(text: str, cuts: set[int]) -> None:
    data, at, shown = text.encode(), 0, ""
    capture = Capture(Path("/nonexistent"), 1_000_000)
    for cut in sorted(cuts):
        shown += capture.take_piece(data[at:cut])
        at = max(at, min(cut, len(data)))
    shown += capture.take_piece(data[at:]) + capture.end_input()
    plain = Capture(Path("/nonexistent"), 1_000_000)
    assert shown == plain.take_piece(data) + plain.end_input()
    assert "\x1b" not in shown
    assert capture.read_output() == plain.read_output()
    assert capture.draws == ("\x1b[24;1H" in text or "\x1b[?1049h" in text)


def test_an_escape_that_never_ends_hides_nothing_else() -> None:
    capture = Capture(Path("/nonexistent"), 1_000_000)
    assert capture.take_piece(b"a\x1b") + capture.take_piece(b"]0;title") == "a"
    assert "end" in capture.take_piece(b"x" * 10_000 + b"\nend")


def kept_copy(folder: Path, printed: str, *known: str) -> str:
    """Return what is kept of a whole output, without known secrets and what looks like a key."""
    capture = Capture(folder, 10_000_000)
    capture.take_piece(printed.encode())
    copy = capture.copy_redacted(Redactor(known).redact_text)
    capture.close()
    assert copy is not None
    with copy:
        return copy.read().decode()


def test_the_whole_is_kept_without_colours_and_without_the_keys_that_hold_some(
    tmp_path: Path,
) -> None:
    marked = f"{_KEY[:8]}\x1b[01;31m\x1b[K{_KEY[8:10]}\x1b[m\x1b[K{_KEY[10:]}"
    printed = f"\x1b[1mbold\x1b[0m {marked}\napi_key: {marked}\n"
    assert kept_copy(tmp_path, printed, _KEY) == f"bold {REDACTED}\napi_key: {REDACTED}\n"
    assert _KEY[10:] not in kept_copy(tmp_path, f"api_key: {marked}\n")
