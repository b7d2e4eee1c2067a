"""One writer for each session, held by the system and gone with the process."""

from __future__ import annotations

import fcntl
import os
from typing import Final

from duckflow_tui.session.faults import SessionInUse
from duckflow_tui.session.session_files import SessionFolder

NAME: Final = "lock"
_LONGEST: Final = 20  # bytes of a process id


class SessionLock:
    """Held from ``take`` to ``release``. The file stays: its name is what others wait at."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, folder: SessionFolder) -> SessionLock:
        """Raises SessionInUse when another holds it, OSError where there can be no lock."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(NAME, flags, 0o600, dir_fd=folder.descriptor)
        try:
            os.fchmod(descriptor, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            pid = os.pread(descriptor, _LONGEST, 0).strip()
            os.close(descriptor)
            raise SessionInUse(folder.path, int(pid) if pid.isdigit() else 0) from None
        except OSError:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Let others write; once is enough."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
