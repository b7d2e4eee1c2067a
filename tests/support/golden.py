"""Plain-text golden files: what a person should read when a text for a model changes."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "unit" / "golden"


def assert_golden(name: str, text: str) -> None:
    """Compare with ``golden/<name>.txt``; UPDATE_GOLDEN=1 writes it instead."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text + "\n", encoding="utf-8")
    assert path.is_file(), f"{path.name} is not there; UPDATE_GOLDEN=1 writes it"
    assert text + "\n" == path.read_text(encoding="utf-8")
