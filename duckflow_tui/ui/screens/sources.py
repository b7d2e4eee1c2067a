"""The sources of the list pages that a command opens over a session, by the page's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from duckflow_tui.state.store import Store
from duckflow_tui.ui.screens.context import ContextSource
from duckflow_tui.ui.screens.decisions import DecisionSource
from duckflow_tui.ui.screens.ledger import RequirementSource
from duckflow_tui.ui.screens.list_source import ListSource
from duckflow_tui.ui.screens.memory import MemorySource
from duckflow_tui.ui.screens.network import NetworkSource
from duckflow_tui.ui.screens.plans import PlanSource
from duckflow_tui.ui.screens.processes import ProcessSource
from duckflow_tui.ui.screens.rewind import MessageSource
from duckflow_tui.ui.screens.rules import RuleSource
from duckflow_tui.ui.screens.servers import ServerSource
from duckflow_tui.ui.screens.waiting import QueueSource
from duckflow_tui.ui.screens.working_memory import WorkingMemorySource

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

#: Pages that are tabs of one.
_TABS: Final = ("decisions", "rules", "network")


def list_sources(name: str, store: Store) -> tuple[Sequence[ListSource[Any]], int]:
    """The sources of a page that only reads the state, and the tab that it begins with."""
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
        case _:
            tabs = [DecisionSource(store), RuleSource(store), NetworkSource(store)]
            return tabs, _TABS.index(name)


def make_acting_source(name: str, engine: Engine) -> ListSource[Any]:
    """The source of a page that acts on the session of an engine."""
    match name:
        case "memory":
            return MemorySource(engine)
        case "plans":
            return PlanSource(engine.store)
        case "context":
            return ContextSource(engine.store)
        case _:
            return MessageSource(engine.store, forks=name == "fork")
