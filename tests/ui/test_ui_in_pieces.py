"""Replies and reasoning that are drawn piece by piece stand there as if drawn at once."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.app_states import store_with
from support.conversations import ChatApp
from support.markdown_texts import replies
from support.whole import rounds
from textual.pilot import Pilot

from duckflow_tui.state.conversation import AssistantMessage, AssistantReplied
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import LlmCallStarted, ReasoningDelta, ReplyDelta, ReplyRestarted
from duckflow_tui.words.catalogue import Catalogue

DEADLINE = 30.0
HEIGHT = 400  # lines: nothing is scrolled away

#: With a block of each kind, so that a pause falls into each of them.
ANSWER = """\
Three things:

- one
- two
- three

First part ends here, and a paragraph goes on
over a second line.

## A heading

| name | value |
|---|--:|
| a | 1 |

```python
def f(x):
    return x
```

> quoted
> twice

1. last
2. of all
"""


@dataclass
class Reply:
    """A reply as a model writes it, and how much of it came."""

    llm_id: str
    text: str
    reasoning: str
    came: int = 0
    thought: int = 0


Step = tuple[
    Literal["first", "second", "thought", "pause", "anew", "size", "theme", "words", "fold"], int
]
STEPS = ("first", "second", "thought", "pause", "pause", "anew", "size", "theme", "words", "fold")
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 90)), max_size=24)


class Chat:
    """The chat in an app of its own that stays open."""

    def __init__(self) -> None:
        self.app = ChatApp()
        self.pilot: Pilot[None] | None = None
        self.store: Store = store_with()
        self._over = asyncio.Event()
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        async def run() -> None:
            async with self.app.run_test(size=(60, HEIGHT)) as self.pilot:
                self._started.set()
                await self._over.wait()

        self._task = asyncio.create_task(run())
        await self._started.wait()

    async def close(self) -> None:
        self._over.set()
        if self._task is not None:
            await self._task

    def begin(self) -> None:
        """An empty conversation."""
        self.store = store_with()
        self.show_at_once()

    def show_at_once(self) -> None:
        """Draw the conversation as it is, as if nothing of it had been drawn before."""
        self.app.chat.bind_state(self.store, self.app.chat.words)

    def draw(self) -> None:
        """The model made a pause: what came is drawn."""
        self.app.chat.show_state(self.store.state)

    def rows(self) -> list[list[tuple[str, Any]]]:
        """What stands on the screen, and how it looks."""
        chat = self.app.chat
        strips = [chat.render_line(y) for y in range(min(HEIGHT, chat.virtual_size.height))]
        return [[(segment.text, segment.style) for segment in strip] for strip in strips]

    async def resize(self, width: int) -> None:
        assert self.pilot is not None
        await self.pilot.resize_terminal(width, HEIGHT)
        async with asyncio.timeout(DEADLINE):
            while self.app.chat.outer_size.width != width:  # while the machine is busy
                await self.pilot.pause()
        await self.pilot.pause()  # the chat draws at its new width


@pytest.fixture(scope="module")
def chat() -> Generator[tuple[asyncio.Runner, Chat]]:
    with asyncio.Runner() as runner:
        opened = Chat()
        runner.run(opened.open())
        yield runner, opened
        runner.run(opened.close())


def arrive(chat: Chat, reply: Reply, count: int) -> None:
    piece = reply.text[reply.came : reply.came + count]
    reply.came += len(piece)
    if piece:
        chat.store.dispatch(ReplyDelta(llm_id=reply.llm_id, text=piece, at=1.0))


def think(chat: Chat, reply: Reply, count: int) -> None:
    piece = reply.reasoning[reply.thought : reply.thought + count]
    reply.thought += len(piece)
    if piece:
        chat.store.dispatch(ReasoningDelta(llm_id=reply.llm_id, text=piece, at=1.0))


def end(chat: Chat, reply: Reply, *, complete: bool) -> None:
    """The reply is over; one that is cut has only what came."""
    if complete:
        arrive(chat, reply, len(reply.text))
        think(chat, reply, len(reply.reasoning))
    message = AssistantMessage(
        message_id=f"m {reply.llm_id}",
        llm_id=reply.llm_id,
        text=reply.text[: reply.came],
        reasoning=reply.reasoning[: reply.thought],
        complete=complete,
        aside=reply.llm_id == "second",
        at=2.0,
    )
    chat.store.dispatch(AssistantReplied(message=message))
    chat.draw()


async def play(chat: Chat, some: Sequence[Reply], steps: Sequence[Step], cut: bool) -> None:
    chat.begin()
    with chat.app._context():  # pyright: ignore[reportPrivateUsage]  # as ``run_test`` does
        for reply in some:
            aside = reply.llm_id == "second"
            chat.store.dispatch(
                LlmCallStarted(llm_id=reply.llm_id, purpose="main", at=0.0, aside=aside)
            )
        for step, count in steps:
            match step:
                case "first":
                    arrive(chat, some[0], count)
                case "second":
                    arrive(chat, some[-1], count)
                case "thought":
                    think(chat, some[0], count)
                case "pause":
                    chat.draw()
                case "anew":
                    some[0].came = some[0].thought = 0
                    chat.store.dispatch(ReplyRestarted(llm_id=some[0].llm_id))
                case "size":
                    await chat.resize(20 + count)
                case "theme":
                    chat.app.theme = ("duck-light", "duck-dark")[count % 2]
                case "words":
                    chat.app.chat.words = Catalogue(("ja", "en")[count % 2])
                case "fold":
                    chat.app.chat.action_fold()
        for reply in some:
            end(chat, reply, complete=not cut)


@settings(max_examples=rounds(400, 40), deadline=None)
@given(texts=st.lists(replies, min_size=1, max_size=2), steps=steps, cut=st.booleans())
@example(texts=[ANSWER], steps=[("first", 43), ("pause", 1)], cut=False)
@example(
    texts=[ANSWER],
    steps=[("thought", 9), ("first", 90), ("pause", 1), ("anew", 1), ("first", 50), ("pause", 1)],
    cut=True,
)
def test_a_reply_that_came_in_pieces_stands_there_as_if_it_had_come_at_once(
    chat: tuple[asyncio.Runner, Chat], texts: list[str], steps: list[Step], cut: bool
) -> None:
    """Whatever comes meanwhile: another width, theme or language, folding, an aside, a connection
    that breaks so that the reply begins anew.
    """
    runner, shown = chat
    some = [
        Reply(llm_id, text, "a thought 考え\n\nand `more`\n" * 4)
        for llm_id, text in zip(("first", "second"), texts, strict=False)
    ]
    runner.run(play(shown, some, steps, cut))
    rows = shown.rows()
    shown.show_at_once()
    assert rows == shown.rows()
