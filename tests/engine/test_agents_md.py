"""The ways through the code that AGENTS.md tells: each function is there, and on the way."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from support.plan_talk import PROPOSE, begin_plan, plan_reply
from support.session import action, decision, done, script, session

from duckflow_tui.state.gates import GateChoice

AGENTS = Path(__file__).parents[2] / "AGENTS.md"
PACKAGE = "duckflow_tui/"


def named(heading: str) -> list[str]:
    """The functions of a way, ``file:qualified name``; a bare name stands in the file before it,
    a bare method in the class before it.
    """
    text = AGENTS.read_text(encoding="utf-8")
    part = re.split(r"\n(?:A |##)", text.split(f"\n{heading}:\n")[1])[0]
    found: list[str] = []
    for word in re.findall(r"`([^`]+)`", part):
        if ":" in word:
            found.append(word)
        elif re.fullmatch(r"[A-Z]\w+\.\w+|[a-z_]+", word):
            found.append(f"{found[-1].split(':')[0]}:{word}")
    return found


@contextmanager
def entered() -> Generator[set[str]]:
    """Which functions of the package are entered meanwhile, as ``named`` spells them."""
    seen: set[str] = set()

    def hear(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            at = file.rfind(PACKAGE)
            if at >= 0:
                seen.add(f"{file[at + len(PACKAGE) :]}:{frame.f_code.co_qualname}")

    threading.setprofile(hear)
    sys.setprofile(hear)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_the_list_is_read() -> None:
    assert len(named("A turn with an edit")) >= 12
    assert len(named("A step of a plan")) >= 7
    assert len(named("A resume")) >= 6


async def test_a_turn_goes_the_way_that_is_told(tmp_path: Path) -> None:
    """Covers S4-5: from the message over model, gate and tool back into the state."""
    edit = decision(
        "Writing.",
        action("file_ops.write_file", path="a.txt", content="two\n"),
        requirements=[{"requirement": "a.txt says two", "priority": 1}],
    )
    with entered() as seen:
        async with session(tmp_path, script(edit, done("A is written."))) as s:
            await s.engine.send("write a")
            await s.answer(GateChoice.ONCE)
            await s.ended()
    assert [name for name in named("A turn with an edit") if name not in seen] == []


async def test_a_step_goes_the_way_that_is_told(tmp_path: Path) -> None:
    replies = script(
        PROPOSE,
        done("Done."),
        plan=plan_reply("first note"),
        task=(
            decision("Writing.", action("file_ops.write_file", path="a.txt", content="x\n")),
            done("Written."),
        ),
    )
    with entered() as seen:
        async with session(tmp_path, replies, mode="trusted") as s:
            await begin_plan(s, asks="one note please")
            await s.ended()
    assert [name for name in named("A step of a plan") if name not in seen] == []


async def test_a_resume_goes_the_way_that_is_told(tmp_path: Path) -> None:
    write = decision("Writing.", action("file_ops.write_file", path="a.txt", content="two\n"))
    with entered() as seen:  # from the start: a thread that is there already is not heard
        async with session(tmp_path, script(write)) as s:
            await s.engine.send("write a")
            await s.gate()
            session_id = s.session_id
            s.cut()
        seen.clear()
        async with session(tmp_path, script(done("A is written.")), resume=session_id) as s:
            await s.answer(GateChoice.ONCE)
            await s.ended()
    assert [name for name in named("A resume") if name not in seen] == []
