"""The self-test of the sandbox, run inside it: try what must be possible there and what must not.

Run as ``python -I -S`` with one argument, the probes as JSON; prints the list of failures as JSON.
Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
from typing import Any


def probe_sandbox(probes: dict[str, Any]) -> list[str]:
    """Run the probes and return the names of those that fail: the workspace must be writable,
    folders outside and protected ones not, and the sockets unreachable.
    """
    wrong: list[str] = []
    if not _can_write(probes["root"]):
        wrong.append("workspace")
    for folder in probes["outside"]:
        if _can_write(folder):
            wrong.append(f"write {folder}")
    with contextlib.suppress(OSError):
        os.close(os.open(probes["witness"], os.O_CREAT | os.O_WRONLY, 0o666))
    for path in probes["closed"]:
        if os.path.isdir(path) and _can_write(path):
            wrong.append(f"write {path}")
    for name, family, address in (
        ("tcp", socket.AF_INET, ("127.0.0.1", probes["port"])),
        ("socket", socket.AF_UNIX, probes["socket"]),
        ("abstract socket", socket.AF_UNIX, "\0" + probes["abstract"]),
    ):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as asking:
                asking.settimeout(2)
                asking.connect(address)
        except OSError:
            continue
        wrong.append(name)
    return wrong


def _can_write(folder: str) -> bool:
    """Whether a file can be created in the folder; none is left there."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return False
        return os.access(folder, os.W_OK)
    except AttributeError:  # macOS has no such files
        return os.access(folder, os.W_OK)
    return True


if __name__ == "__main__":
    print(json.dumps(probe_sandbox(json.loads(sys.argv[1]))))
