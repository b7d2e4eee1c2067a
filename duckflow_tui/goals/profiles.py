"""Which kind of request it is: rules in English and Japanese, the guard of the model's choice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.state.decision import TaskProfile

if TYPE_CHECKING:
    from duckflow_tui.goals.pacemaker import ChosenBy

#: Kinds that need no work: a model that says so of a clear order is overruled.
TALK: Final = frozenset({TaskProfile.SIMPLE_QUESTION, TaskProfile.GENERAL_CHAT})


_STRONG: Final = 3

_WEAK: Final = 1

_END: Final = 2000  # characters of a long request that are looked at, of its start and of its end


@dataclass(frozen=True, slots=True)
class ProfileGuess:
    """What the rules make of a request; ``strong`` where its words leave little doubt."""

    profile: TaskProfile | None = None
    strong: bool = False


@dataclass(frozen=True, slots=True)
class _Rule:
    """A sign for a kind. Of two kinds with the same weight the earlier rule decides."""

    profile: TaskProfile
    weight: int
    pattern: re.Pattern[str]


def _rule(profile: TaskProfile, weight: int, *patterns: str) -> _Rule:
    return _Rule(profile, weight, re.compile("|".join(patterns), re.IGNORECASE))


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
        r"^\W*(?:hi|hello|hey|thanks?(?: you)?|good (?:morning|evening|night)|bye|ok(?:ay)?)\b"
        r".{0,20}$",
        r"^\W*(?:こんにちは|こんばんは|おはよう|ありがとう|はじめまして|やあ|お疲れ|さようなら).{0,12}$",
    ),
    _rule(
        TaskProfile.SIMPLE_QUESTION,
        _WEAK,
        r"^\W*(?:what|which|who|when|where|why|how|is|are|does|do|can|could|should)\b.{0,160}\?\s*$",
        r"(?:とは|って)(?:何|なに|なん)|(?:何|なに|いつ|どこ|誰|どれ|どう|なぜ)"
        r"[^。]{0,60}(?:[?？]|ですか|か。?)$",
        r"(?:ですか|ますか|でしょうか)[。?？]?\s*$",
    ),
)


def guess(text: str) -> ProfileGuess:
    """What the words of a request say about its kind; the same text always gives the same."""
    weights: dict[TaskProfile, int] = {}
    if len(text) > 2 * _END:  # what was pasted between says little, and can be megabytes
        text = f"{text[:_END]}\n{text[-_END:]}"
    for rule in _RULES:
        if rule.pattern.search(text):
            weights[rule.profile] = weights.get(rule.profile, 0) + rule.weight
    if not weights:
        return ProfileGuess()
    best = max(weights, key=lambda profile: weights[profile])  # the first of equal ones
    return ProfileGuess(best, weights[best] >= _STRONG)


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


GoesOn = Literal["all", "begins", "no"]


_WORDS: Final = (
    r"continue|go on|go ahead|carry on|keep going|proceed|resume|try (?:it )?again|once more|retry"
    r"|(?:mach |bitte )?weiter(?:machen)?"
)

_WORDS_JA: Final = (
    r"(?:作業を|処理を)?(?:続けて|つづけて|続行|再開|進めて|もう一度|やり直して|続き)"
    r"(?:して)?(?:を)?(?:ください|下さい|くれ|お願い(?:します)?|頼む)?"
)

_POLITE: Final = r"(?:please|now|then|ok(?:ay)?|yes|bitte|ja|はい|では)"

_BEGINS: Final = re.compile(
    rf"\W*(?:{_POLITE}\W+)*(?:(?:{_WORDS})\b|{_WORDS_JA})(?:\W*{_POLITE}\b)*", re.IGNORECASE
)


def goes_on(text: str) -> GoesOn:
    """``all``: it says nothing else; ``begins``: it begins so, and more words follow."""
    found = _BEGINS.match(text)
    if found is None:
        return "no"
    return "all" if not re.search(r"\w", text[found.end() :]) else "begins"
