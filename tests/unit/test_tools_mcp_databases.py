"""Which tables a query names."""

from __future__ import annotations

import pytest

from duckflow_tui.tools.mcp.databases import made_by, tables_of


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT 1", set[str]()),
        ("select * from Orders", {"orders"}),
        ('SELECT a.x FROM public."Orders" a JOIN shop.items i ON i.o = a.id', {"orders", "items"}),
        ("INSERT INTO orders (id) VALUES (1)", {"orders"}),
        ("insert into a select * from b on conflict (id) do update set x = 1", {"a", "b"}),
        ("UPDATE `orders` SET x = 1 WHERE y IS DISTINCT FROM z", {"orders"}),
        ("DELETE FROM orders WHERE note = 'taken from stock'", {"orders"}),
        ("SELECT extract(year FROM made) FROM orders -- from nowhere", {"orders"}),
        ("WITH new AS (SELECT * FROM orders), old (a) AS (SELECT 1) SELECT * FROM new", {"orders"}),
        ("SELECT * FROM generate_series(1, 3)", set[str]()),
        ("SELECT name FROM sqlite_master; PRAGMA table_info(orders)", set[str]()),
        ("SELECT column_name FROM information_schema.columns", set[str]()),
        ("CREATE TABLE notes (id int); INSERT INTO notes VALUES (1)", set[str]()),
        ("DROP TABLE IF EXISTS orders", {"orders"}),
        ("SELECT * FROM orders FOR UPDATE", {"orders"}),
    ],
)
def test_the_tables_that_a_query_names(query: str, tables: set[str]) -> None:
    """Covers S3-39."""
    assert tables_of(query) == tables


def test_what_a_query_makes_is_known() -> None:
    """Covers S3-39."""
    assert made_by("create table if not exists Notes (id int)") == {"notes"}
