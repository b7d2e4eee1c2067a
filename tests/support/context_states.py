"""What fills a window, for pictures and tests: requests in figures and in text, a compaction."""

from __future__ import annotations

from typing import Final

from support.app_states import FakeEngine, store_with
from support.conversations import REPLY, REPLY_JA, assistant, user
from support.pinned import ManualClock

from duckflow_tui.state.memory import Compaction, ContextCompacted, PreservedContext
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import (
    LlmCall,
    LlmCallFinished,
    PromptFigures,
    PromptMeasured,
    PromptParts,
    Purpose,
)
from duckflow_tui.work.requests import SentPart

NOW: Final = ManualClock().now()
LAST: Final = "llm_00000009"


def figures(number: int, purpose: Purpose = "main", **fields: object) -> PromptFigures:
    """A request of the turn ``number``; the conversation grows by 5,000 tokens each turn."""
    if purpose == "main":
        parts = PromptParts(
            base=620,
            operations=3_400,
            project=1_150,
            pinned=240,
            files=1_000 + 3_000 * number,
            results=800 + 1_200 * number,
            chat=500 + 800 * number,
            tail=610,
        )
    else:
        parts = PromptParts(base=320, tail=1_900)
    values: dict[str, object] = {
        "llm_id": f"llm_{number:08x}",
        "purpose": purpose,
        "turn_id": f"turn_{number:08x}",
        "parts": parts,
        "window": 200_000,
        "shared": 0 if number == 1 or purpose != "main" else 5_170 + 4_600 * number,
        "at": NOW - 60 * (10 - number),
    }
    return PromptFigures.model_validate(values | fields)


def counted(store: Store, number: int, tokens: int) -> None:
    """The endpoint says how many tokens the request had."""
    call = LlmCall(
        llm_id=f"llm_{number:08x}",
        role="main",
        purpose="main",
        endpoint="local",
        model="gpt-5-mini",
        tokens_in=tokens,
        tokens_out=200,
    )
    store.dispatch(LlmCallFinished(call=call))


def asked(language: str = "en", *, waits: bool = False) -> Store:
    """Turns with requests, the newest of them counted unless its answer is awaited."""
    store = store_with()
    ask = "割引を直して" if language == "ja" else "Fix the discounts."
    store.state.messages += [user(ask), assistant(REPLY_JA if language == "ja" else REPLY, 1)]
    for number in range(1, 8):
        store.dispatch(PromptMeasured(figures=figures(number)))
        counted(store, number, figures(number).tokens - 400)
    store.dispatch(PromptMeasured(figures=figures(8, "satisfaction")))
    store.dispatch(PromptMeasured(figures=figures(9)))
    if not waits:
        counted(store, 9, 51_840)
    return store


def texts(language: str = "en") -> tuple[SentPart, ...]:
    """What was sent, in parts."""
    ja = language == "ja"
    return (
        SentPart("base", "system", "", "You are the user's pair programmer.\n\nRules …", 620),
        SentPart("operations", "tools", "", '{"function":{"name":"decide"}}', 2_900),
        SentPart("operations", "system", "", "# Operations\nfile_ops.read_file …", 500),
        SentPart("project", "system", "", "<project_instructions>\nUse ruff.\n", 1_150),
        SentPart("chat", "user", "", "割引を直して" if ja else "Fix the discounts.", 8),
        SentPart("chat", "assistant", "", "I look at the code.", 12),
        SentPart(
            "files",
            "tool",
            "file_ops.read_file",
            "[src/shop/pricing.py: lines 1-38 of 38]\n"
            + "\n".join(f"line {n} \x1b[31m of the file" for n in range(60)),
            28_000,
        ),
        SentPart("results", "tool", "shell.run", "exit 1 · 1.9s\n1 failed, 11 passed", 9_000),
        SentPart("tail", "user", "", "# Now\nPhase EXECUTION, status IN_PROGRESS\n", 850),
    )


def compaction(language: str = "en", **fields: object) -> Compaction:
    """A compaction by itself, with a digest."""
    ja = language == "ja"
    kept = PreservedContext(
        goal="合計を正しく保つ" if ja else "Keep the totals right",
        requirements=(
            ("レシートに割引をすべて示す", "テストがすべて通る")
            if ja
            else ("The receipt shows every discount", "All tests pass")
        ),
        constraints=("依存を増やさない",) if ja else ("no new packages",),
        decisions=("割引は順に適用する",) if ja else ("discounts apply one after the other",),
        plan="割引の修正 2/5" if ja else "Mend the discounts 2/5",
        gates=(),
    )
    digest = (
        "- pricing.py の total は割引を足していた。順に適用するよう直した。\n"
        "- cart.py の cap は未使用。消すかは未決定。"
        if ja
        else "- total in src/shop/pricing.py summed the rates; it applies them in turn now.\n"
        "- cap in cart.py is not used; whether it goes is open.\n- 12 tests pass."
    )
    values: dict[str, object] = {
        "compaction_id": "compact_00000001",
        "by": "auto",
        "begins_at": "u0",
        "digest": digest,
        "kept": kept,
        "exchanges": 14,
        "messages": 61,
        "results": 33,
        "tokens_before": 118_400,
        "tokens_after": 42_150,
        "at": NOW,
    }
    return Compaction.model_validate(values | fields)


def compacted(language: str = "en", **fields: object) -> Store:
    """A conversation with a compaction in it."""
    store = asked(language)
    event = ContextCompacted(compaction=compaction(language, **fields), message_id="msg_000000c1")
    store.dispatch(event)
    store.state.messages.append(user("次へ" if language == "ja" else "Go on.", 2))
    return store


def engine(store: Store, language: str = "en") -> FakeEngine:
    """An engine that remembers what the newest request was made of."""
    fake = FakeEngine(store)
    fake.context.texts = {LAST: texts(language)}
    return fake
