"""Asking for one decision: the request, its stream, its repairs, and its record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from duckflow_tui.agent.budget import CallBudget, TurnEnd
from duckflow_tui.agent.compaction import Compactor
from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.llm.exchange import ReplyObserver
from duckflow_tui.prompting.budget import ScriptCounter
from duckflow_tui.prompting.compiler import estimated_tokens
from duckflow_tui.state.conversation import AssistantMessage, AssistantReplied
from duckflow_tui.state.phase import Status
from duckflow_tui.state.usage import (
    LlmCall,
    LlmCallFinished,
    LlmCallStarted,
    LlmWaiting,
    Purpose,
    ReasoningDelta,
    ReplyDelta,
    Role,
    Waiting,
)

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.agent.requests import RequestLog
    from duckflow_tui.llm.service import AskReply, DecisionReply, ReplyShape
    from duckflow_tui.state.base import IdSource
    from duckflow_tui.state.decision import PromptPattern, TurnDecision
    from duckflow_tui.state.prompt import ChatMessage, Prompt
    from duckflow_tui.state.store import Store

REPAIR_ROUNDS: Final = 2  # calls that ask for a well-formed reply (C8)


class _Observer(ReplyObserver):
    """Turns what a stream brings into transient events."""

    def __init__(self, store: Store, llm_id: str) -> None:
        self._store = store
        self._llm_id = llm_id

    def reply(self, text: str) -> None:
        at = self._store.clock.now()
        self._store.dispatch(ReplyDelta(llm_id=self._llm_id, text=text, at=at))

    def reasoning(self, text: str) -> None:
        at = self._store.clock.now()
        self._store.dispatch(ReasoningDelta(llm_id=self._llm_id, text=text, at=at))

    def waiting(self, waiting: Waiting | None) -> None:
        self._store.dispatch(LlmWaiting(llm_id=self._llm_id, waiting=waiting))


class Asker:
    """Belongs to one turn, to one run of a step, or to one answer beside the work."""

    def __init__(
        self,
        parts: TurnParts,
        *,
        purpose: Purpose = "main",
        step_id: str = "",
        answers: str = "",
    ) -> None:
        """``answers``: the message said beside the work that is answered."""
        self._parts = parts
        self._store = parts.store
        self._purpose: Purpose = purpose
        self._step_id = step_id
        self._answers = answers
        self._aside = bool(answers)
        self._compactor = Compactor(parts)
        self.repaired = 0  # replies to the newest question that had to be asked for again
        self.last_reply = ""

    async def decide(self, pattern: PromptPattern, role: Role = "main") -> TurnDecision:
        """Ask the role's model, and ask again at most twice when the reply cannot be acted on.

        Raises LlmError, BudgetEnd, or TurnEnd when the repairs are used up.
        """
        for repair in range(REPAIR_ROUNDS + 1):
            self.repaired = repair
            reply = await self._ask(pattern, role)
            await self._record(reply)
            if reply.decision is not None and not reply.problems:
                return reply.decision
            problems = "; ".join(reply.problems) or "the reply was cut off"
            if repair == REPAIR_ROUNDS:
                self._parts.notices.error(
                    "turn.unreadable", step_id=self._step_id, problems=problems
                )
                if not self._aside:
                    self._parts.machine.recover(problems[:200])
                raise TurnEnd("failed", Status.ERROR)
            self._parts.notices.say(
                "turn.repair",
                for_model="Your last reply could not be used and nothing of it was carried out: "
                f"{problems}. Reply again in the required format.",
                step_id=self._step_id,
                aside=self._aside,
                problems=problems,
            )
        raise AssertionError("unreachable")

    async def _ask(self, pattern: PromptPattern, role: Role) -> DecisionReply:
        """One request; where it overflows the window, once more in a shorter form."""
        shortened = False
        if self._leads:
            await self._compactor.make_room()
        while True:
            await self._parts.budget.permit(
                self._purpose,
                step_id=self._step_id,
                aside=self._aside,
                size=lambda: estimated_tokens(self._prompt(pattern, role)),
            )
            prompt = self._prompt(pattern, role)
            try:
                reply = await self._request(prompt, role)
            except LlmError as error:
                if error.code != "context_overflow" or shortened:
                    raise
                shortened = True
                if not self._parts.prompts.overflowed(prompt):
                    raise
                if not (self._leads and await self._compactor.make_room("overflow")):
                    self._parts.notices.warn("turn.compacted", step_id=self._step_id)
                continue
            if not reply.call.estimated:
                self._parts.prompts.learn(prompt, reply.call.tokens_in)
            return reply

    def _prompt(self, pattern: PromptPattern, role: Role) -> Prompt:
        """The request as the conversation is now."""
        return self._parts.prompts.compile(
            self._parts.specs(),
            pattern,
            thread=self._step_id,
            aside=self._aside,
            answers=self._answers,
            window=self._parts.window(role),
        )

    @property
    def _leads(self) -> bool:
        """Whether it asks for the conversation itself."""
        return not self._step_id and not self._aside

    async def _request(self, prompt: Prompt, role: Role) -> DecisionReply:
        llm_id = self._parts.ids("llm")
        clock = self._store.clock
        purpose = self._purpose
        self._store.dispatch(
            LlmCallStarted(
                llm_id=llm_id,
                purpose=purpose,
                at=clock.now(),
                step_id=self._step_id,
                aside=self._aside,
            )
        )
        self._parts.requests.decision(
            prompt, llm_id, purpose, role, step_id=self._step_id, aside=self._aside
        )
        try:
            reply = await self._parts.models.decide(
                prompt,
                llm_id=llm_id,
                purpose=purpose,
                role=role,
                observer=_Observer(self._store, llm_id),
            )
        except LlmError as error:
            self._keep_partial(llm_id)
            if error.call is not None:
                self._account(error.call)
            raise
        except asyncio.CancelledError:
            self._keep_partial(llm_id)
            call = self._parts.models.cancelled_call(llm_id)
            if call is not None:
                self._account(call)
            raise
        self._account(reply.call)
        return reply

    def _account(self, call: LlmCall) -> None:
        if self._step_id:
            call = call.model_copy(update={"step_id": self._step_id})
        self._store.dispatch(LlmCallFinished(call=call))

    async def _record(self, reply: DecisionReply) -> None:
        self.last_reply = reply.text or self.last_reply
        await self._store.commit(
            AssistantReplied(
                message=AssistantMessage(
                    message_id=self._parts.ids("msg"),
                    llm_id=reply.call.llm_id,
                    text=reply.text,
                    reasoning=reply.reasoning,
                    reasoning_s=reply.reasoning_s,
                    decision=None if reply.problems else reply.decision,
                    protocol=reply.protocol,
                    raw=reply.raw if reply.problems or reply.decision is None else "",
                    complete=reply.complete,
                    step_id=self._step_id,
                    aside=self._aside,
                    answers=self._answers,
                    at=self._store.clock.now(),
                )
            )
        )

    def _keep_partial(self, llm_id: str) -> None:
        """What had arrived of a reply that was cut stays in the conversation, marked."""
        live = self._store.state.live.get(llm_id)
        if live is None or not live.text:
            return
        now = self._store.clock.now()
        thought = 0.0
        if live.reasoning_started is not None:
            thought = (live.first_text_at or now) - live.reasoning_started
        self._store.dispatch(
            AssistantReplied(
                message=AssistantMessage(
                    message_id=self._parts.ids("msg"),
                    llm_id=llm_id,
                    text="".join(live.text),
                    reasoning="".join(live.reasoning),
                    reasoning_s=max(thought, 0.0),
                    complete=False,
                    step_id=self._step_id,
                    aside=self._aside,
                    at=now,
                )
            )
        )


REPAIRS: Final = 2  # calls that ask for a well-formed reply (C8)


Read = TypeVar("Read")


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
