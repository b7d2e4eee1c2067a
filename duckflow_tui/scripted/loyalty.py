"""The story of a larger wish: a plan, its approval, its steps in the background, the last word."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from duckflow_tui.scripted.project import CODE, README, RECEIPT, is_calculated
from duckflow_tui.scripted.scene import Result, Scene
from duckflow_tui.scripted.suite import RUN, last_run, run_tests
from duckflow_tui.scripted.wording import filled
from duckflow_tui.scripted.writing import action, asks, decision, ends, goes_on
from duckflow_tui.state.base import JsonObject

PROPOSE: Final = "plan_tool.propose"
WORK: Final = "task_loop.run"

Size = Literal["whole", "small"]

#: Steps by their key in the words, and the keys of those they build on.
_STEPS: Final[dict[Size, dict[str, tuple[str, ...]]]] = {
    "whole": {
        "tests": (),
        "calculation": ("tests",),
        "receipt": ("calculation",),
        "readme": ("calculation",),
    },
    "small": {"tests": (), "calculation": ("tests",)},
}

ABOUT: Final = re.compile(r"loyal|regular customer|常連|お得意", re.I)
SMALL: Final = re.compile(r"\bonly\b|\bjust\b|だけ", re.I)
#: What a message says of a step that may be left out or added.
STEP_WORDS: Final = {
    "receipt": re.compile(r"receipt|レシート", re.I),
    "readme": re.compile(r"read\W?me|説明書", re.I),
    "changelog": re.compile(r"change\W?log|変更履歴", re.I),
}
_DROPS: Final = re.compile(
    r"\b(skip|drop|omit|remove|leave (it |that |them )?out|without|no need|don.t need)\b"
    r"|省|飛ばし|いらない|要らない|不要|なしで|外して|やめて",
    re.I,
)
_REASON: Final = re.compile(r"The user rejected the plan: (.*?)\nDo not carry it out", re.S)
_PROGRESS: Final = re.compile(r"(\d+) of (\d+) steps are done; the plan is (\w+)")
_REPORT: Final = re.compile(r"^- (.+): (completed|partial|failed|stopped)$", re.M)
_WISH: Final = re.compile(r"^The user wants instead: (.+)", re.M)
_GOAL: Final = re.compile(r"<goal>\n(.*?)\n</goal>", re.S)


def drops(said: str) -> bool:
    """Whether a message wants something left out."""
    return _DROPS.search(said) is not None


def names_a_step(said: str) -> bool:
    """Whether a message is about a step of the plan that may be left out or added."""
    return any(about.search(said) for about in STEP_WORDS.values())


def plan_for(text: str, words: dict[str, Any]) -> JsonObject:
    """The plan that the purpose ``plan`` is asked for; the goal in its request says which."""
    goal = found[1].strip() if (found := _GOAL.search(text)) else ""
    size: Size = "small" if goal == words["goals"]["small"] else "whole"
    steps = words["steps"]
    return {
        "name": words["plan"]["name"],
        "goal": words["goals"][size],
        "steps": [
            {
                "id": key,
                "name": steps[key]["name"],
                "description": steps[key]["description"],
                "depends_on": list(needs),
            }
            for key, needs in _STEPS[size].items()
        ],
        "risk": "low",
        "success_criteria": words["plan"]["criteria"],
    }


class LoyaltyWriter:
    """Writes one decision of the conversation. ``command`` runs the project's tests."""

    def __init__(self, scene: Scene, words: dict[str, Any], command: str, savings: str) -> None:
        self._scene = scene
        self._words = words
        self._command = command
        self._savings = savings  # another request that the demo knows

    def write(self) -> tuple[str, JsonObject]:
        """What the model thinks first, and the decision."""
        beat = self._beat()
        texts = self._words[beat]
        says = str(texts["says"])
        if beat == "still_open" and last_run(self._scene).kind == "red":
            says = f"{self._words['ended_red']['says']}\n\n{says}"
        made = decision(texts["rationale"], self._goal(), self._filled(says), self._course(beat))
        return str(texts.get("thinks", "")), made

    def _goal(self) -> str:
        return self._words["goals"]["small" if self._is_small() else "whole"]

    def _is_small(self) -> bool:
        return bool(SMALL.search(self._scene.said)) or self._proposals("rejected") > 0

    def _proposals(self, outcome: str) -> int:
        return sum(r.operation == PROPOSE and r.outcome == outcome for r in self._scene.results)

    # --- which beat comes next ---------------------------------------------------------------

    def _beat(self) -> str:
        scene = self._scene
        if scene.missing:
            return "still_open"
        if scene.stopped:
            return "stopped"
        if scene.progress:
            return self._after_run()
        if not (scene.results or ABOUT.search(scene.said)):
            return "left" if scene.before and drops(scene.said) else "elsewhere"
        if not scene.latest:
            return "look"
        last = scene.latest[-1]
        match last.operation:
            case operation if operation == PROPOSE:
                return self._after_proposal(last)
            case operation if operation == WORK:
                return self._after_work(last)
            case operation if operation == RUN:
                return self._end()
            case _:
                return self._after_reading()

    def _after_reading(self) -> str:
        if any(r.outcome != "ok" for r in self._scene.latest):
            return "gave_up"
        code = [r.text for r in self._scene.latest if r.text.startswith(f"[{CODE}:")]
        if code and is_calculated(code[-1]):
            return "already"
        return "propose"

    def _after_proposal(self, proposal: Result) -> str:
        match proposal.outcome:
            case "ok":
                return "work_steps" if "step by step" in proposal.text else "work"
            case "rejected" if self._proposals("rejected") > 1 or not _REASON.search(proposal.text):
                return "ask"
            case "rejected":
                return "propose_smaller"
            case "denied":
                return "denied"
            case "stopped":
                return "stopped"
            case _:
                return "gave_up"

    def _after_run(self) -> str:
        wish = _WISH.search(self._scene.progress)
        if wish is None:
            return "check"
        suggested = self._words["reports"]["next"].partition("{")[0]
        return "work_on" if wish[1].startswith(suggested) else "wish"

    def _after_work(self, work: Result) -> str:
        match work.outcome:
            case "ok":
                return "check"
            case "stopped":
                return "stopped"
            case _:
                return "gave_up"

    def _end(self) -> str:
        found = _PROGRESS.search(self._scene.run)
        if last_run(self._scene).kind == "red":
            return "ended_red"
        return "ended" if found and found[1] == found[2] else "ended_part"

    # --- what a beat does --------------------------------------------------------------------

    def _course(self, beat: str) -> JsonObject:
        match beat:
            case "look":
                reads = self._words["reads"]
                read = (("code", CODE), ("receipt", RECEIPT), ("readme", README))
                return {
                    **goes_on(
                        "PLANNING",
                        0.6,
                        *(
                            action("file_ops.read_file", {"path": path}, reads[why])
                            for why, path in read
                        ),
                    ),
                    "task_profile": "MULTI_STEP_TASK",
                    "requirements": self._requirements(),
                    "state_delta": {"goal": self._goal(), "why_now": self._words["why_now"]},
                }
            case "propose" | "propose_smaller":
                call = action(PROPOSE, {"goal": self._goal()}, self._words["calls"]["propose"])
                return goes_on("PLANNING", 0.8, call)
            case "work" | "work_steps" | "work_on":
                return goes_on("EXECUTION", 0.85, action(WORK, {}, self._words["calls"]["work"]))
            case "check":
                return goes_on("REVIEW", 0.8, run_tests(self._command, self._words["calls"]["run"]))
            case "still_open":
                return asks(self._words["still_open"]["question"], [])
            case "ask":
                return asks(self._words["ask"]["question"], self._words["ask"]["options"])
            case "ended":
                return {**ends(), "confidence": 0.9}
            case "elsewhere":
                return {**ends(), "next_step": "defer"}
            case _:
                return ends()

    def _requirements(self) -> list[JsonObject]:
        """What was asked for; a wish for the code only asks for the first."""
        checks: tuple[JsonObject, ...] = (
            {"kind": "command", "value": self._command},
            {"kind": "file_contains", "value": f"{RECEIPT}: Loyalty discount"},
            {"kind": "file_contains", "value": f"{README}: loyal_total"},
        )
        asked = [
            {"requirement": text, "priority": priority, "check": checks[priority - 1]}
            for priority, text in enumerate(self._words["requirements"], start=1)
        ]
        return asked[:1] if SMALL.search(self._scene.said) else asked

    def _filled(self, text: str) -> str:
        ran = last_run(self._scene)
        told = self._scene.run
        steps = self._words["status"]
        reports = [f"- {name}: {steps[status]}" for name, status in _REPORT.findall(told)]
        found = _PROGRESS.search(told)
        last = self._scene.latest[-1].text if self._scene.latest else ""
        reason = found_in[1] if (found_in := _REASON.search(last)) else ""
        wish = found_in[1] if (found_in := _WISH.search(told)) else ""
        return filled(
            text,
            tested=self._words["tested"][ran.kind],
            command=self._command,
            savings=self._savings,
            missing="\n".join(f"- {what}" for what in self._scene.missing),
            done=found[1] if found else "0",
            total=found[2] if found else "0",
            reports="\n".join(reports),
            run=ran.quote,
            wish=wish.strip(),
            said=self._scene.said.strip().replace("\n", "\n> "),
            reason=reason.strip().replace("\n", "\n> "),
        )
