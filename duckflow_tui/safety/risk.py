"""How risky a call is: the highest of operation, path and content (S4-66), with its reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duckflow_tui.safety.command_risk import assess_command
from duckflow_tui.safety.commands import CommandLine
from duckflow_tui.safety.names import (
    BINARY_SUFFIXES,
    EXECUTABLE_SUFFIXES,
    acts_by_itself,
    is_device_name,
    suffix,
)
from duckflow_tui.safety.place import Place
from duckflow_tui.safety.secrets import holds_secret
from duckflow_tui.state.operations import Effect, Risk, Zone

WIDE_FILES: Final = 10  # files in one call from which on the impact counts as wide (S4-63)
BULK_LINES: Final = 500  # lines that go away in one call: bulk data (S4-63)

_OF_EFFECT: Final = {
    Effect.READ: Risk.LOW,
    Effect.STATE: Risk.LOW,
    Effect.WRITE: Risk.LOW,
    Effect.MOVE: Risk.LOW,
    Effect.DELETE: Risk.MEDIUM,
    Effect.EXECUTE: Risk.MEDIUM,
    Effect.REMOTE: Risk.MEDIUM,
}

_CHANGES: Final = frozenset({Effect.WRITE, Effect.MOVE, Effect.DELETE})

_MAGIC: Final = (
    b"\x7fELF",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)

# Text that shows an order of words other than the one a compiler reads, or hides some of them.
_HIDING: Final = re.compile(
    "[\u00ad\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2069\U000e0000-\U000e007f]"
)


@dataclass
class Assessment:
    """The risk so far, and the codes of what it rests on."""

    risk: Risk
    reasons: list[str] = field(default_factory=list[str])

    def at_least(self, risk: Risk, reason: str) -> None:
        """Note a reason; it raises the risk to ``risk`` where that is higher."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        if risk.rank > self.risk.rank:
            self.risk = risk


def assess(
    effect: Effect,
    zone: Zone,
    places: tuple[Place, ...],
    content: bytes | None = None,
    removed_lines: int = 0,
    *,
    line: CommandLine | None = None,
    root: Path | None = None,
) -> Assessment:
    """Risk and reasons of a call; ``places`` of a move are source, then target, of a command
    ``line`` the folder it runs in. ``root`` is the workspace.
    """
    found = Assessment(_OF_EFFECT[effect])
    if line is not None and root is not None:
        cwd = places[0].real if places else root
        command = assess_command(line, cwd, root)
        found = Assessment(command.risk, list(command.reasons))
    changes = effect in _CHANGES
    _judge_zone(found, zone, changes)
    if any(place.leads_out for place in places):
        found.at_least(Risk.HIGH, "link_out")
    if any(place.secret for place in places):
        outside = any(place.zone is Zone.OUTSIDE for place in places)
        found.at_least(Risk.CRITICAL if outside else Risk.HIGH, "secret")
    if effect is Effect.DELETE:
        found.at_least(Risk.MEDIUM, "deletes")
    if changes:
        _judge_change(found, places, removed_lines)
    if content is not None:
        _judge_content(found, content)
    script = effect in (Effect.WRITE, Effect.MOVE) and any(_is_script(p) for p in places)
    if script or (content is not None and content.startswith(b"#!")):
        found.risk = found.risk.raised()
        found.reasons.append("executable_extension" if script else "executable_content")
    return found


def is_binary_program(places: Iterable[Place], content: bytes | None) -> bool:
    """Whether a write would put a program for a machine there: by its name or by its bytes."""
    if any(suffix(place.real.name) in BINARY_SUFFIXES for place in places):
        return True
    if content is None:
        return False
    windows = content.startswith(b"MZ") and b"\0" in content[:256]
    return windows or content.startswith(_MAGIC)


def _judge_zone(found: Assessment, zone: Zone, changes: bool) -> None:
    if zone is Zone.OUTSIDE:
        found.at_least(Risk.HIGH if changes else Risk.MEDIUM, "outside")
    elif zone is Zone.PROTECTED:
        found.at_least(Risk.CRITICAL, "protected")


def _judge_change(found: Assessment, places: tuple[Place, ...], removed_lines: int) -> None:
    if any(acts_by_itself(place.real.parts) for place in places):
        found.at_least(Risk.HIGH, "system_file")
    if len(places) >= WIDE_FILES:
        found.at_least(Risk.HIGH, "wide_impact")
    if removed_lines >= BULK_LINES:
        found.at_least(Risk.HIGH, "bulk_data")
    if any(place.is_link for place in places):
        found.at_least(Risk.MEDIUM, "through_link")
    if any("hard_link" in place.reasons for place in places):
        found.at_least(Risk.MEDIUM, "hard_link")
    if any(is_device_name(place.real.name) for place in places):
        found.at_least(Risk.MEDIUM, "device_name")


def _judge_content(found: Assessment, content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    if holds_secret(text):
        found.at_least(Risk.HIGH, "secret_content")
    if _HIDING.search(text):
        found.at_least(Risk.HIGH, "hidden_characters")


def _is_script(place: Place) -> bool:
    return suffix(place.real.name) in EXECUTABLE_SUFFIXES
