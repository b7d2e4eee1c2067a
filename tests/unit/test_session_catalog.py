"""The list of all sessions: what it says, what it finds, and what is done to sessions from it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import stat
import threading
import time
from pathlib import Path
from typing import Final

import pytest
from support.journal_disks import FaultyDisk
from support.journal_events import said, turn
from support.pinned import ManualClock
from support.session_shelf import HOUR, NOW, WORKSPACE, asked, record, replied, shelf, whole

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.facts import Piece, SessionFacts
from duckflow_tui.session.faults import NotASession, SessionInUse, SessionUnreadable
from duckflow_tui.session.folders import find_places, is_written, list_places
from duckflow_tui.session.index import FILE_NAME, Match, SessionIndex
from duckflow_tui.session.resume import open_to_read, resume_journal
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


def test_the_end_of_a_conversation_comes_in_its_order(tmp_path: Path) -> None:
    events = [asked(f"{n} asked", NOW + n) for n in range(9)]
    record(tmp_path, "session_00000001", events)
    catalog = Catalog(tmp_path)
    (facts,) = catalog.list_all()
    assert [p.text for p in catalog.list_pieces(facts, 3)] == ["6 asked", "7 asked", "8 asked"]


# --- the index ---------------------------------------------------------------------------------


def test_only_what_changed_is_read_again(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.list_all()
    read: list[str] = []

    def watched(path: Path) -> object:
        read.append(path.name)
        return open_to_read(path)

    monkeypatch.setattr("duckflow_tui.session.catalog.open_to_read", watched)
    again = Catalog(catalog.state_dir)
    again.list_all()
    assert read == []
    record(catalog.state_dir, "session_0000000a", [asked("new", NOW)])
    assert "a" in by_id(again.list_all())
    assert read == ["session_0000000a"]


def test_reading_stops_in_time_and_goes_on_with_the_rest(catalog: Catalog) -> None:
    steps = 0
    while catalog.refresh(0.0):
        steps += 1
        assert steps < 20
    assert steps > 2
    assert catalog.list_read() == catalog.list_all()


def counting(catalog: Catalog) -> tuple[Catalog, SessionIndex, list[str]]:
    """The same sessions, their index, and the journals that were read, which grows."""
    read: list[str] = []

    def measure(path: Path) -> int:
        read.append(path.name[-1])
        return 1

    index = SessionIndex(catalog.state_dir / FILE_NAME)
    return Catalog(catalog.state_dir, measure=measure), index, read


def test_what_moves_or_is_named_is_read_no_second_time(catalog: Catalog) -> None:
    again, _, read = counting(catalog)
    found = by_id(again.list_all())
    assert sum(facts.size for facts in found.values()) == len(found)
    read.clear()
    for number in ("1", "8"):
        gone = again.delete(found[number])
        assert gone.key != found[number].key
        assert by_id(again.list_all(trash_too=True))[number].problem == found[number].problem
        again.restore(gone)
        assert by_id(again.list_all())[number].problem == found[number].problem
    assert read == []
    again.rename(found["2"], "named")
    assert by_id(again.list_read())["2"].name == "named"
    assert by_id(again.list_all())["2"].name == "named"
    assert read == ["2"]
    again.close()
    again.close()


def test_the_index_forgets_what_is_gone_and_the_words_of_what_cannot_be_read(
    catalog: Catalog,
) -> None:
    again, index, _ = counting(catalog)
    found = by_id(again.list_all())
    pruned, removed, damaged = (found[number] for number in ("1", "2", "4"))
    keys = {facts.key for facts in (pruned, removed, damaged)}
    assert keys <= index.read_stamps().keys()
    again.prune(again.delete(pruned))
    assert len(keys & index.read_stamps().keys()) == 2
    assert not [key for key in index.read_stamps() if key.startswith("trash")]
    shutil.rmtree(again.path_of(removed))
    (again.path_of(damaged) / "journal-1.d1").write_bytes(b"no journal\n")
    again.refresh()
    assert keys & index.read_stamps().keys() == {damaged.key}
    assert index.list_pieces(damaged.key, 9) == []
    assert index.read_all()[damaged.key].problem == "foreign"
    again.close()
    index.close()


def test_what_could_not_be_read_is_tried_again_when_asked_or_when_it_changed(
    catalog: Catalog,
) -> None:
    again, _, read = counting(catalog)
    found = by_id(again.list_all())
    read.clear()
    again.refresh()
    assert read == []
    again.refresh(again=True)
    assert sorted(read) == ["8", "9"]
    (place,) = again.find("session_00000009")
    assert again.facts_at(place) == found["9"]
    journal = again.path_of(found["9"]) / "journal-1.d1"
    journal.write_bytes((again.path_of(found["1"]) / "journal-1.d1").read_bytes())
    assert (again.facts_at(place).problem, again.facts_at(place).met) == ("", found["1"].met)
    assert by_id(again.list_read())["9"].problem == ""
    again.close()


@pytest.mark.parametrize("wrong", ["gone", "garbage", "cut", "alien", "older"])
def test_the_index_can_be_lost_at_any_time(catalog: Catalog, wrong: str) -> None:
    before = catalog.list_all()
    catalog.close()
    path = catalog.state_dir / FILE_NAME
    if wrong == "gone":
        path.unlink()
    elif wrong == "garbage":
        path.write_bytes(os.urandom(9000))
    elif wrong == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif wrong == "alien":
        path.unlink()
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE pieces (x)")
        other.close()
    else:
        with sqlite3.connect(path) as other:
            other.execute("UPDATE made SET program = '0.0 1 0'")
            other.execute("DELETE FROM pieces")  # as if that version had kept none of them
        other.close()
    again = Catalog(catalog.state_dir)
    assert again.list_all() == before
    assert len(again.search("multiplied")) == 1
    again.close()
    assert Catalog(catalog.state_dir).list_read() == before


def test_the_index_is_for_its_owner_only(catalog: Catalog) -> None:
    catalog.list_all()

    def modes() -> set[int]:
        files = catalog.state_dir.glob(f"{FILE_NAME}*")
        return {stat.S_IMODE(path.stat().st_mode) for path in files}

    assert modes() == {0o600}
    catalog.close()
    (catalog.state_dir / FILE_NAME).chmod(0o644)
    catalog.list_all()
    assert modes() == {0o600}


def test_an_index_that_breaks_while_it_is_open_begins_anew(catalog: Catalog) -> None:
    before = catalog.list_all()
    with sqlite3.connect(catalog.state_dir / FILE_NAME) as other:
        other.execute("DROP TABLE sessions")
    other.close()
    assert catalog.list_all() == before
    assert len(catalog.search("multiplied")) == 1


def test_where_nothing_can_be_written_the_index_lives_in_memory(tmp_path: Path) -> None:
    shelf(tmp_path)
    (tmp_path / FILE_NAME).mkdir()
    catalog = Catalog(tmp_path)
    assert len(catalog.list_all()) == 8
    assert len(catalog.search("neighbour")) == 1


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


@pytest.mark.parametrize("strange", ["\0", "\ud800", "\x1b", "\x7f\x9b"])
def test_what_no_text_can_hold_is_no_part_of_what_is_searched(tmp_path: Path, strange: str) -> None:
    record(tmp_path, "session_00000001", [asked("two discounts", NOW)])
    catalog = Catalog(tmp_path)
    catalog.refresh()
    made = (tmp_path / FILE_NAME).stat().st_ino
    for query in (f"{strange}discounts", f"disc{strange[:1]}ounts", f"discounts {strange}"):
        assert len(catalog.search(query)) == 1
    assert catalog.search("\0") == []
    assert (tmp_path / FILE_NAME).stat().st_ino == made  # and it was not begun anew


def test_a_find_leads_to_the_newest_place(tmp_path: Path) -> None:
    texts = ["the parser", "something else", "the parser again", "the end"]
    record(tmp_path, "session_00000001", [asked(t, NOW + n) for n, t in enumerate(texts)])
    catalog = Catalog(tmp_path)
    catalog.refresh()
    (found,) = catalog.search("parser")
    assert found.hits == 2
    assert [p.text for p in catalog.list_pieces(found.facts, 1, found.at)] == ["the parser again"]
    about = catalog.list_pieces(found.facts, 4, found.at)
    assert [p.text for p in about] == texts


def test_about_a_find_stands_more_of_what_led_there_than_of_what_followed(tmp_path: Path) -> None:
    texts = [*(f"before {n}" for n in range(9)), "the parser", *(f"behind {n}" for n in range(9))]
    record(tmp_path, "session_00000001", [asked(t, NOW + n) for n, t in enumerate(texts)])
    catalog = Catalog(tmp_path)
    catalog.refresh()
    (found,) = catalog.search("parser")
    about = catalog.list_pieces(found.facts, 6, found.at)
    assert [p.text for p in about] == texts[4:13]  # six that end with it, three behind it


def test_a_word_of_three_letters_is_found_whatever_its_case(tmp_path: Path) -> None:
    record(tmp_path, "session_00000001", [asked("eine große Ära", NOW)])
    catalog = Catalog(tmp_path)
    catalog.refresh()
    assert len(catalog.search("ärA")) == 1


def index_of(path: Path) -> SessionIndex:
    """With what another one has put there."""
    return SessionIndex(path / FILE_NAME)


def put(index: SessionIndex, key: str, *texts: str) -> None:
    index.put_session(
        key, "1", SessionFacts(session_id="s"), [Piece(who="ai", text=t) for t in texts]
    )


def test_what_is_put_or_moved_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    put(index, "a", "old words")
    put(index, "a", "new words")
    put(index, "b", "other words")
    index.change_key("b", "c")
    put(index, "b", "last words")
    index.change_key("b", "c")
    index.close()
    again = index_of(tmp_path)  # all of it stands in the file
    assert set(again.read_stamps()) == {"a", "c"}
    assert [piece.text for key in ("a", "c") for piece in again.list_pieces(key, 9)] == [
        "new words",
        "last words",
    ]
    again.close()


def test_of_several_words_the_newest_place_that_holds_all_is_shown_or_any(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    put(index, "a", "alpha", "beta", "alpha beta", "alpha beta", "beta", "alpha")
    put(index, "b", "beta", "alpha", "gamma")
    put(index, "c", "alpha", "beta")
    put(index, "d", "alpha")
    found = index.search(["alpha", "beta"])

    def newest(found: dict[str, Match]) -> dict[str, tuple[int, str]]:
        return {k: (m.hits, index.list_pieces(k, 1, m.at)[-1].text) for k, m in found.items()}

    assert newest(found) == {"a": (2, "alpha beta"), "b": (2, "alpha"), "c": (2, "beta")}
    around = index.list_pieces("a", 2, found["a"].at)
    assert [piece.text for piece in around] == ["alpha beta", "alpha beta", "beta"]
    three = index.search(["gamma", "alpha", "beta"])
    assert newest(three) == {"b": (3, "gamma")}
    index.close()


def test_an_index_is_made_for_its_user_alone_and_serves_every_thread(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "state"
    index = index_of(folder)
    for key in ("a", "b"):
        thread = threading.Thread(target=put, args=(index, key, "words"))
        thread.start()
        thread.join()
    assert set(index.read_stamps()) == {"a", "b"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o600
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)  # nobody waits for it
    index.close()


def test_a_link_or_a_pipe_in_the_place_of_the_index_stays_and_memory_serves(
    tmp_path: Path,
) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / FILE_NAME)
    for folder in ("link", "pipe"):
        index = index_of(tmp_path / folder)
        thread = threading.Thread(target=put, args=(index, "a", "words"))
        thread.start()
        thread.join()
        assert set(index.search(["words"])) == {"a"}
        index.close()
        assert index.read_stamps() == {}
        index.close()
    assert (tmp_path / "link" / FILE_NAME).is_symlink()
    assert (tmp_path / "pipe" / FILE_NAME).is_fifo()
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_forgotten_is_not_found(tmp_path: Path) -> None:
    index = SessionIndex(tmp_path / FILE_NAME)
    facts = SessionFacts(session_id="s")
    index.put_session("a", "1", facts, [Piece(who="user", text="old words")])
    index.put_session("a", "2", facts, [Piece(who="user", text="new words")])
    for old in ("old", "ol"):  # by the table of words, and by every text for so short a word
        assert index.search([old]) == {}
    assert set(index.search(["words"])) == {"a"}
    index.drop_sessions(["a"])
    assert index.search(["words"]) == index.search(["wo"]) == {}
    assert index.read_stamps() == {}
    index.close()


def test_a_thousand_sessions_are_listed_and_searched_at_once(tmp_path: Path) -> None:
    """The index is what is measured: the journals are tiny, and read beforehand."""
    for number in range(1000):
        path = tmp_path / "sessions" / f"{number % 10:016x}" / f"session_{number:08x}"
        path.mkdir(parents=True)
        (path / "journal-1.d1").write_bytes(b"")
    index = SessionIndex(tmp_path / FILE_NAME)
    for place in list_places(tmp_path):
        facts = SessionFacts(session_id=place.session_id, messages=2, last_at=1.0)
        words = [Piece(who="ai", text=f"{place.session_id} の本文 {n}") for n in range(20)]
        index.put_session(place.key, place.stamp, facts, words)
    index.close()
    catalog = Catalog(tmp_path)
    spent = time.process_time()
    assert not catalog.refresh()
    assert len(catalog.list_read()) == 1000
    listed = time.process_time()
    assert len(catalog.search("本文 19")) == 1000
    searched = time.process_time()
    assert listed - spent < 0.8
    assert searched - listed < 1.5
    catalog.close()


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
        with pytest.raises(SessionUnreadable):
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
    (there,) = [f for f in catalog.list_all(trash_too=True) if f.trashed_at is not None]
    assert (there.session_id, there.state) == (facts.session_id, "gate")
    assert stat.S_IMODE((catalog.state_dir / "trash").stat().st_mode) == 0o700
    assert [f.facts.trashed_at is not None for f in catalog.search("multiplied", trash_too=True)]
    assert catalog.search("multiplied") == []
    catalog.restore(gone)
    assert by_id(catalog.list_all())["1"].title == facts.title
    assert (old / "journal-1.d1").read_bytes() == bytes_before


def test_what_is_gone_cannot_be_moved_and_leaves_nothing_in_the_trash(catalog: Catalog) -> None:
    facts = by_id(catalog.list_all())["1"]
    shutil.rmtree(catalog.path_of(facts))
    with pytest.raises(NotASession) as refused:
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
    with pytest.raises(SessionUnreadable):
        catalog.restore(gone)
    assert by_id(catalog.list_all())["4"].title == "another"
    assert catalog.path_of(gone).is_dir()
    other = by_id(catalog.list_all())["1"]
    gone = catalog.delete(other)
    catalog.path_of(other).mkdir(parents=True)  # empty, and yet somebody's
    with pytest.raises(SessionUnreadable):
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
    (there,) = [f for f in catalog.list_all(trash_too=True) if f.key == gone.key]
    assert there.trashed_at is not None
    assert abs(there.trashed_at - time.time()) < 60
    catalog.prune(gone)
    assert not catalog.path_of(gone).exists()
    with pytest.raises(SessionUnreadable):
        catalog.prune(gone)
    assert "1" not in by_id(catalog.list_all(trash_too=True))


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
    catalog.close()


def test_a_session_in_the_trash_is_not_renamed(catalog: Catalog) -> None:
    catalog.delete(by_id(catalog.list_all())["1"])
    (there,) = [f for f in catalog.list_all(trash_too=True) if f.trashed_at is not None]
    with pytest.raises(NotASession):
        catalog.rename(there, "x")


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
