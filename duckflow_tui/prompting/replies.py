"""Models of the replies to questions other than decisions, as their prompt files specify them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.decision import Check, read_requirement
from duckflow_tui.state.goal import DONE_FROM

#: A number, which may be a percentage or "out of" another number.
_SCORE_NUMBER: Final = re.compile(
    r"(-?\d+(?:\.\d+)?|-?\.\d+)\s*"
    r"(?:(%|％|percent|パーセント)|(?:/|out of|of)\s*([1-9]\d*(?:\.0+)?)|点)?",
    re.IGNORECASE,
)

#: Other names that models give to fields, in lower case with underscores.
_SYNONYMS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(aliases.split())
    for name, aliases in {
        "overall_score": "overall score total_score satisfaction 総合 総合スコア 総合評価 全体",
        "requirement_scores": "scores requirements_scores per_requirement 要件スコア 要件",
        "evidence": "evidences proof facts 証拠 根拠 裏付け",
        "missing_aspects": "missing gaps lacking 不足 不足点 不足している点 欠けている点 未達",
        "grade": "rating quality_grade 等級 評価 グレード",
        "quality_assessment": "quality assessment comment 品質 品質評価 講評 所見",
        "suggestions": "suggestion improvements 提案 改善案 改善提案",
        "verdict": "decision 判定 結論",
        "completion_recommendation": "complete completed done is_done 完了 完了推奨",
        "requirements": "要件 要求 requirement_list",
        "requirement": "text description 要件 要求 内容",
        "priority": "優先度",
        "check": "確認 検証",
        "cause": "原因",
        "fix": "対処 修正 solution",
        "retryable": "再試行可能 can_retry",
        "summary": "要約 概要",
        "status": "状態",
        "next_action": "next 次の行動",
        "digest": "要約 summary",
        "steps": "手順 ステップ",
        "strategy": "方針 戦略",
        "what": "missing item description 内容 不足",
        "constraints": "制約",
        "suggested_improvements": "suggestions improvements 改善案 改善提案",
        "alternative_strategies": "alternatives 代替案",
    }.items()
}

_Words = Mapping[str, str]

_GRADES: Final[_Words] = {
    **dict.fromkeys(
        ("good", "excellent", "great", "high", "a", "良い", "良", "優", "優秀"), "good"
    ),
    **dict.fromkeys(("normal", "ok", "okay", "fair", "acceptable", "b", "普通", "可"), "normal"),
    **dict.fromkeys(
        ("needs_work", "needs_improvement", "poor", "bad", "low", "c", "要改善", "不可", "不十分"),
        "needs_work",
    ),
}
_VERDICTS: Final[_Words] = {
    **dict.fromkeys(
        ("approve", "approved", "accept", "accepted", "pass", "passed", "ok", "done", "yes"),
        "approve",
    ),
    **dict.fromkeys(("承認", "合格", "完了"), "approve"),
    **dict.fromkeys(("fix", "needs_fix", "needs_work", "revise", "要修正", "修正"), "fix"),
    **dict.fromkeys(
        ("reject", "rejected", "fail", "failed", "no", "却下", "不合格", "拒否"), "reject"
    ),
}
_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "yes", "complete", "done", "はい", "完了", "1"), True),
    **dict.fromkeys(("false", "no", "incomplete", "いいえ", "未完了", "0"), False),
}
#: Scores given as words.
_DEGREES: Final[Mapping[str, float]] = {
    **dict.fromkeys(
        ("true", "yes", "met", "full", "fully_met", "pass", "passed", "達成", "満たす"), 1.0
    ),
    **dict.fromkeys(("high", "高", "高い"), 0.9),
    **dict.fromkeys(("medium", "partial", "partly", "partly_met", "中", "一部"), 0.5),
    **dict.fromkeys(("low", "低", "低い"), 0.2),
    **dict.fromkeys(("false", "no", "not_met", "unmet", "fail", "failed", "未達"), 0.0),
}


def _field_name(written: object) -> str:
    """Convert a key such as ``overallScore`` or ``Overall score`` to snake case."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(written).strip())
    return re.sub(r"[\s-]+", "_", split).lower()


class JsonReply(BaseModel):
    """Base of the reply models; a missing field is an error that the model is asked to repair."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, given: Any) -> Any:
        """Map keys to field names, accepting synonyms and a reply that is nested under another key;
        null counts as missing.
        """
        return cls._fields_in(cast("dict[str, Any]", given)) if isinstance(given, dict) else given

    @classmethod
    def _fields_in(cls, written: dict[str, Any]) -> dict[str, Any]:
        """Find this reply's fields in what a model wrote: by name, by synonym, or inside one
        wrapping object.
        """
        named: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for key, value in written.items():
            if value is not None:
                name = _field_name(key)
                (named if name in cls.model_fields else others).setdefault(name, value)
        objects = [cast("dict[str, Any]", v) for v in others.values() if isinstance(v, dict)]
        inner = [value for value in objects if cls._has_field(value)]
        if not named and len(inner) == 1:
            return cls._fields_in(inner[0])
        for field in cls.model_fields:
            for name in others.keys() & _SYNONYMS.get(field, frozenset()):
                named.setdefault(field, others[name])
        return cls._read_values(named)

    @classmethod
    def _has_field(cls, given: dict[str, Any]) -> bool:
        """Whether an object has a field of this reply, by its name or a synonym."""
        names = set(map(_field_name, given))
        return any(names & {field, *_SYNONYMS.get(field, ())} for field in cls.model_fields)

    @classmethod
    def _read_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Convert values to the types of their fields; a subclass may override this."""
        return values


class PlanStep(JsonReply):
    id: str
    name: str
    description: str
    depends_on: list[str] = Field(default_factory=list[str])


class PlanReply(JsonReply):
    """Purpose ``plan``."""

    name: str
    goal: str
    steps: list[PlanStep] = Field(min_length=1)
    risk: Literal["low", "medium", "high"] | None = None
    success_criteria: list[str] = Field(default_factory=list[str])


class ContinuationReply(PlanReply):
    """Purpose ``continuation``: another plan, and how it differs."""

    strategy: str


class ProposedTask(JsonReply):
    """One operation of a task list."""

    operation: str
    args: JsonObject
    description: str = ""


class TasksReply(JsonReply):
    """Purpose ``tasks``."""

    tasks: list[ProposedTask]


class ReportReply(JsonReply):
    """Purpose ``report``."""

    status: Literal["completed", "partial", "failed"]
    summary: str
    cause: str
    next_action: str


class ProposedRequirement(JsonReply):
    requirement: str
    priority: Literal[1, 2, 3]
    check: Check

    @classmethod
    def _read_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Read priority and check in every form that a decision's requirements may have."""
        claim = read_requirement(values, [])
        return values if claim is None else claim.model_dump()


class RequirementsReply(JsonReply):
    """Purpose ``requirements``; ``dropped`` and ``again`` hold ids of existing requirements."""

    requirements: list[ProposedRequirement]
    dropped: list[str] = Field(default_factory=list[str])
    again: list[str] = Field(default_factory=list[str])

    @classmethod
    def _read_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Accept ids as the keys of an object, beside the list that is asked for."""
        for name in ("dropped", "again"):
            if isinstance(values.get(name), dict):
                values[name] = list(values[name])
        return values


class SatisfactionReply(JsonReply):
    """Purpose ``satisfaction``; scores are from 0.0 to 1.0. A missing or unreadable field has its
    default; the reviewer asks again for those that it needs.

    Keys of scores and evidence name a requirement: its id, its text, or ``#2`` for the second one.
    ``steps`` name those of the plan that have to be done again, by number, id or name.
    """

    overall_score: float | None = None
    requirement_scores: dict[str, float] = Field(default_factory=dict[str, float])
    evidence: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    missing_aspects: list[str] = Field(default_factory=list[str])
    grade: Literal["good", "normal", "needs_work"] | None = None
    quality_assessment: str = ""
    suggestions: list[str] = Field(default_factory=list[str])
    verdict: Literal["approve", "fix", "reject"] | None = None
    completion_recommendation: bool | None = None
    steps: list[str] = Field(default_factory=list[str])

    @classmethod
    def _read_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Read a judge's scores, evidence and verdict out of the forms that judges use."""
        scores, evidence = dict[str, object](), dict[str, Any]()
        for key, value in _entries_by_requirement(values.get("requirement_scores")).items():
            if isinstance(value, dict):  # {"score": 0.9, "evidence": ["C1"]}
                fields = {_field_name(k): v for k, v in cast("dict[str, Any]", value).items()}
                found = [fields[name] for name in _SCORE_NAMES if name in fields]
                scores[key] = found[0] if found else None
                proof = [fields[n] for n in ("evidence", *_SYNONYMS["evidence"]) if n in fields]
                if proof:
                    evidence[key] = proof[0]
            else:
                scores[key] = value
        evidence |= _entries_by_requirement(values.get("evidence"))
        verdict = _read_choice(values.get("verdict"), _VERDICTS)
        complete = _read_choice(values.get("completion_recommendation"), _BOOLEANS)
        whole, parts = read_scores(values.get("overall_score"), scores, verdict, complete)
        return {
            "overall_score": whole,
            "requirement_scores": parts,
            "evidence": {key: _collect_texts(value) for key, value in evidence.items()},
            "missing_aspects": _collect_texts(values.get("missing_aspects")),
            "grade": _read_choice(values.get("grade"), _GRADES),
            "quality_assessment": "; ".join(_collect_texts(values.get("quality_assessment"))),
            "suggestions": _collect_texts(values.get("suggestions")),
            "verdict": verdict,
            "completion_recommendation": complete,
            "steps": _collect_texts(values.get("steps")),
        }


_SCORE_NAMES: Final = ("score", "level", "value", "rating", "satisfaction", "met", "スコア", "点")
_ID_NAMES: Final = ("id", "requirement_id", "key", "requirement", "name", "text", "要件")
_NOTHING: Final = frozenset(("none", "n/a", "-", "–", "なし", "無し", "特になし", "nothing"))


def _entries_by_requirement(given: Any) -> dict[str, Any]:
    """The values keyed by requirement; entries of a list without a key are numbered ``#1`` on."""
    if isinstance(given, dict):
        return {str(key).strip(): value for key, value in cast("dict[str, Any]", given).items()}
    found: dict[str, Any] = {}
    for number, entry in enumerate(cast("list[Any]", given) if isinstance(given, list) else (), 1):
        key = f"#{number}"
        if isinstance(entry, dict):
            fields = {_field_name(k): v for k, v in cast("dict[str, Any]", entry).items()}
            key = next((str(fields[name]) for name in _ID_NAMES if name in fields), key)
        found[key.strip()] = entry
    return found


def _collect_texts(given: Any) -> list[str]:
    """Every text and number in a nested value; phrases such as "none" are left out."""
    if isinstance(given, dict):
        given = list(cast("dict[str, Any]", given).values())
    if isinstance(given, list):
        return [text for entry in cast("list[Any]", given) for text in _collect_texts(entry)]
    text = "" if given is None or isinstance(given, bool) else str(given).strip()
    return [text] if text and text.casefold().strip(".。") not in _NOTHING else []


_Meaning = TypeVar("_Meaning")


def _read_choice(given: object, words: Mapping[str, _Meaning]) -> _Meaning | None:
    """Look up a word of a fixed choice, or the first word of a longer text; None if unknown."""
    word = _field_name("" if given is None else str(given).strip(" .!。*`"))
    if word in words:
        return words[word]
    return words.get(re.split(r"[^a-z぀-ヿ一-鿿]", word)[0])


#: Scales of bare numbers: the greatest number is above the first value and at most the second,
#: which is the top of the scale.
_SCALES: Final = ((0.0, 1.0), (1.0, 5.0), (1.0, 10.0), (10.0, 100.0))


def read_scores(
    overall: object, scores: Mapping[str, object], verdict: str | None, complete: bool | None
) -> tuple[float | None, dict[str, float]]:
    """Convert the scores of one judgement to 0.0 to 1.0: the overall one and those by key. Accepts
    0.8, "80 %", "8/10", "high", and bare numbers over 1, which share one scale: of 5, 10 or 100.

    Ambiguous scores are left out: bare numbers that fit several scales, unless only one agrees
    with the verdict, and those whose only scale contradicts it.
    """
    given = {**scores, "": overall}
    read: dict[str, float] = {}
    bare: dict[str, float] = {}
    for key, value in given.items():
        if isinstance(value, dict):  # {"score": 0.8, "reason": "…"}
            fields = {_field_name(k): v for k, v in cast("dict[str, Any]", value).items()}
            value = next((fields[name] for name in _SCORE_NAMES if name in fields), None)
        text = str(value).strip()
        match = _SCORE_NUMBER.fullmatch(text)
        if match is None:
            if (degree := _DEGREES.get(_field_name(text))) is not None:
                read[key] = degree
        elif match[2] or match[3]:
            read[key] = float(match[1]) / float(match[3] or 100)
        else:
            bare[key] = float(match[1])
    most = max(bare.values(), default=0.0)
    scales = [s for s in _SCALES if s[0] < most <= s[1]] if most > 0 else _SCALES[:1]
    says = {"approve": True, "fix": False, "reject": False}.get(verdict or "", complete)
    if says is not None and 1 < most <= 10:
        scales = [s for s in scales if (most / s[1] >= DONE_FROM) is says]
    if len(scales) == 1:
        read |= {key: value / scales[0][1] for key, value in bare.items()}
    read = {key: value for key, value in read.items() if 0 <= value <= 1}
    whole = read.pop("", None)
    return whole, read


class MissingEntry(JsonReply):
    what: str
    priority: Literal[1, 2, 3]


class MissingReply(JsonReply):
    """Purpose ``missing``."""

    missing: list[MissingEntry]
    constraints: list[str]
    suggested_improvements: list[str]
    alternative_strategies: list[str]


class FailureReply(JsonReply):
    """Purpose ``failure``."""

    cause: str
    fix: str
    retryable: bool


class DigestReply(JsonReply):
    """Purpose ``digest``."""

    digest: str
