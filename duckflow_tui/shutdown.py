"""The end of a process: its sessions are frozen and written, and the command to resume the last one
is made.
"""

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
    """Return the shell words that start this program: its name, its file, or Python with the
    module.
    """
    name = "duckflow-tui"
    if shutil.which(name):
        return name
    try:
        started = Path(sys.argv[0]).absolute()
    except OSError:  # the working directory was deleted
        started = Path()
    if started.name == name and os.access(started, os.X_OK):
        return shlex.quote(str(started))
    return f"{shlex.quote(sys.executable)} -m duckflow_tui"


class Ending:
    """The sessions of a process, to be frozen and written when it ends. Sessions of the demo cannot
    be resumed, because their endpoint ends with them.
    """

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.fault: SessionFault | None = None  # why a session could not be resumed
        self.recordings: list[Recording] = []
        self._newest: tuple[Recording, Store] | None = None

    @property
    def kept_project(self) -> Path | None:
        """The folder of the demo's project, which is kept where something in it changed;
        else None.
        """
        return next((stage.kept for stage in self.stages if stage.kept is not None), None)

    def watch_session(self, recording: Recording, store: Store, *, resumable: bool) -> None:
        """Add a session that was opened. If it is ``resumable``, its resume command is printed at
        the end; if not, none is.
        """
        self.recordings.append(recording)
        self._newest = (recording, store) if resumable else None

    @property
    def resumable(self) -> str:
        """The id of the last session, where something was said in it and it can be resumed; else
        empty.
        """
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
        """Return the command that resumes the last session, empty for none. ``flags`` are appended;
        ``named``: with ``--dir``.
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
        """The folder of the last session; None where it is not recorded."""
        recording = self.recordings[-1] if self.recordings else None
        return recording.path if recording is not None and recording.is_resumable else None

    def freeze_older(self) -> None:
        """Stop the recording of all sessions but the last."""
        for recording in self.recordings[:-1]:
            recording.freeze()

    def forget_closed(self) -> None:
        """Forget the sessions whose journals are closed, except the last."""
        last = self.recordings[-1:]
        self.recordings = [r for r in self.recordings if r in last or not r.is_closed]

    def freeze(self) -> None:
        """Stop all recording, so that work cancelled by the end of the process is not recorded."""
        for recording in self.recordings:
            recording.freeze()

    def write_all(self) -> None:
        """Write all records to disk and close the journals. Blocks; for use when no loop runs any
        more.
        """
        for recording in self.recordings:
            recording.close_now()
