"""The list of all sessions: what it says, what it finds, and what is done to sessions from it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from pathlib import Path
from typing import Final

import pytest
from support.journal_disks import FaultyDisk
from support.journal_events import said, turn
from support.pinned import ManualClock
from support.session_shelf import HOUR, NOW, WORKSPACE, asked, record, replied, shelf, whole

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.facts import SessionFacts
from duckflow_tui.session.faults import SessionFault, SessionInUse
from duckflow_tui.session.folders import INDEX_NAME, find_places, is_written
from duckflow_tui.session.resume import open_to_read, resume_journal
from duckflow_tui.state.base import Event
from duckflow_tui.state.session import MAX_NAME

HOSTILE: Final = "do\x1b]52;c;aGk=\x07 this \u202e now"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    shelf(tmp_path)
    return Catalog(tmp_path, clock=ManualClock(NOW + HOUR))


def by_id(found: list[SessionFacts]) -> dict[str, SessionFacts]:
    return {facts.session_id.removeprefix("session_0000000"): facts for facts in found}


# --- what it says ------------------------------------------------------------------------------


def test_a_session_has_its_facts(catalog: Catalog) -> None:
    found = by_id(catalog.list_all())
    gate, plan = found["1"], found["2"]
    assert gate.title == "The total is wrong when two discounts apply. Find out why."
    assert (gate.state, gate.met, gate.requirements, gate.branch) == ("gate", 1, 4, "main")
    assert (gate.calls, gate.cost, gate.tokens) == (1, 0.034, 9310)
    assert gate.last.startswith("Discounts are added")
    assert gate.size > 1000
    assert (plan.state, plan.plan, plan.plan_steps > 1) == ("card", "discounts", True)
    assert found["3"].state == "interrupted"
    assert (found["4"].title, found["4"].pinned, found["4"].state) == ("Release 2.0", True, "done")
    assert found["6"].title == "what does round_half_even do here"  # only a draft
    assert found["7"].cost is None


def test_pinned_ones_come_first_and_then_the_newest(catalog: Catalog) -> None:
    here = [facts.session_id[-1] for facts in catalog.list_all(WORKSPACE) if not facts.problem]
    assert here == ["4", "1", "2", "6", "3"]


def test_one_in_which_nothing_was_said_is_left_out(catalog: Catalog) -> None:
    assert "5" not in by_id(catalog.list_all())
    assert len(find_places(catalog.state_dir, "session_00000005")) == 1  # and stays on the disk


def test_other_workspaces_are_shown_only_when_asked_for(catalog: Catalog) -> None:
    assert "7" not in by_id(catalog.list_all(WORKSPACE))
    assert by_id(catalog.list_all())["7"].workspace == "/work/till"


def test_what_cannot_be_opened_is_listed_with_the_reason_and_left_alone(catalog: Catalog) -> None:
    before = {path: path.read_bytes() for path in catalog.state_dir.rglob("journal-*")}
    found = by_id(catalog.list_all(WORKSPACE))
    assert (found["8"].problem, found["9"].problem) == ("newer", "foreign")
    assert found["8"].state == "unreadable"
    assert {path: path.read_bytes() for path in catalog.state_dir.rglob("journal-*")} == before


def test_a_damaged_session_says_how_much_is_missing(tmp_path: Path) -> None:
    path = record(tmp_path, "session_00000001", [*turn(1), *turn(2)])
    journal = path / "journal-1.d1"
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 0xFF
    journal.write_bytes(data)
    (facts,) = Catalog(tmp_path).list_all()
    assert facts.missing >= 1
    assert not facts.problem


def test_text_of_a_journal_is_safe_to_show(tmp_path: Path) -> None:
    record(tmp_path, "session_00000001", [asked(HOSTILE, NOW), replied(HOSTILE, NOW)])
    catalog = Catalog(tmp_path)
    (facts,) = catalog.list_all()
    shown = [facts.title, facts.last, *(piece.text for piece in catalog.list_pieces(facts, 9))]
    assert shown == ["do␛]52;c;aGk=␇ this ⟨U+202E⟩ now"] * 4


# --- the index ---------------------------------------------------------------------------------


def test_only_what_changed_is_read_again(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    found = by_id(catalog.list_all())
    read: list[str] = []

    def watched(path: Path) -> object:
        read.append(path.name[-1])
        return open_to_read(path)

    monkeypatch.setattr("duckflow_tui.session.catalog.open_to_read", watched)
    again = Catalog(catalog.state_dir)
    again.list_all()
    assert sorted(read) == ["8", "9"]  # only what cannot be read is tried once more
    read.clear()
    gone = again.delete(found["1"])
    assert by_id(again.list_all(trashed=True))["1"].key == gone.key
    again.restore(gone)
    assert by_id(again.list_all())["1"] == found["1"]
    assert read == []
    again.rename(found["2"], "named")
    record(catalog.state_dir, "session_0000000a", [asked("new", NOW)])
    listed = by_id(again.list_all())
    assert (listed["2"].name, listed["a"].request) == ("named", "new")
    assert read == ["2", "a"]


def test_what_was_mended_or_damaged_is_shown_as_it_is_now(catalog: Catalog) -> None:
    found = by_id(catalog.list_all())
    whole, foreign = (catalog.path_of(found[number]) / "journal-1.d1" for number in ("1", "9"))
    foreign.write_bytes(whole.read_bytes())
    whole.write_bytes(b"no journal\n")
    for shown in (catalog, Catalog(catalog.state_dir)):
        again = by_id(shown.list_all())
        assert (again["9"].problem, again["9"].met) == ("", found["1"].met)
        assert again["1"].problem == "foreign"
        assert shown.list_pieces(again["1"], 9) == []


@pytest.mark.parametrize("wrong", ["gone", "garbage", "cut", "older", "link", "pipe", "folder"])
def test_the_index_can_be_lost_at_any_time(catalog: Catalog, wrong: str) -> None:
    """Where something else lies in its place, it stays and the journal is read."""
    before = catalog.list_all()
    path = catalog.path_of(by_id(before)["1"]) / INDEX_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    data = path.read_bytes()
    path.unlink()
    if wrong == "link":
        path.symlink_to(catalog.state_dir / "elsewhere")
    elif wrong == "pipe":
        os.mkfifo(path)
    elif wrong == "folder":
        path.mkdir()
    elif wrong != "gone":
        older = data.replace(b'"made_by": "', b'"made_by": "0', 1).replace(b"multiplied", b"x")
        path.write_bytes({"garbage": os.urandom(900), "cut": data[:-9], "older": older}[wrong])
    again = Catalog(catalog.state_dir)
    assert again.list_all() == before
    assert len(again.search("multiplied")) == 1
    assert not (catalog.state_dir / "elsewhere").exists()
    assert Catalog(catalog.state_dir).list_all() == before


def test_reading_stops_in_time_and_goes_on_with_the_rest(catalog: Catalog) -> None:
    steps = 0
    while catalog.refresh(0.0):
        steps += 1
        assert steps < 20
    assert steps > 2
    assert catalog.list_read() == catalog.list_all()


# --- the search --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The shelf, read."""
    shelf(folder := tmp_path_factory.mktemp("shelf"))
    catalog = Catalog(folder)
    catalog.refresh()
    return catalog


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("multiplied", ["1"]),
        ("MULTIPLIED discounts", ["1"]),
        ("multiplied neighbour", []),
        ("sum(discounts)", ["1"]),  # of a result
        ("pricing.py", ["1", "4", "7"]),  # of a call
        ("Release 2.0", ["4"]),  # a name
        ("covers stacked", ["1"]),  # a requirement
        ("19", ["1"]),
        ("1.9 no", ["4"]),
        ("100%", []),
        ("half_even", ["6", "7"]),
        ('"', []),
    ],
)
def test_the_search_finds_what_was_said(searched: Catalog, query: str, found: list[str]) -> None:
    assert sorted(f.facts.session_id[-1] for f in searched.search(query)) == found


@pytest.mark.parametrize("query", ["掛ける必要", "割引", "税", "合計が 19"])
def test_japanese_is_found_also_in_one_or_two_characters(tmp_path: Path, query: str) -> None:
    shelf(tmp_path, "ja")
    catalog = Catalog(tmp_path)
    catalog.refresh()
    assert catalog.search(query)


def test_a_find_leads_to_the_newest_place_that_holds_all_the_words(tmp_path: Path) -> None:
    def texts(*said: str) -> list[Event]:
        return [asked(text, NOW + n) for n, text in enumerate(said)]

    around = [*(f"before {n}" for n in range(9)), "The Ära", *(f"behind {n}" for n in range(9))]
    record(tmp_path, "session_0000000a", texts("alpha", "beta", "alpha beta", "alpha beta", "end"))
    record(tmp_path, "session_0000000b", texts("beta", "alpha", "gamma"))
    record(tmp_path, "session_0000000c", texts(*around))
    catalog = Catalog(tmp_path)
    catalog.refresh()

    def search(query: str) -> dict[str, tuple[int, list[str]]]:
        return {
            one.facts.session_id[-1]: (
                one.hits,
                [piece.text for piece in catalog.list_pieces(one.facts, 6, one.at)],
            )
            for one in catalog.search(query)
        }

    assert search("Alpha BETA") == {
        "a": (2, ["alpha", "beta", "alpha beta", "alpha beta", "end"]),
        "b": (2, ["beta", "alpha", "gamma"]),  # none holds both: the newest that holds one
    }
    assert search("the ärA") == {"c": (1, around[4:13])}  # six that end with it, three behind it
    assert search(" ") == search("\0") == search("\ud800") == {}
    (facts,) = [one for one in catalog.list_all() if one.session_id.endswith("c")]
    assert [piece.text for piece in catalog.list_pieces(facts, 3)] == around[-3:]


# --- what is done to them ----------------------------------------------------------------------


def test_a_name_and_a_pin_stand_in_the_journal(catalog: Catalog) -> None:
    facts = by_id(catalog.list_all())["3"]
    catalog.rename(facts, "  Tax \n on receipts ")
    catalog.pin(facts, True)
    again = by_id(Catalog(catalog.state_dir).list_all())["3"]
    assert (again.title, again.pinned) == ("Tax on receipts", True)
    assert again.state == "interrupted"  # and nothing else changed
    state = open_to_read(catalog.path_of(facts)).state
    assert (state.session.name, state.session.pinned) == ("Tax on receipts", True)
    catalog.rename(facts, "")
    catalog.pin(facts, False)
    again = by_id(catalog.list_all())["3"]
    assert (again.title[:5], again.pinned) == ("Print", False)


def test_a_name_and_a_pin_that_the_disk_did_not_take_are_said_to_be_lost(
    catalog: Catalog,
) -> None:
    facts = by_id(catalog.list_all())["3"]
    full = Catalog(catalog.state_dir, disk=FaultyDisk(1, errno.ENOSPC, lasting=True))
    for act in (lambda: full.rename(facts, "Tax"), lambda: full.pin(facts, True)):
        with pytest.raises(SessionFault, match=r": io_error$"):
            act()
    again = by_id(Catalog(catalog.state_dir).list_all())["3"]
    assert (again.title, again.pinned) == (facts.title, False)


def test_a_long_name_is_cut(catalog: Catalog) -> None:
    facts = by_id(catalog.list_all())["3"]
    catalog.rename(facts, "x" * 999)
    assert len(by_id(catalog.list_all())["3"].title) == MAX_NAME


def test_a_session_that_is_open_elsewhere_is_said_to_be_and_not_touched(catalog: Catalog) -> None:
    facts = by_id(catalog.list_all())["3"]
    path = catalog.path_of(facts)
    assert not is_written(path)
    resumed = resume_journal(path, NOW)
    try:
        assert by_id(catalog.list_all())["3"].in_use
        for act in (
            lambda: catalog.rename(facts, "x"),
            lambda: catalog.pin(facts, True),
            lambda: catalog.delete(facts),
        ):
            with pytest.raises(SessionInUse):
                act()
    finally:
        resumed.journal.close_now()
    assert not by_id(catalog.list_all())["3"].in_use
    assert path.is_dir()


def test_asking_who_writes_a_session_stands_in_nobodys_way(tmp_path: Path) -> None:
    path = record(tmp_path, "session_00000001", [said(1)])
    for _ in range(3):
        assert not is_written(path)
        resume_journal(path, NOW).journal.close_now()


def test_deleting_moves_to_the_trash_and_back(catalog: Catalog) -> None:
    facts = by_id(catalog.list_all())["1"]
    old = catalog.path_of(facts)
    bytes_before = (old / "journal-1.d1").read_bytes()
    gone = catalog.delete(facts)
    assert not old.exists()
    assert "1" not in by_id(catalog.list_all())
    (there,) = catalog.list_all(trashed=True)
    assert (there.session_id, there.state) == (facts.session_id, "gate")
    assert stat.S_IMODE((catalog.state_dir / "trash").stat().st_mode) == 0o700
    assert len(catalog.search("multiplied", trashed=True)) == 1
    assert catalog.search("multiplied") == []
    catalog.restore(gone)
    assert by_id(catalog.list_all())["1"].title == facts.title
    assert (old / "journal-1.d1").read_bytes() == bytes_before


def test_what_is_gone_cannot_be_moved_and_leaves_nothing_in_the_trash(catalog: Catalog) -> None:
    facts = by_id(catalog.list_all())["1"]
    shutil.rmtree(catalog.path_of(facts))
    with pytest.raises(SessionFault) as refused:
        catalog.delete(facts)
    assert refused.value.code == "missing"
    assert not (catalog.state_dir / "trash").exists()


def test_the_trash_is_shut_for_others_again(catalog: Catalog) -> None:
    """Whatever somebody has let others do with it."""
    trash = catalog.state_dir / "trash"
    trash.mkdir(mode=0o755)
    gone = catalog.delete(by_id(catalog.list_all())["1"])
    for folder in (trash, catalog.path_of(gone).parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_cannot_be_read_can_be_moved_too(catalog: Catalog) -> None:
    for number in ("8", "9"):
        facts = by_id(catalog.list_all())[number]
        catalog.restore(catalog.delete(facts))
        assert by_id(catalog.list_all())[number].problem == facts.problem


def test_what_is_no_folder_can_be_moved_too(catalog: Catalog, tmp_path: Path) -> None:
    facts = by_id(catalog.list_all())["1"]
    path = catalog.path_of(facts)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    gone = catalog.delete(facts)
    assert catalog.path_of(gone).is_symlink()
    assert not path.is_symlink()
    assert any((tmp_path / "elsewhere").iterdir())


def test_an_empty_folder_is_moved_as_it_is(catalog: Catalog) -> None:
    """Where nothing was ever recorded there is nobody to keep out, and no file to make for it."""
    facts = by_id(catalog.list_all())["1"]
    path = catalog.path_of(facts)
    shutil.rmtree(path)
    path.mkdir()
    gone = catalog.delete(facts)
    assert list(catalog.path_of(gone).iterdir()) == []


def test_fetching_back_overwrites_nothing(catalog: Catalog) -> None:
    facts = by_id(catalog.list_all())["4"]
    gone = catalog.delete(facts)
    record(catalog.state_dir, facts.session_id, [asked("another", NOW)])
    with pytest.raises(SessionFault, match=r": io_error$"):
        catalog.restore(gone)
    assert by_id(catalog.list_all())["4"].title == "another"
    assert catalog.path_of(gone).is_dir()
    other = by_id(catalog.list_all())["1"]
    gone = catalog.delete(other)
    catalog.path_of(other).mkdir(parents=True)  # empty, and yet somebody's
    with pytest.raises(SessionFault, match=r": io_error$"):
        catalog.restore(gone)


def test_what_is_no_folder_is_removed_from_the_trash_and_nothing_behind_it(
    catalog: Catalog, tmp_path: Path
) -> None:
    gone = catalog.delete(by_id(catalog.list_all())["1"])
    path = catalog.path_of(gone)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    catalog.prune(gone)
    assert not path.is_symlink()
    assert any((tmp_path / "elsewhere").iterdir())


def test_only_what_is_in_the_trash_is_removed_for_good(catalog: Catalog) -> None:
    facts = by_id(catalog.list_all())["1"]
    with pytest.raises(ValueError, match="not in the trash"):
        catalog.prune(facts)
    os.utime(catalog.path_of(facts), (1.0, 1.0))  # written long ago
    gone = catalog.delete(facts)
    (there,) = catalog.list_all(trashed=True)
    assert there.trashed_at is not None
    assert abs(there.trashed_at - time.time()) < 60
    catalog.prune(gone)
    assert not catalog.path_of(gone).exists()
    with pytest.raises(SessionFault, match=r": missing$"):
        catalog.prune(gone)
    assert "1" not in by_id(catalog.list_all(trashed=True))


def test_the_folder_of_a_workspace_goes_with_its_last_session(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    paths = [record(tmp_path, f"session_0000000{n}", [asked("hello", NOW)]) for n in (1, 2)]
    first, last = catalog.list_all()
    gone = [catalog.delete(first)]
    assert paths[0].parent.is_dir()
    gone.append(catalog.delete(last))
    assert not paths[0].parent.exists()
    trash = catalog.path_of(gone[0]).parent
    catalog.prune(gone[0])
    assert trash.is_dir()
    catalog.prune(gone[1])
    assert not trash.exists()


def test_a_session_in_the_trash_is_not_renamed(catalog: Catalog) -> None:
    catalog.delete(by_id(catalog.list_all())["1"])
    (there,) = catalog.list_all(trashed=True)
    with pytest.raises(SessionFault, match=r": missing$"):
        catalog.rename(there, "x")


def test_a_session_that_is_moved_while_it_is_renamed_is_said_to_be_missing(
    catalog: Catalog, tmp_path: Path
) -> None:
    facts = by_id(catalog.list_all())["3"]
    path = catalog.path_of(facts)

    def move(text: str) -> str:
        if path.exists():
            path.rename(tmp_path / "elsewhere")
        return text

    moved = Catalog(catalog.state_dir, redact=move)
    with pytest.raises(SessionFault, match=r": missing$"):
        moved.rename(facts, "x")


def test_an_id_is_found_by_its_beginning(catalog: Catalog) -> None:
    state = catalog.state_dir
    record(state, "session_0000abcd", [said(1)])
    assert [p.session_id for p in catalog.find("0000a")] == ["session_0000abcd"]
    assert len(catalog.find("session_0000000")) == 9
    assert [p.session_id for p in catalog.find("session_00000001", "/work/other")] == [
        "session_00000001"
    ]
    assert len(catalog.find("session_0000000", WORKSPACE)) == 8
    assert catalog.find("session_1") == []


def test_a_whole_turn_is_done(tmp_path: Path) -> None:
    record(tmp_path, "session_00000001", whole("a", "b", NOW))
    (facts,) = Catalog(tmp_path).list_all()
    assert (facts.state, facts.last, facts.messages) == ("done", "b", 2)
