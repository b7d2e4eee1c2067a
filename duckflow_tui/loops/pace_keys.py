"""What the user's keys do to the pacemaker; each takes effect at once."""

from __future__ import annotations

from collections.abc import Callable

from duckflow_tui.loops.cards import Asked
from duckflow_tui.loops.control import TurnControl
from duckflow_tui.state.decision import TaskProfile
from duckflow_tui.state.events import ProfileChosen
from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.store import Store


class PaceKeys:
    """``control`` is that of the turn that runs, if one does."""

    def __init__(
        self, store: Store, cards: Asked, control: Callable[[], TurnControl | None]
    ) -> None:
        self._store = store
        self._cards = cards
        self._control = control

    def choose_profile(self, profile: TaskProfile | None) -> None:
        """Name the kind of request, now and for what comes; None leaves it to the model again."""
        if profile is self._store.state.profile_choice:
            return
        self._store.dispatch(ProfileChosen(profile=profile))
        control = self._control()
        if control is not None and control.turn_pace is not None:
            control.turn_pace.rechoose()

    def extend(self, by: int = 5) -> None:
        """Allow what runs so many loops more; a card that asks about its limit is done with."""
        control = self._control()
        keeper = control.pace if control is not None else None
        if keeper is None:
            return
        keeper.extend(by)
        for card in self._store.state.cards:
            if card.situation is not None and card.situation.pattern is Pattern.LIMIT:
                self._cards.withdraw(card.card_id, "renewed")
