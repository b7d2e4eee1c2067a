"""How risky a command line is, from the line alone: whether it can be read, and which secret files
it names. No program is known by its name: what holds a command is the sandbox.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from duckflow_tui.safety.command_parsing import CommandLine, iter_pieces
from duckflow_tui.safety.names import is_secret
from duckflow_tui.state.operations import Risk


@dataclass
class Assessment:
    """The risk so far, and the codes of what it rests on, the first found first."""

    risk: Risk
    reasons: list[str] = field(default_factory=list[str])
    #: Where a command's words for secret files lead, links not followed; a pattern stays one.
    secrets: set[str] = field(default_factory=set[str])

    def add_reason(self, reason: str, risk: Risk) -> None:
        """Add a reason; it raises the risk to ``risk`` where that is higher."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.risk = max(self.risk, risk, key=attrgetter("rank"))


def assess_command(line: CommandLine, cwd: Path) -> Assessment:
    """The risk of a line that would run in ``cwd``, with nothing to hold it: MEDIUM, and HIGH where
    it cannot be read, holds hidden characters or names a secret file.
    """
    found = Assessment(Risk.MEDIUM)
    if line.reason == "hidden":
        found.add_reason("hidden_characters", Risk.HIGH)
    if not line.readable:
        found.add_reason("not_readable", Risk.HIGH)
    folders = [cwd]  # the line may have changed into any of them
    for words in line.found:
        if words[:1] == ("cd",):
            folders += [cwd / word for word in words[1:]]
        for word in words:
            for text in iter_pieces(word):
                _add_secret(found, text, folders)
    for file in line.files:
        _add_secret(found, file, folders)
    return found


def _add_secret(found: Assessment, text: str, folders: list[Path]) -> None:
    """Note the secret file that a piece of a line names: ``.env``, ``--file=.env``."""
    path = text.rpartition("=")[2]
    names = [name for name in path.split("/") if name not in ("", ".")]
    if names and is_secret(names):
        found.add_reason("secret", Risk.HIGH)
        found.secrets |= {os.path.normpath(folder / path) for folder in folders}
