"""The judge's own words in the app: its remark in the row, everything it said behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.app_states import settled
from support.pinned import ManualClock
from support.prepared import UNTOUCHED
from support.reviews import claim, judged, thrice, write
from support.seat import Seat
from support.session import decision, done, script

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Script
from duckflow_tui.sessions import Sessions
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions

WORDS = [claim(f"point {n} is made") for n in range(1, 5)]
JUDGE = judged(
    0.95,
    dict.fromkeys(("r1", "r2", "r3", "r4"), 0.95),
    missing_aspects=["a date would help"],
    suggestions=["shorter lines"],
    grade="Excellent",
    verdict="承認",
    quality_assessment="reads well",
)
ROWS = {
    "en": ("Done: 4 of 4 · nothing was run · 1 remark", ("approve · good", "remark", "suggestion")),
    "ja": (
        "完了: 4 件中 4 件 · 実行による確認なし · 指摘 1 件",
        ("合格 · 良い", "提案", "仕上がり"),
    ),
}


@asynccontextmanager
async def at_work(tmp_path: Path, replies: Script, language: str) -> AsyncGenerator[Seat]:
    """Someone at the whole app, in trusted mode, with these replies."""
    (tmp_path / "work").mkdir()
    async with ScriptedEndpoint(replies) as server:
        places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
        mode = ApprovalMode.TRUSTED
        flags = Flags(
            workspace=tmp_path / "work", base_url=server.base_url, model="m", protocol="json",
            mode=mode,
        )  # fmt: skip
        clock = ManualClock()
        sessions = Sessions(choose_session(flags, places, language, UNTOUCHED))
        app = DuckflowApp(sessions, AppOptions(animation=False, language=language), clock=clock)
        async with app.run_test(size=(120, 50)) as pilot:
            await settled(pilot, lambda: app.session.engine is not None, "the session")
            yield Seat(app, pilot, clock)


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_a_verdict_tells_its_remark_and_unfolded_all_that_the_judge_said(
    tmp_path: Path, language: str
) -> None:
    """Covers S4-115."""
    main = (decision("I write.", write("four points\n"), requirements=WORDS), done("Written."))
    replies = script(*main, satisfaction=JUDGE)
    async with at_work(tmp_path, replies, language) as user:
        await user.says("write the four points")
        row, labels = ROWS[language]
        await user.sees(row)
        assert "shorter lines" not in user.screen
        await user.pilot.press("ctrl+o")
        await user.sees(*labels, "a date would help", "shorter lines", "reads well")


@pytest.mark.parametrize(
    ("language", "said"), [("en", "accepted as it is"), ("ja", "今の結果を採用")]
)
async def test_an_unfinished_result_that_the_user_accepts_reads_as_accepted(
    tmp_path: Path, language: str, said: str
) -> None:
    """Covers S1-37. Beside the chat and in the list of sessions."""
    async with at_work(tmp_path, thrice(), language) as user:
        await user.says("write the notes")
        await user.decides("3")
        await user.sees(said)
        before = user.app.session.engine
        await user.says("/new")
        await settled(user.pilot, lambda: user.app.session.engine is not before, "a new session")
        await user.says("/sessions")
        await user.sees("✓ write the notes", said)
