"""What other programs of the same user may learn of the app itself."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_SET_DUMPABLE: Final = 4  # of prctl


def shield() -> bool:
    """Close this process to others of the same user; whether that was done. Linux only.

    A command runs as the same user, and ``/proc/<pid>/environ`` or a debugger would give it the
    keys that its own environment was rid of. Not dumpable, the app is closed to both, and writes
    no core that holds them; its own ``/proc/self/fd`` stays open to it. What it starts is not
    shielded: that ends with ``exec``. Root reads on.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    none = ctypes.c_ulong(0)
    return libc.prctl(ctypes.c_int(_SET_DUMPABLE), none, none, none, none) == 0
