"""Which tables a query names, and by which tools the common servers for databases are known."""

from __future__ import annotations

import re
from typing import Final

#: Tools of servers for sqlite, postgres and mysql that tell what a table consists of.
SCHEMA_TOOLS: Final = ("describe_table", "get_object_details", "get_table_schema", "table_schema")

#: Tools of the same servers that take a query.
QUERY_TOOLS: Final = (
    "read_query",
    "write_query",
    "execute_sql",
    "execute_query",
    "run_query",
    "sql_query",
    "mysql_query",
    "query",
)

_NAME: Final = (
    r"((?:[\w$]+|\"[^\"]+\"|`[^`]+`|\[[^\]]+\])(?:\.(?:[\w$]+|\"[^\"]+\"|`[^`]+`|\[[^\]]+\]))*)"
)

#: Strings, comments, and words that look as if a table followed.
_NO_TABLE: Final = re.compile(
    r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|\b(?:extract|substring|trim|overlay)\s*\([^()]*\)"
    r"|\bdistinct\s+from\b|\bfor\s+(?:no\s+key\s+)?update\b|\bdo\s+update\b|\bkey\s+update\b",
    re.IGNORECASE | re.DOTALL,
)

_TABLE: Final = re.compile(
    rf"\b(?:from|join)\s+(?:only\s+|lateral\s+)?{_NAME}(?!\s*\(|[\w$.])", re.I
)

_CHANGED: Final = re.compile(
    rf"\b(?:into|update|(?:alter|drop|truncate)\s+table)\s+(?:if\s+exists\s+|or\s+\w+\s+)?{_NAME}",
    re.I,
)

_MADE: Final = re.compile(
    rf"\b(?:table|view)\s+(?:if\s+not\s+exists\s+)?{_NAME}|(?:\bwith\s+(?:recursive\s+)?|,\s*)"
    rf"{_NAME}\s*(?:\([^()]*\)\s*)?as\s*(?:not\s+)?(?:materialized\s*)?\(",
    re.I,
)

_SYSTEM: Final = ("sqlite_", "information_schema", "pg_")  # they tell of the schema themselves


def plain_name(name: str) -> str:
    """A table's name without its schema, quotes and case: as it can be compared."""
    return re.split(r"\.(?=[^\"`\]]*(?:[\"`\[]|$))", name)[-1].strip('"`[]').casefold()


def tables_of(query: str) -> frozenset[str]:
    """The tables that a query reads or changes, by their plain names; not those that it makes
    itself, nor those of the database's own catalogue.
    """
    text = _NO_TABLE.sub(" ", query)
    named = [*_TABLE.findall(text), *_CHANGED.findall(text)]
    system = {plain_name(n) for n in named if n.casefold().lstrip('"`[').startswith(_SYSTEM)}
    return frozenset(map(plain_name, named)) - made_by(query) - system


def made_by(query: str) -> frozenset[str]:
    """The tables that a query creates, or names for itself alone."""
    text = _NO_TABLE.sub(" ", query)
    text = re.sub(r"\b(?:alter|drop|truncate)\s+table\b", " ", text, flags=re.I)
    return frozenset(plain_name(name) for found in _MADE.findall(text) for name in found if name)
