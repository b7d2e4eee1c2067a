"""What a server writes to its standard error: kept small, private, and without secrets."""

from __future__ import annotations

from pathlib import Path

from duckflow_tui.tools.mcp.stdio import MAX_BYTES, SHOWN, ServerLog, log_end


def test_a_full_log_goes_on_in_another_file_and_both_are_private(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "mcp" / "shop.log", str)
    for _ in range(2):
        log.add_line("x" * (MAX_BYTES - 10))
    log.add_line("the newest")
    files = sorted((tmp_path / "mcp").iterdir())
    assert [file.name for file in files] == ["shop.log", "shop.log.1"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    assert all(file.stat().st_size <= MAX_BYTES for file in files)
    assert "the newest" in "".join(file.read_text() for file in files)


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
