"""The figures of a finished call in words, for the screen and for runs without one."""

from __future__ import annotations

import re
from typing import Final

from duckflow_tui.words.catalogue import Catalogue

_SEARCH: Final = "file_ops.search_text"
_FOUND: Final = re.compile(r"(\d+) · (\d+)")  # matches, files


def figures_words(operation: str, summary: str, words: Catalogue) -> str:
    """``3 matches in 2 files`` for a search; the summary as it is where it says enough."""
    found = _FOUND.fullmatch(summary) if operation == _SEARCH else None
    if found is None:
        return summary
    matches, files = found.groups()
    match = "transcript.match" if matches == "1" else "transcript.matches"
    file = "transcript.match_file" if files == "1" else "transcript.match_files"
    return words(
        "transcript.found", matches=words(match, count=matches), files=words(file, count=files)
    )
