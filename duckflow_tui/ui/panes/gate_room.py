"""How the lines of a gate's card are shared out among its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_LEAST_DIFF: Final = 3  # lines: two of the file and the one that counts the rest
_POINTS: Final = 7  # lines that the points get before arguments and diff get more than the least
_FAIR: Final = (_POINTS, 3, 6)  # lines they get before another part gets all it wants


@dataclass(frozen=True, slots=True)
class Wants:
    """Lines that each part would take whole; 0 where it has nothing to show."""

    keys: int
    points: int
    arguments: int
    diff: int
    least_points: int = 1  # lines that name every point, each cut to one


@dataclass(frozen=True, slots=True)
class Shares:
    """Lines that each part gets; together with the keys never more than there are."""

    points: int
    arguments: int
    diff: int


def shares(wants: Wants, height: int, stage: int | None) -> Shares:
    """Share ``height`` lines: a line of each point first, then arguments and diff.

    ``stage`` is the part being paged through, None before the first page. It gets more at the
    others' cost, but every point keeps its line. Where not even that has room, the part at hand
    has all of it.
    """
    room = max(0, height - wants.keys)
    parts = (wants.points, wants.arguments, wants.diff)
    # The line that counts what is left of the diff can stand alone until the diff is read.
    diff = 2 if stage == 2 or wants.least_points <= 1 else 1
    tight = [min(wants.points, wants.least_points), min(1, parts[1]), min(diff, parts[2])]
    if sum(tight) > room:
        chosen = stage if stage and parts[stage] else next((n for n in range(3) if parts[n]), 0)
        return Shares(*(room if number == chosen else 0 for number in range(3)))
    given = list(tight)
    points = max(_POINTS, room // 2)
    for some in ((0, 1, _LEAST_DIFF), (points, 0, 0), _FAIR, parts):
        for number, want in enumerate(parts):
            more = min(want, some[number]) - given[number]
            spare = room - sum(given)
            given[number] += max(0, min(more, spare))
    if stage is not None:
        # The points, being read, may take all; a page of another part takes from the points.
        wanted = parts[0] if stage == 0 else min(parts[stage], _FAIR[stage])
        for number in (1, 2) if stage == 0 else (0,):
            moved = max(0, min(wanted - given[stage], given[number] - tight[number]))
            given[number] -= moved
            given[stage] += moved
    return Shares(*given)
