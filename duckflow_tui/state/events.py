"""Every event there is. ``apply`` is pure: no clock, no ids, no I/O; it checks, then assigns.

The ``kind`` of an event is its name in the journal and in ``--json``. Those of plans, cards and
work stand in ``plan_events``, those of processes and servers in ``process_events``.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter

from duckflow_tui.state.calls import (
    ChangesUndone,
    FileChangedOutside,
    OperationFinished,
    OperationOutput,
    OperationProgress,
    OperationRequested,
    OperationStarted,
    OutsideChangesTold,
)
from duckflow_tui.state.conversation import (
    AssistantReplied,
    MessageQueued,
    NoticeAdded,
    QueueItemChanged,
    QueueItemRemoved,
    UserMessageAdded,
)
from duckflow_tui.state.gates import (
    CardAnswered,
    CardOpened,
    CardWithdrawn,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
    GrantAdded,
)
from duckflow_tui.state.goal import (
    AttemptStarted,
    ObjectiveChanged,
    ObjectiveReviewed,
    RequirementEdited,
    RequirementsFound,
    RequirementWaived,
)
from duckflow_tui.state.memory import (
    CompactionUndone,
    ContextCompacted,
    WorkingMemoryChanged,
)
from duckflow_tui.state.pace import (
    LimitExtended,
    LimitSet,
    ProfileChosen,
    VitalsChanged,
)
from duckflow_tui.state.phase import (
    PhaseChanged,
    StatusChanged,
    TransitionRefused,
)
from duckflow_tui.state.plan_events import (
    PlanAnswered,
    PlanProposed,
    PlanRevised,
    PlanStatusChanged,
    ReportAdded,
    StepBreakSet,
    StepChanged,
    StepTasksSet,
    TaskChanged,
    WorkFinished,
    WorkProgressed,
    WorkStarted,
)
from duckflow_tui.state.processes import (
    McpServerChanged,
    ProcessEnded,
    ProcessOutput,
    ProcessStarted,
)
from duckflow_tui.state.rewind import ConversationRewound, RewindUndone, SessionForked
from duckflow_tui.state.session import (
    DraftSaved,
    JournalChanged,
    ModeChanged,
    ModelChanged,
    SessionPinned,
    SessionResumed,
    SessionStarted,
    SessionTitled,
)
from duckflow_tui.state.turn import (
    LoopStarted,
    PauseRequested,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    TurnStarted,
)
from duckflow_tui.state.usage import (
    BudgetRaised,
    LlmCallFinished,
    LlmCallStarted,
    LlmWaiting,
    PromptMeasured,
    ReasoningDelta,
    ReplyDelta,
)

Event = (
    SessionStarted
    | ModelChanged
    | ModeChanged
    | UserMessageAdded
    | MessageQueued
    | QueueItemRemoved
    | NoticeAdded
    | AssistantReplied
    | TurnStarted
    | LoopStarted
    | PauseRequested
    | TurnPaused
    | TurnResumed
    | TurnFinished
    | LlmCallStarted
    | ReplyDelta
    | ReasoningDelta
    | LlmWaiting
    | LlmCallFinished
    | WorkingMemoryChanged
    | PhaseChanged
    | TransitionRefused
    | StatusChanged
    | ObjectiveChanged
    | VitalsChanged
    | OperationRequested
    | OperationStarted
    | OperationProgress
    | OperationFinished
    | FileChangedOutside
    | OutsideChangesTold
    | ChangesUndone
    | GateOpened
    | GateAnswered
    | GateWithdrawn
    | GrantAdded
    | QueueItemChanged
    | PlanProposed
    | PlanRevised
    | PlanAnswered
    | PlanStatusChanged
    | StepChanged
    | StepTasksSet
    | TaskChanged
    | StepBreakSet
    | CardOpened
    | CardAnswered
    | CardWithdrawn
    | ReportAdded
    | WorkStarted
    | WorkProgressed
    | WorkFinished
    | OperationOutput
    | ProcessStarted
    | ProcessOutput
    | ProcessEnded
    | McpServerChanged
    | RequirementsFound
    | RequirementEdited
    | RequirementWaived
    | ObjectiveReviewed
    | AttemptStarted
    | ProfileChosen
    | LimitSet
    | LimitExtended
    | BudgetRaised
    | SessionTitled
    | SessionPinned
    | SessionResumed
    | DraftSaved
    | JournalChanged
    | PromptMeasured
    | ContextCompacted
    | CompactionUndone
    | ConversationRewound
    | RewindUndone
    | SessionForked
)


#: Every kind, in the order of this file; ``--json`` prints no other.
EVENT_KINDS: tuple[str, ...] = tuple(
    str(cls.model_fields["kind"].default) for cls in get_args(Event)
)


@cache
def _adapter() -> TypeAdapter[Event]:
    # Builds every model there is, which a start without a journal need not wait for.
    return TypeAdapter(Annotated[Event, Field(discriminator="kind")])


def event_from_json(fields: dict[str, Any]) -> Event:
    """Read an event back from its fields; raises pydantic.ValidationError when it is none."""
    return _adapter().validate_python(fields)
