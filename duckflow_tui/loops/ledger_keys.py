"""What the user does to the requirements by key; nobody else drops one."""

from __future__ import annotations

from duckflow_tui.loops.understanding import next_id
from duckflow_tui.state.base import Told, one_line
from duckflow_tui.state.decision import Check
from duckflow_tui.state.events import RequirementEdited, RequirementWaived, StateError
from duckflow_tui.state.objective import RequirementItem
from duckflow_tui.state.store import Store


class LedgerKeys:
    """Each method returns what is in the way, or nothing. Priorities are 1 to 3."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, text: str, priority: int = 1, check: Check | None = None) -> Told | None:
        """A requirement of the user's own; it counts from now on."""
        objective = self._store.state.objective
        if objective is None:
            return _told("no_request")
        taken = {item.requirement_id for item in objective.extracted_requirements}
        return self._put(next_id(taken), text, priority, check or Check(), None)

    def edit(
        self,
        requirement_id: str,
        text: str | None = None,
        priority: int | None = None,
        check: Check | None = None,
    ) -> Told | None:
        """Other words, another priority or another check; None leaves a field as it is."""
        item = self._item(requirement_id)
        if item is None:
            return self._nowhere(requirement_id)
        return self._put(
            requirement_id,
            item.requirement if text is None else text,
            item.priority if priority is None else priority,
            item.check if check is None else check,
            item,
        )

    def waive(self, requirement_id: str, because: str = "") -> Told | None:
        """Drop it: it stays on the list and counts no more."""
        return self._waived(requirement_id, waived=True, because=one_line(because, 200))

    def restore(self, requirement_id: str) -> Told | None:
        """Take a dropped one back; it is open again."""
        item = self._item(requirement_id)
        if item is not None and item.counts:
            return _told("not_waived", id=requirement_id)
        return self._waived(requirement_id, waived=False)

    def _put(
        self, key: str, text: str, priority: int, check: Check, old: RequirementItem | None
    ) -> Told | None:
        if not text.strip():
            return _told("no_words")
        if priority not in (1, 2, 3):
            return _told("priority")
        if check.kind != "judgement" and not check.value.strip():
            return _told("no_value")
        fields = {"requirement": text.strip(), "priority": priority, "check": check}
        item = (
            RequirementItem(
                requirement_id=key, requirement=text.strip(), priority=priority, check=check
            )
            if old is None
            else old.model_copy(update=fields)
        )
        return self._tried(RequirementEdited(item=item))

    def _waived(self, key: str, *, waived: bool, because: str = "") -> Told | None:
        if self._item(key) is None:
            return self._nowhere(key)
        return self._tried(RequirementWaived(requirement_id=key, because=because, waived=waived))

    def _item(self, key: str) -> RequirementItem | None:
        objective = self._store.state.objective
        return objective.requirement(key) if objective is not None else None

    def _nowhere(self, key: str) -> Told | None:
        if self._store.state.objective is None:
            return _told("no_request")
        return _told("not_there", id=one_line(key, 40))

    def _tried(self, event: RequirementEdited | RequirementWaived) -> Told | None:
        try:
            self._store.dispatch(event)
        except StateError:
            return _told("not_now")
        return None


def _told(code: str, **params: str) -> Told:
    return Told(key=f"ledger.problem.{code}", params=params)
