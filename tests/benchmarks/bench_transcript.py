"""What the chat costs: markdown that streams, a long session, an idle screen.

Every function returns rows of what, measured, limit, met, unit; ``measure`` returns all.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from support.conversations import ChatApp, assistant, live, operation, user
from textual.app import ComposeResult
from textual.widgets import Static

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import Message
from duckflow_tui.ui.palette import DUCK_DARK
from duckflow_tui.ui.panes.blocks import Look
from duckflow_tui.ui.panes.markdown import MarkdownDocument
from duckflow_tui.words.catalogue import Catalogue

Row = dict[str, Any]
SIZE = 64 * 1024

_SECTION = """\
## Part {i}

Some **bold** words with `code` and a [link](https://example.com/{i}) that go on for a while.

- a first item with *emphasis*
- a second item
  - one inside

```python
def part_{i}(x: int) -> int:
    return x + {i}  # a comment
```

| name | value |
|------|------:|
| part | {i} |

"""


def sample(length: int = SIZE) -> str:
    """Markdown dense in blocks, ``length`` characters of it."""
    parts: list[str] = []
    while sum(map(len, parts)) < length:
        parts.append(_SECTION.replace("{i}", str(len(parts))))
    return "".join(parts)[:length]


def row(what: str, measured: float, limit: float, unit: str) -> Row:
    """A line of the report; met when not above the limit."""
    return {
        "what": what,
        "measured": round(measured, 3),
        "limit": round(limit, 3),
        "met": measured <= limit,
        "unit": unit,
    }


def markdown_alone() -> list[Row]:
    """64 KB parsed and drawn, in frames as they come at 2,000 characters a second."""
    rows: list[Row] = []
    code = "```python\n" + Path(__file__).read_text(encoding="utf-8") * 20
    for what, text in (("mixed", sample()), ("one code block", code[:SIZE])):
        document = MarkdownDocument(Look(DUCK_DARK, 84, Catalogue("en")))
        began = process_time()
        for at in range(0, len(text), 67):
            document.feed_text(text[at : at + 67])
            document.draw_fed()
        document.draw_rest()
        rows.append(
            row(f"64 KB of markdown, {what}, 978 frames", process_time() - began, 1.7, "s CPU")
        )
    return rows


class FramedApp(ChatApp):
    """The chat under a line of something else, as on the real screen."""

    def compose(self) -> ComposeResult:
        yield Static("header")
        yield from super().compose()


async def _stream(state: AgentState, pause: float) -> tuple[float, float, int]:
    """CPU and wall seconds of 64 KB in the widget; and how many lines it has at the end."""
    app = FramedApp(state)
    text = sample()
    async with app.run_test(size=(120, 40)) as pilot:
        reply = live("")
        state.live["llm9"] = reply
        await pilot.pause()
        step = 2000 // 30
        cpu, wall = process_time(), perf_counter()
        for number, at in enumerate(range(0, len(text), step), 1):
            reply.text.append(text[at : at + step])
            app.chat.live_changed(state)
            await asyncio.sleep(max(0.0, wall + number * pause - perf_counter()))
        state.live.clear()
        app.say(assistant(text, 9))
        lines = app.chat.virtual_size.height
        await pilot.pause()
        return process_time() - cpu, perf_counter() - wall, lines


def streaming() -> list[Row]:
    """64 KB through the widget at 2,000 characters a second, and as fast as they come."""
    paced_cpu, paced_wall, _ = asyncio.run(_stream(AgentState(), 1 / 30))
    fast_cpu, fast_wall, _ = asyncio.run(_stream(AgentState(), 0.0))
    ideal = len(range(0, SIZE, 2000 // 30)) / 30
    return [
        row("64 KB at 2,000 characters/s", paced_cpu, 4.0, "s CPU"),
        row("64 KB at 2,000 characters/s, behind at the end", paced_wall - ideal, 0.06, "s"),
        row("64 KB as fast as they come, in the widget", fast_wall, 1.7, "s"),
        row("64 KB as fast as they come, in the widget", fast_cpu, 1.7, "s CPU"),
    ]


def many(count: int) -> AgentState:
    """A session of ``count`` messages."""
    state = AgentState()
    kinds: list[Message] = []
    for number in range(count // 5):
        kinds += [
            user(f"Please look at part {number}, it fails with two discounts.", number),
            operation("file_ops.read_file", {"path": f"src/part_{number}.py"}, text="x\n" * 40),
            operation("shell.run", {"command": "pytest -q"}, summary="12 passed"),
            assistant(_SECTION.replace("{i}", str(number)), number),
            assistant("Part done. " * 20, number + count),
        ]
    state.messages = kinds
    return state


async def _session(count: int) -> dict[str, float]:
    state = many(count)
    app = FramedApp(AgentState())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        began = perf_counter()
        app.state = state
        app.chat.bind_state(state, app.chat.words, app.clock)
        await pilot.pause()
        found = {"open": perf_counter() - began}
        began = process_time()
        for number in range(100):
            app.say(user(f"message {number}", number))
            await asyncio.sleep(0)
        found["message"] = (process_time() - began) / 100
        began = process_time()
        for _ in range(100):
            app.chat.scroll_relative(y=-1, animate=False)
            await asyncio.sleep(0)
        found["scroll"] = (process_time() - began) / 100
        began = perf_counter()
        app.chat.action_scroll_home()
        await pilot.pause()
        found["home"] = perf_counter() - began
        began = perf_counter()
        app.chat.search("discounts")
        found["search"] = perf_counter() - began
        while app.chat.search_position[1] < count // 5:
            await pilot.pause(0)
        found["searched"] = perf_counter() - began
        return found


def long_session() -> list[Row]:
    """5,000 messages against 50, which fill the screen as well."""
    small, large = asyncio.run(_session(50)), asyncio.run(_session(5000))
    rows = [row("5,000 messages opened", large["open"], 1.0, "s")]
    for what in ("message", "scroll"):
        rows.append(
            row(f"one {what} below 5,000, times that below 50", large[what] / small[what], 1.2, "×")
        )
    rows.append(row("newest match in 5,000 messages", large["search"], 0.3, "s"))
    rows.append(row("all matches in 5,000 messages", large["searched"], 3.0, "s"))
    rows.append(row("from the end of 5,000 messages to their start", large["home"], 0.3, "s"))
    return rows


def measure() -> list[Row]:
    """Everything above."""
    return [*markdown_alone(), *long_session(), *streaming()]
