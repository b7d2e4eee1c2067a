"""The notes in the user's own editor, in a real terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.pty import Terminal
from support.serving import served
from support.session import done, script

BOARD_DEAF = 0.4  # seconds; a page ignores letters for 0.3 s after it opened


def test_e_opens_the_file_itself_and_what_was_written_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys\nwith open(sys.argv[1], 'ab') as file:\n    file.write(b'- by hand \\xff\\n')\n"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
    (tmp_path / "work").mkdir()
    with served(script(done("Hello."))) as server:
        url = server.endpoint.base_url
        command = [sys.executable, "-m", "duckflow_tui", "--base-url", url, "--model", "m"]
        environ = {"DUCKFLOW_HOME": str(tmp_path / "home")}
        with Terminal(
            command, cwd=tmp_path / "work", environ=environ, width=120, height=40
        ) as terminal:
            terminal.sees("Message", "work  m")  # the session is open
            terminal.type("/remember no emojis\r")
            terminal.sees("Noted")
            terminal.type("/memory\r")
            terminal.sees("no emojis", "Preferences")
            terminal.listen(BOARD_DEAF)
            terminal.type(".")
            terminal.sees("delete the line")
            terminal.type("open\r")
            terminal.sees("by hand", "no emojis")
            (path,) = (tmp_path / "home" / "data" / "memory").glob("*.md")
            assert path.read_bytes().endswith(b" no emojis\n- by hand \xff\n")
            terminal.type("\x1b")
            terminal.sees("Message")
            terminal.type("hello\r")
            terminal.sees("Hello.")
        (request,) = server.endpoint.of("main")
        assert "- by hand \ufffd" in request.text
