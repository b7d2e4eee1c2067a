"""Answers beside running work: how far it is, changes of the plan, pause and stop."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from duckflow_tui.scripted.loyalty import ABOUT as LOYALTY
from duckflow_tui.scripted.loyalty import STEP_WORDS, drops
from duckflow_tui.scripted.scene import Scene
from duckflow_tui.scripted.wording import filled
from duckflow_tui.scripted.writing import action, decision, ends
from duckflow_tui.state.base import JsonObject

GET: Final = "plan_tool.get"
REVISE: Final = "plan_tool.revise"
STOP: Final = "task_loop.stop"
PAUSE: Final = "task_loop.pause"

_STEP: Final = re.compile(r"^(?:Step|ステップ) (\d+): (.+)$", re.M)
_DONE: Final = re.compile(
    r"^(?:(?P<done>\d+) of (?P<total>\d+) steps done"
    r"|(?P<total_ja>\d+) ステップ中 (?P<done_ja>\d+) ステップが完了)$",
    re.M,
)
_TASKS: Final = re.compile(
    r"^(?:Tasks of the step: (?P<done>\d+) of (?P<total>\d+) done"
    r"|ステップのタスク: (?P<total_ja>\d+) 件中 (?P<done_ja>\d+) 件が完了)$",
    re.M,
)
_ELAPSED: Final = re.compile(r"^(?:Running for|経過) ([\d:]+)", re.M)
_PLAN: Final = re.compile(r"^\d+\. \[(\w+)\] (.+)$", re.M)
_DRAFT: Final = re.compile(r"^.+ \[draft\]$", re.M)
_WITH_ID: Final = re.compile(r"^\d+\. (step_\w+) \[\w+\] (.+)$", re.M)
_WAITS: Final = re.compile(
    r"^(?:For their key in a gate|For their key on a card|承認画面でのキー操作|カードでのキー操作)",
    re.M,
)

_ADDED: Final = ("readme", "changelog")
_ADDS: Final = re.compile(r"\b(also|add|mention|note|write|put|document)\b|も|追加|書い|載せ", re.I)
_STOPS: Final = re.compile(r"^\W*(please )?(stop|cancel|abort|halt)\b|止め|中止|ストップ", re.I)
_PAUSES: Final = re.compile(r"\b(pause|wait|hold on)\b|待って|一時停止|ちょっとまって", re.I)
_ASKS: Final = re.compile(
    r"how far|\bstatus\b|progress|how long|how.s it going|are you (done|ready|there)"
    r"|what are you (doing|up to|working)|which step"
    r"|どこまで|どのくらい|どれくらい|進み|進捗|状況|何をして|いまどう|今どう",
    re.I,
)


@dataclass(frozen=True, slots=True)
class _Now:
    """Where the work stands, as the tail of the request says it."""

    number: str = ""
    step: str = ""
    done: str = ""
    total: str = ""
    tasks: tuple[str, str] = ("", "")  # done, in all
    elapsed: str = ""
    waits: bool = False  # for a key of the user
    draft: bool = False  # the plan was not approved yet

    @classmethod
    def read(cls, tail: str) -> _Now:
        step, elapsed = _STEP.search(tail), _ELAPSED.search(tail)
        done, total = _pair(_DONE, tail)
        return cls(
            number=step[1] if step else "",
            step=step[2].partition(": ")[0] if step else "",
            done=done,
            total=total,
            tasks=_pair(_TASKS, tail),
            elapsed=elapsed[1] if elapsed else "",
            waits=_WAITS.search(tail) is not None,
            draft=_DRAFT.search(tail) is not None,
        )


class AsideWriter:
    """Writes one decision. ``told`` is the text of the whole request, ``tail`` its end."""

    def __init__(self, scene: Scene, words: dict[str, Any], steps: dict[str, Any], told: str,
                 tail: str) -> None:  # fmt: skip
        self._scene = scene
        self._words = words
        self._steps = steps
        self._told = told
        self._now = _Now.read(tail)
        self._status = {name: status for status, name in _PLAN.findall(tail)}

    def write(self) -> JsonObject:
        """The decision that answers the user."""
        said = self._scene.said
        bad = next((r for r in reversed(self._scene.results) if r.outcome != "ok"), None)
        if bad is not None:
            return self._says("did_not_fit", problem=bad.text.strip().replace("\n", "\n> "))
        wanted = next((key for key, about in STEP_WORDS.items() if about.search(said)), "")
        if wanted and drops(said):
            return self._drop(wanted)
        if _STOPS.search(said):
            return self._steer(STOP, "stop")
        if _PAUSES.search(said):
            return self._steer(PAUSE, "pause")
        if _ASKS.search(said):
            if self._now.step:
                return self._says("far")
            if self._now.draft and self._now.waits:
                return self._says("far_draft")
            of_plan = self._now.total and LOYALTY.search(self._scene.request)
            return self._says("far_between" if of_plan else "far_without_plan")
        if wanted in _ADDED and _ADDS.search(said):
            return self._add(wanted)
        return self._says("anything")

    # --- wishes --------------------------------------------------------------------------------

    def _drop(self, key: str) -> JsonObject:
        name = self._steps[key]["name"]
        status = self._status.get(name, "")
        if not self._status:
            return self._says("no_plan")
        if not status:
            return self._says("not_in_plan", step=name)
        if status != "pending":
            return self._says("too_late", step=name, status=self._words["status"][status])
        if not (step_id := self._ids().get(name)):
            return self._look_up()
        return self._revise("drop", {"op": "drop", "step_id": step_id}, name)

    def _add(self, key: str) -> JsonObject:
        of_step = self._steps[key]
        name = of_step["name"]
        if not self._status:
            return self._says("no_plan")
        if name in self._status:
            status = self._words["status"][self._status[name]]
            return self._says("in_plan", step=name, status=status)
        needed = self._ids().get(self._steps["calculation"]["name"])
        if not needed:
            return self._look_up()
        change = {
            "op": "add",
            "step_id": key,
            "name": name,
            "description": of_step["description"],
            "depends_on": [needed],
        }
        return self._revise("add", change, name)

    def _ids(self) -> dict[str, str]:
        """Ids of steps by name, as the conversation or the plan in full gives them."""
        names = [of_step["name"] for of_step in self._steps.values()]
        found: dict[str, str] = {}
        for step_id, line in _WITH_ID.findall(self._told):
            found.update({name: step_id for name in names if line.startswith(name)})
        return found

    def _look_up(self) -> JsonObject:
        if self._scene.last(GET) is not None:
            return self._says("anything")
        call = action(GET, {}, self._words["calls"]["get"])
        course = {**ends(), "next_step": "continue", "actions": [call]}
        return self._decision(self._words["look_up"], course)

    def _revise(self, says: str, change: JsonObject, name: str) -> JsonObject:
        call = action(REVISE, {"changes": [change]}, self._words["calls"]["revise"])
        return self._decision(filled(self._words[says], step=name), {**ends(), "actions": [call]})

    # --- answers -------------------------------------------------------------------------------

    def _steer(self, operation: str, says: str) -> JsonObject:
        if not self._now.step:
            return self._says(f"{says}_without_plan")
        call = action(operation, {}, self._words["calls"][says])
        return self._decision(self._words[says], {**ends(), "actions": [call]})

    def _says(self, name: str, **values: str) -> JsonObject:
        now, words = self._now, self._words
        tasks = filled(words["tasks"], done=now.tasks[0], total=now.tasks[1])
        text = filled(
            words[name],
            waits=words["waits"] if now.waits else "",
            tasks=tasks if now.tasks[1] else "",
        )
        values = {
            "number": now.number,
            "running": now.step,
            "done": now.done,
            "total": now.total,
            "elapsed": now.elapsed or "0:00",
            **values,
        }
        return self._decision(filled(text, **values).strip(), ends())

    def _decision(self, says: str, course: JsonObject) -> JsonObject:
        return decision(self._words["rationale"], self._words["goal"], says, course)


def _pair(pattern: re.Pattern[str], tail: str) -> tuple[str, str]:
    found = pattern.search(tail)
    if found is None:
        return "", ""
    return found["done"] or found["done_ja"], found["total"] or found["total_ja"]
