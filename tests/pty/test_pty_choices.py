"""What is chosen on the screen is there when the program is started again, in a real terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.pty import Terminal
from support.serving import served
from support.session import done, script


def test_choices_made_right_before_the_end_are_there_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    home = tmp_path / "home"
    with served(script(done("Hello."))) as server:
        url = server.endpoint.base_url
        command = [sys.executable, "-m", "duckflow_tui", "--base-url", url, "--model", "m"]
        environ = {"DUCKFLOW_HOME": str(home), "LANG": "C.UTF-8"}
        with Terminal(command, cwd=tmp_path / "work", environ=environ) as terminal:
            terminal.sees("Message", "work  m")
            terminal.type("/theme duck-light\r")
            terminal.type("\x1b[17~")  # F6
            terminal.type("/lang ja\r/quit\r")  # in one go
            assert terminal.wait() == 0
        settings = (home / "config" / "settings.toml").read_text()
        assert settings == '[ui]\ntheme = "duck-light"\nlanguage = "ja"\n'
        assert json.loads((home / "data" / "side.json").read_text())["column"] == "wide"
        flags = [*command, "--lang", "en"]
        with Terminal(flags, cwd=tmp_path / "work", environ=environ) as terminal:
            terminal.sees("Message", "work  m")
            terminal.type("/lang ja\r")
            terminal.sees("--lang を付けて起動すると")
        with Terminal(command, cwd=tmp_path / "work", environ=environ) as terminal:
            terminal.sees("メッセージ", "work  m")
