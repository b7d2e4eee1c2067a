"""Which session ``--resume`` means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from duckflow_tui.compose import Unusable
from duckflow_tui.safety.safe_text import visible
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import SessionPlace, find, places
from duckflow_tui.session.journals import open_to_read
from duckflow_tui.session.session_files import SessionFolder, segment_name
from duckflow_tui.state.base import one_line
from duckflow_tui.ui.i18n import Catalogue
from duckflow_tui.ui.session_words import named_rows

_LISTED: Final = 10  # sessions named where none, or more than one, was meant
_SMALL: Final = 200_000  # bytes; in a larger journal something was said
_SAID: Final = tuple(
    f'"kind":"{kind}"'.encode() for kind in ("message_queued", "user_message", "draft")
)


def session_named(given: str, workspace: Path, state_dir: Path, say: Catalogue) -> str:
    """The whole id; empty means the newest of the workspace in which something was said.

    Raises Unusable with the sessions there are.
    """
    root = Path(os.path.realpath(workspace))
    if not given:
        newest = next((p for p in places(state_dir, root) if _holds_words(p.path)), None)
        if newest is None:
            raise Unusable(say("resume.none", path=visible(str(root))))
        return newest.session_id
    found = find(state_dir, given, root)
    if len(found) == 1:
        return found[0].session_id
    named = visible(one_line(given, 80))
    if found:
        raise Unusable(_with_list(say("resume.several", given=named), found))
    elsewhere = find(state_dir, given)
    if elsewhere:
        path, session = visible(_workspace_of(elsewhere[0].path)), elsewhere[0].session_id
        key = "resume.elsewhere" if os.path.isdir(path) else "resume.elsewhere_gone"
        raise Unusable(say(key, given=named, path=path, session=session))
    here = [place for place in places(state_dir, root) if _holds_words(place.path)]
    key = "resume.unknown" if here else "resume.unknown_none"
    raise Unusable(_with_list(say(key, given=named), here))


def several(workspace: Path, state_dir: Path) -> bool:
    """Whether the workspace has more than one session in which something was said."""
    here = places(state_dir, os.path.realpath(workspace))
    return sum(1 for place in here if _holds_words(place.path)) > 1


def _with_list(sentence: str, found: list[SessionPlace]) -> str:
    return "\n".join([sentence, *named_rows(found, _LISTED)])


def _workspace_of(path: Path) -> str:
    try:
        return open_to_read(path).state.session.workspace or "?"
    except SessionFault:
        return "?"


def _holds_words(path: Path) -> bool:
    """Whether anything was said in it; a start that was left again at once is no session."""
    try:
        folder = SessionFolder.open(path)
    except SessionFault:
        return False
    left = _SMALL
    try:
        for number in folder.segments():
            try:
                with folder.read(segment_name(number)) as file:
                    data = file.read(left + 1)
            except (OSError, SessionFault):
                continue
            if len(data) > left or any(kind in data for kind in _SAID):
                return True
            left -= len(data)
    finally:
        folder.close()
    return False
