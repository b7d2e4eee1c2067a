"""The story of a wrong total: the tests are red, its cause, an edit, and the tests again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from duckflow_tui.scripted.project import CODE, TESTS, Fix, Held, fix_edits, held_by
from duckflow_tui.scripted.scene import Result, Scene
from duckflow_tui.scripted.suite import last_run, run_of, run_tests
from duckflow_tui.scripted.wording import filled
from duckflow_tui.scripted.writing import action, asks, decision, ends, goes_on
from duckflow_tui.state.base import JsonObject

_READ: Final = "file_ops.read_file"
_EDIT: Final = "file_ops.edit_file"

_OFFERED: Final[tuple[Fix, ...]] = ("loop", "cap", "test")
_PROPOSED: Final[dict[str, Fix]] = {
    "propose_loop": "loop",
    "propose_small": "small",
    "propose_small_silent": "small",
    "propose_cap": "cap",
    "propose_test": "test",
}

_REASON: Final = re.compile(r"rejected by the user: (.*)\nNothing was executed", re.S)
_CHOSEN: Final = re.compile(r'the user chose the alternative "(.*)" instead', re.S)

#: What a message is about, the first that fits; anything else gets the honest answer.
_ABOUT: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (beat, re.compile(pattern, re.I))
    for beat, pattern in (
        ("thanks", r"^\W*(thanks|thank you|thx|cheers)\b|^(どうも)?ありがとう|^助かりました"),
        ("hello", r"^\W*(hello|hi|hey|good (morning|afternoon|evening))\b\W*(there|duck\w*)?\W*$"),
        ("hello", r"^(こんにち[はわ]|こんばん[はわ]|おはよう|はじめまして|やあ)"),
        (
            "who",
            r"\bwho are you|\b(what|which) model\b|\bare you (an? |the )?(real|ai|model|human)",
        ),
        ("who", r"あなたは(誰|だれ|何)|(何の|どの)モデル|本物(の|です)"),
        ("abilities", r"what (can|could|do) you|^\W*help\W*$|how does (this|it) work|\bdemo\b"),
        ("abilities", r"何が?でき|使い方|ヘルプ|デモ"),
        ("undo", r"\bundo\b|\brevert\b|\btake (it|that) back|取り消|元に戻"),
        ("tests", r"\b(run|execute|start)\b.*\btests?\b|\bunittest\b|テストを?(実行|走ら|回し)"),
        ("show", r"\bdiff\b|\bwhat (has |did (you )?)?change|\bshow\b|差分|何を?変|どう変|見せて"),
        (
            "look",
            r"discount|\btotals?\b|pricing|\bbug\b|\bfix\b|\bcap\b|\btest instead\b|the test\b",
        ),
        ("look", r"割引|合計|バグ|不具合|直し|修正|上限|足し算|テストを変"),
    )
)
_WANTS_CAP: Final = re.compile(r"\bcap\b|keep the sum|上限|足し算のまま", re.I)
_WANTS_TEST: Final = re.compile(
    r"(change|edit|adapt|correct) the test|the test instead|テストを変", re.I
)


def about_of(said: str) -> str:
    """What a message is about; ``anything`` where the story knows no better."""
    return next((beat for beat, about in _ABOUT if about.search(said)), "anything")


class FixWriter:
    """Writes one decision. ``command`` runs the project's tests."""

    def __init__(
        self,
        scene: Scene,
        words: dict[str, Any],
        workspace: Path,
        command: str,
        others: dict[str, str],
    ) -> None:
        self._scene = scene
        self._words = words
        self._workspace = workspace
        self._command = command
        self._others = others  # the other requests that the demo knows, by name
        self._held: Held = "sum"

    def write(self) -> tuple[str, JsonObject]:
        """What the model thinks first, and the decision."""
        beat = self._beat()
        texts = self._words[beat]
        made = decision(
            texts["rationale"], self._words["goal"], self._filled(texts["says"]), self._course(beat)
        )
        return str(texts.get("thinks", "")), made

    # --- which beat comes next ---------------------------------------------------------------

    def _beat(self) -> str:
        scene = self._scene
        edits = [result for result in scene.latest if result.operation == _EDIT]
        if scene.missing:
            return "still_open"
        if edits:
            return self._after_edit(edits[-1])
        if scene.changed_outside:
            return "check_outside"
        if any(result.operation == _READ for result in scene.latest):
            return self._after_reading()
        about = about_of(scene.said)
        if scene.latest:
            ran = run_of(scene.latest[-1]).kind
            return f"tests_{ran}" if about == "tests" else f"look_{ran}"
        return about

    def _after_edit(self, edit: Result) -> str:
        match edit.outcome:
            case "ok" if "The user edited your proposal" in edit.text:
                return "check_edited"
            case "ok" if "The user left out" in edit.text:
                return "check_part"
            case "ok":
                return "check"
            case "rejected" if self._count("rejected") > 1:
                return "ask"
            case "rejected":
                return "propose_small" if _REASON.search(edit.text) else "propose_small_silent"
            case "declined":
                return f"propose_{self._chosen(edit)}"
            case "denied":
                return "denied"
            case _:
                return "gave_up" if self._count("error") > 1 else "check_failed"

    def _after_reading(self) -> str:
        """The end of an edit, the answer to a question, or a proposal."""
        scene = self._scene
        read = [r for r in scene.latest if r.operation == _READ]
        if any(result.outcome != "ok" for result in read):
            return "gave_up"
        code = [r for r in read if r.text.startswith(f"[{CODE}:")]
        if not code:
            return "done_test"
        held = self._held = held_by(code[-1].text)
        if any(r.operation == _EDIT and r.outcome == "ok" for r in scene.results):
            return "done_unfixed" if held == "sum" else f"done_{held}"
        if held == "other":
            return "done_other"
        if about_of(scene.said) == "show":
            shown = {"loop": "show_loop", "small": "show_small", "cap": "show_cap"}
            return shown.get(held, "done_unfixed" if held == "sum" else f"done_{held}")
        wish = self._wish()
        if wish == "test":
            return "propose_test"
        if held in ("loop", "small"):
            return f"already_{held}"
        return "done_cap" if wish == held == "cap" else f"propose_{wish}"

    def _count(self, outcome: str) -> int:
        edits = (result for result in self._scene.results if result.operation == _EDIT)
        return sum(result.outcome == outcome for result in edits)

    def _wish(self) -> Fix:
        if _WANTS_CAP.search(self._scene.said):
            return "cap"
        return "test" if _WANTS_TEST.search(self._scene.said) else "loop"

    def _chosen(self, edit: Result) -> Fix:
        label = found[1] if (found := _CHOSEN.search(edit.text)) else ""
        fixes: dict[str, Fix] = {self._words["alternatives"][fix]: fix for fix in _OFFERED}
        return fixes.get(label, "loop")

    # --- what a beat does --------------------------------------------------------------------

    def _course(self, beat: str) -> JsonObject:
        """Everything of the decision but its words and its checks."""
        kind, _, rest = beat.partition("_")
        match kind:
            case "look" if not rest:
                return self._first()
            case "look":
                return goes_on(
                    "EXECUTION", 0.6, self._read("code", CODE), self._read("tests", TESTS)
                )
            case "show" if not rest:
                return goes_on("EXECUTION", 0.8, self._read("check", CODE))
            case "tests" if not rest:
                return goes_on("EXECUTION", 0.8, self._run("asked"))
            case "check":
                return goes_on("REVIEW", 0.8, *self._checks(rest))
            case "propose":
                return goes_on("EXECUTION", 0.85, self._edit(_PROPOSED[beat]))
            case "still":
                return asks(self._words["still_open"]["question"], [])
            case "ask":
                asked = self._words["ask"]
                delta = {"open_questions": [asked["question"]]}
                return {**asks(asked["question"], asked["options"]), "state_delta": delta}
            case "done":
                decided = {"decision": self._words["decided"]} if rest in ("loop", "small") else {}
                return {**ends(), "confidence": 0.9, "state_delta": decided}
            case "denied" | "gave" | "already" | "show" | "tests":
                return ends()
            case "anything" | "undo":  # it cannot do it, and asks nothing
                leaves = {"next_step": "defer", "task_profile": "GENERAL_CHAT"}
                return {**ends("PLANNING"), **leaves}
            case _:
                return {**ends("PLANNING"), "task_profile": "GENERAL_CHAT"}

    def _first(self) -> JsonObject:
        """The first decision of the request: what is asked, and what the tests say."""
        return {
            **goes_on("EXECUTION", 0.6, self._run("before")),
            "task_profile": "DEBUGGING",
            "requirements": [
                {"requirement": text, "priority": 1, "check": check}
                for text, check in zip(self._words["requirements"], self._proofs(), strict=True)
            ],
            "state_delta": {
                "goal": self._words["goal"],
                "why_now": self._words["why_now"],
                "plan_brief": self._words["plan"],
                "open_questions": [],
                "context_refs": [f"file:{CODE}", f"file:{TESTS}"],
            },
        }

    def _proofs(self) -> tuple[JsonObject, ...]:
        """How each requirement is decided: an explanation by a judge, a total by the tests."""
        return ({"kind": "judgement"}, {"kind": "command", "value": self._command})

    def _checks(self, why: str) -> tuple[JsonObject, ...]:
        """The file as it is now; and the tests, where something was changed."""
        read = self._read("check", TESTS if self._changed_tests() else CODE)
        return (read,) if why in ("outside", "failed") else (read, self._run("after"))

    def _run(self, why: str) -> JsonObject:
        return run_tests(self._command, self._words["runs"][why])

    def _read(self, why: str, path: str) -> JsonObject:
        return action(_READ, {"path": path}, self._words["reads"][why])

    def _edit(self, fix: Fix) -> JsonObject:
        path = TESTS if fix == "test" else CODE
        edits = fix_edits(fix, self._held_now())
        # What was rejected is not offered again beside the smaller edit.
        others = [name for name in _OFFERED if name != ("loop" if fix == "small" else fix)]
        return {
            **action(_EDIT, {"path": path, "edits": edits}, self._words["edits"][fix]),
            "alternatives": [{"label": self._words["alternatives"][name]} for name in others],
        }

    def _held_now(self) -> Held:
        """What pricing.py held when it was last read in this turn."""
        read = [r for r in self._scene.results if r.text.startswith(f"[{CODE}:")]
        return held_by(read[-1].text) if read else self._held

    def _changed_tests(self) -> bool:
        edits = [r for r in self._scene.latest if r.operation == _EDIT]
        return bool(edits) and f"changed {TESTS}" in edits[-1].text

    def _filled(self, text: str) -> str:
        reason = next(
            (found[1] for r in reversed(self._scene.latest) if (found := _REASON.search(r.text))),
            "",
        )
        ran = last_run(self._scene)
        return filled(
            text,
            tested=self._words["tested"][ran.kind],
            next=self._words["next"],
            folder=str(self._workspace),
            command=self._command,
            missing="\n".join(f"- {what}" for what in self._scene.missing),
            request=str(self._words["request"]),
            **self._others,
            failed=ran.failed,
            run=ran.quote,
            reason=reason.strip().replace("\n", "\n> "),
        )
