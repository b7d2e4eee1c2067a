"""The parts of the program that are mutated, and the tests that may notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = ("__init__.py",)  # no code

#: What any mutation may be noticed by. Tests of a process that is started see only what is printed
#: at its end, and those of pictures repeat what others say: both take long.
_TESTS: Final = tuple(f"tests/{folder}/test_*.py" for folder in ("unit", "engine", "faults", "ui"))
_NO_TESTS: Final = (
    "tests/faults/test_session_kill_*.py",
    "tests/ui/test_ui_*pictures.py",
    "tests/ui/test_ui_*snapshots.py",
)


@dataclass(frozen=True, slots=True)
class Area:
    """Globs from the root of the repository. A file of two areas belongs to the first."""

    name: str
    sources: tuple[str, ...]


AREAS: Final = (
    Area(
        "gates",
        (
            "duckflow_tui/safety/pending_questions.py",
            "duckflow_tui/state/gates.py",
            "duckflow_tui/tools/calls.py",
        ),
    ),
    Area("safety", ("duckflow_tui/safety/*.py",)),
    Area(
        "plans",
        (
            *(
                f"duckflow_tui/work/{name}.py"
                for name in ("actions", "desk", "propose", "report", "run", "step", "tasks")
            ),
            "duckflow_tui/state/plan*.py",
            "duckflow_tui/work/plan_operations.py",
        ),
    ),
    Area(
        "pacing",
        ("duckflow_tui/work/*.py", "duckflow_tui/state/pace.py", "duckflow_tui/state/goal.py"),
    ),
    Area("session", ("duckflow_tui/session/*.py",)),
    Area(
        "keys",
        (
            "duckflow_tui/commands.py",
            "duckflow_tui/engine.py",
            "duckflow_tui/ui/app.py",
            "duckflow_tui/ui/bindings.py",
            "duckflow_tui/ui/early_keys.py",
            "duckflow_tui/ui/key_queue.py",
            "duckflow_tui/ui/panes/key_guard.py",
            "duckflow_tui/ui/terminal_input.py",
            "duckflow_tui/ui/terminal_sequences.py",
        ),
    ),
)


def sources_of(area: Area, root: Path) -> list[Path]:
    """The files of an area that belong to no area before it, relative to ``root``."""
    before = AREAS[: AREAS.index(area)]
    taken = {path for other in before for path in _found(root, other.sources)}
    return sorted(path for path in _found(root, area.sources) if path not in taken)


def all_tests(root: Path) -> list[Path]:
    """The files of the tests that may notice, relative to ``root``."""
    left_out = set(_found(root, _NO_TESTS))
    return sorted(path for path in _found(root, _TESTS) if path not in left_out)


def _found(root: Path, globs: tuple[str, ...]) -> Iterator[Path]:
    for glob in globs:
        paths = list(root.glob(glob))
        if not paths:
            raise SystemExit(f"the table of areas names {glob}, and no such file is there")
        for path in paths:
            if not path.as_posix().endswith(_LEFT_OUT):
                yield path.relative_to(root)
