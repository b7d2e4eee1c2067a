"""Work that gets stuck in each of the ways the user is asked about, and what is seen of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.plan_talk import card
from support.session import Session, action, decision

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.gates import Card, CardKind, CardOpened
from duckflow_tui.state.pace import Pattern, Situation, Vital, VitalsChanged

LONG = {"DUCKFLOW_PACEMAKER__MIN": "20"}  # so that the limit is no matter
SHORT = {"DUCKFLOW_PACEMAKER__MAX": "1"}  # work that moves may take three times as many
ANALYSIS = Reply(data={"cause": "a tool is missing", "fix": "install it", "retryable": False})
DIGEST = Reply(data={"digest": "f00 holds a comment, the rest is unknown"})


def read(path: str) -> dict[str, Any]:
    """A call that reads a file."""
    return action("file_ops.read_file", path=path)


def reads(*paths: str, **fields: Any) -> Reply:
    """A decision that reads files."""
    return decision(f"I read {' '.join(paths)}.", *(read(path) for path in paths), **fields)


def always(reply: Reply) -> Reply:
    """The same reply to every request."""
    return Reply(decision=reply.decision, repeat=True)


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    """A call that changes a file."""
    return action("file_ops.edit_file", path=path, edits=[{"old": old, "new": new}])


def fails(*paths: str) -> Reply:
    """A decision whose changes cannot be made: there are no such files."""
    return decision("I change it.", *(edit(path, "x", "y") for path in paths))


def files(folder: Path, count: int) -> list[str]:
    """Different files in the workspace; their names."""
    folder.mkdir(exist_ok=True)
    names = [f"f{number:02}.py" for number in range(count)]
    for name in names:
        (folder / name).write_text(f"# the content of {name}\n")
    return names


def stuck(pattern: Pattern) -> tuple[tuple[Reply, ...], dict[str, str]]:
    """The replies after which this consultation is due, and the settings they need. The workspace
    has six files of ``files``.
    """
    match pattern:
        case Pattern.STAGNATION:
            return tuple(reads("f00.py") for _ in range(4)), LONG
        case Pattern.LOW_CONFIDENCE:
            return tuple(reads(f"f0{n}.py", confidence=0.0) for n in range(2)), LONG
        case Pattern.CONFUSION:
            names = ("f00.py", "f01.py", "f00.py", "f01.py", "f00.py")
            return tuple(reads(name) for name in names), LONG
        case Pattern.TOO_MANY_TRIES:
            gone = (("a", "b", "c"), ("d", "e", "f"), ("g",))
            return tuple(fails(*names) for names in gone), LONG
        case Pattern.LIMIT:
            return tuple(reads(f"f0{n}.py") for n in range(3)), SHORT


def consultations(s: Session) -> list[Situation]:
    """What the user was shown, in order."""
    cards = [e.card for e in s.events(CardOpened)]
    return [c.situation for c in cards if c.situation is not None]


def changes(s: Session, vital: Vital) -> list[tuple[str, float]]:
    """How a vital moved: causes and new values."""
    moved = [e.change for e in s.events(VitalsChanged) if e.change.vital == vital]
    return [(change.cause, change.new) for change in moved]


async def consulted(s: Session) -> tuple[Card, Situation]:
    """The consultation that is open, once there is one."""
    shown = await card(s)
    assert shown.kind is CardKind.CONSULTATION
    assert shown.situation is not None
    return shown, shown.situation


def next_request(s: Session) -> str:
    """What is new in the newest request for a decision."""
    return s.server.of("main")[-1].new_text
