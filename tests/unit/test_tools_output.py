"""The output of commands: what is shown of it does not depend on the pieces it comes in."""

from __future__ import annotations

import errno
import io
import os
import tempfile
import time
from pathlib import Path

import pytest
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


def test_a_key_is_masked_whichever_line_of_a_long_output_it_stands_on(tmp_path: Path) -> None:
    """Also where its name ends the part of the output that is searched at once."""
    line = "x" * 99 + "\n"
    for before in range(1, 12):
        ahead = (line * 10_000)[before:]
        kept = kept_copy(tmp_path, f"{ahead}api_key:\n  {_KEY}\n{line * 2_000}")
        assert kept == f"{ahead}api_key:\n  {REDACTED}\n{line * 2_000}"


@pytest.mark.parametrize("begin", ["\x1b[", "\x1b ", "\x1b", "\x1b]", "\x1bP"])
def test_an_escape_of_any_length_takes_bounded_time_and_is_no_text(
    begin: str, tmp_path: Path
) -> None:
    capture = Capture(tmp_path, 1_000_000)
    assert capture.take_piece(begin.encode()) == ""
    began = time.process_time()
    shown = "".join(capture.take_piece(b"0" * 65_536) for _ in range(100))
    capture.close()
    assert time.process_time() - began < 3
    assert len(shown) > 99 * 65_536 - 5_000  # almost nothing is held back
    assert "\x1b" not in shown


class _Disk(io.FileIO):
    """A file on a disk that can be full."""

    full = False

    def write(self, data: object) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)  # pyright: ignore[reportArgumentType]


def test_a_disk_that_is_full_at_the_end_loses_the_whole_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Disk(tmp_path / "spool", "w+")

    def open_on_disk(**_: object) -> io.BufferedRandom:
        return io.BufferedRandom(disk)

    monkeypatch.setattr(tempfile, "TemporaryFile", open_on_disk)
    capture = Capture(tmp_path, 10_000_000)
    capture.take_piece(b"begin\n" + b"x" * 300_000)
    disk.full = True
    capture.take_piece(b"\nend\n")
    capture.close()
    assert disk.closed
    assert capture.lost == os.strerror(errno.ENOSPC)
    assert not capture.is_complete
    kept = capture.read_output()
    assert kept.head.startswith("begin\n")
    assert kept.tail.endswith("end\n")
