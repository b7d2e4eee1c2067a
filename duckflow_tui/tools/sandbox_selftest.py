"""Tries in a sandbox what has to be possible there and what must not be: the self-test.

Run with ``python -I -S`` as a command in the sandbox, with one argument, what to try, as JSON;
prints what is wrong as a list. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
from typing import Any


def probe_sandbox(asked: dict[str, Any]) -> list[str]:
    """The rules that do not hold here, in either direction; run in the sandbox as a command."""
    wrong: list[str] = []
    if not _can_write(asked["root"]):
        wrong.append("workspace")
    for folder in asked["outside"]:
        if _can_write(folder):
            wrong.append(f"write {folder}")
    with contextlib.suppress(OSError):
        os.close(os.open(asked["witness"], os.O_CREAT | os.O_WRONLY, 0o666))
    for path in asked["closed"]:
        if os.path.isdir(path) and _can_write(path):
            wrong.append(f"write {path}")
    for name, family, address in (
        ("tcp", socket.AF_INET, ("127.0.0.1", asked["port"])),
        ("socket", socket.AF_UNIX, asked["socket"]),
        ("abstract socket", socket.AF_UNIX, "\0" + asked["abstract"]),
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
    """Whether a file can be made there; leaves none."""
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
