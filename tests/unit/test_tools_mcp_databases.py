"""Which tables a query names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ("SELECT * FROM orders, items", {"orders", "items"}),
        ("select o.x, i.y from shop.orders as o, Items i where o.i = i.i, x", {"orders", "items"}),
        ("SELECT a FROM t, (SELECT b FROM u, v WHERE b IN (1, 2)) w, x", {"t", "u", "v", "x"}),
        ("SELECT x, (SELECT max(y) FROM b), z FROM a ORDER BY x, c", {"a", "b"}),
        ("SELECT * FROM a JOIN b ON a.i = b.i AND b.k IN (SELECT k FROM c), d", set("abcd")),
        ("SELECT * FROM (a LEFT JOIN b USING (i, j)), c", set("abc")),
        ("SELECT * FROM a NATURAL JOIN b CROSS JOIN LATERAL (SELECT 1 FROM c) d", set("abc")),
        ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b) GROUP BY c, d HAVING e > 1", set("ab")),
        ("SELECT 1 FROM a UNION ALL SELECT 2 FROM b, c ORDER BY x, y", set("abc")),
        ('SELECT * FROM "order items", [my notes], `a,b`', {"order items", "my notes", "a,b"}),
        ('SELECT * FROM "shop" . "My.Orders"', {"my.orders"}),
        ("SELECT * FROM a AS x (p, q), generate_series(1, 2) g, b", set("ab")),
        ("SELECT extract(epoch FROM (SELECT max(t) FROM b)), trim(both FROM x) FROM a", set("ab")),
        ("SELECT 1 /* FROM c, d */ FROM a -- , b\n, e WHERE x = 'FROM f, g'", set("ae")),
        (
            "WITH new AS (SELECT * FROM a), old AS (SELECT * FROM new, b) SELECT * FROM old, c",
            set("abc"),
        ),
        ("WITH orders AS (SELECT * FROM orders WHERE x) SELECT * FROM orders", {"orders"}),
        ("WITH RECURSIVE t (n) AS (SELECT 1 UNION SELECT n + 1 FROM t, a) SELECT * FROM t", {"a"}),
        ("SELECT * FROM (WITH x AS (SELECT 1 FROM a) SELECT * FROM x) y, x", {"a", "x"}),
        ("WITH x AS MATERIALIZED (SELECT 1 FROM a) DELETE FROM b USING x, c", set("abc")),
        ("INSERT INTO a (x, y) VALUES (1, 2), (3, 4)", {"a"}),
        ("INSERT INTO a WITH n AS (SELECT 1 FROM b) SELECT * FROM n", set("ab")),
        ("UPDATE a SET x = b.x, y = 2 FROM b, c WHERE a.i = b.i", set("abc")),
        ("ALTER TABLE IF EXISTS a ADD COLUMN x int, ADD COLUMN y int USING z", {"a"}),
        ("DROP TABLE a, b; TRUNCATE c, d", set("abcd")),
        (
            "CREATE TABLE x AS SELECT * FROM a; SELECT * INTO y FROM b; SELECT * FROM x, y",
            set("ab"),
        ),
        ("SELECT t::timestamp WITH TIME ZONE, u FROM a, b", set("ab")),
        ("SHOW COLUMNS FROM orders", set[str]()),
        ("SELECT FROM WHERE (((", set[str]()),
        (")) ; FROM a", {"a"}),
    ],
)
def test_the_tables_that_a_query_names(query: str, tables: set[str]) -> None:
    """Covers S3-39."""
    assert tables_of(query) == tables


def test_what_a_query_makes_is_known() -> None:
    """Covers S3-39."""
    assert made_by("create table if not exists Notes (id int)") == {"notes"}
    assert made_by("CREATE TEMP VIEW main.v AS SELECT * FROM a") == {"v"}
    # What a WITH names ends with its query, and a sentence makes nothing.
    assert made_by("WITH orders AS (SELECT 1) SELECT * FROM orders") == set()
    assert made_by("the table orders is empty") == set()


@given(st.text(alphabet="FROM from,()WITHas;'\"[]a.b -*/\n", max_size=80))
def test_no_text_breaks_the_reading(text: str) -> None:
    assert all(name in text.casefold() for name in tables_of(text) | made_by(text))
