"""The demo's small servers, tool by tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from duckflow_tui.scripted.servers.calculator import evaluate
from duckflow_tui.scripted.servers.clock import current_time
from duckflow_tui.scripted.servers.place import get_weather, where_am_i
from duckflow_tui.scripted.servers.serving import ToolProblem
from duckflow_tui.scripted.servers.shop import MAX_ROWS, Shop, make


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    path = tmp_path / "shop.sqlite"
    make(path)
    opened = Shop(path)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("expression", "result"),
    [("100 + 200", 300), ("0.1 + 0.2", 0.3), ("2 ** 10 - (7 // 2)", 1021), ("-(3) % 2", -1)],
)
def test_the_calculator_is_exact(expression: str, result: float) -> None:
    assert evaluate(expression) == {"result": result}


@pytest.mark.parametrize(
    "expression",
    ["__import__('os')", "(1).real", "9 ** 9 ** 9", "1 / 0", "True + 1", "a", "1 +", "(" * 400],
)
def test_the_calculator_is_no_interpreter(expression: str) -> None:
    with pytest.raises(ToolProblem):
        evaluate(expression)


def test_the_clock_knows_zones() -> None:
    assert current_time("Asia/Tokyo")["datetime"].endswith("+09:00")
    with pytest.raises(ToolProblem, match="no time zone"):
        current_time("../etc/passwd")


def test_the_weather_belongs_to_the_place() -> None:
    told = get_weather(where_am_i()["city"])
    assert told == get_weather(where_am_i()["city"])
    with pytest.raises(ToolProblem, match="Duckhaven"):
        get_weather("Atlantis")


def test_the_shop_tells_tables_columns_and_rows(shop: Shop) -> None:
    assert shop.list_tables() == {"tables": ["orders", "products"]}
    assert "price NUMERIC" in shop.get_table_schema("products")["schema"]
    assert shop.query("SELECT name FROM products WHERE stock < 10")["rows"] == [
        {"name": "Rain boots"}
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM products",
        "DROP TABLE products",
        "CREATE TEMP TABLE t (a)",
        "ATTACH DATABASE '/tmp/other.sqlite' AS other",
        "PRAGMA query_only = OFF",
        "SELECT load_extension('/tmp/x')",
        "SELECT 1; DELETE FROM products",
        "VACUUM INTO '/tmp/copy.sqlite'",
    ],
)
def test_the_shop_can_only_be_read(shop: Shop, sql: str) -> None:
    with pytest.raises(ToolProblem):
        shop.query(sql)
    assert len(shop.query("SELECT * FROM products")["rows"]) == 6


def test_a_query_has_limits_of_rows_and_time(shop: Shop, tmp_path: Path) -> None:
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n{}) SELECT {} FROM n"
    some = shop.query(count.format(" LIMIT 1000", "i"))
    assert (len(some["rows"]), some["more"]) == (MAX_ROWS, True)
    with (
        closing(Shop(tmp_path / "shop.sqlite", longest=0.05)) as hurried,
        pytest.raises(ToolProblem, match=r"more than 0\.05 seconds"),
    ):
        hurried.query(count.format("", "max(i)"))
