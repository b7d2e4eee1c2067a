"""A line of the report: what was measured, against which limit, and why it was missed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Row = dict[str, Any]
REASONS = Path(__file__).with_name("reasons.toml")


def row(
    what: str,
    measured: float,
    limit: float,
    unit: str,
    *,
    at_least: bool = False,
    beside: dict[str, float] | None = None,
) -> Row:
    """A line; met when not above the limit, or with ``at_least`` not below it.

    ``beside`` holds what was measured next to it in the same run, to read the number by.
    """
    met = measured >= limit if at_least else measured <= limit
    made: Row = {
        "what": what,
        "measured": rounded(measured),
        "limit": rounded(limit),
        "met": met,
        "unit": unit,
    }
    if beside:
        made["beside"] = {name: rounded(value) for name, value in beside.items()}
    return made


def explained(line: Row) -> Row:
    """The line with its reason when it is missed."""
    if line["met"]:
        return line
    return {**line, "why": _reasons().get(_without_sizes(line["what"]), "not known yet")}


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def rounded(value: float) -> float:
    """Three significant places, for a number that varies in the second."""
    return float(f"{value:.3g}") if abs(value) < 1000 else round(value)


def table(lines: Iterable[Row]) -> str:
    """The lines for people: aligned, with the reasons below the rows they belong to."""
    cells: list[tuple[str, str, str, str]] = [("", "what", "measured", "limit")]
    whys: list[str] = [""]
    for line in lines:
        unit = line["unit"]
        beside = ", ".join(f"{name} {value:g}" for name, value in line.get("beside", {}).items())
        cells.append(
            (
                "✓" if line["met"] else "✗",
                line["what"] + (f" ({beside})" if beside else ""),
                f"{line['measured']:g} {unit}",
                f"{line['limit']:g} {unit}",
            )
        )
        whys.append(line.get("why", ""))
    text: list[str] = []
    for line, why in zip(aligned(cells, left=(0, 1)).split("\n"), whys, strict=True):
        text.append(line)
        if why:
            text.append(f"   why: {why}")
    return "\n".join(text)


def aligned(cells: Sequence[Sequence[str]], *, left: Sequence[int]) -> str:
    """Rows of cells as columns, those ``left`` flush left and the others flush right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            f"{text:{'<' if at in left else '>'}{widths[at]}}" for at, text in enumerate(cell)
        )
        for cell in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


@cache
def _reasons() -> dict[str, str]:
    table = tomllib.loads(REASONS.read_text("utf-8"))
    return {_without_sizes(what): str(why) for what, why in table.items()}


def _without_sizes(what: str) -> str:
    """``--quick`` measures the same with smaller numbers."""
    return re.sub(r"[\d,]+", "#", what)
