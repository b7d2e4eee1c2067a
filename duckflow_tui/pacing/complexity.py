"""How involved the context is: collected files, length of the history, errors (S0-23…26)."""

from __future__ import annotations

from typing import Final

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.pace import Complexity

MANY_FILES: Final = 8  # from here on the factor is 1.0 (S0-23)
MANY_TURNS: Final = 15  # S0-24
ERROR_WEIGHT: Final = 3  # a third of the calls going wrong is the most (S0-25)
UNMEASURED: Final = 0.3  # S0-26
LOW_BELOW: Final = 0.3  # S0-33
HIGH_ABOVE: Final = 0.7

_RAN: Final = (Outcome.OK, Outcome.ERROR, Outcome.INVALID)


def analyse(
    files: int | None, turns: int | None, errors: int | None, executions: int | None
) -> Complexity:
    """The mean of the factors that can be measured; None for what cannot.

    ``errors`` are operations that could not run, of the ``executions`` in all; with none of
    those the factor is 0.0.
    """
    by_files = None if files is None else min(files / MANY_FILES, 1.0)
    by_turns = None if turns is None else min(turns / MANY_TURNS, 1.0)
    by_errors = None
    if errors is not None and executions is not None:
        by_errors = min(errors / executions * ERROR_WEIGHT, 1.0) if executions else 0.0
    known = [factor for factor in (by_files, by_turns, by_errors) if factor is not None]
    return Complexity(
        value=sum(known) / len(known) if known else UNMEASURED,
        files=by_files,
        history=by_turns,
        errors=by_errors,
    )


def of_state(state: AgentState) -> Complexity:
    """The same of a session: files read, turns before this one, the model's calls so far."""
    ran = [
        message.result.outcome
        for message in state.messages
        if isinstance(message, OperationMessage)
        and not (message.by_user or message.for_requirement)
        and message.result.outcome in _RAN
    ]
    errors = sum(outcome is not Outcome.OK for outcome in ran)
    return analyse(len(state.files_read), len(state.turns), errors, len(ran))
