"""The kind of a request, and what it allows: the limit of loops of an attempt, base × complexity ×
vitals, and why (S0-5…36).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.goals.progress import RAN
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.pace import Complexity, LimitSet, LoopLimit, Reason, TaskProfile, Vitals

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.store import Store

MIN_LIMIT: Final = 3  # S0-6

MAX_LIMIT: Final = 20

FINAL_FALLBACK: Final = 15  # S0-28

UNKNOWN_BASE: Final = 8  # S0-22

#: Loops that a request of each kind usually needs (S0-13…21).
BASES: Final[Mapping[TaskProfile, int]] = {
    TaskProfile.SIMPLE_QUESTION: 5,
    TaskProfile.CODE_ANALYSIS: 12,
    TaskProfile.FILE_OPERATION: 8,
    TaskProfile.COMPLEX_REASONING: 18,
    TaskProfile.MULTI_STEP_TASK: 15,
    TaskProfile.GENERAL_CHAT: 6,
    TaskProfile.CREATIVE_WRITING: 10,
    TaskProfile.DEBUGGING: 14,
    TaskProfile.RESEARCH: 16,
}

VITAL_WEIGHTS: Final = (("mood", 0.4), ("focus", 0.4), ("stamina", 0.2))  # S0-8

LOW_SCORE: Final = 0.4  # S0-9, both strict

GOOD_SCORE: Final = 0.8

LOW_FACTOR: Final = 0.7

GOOD_FACTOR: Final = 1.2

COMPLEXITY_WEIGHT: Final = 0.4  # S0-10

#: Kinds of request that are hard whatever the context.
HARD: Final = (TaskProfile.COMPLEX_REASONING, TaskProfile.DEBUGGING)

MANY_FILES: Final = 8  # from here on the factor is 1.0 (S0-23)

MANY_TURNS: Final = 15  # S0-24

ERROR_WEIGHT: Final = 3  # a third of the calls going wrong is the most (S0-25)

UNMEASURED: Final = 0.3  # S0-26

LOW_VITAL: Final = 0.5  # S0-32

GOOD_VITAL: Final = 0.8

LOW_COMPLEXITY: Final = 0.3  # below it complexity is low (S0-33)

HIGH_COMPLEXITY: Final = 0.7  # above it complexity, or one of its factors, is high

LOGGER: Final = "duckflow.pacemaker"

DIGITS: Final = 6  # sums of tenths miss their value by less than this

_FAULTS: Final = (ArithmeticError, LookupError, TypeError, ValueError)

_log = logging.getLogger(LOGGER)

ChosenBy = Literal["model", "rules", "user"]


def note(line: str, level: int = logging.INFO) -> None:
    """A line of the developer's log of the pacemaker, with the prefix of all of them (S0-45)."""
    _log.log(level, "[DUCK_PACEMAKER] %s", line)


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """The settings of the pacemaker; loops are counts."""

    min: int = MIN_LIMIT
    max: int = MAX_LIMIT  # where it lies below ``min``, it wins
    fallback: int = FINAL_FALLBACK  # when the limit cannot be computed
    base: Mapping[TaskProfile, int] = field(default_factory=lambda: dict(BASES))
    hard_from: float | None = None  # complexity from which on a request is hard; None: never


class Pacemaker:
    """Computes limits; holds nothing but its settings."""

    def __init__(self, settings: PaceSettings | None = None) -> None:
        self._settings = settings or PaceSettings()

    def start_session(
        self,
        store: Store,
        profile: TaskProfile | None,
        chosen_by: ChosenBy,
        *,
        fresh: bool = False,
        before: LoopLimit | None = None,
        cap: int = 0,
        highest: int = 0,
    ) -> LoopLimit:
        """Analyse the context, compute, write the limit to the state, return it (S0-31).

        ``fresh`` begins new books; what was added to the limit ``before`` is kept. ``cap``: the
        most that the setting allows a step of a plan, whose limit is its own and is not written.
        ``highest``: no more than this, where the setting allows more; 0 for the setting.
        """
        vitals = store.state.vitals
        limit = self.limit(profile, chosen_by, vitals, of_state(store.state), highest)
        if cap:
            limit = limit.replace(max_loops=min(limit.max_loops, cap))
        if before is not None and before.extended:
            added = {"extended": before.extended, "grown": before.grown}
            most = limit.max_loops + before.extended
            limit = limit.model_copy(update={"max_loops": most, **added})
        if not cap:
            store.dispatch(LimitSet(limit=limit, fresh=fresh))
        said = " (fallback)" if limit.fallback else ""
        name = limit.profile.value if limit.profile else "unknown"
        note(f"limit set: profile={name} limit={limit.max_loops}{said}")
        now = f"mood={vitals.mood:.2f} focus={vitals.focus:.2f} stamina={vitals.stamina:.2f}"
        note(f"vitals: {now}")
        if limit.complexity is not None:
            value = limit.complexity.value
            note(f"complexity: {value:.2f} ({complexity_word(value)})")
        return limit

    def limit(
        self,
        profile: TaskProfile | None,
        chosen_by: ChosenBy,
        vitals: Vitals,
        complexity: Complexity,
        highest: int = 0,
    ) -> LoopLimit:
        """The limit and its reasons (S0-29). What cannot be computed becomes a fallback that
        says it is one (S0-27, S0-28, S0-30).
        """
        low, high = self._settings.min, min(self._settings.max, highest or self._settings.max)
        try:
            base = self._settings.base.get(profile, UNKNOWN_BASE) if profile else UNKNOWN_BASE
            score = 0.0
            for name, weight in VITAL_WEIGHTS:
                score += weight * getattr(vitals, name)
            score = round(score, DIGITS)  # what floats can tell
            by_vitals = GOOD_FACTOR if score > GOOD_SCORE else 1.0
            by_vitals = LOW_FACTOR if score < LOW_SCORE else by_vitals
            by_context = 1.0 + COMPLEXITY_WEIGHT * complexity.value  # S0-10
            product = int(round(base * by_vitals * by_context, DIGITS))
            limit = LoopLimit(
                max_loops=min(max(product, low), high),  # truncated before (S0-7)
                profile=profile,
                chosen_by=chosen_by,
                base_loops=base,
                vitals_score=score,
                vitals_factor=by_vitals,
                complexity=complexity,
                complexity_factor=by_context,
                mood=vitals.mood,
                focus=vitals.focus,
                stamina=vitals.stamina,
                lowest=low,
                highest=high,
            )
            return limit.model_copy(update={"reasoning": reasons(limit, product)})
        except _FAULTS as fault:
            note(f"the limit could not be computed: {fault!r}", logging.WARNING)
            return self._fallback(profile, chosen_by)

    def is_hard(self, limit: LoopLimit) -> bool:
        """Whether the request that the limit was set for deserves the strong model (S1-43)."""
        least, found = self._settings.hard_from, limit.complexity
        if least is None:
            return False
        return limit.profile in HARD or (found is not None and found.value >= least)

    def _fallback(self, profile: TaskProfile | None, chosen_by: ChosenBy) -> LoopLimit:
        cause = "calculation"
        try:
            loops = int(self._settings.fallback)
        except _FAULTS as fault:
            note(f"the settings could not be read: {fault!r}", logging.WARNING)
            loops = 0
        if loops < 1:
            cause, loops = "settings", FINAL_FALLBACK
        return LoopLimit(
            max_loops=loops,
            profile=profile,
            chosen_by=chosen_by,
            fallback=True,
            reasoning=(Reason(code="fallback", params={"cause": cause, "limit": str(loops)}),),
        )


def complexity_word(value: float) -> Literal["low", "medium", "high"]:
    """Low below 0.3, high above 0.7, else medium (S0-33)."""
    if value < LOW_COMPLEXITY:
        return "low"
    return "high" if value > HIGH_COMPLEXITY else "medium"


def of_state(state: AgentState) -> Complexity:
    """The complexity of a session: files read, turns before this one, the model's calls so far."""
    ran = errors = 0
    for message in state.messages:
        if isinstance(message, OperationMessage) and message.result.outcome in RAN:
            if message.by_user or message.for_requirement:
                continue
            ran += 1
            errors += message.result.outcome is not Outcome.OK
    return analyse(len(state.files_read), len(state.turns), errors, ran)


def analyse(
    files: int | None, turns: int | None, errors: int | None, executions: int | None
) -> Complexity:
    """The mean of the factors that can be measured; None for what cannot.

    ``errors`` are operations that could not run, of the ``executions`` in all; with none of
    those the factor is 0.0.
    """
    by_files = None if files is None else min(files / MANY_FILES, 1.0)
    by_turns = None if turns is None else min(turns / MANY_TURNS, 1.0)
    by_errors = None
    if errors is not None and executions is not None:
        by_errors = min(errors / executions * ERROR_WEIGHT, 1.0) if executions else 0.0
    known = [factor for factor in (by_files, by_turns, by_errors) if factor is not None]
    return Complexity(
        value=sum(known) / len(known) if known else UNMEASURED,
        files=by_files,
        history=by_turns,
        errors=by_errors,
    )


def reasons(limit: LoopLimit, computed: int) -> tuple[Reason, ...]:
    """The reasons behind a limit whose product came to ``computed`` before the range; codes are
    keys below ``pace.reason``.
    """
    found: list[Reason] = []

    def add(code: str, **params: str) -> None:
        found.append(Reason(code=code, params=params))

    profile = limit.profile.value if limit.profile else "unknown"
    add("profile", profile=profile, base=str(limit.base_loops), by=limit.chosen_by)
    vitals = {"mood": limit.mood, "focus": limit.focus, "stamina": limit.stamina}
    for name, value in vitals.items():
        if value < LOW_VITAL or value > GOOD_VITAL:
            add("vitals_low" if value < LOW_VITAL else "vitals_good", vital=name)
    if len(found) == 1:
        add("vitals_standard")
    if (context := limit.complexity) is not None:
        word = complexity_word(context.value)
        add(f"complexity_{word}")
        factors = {
            "many_files": context.files,
            "long_history": context.history,
            "many_errors": context.errors,
        }
        for code, factor in factors.items():
            if word == "high" and factor is not None and factor > HIGH_COMPLEXITY:
                add(code)
    changes = {
        "adjusted_vitals": round((limit.vitals_factor - 1) * 100),
        "adjusted_complexity": round((limit.complexity_factor - 1) * 100),
    }
    for code, percent in changes.items():
        if percent:
            add(code, percent=f"{percent:+d}")  # S0-34
    if not any(changes.values()):
        add("no_adjustment")
    if computed != limit.max_loops:
        add("clamped", computed=str(computed), limit=str(limit.max_loops))
    return tuple(found)


# --- the kind of a request -----------------------------------------------------------------------

#: Kinds of request that are answered, not worked on: free of a review while nothing is required and
#: no operation was performed. A model that says so of a clear order is overruled.
TALK: Final = frozenset({TaskProfile.SIMPLE_QUESTION, TaskProfile.GENERAL_CHAT})

_STRONG: Final = 3

_WEAK: Final = 1

_END: Final = 2000  # characters of a long request that are looked at, of its start and of its end


@dataclass(frozen=True, slots=True)
class ProfileGuess:
    """What the rules make of a request; ``strong`` where its words leave little doubt."""

    profile: TaskProfile | None = None
    strong: bool = False


def _rule(
    profile: TaskProfile, weight: int, *patterns: str
) -> tuple[TaskProfile, int, re.Pattern[str]]:
    return profile, weight, re.compile("|".join(patterns), re.IGNORECASE)


#: Signs of a kind with their weight. Of two kinds with the same weight the earlier sign decides.
_RULES: Final = (
    _rule(
        TaskProfile.DEBUGGING,
        _STRONG,
        r"\b(?:debug|traceback|stack ?trace|crash(?:es|ed|ing)?|segfault|regression)\b",
        r"\b(?:fix|repair|solve|find|track down)\b.{0,40}\b(?:bugs?|errors?|fail\w*|exceptions?)\b",
        r"\b(?:tests?|build|ci)\b.{0,20}\b(?:fails?|failing|failed|broken|red)\b",
        r"\b(?:does ?n[o']t|doesn’t|not|stopped) work(?:ing)?\b",
        r"(?:バグ|不具合|エラー|例外|クラッシュ|落ちる).{0,12}(?:直|修正|解決|調べ|原因|なお)",
        r"(?:デバッグ|トレースバック|スタックトレース|動かない|動作しない|失敗する|通らない)",
    ),
    _rule(
        TaskProfile.MULTI_STEP_TASK,
        _STRONG,
        r"\b(?:implement|build|develop|scaffold|port|migrate|refactor)\b.{1,}",
        r"\b(?:make|create|write|add)\b.{0,40}\b(?:app|game|tool|cli|feature|module|project|server|"
        r"api|program|library|tests?)\b",
        r"\bfirst\b.{1,80}\b(?:then|after that|finally)\b",
        r"(?:実装|開発|構築|移植|移行|リファクタリング)(?:して|する|せよ|を)",
        r"(?:アプリ|ゲーム|ツール|機能|モジュール|プロジェクト|サーバー?|プログラム|テスト)"
        r".{0,12}(?:作|追加|書いて)",
        r"(?:まず|最初に).{1,60}(?:次に|その後|それから|最後に)",
    ),
    _rule(
        TaskProfile.FILE_OPERATION,
        _STRONG,
        r"\b(?:rename|move|copy|delete|remove|create|write|edit|save|append)\b.{0,30}"
        r"(?:\bfiles?\b|\bfolders?\b|\bdirector(?:y|ies)\b|[\w/-]{1,80}\.[a-z]{1,5}\b)",
        r"(?:ファイル|フォルダー?|ディレクトリ|[\w/-]{1,80}\.[A-Za-z]{1,5})"
        r".{0,15}(?:作成|作って|削除|消して|移動|コピー|改名|名前.{0,4}変|書き込|保存|編集|追記)",
    ),
    _rule(
        TaskProfile.CODE_ANALYSIS,
        _STRONG,
        r"\b(?:analy[sz]e|review|audit|inspect|understand|walk me through)\b.{0,40}"
        r"\b(?:code|codebase|module|function|class|file|repo\w*|project|architecture|diff|pr)\b",
        r"\b(?:explain|describe|summari[sz]e)\b.{0,30}"
        r"(?:\bcode|\bcodebase|\bmodule|\bfunction|\brepo\w*|\barchitecture|[\w/-]{1,80}\.[a-z]{1,5}\b)",
        r"\bhow does\b.{1,60}\bwork\b",
        r"(?:コード|ソース|関数|クラス|モジュール|リポジトリ|設計|構造|アーキテクチャ|"
        r"[\w/-]{1,80}\.[A-Za-z]{1,5}).{0,15}(?:分析|解析|レビュー|説明|解説|読んで|要約|調べ)",
    ),
    _rule(
        TaskProfile.RESEARCH,
        _STRONG,
        r"\b(?:research|investigate|survey|gather information|collect sources|state of the art)\b",
        r"\bcompare\b.{1,80}\b(?:and|with|versus|vs)\b",
        r"(?:調査|リサーチ|情報.{0,4}集め|比較検討|比較して|文献|調べ上げ)",
    ),
    _rule(
        TaskProfile.CREATIVE_WRITING,
        _STRONG,
        r"\b(?:write|compose|draft|make up)\b.{0,30}\b(?:story|poem|haiku|essay|song|lyrics|"
        r"article|blog|speech|novel|scenario|dialogue|slogan)\b",
        r"(?:物語|小説|詩|俳句|短歌|エッセイ|歌詞|記事|シナリオ|脚本|スピーチ|キャッチコピー)"
        r".{0,12}(?:書|作|考え|つく|創)",
    ),
    _rule(
        TaskProfile.COMPLEX_REASONING,
        _STRONG,
        r"\b(?:prove|derive|deduce|trade-?offs?|pros and cons|design decision|optimi[sz]e|"
        r"think (?:it |this )?through|step by step)\b",
        r"(?:証明|導出|推論|トレードオフ|長所と短所|利点と欠点|最適化|じっくり考え|多角的|筋道)",
    ),
    _rule(
        TaskProfile.DEBUGGING,
        _WEAK,
        r"\b(?:bug|error|fix|wrong|broken)\b",
        r"バグ|エラー|直して|修正",
    ),
    _rule(
        TaskProfile.MULTI_STEP_TASK,
        _WEAK,
        r"\b(?:add|change|make|update|convert)\b",
        r"作って|追加|変更",
    ),
    _rule(TaskProfile.CODE_ANALYSIS, _WEAK, r"\b(?:explain|review|look at)\b", r"説明|解説|読んで"),
    _rule(TaskProfile.RESEARCH, _WEAK, r"\b(?:find out|look up|compare)\b", r"調べて|比較"),
    _rule(
        TaskProfile.GENERAL_CHAT,
        _STRONG,
        r"^\W*(?:hi|hello|hey|thanks?(?: you)?|good (?:morning|evening|night)|bye)\b.{0,20}$",
        r"^\W*ok(?:ay)?(?:\W+(?:then|thanks?|thank you|cool|great|good|fine|got it))*\W*$",
        r"^\W*(?:こんにちは|こんばんは|おはよう|ありがとう|はじめまして|やあ|お疲れ|さようなら).{0,12}$",
    ),
    _rule(
        TaskProfile.SIMPLE_QUESTION,
        _WEAK,
        # Asked for as a favour it is an order: "can you …?", 「…してくれますか」.
        r"^(?!\W*(?:(?:hi|hello|hey|ok|so|and)\W+)*(?:(?:can|could|would|will) you|please)\b)"
        r"(?!.*(?:くれ|もらえ|頂け|いただけ|下さい|ください)).{1,180}[?？]\s*$",
        r"(?:とは|って)(?:何|なに|なん)|(?:何|なに|いつ|どこ|誰|どれ|どう|なぜ)"
        r"[^。]{0,60}(?:[?？]|ですか|か。?)$",
        r"(?:ですか|(?<!くれ)(?<!もらえ)(?<!頂け)(?<!いただけ)ますか|でしょうか)[。?？]?\s*$",
    ),
)


def guess(text: str) -> ProfileGuess:
    """What the words of a request say about its kind; the same text always gives the same."""
    weights: dict[TaskProfile, int] = {}
    if len(text) > 2 * _END:  # what was pasted between says little, and can be megabytes
        text = f"{text[:_END]}\n{text[-_END:]}"
    for profile, weight, pattern in _RULES:
        if pattern.search(text):
            weights[profile] = weights.get(profile, 0) + weight
    if not weights:
        return ProfileGuess()
    best = max(weights, key=lambda profile: weights[profile])  # the first of equal ones
    return ProfileGuess(best, weights[best] >= _STRONG)


# --- what a request asks for, and what a reply claims --------------------------------------------

AskedFor = Literal[
    "change",  # something is to be other than it is
    "work",  # something is to be done, if only to look
    "words",  # an answer is all that is wanted
    "either",  # its words do not tell
]

_VERBS: Final = (
    r"(?:set|change|fix|repair|mend|update|rename|replace|remove|delete|edit|modify|refactor"
    r"|implement|install|upgrade|downgrade|revert|increase|decrease|raise|lower|bump|enable|disable"
    r"|migrate|append|insert|configure|adjust)"
)

_LEAD: Final = (
    r"\W*(?:(?:please|hi|hello|hey|ok(?:ay)?|so|and|but|now|then|also|just|first|next|sorry|thanks"
    r"|thank you|actually|well|yes|no)\b\W*)*"
)

_FAVOUR: Final = r"(?:(?:can|could|would|will) you (?:please |kindly )?)?"

#: A sentence that orders a change; of text that stands in the message an answer gives the new one.
_ORDERS: Final = re.compile(
    rf"{_LEAD}(?:{_FAVOUR}|i(?:['’]d like| want| need) you to |let['’]?s |go ahead and "
    rf"|(?:you|we) (?:should|must|have to|need to) ){_VERBS}\b"
    rf"|.*(?:\band|\bthen|[,;])\s+(?:then |please |also |now )*{_VERBS}"
    r"\s+(?:it|them|this|that|these|those|the)\b"
    r"|(?!\W*(?:i|we|you|it)\b).*\b(?:should|must|ha(?:s|ve) to|needs? to|ought to)\b(?: \w+){0,2}"
    r" (?:be|have|return|use|become|equal|say|read|print|contain|show|default)\b"
    r".*(?:[\d\"'`_/=]|\b(?:true|false|none|null|on|off)\b)"
    r"|.*(?:(?:変更|設定|修正|更新|削除|追加|実装|置換|改名|移動|有効化|無効化)"
    r"(?:して|する|せよ|しろ|お願い)|(?:直して|変えて|消して|書き換えて|置き換えて))"
    r"|.*[\w」\"'](?<![ぁ-んァ-ン一-龥])\s*に(?:して|したい|すべき|してほしい|する(?:こと|ように))"
    r"|.*(?:に|で)(?:ある|なる|する)?べき",
    re.IGNORECASE,
)

_OWN_TEXT: Final = re.compile(
    r"\b(?:this|my|the following|your|that) (?:\w+ )?(?:sentences?|text|words?|paragraph|poem|joke"
    r"|story|answer|reply|explanation|summary|translation|list|tone|topic|subject|query|snippet)\b"
    r"|(?:この|次の|以下の|その)(?:文|文章|単語|詩|回答|説明|要約|訳)",
    re.IGNORECASE,
)

#: A sentence that wants an answer; a question about doing something may be an order.
_WANTS_WORDS: Final = re.compile(
    rf"{_LEAD}(?:(?:why(?! (?:don['’]?t|not)\b)|what(?! (?:if|about)\b)|how(?! about\b)|where|when"
    r"|which|who|whose|should|is(?! it possible)|are(?! you able)|was|were|am|do(?! you mind)|does"
    r"|did|has|have|had)\b.*[?？]\W*"
    rf"|{_FAVOUR}(?:tell|explain|describe|say|repeat|summari[sz]e|translate|compare|recommend"
    r"|suggest|propose|answer|think|write (?:me )?an? \w+|compose|show me|walk me)\b.*)"
    r"|.*(?:何|なに|なん|どこ|いつ|誰|なぜ|どうして|どう|どれ|どの|いくつ)"
    r"(?!.*(?:くれ|もらえ|頂け|いただけ|下さい|ください|ほしい)).*(?:の|か|い)[。?？]*\W*"
    r"|.*(?:教えて|説明|解説|要約|訳して|翻訳|話して|聞かせ|述べて|言って|考えて|挙げて|比較|提案).*"
    r"|.*(?:した|する|ある|です|でしょう)か[。?？]*\W*",
    re.IGNORECASE,
)

_THEN: Final = re.compile(
    rf"(?:\band|[,;]) (?:then |please )*{_VERBS} (?:it|them|this|that)\b", re.IGNORECASE
)

#: A later word that takes back what was asked for before it.
_DROPS: Final = re.compile(
    r"\b(?:leave (?:it|that|this|them|everything|all)|never ?mind|forget (?:it|that|about|all)"
    r"|cancel|do(?: not|n['’]?t)|stop|no longer|skip|undo|instead|no need)\b"
    r"|やめ|止め|そのまま|中止|不要|いらない|しないで|取り消",
    re.IGNORECASE,
)

_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")

#: A sentence that wants something looked at.
_LOOKS: Final = re.compile(
    rf"{_LEAD}{_FAVOUR}(?:review|look|check|read|analy[sz]e|inspect|investigate|research|find|search"
    r"|list|show|count|verify|run|test)\b"
    r"|.*(?:見て|読んで|調べ|確認|レビュー|実行)",
    re.IGNORECASE,
)

_ANSWERED: Final = (
    *(TaskProfile.CODE_ANALYSIS, TaskProfile.RESEARCH),
    *(TaskProfile.CREATIVE_WRITING, TaskProfile.COMPLEX_REASONING),
)

_WORK: Final = (TaskProfile.DEBUGGING, TaskProfile.FILE_OPERATION, TaskProfile.MULTI_STEP_TASK)

#: A reply that says that it was so before, or that nothing is to be changed.
NO_CHANGE: Final = re.compile(
    r"\balready\b|\bnothing\b|\bno changes?\b|\bnot? need"
    r"|すでに|既に|必要(?:は|が)?(?:ない|ありません)",
    re.IGNORECASE,
)

#: A reply that says of a change that it was made.
_MADE: Final = re.compile(
    r"\b(?:I|we)(?:['’]ve| have)?(?: (?:now|just|also|successfully|then))*"
    r" (?:set|changed|fixed|repaired|mended|updated|renamed|replaced|removed|deleted|edited"
    r"|modified|refactored|implemented|installed|upgraded|reverted|increased|decreased|raised"
    r"|lowered|bumped|enabled|disabled|migrated|appended|inserted|configured|adjusted|added"
    r"|created|wrote|written|made|moved|applied|corrected|put|saved)\b(?! nothing)"
    r"|\b(?:has|have|had) been (?:\w+ed|set|put|made|written)\b"
    r"|(?:変更|設定|修正|追加|更新|削除|作成|実装|置換|改名|移動|保存|対応|適用)"
    r"(?:いた)?(?:しました|済み|を?完了|しておきました)(?!か)"
    r"|(?:書き換え|置き換え|変え|直し|消し)(?:ておき)?ました(?!か)|に(?:しました|なりました)(?!か)",
    re.IGNORECASE,
)

#: One that says that all is well, and gives nothing else.
_DONE: Final = re.compile(
    r"\W*(?:it['’]s |all |that['’]s |everything['’]s )?(?:done|set|finished|ready|completed?|fixed"
    r"|updated|changed)\b|.*\b(?:is|are) (?:now\b|.{1,30} now\b)"
    r"|\W*(?:ja, |ist )?(?:erledigt|fertig|gemacht)\b"
    r"|.*(?:完了|できました|終わりました|なっています)"
    r"|\W*(?:ok(?:ay)?|sure|yes|really|right|will do|got it|certainly|of course|no problem|はい"
    r"|了解(?:です|しました)?|承知(?:しました)?)?\W*\Z",
    re.IGNORECASE,
)


def asked_for(texts: Sequence[str], reply: str = "") -> AskedFor:
    """What the user's words on one request ask for, oldest first, as far as code can tell; a later
    word may take back what came before it. Where they do not tell, a ``reply`` that claims a
    change, or that all is done, says what it took them for.
    """
    orders, wants_words, looks, works = False, True, False, False
    for number, text in enumerate(texts):
        if len(text) > 2 * _END:
            text = f"{text[:_END]}\n{text[-_END:]}"
        rules = guess(text)
        if number and _DROPS.search(text):
            orders, looks, works = False, False, False
        for sentence in filter(str.strip, _SENTENCES.split(text)):
            asks = _WANTS_WORDS.fullmatch(sentence)
            ordered = _THEN.search(sentence) if asks else _ORDERS.match(sentence)
            orders = orders or (ordered is not None and not _OWN_TEXT.search(sentence))
            looks = looks or rules.profile in _ANSWERED or bool(_LOOKS.match(sentence))
            if not asks and rules.profile is not TaskProfile.GENERAL_CHAT:
                wants_words, works = False, works or (rules.strong and rules.profile in _WORK)
    if orders or wants_words:
        return "change" if orders else "words"
    if reply.strip() and not works:
        works = bool(_DONE.match(reply))
        if _MADE.search(reply) and not NO_CHANGE.search(reply):
            return "work" if looks else "change"
    return "work" if works else "either"


def chosen(
    user: TaskProfile | None, model: TaskProfile | None, rules: ProfileGuess
) -> tuple[TaskProfile | None, ChosenBy]:
    """The kind and who chose it: the user before the model, the model before the rules, unless
    it calls small talk what is clearly an order. None: unknown.
    """
    if user is not None:
        return user, "user"
    work = rules.strong and rules.profile not in TALK
    if model is not None and not (work and model in TALK):
        return model, "model"
    return rules.profile, "rules"
