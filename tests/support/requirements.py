"""Which requirement rows the tests name, against the list in ``tests/requirements.txt``.

``python tests/support/requirements.py`` prints what is missing and exits 1 when something is.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
_ROW = re.compile(r"S[0-4]-\d+")


def wanted() -> set[str]:
    """The rows of the list."""
    lines = (TESTS / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return {row for line in lines if not line.startswith("#") for row in _ROW.findall(line)}


def named() -> dict[str, list[str]]:
    """Row → the tests whose docstring says ``Covers … <row>``; ids elsewhere do not count."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not node.name.startswith("test_"):
                continue
            covers = re.search(r"Covers(.*?)(\.|$)", ast.get_docstring(node) or "", re.DOTALL)
            for row in _ROW.findall(covers.group(1)) if covers else ():
                found.setdefault(row, []).append(f"{path.name}::{node.name}")
    return found


def missing() -> list[str]:
    """Rows of the list that no test names, in order."""
    rows = wanted() - set(named())
    return sorted(rows, key=lambda row: [int(n) for n in re.findall(r"\d+", row)])


if __name__ == "__main__":
    left = missing()
    print(f"{len(wanted()) - len(left)} of {len(wanted())} rows are named by a test")
    if left:
        print("not named: " + " ".join(left))
        sys.exit(1)
