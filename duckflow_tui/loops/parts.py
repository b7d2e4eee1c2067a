"""What every turn of a session is built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from duckflow_tui.llm.service import DecisionReply, ReplyObserver
from duckflow_tui.loops.dispatcher import OperationCaller
from duckflow_tui.loops.notices import Notices
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.ids import IdSource
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.phase_machine import PhaseMachine
from duckflow_tui.state.prompt import Prompt
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import LlmCall, Purpose


class DecisionMaker(Protocol):
    """The LLM service, as a turn needs it."""

    async def decide(
        self, prompt: Prompt, *, llm_id: str, purpose: Purpose, observer: ReplyObserver
    ) -> DecisionReply:
        """One reply; raises LlmError."""
        ...

    def cancelled_call(self, llm_id: str) -> LlmCall | None:
        """The account of a call that was cancelled; None when nothing had been sent."""
        ...


class PromptSource(Protocol):
    """The compiler of prompts bound to a state, as a turn needs it."""

    def compile(self, operations: tuple[OperationSpec, ...], pattern: PromptPattern) -> Prompt:
        """The next request."""
        ...

    def overflowed(self, prompt: Prompt) -> bool:
        """The endpoint refused it as too long; False when the next could be no shorter."""
        ...

    def learn(self, prompt: Prompt, tokens_in: int) -> None:
        """What the endpoint counted for it."""
        ...


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How far a turn may go before it asks."""

    max_steps: int = 10
    max_model_calls: int = 60
    max_attempts: int = 3


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
