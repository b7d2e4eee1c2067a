"""Names the sources of the list pages that commands open over a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from duckflow_tui.state.store import Store
from duckflow_tui.ui.screens.context import ContextSource
from duckflow_tui.ui.screens.decisions import DecisionSource
from duckflow_tui.ui.screens.ledger import RequirementSource
from duckflow_tui.ui.screens.list_source import ListSource
from duckflow_tui.ui.screens.network import NetworkSource
from duckflow_tui.ui.screens.plans import PlanSource
from duckflow_tui.ui.screens.processes import ProcessSource
from duckflow_tui.ui.screens.rewind import MessageSource
from duckflow_tui.ui.screens.rules import RuleSource
from duckflow_tui.ui.screens.servers import ServerSource
from duckflow_tui.ui.screens.waiting import QueueSource
from duckflow_tui.ui.screens.working_memory import WorkingMemorySource

#: Pages that are tabs of one.
_TABS: Final = ("decisions", "rules", "network")


def list_sources(name: str, store: Store) -> tuple[Sequence[ListSource[Any]], int]:
    """Return the sources of the page with this name, and the index of the tab shown first."""
    match name:
        case "queue":
            return [QueueSource(store)], 0
        case "processes":
            return [ProcessSource(store)], 0
        case "servers":
            return [ServerSource(store)], 0
        case "working":
            return [WorkingMemorySource(store)], 0
        case "requirements":
            return [RequirementSource(store)], 0
        case "plans":
            return [PlanSource(store)], 0
        case "context":
            return [ContextSource(store)], 0
        case "rewind" | "fork":
            return [MessageSource(store, forks=name == "fork")], 0
        case _:
            tabs = [DecisionSource(store), RuleSource(store), NetworkSource(store)]
            return tabs, _TABS.index(name)
