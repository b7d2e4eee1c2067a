"""Searches files for a pattern in a process of its own, which can be killed; standard library only.

Reads from standard input one line of JSON with ``pattern`` (a regular expression), ``width``
(characters of a line that are shown) and ``context`` (lines shown around each match), then paths
below the working directory, each ended by NUL. Writes ``path NUL line-number : column : text LF``,
the column in bytes from 1; for a line that only stands near a match ``path NUL line-number - text
LF``. Exit status 2 and a message for a wrong pattern.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from io import BufferedReader
from typing import BinaryIO, cast

_SNIFFED = 8_192
_CPU_S = 60  # over any limit of the program's: ends a search that lost the program


def _limit_time() -> None:
    """Let the system end the process when a pattern keeps it busy and nobody is there to."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))


def main() -> int:
    """Run one search; returns the exit status."""
    _limit_time()
    source, sink = cast("BufferedReader", sys.stdin.buffer), sys.stdout.buffer
    order = json.loads(source.readline())
    width: int = order["width"]
    warnings.simplefilter("error")  # for what ripgrep reads otherwise, such as [[:alpha:]]
    try:
        pattern = re.compile(order["pattern"])
    except (re.error, OverflowError, RecursionError, Warning) as error:
        sys.stderr.write(f"regex parse error: {error}")
        return 2
    for path in _iter_paths(source):
        file = _open_file(path)
        if file is None:
            continue
        before: deque[bytes] = deque(maxlen=order["context"])
        after = 0  # lines to come that stand near a match
        with file:
            for number, line in _iter_lines(file):
                found = pattern.search(line)
                mark = "-"
                if found:
                    mark = f":{len(line[: found.start()].encode('utf-8', 'replace')) + 1}:"
                shown = f"{mark}{line[:width]}".encode("utf-8", "replace")
                row = b"%s\0%d%s\n" % (path, number, shown)
                if found or after:
                    sink.writelines(before)
                    sink.write(row)
                    sink.flush()
                    before.clear()
                    after = order["context"] if found else after - 1
                else:
                    before.append(row)
    return 0


def _iter_paths(source: BufferedReader) -> Iterator[bytes]:
    tail = b""
    while chunk := source.read1(65_536):
        *paths, tail = (tail + chunk).split(b"\0")
        yield from paths


def _open_file(path: bytes) -> BinaryIO | None:
    """A regular file below the working directory, no component of its path a link."""
    *folders, name = path.split(b"/")
    here = os.open(".", os.O_RDONLY)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    except OSError:
        return None
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    return os.fdopen(file, "rb")


def _iter_lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    head = file.read(_SNIFFED)
    file.seek(0)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        for number, line in enumerate(file.read().decode("utf-16", "replace").split("\n"), 1):
            yield number, line.rstrip("\r")
        return
    if b"\0" in head:
        return
    for number, raw in enumerate(file, 1):
        yield number, raw.decode("utf-8", "replace").rstrip("\r\n")


if __name__ == "__main__":
    sys.exit(main())
