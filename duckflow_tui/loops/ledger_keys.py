"""What the user does to the requirements by key; nobody else drops one."""

from __future__ import annotations

from duckflow_tui.loops.understanding import next_id
from duckflow_tui.state.base import one_line
from duckflow_tui.state.decision import Check
from duckflow_tui.state.events import RequirementEdited, RequirementWaived, StateError
from duckflow_tui.state.objective import RequirementItem
from duckflow_tui.state.store import Store

_NO_REQUEST = "There is no request in hand."
_NO_WORDS = "A requirement needs words."


class LedgerKeys:
    """Each method returns what is in the way, in words, or nothing. Priorities are 1 to 3."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, text: str, priority: int = 1, check: Check | None = None) -> str:
        """A requirement of the user's own; it counts from now on."""
        objective = self._store.state.objective
        if objective is None:
            return _NO_REQUEST
        taken = {item.requirement_id for item in objective.extracted_requirements}
        return self._put(next_id(taken), text, priority, check or Check(), None)

    def edit(
        self,
        requirement_id: str,
        text: str | None = None,
        priority: int | None = None,
        check: Check | None = None,
    ) -> str:
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

    def waive(self, requirement_id: str, because: str = "") -> str:
        """Drop it: it stays on the list and counts no more."""
        return self._waived(requirement_id, waived=True, because=one_line(because, 200))

    def restore(self, requirement_id: str) -> str:
        """Take a dropped one back; it is open again."""
        item = self._item(requirement_id)
        if item is not None and item.counts:
            return f"Requirement {requirement_id} was not dropped."
        return self._waived(requirement_id, waived=False)

    def _put(
        self, key: str, text: str, priority: int, check: Check, old: RequirementItem | None
    ) -> str:
        if not text.strip():
            return _NO_WORDS
        if priority not in (1, 2, 3):
            return "A priority is 1, 2 or 3."
        if check.kind != "judgement" and not check.value.strip():
            return f"A check of kind {check.kind} needs a value."
        fields = {"requirement": text.strip(), "priority": priority, "check": check}
        item = (
            RequirementItem(
                requirement_id=key, requirement=text.strip(), priority=priority, check=check
            )
            if old is None
            else old.model_copy(update=fields)
        )
        return self._tried(RequirementEdited(item=item))

    def _waived(self, key: str, *, waived: bool, because: str = "") -> str:
        if self._item(key) is None:
            return self._nowhere(key)
        return self._tried(RequirementWaived(requirement_id=key, because=because, waived=waived))

    def _item(self, key: str) -> RequirementItem | None:
        objective = self._store.state.objective
        return objective.requirement(key) if objective is not None else None

    def _nowhere(self, key: str) -> str:
        if self._store.state.objective is None:
            return _NO_REQUEST
        return f"There is no requirement {one_line(key, 40)}."

    def _tried(self, event: RequirementEdited | RequirementWaived) -> str:
        try:
            self._store.dispatch(event)
        except StateError as error:
            return str(error)
        return ""
