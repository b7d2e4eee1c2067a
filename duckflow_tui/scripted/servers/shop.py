"""The database of a little shop: it can be read, and nothing else.

Three locks, each enough by itself: the file is opened read-only, the connection is told to write
nothing, and an authoriser lets only reading through. A query has limits of rows, steps and time.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Final

from duckflow_tui.scripted.servers.serving import JsonObject, Tool, ToolProblem, serve

MAX_ROWS: Final = 200
MAX_QUERY: Final = 4_000  # characters
MAX_VALUE: Final = 100_000  # bytes of one value
MAX_S: Final = 2.0  # seconds of one query
_LOOK_EVERY: Final = 10_000  # steps of SQLite's machine between looks at the time

_SEED: Final = """
CREATE TABLE products (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL,
  price NUMERIC NOT NULL, stock INTEGER NOT NULL
);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL REFERENCES products (id),
  quantity INTEGER NOT NULL, ordered_on TEXT NOT NULL
);
INSERT INTO products (name, category, price, stock) VALUES
  ('Rubber duck', 'bath', 4.50, 120),
  ('Duck lamp', 'home', 29.90, 14),
  ('Bread, no crust', 'food', 2.20, 60),
  ('Rain boots', 'clothes', 39.00, 8),
  ('Umbrella', 'clothes', 17.50, 25),
  ('Pond print', 'home', 12.00, 33);
INSERT INTO orders (product_id, quantity, ordered_on) VALUES
  (1, 3, '2026-01-05'), (3, 2, '2026-01-05'), (5, 1, '2026-01-09'), (1, 10, '2026-02-01'),
  (2, 1, '2026-02-14'), (6, 2, '2026-03-03');
"""

_READING: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
#: Functions that no query of a shop needs and that reach out of the database or fill memory.
_FORBIDDEN: Final = frozenset(
    {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "zeroblob", "randomblob"}
)


def make(path: Path) -> None:
    """Write the shop's database to a new file."""
    made = sqlite3.connect(path)
    try:
        made.executescript(_SEED)
        made.commit()
    finally:
        made.close()


class Shop:
    """Read-only access to the database in a file. ``longest`` is for one query, in seconds."""

    def __init__(self, path: Path, longest: float = MAX_S) -> None:
        self._longest = longest
        self._database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        self._database.execute("PRAGMA query_only = ON")
        self._database.execute("PRAGMA trusted_schema = OFF")
        self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        self._database.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, MAX_QUERY)
        self._database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._database.set_authorizer(_authorize)
        self._until = 0.0
        self._database.set_progress_handler(lambda: time.monotonic() > self._until, _LOOK_EVERY)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def list_tables(self) -> JsonObject:
        """The names of all tables."""
        found = self._run_query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return {"tables": [row["name"] for row in found["rows"]]}

    def get_table_schema(self, table: str) -> JsonObject:
        """The columns of a table with their types. Raises ToolProblem for an unknown one."""
        known = self.list_tables()["tables"]
        if table not in known:
            raise ToolProblem(f"there is no table {table!r}; there are {', '.join(known)}")
        found = self._run_query(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        )
        return {"table": table, "schema": " ".join(str(found["rows"][0]["sql"]).split())}

    def query(self, sql: str) -> JsonObject:
        """Return the rows of a SELECT, at most 200. Raises ToolProblem."""
        return self._run_query(sql)

    def _run_query(self, sql: str, values: tuple[str, ...] = ()) -> JsonObject:
        """Run a query within its limits and return at most 200 rows, and whether there are more.
        Raises ToolProblem.
        """
        self._until = time.monotonic() + self._longest
        try:
            cursor = self._database.execute(sql, values)
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchmany(MAX_ROWS + 1)
        except sqlite3.Warning as error:
            raise ToolProblem("one statement at a time") from error
        except sqlite3.Error as error:
            raise ToolProblem(_describe_error(error, self._longest)) from error
        told = [dict(zip(names, map(_make_jsonable, row), strict=True)) for row in rows[:MAX_ROWS]]
        return {"rows": told, "more": len(rows) > MAX_ROWS}


def _authorize(
    action: int, first: str | None, second: str | None, database: str | None, inner: str | None
) -> int:
    """Allow reading and harmless functions, and deny everything else; SQLite's authorizer
    callback.
    """
    if action in _READING:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _describe_error(error: sqlite3.Error, longest: float) -> str:
    """Return why a query failed, in words for a model."""
    text = str(error)
    if text == "interrupted":
        return f"the query took more than {longest:g} seconds"
    if "not authorized" in text or "prohibited" in text:
        return f"the database can only be read: {text}"
    return text


def _make_jsonable(value: object) -> object:
    """Return the value; for bytes their number in words."""
    return f"{len(value)} bytes" if isinstance(value, bytes) else value


def tools(shop: Shop) -> tuple[Tool, ...]:
    """Return the tools that read this shop."""
    return (
        Tool("list_tables", "Lists the tables of the shop's database.", shop.list_tables),
        Tool(
            "get_table_schema",
            "Tells the columns of a table; read it before a query.",
            shop.get_table_schema,
            {"table": {"type": "string", "description": "as list_tables tells it"}},
        ),
        Tool(
            "query",
            f"Runs one SELECT and gives at most {MAX_ROWS} rows.",
            shop.query,
            {"sql": {"type": "string", "maxLength": MAX_QUERY}},
        ),
    )


def main() -> None:
    """Serve a new database until the input ends. Its file is gone as soon as it is open."""
    with tempfile.TemporaryDirectory(prefix="duckflow-shop-") as folder:
        path = Path(folder) / "shop.sqlite"
        make(path)
        shop = Shop(path)
    serve("shop", tools(shop))
    shop.close()


if __name__ == "__main__":
    main()
