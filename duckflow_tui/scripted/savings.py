"""The story of a requirement that is missed: the first attempt forgets the README, the review
finds it missing, the second attempt brings it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from duckflow_tui.scripted.project import (
    CODE,
    README,
    SAVINGS_EDITS,
    SAVINGS_README_EDITS,
    SAVINGS_TEST_FILE,
    SAVINGS_TESTS,
    has_savings,
)
from duckflow_tui.scripted.scene import Result, Scene
from duckflow_tui.scripted.suite import RUN, last_run, run_tests
from duckflow_tui.scripted.wording import filled
from duckflow_tui.scripted.writing import action, asks, decision, ends, goes_on
from duckflow_tui.state.base import JsonObject

_READ: Final = "file_ops.read_file"
_CHANGES: Final = ("file_ops.edit_file", "file_ops.write_file")
_NAME: Final = "`savings`"  # what the README says when it says it

ABOUT: Final = re.compile(r"\bsavings\b|いくら得", re.I | re.A)


def savings_command(command: str) -> str:
    """What runs the tests of this story alone, where ``command`` runs all of the project's."""
    return f"{command} tests.test_savings"


class SavingsWriter:
    """Writes one decision. ``command`` runs the project's tests."""

    def __init__(self, scene: Scene, words: dict[str, Any], command: str, tax: str) -> None:
        self._scene = scene
        self._words = words
        self._command = savings_command(command)
        self._tax = tax  # another request that the demo knows

    def write(self) -> tuple[str, JsonObject]:
        """What the model thinks first, and the decision."""
        beat = self._beat()
        texts = self._words[beat]
        says = self._filled(str(texts["says"]))
        made = decision(texts["rationale"], self._words["goal"], says, self._course(beat))
        return str(texts.get("thinks", "")), made

    # --- which beat comes next ---------------------------------------------------------------

    def _beat(self) -> str:
        scene = self._scene
        if scene.missing:
            return "attend" if self._lacks_readme() else "still_open"
        if not scene.latest:
            return "look"
        if (bad := next((r for r in scene.latest if r.outcome != "ok"), None)) is not None:
            return self._refused(bad)
        if any(result.operation in _CHANGES for result in scene.latest):
            return "documented" if f"changed {README}" in scene.latest[-1].text else "run"
        if scene.latest[-1].operation == RUN:
            return "done"
        return self._after_reading()

    def _after_reading(self) -> str:
        read = self._scene.latest[-1].text
        if read.startswith(f"[{README}:"):
            return "documented" if _NAME in read else "document"
        return "already" if has_savings(read) else "write"

    def _refused(self, bad: Result) -> str:
        match bad.outcome:
            case "rejected" | "declined":
                return "refused"
            case "denied":
                return "done" if bad.operation == RUN else "denied"
            case _:
                return "gave_up"

    def _lacks_readme(self) -> bool:
        wanted = str(self._words["requirements"][2])
        return any(what.startswith(wanted) for what in self._scene.missing)

    # --- what a beat does --------------------------------------------------------------------

    def _course(self, beat: str) -> JsonObject:
        match beat:
            case "look":
                return {
                    **goes_on("EXECUTION", 0.8, self._read("code", CODE)),
                    "task_profile": "MULTI_STEP_TASK",
                    "requirements": self._requirements(),
                    "state_delta": {
                        "goal": self._words["goal"],
                        "why_now": self._words["why_now"],
                        "plan_brief": self._words["plan"],
                    },
                }
            case "write":
                return goes_on(
                    "EXECUTION",
                    0.85,
                    self._change("code", CODE, edits=SAVINGS_EDITS),
                    self._change("tests", SAVINGS_TESTS, content=SAVINGS_TEST_FILE),
                )
            case "run":
                return goes_on("REVIEW", 0.85, run_tests(self._command, self._words["run_call"]))
            case "attend":
                return goes_on("EXECUTION", 0.8, self._read("readme", README))
            case "document":
                change = self._change("readme", README, edits=SAVINGS_README_EDITS)
                return goes_on("EXECUTION", 0.85, change)
            case "refused" | "still_open":
                return asks(self._words[beat]["question"], [])
            case "done" | "documented":
                return {**ends(), "confidence": 0.9}
            case _:
                return ends()

    def _requirements(self) -> list[JsonObject]:
        checks: tuple[tuple[int, JsonObject], ...] = (
            (1, {"kind": "file_contains", "value": f"{CODE}: def savings("}),
            (1, {"kind": "command", "value": self._command}),
            (2, {"kind": "file_contains", "value": f"{README}: {_NAME}"}),
        )
        return [
            {"requirement": text, "priority": priority, "check": check}
            for text, (priority, check) in zip(self._words["requirements"], checks, strict=True)
        ]

    def _read(self, why: str, path: str) -> JsonObject:
        return action(_READ, {"path": path}, self._words["reads"][why])

    def _change(self, why: str, path: str, **args: Any) -> JsonObject:
        operation = _CHANGES["content" in args]
        return action(operation, {"path": path, **args}, self._words["changes"][why])

    def _filled(self, text: str) -> str:
        ran = last_run(self._scene)
        return filled(
            text,
            tested=self._words["tested"][ran.kind],
            command=self._command,
            run=ran.quote,
            tax=self._tax,
            missing="\n".join(f"- {what}" for what in self._scene.missing),
        )
