"""Sessions on a disk, in every state that a list has to show."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from support import goals, plans
from support.consults import consultation
from support.conversations import assistant, operation, user
from support.gates import gate
from support.pinned import ManualClock

from duckflow_tui.session.folders import session_path
from duckflow_tui.session.recording import start_journal
from duckflow_tui.session.records import JournalHeader, encode
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event
from duckflow_tui.state.calls import OperationFinished, OperationMessage, OperationRequested
from duckflow_tui.state.conversation import (
    AssistantMessage,
    AssistantReplied,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.gates import CardOpened, GateOpened
from duckflow_tui.state.goal import ObjectiveChanged
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.plan import PlanStatus
from duckflow_tui.state.plan_events import PlanProposed
from duckflow_tui.state.session import (
    DraftSaved,
    SessionInfo,
    SessionPinned,
    SessionStarted,
    SessionTitled,
)
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import TurnFinished, TurnInfo, TurnStarted
from duckflow_tui.state.usage import LlmCall, LlmCallFinished

WORKSPACE: Final = "/work/little-shop"
NOW: Final = ManualClock().now()
HOUR: Final = 3600.0

WORDS: Final = {
    "en": {
        "fix": "The total is wrong when two discounts apply. Find out why.",
        "why": "Discounts are added where they have to be multiplied: 10 % and 10 % make 19 %.",
        "loyal": "Add a loyalty discount for regular customers",
        "steps": "I split this into steps; the first two can start now.",
        "receipt": "Print the receipt with the tax of each line",
        "half": "The receipt has no place for it yet, so I look at",
        "name": "Release 2.0",
        "notes": "Write the release notes from the commits since 1.9",
        "done": "The notes are in CHANGES.md, grouped by what changed for users.",
        "what": "what does round_half_even do here",
        "even": "It rounds 0.5 to the even neighbour, as banks do.",
    },
    "ja": {
        "fix": "割引が二つ重なると合計がおかしくなります。原因を調べてください。",
        "why": "割引を足していますが、掛ける必要があります。10 % と 10 % で 19 % 引きです。",
        "loyal": "常連のお客さま向けの割引を追加してください",
        "steps": "いくつかのステップに分けました。最初の二つはすぐに始められます。",
        "receipt": "レシートに行ごとの税額を印刷してください",
        "half": "レシートにはまだその欄がないので、まず",
        "name": "リリース 2.0",
        "notes": "1.9 以降のコミットからリリースノートを書いてください",
        "done": "CHANGES.md に、利用者から見た変化ごとにまとめました。",
        "what": "ここで round_half_even は何をしますか",
        "even": "0.5 を偶数側に丸めます。銀行と同じ方式です。",
    },
}


def record(
    state_dir: Path,
    session_id: str,
    events: Iterable[Event],
    *,
    workspace: str = WORKSPACE,
    at: float = NOW,
    branch: str = "main",
    demo: bool = False,
) -> Path:
    """A closed session with these events; its folder."""
    clock = ManualClock(at)
    journal = start_journal(state_dir, session_id, Path(workspace), at)
    store = Store(AgentState(), clock, journal)
    session = SessionInfo(
        session_id=session_id,
        workspace=workspace,
        title=Path(workspace).name,
        started_at=at,
        model="gpt-5-mini",
        endpoint="local",
        branch=branch,
        demo=demo,
    )
    store.dispatch(SessionStarted(session=session, mode=ApprovalMode.STANDARD))
    for event in events:
        store.dispatch(event)
    journal.close_now()
    return session_path(state_dir, workspace, session_id)


def asked(text: str, at: float) -> UserMessageAdded:
    message = user(text)
    assert isinstance(message, UserMessage)
    return UserMessageAdded(message=message.model_copy(update={"at": at}))


def replied(text: str, at: float, *, complete: bool = True) -> AssistantReplied:
    message = assistant(text, 1)
    assert isinstance(message, AssistantMessage)
    update = {"at": at, "complete": complete}
    return AssistantReplied(message=message.model_copy(update=update))


def called(call_id: str, path: str, text: str, at: float) -> list[Event]:
    message = operation("file_ops.read_file", {"path": path}, summary="38 lines")
    assert isinstance(message, OperationMessage)
    result = message.result.model_copy(update={"text": text})
    update = {"call_id": call_id, "result": result, "at": at}
    return [
        OperationRequested(
            call_id=call_id, operation="file_ops.read_file", args={"path": path}, at=at
        ),
        OperationFinished(message=message.model_copy(update=update)),
    ]


def began(at: float, turn_id: str = "turn_1") -> TurnStarted:
    return TurnStarted(turn=TurnInfo(turn_id=turn_id, message_id="u0", started_at=at))


def paid(cost: float | None = 0.034) -> LlmCallFinished:
    return LlmCallFinished(
        call=LlmCall(
            llm_id="llm_1",
            role="main",
            purpose="main",
            endpoint="local",
            model="gpt-5-mini",
            tokens_in=9000,
            tokens_out=310,
            cost=cost,
        )
    )


def whole(said: str, reply: str, at: float, *, cost: float | None = 0.034) -> list[Event]:
    """A turn that came to its end."""
    return [
        asked(said, at),
        began(at),
        paid(cost),
        *called("call_1", "src/shop/pricing.py", "def total(lines):\n    return 0\n", at + 1),
        replied(reply, at + 2),
        TurnFinished(turn_id="turn_1", outcome="done", reply=reply, llm_calls=1),
    ]


def shelf(state_dir: Path, language: str = "en") -> None:
    """Nine sessions of this workspace and others: each of the states, and what cannot be read.
    They are recorded once and laid down as files from then on.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    for name, mode, changed, content in _recorded(language):
        path = state_dir / name
        if content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content)
        path.chmod(mode)
        os.utime(path, ns=(changed, changed))


@cache
def _recorded(language: str) -> Sequence[tuple[Path, int, int, bytes | None]]:
    """Each file and folder of the shelf: its name, mode, time in ns, and what a file holds."""
    found: list[tuple[Path, int, int, bytes | None]] = []
    with TemporaryDirectory() as folder:
        _record_all(Path(folder), language)
        for path in sorted(Path(folder).rglob("*")):
            content = path.read_bytes() if path.is_file() else None
            told = path.stat()
            name = path.relative_to(folder)
            found.append((name, stat.S_IMODE(told.st_mode), told.st_mtime_ns, content))
    return found


def _record_all(state_dir: Path, language: str) -> None:
    say = WORDS[language]
    goal = goals.at_work(language, objective=True).state.objective
    assert goal is not None
    at_gate: list[Event] = [
        asked(say["fix"], NOW - HOUR),
        ObjectiveChanged(objective=goal),
        began(NOW - HOUR),
        paid(),
        *called("call_1", "src/shop/pricing.py", "rate = sum(discounts)", NOW - HOUR + 1),
        replied(say["why"], NOW - HOUR + 60),
        GateOpened(gate=gate()),
    ]
    record(state_dir, "session_00000001", at_gate, at=NOW - HOUR)
    plan = plans.running(language).model_copy(update={"status": PlanStatus.DRAFT})
    planned: list[Event] = [
        asked(say["loyal"], NOW - 5 * HOUR),
        PlanProposed(plan=plan),
        began(NOW - 5 * HOUR),
    ]
    planned += [paid(0.21), replied(say["steps"], NOW - 5 * HOUR + 9)]
    planned.append(CardOpened(card=consultation(Pattern.STAGNATION, language)))
    record(state_dir, "session_00000002", planned, at=NOW - 5 * HOUR, branch="loyalty")
    cut: list[Event] = [asked(say["receipt"], NOW - 26 * HOUR), began(NOW - 26 * HOUR), paid()]
    cut += [replied(say["half"], NOW - 26 * HOUR + 5, complete=False)]
    record(state_dir, "session_00000003", cut, at=NOW - 26 * HOUR)
    named = whole(say["notes"], say["done"], NOW - 400 * HOUR, cost=1.2)
    named += [SessionTitled(name=say["name"]), SessionPinned(pinned=True)]
    record(state_dir, "session_00000004", named, at=NOW - 400 * HOUR, branch="release")
    record(state_dir, "session_00000005", [], at=NOW - 2 * HOUR)  # nothing was said
    drafted = [DraftSaved(text=say["what"])]
    record(state_dir, "session_00000006", drafted, at=NOW - 9 * HOUR)
    elsewhere = whole(say["what"], say["even"], NOW - 30 * HOUR, cost=None)
    record(
        state_dir,
        "session_00000007",
        elsewhere,
        workspace="/work/till",
        at=NOW - 30 * HOUR,
        branch="",
    )
    of_later_program(state_dir, "session_00000008")
    foreign = session_path(state_dir, WORKSPACE, "session_00000009")
    foreign.mkdir(mode=0o700)
    (foreign / "journal-1.d1").write_bytes(b"not a journal at all\n")
    os.utime(foreign / "journal-1.d1", (NOW - 600 * HOUR, NOW - 600 * HOUR))


def sized(path: Path) -> int:
    """A size of its own for each session, whatever the events of today take."""
    return 4_100 * int(path.name[-1], 16) ** 3


def of_later_program(state_dir: Path, session_id: str) -> None:
    """A session that a program of tomorrow wrote."""
    path = session_path(state_dir, WORKSPACE, session_id)
    path.mkdir(mode=0o700, parents=True)
    header = JournalHeader(
        session_id=session_id, workspace=WORKSPACE, created_at=NOW, opened_at=NOW
    )
    body = header.as_body(None).replace(b'"schema_version":1', b'"schema_version":99')
    assert b":99" in body
    (path / "journal-1.d1").write_bytes(encode(0, body))
    os.utime(path / "journal-1.d1", (NOW - 500 * HOUR, NOW - 500 * HOUR))
