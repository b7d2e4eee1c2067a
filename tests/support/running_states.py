"""Work at hand for the chat's pictures and tests: commands, a queue, processes, servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from support.app_states import store_with, turn_started
from support.conversations import REPLY, REPLY_JA, assistant, user
from support.pinned import ManualClock

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import (
    OperationMessage,
    OperationOutput,
    OperationRequested,
    OperationStarted,
)
from duckflow_tui.state.conversation import MessageQueued, QueuedMessage, UserMessage
from duckflow_tui.state.operations import OperationResult, Outcome
from duckflow_tui.state.processes import (
    BackgroundProcess,
    McpServer,
    McpServerChanged,
    McpTool,
    ProcessEnded,
    ProcessOutput,
    ProcessStarted,
)
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import TurnSummary
from duckflow_tui.state.usage import UsageTotals

NOW: Final = ManualClock().now()
FAILING: Final = "\n".join(
    (
        "============ test session starts ============",
        "collected 12 items",
        *(f"tests/test_pricing.py::test_case_{n} PASSED" for n in range(11)),
        "FAILED tests/test_pricing.py::test_two_discounts - assert 0.80 == 0.81",
        "1 failed, 11 passed in 1.82s",
    )
)
QUEUE: Final = (
    "then commit it",
    "and write a line in the changes",
    "call it 1.2",
    "tag it",
    "push",
)
QUEUE_JA: Final = (
    "その後でコミットして",
    "変更履歴にも一行書いて",
    "版は 1.2 で",
    "タグも",
    "送って",
)


def working(language: str = "en") -> Store:
    """A turn that runs, with what it has said and used so far."""
    store = store_with(turn_started(loop=4))
    state, ja = store.state, language == "ja"
    ask = (
        "二重割引の合計が変です。直してテストも。"
        if ja
        else "Two discounts give a wrong total. Fix it, test it."
    )
    state.messages += [user(ask), assistant(REPLY_JA if ja else REPLY, 1)]
    state.usage = UsageTotals(
        calls=6, tokens_in=90_000, cost=0.03, last_context=42_000, context_window=200_000
    )
    return store


def runs(
    store: Store,
    command: str,
    printed: str = "",
    *,
    call_id: str = "call_00000001",
    by_user: bool = False,
    ago: float = 12,
    silent: float = 1,
) -> None:
    """A command that runs since ``ago`` seconds and last printed ``silent`` seconds ago."""
    store.dispatch(
        OperationRequested(
            call_id=call_id,
            operation="shell.run",
            args={"command": command},
            by_user=by_user,
            at=NOW - ago,
        )
    )
    store.dispatch(OperationStarted(call_id=call_id, at=NOW - ago))
    if printed:
        store.dispatch(OperationOutput(call_id=call_id, text=printed, at=NOW - silent))


def ended(
    command: str,
    printed: str,
    exit_code: int,
    *,
    by_user: bool = False,
    cut: int = 0,
    seconds: float = 1.9,
) -> OperationMessage:
    """A command that ended, with the result as the shell writes it."""
    summary = f"exit {exit_code} · {seconds:.1f}s"
    head = f"$ {command}\n" if by_user else ""
    return OperationMessage(
        call_id="call_0000000e",
        operation="shell.run",
        args={"command": command},
        result=OperationResult(
            outcome=Outcome.OK,
            text=f"{head}{summary}\n{printed or '(no output)'}",
            summary=summary,
            exit_code=exit_code,
            duration_s=seconds,
            truncated_chars=cut,
            blob="b10b" if cut else "",
        ),
        by_user=by_user,
        at=NOW,
    )


def waits(store: Store, texts: Sequence[str]) -> None:
    """These messages wait, in this order."""
    for number, text in enumerate(texts):
        message = QueuedMessage(message_id=f"msg_0000010{number}", text=text, at=NOW)
        store.dispatch(MessageQueued(message=message))


def aside(text: str) -> UserMessage:
    """Said while work ran."""
    return UserMessage(message_id="msg_0000000a", text=text, aside=True, at=NOW)


def turn_took(state: AgentState) -> None:
    """The turn is over; what it took."""
    state.turn = None
    state.turns.append(
        TurnSummary(
            turn_id="turn_00000001",
            outcome="done",
            llm_calls=4,
            tokens=12_340,
            cost=0.03,
            files_changed=("src/shop/pricing.py",),
            duration_s=8.1,
            messages=len(state.messages),
        )
    )


def in_background(store: Store) -> None:
    """A server that runs, one that fell over, one that the user ended."""
    started = (
        ("proc_00000001", "npm run dev -- --port 5173", 133.0),
        ("proc_00000002", "pytest-watch tests", 312.0),
        ("proc_00000003", "python -m http.server 8000", 600.0),
    )
    for process_id, command, ago in started:
        store.dispatch(
            ProcessStarted(
                process=BackgroundProcess(
                    process_id=process_id,
                    call_id="call_00000009",
                    command=command,
                    cwd=".",
                    started_at=NOW - ago,
                )
            )
        )
    dev = "\n".join(f"{n:02d}:14:07 [vite] page reload src/shop/cart.ts" for n in range(30))
    store.dispatch(
        ProcessOutput(
            process_id="proc_00000001",
            text=f"  VITE v6.0  ready in 312 ms\n  Local: http://localhost:5173/\n{dev}\n",
            at=NOW - 130,
        )
    )
    trace = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'watchdog'\n"
    store.dispatch(ProcessOutput(process_id="proc_00000002", text=trace, at=NOW - 310))
    store.dispatch(
        ProcessEnded(process_id="proc_00000002", exit_code=1, ended_by="itself", at=NOW - 309)
    )
    store.dispatch(
        ProcessEnded(process_id="proc_00000003", exit_code=-15, ended_by="user", at=NOW - 20)
    )


def served(store: Store) -> None:
    """A server that serves, one that fails, one that is off."""
    tools = (
        McpTool(
            name="list_products",
            operation="mcp.shop.list_products",
            summary="All products with their prices.",
            read_only=True,
        ),
        McpTool(
            name="set_price",
            operation="mcp.shop.set_price",
            summary="Change the price of a product.",
        ),
    )
    servers = (
        McpServer(
            name="shop", status="ready", tools=tools, log="~/.duckflow/mcp/shop.log", calls=3
        ),
        McpServer(
            name="weather",
            transport="http",
            status="failed",
            error="connect to 127.0.0.1:9000: connection refused",
        ),
        McpServer(name="clock"),
    )
    for server in servers:
        store.dispatch(McpServerChanged(server=server))
