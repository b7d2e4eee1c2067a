"""The services and settings from which every turn of a session is built."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from duckflow_tui.state.conversation import UserMessage, UserMessageAdded
from duckflow_tui.state.plan import ReportMessage, StepReport
from duckflow_tui.state.plan_events import ReportAdded
from duckflow_tui.work.loop_limits import Pacemaker

if TYPE_CHECKING:
    from duckflow_tui.safety.pending_questions import Desk
    from duckflow_tui.state.base import IdSource
    from duckflow_tui.state.phase_machine import PhaseMachine
    from duckflow_tui.state.store import Store
    from duckflow_tui.tools.notices import Notices
    from duckflow_tui.tools.router import ToolRouter
    from duckflow_tui.work.model_calls import ModelAccess


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """The limits of a turn, and how it runs a plan."""

    max_steps: int = 60
    max_attempts: int = 3
    execution: Literal["auto", "adaptive", "tasklist"] = "auto"
    pacemaker: Pacemaker = field(default_factory=Pacemaker)


@dataclass(frozen=True, slots=True)
class TurnParts:
    """The services that a turn and its steps use."""

    store: Store
    ids: IdSource
    notices: Notices
    machine: PhaseMachine
    models: ModelAccess
    router: ToolRouter
    desk: Desk
    settings: TurnSettings
    #: One compaction at a time.
    compacting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def add_user_words(self, text: str, step_id: str = "") -> None:
        """Add the user's words from a card to the conversation as a message, of the step if one is
        given.
        """
        message_id, now = self.ids("msg"), self.store.clock.now()
        message = UserMessage(
            message_id=message_id, text=text, step_id=step_id, at=now, quoted=True
        )
        await self.store.commit(UserMessageAdded(message=message))

    async def add_report(self, report: StepReport, for_model: str) -> None:
        """Add a report on a step to the conversation."""
        message = ReportMessage(
            message_id=self.ids("msg"),
            report=report,
            for_model=for_model,
            at=self.store.clock.now(),
        )
        await self.store.commit(ReportAdded(message=message))
