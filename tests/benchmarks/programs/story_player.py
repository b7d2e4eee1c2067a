"""Plays one story against the package that stands first on the path: a session without a screen.

Reads one JSON object: workspace, home, base_url, model, protocol, allow, messages. Prints one JSON
object: for each message the outcome of its turn and the calls that the program counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.engine import Engine
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.places import Places
from duckflow_tui.sessions import open_session
from duckflow_tui.state.gates import CardAnswer, CardKind, GateAnswer, GateChoice, before_hashes

DEADLINE_S = 120.0  # of one message
#: What the user's key is on each kind of card; a consultation or another question is stopped.
KEYS = {
    CardKind.PLAN: "run_all",
    CardKind.PLAN_CHANGE: "accept",
    CardKind.BREAKPOINT: "go_on",
    CardKind.REPORT: "go_on",
    CardKind.ESCALATION: "accept_partial",
}


async def turn(engine: Engine, text: str) -> dict[str, Any]:
    """Send a message and be the user until its turn is over."""
    store, changed, asked = engine.store, asyncio.Event(), 0
    # Another checkout may have these two under the names they had before.
    subscribe: Callable[[Callable[[Any, Any], None]], Callable[[], None]]
    subscribe = getattr(store, "subscribe", None) or vars(type(store))["watch"].__get__(store)
    remove = subscribe(lambda state, record: changed.set())
    before = store.state.last_turn
    try:
        await engine.send(text)
        async with asyncio.timeout(DEADLINE_S):
            while store.state.turn is not None or store.state.last_turn is before:
                changed.clear()
                if store.state.gates:
                    asked += 1
                    gate = store.state.gates[0]
                    await engine.answer_gate(
                        GateAnswer(
                            gate_id=gate.gate_id,
                            call_id=gate.call_id,
                            args_hash=gate.args_hash,
                            before_hashes=before_hashes(gate),
                            choice=GateChoice.ONCE,
                        )
                    )
                elif store.state.cards:
                    card = store.state.cards[0]
                    asked += card.kind is not CardKind.PLAN
                    answer = CardAnswer(
                        card_id=card.card_id,
                        subject=card.subject,
                        action=KEYS.get(card.kind, "stop_work"),
                    )
                    await engine.answer_card(answer)
                else:
                    await changed.wait()
    finally:
        remove()
    end = store.state.last_turn
    assert end is not None
    return {"outcome": end.outcome, "calls": end.llm_calls, "asked": asked}


async def play(told: dict[str, Any]) -> list[dict[str, Any]]:
    """The whole session."""
    flags = Flags(
        workspace=Path(told["workspace"]),
        base_url=told["base_url"],
        model=told["model"],
        protocol=told["protocol"],
        mode="trusted",
        allow=tuple(told["allow"]),
        no_session=True,
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith("DUCKFLOW_")}
    choice = choose_session(flags, Places.find({"DUCKFLOW_HOME": told["home"]}), "en", environ)
    spawn = TaskSpawn()
    async with open_session(choice, spawn) as engine:
        spawn(engine.chat_loop(), "chat")
        try:
            return [await turn(engine, text) for text in told["messages"]]
        finally:
            end_tasks: Callable[[], Awaitable[None]]
            end_tasks = getattr(spawn, "end_tasks", None) or vars(type(spawn))["end"].__get__(spawn)
            await end_tasks()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(play(json.load(sys.stdin)))))
