"""The work and the words left once sessions are over."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from duckflow_tui.state.conversation import NoticeMessage

if TYPE_CHECKING:
    from duckflow_tui.scripted.stage import Stage
    from duckflow_tui.session.faults import SessionFault
    from duckflow_tui.session.recording import Recording
    from duckflow_tui.state.store import Store


def find_program() -> str:
    """The words by which a shell finds this program: its name, else the file or module that was
    started.
    """
    name = "duckflow-tui"
    if shutil.which(name):
        return name
    try:
        started = Path(sys.argv[0]).absolute()
    except OSError:  # of a folder that is gone
        started = Path()
    if started.name == name and os.access(started, os.X_OK):
        return shlex.quote(str(started))
    return f"{shlex.quote(sys.executable)} -m duckflow_tui"


class Ending:
    """The sessions of a process; the demo's are not taken up again, their endpoint is gone."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.fault: SessionFault | None = None  # why a session could not be taken up
        self.recordings: list[Recording] = []
        self._newest: tuple[Recording, Store] | None = None

    @property
    def kept_project(self) -> Path | None:
        """The demo's project, when something in it changed and it therefore stays."""
        return next((stage.kept for stage in self.stages if stage.kept is not None), None)

    def watch_session(self, recording: Recording, store: Store, *, resumable: bool) -> None:
        """A session began."""
        self.recordings.append(recording)
        self._newest = (recording, store) if resumable else None

    @property
    def resumable(self) -> str:
        """The id of the last session, where something was said in it and it was kept."""
        if self._newest is None:
            return ""
        recording, store = self._newest
        state = store.state
        said = (
            state.queue
            or state.draft.strip()
            or any(not isinstance(message, NoticeMessage) for message in state.messages)
        )
        return recording.session_id if said and recording.is_resumable else ""

    def resume_command(self, workspace: Path, flags: Sequence[str] = (), *, named: bool) -> str:
        """The command that resumes the last session, empty for none; ``flags`` are those that it
        needs once more, ``named``: with its folder.
        """
        session_id = self.resumable
        if not session_id:
            return ""
        folder = f" --dir {shlex.quote(os.path.abspath(workspace))}" if named else ""
        return " ".join(
            [f"{find_program()} --resume {session_id}{folder}", *map(shlex.quote, flags)]
        )

    @property
    def folder(self) -> Path | None:
        """Where the last session is recorded; None while it is nowhere."""
        recording = self.recordings[-1] if self.recordings else None
        return recording.path if recording is not None and recording.is_resumable else None

    def freeze_older(self) -> None:
        """Only the last session goes on: of the others nothing more is recorded."""
        for recording in self.recordings[:-1]:
            recording.freeze()

    def forget_closed(self) -> None:
        """Forget the sessions whose records are all written."""
        last = self.recordings[-1:]
        self.recordings = [r for r in self.recordings if r in last or not r.is_closed]

    def freeze(self) -> None:
        """Record nothing more: what the end undoes did not happen to the session."""
        for recording in self.recordings:
            recording.freeze()

    def write_all(self) -> None:
        """Have all that was recorded on the disk; waits, where no loop runs any more."""
        for recording in self.recordings:
            recording.close_now()
