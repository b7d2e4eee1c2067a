"""The demo's stories of a missed requirement and of a stuck model, played with keys alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from support.app_states import settled
from support.pinned import ManualClock
from support.prepared import UNTOUCHED
from support.seat import Seat

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.places import Places
from duckflow_tui.scripted.stage import Stage, open_stage
from duckflow_tui.scripted.stories import list_requests
from duckflow_tui.sessions import Sessions
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions


@dataclass
class Guest(Seat):
    """A user of the demo."""

    stage: Stage

    def text(self, path: str) -> str:
        """What a file of the project holds."""
        return (self.stage.workspace / path).read_text(encoding="utf-8")


@asynccontextmanager
async def seat(tmp_path: Path) -> AsyncGenerator[Guest]:
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
        sessions = Sessions(choose_session(flags, places, "en", UNTOUCHED))
        app = DuckflowApp(sessions, AppOptions(animation=False), clock=clock)
        try:
            async with app.run_test(size=(150, 60)) as pilot:
                await settled(pilot, lambda: app.session.engine is not None, "the session")
                yield Guest(app, pilot, clock, stage)
        finally:
            await sessions.close()


async def test_a_missed_requirement_is_seen_missing_and_then_seen_met(tmp_path: Path) -> None:
    """Covers S1-1, S1-2."""
    async with seat(tmp_path) as user:
        await user.says(list_requests("en")["savings"])
        await user.decides("y")
        await user.decides("y")
        await user.sees("Not done yet, attempt 1 of 3: The README says so", "Attempt 2 of 3")
        await user.decides("y")
        await user.sees("Now all three are there", "▸ Done: 3 of 3 · tests pass")
        await user.sees("▸ Edited pricing.py +5 test_savings.py +14")
        shown = user.screen
        for earlier, later in pairwise(
            ("I'll look at how prices", "· 3 requirements", "▸ read ", "▸ Edited", "Both are in")
        ):
            assert shown.index(earlier) < shown.index(later)
        assert "`savings` tells" in user.text("README.md")


async def test_a_stuck_model_asks_and_a_word_of_the_user_brings_it_to_the_end(
    tmp_path: Path,
) -> None:
    """Covers S0-38, S0-39."""
    async with seat(tmp_path) as user:
        await user.says(list_requests("en")["tax"])
        await user.sees("Going in circles", "4× search tax rate", "let it continue")
        await user.decides("2", "8", "space", "percent_sign", "enter")
        await user.decides("y")
        await user.sees('TAX_RATE = Decimal("0.08")', "/undo")
        assert 'TAX_RATE = Decimal("0.08")' in user.text("src/shop/pricing.py")


@pytest.mark.parametrize("asked_first", [True, False])
async def test_a_rejection_is_answered_as_one_also_around_a_question_beside_the_work(
    tmp_path: Path, asked_first: bool
) -> None:
    async with seat(tmp_path) as user:
        await user.says(list_requests("en")["bug"])
        await user.sees("Edit src/shop/pricing.py")
        if asked_first:
            await user.says("what does the receipt print?")
            await user.sees("what does the receipt print?")
        await user.decides("n", "enter")
        if not asked_first:
            await user.says("what does the receipt print?")
        await user.sees("I leave that edit out")
        assert "The edit is in" not in user.screen
