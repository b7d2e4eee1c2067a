"""Conversations for tests of the chat, and an app that holds nothing but the chat."""

from __future__ import annotations

from typing import Any

from support.pinned import ManualClock
from textual.app import App, ComposeResult

from duckflow_tui.places import find_assets
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage, RunningOperation
from duckflow_tui.state.conversation import (
    AssistantMessage,
    Level,
    Message,
    NoticeMessage,
    QueuedMessage,
    UserMessage,
)
from duckflow_tui.state.decision import Question, TurnDecision
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, Impact
from duckflow_tui.state.operations import Effect, FileChange, OperationResult, Outcome
from duckflow_tui.state.usage import LiveReply, Waiting
from duckflow_tui.ui.panes.transcript import Transcript
from duckflow_tui.ui.themes import themes
from duckflow_tui.words.catalogue import Catalogue

START = 1_750_000_000.0


class ChatApp(App[None]):
    """The chat alone, on a clock that stands still."""

    CSS_PATH = str(find_assets("styles") / "transcript.tcss")

    def __init__(
        self,
        state: AgentState | None = None,
        *,
        language: str = "en",
        theme: str = "duck-dark",
        clock: ManualClock | None = None,
    ) -> None:
        super().__init__()
        self.state = state or AgentState()
        self.clock = clock or ManualClock(START + 100)
        self.language = language
        self.first_theme = theme
        self.chat = Transcript(animation=False)

    def compose(self) -> ComposeResult:
        self.chat.bind_state(self.state, Catalogue(self.language), self.clock)
        yield self.chat

    def on_mount(self) -> None:
        for theme in themes():
            self.register_theme(theme)
        self.theme = self.first_theme

    def say(self, *messages: Message) -> None:
        """Add messages and show them."""
        self.state.messages.extend(messages)
        self.chat.show_state(self.state)

    def lines(self) -> list[str]:
        """What is on the screen, without padding."""
        chat = self.chat
        return [chat.render_line(y).text.rstrip() for y in range(chat.size.height)]


def user(text: str, number: int = 0) -> UserMessage:
    """A message of the user."""
    return UserMessage(message_id=f"u{number}", text=text, at=START)


def assistant(text: str, number: int = 0, **fields: Any) -> AssistantMessage:
    """A reply of the model."""
    return AssistantMessage(
        message_id=f"a{number}", llm_id=f"llm{number}", text=text, at=START, **fields
    )


def notice(key: str, level: Level = Level.INFO, **params: str) -> NoticeMessage:
    """A word from the app."""
    return NoticeMessage(message_id="n", level=level, key=key, params=params, at=START)


def operation(
    name: str,
    args: dict[str, Any],
    outcome: Outcome = Outcome.OK,
    *,
    text: str = "",
    summary: str = "",
    seconds: float = 0.1,
    gate: Gate | None = None,
    answer: GateAnswer | None = None,
    changes: tuple[FileChange, ...] = (),
) -> OperationMessage:
    """A call that ended."""
    result = OperationResult(
        outcome=outcome, text=text, summary=summary, duration_s=seconds, changes=changes
    )
    return OperationMessage(
        call_id="c",
        operation=name,
        args=args,
        reasoning="the failing test names it",
        intent="find the cause",
        gate=gate,
        answer=answer,
        result=result,
        at=START,
    )


def gate(call_id: str = "c", alternatives: tuple[str, ...] = ()) -> Gate:
    """A gate for an edit."""
    return Gate(
        gate_id=f"g-{call_id}",
        call_id=call_id,
        operation="file_ops.edit_file",
        args={},
        args_hash="h",
        effect=Effect.WRITE,
        intent="",
        why="",
        impact=Impact(),
        alternatives=alternatives,
        opened_at=START,
    )


def answer(choice: GateChoice, **fields: Any) -> GateAnswer:
    """The user's key in that gate."""
    return GateAnswer(gate_id="g-c", call_id="c", args_hash="h", choice=choice, **fields)


REPLY = """\
Two discounts are **added** before they are applied, so 10 % and 10 % become 20 % instead of \
19 %. I will apply them one after the other, then cover it with a test.
"""

LONG_REPLY = """\
### What was wrong

`total` in [pricing.py](src/shop/pricing.py) summed the rates:

```python
def total(price: float, discounts: list[float]) -> float:
    # one after the other, not their sum
    for rate in discounts:
        price *= 1 - rate
    return round(price, 2)
```

| discounts | before | now |
|-----------|-------:|----:|
| 10 % | 90.00 | 90.00 |
| 10 % + 10 % | 80.00 | 81.00 |

Still open:

- the receipt prints *rounded* rates
- `cap` is not used anywhere
  1. remove it, or
  2. apply it last

> Prices are rounded once, at the end.
"""

REPLY_JA = """\
割引が**足し合わされて**から適用されているため、10 % と 10 % が 19 % ではなく 20 % になっています。\
一つずつ順に適用し、テストを追加します。

- `total` を修正（`src/shop/pricing.py`）
- 「二重割引」のテストを追加
"""


def conversation(language: str = "en") -> AgentState:
    """A turn with everything that a turn may bring, and one in flight."""
    ja = language == "ja"
    state = AgentState()
    ask = (
        "割引が二つ重なると合計がおかしくなります。原因を調べて直し、テストも追加してください。"
        if ja
        else "The total is wrong when two discounts apply. Find out why, fix it, and add a test."
    )
    pricing = {"path": "src/shop/pricing.py"}
    change = FileChange(path="src/shop/pricing.py", kind="modify", added=3, removed=2)
    state.messages = [
        user(ask),
        assistant(
            REPLY_JA if ja else REPLY,
            1,
            reasoning="First look at the code. " * 34,
            reasoning_s=4.2,
        ),
        operation("file_ops.read_file", pricing, text="def total(price): ...", summary="38 lines"),
        operation("file_ops.search_text", {"pattern": "discount", "path": "src"}, summary="7"),
        operation(
            "shell.run",
            {"command": "pytest -q"},
            Outcome.ERROR,
            text="F...........\n1 failed, 11 passed",
            summary="1 failed, 11 passed",
            seconds=1.9,
        ),
        operation(
            "file_ops.edit_file",
            pricing,
            Outcome.REJECTED,
            gate=gate(),
            answer=answer(GateChoice.REJECT, reason="keep the sum" if not ja else "合計のままで"),
            seconds=0,
        ),
        operation("file_ops.edit_file", pricing, changes=(change,)),
        notice("files.changed_outside", Level.WARNING, paths="src/shop/cart.py"),
        notice("settings.problem", problem="ui.colour is not a setting"),
        assistant(LONG_REPLY, 2),
        user("cap は消してください" if ja else "remove cap"),
        assistant(
            "",
            3,
            decision=TurnDecision(
                decision_id="d",
                question=Question(text="Remove `cap` everywhere?", options=("yes", "only here")),
            ),
        ),
    ]
    state.running = (
        RunningOperation(
            call_id="r1",
            operation="shell.run",
            args={"command": "pytest -q tests"},
            started=True,
            at=START + 88,
            progress="41 %",
        ),
        RunningOperation(call_id="c", operation="file_ops.edit_file", args=pricing, at=START + 90),
    )
    state.gates = (gate("c"),)
    queued = "その後でコミットしてください" if ja else "then commit it"
    state.queue = (QueuedMessage(message_id="q", text=queued, at=START),)
    return state


def live(text: str = "", *, reasoning: str = "", waiting: Waiting | None = None) -> LiveReply:
    """A reply that is arriving."""
    reply = LiveReply("llm9", "main", START + 90)
    reply.text = [text] if text else []
    reply.reasoning = [reasoning] if reasoning else []
    reply.reasoning_started = START + 91 if reasoning else None
    reply.first_text_at = START + 95 if text else None
    reply.waiting = waiting
    return reply
