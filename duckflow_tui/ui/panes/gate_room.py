"""How the lines of a gate's card are shared out among its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_LEAST: Final = (1, 1, 2)  # lines without which points, arguments and diff say nothing
_POINTS: Final = 7  # lines that the points get before arguments and diff get more than the least
_FAIR: Final = (_POINTS, 3, 6)  # lines they get before another part gets all it wants


@dataclass(frozen=True, slots=True)
class Wants:
    """Lines that each part would take whole; 0 where it has nothing to show."""

    keys: int
    points: int
    arguments: int
    diff: int


@dataclass(frozen=True, slots=True)
class Shares:
    """Lines that each part gets; together with the keys never more than there are."""

    points: int
    arguments: int
    diff: int


def shares(wants: Wants, height: int, stage: int) -> Shares:
    """Share ``height`` lines: the four points first, then the arguments, the rest to the diff.

    ``stage`` is the part being paged through. It gets its fair part at the points' cost, and
    where the parts cannot stand together it has all the room.
    """
    room = max(0, height - wants.keys)
    parts = (wants.points, wants.arguments, wants.diff)
    least = [min(want, some) for want, some in zip(parts, _LEAST, strict=True)]
    if sum(least) > room:
        chosen = stage if parts[stage] else next((n for n in range(3) if parts[n]), 0)
        return Shares(*(room if number == chosen else 0 for number in range(3)))
    given, least_points = least, least[0]
    points = max(_POINTS, room // 2)
    for some in ((points, 0, 0), _FAIR, parts):
        for number, want in enumerate(parts):
            more = min(want, some[number]) - given[number]
            spare = room - sum(given)
            given[number] += max(0, min(more, spare))
    lacking = max(0, min(parts[stage], _FAIR[stage]) - given[stage])
    if stage:
        moved = min(lacking, given[0] - least_points)
        given[0] -= moved
        given[stage] += moved
    return Shares(*given)
