"""Sessions that an earlier version of the program recorded, as it did: one with edits, a plan with
task lists, a plan cut in a step, a consultation, a way back and its fork, a queue, and one whose
process was killed in a turn. Beside them lies the state which that version read from each.

``tests/recorded/earlier_version.tar.xz`` is never made anew: it is what users have on their disks.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

import pytest
from support.plan_talk import answer, card, statuses
from support.session import Session, action, decision, done, script, session

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.export import FORMATS, export_lines
from duckflow_tui.session.folders import SessionFolder, session_path, workspace_key
from duckflow_tui.session.replay import load_tape
from duckflow_tui.session.resume import open_to_read, restore
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.audit import decisions
from duckflow_tui.state.conversation import AssistantMessage, UserMessage
from duckflow_tui.state.gates import CardKind, GateChoice
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.session import SessionResumed
from duckflow_tui.words.catalogue import Catalogue

ARCHIVE: Final = Path(__file__).parent.parent / "recorded" / "earlier_version.tar.xz"
RECORDED_IN: Final = "/recorded/work"  # the workspace of then
NAMES: Final = (
    *("edits", "plan", "plan_cut", "consultation", "rewound", "fork", "queue", "killed"),
)


class Earlier:
    """The sessions, laid out for the workspace ``work`` of a folder."""

    def __init__(self, folder: Path) -> None:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder, filter="data")
        self.folder = folder
        self.workspace = folder / "work"
        self.state_dir = folder / "home" / "state"
        self.state_dir.parent.mkdir()
        (folder / "state").rename(self.state_dir)
        shelf = self.state_dir / "sessions"
        (shelf / workspace_key(RECORDED_IN)).rename(shelf / workspace_key(self.workspace))
        self.expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())

    def id_of(self, name: str) -> str:
        return self.expected[name]["session_id"]

    def path_of(self, name: str) -> Path:
        return session_path(self.state_dir, self.workspace, self.id_of(name))

    def state_of(self, name: str) -> dict[str, Any]:
        return self.expected[name]["state"]


@pytest.fixture
def earlier(tmp_path: Path) -> Earlier:
    return Earlier(tmp_path)


def plain(value: Any) -> Any:
    """A value of the state as JSON has it; what a model is called stands under ``$``."""
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "model_dump"):
        return {"$": type(value).__name__, **value.model_dump(mode="json")}
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value)
        return {str(key): plain(inner) for key, inner in entries.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(inner) for inner in cast("list[object]", value)]
    return value


def differences(was: Any, now: Any, at: str) -> Iterator[str]:
    """Where ``now`` lacks what ``was`` there; fields that are new today do not count."""
    if isinstance(was, dict) and isinstance(now, dict):
        today = cast("dict[str, object]", now)
        for key, value in cast("dict[str, object]", was).items():
            if key in today:
                yield from differences(value, today[key], f"{at}.{key}")
            else:
                yield f"{at}.{key} is gone"
    elif isinstance(was, list) and isinstance(now, list):
        before, after = cast("list[object]", was), cast("list[object]", now)
        if len(before) != len(after):
            yield f"{at}: {len(before)} before, {len(after)} now"
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from differences(old, new, f"{at}[{number}]")
    elif was != now:
        yield f"{at}: {was!r} before, {now!r} now"


def lacks(was: dict[str, Any], state: AgentState) -> list[str]:
    """What of the recorded state is not so in this one."""
    return [
        wrong
        for name, value in was.items()
        for wrong in differences(value, plain(getattr(state, name, None)), name)
    ]


def said(state: AgentState) -> list[str]:
    return [m.text for m in state.messages if isinstance(m, (UserMessage, AssistantMessage))]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_read_as_the_version_that_wrote_it_read_it(earlier: Earlier, name: str) -> None:
    found = open_to_read(earlier.path_of(name))
    assert lacks(earlier.state_of(name), found.state) == []
    assert (found.last_seq, found.missing) == (earlier.expected[name]["last_seq"], 0)


def test_it_is_read_without_its_snapshots_too(earlier: Earlier) -> None:
    folder = SessionFolder.open(earlier.path_of("killed"))
    try:
        assert len(folder.snapshots()) == 2
        found = restore(folder, snapshots=False)
    finally:
        folder.close()
    assert lacks(earlier.state_of("killed"), found.state) == []
    assert found.missing == 0


@pytest.mark.parametrize("name", NAMES)
def test_it_is_replayed_to_the_same_end(earlier: Earlier, name: str) -> None:
    tape = load_tape(earlier.path_of(name))
    assert tape.lost == 0
    assert len(tape) == earlier.expected[name]["last_seq"]
    assert lacks(earlier.state_of(name), tape.state_at(len(tape))) == []


def test_all_are_listed_with_the_same_facts(earlier: Earlier) -> None:
    catalog = Catalog(earlier.state_dir)
    try:
        found = {facts.session_id: facts for facts in catalog.list(earlier.workspace)}
    finally:
        catalog.close()
    assert len(found) == len(NAMES)
    for name in NAMES:
        facts = found[earlier.id_of(name)].model_dump(mode="json")
        assert list(differences(earlier.expected[name]["facts"], facts, name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_it_is_exported_with_all_that_was_said(earlier: Earlier, name: str, tmp_path: Path) -> None:
    path = earlier.path_of(name)
    state = open_to_read(path).state
    for kind in FORMATS:
        text = "\n".join(export_lines(path, kind, Catalogue("en"), str))
        if kind == "decisions":
            found = decisions(state)
            assert all(" ".join(entry.subject.split())[:40] in text for entry in found)
            assert bool(found) is ("| When |" in text)
            continue
        if kind == "network":  # which was not recorded then
            assert Catalogue("en")("network.none") in text
            continue
        for words in filter(None, said(state)):
            assert words[:60].strip() in text
        if kind == "json":
            copy = tmp_path / "export.json"
            copy.write_text(text)
            tape = load_tape(copy)
            assert lacks(earlier.state_of(name), tape.state_at(len(tape))) == []


def resumed(s: Session, earlier: Earlier, name: str) -> None:
    """The session goes on under its own name, with all that was said, and nothing is lost."""
    assert s.session_id == earlier.id_of(name)
    assert s.state.session.workspace == str(earlier.workspace)
    texts = [m["text"] for m in earlier.state_of(name)["messages"] if m["$"] in SPOKEN]
    assert said(s.state)[: len(texts)] == texts
    assert "resume.resumed" in " ".join(s.notices())
    assert "resume.damaged" not in s.notices()


SPOKEN: Final = ("UserMessage", "AssistantMessage")


@pytest.mark.parametrize("name", ["edits", "plan", "rewound", "fork"])
async def test_one_at_rest_goes_on_with_a_turn(earlier: Earlier, name: str, tmp_path: Path) -> None:
    write = action("file_ops.write_file", path="new.txt", content="new\n")
    replies = script(decision("I write.", write), done("Written."))
    async with session(tmp_path, replies, resume=earlier.id_of(name)) as s:
        resumed(s, earlier, name)
        draft = earlier.state_of(name)["draft"]
        assert s.state.draft == draft
        await s.engine.send("one file more")
        await s.answer(GateChoice.ONCE)
        assert (await s.ended()).outcome == "done"
        request = s.server.of("main")[0].text
        last = [m["text"] for m in earlier.state_of(name)["messages"] if m["$"] in SPOKEN][-1]
        assert last in request
    assert (earlier.workspace / "new.txt").read_text() == "new\n"
    again = open_to_read(earlier.path_of(name))
    assert again.missing == 0
    assert said(again.state)[-3:] == ["one file more", "I write.", "Written."]


async def test_a_change_of_then_can_be_undone(earlier: Earlier, tmp_path: Path) -> None:
    """What the file held before lies in the folder that all sessions shared then."""
    shop = earlier.workspace / "shop.py"
    assert "round" in shop.read_text()
    async with session(tmp_path, script(), resume=earlier.id_of("edits")) as s:
        await s.engine.undo()
        assert s.notices()[-1] == "operations.undo.done"
    assert shop.read_text() == "def total(prices):\n    return sum(prices)\n"


async def test_a_way_back_of_then_can_be_undone(earlier: Earlier, tmp_path: Path) -> None:
    async with session(tmp_path, script(), resume=earlier.id_of("rewound")) as s:
        assert said(s.state) == ["first words", "Hello."]
        assert await s.engine.rewind.undo() == ""
        texts = said(s.state)
        assert texts[-1] == "Y is written."
        assert len(texts) == 8


async def test_a_gate_in_a_step_of_a_plan_opens_again(earlier: Earlier, tmp_path: Path) -> None:
    replies = script(done("All done."))
    looked = decision("Second is done.", action("file_ops.list_dir", path="."), next_step="done")
    more = {"task": (done("First is done."), looked)}
    replies = replies.model_copy(update={"replies": {**replies.replies, **more}})
    async with session(tmp_path, replies, resume=earlier.id_of("plan_cut")) as s:
        gate = await s.gate()
        assert gate.args["path"] == "d.txt"
        resumed(s, earlier, "plan_cut")
        assert statuses(s.state) == [WorkStatus.IN_PROGRESS, WorkStatus.PENDING]
        await s.answer(GateChoice.ONCE)
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [WorkStatus.COMPLETED] * 2
    assert (earlier.workspace / "d.txt").read_text() == "d\n"


async def test_a_consultation_asks_again(earlier: Earlier, tmp_path: Path) -> None:
    ends = script(done("There it is."))
    async with session(tmp_path, ends, resume=earlier.id_of("consultation")) as s:
        shown = await card(s)
        resumed(s, earlier, "consultation")
        assert shown.kind is CardKind.CONSULTATION
        before = earlier.state_of("consultation")["cards"][0]
        own = {"$", "card_id", "subject", "opened_at"}
        was = {key: value for key, value in before.items() if key not in own}
        assert list(differences(was, shown.model_dump(mode="json"), "card")) == []
        await answer(s, "keep_going")
        assert (await s.ended()).reply == "There it is."


async def test_a_queue_waits_until_the_user_goes_on(earlier: Earlier, tmp_path: Path) -> None:
    replies = script(done("I looked."), done("And later."), done("At the end."))
    async with session(tmp_path, replies, resume=earlier.id_of("queue")) as s:
        await s.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        resumed(s, earlier, "queue")
        assert [q.text for q in s.state.queue] == ["and later this", "and this at the end"]
        assert s.state.draft == "half a word"
        assert s.server.requests == []
        s.engine.resume()
        await s.ended(3)
        assert said(s.state)[-1] == "At the end."


async def test_a_killed_turn_goes_on_at_its_gate(earlier: Earlier, tmp_path: Path) -> None:
    async with session(tmp_path, script(done("Both.")), resume=earlier.id_of("killed")) as s:
        gate = await s.gate()
        assert gate.args["path"] == "k9.txt"
        resumed(s, earlier, "killed")
        [event] = s.events(SessionResumed) or [
            record.event for record in s.engine.begun if isinstance(record.event, SessionResumed)
        ]
        assert not event.ends_turn
        await s.answer(GateChoice.ONCE)
        end = await s.ended()
        assert (end.outcome, end.reply) == ("done", "Both.")
        assert end.files_changed == ("k8.txt", "k9.txt")
    assert (earlier.workspace / "k9.txt").read_text() == "9\n"


def test_bytes_that_all_sessions_shared_go_when_no_session_names_them(earlier: Earlier) -> None:
    shared = earlier.state_dir / "blobs"
    nobodys = shared / "00" / ("00" * 32)
    nobodys.parent.mkdir()
    nobodys.write_text("of a session that is gone")
    before = {path.name for path in shared.glob("*/*")}
    catalog = Catalog(earlier.state_dir)
    try:
        found = {facts.session_id: facts for facts in catalog.list(earlier.workspace)}
        catalog.prune(catalog.delete(found[earlier.id_of("plan")]))
        assert {path.name for path in shared.glob("*/*")} == before - {nobodys.name}
        deleted = catalog.delete(found[earlier.id_of("edits")])
        catalog.prune()
        assert {path.name for path in shared.glob("*/*")} == before - {nobodys.name}
        catalog.prune(deleted)
    finally:
        catalog.close()
    assert not shared.exists()
