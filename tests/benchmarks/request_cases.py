"""Ten requests to a model, and what the project must be afterwards."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duckflow_tui.scripted.stories import list_requests

Files = dict[str, str]  # path → digest of its content

_LITTER: Final = ("__pycache__", ".pytest_cache")
_MISSING_FILE: Final = "notes/todo.md"


@dataclass(frozen=True, slots=True)
class After:
    """What there is once a request is over."""

    workspace: Path
    before: Files
    reply: str

    @property
    def untouched(self) -> bool:
        """Whether every file is as it was."""
        return files_of(self.workspace) == self.before

    @property
    def green(self) -> bool:
        """Whether the project's tests pass."""
        command = [sys.executable, "-m", "unittest", "-q"]
        ran = subprocess.run(command, cwd=self.workspace, capture_output=True, timeout=60)
        return ran.returncode == 0

    def says(self, path: str, pattern: str) -> bool:
        """Whether a file is there and holds this, whatever the case."""
        file = self.workspace / path
        return file.is_file() and bool(re.search(pattern, file.read_text("utf-8"), re.I))


@dataclass(frozen=True, slots=True)
class Case:
    """One request. ``advice`` is what the user knows when the work is stuck."""

    name: str
    text: str
    as_wanted: Callable[[After], bool]
    advice: str = "Take what the project shows, and say what you could not find out."


def files_of(workspace: Path) -> Files:
    """The files of a project, without what running its tests leaves."""
    return {
        str(path.relative_to(workspace)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and not any(part in _LITTER for part in path.parts)
    }


_REQUESTS: Final = list_requests("en")

CASES: Final = (
    Case("small talk", "Good morning, duck!", lambda after: after.untouched),
    Case(
        "simple question",
        "What does the HTTP status 404 mean?",
        lambda after: after.untouched and "not found" in after.reply.lower(),
    ),
    Case(
        "read-only analysis",
        "Explain how src/shop/receipt.py uses src/shop/pricing.py. Change nothing.",
        lambda after: after.untouched and "to_cents" in after.reply,
    ),
    Case(
        "two operations",
        "Write docs/discounts.md, one sentence on discounts, and docs/index.md that links to it.",
        lambda after: (
            after.says("docs/discounts.md", "discount")
            and after.says("docs/index.md", r"discounts\.md")
        ),
    ),
    Case("edit with a check", _REQUESTS["bug"], lambda after: after.green),
    Case(
        "requirement missed, then met",
        _REQUESTS["savings"],
        lambda after: (
            after.says("src/shop/pricing.py", r"def savings\(") and after.says("README.md", "sav")
        ),
    ),
    Case(
        "stuck, then told",
        _REQUESTS["tax"],
        lambda after: after.says("src/shop/pricing.py", r"TAX_RATE\b.*0?\.08\b"),
        advice="It is 8 %.",
    ),
    Case(
        "plan",
        _REQUESTS["plan"],
        lambda after: (
            after.says("src/shop/pricing.py", "loyal")
            and after.says("README.md", "regular customers|loyal")
            and after.says("src/shop/receipt.py", "loyal")
        ),
    ),
    Case(
        "failing tool",
        f"Read {_MISSING_FILE} and tell me its first entry; say so if there is none.",
        lambda after: after.untouched,
    ),
    Case("in Japanese", list_requests("ja")["bug"], lambda after: after.green),
)
