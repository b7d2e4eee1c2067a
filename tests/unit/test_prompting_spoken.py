"""Operations that prompt files speak of exist, by the names under which they are called."""

from __future__ import annotations

from typing import cast
from unittest.mock import Mock

from duckflow_tui.prompting.lines import SPOKEN
from duckflow_tui.session.memory import ProjectMemory
from duckflow_tui.tools.memory import memory_operations
from duckflow_tui.tools.operation import default_registry
from duckflow_tui.work.plan_dispatch import PlanDesk
from duckflow_tui.work.plan_operations import plan_operations


def test_every_operation_that_a_prompt_speaks_of_is_registered() -> None:
    """Covers S2-25."""
    plans = plan_operations(Mock(spec=PlanDesk))
    notes = memory_operations(cast("ProjectMemory", None))
    names = {operation.name for operation in (*plans, *notes)}
    names |= {operation.name for operation in default_registry().specs()}
    with_commands = {"shell.end", "shell.output"}
    assert set(SPOKEN.values()) - names == with_commands
