"""What a run of the project's tests says, read from the result of its command."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from duckflow_tui.scripted.scene import Result, Scene
from duckflow_tui.state.base import JsonObject

RUN: Final = "shell.run"

_EXIT: Final = re.compile(r"exit (\d+)")
_BAD: Final = re.compile(r"^(?:FAIL|ERROR): (\S+)", re.M)
_TELLING: Final = re.compile(
    r"^(?:(?:FAIL|ERROR): \S+|\w*Error: .*|Ran \d+ tests? .*|OK.*|FAILED .*)", re.M
)
_CHANGES: Final = frozenset({"file_ops.edit_file", "file_ops.write_file"})
_LINES: Final = 12  # of the output that are quoted


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One run. ``kind`` is ``green``, ``red``, or ``unrun`` where there was none."""

    kind: str
    failing: tuple[str, ...] = ()  # names of tests and of files that could not be loaded
    quote: str = ""  # the telling lines of the output, as they were printed

    @property
    def failed(self) -> str:
        """The names for a sentence."""
        return ", ".join(f"`{name}`" for name in self.failing)

    @property
    def line(self) -> str:
        """How many ran, and how it ended, on one line."""
        return " · ".join(self.quote.split("\n")[-2:])


NONE: Final = SuiteRun("unrun")


def run_of(result: Result | None) -> SuiteRun:
    """What a result of shell.run says of the tests."""
    found = _EXIT.match(result.text) if result is not None and result.outcome == "ok" else None
    if result is None or found is None:
        return NONE
    output = result.text.partition("\n")[2]
    told = [match.group().rstrip() for match in _TELLING.finditer(output)]
    quote = "\n".join(told[-_LINES:]) or output.strip()
    if found[1] == "0":
        return SuiteRun("green", (), quote)
    return SuiteRun("red", tuple(dict.fromkeys(_BAD.findall(output))), quote)


def last_run(scene: Scene) -> SuiteRun:
    """The newest run since the user spoke and since the last change of a file."""
    for result in reversed(scene.results):
        if result.operation == RUN:
            return run_of(result)
        if result.operation in _CHANGES and result.outcome == "ok":
            return NONE
    return NONE


def run_tests(command: str, words: dict[str, str]) -> JsonObject:
    """The call that runs them."""
    return {
        "operation": RUN,
        "args": {"command": command},
        "reasoning": words["why"],
        "intent": words["intent"],
    }
