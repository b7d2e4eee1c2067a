"""The story of the demo: a wrong total, its cause, an edit, and what the user makes of it.

The files, the gate and the results are real; the story only decides what the model says next.
What it says stands in ``words/<language>.toml``.
"""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from duckflow_tui.demo.endpoint import Request
from duckflow_tui.demo.replies import Reply
from duckflow_tui.demo.scene import Result, Scene, scene_of
from duckflow_tui.state.base import JsonObject

CODE: Final = "src/shop/pricing.py"
TESTS: Final = "tests/test_pricing.py"

_REPLY_S: Final = 3.0  # how long a reply takes to arrive, as from a quick model
_PIECE_S: Final = 0.02
_SMALLEST_PIECE: Final = 3  # characters

Fix = Literal["loop", "small", "cap", "test"]
#: What pricing.py holds: as it was, one of the fixes, half of one, or something unknown.
Held = Literal["sum", "loop", "small", "cap", "import_missing", "line_missing", "other"]

_SUM: Final = "rate = sum(discounts)"
_CAP: Final = "rate = min(sum(discounts), Decimal(1))"
_PROD: Final = "rate = 1 - prod(1 - share for share in discounts)"
_LOOP: Final = "for rate in discounts:\n        price *= 1 - rate"
_RETURN: Final = "return price * (1 - rate)"
_DECIMAL: Final = "from decimal import ROUND_HALF_UP, Decimal\n"
_IMPORT: Final = "from math import prod\n"
_RATE: Final[dict[Held, str]] = {
    "sum": _SUM,
    "line_missing": _SUM,
    "cap": _CAP,
    "small": _PROD,
    "import_missing": _PROD,
}
_TEST: Final = (
    "def test_two_discounts_{name}():\n"
    "    assert total(Decimal(100), [TEN_PERCENT, TEN_PERCENT]) == Decimal({total})\n"
)

_OFFERED: Final[tuple[Fix, ...]] = ("loop", "cap", "test")
_PROPOSED: Final[dict[str, Fix]] = {
    "propose_loop": "loop",
    "propose_small": "small",
    "propose_small_silent": "small",
    "propose_cap": "cap",
    "propose_test": "test",
}

_JAPANESE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
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
        ("tests", r"\b(run|execute|start)\b.*\btests?\b|\bpytest\b|テストを?(実行|走ら|回し)"),
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


@cache
def words(language: str) -> dict[str, Any]:
    """The texts of a language, ``en`` or ``ja``."""
    path = Path(__file__).with_name("words") / f"{language}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def request_text(language: str) -> str:
    """The request that begins the story."""
    return str(words("ja" if language == "ja" else "en")["request"])


def held_by(text: str) -> Held:
    """What the text of pricing.py amounts to."""
    imports = bool(re.search(r"^from math import prod$", text, re.M))
    if f"    {_LOOP}\n    return price\n" in text:
        return "loop"
    if f"    {_PROD}\n    {_RETURN}\n" in text:
        return "small" if imports else "import_missing"
    if f"    {_CAP}\n    {_RETURN}\n" in text:
        return "cap"
    if f"    {_SUM}\n    {_RETURN}\n" in text:
        return "line_missing" if imports else "sum"
    return "other"


class Story:
    """Writes the replies of the demo's model. Remembers nothing: a request tells all."""

    def __init__(self, workspace: Path, *, fast: bool = False) -> None:
        self._workspace = workspace
        self._fast = fast

    def reply(self, request: Request) -> Reply | None:
        """The reply to a request for a decision; None for any other purpose."""
        if request.purpose != "main":
            return None
        scene = scene_of(request.json)
        language = "ja" if _JAPANESE.search(scene.said) else "en"
        beat, decision = _Writer(scene, language, self._workspace).write()
        thinks = str(words(language)[beat].get("thinks", ""))
        if self._fast:
            return Reply(decision=decision, reasoning=thinks, chunk_size=64)
        length = len(thinks) + len(json.dumps(decision, ensure_ascii=False))
        return Reply(
            decision=decision,
            reasoning=thinks,
            chunk_size=max(_SMALLEST_PIECE, round(length * _PIECE_S / _REPLY_S)),
            delay_s=_PIECE_S,
            first_delay_s=_PIECE_S * 20,
        )


class _Writer:
    """Writes one decision."""

    def __init__(self, scene: Scene, language: str, workspace: Path) -> None:
        self._scene = scene
        self._words = words(language)
        self._workspace = workspace
        self._held: Held = "sum"

    def write(self) -> tuple[str, JsonObject]:
        """The name of the beat in the words, and the decision."""
        beat = self._beat()
        texts = self._words[beat]
        decision: JsonObject = {
            "rationale": texts["rationale"],
            "reply": self._filled(texts["says"]),
            "goal_consistency": {"ok": True, "reason": self._words["goal"]},
            "constraint_check": {"ok": True, "reason": texts["rationale"]},
            **self._course(beat),
        }
        return beat, decision

    # --- which beat comes next ---------------------------------------------------------------

    def _beat(self) -> str:
        scene = self._scene
        edits = [result for result in scene.latest if result.operation == "file_ops.edit_file"]
        if edits:
            return self._after_edit(edits[-1])
        if scene.changed_outside:
            return "check_outside"
        if scene.latest:
            return self._after_reading()
        return next((beat for beat, about in _ABOUT if about.search(scene.said)), "anything")

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
        read = [r for r in scene.latest if r.operation == "file_ops.read_file"]
        if not read or any(result.outcome != "ok" for result in read):
            return "gave_up"
        code = [r for r in read if r.text.startswith(f"[{CODE}:")]
        if not code:
            return "done_test"
        held = self._held = held_by(code[-1].text)
        if any(_is_change(result) for result in scene.results):
            return "done_unfixed" if held == "sum" else f"done_{held}"
        if held == "other":
            return "done_other"
        if self._asked("show"):
            shown = {"loop": "show_loop", "small": "show_small", "cap": "show_cap"}
            return shown.get(held, "done_unfixed" if held == "sum" else f"done_{held}")
        wish = self._wish()
        if wish == "test":
            return "propose_test"
        if held in ("loop", "small"):
            return f"already_{held}"
        return "done_cap" if wish == held == "cap" else f"propose_{wish}"

    def _count(self, outcome: str) -> int:
        return sum(result.outcome == outcome for result in self._scene.results)

    def _asked(self, beat: str) -> bool:
        found = next((name for name, about in _ABOUT if about.search(self._scene.said)), "")
        return found == beat

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
        kind, _, fix = beat.partition("_")
        match kind:
            case "look" | "show":
                if fix:
                    return _ends()
                return self._first(beat)
            case "check":
                path = TESTS if self._changed_tests() else CODE
                return _goes_on("REVIEW", 0.8, self._read("check", path))
            case "propose":
                return _goes_on("EXECUTION", 0.85, self._edit(_PROPOSED[beat]))
            case "ask":
                asked = self._words["ask"]
                question = {"text": asked["question"], "options": asked["options"]}
                return {
                    **_ends("EXECUTION"),
                    "confidence": 0.4,
                    "next_step": "pending_user",
                    "question": question,
                    "state_delta": {"open_questions": [asked["question"]]},
                }
            case "done":
                decided = {"decision": self._words["decided"]} if fix in ("loop", "small") else {}
                return {**_ends(), "confidence": 0.9, "state_delta": decided}
            case "denied" | "gave" | "already":
                return _ends()
            case _:
                return {**_ends("PLANNING"), "task_profile": "GENERAL_CHAT"}

    def _first(self, beat: str) -> JsonObject:
        """The first decision of the request: what is asked, and the reads."""
        if beat == "show":
            return _goes_on("EXECUTION", 0.8, self._read("check", CODE))
        return {
            **_goes_on("EXECUTION", 0.6, self._read("code", CODE), self._read("tests", TESTS)),
            "task_profile": "DEBUGGING",
            "requirements": [
                {"requirement": text, "priority": 1} for text in self._words["requirements"]
            ],
            "state_delta": {
                "goal": self._words["goal"],
                "why_now": self._words["why_now"],
                "plan_brief": self._words["plan"],
                "open_questions": [],
                "context_refs": [f"file:{CODE}", f"file:{TESTS}"],
            },
        }

    def _read(self, reason: str, path: str) -> JsonObject:
        texts = self._words["reads"][reason]
        return {
            "operation": "file_ops.read_file",
            "args": {"path": path},
            "reasoning": texts["why"],
            "intent": texts["intent"],
        }

    def _edit(self, fix: Fix) -> JsonObject:
        texts = self._words["edits"][fix]
        # What was rejected is not offered again beside the smaller edit.
        others = [name for name in _OFFERED if name != ("loop" if fix == "small" else fix)]
        return {
            "operation": "file_ops.edit_file",
            "args": {"path": TESTS if fix == "test" else CODE, "edits": self._edits(fix)},
            "reasoning": texts["why"],
            "intent": texts["intent"],
            "alternatives": [{"label": self._words["alternatives"][name]} for name in others],
        }

    def _edits(self, fix: Fix) -> list[JsonObject]:
        rate = _RATE.get(self._held_now(), _SUM)
        match fix:
            case "loop":
                old = f"    {rate}\n    {_RETURN}\n"
                return [{"old": old, "new": f"    {_LOOP}\n    return price\n"}]
            case "small":
                return [
                    {"old": _DECIMAL, "new": _DECIMAL + _IMPORT},
                    {"old": rate, "new": _PROD},
                ]
            case "cap":
                return [{"old": rate, "new": _CAP}]
            case "test":
                return [
                    {
                        "old": _TEST.format(name="apply_one_after_the_other", total=81),
                        "new": _TEST.format(name="are_added", total=80),
                    }
                ]

    def _held_now(self) -> Held:
        """What pricing.py held when it was last read in this turn."""
        read = [r for r in self._scene.results if r.text.startswith(f"[{CODE}:")]
        return held_by(read[-1].text) if read else self._held

    def _changed_tests(self) -> bool:
        edits = [r for r in self._scene.latest if r.operation == "file_ops.edit_file"]
        return bool(edits) and f"changed {TESTS}" in edits[-1].text

    def _filled(self, text: str) -> str:
        reason = next(
            (found[1] for r in reversed(self._scene.latest) if (found := _REASON.search(r.text))),
            "",
        )
        quoted = reason.strip().replace("\n", "\n> ")
        for name, value in (
            ("{folder}", str(self._workspace)),
            ("{request}", str(self._words["request"])),
            ("{reason}", quoted),  # last, because it is the user's and may hold anything
        ):
            text = text.replace(name, value)
        return text


def _is_change(result: Result) -> bool:
    return result.operation == "file_ops.edit_file" and result.outcome == "ok"


def _goes_on(step: str, confidence: float, *actions: JsonObject) -> JsonObject:
    return {
        "confidence": confidence,
        "step": step,
        "next_step": "continue",
        "prompt_pattern": "base_main_specialized",
        "actions": list(actions),
    }


def _ends(step: str = "REVIEW") -> JsonObject:
    return {"step": step, "next_step": "done", "prompt_pattern": "base_main"}
