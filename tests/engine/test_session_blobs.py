"""What files held before a change, and long outputs: kept with the session, and gone with it."""

from __future__ import annotations

from pathlib import Path

from support.session import action, decision, done, script, session

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.folders import list_places
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.gates import GateChoice

OLD, NEW = "the price was 4711\n", "the price is 815\n"


def holding(folder: Path, text: str) -> list[str]:
    """The files under the folder that hold this text as it is."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.read_bytes() == text.encode()
    ]


def edited(tmp_path: Path) -> Path:
    """A workspace with a file, and nothing of it under the home yet."""
    price = tmp_path / "work" / "price.txt"
    price.parent.mkdir()
    price.write_text(OLD)
    return price


EDIT = decision("I write.", action("file_ops.write_file", path="price.txt", content=NEW))


def prune_all(state_dir: Path) -> None:
    catalog = Catalog(state_dir)
    catalog.prune(*[catalog.delete(facts) for facts in catalog.list_all()])


async def test_a_pruned_session_leaves_nothing_of_the_files_it_changed(tmp_path: Path) -> None:
    price = edited(tmp_path)
    async with session(tmp_path, script(EDIT, done())) as s:
        await s.engine.send("another price")
        await s.answer(GateChoice.ONCE)
        await s.ended()
        folder = s.ending.folder
    assert folder is not None
    state_dir = tmp_path / "home" / "state"
    found = holding(state_dir, OLD)
    assert found
    assert holding(folder, OLD) == [str((state_dir / name).relative_to(folder)) for name in found]
    async with session(tmp_path, script(), resume=s.session_id) as s:
        await s.engine.undo()
    assert price.read_text() == OLD
    prune_all(state_dir)
    assert holding(state_dir, OLD) == holding(state_dir, NEW) == []


async def test_what_nobody_wanted_kept_is_in_no_file(tmp_path: Path) -> None:
    price = edited(tmp_path)
    async with session(tmp_path, script(EDIT, done()), mode="trusted", no_session=True) as s:
        await s.turn("another price")
        assert price.read_text() == NEW
        assert holding(tmp_path / "home", OLD) == []
        await s.engine.undo()
    assert price.read_text() == OLD
    assert holding(tmp_path / "home", OLD) == holding(tmp_path / "home", NEW) == []


async def test_a_fork_keeps_what_it_can_undo_when_its_origin_is_pruned(tmp_path: Path) -> None:
    price = edited(tmp_path)
    replies = script(EDIT, done(), done("Later."))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("another price")
        await s.turn("and later")
        asked = [m for m in s.state.messages if isinstance(m, UserMessage)]
        forked = await s.engine.rewind.fork(asked[-1].message_id)
        assert forked.problem == ""
    state_dir = tmp_path / "home" / "state"
    catalog = Catalog(state_dir)
    [origin] = [facts for facts in catalog.list_all() if facts.session_id == s.session_id]
    catalog.prune(catalog.delete(origin))
    assert [place.session_id for place in list_places(state_dir)] == [forked.session_id]
    async with session(tmp_path, script(), resume=forked.session_id) as s:
        await s.engine.undo()
    assert price.read_text() == OLD
