"""What the screen shows and what the model is sent come from the events that are on disk."""

from __future__ import annotations

from pathlib import Path

from support.journal_disks import drive, read
from support.session import action, decision, done, script, session

from duckflow_tui.session.resume import apply_all
from duckflow_tui.session.snapshots import capture_image, iter_pieces
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.store import Record


async def test_after_every_event_the_journal_tells_the_state_that_the_engine_has(
    tmp_path: Path,
) -> None:
    """Row 29 of the complaints: one list of events is both, at any moment of two turns."""
    driven = drive(tmp_path / "kept" / "w" / "s")
    images: list[list[dict[str, object]]] = []
    replies = script(
        decision("I look.", action("file_ops.list_dir", path=".")),
        decision("I write.", action("file_ops.write_file", path="a.txt", content="one\n")),
        done("Written."),
        decision("Once more.", action("file_ops.write_file", path="b.txt", content="two\n")),
        done("Not written."),
    )
    async with session(tmp_path, replies) as made:

        def keep(state: AgentState, record: Record) -> None:
            if record.seq is not None:
                driven.journal.append(record)
                images.append(list(iter_pieces(capture_image(state))))

        for record in made.engine.begun:
            driven.journal.append(record)
        before = len(made.engine.begun)
        made.store.subscribe(keep)
        await made.engine.send("make a file")
        await made.answer(GateChoice.ONCE)
        await made.ended(1)
        await made.engine.send("and another")
        await made.answer(GateChoice.REJECT)
        await made.ended(2)
    await driven.journal.close()
    found = read(driven.path)
    entries = found.read.entries
    assert found.missing_count == 0
    assert len(images) > 30
    state = AgentState()
    apply_all(state, entries[:before])
    for entry, image in zip(entries[before:], images, strict=True):
        assert apply_all(state, [entry]) == 0
        assert list(iter_pieces(capture_image(state))) == image, entry.fields["kind"]
