"""Starts an installed duckflow-tui, uses it in a terminal and looks at what it left.

    python .ci/smoke.py /path/to/venv/bin/duckflow-tui

Run with the development environment; the program may live in another one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import smoke

from duckflow_tui import __version__


def main(program: str) -> int:
    """Run every check; an AssertionError says which does not hold."""
    with tempfile.TemporaryDirectory(prefix="duckflow-smoke-") as folder:
        started = smoke.Program((str(Path(program).absolute()),), Path(folder).resolve())
        smoke.says_its_version(started, __version__)
        smoke.changes_a_file_when_trusted(started)
        smoke.changes_nothing_when_planning(started)
        smoke.approves_an_edit_with_keys(started)
    print("the installed program starts, asks, changes what was approved, and ends")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: smoke.py PATH_OF_DUCKFLOW_TUI")
    sys.exit(main(sys.argv[1]))
