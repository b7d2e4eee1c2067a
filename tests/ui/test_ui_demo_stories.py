"""The demo's stories of a missed requirement and of a stuck model, played with keys alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.app_states import settled
from support.pinned import ManualClock
from textual.pilot import Pilot

from duckflow_tui.compose import Flags, Sessions, choose
from duckflow_tui.demo.stage import Stage, open_stage
from duckflow_tui.demo.story import savings_request, tax_request
from duckflow_tui.places import Places
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_UNASKED
from duckflow_tui.ui.session_host import AppOptions


@dataclass
class Seat:
    """Someone at the keyboard of the demo, who sees the screen and nothing else."""

    stage: Stage
    app: DuckflowApp
    pilot: Pilot[int]
    clock: ManualClock

    @property
    def screen(self) -> str:
        strips = self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]  # what a terminal gets
        return "\n".join("".join(part.text for part in strip) for strip in strips)

    async def sees(self, *words: str) -> None:
        """Wait until all of this is on the screen."""
        try:
            await settled(self.pilot, lambda: all(word in self.screen for word in words))
        except AssertionError:
            missing = [word for word in words if word not in self.screen]
            raise AssertionError(f"{missing} did not come:\n{self.screen}") from None

    async def says(self, text: str) -> None:
        """Paste a message and send it."""
        self.app.bench.composer.write(text)
        await self.pilot.press("enter")

    async def decides(self, *keys: str) -> None:
        """Go to what waits, look at it for a moment, and press the keys."""
        bench = self.app.bench
        await settled(self.pilot, lambda: bool(self._open()))
        before = self._open()
        if bench.focused is bench.composer:
            await self.pilot.press("enter")
        await settled(self.pilot, lambda: bench.focused in (bench.card, bench.question))
        self.clock.advance(SETTLE_UNASKED)
        await self.pilot.press(*keys)
        await settled(self.pilot, lambda: self._open() != before, "an answer")

    def _open(self) -> tuple[str, ...]:
        assert self.app.engine is not None
        state = self.app.engine.store.state
        return (*(gate.gate_id for gate in state.gates), *(card.card_id for card in state.cards))

    def text(self, path: str) -> str:
        return (self.stage.workspace / path).read_text(encoding="utf-8")


@asynccontextmanager
async def seat(tmp_path: Path) -> AsyncGenerator[Seat]:
    """The app on a stage of its own, in standard mode."""
    async with open_stage(fast=True, folder=tmp_path / "stage") as stage:
        places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
        flags = Flags(
            workspace=stage.workspace,
            base_url=stage.base_url,
            model=stage.model,
            allow=stage.commands,
        )
        clock = ManualClock()
        sessions = Sessions(choose(flags, places, "en", {}))
        app = DuckflowApp(sessions, AppOptions(animation=False), clock=clock)
        try:
            async with app.run_test(size=(150, 60)) as pilot:
                await settled(pilot, lambda: app.engine is not None, "the session")
                yield Seat(stage, app, pilot, clock)
        finally:
            await sessions.close()


async def test_a_missed_requirement_is_seen_missing_and_then_seen_met(tmp_path: Path) -> None:
    """Covers S1-1, S1-2."""
    async with seat(tmp_path) as user:
        await user.says(savings_request("en"))
        await user.decides("y")
        await user.decides("y")
        await user.sees("The README says so", "0.75", "Attempt 2 of 3")
        await user.decides("y")
        await user.sees("Now all three are there", "1.00")
        assert "`savings` tells" in user.text("README.md")


async def test_a_stuck_model_asks_and_a_word_of_the_user_brings_it_to_the_end(
    tmp_path: Path,
) -> None:
    """Covers S0-38, S0-39."""
    async with seat(tmp_path) as user:
        await user.says(tax_request("en"))
        await user.sees("Going in circles", "4× search tax rate", "let it go on")
        await user.decides("2", "8", "space", "percent_sign", "enter")
        await user.decides("y")
        await user.sees('TAX_RATE = Decimal("0.08")', "/undo")
        assert 'TAX_RATE = Decimal("0.08")' in user.text("src/shop/pricing.py")
