"""Models of the replies to side questions, as their prompt files specify them.

Replies are read in the forms that models use: synonyms for field names, a wrapping object, a list
or text in place of the object, one entry in place of a list, "P1" or "completed." for a choice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, Self, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.decision import RequirementClaim, read_requirement
from duckflow_tui.state.goal import DONE_FROM
from duckflow_tui.state.lenient import (
    BOOLEANS,
    collect_texts,
    field_name,
    join_texts,
    read_choice,
    read_first_word,
    read_priority,
)

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
        "dropped": "removed waived 取り下げ",
        "priority": "優先度 prio importance severity",
        "cause": "原因 root_cause reason diagnosis",
        "fix": "対処 修正 solution recommendation remedy suggested_fix how_to_fix",
        "retryable": "再試行可能 再試行 can_retry retry is_retryable",
        "summary": "要約 概要 report result",
        "status": "状態 outcome state",
        "next_action": "next next_step next_steps recommended_action recommendation 次の行動",
        "digest": "要約 summary text content",
        "steps": "手順 ステップ plan phases tasks",
        "strategy": "方針 戦略 approach",
        "id": "step_id number no",
        "name": "title step_name summary 名前",
        "description": "details detail what action task step 説明 内容",
        "depends_on": "dependencies depends needs requires after 依存",
        "goal": "objective 目標",
        "risk": "risk_level リスク",
        "success_criteria": "criteria acceptance_criteria success 成功基準",
        "what": "missing item description text title aspect 内容 不足",
        "missing": "missing_items gaps 不足",
        "constraints": "limitations 制約",
        "suggested_improvements": "suggestions improvements 改善案 改善提案",
        "alternative_strategies": "alternatives strategies 代替案",
        "tasks": "actions calls operations steps タスク",
    }.items()
}


def _read_table(**words: str) -> Mapping[str, str]:
    """Return the meaning of each word: the names of the arguments, and the words in them."""
    return {
        word: meaning for meaning, others in words.items() for word in (meaning, *others.split())
    }


_GRADES: Final = _read_table(
    good="excellent great high a 良い 良 優 優秀",
    normal="ok okay fair acceptable b 普通 可",
    needs_work="needs_improvement poor bad low c 要改善 不可 不十分",
)
_VERDICTS: Final = _read_table(
    approve="approved accept accepted pass passed ok done yes 承認 合格 完了",
    fix="needs_fix needs_work revise 要修正 修正",
    reject="rejected fail failed no 却下 不合格 拒否",
)
#: Of steps, in reports and in calls that set one.
STATUSES: Final = _read_table(
    pending="todo open not_started",
    in_progress="started running active doing",
    completed="complete done success succeeded successful successfully ok finished passed 完了"
    " 成功",
    partial="partially partly incomplete 一部 一部完了",
    failed="failure fail error unsuccessful 失敗",
    blocked="stuck waiting on_hold",
)
_RISKS: Final = _read_table(
    low="minimal none 低 低い", medium="moderate mid 中 中程度", high="critical 高 高い"
)
#: Scores given as words.
_SCORES: Final = {
    word: score
    for score, words in {
        1.0: "met true yes full fully fully_met pass passed 達成 満たす",
        0.9: "high 高 高い",
        0.5: "partly medium partial partly_met 中 一部",
        0.2: "low 低 低い",
        0.0: "unmet false no not_met fail failed 未達",
    }.items()
    for word in words.split()
}


class JsonReply(BaseModel):
    """Base of the reply models. A missing field without a default is an error that the model is
    asked to repair.

    ``main_list`` and ``main_text`` name the field that a bare list or text is taken for; "" for
    none. ``decisive`` are fields whose outermost value counts, and with which the words around the
    object must agree.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    main_list: ClassVar[str] = ""
    main_text: ClassVar[str] = ""
    decisive: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _find_fields(cls, given: Any) -> Any:
        """Find the reply in a parsed value: the outermost object that has all required fields, else
        the one with most of its fields. Return its values by our field names, nulls left out. A
        value without a reply is returned unchanged. Raise an error if another object, neither
        within the reply nor around it, has a decisive field too.
        """
        needed = {name for name, field in cls.model_fields.items() if field.is_required()}
        needed |= {cls.main_list} - {""}
        objects = [*_walk_objects(given)]
        whole = [found for found in objects if needed and needed <= set(map(field_name, found))]
        best = whole[0] if whole else max(objects, key=cls._rate_fit, default=None)
        if cls.decisive and best is not None:
            inner = [*_walk_objects(best)]
            others = [o for o in objects if o not in inner and best not in _walk_objects(o)]
            if any(not cls._name_fields(o).keys().isdisjoint(cls.decisive) for o in others):
                raise PydanticCustomError("several", "several different objects")
        if best is None or not (named := cls._name_fields(best)):
            value = cast("object", given)
            if cls.main_list and isinstance(value, dict | list):
                return cls._read_values({cls.main_list: given})
            is_text = cls.main_text and isinstance(value, str | list)
            return cls._read_values({cls.main_text: given}) if is_text else given
        around = cls._name_fields(objects[0])  # what it has to have may stand there
        named = {name: around[name] for name in around if name in needed} | named
        named |= {name: around[name] for name in cls.decisive if name in around}
        return cls._read_values(named)

    @model_validator(mode="after")
    def _check_words(self, info: ValidationInfo) -> Self:
        """Raise an error if a field among ``around`` of the context, the words around the object,
        has another value.
        """
        context = cast("Mapping[str, Sequence[JsonObject]]", info.context or {})
        for said in context.get("around", ()) if self.decisive else ():
            named = self._name_fields(said)
            if told := {name: named[name] for name in self.decisive if name in named}:
                with suppress(ValidationError):
                    other = type(self).model_validate({**self.model_dump(), **told})
                    if any(_differ(getattr(self, n), getattr(other, n)) for n in told):
                        raise PydanticCustomError("contradicted", "the words say otherwise")
        return self

    @classmethod
    def _name_fields(cls, written: Mapping[str, Any]) -> dict[str, Any]:
        """Return the non-null values by our field names. A synonym counts where the field itself is
        missing; where ``main_list`` is, the only list that has no name of ours.
        """
        given = {field_name(key): value for key, value in written.items() if value is not None}
        named: dict[str, Any] = {}
        for field in cls.model_fields:
            others = sorted(_SYNONYMS.get(field, frozenset()) - cls.model_fields.keys())
            if found := [given[name] for name in (field, *others) if name in given]:
                named[field] = found[0]
        values = (v for v in given.values() if v not in named.values())
        lists: list[Any] = [value for value in values if isinstance(value, list)]
        if cls.main_list and len(lists) == 1:
            named.setdefault(cls.main_list, lists[0])
        return named

    @classmethod
    def _rate_fit(cls, written: Mapping[str, Any]) -> int:
        """Count the fields of this reply in an object; those under their own names count twice."""
        own = cls.model_fields.keys() & set(map(field_name, written))
        return len(own) + len(cls._name_fields(written))

    @classmethod
    def _read_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Convert values to the types of their fields; a subclass may override this."""
        return values


_ROUNDED: Final = 0.1  # by which scores may differ that are given twice


def _differ(value: object, other: object) -> bool:
    """Whether another value was read, and it is not the same but for rounding."""
    if isinstance(value, float) and isinstance(other, float):
        return abs(value - other) > _ROUNDED
    return other not in (None, value)


_DEEPEST: Final = 6  # levels of a value in which a reply is looked for


def _walk_objects(given: object) -> Iterator[JsonObject]:
    """Yield the objects in a value, outer ones first, to six levels, those in the JSON of a text
    too.
    """
    level = [given]
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for value in level:
            if isinstance(value, str) and value.lstrip().startswith("{"):
                with suppress(ValueError, RecursionError):
                    value = json.loads(value)
            if isinstance(value, dict):
                yield (fields := cast("JsonObject", value))
                inner += fields.values()
            elif isinstance(value, list):
                inner += cast("list[object]", value)
        level = inner


#: A key by which entries are numbered: "r1", "step 2", "3".
_ID_KEY: Final = re.compile(r"[A-Za-z_ ]{0,12}\d{1,4}")


def _list_entries(given: Any) -> list[Any]:
    """Return a list of entries given as a list, as one entry, or as an object of entries by id."""
    if isinstance(given, dict):
        entries = cast("dict[str, Any]", given)
        if not entries or not all(map(_ID_KEY.fullmatch, entries)):
            return [entries] if entries else []
        return [
            {"id": key, **cast("JsonObject", value)} if isinstance(value, dict) else value
            for key, value in entries.items()
        ]
    if isinstance(given, list):
        return [entry for entry in cast("list[Any]", given) if entry not in (None, "", {})]
    return [given] if collect_texts(given) else []


def _list_texts(given: Any) -> list[str]:
    """A text for each entry of a list; of anything else all its texts."""
    if not isinstance(given, list):
        return collect_texts(given)
    joined = ("; ".join(collect_texts(entry)) for entry in cast("list[Any]", given))
    return [text for text in joined if text]


def _list_ids(given: Any) -> list[str]:
    """Return ids given as a list, as text with commas, or as the keys of an object."""
    texts = collect_texts(list(cast("JsonObject", given)) if isinstance(given, dict) else given)
    return [one.strip() for text in texts for one in text.split(",") if one.strip()]


def _read_claims(given: Any) -> list[RequirementClaim]:
    """Return the requirements in a model's list; entries without text are left out."""
    claims = map(read_requirement, _list_entries(given))
    return [claim for claim in claims if claim is not None]


def read_word(words: Mapping[str, Any], given: object) -> object:
    """Look up a word of a fixed choice; an unknown one is returned unchanged, for validation to
    refuse.
    """
    if isinstance(given, dict | list):
        given = next(iter(collect_texts(given)), None)
    meaning = read_choice(given, words)
    return given if meaning is None else meaning


Text = Annotated[str, BeforeValidator(join_texts)]
Texts = Annotated[list[str], BeforeValidator(_list_texts)]
Ids = Annotated[list[str], BeforeValidator(_list_ids)]
Claims = Annotated[list[RequirementClaim], BeforeValidator(_read_claims)]
Priority = Annotated[Literal[1, 2, 3], BeforeValidator(lambda given: read_priority(given) or 1)]
Status = Annotated[
    Literal["completed", "partial", "failed"], BeforeValidator(partial(read_word, STATUSES))
]
RiskWord = Annotated[
    Literal["low", "medium", "high"] | None,
    BeforeValidator(lambda given: read_first_word(next(iter(collect_texts(given)), ""), _RISKS)),
]
#: Only shown to the user.
Flag = Annotated[bool, BeforeValidator(lambda given: read_first_word(given, BOOLEANS))]


class PlanStep(JsonReply):
    """A step of a plan; where name or description is missing, the other stands for it."""

    main_text = "description"

    id: Text = ""
    name: Text
    description: Text
    depends_on: Ids = Field(default_factory=list[str])

    @classmethod
    def _read_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        for name, other in (("name", "description"), ("description", "name")):
            if name not in values and other in values:
                values[name] = values[other]
        return values


#: Steps in any form that models give a list of them in.
PlanSteps = Annotated[list[PlanStep], BeforeValidator(_list_entries)]


class PlanReply(JsonReply):
    """Reply for purpose ``plan``."""

    main_list = "steps"

    name: Text = ""
    goal: Text = ""
    steps: PlanSteps = Field(min_length=1)
    risk: RiskWord = None
    success_criteria: Texts = Field(default_factory=list[str])


class ContinuationReply(PlanReply):
    """Reply for purpose ``continuation``: another plan, and how it differs from the last one."""

    strategy: Text


class TasksReply(JsonReply):
    """Reply for purpose ``tasks``: calls of operations, in any form that an action may have."""

    main_list = "tasks"

    tasks: Annotated[list[JsonObject], BeforeValidator(_list_entries)]


class ReportReply(JsonReply):
    """Reply for purpose ``report``."""

    decisive = ("status",)

    status: Status
    summary: Text
    cause: Text = ""
    next_action: Text = ""


class RequirementsReply(JsonReply):
    """Reply for purpose ``requirements``; ``dropped`` and ``again`` hold ids of existing
    requirements.
    """

    main_list = "requirements"

    requirements: Claims = Field(default_factory=list[RequirementClaim])
    dropped: Ids = Field(default_factory=list[str])
    again: Ids = Field(default_factory=list[str])


class SatisfactionReply(JsonReply):
    """Reply for purpose ``satisfaction``, a judge's scores from 0.0 to 1.0. A missing or unreadable
    field has its default; the reviewer asks again for those it needs.

    Keys of scores and evidence name a requirement by id, by text, or as ``#2`` for the second one.
    ``steps`` names steps of the plan to be done again, by number, id or name.
    """

    decisive = ("overall_score", "verdict", "completion_recommendation")

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
        """Convert a judge's scores, evidence and verdict from the forms that judges use."""
        scores, evidence = dict[str, object](), dict[str, Any]()
        for key, value in _entries_by_requirement(values.get("requirement_scores")).items():
            if isinstance(value, dict):  # {"score": 0.9, "evidence": ["C1"]}
                fields = {field_name(k): v for k, v in cast("dict[str, Any]", value).items()}
                found = [fields[name] for name in _SCORE_NAMES if name in fields]
                scores[key] = found[0] if found else None
                proof = [fields[n] for n in ("evidence", *_SYNONYMS["evidence"]) if n in fields]
                if proof:
                    evidence[key] = proof[0]
            else:
                scores[key] = value
        evidence |= _entries_by_requirement(values.get("evidence"))
        verdict = read_choice(values.get("verdict"), _VERDICTS)
        complete = read_choice(values.get("completion_recommendation"), BOOLEANS)
        whole, parts = read_scores(values.get("overall_score"), scores, verdict, complete)
        return {
            "overall_score": whole,
            "requirement_scores": parts,
            "evidence": {key: collect_texts(value) for key, value in evidence.items()},
            "missing_aspects": collect_texts(values.get("missing_aspects")),
            "grade": read_choice(values.get("grade"), _GRADES),
            "quality_assessment": "; ".join(collect_texts(values.get("quality_assessment"))),
            "suggestions": collect_texts(values.get("suggestions")),
            "verdict": verdict,
            "completion_recommendation": complete,
            "steps": collect_texts(values.get("steps")),
        }


_SCORE_NAMES: Final = ("score", "level", "value", "rating", "satisfaction", "met", "スコア", "点")
_ID_NAMES: Final = ("id", "requirement_id", "key", "requirement", "name", "text", "要件")


def _entries_by_requirement(given: Any) -> dict[str, Any]:
    """Return the values by requirement; entries of a list that name none are keyed ``#1``, ``#2``
    ….
    """
    if isinstance(given, dict):
        return {str(key).strip(): value for key, value in cast("dict[str, Any]", given).items()}
    found: dict[str, Any] = {}
    for number, entry in enumerate(cast("list[Any]", given) if isinstance(given, list) else (), 1):
        key = f"#{number}"
        if isinstance(entry, dict):
            fields = {field_name(k): v for k, v in cast("dict[str, Any]", entry).items()}
            key = next((str(fields[name]) for name in _ID_NAMES if name in fields), key)
        found[key.strip()] = entry
    return found


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
            fields = {field_name(k): v for k, v in cast("dict[str, Any]", value).items()}
            value = next((fields[name] for name in _SCORE_NAMES if name in fields), None)
        text = str(value).strip()
        match = _SCORE_NUMBER.fullmatch(text)
        if match is None:
            if (score := read_choice(text, _SCORES)) is not None:
                read[key] = score
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
    main_text = "what"

    what: Text
    priority: Priority = 1


class MissingReply(JsonReply):
    """Reply for purpose ``missing``."""

    main_list = "missing"

    missing: Annotated[list[MissingEntry], BeforeValidator(_list_entries)]
    constraints: Texts = Field(default_factory=list[str])
    suggested_improvements: Texts = Field(default_factory=list[str])
    alternative_strategies: Texts = Field(default_factory=list[str])


class FailureReply(JsonReply):
    """Reply for purpose ``failure``."""

    cause: Text
    fix: Text = ""
    retryable: Flag = False


class DigestReply(JsonReply):
    """Reply for purpose ``digest``; plain text is taken for the digest."""

    main_text = "digest"

    digest: Annotated[str, BeforeValidator(lambda given: join_texts(given, "\n"))]
