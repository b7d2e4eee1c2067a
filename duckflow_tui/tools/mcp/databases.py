"""Which tables a query names, and by which tools the common servers for databases are known."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

#: Tools of servers for sqlite, postgres and mysql that tell what a table consists of.
SCHEMA_TOOLS: Final = ("describe_table", "get_object_details", "get_table_schema", "table_schema")

#: Arguments in which a tool of such a server takes a query.
QUERIES: Final = frozenset({"sql", "query"})

#: What such a server, which calls no failure an error, begins the text of one with.
FAILED: Final = ("Database error: ", "Error: ")

_NAME: Final = r"(?:[\w$]+|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\])"

_DOTTED: Final = re.compile(rf"{_NAME}(?:\s*\.\s*{_NAME})*")

#: Strings and comments, which are skipped; names with what they are part of; signs.
_TOKEN: Final = re.compile(
    rf"(?P<skipped>'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/)|{_DOTTED.pattern}|[(),;]",
    re.DOTALL,
)

_VERBS: Final = frozenset(
    ("select", "insert", "update", "delete", "merge", "create", "alter", "drop", "truncate", "show")
)
_ENDS_LIST: Final = _VERBS | {
    "where", "group", "order", "having", "limit", "offset", "fetch", "window", "union", "except",
    "intersect", "set", "values", "returning", "for",
}  # fmt: skip
_BEFORE_NAME: Final = {
    "only", "lateral", "if", "not", "exists", "or", "ignore", "replace", "rollback", "abort",
    "fail", "into", "table",
}  # fmt: skip
_HAS_FROM: Final = ("extract", "substring", "trim", "overlay")  # functions with a FROM inside
_NOT_UPDATE: Final = ("for", "do", "key", "on")  # before an UPDATE that no table follows
_SYSTEM: Final = ("sqlite_", "information_schema", "pg_")  # they tell of the schema themselves

Awaited = Literal["", "read", "changed", "made"]


def plain_name(name: str) -> str:
    """A table's name without its schema, quotes and case: as it can be compared."""
    last = re.findall(_NAME, name)[-1] if _DOTTED.fullmatch(name) else name
    return last.strip().strip('"`[]').casefold()


def tables_of(query: str) -> frozenset[str]:
    """The tables that a query reads or changes, by their plain names; not those that it makes
    itself or names for itself alone, nor those of the database's own catalogue.
    """
    read = _Reading(query)
    return frozenset(read.named - read.made)


def made_by(query: str) -> frozenset[str]:
    """The tables and views that a query creates."""
    return frozenset(_Reading(query).made)


@dataclass
class _Part:
    """Where the reading is within a statement, or within two brackets of it."""

    function: str = ""  # what stands before the brackets
    defines: str = ""  # the name that a WITH gives to what is in the brackets
    verb: str = ""
    awaits: Awaited = ""  # what the next name is
    lists: Awaited = ""  # what a name behind a comma is
    naming: Literal["", "with", "recursive"] = ""  # within the names of a WITH
    alias: str = ""  # the name that a WITH is about to give
    own: set[str] = field(default_factory=set[str])  # names that it gave


class _Reading:
    """A query read once, from its first word to its last."""

    def __init__(self, query: str) -> None:
        self.named, self.made = set[str](), set[str]()
        self._parts = [_Part()]
        tokens = [m.group() for m in _TOKEN.finditer(query) if m.lastgroup != "skipped"]
        before = ""
        for text, following in zip(tokens, [*tokens[1:], ""], strict=False):
            word, after, part = text.casefold(), following.casefold(), self._parts[-1]
            if word == ";":
                self._parts = [_Part()]
            elif word == "(":
                self._open(part, before, after)
            elif word == ")":
                self._close(part, after)
            elif word == ",":
                part.awaits = part.lists
            elif not self._leads(part, word, before, after):
                self._take(part, text, after)
            before = word

    def _open(self, part: _Part, before: str, after: str) -> None:
        inner = _Part(function=before)
        if part.awaits == "read" and after not in ("select", "with", "values"):
            inner.awaits = inner.lists = "read"  # FROM (a JOIN b)
        part.awaits = ""
        if part.alias and before in ("as", "materialized"):
            inner.defines, part.alias = part.alias, ""
            if part.naming == "recursive":
                part.own.add(inner.defines)
        self._parts.append(inner)

    def _close(self, part: _Part, after: str) -> None:
        if len(self._parts) > 1:
            self._parts.pop()
        if part.defines:  # from here on the name is this, and no table
            self._parts[-1].own.add(part.defines)
            if after != ",":
                self._parts[-1].naming = ""

    def _leads(self, part: _Part, word: str, before: str, after: str) -> bool:
        """Whether the word says what follows, rather than being a name."""
        awaits: Awaited = ""
        several = False
        match word:
            case "with" | "recursive" if word == "with" or before == "with":
                part.naming, part.alias = "with" if word == "with" else "recursive", ""
            case "from" if before == "distinct" or part.function in _HAS_FROM:
                return True
            case "from" | "join" | "straight_join" if part.verb != "show":
                awaits, several = "read", True
            case "using" if part.verb in ("delete", "merge"):
                awaits, several = "read", True
            case "update" if before in _NOT_UPDATE or after in ("on", "of"):
                part.lists = ""
            case "into":
                awaits = "made" if part.verb == "select" else "changed"
            case "table" | "view" if part.verb in ("create", "alter", "drop"):
                awaits = "made" if part.verb == "create" else "changed"
                several = part.verb == "drop"
            case _ if word in _ENDS_LIST:
                part.verb = word if word in _VERBS else part.verb
                part.naming, part.lists = "", ""
                awaits = "changed" if word in ("update", "truncate") else ""
                several = word == "truncate"
            case _:
                return False
        part.awaits = awaits
        if awaits:
            part.naming, part.lists = "", awaits if several else ""
        return True

    def _take(self, part: _Part, text: str, after: str) -> None:
        word, name = text.casefold(), plain_name(text)
        if part.awaits and word in _BEFORE_NAME:
            return
        if not part.awaits:
            if part.naming and not part.alias:
                part.alias = name
            return
        if part.awaits == "made":
            self.made.add(name)
        elif not (part.awaits == "read" and after == "(") and not self._is_other(word):
            self.named.add(name)
        part.awaits = ""

    def _is_other(self, word: str) -> bool:
        """Whether it is a name that the query gave itself, or one of the catalogue."""
        bare = word.strip('"`[]')
        return bare.startswith(_SYSTEM) or any(bare in part.own for part in self._parts)
