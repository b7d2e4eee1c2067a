"""An index of all sessions in SQLite, so that lists and searches read no journal.

It holds nothing that the journals do not say: missing, damaged or of another version it begins
anew, and where it cannot be written it lives in memory.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import ValidationError

from duckflow_tui import __version__
from duckflow_tui.session.facts import Piece, SessionFacts
from duckflow_tui.session.folders import (
    OWN,
    OWN_FOLDER,
)
from duckflow_tui.session.records import SCHEMA, as_bytes

FILE_NAME: Final = "sessions-index.sqlite3"
_MADE_BY: Final = f"{__version__} {SCHEMA} 4"  # the last: of the tables and of what is in them
_TRIGRAM: Final = 3  # characters of the shortest word that the index finds
_BUSY_S: Final = 2.0  # seconds that another process may write

_TABLES: Final = """
CREATE TABLE made (program TEXT);
CREATE TABLE sessions (id INTEGER PRIMARY KEY, key TEXT UNIQUE, stamp TEXT, facts TEXT);
CREATE TABLE pieces (id INTEGER PRIMARY KEY, session INTEGER, who TEXT, at REAL, text TEXT);
CREATE INDEX pieces_of ON pieces (session, id);
CREATE VIRTUAL TABLE words USING fts5(
    text, content='pieces', content_rowid='id', tokenize='trigram'
);
"""

_UNSEEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

#: The file is no database, not whole, or not ours.
_BROKEN: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

T = TypeVar("T")
log = logging.getLogger("duckflow.sessions")


class _Outdated(Exception):
    """The index was made by another version of the program."""


class Match(NamedTuple):
    """How many texts of a session a search found, and the newest, for ``list_pieces``."""

    hits: int
    at: int


class SessionIndex:
    """The index of all sessions. Methods may wait for the disk, may be called by any thread, and
    raise nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    def read_stamps(self) -> dict[str, str]:
        """The stamp of each session when it was indexed."""
        return dict(self._run(lambda db: db.execute("SELECT key, stamp FROM sessions").fetchall()))

    def read_all(self) -> dict[str, SessionFacts]:
        """The facts of all sessions by key."""
        rows = self._run(lambda db: db.execute("SELECT key, facts FROM sessions").fetchall())
        found: dict[str, SessionFacts] = {}
        for key, facts in rows:
            with contextlib.suppress(ValidationError, ValueError):
                found[key] = SessionFacts.model_validate(json.loads(facts))
        return found

    def put_session(
        self, key: str, stamp: str, facts: SessionFacts, pieces: Iterable[Piece]
    ) -> None:
        """Store the facts and texts of a session in place of earlier ones."""
        said = as_bytes(facts.model_dump()).decode("ascii")
        rows = [(p.who, p.at, p.text) for p in pieces]

        def write(db: sqlite3.Connection) -> None:
            _drop_session(db, key)
            insert = "INSERT INTO sessions (key, stamp, facts) VALUES (?, ?, ?)"
            number = db.execute(insert, (key, stamp, said)).lastrowid
            insert = "INSERT INTO pieces (session, who, at, text) VALUES (?, ?, ?, ?)"
            db.executemany(insert, ((number, *row) for row in rows))
            db.execute(
                "INSERT INTO words (rowid, text) SELECT id, text FROM pieces WHERE session = ?",
                (number,),
            )

        self._run(write)

    def change_key(self, old: str, new: str) -> None:
        """Note that the session was moved."""

        def write(db: sqlite3.Connection) -> None:
            _drop_session(db, new)
            db.execute("UPDATE sessions SET key = ? WHERE key = ?", (new, old))

        self._run(write)

    def drop_sessions(self, keys: Iterable[str]) -> None:
        """Remove these sessions from the index."""
        gone = list(keys)
        if gone:
            self._run(lambda db: [_drop_session(db, key) for key in gone])

    def search(self, words: Iterable[str]) -> dict[str, Match]:
        """The sessions that hold every word somewhere, whatever its case. Control characters and
        halves of surrogate pairs, which no text here holds, are no part of a word.
        """
        wanted = [plain for word in words if (plain := _UNSEEN.sub("", word))]
        if not wanted:
            return {}
        return self._run(lambda db: _search_pieces(db, wanted))

    def list_pieces(self, key: str, count: int, around: int | None = None) -> list[Piece]:
        """The last texts of a session in their order, or those about one that a search found."""
        select = (
            "SELECT who, at, text FROM pieces WHERE who != 'title' AND session = "
            "(SELECT id FROM sessions WHERE key = ?)"
        )
        by = " ORDER BY id DESC LIMIT ?"

        def read(db: sqlite3.Connection) -> list[Any]:
            if around is None:
                return db.execute(select + by, (key, count)).fetchall()
            after = db.execute(
                f"{select} AND id > ? ORDER BY id LIMIT ?", (key, around, count // 2)
            ).fetchall()
            until = db.execute(f"{select} AND id <= ?{by}", (key, around, count)).fetchall()
            return [*reversed(after), *until]

        rows = self._run(read)
        return [Piece(who=who, at=at, text=text) for who, at, text in reversed(rows)]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    # --- the file -----------------------------------------------------------------------------

    def _run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run it in a transaction: on the file, on a new one where that is broken, or in memory
        where nothing can be written.
        """
        with self._lock:
            for begin in (self._on_disk, self._recreate):
                try:
                    with self._open or begin() as db:
                        return act(db)
                except (_Outdated, sqlite3.DatabaseError, OSError) as error:
                    log.info("the index of sessions begins anew: %s", error)
                    self._close()
                    if not (isinstance(error, _Outdated) or _is_broken(error)):
                        break
            with self._in_memory() as db:
                return act(db)

    def _on_disk(self) -> sqlite3.Connection:
        """Open the database file, readable for its owner only, creating what is missing."""
        self._path.parent.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        os.close(os.open(self._path, flags, OWN))
        os.chmod(self._path, OWN)
        db = self._open = sqlite3.connect(self._path, timeout=_BUSY_S, check_same_thread=False)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=OFF")  # it can be made again
        self._create_tables(db)
        return db

    def _recreate(self) -> sqlite3.Connection:
        """Delete a damaged database and open an empty one."""
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._path}{end}")
        return self._on_disk()

    def _in_memory(self) -> sqlite3.Connection:
        db = self._open = sqlite3.connect(":memory:", check_same_thread=False)
        self._create_tables(db)
        return db

    def _create_tables(self, db: sqlite3.Connection) -> None:
        """Make the tables where there are none; raises _Outdated for those of another version."""
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            with db:
                db.executescript(_TABLES)
                db.execute("INSERT INTO made VALUES (?)", (_MADE_BY,))
        elif db.execute("SELECT program FROM made").fetchone() != (_MADE_BY,):
            raise _Outdated("another version made it")

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _drop_session(db: sqlite3.Connection, key: str) -> None:
    """Delete a session's rows and their words from the index."""
    found = db.execute("SELECT id FROM sessions WHERE key = ?", (key,)).fetchone()
    if found is None:
        return
    db.execute(
        "INSERT INTO words (words, rowid, text) "
        "SELECT 'delete', id, text FROM pieces WHERE session = ?",
        found,
    )
    db.execute("DELETE FROM pieces WHERE session = ?", found)
    db.execute("DELETE FROM sessions WHERE id = ?", found)


def _is_broken(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in _BROKEN


def _search_pieces(db: sqlite3.Connection, words: list[str]) -> dict[str, Match]:
    """By session key: the best piece of each session that holds all the words somewhere."""
    sets = [_find_pieces(db, word) for word in words]
    together = _group_by_session(sets[0].intersection(*sets))  # pieces that hold all the words
    apart = _group_by_session(sets[0].union(*sets))
    by_word = [{session for _, session in found} for found in sets]
    sessions = by_word[0].intersection(*by_word)
    keys = dict(db.execute("SELECT id, key FROM sessions").fetchall())
    return {keys[session]: together.get(session) or apart[session] for session in sessions}


def _group_by_session(found: set[tuple[int, int]]) -> dict[int, Match]:
    """Count the pieces found by session, and note the newest of each."""
    best: dict[int, Match] = {}
    for piece, session in found:
        hits, newest = best.get(session, (0, 0))
        best[session] = Match(hits + 1, max(piece, newest))
    return best


def _find_pieces(db: sqlite3.Connection, word: str) -> set[tuple[int, int]]:
    """The ids of pieces that hold the word, each with the id of its session."""
    if len(word) >= _TRIGRAM:
        quoted = '"' + word.replace('"', '""') + '"'
        select = "SELECT p.id, p.session FROM words JOIN pieces p ON p.id = words.rowid"
        return set(db.execute(f"{select} WHERE words MATCH ?", (quoted,)).fetchall())
    plain = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    select = "SELECT id, session FROM pieces WHERE text LIKE ? ESCAPE '\\'"
    return set(db.execute(select, (f"%{plain}%",)).fetchall())
