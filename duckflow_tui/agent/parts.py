"""What every turn of a session is built from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from duckflow_tui.agent.budget import BudgetLimits, CallBudget
from duckflow_tui.goals.pacemaker import Pacemaker
from duckflow_tui.prompting.replies import Shape
from duckflow_tui.state.conversation import Level, NoticeAdded, NoticeMessage

if TYPE_CHECKING:
    from duckflow_tui.agent.ask import Questioner
    from duckflow_tui.agent.requests import RequestLog
    from duckflow_tui.goals.checks import RequirementChecks
    from duckflow_tui.llm.service import LLMService
    from duckflow_tui.plans.tasks import CheckArguments
    from duckflow_tui.prompting.compiler import PromptCompiler
    from duckflow_tui.safety.desk import Desk
    from duckflow_tui.state.base import IdSource
    from duckflow_tui.state.operations import OperationSpec
    from duckflow_tui.state.phase_machine import PhaseMachine
    from duckflow_tui.state.store import Store
    from duckflow_tui.state.usage import Role
    from duckflow_tui.tools.router import ToolRouter

Reply = TypeVar("Reply", bound=Shape)

Read = TypeVar("Read")


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
    models: LLMService
    prompts: PromptCompiler
    caller: ToolRouter
    specs: Callable[[], tuple[OperationSpec, ...]]
    machine: PhaseMachine
    notices: Notices
    limits: TurnLimits
    cards: Desk
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


class Notices:
    """Adds notices; keys are entries of the catalogue, params are untrusted text."""

    def __init__(self, store: Store, ids: IdSource) -> None:
        self._store = store
        self._ids = ids

    def say(
        self,
        key: str,
        level: Level = Level.INFO,
        *,
        for_model: str = "",
        step_id: str = "",
        aside: bool = False,
        **params: str,
    ) -> None:
        """Show a notice; ``for_model`` is also told to the model, in English: in the
        conversation, in the thread of a step, or to the one who answers beside the work.
        """
        self._store.dispatch(
            NoticeAdded(
                message=NoticeMessage(
                    message_id=self._ids("msg"),
                    level=level,
                    key=key,
                    params=params,
                    for_model=for_model,
                    step_id=step_id,
                    aside=aside,
                    at=self._store.clock.now(),
                )
            )
        )

    def warn(self, key: str, *, for_model: str = "", step_id: str = "", **params: str) -> None:
        """A notice that something did not go as asked."""
        self.say(key, Level.WARNING, for_model=for_model, step_id=step_id, aside=False, **params)

    def error(self, key: str, *, for_model: str = "", step_id: str = "", **params: str) -> None:
        """A notice that something failed."""
        self.say(key, Level.ERROR, for_model=for_model, step_id=step_id, aside=False, **params)
