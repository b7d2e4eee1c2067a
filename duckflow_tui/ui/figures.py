"""The figures of a finished call in words. No Textual here: headless runs say them too."""

from __future__ import annotations

import re
from typing import Final, Protocol

_SEARCH: Final = "file_ops.search_text"
_FOUND: Final = re.compile(r"(\d+) · (\d+)")  # matches, files


class Words(Protocol):
    """The catalogue of the user's language."""

    def __call__(self, key: str, /, **params: object) -> str:
        """The entry with its params filled in."""
        ...


def figures_words(operation: str, summary: str, words: Words) -> str:
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
