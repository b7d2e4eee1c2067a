"""The manual: short Markdown pages, read on the screen, by ``duckflow-tui help`` and on the web.

``keys.md`` and ``settings.md`` end with lists that ``tests/support/manual_tables.py`` writes.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

INDEX: Final = "index"

#: The pages in reading order; each has a file of its name in the folder of every language.
TOPICS: Final[tuple[str, ...]] = (
    "start",
    "models",
    "approvals",
    "plans",
    "done",
    "vitals",
    "sessions",
    "sandbox",
    "mcp",
    "headless",
    "keys",
    "settings",
    "troubleshooting",
    "glossary",
)

_FOLDER: Final = Path(__file__).parent


def page_path(topic: str, language: str) -> Path:
    """Return the path of a page; ``topic`` is ``INDEX`` or one of ``TOPICS``."""
    return _FOLDER / language / f"{topic}.md"


def read_page(topic: str, language: str) -> str:
    """Return the Markdown of a page. Raises OSError where the installation lacks it."""
    return page_path(topic, language).read_text(encoding="utf-8")


def nearest_topic(name: str) -> str:
    """Return the topic whose name is closest to this one; empty where none is similar."""
    return next(iter(difflib.get_close_matches(name.lower(), TOPICS, n=1, cutoff=0.5)), "")
