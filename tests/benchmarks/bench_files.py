"""The file picker in a folder of 100,000 files, in a terminal."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from benchmarks.echo import LETTERS, one_key, p95_ms, rest
from benchmarks.processes import APP, fresh, terminal, to_rest
from benchmarks.rows import Row, row
from support.pty import Terminal

FILES = 100_000
FOLDERS = 400
FIRST_S = 0.2
KEY_MS = 35.0  # the budget of a key while other work runs
NEEDLE = "needle_of_this_haystack.txt"


def measure(*, quick: bool) -> list[Row]:
    """First matches when the picker opens and when it is narrowed, and keys meanwhile."""
    folder = _folder(FILES // 10 if quick else FILES)
    opened: list[float] = []
    narrowed: list[float] = []
    keys: list[float] = []
    with terminal(APP, cwd=folder) as of:
        to_rest(of)
        for _ in range(2 if quick else 4):
            opened.append(_seen(of, "@"))
            narrowed.append(_seen(of, "needle"))
            of.type(b"\x15")
            to_rest(of)
        for letter in LETTERS[: 8 if quick else 20]:
            of.type("@")  # opens the picker; the next key must not wait for it
            keys.append(one_key(of, letter))
            rest(of)
            of.type(b"\x15")
            rest(of)
    files = f"{FILES // 10 if quick else FILES:,} files"
    return [
        row(f"file picker, {files}, first matches", median(opened), FIRST_S, "s"),
        row(f"file picker, {files}, first matches of a name", median(narrowed), FIRST_S, "s"),
        row(f"file picker, {files}, key to echo meanwhile, p95", p95_ms(keys), KEY_MS, "ms"),
    ]


def _folder(count: int) -> Path:
    folder = fresh("files")
    each = count // FOLDERS
    for number in range(FOLDERS):
        inside = folder / f"package_{number:03}"
        inside.mkdir()
        for file in range(each):
            (inside / f"module_{file:03}.py").touch()
    (folder / "package_377" / NEEDLE).touch()
    return folder


def _seen(of: Terminal, keys: str) -> float:
    """Seconds until a file is offered; for a name, that very file."""
    words = b"module_" if keys == "@" else NEEDLE.encode()
    start = len(of.output)
    began = time.monotonic()
    of.type(keys)
    of.writes(words, start=start)
    return time.monotonic() - began
