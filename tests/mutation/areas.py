"""The parts of the program that are mutated, and the tests that have to notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = ("__init__.py", "goals/pace_log.py")  # no code; words for the developers' log


@dataclass(frozen=True, slots=True)
class Area:
    """Globs from the root of the repository. A file of two areas belongs to the first."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]


AREAS: Final = (
    Area(
        "gates",
        (
            "duckflow_tui/safety/desk.py",
            "duckflow_tui/state/gates.py",
            "duckflow_tui/tools/calls.py",
        ),
        (
            "tests/unit/test_state_*.py",
            "tests/unit/test_tools_calls.py",
            "tests/engine/test_own_consent.py",
            "tests/engine/test_rules.py",
            "tests/engine/test_safety_gates.py",
            "tests/engine/test_sandbox_consent.py",
            "tests/engine/test_tools_*.py",
            "tests/engine/test_loops_*.py",
            "tests/engine/test_session_resume*.py",
            "tests/faults/test_loops_work.py",
        ),
    ),
    Area(
        "safety",
        ("duckflow_tui/safety/*.py",),
        (
            "tests/unit/test_safety_*.py",
            "tests/engine/test_own_consent.py",
            "tests/engine/test_rules.py",
            "tests/engine/test_safety_*.py",
            "tests/engine/test_sandbox_consent.py",
            "tests/faults/test_safety_*.py",
            "tests/faults/test_command_hosts.py",
            "tests/engine/test_tools_*.py",
        ),
    ),
    Area(
        "plans",
        (
            "duckflow_tui/plans/*.py",
            "duckflow_tui/state/plan*.py",
            "duckflow_tui/tools/plan_operations.py",
        ),
        (
            "tests/unit/test_state_*.py",
            "tests/unit/test_plans_*.py",
            "tests/unit/test_tools_registry.py",
            "tests/engine/test_ledger.py",
            "tests/engine/test_loops_*.py",
            "tests/engine/test_session_resume*.py",
            "tests/engine/test_tempers.py",
            "tests/faults/test_loops_work.py",
        ),
    ),
    Area(
        "pacing",
        ("duckflow_tui/goals/*.py", "duckflow_tui/state/pace.py", "duckflow_tui/state/goal.py"),
        (
            "tests/unit/test_state_*.py",
            "tests/unit/test_pacing_*.py",
            "tests/unit/test_goals_*.py",
            "tests/unit/test_loops_judging.py",
            "tests/engine/test_ledger.py",
            "tests/engine/test_loops_*.py",
            "tests/engine/test_session_resume*.py",
            "tests/engine/test_tempers.py",
            "tests/engine/test_working_memory.py",
        ),
    ),
    Area(
        "session",
        ("duckflow_tui/session/*.py",),
        (
            "tests/unit/test_session_*.py",
            "tests/unit/test_tools_blobs.py",
            "tests/engine/test_decisions.py",
            "tests/engine/test_ledger.py",
            "tests/engine/test_network.py",
            "tests/engine/test_rules.py",
            "tests/engine/test_session*.py",
            "tests/engine/test_tools_memory.py",
            "tests/engine/test_trust.py",
            "tests/engine/test_working_memory.py",
            "tests/faults/test_session_[djs]*.py",  # not those that kill a process at each place
            "tests/ui/test_ui_decisions.py",
            "tests/ui/test_ui_replay.py",
        ),
    ),
    Area(
        "keys",
        (
            "duckflow_tui/commands.py",
            "duckflow_tui/engine.py",
            "duckflow_tui/ui/app.py",
            "duckflow_tui/ui/bindings.py",
            "duckflow_tui/ui/early_keys.py",
            "duckflow_tui/ui/panes/key_guard.py",
        ),
        (
            "tests/unit/test_commands.py",
            "tests/unit/test_ui_*.py",
            "tests/engine/test_headless_commands.py",
            "tests/engine/test_inbox.py",
            "tests/engine/test_loops_turn.py",
            "tests/engine/test_model_change.py",
            "tests/engine/test_rules.py",
            "tests/engine/test_session_resume.py",
            "tests/engine/test_session_switch.py",
            "tests/engine/test_tools_memory.py",
            "tests/engine/test_tools_undo.py",
            "tests/engine/test_trust.py",
            "tests/engine/test_working_memory.py",
            "tests/ui/test_ui_*keys*.py",
            "tests/ui/test_ui_bursts.py",
            "tests/ui/test_ui_composer.py",
            "tests/ui/test_ui_context.py",
            "tests/ui/test_ui_diff_verdict.py",
            "tests/ui/test_ui_gate_focus.py",
            "tests/ui/test_ui_ledger.py",
            "tests/ui/test_ui_memory.py",
            "tests/ui/test_ui_models.py",
            "tests/ui/test_ui_plan*.py",
            "tests/ui/test_ui_rewind.py",
            "tests/ui/test_ui_sessions.py",
            "tests/ui/test_ui_shell_interrupt.py",
            "tests/ui/test_ui_shell_panes.py",
            "tests/ui/test_ui_shell_start.py",
            "tests/ui/test_ui_shell_terminal.py",
            "tests/ui/test_ui_transcript.py",
            "tests/ui/test_ui_vitals.py",
        ),
    ),
)


def sources_of(area: Area, root: Path) -> list[Path]:
    """The files of an area that belong to no area before it, relative to ``root``."""
    before = AREAS[: AREAS.index(area)]
    taken = {path for other in before for path in _found(root, other.sources)}
    return sorted(path for path in _found(root, area.sources) if path not in taken)


def tests_of(area: Area, root: Path) -> list[Path]:
    """The files of its tests, relative to ``root``. Pictures only repeat what others say."""
    found = set(_found(root, area.tests))
    return sorted(path for path in found if "pictures" not in path.name)


def _found(root: Path, globs: tuple[str, ...]) -> Iterator[Path]:
    for glob in globs:
        paths = list(root.glob(glob))
        if not paths:
            raise SystemExit(f"the table of areas names {glob}, and no such file is there")
        for path in paths:
            if not path.as_posix().endswith(_LEFT_OUT):
                yield path.relative_to(root)
