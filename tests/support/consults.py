"""Work that is stuck, at its limit or judged: consultations, reports, budgets and reviews."""

from __future__ import annotations

from typing import Any, Final

from support.app_states import store_with, turn_started
from support.conversations import START, assistant, user

from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Message
from duckflow_tui.state.decision import Check
from duckflow_tui.state.gates import (
    BUDGET_OPTIONS,
    CONSULTATION_OPTIONS,
    DECLINE,
    ESCALATION_OPTIONS,
    LEAVE_OUT,
    OPEN_PAGE,
    TELL,
    Card,
    CardKind,
    make_question_options,
)
from duckflow_tui.state.goal import (
    AttemptMessage,
    Evidence,
    ExecutionPlan,
    FailureAnalysis,
    MissingItem,
    RequirementItem,
    RequirementState,
    Review,
    ReviewMessage,
    SatisfactionEvaluation,
    SituationReport,
)
from duckflow_tui.state.operations import OperationResult, Outcome
from duckflow_tui.state.pace import Pattern, Reason, Situation, Tried
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import UsageTotals

NOW: Final = 1_750_000_000.0  # what the clock of the tests says
RUN, READ = "call_00000003", "call_00000004"

_EN: Final = {
    "which": "The receipt needs fractions of a cent. How should they be kept?",
    "library": "decimal, which is in the standard library",
    "order": "Your order is almost complete.",
    "count": "How many ducks",
    "count_about": "Ten fit into one box.",
    "sign_in": "Sign in to see your orders.",
    "own": "whole numbers of a tenth of a cent",
    "ask": "The total is wrong when two discounts apply. Fix it, and add a test.",
    "reply": "The rates are added before they are applied. I apply them one after the other.",
    "run": "shell.run pytest -q tests/test_pricing.py: 1 failed",
    "read": "file_ops.read_file src/shop/pricing.py",
    "edit": "file_ops.edit_file src/shop/pricing.py: old text not found",
    "reached": "the failing test is found and repeats every time",
    "view": "A fixture sets the price anew before each test, so the edit never shows.",
    "one": "Two discounts are applied one after the other",
    "two": "A test covers two discounts",
    "three": "The README says how discounts add up",
    "missing": "no test with two discounts",
    "missing_too": "the README is as it was",
    "quality": "The calculation is right, but nothing holds it: no test covers two discounts.",
    "strategy": "Write the test for two discounts first, then the lines in the README.",
    "keep": "the public function names stay",
    "avoid": "change the fixture so that the old test passes",
    "cause": "The test file is outside of what the workspace lets it write.",
    "fix": "Allow tests/ in the settings, or name another place for the test.",
    "found": "total() adds the rates before it applies them; receipt() calls it once per line",
}
_JA: Final = {
    "which": "レシートでは 1 セント未満の端数を扱います。どう持ちますか。",
    "library": "標準ライブラリの decimal を使う",
    "order": "ご注文はもうすぐ完了です。",
    "count": "アヒルの数",
    "count_about": "一箱に 10 羽入ります。",
    "sign_in": "注文を見るにはサインインしてください。",
    "own": "0.1 セント単位の整数にする",
    "ask": "割引が二つ重なると合計がおかしくなります。直して、テストも追加してください。",
    "reply": "割引率が足し合わされてから適用されています。一つずつ適用します。",
    "run": "shell.run pytest -q tests/test_pricing.py: 1 failed",
    "read": "file_ops.read_file src/shop/pricing.py",
    "edit": "file_ops.edit_file src/shop/pricing.py: 置き換える文が見つかりません",
    "reached": "失敗するテストを突き止め、必ず再現できる",
    "view": "フィクスチャが毎回価格を設定し直すため、編集が結果に出ません。",
    "one": "二つの割引が一つずつ順に適用される",
    "two": "二重割引のテストがある",
    "three": "README に割引の重なり方の説明がある",
    "missing": "二重割引のテストがない",
    "missing_too": "README が元のまま",
    "quality": "計算は正しいものの、二重割引のテストがなく裏付けがありません。",
    "strategy": "先に二重割引のテストを書き、それから README に説明を足す。",
    "keep": "公開している関数名は変えない",
    "avoid": "フィクスチャを変えて古いテストを通す",
    "cause": "テストの置き場所が書き込みを許された範囲の外にあります。",
    "fix": "設定で tests/ を許可するか、別の場所を指定する。",
    "found": "total() は割引率を足してから適用し、receipt() は行ごとに一度だけ呼ぶ",
}
_CAUSES: Final = {
    Pattern.STAGNATION: ("same_action", "repeats_call"),
    Pattern.LOW_CONFIDENCE: ("mood_low", "unsure"),
    Pattern.CONFUSION: ("focus_low", "self_contradiction"),
    Pattern.TOO_MANY_TRIES: ("stamina_low", "operations_fail"),
    Pattern.LIMIT: ("limit", "long_but_moving"),
}
_SIGNS: Final = {
    Pattern.LOW_CONFIDENCE: "unsure outcomes",
    Pattern.CONFUSION: "repeat check_no",
    Pattern.TOO_MANY_TRIES: "failed",
}


def said(language: str = "en") -> dict[str, str]:
    """The words of the model and of the user in a language."""
    return _JA if language == "ja" else _EN


def situation(pattern: Pattern, language: str = "en", **fields: Any) -> Situation:
    """What a consultation of that pattern tells."""
    say = said(language)
    cause, hypothesis = _CAUSES[pattern]
    at_limit = pattern is Pattern.LIMIT
    signs = _SIGNS.get(pattern, "")
    values: dict[str, Any] = {
        "pattern": pattern,
        "cause": Reason(
            code=cause, params={"operation": "shell.run", "what": "pytest -q", "signs": signs}
        ),
        "loop": 14 if at_limit else 6,
        "limit": 14,
        "tried": (
            Tried(text=say["run"], ref=RUN, times=4),
            Tried(text=say["read"], ref=READ, went_well=True, times=2),
            Tried(text=say["edit"], ref="msg_gone"),
        ),
        "tried_before": 9 if at_limit else 0,
        "achieved": (say["reached"], say["one"]) if at_limit else (say["reached"],),
        "read": 11 if at_limit else 0,
        "hypothesis": Reason(code=hypothesis),
        "hypothesis_said": "" if at_limit else say["view"],
    }
    return Situation(**(values | fields))


def consultation(pattern: Pattern, language: str = "en", **fields: Any) -> Card:
    """The question how the work should go on."""
    options = CONSULTATION_OPTIONS[pattern]
    about = situation(pattern, language, **fields)
    return _card(CardKind.CONSULTATION, options, situation=about)


def report(language: str = "en", **fields: Any) -> SituationReport:
    """What is told when three attempts were not enough."""
    say = said(language)
    values: dict[str, Any] = {
        "original_query": say["ask"],
        "attempts": 3,
        "max_attempts": 3,
        "score": 0.62,
        "missing": (say["missing"], say["missing_too"]),
        "collected": (("src/shop/pricing.py", say["found"]), ("pytest -q", "1 failed, 11 passed")),
        "quality": say["quality"],
    }
    return SituationReport(**(values | fields))


def escalation(language: str = "en", *, analysed: bool = False, **fields: Any) -> Card:
    """The question what should become of the task; with the analysis the user asked for."""
    say = said(language)
    analysis = FailureAnalysis(cause=say["cause"], fix=say["fix"])
    about = report(language, **({"analysis": analysis} if analysed else {}), **fields)
    return _card(CardKind.ESCALATION, ESCALATION_OPTIONS, escalation=about)


def budget() -> Card:
    """The question whether a hard limit may be raised."""
    facts = {
        "what": "cost",
        "limit": "0.50",
        "used": "0.47",
        "next": "0.05",
        "purpose": "satisfaction",
        "raise_to": "1.00",
    }
    return _card(CardKind.BUDGET, BUDGET_OPTIONS, facts=facts)


def question(language: str = "en", *, approval: bool = False) -> Card:
    """A question of the model with two answers; ``approval``: it waits for a yes."""
    say = said(language)
    options = make_question_options((say["library"], say["own"]), approval=approval)
    return _card(CardKind.QUESTION, options, question=say["which"])


def server_field(language: str = "en") -> Card:
    """A question of a tool server: the second field of a form, answered wrong once."""
    say = said(language)
    facts = {
        "server": "shop",
        "field": say["count"],
        "about": say["count_about"],
        "place": "2/3",
        "wants": "integer",
        "least": "1",
        "most": "10",
        "default": "2",
        "wrong": "many",
    }
    options = (TELL, LEAVE_OUT, DECLINE)
    return _card(CardKind.SERVER, options, question=say["order"], facts=facts)


def server_page(language: str = "en") -> Card:
    """A page that a tool server wants to be opened."""
    say = said(language)
    url = "https://login.example.org/authorize?client_id=duckflow&state=1f3a"
    facts = {"server": "shop", "host": "login.example.org", "url": url}
    return _card(CardKind.SERVER, (OPEN_PAGE, DECLINE), question=say["sign_in"], facts=facts)


def _card(kind: CardKind, options: Any, **fields: Any) -> Card:
    card_id = f"card_{kind}"
    return Card(
        card_id=card_id, kind=kind, subject=card_id, options=options, opened_at=NOW, **fields
    )


# --- reviews --------------------------------------------------------------------------------------


def requirements(language: str = "en", *, met: int = 1) -> tuple[RequirementItem, ...]:
    """Three requirements, the first ``met`` of them met; the next is refuted by its command."""
    say = said(language)
    passed = Evidence(
        kind="command", text="12 passed in 0.31s", source="pytest -q", exit_code=0, at=NOW
    )
    broken = Evidence(
        kind="command",
        text="collected 11 items\nERROR: file or directory not found: tests/test_two.py",
        source="pytest -q tests/test_two.py",
        supports=False,
        exit_code=4,
        at=NOW,
    )
    wrote = Evidence(
        kind="file", text="Discounts are applied one after the other.", source="README.md", at=NOW
    )
    judged = Evidence(kind="reply", text=say["missing_too"], supports=False, at=NOW)
    seen = ((passed,), (passed,) if met > 1 else (broken,), (wrote,) if met > 2 else (judged,))
    levels = (1.0, 1.0 if met > 1 else 0.0, 0.8 if met > 2 else 0.4)
    states = (
        RequirementState.MET,
        RequirementState.MET if met > 1 else RequirementState.REFUTED,
        RequirementState.MET if met > 2 else RequirementState.PARTLY,
    )
    checks = (
        Check(kind="command", value="pytest -q"),
        Check(kind="command", value="pytest -q tests/test_two.py"),
        Check(),
    )
    return tuple(
        RequirementItem(
            requirement_id=f"req_{n}",
            requirement=say[name],
            satisfaction_level=levels[n],
            evidence=seen[n],
            priority=n + 1,
            state=states[n],
            check=checks[n],
        )
        for n, name in enumerate(("one", "two", "three"))
    )


def review(language: str = "en", **fields: Any) -> Review:
    """A review that goes on: one of three requirements is met."""
    say = said(language)
    values: dict[str, Any] = {
        "review_id": "review_1",
        "attempt": 1,
        "max_attempts": 3,
        "score": 0.62,
        "done": False,
        "follows": True,
        "items": requirements(language),
        "missing": (
            MissingItem(what=say["missing"]),
            MissingItem(what=say["missing_too"], priority=3),
        ),
        "evaluation": SatisfactionEvaluation(overall_score=0.62, quality_assessment=say["quality"]),
    }
    return Review(**(values | fields))


def done(language: str = "en") -> Review:
    """A review that ends the work."""
    items = requirements(language, met=3)
    return review(
        language,
        attempt=2,
        score=0.93,
        done=True,
        follows=False,
        rests_on="tests",
        items=items,
        missing=(),
        evaluation=None,
    )


def overruled(language: str = "en") -> Review:
    """The evaluator found it good; a command did not, and another could not be run."""
    return review(
        language,
        score=0.5,
        overruled=("req_1",),
        unchecked=("req_2",),
        evaluation=SatisfactionEvaluation(
            overall_score=1.0, quality_assessment=said(language)["quality"]
        ),
    )


def reviewed(about: Review) -> ReviewMessage:
    """The review in the chat."""
    return ReviewMessage(message_id=f"msg_{about.review_id}", review=about, at=START)


def attempt(language: str = "en", **fields: Any) -> AttemptMessage:
    """The second of three attempts."""
    say = said(language)
    plan = ExecutionPlan(
        strategy=say["strategy"], constraints=(say["keep"],), avoid_strategies=(say["avoid"],)
    )
    values: dict[str, Any] = {
        "message_id": "msg_attempt",
        "attempt": 2,
        "max_attempts": 3,
        "plan": plan,
        "at": START,
    }
    return AttemptMessage(**(values | fields))


# --- a session ------------------------------------------------------------------------------------


def ran(call_id: str, name: str, value: str, outcome: Outcome, summary: str) -> OperationMessage:
    """A call that ended."""
    key = "command" if name == "shell.run" else "path"
    result = OperationResult(outcome=outcome, text=summary, summary=summary, duration_s=1.9)
    return OperationMessage(
        call_id=call_id, operation=name, args={key: value}, result=result, at=START
    )


def talk(language: str = "en") -> list[Message]:
    """What was said and done so far."""
    say = said(language)
    return [
        user(say["ask"]),
        assistant(say["reply"], 1),
        ran(READ, "file_ops.read_file", "src/shop/pricing.py", Outcome.OK, "38 lines"),
        ran(RUN, "shell.run", "pytest -q tests/test_pricing.py", Outcome.ERROR, "1 failed"),
    ]


def at_work(language: str = "en", *cards: Card, more: tuple[Message, ...] = ()) -> Store:
    """A turn in its sixth loop, with these cards open."""
    store = store_with(turn_started(loop=6))
    state = store.state
    state.messages += [*talk(language), *more]
    state.phase, state.status = Phase.EXECUTION, Status.IN_PROGRESS
    if cards:
        state.status = Status.REQUIRES_USER_INPUT
    state.cards = cards
    state.usage = UsageTotals(
        calls=6, tokens_in=90_000, cost=0.03, last_context=42_000, context_window=200_000
    )
    return store
