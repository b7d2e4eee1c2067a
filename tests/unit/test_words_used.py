"""Every entry of the words is read by the program."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import duckflow_tui
from duckflow_tui.words.catalogue import load_entries

PACKAGE = Path(duckflow_tui.__file__).parent

#: Beginnings of keys whose rest is made at run time from a value, an attribute or two parts, and
#: of the headings of the manual's list of keys, which ``tests/support/manual_tables.py`` writes.
BUILT_AT_RUN_TIME = (
    "consult.hypothesis.", "errno.", "form.",
    "keys.surface.",
    "ledger.form.", "ledger.waive.", "library.", "origin.", "sessions.delete.", "sessions.rename.",
    "sessions.replace.", "transcript.paused_asked", "transcript.pausing_asked",
    "transcript.thought_briefly", "trusted.",
)  # fmt: skip


def test_each_entry_is_read_by_its_key_or_by_a_pattern_of_keys() -> None:
    keys, patterns = _find_keys()
    unread = [
        key
        for key in load_entries("en")
        if key not in keys
        and not key.startswith(BUILT_AT_RUN_TIME)
        and not any(pattern.fullmatch(key) for pattern in patterns)
    ]
    assert unread == []


def _find_keys() -> tuple[set[str], list[re.Pattern[str]]]:
    """Texts of the source, and patterns of its formatted texts that look like keys."""
    texts: set[str] = set()
    patterns: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if "workspace" in path.parts:
            continue  # the demo's sample project is data
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else None for p in node.values]
                if _is_key(parts):
                    patterns.add("".join(".+" if p is None else re.escape(str(p)) for p in parts))
    return texts, [re.compile(pattern) for pattern in patterns]


def _is_key(parts: Sequence[object]) -> bool:
    """Whether a formatted text begins with the words of a key and a dot stands in it."""
    said = "".join(str(part) for part in parts if part is not None)
    first = parts[0]
    return (
        isinstance(first, str) and len(first) > 2 and bool(re.fullmatch(r"[a-z_]*\.[a-z_.]*", said))
    )
