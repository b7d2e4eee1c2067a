"""The figures of a finished call in words, for the screen and for runs without one."""

from __future__ import annotations

import re
from typing import Final

from duckflow_tui.words.catalogue import Catalogue

_SEARCH: Final = "file_ops.search_text"
_FOUND: Final = re.compile(r"(\d+) · (\d+)")  # matches, files
_EXIT: Final = re.compile(r"exit (\d+)(.*)")  # of a command; what follows is how long it ran
_PLANNED: Final = ("accepted", "closed", "deleted")  # what came of a change of a plan


def size_text(size: int) -> str:
    """Bytes in the largest unit that leaves a number of them: ``812 B``, ``12 KB``, ``3.4 MB``."""
    if size < 1000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{round(size / 1000)} KB"
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"


def figures_words(operation: str, summary: str, words: Catalogue) -> str:
    """``3 matches in 2 files`` for a search, ``4 steps`` for a plan, ``exit code 1`` in the user's
    language; the summary as it is where it says enough.
    """
    if operation == _SEARCH and (found := _FOUND.fullmatch(summary)):
        matches, files = found.groups()
        match = "transcript.match" if matches == "1" else "transcript.matches"
        file = "transcript.match_file" if files == "1" else "transcript.match_files"
        return words(
            "transcript.found", matches=words(match, count=matches), files=words(file, count=files)
        )
    if operation.startswith("plan_tool.") and summary in _PLANNED:
        return words(f"transcript.planned.{summary}")
    if operation in ("plan_tool.propose", "task_tool.generate_list") and summary.isdecimal():
        one = "one" if summary == "1" else "many"
        return words(f"transcript.listed.{operation.partition('.')[0]}.{one}", count=summary)
    if operation.startswith("shell.") and (left := _EXIT.fullmatch(summary)):
        return words("output.exit", code=left[1]) + left[2]
    return summary
