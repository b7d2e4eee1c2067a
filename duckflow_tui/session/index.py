"""The index of a session: its facts and texts in a file beside the journal, so that lists and
searches need not read the journal.

The index holds nothing that the journal does not: a missing, damaged or outdated one is made anew,
and where it cannot be written the journal is read each time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from duckflow_tui import __version__
from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.facts import Piece, SessionFacts
from duckflow_tui.session.folders import (
    INDEX_NAME,
    SessionPlace,
    draft_in,
    open_directory,
    open_plain,
)
from duckflow_tui.session.records import SCHEMA

_MADE_BY: Final = f"{__version__} {SCHEMA} 6"  # the last number: of the file's format

_FAULTS: Final = (OSError, ValueError, KeyError, TypeError)


def read_facts(place: SessionPlace) -> tuple[str, SessionFacts] | None:
    """Return from the index the stamp of the journal when it was last read, and the facts read
    then; None without an index of this version.
    """
    with contextlib.suppress(*_FAULTS):
        head = json.loads(_read_lines(place.path, 1)[0])
        if head["made_by"] == _MADE_BY:
            facts = SessionFacts.model_validate(head["facts"])
            return str(head["stamp"]), facts.replace(
                problem=""
            )  # no index is written for a session with a problem
    return None


def read_pieces(path: Path) -> list[Piece] | None:
    """Return the texts of a session from its index; None without an index of this version."""
    with contextlib.suppress(*_FAULTS):
        head, texts = map(json.loads, _read_lines(path, 2))
        if head["made_by"] == _MADE_BY:
            return [Piece(*text) for text in texts]
    return None


def write_index(place: SessionPlace, facts: SessionFacts, pieces: Iterable[Piece]) -> None:
    """Replace the index of a session; a disk that cannot be written is ignored."""
    head = {"made_by": _MADE_BY, "stamp": place.stamp, "facts": facts.model_dump()}
    lines = [json.dumps(part, ensure_ascii=False) for part in (head, list(pieces))]
    with (
        contextlib.suppress(OSError),
        open_directory(place.path, flags=os.O_NOFOLLOW) as folder,
        draft_in(Disk(), folder) as draft,
    ):
        draft.write("\n".join(lines).encode("utf-8", "replace"))
        draft.publish_as(folder, INDEX_NAME, lasting=False)


def _read_lines(path: Path, count: int) -> list[bytes]:
    """Return the first ``count`` lines of the index in this folder. Raises OSError."""
    with open_plain(path / INDEX_NAME) as file:
        return [file.readline() for _ in range(count)]
