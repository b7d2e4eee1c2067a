"""What a server writes to its standard error: kept small, private, and without secrets."""

from __future__ import annotations

from pathlib import Path

from duckflow_tui.tools.mcp.stdio import SHOWN, ServerLog, log_end


def test_secrets_are_taken_out_of_whole_lines_and_the_end_begins_with_one(tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    log = ServerLog(path, lambda text: text.replace("hunter2", "[redacted]"))
    log.add_piece(b"the password is hun")
    log.add_piece(b"ter2\nnext")
    assert path.read_text() == "the password is [redacted]\n"
    assert log.last_line == "next"
    log.add_piece(b" line\n" * SHOWN)
    shown = log_end(path)
    assert len(shown.encode()) <= SHOWN
    assert set(shown.splitlines()) == {" line"}


def test_a_log_that_cannot_be_written_keeps_nobody_from_working(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = ServerLog(tmp_path / "file" / "shop.log", str)
    log.add_piece(b"lost\n")
    assert log.last_line == "lost"
    assert log_end(log.path) == ""
