"""Pipes, devices, links and figures out of all measure where the program has files of its own."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.gates import gate
from support.journal_disks import content, drive, put, read
from support.journal_events import said, started
from support.session_shelf import NOW, asked, called, paid, record, replied, whole

from duckflow_tui.choice import Unusable
from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.export import export_lines, json_lines, read_export
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import session_path
from duckflow_tui.session.records import encode
from duckflow_tui.session.replay import load_tape
from duckflow_tui.session.resume import open_to_read, resume_journal
from duckflow_tui.sessions_cli import find_session_id, has_several
from duckflow_tui.state.base import MOST_COUNTED, SystemClock
from duckflow_tui.state.gates import GateOpened
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import TurnFinished
from duckflow_tui.state.usage import LlmCallFinished
from duckflow_tui.words.catalogue import Catalogue

HUGE = int("9" * 400)

#: What may lie in the place of a file, made at a path that is free.
STRANGE: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_the_newest_session_is_found_past_a_journal_that_is_no_file(
    tmp_path: Path, kind: str
) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    record(tmp_path, "session_00000001", [asked("hello", NOW)], workspace=str(workspace))
    strange = session_path(tmp_path, workspace, "session_00000002")
    strange.mkdir()
    STRANGE[kind](strange / "journal-1.d1")
    say = Catalogue("en")
    assert find_session_id("", workspace, tmp_path, say) == "session_00000001"
    assert not has_several(workspace, tmp_path)


@pytest.mark.parametrize("kind", STRANGE)
def test_a_record_in_a_blob_that_is_no_file_is_counted_and_the_rest_is_read(
    tmp_path: Path, kind: str
) -> None:
    path = record(tmp_path, "session_00000001", whole("x" * 90_000, "fine", NOW))
    (blob,) = (entry for entry in (path / "blobs").rglob("*") if entry.is_file())
    blob.unlink()
    STRANGE[kind](blob)
    found = open_to_read(path)
    assert [unread.reason for unread in found.read.unread] == ["blob_unreadable"]
    assert found.missing_count == 1


def test_a_session_with_counts_out_of_all_measure_opens_and_adds_up(tmp_path: Path) -> None:
    """What an endpoint once reported stays in the journal; it must not end every later start."""
    call = paid(None).call.model_copy(update={"tokens_in": HUGE, "tokens_out": HUGE})
    end = TurnFinished(turn_id="turn_1", outcome="done", llm_calls=1)
    events = [
        *whole("hello", "fine", NOW)[:-1],
        LlmCallFinished(call=call),
        end.model_copy(update={"tokens": 2 * HUGE}),
    ]
    path = record(tmp_path, "session_00000001", events)
    assert str(HUGE).encode() in content(path / "journal-1.d1")
    found = open_to_read(path)
    assert found.missing_count == 0
    assert found.state.usage.tokens_in == MOST_COUNTED + 9000
    assert found.state.last_turn is not None
    assert found.state.last_turn.tokens == MOST_COUNTED


@pytest.mark.parametrize("at", [1e300, -1e300])
def test_times_out_of_all_measure_in_one_session_hide_no_other(tmp_path: Path, at: float) -> None:
    record(tmp_path, "session_00000001", [asked("fine", NOW), replied("yes", NOW)])
    strange = record(tmp_path, "session_00000002", [asked("strange", at), replied("yes", at)])
    say = Catalogue("en")
    assert {facts.request for facts in Catalog(tmp_path).list_all()} == {"fine", "strange"}
    assert "strange" in "\n".join(export_lines(strange, "markdown", say, str))


@pytest.mark.parametrize("at", ["1e300", "NaN", "-Infinity", "1" + "0" * 400])
def test_a_record_without_a_time_of_this_world_is_counted(tmp_path: Path, at: str) -> None:
    driven = drive(tmp_path / "sessions" / "w" / "s")
    driven.store.dispatch(started())
    driven.journal.close_now()
    journal = driven.path / "journal-1.d1"
    body = b'{"at":%s,"event":{"kind":"draft","text":"x"}}' % at.encode()
    put(journal, content(journal) + encode(2, body))
    found = read(driven.path)
    assert (len(found.read.entries), found.missing_count) == (1, 1)


# --- recordings from elsewhere -------------------------------------------------------------------


def exported(tmp_path: Path, *, figure: Any, where: str) -> tuple[Path, int]:
    """An export in which this figure stands wherever the original has one of that kind."""
    call = called("call_1", "a.py", "x = 1", NOW + 1)
    events = [*whole("hello", "fine", NOW)[:3], *call, GateOpened(gate=gate())]
    path = record(tmp_path, "session_00000001", events)
    value = json.loads("\n".join(json_lines(path, str)))
    kind = {"time": (), "count": int, "duration": float, "sign": str}[where]
    names = {"duration": ("duration_s",), "sign": ("mark",)}.get(where, ())

    def spoiled(inner: Any, name: str = "") -> Any:
        if isinstance(inner, dict):
            return {key: spoiled(v, key) for key, v in inner.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # JSON
        if isinstance(inner, list):
            return [spoiled(v, name) for v in inner]  # pyright: ignore[reportUnknownVariableType]  # JSON
        named = not names or name in names
        return figure if named and kind and type(inner) is kind else inner

    for entry in value["records"]:
        entry["event"] = spoiled(entry["event"])
        if where == "time":
            entry["at"] = figure
    target = tmp_path / "hostile.json"
    target.write_text(json.dumps(value))
    return target, len(value["records"])


@pytest.mark.parametrize(
    ("where", "figure"),
    [
        ("count", HUGE),
        ("count", 10**30),
        ("duration", float("nan")),
        ("duration", float("inf")),
        ("sign", "?"),
        ("sign", ""),
    ],
)
def test_of_a_hostile_export_only_what_can_be_shown_is_let_in(
    tmp_path: Path, where: str, figure: Any
) -> None:
    """What is on the tape can be divided, rounded and drawn."""
    target, records = exported(tmp_path, figure=figure, where=where)
    tape = load_tape(target)
    assert 0 < tape.lost < records
    assert len(tape) + tape.lost == records
    state = tape.state_at(len(tape))
    assert state.usage.tokens_in / 2 < float("inf")
    assert not any(message.at != message.at for message in state.messages)
    assert all(
        line.mark in (" ", "+", "-")
        for opened in state.gates
        for preview in opened.previews
        for hunk in preview.hunks
        for line in hunk.lines
    )


@pytest.mark.parametrize("figure", [HUGE, 1e300, float("nan"), float("-inf"), "soon", None, []])
def test_a_recording_without_times_is_none(tmp_path: Path, figure: Any) -> None:
    target, records = exported(tmp_path, figure=figure, where="time")
    assert len(read_export(target).unread) == records
    with pytest.raises(SessionFault, match=r": foreign$"):
        load_tape(target)


# --- numbers at the end of what a name or a line can hold ----------------------------------------


async def acknowledged(path: Path) -> bool:
    """Take the session up, add a message, and say whether it is there again."""
    resumed = resume_journal(path, NOW)
    state, last = resumed.restored.state, resumed.restored.last_seq
    store = Store(state, SystemClock(), resumed.journal, last_seq=last)
    await store.commit(said(99))
    health = await resumed.journal.close()
    assert health.durable == last + 1
    return open_to_read(path).state.messages == state.messages


async def test_what_is_written_behind_any_segment_is_read_again(tmp_path: Path) -> None:
    path = record(tmp_path, "session_00000001", [asked("hello", NOW)])
    (path / "journal-999999.d1").mkdir()
    assert await acknowledged(path)
    assert (path / "journal-1000000.d1").is_file()


@pytest.mark.parametrize("seq", [10**15 - 1, 10**12 + 1, 10**12])
async def test_what_is_written_behind_any_number_is_read_again(tmp_path: Path, seq: int) -> None:
    path = record(tmp_path, "session_00000001", [asked("hello", NOW)])
    journal = path / "journal-1.d1"
    put(journal, content(journal) + encode(seq, b'{"at":1.0,"event":{"kind":"draft"}}'))
    assert await acknowledged(path)


def test_a_session_whose_folder_went_says_how_it_can_still_be_seen(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    record(tmp_path, "session_00000001", [asked("hello", NOW)], workspace=str(old))
    shutil.move(old, new)
    with pytest.raises(Unusable, match="replay session_00000001"):
        find_session_id("session_00000001", new, tmp_path, Catalogue("en"))
