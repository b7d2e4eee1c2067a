"""Calls to models: sends requests, records each call from start to end, and asks again when a reply
cannot be used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.llm.exchange import ReplyObserver
from duckflow_tui.prompting.budget import ScriptCounter
from duckflow_tui.prompting.compiler import SMALLEST_ROOM, is_usual_window, prompt_tokens
from duckflow_tui.prompting.side_replies import JsonReply
from duckflow_tui.state.base import ToldError
from duckflow_tui.state.conversation import (
    AssistantMessage,
    AssistantReplied,
    NoticeMessage,
    UserMessage,
)
from duckflow_tui.state.decision import NextStep, PromptPattern, TurnDecision
from duckflow_tui.state.operations import Effect, Risk
from duckflow_tui.state.phase import Status
from duckflow_tui.state.usage import (
    LiveReply,
    LlmCall,
    LlmCallDropped,
    LlmCallFinished,
    LlmCallStarted,
    LlmWaiting,
    Purpose,
    ReasoningDelta,
    ReplyDelta,
    ReplyRestarted,
    Role,
    Waiting,
)
from duckflow_tui.tools.operation import ToolFault
from duckflow_tui.work.budget import CallBudget, TurnEnd
from duckflow_tui.work.compaction import Compactor, code_in_hand
from duckflow_tui.work.steering import ReplyStopped, cancel_on_pause, wait_while_paused

if TYPE_CHECKING:
    from duckflow_tui.llm.service import DecisionReply, LLMService
    from duckflow_tui.prompting.compiler import PromptCompiler
    from duckflow_tui.prompting.side_questions import ModelQuestion, QuestionPrompts
    from duckflow_tui.state.base import IdSource
    from duckflow_tui.state.decision import Action
    from duckflow_tui.state.prompt import ChatMessage, Prompt
    from duckflow_tui.state.store import Store
    from duckflow_tui.work.requests import RequestLog
    from duckflow_tui.work.services import TurnParts

UNCHECKED: Final = "turn.unchecked"  # the notice that the model is asked for its own checks
UNUSABLE: Final = 2  # unusable native replies in a row before JSON is requested
REPAIRS: Final = 3  # calls in a row that ask for a well-formed decision; then the turn ends (C8)
REASKED: Final = 2  # repeats of a question before its caller does without an answer (C8)

Read = TypeVar("Read")
ReplyForm = TypeVar("ReplyForm", bound=JsonReply)


@asynccontextmanager
async def account_call(
    store: Store, models: LLMService, started: LlmCallStarted
) -> AsyncGenerator[list[LlmCall | None], None]:
    """Record a call from its first event to its last. The caller appends the account of an answered
    call to the yielded list. On an error or cancellation its account is recorded too, and the
    live reply is removed.
    """
    store.dispatch(started)
    accounts: list[LlmCall | None] = []
    try:
        yield accounts
    except LlmError as error:
        accounts.append(error.call)
        raise
    except asyncio.CancelledError:
        accounts.append(models.cancelled_call(started.llm_id))
        raise
    finally:
        call = accounts[-1] if accounts else None
        if call is None:
            store.dispatch(LlmCallDropped(llm_id=started.llm_id))
        else:
            step = {"step_id": started.step_id} if started.step_id else {}
            store.dispatch(LlmCallFinished(call=call.model_copy(update=step)))


@dataclass(frozen=True, slots=True)
class _Observer(ReplyObserver):
    """Reports a streaming reply as transient events."""

    _store: Store
    _llm_id: str

    def take_reply(self, text: str) -> None:
        """Report a piece of the reply."""
        at = self._store.clock.now()
        self._store.dispatch(ReplyDelta(llm_id=self._llm_id, text=text, at=at))

    def take_reasoning(self, text: str) -> None:
        """Report a piece of the reasoning."""
        at = self._store.clock.now()
        self._store.dispatch(ReasoningDelta(llm_id=self._llm_id, text=text, at=at))

    def set_waiting(self, waiting: Waiting | None) -> None:
        """Report why the call waits, or that it goes on."""
        self._store.dispatch(LlmWaiting(llm_id=self._llm_id, waiting=waiting))

    def restart_reply(self) -> None:
        """Report that the reply begins anew."""
        self._store.dispatch(ReplyRestarted(llm_id=self._llm_id))


class Asker:
    """Asks the model for the decisions of one thread. ``answers``: id of the user's message that an
    answer beside the work answers; empty for work itself.
    """

    def __init__(
        self,
        parts: TurnParts,
        *,
        purpose: Purpose = "main",
        step_id: str = "",
        answers: str = "",
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._purpose: Purpose = purpose
        self._step_id = step_id
        self._answers = answers
        self._aside = bool(answers)
        # Answers beside the work do not compact the conversation.
        self._compactor = None if answers else Compactor(parts)
        if not answers:
            parts.models.prompts.in_hand = ()
        self.repaired = 0  # unusable replies to the newest question
        self._owed = 0  # earlier replies in a row that were only partly usable
        self.in_calls = False  # whether the newest reply came as native calls
        self.last_reply = ""

    async def decide(self, pattern: PromptPattern, role: Role = "main") -> TurnDecision:
        """Ask the role's model for a decision, again if the reply cannot be used. If only some of
        its calls are valid and only read, the decision with these is returned; the model is told
        to send the others again.

        Raises LlmError, BudgetEnd, ReplyStopped, or TurnEnd after ``REPAIRS`` unusable replies.
        """
        self.repaired = 0
        while True:
            reply = await self._ask_once(pattern, role)
            self.in_calls = reply.protocol == "tools"
            made, problems = reply.decision, reply.problems
            if made is not None and not problems and await self._owes_checks(made):
                await self._record_reply(reply, made.replace(actions=()))
                self._parts.notices.tell(UNCHECKED, step_id=self._step_id, aside=self._aside)
                self.repaired += 1
                continue
            if made is not None and not problems:
                self._owed = 0
                await self._record_reply(reply, made)
                if reply.from_text:
                    self._parts.notices.tell(
                        "turn.from_text", step_id=self._step_id, aside=self._aside
                    )
                return made
            problems, part = self._check_reply(reply)
            await self._record_reply(reply, part)
            tries = self._owed + self.repaired
            if tries == UNUSABLE and reply.call.outcome != "incomplete":
                models = self._parts.models.service
                if reply.protocol == "tools" and models.step_down(role):
                    self._owed = self.repaired = 0  # JSON is asked for three times
            elif tries == REPAIRS:
                break
            told = "turn.repair_rest" if part else "turn.repair"
            self._parts.notices.say(
                told if part else f"turn.repair{_fault_key(reply)}",
                for_model=self._parts.notices.words(told, problems=problems),
                step_id=self._step_id,
                aside=self._aside,
            )
            self.repaired += 1
            if part is not None:
                self._owed += self.repaired
                return part
        fault = _fault_key(reply)
        if not fault and self._parts.models.service.gave_up_calls(role):
            fault = "_json"
        self._parts.notices.error(f"turn.unreadable{fault}", step_id=self._step_id)
        if not self._aside:
            self._parts.machine.set_status(Status.ERROR, problems[:200])
        raise TurnEnd("failed", Status.ERROR)

    def _check_reply(self, reply: DecisionReply) -> tuple[str, TurnDecision | None]:
        """Return all problems of a reply, in words for the model, and a decision with only its
        valid reading calls, None without any (R16).
        """
        words, registry = self._parts.notices.words, self._parts.router.registry
        wrong, made = list(map(words, reply.problems)), reply.decision
        reads: list[Action] = []
        for action in made.actions if made is not None else ():
            operation = registry.get(action.operation)
            if operation is not None and operation.effect is Effect.READ:  # R16c
                reads.append(action)
                continue
            try:
                registry.check_arguments(action.operation, action.args)
            except ToolFault as fault:
                wrong.append(words(fault.told))
        part = None
        if made is not None and reads:
            part = made.replace(actions=tuple(reads), next_step=NextStep.CONTINUE, question=None)
        return "; ".join(wrong), part

    async def _ask_once(self, pattern: PromptPattern, role: Role) -> DecisionReply:
        """Send one request, compacting the conversation first if needed; if it overflows the
        window, send a shorter one, once. Raises LlmError and BudgetEnd.
        """

        def prompt() -> Prompt:
            """Compile the request from the current conversation."""
            return models.prompts.compile(
                self._store.state,
                self._parts.router.registry.specs(),
                pattern=pattern,
                thread=self._step_id,
                aside=self._aside,
                answers=self._answers,
                window=models.service.window_of(role),
            )

        models, shortened = self._parts.models, False
        if self._compactor is not None:
            await self._compactor.make_room()
        while True:
            await models.budget.permit_call(
                self._purpose,
                step_id=self._step_id,
                aside=self._aside,
                size=lambda: prompt_tokens(prompt()),
            )
            models.prompts.permissions = await self._parts.router.current_permissions()
            request = prompt()
            if request.tight:
                files = await code_in_hand(self._parts, self._step_id, request)
                models.prompts.in_hand = files
                request = prompt()
            window = models.service.window_of(role)
            if window and (needed := prompt_tokens(request)) > window - SMALLEST_ROOM:
                self._tell_small("turn.window_small", needed, window)
            try:
                reply = await self._send_prompt(request, role)
            except LlmError as error:
                if error.code != "context_overflow" or shortened:
                    raise
                if error.limits.asked:
                    models.prompts.learn(self._store.state, request, error.limits.asked)
                is_learned = models.service.window_of(role) != window
                fits = models.prompts.shrink_after_refusal(self._store.state, request)
                if not fits and not is_learned:
                    raise
                shortened = True
                made = self._compactor is not None and await self._compactor.make_room("overflow")
                if not made and not is_learned:  # the notice was shown when it was learned
                    self._parts.notices.warn("turn.compacted", step_id=self._step_id)
                continue
            counted = reply.call.tokens_in
            whole = reply.call.estimated or models.prompts.learn(
                self._store.state, request, counted
            )
            if not whole:
                self._tell_small("turn.window_cut", prompt_tokens(request), counted)
                if is_usual_window(counted):
                    models.service.learn_window(role, counted)
            return reply

    async def _owes_checks(self, decision: TurnDecision) -> bool:
        """Whether the model must first state its own checks (S4-58): the decision has a call of
        high risk and no checks, and the model was not asked for them since the user's last
        message.
        """
        if decision.judged or not decision.actions or self._has_noticed(UNCHECKED):
            return False
        risk = await self._parts.router.highest_risk(decision.actions)
        return risk.rank >= Risk.HIGH.rank

    def _has_noticed(self, key: str) -> bool:
        """Whether this notice was given since the user's last message."""
        for message in reversed(self._store.state.messages):
            if isinstance(message, NoticeMessage) and message.key == key:
                return True
            if isinstance(message, UserMessage) and not message.aside:
                break
        return False

    def _tell_small(self, key: str, sent: int, window: int) -> None:
        """Warn that the window is too small, once per turn."""
        if self._has_noticed(key):
            return
        self._parts.notices.warn(key, step_id=self._step_id, sent=f"{sent:,}", window=f"{window:,}")

    async def _send_prompt(self, prompt: Prompt, role: Role) -> DecisionReply:
        """Send a request and record the call; keep a partial reply that was cut off or stopped."""
        models, llm_id = self._parts.models, self._parts.ids("llm")
        started = LlmCallStarted(
            llm_id=llm_id,
            purpose=self._purpose,
            at=self._store.clock.now(),
            step_id=self._step_id,
            aside=self._aside,
        )

        live: LiveReply | None = None
        accounts: list[LlmCall | None] = []
        # A pause does not stop answers beside the work.
        to_be_ended = nullcontext() if self._aside else cancel_on_pause(self._store)
        try:
            async with to_be_ended, account_call(self._store, models.service, started) as accounts:
                live = self._store.state.live.get(llm_id)
                models.requests.log_decision(prompt, started, role)
                reply = await models.service.decide(
                    prompt,
                    llm_id=llm_id,
                    purpose=self._purpose,
                    role=role,
                    observer=_Observer(self._store, llm_id),
                )
                accounts.append(reply.call)
        except LlmError:
            if live is not None and live.text:
                self._keep_partial(live, stopped=False)
            raise
        except (asyncio.CancelledError, ReplyStopped):
            account = accounts[-1] if accounts else None
            if live is not None and account is not None and account.first_token_s is not None:
                self._keep_partial(live, stopped=True)
            raise
        return reply

    async def _record_reply(self, reply: DecisionReply, decision: TurnDecision | None) -> None:
        """Add a reply and its decision to the conversation, with its raw text and calls where they
        could not be used; returns once it is on disk.
        """
        self.last_reply = reply.text or self.last_reply
        await self._store.commit(
            AssistantReplied(
                message=AssistantMessage(
                    message_id=self._parts.ids("msg"),
                    llm_id=reply.call.llm_id,
                    text=reply.text,
                    reasoning=reply.reasoning,
                    reasoning_s=reply.reasoning_s,
                    decision=decision,
                    protocol=reply.protocol,
                    raw=reply.raw if reply.problems or decision is None else "",
                    calls=reply.calls if reply.problems else (),
                    complete=reply.complete,
                    thought=reply.thought,
                    step_id=self._step_id,
                    aside=self._aside,
                    answers=self._answers,
                    at=self._store.clock.now(),
                )
            )
        )

    def _keep_partial(self, live: LiveReply, *, stopped: bool) -> None:
        """Add the received part of a cut reply to the conversation, marked as incomplete."""
        now = self._store.clock.now()
        thought = 0.0
        if live.reasoning_started is not None:
            thought = (live.first_text_at or now) - live.reasoning_started
        self._store.dispatch(
            AssistantReplied(
                message=AssistantMessage(
                    message_id=self._parts.ids("msg"),
                    llm_id=live.llm_id,
                    text="".join(live.text),
                    reasoning="".join(live.reasoning),
                    reasoning_s=max(thought, 0.0),
                    complete=False,
                    stopped=stopped,
                    step_id=self._step_id,
                    aside=self._aside,
                    answers=self._answers,
                    at=now,
                )
            )
        )


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """The services for calling models, one for a session. ``ready`` waits until the offered
    operations are up to date; a turn awaits it before its first request.
    """

    store: Store
    ids: IdSource
    service: LLMService
    prompts: PromptCompiler  # of decisions
    questions: QuestionPrompts  # of everything else
    budget: CallBudget
    requests: RequestLog
    ready: Callable[[], Awaitable[None]]

    async def ask(
        self,
        question: ModelQuestion[ReplyForm],
        read: Callable[[ReplyForm], Read],
        *,
        step_id: str = "",
    ) -> Read:
        """Ask a model a question other than for a decision, and return ``read`` of the reply. An
        unusable reply is asked for again with its problems; a reply stopped by a pause, after
        the user resumes.

        ``read`` raises ToldError for a reply that is well formed but invalid, which is then
        repaired like any other. Raises LlmError, BudgetEnd, or Unreadable when the repairs are used
        up.
        """
        purpose, role, shape = question.kind.purpose, question.kind.role, question.kind.reply
        problems: tuple[str, ...] = ()
        refused = ""  # the answer that has them
        tries = 0
        while tries <= REASKED:
            window = self.service.window_of(role)
            rules = self.prompts.project_rules()
            asked = self.questions.make_messages(question, problems, window, refused, rules)
            await self.budget.permit_call(
                purpose, step_id=step_id, size=partial(_count_tokens, asked)
            )
            llm_id = self.ids("llm")
            started = LlmCallStarted(
                llm_id=llm_id, purpose=purpose, at=self.store.clock.now(), step_id=step_id
            )

            try:
                async with (
                    cancel_on_pause(self.store),
                    account_call(self.store, self.service, started) as accounts,
                ):
                    self.requests.log_question(asked, started, role, shape)
                    reply = await self.service.ask(purpose, role, asked, shape, llm_id=llm_id)
                    accounts.append(reply.call)
            except ReplyStopped:
                await wait_while_paused(self.store)
                continue
            tries += 1
            problems, refused = tuple(map(self.questions.words, reply.problems)), reply.text
            if reply.value is not None and not problems:
                try:
                    return read(reply.value)
                except ToldError as error:
                    problems = (self.questions.words(error.told),)
        raise Unreadable("; ".join(problems))


def _count_tokens(messages: Sequence[ChatMessage]) -> int:
    """Estimate the tokens of messages by their script."""
    counter = ScriptCounter()
    return sum(counter.count(message.content) for message in messages)


def _fault_key(reply: DecisionReply) -> str:
    """Return the suffix of the notice about an unusable reply: for one that did not arrive whole,
    or was cut at the output limit; empty if its form is wrong.
    """
    if not reply.complete:
        return "_broken"
    return "_cut" if reply.call.outcome == "incomplete" else ""
