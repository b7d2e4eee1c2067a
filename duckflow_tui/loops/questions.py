"""The calls that are no decision: one question, its repairs, and its account."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.service import AskReply, ReplyShape
from duckflow_tui.loops.budget import CallBudget
from duckflow_tui.loops.request_log import RequestLog
from duckflow_tui.prompting.tokens import ScriptCounter
from duckflow_tui.state.events import LlmCallFinished, LlmCallStarted
from duckflow_tui.state.ids import IdSource
from duckflow_tui.state.prompt import ChatMessage
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import LlmCall, Purpose, Role

REPAIRS: Final = 2  # calls that ask for a well-formed reply (C8)

Read = TypeVar("Read")


class Unreadable(Exception):
    """The model gave no usable answer, repairs included; ``str()`` names the problems."""


class Questioned(Protocol):
    """The LLM service, as these calls need it."""

    async def ask(
        self,
        purpose: Purpose,
        role: Role,
        messages: Sequence[ChatMessage],
        shape: type[ReplyShape],
        *,
        llm_id: str,
    ) -> AskReply[ReplyShape]:
        """One reply; raises LlmError."""
        ...

    def cancelled_call(self, llm_id: str) -> LlmCall | None:
        """The account of a call that was cancelled."""
        ...


class Questioner:
    """Asks, and asks again with what was wrong; every call is on the account of its step."""

    def __init__(
        self,
        store: Store,
        ids: IdSource,
        models: Questioned,
        budget: CallBudget,
        requests: RequestLog,
    ) -> None:
        self._store = store
        self._ids = ids
        self._models = models
        self._budget = budget
        self._requests = requests

    async def ask(
        self,
        purpose: Purpose,
        role: Role,
        words: Callable[[tuple[str, ...]], Sequence[ChatMessage]],
        shape: type[ReplyShape],
        read: Callable[[ReplyShape], Read],
        *,
        step_id: str = "",
    ) -> Read:
        """What ``read`` makes of the reply. ``words`` are given the problems of the last one.

        ``read`` raises ValueError for a reply that is well formed and yet cannot be, which is
        repaired like any other. Raises LlmError, BudgetEnd, or Unreadable after the repairs.
        """
        problems: tuple[str, ...] = ()
        for _ in range(REPAIRS + 1):
            asked = words(problems)
            await self._budget.permit(purpose, step_id=step_id, size=partial(_tokens, asked))
            reply = await self._once(purpose, role, asked, shape, step_id)
            problems = reply.problems
            if reply.value is not None and not problems:
                try:
                    return read(reply.value)
                except ValueError as error:
                    problems = (str(error),)
        raise Unreadable("; ".join(problems) or "the reply was cut off")

    async def _once(
        self,
        purpose: Purpose,
        role: Role,
        messages: Sequence[ChatMessage],
        shape: type[ReplyShape],
        step_id: str,
    ) -> AskReply[ReplyShape]:
        llm_id = self._ids("llm")
        self._store.dispatch(
            LlmCallStarted(
                llm_id=llm_id, purpose=purpose, at=self._store.clock.now(), step_id=step_id
            )
        )
        self._requests.question(messages, llm_id, purpose, role, step_id=step_id)
        try:
            reply = await self._models.ask(purpose, role, messages, shape, llm_id=llm_id)
        except LlmError as error:
            if error.call is not None:
                self._account(error.call, step_id)
            raise
        except asyncio.CancelledError:
            call = self._models.cancelled_call(llm_id)
            if call is not None:
                self._account(call, step_id)
            raise
        self._account(reply.call, step_id)
        return reply

    def _account(self, call: LlmCall, step_id: str) -> None:
        if step_id:
            call = call.model_copy(update={"step_id": step_id})
        self._store.dispatch(LlmCallFinished(call=call))


def _tokens(messages: Sequence[ChatMessage]) -> int:
    """What the request takes, estimated."""
    counter = ScriptCounter()
    return sum(counter.count(message.content) for message in messages)
