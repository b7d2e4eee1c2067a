"""What every turn of a session is built from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from duckflow_tui.llm.service import DecisionReply, ReplyObserver
from duckflow_tui.loops.budget import BudgetLimits, CallBudget
from duckflow_tui.loops.cards import Asked
from duckflow_tui.loops.dispatcher import OperationCaller
from duckflow_tui.loops.notices import Notices
from duckflow_tui.loops.questions import Questioner
from duckflow_tui.loops.request_log import RequestLog
from duckflow_tui.loops.requirement_checks import RequirementChecks
from duckflow_tui.loops.task_lists import CheckArguments
from duckflow_tui.pacing.pacemaker import Pacemaker
from duckflow_tui.prompting.review_questions import ReviewPrompts
from duckflow_tui.prompting.window import KEPT, Cut
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.ids import IdSource
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.phase_machine import PhaseMachine
from duckflow_tui.state.prompt import ChatMessage, Prompt
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import LlmCall, Purpose, Role
from duckflow_tui.state.work import Plan, Step


class DecisionMaker(Protocol):
    """The LLM service, as a turn needs it."""

    async def decide(
        self, prompt: Prompt, *, llm_id: str, purpose: Purpose, role: Role, observer: ReplyObserver
    ) -> DecisionReply:
        """One reply; raises LlmError."""
        ...

    def cancelled_call(self, llm_id: str) -> LlmCall | None:
        """The account of a call that was cancelled; None when nothing had been sent."""
        ...


class PromptSource(Protocol):
    """The compiler of prompts bound to a state, as a turn needs it."""

    def compile(
        self,
        operations: tuple[OperationSpec, ...],
        pattern: PromptPattern,
        *,
        thread: str = "",
        aside: bool = False,
        answers: str = "",
        window: int = 0,
    ) -> Prompt:
        """The next request: of the conversation, of a step's thread, or beside running work, in
        answer to the message ``answers``. ``window``: tokens that the model which is asked can
        hold, 0 for as many as the main one.
        """
        ...

    def cut(
        self, operations: tuple[OperationSpec, ...], *, keep: float = KEPT, always: bool = False
    ) -> Cut | None:
        """What of the conversation has to be compacted; with ``always`` also while there is room,
        so that only the share ``keep`` of it is taken.
        """
        ...

    def undo_fits(self, operations: tuple[OperationSpec, ...]) -> tuple[int, int]:
        """Tokens of the conversation without its newest compaction, and the room there is."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text."""
        ...

    def overflowed(self, prompt: Prompt) -> bool:
        """The endpoint refused it as too long; False when the next could be no shorter."""
        ...

    def learn(self, prompt: Prompt, tokens_in: int) -> None:
        """What the endpoint counted for it."""
        ...


class QuestionSource(Protocol):
    """The words of the calls that are no decision."""

    @property
    def review(self) -> ReviewPrompts:
        """Those about the objective and how far it is met."""
        ...

    def plan(
        self,
        state: AgentState,
        goal: str,
        operations: Sequence[OperationSpec],
        *,
        problems: Sequence[str] = (),
        previous: str = "",
    ) -> tuple[ChatMessage, ...]:
        """Asks for a plan (S2-18)."""
        ...

    def tasks(
        self,
        state: AgentState,
        plan: Plan,
        step: Step,
        operations: Sequence[OperationSpec],
        *,
        problems: Sequence[str] = (),
        failure: str = "",
    ) -> tuple[ChatMessage, ...]:
        """Asks for the tasks of a step, or for the rest of them after a failure (S2-19)."""
        ...

    def report(
        self,
        state: AgentState,
        plan: Plan,
        step: Step,
        log: Sequence[OperationMessage],
        counts: Mapping[str, int],
        *,
        cause: str = "",
        problems: Sequence[str] = (),
    ) -> tuple[ChatMessage, ...]:
        """Asks for the words of a step's report (S2-20)."""
        ...


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How far a turn may go before it asks."""

    max_steps: int = 10
    max_attempts: int = 3
    calls: BudgetLimits = field(default_factory=BudgetLimits)


async def _at_once() -> None:
    return


@dataclass(frozen=True, slots=True)
class TurnParts:
    """What every turn of a session is built from."""

    store: Store
    ids: IdSource
    models: DecisionMaker
    prompts: PromptSource
    caller: OperationCaller
    specs: Callable[[], tuple[OperationSpec, ...]]
    machine: PhaseMachine
    notices: Notices
    limits: TurnLimits
    cards: Asked
    questions: QuestionSource
    questioner: Questioner
    budget: CallBudget
    check: CheckArguments
    checks: RequirementChecks
    requests: RequestLog
    window: Callable[[Role], int]  # tokens of a role's model, 0 when unknown
    ready: Callable[[], Awaitable[None]] = _at_once  # before a turn's first request
    execution: Literal["auto", "adaptive", "tasklist"] = "auto"
    pacemaker: Pacemaker = field(default_factory=Pacemaker)
    other_role: Role | None = None  # whose model is another one than main's, to ask when stuck
    other_model: str = ""  # its name
    compacting: asyncio.Lock = field(default_factory=asyncio.Lock)  # one compaction at a time
