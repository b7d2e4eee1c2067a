"""A model service against the scripted endpoint, over real HTTP on the loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.pinned import CountingIds, ManualClock

from duckflow_tui.llm.endpoints import Endpoint, Roles
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.exchange import Patience, ReplyObserver
from duckflow_tui.llm.service import DecisionReply, LLMService
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.conversation import Message, UserMessage
from duckflow_tui.state.operations import Effect, OperationSpec
from duckflow_tui.state.prompt import Prompt
from duckflow_tui.state.usage import Waiting
from duckflow_tui.words.catalogue import Catalogue

SAY = Catalogue()
PATH: JsonObject = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
READ = OperationSpec(
    name="file_ops.read_file", summary="Reads.", parameters=PATH, effect=Effect.READ
)
WRITE = OperationSpec(
    name="file_ops.write_file", summary="Writes.", parameters=PATH, effect=Effect.WRITE
)
OPERATIONS = (READ, WRITE)


def decision(**fields: Any) -> JsonObject:
    """A complete decision on the wire."""
    return {
        "rationale": "The file must be seen first.",
        "reply": "I read the file.",
        "goal_consistency": {"ok": True, "reason": "as asked"},
        "constraint_check": {"ok": True, "reason": "none broken"},
        "step": "EXECUTION",
        "next_step": "continue",
        "prompt_pattern": "base_main_specialized",
        **fields,
    }


def action(operation: str = "file_ops.read_file", **fields: Any) -> JsonObject:
    """A complete action on the wire."""
    return {"operation": operation, "args": {"path": "a.py"}, "reasoning": "to see it", **fields}


def prompt(*history: Message, tail: str = "Goal: test") -> Prompt:
    """A request with the two operations."""
    return Prompt(
        system="You are a pair programmer.",
        formats={"json": "Answer with JSON.", "tools": "Call decide."},
        history=history or (UserMessage(message_id="m1", text="Read a.py", at=0.0),),
        tail=tail,
        operations=OPERATIONS,
    )


class Heard(ReplyObserver):
    """An observer that keeps what it hears."""

    def __init__(self) -> None:
        self.replies: list[str] = []
        self.thoughts: list[str] = []
        self.waits: list[Waiting | None] = []
        self._changed = asyncio.Event()

    def take_reply(self, text: str) -> None:
        self.replies.append(text)
        self._changed.set()

    def restart_reply(self) -> None:
        self.replies.clear()
        self.thoughts.clear()

    async def until(self, text: str, deadline_s: float = 30.0) -> None:
        """Return once the reply holds this text; raises TimeoutError."""
        async with asyncio.timeout(deadline_s):
            while text not in self.text:
                self._changed.clear()
                await self._changed.wait()

    def take_reasoning(self, text: str) -> None:
        self.thoughts.append(text)

    def set_waiting(self, waiting: Waiting | None) -> None:
        assert waiting is None or SAY.has(f"transcript.waiting.{waiting.reason}")
        self.waits.append(waiting)

    @property
    def text(self) -> str:
        """The reply as shown."""
        return "".join(self.replies)

    @property
    def reasons(self) -> list[str]:
        """Why it waited, in order."""
        return [wait.reason for wait in self.waits if wait is not None]


class Bench:
    """The endpoint, a service for it, and a clock that moves only while the service sleeps."""

    def __init__(
        self,
        server: ScriptedEndpoint,
        *,
        environ: Mapping[str, str],
        silent_s: float,
        settings: dict[str, Any],
    ) -> None:
        self.server = server
        self.clock = ManualClock()
        self.slept: list[float] = []
        self.heard = Heard()
        settings.setdefault("base_url", server.base_url)
        self.endpoint = Endpoint(name="here", **settings)
        patience = Patience(sleep=self._sleep, draw=lambda: 1.0, silent_s=silent_s)
        self.service = LLMService(
            {"here": self.endpoint},
            Roles(main="here/duck-1"),
            CountingIds(),
            self.clock,
            environ,
            patience=patience,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    async def decide(self, request: Prompt | None = None, llm_id: str = "llm_1") -> DecisionReply:
        """One decision, heard by ``heard``."""
        return await self.service.decide(request or prompt(), llm_id=llm_id, observer=self.heard)

    async def fail(self) -> LlmError:
        """Ask for a decision that cannot be had; returns the error."""
        with pytest.raises(LlmError) as caught:
            await self.decide()
        return caught.value


def script(*replies: Reply, **fields: Any) -> Script:
    """A script with the replies of the main model alone; ``fields`` are its other ones."""
    return Script(replies={"main": replies}, **fields)


@asynccontextmanager
async def bench(
    script: Script,
    *,
    environ: Mapping[str, str] | None = None,
    silent_s: float = 10.0,
    **settings: Any,
) -> AsyncGenerator[Bench]:
    """A running endpoint and a service whose main model it plays; settings are the endpoint's."""
    async with ScriptedEndpoint(script) as server:
        made = Bench(server, environ=environ or {}, silent_s=silent_s, settings=settings)
        try:
            yield made
        finally:
            await made.service.aclose()
