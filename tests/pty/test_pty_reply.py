"""A reply on a real terminal: what stands there at its end is what a new drawing shows."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from support.pty import Terminal
from support.serving import Served, served
from support.session import done, script

ANSWER = """\
Three things:

- one
- two
- three

First part ends here, 日本語も少し.

## A heading

| name | value |
|---|--:|
| a | 1 |

```python
def f(x):
    return x
```

1. last
2. of all
"""


def is_wide(terminal: Terminal, width: int) -> bool:
    """Whether the screen is drawn for this width."""
    return max(map(len, terminal.lines)) == width - 1


def program(tmp_path: Path, server: Served, height: int = 50) -> Terminal:
    """The program in this folder against this endpoint."""
    command = [sys.executable, "-m", "duckflow_tui", "--model", "m"]
    command += ["--base-url", server.endpoint.base_url]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home")}
    return Terminal(command, cwd=tmp_path, environ=environ, width=120, height=height)


def test_esc_ends_a_reply_at_once_and_enter_asks_again(tmp_path: Path) -> None:
    sentences = "\n\n".join(f"Sentence {number}." for number in range(1, 100))
    half = {"hold": "the rest", "hold_after": 600, "chunk_size": 50}
    slow = done(sentences, step="PLANNING").model_copy(update=half)
    again = done("In short: no.", step="PLANNING")
    with served(script(slow, again)) as server, program(tmp_path, server) as terminal:
        terminal.sees("Message")
        terminal.type("tell me all\r")
        terminal.sees("Sentence 30.")
        terminal.type("\x1b")
        terminal.sees("stopped by you here", "Paused: nothing more is done until you continue.")
        said = [line for line in terminal.lines if "Sentence" in line]
        server.release("the rest")
        terminal.listen(0.5)
        assert said == [line for line in terminal.lines if "Sentence" in line]
        assert len(server.endpoint.of("main")) == 1
        terminal.type("\r")
        terminal.sees("In short: no.", "calls ·")
        assert "Paused" not in terminal.text


def test_a_reply_that_came_with_pauses_is_whole_without_another_drawing(tmp_path: Path) -> None:
    pause = {"hold": "a pause", "hold_after": 43, "chunk_size": 43}
    slow = done(ANSWER).model_copy(update=pause)
    with served(script(slow)) as server, program(tmp_path, server) as terminal:

        def reply() -> list[str]:
            """The rows from the reply's first one to the line of what the turn took."""
            lines = [line[:70] for line in terminal.lines]
            first = next((y for y, line in enumerate(lines) if "Three things" in line), 0)
            last = next((y for y, line in enumerate(lines) if "1 call ·" in line), first)
            return lines[first:last]

        terminal.sees("Message")
        terminal.type("which?\r")
        terminal.sees("three", "First")
        server.release("a pause")
        terminal.sees("1 call ·", "of all")
        rows = reply()
        text = "\n".join(rows)
        assert all(word in text for word in ("two", "A heading", "value", "return x", "last"))
        for width in (60, 120):
            terminal.resize(width, 50)
            terminal.until(partial(is_wide, terminal, width), "the width")
        terminal.until(lambda: reply() == rows, "the same rows", deadline=5)
