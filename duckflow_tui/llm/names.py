"""Operation names as providers allow them: ``file_ops.read_file`` ↔ ``file_ops__read_file``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from duckflow_tui.state.base import digest

LONGEST: Final = 64  # characters that providers take for a function's name
_KEPT: Final = 55  # of a longer name, then "_" and 8 hex digits of its SHA-256

DECIDE: Final = "decide"  # the function that carries the judgement


def wire_name(operation: str) -> str:
    """The name on the wire, at most 64 characters of ``A-Z a-z 0-9 _ -``."""
    name = "".join(
        char if char.isascii() and (char.isalnum() or char in "_-") else "_"
        for char in operation.replace(".", "__")
    )
    if len(name) <= LONGEST:
        return name
    return f"{name[:_KEPT]}_{digest(operation)[:8]}"


def wire_names(operations: Iterable[str]) -> dict[str, str]:
    """Wire name → operation. Raises ValueError when two share a name, or one is ``decide``."""
    found: dict[str, str] = {}
    for operation in operations:
        name = wire_name(operation)
        if name == DECIDE:
            raise ValueError(f"{operation} would hide the function {DECIDE}")
        if found.setdefault(name, operation) != operation:
            raise ValueError(f"{operation} and {found[name]} are both {name} on the wire")
    return found
