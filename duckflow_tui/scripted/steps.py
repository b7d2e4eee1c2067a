"""The steps of the loyalty plan, done for real: decision by decision, or as lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from duckflow_tui.scripted.project import (
    CALCULATION,
    CHANGELOG,
    CHANGELOG_FILE,
    CODE,
    HALF_A_CENT,
    LOYALTY_TEST_FILE,
    LOYALTY_TESTS,
    MEND,
    README,
    README_EDITS,
    RECEIPT,
    RECEIPT_EDITS,
    RECEIPT_TEST_EDITS,
    RECEIPT_TESTS,
    TWO_DISCOUNTS,
    fix_edits,
    held_by,
    is_calculated,
    is_rounded_wrongly,
)
from duckflow_tui.scripted.scene import LABEL, Scene, result_of
from duckflow_tui.scripted.suite import RUN, SuiteRun, last_run, run_of, run_tests
from duckflow_tui.scripted.wording import filled
from duckflow_tui.scripted.writing import action, asks, decision, ends, goes_on
from duckflow_tui.state.base import JsonObject

_READ: Final = "file_ops.read_file"
_EDIT: Final = "file_ops.edit_file"
_WRITE: Final = "file_ops.write_file"

_STEP: Final = re.compile(r"^(?:Step|ステップ) \d+: (.+)$", re.M)
_RESULTS: Final = re.compile(r"<results>\n(.*?)\n</results>", re.S)
_RESULT: Final = re.compile(
    rf"^\d+\. ([\w.]+)\([^\n]*\) -> \[({LABEL})\]\n(.*?)(?=\n\d+\. [\w.]+\([^\n]*\) -> \[|\Z)",
    re.M | re.S,
)
_LOG: Final = re.compile(r"<log>\n(.*?)\n</log>", re.S)
_RUN: Final = re.compile(rf"^\d+\. {re.escape(RUN)}\(.*\) -> \[(?:{LABEL})\] exit (\d+)", re.M)
_BAD: Final = re.compile(r"^(?:FAIL|ERROR): (\S+)", re.M)
_NOTE: Final = re.compile(r"^(?:Last note|最後のメモ): (.+)$", re.M)
_NEXT: Final = re.compile(r"^(?:Steps that come after it|この後のステップ):\n- ([^:\n]+)", re.M)
_FAILED: Final = re.compile(r"^# (?:What failed|失敗したこと)$", re.M)


@dataclass(frozen=True, slots=True)
class _Change:
    """One change of a file that a step makes."""

    why: str  # in the words
    operation: str
    args: JsonObject


def _edit(why: str, path: str, edits: list[JsonObject]) -> _Change:
    return _Change(why, _EDIT, {"path": path, "edits": edits})


def _write(why: str, path: str, content: str) -> _Change:
    return _Change(why, _WRITE, {"path": path, "content": content})


#: What each step reads first, and what it changes then, in this order.
_READS: Final[dict[str, tuple[str, ...]]] = {
    "calculation": (CODE,),
    "receipt": (RECEIPT, RECEIPT_TESTS),
    "readme": (README,),
}
_CHANGES: Final[dict[str, tuple[_Change, ...]]] = {
    "tests": (_write("tests", LOYALTY_TESTS, LOYALTY_TEST_FILE),),
    "calculation": (_edit("calculation", CODE, CALCULATION),),
    "receipt": (
        _edit("receipt", RECEIPT, RECEIPT_EDITS),
        _edit("receipt_test", RECEIPT_TESTS, RECEIPT_TEST_EDITS),
    ),
    "readme": (_edit("readme", README, README_EDITS),),
    "changelog": (_write("changelog", CHANGELOG, CHANGELOG_FILE),),
}
_MEND: Final = _edit("mend", CODE, MEND)
_MEND_BOTH: Final = _edit("mend_both", CODE, [*MEND, *fix_edits("loop", "sum")])
_TESTED: Final = frozenset({"tests", "calculation", "receipt"})
_SKIPPED: Final = "skipped"  # where each decision may bring one action, and the rest comes back
_LAST: Final = {"next_step": "done"}


def step_key(text: str, words: dict[str, Any]) -> str:
    """Which step a request is about; empty for one that the script does not know."""
    named = _STEP.findall(text)
    line = named[-1] if named else ""
    return next((key for key, of in words["steps"].items() if line.startswith(of["name"])), "")


# --- decision by decision ------------------------------------------------------------------------


class StepWriter:
    """Writes the next decision of a step. ``earlier`` are the files that need not be read again:
    path → the result of reading it.
    """

    def __init__(
        self,
        key: str,
        scene: Scene,
        words: dict[str, Any],
        command: str,
        earlier: Mapping[str, str],
    ) -> None:
        self._key = key
        self._scene = scene
        self._words = words
        self._command = command
        self._earlier = earlier

    def write(self) -> JsonObject:
        """The decision; of an unknown step one that says so."""
        if not self._key:
            return self._asked("unknown_step")
        scene, changes = self._scene, _CHANGES[self._key]
        done = (r for r in scene.results if r.outcome == "ok")
        changed = [r for r in done if r.operation in (_EDIT, _WRITE)]
        latest = [r for r in scene.latest if r.outcome != _SKIPPED]
        bad = next((r for r in latest if r.outcome != "ok" and r.operation != RUN), None)
        if bad is not None:
            return self._asked("refused" if bad.outcome in ("rejected", "declined") else "failed")
        if latest and latest[-1].operation == RUN:
            return self._after_run(run_of(latest[-1]), len(changed))
        if not latest and (unread := self._unread()):
            return self._reads(unread)
        left = () if self._is_there() else changes[len(changed) :]
        return self._finishes(*left) if left or self._key in _TESTED else self._done("done")

    def _of(self, part: str) -> dict[str, Any]:
        return self._words[part]

    def _is_there(self) -> bool:
        return self._key == "calculation" and is_calculated(self._code())

    def _code(self) -> str:
        """pricing.py as it was read last."""
        read = [r.text for r in self._scene.results if r.text.startswith(f"[{CODE}:")]
        return read[-1] if read else self._earlier.get(CODE, "")

    def _unread(self) -> tuple[str, ...]:
        return tuple(path for path in _READS.get(self._key, ()) if path not in self._earlier)

    def _after_run(self, ran: SuiteRun, changes: int) -> JsonObject:
        if ran.kind == "unrun":
            return self._done("done_unrun")
        if self._key == "tests":
            return self._done("done")
        if HALF_A_CENT in ran.failing:
            begun = is_rounded_wrongly(self._code())
            if self._key != "calculation" or changes > (0 if begun else 1):
                return self._asked("still_red")
            if TWO_DISCOUNTS in ran.failing and held_by(self._code()) == "sum":
                return self._finishes(_MEND_BOTH)
            return self._finishes(_MEND)
        others = [name for name in ran.failing if name != TWO_DISCOUNTS]
        if others:
            return self._asked("still_red")
        return self._done("done_but_two" if ran.failing else "done")

    # --- what it writes -----------------------------------------------------------------------

    def _reads(self, paths: Sequence[str]) -> JsonObject:
        reads = [action(_READ, {"path": path}, self._of("reads")["step"]) for path in paths]
        return self._decision("read", goes_on("EXECUTION", 0.85, *reads))

    def _finishes(self, *changes: _Change) -> JsonObject:
        """All that is left of the step, the tests behind it; only what fails is looked at again."""
        words = self._of("changes")
        acts = [action(change.operation, change.args, words[change.why]) for change in changes]
        if self._key in _TESTED:
            acts.append(run_tests(self._command, self._of("calls")["run"]))
        why = changes[0].why if changes else "run"
        says = why if why in self._of("steps")[self._key] else "change"
        course = goes_on("EXECUTION", 0.85, *acts)
        # New tests are red as they should be, and that is looked at.
        return self._decision(says, course if self._key == "tests" else {**course, **_LAST})

    def _done(self, says: str) -> JsonObject:
        return self._decision(says, ends("EXECUTION"))

    def _asked(self, says: str) -> JsonObject:
        """A step that cannot go on; its report shows the question."""
        question = self._filled(self._of("step_says")[says])
        return self._decision(says, asks(question, []))

    def _decision(self, says: str, course: JsonObject) -> JsonObject:
        of_step = self._of("steps").get(self._key, {})
        text = of_step.get(says) or self._of("step_says")[says]
        goal = of_step.get("description", self._of("step_says")["unknown_step"])
        return decision(self._of("step_says")["rationale"], goal, self._filled(text), course)

    def _filled(self, text: str) -> str:
        ran = last_run(self._scene)
        return filled(text, failed=ran.failed, run=ran.quote, ran=ran.line, command=self._command)


# --- as lists, and reported ----------------------------------------------------------------------


def tasks_for(key: str, text: str, words: dict[str, Any], command: str) -> JsonObject:
    """The list that the purpose ``tasks`` is asked for; after a failure what is left of it."""
    run = _task("run", RUN, {"command": command}, words["calls"]["run"]["intent"])
    if key not in _CHANGES:
        return {"tasks": [run]}
    if _FAILED.search(text):
        # Without a change behind them the tests would say the same again.
        mending = _mending(key, text, words)
        return {"tasks": [*mending, run] if mending else []}
    tasks = [
        _task(f"read{number}", _READ, {"path": path}, words["reads"]["step"]["intent"])
        for number, path in enumerate(_READS.get(key, ()), start=1)
    ]
    for number, change in enumerate(_CHANGES[key], start=1):
        intent = words["changes"][change.why]["intent"]
        tasks.append(_task(f"change{number}", change.operation, change.args, intent))
    # New tests are red until there is what they test, and a red run would end the list.
    return {"tasks": tasks if key not in _TESTED or key == "tests" else [*tasks, run]}


def _mending(key: str, text: str, words: dict[str, Any]) -> list[JsonObject]:
    """What mends the rounding, and the two discounts where they are still added."""
    results = [result_of(*found) for found in _RESULT.findall(_part(_RESULTS, text))]
    runs = [run_of(result) for result in results if result.operation == RUN]
    edits = [r for r in results if r.operation == _EDIT and f"changed {CODE}" in r.text]
    if not runs or HALF_A_CENT not in runs[-1].failing or len(edits) != 1:
        return []
    code = [r.text for r in results if r.operation == _READ and r.text.startswith(f"[{CODE}:")]
    both = bool(code) and held_by(code[-1]) == "sum"
    change = _MEND_BOTH if both else _MEND
    return [_task("mend", _EDIT, change.args, words["changes"][change.why]["intent"])]


def _task(name: str, operation: str, args: JsonObject, description: str) -> JsonObject:
    return {"id": name, "operation": operation, "args": args, "description": description}


def report_for(key: str, text: str, words: dict[str, Any]) -> JsonObject:
    """The words on a step, from its log and from what the app says of it."""
    note = found[1] if (found := _NOTE.search(text)) else ""
    log = _part(_LOG, text)
    runs = list(_RUN.finditer(log))
    red = False
    if runs and runs[-1][1] != "0":  # what was red before the plan is not the step's
        red = {*_BAD.findall(log[runs[-1].end() :])} != {TWO_DISCOUNTS}
    failed = bool(note) or (red and key != "tests")
    says = words["reports"]
    done = words["steps"].get(key, {}).get("summary", says["unknown"])
    later = found[1] if (found := _NEXT.search(text)) else ""
    after = filled(says["next"], step=later) if later else ""
    return {
        "status": "failed" if failed else "completed",
        "summary": says["undone"] if failed else done,
        "cause": (note or says["red"]) if failed else "",
        "next_action": "" if failed else after,
    }


def _part(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
