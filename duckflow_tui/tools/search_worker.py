"""Searches files for a pattern in a process of its own, which can be killed; standard library only.

Reads from standard input one line of JSON with ``pattern`` (a regular expression), ``width``
(characters of a line that are shown) and ``context`` (lines shown around each match), then paths
below the working directory, each ended by NUL. Writes ``path NUL line-number : column : text LF``,
the column in bytes from 1; for a line that only stands near a match ``path NUL line-number - text
LF``. Exit status 2 and a message for a wrong pattern.
"""

from __future__ import annotations

import contextlib
import io
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
_PIECE = 1_000_000  # bytes of a line, or characters in UTF-16, that are searched at once
_CPU_S = 60  # over any limit of the program's: ends a search that lost the program
_MEMORY = 1 << 30  # bytes; some expressions take more the longer they search


def _limit_resources() -> None:
    """Let the system end the process when a pattern keeps it busy and nobody is there to, or takes
    all memory.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    with contextlib.suppress(OSError, ValueError):  # not on macOS
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def main() -> int:
    """Run one search; returns the exit status."""
    _limit_resources()
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
            matched = 0  # the newest line that matched
            for number, offset, line in _iter_pieces(file):
                found = pattern.search(line) if number != matched else None
                if offset and not found:
                    continue  # the first piece tells of a line, and the first one that matches
                mark = "-"
                if found:
                    matched = number
                    column = offset + len(line[: found.start()].encode("utf-8", "replace")) + 1
                    mark = f":{column}:"
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


def _iter_pieces(file: BinaryIO) -> Iterator[tuple[int, int, str]]:
    """The lines of a text file in pieces that fit into memory: the number of the line from 1, bytes
    of it before the piece, and the piece. Of a binary file there are none.
    """
    head = file.read(_SNIFFED)
    file.seek(0)
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in head and not wide:
        return
    text = io.TextIOWrapper(
        file, encoding="utf-16" if wide else "utf-8", errors="replace", newline="\n"
    )
    number, offset = 1, 0
    while piece := text.readline(_PIECE):
        yield number, offset, piece.rstrip("\r\n")
        if piece.endswith("\n"):
            number, offset = number + 1, 0
        else:
            offset += len(piece.encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())
