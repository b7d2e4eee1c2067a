"""Someone at the keyboard of the whole app: reads the screen, presses keys and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from support.app_states import settled
from support.pinned import ManualClock
from support.screens import screen_text
from textual.pilot import Pilot

from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S


@dataclass
class Seat:
    """A user of this app, whose clock the test moves."""

    app: DuckflowApp
    pilot: Pilot[int]
    clock: ManualClock

    @property
    def screen(self) -> str:
        """All that is on the screen, as lines."""
        return screen_text(self.app)

    async def sees(self, *words: str) -> None:
        """Wait until all of this is on the screen."""

        def shows() -> bool:
            screen = self.screen  # drawn once for all words
            return all(word in screen for word in words)

        try:
            await settled(self.pilot, shows)
        except AssertionError:
            missing = [word for word in words if word not in self.screen]
            raise AssertionError(f"{missing} did not come:\n{self.screen}") from None

    async def says(self, text: str) -> None:
        """Paste a message and send it."""
        self.app.bench.composer.replace_text(text)
        await self.pilot.press("enter")

    async def types(self, text: str) -> None:
        """Type a message key by key and send it."""
        await self.pilot.press(*("space" if c == " " else c for c in text), "enter")

    async def decides(self, *keys: str) -> None:
        """Go to what waits once all of it is on the screen, look at it for a moment, press the
        keys, and see it answered.
        """
        bench = self.app.bench

        def comes() -> bool:
            """Whether it is shown, and the focus is no longer at the question before it."""
            places = bench.composer, bench.talk.open_question
            return self._shown() in self._open() and bench.focused in places

        await settled(self.pilot, comes, "a question")
        question = self._shown()
        if bench.focused is bench.composer:
            await self.pilot.press("enter")
        await settled(self.pilot, lambda: bench.focused is bench.talk.open_question)
        await settled(self.pilot, self._read, "the end of the question")
        self.clock.advance(SETTLE_S)
        await self.pilot.press(*keys)
        await settled(self.pilot, lambda: question not in self._open(), "an answer")

    def _open(self) -> tuple[str, ...]:
        """The ids of all questions that wait for the user."""
        assert self.app.session.engine is not None
        state = self.app.session.engine.store.state
        return (*(gate.gate_id for gate in state.gates), *(card.card_id for card in state.cards))

    def _shown(self) -> str:
        """The id of the question on the screen, which is a frame behind the state; "" for none."""
        gate, card = self.app.bench.question.gate, self.app.bench.question.card
        return card.card_id if card else gate.gate_id if gate else ""

    def _read(self) -> bool:
        """Whether no row of the question is still out of sight: until then keys turn its pages."""
        asks = self.app.bench.talk.open_question
        return asks is not None and asks.count_unseen() == 0
